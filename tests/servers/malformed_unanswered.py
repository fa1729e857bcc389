"""S19: a request whose params or method have the wrong type gets no answer; the server lives on."""

from raw import serve


def on(message):
    return not (
        isinstance(message.get("method"), str)
        and isinstance(message.get("params", {}), dict)
        and isinstance(message.get("params", {}).get("arguments", {}), dict)
    )


serve(on=on)
