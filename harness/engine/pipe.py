"""What carries JSON-RPC messages to one server process and back: its own pipes, or HTTP.

A session, a comparing pass and a test know no more of it than this. Whatever carries them records each message before
anybody is told of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from harness.engine.process import Exit, ServerProcess
from harness.engine.record import Recorder
from harness.model.transcript import Orphan

__all__ = ["Loss", "Pipe", "PipeClosed"]


class PipeClosed(Exception):
    """The server takes no more messages, or the pipe was closed by us."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why one request can get no answer any more.

    Attributes:
        why: In words.
        status: Of the HTTP response that came instead, 0 without one.
        hint: What to do about it, where nothing of this server can be had before that is done.
        kind: The media type of that response.
        body: How its body began, where that is no message.
    """

    why: str
    status: int = 0
    hint: str = ""
    kind: str = ""
    body: bytes = b""


class Pipe(Protocol):
    """A running server and the way to it.

    Attributes:
        on_line: Called with each message of the server's, after it was recorded.
        on_dead: Called once when no answer can come any more; the argument says why.
        on_lost: Called when one request can get no answer any more though the server lives: its id, and why.
        traffic: Gives the labels of unanswered requests, and of the last request, at this moment.
        leftovers: Removes what the server left that is no process of ours, and says what that was.
        dead: Why no answer can come any more, "" while one can.
        exit: How the process ended, None before `stop` is done.
        sent_bytes: How many bytes the server was sent, those included that wait for it.
    """

    process: ServerProcess
    recorder: Recorder
    on_line: Callable[[bytes], None]
    on_dead: Callable[[str], None]
    on_lost: Callable[[int | str, Loss], None]
    traffic: Callable[[], tuple[tuple[str, ...], str | None]]
    leftovers: Callable[[], Awaitable[tuple[Orphan, ...]]] | None
    dead: str
    exit: Exit | None
    sent_bytes: int

    async def ready(self, timeout_s: float) -> str:
        """Waits until the server can be spoken to; why it cannot, or "" if it can."""

    def send(self, line: bytes) -> None:
        """Queues one message; never blocks.

        Raises:
            PipeClosed: The server takes no more.
        """

    def abandon(self, id: int | str) -> bool:  # noqa: A002 - it is called so
        """The request is waited for no longer; whether the server was told so in the way of this pipe."""

    def unread_from(self, start: int) -> bool:
        """Whether nothing that was sent from this byte on was ever read; False where that cannot be told."""

    async def stop(self, *, hurry: bool = False) -> Exit:
        """Ends the server, records how, and closes everything; a second call gives the same answer."""

    @property
    def ended(self) -> str:
        """How the leader ended, in words; it has."""

    @property
    def unsent(self) -> int:
        """How many bytes the server has not read yet, beyond what the system holds for it."""

    @property
    def reading(self) -> bool:
        """Whether the server reads what waits for it, however slowly."""

    @property
    def coming(self) -> bool:
        """Whether a message is coming at this moment: it is not at its end, and its last bytes are new."""

    @property
    def unfinished(self) -> bytes:
        """What came of a message that is not at its end."""

    @property
    def line_count(self) -> int:
        """How many messages came."""

    @property
    def stderr_tail(self) -> bytes:
        """The last of stderr, masked before it was cut."""
