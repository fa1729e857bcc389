"""Bytes on disk -> a TOML document whose every value knows its line, or problems in words."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path as FilePath
from typing import Any

from harness.config.lines import Lines, scan
from harness.config.problems import Path, Problem, kind_of, quoted, table_of, where_of
from harness.model.bounded import MAX_DEPTH, depth_of
from harness.model.plan import Place
from harness.model.regular import read_regular

__all__ = ["MAX_FILE_BYTES", "Document", "Files", "faults", "parse", "peek"]

MAX_FILE_BYTES = 1_000_000
MAX_KEY_PARTS = 64

# A run of dotted key parts: `tomllib` takes the square of their number. Also seen inside long strings, where it
# costs an unlikely false alarm, and that in words.
_DOTTED = re.compile(
    r"""(?<![A-Za-z0-9_.-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{MAX_KEY_PARTS}}}"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WHERE = re.compile(r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_NAME_AT_START = re.compile(r"\s*\[{0,2}\s*([^\s=\[\]\"'#]+)")
_NOT_BARE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Document:
    """A TOML file that was read.

    Attributes:
        file: The file's name as people know it.
        path: Where it lies.
        data: Its values.
        lines: Where they were written.
    """

    file: str
    path: FilePath
    data: Mapping[str, Any]
    lines: Lines

    def place(self, path: Path = ()) -> Place:
        """File and line of a value."""
        return Place(file=self.file, line=self.lines.line(path))

    def problem(self, path: Path, message: str, hint: str = "", *, table: bool = False) -> Problem:
        """A problem of one value, or (`table`) of a table as a whole."""
        return Problem(self.place(path), where_of(path, table=table), message, hint)


class Files:
    """The files of one loading: reads them once, names them as people know them, and collects what is wrong.

    Args:
        base: The folder that file names are relative to.
        catalogue: Folders of shipped backends; files in them that are not below `base` are named from there.
        named: Folders whose files have a name of their own instead, wherever the folders lie: checkouts.
    """

    def __init__(
        self, base: FilePath, catalogue: Sequence[FilePath] = (), named: Mapping[FilePath, str] | None = None
    ) -> None:
        self.base = base.absolute()
        self.named = {folder.absolute(): name for folder, name in (named or {}).items()}
        self.catalogue = tuple(folder.absolute() for folder in catalogue)
        self.problems: list[Problem] = []
        self._read: dict[FilePath, Document | None] = {}

    def name(self, path: FilePath) -> str:
        """How messages call a file: relative to the base, with `/`."""
        path = path.absolute()
        for folder, name in self.named.items():
            if path.is_relative_to(folder):
                return f"{name}/{path.relative_to(folder).as_posix()}"
        if not path.is_relative_to(self.base):
            for folder in self.catalogue:
                if path.is_relative_to(folder):
                    return f"{folder.name}/{path.relative_to(folder).as_posix()}"
        return FilePath(os.path.relpath(path, self.base)).as_posix()

    def add(self, *problems: Problem) -> None:
        """Remember what is wrong."""
        self.problems.extend(problems)

    def read(self, path: FilePath) -> Document | None:
        """The document in a file; None where its problems have been added instead."""
        key = path.absolute()
        if key not in self._read:
            file = self.name(path)
            data = self._bytes(path)
            found = parse(data, file=file, path=key) if isinstance(data, bytes) else data
            if isinstance(found, Problem):
                self.add(found)
            self._read[key] = None if isinstance(found, Problem) else found
        return self._read[key]

    def read_bytes(self, path: FilePath) -> bytes | None:
        """What is in a file that is no TOML; None where its problem has been added instead."""
        data = self._bytes(path)
        if isinstance(data, Problem):
            self.add(data)
            return None
        return data

    def _bytes(self, path: FilePath) -> bytes | Problem:
        file = self.name(path)
        for folder in self.named:
            if path.absolute().is_relative_to(folder) and not path.resolve().is_relative_to(folder.resolve()):
                return Problem(Place(file=file), "", "this link leads out of its repository")
        return _bytes_of(path, file)


def _bytes_of(path: FilePath, file: str) -> bytes | Problem:
    place = Place(file=file)
    try:
        data = read_regular(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Problem(place, "", "no such file")
    except IsADirectoryError:
        return Problem(place, "", "this is a folder, not a file")
    except (OSError, ValueError) as error:
        return Problem(place, "", f"cannot be read: {getattr(error, 'strerror', None) or error}")
    if len(data) > MAX_FILE_BYTES:
        return Problem(place, "", f"larger than {MAX_FILE_BYTES // 1000} kB; this is hardly a file that people write")
    return data


def parse(data: bytes, *, file: str, path: FilePath) -> Document | Problem:
    """The document, or the one problem that keeps it from being read. A byte order mark at the start is accepted."""
    place = Place(file=file)
    found = _values(data, file=file, place=place)
    if isinstance(found, Problem):
        return found
    text, values = found
    if not values:
        return Problem(place, "", "the file is empty", "it needs at least `schema = …`; see the reference of the files")
    return Document(file, path, values, scan(text))


def _values(data: bytes, *, file: str, place: Place) -> tuple[str, dict[str, Any]] | Problem:
    """The text and what it says."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind a byte order mark.
        at = error.start + (3 if data.startswith(b"\xef\xbb\xbf") and error.object[:3] != b"\xef\xbb\xbf" else 0)
        line = Place(file=file, line=data.count(b"\n", 0, at) + 1)
        hint = "save the file as UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            hint += "; it seems to be UTF-16"
        return Problem(line, "", f"not UTF-8: byte 0x{data[at]:02x} at offset {at}", hint)
    if (lone := re.search(r"\r(?!\n)", text)) is not None:
        line = Place(file=file, line=text.count("\n", 0, lone.start()) + 1)
        return Problem(line, "", "a carriage return without a line feed", "end every line with LF or CR LF")
    if (control := _CONTROL.search(text)) is not None:
        line = Place(file=file, line=text.count("\n", 0, control.start()) + 1)
        return Problem(line, "", f"a control character (U+{ord(control[0]):04X}), which TOML does not allow anywhere")
    if (dotted := _DOTTED.search(text)) is not None:
        line = Place(file=file, line=text.count("\n", 0, dotted.start()) + 1)
        return Problem(line, "", f"a key of more than {MAX_KEY_PARTS} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError:
        return Problem(place, "", f"nested deeper than {MAX_DEPTH} levels")
    except tomllib.TOMLDecodeError as error:
        return _syntax(str(error), text, file)
    except ValueError:  # an integer of thousands of digits
        return Problem(place, "", "a number with too many digits")
    if depth_of(values) > MAX_DEPTH:
        return Problem(place, "", f"nested deeper than {MAX_DEPTH} levels")
    return text, values


def peek(path: FilePath) -> Mapping[str, Any]:
    """The values in a file of which only a little is wanted; none where it cannot be read, for whatever reason."""
    data = _bytes_of(path, "")
    found = _values(data, file="", place=Place(file="")) if isinstance(data, bytes) else data
    return {} if isinstance(found, Problem) else found[1]


def faults(document: Document, *, dates: Callable[[Path], bool]) -> Iterator[tuple[Path, str, str]]:
    """Values that JSON has not, as path, message and hint: nan, inf, and dates and times where `dates` forbids them."""
    stack: list[tuple[Path, Any]] = [((), document.data)]
    while stack:
        path, value = stack.pop()
        match value:
            case dict():
                stack.extend(((*path, key), item) for key, item in value.items())
            case list():
                stack.extend(((*path, index), item) for index, item in enumerate(value))
            case float() if not math.isfinite(value):
                yield path, f"{value} is no number that can be used here", "write a finite number"
            case date() | time() if not dates(path):
                yield path, f"{kind_of(value)}, which JSON does not have", f'write it as text: "{value.isoformat()}"'
            case _:
                pass


# --- syntax errors ------------------------------------------------------------------------------


def _syntax(message: str, text: str, file: str) -> Problem:
    """The first syntax error in our words, which do not depend on the Python version."""
    match = _WHERE.match(message)
    what, line, column = (match[1], match[2], match[3]) if match else (message, None, None)
    rows = text.replace("\r\n", "\n").split("\n")
    number = int(line) if line else len(rows) - (rows[-1] == "" and len(rows) > 1)
    row = rows[number - 1] if number <= len(rows) else ""
    again = _repeated(what, text, number)
    if again is not None:
        path, at, first = again
        table = what.startswith("Cannot declare")
        words = "this table stands" if table else "this key stands"
        return Problem(
            Place(file=file, line=at),
            where_of(path, table=table),
            f"{words} twice; first at line {first}",
            "put everything under the first one" if table else "remove one of them",
        )
    said, hint = _words(what, row, int(column) if column else None)
    at_column = f" at column {column}" if column else ", at the end of the file" if not line else ""
    return Problem(Place(file=file, line=number), "", f"not TOML{at_column}: {said}", hint)


def _repeated(what: str, text: str, number: int) -> tuple[Path, int, int] | None:
    if not what.startswith(("Cannot", "Duplicate inline table key")):
        return None
    repeats = [item for item in scan(text).repeats if item[1] <= number]
    return repeats[0] if repeats else None


def _words(what: str, row: str, column: int | None) -> tuple[str, str]:
    name = _NAME_AT_START.match(row)
    if name is not None and _NOT_BARE.search(name[1]) and what.startswith(("Expected", "Invalid", "Found")):
        wanted = _quoted_header(row) if row.lstrip().startswith("[") else f'"{name[1]}" = …'
        if wanted and all(char.isprintable() for char in wanted):
            return f"the name {quoted(name[1])} holds characters that TOML wants quoted", f"quote the name: {wanted}"
    at = row[column - 1 :].strip() if column else ""
    if what == "Invalid value":
        if not at:
            return "a value is missing", "text stands in quotes, lists in brackets"
        if at.lower().startswith(("true", "false")):
            return "this is no value", "booleans are `true` and `false`, in small letters"
        if row.lstrip().startswith("[") and at.endswith("]"):
            return "a list further up has no closing bracket", "close it before the next table begins"
        if at[0].isalpha():
            return f"{quoted(at)} is no value", "text stands in quotes"
        return f"{quoted(at)} is no value", ""
    if what == "Expected newline or end of document after a statement":
        if re.match(r"[-:]\d\d", at) and re.search(r"\d{4}-\d\d|\d\d:\d\d", row):
            return "no such date or time", ""
        return f"{quoted(at)} is more than one value on this line" if at else "the line goes on", ""
    if what == "Expected '=' after a key in a key/value pair":
        return "a key without `=`", "write `key = value`"
    if what in ("Illegal character '\\n'", "Unterminated string") or what.startswith(("Expected '\"", "Expected \"'")):
        return "a string without its closing quote", "text over several lines stands in three quotes"
    if what.startswith(("Cannot overwrite", "Cannot mutate", "Cannot redefine", "Cannot declare", "Duplicate")):
        return "this gives a key that has been given before, or adds to a value that is complete", ""
    known = {
        "Invalid statement": "this is no `key = value`, no [table] and no comment",
        "Invalid initial character for a key part": "a key cannot begin like this",
        "Expected ']' at the end of a table declaration": "a table's header without its closing bracket",
        "Expected ']]' at the end of an array declaration": "a table's header without its closing brackets",
        "Unclosed array": "a list without its closing bracket, or without a comma between items",
        "Unclosed inline table": "a table in braces without its closing brace, or without a comma between keys",
        "Unescaped '\\' in a string": "a backslash that begins no escape",
        "Invalid hex value": "an escape without its hexadecimal digits",
        "Invalid date or datetime": "no such date or time",
    }
    if what == "Unescaped '\\' in a string":
        return known[what], "write it twice, or use single quotes: 'C:\\temp'"
    if what in known:
        return known[what], ""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in what[:1].lower() + what[1:]), ""


def _quoted_header(row: str) -> str:
    """`[s.process/late-exit]` with its parts quoted where they need it."""
    inner = row.split("#")[0].strip().strip("[]").strip()
    if not inner or any(char in inner for char in "\"'[]"):
        return ""
    brackets = ("[[", "]]") if row.lstrip().startswith("[[") else ("[", "]")
    return f"{brackets[0]}{table_of(tuple(part.strip() for part in inner.split('.')))}{brackets[1]}"
