"""Suites: what became of every planned case, and a finding for each step that did not do as it should."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from harness.findings.exercised import answered_unknown, not_listed
from harness.findings.frames import TOO_DEEP
from harness.findings.ledger import CellLedger
from harness.findings.seen import Seen, scrub
from harness.findings.steps import (
    RunView,
    Use,
    answer_of_use,
    children_at,
    children_note,
    place_of_use,
    told,
    zero_note,
)
from harness.model.finding import CaseResult, place_of
from harness.model.outcome import cut, cut_json
from harness.model.plan import CaseSpec, CheckSettings, Place, Run

__all__ = ["judge_cases", "not_run", "see_suites", "undecided"]

_VARIES = re.compile(r"[0-9a-f]{6,}|\d+", re.IGNORECASE)
_SUITE = "suite/"
AT_ONCE_S = 0.5  # an answer this soon after our next line was waiting for that line
MAX_ASKED = 10  # prompts that the evidence of a failed step shows
SLACK_S = 0.2  # a step that timed out this much too early was ended by its case's time


def see_suites(view: RunView, ledger: CellLedger, settings: CheckSettings) -> Iterator[Seen]:
    """Findings of the suite family in one run: at most one for a step, none where another check has the cause."""
    by_case = view.by_case()
    cases = {f"{suite}/{case.id}": case for suite, case in view.run.cases}
    for name, uses in by_case.items():
        broken = any(not use.cleanup and _is_bad(use, ledger, settings) for use in uses)
        for use in uses:
            seen = _step(use, ledger, settings, broken)
            if seen is not None:
                yield seen
        if not broken and not _undecided_in(uses):
            yield from _case(view, name, cases.get(name), uses)
    for name in sorted(view.cases_started - by_case.keys()):
        yield from _case(view, name, cases.get(name), [])


def _is_bad(use: Use, ledger: CellLedger, settings: CheckSettings) -> bool:
    return bool(use.cause(settings)) or not_listed(ledger, use) or answered_unknown(ledger, use)


def undecided(view: RunView) -> Iterator[tuple[str, Place | None]]:
    """The steps of one run whose answers could not be judged, and why."""
    for use in view.uses:
        if use.undecided and use.ref is not None:
            yield f"{use.case}, {_step_name(use)}: {'; '.join(use.undecided)}", place_of_use(use)


def _undecided_in(uses: Sequence[Use]) -> Use | None:
    return next((use for use in uses if use.undecided and not use.cleanup), None)


def _step(use: Use, ledger: CellLedger, settings: CheckSettings, broken: bool) -> Seen | None:
    cause = use.cause(settings)
    if not cause.startswith(_SUITE) or use.ref is None or use.started is None:
        return None
    if cause == "suite/step-failed" and (not_listed(ledger, use) or answered_unknown(ledger, use)):
        return None  # exercised/not-listed is the cause, or exercised/unknown-succeeded
    if use.cleanup:
        if cause == "suite/unresolved" and broken:
            return None  # the value would have come from a step that failed
        check = "suite/cleanup-failed"
    else:
        check = cause
    message = f"{use.ref.suite}/{use.ref.case}, {_step_name(use)}: {_what(use, cause)}"
    evidence: dict[str, Any] = {"arguments": cut_json(use.started.arguments, 500)}
    if use.answer is not None:
        evidence["answer"] = answer_of_use(use)
        if use.answer.error is not None:
            evidence["error"] = cut_json(use.answer.error, 500)
    if use.wrong:
        evidence["mismatches"] = list(use.wrong)
    if asked := _asked_in(use):
        evidence["prompts"] = asked
    if use.started.step.attempt > 1:
        evidence["attempts"] = use.started.step.attempt
    if cause == "suite/timed-out":
        evidence |= {**told(use.exchange), **children_at(use.dialogue, use.exchange)}
    if cause == "suite/timed-out" and use.dialogue.stderr_tail:
        evidence["stderr"] = scrub(use.dialogue.stderr_quote)
    key = (use.case, use.ref.phase, use.ref.index, _VARIES.sub("#", message))
    if others := _holds_in(use, ledger, settings):
        named = f"the profile {others[0]}" if len(others) == 1 else f"the profiles {', '.join(others)}"
        message += f"; with {named} the same case holds"
        evidence["holds_with"] = others
    return Seen(
        check=check,
        run=use.run.key,
        order=(0, use.exchange.sent.n if use.exchange is not None else 0),
        key=key,
        message=message,
        tool=use.target if use.is_call else None,
        place=place_of_use(use),
        case=use.case,
        evidence=evidence,
    )


def _asked_in(use: Use) -> list[dict[str, str]]:
    """What the client was asked for in the attempt that is judged, and what it answered."""
    return [
        {
            "method": item.method,
            **({"mode": item.mode} if item.mode else {}),
            "message": cut(item.message),
            "answer": cut_json(item.answer),
            "by": item.by,
        }
        for item in [item for item in use.dialogue.prompts if item.step is not None and item.step == use.ref][
            :MAX_ASKED
        ]
    ]


def _holds_in(use: Use, ledger: CellLedger, settings: CheckSettings) -> list[str]:
    """Other profiles with which the same case did all that it expects, in the same era and with the same backends."""
    out = []
    for view in ledger.views:
        key = view.run.key
        ended = view.cases_ended.get(use.case or "")
        if key.profile == use.run.key.profile or key.era != use.run.key.era or ended is None:
            continue
        uses = view.by_case().get(use.case or "", [])
        if ended.how == "completed" and not any(_is_bad(item, ledger, settings) for item in uses if not item.cleanup):
            out.append(key.profile)
    return out


def _step_name(use: Use) -> str:
    assert use.ref is not None
    assert use.started is not None
    phase = "step" if use.ref.phase == "step" else "cleanup step"
    return f"{phase} {use.ref.index + 1}, {use.started.action.replace('_', ' ')} {use.started.target}"


def _what(use: Use, cause: str) -> str:
    assert use.started is not None
    tries = use.started.step.attempt
    after = f" (after {tries} attempts)" if tries > 1 else ""
    if cause == "suite/timed-out" and use.exchange is None:
        return f"it was not sent: no time was left for it{after}"
    if cause == "suite/timed-out":
        zero = zero_note(use.exchange) if use.exchange is not None else ""
        children = children_note(use.dialogue, use.exchange)
        return f"no answer {_limit(use)}{after}{zero}{_blocked(use)}{children}{_late(use)}{_deep(use)}"
    if cause == "suite/unresolved":
        return f"{use.detail or 'a capture found nothing'}{after}"
    if use.how == "no-token":
        text = cut(use.answer.text) if use.answer is not None else "nothing"
        return f"`confirm = true`, but the first answer holds no confirm_token: {text}"
    if use.wrong:
        return f"{'; '.join(use.wrong)}{after}"
    if use.answer is None:
        why = f": {use.detail or use.why}" if use.detail or use.why != "no answer" else ""
        return f"no answer{why}{after}{_deep(use)}"
    return f"{use.answer.problem or use.detail or use.why}{after}"


def _limit(use: Use) -> str:
    """Which time was over: the step's, or sooner the case's."""
    assert use.started is not None
    case = next((case for suite, case in use.run.cases if f"{suite}/{case.id}" == use.case), None)
    limit = None if case is None else case.timeout_s
    if limit is not None and use.seconds is not None and use.seconds < use.started.timeout_s - SLACK_S:
        return f"before the {limit:g} s of the case were over"
    return f"within {use.started.timeout_s:g} s"


def _late(use: Use) -> str:
    """An answer that came as soon as we did the next thing: it had waited for that."""
    reply = use.exchange.reply if use.exchange is not None else None
    if reply is None or use.exchange is None or use.started is None or use.seconds is None:
        return ""
    late = reply.line.event.t - use.started.t - use.seconds
    if not 0 <= late < AT_ONCE_S:
        return ""
    sent = use.exchange.cancelled if use.exchange.cancelled == "notifications/cancelled" else "the next line"
    closing = [item.n for item in use.dialogue.diagnostics if item.what == "closing"]
    if closing and closing[0] < reply.line.event.n:
        return f"; the answer came as soon as {sent} had been sent and the server's stdin closed"
    return f"; the answer came as soon as {sent} was sent"


def _blocked(use: Use) -> str:
    notes = use.dialogue.diagnostics
    words = {
        "write-blocked": "the server has stopped reading its stdin",
        "still-reading": "the server was still reading the request",
        "still-coming": "an answer was still coming",
    }
    said = [words[item.what] for item in notes if item.what in words and item.step is not None and item.step == use.ref]
    return "".join(f"; {what}" for what in dict.fromkeys(said))


def _deep(use: Use) -> str:
    sent = use.exchange.sent.n if use.exchange is not None else 0
    for line in use.dialogue.lines:
        if line.problem == TOO_DEEP and line.event.n > sent:
            return f"; a line of {len(line.event.body.data)} bytes came, nested too deeply to be read"
    return ""


def _case(view: RunView, name: str, case: CaseSpec | None, uses: list[Use]) -> Iterator[Seen]:
    """A case that did not come to its end though no step says why."""
    message = _case_fault(view, name, case, uses)
    if message is None:
        return
    check = "suite/timed-out" if message.startswith("the case") else "suite/step-failed"
    yield Seen(
        check=check,
        run=view.run.key,
        key=(name, message),
        message=f"{name}: {message}",
        place=case.place if case is not None else None,
        case=name,
    )


def _case_fault(view: RunView, name: str, case: CaseSpec | None, uses: list[Use]) -> str | None:
    ended = view.cases_ended.get(name)
    if ended is None or ended.how == "interrupted" or case is None:
        return None
    steps = [use for use in uses if not use.cleanup]
    if ended.how == "timed-out":
        limit = f" within {case.timeout_s:g} s" if case.timeout_s is not None else " in its time"
        return f"the case did not end{limit}; it stood at step {max(len(steps), 1)} of {len(case.steps)}"
    if ended.how == "completed":
        missing = sorted(set(range(len(case.steps))) - {use.ref.index for use in steps if use.ref is not None})
        if missing:
            return f"it completed, but step {missing[0] + 1} left no evidence"
        return None
    if ended.how == "died" and any(dialogue.ended_itself for dialogue in view.own):
        return None
    return f"it ended as {ended.how!r} after step {len(steps)}"


def judge_cases(view: RunView, ledger: CellLedger, settings: CheckSettings) -> Iterator[CaseResult]:
    """What became of every selected case of a run that gave evidence."""
    by_case = view.by_case()
    for suite, case in view.run.cases:
        name = f"{suite}/{case.id}"
        if name not in view.run.selected:
            continue
        uses = by_case.get(name, [])
        failed = next((use for use in uses if not use.cleanup and _is_bad(use, ledger, settings)), None)
        if failed is not None:
            seen = _step(failed, ledger, settings, True)
            place = place_of_use(failed) or case.place
            message = (
                seen.message
                if seen is not None
                else f"{name}, {_step_name(failed)}: {_other(failed, ledger, settings)}"
            )
            yield _result(view.run, suite, case, "failed", message, place)
            continue
        open_step = _undecided_in(uses)
        if open_step is not None:
            why = f"{name}, {_step_name(open_step)}: not judged: {'; '.join(open_step.undecided)}"
            yield _result(view.run, suite, case, "not-judged", why, place_of_use(open_step) or case.place)
            continue
        fault = _case_fault(view, name, case, uses)
        ended = view.cases_ended.get(name)
        if fault is not None:
            yield _result(view.run, suite, case, "failed", f"{name}: {fault}", case.place)
        elif ended is not None and ended.how == "completed":
            yield _result(view.run, suite, case, "passed", "", case.place)
        elif ended is not None and ended.how == "died":
            yield _result(view.run, suite, case, "failed", "the server ended by itself", case.place)
        else:
            yield _result(view.run, suite, case, "not-run", _why_not(view, name), case.place)


def _other(use: Use, ledger: CellLedger, settings: CheckSettings) -> str:
    if not_listed(ledger, use):
        return f"{use.target} is not in tools/list"
    if answered_unknown(ledger, use):
        return f"{use.target} is not in tools/list, and its call succeeded"
    return f"{use.why or 'failed'} (see {use.cause(settings)})"


def _why_not(view: RunView, name: str) -> str:
    if name in view.cases_started:
        return "the run ended in the middle of it"
    if view.record.outcome == "finished":
        return "it was not among the cases of the run that gave the evidence"
    return {"failed": "the run failed before it", "interrupted": "the run was interrupted before it"}.get(
        view.record.outcome, "it was not run"
    )


def not_run(run: Run, why: str) -> Iterator[CaseResult]:
    """The cases of a run without evidence."""
    for suite, case in run.cases:
        if f"{suite}/{case.id}" in run.selected:
            yield _result(run, suite, case, "not-run", why, case.place)


def _result(run: Run, suite: str, case: CaseSpec, status: Any, message: str, place: Any) -> CaseResult:
    key = run.key
    return CaseResult(
        server=key.server,
        backend=key.backend,
        era=key.era,
        profile=key.profile,
        suite=suite,
        case=case.id,
        status=status,
        message=message,
        **place_of(place),
    )
