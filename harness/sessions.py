"""nox sessions for a repository with an MCP server: `register()` in a noxfile is all that it takes.

Importing this registers nothing. It imports nox and the standard library only, so that `nox -l` is quick; and it never
raises: a broken file becomes a session that fails with the message, a repository without runs one that fails with
"nothing to run" (nox would skip an empty parametrization and exit 0).

The sessions stay thin: each runs one `mcp-rollcall` command with the arguments after `--`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nox

__all__ = ["INTERRUPT_TIMEOUT_S", "TERMINATE_TIMEOUT_S", "planned_runs", "register"]

INTERRUPT_TIMEOUT_S = 120.0  # nox kills a child half a second after Ctrl-C unless told otherwise
TERMINATE_TIMEOUT_S = 60.0
_ERAS = ("modern", "handshake")
_DROPPED = ("NOX_SCRIPT_MODE", "VIRTUAL_ENV")
_MENU_RUNS = 3  # lines of `nox -l` that are runs; the others are there by name
_VENV = "mcp-rollcall"  # in nox's folder of environments; one for all sessions


@dataclass(frozen=True, slots=True)
class _Planned:
    """One planned run, as far as the files show without judging them."""

    server: str
    backend: str
    era: str
    profile: str

    @property
    def id(self) -> str:
        """The name in `nox -l`: no blank, quote or `$` in it, whatever the names are."""
        return "/".join(quote(part, safe="@+=._-") for part in (self.server, self.backend, self.era, self.profile))

    @property
    def arguments(self) -> list[str]:
        """The selection as `mcp-rollcall run` takes it."""
        return [
            f"--server={self.server}",
            f"--backend={self.backend}",
            f"--era={self.era}",
            f"--profile={self.profile}",
        ]


def register(
    *,
    projects: Sequence[str | os.PathLike[str]] = (".",),
    default: Sequence[str] = (),
    install: Sequence[str] = (),
    before_rollout: Callable[[nox.Session], None] | None = None,
) -> None:
    """Registers the sessions build, integration, plan, run, judge, exemptions, backends, rollout, reap and doctor.

    Args:
        projects: Folders with a harness.toml, or with folders that have one, relative to the noxfile.
        default: Names of the servers that `build`, `integration`, `judge` and `exemptions` take when neither names nor
            `--all` are given; all of them without it. `nox -l` lists the first of their runs, `nox -l -s run` all runs.
        install: Arguments of `pip install` that bring mcp-rollcall into a virtual environment that the sessions share,
            made when it is not there and brought up to date when they or pyproject.toml change; without it the
            sessions use the interpreter that runs nox, which has it.
        before_rollout: Called by the session `rollout` first, e.g. to make what the list names.
    """
    common = [f"--project={os.fspath(path)}" for path in projects]
    quick = [f"--default-server={name}" for name in default]

    def add(
        name: str,
        doc: str,
        arguments: Sequence[str],
        *,
        words_first: bool = False,
        first: Callable[[nox.Session], None] | None = None,
    ) -> None:
        def body(session: nox.Session) -> None:
            if first is not None:
                first(session)
            command, *rest = arguments
            if any(word.partition("=")[0] == "--rollout" for word in session.posargs):
                rest = []  # the list names the projects
            given = [*session.posargs, *rest] if words_first else [*rest, *session.posargs]
            _run(session, install, [command, *given])

        _named(body, name, doc)
        nox.session(name=name, default=False, venv_backend="none")(body)

    add("build", "Build the servers under test (reused while nothing has changed).", ["build", *common, *quick])
    add(
        "integration",
        "Build, stand up backends, drive every tool, judge: the whole thing and the verdict.",
        ["integration", *common, *quick],
    )
    add(
        "plan",
        "Print the planned runs as commands; `-- --format github` or `gitlab`: as a matrix for CI.",
        ["plan", *common],
    )
    _register_run(projects, common, default, install)
    add("judge", "Judge the recorded evidence again; needs neither Docker nor server.", ["judge", *common, *quick])
    add(
        "exemptions",
        "The verdict on every entry of the exemption files; `-- prune`, `-- propose` and `-- list` keep them true.",
        ["exemptions", *common, *quick],
        words_first=True,
    )
    add(
        "backends",
        "The backends that can be had; `-- show NAME` has everything of one, `-- try NAME` stands it up.",
        ["backends", *common],
        words_first=True,
    )
    add(
        "rollout",
        "Many repositories, one pass, one report: those of rollout.toml; `-- plan`, `-- judge` and `-- merge` with it.",
        ["rollout"],
        words_first=True,
        first=before_rollout,
    )
    add("reap", "Remove what dead runs left: containers, networks, volumes, processes, folders.", ["reap"])
    add("doctor", "What is here, and what would run how.", ["doctor", *common])


def _register_run(
    projects: Sequence[str | os.PathLike[str]], common: Sequence[str], default: Sequence[str], install: Sequence[str]
) -> None:
    doc = "Record the evidence of one run; `judge` then judges what all of them recorded."
    problem = ""
    planned: list[_Planned] = []
    try:
        planned = list(planned_runs(projects))
    except Exception as error:  # whatever is wrong with the files, nox must come up and say so
        problem = f"{type(error).__name__}: {error}" if not isinstance(error, _Unusable) else str(error)
    if not planned:
        message = problem or "nothing to run: no harness.toml here plans a run"

        def failing(session: nox.Session) -> None:
            session.error(message)

        _named(failing, "run", doc)
        nox.session(name="run", default=False, venv_backend="none")(failing)
        return

    def body(session: nox.Session, server: str, backend: str, era: str, profile: str) -> None:
        selection = _Planned(server, backend, era, profile).arguments
        _run(session, install, ["run", *common, *selection, *session.posargs])

    if _is_menu(sys.argv[1:]):
        shown = ([run for run in planned if run.server in default] or planned)[:_MENU_RUNS]
        if len(shown) < len(planned):
            doc = f"{doc.removesuffix('.')} ({len(planned) - len(shown)} more: `nox -l -s run`)."
            planned = shown
    _named(body, "run", doc)
    by_id = {run.id: run for run in planned}
    axes = ["server", "backend", "era", "profile"]
    params = [nox.param(run.server, run.backend, run.era, run.profile, id=run_id) for run_id, run in by_id.items()]
    nox.session(name="run", default=False, venv_backend="none")(nox.parametrize(axes, params)(body))


def _named(function: Callable[..., None], name: str, doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc


def _is_menu(arguments: Sequence[str]) -> bool:
    """Whether nox was asked for the list of sessions as such, and not for those of some name, or for a program."""
    return bool({"-l", "--list", "--list-sessions"} & set(arguments)) and all(
        word in ("-l", "--list", "--list-sessions") for word in arguments
    )


def _run(session: nox.Session, install: Sequence[str], arguments: Sequence[str]) -> None:
    env: dict[str, str | None] = dict.fromkeys(_DROPPED)  # None removes a variable
    env["ROLLCALL_PARENT"] = str(os.getpid())
    env["ROLLCALL_NOX"] = "1"  # findings are shown again through nox, which may be all that is on PATH
    # -P: a folder named `harness` in the repository must not be imported instead of ours
    session.run(
        _installed(session, install) if install else sys.executable,
        "-P",
        "-m",
        "harness",
        *arguments,
        env=env,
        external=True,
        interrupt_timeout=INTERRUPT_TIMEOUT_S,
        terminate_timeout=TERMINATE_TIMEOUT_S,
    )


def _installed(session: nox.Session, install: Sequence[str]) -> str:
    """The interpreter of the shared environment, which is made or brought up to date where it must."""
    folder = session.cache_dir.parent / _VENV
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    project = Path("pyproject.toml")
    facts = {
        "install": list(install),
        "python": [sys.executable, sys.version],
        "project": hashlib.sha256(project.read_bytes()).hexdigest() if project.is_file() else "",
    }
    wanted = json.dumps(facts, sort_keys=True)
    if python.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    env: dict[str, str | None] = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **dict.fromkeys(_DROPPED)}
    session.run_install(sys.executable, "-m", "virtualenv", "--clear", str(folder), env=env, external=True, silent=True)
    session.run_install(str(python), "-m", "pip", "install", *install, env=env, external=True, silent=True)
    if python.exists():
        stamp.write_text(wanted, encoding="utf-8")
    return str(python)


# --- what is planned, read with tomllib alone ------------------------------------------------------


class _Unusable(Exception):
    """A file cannot be planned from; the message is for people."""


def planned_runs(projects: Sequence[str | os.PathLike[str]]) -> Iterator[_Planned]:
    """The runs that the files plan in Docker (embedded if ROLLCALL_RUNTIME=process), without checking the files.

    Raises:
        Exception: A file cannot be read; `register` turns it into a session that fails.
    """
    embedded = os.environ.get("ROLLCALL_RUNTIME") == "process"
    for path in (file for project in projects for file in _files(Path(project))):
        data = _read(path)
        server = _table(data, "server", path).get("name")
        if not isinstance(server, str) or not server:
            raise _Unusable(f"{path}: [server] has no name")
        if not _table(data, "suites", path).get("files"):
            continue
        eras = _table(data, "server", path).get("eras") or _ERAS
        profiles = list(_table(data, "profiles", path)) or ["plain"]
        for backend in _cells(_table(data, "backends", path), path.parent, embedded):
            for era, profile in product(eras, profiles):
                yield _Planned(server, backend, str(era), profile)


def _files(project: Path) -> list[Path]:
    """As `--project` reads it: the file itself, that in the folder, or those in the folders of the folder."""
    if project.name.endswith(".toml"):
        return [project]
    below = sorted(project.glob("*/harness.toml")) if not (project / "harness.toml").exists() else []
    return below or [project / "harness.toml"]


def _cells(roles: Mapping[str, Any], root: Path, embedded: bool) -> Iterator[str]:
    """The labels of all choices of backends."""
    choices: list[list[tuple[str, str, str]]] = []
    for role, spec in roles.items():
        uses = spec["use"] if isinstance(spec["use"], list) else [spec["use"]]
        of_role: list[tuple[str, str, str]] = []
        for use in uses:
            versions = ["embedded"] if embedded else _versions(use, spec.get("versions"), root)
            of_role += [(role, use, str(version)) for version in versions]
        choices.append(of_role)
    for combination in product(*choices):
        uses = [use for _, use, _ in combination]
        labels = [
            f"{role}={use}@{version}" if uses.count(use) > 1 else f"{use}@{version}"
            for role, use, version in combination
        ]
        yield "+".join(labels) or "none"


def _versions(backend: str, wanted: Sequence[str] | None, root: Path) -> Sequence[str]:
    """The versions of one backend that a role asks for: each goes to the alternatives that have it."""
    here = Path(__file__).parent
    for folder in (root / "backends", here / "backends", here.parent / "backends"):
        path = folder / backend / "backend.toml"
        if path.is_file():
            data = _read(path)
            known = list(_table(data, "versions", path))
            return [name for name in wanted if name in known] if wanted else [str(data.get("default") or known[0])]
    if wanted:
        return wanted
    raise _Unusable(f"no backend is named {backend!r}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise _Unusable(f"{path}: there is no such file") from None
    except (ValueError, OSError) as error:
        raise _Unusable(f"{path}: {error}") from None


def _table(data: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise _Unusable(f"{path}: [{key}] is no table")
    return value
