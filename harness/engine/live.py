"""One server for somebody else's code: started, asked call by call, recorded like a suite's, and always ended.

Nothing here holds a task or a cancel scope open: servers can be closed in any order and by any task of their loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import regex

from harness.engine.answers import Prompt as Seen
from harness.engine.cases import CaseHow, LiveCase, current_case, on_end
from harness.engine.live_faults import Faults
from harness.engine.live_spec import LiveSpec
from harness.engine.mask import Masker
from harness.engine.pipe import Pipe
from harness.engine.process import Exit
from harness.engine.suite import CONFIRM_TOKEN
from harness.engine.wire import Died, Final, Lost, TimedOut, WireSession
from harness.errors import CallError, ListError, MisuseError, ServerClosed
from harness.model.live import Became, Called, Ended, Notification, Prompt, Result, result_of
from harness.model.outcome import Answer, answer_of, expect_to_json, looks_like_an_error, mismatches
from harness.model.plan import Action, Era, ExpectSpec
from harness.model.transcript import CaseEnded, CaseStarted, StepRef

__all__ = ["KEPT", "OPEN", "LiveServer", "to_the_end"]

KEPT = 10_000  # calls that are remembered
T = TypeVar("T")


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
        unanswered: Whether any request had no answer in time, or can get none any more.
        listed: Whether its tools were listed.
        afterwards: What is done once it is closed: its stack is taken down.
    """

    def __init__(self, spec: LiveSpec, pipe: Pipe, session: WireSession, *, masker: Masker) -> None:
        self.spec = spec
        self.transcript = pipe.recorder.path
        self._calls: deque[_Call] = deque(maxlen=KEPT)
        self.unanswered = False
        self.listed = False
        self._pipe = pipe
        self._session = session
        self._recorder = pipe.recorder
        self._faults = Faults(pipe, session, masker=masker, stdout=not spec.url)
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
        return self.alive and not self.unanswered

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
        return self._faults.stderr

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
            self._faults.recent.clear()

        def became(what: Became, how: str, detail: str = "") -> None:
            call.became, call.detail = what, detail
            if not self._over:
                self._recorder.step_ended(ref, how, detail)

        try:
            final = await self._act(action, target, arguments, ref, seconds, confirm=confirm)
        except TimedOut as error:
            became("timed-out", "timed-out", str(error))
            self.unanswered = True
            raise self._faults.cause_of(self._faults.no_answer(error, target, arguments, seconds, ref)) from None
        except Lost as error:
            became("lost", "lost", str(error))
            self.unanswered = True
            raise self._faults.cause_of(self._faults.lost(error, target, arguments, seconds)) from None
        except Died as error:
            became("died", "died", str(error))
            raise self._faults.cause_of(await self._death(str(error), target, arguments, stood=stood)) from None
        except asyncio.CancelledError:
            became("cancelled", "cancelled")
            raise
        except ValueError as error:
            became("failed", "unresolved", f"the arguments are no JSON: {error}")
            raise MisuseError(f"{target}: the arguments are no JSON: {error}") from None
        if self._session.answers.failures:
            failure = self._session.answers.failures.pop(0)
            became("failed", "answered", f"the answering function raised {type(failure).__name__}")
            raise failure
        if final is None:
            became("failed", "no-token", 'the first answer holds no confirm_token="…"')
            raise self._faults.no_token(target, arguments)
        answer = answer_of(action, final.message)
        if final.problem:
            became("failed", "answered", f"no final answer: {final.problem}")
            raise self._faults.malformed(final.problem, target, arguments)
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
            self._faults.refuse(expect, answer, wrong, target, arguments)
        return result

    async def _act(
        self, action: Action, target: str, arguments: Mapping[str, Any], ref: StepRef, seconds: float, *, confirm: bool
    ) -> Final | None:
        perform = partial(
            self._session.perform,
            action,
            target,
            deadline=time.monotonic() + seconds,
            step=ref,
            within=f"within {seconds:g} s",
        )
        first = await perform(arguments)
        if not confirm:
            return first
        token = CONFIRM_TOKEN.search(answer_of(action, first.message).text)
        if token is None:
            return None
        return await perform({**arguments, "confirm_token": token[1]}, number=first.round + 1)

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
            self.unanswered = True
            raise self._faults.no_answer(error, method, params, seconds) from None
        except Lost as error:
            self.unanswered = True
            raise self._faults.lost(error, method, params, seconds) from None
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
            self.unanswered = True
            raise self._faults.no_answer(error, method, {}, seconds) from None
        except Lost as error:
            self.unanswered = True
            raise self._faults.lost(error, method, {}, seconds) from None
        except Died as error:
            raise await self._death(str(error), method, {}) from None
        if listing.problem:
            raise self._faults.failed(ListError, self._masker.text(listing.problem), method)
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
        self._faults.recent.append(line[:4096])
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
            raise self._faults.failed(ServerClosed, f"{target} was not sent: the server is closed", target)

    async def _death(
        self, why: str, target: str, arguments: Mapping[str, Any] | None, *, stood: bool = True
    ) -> CallError:
        """The error for a call whose server has died, after it was ended for good.

        Args:
            stood: Whether it was alive when the call was made, as far as anybody knew.
        """
        closed, in_flight = self._closed, self.in_flight()
        await asyncio.sleep(0)  # others that waited with it note it too, while the transcript is open
        if closed:
            return self._faults.closed(target, arguments)
        await self._stop("died", hurry=True)
        return self._faults.died(why, target, arguments, ended=self.ended, in_flight=in_flight, stood=stood)

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
            await self._stop(how, hurry=hurry or self.unanswered)
        finally:
            self._resources.close()
            OPEN.discard(self)
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


OPEN: set[LiveServer] = set()  # those that stand, in this process


@atexit.register
def _abandon_all() -> None:
    for server in tuple(OPEN):
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
