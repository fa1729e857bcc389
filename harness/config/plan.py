"""What the files say and what the user selected -> the plan: ordered runs, grouped in cells."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.load import Loaded
from harness.config.problems import did_you_mean, quoted
from harness.errors import ConfigError, NothingSelected
from harness.model.choices import cell_label, cell_names, choices_of
from harness.model.plan import (
    ERAS,
    BackendSpec,
    CaseSpec,
    Cell,
    CommandSpec,
    Era,
    Place,
    Plan,
    ProfileSpec,
    ProjectSpec,
    RoleChoice,
    Run,
    RunKey,
    Runtime,
)

__all__ = ["Selection", "make_plan", "matcher"]

FINGERPRINT_CHARACTERS = 16
MAX_NESTING = 50
_CACHES = {".git", ".mypy_cache", ".pytest_cache", ".rollcall", ".ruff_cache", ".venv", "__pycache__", "node_modules"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the user asked for; an empty axis is all of it.

    Attributes:
        servers: Names of servers.
        backends: Labels of cells or of choices ("redis@8"), or names of backends.
        eras: "modern", "handshake".
        profiles: Names of profiles.
        cases: An expression over "server/suite/case", and "server/command" of commands: substrings, `and`, `or`, `not`,
            parentheses.
    """

    servers: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    eras: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    cases: str = ""


def make_plan(
    loaded: Loaded,
    *,
    selection: Selection,
    runtimes: Mapping[str, Runtime],
    notes: Sequence[str] = (),
    idle: bool = False,
) -> Plan:
    """The plan of what was selected.

    Args:
        runtimes: Name of each server with backends -> how these are stood up.
        notes: For the first line of the report.
        idle: Somebody else makes the calls: there need not be any suites.
    Raises:
        ConfigError: The selection names something that is not there, or its expression cannot be read.
        NothingSelected: There is nothing to run, or the selection left nothing.
    """
    projects = loaded.projects
    _refuse_nothing(projects, idle=idle)
    choices = {
        project.server.name: choices_of(project.roles, project.backends, runtimes.get(project.server.name, "docker"))
        for project in projects
    }
    _refuse_unknown(projects, choices, selection)
    wanted = matcher(selection.cases)
    contents = functools.cache(_folder_contents)
    cells: list[Cell] = []
    left_out = False
    for project in projects:
        server = project.server.name
        compared: set[Era] = set()
        compares = project.checks.level_of("client") != "off"
        for roles in choices[server]:
            label = cell_label(roles)
            runs: list[Run] = []
            for era, profile in itertools.product(project.server.eras or ERAS, project.profiles):
                cases = _cases(project, profile, roles)
                commands = _commands(project, profile)
                selected = tuple(name for name in map(_case_name, cases) if wanted(f"{server}/{name}"))
                asked = tuple(item for item in commands if wanted(f"{server}/{item.id}"))
                some, whole = len(selected) + len(asked), len(cases) + len(commands)
                chosen = (
                    (not selection.servers or server in selection.servers)
                    and (not selection.backends or any(name in cell_names(roles) for name in selection.backends))
                    and (not selection.eras or era in selection.eras)
                    and (not selection.profiles or profile.name in selection.profiles)
                    and (bool(some) or not whole)
                    and (bool(whole) or not selection.cases.strip())
                )
                named = not selection.servers or server in selection.servers
                left_out = left_out or (named and (not chosen or some < whole))
                if not chosen:
                    continue
                key = RunKey(server=server, backend=label, era=era, profile=profile.name)
                runtime: Runtime | None = runtimes.get(server, "docker") if roles else None
                client = compares and era not in compared and some == whole  # -k asks for cases alone
                if client:
                    compared.add(era)
                run = Run(
                    key=key,
                    roles=roles,
                    runtime=runtime,
                    profile=profile,
                    eras_probed=project.server.eras is None,
                    cases=cases,
                    selected=selected,
                    fingerprint=_fingerprint(project, key, profile, roles, cases, runtime, contents),
                    client=client,
                    commands=asked,
                )
                runs.append(run)
            if runs:
                cells.append(Cell(server=server, backend=label, roles=roles, runs=tuple(runs)))
    if not any(idle or run.selected or run.commands for cell in cells for run in cell.runs):
        said = "the selection leaves no case to run" if cells else "the selection leaves nothing to run"
        raise NothingSelected(said, hint="the options each hold for one axis, and all of them must hold")
    used = {cell.server for cell in cells}
    known = (*(project.server.name for project in projects), *loaded.neighbours)
    return Plan(
        projects=tuple(project for project in projects if project.server.name in used),
        cells=tuple(cells),
        # the entries of servers that are known and not of this run are somebody else's matter
        exemptions=tuple(
            entry
            for entry in loaded.exemptions
            if entry.server in used or not (entry.server in known or loaded.nameless)
        ),
        servers=known,
        partial=left_out,
        notes=tuple(notes),
    )


def _refuse_nothing(projects: Sequence[ProjectSpec], *, idle: bool) -> None:
    if not projects:
        raise NothingSelected("nothing to run: there is no server")
    if idle:
        return
    if any(suite.cases for project in projects for suite in project.suites):
        return
    if any(project.commands for project in projects):
        return
    files = ", ".join(project.place.file for project in projects)
    if any(project.suites for project in projects):
        raise NothingSelected(f"nothing to run: there is no [[case]] in the suites of {files}")
    raise NothingSelected(
        f"nothing to run: there are no suites in {files}", hint='name them: [suites] files = ["suites/*.toml"]'
    )


# --- cases --------------------------------------------------------------------------------------


def _cases(project: ProjectSpec, profile: ProfileSpec, roles: Sequence[RoleChoice]) -> tuple[tuple[str, CaseSpec], ...]:
    """The cases that run with a choice of backends in a profile.

    That is in the profiles that a case names, without any in the first one, and with the backends that it names,
    without any with each.
    """
    default = project.profiles[0].name
    names = frozenset(cell_names(roles))
    out = []
    for suite in project.suites:
        for case in suite.cases:
            named = case.profiles if case.profiles is not None else suite.profiles
            if case.backends is not None and names.isdisjoint(case.backends):
                continue
            if profile.name in (named if named is not None else (default,)):
                out.append((suite.id, case))
    return tuple(out)


def _commands(project: ProjectSpec, profile: ProfileSpec) -> tuple[CommandSpec, ...]:
    """The commands that run in a profile: pytest in each, another in those that it names, or in the first one."""
    default = project.profiles[0].name
    return tuple(
        item
        for item in project.commands
        if item.kind == "pytest" or profile.name in (item.profiles if item.profiles is not None else (default,))
    )


def _case_name(item: tuple[str, CaseSpec]) -> str:
    return f"{item[0]}/{item[1].id}"


# --- selection ----------------------------------------------------------------------------------


def _refuse_unknown(
    projects: Sequence[ProjectSpec],
    choices: Mapping[str, Sequence[tuple[RoleChoice, ...]]],
    selection: Selection,
) -> None:
    backends = {name for cells in choices.values() for roles in cells for name in cell_names(roles)}
    axes: tuple[tuple[str, tuple[str, ...], Iterable[str]], ...] = (
        ("server", selection.servers, [project.server.name for project in projects]),
        ("backend", selection.backends, backends),
        ("era", selection.eras, ERAS),
        ("profile", selection.profiles, [profile.name for project in projects for profile in project.profiles]),
    )
    for what, asked, known in axes:
        for name in asked:
            if name not in known:
                raise ConfigError(f"there is no {what} {quoted(name)}", hint=did_you_mean(name, known))


_TOKEN = re.compile(r"\s*(?:([()])|([^\s()]+))")


def matcher(expression: str) -> Callable[[str], bool]:
    """A predicate over "server/suite/case" from an expression such as `redis and not (slow or ttl)`.

    Words are substrings, upper or lower case does not matter. The empty expression holds for everything.

    Raises:
        ConfigError: The expression cannot be read; the message says where.
    """
    tokens = [match[1] or match[2] for match in _TOKEN.finditer(expression)]
    if not tokens:
        return lambda _name: True
    reader = _Expression(expression.strip(), tokens)
    return reader.whole()


class _Expression:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def whole(self) -> Callable[[str], bool]:
        out = self.either()
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            before = self.tokens[self.at - 1]
            if token == ")":
                raise self.wrong("')' without '('")
            raise self.wrong(f"expected 'and' or 'or' between {quoted(before)} and {quoted(token)}")
        return out

    def either(self) -> Callable[[str], bool]:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda name: any(part(name) for part in parts)

    def both(self) -> Callable[[str], bool]:
        parts = [self.one()]
        while self.take("and"):
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else lambda name: all(part(name) for part in parts)

    def one(self) -> Callable[[str], bool]:
        negated = False
        while self.take("not"):
            negated = not negated
        inner = self.group() if self.take("(") else self.word()
        return (lambda name: not inner(name)) if negated else inner

    def group(self) -> Callable[[str], bool]:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.wrong(f"more than {MAX_NESTING} parentheses in one another")
        inner = self.either()
        if not self.take(")"):
            if self.at < len(self.tokens):
                before, token = self.tokens[self.at - 1], self.tokens[self.at]
                raise self.wrong(f"expected 'and', 'or' or ')' between {quoted(before)} and {quoted(token)}")
            raise self.wrong("'(' without ')'")
        self.depth -= 1
        return inner

    def word(self) -> Callable[[str], bool]:
        if self.at >= len(self.tokens):
            raise self.wrong(f"a word is missing after {quoted(self.tokens[-1])}")
        token = self.tokens[self.at]
        if token in ("and", "or", ")"):
            raise self.wrong(f"expected a word, got {quoted(token)}")
        self.at += 1
        part = token.casefold()
        return lambda name: part in name.casefold()

    def take(self, token: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def wrong(self, said: str) -> ConfigError:
        hint = "words are parts of server/suite/case, joined by 'and', 'or', 'not' and parentheses"
        return ConfigError(f"-k {quoted(self.text)}: {said}", hint=hint)


# --- fingerprints -------------------------------------------------------------------------------


def _fingerprint(
    project: ProjectSpec,
    key: RunKey,
    profile: ProfileSpec,
    roles: Sequence[RoleChoice],
    cases: Sequence[tuple[str, CaseSpec]],
    runtime: Runtime | None,
    contents: Callable[[Path], Mapping[str, str]],
) -> str:
    """Of everything that the run's evidence depends on, but for the built files: not of checks, exemptions, places."""
    backends = {choice.backend: project.backends[choice.backend] for choice in roles}
    facts: dict[str, Any] = {
        "server": _plain(project.server),
        "era": key.era,
        "profile": _plain(profile),
        "roles": [_plain(choice) for choice in roles],
        "backends": {
            name: {"spec": _backend(backend), "files": _less_spec(contents(backend.folder))}
            for name, backend in backends.items()
        },
        "cases": [[suite, _plain(case)] for suite, case in cases],
        "runtime": runtime,
    }
    commands = _commands(project, profile)
    if commands:
        facts["commands"] = [_plain(item) for item in commands]
        paths = [name.partition("::")[0] for item in commands if item.kind == "pytest" for name in item.argv]
        facts["tests"] = {name: _path_contents(project.root / name, contents) for name in paths}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_CHARACTERS]


def _backend(backend: BackendSpec) -> Any:
    plain = _plain(backend)
    del plain["summary"]
    for part in (plain, plain["process"]):
        if part is not None and part["reset"] is None:
            del part["reset"]
    return plain


def _plain(value: Any) -> Any:
    """A spec as JSON, without places and paths."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _plain(item) for name, item in pairs if not isinstance(item, Place | Path)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _path_contents(path: Path, contents: Callable[[Path], Mapping[str, str]]) -> Mapping[str, str]:
    """The same for a file, or a folder."""
    if path.is_dir():
        return contents(path)
    try:
        return {"": hashlib.sha256(path.read_bytes()).hexdigest()} if path.is_file() else {}
    except OSError:
        return {}


def _less_spec(files: Mapping[str, str]) -> Mapping[str, str]:
    """Without backend.toml, whose spec is in the fingerprint; its comments need not be."""
    return {name: digest for name, digest in files.items() if name != "backend.toml"}


def _folder_contents(folder: Path) -> Mapping[str, str]:
    """Relative name -> hash of every file in a folder, but for caches."""
    out = {}
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _CACHES)
        for name in names:
            path = Path(here, name)
            relative = path.relative_to(folder).as_posix()
            try:
                link = os.readlink(path).encode() if path.is_symlink() else None
                data = link if link is not None else path.read_bytes() if path.is_file() else b""
            except OSError:
                data = b""
            out[relative] = hashlib.sha256(data).hexdigest()
    return out
