"""Files -> what they say, or every problem of every file at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import exemptions as exemption_files
from harness.config import project as project_files
from harness.config.backend import Shelf, read_backend
from harness.config.exemptions import read_entries
from harness.config.problems import ConfigProblems, Problem
from harness.config.project import Reading, read_project
from harness.config.toml import Files, peek
from harness.config.values import fold, items
from harness.errors import HarnessError, NothingSelected
from harness.model.plan import BackendSpec, ExemptionSpec, Place, ProjectSpec

__all__ = ["Loaded", "load", "load_backend", "load_healthy", "name_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the files say.

    Attributes:
        projects: In the order in which they were asked for.
        exemptions: Entries of all exemptions files, well formed or not.
        exemption_files: Names of these files, as messages call them.
        neighbours: Servers that a rollout.toml beside such a file lists, but for those of `projects`: the file
            speaks of them too.
        broken: Names of the servers whose files have problems, where the others are taken all the same.
        nameless: Whether the name of such a server is not known: its file cannot be read, or the list beside the
            exemptions has it checked out from elsewhere.
        misplaced: Entries that count for nothing: a file of some projects speaks there of another's server.
    """

    projects: tuple[ProjectSpec, ...]
    exemptions: tuple[ExemptionSpec, ...]
    exemption_files: tuple[str, ...]
    neighbours: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    nameless: bool = False
    misplaced: tuple[ExemptionSpec, ...] = ()


def load(
    paths: Sequence[Path],
    *,
    base: Path,
    catalogue: Sequence[Path],
    exemptions_beside: Path | None = None,
    contracts: bool = True,
    repository: Path | None = None,
    named: Mapping[Path, str] | None = None,
    neighbours: bool = True,
    central: Path | None = None,
    homes: Mapping[Path, Path] | None = None,
) -> Loaded:
    """Read harness.toml files and everything that they name.

    Args:
        paths: harness.toml files, or folders with one.
        base: The folder that file names in messages are relative to.
        catalogue: Folders that hold shipped backends; a project's own `backends/` goes first.
        exemptions_beside: Where exemptions.toml is looked for last: the folder of the noxfile.
        contracts: Whether the contracts are read; who writes one does without.
        repository: The folder that the one file speaks of, where it is not beside it.
        named: As `Files` takes it.
        neighbours: Whether the lists beside the exemptions files are looked at.
        central: An exemptions file that speaks of all of them besides their own.
        homes: Of the projects of a list: harness file -> the repository that it speaks of. Only the central file
            speaks of all of them then, any other of the servers of those that have it.
    Raises:
        ConfigProblems: Every problem of every file.
        NothingSelected: The files are in order, but no [server] is in any of them.
    """
    files = Files(base, catalogue, named)
    shelf = Shelf(files, catalogue)
    readings = [
        read_project(files, path, shelf, contracts=contracts, repository=(homes or {}).get(path, repository))
        for path in _harness_files(files, paths)
    ]
    files.add(*_same_names(readings))
    entries: list[ExemptionSpec] = []
    names: list[str] = []
    seen: set[Path] = set()
    owners: dict[str, set[str]] = {}  # name of a file -> the servers of those that have it
    projects = []
    for reading, path in zip(readings, _harness_files(Files(base), paths), strict=True):
        found = _exemptions_of(reading, path.parent, exemptions_beside)
        if found is not None and found.resolve() not in seen:
            seen.add(found.resolve())
            entries.extend(read_entries(files, found))
            names.append(files.name(found))
        if reading.spec is not None:
            projects.append(_with_exemptions(reading.spec, found))
            if found is not None and (central is None or found.resolve() != central.resolve()):
                owners.setdefault(files.name(found), set()).add(reading.spec.server.name)
    if central is not None and central.resolve() not in seen:
        seen.add(central.resolve())
        entries.extend(read_entries(files, central))
        names.append(files.name(central))
    empty = [reading.place for reading in readings if reading.empty]
    if empty and (files.problems or len(empty) < len(readings)):
        hint = "name it: [server] with name and command"
        files.add(*(Problem(place, "", "there is no [server]", hint) for place in empty))
    unmatched = [problem for reading in readings for problem in reading.unmatched]
    if files.problems or any(project.suites or project.commands for project in projects):
        files.add(*unmatched)
    if files.problems:
        raise ConfigProblems(files.problems)
    if unmatched:
        said = "\n".join(f"{problem.place} {problem.where}: {problem.message}" for problem in unmatched)
        raise NothingSelected(f"nothing to run: there is no suite\n{said}", hint=unmatched[0].hint)
    if not projects:
        where = ", ".join(place.file for place in empty)
        said = (
            f"nothing to run: there is no [server] in {where}" if where else "nothing to run: no harness.toml was named"
        )
        raise NothingSelected(said, hint="a harness.toml needs [server] with name and command, and [suites]")
    ours = {project.server.name for project in projects}
    listed = {name for folder in {file.parent for file in seen} for name in _listed(folder)} if neighbours else set()
    nameless = None in listed
    misplaced = [
        entry
        for entry in entries
        if homes is not None and entry.server not in owners.get(entry.place.file, {entry.server})
    ]
    return Loaded(
        projects=tuple(projects),
        exemptions=tuple(entry for entry in entries if entry not in misplaced),
        misplaced=tuple(misplaced),
        exemption_files=tuple(names),
        neighbours=tuple(sorted({name for name in listed if name is not None} - ours)),
        nameless=nameless,
    )


def load_healthy(
    paths: Sequence[Path],
    *,
    base: Path,
    catalogue: Sequence[Path],
    exemptions_beside: Path | None = None,
    repository: Path | None = None,
    central: Path | None = None,
    homes: Mapping[Path, Path] | None = None,
    neighbours: bool = True,
) -> tuple[Loaded, ConfigProblems | None]:
    """As `load`, but projects whose files are in order are taken though others are not.

    Returns:
        What the healthy projects say, and every problem of the others, None without any.
    Raises:
        ConfigProblems: No project is healthy, or what is wrong is between them: two servers of one name.
        NothingSelected: As `load`.
    """

    def read(some: Sequence[Path]) -> Loaded:
        return load(
            some,
            base=base,
            catalogue=catalogue,
            exemptions_beside=exemptions_beside,
            repository=repository,
            central=central,
            homes=homes,
            neighbours=neighbours,
        )

    try:
        return read(paths), None
    except ConfigProblems as error:
        problems = error
    healthy: list[Path] = []
    names: list[str | None] = []
    for path in paths:
        try:
            read([path])
        except HarnessError:
            names.append(name_in(path))
        else:
            healthy.append(path)
    try:
        loaded = read(healthy) if healthy and names else None
    except HarnessError:
        loaded = None
    if loaded is None:
        raise problems
    broken = {name for name in names if name is not None}
    return replace(
        loaded,
        neighbours=tuple(sorted({*loaded.neighbours, *broken})),
        broken=tuple(sorted(broken)),
        nameless=loaded.nameless or None in names,
    ), problems


def load_backend(folder: Path, *, base: Path) -> BackendSpec:
    """The backend in one folder.

    Raises:
        ConfigProblems: Everything that is wrong with it.
    """
    files = Files(base)
    backend = read_backend(files, folder)
    if backend is None:
        raise ConfigProblems(files.problems)
    return backend


def _listed(folder: Path) -> Iterator[str | None]:
    """Names of the servers of the rollout list in a folder; None for what is checked out from elsewhere.

    What should be here and cannot be read names nobody.
    """
    data = peek(folder / "rollout.toml")
    defaults = data.get("defaults")
    common = defaults.get("harness") if isinstance(defaults, dict) else None
    for entry in items(data.get("repository")):
        if not isinstance(entry, dict):
            continue
        path, subdir, kept = entry.get("path"), entry.get("subdir", "."), entry.get("harness", common)
        file = None
        if isinstance(kept, str):
            file = folder / kept
        elif isinstance(path, str) and isinstance(subdir, str):
            file = folder / path / subdir / project_files.FILE
        if file is not None:
            server = peek(file).get("server")
            if isinstance(server, dict) and isinstance(server.get("name"), str):
                yield server["name"]
        elif "path" not in entry:
            yield None


def name_in(path: Path) -> str | None:
    """Name of the server in a harness.toml, or in a folder with one, if it can be read at all."""
    server = peek(path / project_files.FILE if path.is_dir() else path).get("server")
    name = server.get("name") if isinstance(server, dict) else None
    return name if isinstance(name, str) else None


def _harness_files(files: Files, paths: Sequence[Path]) -> list[Path]:
    """Each harness.toml once, in order; a folder without one is a problem."""
    found: dict[Path, Path] = {}
    for path in paths:
        file = path / project_files.FILE if path.is_dir() else path
        if path.is_dir() and not file.exists():
            hint = "write one, or name the folder that has it"
            files.add(
                Problem(Place(file=files.name(path)), "", f"there is no {project_files.FILE} in this folder", hint)
            )
        else:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _same_names(readings: Sequence[Reading]) -> list[Problem]:
    out = []
    seen: dict[str, tuple[str, Place]] = {}
    for reading in readings:
        if reading.name is None:
            continue
        name, place = reading.name
        if fold(name) in seen:
            other, first = seen[fold(name)]
            hint = (
                "exemptions and reports go by the name" if other == name else "names that differ in case only are one"
            )
            out.append(Problem(place, "[server] name", f"the server '{other}' in {first} has this name already", hint))
        seen.setdefault(fold(name), (name, place))
    return out


def _exemptions_of(reading: Reading, root: Path, beside: Path | None) -> Path | None:
    if reading.exemptions is not None:
        return reading.exemptions
    for folder in (root, beside):
        file = folder / exemption_files.FILE if folder is not None else None
        if file is not None and os.path.lexists(file):  # one that cannot be read is a problem, and not no file
            return file
    return None


def _with_exemptions(project: ProjectSpec, file: Path | None) -> ProjectSpec:
    return replace(project, exemptions_file=file.absolute() if file is not None else None)
