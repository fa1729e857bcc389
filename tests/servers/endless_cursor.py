"""tools/list has a next page for ever: the same cursor again, or (argument `new`) always another one."""

import sys

from raw import ECHO, reply, serve

count = iter(range(10**9))


def on(message):
    if message.get("method") == "tools/list":
        cursor = f"page-{next(count)}" if "new" in sys.argv else "again"
        return reply(message, {"tools": [ECHO], "nextCursor": cursor}) or True


serve(on=on)
