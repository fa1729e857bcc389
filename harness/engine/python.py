"""Interpreters that really run, and virtual environments made with them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from harness.errors import BuildError, ConfigError

__all__ = ["PROBE_TIMEOUT_S", "Interpreter", "find_interpreter", "interpreters", "venv_command"]

PROBE_TIMEOUT_S = 10.0
_PROBE = (
    "import json, sys, ensurepip, venv; print(json.dumps([sys.executable, '.'.join(map(str, sys.version_info[:3]))]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A CPython that ran when it was asked for its version and can make virtual environments."""

    path: str
    version: str


def _probe(program: str) -> Interpreter | None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        # -I: nothing of the caller's folder or environment can answer in the interpreter's place
        done = subprocess.run(
            [program, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=env,
            check=False,
        )
        path, version = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Interpreter(path, version) if done.returncode == 0 else None


def _candidates() -> Iterator[str]:
    yield getattr(sys, "_base_executable", None) or sys.executable
    for minor in range(16, 9, -1):
        yield from filter(None, [shutil.which(f"python3.{minor}")])
    yield from filter(None, [shutil.which("python3"), shutil.which("python"), "/usr/bin/python3"])
    home = Path(os.environ.get("HOME") or "/nonexistent")
    roots = [Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", home / ".local/share/uv/python"]
    for root in roots:
        try:
            yield from (str(path) for path in sorted(root.glob("*/bin/python3"), reverse=True))
        except OSError:
            continue


def interpreters() -> Iterator[Interpreter]:
    """Every interpreter that can be found and that ran, our own first, each version once."""
    tried: set[str] = set()
    versions: set[str] = set()
    for candidate in _candidates():
        real = os.path.realpath(candidate)
        if real in tried:
            continue
        tried.add(real)
        found = _probe(candidate)
        if found is not None and found.version not in versions:
            versions.add(found.version)
            yield found


def find_interpreter(wanted: str | None) -> Interpreter:
    """The first interpreter that satisfies a version specifier such as ">=3.11"; ours, if it does.

    Raises:
        ConfigError: The specifier is none.
        BuildError: No interpreter that runs satisfies it; the message says which were found.
    """
    try:
        specifier = SpecifierSet(wanted or "")
    except InvalidSpecifier:
        raise ConfigError(f"python = {wanted!r} is no version specifier", hint='write e.g. python = ">=3.12"') from None
    seen: list[str] = []
    for item in interpreters():
        if specifier.contains(item.version, prereleases=True):
            return item
        seen.append(f"{item.version} ({item.path})")
    raise BuildError(
        f"no Python {wanted} that runs was found; seen: {', '.join(seen) or 'none'}",
        hint="install one (e.g. `uv python install`, pyenv or the system's package) and put it on PATH",
    )


def venv_command(interpreter: Interpreter, folder: Path) -> Sequence[str]:
    """The command that makes a virtual environment with pip in it; by uv where that is installed.

    The standard library's way installs pip anew each time, which takes seconds; virtualenv keeps it at hand.
    """
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "venv", "--quiet", "--seed", "--no-project", "--python", interpreter.path, str(folder)]
    return [sys.executable, "-I", "-m", "virtualenv", "--quiet", "--python", interpreter.path, str(folder)]
