"""The life of the server process: crashes, late exits, orphans."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

from harness.findings.frames import Dialogue, Exchange, tool_in_label
from harness.findings.seen import Seen, quote_bytes, scrub
from harness.findings.steps import RunView
from harness.model.transcript import SECRET_TOLD, Exited, Sent

__all__ = ["see_processes"]

HURRIED_S = 4.0  # a server that was stopped sooner after its stdin closed was not given its time
_CONTAINER_NAME = re.compile(r"^container \S+(?= \(image )")  # Docker makes one up each time
# 0, and what an end by SIGINT, SIGPIPE or SIGTERM looks like, of the server or of what launched it
_ENDED_BY_REQUEST = (0, -2, -13, -15, 130, 141, 143)
_BUCKETS_S = (1, 2, 5, 10, 20, 30, 60, 120)  # seconds waited, rounded down so that reports are stable


def see_processes(view: RunView) -> Iterator[Seen]:
    """What the ends of one run's processes show."""
    crashes = {
        dialogue.exited.code for dialogue in view.dialogues if dialogue.exited is not None and dialogue.ended_itself
    }
    for index, dialogue in enumerate(view.dialogues):
        exited = dialogue.exited
        if exited is None:
            continue
        if dialogue.ended_itself:
            if dialogue.outside and not _is_crash(dialogue):
                continue
            if dialogue.answered or view.record.outcome != "failed":
                yield _crashed(view, index, dialogue, exited)
        elif exited.ended_by in _late_ends(dialogue) and not _stopped_by_us(dialogue, exited):
            yield _late(view, index, dialogue, exited)
        elif exited.ended_by == "stdin-close" and exited.code not in crashes and _ended_badly(dialogue, exited):
            # one that ends by itself with this code elsewhere in the run was only closed before it got so far
            yield _bad_exit(view, index, dialogue, exited)
        if exited.orphans:
            yield _orphans(view, index, exited)
    for index, dialogue in enumerate(view.dialogues):
        yield from _secrets_told(view, index, dialogue)


def _secrets_told(view: RunView, index: int, dialogue: Dialogue) -> Iterator[Seen]:
    """What a server says of the secrets in its environment; in the evidence they are masked."""
    told = {item.n - 1: item for item in dialogue.diagnostics if item.what == SECRET_TOLD}
    for line in dialogue.lines:
        if line.event.n in told:
            said = line.event.body.data
            at = max(0, said.find(b"****") - 60)
            quoted = quote_bytes(said[at : at + 200])
            step = line.step
            yield Seen(
                check="process/secret-told",
                run=view.run.key,
                order=(index, line.event.n),
                key=line.tool or line.when,
                message="a secret that the server was given stands in what it says (masked here), "
                f"{line.place}, {line.when}: {quoted}",
                tool=line.tool,
                case=None if step is None else f"{step.suite}/{step.case}",
                evidence={"line": line.number, "offset": line.event.at, "bytes": quoted},
            )
    if dialogue.stderr is not None and dialogue.stderr.n in told:
        lines = [item for item in dialogue.stderr.body.text.splitlines() if "****" in item][-1:] or [""]
        yield Seen(
            check="process/secret-told",
            run=view.run.key,
            order=(index, dialogue.stderr.n),
            key="stderr",
            message=f"a secret that the server was given stands on its stderr (masked here): {scrub(lines[0])[:200]!r}",
            evidence={"stderr": scrub(dialogue.stderr_quote)},
        )


def _is_crash(dialogue: Dialogue) -> bool:
    """Whether a server that somebody else drove has ended by itself in a dialogue: that is no fault of one that was
    started for its help text, or was sent what is no message."""
    return dialogue.answered and not dialogue.odd_client


def _late_ends(dialogue: Dialogue) -> tuple[str, ...]:
    """A server over HTTP is ended by SIGTERM: that its stdin is closed tells it nothing."""
    return ("kill",) if dialogue.is_http else ("term", "kill")


def _stopped_by_us(dialogue: Dialogue, exited: Exited) -> bool:
    """Whether it was stopped in a hurry, in an endless line or in a call that timed out, and need not see the close."""
    if (
        exited.waited_s < HURRIED_S
        or dialogue.truncated is not None
        or any(line.event.end == "cut" for line in dialogue.lines)
    ):
        return True
    hanging = any(exchange.given_up is not None and exchange.reply is None for exchange in dialogue.exchanges)
    return hanging or bool(dialogue.left_open)


def _ended_badly(dialogue: Dialogue, exited: Exited) -> bool:
    """Whether it saw in peace that its stdin is closed, with nothing left to do, and did not end well."""
    if exited.code in _ENDED_BY_REQUEST or not dialogue.answered or dialogue.truncated is not None:
        return False
    disturbed = any(item.what in ("closing", "cut-short", "timeout", "stdin-closed") for item in dialogue.diagnostics)
    return not disturbed and not dialogue.left_open and not dialogue.broken


def _bad_exit(view: RunView, index: int, dialogue: Dialogue, exited: Exited) -> Seen:
    tail = scrub(dialogue.stderr_tail)
    last = tail.strip().splitlines()[-1:] or [""]
    said = f"; last on stderr: {last[0][:200]}" if last[0] else "; stderr is empty"
    return Seen(
        check="process/bad-exit",
        run=view.run.key,
        order=(index, exited.n),
        key=exited.code,
        message=f"the server ended with {_code(exited.code)} when its stdin was closed{said}",
        severity="error" if exited.code < 0 else "warning",
        evidence={"exit_code": exited.code, "stderr": scrub(dialogue.stderr_quote)},
    )


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _crashed(view: RunView, index: int, dialogue: Dialogue, exited: Exited) -> Seen:
    tail = scrub(dialogue.stderr_tail)
    unread = _not_read(dialogue)
    labels = dialogue.left_open
    if unread:
        labels = tuple(exchange.sent.label for exchange in dialogue.open if exchange not in unread)
    if labels:
        when = f"in {' and '.join(labels)}"
        if dialogue.broken:
            when += ", after a line that is no JSON had been sent"
    else:
        late = {exchange.sent.n for exchange in unread}
        events = dialogue.transcript.events
        sent = [event.label for event in events if isinstance(event, Sent) and event.n not in late]
        when = f"after {sent[-1]}" if sent else "before the first request"
    last = tail.strip().splitlines()[-1:] or [""]
    said = f"; last on stderr: {last[0][:200]}" if last[0] else "; stderr is empty"
    later = not dialogue.outside and index + 1 < len(view.own)
    tools = {tool for label in labels if (tool := tool_in_label(label))}
    tool = tools.pop() if len(tools) == 1 else None
    cases = {
        f"{exchange.sent.step.suite}/{exchange.sent.step.case}"
        for exchange in dialogue.open
        if exchange.sent.step is not None and exchange not in unread
    }
    closed = dialogue.closed_itself is not None and exited.asked
    end = "closed its stdout and lived on" if closed else "ended by itself"
    code = "" if closed else f": {_code(exited.code)}"
    evidence: dict[str, Any] = {
        "exit_code": exited.code,
        "in_flight": list(labels),
        "stderr": scrub(dialogue.stderr_quote),
        "restarted": later,
    }
    pending = dialogue.tail
    if pending is not None:
        evidence["partial_line_bytes"] = len(pending.event.body.data)
    if unread:
        evidence["not_read"] = [exchange.sent.label for exchange in unread]
    return Seen(
        check="process/crashed",
        run=view.run.key,
        order=(index, exited.n),
        key=(labels, when, closed, exited.code),
        message=f"the server {end} {when}{code}{said}",
        tool=tool,
        case=cases.pop() if len(cases) == 1 else None,
        evidence=evidence,
    )


def _not_read(dialogue: Dialogue) -> list[Exchange]:
    """The open requests that the server had not read when it ended: none of them is the cause."""
    notes = [item for item in dialogue.diagnostics if item.what == "not-read"]
    ids = {repr(item.request) for item in notes if item.request is not None}
    labels = {item.detail for item in notes if item.request is None}
    return [item for item in dialogue.open if repr(item.id) in ids or item.sent.label in labels]


def _late(view: RunView, index: int, dialogue: Dialogue, exited: Exited) -> Seen:
    waited = max((bucket for bucket in _BUCKETS_S if bucket <= exited.waited_s), default=0)
    span = f"over {waited} s" if waited else "under 1 s"
    killed = exited.ended_by == "kill"
    end = "nor at SIGTERM; SIGKILL ended it" if killed else "; SIGTERM ended it"
    if dialogue.is_http:
        return Seen(
            check="process/late-exit",
            run=view.run.key,
            order=(index, exited.n),
            message=f"the server did not exit at SIGTERM; SIGKILL ended it after {span}",
            evidence={"ended_by": exited.ended_by, "waited": span},
            severity="error",
        )
    message = f"the server did not exit when its stdin closed{'' if not killed else ','} {end} after {span}"
    return Seen(
        check="process/late-exit",
        run=view.run.key,
        order=(index, exited.n),
        message=message.replace(" ;", ";"),
        severity="error" if killed else "warning",
        evidence={"ended_by": exited.ended_by, "waited": span},
    )


def _orphans(view: RunView, index: int, exited: Exited) -> Seen:
    commands = sorted({scrub(orphan.command) for orphan in exited.orphans})
    containers = sum(not orphan.pid for orphan in exited.orphans)
    counted = [(len(exited.orphans) - containers, "process", "processes"), (containers, "container", "containers")]
    parts = [
        f"{'a' if number == 1 else number} {one if number == 1 else many}" for number, one, many in counted if number
    ]
    were = "was" if len(exited.orphans) == 1 else "were"
    return Seen(
        check="process/orphan",
        run=view.run.key,
        order=(index, exited.n),
        key=tuple(_CONTAINER_NAME.sub("container", command) for command in commands),
        message=f"{' and '.join(parts)} {were} still alive after the server was gone: {'; '.join(commands[:5])}",
        evidence={"commands": commands},
    )
