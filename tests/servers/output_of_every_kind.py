"""Fault: output schemas and structured content, a tool for every way of being wrong, and one for what only looks so."""

from raw import serve, text, tool

ITEM = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}}
ITEMS = {"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}, "required": ["items"]}
OPEN = {"type": "object"}
VALUE = {"b": 1, "a": [1.0, "x"]}
WRONG = [{"id": "7", "at": "2026-12-01T00:00:00Z"}, {"id": "8", "at": "2026-12-01T00:00:00Z"}]

# tool -> its output schema, a result
TOOLS = {
    "undeclared": (..., text("fine")),
    "no_type": ({"anyOf": [OPEN]}, text("fine")),
    "null": (None, text("fine")),
    "broken": ({"type": "object", "required": "items"}, text("fine")),
    "wrong": (ITEMS, text("fine", structuredContent={"items": WRONG, "more": True})),
    "odd_texts": (ITEMS, text("fine", structuredContent={"items": [{"id": 1, "at": "2026-12-01 10:00"}]})),
    "list_content": (OPEN, text("fine", structuredContent=[1])),
    "bare": (OPEN, {"content": [{"type": "text", "text": "fine"}]}),
    "contradicts": (OPEN, text('{"a": 1, "b": 2}', structuredContent={"a": 1, "b": 3})),
    "pretty": (OPEN, text('{\n  "a": [\n    1,\n    "x"\n  ],\n  "b": 1.0\n}', structuredContent=VALUE)),
    "wrapped": (OPEN, text("[1, 2]", structuredContent={"result": [1, 2]})),
    "blocks": (
        OPEN,
        {
            "content": [{"type": "text", "text": '{"a": 1}'}, {"type": "text", "text": '{"a": 2}'}],
            "structuredContent": {"result": [{"a": 1}, {"a": 2}]},
        },
    ),
    "prose": (OPEN, text("3 items, and {not json}", structuredContent=VALUE)),
    "less": (OPEN, text('{"b": 1}', structuredContent=VALUE)),
    "error": (ITEMS, {"content": [{"type": "text", "text": "it is late"}]}),
}


def declared(name, schema):
    made = tool(name, gives=schema)
    if schema is ...:
        del made["outputSchema"]
    elif schema is None:
        made["outputSchema"] = None
    return made


if __name__ == "__main__":
    TOOLS["error"][1]["isError"] = True
    serve(
        lambda name, arguments, message: TOOLS[name][1],
        tools=[declared(name, schema) for name, (schema, _) in TOOLS.items()],
    )
