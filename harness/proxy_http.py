"""`mcp-rollcall proxy --http URL`: stands on a port of this machine before a server over HTTP, and records.

What comes is handed on as it comes, event streams among it; only the header that names the host, and an origin that is
ours, are those of the server. A client that leaves is noticed at any time, and what is under way for it ends with it.
It is a process that starts once, not for each test: it may import what it needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import SplitResult, urlsplit

from harness.engine.guard import check_targets
from harness.engine.http_record import How, HttpLog, HttpReader, content_type, credentials_in
from harness.engine.mask import Masker, is_secret_name
from harness.engine.record import Recorder
from harness.engine.recording import Labels, write_run
from harness.model.transcript import BODIES_DIR, Diagnostic, HttpEnded
from harness.model.whole import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from harness.model.session import SessionSpec

__all__ = ["serve"]

HEAD_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
CONNECT_S = 10.0
LEFT_S = 1.0  # a client that asks and leaves at once has asked: so long its request may take to reach the server
MAX_LEARNT = 100  # credentials of clients that are masked wherever they appear
MIN_LEARNT_CHARS = 8
FORM_BYTES = 64 * 1024  # of a body that is looked through for credentials
FORM = "application/x-www-form-urlencoded"
_OUR_HEADERS = (b"host", b"origin")

Headers = list[tuple[bytes, bytes]]
_Ending = Literal["complete", "broken", "closed", "refused"]


class _Place(Protocol):
    """Where it is recorded; see `harness.proxy`."""

    folder: str
    name: str
    server: str
    problem: str
    session: SessionSpec | None


class _Broken(Exception):
    """The exchange cannot go on, and why; `how` is what the record says, `status` what the client is told or 0."""

    def __init__(self, how: _Ending, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.how, self.status = how, status


def serve(url: str, place: _Place, *, port_file: str, say: object) -> int:
    """Serves until a signal ends it.

    Args:
        url: The server's, with its path.
        port_file: Where the port is written, "" for nowhere.
        say: Tells one line on standard error.
    Returns:
        0; 2 for a URL that is none, 6 for one that the guard refuses.
    """
    assert callable(say)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        say(f"{url!r} is no http or https URL")
        return 2
    if place.session is not None and (refused := _refused(url, place.session)):
        say("the server is not spoken to:\n  " + "\n  ".join(refused))
        return 6
    server = _Server(parts, place)
    asyncio.run(server.run(port_file))
    if place.session is None and not place.problem:
        say(f"recorded in {place.folder}")
    return 0


def _refused(url: str, session: SessionSpec) -> tuple[str, ...]:
    pairs = (item.rpartition(":") for item in session.allowed)
    addresses = [(host, int(port)) for host, _, port in pairs]
    return check_targets({"URL": url}, (), allowed=addresses, own_port=None, names=(), folders=())


class _Server:
    """The proxy, and all of its connections."""

    def __init__(self, parts: SplitResult, place: _Place) -> None:
        self.parts, self.place = parts, place
        self.secure = parts.scheme == "https"
        self.host, self.port = parts.hostname or "", parts.port or (443 if self.secure else 80)
        self.labels = Labels()
        session = place.session
        secrets = session.secrets if session is not None else (v for k, v in os.environ.items() if is_secret_name(k))
        self.masker = Masker(secrets)
        self.log: HttpLog | None = None
        if not place.problem:
            folder = Path(place.folder)
            began = session.began if session is not None else time.monotonic()
            with suppress(OSError):
                recorder = Recorder(folder / place.name, bodies=folder / BODIES_DIR, masker=self.masker, began=began)
                traffic = lambda: (self.labels.in_flight, self.labels.last)  # noqa: E731 - it has no other name
                self.log = HttpLog(recorder, traffic=traffic, sessions=True)
        self.origin = b""
        self._learnt = 0

    def learn(self, found: Iterable[str]) -> None:
        """What lets a client in is masked wherever else it appears."""
        for value in found:
            if len(value) >= MIN_LEARNT_CHARS and self._learnt < MAX_LEARNT and value not in self.masker.secrets:
                self.masker.add(value)
                self._learnt += 1

    async def run(self, port_file: str) -> None:
        """Until SIGTERM, SIGINT or SIGHUP."""
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, end.set)
        tasks: set[asyncio.Task[None]] = set()

        def accepted(side: _Side) -> None:
            task = loop.create_task(_Connection(self, side).run())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        listening = await loop.create_server(lambda: _Side(accepted), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        self.origin = b"http://127.0.0.1:%d" % port
        query = f"?{self.parts.query}" if self.parts.query else ""
        self.learn(credentials_in((), self.parts.geturl()))
        if port_file:
            write_whole(Path(port_file), f"{port}\n".encode("ascii"))
        os.write(1, f"http://127.0.0.1:{port}{self.parts.path or '/'}{query}\n".encode())
        await end.wait()
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.log is not None:
            self.log.recorder.close()
        if self.place.session is None and self.log is not None:
            write_run(
                Path(self.place.folder), self.place.server, self.labels, self.masker, command=(), outcome="finished"
            )


class _Side(asyncio.StreamReaderProtocol):
    """One side of a connection.

    Attributes:
        left: Set once it has closed, whatever is under way.
        came: How many bytes came.
    """

    def __init__(self, accepted: Callable[[_Side], None] | None = None) -> None:
        self.reader = asyncio.StreamReader(limit=HEAD_BYTES)
        super().__init__(self.reader)
        self.left = asyncio.Event()
        self.came = 0
        self.writer: asyncio.StreamWriter
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self.writer = asyncio.StreamWriter(transport, self, self.reader, asyncio.get_running_loop())
        if self._accepted is not None:
            self._accepted(self)

    def data_received(self, data: bytes) -> None:
        self.came += len(data)
        super().data_received(data)

    def eof_received(self) -> bool | None:
        self.left.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        super().connection_lost(exc)


class _Exchange:
    """A request and its response, as they are recorded.

    Attributes:
        number: Of the exchange in the record, 0 where nothing is recorded.
        wanted: Id of the request that its body is.
        copy: What comes of the response's body, None before its head is there.
        sent: Set once the server has it.
        stage: What is being done, in words.
    """

    def __init__(self, number: int, wanted: int | str | None) -> None:
        self.number, self.wanted = number, wanted
        self.copy: _Copy | None = None
        self.ended = False  # its end is recorded
        self.sent = asyncio.Event()
        self.stage = "before the server had the request"


class _Connection:
    """One connection of the client's, and the one to the server that goes with it."""

    def __init__(self, server: _Server, client: _Side) -> None:
        self.server, self.client = server, client
        self.up: _Side | None = None
        self.taken = 0  # bytes of the client's that belong to whole requests

    async def run(self) -> None:
        """One exchange after the other."""
        try:
            while await self._exchange():
                pass
        except (OSError, ValueError):
            pass
        finally:
            self._hang_up()
            with suppress(OSError):
                self.client.writer.close()

    def _hang_up(self) -> None:
        """Nothing more is wanted of the server, at once."""
        if self.up is not None:
            self.up.writer.transport.abort()
            self.up = None

    async def _exchange(self) -> bool:
        """A request and its response; whether another may follow."""
        raw = await self._next_head()
        if not raw:
            return False
        first, headers = _head(raw)
        words = first.split(b" ")
        if len(words) != 3:
            return await self._tell(400)
        method, target = words[0].decode("latin-1"), words[1].decode("latin-1")
        if _value(headers, b"expect").lower() == b"100-continue":
            self.client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            headers = [item for item in headers if item[0].lower() != b"expect"]
        try:
            framed, body = await _body(self.client.reader, headers)
        except (asyncio.IncompleteReadError, OSError):
            self._end(
                self._record_request(method, target, headers, b""), "closed", _left("in the middle of its request")
            )
            return False
        except (ValueError, asyncio.LimitOverrunError):
            exchange = self._record_request(method, target, headers, b"")
            self._end(exchange, "refused", "it does not say how long its body is")
            return await self._tell(400)
        self.taken += len(raw) + len(framed)
        exchange = self._record_request(method, target, headers, body)
        how: _Ending = "closed"
        why = "the proxy was ended"
        try:
            return await self._while_it_stays(self._forward(first, method, headers, framed, exchange), exchange)
        except _Broken as error:
            how, why = error.how, str(error)
            return await self._tell(error.status) if error.status else False
        finally:
            self._end(exchange, how, why)

    async def _next_head(self) -> bytes:
        """The head of the client's next request, b"" where none comes; a server that closes meanwhile closes both."""
        reading = asyncio.ensure_future(self.client.reader.readuntil(b"\r\n\r\n"))
        waiting: set[asyncio.Future[Any]] = {reading}
        if self.up is not None:
            waiting.add(asyncio.ensure_future(self.up.left.wait()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return b""
            return reading.result()
        except (asyncio.IncompleteReadError, OSError):
            if self.client.came > self.taken:
                self._note(f"in the middle of a request's head, after {self.client.came - self.taken} bytes")
            return b""
        except asyncio.LimitOverrunError:
            self._note(f"a request's head is longer than {HEAD_BYTES} bytes", "no-request")
            await self._tell(431)
            return b""
        finally:
            for item in waiting:
                item.cancel()

    async def _tell(self, status: int) -> bool:
        """An answer of our own, after which nothing more comes."""
        words = {400: "Bad Request", 431: "Request Header Fields Too Large", 502: "Bad Gateway"}
        text = f"HTTP/1.1 {status} {words[status]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.client.writer.write(text.encode())
        await self.client.writer.drain()
        return False

    async def _while_it_stays(self, work: Coroutine[Any, Any, bool], exchange: _Exchange) -> bool:
        """What comes of the work, which ends where the client leaves; what it had asked by then, it has asked.

        Raises:
            _Broken: It left, or the work cannot be done.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self.client.left.wait())
        sending = asyncio.ensure_future(exchange.sent.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await asyncio.wait({working, sending}, timeout=LEFT_S, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise _Broken("closed", _left(exchange.stage))
            return working.result()
        finally:
            for item in (working, leaving, sending):
                item.cancel()
            await asyncio.wait({working, leaving, sending})
            if not working.cancelled():
                working.exception()  # it is told, or the client has left

    # --- what is recorded -----------------------------------------------------------------------------

    def _record_request(self, method: str, target: str, headers: Headers, body: bytes) -> _Exchange:
        log = self.server.log
        if log is None or log.full:
            return _Exchange(0, None)
        form = content_type(headers) == FORM
        self.server.learn(credentials_in(headers, target, body[:FORM_BYTES] if form else b""))
        self.server.learn(_tokens(body))
        carries, wanted = None, None
        if body and not form:  # a form is no message, and may be nothing but credentials
            log.recorder.sent(body, self.server.labels.sent(body))
            carries = log.recorder.count
            with suppress(ValueError, RecursionError):
                message = json.loads(body)
                identity = message.get("id") if isinstance(message, dict) and "method" in message else None
                wanted = identity if isinstance(identity, int | str) else None
        netloc = f"{self.server.host}:{self.server.port}"
        url = f"{self.server.parts.scheme}://{netloc}{target}"
        return _Exchange(log.request(method, url, headers, carries=carries), wanted)

    def _end(self, exchange: _Exchange, how: _Ending, why: str) -> None:
        log = self.server.log
        if log is None or not exchange.number or exchange.ended:
            return
        exchange.ended = True
        if exchange.copy is not None and how != "refused":
            exchange.copy.finish(how, why)
        elif how != "complete":
            log.recorder.add(HttpEnded, exchange=exchange.number, how=how, detail=why)
        if how != "complete" and exchange.wanted is not None:
            self.server.labels.lost(exchange.wanted)

    def _note(self, said: str, what: str = "client-left") -> None:
        if self.server.log is not None and not self.server.log.full:
            self.server.log.recorder.add(Diagnostic, what=what, detail=said)

    # --- what is handed on ----------------------------------------------------------------------------

    async def _forward(self, first: bytes, method: str, headers: Headers, framed: bytes, exchange: _Exchange) -> bool:
        try:
            if self.up is not None and self.up.left.is_set():  # it was closed while nothing was asked
                self._hang_up()
            if self.up is None:
                self.up = await self._connect()
        except OSError as error:
            raise _Broken("refused", error.strerror or str(error) or "no connection in time", 502) from None
        try:
            await self._send(first, headers, framed)
            exchange.sent.set()
            exchange.stage = "while it waited for an answer"
            return await self._respond(method, exchange)
        except asyncio.IncompleteReadError:
            raise _Broken("broken", f"the server closed the connection {_place(exchange)}") from None
        except (OSError, ValueError, asyncio.LimitOverrunError) as error:
            raise _Broken("broken", f"{error or type(error).__name__}, {_place(exchange)}") from None

    async def _connect(self) -> _Side:
        server = self.server
        secure = ssl.create_default_context() if server.secure else None
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(_Side, server.host, server.port, ssl=secure)
        return (await asyncio.wait_for(connecting, CONNECT_S))[1]

    async def _send(self, first: bytes, headers: Headers, framed: bytes) -> None:
        server = self.server
        assert self.up is not None
        theirs = f"{server.host}:{server.port}" if server.parts.port else server.host
        lines = [first]
        for name, value in headers:
            if name.lower() == b"host":
                value = theirs.encode("idna" if not theirs.isascii() else "ascii")
            elif name.lower() == b"origin" and value == server.origin:
                value = f"{server.parts.scheme}://{theirs}".encode()
            lines.append(name + b": " + value)
        self.up.writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + framed)
        await self.up.writer.drain()

    async def _respond(self, method: str, exchange: _Exchange) -> bool:
        assert self.up is not None
        upstream = self.up.reader
        while True:
            raw = await upstream.readuntil(b"\r\n\r\n")
            await self._hand_on(raw)
            first, headers = _head(raw)
            status = int(first.split(b" ")[1])
            if status >= 200:
                break
        log = self.server.log
        reader = None
        if log is not None and exchange.number and not log.full:
            self.server.learn(credentials_in(headers, _value(headers, b"location").decode("latin-1")))
            reader = log.response(exchange.number, status, headers, wanted=exchange.wanted)
        exchange.copy = copy = _Copy(reader, headers, self.server)
        exchange.stage = "in the middle of the answer"
        bare = method == "HEAD" or status in (204, 304)
        length, chunked = (
            _value(headers, b"content-length"),
            b"chunked" in _value(headers, b"transfer-encoding").lower(),
        )
        await self._pass(upstream, copy, bare, chunked, length)
        self._end(exchange, "complete", "")  # before anything else: the client may leave now, or the proxy be ended
        ends = b"close" in _value(headers, b"connection").lower() or first.startswith(b"HTTP/1.0")
        return not ends and (bare or chunked or bool(length))

    async def _pass(
        self, upstream: asyncio.StreamReader, copy: _Copy, bare: bool, chunked: bool, length: bytes
    ) -> None:
        if bare:
            return
        if chunked:
            while True:
                line = await upstream.readuntil(b"\r\n")
                await self._hand_on(line)
                size = int(line.split(b";")[0], 16)
                if not size:
                    while True:  # trailers, then an empty line
                        line = await upstream.readuntil(b"\r\n")
                        await self._hand_on(line)
                        if line == b"\r\n":
                            return
                await self._stretch(upstream, size, copy)
                await self._hand_on(await upstream.readexactly(2))
        elif length:
            await self._stretch(upstream, int(length), copy)
        else:
            while data := await upstream.read(CHUNK_BYTES):
                copy.feed(data)
                await self._hand_on(data)

    async def _stretch(self, upstream: asyncio.StreamReader, size: int, copy: _Copy) -> None:
        while size > 0:
            data = await upstream.read(min(size, CHUNK_BYTES))
            if not data:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(data)
            copy.feed(data)
            await self._hand_on(data)

    async def _hand_on(self, data: bytes) -> None:
        try:
            self.client.writer.write(data)
            await self.client.writer.drain()
        except OSError:
            raise _Broken("closed", _left("in the middle of the answer")) from None


def _left(when: str) -> str:
    return f"the client left {when}"


def _place(exchange: _Exchange) -> str:
    return "before an answer" if exchange.copy is None else "in the middle of the answer"


def _tokens(body: bytes) -> Iterator[str]:
    """What a JSON body that is no message gives or shows for a credential: a token, a client's secret, a code."""
    if len(body) > FORM_BYTES or not body.lstrip().startswith(b"{") or b'"jsonrpc"' in body:
        return
    with suppress(ValueError, RecursionError):
        yield from (
            value
            for name, value in json.loads(body).items()
            if isinstance(value, str) and (is_secret_name(name) or name.endswith("code"))
        )


class _Copy:
    """What is recorded of one body: its bytes, unpacked where they are packed in a way that can be read."""

    def __init__(self, reader: HttpReader | None, headers: Headers, server: _Server) -> None:
        self._reader, self._server = reader, server
        packed = _value(headers, b"content-encoding").lower()
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed in (b"gzip", b"x-gzip", b"deflate") else None

    def feed(self, data: bytes) -> None:
        """A piece of the body."""
        if self._reader is None:
            return
        if self._unpack is not None:
            try:
                data = self._unpack.decompress(data)
            except zlib.error:
                return
        for message in self._reader.feed(data):
            self._server.labels.received(message)

    def finish(self, how: How, why: str = "") -> None:
        """Its end."""
        if self._reader is None:
            return
        self._server.learn(_tokens(bytes(self._reader.body[: FORM_BYTES + 1])))
        for message in self._reader.finish(how, why):
            self._server.labels.received(message)


def _head(raw: bytes) -> tuple[bytes, Headers]:
    first, *lines = raw.removesuffix(b"\r\n\r\n").lstrip(b"\r\n").split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return first, [(name.strip(), value.strip()) for name, _, value in pairs]


def _value(headers: Headers, name: bytes) -> bytes:
    return next((value for key, value in headers if key.lower() == name), b"")


async def _body(reader: asyncio.StreamReader, headers: Headers) -> tuple[bytes, bytes]:
    """The body of a request as it came, and without its framing.

    Raises:
        ValueError: Nobody knows how long it is.
    """
    if b"chunked" in _value(headers, b"transfer-encoding").lower():
        raw, body = bytearray(), bytearray()
        while True:
            line = await reader.readuntil(b"\r\n")
            raw += line
            size = int(line.split(b";")[0], 16)
            if size < 0:
                raise ValueError("a chunk of less than nothing")
            if not size:
                break
            part = await reader.readexactly(size + 2)
            raw += part
            body += part[:-2]
        while line != b"\r\n":  # trailers, then an empty line
            line = await reader.readuntil(b"\r\n")
            raw += line
        return bytes(raw), bytes(body)
    data = await reader.readexactly(int(_value(headers, b"content-length") or 0))
    return data, data
