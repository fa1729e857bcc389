"""Works for a long time and says so, where it is asked to: `progresses.py COUNT|for-ever|stands PAUSE_S`."""

import itertools
import sys
import time

from raw import send, serve, text, tool

HOW, PAUSE = sys.argv[1], float(sys.argv[2])


def call(name, arguments, message):
    token = message["params"].get("_meta", {}).get("progressToken")
    for number in itertools.count() if HOW in ("for-ever", "stands") else range(int(HOW)):
        if token is not None:
            progress = 1 if HOW == "stands" else number
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": progress}})  # fmt: skip
        time.sleep(PAUSE)
    return text("done")


serve(call, tools=[tool("work")], modern=True)
