"""A lean JSON-RPC session of our own, in both eras: sends exactly what was asked, hides nothing, trusts nothing.

Handshake era: `initialize`, then plain requests; the server may send requests of its own. Modern era: every request
bears its protocol version, client and capabilities in `_meta`; a server that needs something answers `input_required`,
and the request is sent again under a new id with the answers. Ids are integers and strings by turns; the first is 1
and the second 0, so that a server which takes 0 for no id can begin, and what it does with 0 is seen apart. Whatever
comes that cannot be used is skipped: it is recorded already, and judged elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from harness import __version__
from harness.engine.answers import Answers, Prompt, Question, Reply
from harness.engine.pipe import Loss, Pipe, PipeClosed
from harness.engine.state import Twist
from harness.model.frame import message_in
from harness.model.outcome import answer_of, cut
from harness.model.plan import Action, Era
from harness.model.transcript import STATE_PROBE, Diagnostic, Prompted, StepRef

__all__ = [
    "DISCOVER_TIMEOUT_S",
    "HANDSHAKE_VERSIONS",
    "INPUT_ROUNDS",
    "MAX_PAGES",
    "MODERN_VERSION",
    "PROGRESS_TIMES",
    "Cancelled",
    "Died",
    "Final",
    "Listing",
    "Lost",
    "NotSpoken",
    "Notice",
    "Refused",
    "TimedOut",
    "WireSession",
]

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first; the first is offered
MODERN_VERSION = "2026-07-28"
DISCOVER_TIMEOUT_S = 10.0
INPUT_ROUNDS = 10  # how often one request may come back for input
MAX_PAGES = 500
MAX_PROMPTS = 10_000
MAX_NOTICES = 10_000
PROGRESS_TIMES = 10  # its time may a request take in all where progress gives it more
MAX_SCHEMA_CHARS = 20_000  # of what is recorded of a prompt beside the line that it came in
STATE_ONLY_WAIT_S = 0.1  # before the next round where the server wants nothing but time
CLOSING_S = 0.25  # from the close of its stdin to the end of a process that ends
MAX_CHILDREN = 5  # that are named
FRAMED_WAIT_S = 1.0  # how long we wait on where stdout begins with a Content-Length header

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022
_META = "io.modelcontextprotocol/"
_METHODS: Mapping[Action, tuple[str, str]] = {
    "call": ("tools/call", "name"),
    "read_resource": ("resources/read", "uri"),
    "get_prompt": ("prompts/get", "name"),
}
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class TimedOut(Exception):
    """No answer in time; `label` is the request's, `id` its id, "" where no time was left to send it.

    Args:
        within: The time in the words of whoever asked for it ("within 0.5 s"), not what was left of it.
    """

    def __init__(self, label: str, within: str, id: int | str) -> None:  # noqa: A002 - it is called so
        sent = f"no answer to {label} {within}"
        super().__init__(sent if id != "" else f"{label} was not sent: no time was left for it")
        self.label = label
        self.id = id


class Cancelled(Exception):
    """We have cancelled the request, as was asked for; no answer to it is waited for."""


class Died(Exception):
    """No answer can come any more: the server has ended, or was stopped; the message says why.

    Attributes:
        untouched: The server ended without having read anything of the request, or before it was sent.
    """

    def __init__(self, why: str, *, untouched: bool = False) -> None:
        super().__init__(why)
        self.untouched = untouched


class Lost(Died):
    """No answer can come to this request, though the server lives: what was to bring it has ended without it."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.why)
        self.loss = loss
        self.status = loss.status
        self.hint = loss.hint


class NotSpoken(Exception):
    """The server does not speak this era; the message is its own word for that."""


class Refused(Exception):
    """The server speaks this era, and refused to begin; the message holds its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """The last message of an exchange.

    Attributes:
        message: The JSON-RPC response object.
        round: Number of the request that it answers, from 1.
        problem: "" if it is an answer; else why the server's wish for input could not be met.
    """

    message: Mapping[str, Any]
    round: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notification of the server's; `target` is the label of the one request that was under way, "" else."""

    method: str
    params: Mapping[str, Any]
    target: str = ""


@dataclass(slots=True, kw_only=True)
class _Clock:
    """How long a request may take yet; each progress notification of its winds it up again, until `until`."""

    key: int | str
    method: str
    label: str
    timeout_s: float
    within: str
    step: StepRef | None
    until: float
    timer: asyncio.TimerHandle
    best: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class Listing:
    """All pages of a list; `problem` says why it is not all of it, "" if it is."""

    items: list[Any] = field(default_factory=list)
    pages: int = 0
    problem: str = ""


class WireSession:
    """One session with one server process.

    Args:
        answers: What is declared, and what the server gets where it asks for something; None: nothing at all.
        zero: Whether a request may have the id 0.
    Attributes:
        answered: Whether the server has answered any request.
        server_info: As it gave it.
        protocol: The version in force.
        capabilities: As the server declared them.
        prompts: What the server asked for, with what it got, in order; the last MAX_PROMPTS of them.
        notices: Its notifications, likewise.
        stateful: The steps, as often as such an answer came, in which the server gave a `requestState`.
        twist: What is done to the first `requestState` that comes; for probes.
    """

    def __init__(self, pipe: Pipe, *, era: Era, answers: Answers | None = None, zero: bool = True) -> None:
        self.era = era
        self.answers = answers or Answers()
        self.client_capabilities: dict[str, Any] = self.answers.capabilities
        self.prompts: deque[Prompt] = deque(maxlen=MAX_PROMPTS)
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.stateful: list[StepRef] = []
        self.twist: Twist | None = None
        self.answered = False
        self.server_info: Mapping[str, Any] = {}
        self.protocol = ""
        self.capabilities: Mapping[str, Any] = {}
        self._pipe = pipe
        self._recorder = pipe.recorder
        self._loop = asyncio.get_running_loop()
        self._ids = _ids(zero)
        self._starts: dict[int | str, int] = {}  # id -> where in the bytes of stdin its request begins
        self._launched: Mapping[int, str] = {}  # what there was of the server's children when the session began
        self._waiting: dict[int | str, asyncio.Future[Mapping[str, Any]]] = {}
        self._unanswered: dict[int | str, str] = {}  # id -> label; also those that we have given up
        self._courses: dict[int | str, tuple[str, StepRef | None]] = {}  # label and step of each that is waited for
        self._clocks: dict[int | str, _Clock] = {}  # by progress token
        self._replies: set[asyncio.Task[None]] = set()  # answers to the server that somebody is still thinking about
        self._labels: tuple[str, ...] = ()
        self._last: str | None = None
        self._framed = asyncio.Event()
        client = {"name": "mcp-rollcall", "version": __version__}
        self._client = client
        self._meta: dict[str, Any] = {
            f"{_META}protocolVersion": MODERN_VERSION,
            f"{_META}clientInfo": client,
            f"{_META}clientCapabilities": self.client_capabilities,
        }
        if self.answers.profile.log_level is not None:
            self._meta[f"{_META}logLevel"] = self.answers.profile.log_level
        pipe.on_line = self._line
        pipe.on_dead = self._dead
        pipe.on_lost = self._lost
        pipe.traffic = self._traffic

    @property
    def meta(self) -> Mapping[str, Any]:
        """What every request of the modern era bears."""
        return self._meta

    # --- the beginning ------------------------------------------------------------------------------

    async def open(self, *, timeout_s: float) -> None:
        """Begins the session in its era.

        Raises:
            NotSpoken: It answered that it does not speak this era.
            Refused: It answered with another error, or with something that is no answer.
            TimedOut: It stayed silent.
            Died: It ended first.
        """
        if self.era == "modern":
            await self._discover(timeout_s)
        else:
            await self._initialize(timeout_s)
            await self._ask_for_logs(timeout_s)
        self._launched = self._pipe.process.family()

    async def _initialize(self, timeout_s: float) -> None:
        params = {
            "protocolVersion": HANDSHAKE_VERSIONS[0],
            "capabilities": self.client_capabilities,
            "clientInfo": self._client,
        }
        message = await self._first("initialize", params, timeout_s)
        if "error" in message:
            code = message["error"].get("code") if isinstance(message["error"], Mapping) else None
            kind = NotSpoken if code in (UNSUPPORTED_VERSION, METHOD_NOT_FOUND) else Refused
            raise kind(f"initialize was answered with an error: {self._quote(message['error'])}")
        result = message.get("result")
        if not isinstance(result, Mapping) or not isinstance(result.get("protocolVersion"), str):
            raise Refused(f"initialize was answered with something that is no result of it: {self._quote(result)}")
        self.protocol = result["protocolVersion"]
        self.capabilities = _mapping(result.get("capabilities"))
        self.server_info = _mapping(result.get("serverInfo"))
        if self.protocol not in HANDSHAKE_VERSIONS:
            version = self._cut(self.protocol, 60)
            raise Refused(
                f"the server answered initialize with protocol version {version}, which mcp-rollcall does not "
                f"speak in this era ({', '.join(HANDSHAKE_VERSIONS)}): the server was not tested"
            )
        self.notify("notifications/initialized")

    async def _ask_for_logs(self, timeout_s: float) -> None:
        """Sets the level of log notifications where they are wanted and offered; no answer is judged elsewhere."""
        level = self.answers.profile.log_level
        if level is not None and "logging" in self.capabilities:
            with suppress(TimedOut):
                await self.request("logging/setLevel", {"level": level}, label="logging/setLevel", timeout_s=timeout_s)

    async def _discover(self, timeout_s: float) -> None:
        message = await self._first("server/discover", {}, timeout_s)
        if "error" in message:
            raise NotSpoken(f"server/discover was answered with an error: {self._quote(message['error'])}")
        result = message.get("result")
        versions = result.get("supportedVersions") if isinstance(result, Mapping) else None
        if not isinstance(result, Mapping) or not isinstance(versions, list):
            raise NotSpoken(
                f"server/discover was answered with something that is no result of it: {self._quote(result)}"
            )
        if MODERN_VERSION not in versions:
            raise NotSpoken(f"server/discover names these versions only: {self._quote(versions)}")
        self.protocol = MODERN_VERSION
        self.capabilities = _mapping(result.get("capabilities"))
        meta = _mapping(result.get("_meta"))
        self.server_info = _mapping(meta.get(f"{_META}serverInfo", result.get("serverInfo")))

    async def _first(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """The first request; a stdout framed as LSP does is not waited for to the end."""
        request = asyncio.ensure_future(self.request(method, params, label=method, timeout_s=timeout_s))
        framed = asyncio.ensure_future(self._framed.wait())
        try:
            await asyncio.wait((request, framed), return_when=asyncio.FIRST_COMPLETED)
            if not request.done():
                await asyncio.wait((request,), timeout=FRAMED_WAIT_S)
            if not request.done():
                raise Refused("stdout is framed with Content-Length headers; MCP's stdio is one JSON message a line")
            return request.result()
        finally:
            framed.cancel()
            request.cancel()

    # --- requests -----------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        label: str,
        timeout_s: float,
        step: StepRef | None = None,
        number: int = 1,
        limit_s: float | None = None,
        cancel_after_s: float | None = None,
        within: str = "",
    ) -> Mapping[str, Any]:
        """Sends one request and gives the response object, whatever is in it.

        Args:
            limit_s: Progress is asked for, and gives the request its time again, up to so much in all.
            cancel_after_s: When it is cancelled, if it has no answer then.
            within: The time that was asked for, in words, where `timeout_s` is only what is left of it.
        Raises:
            Cancelled: That has happened.
            TimedOut: After `timeout_s`; the server was told by notifications/cancelled. At once, and without sending
                anything, where that is not above zero.
            Died: No answer can come.
            ValueError: The parameters are no JSON (NaN, for one); nothing was sent.
        """
        if self._pipe.dead or self._pipe.process.look():
            raise Died(self._pipe.dead or self._pipe.ended, untouched=self._pipe.process.ended.is_set())
        within = within or f"within {timeout_s:g} s"
        if timeout_s <= 0:
            raise TimedOut(label, within, "")
        key = next(self._ids)
        token = _token(key) if limit_s is not None else None
        meta = self._meta if self.era == "modern" else {}
        meta = meta if token is None else {**meta, "progressToken": token}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": key, "method": method}
        if meta:
            body["params"] = {"_meta": meta, **(params or {})}
        elif params:
            body["params"] = params
        line = _encoded(body)
        future: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        self._waiting[key] = future
        self._unanswered[key] = label
        self._labels = (*self._labels, label)
        self._starts[key] = self._pipe.sent_bytes
        self._courses[key] = (label, step)
        await self._send(key, line, label, step, number)
        clock = _Clock(
            key=key,
            method=method,
            label=label,
            timeout_s=timeout_s,
            within=within,
            step=step,
            until=self._loop.time() + (limit_s or 0.0),
            timer=self._loop.call_later(max(0.0, timeout_s), self._expire, key, method, label, within, step),
        )
        if token is not None:
            self._clocks[token] = clock
        after = None if cancel_after_s is None else self._loop.call_later(cancel_after_s, self._cancel, key, method)
        try:
            return await future
        except asyncio.CancelledError:  # whoever asked has gone; an answer may come yet, and is nobody's
            self._give_up(key, method, "the caller has gone")
            raise
        finally:
            clock.timer.cancel()
            if after is not None:
                after.cancel()
            if token is not None:
                self._clocks.pop(token, None)
            self._waiting.pop(key, None)
            self._starts.pop(key, None)
            self._courses.pop(key, None)

    def _cancel(self, key: int | str, method: str) -> None:
        future = self._waiting.get(key)
        if future is not None and not future.done():
            self._give_up(key, method, "the test cancels it")
            future.set_exception(Cancelled)

    def _give_up(self, key: int | str, method: str, reason: str) -> None:
        """The server is told that a request is waited for no longer, in the way of its pipe and of the era."""
        if method in ("initialize", "server/discover"):
            return
        if self._pipe.abandon(key):
            self._note_of(key, "cancelled", self._unanswered.get(key, ""))
        else:
            self.notify("notifications/cancelled", {"requestId": key, "reason": reason})

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification; a closed stdin is no error."""
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            body["params"] = params
        self._send_quietly(_encoded(body), method)

    def send_line(self, line: bytes, label: str) -> None:
        """Sends bytes as they are, as one line; for probes."""
        self._send_quietly(line, label)

    async def perform(
        self,
        action: Action,
        target: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        step: StepRef | None = None,
        number: int = 1,
        limit: float | None = None,
        cancel_after_s: float | None = None,
        within: str = "",
    ) -> Final:
        """One call, resource or prompt, with all rounds of input that the server asks for in the modern era.

        Args:
            deadline: By `time.monotonic()`, for all rounds together.
            number: Of its first request within the step, from 1.
            limit: Where the profile asks for progress: how long that may put the deadline off; without it
                PROGRESS_TIMES of what is left now.
            cancel_after_s: When it is cancelled, whichever round it stands in.
            within: The time that was asked for, in words; what is left until `deadline` without it.
        Raises:
            TimedOut, Cancelled, Died, ValueError: As `request`.
        """
        method, name = _METHODS[action]
        params: dict[str, Any] = {name: target}
        if action != "read_resource":
            params["arguments"] = arguments
        label = f"{method} {target}"
        more: Mapping[str, Any] = {}
        twisted = False
        began = time.monotonic()
        whole = deadline - began
        within = within or f"within {whole:g} s"
        limit = began + PROGRESS_TIMES * whole if limit is None else limit
        for count in range(INPUT_ROUNDS + 1):
            now = time.monotonic()
            left, most = deadline - now, None
            if self.answers.profile.progress:
                left, most = min(whole, limit - now), limit - now
            current = number + count
            after = None if cancel_after_s is None else max(0.0, began + cancel_after_s - now)
            try:
                message = await self.request(
                    method,
                    {**params, **more},
                    label=label,
                    timeout_s=left,
                    step=step,
                    number=current,
                    limit_s=most,
                    cancel_after_s=after,
                    within=within,
                )
            except Died as error:
                error.untouched = error.untouched and current == 1  # an earlier round was read
                raise
            result = message.get("result")
            asked = (
                self.era == "modern" and isinstance(result, Mapping) and result.get("resultType") == "input_required"
            )
            if twisted and self.twist is not None:  # nothing goes on with a call whose state was changed
                self.twist.taken = not asked and not answer_of(action, message).is_error
                return Final(message=message, round=current, problem="it was a probe" if asked else "")
            if not asked or not isinstance(result, Mapping):
                if self.twist is not None and self.twist.is_for_replay and "requestState" in more:
                    self.twist.used = True
                    self._recorder.add(Diagnostic, what=STATE_PROBE, detail=_dump({"kind": self.twist.kind}), step=step)
                    with suppress(TimedOut):  # a round that has been answered, a second time
                        await self.request(
                            method, {**params, **more}, label=label, timeout_s=left, step=step, number=current + 1
                        )
                return Final(message=message, round=current)
            answers, problem = await self._input(result, label, step)
            if count == INPUT_ROUNDS:
                problem = problem or f"input was required {INPUT_ROUNDS + 1} times"
            if problem:
                self._recorder.add(Diagnostic, what="input-required", detail=problem, step=step)
                return Final(message=message, round=current, problem=problem)
            more = {key: value for key, value in (("inputResponses", answers),) if value}
            if "requestState" in result:
                if step is not None:
                    self.stateful.append(step)
                more, twisted = self._with_state(more, result["requestState"], step)
            if not answers:
                await asyncio.sleep(STATE_ONLY_WAIT_S)
        raise AssertionError("unreachable")

    def _with_state(self, more: Mapping[str, Any], state: Any, step: StepRef | None) -> tuple[Mapping[str, Any], bool]:
        """What the next round sends: the state as it came, or twisted, and whether it is."""
        changed = None if self.twist is None else self.twist.of(state)
        if self.twist is None or changed is None:
            return {**more, "requestState": state}, False
        self.twist.used = True
        self._recorder.add(Diagnostic, what=STATE_PROBE, detail=_dump(changed[1]), step=step)
        return dict(more) if changed[0] is None else {**more, "requestState": changed[0]}, True

    async def list_all(self, method: str, key: str, *, timeout_s: float) -> Listing:
        """All pages of a list.

        Args:
            key: Name of the array in each result.
        Raises:
            TimedOut, Died: As `request`.
        """
        listing = Listing()
        params: dict[str, Any] = {}
        seen: set[str] = set()
        while listing.pages < MAX_PAGES:
            message = await self.request(method, params, label=method, timeout_s=timeout_s)
            listing.pages += 1
            result = message.get("result")
            if "error" in message:
                listing.problem = f"{method} was answered with an error: {self._quote(message['error'])}"
                return listing
            if not isinstance(result, Mapping) or not isinstance(result.get(key), list):
                listing.problem = f"the result of {method} holds no array {key!r}"
                return listing
            listing.items += result[key]
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return listing
            if cursor in seen:
                listing.problem = f"{method} gave the cursor {self._cut(cursor, 60)} a second time"
                return listing
            seen.add(cursor)
            params = {"cursor": cursor}
        listing.problem = f"{method} had a next page after {MAX_PAGES} pages"
        return listing

    def prompts_of(self, step: StepRef) -> list[str]:
        """Messages of the elicitations that came in one attempt of a step, in order."""
        asked = [prompt.question for prompt in self.prompts if prompt.question.step == step]
        return [question.message for question in asked if question.method == "elicitation/create"]

    # --- from the server ----------------------------------------------------------------------------

    def _line(self, line: bytes) -> None:
        message = message_in(line)
        if message is None:
            if not self.answered and line[:15].lower().startswith(b"content-length:"):
                self._framed.set()
            return
        if "method" in message:
            if "id" in message:
                self._asked(message)
            else:
                self._noticed(message)
        elif "result" in message or "error" in message:
            self._answer(message)

    def _answer(self, message: Mapping[str, Any]) -> None:
        key = self._known(message.get("id"))
        if key is None and message.get("id") is None and list(self._unanswered) == [0]:
            key = 0  # it takes 0 for no id; that is judged
        if key is None:
            return
        label = self._unanswered.pop(key)
        self._labels = tuple(self._unanswered.values())
        self._last = label
        self.answered = True
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(message)

    def _known(self, key: Any) -> int | str | None:
        """The open request that an id means; one equal in print only is taken: the run goes on, the id is judged."""
        if not isinstance(key, str | int | float) or isinstance(key, bool):
            return None
        if isinstance(key, float):
            key = int(key) if key.is_integer() else str(key)
        same: int | str = key
        if same in self._unanswered:
            return same
        if not isinstance(same, str):
            same = str(same) if abs(same) < 10**9 else ""
        elif same.isascii() and same.isdigit() and len(same) < 10:
            same = int(same)
        return same if same in self._unanswered else None

    def _noticed(self, message: Mapping[str, Any]) -> None:
        """A notification; progress of a request that asked for it gives that its time again."""
        method, params = message["method"], _mapping(message.get("params"))
        target = next(iter(self._courses.values()))[0] if len(self._courses) == 1 else ""
        self.notices.append(Notice(method=str(method), params=params, target=target))
        token, progress = params.get("progressToken"), params.get("progress")
        if method != "notifications/progress" or not isinstance(token, str | int) or isinstance(token, bool):
            return
        clock = self._clocks.get(token)
        if clock is None or not isinstance(progress, int | float) or not progress > clock.best:
            return
        clock.best = progress
        clock.timer.cancel()
        left = max(0.0, min(clock.timeout_s, clock.until - self._loop.time()))
        clock.timer = self._loop.call_later(
            left, self._expire, clock.key, clock.method, clock.label, clock.within, clock.step
        )

    def _asked(self, message: Mapping[str, Any]) -> None:
        """A request that the server pushed."""
        if message["method"] == "ping":
            self._respond(message, {"result": {}})
            return
        label, step = next(iter(self._courses.values())) if len(self._courses) == 1 else ("", None)
        question = _question(message["method"], message.get("params"), label, step)
        reply = self.answers.answer(question)
        if isinstance(reply, Reply):
            self._replied(message, question, reply)
            return
        task = asyncio.ensure_future(self._replied_later(message, question, reply))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    async def _replied_later(self, message: Mapping[str, Any], question: Question, reply: Awaitable[Reply]) -> None:
        self._replied(message, question, await reply)

    def _replied(self, message: Mapping[str, Any], question: Question, reply: Reply) -> None:
        self._note(question, reply)
        self._respond(message, reply.body)

    def _respond(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        try:
            line = _encoded({"jsonrpc": "2.0", "id": message["id"], **answer})
        except ValueError:
            return
        method = message["method"]
        self._send_quietly(line, f"answer to {self._masked(method) if isinstance(method, str) else '?'}"[:120])

    def _note(self, question: Question, reply: Reply) -> None:
        """Keeps and records a prompt with what it got."""
        self.prompts.append(Prompt(question=question, reply=reply))
        self._recorder.add(
            Prompted,
            method=question.method,
            target=question.target,
            message=str(self._masked(question.message))[:MAX_SCHEMA_CHARS],
            mode=question.mode,
            schema=_small(question.schema),
            answer=_small(reply.body),
            by=reply.by,
            step=question.step,
        )

    async def _input(self, result: Mapping[str, Any], label: str, step: StepRef | None) -> tuple[dict[str, Any], str]:
        """Answers to all that an input_required result asks for, or why there are none."""
        asked = result.get("inputRequests")
        if asked is None:
            asked = {}
        if not isinstance(asked, Mapping) or (not asked and "requestState" not in result):
            return {}, "input is required, and neither inputRequests nor requestState say what"
        answers: dict[str, Any] = {}
        problem = ""
        for key, request in asked.items():
            wish = request if isinstance(request, Mapping) else {}
            question = _question(wish.get("method"), wish.get("params"), label, step)
            given = self.answers.answer(question)
            reply = given if isinstance(given, Reply) else await given
            self._note(question, reply)
            if reply.error is None:
                answers[key] = dict(reply.result or {})
            elif reply.by == "nothing":
                what = f"{self._cut(question.method, 60)}{f' of mode {question.mode}' if question.mode else ''}"
                problem = problem or f"the server asks for {what}, which the client has not declared"
            else:
                problem = problem or f"the client refused what the server asks for: {reply.error['message']}"
        return ({}, problem) if problem else (answers, "")

    # --- inside -------------------------------------------------------------------------------------

    def _masked(self, text: str) -> str:
        masked = self._recorder.masked_json(text)
        return str(masked)

    def _cut(self, text: str, limit: int = 300) -> str:
        """For messages: masked first, so that no half of a secret is left."""
        return cut(self._masked(text), limit)

    def _quote(self, value: Any) -> str:
        try:
            return self._cut(json.dumps(value, ensure_ascii=False))
        except (ValueError, RecursionError):
            return "(nested too deeply)"

    def _traffic(self) -> tuple[tuple[str, ...], str | None]:
        return self._labels, self._last

    async def _send(self, key: int | str, line: bytes, label: str, step: StepRef | None, number: int) -> None:
        self._recorder.sent(line, label, step, number)
        self._last = label
        try:
            self._pipe.send(line)
        except PipeClosed:
            self._waiting.pop(key)
            with anyio.move_on_after(CLOSING_S):  # a process that ends closes its pipes first
                await self._pipe.process.ended.wait()
            if not self._pipe.process.ended.is_set():
                raise Died("the server closed its stdin") from None
            self._note_of(key, "not-read", label)
            raise Died(self._pipe.ended, untouched=True) from None

    def _note_of(self, key: int | str, what: str, label: str) -> None:
        """Notes something of one request, while it is waited for."""
        step = self._courses.get(key, ("", None))[1]
        self._recorder.add(Diagnostic, what=what, detail=label, step=step, request=key)

    def _send_quietly(self, line: bytes, label: str) -> None:
        if self._pipe.dead or self._pipe.exit is not None:
            return
        self._recorder.sent(line, label)
        try:
            self._pipe.send(line)
        except PipeClosed:
            return

    def _expire(self, key: int | str, method: str, label: str, within: str, step: StepRef | None) -> None:
        future = self._waiting.get(key)
        if future is None or future.done():
            return
        self._note_of(key, "timeout", label)
        if unsent := self._pipe.unsent:
            reading = self._pipe.reading
            detail = f"the server {'was still reading' if reading else 'has stopped reading'} its stdin; {unsent} bytes"
            what = "still-reading" if reading else "write-blocked"
            self._recorder.add(Diagnostic, what=what, detail=f"{detail} wait", step=step)
        if self._pipe.coming:
            detail = f"{len(self._pipe.unfinished)} bytes without a newline had come, and more were coming"
            self._recorder.add(Diagnostic, what="still-coming", detail=detail, step=step)
        elif self._pipe.unfinished:
            self._recorder.add(
                Diagnostic,
                what="partial-line",
                detail=_broken(self._recorder.masked(self._pipe.unfinished), label),
                step=step,
            )
        self._children(step)
        self._give_up(key, method, f"no answer {within}")
        future.set_exception(TimedOut(label, within, key))

    def _children(self, step: StepRef | None) -> None:
        """Notes what runs under the server that was not there when the session began."""
        if not self.answered:
            return
        found = self._pipe.process.children(self._launched)
        for what, some in (("children", found), ("shares-stdin", [child for child in found if child.reads])):
            if some:
                detail = "; ".join(self._cut(child.command, 200) for child in some[:MAX_CHILDREN])
                self._recorder.add(Diagnostic, what=what, detail=detail, step=step)

    def _lost(self, key: int | str, loss: Loss) -> None:
        label = self._unanswered.pop(key, None)
        if label is None:
            return
        self._labels = tuple(self._unanswered.values())
        self._last = label
        self._note_of(key, "lost", label)
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_exception(Lost(loss))

    def _dead(self, why: str) -> None:
        ended = self._pipe.process.ended.is_set() and self._pipe.exit is None
        for key, future in self._waiting.items():
            if future.done():
                continue
            untouched = ended and self._pipe.unread_from(self._starts[key])
            if untouched:
                self._note_of(key, "not-read", self._unanswered[key])
            future.set_exception(Died(why, untouched=untouched))


def _ids(zero: bool) -> Iterator[int | str]:
    """1, 0, "2", 3, "4", 5, …: no two of them are equal in print."""
    yield 1
    if zero:
        yield 0
    number = 2
    while True:
        yield number if number % 2 else str(number)
        number += 1


def _token(key: int | str) -> int | str:
    """A progress token that cannot be taken for the id of its request; strings and numbers by turns, too."""
    return f"progress-{key}" if isinstance(key, int) else 100_000 + int(key)


def _encoded(message: Mapping[str, Any]) -> bytes:
    text = _dump(message)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be sent escaped
        return json.dumps(message, allow_nan=False).encode("ascii")


def _question(method: Any, params: Any, label: str, step: StepRef | None) -> Question:
    return Question(method=method if isinstance(method, str) else "?", params=_mapping(params), target=label, step=step)


def _small(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The value if it can be kept with an event, else nothing: the line that holds it is kept anyway."""
    try:
        return value if len(_dump(value)) <= MAX_SCHEMA_CHARS else {}
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _broken(data: bytes, label: str) -> str:
    first, last = data[:60].decode("utf-8", "backslashreplace"), data[-60:].decode("utf-8", "backslashreplace")
    return f"{len(data)} bytes came without a newline, and no more while {label} waited: {first!r} … {last!r}"
