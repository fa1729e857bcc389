"""The planned runs of a project for one test session: built, stood up, recorded and judged. It knows no pytest.

All of it happens in the process that leads the session, on a thread with an event loop of its own. The processes in
which tests run (that one, or the workers of pytest-xdist) ask it for a run and get what a command in a run of
`mcp-rollcall integration` gets: a session, in which they start servers and write transcripts.
"""

from __future__ import annotations

import dataclasses
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from harness.engine.build import Built, build, state_folder
from harness.engine.evidence import Attempt, EvidenceLost, read_attempt
from harness.engine.mask import Masker
from harness.engine.reap import reap_folders
from harness.engine.run import LOGS_S, session_of
from harness.engine.scope import Scope, open_scope
from harness.engine.stack import Stack, open_stack
from harness.errors import HarnessError, Interrupted, error_to_json, iterate_errors, world_error
from harness.execution import load_both_plans
from harness.failures import failure_of
from harness.findings.judge import NotRun, judge
from harness.integration import Options, Outcome, evidence_root, report_of
from harness.model.finding import Report
from harness.model.plan import Plan, Run, RunKey, Transport
from harness.model.progress import Progress
from harness.model.session import SessionSpec
from harness.model.transcript import OUTSIDE, CommandRecord, RunRecord
from harness.pytest_link import Choice, choice_of

__all__ = ["Runs"]

JOIN_POLL_S = 0.2  # between two looks for a Ctrl-C while everything is taken down


@dataclass(slots=True, eq=False)
class _Standing:
    """The stack of a run, from the wish for it to its end."""

    stop: anyio.Event
    scope: anyio.CancelScope
    users: int = 0
    ready: Future[SessionSpec] = field(default_factory=Future)
    gone: Future[None] = field(default_factory=Future)

    @classmethod
    async def new(cls) -> _Standing:
        """One that is still to be stood up."""
        return cls(anyio.Event(), anyio.CancelScope())

    def end(self) -> None:
        """Takes it down, or breaks off what was to become it; on the loop's thread."""
        self.stop.set()
        if not self.ready.done():
            self.scope.cancel()


@dataclass(slots=True)
class _Recorded:
    """The attempt of a run in this session."""

    attempt: Attempt
    masker: Masker
    began: float
    built: Built | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the first server said of itself
    unspoken: str = ""
    not_started: Mapping[str, str] = field(default_factory=dict)  # the error of a server that did not start
    error: HarnessError | None = None

    @property
    def begun(self) -> bool:
        """Whether any server of it was started, or tried: a run without one is none."""
        return bool(self.facts or self.unspoken or self.not_started or self.error is not None)


class Runs:
    """The runs of one project, for one test session; safe to use from several threads.

    Args:
        options: With one project and a selection of runs.
        per_worker: Whether each worker gets stacks of its own.
    """

    def __init__(self, options: Options, *, per_worker: bool, progress: Progress) -> None:
        self._options = dataclasses.replace(options, idle=True)
        self._per_worker = per_worker
        self._progress = progress
        self._lock = threading.RLock()
        self._undo = ExitStack()
        self._portal: BlockingPortal | None = None
        self._scope: Scope | None = None
        self._plans: tuple[Plan, Plan] | None = None
        self._refused: HarnessError | None = None
        self._standing: dict[tuple[RunKey, str], _Standing] = {}
        self._recorded: dict[RunKey, _Recorded] = {}
        self._building = anyio.Lock()
        self._built: Built | None = None
        self._closed = False

    # --- what there is ------------------------------------------------------------------------------

    def planned(self) -> tuple[Choice, ...]:
        """All runs of the project in order, with those marked that are selected.

        Raises:
            HarnessError: A problem of a file or of the selection; the same one each time.
        """
        selected, whole = self._both()
        chosen = {run.key for cell in selected.cells for run in cell.runs}
        runs = _runs(whole)
        return tuple(
            choice_of(run.key, number=number, id=name, chosen=run.key in chosen, probed=run.eras_probed)
            for number, (run, name) in enumerate(zip(runs, _ids(runs), strict=True))
        )

    def _both(self) -> tuple[Plan, Plan]:
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if self._plans is None:
                try:
                    self._plans = self._loop().call(partial(load_both_plans, self._options, progress=self._progress))
                except HarnessError as error:
                    self._refused = error
                    raise
            return self._plans

    def _loop(self) -> BlockingPortal:
        with self._lock:
            if self._closed:
                raise Interrupted("the test session is over")
            if self._portal is None:
                self._portal = self._undo.enter_context(start_blocking_portal())
                self._scope = self._undo.enter_context(open_scope())
            return self._portal

    def tests(self) -> tuple[Path, ...]:
        """What `[suites] pytest` names, absolute."""
        project = self._both()[1].projects[0]
        names = [name for item in project.commands if item.kind == "pytest" for name in item.argv]
        return tuple((project.root / name.partition("::")[0]).resolve() for name in names)

    @property
    def used(self) -> bool:
        """Whether any run was asked for."""
        return bool(self._recorded)

    # --- stacks -------------------------------------------------------------------------------------

    def open(self, number: int, worker: str = "") -> SessionSpec:
        """The session of a run whose stack stands; it is stood up if it does not. Each is to be released.

        Args:
            worker: Name of the worker that asks.
        Raises:
            HarnessError: It could not be built or stood up, or everything is being taken down.
        """
        _, whole = self._both()
        run = _runs(whole)[number]
        with self._lock:
            portal = self._loop()
            recorded = self._record(run)
            name = (run.key, worker if self._per_worker else "")
            standing = self._standing.get(name)
            if standing is None or standing.stop.is_set():
                before = standing
                standing = self._standing[name] = portal.call(_Standing.new)
                portal.start_task_soon(self._stand, run, recorded, standing, before)
            standing.users += 1
        try:
            return standing.ready.result()
        except BaseException:
            self.release(number, worker)
            raise

    def release(self, number: int, worker: str = "") -> None:
        """One user less; the last one's leave takes the stack down."""
        if self._plans is None:
            return
        key = _runs(self._plans[1])[number].key
        with self._lock:
            standing = self._standing.get((key, worker if self._per_worker else ""))
            if standing is None or self._closed or self._portal is None:
                return
            standing.users -= 1
            if standing.users <= 0:
                self._portal.call(standing.end)

    def _record(self, run: Run) -> _Recorded:
        if run.key not in self._recorded:
            assert self._plans is not None
            project = self._plans[1].project_of(run.key.server)
            attempt = Attempt.create(evidence_root(self._options, project), run.key)
            self._recorded[run.key] = _Recorded(attempt, Masker(), time.monotonic())
        return self._recorded[run.key]

    async def _stand(self, run: Run, recorded: _Recorded, standing: _Standing, before: _Standing | None) -> None:
        assert self._plans is not None
        assert self._scope is not None
        project = self._plans[1].project_of(run.key.server)
        try:
            with standing.scope:
                if before is not None:  # never two at a time
                    await anyio.to_thread.run_sync(before.gone.result, abandon_on_cancel=True)
                state = state_folder(project.root, self._options.state)
                async with self._building:
                    if self._built is None:
                        self._built = await build(project, state=state, scope=self._scope, progress=self._progress)
                recorded.built = self._built
                async with open_stack(
                    run.roles,
                    project.backends,
                    runtime=run.runtime,
                    scope=self._scope,
                    masker=recorded.masker,
                    progress=self._progress,
                    subject=f"{run.key.server} {run.key.backend}",
                    state=state,
                ) as stack:
                    recorded.versions = dict(stack.versions)
                    session = session_of(
                        run,
                        project,
                        built=self._built,
                        stack=stack,
                        scope=self._scope,
                        masker=recorded.masker,
                        attempt=recorded.attempt,
                        began=recorded.began,
                    )
                    recorded.command = tuple(recorded.masker.text(part) for part in session.command)
                    standing.ready.set_result(session)
                    await standing.stop.wait()
                    await _keep_logs(recorded.attempt, stack)
        except Exception as error:
            recorded.error = _harness_error(error)
            if not standing.ready.done():
                standing.ready.set_exception(recorded.error)
        finally:
            if not standing.ready.done():
                standing.ready.set_exception(Interrupted("the test session was broken off"))
            standing.gone.set_result(None)

    # --- what workers tell --------------------------------------------------------------------------

    def tell(
        self,
        number: int,
        *,
        facts: Mapping[str, Any] | None = None,
        unspoken: str = "",
        error: Mapping[str, str] | None = None,
    ) -> None:
        """What became of the start of a server of a run.

        Args:
            facts: What it says of itself, in the words of RunRecord.
            unspoken: Why it does not speak the era of the run, which was only tried.
            error: Why it did not start, as it crosses the link.
        """
        _, whole = self._both()
        with self._lock:
            recorded = self._record(_runs(whole)[number])
            recorded.facts = recorded.facts or facts or {}
            recorded.unspoken = recorded.unspoken or unspoken
            recorded.not_started = recorded.not_started or error or {}

    # --- the end ------------------------------------------------------------------------------------

    def close(self, *, swept: bool = False) -> None:
        """Takes everything down; a Ctrl-C meanwhile waits for it. A second call does nothing more.

        Args:
            swept: Also what workers left that were killed.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            portal = self._portal
        if not first:
            return
        interrupted: KeyboardInterrupt | None = None
        if portal is not None:
            for standing in self._standing.values():
                portal.start_task_soon(standing.end)
            for standing in self._standing.values():
                while not standing.gone.done():
                    try:
                        with suppress(TimeoutError):
                            standing.gone.result(JOIN_POLL_S)
                    except KeyboardInterrupt as error:
                        interrupted = error
        if swept:
            reap_folders()
        self._undo.close()
        if interrupted is not None:
            raise interrupted

    def judge(self, *, left_out: Sequence[str] = (), finished: bool = True, exit: int = 0) -> Report:  # noqa: A002
        """Finishes the evidence and judges it; everything is closed by then.

        Args:
            left_out: Why what is absent cannot be judged, in words; empty where it can.
            finished: Whether the session came to its end.
            exit: Of pytest, without the gate.
        """
        selected, whole = self._both()
        outcome = Outcome(plan=selected)
        project = whole.projects[0]
        reasons = list(left_out)
        if any(run.cases for run in _runs(whole)) or any(item.kind != "pytest" for item in project.commands):
            reasons.append("the suites and commands of harness.toml were not run")
        evidence = []
        for run in _runs(whole):
            recorded = self._recorded.get(run.key)
            if recorded is None or not recorded.begun:
                continue
            try:
                record = self._run_record(run, recorded, whole=not reasons, finished=finished)
                commands = self._commands(run, recorded, exit) if not reasons else ()
                recorded.attempt.finish(dataclasses.replace(record, commands=commands))
            except EvidenceLost as error:
                outcome.lose(run.key, error)
                continue
            found = read_attempt(recorded.attempt.folder)
            if found is not None:
                if record.outcome == "interrupted":  # what was left out is said already
                    record = dataclasses.replace(record, outcome="finished")
                evidence.append(dataclasses.replace(found, record=record))
                outcome.attempts[run.key] = recorded.attempt.folder
        plan = self._judged_plan(selected, "; ".join(reasons))
        outcome.plan = plan
        missing = [
            NotRun(key=run.key, why=outcome.not_run.get(run.key, "no test used its server"), own=bool(left_out))
            for run in _runs(plan)
            if run.key not in outcome.attempts
        ]
        today = self._options.today or datetime.now(UTC).date()
        judgement = judge(plan, evidence, missing=missing, today=today, rerun=_rerun)
        return report_of(self._options, outcome, judgement, today=today)

    def _judged_plan(self, selected: Plan, left_out: str) -> Plan:
        """The plan less what is not this session's: cases, commands, and runs of a cell that no test asks for."""
        cells = []
        for cell in selected.cells:
            used = [run for run in cell.runs if self._is_begun(run.key)] or list(cell.runs)
            runs = tuple(dataclasses.replace(run, cases=(), selected=(), commands=()) for run in used)
            cells.append(dataclasses.replace(cell, runs=runs))
        return dataclasses.replace(
            selected, cells=tuple(cells), partial=selected.partial or bool(left_out), left_out=left_out
        )

    @staticmethod
    def _commands(run: Run, recorded: _Recorded, code: int) -> tuple[CommandRecord, ...]:
        """What `[suites] pytest` came to: this session was all of it."""
        number = len(list(recorded.attempt.folder.glob(f"{OUTSIDE}-*.jsonl")))
        return tuple(
            CommandRecord(id=item.id, exit=code, outcome="failed" if code else "passed", transcripts=number)
            for item in run.commands
            if item.kind == "pytest"
        )

    def _transport(self, run: Run) -> Transport:
        assert self._plans is not None
        return self._plans[1].project_of(run.key.server).server.transport

    def _is_begun(self, key: RunKey) -> bool:
        return key in self._recorded and self._recorded[key].begun

    def _run_record(self, run: Run, recorded: _Recorded, *, whole: bool, finished: bool) -> RunRecord:
        facts, masker = recorded.facts, recorded.masker
        ended: Any = "not-spoken" if recorded.unspoken else "finished" if finished else "interrupted"
        said: Mapping[str, str] = {} if recorded.error is None else error_to_json(recorded.error)
        if not said and not facts and not recorded.unspoken:  # it never stood
            said = recorded.not_started
        fields = {name: said[name] for name in ("kind", "message", "hint", "log") if name in said}
        return RunRecord(
            key=run.key,
            plan=run.fingerprint if whole else "",
            runtime=run.runtime,
            build=recorded.built.fingerprint if recorded.built is not None else "",
            versions=recorded.versions,
            server_info=masker.json(facts.get("server_info", {})),
            protocol=masker.text(facts.get("protocol", "")),
            capabilities=masker.json(facts.get("capabilities", {})),
            client_capabilities=facts.get("client_capabilities", {}),
            outcome="failed" if fields else ended,
            errors=({name: masker.text(text) for name, text in fields.items()},) if fields else (),
            transport=self._transport(run),
            command=recorded.command,
        )


async def _keep_logs(attempt: Attempt, stack: Stack) -> None:
    with anyio.move_on_after(LOGS_S, shield=True), suppress(HarnessError, OSError):
        attempt.write_logs(await stack.logs())


def _harness_error(error: Exception) -> HarnessError:
    """One error of ours for whatever was raised, the first leaf's."""
    for leaf in map(world_error, iterate_errors(error)):
        if isinstance(leaf, HarnessError):
            return leaf
        failure = failure_of(leaf)
        return HarnessError(failure.message, hint=failure.hint, log=failure.log)
    raise AssertionError("unreachable")


def _runs(plan: Plan) -> list[Run]:
    return [run for cell in plan.cells for run in cell.runs]


def _ids(runs: Sequence[Run]) -> list[str]:
    """For each run what tells it from the others: those of backend, era and profile that are not the same in all."""
    axes = [(run.key.backend, run.key.era, run.key.profile) for run in runs]
    vary = [len(set(column)) > 1 for column in zip(*axes, strict=True)]
    return ["-".join(word for word, shown in zip(axis, vary, strict=True) if shown) for axis in axes]


def _rerun(key: RunKey, case: str | None) -> str:
    """What shows a cell again, or one test of it."""
    if case is not None and case.startswith("pytest/") and "::" in case:
        return shlex.join(["pytest", case.removeprefix("pytest/")])
    return shlex.join(["pytest"] if key.backend == "none" else ["pytest", f"--mcp-backend={key.backend}"])
