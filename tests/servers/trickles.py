"""Broken, but not on the wire: its answers come a few bytes at a time, and take seconds."""

import json
import time

from raw import serve, text, tool, write


def call(name, arguments, message):
    answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("x" * 400)}).encode() + b"\n"
    for at in range(0, len(answer), 4):
        write(answer[at : at + 4])
        time.sleep(0.03)


serve(call, tools=[tool("echo", text="string")])
