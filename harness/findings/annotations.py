"""`annotation`: what tools say of themselves in their annotations, beside their names and what calls of them did.

Absent hints mean what the specification says (`readOnlyHint` false, `destructiveHint` true, `idempotentHint` false),
and the latter two mean something only where a tool is not read-only. What no recorded call shows is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.findings.ledger import CellLedger
from harness.findings.remark import Remark
from harness.findings.seen import Seen
from harness.findings.steps import Use, place_of_use
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.outcome import cut, cut_json
from harness.model.plan import RunKey

__all__ = ["check_annotations", "see_contradicted"]

FIRST_REVISION = "2025-03-26"  # the first that has annotations
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint")
MARK_CHARACTERS = 6  # a shorter text may stand in an answer by chance
_NAMES_SHOWN = 12

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DESTROYS = frozenset({"delete", "destroy", "purge", "wipe", "erase", "truncate", "uninstall"})
_REMOVES = _DESTROYS | {"remove", "drop", "kill"}
_WRITES = _REMOVES | {"create", "insert", "rename", "update", "upload", "write"}
_ONLY_LOOKS = frozenset(
    {"can", "check", "count", "describe", "diff", "dry", "explain", "find", "get", "has", "is", "list", "plan",
     "preview", "query", "read", "search", "should", "show", "simulate", "test", "validate", "view"}
)  # fmt: skip


# --- declarations -------------------------------------------------------------------------------


def check_annotations(catalogue: Catalogue) -> Iterator[Remark]:
    """Hints that are missing, that are none, and that the tool's own name or another hint contradicts."""
    if catalogue.protocol and catalogue.protocol < FIRST_REVISION:
        return
    bare = sorted({tool.name for tool in catalogue.tools if tool.definition.get("annotations") is None})
    names = {tool.name for tool in catalogue.tools}
    if bare and len(bare) == len(names):
        shown = ", ".join(bare[:_NAMES_SHOWN]) + (f", … ({len(bare)} in all)" if len(bare) > _NAMES_SHOWN else "")
        lead = f"none of {len(bare)} tools has" if len(bare) > 1 else "the only tool has no"
        yield Remark(
            check="annotation/missing",
            kind="no tool has annotations",
            message=f"{lead} annotations: {shown}; by the specification each of them may then destroy things, and a "
            "client that goes by it asks before every call",
            evidence={"tools": bare},
        )
        bare = []
    for tool in catalogue.tools:
        found = tool.definition.get("annotations")
        if found is None:
            if tool.name in bare:
                yield _missing(tool, HINTS)
            continue
        wrong = _malformed(found)
        if wrong:
            yield Remark(
                check="annotation/malformed",
                tool=tool.name,
                pointer="/annotations",
                kind="annotations that are none",
                message=f"{tool.name}: {wrong}; clients that are strict refuse the whole list for it",
                spelling=cut_json(found, 200),
            )
            continue
        yield from _hints(tool, found)


def _malformed(found: Any) -> str:
    if not isinstance(found, Mapping):
        return f"annotations is {cut_json(found, 60)}, and must be an object"
    bad = [
        f"{key} is {cut_json(found[key], 60)}"
        for key in (*HINTS, "openWorldHint")
        if found.get(key) is not None and not isinstance(found[key], bool)
    ]
    return f"{' and '.join(bad)}, and must be true or false" if bad else ""


def _missing(tool: ToolDef, absent: Sequence[str]) -> Remark:
    return Remark(
        check="annotation/missing",
        tool=tool.name,
        kind="hints that are missing",
        message=f"{tool.name} has no {' and no '.join(absent)}; clients decide by these hints whether to ask before a "
        "call, and take the worst where they are absent",
        evidence={"absent": list(absent)},
    )


def _hints(tool: ToolDef, found: Mapping[str, Any]) -> Iterator[Remark]:
    wanted = HINTS[:1] if found.get("readOnlyHint") is True else HINTS  # the others mean something else only then
    absent = [key for key in wanted if found.get(key) is None]
    if absent:
        yield _missing(tool, absent)
    verb = _verb(tool.name)
    read_only, destructive = found.get("readOnlyHint") is True, found.get("destructiveHint")
    if read_only and destructive is True:
        said, severe = "says readOnlyHint true and destructiveHint true; what only reads destroys nothing", False
    elif read_only and verb in _WRITES:
        said, severe = f"says readOnlyHint true, and by its name it does {verb} something", verb in _DESTROYS
    elif destructive is False and verb in _DESTROYS:
        said, severe = f"says destructiveHint false, and by its name it does {verb} something", False
    else:
        return
    yield Remark(
        check="annotation/contradicted",
        tool=tool.name,
        pointer="/annotations",
        kind="hints that the name or another hint contradicts",
        severity="error" if severe else "warning",
        message=f"{tool.name} {said}; clients that trust the hint call it without asking",
        spelling=cut_json(found, 200),
    )


def _verb(name: str) -> str:
    """The verb of a name: its first word, or the second behind a word that is no verb, such as the server's name."""
    words = [word.lower() for word in _WORDS.findall(name)]
    for word in words[:2]:
        if word in _ONLY_LOOKS | _WRITES:
            return "" if word in _ONLY_LOOKS else word
    return ""


# --- calls --------------------------------------------------------------------------------------


def see_contradicted(ledgers: Sequence[CellLedger], catalogues: Mapping[RunKey, Catalogue]) -> Iterator[Seen]:
    """Tools that say they only read, and whose calls changed what another tool answers.

    Judged where the same call of another tool stands right before and right after the call, and a text that no earlier
    call had been given, but this one was, stands in the later answer and not in the earlier one.
    """
    for ledger in ledgers:
        for view in ledger.views:
            said = {tool.name: tool.definition.get("annotations") for tool in catalogues[view.run.key].tools}
            reads = {
                name for name, hints in said.items() if isinstance(hints, Mapping) and hints.get("readOnlyHint") is True
            }
            uses = [use for use in view.uses if use.is_call and use.exchange is not None and use.calls]
            uses.sort(key=lambda use: (use.dialogue.transcript.name, use.exchange.sent.n if use.exchange else 0))
            known: set[str] = set()  # texts that calls were given so far
            for before, use, after in zip(uses, uses[1:], uses[2:], strict=False):
                known.update(_texts(_arguments(before)))
                if use.target not in reads or use.verdict != "succeeded" or not _is_same(before, after):
                    continue
                if before.dialogue is not use.dialogue or before.target == use.target:
                    continue
                change = _change(before, use, after, known)
                if change:
                    yield Seen(
                        check="annotation/contradicted",
                        run=view.run.key,
                        order=(0, use.exchange.sent.n if use.exchange else 0),
                        key=("calls", use.target),
                        message=f"{use.target} says readOnlyHint true, and a call of it changed what {before.target} "
                        f"answers: {change}",
                        tool=use.target,
                        pointer="/annotations",
                        place=place_of_use(use),
                        case=use.case,
                        evidence={"arguments": cut_json(_arguments(use), 300), "annotations": said[use.target]},
                    )


def _arguments(use: Use) -> Any:
    return {} if use.exchange is None else use.exchange.params.get("arguments", {})


def _is_same(before: Use, after: Use) -> bool:
    return (
        before.dialogue is after.dialogue
        and before.target == after.target
        and _arguments(before) == _arguments(after)
        and before.calls == after.calls == 1
    )


def _change(before: Use, use: Use, after: Use, known: set[str]) -> str:
    """How the later answer shows what the call did, "" where it does not."""
    if before.verdict != "succeeded" or after.verdict != "succeeded" or before.answer is None or after.answer is None:
        return ""
    for mark in _texts(_arguments(use)):
        if len(mark) < MARK_CHARACTERS or any(mark in text for text in known):
            continue  # an earlier call may have brought it there, and it came late
        if mark in after.answer.text and mark not in before.answer.text:
            return f"{cut(mark, 60)} stands in it now, and did not before"
    return ""


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
