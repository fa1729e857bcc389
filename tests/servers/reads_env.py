"""Behaves as its environment says: MODE=read-only lists no tool that writes, ACCOUNT is whose notes there are."""

import json
import os
import pathlib

from raw import refuse, serve, text, tool

ACCOUNT, MODE = os.environ.get("ACCOUNT", "first"), os.environ.get("MODE", "")
FILE = pathlib.Path(os.environ["TMPDIR"]) / "notes.json"
TOOLS = [tool("whoami"), tool("notes")]
if MODE != "read-only":
    TOOLS.append(tool("write", note="string"))
if ACCOUNT == "second":
    TOOLS.append(tool("share"))


def call(name, arguments, message):
    if name not in [item["name"] for item in TOOLS]:
        return refuse(message, -32602, f"Unknown tool: {name}")
    kept = json.loads(FILE.read_text()) if FILE.exists() else []
    if name == "write":
        FILE.write_text(json.dumps([*kept, f"{ACCOUNT}: {arguments['note']}"]))
    return text({"whoami": f"{ACCOUNT} {MODE or 'read-write'}", "notes": "; ".join(kept)}.get(name, name))


serve(call, tools=TOOLS, modern=True)
