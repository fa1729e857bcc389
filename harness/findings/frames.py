"""Raw lines -> messages -> exchanges: the strict reading of one transcript, on which every check rests.

Nothing here trusts what a client made of a line. A line is one JSON-RPC 2.0 message, UTF-8, ended by a newline;
whatever is not, is kept with the id of the check that it breaks. Replies are paired with requests by type and value
of the id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.model.frame import buried_replies, is_response, message_in
from harness.model.transcript import (
    BODIES_DIR,
    INLINE_LIMIT_BYTES,
    Body,
    Diagnostic,
    Event,
    Exited,
    HttpData,
    HttpEnded,
    HttpRequest,
    HttpResponse,
    Prompted,
    Received,
    Sent,
    Spawned,
    SseEvent,
    Stderr,
    StepEnded,
    StepRef,
    StepStarted,
    Transcript,
    Truncated,
)

__all__ = [
    "BATCH_REVISION",
    "TOO_DEEP",
    "Ask",
    "Dialogue",
    "Exchange",
    "Line",
    "Oddity",
    "Reply",
    "Turn",
    "asks",
    "is_input_required",
    "quote_id",
    "read_dialogue",
    "read_line",
    "round_faults",
    "tool_in_label",
    "undeclared",
]

BATCH_REVISION = "2025-03-26"  # the one revision that had JSON-RPC batches

_HEADER = re.compile(rb"\A\s*(?:content-length|content-type)\s*:", re.IGNORECASE)
TOO_DEEP = "too-deep"
NO_ID = "a result without id"
_MAY_BURY = ("wire/stdout-not-json", "wire/not-utf8")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One line of the server's stdout, read strictly.

    Attributes:
        event: As recorded.
        number: From 1, in this process's stdout.
        problem: Id of the check that it breaks, "" if none; "too-deep" where it could not be read.
        detail: What exactly, for people.
        messages: The messages in it: one, several for a batch, none where it is no message.
        used: The reply in it that a tolerant client uses though the line breaks a rule; the engine is one.
        buried: Whole replies in it that no client can use: other text, or another message, stands before them.
        repeated: Keys that stand twice in one object.
        crlf: Whether a carriage return came before the newline.
        flying: Requests of ours that were open when it came, oldest first; those that we had given up are not.
        before: The last request that was sent before it; `after` its label, or that of a line that is no message.
    """

    event: Received
    number: int
    problem: str = ""
    detail: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    used: Mapping[str, Any] | None = None
    buried: tuple[Mapping[str, Any], ...] = ()
    repeated: tuple[str, ...] = ()
    crlf: bool = False
    flying: tuple[Exchange, ...] = ()
    before: Exchange | None = None
    after: str | None = None

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        event = self.event
        if event.exchange is None:
            return f"line {self.number} at offset {event.at}"
        return f"message {self.number} in HTTP exchange {event.exchange} at offset {event.at}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What was in flight, in words; as recorded where the requests themselves are not."""
        if self.flying or self.after is not None:
            return tuple(exchange.sent.label for exchange in self.flying)
        return self.event.in_flight

    @property
    def when(self) -> str:
        """When it came, in words: the requests in flight, or what came before."""
        if self.labels:
            return f"in {' and '.join(self.labels)}"
        after = self.after or self.event.after
        return f"after {after}" if after else "before the first request"

    @property
    def tool(self) -> str | None:
        """The tool in flight, if it is exactly one."""
        tools = {tool for label in self.labels if (tool := tool_in_label(label)) is not None}
        return tools.pop() if len(tools) == 1 else None

    @property
    def step(self) -> StepRef | None:
        """The step in which it came, or after which, if that is clear."""
        steps = {exchange.sent.step for exchange in self.flying or (self.before,) if exchange is not None}
        return steps.pop() if len(steps) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response to a request of ours. `loose`: its id was equal but for the type."""

    line: Line
    message: Mapping[str, Any]
    loose: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """A request of ours and what became of it; filled while the transcript is read, then left alone.

    Attributes:
        sent: The request as recorded.
        method: Its method, from the frame.
        name: Tool, prompt or URI that it is about, from the frame; "" for other methods.
        params: Its `params`.
        reply: The first reply.
        cancelled: How the server was told that it is waited for no longer, "" if it was not: by
            "notifications/cancelled" or, over HTTP in the modern era, by the end of its "stream".
        spoilt: The line that holds its reply and is no message; `used` there if the engine went on with it.
        given_up: Number of the event at which the engine stopped waiting for it, None if it did not.
    """

    sent: Sent
    id: Any
    method: str
    name: str
    params: Mapping[str, Any]
    reply: Reply | None = None
    spoilt: Line | None = None
    given_up: int | None = None
    cancelled: Literal["", "notifications/cancelled", "stream"] = ""

    @property
    def in_time(self) -> bool:
        """Whether a reply came before the engine stopped waiting."""
        reply = self.reply
        return reply is not None and (self.given_up is None or reply.line.event.n < self.given_up)

    @property
    def taken(self) -> bool:
        """Whether the engine had an answer to it, be it one that breaks the rules."""
        return self.reply is not None or (self.spoilt is not None and self.spoilt.used is not None)

    @property
    def result(self) -> Any:
        """The `result` of its reply, None without one."""
        return None if self.reply is None else self.reply.message.get("result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A reply that fits no open request: `check` is id-mismatch, unknown-id or duplicate-reply."""

    check: str
    line: Line
    message: Mapping[str, Any]
    exchange: Exchange | None
    detail: str


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """One HTTP exchange; filled while the transcript is read, then left alone.

    Attributes:
        label: Of the message that its request carries, "" without one.
        message: That message, {} where it cannot be read.
        exchange: The request of ours that it carries, None for a notification, an answer of ours, or nothing.
        lines: The messages that came in its response.
        chunks: Of an event stream, as they came.
    """

    request: HttpRequest
    label: str = ""
    message: Mapping[str, Any] = field(default_factory=dict)
    exchange: Exchange | None = None
    response: HttpResponse | None = None
    ended: HttpEnded | None = None
    events: list[SseEvent] = field(default_factory=list)
    chunks: list[HttpData] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @property
    def status(self) -> int:
        """Of the response, 0 without one."""
        return 0 if self.response is None else self.response.status

    @property
    def kind(self) -> str:
        """Its media type in lower case, without parameters; "" without one."""
        found = self.header("content-type")
        return found[0].partition(";")[0].strip().lower() if found else ""

    @property
    def is_stream(self) -> bool:
        """Whether an event stream came."""
        return self.kind == "text/event-stream" and 200 <= self.status < 300

    @property
    def body(self) -> bytes:
        """What came of a body that is no message, its beginning."""
        return b"" if self.ended is None else self.ended.body.data

    def header(self, name: str) -> list[str]:
        """The values of a header of the response."""
        return _header(() if self.response is None else self.response.headers, name)

    def sent_header(self, name: str) -> list[str]:
        """The values of a header of the request."""
        return _header(self.request.headers, name)


def _header(headers: Iterable[str], name: str) -> list[str]:
    parts = (line.partition(":") for line in headers)
    return [value.strip() for key, _, value in parts if key.strip().lower() == name]


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """One transcript, read; filled by `read_dialogue`, then left alone.

    Attributes:
        folder: Where the transcript lies, for people; relative.
        framed: stdout is framed with LSP headers; nothing else is worth saying about its lines.
        broken: Number of the last line of ours that was no message, 0 without one.
        open: Requests that were open at the end and not given up.
        steps: Started attempts of steps with the event that ended each (None where none did), in order.
        by_step: The exchanges of each attempt of a step.
        era: Which one is spoken in it, "" where that is not known; `protocol` the version in force, `declared` the
            capabilities of the client.
        odd_client: Number of the first line of the client's that no reply can be told by (no message, an id that
            is none or was open already), 0 without one. A client of our own sends such a line only on purpose.
        turns: The HTTP exchanges, in order; none over stdio.
    """

    transcript: Transcript
    folder: str = ""
    lines: list[Line] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    server_requests: list[tuple[Line, Mapping[str, Any]]] = field(default_factory=list)
    notifications: list[tuple[Line, Mapping[str, Any]]] = field(default_factory=list)
    prompts: list[Prompted] = field(default_factory=list)
    broken: int = 0
    open: tuple[Exchange, ...] = ()
    steps: list[tuple[StepStarted, StepEnded | None]] = field(default_factory=list)
    by_step: dict[StepRef, list[Exchange]] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    spawned: Spawned | None = None
    exited: Exited | None = None
    stderr: Stderr | None = None
    truncated: Truncated | None = None
    framed: bool = False
    era: str = ""
    protocol: str = ""
    declared: Mapping[str, Any] = field(default_factory=dict)
    odd_client: int = 0

    @property
    def outside(self) -> bool:
        """Whether somebody else than the engine drove the server."""
        return self.transcript.is_outside

    @property
    def is_http(self) -> bool:
        """Whether the server was spoken to over HTTP."""
        return bool(self.turns) or any(item.what == "listening" for item in self.diagnostics)

    def turn_of(self, exchange: Exchange) -> Turn | None:
        """The HTTP exchange that carried a request; after a redirect the last of them."""
        return next((turn for turn in reversed(self.turns) if turn.exchange is exchange), None)

    @property
    def answered(self) -> bool:
        """Whether the server answered anything."""
        return any(exchange.taken for exchange in self.exchanges)

    @property
    def left_open(self) -> tuple[str, ...]:
        """Labels of what was open at the end; as recorded where the requests themselves are not."""
        if self.exchanges or self.exited is None:
            return tuple(exchange.sent.label for exchange in self.open)
        return self.exited.in_flight

    @property
    def closed_itself(self) -> Diagnostic | None:
        """The note that the server closed its stdout and lived on, if it did."""
        return next((item for item in self.diagnostics if item.what == "stdout-closed"), None)

    @property
    def ended_itself(self) -> bool:
        """Whether the server, and not we, ended the dialogue."""
        return (self.exited is not None and not self.exited.asked) or self.closed_itself is not None

    @property
    def stderr_tail(self) -> str:
        """The last twenty lines of stderr, at most 2,000 characters."""
        text = self.stderr.body.text if self.stderr is not None else ""
        return "\n".join(text.splitlines()[-20:])[-2000:]

    @property
    def stderr_quote(self) -> str:
        """The same, after a remark on what came before."""
        tail = self.stderr_tail
        if self.stderr is None:
            return tail
        shown, kept = len(tail.encode("utf-8", "surrogatepass")), len(self.stderr.body.data)
        if self.stderr.size <= shown + 1:  # but for the newline at the end
            return tail
        rest = "all" if kept >= self.stderr.size else f"{kept:,}"
        where = f"; {rest} of them in the evidence: {self.where()}"
        return f"(the last {shown:,} of {self.stderr.size:,} bytes{where})\n{tail}"

    def where(self, body: Body | None = None) -> str:
        """The file of the evidence that holds all of a body, or the transcript."""
        name = self.transcript.name
        if body is not None and len(body.data) > INLINE_LIMIT_BYTES:
            name = f"{BODIES_DIR}/{hashlib.sha256(body.data).hexdigest()}"
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def cut_by_us(self) -> bool:
        """Whether its stdout ends in mid-line because we stopped listening there."""
        came = [item.n for item in self.diagnostics if item.what == "still-coming"]
        whole = (line.event.n for line in reversed(self.lines) if line.event.end == "lf")
        return self.truncated is not None or (bool(came) and next(whole, 0) < came[-1])

    @property
    def tail(self) -> Line | None:
        """The bytes without newline at the end of stdout, if there were any."""
        last = self.lines[-1] if self.lines else None
        return last if last is not None and last.event.end == "none" and last.event.body.data else None


class _Repeated:
    """Collects keys that an object has twice, while json makes dicts."""

    __slots__ = ("keys",)

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.keys.append(key)
                seen.add(key)
        return made


class _NotJson(ValueError):
    """`parse_constant` met NaN or an infinity."""


def _refuse(word: str) -> Any:
    raise _NotJson(f"{word} is no JSON value")


def _long_int(digits: str) -> float | int:
    return int(digits) if len(digits) < 4000 else float("inf")  # longer than int() converts


def _parse(text: str, repeated: _Repeated) -> Any:
    try:
        return json.loads(text, object_pairs_hook=repeated, parse_constant=_refuse)
    except (json.JSONDecodeError, _NotJson):
        raise
    except ValueError:  # an integer with more digits than int() takes is JSON all the same
        return json.loads(text, object_pairs_hook=repeated, parse_constant=_refuse, parse_int=_long_int)


def read_line(
    event: Received,
    number: int,
    *,
    batches: bool = False,
    flying: tuple[Exchange, ...] = (),
    before: Exchange | None = None,
    after: str | None = None,
) -> Line:
    """One line of stdout, taken apart.

    Args:
        number: Its number, from 1.
        batches: Whether the protocol revision in force has batches.
        flying: The requests that were open when it came; `before` the last one that was sent, `after` a label.
    """
    data = event.body.data
    base: dict[str, Any] = {"event": event, "number": number, "flying": flying, "before": before, "after": after}
    if event.end == "cut":
        return Line(**base, problem="wire/line-too-long", detail=f"over {len(data)} bytes")
    if event.end == "none":
        return Line(**base, problem="wire/partial-line" if data else "")
    over_http = event.exchange is not None
    crlf = data.endswith(b"\r") and not over_http
    if crlf:
        data = data[:-1]

    def bad(problem: str, detail: str) -> Line:
        used = message_in(data)
        buried = buried_replies(data) if used is None and problem in _MAY_BURY else ()
        return Line(
            **base,
            problem=problem,
            detail=detail or ("other text stands before a reply" if buried else ""),
            used=used if used is not None and is_response(used) else None,
            buried=buried,
            crlf=crlf,
        )

    not_json = "http/not-json" if over_http else "wire/stdout-not-json"
    if _HEADER.match(data) and not over_http:
        return bad("wire/framing", "a Content-Length header")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return bad("wire/not-utf8", f"byte 0x{data[error.start]:02x} at offset {event.at + error.start}")
    if not text.strip():
        return bad(not_json, "a blank line")
    repeated = _Repeated()
    try:
        value = _parse(text, repeated)
    except _NotJson as error:
        return bad(not_json, str(error))
    except ValueError:
        return bad(not_json, "a byte order mark" if text.startswith("\ufeff") else "")
    except RecursionError:
        return bad(TOO_DEEP, "nested too deeply to be read")
    parts: list[Any] = value if isinstance(value, list) and batches and value else [value]
    for part in parts:
        wrong = _shape(part)
        if wrong:
            return bad("wire/not-jsonrpc", wrong)
    keys = tuple(dict.fromkeys(repeated.keys))
    return Line(**base, messages=tuple(parts), repeated=keys, crlf=crlf)


def _shape(value: Any) -> str:
    """What keeps a JSON value from being a JSON-RPC 2.0 message of MCP, "" if nothing does."""
    if isinstance(value, list):
        return "a batch, which this protocol revision has not" if value else "an empty array"
    if not isinstance(value, Mapping):
        return "no object"
    if value.get("jsonrpc") != "2.0":
        return f"jsonrpc is {value['jsonrpc']!r}, not '2.0'" if "jsonrpc" in value else "no jsonrpc member"
    if "method" in value:
        if not isinstance(value["method"], str):
            return "method is no string"
        if "id" in value and not _is_id(value["id"]):
            return "the id of a request is neither string nor integer"
        if "params" in value and not isinstance(value["params"], Mapping):
            return "params is no object"
        return ""
    outcomes = ("result" in value) + ("error" in value)
    if outcomes == 0:
        return "neither method nor result nor error"
    if outcomes == 2:
        return "both result and error"
    if "id" not in value and "result" in value:
        return NO_ID
    if value.get("id") is not None and not _is_id(value["id"]):
        return "the id of a reply is neither string nor integer"
    return ""


def _is_id(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, str | int) or (isinstance(value, float) and value.is_integer())


def _exact(value: Any) -> tuple[str, Any]:
    return ("s", value) if isinstance(value, str) else ("n", value)


def _loose(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def is_input_required(result: Any) -> bool:
    """Whether a result is a round of the modern era that asks the client for something, and no answer."""
    return isinstance(result, Mapping) and result.get("resultType") == "input_required"


def round_faults(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(pointer below the result, what) that keeps a client from answering a round."""
    asked, state = result.get("inputRequests"), result.get("requestState")
    if asked is None and state is None:
        yield "", "neither inputRequests nor requestState"
    if asked is not None and not isinstance(asked, Mapping):
        yield "/inputRequests", "inputRequests is no object"
    elif isinstance(asked, Mapping) and not asked and state is None:
        yield "/inputRequests", "inputRequests is empty, and there is no requestState"
    if state is not None and not isinstance(state, str):
        yield "/requestState", "requestState is no text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the server asks the client for.

    Attributes:
        line: Where it stands.
        exchange: The request of ours in whose course it came, if that is clear.
        missing: What the client would have had to declare for it and has not, "" if nothing.
        pointer: JSON pointer to it inside the line, "" for the line itself.
        pushed: A request of the server's own, and no round of `input_required`.
    """

    line: Line
    exchange: Exchange | None
    method: str
    params: Any
    missing: str = ""
    pointer: str = ""
    pushed: bool = False

    @property
    def tool(self) -> str | None:
        """The tool in whose course it came, if that is clear."""
        called = self.exchange is not None and self.exchange.method == "tools/call"
        return self.exchange.name if self.exchange is not None and called else self.line.tool


def asks(dialogue: Dialogue) -> Iterator[Ask]:
    """Everything that the server asks the client for, pushed or by `input_required`; `missing` by what was declared."""
    declared = dialogue.declared
    for line, message in dialogue.server_requests:
        exchange = line.flying[0] if len(line.flying) == 1 else None
        method, params = str(message["method"]), message.get("params")
        missing = _missing(method, params, declared)
        yield Ask(line=line, exchange=exchange, method=method, params=params, missing=missing, pushed=True)
    for exchange in dialogue.exchanges:
        if exchange.reply is None or not is_input_required(exchange.result):
            continue
        asked = exchange.result.get("inputRequests")
        for key, request in sorted(asked.items()) if isinstance(asked, Mapping) else ():
            wanted = request.get("method") if isinstance(request, Mapping) else None
            params = request.get("params") if isinstance(request, Mapping) else None
            method = wanted if isinstance(wanted, str) else ""
            yield Ask(
                line=exchange.reply.line,
                exchange=exchange,
                method=method,
                params=params,
                missing=_missing(method, params, declared),
                pointer=f"/result/inputRequests/{key.replace('~', '~0').replace('/', '~1')}",
            )


def undeclared(dialogue: Dialogue) -> Iterator[Ask]:
    """What the server asks the client for although the client did not declare it."""
    return (ask for ask in asks(dialogue) if ask.missing)


def _missing(method: str, params: Any, declared: Mapping[str, Any]) -> str:
    """What a client would have to declare for such a request and has not, "" if nothing."""
    capability = method.partition("/")[0]
    if capability not in ("elicitation", "roots", "sampling"):
        return ""
    if capability not in declared:
        return capability
    kinds = declared[capability]
    kinds = kinds if isinstance(kinds, Mapping) else {}
    params = params if isinstance(params, Mapping) else {}
    if capability == "sampling":
        wants = params.get("tools") is not None or params.get("toolChoice") is not None
        return "sampling with tools" if wants and "tools" not in kinds else ""
    mode = params.get("mode", "form")
    if capability != "elicitation" or mode not in ("form", "url"):  # another mode is none at all
        return ""
    return "" if mode in (kinds or {"form": {}}) else f"elicitation of mode {mode!r}"


def tool_in_label(label: str) -> str | None:
    """The tool in the label of a request ("tools/call get"), None for other labels."""
    method, _, name = label.partition(" ")
    return name if method == "tools/call" and name else None


_NAME_KEY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def _exchanges(sent: Sent) -> list[Exchange | Mapping[str, Any]] | None:
    """What a sent line holds: of each message the exchange that it begins, or itself if it is no request.

    That is one, or several in a batch; None where the line cannot be read.
    """
    try:
        value = json.loads(sent.body.data)
    except (ValueError, RecursionError):
        return None
    parts = value if isinstance(value, list) and value else [value]
    if not all(isinstance(part, Mapping) for part in parts):
        return None
    return [_exchange(sent, part) for part in parts]


def _exchange(sent: Sent, message: Mapping[str, Any]) -> Exchange | Mapping[str, Any]:
    method = message.get("method")
    if not isinstance(method, str) or not _is_id(message.get("id")):
        return message
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    name = params.get(_NAME_KEY.get(method, ""), "")
    return Exchange(
        sent=sent, id=message["id"], method=method, name=name if isinstance(name, str) else "", params=params
    )


@dataclass(slots=True)
class _Reader:
    """The state of reading one transcript."""

    dialogue: Dialogue
    exact: dict[tuple[str, Any], Exchange] = field(default_factory=dict)
    loose: dict[str, Exchange] = field(default_factory=dict)
    by_label: dict[str, list[Exchange]] = field(default_factory=dict)
    flying: dict[int, Exchange] = field(default_factory=dict)  # by identity
    before: Exchange | None = None
    after: str | None = None
    broken: int = 0  # lines of ours that are no message and have not been answered
    batches: bool = False
    turns: dict[int, Turn] = field(default_factory=dict)  # by number of the HTTP exchange
    posted: dict[int, tuple[str, Exchange | Mapping[str, Any] | None]] = field(default_factory=dict)

    def sent(self, event: Sent) -> None:
        made = _exchanges(event)
        self.posted[event.n] = (event.label, made[0] if made and len(made) == 1 else None)
        if made is None:
            self.broken += 1
            self.after = event.label
            self.dialogue.broken = event.n
            self._odd_client(event)
        for item in made or ():
            self._one_sent(event, item)

    def _odd_client(self, event: Sent) -> None:
        self.dialogue.odd_client = self.dialogue.odd_client or event.n

    def _one_sent(self, event: Sent, made: Exchange | Mapping[str, Any]) -> None:
        if isinstance(made, Exchange):
            known = self.exact.get(_exact(made.id))
            if known is not None and id(known) in self.flying:
                self._odd_client(event)
            self.dialogue.exchanges.append(made)
            self.flying[id(made)] = self.before = made
            self.after = event.label
            self.exact[_exact(made.id)] = made
            self.loose[_loose(made.id)] = made
            self.by_label.setdefault(event.label, []).append(made)
            if event.step is not None:
                self.dialogue.by_step.setdefault(event.step, []).append(made)
        elif made.get("method") == "notifications/cancelled":
            params = made.get("params")
            identity = params.get("requestId") if isinstance(params, Mapping) else None
            target = self.exact.get(_exact(identity)) if _is_id(identity) else None
            if target is not None:
                self._cancel(target, event.n, "notifications/cancelled")
        elif "method" in made and "id" in made:
            self._odd_client(event)

    def http(self, event: HttpRequest | HttpResponse | HttpData | SseEvent | HttpEnded) -> None:
        if isinstance(event, HttpRequest):
            label, made = self.posted.get(event.carries or 0, ("", None))
            turn = Turn(request=event, label=label)
            if isinstance(made, Exchange):
                turn.exchange, turn.message = made, {"id": made.id, "method": made.method, "params": made.params}
            elif made is not None:
                turn.message = made
            self.turns[event.exchange] = turn
            self.dialogue.turns.append(turn)
            return
        known = self.turns.get(event.exchange)
        if known is None:
            return
        match event:
            case HttpResponse():
                known.response = event
            case HttpData():
                known.chunks.append(event)
            case SseEvent():
                known.events.append(event)
            case HttpEnded():
                known.ended = event

    def received(self, event: Received) -> None:
        number, flying = len(self.dialogue.lines) + 1, tuple(self.flying.values())
        line = read_line(event, number, batches=self.batches, flying=flying, before=self.before, after=self.after)
        if line.detail == NO_ID and self._zero() is not None:
            line = replace(line, detail=f"{NO_ID}, sent {quote_id(0)}")
        self.dialogue.lines.append(line)
        if event.exchange in self.turns:
            self.turns[event.exchange].lines.append(line)
        if line.problem == "wire/framing":
            self.dialogue.framed = True
        for lost in (line.used,) if line.used is not None else line.buried:
            self._spoilt(line, lost)
        for message in line.messages:
            if "method" not in message:
                self._reply(line, message)
            elif "id" in message:
                self.dialogue.server_requests.append((line, message))
            else:
                self.dialogue.notifications.append((line, message))

    def _spoilt(self, line: Line, message: Mapping[str, Any]) -> None:
        """A reply in a line that is no message: its request gets no other."""
        identity = message.get("id")
        if _is_id(identity):
            exchange = self.exact.get(_exact(identity)) or self.loose.get(_loose(identity))
        else:
            exchange = self._zero() if identity is None else None
        if exchange is None or exchange.reply is not None or exchange.spoilt is not None:
            return
        exchange.spoilt = line
        if line.used is not None:
            self.flying.pop(id(exchange), None)

    def _zero(self) -> Exchange | None:
        """The one open request, if its id is 0: a reply without an id is from a server that takes 0 for none."""
        flying = list(self.flying.values())
        return flying[0] if len(flying) == 1 and _exact(flying[0].id) == ("n", 0) else None

    def _reply(self, line: Line, message: Mapping[str, Any]) -> None:
        identity = message.get("id")
        if identity is None and "error" in message and self.broken:
            self.broken -= 1  # what JSON-RPC asks for after a line that cannot be read
            return
        exchange = self.exact.get(_exact(identity)) if identity is not None else None
        loose = False
        if exchange is None and identity is not None:
            exchange = self.loose.get(_loose(identity))
            loose = exchange is not None
        if identity is None and (exchange := self._zero()) is not None:
            loose = True
        if exchange is None:
            what = f"id {quote_id(identity)}, which no request had" if identity is not None else "id null"
            self._odd("wire/unknown-id", line, message, None, what)
            return
        if exchange.reply is not None:
            what = f"a second reply to {exchange.sent.label}"
            if self.broken and "error" in message:
                what += " (the answer to a line that is no JSON has the id null)"
            self._odd("wire/duplicate-reply", line, message, exchange, what)
            return
        exchange.reply = Reply(line=line, message=message, loose=loose)
        self.flying.pop(id(exchange), None)
        if loose:
            what = f"sent {quote_id(exchange.id)}, got {quote_id(identity) if 'id' in message else 'no id'}"
            self._odd("wire/id-mismatch", line, message, exchange, what)
        elif exchange.method == "initialize" and isinstance(exchange.result, Mapping):
            self.batches = exchange.result.get("protocolVersion") == BATCH_REVISION

    def _odd(self, check: str, line: Line, message: Mapping[str, Any], exchange: Exchange | None, detail: str) -> None:
        if self.dialogue.outside and self.dialogue.odd_client:
            return  # which request it answers cannot be told, by the client's own fault
        self.dialogue.oddities.append(Oddity(check=check, line=line, message=message, exchange=exchange, detail=detail))

    def diagnostic(self, event: Diagnostic) -> None:
        self.dialogue.diagnostics.append(event)
        if event.what == "cut-short":  # the end of our own line is missing: an answer to that has no id
            self.broken += 1
        target = self._request_of(event) if event.what in ("timeout", "lost", "cancelled") else None
        if target is not None and event.what == "cancelled":
            self._cancel(target, event.n, "stream")
        elif target is not None and target.reply is None and target.given_up is None:
            self._give_up(target, event.n)

    def _request_of(self, event: Diagnostic) -> Exchange | None:
        """The request of which a note speaks; without its id the newest open one of that label."""
        if event.request is not None:
            return self.exact.get(_exact(event.request))
        open_ones = [item for item in self.by_label.get(event.detail, ()) if item.reply is None]
        if event.what != "cancelled":  # that may follow a timeout
            open_ones = [item for item in open_ones if item.given_up is None]
        return open_ones[-1] if open_ones else None

    def _cancel(self, exchange: Exchange, n: int, how: Literal["notifications/cancelled", "stream"]) -> None:
        """The server was told that a request is waited for no longer, in either way; one rule for both."""
        exchange.cancelled = how
        if exchange.reply is None and exchange.given_up is None:
            self._give_up(exchange, n)

    def _give_up(self, exchange: Exchange, n: int) -> None:
        exchange.given_up = n
        self.flying.pop(id(exchange), None)


def quote_id(value: Any) -> str:
    """An id with its type, for people."""
    if value is None:
        return "null"
    kind = "string" if isinstance(value, str) else "number"
    shown = json.dumps(value)
    return f"{shown if len(shown) <= 60 else shown[:60] + '…'} ({kind})"


def _steps(events: Iterable[Event]) -> list[tuple[StepStarted, StepEnded | None]]:
    open_steps: dict[StepRef, int] = {}
    out: list[tuple[StepStarted, StepEnded | None]] = []
    for event in events:
        if isinstance(event, StepStarted):
            open_steps[event.step] = len(out)
            out.append((event, None))
        elif isinstance(event, StepEnded) and event.step in open_steps:
            index = open_steps.pop(event.step)
            out[index] = (out[index][0], event)
    return out


_META = "io.modelcontextprotocol/"


def _as_spoken(dialogue: Dialogue) -> None:
    """Era, version and the client's capabilities, as the frames themselves show them."""
    for exchange in dialogue.exchanges:
        if exchange.method == "initialize":
            result, declared = exchange.result, exchange.params.get("capabilities")
            version = result.get("protocolVersion") if isinstance(result, Mapping) else None
            dialogue.era, dialogue.protocol = "handshake", version if isinstance(version, str) else ""
            dialogue.declared = declared if isinstance(declared, Mapping) else {}
            return
        meta = exchange.params.get("_meta")
        version = meta.get(f"{_META}protocolVersion") if isinstance(meta, Mapping) else None
        if isinstance(meta, Mapping) and isinstance(version, str):
            dialogue.era, dialogue.protocol = "modern", version
            declared = meta.get(f"{_META}clientCapabilities")
            dialogue.declared = {**dialogue.declared, **(declared if isinstance(declared, Mapping) else {})}


def read_dialogue(transcript: Transcript, *, protocol: str = "", folder: str = "") -> Dialogue:
    """A transcript with its lines parsed and its replies paired; linear in its size.

    Args:
        protocol: The protocol version in force, where the transcript does not show it.
        folder: Where the transcript lies, for people; relative.
    """
    dialogue = Dialogue(transcript=transcript, folder=folder)
    reader = _Reader(dialogue, batches=protocol == BATCH_REVISION)
    for event in transcript.events:
        match event:
            case Sent():
                reader.sent(event)
            case Received():
                reader.received(event)
            case Diagnostic():
                reader.diagnostic(event)
            case Prompted():
                dialogue.prompts.append(event)
            case Spawned():
                dialogue.spawned = event
            case Exited():
                dialogue.exited = event
            case Stderr():
                dialogue.stderr = event
            case Truncated():
                dialogue.truncated = event
            case HttpRequest() | HttpResponse() | HttpData() | SseEvent() | HttpEnded():
                reader.http(event)
            case _:
                pass
    dialogue.open = tuple(reader.flying.values())
    dialogue.protocol = protocol
    if dialogue.outside:
        _as_spoken(dialogue)
    dialogue.steps = _steps(transcript.events)
    for started, ended in dialogue.steps:
        if ended is not None and ended.how == "timed-out":
            last = dialogue.by_step.get(started.step, [])[-1:]
            for exchange in last:
                if exchange.given_up is None and (exchange.reply is None or exchange.reply.line.event.n > ended.n):
                    exchange.given_up = ended.n
    return dialogue
