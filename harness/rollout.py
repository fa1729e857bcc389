"""The door behind `rollout`: many repositories in one pass, each as a child of its own, and one report.

A pass has three parts. First every repository is checked out and its files are read; then those that can be run are
run, several side by side, as `python -P -m harness run …` (`rollout_pass`); then everything is judged together
(`rollout_report`). What a repository came to is written beside the evidence as soon as it is known, so that
`rollout judge` says the same again, offline, and so that a pass which was interrupted still has its report. Nothing of
a repository is imported or executed but what its harness.toml says: its noxfile is not looked at.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.config.load import Loaded, load, name_in
from harness.config.plan import Selection, make_plan
from harness.config.project import FILE as HARNESS_FILE
from harness.config.values import fold
from harness.engine.evidence import encode_name
from harness.engine.git import Checkout, cached
from harness.errors import (
    ConfigError,
    HarnessError,
    NothingSelected,
    StackError,
)
from harness.integration import (
    Options,
    catalogue,
    runtimes_of_evidence,
)
from harness.model.plan import ExemptionSpec, Plan, ProjectSpec
from harness.model.regular import read_json
from harness.model.rollout import (
    RepositoryRecord,
    RepositorySpec,
    RolloutSpec,
    repository_from_json,
    repository_to_json,
)
from harness.model.whole import write_whole

__all__ = [
    "RECORDS",
    "Member",
    "Pass",
    "Shard",
    "members_here",
    "options_over_all",
    "plan_of",
    "read_member",
    "record_in",
    "refuse_same_names",
    "seconds_in",
    "shards",
]

RECORDS = ".rollout"  # in the evidence; no server's folder begins with a dot
GIT = "git"  # in the state
YEAR_S = 365 * 24 * 3600.0


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
            with suppress(OSError, ValueError):
                out[item.name] = seconds_in(self.file_of(item.name, ".times.json"))
        return out

    def record_of(self, name: str) -> RepositoryRecord | None:
        """What the last pass learnt of a repository."""
        try:
            return record_in(self.file_of(name, ".json"))
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
            write_whole(path, json.dumps(repository_to_json(record), indent=1).encode())
        except OSError as error:
            raise StackError(
                f"what was learnt of {record.name} cannot be written to {path.parent}: {error.strerror}",
                hint="make room there, or choose another place with --evidence DIR",
            ) from error


def record_in(path: Path) -> RepositoryRecord:
    """The record that a file beside evidence holds, of the repository that the file is named for.

    Raises:
        OSError: It cannot be read.
        ValueError: It is none.
    """
    record = repository_from_json(read_json(path))
    if path.name != f"{encode_name(record.name)}.json":
        raise ValueError(f"the record of {record.name} in {path.name}")
    return record


def seconds_in(path: Path) -> float:
    """How long a repository took, by such a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It does not say.
    """
    data = read_json(path)
    seconds = data.get("seconds") if isinstance(data, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < YEAR_S:
        raise ValueError(f"no number of seconds: {seconds!r}")
    return float(seconds)


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
    foreign: bool = False  # its harness file is not its own: it leads out of the repository
    twin: bool = False  # its server has the name of another's

    @property
    def root(self) -> Path:
        """The folder of the checkout, or the repository's own."""
        return self.checkout.folder if self.checkout is not None else self.spec.path or Path()

    @property
    def folder(self) -> Path:
        """Where the server is."""
        return self.root / self.spec.subdir

    @property
    def shown(self) -> str:
        """What stands for the folder of its checkout in messages: a name that ends with the subdir says it itself."""
        return self.spec.name.removesuffix(f"/{self.spec.subdir}")

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
        """Name of its server, "" where that is not known, or another's."""
        if self.foreign or self.twin:
            return ""
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
        member.foreign = True
        return
    if spec.harness is None and not member.file.exists():
        member.error = ConfigError(
            f"{spec.place}: there is no {HARNESS_FILE} in {spec.source}",
            hint='write one there, or keep one beside the list and name it: harness = "…/harness.toml"',
        )
        return
    try:
        member.loaded = load(
            [member.file],
            base=this.spec.base,
            catalogue=catalogue(),
            repository=member.folder if spec.harness is not None else None,
            named={member.root: member.shown} if member.checkout is not None else None,
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
    """A server whose name an earlier repository has is an error of the later one, and none of the earlier."""
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
            member.loaded, member.twin = None, True


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


# --- exemptions over all of them ----------------------------------------------------------------------


def options_over_all(this: Pass) -> tuple[Options, list[str]]:
    """What `exemptions` and its words work on: all repositories that are here; and why others are left out."""
    found = {item.name: this.record_of(item.name) for item in this.selected()}
    members = members_here(this, {name: record for name, record in found.items() if record is not None})
    notes = []
    for member in members:
        record = found[member.spec.name]
        if member.error is not None:
            notes.append(f"{member.spec.name} is left out: {member.error.message.splitlines()[0]}")
        elif member.loaded is None and record is not None:
            said = [item["message"].splitlines()[0] for item in record.errors if item.get("message")]
            notes.append(": ".join([f"{member.spec.name} is left out", *said[:1]]))
    here = [member for member in members if member.loaded is not None]
    files = {Path(os.path.relpath(member.file, this.spec.base)): member for member in here}
    if not files:
        raise NothingSelected("no repository of the list is here", hint="run mcp-rollcall rollout first")
    return dataclasses.replace(
        this.options,
        projects=tuple(files),
        central=this.spec.exemptions,
        checkouts=this.cache,
        homes={this.spec.base / file: member.folder for file, member in files.items() if member.spec.harness},
        absent=tuple(member.server for member in members if member.loaded is None and not member.twin),
        everything=True,
    ), notes
