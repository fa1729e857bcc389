"""S09: of a reply of some 20 kB the last part stays in a buffer of the process."""

import json
import sys

from raw import echo, serve, text

held = b""


def call(name, arguments, message):
    global held
    result = text("x" * 20000 + arguments["text"])
    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n"
    sys.stdout.buffer.write(data[: 16 * 1024])
    sys.stdout.buffer.flush()
    held = data[16 * 1024 :]


serve(call)
