"""`.env` files that a server may read by itself: a way round the environment that we made from nothing.

Many servers load the nearest `.env` above their code or their working folder. What such a file sets and harness.toml
does not would reach the server, and could point it at something that matters. So the guard judges these files too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.engine.guard import check_targets

__all__ = ["DOTENV_LIMIT_BYTES", "dotenv_files", "foreign_targets", "read_dotenv"]

DOTENV_LIMIT_BYTES = 1024 * 1024
_LINE = re.compile(
    r"""^\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^#\r\n]*))""", re.MULTILINE
)


def dotenv_files(folders: Iterable[Path]) -> tuple[Path, ...]:
    """The `.env` files in the folders and all above them, nearest first."""
    seen: dict[Path, None] = {}
    for folder in folders:
        for place in (folder, *folder.parents):
            path = place / ".env"
            if path not in seen and path.is_file():
                seen[path] = None
    return tuple(seen)


def read_dotenv(path: Path) -> Mapping[str, str]:
    """What a `.env` file sets; nothing where it cannot be read or is no such file."""
    try:
        text = path.read_bytes()[:DOTENV_LIMIT_BYTES].decode("utf-8", "replace")
    except OSError:
        return {}
    out: dict[str, str] = {}
    for match in _LINE.finditer(text):
        double, single, bare = match[2], match[3], match[4]
        out[match[1]] = double if double is not None else single if single is not None else bare.strip()
    return out


def foreign_targets(
    folders: Iterable[Path], declared: Mapping[str, str], *, allowed: Sequence[tuple[str, int]]
) -> tuple[str, ...]:
    """Variables that a `.env` file would bring to the server and that point outside of its stack, a sentence each.

    Values are not told: they are somebody's secrets. What harness.toml declares wins over a file, so it is no matter.

    Args:
        folders: Where the server's code and its working folder are.
        declared: The server's declared environment.
        allowed: Every (host, port) that the stack handed out.
    """
    out = []
    for path in dotenv_files(folders):
        values = {name: value for name, value in read_dotenv(path).items() if name not in declared}
        for name, value in values.items():
            ports = {
                other: text for other, text in values.items() if other.rpartition("_")[0] == name.rpartition("_")[0]
            }
            pair = {name: value, **{key: text for key, text in ports.items() if key.endswith("PORT")}}
            if check_targets(pair, (), allowed=allowed, own_port=None, names=(), folders=folders):
                out.append(f"{path} sets {name} to an address that is not of this run's stack")
    return tuple(dict.fromkeys(out))
