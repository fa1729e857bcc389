"""The tool `hang` never gets an answer; everything else does."""

from raw import ECHO, echo, serve, tool


def call(name, arguments, message):
    return None if name == "hang" else echo(name, arguments, message)


serve(call, tools=[ECHO, tool("hang")])
