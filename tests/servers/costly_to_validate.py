"""structuredContent that takes a schema with branches, an expensive pattern, or a deep reader, for ever."""

import json

from raw import ECHO, echo, serve, text, tool, write


def call(name, arguments, message):
    if name == "branches":
        value = {}
        for _ in range(20):
            value = {"n": value}
        return text("ok", structuredContent=value)
    if name == "pattern":
        return text("ok", structuredContent={"s": "a" * 40 + "!"})
    if name == "deep":
        head = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":' % json.dumps(message["id"]).encode()
        return write(head + b"[" * 100_000 + b"]" * 100_000 + b"}}\n")
    return echo(name, arguments, message)


serve(
    call,
    tools=[ECHO, tool("branches", gives={"type": "object"}), tool("pattern", gives={"type": "object"}), tool("deep")],
)
