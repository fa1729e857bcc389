"""rollout.toml -> RolloutSpec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Any

from harness.config import exemptions as exemption_files
from harness.config.problems import ConfigProblems, Path, Problem, quoted
from harness.config.toml import Document, Files
from harness.config.validate import check, other_version
from harness.config.values import escapes, fold, items, strings, table, text, texts
from harness.errors import ConfigError
from harness.model.rollout import REPOSITORY_TIMEOUT_S, RepositorySpec, RolloutSpec

__all__ = ["FILE", "default_name", "read_rollout"]

FILE = "rollout.toml"

_USER = re.compile(r"(://)[^/@\s]+@")  # no user and password in a report
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\]+:(?![\\/]{2})")  # a URL, or host:path as ssh has it


def read_rollout(path: FilePath) -> RolloutSpec:
    """The list in a file, or in the rollout.toml of a folder. Repositories need not be there.

    Raises:
        ConfigProblems: Everything that is wrong with it.
    """
    file = path / FILE if path.is_dir() else path
    base = file.absolute().parent
    files = Files(base)
    if not file.exists():
        what = f"{FILE} in this folder" if file.name == FILE and file.parent == FilePath.cwd() else f"file {path}"
        raise ConfigError(f"there is no {what}", hint="write one, or name it with --list FILE")
    document = files.read(file)
    if document is not None:
        spec = _read(files, document, base)
        if spec is not None and not files.problems:
            return spec
    raise ConfigProblems(files.problems)


def _read(files: Files, document: Document, base: FilePath) -> RolloutSpec | None:
    other = other_version(document, "rollout")
    if other is not None:
        files.add(other)
        return None
    files.add(*check(document, "rollout"))
    for path, string in strings(document.data, ()):
        if "\0" in string:
            files.add(document.problem(path, "a NUL character, which no file and no program can be given"))
    defaults = table(document.data.get("defaults"))
    _kept(files, document, ("defaults", "harness"), text(defaults.get("harness")), base)
    central = _central(files, document, base)
    out = []
    names: dict[str, tuple[str, int]] = {}
    for index, item in enumerate(items(document.data.get("repository"))):
        if not isinstance(item, dict):
            continue
        path = ("repository", index)
        files.add(*_problems(document, path, item))
        name = text(item.get("name")) or default_name(item)
        if name and fold(name) in names:
            other_name, first = names[fold(name)]
            line = document.place(("repository", first)).line
            hint = 'give one of them another name: name = "…"'
            words = "this name already" if other_name == name else "a name already that differs in case only"
            named = "name" in item
            said = f"the repository {quoted(other_name)} of line {line} has {words}"
            files.add(document.problem((*path, "name") if named else path, said, hint, table=not named))
        names.setdefault(fold(name), (name, index))
        kept = _kept(files, document, (*path, "harness"), text(item.get("harness")), base)
        if "harness" not in item:
            kept = _file(base, text(defaults.get("harness")))
        out.append((path, name, item, kept))
    if files.problems:
        return None
    return RolloutSpec(
        base=base,
        place=document.place(),
        repositories=tuple(_build(document, path, name, item, defaults, base, kept) for path, name, item, kept in out),
        exemptions=central,
        jobs=document.data.get("jobs"),
    )


def _problems(document: Document, path: Path, item: Mapping[str, Any]) -> Iterator[Problem]:
    subdir = text(item.get("subdir"))
    if subdir is not None and escapes(subdir):
        yield document.problem((*path, "subdir"), f"{quoted(subdir)} is no folder inside the repository")
    git = text(item.get("git"))
    if git is not None and git.startswith("-"):
        hint = f"write ./{git} for a folder" if not _REMOTE.match(git) else ""
        yield document.problem((*path, "git"), f"{quoted(git)} begins with a dash, as options of git do", hint)
    if git is not None and re.match(r"[A-Za-z0-9]+::", git):
        hint = "write the URL of a repository, or a path"
        yield document.problem((*path, "git"), f"{quoted(git)} asks git to start a program", hint)
    ref = text(item.get("ref"))
    if ref is not None and re.search(r"[\s\x00-\x1f\x7f~^:?*\[\\]|\.\.|@\{|/\Z|\.lock\Z", ref):
        yield document.problem((*path, "ref"), f"{quoted(ref)} is no name of a branch, a tag or a commit")


def _kept(files: Files, document: Document, path: Path, named: str | None, base: FilePath) -> FilePath | None:
    if not named or "\0" in named:
        return None
    if not (base / named).is_file():
        files.add(document.problem(path, f"there is no file {quoted(named)}", "it is relative to this file"))
        return None
    return _file(base, named)


def _file(base: FilePath, named: str | None) -> FilePath | None:
    return base / named if named else None


def _central(files: Files, document: Document, base: FilePath) -> FilePath | None:
    named = text(document.data.get("exemptions"))
    if named:
        return _kept(files, document, ("exemptions",), named, base)
    beside = base / exemption_files.FILE
    return beside if beside.is_file() else None


def default_name(item: Mapping[str, Any]) -> str:
    """The name of an entry that gives none: the last part of its path or URL, with the subdir."""
    where = text(item.get("path")) or text(item.get("git")) or ""
    parts = [part for part in re.split(r"[/:\\]", where) if part not in ("", ".", "..")]
    stem = parts[-1].removesuffix(".git") if parts else ""
    subdir = PurePosixPath(text(item.get("subdir")) or ".").as_posix()
    name = "/".join(part for part in (stem, subdir if subdir != "." else "") if part) or "."
    return re.sub(r"[\s,\x00-\x1f\x7f]", "-", name)


def _build(
    document: Document,
    path: Path,
    name: str,
    item: Mapping[str, Any],
    defaults: Mapping[str, Any],
    base: FilePath,
    kept: FilePath | None,
) -> RepositorySpec:
    git = item.get("git", "")
    ref = item.get("ref", defaults.get("ref", "")) if git else ""
    subdir = PurePosixPath(item.get("subdir", ".")).as_posix()
    shown = _USER.sub(r"\1…@", git) or item["path"]
    source = f"{shown}@{ref}" if ref else shown
    return RepositorySpec(
        name=name,
        place=document.place(path),
        path=base / item["path"] if not git else None,
        git=git if not git or _REMOTE.match(git) else str((base / git).absolute()),
        ref=ref,
        subdir=subdir,
        submodules=item.get("submodules", defaults.get("submodules", True)),
        harness=kept,
        tags=tuple(dict.fromkeys([*texts(defaults.get("tags")), *texts(item.get("tags"))])),
        timeout_s=float(item.get("timeout_s", defaults.get("timeout_s", REPOSITORY_TIMEOUT_S))),
        source=source if subdir == "." else f"{source} {subdir}",
    )
