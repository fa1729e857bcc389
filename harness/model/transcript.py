"""The transcript of one server process, and the record of one run: what the engine writes and every check reads.

A transcript is a file of JSON lines, one event a line, in the order in which things happened. Every byte that
crossed the pipes is in it. An event is a flat object whose `e` names its kind; each class here is one kind, and
`Event.e` its word. `n` counts from 1 without gaps; `t` is seconds since the run began.

Bodies: `text` where the bytes are UTF-8; else `b64`; a body over `INLINE_LIMIT_BYTES` is kept in the side file
`bodies/<sha256>` and the event has `sha256` and `size` instead. `Body` hides the difference.

Secrets are masked before they get here, with as many `*` as the secret has bytes, so offsets stay true.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from harness.model.plan import Era, RunKey, Runtime, Transport
from harness.model.typed import misfit

__all__ = [
    "BODIES_DIR",
    "DONE_FILE",
    "INLINE_LIMIT_BYTES",
    "LINE_LIMIT_BYTES",
    "ODD_REQUESTS",
    "OUTSIDE",
    "PROBE",
    "PROBE_ID",
    "PROBE_LABEL",
    "RUN_FILE",
    "SCHEMA",
    "SECRET_TOLD",
    "STATE_PROBE",
    "UNKNOWN_NOTIFICATION",
    "Body",
    "CaseEnded",
    "CaseStarted",
    "ClientSaw",
    "CommandRecord",
    "Diagnostic",
    "Event",
    "Evidence",
    "Exited",
    "HttpData",
    "HttpEnded",
    "HttpRequest",
    "HttpResponse",
    "Orphan",
    "Prompted",
    "Received",
    "RunRecord",
    "Sent",
    "Spawned",
    "SseEvent",
    "Stderr",
    "Stdout",
    "StepEnded",
    "StepRef",
    "StepStarted",
    "Transcript",
    "Truncated",
    "event_from_json",
    "event_to_json",
    "parse_lines",
    "record_from_json",
    "record_to_json",
]

SCHEMA = 1
INLINE_LIMIT_BYTES = 256 * 1024
LINE_LIMIT_BYTES = 64 * 1024 * 1024  # one line of a server's stdout; longer is cut and the server stopped
UNKNOWN_NOTIFICATION = "notifications/rollcall/unknown"  # sent to a probed process, which has to pass it over
PROBE_ID = "rollcall-"  # the beginning of the ids of what a probed process is sent to see what it does
PROBE_LABEL = "probe/"  # the beginning of the labels of such lines
# what follows it for a request that is wrong in one place, and what a person calls that; it has an id, to be answered
ODD_REQUESTS = {
    "params": "a request whose params are the number 5",
    "method": "a request whose method is an empty list",
    "arguments": "a tools/call whose arguments are a text",
    "version": 'a request that says it is of JSON-RPC "1.0"',
}
SECRET_TOLD = "secret-told"  # the word of a diagnostic: what came just before held a secret
STATE_PROBE = "state-probe"  # the word of a diagnostic: what follows bears a requestState that we have changed
PROBE = "probe"  # a transcript whose name begins so is judged only by its wrong replies
OUTSIDE = "outside"  # a transcript whose name begins so was written by another process than the engine
RUN_FILE = "run.json"
DONE_FILE = "done"
BODIES_DIR = "bodies"


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes that crossed a pipe, without the line end.

    Attributes:
        data: The bytes (masked). For a body that lives in a side file the reader has loaded it.
    """

    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text; bytes that are not UTF-8 show as `\\xNN`."""
        return self.data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRef:
    """Which step an event belongs to: `phase` is "step" or "cleanup", `index` from 0, `attempt` from 1."""

    suite: str
    case: str
    phase: Literal["step", "cleanup"]
    index: int
    attempt: int = 1

    def __str__(self) -> str:
        return f"{self.suite}/{self.case} {self.phase} {self.index + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have."""

    e: ClassVar[str] = ""
    n: int
    t: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned(Event):
    """The server process was started. `env` are the names of its variables, never values."""

    e: ClassVar[str] = "spawned"
    argv: tuple[str, ...]
    cwd: str
    env: tuple[str, ...]
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """A message that we sent: a line to the server's stdin, or the body of a request over HTTP.

    `label` says what it was for, e.g. "initialize", "tools/list", "tools/call get", "notifications/cancelled";
    `step` which step, if any; `round` counts the requests of one attempt of a step from 1 (a confirmation, or an
    input-required round, is a further round).
    """

    e: ClassVar[str] = "sent"
    body: Body
    label: str
    step: StepRef | None = None
    round: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Event):
    """A message of the server's: a line on its stdout; over HTTP a body, or the data of an event of a stream.

    Attributes:
        at: Offset of its first byte in the whole stdout stream of this process, or in the body of the HTTP response.
        end: "lf" for a whole one; "none" for a tail that ended without newline; "cut" for one over the limit (body: its
            beginning).
        in_flight: Labels of the requests that were unanswered when it came, oldest first.
        after: Label of the last request that had been answered or sent before, if none is in flight.
        exchange: Over HTTP: number of the exchange in whose response it came.
    """

    e: ClassVar[str] = "received"
    at: int
    body: Body
    end: Literal["lf", "none", "cut"] = "lf"
    in_flight: tuple[str, ...] = ()
    after: str | None = None
    exchange: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest(Event):
    """The head of a request of ours over HTTP. Values of headers that hold credentials are masked.

    Attributes:
        exchange: Its number in this transcript, from 1.
        headers: "name: value" each, as sent.
        carries: Number of the `sent` event that is its body, None without one.
        resumes: The exchange whose event stream is to go on here.
        probe: What it is to find out, where it is no part of the session: a stable word.
    """

    e: ClassVar[str] = "http-request"
    exchange: int
    method: str
    url: str
    headers: tuple[str, ...] = ()
    carries: int | None = None
    resumes: int | None = None
    probe: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse(Event):
    """The head of its response; `headers` as they came, "name: value" each."""

    e: ClassVar[str] = "http-response"
    exchange: int
    status: int
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpData(Event):
    """A chunk of an event stream as it came: offset and size in the body; the bytes stand in the events."""

    e: ClassVar[str] = "http-data"
    exchange: int
    at: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent(Event):
    """An event of a stream; its data is the `received` that follows at once, unless it is no message (then: the body).

    Attributes:
        at: Offset of its first byte in the body of the response; `size` up to and with the empty line.
        event: Its name, "" where it has none.
        id: As it stands there.
        retry: In milliseconds.
        body: Data that is no message (an endpoint, a comment); empty else.
    """

    e: ClassVar[str] = "sse-event"
    exchange: int
    at: int
    size: int
    event: str = ""
    id: str | None = None
    retry: int | None = None
    body: Body = Body(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEnded(Event):
    """An exchange is over.

    Attributes:
        how: "complete" (the whole response came), "broken" (the connection ended first, or what came is no HTTP),
            "refused" (no connection) or "closed" (by us).
        size: How many bytes of a body came.
        body: What came of a body that is no message, its beginning.
    """

    e: ClassVar[str] = "http-ended"
    exchange: int
    how: Literal["complete", "broken", "refused", "closed"]
    size: int = 0
    detail: str = ""
    body: Body = Body(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stderr(Event):
    """The tail of the server's stderr, once, at its end. `size` is how many bytes came in all."""

    e: ClassVar[str] = "stderr"
    body: Body
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stdout(Event):
    """The tail of the stdout of a server over HTTP, which is free to write there what it likes."""

    e: ClassVar[str] = "stdout"
    body: Body
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStarted(Event):
    """A case began on this process."""

    e: ClassVar[str] = "case-started"
    suite: str
    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Event):
    """One attempt of a step began; everything in it is resolved (placeholders expanded, then masked).

    `expect` is the JSON form of an ExpectSpec (only the keys that are set). `open` (True or absent): any final answer
    is right, `expect` is empty, and whether the call succeeded is read from the answer alone.
    """

    e: ClassVar[str] = "step-started"
    step: StepRef
    action: str
    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    confirm: bool = False
    unlisted: bool = False
    open: bool | None = None
    timeout_s: float
    cancel_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """How one attempt of a step ended.

    `how`: "answered" (any final answer, right or wrong); "timed-out" (no answer within `timeout_s`); "died" (the
    process ended first); "lost" (what was to bring the answer ended without it, and the process lives); "unresolved"
    (a placeholder or capture has no value; nothing was sent); "no-token" (a confirmation whose first answer held no
    confirm_token); "cancelled" (we cancelled it; in a suite: and the server answered what came next); "retried"
    (answered, expectation not met, tried again; or the server had ended before it read the first step of a case, which
    is tried again on a fresh one).
    `detail` is for people.
    """

    e: ClassVar[str] = "step-ended"
    step: StepRef
    how: Literal["answered", "timed-out", "died", "lost", "unresolved", "no-token", "cancelled", "retried"]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEnded(Event):
    """A case ended.

    `how`: "completed", "stopped" (a step failed), "timed-out", "died", "lost", "interrupted", or "failed": a test of
    somebody else's that failed, whatever its calls came to.
    """

    e: ClassVar[str] = "case-ended"
    suite: str
    case: str
    how: Literal["completed", "stopped", "timed-out", "died", "lost", "interrupted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic(Event):
    """Something that the engine saw and no frame shows: `what` is a stable word, `detail` for people.

    Words: "timeout" (a request had no answer in time; detail: its label), "not-spoken" (the server does not speak
    this era), "write-blocked" (it has stopped
    reading what was sent), "still-reading" (it had not read all of it when the time was over), "still-coming" (nor had
    all of a line come: we cut it, not the server), "cut-short" (we closed its stdin in the middle of a line of ours),
    "stdin-closed",
    "restarted", "capture-missing" (detail: name and pointer), "children" (processes of the server's that were alive
    when a request had no answer in time; detail: their commands), "shares-stdin" (those of them whose stdin is the
    server's), "closing" (we closed its stdin while a request was open), "not-read" (the server ended without reading
    a request; detail: its label), "state-probe" (the next request bears a `requestState` that we have changed, left
    out or used before; detail: JSON that says which), "secret-told" (in the event before it stood a secret
    that the server has from its environment alone; it is masked there).

    `request` is the id of the request of which "timeout", "lost", "cancelled" and "not-read" speak, where it is known:
    several may be open under one label.

    In the transcript of a proxy also "refused": the guard did not let the server start; detail: why. Over HTTP also
    "client-left" (in the middle of a request's head; detail: after how many bytes) and "no-request" (it sent none).

    Over HTTP also "listening" (detail: the address and port that its socket is bound to), "lost" (a request can get no
    answer any more, though the server lives; detail: its label) and "session-lost" (the server no longer knows
    the session; detail: label of the request that was told so), and in the modern era "cancelled" (the stream of a
    request was closed, which cancels it; detail: its label).

    In the transcript of the comparing pass also "client" (which client), "client-log" (a warning of its log),
    "client-failed" (the pass could not be made, for no fault of the server's that is known) and "client-done" (the
    pass came to its end); without either of the last two it was cut short.
    """

    e: ClassVar[str] = "diagnostic"
    what: str
    detail: str = ""
    step: StepRef | None = None
    request: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted(Event):
    """The server asked the client for something, pushed or by `input_required`, and this is what it got.

    Attributes:
        method: "elicitation/create", "sampling/createMessage", "roots/list", or whatever it wrote.
        target: Label of the request of ours in whose course it came ("tools/call delete"), "" where that is not clear.
        message: What a person would have read; of a sampling request all its texts.
        mode: Of an elicitation: "form", "url", or what it wrote.
        schema: The requested schema of a form.
        answer: `{"result": …}` or `{"error": …}`, as it was sent.
        by: What the answer comes from, in words: "elicit", "answers[0]", "sampling[0]", "roots", "the test", "nothing".
        step: The step of that request.
    """

    e: ClassVar[str] = "prompted"
    method: str
    target: str = ""
    message: str = ""
    mode: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    step: StepRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSaw(Event):
    """What a user of the official client got for one thing that they asked of it.

    Attributes:
        action: "connect", or the method of a listing; each page of a listing is an event of its own.
        body: JSON of what was handed out: for "connect" what was negotiated; empty where an exception came.
        error: Name of the exception's class, "timed-out" where nothing came in time, "" where all went well.
        detail: The exception's text.
    """

    e: ClassVar[str] = "client-saw"
    action: str
    body: Body
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated(Event):
    """The stdout recording stopped: a stated limit was reached, or the server was stopped at an endless line."""

    e: ClassVar[str] = "truncated"
    reason: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process of the server's that outlived it, until we killed it; a container of its command's has the pid 0."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited(Event):
    """The server process is gone.

    Attributes:
        code: Exit code; negative is the signal.
        asked: Whether we had begun to shut it down. False: it ended by itself.
        ended_by: The step that ended it: "itself", "stdin-close", "term" or "kill".
        waited_s: Seconds from the close of stdin to the exit (0 if not asked).
        in_flight: Labels of the requests that it left unanswered.
        orphans: What was left of its process group or environment, and was killed.
    """

    e: ClassVar[str] = "exited"
    code: int
    asked: bool
    ended_by: Literal["itself", "stdin-close", "term", "kill"]
    waited_s: float = 0.0
    in_flight: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()


_KINDS: dict[str, type[Event]] = {
    kind.e: kind
    for kind in (
        Spawned,
        Sent,
        Received,
        HttpRequest,
        HttpResponse,
        HttpData,
        SseEvent,
        HttpEnded,
        Stderr,
        Stdout,
        CaseStarted,
        StepStarted,
        StepEnded,
        CaseEnded,
        Diagnostic,
        Prompted,
        ClientSaw,
        Truncated,
        Exited,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Everything of one server process. `name` is the file's name, e.g. "server-1.jsonl"; "probe-1.jsonl" is a process
    that was started only to see what it does with notifications that it does not know and with a line that is no JSON,
    "probe-2.jsonl" one that was sent a requestState that we had changed; they count for nothing else.

    `complete` is False when the file ended in mid-line or without an `Exited` event.
    """

    name: str
    events: Sequence[Event]
    complete: bool = True

    @property
    def is_probe(self) -> bool:
        """Whether it is of a process that was sent a line that is no JSON."""
        return self.name.startswith(f"{PROBE}-")

    @property
    def is_outside(self) -> bool:
        """Whether another process than the engine wrote it: a test suite of somebody's own, or a proxy."""
        return self.name.startswith(f"{OUTSIDE}-")

    @property
    def driver(self) -> str:
        """Who wrote an outside transcript, "pytest" or "proxy"; "" for the engine's own."""
        return self.name.split("-")[1] if self.is_outside else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """What became of one command of `[suites]` in one run.

    Attributes:
        exit: Its exit code, negative for a signal; None where it did not end by itself or was not started.
        outcome: "passed" (it ended with 0), "failed", "timed-out", "not-started" (`output` says why), "other-era":
            it picks its own era, and ran in the run of the cell's other era; or "other-runs": pytest has tests for
            other runs only.
        output: The end of what it printed, masked.
        transcripts: How many were written while it ran.
    """

    id: str
    exit: int | None = None
    outcome: Literal["passed", "failed", "timed-out", "not-started", "other-era", "other-runs"]
    output: str = ""
    transcripts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """run.json: what was run, with what, and how it ended.

    Attributes:
        plan: Fingerprint of the planned run that this is evidence of.
        build: Fingerprint of the build, "" where there was none.
        versions: Label of each role's choice -> the version that the backend itself reported ("" if it did not).
        server_info: `serverInfo` as the server gave it, {} before an answer.
        protocol: The protocol version in force, "" before an answer.
        capabilities: As the server declared them.
        client_capabilities: As we declared them.
        outcome: "finished" (every selected case was tried and the server was stopped), "not-spoken" (the era is
            not the server's), "failed" (an error ended it; see `errors`) or "interrupted".
        transport: How it was spoken to.
        cases: Names ("suite/case") of the cases that the run was to try.
        errors: {"kind", "message", "hint", "log"} each.
        command: What was started.
        commands: What became of the selected commands of `[suites]`, in order.
        stack_use: Which run of its stack it was: 1 on a fresh one, more on one that was reset after the others.
        stack_note: Why it had a fresh one where one that was reset was wanted, masked; else "".
    """

    key: RunKey
    plan: str
    runtime: Runtime | None
    build: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    server_info: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client_capabilities: Mapping[str, Any] = field(default_factory=dict)
    outcome: Literal["finished", "not-spoken", "failed", "interrupted"]
    cases: tuple[str, ...] = ()
    errors: tuple[Mapping[str, str], ...] = ()
    command: tuple[str, ...] = ()
    commands: tuple[CommandRecord, ...] = ()
    transport: Transport = "stdio"
    stack_use: int = 1
    stack_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One attempt of one run, as read back: the record, its transcripts, where it lies (for people).

    Attributes:
        client: Transcript of the comparing pass with the official client; None where none was made. What is in it
            covers nothing.
    """

    record: RunRecord
    transcripts: tuple[Transcript, ...]
    folder: str
    client: Transcript | None = None


def _body_to_json(body: Body, side: Mapping[bytes, str] | None) -> dict[str, Any]:
    if side is not None and len(body.data) > INLINE_LIMIT_BYTES:
        return {"sha256": side[body.data], "size": len(body.data)}
    try:
        return {"text": body.data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(body.data).decode("ascii")}


def event_to_json(event: Event, *, side: Mapping[bytes, str] | None = None) -> dict[str, Any]:
    """The flat JSON form of an event.

    Args:
        side: Maps the bytes of each large body to the sha256 under which its side file was written;
            None keeps every body inline.
    """
    out: dict[str, Any] = {"e": event.e}
    for item in dataclasses.fields(event):
        value = getattr(event, item.name)
        if isinstance(value, Body):
            out.update(_body_to_json(value, side))
        elif isinstance(value, StepRef):
            out[item.name] = dataclasses.asdict(value)
        elif item.name == "orphans":
            out[item.name] = [dataclasses.asdict(orphan) for orphan in value]
        elif isinstance(value, tuple):
            out[item.name] = list(value)
        elif value is not None:
            out[item.name] = value
    return out


def _body_from_json(data: Mapping[str, Any], bodies: Mapping[str, bytes]) -> Body:
    if "sha256" in data:
        return Body(bodies[data["sha256"]])  # a lost side file is a torn transcript, never an empty line
    if "b64" in data:
        return Body(base64.b64decode(data["b64"]))
    return Body(str(data.get("text", "")).encode("utf-8", "surrogatepass"))


def event_from_json(data: Mapping[str, Any], *, bodies: Mapping[str, bytes] | None = None) -> Event:
    """The event that `event_to_json` wrote.

    Args:
        bodies: Contents of the side files by sha256.
    Raises:
        ValueError: The object is no event of this format.
    """
    kind = _KINDS.get(str(data.get("e")))
    if kind is None:
        raise ValueError(f"unknown event kind {data.get('e')!r}")
    values: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if item.name == "body":
            values["body"] = _body_from_json(data, {} if bodies is None else bodies)
        elif item.name not in data:
            continue
        elif item.name == "step":
            values["step"] = StepRef(**data["step"])
        elif item.name == "orphans":
            values["orphans"] = tuple(Orphan(**orphan) for orphan in data["orphans"])
        else:
            value = data[item.name]
            values[item.name] = tuple(value) if isinstance(value, list) else value
    try:
        event = kind(**values)
    except TypeError as error:
        raise ValueError(f"event {data.get('n')} ({kind.e}): {error}") from None
    if wrong := misfit(event):
        raise ValueError(f"event {data.get('n')} ({kind.e}): {wrong} is not what it should be")
    return event


def record_to_json(record: RunRecord) -> dict[str, Any]:
    """run.json as an object."""
    out = dataclasses.asdict(record)
    out["schema"] = SCHEMA
    out.update(out.pop("key"))
    if not record.commands:
        del out["commands"]
    if record.transport == "stdio":
        del out["transport"]  # what it always was says nothing
    if record.stack_use == 1:
        del out["stack_use"]
    if not record.stack_note:
        del out["stack_note"]
    return out


def record_from_json(data: Mapping[str, Any]) -> RunRecord:
    """The record that `record_to_json` wrote.

    Raises:
        ValueError: Another schema, or not a run record.
    """
    if data.get("schema") != SCHEMA:
        raise ValueError(f"run.json has schema {data.get('schema')!r}, expected {SCHEMA}")
    era: Era = data["era"]
    values = {item.name: data[item.name] for item in dataclasses.fields(RunRecord) if item.name in data}
    for name in ("cases", "errors", "command"):
        values[name] = tuple(values.get(name, ()))
    values["commands"] = tuple(CommandRecord(**item) for item in values.get("commands", ()))
    key = RunKey(server=data["server"], backend=data["backend"], era=era, profile=data["profile"])
    record = RunRecord(key=key, **values)
    if wrong := misfit(record):
        raise ValueError(f"run.json: {wrong} is not what it should be")
    return record


def parse_lines(name: str, lines: Iterable[str], *, bodies: Mapping[str, bytes] | None = None) -> Transcript:
    """A transcript from its lines; a torn last line (a killed harness) leaves the rest readable."""
    events: list[Event] = []
    complete = False
    for line in lines:
        try:
            event = event_from_json(json.loads(line), bodies=bodies)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            complete = False
            break
        events.append(event)
        complete = isinstance(event, Exited)
    return Transcript(name=name, events=tuple(events), complete=complete)
