"""One sighting of a fault in one run, and how sightings of one fault in many runs become one finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.checks import CHECKS
from harness.model.finding import Finding, Severity, place_of
from harness.model.plan import Place, RunKey

__all__ = ["HEADLINES", "MAX_EXAMPLES", "Rerun", "Seen", "merge", "quote_bytes", "quote_text", "scrub"]

MAX_EXAMPLES = 3
Rerun = Callable[[RunKey, str | None], str]

# Checks whose sightings are counted: one finding for a server, with the first few quoted. One, and many.
HEADLINES: Mapping[str, tuple[str, str]] = {
    "wire/stdout-not-json": ("a line on stdout is no JSON", "{n} lines on stdout are no JSON"),
    "http/not-json": (
        "a response that says it is JSON is none",
        "{n} responses that say they are JSON are none",
    ),
    "wire/framing": (
        "stdout is framed with Content-Length headers; MCP over stdio is one JSON message a line",
        "stdout is framed with Content-Length headers; MCP over stdio is one JSON message a line",
    ),
    "wire/not-utf8": ("a line on stdout is not UTF-8", "{n} lines on stdout are not UTF-8"),
    "wire/not-jsonrpc": (
        "a line on stdout is JSON, but no JSON-RPC 2.0 message",
        "{n} lines on stdout are JSON, but no JSON-RPC 2.0 messages",
    ),
    "wire/duplicate-key": (
        "a message has the same key twice in one object",
        "{n} messages have the same key twice in one object",
    ),
    "wire/carriage-return": ("a line ends in CR LF instead of LF", "{n} lines end in CR LF instead of LF"),
    "wire/id-mismatch": (
        "a reply has an id of another type than its request",
        "{n} replies have an id of another type than their request",
    ),
    "wire/unknown-id": ("a reply answers no request of ours", "{n} replies answer no request of ours"),
    "wire/duplicate-reply": ("a request was answered twice", "{n} replies to requests that had been answered"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One sighting.

    Attributes:
        order: Where it stands in its run, so that the first is the first: (transcript, event).
        key: Sightings of one check with the same key, of one server, are one finding.
        message: The finding's message; for a check in `HEADLINES` the example that is quoted instead.
        severity: Where it is not the check's usual one.
        example: For a check in `HEADLINES`: the evidence of this one.
    """

    check: str
    run: RunKey
    order: tuple[int, int] = (0, 0)
    key: Hashable = ""
    message: str
    tool: str | None = None
    severity: Severity | None = None
    pointer: str | None = None
    place: Place | None = None
    case: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)


def merge(seen: Iterable[Seen], *, order: Mapping[RunKey, int], rerun: Rerun) -> list[Finding]:
    """The findings; the first sighting in the order of the plan lends its words, `evidence.runs` lists all runs.

    Args:
        order: Position of each run in the plan.
    """
    groups: dict[tuple[str, str, Hashable], list[Seen]] = {}
    for item in seen:
        groups.setdefault((item.run.server, item.check, item.key), []).append(item)
    out = []
    for (server, check, _), items in groups.items():
        items.sort(key=lambda item: (order.get(item.run, 0), item.order, item.message))
        out.append(_counted(server, check, items, rerun) if check in HEADLINES else _plain(server, check, items, rerun))
    return out


def _runs(items: Sequence[Seen]) -> list[str]:
    return list(dict.fromkeys(str(item.run) for item in items))


def _severity(check: str, items: Sequence[Seen]) -> Severity:
    usual = CHECKS[check].severity
    return "error" if any((item.severity or usual) == "error" for item in items) else "warning"


def _plain(server: str, check: str, items: Sequence[Seen], rerun: Rerun) -> Finding:
    first = items[0]
    severity = _severity(check, items)
    worst = next(item for item in items if (item.severity or CHECKS[check].severity) == severity)
    evidence = {**worst.evidence, "runs": _runs(items)}
    if first.case is not None:
        evidence["case"] = first.case
    return Finding(
        check=check,
        severity=severity,
        server=server,
        tool=first.tool,
        pointer=first.pointer,
        **place_of(first.place),
        message=worst.message,
        evidence=evidence,
        source=CHECKS[check].source,
        rerun=rerun(first.run, first.case),
    )


def _counted(server: str, check: str, items: Sequence[Seen], rerun: Rerun) -> Finding:
    first, shown = items[0], items[:MAX_EXAMPLES]
    one, many = HEADLINES[check]
    headline = one if len(items) == 1 else many.format(n=len(items))
    lead = "" if len(items) <= MAX_EXAMPLES else f"the first {MAX_EXAMPLES}: "
    tools = {item.tool for item in items}
    cases = {item.case for item in items}
    evidence: dict[str, Any] = {
        "count": len(items),
        "first": [dict(item.example) for item in shown],
        "runs": _runs(items),
    }
    case = cases.pop() if len(cases) == 1 else None
    return Finding(
        check=check,
        severity=_severity(check, items),
        server=server,
        tool=tools.pop() if len(tools) == 1 else None,
        message=f"{headline}: {lead}{'; '.join(item.message for item in shown)}",
        evidence=evidence,
        source=CHECKS[check].source,
        rerun=rerun(first.run, case),
    )


# it begins where a word does: tried at every letter, a word of 64 KiB would take seconds
_SCOPE = re.compile(r"(?<![^\s'\"=:])[^\s'\"=:]*/rollcall-[0-9a-f]{6,}[^\s/'\"=:]*")


def scrub(text: str) -> str:
    """The text without the paths of one invocation's own folder, which differ from run to run."""
    return _SCOPE.sub("${tmp}", text)


def quote_bytes(data: bytes, limit: int = 80, *, tail: int = 0) -> str:
    """Bytes for people: quoted, printable, cut with what is missing; with `tail`, the last bytes too."""
    if len(data) <= limit + tail:
        return _quoted(data)
    head = _quoted(data[:limit])
    return f"{head} … {_quoted(data[-tail:])}" if tail else f"{head}… ({len(data)} bytes)"


def quote_text(text: str, limit: int, where: str) -> str:
    """Text for evidence: quoted, and cut with how much of it that is and where all of it is."""
    if len(text) <= limit:
        return repr(text)
    shown, size = (len(part.encode("utf-8", "surrogatepass")) for part in (text[:limit], text))
    return f"{text[:limit]!r}… ({shown:,} of {size:,} bytes; all of it in the evidence: {where})"


def _quoted(data: bytes) -> str:
    """The bytes in quotes, with what is not UTF-8 or not printable escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return "'" + "".join(char if char.isprintable() else _escape(char) for char in text) + "'"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
