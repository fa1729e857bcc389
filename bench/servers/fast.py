"""The fastest server that is one: JSON lines, one thread, answers of a megabyte and more made once.

Tools: `echo` gives its text back; `string` and `objects` give an answer of `bytes` bytes, as one string or as many
objects.
"""

import json
import os
import sys
from functools import cache

INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "fast", "version": "1"}}
TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("echo", "string", "objects")
]


@cache
def large(name: str, size: int) -> bytes:
    """The result of a call as JSON: a member `text`, or a list of small objects, of about `size` bytes."""
    text = "the quick brown fox jumps over the lazy dog; " * (size // 45)
    content = [{"type": "text", "text": text if name == "string" else ""}]
    result: dict[str, object] = {"content": content}
    if name == "objects":
        result["structuredContent"] = {"rows": [{"id": n, "name": f"row {n}", "on": True} for n in range(size // 42)]}
    return json.dumps(result, separators=(",", ":")).encode()


def answer(message: dict) -> bytes | None:
    """One line without its newline, None for a notification."""
    key, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if key is None:
        return None
    if method == "tools/call":
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "echo":
            result = json.dumps({"content": [{"type": "text", "text": arguments.get("text", "")}]}).encode()
        else:
            result = large(name, arguments["bytes"])
    elif method == "initialize":
        result = json.dumps({"protocolVersion": params["protocolVersion"], **INFO}).encode()
    elif method == "tools/list":
        result = json.dumps({"tools": TOOLS}).encode()
    else:
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": key, "error": error}).encode()
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(key).encode(), result)


def safely(message: dict) -> bytes | None:
    """The same, and an error where the request is wrong."""
    try:
        return answer(message)
    except (AttributeError, KeyError, TypeError):
        error = {"code": -32602, "message": "Invalid params"}
        return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode()


def main() -> None:
    """Answers all lines of each read with one write."""
    rest = b""
    while data := os.read(0, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        out = b"".join(line + b"\n" for line in map(safely, map(json.loads, lines)) if line is not None)
        view = memoryview(out)
        while view:
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
    sys.exit()
