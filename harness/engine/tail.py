"""The end of what a process writes to one of its pipes, kept in bounds, and the end of the process itself on record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import IO

import anyio

from harness.engine.process import Exit
from harness.engine.record import Recorder
from harness.model.transcript import Exited

__all__ = ["TAIL_BYTES", "PipeProtocol", "Tail", "describe_code", "record_exit"]

TAIL_BYTES = 64 * 1024
EOF_S = 1.0
COMMAND_CHARS = 500  # of an orphan's command


class PipeProtocol(asyncio.Protocol):
    """Hands what a pipe says to two functions; for stdin only the second matters."""

    def __init__(self, data: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._data = data
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        self._data(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._lost()


class Tail:
    """A pipe that is drained from its first byte; its end is kept.

    Attributes:
        size: How many bytes came in all.
        over: Set when the pipe is closed.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.size = 0
        self.over = asyncio.Event()
        self._recorder = recorder
        self._kept = bytearray()
        self._transport: asyncio.ReadTransport | None = None

    async def attach(self, pipe: IO[bytes]) -> None:
        """From now on the pipe is drained."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: PipeProtocol(self._feed, self.over.set), pipe)

    def _feed(self, data: bytes) -> None:
        self.size += len(data)
        self._kept += data
        if len(self._kept) > 4 * TAIL_BYTES:
            del self._kept[: -2 * TAIL_BYTES]

    @property
    def kept(self) -> bytes:
        """Rather more than its end, as it came: not to be shown."""
        return bytes(self._kept)

    @property
    def tail(self) -> bytes:
        """Its end, masked before it was cut."""
        return self._recorder.masked(bytes(self._kept))[-TAIL_BYTES:]

    async def end(self) -> None:
        """Waits a moment for its end, and closes it."""
        with anyio.move_on_after(EOF_S):
            await self.over.wait()
        if self._transport is not None:
            self._transport.close()


def describe_code(code: int) -> str:
    """`exit code 3`, or `signal 9`."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def record_exit(recorder: Recorder, how: Exit, stderr: Tail, in_flight: tuple[str, ...]) -> None:
    """The last events of a transcript, which is closed."""
    recorder.stderr(stderr.kept, stderr.size, limit=TAIL_BYTES)
    recorder.add(
        Exited,
        code=how.code,
        asked=how.asked,
        ended_by=how.ended_by,
        waited_s=how.waited_s,
        in_flight=in_flight,
        orphans=tuple(dataclasses.replace(item, command=_command(recorder, item.command)) for item in how.orphans),
    )
    recorder.close()


def _command(recorder: Recorder, command: str) -> str:
    return recorder.masked(command.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")[:COMMAND_CHARS]
