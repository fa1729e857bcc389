"""Answers calls of tools that it has not: with isError, or, if told, with a "success" or a JSON-RPC "error"."""

import sys

import raw

HOW = sys.argv[1] if len(sys.argv) > 1 else "is-error"


def call(name, arguments, message):
    if name == "echo":
        return raw.echo(name, arguments, message)
    if HOW == "error":
        return raw.refuse(message, -32602, f"Unknown tool: {name}")
    return raw.text(f"Unknown tool: {name}", isError=HOW == "is-error")


raw.serve(call)
