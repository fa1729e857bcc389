"""The one page of tools has an empty string for the next cursor."""

from raw import ECHO, reply, serve


def on(message):
    return message.get("method") == "tools/list" and (reply(message, {"tools": [ECHO], "nextCursor": ""}) or True)


serve(on=on)
