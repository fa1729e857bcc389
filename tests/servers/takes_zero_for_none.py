"""S18: takes the id 0 for no id: stays silent, or answers with null ("null"), or leaves the id out ("omit")."""

import sys

import raw

how = sys.argv[1] if len(sys.argv) > 1 else "silent"
plain = raw.send


def send(message):
    if message.get("id") == 0:
        message["id"] = None
        if how == "omit":
            del message["id"]
    plain(message)


raw.send = send
raw.serve(on=lambda message: how == "silent" and message.get("id") == 0)
