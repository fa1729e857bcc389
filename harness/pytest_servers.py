"""The servers that tests use: started when first called, replaced between tests where one has died or hangs.

A fixture of any scope hands out one `Harness`; which server process is behind it depends on what the test at hand asks
for (its profile, answers, environment), so that a fixture which one module overrides holds in that module alone.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from harness import testing, testing_async
from harness.engine.answers import Hook
from harness.engine.live import LiveServer
from harness.engine.wire import NotSpoken
from harness.errors import ConfigError
from harness.model.plan import ProfileSpec
from harness.model.session import SessionSpec
from harness.testing import Server
from harness.testing_spec import client_of, session_spec

__all__ = ["AsyncHarness", "Harness", "Knobs", "McpStack", "Opened", "Unspoken", "sections_of", "start_in_session"]

FRAMES = 12  # of a failed test that are shown
FRAME_CHARS = 600
STDERR_LINES = 40
TAIL_BYTES = 4 * 1024 * 1024  # of a transcript, in which its last frames are looked for
_OUTPUT = "backend."


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a test asks of its server.

    Attributes:
        profile: Name of a profile of the project.
        env: On top of what the run gives the server.
        headers: Of requests to a server over HTTP, instead of those in harness.toml; None: those.
        answers: How elicitations are answered; None: as the profile says.
        call_timeout_s: None: as harness.toml says.
        own: Of a test that wants a server which no other has used: its name; "" where any will do.
    """

    profile: str
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] | None = None
    answers: Any = None
    call_timeout_s: float | None = None
    own: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for tests that can share a server."""
        headers = None if self.headers is None else tuple(sorted(self.headers.items()))
        return (self.profile, tuple(sorted(self.env.items())), headers, id(self.answers), self.call_timeout_s, self.own)


class Unspoken(Exception):
    """The server does not speak the era of this run, which was only tried."""


def start_in_session(session: SessionSpec, knobs: Knobs, *, tried: bool) -> Server:
    """A server of the run that stands, which writes its transcript into the evidence of it.

    Args:
        tried: Whether it is no error that it does not speak the era of the run.
    Raises:
        Unspoken: It does not.
        ServerError: It gave no first answer.
        ConfigError: There is no such profile, or it would be pointed at something that is not of this stack.
    """
    spec = session_spec(
        session,
        profile=knobs.profile,
        env=knobs.env,
        headers=knobs.headers,
        client=None if knobs.answers is None else _client(knobs.answers),
        call_timeout_s=knobs.call_timeout_s,
    )
    try:
        return testing.start_live(replace(spec, tried=tried))
    except NotSpoken as error:
        raise Unspoken(str(error)) from None


def _client(answers: Any) -> tuple[ProfileSpec, Hook | None]:
    """What the client declares and answers: one action, a script, a function, or arguments of `start_server`."""
    if isinstance(answers, str):
        return client_of(elicit=answers)  # type: ignore[arg-type]  # which says what it can be
    if isinstance(answers, Mapping):
        try:
            return client_of(**answers)
        except TypeError as error:
            raise ConfigError(f"mcp_answers: {error}") from None
    return client_of(answers=answers)


class McpStack(Mapping[str, str]):
    """The backends of a run that stand, as a mapping of their outputs: `mcp_stack["redis.url"]`.

    Attributes:
        session: All that there is to know of the run.
    """

    def __init__(self, session: SessionSpec) -> None:
        self.session = session
        self._outputs = {
            name.removeprefix(_OUTPUT): value for name, value in session.values.items() if name.startswith(_OUTPUT)
        }

    def __getitem__(self, name: str) -> str:
        if name not in self._outputs:
            known = ", ".join(sorted(self._outputs)) or "none, for the project has no backends"
            raise KeyError(f"{name!r} is no output of the stack; there are {known}")
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        return f"<McpStack of {self.session.run}: {', '.join(sorted(self._outputs)) or 'no backends'}>"


def _end(server: Server) -> None:
    """Ends a server; one that has not answered everything is not given the whole time to do so."""
    server._lease.close(hurry=bool(server._live.in_flight()))


class Opened:
    """All harnesses of this process, for what is done between tests and at the end."""

    def __init__(self) -> None:
        self.harnesses: list[Harness] = []
        self.others: list[Server] = []

    def servers(self) -> Iterator[Server]:
        """Those that stand, or stood until a moment ago."""
        yield from self.others
        for harness in self.harnesses:
            yield from harness.servers.values()

    def between_tests(self) -> None:
        """Ends what a test has killed, or left hanging, and what it had for itself: the next one gets fresh servers."""
        for harness in self.harnesses:
            for key, server in list(harness.servers.items()):
                if not server.healthy or key[-1]:
                    del harness.servers[key]
                    _end(server)

    def close(self) -> None:
        """Ends all."""
        for harness in list(self.harnesses):
            harness.close()


class Harness(Server):
    """A server of the run at hand, as `harness.testing.Server`: it starts when it is first used.

    One that has died, or that left a request without an answer, is another one in the next test; in the test in which
    it happened everything says that it is dead.

    Args:
        start: Starts a server.
        knobs: What the test at hand asks for.
    """

    def __init__(self, start: Callable[[Knobs], Server], knobs: Callable[[], Knobs], opened: Opened) -> None:
        self.servers: dict[tuple[Any, ...], Server] = {}
        self._start = start
        self._knobs = knobs
        self._opened = opened
        self._ended = False
        opened.harnesses.append(self)

    @property
    def current(self) -> Server:
        """The server process that is behind it in the test at hand."""
        if self._ended:
            raise testing.ServerClosed("this fixture is over: what it handed out cannot be used any more")
        knobs = self._knobs()
        if knobs.key not in self.servers:
            self.servers[knobs.key] = self._start(knobs)
        return self.servers[knobs.key]

    @property
    def _lease(self) -> Any:  # type: ignore[override]  # it changes with the test
        return self.current._lease

    @property
    def _live(self) -> LiveServer:  # type: ignore[override]
        return self.current._live

    @property
    def _server(self) -> testing_async.Server:  # type: ignore[override]
        return self.current._server

    def close(self) -> None:
        """Ends its servers; the next use starts another, until the fixture is over."""
        while self.servers:
            _end(self.servers.popitem()[1])

    def end(self) -> None:
        """The fixture is over."""
        self._ended = True
        self._opened.harnesses.remove(self)
        self.close()

    def __repr__(self) -> str:
        found = self.servers.get(self._knobs().key) if not self._ended else None
        return f"<Harness {'not started' if found is None else repr(found)}>"


class AsyncHarness(testing_async.Server):
    """The same for `await`, under asyncio and trio, on whatever event loop a test runs."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    @property
    def _live(self) -> Any:  # type: ignore[override]
        return _Elsewhere(self._harness)

    async def close(self) -> None:
        """Ends its servers; the next use starts another."""
        await anyio.to_thread.run_sync(self._harness.close)

    def __repr__(self) -> str:
        return repr(self._harness)


class _Elsewhere:
    """A server on the loop of `harness.testing`, as if it were on this one."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def __getattr__(self, name: str) -> Any:
        if not inspect.iscoroutinefunction(getattr(LiveServer, name, None)):
            if name == "notify":
                return lambda *args, **more: self._harness.notify(*args, **more)
            return getattr(self._harness.current._live, name)

        async def there(*args: Any, **more: Any) -> Any:
            server = await anyio.to_thread.run_sync(lambda: self._harness.current)  # which may have to start
            work = partial(getattr(server._live, name), *args, **more)
            future = server._lease._portal.start_task_soon(work)
            try:
                return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)
            except anyio.get_cancelled_exc_class():
                future.cancel()
                raise

        return there


# --- what a failed test is told -------------------------------------------------------------------


def sections_of(server: Server, case: str) -> Iterator[tuple[str, str]]:
    """What a server said in a case, masked, as (title, text); nothing where it was not called in it."""
    events = _events_of(server.transcript, case)
    if not events:
        return
    name = f"{server.server_info.get('name', 'server')}, pid {server.pid}"
    ended, open_calls = server.ended, server._live.in_flight()
    if ended is not None:
        name += f", ended with {f'signal {ended.signal}' if ended.signal else f'exit code {ended.code}'}"
        open_calls = next((tuple(item.get("in_flight", ())) for item in events if item.get("e") == "exited"), ())
    if open_calls:
        yield f"mcp in flight ({name})", "\n".join(open_calls)
    frames = [line for item in events if (line := _frame(item))]
    before = [f"({len(frames) - FRAMES} frames before)"] if len(frames) > FRAMES else []
    yield f"mcp frames ({name})", "\n".join([*before, *frames[-FRAMES:]])
    said = server.stderr().splitlines()
    before = [f"({len(said) - STDERR_LINES} lines before)"] if len(said) > STDERR_LINES else []
    yield f"mcp stderr ({name})", "\n".join([*before, *said[-STDERR_LINES:]]) or "(nothing)"


def _events_of(transcript: Path, case: str) -> list[Mapping[str, Any]]:
    """What is recorded since a case began, the newest of it; nothing where it is not there."""
    try:
        with transcript.open("rb") as file:
            file.seek(max(0, transcript.stat().st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found: list[Mapping[str, Any]] = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # half a line at either end
            continue
        if not isinstance(event, dict):
            continue
        if event.get("e") == "case-started":
            found = [event] if event.get("case") == case else []
        elif found:
            found.append(event)
    return found


def _frame(event: Mapping[str, Any]) -> str:
    """One line for a line that crossed the pipes, "" for what is none."""
    arrow = {"sent": "->", "received": "<-"}.get(event.get("e", ""))
    if arrow is None:
        return ""
    text = event.get("text")
    return f"{arrow} {_short(text)}" if isinstance(text, str) else f"{arrow} (not text, or a very long line)"


def _short(text: str) -> str:
    return text if len(text) <= FRAME_CHARS else f"{text[:FRAME_CHARS]}… ({len(text)} characters)"
