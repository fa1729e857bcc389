"""A line in Latin-1 before the reply."""

from raw import echo, serve, write


def call(name, arguments, message):
    write("Gerät\n".encode("latin-1"))
    return echo(name, arguments, message)


serve(call)
