"""What became of one HTTP exchange: the one place that says by which check a request over HTTP has no answer."""

from __future__ import annotations

import re

from harness.findings.frames import Dialogue, Exchange, Turn
from harness.findings.seen import quote_bytes
from harness.model.outcome import cut

__all__ = ["MODERN_VERSION", "REDIRECTS", "described", "fault_of", "is_json", "is_modern", "own_words"]

MODERN_VERSION = "2026-07-28"
REDIRECTS = (301, 302, 303, 307, 308)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_OWN = re.compile(r"\b(127\.0\.0\.1|localhost):\d+")
_QUOTED_BYTES = 200


def is_json(kind: str) -> bool:
    """Whether a media type is JSON."""
    return kind == "application/json" or kind.endswith("+json")


def is_modern(turn: Turn) -> bool:
    """Whether a request was one of the modern era."""
    return turn.sent_header("mcp-protocol-version") == [MODERN_VERSION]


def own_words(text: str) -> str:
    """A text without the port of this run, which is another each time."""
    return _OWN.sub(r"\1:${port}", text)


def fault_of(dialogue: Dialogue, exchange: Exchange) -> str:
    """The check that explains why a request over HTTP has no answer, "" where its exchange does not."""
    turn = dialogue.turn_of(exchange)
    if turn is None or turn.ended is None or exchange.reply is not None:
        return ""
    if turn.ended.how == "closed" or (exchange.cancelled and turn.ended.n > (exchange.given_up or 0)):
        return ""  # we wait for nothing there, and have said so
    if turn.response is None or turn.ended.how == "broken":
        return "" if dialogue.ended_itself else "http/broken"
    status = turn.status
    if status in REDIRECTS:
        return "http/redirect"
    if any(item.what == "session-lost" and item.n > turn.response.n for item in dialogue.diagnostics) and status == 404:
        return "http/session-lost"
    if status != 200:
        return "http/status"
    if any(odd.check == "wire/unknown-id" and odd.line in turn.lines for odd in dialogue.oddities):
        return "wire/unknown-id"
    problem = next((line.problem for line in turn.lines if line.problem), "")
    if problem:
        return problem
    if not turn.is_stream and not is_json(turn.kind):
        return "http/content-type"
    if turn.is_stream and dialogue.ended_itself and not dialogue.left_open:
        return ""
    return "http/no-answer"


def described(turn: Turn) -> str:
    """What came in a response, in words."""
    if turn.response is None:
        return f"no HTTP response ({own_words(turn.ended.detail)})" if turn.ended is not None else "no HTTP response"
    named, body = turn.kind or "no content type", turn.body
    said = f"HTTP {turn.status}"
    if turn.kind == "text/html" or body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        title = _TITLE.search(body[:4096])
        return f"{said} with an HTML page" + (
            f" ({cut(title[1].decode('utf-8', 'replace').strip(), 80)})" if title else ""
        )
    if turn.is_stream:
        return f"an event stream (HTTP {turn.status})"
    shown = own_words(quote_bytes(body, _QUOTED_BYTES)) if body.strip() else ""
    return f"{said}, {named}: {shown}" if shown else f"{said}, {'empty' if not turn.lines else named}"
