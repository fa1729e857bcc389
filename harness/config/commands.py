"""`[suites] pytest` and `[suites] commands`: tests of somebody's own, which run with the stack up."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.toml import Document
from harness.config.values import escapes, fold, items, strings, table, text, texts, unknown_placeholders
from harness.model.plan import COMMAND_TIMEOUT_S, CommandSpec

__all__ = ["PYTEST", "argv_problems", "command_problems", "commands_of"]

PYTEST = "pytest"  # the id of the one that runs pytest, and of the suite that its tests are

_SHELL = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def argv_problems(document: Document, path: Path, item: Any) -> Iterator[Problem]:
    """What is wrong with a command that is an argument list, or a string that is split like a shell's words."""
    if not isinstance(item, str):
        if isinstance(item, list) and item and isinstance(item[0], str) and not item[0].strip():
            yield document.problem((*path, 0), "the program has no name")
        return
    try:
        words = shlex.split(item)
    except ValueError as error:
        yield document.problem(path, f"this cannot be split into words: {str(error).lower()}")
        return
    if item and not words:
        yield document.problem(path, "must not be empty")
    shell = next((word for word in words if word in _SHELL or word.endswith(";")), None)
    if shell is not None:
        hint = "there is no shell: write one item per command"
        yield document.problem(path, f"{quoted(shell)} is a word of the shell", hint)
    elif words and _ASSIGNMENT.match(words[0]):
        hint = 'there is no shell: write ["env", "NAME=value", "command"] if a variable is needed'
        yield document.problem(path, f"{quoted(words[0])} is an assignment of the shell", hint)


def command_problems(
    document: Document,
    root: FilePath,
    *,
    profiles: Sequence[str],
    judge: Callable[[str], tuple[str, str] | None],
) -> Iterator[Problem]:
    """What is wrong with the tests of somebody's own, besides what the schema tells.

    Args:
        root: The folder of harness.toml.
        profiles: Names of the project's profiles.
        judge: Message and hint for a placeholder that has no value in a command.
    """
    suites = table(document.data.get("suites"))
    for index, name in enumerate(texts(suites.get("pytest"))):
        yield from _path_problems(document, ("suites", "pytest", index), name, root)
    seen: dict[str, tuple[str, int | None]] = {}
    if "pytest" in suites:
        seen[PYTEST] = (PYTEST, document.place(("suites", "pytest")).line)
    for path, string in strings(items(suites.get("commands")), ("suites", "commands")):
        if "\0" in string:
            yield document.problem(path, "a NUL character, which no program can be given")
    for index, item in enumerate(items(suites.get("commands"))):
        here: Path = ("suites", "commands", index)
        long = isinstance(item, dict)
        yield from argv_problems(document, (*here, "run") if long else here, item.get("run") if long else item)
        yield from unknown_placeholders(document, here, item, judge)
        if long:
            yield from _table_problems(document, here, item, root, profiles)
        name = _id(item)
        if not name:
            continue
        if fold(name) in seen:
            other, line = seen[fold(name)]
            where = (*here, "id") if long and "id" in item else here
            hint = 'give one of them an id: { run = […], id = "…" }'
            yield document.problem(where, f"the command {quoted(other)} at line {line} has this name already", hint)
        seen.setdefault(fold(name), (name, document.place(here).line))


def _path_problems(document: Document, path: Path, name: str, root: FilePath) -> Iterator[Problem]:
    file = name.partition("::")[0]
    if not name:
        return
    if name.startswith("-"):
        hint = 'options stand in the configuration of pytest; or write a command: ["pytest", …]'
        yield document.problem(path, f"{quoted(name)} is an option, not a path", hint)
    elif escapes(file):
        yield document.problem(path, f"{quoted(name)} leads out of the repository", "write a relative path")
    elif not (root / file).exists():
        yield document.problem(path, f"there is nothing at {quoted(file)}", "the path is relative to this file")


def _table_problems(
    document: Document, path: Path, item: dict[str, Any], root: FilePath, profiles: Sequence[str]
) -> Iterator[Problem]:
    cwd = text(item.get("cwd"))
    if cwd and (escapes(cwd) or "${" in cwd):
        yield document.problem((*path, "cwd"), f"{quoted(cwd)} is no folder inside the repository")
    elif cwd and not (root / cwd).is_dir():
        yield document.problem((*path, "cwd"), f"there is no folder {quoted(cwd)}", "it is relative to this file")
    for index, name in enumerate(items(item.get("profiles"))):
        if isinstance(name, str) and name and name not in profiles:
            hint = did_you_mean(name, profiles)
            yield document.problem((*path, "profiles", index), f"there is no profile {quoted(name)}", hint)
    for name in table(item.get("env")):
        if name.startswith("ROLLCALL_"):
            hint = "the variables that begin so are set by mcp-rollcall"
            yield document.problem((*path, "env", name), f"{quoted(name)} is no variable to set", hint)


def _words(item: Any) -> list[str]:
    if isinstance(item, dict):
        item = item.get("run")
    try:
        return shlex.split(item) if isinstance(item, str) else texts(item)
    except ValueError:
        return []


def _id(item: Any) -> str:
    return (text(item.get("id")) if isinstance(item, dict) else None) or " ".join(_words(item))


def commands_of(document: Document) -> tuple[CommandSpec, ...]:
    """The tests of somebody's own in a document without problems: pytest first, then the commands in order."""
    suites = table(document.data.get("suites"))
    out = []
    if "pytest" in suites:
        place = document.place(("suites", "pytest"))
        out.append(CommandSpec(id=PYTEST, kind="pytest", argv=tuple(suites["pytest"]), place=place))
    for index, item in enumerate(suites.get("commands", ())):
        more = item if isinstance(item, dict) else {}
        spec = CommandSpec(
            id=_id(item),
            kind="command",
            argv=tuple(_words(item)),
            place=document.place(("suites", "commands", index)),
            cwd=more.get("cwd", "."),
            profiles=tuple(more["profiles"]) if "profiles" in more else None,
            timeout_s=float(more.get("timeout_s", COMMAND_TIMEOUT_S)),
            env=dict(more.get("env", {})),
        )
        out.append(spec)
    return tuple(out)
