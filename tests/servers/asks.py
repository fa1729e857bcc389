"""Asks the client for all that there is to ask for, in both eras: well, or in one wrong way.

asks.py             good: each tool asks for what the client has declared, and says what it got
asks.py broken      a tool for each way of asking wrongly
asks.py undeclared  asks whatever the client has declared
asks.py pushed      sends requests of its own in the modern era too
"""

import json
import sys

from raw import META, messages, refuse, send, serve, text, tool

KIND = sys.argv[1] if len(sys.argv) > 1 else "good"
CHOICE = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
FIELDS = {
    "name": {"type": "string", "title": "Name", "minLength": 2, "maxLength": 20},
    "mail": {"type": "string", "format": "email"},
    "count": {"type": "integer", "minimum": 3, "maximum": 9, "default": 4},
    "ratio": {"type": "number", "minimum": 0.5},
    "sure": {"type": "boolean", "default": False},
    "color": {"type": "string", "enum": ["red", "green"], "enumNames": ["Red", "Green"]},
    "size": {"type": "string", "oneOf": CHOICE, "default": "l"},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 2},
    "sizes": {"type": "array", "items": {"anyOf": CHOICE}, "default": ["s"]},
}
FORM = {"message": "Tell me all", "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["name", "mail", "ratio", "tags"]}}  # fmt: skip
URL = {"mode": "url", "message": "Log in there", "url": "https://example.org/login", "elicitationId": "e-1"}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital?"}}], "maxTokens": 5}
ASKED = {
    "form": ("elicitation/create", FORM),
    "url": ("elicitation/create", URL),
    "sample": ("sampling/createMessage", SAMPLE),
    "roots": ("roots/list", {}),
}


def form(**properties):
    return ("elicitation/create", {"message": "Sure?", "requestedSchema": {"type": "object", "properties": properties}})


CONFIRM = form(confirm={"type": "boolean"})
BROKEN = {
    "empty": form(),
    "nested": form(who={"type": "object", "properties": {"name": {"type": "string"}}}),
    "ref": (
        "elicitation/create",
        {
            "message": "Sure?",
            "requestedSchema": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"type": "string"}},
            },
        },
    ),  # fmt: skip
    "format": form(at={"type": "string", "format": "time"}),
    "default": form(count={"type": "integer", "default": "4"}),
    "list": form(names={"type": "array", "items": {"type": "string"}}),
    "secret": form(api_key={"type": "string"}),
    "no_message": ("elicitation/create", {"requestedSchema": CONFIRM[1]["requestedSchema"]}),
    "no_schema": ("elicitation/create", {"message": "Sure?"}),
    "mode": ("elicitation/create", {"mode": "voice", "message": "Sure?"}),
    "no_url": ("elicitation/create", {"mode": "url", "message": "Log in", "url": "there", "elicitationId": "1"}),
    "no_tokens": ("sampling/createMessage", {"messages": SAMPLE["messages"]}),
}
client = {}


def ask(wanted, message):
    """The client's answer to a request, or None where it has to come in another round."""
    method, params = wanted
    if META + "protocolVersion" not in message["params"].get("_meta", {}) or KIND == "pushed":
        send({"jsonrpc": "2.0", "id": "ask-1", "method": method, "params": params})
        back = next(item for item in messages() if item.get("id") == "ask-1" and "method" not in item)
        return back.get("result", back.get("error"))
    return message["params"].get("inputResponses", {}).get("q")


def can(wanted, have):
    capability, mode = wanted[0].partition("/")[0], wanted[1].get("mode", "form")
    return capability in have and (capability != "elicitation" or mode in (have[capability] or {"form": {}}))


def call(name, arguments, message):
    if name == "echo":
        return text(arguments["text"])
    if name == "no_reason":
        return {"resultType": "input_required"}
    wanted = BROKEN[name] if name in BROKEN else ASKED.get(name, CONFIRM)
    have = message["params"].get("_meta", {}).get(META + "clientCapabilities", client)
    if KIND in ("good", "pushed") and not can(wanted, have):
        return text(f"cannot ask this client for {name}", isError=True)
    given = ask(wanted, message)
    if given is None:
        return {"resultType": "input_required", "inputRequests": {"q": {"method": wanted[0], "params": wanted[1]}}}
    return text(json.dumps(given, sort_keys=True))


def on(message):
    if message.get("method") == "initialize":
        client.update(message["params"].get("capabilities", {}))
    if message.get("method") == "tools/call" and message["params"]["name"] not in NAMES:
        return refuse(message, -32602, "Unknown tool") or True


NAMES = ["echo", *({"broken": BROKEN, "mute": ["no_reason"]}.get(KIND, (*ASKED, "confirm")))]
serve(call, on, tools=[tool(name, **({"text": "string"} if name == "echo" else {})) for name in NAMES], modern=True)
