"""Environments of what we start: a server's is made from nothing, a build's is the caller's but for what misleads."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BASE_NAMES", "build_environment", "own_bin", "server_environment", "without_own_bin"]

XDG_FOLDERS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
BASE_NAMES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONUNBUFFERED", "TMPDIR", "XDG_RUNTIME_DIR", *XDG_FOLDERS)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
LOCALE = "C.UTF-8"

_WINDOWS = (
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "PATHEXT",
    "WINDIR",
    "PROCESSOR_ARCHITECTURE",
    "NUMBER_OF_PROCESSORS",
)
# A build keeps what says *where from* (indexes, certificates, proxies, caches) and loses what says *where to*.
_DROPPED_PREFIXES = ("CONDA_", "NOX_", "PYTHON", "ROLLCALL_", "VIRTUALENV_", "_CONDA_")
_DROPPED = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
    "NPM_CONFIG_GLOBAL",
    "NPM_CONFIG_LOCATION",
    "NPM_CONFIG_PREFIX",
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "__PYVENV_LAUNCHER__",
}


def own_bin() -> Path | None:
    """The folder of programs of the venv that we run in, which no child should find; None outside of a venv."""
    return None if sys.prefix == sys.base_prefix else Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")


def without_own_bin(path: str) -> str:
    """A PATH without our own folder of programs, in whatever spelling it stands there."""
    ours = own_bin()
    parts = [part for part in path.split(os.pathsep) if part]
    if ours is not None:
        parts = [part for part in parts if os.path.realpath(part) != os.path.realpath(ours)]
    return os.pathsep.join(parts)


def server_environment(
    declared: Mapping[str, str],
    *,
    home: Path,
    bin: Path | None = None,  # noqa: A002 - the folder is called so
    parent: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of a server: the base list, then what was declared, which wins; nothing else.

    Args:
        home: A folder of this run alone; HOME, TMPDIR and the XDG folders are made in it.
        bin: A folder of programs that comes first on PATH, such as the build's venv.
        parent: Whose PATH is taken (and on Windows the few names without which nothing starts); ours without it.
    """
    parent = os.environ if parent is None else parent
    own, tmp, runtime = home / "home", home / "tmp", home / "runtime"
    folders = {name: own / inner for name, inner in XDG_FOLDERS.items()}
    for folder in (own, tmp, *folders.values()):
        folder.mkdir(parents=True, exist_ok=True)
    runtime.mkdir(mode=0o700, exist_ok=True)
    path = without_own_bin(parent.get("PATH", "")) or DEFAULT_PATH
    base = {
        "HOME": str(own),
        "LANG": LOCALE,
        "LC_ALL": LOCALE,
        "PATH": path if bin is None else f"{bin}{os.pathsep}{path}",
        "PYTHONUNBUFFERED": "1",  # else a print is flushed at exit and blamed on the last call
        "TMPDIR": str(tmp),
        "XDG_RUNTIME_DIR": str(runtime),
        **{name: str(folder) for name, folder in folders.items()},
    }
    if os.name == "nt":
        base |= {name: parent[name] for name in _WINDOWS if name in parent}
        base |= {"TEMP": str(tmp), "TMP": str(tmp), "USERPROFILE": str(own)}
    return {**base, **declared}


def build_environment(parent: Mapping[str, str], *, venv: Path | None, home: Path) -> dict[str, str]:
    """The environment of a build command: the caller's, less what says where to install, and less our own venv.

    Args:
        venv: The venv to build into; it is first on PATH and is VIRTUAL_ENV.
        home: HOME where the caller has none that is a folder.
    """
    env = {
        name: value
        for name, value in parent.items()
        if name.upper() not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    path = without_own_bin(parent.get("PATH", "")) or DEFAULT_PATH
    if venv is not None:
        env["VIRTUAL_ENV"] = str(venv)
        env["VIRTUALENV_CONFIG_FILE"] = os.devnull  # the caller's may ask for the packages of the system
        path = f"{venv / ('Scripts' if os.name == 'nt' else 'bin')}{os.pathsep}{path}"
    env["PATH"] = path
    if not env.get("HOME") or not Path(env["HOME"]).is_dir():
        env["HOME"] = str(home)
    return env
