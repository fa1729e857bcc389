"""Fault: only a client that it knows by name may list its tools."""

from raw import META, refuse, serve


def on(message):
    client = message.get("params", {}).get("_meta", {}).get(META + "clientInfo", {})
    if message.get("method") == "tools/list" and client.get("name") != "mcp-rollcall":
        refuse(message, -32602, f"unknown client {client.get('name')}")
        return True


if __name__ == "__main__":
    serve(on=on, modern=True)
