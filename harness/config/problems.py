"""What is wrong with files that people wrote: every problem with its place, the table path, and what to do about it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from harness.errors import ConfigError
from harness.model.plan import Place

__all__ = [
    "ConfigProblems",
    "Path",
    "Problem",
    "did_you_mean",
    "kind_of",
    "printable",
    "quoted",
    "table_of",
    "where_of",
]

Path = tuple[str | int, ...]  # of a value in a document: keys, and indices of arrays from 0
SHOWN_CHARACTERS = 60
SHOWN_PATH_CHARACTERS = 200
SUGGESTED_KEYS = 25

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        place: File and line, as far as they are known.
        where: `[table.path] key`, or "" for the file as a whole.
        message: What is wrong.
        hint: What to do about it, "" if nothing is known to help.
    """

    place: Place
    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        head = f"{self.place} {self.where}" if self.where else str(self.place)
        return printable(f"{head}: {self.message}") + (f"\n  hint: {printable(self.hint)}" if self.hint else "")


class ConfigProblems(ConfigError):
    """Files cannot be used as they stand; `problems` has all problems of all files, sorted by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=_order))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _order(problem: Problem) -> tuple[str, int, str, str]:
    return problem.place.file, problem.place.line or 0, problem.where, problem.message


# --- words --------------------------------------------------------------------------------------


def quoted(value: Any) -> str:
    """Foreign text on one line, in quotes, cut, without characters that a terminal would act on."""
    text = value if isinstance(value, str) else str(value)
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "…"
    return f"'{printable(text)}'"


def printable(text: str) -> str:
    """The text without characters that a terminal would act on, or that nobody sees."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def kind_of(value: Any) -> str:
    """What a TOML value is, with the value where it is short."""
    match value:
        case bool():
            return f"a boolean ({str(value).lower()})"
        case int():
            text = str(value) if abs(value) < 10**20 else "a very long one"
            return f"an integer ({text})"
        case float():
            return f"a float ({value})"
        case str():
            return f"a string ({quoted(value)})" if value else "an empty string"
        case datetime():
            return f"a date-time ({value.isoformat()})"
        case date():
            return f"a date ({value.isoformat()})"
        case time():
            return f"a time ({value.isoformat()})"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
        case _:
            return type(value).__name__


def table_of(path: Path) -> str:
    """A path as the table that people see: `case#2.step#1`, elements of arrays counted from 1."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"#{part + 1}"
        else:
            name = part if _BARE.match(part) else json.dumps(_cut(part), ensure_ascii=False)
            out += f".{printable(name)}" if out else printable(name)
    return out if len(out) <= SHOWN_PATH_CHARACTERS else out[:SHOWN_PATH_CHARACTERS] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def where_of(path: Path, *, table: bool = False) -> str:
    """`[table.path] key` of a value; `[table.path]` of a table itself."""
    if table or not path:
        return f"[{table_of(path)}]" if path else ""
    at = len(path) - 1
    while at > 0 and isinstance(path[at], int):
        at -= 1
    head = f"[{table_of(path[:at])}] " if at else ""
    return head + table_of(path[at:])


def did_you_mean(name: str, known: Iterable[str], *, what: str = "known") -> str:
    """A hint: the nearest of the known names, and all of them where they are few."""
    names = sorted(set(known))
    if not names:
        return ""
    lower = {item.casefold(): item for item in reversed(names)}
    near = difflib.get_close_matches(name.casefold()[:100], list(lower), n=1, cutoff=0.6)
    listed = ", ".join(printable(_cut(item)) for item in names[:SUGGESTED_KEYS])
    if len(names) > SUGGESTED_KEYS:
        listed += f", … ({len(names)} in all)"
    return (f"did you mean {quoted(lower[near[0]])}? " if near else "") + f"{what}: {listed}"
