"""Declares what it has not; with `fails` it has the lists, and one gives an error and the other no list."""

import sys

from raw import refuse, reply, serve

DECLARED = {"tools": {}, "prompts": {}, "resources": {}}


def on(message):
    if message.get("method") == "prompts/list" and "fails" in sys.argv:
        return refuse(message, -32603, "the store is away") or True
    if message.get("method") == "resources/list" and "fails" in sys.argv:
        return reply(message, {"items": []}) or True
    return False


serve(on=on, capabilities=DECLARED if "fails" in sys.argv else {**DECLARED, "logging": {}, "completions": {}})
