"""Fault: server/discover gives a ttlMs that is no number. `only` = it does not speak the handshake era either."""

import sys

from raw import refuse, reply, serve

ONLY = "only" in sys.argv


def on(message):
    method = message.get("method")
    if method == "server/discover":
        versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        reply(message, {**versions, "ttlMs": "never", "cacheScope": "private", "resultType": "complete"})
        return True
    if method == "initialize" and ONLY:
        refuse(message, -32601, "Method not found: initialize")
        return True


if __name__ == "__main__":
    serve(on=on, modern=True)
