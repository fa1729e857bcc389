"""What judging yields: findings, coverage, verdicts on exemptions, and the report that holds them all.

The JSON form is published as `harness/report/schema/report.schema.json`; `report.json` holds no durations, pids, run
ids or absolute paths, so that the same evidence, files and date give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.model.plan import Era, Place, Transport

__all__ = [
    "CaseResult",
    "CommandResult",
    "Coverage",
    "Excused",
    "Finding",
    "HarnessFailure",
    "Judgement",
    "Listed",
    "Lowered",
    "NotJudged",
    "Ran",
    "Report",
    "Repository",
    "Severity",
    "ToolDetails",
    "ToolFate",
    "Uncounted",
    "Verdict",
    "place_of",
]

Severity = Literal["error", "warning"]
Verdict = Literal["clean", "findings", "partial", "error", "nothing-run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run that gave evidence. `version`: the protocol version in force; `outcome` as in RunRecord."""

    server: str
    backend: str
    runtime: str | None
    era: Era
    profile: str
    outcome: str = "finished"
    protocol: str = ""
    server_version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = "stdio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One list of tools that was judged without a run: where it comes from, and how much was in it.

    `era` is None and `protocol` "" where the source does not tell them; `whole` is False where pages are missing.
    """

    server: str
    source: str
    era: Era | None = None
    protocol: str = ""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFate:
    """What became of one tool in one cell."""

    tool: str
    fate: Literal["succeeded", "refused-only", "failed-only", "excused", "missing"]
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDetails:
    """What answered calls used of one tool's parameters in one cell, and what it costs the context of a model.

    Attributes:
        parameters: How many there are: properties, the values that their enums list, the forms that their unions allow.
        used: How many of them were used.
        unused: The others, by name, less those that are excused.
        bytes: Of its definition, as a model gets it; `tokens` is an estimate.
        answer_bytes: Of the content of its largest answer.
    """

    tool: str
    parameters: int = 0
    used: int = 0
    unused: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    bytes: int = 0
    tokens: int = 0
    answer_bytes: int = 0
    answer_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The ledger's sums of one cell: every listed tool is exactly one of the five.

    `judged` is False where absence could not be judged.
    """

    server: str
    backend: str
    tools: int
    succeeded: int
    refused_only: int
    failed_only: int
    excused: int
    missing: int
    judged: bool = True
    fates: tuple[ToolFate, ...] = ()
    prompts: int = 0
    prompts_used: int = 0
    resources: int = 0
    resources_used: int = 0
    parameters: int = 0
    parameters_used: int = 0
    parameters_excused: int = 0
    list_bytes: int = 0
    list_tokens: int = 0
    by_tool: tuple[ToolDetails, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The server's fault or the exemption file's, with the evidence for it.

    Attributes:
        check: Full id, `family/rule`, as in `harness.model.checks`.
        severity: After `[checks]` has been applied.
        server: Its name; "" where a finding belongs to none (an exemption for an unknown server has that name).
        tool: Tool, prompt or resource that it is about, or None.
        pointer: JSON pointer into the schema, result or frame, or None.
        file: File that people write, where the fault (or what to change) is.
        message: One paragraph: what was seen, what was expected.
        evidence: Quoted bytes, offsets, exit codes, stderr tails … JSON-like; `runs` lists the runs that showed it.
        source: The rule's source (specification section, or "ours").
        rerun: The command that shows it again, already quoted for a shell.
    """

    check: str
    severity: Severity
    server: str
    tool: str | None = None
    pointer: str | None = None
    file: str | None = None
    line: int | None = None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    rerun: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessFailure:
    """An error of `report.json`: the harness could not do its job. `code` is the exit code it stands for."""

    kind: str
    code: int
    server: str
    message: str
    hint: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJudged:
    """A check, or an exemption entry, that could not be judged, and why. `own`: because of the user's own selection."""

    check: str
    server: str
    why: str
    subject: str | None = None
    own: bool = False
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excused:
    """An exemption that was used."""

    check: str
    server: str
    subject: str
    reason: str
    file: str
    line: int | None
    backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """What `[checks]` lowered, a family or one check, and how many findings that turned into warnings or hid."""

    family: str
    server: str
    to: str
    file: str
    line: int | None
    findings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of one case in one run. "not-judged": it ran, and whether an answer is right could not be told."""

    server: str
    backend: str
    era: Era
    profile: str
    suite: str
    case: str
    status: Literal["passed", "failed", "not-run", "not-judged"]
    message: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Evidence that was found and is not judged: where it lies below its root, and why it does not count."""

    server: str
    place: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What became of one command of `[suites]` in one run: `exit`, `outcome` and `output` as in CommandRecord."""

    server: str
    backend: str
    era: Era
    profile: str
    command: str
    outcome: Literal["passed", "failed", "timed-out", "not-started"]
    exit: int | None = None
    transcripts: int = 0
    output: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """One repository of a rollout, and what came of it.

    Attributes:
        name: As the list calls it; `server` is "" where its name could not be found out.
        source: Where it comes from, as the list says it, and the commit that was taken ("" for a folder).
        state: "done", or what kept it from that: "not-checked-out", "files", "timed-out", "ended", "interrupted",
            "not-begun", "no-record".
        verdict: Of it alone, with the exit code.
        log: What it printed, relative to the evidence; "" where it did not come to that.
    """

    name: str
    server: str
    source: str
    commit: str = ""
    state: str
    verdict: Verdict
    exit: int
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the findings room gives: everything but errors that no evidence holds."""

    ran: tuple[Ran, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    commands: tuple[CommandResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    errors: tuple[HarnessFailure, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    excused: tuple[Excused, ...] = ()
    lowered: tuple[Lowered, ...] = ()
    listed: tuple[Listed, ...] = ()
    repositories: tuple[Repository, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report; its parts are sorted, so that the order of arrival never changes the bytes."""

    verdict: Verdict
    exit: int
    today: str
    judgement: Judgement
    notes: tuple[str, ...] = ()


def place_of(place: Place | None) -> dict[str, Any]:
    """`file` and `line` as keyword arguments for a Finding."""
    return {"file": None, "line": None} if place is None else {"file": place.file, "line": place.line}
