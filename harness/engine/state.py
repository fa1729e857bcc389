"""Changes a `requestState` as somebody might who wants more than the server has offered, to see what becomes of it.

The client carries the server's state between two rounds of one call, and may not be trusted with it. A case in which a
state was given is run again, on a process of its own, with each of these twists once: left out, replaced by another
text, one character changed, one value in it changed where it can be read, and, for a tool that says itself that it must
not be repeated, sent twice.
A state that is refused costs nothing: the call is not made. What is taken is judged later, and not here.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["MAX_VALUES", "Twist", "change_character", "change_value", "must_not_be_repeated"]

MAX_VALUES = 3  # in a state that can be read, each changed by itself
MAX_STATE_CHARS = 100_000
MARK = "-rollcall"
ADD = 7_000_003  # to a number: what is looked for in the answer should be in it for no other reason

Kind = Literal["without", "replaced", "changed", "value", "replayed"]
_NEXT = {"z": "a", "Z": "A", "9": "0"}


@dataclass(slots=True, kw_only=True)
class Twist:
    """One thing to do to the first state of one case.

    Attributes:
        index: Which value, for "value".
        used: Whether it was done; a state without such a value is left alone.
        taken: Whether the call succeeded all the same.
    """

    kind: Kind
    index: int = 0
    used: bool = False
    taken: bool = False

    @property
    def is_for_replay(self) -> bool:
        """Whether the next round that is answered is to be sent again."""
        return self.kind == "replayed" and not self.used

    def of(self, state: Any) -> tuple[str | None, Mapping[str, Any]] | None:
        """The state to send (None: none at all) and what was done to it; None where nothing can be."""
        if not isinstance(state, str) or self.used:
            return None
        match self.kind:
            case "without":
                return None, {"kind": self.kind}
            case "replaced":
                return "rollcall", {"kind": self.kind}
            case "changed":
                changed = change_character(state)
                return None if changed is None else (changed, {"kind": self.kind})
            case "value":
                found = change_value(state, self.index)
                return None if found is None else (found[0], {"kind": self.kind, "was": found[1], "is": found[2]})
            case "replayed":
                return None


def must_not_be_repeated(annotations: Any) -> bool:
    """Whether a tool says of itself, in so many words, that a second call destroys something more."""
    return (
        isinstance(annotations, Mapping)
        and annotations.get("destructiveHint") is True
        and annotations.get("idempotentHint") is False
        and annotations.get("readOnlyHint") is not True
    )


def change_character(state: str) -> str | None:
    """The state with one letter or digit near its middle replaced by the next one; None where it has none."""
    middle = len(state) // 2
    for index in sorted(range(len(state)), key=lambda at: abs(at - middle)):
        char = state[index]
        if char.isascii() and char.isalnum():
            return f"{state[:index]}{_NEXT.get(char, chr(ord(char) + 1))}{state[index + 1 :]}"
    return None


def change_value(state: str, index: int) -> tuple[str, Any, Any] | None:
    """The state with one value in it changed, the value before and after; None where it cannot be read so far.

    Read are JSON, and JSON in base64, as a whole or between dots; texts and numbers count, in order.
    """
    for parts, at, data, write in _readings(state):
        places = list(_places(data))
        if index >= len(places):
            continue
        where, was = places[index]
        new = f"{was}{MARK}" if isinstance(was, str) else was + ADD
        _put(data, where, new)
        parts[at] = write(data)
        return ".".join(parts), was, new
    return None


def _readings(state: str) -> Iterator[tuple[list[str], int, Any, Callable[[Any], str]]]:
    """Ways to read it: its parts, which of them is JSON, the value, and how a value is written there."""
    if len(state) > MAX_STATE_CHARS:
        return
    for parts in ([state], state.split(".")):
        for at, part in enumerate(parts):
            plain = _json(part)
            if plain is not None:
                yield list(parts), at, plain, _plain_writer(part)
                continue
            found = _json_in_base64(part)
            if found is not None:
                yield list(parts), at, *found


def _json(text: str) -> Any:
    """The object or list that a text is; None for everything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _plain_writer(text: str) -> Callable[[Any], str]:
    """JSON as the text has it: with or without blanks."""
    spaced = '": ' in text or ", " in text
    return lambda data: json.dumps(data, separators=(", ", ": ") if spaced else (",", ":"))


def _json_in_base64(text: str) -> tuple[Any, Callable[[Any], str]] | None:
    bare = text.rstrip("=")
    for alphabet in (b"-_", b"+/"):
        try:
            raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=alphabet, validate=True).decode("utf-8")
        except (binascii.Error, ValueError):
            continue
        value = _json(raw)
        if value is not None:
            inner, padded = _plain_writer(raw), text != bare or len(bare) % 4 == 0
            return value, _writer(inner, alphabet, padded)
    return None


def _writer(inner: Callable[[Any], str], alphabet: bytes, padded: bool) -> Callable[[Any], str]:
    def write(data: Any) -> str:
        out = base64.b64encode(inner(data).encode(), altchars=alphabet).decode("ascii")
        return out if padded else out.rstrip("=")

    return write


def _places(data: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where texts and numbers stand, in order, with what stands there."""
    stack: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    while stack:
        where, value = stack.pop()
        if isinstance(value, dict):
            stack += reversed([((*where, key), item) for key, item in value.items()])
        elif isinstance(value, list):
            stack += reversed([((*where, index), item) for index, item in enumerate(value)])
        elif isinstance(value, str | int) and not isinstance(value, bool):
            yield where, value


def _put(data: Any, where: tuple[Any, ...], new: Any) -> None:
    for key in where[:-1]:
        data = data[key]
    data[where[-1]] = new
