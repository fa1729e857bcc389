"""The door's third part: one report over all repositories, from what is on this disk."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from harness.config.exemptions import read_exemptions
from harness.config.load import name_in
from harness.engine.git import cached
from harness.errors import (
    EXIT_CLEAN,
    EXIT_FINDINGS,
    HarnessError,
    Interrupted,
    NothingSelected,
    code_of_kind,
    iterate_errors,
)
from harness.failures import failure_of
from harness.integration import (
    Outcome,
    judge_evidence,
    rerun_line,
    selected_runs,
)
from harness.model.finding import Finding, HarnessFailure, Judgement, NotJudged, Report, Repository
from harness.model.plan import ExemptionSpec, Plan, ProjectSpec, RunKey
from harness.model.rollout import (
    RepositoryRecord,
    RepositorySpec,
)
from harness.report.build import make_report, merge
from harness.rollout import RECORDS, Member, Pass, members_here, plan_of

__all__ = ["judge_pass"]


def judge_pass(this: Pass, records: Mapping[str, RepositoryRecord], *, today: date) -> tuple[Report, list[ProjectSpec]]:
    """The one report over all selected repositories, from what is on this disk; and the projects, for their places.

    Raises:
        ConfigError: The central exemptions file cannot be used, or the selection not be understood.
    """
    members = members_here(this, records)
    central = read_exemptions(this.spec.exemptions, base=this.spec.base) if this.spec.exemptions is not None else ()
    shares = _Shares(this, members, central)
    parts = [_judged(this, member, records.get(member.spec.name), shares, today) for member in members]
    parts += _of_nobody(this, shares.leftovers(today), today)
    return merge(parts), [member.project for member in members if member.project is not None]


class _Shares:
    """Which exemptions speak of which repository.

    The central file speaks of every server, a repository's own file of the servers of the repositories that have it.
    """

    def __init__(self, this: Pass, members: Sequence[Member], central: Sequence[ExemptionSpec]) -> None:
        self.partial = len(members) < len(this.spec.repositories)
        self.by_server: dict[str, list[ExemptionSpec]] = {}
        for entry in central:
            self.by_server.setdefault(entry.server, []).append(entry)
        self.own: dict[Path, tuple[list[ExemptionSpec], set[str]]] = {}
        self.first: dict[str, Path] = {}  # name of the repository that answers for a file of its own
        ours = this.spec.exemptions.resolve() if this.spec.exemptions is not None else None
        for member in members:
            file = member.project.exemptions_file if member.project is not None else None
            if member.loaded is None or file is None or file.resolve() == ours:
                continue
            if file.resolve() not in self.own:
                self.first[member.spec.name] = file.resolve()
            entries, servers = self.own.setdefault(file.resolve(), (list(member.loaded.exemptions), set()))
            servers.add(member.server)
            for entry in entries:
                if entry.server == member.server:
                    self.by_server.setdefault(entry.server, []).append(entry)

        selected = {member.spec.name for member in members}
        self.aside = {_peek(this, spec) for spec in this.spec.repositories if spec.name not in selected}
        self.judged = {member.server for member in members if member.loaded is not None}
        self.known = {member.server for member in members} - {""}
        self.unknown = [entry for entry in central if entry.server not in self.known | self.aside]
        gone = (member for member in members if member.loaded is None and not member.server and not member.twin)
        self.nameless = next(gone, None)  # any server may be that of this one

    def of(self, server: str) -> list[ExemptionSpec]:
        """All entries that speak of a server, wherever they stand."""
        return self.by_server.get(server, [])

    def open_of(self, member: Member) -> list[NotJudged]:
        """The entries that a repository which could not be had or read leaves open."""
        if member.loaded is not None:
            return []
        if member.server in self.judged:
            return []
        if member.server:
            return [_not_judged(entry, NOT_RUN, own=False) for entry in self.of(member.server)]
        if member is not self.nameless:
            return []
        why = f"it may be the server of {member.spec.name}, which could not be had"
        return [_not_judged(entry, why, own=False) for entry in self.unknown]

    def leftovers(self, today: date) -> Judgement:
        """What is to be said of entries whose server is none of the repositories that were selected."""
        if self.nameless is not None:
            return Judgement()
        if None in self.aside:
            why = "it may be the server of a repository that was not selected and is not here"
            return Judgement(not_judged=tuple(_not_judged(entry, why, own=True) for entry in self.unknown))
        found = _of_entries(self.unknown, self.known | {name for name in self.aside if name}, today)
        return Judgement(findings=found.findings)

    def own_leftovers(self, member: Member, today: date) -> list[Finding]:
        """What is to be said of the entries of a repository's own file that speak of another's server.

        They are in the row of the repository that has the file: there they are mended.
        """
        file = self.first.get(member.spec.name)
        if file is None:
            return []
        entries, servers = self.own[file]
        found = _of_entries([entry for entry in entries if entry.server not in servers], servers, today)
        return [
            dataclasses.replace(
                item, server=member.server, message=f"{item.message} in the repository of this file; {SPEAKS_OF}"
            )
            if item.check == "exemption/stale"
            else dataclasses.replace(item, server=member.server)
            for item in found.findings
        ]


def _of_nobody(this: Pass, judgement: Judgement, today: date) -> list[Report]:
    """The part of the report that belongs to no repository: entries of the central file."""
    failing = any(item.severity == "error" or this.options.strict for item in judgement.findings)
    if not judgement.findings and not judgement.not_judged:
        return []
    incomplete = bool(judgement.not_judged) and this.options.require_complete
    return [
        Report(
            verdict="findings" if failing else "partial" if judgement.not_judged else "clean",
            exit=NothingSelected.code if incomplete else EXIT_FINDINGS if failing else EXIT_CLEAN,
            today=today.isoformat(),
            judgement=judgement,
        )
    ]


def _of_entries(entries: Sequence[ExemptionSpec], servers: Iterable[str], today: date) -> Judgement:
    """Entries of servers that nobody knows: they are malformed, or stale."""
    from harness.findings.judge import judge

    if not entries:
        return Judgement()
    plan = Plan(projects=(), cells=(), exemptions=tuple(entries), servers=tuple(sorted(servers)))
    return judge(plan, [], missing=[], today=today, rerun=lambda _key, _case: "")


def _not_judged(entry: ExemptionSpec, why: str, *, own: bool) -> NotJudged:
    return NotJudged(
        check=entry.check,
        server=entry.server,
        subject=entry.subject,
        why=why,
        own=own,
        file=entry.place.file,
        line=entry.place.line,
    )


def _peek(this: Pass, spec: RepositorySpec) -> str | None:
    """Name of the server of a repository that was not selected, None where that cannot be told."""
    checkout = cached(spec.git, spec.ref, cache=this.cache) if spec.git else None
    if spec.git and checkout is None and spec.harness is None:
        return None
    return name_in(Member(spec=spec, checkout=checkout).file)


def _judged(
    this: Pass,
    member: Member,
    record: RepositoryRecord | None,
    shares: _Shares,
    today: date,
) -> Report:
    """The report on one repository, as a part of the one on all."""
    spec = member.spec
    outcome = Outcome()
    state = record.state if record is not None else "no-record"
    for item in record.errors if record is not None else ():
        outcome.errors.append(_failure(item))
    plan: Plan | None = None
    if member.error is not None:
        outcome.errors += [failure_of(leaf, member.server or spec.name) for leaf in iterate_errors(member.error)]
    elif member.loaded is not None:
        try:
            plan = plan_of(this, member, shares.of(member.server))
        except HarnessError as error:
            outcome.errors.append(failure_of(error, member.server))
    judgement = Judgement()
    if plan is not None:
        outcome.plan = plan
        if record is None:
            outcome.not_run = {run.key: "no pass has come to it" for run in selected_runs(plan)}
        else:
            outcome.not_run = dict(record.not_run)
            outcome.attempts = {key: this.evidence / folder for key, folder in record.attempts.items()}
            for run in selected_runs(plan):
                if run.key not in outcome.attempts:  # what an earlier pass recorded is not of this one
                    outcome.not_run.setdefault(run.key, record.why or "it was not run")
        judgement = judge_evidence(this.options, plan, outcome, today=today, rerun=partial(_rerun, this, member, plan))
    was_interrupted = state in ("interrupted", "not-begun")
    if state == "timed-out":  # that its runs were interrupted is our doing, and said already
        kept = [failure for failure in judgement.errors if failure.kind != Interrupted.kind]
        judgement = dataclasses.replace(judgement, errors=tuple(kept))
    judgement = dataclasses.replace(judgement, findings=(*judgement.findings, *shares.own_leftovers(member, today)))
    errors = list(outcome.errors)
    if was_interrupted:
        errors.append(HarnessFailure(kind=Interrupted.kind, code=Interrupted.code, server="", message=INTERRUPTED))
    folders = {str(this.spec.base): "."}
    if member.checkout is not None:
        folders[str(member.root)] = member.shown
    report = make_report(
        judgement,
        today=today.isoformat(),
        errors=errors,
        notes=[*(record.notes if record is not None else ()), *outcome.notes],
        partial=shares.partial,
        strict=this.options.strict,
        require_complete=this.options.require_complete,
        interrupted=was_interrupted,
        folders=folders,
    )
    log = this.file_of(spec.name, ".log")
    row = Repository(
        name=spec.name,
        server=member.server,
        source=spec.source,
        commit=record.commit if record is not None else "",
        state=state,
        verdict=report.verdict,
        exit=report.exit,
        log=f"{RECORDS}/{log.name}" if log.is_file() else "",
    )
    # what it leaves open is explained by its own error, whatever server it is about
    open_ones = (*report.judgement.not_judged, *shares.open_of(member))
    return dataclasses.replace(
        report, judgement=dataclasses.replace(report.judgement, not_judged=open_ones, repositories=(row,))
    )


SPEAKS_OF = "it speaks of its own server only"
NOT_RUN = "its repository could not be run"
INTERRUPTED = "the pass was interrupted; everything was cleaned up, and what was recorded until then is judged"


def _failure(item: Mapping[str, str]) -> HarnessFailure:
    kind = item.get("kind", "internal")
    return HarnessFailure(
        kind=kind,
        code=code_of_kind(kind),
        server=item.get("server", ""),
        message=item.get("message", ""),
        hint=item.get("hint", ""),
        log=item.get("log", ""),
    )


def _rerun(this: Pass, member: Member, plan: Plan, key: RunKey, case: str | None) -> str:
    """The command that shows it again: of the repository itself where it lies here, else of the list."""
    if member.spec.path is not None and member.spec.harness is None and not this.options.through_nox:
        return rerun_line(this.options, plan, key, case)
    head = ["nox", "-s", "rollout", "--"] if this.options.through_nox else ["mcp-rollcall", "rollout"]
    return shlex.join([*head, "--only", member.spec.name])
