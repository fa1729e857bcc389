"""The way to a server over Streamable HTTP, in both eras: a process of ours that listens on a port that we chose.

Each message that goes out is a POST; what comes back, at once or as a stream of events, is recorded at the HTTP layer
and handed on as messages. What the transport asks of a client is done here, by what the messages themselves say: the
headers of the modern era and its cancellation; the session, the version header, the listening stream and the resumption
of broken streams of the handshake era. Nothing here judges.

Sources: MCP 2025-11-25 and 2026-07-28, basic/transports#streamable-http. Timings are ours.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2

from harness import __version__
from harness.engine.http_record import HttpLog, HttpReader
from harness.engine.listeners import Listener, listeners, owner_of
from harness.engine.pipe import Loss, PipeClosed
from harness.engine.process import Exit, ServerProcess, start_process
from harness.engine.record import Recorder
from harness.engine.tail import Tail, describe_code, record_exit
from harness.errors import ServerError
from harness.model.frame import is_response, message_in
from harness.model.outcome import cut
from harness.model.transcript import LINE_LIMIT_BYTES, Body, Diagnostic, Orphan, Spawned, Stdout

__all__ = ["HttpAnswer", "HttpPipe", "described", "encode_header", "no_certificates", "open_http", "well_known"]

POLL_S = 0.05  # between two looks whether its port takes connections
CONNECT_S = 5.0  # for a connection to a port of this machine
INITIALIZED_S = 5.0  # how long later requests wait until the server has taken notifications/initialized
CLOSING_S = 1.0  # from the break of a connection to the end of a process that ends
DRAIN_S = 0.5  # how long after the exit what it sent last may still be coming
GOODBYE_S = 2.0  # for the DELETE of the session, and for closing connections
TERM_S = 5.0  # a server over HTTP is ended by SIGTERM: its stdin says nothing to it
RETRY_S = 1.0  # before a stream is asked for again, where the server does not say
RETRY_MAX_S = 30.0
TRIES = 5  # how often in a row a stream may bring nothing before it is asked for no more
LEGACY_S = 3.0  # for the first event of the transport that came before this one
MAX_REDIRECTS = 3
QUOTED_BYTES = 200
BODY_SHOWN_BYTES = 2_000  # of a body that is no answer, told to whoever asked
HEADER_LIMIT_CHARS = 4_000  # of one header that repeats an argument

_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_ENDPOINT = re.compile(rb"(?m)^event:[ ]?endpoint\s*$")
_REDIRECTS = (301, 302, 303, 307, 308)
_LOGIN_HINT = (
    'hand over what it asks for: headers = { Authorization = "Bearer …" } under [server] in harness.toml, headers= in '
    "start_server; or start it in a form that asks for nothing"
)
_REFUSED_HINT = "is what was sent what the server was started with? its value is shown nowhere"
_LEGACY = (
    "the server speaks HTTP+SSE, the transport of protocol version 2024-11-05, and not its successor, Streamable HTTP"
)
_LEGACY_HINT = (
    "start the server with Streamable HTTP (often a transport called http or streamable-http, at the path /mcp)"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back to a request that is no part of the session; status 0 where nothing did."""

    status: int
    headers: httpx2.Headers
    body: bytes


def no_certificates() -> ssl.SSLContext:
    """A context that trusts nobody: a server's address is http://127.0.0.1, and to read them takes 50 ms a client."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class HttpPipe:
    """A running server and its address.

    Args:
        headers: Sent with every request of the session.
    Attributes:
        url: Its MCP endpoint; another path of the same origin after a redirect.
        own_headers: What is sent with every request of the session.
        session: The session id that it gave, "" without one.
        version: The protocol version in force in the handshake era, "" before.
    """

    def __init__(
        self,
        process: ServerProcess,
        recorder: Recorder,
        *,
        url: str,
        headers: Mapping[str, str],
        limit: int,
        shared: bool,
    ) -> None:
        self.process = process
        self.recorder = recorder
        self.url = url
        self.own_headers = dict(headers)
        self.session = ""
        self.version = ""
        self.on_line: Callable[[bytes], None] = lambda _: None
        self.on_dead: Callable[[str], None] = lambda _: None
        self.on_lost: Callable[[int | str, Loss], None] = lambda _, __: None
        self.traffic: Callable[[], tuple[tuple[str, ...], str | None]] = lambda: ((), None)
        self.leftovers: Callable[[], Awaitable[tuple[Orphan, ...]]] | None = None
        self.dead = ""
        self.exit: Exit | None = None
        self.sent_bytes = 0
        self.log = HttpLog(recorder, traffic=lambda: self.traffic(), limit=limit)
        self.log.on_full = lambda reason: self._die(f"the server was stopped: {reason}")
        self.client = httpx2.AsyncClient(
            headers={"user-agent": f"mcp-rollcall/{__version__}", "accept-encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0),
            verify=no_certificates(),
            trust_env=False,
        )
        self._shared = shared  # another process than a child of ours may hold the port
        self._readers: dict[int, HttpReader] = {}
        self._open: dict[str, asyncio.Task[None]] = {}  # str(id) of a request -> what waits for its answer
        self._modern: set[str] = set()
        self._answered: set[str] = set()
        self._listed: set[str] = set()  # requests for tools/list
        self._params: dict[str, dict[tuple[str, ...], str]] = {}  # tool -> arguments that headers repeat
        self._unread: set[int] = set()  # where requests begin that nobody took
        self._tasks: set[asyncio.Task[Any]] = set()
        self._initialize = ""  # id of that request
        self._initialized: asyncio.Event | None = None
        self._listening = False
        self._spoken = False
        self._stopping = False
        self._out = Tail(recorder)
        self._err = Tail(recorder)
        self._loop = asyncio.get_running_loop()
        recorder.on_failed = self._unrecorded

    async def connect(self) -> None:
        """From now on stdout and stderr are drained."""
        _, stdout, stderr = self.process.pipes
        await self._err.attach(stderr)
        await self._out.attach(stdout)
        self.process.on_end(self._leader_ended)
        if self.recorder.failed is not None:
            self._unrecorded()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its endpoint."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    async def ready(self, timeout_s: float) -> str:
        """Waits until its port takes connections, and looks whose port that is."""
        host, port = self.address
        deadline = time.monotonic() + timeout_s
        while not await _takes(host, port):
            if self.process.look():
                return self.ended
            if time.monotonic() >= deadline:
                return f"no answer on {host}:{port} within {timeout_s:g} s: the server does not listen there" + (
                    f"; it listens on {', '.join(others)}" if (others := self._own_addresses()) else ""
                )
            await asyncio.sleep(POLL_S)
        found = listeners(port)
        for item in found:
            self.recorder.add(Diagnostic, what="listening", detail=item.address)
        if found and not self._shared and not any(self._is_ours(item) for item in found):
            return f"the port {port}, which was chosen for the server, is taken by {owner_of(found[0])}"
        return ""

    def _is_ours(self, item: Listener) -> bool:
        if not item.pids:
            return True  # whose it is cannot be told
        family = {self.process.pid, *self.process.family()}
        return any(pid in family or self.process.bears_mark(pid) for pid in item.pids)

    def _own_addresses(self) -> list[str]:
        return sorted({item.address for item in listeners() if item.pids and self._is_ours(item)})

    # --- to the server ------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Posts one message.

        Raises:
            PipeClosed: The server was stopped.
        """
        if self._stopping or self.exit is not None:
            raise PipeClosed
        start, self.sent_bytes = self.sent_bytes, self.sent_bytes + len(line) + 1
        message = message_in(line) or {}
        number = self.recorder.count  # of the `sent` event
        identity = message.get("id") if "method" in message else None
        wanted = identity if isinstance(identity, int | str) else None
        task = self._loop.create_task(self._post(line, message, number, wanted, start))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if wanted is not None:
            self._open[str(wanted)] = task
            if _is_modern(message):
                self._modern.add(str(wanted))

    def abandon(self, id: int | str) -> bool:  # noqa: A002 - it is called so
        """In the modern era a request is cancelled by closing its stream."""
        task = self._open.pop(str(id), None)
        if str(id) not in self._modern:
            return False
        if task is not None:
            task.cancel()
        return True

    def unread_from(self, start: int) -> bool:
        """Whether there was nobody to take that request."""
        return start in self._unread

    @property
    def unsent(self) -> int:
        """Nothing is known of that."""
        return 0

    @property
    def reading(self) -> bool:
        """Nothing is known of that."""
        return True

    @property
    def coming(self) -> bool:
        """Whether a message is coming at this moment."""
        return any(reader.coming for reader in self._readers.values())

    @property
    def unfinished(self) -> bytes:
        """What came of a message that is not at its end; of several, the newest."""
        return next((rest for reader in reversed(self._readers.values()) if (rest := reader.unfinished)), b"")

    @property
    def line_count(self) -> int:
        """How many messages came."""
        return self.log.messages

    @property
    def stderr_tail(self) -> bytes:
        """The last of stderr; where that is empty, of stdout."""
        return self._err.tail or self._out.tail

    def headers_for(self, message: Mapping[str, Any]) -> dict[str, str]:
        """What the transport asks to be said besides the message."""
        out = {"accept": "application/json, text/event-stream", "content-type": "application/json", **self.own_headers}
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, Mapping) else {}
        if _is_modern(message):
            out["mcp-protocol-version"] = str(params["_meta"][_META_VERSION])
            out["mcp-method"] = encode_header(str(method))
            name = params.get(_NAMES.get(str(method), ""))
            if isinstance(name, str):
                out["mcp-name"] = encode_header(name)
            if method == "tools/call" and isinstance(name, str):
                out.update(_param_headers(self._params.get(name, {}), params.get("arguments")))
            return out
        return out | self.session_headers()

    def session_headers(self) -> dict[str, str]:
        """What tells the server which session of the handshake era a request belongs to."""
        out = dict(self.own_headers)
        if self.version:
            out["mcp-protocol-version"] = encode_header(self.version)
        if self.session:
            out["mcp-session-id"] = self.session
        return out

    async def _post(
        self, line: bytes, message: Mapping[str, Any], number: int, wanted: int | str | None, start: int
    ) -> None:
        method = message.get("method")
        told = self._initialized
        if method == "notifications/initialized":
            told = None
            self._initialized = asyncio.Event()
        elif told is not None and not told.is_set():
            with anyio.move_on_after(INITIALIZED_S):
                await told.wait()
        if method == "initialize":
            self._initialize = str(wanted)
        if method == "tools/list" and wanted is not None and _is_modern(message):
            self._listed.add(str(wanted))
        try:
            loss = await self._exchange(line, message, number, wanted, start)
        finally:
            if method == "notifications/initialized" and self._initialized is not None:
                self._initialized.set()
        if method == "notifications/initialized" and not self._listening:
            self._listening = True
            self._spawn(self._listen())
        if wanted is not None and loss is not None and str(wanted) not in self._answered:
            self._open.pop(str(wanted), None)
            if loss.status in (401, 407) and not self._spoken:
                await self.ask("GET", well_known(self.url), probe="well-known")
            if loss.status in (400, 404, 405, 406, 415) and not self._spoken and await self._is_legacy():
                loss = dataclasses.replace(loss, why=_LEGACY, hint=_LEGACY_HINT)
            if not self.dead:
                self.on_lost(wanted, loss)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(
        self, line: bytes, message: Mapping[str, Any], number: int, wanted: int | str | None, start: int
    ) -> Loss | None:
        """One message and what comes back to it; why no answer came, None where one did or none is due."""
        for _ in range(MAX_REDIRECTS + 1):
            request = self.client.build_request("POST", self.url, content=line, headers=self.headers_for(message))
            with_session = "mcp-session-id" in request.headers
            exchange = self.log.request("POST", self.url, request.headers.raw, carries=number)
            try:
                async with self._sent(request, exchange) as response:
                    place = response.headers.get("location")
                    reader = self.log.response(exchange, response.status_code, response.headers.raw, wanted=wanted)
                    self._began(message, response)
                    broken = await self._read(reader, response)
                    if response.status_code in _REDIRECTS and place:
                        target = urljoin(self.url, place)
                        if _origin(target) == _origin(self.url) and response.status_code in (307, 308):
                            self.url = target
                            continue
                        return Loss(f"HTTP {response.status_code} leads elsewhere, to {cut(target)}", 0)
            except httpx2.HTTPError as error:
                return await self._broken(error, start)
            if str(wanted) in self._answered or wanted is None:
                return None
            if self.log.full:
                return None
            if reader.is_stream and not self._is_modern_id(wanted) and reader.last_id:
                return await self._resume(reader, wanted)
            return await self._loss(reader, response, broken, with_session, message)
        return Loss(f"more than {MAX_REDIRECTS} redirects", 0)

    def _is_modern_id(self, wanted: int | str | None) -> bool:
        return str(wanted) in self._modern

    @asynccontextmanager
    async def _sent(self, request: httpx2.Request, exchange: int) -> AsyncIterator[httpx2.Response]:
        """The response to a request; the end of the exchange is recorded, whatever that is.

        Raises:
            HTTPError: There is none.
        """
        try:
            response = await self.client.send(request, stream=True)
        except httpx2.HTTPError as error:
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                self.log.refused(exchange, _said(error))
            else:
                self.log.response_less(exchange, "broken", _said(error))
            raise
        except asyncio.CancelledError:
            self.log.response_less(exchange, "closed", "before any response")
            raise
        try:
            yield response
        finally:
            reader = self._readers.pop(exchange, None)
            if reader is not None:
                reader.finish("closed")
            with anyio.CancelScope(shield=True), suppress(Exception):
                with anyio.move_on_after(GOODBYE_S):
                    await response.aclose()

    def _began(self, message: Mapping[str, Any], response: httpx2.Response) -> None:
        """The session id comes with the answer to initialize."""
        if message.get("method") == "initialize" and response.is_success:
            self.session = _header_of(response, "mcp-session-id")

    async def _read(self, reader: HttpReader, response: httpx2.Response) -> str:
        """Reads a body to its end; why that is not the end of it, "" if it is.

        What is a message is handed on.
        """
        self._readers[reader.exchange] = reader
        try:
            async for chunk in response.aiter_raw():
                self._arrived(reader.feed(chunk))
                if self.log.full:
                    reader.finish("closed")
                    return "it was cut"
        except httpx2.HTTPError as error:
            reader.finish("broken", _said(error))
            return _said(error)
        else:
            self._arrived(reader.finish("complete"))
            return ""
        finally:
            self._readers.pop(reader.exchange, None)
            if not reader.done:
                reader.finish("closed")

    def _arrived(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            message = message_in(line)
            if message is not None and is_response(message) and message.get("id") is not None:
                key = str(message["id"])
                self._answered.add(key)
                self._open.pop(key, None)
                self._spoken = True
                self._learn(key, message)
            self.on_line(line)

    def _learn(self, key: str, message: Mapping[str, Any]) -> None:
        """What later requests have to say in their headers."""
        result = message.get("result")
        if not isinstance(result, Mapping):
            return
        if key == self._initialize and isinstance(result.get("protocolVersion"), str):
            self.version = result["protocolVersion"]
        if key in self._listed and isinstance(result.get("tools"), list):
            for tool in result["tools"]:
                if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
                    self._params[tool["name"]] = _annotated(tool.get("inputSchema"))

    # --- what goes wrong ----------------------------------------------------------------------------

    async def _broken(self, error: httpx2.HTTPError, start: int) -> Loss | None:
        """No response at all."""
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            self._unread.add(start)
        with anyio.move_on_after(CLOSING_S):  # a process that ends closes its sockets first
            await self.process.ended.wait()
        if self.process.look():
            return None
        what = "took no connection" if start in self._unread else "gave no HTTP response"
        return Loss(f"the server {what}: {_said(error)}")

    async def _loss(
        self,
        reader: HttpReader,
        response: httpx2.Response,
        broken: str,
        with_session: bool,
        message: Mapping[str, Any],
    ) -> Loss | None:
        """A response without the answer that it should bring."""
        body = bytes(reader.body[:BODY_SHOWN_BYTES])
        if broken:
            with anyio.move_on_after(CLOSING_S):
                await self.process.ended.wait()
            if self.process.look():
                return None
            return Loss(f"the response broke off: {broken}", response.status_code, kind=reader.kind, body=body)
        status = response.status_code
        if status == 404 and with_session and message.get("method") != "initialize":
            self.recorder.add(Diagnostic, what="session-lost", detail=str(message.get("method")))
            self.session = ""
            return Loss("HTTP 404: the server no longer knows the session", status, kind=reader.kind, body=body)
        if status in (401, 403, 407):
            return Loss(*self._not_let_in(reader, response), kind=reader.kind, body=body)
        why = described(status, reader.kind, bytes(reader.body), stream=reader.is_stream)
        return Loss(why, status, kind=reader.kind, body=body)

    def _not_let_in(self, reader: HttpReader, response: httpx2.Response) -> tuple[str, int, str]:
        """Why, the status, and what to do about it."""
        status, sent = response.status_code, ", ".join(self.own_headers)
        asked = response.headers.get("www-authenticate", "")
        said = f", WWW-Authenticate: {cut(asked)}" if asked else ", without saying how (no WWW-Authenticate)"
        what = f"the server asks for authorization: HTTP {status}{said}"
        if status == 403:
            what = f"the server does not let us in: {described(status, reader.kind, bytes(reader.body), stream=False)}"
        if not sent:
            return what, status, _LOGIN_HINT
        return f"{what}; it was sent {sent}", status, _REFUSED_HINT

    async def _is_legacy(self) -> bool:
        """Whether a GET begins a stream that names an endpoint, as the transport before this one did."""
        answer = await self.ask(
            "GET",
            self.url,
            headers={"accept": "text/event-stream", **self.own_headers},
            probe="legacy",
            within=LEGACY_S,
        )
        return answer.status == 200 and _ENDPOINT.search(answer.body) is not None

    # --- streams of the handshake era ---------------------------------------------------------------

    async def _listen(self) -> None:
        """The stream on which the server may speak unasked; a server that offers none says 405."""
        await self._follow(None, "")

    async def _resume(self, reader: HttpReader, wanted: int | str | None) -> Loss | None:
        """Asks for the rest of a stream that was closed early."""
        return await self._follow(reader, str(wanted))

    async def _follow(self, reader: HttpReader | None, wanted: str) -> Loss | None:
        last_id = reader.last_id if reader is not None else None
        retry = reader.retry if reader is not None else None
        resumes = reader.exchange if reader is not None else None
        first, tries, why = reader is None, 0, ""
        while tries < TRIES and not (self.dead or self._stopping):
            if not first:
                await asyncio.sleep(min(RETRY_MAX_S, RETRY_S if retry is None else retry / 1000))
            first = False
            headers = {"accept": "text/event-stream", **self.session_headers()}
            if last_id:
                headers["last-event-id"] = encode_header(last_id)
            request = self.client.build_request("GET", self.url, headers=headers)
            exchange = self.log.request("GET", self.url, request.headers.raw, resumes=resumes)
            tries += 1
            try:
                async with self._sent(request, exchange) as response:
                    found = self.log.response(exchange, response.status_code, response.headers.raw)
                    await self._read(found, response)
                    if not found.is_stream:
                        why = described(found.status, found.kind, bytes(found.body), stream=False)
                        break
                    last_id = found.last_id or last_id
                    retry = found.retry if found.retry is not None else retry
                    tries = 0 if found.events else tries
            except httpx2.HTTPError as error:
                why = _said(error)
                if self.process.look():
                    return None
            if wanted and (wanted in self._answered or self.log.full):
                return None
        return Loss(f"the stream was closed early, and could not be resumed: {why or 'nothing more came'}")

    # --- beside the session -------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        url: str = "",
        *,
        probe: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        carries: int | None = None,
        within: float = LEGACY_S,
    ) -> HttpAnswer:
        """One request that is no part of the session, on record; nothing that comes back to it is a message.

        Args:
            url: The endpoint without it.
            carries: Number of the `sent` event that is its body.
            within: Seconds; what came until then is given, also of a stream that goes on.
        """
        request = self.client.build_request(method, url or self.url, content=body or None, headers=dict(headers or {}))
        exchange = self.log.request(method, url or self.url, request.headers.raw, carries=carries, probe=probe)
        found = HttpAnswer(status=0, headers=httpx2.Headers(), body=b"")
        with anyio.move_on_after(within), suppress(httpx2.HTTPError):
            async with self._sent(request, exchange) as response:
                reader = self.log.response(exchange, response.status_code, response.headers.raw, messages=False)
                self._readers[exchange] = reader
                seen = bytearray()
                found = HttpAnswer(status=response.status_code, headers=response.headers, body=b"")
                async for chunk in response.aiter_raw():
                    reader.feed(chunk)
                    seen += chunk
                    found = dataclasses.replace(found, body=bytes(seen))
                    if len(seen) > QUOTED_BYTES * 20 or _ENDPOINT.search(seen):
                        return found
                reader.finish("complete")
        return found

    # --- the end ------------------------------------------------------------------------------------

    @property
    def ended(self) -> str:
        """How the leader ended, in words; it has."""
        return f"the server ended with {describe_code(self.process.code or 0)}"

    def _leader_ended(self) -> None:
        self._loop.call_later(DRAIN_S, self._leader_gone)

    def _leader_gone(self) -> None:
        if not self._stopping:
            self._die(self.ended)

    def _unrecorded(self) -> None:
        if not self._stopping:
            self._die("the server was stopped: what it says cannot be recorded")

    def _die(self, why: str) -> None:
        if not self.dead:
            self.dead = why
            self.on_dead(why)

    async def stop(self, *, hurry: bool = False) -> Exit:
        """Ends the session and the server, records how, and closes everything; a second call gives the same answer."""
        if self.exit is not None:
            return self.exit
        with anyio.CancelScope(shield=True):
            self._stopping = True
            alive = not self.process.look()
            if alive and self.traffic()[0] and not self.dead:
                self.recorder.add(Diagnostic, what="closing", detail="the server was told to end")
            if alive and self.session and not self.dead:
                await self._goodbye()
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(set(self._tasks), timeout=GOODBYE_S)
            with anyio.move_on_after(GOODBYE_S), suppress(Exception):
                await self.client.aclose()
            how = await self.process.stop(self._close_stdin, hurry=hurry, close_s=0.0, term_s=TERM_S)
            await self._out.end()
            await self._err.end()
            if self.leftovers is not None:
                how = dataclasses.replace(how, orphans=(*how.orphans, *await self.leftovers()))
            self.exit = how
            self._die("the server was stopped")
            self.recorder.add(Stdout, body=Body(self._out.tail), size=self._out.size)
            record_exit(self.recorder, how, self._err, self.traffic()[0])
        return how

    def _close_stdin(self) -> None:
        with suppress(OSError):
            self.process.pipes[0].close()

    async def _goodbye(self) -> None:
        """Ends the session on the server; one that knows no such thing says 405."""
        request = self.client.build_request("DELETE", self.url, headers=self.session_headers())
        exchange = self.log.request("DELETE", self.url, request.headers.raw)
        with anyio.move_on_after(GOODBYE_S), suppress(httpx2.HTTPError):
            async with self._sent(request, exchange) as response:
                reader = self.log.response(exchange, response.status_code, response.headers.raw, messages=False)
                await self._read(reader, response)


async def open_http(
    argv: Sequence[str],
    *,
    url: str,
    headers: Mapping[str, str] | None = None,
    cwd: Path,
    env: Mapping[str, str],
    marker: str,
    recorder: Recorder,
    server: str = "",
    limit: int = LINE_LIMIT_BYTES,
    shared: bool = False,
) -> HttpPipe:
    """Starts a server that is to listen at a URL. Whoever calls this must call `stop`, whatever happens.

    Args:
        url: Its endpoint, on a port of this machine that nobody holds.
        headers: Sent with every request of the session.
        marker: Text in the environment of this server and its children, and of nobody else.
        limit: Of one message, in bytes.
        shared: Another process than a child of ours may hold the port: the command runs a container.
    Raises:
        ServerError: It could not be started, or the port is taken.
    """
    port = urlsplit(url).port or 80
    if await _takes("127.0.0.1", port):
        held = listeners(port)
        who = owner_of(held[0]) if held else "somebody else"
        raise ServerError(
            f"the port {port}, which was chosen for the server, has been taken by {who} in the meantime",
            hint="run it again: another port is chosen each time",
            server=server,
        )
    process = start_process(argv, cwd=cwd, env=env, marker=marker, server=server)
    recorder.add(Spawned, argv=tuple(argv), cwd=str(cwd), env=tuple(sorted(env)), pid=process.pid)
    pipe = HttpPipe(process, recorder, url=url, headers=headers or {}, limit=limit, shared=shared)
    with anyio.CancelScope(shield=True):  # between the start and its pipes nothing may come
        await pipe.connect()
    return pipe


# --- words and headers ------------------------------------------------------------------------------


def described(status: int, kind: str, body: bytes, *, stream: bool) -> str:
    """What came instead of an answer, in words."""
    if stream:
        return f"the event stream (HTTP {status}, {kind}) ended without the answer"
    named = kind or "no content type"
    if kind == "text/html" or body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        title = _TITLE.search(body[:4096])
        said = f" ({cut(title[1].decode('utf-8', 'replace').strip(), 80)})" if title else ""
        return f"HTTP {status} with an HTML page{said}"
    text = body[:QUOTED_BYTES].decode("utf-8", "backslashreplace").strip()
    return f"HTTP {status}, {named}" + (f": {text!r}" if text else ", empty")


def encode_header(value: str) -> str:
    """A value as a header carries it: in base64 where it could not pass through as it is.

    Source:
        MCP 2026-07-28 basic/transports.
    """
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode('ascii')}?="


def _is_modern(message: Mapping[str, Any]) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    return "method" in message and isinstance(meta, Mapping) and isinstance(meta.get(_META_VERSION), str)


def _annotated(schema: Any) -> dict[tuple[str, ...], str]:
    """The arguments of a tool that its schema wants to be repeated in headers: path -> name."""
    found: dict[tuple[str, ...], str] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        properties = node.get("properties") if isinstance(node, Mapping) and len(path) < 32 else None
        for name, sub in properties.items() if isinstance(properties, Mapping) else ():
            here = (*path, str(name))
            token = sub.get("x-mcp-header") if isinstance(sub, Mapping) else None
            if isinstance(token, str) and _TOKEN.fullmatch(token):
                found[here] = token
            waiting.append((here, sub))
    return found


def _param_headers(wanted: Mapping[tuple[str, ...], str], arguments: Any) -> dict[str, str]:
    out = {}
    for path, token in wanted.items():
        value = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, str | int | float) and len(str(value)) <= HEADER_LIMIT_CHARS:
            out[f"mcp-param-{token}"] = encode_header(str(value))
    return out


def _header_of(response: httpx2.Response, name: str) -> str:
    """A header that can be sent back; "" where it is none."""
    value = response.headers.get(name, "")
    return value if isinstance(value, str) and value.isascii() and value.isprintable() else ""


def well_known(url: str) -> str:
    """Where a protected endpoint says what it wants (RFC 9728)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path.rstrip('/')}"


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port


def _said(error: httpx2.HTTPError) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _takes(host: str, port: int) -> bool:
    """Whether a port takes connections."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
