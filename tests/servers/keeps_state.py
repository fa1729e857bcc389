"""Modern era: asks before it deletes, and gives the client a requestState to carry in between.

    keeps_state.py [reusable | plain | trusting | parsing | unread | ignored]

Without a word the state is sealed and good for one call, of a tool that says that it must not be repeated. `reusable`:
sealed, and good for ever. The others are of a tool that may be repeated. `trusting`: JSON in base64, believed, and said
again; `parsing`: JSON, read and not verified, of which nothing is said; `unread`: any state will do; `ignored`: none is
needed; `plain`: a fixed word, compared.
"""

import base64
import hashlib
import hmac
import json
import secrets
import sys

from raw import ECHO, refuse, serve, text, tool

KIND = sys.argv[1] if len(sys.argv) > 1 else "sealed"
KEY, used = secrets.token_bytes(16), set()
FORM = {
    "mode": "form",
    "message": "Delete it?",
    "requestedSchema": {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]},
}


def seal(data):
    body = base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")
    return f"{body}.{hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()}"


def opened(state):
    """What is in a state, None if it is to be refused."""
    if KIND in ("sealed", "reusable"):
        body, _, mark = state.partition(".")
        if not hmac.compare_digest(mark, hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()):
            return None
        if KIND == "sealed" and state in used:
            return None
        used.add(state)
        return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if KIND == "plain":
        return {"path": "a"} if state == "waiting for an answer" else None
    if KIND == "unread":
        return {"path": "a"}
    try:
        return json.loads(base64.b64decode(state) if KIND == "trusting" else state)
    except ValueError:
        return None


def call(name, arguments, message):
    if name == "echo":
        return text(arguments["text"])
    params = message["params"]
    state = params.get("requestState")
    if KIND == "ignored" and "inputResponses" in params:
        return text("deleted")
    if state is None:
        data = {"path": arguments["path"], "size": 3, "nonce": secrets.token_hex(4)}
        plain = json.dumps(data)
        state = {
            "plain": "waiting for an answer",
            "parsing": plain,
            "unread": "go on",
            "ignored": "nothing",
            "trusting": base64.b64encode(plain.encode()).decode(),
        }.get(KIND) or seal(data)
        asked = {"q": {"method": "elicitation/create", "params": FORM}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}
    data = opened(state)
    if data is None:
        return refuse(message, -32602, "Invalid requestState")
    if params["inputResponses"]["q"].get("content") != {"confirm": True}:
        return text("not deleted", isError=True)
    return text(f"deleted {data['path']}" if KIND == "trusting" else "deleted")


DELETE = tool("delete", path="string")
DELETE["annotations"]["idempotentHint"] = KIND not in ("sealed", "reusable")
serve(call, tools=[ECHO, DELETE], modern=True)
