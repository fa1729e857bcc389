"""The `process` form of a backend: the same service without Docker, from PyPI packages, on a free port of 127.0.0.1.

Packages are installed once for each fingerprint into `<state>/backends/<fingerprint>`, a link that appears when the
venv behind it is whole; so a half-made one is never used, whoever was killed meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex

import anyio
import anyio.to_thread

from harness.engine.build import callers_masker, last_lines, run_logged
from harness.engine.environment import build_environment, server_environment
from harness.engine.mask import Masker, is_secret_name
from harness.engine.provision import Standing, expanded, make_outputs, make_secrets, provision
from harness.engine.python import find_interpreter, venv_command
from harness.engine.ready import Probe, command_probe, network_probe, wait_ready
from harness.engine.reset import Resetting, former
from harness.engine.scope import STACK_FOLDER, Scope
from harness.errors import BuildError, StackError
from harness.model.placeholders import UnknownPlaceholder, names_in
from harness.model.plan import BackendSpec, EmbeddedSpec, ProvisionSpec, RoleChoice
from harness.model.progress import Progress, stage

__all__ = ["INSTALL_TIMEOUT_S", "STOP_GRACE_S", "Embedded", "listeners"]

INSTALL_TIMEOUT_S = 600.0
STOP_GRACE_S = 3.0  # after TERM, and again after KILL
START_ATTEMPTS = 3  # a free port may be taken by somebody else before the service has it
COMMAND_TIMEOUT_S = 10.0
LOG_LIMIT_BYTES = 4 * 1024 * 1024
LOG_TAIL_LINES = 40
SCRIPT_OUTPUT_LIMIT_BYTES = 1024 * 1024
_TAKEN = re.compile(r"address already in use|EADDRINUSE|errno 98", re.IGNORECASE)


class _PortTaken(Exception):
    pass


class Embedded:
    """One backend as a process, from nothing to gone."""

    def __init__(
        self,
        role: RoleChoice,
        spec: BackendSpec,
        *,
        scope: Scope,
        masker: Masker,
        progress: Progress,
        subject: str,
        state: Path,
    ) -> None:
        self._role = role
        self._spec = spec
        self._scope = scope
        self._masker = masker
        self._progress = progress
        self._subject = subject
        self._state = state
        self._folder = scope.tmp / f"{STACK_FOLDER}{token_hex(6)}"
        self._service: _Service | None = None
        self._env: Mapping[str, str] = {}  # the service's
        self._venv: Path | None = None
        self._values: dict[str, str] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._said_version = ""
        self._resetting: Resetting | None = None

    async def open(self) -> Standing:
        """Stands it up.

        Raises:
            StackError: It does not stand, or has no process form; `close` is still to be called.
        """
        spec, process = self._spec, self._spec.process
        if process is None:
            raise StackError(
                f"backend {spec.name} has no process form ({spec.place} has no [process]), so it needs Docker",
                hint="start Docker, or leave this backend out with --backend",
            )
        self._venv = await self._install(process)
        with stage(self._progress, self._subject, f"start {self._role.label}"):
            self._values = {"version": self._role.version, **make_secrets(spec, self._masker)}
            self._addresses = await self._start(process, self._venv, self._values)
            await self._provision()
            self._said_version = await self._version(process, self._venv, self._values)
        return self._standing()

    async def _provision(self) -> None:
        self._values |= await provision(
            self._spec,
            self._values,
            allowed=self._addresses.values(),
            masker=self._masker,
            execute=None,
            run_script=partial(self._script, self._venv, self._values),
        )
        assert self._service is not None
        if (ended := self._service.ended()) is not None:
            raise self._failure(f"{ended} after it was ready", "")

    def _standing(self) -> Standing:
        return Standing(
            outputs=make_outputs(self._spec, self._values, self._masker),
            addresses=tuple(self._addresses.values()),
            names=(),
            version=self._said_version,
            logs=self._logs,
        )

    async def remember(self) -> None:
        """See `Backends.remember`."""
        process = self._spec.process
        if process is None or process.reset is None:
            raise StackError(f"{self._spec.place}: it has no [process.reset]")
        self._resetting = Resetting(
            name=self._role.label,
            spec=process.reset,
            masker=self._masker,
            execute=self._beside,
            addresses=tuple(self._addresses.values()),
        )
        await self._resetting.remember(self._values)

    async def reset(self) -> Standing:
        """See `Backends.reset`."""
        process, resetting, service = self._spec.process, self._resetting, self._service
        if process is None or resetting is None or service is None:
            raise StackError(f"{self._role.label}: it was not made ready to be reset")
        if (ended := service.ended()) is not None:
            raise self._failure(f"{ended} while a run used it", "")
        before = former(self._spec, self._values)
        self._values |= make_secrets(self._spec, self._masker)
        self._env = {**self._env, **self._declared(process, self._values)}
        await resetting.renew({**self._values, **before})
        await self._wait(process, service, self._addresses, self._values, self._env, Path(self._values["dir"]))
        await self._provision()
        await resetting.prove(self._values)
        service.log.forget()
        return self._standing()

    async def _beside(self, _service: str | None, argv: Sequence[str]) -> tuple[int | None, bytes, bytes]:
        """Runs a command beside the service, in `${dir}`, with its environment."""
        folder = self._folder / f"step-{token_hex(4)}"
        folder.mkdir()
        try:
            return await _printed(argv, env=self._env, cwd=Path(self._values["dir"]), folder=folder)
        except OSError as error:
            raise StackError(f"{self._role.label}: {argv[0]!r} cannot be run: {error}") from None

    def _declared(self, process: EmbeddedSpec, values: Mapping[str, str]) -> dict[str, str]:
        where = f"{self._spec.place} [process]"
        declared = {key: expanded(value, values, where=f"{where} env {key}") for key, value in process.env.items()}
        self._masker.add(*(value for key, value in declared.items() if is_secret_name(key)))
        return declared

    async def close(self) -> list[str]:
        """Ends the process and all that it started; says what could not be ended."""
        left = await self._stop()
        await anyio.to_thread.run_sync(partial(shutil.rmtree, self._folder, ignore_errors=True))
        return left

    # installing

    async def _install(self, process: EmbeddedSpec) -> Path | None:
        if not process.install:
            return None
        name = self._spec.name
        try:
            python = await anyio.to_thread.run_sync(find_interpreter, process.python)
        except BuildError as error:
            raise StackError(f"backend {name}: {error.message}", hint=error.hint) from None
        mark = hashlib.sha256(json.dumps([1, process.install, python.path, python.version]).encode()).hexdigest()[:16]
        home = self._state / "backends"
        home.mkdir(parents=True, exist_ok=True)
        link = home / mark
        async with _locked(home / f"{mark}.lock"):
            if (link / "bin" / "python").exists():
                return link.resolve()
            for rest in home.glob(f"{mark}.venv-*"):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, rest, ignore_errors=True))
            venv = home / f"{mark}.venv-{token_hex(4)}"
            try:
                with stage(self._progress, self._subject, f"install {' '.join(process.install)}"):
                    tool = ["uv"] if shutil.which("uv") else [str(venv / "bin" / "python"), "-m"]
                    await self._run_install(venv_command(python, venv), venv)
                    await self._run_install([*tool, "pip", "install", *process.install], venv)
            except BaseException:
                shutil.rmtree(venv, ignore_errors=True)
                raise
            fresh = home / f"{mark}.link-{token_hex(4)}"
            fresh.symlink_to(venv.name)
            fresh.replace(link)
            return venv.resolve()

    async def _run_install(self, command: Sequence[str], venv: Path) -> None:
        home = self._scope.tmp / f"install-{token_hex(4)}"
        home.mkdir()
        env = {**build_environment(os.environ, venv=venv, home=home), "TMPDIR": str(home)}
        log_path = home / "install.log"
        shown = " ".join(command)
        try:
            with log_path.open("wb") as log:
                with anyio.fail_after(INSTALL_TIMEOUT_S):
                    code = await run_logged(command, cwd=home, env=env, log=log)
        except TimeoutError:
            raise StackError(
                f"backend {self._spec.name}: `{shown}` took over {INSTALL_TIMEOUT_S:g} s", log=self._said(log_path)
            ) from None
        except OSError as error:
            raise StackError(f"backend {self._spec.name}: `{shown}` could not be started: {error}") from None
        if code != 0:
            raise StackError(
                f"backend {self._spec.name}: `{shown}` ended with exit code {code}",
                hint="is the package index reachable from here?",
                log=self._said(log_path),
            )
        await anyio.to_thread.run_sync(partial(shutil.rmtree, home, ignore_errors=True))

    def _said(self, log: Path) -> str:
        """The end of what an installation said, without what the caller's variables or the stack name a secret."""
        return last_lines(log, maskers=[self._masker, callers_masker()])

    # running

    async def _start(
        self, process: EmbeddedSpec, venv: Path | None, values: dict[str, str]
    ) -> dict[str, tuple[str, int]]:
        """Starts it, on other ports if somebody else was faster; adds what is known then to `values`."""
        attempt = 1
        while True:
            try:
                return await self._start_once(process, venv, values)
            except _PortTaken as error:
                await self._stop()
                if attempt == START_ATTEMPTS:
                    raise StackError(f"{self._role.label}: {error}, {attempt} times") from None
                self._progress.note(self._subject, f"{self._role.label}: {error}; trying other ports")
                attempt += 1

    async def _start_once(
        self, process: EmbeddedSpec, venv: Path | None, values: dict[str, str]
    ) -> dict[str, tuple[str, int]]:
        folder = self._folder / token_hex(4)
        data = folder / "data"
        data.mkdir(parents=True)
        addresses = {name: ("127.0.0.1", port) for name, port in _free_ports(_port_names(self._spec, process)).items()}
        values["dir"] = str(data)
        for name, (host, port) in addresses.items():
            values |= {f"port.{name}": str(port), f"address.{name}": f"{host}:{port}"}
        where = f"{self._spec.place} [process]"
        for name, text in process.files.items():
            path = data / name
            if not path.resolve().is_relative_to(data.resolve()):
                raise StackError(f"{where}.files: {name!r} is not inside ${{dir}}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expanded(text, values, where=f"{where}.files {name}"), encoding="utf-8")
            path.chmod(0o600)
        self._env = env = _environment(venv, folder) | self._declared(process, values)
        argv = [expanded(part, values, where=f"{where} command") for part in process.command]
        self._service = service = _Service(argv, env, data)
        await self._wait(process, service, addresses, values, env, data)
        self._check_listeners(service, addresses)
        return addresses

    async def _wait(
        self,
        process: EmbeddedSpec,
        service: _Service,
        addresses: Mapping[str, tuple[str, int]],
        values: Mapping[str, str],
        env: Mapping[str, str],
        cwd: Path,
    ) -> None:
        where = f"{self._spec.place} [process] ready"
        if process.ready is None or process.ready.image:
            raise StackError(f"{where}: nothing says when it is ready", hint="give it `http`, `tcp` or `exec`")
        probe: Probe
        if process.ready.exec is not None:
            argv = [expanded(part, values, where=where) for part in process.ready.exec]
            probe = command_probe(argv, partial(_output, env=env, cwd=cwd), self._masker)
        else:
            try:
                probe = network_probe(process.ready, addresses, values, self._masker)
            except UnknownPlaceholder as error:
                raise StackError(f"{where}: ${{{error.args[0]}}} has no value") from None
            except KeyError as error:
                raise StackError(f"{where}: there is no port {error.args[0]!r}") from None

        async def watch() -> str | None:
            return service.ended()

        what = f"start {self._role.label}"
        waited = await wait_ready(
            probe,
            watch,
            timeout_s=process.ready_timeout_s,
            seen=lambda text: self._progress.waiting(self._subject, what, self._masker.text(text)),
        )
        if waited.ready:
            return
        if waited.ended is not None:
            service.drain()
            if _TAKEN.search(service.log.tail(self._masker)):
                raise _PortTaken("its port was taken by somebody else")
            raise self._failure(f"{waited.ended} after {waited.seconds:.1f} s", waited.observation)
        raise self._failure(f"was not ready within {process.ready_timeout_s:g} s", waited.observation)

    def _check_listeners(self, service: _Service, addresses: Mapping[str, tuple[str, int]]) -> None:
        """What answers must be ours, and must not be open to others."""
        mine = listeners(service.pids())
        if mine is None:
            return
        for _name, (host, port) in addresses.items():
            hosts = {found for found, number in mine if number == port}
            if not hosts:
                raise _PortTaken(f"what listens on {host}:{port} is not the service we started")
            if public := hosts - {"127.0.0.1", "::1", "::ffff:127.0.0.1"}:
                raise StackError(
                    f"{self._role.label}: it listens on {', '.join(sorted(public))} port {port}, open to others",
                    hint=f"make it bind 127.0.0.1 only, in {self._spec.place} [process]",
                )

    async def _script(
        self, venv: Path | None, values: Mapping[str, str], number: int, step: ProvisionSpec, env: Mapping[str, str]
    ) -> tuple[int | None, bytes, bytes]:
        """Runs a copy of a script beside the service, in `${dir}`; a Python file in its Python."""
        assert step.script is not None
        folder = self._folder / f"script-{number}-{token_hex(4)}"
        folder.mkdir()
        script = folder / Path(step.script).name
        where = f"{self._spec.name}: provisioning step {number}"
        try:
            script.write_bytes((self._spec.folder / step.script).read_bytes())
            script.chmod(0o500)
            argv = [str(script)]
            if script.suffix == ".py":
                argv = [str(venv / "bin" / "python") if venv is not None else sys.executable, *argv]
            whole = {**self._env, **env}  # the HOME by which `close` finds whatever stays
            return await _printed(argv, env=whole, cwd=Path(values["dir"]), folder=folder)
        except OSError as error:
            raise StackError(f"{where}: {step.script} cannot be run: {error}") from None

    async def _version(self, process: EmbeddedSpec, venv: Path | None, values: Mapping[str, str]) -> str:
        if not process.version_command:
            return ""
        where = f"{self._spec.place} [process] version"
        argv = [expanded(part, values, where=where) for part in process.version_command]
        folder = self._folder / "version"
        folder.mkdir(exist_ok=True)
        code, text = await _output(argv, env=_environment(venv, folder), cwd=folder)
        found = re.search(process.version_matches or r"\d+(?:\.\d+)+", text)
        if code != 0 or found is None:
            shown = f"{self._masker.text(text)[:200]!r}"
            said = self._masker.text(f"`{' '.join(argv)}` ended with exit code {code}: {shown}")
            self._progress.note(self._subject, f"{self._role.label}: its version is unknown: {said}")
            return ""
        return found[1] if found.re.groups else found[0]

    def _failure(self, how: str, observation: str) -> StackError:
        assert self._service is not None
        self._service.drain()
        last = f" Last seen: {observation}." if observation else ""
        now = self._service.ended() or "is alive"
        return StackError(
            f"{self._role.label}: it {how}.{last} Its process {now}.", log=self._service.log.tail(self._masker)
        )

    async def _logs(self) -> Mapping[str, bytes]:
        return {self._spec.name: self._service.log.data()} if self._service is not None else {}

    async def _stop(self) -> list[str]:
        service, self._service = self._service, None
        if service is None:
            return []
        return await anyio.to_thread.run_sync(service.stop)  # not abandoned when cancelled, and bounded


class _Log:
    """The beginning and the end of what a process printed, read by a thread of its own until nobody can write."""

    def __init__(self, source: int) -> None:
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0
        self.thread = threading.Thread(target=self._read, args=(source,), name="backend log", daemon=True)
        self.thread.start()

    def _read(self, source: int) -> None:
        with open(source, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                with self._lock:
                    self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        room = LOG_LIMIT_BYTES // 2 - len(self._head)
        self._head += chunk[: max(0, room)]
        if rest := chunk[max(0, room) :]:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail_size > LOG_LIMIT_BYTES // 2:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self._dropped += len(gone)

    def forget(self) -> None:
        """What was printed until now is another run's."""
        with self._lock:
            self._head.clear()
            self._tail.clear()
            self._tail_size = self._dropped = 0

    def data(self) -> bytes:
        """What was kept, with a line that says how much was not."""
        with self._lock:
            gap = f"\n[… {self._dropped} bytes left out …]\n".encode() if self._dropped else b""
            return bytes(self._head) + gap + b"".join(self._tail)

    def tail(self, masker: Masker) -> str:
        """The last lines, masked before they are cut."""
        text = masker.bytes(self.data())[-65536:].decode("utf-8", "backslashreplace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


class _Service:
    """A running service in a session of its own.

    Raises:
        StackError: It could not be started.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        program = shutil.which(argv[0], path=env["PATH"])
        if program is None:
            raise StackError(f"there is no program {argv[0]!r} to start", hint=f"looked for on {env['PATH']}")
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [program, *argv[1:]],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
            )
        except OSError as error:
            os.close(reader)
            raise StackError(f"{program} could not be started: {error}") from None
        finally:
            os.close(writer)
        self._marker = f"HOME={env['HOME']}\0".encode()
        self.log = _Log(reader)

    def ended(self) -> str | None:
        """How it ended, None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def drain(self) -> None:
        """Lets the log catch up with a process that is over."""
        if self._process.poll() is not None:
            self.log.thread.join(0.5)

    def pids(self) -> list[int]:
        """Its processes: those of its session, and those that bear its HOME."""
        out = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if stat[0] == "Z":
                    continue
                pid = int(entry.name)
                if int(stat[3]) == self._process.pid or self._marker in (entry / "environ").read_bytes() + b"\0":
                    out.append(pid)
        return out

    def stop(self) -> list[str]:
        """TERM, wait, KILL, wait; to all of its processes. Says which are still there."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + STOP_GRACE_S
            sent: set[int] = set()
            while (pids := self._alive()) and time.monotonic() < until:
                for pid in pids - sent:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                sent |= pids
                time.sleep(0.02)
        self.log.thread.join(0.5)
        return [f"process {pid}" for pid in sorted(self._alive())]

    def _alive(self) -> set[int]:
        own = set() if self._process.poll() is not None else {self._process.pid}  # poll also reaps it
        return own | set(self.pids())


async def _printed(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, folder: Path
) -> tuple[int | None, bytes, bytes]:
    """Runs a command to its end: exit code, and the beginnings of stdout and stderr, which are kept in a folder."""
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        code = await run_logged(argv, cwd=cwd, env=env, log=out, errors=err)
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read(SCRIPT_OUTPUT_LIMIT_BYTES))
    return code, printed[0], printed[1]


async def _output(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> tuple[int | None, str]:
    """Runs a short command, at most COMMAND_TIMEOUT_S; gives its exit code (None: it did not run) and output."""
    with tempfile.TemporaryFile(dir=cwd) as log:
        try:
            with anyio.fail_after(COMMAND_TIMEOUT_S):
                code: int | None = await run_logged(argv, cwd=cwd, env=env, log=log)
        except TimeoutError:
            return None, f"no end within {COMMAND_TIMEOUT_S:g} s"
        except OSError as error:
            return None, str(error)
        log.seek(0)
        return code, log.read(65536).decode("utf-8", "backslashreplace")


def _environment(venv: Path | None, folder: Path) -> dict[str, str]:
    """From nothing, as a server's; its HOME and TMPDIR in our scope mark the process as ours."""
    env = server_environment({}, home=folder)
    if venv is not None:
        env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env['PATH']}"
    return env


def _port_names(spec: BackendSpec, process: EmbeddedSpec) -> tuple[str, ...]:
    """The declared ports, and those that its texts speak of."""
    used = [*process.command, *process.env.values(), *process.files.values(), *(out.value for out in spec.outputs)]
    names = [*process.ports]
    for name in names_in(used):
        kind, _, port = name.partition(".")
        if kind in ("port", "address"):
            names.append(port)
    if process.ready is not None:
        names += filter(None, [process.ready.http, process.ready.tcp])
    return tuple(dict.fromkeys(names))


def _free_ports(names: Sequence[str]) -> dict[str, int]:
    socks = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in names]
    try:
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return {name: sock.getsockname()[1] for name, sock in zip(names, socks, strict=True)}
    finally:
        for sock in socks:
            sock.close()


def listeners(pids: Sequence[int]) -> set[tuple[str, int]] | None:
    """The TCP addresses at which some processes listen; None where the system does not say."""
    inodes: set[str] = set()
    for pid in pids:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    out: set[tuple[str, int]] = set()
    found = False
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(OSError, ValueError, IndexError):
            for line in _table(f"/proc/net/{table}"):
                found = True
                if line[3] == "0A" and line[9] in inodes:
                    host, _, port = line[1].partition(":")
                    words = [bytes.fromhex(host[at : at + 8]) for at in range(0, len(host), 8)]
                    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
                    out.add((socket.inet_ntop(family, raw), int(port, 16)))
    return out if found else None


def _table(path: str) -> Iterator[list[str]]:
    for line in Path(path).read_text().splitlines()[1:]:
        yield line.split()


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """One installation at a time; another harness's is waited for."""
    began = time.monotonic()
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - began > INSTALL_TIMEOUT_S:
                    raise StackError(f"another installation has held {path} for {INSTALL_TIMEOUT_S:g} s") from None
                await anyio.sleep(0.1)
        yield
