"""exemptions.toml with entries taken out or put in: bytes -> bytes, and everything else as people wrote it.

Rows are taken out and put in by the places that our own scanner gives; the document is never rendered anew. tomlkit,
the obvious tool, renders interleaved tables in another order and leaves comments of removed entries behind. What comes
out is read again and compared before it is handed out, so that a fault of ours is an error and no damaged file.

What belongs to an entry: its own rows with the comments behind them, and the comment rows directly above. A comment
with a blank row below it is of a section, and stays.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import tomli_w

from harness.config.lines import Part
from harness.config.problems import ConfigProblems, Path, Problem
from harness.config.toml import Document, parse
from harness.errors import ConfigError

__all__ = ["NEW_FILE", "EntryPath", "Skeleton", "add_entries", "remove_entries", "rows_of_entries"]

EntryPath = tuple[str, str, str]  # server, check, subject
NEW_FILE = b"schema = 1\n"

_BOM = "\ufeff"
_ENTRY = 3  # keys of an entry's path


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """An entry without a reason, for a person to write one. `backends`: where it is needed; empty = everywhere."""

    server: str
    check: str
    subject: str
    backends: tuple[str, ...] = ()


def remove_entries(data: bytes, gone: Collection[EntryPath], *, file: str) -> bytes:
    """The file without some of its entries; the same bytes if it has none of them.

    Only whole rows go, and one blank run where two would meet; an entry that shares an inline table with others is
    cut out of its row. The header of a table that is emptied goes too, unless a comment of the table's own remains.

    Args:
        file: The file's name, for messages.
    Raises:
        ConfigProblems: The file cannot be read as TOML: among others, a carriage return that ends no line.
    """
    text, document = _read(data, file)
    gone = {path for path in gone if _value_at(document.data, path) is not None}
    if not gone:
        return data
    sheet = _Sheet(text, document.lines.parts)
    new = _Removal(sheet, gone).text()
    wanted = _without(document.data, gone)
    return _checked(data, new, wanted, file)


def add_entries(data: bytes, skeletons: Sequence[Skeleton], *, file: str) -> bytes:
    """The file with entries that have empty reasons, each in its server's table or in a new one behind it.

    Subjects that the file has already are passed over; so are names that TOML cannot hold (lone surrogates).

    Raises:
        ConfigProblems: The file cannot be read as TOML.
        ConfigError: There is no place for an entry, e.g. because its server's name is that of a list.
    """
    for (server, check), group in _by_table(skeletons).items():
        text, document = _read(data, file)
        fresh = [item for item in group if _value_at(document.data, (server, check, item.subject)) is None]
        fresh = [item for item in fresh if _encodable((server, check, item.subject, *item.backends))]
        if fresh:
            data = _added(data, text, document, (server, check), fresh, file)
    return data


def rows_of_entries(data: bytes, *, file: str) -> dict[EntryPath, tuple[int, ...]]:
    """The rows, from 1, on which each entry is written; comments are not counted."""
    text, document = _read(data, file)
    sheet = _Sheet(text, document.lines.parts)
    out: dict[EntryPath, set[int]] = {}

    def walk(parts: Iterable[Part]) -> None:
        for part in parts:
            if (path := _entry_of(part.path)) is not None:
                out.setdefault(path, set()).update(range(sheet.row(part.start) + 1, sheet.row(part.end - 1) + 2))
            else:
                walk(part.parts)

    walk(document.lines.parts)
    return {path: tuple(sorted(rows)) for path, rows in out.items()}


# --- reading and checking -------------------------------------------------------------------------


def _read(data: bytes, file: str) -> tuple[str, Document]:
    document = parse(data, file=file, path=FilePath(file))
    if isinstance(document, Problem):
        raise ConfigProblems([document])
    return data.decode("utf-8-sig"), document


def _checked(old: bytes, text: str, wanted: Mapping[str, Any], file: str) -> bytes:
    """The text as bytes, with the old one's byte order mark and end; what it says must be what is wanted."""
    text = _ended_as(old.decode("utf-8-sig"), text)
    bom = _BOM if old.startswith(_BOM.encode()) else ""
    new = (bom + text).encode()
    found = parse(new, file=file, path=FilePath(file))
    if isinstance(found, Problem) or _entries_in(found.data) != _entries_in(wanted):
        raise ConfigError(f"{file} cannot be changed by a program: {_NO_PLACE}", hint="change it by hand")
    return new


_NO_PLACE = "its tables leave no way that says the same as before"


def _ended_as(old: str, text: str) -> str:
    """The text with a final newline if the old one had one, and without if it had none."""
    if old.endswith("\n") or not text.endswith("\n"):
        return text
    return text.removesuffix("\n").removesuffix("\r")


def _entries_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says; tables without an entry say nothing."""
    out: dict[str, Any] = {}
    for server, checks in data.items():
        if isinstance(checks, dict):
            checks = {check: subjects for check, subjects in checks.items() if subjects != {}}
        if checks != {}:
            out[server] = checks
    return out


def _without(data: Mapping[str, Any], gone: Collection[EntryPath]) -> dict[str, Any]:
    out = {key: _copied(value) for key, value in data.items()}
    for server, check, subject in gone:
        del out[server][check][subject]
    return out


def _copied(value: Any) -> Any:
    """Tables are copied, two levels deep; that is as far as entries are taken out or put in."""
    if not isinstance(value, dict):
        return value
    return {key: dict(item) if isinstance(item, dict) else item for key, item in value.items()}


def _value_at(data: Any, path: Iterable[str]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _entry_of(path: Path) -> EntryPath | None:
    """The entry that a header or pair belongs to."""
    if len(path) < _ENTRY or not all(isinstance(part, str) for part in path[:_ENTRY]):
        return None
    server, check, subject = map(str, path[:_ENTRY])
    return server, check, subject


class _Sheet:
    """A document as rows: which hold a part, a comment, or nothing."""

    def __init__(self, text: str, parts: Sequence[Part]) -> None:
        self.text = text
        self.parts = parts
        self.rows = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
        self.starts = [0]
        for row in self.rows:
            self.starts.append(self.starts[-1] + len(row))
        self.spans = [range(self.row(part.start), self.row(part.end - 1) + 1) for part in parts]
        taken = {row for span in self.spans for row in span}
        self.blank = [index not in taken and not row.strip() for index, row in enumerate(self.rows)]
        self.comment = [index not in taken and row.lstrip(" \t").startswith("#") for index, row in enumerate(self.rows)]
        self.eol = "\r\n" if self.rows and self.rows[0].endswith("\r\n") else "\n"

    def row(self, offset: int) -> int:
        """The index of the row that an offset is in."""
        return bisect.bisect_right(self.starts, offset) - 1

    def above(self, row: int) -> range:
        """The comment rows directly above a row."""
        first = row
        while first > 0 and self.comment[first - 1]:
            first -= 1
        return range(first, row)

    def section(self, header: int) -> range:
        """Indices of the pairs that stand under a header."""
        end = header + 1
        while end < len(self.parts) and not self.parts[end].header:
            end += 1
        return range(header + 1, end)


# --- taking out -----------------------------------------------------------------------------------


class _Removal:
    """Which rows, and which ranges inside of rows, go."""

    def __init__(self, sheet: _Sheet, gone: Collection[EntryPath]) -> None:
        self.sheet, self.gone = sheet, gone
        self.whole: set[int] = set()  # indices of parts
        self.doomed: set[int] = set()  # indices of rows
        self.cuts: list[tuple[int, int]] = []

    def text(self) -> str:
        """What is left."""
        for index, part in enumerate(self.sheet.parts):
            cuts = self._cuts(part)
            if cuts is None:
                self._take(index)
            else:
                self.cuts += cuts
        deepest_first = sorted(range(len(self.sheet.parts)), key=lambda index: -len(self.sheet.parts[index].path))
        for index in deepest_first:
            if self._emptied(index):
                self._take(index)
        self._close_gaps()
        starts, text = self.sheet.starts, self.sheet.text
        ranges = sorted([(starts[row], starts[row + 1]) for row in self.doomed] + self.cuts)
        out, at = [], 0
        for start, end in ranges:
            out.append(text[at:start])
            at = max(at, end)
        return "".join([*out, text[at:]])

    def _cuts(self, part: Part) -> list[tuple[int, int]] | None:
        """The ranges that go out of a part; None: all of it goes."""
        entry = _entry_of(part.path)
        if entry is not None:
            return None if entry in self.gone else []
        inner = [self._cuts(child) for child in part.parts]
        if inner and all(cuts is None for cuts in inner):
            return None
        out = [cut for cuts in inner if cuts is not None for cut in cuts]
        stay = [child for child, cuts in zip(part.parts, inner, strict=True) if cuts is not None]
        for (child, cuts), (following, _) in pairwise(zip(part.parts, inner, strict=True)):
            if cuts is None and following.start <= stay[-1].start:
                out.append((child.start, following.start))
        if inner and inner[-1] is None:
            out.append((stay[-1].end, part.parts[-1].end))
        return out

    def _take(self, index: int) -> None:
        """Dooms the rows of a part and the comments directly above; those between the rows of a long form too."""
        self.whole.add(index)
        span = self.sheet.spans[index]
        self.doomed |= {*self.sheet.above(span.start), *span}
        if self.sheet.parts[index].header and _entry_of(self.sheet.parts[index].path) is not None:
            for pair in self.sheet.section(index):
                self.doomed |= set(range(span.start, self.sheet.spans[pair].stop))

    def _emptied(self, index: int) -> bool:
        """Whether a part is the header of a table of which nothing is left."""
        header = self.sheet.parts[index]
        size = len(header.path)
        if not header.header or index in self.whole or not any(path[:size] == header.path for path in self.gone):
            return False
        for other, part in enumerate(self.sheet.parts):
            if other != index and other not in self.whole and part.path[:size] == header.path:
                return False
        return not self._own_comments(index)

    def _own_comments(self, index: int) -> set[int]:
        """The comment rows of a table that would stay: between its rows, or directly below the last of them."""
        sheet, pairs = self.sheet, self.sheet.section(index)
        first = sheet.spans[index].stop
        end = sheet.spans[pairs[-1]].stop if pairs else first
        below = end
        while below < len(sheet.rows) and sheet.comment[below]:
            below += 1
        if below == len(sheet.rows) or sheet.blank[below]:
            end = below  # else the comment is that of what stands below
        return {row for row in range(first, end) if sheet.comment[row]} - self.doomed

    def _close_gaps(self) -> None:
        """Blank rows round what goes: as many stay as the longest of the runs had, none at either end of the file."""
        sheet, row = self.sheet, 0
        while row < len(sheet.rows):
            start = row
            while row < len(sheet.rows) and (sheet.blank[row] or row in self.doomed):
                row += 1
            region = range(start, row)
            row = max(row, start + 1)
            if not any(index in self.doomed for index in region):
                continue
            runs = _runs(region, self.doomed)
            longest = max(runs, key=len)
            if region.start == 0:
                longest = []
            elif region.stop == len(sheet.rows):
                longest = runs[-1]
            self.doomed |= set(region) - set(longest)


def _runs(region: Iterable[int], doomed: Collection[int]) -> list[list[int]]:
    """The rows of a region that are not doomed, as runs; the last is the one at the region's end."""
    runs: list[list[int]] = [[]]
    for index in region:
        if index in doomed:
            runs.append([])
        else:
            runs[-1].append(index)
    return runs


# --- putting in -----------------------------------------------------------------------------------


def _by_table(skeletons: Iterable[Skeleton]) -> dict[tuple[str, str], list[Skeleton]]:
    out: dict[tuple[str, str], dict[str, Skeleton]] = {}
    for item in skeletons:
        out.setdefault((item.server, item.check), {}).setdefault(item.subject, item)
    return {table: list(group.values()) for table, group in out.items()}


def _encodable(texts: Iterable[str]) -> bool:
    return not any(0xD800 <= ord(char) < 0xE000 for text in texts for char in text)


def _added(
    data: bytes, text: str, document: Document, table: tuple[str, str], skeletons: Sequence[Skeleton], file: str
) -> bytes:
    """The first of the possible texts that says what is wanted."""
    server, check = table
    wanted = {key: _copied(value) for key, value in document.data.items()}
    problem: ConfigError | None = None
    for new in _texts(_Sheet(text, document.lines.parts), table, skeletons):
        try:
            subjects = wanted.setdefault(server, {}).setdefault(check, {})
            subjects |= {item.subject: _value(item) for item in skeletons}
            return _checked(data, new, wanted, file)
        except ConfigError as error:
            problem = error
        except (AttributeError, TypeError):
            break  # the name of the server or check is that of a value
    raise ConfigError(
        f"{file} has no place for an entry [{'.'.join(map(_key, table))}]; {_NO_PLACE}", hint="change it by hand"
    ) from problem


def _value(item: Skeleton) -> str | dict[str, Any]:
    return {"backend": list(item.backends), "reason": ""} if item.backends else ""


def _key(name: str) -> str:
    """A key as TOML writes it."""
    return tomli_w.dumps({name: ""}).removesuffix(' = ""\n')


def _pair(item: Skeleton, *before: str) -> str:
    keys = ".".join(map(_key, (*before, item.subject)))
    if not item.backends:
        return f'{keys} = ""'
    backends = ", ".join(tomli_w.dumps({"v": name}).removeprefix("v = ").rstrip("\n") for name in item.backends)
    return f'{keys} = {{ backend = [{backends}], reason = "" }}'


def _texts(sheet: _Sheet, table: tuple[str, str], skeletons: Sequence[Skeleton]) -> Iterator[str]:
    """Ways to put entries in, the most natural first."""
    server, check = table
    parts = sheet.parts
    # under the table's own header
    for index, part in enumerate(parts):
        if part.header and part.path == table:
            pairs = sheet.section(index)
            yield _inserted(sheet, sheet.spans[pairs[-1] if pairs else index].stop, [_pair(item) for item in skeletons])
    # into an inline table
    for part, before in _inline(sheet, parts, table):
        pairs_text = ", ".join(_pair(item, *before) for item in skeletons)
        yield _into_braces(sheet.text, part, pairs_text)
    # beside keys with dots
    section: Path = ()
    found: tuple[int, Path] | None = None
    for index, part in enumerate(parts):
        if part.header:
            section = part.path
        elif part.path[:2] == table and len(section) < len(table):
            found = index, section
    if found is not None:
        index, section = found
        rows = [_pair(item, *table[len(section) :]) for item in skeletons]
        yield _inserted(sheet, sheet.spans[index].stop, rows)
    # under a header of its own, behind the server's last table or at the end
    header = f"[{_key(server)}.{_key(check)}]"
    block = [header, *(_pair(item) for item in skeletons)]
    ours = [index for index, part in enumerate(parts) if part.header and part.path[:1] == (server,)]
    if ours:
        pairs = sheet.section(ours[-1])
        yield _inserted(sheet, sheet.spans[pairs[-1] if pairs else ours[-1]].stop, block, apart=True)
    yield _inserted(sheet, len(sheet.rows), block, apart=True)


def _inline(sheet: _Sheet, parts: Iterable[Part], table: tuple[str, str]) -> Iterator[tuple[Part, tuple[str, ...]]]:
    """Inline tables that hold the table, the innermost first, and the keys that lead on from there."""
    for part in parts:
        if part.header or part.path != table[: len(part.path)]:
            continue
        yield from _inline(sheet, part.parts, table)
        if sheet.text[part.end - 1] == "}":
            yield part, table[len(part.path) :]


def _into_braces(text: str, part: Part, pairs: str) -> str:
    if part.parts:
        at = part.parts[-1].end
        return f"{text[:at]}, {pairs}{text[at:]}"
    at = part.end - 1
    before = text[:at].rstrip(" \t")
    return f"{before} {pairs} {text[at:]}"


def _inserted(sheet: _Sheet, at: int, rows: Sequence[str], *, apart: bool = False) -> str:
    """The text with rows before the row `at`; `apart`: with a blank row on either side."""
    before, behind = "".join(sheet.rows[:at]), "".join(sheet.rows[at:])
    if before and not before.endswith("\n"):
        before += sheet.eol
    lines = list(rows)
    if apart and at > 0 and not sheet.blank[at - 1]:
        lines.insert(0, "")
    if apart and at < len(sheet.rows) and not sheet.blank[at]:
        lines.append("")
    return before + "".join(line + sheet.eol for line in lines) + behind
