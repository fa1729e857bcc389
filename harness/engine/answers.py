"""What the client answers where a server asks it for something: a script, then the profile's general answer.

Data in, data out: no wire, no clock. The session hands over a `Question` and sends the `Reply`; who tests in code can
put a function of their own before the script.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import regex

from harness.engine.forms import form_content
from harness.model.outcome import MATCH_TIMEOUT_S, cut
from harness.model.placeholders import expand, expand_all, names_in
from harness.model.plan import AnswerSpec, ProfileSpec, SampleSpec
from harness.model.transcript import StepRef

__all__ = [
    "PLAIN",
    "Answers",
    "Hook",
    "Prompt",
    "Question",
    "Reply",
    "capabilities_of",
    "contains",
    "expanded_profile",
    "placeholders_of",
]

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REJECTED = -1  # what the specification gives for a sampling request that a person turns down

PLAIN = ProfileSpec(name="plain")  # a client that can be asked for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a server asks of the client.

    Attributes:
        method: "elicitation/create", "sampling/createMessage", "roots/list", or whatever it wrote.
        params: As they came.
        target: Label of the request of ours in whose course it came ("tools/call delete"), "" where that is not clear.
        step: The step of that request.
    """

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    step: StepRef | None = None

    @property
    def subject(self) -> str:
        """The tool, the name of the prompt or the URI of the resource that was asked for, "" where none is known."""
        return self.target.partition(" ")[2]

    @property
    def mode(self) -> str:
        """Of an elicitation: "form" where it says nothing; "" for other methods."""
        if self.method != "elicitation/create":
            return ""
        mode = self.params.get("mode", "form")
        return mode if isinstance(mode, str) else "?"

    @property
    def message(self) -> str:
        """What a person would read: an elicitation's message, or all texts of a sampling request."""
        if self.method == "sampling/createMessage":
            return "\n".join(_texts(self.params))
        message = self.params.get("message")
        return message if isinstance(message, str) else ""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The requested schema of a form, {} where there is none."""
        schema = self.params.get("requestedSchema") if self.mode == "form" else None
        return schema if isinstance(schema, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What it gets: a result or an error. `by` says in words where it comes from."""

    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    by: str

    @property
    def body(self) -> dict[str, Any]:
        """The part of a JSON-RPC response that says it."""
        return {"error": dict(self.error)} if self.error is not None else {"result": dict(self.result or {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question with its reply."""

    question: Question
    reply: Reply

    @property
    def message(self) -> str:
        """What a person would have read."""
        return self.question.message


Given = Mapping[str, Any] | None
Hook = Callable[[Question], Given | Awaitable[Given]]


class Answers:
    """The answers of one session.

    Args:
        profile: What is declared, and the script.
        hook: Asked before the script about everything that is declared: it gives a result (for an elicitation e.g.
            `{"action": "decline"}`; an accepted form without "content" is filled in), or None for the script's. What it
            raises is the answer's error, and is kept in `failures`.
        capabilities: What is declared, where that is not to follow from the profile (for a hook without a script).
    """

    def __init__(
        self, profile: ProfileSpec = PLAIN, *, hook: Hook | None = None, capabilities: Mapping[str, Any] | None = None
    ) -> None:
        self.profile = profile
        self.hook = hook
        self.capabilities: dict[str, Any] = dict(capabilities_of(profile) if capabilities is None else capabilities)
        self.failures: list[Exception] = []
        self._given: dict[int, int] = {}  # id of a script's entry -> how often in this case

    def begin(self) -> None:
        """A case begins: what may be given a number of times may be given so often again."""
        self._given.clear()

    def answer(self, question: Question) -> Reply | Awaitable[Reply]:
        """The reply; to be awaited only where the hook's is."""
        refused = self._refusal(question)
        if refused is not None:
            return refused
        if self.hook is None:
            return self._scripted(question)
        try:
            given = self.hook(question)
        except Exception as error:
            return self._failed(error)
        return self._later(question, given) if isinstance(given, Awaitable) else self._hooked(question, given)

    async def _later(self, question: Question, given: Awaitable[Given]) -> Reply:
        try:
            return self._hooked(question, await given)
        except Exception as error:
            return self._failed(error)

    def _hooked(self, question: Question, given: Given) -> Reply:
        if given is None:
            return self._scripted(question)
        result = dict(given)
        if question.mode == "form" and result.get("action") == "accept" and "content" not in result:
            result["content"] = form_content(question.schema)
        return Reply(result=result, by="the test")

    def _failed(self, error: Exception) -> Reply:
        self.failures.append(error)
        said = f"the answering function raised {type(error).__name__}"
        return Reply(error={"code": INTERNAL_ERROR, "message": said}, by="the test")

    def _refusal(self, question: Question) -> Reply | None:
        """The error that a client gives to what it has not declared."""
        capability = question.method.partition("/")[0]
        if capability not in ("elicitation", "sampling", "roots") or capability not in self.capabilities:
            what = f"the client has not declared {cut(question.method, 100)}"
            return Reply(error={"code": METHOD_NOT_FOUND, "message": what}, by="nothing")
        declared = self.capabilities[capability]
        declared = declared if isinstance(declared, Mapping) else {}
        if capability == "elicitation" and question.mode not in (declared or {"form": {}}):
            what = f"the client has declared {' and '.join(declared or ('form',))} elicitation only"
            return Reply(error={"code": INVALID_PARAMS, "message": what}, by="nothing")
        if capability == "sampling" and "tools" not in declared and _wants_tools(question.params):
            what = "the client has not declared sampling with tools"
            return Reply(error={"code": INVALID_PARAMS, "message": what}, by="nothing")
        return None

    def _scripted(self, question: Question) -> Reply:
        match question.method:
            case "elicitation/create":
                return self._elicited(question)
            case "sampling/createMessage":
                return self._sampled(question)
            case "roots/list":
                roots = [_root(item.uri, item.name) for item in self.profile.roots or ()]
                return Reply(result={"roots": roots}, by="roots")
            case _:
                what = f"the client knows no {cut(question.method, 100)}"
                return Reply(error={"code": METHOD_NOT_FOUND, "message": what}, by="nothing")

    def _elicited(self, question: Question) -> Reply:
        for index, spec in enumerate(self.profile.answers):
            if not self._is_left(spec) or not _fits(spec, question):
                continue
            self._take(spec)
            result: dict[str, Any] = {"action": spec.action}
            if question.mode == "form" and spec.content is not None:
                result["content"] = dict(spec.content)
            elif question.mode == "form" and spec.action == "accept":
                result["content"] = form_content(question.schema)
            return Reply(result=result, by=f"answers[{index}]")
        action = self.profile.elicit or "decline"
        result = {"action": action}
        if action == "accept" and question.mode == "form":
            result["content"] = form_content(question.schema)
        return Reply(result=result, by="elicit" if self.profile.elicit else "no scripted answer")

    def _sampled(self, question: Question) -> Reply:
        for index, spec in enumerate(self.profile.sampling):
            if not self._is_left(spec) or not _fits_sample(spec, question):
                continue
            self._take(spec)
            by = f"sampling[{index}]"
            if spec.rejects:
                return Reply(error={"code": REJECTED, "message": "User rejected sampling request"}, by=by)
            blocks: list[dict[str, Any]] = [dict(item) for item in spec.content]
            content: Any = {"type": "text", "text": spec.text} if spec.text is not None else blocks
            if len(blocks) == 1:
                content = blocks[0]
            result = {"role": "assistant", "content": content, "model": spec.model, "stopReason": spec.stop_reason}
            return Reply(result=result, by=by)
        said = "no scripted answer fits this sampling request"
        return Reply(error={"code": REJECTED, "message": said}, by="no scripted answer")

    def _is_left(self, spec: AnswerSpec | SampleSpec) -> bool:
        return spec.times is None or self._given.get(id(spec), 0) < spec.times

    def _take(self, spec: AnswerSpec | SampleSpec) -> None:
        self._given[id(spec)] = self._given.get(id(spec), 0) + 1


def capabilities_of(profile: ProfileSpec) -> dict[str, Any]:
    """What a client of this profile declares: exactly that."""
    out: dict[str, Any] = {}
    if profile.elicits:
        out["elicitation"] = {mode: {} for mode in profile.elicit_modes}
    if profile.sampling:
        out["sampling"] = {"tools": {}} if profile.sampling_tools else {}
    if profile.roots is not None:
        out["roots"] = {}
    return out


def placeholders_of(profile: ProfileSpec) -> Iterator[str]:
    """Names of the placeholders in what a profile answers."""
    for answer in profile.answers:
        yield from names_in(answer.content)
    for sample in profile.sampling:
        yield from names_in([sample.text, *sample.content])
    for root in profile.roots or ():
        yield from names_in([root.uri, root.name])


def expanded_profile(profile: ProfileSpec, values: Mapping[str, Any]) -> ProfileSpec:
    """The profile with the values of its placeholders in what it answers; the rest is as it was.

    Raises:
        UnknownPlaceholder: One has no value.
    """
    return replace(
        profile,
        answers=tuple(replace(item, content=expand_all(item.content, values)) for item in profile.answers),
        sampling=tuple(
            replace(
                item,
                text=None if item.text is None else expand(item.text, values),
                content=tuple(expand_all(block, values) for block in item.content),
            )
            for item in profile.sampling
        ),
        roots=None
        if profile.roots is None
        else tuple(
            replace(item, uri=expand(item.uri, values), name=None if item.name is None else expand(item.name, values))
            for item in profile.roots
        ),
    )


def contains(whole: Any, part: Any) -> bool:
    """Whether a JSON value has everything that a fragment of one has: tables key by key, all else equal."""
    pairs = [(whole, part)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(other, Mapping) and isinstance(one, Mapping):
            if not other.keys() <= one.keys():
                return False
            pairs.extend((one[key], other[key]) for key in other)
        elif isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True


def _fits(spec: AnswerSpec, question: Question) -> bool:
    properties = question.schema.get("properties")
    names = properties if isinstance(properties, Mapping) else {}
    return (
        _is_of(spec.tool, question)
        and (spec.mode is None or spec.mode == question.mode)
        and all(name in names for name in spec.fields)
        and (spec.schema is None or contains(question.schema, spec.schema))
        and _is_found(spec.message, question.message)
    )


def _fits_sample(spec: SampleSpec, question: Question) -> bool:
    return _is_of(spec.tool, question) and _is_found(spec.message, question.message)


def _is_of(tool: str | None, question: Question) -> bool:
    return tool is None or tool == question.subject


def _is_found(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return True
    try:
        return regex.search(pattern, text, timeout=MATCH_TIMEOUT_S) is not None
    except (TimeoutError, regex.error):
        return False


def _root(uri: str, name: str | None) -> dict[str, Any]:
    return {"uri": uri} if name is None else {"uri": uri, "name": name}


def _wants_tools(params: Mapping[str, Any]) -> bool:
    return params.get("tools") is not None or params.get("toolChoice") is not None


def _texts(params: Mapping[str, Any]) -> list[str]:
    """The texts of a sampling request: its system prompt, then its messages."""
    out = [params["systemPrompt"]] if isinstance(params.get("systemPrompt"), str) else []
    messages = params.get("messages")
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, Mapping) and isinstance(block.get("text"), str):
                out.append(block["text"])
    return out
