"""The report as Markdown for a CI summary, and how it is fitted into what a summary file may still take.

All foreign text stands in code spans or in fences longer than any run of backticks in it: no live HTML, mention,
issue link or address, and a table row keeps its cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from harness.model.finding import HarnessFailure, Report
from harness.report.ansi import Paint
from harness.report.escape import byte_length, cut_bytes, lines_of, visible
from harness.report.fleet import fleet_rows, fleet_summary
from harness.report.groups import Group, amount, groups_of
from harness.report.text import group_lines, headline, subject_of

__all__ = ["SUMMARY_BYTES", "cell", "code", "fence", "fit_summary", "to_markdown"]

SUMMARY_BYTES = 1_048_576  # GitHub takes no more for the summary of one step
CELL_BYTES = 500
BLOCK_BYTES = 16_000

_BACKTICKS = re.compile("`+")
_FENCE = re.compile("^(`{3,})[^`\n]*$")  # with more backticks behind it, it is a code span
_ITEM = re.compile(r"^(?:#### |\| )")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WIDTH = 100


def to_markdown(report: Report) -> str:
    """The summary, with a newline at its end; its first line is the verdict."""
    judgement = report.judgement
    blocks = [f"**mcp-rollcall: {report.verdict}** — {_headline(report)}"]
    if judgement.repositories:
        head, rows, rest = fleet_rows(judgement)
        blocks.append(f"### Repositories: {len(judgement.repositories)}, {fleet_summary(judgement.repositories)}")
        blocks.append(_table(head, ([cell(row[0]), *map(visible, row[1:])] for row in rows)))
        if rest:
            blocks.append(f"and {rest} more, in report.json")
    if judgement.coverage:
        blocks.append(
            _table(
                (
                    "server",
                    "backend",
                    "exercised",
                    "excused",
                    "missing",
                    "failed only",
                    "refused only",
                    "parameters",
                    "tokens",
                ),
                (
                    (
                        cell(row.server),
                        cell(row.backend),
                        f"{row.succeeded} of {row.tools}",
                        str(row.excused),
                        str(row.missing) if row.judged else f"{row.missing}, not judged",
                        str(row.failed_only),
                        str(row.refused_only),
                        f"{row.parameters_used} of {row.parameters}",
                        f"{row.list_tokens:,}",
                    )
                    for row in judgement.coverage
                ),
            )
        )
    if judgement.commands:
        blocks.append(
            _table(
                ("command", "server", "backend", "era", "profile", "outcome", "exit", "servers recorded"),
                (
                    (
                        cell(row.command),
                        cell(row.server),
                        cell(row.backend),
                        row.era,
                        cell(row.profile),
                        row.outcome,
                        "–" if row.exit is None else str(row.exit),
                        str(row.transcripts),
                    )
                    for row in judgement.commands
                ),
            )
        )
    if judgement.listed:
        blocks.append(
            _table(
                ("list", "tools", "prompts", "resources", "protocol"),
                (
                    (
                        cell(row.source),
                        str(row.tools) if row.whole else f"{row.tools}, further pages missing",
                        str(row.prompts),
                        str(row.resources),
                        cell(row.protocol),
                    )
                    for row in judgement.listed
                ),
            )
        )
    if judgement.errors:
        blocks += [f"### Errors: {len(judgement.errors)}", *map(_error, judgement.errors)]
    if judgement.findings:
        groups = groups_of(judgement.findings)
        shown = (part for group in groups for part in ((group,) if group.several else group.parts()))
        blocks += [f"### Findings: {len(judgement.findings)}", *map(_finding, shown)]
    if judgement.not_judged:
        blocks.append(f"### Not judged: {len(judgement.not_judged)}")
        blocks.append(
            _table(
                ("check", "server", "subject", "why"),
                (
                    (
                        cell(x.check),
                        cell(x.server),
                        cell(x.subject or ""),
                        cell(x.why) + (" (own selection)" if x.own else ""),
                    )
                    for x in judgement.not_judged
                ),
            )
        )
    if judgement.uncounted:
        blocks.append(f"### Evidence that is not counted: {len(judgement.uncounted)}")
        places = ((cell(x.server), cell(x.place), cell(x.why)) for x in judgement.uncounted)
        blocks.append(_table(("server", "where", "why"), places))
    if judgement.excused:
        blocks.append(f"### Excused in writing: {amount(len(judgement.excused), 'entry')}")
        blocks.append(
            _table(
                ("server", "backend", "subject", "check", "reason", "where"),
                (
                    (
                        cell(x.server),
                        cell(x.backend) if x.backend else "all",
                        cell(x.subject),
                        cell(x.check),
                        cell(x.reason),
                        cell(_place(x.file, x.line)),
                    )
                    for x in judgement.excused
                ),
            )
        )
    if judgement.lowered:
        blocks.append(f"### Lowered in [checks]: {len(judgement.lowered)}")
        blocks.append(
            _table(
                ("server", "family", "to", "findings", "where"),
                (
                    (cell(x.server), cell(x.family), cell(x.to), str(x.findings), cell(_place(x.file, x.line)))
                    for x in judgement.lowered
                ),
            )
        )
    return "\n\n".join(blocks) + "\n"


def fit_summary(existing_size: int, text: str, limit: int = SUMMARY_BYTES) -> str:
    """The text, or as much of it as the file may still take: cut between items, never inside a fence or a table row.

    Args:
        existing_size: Bytes that the file has already.
        limit: Bytes that it may have in the end.
    Returns:
        What to append; where something was left out its last line is "N more in report.json". Empty if not even
        that fits.
    """
    room = limit - existing_size
    if byte_length(text) <= room:
        return text
    units = list(_units(text))
    more = sum(is_item for is_item, _ in units)
    sizes = byte_length(f"\n{more} more in report.json\n")
    kept: list[str] = []
    for is_item, unit in units:
        sizes += byte_length(unit)
        if sizes > room:
            break
        kept.append(unit)
        more -= is_item
    body = "".join(kept).rstrip("\n")
    last = f"{more} more in report.json\n"
    out = f"{body}\n\n{last}" if body else last
    return out if byte_length(out) <= room else ""


def code(text: str) -> str:
    """Foreign text as a code span, on one line; a dash for none."""
    shown = visible(cut_bytes(text, CELL_BYTES))
    if not shown.strip(" "):
        return "–"
    ticks = "`" * (max((len(run) for run in _BACKTICKS.findall(shown)), default=0) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str) -> str:
    """Foreign text as a code span in a table cell."""
    return code(text).replace("|", "\\|")


def fence(lines: Iterable[str]) -> str:
    """Lines that are safe already, in a fence longer than any run of backticks in them."""
    body = "\n".join(lines)
    ticks = "`" * max(3, max((len(run) for run in _BACKTICKS.findall(body)), default=0) + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def _headline(report: Report) -> str:
    """The headline, its notes (they quote what an engine said) as code."""
    counts, *notes = headline(report).split(" · ", 1)
    return " · ".join((counts, *map(code, notes)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _place(file: str | None, line: int | None) -> str:
    return "" if file is None else file if line is None else f"{file}:{line}"


def _finding(group: Group) -> str:
    finding = group.first
    place = "" if group.several else _place(finding.file, finding.line)
    about = group.headline if group.several else subject_of(finding)
    head = f"#### {finding.severity} {code(finding.check)}: {code(about)}"
    where = " in ".join(code(part) for part in (finding.server, place) if part)
    lines = "\n".join(group_lines(group, paint=Paint(False), width=_WIDTH))
    return "\n\n".join(part for part in (head, where, fence(cut_bytes(lines, BLOCK_BYTES).split("\n"))) if part)


def _error(failure: HarnessFailure) -> str:
    parts = [failure.message, f"hint: {failure.hint}" if failure.hint else "", failure.log.rstrip()]
    text = cut_bytes("\n\n".join(part for part in parts if part), BLOCK_BYTES)
    about = f": {code(failure.server)}" if failure.server else ""
    return f"#### {code(failure.kind)} error, exit {failure.code}{about}\n\n{fence(lines_of(text))}"


def _units(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces between which it may be cut, each with whether it is an item: a finding, an error, a row."""
    lines = _LINE.findall(text)
    unit: list[str] = []
    is_item = block = False  # a block is a finding or an error: its lines stay together
    closing = ""  # the fence that is open
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        head = line.startswith("| ") and following.startswith("| ---")
        row = _ITEM.match(line) is not None
        if not closing and unit and (row or line.startswith("### ") or not block):
            yield is_item, "".join(unit)
            unit = []
        if not unit:
            block = line.startswith("#### ")
            is_item = row and not head and not line.startswith("| ---")
        unit.append(line)
        if match := _FENCE.match(line):
            closing = "" if closing and line.rstrip("\n") == closing else closing or match[1]
    if unit:
        yield is_item, "".join(unit)
