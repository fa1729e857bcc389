"""Programs in front of PATH that put the recording proxy before the server, and before nothing else.

A suite that starts `node dist/index.js` by itself finds our `node` first. It compares the words that it is given with
the server's own command, and becomes either the proxy or the real program; everything that it needs is written in it,
so that it works with any environment, and when it is called by its whole path.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.engine import choose
from harness.engine.choose import entry_of
from harness.engine.container import container_run
from harness.engine.scope import Scope

__all__ = ["is_interpreter", "make_shim", "proxy_command"]

_INTERPRETERS = frozenset(
    [
        *("bash", "bun", "deno", "dotnet", "env", "java", "node", "nodejs", "npx", "perl", "php", "pipx", "pnpm"),
        *("python", "ruby", "sh", "ts-node", "tsx", "uv", "uvx", "yarn"),
    ]
)
_ASK = {
    "node": ("-p", "process.execPath"),
    "python": ("-c", "import sys; print(sys.executable)"),
}
ASK_S = 20.0
_ALWAYS = """\
#!/bin/sh
exec {proxy} -- {real} "$@"
"""
_CHOOSES = """\
#!/bin/sh
case " $* " in
*{word}*) exec {python} -I -S {shim} {cwd} {real} {proxy_words} -- {command} -- "$@" ;;
esac
exec {real} "$@"
"""


def proxy_command(session: Path) -> list[str]:
    """What starts the proxy in a session at the least cost; the server's own command, where nothing follows."""
    return [sys.executable, "-I", "-S", str(Path(__file__).parent.parent / "proxy.py"), "--session", str(session)]


def make_shim(
    folder: Path, *, command: Sequence[str], cwd: Path, session: Path, path: str, scope: Scope
) -> Path | None:
    """A folder of programs for the front of PATH; None where there is nothing to put there.

    Args:
        folder: Where it is made.
        command: The server's, with its placeholders expanded; `cwd` is where it is started.
        path: The PATH on which the real program is.
    """
    if not command or container_run(command, scope=scope, server="") is not None:
        return None  # what starts containers has other uses in a suite
    program = Path(command[0]).name
    real = command[0] if os.sep in command[0] else shutil.which(program, path=path)
    if real is None:
        return None
    real = _behind(real if os.path.isabs(real) else str(cwd / real), program, cwd, path)
    proxy = proxy_command(session)
    if is_interpreter(program):
        entry = entry_of(command[1:], str(cwd))
        if entry is None:
            return None
        text = _CHOOSES.format(
            word=shlex.quote(os.path.basename(entry[1])),
            python=shlex.quote(sys.executable),
            shim=shlex.quote(os.path.abspath(choose.__file__)),
            cwd=shlex.quote(str(cwd)),
            real=shlex.quote(real),
            proxy_words=shlex.join([str(len(proxy)), *proxy]),
            command=shlex.join(command[1:]),
        )
    else:
        text = _ALWAYS.format(proxy=shlex.join(proxy), real=shlex.quote(real))
    folder.mkdir()
    wrapper = folder / program
    wrapper.write_text(text, encoding="utf-8", errors="surrogateescape")
    wrapper.chmod(0o755)
    return folder


def _behind(program: str, name: str, cwd: Path, path: str) -> str:
    """The interpreter itself, where the program is a version manager's script: those change PATH for what they run."""
    ask = _ASK.get(name.rstrip("0123456789."))
    try:
        with open(program, "rb") as file:
            if ask is None or file.read(2) != b"#!":
                return program
        env = {**os.environ, "PATH": path}
        done = subprocess.run(
            [program, *ask], cwd=cwd, env=env, capture_output=True, text=True, timeout=ASK_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return program
    found = done.stdout.strip()
    return found if os.path.isabs(found) and os.access(found, os.X_OK) else program


def is_interpreter(program: str) -> bool:
    """Whether a program runs others: only with the server's own words is it the server."""
    return program.rstrip("0123456789.") in _INTERPRETERS
