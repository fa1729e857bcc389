"""JSON lines that are no JSON-RPC messages."""

from raw import echo, send, serve


def call(name, arguments, message):
    send({"level": "info", "msg": "structured log"})
    send(42)
    return echo(name, arguments, message)


serve(call)
