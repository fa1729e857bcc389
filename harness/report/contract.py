"""The changes between two contracts, as text, JSON and Markdown (for a pull request)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.model.contract import ABSENT, CLASSES, Change
from harness.report.escape import visible, wrap

__all__ = [
    "Compared",
    "compared_to_json",
    "compared_to_markdown",
    "compared_to_text",
    "counted",
    "published_diff_schema",
]

MAX_VALUE_CHARACTERS = 200
MAX_MARKDOWN_ROWS = 300  # of one class
TITLES: Mapping[str, str] = {
    "breaking": "Breaking",
    "unknown": "Could not be told",
    "additive": "Additive",
    "routing": "Routing (what models read)",
    "cosmetic": "Cosmetic",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sources and their differences; `fails` are the classes that were asked to fail."""

    before: str
    after: str
    changes: tuple[Change, ...]
    fails: tuple[str, ...] = ()

    @property
    def exit(self) -> int:
        """1 where a change of such a class is there."""
        return int(any(change.cls in self.fails for change in self.changes))


def counted(changes: Sequence[Change]) -> str:
    """`3 changes: 2 breaking, 1 additive`; `no change`."""
    if not changes:
        return "no change"
    counts = [(name, sum(change.cls == name for change in changes)) for name in CLASSES]
    listed = ", ".join(f"{count} {name}" for name, count in counts if count)
    return f"{len(changes)} change{'s' * (len(changes) != 1)}: {listed}"


def compared_to_text(found: Compared, *, width: int = 100) -> str:
    """For people: a line of counts, then each change with what a caller sees."""
    out = [f"{visible(found.before)} -> {visible(found.after)}: {counted(found.changes)}"]
    for cls, changes in groupby(found.changes, key=lambda change: change.cls):
        out.append("")
        out.append(f"{cls}")
        for change in changes:
            where = "".join(f" {part}" for part in (change.where, change.pointer) if part)
            out.append(f"  {visible(change.name)}{visible(where)} — {visible(change.kind)}")
            for line in _lines(change):
                out += wrap(visible(line), width, first="    ", rest="      ")
    return "\n".join(out) + "\n"


def _lines(change: Change) -> Iterator[str]:
    yield change.message
    if isinstance(change.before, str) and isinstance(change.after, str):
        yield " -> ".join(map(_short, _around(change.before, change.after)))
    elif change.before is not ABSENT and change.after is not ABSENT:
        yield f"{_short(change.before)} -> {_short(change.after)}"
    elif change.before is not ABSENT or change.after is not ABSENT:
        gone = change.after is ABSENT
        yield f"{'before' if gone else 'after'}: {_short(change.before if gone else change.after)}"
    if change.caller:
        yield f"a caller sees: {change.caller}"
    if change.runs:
        yield f"only in: {', '.join(change.runs)}"


def _around(one: str, two: str) -> tuple[str, str]:
    """Two long texts from shortly before where they differ."""
    if max(len(one), len(two)) <= MAX_VALUE_CHARACTERS:
        return one, two
    same = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, same - 40)
    lead = "…" if start else ""
    return lead + one[start:], lead + two[start:]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"


def compared_to_json(found: Compared) -> str:
    """One document; its schema is published as contract-diff.schema.json."""
    changes = []
    for change in found.changes:
        item: dict[str, Any] = {
            "class": change.cls,
            "subject": change.subject,
            "name": change.name,
            "where": change.where,
            "pointer": change.pointer,
            "kind": change.kind,
            "message": change.message,
            "caller": change.caller,
            "runs": list(change.runs),
        }
        for key, value in (("before", change.before), ("after", change.after)):
            if value is not ABSENT:
                item[key] = value
        changes.append(item)
    document = {
        "schema": 1,
        "before": found.before,
        "after": found.after,
        "exit": found.exit,
        "counts": {name: sum(change.cls == name for change in found.changes) for name in CLASSES},
        "changes": changes,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def published_diff_schema() -> dict[str, Any]:
    """The JSON Schema of that document."""
    text = (Path(__file__).parent / "schema" / "contract-diff.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def compared_to_markdown(found: Compared) -> str:
    """A table for each class."""
    out = [f"**{_cell(found.before)} → {_cell(found.after)}**: {counted(found.changes)}\n"]
    for cls, group in groupby(found.changes, key=lambda change: change.cls):
        changes = list(group)
        out.append(f"### {TITLES[cls]}\n\n| | where | what | a caller sees |\n|---|---|---|---|")
        for change in changes[:MAX_MARKDOWN_ROWS]:
            where = " ".join(part for part in (change.where, change.pointer) if part)
            only = f" (only in {', '.join(change.runs)})" if change.runs else ""
            cells = (
                _code(change.name),
                _code(where) if where else "",
                _cell(change.message + only),
                _cell(change.caller),
            )
            out.append(f"| {' | '.join(cells)} |")
        if len(changes) > MAX_MARKDOWN_ROWS:
            out.append(f"\n… and {len(changes) - MAX_MARKDOWN_ROWS} more")
        out.append("")
    return "\n".join(out).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    plain = visible(text).replace("\n", " ")
    for char in "\\`*_[]<>|#":
        plain = plain.replace(char, f"\\{char}" if char not in "<>" else {"<": "&lt;", ">": "&gt;"}[char])
    return plain


def _code(text: str) -> str:
    return "`" + visible(text).replace("\n", " ").replace("`", "'").replace("|", "\\|") + "`"
