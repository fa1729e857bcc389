"""S18: a string id "7" comes back as the number 7."""

import raw

plain = raw.send


def send(message):
    if isinstance(message.get("id"), str) and message["id"].isdigit():
        message = {**message, "id": int(message["id"])}
    plain(message)


raw.send = send
raw.serve()
