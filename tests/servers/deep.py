"""A result nested 100,000 levels deep, then a good answer to the next call."""

import json

from raw import ECHO, echo, serve, tool, write


def call(name, arguments, message):
    if name == "deep":
        head = (
            b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":' % json.dumps(message["id"]).encode()
        )
        return write(head + b"[" * 100_000 + b"]" * 100_000 + b"}}\n")
    return echo(name, arguments, message)


serve(call, tools=[ECHO, tool("deep")])
