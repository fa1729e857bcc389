"""The wire: stray bytes, framing, partial and endless lines, ids, replies that never came or came twice, shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.findings.frames import TOO_DEEP, Dialogue, Exchange, Line, undeclared
from harness.findings.ledger import LISTS
from harness.findings.seen import Seen, quote_bytes, quote_text
from harness.findings.steps import (
    RunView,
    Use,
    children_at,
    is_broken_off,
    partial_note,
    place_of_use,
    told,
    why_unanswered,
    zero_note,
)
from harness.model.outcome import cut_json

__all__ = ["see_client_lines", "see_wire", "unreadable"]

_START = ("initialize", "server/discover", "notifications/initialized")
LONG_BYTES = 1_000
_WRONG_REPLIES = ("wire/duplicate-reply", "wire/unknown-id")
_LINE_PROBLEMS = ("wire/stdout-not-json", "http/not-json", "wire/not-utf8", "wire/not-jsonrpc")


def see_wire(view: RunView) -> Iterator[Seen]:
    """Everything that one run's raw lines show."""
    for index, dialogue in enumerate(view.dialogues):
        spot = _Spot(view, index, dialogue)
        yield from _lines(spot)
        yield from _ids(spot)
        yield from _ends(spot)
        yield from _no_reply(spot)
        yield from _requests(spot)
        yield from _cursors(spot)
    for index, dialogue in enumerate(view.probes, len(view.dialogues)):
        yield from _probed(_Spot(view, index, dialogue))
    yield from _malformed(view)


def see_client_lines(view: RunView, told: Collection[str]) -> Iterator[Seen]:
    """What the raw lines of the comparing pass show and those of the run do not: noise that only that client meets.

    Args:
        told: Checks that the run itself has raised; their lines are not counted a second time.
    """
    if view.client is None:
        return
    spot = _Spot(view, len(view.dialogues) + len(view.probes), view.client)
    for item in (*_lines(spot), *_ids(spot)):
        if item.check not in told:
            yield replace(item, message=f"with the official client, {item.message}")


def unreadable(view: RunView) -> Iterator[str]:
    """Why lines of this run could not be judged: those too deeply nested to read, but for the answers of steps."""
    for dialogue in view.dialogues:
        told = {id(exchange.spoilt) for exchange in dialogue.exchanges if exchange.sent.step is not None}
        for line in dialogue.lines:
            if line.problem == TOO_DEEP and id(line) not in told:
                yield f"line {line.number} of stdout at offset {line.event.at} is nested too deeply to be read"


class _Spot:
    """A dialogue and where it stands."""

    def __init__(self, view: RunView, index: int, dialogue: Dialogue) -> None:
        self.view, self.index, self.dialogue = view, index, dialogue

    def line(self, check: str, line: Line, what: str) -> Seen:
        """A sighting that quotes one line."""
        event = line.event
        quoted = quote_bytes(event.body.data)
        said = f"{what}: " if what else ""
        return Seen(
            check=check,
            run=self.view.run.key,
            order=(self.index, event.n),
            message=f"{line.place}, {line.when}: {said}{quoted}",
            tool=line.tool,
            case=self.case_of(line),
            example={
                "line": line.number,
                "offset": event.at,
                "when": line.when,
                "bytes": quoted,
                "size": len(event.body.data),
                **self.rest(line),
                **({"what": what} if what else {}),
            },
        )

    def rest(self, line: Line) -> dict[str, str]:
        """Where all of a long line is; a shorter one is found by its number and offset."""
        body = line.event.body
        return {"all_of_it": self.dialogue.where(body)} if len(body.data) > LONG_BYTES else {}

    def case_of(self, line: Line) -> str | None:
        """The case in whose step the line came, if that is clear."""
        return None if line.step is None else f"{line.step.suite}/{line.step.case}"


def _lines(spot: _Spot) -> Iterator[Seen]:
    dialogue = spot.dialogue
    if dialogue.framed:
        first = next(line for line in dialogue.lines if line.problem == "wire/framing")
        yield spot.line("wire/framing", first, "")
        return
    for line in dialogue.lines:
        if line.problem in _LINE_PROBLEMS and not is_broken_off(line):
            yield spot.line(line.problem, line, line.detail)
        elif line.crlf:
            yield spot.line("wire/carriage-return", line, "")
        if line.repeated:
            yield spot.line("wire/duplicate-key", line, f"key {', '.join(map(repr, line.repeated[:3]))}")


def _ids(spot: _Spot) -> Iterator[Seen]:
    if spot.dialogue.framed:
        return
    for odd in spot.dialogue.oddities:
        yield spot.line(odd.check, odd.line, odd.detail)


def _probed(spot: _Spot) -> Iterator[Seen]:
    """What came on stdout after a line that is no JSON; that a server dies of it or stays silent is its own affair."""
    dialogue = spot.dialogue
    if dialogue.framed:
        return
    after = [line for line in dialogue.lines if dialogue.broken and line.event.n > dialogue.broken]
    for line in after:
        if line.problem in _LINE_PROBLEMS and line.event.end == "lf":
            yield spot.line(line.problem, line, line.detail)
    for odd in dialogue.oddities:
        if odd.line in after and odd.message.get("id") is not None and odd.check in _WRONG_REPLIES:
            yield spot.line(odd.check, odd.line, odd.detail)


def _ends(spot: _Spot) -> Iterator[Seen]:
    """Partial and endless lines."""
    dialogue = spot.dialogue
    if dialogue.framed:
        return
    cut = next((line for line in dialogue.lines if line.event.end == "cut"), None)
    if cut is not None or dialogue.truncated is not None:
        yield _endless(spot, cut)
    waiting = [exchange for exchange in dialogue.exchanges if why_unanswered(dialogue, exchange) == "wire/partial-line"]
    said: set[int] = set()
    for exchange in waiting:
        line = _partial_of(dialogue, exchange)
        if line is None or line.number not in said:
            yield _partial(spot, line, exchange)
        said |= {line.number} if line is not None else set()
    rest = [line for line in dialogue.lines if is_broken_off(line)]
    if dialogue.tail is not None and cut is None and not dialogue.cut_by_us and not _in_the_middle(spot):
        rest.append(dialogue.tail)
    for line in rest:
        if line.number not in said:
            yield _partial(spot, line, None)


def _in_the_middle(spot: _Spot) -> bool:
    """Whether the process was ended, by itself or by us, while an answer may have been on its way."""
    whole = spot.dialogue.transcript.complete and spot.view.record.outcome != "interrupted"
    return not whole or bool(spot.dialogue.left_open)


def _endless(spot: _Spot, cut: Line | None) -> Seen:
    truncated = spot.dialogue.truncated
    if cut is None:
        assert truncated is not None
        reason, n, tool, evidence = truncated.reason, truncated.n, None, {}
        case = None
    else:
        event = cut.event
        reason = f"a line without end, {cut.when}; it begins {quote_bytes(event.body.data[:60])}"
        n, tool, case = event.n, cut.tool, spot.case_of(cut)
        evidence = {
            "line": cut.number,
            "offset": event.at,
            "when": cut.when,
            "first": quote_bytes(event.body.data[:60]),
        }
    return Seen(
        check="wire/line-too-long",
        run=spot.view.run.key,
        order=(spot.index, n),
        key=tool or "",
        message=f"{'the response' if spot.dialogue.is_http else 'stdout'} was cut and the server stopped: {reason}",
        tool=tool,
        case=case,
        evidence=evidence,
    )


def _partial_of(dialogue: Dialogue, exchange: Exchange) -> Line | None:
    after = (line for line in dialogue.lines if line.event.n > exchange.sent.n and is_broken_off(line))
    return next(after, dialogue.tail)


def _partial(spot: _Spot, line: Line | None, exchange: Exchange | None) -> Seen:
    step = exchange.sent.step if exchange is not None else None
    tool = exchange.name or None if exchange is not None and exchange.method == "tools/call" else None
    if line is None:
        note = partial_note(spot.dialogue, exchange) if exchange is not None else None
        message = note.detail if note is not None else "a reply without its newline"
        evidence: dict[str, Any] = {}
        n = note.n if note is not None else 0
    else:
        data, n = line.event.body.data, line.event.n
        if tool is None and exchange is None:
            tool = line.tool
        if line.event.end == "lf":
            message = f"a message broke off and the next began in the same line ({len(data)} bytes)"
        elif exchange is not None:
            message = f"{len(data)} bytes came without a newline, and no more while {exchange.sent.label} waited"
        else:
            message = f"stdout ended with {len(data)} bytes without a newline, {line.when}"
        message += f": {quote_bytes(data, 60, tail=60)}"
        evidence = {
            "line": line.number,
            "offset": line.event.at,
            "size": len(data),
            "first": quote_bytes(data[:60]),
            "last": quote_bytes(data[-60:]),
            **spot.rest(line),
        }
    return Seen(
        check="wire/partial-line",
        run=spot.view.run.key,
        order=(spot.index, n),
        key=(tool or "", exchange.method if exchange is not None else "at the end"),
        message=message,
        tool=tool,
        case=f"{step.suite}/{step.case}" if step is not None else None,
        evidence=evidence,
    )


def _no_reply(spot: _Spot) -> Iterator[Seen]:
    """Requests outside of steps that were never answered though the server lived on."""
    dialogue, view = spot.dialogue, spot.view
    if dialogue.outside:
        return  # how long it was waited for is the client's own affair
    answered_last = max((item.sent.n for item in dialogue.exchanges if item.taken), default=0)
    for exchange in dialogue.exchanges:
        if exchange.in_time or exchange.sent.step is not None:
            continue
        if exchange.spoilt is not None and exchange.spoilt.problem == TOO_DEEP:
            continue  # it was answered, and is not judged
        if exchange.method in _START and view.record.outcome == "failed":
            continue  # the run's own error says it
        passed_over = exchange.reply is None and exchange.sent.n < answered_last and dialogue.transcript.complete
        if exchange.given_up is None and not passed_over:
            continue
        if why_unanswered(dialogue, exchange):
            continue
        late = exchange.reply is not None
        end = "was answered only when its time was over" if late else "was never answered, though the server lived on"
        tool = exchange.name or None if exchange.method == "tools/call" else None
        if 0 < dialogue.broken < exchange.sent.n:
            end += "; before it a line that is no JSON had been sent"
        yield Seen(
            check="wire/no-reply",
            run=view.run.key,
            order=(spot.index, exchange.sent.n),
            key=(exchange.sent.label, late),
            message=f"{exchange.sent.label} (id {cut_json(exchange.id, 60)}) {end}{zero_note(exchange)}",
            tool=tool,
            evidence={
                "request": cut_json(exchange.params),
                "stderr": dialogue.stderr_quote,
                **told(exchange),
                **children_at(dialogue, exchange),
            },
        )


def _requests(spot: _Spot) -> Iterator[Seen]:
    """What the server asks the client for, against what the client declared."""
    for ask in undeclared(spot.dialogue):
        if ask.pushed and spot.dialogue.era == "modern":
            continue  # no request may be pushed there: wire/pushed-request
        line, tool = ask.line, ask.tool
        yield Seen(
            check="wire/undeclared-request",
            run=spot.view.run.key,
            order=(spot.index, line.event.n),
            key=(tool or "", ask.method, ask.missing),
            message=f"the server asks for {ask.method}, though the client did not declare {ask.missing}; {line.when}",
            tool=tool,
            pointer=ask.pointer or None,
            case=spot.case_of(line),
            evidence={
                "line": line.number,
                "offset": line.event.at,
                "params": cut_json(ask.params),
                "when": line.when,
            },
        )


def _cursors(spot: _Spot) -> Iterator[Seen]:
    """Lists whose last page has a cursor without anything in it."""
    for exchange in spot.dialogue.exchanges:
        result, reply = exchange.result, exchange.reply
        if exchange.method not in LISTS or reply is None or not isinstance(result, Mapping):
            continue
        if result.get("nextCursor") == "":
            yield Seen(
                check="wire/empty-cursor",
                run=spot.view.run.key,
                order=(spot.index, reply.line.event.n),
                key=exchange.method,
                message=f"the nextCursor in an answer to {exchange.method} is an empty string; "
                "it is taken for the end, which leaving it out says",
                pointer="/result/nextCursor",
                evidence={"line": reply.line.number, "offset": reply.line.event.at},
            )


def _malformed(view: RunView) -> Iterator[Seen]:
    for use in view.uses:
        if use.answer is None or not use.answer.problem:
            continue
        yield _malformed_use(view, use)


def _malformed_use(view: RunView, use: Use) -> Seen:
    assert use.answer is not None
    assert use.exchange is not None
    assert use.exchange.reply is not None
    line = use.exchange.reply.line
    where = use.dialogue.where(line.event.body)
    return Seen(
        check="wire/malformed-result",
        run=view.run.key,
        order=(0, line.event.n),
        key=(use.method, use.target, use.answer.problem),
        message=f"{use.method} {use.target}: {use.answer.problem}: {quote_bytes(line.event.body.data)}",
        tool=use.target,
        case=use.case,
        place=place_of_use(use),
        evidence={"line": line.number, "offset": line.event.at, "bytes": quote_text(line.event.body.text, 300, where)},
    )
