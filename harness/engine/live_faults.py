"""What a call that came to nothing is told as: one error with what happened, what came instead, and secrets masked."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.engine.evidence import EvidenceLost
from harness.engine.mask import Masker
from harness.engine.pipe import Pipe
from harness.engine.record import Recorder
from harness.engine.tail import describe_code
from harness.engine.wire import Lost, TimedOut, WireSession
from harness.errors import (
    AnswerLost,
    CallError,
    ExpectedError,
    NoAnswer,
    NoToken,
    ServerClosed,
    ServerDied,
    ToolError,
)
from harness.model.live import Ended
from harness.model.outcome import Answer, cut, cut_json
from harness.model.plan import ExpectSpec
from harness.model.transcript import Diagnostic, Event, StepRef

__all__ = ["STDERR_LINES", "Faults", "LiveRecorder"]

STDERR_LINES = 20
RECENT_LINES = 5
KEPT_NOTES = 20
SHOWN_CHARS = 200  # of each line, and of a body that is no answer
_NOTES = {  # what the session saw when a request had no answer in time
    "write-blocked": "",
    "still-reading": "",
    "still-coming": "stdout: ",
    "partial-line": "stdout: ",
    "children": "it has started, and they run: ",
    "shares-stdin": "of these share its stdin, and may take what is meant for it: ",
}


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


class Faults:
    """Makes the errors of one server's calls.

    Args:
        stdout: Whether its messages come on its stdout.
    Attributes:
        recent: The last messages, or lines of stdout, since the call began.
    """

    def __init__(self, pipe: Pipe, session: WireSession, *, masker: Masker, stdout: bool) -> None:
        assert isinstance(pipe.recorder, LiveRecorder)
        self.recent: deque[bytes] = deque(maxlen=RECENT_LINES)
        self._pipe = pipe
        self._session = session
        self._recorder = pipe.recorder
        self._masker = masker
        self._what = "lines came on stdout" if stdout else "messages came"

    @property
    def stderr(self) -> str:
        """The tail of the server's stderr so far, masked."""
        return self._pipe.stderr_tail.decode("utf-8", "backslashreplace")

    def failed(
        self, kind: type[CallError], message: str, target: str, arguments: Mapping[str, Any] | None = None
    ) -> CallError:
        """An error of that kind."""
        return kind(message, target=target, arguments=arguments, stderr=self.stderr)

    def malformed(self, problem: str, target: str, arguments: Mapping[str, Any]) -> CallError:
        """The error for a last message that is no answer."""
        return self.failed(ToolError, f"{target} gave no final answer: {problem}", target, arguments)

    def refuse(
        self, expect: ExpectSpec, answer: Answer, wrong: Sequence[str], target: str, arguments: Mapping[str, Any]
    ) -> NoReturn:
        """The error for an answer that is not as expected.

        Raises:
            ToolError, ExpectedError: Always.
        """
        called = f"{target}({cut_json(self._masker.json(arguments), 300)})"
        text = cut(self._masker.text(answer.text), 1000)
        if not expect.is_error and answer.is_error:
            code = answer.error.get("code") if answer.error is not None else None
            what = "isError" if answer.error is None else f"JSON-RPC error {code}"
            error = self.failed(ToolError, f"{called} failed with {what}: {text}{self._said()}", target, arguments)
            assert isinstance(error, ToolError)
            error.text, error.error_code = answer.text, code if isinstance(code, int) else None
            raise error
        if expect.is_error and not answer.is_error:
            message = f"{called} was expected to fail and did not: {text}"
        elif expect.is_error:
            parts = "; ".join(self._masker.text(item) for item in wrong)
            message = f"{called} failed, but not for the stated reason: {parts}"
        else:
            message = f"{called} was not answered as it should be: {'; '.join(map(self._masker.text, wrong))}"
        raise self.failed(ExpectedError if expect.is_error else ToolError, message, target, arguments)

    def no_token(self, target: str, arguments: Mapping[str, Any]) -> CallError:
        """The error for a first answer without a confirm_token."""
        why = (
            "the client declares elicitation, so the server asks by that and gives no token: start it without elicit"
            if "elicitation" in self._session.client_capabilities
            else "the first answer is the last line of the transcript"
        )
        message = f'{target}: the first answer holds no confirm_token="…"; {why}{self._lines()}'
        return self.failed(NoToken, message, target, arguments)

    def cause_of(self, error: CallError) -> Exception:
        """The error, or what the answering function raised, without which it would not have come to that."""
        failures = self._session.answers.failures
        if not failures:
            return error
        failure = failures.pop(0)
        failure.add_note(f"then: {error}")
        return failure

    def no_answer(
        self,
        seen: TimedOut,
        target: str,
        arguments: Mapping[str, Any] | None,
        seconds: float,
        ref: StepRef | None = None,
    ) -> CallError:
        """The error for a request that had no answer in time."""
        message = self._masker.text(str(seen)) + self._lines()
        for what, detail in self._recorder.notes_of(ref):
            message += f"\n{_NOTES[what]}{detail}"
        return self._waited(NoAnswer, message + self._said(), target, arguments, seconds)

    def lost(self, seen: Lost, target: str, arguments: Mapping[str, Any] | None, seconds: float) -> CallError:
        """The error for a request that can get no answer any more, though the server lives."""
        loss = seen.loss
        body = self._masker.bytes(loss.body).decode("utf-8", "backslashreplace")[:SHOWN_CHARS]
        message = f"{target} can get no answer: {self._masker.text(loss.why)}; the server lives"
        if body and repr(body)[1:-1] not in message:
            message += f"\nwhat came begins: {cut(body, SHOWN_CHARS)}"
        if loss.hint:
            message += f"\nhint: {loss.hint}"
        if self.recent:
            message += self._lines()
        error = self._waited(AnswerLost, message + self._said(), target, arguments, seconds)
        assert isinstance(error, AnswerLost)
        error.status, error.content_type, error.body = loss.status, loss.kind, body
        return error

    def _waited(
        self, kind: type[NoAnswer], message: str, target: str, arguments: Mapping[str, Any] | None, seconds: float
    ) -> CallError:
        error = self.failed(kind, message, target, arguments)
        assert isinstance(error, NoAnswer)
        error.timeout_s, error.in_flight = seconds, self._pipe.traffic()[0]
        return error

    def closed(self, target: str, arguments: Mapping[str, Any] | None) -> CallError:
        """The error for a call that waited when its server was closed."""
        return self.failed(ServerClosed, f"the server was closed while {target} waited", target, arguments)

    def died(
        self,
        why: str,
        target: str,
        arguments: Mapping[str, Any] | None,
        *,
        ended: Ended | None,
        in_flight: tuple[str, ...],
        stood: bool,
    ) -> CallError:
        """The error for a call whose server has died.

        Args:
            in_flight: What was open then.
            stood: Whether it was alive when the call was made, as far as anybody knew.
        """
        if self._recorder.failed is not None:
            lost = EvidenceLost(self._recorder.path.parent, self._recorder.failed)
            return self.failed(ServerDied, f"{target}: {lost}", target, arguments)
        label = ", ".join(in_flight) or target
        message = f"{self._masker.text(why)} while {label} waited"
        if not stood or not in_flight:
            message = f"{target} was not sent: {self._masker.text(why)}"
        if ended is not None and "ended with" not in why:
            code = ended.code if ended.code is not None else -(ended.signal or 0)
            message += f"; it was stopped then, with {describe_code(code)}"
        if ended is not None and ended.orphans:
            message += f"\nit left behind, and we killed: {'; '.join(ended.orphans)}"
        error = self.failed(ServerDied, message + self._said(), target, arguments)
        assert isinstance(error, ServerDied)
        error.in_flight = in_flight
        if ended is not None:
            error.exit_code, error.signal, error.orphans = ended.code, ended.signal, ended.orphans
        return error

    def _said(self) -> str:
        lines = self.stderr.splitlines()[-STDERR_LINES:]
        return "\nstderr: " + ("\n        ".join(lines) if lines else "(nothing)")

    def _lines(self) -> str:
        """What came since the call began, for an answer that came and could not be used."""
        if not self.recent:
            return f"\nno {self._what} meanwhile"
        shown = [cut(self._masker.bytes(line).decode("utf-8", "backslashreplace"), SHOWN_CHARS) for line in self.recent]
        return f"\nthese {self._what} meanwhile:\n  " + "\n  ".join(shown)
