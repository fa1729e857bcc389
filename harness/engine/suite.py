"""Runs the cases of a run, one after the other, on a server that is restarted when a case has killed or hung it.

It asks `harness.model.outcome` whether to go on, and holds no opinion of its own: what is recorded is judged later.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import anyio
import regex

from harness.engine.record import Recorder
from harness.engine.wire import PROGRESS_TIMES, Cancelled, Died, Final, Lost, TimedOut, WireSession
from harness.model.outcome import (
    Answer,
    Missing,
    answer_of,
    capture,
    compare_prompts,
    expect_from_json,
    expect_to_json,
    mismatches,
)
from harness.model.placeholders import UnknownPlaceholder, expand, expand_all
from harness.model.plan import CaseSpec, ExpectSpec, StepSpec
from harness.model.transcript import CaseEnded, CaseStarted, Diagnostic, StepEnded, StepRef, StepStarted

__all__ = ["CONFIRM_TOKEN", "Bench", "run_cases"]

CONFIRM_TOKEN = re.compile(r'confirm_token=\\?"([0-9a-f]+)\\?"')

Verdict = Literal["ok", "stopped", "timed-out", "died", "lost", "unresolved", "untouched"]
CaseHow = Literal["completed", "stopped", "timed-out", "died", "lost"]
REPLACED = ("timed-out", "died", "lost")  # what a server has done that no further case is given to
_HOW: Mapping[Verdict, CaseHow] = {
    "ok": "completed",
    "stopped": "stopped",
    "unresolved": "stopped",
    "timed-out": "timed-out",
    "died": "died",
    "lost": "lost",
}


class Bench(Protocol):
    """What cases run on: a server that can be replaced."""

    @property
    def session(self) -> WireSession:
        """The session with the present server."""

    @property
    def recorder(self) -> Recorder:
        """Its transcript."""

    @property
    def dead(self) -> bool:
        """Whether no answer can come from it any more."""

    async def restart(self, why: str) -> None:
        """Another server in its place.

        Raises:
            ServerError: It could not be started, several times over.
        """


@dataclass(slots=True, kw_only=True)
class _Case:
    """A case while it runs."""

    bench: Bench
    suite: str
    case: CaseSpec
    values: dict[str, Any]
    call_timeout_s: float
    deadline: float
    captured: set[str] = field(default_factory=set)


async def run_cases(
    bench: Bench, cases: Sequence[tuple[str, CaseSpec]], values: Mapping[str, Any], *, call_timeout_s: float
) -> frozenset[str]:
    """Runs every case to its end, whatever becomes of the others.

    Args:
        values: Of the placeholders.
        call_timeout_s: For steps that say nothing themselves.
    Returns:
        Names ("suite/case") of those that were completed.
    Raises:
        ServerError: The server could not be started again.
    """
    completed = set()
    for suite, case in cases:
        if bench.dead:
            await bench.restart(f"it ended before {suite}/{case.id}")
        deadline = time.monotonic() + case.timeout_s if case.timeout_s is not None else float("inf")
        how = await _run_case(
            _Case(
                bench=bench,
                suite=suite,
                case=case,
                values=dict(values),
                call_timeout_s=call_timeout_s,
                deadline=deadline,
            )
        )
        if how == "completed":
            completed.add(f"{suite}/{case.id}")
    return frozenset(completed)


async def _run_case(run: _Case) -> str:
    """How it ended."""
    run.bench.recorder.add(CaseStarted, suite=run.suite, case=run.case.id)
    run.bench.session.answers.begin()
    ended = False

    def end(how: str) -> None:
        nonlocal ended
        if not ended:
            ended = True
            run.bench.recorder.add(CaseEnded, suite=run.suite, case=run.case.id, how=how)

    try:
        verdict: Verdict = "ok"
        for index, step in enumerate(run.case.steps):
            verdict = await _run_step(run, step, StepRef(suite=run.suite, case=run.case.id, phase="step", index=index))
            if verdict != "ok":
                break
        how = _HOW[verdict]
        run.deadline = float("inf")  # cleanup has its own time
        if verdict in REPLACED:
            end(how)  # the transcript of that server ends now
            await run.bench.restart(f"{run.suite}/{run.case.id} {how}")
        for index, step in enumerate(run.case.cleanup):
            ref = StepRef(suite=run.suite, case=run.case.id, phase="cleanup", index=index)
            after = await _run_step(run, step, ref)
            if after in REPLACED:
                end(how)
                await run.bench.restart(f"cleanup of {run.suite}/{run.case.id} {after}")
        end(how)
        return how
    except anyio.get_cancelled_exc_class():
        end("interrupted")
        raise


async def _run_step(run: _Case, step: StepSpec, ref: StepRef) -> Verdict:
    """A step with its retries.

    The first step of a case gets a fresh server, once, if the one before it had ended without reading the step.
    """
    again = step.eventually
    until = time.monotonic() + again.timeout_s if again is not None else 0.0
    attempt = 1
    while True:
        here = StepRef(suite=ref.suite, case=ref.case, phase=ref.phase, index=ref.index, attempt=attempt)
        retry = again is not None and time.monotonic() + again.every_s < until
        fresh = attempt == 1 and ref.index == 0 and ref.phase == "step"
        verdict = await _attempt(run, step, here, retry=retry, fresh=fresh)
        if verdict == "untouched":
            await run.bench.restart(f"it ended before {run.suite}/{run.case.id}")
            attempt += 1
            continue
        if verdict is not None:
            return verdict
        assert again is not None
        await anyio.sleep(again.every_s)
        attempt += 1


async def _attempt(run: _Case, step: StepSpec, ref: StepRef, *, retry: bool, fresh: bool) -> Verdict | None:
    """One attempt; None: its expectation was not met, and there is time for another.

    Args:
        fresh: Nothing of the case is lost with the server.
    """
    recorder = run.bench.recorder
    timeout_s = step.timeout_s if step.timeout_s is not None else run.call_timeout_s
    try:
        target = expand(step.target, run.values)
        arguments = expand_all(dict(step.arguments), run.values)
        expect = _expanded(step.expect, run.values)
        shown = _expanded(step.expect, {name: recorder.masked_json(value) for name, value in run.values.items()})
    except UnknownPlaceholder as error:
        _started(recorder, step, ref, step.target, step.arguments, step.expect, timeout_s)
        return _ended(recorder, ref, "unresolved", f"${{{error.args[0]}}} has no value", "unresolved")
    _started(recorder, step, ref, target, arguments, shown, timeout_s)
    now = time.monotonic()
    deadline, limit = (min(now + seconds, run.deadline) for seconds in (timeout_s, PROGRESS_TIMES * timeout_s))
    within = f"within {timeout_s:g} s"
    if run.deadline < now + timeout_s:
        within = f"before the {run.case.timeout_s:g} s of the case were over"
    try:
        final = await _act(run, step, ref, target, arguments, deadline, limit, within)
    except Cancelled:
        return await _after_cancel(run, step, ref, expect, timeout_s)
    except TimedOut as error:
        return _ended(recorder, ref, "timed-out", str(error), "timed-out")
    except Died as error:
        if fresh and error.untouched:
            return _ended(recorder, ref, "retried", f"not read: {error}", "untouched")
        how: Literal["lost", "died"] = "lost" if isinstance(error, Lost) else "died"
        return _ended(recorder, ref, how, str(error), how)
    except ValueError as error:
        return _ended(recorder, ref, "unresolved", f"the arguments are no JSON: {error}", "unresolved")
    if final is None:
        return _ended(recorder, ref, "no-token", 'the first answer holds no confirm_token="…"', "stopped")
    if final.problem:
        return _ended(recorder, ref, "answered", f"no final answer: {final.problem}", "stopped")
    if step.cancel_after_s is not None:
        late = f"answered before it could be cancelled, after {step.cancel_after_s:g} s"
        return _ended(recorder, ref, "answered", late, "stopped")
    answer = answer_of(step.action, final.message)
    prompts = run.bench.session.prompts_of(ref) if expect.prompts is not None else []
    wrong = _mismatches(expect, answer, prompts)
    if wrong:  # in the words of what may be kept: they are cut, and half a secret is none that could be found
        masked = answer_of(step.action, recorder.masked_json(final.message))
        wrong = _mismatches(shown, masked, recorder.masked_json(prompts)) or (
            "it differs from what is expected only in what is masked",
        )
    lost = _capture(run, step, answer) if not wrong else ()
    if (wrong or lost) and retry:
        _ended(recorder, ref, "retried", "; ".join((*wrong, *lost)), "stopped")
        return None
    for detail in lost:
        recorder.add(Diagnostic, what="capture-missing", detail=detail, step=ref)
    return _ended(recorder, ref, "answered", "; ".join(wrong), "stopped" if wrong or lost else "ok")


async def _after_cancel(run: _Case, step: StepSpec, ref: StepRef, expect: ExpectSpec, timeout_s: float) -> Verdict:
    """Whether the server lives on after a cancellation: it answers tools/list."""
    session, recorder = run.bench.session, run.bench.recorder
    label = f"tools/list after cancelling {step.action} {step.target}"
    try:
        await session.request("tools/list", label=label, timeout_s=timeout_s, step=ref, number=2)
    except TimedOut as error:
        return _ended(recorder, ref, "timed-out", str(error), "timed-out")
    except Died as error:
        how: Literal["lost", "died"] = "lost" if isinstance(error, Lost) else "died"
        return _ended(recorder, ref, how, str(error), how)
    wrong = tuple(compare_prompts(expect, session.prompts_of(ref)))
    return _ended(recorder, ref, "cancelled", "; ".join(wrong), "stopped" if wrong else "ok")


async def _act(
    run: _Case,
    step: StepSpec,
    ref: StepRef,
    target: str,
    arguments: Mapping[str, Any],
    deadline: float,
    limit: float,
    within: str,
) -> Final | None:
    perform = partial(
        run.bench.session.perform, step.action, target, deadline=deadline, step=ref, limit=limit, within=within
    )
    first = await perform(arguments, cancel_after_s=step.cancel_after_s)
    if not step.confirm:
        return first
    token = CONFIRM_TOKEN.search(answer_of(step.action, first.message).text)
    if token is None:
        return None
    return await perform({**arguments, "confirm_token": token[1]}, number=first.round + 1)


def _capture(run: _Case, step: StepSpec, answer: Answer) -> tuple[str, ...]:
    """Takes the step's captures; what could not be found comes back, "name: pointer" each."""
    lost = []
    for spec in step.capture:
        try:
            run.values[f"captured.{spec.name}"] = capture(spec, answer)
        except Missing as error:
            lost.append(f"{spec.name}: {error.args[0]}")
        except regex.error as error:
            lost.append(f"{spec.name}: {spec.matches!r} cannot be read: {error}")
    return tuple(lost)


def _mismatches(expect: ExpectSpec, answer: Answer, prompts: Sequence[str]) -> tuple[str, ...]:
    try:
        return mismatches(expect, answer, prompts)
    except regex.error as error:
        return (f"text_matches cannot be read: {error}",)


def _expanded(expect: ExpectSpec, values: Mapping[str, Any]) -> ExpectSpec:
    """The expectation with its placeholders; in a pattern a value stands for itself."""
    data = expect_to_json(expect)
    pattern = data.pop("text_matches", None)
    data = expand_all(data, values)
    if pattern is not None:
        literal = {key: regex.escape(value) for key, value in values.items() if isinstance(value, str)}
        data["text_matches"] = expand(pattern, {**values, **literal})
    return expect_from_json(data)


def _started(
    recorder: Recorder,
    step: StepSpec,
    ref: StepRef,
    target: str,
    arguments: Mapping[str, Any],
    expect: ExpectSpec,
    timeout_s: float,
) -> None:
    recorder.add(
        StepStarted,
        step=ref,
        action=step.action,
        target=target,
        arguments=arguments,
        expect=expect_to_json(expect),
        confirm=step.confirm,
        unlisted=step.unlisted,
        timeout_s=timeout_s,
        cancel_after_s=step.cancel_after_s,
    )


def _ended(recorder: Recorder, ref: StepRef, how: str, detail: str, verdict: Verdict) -> Verdict:
    recorder.add(StepEnded, step=ref, how=how, detail=detail)
    return verdict
