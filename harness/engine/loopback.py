"""TCP and HTTP to the stack: straight to 127.0.0.1, never by a proxy, no redirects followed, every wait bounded."""

from __future__ import annotations

import base64
import http.client
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from harness.errors import iterate_errors

__all__ = ["BODY_LIMIT_BYTES", "NO_ANSWER", "HttpAnswer", "Unreachable", "basic", "exchange", "request"]

BODY_LIMIT_BYTES = 4 * 1024 * 1024
TALK_LIMIT_BYTES = 64 * 1024
NO_ANSWER = "port open, no answer"  # an engine's proxy accepts though nothing listens behind it


class Unreachable(Exception):
    """No answer came; the message is what was seen instead, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer over HTTP. `body` holds at most BODY_LIMIT_BYTES."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 show as `\\xNN`."""
        return self.body.decode("utf-8", "backslashreplace")


def basic(user: str, password: str) -> str:
    """The value of an `Authorization` header for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


async def request(
    method: str,
    url: str,
    *,
    allowed: Iterable[tuple[str, int]],
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float,
) -> HttpAnswer:
    """One HTTP request and its answer.

    Args:
        allowed: The addresses that may be asked; there is no way to any other.
        timeout_s: Seconds for all of it.
    Raises:
        Unreachable: No HTTP answer came in that time.
        ValueError: The URL is not `http://` to an allowed address, or nothing that can be sent.
    """
    parts = urlsplit(url)
    target = (parts.hostname or "", parts.port or 80)
    if parts.scheme != "http" or target not in set(allowed) or parts.username is not None:
        raise ValueError(f"{url!r} is not http:// to an address of this stack")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(*target, timeout=timeout_s)

    def work() -> HttpAnswer:
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return HttpAnswer(
                status=answer.status, headers=dict(answer.headers.items()), body=answer.read(BODY_LIMIT_BYTES)
            )
        except (http.client.InvalidURL, UnicodeEncodeError, http.client.CannotSendRequest) as error:
            raise ValueError(f"{method} {url!r} cannot be sent: {error}") from error
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise Unreachable(NO_ANSWER) from None
        except TimeoutError:
            raise Unreachable(f"no answer within {timeout_s:g} s") from None
        except ConnectionRefusedError:
            raise Unreachable("connection refused") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no HTTP answer ({type(error).__name__}: {error})") from None
        finally:
            connection.close()

    try:
        with anyio.fail_after(timeout_s):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except TimeoutError:
        raise Unreachable(f"no complete answer within {timeout_s:g} s") from None
    finally:
        if (sock := connection.sock) is not None:  # wakes the thread if we left it
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


async def exchange(
    host: str,
    port: int,
    *,
    send: bytes,
    expect: bytes,
    timeout_s: float,
    mask: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """Connects, sends, and reads until the expected bytes came.

    Returns:
        What came.
    Raises:
        Unreachable: They did not come before the end of the stream, of the limit or of the time; says what did.
    """
    got = bytearray()
    try:
        with anyio.fail_after(timeout_s):
            async with await anyio.connect_tcp(host, port) as stream:
                if send:
                    await stream.send(send)
                while expect not in got or not got:
                    if len(got) > TALK_LIMIT_BYTES:
                        break
                    got += await stream.receive()
    except TimeoutError:
        if not got:
            raise Unreachable(f"{NO_ANSWER} within {timeout_s:g} s") from None
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        if not got:
            raise Unreachable(NO_ANSWER) from None
    except OSError as error:
        refused = any(isinstance(cause, ConnectionRefusedError) for cause in iterate_errors(error.__cause__ or error))
        raise Unreachable("connection refused" if refused else f"no connection: {error}") from None
    if expect not in got:
        raise Unreachable(f"answered {_shown(mask(bytes(got)))}, expected {_shown(mask(expect))}")
    return bytes(got)


def _shown(data: bytes) -> str:
    text = repr(data[-200:])[1:]
    return text if len(data) <= 200 else f"…{text}"
