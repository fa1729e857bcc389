"""Every tools/call is answered twice."""

from raw import echo, reply, serve


def call(name, arguments, message):
    reply(message, echo(name, arguments, message))
    return echo(name, arguments, message)


serve(call)
