"""Tests in code, without `await`: start a server, call its tools, and have it all recorded for the ledger and the gate.

```python
with start_server(["python", "server.py"]) as server:
    assert server.call("greet", {"name": "Ada"}).text == "Hello, Ada"
    server.call("greet", {}, expect_error="name")
```

Everything happens on one event loop in a thread of its own, which lives as long as any server does. So servers may be
started and closed in any order, from any thread and from fixtures of every scope, also where an event loop runs already
(which then waits for the answer).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from harness import testing_async, testing_judge
from harness.engine.answers import Question
from harness.engine.cases import CaseHow
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
from harness.testing_async import begin_case, broken_off, end_case
from harness.testing_guards import WAIT_S, assert_loopback, assert_loopback_host
from harness.testing_judge import Exempt, Source, ToolCoverage
from harness.testing_spec import AnswersArgument, ExpectError, client_of, given, make_spec
from harness.testing_stack import AsyncStack, RuntimeChoice, start_stack

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

ALIVE_S = 1.0  # how often somebody who waits looks whether the loop lives
GIVE_UP_S = 30.0  # for the clean-up of what was interrupted; everything in it is bounded by less
T = TypeVar("T")


class _Loop:
    """The event loop that everything in this process shares: in a thread, for as long as anybody has a lease."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._portal: BlockingPortal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.leases: set[_Lease] = set()

    def lease(self) -> _Lease:
        if os.getpid() != self._pid:  # a fork has all of the parent's but the thread
            self._forget()
        with self._lock:
            if self._portal is None or self._loop is None:
                started: Future[tuple[BlockingPortal, asyncio.AbstractEventLoop]] = Future()
                self._thread = threading.Thread(target=_run, args=(started,), name="mcp-rollcall", daemon=True)
                self._thread.start()
                self._portal, self._loop = started.result()
            assert self._thread is not None
            found = _Lease(self, self._portal, self._loop, self._thread)
            self.leases.add(found)
            return found

    def end(self, lease: _Lease) -> None:
        with self._lock:
            if lease not in self.leases or os.getpid() != self._pid:
                return
            self.leases.discard(lease)
            if self.leases or self._portal is None or self._thread is None:
                return
            portal, thread = self._portal, self._thread
            self._portal = self._thread = None
            portal.call(portal.stop)
            thread.join()


def _run(started: Future[tuple[BlockingPortal, asyncio.AbstractEventLoop]]) -> None:
    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result((portal, asyncio.get_running_loop()))
            await portal.sleep_until_stopped()

    try:
        anyio.run(serve)
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)


class _Lease:
    """The use of the loop by one server or stack; the loop ends with the last of them."""

    def __init__(
        self, owner: _Loop, portal: BlockingPortal, loop: asyncio.AbstractEventLoop, thread: threading.Thread
    ) -> None:
        self._owner = owner
        self._portal = portal
        self._loop = loop
        self._thread = thread
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.held: LiveServer | AsyncStack | None = None

    def do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs something on the loop and waits for it; an interruption here ends it there, with its clean-up.

        Raises:
            MisuseError: This is the loop's own thread, which cannot wait for itself, or a fork.
            ServerClosed: The loop has ended with the last server.
        """
        if os.getpid() != self._pid:
            raise MisuseError(
                f"this server belongs to process {self._pid}, and this is a fork of it",
                hint="start a server in the process that calls it",
            )
        ended = threading.Event()

        async def run() -> T:
            try:
                return await work()
            finally:
                ended.set()

        if self not in self._owner.leases:
            raise ServerClosed("the server is closed")
        if _running_loop() is self._loop:
            raise MisuseError(
                "harness.testing was used in the thread of its own event loop, which would wait for itself",
                hint="answer elicitations without calling the server",
            )
        started = run()
        try:
            future = asyncio.run_coroutine_threadsafe(started, self._loop)  # a hop less than through the portal
        except RuntimeError:
            started.close()
            raise ServerClosed("the server is closed") from None
        try:
            return self._result(future)
        except CancelledError:
            raise ServerClosed("the server was closed meanwhile") from None
        except BaseException:
            if not ended.is_set():
                future.cancel()
                ended.wait(GIVE_UP_S)
            raise

    def _result(self, future: Future[T]) -> T:
        """What comes of it; a loop that has ended meanwhile answers nobody."""
        while True:
            try:
                return future.result(ALIVE_S)
            except TimeoutError:
                if future.done():
                    return future.result()  # the work's own
                if not self._thread.is_alive():
                    raise CancelledError from None

    async def open(self, start: Coroutine[Any, Any, LiveServer] | Coroutine[Any, Any, AsyncStack]) -> None:
        """Holds what is started: also where nobody waits for it any more."""
        self.held = await start

    def close(self, how: CaseHow | None = None, *, hurry: bool = False) -> None:
        """Closes what is held, if there is anything, and gives the loop back; a second call does nothing."""
        held = self.held
        with self._lock:
            if os.getpid() != self._pid or self not in self._owner.leases:
                return
            try:
                if isinstance(held, LiveServer):
                    self.do(lambda: held.close(how=how, hurry=hurry))
                elif held is not None:
                    self.do(held.close)
            finally:
                self._owner.end(self)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_loop = _Loop()


@atexit.register
def _close_all() -> None:
    """What nobody has closed: a test runner that was interrupted, a script that ended early."""
    for lease in tuple(_loop.leases):
        with suppress(Exception):
            lease.close(hurry=True)


class Server:
    """A server that stands, with a session; made by `start_server`. Every method may be used by any thread.

    It is what `harness.testing_async.Server` is, without `await`: what the methods do and raise is said there.
    """

    def __init__(self, lease: _Lease) -> None:
        assert isinstance(lease.held, LiveServer)
        self._lease = lease
        self._live = lease.held
        self._server = testing_async.Server(lease.held)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
        unlisted: bool = False,
    ) -> Result:
        """Calls a tool, which must answer as expected."""
        return self._lease.do(
            lambda: self._server.call(
                tool, arguments, expect_error=expect_error, timeout_s=timeout_s, unlisted=unlisted
            )
        )

    def raw(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        unlisted: bool = False,
    ) -> Mapping[str, Any]:
        """Calls a tool and gives what came, untouched: the `result` object, or the JSON-RPC `error` object."""
        return self._lease.do(lambda: self._server.raw(tool, arguments, timeout_s=timeout_s, unlisted=unlisted))

    def confirmed(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Calls a tool that asks for a confirmation by `confirm_token="…"`, and again with that token."""
        return self._lease.do(
            lambda: self._server.confirmed(tool, arguments, expect_error=expect_error, timeout_s=timeout_s)
        )

    def read_resource(self, uri: str, *, expect_error: ExpectError = None, timeout_s: float | None = None) -> Result:
        """Reads a resource; as `call`."""
        return self._lease.do(lambda: self._server.read_resource(uri, expect_error=expect_error, timeout_s=timeout_s))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        expect_error: ExpectError = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Gets a prompt; as `call`."""
        return self._lease.do(
            lambda: self._server.get_prompt(name, arguments, expect_error=expect_error, timeout_s=timeout_s)
        )

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Mapping[str, Any]:
        """Any other request; gives the whole response object, whatever is in it."""
        return self._lease.do(lambda: self._server.request(method, params, timeout_s=timeout_s))

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        self._lease.do(lambda: self._server.notify(method, params))

    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Everything that it lists, all pages, each tool as it came."""
        return self._lease.do(self._server.tools)

    def list_prompts(self) -> tuple[Mapping[str, Any], ...]:
        """All prompts that it lists; as `tools`."""
        return self._lease.do(self._server.list_prompts)

    def list_resources(self) -> tuple[Mapping[str, Any], ...]:
        """All resources that it lists; as `tools`."""
        return self._lease.do(self._server.list_resources)

    def list_resource_templates(self) -> tuple[Mapping[str, Any], ...]:
        """All templates of resources that it lists; as `tools`."""
        return self._lease.do(self._server.list_resource_templates)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """What the server asked of the user so far (elicitations), oldest first."""
        return self._server.prompts

    @property
    def called(self) -> tuple[Called, ...]:
        """Every call so far, and what became of it, oldest first."""
        return self._server.called

    @property
    def notifications(self) -> tuple[Notification, ...]:
        """Every notification so far (log messages, progress, changes of lists), oldest first."""
        return self._server.notifications

    def stderr(self) -> str:
        """The tail of its stderr so far, masked."""
        return self._server.stderr()

    @property
    def era(self) -> Era:
        """The era that is spoken: "handshake" or "modern"."""
        return self._server.era

    @property
    def protocol(self) -> str:
        """The protocol version in force."""
        return self._server.protocol

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As the server declared them."""
        return self._server.capabilities

    @property
    def server_info(self) -> Mapping[str, Any]:
        """Name and version, as the server gave them."""
        return self._server.server_info

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._server.pid

    @property
    def healthy(self) -> bool:
        """Whether it lives and has answered everything in time; a server that has not is better replaced."""
        return self._server.healthy

    @property
    def in_flight(self) -> tuple[str, ...]:
        """The requests that are open, such as "tools/call slow"."""
        return self._live.in_flight()

    @property
    def ended(self) -> Ended | None:
        """How it ended, with what it left behind; None while it lives."""
        return self._server.ended

    @property
    def name(self) -> str:
        """As it was given to `start_server`."""
        return self._live.spec.name

    @property
    def transcript(self) -> Path:
        """The file in which everything is recorded."""
        return self._server.transcript

    def close(self) -> None:
        """Ends the server and all that it started; never hangs, and a second call does nothing more."""
        self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lease.close(broken_off(kind))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {testing_async.describe(self._live)}>"


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
) -> Server:
    """Starts a server and begins a session with it; `harness.testing_async.start_server` says what the arguments mean.

    Raises:
        ServerError: It gave no first answer; the error has its exit code, stderr and the command.
        ConfigError: It is pointed at something that is not its own stack, or an argument cannot be used.
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

        return _server(start)
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


def start_live(spec: LiveSpec) -> Server:
    """As `start_server`, for whoever has the whole of what it makes of its arguments."""
    return _server(lambda: open_live(spec))


def _server(start: Callable[[], Coroutine[Any, Any, LiveServer]]) -> Server:
    lease = _loop.lease()
    try:
        lease.do(lambda: lease.open(start()))
        return Server(lease)
    except BaseException:
        lease.close(hurry=True)
        raise


class Stack(Mapping[str, str]):
    """Backends that stand, as a mapping of their outputs: `stack["redis.url"]`; made by `open_stack`.

    Attributes:
        addresses: Every (host, port) that was handed out: a server may be pointed at these and no others.
        names: Of services inside the stack.
        secrets: What is masked in everything that is recorded of a server with `stack=`.
        versions: "redis@8" -> the version that it reports itself, "" if it does not.
        runtime: "docker" or "process".
    """

    def __init__(self, lease: _Lease) -> None:
        assert isinstance(lease.held, AsyncStack)
        self._lease = lease
        self._stack = lease.held
        self.addresses = self._stack.addresses
        self.names = self._stack.names
        self.secrets = self._stack.secrets
        self.versions = self._stack.versions
        self.runtime = self._stack.runtime

    def __getitem__(self, name: str) -> str:
        return self._stack[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stack)

    def __len__(self) -> int:
        return len(self._stack)

    def logs(self) -> Mapping[str, str]:
        """The logs of its services at this moment, masked, by name."""
        return self._lease.do(self._stack.logs)

    def close(self) -> None:
        """Takes it down, whatever comes; a second call does nothing more.

        Raises:
            StackError: Something could not be removed.
        """
        self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lease.close()

    def __repr__(self) -> str:
        return repr(self._stack)


def open_stack(
    *backends: str,
    project: str | os.PathLike[str] | None = None,
    versions: Mapping[str, str] | None = None,
    runtime: RuntimeChoice = "auto",
) -> Stack:
    """Stands up backends; `harness.testing_async.open_stack` says what the arguments mean.

    Raises:
        StackError: One could not be stood up; what was is down again.
        ConfigError: There is no such backend or version, or the project has problems.
    """
    lease = _loop.lease()
    try:
        lease.do(lambda: lease.open(start_stack(backends, project=project, versions=versions, runtime=runtime)))
        return Stack(lease)
    except BaseException:
        lease.close(hurry=True)
        raise


def wait_for_http(
    url: str, *, status: Sequence[int] | None = None, body: str | None = None, timeout_s: float = WAIT_S
) -> None:
    """Waits until an HTTP server on this machine has answered well twice in a row.

    Args:
        url: `http://127.0.0.1:PORT/…`; redirects are not followed, and no proxy is asked.
        status: What is a good answer; without it any below 500.
        body: What the answer must contain.
    Raises:
        NotLoopback: The URL leads elsewhere.
        StackError: The time is over; what was seen last is in the message.
    """
    _once(lambda: testing_async.wait_for_http(url, status=status, body=body, timeout_s=timeout_s))


def wait_for_tcp(
    host: str, port: int, *, send: bytes = b"", expect: bytes | None = None, timeout_s: float = WAIT_S
) -> None:
    """Waits until something on this machine has taken a connection, and said what it should, twice in a row.

    Args:
        send: What is sent first.
        expect: What must come, such as `b"* OK"` of IMAP or `b"220"` of SMTP; without it a connection that stays open
            for a moment is enough.
    Raises:
        NotLoopback: The host is another machine's.
        StackError: The time is over; what was seen last is in the message.
    """
    _once(lambda: testing_async.wait_for_tcp(host, port, send=send, expect=expect, timeout_s=timeout_s))


def _once(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    lease = _loop.lease()
    try:
        return lease.do(work)
    finally:
        lease.close()


def tool_coverage(
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
    _list(servers)
    return testing_judge.tool_coverage(*servers, exempt=exempt, name=name, level=level)


def expect_every_tool_exercised(
    *servers: Source, exempt: Exempt = None, name: str | None = None, level: Level = "succeeded"
) -> ToolCoverage:
    """Nothing happens if every listed tool was called with success, or is excused; gives the sums.

    The arguments are those of `tool_coverage`.

    Raises:
        CoverageError: All of what is missing, failed, refused only, called and not listed; and all entries of `exempt`
            that are false, stale or without a reason.
    """
    _list(servers)
    return testing_judge.expect_every_tool_exercised(*servers, exempt=exempt, name=name, level=level)


def expect_every_tool_declares_output_schema(*servers: Source, exempt: Exempt = None, name: str | None = None) -> None:
    """Nothing happens if every listed tool declares an output schema, and every recorded result is as declared.

    Args:
        exempt: Tool -> reason why it can declare none ("*" for all of them); a mismatch is never excused.
    Raises:
        CoverageError: All that is missing, is no schema of an object, or is not kept.
    """
    _list(servers)
    testing_judge.expect_every_tool_declares_output_schema(*servers, exempt=exempt, name=name)


def expect_portable_tool_schemas(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if the schemas of every listed tool, as received, are read alike by all clients.

    There is no exemption: each finding has a spelling that says the same.

    Args:
        warnings: Those count too.
    Raises:
        CoverageError: Each place in each schema, with its pointer.
    """
    _list(servers)
    testing_judge.expect_portable_tool_schemas(*servers, name=name, warnings=warnings)


def expect_clean_wire(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if all that came on stdout was MCP, each request got its one answer, and processes ended well.

    Args:
        servers: How a server ends is judged once it is closed, which takes a folder given as `evidence=`.
    Raises:
        CoverageError: Each line that should not be there, with its bytes and the call in flight; each crash and orphan.
    """
    testing_judge.expect_clean_wire(*servers, name=name, warnings=warnings)


def _list(servers: Sequence[Source]) -> None:
    """Asks those for their tools that were not asked yet."""
    for server in servers:
        if isinstance(server, Server) and server._live.alive and not server._live.listed:
            server.tools()
