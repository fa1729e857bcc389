"""The pipes of one server: every byte of stdout in order, stderr always drained, a stdin that can never block us.

Nothing here knows JSON. A line is recorded before anybody is told of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import anyio

from harness.engine.lines import CUT_KEEP_BYTES, LINES_LIMIT, STDOUT_LIMIT_BYTES, LineSplitter
from harness.engine.pipe import Loss, PipeClosed
from harness.engine.process import Exit, ServerProcess, start_process
from harness.engine.record import Recorder
from harness.engine.tail import PipeProtocol, Tail, describe_code, record_exit
from harness.model.transcript import LINE_LIMIT_BYTES, Diagnostic, Orphan, Spawned, Truncated

__all__ = [
    "CUT_KEEP_BYTES",
    "EXIT_DRAIN_S",
    "LINES_LIMIT",
    "STDOUT_LIMIT_BYTES",
    "STILL_S",
    "LineSplitter",
    "Stdio",
    "open_stdio",
]

EXIT_DRAIN_S = 0.5  # how long after the exit its last words may take, while somebody holds stdout open
CLOSED_S = 1.0  # how long a server may live on after it has closed its stdout
EOF_S = 1.0
STILL_S = 0.2  # bytes that came so short a time ago are still coming
PAUSES = 3.0  # and so are those of a line that was silent so many times longer already, and went on
READING_S = 0.5  # and what was read so short a time ago is still being read
SAMPLE_S = 0.1
PIPE_BYTES = 1024 * 1024


class Stdio:
    """A running server and its pipes.

    Attributes:
        on_line: Called with each line of stdout, after it was recorded.
        on_dead: Called once when no answer can come any more; the argument says why.
        traffic: Gives the labels of unanswered requests, and of the last request, at this moment.
        leftovers: Removes what the server left that is no process of ours, and says what that was.
        sent_bytes: How many bytes its stdin has taken, those included that wait for it.
    """

    def __init__(self, process: ServerProcess, recorder: Recorder, *, limit: int) -> None:
        self.process = process
        self.recorder = recorder
        self.on_line: Callable[[bytes], None] = lambda _: None
        self.on_dead: Callable[[str], None] = lambda _: None
        self.on_lost: Callable[[int | str, Loss], None] = lambda _, __: None  # what was written is never lost by itself
        self.traffic: Callable[[], tuple[tuple[str, ...], str | None]] = lambda: ((), None)
        self.leftovers: Callable[[], Awaitable[tuple[Orphan, ...]]] | None = None
        self.dead = ""
        self.exit: Exit | None = None
        self.sent_bytes = 0
        self._limit = limit
        self._splitter = LineSplitter(limit)
        self._lines = 0
        self._bytes = 0
        self._came_at = 0.0  # when the last bytes of stdout came
        self._pause_s = 0.0  # the longest pause so far within the line that is coming
        self._read_at = 0.0  # when the server was last seen to read, while bytes wait for it
        self._left = 0
        self._sampling = False
        self._stderr = Tail(recorder)
        self._stdout_end = asyncio.Event()
        self._stdin_open = True
        self._unread: int | None = None  # once stdin is closed
        self._stopping = False
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._loop = asyncio.get_running_loop()
        recorder.on_failed = self._unrecorded

    async def connect(self) -> None:
        """Attaches the pipes; from now on stdout and stderr are drained."""
        stdin, stdout, stderr = self.process.pipes
        _widen(stdout)
        await self._stderr.attach(stderr)
        self._stdout, _ = await self._loop.connect_read_pipe(
            lambda: PipeProtocol(self._stdout_data, self._stdout_lost), stdout
        )
        self._stdin, _ = await self._loop.connect_write_pipe(
            lambda: PipeProtocol(lambda _: None, self._stdin_lost), stdin
        )
        self.process.on_end(self._leader_ended)
        if self.recorder.failed is not None:
            self._unrecorded()

    async def ready(self, timeout_s: float) -> str:  # noqa: ARG002 - a pipe can be written to at once
        """A process that was started can be spoken to."""
        return ""

    # --- to the server ------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Queues one line; never blocks. The newline is added here.

        Raises:
            PipeClosed: Its stdin is closed.
        """
        if self._stdin is None or not self._stdin_open:
            raise PipeClosed
        self._stdin.write(line + b"\n")
        if self._stdin.is_closing():
            raise PipeClosed
        self.sent_bytes += len(line) + 1
        if self.unsent and not self._sampling:
            self._read_at = time.monotonic()
            self._sample()

    def abandon(self, id: int | str) -> bool:  # noqa: A002, ARG002 - it is called so
        """Nothing but a notification says so over stdio."""
        return False

    def _sample(self) -> None:
        """Looks whether the server reads, for as long as bytes wait for it."""
        left = self._left_in_pipe()
        if left != self._left:
            self._left, self._read_at = left, time.monotonic()
        self._sampling = bool(self.unsent) and not self._stopping
        if self._sampling:
            self._loop.call_later(SAMPLE_S, self._sample)

    @property
    def reading(self) -> bool:
        """Whether the server reads what waits for it, however slowly."""
        return time.monotonic() - self._read_at < READING_S

    @property
    def coming(self) -> bool:
        """Whether a line is coming at this moment: it is not at its end, and its last bytes are new.

        What is new depends on the line: one that trickles is not over because it pauses as it did before.
        """
        silent_s = time.monotonic() - self._came_at
        return bool(self._splitter.size) and silent_s < max(STILL_S, PAUSES * self._pause_s)

    @property
    def unsent(self) -> int:
        """How many bytes the server has not read yet, beyond what the pipe holds."""
        return 0 if self._stdin is None or self._stdin.is_closing() else self._stdin.get_write_buffer_size()

    def unread_from(self, start: int) -> bool:
        """Whether nothing that was sent from this byte on was ever read; False where the system does not say."""
        unread = self._unread if self._unread is not None else self._left_in_pipe()
        return unread > 0 and self.sent_bytes - unread <= start

    def _left_in_pipe(self) -> int:
        """How many bytes of stdin nobody has read, 0 where it cannot be told."""
        try:
            found = fcntl.ioctl(self.process.pipes[0].fileno(), termios.FIONREAD, b"\0\0\0\0")
        except (OSError, ValueError):
            return 0
        return int.from_bytes(found, sys.byteorder) + self.unsent

    def _stdin_lost(self) -> None:
        if self._unread is None:
            self._unread = self._left_in_pipe()
        was_open, self._stdin_open = self._stdin_open, False
        if was_open and not self._stopping and not self.process.ended.is_set():
            self.recorder.add(Diagnostic, what="stdin-closed", detail="the server closed its stdin")

    def _close_stdin(self) -> None:
        if self._stdin_open and self.traffic()[0] and not self.process.ended.is_set():
            self.recorder.add(Diagnostic, what="closing", detail="its stdin was closed")
        if self._stdin_open and self.unsent:
            self.recorder.add(
                Diagnostic, what="cut-short", detail=f"{self.unsent} bytes of what was sent had not been read"
            )
        self._stdin_open = False
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.abort()  # what it has not read it will not read

    # --- from the server ----------------------------------------------------------------------------

    def _stdout_data(self, data: bytes) -> None:
        if self._splitter.cut or (self._stopping and self._lines >= LINES_LIMIT):
            return
        self._bytes += len(data)
        now = time.monotonic()
        if self._splitter.size:
            self._pause_s = max(self._pause_s, now - self._came_at)
        self._came_at = now
        for at, line in self._splitter.feed(data):
            self._pause_s = 0.0
            self._lines += 1
            in_flight, after = self.traffic()
            self.recorder.received(line, at, "lf", in_flight, None if in_flight else after)
            self.on_line(line)
        if self._splitter.cut:
            self._cut_line()
        elif (self._lines > LINES_LIMIT or self._bytes > STDOUT_LIMIT_BYTES) and not self.dead:
            self._stop_recording(f"over {LINES_LIMIT} lines or {STDOUT_LIMIT_BYTES} bytes came on stdout")

    def _cut_line(self) -> None:
        in_flight, after = self.traffic()
        body = self.recorder.masked(self._splitter.rest(2 * CUT_KEEP_BYTES))[:CUT_KEEP_BYTES]
        self.recorder.received(body, self._splitter.at, "cut", in_flight, None if in_flight else after)
        self._splitter.clear()
        self._stop_recording(f"a line on stdout is longer than {self._limit} bytes")

    def _stop_recording(self, reason: str) -> None:
        self.recorder.add(Truncated, reason=reason)
        assert self._stdout is not None
        self._stdout.pause_reading()  # it blocks in its write until it is stopped
        self._die(f"the server was stopped: {reason}")

    def _unrecorded(self) -> None:
        """Nothing that comes now would be evidence: it ends like a server that is stopped."""
        if not self._stopping:
            self._die("the server was stopped: what it says cannot be recorded")

    def _stdout_lost(self) -> None:
        self._stdout_end.set()
        if self.process.ended.is_set():
            self._leader_gone()
        elif not self._stopping:
            self._loop.call_later(CLOSED_S, self._closed_too_long)

    def _closed_too_long(self) -> None:
        if not self._stopping and not self.process.ended.is_set():
            self.recorder.add(Diagnostic, what="stdout-closed", detail="the server closed its stdout and lived on")
            self._die("the server closed its stdout")

    @property
    def stderr_tail(self) -> bytes:
        """The last of stderr, masked before it was cut."""
        return self._stderr.tail

    @property
    def line_count(self) -> int:
        """How many complete lines came on stdout."""
        return self._lines

    @property
    def unfinished(self) -> bytes:
        """What came on stdout since the last newline."""
        return self._splitter.rest()

    # --- the end ------------------------------------------------------------------------------------

    def _leader_ended(self) -> None:
        if self._stdout_end.is_set():
            self._leader_gone()
        else:
            self._loop.call_later(EXIT_DRAIN_S, self._leader_gone)

    @property
    def ended(self) -> str:
        """How the leader ended, in words; it has."""
        return f"the server ended with {describe_code(self.process.code or 0)}"

    def _leader_gone(self) -> None:
        if not self._stopping:
            self._die(self.ended)

    def _die(self, why: str) -> None:
        if not self.dead:
            self.dead = why
            self.on_dead(why)

    async def stop(self, *, hurry: bool = False) -> Exit:
        """Ends the server, records how, and closes everything; a second call gives the same answer.

        Args:
            hurry: Do not give it the whole time to see that its stdin is closed.
        """
        if self.exit is not None:
            return self.exit
        with anyio.CancelScope(shield=True):
            if self.process.ended.is_set() and not self.dead:
                with anyio.move_on_after(EXIT_DRAIN_S):  # its last words may still be in the pipe
                    await self._stdout_end.wait()
            self._stopping = True
            how = await self.process.stop(self._close_stdin, hurry=hurry or self._splitter.cut or bool(self.dead))
            with anyio.move_on_after(EOF_S):
                if not self._splitter.cut:
                    await self._stdout_end.wait()
                await self._stderr.over.wait()
            if self.leftovers is not None:
                how = dataclasses.replace(how, orphans=(*how.orphans, *await self.leftovers()))
            await self._stderr.end()
            if self._stdout is not None:
                self._stdout.close()
            self.exit = how
            self._die("the server was stopped")
            self._record_end(how)
        return how

    def _record_end(self, how: Exit) -> None:
        in_flight, after = self.traffic()
        if self._splitter.size:
            rest = self._splitter.rest()
            if how.ended_by in ("term", "kill") and self.coming:
                self.recorder.add(Diagnostic, what="still-coming", detail="the server was stopped in mid-line")
            self.recorder.received(rest, self._splitter.at, "none", in_flight, None if in_flight else after)
        record_exit(self.recorder, how, self._stderr, in_flight)


async def open_stdio(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    marker: str,
    recorder: Recorder,
    server: str = "",
    limit: int = LINE_LIMIT_BYTES,
) -> Stdio:
    """Starts a server and attaches its pipes. Whoever calls this must call `stop`, whatever happens.

    Args:
        marker: Text in the environment of this server and its children, and of nobody else.
        limit: Of one line of stdout, in bytes.
    Raises:
        ServerError: It could not be started.
    """
    process = start_process(argv, cwd=cwd, env=env, marker=marker, server=server)
    recorder.add(Spawned, argv=tuple(argv), cwd=str(cwd), env=tuple(sorted(env)), pid=process.pid)
    stdio = Stdio(process, recorder, limit=limit)
    with anyio.CancelScope(shield=True):  # between the start and its pipes nothing may come
        await stdio.connect()
    return stdio


def _widen(pipe: IO[bytes]) -> None:
    """A wider pipe means fewer turns for a large line; it is not needed."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def elapsed_ms(process: ServerProcess) -> int:
    """How long a process ran, or runs, in milliseconds."""
    until = process.ended_at if process.ended.is_set() else time.monotonic()
    return round((until - process.started_at) * 1000)
