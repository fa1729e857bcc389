"""Fills an elicitation form: content that a person might have given, for any `requestedSchema`.

A schema is a stranger's: it may ask for a million million values, or for a number that no number is. All that is filled
in is bounded in total; a field that would go beyond is left out, and so is what is not JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import regex

__all__ = ["MAX_FORM_CHARS", "MAX_FORM_DEPTH", "MAX_FORM_VALUES", "TOO_LARGE", "fill_form", "form_content"]

MAX_FORM_VALUES = 10_000
MAX_FORM_CHARS = 1_000_000
MAX_FORM_DEPTH = 32
MAX_PATTERN_CHARS = 1_000  # of a pattern that is tried, and of the texts that are
PATTERN_S = 0.1
TOO_LARGE = "form too large to fill"

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "someone@example.org",
    "time": "12:00:00Z",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_FILL = "x"
_TRIED = (
    "X",
    "Xx",
    "1",
    "X1",
    "x1",
    "abc-1",
    "1.0",
    "1.0.0",
    "127.0.0.1",
    "+1 555 0100",
    "#000000",
    "/",
    *_FORMATS.values(),
)
_MAX_BITS = 4096  # of an integer


class _TooLarge(Exception):
    """A field goes beyond what is left."""


@dataclass(slots=True)
class _Room:
    """What may still be filled in."""

    values: int = MAX_FORM_VALUES
    chars: int = MAX_FORM_CHARS

    def take(self, *, values: int = 0, chars: int = 0) -> None:
        """Uses some of it up.

        Raises:
            _TooLarge: There is not so much left.
        """
        if values > self.values or chars > self.chars:
            raise _TooLarge
        self.values -= values
        self.chars -= chars


def form_content(schema: Any) -> dict[str, Any]:
    """The content of an accepting answer: booleans true, defaults, the first of an enum; others if required.

    Args:
        schema: `requestedSchema` as it came; whatever it is, there is an answer.
    """
    return fill_form(schema)[0]


def fill_form(schema: Any) -> tuple[dict[str, Any], str]:
    """The same, and `TOO_LARGE` if fields were left out because of their size, else ""."""
    left_out: list[str] = []
    return _object(schema, _Room(), 1, left_out), TOO_LARGE if left_out else ""


def _object(schema: Any, room: _Room, depth: int, left_out: list[str] | None) -> dict[str, Any]:
    """`left_out` takes the names of fields that are too large; None: that is the end of the whole object."""
    if depth > MAX_FORM_DEPTH:
        raise _TooLarge
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    wanted = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    content: dict[str, Any] = {}
    for name, field in properties.items():
        before = (room.values, room.chars)
        try:
            filled, value = _field(field if isinstance(field, Mapping) else {}, name in wanted, room, depth)
            if filled:
                room.take(values=1, chars=len(name))
                content[name] = value
        except _TooLarge:
            if left_out is None:
                raise
            room.values, room.chars = before
            left_out.append(name)
    return content


def _field(field: Mapping[str, Any], wanted: bool, room: _Room, depth: int) -> tuple[bool, Any]:
    """(whether the field is filled in, with what)."""
    if field.get("type") == "boolean":
        return True, True
    if "default" in field and _is_json(field["default"], room, depth):
        return True, field["default"]
    for choice in _choices(field):
        if _is_json(choice, room, depth):
            return True, choice
    return (True, _value(field, room, depth)) if wanted else (False, None)


def _is_json(value: Any, room: _Room, depth: int) -> bool:
    """Whether a value of the schema's own can be sent; its size is taken from the room.

    Raises:
        _TooLarge: It is beyond it.
    """
    waiting = [(value, depth)]
    while waiting:
        item, level = waiting.pop()
        room.take(values=1)
        if level > MAX_FORM_DEPTH:
            raise _TooLarge
        if isinstance(item, str):
            room.take(chars=len(item))
        elif isinstance(item, Mapping):
            if not all(isinstance(key, str) for key in item):
                return False
            room.take(chars=sum(map(len, item)))
            waiting += [(inner, level + 1) for inner in item.values()]
        elif isinstance(item, list):
            waiting += [(inner, level + 1) for inner in item]
        elif isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, int):
            if item.bit_length() > _MAX_BITS:
                raise _TooLarge
        elif item is not None:
            return False
    return True


def _choices(field: Mapping[str, Any]) -> Sequence[Any]:
    if isinstance(field.get("enum"), list):
        return list(field["enum"])
    if "const" in field:
        return [field["const"]]
    for key in ("oneOf", "anyOf"):
        options = field.get(key)
        if isinstance(options, list):
            found = [item["const"] for item in options if isinstance(item, Mapping) and "const" in item]
            if found:
                return found
    return ()


def _value(field: Mapping[str, Any], room: _Room, depth: int) -> Any:
    if depth > MAX_FORM_DEPTH:
        raise _TooLarge
    room.take(values=1)
    kind = field.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    match kind:
        case "integer" | "number":
            return _number(field, whole=kind == "integer")
        case "array":
            return _array(field, room, depth)
        case "boolean":
            return True
        case "object":
            return _object(field, room, depth + 1, None)
        case "null":
            return None
        case _:
            return _string(field, room)


def _array(field: Mapping[str, Any], room: _Room, depth: int) -> list[Any]:
    items = field.get("items")
    items = items if isinstance(items, Mapping) else {}
    count = max(1, _size(field.get("minItems"), room.values))
    choices = _choices(items)
    if len(choices) >= count:
        chosen = list(choices[:count])
        if all(_is_json(choice, room, depth + 1) for choice in chosen):
            return chosen
    before = (room.values, room.chars)
    if not choices or not _is_json(first := choices[0], room, depth + 1):
        first = _value(items, room, depth + 1)
    room.take(values=(before[0] - room.values) * (count - 1), chars=(before[1] - room.chars) * (count - 1))
    return [first] * count


def _string(field: Mapping[str, Any], room: _Room) -> str:
    form, pattern = field.get("format"), field.get("pattern")
    least, most = _size(field.get("minLength"), room.chars), field.get("maxLength")
    begin = _FORMATS.get(form, _FILL) if isinstance(form, str) else _FILL
    text = _sized(begin, least, most)
    if isinstance(pattern, str) and len(pattern) <= MAX_PATTERN_CHARS and least <= MAX_PATTERN_CHARS:
        tries = (_sized(item, least, most, item[-1]) for item in (begin, *_TRIED))
        text = next((item for item in tries if _is_found(pattern, item)), text)
    room.take(chars=len(text))
    return text


def _sized(text: str, least: int, most: Any, fill: str = _FILL) -> str:
    text += fill * (least - len(text))
    return text[: max(0, int(most))] if _is_number(most) else text


def _is_found(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=PATTERN_S) is not None
    except (TimeoutError, regex.error, ValueError, OverflowError, RecursionError):
        return False


def _number(field: Mapping[str, Any], *, whole: bool) -> float | int:
    step = 1 if whole else 0.5
    least, most = (
        _bound(field, "minimum", "exclusiveMinimum", step),
        _bound(field, "maximum", "exclusiveMaximum", -step),
    )
    value: float | int = 1
    if least is not None and value < least:
        value = math.ceil(least) if whole else least
    if most is not None and value > most:
        value = math.floor(most) if whole else most
    multiple = field.get("multipleOf")
    if _is_number(multiple) and multiple > 0:
        value = _multiple(value, multiple, most)
    return int(value) if whole and value == int(value) else value


def _multiple(value: float, multiple: float, most: float | None) -> float:
    """The next multiple from the value upwards, or the last one below `most`; the value itself where there is none."""
    steps = value / multiple
    if not math.isfinite(steps) or abs(steps) > 1e15:
        return value
    found = math.ceil(steps) * multiple
    if most is not None and found > most:
        found = math.floor(steps) * multiple
    return found if math.isfinite(found) else value


def _bound(field: Mapping[str, Any], inclusive: str, exclusive: str, step: float) -> float | None:
    for key, add in ((inclusive, 0.0), (exclusive, step)):
        if _is_number(field.get(key)):
            return float(field[key]) + add
    return None


def _size(value: Any, room: int) -> int:
    """A count that the schema asks for.

    Raises:
        _TooLarge: It is more than there is room for.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    if value > room:
        raise _TooLarge
    return int(value)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
