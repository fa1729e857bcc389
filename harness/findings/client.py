"""What a user of the official client gets, against the raw frames of the same session and against our own session.

A finding is made where the client's user is worse off than our own session was, and only then: what fails for us too
has a finding of its own. Slowness alone is none; where it may be the cause, nothing is judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.findings.frames import Dialogue, Exchange
from harness.findings.handshake import is_malformed
from harness.findings.ledger import LISTS, listing_of
from harness.findings.seen import Seen, quote_bytes, scrub
from harness.findings.steps import RunView, why_unanswered
from harness.model.outcome import cut_json
from harness.model.transcript import ClientSaw

__all__ = ["not_compared", "see_client"]

SLOWER = 10.0  # an answer that takes this many times as long as ours did is not just late
QUOTED_FAULTS = 3
CONNECT = "connect"
_ASKED = {"modern": "server/discover", "handshake": "initialize"}
_NOUNS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resource templates",
}
NO_SCHEMA = "validity/input-schema"
_TOOL_AT = re.compile(r"\btools\.(\d+)\b")


def see_client(view: RunView, told: Collection[str]) -> Iterator[Seen]:
    """What the comparing pass after one run shows.

    Args:
        told: Checks that the run's own transcripts have raised; what they explain is not said again.
    """
    if view.client is not None:
        yield from _look(view, view.client, told).seen


def not_compared(view: RunView) -> Iterator[str]:
    """Why the comparison that was begun after one run says nothing, or not everything."""
    if view.client is not None:
        yield from dict.fromkeys(_look(view, view.client, ()).gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An exception that the client's user got.

    Attributes:
        cause: The request at which it came.
        why: What became of that request.
        page: Number of the page that was asked for, from 1.
    """

    saw: ClientSaw
    cause: Exchange
    why: str
    page: int = 1


@dataclass(slots=True, kw_only=True)
class _Look:
    view: RunView
    dialogue: Dialogue
    told: Collection[str]
    seen: list[Seen] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    refused: dict[str, list[_Failure]] = field(default_factory=dict)  # what the client minds -> the lists

    # --- one thing that was asked of the client -------------------------------------------------------

    def one(self, saw: ClientSaw, sent: Sequence[Exchange], page: int) -> None:
        """Judges one of them.

        Args:
            sent: The requests that left for it.
            page: Number of the page, for a list.
        """
        asked = _ASKED[self.view.run.key.era] if saw.action == CONNECT else saw.action
        wanted = next((exchange for exchange in sent if exchange.method == asked), None)
        hidden = [exchange for exchange in sent if exchange is not wanted]
        if saw.error:
            self._failed(saw, wanted, hidden, page)
            return
        handed = _object(saw.body.data)
        if handed is None:
            self.gaps.append(f"what it gave for {saw.action} cannot be read")
        elif saw.action == CONNECT:
            self._connected(saw, handed, wanted, hidden)
        elif saw.action == "tools/list" and wanted is not None:
            self._tools(saw, handed, wanted)

    def _connected(
        self, saw: ClientSaw, handed: Mapping[str, Any], wanted: Exchange | None, hidden: Sequence[Exchange]
    ) -> None:
        ours, theirs = self.view.record.protocol, handed.get("protocolVersion")
        if not ours or not isinstance(theirs, str) or theirs == ours or wanted is None:
            return
        if is_malformed(self.view, wanted.method):
            return  # it is told already, as what it is: a malformed result
        if not _answered(wanted, saw) and not self._is_slower(wanted, hidden[0].sent.t if hidden else saw.t):
            self.gaps.append(f"{wanted.method} had no answer in the time that it gives, which may be mere slowness")
            return
        why = self._what_became(wanted, saw)
        self._add(
            "client/era-downgraded",
            saw,
            f"a user of {self.client} gets protocol version {theirs}, and is not told: our own session with this "
            f"server has {ours}. {why}",
            [wanted, *hidden],
            key=(theirs, ours),
            more={"version": theirs, "expected": ours},
        )

    def _tools(self, saw: ClientSaw, handed: Mapping[str, Any], wanted: Exchange) -> None:
        listed = wanted.result.get("tools") if isinstance(wanted.result, Mapping) else None
        given = {name for tool in _items(handed.get("tools")) if (name := _name(tool)) is not None}
        for index, tool in enumerate(_items(listed)):
            name = _name(tool)
            if name is None or name in given:
                continue
            said = next((line for line in self._log if repr(name) in line), "")
            self._add(
                "client/tool-lost",
                saw,
                f"a user of {self.client} never sees the tool {name}: it is in tools/list, and the client leaves it "
                f"out{': ' if said else ''}{said}",
                [wanted],
                key=name,
                tool=name,
                pointer=f"/result/tools/{index}",
                more={"listed": cut_json(tool, 500), "log": said},
            )

    def _failed(self, saw: ClientSaw, wanted: Exchange | None, hidden: Sequence[Exchange], page: int) -> None:
        cause = max((wanted, *hidden), key=lambda item: 0 if item is None else item.sent.n)
        if cause is None or wanted is None:
            self.gaps.append(f"{saw.action}: {_short(saw)}, before any request had left")
            return
        if not _fine_for_us(self.view, wanted.method) or is_malformed(self.view, wanted.method):
            return
        for exchange in dict.fromkeys((wanted, cause)):
            if _answered(exchange, saw) or self.dialogue.ended_itself:
                continue
            cause_on_wire = why_unanswered(self.dialogue, exchange)
            if cause_on_wire in self.told:
                return
            if cause_on_wire:
                continue
            until = next((other.sent.t for other in hidden if other.sent.n > exchange.sent.n), saw.t)
            if not self._is_slower(exchange, until):
                self.gaps.append(f"{exchange.method} had no answer in time, which may be mere slowness")
                return
        why = self._what_became(cause, saw)
        if cause is not wanted:
            goal = "connect" if saw.action == CONNECT else f"list its {_NOUNS.get(saw.action, saw.action)}"
            self._add(
                "client/hidden-request",
                saw,
                f"a user of {self.client} cannot {goal}, and is shown the error of a request that they did not ask "
                f"for, {cause.method}: {_short(saw)}. {self._what_became(wanted, saw)} {why}",
                [wanted, *hidden],
                key=(saw.action, cause.method, saw.error),
                more={"exception": f"{saw.error}: {scrub(saw.detail)}"},
            )
        elif saw.action == CONNECT:
            self._add(
                "client/refused",
                saw,
                f"a user of {self.client} cannot connect: {_short(saw)}. {why}",
                [wanted],
                key=(CONNECT, saw.error, _short(saw)),
                more={"exception": f"{saw.error}: {scrub(saw.detail)}"},
            )
        else:
            self.refused.setdefault(_short(saw), []).append(_Failure(saw=saw, cause=cause, why=why, page=page))

    def lists(self) -> None:
        """One finding for all lists that fail in the same way."""
        for said, failures in self.refused.items():
            first = failures[0]
            methods = [failure.saw.action for failure in failures]
            nouns = " and no ".join(_NOUNS.get(method, method) for method in methods)
            page = f" beyond page {first.page - 1}" if first.page > 1 else ""
            tools = _tools_meant(first)
            if NO_SCHEMA in self.told and _mind_missing_schemas_only(failures, tools):
                continue
            names = [name for tool in tools if (name := _name(tool)) is not None]
            meant = f"; meant is {', '.join(names)}" if names else ""
            verb = "raises" if len(methods) == 1 else "raise"
            self._add(
                "client/refused",
                first.saw,
                f"a user of {self.client} gets no {nouns}{page}: {', '.join(methods)} {verb} {said}{meant}. "
                f"{first.why}",
                [failure.cause for failure in failures],
                key=(tuple(methods), said),
                tool=names[0] if len(names) == 1 else None,
                more={
                    "exception": f"{first.saw.error}: {scrub(first.saw.detail)}",
                    "listed": [cut_json(tool, 500) for tool in tools[:QUOTED_FAULTS]],
                },
            )

    # --- words ----------------------------------------------------------------------------------------

    @property
    def client(self) -> str:
        """Which client it is."""
        words = [item.detail for item in self.dialogue.diagnostics if item.what == "client"]
        return f"the official Python client ({words[0]})" if words else "the official Python client"

    @property
    def _log(self) -> list[str]:
        return [item.detail for item in self.dialogue.diagnostics if item.what == "client-log"]

    def _what_became(self, exchange: Exchange, saw: ClientSaw) -> str:
        """What became of a request, a sentence, with the bytes."""
        method = exchange.method
        if exchange.reply is not None and _answered(exchange, saw):
            quoted = quote_bytes(exchange.reply.line.event.body.data, 160)
            if "error" in exchange.reply.message:
                return f"The server answered {method} with an error: {quoted}."
            if exchange.method == "server/discover":
                said = next((line for line in self._log if line.startswith("server/discover: ")), "")
                faults = f" ({_faults(said.partition(': ')[2])})" if said else ""
                return f"The client cannot use the answer to server/discover{faults}: {quoted}."
            return f"The answer to {method}: {quoted}."
        if self.dialogue.ended_itself and self.dialogue.exited is not None:
            last = scrub(self.dialogue.stderr_tail).strip().splitlines()[-1:]
            tail = f"; last on stderr: {last[0][:200]}" if last else "; stderr is empty"
            return f"The server ended with {method} in flight, exit code {self.dialogue.exited.code}{tail}."
        return f"The server gave no answer to {method}, which our own session got at once."

    def _is_slower(self, exchange: Exchange, until: float) -> bool:
        """Whether it was waited for so much longer than our own session had to that slowness is no explanation."""
        ours = [
            other.reply.line.event.t - other.sent.t
            for dialogue in self.view.own
            for other in dialogue.exchanges
            if other.method == exchange.method and other.reply is not None
        ]
        return bool(ours) and until - exchange.sent.t >= SLOWER * max(ours)

    def _add(
        self,
        check: str,
        saw: ClientSaw,
        message: str,
        exchanges: Iterable[Exchange],
        *,
        key: Hashable,
        tool: str | None = None,
        pointer: str | None = None,
        more: Mapping[str, Any],
    ) -> None:
        frames = []
        for exchange in exchanges:
            reply = exchange.reply
            frames.append(
                {
                    "request": quote_bytes(exchange.sent.body.data, 200),
                    "answer": None if reply is None else quote_bytes(reply.line.event.body.data, 500),
                    "offset": None if reply is None else reply.line.event.at,
                }
            )
        self.seen.append(
            Seen(
                check=check,
                run=self.view.run.key,
                order=(len(self.view.dialogues) + len(self.view.probes), saw.n),
                key=key,
                message=message,
                tool=tool,
                pointer=pointer,
                evidence={"client": self.client, "frames": frames, **more},
            )
        )


def _look(view: RunView, dialogue: Dialogue, told: Collection[str]) -> _Look:
    look = _Look(view=view, dialogue=dialogue, told=told)
    before, pages = 0, dict.fromkeys(_NOUNS, 0)
    for event in dialogue.transcript.events:
        if not isinstance(event, ClientSaw):
            continue
        sent = [exchange for exchange in dialogue.exchanges if before < exchange.sent.n < event.n]
        pages[event.action] = pages.get(event.action, 0) + 1
        look.one(event, sent, pages[event.action])
        before = event.n
    look.lists()
    words = {item.what: item.detail for item in reversed(dialogue.diagnostics)}
    if "client-failed" in words:
        look.gaps.append(scrub(words["client-failed"]))
    elif "client-done" not in words:
        look.gaps.append("it was cut short")
    return look


def _answered(exchange: Exchange, saw: ClientSaw) -> bool:
    """Whether the reply was there when the client's user got what they got."""
    return exchange.reply is not None and exchange.reply.line.event.n < saw.n


def _fine_for_us(view: RunView, method: str) -> bool:
    """Whether our own session had from this server what the client's user did not get."""
    if method in LISTS:
        listing = listing_of(view, method)
        if listing.problem or listing.blamed:
            return False
    ours = (exchange for dialogue in view.own for exchange in dialogue.exchanges if exchange.method == method)
    return any(exchange.in_time and isinstance(exchange.result, Mapping) for exchange in ours)


def _short(saw: ClientSaw) -> str:
    """An exception in one line; of pydantic's the first few faults, without what differs from list to list."""
    if saw.error == "timed-out":
        return f"no end: {saw.detail}"
    return f"{saw.error}: {_faults(saw.detail)}"


def _faults(detail: str) -> str:
    lines = scrub(detail).splitlines() or [""]
    if "validation error" not in lines[0] or len(lines) < 3:
        return lines[0][:300]
    faults: list[str] = []
    for line in lines[1:]:
        if line.startswith("  ") and faults:
            faults[-1] += f": {line.strip().partition(' [type=')[0]}"
        else:
            faults.append(line.strip())
    rest = f" and {len(faults) - QUOTED_FAULTS} more" if len(faults) > QUOTED_FAULTS else ""
    return "; ".join(faults[:QUOTED_FAULTS])[:500] + rest


def _tools_meant(failure: _Failure) -> list[Any]:
    """The tools that an exception about tools/list speaks of by their position."""
    result = failure.cause.result
    listed = _items(result.get("tools")) if isinstance(result, Mapping) else []
    found = {int(index) for index in _TOOL_AT.findall(failure.saw.detail)}
    return [listed[index] for index in sorted(found) if index < len(listed)]


def _mind_missing_schemas_only(failures: Sequence[_Failure], tools: Sequence[Any]) -> bool:
    """Whether all that an exception minds is tools whose `inputSchema` is no object at all."""
    detail = failures[0].saw.detail
    places = [line for line in detail.splitlines() if line.startswith("tools.")]
    meant = all(re.fullmatch(r"tools\.\d+\.inputSchema", line.strip()) for line in places)
    faulty = all(isinstance(tool, Mapping) and not isinstance(tool.get("inputSchema"), Mapping) for tool in tools)
    return bool(tools) and meant and faulty and detail.startswith(f"{len(places)} validation error")


def _object(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(tool: Any) -> str | None:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else None
