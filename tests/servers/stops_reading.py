"""After its answer to the first tools/call it never reads stdin again."""

import time

from raw import answer, serve


def on(message):
    if message.get("method") == "tools/call":
        answer(message)
        time.sleep(300)


serve(on=on)
