"""Answers notifications that it does not know, or ends at them: `minds_notifications.py [ends]`."""

import os
import sys

from raw import refuse, serve


def on(message):
    if "id" in message or not str(message.get("method")).startswith("notifications/"):
        return False
    if message["method"] == "notifications/initialized":
        return True
    if "ends" in sys.argv:
        os._exit(4)
    return refuse(message, -32601, "Unknown notification") or True


serve(on=on, modern=True)
