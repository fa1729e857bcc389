"""Which headers may be sent with every request to a server over HTTP."""

from __future__ import annotations

import re

__all__ = ["header_problem"]

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")
_TRANSPORT = frozenset(  # what the transport says itself, each time anew
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)


def header_problem(name: str, value: str) -> str:
    """Why a header cannot be sent, "" if it can; never with a part of its value, which may be a secret."""
    if not _NAME.match(name):
        return "it is no name of a header"
    if name.lower() in _TRANSPORT or name.lower().startswith("mcp-"):
        return "the transport sets it itself"
    if not _VALUE.match(value):
        return "its value is empty, or holds what no header can carry; printable ASCII alone, without blanks around it"
    return ""
