"""Modern era: answers every round with another input_required."""

from raw import serve

FORM = {
    "mode": "form",
    "message": "Again?",
    "requestedSchema": {"type": "object", "properties": {"go_on": {"type": "boolean"}}},
}


def call(name, arguments, message):
    return {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "elicitation/create", "params": FORM}},
        "requestState": "s",
    }


serve(call, modern=True)
