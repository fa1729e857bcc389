"""The HTTP layer of a server over Streamable HTTP: statuses, content types, streams, sessions, and who is let in.

Each rule is of the era of the run. What the server was sent only to see what it does (the probes) is judged here too,
from the probe's own transcript. An answer that never came is one finding, of the check that `fault_of` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from harness.findings.frames import Dialogue, Exchange, Line, Turn
from harness.findings.seen import Seen, quote_bytes
from harness.findings.steps import RunView
from harness.findings.turns import REDIRECTS, described, fault_of, is_json, is_modern, own_words
from harness.model.finding import Severity

__all__ = ["see_http", "was_asked"]

BUFFERED_S = 2.0  # what came together so long after its request cannot all have been said at the end
BUFFERED_NOTES = 2  # so many notifications before the result
_SESSION_ID = re.compile(r"[\x21-\x7e]+")
_START = ("initialize", "server/discover")
_BY_CODE = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}  # what the modern era demands besides the error
_ANYWHERE = ("0.0.0.0", "[::]")
_WORDS = {
    "origin": ("http/foreign-origin", "with the Origin of another site, http://evil.example"),
    "host": ("http/foreign-host", "for another Host, evil.example"),
    "version": ("http/version-header", "with MCP-Protocol-Version: 1999-01-01"),
}


def see_http(view: RunView) -> Iterator[Seen]:
    """Everything that the HTTP layer of one run shows."""
    for index, dialogue in enumerate(view.dialogues):
        if dialogue.is_http and dialogue.transcript.driver != "proxy":  # there somebody else's client made the requests
            yield from _Look(view, index, dialogue).all()
    for index, dialogue in enumerate(view.probes, len(view.dialogues)):
        if dialogue.is_http:
            yield from _Look(view, index, dialogue).probes()


def was_asked(view: RunView, check: str) -> bool:
    """Whether a run can show what a check is about: some need an answer to what only a probe sends."""
    words = {word for word, (item, _) in _WORDS.items() if item == check}
    turns = (turn for dialogue in view.probes for turn in dialogue.turns if turn.request.probe in words)
    return not words or any(turn.response is not None for turn in turns)


class _Look:
    """One process and what it did over HTTP."""

    def __init__(self, view: RunView, index: int, dialogue: Dialogue) -> None:
        self.view, self.index, self.dialogue = view, index, dialogue

    def all(self) -> Iterator[Seen]:
        """What the session itself shows."""
        lost = {id(exchange): fault_of(self.dialogue, exchange) for exchange in self.dialogue.exchanges}
        for turn in self.dialogue.turns:
            if turn.request.probe is not None:
                yield from self._probe(turn)
                continue
            yield from self._redirect(turn)
            match turn.request.method:
                case "GET" if turn.request.resumes is None:
                    yield from self._get(turn)
                case "POST" if turn.exchange is not None:
                    yield from self._request(turn, turn.exchange, lost[id(turn.exchange)])
                case "POST":
                    yield from self._notification(turn)
                case _:
                    pass
            yield from self._streams(turn)
            yield from self._buffered(turn)
        yield from self._session_ids()
        yield from self._bound()

    def probes(self) -> Iterator[Seen]:
        """What it did with what it was sent only for that."""
        for turn in self.dialogue.turns:
            if turn.request.probe is not None:
                yield from self._probe(turn)

    # --- requests -------------------------------------------------------------------------------------

    def _request(self, turn: Turn, exchange: Exchange, fault: str) -> Iterator[Seen]:
        if exchange.method in _START and self.view.record.outcome == "not-spoken":
            return
        label, status = exchange.sent.label, turn.status
        if status in (401, 403, 407) and exchange.method in _START:
            yield from self._challenge(turn)  # that nothing can be judged then is the run's own error
            return
        if fault == "http/status" and exchange.method in _START and self.view.record.outcome == "failed":
            return  # the run's own error says it
        if fault in ("http/status", "http/content-type", "http/no-answer", "http/broken"):
            yield self._said(fault, turn, f"{label} was answered with {self._lack(turn, fault)}", key=self._key(turn))
            return
        if fault == "http/session-lost":
            message = f"the server answered {label} with HTTP 404, which says that it no longer knows the session"
            yield self._said(fault, turn, f"{message}; another was begun", key=label)
            return
        if fault or turn.response is None or not turn.lines:
            return
        reply = next((line for line in turn.lines if exchange.reply is not None and exchange.reply.line is line), None)
        if reply is None:
            return
        if not turn.is_stream and not is_json(turn.kind):
            named = turn.kind or "no content type"
            said = f"{label} was answered with the content type {named}, not application/json or text/event-stream"
            yield self._said("http/content-type", turn, said, key=turn.kind)
        yield from self._status_of(turn, exchange, label, status)

    def _status_of(self, turn: Turn, exchange: Exchange, label: str, status: int) -> Iterator[Seen]:
        message = exchange.reply.message if exchange.reply is not None else {}
        if "result" in message:
            if status != 200:
                said = f"{label} was answered with a result and HTTP {status}; a result comes with 200"
                yield self._said("http/status", turn, said, key=("result", status))
            return
        error = message.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        due = _BY_CODE.get(code) if isinstance(code, int) and is_modern(turn) else None
        if due is not None and status != due:
            said = f"{label} was answered with the error {code} and HTTP {status}; this era demands {due} with it"
            yield self._said("http/status", turn, said, key=(code, status))

    def _challenge(self, turn: Turn) -> Iterator[Seen]:
        """Who is not let in has to be told what to bring."""
        asked = turn.header("www-authenticate")
        if turn.status != 401 or any("resource_metadata" in value for value in asked):
            return
        what = "whose WWW-Authenticate names no resource_metadata" if asked else "without WWW-Authenticate"
        label = "a POST without the headers of harness.toml" if turn.request.probe is not None else turn.label
        said = f"{label} was answered with HTTP 401 {what}: no client can find out what to bring"
        yield self._said("http/challenge", turn, said, key=bool(asked))

    def _lack(self, turn: Turn, fault: str) -> str:
        if fault == "http/broken":
            detail = own_words(turn.ended.detail) if turn.ended is not None else ""
            if turn.response is None:
                return f"no HTTP response: {detail}"
            return f"{described(turn)} that broke off: {detail}"
        if fault == "http/no-answer":
            if turn.is_stream and turn.body:
                return f"an event stream that ended in the middle of an event: {quote_bytes(turn.body, 60, tail=60)}"
            many = len(turn.lines)
            after = f", after {many} {'message' if many == 1 else 'messages'}" if many else ""
            return f"{described(turn)} that ended without the answer{after}"
        return described(turn)

    def _key(self, turn: Turn) -> tuple[object, ...]:
        method = turn.exchange.method if turn.exchange is not None else ""
        return (method, turn.exchange.name if turn.exchange is not None else "", turn.status, turn.kind)

    def _notification(self, turn: Turn) -> Iterator[Seen]:
        """Notifications, and answers of ours, are taken with 202 and nothing else."""
        if turn.response is None or turn.ended is None or turn.ended.how != "complete" or turn.status in REDIRECTS:
            return
        what = turn.label or "a notification"
        if turn.status == 202 and not turn.body.strip() and not turn.lines:
            return
        if turn.status == 404 and turn.sent_header("mcp-session-id"):
            return  # the session is lost, which is told where a request meets it
        body = "" if not turn.body.strip() else f" and the body {quote_bytes(turn.body, 80)}"
        said = f"{what} was answered with HTTP {turn.status}{body}; it is to be taken with 202 and an empty body"
        if turn.status == 202:
            said = f"{what} was answered with HTTP 202{body}; there is to be none"
        yield self._said("http/notification", turn, said, key=(turn.status, bool(body)))

    def _redirect(self, turn: Turn) -> Iterator[Seen]:
        place = turn.header("location")
        if turn.status not in REDIRECTS or not place:
            return
        here, there = urlsplit(turn.request.url), urlsplit(urljoin(turn.request.url, place[0]))
        moved = [
            name
            for name, before, after in (
                ("scheme", here.scheme, there.scheme),
                ("host", here.hostname, there.hostname),
                ("port", here.port, there.port),
            )
            if before != after
        ]
        to = f"another {' and '.join(moved)}" if moved else "another path of the same server"
        said = f"{turn.request.method} {here.path} was answered with HTTP {turn.status} to {own_words(place[0])}, {to}"
        yield self._said("http/redirect", turn, f"{said}; clients drop credentials, or the body, on such a way", key=to)

    def _get(self, turn: Turn) -> Iterator[Seen]:
        """A GET opens a stream, or there is none, which 405 says."""
        if turn.response is None or turn.status in REDIRECTS:
            return
        modern = self.view.run.key.era == "modern"
        alone = modern and self._speaks_one_era
        if turn.status == 405 or (turn.is_stream and not alone):
            return
        if modern and not alone:
            return  # the other era's GET needs a session, which this one has not
        wanted = "405 alone is right" if alone else "an event stream or 405 is right"
        yield self._said("http/get", turn, f"GET was answered with {described(turn)}; {wanted}", key=turn.status)

    @property
    def _speaks_one_era(self) -> bool:
        """Whether a server of the modern era was seen to refuse the beginning of the other."""
        asked = [
            turn for turn in self.dialogue.turns if turn.request.probe == "other-era" and turn.response is not None
        ]
        said = b"".join(turn.body + b"".join(event.body.data for event in turn.events) for turn in asked)
        return bool(asked) and b'"protocolVersion"' not in said

    # --- streams --------------------------------------------------------------------------------------

    def _streams(self, turn: Turn) -> Iterator[Seen]:
        """An answer belongs to the stream of its request."""
        for line in turn.lines:
            for message in line.messages:
                exchange = self._answered_by(line, message)
                if exchange is None or exchange is turn.exchange or self._carried(turn) is exchange:
                    continue
                on = "the listening stream" if turn.request.method == "GET" else f"the stream of {turn.label}"
                yield self._said(
                    "http/wrong-stream",
                    turn,
                    f"the answer to {exchange.sent.label} came on {on}",
                    key=(exchange.method, on),
                    tool=exchange.name or None if exchange.method == "tools/call" else None,
                    line=line,
                )

    def _answered_by(self, line: Line, message: Mapping[str, Any]) -> Exchange | None:
        if "method" in message:
            return None
        found = (item for item in self.dialogue.exchanges if item.reply is not None and item.reply.line is line)
        return next((item for item in found if item.reply is not None and item.reply.message is message), None)

    def _carried(self, turn: Turn) -> Exchange | None:
        """The request whose stream goes on here."""
        resumed = turn.request.resumes
        origin = next((item for item in self.dialogue.turns if item.request.exchange == resumed), None)
        return None if origin is None else origin.exchange

    def _buffered(self, turn: Turn) -> Iterator[Seen]:
        """Notifications and the result in one piece, so long after the request that some of it was held back."""
        exchange = turn.exchange
        if exchange is None or exchange.reply is None or not turn.is_stream or exchange.method != "tools/call":
            return
        notes = [line for line in turn.lines if any("method" in item and "id" not in item for item in line.messages)]
        result = exchange.reply.line
        before = [line for line in notes if line.event.n < result.event.n]
        if len(before) < BUFFERED_NOTES or result not in turn.lines:
            return
        first, last = before[0].event, result.event
        first_chunk = _chunk_at(turn, first.at)
        late = first.t - turn.request.t
        if first_chunk is None or first_chunk is not _chunk_at(turn, last.at) or late < BUFFERED_S:
            return
        said = (
            f"{len(before)} notifications and the result of {exchange.sent.label} came in one piece of "
            f"{first_chunk.size} bytes, over {BUFFERED_S:g} s after the request: the stream is buffered, or what was "
            "said on the way was said at the end"
        )
        yield self._said("http/buffered", turn, said, key=exchange.name, tool=exchange.name)

    # --- sessions and sockets -------------------------------------------------------------------------

    def _session_ids(self) -> Iterator[Seen]:
        for turn in self.dialogue.turns:
            if turn.exchange is None or turn.exchange.method != "initialize":
                continue
            for value in turn.header("mcp-session-id"):
                if not _SESSION_ID.fullmatch(value):
                    said = f"the Mcp-Session-Id {value[:80]!r} holds what is no visible ASCII character"
                    yield self._said("http/session-id", turn, said if value else "the Mcp-Session-Id is empty")

    def _bound(self) -> Iterator[Seen]:
        found = {item.detail.rpartition(":")[0]: item for item in self.dialogue.diagnostics if item.what == "listening"}
        for address, item in found.items():
            if address not in _ANYWHERE:
                continue
            asked = any(turn.status == 401 for turn in self.dialogue.turns)
            said = f"the server listens on {address}, every network of the machine" + (
                "; it asks for authorization" if asked else ", and asks nobody for authorization"
            )
            yield Seen(
                check="http/bind-all",
                run=self.view.run.key,
                order=(self.index, item.n),
                key=address,
                message=said,
                severity="warning" if asked else "error",
                evidence={"address": f"{address}:${{port}}"},
            )

    # --- probes ---------------------------------------------------------------------------------------

    def _probe(self, turn: Turn) -> Iterator[Seen]:
        probe, status = turn.request.probe, turn.status
        if turn.response is None:
            return
        if probe == "get":
            yield from self._get(turn)
        elif probe == "well-known" and status == 401:
            said = (
                f"GET {urlsplit(turn.request.url).path} was answered with HTTP 401: who wants in has to be able to read"
            )
            yield self._said("http/well-known", turn, f"{said} without a token what to bring; without OAuth it is 404")
        elif probe == "unauthorized":
            yield from self._challenge(turn)
        elif probe in _WORDS and 200 <= status < 300:
            check, what = _WORDS[probe]
            said = f"a POST {what} was answered with HTTP {status}, as any other"
            yield self._said(check, turn, said, key=turn.request.method)
        elif probe == "unknown-method" and status != 404:
            said = f"a method that does not exist was answered with {described(turn)}; this era demands 404"
            yield self._said("http/status", turn, said, key=("unknown-method", status))
        elif probe == "unknown-session" and status != 404:
            said = f"a request with a session id that was never given was answered with {described(turn)}"
            yield self._said("http/unknown-session", turn, f"{said}; 404 tells a client to begin another", key=probe)
        elif probe == "missing-session" and status != 400 and not 200 <= status < 300:
            said = f"a request without the session id was answered with {described(turn)}; 400 is right"
            yield self._said("http/unknown-session", turn, said, key=probe, severity="warning")

    # --- words ----------------------------------------------------------------------------------------

    def _said(
        self,
        check: str,
        turn: Turn,
        message: str,
        *,
        key: object = "",
        tool: str | None = None,
        severity: Severity | None = None,
        line: Line | None = None,
    ) -> Seen:
        exchange = turn.exchange
        step = exchange.sent.step if exchange is not None else None
        if tool is None and exchange is not None and exchange.method == "tools/call":
            tool = exchange.name or None
        evidence: dict[str, Any] = {
            "exchange": turn.request.exchange,
            "request": own_words(f"{turn.request.method} {turn.request.url}"),
            "status": turn.status,
            "headers": [own_words(item) for item in (turn.response.headers if turn.response is not None else ())],
        }
        if turn.body:
            evidence["body"] = own_words(quote_bytes(turn.body, 300))
        if line is not None:
            evidence["bytes"] = quote_bytes(line.event.body.data)
        return Seen(
            check=check,
            run=self.view.run.key,
            order=(self.index, turn.request.n),
            key=repr(key),
            message=message,
            tool=tool,
            severity=severity,
            case=f"{step.suite}/{step.case}" if step is not None else None,
            evidence=evidence,
        )


def _chunk_at(turn: Turn, at: int) -> Any:
    """The chunk in which a byte of the stream came."""
    return next((chunk for chunk in turn.chunks if chunk.at <= at < chunk.at + chunk.size), None)
