"""Writing files so that each is there as a whole or not at all, and a killed writer leaves nothing for long."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

__all__ = ["write_whole"]

_TRIES = 5


def write_whole(path: Path, data: bytes, *, keep_mode: bool = False) -> None:
    """Writes a file; whoever reads it meanwhile sees the one before or this one.

    It is written under a name of its own beside `path`. Such a one that a killed process left is removed by the next
    that writes the same file: a living writer has a lock on it.

    Args:
        keep_mode: The new file gets the mode and, where we may, the owner of the old one, and is on the disk when
            this returns: for files that people keep.
    Raises:
        OSError: It cannot be written. The one before is as it was.
    """
    _remove_left(path)
    for left in reversed(range(_TRIES)):
        temporary = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            _write(temporary, path, data, keep_mode=keep_mode)
            return
        except FileNotFoundError:  # somebody removed it before it had its lock
            if not left or not path.parent.is_dir():
                raise
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def _write(temporary: Path, path: Path, data: bytes, *, keep_mode: bool) -> None:
    with temporary.open("xb") as stream:
        with suppress(OSError):  # not every file system has locks: there, nothing is removed either
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stream.write(data)
        stream.flush()
        if keep_mode:
            with suppress(FileNotFoundError):
                old = path.stat()
                with suppress(OSError):  # only root may give a file away
                    os.fchown(stream.fileno(), old.st_uid, old.st_gid)
                os.fchmod(stream.fileno(), old.st_mode & 0o7777)
            os.fsync(stream.fileno())
        temporary.replace(path)


def _remove_left(path: Path) -> None:
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}")
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if ours.fullmatch(name):
                _remove_if_left(path.parent / name)


def _remove_if_left(temporary: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()
        finally:
            os.close(descriptor)
