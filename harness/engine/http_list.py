"""What a Streamable HTTP server lists, in each era that it speaks: raw replies, all pages, and never a call.

Bounded in time and size. Loopback is never asked through a proxy. A redirect is followed within one origin only, since
headers may hold secrets.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import anyio
import httpx2

from harness import __version__
from harness.engine.http_pipe import described
from harness.engine.mask import Masker
from harness.engine.sse import SseParser
from harness.engine.wire import HANDSHAKE_VERSIONS, MAX_PAGES, MODERN_VERSION
from harness.errors import ConfigError, ServerError
from harness.model.frame import is_response, message_in
from harness.model.outcome import cut, cut_json
from harness.model.plan import CALL_TIMEOUT_S, Era

__all__ = ["REPLY_LIMIT_BYTES", "TOTAL_S", "HttpListing", "list_url", "shown_url"]

REPLY_LIMIT_BYTES = 64 * 1024 * 1024  # of one reply, as for one line over stdio
TOTAL_S = 300.0  # for everything that is asked of one server
DISCOVER_S = 10.0
GOODBYE_S = 2.0
LEGACY_S = 3.0  # for the first event of the transport that came before this one
MAX_REDIRECTS = 5
QUOTED_BYTES = 200

_META = "io.modelcontextprotocol/"
_KINDS = ("tools", "prompts", "resources")
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpListing:
    """What a server lists in one era.

    Attributes:
        name: As the server calls itself, "" if it does not.
        replies: The raw JSON-RPC response to each request for a page, in order; secrets masked.
    """

    era: Era
    protocol: str
    name: str = ""
    replies: tuple[bytes, ...] = ()


class _NotSpoken(Exception):
    """The era is not the server's; the message says how it showed."""


@dataclass(slots=True)
class _Session:
    """One conversation; `headers` grow as it goes on."""

    client: httpx2.AsyncClient
    url: str
    masker: Masker
    timeout_s: float
    era: Era
    headers: dict[str, str] = field(default_factory=dict)
    count: int = 0

    async def ask(self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None) -> _Answer:
        """One request and its reply."""
        self.count += 1
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": dict(params)}
        headers = dict(self.headers)
        if self.era == "modern":
            body["params"]["_meta"] = _meta()
            headers |= {"mcp-protocol-version": MODERN_VERSION, "mcp-method": method}
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            with anyio.fail_after(limit_s):
                return await self._post(body, headers)
        except TimeoutError:
            raise ServerError(f"{shown_url(self.url)} gave no answer to {method} within {limit_s:g} s") from None

    async def tell(self, method: str) -> None:
        """One notification; what comes back is of no interest."""
        try:
            with anyio.move_on_after(self.timeout_s):
                async with self._send({"jsonrpc": "2.0", "method": method}, self.headers):
                    return
        except httpx2.HTTPError:
            return

    async def _post(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> _Answer:
        try:
            async with self._send(body, headers) as response:
                return await _read(response, body["id"])
        except httpx2.HTTPError as error:
            raise ServerError(self.masker.text(_unreachable(self.url, error))) from None

    @asynccontextmanager
    async def _send(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        content = json.dumps(body).encode("ascii")
        for _ in range(MAX_REDIRECTS + 1):
            async with self.client.stream("POST", self.url, content=content, headers=dict(headers)) as response:
                place = response.headers.get("location")
                if response.status_code not in (301, 302, 303, 307, 308) or not place:
                    yield response
                    return
                target = urljoin(self.url, place)
            if _origin(urlsplit(target)) != _origin(urlsplit(self.url)):
                raise ServerError(
                    f"{shown_url(self.url)} leads elsewhere: {response.status_code} to {shown_url(target)}",
                    hint="name that address, if it is the server that you mean",
                )
            self.url = target
        raise ServerError(f"{shown_url(self.url)} leads in circles: more than {MAX_REDIRECTS} redirects")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """An HTTP response and the JSON-RPC message in it, if one answers the request."""

    status: int
    headers: httpx2.Headers
    body: bytes
    raw: bytes = b""
    message: Mapping[str, Any] | None = None

    @property
    def result(self) -> Mapping[str, Any] | None:
        """Its result, None for an error or no message."""
        result = None if self.message is None else self.message.get("result")
        return result if isinstance(result, Mapping) else None


async def list_url(
    url: str, *, headers: Mapping[str, str], masker: Masker, call_s: float = CALL_TIMEOUT_S, total_s: float = TOTAL_S
) -> list[HttpListing]:
    """All pages of all lists, in each era that the server speaks.

    Args:
        headers: Sent with every request.
        masker: Knows their secrets; nothing that is returned or raised holds one.
    Raises:
        ConfigError: The URL cannot be one.
        ServerError: Nobody is there, it is no MCP server, it asks for authorization, or it gave no list.
    """
    parts = _parts(url)
    base = {
        "user-agent": f"mcp-rollcall/{__version__}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        **headers,
    }
    try:
        client = httpx2.AsyncClient(headers=base, timeout=call_s, trust_env=not _is_loopback(parts.hostname or ""))
    except (ValueError, TypeError, OSError) as error:  # a header or a proxy that cannot be used
        raise ConfigError(masker.text(f"{shown_url(url)}: {error}")) from None
    async with client:
        try:
            with anyio.fail_after(total_s):
                return await _list_eras(client, url, masker, call_s)
        except TimeoutError:
            raise ServerError(f"{shown_url(url)} had not listed everything after {total_s:g} s") from None
        except (httpx2.InvalidURL, UnicodeEncodeError, ValueError) as error:
            raise ConfigError(masker.text(f"{shown_url(url)} cannot be asked: {error}")) from None


def shown_url(url: str) -> str:
    """A URL as messages call it: without user, password, query and fragment, any of which may hold a secret."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the URL"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{port}{parts.path}" + ("?…" if parts.query else "")


# --- one server -----------------------------------------------------------------------------------


async def _list_eras(client: httpx2.AsyncClient, url: str, masker: Masker, call_s: float) -> list[HttpListing]:
    found: list[HttpListing] = []
    refused: list[str] = []
    for era in ("modern", "handshake"):
        session = _Session(client, url, masker, call_s, "modern" if era == "modern" else "handshake")
        try:
            found.append(await (_modern(session) if era == "modern" else _handshake(session, only=not found)))
        except _NotSpoken as error:
            refused.append(f"{era}: {error}")
    if not found:
        if await _is_legacy(client, url):
            raise ServerError(
                f"{shown_url(url)} speaks HTTP+SSE, the transport of protocol version 2024-11-05, and not its "
                "successor, Streamable HTTP",
                hint="name the server's Streamable HTTP address (often /mcp), or save its tools/list result in a file",
            )
        raise ServerError(
            masker.text(f"{shown_url(url)} is no Streamable HTTP server of MCP\n" + "\n".join(refused)),
            hint="is the path right? It is often /mcp",
        )
    return found


async def _modern(session: _Session) -> HttpListing:
    try:
        answer = await session.ask("server/discover", {}, timeout_s=min(DISCOVER_S, session.timeout_s))
    except ServerError as error:
        if "no answer to" not in error.message:
            raise
        raise _NotSpoken(error.message) from None  # a server of the other era may stay silent
    _refuse_unauthorized(session, answer)
    result = answer.result
    versions = None if result is None else result.get("supportedVersions")
    if result is None or not isinstance(versions, list):
        raise _NotSpoken(_described(answer))
    if MODERN_VERSION not in versions:
        raise _NotSpoken(f"server/discover names these versions only: {cut_json(versions)}")
    meta = result.get("_meta")
    info = (meta.get(f"{_META}serverInfo") if isinstance(meta, Mapping) else None) or result.get("serverInfo")
    return HttpListing(
        era="modern",
        protocol=MODERN_VERSION,
        name=_name(info),
        replies=tuple(await _pages(session, result.get("capabilities"))),
    )


async def _handshake(session: _Session, *, only: bool) -> HttpListing:
    params = {
        "protocolVersion": HANDSHAKE_VERSIONS[0],
        "capabilities": {},
        "clientInfo": {"name": "mcp-rollcall", "version": __version__},
    }
    try:
        answer = await session.ask("initialize", params)
    except ServerError as error:
        if only:
            raise
        raise _NotSpoken(error.message) from None  # it speaks the other era, which is enough
    _refuse_unauthorized(session, answer)
    result = answer.result
    version = None if result is None else result.get("protocolVersion")
    if result is None or not isinstance(version, str):
        raise _NotSpoken(_described(answer))
    if version not in HANDSHAKE_VERSIONS:
        raise _NotSpoken(f"the server answered with protocol version {cut(version, 60)}")
    session.headers["mcp-protocol-version"] = version
    if identity := answer.headers.get("mcp-session-id"):
        session.headers["mcp-session-id"] = identity
        session.masker.add(identity)
    await session.tell("notifications/initialized")
    try:
        replies = tuple(await _pages(session, result.get("capabilities")))
    finally:
        await _goodbye(session)
    return HttpListing(era="handshake", protocol=version, name=_name(result.get("serverInfo")), replies=replies)


async def _pages(session: _Session, capabilities: Any) -> list[bytes]:
    replies: list[bytes] = []
    declared = capabilities if isinstance(capabilities, Mapping) else {}
    for kind in _KINDS:
        if kind != "tools" and kind not in declared:
            continue
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            answer = await session.ask(f"{kind}/list", {} if cursor is None else {"cursor": cursor})
            result = answer.result
            if result is None or not isinstance(result.get(kind), list):
                if kind == "tools" and (kind in declared or result is not None):
                    raise ServerError(
                        session.masker.text(f"{shown_url(session.url)} gave no list of tools: {_described(answer)}")
                    )
                break
            replies.append(session.masker.bytes(answer.raw))
            following = result.get("nextCursor")
            if not isinstance(following, str) or not following or following in seen:
                break
            seen.add(following)
            cursor = following
    return replies


async def _goodbye(session: _Session) -> None:
    """Ends the session on the server, if it has one; nothing depends on it."""
    if "mcp-session-id" not in session.headers:
        return
    with anyio.move_on_after(GOODBYE_S, shield=True):
        try:
            await session.client.delete(session.url, headers=session.headers)
        except httpx2.HTTPError:
            return


async def _is_legacy(client: httpx2.AsyncClient, url: str) -> bool:
    """Whether a GET begins a stream that names an endpoint, as the transport before Streamable HTTP did."""
    with anyio.move_on_after(LEGACY_S):
        try:
            async with client.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    return False
                head = b""
                async for chunk in response.aiter_bytes():
                    head += chunk
                    if _EVENT_END.search(head) or len(head) > QUOTED_BYTES * 10:
                        return re.search(rb"(?m)^event:[ ]?endpoint\s*$", head) is not None
        except httpx2.HTTPError:
            return False
    return False


# --- replies --------------------------------------------------------------------------------------


async def _read(response: httpx2.Response, wanted: int) -> _Answer:
    """The response with the message that answers the request; a stream is left as soon as that is there."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream" and response.status_code < 300:
        async for raw in _events(response):
            message = message_in(raw)
            if message is not None and is_response(message) and _answers(message, wanted):
                return _Answer(
                    status=response.status_code, headers=response.headers, body=raw, raw=raw, message=message
                )
        return _Answer(status=response.status_code, headers=response.headers, body=b"(the stream ended first)")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > REPLY_LIMIT_BYTES:
            raise ServerError(f"{shown_url(str(response.url))} gave a reply of more than {REPLY_LIMIT_BYTES:,} bytes")
    raw = bytes(body)
    message = message_in(raw) if kind != "text/html" else None
    if message is not None and not is_response(message):
        message = None
    return _Answer(status=response.status_code, headers=response.headers, body=raw, raw=raw, message=message)


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each event of a stream."""
    size = 0
    parser = SseParser(REPLY_LIMIT_BYTES)
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > REPLY_LIMIT_BYTES:
            raise ServerError(f"{shown_url(str(response.url))} gave a stream of more than {REPLY_LIMIT_BYTES:,} bytes")
        for item in parser.feed(chunk):
            if item.data:
                yield item.data
    last = parser.finish()  # a stream that ends without the empty line is read all the same
    if last is not None and last.data:
        yield last.data


def _answers(message: Mapping[str, Any], wanted: int) -> bool:
    return message.get("id") in (wanted, str(wanted))


def _refuse_unauthorized(session: _Session, answer: _Answer) -> None:
    """An answer that asks for authorization ends it: the other era will not be let in either."""
    if answer.status not in (401, 403, 407):
        return
    asked = answer.headers.get("www-authenticate", "")
    raise ServerError(
        session.masker.text(
            f"{shown_url(session.url)} asks for authorization: HTTP {answer.status}"
            + (f", WWW-Authenticate: {cut(asked, QUOTED_BYTES)}" if asked else "")
        ),
        hint='hand it over with --header "Authorization=Bearer …"; the value is never shown',
    )


def _described(answer: _Answer) -> str:
    """What came instead of a result, in words."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    if answer.message is not None and "error" in answer.message:
        return f"HTTP {answer.status} with the error {cut_json(answer.message['error'])}"
    return described(answer.status, kind, answer.body, stream=False)


def _unreachable(url: str, error: httpx2.HTTPError) -> str:
    said = str(error) or type(error).__name__
    return f"{shown_url(url)} cannot be reached: {said}"


# --- addresses ------------------------------------------------------------------------------------


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.hostname and (parts.port is None or 0 < parts.port < 65536):
            return parts
    except ValueError as error:
        raise ConfigError(f"a source is no URL: {error}") from None
    raise ConfigError(f"{shown_url(url)} is no URL: it names no host")


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(info: Any) -> str:
    name = info.get("name") if isinstance(info, Mapping) else None
    return name if isinstance(name, str) else ""


def _meta() -> dict[str, Any]:
    return {
        f"{_META}protocolVersion": MODERN_VERSION,
        f"{_META}clientInfo": {"name": "mcp-rollcall", "version": __version__},
        f"{_META}clientCapabilities": {},
    }
