"""Fault: an x-mcp-header on a number, which the modern era forbids; its clients must leave such a tool out."""

from raw import ECHO, serve, text, tool

SCALE = tool("scale", factor="number")
SCALE["inputSchema"]["properties"]["factor"]["x-mcp-header"] = "Factor"


def call(name, arguments, message):
    return text(arguments["text"] if name == "echo" else str(2 * arguments["factor"]))


if __name__ == "__main__":
    serve(call, tools=[ECHO, SCALE], modern=True)
