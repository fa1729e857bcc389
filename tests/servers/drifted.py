"""Lists what the contract of its test has; or, if told, what drifted from it: one word for each way."""

import sys

import raw

HOW = sys.argv[1] if len(sys.argv) > 1 else "kept"
SEARCH = raw.tool("search", query="string")
SEARCH["inputSchema"]["properties"]["order"] = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
SEARCH["description"] = "Search the notes for words."
QUERY = SEARCH["inputSchema"]["properties"]
tools = [raw.tool("echo", text="string"), SEARCH]
match HOW:
    case "cosmetic":
        QUERY["order"] = {"type": ["null", "string"], "default": None}
        tools.reverse()
    case "breaking":
        SEARCH["inputSchema"]["required"] = ["order", "query"]
    case "unknown":
        QUERY["query"] = {"type": "string", "format": "uri"}
    case "additive":
        QUERY["limit"] = {"type": "integer"}
    case "routing":
        SEARCH["description"] = "Search the notes, and their titles, for words."
    case "renamed":
        SEARCH["name"] = "search_notes"
    case "gone":
        tools.remove(SEARCH)
    case "more":
        tools.append(raw.tool("count", text="string"))
    case "modern":
        pass


def on(message):
    """With "modern": one tool more in that era only."""
    if HOW == "modern" and message.get("method") == "server/discover":
        tools.append(raw.tool("count", text="string"))


raw.serve(raw.echo, on, tools=tools, modern=True)
