"""S14: the tool `die` ends the process with exit code 1 and nothing on stderr; `echo` is fine."""

import os

from raw import ECHO, echo, serve, tool


def call(name, arguments, message):
    if name == "die":
        os._exit(1)
    return echo(name, arguments, message)


serve(call, tools=[ECHO, tool("die")])
