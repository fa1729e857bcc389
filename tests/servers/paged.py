"""54 tools in pages of 50."""

from raw import reply, serve, text, tool

TOOLS = [tool(f"tool_{number:02}") for number in range(54)]


def on(message):
    if message.get("method") == "tools/list":
        start = int((message.get("params") or {}).get("cursor", 0))
        more = {"nextCursor": str(start + 50)} if start + 50 < len(TOOLS) else {}
        return reply(message, {"tools": TOOLS[start : start + 50], **more}) or True


serve(lambda name, arguments, message: text(""), on=on)
