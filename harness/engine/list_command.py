"""What a server that a command starts lists, in each era that it speaks: recorded, never called, stopped cleanly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from secrets import token_hex

from harness.engine.container import container_run
from harness.engine.environment import server_environment
from harness.engine.evidence import Attempt, read_attempt
from harness.engine.mask import Masker
from harness.engine.record import Recorder
from harness.engine.scope import Scope
from harness.engine.stdio import Stdio, open_stdio
from harness.engine.tail import describe_code
from harness.engine.wire import DISCOVER_TIMEOUT_S, Died, NotSpoken, Refused, TimedOut, WireSession
from harness.errors import ServerError
from harness.model.plan import CALL_TIMEOUT_S, START_TIMEOUT_S, Era, RunKey
from harness.model.transcript import Evidence, RunRecord

__all__ = ["Command", "list_command"]

STDERR_LINES = 20
ERAS: tuple[Era, ...] = ("modern", "handshake")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A server to start.

    Attributes:
        argv: Program and arguments; no shell.
        cwd: Where it runs.
        env: Its whole environment besides the base list.
        masker: Knows the secrets among all that.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    masker: Masker

    @property
    def name(self) -> str:
        """What stands for the server's name until it says its own."""
        return PurePath(self.argv[0]).name or self.argv[0]


async def list_command(
    command: Command, *, scope: Scope, start_s: float = START_TIMEOUT_S, call_s: float = CALL_TIMEOUT_S
) -> list[Evidence]:
    """The evidence of one process for each era that the server speaks, with all pages of all of its lists.

    Raises:
        ServerError: It could not be started, speaks no era, or gave no list.
    """
    found: list[Evidence] = []
    refused: list[str] = []
    for era in ERAS:
        try:
            found.append(await _list(command, era, scope, start_s=start_s, call_s=call_s))
        except NotSpoken as error:
            refused.append(f"{era}: {error}")
    if not found:
        raise ServerError(f"the server {command.name} speaks none of the eras\n" + "\n".join(refused))
    return found


async def _list(command: Command, era: Era, scope: Scope, *, start_s: float, call_s: float) -> Evidence:
    folder = scope.tmp / f"server-{token_hex(8)}"
    folder.mkdir()
    key = RunKey(server=command.name, backend="none", era=era, profile="plain")
    attempt = Attempt.create(scope.tmp / "evidence", key)
    recorder = Recorder(attempt.transcript(1), bodies=attempt.bodies, masker=command.masker, began=time.monotonic())
    env = server_environment(command.env, home=folder)
    container = container_run(command.argv, scope=scope, server=folder.name)
    argv = command.argv if container is None else container.argv
    try:
        stdio = await open_stdio(argv, cwd=command.cwd, env=env, marker=f"{folder}/", recorder=recorder)
    except BaseException:
        recorder.close()
        raise
    if container is not None:
        stdio.leftovers = partial(container.remove, env=env, cwd=command.cwd)
    finished = False
    try:
        session = WireSession(stdio, era=era)
        await _open(session, stdio, command, start_s)
        await _lists(session, stdio, command, call_s)
        finished = True
    finally:
        await stdio.stop(hurry=not finished)
    attempt.finish(
        RunRecord(
            key=key,
            plan="",
            runtime=None,
            server_info=command.masker.json(session.server_info),
            protocol=session.protocol,
            capabilities=command.masker.json(session.capabilities),
            outcome="finished",
        )
    )
    evidence = read_attempt(attempt.folder)
    assert evidence is not None
    return evidence


async def _open(session: WireSession, stdio: Stdio, command: Command, start_s: float) -> None:
    modern = session.era == "modern"
    try:
        await session.open(timeout_s=min(start_s, DISCOVER_TIMEOUT_S) if modern else start_s)
    except (TimedOut, Died) as error:
        if modern:  # a server of the other era may stay silent, or end
            raise NotSpoken(str(error)) from None
        raise await _failed(stdio, command, f"gave no first answer: {error}") from None
    except Refused as error:
        raise await _failed(stdio, command, f"could not be begun with: {error}") from None


async def _lists(session: WireSession, stdio: Stdio, command: Command, call_s: float) -> None:
    for kind in ("tools", "prompts", "resources"):
        if kind != "tools" and kind not in session.capabilities:
            continue
        try:
            listing = await session.list_all(f"{kind}/list", kind, timeout_s=call_s)
        except (TimedOut, Died) as error:
            raise await _failed(stdio, command, f"gave no list: {error}") from None
        if kind == "tools" and listing.problem and not listing.items and kind in session.capabilities:
            raise await _failed(stdio, command, f"gave no list: {listing.problem}")


async def _failed(stdio: Stdio, command: Command, why: str) -> ServerError:
    """The error for a server that gave no list, after it was stopped."""
    ended = stdio.process.look()
    await stdio.stop(hurry=True)
    code = describe_code(stdio.process.code or 0)
    how = f"; it ended with {code}" if ended and code not in why else ""
    tail = stdio.stderr_tail.decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
    return ServerError(
        command.masker.text(f"the server {command.name} {why}{how}"),
        hint="its environment is made from nothing: hand over what it needs with --env NAME or --env NAME=VALUE",
        log=command.masker.text("\n".join(tail or ["(stderr is empty)"])),
    )
