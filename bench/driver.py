"""Client processes that live through all rounds, and what is told in the place of figures where there is none."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["CLIENTS", "HERE", "Driver", "Missing", "client_command", "drivers", "server_command", "typescript"]

HERE = Path(__file__).parent
ROOT = HERE.parent
CACHE = ROOT / ".rollcall" / "bench"
TYPESCRIPT_SDK = "@modelcontextprotocol/sdk@1.32.2"
CLIENTS = {
    "wire": "ours, `wire`",
    "bare": "bare asyncio loop",
    "sdk": "Python SDK",
    "typescript": "TypeScript SDK",
}
INSTALL_S = 300.0
START_S = 60.0
ANSWER_S = 300.0
END_S = 20.0


class Missing(Exception):
    """A client cannot be measured here; the message says why."""


def server_command(name: str) -> list[str]:
    """How a server of this bench is started; that over HTTP on `${port}`."""
    if name == "http":
        return [sys.executable, str(ROOT / "tests" / "servers" / "over_http.py"), "${port}"]
    return [sys.executable, str(HERE / "servers" / f"{name}.py")]


def typescript() -> list[str]:
    """How the TypeScript client is started; its SDK is installed once.

    Raises:
        Missing: There is no Node or npm, or the package cannot be had.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing(f"not measured: there is no {'node' if node is None else 'npm'} on PATH")
    folder = CACHE / "typescript"
    modules = folder / "node_modules"
    if not (modules / "@modelcontextprotocol" / "sdk" / "package.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", TYPESCRIPT_SDK]
        try:
            done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            raise Missing(f"not measured: npm install took over {INSTALL_S:g} s") from None
        if done.returncode != 0:
            cause = (done.stderr.strip() or "no message").splitlines()[0]
            raise Missing(f"not measured: npm install failed: {cause[:120]}")
    return [node, str(HERE / "client.mjs"), str(modules)]


def client_command(name: str, server: Sequence[str], *, once: bool = False) -> list[str]:
    """How a client is started on a server.

    Raises:
        Missing: As `typescript`.
    """
    start = typescript() if name == "typescript" else [sys.executable, "-m", "bench.clients", name]
    return [*start, *(["--once"] if once else []), "--", *server]


class Driver:
    """A client with its server: `measure` as often as one likes, then `end`.

    Attributes:
        cpu: Seconds of processor time that the last measurement took the client, its server not counted.
    """

    def __init__(self, name: str, server: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            client_command(name, server),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.environ.get("BENCH_STDERR") is None else None,
        )
        self.cpu = 0.0
        self._name = name
        self._buffer = b""

    def ready(self) -> None:
        """Waits until the session is open.

        Raises:
            Missing: It ended, or took too long.
        """
        self._answer(START_S)

    def measure(self, tool: str, arguments: Mapping[str, Any], *, calls: int = 1, at_once: int = 1) -> float:
        """Seconds that so many calls take.

        Raises:
            Missing: As `ready`.
        """
        wanted = {"tool": tool, "arguments": dict(arguments), "calls": calls, "at_once": at_once}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Missing(self._gone()) from None
        answer = self._answer(ANSWER_S)
        self.cpu = float(answer["cpu"])
        return float(answer["seconds"])

    def _answer(self, patience: float) -> Mapping[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        until = time.monotonic() + patience
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise Missing(f"no figure: {self._name} took over {patience:g} s")
                data = os.read(stdout.fileno(), 1 << 16)
                if not data:
                    raise Missing(self._gone())
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: Mapping[str, Any] = json.loads(line)
        return found

    def _gone(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        said = b"" if self._process.stderr is None else self._process.stderr.read()
        lines = said.decode(errors="replace").strip().splitlines() or [""]
        cause = next((line for line in lines if "Error:" in line), lines[-1])
        return f"no figure: {self._name} ended with {self._process.returncode}: {cause.strip()[:120]}"

    def end(self) -> None:
        """Closes its stdin and waits; kills it where that does not help."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def drivers(server: Sequence[str], names: Sequence[str]) -> Iterator[dict[str, Driver | Missing]]:
    """A client of each name, all at once, each with a server of its own; or why there is none."""
    found: dict[str, Driver | Missing] = {}
    try:
        for name in names:
            try:
                found[name] = Driver(name, server)
            except Missing as missing:
                found[name] = missing
        for name, driver in found.items():
            if isinstance(driver, Driver):
                try:
                    driver.ready()
                except Missing as missing:
                    driver.end()
                    found[name] = missing
        yield found
    finally:
        for driver in found.values():
            if isinstance(driver, Driver):
                driver.end()
