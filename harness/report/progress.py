"""Progress on stderr: a line for every stage that ended, and what is being waited for; it never breaks a run.

In a log (no terminal) there is no carriage return and no cursor code, and one 'still waiting' line every 30 seconds at
most. On a terminal one status line is rewritten in place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from harness.report.ansi import Paint, wants_color, wants_status_line
from harness.report.escape import cut_line, display_width, encodable

__all__ = ["STATUS_EVERY_S", "WAIT_EVERY_S", "ProgressLog", "wants_color", "wants_status_line"]

WAIT_EVERY_S = 30.0
STATUS_EVERY_S = 0.5
TEXT_BYTES = 300
_CLEAR = "\r\x1b[K"


@dataclass(slots=True)
class _Stage:
    began: float
    detail: str = ""


class ProgressLog:
    """A `harness.model.progress.Progress` that writes to a stream, line by line, from any thread.

    Whatever happens to the stream (closed, a pipe without reader, None), nothing is raised: it falls silent.

    Args:
        stream: Where to write; None writes nothing.
        tty: Whether a status line may be rewritten in place.
        color: Whether marks are coloured.
        columns: Width of the terminal; only for the status line.
        wait_every_s: Seconds between two 'still waiting' lines of a log.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        stream: TextIO | None,
        *,
        tty: bool,
        color: bool,
        columns: int = 80,
        wait_every_s: float = WAIT_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._tty = tty
        self._paint = Paint(color)
        self._columns = columns
        self._wait_every_s = wait_every_s
        self._clock = clock
        self._stages: dict[tuple[str, str], list[_Stage]] = {}
        self._last_wait = float("-inf")
        self._status = ""
        self._closed = False
        self._ticker: threading.Thread | None = None
        self._changed = threading.Condition(threading.RLock())
        encoding = getattr(stream, "encoding", None)
        self._marks = {
            name: mark if encodable(mark, encoding) == mark else plain
            for name, mark, plain in (("ok", "✓", "ok"), ("failed", "✗", "FAILED"), ("note", "·", "-"))
        }

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def begin(self, subject: str, what: str) -> None:
        """A stage began; a line comes when it ends, or when it takes long."""
        with self._changed:
            self._stages.setdefault((subject, what), []).append(_Stage(self._clock()))
            self._refresh()
            if self._ticker is None and not self._closed and self._stream is not None:
                self._ticker = threading.Thread(target=self._tick, name="rollcall-progress", daemon=True)
                self._ticker.start()

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        """A stage ended: mark, subject, stage, seconds."""
        with self._changed:
            open_stages = self._stages.get((subject, what), [])
            if open_stages:
                open_stages.pop(0)
            if not open_stages:
                self._stages.pop((subject, what), None)
            mark = self._paint("green", self._marks["ok"]) if ok else self._paint("red", self._marks["failed"])
            more = f" ({_foreign(detail)})" if detail else ""
            self._line(f"{mark} {_title(subject, what)}, {seconds:.1f} s{more}")
            self._refresh()

    def waiting(self, subject: str, what: str, detail: str) -> None:
        """A stage is still waiting; may be called often."""
        with self._changed:
            for stage in self._stages.get((subject, what), ()):
                stage.detail = detail
            self._remind()
            self._refresh()

    def note(self, subject: str, text: str) -> None:
        """A line that is no stage."""
        with self._changed:
            about = f"{_foreign(subject)}: " if subject else ""
            self._line(f"{self._paint('dim', self._marks['note'])} {about}{_foreign(text)}")
            self._refresh()

    def close(self) -> None:
        """Ends the status line; later calls write nothing but lines of stages that end."""
        with self._changed:
            self._clear()
            self._closed = True
            self._changed.notify_all()
            ticker = self._ticker
        if ticker is not None and ticker is not threading.current_thread():
            ticker.join(timeout=1.0)

    def _tick(self) -> None:
        every = STATUS_EVERY_S if self._tty else min(1.0, self._wait_every_s / 2)
        with self._changed:
            while not self._closed:
                self._changed.wait(every)
                if self._stages and not self._closed:
                    self._remind()
                    self._refresh()

    def _remind(self) -> None:
        """One line for all that is waited for, if it is time for it."""
        now = self._clock()
        if self._tty or not self._stages:
            return
        began = min(stage.began for stages in self._stages.values() for stage in stages)
        if now - began < self._wait_every_s or now - self._last_wait < self._wait_every_s:
            return
        self._last_wait = now
        self._line(self._waited_for(now))

    def _waited_for(self, now: float) -> str:
        """The stage that has waited longest, and how many others there are."""
        (subject, what), stage = min(
            ((key, stage) for key, stages in self._stages.items() for stage in stages), key=lambda pair: pair[1].began
        )
        others = sum(map(len, self._stages.values())) - 1
        detail = f" ({_foreign(stage.detail)})" if stage.detail else ""
        more = f", and for {others} more" if others else ""
        return f"still waiting for {_title(subject, what)}, {now - stage.began:.0f} s{detail}{more}"

    def _refresh(self) -> None:
        if not self._tty or self._closed:
            return
        if not self._stages:
            self._clear()
            return
        text = self._waited_for(self._clock()).removeprefix("still waiting for ")
        while display_width(text) > max(self._columns - 3, 10):
            text = text[:-1]
        if text != self._status:
            self._write(f"{_CLEAR}{self._paint('dim', '…')} {text}")
            self._status = text

    def _clear(self) -> None:
        if self._status:
            self._write(_CLEAR)
            self._status = ""

    def _line(self, text: str) -> None:
        self._clear()
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(encodable(text, getattr(self._stream, "encoding", None)))
            self._stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or nobody reads any more
            self._stream = None


def _foreign(text: str) -> str:
    return cut_line(text, TEXT_BYTES)


def _title(subject: str, what: str) -> str:
    return f"{_foreign(subject)}: {_foreign(what)}" if subject else _foreign(what)
