"""The door's second part: a pass over the repositories, each run by a child; what each comes to is written at once."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio

from harness import __version__
from harness.engine.build import state_of_sources
from harness.engine.child import Ended, run_child, tail_of
from harness.engine.evidence import encode_name, read_evidence
from harness.engine.git import check_out
from harness.engine.lend import may_have, open_stacks
from harness.engine.lend_link import Order, lending
from harness.engine.reap import reap
from harness.engine.scope import open_scope
from harness.errors import (
    HarnessError,
    Interrupted,
    StackError,
    iterate_errors,
    world_error,
)
from harness.failures import failure_of
from harness.integration import (
    selected_runs,
)
from harness.model.plan import RunKey
from harness.model.progress import Progress, Silent, stage
from harness.model.regular import read_json
from harness.model.rollout import RepositoryRecord, key_of, words_of
from harness.model.whole import write_whole
from harness.rollout import Member, Pass, plan_of, read_member, refuse_same_names

__all__ = ["CHECKOUTS", "Times", "keep_the_rest", "run_pass"]

CHECKOUTS = 8  # repositories that are fetched side by side: that is waiting, not work


@dataclass(slots=True)
class Times:
    """How long what took; for timings.json and the last lines, never in a report."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)
    stages: list[dict[str, object]] = field(default_factory=list)
    running: dict[str, tuple[str, float]] = field(default_factory=dict)  # repository -> its stage, and since when
    last: str = ""  # the repository that ended last
    reused: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """The whole, with the wall time so far."""
        data = {
            "schema": 1,
            "wall_s": round(time.monotonic() - self.began, 3),
            "alone_s": round(sum(self.seconds.values()), 3),
            "repositories": {name: round(value, 3) for name, value in sorted(self.seconds.items())},
            "stages": self.stages,
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


async def run_pass(
    this: Pass,
    *,
    progress: Progress,
    times: Times,
    records: dict[str, RepositoryRecord],
    settled: Callable[[str], None] = lambda _name: None,
) -> None:
    """Checks out, reads, and runs everything that was selected.

    Args:
        settled: Is told of each repository that comes to its end without being run.
        records: What is learnt goes in here, repository by repository, so that an interruption still has it.
    Raises:
        ConfigError: The selection names what is not there.
        NothingSelected: It leaves nothing.
    """
    members = [Member(spec=spec) for spec in this.selected()]
    for member in members:
        records[member.spec.name] = RepositoryRecord(
            name=member.spec.name, state="not-begun", harness=__version__, why="the pass ended before it was begun"
        )
    limiter = anyio.CapacityLimiter(CHECKOUTS)
    async with anyio.create_task_group() as tasks:
        for member in members:
            tasks.start_soon(_arrive, this, member, limiter, progress)
    refuse_same_names(members)
    for member in members:
        if member.error is not None:
            state = "not-checked-out" if member.spec.git and member.checkout is None else "files"
            _keep(
                this,
                member,
                records,
                RepositoryRecord(
                    name=member.spec.name,
                    state="not-checked-out" if state == "not-checked-out" else "files",
                    commit=member.checkout.commit if member.checkout is not None else "",
                    harness=__version__,
                    server=member.server,
                    errors=_errors_of(member) if state == "not-checked-out" else (),
                ),
            )
            settled(member.spec.name)
            progress.note(member.spec.name, member.error.message.splitlines()[0])
    durations = this.durations()
    queue = sorted(
        (member for member in members if member.error is None),
        key=lambda member: -durations.get(member.spec.name, float("inf")),  # what has never run may be the longest
    )
    waiting = iter(queue)
    unfinished = list(queue)

    async def work(stacks: str) -> None:
        for member in waiting:
            try:
                await _run(this, member, records, progress=progress, times=times, stacks=stacks)
            except Exception as error:  # whatever it is, the others go on
                failure = failure_of(error, member.server, traceback=True)
                told = _error(member, failure.kind, failure.message, failure.hint, failure.log)
                _keep(
                    this, member, records, dataclasses.replace(records[member.spec.name], state="ended", errors=(told,))
                )
            unfinished.remove(member)
            settled(member.spec.name)

    async with _stacks(this, unfinished, progress) as stacks, anyio.create_task_group() as tasks:
        for _ in range(min(this.jobs, len(queue))):
            tasks.start_soon(work, stacks)


@asynccontextmanager
async def _stacks(this: Pass, unfinished: Sequence[Member], progress: Progress) -> AsyncIterator[str]:
    """Where the children can ask for stacks that serve several of them, one after the other; "" where none is wanted.

    Args:
        unfinished: Those that run or will, kept up to date.
    """
    if not this.options.reuse_stacks:
        yield ""
        return

    def order(server: str) -> Order | None:
        mine = next((member for member in unfinished if member.server == server), None)
        if mine is None or mine.project is None:
            return None
        return Order(
            backends=mine.project.backends,
            wanted=lambda kind: any(
                member is not mine and member.project is not None and may_have(member.project.backends, kind)
                for member in unfinished
            ),
        )

    with open_scope() as scope:
        async with open_stacks(again=True, scope=scope, progress=_Notes(progress)) as stacks:
            async with lending(stacks, scope, orders=order) as address:
                yield address


class _Notes(Silent):
    """Of what becomes of stacks that no repository has, only what is worth a line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def note(self, subject: str, text: str) -> None:
        self._progress.note(subject, text)


def keep_the_rest(this: Pass, records: Mapping[str, RepositoryRecord]) -> None:
    """After an interruption: what was not begun is written too, so that judging again says the same."""
    for record in records.values():
        if record.state == "not-begun":
            with suppress(StackError):
                this.keep(record)


async def _arrive(this: Pass, member: Member, limiter: anyio.CapacityLimiter, progress: Progress) -> None:
    """A repository comes here, and its files are read."""
    spec = member.spec
    async with limiter:
        try:
            if spec.git:
                with stage(progress, spec.name, "check out"):
                    member.checkout = await check_out(spec.git, spec.ref, cache=this.cache, submodules=spec.submodules)
        except Exception as error:
            member.error = _as_harness_error(error)
            return
    await anyio.to_thread.run_sync(read_member, this, member)
    if member.loaded is not None:
        try:
            plan_of(this, member)
        except HarnessError as error:
            member.error, member.loaded = error, None


def _as_harness_error(error: BaseException) -> HarnessError:
    for leaf in map(world_error, iterate_errors(error)):
        if isinstance(leaf, HarnessError):
            return leaf
    raise error


def _errors_of(member: Member) -> tuple[Mapping[str, str], ...]:
    error = member.error
    if error is None:
        return ()
    return (_error(member, error.kind, error.message, error.hint, error.log),)


def _error(member: Member, kind: str, message: str, hint: str = "", log: str = "") -> Mapping[str, str]:
    server = member.server or member.spec.name
    return {"kind": kind, "server": server, "message": message, "hint": hint, "log": log}


def _of_server(member: Member, error: Mapping[str, Any]) -> Mapping[str, str]:
    """What a child said; an error that it gives no server is of the only one that it has."""
    said = {str(key): str(value) for key, value in error.items()}
    if not said.get("server") and said.get("kind") != Interrupted.kind:
        said["server"] = member.server or member.spec.name
    return said


def _keep(this: Pass, member: Member, records: dict[str, RepositoryRecord], record: RepositoryRecord) -> None:
    record = _anywhere(this, member, record)
    records[record.name] = record
    try:
        this.keep(record)
    except StackError as error:  # the report of this pass still has it, and says that it cannot be judged again
        failure = {"kind": error.kind, "server": record.server or record.name, "message": error.message}
        records[record.name] = dataclasses.replace(
            record, errors=(*record.errors, {**failure, "hint": error.hint, "log": ""})
        )


def _anywhere(this: Pass, member: Member, record: RepositoryRecord) -> RepositoryRecord:
    """The record without the folders of this machine: it may be judged on another."""
    folders = {str(this.spec.base): "."}
    if member.checkout is not None:
        folders = {str(member.root): member.shown, **folders}  # the longer one first

    def clean(text: str) -> str:
        for folder, name in folders.items():
            text = text.replace(f"{folder}{os.sep}", f"{name}{os.sep}") if folder != os.sep else text
        return text

    errors = tuple({key: clean(value) for key, value in item.items()} for item in record.errors)
    return dataclasses.replace(record, errors=errors, notes=tuple(map(clean, record.notes)))


async def _run(
    this: Pass,
    member: Member,
    records: dict[str, RepositoryRecord],
    *,
    progress: Progress,
    times: Times,
    stacks: str = "",
) -> None:
    """One repository from its first stage to its record.

    Args:
        stacks: Where its child can ask for stacks.
    """
    name, project = member.spec.name, member.project
    assert project is not None
    sources = member.checkout.commit if member.checkout else await anyio.to_thread.run_sync(state_of_sources, project)
    blank = RepositoryRecord(
        name=name,
        state="interrupted",
        commit=member.checkout.commit if member.checkout is not None else "",
        sources=sources,
        harness=__version__,
        server=project.server.name,
    )
    kept: Mapping[RunKey, Path] = {}
    if this.resume and not this.options.rebuild:
        before, kept, planned = await anyio.to_thread.run_sync(_still_good, this, member, sources)
        if before is not None:
            records[name] = before
            times.reused.append(name)
            progress.note(name, "nothing has changed: its evidence is kept")
            return
        if kept:
            progress.note(name, f"keeps {len(kept)} of its {planned} runs: what they depend on has not changed")
    records[name] = blank
    began = time.monotonic()
    stages: list[str] = []
    at: list[str] = []  # the stage that it was ended in; while it cleans up, it ends the rest by itself

    def ending() -> None:
        at.extend(stages[-1:])

    def told(event: Mapping[str, Any]) -> None:
        what = f"{_without(project.server.name, str(event.get('subject', '')))} {event.get('what', '')}".strip()
        if event.get("event") == "begin":
            stages.append(what)
        elif event.get("event") == "end":
            with suppress(ValueError):
                stages.remove(what)
            seconds = event.get("seconds")
            times.stages.append({"repository": name, "subject": event.get("subject"), "stage": event.get("what")})
            if isinstance(seconds, int | float):
                times.stages[-1]["seconds"] = seconds
        if stages:
            times.running[name] = (stages[-1], time.monotonic())
            progress.waiting(name, "run", stages[-1])

    mark = token_hex(4)  # another pass may be at the same repository
    record_file, log = this.file_of(name, f".{mark}.run.json"), this.file_of(name, f".{mark}.log")
    kept_file = this.file_of(name, f".{mark}.kept.json")
    progress.begin(name, "run")
    ok, detail = False, ""
    ended: Ended | None = None
    error: BaseException | None = None
    try:
        if kept:
            listed = [{"run": words_of(key), "folder": str(folder)} for key, folder in kept.items()]
            write_whole(kept_file, json.dumps(listed).encode())
        ended = await run_child(
            _command(this, member, record_file, stacks) + ([f"--kept={kept_file}"] if kept else []),
            fd_option="--progress-fd",
            cwd=this.spec.base,
            env=_environment(),
            log=log,
            timeout_s=member.spec.timeout_s,
            told=told,
            ending=ending,
            killed=partial(_swept, progress, name),
        )
    except OSError as failed:
        error = world_error(failed)
    finally:
        seconds = time.monotonic() - began
        times.running.pop(name, None)
        record = _learnt(this, member, blank, ended, error, at or stages, file=record_file, log=tail_of(log))
        with suppress(OSError):
            record_file.unlink(missing_ok=True)
            kept_file.unlink(missing_ok=True)
            log.replace(this.file_of(name, ".log"))
        _keep(this, member, records, record)
        if record.state == "done":
            times.seconds[name], times.last = seconds, name
            if not record.errors and not kept:  # one that broke off, or is a part, says nothing of how long it takes
                with suppress(OSError):
                    text = json.dumps({"seconds": round(seconds, 3)})
                    write_whole(this.file_of(name, ".times.json"), text.encode())
        ok = record.state == "done" and not record.errors
        detail = record.why or (record.errors[0]["message"].splitlines()[0] if record.errors else "")
        progress.end(name, "run", ok=ok, seconds=seconds, detail=detail)


def _without(server: str, subject: str) -> str:
    return subject.removeprefix(server).strip()


def _command(this: Pass, member: Member, record: Path, stacks: str) -> list[str]:
    project = member.project
    assert project is not None
    command = [sys.executable, "-P", "-m", "harness", "run", f"--project={member.file}"]
    if member.spec.harness is not None:
        command.append(f"--repository={member.folder}")
    command += [f"--evidence={this.evidence}", f"--record={record}", f"--runtime={this.options.runtime}"]
    if this.own_state and this.options.state is not None:
        command.append(f"--state={this.options.state / 'repositories' / encode_name(member.spec.name)}")
    if this.options.rebuild:
        command.append("--rebuild")
    if this.options.reuse_stacks:
        command += ["--reuse-stacks", f"--stacks={stacks}"]
    return command


def _environment() -> dict[str, str]:
    dropped = (
        "GITHUB_STEP_SUMMARY",
        "GITHUB_ACTIONS",
        "ROLLCALL_NOX",
        "NOX_SCRIPT_MODE",
    )  # the report is ours to write
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**env, "ROLLCALL_PARENT": str(os.getpid()), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def _swept(progress: Progress, name: str) -> None:
    """A child had to be killed: what it left is removed."""
    try:
        found = reap()
    except Exception as error:
        progress.note(name, f"what it left could not be removed: {error}")
        return
    for item in (*found.kept, *found.failed):
        progress.note(name, f"left alone: {item.kind} {item.name}: {item.why}")


def _learnt(
    this: Pass,
    member: Member,
    blank: RepositoryRecord,
    ended: Ended | None,
    error: BaseException | None,
    stages: Sequence[str],
    *,
    file: Path,
    log: str,
) -> RepositoryRecord:
    """What there is to say of a repository whose child has ended, or never was."""
    at = f" in the stage {stages[-1]!r}" if stages else ""
    if error is not None:
        message = error.message if isinstance(error, HarnessError) else str(error)
        hint = error.hint if isinstance(error, HarnessError) else ""
        return dataclasses.replace(blank, state="ended", errors=(_error(member, StackError.kind, message, hint),))
    data = _child_record(file)
    record = blank
    if data is not None:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            record = dataclasses.replace(
                blank,
                state="done",
                errors=tuple(_of_server(member, item) for item in data["errors"]),
                not_run={key_of(item["run"]): str(item["why"]) for item in data["not_run"]},
                attempts={key_of(item["run"]): _below(this, item["folder"]) for item in data["attempts"]},
                notes=tuple(map(str, data["notes"])),
            )
    if ended is None:
        return dataclasses.replace(record, state="interrupted", why=f"interrupted{at}")
    if ended.timed_out:
        message = f"it was ended, for it took over {member.spec.timeout_s:g} s{at}"
        hint = "give it longer with timeout_s in the list, or see in its log what it waits for"
        return dataclasses.replace(
            record,
            state="timed-out",
            why=message,
            errors=(*record.errors, _error(member, StackError.kind, message, hint, log)),
        )
    if record.state != "done":
        how = f"was killed by signal {-ended.code}" if ended.code < 0 else f"ended with exit {ended.code}"
        message = f"its process {how}{at} and left no word of what it did"
        hint = f"{'its log has what it printed; ' if log else ''}the kernel's log says whether memory ran out"
        return dataclasses.replace(
            record, state="ended", why=message, errors=(_error(member, StackError.kind, message, hint, log),)
        )
    if data is not None and data.get("interrupted"):
        return dataclasses.replace(record, state="interrupted", why=f"interrupted by {data['interrupted']}")
    return record


def _child_record(file: Path) -> Mapping[str, Any] | None:
    try:
        data = read_json(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _below(this: Pass, folder: str) -> str:
    return Path(os.path.relpath(folder, this.evidence)).as_posix()


def _still_good(this: Pass, member: Member, sources: str) -> tuple[RepositoryRecord | None, Mapping[RunKey, Path], int]:
    """What the last pass has left that counts still, for what it depends on is as it was.

    Returns:
        Its record, where every run gave its evidence and nothing went wrong; else None. The runs that gave theirs, with
        the folders of their attempts. How many runs are planned.
    """
    plan = plan_of(this, member)
    planned = {run.key for run in selected_runs(plan)}
    record = this.record_of(member.spec.name)
    if record is None or (record.sources, record.harness) != (sources, __version__):
        return None, {}, len(planned)
    chosen = {key: this.evidence / folder for key, folder in record.attempts.items()}
    found = read_evidence(this.evidence, plan, chosen=chosen)
    good = {item.record.key for item in found.found if item.record.outcome in ("finished", "not-spoken")}
    good &= chosen.keys()  # what the pass before did not take is not of it
    whole = record.state == "done" and not record.errors and not record.not_run and good == planned
    return record if whole else None, {key: chosen[key] for key in sorted(good, key=str)}, len(planned)
