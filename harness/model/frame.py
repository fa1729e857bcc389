"""What a client makes of a line, one pure function for all: the engine goes on with it, the findings blame with it.

It is as tolerant as can be: what breaks a rule is read all the same and judged elsewhere (`harness.findings.frames`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_BURIED", "buried_replies", "is_response", "message_in"]

MAX_BURIED = 8  # places in one line where a message may begin that are tried

_BEGINNING = re.compile(r'\{\s*"(?:jsonrpc|id|result|error)"\s*:')


def message_in(line: bytes) -> Mapping[str, Any] | None:
    """The message in a line, None if there is none that could be used.

    A byte order mark before it, NaN in it and a missing `jsonrpc` do not keep it from being used. One that is nested
    too deeply to be parsed comes without its result.
    """
    try:
        text = line.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    try:
        value = json.loads(text)
    except RecursionError:
        return _shallow(text)
    except ValueError:
        if line.count(b"0") + line.count(b"1") < 100:  # an integer with more digits than int() takes is JSON
            return None
        try:
            value = json.loads(text, parse_int=_long_int)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def is_response(message: Mapping[str, Any]) -> bool:
    """Whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def buried_replies(line: bytes) -> tuple[Mapping[str, Any], ...]:
    """Whole responses in a line that is no message, behind other text or one behind the other.

    No client reads them. They tell which request has lost its answer here.
    """
    text = line.decode("utf-8", "replace")
    scan = json.JSONDecoder(parse_int=_long_int).raw_decode
    found: list[Mapping[str, Any]] = []
    at = 0
    for _ in range(MAX_BURIED):
        begins = _BEGINNING.search(text, at)
        if begins is None:
            break
        try:
            value, at = scan(text, begins.start())
        except (ValueError, RecursionError):
            at = begins.start() + 1
            continue
        if isinstance(value, Mapping) and is_response(value):
            found.append(value)
    return tuple(found)


def _long_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float("inf")


def _shallow(text: str) -> Mapping[str, Any] | None:
    """The top-level members of an object whose values are scalars; others become None. Linear, without recursion."""
    members: dict[str, Any] = {}
    depth, key, at = 0, None, 0
    scan = json.JSONDecoder().raw_decode
    while at < len(text):
        char = text[at]
        if char == '"':
            try:
                value, end = scan(text, at)
            except ValueError:
                return None
            rest = text[end : end + 20].lstrip()
            if depth == 1 and rest.startswith(":") and key is None:
                key = str(value)
                at = text.index(":", end) + 1
                continue
            if depth == 1 and key is not None:
                members[key] = value
            at = end
            continue
        if char in "[{":
            if depth == 1 and key is not None:
                members[key] = None
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth == 1:
            key = None
        elif depth == 1 and key is not None and key not in members and (char.isdigit() or char in "-tfn"):
            try:
                members[key], at = scan(text, at)
            except ValueError:
                return None
            continue
        at += 1
    return members
