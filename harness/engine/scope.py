"""Who we are: one invocation of the harness, told apart from every other, alive or dead, on this host.

Every process, container, network, volume and folder that an invocation makes bears this identity, so that clean-up
finds all of it, and `reap` removes what a provably dead invocation left and nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import StackError

__all__ = [
    "LABEL",
    "OWNER_FILE",
    "PREFIX",
    "STACK_FOLDER",
    "Scope",
    "boot_id",
    "is_dead",
    "open_scope",
    "owner_of",
    "start_time",
]

PREFIX = "rollcall-"
OWNER_FILE = "owner.json"
STACK_FOLDER = "stack-"  # what the names of folders of backends begin with, inside that of an invocation
LABEL = "io.mcp-rollcall."  # labels: run, boot, pid, started


@dataclass(frozen=True, slots=True)
class Scope:
    """One invocation.

    Attributes:
        run: Its id, new each time, [0-9a-f]{12}.
        boot: Id of the host's present boot and of our process namespace: pids mean something only inside both.
        pid: Our process id.
        started: Our start time in clock ticks since boot, which a reused pid does not share.
        tmp: A folder of our own; HOME and TMPDIR of every server lie in it, so a process that has it in its
            environment is ours.
    """

    run: str
    boot: str
    pid: int
    started: str
    tmp: Path

    @property
    def labels(self) -> dict[str, str]:
        """Labels for everything that we make in Docker."""
        return {
            f"{LABEL}run": self.run,
            f"{LABEL}boot": self.boot,
            f"{LABEL}pid": str(self.pid),
            f"{LABEL}started": self.started,
        }


@contextmanager
def open_scope(parent: Path | None = None) -> Iterator[Scope]:
    """A new identity and its folder, which is removed at the end.

    Args:
        parent: Where the folder is made; the system's place for temporary files without it.
    Raises:
        StackError: It cannot be made.
    """
    run = secrets.token_hex(6)
    pid = os.getpid()
    tmp: Path | None = None
    try:
        tmp = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{run}-", dir=parent)).resolve()
        scope = Scope(run=run, boot=boot_id(), pid=pid, started=start_time(pid) or "0", tmp=tmp)
        owner = {"run": run, "boot": scope.boot, "pid": pid, "started": scope.started}
        (tmp / OWNER_FILE).write_text(json.dumps(owner), encoding="utf-8")
    except OSError as error:
        if tmp is not None:
            shutil.rmtree(tmp, ignore_errors=True)
        raise StackError(
            f"there is no place for temporary files: {error.strerror or error}",
            hint="make room there, or name another folder in the variable TMPDIR",
        ) from error
    try:
        yield scope
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def boot_id() -> str:
    """The id of the host's present boot and of our process namespace, "" where there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if there is none, or it is over (a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[19] if fields[0] not in "ZX" else None


def owner_of(folder: Path) -> Mapping[str, str] | None:
    """What `owner.json` in a scope's folder says, None if it cannot be read."""
    try:
        data = json.loads((folder / OWNER_FILE).read_text(encoding="utf-8"))
        return {key: str(data[key]) for key in ("run", "boot", "pid", "started")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_dead(owner: Mapping[str, str]) -> bool:
    """Whether an invocation is provably over: it ran in this boot and namespace, and its process is gone.

    Args:
        owner: `boot`, `pid` and `started`, from labels or owner.json.
    """
    here = boot_id()
    if not here or not owner.get("boot") or not owner.get("pid", "").isdigit():
        return False
    if owner["boot"] != here:
        return False  # another host's, perhaps, over a shared engine; a reboot stops containers anyway
    return start_time(int(owner["pid"])) != owner.get("started")
