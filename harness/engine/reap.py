"""Removes what provably dead invocations of the harness left on this host, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.engine.docker import Engine, Thing, open_engine, probe
from harness.engine.mark import mark_of, mark_on
from harness.engine.mask import Masker, is_secret_name
from harness.engine.scope import LABEL, PREFIX, boot_id, is_dead, owner_of, start_time
from harness.errors import StackError

__all__ = ["KILL_GRACE_S", "Leftover", "ReapReport", "any_left", "reap", "reap_folders"]

KILL_GRACE_S = 3.0
COMMAND_CHARS = 200  # of a process

_FOLDER = re.compile(rb"(?P<folder>/(?:[^/]+/)*" + PREFIX.encode() + rb"(?P<run>[0-9a-f]{12})-[^/]+)(?:/|\Z)")
_USERINFO = re.compile(r"(://[^\s/?#:@]*:)[^\s/?#@]+(?=@)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that an invocation left.

    Attributes:
        kind: "process", "container", "network", "volume" or "folder".
        name: Its name, path, or pid with its command.
        run: Id of the invocation, "" where it is not known.
        why: Why it was not removed; "" if it was, or would be.
        command: What removes it by hand.
    """

    kind: str
    name: str
    run: str = ""
    why: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapReport:
    """What `reap` found.

    Attributes:
        removed: What it removed, or would remove in a dry run.
        kept: What it left alone because its invocation is not provably dead, though it is none of this boot's living.
        failed: What it could not remove.
        notes: What it could not look at, e.g. Docker.
    """

    removed: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    failed: tuple[Leftover, ...]
    notes: tuple[str, ...]


def reap(*, dry_run: bool = False) -> ReapReport:
    """Removes containers, networks, volumes, processes and folders of dead invocations; those of living ones stay.

    What was left by another boot, or another host over a shared engine, and processes of ours whose folder is gone are
    listed with the command that removes them.

    Args:
        dry_run: Only say what would be removed.
    """
    sweep = _Sweep(dry_run)
    sweep.folders()
    sweep.strays()
    sweep.engine()
    return ReapReport(
        removed=tuple(sweep.removed), kept=tuple(sweep.kept), failed=tuple(sweep.failed), notes=tuple(sweep.notes)
    )


def reap_folders() -> None:
    """Only processes and temporary folders of dead invocations, without a word: what a killed child of ours left."""
    _Sweep(dry_run=False).folders()


class _Sweep:
    def __init__(self, dry_run: bool) -> None:
        self._dry_run = dry_run
        self.removed: list[Leftover] = []
        self.kept: list[Leftover] = []
        self.failed: list[Leftover] = []
        self.notes: list[str] = []

    def folders(self) -> None:
        """Folders of invocations, and the processes that live in them."""
        for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            owner = owner_of(folder)
            item = Leftover(kind="folder", name=str(folder), run=(owner or {}).get("run", ""))
            if owner is None:
                self._keep(item, "it does not say whose it is", f"rm -rf {folder}")
            elif is_dead(owner):
                if alive := self._processes(folder.resolve(), item.run):
                    pids = ", ".join(map(str, sorted(alive)))
                    self._fail(item, f"it stays, or nothing would tell whose process {pids} is")
                    continue
                if not self._dry_run:
                    shutil.rmtree(folder, ignore_errors=True)
                if not self._dry_run and folder.exists():
                    self._fail(item, "not everything in it may be removed")
                else:
                    self.removed.append(item)
            elif owner["boot"] != boot_id():
                self._keep(item, "it is from another boot or another host", f"rm -rf {folder}")

    def strays(self) -> None:
        """Processes of ours whose folder is gone: nothing says any more that their invocation is over, so they stay."""
        known: set[int] = set()
        found: list[tuple[int, str, str, int | None]] = []
        for pid in _pids():
            with suppress(OSError):
                if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                    continue
                folder, run = _folder_of(_environ(pid))
                mark = mark_on(pid)
                if folder is not None and os.path.lexists(folder):
                    known |= {mark_of(f"{server}{os.sep}") for server in Path(os.fsdecode(folder)).glob("server-*")}
                elif folder is not None or mark is not None:
                    found.append((pid, _command(pid), run, mark if folder is None else None))
        for parent in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            known |= {mark_of(f"{server}{os.sep}") for server in parent.resolve().glob("server-*")}
        for pid, command, run, mark in found:
            if mark not in known and start_time(pid) is not None:
                item = Leftover(kind="process", name=f"{pid} {command}", run=run)
                self._keep(item, "it is of an invocation whose folder is gone", f"kill {pid}")

    def _processes(self, folder: Path, run: str) -> set[int]:
        """Ends the processes that live in a folder; those that would not end."""
        found = dict(_living_in(folder))
        items = {pid: Leftover(kind="process", name=f"{pid} {command}", run=run) for pid, (_, command) in found.items()}
        if self._dry_run:
            self.removed += items.values()
            return set()
        started = {pid: start for pid, (start, _) in found.items()}
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + KILL_GRACE_S
            told = {pid: started[pid] for pid in _still(started) if _signal(pid, number)}
            while _still(told) and time.monotonic() < until:
                time.sleep(0.02)
        # what they started while we looked
        for pid, (start, command) in _living_in(folder):
            _signal(pid, signal.SIGKILL)
            items.setdefault(pid, Leftover(kind="process", name=f"{pid} {command}", run=run))
            started.setdefault(pid, start)
        left = set(_still(started))
        for pid, item in items.items():
            if pid in left:
                self._fail(item, "it did not end", f"kill -9 {pid}")
            else:
                self.removed.append(item)
        return left

    def engine(self) -> None:
        """Containers, networks and volumes."""
        found = probe()
        if not found.available:
            self.notes.append(f"Docker was not looked at: {found.cause}")
            return
        try:
            engine = open_engine()
            things = engine.things_now(f"{LABEL}run")
        except StackError as error:
            self.notes.append(f"Docker was not looked at: {error}")
            return
        for thing in things:
            owner = {key: thing.labels.get(f"{LABEL}{key}", "") for key in ("run", "boot", "pid", "started")}
            item = Leftover(kind=thing.kind, name=thing.name, run=owner["run"])
            if is_dead(owner):
                self._remove(engine, thing, item)
            elif owner["boot"] != boot_id():
                force = "-f -v " if thing.kind == "container" else ""
                self._keep(item, "it is from another boot or another host", f"docker {thing.kind} rm {force}{thing.id}")

    def _remove(self, engine: Engine, thing: Thing, item: Leftover) -> None:
        if self._dry_run:
            self.removed.append(item)
            return
        try:
            engine.remove_now(thing)
        except StackError as error:
            self._fail(item, str(error))
        else:
            self.removed.append(item)

    def _keep(self, item: Leftover, why: str, command: str) -> None:
        self.kept.append(replace(item, why=why, command=command))

    def _fail(self, item: Leftover, why: str, command: str = "") -> None:
        self.failed.append(replace(item, why=why, command=command))


def any_left(folder: Path, *, beside: str) -> bool:
    """Whether a process lives that an invocation has started, but for those whose own folder has a name like `beside`.

    Args:
        folder: Of the invocation.
        beside: What the name begins with.
    """
    marks = {mark_of(f"{server}{os.sep}") for server in folder.glob("server-*")}
    inside = os.fsencode(f"{folder}{os.sep}")
    for pid in _pids():
        with suppress(OSError):
            values = [variable.partition(b"=")[2] for variable in _environ(pid).split(b"\0")]
            homes = [value.removeprefix(inside) for value in values if value.startswith(inside)]
            ours = any(not home.startswith(beside.encode()) for home in homes)
            if (ours or mark_on(pid) in marks) and start_time(pid) is not None:
                return True
    return False


def _living_in(folder: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """Processes with the folder in their environment, or the mark of a server in it: pid -> start time and command."""
    marker = os.fsencode(str(folder))
    marks = {mark_of(f"{server}{os.sep}") for server in folder.glob("server-*")}
    for pid in _pids():
        with suppress(OSError):
            if _speaks_of(marker, _environ(pid)) or mark_on(pid) in marks:
                command = _command(pid)
                start = start_time(pid)
                if start is not None:
                    yield pid, (start, command)


def _pids() -> Iterator[int]:
    """Every process but our own."""
    return (pid for entry in Path("/proc").glob("[0-9]*") if (pid := int(entry.name)) != os.getpid())


def _command(pid: int) -> str:
    """A process's command line without what its own variables name a secret, then cut."""
    variables = [item.decode("utf-8", "surrogateescape").partition("=") for item in _environ(pid).split(b"\0")]
    masker = Masker(value for name, _, value in variables if is_secret_name(name))
    line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    text = masker.bytes(line).decode("utf-8", "replace").strip()
    return _USERINFO.sub(r"\1****", text)[:COMMAND_CHARS]


def _environ(pid: int) -> bytes:
    return _read(Path(f"/proc/{pid}/environ"))


def _folder_of(environ: bytes) -> tuple[bytes | None, str]:
    """The first folder of an invocation that a variable's value lies in, and the id of that invocation."""
    for variable in environ.split(b"\0"):
        if found := _FOLDER.match(variable.partition(b"=")[2]):
            return found["folder"], found["run"].decode()
    return None, ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _speaks_of(marker: bytes, environ: bytes) -> bool:
    """Whether a variable's value is the folder, or begins with it as a folder."""
    for variable in environ.split(b"\0"):
        value = variable.partition(b"=")[2]
        if value == marker or value.startswith(marker + b"/"):
            return True
    return False


def _signal(pid: int, number: int) -> bool:
    """Whether a process got a signal; somebody else's does not get ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _still(started: Mapping[int, str]) -> list[int]:
    return [pid for pid, start in started.items() if start_time(pid) == start]
