"""The entries of exemption files, listed: by owner, by check, by age, by expiry. Text and JSON.

The JSON document is published: `schema/exemption-list.schema.json`. It is made of files, dates and what git knows.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal, get_args

from harness.model.plan import ExemptionSpec
from harness.report.ansi import Paint
from harness.report.escape import visible, wrap

__all__ = [
    "ORDERS",
    "SCHEMA",
    "Listed",
    "Order",
    "list_to_json",
    "list_to_text",
    "published_list_schema",
    "same_reasons",
]

SCHEMA = 1
Order = Literal["owner", "check", "age", "expiry"]
ORDERS: tuple[Order, ...] = get_args(Order)

SAME_SERVERS = 2  # with so many, and so many entries, a reason counts as pasted
SAME_ENTRIES = 3
MAX_NAMES = 20

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An entry, and the day on which its rows were last changed; None where that is not known."""

    entry: ExemptionSpec
    since: date | None = None

    @property
    def expires(self) -> date | None:
        """Its last good day, None without one."""
        return date.fromisoformat(self.entry.expires) if self.entry.expires else None


def list_to_text(items: Sequence[Listed], *, by: Order, today: date, within: int, color: bool, width: int) -> str:
    """The list for a terminal, with a newline at its end; in groups by owner or check, else from first to last.

    Args:
        within: Days; an entry whose `expires` is no further away is marked.
        width: Columns to wrap reasons at; 0 never wraps.
    """
    paint = Paint(color)
    places = len({item.entry.place.file for item in items})
    soon = sum(_is_soon(item, today, within) for item in items)
    head = f"{paint('bold', _amount(len(items), 'exemption'))} in {_amount(places, 'file')}, by {by}, on {today}"
    out = [head + (f"; {soon} expired, or will within {_amount(within, 'day')}" if soon else "")]
    grouped = by in ("owner", "check")
    for name, group in groupby(_sorted(items, by), key=lambda item: _group(item, by)):
        members = list(group)
        if grouped:
            out += ["", f"{paint('bold', visible(name) or 'nobody')}: {len(members)}"]
        elif len(out) == 1:
            out.append("")
        for item in members:
            out += _lines(item, by=by, today=today, within=within, paint=paint, width=width)
    if len({item.entry.server for item in items}) > 1:
        out += ["", *_summary(items, paint=paint, width=width)]
    return "\n".join(out) + "\n"


def list_to_json(items: Sequence[Listed], *, by: Order, today: date, within: int, notes: Iterable[str] = ()) -> str:
    """The list as one JSON document, with a newline at its end."""
    out = {
        "schema": SCHEMA,
        "today": today.isoformat(),
        "by": by,
        "within_days": within,
        "notes": list(notes),
        "entries": [_json(item, today=today, within=within) for item in _sorted(items, by)],
        "counts": {
            "owners": _counts(item.entry.owner or "" for item in items),
            "checks": _counts(item.entry.check for item in items),
            "servers": _counts(item.entry.server for item in items),
            "expired": sum(_is_over(item, today) for item in items),
            "expires_soon": sum(_is_soon(item, today, within) and not _is_over(item, today) for item in items),
        },
        "same_reasons": [
            {"reason": reason, "entries": number, "servers": servers} for reason, number, servers in same_reasons(items)
        ],
    }
    text = json.dumps(out, ensure_ascii=False, indent=2)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def published_list_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    path = files("harness.report") / "schema" / "exemption-list.schema.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def same_reasons(items: Iterable[Listed]) -> list[tuple[str, int, list[str]]]:
    """Reasons that stand word for word with several servers: as written first, how often, with which; most first.

    One text for many things that cannot be exercised is seldom the reason of all of them.
    """
    found: dict[str, list[Listed]] = {}
    for item in items:
        words = " ".join(item.entry.reason.casefold().split()).rstrip(".")
        if words:
            found.setdefault(words, []).append(item)
    out = []
    for members in found.values():
        servers = sorted({item.entry.server for item in members})
        if len(servers) >= SAME_SERVERS and len(members) >= SAME_ENTRIES:
            out.append((members[0].entry.reason.strip(), len(members), servers))
    return sorted(out, key=lambda row: (-row[1], row[0]))


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _summary(items: Sequence[Listed], *, paint: Paint, width: int) -> Iterator[str]:
    """What a fleet wants to know of its excuses at a glance."""
    rows = [
        ("by owner", _shown(_counts(item.entry.owner or "nobody" for item in items))),
        ("by check", _shown(_counts(item.entry.check for item in items))),
        ("by server", _shown(_counts(item.entry.server for item in items))),
    ]
    known = [item for item in items if item.since is not None]
    if known:
        oldest = min(known, key=lambda item: (item.since, item.entry.place.file, item.entry.place.line or 0))
        entry = oldest.entry
        rows.append(("oldest", f"{entry.server} {entry.subject} ({entry.place}), since {oldest.since}"))
    for reason, number, servers in same_reasons(items):
        rows.append(("one reason", f"{number} times, with {', '.join(servers)}: {reason}"))
    yield paint("bold", "In all")
    for name, text in rows:
        yield from wrap(visible(text), width, first=f"  {name:<11}", rest=" " * 13)


def _shown(counts: Mapping[str, int]) -> str:
    parts = [f"{name} {number}" for name, number in counts.items()]
    return ", ".join(parts[:MAX_NAMES]) + (f" and {len(parts) - MAX_NAMES} more" if len(parts) > MAX_NAMES else "")


def _group(item: Listed, by: Order) -> str:
    if by == "owner":
        return item.entry.owner or ""
    return item.entry.check if by == "check" else ""


def _sorted(items: Iterable[Listed], by: Order) -> list[Listed]:
    """By group, those of nobody last; in a group the oldest first (soonest, by expiry), unknown days last."""

    def key(item: Listed) -> tuple[Any, ...]:
        group = _group(item, by)
        day = item.expires if by == "expiry" else item.since
        entry = item.entry
        place = (entry.place.file, entry.place.line or 0, entry.server, entry.check, entry.subject)
        return (not group, group, day or date.max, place)

    return sorted(items, key=key)


def _lines(item: Listed, *, by: Order, today: date, within: int, paint: Paint, width: int) -> Iterator[str]:
    entry, expires = item.entry, item.expires
    words = [entry.server, *([] if by == "check" else [entry.check]), entry.subject]
    facts = []
    if entry.backends:
        facts.append("on " + ", ".join(entry.backends))
    if entry.owner and by != "owner":
        facts.append(f"owner {entry.owner}")
    if item.since is not None:
        facts.append(f"since {item.since.isoformat()} ({_amount(_age(item.since, today), 'day')})")
    else:
        facts.append("age unknown")
    if expires is not None:
        facts.append(f"expires {expires.isoformat()} ({_when(expires, today)})")
    if entry.issue:
        facts.append(entry.issue)
    mark = paint("red" if _is_over(item, today) else "yellow", "!") if _is_soon(item, today, within) else " "
    shown = " ".join(map(visible, filter(None, words)))
    yield f"{mark} {visible(str(entry.place))}  {shown} — {visible('; '.join(facts))}"
    if entry.reason.strip():
        yield from wrap(entry.reason.strip(), width, first="      ", rest="      ")
    for problem in entry.problems:
        yield from wrap(f"malformed: {problem}", width, first="      ", rest="      ")


def _json(item: Listed, *, today: date, within: int) -> dict[str, Any]:
    entry, expires = item.entry, item.expires
    return {
        "server": entry.server,
        "check": entry.check,
        "subject": entry.subject,
        "reason": entry.reason,
        "backends": list(entry.backends),
        "owner": entry.owner,
        "issue": entry.issue,
        **dataclasses.asdict(entry.place),
        "since": item.since.isoformat() if item.since is not None else None,
        "age_days": _age(item.since, today) if item.since is not None else None,
        "expires": entry.expires,
        "expires_in_days": (expires - today).days if expires is not None else None,
        "expired": _is_over(item, today),
        "expires_soon": _is_soon(item, today, within) and not _is_over(item, today),
        "problems": list(entry.problems),
    }


def _age(since: date, today: date) -> int:
    return max((today - since).days, 0)


def _is_over(item: Listed, today: date) -> bool:
    return item.expires is not None and item.expires < today


def _is_soon(item: Listed, today: date, within: int) -> bool:
    """Whether it has expired, or will within that many days."""
    return item.expires is not None and (item.expires - today).days <= within


def _when(expires: date, today: date) -> str:
    days = (expires - today).days
    if days < 0:
        return f"{_amount(-days, 'day')} ago"
    return f"in {_amount(days, 'day')}" if days else "today is its last day"


def _amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
