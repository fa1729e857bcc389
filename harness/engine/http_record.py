"""Puts HTTP exchanges on the record of a transcript: heads, chunks, events and bodies, each before anybody acts on it.

It knows nothing of a session, and speaks to nobody: whoever carries the bytes tells it of them, be it our own pipe, the
transport below another client, or a proxy. What is a message of the server's comes back out of it, recorded as
`received`; whatever else came is kept with the end of its exchange.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import unquote_plus

from harness.engine.mask import is_credential_header, is_secret_name
from harness.engine.record import Recorder
from harness.engine.sse import SseItem, SseParser
from harness.model.frame import is_response, message_in
from harness.model.transcript import (
    LINE_LIMIT_BYTES,
    Body,
    HttpData,
    HttpEnded,
    HttpRequest,
    HttpResponse,
    SseEvent,
    Truncated,
)

__all__ = [
    "BODY_KEPT_BYTES",
    "EVENT_STREAM",
    "HttpLog",
    "HttpReader",
    "content_type",
    "credentials_in",
    "header_lines",
    "masked_url",
    "same_id",
]

EVENT_STREAM = "text/event-stream"
BODY_KEPT_BYTES = 64 * 1024  # of a body that is no message
MESSAGES_LIMIT = 500_000  # of one transcript in all, events without a message counted too
BYTES_LIMIT = 2 * 1024 * 1024 * 1024  # of one transcript in all
CHUNKS_KEPT = 2_000  # of one stream; later ones are not noted one by one
STILL_S = 0.2  # bytes that came so short a time ago are still coming

_SESSIONS = re.compile(r"(?:mcp-|x-)?session-?(?:id)?", re.IGNORECASE)
_PARAMETERS = re.compile(r"auth|code|key|pass|pat|pwd|session_?id|sid|sig|signature", re.IGNORECASE)
_ADDRESSES = ("content-location", "location", "referer")
_USERINFO = re.compile(r"(?<=://)[^/?#@]*(?=@)")
_PAIR = re.compile(r"(?<=[?&;#])([^=&;#?]*)=([^&;#]*)")

How = Literal["complete", "broken", "closed"]


def header_lines(headers: Iterable[tuple[bytes, bytes]], *, sessions: bool = False) -> tuple[str, ...]:
    """Headers as they are kept: "name: value" each, in order; what holds a credential is masked to its scheme.

    Args:
        sessions: Whether the id of a session is one: of a server that others reach too, it is.
    """
    out = []
    for name, value in headers:
        shown, text = name.decode("latin-1"), value.decode("latin-1")
        if is_credential_header(shown) or (sessions and _SESSIONS.fullmatch(shown)):
            scheme, blank, rest = text.partition(" ") if "authorization" in shown.lower() else ("", "", text)
            if not blank:  # "Authorization: TOKEN" has no scheme
                scheme, rest = "", text
            text = f"{scheme}{blank}{'*' * len(rest)}"
        elif shown.lower() in _ADDRESSES:
            text = masked_url(text)
        out.append(f"{shown}: {text}")
    return tuple(out)


def masked_url(url: str) -> str:
    """A URL without what lets somebody in: userinfo, and the values of parameters that are named like secrets."""
    url = _USERINFO.sub(lambda match: "*" * len(match[0]), url)
    return _PAIR.sub(lambda match: f"{match[1]}={'*' * len(match[2])}" if _is_parameter(match[1]) else match[0], url)


def _is_parameter(name: str) -> bool:
    plain = unquote_plus(name)
    return bool(_PARAMETERS.fullmatch(plain)) or is_secret_name(plain)


def credentials_in(headers: Iterable[tuple[bytes, bytes]], url: str = "", form: bytes = b"") -> Iterator[str]:
    """The values in a head, and in a form, that let somebody in: they are masked wherever else they appear."""
    for name, value in headers:
        shown, text = name.decode("latin-1"), value.decode("latin-1")
        if "cookie" in shown.lower():
            pairs = text.split(";")[: 1 if shown.lower().startswith("set-") else None]
            yield from (pair.partition("=")[2].strip().strip('"') for pair in pairs)
        elif is_credential_header(shown):
            scheme, blank, rest = text.partition(" ") if "authorization" in shown.lower() else ("", "", text)
            yield rest.strip() if blank else text
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    yield base64.b64decode(rest).decode("utf-8", "replace").partition(":")[2]
    for userinfo in _USERINFO.findall(url):
        yield unquote_plus(userinfo.partition(":")[2])
    for name, value in _PAIR.findall(f"{url}&?{form.decode('latin-1')}"):
        if _is_parameter(name):
            yield unquote_plus(value)


def content_type(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The media type without its parameters, in lower case; "" where there is none."""
    found = [value for name, value in headers if name.lower() == b"content-type"]
    return found[0].decode("latin-1").partition(";")[0].strip().lower() if found else ""


def same_id(message: Any, wanted: int | str | None) -> bool:
    """Whether a message answers the request with this id; one that is equal in print is taken for it."""
    identity = message.get("id")
    return identity is not None and not isinstance(identity, bool) and str(identity) == str(wanted)


class HttpLog:
    """The HTTP part of one transcript.

    Args:
        recorder: Of the transcript.
        traffic: Gives the labels of unanswered requests, and of the last request, at this moment.
        limit: Of one message, in bytes.
        sessions: Whether the id of a session is a credential, and is masked.
    Attributes:
        on_full: Called once when a limit was reached; the argument says which. Nothing more is recorded then.
        messages: How many messages came.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        traffic: Callable[[], tuple[tuple[str, ...], str | None]],
        limit: int = LINE_LIMIT_BYTES,
        sessions: bool = False,
    ) -> None:
        self.recorder = recorder
        self.sessions = sessions
        self.limit = limit
        self.on_full: Callable[[str], None] = lambda _: None
        self.full = ""
        self.messages = 0
        self._traffic = traffic
        self._exchanges = 0
        self._items = 0
        self._bytes = 0

    def request(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        carries: int | None = None,
        resumes: int | None = None,
        probe: str | None = None,
    ) -> int:
        """A request that goes out now; gives the number of its exchange.

        Args:
            carries: Number of the `sent` event that is its body.
            resumes: The exchange whose stream is to go on.
            probe: What it is to find out, where it is no part of the session.
        """
        self._exchanges += 1
        self.recorder.add(
            HttpRequest,
            exchange=self._exchanges,
            method=method,
            url=masked_url(url),
            headers=header_lines(headers, sessions=self.sessions),
            carries=carries,
            resumes=resumes,
            probe=probe,
        )
        return self._exchanges

    def response(
        self,
        exchange: int,
        status: int,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        wanted: int | str | None = None,
        messages: bool = True,
    ) -> HttpReader:
        """The head of a response; its body goes into the reader that comes back.

        Args:
            wanted: Id of the request that is to be answered, None where the body answers none.
            messages: Whether what is a message is recorded as such.
        """
        kept = list(headers)
        lines = header_lines(kept, sessions=self.sessions)
        self.recorder.add(HttpResponse, exchange=exchange, status=status, headers=lines)
        return HttpReader(self, exchange, status, content_type(kept), wanted, messages=messages)

    def refused(self, exchange: int, detail: str) -> None:
        """There is nobody to take the request."""
        self.recorder.add(HttpEnded, exchange=exchange, how="refused", detail=detail)

    def response_less(self, exchange: int, how: How, detail: str) -> None:
        """No response came, or what came is no HTTP."""
        self.recorder.add(HttpEnded, exchange=exchange, how=how, detail=detail)

    def received(self, exchange: int, data: bytes, at: int, end: str = "lf") -> None:
        """A message of the server's."""
        self.messages += 1
        in_flight, after = self._traffic()
        self.recorder.received(data, at, end, in_flight, None if in_flight else after, exchange)

    def count(self, items: int, size: int) -> None:
        """So much more came."""
        self._items += items
        self._bytes += size
        if self._items > MESSAGES_LIMIT or self._bytes > BYTES_LIMIT:
            self.stop(f"over {MESSAGES_LIMIT} messages or {BYTES_LIMIT} bytes came over HTTP")

    def stop(self, reason: str) -> None:
        """A limit was reached."""
        if not self.full:
            self.full = reason
            self.recorder.add(Truncated, reason=reason)
            self.on_full(reason)


class HttpReader:
    """The body of one response while it comes.

    Attributes:
        status: Of the response.
        kind: Its media type.
        body: What came of a body that is no event stream.
        last_id: The last id of an event, None without one.
        retry: In milliseconds, as the stream last said; None if it did not.
        events: How many events with data came.
        done: Whether its end is recorded.
    """

    def __init__(
        self, log: HttpLog, exchange: int, status: int, kind: str, wanted: int | str | None, *, messages: bool
    ) -> None:
        self.exchange = exchange
        self.status = status
        self.kind = kind
        self.body = bytearray()
        self.last_id: str | None = None
        self.retry: int | None = None
        self.events = 0
        self.done = False
        self._log = log
        self._wanted = wanted
        self._messages = messages
        self._size = 0
        self._chunks = 0
        self._came_at = 0.0
        self._parser = SseParser(log.limit) if self.is_stream else None

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream that can be read."""
        return self.kind == EVENT_STREAM and 200 <= self.status < 300

    @property
    def unfinished(self) -> bytes:
        """What came of a message that is not at its end."""
        if self.done:
            return b""
        return bytes(self.body) if self._parser is None else self._parser.rest()

    @property
    def coming(self) -> bool:
        """Whether a message is coming at this moment."""
        held = bool(self.body) if self._parser is None else bool(self._parser.size)
        return not self.done and held and time.monotonic() - self._came_at < STILL_S

    def feed(self, data: bytes) -> list[bytes]:
        """A chunk of the body; gives the messages that are complete now, each recorded."""
        if self._log.full or self.done or not data:
            return []
        self._came_at = time.monotonic()
        at, self._size = self._size, self._size + len(data)
        if self._parser is None:
            self.body += data
            self._log.count(0, len(data))
            if len(self.body) > self._log.limit:
                self._cut(bytes(self.body), 0)
            return []
        self._chunks += 1
        if self._chunks <= CHUNKS_KEPT:
            self._log.recorder.add(HttpData, exchange=self.exchange, at=at, size=len(data))
        items = self._parser.feed(data)
        self._log.count(len(items), len(data))
        found = [item.data for item in items if self._event(item) and item.data is not None]
        if self._parser.cut:
            self._cut(self._parser.rest(2 * BODY_KEPT_BYTES), self._parser.at)
        return found

    def finish(self, how: How, detail: str = "") -> list[bytes]:
        """The end of the body; gives the message that it was, if it was one."""
        if self.done:
            return []
        found: list[bytes] = []
        rest = self.unfinished
        self.done = True
        if self._parser is None and how == "complete" and not self._log.full and self._is_message(rest):
            self._log.received(self.exchange, rest, 0)
            self._log.count(1, 0)
            found.append(rest)
            rest = b""
        kept = self._log.recorder.masked(rest[: 2 * BODY_KEPT_BYTES])[:BODY_KEPT_BYTES]
        if self._log.full:
            kept = b""
        self._log.recorder.add(
            HttpEnded, exchange=self.exchange, how=how, size=self._size, detail=detail, body=Body(kept)
        )
        self.body = bytearray(kept)
        return found

    def _event(self, item: SseItem) -> bool:
        """Records an event; whether its data is a message."""
        if item.id is not None:
            self.last_id = item.id
        if item.retry is not None:
            self.retry = item.retry
        is_message = bool(item.data) and item.event in ("", "message") and self._messages
        shown = item.data or item.comment
        if item.event == "endpoint":  # of the legacy transport: its session is a parameter
            shown = masked_url(shown.decode("latin-1")).encode("latin-1")
        self._log.recorder.add(
            SseEvent,
            exchange=self.exchange,
            at=item.at,
            size=item.size,
            event=item.event,
            id=item.id,
            retry=item.retry,
            body=Body(b"" if is_message else shown),
        )
        if item.data is not None:
            self.events += 1
        if is_message:
            assert item.data is not None
            self._log.received(self.exchange, item.data, item.at)
        return is_message

    def _is_message(self, body: bytes) -> bool:
        """Whether a whole body is to be read as a message: what answers a request and succeeds is JSON."""
        if not self._messages or self._wanted is None or not body.strip():
            return False
        if 200 <= self.status < 300 and (self.kind == "application/json" or self.kind.endswith("+json")):
            return True
        message = message_in(body)
        return message is not None and is_response(message) and same_id(message, self._wanted)

    def _cut(self, data: bytes, at: int) -> None:
        body = self._log.recorder.masked(data[: 2 * BODY_KEPT_BYTES])[:BODY_KEPT_BYTES]
        self._log.received(self.exchange, body, at, "cut")
        self._log.stop(f"a message over HTTP is longer than {self._log.limit} bytes")
