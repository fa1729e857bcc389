"""The comparing pass: what a user of the official Python client gets from this server, on our own record.

Our session takes whatever it can use; the client that users have does not. It is connected to one more server process,
as its users do it, and asked for every page of every list; each byte is on the record, and so is what it handed out.
Over stdio it is given our own pipes; over HTTP it brings its own transport, and what crosses it is recorded below it.
No tool is called. Nothing here judges.

`mcp` is imported in a thread, while the run waits for something else: before the first pass of a process, or while its
server starts.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2

from harness.engine.http_pipe import HttpPipe, no_certificates
from harness.engine.http_record import HttpReader
from harness.engine.pipe import Pipe, PipeClosed
from harness.engine.record import Recorder
from harness.engine.wire import MAX_PAGES
from harness.errors import iterate_errors
from harness.model.frame import message_in
from harness.model.plan import Era
from harness.model.transcript import Body, ClientSaw, Diagnostic

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.shared.message import SessionMessage

__all__ = ["MODES", "PASS_S", "client_pass", "load_client"]

PASS_S = 120.0  # for all of it, but the stop of the server
CLOSE_S = 2.0  # for its connections
DETAIL_CHARS = 2000
LOG_CHARS = 500
LOG_LINES = 100
MODES: Mapping[Era, str] = {"modern": "auto", "handshake": "legacy"}  # what is the default, and what asks for less
TIMED_OUT = "timed-out"
_LOGGERS = ("client", "mcp")
_SIDES = ("harness", "mcp", "mcp_types")  # top packages whose code may be at fault


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The parts of `mcp` that are used."""

    client: type[Client]
    message: type[SessionMessage]
    parse: Callable[[bytes], Any]
    check_discover: Callable[[Any], Any]
    over_http: Callable[..., Any]


def _import_sdk() -> _Sdk:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.message import SessionMessage
    from mcp.types import DiscoverResult, jsonrpc_message_adapter

    def parse(line: bytes) -> Any:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)

    return _Sdk(Client, SessionMessage, parse, DiscoverResult.model_validate, streamable_http_client)


async def load_client() -> None:
    """Imports the official client in a thread, ahead of its pass; if that fails, the pass will say so."""
    with suppress(Exception):
        await anyio.to_thread.run_sync(_import_sdk, abandon_on_cancel=True)


async def client_pass(
    spawn: Callable[[Recorder], Awaitable[Pipe]],
    recorder: Recorder,
    *,
    era: Era,
    connect_s: float,
    call_s: float,
    hurry: bool,
) -> None:
    """Starts a server, looks at it through the official client, and stops it; bounded, and raises nothing.

    What goes wrong is on the record: as the client's exception, or, where it is our own fault, as a diagnostic.

    Args:
        spawn: Starts the server, with this recorder.
        recorder: Of a new transcript; it is closed at the end.
        connect_s: For connecting.
        call_s: For each page of a list.
        hurry: Do not give the server its time when stdin is closed.
    """
    pipe: Pipe | None = None
    link: _Link | None = None
    done = False
    try:
        pipe = await spawn(recorder)
        link = _HttpLink(pipe) if isinstance(pipe, HttpPipe) else _Link(pipe)
        if not_ready := await pipe.ready(connect_s):
            recorder.add(Diagnostic, what="client-failed", detail=not_ready)
            return
        with anyio.move_on_after(PASS_S):
            sdk = await anyio.to_thread.run_sync(_import_sdk, abandon_on_cancel=True)
            recorder.add(Diagnostic, what="client", detail=f"mcp {version('mcp')}, mode {MODES[era]!r}")
            with _logged(recorder):
                await _Look(sdk, link, recorder, connect_s=connect_s, call_s=call_s).take(MODES[era])
            done = True
        if done:
            recorder.add(Diagnostic, what="client-done")
        else:
            recorder.add(Diagnostic, what="client-failed", detail=f"it was not done within {PASS_S:g} s")
    except Exception as error:
        with suppress(OSError):
            for leaf in iterate_errors(error):
                recorder.add(Diagnostic, what="client-failed", detail=_text(recorder, leaf, named=True))
    finally:
        with suppress(OSError), anyio.CancelScope(shield=True):
            if link is not None:
                await link.aclose()
            if pipe is not None:
                await pipe.stop(hurry=hurry or not done)
        recorder.close()


class _Look:
    """One client, asked for everything, and what it gave."""

    def __init__(self, sdk: _Sdk, link: _Link, recorder: Recorder, *, connect_s: float, call_s: float) -> None:
        self.sdk, self.link, self.recorder = sdk, link, recorder
        self.connect_s, self.call_s = connect_s, call_s
        link.sdk = sdk

    async def take(self, mode: str) -> None:
        """Connects, lists, leaves.

        Raises:
            Exception: Something that is no doing of the client's.
        """
        client = self.sdk.client(self.link.target(), mode=mode, cache=None)
        connected = False
        with anyio.CancelScope(deadline=anyio.current_time() + self.connect_s) as scope:
            try:
                async with client:
                    connected, scope.deadline = True, math.inf
                    self._connected(client)
                    await self._lists(client)
            except Exception as error:
                if connected:
                    raise
                self._raised("connect", error)
                self._why_not_modern()
        if scope.cancelled_caught and not connected:
            self._timed_out("connect", self.connect_s)

    def _connected(self, client: Client) -> None:
        found = client.session.discover_result or client.session.initialize_result
        info = client.server_info
        self._saw(
            "connect",
            _json(
                {
                    "protocolVersion": client.protocol_version,
                    "capabilities": client.server_capabilities.model_dump(
                        by_alias=True, mode="json", exclude_none=True
                    ),
                    "serverInfo": None
                    if info is None
                    else info.model_dump(by_alias=True, mode="json", exclude_none=True),
                    "result": type(found).__name__,
                }
            ),
        )
        if client.session.discover_result is None:
            self._why_not_modern()

    def _why_not_modern(self) -> None:
        """The client says nowhere why an answer to server/discover is none to it; here it is asked."""
        if self.link.discovered is None:
            return
        try:
            self.sdk.check_discover(self.link.discovered)
        except ValueError as error:
            self.recorder.add(Diagnostic, what="client-log", detail=f"server/discover: {_text(self.recorder, error)}")

    async def _lists(self, client: Client) -> None:
        declared = client.server_capabilities
        wanted: list[tuple[str, Callable[..., Awaitable[Any]]]] = [("tools/list", client.list_tools)]
        if declared.prompts is not None:
            wanted.append(("prompts/list", client.list_prompts))
        if declared.resources is not None:
            wanted.append(("resources/list", client.list_resources))
            wanted.append(("resources/templates/list", client.list_resource_templates))
        for method, ask in wanted:
            if self.link.dead or not await self._pages(method, ask):
                return

    async def _pages(self, method: str, ask: Callable[..., Awaitable[Any]]) -> bool:
        """All pages of one list; False where nothing more can be had from this server."""
        cursor: str | None = None
        seen: set[str | None] = set()
        while cursor not in seen and len(seen) < MAX_PAGES:
            seen.add(cursor)
            page = None
            with anyio.move_on_after(self.call_s):
                try:
                    page = await ask(cursor=cursor)
                except Exception as error:
                    self._raised(method, error)
                    return True
            if page is None:
                self._timed_out(method, self.call_s)
                return False
            self._saw(method, page.model_dump_json(by_alias=True, exclude_none=True).encode())
            cursor = page.next_cursor
            if not cursor:
                break
        return True

    def _saw(self, action: str, body: bytes) -> None:
        self.recorder.add(ClientSaw, action=action, body=Body(body))

    def _raised(self, action: str, error: Exception) -> None:
        """Notes what the client raised.

        Raises:
            Exception: It was not the client's but our own.
        """
        leaf = next(iterate_errors(error))
        if _is_ours(leaf):
            raise error
        detail = _text(self.recorder, leaf)
        self.recorder.add(ClientSaw, action=action, body=Body(b""), error=type(leaf).__name__, detail=detail)

    def _timed_out(self, action: str, seconds: float) -> None:
        detail = f"nothing came within {seconds:g} s"
        self.recorder.add(ClientSaw, action=action, body=Body(b""), error=TIMED_OUT, detail=detail)


# --- the transport ----------------------------------------------------------------------------------


class _Link:
    """Our pipes as a transport of the SDK's: two streams that can be entered once.

    Attributes:
        discovered: The result of server/discover, as it came.
    """

    def __init__(self, pipe: Pipe) -> None:
        self.sdk: _Sdk | None = None
        self.discovered: Any = None
        self._pipe = pipe
        self._recorder = pipe.recorder
        self._feed, self._lines = anyio.create_memory_object_stream[bytes](math.inf)
        self._open: dict[str, str] = {}
        self._last: str | None = None
        pipe.on_line = self._line
        pipe.on_dead = lambda _: self._feed.close()
        pipe.traffic = lambda: (tuple(self._open.values()), self._last)

    @property
    def dead(self) -> bool:
        """Whether no answer can come any more."""
        return bool(self._pipe.dead)

    def target(self) -> Any:
        """What the client is handed in the place of a server."""
        return self

    async def __aenter__(self) -> tuple[_Reader, _Writer]:
        assert self.sdk is not None
        return _Reader(self._lines, self.sdk), _Writer(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """No more is handed on."""
        self._feed.close()
        self._lines.close()

    def _note(self, line: bytes) -> None:
        """A message of the server's: which request it answers."""
        message = message_in(line)
        if message is not None and "method" not in message and ("result" in message or "error" in message):
            label = self._open.pop(str(message.get("id")), None)
            self._last = label or self._last
            if label == "server/discover":
                self.discovered = message.get("result")

    def _line(self, line: bytes) -> None:
        self._note(line)
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._feed.send_nowait(self._recorder.masked(line))  # its exceptions quote what they cut

    def _sent(self, line: bytes) -> int | str | None:
        """Records a message of the client's; its id, if it is a request."""
        message = message_in(line) or {}
        method = message.get("method")
        label = method if isinstance(method, str) else "answer to the server"
        identity = message.get("id") if isinstance(method, str) else None
        if identity is not None:
            self._open[str(identity)] = label
        self._last = label
        self._recorder.sent(line, label)
        return identity if isinstance(identity, int | str) else None

    def write(self, line: bytes) -> None:
        """Sends one message of the client's.

        Raises:
            ClosedResourceError: The server cannot get it any more; so does the SDK's own transport.
        """
        if self._pipe.dead or self._pipe.exit is not None:
            raise anyio.ClosedResourceError
        self._sent(line)
        try:
            self._pipe.send(line)
        except PipeClosed:
            self._feed.close()  # or a request would hang for ever
            raise anyio.ClosedResourceError from None


class _HttpLink(_Link):
    """The client's own transport over HTTP, as its users have it; what crosses it is on record."""

    def __init__(self, pipe: HttpPipe) -> None:
        super().__init__(pipe)
        self._http = pipe
        self._transport = _Recorded(pipe, self)
        pipe.on_line = lambda _: None

    def target(self) -> Any:
        """The SDK's own transport, above ours."""
        assert self.sdk is not None
        headers, limit = self._http.own_headers, httpx2.Timeout(None)
        client = httpx2.AsyncClient(transport=self._transport, headers=headers, timeout=limit, trust_env=False)
        return self.sdk.over_http(self._http.url, http_client=client)

    async def aclose(self) -> None:
        """Closes its connections."""
        await super().aclose()
        with anyio.move_on_after(CLOSE_S):
            await self._transport.aclose()

    def posts(self, line: bytes) -> int | str | None:
        """A message of the client's that goes out now; its id, if it is a request."""
        return self._sent(line)

    def came(self, lines: Sequence[bytes]) -> None:
        """Messages of the server's, after they were recorded."""
        for line in lines:
            self._note(line)


class _Recorded(httpx2.AsyncBaseTransport):
    """Below the client: every exchange is on record as our own are."""

    def __init__(self, pipe: HttpPipe, link: _HttpLink) -> None:
        self._pipe = pipe
        self._link = link
        self._inner = httpx2.AsyncHTTPTransport(verify=no_certificates(), trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One exchange."""
        log = self._pipe.log
        line = await request.aread()
        wanted = self._link.posts(line) if line else None
        carries = log.recorder.count if line else None
        exchange = log.request(request.method, str(request.url), request.headers.raw, carries=carries)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.HTTPError as error:
            log.response_less(exchange, "broken", f"{type(error).__name__}: {error}")
            raise
        except BaseException:
            log.response_less(exchange, "closed", "before any response")
            raise
        reader = log.response(exchange, response.status_code, response.headers.raw, wanted=wanted)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        stream = _RecordedStream(response.stream, reader, self._link)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._inner.aclose()


class _RecordedStream(httpx2.AsyncByteStream):
    """A body that is on record as it is read."""

    def __init__(self, inner: httpx2.AsyncByteStream, reader: HttpReader, link: _HttpLink) -> None:
        self._inner = inner
        self._reader = reader
        self._link = link

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._link.came(self._reader.feed(chunk))
                yield chunk
        except httpx2.HTTPError as error:
            self._reader.finish("broken", f"{type(error).__name__}: {error}")
            raise
        self._link.came(self._reader.finish("complete"))

    async def aclose(self) -> None:
        """No more is wanted of it."""
        self._reader.finish("closed")
        await self._inner.aclose()


class _Reader:
    """What the client reads: a message for each line, or the exception that the line gives, as the SDK's stdio does."""

    def __init__(self, lines: anyio.abc.ObjectReceiveStream[bytes], sdk: _Sdk) -> None:
        self._lines = lines
        self._sdk = sdk

    async def receive(self) -> SessionMessage | Exception:
        """The next one."""
        line = await self._lines.receive()
        try:
            return self._sdk.message(self._sdk.parse(line))
        except ValueError as error:
            return error

    async def aclose(self) -> None:
        """No more is wanted."""
        await self._lines.aclose()

    def __aiter__(self) -> _Reader:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writer:
    """What the client writes to."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    async def send(self, item: SessionMessage, /) -> None:
        """One message, as one line."""
        await anyio.lowlevel.checkpoint()
        self._link.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def aclose(self) -> None:
        """Nothing: the server's stdin is closed when it is stopped."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


# --- what it says -----------------------------------------------------------------------------------


class _Handler(logging.Handler):
    """Puts the client's warnings on the record: it says there why it leaves a tool out."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(logging.WARNING)
        self._recorder = recorder
        self._left = LOG_LINES

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the log."""
        if self._left:
            self._left -= 1
            with suppress(OSError, ValueError):
                self._recorder.add(Diagnostic, what="client-log", detail=self._masked(record.getMessage())[:LOG_CHARS])

    def _masked(self, text: str) -> str:
        return str(self._recorder.masked_json(text))


@contextmanager
def _logged(recorder: Recorder) -> Iterator[None]:
    """Takes the SDK's log for this time, so that it does not end up on our stderr."""
    handler = _Handler(recorder)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)


def _is_ours(error: BaseException) -> bool:
    """Whether an exception was raised by our code, or by what that called, and not by the client's."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        last = name if name in _SIDES else last
        trace = trace.tb_next
    return last == "harness"


def _text(recorder: Recorder, error: BaseException, *, named: bool = False) -> str:
    """An exception's text as its user sees it, without pydantic's advertisement, masked and cut."""
    lines = [line for line in str(error).splitlines() if "For further information visit" not in line]
    code = getattr(error, "code", None)
    text = "\n".join(lines) + (f" (code {code})" if isinstance(code, int) else "")
    return f"{type(error).__name__ + ': ' if named else ''}{recorder.masked_json(text)}"[:DETAIL_CHARS]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
