"""Reading files that somebody else wrote: a regular file and so much of it, or an error; never a wait.

A named pipe where a file should be would be waited for until somebody writes to it, which no signal ends in a thread;
a device such as /dev/zero has no end.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["read_json", "read_regular"]

MAX_JSON_BYTES = 64_000_000  # of what we wrote ourselves; a merge brings what others wrote in our name


def read_json(path: Path) -> Any:
    """What is in a JSON file of ours.

    Raises:
        OSError: It cannot be read, or is no regular file.
        ValueError: It is no JSON, has no end, or is nested too deeply.
    """
    data = read_regular(path, MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"more than {MAX_JSON_BYTES} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_regular(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a regular file, or of what a link leads to.

    Raises:
        OSError: It cannot be read, or is no regular file.
        ValueError: No file can have such a name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0, closefd=True) as stream:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        parts, left = [], limit
        while left > 0 and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
