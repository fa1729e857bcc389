"""S08: writes a check mark to a stdout that is ASCII, and dies of the encode error."""

import json
import sys

import raw

out = open(1, "w", encoding="ascii", newline="\n", closefd=False)


def send(message):
    out.write(json.dumps(message, ensure_ascii=False) + "\n")
    out.flush()


raw.send = send
raw.serve(lambda name, arguments, message: raw.text("✓ " + arguments["text"]))
