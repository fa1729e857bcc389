"""harness.toml, with the backends it names and its suites -> ProjectSpec."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from harness.config.backend import Shelf
from harness.config.commands import PYTEST, argv_problems, command_problems, commands_of
from harness.config.contract import read_contract
from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.suites import Around, build_suite, suite_problems
from harness.config.toml import Document, Files
from harness.config.validate import check, other_version
from harness.config.values import (
    BACKSLASH,
    Scope,
    bad_pattern,
    escapes,
    fold,
    items,
    python_problem,
    strings,
    table,
    text,
    texts,
    unknown_placeholders,
)
from harness.model.checks import CHECKS, OFF_BY_DEFAULT, family_of
from harness.model.choices import cell_names, known_choices
from harness.model.contract import Contract
from harness.model.headers import header_problem
from harness.model.plan import (
    CALL_TIMEOUT_S,
    ELICIT_MODES,
    ERAS,
    START_TIMEOUT_S,
    AnswerSpec,
    BackendSpec,
    CheckSettings,
    LoweredSpec,
    Place,
    ProfileSpec,
    ProjectSpec,
    RoleChoice,
    RoleSpec,
    RootSpec,
    SampleSpec,
    ServerSpec,
    SuiteSpec,
)

__all__ = ["FILE", "Reading", "read_project"]

FILE = "harness.toml"
MAX_SUITE_FILES = 1000
MAX_CELLS = 10_000  # beyond that the names of a case's backends are not looked up

_URL = re.compile(r"http://127\.0\.0\.1:\$\{port\}(?:/[A-Za-z0-9._~!&'()*+,;=:@%/-]*)?(?:\?[A-Za-z0-9._~=&%-]*)?\Z")
_URL_EXAMPLE = 'url = "http://127.0.0.1:${port}/mcp"'
_PYTHONS = re.compile(r"(?:pip|python)[0-9.]*\Z|uv\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of one harness.toml.

    Attributes:
        name: The server's name and where it stands, as far as there is one.
        spec: The project; None where it has problems (they have been added) or no server.
        exemptions: The file that the `exemptions` key names.
        empty: The file is in order but has no [server].
        unmatched: Patterns for suites that match no file, where none of them does: without other problems there is
            nothing to run.
    """

    place: Place
    name: tuple[str, Place] | None = None
    spec: ProjectSpec | None = None
    exemptions: FilePath | None = None
    empty: bool = False
    unmatched: tuple[Problem, ...] = ()


def read_project(
    files: Files, path: FilePath, shelf: Shelf, *, contracts: bool = True, repository: FilePath | None = None
) -> Reading:
    """Everything that one harness.toml says; what is wrong with it, or with what it names, is added to `files`.

    Args:
        contracts: Whether the contract that it names is read; who writes one does without.
        repository: The folder that it speaks of, where it is kept elsewhere: builds and the server run there, while
            suites, contract, exemptions and backends are beside the file.
    """
    document = files.read(path)
    if document is None:
        return Reading(place=Place(file=files.name(path)))
    other = other_version(document, "harness")
    if other is not None:
        files.add(other)
        return Reading(place=document.place())
    before = len(files.problems)
    root = path.absolute().parent
    data = document.data
    files.add(*check(document, "harness"))
    roles = _roles(files, document, shelf, root)
    files.add(*_server_problems(document, roles))
    files.add(*_check_problems(document))
    profiles = tuple(_profile_names(files, document))
    documents, unmatched = _suite_documents(files, document, root)
    specs = _role_specs(document)
    cells = _cells(specs, roles)
    around = Around(
        profiles=profiles,
        backends=frozenset(name for cell in cells for name in cell_names(cell) if cell) if cells is not None else None,
        judge=lambda name, captured, bound: _scope(_filled(roles, cells, bound), captured).judge(name),
    )
    suites = _suites(files, documents, around)
    files.add(*command_problems(document, root, profiles=profiles, judge=_scope(roles, None).judge))
    if "pytest" in table(data.get("suites")):
        files.add(*_pytest_taken(documents))
    name = text(table(data.get("server")).get("name"))
    exemptions = _exemptions(files, document, root)
    contract = _contract(files, document, root, name) if contracts else None
    spec = None
    if len(files.problems) == before and "server" in data:
        spec = _build(document, root, roles, suites, exemptions, contract)
        if repository is not None:
            spec = replace(spec, root=repository.absolute())
    return Reading(
        place=document.place(),
        name=(name, document.place(("server", "name"))) if name is not None else None,
        spec=spec,
        exemptions=exemptions,
        empty="server" not in data and len(files.problems) == before,
        unmatched=unmatched,
    )


# --- roles and placeholders ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """A role as it was found: `backends` are those that could be read, `all` whether that is each it names."""

    backends: tuple[BackendSpec, ...]
    all: bool


def _roles(files: Files, document: Document, shelf: Shelf, root: FilePath) -> dict[str, _Role]:
    out = {}
    for role, value in table(document.data.get("backends")).items():
        settings, path = table(value), ("backends", role)
        found: list[BackendSpec] = []
        named = texts(settings.get("use"))
        for index, name in enumerate(named):
            backend = shelf.find(name, root)
            if isinstance(backend, BackendSpec):
                found.append(backend)
            elif backend is not None and not escapes(name) and "/" not in name:  # the schema has told those
                where: Path = (*path, "use") if isinstance(settings.get("use"), str) else (*path, "use", index)
                hint = did_you_mean(name, backend)
                files.add(document.problem(where, f"there is no backend {quoted(name)}", hint))
        out[role] = _Role(backends=tuple(found), all=bool(named) and len(found) == len(named))
        files.add(*_version_problems(document, (*path, "versions"), texts(settings.get("versions")), out[role]))
    return out


def _version_problems(document: Document, path: Path, versions: list[str], role: _Role) -> Iterator[Problem]:
    if not role.all:
        return
    known = [version for backend in role.backends for version in backend.versions]
    for index, version in enumerate(versions):
        if version not in known:
            names = " or ".join(backend.name for backend in role.backends)
            hint = did_you_mean(version, known)
            yield document.problem((*path, index), f"{names} has no version {quoted(version)}", hint)
    for backend in role.backends:
        if versions and not set(versions) & set(backend.versions) and set(versions) <= set(known):
            hint = did_you_mean(versions[0], backend.versions, what=f"versions of {backend.name}")
            yield document.problem(path, f"none of these is a version of {backend.name}", hint)


def _role_specs(document: Document) -> tuple[RoleSpec, ...]:
    return tuple(
        RoleSpec(
            role=role,
            use=tuple(texts(table(value).get("use"))),
            versions=tuple(texts(table(value).get("versions"))),
            place=document.place(("backends", role)),
        )
        for role, value in table(document.data.get("backends")).items()
    )


def _backends(roles: Mapping[str, _Role]) -> dict[str, BackendSpec]:
    return {backend.name: backend for role in roles.values() for backend in role.backends}


def _cells(specs: Sequence[RoleSpec], roles: Mapping[str, _Role]) -> list[tuple[RoleChoice, ...]] | None:
    """What a case may be bound to; None where that is not known: a backend has problems, or there are far too many."""
    many = math.prod(len(spec.use) * max(1, len(spec.versions)) for spec in specs) > MAX_CELLS
    if many or not all(role.all for role in roles.values()):
        return None
    return known_choices(specs, _backends(roles))


def _filled(
    roles: Mapping[str, _Role], cells: Sequence[tuple[RoleChoice, ...]] | None, bound: frozenset[str]
) -> Mapping[str, _Role]:
    """The roles as they are filled where a case runs that is bound to backends."""
    meant = {choice for cell in cells or () if not bound.isdisjoint(cell_names(cell)) for choice in cell}
    if not meant:
        return roles
    pairs = {(choice.role, choice.backend) for choice in meant}
    return {
        role: replace(found, backends=tuple(item for item in found.backends if (role, item.name) in pairs))
        for role, found in roles.items()
    }


def _scope(roles: Mapping[str, _Role], captured: frozenset[str] | None) -> Scope:
    """The placeholders of a running server (`captured` is None there) or of a suite."""
    known = {"port", "repo", "tmp"}
    half: dict[str, str] = {}
    loose = {"env"}
    for role, found in roles.items():
        if not found.all:  # its problems have been told; its outputs are not known
            loose.add(f"backend.{role}")
            continue
        outputs = [{output.name for output in backend.outputs} for backend in found.backends]
        common = outputs[0].intersection(*outputs)
        known |= {f"backend.{role}.{name}" for name in common}
        for name in outputs[0].union(*outputs) - common:
            without = [b.name for b, mine in zip(found.backends, outputs, strict=True) if name not in mine]
            half[f"backend.{role}.{name}"] = f"{' and '.join(without)}, which may fill the role too, has no such output"
    if captured is not None:
        known |= {f"captured.{name}" for name in captured}
        half["captured"] = _captured_hint(captured)
    else:
        half["captured"] = "captures exist in suites only"
    return _Loose(known=known, open=("env",), elsewhere=half, loose=frozenset(loose))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loose(Scope):
    """A scope in which the outputs of some roles are not known."""

    loose: frozenset[str] = frozenset()

    def judge(self, name: str) -> tuple[str, str] | None:
        if name.rpartition(".")[0] in self.loose - {"env"}:
            return None
        return Scope.judge(self, name)


def _captured_hint(captured: frozenset[str]) -> str:
    listed = ", ".join(sorted(captured))
    return "no earlier step of this case captures it" + (f"; captured so far: {listed}" if listed else "")


def _server_problems(document: Document, roles: Mapping[str, _Role]) -> Iterator[Problem]:
    server = table(document.data.get("server"))
    for path, string in strings(
        {key: document.data[key] for key in ("server", "profiles") if key in document.data}, ()
    ):
        if "\0" in string:
            yield document.problem(path, "a NUL character, which no program can be given")
    if server.get("name") == "schema":
        hint = "exemptions.toml begins with this word; choose another name"
        yield document.problem(("server", "name"), "no server can be called schema", hint)
    python = text(server.get("python"))
    if python and (said := python_problem(python)) is not None:
        yield document.problem(("server", "python"), *said)
    cwd = text(server.get("cwd"))
    if cwd is not None and (escapes(cwd) or "${" in cwd):
        yield document.problem(("server", "cwd"), f"{quoted(cwd)} is no folder inside the repository")
    command = items(server.get("command"))
    if command and isinstance(command[0], str) and not command[0].strip():
        yield document.problem(("server", "command", 0), "the program has no name")
    for index, item in enumerate(items(server.get("build"))):
        yield from argv_problems(document, ("server", "build", index), item)
    yield from _transport_problems(document, server)
    early = "builds run before the backends and the server start; they know repo and env.NAME"
    building = Scope(known={"repo"}, open=("env",), elsewhere={"backend": early, "port": early, "tmp": early})
    yield from unknown_placeholders(document, ("server", "build"), server.get("build"), building.judge)
    running = _scope(roles, None)
    for key in ("command", "env", "headers"):
        yield from unknown_placeholders(document, ("server", key), server.get(key), running.judge)
    for name, profile in table(document.data.get("profiles")).items():
        yield from _profile_problems(document, ("profiles", name), table(profile), running)


def _transport_problems(document: Document, server: Mapping[str, Any]) -> Iterator[Problem]:
    """`transport`, `url` and `headers` go together, and somebody has to tell the server its port."""
    transport, url = server.get("transport", "stdio"), text(server.get("url"))
    if transport != "http":
        for key in ("url", "headers"):
            if key in server and transport == "stdio":
                yield document.problem(("server", key), 'it goes with transport = "http"')
        return
    seen: dict[str, str] = {}
    for name, value in table(server.get("headers")).items():
        said = header_problem(name, value) if isinstance(value, str) else ""
        if name.lower() in seen:
            said = f"it is {quoted(seen[name.lower()])} again: headers do not tell large letters from small ones"
        seen.setdefault(name.lower(), name)
        if said:
            yield document.problem(("server", "headers", name), said)
    if "url" not in server:
        hint = f"where the server listens, such as {_URL_EXAMPLE}"
        yield document.problem(("server", "transport"), "http needs a url", hint)
    elif url is not None and not _URL.match(url):
        said = f"{quoted(url)} is no address on a port that is chosen for the server"
        yield document.problem(("server", "url"), said, f"write {_URL_EXAMPLE}, with the path that it serves MCP on")
    profiles = [table(profile).get("env") for profile in table(document.data.get("profiles")).values()]
    told = [server.get("command"), server.get("env")]
    if not any(_tells_port(value) for value in told) and not (profiles and all(map(_tells_port, profiles))):
        hint = 'write "${port}" where the server takes its port: an argument, or a variable under env'
        yield document.problem(("server", "transport"), "nothing tells the server on which port to listen", hint)


def _tells_port(value: Any) -> bool:
    return any("${port}" in string for _, string in strings(value, ()))


# --- profiles and suites ------------------------------------------------------------------------


def _profile_names(files: Files, document: Document) -> Iterator[str]:
    seen: dict[str, str] = {}
    profiles = table(document.data.get("profiles"))
    for name in profiles:
        if fold(name) in seen:
            said = f"the profile {quoted(seen[fold(name)])} differs in case only"
            files.add(document.problem(("profiles", name), said, "on some file systems they are one"))
        seen[fold(name)] = name
        yield name
    if not profiles:
        yield "plain"


def _profile_problems(document: Document, path: Path, profile: Mapping[str, Any], running: Scope) -> Iterator[Problem]:
    """What no schema says of one profile."""
    resolved = [((*path, key), profile.get(key)) for key in ("env", "roots")]
    patterns: list[tuple[Path, Any]] = []
    for key, sent in (("answers", ("content",)), ("sampling", ("text", "content"))):
        for index, item in enumerate(map(table, items(profile.get(key)))):
            here: Path = (*path, key, index)
            resolved += [((*here, part), item.get(part)) for part in sent]
            patterns.append(((*here, "message"), item.get("message")))
    for where, value in resolved:
        yield from unknown_placeholders(document, where, value, running.judge)
    for where, pattern in patterns:
        if isinstance(pattern, str) and (wrong := bad_pattern(pattern)):
            yield document.problem(where, wrong, BACKSLASH if "\\" in pattern else "")
    if "elicit_modes" in profile and not {"elicit", "answers"} & profile.keys():
        hint = 'write elicit = "decline", or scripted answers'
        yield document.problem((*path, "elicit_modes"), "nothing is answered in these modes", hint)
    if "sampling_tools" in profile and "sampling" not in profile:
        hint = "write what the model says: [[profiles.NAME.sampling]]"
        yield document.problem((*path, "sampling_tools"), "this goes with sampling, which is missing", hint)
    modes = texts(profile.get("elicit_modes", ["form"]))
    for index, item in enumerate(map(table, items(profile.get("answers")))):
        here = (*path, "answers", index)
        mode = item.get("mode")
        if mode in ("form", "url") and mode not in modes:
            hint = f'write elicit_modes = ["form", "url"] in [{".".join(map(str, path))}]'
            yield document.problem((*here, "mode"), f"this profile does not declare the mode {mode}", hint)
        if "content" in item and (item.get("action", "accept") != "accept" or mode == "url"):
            why = "a URL is answered without content" if mode == "url" else "only what is accepted has content"
            yield document.problem((*here, "content"), why)
    for index, item in enumerate(map(table, items(profile.get("sampling")))):
        kinds = [table(block).get("type") for block in items(item.get("content"))]
        if "tool_use" in kinds and profile.get("sampling_tools") is not True:
            where = (*path, "sampling", index, "content", kinds.index("tool_use"))
            hint = f"write sampling_tools = true in [{'.'.join(map(str, path))}]"
            yield document.problem(where, "this profile does not declare sampling with tools", hint)


def _profile(name: str, value: Mapping[str, Any]) -> ProfileSpec:
    """The profile in a file without problems."""
    roots = value.get("roots")
    return ProfileSpec(
        name=name,
        elicit=value.get("elicit"),
        env=dict(value.get("env", {})),
        elicit_modes=tuple(mode for mode in ELICIT_MODES if mode in value.get("elicit_modes", ["form"])),
        answers=tuple(
            AnswerSpec(**{**item, "fields": tuple(item.get("fields", ()))}) for item in value.get("answers", [])
        ),
        sampling=tuple(map(_sample, value.get("sampling", []))),
        sampling_tools=value.get("sampling_tools", False),
        roots=None
        if roots is None
        else tuple(RootSpec(uri=item) if isinstance(item, str) else RootSpec(**item) for item in roots),
        log_level=value.get("log_level"),
        progress=value.get("progress", False),
    )


def _sample(value: Mapping[str, Any]) -> SampleSpec:
    given = {key: item for key, item in value.items() if key not in ("content", "reject")}
    return SampleSpec(**given, content=tuple(value.get("content", ())))


def _suite_documents(files: Files, document: Document, root: FilePath) -> tuple[list[Document], tuple[Problem, ...]]:
    """The suites, and the patterns that match nothing where there is no suite; else these are added as problems."""
    found: dict[FilePath, None] = {}
    unmatched: list[Problem] = []
    for index, pattern in enumerate(texts(table(document.data.get("suites")).get("files"))):
        path: Path = ("suites", "files", index)
        if not pattern:
            continue
        if escapes(pattern):
            files.add(document.problem(path, f"{quoted(pattern)} leads out of the repository", "write a relative path"))
            continue
        if any("**" in part and part != "**" for part in pattern.split("/")):
            files.add(document.problem(path, f"{quoted(pattern)} is no pattern", "** stands alone: suites/**/*.toml"))
            continue
        try:
            matches = sorted(file for file in root.glob(pattern) if file.is_file())
        except (ValueError, NotImplementedError, OSError, re.error, RecursionError, IndexError):
            files.add(document.problem(path, f"{quoted(pattern)} is no pattern for files"))
            continue
        if not matches:
            unmatched.append(
                document.problem(path, f"{quoted(pattern)} matches no file", "the pattern is relative to this file")
            )
        found.update(dict.fromkeys(matches[: MAX_SUITE_FILES + 1]))
        if len(found) > MAX_SUITE_FILES:
            files.add(document.problem(path, f"{quoted(pattern)} matches more than {MAX_SUITE_FILES} files"))
            return [], ()
    if found:
        files.add(*unmatched)
        unmatched = []
    return [suite for suite in map(files.read, found) if suite is not None], tuple(unmatched)


def _suites(files: Files, documents: list[Document], around: Around) -> tuple[SuiteSpec, ...]:
    seen: dict[str, tuple[str, Place]] = {}
    out = []
    for document in documents:
        problems = suite_problems(document, around)
        name = text(document.data.get("id"))
        if name is not None:
            if fold(name) in seen:
                other, place = seen[fold(name)]
                hint = "" if other == name else "names that differ in case only are one on some file systems"
                problems.append(document.problem(("id",), f"the suite {quoted(other)} in {place} has this name", hint))
            seen.setdefault(fold(name), (name, document.place(("id",))))
        files.add(*problems)
        if not problems:
            out.append(build_suite(document))
    return tuple(out)


def _pytest_taken(documents: list[Document]) -> Iterator[Problem]:
    for document in documents:
        name = text(document.data.get("id"))
        if name is not None and fold(name) == PYTEST:
            hint = "give this suite another id"
            yield document.problem(("id",), f"{quoted(PYTEST)} is the suite of the tests under [suites] pytest", hint)


def _exemptions(files: Files, document: Document, root: FilePath) -> FilePath | None:
    named = text(document.data.get("exemptions"))
    if not named:
        return None
    if "\0" in named or not (root / named).is_file():
        files.add(document.problem(("exemptions",), f"there is no file {quoted(named)}", "it is relative to this file"))
        return None
    return root / named


def _contract(files: Files, document: Document, root: FilePath, server: str | None) -> Contract | None:
    named = text(document.data.get("contract"))
    if not named:
        return None
    if "\0" in named or escapes(named):
        files.add(document.problem(("contract",), f"{quoted(named)} is no file inside the repository"))
        return None
    if not (root / named).is_file():
        hint = "write it: mcp-rollcall tools snapshot"
        files.add(document.problem(("contract",), f"there is no file {quoted(named)}", hint))
        return None
    return read_contract(files, root / named, server=server)


# --- building -----------------------------------------------------------------------------------


def _build(
    document: Document,
    root: FilePath,
    roles: Mapping[str, _Role],
    suites: tuple[SuiteSpec, ...],
    exemptions: FilePath | None,
    contract: Contract | None,
) -> ProjectSpec:
    data = document.data
    server = data["server"]
    build = tuple(tuple(shlex.split(item) if isinstance(item, str) else item) for item in server.get("build", []))
    eras = server.get("eras")
    return ProjectSpec(
        root=root,
        place=document.place(),
        server=ServerSpec(
            name=server["name"],
            command=tuple(server["command"]),
            build=build,
            python=server.get("python"),
            venv="python" in server or any(_PYTHONS.match(argv[0].rpartition("/")[2]) for argv in build),
            cwd=server.get("cwd", "."),
            env=dict(server.get("env", {})),
            eras=tuple(era for era in ERAS if era in eras) if eras is not None else None,
            call_timeout_s=float(server.get("call_timeout_s", CALL_TIMEOUT_S)),
            start_timeout_s=float(server.get("start_timeout_s", START_TIMEOUT_S)),
            transport=server.get("transport", "stdio"),
            url=server.get("url", ""),
            headers=dict(server.get("headers", {})),
            reads_dotenv=bool(server.get("reads_dotenv", True)),
        ),
        roles=_role_specs(document),
        backends=_backends(roles),
        profiles=tuple(_profile(name, value) for name, value in data.get("profiles", {}).items())
        or (ProfileSpec(name="plain"),),
        suites=suites,
        checks=_checks(document),
        exemptions_file=exemptions,
        places={tuple(map(str, path)): document.place(path) for path in _addressable(data)},
        contract_file=root / data["contract"] if "contract" in data else None,
        contract=contract,
        server_line=document.place(("server",)).line,
        commands=commands_of(document),
    )


# --- [checks] -----------------------------------------------------------------------------------

_OWN_GRAMMAR = ("exercised", "parameters", "tokens")  # keys whose values are no levels
_CHECK_ID = re.compile(r"[a-z]+(?:-[a-z]+)*/[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_FIXED = ("exemption", "exercised")  # families whose checks have no level of their own


def _check_problems(document: Document) -> Iterator[Problem]:
    """Keys that look like the id of a check and are none that has a level."""
    known = [check for check in CHECKS if family_of(check) not in _FIXED]
    for key in table(document.data.get("checks")):
        if not _CHECK_ID.match(key) or key in known:  # what is no id at all has been told: an unknown key
            continue
        if key in CHECKS:
            yield document.problem(("checks", key), f"{quoted(key)} has no level of its own; it always counts")
        else:
            siblings = [check for check in known if family_of(check) == family_of(key)]
            yield document.problem(
                ("checks", key), f"there is no check {quoted(key)}", did_you_mean(key, siblings or known)
            )


def _checks(document: Document) -> CheckSettings:
    data = table(document.data.get("checks"))
    return CheckSettings(
        exercised=data.get("exercised", "succeeded"),
        parameters=data.get("parameters", "report"),
        tokens=data.get("tokens"),
        places={key: document.place(("checks", key)) for key in ("parameters", "tokens") if key in data},
        lowered=tuple(
            LoweredSpec(family=key, to=level, place=document.place(("checks", key)))
            for key, level in data.items()
            if key not in _OWN_GRAMMAR and ("/" in key or level != ("off" if key in OFF_BY_DEFAULT else "error"))
        ),
    )


def _addressable(data: Mapping[str, Any]) -> Iterator[Path]:
    """Where an address may stand."""
    yield ("server", "command")
    yield from (("server", key, name) for key in ("env", "headers") for name in data["server"].get(key, {}))
    for profile, value in data.get("profiles", {}).items():
        yield from (("profiles", profile, "env", name) for name in value.get("env", {}))
        yield from (("profiles", profile, "roots", index) for index in range(len(value.get("roots", []))))
