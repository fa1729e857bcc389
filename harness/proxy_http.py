"""`mcp-rollcall proxy --http URL`: stands on a port of this machine before a server over HTTP, and records.

What comes is handed on as it comes, event streams among it; only the header that names the host, and an origin that is
ours, are those of the server. It is a process that starts once, not for each test: it may import what it needs.
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
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, urlsplit

from harness.engine.guard import check_targets
from harness.engine.http_record import HttpLog, HttpReader
from harness.engine.mask import Masker, is_secret_name
from harness.engine.record import Recorder
from harness.engine.recording import Labels, write_run
from harness.model.transcript import BODIES_DIR

if TYPE_CHECKING:
    from harness.model.session import SessionSpec

__all__ = ["serve"]

HEAD_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
CONNECT_S = 10.0
_OUR_HEADERS = (b"host", b"origin")

Headers = list[tuple[bytes, bytes]]


class _Place(Protocol):
    """Where it is recorded; see `harness.proxy`."""

    folder: str
    name: str
    server: str
    problem: str
    session: SessionSpec | None


class _Broken(Exception):
    """One side has gone, or speaks no HTTP; `side` is "client" or "server"."""

    def __init__(self, side: str, why: str) -> None:
        super().__init__(why)
        self.side = side


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
                self.log = HttpLog(recorder, traffic=lambda: (self.labels.in_flight, self.labels.last))
        self.origin = b""

    async def run(self, port_file: str) -> None:
        """Until SIGTERM, SIGINT or SIGHUP."""
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, end.set)
        tasks: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = loop.create_task(_Connection(self, reader, writer).run())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        listening = await asyncio.start_server(accepted, "127.0.0.1", 0, limit=HEAD_BYTES)
        port = listening.sockets[0].getsockname()[1]
        self.origin = b"http://127.0.0.1:%d" % port
        query = f"?{self.parts.query}" if self.parts.query else ""
        if port_file:
            _write_whole(Path(port_file), f"{port}\n")
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


def _write_whole(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="ascii")
    fresh.replace(path)


class _Connection:
    """One connection of the client's, and the one to the server that goes with it."""

    def __init__(self, server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.early = b""  # what the client sent while its response was still coming

    async def run(self) -> None:
        """One exchange after the other."""
        try:
            while await self._exchange():
                pass
        except (_Broken, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            for writer in (self.writer, *(() if self.up is None else (self.up[1],))):
                with suppress(OSError):
                    writer.close()

    async def _exchange(self) -> bool:
        """A request and its response; whether another may follow."""
        try:
            raw = self.early + await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        self.early = b""
        first, headers = _head(raw)
        words = first.split(b" ")
        if len(words) != 3:
            raise _Broken("client", "no HTTP")
        method, target = words[0].decode("latin-1"), words[1].decode("latin-1")
        if _value(headers, b"expect").lower() == b"100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            headers = [item for item in headers if item[0].lower() != b"expect"]
        framed, body = await _body(self.reader, headers)
        exchange, wanted = self._record_request(method, target, headers, body)
        try:
            await self._send(first, headers, framed)
            return await self._respond(method, exchange, wanted)
        except OSError as error:
            if self.server.log is not None and exchange:
                self.server.log.refused(exchange, error.strerror or str(error))
            self.writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await self.writer.drain()
            return False

    def _record_request(self, method: str, target: str, headers: Headers, body: bytes) -> tuple[int, int | str | None]:
        log = self.server.log
        if log is None or log.full:
            return 0, None
        carries, wanted = None, None
        if body:
            log.recorder.sent(body, self.server.labels.sent(body))
            carries = log.recorder.count
            with suppress(ValueError, RecursionError):
                message = json.loads(body)
                identity = message.get("id") if isinstance(message, dict) and "method" in message else None
                wanted = identity if isinstance(identity, int | str) else None
        netloc = f"{self.server.host}:{self.server.port}"
        url = f"{self.server.parts.scheme}://{netloc}{target}"
        return log.request(method, url, headers, carries=carries), wanted

    async def _send(self, first: bytes, headers: Headers, framed: bytes) -> None:
        server = self.server
        if self.up is None:
            secure = ssl.create_default_context() if server.secure else None
            connecting = asyncio.open_connection(server.host, server.port, ssl=secure, limit=HEAD_BYTES)
            self.up = await asyncio.wait_for(connecting, CONNECT_S)
        theirs = f"{server.host}:{server.port}" if server.parts.port else server.host
        lines = [first]
        for name, value in headers:
            if name.lower() == b"host":
                value = theirs.encode("idna" if not theirs.isascii() else "ascii")
            elif name.lower() == b"origin" and value == server.origin:
                value = f"{server.parts.scheme}://{theirs}".encode()
            lines.append(name + b": " + value)
        self.up[1].write(b"\r\n".join(lines) + b"\r\n\r\n" + framed)
        await self.up[1].drain()

    async def _respond(self, method: str, exchange: int, wanted: int | str | None) -> bool:
        assert self.up is not None
        upstream = self.up[0]
        while True:
            raw = await upstream.readuntil(b"\r\n\r\n")
            self.writer.write(raw)
            await self.writer.drain()
            first, headers = _head(raw)
            status = int(first.split(b" ")[1])
            if status >= 200:
                break
        log = self.server.log
        reader = None
        if log is not None and exchange and not log.full:
            reader = log.response(exchange, status, headers, wanted=wanted)
        copy = _Copy(reader, headers, self.server.labels)
        bare = method == "HEAD" or status in (204, 304)
        length, chunked = (
            _value(headers, b"content-length"),
            b"chunked" in _value(headers, b"transfer-encoding").lower(),
        )
        gone = asyncio.ensure_future(self.reader.read(1))  # a client that leaves ends the stream
        passing = asyncio.ensure_future(self._pass(upstream, copy, bare, chunked, length))
        how = "broken"
        try:
            await asyncio.wait({gone, passing}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not gone.result():
                how = "closed"
                raise _Broken("client", "it left")
            await passing
            how = "complete"
        finally:
            passing.cancel()
            if not gone.done():
                gone.cancel()
            with suppress(asyncio.CancelledError, OSError):
                self.early = await gone
            copy.finish(how)
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
                await self._hand_on(data)
                copy.feed(data)

    async def _stretch(self, upstream: asyncio.StreamReader, size: int, copy: _Copy) -> None:
        while size:
            data = await upstream.read(min(size, CHUNK_BYTES))
            if not data:
                raise _Broken("server", "it ended in the middle of a body")
            size -= len(data)
            await self._hand_on(data)
            copy.feed(data)

    async def _hand_on(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


class _Copy:
    """What is recorded of one body: its bytes, unpacked where they are packed in a way that can be read."""

    def __init__(self, reader: HttpReader | None, headers: Headers, labels: Labels) -> None:
        self._reader, self._labels = reader, labels
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
            self._labels.received(message)

    def finish(self, how: str) -> None:
        """Its end."""
        if self._reader is None:
            return
        for message in self._reader.finish(
            "complete" if how == "complete" else "closed" if how == "closed" else "broken"
        ):
            self._labels.received(message)


def _head(raw: bytes) -> tuple[bytes, Headers]:
    first, *lines = raw.removesuffix(b"\r\n\r\n").lstrip(b"\r\n").split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return first, [(name.strip(), value.strip()) for name, _, value in pairs]


def _value(headers: Headers, name: bytes) -> bytes:
    return next((value for key, value in headers if key.lower() == name), b"")


async def _body(reader: asyncio.StreamReader, headers: Headers) -> tuple[bytes, bytes]:
    """The body of a request as it came, and without its framing."""
    if b"chunked" in _value(headers, b"transfer-encoding").lower():
        raw, body = bytearray(), bytearray()
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            part = await reader.readexactly(size + 2)
            raw += line + part
            body += part[:-2]
            if not size:
                return bytes(raw), bytes(body)
    length = int(_value(headers, b"content-length") or 0)
    data = await reader.readexactly(length)
    return data, data
