"""Guards and pollers for tests in code: is this address this machine, and does anything answer there yet.

Addresses are judged by their numbers alone: no name is resolved, not even `localhost`, and what two programs might read
differently (octal parts, short forms, user names, backslashes) is refused.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio

from harness.engine import loopback
from harness.engine.guard import is_loopback, numeric_host
from harness.engine.ready import PROBE_TIMEOUT_S, Observation, Probe, wait_ready
from harness.errors import ConfigError, NotLoopback, StackError

__all__ = ["WAIT_S", "assert_loopback", "assert_loopback_host", "wait_for_http_async", "wait_for_tcp_async"]

WAIT_S = 60.0
QUIET_S = 0.2  # an engine's proxy accepts, and closes at once where nothing listens behind it
_SPELLING = "write 127.0.0.1 or ::1"


def assert_loopback_host(host: str) -> None:
    """Nothing happens if a host is this machine's own, by its number and in the one spelling that all programs share.

    Raises:
        NotLoopback: It is not; it may be a private network's, a name, or an unusual spelling.
    """
    problem = _problem(host)
    if problem:
        raise NotLoopback(f"{host!r} is refused: {problem}")


def _problem(host: str) -> str:
    """Why a host is refused, "" if it is not."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare:
        return f"it is empty, and so means a default one; {_SPELLING}"
    if "%" in bare:
        return f"a zone is read by some programs only; {_SPELLING}"
    try:
        number = ipaddress.ip_address(bare)
    except ValueError:
        if numeric_host(bare) is not None:
            return f"it is a number that programs read differently; {_SPELLING}"
        if bare.rstrip(".").lower() == "localhost":
            return f"a name is whatever it resolves to, and this one may be two addresses; {_SPELLING}"
        return f"a name is whatever it resolves to; {_SPELLING}"
    if not is_loopback(bare):
        return "it is not this machine's own"
    return "" if number.version == 6 or str(number) == bare else f"it is an unusual spelling; {_SPELLING}"


def assert_loopback(url: str) -> None:
    """Nothing happens if a URL leads to this machine, for every program that may read it; a port must be in it.

    Raises:
        NotLoopback: It does not, or programs may differ about it.
    """
    host, _ = _target(url)
    problem = _problem(host)
    if problem:
        raise NotLoopback(f"{_shown(url)} is refused: its host {host!r}: {problem}")


def _shown(url: str) -> str:
    """A URL as it may be told: without what may be a password."""
    before, at, after = url.rpartition("@")
    return repr(f"{before.partition('://')[0]}://…@{after}" if at and "://" in before else url)


def _target(url: str) -> tuple[str, int]:
    """Host and port of a URL.

    Raises:
        NotLoopback: It has none, or programs may differ about it.
    """
    shown = _shown(url)
    if "\\" in url or not url.isascii() or any(char <= " " or char == "\x7f" for char in url):
        raise NotLoopback(f"{shown} is refused: programs differ about what a backslash, a blank or such a letter means")
    if "://" not in url:
        raise NotLoopback(f"{shown} is no URL: it has no '://' (in 'localhost:3000' the scheme is 'localhost')")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise NotLoopback(f"{shown} is no URL: {error}") from None
    if "@" in parts.netloc and parts.scheme in ("http", "https"):
        raise NotLoopback(f"{shown} is refused: a user name in it hides where it leads")
    if port is None:
        raise NotLoopback(f"{shown} is refused: it names no port, and so means a default one")
    return host, port


# --- waiting --------------------------------------------------------------------------------------


async def wait_for_http_async(
    url: str,
    *,
    status: Sequence[int] | None = None,
    body: str | None = None,
    timeout_s: float = WAIT_S,
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
    assert_loopback(url)
    if not url.startswith("http://"):
        raise ConfigError(f"{_shown(url)}: only http:// can be waited for")
    address = _target(url)

    async def probe() -> Observation:
        try:
            answer = await loopback.request("GET", url, allowed=[address], timeout_s=PROBE_TIMEOUT_S - 1)
        except loopback.Unreachable as error:
            return Observation(False, str(error))
        good = answer.status < 500 if status is None else answer.status in status
        if not good:
            wanted = "one below 500" if status is None else " or ".join(map(str, status))
            return Observation(False, f"status {answer.status}, expected {wanted}")
        if body is not None and body not in answer.text:
            return Observation(False, f"status {answer.status}, and {body!r} is not in the answer")
        return Observation(True, f"status {answer.status}")

    await _wait(probe, url, timeout_s)


async def wait_for_tcp_async(
    host: str, port: int, *, send: bytes = b"", expect: bytes | None = None, timeout_s: float = WAIT_S
) -> None:
    """Waits until something on this machine has taken a connection, and said what it should, twice in a row.

    Args:
        send: What is sent first.
        expect: What must come, such as `b"* OK"` of IMAP or `b"220"` of SMTP. Without it a connection that stays open
            for a moment is enough, which says little: a published port of Docker's accepts before its service does.
    Raises:
        NotLoopback: The host is another machine's.
        StackError: The time is over; what was seen last is in the message.
    """
    assert_loopback_host(host)

    async def probe() -> Observation:
        try:
            if expect is None:
                await _stays_open(host, port, send)
            else:
                await loopback.exchange(host, port, send=send, expect=expect, timeout_s=PROBE_TIMEOUT_S - 1)
        except loopback.Unreachable as error:
            return Observation(False, str(error))
        return Observation(True, "it answered")

    await _wait(probe, f"{host}:{port}", timeout_s)


async def _stays_open(host: str, port: int, send: bytes) -> None:
    try:
        with anyio.fail_after(PROBE_TIMEOUT_S - 1):
            async with await anyio.connect_tcp(host, port) as stream:
                if send:
                    await stream.send(send)
                with anyio.move_on_after(QUIET_S):
                    await stream.receive()
    except TimeoutError:
        raise loopback.Unreachable(f"no connection within {PROBE_TIMEOUT_S - 1:g} s") from None
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        raise loopback.Unreachable("port open, and closed again at once") from None
    except OSError as error:
        raise loopback.Unreachable(f"no connection: {error.strerror or error}") from None


async def _wait(probe: Probe, what: str, timeout_s: float) -> None:
    began = time.monotonic()

    async def lives() -> None:
        return None

    waited = await wait_ready(probe, lives, timeout_s=timeout_s)
    if not waited.ready:
        raise StackError(
            f"{what} was not ready within {timeout_s:g} s ({time.monotonic() - began:.1f} s); "
            f"seen last: {waited.observation}",
            hint="a service in a container may listen on 127.0.0.1 of the container alone; look into its log",
        )
