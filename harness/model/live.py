"""What the Python API hands out: results, what was asked of the user, what was called, how a server ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.model.outcome import Answer, cut, resolve_pointer

__all__ = ["Became", "Called", "Ended", "Notification", "Prompt", "Result", "result_of"]

Became = Literal["succeeded", "refused", "failed", "timed-out", "lost", "died", "cancelled", "open"]
REPR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result:
    """A final answer, as it came.

    Attributes:
        text: All text blocks joined by a newline; of a JSON-RPC error its message.
        structured: `structuredContent`, None where there is none.
        content: The blocks of `content`, `contents` or `messages`, untouched.
        is_error: An `isError` result, or a JSON-RPC error.
        message: The whole JSON-RPC response object.
        mask: Hides secrets in what is shown of it; the rest of it is as it came.
    """

    text: str
    structured: Any = None
    content: tuple[Any, ...] = ()
    is_error: bool = False
    message: Mapping[str, Any] = field(default_factory=dict)
    mask: Callable[[str], str] = field(default=str, repr=False, compare=False)

    @property
    def error(self) -> Mapping[str, Any] | None:
        """The JSON-RPC error object, None where the answer is a result."""
        error = self.message.get("error")
        return error if isinstance(error, Mapping) else None

    def json(self) -> Any:
        """The text, parsed as JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.text)

    def at(self, pointer: str) -> Any:
        """The value at a JSON pointer, as suites write it: into the result, `/$text` or `/$json`.

        Raises:
            LookupError: It leads nowhere.
        """
        return resolve_pointer(Answer(self.message.get("result"), self.message.get("error")).document, pointer)

    def __repr__(self) -> str:
        parts = [f"text={cut(self.mask(self.text), REPR_CHARS)}"]
        if self.structured is not None:
            text = self.mask(_json(self.structured))
            parts.append(f"structured={text if len(text) <= REPR_CHARS else text[:REPR_CHARS] + '…'}")
        kinds = [block.get("type", "?") if isinstance(block, Mapping) else "?" for block in self.content]
        if kinds and kinds != ["text"]:
            parts.append(f"content of {', '.join(map(str, kinds[:10]))}")
        if self.error is not None:
            parts.append(f"JSON-RPC error {self.error.get('code')}")
        elif self.is_error:
            parts.append("isError")
        return f"Result({'; '.join(parts)})"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def result_of(answer: Answer, message: Mapping[str, Any], mask: Callable[[str], str] = str) -> Result:
    """The result for a message and the answer that was read from it."""
    result = answer.result if isinstance(answer.result, Mapping) else {}
    blocks = next((result[key] for key in ("content", "contents", "messages") if isinstance(result.get(key), list)), ())
    return Result(
        text=answer.text,
        structured=result.get("structuredContent"),
        content=tuple(blocks),
        is_error=answer.is_error,
        message=message,
        mask=mask,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Something that the server asked for: input of the user (an elicitation), or an answer of a model (sampling).

    Attributes:
        message: Its text, "" where it has none.
        method: "elicitation/create" or "sampling/createMessage".
        mode: Of an elicitation: "form" or "url".
        schema: `requestedSchema`, None where there is none.
        action: How it was answered: "accept", "decline", "cancel"; "" where it got an error.
        content: What was filled in, or what the model said.
        tool: The tool (or prompt, or URI) in whose call it came, "" where that is not clear.
        by: Where the answer comes from: "elicit", "answers[0]", "the test" …
    """

    message: str
    method: str = "elicitation/create"
    mode: str = "form"
    schema: Mapping[str, Any] | None = None
    action: str = ""
    content: Mapping[str, Any] | None = None
    tool: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One call, and what became of it.

    Attributes:
        tool: Its name; of a prompt its name, of a resource its URI.
        action: "call", "read_resource" or "get_prompt".
        case: "suite/case" in which it was made.
        became: "open" while it waits; "cancelled" where its caller has done so; "lost" where no answer can come any
            more though the server lives.
        detail: Why it did not succeed, "" where it did.
    """

    tool: str
    action: str
    arguments: Mapping[str, Any]
    case: str
    became: Became = "open"
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification of the server's, such as a log message or progress; `tool` is the one that was called then."""

    method: str
    params: Mapping[str, Any]
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a server's process ended.

    Attributes:
        code: Its exit code, None where a signal ended it.
        signal: That signal, None where it ended by itself.
        asked: Whether we had begun to stop it.
        ended_by: "itself", "stdin-close", "term" or "kill".
        orphans: Commands of the processes that outlived it; they were killed.
    """

    code: int | None
    signal: int | None
    asked: bool
    ended_by: str
    orphans: tuple[str, ...] = ()
