"""The tool `late` is answered, though cancelled, together with the next request's answer."""

from raw import ECHO, echo, reply, serve, text, tool

owed = []


def call(name, arguments, message):
    if name == "late":
        return owed.append(message)
    while owed:
        reply(owed.pop(), text("late"))
    return echo(name, arguments, message)


serve(call, tools=[ECHO, tool("late")])
