"""Bytes of a pipe -> lines, and how much of them is kept of one process."""

from __future__ import annotations

from harness.model.transcript import LINE_LIMIT_BYTES

__all__ = ["CUT_KEEP_BYTES", "LINES_LIMIT", "STDERR_TAIL_BYTES", "STDOUT_LIMIT_BYTES", "LineSplitter"]

STDERR_TAIL_BYTES = 64 * 1024
CUT_KEEP_BYTES = 64 * 1024  # of a line over the limit its beginning is kept
STDOUT_LIMIT_BYTES = 2 * 1024 * 1024 * 1024  # of one process in all
LINES_LIMIT = 500_000  # of one process in all


class LineSplitter:
    """Bytes in any chunks -> lines; linear, and the same lines whatever the chunks.

    Attributes:
        at: Offset of the line that is being collected.
        cut: A line was longer than the limit; nothing comes out any more, `rest()` is that line's beginning.
    """

    def __init__(self, limit: int = LINE_LIMIT_BYTES) -> None:
        self.at = 0
        self.cut = False
        self.size = 0  # bytes of the unfinished line that are held
        self._limit = limit
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The lines that are complete now, without newline, each with its offset in the stream."""
        lines: list[tuple[int, bytes]] = []
        begin = 0
        while not self.cut and (end := data.find(b"\n", begin)) >= 0:
            line = data[begin:end]
            begin = end + 1
            if self._parts:
                self._parts.append(line)
                line = b"".join(self._parts)
                self.clear()
            if len(line) > self._limit:
                self._hold(line)
            else:
                lines.append((self.at, line))
                self.at += len(line) + 1
        if not self.cut and begin < len(data):
            self._hold(data[begin:] if begin else data)
        return lines

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)
        self.cut = self.size > self._limit

    def rest(self, limit: int | None = None) -> bytes:
        """The unfinished line, or its beginning."""
        return b"".join(self._parts)[:limit]

    def clear(self) -> None:
        """Forgets the unfinished line."""
        self._parts.clear()
        self.size = 0
