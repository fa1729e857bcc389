"""Whether an answer is what a step expected: one pure function, asked by the engine (to go on, retry or stop) and by
the findings room (to judge), so that the two can never differ.

The document that JSON pointers point into is the raw `result`; two synthetic roots stand beside its keys: `/$text`, all
text blocks joined by a newline, and `/$json`, that text parsed as JSON. For a JSON-RPC error the document is the
`error` object and the text its message.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from harness.model.bounded import BudgetExceeded, validate
from harness.model.plan import CaptureSpec, ExpectSpec

__all__ = [
    "ERROR_LOOKING",
    "MATCH_TIMEOUT_S",
    "Answer",
    "Comparison",
    "Missing",
    "answer_of",
    "capture",
    "compare",
    "compare_prompts",
    "cut",
    "cut_json",
    "expect_from_json",
    "expect_to_json",
    "is_refusal_expected",
    "is_text_expected",
    "looks_like_an_error",
    "mismatches",
    "resolve_pointer",
    "same_json",
]

MATCH_TIMEOUT_S = 2.0
MAX_PROMPTS_QUOTED = 5

ERROR_LOOKING = regex.compile(
    r"""\A[^\w{\["'<]*(?:
        error\b (?! \s+ (?:budgets?|codes?|counts?|handl\w+|logs?|logging|messages?|monitoring|pages?|rates?
                          |reports?|reporting|track\w+|types?)\b)
      | (?:an?\s+)? (?:\w+\s+)? (?:error|exception)\s*(?:[:\-–]|\(|\b(?:while|occurred)\b)
      | (?:\w+(?:Error|Exception)) \s* [:(]
      | failed \s+ to \b | failure \s* :
      | traceback \s \(most \s recent
      | (?:unauthorized|forbidden|access\ denied|permission\ denied|connection\ refused)\b
      | (?:http\s*)? [45]\d\d \s+
        (?:bad\ request|unauthorized|forbidden|not\ found|internal\ server\ error|bad\ gateway)
    )""",
    regex.IGNORECASE | regex.VERBOSE,
)


class Missing(LookupError):
    """A JSON pointer leads nowhere; `args[0]` is the pointer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer of the server, taken apart.

    Attributes:
        result: The `result` object as it came, or None where the answer is a JSON-RPC error.
        error: The `error` object, or None.
        well_formed: Whether it has the shape that its method demands (`problem` says what is wrong else).
    """

    result: Any
    error: Any
    problem: str = ""

    @property
    def is_error(self) -> bool:
        """An `isError` result or a JSON-RPC error."""
        return self.error is not None or (isinstance(self.result, Mapping) and self.result.get("isError") is True)

    @property
    def text(self) -> str:
        """The text that expectations are matched against."""
        if self.error is not None:
            return str(self.error.get("message", "")) if isinstance(self.error, Mapping) else ""
        return "\n".join(_texts(self.result))

    @property
    def document(self) -> Any:
        """What JSON pointers point into, synthetic roots included."""
        if self.error is not None:
            base = dict(self.error) if isinstance(self.error, Mapping) else {}
        else:
            base = dict(self.result) if isinstance(self.result, Mapping) else {}
        text = self.text
        base["$text"] = text
        with contextlib.suppress(ValueError, RecursionError):
            base["$json"] = json.loads(text)
        return base


def _texts(result: Any) -> list[str]:
    if not isinstance(result, Mapping):
        return []
    found: list[str] = []
    for key in ("content", "contents", "messages"):
        blocks = result.get(key)
        if not isinstance(blocks, list):
            continue
        for block in blocks:
            inner = block.get("content") if key == "messages" and isinstance(block, Mapping) else block
            for item in inner if isinstance(inner, list) else [inner]:
                if isinstance(item, Mapping) and isinstance(item.get("text"), str):
                    found.append(item["text"])
    return found


def answer_of(action: str, message: Mapping[str, Any]) -> Answer:
    """The answer in a JSON-RPC response object.

    Args:
        action: "call", "read_resource" or "get_prompt"; it decides which shape is well formed.
    """
    if "error" in message:
        error = message["error"]
        bad = (
            not isinstance(error, Mapping)
            or not _is_int(error.get("code"))
            or not isinstance(error.get("message"), str)
        )
        return Answer(
            None, error if isinstance(error, Mapping) else {}, "error without code and message" if bad else ""
        )
    result = message.get("result")
    if not isinstance(result, Mapping):
        return Answer(result, None, f"result is {_name(result)}, not an object")
    key = {"call": "content", "read_resource": "contents", "get_prompt": "messages"}.get(action)
    if key is None:
        return Answer(result, None)
    blocks = result.get(key)
    if not isinstance(blocks, list):
        return Answer(result, None, f"result.{key} is {_name(blocks) if key in result else 'absent'}, not an array")
    for index, block in enumerate(blocks):
        if not isinstance(block, Mapping):
            return Answer(result, None, f"result.{key}[{index}] is {_name(block)}, not an object")
        if key == "content" and not isinstance(block.get("type"), str):
            return Answer(result, None, f"result.content[{index}] has no type")
        if key == "content" and block.get("type") == "text" and not isinstance(block.get("text"), str):
            return Answer(result, None, f"result.content[{index}] is of type text and has no text")
    if "isError" in result and not isinstance(result["isError"], bool):
        return Answer(result, None, f"result.isError is {_name(result['isError'])}, not a boolean")
    return Answer(result, None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer beside an expectation, a sentence for each thing: in what it differs, and what could not be told."""

    wrong: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


def mismatches(expect: ExpectSpec, answer: Answer, prompts: Sequence[str] = ()) -> tuple[str, ...]:
    """Everything that keeps the answer from being as expected; empty when all of it holds.

    What could not be told counts too: nobody may go on as if it held.
    """
    found = compare(expect, answer, prompts)
    return (*found.wrong, *found.undecided)


def compare(expect: ExpectSpec, answer: Answer, prompts: Sequence[str] = ()) -> Comparison:
    """The answer beside the expectation; what would take longer than its bounds is left undecided.

    Args:
        prompts: Messages of the elicitations that came before it, in order.
    Raises:
        regex.error: `text_matches` cannot be read.
    """
    out: list[str] = []
    undecided: list[str] = []
    wanted = expect.is_error if expect.is_error is not None else (expect.code is not None)
    if wanted and not answer.is_error:
        out.append(f"expected an error, got a success: {cut(answer.text)}")
    elif not wanted and answer.is_error:
        what = f"error {answer.error.get('code')}" if answer.error is not None else "isError"
        out.append(f"expected a success, got {what}: {cut(answer.text)}")
    if expect.code is not None:
        code = answer.error.get("code") if answer.error is not None else None
        if code != expect.code:
            out.append(f"expected JSON-RPC error {expect.code}, got {'no JSON-RPC error' if code is None else code}")
    text = answer.text
    for part in expect.text_contains:
        if part not in text:
            out.append(f"expected text containing {part!r}, got {cut(text)}")
    if expect.text_matches is not None:
        try:
            if regex.search(expect.text_matches, text, timeout=MATCH_TIMEOUT_S) is None:
                out.append(f"expected text matching {expect.text_matches!r}, got {cut(text)}")
        except TimeoutError:
            undecided.append(f"text_matches {expect.text_matches!r} took over {MATCH_TIMEOUT_S:g} s on this text")
    if expect.text_equals is not None and expect.text_equals != text:
        out.append(f"expected text equal to {cut(expect.text_equals)}, got {cut(text)}")
    if expect.pointer:
        document = answer.document
        for pointer, value in expect.pointer.items():
            try:
                seen = resolve_pointer(document, pointer)
            except Missing:
                out.append(f"expected {cut_json(value)} at {pointer}, which is not there in {cut_json(document)}")
                continue
            if not same_json(seen, value):
                out.append(f"expected {cut_json(value)} at {pointer}, got {cut_json(seen)}")
    if expect.schema is not None:
        structured = answer.result.get("structuredContent", _ABSENT) if isinstance(answer.result, Mapping) else _ABSENT
        if structured is _ABSENT:
            out.append("expected structuredContent, got none")
        else:
            try:
                out.extend(f"structuredContent{where}: {what}" for where, what in validate(expect.schema, structured))
            except BudgetExceeded as error:
                undecided.append(f"structuredContent could not be validated: {error}")
    out.extend(compare_prompts(expect, prompts))
    return Comparison(tuple(out), tuple(undecided))


def compare_prompts(expect: ExpectSpec, prompts: Sequence[str]) -> Iterator[str]:
    """In what the elicitations of a step differ from those that are expected, a sentence each."""
    wanted = expect.prompts
    if wanted is None:
        return
    if len(wanted) != len(prompts):
        got = ", ".join(cut(item, 100) for item in prompts[:MAX_PROMPTS_QUOTED])
        more = ", …" if len(prompts) > MAX_PROMPTS_QUOTED else ""
        yield f"expected {_count(len(wanted))}, got {_count(len(prompts))}{': ' if got else ''}{got}{more}"
        return
    for number, (part, prompt) in enumerate(zip(wanted, prompts, strict=True), 1):
        if part not in prompt:
            yield f"expected prompt {number} containing {part!r}, got {cut(prompt)}"


def _count(number: int) -> str:
    return f"{number or 'no'} prompt{'' if number == 1 else 's'}"


def is_text_expected(expect: ExpectSpec) -> bool:
    """Whether the step says what the text must hold."""
    return bool(expect.text_contains or expect.text_matches is not None or expect.text_equals is not None)


def is_refusal_expected(expect: ExpectSpec) -> bool:
    """Whether the step expects an error and says which: by text or by code."""
    wanted = expect.is_error is True or expect.code is not None
    return wanted and (is_text_expected(expect) or expect.code is not None)


def looks_like_an_error(answer: Answer) -> bool:
    """Whether a success reads like a failure: its only text starts with error words, without structured content.

    Texts that are JSON objects with a truthy `error` and no other key than status words count too.
    """
    if answer.is_error or not isinstance(answer.result, Mapping) or answer.result.get("structuredContent"):
        return _structured_error(answer)
    texts = _texts(answer.result)
    return len(texts) == 1 and (ERROR_LOOKING.match(texts[0][:400]) is not None or _json_error(texts[0]))


def _structured_error(answer: Answer) -> bool:
    if answer.is_error or not isinstance(answer.result, Mapping):
        return False
    content = answer.result.get("structuredContent")
    texts = _texts(answer.result)
    if not isinstance(content, Mapping):
        return False
    inner = content["result"] if set(content) == {"result"} else content  # SDKs wrap what is no object, or all
    if isinstance(inner, str):
        return len(texts) <= 1 and ERROR_LOOKING.match(inner[:400]) is not None
    return _error_object(inner)


def _json_error(text: str) -> bool:
    if not text.lstrip().startswith("{") or len(text) > 10_000:
        return False
    try:
        return _error_object(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _error_object(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    words = {"error", "errors", "status", "message", "detail", "details", "code", "success", "ok", "type", "hint"}
    return bool(value.get("error")) and set(value) <= words


def capture(spec: CaptureSpec, answer: Answer) -> Any:
    """The captured value.

    Raises:
        Missing: The pointer leads nowhere, or the search finds nothing.
    """
    value = resolve_pointer(answer.document, spec.pointer)
    if spec.matches is None:
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        found = regex.search(spec.matches, text, timeout=MATCH_TIMEOUT_S)
    except TimeoutError:
        found = None
    if found is None:
        raise Missing(f"{spec.pointer} matching {spec.matches!r}")
    return found[1] if found.re.groups else found[0]


def resolve_pointer(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901).

    Raises:
        Missing: It leads nowhere.
    """
    if pointer == "":
        return document
    here = document
    for raw in pointer.removeprefix("/").split("/"):
        token = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and token in here:
            here = here[token]
        elif isinstance(here, list) and token.isascii() and token.isdigit() and int(token) < len(here):
            here = here[int(token)]
        else:
            raise Missing(pointer)
    return here


def same_json(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, true is not 1, order of keys does not matter."""
    pairs = [(a, b)]
    while pairs:
        x, y = pairs.pop()
        if isinstance(x, bool) or isinstance(y, bool):
            if x is not y:
                return False
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            if x.keys() != y.keys():
                return False
            pairs.extend((x[key], y[key]) for key in x)
        elif isinstance(x, list | tuple) and isinstance(y, list | tuple):
            if len(x) != len(y):
                return False
            pairs.extend(zip(x, y, strict=True))
        elif x != y:
            return False
    return True


def expect_to_json(expect: ExpectSpec) -> dict[str, Any]:
    """Only what is set, in the words of the suite file."""
    out: dict[str, Any] = {}
    if expect.is_error is not None:
        out["is_error"] = expect.is_error
    if expect.code is not None:
        out["code"] = expect.code
    if expect.text_contains:
        out["text_contains"] = list(expect.text_contains)
    if expect.text_matches is not None:
        out["text_matches"] = expect.text_matches
    if expect.text_equals is not None:
        out["text_equals"] = expect.text_equals
    if expect.pointer:
        out["pointer"] = dict(expect.pointer)
    if expect.schema is not None:
        out["schema"] = dict(expect.schema)
    if expect.prompts is not None:
        out["prompts"] = list(expect.prompts)
    return out


def expect_from_json(data: Mapping[str, Any]) -> ExpectSpec:
    """The expectation that `expect_to_json` wrote."""
    contains = data.get("text_contains", ())
    return ExpectSpec(
        is_error=data.get("is_error"),
        code=data.get("code"),
        text_contains=(contains,) if isinstance(contains, str) else tuple(contains),
        text_matches=data.get("text_matches"),
        text_equals=data.get("text_equals"),
        pointer=dict(data.get("pointer", {})),
        schema=data.get("schema"),
        prompts=tuple(data["prompts"]) if "prompts" in data else None,
    )


def cut(text: str, limit: int = 300) -> str:
    """The text quoted, and cut with the number of characters that are missing."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text)} characters)"


def cut_json(value: Any, limit: int = 200) -> str:
    """A JSON value on one line, cut likewise."""
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


_ABSENT = object()


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
