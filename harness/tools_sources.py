"""Where tool lists come from: a file, a folder, a URL or a command -> catalogues, all pages, from raw frames.

The door behind the `tools` commands; nothing here sends `tools/call`, and nothing here prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError, NothingSelected
from harness.model.catalogue import Catalogue

if TYPE_CHECKING:
    from harness.findings.remark import Remark
    from harness.findings.toolfile import ToolFile

__all__ = ["FILE_LIMIT_BYTES", "STDIN", "How", "Read", "read_catalogues"]

FILE_LIMIT_BYTES = 256 * 1024 * 1024
STDIN = "-"
PROJECT_FILE = "harness.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How sources are read.

    Attributes:
        base: The folder that sources are relative to, and that their names in messages are.
        stdin: What `-` reads; the door hands it in.
    """

    base: Path
    stdin: Callable[[], bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One catalogue that was read, and where.

    Attributes:
        remarks: What reading itself showed, such as a key that stands twice.
        file: The file that holds the tools, as messages call it; None where it is not one that people write.
        lines: Line of each tool in it by the tool's index.
    """

    catalogue: Catalogue
    remarks: tuple[Remark, ...] = ()
    file: str | None = None
    lines: Mapping[int, int] = field(default_factory=dict)


def read_catalogues(source: str | Sequence[str], how: How) -> list[Read]:
    """Every catalogue of one source.

    Args:
        source: A file, a folder, `-` or a URL; or, as a list of words, the command of a server.
    Raises:
        ConfigError: It is not there, or no list of tools.
        NothingSelected: A folder in which there is none.
        ServerError: A server that could not be started or reached, or gave no list.
    """
    if not isinstance(source, str):
        raise ConfigError("a command cannot be listed yet")
    if source == STDIN:
        data = how.stdin() if how.stdin is not None else b""
        return [_of_file(_tool_file(data, "standard input", log=False), None)]
    if source.lower().startswith(("http://", "https://")):
        raise ConfigError("a URL cannot be listed yet")
    path = how.base / source
    name = _shown(path, how.base)
    if path.is_dir():
        return _folder(path, name, how)
    return [_file(path, name)]


# --- files ----------------------------------------------------------------------------------------


def _file(path: Path, name: str) -> Read:
    return _of_file(_tool_file(_bytes_of(path, name), name, log=path.suffix == ".jsonl"), name)


def _folder(path: Path, name: str, how: How) -> list[Read]:
    files = sorted(path.glob("*.json"))
    if not files:
        raise NothingSelected(
            f"{name} holds no {PROJECT_FILE}, no evidence and no *.json with a list of tools",
            hint="name a file, a project, an evidence folder, a URL, or a server's command after --",
        )
    return [_file(file, _shown(file, how.base)) for file in files]


def _tool_file(data: bytes, name: str, *, log: bool) -> ToolFile:
    from harness.findings.toolfile import read_tool_file, read_tool_log

    return read_tool_log(data, name=name) if log else read_tool_file(data, name=name)


def _of_file(found: ToolFile, name: str | None) -> Read:
    return Read(catalogue=found.catalogue, remarks=found.remarks, file=name, lines=found.lines)


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > FILE_LIMIT_BYTES:
            raise ConfigError(f"{name} has {size:,} bytes; more than {FILE_LIMIT_BYTES:,} are not read")
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}",
            hint="a source is a file, a folder, a URL, - for standard input, or a command after --",
        ) from None
    if len(data) > FILE_LIMIT_BYTES:
        raise ConfigError(f"{name} has no end: more than {FILE_LIMIT_BYTES:,} bytes are not read")
    return data


def _shown(path: Path, base: Path) -> str:
    """A path as messages call it: relative to where the command was started, with slashes."""
    try:
        return Path(os.path.relpath(path, base)).as_posix()
    except ValueError:  # another drive
        return path.name
