"""A good server made with the official SDK, for proof that our frames are those of the specification.

`sdk_server.py` speaks over stdio, `sdk_server.py PORT [json] [stateless]` over HTTP.
"""

import sys
from typing import Annotated

from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel

app = MCPServer("sdk")


class Answer(BaseModel):
    confirm: bool


def question():
    return Elicit("Really?", Answer)


@app.tool()
def echo(text: str) -> str:
    return text


@app.tool()
async def ask(answer: Annotated[Answer, Resolve(question)]) -> str:
    return f"confirm={answer.confirm}"


@app.resource("mem://one")
def one() -> str:
    return "one"


@app.prompt()
def greet(who: str) -> str:
    return f"Hello {who}"


if len(sys.argv) > 1:
    how = {"json_response": "json" in sys.argv, "stateless_http": "stateless" in sys.argv}
    app.run("streamable-http", port=int(sys.argv[1]), **how)
else:
    app.run()
