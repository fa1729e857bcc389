"""Progress of a rollout: a line for everything that ended, and the stage of every repository that runs, at a glance.

On a terminal the stages are a block of lines that is rewritten in place; in a log they are one line every 30 seconds.
"""

from __future__ import annotations

import shutil
from typing import Any

from harness.report.escape import cut_line, display_width
from harness.report.progress import TEXT_BYTES, ProgressLog

__all__ = ["Board"]

MAX_LINES = 20


class Board(ProgressLog):
    """A `ProgressLog` over repositories: subjects are their names.

    Args:
        total: How many repositories the pass has.
    """

    def __init__(self, *arguments: Any, total: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._total = total
        self._over: set[str] = set()

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        """A stage ended; with `run`, or what failed before it, the repository has."""
        if what == "run" or not ok:
            self._over.add(subject)
        super().end(subject, what, ok=ok, seconds=seconds, detail=detail)

    def settled(self, subject: str) -> None:
        """A repository came to its end without a stage."""
        self._over.add(subject)

    def _rows(self, now: float) -> list[str]:
        """Each repository that is at something: what, and for how long; the longest first."""
        found = sorted(
            (stage.began, subject, stage.detail or what)
            for (subject, what), stages in self._stages.items()
            for stage in stages
        )
        return [
            f"{cut_line(subject, TEXT_BYTES)}: {cut_line(what, TEXT_BYTES)}, {now - began:.0f} s"
            for began, subject, what in found
        ]

    def _waited_for(self, now: float) -> str:
        return f"{len(self._over)} of {self._total} done; " + "; ".join(self._rows(now))

    def _refresh(self) -> None:
        if not self._tty or self._closed:
            return
        rows = self._rows(self._clock())
        if not rows:
            self._clear()
            return
        room = max(1, min(MAX_LINES, shutil.get_terminal_size((80, 24)).lines - 3))
        shown = rows[:room] + ([f"and {len(rows) - room} more"] if len(rows) > room else [])
        lines = [f"… {len(self._over)} of {self._total} done", *(f"  {row}" for row in shown)]
        text = "\n".join(self._fitted(line) for line in lines)
        if text != self._status:
            self._clear()
            self._write(self._paint("dim", text))
            self._status = text

    def _fitted(self, line: str) -> str:
        while display_width(line) > max(self._columns - 2, 10):
            line = line[:-1]
        return line

    def _clear(self) -> None:
        if self._status:
            self._write("\r\x1b[K" + "\x1b[1A\x1b[K" * self._status.count("\n"))
            self._status = ""
