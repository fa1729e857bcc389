"""How one server is started, each time: a process, and the pipe to it that its transport asks for."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import randbelow

from harness.engine.answers import PLAIN
from harness.engine.container import ContainerRun
from harness.engine.pipe import Pipe
from harness.engine.record import Recorder
from harness.engine.stdio import open_stdio
from harness.model.plan import ProfileSpec

__all__ = ["NOT_THIS_ERA", "Start", "free_port"]

NOT_THIS_ERA = (400, 404, 405, 406, 415, 501)  # how a server over HTTP may say so to the first request
PORTS = (16_000, 32_000)  # below those that outgoing connections are given
PORT_TRIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a server is started, and spoken to, each time.

    Attributes:
        argv: The command, with all values in it.
        env: The whole environment of the process.
        marker: Text in the environment of this server and its children, and of nobody else.
        container: What the command runs in Docker, if it does.
        url: Where it is to listen, with its port; "" where it speaks over its own pipes.
        headers: Sent with every request to that URL.
        profile: What the client answers, without placeholders.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    marker: str
    container: ContainerRun | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    profile: ProfileSpec = PLAIN

    async def open(self, recorder: Recorder, server: str) -> Pipe:
        """A server process as `spawn` starts it; where none starts, the transcript is closed, and gone if empty.

        Raises:
            ServerError: It could not be started.
        """
        try:
            return await self.spawn(recorder, server)
        except BaseException:
            recorder.close()
            if recorder.count == 0:
                recorder.path.unlink()
            raise

    async def spawn(self, recorder: Recorder, server: str) -> Pipe:
        """A server process with the pipe to it; its container, if it has one, has labels of ours.

        Raises:
            ServerError: It could not be started; the recorder stays open.
        """
        argv = self.argv if self.container is None else self.container.argv
        pipe: Pipe
        if self.url:
            from harness.engine.http_pipe import open_http  # what it imports is needed over HTTP alone

            pipe = await open_http(
                argv,
                url=self.url,
                headers=self.headers,
                cwd=self.cwd,
                env=self.env,
                marker=self.marker,
                recorder=recorder,
                server=server,
                shared=self.container is not None,
            )
        else:
            pipe = await open_stdio(
                argv, cwd=self.cwd, env=self.env, marker=self.marker, recorder=recorder, server=server
            )
        if self.container is not None:
            pipe.leftovers = partial(self.container.remove, env=self.env, cwd=self.cwd)
        return pipe


def free_port() -> int:
    """A port that nobody holds, and that the system gives to nobody who asks for any."""
    for _ in range(PORT_TRIES):
        port = PORTS[0] + randbelow(PORTS[1] - PORTS[0])
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
