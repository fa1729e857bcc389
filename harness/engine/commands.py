"""Test commands of somebody's own, run while the stack stands: one after the other, each bounded, none left behind.

A command is told where the server and its backends are by variables, and by `session.json`; what its servers say is
written into the evidence of the run by whoever starts them, the pytest plugin or the recording proxy.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import anyio

import harness
from harness.engine.environment import build_environment
from harness.engine.mask import Masker
from harness.engine.process import ServerProcess, start_process
from harness.engine.scope import Scope
from harness.engine.shim import make_shim, proxy_command
from harness.errors import ServerError
from harness.model.placeholders import UnknownPlaceholder, expand
from harness.model.plan import CommandSpec
from harness.model.progress import Progress
from harness.model.session import (
    ENVIRONMENT_FILE,
    SESSION_FILE,
    SESSION_VARIABLE,
    SessionSpec,
    session_to_json,
)
from harness.model.transcript import OUTSIDE, CommandRecord

__all__ = ["GRACE_S", "OUTPUT_TAIL_BYTES", "CommandBench", "run_commands"]

OUTPUT_TAIL_BYTES = 64 * 1024
GRACE_S = 5.0  # what a command has started may live on so long: a server whose client is gone ends, and is recorded
DRAIN_S = 2.0  # for its last words, while somebody holds its output open
PROBE_S = 30.0
FRONT_S = 30.0  # for the proxy before a server over HTTP
FRONT_POLL_S = 0.02
NO_TESTS = 5  # pytest's exit code where it is left with no test

Outcome = Literal["passed", "failed", "timed-out", "other-runs"]
_OUTPUT = re.compile(r"backend\.([^.]+)\.(.+)")
# the interpreter of a project's venv finds what it lacks in our own folders, which come last
_BOOTSTRAP = "import sys; sys.path += {paths!r}; import pytest; sys.exit(pytest.console_main())"
_PROBE = """
import importlib.metadata, importlib.util, json, sys
ours = bool(list(importlib.metadata.Distribution.discover(name="mcp-rollcall")))
print(json.dumps([sys.version_info[:2], importlib.util.find_spec("pytest") is not None, ours]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandBench:
    """What all commands of a run share.

    Attributes:
        session: The run that stands.
        root: The folder of harness.toml.
        bin: The folder of programs of the build, or None.
        values: Placeholder -> value.
    """

    session: SessionSpec
    root: Path
    bin: Path | None
    values: Mapping[str, object]
    masker: Masker
    scope: Scope
    progress: Progress
    subject: str


async def run_commands(commands: Iterable[CommandSpec], bench: CommandBench, records: list[CommandRecord]) -> None:
    """Runs commands one after the other; what becomes of each is added to `records` at its end, and is never raised.

    A cancellation ends the command that runs, and is raised again.
    """
    for command in commands:
        folder = bench.scope.tmp / f"command-{token_hex(8)}"
        folder.mkdir(mode=0o700)
        _write_private(folder / SESSION_FILE, session_to_json(bench.session))
        what = f"command {command.id}"
        bench.progress.begin(bench.subject, what)
        began = anyio.current_time()
        record = None
        try:
            record = await _run(command, bench, folder)
            records.append(record)
        finally:
            good = record is not None and record.outcome in ("passed", "other-runs")
            detail = "" if record is None or record.outcome == "passed" else _words(record)
            bench.progress.end(bench.subject, what, ok=good, seconds=anyio.current_time() - began, detail=detail)
            shutil.rmtree(folder, ignore_errors=True)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _words(record: CommandRecord) -> str:
    if record.outcome == "other-runs":
        return "its tests are for other runs"
    if record.exit is not None:
        return f"exit code {record.exit}" if record.exit >= 0 else f"signal {-record.exit}"
    return record.outcome


async def _run(command: CommandSpec, bench: CommandBench, folder: Path) -> CommandRecord:
    before = _transcripts(bench.session)
    try:
        argv = [expand(part, bench.values) for part in command.argv]
        declared = {name: expand(text, bench.values) for name, text in command.env.items()}
    except UnknownPlaceholder as error:
        said = f"${{{error.args[0]}}} has no value here"
        return CommandRecord(id=command.id, outcome="not-started", output=said)
    cwd = bench.root / command.cwd
    env = {**_environment(bench, folder), **declared}
    _write_private(folder / ENVIRONMENT_FILE, json.dumps(env))
    if command.kind == "pytest":
        found = await anyio.to_thread.run_sync(_pytest, bench.bin, env)
        if isinstance(found, str):
            return CommandRecord(id=command.id, outcome="not-started", output=found)
        argv = [*found, *argv]
    if bench.session.url and command.kind == "command":
        front = await _open_front(bench, folder)
        if isinstance(front, str):
            return CommandRecord(id=command.id, outcome="not-started", output=bench.masker.text(front))
        env["ROLLCALL_SERVER_URL"] = front.url
        if bench.session.headers:
            env["ROLLCALL_SERVER_HEADERS"] = json.dumps(dict(bench.session.headers))
        try:
            return await _watch(command, bench, folder, argv, cwd, env, before)
        finally:
            with anyio.CancelScope(shield=True):
                await front.close()
    return await _watch(command, bench, folder, argv, cwd, env, before)


async def _watch(
    command: CommandSpec,
    bench: CommandBench,
    folder: Path,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    before: set[str],
) -> CommandRecord:
    try:
        process = start_process(argv, cwd=cwd, env=env, marker=f"{folder}{os.sep}", plain=True)
    except ServerError as error:
        said = bench.masker.text(error.message)
        return CommandRecord(id=command.id, outcome="not-started", output=said)
    tail = _Tail()
    ended = False
    try:
        with anyio.CancelScope(shield=True):
            await tail.connect(process)
        with anyio.move_on_after(command.timeout_s):
            await process.ended.wait()
        ended = process.ended.is_set()
    finally:
        with anyio.CancelScope(shield=True):
            how = await process.stop(lambda: None, hurry=True, grace_s=GRACE_S)
            await tail.close()
    output = bench.masker.bytes(tail.data)[-OUTPUT_TAIL_BYTES:].decode("utf-8", "backslashreplace")
    if how.orphans:
        left = "\n".join(bench.masker.text(orphan.command) for orphan in how.orphans)
        output += f"\n[left running, and killed:]\n{left}\n"
    code = how.code if ended else None
    return CommandRecord(
        id=command.id,
        exit=code,
        outcome=_outcome(command, code),
        output=output,
        transcripts=len(_transcripts(bench.session) - before),
    )


def _outcome(command: CommandSpec, code: int | None) -> Outcome:
    if code is None:
        return "timed-out"
    if command.kind == "pytest" and code == NO_TESTS:
        return "other-runs"
    return "failed" if code else "passed"


@dataclass(frozen=True, slots=True)
class _Front:
    """A recording proxy before a server over HTTP."""

    url: str
    process: ServerProcess
    tail: _Tail

    async def close(self) -> None:
        """Ends it; what it recorded is whole then."""
        self.process.signal(signal.SIGTERM)
        with anyio.move_on_after(GRACE_S):
            await self.process.ended.wait()
        await self.process.stop(lambda: None, hurry=True)
        await self.tail.close()


async def _open_front(bench: CommandBench, folder: Path) -> _Front | str:
    """The proxy, once it takes connections; or why there is none."""
    port_file = folder / "port"
    session, url = bench.session, urlsplit(bench.session.url)
    argv = [*proxy_command(folder / SESSION_FILE), "--port-file", str(port_file), "--http", session.url]
    env = {"PATH": session.env.get("PATH", ""), SESSION_VARIABLE: str(folder / SESSION_FILE)}
    process = start_process(argv, cwd=folder, env=env, marker=f"{folder}{os.sep}front", plain=True)
    tail = _Tail()
    ready = False
    try:
        with anyio.CancelScope(shield=True):
            await tail.connect(process)
        with anyio.move_on_after(FRONT_S):
            while not port_file.exists() and not process.ended.is_set():
                await anyio.sleep(FRONT_POLL_S)
        ready = port_file.exists()
    finally:
        if not ready:
            with anyio.CancelScope(shield=True):
                await process.stop(lambda: None, hurry=True)
                await tail.close()
    if not ready:
        return f"the recording proxy did not begin: {tail.data.decode('utf-8', 'replace').strip()}"
    port = port_file.read_text(encoding="ascii").strip()
    return _Front(urlunsplit(url._replace(netloc=f"127.0.0.1:{port}")), process, tail)


def _transcripts(session: SessionSpec) -> set[str]:
    return {path.name for path in Path(session.evidence).glob(f"{OUTSIDE}-*.jsonl")}


class _Tail(asyncio.Protocol):
    """The end of all that a command prints; all of it is read."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._end = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    async def connect(self, process: ServerProcess) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self, process.output)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 4 * OUTPUT_TAIL_BYTES:
            del self._data[: -2 * OUTPUT_TAIL_BYTES]  # twice of it: what is cut is masked first

    def connection_lost(self, _exc: Exception | None) -> None:
        self._end.set()

    async def close(self) -> None:
        with anyio.move_on_after(DRAIN_S):
            await self._end.wait()
        if self._transport is not None:
            self._transport.close()


# --- what a command is told -----------------------------------------------------------------------


def _environment(bench: CommandBench, folder: Path) -> dict[str, str]:
    """The environment of a build, and what says where everything is."""
    session, run = bench.session, bench.session.run
    home, tmp = folder / "home", folder / "tmp"
    for place in (home, tmp):
        place.mkdir()
    env = build_environment(os.environ, venv=bench.bin.parent if bench.bin is not None else None, home=home)
    env["TMPDIR"] = str(tmp)
    for name, value in session.values.items():
        found = _OUTPUT.fullmatch(name)
        if found is not None:
            env[f"ROLLCALL_BACKEND_{_upper(found[1])}_{_upper(found[2])}"] = value
    path = folder / SESSION_FILE
    through = proxy_command(path)
    shim = make_shim(
        folder / "bin",
        command=session.command,
        cwd=Path(session.cwd),
        session=path,
        path=session.env.get("PATH", env["PATH"]),
        scope=bench.scope,
    )
    if shim is not None:
        env["PATH"] = f"{shim}{os.pathsep}{env['PATH']}"
    return {
        **env,
        SESSION_VARIABLE: str(path),
        "ROLLCALL_SERVER": run.server,
        "ROLLCALL_ERA": run.era,
        "ROLLCALL_PROFILE": run.profile,
        "ROLLCALL_SERVER_COMMAND": shlex.join(through),
        "ROLLCALL_SERVER_COMMAND_JSON": json.dumps(through),
    }


def _upper(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


# --- pytest ---------------------------------------------------------------------------------------


def _pytest(bin: Path | None, env: Mapping[str, str]) -> Sequence[str] | str:  # noqa: A002 - the folder is called so
    """The command that runs pytest with our plugin, or why there is none.

    The interpreter of the project's venv goes first, if it has pytest: it alone has what the tests import. It needs no
    mcp-rollcall of its own where it is of our version of Python: what it lacks is then found in our own folders.
    """
    options = _options()
    found = _probe(bin / "python", env) if bin is not None else None
    if bin is not None and found is not None and found.pytest and found.rollcall:
        return [str(bin / "python"), "-m", "pytest", *options]
    if bin is not None and found is not None and found.pytest and found.version == sys.version_info[:2]:
        return [str(bin / "python"), "-c", _BOOTSTRAP.format(paths=_our_paths()), *options]
    if find_spec("pytest") is not None:
        return [sys.executable, "-P", "-m", "pytest", *options]
    return (
        "there is no pytest: neither the interpreter of the project's venv has it, nor the one that runs mcp-rollcall; "
        'install it with the server, such as build = ["pip install -e . pytest"]'
    )


def _options() -> tuple[str, ...]:
    """How pytest is told of our plugin; an installation that is older than its entry point has the module alone."""
    if find_spec("harness.pytest_plugin") is None:
        return ()
    known = entry_points(group="pytest11", name="mcp_rollcall")
    return ("-p", "mcp_rollcall" if known else "harness.pytest_plugin")


def _our_paths() -> list[str]:
    """Where we and all that we import lie."""
    places = [str(Path(harness.__file__).parent.parent), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return list(dict.fromkeys(places))


@dataclass(frozen=True, slots=True)
class _Found:
    """What an interpreter has."""

    version: tuple[int, ...]
    pytest: bool
    rollcall: bool


def _probe(program: Path, env: Mapping[str, str]) -> _Found | None:
    """None if it does not run."""
    try:
        done = subprocess.run(
            [str(program), "-P", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            stdin=subprocess.DEVNULL,
            env=dict(env),
            check=False,
        )
        version, pytest, rollcall = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return _Found(tuple(version), bool(pytest), bool(rollcall))
