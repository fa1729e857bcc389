"""The committed contract against what a server lists: every change, classified from the side of a caller.

Pure. `changes_between` compares two sets of lists, `diff` two contracts over all runs that they tell apart, and
`see_contract` what the runs of a server showed with the file that harness.toml names.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from harness.findings.catalogue import catalogue_of
from harness.findings.contract_schema import ALIKE, Difference, Direction, differences, is_alike, similar
from harness.findings.ledger import CellLedger, listing_of
from harness.findings.remark import Remark
from harness.findings.seen import Seen, scrub
from harness.findings.steps import RunView
from harness.model.bounded import depth_of
from harness.model.catalogue import Catalogue
from harness.model.contract import (
    ABSENT,
    CLASSES,
    MAX_ITEM_DEPTH,
    SUBJECTS,
    Change,
    ChangeClass,
    Contract,
    Item,
    Lists,
    Subject,
    Where,
    equal,
    key_of,
    same_words,
    views_of,
)
from harness.model.finding import NotJudged
from harness.model.plan import RunKey

__all__ = [
    "changes_between",
    "contract_not_judged",
    "diff",
    "drift",
    "lists_in",
    "lists_of",
    "see_contract",
    "where_of",
    "why_not",
]

MAX_RENAME_PAIRS = 5_000
ALIKE_TEXT = 0.8  # of a description
_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
_DEPRECATED = re.compile(r"\bdeprecat|\bno longer supported\b|\bwill be removed\b", re.IGNORECASE)
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*[A-Za-z0-9_]")
_LOOPBACK_PORT = re.compile(r"\b(127\.0\.0\.1|localhost|\[::1\]):(3[2-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SMALL_WORDS = """
    all and any are can for from has have into its may not one only that the them then this tool use used uses when
    which will with you your
"""
_SMALL = frozenset(_SMALL_WORDS.split())
MIN_WORDS = 4  # of a description, before that it shares none with another says anything


# --- two sets of lists ----------------------------------------------------------------------------


def changes_between(before: Lists, after: Lists) -> tuple[Change, ...]:
    """Every change from one set of lists to another; () where they are the same but for the order."""
    out: list[Change] = []
    for subject in SUBJECTS:
        out += _list_changes(subject, before.of(subject), after.of(subject))
    return tuple(sorted(out, key=_order))


def _order(change: Change) -> tuple[Any, ...]:
    return (
        CLASSES.index(change.cls),
        SUBJECTS.index(change.subject),
        change.name,
        change.where,
        change.pointer,
        change.kind,
        change.message,
        change.runs,
    )


def _list_changes(subject: Subject, before: Sequence[Item], after: Sequence[Item]) -> Iterator[Change]:
    old, new = _by_name(subject, before), _by_name(subject, after)
    gone = [key for key in old if key not in new]
    come = [key for key in new if key not in old]
    renamed = _renamed(old, new, gone, come) if subject == "tool" else {}
    new_names = set(renamed.values())
    names = {name for name, _ in new}
    for key, item in old.items():
        if key in new:
            yield from _item_changes(subject, key[0], item, new[key], names)
        elif key in renamed:
            yield _rename(key[0], renamed[key][0])
        else:
            yield _gone(subject, key, item, still=key[0] in names)
    for key in come:
        if key not in new_names:
            yield _come(subject, key, new[key])


def _by_name(subject: Subject, items: Iterable[Item]) -> dict[tuple[str, int], Item]:
    """Items by name and how often the name was there before."""
    out: dict[tuple[str, int], Item] = {}
    for item in items:
        name, number = key_of(subject, item), 0
        while (name, number) in out:
            number += 1
        out[name, number] = item
    return out


def _gone(subject: Subject, key: tuple[str, int], item: Item, *, still: bool) -> Change:
    name = key[0]
    if still:
        return Change(
            cls="cosmetic", subject=subject, name=name, kind="listed less often",
            message=f"the {subject} {name} is listed once where it was listed twice",
            caller="nothing, if both were the same",
        )  # fmt: skip
    caller = {
        "tool": "every call of it is refused as that of an unknown tool",
        "prompt": "every request for it is refused",
        "resource": "reading it fails, or no client finds it any more",
    }[subject]
    return Change(
        cls="breaking", subject=subject, name=name, kind=f"a {subject} is gone", before=item,
        message=f"the {subject} {name} is in the contract and is not listed", caller=caller,
    )  # fmt: skip


def _come(subject: Subject, key: tuple[str, int], item: Item) -> Change:
    name = key[0]
    if key[1]:
        return Change(
            cls="unknown", subject=subject, name=name, kind="listed twice", after=item,
            message=f"the {subject} {name} is listed {key[1] + 1} times",
            caller="it depends on the client which one is used",
        )  # fmt: skip
    return Change(
        cls="additive", subject=subject, name=name, kind=f"a {subject} was added", after=item,
        message=f"the {subject} {name} is listed and is not in the contract",
        caller=f"one {subject} more to choose from; what worked still works",
    )  # fmt: skip


def _rename(old: str, new: str) -> Change:
    return Change(
        cls="breaking", name=old, pointer="/name", kind="a tool was renamed", before=old, after=new,
        message=f"the tool {old} is now called {new}: the same parameters under another name",
        caller=f"every call of {old} is refused as that of an unknown tool; listing both for a while breaks nobody",
    )  # fmt: skip


def _renamed(
    old: Mapping[tuple[str, int], Item],
    new: Mapping[tuple[str, int], Item],
    gone: Sequence[tuple[str, int]],
    come: Sequence[tuple[str, int]],
) -> dict[tuple[str, int], tuple[str, int]]:
    """Tools that went with one that came, that takes the same and has a like name or description."""
    by_parameters: dict[frozenset[str], list[tuple[str, int]]] = {}
    for key in come:
        by_parameters.setdefault(_parameters(new[key]), []).append(key)
    scores = []
    pairs = MAX_RENAME_PAIRS
    for one in gone:
        for two in by_parameters.get(_parameters(old[one]), ()):
            a, b = old[one], new[two]
            same = bool(_description(a)) and _description(a).split() == _description(b).split()
            pairs -= 1
            if pairs < 0 and (not same or pairs < -10 * MAX_RENAME_PAIRS):
                continue
            name = similar(one[0], two[0])
            said = 1.0 if same else similar(_description(a), _description(b)) if name < ALIKE else 0.0
            if max(name, said) >= ALIKE and (name >= ALIKE or said >= ALIKE_TEXT):
                scores.append((-(name + said), one, two))
    out: dict[tuple[str, int], tuple[str, int]] = {}
    taken: set[tuple[str, int]] = set()
    for _, one, two in sorted(scores):
        if one not in out and two not in taken and is_alike(_schema(old[one]), _schema(new[two]), "input"):
            out[one] = two
            taken.add(two)
    return out


def _parameters(item: Item) -> frozenset[str]:
    schema = item.get("inputSchema")
    named = schema.get("properties") if isinstance(schema, Mapping) else None
    return frozenset(map(str, named)) if isinstance(named, Mapping) else frozenset()


def _schema(item: Item) -> Any:
    """The input schema; a tool without one takes no parameters."""
    found = item.get("inputSchema")
    return {"type": "object"} if found is None else found


def _description(item: Item) -> str:
    found = item.get("description")
    return found if isinstance(found, str) else ""


# --- one item -------------------------------------------------------------------------------------


def _item_changes(subject: Subject, name: str, old: Item, new: Item, names: set[str]) -> Iterator[Change]:
    if equal(old, new):
        return
    if subject == "tool":
        found = list(_tool_changes(name, old, new, names))
    else:
        found = list(_prompt_changes(name, old, new) if subject == "prompt" else _resource_changes(name, old, new))
    if found:
        yield from found
        return
    where = next((key for key in sorted({*old, *new}) if not equal(old.get(key), new.get(key))), "")
    schema = where if where in ("inputSchema", "outputSchema") else ""
    yield Change(
        cls="cosmetic", subject=subject, name=name, where=schema, pointer="" if schema else f"/{where}",
        kind="another spelling", before=old.get(where, ABSENT), after=new.get(where, ABSENT),
        message=f"{where} of the {subject} {name} is spelled in another way and says the same", caller="nothing",
    )  # fmt: skip


def _tool_changes(name: str, old: Item, new: Item, names: set[str]) -> Iterator[Change]:
    says = _Says("tool", name)
    gone, come = _parameters(old) - _parameters(new), _parameters(new) - _parameters(old)
    if gone and come and gone == _parameters(old) and not _continued(gone, come, old, new):
        yield Change(
            cls="breaking", name=name, where="inputSchema", kind="a tool was repurposed",
            before=sorted(gone), after=sorted(come),
            message=f"the tool {name} has none of its parameters ({_words(gone)}) any more, others instead "
            f"({_words(come)}), and another description: the name stands for another tool now",
            caller="calls that were right are refused, or do something else; give the new tool a name of its own",
        )  # fmt: skip
    yield from _schema_changes(name, _schema(old), _schema(new), "inputSchema")
    if old.get("outputSchema") is None or new.get("outputSchema") is None:
        yield from _output_came_or_went(name, old.get("outputSchema"), new.get("outputSchema"))
    else:
        yield from _schema_changes(name, old["outputSchema"], new["outputSchema"], "outputSchema")
    yield from _described(says, old, new, names)
    yield from _annotations(says, old.get("annotations"), new.get("annotations"))
    yield from _execution(name, old.get("execution"), new.get("execution"))
    known = {
        "name",
        "inputSchema",
        "outputSchema",
        "description",
        "title",
        "annotations",
        "execution",
        "_meta",
        "icons",
    }
    yield from _rest(says, old, new, known)


def _output_came_or_went(name: str, old: Any, new: Any) -> Iterator[Change]:
    if old is None and new is not None:
        yield Change(
            cls="additive", name=name, where="outputSchema", kind="an output schema was added", after=new,
            message=f"the tool {name} declares an output schema now", caller="more to rely on",
        )  # fmt: skip
    elif old is not None:
        yield Change(
            cls="breaking", name=name, where="outputSchema", kind="the output schema is gone", before=old,
            message=f"the tool {name} declares no output schema any more",
            caller="no field of its results is promised now, and structuredContent may be missing",
        )  # fmt: skip


class _Says:
    """Makes changes of words of one item."""

    def __init__(self, subject: Subject, name: str) -> None:
        self.subject, self.name = subject, name

    def __call__(
        self, pointer: str, before: Any, after: Any, *, kind: str = "", cls: ChangeClass = "routing", message: str = "",
        caller: str = "",
    ) -> Change:  # fmt: skip
        what = pointer.lstrip("/").replace("/", ".")
        verb = "was added" if before is ABSENT else "is gone" if after is ABSENT else "changed"
        return Change(
            cls=cls, subject=self.subject, name=self.name, pointer=pointer, kind=kind or f"{what} {verb}",
            before=before, after=after,
            message=message or f"{what} of the {self.subject} {self.name} {verb}",
            caller=caller
            or f"no call breaks; a model may choose the {self.subject} in other cases, or use it in another way",
        )  # fmt: skip


def _described(says: _Says, old: Item, new: Item, names: set[str]) -> Iterator[Change]:
    before, after = old.get("title", ABSENT), new.get("title", ABSENT)
    if not same_words(before, after):
        yield says("/title", before, after)
    before, after = old.get("description", ABSENT), new.get("description", ABSENT)
    if same_words(before, after):
        return
    was, is_ = (bool(_DEPRECATED.search(text)) if isinstance(text, str) else False for text in (before, after))
    if is_ and not was and isinstance(after, str):
        said = before if isinstance(before, str) else ""
        others = [
            word for word in _NAMES.findall(after) if word in names and word != says.name and word not in said.split()
        ]
        if others:
            yield says(
                "/description", before, after, cls="additive", kind="a tool was deprecated",
                message=f"the {says.subject} {says.name} is said to be deprecated, and {others[0]}, which its "
                "description names, is listed",
                caller="calls of it still work; there is time to move to the other one",
            )  # fmt: skip
        else:
            yield says(
                "/description", before, after, kind="a tool was deprecated",
                message=f"the {says.subject} {says.name} is said to be deprecated, and its description names no listed "
                f"{says.subject} to use instead",
                caller="calls of it still work; a model finds nothing to use instead",
            )  # fmt: skip
        return
    if _strange(before, after):
        yield says(
            "/description", before, after, cls="unknown", kind="a description without a word of the old one",
            message=f"the description of the {says.subject} {says.name} has not a word of what it was: whether it "
            "still does the same could not be told",
            caller="if it does something else now, every call of it does something that nobody asked for",
        )  # fmt: skip
        return
    yield says("/description", before, after)


def _strange(old: Any, new: Any) -> bool:
    """Whether two descriptions of some length have no word in common."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    one, two = ({word[:5] for word in _WORD.findall(text.casefold()) if word not in _SMALL} for text in (old, new))
    return min(len(one), len(two)) >= MIN_WORDS and not one & two


def _continued(gone: Iterable[str], come: Iterable[str], old: Item, new: Item) -> bool:
    """Whether a tool with other parameters is still the one it was, as far as its description or their names say."""
    one, two = _description(old), _description(new)
    if not one or not two or one.split() == two.split() or similar(one, two) >= ALIKE:
        return True
    return any(similar(a, b) >= ALIKE for a in gone for b in come)


def _annotations(says: _Says, old: Any, new: Any) -> Iterator[Change]:
    one, two = (item if isinstance(item, Mapping) else {} for item in (old, new))
    for key in sorted({*one, *two}):
        before, after = one.get(key, ABSENT), two.get(key, ABSENT)
        meant = [_HINTS.get(key, ABSENT) if item is ABSENT else item for item in (before, after)]
        if same_words(before, after) or equal(*meant) or key == "lastModified":
            continue
        caller = ""
        if key in _HINTS:
            caller = "clients that ask before a call, retry it or run it unasked by this hint now decide in another way"
        yield says(f"/annotations/{_escaped(str(key))}", before, after, caller=caller)


def _execution(name: str, old: Any, new: Any) -> Iterator[Change]:
    """Whether it may be called as a task: without a word it may not."""
    before, after = (
        item.get("taskSupport", "forbidden") if isinstance(item, Mapping) else "forbidden" for item in (old, new)
    )
    if equal(before, after):
        return
    takes = {"forbidden": {"plain"}, "optional": {"plain", "task"}, "required": {"task"}}
    one, two = (takes.get(item, set()) if isinstance(item, str) else set() for item in (before, after))
    cls: ChangeClass = "unknown" if not one or not two else "additive" if one <= two else "breaking"
    caller = {
        "additive": "calls as before still work, and there is one more way",
        "breaking": "calls of the kind that worked (as a task, or plain) are refused",
        "unknown": "it depends on what this word means to the server",
    }[cls]
    yield Change(
        cls=cls, name=name, pointer="/execution/taskSupport", kind="taskSupport changed", before=before, after=after,
        message=f"taskSupport of the tool {name} went from {before} to {after}", caller=caller,
    )  # fmt: skip


def _rest(says: _Says, old: Item, new: Item, known: set[str]) -> Iterator[Change]:
    """Keys that this version knows nothing of: a client may act on them."""
    for key in sorted({*old, *new} - known):
        before, after = old.get(key, ABSENT), new.get(key, ABSENT)
        if not same_words(before, after):
            yield says(f"/{_escaped(str(key))}", before, after)


def _prompt_changes(name: str, old: Item, new: Item) -> Iterator[Change]:
    says = _Says("prompt", name)
    yield from _described(says, old, new, set())
    one, two = _arguments(old), _arguments(new)
    for key in sorted({*one, *two}):
        pointer = f"/arguments/{(two if key in two else one)[key][0]}"
        before: Any = one[key][1] if key in one else ABSENT
        after: Any = two[key][1] if key in two else ABSENT
        needed = [item is not ABSENT and item.get("required") is True for item in (before, after)]
        if after is ABSENT:
            yield says(pointer, before, after, cls="breaking", kind="an argument is gone",
                       message=f"the prompt {name} has no argument {key} any more",
                       caller="what a caller gives in it is refused or ignored")  # fmt: skip
        elif before is ABSENT:
            yield says(pointer, before, after, cls="breaking" if needed[1] else "additive",
                       kind="a required argument was added" if needed[1] else "an argument was added",
                       message=f"the prompt {name} has a new {'required ' if needed[1] else ''}argument {key}",
                       caller="requests without it are refused" if needed[1] else "requests without it still work",
                       )  # fmt: skip
        else:
            if needed[0] != needed[1]:
                yield says(f"{pointer}/required", needed[0], needed[1], cls="breaking" if needed[1] else "additive",
                           kind="an argument became required" if needed[1] else "an argument became optional",
                           message=f"the argument {key} of the prompt {name} is "
                           f"{'' if needed[1] else 'not '}required now",
                           caller="requests without it are refused" if needed[1] else "it may be left out")  # fmt: skip
            for word in ("title", "description"):
                if not same_words(before.get(word, ABSENT), after.get(word, ABSENT)):
                    yield says(f"{pointer}/{word}", before.get(word, ABSENT), after.get(word, ABSENT),
                               kind=f"{word} changed",
                               message=f"{word} of the argument {key} of the prompt {name} changed")  # fmt: skip
    yield from _rest(says, old, new, {"name", "title", "description", "arguments", "_meta", "icons"})


def _arguments(item: Item) -> dict[str, tuple[int, Mapping[str, Any]]]:
    found = item.get("arguments")
    out: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for index, argument in enumerate(found if isinstance(found, list) else ()):
        if isinstance(argument, Mapping) and isinstance(argument.get("name"), str):
            out.setdefault(argument["name"], (index, argument))
    return out


def _resource_changes(name: str, old: Item, new: Item) -> Iterator[Change]:
    says = _Says("resource", name)
    yield from _described(says, old, new, set())
    if not same_words(old.get("name", ABSENT), new.get("name", ABSENT)):
        yield says("/name", old.get("name", ABSENT), new.get("name", ABSENT))
    before, after = old.get("mimeType", ABSENT), new.get("mimeType", ABSENT)
    if not equal(before, after):
        added = before is ABSENT
        caller = "more to rely on" if added else "a reader that goes by the type takes the content for another"
        yield says("/mimeType", before, after, cls="additive" if added else "breaking", caller=caller)
    yield from _annotations(says, old.get("annotations"), new.get("annotations"))
    known = {"uri", "name", "title", "description", "mimeType", "annotations", "size", "_meta", "icons"}
    yield from _rest(says, old, new, known)


# --- schemas --------------------------------------------------------------------------------------


def _schema_changes(name: str, old: Any, new: Any, where: Literal["inputSchema", "outputSchema"]) -> Iterator[Change]:
    direction: Direction = "input" if where == "inputSchema" else "output"
    for found in differences(old, new, direction):
        cls = _class_of(found, direction)
        place = _spoken(found.pointer.removesuffix("/additionalProperties"))
        side = "input" if direction == "input" else "output"
        yield Change(
            cls=cls,
            name=name,
            where=where,
            pointer=found.pointer,
            kind=found.kind,
            before=found.before,
            after=found.after,
            message=f"{side} of the tool {name}{f', {place}' if place else ''}: {_sentence(found)}",
            caller=_caller(found, cls, direction),
        )


def _class_of(found: Difference, direction: Direction) -> ChangeClass:
    """From the caller's side: what may be sent must not shrink, what may come back must not grow."""
    if found.effect == "words":
        if found.kind.startswith("description") and direction == "input" and _strange(found.before, found.after):
            return "unknown"
        return "routing"
    match found.effect:
        case "unknown":
            return "unknown"
        case "changed":
            return "breaking"
        case "narrowed":
            return "breaking" if direction == "input" else "additive"
        case "widened":
            return "additive" if direction == "input" else "breaking"
        case "maybe-narrowed":
            return "unknown" if direction == "input" else "additive"
        case "maybe-widened":
            return "additive" if direction == "input" else "unknown"


def _sentence(found: Difference) -> str:
    detail = found.detail.partition("\0")[0]
    said = f"{found.kind}: {detail}" if detail else found.kind
    if found.effect == "words" or detail:
        return said
    if found.before is not ABSENT and found.after is not ABSENT and not isinstance(found.before, Mapping):
        return f"{said} ({_short(found.before)} to {_short(found.after)})"
    if found.after is not ABSENT and not isinstance(found.after, Mapping):
        return f"{said} ({_short(found.after)})"
    return said


def _caller(found: Difference, cls: ChangeClass, direction: Direction) -> str:
    name, _, open_ = found.detail.partition("\0")
    if cls == "routing":
        told = "a model may fill it in another way" if direction == "input" else "what is told of the results changed"
        return f"no call breaks; {told}"
    if cls == "unknown":
        if found.effect.startswith("maybe"):
            return "it depends on who validates: not every validator looks at this keyword"
        return "whether calls that were right are refused, or results come that nobody expects, could not be told"
    if direction == "input":
        if found.kind == "a parameter is gone":
            return (
                f"calls that send {name} still pass, and what they send in it is ignored"
                if open_
                else f"calls that send {name} are refused"
            )
        if found.kind.startswith("default"):
            return "calls that leave it out do something else now" if cls == "breaking" else "it may be left out"
        if cls == "additive":
            return "everything that was right still is, and more"
        if found.kind in ("a required parameter was added", "a parameter became required"):
            return f"calls without {name} are refused"
        return "calls that were right may be refused"
    if cls == "additive":
        return "results keep what they promised, and promise more"
    if found.kind == "a field is gone":
        return f"who reads {name} finds nothing"
    if found.kind == "a field was added to a closed object":
        return "a client that validates by the list it has from before refuses the new field"
    if found.kind == "a field became optional":
        return f"who reads {name} without looking whether it is there fails"
    return "results may come that the earlier schema excludes"


def _spoken(pointer: str) -> str:
    """A pointer as people say it: `entities[].name`."""
    out = ""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    index = 0
    while index < len(parts):
        part = parts[index]
        if part == "properties" and index + 1 < len(parts):
            out += ("." if out else "") + parts[index + 1]
            index += 2
            continue
        if part in ("items", "additionalProperties"):
            out += "[]" if part == "items" else ".*"
        elif part in ("$defs", "definitions") and index + 1 < len(parts):
            out += ("." if out else "") + f"{part}.{parts[index + 1]}"
            index += 2
            continue
        index += 1
    return out


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# --- contracts ------------------------------------------------------------------------------------


def diff(before: Contract, after: Contract) -> tuple[Change, ...]:
    """Every change from one contract to another, over all runs that one of them tells apart."""
    views = views_of(before, after)
    return _together(
        [
            (where, changes_between(after.seen(before.lists_in(where)), before.seen(after.lists_in(where))))
            for where in views
        ]
    )


def drift(contract: Contract, seen: Iterable[tuple[Where, Lists]]) -> tuple[Change, ...]:
    """Every change from a contract to what runs list."""
    return _together(
        [(where, changes_between(contract.lists_in(where), contract.seen(lists))) for where, lists in seen]
    )


def _together(found: Sequence[tuple[Where, Sequence[Change]]]) -> tuple[Change, ...]:
    """The changes of all runs, each once, with the runs that show it where not all do."""
    groups: dict[Any, tuple[Change, list[str]]] = {}
    for where, changes in found:
        for change in changes:
            groups.setdefault(_same(change), (change, []))[1].append(str(where))
    out = []
    for change, runs in groups.values():
        out.append(replace(change, runs=() if len(runs) == len(found) else tuple(sorted(runs))))
    return tuple(sorted(out, key=_order))


def _same(change: Change) -> tuple[Any, ...]:
    values = (json.dumps(item, sort_keys=True, default=repr) for item in (change.before, change.after))
    return (change.cls, change.subject, change.name, change.where, change.pointer, change.kind, *values)


# --- runs -----------------------------------------------------------------------------------------


def lists_of(view: RunView) -> Lists:
    """What one run listed."""
    return lists_in(catalogue_of(view))


def lists_in(catalogue: Catalogue) -> Lists:
    """What a catalogue lists, without what differs from run to run: the ports and folders that a server was given."""
    return Lists(
        tools=tuple(_item(tool.definition) for tool in catalogue.tools),
        prompts=tuple(_item(item) for item in catalogue.prompts),
        resources=tuple(_item(item) for item in catalogue.resources),
    )


def _item(item: Item) -> Item:
    """A listed item; a part of it that is nested too deeply to be handled is its fingerprint."""
    if depth_of(item) > MAX_ITEM_DEPTH:
        item = {key: _fingerprint(value) if depth_of(value) >= MAX_ITEM_DEPTH else value for key, value in item.items()}
    steadied: Item = _steady(item)
    return steadied


def _fingerprint(value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True)
    except RecursionError:
        text = ""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16] if text else "unknown"
    return f"nested deeper than {MAX_ITEM_DEPTH} levels; fingerprint {digest}"


def _steady(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _steady(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_steady(item) for item in value]
    return _LOOPBACK_PORT.sub(r"\1:${port}", scrub(value)) if isinstance(value, str) else value


def where_of(key: RunKey) -> Where:
    """A run, as a contract tells runs apart."""
    return Where(era=key.era, profile=key.profile, backend="" if key.backend == "none" else key.backend)


def why_not(view: RunView) -> str:
    """Why the lists of a run cannot be judged, "" if they can: what is not there may only not have been read."""
    for method, capability in (("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")):
        listing = listing_of(view, method)
        has_none = not listing.asked and capability not in view.capabilities
        if listing.whole or (has_none and view.record.outcome == "finished"):
            continue
        return f"{view.run.key}: {method} is not whole{f': {listing.problem}' if listing.problem else ''}"
    return ""


def see_contract(ledgers: Sequence[CellLedger], contract: Contract) -> Iterator[Seen]:
    """The drift of one server: what its runs list against what the file says."""
    views = [view for ledger in ledgers for view in ledger.views if not why_not(view)]
    declared = [contract.lists_in(where_of(view.run.key)) for view in views]
    listed = [contract.seen(lists_of(view)) for view in views]
    changes = [changes_between(old, new) for old, new in zip(declared, listed, strict=True)]
    shown = [{_same(change) for change in part} for part in changes]
    known = [_by_subject(lists) for lists in declared]
    for index, view in enumerate(views):
        for change in changes[index]:
            if change.cls == "cosmetic":
                continue
            same, key = _same(change), (change.subject, change.name)
            calm = [
                str(other.run.key)
                for at, other in enumerate(views)
                if same not in shown[at] and equal(known[at].get(key, []), known[index].get(key, []))
            ]
            remark = _remark(change, contract, calm)
            place = contract.place_of(change.subject, change.name)
            yield replace(remark.seen_in(view.run.key), key=(change.subject, same), place=place)


def _by_subject(lists: Lists) -> dict[tuple[Subject, str], list[Item]]:
    out: dict[tuple[Subject, str], list[Item]] = {}
    for subject in SUBJECTS:
        for item in lists.of(subject):
            out.setdefault((subject, key_of(subject, item)), []).append(item)
    return out


def _remark(change: Change, contract: Contract, calm: Sequence[str]) -> Remark:
    check = f"contract/{change.cls}"
    file = contract.place.file if contract.place is not None else "the contract"
    message = f"{change.message}; what a caller sees: {change.caller}"
    if calm:
        check = "contract/differs"
        message += f"; not so in {', '.join(sorted(calm))}, and {file} does not say that they differ"
    message += f"; if that is right: mcp-rollcall tools accept --tool {shlex.quote(change.name)} --reason …"
    evidence: dict[str, Any] = {"caller": change.caller}
    if change.subject != "tool":
        evidence["subject"] = change.subject
    whole = not change.where and not change.pointer  # it is in the file or in the evidence
    for key, value in (("before", change.before), ("after", change.after)):
        if value is not ABSENT and not whole:
            evidence[key] = value if len(json.dumps(value)) <= 2_000 else _short(value)
    if calm:
        evidence |= {"class": change.cls, "not_in": sorted(calm)}
    return Remark(
        check=check,
        tool=change.name,
        where=change.where if change.where in ("inputSchema", "outputSchema") else "",  # type: ignore[arg-type]
        pointer=change.pointer,
        kind=change.kind,
        message=message,
        evidence=evidence,
    )


def contract_not_judged(ledgers: Iterable[CellLedger]) -> Iterator[NotJudged]:
    """The runs whose lists cannot be held against the contract, and why."""
    for ledger in ledgers:
        for view in ledger.views:
            if why := why_not(view):
                yield NotJudged(check="contract", server=ledger.cell.server, why=why)
