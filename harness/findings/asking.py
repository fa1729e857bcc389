"""What servers ask of the client, and what they tell it unasked: forms, URLs, sampling, roots, logs, progress.

Of one request one thing is said: what the client has not declared is wire/undeclared-request, whatever else is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.findings.ask_faults import ask_faults
from harness.findings.frames import Ask, Dialogue, Exchange, Line, asks, is_input_required, round_faults
from harness.findings.seen import Seen
from harness.findings.steps import METHODS, RunView, place_of_use
from harness.model.finding import Severity
from harness.model.outcome import Answer, answer_of, cut, cut_json, looks_like_an_error
from harness.model.plan import LOG_LEVELS
from harness.model.transcript import PROBE_LABEL, STATE_PROBE, UNKNOWN_NOTIFICATION, Sent

__all__ = ["see_asking", "see_notifications_met", "see_states"]

FORMATS = ("date", "date-time", "email", "uri")
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
}
_COMPOSED = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas")
_SECRET_ENDS = (
    "password",
    "passwd",
    "passphrase",
    "api key",
    "apikey",
    "access key",
    "private key",
    "secret key",
    "client secret",
    "access token",
    "refresh token",
    "auth token",
    "bearer token",
    "card number",
    "credit card",
    "cvv",
    "cvc",
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def see_asking(view: RunView) -> Iterator[Seen]:
    """What one run shows of it."""
    for index, dialogue in enumerate(view.dialogues):
        at = _At(view, index, dialogue)
        yield from _asked(at)
        yield from _rounds(at)
        yield from _progress(at)
        yield from _logs(at)
    yield from _cancelled(view)


class _At:
    """A dialogue and where it stands."""

    def __init__(self, view: RunView, index: int, dialogue: Dialogue) -> None:
        self.view, self.index, self.dialogue = view, index, dialogue
        self.modern = dialogue.era == "modern"

    def seen(self, check: str, line: Line, message: str, *, key: Any, **more: Any) -> Seen:
        """A sighting in one line."""
        step = line.step
        evidence = {"line": line.number, "offset": line.event.at, "when": line.when, **more.pop("evidence", {})}
        return Seen(
            check=check,
            run=self.view.run.key,
            order=(self.index, line.event.n),
            key=key,
            message=f"{message}; {line.when}",
            case=None if step is None else f"{step.suite}/{step.case}",
            evidence=evidence,
            **{"tool": line.tool, **more},
        )


# --- requests -----------------------------------------------------------------------------------


def _asked(at: _At) -> Iterator[Seen]:
    for ask in asks(at.dialogue):
        if ask.pushed and at.modern:
            said = f"the server sends a request of its own, {cut(ask.method, 100)}, which this era has not"
            yield at.seen("wire/pushed-request", ask.line, said, key=(ask.tool or "", ask.method), tool=ask.tool)
        elif not ask.missing:
            yield from _of_ask(at, ask)


def _of_ask(at: _At, ask: Ask) -> Iterator[Seen]:
    faults = [("wire/malformed-request", *fault) for fault in ask_faults(ask, modern=at.modern)]
    base = f"{ask.pointer}/params" if ask.pointer else "/params"
    for check, pointer, what in faults or _form_faults(ask):
        yield at.seen(
            check,
            ask.line,
            f"{ask.method or 'a request'} of the server's: {what}",
            key=(ask.tool or "", ask.method, pointer, what),
            tool=ask.tool,
            pointer=f"{base}{pointer}",
            evidence={"params": cut_json(ask.params)},
        )


def _rounds(at: _At) -> Iterator[Seen]:
    """`input_required` results that say nothing, or say it in another shape."""
    for exchange in at.dialogue.exchanges:
        result, reply = exchange.result, exchange.reply
        if not at.modern or reply is None or not is_input_required(result):
            continue
        for pointer, what in round_faults(result):
            tool = exchange.name if exchange.method == "tools/call" else None
            yield at.seen(
                "wire/malformed-request",
                reply.line,
                f"input_required in the answer to {exchange.sent.label}: {what}",
                key=(exchange.method, exchange.name, what),
                tool=tool,
                pointer=f"/result{pointer}",
                evidence={"result": cut_json(result)},
            )


# --- forms --------------------------------------------------------------------------------------


def _form_faults(ask: Ask) -> Iterator[tuple[str, str, str]]:
    """What the specification has not in the form of a well-formed elicitation, and what it forbids to ask for."""
    if ask.method != "elicitation/create" or ask.params.get("mode", "form") != "form":
        return
    schema = ask.params["requestedSchema"]
    base, check = "/requestedSchema", "wire/elicit-schema"
    for pointer, what in _root_faults(schema):
        yield check, f"{base}{pointer}", what
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    if not properties and schema.get("type") == "object":
        yield "wire/elicit-empty", f"{base}/properties", "the form has no fields"
    for name, field in properties.items():
        where = f"{base}/properties/{name.replace('~', '~0').replace('/', '~1')}"
        yield from ((check, where, f"{name}: {what}") for what in _field_faults(field))
        if _is_secret(name, field):
            said = f"{name}: a secret is asked for in a form, which the client reads; that takes mode url"
            yield "wire/elicit-secret", where, said


def _root_faults(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if schema.get("type") != "object":
        yield "", f"the root's type is {cut_json(schema.get('type'), 60)}, not object"
    for word in _COMPOSED:
        if word in schema:
            yield f"/{word}", f"{word} at the root; a form is a flat object with properties"
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        yield "/properties", "properties is no object"
    elif required is not None:
        names = required if isinstance(required, list) else [required]
        lost = [name for name in names if not isinstance(name, str) or name not in properties]
        if lost or not isinstance(required, list):
            yield "/required", f"required names what is no field: {cut_json(lost or required, 100)}"


def _field_faults(field: Any) -> Iterator[str]:
    """What keeps a field from being one of the primitive kinds, a sentence each."""
    if not isinstance(field, Mapping):
        yield f"a field is a schema, not {cut_json(field, 60)}"
        return
    kind = field.get("type")
    composed = [word for word in _COMPOSED if word in field and not (word == "oneOf" and kind == "string")]
    if composed:
        yield f"{composed[0]}; a field is text, a number, a boolean or a choice"
        return
    match kind:
        case "string":
            yield from _string_faults(field)
        case "number" | "integer" | "boolean":
            if "enum" in field:
                yield "an enum of what is no text"
        case "array":
            yield from _choice_faults(field)
        case "object":
            yield "a nested object; forms are flat"
        case _:
            yield f"its type is {cut_json(kind, 60)}; a field is a string, number, integer, boolean or array of choices"
    if "default" in field and not _is_default(kind, field["default"]):
        yield f"the default {cut_json(field['default'], 60)} is no {kind}"


def _string_faults(field: Mapping[str, Any]) -> Iterator[str]:
    form = field.get("format")
    if form is not None and form not in FORMATS:
        yield f"the format {cut_json(form, 60)}; forms have {', '.join(FORMATS)}"
    if "enum" in field and not _are_texts(field["enum"]):
        yield "an enum that is no list of texts"
    if "oneOf" in field and not _are_titled(field["oneOf"]):
        yield "oneOf that is no list of const and title"


def _choice_faults(field: Mapping[str, Any]) -> Iterator[str]:
    items = field.get("items")
    items = items if isinstance(items, Mapping) else {}
    choices = _are_texts(items.get("enum")) or _are_titled(items.get("anyOf", items.get("oneOf")))
    if not choices:
        yield "an array that is no choice: its items have neither an enum of texts nor anyOf of const and title"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _are_titled(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(item, Mapping) and isinstance(item.get("const"), str) and isinstance(item.get("title"), str)
            for item in value
        )
    )


def _is_default(kind: Any, value: Any) -> bool:
    if kind == "array":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    wanted = _TYPES.get(kind, ()) if isinstance(kind, str) else ()
    if not wanted:
        return True  # its type has been told
    if isinstance(value, bool):
        return bool(kind == "boolean")
    return isinstance(value, wanted) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _is_secret(name: str, field: Any) -> bool:
    """Whether a field of free text is called like a password, a key or a card number."""
    if not isinstance(field, Mapping) or field.get("type") != "string" or {"enum", "oneOf", "const"} & field.keys():
        return False
    words = " ".join(_WORDS.findall(name)).lower()
    return any(words == end or words.endswith(f" {end}") for end in _SECRET_ENDS)


# --- notifications ------------------------------------------------------------------------------


def _progress(at: _At) -> Iterator[Seen]:
    asked = {token: exchange for exchange in at.dialogue.exchanges if (token := _token_of(exchange)) is not None}
    best: dict[Any, float] = {}
    for line, message in at.dialogue.notifications:
        if message["method"] != "notifications/progress":
            continue
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        token, value = params.get("progressToken"), params.get("progress")
        evidence = {"params": cut_json(params)}
        if not _is_token(token) or not isinstance(value, int | float) or isinstance(value, bool):
            what = "progress without a number" if _is_token(token) else "progress without a progressToken"
            yield at.seen(
                "wire/malformed-notification", line, f"notifications/progress: {what}", key=what, evidence=evidence
            )
            continue
        key = _key(token)
        exchange = asked.get(key)
        if exchange is None or exchange.sent.n > line.event.n:
            flying = sorted(repr(other[1]) for other, item in asked.items() if item in line.flying)
            have = (
                f"the tokens under way are {', '.join(flying)}" if flying else "no request under way asked for progress"
            )
            said = f"progress with the token {cut_json(token, 60)}; {have}"
            yield at.seen("wire/progress-token", line, said, key=(line.tool or "", bool(flying)), evidence=evidence)
            continue
        reply = exchange.reply
        if reply is not None and reply.line.event.n < line.event.n:
            after = round((line.event.t - reply.line.event.t) * 1000)
            said = f"progress of {exchange.sent.label} {after} ms after its answer"
            tool = exchange.name if exchange.method == "tools/call" else None
            yield at.seen("wire/late-progress", line, said, key=exchange.sent.label, evidence=evidence, tool=tool)
        elif key in best and not value > best[key]:
            said = f"progress of {exchange.sent.label} goes from {best[key]:g} to {value:g}"
            yield at.seen("wire/progress-order", line, said, key=exchange.sent.label, evidence=evidence)
        best[key] = max(value, best.get(key, value))


def _token_of(exchange: Exchange) -> Any:
    meta = exchange.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return _key(token) if _is_token(token) else None


def _is_token(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(token: Any) -> tuple[str, Any]:
    return type(token).__name__, token


def _logs(at: _At) -> Iterator[Seen]:
    for line, message in at.dialogue.notifications:
        if message["method"] != "notifications/message":
            continue
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        evidence = {"params": cut_json(params)}
        level = params.get("level")
        if level not in LOG_LEVELS or "data" not in params:
            what = f"its level is {cut_json(level, 60)}" if level not in LOG_LEVELS else "it has no data"
            said = f"notifications/message: {what}"
            yield at.seen("wire/malformed-notification", line, said, key=what, evidence=evidence)
            continue
        if at.modern and not _wants_logs(line):
            said = f"a log notification ({level}) though no request under way asked for any with logLevel"
            yield at.seen("wire/undeclared-log", line, said, key=line.tool or "", severity="error", evidence=evidence)
        elif not at.modern and "logging" not in at.view.capabilities:
            said = f"a log notification ({level}) though the server has not declared logging"
            yield at.seen("wire/undeclared-log", line, said, key="", evidence=evidence)


def _wants_logs(line: Line) -> bool:
    """Whether a request in whose course the line may have come asked for logs."""
    near = line.flying or (() if line.before is None else (line.before,))
    metas = [exchange.params.get("_meta") for exchange in near]
    return any(isinstance(meta, Mapping) and LOG_LEVEL in meta for meta in metas)


# --- what becomes of it -------------------------------------------------------------------------


def _cancelled(view: RunView) -> Iterator[Seen]:
    """Servers that live on after a cancellation and answer nothing."""
    for use in view.uses:
        if use.fault != "wire/dead-after-cancel" or use.exchange is None:
            continue
        yield Seen(
            check=use.fault,
            run=view.run.key,
            order=(0, use.exchange.sent.n),
            key=use.target,
            message=f"{use.exchange.sent.label} was cancelled, and then {use.detail.partition(' after')[0]}",
            tool=use.target if use.is_call else None,
            place=place_of_use(use),
            case=use.case,
            evidence={"request": cut_json(use.exchange.params), "stderr": use.dialogue.stderr_quote},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Twist:
    """One requestState that we changed, and the answer to it."""

    kind: str
    was: Any
    new: Any
    exchange: Exchange

    @property
    def taken(self) -> bool:
        """Whether the call succeeded with it."""
        if not self.exchange.in_time or is_input_required(self.exchange.result):
            return False
        answer = self.answer
        return not answer.problem and not answer.is_error and not looks_like_an_error(answer)

    @property
    def answer(self) -> Answer:
        """The answer, taken apart."""
        assert self.exchange.reply is not None
        action = next(name for name, method in METHODS.items() if method == self.exchange.method)
        return answer_of(action, self.exchange.reply.message)

    @property
    def comes_back(self) -> bool:
        """Whether what we wrote into the state is in the answer."""
        shown = self.new if isinstance(self.new, str) else str(self.new)
        return self.kind == "value" and self.taken and shown in json.dumps(self.answer.result, ensure_ascii=False)


def see_states(view: RunView) -> Iterator[Seen]:
    """What becomes of a requestState that was changed, left out, or used twice.

    A state without which the call succeeds as well carries nothing, and may be changed by anybody; nor does one that
    any text may stand for. What is read has to be verified where it matters; that it matters is seen where a value that
    was changed comes back in the answer.
    """
    for index, dialogue in enumerate(view.probes, len(view.dialogues)):
        twists = list(_twists(dialogue))
        if any(twist.kind == "without" and twist.taken for twist in twists):
            continue
        changed = [twist for twist in twists if twist.kind in ("changed", "value") and twist.taken]
        back = [twist for twist in changed if twist.comes_back]
        unread = any(twist.kind == "replaced" and twist.taken for twist in twists)
        for twist in (*back, *(() if unread else changed))[:1]:
            said = "a requestState that we had changed was taken"
            if twist.kind == "value":
                said += f": {cut_json(twist.was, 60)} in it was made {cut_json(twist.new, 60)}"
            said += ", and that comes back in the answer" if twist.comes_back else ""
            yield _of_twist(view, index, "wire/request-state-changed", twist, said, "error" if back else None)
        for twist in twists:
            if twist.kind == "replayed" and twist.taken:
                said = (
                    "one consent, with one requestState, was taken twice, though the tool says that it destroys and is "
                )
                said += "not idempotent"
                yield _of_twist(view, index, "wire/request-state-replayed", twist, said, None)


def _twists(dialogue: Dialogue) -> Iterator[_Twist]:
    for note in dialogue.diagnostics:
        if note.what != STATE_PROBE:
            continue
        exchange = next((item for item in dialogue.exchanges if item.sent.n > note.n), None)
        try:
            detail = json.loads(note.detail)
        except ValueError:
            continue
        if exchange is not None and exchange.method in METHODS.values():
            yield _Twist(kind=detail.get("kind"), was=detail.get("was"), new=detail.get("is"), exchange=exchange)


def _of_twist(view: RunView, index: int, check: str, twist: _Twist, said: str, severity: Severity | None) -> Seen:
    exchange = twist.exchange
    step = exchange.sent.step
    return Seen(
        check=check,
        run=view.run.key,
        order=(index, exchange.sent.n),
        key=(exchange.method, exchange.name),
        severity=severity,
        message=f"{exchange.sent.label}: {said}",
        tool=exchange.name if exchange.method == "tools/call" else None,
        case=None if step is None else f"{step.suite}/{step.case}",
        evidence={
            "request": cut_json({key: value for key, value in exchange.params.items() if key != "_meta"}, 1000),
            "answer": cut(twist.answer.text, 500),
        },
    )


def see_notifications_met(view: RunView) -> Iterator[Seen]:
    """What becomes of the process that was sent notifications that it need not know: it should pass them over."""
    if any(dialogue.ended_itself for dialogue in view.dialogues):
        return  # it ends by itself without them
    for index, dialogue in enumerate(view.probes, len(view.dialogues)):
        sent = [event for event in dialogue.transcript.events if isinstance(event, Sent)]
        begun = next((event.n for event in sent if event.label == UNKNOWN_NOTIFICATION), None)
        if begun is None:
            continue
        probes = (event.n for event in sent if event.label.startswith(PROBE_LABEL))
        until = next(probes, len(dialogue.transcript.events) + 1)  # from then on it is sent more than notifications
        odd = [item for item in dialogue.oddities if begun < item.line.event.n < until and "error" in item.message]
        if odd:
            at = _At(view, index, dialogue)
            said = f"a notification that the server does not know was answered: {cut_json(odd[0].message)}"
            yield at.seen("wire/notification-not-ignored", odd[0].line, said, key="answered")
        elif dialogue.ended_itself and sent[-1].n < until and dialogue.exited is not None:
            yield Seen(
                check="wire/notification-not-ignored",
                run=view.run.key,
                order=(index, dialogue.exited.n),
                key="ended",
                message="the server ended when it was sent a notification that it does not know, or "
                f"notifications/cancelled for a request that there was not: exit code {dialogue.exited.code}",
                evidence={"exit_code": dialogue.exited.code, "stderr": dialogue.stderr_quote},
            )
