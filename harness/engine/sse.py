"""An event stream taken apart as it comes: the same events whatever the chunks, each with its place in the stream.

Linear in the size of the stream. Line ends may be CR LF, LF or CR; a byte order mark at the beginning is skipped.
Source: the HTML standard, server-sent events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["SseItem", "SseParser"]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SseItem:
    """What stands between two empty lines.

    Attributes:
        at: Offset of its first byte; `size` up to and with the empty line.
        event: Its name, "" where it has none.
        id: As it stands there, None without one.
        retry: In milliseconds.
        data: None where it has no data, and is no event therefore.
        comment: The text of its comments.
    """

    at: int
    size: int
    event: str = ""
    id: str | None = None
    retry: int | None = None
    data: bytes | None = None
    comment: bytes = b""


class SseParser:
    """Bytes of a stream in any chunks -> its events.

    Attributes:
        at: Offset of the event that is being collected.
        cut: An event was longer than the limit; nothing comes out any more.
    """

    def __init__(self, limit: int) -> None:
        self.at = 0
        self.cut = False
        self._limit = limit
        self._parts: list[bytes] = []  # of the unfinished line
        self._held = 0  # bytes of the unfinished line
        self._lines: list[bytes] = []  # of the unfinished event
        self._size = 0  # bytes of its whole lines
        self._after_cr = False  # the line feed of the last line end may still come

    @property
    def size(self) -> int:
        """How many bytes of the unfinished event came."""
        return self._size + self._held

    def rest(self, limit: int | None = None) -> bytes:
        """The unfinished event, or its beginning; its line ends as line feeds."""
        return b"\n".join((*self._lines, b"".join(self._parts)))[:limit]

    def feed(self, data: bytes) -> list[SseItem]:
        """The events that are complete now."""
        if self.cut or not data:
            return []
        if self._after_cr and data.startswith(b"\n"):
            self._after_cr = False
            if self._lines:
                self._size += 1
            else:
                self.at += 1
            data = data[1:]
        items: list[SseItem] = []
        begin = 0
        for end in _LINE_END.finditer(data):
            self._line(data[begin : end.start()], end.end() - begin, items)
            begin = end.end()
            if self.cut:
                return items
        if begin < len(data):
            self._parts.append(data[begin:])
            self._held += len(data) - begin
            self._after_cr = False
        elif data:
            self._after_cr = data.endswith(b"\r")
        self.cut = self.size > self._limit
        return items

    def finish(self) -> SseItem | None:
        """The event that the end of the stream has left without an empty line, if there is one."""
        items: list[SseItem] = []
        if self._parts:
            self._line(b"", 0, items)
        return self._item() if self._lines and not self.cut else None

    def _line(self, last: bytes, taken: int, items: list[SseItem]) -> None:
        """One more line: what was held of it, and its `last` part; `taken` bytes with the line end."""
        line = b"".join((*self._parts, last)) if self._parts else last
        self._size += self._held + taken
        self._parts.clear()
        self._held = 0
        if self.at == 0 and not self._lines:
            line = line.removeprefix(_MARK)
        if self._size > self._limit:
            self._lines.append(line)
            self.cut = True
        elif line:
            self._lines.append(line)
        else:
            if self._lines:
                items.append(self._item())
            self.at += self._size
            self._lines = []
            self._size = 0

    def _item(self) -> SseItem:
        data: list[bytes] = []
        comments: list[bytes] = []
        event, identity, retry = "", None, None
        for line in self._lines:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not name:
                comments.append(value)
            elif name == b"data":
                data.append(value)
            elif name == b"event":
                event = value.decode("utf-8", "replace")
            elif name == b"id" and b"\0" not in value:
                identity = value.decode("utf-8", "replace")
            elif name == b"retry" and value.isdigit() and len(value) < 10:
                retry = int(value)
        return SseItem(
            at=self.at,
            size=self._size,
            event=event,
            id=identity,
            retry=retry,
            data=b"\n".join(data) if data else None,
            comment=b"\n".join(comments),
        )
