"""The tool `count` counts its calls; `token` gives a value to capture."""

from raw import ECHO, echo, serve, text, tool

count = iter(range(1, 10**9))


def call(name, arguments, message):
    if name == "count":
        return text(str(next(count)))
    return (
        text("your key is k-42.", structuredContent={"key": "k-42", "n": 7})
        if name == "token"
        else echo(name, arguments, message)
    )


serve(call, tools=[ECHO, tool("count"), tool("token", gives={"type": "object"})])
