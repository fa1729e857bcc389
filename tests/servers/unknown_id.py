"""A reply to a request that nobody made comes before every real one."""

from raw import echo, send, serve, text


def call(name, arguments, message):
    send({"jsonrpc": "2.0", "id": 987654, "result": text("whose?")})
    return echo(name, arguments, message)


serve(call)
