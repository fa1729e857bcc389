"""The doors `evidence show` and `evidence to-suite`: what recorded dialogues hold, and a first suite made of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from harness.engine.evidence import newest_attempts, read_transcript
from harness.errors import ConfigError, NothingSelected
from harness.findings.frames import Dialogue, Exchange, is_input_required, read_dialogue
from harness.findings.seen import quote_bytes
from harness.model.outcome import Answer, answer_of, cut, cut_json, looks_like_an_error
from harness.model.placeholders import names_in
from harness.model.transcript import Transcript

__all__ = ["Suite", "dialogues_in", "show_json", "show_text", "to_suite"]

SHOW_SCHEMA = 1
MAX_STEPS = 500  # of one case
ARGUMENTS_CHARACTERS = 120
TEXT_CHARACTERS = 100
MIN_CAPTURE_CHARACTERS = 6
MIN_WORDS_CHARACTERS = 6
PREFIX_CHARACTERS = 24
_ACTIONS = {"tools/call": "call", "resources/read": "read_resource", "prompts/get": "get_prompt"}
_VARIES = re.compile(r"[0-9a-fA-F]{6,}|\d+|[\"'`/\\\n{}\[\]]+")
_MASKED = re.compile(r"\*{4,}")
_SECONDS = 1000.0


# --- what there is ------------------------------------------------------------------------------


def dialogues_in(places: Sequence[Path]) -> list[Dialogue]:
    """The dialogues in transcripts, in folders of attempts, or in roots of evidence; probes are passed over.

    Of a root every recording is taken, and the newest attempt of every run.

    Raises:
        ConfigError: There is no such file or folder.
        NothingSelected: There is no transcript.
    """
    files: dict[Path, None] = {}
    for place in places:
        if place.is_file():
            files[place] = None
        elif place.is_dir():
            files.update(dict.fromkeys(_transcripts_below(place)))
        else:
            raise ConfigError(f"there is no file or folder {place}", hint="name a transcript, or a folder of evidence")
    read = (_read(path) for path in files)
    found = [dialogue for dialogue in read if not dialogue.transcript.is_probe]
    if not found:
        raise NothingSelected(
            f"there is no transcript in {', '.join(map(str, places))}",
            hint="record one: mcp-rollcall proxy -- COMMAND…, or mcp-rollcall run",
        )
    return found


def _transcripts_below(folder: Path) -> list[Path]:
    if found := sorted(folder.glob("*.jsonl")):
        return _in_order(found)
    recordings = {path.parent for path in folder.rglob("recorded/*/*.jsonl")}
    attempts = {*newest_attempts(folder), *recordings}
    return [path for attempt in sorted(attempts) for path in _in_order(attempt.glob("*.jsonl"))]


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """The engine's own before those of others, `server-2` before `server-10`."""
    return sorted(paths, key=lambda path: (path.name.startswith("outside-"), len(path.name), path.name))


def _read(path: Path) -> Dialogue:
    transcript = read_transcript(path)
    if not transcript.is_outside and not transcript.is_probe:  # era and version then are as its frames show them
        seen = Transcript(name=f"outside-engine-{transcript.name}", events=transcript.events)
        dialogue = read_dialogue(seen, folder=str(path.parent))
        dialogue.transcript = transcript
        return dialogue
    return read_dialogue(transcript, folder=str(path.parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One request and what became of it."""

    exchange: Exchange
    outcome: str  # ok | error | refused | unanswered | input-required | malformed
    answer: Answer | None

    @property
    def seconds(self) -> float | None:
        reply = self.exchange.reply
        return None if reply is None else reply.line.event.t - self.exchange.sent.t


def _calls(dialogue: Dialogue) -> Iterator[_Call]:
    for exchange in dialogue.exchanges:
        reply = exchange.reply
        if reply is None:
            yield _Call(exchange=exchange, outcome="unanswered", answer=None)
            continue
        if is_input_required(exchange.result):
            yield _Call(exchange=exchange, outcome="input-required", answer=None)
            continue
        action = _ACTIONS.get(exchange.method)
        if action is None:
            error = "error" in reply.message
            yield _Call(exchange=exchange, outcome="error" if error else "ok", answer=None)
            continue
        answer = answer_of(action, reply.message)
        how = "malformed" if answer.problem else "error" if answer.error is not None else "ok"
        yield _Call(exchange=exchange, outcome="refused" if how == "ok" and answer.is_error else how, answer=answer)


def _stray(dialogue: Dialogue) -> list[dict[str, Any]]:
    """Lines of stdout that are no message, with what was in flight."""
    return [
        {
            "line": line.number,
            "offset": line.event.at,
            "when": line.when,
            "why": line.problem,
            "bytes": quote_bytes(line.event.body.data),
        }
        for line in dialogue.lines
        if line.problem
    ]


def _facts(dialogue: Dialogue) -> dict[str, Any]:
    exited, spawned, stderr = dialogue.exited, dialogue.spawned, dialogue.stderr
    return {
        "file": f"{dialogue.folder}/{dialogue.transcript.name}",
        "command": list(spawned.argv) if spawned is not None else [],
        "era": dialogue.era,
        "protocol": dialogue.protocol,
        "complete": dialogue.transcript.complete,
        "calls": [
            {
                "at": round(call.exchange.sent.t, 6),
                "method": call.exchange.method,
                "name": call.exchange.name,
                "arguments": call.exchange.params.get("arguments"),
                "outcome": call.outcome,
                "text": call.answer.text if call.answer is not None else "",
                "seconds": None if call.seconds is None else round(call.seconds, 6),
                "case": None if (step := call.exchange.sent.step) is None else f"{step.suite}/{step.case}",
            }
            for call in _calls(dialogue)
        ],
        "prompts": [
            {
                "at": round(prompt.t, 6),
                "method": prompt.method,
                "call": prompt.target,
                "mode": prompt.mode,
                "message": prompt.message,
                "schema": prompt.schema,
                "answer": prompt.answer,
                "by": prompt.by,
                "case": None if prompt.step is None else f"{prompt.step.suite}/{prompt.step.case}",
            }
            for prompt in dialogue.prompts
        ],
        "stray": _stray(dialogue),
        "stderr_bytes": stderr.size if stderr is not None else 0,
        "exit": None
        if exited is None
        else {"code": exited.code, "asked": exited.asked, "ended_by": exited.ended_by, "waited_s": exited.waited_s},
    }


def show_json(dialogues: Sequence[Dialogue]) -> str:
    """All dialogues as one JSON document."""
    found = {"schema": SHOW_SCHEMA, "transcripts": [_facts(dialogue) for dialogue in dialogues]}
    return json.dumps(found, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace").decode() + "\n"


def show_text(dialogues: Sequence[Dialogue], *, base: Path) -> str:
    """All dialogues for people: a line for each request, prompt and stray line, the end; then how often tools answered.

    Args:
        base: What file names are relative to.
    """
    blocks = [_block(dialogue, base) for dialogue in dialogues]
    return "\n\n".join([*blocks, _sums(dialogues)]) + "\n"


def _block(dialogue: Dialogue, base: Path) -> str:
    facts = _facts(dialogue)
    what = " ".join(part for part in (facts["era"], facts["protocol"]) if part) or "no first answer"
    lines = [f"{os.path.relpath(facts['file'], base)}  ({what})", f"  command  {cut(' '.join(facts['command']), 200)}"]
    for call in facts["calls"]:
        about = f"{call['method']} {call['name']}".rstrip()
        given = f" {cut_json(call['arguments'], ARGUMENTS_CHARACTERS)}" if call["arguments"] else ""
        took = "" if call["seconds"] is None else f", {call['seconds'] * _SECONDS:.1f} ms"
        said = f": {cut(call['text'], TEXT_CHARACTERS)}" if call["text"] else ""
        lines.append(f"  {call['at']:8.3f} s  {about}{given} → {call['outcome']}{took}{said}")
    for prompt in facts["prompts"]:
        asked = " ".join(part for part in (prompt["method"], prompt["mode"]) if part)
        about = f"{prompt['call'] or 'no call that is clear'} asks for {asked}"
        said = f" {cut(prompt['message'], TEXT_CHARACTERS)}" if prompt["message"] else ""
        given = cut_json(prompt["answer"], ARGUMENTS_CHARACTERS)
        lines.append(f"  prompt   {prompt['at']:.3f} s  {about}{said} → {given} (by {prompt['by']})")
    for stray in facts["stray"]:
        where = f"line {stray['line']} of stdout at offset {stray['offset']}, {stray['when']}"
        lines.append(f"  stray    {where}: {stray['bytes']} ({stray['why']})")
    if facts["stderr_bytes"]:
        lines.append(f"  stderr   {facts['stderr_bytes']:,} bytes")
    end = facts["exit"]
    if end is None:
        lines.append("  end      not recorded: whoever recorded it was killed, or is still at it")
    else:
        code = f"exit code {end['code']}" if end["code"] >= 0 else f"signal {-end['code']}"
        lines.append(f"  end      {code} ({'asked to' if end['asked'] else 'by itself'}: {end['ended_by']})")
    return "\n".join(lines)


def _sums(dialogues: Iterable[Dialogue]) -> str:
    tools: dict[str, list[_Call]] = {}
    for dialogue in dialogues:
        for call in _calls(dialogue):
            if call.exchange.method == "tools/call":
                tools.setdefault(call.exchange.name, []).append(call)
    if not tools:
        return "no tool was called"
    lines = ["tools called:"]
    for tool, calls in sorted(tools.items()):
        good = sum(call.outcome == "ok" for call in calls)
        times = [call.seconds for call in calls if call.seconds is not None]
        slowest = f", slowest {max(times) * _SECONDS:.1f} ms" if times else ""
        lines.append(f"  {tool}  {good} of {len(calls)} answered without an error{slowest}")
    return "\n".join(lines)


# --- a suite ------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Suite:
    """A suite in TOML, and what could not go into it, a sentence each."""

    text: str = ""
    left_out: list[str] = field(default_factory=list)


def to_suite(dialogues: Sequence[Dialogue], *, name: str) -> Suite:
    """A first suite of recorded calls: a case for each dialogue, its calls in order, with what they were answered.

    What is expected is only what the same calls will give again on a fresh stack: that they succeed and with which
    fields, or with what words or code they are refused. A text of an earlier answer that a later call was given is
    captured. A call with a masked secret, with null, or without a final answer is left out, and told.

    Raises:
        NothingSelected: No call is left.
    """
    out = Suite()
    cases: list[dict[str, Any]] = []
    for dialogue in dialogues:
        steps = list(_steps(dialogue, out.left_out))
        if steps:
            cases.append({"id": f"recorded-{len(cases) + 1}", "step": steps})
    if not cases:
        raise NothingSelected("no recorded call can be a step of a suite", hint="; ".join(out.left_out[:3]))
    head = (
        "# Made of recorded calls by `mcp-rollcall evidence to-suite`: say what each is for, and expect more of it.\n\n"
    )
    out.text = head + tomli_w.dumps({"schema": 2, "id": name, "case": cases})
    return out


def _steps(dialogue: Dialogue, left_out: list[str]) -> Iterator[dict[str, Any]]:
    """The steps of one case; captures are added to earlier ones as later ones need them."""
    listed = _listed(dialogue)
    steps: list[dict[str, Any]] = []
    answers: list[Answer] = []
    given: set[str] = set()  # texts that earlier calls were given: they are no news of the server's
    for call in _calls(dialogue):
        action = _ACTIONS.get(call.exchange.method)
        if action is None:
            continue
        about = call.exchange.sent.label
        why = _unfit(call)
        if why or call.answer is None or len(steps) >= MAX_STEPS:
            left_out.append(f"{about}: {why or f'more than {MAX_STEPS} calls in one dialogue'}")
            continue
        arguments = call.exchange.params.get("arguments") or {}
        step: dict[str, Any] = {action: call.exchange.name}
        if arguments and action != "read_resource":
            step["arguments"] = _with_captures(arguments, steps, answers, given)
        if action == "call" and listed and call.exchange.name not in listed:
            step["unlisted"] = True
        step["expect"] = _expected(call.answer)
        given.update(_texts(arguments))
        steps.append(step)
        answers.append(call.answer)
    yield from steps


def _unfit(call: _Call) -> str:
    """Why a call can be no step, "" if it can."""
    arguments = call.exchange.params.get("arguments")
    if call.outcome in ("unanswered", "malformed", "input-required"):
        return {"unanswered": "it was not answered", "malformed": "its answer is malformed"}.get(
            call.outcome, "it was answered with a question"
        )
    if arguments is not None and not isinstance(arguments, Mapping):
        return "its arguments are no object"
    if any(_MASKED.search(text) for text in _texts(arguments)):
        return "it was given a secret, which is masked; write the step by hand, with ${env.NAME}"
    if _has_null(arguments):
        return "it was given null, which TOML does not have"
    if any(True for _ in names_in([arguments, call.exchange.name])):
        return "it was given a text with ${…}, which is a placeholder in a suite"
    return ""


def _has_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _listed(dialogue: Dialogue) -> set[str]:
    names: set[str] = set()
    for exchange in dialogue.exchanges:
        tools = exchange.result.get("tools") if isinstance(exchange.result, Mapping) else None
        if exchange.method == "tools/list" and isinstance(tools, list):
            names |= {tool["name"] for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)}
    return names


def _expected(answer: Answer) -> dict[str, Any]:
    """What the same call will give again."""
    if answer.error is not None:
        return {"code": answer.error["code"]}
    if answer.is_error:
        words = _steady(answer.text)
        return {"is_error": True, **({"text_contains": words} if words else {})}
    content = answer.result.get("structuredContent")
    found: dict[str, Any] = {"is_error": False}
    if isinstance(content, Mapping) and content:
        found["schema"] = {"type": "object", "required": sorted(content)}
    elif looks_like_an_error(answer) and (words := _steady(answer.text)):
        found["text_contains"] = words
    return found


def _steady(text: str) -> str:
    """The longest part of a text without numbers, ids, quotes and paths, "" if none is long enough."""
    if _MASKED.search(text):
        text = _MASKED.sub("\n", text)
    parts = [part.strip() for part in _VARIES.split(text)]
    words = max(parts, key=len, default="")
    return words if len(words) >= MIN_WORDS_CHARACTERS else ""


def _with_captures(value: Any, steps: list[dict[str, Any]], answers: Sequence[Answer], given: set[str]) -> Any:
    """Arguments with `${captured.…}` for what an earlier answer has brought."""
    if isinstance(value, Mapping):
        return {key: _with_captures(item, steps, answers, given) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_captures(item, steps, answers, given) for item in value]
    if not isinstance(value, str) or len(value) < MIN_CAPTURE_CHARACTERS or value in given:
        return value
    for step, answer in zip(reversed(steps), reversed(answers), strict=True):
        spec = _capture(value, answer)
        if spec is not None:
            captures = step.setdefault("capture", {})
            known = next((name for name, item in captures.items() if item == spec), None)
            if known is None:
                known = f"value_{sum(len(item.get('capture', {})) for item in steps) + 1}"
                captures[known] = spec
            return f"${{captured.{known}}}"
    return value


def _capture(value: str, answer: Answer) -> Any:
    """How a text is found in an answer: a pointer, or a pattern in its text; None where it is not, or not safely."""
    result = answer.result if isinstance(answer.result, Mapping) else {}
    content = result.get("structuredContent")
    for pointer, leaf in _leaves(content, "/structuredContent"):
        if leaf == value:
            return pointer
    text = answer.text
    at = text.find(value)
    if at < 0 or not any(char.isdigit() for char in value) or (_VARIES.fullmatch(value) is None and " " in value):
        return None  # plain words are the caller's own
    prefix = text[max(0, at - PREFIX_CHARACTERS) : at].rpartition("\n")[2]
    kind = (
        "[0-9a-fA-F]+"
        if re.fullmatch(r"[0-9a-fA-F]+", value)
        else r"[\w.:-]+"
        if re.fullmatch(r"[\w.:-]+", value)
        else ""
    )
    pattern = f"{re.escape(prefix)}({kind})"
    found = re.search(pattern, text) if kind else None
    return {"pointer": "/$text", "matches": pattern} if found is not None and found[1] == value else None


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{pointer}/{index}")
    else:
        yield pointer, value
