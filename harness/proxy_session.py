"""What becomes of a server that is started through the proxy in a session: its environment, and what the guard says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from harness.model.session import ENVIRONMENT_FILE, SessionSpec

__all__ = ["read_command_env", "server_env"]

# what test runners, shells and package managers set for themselves
_RUNNERS = (
    "BASH_",
    "BUN_",
    "JEST_",
    "NPM_",
    "PNPM_",
    "PYTEST_",
    "ROLLCALL_",
    "TOX_",
    "VITEST",
    "VITE_",
    "YARN_",
    "npm_",
)
_SHELLS = frozenset(
    [
        *("_", "BASE_URL", "COLOR", "COLUMNS", "DEV", "EDITOR", "FORCE_COLOR", "HOME", "INIT_CWD", "LINES", "LOGNAME"),
        *("MODE", "NODE", "NODE_CHANNEL_FD", "NODE_ENV", "NODE_OPTIONS", "NODE_UNIQUE_ID", "OLDPWD", "PATH", "PROD"),
        *("PWD", "SHELL", "SHLVL", "SSR", "TERM", "TEST", "TMPDIR", "USER"),
    ]
)


def server_env(
    session: SessionSpec, argv: Sequence[str], given: Mapping[str, str], command_env: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment that a server gets, and why it is refused, a sentence each.

    It is the one that the engine gives it, and what the suite has set besides: what the command itself was given, and
    what runners set for themselves, is none of the server's. Where the suite has set nothing, and the command is the
    server's own, the guard has judged it already.
    """
    own = {
        name: value
        for name, value in given.items()
        if value not in (command_env.get(name), session.env.get(name))
        and name not in _SHELLS
        and not name.startswith(_RUNNERS)
    }
    env = {**session.env, **own}
    here = os.getcwd()
    at_home = os.path.realpath(here) == os.path.realpath(session.cwd)
    if not own and tuple(argv) == session.command and at_home:
        return env, ()
    from pathlib import Path

    from harness.engine.dotenv import foreign_targets
    from harness.engine.guard import check_targets

    pairs = (item.rpartition(":") for item in session.allowed)
    addresses = [(host, int(port)) for host, _, port in pairs]
    refused = check_targets(
        own,
        argv,
        allowed=addresses,
        own_port=None,
        names=session.names,
        folders=[*map(Path, session.folders), Path(command_env.get("TMPDIR", session.folders[0]))],
    )
    if not at_home:  # at home the engine has looked
        refused += foreign_targets([Path(here)], env, allowed=addresses)
    return env, refused


def read_command_env(session_file: str) -> dict[str, str]:
    """What the engine gave the command; nothing where it does not say."""
    path = os.path.join(os.path.dirname(session_file), ENVIRONMENT_FILE)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
