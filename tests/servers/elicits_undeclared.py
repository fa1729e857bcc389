"""Asks the client through elicitation, sampling and roots, whatever the client has declared."""

from raw import messages, send, serve, text

FORM = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {"confirm": {"type": "boolean"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


def call(name, arguments, message):
    said = []
    for number, (method, params) in enumerate(
        [("elicitation/create", FORM), ("sampling/createMessage", SAMPLE), ("roots/list", {}), ("ping", {})]
    ):
        send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        back = next(item for item in messages() if item.get("id") == number and "method" not in item)
        said.append(f"{method}: {back['error']['code'] if 'error' in back else back['result']}")
    return text("\n".join(said))


serve(call)
