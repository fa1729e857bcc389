"""What became of every step and of every call outside of one: the one place where a failure gets its cause.

A step is judged by the last answer of its last attempt. Where it failed, `Use.fault` names the one check that says so,
so that no second finding is made of the same cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal

import regex

from harness.findings.ask_faults import ask_faults
from harness.findings.frames import (
    TOO_DEEP,
    Dialogue,
    Exchange,
    Line,
    asks,
    is_input_required,
    quote_id,
    read_dialogue,
    round_faults,
)
from harness.findings.seen import quote_text, scrub
from harness.findings.turns import fault_of
from harness.model.checks import family_of
from harness.model.outcome import (
    Answer,
    Comparison,
    answer_of,
    compare,
    compare_prompts,
    expect_from_json,
    is_refusal_expected,
    is_text_expected,
    looks_like_an_error,
)
from harness.model.plan import CheckSettings, ExpectSpec, Place, Run, StepSpec
from harness.model.transcript import (
    CaseEnded,
    CaseStarted,
    Diagnostic,
    Evidence,
    Received,
    RunRecord,
    StepEnded,
    StepRef,
    StepStarted,
)

__all__ = [
    "METHODS",
    "RunView",
    "Use",
    "Verdict",
    "answer_of_use",
    "children_at",
    "children_note",
    "is_broken_off",
    "partial_note",
    "place_of_use",
    "told",
    "view_run",
    "why_unanswered",
    "zero_note",
]

METHODS = {"call": "tools/call", "read_resource": "resources/read", "get_prompt": "prompts/get"}
_ACTIONS = {method: action for action, method in METHODS.items()}
_FOLDERS = 5  # of an attempt, below the evidence's root: server, backend, era, profile, attempt
NOTES_TOGETHER = 2  # what the engine notes of one timeout stands in as many events after it
_UNREADABLE = {"wire/not-utf8", "wire/not-jsonrpc", "wire/stdout-not-json", "http/not-json"}
_REPLY_KEYS = (re.compile(rb'"id"\s*:'), re.compile(rb'"(?:result|error)"\s*:'))

_WAYS = {"notifications/cancelled": "notifications/cancelled was sent", "stream": "its stream was closed"}

Verdict = Literal["succeeded", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One judged use of a tool, prompt or resource: a step (by its last attempt), or a call outside of any step.

    Attributes:
        calls: Requests that left for it, over all attempts and rounds.
        seconds: How long that attempt took.
        answered: Whether a well-formed final result came, `isError` or not.
        prompts: Messages of the elicitations that came in that attempt, in order.
        how: How the step's attempt ended, as recorded; "" outside of steps and where no end is recorded.
        answer: The answer that was judged.
        wrong: What is not as the step expects, a sentence each.
        undecided: What could not be judged, and why, a sentence each; empty where anything is wrong.
        looks_failed: A success that reads like a failure, without the step having asked for that text.
        fault: Id of the check that says why it failed, "" if it did what was expected.
        fallback: The check that says so where the family of `fault` is lowered.
        why: Why it earns nothing, in a few words, for the ledger.
        pending: Whether it has no recorded end, for no fault of the server's.
    """

    run: Run
    method: str
    target: str
    dialogue: Dialogue
    exchange: Exchange | None
    ref: StepRef | None = None
    started: StepStarted | None = None
    detail: str = ""
    calls: int = 0
    prompts: tuple[str, ...] = ()
    how: str = ""
    seconds: float | None = None
    answered: bool = False
    answer: Answer | None = None
    wrong: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    looks_failed: bool = False
    verdict: Verdict = "failed"
    fault: str = ""
    fallback: str = ""
    why: str = ""
    pending: bool = False

    @property
    def is_call(self) -> bool:
        """Whether it is a tool that was called (or meant to be)."""
        return self.method == "tools/call"

    @property
    def unlisted(self) -> bool:
        """Whether the step calls an unlisted tool on purpose."""
        return self.started is not None and self.started.unlisted

    @property
    def case(self) -> str | None:
        """`suite/case`, None outside of steps."""
        return None if self.ref is None else f"{self.ref.suite}/{self.ref.case}"

    @property
    def cleanup(self) -> bool:
        """Whether it is a cleanup step."""
        return self.ref is not None and self.ref.phase == "cleanup"

    def cause(self, settings: CheckSettings) -> str:
        """`fault`, or `fallback` where that check is lowered: no failed case hides behind a warning."""
        if self.fault and family_of(self.fault) != "suite" and settings.level_of(self.fault) != "error":
            return self.fallback
        return self.fault


@dataclass(slots=True, kw_only=True)
class RunView:
    """One run with its evidence taken apart; filled by `view_run`, then left alone.

    Attributes:
        dialogues: Those that the engine drove itself, then those of other processes.
        client: The comparing pass after it, None without one. Nothing in it covers or fails anything of the run.
    """

    run: Run
    record: RunRecord
    dialogues: tuple[Dialogue, ...]
    probes: tuple[Dialogue, ...] = ()  # of processes that were sent a line that is no JSON
    uses: list[Use] = field(default_factory=list)
    cases_started: set[str] = field(default_factory=set)
    cases_ended: dict[str, CaseEnded] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client: Dialogue | None = None

    @property
    def spoken(self) -> bool:
        """Whether the server speaks the era of this run."""
        return self.record.outcome != "not-spoken"

    @property
    def own(self) -> tuple[Dialogue, ...]:
        """The dialogues that the engine drove."""
        return tuple(dialogue for dialogue in self.dialogues if not dialogue.outside)

    def by_case(self) -> dict[str, list[Use]]:
        """The uses of each case, in order."""
        out: dict[str, list[Use]] = {}
        for use in self.uses:
            if use.case is not None:
                out.setdefault(use.case, []).append(use)
        return out


def view_run(run: Run, evidence: Evidence) -> RunView:
    """The evidence of one run, taken apart: dialogues, steps, cases."""
    record = evidence.record
    ordered = sorted(evidence.transcripts, key=lambda item: (item.is_outside, _natural(item.name)))
    folder = "/".join(PurePath(evidence.folder).parts[-_FOLDERS:])
    read = [read_dialogue(transcript, protocol=record.protocol, folder=folder) for transcript in ordered]
    for dialogue in read:
        if not dialogue.outside:
            dialogue.era, dialogue.declared = record.key.era, record.client_capabilities
    dialogues = tuple(dialogue for dialogue in read if not dialogue.transcript.is_probe)
    probes = tuple(dialogue for dialogue in read if dialogue.transcript.is_probe)
    view = RunView(
        run=run, record=record, dialogues=dialogues, probes=probes, capabilities=_capabilities(record, dialogues)
    )
    for dialogue in dialogues:
        for event in dialogue.transcript.events:
            if isinstance(event, CaseStarted):
                view.cases_started.add(f"{event.suite}/{event.case}")
            elif isinstance(event, CaseEnded):
                view.cases_ended[f"{event.suite}/{event.case}"] = event
    if evidence.client is not None:
        view.client = read_dialogue(evidence.client, protocol=record.protocol, folder=folder)
        view.client.era = record.key.era
    tests = _tests(dialogues)
    found = (*_step_uses(run, dialogues), *_free_uses(run, dialogues))
    view.uses = [_of_others(use, tests) if use.dialogue.outside else use for use in found]
    return view


@dataclass(frozen=True, slots=True)
class _Tests:
    """How tests of somebody else's ended: (transcript, "suite/case") -> whether it failed."""

    ends: Mapping[tuple[str, str], bool]

    def failed(self, transcript: str, case: str) -> bool:
        """Whether a test failed, by the transcript, or by any other where this one does not tell its end."""
        known = self.ends.get((transcript, case))
        return any(failed for (_, name), failed in self.ends.items() if name == case) if known is None else known


def _tests(dialogues: Iterable[Dialogue]) -> _Tests:
    return _Tests(
        {
            (dialogue.transcript.name, f"{event.suite}/{event.case}"): event.how == "failed"
            for dialogue in dialogues
            if dialogue.outside
            for event in dialogue.transcript.events
            if isinstance(event, CaseEnded)
        }
    )


def _of_others(use: Use, tests: _Tests) -> Use:
    """A use in a dialogue that another process drove: its own tests say what is a fault, and no check of ours does.

    It earns what its answer earns, and nothing in a test that failed.
    """
    use = replace(use, fault="", fallback="")
    if use.case is not None and use.verdict != "failed" and tests.failed(use.dialogue.transcript.name, use.case):
        return replace(use, verdict="failed", why="its test failed")
    return use


def answer_of_use(use: Use, limit: int = 1000) -> str:
    """The text that was judged, for evidence: cut with what is missing and where all of it is."""
    if use.answer is None:
        return ""
    reply = use.exchange.reply if use.exchange is not None else None
    return quote_text(use.answer.text, limit, use.dialogue.where(reply.line.event.body if reply is not None else None))


def place_of_use(use: Use) -> Place | None:
    """Where the step of a use is written, None outside of steps."""
    ref = use.ref
    if ref is None:
        return None
    case = next((case for suite, case in use.run.cases if suite == ref.suite and case.id == ref.case), None)
    if case is None:
        return None
    steps: Sequence[StepSpec] = case.cleanup if ref.phase == "cleanup" else case.steps
    return steps[ref.index].place if ref.index < len(steps) else case.place


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """`server-2` before `server-10`."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for char in name + "\0":
        if char.isascii() and char.isdigit():
            digits += char
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, char))
    return tuple(parts)


def _capabilities(record: RunRecord, dialogues: Iterable[Dialogue]) -> Mapping[str, Any]:
    for dialogue in dialogues:
        for exchange in dialogue.exchanges:
            if exchange.method in ("initialize", "server/discover") and isinstance(exchange.result, Mapping):
                declared = exchange.result.get("capabilities")
                if isinstance(declared, Mapping):
                    return declared
    return record.capabilities


# --- steps --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Attempts:
    """All attempts of one step so far; the last one is judged."""

    dialogue: Dialogue
    started: StepStarted
    ended: StepEnded | None
    calls: int = 0


def _step_uses(run: Run, dialogues: Iterable[Dialogue]) -> list[Use]:
    asked: dict[StepRef | None, str] = {}
    found: dict[tuple[str, str, str, str, int], _Attempts] = {}
    for dialogue in dialogues:
        modern = dialogue.era == "modern"
        asked |= {
            exchange.sent.step: "wire/malformed-request"
            for exchange in dialogue.exchanges
            if modern and is_input_required(exchange.result) and any(round_faults(exchange.result))
        }
        for ask in asks(dialogue):
            if ask.exchange is None or (ask.pushed and modern):
                continue
            if ask.missing:
                asked[ask.exchange.sent.step] = "wire/undeclared-request"
            elif any(ask_faults(ask, modern=modern)):
                asked.setdefault(ask.exchange.sent.step, "wire/malformed-request")
        for started, ended in dialogue.steps:
            ref = started.step
            within = dialogue.transcript.name if dialogue.outside else ""  # a test may be run again, in another process
            key = (within, ref.suite, ref.case, ref.phase, ref.index)
            sent = len(dialogue.by_step.get(ref, ()))
            known = found.get(key)
            if known is None:
                found[key] = _Attempts(dialogue, started, ended, sent)
                continue
            known.calls += sent
            if ref.attempt >= known.started.step.attempt:
                known.dialogue, known.started, known.ended = dialogue, started, ended
    return [_blamed(_judge_step(run, attempts), asked) for attempts in found.values()]


def _blamed(use: Use, asked: Mapping[StepRef | None, str]) -> Use:
    """A step that failed after the server had asked for what it may not, or as it may not: that is the cause."""
    if use.fault == "suite/step-failed" and use.ref in asked:
        return replace(use, fault=asked[use.ref], fallback="suite/step-failed")
    return use


def _judge_step(run: Run, attempts: _Attempts) -> Use:
    started, ended, dialogue = attempts.started, attempts.ended, attempts.dialogue
    method = METHODS.get(started.action, started.action)
    exchanges = dialogue.by_step.get(started.step, [])
    final = exchanges[-1] if exchanges else None
    how = ended.how if ended is not None else ""
    base: dict[str, Any] = {
        "run": run,
        "method": method,
        "target": final.name if final is not None and final.name else started.target,
        "dialogue": dialogue,
        "exchange": final,
        "ref": started.step,
        "started": started,
        "calls": attempts.calls,
        "how": how,
        "seconds": None if ended is None else ended.t - started.t,
        "detail": ended.detail if ended is not None else "",
        "prompts": tuple(
            item.message
            for item in dialogue.prompts
            if item.step == started.step and item.method == "elicitation/create"
        ),
    }
    if started.cancel_after_s is not None and how in ("answered", "cancelled", "timed-out", "died", "lost"):
        return _judge_cancelled(base, exchanges)
    if how == "unresolved" and (final is None or not final.in_time):
        return Use(**base, fault="suite/unresolved", why="a value was missing and nothing was sent")
    if final is None or not final.in_time or how in ("timed-out", "died", "lost") or is_input_required(final.result):
        return _unanswered(base, dialogue, final)
    lost = [
        item.detail for item in dialogue.diagnostics if item.what == "capture-missing" and item.step == started.step
    ]
    base["uncaptured"] = f"nothing to capture: {', '.join(lost)}" if lost else ""
    expect = None if started.open else expect_from_json(started.expect)
    return _judge_answer(base, final, expect, started.action)


def _judge_cancelled(base: dict[str, Any], exchanges: Sequence[Exchange]) -> Use:
    """A step that cancels its call: it earns nothing, and the server has to live on."""
    dialogue, started, how = base["dialogue"], base["started"], base["how"]
    calls = [exchange for exchange in exchanges if exchange.method != "tools/list"]
    last = exchanges[-1] if exchanges else None
    base |= {"exchange": calls[-1] if calls else last, "calls": base["calls"] - (len(exchanges) - len(calls))}
    base["target"] = calls[-1].name if calls and calls[-1].name else started.target
    if (
        last is None or not calls or last is calls[-1] or not calls[-1].cancelled
    ):  # what follows a cancellation is a list
        if how != "answered":  # it was never cancelled
            asked = calls[-1] if calls else last
            return _unanswered({**base, "exchange": asked}, dialogue, asked)
        said = f"it was answered before it could be cancelled, after {started.cancel_after_s:g} s"
        return Use(**base, wrong=(said,), fault="suite/step-failed", why="a call that was not cancelled")
    if how == "cancelled":
        wrong = tuple(compare_prompts(expect_from_json(started.expect), base["prompts"]))
        return Use(**base, wrong=wrong, fault="suite/step-failed" if wrong else "", why="a call that was cancelled")
    base["detail"] = f"tools/list was not answered within {started.timeout_s:g} s after {_WAYS[calls[-1].cancelled]}"
    cause = why_unanswered(dialogue, last)
    if not cause and how == "died":
        cause = "process/crashed" if dialogue.ended_itself else "suite/step-failed"
    cause = cause or "wire/dead-after-cancel"
    return Use(**base, fault=cause, fallback="suite/timed-out", why="a call that was cancelled")


def _judge_answer(base: dict[str, Any], exchange: Exchange, expect: ExpectSpec | None, action: str) -> Use:
    """A use with an answer; `expect` is None outside of steps, and where a step takes whatever comes."""
    assert exchange.reply is not None
    answer = answer_of(action, exchange.reply.message)
    well_formed = not answer.problem
    answered = well_formed and answer.error is None
    plain = expect if expect is not None else ExpectSpec()
    compared = _compare(plain, answer, base.get("prompts", ()))
    wrong, undecided = compared.wrong, () if compared.wrong else compared.undecided
    if not well_formed or base.get("how") == "no-token":
        undecided = ()
    looks = not answer.is_error and not is_text_expected(plain) and looks_like_an_error(answer)
    verdict: Verdict = "failed"
    why = ""
    how = base.get("how", "")
    uncaptured = base.pop("uncaptured", "")
    if uncaptured:
        base["detail"] = uncaptured
    if not well_formed:
        why = "a malformed result"
    elif how == "no-token":
        why = "no confirm_token in the first answer"
    elif wrong:
        why = "an error" if answer.is_error else "an answer that the step did not expect"
    elif undecided:
        why = "an expectation that could not be judged"
    elif answer.is_error and is_refusal_expected(plain):
        verdict, why = "refused", "a refusal that the suite expects"
    elif answer.is_error:
        why = "an expected error without a text or code to tell it from any other"
    elif looks:
        why = "an answer that reads like a failure"
    else:
        verdict = "succeeded"
    fault = fallback = ""
    if not well_formed:
        fault, fallback = "wire/malformed-result", "suite/step-failed" if wrong and expect is not None else ""
    elif expect is None:
        pass
    elif wrong or how == "no-token":
        fault = "suite/step-failed"
    elif undecided:
        pass
    elif how == "unresolved" or uncaptured:
        fault = "suite/unresolved"
    return Use(
        **base,
        answered=answered,
        answer=answer,
        wrong=wrong,
        undecided=undecided,
        looks_failed=looks and not fault and not undecided,
        verdict=verdict,
        why=why,
        fault=fault,
        fallback=fallback,
    )


def _compare(expect: ExpectSpec, answer: Answer, prompts: Sequence[str]) -> Comparison:
    try:
        return compare(expect, answer, prompts)
    except regex.error as error:
        return Comparison((f"text_matches cannot be read: {error}",))


def _unanswered(base: dict[str, Any], dialogue: Dialogue, exchange: Exchange | None) -> Use:
    """A use without a final answer in time."""
    how = base.get("how", "")
    if exchange is not None and is_input_required(exchange.result):
        return Use(**base, fault="suite/step-failed", why="a question back instead of an answer")
    spoilt = exchange.spoilt if exchange is not None else None
    if spoilt is not None and spoilt.problem == TOO_DEEP:
        said = f"the answer, {len(spoilt.event.body.data)} bytes, is nested too deeply to be read"
        return Use(**base, undecided=(said,), why="an answer nested too deeply to be read")
    cause = why_unanswered(dialogue, exchange) if exchange is not None else ""
    died = how == "died" or cause == "process/crashed"
    if not cause and how == "died" and dialogue.ended_itself:
        cause = "process/crashed"
    why = "the process ended" if died else "no answer"
    if spoilt is not None and spoilt.used is not None:
        why = "an answer that breaks the rules"
    if how == "timed-out":
        return Use(**base, fault=cause or "suite/timed-out", fallback="suite/timed-out", why="no answer in time")
    if cause:
        return Use(**base, fault=cause, fallback="suite/step-failed", why=why)
    if how == "cancelled" and exchange is not None and exchange.cancelled:
        return Use(**base, why="a call that was cancelled")
    if how in ("cancelled", "died", "lost", "answered", "retried", "no-token"):
        return Use(**base, fault="suite/step-failed", why=why)
    return Use(**base, why="the run was cut short", pending=True)


def why_unanswered(dialogue: Dialogue, exchange: Exchange) -> str:
    """The check that explains why a request has no readable reply in time, "" where none does."""
    if exchange.reply is not None and exchange.reply.loose:
        return "wire/id-mismatch"
    if exchange.in_time:
        return ""
    if dialogue.framed:
        return "wire/framing"
    spoilt = exchange.spoilt
    if spoilt is not None and (exchange.given_up is None or spoilt.event.n < exchange.given_up):
        if spoilt.problem == TOO_DEEP:
            return ""  # our own limit
        return "wire/partial-line" if is_broken_off(spoilt) else spoilt.problem
    sent = exchange.sent.n
    until = exchange.given_up
    for line in _lines_after(dialogue, sent):
        event = line.event
        if event.end == "cut":
            return "wire/line-too-long"
        if until is not None and event.n > until and event.end == "lf" and not line.problem:
            break  # it went on talking: what comes later belongs to others
        if is_broken_off(line):
            return "wire/partial-line"
        if line.flying and exchange not in line.flying:
            continue
        if event.end == "none" and until is not None and not dialogue.cut_by_us and _begins_a_message(event):
            return "wire/partial-line"
        if line.problem in _UNREADABLE and _is_like_a_reply(event):
            return line.problem
    if dialogue.is_http and (cause := fault_of(dialogue, exchange)):
        return cause
    if partial_note(dialogue, exchange) is not None:
        return "http/no-answer" if dialogue.is_http else "wire/partial-line"
    if dialogue.truncated is not None and dialogue.truncated.n > sent:
        return "wire/line-too-long"
    if until is None and dialogue.ended_itself:
        return "process/crashed"
    return "wire/unknown-id" if _answered_as_another(dialogue, exchange) else ""


def _answered_as_another(dialogue: Dialogue, exchange: Exchange) -> bool:
    """Whether a reply with an id that no request had came while nothing else waited for one."""
    strays = (item.line for item in dialogue.oddities if item.check == "wire/unknown-id")
    return any(line.flying == (exchange,) for line in strays)


def partial_note(dialogue: Dialogue, exchange: Exchange) -> Diagnostic | None:
    """The engine's note that bytes without a newline were there when it gave a request up."""
    given_up = exchange.given_up
    if given_up is None:
        return None
    notes = (item for item in dialogue.diagnostics if item.what == "partial-line")
    return next((item for item in notes if given_up < item.n <= given_up + NOTES_TOGETHER), None)


def zero_note(exchange: Exchange) -> str:
    """What there is to know where a request that had no answer bore the id 0."""
    zero = exchange.reply is None and exchange.id == 0 and not isinstance(exchange.id, str)
    return f"; it was sent with the id {quote_id(0)}: does the server take 0 for no id?" if zero else ""


def told(exchange: Exchange | None) -> dict[str, Any]:
    """For evidence: what we told the server when we stopped waiting."""
    cancelled = exchange.cancelled if exchange is not None else ""
    return {"told": f"{_WAYS[cancelled]} when the time was over"} if cancelled else {}


def children_at(dialogue: Dialogue, exchange: Exchange | None) -> dict[str, Any]:
    """For evidence: the processes that ran under the server when we stopped waiting."""
    notes = _notes_of(dialogue, exchange)
    words = (("children", "children"), ("shares-stdin", "children_with_its_stdin"))
    return {key: scrub(notes[what]) for what, key in words if what in notes}


def children_note(dialogue: Dialogue, exchange: Exchange | None) -> str:
    """What the children of the server have to do with it, "" without any."""
    notes = _notes_of(dialogue, exchange)
    if "shares-stdin" in notes:
        return (
            f"; running under the server, with the server's stdin as theirs: {scrub(notes['shares-stdin'])} (a child "
            "may read what is meant for the server: start it with stdin=DEVNULL)"
        )
    return f"; running under the server: {scrub(notes['children'])}" if "children" in notes else ""


def _notes_of(dialogue: Dialogue, exchange: Exchange | None) -> dict[str, str]:
    """What the engine noted when it gave a request up, word -> detail."""
    given_up = None if exchange is None else exchange.given_up
    if given_up is None:
        return {}
    until = given_up + NOTES_TOGETHER + 2
    return {item.what: item.detail for item in dialogue.diagnostics if given_up < item.n <= until}


def _lines_after(dialogue: Dialogue, n: int) -> Iterable[Line]:
    lines = dialogue.lines
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        if lines[middle].event.n <= n:
            low = middle + 1
        else:
            high = middle
    for index in range(low, len(lines)):
        yield lines[index]


def is_broken_off(line: Line) -> bool:
    """Whether a message broke off in this line and the next began in it; `wire/partial-line` speaks of such lines."""
    data = line.event.body.data
    return line.problem == "wire/stdout-not-json" and data[:1] == b"{" and data.count(b'"jsonrpc"') > 1


def _is_like_a_reply(event: Received) -> bool:
    """Whether a line that is no message was meant to be a reply; a line of a log is not."""
    data = event.body.data
    return data.lstrip()[:1] in (b"{", b"[") and all(key.search(data) for key in _REPLY_KEYS)


def _begins_a_message(event: Received) -> bool:
    return event.body.data[:200].lstrip().startswith(b"{")


# --- calls outside of steps ---------------------------------------------------------------------


def _free_uses(run: Run, dialogues: Iterable[Dialogue]) -> list[Use]:
    """Calls without a step (evidence of a proxy, or of other test suites): judged by the plain rule."""
    out: list[Use] = []
    for dialogue in dialogues:
        begun = {started.step for started, _ in dialogue.steps}
        for exchange in dialogue.exchanges:
            if exchange.method not in _ACTIONS or exchange.sent.step in begun:
                continue
            base: dict[str, Any] = {
                "run": run,
                "method": exchange.method,
                "target": exchange.name,
                "dialogue": dialogue,
                "exchange": exchange,
                "calls": 1,
            }
            if not exchange.in_time:
                cause = why_unanswered(dialogue, exchange)
                out.append(Use(**base, fault=cause, why="no answer"))
            elif is_input_required(exchange.result):
                out.append(Use(**base, why="a question back"))
            else:
                out.append(_judge_answer(base, exchange, None, _ACTIONS[exchange.method]))
    return out
