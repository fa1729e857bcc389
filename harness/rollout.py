"""The door behind `rollout`: many repositories in one pass, each as a child of its own, and one report.

A pass has three parts. First every repository is checked out and its files are read; then those that can be run are
run, several side by side, as `python -P -m harness run …`; then everything is judged together. What a repository came
to is written beside the evidence as soon as it is known, so that `rollout judge` says the same again, offline, and so
that a pass which was interrupted still has its report. Nothing of a repository is imported or executed but what its
harness.toml says: its noxfile is not looked at.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from harness import __version__
from harness.config.exemptions import read_exemptions
from harness.config.load import Loaded, load, name_in
from harness.config.plan import Selection, make_plan
from harness.config.project import FILE as HARNESS_FILE
from harness.config.values import fold
from harness.engine.build import state_of_sources
from harness.engine.child import Ended, run_child, tail_of
from harness.engine.evidence import encode_name, read_evidence, write_atomically
from harness.engine.git import Checkout, cached, check_out
from harness.engine.reap import reap
from harness.errors import (
    ConfigError,
    HarnessError,
    Interrupted,
    NothingSelected,
    StackError,
    code_of_kind,
    iterate_errors,
    world_error,
)
from harness.failures import failure_of
from harness.integration import (
    Options,
    Outcome,
    catalogue,
    judge_evidence,
    rerun_line,
    runtimes_of_evidence,
    selected_runs,
)
from harness.model.finding import HarnessFailure, Judgement, NotJudged, Report, Repository
from harness.model.plan import ExemptionSpec, Plan, ProjectSpec, RunKey
from harness.model.progress import Progress, stage
from harness.model.rollout import (
    RepositoryRecord,
    RepositorySpec,
    RolloutSpec,
    key_of,
    repository_from_json,
    repository_to_json,
)
from harness.report.build import make_report, merge

__all__ = ["CHECKOUTS", "Member", "Pass", "Shard", "Times", "judge_pass", "keep_the_rest", "run_pass", "shards"]

CHECKOUTS = 8  # repositories that are fetched side by side: that is waiting, not work
RECORDS = ".rollout"  # in the evidence; no server's folder begins with a dot
GIT = "git"  # in the state


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` (from 1) of `of`."""

    number: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One invocation, understood.

    Attributes:
        options: `base` is the folder of the list; `evidence` and `state` are set.
        own_state: Whether `--state` was given: repositories then keep nothing in their own folders.
        only: Names and tags; empty is all.
        jobs: How many children side by side.
        resume: Only what is missing or has changed is run.
    """

    spec: RolloutSpec
    options: Options
    own_state: bool = False
    only: tuple[str, ...] = ()
    shard: Shard | None = None
    jobs: int = 1
    resume: bool = False

    @property
    def evidence(self) -> Path:
        """The root of all evidence."""
        assert self.options.evidence is not None
        return self.options.evidence

    @property
    def cache(self) -> Path:
        """Where checkouts are."""
        assert self.options.state is not None
        return self.options.state / GIT

    def file_of(self, name: str, ending: str) -> Path:
        """A file about a repository, beside the evidence."""
        return self.evidence / RECORDS / f"{encode_name(name)}{ending}"

    def selected(self) -> tuple[RepositorySpec, ...]:
        """The repositories that were asked for, in the order of the list.

        Raises:
            ConfigError: A name or a tag is not there.
            NothingSelected: None is left.
        """
        chosen = [item for item in self.spec.repositories if not self.only or {item.name, *item.tags} & set(self.only)]
        known = {item.name for item in self.spec.repositories} | {
            tag for item in self.spec.repositories for tag in item.tags
        }
        for word in self.only:
            if word not in known:
                from harness.config.problems import did_you_mean, quoted

                raise ConfigError(
                    f"no repository of {self.spec.place} has the name or the tag {quoted(word)}",
                    hint=did_you_mean(word, known),
                )
        if self.shard is not None:
            mine = shards(chosen, self.shard.of, self.durations())[self.shard.number - 1]
            chosen = [item for item in chosen if item in mine]
        if not chosen:
            raise NothingSelected("the selection leaves no repository")
        return tuple(chosen)

    def durations(self) -> dict[str, float]:
        """Seconds that repositories took in earlier passes, as far as that is known."""
        out = {}
        for item in self.spec.repositories:
            with suppress(OSError, ValueError, KeyError, TypeError):
                out[item.name] = float(json.loads(self.file_of(item.name, ".times.json").read_bytes())["seconds"])
        return out

    def record_of(self, name: str) -> RepositoryRecord | None:
        """What the last pass learnt of a repository."""
        try:
            return repository_from_json(json.loads(self.file_of(name, ".json").read_bytes()))
        except (OSError, ValueError):
            return None

    def keep(self, record: RepositoryRecord) -> None:
        """Writes what is learnt of a repository.

        Raises:
            StackError: It cannot be written.
        """
        path = self.file_of(record.name, ".json")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(repository_to_json(record), indent=1).encode())
        except OSError as error:
            raise StackError(
                f"what was learnt of {record.name} cannot be written to {path.parent}: {error.strerror}",
                hint="make room there, or choose another place with --evidence DIR",
            ) from error


def shards(items: Sequence[RepositorySpec], number: int, durations: Mapping[str, float]) -> list[list[RepositorySpec]]:
    """The repositories in so many parts that should take equally long; the longest first, each where least is.

    What has never run counts as the mean of what has.
    """
    usual = sum(durations.values()) / len(durations) if durations else 1.0
    weight = {item.name: durations.get(item.name, usual) for item in items}
    parts: list[list[RepositorySpec]] = [[] for _ in range(number)]
    loads = [0.0] * number
    for item in sorted(items, key=lambda item: -weight[item.name]):  # stable: equals in the order of the list
        least = min(range(number), key=lambda index: (loads[index], len(parts[index]), index))
        parts[least].append(item)
        loads[least] += weight[item.name]
    return parts


# --- members: repositories that are here --------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Member:
    """A repository of the list, as far as it is here."""

    spec: RepositorySpec
    checkout: Checkout | None = None
    error: HarnessError | None = None  # why it is not here, or cannot be used
    loaded: Loaded | None = None

    @property
    def root(self) -> Path:
        """The folder of the checkout, or the repository's own."""
        return self.checkout.folder if self.checkout is not None else self.spec.path or Path()

    @property
    def folder(self) -> Path:
        """Where the server is."""
        return self.root / self.spec.subdir

    @property
    def file(self) -> Path:
        """Its harness file."""
        return self.spec.harness or self.folder / HARNESS_FILE

    @property
    def project(self) -> ProjectSpec | None:
        """What the harness file says, None where it cannot be used."""
        return self.loaded.projects[0] if self.loaded is not None else None

    @property
    def server(self) -> str:
        """Name of its server, "" where that is not known."""
        if self.project is not None:
            return self.project.server.name
        if self.spec.harness is None and self.spec.path is None and self.checkout is None:
            return ""
        return name_in(self.file) or ""


def read_member(this: Pass, member: Member) -> None:
    """Reads the files of a repository that is here; what is wrong goes into `member.error`."""
    spec = member.spec
    if not member.folder.is_dir():
        what = f"{spec.path}" if member.checkout is None and spec.subdir == "." else f"{spec.subdir} in {spec.source}"
        member.error = ConfigError(
            f"{spec.place}: there is no folder {what}", hint="it is relative to the list, and subdir to the repository"
        )
        return
    if member.checkout is not None and not member.folder.resolve().is_relative_to(member.root.resolve()):
        member.error = ConfigError(f"{spec.place}: {spec.subdir} leads out of the repository")
        return
    try:
        member.loaded = load(
            [member.file],
            base=this.spec.base,
            catalogue=catalogue(),
            repository=member.folder if spec.harness is not None else None,
            named={member.root: spec.name} if member.checkout is not None else None,
            neighbours=False,
        )
    except HarnessError as error:
        member.error = error


def plan_of(this: Pass, member: Member, exemptions: Iterable[ExemptionSpec] = ()) -> Plan:
    """The plan of one repository, with the backends in the runtime of its evidence.

    Raises:
        NothingSelected: It has no case.
    """
    assert member.loaded is not None
    loaded = dataclasses.replace(member.loaded, exemptions=tuple(exemptions))
    return make_plan(loaded, selection=Selection(), runtimes=runtimes_of_evidence(this.options, loaded))


def refuse_same_names(members: Iterable[Member]) -> None:
    """A server whose name an earlier repository has is an error of the later one."""
    owners: dict[str, Member] = {}
    for member in members:
        if member.project is None:
            continue
        first = owners.setdefault(fold(member.server), member)
        if first is not member:
            member.error = ConfigError(
                f"{member.spec.place}: the server of {first.spec.name} is called {first.server!r} too",
                hint="exemptions and reports go by the name: give one of them another in its harness.toml",
            )
            member.loaded = None


def members_here(this: Pass, records: Mapping[str, RepositoryRecord]) -> list[Member]:
    """The selected repositories as they are on this disk; nothing is fetched."""
    out = []
    for spec in this.selected():
        member = Member(spec=spec)
        out.append(member)
        record = records.get(spec.name)
        if spec.git:
            if record is not None and record.state == "not-checked-out":
                continue
            commit = record.commit if record is not None else ""
            member.checkout = cached(spec.git, spec.ref, cache=this.cache, commit=commit)
            if member.checkout is None:
                member.error = ConfigError(
                    f"{spec.place}: {spec.name} is not checked out here{f' at {commit}' if commit else ''}",
                    hint="mcp-rollcall rollout does it, and rollout merge for what shards have recorded",
                )
                continue
        read_member(this, member)
    refuse_same_names(out)
    return out


# --- a pass -------------------------------------------------------------------------------------------


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


async def run_pass(this: Pass, *, progress: Progress, times: Times, records: dict[str, RepositoryRecord]) -> None:
    """Checks out, reads, and runs everything that was selected.

    Args:
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
            progress.note(member.spec.name, member.error.message.splitlines()[0])
    durations = this.durations()
    queue = sorted(
        (member for member in members if member.error is None),
        key=lambda member: -durations.get(member.spec.name, float("inf")),  # what has never run may be the longest
    )
    waiting = iter(queue)

    async def work() -> None:
        for member in waiting:
            await _run(this, member, records, progress=progress, times=times)

    async with anyio.create_task_group() as tasks:
        for _ in range(min(this.jobs, len(queue))):
            tasks.start_soon(work)


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
                    member.checkout = await check_out(spec.git, spec.ref, cache=this.cache)
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


def _keep(this: Pass, records: dict[str, RepositoryRecord], record: RepositoryRecord) -> None:
    records[record.name] = record
    try:
        this.keep(record)
    except StackError as error:  # the report of this pass still has it, and says that it cannot be judged again
        failure = {"kind": error.kind, "server": record.server or record.name, "message": error.message}
        records[record.name] = dataclasses.replace(
            record, errors=(*record.errors, {**failure, "hint": error.hint, "log": ""})
        )


async def _run(
    this: Pass, member: Member, records: dict[str, RepositoryRecord], *, progress: Progress, times: Times
) -> None:
    """One repository from its first stage to its record."""
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
    if this.resume and (before := _still_good(this, member, sources)) is not None:
        records[name] = before
        times.reused.append(name)
        progress.note(name, "nothing has changed: its evidence is kept")
        return
    records[name] = blank
    began = time.monotonic()
    stages: list[str] = []

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

    record_file = this.file_of(name, ".run.json")
    with suppress(OSError):
        record_file.unlink()
    progress.begin(name, "run")
    ok, detail = False, ""
    ended: Ended | None = None
    error: BaseException | None = None
    try:
        ended = await run_child(
            _command(this, member, record_file),
            fd_option="--progress-fd",
            cwd=this.spec.base,
            env=_environment(),
            log=this.file_of(name, ".log"),
            timeout_s=member.spec.timeout_s,
            told=told,
            killed=partial(_swept, progress, name),
        )
    except OSError as failed:
        error = world_error(failed)
    finally:
        seconds = time.monotonic() - began
        times.running.pop(name, None)
        record = _learnt(this, member, blank, ended, error, stages, record_file)
        with suppress(OSError):
            record_file.unlink()
        _keep(this, records, record)
        if record.state == "done":
            times.seconds[name], times.last = seconds, name
            with suppress(OSError):
                text = json.dumps({"seconds": round(seconds, 3)})
                write_atomically(this.file_of(name, ".times.json"), text.encode())
        ok = record.state == "done" and not record.errors
        detail = record.why or (record.errors[0]["message"].splitlines()[0] if record.errors else "")
        progress.end(name, "run", ok=ok, seconds=seconds, detail=detail)


def _without(server: str, subject: str) -> str:
    return subject.removeprefix(server).strip()


def _command(this: Pass, member: Member, record: Path) -> list[str]:
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
    file: Path,
) -> RepositoryRecord:
    """What there is to say of a repository whose child has ended, or never was."""
    at = f" in the stage {stages[-1]!r}" if stages else ""
    log = tail_of(this.file_of(blank.name, ".log"))
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
                errors=tuple({str(key): str(value) for key, value in item.items()} for item in data["errors"]),
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
        hint = "its log has what it printed; the kernel's log says whether memory ran out"
        return dataclasses.replace(
            record, state="ended", why=message, errors=(_error(member, StackError.kind, message, hint, log),)
        )
    if data is not None and data.get("interrupted"):
        return dataclasses.replace(record, state="interrupted", why=f"interrupted by {data['interrupted']}")
    return record


def _child_record(file: Path) -> Mapping[str, Any] | None:
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _below(this: Pass, folder: str) -> str:
    return Path(os.path.relpath(folder, this.evidence)).as_posix()


def _still_good(this: Pass, member: Member, sources: str) -> RepositoryRecord | None:
    """The record of the last pass, where all that it depends on is as it was and every run has given its evidence."""
    record = this.record_of(member.spec.name)
    if record is None or record.state != "done" or record.errors or record.not_run:
        return None
    if (record.sources, record.harness) != (sources, __version__):
        return None
    plan = plan_of(this, member)
    chosen = {key: this.evidence / folder for key, folder in record.attempts.items()}
    found = read_evidence(this.evidence, plan, chosen=chosen)
    good = {item.record.key for item in found.found if item.record.outcome in ("finished", "not-spoken")}
    return record if good == {run.key for run in selected_runs(plan)} else None


# --- judging ------------------------------------------------------------------------------------------


def judge_pass(this: Pass, records: Mapping[str, RepositoryRecord], *, today: date) -> tuple[Report, list[ProjectSpec]]:
    """The one report over all selected repositories, from what is on this disk; and the projects, for their places.

    Raises:
        ConfigError: The central exemptions file cannot be used, or the selection not be understood.
    """
    members = members_here(this, records)
    central = read_exemptions(this.spec.exemptions, base=this.spec.base) if this.spec.exemptions is not None else ()
    shares = _Shares(this, members, central)
    parts = []
    for index, member in enumerate(members):
        extra = shares.leftovers(today) if index == 0 else Judgement()
        parts.append(_judged(this, member, records.get(member.spec.name), shares, extra, today))
    return merge(parts), [member.project for member in members if member.project is not None]


class _Shares:
    """Which exemptions speak of which repository.

    The central file speaks of every server, a repository's own file of the servers of the repositories that have it.
    """

    def __init__(self, this: Pass, members: Sequence[Member], central: Sequence[ExemptionSpec]) -> None:
        self.this, self.members, self.central = this, members, central
        self.by_server: dict[str, list[ExemptionSpec]] = {}
        for entry in central:
            self.by_server.setdefault(entry.server, []).append(entry)
        self.own: dict[Path, tuple[list[ExemptionSpec], set[str]]] = {}
        ours = this.spec.exemptions.resolve() if this.spec.exemptions is not None else None
        for member in members:
            file = member.project.exemptions_file if member.project is not None else None
            if member.loaded is None or file is None or file.resolve() == ours:
                continue
            entries, servers = self.own.setdefault(file.resolve(), (list(member.loaded.exemptions), set()))
            servers.add(member.server)
            for entry in entries:
                if entry.server == member.server:
                    self.by_server.setdefault(entry.server, []).append(entry)

    def of(self, server: str) -> list[ExemptionSpec]:
        """All entries that speak of a server, wherever they stand."""
        return self.by_server.get(server, [])

    def leftovers(self, today: date) -> Judgement:
        """What is to be said of entries whose server is none of those that were read."""
        known = {member.server for member in self.members if member.loaded is not None}
        absent = {member.server for member in self.members if member.loaded is None} - {""}
        selected = {member.spec.name for member in self.members}
        others = [spec for spec in self.this.spec.repositories if spec.name not in selected]
        aside = {_peek(self.this, spec) for spec in others}
        out: list[Judgement] = []
        unknown: list[ExemptionSpec] = []
        undecided: list[NotJudged] = []
        failed = [member.spec.name for member in self.members if member.loaded is None and not member.server]
        for entry in self.central:
            if entry.server in known or entry.server in aside:
                continue
            if entry.server in absent:
                undecided.append(_not_judged(entry, "its repository could not be run", own=False))
            elif failed:
                why = f"it may be the server of {failed[0]}, which could not be had"
                undecided.append(_not_judged(entry, why, own=False))
            elif None in aside:
                why = "it may be the server of a repository that was not selected and is not here"
                undecided.append(_not_judged(entry, why, own=True))
            else:
                unknown.append(entry)
        out.append(_of_entries(unknown, known | absent | {name for name in aside if name}, today))
        for entries, servers in self.own.values():
            out.append(_of_entries([entry for entry in entries if entry.server not in servers], servers, today))
        return Judgement(
            findings=tuple(item for part in out for item in part.findings),
            not_judged=tuple(undecided),
        )


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
    extra: Judgement,
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
                if run.key not in outcome.attempts and state != "done":
                    outcome.not_run.setdefault(run.key, record.why or "it was not run")
        judgement = judge_evidence(this.options, plan, outcome, today=today, rerun=partial(_rerun, this, member, plan))
    was_interrupted = state in ("interrupted", "not-begun")
    if state == "timed-out":  # that its runs were interrupted is our doing, and said already
        kept = [failure for failure in judgement.errors if failure.kind != Interrupted.kind]
        judgement = dataclasses.replace(judgement, errors=tuple(kept))
    errors = list(outcome.errors)
    if was_interrupted:
        errors.append(HarnessFailure(kind=Interrupted.kind, code=Interrupted.code, server="", message=INTERRUPTED))
    judgement = dataclasses.replace(
        judgement,
        findings=(*judgement.findings, *extra.findings),
        not_judged=(*judgement.not_judged, *extra.not_judged),
    )
    folders = {str(this.spec.base): "."}
    if member.checkout is not None:
        folders[str(member.root)] = spec.name
    report = make_report(
        judgement,
        today=today.isoformat(),
        errors=errors,
        notes=record.notes if record is not None else (),
        partial=len(this.selected()) < len(this.spec.repositories),
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
    return dataclasses.replace(report, judgement=dataclasses.replace(report.judgement, repositories=(row,)))


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
