"""Takes its time over `slow`, and hears of cancellations: it says nothing more of it, or as its argument says.

cancels.py [answers | dies | deaf | twice]
"""

import os
import sys
import threading

from raw import ECHO, answer, messages, reply, text, tool

kind = sys.argv[1] if len(sys.argv) > 1 else "silent"
slow = []
deaf = threading.Event()
for message in messages():
    if deaf.is_set():
        continue
    method, params = message.get("method"), message.get("params") or {}
    if method == "tools/call" and params["name"] == "slow":
        slow.append(message)
    elif method == "notifications/cancelled":
        known = [item for item in slow if item["id"] == params["requestId"]]
        if kind in ("answers", "twice") and known:
            for _ in range(2 if kind == "twice" else 1):
                reply(known[0], {"resultType": "complete", **text("cancelled", isError=True)})
        if kind == "dies" and known:
            os._exit(3)
        if kind == "deaf" and known:
            deaf.set()
    elif method is not None:
        answer(message, tools=[ECHO, tool("slow")], modern=True)
