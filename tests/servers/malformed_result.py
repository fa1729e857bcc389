"""Results that have not the shape that tools/call demands; the argument `text` says which."""

from raw import reply, serve

SHAPES = {
    "null": None,
    "number": 5,
    "empty": {},
    "content": {"content": "text"},
    "block": {"content": [{"text": "no type"}]},
}


def call(name, arguments, message):
    reply(message, SHAPES[arguments["text"]])


serve(call)
