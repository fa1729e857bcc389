"""A server of fifty tools, each with three parameters, that all answer at once."""

import json
import sys

TOOLS = [
    {
        "name": f"tool_{number:02}",
        "description": f"Does the thing of number {number} to an object, and says what came of it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "Which object."},
                "count": {"type": "integer", "description": "How often."},
                "mode": {"type": "string", "enum": ["fast", "safe"], "description": "In which way."},
            },
            "required": ["key"],
        },
        "outputSchema": {"type": "object", "properties": {"done": {"type": "string"}}, "required": ["done"]},
    }
    for number in range(50)
]

NAMES = {tool["name"] for tool in TOOLS}


def is_right(message: dict) -> bool:
    """Whether a request is one that is answered with a result."""
    params = message.get("params", {})
    if not isinstance(params, dict):
        return False
    if message["method"] != "tools/call":
        return isinstance(message["method"], str)
    return params.get("name") in NAMES and isinstance(params.get("arguments"), dict)


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    if not is_right(message):
        error = {"code": -32602, "message": "Invalid params"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    match message["method"]:
        case "initialize":
            result: object = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "many", "version": "1"},
            }
        case "tools/list":
            result = {"tools": TOOLS}
        case "tools/call":
            done = {"done": f"{message['params']['name']} of {message['params']['arguments'].get('key')}"}
            result = {"content": [{"type": "text", "text": json.dumps(done)}], "structuredContent": done}
        case _:
            result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
