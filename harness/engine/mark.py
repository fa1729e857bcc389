"""A mark on a server and all that descends from it, which a daemon does not shed.

A process that forks twice, begins a session of its own and clears its environment has lost its parent, its group and
every name that we gave it. What it keeps are its resource limits. One of them, the number of file locks, has meant
nothing to Linux since 2.4.25 and is handed down all the same; its soft value is ours to choose, so it holds a number
that is the server's alone.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bearing", "mark_of", "mark_on"]

_LOCKS = 10  # RLIMIT_LOCKS, for which the resource module has no name
_NAME = b"Max file locks"
_FLOOR = 1 << 60  # far above what anybody sets, below what means "unlimited"
_one_at_a_time = threading.Lock()


def mark_of(marker: str) -> int:
    """The number for a text that is one server's alone."""
    digest = hashlib.sha256(marker.encode("utf-8", "surrogateescape")).digest()
    return _FLOOR + int.from_bytes(digest[:7], "big")


@contextmanager
def bearing(mark: int) -> Iterator[None]:
    """A process that is started inside bears the mark; where the limit cannot be set it bears none."""
    if sys.platform != "linux":
        yield
        return
    with _one_at_a_time:
        before = _set(mark)
        try:
            yield
        finally:
            if before is not None:
                _set(before)


def _set(soft: int) -> int | None:
    """Sets our own soft limit and gives what it was, None if it could not be set."""
    try:
        before, hard = resource.getrlimit(_LOCKS)
        resource.setrlimit(_LOCKS, (soft, hard))
    except (OSError, ValueError):
        return None
    return before


def mark_on(pid: int) -> int | None:
    """The mark that a process bears, None without one."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            line = next((line for line in file if line.startswith(_NAME)), b"")
    except OSError:
        return None
    soft = line[len(_NAME) :].split()[:1]
    return int(soft[0]) if soft and soft[0].isdigit() and int(soft[0]) >= _FLOOR else None
