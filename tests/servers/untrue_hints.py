"""Fault: annotations that are missing in part, no booleans, or belied by the tool's name or by what a call of it does."""

from raw import serve, text, tool

READ = {"readOnlyHint": True}
SAFE = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
HINTS = {
    "notes": READ,
    "look_at": READ,
    "delete_all": READ,
    "half": {"readOnlyHint": False},
    "text_hint": {"readOnlyHint": "yes"},
    "remove_some": READ,
    "destroy_copy": SAFE,
    "get_deleted": READ,
    "both": {"readOnlyHint": True, "destructiveHint": True},
}
notes = ["one"]


def call(name, arguments, message):
    if name == "look_at":
        notes.append(arguments["text"])
    return text(", ".join(notes) if name == "notes" else "fine")


def made(name):
    out = tool(name, text="string") if name == "look_at" else tool(name)
    return {**out, "annotations": HINTS[name]}


if __name__ == "__main__":
    serve(call, tools=[made(name) for name in HINTS])
