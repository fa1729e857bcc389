"""Removes what provably dead invocations of the harness left on this host, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.engine.docker import Engine, Thing, open_engine, probe
from harness.engine.mark import mark_of, mark_on
from harness.engine.scope import LABEL, PREFIX, boot_id, is_dead, owner_of, start_time
from harness.errors import StackError

__all__ = ["KILL_GRACE_S", "Leftover", "ReapReport", "reap", "reap_folders"]

KILL_GRACE_S = 3.0


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

    What was left by another boot, or another host over a shared engine, is listed with the command that removes it.

    Args:
        dry_run: Only say what would be removed.
    """
    sweep = _Sweep(dry_run)
    sweep.folders()
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
                self._processes(folder.resolve(), item.run)
                if not self._dry_run:
                    shutil.rmtree(folder, ignore_errors=True)
                if not self._dry_run and folder.exists():
                    self.failed.append(item)
                else:
                    self.removed.append(item)
            elif owner["boot"] != boot_id():
                self._keep(item, "it is from another boot or another host", f"rm -rf {folder}")

    def _processes(self, folder: Path, run: str) -> None:
        found = dict(_living_in(folder))
        items = {pid: Leftover(kind="process", name=f"{pid} {command}", run=run) for pid, (_, command) in found.items()}
        if self._dry_run:
            self.removed += items.values()
            return
        started = {pid: start for pid, (start, _) in found.items()}
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + KILL_GRACE_S
            for pid in _still(started):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            while _still(started) and time.monotonic() < until:
                time.sleep(0.02)
        # what they started while we looked
        for pid, (start, command) in _living_in(folder):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            items.setdefault(pid, Leftover(kind="process", name=f"{pid} {command}", run=run))
            started.setdefault(pid, start)
        left = set(_still(started))
        for pid, item in items.items():
            (self.failed if pid in left else self.removed).append(item)

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
            self.failed.append(Leftover(kind=item.kind, name=item.name, run=item.run, why=str(error)))
        else:
            self.removed.append(item)

    def _keep(self, item: Leftover, why: str, command: str) -> None:
        self.kept.append(Leftover(kind=item.kind, name=item.name, run=item.run, why=why, command=command))


def _living_in(folder: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """Processes with the folder in their environment, or the mark of a server in it: pid -> start time and command."""
    marker = os.fsencode(str(folder))
    marks = {mark_of(f"{server}{os.sep}") for server in folder.glob("server-*")}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid():
            continue
        with suppress(OSError):
            if _speaks_of(marker, _read(entry / "environ")) or mark_on(pid) in marks:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                start = start_time(pid)
                if start is not None:
                    yield pid, (start, command[:200])


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


def _still(started: Mapping[int, str]) -> list[int]:
    return [pid for pid, start in started.items() if start_time(pid) == start]
