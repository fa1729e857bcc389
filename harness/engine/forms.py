"""Fills an elicitation form: content that a person might have given, for any `requestedSchema`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

__all__ = ["form_content"]

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "someone@example.org",
    "time": "12:00:00Z",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_FILL = "x"
MAX_FILL_CHARS = 10_000


def form_content(schema: Any) -> dict[str, Any]:
    """The content of an accepting answer: booleans true, defaults, the first of an enum; others if required.

    Args:
        schema: `requestedSchema` as it came; whatever it is, there is an answer.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    wanted = set(map(str, required)) if isinstance(required, list) else set()
    content: dict[str, Any] = {}
    for name, field in properties.items():
        field = field if isinstance(field, Mapping) else {}
        if field.get("type") == "boolean":
            content[name] = True
        elif "default" in field:
            content[name] = field["default"]
        elif choices := _choices(field):
            content[name] = choices[0]
        elif name in wanted:
            content[name] = _value(field)
    return content


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


def _value(field: Mapping[str, Any]) -> Any:
    kind = field.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    match kind:
        case "integer" | "number":
            return _number(field, whole=kind == "integer")
        case "array":
            items = field.get("items")
            items = items if isinstance(items, Mapping) else {}
            choices = list(_choices(items)) or [_value(items)]
            count = max(1, _size(field.get("minItems")))
            return choices[:count] if len(choices) >= count else [choices[0]] * count
        case "boolean":
            return True
        case "object":
            return form_content(field)
        case "null":
            return None
        case _:
            return _string(field)


def _string(field: Mapping[str, Any]) -> str:
    text = _FORMATS.get(str(field.get("format")), _FILL)
    text += _FILL * (_size(field.get("minLength")) - len(text))
    most = field.get("maxLength")
    return text[: max(0, int(most))] if most is not None and _is_number(most) else text


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
        value = math.ceil(value / multiple) * multiple
    return value


def _bound(field: Mapping[str, Any], inclusive: str, exclusive: str, step: float) -> float | None:
    for key, add in ((inclusive, 0.0), (exclusive, step)):
        if _is_number(field.get(key)):
            return float(field[key]) + add
    return None


def _size(value: Any) -> int:
    return min(int(value), MAX_FILL_CHARS) if _is_number(value) and value > 0 else 0


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
