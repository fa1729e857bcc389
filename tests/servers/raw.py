"""Not a server: what the fixture servers here start from. Lines in, lines out, no SDK, starts in a few milliseconds.

    serve(call, tools=[...], on=hook, bad=hook, modern=False, capabilities=None, lists={})

`call(name, arguments, message)` gives a result (or None: no answer). `on(message)` sees every object first; True = dealt with.
`bad(line)` gets what is no object, `odd(message)` what is wrong where a request of good will cannot be; without them
both are answered with an error.
"""

import json
import sys

META = "io.modelcontextprotocol/"


def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message):
    write(json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def reply(message, result):
    send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def refuse(message, code, text):
    send({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": text}})


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], "structuredContent": {"result": value}, **more}


def tool(name, *, gives=None, **types):
    bounds = {"string": {"maxLength": 1_000_000}, "number": {"minimum": -1e9, "maximum": 1e9}}
    properties = {
        key: {"type": value, "description": f"The {key}.", **bounds.get(value, {})} for key, value in types.items()
    }
    schema = {"type": "object", "properties": properties, "required": sorted(types), "additionalProperties": False}
    plain = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
    output = plain if gives is None else gives
    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
    more = {"outputSchema": output, "annotations": hints}
    return {"name": name, "description": f"Tool {name}.", "inputSchema": schema, **more}


ECHO = tool("echo", text="string")


def echo(name, arguments, message):
    return text(arguments.get("text", ""))


def is_odd(message):
    """Whether an object is wrong where a request of good will cannot be."""
    params, method = message.get("params", {}), message.get("method", "")
    right = isinstance(method, str) and isinstance(params, dict)
    return not (right and isinstance(params.get("arguments", {}), dict))


def refuse_odd(message):
    if "id" in message:
        refuse(message, -32600, "Invalid Request")


def answer(message, call=echo, tools=(ECHO,), modern=False, capabilities=None, lists=None):
    if is_odd(message):
        return refuse_odd(message)
    method, params = message.get("method"), message.get("params") or {}
    capabilities = {"tools": {}} if capabilities is None else capabilities
    info, old = (
        {"name": "fixture", "version": "1"},
        not str(params.get("_meta", {}).get(META + "protocolVersion"))[:4] == "2026",
    )
    if "id" not in message or method is None:
        return
    if method == "initialize" and old:
        reply(message, {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info})
    elif method == "ping" and old:
        reply(message, {})
    elif not old and not modern:
        refuse(message, -32601, f"Method not found: {method}")
    else:
        done = {} if old else {"resultType": "complete", "_meta": {META + "serverInfo": info}}
        found = {"tools/list": {"tools": list(tools)}, **(lists or {})}
        if method == "server/discover" and not old:
            reply(
                message,
                {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities,
                    "ttlMs": 0,
                    "cacheScope": "private",
                    **done,
                },
            )
        elif method in found:
            reply(message, {**found[method], **done, **({} if old else {"ttlMs": 0, "cacheScope": "private"})})
        elif method == "tools/call":
            if str(params.get("name")).startswith("rollcall-"):
                return refuse(message, -32602, "Unknown tool")
            result = call(params.get("name"), params.get("arguments") or {}, message)
            if result is not None:
                reply(message, {**done, **result})
        else:
            refuse(message, -32601, f"Method not found: {method}")


def messages(odd=refuse_odd):
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            message = line
        if isinstance(message, dict) and is_odd(message):
            odd(message)
        else:
            yield message


def serve(call=echo, on=None, bad=lambda line: refuse({}, -32700, "Parse error"), odd=refuse_odd, **more):
    for message in messages(odd):
        if not isinstance(message, dict):
            bad(message)
        elif on is None or not on(message):
            answer(message, call, **more)
