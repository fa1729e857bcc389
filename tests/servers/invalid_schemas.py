"""Fault: arguments that no JSON Schema describes: a tool without a schema, and one for every way of being none."""

from raw import ECHO, serve, tool

DEEP = {"type": "string"}
for _ in range(130):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
PROPERTIES = {
    "typo": {"type": "strng"},
    "draft_03": {"type": "string", "required": True},
    "draft_04": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
    "no_pattern": {"type": "string", "pattern": "^[a-z$"},
    "deep": DEEP,
}


def made(name):
    schema = {"type": "object", "properties": {name: PROPERTIES[name]}}
    return {**tool(name), "inputSchema": schema}


if __name__ == "__main__":
    bare = tool("bare")
    del bare["inputSchema"]
    serve(tools=[ECHO, bare, *map(made, PROPERTIES)])
