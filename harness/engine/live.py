"""One server for somebody else's code: started, asked call by call, recorded like a suite's, and always ended.

Nothing here holds a task or a cancel scope open: servers can be closed in any order and by any task of their loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn, TypeVar

import anyio
import regex

from harness.engine.answers import PLAIN, Answers, Hook
from harness.engine.answers import Prompt as Seen
from harness.engine.cases import CaseHow, LiveCase, current_case, on_end
from harness.engine.container import container_run
from harness.engine.dotenv import foreign_targets, named_dotenv_files
from harness.engine.environment import server_environment
from harness.engine.evidence import EvidenceLost
from harness.engine.guard import check_targets
from harness.engine.mask import Masker, is_secret_name
from harness.engine.pipe import Pipe
from harness.engine.process import Exit
from harness.engine.record import Recorder
from harness.engine.scope import Scope, open_scope
from harness.engine.start import NOT_THIS_ERA, Start, free_port
from harness.engine.stdio import elapsed_ms
from harness.engine.suite import CONFIRM_TOKEN
from harness.engine.tail import describe_code
from harness.engine.wire import DISCOVER_TIMEOUT_S, Died, Final, Lost, NotSpoken, Refused, TimedOut, WireSession
from harness.errors import (
    CallError,
    ConfigError,
    ExpectedError,
    ListError,
    MisuseError,
    NoAnswer,
    NoToken,
    ServerClosed,
    ServerDied,
    ServerError,
    ToolError,
)
from harness.model.live import Became, Called, Ended, Notification, Prompt, Result, result_of
from harness.model.outcome import Answer, answer_of, cut, cut_json, expect_to_json, looks_like_an_error, mismatches
from harness.model.plan import CALL_TIMEOUT_S, ERAS, START_TIMEOUT_S, Action, Elicit, Era, ExpectSpec, ProfileSpec
from harness.model.transcript import (
    BODIES_DIR,
    OUTSIDE,
    CaseEnded,
    CaseStarted,
    Diagnostic,
    Event,
    StepRef,
)

__all__ = ["KEPT", "LiveServer", "LiveSpec", "open_live", "outside_name", "to_the_end"]

KEPT = 10_000  # calls that are remembered
PORT = "${port}"
RECENT_LINES = 5
KEPT_NOTES = 20
_NOTES = {  # what the session saw when a request had no answer in time
    "write-blocked": "",
    "still-reading": "",
    "still-coming": "stdout: ",
    "partial-line": "stdout: ",
    "children": "it has started, and they run: ",
    "shares-stdin": "of these share its stdin, and may take what is meant for it: ",
}
STDERR_LINES = 20
T = TypeVar("T")
_spoken: dict[tuple[Any, ...], Era] = {}  # what a probe of the same command found, in this process


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSpec:
    """How a server is started.

    Attributes:
        env: Its whole environment besides the base list.
        ready_env: Its whole environment as the engine of a run that stands gives it; `env` comes on top.
        era: None: whatever it speaks, which is probed.
        tried: Whether the era is only tried: a server that does not speak it is no error, and leaves no transcript.
        elicit: How elicitations are answered, where the profile does not say.
        profile: What the client declares and answers.
        hook: Asked before the profile's answers.
        evidence: The folder of the transcript; None: one that goes when the server is closed.
        began: The run's beginning by `time.monotonic()`; None: now.
        allowed: Every (host, port) to which it may be pointed; `names` are services inside the stack.
        url: Where it is to listen, over HTTP; `${port}` in it, in `argv` and in `env` is a port that is chosen for it.
        secrets: To be masked.
    """

    argv: tuple[str, ...]
    name: str = ""
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    ready_env: Mapping[str, str] | None = None
    bin: Path | None = None
    era: Era | None = None
    tried: bool = False
    elicit: Elicit | None = None
    profile: ProfileSpec = PLAIN
    hook: Hook | None = None
    evidence: Path | None = None
    began: float | None = None
    allowed: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()
    url: str = ""
    own_port: int | None = None
    folders: tuple[Path, ...] = ()
    reads_dotenv: bool = True
    secrets: tuple[str, ...] = ()
    call_timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S

    def answers(self) -> Answers:
        """What the client declares and answers, for a new session."""
        profile = self.profile
        if not profile.elicits and (self.elicit is not None or self.hook is not None):
            profile = replace(profile, elicit=self.elicit or "decline")
        return Answers(profile, hook=self.hook)


def outside_name(driver: str = "pytest") -> str:
    """The name of a transcript that is written into an attempt from outside of the engine; names sort by time."""
    return f"{OUTSIDE}-{driver}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{token_hex(4)}.jsonl"


class LiveRecorder(Recorder):
    """A recorder that remembers what the session noted of the last requests without an answer."""

    def __init__(self, path: Path, *, bodies: Path, masker: Masker, began: float) -> None:
        super().__init__(path, bodies=bodies, masker=masker, began=began)
        self._notes: deque[tuple[StepRef | None, str, str]] = deque(maxlen=KEPT_NOTES)

    def add(self, kind: type[Event], **fields: Any) -> None:
        """Writes one event."""
        super().add(kind, **fields)
        if kind is Diagnostic and fields["what"] in _NOTES:
            self._notes.append((fields.get("step"), fields["what"], self.masked_json(fields.get("detail", ""))))

    def notes_of(self, step: StepRef | None) -> list[tuple[str, str]]:
        """What was noted of a step, and is told only once."""
        found = [(what, detail) for owner, what, detail in self._notes if owner == step]
        self._notes.clear()
        return found


@dataclass(slots=True, eq=False)
class _Call:
    """A call while it waits, and what became of it; see `Called`."""

    tool: str
    action: str
    arguments: Mapping[str, Any]
    case: str
    became: Became = "open"
    detail: str = ""


class LiveServer:
    """A server that stands; made by `open_live`. Everything is done on the event loop that opened it.

    Attributes:
        transcript: The file in which everything is recorded.
        timed_out: Whether any request had no answer in time.
        listed: Whether its tools were listed.
        afterwards: What is done once it is closed: its stack is taken down.
    """

    def __init__(self, spec: LiveSpec, pipe: Pipe, session: WireSession, *, masker: Masker) -> None:
        self.spec = spec
        self.transcript = pipe.recorder.path
        self._calls: deque[_Call] = deque(maxlen=KEPT)
        self.timed_out = False
        self.listed = False
        self._pipe = pipe
        self._session = session
        assert isinstance(pipe.recorder, LiveRecorder)
        self._recorder = pipe.recorder
        self._masker = masker
        self._resources = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._stopping: asyncio.Future[Exit] | None = None
        self.afterwards: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._after: asyncio.Future[None] | None = None
        self._closed = False
        self._over = False  # nothing more is recorded
        self._case: LiveCase | None = None
        self._recent: deque[bytes] = deque(maxlen=RECENT_LINES)
        self._line = pipe.on_line
        pipe.on_line = self._seen
        self._resources.callback(on_end(self._case_ended_somewhere))

    def owns(self, resources: ExitStack) -> None:
        """What is given up when the server is closed."""
        self._resources.push(resources)

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def era(self) -> Era:
        """The era that is spoken with it."""
        return self._session.era

    @property
    def protocol(self) -> str:
        """The protocol version in force."""
        return self._session.protocol

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As the server declared them."""
        return self._session.capabilities

    @property
    def server_info(self) -> Mapping[str, Any]:
        """As the server gave it."""
        return self._session.server_info

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._pipe.process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything."""
        return not self._closed and not self._pipe.dead and self._pipe.exit is None

    @property
    def healthy(self) -> bool:
        """Whether it is alive and has answered every request in time: one that has not is better replaced."""
        return self.alive and not self.timed_out

    @property
    def ended(self) -> Ended | None:
        """How it ended, None while it has not."""
        found = self._pipe.exit
        if found is None:
            return None
        return Ended(
            code=found.code if found.code >= 0 else None,
            signal=-found.code if found.code < 0 else None,
            asked=found.asked,
            ended_by=found.ended_by,
            orphans=tuple(self._masker.text(orphan.command) for orphan in found.orphans),
        )

    @property
    def called(self) -> tuple[Called, ...]:
        """The calls so far, oldest first, the last KEPT of them."""
        return tuple(
            Called(
                tool=item.tool,
                action=item.action,
                arguments=item.arguments,
                case=item.case,
                became=item.became,
                detail=item.detail,
            )
            for item in self._calls.copy()
        )

    def stderr(self) -> str:
        """The tail of its stderr so far, masked."""
        return self._pipe.stderr_tail.decode("utf-8", "backslashreplace")

    def in_flight(self) -> tuple[str, ...]:
        """Labels of the requests that are open."""
        return self._pipe.traffic()[0]

    # --- calls --------------------------------------------------------------------------------------

    async def step(
        self,
        action: Action,
        target: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        expect: ExpectSpec | None = None,
        confirm: bool = False,
        unlisted: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """One call, resource or prompt.

        Args:
            expect: None: whatever comes is right.
            confirm: The first answer holds a token, with which it is called again.
        Raises:
            ToolError, ExpectedError, NoToken, NoAnswer, ServerDied, ServerClosed: See there.
            MisuseError: Another event loop, arguments that are no JSON.
        """
        self._check(target)
        stood = self.alive
        arguments = {} if arguments is None else dict(arguments)
        seconds = self.spec.call_timeout_s if timeout_s is None else timeout_s
        case = self._enter_case()
        ref = StepRef(suite=case.suite, case=case.case, phase="step", index=next(case.steps))
        call = _Call(tool=target, action=action, arguments=arguments, case=str(case))
        self._calls.append(call)
        if not self._over:
            self._recorder.step_started(
                ref,
                action=action,
                target=target,
                arguments=arguments,
                expect={} if expect is None else expect_to_json(expect),
                confirm=confirm,
                unlisted=unlisted,
                free=expect is None,
                timeout_s=float(seconds),
            )
        if not self.in_flight():
            self._recent.clear()

        def became(what: Became, how: str, detail: str = "") -> None:
            call.became, call.detail = what, detail
            if not self._over:
                self._recorder.step_ended(ref, how, detail)

        deadline = time.monotonic() + seconds
        try:
            final = await self._act(action, target, arguments, ref, deadline, confirm=confirm)
        except TimedOut as error:
            became("timed-out", "timed-out", str(error))
            raise self._cause_of(self._no_answer(error, target, arguments, seconds, ref)) from None
        except Lost as error:
            became("failed", "died", str(error))
            raise self._cause_of(self._lost(error, target, arguments, seconds)) from None
        except Died as error:
            became("died", "died", str(error))
            raise self._cause_of(await self._death(str(error), target, arguments, stood=stood)) from None
        except ValueError as error:
            became("failed", "unresolved", f"the arguments are no JSON: {error}")
            raise MisuseError(f"{target}: the arguments are no JSON: {error}") from None
        if self._session.answers.failures:
            failure = self._session.answers.failures.pop(0)
            became("failed", "answered", f"the answering function raised {type(failure).__name__}")
            raise failure
        if final is None:
            became("failed", "no-token", 'the first answer holds no confirm_token="…"')
            raise self._no_token(target, arguments)
        answer = answer_of(action, final.message)
        if final.problem:
            became("failed", "answered", f"no final answer: {final.problem}")
            raise self._failed(ToolError, f"{target} gave no final answer: {final.problem}", target, arguments)
        result = result_of(answer, final.message, self._masker.text)
        if expect is None:
            bad = answer.is_error or bool(answer.problem) or looks_like_an_error(answer)
            became("failed" if bad else "succeeded", "answered")
            return result
        wrong = _mismatches(expect, answer)
        if answer.problem and not wrong:
            wrong = (answer.problem,)
        became("failed" if wrong else "refused" if answer.is_error else "succeeded", "answered", "; ".join(wrong))
        if wrong:
            self._refuse(expect, answer, wrong, target, arguments)
        return result

    async def _act(
        self, action: Action, target: str, arguments: Mapping[str, Any], ref: StepRef, deadline: float, *, confirm: bool
    ) -> Final | None:
        first = await self._session.perform(action, target, arguments, deadline=deadline, step=ref)
        if not confirm:
            return first
        token = CONFIRM_TOKEN.search(answer_of(action, first.message).text)
        if token is None:
            return None
        again = {**arguments, "confirm_token": token[1]}
        return await self._session.perform(action, target, again, deadline=deadline, step=ref, number=first.round + 1)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Mapping[str, Any]:
        """Any request; gives the response object, whatever is in it.

        Raises:
            NoAnswer, ServerDied, ServerClosed, MisuseError: As `step`.
        """
        self._check(method)
        seconds = self.spec.call_timeout_s if timeout_s is None else timeout_s
        try:
            return await self._session.request(method, params, label=method, timeout_s=seconds)
        except TimedOut as error:
            raise self._no_answer(error, method, params, seconds) from None
        except Lost as error:
            raise self._lost(error, method, params, seconds) from None
        except Died as error:
            raise await self._death(str(error), method, params) from None
        except ValueError as error:
            raise MisuseError(f"{method}: the parameters are no JSON: {error}") from None

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        self._check(method)
        self._session.notify(method, params)

    async def list_all(self, method: str, key: str) -> tuple[Any, ...]:
        """All pages of a list, each item as it came.

        Raises:
            ListError: It is no whole list.
            NoAnswer, ServerDied, ServerClosed, MisuseError: As `step`.
        """
        self._check(method)
        seconds = self.spec.call_timeout_s
        try:
            listing = await self._session.list_all(method, key, timeout_s=seconds)
        except TimedOut as error:
            raise self._no_answer(error, method, {}, seconds) from None
        except Lost as error:
            raise self._lost(error, method, {}, seconds) from None
        except Died as error:
            raise await self._death(str(error), method, {}) from None
        if listing.problem:
            raise self._failed(ListError, self._masker.text(listing.problem), method, {})
        self.listed = self.listed or method == "tools/list"
        return tuple(listing.items)

    # --- cases --------------------------------------------------------------------------------------

    def _enter_case(self) -> LiveCase:
        case = current_case()
        if case is not self._case:
            self._leave_case()
            self._case = case
            self._session.answers.begin()
            self._write(CaseStarted, suite=case.suite, case=case.case)
        return case

    def _leave_case(self, how: CaseHow | None = None) -> None:
        case, self._case = self._case, None
        if case is not None:
            self._write(CaseEnded, suite=case.suite, case=case.case, how=case.how or how or "completed")

    def _case_ended_somewhere(self, case: LiveCase) -> None:
        """Called in any thread."""
        if case is self._case:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._case_ended, case)

    def _case_ended(self, case: LiveCase) -> None:
        if case is self._case:
            self._leave_case()

    def _write(self, kind: Any, **fields: Any) -> None:
        if not self._over:
            self._recorder.add(kind, **fields)

    # --- what comes ---------------------------------------------------------------------------------

    def _seen(self, line: bytes) -> None:
        self._recent.append(line[:4096])
        self._line(line)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """What the server asked for so far, of the user or of a model, and what it got."""
        return tuple(_prompt(item) for item in self._session.prompts.copy() if item.question.method != "roots/list")

    @property
    def notifications(self) -> tuple[Notification, ...]:
        """Its notifications so far."""
        return tuple(
            Notification(method=item.method, params=item.params, tool=_tool(item.target))
            for item in self._session.notices.copy()
        )

    # --- faults -------------------------------------------------------------------------------------

    def _check(self, target: str) -> None:
        if os.getpid() != self._pid:
            raise MisuseError(
                f"{target}: this server belongs to process {self._pid}, and this is a fork of it",
                hint="start a server in the process that calls it",
            )
        if _running_loop() is not self._loop:
            raise MisuseError(
                f"{target}: this server was started on another event loop than the one that calls it",
                hint="give the fixture and the test the same loop scope, or use harness.testing, which has its own",
            )
        if self._closed:
            raise ServerClosed(f"{target} was not sent: the server is closed", target=target, stderr=self.stderr())

    def _failed(
        self, kind: type[CallError], message: str, target: str, arguments: Mapping[str, Any] | None
    ) -> CallError:
        return kind(message, target=target, arguments=arguments, stderr=self.stderr())

    def _refuse(
        self, expect: ExpectSpec, answer: Answer, wrong: Sequence[str], target: str, arguments: Mapping[str, Any]
    ) -> NoReturn:
        called = f"{target}({cut_json(self._masker.json(arguments), 300)})"
        text = cut(self._masker.text(answer.text), 1000)
        if not expect.is_error and answer.is_error:
            code = answer.error.get("code") if answer.error is not None else None
            what = "isError" if answer.error is None else f"JSON-RPC error {code}"
            error = ToolError(
                f"{called} failed with {what}: {text}{self._said()}",
                target=target,
                arguments=arguments,
                stderr=self.stderr(),
            )
            error.text, error.error_code = answer.text, code if isinstance(code, int) else None
            raise error
        if expect.is_error and not answer.is_error:
            message = f"{called} was expected to fail and did not: {text}"
        elif expect.is_error:
            parts = "; ".join(self._masker.text(item) for item in wrong)
            message = f"{called} failed, but not for the stated reason: {parts}"
        else:
            message = f"{called} was not answered as it should be: {'; '.join(map(self._masker.text, wrong))}"
        raise self._failed(ExpectedError if expect.is_error else ToolError, message, target, arguments)

    def _no_token(self, target: str, arguments: Mapping[str, Any]) -> CallError:
        why = (
            "the client declares elicitation, so the server asks by that and gives no token: start it without elicit"
            if "elicitation" in self._session.client_capabilities
            else "the first answer is the last line of the transcript"
        )
        return self._failed(
            NoToken, f'{target}: the first answer holds no confirm_token="…"; {why}{self._lines()}', target, arguments
        )

    def _cause_of(self, error: CallError) -> Exception:
        """The error, or what the answering function raised, without which it would not have come to that."""
        failures = self._session.answers.failures
        if not failures:
            return error
        failure = failures.pop(0)
        failure.add_note(f"then: {error}")
        return failure

    def _no_answer(
        self,
        seen: TimedOut,
        target: str,
        arguments: Mapping[str, Any] | None,
        seconds: float,
        ref: StepRef | None = None,
    ) -> CallError:
        self.timed_out = True
        label = self._masker.text(seen.label)
        message = f"no answer to {label} within {seconds:g} s" if seen.id != "" else self._masker.text(str(seen))
        message += self._lines()
        for what, detail in self._recorder.notes_of(ref):
            message += f"\n{_NOTES[what]}{detail}"
        error = self._failed(NoAnswer, message + self._said(), target, arguments)
        assert isinstance(error, NoAnswer)
        error.timeout_s = seconds
        error.in_flight = self.in_flight()
        return error

    def _lost(self, seen: Lost, target: str, arguments: Mapping[str, Any] | None, seconds: float) -> CallError:
        """The error for a request that can get no answer any more, though the server lives."""
        self.timed_out = True
        status = f" (status {seen.status})" if seen.status else ""
        message = f"{target} can get no answer: {self._masker.text(str(seen))}{status}"
        error = self._failed(NoAnswer, message + self._lines() + self._said(), target, arguments)
        assert isinstance(error, NoAnswer)
        error.timeout_s, error.in_flight = seconds, self.in_flight()
        return error

    async def _death(
        self, why: str, target: str, arguments: Mapping[str, Any] | None, *, stood: bool = True
    ) -> CallError:
        """The error for a call whose server has died, after it was ended for good.

        Args:
            stood: Whether it was alive when the call was made, as far as anybody knew.
        """
        closed = self._closed
        in_flight = self.in_flight()
        await asyncio.sleep(0)  # others that waited with it note it too, while the transcript is open
        if not closed:
            await self._stop("died", hurry=True)
        if closed:
            message = f"the server was closed while {target} waited"
            return self._failed(ServerClosed, message, target, arguments)
        if self._recorder.failed is not None:
            lost = EvidenceLost(self.transcript.parent, self._recorder.failed)
            return self._failed(ServerDied, f"{target}: {lost}", target, arguments)
        ended = self.ended
        label = ", ".join(in_flight) or target
        message = f"{self._masker.text(why)} while {label} waited"
        if not stood or not in_flight:
            message = f"{target} was not sent: {self._masker.text(why)}"
        if ended is not None and "ended with" not in why:
            code = ended.code if ended.code is not None else -(ended.signal or 0)
            message += f"; it was stopped then, with {describe_code(code)}"
        if ended is not None and ended.orphans:
            message += f"\nit left behind, and we killed: {'; '.join(ended.orphans)}"
        error = self._failed(ServerDied, message + self._said(), target, arguments)
        assert isinstance(error, ServerDied)
        error.in_flight = in_flight
        if ended is not None:
            error.exit_code, error.signal, error.orphans = ended.code, ended.signal, ended.orphans
        return error

    def _said(self) -> str:
        lines = self.stderr().splitlines()[-STDERR_LINES:]
        return "\nstderr: " + ("\n        ".join(lines) if lines else "(nothing)")

    def _lines(self) -> str:
        """The last lines of stdout since the call began, for an answer that came and could not be used."""
        if not self._recent:
            return "\nnothing came on stdout meanwhile"
        shown = [cut(self._masker.bytes(line).decode("utf-8", "backslashreplace"), 200) for line in self._recent]
        return "\nthese lines came on stdout meanwhile:\n  " + "\n  ".join(shown)

    # --- the end ------------------------------------------------------------------------------------

    async def close(self, *, how: CaseHow | None = None, hurry: bool = False) -> None:
        """Ends the server and all that it started, and removes what is ours; a second call does nothing more.

        Args:
            how: How the case ended in which it is closed, where that is known.
            hurry: Do not give it the whole time to see that its stdin is closed.
        """
        if os.getpid() != self._pid:
            return
        if _running_loop() is not self._loop:
            raise MisuseError("close: this server was started on another event loop than the one that closes it")
        self._closed = True
        try:
            await self._stop(how, hurry=hurry or self.timed_out)
        finally:
            self._resources.close()
            _open.discard(self)
            if self.afterwards is not None and self._after is None:
                self._after = asyncio.ensure_future(self.afterwards())
            if self._after is not None:
                await to_the_end(self._after)

    async def _stop(self, how: CaseHow | None, *, hurry: bool) -> None:
        if self._stopping is None:
            self._leave_case(how)
            self._over = True
            self._stopping = asyncio.ensure_future(self._pipe.stop(hurry=hurry))
        await to_the_end(self._stopping)

    def abandon(self) -> None:
        """The last resort, where its event loop is gone: kills it and all that it started, and removes what is ours."""
        if os.getpid() == self._pid and self._pipe.exit is None:
            self._pipe.process.kill_now()
        self._resources.close()


async def to_the_end(work: asyncio.Future[T]) -> T:
    """Waits for something that must not be cut short, by no kind of cancellation; that is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError as error:
                cancelled = error
            except BaseException:
                break
    if cancelled is not None and not work.cancelled():
        work.exception()
        raise cancelled
    return work.result()


_open: set[LiveServer] = set()


@atexit.register
def _abandon_all() -> None:
    for server in tuple(_open):
        with suppress(Exception):
            server.abandon()


def _tool(label: str) -> str:
    return label.partition(" ")[2]


def _prompt(seen: Seen) -> Prompt:
    question, reply = seen.question, seen.reply
    result = reply.result if reply.result is not None else {}
    content = result.get("content")
    return Prompt(
        message=question.message,
        method=question.method,
        mode=question.mode,
        schema=question.schema or None,
        action=str(result.get("action", "")),
        content=content if isinstance(content, Mapping) else None,
        tool=question.subject,
        by=reply.by,
    )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _mismatches(expect: ExpectSpec, answer: Answer) -> tuple[str, ...]:
    try:
        return mismatches(expect, answer)
    except regex.error as error:
        raise MisuseError(f"the pattern {expect.text_matches!r} cannot be read: {error}") from None


# --- the start ------------------------------------------------------------------------------------


async def open_live(spec: LiveSpec) -> LiveServer:
    """Starts a server and its session; what was started is gone where this fails.

    Raises:
        ServerError: It gave no first answer.
        ConfigError: It is pointed at something that is not of its stack.
        NotSpoken: It does not speak the era, which was only tried.
    """
    with ExitStack() as undo:
        scope = undo.enter_context(open_scope())
        key = (spec.argv, spec.cwd, tuple(sorted(spec.env.items())))
        spec = _with_port(spec)
        masker = Masker((*spec.secrets, *(value for name, value in spec.env.items() if is_secret_name(name))))
        folder = scope.tmp / f"server-{token_hex(8)}"
        folder.mkdir()
        _guard(spec, folder, masker)
        server = await _Opening(spec=spec, scope=scope, folder=folder, masker=masker, key=key).run()
        server.owns(undo.pop_all())
        _open.add(server)
        return server


def _with_port(spec: LiveSpec) -> LiveSpec:
    """Where it is to listen at `${port}`: on a port that nobody holds, which is told to it in that place."""
    if PORT not in spec.url:
        return spec
    port = free_port()

    def told(text: str) -> str:
        return text.replace(PORT, str(port))

    return replace(
        spec,
        argv=tuple(map(told, spec.argv)),
        env={name: told(value) for name, value in spec.env.items()},
        url=told(spec.url),
        own_port=port,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """The start of a server, in one era or in whatever it speaks."""

    spec: LiveSpec
    scope: Scope
    folder: Path
    masker: Masker
    key: tuple[Any, ...]  # equal for starts of one command

    async def run(self) -> LiveServer:
        spec = self.spec
        if spec.era is not None:
            return await self._begin(spec.era, spec.evidence, probing=spec.tried)
        key = self.key
        known = _spoken.get(key)
        why: list[str] = []
        for era in (known,) if known is not None else ERAS:
            try:
                server = await self._begin(era, spec.evidence, probing=known is None)
            except NotSpoken as error:
                why.append(f"{era}: {error}")
                continue
            _spoken[key] = era
            return server
        raise ServerError(
            self.masker.text("the server speaks neither era of MCP that was tried:\n" + "\n".join(why)),
            server=spec.name,
        )

    async def _begin(self, era: Era, evidence: Path | None, *, probing: bool) -> LiveServer:
        """A server in an era; what a probe says that fails is no evidence.

        Raises:
            NotSpoken: While probing: it does not speak this era.
            ServerError: It gave no usable first answer.
        """
        spec = self.spec
        place = evidence if evidence is not None else self.scope.tmp / "evidence"
        place.mkdir(parents=True, exist_ok=True)
        home = self.folder / token_hex(4)
        home.mkdir()
        argv, url, env = spec.argv, spec.url, _environment(spec, home)
        if url and spec.own_port is not None:  # a port for each process: two may stand at a time
            old, new = str(spec.own_port), str(free_port())
            argv, url = tuple(_other_port(part, old, new) for part in argv), _other_port(url, old, new)
            env = {name: _other_port(value, old, new) for name, value in env.items()}
        container = container_run(argv, scope=self.scope, server=home.name)
        path = place / outside_name()
        recorder = LiveRecorder(
            path,
            bodies=place / BODIES_DIR,
            masker=self.masker,
            began=time.monotonic() if spec.began is None else spec.began,
        )
        start = Start(argv=argv, cwd=spec.cwd, env=env, marker=f"{home}{os.sep}", container=container, url=url)
        opening = asyncio.ensure_future(start.spawn(recorder, spec.name))
        try:
            pipe = await to_the_end(opening)
        except BaseException:
            if not opening.cancelled() and opening.exception() is None:
                await to_the_end(asyncio.ensure_future(opening.result().stop(hurry=True)))
            recorder.close()
            path.unlink(missing_ok=True)
            raise
        session = WireSession(pipe, era=era, answers=spec.answers(), zero=False)
        discovering = probing and era == "modern"
        timeout_s = min(spec.start_timeout_s, DISCOVER_TIMEOUT_S) if discovering else spec.start_timeout_s
        try:
            if not_ready := await pipe.ready(spec.start_timeout_s):
                raise Refused(not_ready)
            await session.open(timeout_s=timeout_s)
        except (NotSpoken, TimedOut, Died, Refused) as error:
            if probing and _is_unspoken(error, discovering=discovering):
                await pipe.stop(hurry=True)
                path.unlink(missing_ok=True)
                raise NotSpoken(str(error)) from None
            raise await self._error(pipe, session, era, error, env) from None
        except BaseException:
            await to_the_end(asyncio.ensure_future(pipe.stop(hurry=True)))
            raise
        return LiveServer(spec, pipe, session, masker=self.masker)

    async def _error(
        self, pipe: Pipe, session: WireSession, era: Era, error: Exception, env: Mapping[str, str]
    ) -> ServerError:
        """The error for a server that gave no usable first answer, after it was stopped."""
        spec, why = self.spec, str(error)
        ended = pipe.process.ended.is_set()
        code = describe_code(pipe.process.code or 0)
        ran = f"[{elapsed_ms(pipe.process)} ms from start to {'exit' if ended else 'now'}]"
        noise, unfinished = pipe.line_count, self.masker.bytes(pipe.unfinished)
        if isinstance(error, NotSpoken):
            pipe.recorder.add(Diagnostic, what="not-spoken", detail=why)
        await pipe.stop(hurry=True)
        if ended:
            message = f"the server ended with {code} before its first answer"
        elif isinstance(error, NotSpoken):
            message = f"the server does not speak the {era} era: {why}"
        elif session.answered or not why.startswith("no answer"):
            message = why
        else:
            message = f"the server gave {why}"
        if noise and not session.answered:
            message += f"; {noise} lines came on stdout, none of them an answer"
        if unfinished and not session.answered:
            message += f"; stdout ends without a newline in {cut(unfinished[-80:].decode('utf-8', 'backslashreplace'))}"
        message += f"\ncommand: {' '.join(spec.argv)}\nfolder: {spec.cwd}\nvariables: {', '.join(sorted(env))}"
        tail = pipe.stderr_tail.decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
        log = "\n".join([ran, *(tail or ["(stderr is empty)"])])
        return ServerError(self.masker.text(f"{message}\n{log}"), log=log, server=spec.name)


def _other_port(text: str, old: str, new: str) -> str:
    """A text with one port in the place of another, where it stands by itself."""
    return re.sub(rf"(?<![0-9.]){old}(?![0-9])", new, text)


def _is_unspoken(error: Exception, *, discovering: bool) -> bool:
    """Whether the failure of a session's beginning may mean that the server does not speak the era."""
    if isinstance(error, Lost):
        return not error.hint and (discovering or error.status in NOT_THIS_ERA)
    return isinstance(error, NotSpoken) or (discovering and not isinstance(error, Refused))


def _environment(spec: LiveSpec, home: Path) -> dict[str, str]:
    """The whole environment, with a HOME and TMPDIR of this process alone."""
    if spec.ready_env is None:
        return server_environment(dict(spec.env), home=home, bin=spec.bin)
    own = server_environment({}, home=home, bin=spec.bin)
    places = {name: value for name, value in own.items() if value.startswith(str(home))}
    return {**spec.ready_env, **places, **spec.env}


def _guard(spec: LiveSpec, folder: Path, masker: Masker) -> None:
    """Judges where the server is pointed, before it starts.

    Raises:
        ConfigError: At something that is not of its stack.
    """
    if not spec.cwd.is_dir():
        raise ConfigError(f"the server's folder {spec.cwd} does not exist", server=spec.name)
    refused = check_targets(
        spec.env,
        spec.argv,
        allowed=spec.allowed,
        own_port=spec.own_port,
        names=spec.names,
        folders=(folder, spec.cwd, *spec.folders),
    )
    named = named_dotenv_files(spec.argv, spec.cwd)
    foreign: tuple[str, ...] = ()
    if spec.reads_dotenv or named:
        places = (spec.cwd, *((spec.bin,) if spec.bin is not None else ())) if spec.reads_dotenv else ()
        foreign = tuple(foreign_targets(places, spec.env, allowed=spec.allowed, named=named))
    if refused or foreign:
        raise ConfigError(
            masker.text("the server was not started:\n" + "\n".join((*refused, *foreign))),
            hint="a server may only be pointed at its own stack: give stack=, or allow= for an address on 127.0.0.1 "
            "that your test opened; reads_dotenv=False if it reads no .env file by itself",
            server=spec.name,
        )
