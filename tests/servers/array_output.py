"""Fault: an output schema whose root is an array; in the handshake era that costs a client all tools."""

from raw import ECHO, serve, text, tool

LIST = tool("list")
LIST["outputSchema"] = {"type": "array", "items": {"type": "string"}}


def call(name, arguments, message):
    if name == "list":
        return text('["a"]', structuredContent=["a"])
    return text(arguments["text"])


if __name__ == "__main__":
    serve(call, tools=[ECHO, LIST])
