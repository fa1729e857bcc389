"""`.env` files that a server may read by itself: a way round the environment that we made from nothing.

Many servers load the nearest `.env` above their code or their working folder, some let it win over what was declared,
and some take `.env.local` and kin beside it. Such a file could point a server at something that matters. So the guard
judges these files too, in every way in which they are read: `KEY=value` and `KEY: value`, quoted or not, with values of
many lines or of one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.engine.guard import faulty_variables

__all__ = [
    "DOTENV_LIMIT_BYTES",
    "DOTENV_LIMIT_VALUES",
    "dotenv_files",
    "foreign_targets",
    "named_dotenv_files",
    "read_dotenv",
]

DOTENV_LIMIT_BYTES = 1024 * 1024
DOTENV_LIMIT_VALUES = 5_000
_TEMPLATES = {"default", "defaults", "dist", "example", "sample", "schema", "template", "tmpl", "tpl"}  # nobody loads
_KEY = r"""^[ \t]*(?:export[ \t]+)?["'`]?([A-Za-z_][\w.\-]*)["'`]?[ \t]*(?:=|:(?=[ \t"'`]|$))[ \t]*"""
_MANY_LINES = re.compile(
    _KEY + r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|`([^`]*)`|([^#\r\n]*))""", re.MULTILINE | re.DOTALL
)
_ONE_LINE = re.compile(
    _KEY + r"""(?:"((?:[^"\\\r\n]|\\.)*)"|'([^'\r\n]*)'|`([^`\r\n]*)`|([^\r\n]*?)(?:[ \t]#[^\r\n]*)?$)""", re.MULTILINE
)
_FLAG = re.compile(r"--?(?:env[-_]?file(?:-if-exists)?|dot-?env(?:-(?:file|path))?)", re.IGNORECASE)


def dotenv_files(folders: Iterable[Path]) -> tuple[Path, ...]:
    """The `.env` and `.env.*` files in the folders and all above them, nearest first; no templates of such."""
    seen: dict[Path, None] = {}
    for folder in folders:
        for place in (folder, *folder.parents):
            for path in (place / ".env", *_kin(place)):
                if path not in seen and _is_file(path):
                    seen[path] = None
    return tuple(seen)


def _kin(place: Path) -> list[Path]:
    try:
        found = list(place.glob(".env.*"))
    except OSError:
        return []
    return sorted(path for path in found if _TEMPLATES.isdisjoint(path.name.lower().split(".")))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def named_dotenv_files(argv: Sequence[str], cwd: Path) -> tuple[Path, ...]:
    """The files that `--env-file=PATH` and its like name."""
    found: list[Path] = []
    for index, argument in enumerate(argv):
        flag, equals, name = argument.partition("=")
        if not _FLAG.fullmatch(flag):
            continue
        if not equals:
            name = argv[index + 1] if index + 1 < len(argv) else ""
        if name and _is_file(cwd / name):
            found.append(cwd / name)
    return tuple(dict.fromkeys(found))


def read_dotenv(path: Path) -> Mapping[str, str]:
    """What a `.env` file sets; nothing where it cannot be read or is no such file."""
    return _values(_text(path), _MANY_LINES)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(DOTENV_LIMIT_BYTES)
    except OSError:
        return ""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _values(text: str, pattern: re.Pattern[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for match in pattern.finditer(text):
        name, *quoted, bare = match.groups()
        out[name] = next((value for value in quoted if value is not None), (bare or "").strip())
    return out


def foreign_targets(
    folders: Iterable[Path],
    declared: Mapping[str, str],
    *,
    allowed: Sequence[tuple[str, int]],
    named: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Variables that a `.env` file would bring to the server and that point outside of its stack, a sentence each.

    Values are not told: they are somebody's secrets. What harness.toml declares is judged as well: a server may let the
    file win.

    Args:
        folders: Where the server's code and its working folder are.
        declared: The server's declared environment.
        allowed: Every (host, port) that the stack handed out.
        named: Further files of that kind.
    """
    folders = tuple(folders)
    before = faulty_variables(declared, allowed=allowed, folders=folders)
    out: dict[str, None] = {}
    for path in (*dotenv_files(folders), *named):
        for sentence in _judged(path, declared, before, allowed, folders):
            out[f"{path} {sentence}"] = None
    return tuple(out)


def _judged(
    path: Path,
    declared: Mapping[str, str],
    before: Mapping[str, str],
    allowed: Sequence[tuple[str, int]],
    folders: Sequence[Path],
) -> Iterator[str]:
    try:
        too_large = path.stat().st_size > DOTENV_LIMIT_BYTES
    except OSError:
        return
    if too_large:
        yield f"is larger than {DOTENV_LIMIT_BYTES // 1024} KiB; move it, or say reads_dotenv = false"
        return
    text = _text(path)
    for pattern in (_MANY_LINES, _ONE_LINE):
        values = _values(text, pattern)
        if len(values) > DOTENV_LIMIT_VALUES:
            yield f"sets more than {DOTENV_LIMIT_VALUES} variables; move it, or say reads_dotenv = false"
            return
        # alone, where the file's own pair counts, and over or under what was declared
        for together in (values, {**declared, **values}, {**values, **declared}):
            faults = faulty_variables(together, allowed=allowed, folders=folders)
            for name in faults:
                if name in before and together[name] == declared[name]:
                    continue  # the guard has judged it with more in hand: folders, services, the server's own port
                if together is not values or not _is_completed(name, values, declared, allowed, folders):
                    yield _sentence(name, values, declared)


def _is_completed(
    name: str,
    values: Mapping[str, str],
    declared: Mapping[str, str],
    allowed: Sequence[tuple[str, int]],
    folders: Sequence[Path],
) -> bool:
    """Whether a name that the file leaves without its pair is good with what was declared."""
    return name not in faulty_variables({**declared, **values}, allowed=allowed, folders=folders)


def _sentence(name: str, values: Mapping[str, str], declared: Mapping[str, str]) -> str:
    if name not in values:
        return f"changes where {name} leads, to an address that is not of this run's stack"
    if name in declared:
        return (
            f"sets {name} to an address that is not of this run's stack; harness.toml declares it, "
            "but a server may let the file win: move the file, or say reads_dotenv = false if it reads none"
        )
    return f"sets {name} to an address that is not of this run's stack"
