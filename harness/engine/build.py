"""Builds the server under test, once for each state of its sources, in an environment of its own.

State: `<state>/builds/<fingerprint>/{venv, build.log, done.json}` and `<state>/builds/current`, the fingerprint of the
build whose files stand in the working tree (node_modules, dist …); those can be there for one state at a time.

A build that a CI cache restored is reused if it lies where it was made (virtual environments cannot be moved) and
what it left in the working tree was restored with it. Files are compared by content: their times are the checkout's.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import IO

import anyio

from harness.engine.environment import build_environment
from harness.engine.mask import Masker, is_secret_name
from harness.engine.python import find_interpreter, venv_command
from harness.engine.scope import Scope
from harness.errors import BuildError, ConfigError
from harness.model.placeholders import UnknownPlaceholder, expand, names_in
from harness.model.plan import ProjectSpec
from harness.model.progress import Progress, stage

__all__ = [
    "BUILD_TIMEOUT_S",
    "LOG_LINES",
    "Built",
    "build",
    "callers_masker",
    "fingerprint",
    "last_lines",
    "run_logged",
    "state_folder",
    "state_of_sources",
]

BUILD_TIMEOUT_S = 1800.0
KILL_AFTER_S = 3.0
NEW = "there is none of this state"
LOG_LINES = 40
LOG_REASONS = 10
LOG_READ_BYTES = 1024 * 1024
KEPT_BUILDS = 3  # and every build that is younger than a week
KEPT_S = 7 * 24 * 3600.0
HASH_LIMIT_BYTES = 8 * 1024 * 1024  # a larger file counts by size and time of change
CACHES = {"__pycache__", ".nox", ".tox", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
NOT_SOURCES = {
    ".git",
    ".hg",
    ".rollcall",
    "node_modules",
    ".venv",
    "venv",
    ".nox",
    ".tox",
    "__pycache__",
    "dist",
    "build",
}
_REASON = re.compile(r"\b(?:error|err!|fatal|can only|cannot|could not|failed)(?=\W|$)", re.IGNORECASE)
_WARNING = re.compile(r"\b(?:warn(?:ing)?|ebadengine|deprecated|optional)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A build that stands.

    Attributes:
        fingerprint: Of what went in.
        bin: The folder of programs that comes first on the server's PATH, or None.
        log: Where the output of the build is kept.
        env: Variables that the build gives the server (none yet).
    """

    fingerprint: str
    bin: Path | None = None
    log: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def output(self) -> str:
        """What the build printed, "" where there was none."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace") if self.log else ""
        except OSError:
            return ""

    def warnings(self) -> str:
        """The lines of its output that warn, which may explain a server that does not start; at most LOG_REASONS."""
        lines = [line for line in self.output().splitlines() if _WARNING.search(line) and not line.startswith("$ ")]
        return "\n".join(lines[:LOG_REASONS])


def state_folder(root: Path, override: Path | None = None) -> Path:
    """The folder for everything that we keep, `.rollcall` beside harness.toml, made with its own .gitignore.

    Raises:
        ConfigError: It cannot be written.
    """
    state = override or root / ".rollcall"
    try:
        state.mkdir(parents=True, exist_ok=True)
        ignore = state / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        probe = state / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"state cannot be written to {state}: {error.strerror}", hint="choose another place with --state DIR"
        ) from error
    return state


def fingerprint(project: ProjectSpec) -> str:
    """The state of everything that the build depends on: commands, interpreter, tools, lock files, sources."""
    digest = hashlib.sha256()
    server = project.server
    parts: list[object] = [1, server.build, server.python, server.venv]
    if server.venv:
        found = find_interpreter(server.python)
        parts += [found.version, found.path, shutil.which("uv") is not None]
    programs = {Path(command[0]).name for command in server.build}
    if programs & {"npm", "npx", "node", "pnpm", "yarn", "corepack"}:
        parts += [_version("node"), _version("npm"), _user_npmrc()]
    if server.build:
        digest.update(_sources(project.root, _ours(project)))
    digest.update(json.dumps(parts, sort_keys=True, default=list).encode())
    return digest.hexdigest()[:16]


def state_of_sources(project: ProjectSpec) -> str:
    """As `fingerprint`, but the sources count also where nothing is built: a server may run right out of them."""
    digest = hashlib.sha256(fingerprint(project).encode())
    if not project.server.build:
        digest.update(_sources(project.root, _ours(project)))
    return digest.hexdigest()[:16]


def _version(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return done.stdout.strip()


def _user_npmrc() -> str:
    path = Path(os.environ.get("NPM_CONFIG_USERCONFIG") or Path(os.environ.get("HOME") or "/nonexistent") / ".npmrc")
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _ours(project: ProjectSpec) -> set[str]:
    """Files that only we read, as real paths: a changed suite is no reason to build again."""
    written = [project.place.file, *(suite.place.file for suite in project.suites)]
    written += [str(backend.folder / "backend.toml") for backend in project.backends.values()]
    if project.exemptions_file is not None:
        written.append(str(project.exemptions_file))
    return {os.path.realpath(name) for name in written}


def _sources(root: Path, ours: set[str]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(_source_files(root)):
        if os.path.realpath(root / name) in ours:
            continue
        path = root / name
        with suppress(OSError):
            stat = path.lstat()
            digest.update(f"{name}\0{stat.st_mode:o}\0{stat.st_size}\0".encode("utf-8", "surrogateescape"))
            if path.is_symlink():
                digest.update(os.fsencode(path.readlink()))
            elif stat.st_size > HASH_LIMIT_BYTES or not S_ISREG(stat.st_mode):  # a pipe would be waited for
                digest.update(str(stat.st_mtime_ns).encode())
            else:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _source_files(root: Path) -> set[str]:
    """Tracked and untracked files that git does not ignore; without git, all but the folders that builds make.

    What interpreters and tools write where they run is no source, also where git was not told to ignore it.
    """
    if names := _git(root, "--cached", "--others", "--exclude-standard"):
        written = {name for name in names if not CACHES.isdisjoint(name.split("/")[:-1])}
        tracked = (_git(root, "--cached") or set()) if written else set()
        return {name for name in names - (written - tracked) if not name.startswith(".rollcall/")}
    out: set[str] = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        out.update(os.path.relpath(os.path.join(folder, name), root) for name in files)
    return out


def _git(root: Path, *what: str) -> set[str] | None:
    """The names that `git ls-files` gives for a folder, relative to it; None without git or outside a repository."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", *what],
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name} if done.returncode == 0 else None


async def build(project: ProjectSpec, *, state: Path, scope: Scope, progress: Progress, force: bool = False) -> Built:
    """Builds the server, or finds that it is built.

    Args:
        state: As from `state_folder`.
        force: Build even if this state of the sources was built before.
    Raises:
        BuildError: A command failed, could not be started, or took over BUILD_TIMEOUT_S; or the server's command is
            not there afterwards.
    """
    server = project.server
    mark = await anyio.to_thread.run_sync(fingerprint, project)
    if not server.build and not server.venv:
        return Built(fingerprint=mark)
    builds = state / "builds"
    folder = builds / mark
    builds.mkdir(parents=True, exist_ok=True)
    async with _locked(builds / "lock", progress, server.name):
        built = Built(fingerprint=mark, bin=folder / "venv" / "bin" if server.venv else None, log=folder / "build.log")
        if not force:
            why = _why_not(builds, mark, project)
            if not why:
                progress.note(server.name, "build: nothing has changed, reused")
                return built
            if why != NEW:
                progress.note(server.name, f"build: made again, {why}")
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
        folder.mkdir()
        with suppress(FileNotFoundError):
            (builds / "current").unlink()
        with stage(progress, server.name, "build"):
            await _build(project, folder, scope)
        _check_command(project, built)
        done = {"place": _place(folder), "artefacts": _artefacts(project), "left": _left_behind(project)}
        _write(folder / "done.json", json.dumps(done))
        _write(builds / "current", mark)
        _remove_old(builds, mark)
        return built


def _remove_old(builds: Path, mark: str) -> None:
    done = sorted(builds.glob("*/done.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in done[KEPT_BUILDS:]:
        if path.parent.name != mark and time.time() - path.stat().st_mtime > KEPT_S:
            shutil.rmtree(path.parent, ignore_errors=True)


async def _build(project: ProjectSpec, folder: Path, scope: Scope) -> None:
    server = project.server
    home = scope.tmp / "build-home"
    tmp = scope.tmp / "build-tmp"  # also what marks these processes as ours
    for item in (home, tmp):
        item.mkdir(exist_ok=True)
    venv = folder / "venv" if server.venv else None
    env = dict(build_environment(os.environ, venv=venv, home=home), TMPDIR=str(tmp))
    commands: list[Sequence[str]] = []
    if venv is not None:
        commands.append(venv_command(await anyio.to_thread.run_sync(find_interpreter, server.python), venv))
    values = {"repo": str(project.root), "tmp": str(tmp), **{f"env.{k}": v for k, v in os.environ.items()}}
    try:
        commands += [[expand(part, values) for part in command] for command in server.build]
    except UnknownPlaceholder as error:
        raise BuildError(f"a build command uses ${{{error.args[0]}}}, which has no value", server=server.name) from None
    masker = callers_masker()
    used = {name.removeprefix("env.") for name in names_in(server.build) if name.startswith("env.")}
    masker.add(*(os.environ[name] for name in used if name in os.environ))
    path = folder / "build.log"
    try:
        with path.open("wb") as log:
            for command in commands:
                await _run(command, cwd=project.root, env=env, log=log, masker=masker, server=server.name)
            if venv is not None:  # a server that is byte-compiled starts in half the time
                compile_all = [str(venv / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", str(venv / "lib")]
                await run_logged(compile_all, cwd=project.root, env=env, log=log)
    finally:
        path.write_bytes(masker.bytes(path.read_bytes()))


async def _run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: IO[bytes], masker: Masker, server: str
) -> None:
    shown = masker.text(shlex.join(command))
    log.write(f"$ {shown}\n".encode())
    log.flush()
    began = log.tell()
    through_nox = os.environ.get("ROLLCALL_NOX") == "1"
    again = ["nox", "-s", "build", "--", server] if through_nox else ["mcp-rollcall", "build", "--project", str(cwd)]
    hint = f"to see it again: {shlex.join(again)}"
    try:
        with anyio.fail_after(BUILD_TIMEOUT_S):
            code = await run_logged(command, cwd=cwd, env=env, log=log)
    except TimeoutError:
        tail = last_lines(Path(log.name), began, maskers=[masker])
        raise BuildError(
            f"build command took over {BUILD_TIMEOUT_S:g} s: {shown}", hint=hint, log=tail, server=server
        ) from None
    except OSError as error:
        hint = f"is {command[0]!r} installed and on PATH?"
        if error.errno == errno.E2BIG:
            size = sum(len(name) + len(value) + 2 for name, value in env.items())
            shown = f"{shown[:200]}…" if len(shown) > 200 else shown
            hint = f"shorten it, or the environment that a build is given: {size:,} bytes in {len(env)} variables"
        raise BuildError(
            f"build command could not be started: {shown}: {error.strerror}",
            hint=hint,
            server=server,
        ) from error
    if code != 0:
        tail = last_lines(Path(log.name), began, maskers=[masker])
        remedy = _remedy(command, cwd)
        raise BuildError(
            f"build command ended with exit code {code}: {shown}",
            hint=f"{remedy}; {hint}" if remedy else hint,
            log=tail,
            server=server,
        )


def _remedy(command: Sequence[str], cwd: Path) -> str:
    """What to do about failures that are known by their circumstances."""
    program, first = Path(command[0]).name, command[1] if len(command) > 1 else ""
    if program == "npm" and first in ("ci", "clean-install"):
        locks = ("package-lock.json", "npm-shrinkwrap.json")
        if not any((cwd / name).exists() for name in locks):
            return "`npm ci` needs a package-lock.json: commit the one that `npm install` writes"
        return "if the lock file is out of step with package.json, run `npm install` and commit it"
    return ""


async def run_logged(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: IO[bytes],
    errors: IO[bytes] | None = None,
) -> int:
    """Runs a command in a session of its own, its output going to a file; kills the whole group if we are cancelled.

    Args:
        errors: Takes the standard error; `log` takes it too without.
    Returns:
        Its exit code, negative for a signal.
    Raises:
        OSError: It could not be started.
    """
    program = shutil.which(command[0], path=env.get("PATH")) or command[0]
    process = await anyio.open_process(
        [program, *command[1:]],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT if errors is None else errors,
        start_new_session=True,
    )
    try:
        return await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end_group(process.pid, process)


async def _end_group(group: int, process: anyio.abc.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            break
        with anyio.move_on_after(KILL_AFTER_S):
            await process.wait()
            while _alive(group):
                await anyio.sleep(0.05)
    await process.wait()


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def callers_masker() -> Masker:
    """Masks what the caller's environment, which builds and installations are given, names a secret."""
    return Masker(value for name, value in os.environ.items() if is_secret_name(name))


def last_lines(path: Path, offset: int = 0, *, lines: int = LOG_LINES, maskers: Sequence[Masker] = ()) -> str:
    """The end of a log from an offset on, masked before it is cut; of what is cut away, the lines that speak of errors
    are kept.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(offset, size - LOG_READ_BYTES)
        file.seek(start)
        data = file.read()
    if start > offset:
        data = data.partition(b"\n")[2] or data  # half a line, with half a secret perhaps
    for masker in maskers:
        data = masker.bytes(data)
    all_lines = data.decode("utf-8", "replace").splitlines()
    cut, kept = all_lines[:-lines], all_lines[-lines:]
    reasons = [line for line in cut if _REASON.search(line)][:LOG_REASONS]
    return "\n".join([*reasons, *(["…"] if cut else []), *kept])


@asynccontextmanager
async def _locked(path: Path, progress: Progress, subject: str) -> AsyncIterator[None]:
    """One build at a time in one repository; another harness's build is waited for."""
    began = time.monotonic()
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - began > BUILD_TIMEOUT_S:
                    raise BuildError(
                        f"another build has held {path} for {BUILD_TIMEOUT_S:g} s", server=subject
                    ) from None
                progress.waiting(subject, "build", "another build in this repository")
                await anyio.sleep(0.2)
        yield


def _why_not(builds: Path, mark: str, project: ProjectSpec) -> str:
    """Why a build must be made, "" if the one that is there is whole."""
    try:
        done = json.loads((builds / mark / "done.json").read_text(encoding="utf-8"))
        place, artefacts, left = done["place"], done["artefacts"], done["left"]
    except (OSError, ValueError, TypeError, KeyError):
        return NEW
    if place != _place(builds / mark):
        return f"it was made in {place}, and a build cannot be moved"
    if _touches_the_tree(project):
        try:
            if (builds / "current").read_text(encoding="utf-8") != mark:
                return "another state was built since then"
        except OSError:
            return "another build was begun since then"
        if gone := [name for name in left if not (project.root / name).exists()]:
            return f"what it left in the working tree is gone: {', '.join(gone)}"
    if project.server.venv and not (builds / mark / "venv" / "bin" / "python").exists():
        return "the interpreter of its virtual environment is gone"
    if artefacts == _artefacts(project):
        return ""
    return "what it made, or what [server] command names, has changed since then"


def _place(folder: Path) -> str:
    return os.path.abspath(folder)


def _touches_the_tree(project: ProjectSpec) -> bool:
    """Whether a build may leave files in the working tree: anything but installing into the venv."""
    return any(
        Path(command[0]).name not in ("pip", "pip3") or "-e" in command or "--editable" in command
        for command in project.server.build
    )


def _artefacts(project: ProjectSpec) -> list[list[object]]:
    """What the build left in the tree, as far as the command shows it: path, size, content."""
    values = {"repo": str(project.root)}
    names = [expand(part, values) for part in project.server.command if set(names_in(part)) <= {"repo"}]
    out: list[list[object]] = []
    for name in [*names, "node_modules/.package-lock.json"]:
        path = project.root / project.server.cwd / name
        with suppress(OSError, ValueError):
            if path.is_file():
                stat = path.stat()
                large = stat.st_size > HASH_LIMIT_BYTES
                seen = str(stat.st_mtime_ns) if large else hashlib.sha256(path.read_bytes()).hexdigest()
                out.append([name, stat.st_size, seen])
    return out


def _left_behind(project: ProjectSpec) -> list[str]:
    """What stands in the working tree that git ignores, a folder as one: node_modules, dist. Without git, nothing.

    Names with a dot in front are caches of other tools, which come and go; but for a virtual environment.
    """
    found = _git(project.root, "--others", "--ignored", "--exclude-standard", "--directory")
    return sorted(name for name in found or () if not any(map(_is_cache, Path(name).parts)))


def _is_cache(name: str) -> bool:
    return name == "__pycache__" or (name.startswith(".") and name != ".venv")


def _check_command(project: ProjectSpec, built: Built) -> None:
    server = project.server
    program = server.command[0]
    if "${" in program:
        return
    env = build_environment(os.environ, venv=built.bin.parent if built.bin else None, home=project.root)
    if os.sep in program:
        found = (project.root / server.cwd / program).exists()
    else:
        found = shutil.which(program, path=env.get("PATH")) is not None
    if found:
        return
    moved = [name for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER") if os.environ.get(name)]
    where = f"in {built.bin} or on PATH" if built.bin else "on PATH"
    raise BuildError(
        f"after the build there is no {program!r} {where}, which [server] command starts",
        hint=f"set by the caller and dropped for builds: {', '.join(moved)}"
        if moved
        else "does the package install it?",
        log=last_lines(built.log, maskers=[callers_masker()]) if built.log else "",
        server=server.name,
    )


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
