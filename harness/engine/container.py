"""A server whose command is `docker run` or `podman run`: the container is no process of ours, and outlives the client.

It gets labels of its own, by which what is left of it is found when the client is gone, and by which `reap` finds it.
Everything is asked of the very client that the command names, with its options and in the server's environment.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from harness.engine.scope import LABEL, Scope
from harness.model.transcript import Orphan

__all__ = ["CLIENT_S", "GRACE_S", "ContainerRun", "container_run"]

CLIENT_S = 10.0  # how long the client may take for one answer
GRACE_S = 1.0  # a container that ends a moment after its client is not left behind
POLL_S = 0.1
_CLIENTS = ("docker", "podman")
_ALIVE = ("running", "restarting", "paused", "stopping")
_WRAPPER_VALUES = ("-u", "--unset", "-C", "--chdir")  # options of env that take the next word


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """A command that runs a container.

    Attributes:
        argv: The command with the labels.
        client: Its beginning, up to and without `run`: the client with its options.
        label: The label, `name=value`, that this container has and no other.
    """

    argv: tuple[str, ...]
    client: tuple[str, ...]
    label: str

    async def remove(self, *, env: Mapping[str, str], cwd: Path) -> tuple[Orphan, ...]:
        """Removes what is left of the container, and says what of it was still alive; never raises, never hangs."""
        with anyio.CancelScope(shield=True):
            until = anyio.current_time() + GRACE_S
            left = await self._left(env, cwd)
            while any(item.alive for item in left) and anyio.current_time() < until:
                await anyio.sleep(POLL_S)
                left = await self._left(env, cwd)
            if left:
                await self._ask(["rm", "-f", "-v", *(item.id for item in left)], env, cwd)
        return tuple(Orphan(pid=0, command=item.words) for item in left if item.alive)

    async def _left(self, env: Mapping[str, str], cwd: Path) -> list[_Left]:
        form = "{{.ID}}\t{{.Names}}\t{{.Image}}\t{{.State}}"
        said = await self._ask(
            ["ps", "--all", "--no-trunc", "--filter", f"label={self.label}", "--format", form], env, cwd
        )
        rows = [line.split("\t") for line in said.splitlines()]
        return [_Left(*row) for row in rows if len(row) == 4]

    async def _ask(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
        """What the client prints, "" where it fails or takes too long."""
        with anyio.move_on_after(CLIENT_S):
            try:
                done = await anyio.run_process(
                    [*self.client, *words],
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    start_new_session=True,
                )
            except OSError:
                return ""
            return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
        return ""


@dataclass(frozen=True, slots=True)
class _Left:
    id: str
    name: str
    image: str
    state: str

    @property
    def alive(self) -> bool:
        return self.state.lower() in _ALIVE

    @property
    def words(self) -> str:
        return f"container {self.name} (image {self.image})"


def container_run(argv: Sequence[str], *, scope: Scope, server: str) -> ContainerRun | None:
    """The command with our labels, None if it runs no container.

    Args:
        server: What tells this server's containers from others of the same invocation.
    """
    at = _after_run(argv)
    if at is None:
        return None
    label = f"{LABEL}server={server}"
    labels = [*(f"{name}={value}" for name, value in scope.labels.items()), label]
    options = [word for text in labels for word in ("--label", text)]
    end = at - 2 if argv[at - 2] == "container" else at - 1
    return ContainerRun(argv=(*argv[:at], *options, *argv[at:]), client=tuple(argv[:end]), label=label)


def _after_run(argv: Sequence[str]) -> int | None:
    """Where the options of `run` begin."""
    at = _client_at(argv)
    if at is None:
        return None
    while at < len(argv) and argv[at].startswith("-"):
        following = argv[at + 1] if at + 1 < len(argv) else ""
        takes = "=" not in argv[at] and not following.startswith("-") and following not in ("run", "container")
        at += 2 if takes else 1
    if at < len(argv) and argv[at] == "container":
        at += 1
    return at + 1 if at < len(argv) and argv[at] == "run" else None


def _client_at(argv: Sequence[str]) -> int | None:
    """Where the client's own words begin, behind `env` and what it sets."""
    at = 0
    if argv and Path(argv[0]).name == "env":
        at = 1
        while at < len(argv) and (argv[at].startswith("-") or "=" in argv[at]):
            at += 2 if argv[at] in _WRAPPER_VALUES else 1
    return at + 1 if at < len(argv) and Path(argv[at]).name in _CLIENTS else None
