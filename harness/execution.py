"""Runs a plan: builds the servers, lends each run a stack, and leaves evidence and errors in an `Outcome`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from anyio import get_cancelled_exc_class

from harness.config.load import Loaded
from harness.config.plan import Selection, make_plan
from harness.engine.build import Built, build, state_folder
from harness.engine.evidence import Attempt, EvidenceLost, read_attempt
from harness.engine.lend import Kind, Lender, kind_of, open_stacks
from harness.engine.lend_link import Borrowed
from harness.engine.mask import Masker
from harness.engine.run import can_end_in_peace, run_one
from harness.engine.scope import Scope, open_scope
from harness.engine.stack import prepare_images
from harness.errors import BuildError, StackError, iterate_errors
from harness.integration import (
    LOST,
    Options,
    Outcome,
    collecting,
    evidence_root,
    load_plan,
    selected_runs,
    selection_of,
)
from harness.model.plan import Cell, Plan, ProjectSpec, Runtime
from harness.model.progress import Progress
from harness.model.transcript import RunRecord

__all__ = ["execute", "load_both_plans", "settle"]


async def load_both_plans(options: Options, *, progress: Progress) -> tuple[Plan, Plan]:
    """The plan of the selection, settled, and that of everything that there is, with the same runtimes.

    Raises:
        ConfigError, NothingSelected, StackError: As `load_plan`.
    """
    loaded, plan = load_plan(options)
    selected = await settle(options, loaded, plan, progress=progress)
    runtimes: dict[str, Runtime] = {run.key.server: run.runtime for run in selected_runs(selected) if run.runtime}
    whole = make_plan(loaded, selection=Selection(), runtimes=runtimes, notes=selected.notes, idle=options.idle)
    return selected, whole


async def settle(options: Options, loaded: Loaded, plan: Plan, *, progress: Progress) -> Plan:
    """The plan with embedded backends for servers whose images cannot be had, where `auto` leaves us the choice.

    The causes are among its notes. A server one of whose backends has no embedded form keeps Docker, and its error.
    """
    if options.runtime != "auto" or any("@" in label for label in options.backends):
        return plan
    runtimes: dict[str, Runtime] = {run.key.server: run.runtime for run in selected_runs(plan) if run.runtime}
    notes = list(plan.notes)
    for project in plan.projects:
        name = project.server.name
        backends = [project.backends[use] for role in project.roles for use in role.use]
        if runtimes.get(name) != "docker" or any(backend.process is None for backend in backends):
            continue
        try:
            for cell in plan.cells:
                if cell.server == name:
                    await prepare_images(
                        cell.roles, project.backends, progress=progress, subject=f"{name} {cell.backend}"
                    )
        except StackError as error:
            runtimes[name] = "process"
            cause = error.message.splitlines()[0]
            notes.append(f"{name}: embedded backends, because its images cannot be had: {cause}")
            progress.note(name, notes[-1])
    if notes == list(plan.notes):
        return plan
    selection = selection_of(options, loaded)
    return make_plan(loaded, selection=selection, runtimes=runtimes, notes=notes, idle=options.idle)


async def execute(
    options: Options, plan: Plan, outcome: Outcome, *, progress: Progress, only_build: bool = False
) -> None:
    """Builds and, unless `only_build`, records the evidence of every planned run. Errors go into `outcome`.

    Runs that are kept have given theirs: they are as if they had just been made.
    """
    outcome.plan = plan
    for cell in plan.cells:
        for run in cell.runs:
            outcome.not_run[run.key] = "not reached"
            folder = options.kept.get(run.key)
            evidence = read_attempt(folder) if folder is not None else None
            if folder is not None and evidence is not None and evidence.record.plan == run.fingerprint:
                outcome.take(evidence.record, Attempt(folder))
    with open_scope() as scope, collecting(outcome):
        async with open_stacks(again=options.reuse_stacks, scope=scope, progress=progress) as own:
            stacks: Lender = own
            if options.stacks and plan.projects:
                stacks = Borrowed(options.stacks, plan.projects[0].server.name, own=own, progress=progress)
            for index, project in enumerate(plan.projects):
                cells = _cells_of(plan, project)
                rest = plan.projects[index + 1 :]
                later = {_kind(other, cell) for other in rest for cell in _left(_cells_of(plan, other), outcome)}
                if _left(cells, outcome):
                    await _project(
                        options,
                        project,
                        cells,
                        outcome,
                        stacks=stacks,
                        later=later,
                        scope=scope,
                        progress=progress,
                        only_build=only_build,
                    )


def _cells_of(plan: Plan, project: ProjectSpec) -> list[Cell]:
    return [cell for cell in plan.cells if cell.server == project.server.name]


def _left(cells: Sequence[Cell], outcome: Outcome) -> list[Cell]:
    """Those that have runs without evidence."""
    return [cell for cell in cells if any(run.key not in outcome.attempts for run in cell.runs)]


def _kind(project: ProjectSpec, cell: Cell) -> Kind:
    """Which stacks the runs of a cell can have."""
    return kind_of(cell.roles, project.backends, cell.runs[0].runtime)


async def _project(
    options: Options,
    project: ProjectSpec,
    cells: Sequence[Cell],
    outcome: Outcome,
    *,
    stacks: Lender,
    later: set[Kind],
    scope: Scope,
    progress: Progress,
    only_build: bool,
) -> None:
    try:
        state = state_folder(project.root, options.state)
        built = await build(project, state=state, scope=scope, progress=progress, force=options.rebuild)
    except Exception as error:
        runs = [run for cell in cells for run in cell.runs if run.key not in outcome.attempts]
        failed = any(isinstance(leaf, BuildError) for leaf in iterate_errors(error))
        why = "the build failed" if failed else "it could not be begun"
        outcome.give_up(runs, error, evidence=evidence_root(options, project), why=why)
        return
    if only_build:
        return
    unspoken: dict[str, RunRecord] = {}
    for index, cell in enumerate(cells):
        await _cell(
            options,
            project,
            cell,
            built,
            outcome,
            unspoken,
            stacks=stacks,
            later=later | {_kind(project, other) for other in _left(cells[index + 1 :], outcome)},
            state=state,
            scope=scope,
            progress=progress,
        )


async def _cell(
    options: Options,
    project: ProjectSpec,
    cell: Cell,
    built: Built,
    outcome: Outcome,
    unspoken: dict[str, RunRecord],
    *,
    stacks: Lender,
    later: set[Kind],
    state: Path,
    scope: Scope,
    progress: Progress,
) -> None:
    """All runs of a cell, each on a stack as good as fresh; one that made no call leaves its stack to the next.

    Args:
        later: Which stacks are wanted after this cell.
        unspoken: Eras that a probe of this build has found it does not speak: no other profile and no other backend
            can change that, and each probe would start the server once more.
    """
    evidence = evidence_root(options, project)
    waiting = [run for run in cell.runs if run.key not in outcome.attempts]
    commands: dict[str, set[str]] = {}  # profile -> what has run in it
    for kept in (read_attempt(outcome.attempts[run.key]) for run in cell.runs if run not in waiting):
        if kept is not None:
            commands.setdefault(kept.record.key.profile, set()).update(item.id for item in kept.record.commands)
            if kept.record.outcome == "not-spoken":
                unspoken.setdefault(kept.record.key.era, kept.record)

    def skip_unspoken() -> None:
        for other in [run for run in waiting if run.eras_probed and run.key.era in unspoken]:
            record = unspoken[other.key.era]
            again = dataclasses.replace(
                record,
                key=other.key,
                plan=other.fingerprint,
                cases=other.selected,
                versions=record.versions if record.key.backend == other.key.backend else {},
            )
            place = Attempt.create(evidence, other.key)
            place.finish(again)
            waiting.remove(other)
            outcome.take(again, place)

    while waiting:
        masker = Masker()
        subject = f"{cell.server} {cell.backend}"
        try:
            skip_unspoken()
            if not waiting:
                return
            async with stacks.lend(
                cell.roles,
                project.backends,
                runtime=waiting[0].runtime,
                masker=masker,
                subject=subject,
                state=state,
                wanted=lambda: bool(waiting) or _kind(project, cell) in later,
                once=not can_end_in_peace(waiting[0], elsewhere=commands.get(waiting[0].key.profile, ())),
            ) as lent:
                untouched = True
                while waiting and untouched:
                    run = waiting.pop(0)
                    outcome.not_run[run.key] = "it was begun and not finished"
                    try:
                        attempt = Attempt.create(evidence, run.key)
                    except EvidenceLost:
                        waiting.insert(0, run)
                        raise
                    try:
                        record = await run_one(
                            run,
                            project,
                            built=built,
                            stack=lent.stack,
                            lent=lent,
                            scope=scope,
                            masker=masker,
                            evidence=evidence,
                            progress=progress,
                            attempt=attempt,
                            probe=outcome.plan is not None and outcome.plan.is_first(run.key),
                            elsewhere=commands.get(run.key.profile, ()),
                            states=outcome.plan is not None and outcome.plan.is_first(run.key, of_profile=True),
                        )
                    except get_cancelled_exc_class():
                        outcome.take_what_there_is(run.key, attempt)
                        raise
                    except EvidenceLost as error:
                        outcome.lose(run.key, error)
                        break
                    outcome.take(record, attempt)
                    commands.setdefault(run.key.profile, set()).update(item.id for item in record.commands)
                    untouched = record.outcome == "not-spoken"
                    if untouched:
                        unspoken[run.key.era] = record
                        skip_unspoken()
        except Exception as error:
            lost = any(isinstance(leaf, EvidenceLost) for leaf in iterate_errors(error))
            why = LOST if lost else "its stack could not be stood up"
            if waiting:
                outcome.give_up(waiting, error, evidence=evidence, why=why)
            else:
                outcome.add(error, cell.server)
            waiting.clear()
