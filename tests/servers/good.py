"""The good server: both eras, tools, an elicitation, a confirm token, resources and prompts; ends when stdin closes."""

import secrets
import time

from raw import META, messages, refuse, reply, send, serve, text, tool

SCHEMA = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
FORM = {"mode": "form", "message": "Really?", "requestedSchema": SCHEMA}
TOOLS = [
    tool("add", a="number", b="number"),
    tool("ask"),
    tool("echo", text="string"),
    tool("fail"),
    tool("guarded", key="string"),
    tool("slow", seconds="number"),
]
TOOLS[4]["inputSchema"]["properties"]["confirm_token"] = {
    "type": "string",
    "description": "What the first answer gave.",
    "maxLength": 32,
    "default": "",
}
TOOLS[0]["outputSchema"] = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
TOOLS[1]["annotations"] = {"readOnlyHint": True}
tokens, client = {}, {}


def call(name, arguments, message):
    if name == "echo":
        return text(arguments["text"])
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return text(str(total), structuredContent={"sum": total})
    if name == "fail":
        return text("it failed on purpose", isError=True)
    if name == "slow":
        time.sleep(arguments["seconds"])
        return text("at last")
    if name == "guarded":
        key, token = arguments["key"], arguments.get("confirm_token")
        if token is not None and tokens.pop(token, None) == key:
            return text(f"deleted {key}")
        token = secrets.token_hex(16)
        tokens[token] = key
        return text(f'Call again with the same arguments and confirm_token="{token}"', isError=True)
    if name == "ask":
        return ask(message)
    refuse(message, -32602, f"Unknown tool: {name}")


def ask(message):
    params = message["params"]
    meta = params.get("_meta", {})
    modern = META + "protocolVersion" in meta
    if "elicitation" not in (meta.get(META + "clientCapabilities", {}) if modern else client):
        return text("cannot ask this client", isError=True)
    if not modern:
        send({"jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create", "params": FORM})
        return text(said(next(item for item in messages() if item.get("id") == "ask-1")["result"]))
    if params.get("requestState") == "state-1":
        return text(said(params["inputResponses"]["q"]))
    asked = {"q": {"method": "elicitation/create", "params": FORM}}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "state-1"}


def said(reply_):
    return f"{reply_['action']} {reply_.get('content')}"


def on(message):
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        client.update(params.get("capabilities", {}))
    if method == "prompts/get" and params["name"] == "greet":
        block = {"type": "text", "text": f"Hello {params.get('arguments', {}).get('who')}"}
        return reply(message, {"resultType": "complete", "messages": [{"role": "user", "content": block}]}) or True
    if method == "resources/read" and params["uri"] == "mem://one":
        return (
            reply(
                message,
                {
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "contents": [{"uri": "mem://one", "text": "one"}],
                },
            )
            or True
        )


LISTS = {
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]},
    "resources/list": {"resources": [{"name": "one", "uri": "mem://one"}]},
    "resources/templates/list": {"resourceTemplates": [{"name": "any", "uriTemplate": "mem://{key}"}]},
}
if __name__ == "__main__":
    serve(call, on, tools=TOOLS, modern=True, capabilities={"tools": {}, "prompts": {}, "resources": {}}, lists=LISTS)
