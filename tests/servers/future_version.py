"""C16: answers initialize with a protocol version that nobody knows."""

from raw import reply, serve


def on(message):
    if message.get("method") == "initialize":
        info = {"name": "fixture", "version": "1"}
        reply(message, {"protocolVersion": "2031-01-01", "capabilities": {"tools": {}}, "serverInfo": info})
        return True


serve(on=on)
