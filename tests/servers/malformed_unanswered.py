"""A request whose params or method have the wrong type, or whose arguments have, gets no answer; the server lives on.

`malformed_unanswered.py [WORD]`: `params`, `method` or `arguments` alone; `ends`: it ends; `deaf`: it answers nothing more;
`schema`: it passes over whatever is no request, as the SDKs do; `tool`: it says nothing where the tool is unknown.
"""

import os
import sys
import time

from raw import refuse, serve

HOW = "".join(sys.argv[1:])


def odd(message):
    if HOW == "ends":
        os._exit(3)
    if HOW == "deaf":
        time.sleep(600)
    method, params = message.get("method"), message.get("params", {})
    kind = "method" if not isinstance(method, str) else "arguments" if isinstance(params, dict) else "params"
    if HOW == "tool" or (HOW == "schema" and kind == "arguments") or (HOW in ("params", "method") and HOW != kind):
        refuse(message, -32600, "Invalid Request")


def on(message):
    unknown = message.get("method") == "tools/call" and message["params"]["name"] != "echo"
    return (HOW == "tool" and unknown) or (HOW == "schema" and message.get("jsonrpc") != "2.0")


serve(on=on, odd=odd)
