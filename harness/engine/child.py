"""One repository of a rollout as a process of our own kind: its log in a file, its stages over a pipe, an end in time.

The child is the same program (`python -P -m harness run …`), which cleans up behind itself when it is asked to end.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

__all__ = ["END_S", "Ended", "run_child", "tail_of"]

END_S = 90.0  # for a child to stop its servers and containers after SIGTERM
DRAIN_S = 2.0
MAX_LINE_BYTES = 1024 * 1024
TAIL_BYTES = 8 * 1024
TAIL_LINES = 40


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        code: Its exit code, negative for a signal.
        timed_out: It was ended because it took too long.
        killed: It had to be killed, so that what it started may be left.
    """

    code: int
    timed_out: bool = False
    killed: bool = False


async def run_child(
    argv: Sequence[str],
    *,
    fd_option: str,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    told: Callable[[Mapping[str, Any]], None],
    ending: Callable[[], None],
    killed: Callable[[], None],
) -> Ended:
    """Runs a child to its end.

    A cancellation asks it to end, waits until it has cleaned up (END_S at most), and is raised again.

    Args:
        fd_option: The option that tells it the number of the pipe's end for its stages, one JSON object a line.
        log: Where its stdout and stderr go.
        told: Is given each of these objects.
        ending: Called before it is asked to end, for it takes too long or because of a cancellation.
        killed: Called where it did not end when asked to, and was killed.
    Raises:
        OSError: The log cannot be made, or the child not be started.
    """
    read, write = os.pipe()
    try:
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_NONBLOCK)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as stream:
                process = await anyio.open_process(
                    [*argv, fd_option, str(write)],
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(write,),
                )
        finally:
            os.close(write)
        timed_out = False
        ended = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_listen, read, told)
                with anyio.move_on_after(timeout_s) as limit:
                    await process.wait()
                if limit.cancelled_caught:
                    timed_out = True
                    ending()
                    ended = await _end(process)
                    if not ended:
                        killed()
                with anyio.move_on_after(DRAIN_S):
                    await anyio.sleep(0.05)  # what it told last
                tasks.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                ending()
                with anyio.CancelScope(shield=True):
                    if not await _end(process):
                        killed()
        return Ended(process.returncode if process.returncode is not None else -9, timed_out, timed_out and not ended)
    finally:
        os.close(read)


async def _end(process: anyio.abc.Process) -> bool:
    """Asks a child to end, and kills it after END_S; whether it ended by itself."""
    with anyio.CancelScope(shield=True):
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(END_S):
            await process.wait()
            return True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(5.0):
            await process.wait()
    return False


async def _listen(fd: int, told: Callable[[Mapping[str, Any]], None]) -> None:
    rest = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            await anyio.wait_readable(fd)
            continue
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[-MAX_LINE_BYTES:]
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    told(event)


def tail_of(log: Path) -> str:
    """The last lines of a child's log, "" without one."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])
