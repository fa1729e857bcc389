"""Text without a newline before the reply to a request of one method, in the reply's own line; "tools/call" unless told."""

import sys

import raw

METHOD = sys.argv[1] if len(sys.argv) > 1 else "tools/call"


def on(message):
    if message.get("method") == METHOD and message.get("params", {}).get("name") in ("echo", None):
        raw.write(b"Listening on stdio...")


raw.serve(on=on)
