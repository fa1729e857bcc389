"""What a report counts to: the results that `report.xml` lists one by one, and their numbers in `report.json`.

One result for every case and command of every run, one for every group of findings that none of these shows already,
one for every error. Every pair of (group, name) is unique, also over the shards of one run: the axes are part of the
group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.model.checks import family_of
from harness.model.finding import CaseResult, CommandResult, Finding, HarnessFailure, Ran, Report
from harness.report.escape import label

__all__ = ["MAX_GROUPS", "Result", "Tally", "results", "tally"]

MAX_GROUPS = 5_000  # more groups of findings are gathered by check, without the tool
NAME_BYTES = 256

_OF_COMMANDS = ("suite/command-failed", "suite/command-recorded-nothing")

State = Literal["passed", "failed", "error", "skipped"]
_STATES: dict[str, State] = {"passed": "passed", "failed": "failed", "not-judged": "error", "not-run": "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of a test report.

    Attributes:
        group: Server, backend, era, profile and suite, percent-encoded where they hold a slash, joined by slashes.
        name: Unique in its group.
        case: The case that it is the result of, or None; `command` likewise.
        failure: The error that it is, or None.
        findings: The findings of the group, or those that say why the case failed.
    """

    group: str
    name: str
    status: State
    case: CaseResult | None = None
    command: CommandResult | None = None
    failure: HarnessFailure | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The numbers; `tests` is the sum of `passed`, `failures`, `errors` and `skipped`."""

    tests: int
    passed: int
    failures: int
    errors: int
    skipped: int
    cases: int
    findings: int
    warnings: int


def tally(report: Report) -> Tally:
    """The numbers of a report."""
    states = [result.status for result in results(report)]
    severities = [finding.severity for finding in report.judgement.findings]
    return Tally(
        tests=len(states),
        passed=states.count("passed"),
        failures=states.count("failed"),
        errors=states.count("error"),
        skipped=states.count("skipped"),
        cases=len(report.judgement.cases),
        findings=severities.count("error"),
        warnings=severities.count("warning"),
    )


def results(report: Report) -> list[Result]:
    """All results, sorted by group and name. A case that could not be judged is an error: it must not look green.

    Warnings alone never fail here: their group passes. Where warnings made the verdict (`--strict`), they do.
    """
    judgement = report.judgement
    strict = report.verdict == "findings" and all(finding.severity == "warning" for finding in judgement.findings)
    tied, untied = _tied(judgement.findings, judgement.cases)
    found: list[Result] = []
    by_server: dict[str, list[Ran]] = {}
    for run in judgement.ran:
        by_server.setdefault(run.server, []).append(run)
    for case in judgement.cases:
        status = _STATES[case.status]
        group = _group((case.server, case.backend, case.era, case.profile, case.suite))
        why = tuple(tied.get((case.server, f"{case.suite}/{case.case}"), ())) if status == "failed" else ()
        found.append(Result(group=group, name=label(case.case, NAME_BYTES), status=status, case=case, findings=why))
    for command in judgement.commands:
        group = _group((command.server, command.backend, command.era, command.profile, "commands"))
        why = tuple(item for item in untied if _is_of(item, command))
        failed = command.outcome != "passed" or any(item.severity == "error" for item in why)
        state: State = "failed" if failed else "passed"
        name = label(command.command, NAME_BYTES)
        found.append(Result(group=group, name=name, status=state, command=command, findings=why))
    untied = [item for item in untied if not any(_is_of(item, command) for command in judgement.commands)]
    for (server, name), findings in _groups(untied).items():
        failed = strict or any(finding.severity == "error" for finding in findings)
        group = _group((*_axes(server, by_server.get(server, ()) if server else judgement.ran), "checks"))
        status = "failed" if failed else "passed"
        found.append(Result(group=group, name=label(name, NAME_BYTES), status=status, findings=tuple(findings)))
    for failure in judgement.errors:
        group = _group(
            (*_axes(failure.server, by_server.get(failure.server, ()) if failure.server else judgement.ran), "errors")
        )
        first = next((line for line in failure.message.splitlines() if line.strip()), "")
        name = label(f"{failure.kind}: {first.strip()}", NAME_BYTES)
        found.append(Result(group=group, name=name, status="error", failure=failure))
    return _unique(sorted(found, key=lambda result: (result.group, result.name)))


def _is_of(finding: Finding, command: CommandResult) -> bool:
    """Whether a finding is about a command."""
    return finding.check in _OF_COMMANDS and (finding.server, finding.evidence.get("command")) == (
        command.server,
        command.command,
    )


def _axes(server: str, ran: Sequence[Ran]) -> tuple[str, str, str, str]:
    """The server, and the backends, eras and profiles of its runs."""
    parts = ({run.backend for run in ran}, {run.era for run in ran}, {run.profile for run in ran})
    backends, eras, profiles = (",".join(sorted(part)) or "none" for part in parts)
    return server or "mcp-rollcall", backends, eras, profiles


def _group(parts: Iterable[str]) -> str:
    return "/".join(label(part.replace("%", "%25").replace("/", "%2F"), NAME_BYTES) for part in parts)


def _groups(findings: Sequence[Finding]) -> dict[tuple[str, str], list[Finding]]:
    by_tool: dict[tuple[str, str], list[Finding]] = {}
    by_check: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        name = finding.check if finding.tool is None else f"{finding.check}: {finding.tool}"
        by_tool.setdefault((finding.server, name), []).append(finding)
        by_check.setdefault((finding.server, finding.check), []).append(finding)
    return by_tool if len(by_tool) <= MAX_GROUPS else by_check


def _tied(
    findings: Sequence[Finding], cases: Sequence[CaseResult]
) -> tuple[dict[tuple[str, str], list[Finding]], list[Finding]]:
    """The findings that a failed case shows, by server and case, and all others.

    A suite's finding belongs to the case that its evidence names as `case` ("suite/case").
    """
    failed = {(case.server, f"{case.suite}/{case.case}") for case in cases if case.status == "failed"}
    tied: dict[tuple[str, str], list[Finding]] = {}
    untied: list[Finding] = []
    for finding in findings:
        key = (finding.server, str(finding.evidence.get("case")))
        if family_of(finding.check) == "suite" and finding.severity == "error" and key in failed:
            tied.setdefault(key, []).append(finding)
        else:
            untied.append(finding)
    return tied, untied


def _unique(found: Sequence[Result]) -> list[Result]:
    """Names that became equal by escaping get a number."""
    seen: set[tuple[str, str]] = set()
    out: list[Result] = []
    for result in found:
        name, number = result.name, 1
        while (result.group, name) in seen:
            number += 1
            name = f"{result.name} #{number}"
        seen.add((result.group, name))
        out.append(dataclasses.replace(result, name=name))
    return out
