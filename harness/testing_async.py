"""Tests in code, for asyncio: start a server, call its tools, and have it all recorded for the ledger and the gate.

```python
async with start_server(["python", "server.py"]) as server:
    result = await server.call("greet", {"name": "Ada"})
    assert result.text == "Hello, Ada"
    await server.call("greet", {}, expect_error="name")
```

`harness.testing` is the same without `await`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.engine.cases import begin_case, end_case
from harness.engine.guard import is_loopback
from harness.engine.live import LiveServer, LiveSpec, open_live
from harness.errors import (
    CallError,
    ConfigError,
    ExpectedError,
    ListError,
    MisuseError,
    NoAnswer,
    NoToken,
    ServerClosed,
    ServerDied,
    ServerError,
    ToolError,
)
from harness.model.live import Called, Ended, Notification, Prompt, Result
from harness.model.plan import CALL_TIMEOUT_S, START_TIMEOUT_S, Elicit, Era, ExpectSpec

__all__ = [
    "CallError",
    "Called",
    "Ended",
    "ExpectError",
    "ExpectedError",
    "ListError",
    "MisuseError",
    "NoAnswer",
    "NoToken",
    "Notification",
    "Prompt",
    "Result",
    "Server",
    "ServerClosed",
    "ServerDied",
    "ServerError",
    "Starting",
    "ToolError",
    "begin_case",
    "end_case",
    "start_server",
]

ExpectError = bool | str | re.Pattern[str] | None


class Server:
    """A server that stands, with a session; made by `start_server`.

    It may be closed by any task of its event loop, and two of them in any order. Where it died, everything says so; it
    is not started again.
    """

    def __init__(self, live: LiveServer) -> None:
        self._live = live

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
        unlisted: bool = False,
    ) -> Result:
        """Calls a tool, which must answer as expected.

        Args:
            expect_error: None: it must succeed. True: it must fail, which earns no coverage, because it may have failed
                for any reason. A text, or a pattern that is searched: it must fail with it.
            timeout_s: For all rounds together; `call_timeout_s` of the server without it.
            unlisted: The tool is not in the list, on purpose.
        Raises:
            ToolError: It failed, and should not.
            ExpectedError: It did not fail, or for another reason.
            NoAnswer: Nothing came in time.
            ServerDied: The server ended, or closed its pipes; the error has exit code and stderr.
        """
        return await self._live.step(
            "call", tool, arguments, expect=_expected(expect_error), timeout_s=timeout_s, unlisted=unlisted
        )

    async def raw(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        unlisted: bool = False,
    ) -> Mapping[str, Any]:
        """Calls a tool and gives what came, untouched: the `result` object, or the JSON-RPC `error` object.

        Raises:
            NoAnswer, ServerDied: As `call`; an error that the server answers with is not raised.
        """
        result = await self._live.step("call", tool, arguments, expect=None, timeout_s=timeout_s, unlisted=unlisted)
        found = result.message.get("result", result.message.get("error"))
        return found if isinstance(found, Mapping) else {}

    async def confirmed(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Calls a tool that asks for a confirmation by `confirm_token="…"`, and again with that token.

        Raises:
            NoToken: The first answer holds none.
            ToolError, ExpectedError, NoAnswer, ServerDied: As `call`, of the second answer.
        """
        expect = _expected(expect_error)
        return await self._live.step("call", tool, arguments, expect=expect, confirm=True, timeout_s=timeout_s)

    async def read_resource(
        self, uri: str, *, expect_error: ExpectError = None, timeout_s: float | None = None
    ) -> Result:
        """Reads a resource; as `call`."""
        return await self._live.step("read_resource", uri, expect=_expected(expect_error), timeout_s=timeout_s)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Gets a prompt; as `call`."""
        expect = _expected(expect_error)
        return await self._live.step("get_prompt", name, arguments, expect=expect, timeout_s=timeout_s)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Mapping[str, Any]:
        """Any other request; gives the whole response object, whatever is in it."""
        return await self._live.request(method, params, timeout_s=timeout_s)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        self._live.notify(method, params)

    async def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Everything that it lists, all pages, each tool as it came.

        Raises:
            ListError: The list was answered with an error, or has no end.
        """
        return await self._live.list_all("tools/list", "tools")

    async def list_prompts(self) -> tuple[Mapping[str, Any], ...]:
        """All prompts that it lists; as `tools`."""
        return await self._live.list_all("prompts/list", "prompts")

    async def list_resources(self) -> tuple[Mapping[str, Any], ...]:
        """All resources that it lists; as `tools`."""
        return await self._live.list_all("resources/list", "resources")

    async def list_resource_templates(self) -> tuple[Mapping[str, Any], ...]:
        """All templates of resources that it lists; as `tools`."""
        return await self._live.list_all("resources/templates/list", "resourceTemplates")

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """What the server asked of the user so far (elicitations), oldest first."""
        return tuple(self._live.prompts.copy())

    @property
    def called(self) -> tuple[Called, ...]:
        """Every call so far, and what became of it, oldest first."""
        return tuple(self._live.called.copy())

    @property
    def notifications(self) -> tuple[Notification, ...]:
        """Every notification so far (log messages, progress, changes of lists), oldest first."""
        return tuple(self._live.notifications.copy())

    def stderr(self) -> str:
        """The tail of its stderr so far, masked."""
        return self._live.stderr()

    @property
    def era(self) -> Era:
        """The era that is spoken: "handshake" or "modern"."""
        return self._live.era

    @property
    def protocol(self) -> str:
        """The protocol version in force."""
        return self._live.protocol

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As the server declared them."""
        return self._live.capabilities

    @property
    def server_info(self) -> Mapping[str, Any]:
        """Name and version, as the server gave them."""
        return self._live.server_info

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._live.pid

    @property
    def healthy(self) -> bool:
        """Whether it lives and has answered everything in time; a server that has not is better replaced."""
        return self._live.healthy

    @property
    def ended(self) -> Ended | None:
        """How it ended, with what it left behind; None while it lives."""
        return self._live.ended

    @property
    def transcript(self) -> Path:
        """The file in which everything is recorded."""
        return self._live.transcript

    async def close(self) -> None:
        """Ends the server and all that it started; never hangs, and a second call does nothing more."""
        await self._live.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._live.close(how=None if kind is None else "failed")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self._live)}>"


def describe(live: LiveServer) -> str:
    """A server in a few words."""
    ended = live.ended
    state = "alive" if live.alive else "dead" if ended is None else f"ended with {ended.code or ended.signal or 0}"
    return f"{' '.join(live.spec.argv)}, {live.era}, pid {live.pid}, {state}"


class Starting(Awaitable[Server]):
    """A server that is about to start: `await` it, or enter it with `async with`."""

    def __init__(self, start: Callable[[], Awaitable[LiveServer]]) -> None:
        self._start = start
        self._server: Server | None = None

    async def _started(self) -> Server:
        _refuse_other_loops()
        return Server(await self._start())

    def __await__(self) -> Generator[Any, Any, Server]:
        return self._started().__await__()

    async def __aenter__(self) -> Server:
        self._server = await self._started()
        return self._server

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.__aexit__(kind, error, trace)


def start_server(
    command: str | Sequence[str] | None = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    era: Era | None = None,
    elicit: Elicit | None = None,
    allow: Sequence[str] = (),
    reads_dotenv: bool = True,
    call_timeout_s: float = CALL_TIMEOUT_S,
    start_timeout_s: float = START_TIMEOUT_S,
    evidence: str | os.PathLike[str] | None = None,
    began: float | None = None,
    name: str = "",
) -> Starting:
    """Starts a server and begins a session with it.

    Args:
        command: The program and its arguments, or a text that is split as a shell would; no shell is run.
        cwd: Its working folder; the present one without it.
        env: Its ENTIRE environment besides the base list (PATH, a fresh HOME and TMPDIR, LANG …).
        era: None: whatever it speaks; the first start of a command probes it.
        elicit: How elicitations are answered; None declares no such capability.
        allow: Addresses "127.0.0.1:port" that your test has opened, and to which the server may be pointed.
        reads_dotenv: False if it reads no `.env` file by itself; else those in and above `cwd` are judged too.
        evidence: The folder of an attempt, where the transcript goes; else it is gone when the server is closed.
        began: The beginning of the run by `time.monotonic()`, from which times in the transcript count.
        name: How errors call it.
    Raises:
        ServerError: It gave no first answer; the error has its exit code, stderr and the command.
        ConfigError: It is pointed at something that is not its own stack.
        MisuseError: No asyncio event loop runs.
    """
    spec = make_spec(
        command,
        cwd=cwd,
        env=env,
        era=era,
        elicit=elicit,
        allow=allow,
        reads_dotenv=reads_dotenv,
        call_timeout_s=call_timeout_s,
        start_timeout_s=start_timeout_s,
        evidence=evidence,
        began=began,
        name=name,
    )
    return Starting(lambda: open_live(spec))


def make_spec(
    command: str | Sequence[str] | None,
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    era: Era | None,
    elicit: Elicit | None,
    allow: Sequence[str],
    reads_dotenv: bool,
    call_timeout_s: float,
    start_timeout_s: float,
    evidence: str | os.PathLike[str] | None,
    began: float | None,
    name: str,
) -> LiveSpec:
    """What both doors make of the arguments of `start_server`.

    Raises:
        ConfigError: They cannot be used.
    """
    if command is None:
        raise ConfigError("start_server was given no command, and no run stands around it (ROLLCALL_SESSION)")
    argv = tuple(shlex.split(command)) if isinstance(command, str) else tuple(map(os.fspath, command))
    if not argv or not argv[0]:
        raise ConfigError("start_server was given an empty command")
    if era not in (None, "handshake", "modern"):
        raise ConfigError(f"era is {era!r}; it can be 'handshake', 'modern', or None for whatever the server speaks")
    return LiveSpec(
        argv=argv,
        name=name,
        cwd=Path(cwd or ".").resolve(),
        env=dict(env or {}),
        era=era,
        elicit=elicit,
        allowed=tuple(_address(text) for text in allow),
        reads_dotenv=reads_dotenv,
        call_timeout_s=call_timeout_s,
        start_timeout_s=start_timeout_s,
        evidence=None if evidence is None else Path(evidence).resolve(),
        began=began,
    )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not is_loopback(host) or not port.isascii() or not port.isdigit():
        raise ConfigError(f"allow={text!r}: write an address of this machine, such as 127.0.0.1:8080")
    return host, int(port)


def _expected(expect_error: ExpectError) -> ExpectSpec:
    match expect_error:
        case None | False:
            return ExpectSpec(is_error=False)
        case True:
            return ExpectSpec(is_error=True)
        case str():
            if not expect_error:
                raise MisuseError("expect_error is an empty text, which every error holds; write True, or what it says")
            return ExpectSpec(is_error=True, text_contains=(expect_error,))
        case re.Pattern():
            return ExpectSpec(is_error=True, text_matches=_inline(expect_error))
    raise MisuseError(f"expect_error is {expect_error!r}; it can be True, a text, or a compiled pattern of text")


def _inline(pattern: re.Pattern[str]) -> str:
    """The pattern with its flags written into it, as suites have them."""
    if not isinstance(pattern.pattern, str):
        raise MisuseError("expect_error is a pattern of bytes; answers are text")
    flags = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
    letters = "".join(letter for letter, flag in flags.items() if pattern.flags & flag)
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern


def _refuse_other_loops() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise MisuseError(
            "harness.testing_async runs on asyncio, and no event loop of asyncio runs here",
            hint="use harness.testing, which brings its own loop in a thread; under trio call it by "
            "trio.to_thread.run_sync",
        ) from None
