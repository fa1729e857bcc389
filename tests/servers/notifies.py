"""Tells its client of logs and progress: as it should, or in one wrong way.

    notifies.py [early_token | late | falls | no_number | no_data | level | always]

`always` sends logs though nobody has asked for them; the others do what they do where progress or logs are asked for,
`early_token` with a token of its own.
"""

import sys

from raw import ECHO, META, answer, messages, reply, send, text, tool

KIND = sys.argv[1] if len(sys.argv) > 1 else "good"
levels = {}


def notify(method, **params):
    send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})


def work(message):
    params = message["params"]
    meta = params.get("_meta", {})
    token = meta.get("progressToken")
    logs = meta.get(META + "logLevel") if META + "protocolVersion" in meta else levels.get("level")
    if KIND == "early_token":
        notify("progress", progressToken="mine", progress=1)
    if token is not None:
        first, second = (2, 1) if KIND == "falls" else (1, 2.5)
        notify("progress", progressToken=token, progress=first, total=3, message="begun")
        notify("progress", progressToken=token, **({} if KIND == "no_number" else {"progress": second}))
    if logs is not None or KIND == "always":
        level = "loud" if KIND == "level" else "info"
        notify("message", level=level, logger="work", **({} if KIND == "no_data" else {"data": {"step": 1}}))
    reply(message, {"resultType": "complete", **text("done")})
    if KIND == "late" and token is not None:
        notify("progress", progressToken=token, progress=3)


for message in messages():
    method = message.get("method")
    if method == "tools/call" and message["params"]["name"] == "work":
        work(message)
    elif method == "logging/setLevel":
        levels.update(message["params"])
        reply(message, {})
    else:
        capabilities = {"tools": {}} if KIND == "always" else {"tools": {}, "logging": {}}
        answer(message, tools=[ECHO, tool("work")], modern=True, capabilities=capabilities)
