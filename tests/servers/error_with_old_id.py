"""S21: a broken line is answered with an error that carries the previous request's id."""

from raw import refuse, serve

last = {"id": None}


def on(message):
    if "id" in message:
        last["id"] = message["id"]


serve(on=on, bad=lambda line: refuse(last, -32700, "Parse error"))
