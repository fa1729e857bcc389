"""What only a closer look at a server over stdio can show: what no client of good will sends, each once.

It is sent to a process of its own, after its session has begun, and that process has a locale that is not UTF-8, as
desktops and containers start servers. No tool is called but one that there is not, or that says it only reads, with
arguments that are none. After each a ping tells whether the server lives on, and that all that came before has been
seen. What it makes of each is on the record, under the word of its probe; nothing here judges.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio

from harness.engine.pipe import Pipe
from harness.engine.wire import TimedOut, WireSession
from harness.model.transcript import ODD_REQUESTS, PROBE_ID, PROBE_LABEL, UNKNOWN_NOTIFICATION

__all__ = ["BROKEN_LABEL", "BROKEN_LINE", "ENCODING_NAMES", "OTHER_LOCALE", "look_closer"]

OTHER_LOCALE: Mapping[str, str] = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}
ENCODING_NAMES = frozenset({*OTHER_LOCALE, "LC_CTYPE", "PYTHONIOENCODING"})  # who declares one has seen to it
BROKEN_LINE = b"#this line is no JSON#"  # not the beginning of any either: a reader of streams would wait for the rest
BROKEN_LABEL = f"{PROBE_LABEL}broken-json"
PING_S = 0.5  # for the first ping; a server that does not answer it is asked nothing more
ALIVE_S = 10.0  # for that after each probe
LIST_S = 10.0
WAIT_S = 1.0  # for what comes back to the broken line, where the server is slow to answer
LEAST_S = 0.3  # the same, where it is quick
TIMES = 20  # how much longer than an answer may take what comes back
POLL_S = 0.02
NO_TOOL = f"{PROBE_ID}no-such-tool"
NOT_ASCII = "Gerät-тест-★"

# what a server that declares the capability has to know; none of them changes anything
_OF_CAPABILITY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "completions": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": f"{PROBE_ID}none"}, "argument": {"name": "a", "value": ""}},
    ),
    "logging": ("logging/setLevel", {"level": "emergency"}),
}


async def look_closer(session: WireSession, pipe: Pipe, *, harmless: str | None) -> None:
    """Sends every probe, until the server answers nothing any more.

    Args:
        harmless: A tool that says it only reads.
    Raises:
        TimedOut: The server lives and answers nothing any more.
        Died: It does not live.
    """
    session.notify("notifications/cancelled", {"requestId": "rollcall-unknown", "reason": "there is no such request"})
    session.notify(UNKNOWN_NOTIFICATION)
    wait_s, began = WAIT_S, time.monotonic()
    try:  # an answered request whose id could be taken for the broken line's
        await _ping(session, "", PING_S)
        wait_s = min(WAIT_S, max(LEAST_S, TIMES * (time.monotonic() - began)))
    except TimedOut:
        await _broken(session, pipe, wait_s)
        return
    with suppress(TimedOut):
        await session.request("tools/list", label="tools/list", timeout_s=LIST_S)
    if session.era == "handshake":
        for capability, (method, params) in _OF_CAPABILITY.items():
            if capability in session.capabilities:
                await session.request(method, params, label=method, timeout_s=ALIVE_S)
    await _odd(session, "locale", _request(session, f"{PROBE_ID}{NOT_ASCII}", _ping_of(session)))
    for word in ODD_REQUESTS:
        await _odd(session, word, _odd_request(session, word, harmless))
    if "tools" in session.capabilities:
        await session.request(
            "tools/call", {"name": NO_TOOL, "arguments": {}}, label=f"{PROBE_LABEL}unknown-tool", timeout_s=ALIVE_S
        )
    await _ping(session, "", ALIVE_S)
    await _broken(session, pipe, wait_s)


def _ping_of(session: WireSession) -> str:
    return "server/discover" if session.era == "modern" else "ping"


async def _ping(session: WireSession, after: str, timeout_s: float) -> None:
    method = _ping_of(session)
    label = f"{method} after {PROBE_LABEL}{after}" if after else method
    await session.request(method, label=label, timeout_s=timeout_s)


async def _odd(session: WireSession, word: str, message: Mapping[str, Any]) -> None:
    session.send_line(json.dumps(message, ensure_ascii=False).encode(), f"{PROBE_LABEL}{word}")
    await _ping(session, word, ALIVE_S)


def _request(
    session: WireSession, identity: str, method: str, params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    meta = {"_meta": dict(session.meta)} if session.era == "modern" else {}
    whole = {**meta, **(params or {})}
    return {"jsonrpc": "2.0", "id": identity, "method": method, **({"params": whole} if whole else {})}


def _odd_request(session: WireSession, word: str, harmless: str | None) -> dict[str, Any]:
    right = _request(session, f"{PROBE_ID}{word}", _ping_of(session))
    if word == "params":
        return {**right, "method": "tools/list", "params": 5}
    if word == "method":
        return {**right, "method": []}
    if word == "arguments":
        return _request(session, right["id"], "tools/call", {"name": harmless or NO_TOOL, "arguments": "x"})
    return {**right, "jsonrpc": "1.0"}


async def _broken(session: WireSession, pipe: Pipe, wait_s: float) -> None:
    before = pipe.line_count
    session.send_line(BROKEN_LINE, BROKEN_LABEL)
    with anyio.move_on_after(wait_s):  # what comes later, until it has ended, is recorded too
        while pipe.line_count == before and not pipe.dead:
            await anyio.sleep(POLL_S)
