"""The report as people read it in a terminal: the verdict first, then each thing once.

Foreign text is printed character by character, but for control characters, which become visible escapes; there is no
markup language in between. Only our own words are coloured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from harness.model.checks import family_of
from harness.model.finding import (
    CaseResult,
    CommandResult,
    Coverage,
    Excused,
    Finding,
    HarnessFailure,
    Judgement,
    Listed,
    Lowered,
    NotJudged,
    Ran,
    Report,
    Uncounted,
    Verdict,
)
from harness.report.ansi import Paint
from harness.report.escape import cut_bytes, display_width, lines_of, visible, wrap
from harness.report.fleet import fleet_rows, fleet_summary
from harness.report.groups import Group, amount, groups_of

__all__ = [
    "LOG_LINES",
    "MESSAGE_BYTES",
    "VALUE_BYTES",
    "amount",
    "finding_lines",
    "group_lines",
    "head_of",
    "headline",
    "subject_of",
    "to_text",
]

VALUE_BYTES = 2_000  # of one value of a finding's evidence
MESSAGE_BYTES = 8_000
LOG_LINES = 20
RERUNS = 3  # commands shown where one entry stands for several findings
LOG_LINE_BYTES = 1_000
MIN_WIDTH = 40
LARGE_ANSWER_TOKENS = 1_000  # what is shorter is not worth a word
MAX_GROUPS = 300  # of findings that are shown; the rest is counted
TOOL_COLUMNS = 36
MAX_LISTS = 100
WORDS = 30  # of a list of words in evidence

_STYLES: dict[Verdict, str] = {
    "clean": "green",
    "findings": "red",
    "partial": "yellow",
    "error": "red",
    "nothing-run": "red",
}
_MARKS = {"error": ("red", "✗"), "warning": ("yellow", "!")}


def to_text(report: Report, *, color: bool = False, width: int = 100) -> str:
    """The report for a terminal, with a newline at its end.

    Args:
        color: Whether our own words are coloured.
        width: Columns to wrap prose at; 0 never wraps. Evidence and command lines are never broken, and neither is
            the first line, which is the verdict.
    """
    paint = Paint(color)
    width = max(width, MIN_WIDTH) if width > 0 else 0
    judgement = report.judgement
    style = _STYLES[report.verdict]
    blocks: list[list[str]] = [
        [f"{paint('bold', 'mcp-rollcall:')} {paint(style, report.verdict)} — {headline(report)}"],
        list(_fleet(judgement, paint)),
        list(_cells(judgement, paint, width)),
        _commands(judgement.commands, paint, width),
        list(_lists(judgement.listed)),
        *_findings(judgement.findings, paint, width),
        *_errors(judgement.errors, paint, width),
        _not_judged(judgement.not_judged, paint, width),
        _uncounted(judgement.uncounted, paint, width),
        _excused(judgement.excused, paint, width),
        _lowered(judgement.lowered, paint, width),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def headline(report: Report) -> str:
    """What stands behind the verdict in the first line: the counts, also when green, then the notes."""
    judgement = report.judgement
    lists = bool(judgement.listed) and not (judgement.ran or judgement.coverage)
    tools = sum(cell.tools for cell in judgement.coverage)
    succeeded = sum(cell.succeeded for cell in judgement.coverage)
    excused = sum(cell.excused for cell in judgement.coverage)
    servers = {run.server for run in judgement.ran} | {cell.server for cell in judgement.coverage}
    servers |= {item.server for item in judgement.listed}
    cells = {(cell.server, cell.backend) for cell in judgement.coverage}
    severities = [finding.severity for finding in judgement.findings]
    counts = [amount(len(judgement.repositories), "repository")] if judgement.repositories else []
    counts.append(amount(len(servers), "server"))
    spoken = sum(run.outcome != "not-spoken" for run in judgement.ran)
    counts += [amount(len(judgement.listed), "list") if lists else amount(spoken, "run")]
    counts.append(amount(severities.count("error"), "finding"))
    if "warning" in severities:
        counts.append(amount(severities.count("warning"), "warning"))
    if judgement.errors:
        kinds = ", ".join(sorted({re.sub(r"[^\w-]", "_", failure.kind) for failure in judgement.errors}))
        counts.append(f"{amount(len(judgement.errors), 'error')}: {kinds}")
    if judgement.not_judged:
        counts.append(f"{len(judgement.not_judged)} not judged")
    if report.exit > 1:
        counts.append(f"exit {report.exit}")
    notes = [visible(note.strip()) for note in report.notes]
    if report.verdict == "partial":
        own = all(item.own for item in judgement.not_judged)
        notes.insert(0, "your own selection left something out" if own else "not everything could be judged")
    elif report.verdict == "nothing-run":
        notes.insert(0, "nothing was run")
    over = by = ""
    if len(cells) > len(servers):  # a tool counts once for each cell, an entry once
        over = f" over {amount(len(cells), 'cell')}"
        entries = sum(family_of(item.check) == "exercised" for item in judgement.excused)
        by = f" by {amount(entries, 'entry')}" if entries else ""
    what = f"{succeeded} of {tools} tools exercised{over}, {excused} excused{by}"
    if lists:
        what = amount(_tools_listed(judgement.listed), "tool")
    elif report.verdict == "error" and not servers:
        what = "nothing was judged"
    line = f"{what} ({', '.join(counts)})"
    return " · ".join((line, *notes))


def subject_of(finding: Finding) -> str:
    """What a finding is about: the tool with its pointer, or the server, or the file."""
    name = finding.tool if finding.tool is not None else finding.server or finding.file or "mcp-rollcall"
    return visible(f"{name} {finding.pointer}" if finding.pointer else name)


def head_of(group: Group) -> str:
    """What a group is about: its check, and the tool, or how many tools."""
    place = _place(group.first.file, group.first.line)
    check = visible(group.first.check)
    if group.several:
        return f"{check}: {group.headline}"
    return ", ".join(map(subject_of, group.findings)) + f": {check}" + (f" ({place})" if place else "")


def finding_lines(finding: Finding, *, paint: Paint, width: int, indent: str = "") -> Iterator[str]:
    """What, evidence, source, rerun: all of a finding but its heading."""
    yield from group_lines(Group(findings=(finding,)), paint=paint, width=width, indent=indent)


def group_lines(group: Group, *, paint: Paint, width: int, indent: str = "") -> Iterator[str]:
    """The places, what, evidence, source, rerun: all of a group but its heading."""
    finding = group.first
    if group.several:
        yield from _places(group, width, indent)
    message = group.words
    if group.several and not group.alike:
        message = f"such as {subject_of(finding)}: {message}"
    yield from wrap(cut_bytes(message, MESSAGE_BYTES), width, first=indent, rest=indent)
    evidence = group.common() if group.several else finding.evidence
    rows: list[tuple[str, Sequence[str]]] = [("evidence", list(_evidence(evidence, finding.message)))]
    rows.append(("source", lines_of(finding.source) if finding.source else ()))
    commands = list(dict.fromkeys(item.rerun for item in group.findings if item.rerun))
    rest = [f"(and {len(commands) - RERUNS} more, in report.json)"] if len(commands) > RERUNS else []
    rows.append(("rerun", [line for command in commands[:RERUNS] for line in lines_of(command)] + rest))
    for name, lines in rows:
        for number, line in enumerate(lines):
            head = paint("dim", f"{name:<10}") if number == 0 else " " * 10
            yield f"{indent}{head}{line}"


def _places(group: Group, width: int, indent: str) -> Iterator[str]:
    rows = list(group.rows())
    column = min(max((display_width(name) for name, places in rows if places), default=0), TOOL_COLUMNS)
    for name, places in rows:
        if not places:
            yield f"{indent}  {name}"
            continue
        lead = f"{indent}  {name}{' ' * max(0, column - display_width(name))}  "
        yield from wrap(places, width, first=lead, rest=f"{indent}      ")


def _evidence(evidence: Mapping[str, Any], message: str) -> Iterator[str]:
    for key, value in sorted(evidence.items()):
        if key == "kind" or (key in ("instead", "spelling", "caller") and str(value) in message):  # it has been said
            continue
        if value is None or value in ("", [], {}):
            continue
        text = cut_bytes(_shown(value), VALUE_BYTES)
        lines = lines_of(text.removesuffix("\n"))
        if len(lines) == 1:
            yield f"{visible(key)}: {lines[0]}"
        else:
            yield f"{visible(key)}:"
            yield from (f"| {line}".rstrip() for line in lines)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) and "\n" not in item for item in value):
        more = [f"… and {len(value) - WORDS:,} more, in report.json"] if len(value) > WORDS else []
        return ", ".join([*value[:WORDS], *more])
    if isinstance(value, list | tuple) and len(value) > 1 and any(isinstance(item, Mapping) for item in value):
        return "\n".join(map(_shown, value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _place(file: str | None, line: int | None) -> str:
    return "" if not file else visible(file if line is None else f"{file}:{line}")


def _fleet(judgement: Judgement, paint: Paint) -> Iterator[str]:
    """The repositories of a rollout, one row each; rows are never broken."""
    if not judgement.repositories:
        return
    head, rows, rest = fleet_rows(judgement)
    shown = [[visible(cell) for cell in row] for row in (head, *rows)]
    widths = [max(display_width(row[column]) for row in shown) for column in range(len(head))]
    yield f"{amount(len(judgement.repositories), 'repository')}: {fleet_summary(judgement.repositories)}"
    for number, row in enumerate(shown):
        cells = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        if number == 0:
            yield paint("dim", f"  {'  '.join(cells).rstrip()}")
            continue
        cells[1] = paint(_STYLES[cast("Verdict", row[1])], cells[1])
        yield f"  {'  '.join(cells).rstrip()}"
    if rest:
        yield f"  and {rest} more, in report.json"


def _cells(judgement: Judgement, paint: Paint, width: int) -> Iterator[str]:
    """One line of numbers for every cell, and one that says what they rest on."""
    coverage = {(cell.server, cell.backend): cell for cell in judgement.coverage}
    runs: dict[tuple[str, str], list[Ran]] = {}
    for run in judgement.ran:
        runs.setdefault((run.server, run.backend), []).append(run)
    cases: dict[tuple[str, str], list[CaseResult]] = {}
    for case in judgement.cases:
        cases.setdefault((case.server, case.backend), []).append(case)
    keys = sorted(coverage.keys() | runs.keys())
    names = {key: visible(f"{key[0]}  {key[1]}") for key in keys}
    column = min(max((len(name) for name in names.values()), default=0), 40) + 3
    for key in keys:
        numbers = _numbers(coverage.get(key), paint)
        lead = f"  {names[key]:<{column}}"
        yield lead + numbers
        line = ""
        for part in _basis(coverage.get(key), runs.get(key, []), cases.get(key, [])):
            longer = f"{line}; {part}" if line else part
            if line and width and column + display_width(longer) > width - 2:
                yield " " * (2 + column) + paint("dim", f"{line};")
                longer = part
            line = longer
        if line:
            yield " " * (2 + column) + paint("dim", line)


def _commands(items: Sequence[CommandResult], paint: Paint, width: int) -> list[str]:
    """One line for every command of every run: how it ended, and how many servers it was seen to start."""

    def shown(item: CommandResult) -> tuple[str, str]:
        run = f"{item.server} {item.backend} {item.era} {item.profile}"
        how = item.outcome if item.exit is None else f"{item.outcome}, exit code {item.exit}"
        return f"{visible(item.command)} ({visible(run)})", f"{how}, {amount(item.transcripts, 'server')} recorded"

    return _listed("Commands", items, shown, paint, width)


def _tools_listed(lists: Sequence[Listed]) -> int:
    """How many tools the lists name, each once where one server gave a list in each era."""
    most: dict[tuple[str, str], int] = {}
    for item in lists:
        key = item.server, "" if item.era else item.source
        most[key] = max(most.get(key, 0), item.tools)
    return sum(most.values())


def _lists(lists: Sequence[Listed]) -> Iterator[str]:
    """One line for every list that was judged."""
    column = min(max((display_width(visible(item.source)) for item in lists), default=0), 60) + 3
    for item in lists[:MAX_LISTS]:
        name = visible(item.source)
        parts = [amount(item.tools, "tool")]
        parts += [amount(item.prompts, "prompt")] if item.prompts else []
        parts += [amount(item.resources, "resource")] if item.resources else []
        parts += [visible(f"protocol {item.protocol}")] if item.protocol else []
        parts += [] if item.whole else ["further pages missing"]
        yield f"  {name}{' ' * max(2, column - display_width(name))}{', '.join(parts)}"
    if len(lists) > MAX_LISTS:
        yield f"  … and {amount(len(lists) - MAX_LISTS, 'more list')}"


def _numbers(cell: Coverage | None, paint: Paint) -> str:
    if cell is None:
        return paint("red", "no tools listed")
    parts = [f"{cell.succeeded} of {cell.tools} exercised", f"{cell.excused} excused"]
    for number, word in (
        (cell.missing, "missing"),
        (cell.failed_only, "failed only"),
        (cell.refused_only, "refused only"),
    ):
        if number:
            parts.append(paint("red", f"{number} {word}") if cell.judged else f"{number} {word}")
    if not cell.judged:
        parts.append(paint("yellow", "absence not judged"))
    return ", ".join(parts)


def _basis(cell: Coverage | None, runs: Sequence[Ran], cases: Sequence[CaseResult]) -> Iterator[str]:
    if cases:
        passed = sum(case.status == "passed" for case in cases)
        yield f"{passed} of {amount(len(cases), 'case')} passed"
    if cell is not None and cell.prompts:
        yield f"{cell.prompts_used} of {amount(cell.prompts, 'prompt')} used"
    if cell is not None and cell.resources:
        yield f"{cell.resources_used} of {amount(cell.resources, 'resource')} used"
    if cell is not None and cell.parameters:
        excused = f" ({cell.parameters_excused} excused)" if cell.parameters_excused else ""
        yield f"{cell.parameters_used} of {amount(cell.parameters, 'parameter')} used{excused}"
    if cell is not None and cell.list_tokens:
        yield f"the list costs about {cell.list_tokens:,} tokens"
        largest = max(cell.by_tool, key=lambda tool: (tool.answer_tokens, tool.tool), default=None)
        if largest is not None and largest.answer_tokens > LARGE_ANSWER_TOKENS:
            yield visible(f"the largest answer about {largest.answer_tokens:,} ({largest.tool})")
    for era, group in groupby(sorted(runs, key=lambda run: run.era), key=lambda run: run.era):
        of_era = list(group)
        if all(run.outcome == "not-spoken" for run in of_era):
            yield f"{era} not spoken"
            continue
        protocols = sorted({run.protocol for run in of_era if run.protocol})
        ends = [run.profile if run.outcome == "finished" else f"{run.profile}: {run.outcome}" for run in of_era]
        yield visible(" ".join((era, *protocols, f"({', '.join(ends)})")))
    if any(run.transport == "http" for run in runs):
        yield "over HTTP"
    if runtime := ", ".join(sorted({run.runtime for run in runs if run.runtime})):
        versions = {f"{label} {version}".strip() for run in runs for label, version in run.versions.items() if version}
        yield visible(", ".join((runtime, *sorted(versions))))


def _findings(findings: Sequence[Finding], paint: Paint, width: int) -> Iterator[list[str]]:
    left = MAX_GROUPS
    for server, members in groupby(findings, key=lambda finding: finding.server):
        mine = list(members)
        warnings = sum(finding.severity == "warning" for finding in mine)
        numbers = [amount(len(mine) - warnings, "finding")] if len(mine) > warnings else []
        numbers += [amount(warnings, "warning")] if warnings else []
        yield [f"{paint('bold', visible(server) or 'files')} — {', '.join(numbers)}"]
        groups = groups_of(mine)
        for group in groups[:left]:
            style, mark = _MARKS[group.severity]
            first, *more = wrap(head_of(group), width, first="    ", rest="      ")
            body = group_lines(group, paint=paint, width=width, indent="    ")
            yield [f"  {paint(style, mark)} {first.removeprefix('    ')}", *more, *body]
        if rest := sum(len(group.findings) for group in groups[left:]):
            yield [f"  … and {amount(rest, 'more finding')}, in report.json"]
        left = max(0, left - len(groups))


def _errors(errors: Sequence[HarnessFailure], paint: Paint, width: int) -> Iterator[list[str]]:
    if not errors:
        return
    yield [f"{paint('bold', 'Errors')} — the harness could not do its job: {len(errors)}"]
    for failure in errors:
        first = (
            f"  {paint('red', '✗')} {visible(failure.kind)} ({visible(failure.server) or 'all'}, exit {failure.code})"
        )
        lines = [first, *wrap(cut_bytes(failure.message, MESSAGE_BYTES), width, first="    ", rest="    ")]
        if failure.hint:
            lines += _labelled("hint", failure.hint, paint, width)
        if failure.log.strip():
            lines += [f"    {paint('dim', 'log')}       {line}" if number == 0 else f"              {line}"
                      for number, line in enumerate(_folded(failure.log))]  # fmt: skip
        yield lines


def _folded(log: str) -> list[str]:
    """The last lines of a log, after a remark on how many came before."""
    lines = [cut_bytes(line, LOG_LINE_BYTES) for line in lines_of(log.strip("\r\n"))]
    rest = len(lines) - LOG_LINES
    remark = [f"({amount(rest, 'line')} before this; all of it in report.json)"] if rest > 0 else []
    return remark + [f"| {line}".rstrip() for line in lines[-LOG_LINES:]]


def _labelled(name: str, text: str, paint: Paint, width: int) -> list[str]:
    pad = " " * 14
    lines = wrap(cut_bytes(text, MESSAGE_BYTES), width, first=pad, rest=pad)
    return [f"    {paint('dim', f'{name:<10}')}{lines[0].removeprefix(pad)}", *lines[1:]]


def _not_judged(items: Sequence[NotJudged], paint: Paint, width: int) -> list[str]:
    """One line for each check, server and reason; how many entries of a file it holds for is a number."""
    groups: dict[tuple[str, str, str, bool], list[NotJudged]] = {}
    for item in items:
        groups.setdefault((item.check, item.server, item.why, item.own), []).append(item)

    def shown(group: tuple[tuple[str, str, str, bool], list[NotJudged]]) -> tuple[str, str]:
        (check, server, why, own), members = group
        named = sorted({item.subject for item in members if item.subject})
        about = " ".join(visible(part) for part in (server, *(named if len(named) == 1 else ())) if part)
        many = f" ({amount(len(named), 'exemption')})" if len(named) > 1 else ""
        return f"? {visible(check)}{f': {about}' if about else ''}{many}", why + (" (your selection)" if own else "")

    return _listed("Not judged", list(groups.items()), shown, paint, width, count=str(len(items)))


def _uncounted(items: Sequence[Uncounted], paint: Paint, width: int) -> list[str]:
    def shown(item: Uncounted) -> tuple[str, str]:
        return f"{visible(item.server)}: {visible(item.place)}", item.why

    return _listed("Evidence that is not counted", items, shown, paint, width)


def _excused(items: Sequence[Excused], paint: Paint, width: int) -> list[str]:
    def shown(item: Excused) -> tuple[str, str]:
        on = f" on {visible(item.backend)}" if item.backend else ""
        check = "" if item.check.startswith("exercised") else f" {visible(item.check)}"
        return f"{_place(item.file, item.line)}  {visible(item.server)} {visible(item.subject)}{check}{on}", item.reason

    return _listed("Excused in writing", items, shown, paint, width, count=amount(len(items), "entry"))


def _lowered(items: Sequence[Lowered], paint: Paint, width: int) -> list[str]:
    def shown(item: Lowered) -> tuple[str, str]:
        place = _place(item.file, item.line)
        return f"{place}  {visible(item.server)}", f"{item.family} is {item.to}: {amount(item.findings, 'finding')}"

    return _listed("Lowered in [checks]", items, shown, paint, width)


def _listed(
    title: str,
    items: Sequence[Any],
    shown: Callable[[Any], tuple[str, str]],
    paint: Paint,
    width: int,
    *,
    count: str = "",
) -> list[str]:
    """A title with the number of items; each item on a line with what is said about it, or below where it is long."""
    if not items:
        return []
    return [f"{paint('bold', title)}: {count or len(items)}", *_rows(map(shown, items), width)]


def _rows(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    for head, text in rows:
        lines = wrap(cut_bytes(text.strip(), MESSAGE_BYTES), width, first=f"  {head} — ", rest="      ")
        yield from lines
