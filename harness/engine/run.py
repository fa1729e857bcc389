"""One run on a stack that stands: server processes, listing, cases, and the evidence of it, whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import anyio

from harness.engine.answers import Answers, expanded_profile, placeholders_of
from harness.engine.build import Built
from harness.engine.commands import CommandBench, run_commands
from harness.engine.container import container_run
from harness.engine.dotenv import foreign_targets, named_dotenv_files
from harness.engine.environment import server_environment
from harness.engine.evidence import Attempt, EvidenceLost
from harness.engine.guard import check_headers, check_roots, check_targets
from harness.engine.lend import Lent
from harness.engine.mask import Masker, header_secrets, is_secret_name
from harness.engine.pipe import Pipe
from harness.engine.process import Exit
from harness.engine.reap import any_left
from harness.engine.record import Recorder
from harness.engine.scope import STACK_FOLDER, Scope
from harness.engine.stack import Stack
from harness.engine.start import NOT_THIS_ERA, Start, free_port
from harness.engine.state import MAX_VALUES, Twist, must_not_be_repeated
from harness.engine.stdio import elapsed_ms
from harness.engine.stdio_probe import ENCODING_NAMES, OTHER_LOCALE, look_closer
from harness.engine.suite import run_cases
from harness.engine.tail import describe_code
from harness.engine.wire import DISCOVER_TIMEOUT_S, Died, Lost, NotSpoken, Refused, TimedOut, WireSession
from harness.errors import ConfigError, HarnessError, ServerError, iterate_errors, world_error
from harness.model.headers import header_problem
from harness.model.outcome import cut
from harness.model.placeholders import UnknownPlaceholder, expand, names_in
from harness.model.plan import CaseSpec, CommandSpec, ProfileSpec, ProjectSpec, Run, Transport
from harness.model.progress import Progress, stage
from harness.model.session import SessionSpec
from harness.model.transcript import CommandRecord, Diagnostic, RunRecord, StepRef

__all__ = ["LOGS_S", "MAX_RESTARTS", "START_TRIES", "placed", "run_one", "session_of"]

START_TRIES = 3  # how often in a row a server may fail to start again before the run gives up
MAX_RESTARTS = 100  # of one run's server: evidence has an end, also of one that dies of every call
STATE_PROBE_S = 60.0  # for all cases that are run again with a requestState that was changed
LOGS_S = 20.0  # for fetching the logs of the backends
STDERR_LINES = 20


Ended = Literal["finished", "not-spoken", "failed", "interrupted"]


@dataclass(slots=True, kw_only=True)
class _State:
    """What run.json will say."""

    outcome: Ended = "interrupted"
    errors: list[Mapping[str, str]] = field(default_factory=list)
    server_info: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client_capabilities: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    commands: list[CommandRecord] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Bench:
    """The present server of a run; see `harness.engine.suite.Bench`."""

    run: Run
    project: ProjectSpec
    attempt: Attempt
    masker: Masker
    state: _State
    start: Start
    began: float
    count: int = 0
    restarts: int = 0
    in_doubt: bool = False  # whether something that was asked of a server may go on behind it
    stateful: list[StepRef] = field(default_factory=list)  # steps in which a requestState came, in order
    completed: frozenset[str] = frozenset()  # cases
    annotations: dict[str, Any] = field(default_factory=dict)  # of the tools, by name, as they came
    _pipe: Pipe | None = None
    _session: WireSession | None = None

    @property
    def session(self) -> WireSession:
        """The session with the present server."""
        assert self._session is not None
        return self._session

    @property
    def recorder(self) -> Recorder:
        """Its transcript."""
        return self.pipe.recorder

    @property
    def pipe(self) -> Pipe:
        """The way to it."""
        assert self._pipe is not None
        return self._pipe

    @property
    def dead(self) -> bool:
        """Whether no answer can come from it any more."""
        return bool(self.pipe.dead) or self.pipe.process.look()

    async def begin(self, *, why: str = "") -> None:
        """Starts a server and opens the session.

        Raises:
            ServerError: It gave no first answer; its process is gone.
            NotSpoken: It does not speak the era, which was probed.
        """
        self.count += 1
        recorder = self.record_in(self.attempt.transcript(self.count))
        self._pipe = await self.start.open(recorder, self.project.server.name)
        if why:
            recorder.add(Diagnostic, what="restarted", detail=why)
        self._session = WireSession(
            self._pipe, era=self.run.key.era, answers=Answers(self.start.profile), zero=self.count == 1
        )
        self._session.stateful = self.stateful
        self.state.client_capabilities = self._session.client_capabilities
        if not_ready := await self._pipe.ready(self.project.server.start_timeout_s):
            raise await self._failed(not_ready)
        await self._open()

    def record_in(self, path: Path) -> Recorder:
        """A recorder of this attempt.

        Raises:
            EvidenceLost: Its file cannot be made.
        """
        try:
            return Recorder(path, bodies=self.attempt.bodies, masker=self.masker, began=self.began)
        except OSError as error:
            raise EvidenceLost(self.attempt.folder.parent, error) from error

    def recorded(self) -> None:
        """Nothing happens if all that the present server said is on record.

        Raises:
            EvidenceLost: It is not.
        """
        failed = None if self._pipe is None else self._pipe.recorder.failed
        if failed is not None:
            raise EvidenceLost(self.attempt.folder.parent, failed)

    async def _open(self) -> None:
        session, server = self.session, self.project.server
        probed = self.run.eras_probed
        discovering = self.run.key.era == "modern"
        timeout_s = (
            min(server.start_timeout_s, DISCOVER_TIMEOUT_S) if discovering and probed else server.start_timeout_s
        )
        try:
            await session.open(timeout_s=timeout_s)
        except NotSpoken as error:
            if probed:
                await self._not_spoken(str(error))
            raise await self._failed(f"does not speak the {self.run.key.era} era: {error}") from None
        except Refused as error:
            raise await self._failed(str(error)) from None
        except TimedOut as error:
            if probed and discovering:
                await self._not_spoken(str(error))
            raise await self._failed(str(error)) from None
        except Lost as error:
            if probed and not error.hint and (discovering or error.status in NOT_THIS_ERA):
                await self._not_spoken(str(error))
            raise await self._failed(str(error), error.hint) from None
        except Died as error:
            if probed and discovering:
                await self._not_spoken(str(error))
            raise await self._failed(str(error)) from None
        self.state.server_info = session.server_info
        self.state.protocol = session.protocol
        self.state.capabilities = session.capabilities

    async def _not_spoken(self, why: str) -> None:
        self.recorder.add(Diagnostic, what="not-spoken", detail=why)
        await self.stop(hurry=True)
        raise NotSpoken(why)

    async def _failed(self, why: str, hint: str = "") -> ServerError:
        """The error for a server that gave no usable first answer, after it was stopped."""
        pipe = self.pipe
        ended = pipe.process.ended.is_set()
        what = describe_code(pipe.process.code or 0)
        ran = f"[{elapsed_ms(pipe.process)} ms from start to {'exit' if ended else 'now'}]"
        noise, unfinished = pipe.line_count, self.masker.bytes(pipe.unfinished)
        await self.stop(hurry=True)
        if ended:
            message = f"the server ended with {what} before its first answer"
        elif self.session.answered or not why.startswith("no answer"):
            message = f"the server {why}" if why.startswith("does not") else why
        else:
            message = f"the server gave {why}"
        if noise and not self.session.answered:
            message += f"; {noise} lines came on stdout, none of them an answer"
        if unfinished and not self.session.answered:
            message += f"; stdout ends without a newline in {cut(unfinished[-80:].decode('utf-8', 'backslashreplace'))}"
        server = self.project.server
        message += (
            f"\ncommand: {' '.join(self.start.argv)}\nfolder: {server.cwd}"
            f"\nvariables: {', '.join(sorted(self.start.env))}"
        )
        tail = pipe.stderr_tail.decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
        log = "\n".join([ran, *(tail or ["(stderr is empty)"])])
        return ServerError(self.masker.text(message), hint=hint, log=log, server=server.name)

    async def restart(self, why: str) -> None:
        """Another server in its place.

        Raises:
            ServerError: It failed to start START_TRIES times in a row, or was restarted MAX_RESTARTS times already.
            EvidenceLost: What the one before said could not be recorded to its end.
        """
        await self.stop(hurry=True)  # it has died, or hangs
        self.recorded()
        if self.restarts >= MAX_RESTARTS:
            raise ServerError(
                f"the server was restarted {MAX_RESTARTS} times in this run, which is given up: {why}",
                hint="what it died of, or did not answer, is among the findings",
                server=self.project.server.name,
            )
        self.restarts += 1
        for left in reversed(range(START_TRIES)):
            try:
                await self.begin(why=why)
                return
            except NotSpoken as error:
                self.recorded()
                raise ServerError(
                    f"the server was restarted ({why}) and no longer speaks its era: {error}",
                    server=self.project.server.name,
                ) from None
            except ServerError as error:
                self.recorded()
                if left == 0:
                    raise ServerError(
                        f"the server was restarted ({why}) and failed {START_TRIES} times in a row: {error.message}",
                        log=error.log,
                        server=error.server,
                    ) from None

    async def stop(self, *, hurry: bool = False) -> None:
        """Ends the present server, if there is one."""
        if self._pipe is not None:
            self.take_note(await self._pipe.stop(hurry=hurry))

    def take_note(self, ended: Exit) -> None:
        """Of how a server of this run ended: what was killed, or had left processes behind, was not done perhaps."""
        self.in_doubt = self.in_doubt or ended.ended_by == "kill" or bool(ended.orphans)


async def run_one(
    run: Run,
    project: ProjectSpec,
    *,
    built: Built,
    stack: Stack,
    scope: Scope,
    masker: Masker,
    evidence: Path,
    progress: Progress,
    attempt: Attempt | None = None,
    probe: bool = False,
    elsewhere: Collection[str] = (),
    states: bool = False,
    lent: Lent | None = None,
) -> RunRecord:
    """One run from the start of its server to the written evidence.

    Errors of the harness are in the record and are not raised. A cancellation is raised again, after the server was
    stopped and the evidence written.

    Args:
        evidence: The root of all evidence.
        attempt: Where in it the evidence goes; a new place without it.
        probe: Whether a further process is started at the end, to see what it answers to a line that is no JSON.
        elsewhere: Ids of commands that have run in the cell's other era.
        states: Whether one is, where the server has given a requestState, to see what it does with a changed one.
        lent: The stack as it was lent: is told whether the run ended in peace.
    """
    began = time.monotonic()
    attempt = attempt or Attempt.create(evidence, run.key)
    state = _State(command=project.server.command)
    selected = _selected(run)
    benches: list[_Bench] = []
    try:
        folder = scope.tmp / f"server-{token_hex(8)}"
        folder.mkdir()
        values = _values(run, project, selected, stack, folder, masker)
        start = _start(run, project, built, stack, values, folder, masker, scope)
        ran = start.argv if start.container is None else start.container.argv
        state.command = tuple(masker.text(part) for part in ran)
        bench = _Bench(run=run, project=project, attempt=attempt, masker=masker, state=state, start=start, began=began)
        benches.append(bench)
        await _drive(bench, selected, values, progress)
        await _commands(bench, built, stack, scope, values, folder, elsewhere, progress)
        if states and bench.stateful:
            await _change_states(bench, selected, values, progress)
        if probe:
            await _aside(bench, progress)
        state.outcome = "finished"
        if run.client:
            await _compare(bench, progress)
    except NotSpoken:
        state.outcome = "not-spoken"
    except Exception as error:
        state.outcome = "failed"
        for leaf in map(world_error, iterate_errors(error)):
            if not isinstance(leaf, HarnessError):
                raise
            if isinstance(leaf, ServerError) and built.warnings():
                leaf.log += f"\n[its build had warned:]\n{built.warnings()}"
            state.errors.append(_as_json(leaf, masker))
    finally:
        with anyio.CancelScope(shield=True):
            for bench in benches:
                await bench.stop(hurry=state.outcome != "finished")
            await _keep_logs(attempt, stack)
            record = _record(run, built, stack, state, selected, masker, project.server.transport)
            attempt.finish(record)
            if lent is not None and benches:
                lent.in_peace = await _in_peace(benches[0], selected, scope)
    return record


def can_end_in_peace(run: Run, *, elsewhere: Collection[str] = ()) -> bool:
    """Whether another run may have the stack of this one if all goes well; see `run_one` for `elsewhere`."""
    return not _own_commands(run, elsewhere) and not _cancels(_selected(run))


def _selected(run: Run) -> list[tuple[str, CaseSpec]]:
    return [(suite, case) for suite, case in run.cases if f"{suite}/{case.id}" in set(run.selected)]


def _cancels(selected: Sequence[tuple[str, CaseSpec]]) -> bool:
    steps = (step for _, case in selected for step in (*case.steps, *case.cleanup))
    return any(step.cancel_after_s is not None for step in steps)


def _own_commands(run: Run, elsewhere: Collection[str]) -> list[CommandSpec]:
    """Those that have not run in the other era already."""
    return [command for command in run.commands if command.kind != "command" or command.id not in elsewhere]


async def _in_peace(bench: _Bench, selected: list[tuple[str, CaseSpec]], scope: Scope) -> bool:
    """Whether nothing of this run can reach its stack any more: what was asked has come to its end, and all who asked.

    A call that was cancelled, or that a server was killed over, may go on in the backend for as long as it likes. What
    a client of containers leaves is not seen here at all, and what somebody's own tests have begun is not known.
    """
    state, start = bench.state, bench.start
    if state.outcome != "finished" or state.errors or bench.restarts or bench.in_doubt or start.container is not None:
        return False
    if _cancels(selected):
        return False
    if any(item.outcome in ("passed", "failed", "timed-out") for item in state.commands):
        return False
    return not await anyio.to_thread.run_sync(partial(any_left, scope.tmp, beside=STACK_FOLDER))


async def _drive(
    bench: _Bench, selected: list[tuple[str, CaseSpec]], values: Mapping[str, Any], progress: Progress
) -> None:
    key, server = bench.run.key, bench.project.server
    subject = f"{key.server} {key.backend} {key.era} {key.profile}"
    with stage(progress, subject, "start server", benign=NotSpoken, told="it does not speak this era"):
        try:
            await bench.begin()
        except (ServerError, NotSpoken):
            bench.recorded()
            raise
    with stage(progress, subject, "list"):
        await _list(bench)
    with stage(progress, subject, f"{len(selected)} {'case' if len(selected) == 1 else 'cases'}"):
        bench.completed = await run_cases(bench, selected, values, call_timeout_s=server.call_timeout_s)
    with stage(progress, subject, "stop server"):
        await bench.stop()
        bench.recorded()


async def _commands(
    bench: _Bench,
    built: Built,
    stack: Stack,
    scope: Scope,
    values: Mapping[str, Any],
    folder: Path,
    elsewhere: Collection[str],
    progress: Progress,
) -> None:
    """The test commands of somebody's own, but for those that have run in the other era."""
    run, project, start, records = bench.run, bench.project, bench.start, bench.state.commands
    own_era = _own_commands(run, elsewhere)
    records += [CommandRecord(id=item.id, outcome="other-era") for item in run.commands if item not in own_era]
    if not own_era:
        return
    session = _session(run, project, built, stack, values, start, folder, masker=bench.masker)
    session = replace(session, evidence=str(bench.attempt.folder), began=bench.began)
    commands = CommandBench(
        session=session,
        root=project.root,
        bin=built.bin,
        values=values,
        masker=bench.masker,
        scope=scope,
        progress=progress,
        subject=f"{run.key.server} {run.key.backend} {run.key.era} {run.key.profile}",
    )
    if not start.url or not any(command.kind == "command" for command in own_era):
        await run_commands(own_era, commands, records)
        return
    await bench.begin()  # a server over HTTP stands while its commands run, behind a proxy of each
    try:
        await run_commands(own_era, commands, records)
    finally:
        await bench.stop()
    bench.recorded()


def session_of(
    run: Run,
    project: ProjectSpec,
    *,
    built: Built,
    stack: Stack,
    scope: Scope,
    masker: Masker,
    attempt: Attempt,
    began: float,
) -> SessionSpec:
    """A session in a run whose servers are all started by somebody else; they find their stack as ours do.

    Args:
        attempt: Where their transcripts go.
        began: When it did, by `time.monotonic()`.
    Raises:
        ConfigError: A placeholder without a value, or a target that is not of this stack.
    """
    folder = scope.tmp / f"server-{token_hex(8)}"
    folder.mkdir()
    values = _values(run, project, [], stack, folder, masker)
    start = _start(run, project, built, stack, values, folder, masker, scope)
    session = _session(run, project, built, stack, values, start, folder, masker=masker)
    return replace(session, evidence=str(attempt.folder), began=began)


def _session(
    run: Run,
    project: ProjectSpec,
    built: Built,
    stack: Stack,
    values: Mapping[str, Any],
    start: Start,
    folder: Path,
    *,
    masker: Masker,
) -> SessionSpec:
    return SessionSpec(
        run=run.key,
        project=str(project.root),
        plan=run.fingerprint,
        build=built.fingerprint,
        evidence="",
        began=0.0,
        transport=project.server.transport,
        url=start.url,
        headers=dict(start.headers),
        secrets=masker.secrets,
        command=start.argv if start.container is None else start.container.argv,
        cwd=str(start.cwd),
        env=dict(start.env),
        values={name: str(value) for name, value in values.items() if not name.startswith("env.")},
        allowed=tuple(f"{host}:{port}" for host, port in _allowed(stack, values)),
        names=tuple(stack.names),
        folders=(str(folder), str(project.root)),
        call_timeout_s=project.server.call_timeout_s,
        start_timeout_s=project.server.start_timeout_s,
        profiles={item.name: item for item in project.profiles},
    )


def _allowed(stack: Stack, values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield from stack.addresses
    if isinstance(values.get("port"), int):
        yield "127.0.0.1", values["port"]


async def _aside(bench: _Bench, progress: Progress) -> None:
    """The broken line; where the official client comes next, what it takes to load it goes on in the meantime."""
    key = bench.run.key
    with stage(
        progress, f"{key.server} {key.backend} {key.era} {key.profile}", "probes" if bench.start.url else "broken line"
    ):
        async with anyio.create_task_group() as tasks:
            if bench.run.client:
                from harness.engine.client import load_client  # what it imports is needed in this pass alone

                tasks.start_soon(load_client)
            await _probe(bench)


async def _compare(bench: _Bench, progress: Progress) -> None:
    """The official client's view of one more process of this server; nothing that becomes of it fails the run."""
    from harness.engine.client import client_pass

    key, server, before = bench.run.key, bench.project.server, bench.pipe.exit
    try:
        recorder = Recorder(bench.attempt.client, bodies=bench.attempt.bodies, masker=bench.masker, began=bench.began)
    except OSError:
        return  # nor can the record be written, and that is told
    with stage(progress, f"{key.server} {key.backend} {key.era} {key.profile}", "official client"):
        await client_pass(
            partial(bench.start.spawn, server=server.name),
            recorder,
            era=key.era,
            connect_s=server.start_timeout_s,
            call_s=server.call_timeout_s,
            hurry=before is None or before.ended_by != "stdin-close",
        )


async def _list(bench: _Bench) -> None:
    """Everything that the server lists, all pages; failures are on the record and judged there."""
    session, timeout_s = bench.session, bench.project.server.call_timeout_s
    wanted = [("tools/list", "tools")]
    if "prompts" in session.capabilities:
        wanted.append(("prompts/list", "prompts"))
    if "resources" in session.capabilities:
        wanted += [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    for method, key in wanted:
        for again in (True, False):
            try:
                listing = await session.list_all(method, key, timeout_s=timeout_s)
                if key == "tools":
                    bench.annotations |= _annotations(listing.items)
                break
            except (TimedOut, Died) as error:
                await bench.restart(str(error))
                session = bench.session
                aside = error.id == 0 if isinstance(error, TimedOut) else error.untouched
                if not (again and aside):  # it was not the list that it failed at
                    break


def _annotations(tools: list[Any]) -> dict[str, Any]:
    named = [item for item in tools if isinstance(item, Mapping) and isinstance(item.get("name"), str)]
    return {item["name"]: item.get("annotations") for item in named}


class _Over(Exception):
    """The process of a probe is gone."""


@dataclass(slots=True, kw_only=True)
class _Aside:
    """One process on which a case runs for a probe; see `harness.engine.suite.Bench`."""

    session: WireSession
    recorder: Recorder
    pipe: Pipe

    @property
    def dead(self) -> bool:
        """Whether no answer can come from it any more."""
        return bool(self.pipe.dead) or self.pipe.process.look()

    async def restart(self, why: str) -> None:
        """There is no other.

        Raises:
            _Over: Always.
        """
        raise _Over(why)


async def _change_states(
    bench: _Bench, selected: list[tuple[str, CaseSpec]], values: Mapping[str, Any], progress: Progress
) -> None:
    """Runs the first case in which a requestState came again, on a process of its own, with states that we changed.

    It was run to its end before, and is with its cleanup; what is refused is not done at all.
    """
    refs = [ref for ref in bench.stateful if f"{ref.suite}/{ref.case}" in bench.completed and ref.phase == "step"]
    if not refs:
        return
    ref = refs[0]
    case = next(item for item in selected if (item[0], item[1].id) == (ref.suite, ref.case))
    tool = case[1].steps[ref.index].target
    twists = [Twist(kind="without"), Twist(kind="replaced"), Twist(kind="changed")]
    twists += [Twist(kind="value", index=index) for index in range(MAX_VALUES)]
    if must_not_be_repeated(bench.annotations.get(tool)):
        twists.append(Twist(kind="replayed"))
    server, key = bench.project.server, bench.run.key
    recorder = bench.record_in(bench.attempt.state_probe)
    try:
        pipe = await bench.start.open(recorder, server.name)
    except ServerError:
        return
    with stage(progress, f"{key.server} {key.backend} {key.era} {key.profile}", "changed request state"):
        try:
            session = WireSession(pipe, era=key.era, answers=Answers(bench.start.profile))
            if await pipe.ready(server.start_timeout_s):
                return
            await session.open(timeout_s=server.start_timeout_s)
            aside = _Aside(session=session, recorder=recorder, pipe=pipe)
            with anyio.move_on_after(STATE_PROBE_S) as limit:
                for twist in twists:
                    session.twist = twist
                    await run_cases(aside, [case], values, call_timeout_s=server.call_timeout_s)
                    if twist.taken and twist.kind == "without":
                        return  # it carries nothing
            bench.in_doubt = bench.in_doubt or limit.cancelled_caught
        except (NotSpoken, Refused, TimedOut, Died, _Over):
            bench.in_doubt = True
            return
        finally:
            with anyio.CancelScope(shield=True):
                bench.take_note(await pipe.stop(hurry=True))
            if recorder.failed is not None:
                raise EvidenceLost(bench.attempt.folder.parent, recorder.failed)


async def _probe(bench: _Bench) -> None:
    """Sends a process of its own what no client of good will sends: the server that is judged never sees it.

    Over stdio that process has another locale, but for what harness.toml says of it.

    What becomes of that process is its own affair, and only what it replies is judged.
    """
    server = bench.project.server
    recorder = bench.record_in(bench.attempt.probe)
    declared = {*server.env, *bench.run.profile.env}
    locale = {} if bench.start.url or declared & ENCODING_NAMES else OTHER_LOCALE
    try:
        pipe = await replace(bench.start, env={**bench.start.env, **locale}).open(recorder, server.name)
    except ServerError:
        return
    try:
        session = WireSession(pipe, era=bench.run.key.era, answers=Answers(bench.start.profile), zero=False)
        if await pipe.ready(server.start_timeout_s):
            return
        await session.open(timeout_s=server.start_timeout_s)
        if bench.start.url:
            from harness.engine.http_pipe import HttpPipe  # what they import is needed over HTTP alone
            from harness.engine.http_probe import look_closer as look_closer_over_http

            assert isinstance(pipe, HttpPipe)
            await look_closer_over_http(pipe, session.era, session.meta)
            return
        reads = [name for name, hints in bench.annotations.items() if _says_it_only_reads(hints)]
        await look_closer(session, pipe, harmless=min(reads, default=None))
    except (NotSpoken, Refused, TimedOut, Died):
        bench.in_doubt = True
        return
    finally:
        bench.take_note(await pipe.stop(hurry=True))
        if recorder.failed is not None:
            raise EvidenceLost(bench.attempt.folder.parent, recorder.failed)


def _says_it_only_reads(hints: Any) -> bool:
    return isinstance(hints, Mapping) and hints.get("readOnlyHint") is True


# --- before the start -----------------------------------------------------------------------------


def placed(project: ProjectSpec, profile: ProfileSpec, sentence: str) -> str:
    """A sentence of the guard's with the line and the table of what it is about in front."""
    name = sentence.removeprefix("variable ").partition(": ")[0]
    path: tuple[str, ...] = ("server", "command")
    if sentence.startswith("variable "):
        owner = ("profiles", profile.name) if name in profile.env else ("server",)
        path = (*owner, "env", name)
        sentence = sentence.removeprefix(f"variable {name}: ")
    elif sentence.startswith("header "):
        name = sentence.removeprefix("header ").partition(": ")[0]
        path = ("server", "headers", name)
        sentence = sentence.removeprefix(f"header {name}: ")
    elif sentence.startswith("root "):
        index = int(name.removeprefix("root ")) - 1
        place = project.places.get(("profiles", profile.name, "roots", str(index)), project.place)
        return f"{place} [profiles.{profile.name}] roots#{index + 1}: {sentence.partition(': ')[2]}"
    return f"{project.places.get(path, project.place)} [{'.'.join(path[:-1])}] {path[-1]}: {sentence}"


def _values(
    run: Run,
    project: ProjectSpec,
    selected: list[tuple[str, CaseSpec]],
    stack: Stack,
    folder: Path,
    masker: Masker,
) -> dict[str, Any]:
    """The values of all placeholders that this run may use; values of `env.NAME` are secrets."""
    values: dict[str, Any] = {**stack.values, "repo": str(project.root), "tmp": str(folder / "tmp")}
    names = set(_names(run, project, selected))
    missing = []
    for name in sorted(names):
        variable = name.removeprefix("env.")
        if variable != name:
            if variable not in os.environ:
                missing.append(variable)
                continue
            values[name] = os.environ[variable]
            masker.add(os.environ[variable])
    if missing:
        raise ConfigError(
            f"{project.place}: {', '.join(f'${{env.{name}}}' for name in missing)} has no value: "
            f"the variable{'s are' if len(missing) > 1 else ' is'} not set",
            hint="mcp-rollcall check says, before anything runs, where it is asked for",
            server=project.server.name,
        )
    if "port" in names:
        values["port"] = free_port()
    return values


def _names(run: Run, project: ProjectSpec, selected: list[tuple[str, CaseSpec]]) -> Iterator[str]:
    server = project.server
    declared = [dict(server.env), dict(server.headers), dict(run.profile.env)]
    yield from names_in([*server.command, server.cwd, server.url, *declared])
    yield from placeholders_of(run.profile)
    for _, case in selected:
        for step in (*case.steps, *case.cleanup):
            expected = [*step.expect.text_contains, step.expect.text_matches, step.expect.text_equals]
            expected += step.expect.prompts or ()
            yield from names_in([step.target, dict(step.arguments), dict(step.expect.pointer), expected])
    for command in run.commands:
        yield from names_in([*command.argv, dict(command.env)])


def _start(
    run: Run,
    project: ProjectSpec,
    built: Built,
    stack: Stack,
    values: Mapping[str, Any],
    folder: Path,
    masker: Masker,
    scope: Scope,
) -> Start:
    """Command and environment of the server, judged by the guard.

    Raises:
        ConfigError: A placeholder without a value, or a target that is not of this stack.
    """
    server = project.server
    try:
        argv = tuple(expand(part, values) for part in server.command)
        declared = {name: expand(text, values) for name, text in {**server.env, **run.profile.env}.items()}
        cwd = project.root / expand(server.cwd, values)
        profile = expanded_profile(run.profile, values)
        url = expand(server.url, values)
        headers = {name: expand(text, values) for name, text in server.headers.items()}
    except UnknownPlaceholder as error:
        raise ConfigError(f"{project.place}: ${{{error.args[0]}}} has no value here", server=server.name) from None
    masker.add(*(text for name, text in declared.items() if is_secret_name(name)), *header_secrets(headers))
    port = values.get("port")
    own_port, folders = port if isinstance(port, int) else None, (folder, project.root)
    around: dict[str, Any] = {
        "allowed": stack.addresses,
        "own_port": own_port,
        "names": stack.names,
        "folders": folders,
    }
    refused = check_targets(declared, argv, **around) + check_headers(headers, **around)
    refused += tuple(f"header {name}: {said}" for name, text in headers.items() if (said := header_problem(name, text)))
    refused += check_roots([item.uri for item in profile.roots or ()], folders=folders)
    if refused:
        raise ConfigError(
            masker.text("the server was not started:\n" + "\n".join(placed(project, run.profile, x) for x in refused)),
            hint="a server may only be pointed at the stack of its run: write ${backend.<role>.<output>}",
            server=server.name,
        )
    named = named_dotenv_files(argv, cwd)
    if server.reads_dotenv or named:
        places = (cwd, *((built.bin,) if built.bin is not None else ())) if server.reads_dotenv else ()
        foreign = foreign_targets(places, declared, allowed=stack.addresses, named=named)
        if foreign:
            raise ConfigError(
                masker.text(f"{project.place}: the server was not started:\n" + "\n".join(foreign)),
                hint="move the file; or say reads_dotenv = false if the server reads none by itself",
                server=server.name,
            )
    env = server_environment({**built.env, **declared}, home=folder, bin=built.bin)
    container = container_run(argv, scope=scope, server=folder.name)
    marker = f"{folder}{os.sep}"
    return Start(
        argv=argv, cwd=cwd, env=env, marker=marker, container=container, url=url, headers=headers, profile=profile
    )


# --- after the end --------------------------------------------------------------------------------


async def _keep_logs(attempt: Attempt, stack: Stack) -> None:
    with anyio.move_on_after(LOGS_S):
        try:
            attempt.write_logs(await stack.logs())
        except (HarnessError, OSError):
            return  # the evidence of the server is worth more than that of its backend


def _as_json(error: HarnessError, masker: Masker) -> Mapping[str, str]:
    fields = {"kind": error.kind, "message": error.message, "hint": error.hint, "log": error.log}
    return {name: masker.text(text) for name, text in fields.items()}


def _record(
    run: Run,
    built: Built,
    stack: Stack,
    state: _State,
    selected: list[tuple[str, CaseSpec]],
    masker: Masker,
    transport: Transport,
) -> RunRecord:
    return RunRecord(
        key=run.key,
        plan=run.fingerprint,
        runtime=run.runtime,
        build=built.fingerprint,
        versions=dict(stack.versions),
        server_info=masker.json(state.server_info),
        protocol=masker.text(state.protocol),
        capabilities=masker.json(state.capabilities),
        client_capabilities=state.client_capabilities,
        outcome=state.outcome,
        cases=tuple(f"{suite}/{case.id}" for suite, case in selected),
        transport=transport,
        errors=tuple(state.errors),
        command=state.command,
        commands=tuple(state.commands),
        stack_use=stack.use,
        stack_note=masker.text(stack.note),
    )
