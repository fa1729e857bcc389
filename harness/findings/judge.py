"""`judge`: a plan and its evidence -> everything that there is to say of them.

Pure and deterministic: the same plan, evidence and date give the same judgement, whatever the order of the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from harness import errors
from harness.findings.annotations import see_contradicted
from harness.findings.asking import see_asking, see_notifications_met, see_states
from harness.findings.catalogue import catalogue_of, see_catalogue
from harness.findings.client import not_compared, see_client
from harness.findings.closer import see_capabilities, see_closer, see_order
from harness.findings.commands import commands_of, see_commands, see_idle
from harness.findings.contract import contract_not_judged, see_contract
from harness.findings.costs import CellCosts, costs_of, see_over_budget, tokens_of
from harness.findings.exemptions import Verdicts, judge_exemptions, left_out
from harness.findings.exercised import see_absence, see_listing, see_looks, see_not_listed, see_unknown
from harness.findings.frames import TOO_DEEP
from harness.findings.handshake import see_handshake
from harness.findings.http import see_http
from harness.findings.ledger import CellLedger, make_ledger
from harness.findings.output_schema import judge_results
from harness.findings.parameters import CellParameters, parameters_of, see_unused
from harness.findings.process import see_processes
from harness.findings.seen import Rerun, Seen, merge, scrub
from harness.findings.steps import RunView, view_run, why_unanswered
from harness.findings.suites import judge_cases, not_run, see_suites, undecided
from harness.findings.turns import own_words
from harness.findings.wire import see_client_lines, see_wire, unreadable
from harness.model.checks import OFF_BY_DEFAULT, family_of
from harness.model.finding import (
    CaseResult,
    Coverage,
    Finding,
    HarnessFailure,
    Judgement,
    Lowered,
    NotJudged,
    Ran,
    place_of,
)
from harness.model.outcome import cut
from harness.model.plan import Cell, CheckSettings, Plan, RunKey
from harness.model.transcript import Diagnostic, Evidence, RunRecord

__all__ = ["NotRun", "judge"]

_CODES = {
    kind.kind: kind.code
    for kind in (
        errors.HarnessError,
        errors.ConfigError,
        errors.NothingSelected,
        errors.BuildError,
        errors.StackError,
        errors.ServerError,
        errors.Interrupted,
    )
}
_NEVER_LOWERED = ("exemption", "exercised")
_STARTING = ("initialize", "server/discover")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A planned run without evidence. `own`: because of the user's own selection, not of an error."""

    key: RunKey
    why: str
    own: bool


def judge(
    plan: Plan, evidence: Sequence[Evidence], *, missing: Sequence[NotRun], today: date, rerun: Rerun
) -> Judgement:
    """Judges all evidence of a plan.

    Args:
        evidence: Of the plan's runs, in any order; of other runs it is passed over.
        missing: Planned runs without evidence, and why.
        today: The day by which `expires` is judged.
        rerun: (run, "suite/case" or None) -> the command that shows it again.
    """
    by_key = _newest(evidence)
    absent = {item.key: item for item in missing}
    order = {run.key: index for index, run in enumerate(run for cell in plan.cells for run in cell.runs)}
    settings = {project.server.name: project.checks for project in plan.projects}
    ledgers = _ledgers(plan, by_key, absent)
    catalogues = {view.run.key: catalogue_of(view) for ledger in ledgers for view in ledger.views}
    seen = [item for ledger in ledgers for item in _see(ledger, settings[ledger.cell.server])]
    results = {server: judge_results(group, catalogues) for server, group in _by_server(ledgers).items()}
    seen += [item for found in results.values() for item in found.seen]
    seen += [item for group in _by_server(ledgers).values() for item in see_contradicted(group, catalogues)]
    parameters = {(ledger.cell.server, ledger.cell.backend): parameters_of(ledger, catalogues) for ledger in ledgers}
    costs = {(ledger.cell.server, ledger.cell.backend): costs_of(ledger, catalogues) for ledger in ledgers}
    for server, group in _by_server(ledgers).items():
        seen += see_over_budget(group, costs, settings[server])
    verdicts = judge_exemptions(
        plan, ledgers, seen, catalogues=catalogues, parameters=parameters, today=today, rerun=rerun
    )
    for server, group in _by_server(ledgers).items():
        verdicts.seen.extend(see_absence(group, verdicts.tools, settings[server]))
        if settings[server].parameters == "require":
            verdicts.seen.extend(see_unused(group, parameters, verdicts.parameters))
        if (contract := plan.project_of(server).contract) is not None:
            verdicts.seen.extend(see_contract(group, contract))
    merged = merge(verdicts.seen, order=order, rerun=rerun)
    findings, lowered = _lower([*merged, *verdicts.findings], plan)
    return Judgement(
        ran=tuple(_ran(view) for ledger in ledgers for view in _all_views(ledger, by_key)),
        coverage=tuple(
            _coverage(
                ledger,
                verdicts,
                parameters[ledger.cell.server, ledger.cell.backend],
                costs[ledger.cell.server, ledger.cell.backend],
            )
            for ledger in ledgers
            if ledger.views
        ),
        cases=tuple(_cases(ledgers, settings, by_key, absent)),
        commands=tuple(item for ledger in ledgers for view in ledger.views for item in commands_of(view)),
        findings=tuple(sorted(findings, key=_finding_key)),
        errors=tuple(_errors(ledgers, by_key, findings)),
        not_judged=(
            *_not_judged(ledgers, settings),
            *(
                NotJudged(check="output-schema/mismatch", server=server, subject=tool, why=why)
                for server, found in results.items()
                if settings[server].level_of("output-schema/mismatch") != "off"
                for tool, why in found.undecided
            ),
            *_no_contract(ledgers, plan),
            *verdicts.not_judged,
        ),
        excused=tuple(verdicts.excused),
        lowered=lowered,
    )


def _newest(evidence: Iterable[Evidence]) -> dict[RunKey, Evidence]:
    """One for each run; where a caller gives several, the one in the last folder by name."""
    out: dict[RunKey, Evidence] = {}
    for item in sorted(evidence, key=lambda item: item.folder):
        out[item.record.key] = item
    return out


def _by_server(ledgers: Iterable[CellLedger]) -> dict[str, list[CellLedger]]:
    out: dict[str, list[CellLedger]] = {}
    for ledger in ledgers:
        out.setdefault(ledger.cell.server, []).append(ledger)
    return out


# --- ledgers ------------------------------------------------------------------------------------


def _ledgers(plan: Plan, by_key: Mapping[RunKey, Evidence], absent: Mapping[RunKey, NotRun]) -> list[CellLedger]:
    out = []
    for cell in plan.cells:
        project = plan.project_of(cell.server)
        views = [view_run(run, by_key[run.key]) for run in cell.runs if run.key in by_key]
        obstacles = dict.fromkeys(_obstacles(cell, by_key, absent))
        out.append(make_ledger(cell, views, level=project.checks.exercised, obstacles=obstacles))
    for server, group in _by_server(out).items():
        for ledger in group:
            reason = left_out(plan, plan.project_of(server), ledger)
            if reason:
                ledger.obstacles = (*ledger.obstacles, (reason, True))
            unlisted = [
                view
                for view, listing in zip(ledger.views, ledger.listings, strict=True)
                if _no_list(view, listing.asked)
            ]
            if unlisted and not ledger.obstacles:
                ledger.obstacles = ((f"{unlisted[0].run.key}: tools/list was never asked for", False),)
            for view, listing in zip(ledger.views, ledger.listings, strict=True):
                if listing.left:
                    why = f"{view.run.key}: the list of tools was not read to its end"
                    ledger.obstacles = (*ledger.obstacles, (why, False))
                if listing.blamed == TOO_DEEP:
                    why = f"{view.run.key}: the answer to tools/list is nested too deeply to be read"
                    ledger.obstacles = (*ledger.obstacles, (why, False))
    return out


def _no_list(view: RunView, asked: bool) -> bool:
    return not asked and "tools" in view.capabilities and view.record.outcome == "finished"


def _obstacles(
    cell: Cell, by_key: Mapping[RunKey, Evidence], absent: Mapping[RunKey, NotRun]
) -> Iterator[tuple[str, bool]]:
    """Why absence cannot be judged in a cell: (reason, whether by the user's own selection)."""
    spoken = False
    for run in cell.runs:
        found = by_key.get(run.key)
        if found is None:
            gap = absent.get(run.key)
            yield f"{run.key}: {gap.why if gap is not None else 'no evidence'}", gap is not None and gap.own
            continue
        record = found.record
        if record.outcome == "not-spoken":
            if not run.eras_probed:
                yield f"{run.key}: the server does not speak this era", False
            continue
        spoken = True
        if record.outcome != "finished":
            said = record.errors[0].get("message", "").splitlines()[:1] if record.errors else []
            yield f"{run.key}: the run {_ENDS[record.outcome]}{': ' + said[0] if said else ''}", False
            continue
        if set(run.selected) - set(record.cases) or {item.id for item in run.commands} - _tried(record):
            yield f"{run.key}: the evidence is of a selection of the cases", False  # somebody's, not of this command
    yield from _not_commanded(cell, [by_key[run.key].record for run in cell.runs if run.key in by_key])
    if not spoken and all(run.key in by_key for run in cell.runs) and all(run.eras_probed for run in cell.runs):
        yield "the server speaks neither era", False


def _tried(record: RunRecord) -> set[str]:
    return {item.id for item in record.commands}


def _not_commanded(cell: Cell, records: Sequence[RunRecord]) -> Iterator[tuple[str, bool]]:
    """Commands that left everything to the other era's run, of which there is no evidence."""
    ran: dict[tuple[str, str], bool] = {}
    for record in records:
        for item in record.commands:
            key = (record.key.profile, item.id)
            ran[key] = ran.get(key, False) or item.outcome != "other-era"
    own = len({run.key.era for run in cell.runs}) < 2
    for (profile, name), there in ran.items():
        if not there:
            yield f"{cell.server} {cell.backend} {profile}: the command {name!r} ran in the other era", own


_ENDS = {"failed": "failed", "interrupted": "was interrupted", "finished": "", "not-spoken": ""}


def _see(ledger: CellLedger, settings: CheckSettings) -> Iterator[Seen]:
    for view in ledger.views:
        wire = [*see_wire(view), *see_handshake(view), *_see_asked(view)]
        yield from wire
        lines = list(see_client_lines(view, {item.check for item in wire}))
        yield from lines
        lists = list(see_catalogue(view))
        told = {item.check for item in lists if settings.level_of(item.check) == "error"}
        yield from see_client(view, told | {item.check for item in (*wire, *lines)})
        yield from see_http(view)
        yield from see_processes(view)
        yield from see_suites(view, ledger, settings)
        yield from see_commands(view)
        yield from lists
    if not any(own for _, own in ledger.obstacles):
        yield from see_idle(ledger.views)
    yield from see_listing(ledger, settings)
    yield from see_not_listed(ledger)
    yield from see_unknown(ledger)
    yield from see_looks(ledger)


def _see_asked(view: RunView) -> Iterator[Seen]:
    yield from see_asking(view)
    yield from see_states(view)
    yield from see_notifications_met(view)
    yield from see_closer(view)
    yield from see_capabilities(view)
    yield from see_order(view)


def _coverage(ledger: CellLedger, verdicts: Verdicts, parameters: CellParameters, costs: CellCosts) -> Coverage:
    key = (ledger.cell.server, ledger.cell.backend)
    by_tool = tuple(
        replace(
            item,
            bytes=costs.tools.get(item.tool, 0),
            tokens=tokens_of(costs.tools.get(item.tool, 0)),
            answer_bytes=costs.answers.get(item.tool, 0),
            answer_tokens=tokens_of(costs.answers.get(item.tool, 0)),
        )
        for item in parameters.coverage(verdicts.parameters.get(key, frozenset()))
    )
    return replace(
        ledger.coverage(verdicts.tools.get(key, frozenset())),
        parameters=sum(item.parameters for item in by_tool),
        parameters_used=sum(item.used for item in by_tool),
        parameters_excused=sum(len(item.excused) for item in by_tool),
        list_bytes=costs.total,
        list_tokens=tokens_of(costs.total),
        by_tool=by_tool,
    )


# --- the other parts ----------------------------------------------------------------------------


def _all_views(ledger: CellLedger, by_key: Mapping[RunKey, Evidence]) -> Iterator[Evidence]:
    for run in ledger.cell.runs:
        if run.key in by_key:
            yield by_key[run.key]


def _ran(found: Evidence) -> Ran:
    record, key = found.record, found.record.key
    version = record.server_info.get("version", "")
    return Ran(
        server=key.server,
        backend=key.backend,
        runtime=record.runtime,
        era=key.era,
        profile=key.profile,
        outcome=record.outcome,
        protocol=record.protocol,
        server_version=version if isinstance(version, str) else "",
        versions=record.versions,
        transport=record.transport,
    )


def _cases(
    ledgers: Iterable[CellLedger],
    settings: Mapping[str, CheckSettings],
    by_key: Mapping[RunKey, Evidence],
    absent: Mapping[RunKey, NotRun],
) -> Iterator[CaseResult]:
    for ledger in ledgers:
        views = {view.run.key: view for view in ledger.views}
        for run in ledger.cell.runs:
            if run.key in views:
                yield from judge_cases(views[run.key], ledger, settings[ledger.cell.server])
            elif run.key not in by_key:
                gap = absent.get(run.key)
                yield from not_run(run, gap.why if gap is not None else "no evidence")


def _not_judged(ledgers: Iterable[CellLedger], settings: Mapping[str, CheckSettings]) -> Iterator[NotJudged]:
    for ledger in ledgers:
        cell = ledger.cell
        for why, own in dict.fromkeys(ledger.obstacles):
            yield NotJudged(check="exercised", server=cell.server, why=why, own=own)
        for view in ledger.views:
            for why, place in undecided(view):
                yield NotJudged(
                    check="suite/step-failed", server=cell.server, why=f"{view.run.key}: {why}", **place_of(place)
                )
            for why in unreadable(view):
                yield NotJudged(check="wire/not-jsonrpc", server=cell.server, why=f"{view.run.key}: {why}")
            if settings[cell.server].level_of("client") == "off":
                continue
            for why in not_compared(view):
                yield NotJudged(check="client", server=cell.server, why=f"{view.run.key}: the official client: {why}")


def _no_contract(ledgers: Iterable[CellLedger], plan: Plan) -> Iterator[NotJudged]:
    for server, group in _by_server(ledgers).items():
        project = plan.project_of(server)
        if project.contract is not None and project.checks.level_of("contract") != "off":
            yield from contract_not_judged(group)


def _errors(
    ledgers: Iterable[CellLedger], by_key: Mapping[RunKey, Evidence], findings: Sequence[Finding]
) -> Iterator[HarnessFailure]:
    """The errors that the records hold, equal ones once, and those of eras that are not spoken."""
    shown = {(finding.server, finding.check) for finding in findings}
    out: dict[tuple[Any, ...], HarnessFailure] = {}
    for ledger in ledgers:
        views = {view.run.key: view for view in ledger.views}
        for run in ledger.cell.runs:
            found = by_key.get(run.key)
            if found is None:
                continue
            if run.key in views:
                for failure in _refused(views[run.key]):
                    out.setdefault((failure.server, failure.kind, failure.message), failure)
            for failure in _failures(found, views.get(run.key), shown):
                out.setdefault((failure.server, failure.kind, failure.message), failure)
            if found.record.outcome == "not-spoken" and not run.eras_probed:
                message = f"{run.key.server} does not speak the era {run.key.era!r}, which harness.toml asks for"
                hint = "name only the eras that it speaks under [server] eras"
                out.setdefault((run.key.server, message), _server_error(run.key.server, message, hint))
        runs = ledger.cell.runs
        records = [by_key[run.key].record for run in runs if run.key in by_key]
        silent = len(records) == len(runs) and all(record.outcome == "not-spoken" for record in records)
        if records and silent and all(run.eras_probed for run in runs):
            eras = " nor ".join(dict.fromkeys(run.key.era for run in runs))
            message = f"{ledger.cell.server} speaks neither era of MCP that was tried: {eras}"
            told = [(run.key.era, item.detail) for run in runs for item in _not_spoken_notes(by_key[run.key])]
            hint = "; ".join(f"{era}: {cut(scrub(own_words(why)))}" for era, why in dict(told).items())
            out.setdefault((ledger.cell.server, message), _server_error(ledger.cell.server, message, hint))
    yield from out.values()


def _not_spoken_notes(found: Evidence) -> Iterator[Diagnostic]:
    """What showed that a server does not speak the era of a run."""
    for transcript in found.transcripts:
        for event in transcript.events:
            if isinstance(event, Diagnostic) and event.what == "not-spoken":
                yield event


def _server_error(server: str, message: str, hint: str) -> HarnessFailure:
    kind = errors.ServerError
    return HarnessFailure(kind=kind.kind, code=kind.code, server=server, message=message, hint=hint)


def _failures(found: Evidence, view: RunView | None, shown: set[tuple[str, str]]) -> Iterator[HarnessFailure]:
    record, server = found.record, found.record.key.server
    recorded = record.errors
    if not recorded and record.outcome in ("failed", "interrupted"):
        kind = "interrupted" if record.outcome == "interrupted" else "internal"
        recorded = ({"kind": kind, "message": f"{record.key}: the run {_ENDS[record.outcome]}"},)
    for item in recorded:
        kind = item.get("kind", "internal")
        hint = item.get("hint", "")
        cause = _start_cause(view) if kind == errors.ServerError.kind and view is not None else ""
        if cause and (server, cause) in shown:
            hint = f"{hint}; see {cause}" if hint else f"see the finding {cause}: that is why no answer could be read"
        yield HarnessFailure(
            kind=kind,
            code=_CODES.get(kind, errors.HarnessError.code),
            server=server,
            message=item.get("message", ""),
            hint=hint,
            log=item.get("log", ""),
        )


def _refused(view: RunView) -> Iterator[HarnessFailure]:
    """Servers that a suite of somebody's own would have pointed elsewhere, and that the guard did not let start."""
    for dialogue in view.dialogues:
        for note in dialogue.diagnostics:
            if note.what == "refused" and dialogue.outside:
                yield HarnessFailure(
                    kind=errors.ConfigError.kind,
                    code=errors.ConfigError.code,
                    server=view.run.key.server,
                    message=f"a server that a test command would have started was not started:\n{note.detail}",
                    hint="a server may only be pointed at the stack of its run, which the command finds in "
                    "ROLLCALL_BACKEND_<ROLE>_<OUTPUT>",
                )


def _start_cause(view: RunView) -> str:
    """The check that explains why a server gave no first answer, "" if none does."""
    for dialogue in view.own:
        for exchange in dialogue.exchanges:
            if exchange.method in _STARTING and (cause := why_unanswered(dialogue, exchange)):
                return cause
    return ""


def _lower(findings: Iterable[Finding], plan: Plan) -> tuple[list[Finding], tuple[Lowered, ...]]:
    """Findings with `[checks]` applied, and every family and check that was lowered with what that did.

    A family that is off by default is not lowered where it is off, and neither where it is asked for.
    """
    settings = {project.server.name: project.checks for project in plan.projects}
    counts: dict[tuple[str, str], int] = {}
    out = []
    for finding in findings:
        family, checks = family_of(finding.check), settings.get(finding.server)
        spec = checks.spec_of(finding.check) if checks is not None and family not in _NEVER_LOWERED else None
        if spec is None:
            if family not in OFF_BY_DEFAULT:
                out.append(finding)
            continue
        key = (finding.server, spec.family)
        counts[key] = counts.get(key, 0) + (spec.to == "off" or (spec.to == "warning" and finding.severity == "error"))
        if spec.to == "warning" or (spec.to == "error" and "/" in spec.family):
            out.append(replace(finding, severity=spec.to))
        elif spec.to == "error":
            out.append(finding)
    return out, tuple(
        Lowered(
            family=item.family,
            server=server,
            to=item.to,
            file=item.place.file,
            line=item.place.line,
            findings=counts.get((server, item.family), 0),
        )
        for server, checks in sorted(settings.items())
        for item in sorted(checks.lowered, key=lambda item: item.family)
        if item.to != "error" and family_of(item.family) not in (*_NEVER_LOWERED, *OFF_BY_DEFAULT)
    )


def _finding_key(finding: Finding) -> tuple[Any, ...]:
    return (
        finding.server,
        finding.check,
        finding.tool or "",
        finding.file or "",
        finding.line or 0,
        finding.message,
    )
