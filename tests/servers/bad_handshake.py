"""Broken: its first answer has not the shape of one; the first argument says what is wrong with it."""

import sys

from raw import answer, reply, send, serve, text

HOW = sys.argv[1] if len(sys.argv) > 1 else "capabilities"
WRONG = {
    "capabilities": {"capabilities": None},
    "tools": {"capabilities": {"tools": True}},
    "info": {"serverInfo": None},
    "name": {"serverInfo": {"name": 7, "version": "1"}},
    "version": {"protocolVersion": 20251125},
    "versions": {"supportedVersions": ["2026-07-28", 7]},
}


def on(message):
    method, params = message.get("method"), message.get("params") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    if method == "initialize" and not modern:
        base = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        reply(message, {**base, "serverInfo": {"name": "fixture", "version": "1"}, **WRONG[HOW]})
        return True
    if method == "server/discover" and modern and HOW != "kind":
        base = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        reply(message, {**base, "ttlMs": 0, "cacheScope": "private", **WRONG[HOW]})
        return True
    if method == "tools/call" and HOW == "kind":
        send({"jsonrpc": "2.0", "id": message["id"], "result": {**text("a"), "resultType": "perhaps"}})
        return True
    return False


serve(on=on, modern=True)
