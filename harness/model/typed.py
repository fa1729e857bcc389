"""Whether a frozen record that was read back holds what its class says: somebody else may have written the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["misfit"]

_Check = Callable[[Any], bool]
_CHECKS: dict[type[Any], tuple[tuple[str, frozenset[type[Any]], _Check], ...]] = {}  # made once for each class


def misfit(record: Any) -> str:
    """Name of the first field of a dataclass whose value is not of the field's type, "" if all are."""
    kind = type(record)
    if kind not in _CHECKS:
        _CHECKS[kind] = _checks(kind)
    for name, plain, fits in _CHECKS[kind]:
        value = getattr(record, name)
        if type(value) not in plain and not fits(value):
            return name
    return ""


def _checks(kind: type[Any]) -> tuple[tuple[str, frozenset[type[Any]], _Check], ...]:
    """Of each field its name, the types that need no look at the value, and the look at it."""
    hints = get_type_hints(kind)
    return tuple(
        (item.name, frozenset(_plain(hints[item.name])), _check(hints[item.name])) for item in dataclasses.fields(kind)
    )


def _plain(hint: Any) -> set[type[Any]]:
    """Types of which every value fits: most values of most records are of one, and millions are read."""
    if hint is float:
        return {float, int}
    if hint in (str, bytes, bool, int, NoneType):
        return {hint}
    if get_origin(hint) in (Union, UnionType):
        return {kind for part in get_args(hint) for kind in _plain(part)}
    return set()


def _check(hint: Any) -> _Check:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda _value: True
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    if origin is Literal:
        words = frozenset(inner)
        return lambda value: isinstance(value, str) and value in words
    if origin in (Union, UnionType):
        either = tuple(map(_check, inner))
        return lambda value: any(fits(value) for fits in either)
    if origin is tuple:
        item = _check(inner[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if origin is Mapping:
        key, item = map(_check, inner)
        return lambda value: isinstance(value, Mapping) and all(key(name) and item(value[name]) for name in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return lambda value: isinstance(value, hint) and not misfit(value)
    if hint in (str, bytes, bool, NoneType):
        return lambda value: isinstance(value, hint)
    raise AssertionError(f"{hint!r} is in no record")
