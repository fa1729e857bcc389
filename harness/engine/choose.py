"""What a program in front of PATH becomes: the recording proxy, if it is given the server's own words, or the real one.

It is run as a script, for every start of an interpreter that might be the server: nothing but `os` and `sys` is loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["entry_of", "is_servers"]


def entry_of(words: Sequence[str], cwd: str) -> tuple[str, str] | None:
    """What an interpreter is to run: ("file", path), ("module", name) or ("word", word); None without any."""
    for index, word in enumerate(words):
        if word == "-m" and index + 1 < len(words):
            return "module", words[index + 1]
        if not word.startswith("-") and os.path.isfile(os.path.join(cwd, word)):
            return "file", os.path.realpath(os.path.join(cwd, word))
        if not word.startswith("-") and (index == 0 or not words[index - 1].startswith("-")):
            return "word", word
    return None


def is_servers(words: Sequence[str], cwd: str, command: Sequence[str], command_cwd: str) -> bool:
    """Whether an interpreter was given what the server's command gives it to run."""
    wanted = entry_of(command, command_cwd)
    return wanted is not None and entry_of(words, cwd) == wanted


def _main(words: list[str]) -> None:
    """Becomes the proxy or the real program.

    The words: folder, real program, how many words the proxy has, these, `--`, the server's, `--`, those given.
    """
    command_cwd, real, count, *rest = words
    proxy, rest = rest[: int(count)], rest[int(count) + 1 :]
    at = rest.index("--")
    command, given = rest[:at], rest[at + 1 :]
    if is_servers(given, os.getcwd(), command, command_cwd):
        os.execv(proxy[0], [*proxy, "--", real, *given])
    os.execv(real, [real, *given])


if __name__ == "__main__":
    _main(sys.argv[1:])
