"""The tool `names` gives the names of the environment's variables, `value` the value of one, `cwd` the folder."""

import os

from raw import serve, text, tool


def call(name, arguments, message):
    if name == "names":
        return text("\n".join(sorted(os.environ)))
    return text(os.environ.get(arguments["text"], "") if name == "value" else os.getcwd())


serve(call, tools=[tool("names"), tool("value", text="string"), tool("cwd")])
