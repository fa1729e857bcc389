"""Lists what the contract of its test has; or, if told, what drifted from it: one word for each way."""

import sys

import raw

HOW = sys.argv[1] if len(sys.argv) > 1 else "kept"
STRING = {"type": "string", "maxLength": 100}


def takes(name, description, required, **properties):
    """All that a tool says of itself, whatever else the good ones say."""
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    gives = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "outputSchema": gives,
        "annotations": hints,
    }


ORDER = {"anyOf": [STRING, {"type": "null"}], "default": None}
ECHO = takes("echo", "Give the text back.", ["text"], text=STRING)
SEARCH = takes("search", "Search the notes for words.", ["query"], query=STRING, order=ORDER)
COUNT = takes("count", "Count the notes that there are.", [])
QUERY = SEARCH["inputSchema"]["properties"]
tools = [ECHO, SEARCH]
match HOW:
    case "cosmetic":
        QUERY["order"] = {"type": ["null", "string"], "maxLength": 100, "default": None}
        tools.reverse()
    case "breaking":
        SEARCH["inputSchema"]["required"] = ["order", "query"]
    case "unknown":
        QUERY["query"] = {**STRING, "format": "uri"}
    case "additive":
        QUERY["limit"] = {"type": "integer"}
    case "routing":
        SEARCH["description"] = "Search the notes, and their titles, for words."
    case "renamed":
        SEARCH["name"] = "search_notes"
    case "gone":
        tools.remove(SEARCH)
    case "more":
        tools.append(COUNT)


def on(message):
    """With "modern": one tool more in that era only."""
    if HOW == "modern" and message.get("method") == "server/discover":
        tools.append(COUNT)


if __name__ == "__main__":
    raw.serve(raw.echo, on, tools=tools, modern=True)
