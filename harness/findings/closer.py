"""What the closer look at a server shows: odd requests, another locale, capabilities, the order of lists.

Over stdio the probed process is sent requests with an id that are wrong in one place each: all are to be answered. Both
official SDKs read a line by its schema and pass over what is no JSON-RPC request at all; a client that is told nothing
then waits, but no server made with them can change that. So where every such line is passed over, and requests are
answered, only the strict family says so. Any other silence is the server's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from harness.findings.frames import Dialogue, Exchange
from harness.findings.seen import Seen, quote_bytes, scrub
from harness.findings.steps import RunView
from harness.model.finding import Severity
from harness.model.outcome import answer_of, cut_json
from harness.model.transcript import ODD_REQUESTS, PROBE_LABEL, Sent

__all__ = ["see_capabilities", "see_closer", "see_order"]

_LOCALE = f"{PROBE_LABEL}locale"
_UNDER = "where the locale is not UTF-8 (LC_ALL=C PYTHONUTF8=0)"
_ENCODING = re.compile(r"unicode|codec|locale|encod|charmap", re.IGNORECASE)
_NO_REQUESTS = ("params", "method", "version")  # what no schema of JSON-RPC takes for a request
_UNKNOWN_METHOD = -32601
_CAPABILITY_OF = {
    "completion/complete": ("completions", ""),
    "logging/setLevel": ("logging", ""),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
}


def see_closer(view: RunView) -> Iterator[Seen]:
    """What the probed process over stdio makes of odd requests, of text that is not ASCII, and of an unknown tool."""
    for index, dialogue in enumerate(view.probes, len(view.dialogues)):
        if not dialogue.is_http:
            look = _Look(view, index, dialogue)
            yield from look.locale()
            yield from look.odd_requests()
            yield from look.unknown_tool()


class _Look:
    """One probed process."""

    def __init__(self, view: RunView, index: int, dialogue: Dialogue) -> None:
        self.view, self.index, self.dialogue = view, index, dialogue
        self.sent = [event for event in dialogue.transcript.events if isinstance(event, Sent)]

    def one(self, word: str) -> Sent | None:
        """The line of one probe, if it was sent."""
        return next((event for event in self.sent if event.label == f"{PROBE_LABEL}{word}"), None)

    def after(self, line: Sent) -> Exchange | None:
        """The ping that followed it."""
        return next(
            (item for item in self.dialogue.exchanges if item.sent.label.endswith(f" after {line.label}")), None
        )

    def replies(self, line: Sent) -> list[Mapping[str, Any]]:
        """What may be meant as its answer: its id at any time, or no id, or one that nothing had, before the next."""
        own, known = _id(line), [item.id for item in self.dialogue.exchanges]
        until = next((event.n for event in self.sent if event.n > line.n and event.label.startswith(PROBE_LABEL)), None)
        out = []
        for received in self.dialogue.lines:
            near = received.event.n > line.n and (until is None or received.event.n < until)
            for message in received.messages:
                if "method" in message:
                    continue
                identity = message.get("id")
                if identity == own or (near and (identity is None or identity not in known)):
                    out.append(message)
        return out

    def end(self, line: Sent) -> str:
        """What became of the server where this was the last line that it took: "ended", "deaf" or nothing."""
        follows = self.after(line)
        if follows is not None and follows.in_time:
            return ""
        last = follows.sent.n if follows is not None else line.n
        if any(event.n > last and event.label.startswith(PROBE_LABEL) for event in self.sent):
            return ""
        if self.dialogue.ended_itself:
            return "ended"
        return "deaf" if follows is not None and follows.given_up is not None and follows.reply is None else ""

    def alive(self, line: Sent) -> bool:
        """Whether the server answered the ping after it."""
        follows = self.after(line)
        return follows is not None and follows.in_time

    def seen(
        self, check: str, at: int, key: object, message: str, evidence: Mapping[str, Any], tool: str | None = None
    ) -> Seen:
        """A sighting in this process."""
        return Seen(
            check=check,
            run=self.view.run.key,
            order=(self.index, at),
            key=repr(key),
            message=message,
            tool=tool,
            evidence=evidence,
        )

    def gone(self) -> tuple[str, Mapping[str, Any]]:
        """How the process ended by itself."""
        dialogue = self.dialogue
        code = None if dialogue.exited is None or dialogue.exited.asked else dialogue.exited.code
        last = scrub(dialogue.stderr_tail).strip().splitlines()[-1:] or [""]
        said = f"; last on stderr: {last[0][:200]}" if last[0] else "; stderr is empty"
        return f"exit code {code}{said}", {"exit_code": code, "stderr": scrub(dialogue.stderr_quote)}

    # --- what is asked ------------------------------------------------------------------------------

    def locale(self) -> Iterator[Seen]:
        """Text that is not ASCII comes back as it was sent."""
        dialogue, line = self.dialogue, self.one("locale")
        if line is None:
            if dialogue.ended_itself and not dialogue.answered and _ENCODING.search(dialogue.stderr_tail):
                how, evidence = self.gone()
                yield self.seen("wire/locale", 0, "start", f"the server does not start {_UNDER}: {how}", evidence)
            return
        evidence = {"sent": quote_bytes(line.body.data, 200)}
        replies, end = self.replies(line), self.end(line)
        if any(message.get("id") == _id(line) for message in replies):
            return
        asked = f"a ping whose id is {_id(line)!r}"
        if replies:
            got = cut_json(replies[0].get("id"), 200)
            said = f"text that is not ASCII is read or written wrongly {_UNDER}: {asked} was answered with the id {got}"
            yield self.seen("wire/locale", line.n, "locale", said, {**evidence, "got": cut_json(replies[0])})
        elif end == "ended":
            how, more = self.gone()
            said = f"text that is not ASCII ends the server {_UNDER}: {asked}; {how}"
            yield self.seen("wire/locale", line.n, "locale", said, {**evidence, **more})
        elif end == "deaf" or self.alive(line):
            said = f"text that is not ASCII is not answered {_UNDER}: {asked}"
            said += ", and nothing after it" if end else ", though the server lived on"
            yield self.seen("wire/locale", line.n, "locale", said, {**evidence, "stderr": scrub(dialogue.stderr_quote)})

    def odd_requests(self) -> Iterator[Seen]:
        """Each is answered, and the server lives on."""
        lines = {word: line for word in ODD_REQUESTS if (line := self.one(word)) is not None}
        silent = [word for word, line in lines.items() if self.alive(line) and not self.replies(line)]
        by_schema = all(word in silent for word in _NO_REQUESTS) and "arguments" not in silent
        for word, line in lines.items():
            if word == "version":
                continue  # what any server may take or leave; it only shows how lines are read
            what, evidence = ODD_REQUESTS[word], {"sent": quote_bytes(line.body.data, 300)}
            if end := self.end(line):
                how, more = self.gone() if end == "ended" else ("nothing after it was answered", {})
                said = f"{what} {'ended the server' if end == 'ended' else 'made the server deaf'}: {how}"
                yield self.seen("wire/dead-after-odd-request", line.n, word, said, {**evidence, **more})
            elif word in silent:
                code = "-32602" if word == "arguments" else "-32600"
                said = f"{what} (id {_id(line)!r}) was never answered, though the server lived on; an error such as "
                said += f"{code} is due"
                check = "strict/no-request-unanswered" if by_schema else "wire/no-reply"
                more = {"stderr": scrub(self.dialogue.stderr_quote)}
                yield self.seen(check, line.n, ("odd", word), said, {**evidence, **more})

    def unknown_tool(self) -> Iterator[Seen]:
        """A tool that there is not is not called with success."""
        label = f"{PROBE_LABEL}unknown-tool"
        exchange = next((item for item in self.dialogue.exchanges if item.sent.label == label), None)
        if exchange is None:
            return
        n, name = exchange.sent.n, exchange.name
        if exchange.reply is None:
            if any(line.event.n > n for line in self.dialogue.lines):
                return  # what came cannot be taken for its answer, and has a finding of its own
            if exchange.given_up is not None:
                said = f"a call of {name}, a tool that there is not, was never answered"
                yield self.seen("wire/no-reply", n, "unknown-tool", said, {}, name)
            elif self.dialogue.ended_itself and n == self.sent[-1].n:
                how, more = self.gone()
                said = f"a call of {name}, a tool that there is not, ended the server: {how}"
                yield self.seen("wire/dead-after-odd-request", n, "unknown-tool", said, more, name)
            return
        answer = answer_of("call", exchange.reply.message)
        if not exchange.in_time or answer.problem or answer.error is not None or answer.result is None:
            return
        if answer.result.get("resultType", "complete") != "complete":
            return  # more is asked, or it is of a kind that there is not
        shown = {"result": cut_json(answer.result, 500)}
        if not answer.is_error:
            said = f"a call of {name}, a tool that is not in tools/list, succeeded: {cut_json(answer.text, 200)}"
            yield self.seen("exercised/unknown-succeeded", n, name, said, shown, name)
        else:
            said = (
                f"the unknown tool {name} was answered with a result that has isError: {cut_json(answer.text, 200)}; "
            )
            said += "the specification's answer is a JSON-RPC error, code -32602"
            yield self.seen("strict/unknown-tool-is-error", n, "", said, shown, name)


def _id(line: Sent) -> Any:
    return re.search(rb'"id": "([^"]*)"', line.body.data)[1].decode("utf-8", "replace")  # type: ignore[index]


def see_capabilities(view: RunView) -> Iterator[Seen]:
    """Capabilities that the server declares and whose method it does not know, or fails at."""
    for index, dialogue in enumerate((*view.dialogues, *view.probes)):
        if dialogue.outside:
            continue  # what was declared there is not ours to say
        for exchange in dialogue.exchanges:
            capability, key = _CAPABILITY_OF.get(exchange.method, ("", ""))
            if not capability or exchange.reply is None or capability not in view.capabilities:
                continue
            message = exchange.reply.message
            error, check = message.get("error"), "wire/capability-lie"
            severity: Severity | None = None
            if isinstance(error, Mapping):
                if error.get("code") != _UNKNOWN_METHOD:
                    if not key:
                        continue  # a refusal of what we made up
                    severity = "warning"
                said = f"the server declares {capability}, and {exchange.method} gave error {error.get('code')}: "
                said += cut_json(error.get("message"), 200)
            elif key and not _has_list(message.get("result"), key):
                check = "wire/malformed-result"
                said = f"{exchange.method}: the result has no list {key!r}: {cut_json(message.get('result'), 300)}"
            else:
                continue
            yield Seen(
                check=check,
                run=view.run.key,
                order=(index, exchange.sent.n),
                key=("capability", capability),
                message=said,
                severity=severity,
                evidence={"answer": cut_json(message, 500), "capability": capability, "method": exchange.method},
            )


def _has_list(result: Any, key: str) -> bool:
    return isinstance(result, Mapping) and isinstance(result.get(key), list)


def see_order(view: RunView) -> Iterator[Seen]:
    """Lists of tools that hold the same in another order, by process."""
    first: list[str] | None = None
    client = () if view.client is None else (view.client,)
    for index, dialogue in enumerate((*view.dialogues, *view.probes, *client)):
        found = _first_page(dialogue)
        if found is None or dialogue.outside:
            continue
        exchange, names = found
        if first is None:
            first = names
        elif names != first and Counter(names) == Counter(first):
            at = next(number for number, pair in enumerate(zip(first, names, strict=True)) if pair[0] != pair[1])
            yield Seen(
                check="wire/list-order",
                run=view.run.key,
                order=(index, exchange.sent.n),
                message="two processes of the server list the same tools in another order: "
                f"{cut_json(first[at : at + 4])} in one and {cut_json(names[at : at + 4])} in the other, "
                f"from number {at + 1} on; clients that cache prompts pay for it at each start",
                evidence={"first": cut_json(first, 500), "other": cut_json(names, 500)},
            )
            return


def _first_page(dialogue: Dialogue) -> tuple[Exchange, list[str]] | None:
    for exchange in dialogue.exchanges:
        if exchange.method == "tools/list" and "cursor" not in exchange.params:
            result = exchange.result
            tools = result.get("tools") if isinstance(result, Mapping) else None
            if isinstance(tools, list):
                return exchange, [str(item.get("name")) for item in tools if isinstance(item, Mapping)]
    return None
