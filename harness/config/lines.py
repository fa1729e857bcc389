"""On which line every key of a TOML document was written.

`tomllib` reads the values; it does not say where they stood. tomlkit, the obvious source, renders an array of tables
whose elements are interleaved with other tables in another order than it was written (`[[a]] [b] [[a]]` comes back as
`[[a]] [[a]] [b]`), so lines counted in its rendered text are wrong there; it also takes ten times as long as `tomllib`.
Hence this scanner. It runs over text that `tomllib` has accepted, so it need not judge, only follow: strings, comments,
brackets, keys. A property test holds it against generated documents, and against `tomllib`'s data.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from dataclasses import dataclass, field

from harness.config.problems import Path

__all__ = ["Lines", "Part", "scan"]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_SPACE = re.compile(r"[ \t]*+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_LITERAL = re.compile(r"'[^'\n]*+'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|""?(?!"))*+"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|''?(?!'))*+'{3,5}", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]++")


@dataclass(slots=True)
class Part:
    """A header or a `key = value`, as it stands in the text.

    Attributes:
        path: Of the table or the value.
        start: Offset of its first character.
        end: Offset behind its last one; a comment behind it is not in it.
        header: Whether it is a table's header.
        parts: The pairs of the inline table that is its value, also those in lists inside.
    """

    path: Path
    start: int
    end: int
    header: bool = False
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class Lines:
    """Lines from 1, by path.

    Attributes:
        at: The line on which a key, a table or an element of an array was (first) written; a table's own header
            wins over an earlier mention inside a longer one.
        repeats: Keys and tables that were written again: path, line, line of the first.
        parts: Headers and pairs in the order of the text.
        complete: Whether the scan reached the end; it does for every document that `tomllib` accepts.
    """

    at: dict[Path, int] = field(default_factory=dict)
    repeats: list[tuple[Path, int, int]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    complete: bool = False

    def line(self, path: Path) -> int | None:
        """The line of a value, or of the nearest thing around it."""
        while path and path not in self.at:
            path = path[:-1]
        return self.at.get(path)


class _LostError(Exception):
    """The text is no TOML from here on."""


def scan(text: str) -> Lines:
    """The lines of a document; of what comes before the first error, if it is not TOML."""
    scanner = _Scanner(text)
    try:
        scanner.document()
        scanner.lines.complete = True
    except (_LostError, RecursionError, tomllib.TOMLDecodeError):
        pass
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines()
        self.pos = 0
        self.around = self.lines.parts  # where the next pair belongs
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.counts: dict[Path, int] = {}  # arrays of tables: how many elements so far
        self.headers: dict[Path, int] = {}
        self.leaves: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while True:
            self.skip(_BLANK)
            if self.pos >= len(self.text):
                return
            if self.text[self.pos] == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Path:
        line, start = self.line(), self.pos
        many = self.text.startswith("[[", self.pos)
        self.pos += 2 if many else 1
        self.skip(_SPACE)
        keys = self.key()
        self.expect("]]" if many else "]")
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            self.note(path, line)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        path = (*path, keys[-1])
        if many:
            self.lines.at.setdefault(path, line)
            index = self.counts.get(path, 0)
            self.counts[path] = index + 1
            path = (*path, index)
            self.lines.at[path] = line
        elif path in self.headers or path in self.leaves:
            self.lines.repeats.append((path, line, self.lines.at[path]))
        else:
            self.headers[path] = line
            self.lines.at[path] = line
        self.lines.parts.append(Part(path, start, self.pos, header=True))
        return path

    def pair(self, table: Path) -> None:
        line, start = self.line(), self.pos
        path = table
        keys = self.key()
        for key in keys[:-1]:
            path = (*path, key)
            self.note(path, line)
        path = (*path, keys[-1])
        self.lines.at.setdefault(path, line)
        self.expect("=")
        if path in self.leaves:
            self.lines.repeats.append((path, line, self.leaves[path]))
        self.leaves.setdefault(path, line)
        part = Part(path, start, start)
        around, self.around = self.around, part.parts
        self.value(path)
        self.around = around
        part.end = start + len(self.text[start : self.pos].rstrip())
        around.append(part)

    def note(self, path: Path, line: int) -> None:
        """A name on the way to a key; nothing can be added to one that has a value."""
        self.lines.at.setdefault(path, line)
        if path in self.leaves:
            self.lines.repeats.append((path, line, self.leaves[path]))

    def key(self) -> list[str]:
        keys = []
        while True:
            if (match := self.take(_BARE_KEY)) is not None:
                keys.append(match)
            elif (match := self.take(_BASIC)) is not None:
                keys.append(match[1:-1] if "\\" not in match else tomllib.loads(f"k = {match}")["k"])
            elif (match := self.take(_LITERAL)) is not None:
                keys.append(match[1:-1])
            else:
                raise _LostError
            self.skip(_SPACE)
            if not self.text.startswith(".", self.pos):
                return keys
            self.pos += 1
            self.skip(_SPACE)

    def value(self, path: Path) -> None:
        self.skip(_SPACE)
        start = self.text[self.pos : self.pos + 3]
        if start == '"""':
            self.must(_LONG_BASIC)
        elif start == "'''":
            self.must(_LONG_LITERAL)
        elif start.startswith('"'):
            self.must(_BASIC)
        elif start.startswith("'"):
            self.must(_LITERAL)
        elif start.startswith("["):
            self.array(path)
        elif start.startswith("{"):
            self.inline_table(path)
        else:
            self.must(_SCALAR)

    def array(self, path: Path) -> None:
        self.pos += 1
        index = 0
        while True:
            self.skip(_BLANK)
            if self.text.startswith("]", self.pos):
                self.pos += 1
                return
            item = (*path, index)
            self.lines.at[item] = self.line()
            self.value(item)
            index += 1
            self.skip(_BLANK)
            if self.text.startswith(",", self.pos):
                self.pos += 1
            elif not self.text.startswith("]", self.pos):
                raise _LostError

    def inline_table(self, path: Path) -> None:
        self.pos += 1
        while True:
            self.skip(_BLANK)
            if self.text.startswith("}", self.pos):
                self.pos += 1
                return
            self.pair(path)
            self.skip(_BLANK)
            if self.text.startswith(",", self.pos):
                self.pos += 1
            elif not self.text.startswith("}", self.pos):
                raise _LostError

    def line(self) -> int:
        return bisect.bisect_right(self.starts, self.pos)

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return match[0]

    def must(self, pattern: re.Pattern[str]) -> None:
        if self.take(pattern) is None:
            raise _LostError

    def expect(self, text: str) -> None:
        if not self.text.startswith(text, self.pos):
            raise _LostError
        self.pos += len(text)
