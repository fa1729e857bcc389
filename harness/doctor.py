"""The door behind `doctor`: what is on this machine, and what would run how. It starts nothing."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import __version__
from harness.config.load import load
from harness.engine.docker import probe
from harness.engine.python import interpreters
from harness.errors import EXIT_CLEAN, HarnessError
from harness.integration import Options, catalogue
from harness.model.plan import ProjectSpec

__all__ = ["examine"]

LOW_DISK_BYTES = 2 * 1024**3
VERSION_TIMEOUT_S = 10.0


def examine(options: Options) -> tuple[str, int]:
    """The findings of the doctor.

    Returns:
        The text for stdout, and the exit code: that of the first error that keeps a project from running.
    """
    lines = [f"mcp-rollcall {__version__}, Python {platform.python_version()} ({sys.executable})"]
    engine = probe()
    if engine.available:
        rootless = {True: "rootless", False: "rootful", None: "unknown"}[engine.rootless]
        lines.append(f"Docker    {engine.server_version} at {engine.endpoint} ({rootless})")
    else:
        lines.append(f"Docker    not usable: {engine.cause} (endpoint: {engine.endpoint or 'none'})")
    lines += [f"{name:<9} {_version(name)}" for name in ("node", "npm", "uv", "git")]
    lines.append("Pythons   " + ", ".join(f"{item.version} ({item.path})" for item in interpreters()))
    for label, place in (("state", options.state or options.base), ("temporary", Path(tempfile.gettempdir()))):
        lines.append(f"disk      {_disk(label, place)}")
    code = EXIT_CLEAN
    if options.projects == (Path(),) and not (options.base / "harness.toml").exists():
        return "\n".join([*lines, "", "no harness.toml here yet, so nothing is planned"]) + "\n", code
    try:
        paths = [options.base / path for path in options.projects]
        loaded = load(paths, base=options.base, catalogue=catalogue(), exemptions_beside=options.base)
        lines.append("")
        for project in loaded.projects:
            lines.append(_how(project, docker=engine.available, wanted=options.runtime))
            lines += _engines(project)
    except HarnessError as error:
        lines += ["", error.message]
        code = error.code
    return "\n".join(lines) + "\n", code


def _how(project: ProjectSpec, *, docker: bool, wanted: str) -> str:
    name = project.server.name
    if not project.roles:
        return f"{name}: no backend; the server alone"
    backends = [project.backends[use] for role in project.roles for use in role.use]
    if docker and wanted != "process":
        return f"{name}: in Docker ({', '.join(backend.name for backend in backends)})"
    lacking = [backend.name for backend in backends if backend.process is None]
    if lacking:
        return f"{name}: cannot run here: {', '.join(lacking)} has no embedded form, so it needs Docker"
    return f"{name}: embedded ({', '.join(backend.name for backend in backends)})"


def _engines(project: ProjectSpec) -> list[str]:
    """What package.json wants of Node, beside what is here; a plain minimum that is not met is said."""
    try:
        wanted = json.loads((project.root / "package.json").read_text(encoding="utf-8"))["engines"]["node"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    here = re.search(r"v(\d+)", _version("node"))
    least = re.fullmatch(r"\s*(?:>=|\^|~)?\s*v?(\d+)(?:\.[\dx*]+)*\s*", str(wanted))
    short = here is None or (least is not None and int(here[1]) < int(least[1]))
    said = "which is too old" if here is not None else "which is not here"
    return [f"  package.json wants Node {wanted}{f', {said}' if short else ''}"]


def _version(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        return "not found"
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    if done.returncode != 0:
        return f"does not run: exit code {done.returncode} ({path})"
    return f"{(done.stdout or done.stderr).strip().splitlines()[0]} ({path})"


def _disk(label: str, place: Path) -> str:
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    low = "  (low)" if free < LOW_DISK_BYTES else ""
    writable = "" if os.access(place, os.W_OK) else "  (not writable)"
    return f"{free / 1024**3:.1f} GiB free for {label} files in {place}{low}{writable}"
