"""What only a closer look at a server over HTTP can show: requests that no client of good will sends, each once.

They go to a process of their own, after its session has begun, and call no tool. What the server makes of each is on
the record, under the word of its probe; nothing here judges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from harness import __version__
from harness.engine.http_pipe import HttpPipe, well_known
from harness.engine.wire import HANDSHAKE_VERSIONS
from harness.model.plan import Era

__all__ = ["FOREIGN", "look_closer"]

FOREIGN = "evil.example"  # reserved for examples: nobody's
PAST_VERSION = "1999-01-01"
CLIENT = {"name": "mcp-rollcall", "version": __version__}
PROBE_S = 3.0  # for the answer to each


async def look_closer(pipe: HttpPipe, era: Era, meta: Mapping[str, Any]) -> None:
    """Sends every probe of an era.

    Args:
        meta: What requests of the modern era bear as `_meta`.
    """
    modern = era == "modern"

    def message(method: str) -> dict[str, Any]:
        params = {"params": {"_meta": dict(meta)}} if modern else {}
        return {"jsonrpc": "2.0", "id": f"probe-{token_hex(4)}", "method": method, **params}

    async def say(probe: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        line = json.dumps(body).encode("ascii")
        pipe.recorder.sent(line, f"probe/{probe}")
        await pipe.ask("POST", probe=probe, body=line, headers=headers, carries=pipe.recorder.count, within=PROBE_S)

    async def post(probe: str, method: str = "", *, without: tuple[str, ...] = (), **more: str) -> None:
        body = message(method or ("server/discover" if modern else "ping"))
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        out = {*without, *headers}
        await say(probe, body, {k: v for k, v in pipe.headers_for(body).items() if k.lower() not in out} | headers)

    if modern:  # a server of both eras may answer a GET in the way of the other
        hello = {"protocolVersion": HANDSHAKE_VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT}
        body = {"jsonrpc": "2.0", "id": f"probe-{token_hex(4)}", "method": "initialize", "params": hello}
        await say("other-era", body, pipe.headers_for(body))
    await pipe.ask("GET", probe="get", headers={"accept": "text/event-stream"} | pipe.session_headers(), within=PROBE_S)
    await pipe.ask("GET", well_known(pipe.url), probe="well-known", within=PROBE_S)
    if pipe.own_headers:
        await post("unauthorized", without=tuple(name.lower() for name in pipe.own_headers))
    await post("origin", origin=f"http://{FOREIGN}")
    await post("host", host=FOREIGN)
    await post("version", mcp_protocol_version=PAST_VERSION)
    if modern:
        await post("unknown-method", "rollcall/no-such-method")
    elif pipe.session:
        await post("unknown-session", mcp_session_id=token_hex(16))
        await post("missing-session", "tools/list", without=("mcp-session-id",))
