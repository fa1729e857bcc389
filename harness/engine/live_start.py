"""The start of one server for somebody else's code: the guard, its era, its first answer, or why none came."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from harness.engine.container import container_run
from harness.engine.dotenv import foreign_targets, named_dotenv_files
from harness.engine.environment import server_environment
from harness.engine.guard import check_headers, check_targets
from harness.engine.live import OPEN, LiveServer, to_the_end
from harness.engine.live_faults import STDERR_LINES, LiveRecorder
from harness.engine.live_spec import LiveSpec
from harness.engine.mask import Masker, header_secrets, is_secret_name
from harness.engine.pipe import Pipe
from harness.engine.scope import Scope, open_scope
from harness.engine.start import NOT_THIS_ERA, Start, free_port
from harness.engine.stdio import elapsed_ms
from harness.engine.tail import describe_code
from harness.engine.wire import DISCOVER_TIMEOUT_S, Died, Lost, NotSpoken, Refused, TimedOut, WireSession
from harness.errors import ConfigError, ServerError
from harness.model.outcome import cut
from harness.model.plan import ERAS, Era
from harness.model.transcript import BODIES_DIR, OUTSIDE, Diagnostic

__all__ = ["open_live"]

PORT = "${port}"
_spoken: dict[tuple[Any, ...], Era] = {}  # what a probe of the same command found, in this process


async def open_live(spec: LiveSpec) -> LiveServer:
    """Starts a server and its session; what was started is gone where this fails.

    Raises:
        ServerError: It gave no first answer.
        ConfigError: It is pointed at something that is not of its stack.
        NotSpoken: It does not speak the era, which was only tried.
    """
    with ExitStack() as undo:
        scope = undo.enter_context(open_scope())
        key = (spec.argv, spec.cwd, tuple(sorted(spec.env.items())))
        spec = _with_port(spec)
        named = (value for name, value in spec.env.items() if is_secret_name(name))
        masker = Masker((*spec.secrets, *named, *header_secrets(spec.headers)))
        folder = scope.tmp / f"server-{token_hex(8)}"
        folder.mkdir()
        _guard(spec, folder, masker)
        server = await _Opening(spec=spec, scope=scope, folder=folder, masker=masker, key=key).run()
        server.owns(undo.pop_all())
        OPEN.add(server)
        return server


def _with_port(spec: LiveSpec) -> LiveSpec:
    """Where it is to listen at `${port}`: on a port that nobody holds, which is told to it in that place."""
    if PORT not in spec.url:
        return spec
    port = free_port()

    def told(text: str) -> str:
        return text.replace(PORT, str(port))

    return replace(
        spec,
        argv=tuple(map(told, spec.argv)),
        env={name: told(value) for name, value in spec.env.items()},
        headers={name: told(value) for name, value in spec.headers.items()},
        url=told(spec.url),
        own_port=port,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """The start of a server, in one era or in whatever it speaks."""

    spec: LiveSpec
    scope: Scope
    folder: Path
    masker: Masker
    key: tuple[Any, ...]  # equal for starts of one command

    async def run(self) -> LiveServer:
        spec = self.spec
        if spec.era is not None:
            return await self._begin(spec.era, spec.evidence, probing=spec.tried)
        key = self.key
        known = _spoken.get(key)
        why: list[str] = []
        for era in (known,) if known is not None else ERAS:
            try:
                server = await self._begin(era, spec.evidence, probing=known is None)
            except NotSpoken as error:
                why.append(f"{era}: {error}")
                continue
            _spoken[key] = era
            return server
        raise ServerError(
            self.masker.text("the server speaks neither era of MCP that was tried:\n" + "\n".join(why)),
            server=spec.name,
        )

    async def _begin(self, era: Era, evidence: Path | None, *, probing: bool) -> LiveServer:
        """A server in an era; what a probe says that fails is no evidence.

        Raises:
            NotSpoken: While probing: it does not speak this era.
            ServerError: It gave no usable first answer.
        """
        spec = self.spec
        place = evidence if evidence is not None else self.scope.tmp / "evidence"
        place.mkdir(parents=True, exist_ok=True)
        home = self.folder / token_hex(4)
        home.mkdir()
        argv, url, env, headers = spec.argv, spec.url, _environment(spec, home), dict(spec.headers)
        if url and spec.own_port is not None:  # a port for each process: two may stand at a time
            old, new = str(spec.own_port), str(free_port())
            argv, url = tuple(_other_port(part, old, new) for part in argv), _other_port(url, old, new)
            env = {name: _other_port(value, old, new) for name, value in env.items()}
            headers = {name: _other_port(value, old, new) for name, value in headers.items()}
        container = container_run(argv, scope=self.scope, server=home.name)
        path = place / _outside_name()
        recorder = LiveRecorder(
            path,
            bodies=place / BODIES_DIR,
            masker=self.masker,
            began=time.monotonic() if spec.began is None else spec.began,
        )
        start = Start(
            argv=argv, cwd=spec.cwd, env=env, marker=f"{home}{os.sep}", container=container, url=url, headers=headers
        )
        opening = asyncio.ensure_future(start.spawn(recorder, spec.name))
        try:
            pipe = await to_the_end(opening)
        except BaseException:
            if not opening.cancelled() and opening.exception() is None:
                await to_the_end(asyncio.ensure_future(opening.result().stop(hurry=True)))
            recorder.close()
            path.unlink(missing_ok=True)
            raise
        session = WireSession(pipe, era=era, answers=spec.answers(), zero=False)
        discovering = probing and era == "modern"
        timeout_s = min(spec.start_timeout_s, DISCOVER_TIMEOUT_S) if discovering else spec.start_timeout_s
        try:
            if not_ready := await pipe.ready(spec.start_timeout_s):
                raise Refused(not_ready)
            await session.open(timeout_s=timeout_s)
        except (NotSpoken, TimedOut, Died, Refused) as error:
            if probing and _is_unspoken(error, discovering=discovering):
                await pipe.stop(hurry=True)
                path.unlink(missing_ok=True)
                raise NotSpoken(str(error)) from None
            raise await self._error(pipe, session, era, error, env) from None
        except BaseException:
            await to_the_end(asyncio.ensure_future(pipe.stop(hurry=True)))
            raise
        return LiveServer(spec, pipe, session, masker=self.masker)

    async def _error(
        self, pipe: Pipe, session: WireSession, era: Era, error: Exception, env: Mapping[str, str]
    ) -> ServerError:
        """The error for a server that gave no usable first answer, after it was stopped."""
        spec, why = self.spec, str(error)
        ended = pipe.process.ended.is_set()
        code = describe_code(pipe.process.code or 0)
        ran = f"[{elapsed_ms(pipe.process)} ms from start to {'exit' if ended else 'now'}]"
        noise, unfinished = pipe.line_count, self.masker.bytes(pipe.unfinished)
        if isinstance(error, NotSpoken):
            pipe.recorder.add(Diagnostic, what="not-spoken", detail=why)
        await pipe.stop(hurry=True)
        if ended:
            message = f"the server ended with {code} before its first answer"
        elif isinstance(error, NotSpoken):
            message = f"the server does not speak the {era} era: {why}"
        elif session.answered or not why.startswith("no answer"):
            message = why
        else:
            message = f"the server gave {why}"
        if noise and not session.answered:
            message += f"; {noise} lines came on stdout, none of them an answer"
        if unfinished and not session.answered:
            message += f"; stdout ends without a newline in {cut(unfinished[-80:].decode('utf-8', 'backslashreplace'))}"
        message += f"\ncommand: {' '.join(spec.argv)}\nfolder: {spec.cwd}\nvariables: {', '.join(sorted(env))}"
        tail = pipe.stderr_tail.decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
        log = "\n".join([ran, *(tail or ["(stderr is empty)"])])
        hint = error.hint if isinstance(error, Lost) else ""
        return ServerError(self.masker.text(f"{message}\n{log}"), hint=hint, log=log, server=spec.name)


def _other_port(text: str, old: str, new: str) -> str:
    """A text with one port in the place of another, where it stands by itself."""
    return re.sub(rf"(?<![0-9.]){old}(?![0-9])", new, text)


def _is_unspoken(error: Exception, *, discovering: bool) -> bool:
    """Whether the failure of a session's beginning may mean that the server does not speak the era."""
    if isinstance(error, Lost):
        return not error.hint and (discovering or error.status in NOT_THIS_ERA)
    return isinstance(error, NotSpoken) or (discovering and not isinstance(error, Refused))


def _environment(spec: LiveSpec, home: Path) -> dict[str, str]:
    """The whole environment, with a HOME and TMPDIR of this process alone."""
    if spec.ready_env is None:
        return server_environment(dict(spec.env), home=home, bin=spec.bin)
    own = server_environment({}, home=home, bin=spec.bin)
    places = {name: value for name, value in own.items() if value.startswith(str(home))}
    return {**spec.ready_env, **places, **spec.env}


def _guard(spec: LiveSpec, folder: Path, masker: Masker) -> None:
    """Judges where the server is pointed, before it starts.

    Raises:
        ConfigError: At something that is not of its stack.
    """
    if not spec.cwd.is_dir():
        raise ConfigError(f"the server's folder {spec.cwd} does not exist", server=spec.name)
    folders = (folder, spec.cwd, *spec.folders)
    around: dict[str, Any] = {
        "allowed": spec.allowed,
        "own_port": spec.own_port,
        "names": spec.names,
        "folders": folders,
    }
    refused = check_targets(spec.env, spec.argv, **around) + check_headers(spec.headers, **around)
    named = named_dotenv_files(spec.argv, spec.cwd)
    foreign: tuple[str, ...] = ()
    if spec.reads_dotenv or named:
        places = (spec.cwd, *((spec.bin,) if spec.bin is not None else ())) if spec.reads_dotenv else ()
        foreign = tuple(foreign_targets(places, spec.env, allowed=spec.allowed, named=named))
    if refused or foreign:
        raise ConfigError(
            masker.text("the server was not started:\n" + "\n".join((*refused, *foreign))),
            hint="a server may only be pointed at its own stack: give stack=, or allow= for an address on 127.0.0.1 "
            "that your test opened; reads_dotenv=False if it reads no .env file by itself",
            server=spec.name,
        )


def _outside_name() -> str:
    """The name of a transcript that is written into an attempt from outside of the engine; names sort by time."""
    return f"{OUTSIDE}-pytest-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{token_hex(4)}.jsonl"
