"""The reply to a call bears another id: null, or as told "true", "float" (2.0 for 2), "string" ("2" for 2), "far" (a number)."""

import sys

import raw

HOW = sys.argv[1] if len(sys.argv) > 1 else "null"
plain = raw.send


def other(key):
    if HOW == "float":
        return float(key) if isinstance(key, int) else key
    if HOW == "string":
        return str(key) if isinstance(key, int) else key
    return {"null": None, "true": True, "far": 4711}[HOW]


def call(name, arguments, message):
    return raw.echo(name, arguments, message)


def on(message):
    if message.get("method") == "tools/call" or HOW in ("float", "string"):
        raw.send = lambda answer: plain({**answer, "id": other(answer["id"])})
    else:
        raw.send = plain


raw.serve(call, on=on)
