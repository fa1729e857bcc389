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
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness import testing_judge
from harness.engine.answers import Question
from harness.engine.cases import CaseHow, begin_case, end_case
from harness.engine.live import LiveServer
from harness.engine.live_spec import LiveSpec
from harness.engine.live_start import open_live
from harness.errors import (
    AnswerLost,
    CallError,
    ConfigError,
    CoverageError,
    ExpectedError,
    ListError,
    MisuseError,
    NoAnswer,
    NotLoopback,
    NoToken,
    ServerClosed,
    ServerDied,
    ServerError,
    StackError,
    ToolError,
)
from harness.model.live import Called, Ended, Notification, Prompt, Result
from harness.model.plan import AnswerSpec, Elicit, ElicitMode, Era, Level, LogLevel, RootSpec, SampleSpec
from harness.testing_guards import assert_loopback, assert_loopback_host, wait_for_http_async, wait_for_tcp_async
from harness.testing_judge import Exempt, Source, ToolCoverage
from harness.testing_spec import AnswersArgument, ExpectError, client_of, expected, given, make_spec
from harness.testing_stack import AsyncStack as Stack
from harness.testing_stack import RuntimeChoice, StackStarting, start_stack

__all__ = [
    "AnswerLost",
    "AnswerSpec",
    "CallError",
    "Called",
    "ConfigError",
    "CoverageError",
    "Ended",
    "ExpectError",
    "ExpectedError",
    "ListError",
    "MisuseError",
    "NoAnswer",
    "NoToken",
    "NotLoopback",
    "Notification",
    "Prompt",
    "Question",
    "Result",
    "RootSpec",
    "SampleSpec",
    "Server",
    "ServerClosed",
    "ServerDied",
    "ServerError",
    "Stack",
    "StackError",
    "StackStarting",
    "Starting",
    "ToolCoverage",
    "ToolError",
    "assert_loopback",
    "assert_loopback_host",
    "begin_case",
    "end_case",
    "expect_clean_wire",
    "expect_every_tool_declares_output_schema",
    "expect_every_tool_exercised",
    "expect_portable_tool_schemas",
    "open_stack",
    "start_live",
    "start_server",
    "tool_coverage",
    "wait_for_http",
    "wait_for_tcp",
]


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
            "call", tool, arguments, expect=expected(expect_error), timeout_s=timeout_s, unlisted=unlisted
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
        expect = expected(expect_error)
        return await self._live.step("call", tool, arguments, expect=expect, confirm=True, timeout_s=timeout_s)

    async def read_resource(
        self, uri: str, *, expect_error: ExpectError = None, timeout_s: float | None = None
    ) -> Result:
        """Reads a resource; as `call`."""
        return await self._live.step("read_resource", uri, expect=expected(expect_error), timeout_s=timeout_s)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Gets a prompt; as `call`."""
        expect = expected(expect_error)
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
        return self._live.prompts

    @property
    def called(self) -> tuple[Called, ...]:
        """Every call so far, and what became of it, oldest first."""
        return self._live.called

    @property
    def notifications(self) -> tuple[Notification, ...]:
        """Every notification so far (log messages, progress, changes of lists), oldest first."""
        return self._live.notifications

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
    def in_flight(self) -> tuple[str, ...]:
        """The requests that are open, such as "tools/call slow"."""
        return self._live.in_flight()

    @property
    def ended(self) -> Ended | None:
        """How it ended, with what it left behind; None while it lives."""
        return self._live.ended

    @property
    def name(self) -> str:
        """As it was given to `start_server`."""
        return self._live.spec.name

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
        await self._live.close(how=broken_off(kind))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self._live)}>"


def broken_off(kind: type[BaseException] | None) -> CaseHow | None:
    """How the present case ends with a server that is closed by an exception.

    Whether its test fails by that is not known here: the exception may be what it is after.
    """
    return "interrupted" if kind is not None and not issubclass(kind, Exception) else None


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
    command: str | Sequence[str | os.PathLike[str]] | None = None,
    *,
    project: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    runtime: RuntimeChoice = "auto",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    url: str = "",
    headers: Mapping[str, str] | None = None,
    stack: Stack | None = None,
    allow: Sequence[str] = (),
    era: Era | None = None,
    profile: str | None = None,
    elicit: Elicit | None = None,
    answers: AnswersArgument = None,
    elicit_modes: Sequence[ElicitMode] = ("form",),
    sampling: Sequence[SampleSpec | Mapping[str, Any]] = (),
    roots: Sequence[RootSpec | Mapping[str, Any] | str] | None = None,
    log_level: LogLevel | None = None,
    progress: bool = False,
    reads_dotenv: bool = True,
    call_timeout_s: float | None = None,
    start_timeout_s: float | None = None,
    evidence: str | os.PathLike[str] | None = None,
    began: float | None = None,
    name: str = "",
) -> Starting:
    """Starts a server and begins a session with it.

    Without a command it is the server of the run that stands around this process: in the tests that `[suites] pytest`
    names. Its stack, environment, era and evidence are then that run's.

    With `project` it is built, and started as harness.toml says on a stack of its own, which goes with it.

    Args:
        project: harness.toml, or its folder, instead of a command.
        backend: Of the project: which choice, where there are several, as "redis@8".
        runtime: Of the project: how its backends are stood up; see `open_stack`.
        command: The program and its arguments, or a text that is split as a shell would; no shell is run.
        cwd: Its working folder; the present one without it.
        env: Its ENTIRE environment besides the base list (PATH, a fresh HOME and TMPDIR, LANG …).
        url: Where it listens, for a server over Streamable HTTP: "http://127.0.0.1:${port}/mcp". `${port}` in it, in
            the command and in `env` is a port that is chosen for it; over stdio without it.
        headers: Sent with every request to a server over HTTP, such as {"Authorization": "Bearer …"}; what holds a
            credential is masked in all that is recorded. Of a project or a run: instead of those in harness.toml.
        stack: The stack that it may be pointed at; its secrets are masked.
        allow: Further addresses "127.0.0.1:port", which your test has opened, and to which it may be pointed.
        era: "handshake" or "modern"; None: whatever it speaks. The first start of a command probes that.
        profile: Of a project or a run: which profile of harness.toml; its first, or the run's, without it.
        elicit: How elicitations are answered; None declares no such capability.
        answers: Scripted answers, in the words of `[[profiles.NAME.answers]]` in harness.toml; or a function that gets
            the `Question` and gives the result, or None for what `elicit` says. What it raises, the call raises.
        elicit_modes: Which modes are declared.
        sampling: Scripted answers of a model, in the words of harness.toml; without any none is declared.
        roots: `file://` URIs of folders that the client says the server may work in; None declares none.
        log_level: From which level on log notifications are asked for.
        progress: Ask for progress; each notification of it gives its call the whole time again.
        reads_dotenv: False if it reads no `.env` file by itself; else those in and above `cwd` are judged too.
        call_timeout_s: For calls that say nothing themselves (30).
        start_timeout_s: For the first answer (60).
        evidence: The folder of an attempt, where the transcript goes; else it is gone when the server is closed.
        began: The beginning of the run by `time.monotonic()`, from which times in the transcript count.
        name: How errors and checks call it.
    Raises:
        ServerError: It gave no first answer; the error has its exit code, stderr and the command.
        ConfigError: It is pointed at something that is not its own stack, or an argument cannot be used.
        MisuseError: No asyncio event loop runs.
    """
    client = client_of(
        elicit=elicit,
        answers=answers,
        elicit_modes=elicit_modes,
        sampling=sampling,
        roots=roots,
        log_level=log_level,
        progress=progress,
    )
    if project is not None or backend is not None:
        if project is None or command is not None or stack is not None or cwd is not None or url:
            raise ConfigError("project= says command, cwd and stack, and backend= goes with it: give it or these")

        def start() -> Coroutine[Any, Any, LiveServer]:
            from harness.testing_project import open_project  # it takes longer to load than all the rest

            return open_project(
                project,
                base=Path.cwd(),
                backend=backend,
                runtime=runtime,
                profile=profile,
                era=era,
                env=env,
                headers=headers,
                client=given(client),
                call_timeout_s=call_timeout_s,
                start_timeout_s=start_timeout_s,
                evidence=None if evidence is None else Path(evidence).absolute(),
                began=began,
            )

        return Starting(start)
    spec = make_spec(
        command,
        cwd=cwd,
        env=env,
        url=url,
        headers=headers,
        stack=stack,
        allow=allow,
        era=era,
        profile=profile,
        client=client,
        reads_dotenv=reads_dotenv,
        call_timeout_s=call_timeout_s,
        start_timeout_s=start_timeout_s,
        evidence=evidence,
        began=began,
        name=name,
    )
    return start_live(spec)


def start_live(spec: LiveSpec) -> Starting:
    """As `start_server`, for whoever has the whole of what it makes of its arguments."""
    return Starting(lambda: open_live(spec))


def open_stack(
    *backends: str,
    project: str | os.PathLike[str] | None = None,
    versions: Mapping[str, str] | None = None,
    runtime: RuntimeChoice = "auto",
) -> StackStarting:
    """Stands up backends, each new and on ports of its own on 127.0.0.1, and takes them down at the end.

    Args:
        backends: Names of shipped backends, or of those in `backends/` here: "redis", "redis@8".
        project: harness.toml, or its folder: the backends of its roles; `backends` then chooses among them.
        versions: Name of a backend -> version, for those without "@".
        runtime: "docker", "process" (the embedded form), or "auto": Docker where it can be used.
    Raises:
        StackError: One could not be stood up; what was is down again.
        ConfigError: There is no such backend or version, or the project has problems.
    """

    async def start() -> Stack:
        _refuse_other_loops()
        return await start_stack(backends, project=project, versions=versions, runtime=runtime)

    return StackStarting(start)


wait_for_http = wait_for_http_async
wait_for_tcp = wait_for_tcp_async


async def tool_coverage(
    *servers: Source, exempt: Exempt = None, name: str | None = None, level: Level = "succeeded"
) -> ToolCoverage:
    """What became of every tool, over all that several servers recorded (one that can be asked, one that cannot …).

    Args:
        servers: Servers that stand, or folders given as `evidence=`. Servers are asked for their lists where they were
            not yet.
        exempt: Tool -> reason why no test can call it; or an exemptions.toml, of which the entries of `name` count.
        name: Of the server, as exemptions.toml has it; what `start_server` was given without it.
        level: "succeeded", "answered" or "attempted".
    Raises:
        MisuseError: There is nothing recorded.
    """
    await _list(servers)
    return testing_judge.tool_coverage(*servers, exempt=exempt, name=name, level=level)


async def expect_every_tool_exercised(
    *servers: Source, exempt: Exempt = None, name: str | None = None, level: Level = "succeeded"
) -> ToolCoverage:
    """Nothing happens if every listed tool was called with success, or is excused; gives the sums.

    The arguments are those of `tool_coverage`.

    Raises:
        CoverageError: All of what is missing, failed, refused only, called and not listed; and all entries of `exempt`
            that are false, stale or without a reason.
    """
    await _list(servers)
    return testing_judge.expect_every_tool_exercised(*servers, exempt=exempt, name=name, level=level)


async def expect_every_tool_declares_output_schema(
    *servers: Source, exempt: Exempt = None, name: str | None = None
) -> None:
    """Nothing happens if every listed tool declares an output schema, and every recorded result is as declared.

    Args:
        exempt: Tool -> reason why it can declare none ("*" for all of them); a mismatch is never excused.
    Raises:
        CoverageError: All that is missing, is no schema of an object, or is not kept.
    """
    await _list(servers)
    testing_judge.expect_every_tool_declares_output_schema(*servers, exempt=exempt, name=name)


async def expect_portable_tool_schemas(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if the schemas of every listed tool, as received, are read alike by all clients.

    There is no exemption: each finding has a spelling that says the same.

    Args:
        warnings: Those count too.
    Raises:
        CoverageError: Each place in each schema, with its pointer.
    """
    await _list(servers)
    testing_judge.expect_portable_tool_schemas(*servers, name=name, warnings=warnings)


async def expect_clean_wire(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if all that came on stdout was MCP, each request got its one answer, and processes ended well.

    Args:
        servers: How a server ends is judged once it is closed, which takes a folder given as `evidence=`.
    Raises:
        CoverageError: Each line that should not be there, with its bytes and the call in flight; each crash and orphan.
    """
    testing_judge.expect_clean_wire(*servers, name=name, warnings=warnings)


async def _list(servers: Sequence[Source]) -> None:
    """Asks those for their tools that were not asked yet."""
    for server in servers:
        if isinstance(server, Server) and server._live.alive and not server._live.listed:
            await server.tools()


def _refuse_other_loops() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise MisuseError(
            "harness.testing_async runs on asyncio, and no event loop of asyncio runs here",
            hint="use harness.testing, which brings its own loop in a thread; under trio call it by "
            "trio.to_thread.run_sync",
        ) from None
