"""Small questions that the readers of all files ask of values: tolerant ones, for values that may be of a wrong type.

Every file is first judged against its schema. What is asked afterwards (does this name exist, can this placeholder
have a value) is asked of a file with schema problems too, so that everything is reported at once.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.toml import Document
from harness.model.placeholders import names_in

__all__ = [
    "BACKSLASH",
    "Scope",
    "bad_pattern",
    "escapes",
    "fold",
    "items",
    "python_problem",
    "strings",
    "table",
    "text",
    "texts",
    "unknown_placeholders",
]

BACKSLASH = "use single quotes, so that a backslash is one: '\\d+'"  # a hint
MAX_PATTERN_CHARACTERS = 5_000
MAX_PATTERN_REPEATS = 1_000_000

_COUNTS = re.compile(r"\{(\d+)")


def table(value: Any) -> Mapping[str, Any]:
    """The value if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value if it is a string, else None."""
    return value if isinstance(value, str) else None


def texts(value: Any) -> list[str]:
    """The strings of a list, or the one string."""
    return [value] if isinstance(value, str) else [item for item in items(value) if isinstance(item, str)]


def fold(name: str) -> str:
    """Names that are equal after this are one on some file systems, and to most eyes."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def escapes(path: str) -> bool:
    """Whether a relative path leads out of its folder, or is none."""
    pure = PurePosixPath(path)
    return pure.is_absolute() or ".." in pure.parts or "\\" in path or "\0" in path


def strings(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every string in a value, keys included, with its path."""
    stack = [(path, value)]
    while stack:
        here, item = stack.pop()
        if isinstance(item, str):
            yield here, item
        elif isinstance(item, dict):
            for key, child in item.items():
                yield (*here, key), key
                stack.append(((*here, key), child))
        elif isinstance(item, list):
            stack.extend(((*here, index), child) for index, child in enumerate(item))


def bad_pattern(pattern: str) -> str:
    """What is wrong with a regular expression, "" if nothing is."""
    import regex

    repeats = math.prod(max(1, int(count[:9])) for count in _COUNTS.findall(pattern))
    if len(pattern) > MAX_PATTERN_CHARACTERS or repeats > MAX_PATTERN_REPEATS:  # compiling alone may take for ever
        return "this regular expression is too large"
    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, ValueError, RecursionError) as error:
        return f"no regular expression: {error}"
    return ""


def python_problem(specifier: str) -> tuple[str, str] | None:
    """Message and hint for a Python version specifier that is none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(specifier)
    except InvalidSpecifier:
        plain = specifier.replace(".", "").isdigit()
        hint = f'write ">={specifier}" or "=={specifier}.*"' if plain else 'write e.g. ">=3.11" or ">=3.11,<3.14"'
        return f"{quoted(specifier)} is no version specifier", hint
    return None


# --- placeholders -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which placeholders have a value in one place.

    Attributes:
        known: Their names.
        open: Heads under which any name is good: `env` for `${env.NAME}`.
        elsewhere: Names (or heads) that have a value in other places, and why not here.
    """

    known: Collection[str]
    open: Collection[str] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def judge(self, name: str) -> tuple[str, str] | None:
        """Message and hint for a name without value, None for one with."""
        head, dot, rest = name.partition(".")
        if name in self.known or (dot and rest and head in self.open and not any(char in rest for char in " .")):
            return None
        why = self.elsewhere.get(name) or self.elsewhere.get(head)
        if why:
            return f"${{{_shown(name)}}} has no value here", why
        listed = (*self.known, *(f"{item}.NAME" for item in self.open))
        return f"unknown placeholder ${{{_shown(name)}}}", did_you_mean(name, listed)


def _shown(name: str) -> str:
    return quoted(name)[1:-1]


def unknown_placeholders(
    document: Document, path: Path, value: Any, judge: Callable[[str], tuple[str, str] | None]
) -> Iterator[Problem]:
    """A problem for every placeholder in a value that cannot have a value."""
    for where, string in strings(value, path):
        for name in _unique(names_in(string)):
            verdict = judge(name)
            if verdict is not None:
                yield document.problem(where, *verdict)


def _unique(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
