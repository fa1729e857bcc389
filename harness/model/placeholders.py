"""`${…}`: the one substitution that our files know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["UnknownPlaceholder", "expand", "expand_all", "names_in"]

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")


class UnknownPlaceholder(LookupError):
    """A placeholder has no value; `args[0]` is the name between the braces."""


def names_in(value: Any) -> Iterator[str]:
    """The names of all placeholders in a string, or in all strings of a JSON-like value, keys included."""
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from names_in(key)
            yield from names_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from names_in(item)


def expand(text: str, values: Mapping[str, Any]) -> str:
    """The text with every placeholder replaced; a value that is no string is written as JSON would.

    Raises:
        UnknownPlaceholder: A name that `values` does not have.
    """
    return _PLACEHOLDER.sub(_replacement(values), text)


def expand_all(value: Any, values: Mapping[str, Any]) -> Any:
    """A JSON-like value with every string in it expanded.

    A string that is one placeholder and nothing else becomes the value itself, with its type.

    Raises:
        UnknownPlaceholder: A name that `values` does not have.
    """
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole is None:
            return expand(value, values)
        if whole[1] not in values:
            raise UnknownPlaceholder(whole[1])
        return values[whole[1]]
    if isinstance(value, Mapping):
        return {expand(key, values): expand_all(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [expand_all(item, values) for item in value]
    return value


def _replacement(values: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise UnknownPlaceholder(match[1])
        value = values[match[1]]
        if value is True or value is False or value is None:
            return {True: "true", False: "false", None: "null"}[value]
        return str(value)

    return replace
