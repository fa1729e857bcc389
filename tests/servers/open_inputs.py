"""Fault: input schemas that leave things open: bounds, names, values, defaults, descriptions, page limits."""

from raw import serve, text, tool

TEXT = {"type": "string", "description": "A text.", "maxLength": 100}
LOOSE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "number": {"type": "integer", "minimum": 1, "description": "How many."},
        "tags": {"type": "array", "items": TEXT, "description": "Tags."},
        "order": {"type": "string", "maxLength": 4, "description": "Order, one of 'asc' or 'desc'."},
        "inner": {"type": "object", "properties": {"text": TEXT}, "required": ["text"], "description": "More."},
    },
    "required": ["name", "number", "tags", "order"],
}
FINE = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time", "description": "When: 'now' is not taken."},
        "order": {"enum": ["asc", "desc"], "type": "string", "description": "One of 'asc' or 'desc'."},
        "limit": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}], "description": "Most."},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 10},
            "description": "Labels, by name.",
            "default": {},
        },
    },
    "required": ["when", "order"],
    "additionalProperties": False,
}


def made(name, schema=None, **types):
    out = tool(name, **types)
    return out if schema is None else {**out, "inputSchema": schema}


UNDESCRIBED = made("undescribed")
UNDESCRIBED["description"] = " "
SOME = made("search_some", limit="integer")
TOOLS = [UNDESCRIBED, made("loose", LOOSE), made("fine", FINE), made("list_all"), SOME]
SOME["inputSchema"]["properties"]["limit"]["minimum"] = 1

if __name__ == "__main__":
    serve(lambda name, arguments, message: text("fine"), tools=TOOLS)
