"""A contract: what a server's lists are committed to say, and how they changed since.

`contract.json` holds it: every tool, prompt and resource as it is listed on the wire, what all runs list once and what
only some eras, profiles or backends list under `differences`, with the history of accepted changes. One form of bytes
for one content: sorted keys and items, two spaces, UTF-8, no date but that of an acceptance.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.model.plan import Place

__all__ = [
    "ABSENT",
    "AXES",
    "CLASSES",
    "MAX_ITEM_DEPTH",
    "SCHEMA",
    "SUBJECTS",
    "AcceptedSpec",
    "Change",
    "ChangeClass",
    "Contract",
    "Lists",
    "Subject",
    "Variant",
    "Where",
    "contract_from_json",
    "contract_to_json",
    "equal",
    "key_of",
    "make_contract",
    "same_words",
    "views_of",
    "without_words",
]

SCHEMA = 1
MAX_ITEM_DEPTH = 200  # of a tool, prompt or resource
Subject = Literal["tool", "prompt", "resource"]
SUBJECTS: tuple[Subject, ...] = ("tool", "prompt", "resource")
ChangeClass = Literal["breaking", "unknown", "additive", "routing", "cosmetic"]
CLASSES: tuple[ChangeClass, ...] = ("breaking", "unknown", "additive", "routing", "cosmetic")  # the gravest first
Item = Mapping[str, Any]


class _Absent:
    """Nothing at all, which is not null."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, classified as a caller sees it.

    Attributes:
        cls: "breaking": a call or a reader of results that was right may fail now. "unknown": whether it is breaking
            could not be told. "additive": nothing that worked stops working. "routing": what a model reads to choose
            changed. "cosmetic": another spelling of the same.
        name: Of the tool or prompt, or the resource's URI.
        where: The key of the item that `pointer` starts from, "" for the item itself.
        pointer: JSON pointer below it, in the later list; in the earlier one where the thing is gone.
        kind: What it is, in a few words.
        before: The JSON that stood there; ABSENT for nothing.
        message: What changed, a sentence.
        caller: What a caller sees of it.
        runs: The runs that show it; () for all of them.
    """

    cls: ChangeClass
    subject: Subject = "tool"
    name: str
    where: str = ""
    pointer: str = ""
    kind: str
    before: Any = ABSENT
    after: Any = ABSENT
    message: str
    caller: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Where:
    """Some runs: those that fit all that is said. "" says nothing."""

    era: str = ""
    profile: str = ""
    backend: str = ""

    def holds(self, other: Where) -> bool:
        """Whether a run, or a narrower choice of runs, is among these."""
        return all(mine in ("", theirs) for mine, theirs in zip(self.parts(), other.parts(), strict=True))

    def parts(self) -> tuple[str, str, str]:
        """The three of them."""
        return self.era, self.profile, self.backend

    def to_json(self) -> dict[str, str]:
        """What is said."""
        return {key: value for key, value in zip(AXES, self.parts(), strict=True) if value}

    def __str__(self) -> str:
        return " ".join(part for part in (self.backend, self.era, self.profile) if part) or "all runs"


AXES = ("era", "profile", "backend")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The three lists of one run, or a part of them."""

    tools: tuple[Item, ...] = ()
    prompts: tuple[Item, ...] = ()
    resources: tuple[Item, ...] = ()

    def of(self, subject: Subject) -> tuple[Item, ...]:
        """One of them."""
        match subject:
            case "tool":
                return self.tools
            case "prompt":
                return self.prompts
            case "resource":
                return self.resources

    def __add__(self, other: Lists) -> Lists:
        return Lists(
            tools=self.tools + other.tools,
            prompts=self.prompts + other.prompts,
            resources=self.resources + other.resources,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What only some runs list."""

    where: Where
    lists: Lists


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSpec:
    """An accepted drift: when, of which tool (prompt, resource), in which classes, and why that is right."""

    date: str
    subject: Subject
    name: str
    classes: tuple[ChangeClass, ...]
    reason: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract.json.

    Attributes:
        shared: What all runs list.
        variants: What only some list, besides.
        axes: For each axis that a variant names, all values of it that were there when the file was made.
        place: The file.
        lines: (subject, name) -> where it stands in the file.
        words: Whether titles and descriptions are part of it.
    """

    server: str
    shared: Lists = Lists()
    variants: tuple[Variant, ...] = ()
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accepted: tuple[AcceptedSpec, ...] = ()
    place: Place | None = None
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    words: bool = True

    def seen(self, lists: Lists) -> Lists:
        """What a run lists, as far as it is part of this contract."""
        return lists if self.words else without_words(lists)

    def lists_in(self, where: Where) -> Lists:
        """What is declared for one run."""
        out = self.shared
        for variant in self.variants:
            if variant.where.holds(where):
                out = out + variant.lists
        return out

    def place_of(self, subject: Subject, name: str) -> Place | None:
        """Where an item stands in the file, or the file."""
        if self.place is None:
            return None
        return Place(file=self.place.file, line=self.lines.get((subject, name)))


def key_of(subject: Subject, item: Item) -> str:
    """The name that tells items apart: a resource's URI, the name of the others."""
    name = item.get("uri" if subject == "resource" else "name")
    return name if isinstance(name, str) else ""


# --- making ---------------------------------------------------------------------------------------


def make_contract(
    server: str,
    views: Iterable[tuple[Where, Lists]],
    *,
    accepted: Sequence[AcceptedSpec] = (),
    words: bool = True,
) -> Contract:
    """The contract of lists that were seen: what is the same in all of them once, the rest with where it is so."""
    seen = [(where, lists if words else without_words(lists)) for where, lists in views]
    all_runs = [where for where, _ in seen]
    shared: dict[Subject, list[Item]] = {subject: [] for subject in SUBJECTS}
    rest: dict[Where, dict[Subject, list[Item]]] = {}
    for subject in SUBJECTS:
        found: dict[str, tuple[Item, list[Where]]] = {}
        for where, lists in seen:
            counts: dict[str, int] = {}
            for item in lists.of(subject):
                text = _canonical(item)
                number = counts[text] = counts.get(text, 0) + 1  # a name that is listed twice stays twice
                found.setdefault(f"{text} {number}", (item, []))[1].append(where)
        for item, runs in found.values():
            if len(set(runs)) == len(set(all_runs)):
                shared[subject].append(item)
                continue
            for where in _cover(set(runs), all_runs):
                rest.setdefault(where, {name: [] for name in SUBJECTS})[subject].append(item)
    variants = tuple(Variant(where=where, lists=_lists(items)) for where, items in sorted(rest.items()))
    named = {axis for variant in variants for axis in variant.where.to_json()}
    axes = {axis: tuple(sorted({where.to_json().get(axis, "") for where in all_runs} - {""})) for axis in AXES}
    return Contract(
        server=server,
        shared=_lists(shared),
        variants=variants,
        axes={axis: values for axis, values in axes.items() if axis in named},
        accepted=tuple(accepted),
        words=words,
    )


_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_KEYS = """
    items additionalItems additionalProperties contains propertyNames not if then else unevaluatedItems
    unevaluatedProperties
"""
_SCHEMAS = frozenset(_SCHEMA_KEYS.split())


def without_words(lists: Lists) -> Lists:
    """The lists without titles and descriptions, of items, arguments and schemas at any depth."""
    return Lists(
        tools=tuple(_plain_item(item) for item in lists.tools),
        prompts=tuple(_plain_item(item) for item in lists.prompts),
        resources=tuple(_plain_item(item) for item in lists.resources),
    )


def _plain_item(item: Item) -> Item:
    out = _without(item)
    for key in ("inputSchema", "outputSchema"):
        if key in out:
            out[key] = _plain_schema(out[key])
    if isinstance(out.get("annotations"), Mapping):
        out["annotations"] = _without(out["annotations"])
    if isinstance(out.get("arguments"), list):
        out["arguments"] = [_without(one) if isinstance(one, Mapping) else one for one in out["arguments"]]
    return out


def _without(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in ("title", "description")}


def _plain_schema(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    out = _without(schema)
    for key, value in out.items():
        if key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            out[key] = {name: _plain_schema(inner) for name, inner in value.items()}
        elif isinstance(value, list) and (key in _SCHEMA_LISTS or key == "items"):
            out[key] = [_plain_schema(inner) for inner in value]
        elif key in _SCHEMAS:
            out[key] = _plain_schema(value)
    return out


def views_of(*contracts: Contract) -> list[Where]:
    """The runs that contracts tell apart: one that fits all where nothing differs."""
    values = [
        dict.fromkeys(value for contract in contracts for value in contract.axes.get(axis, ())) or {"": None}
        for axis in AXES
    ]
    return [Where(era=era, profile=profile, backend=backend) for era, profile, backend in itertools.product(*values)]


def _cover(runs: set[Where], all_runs: Sequence[Where]) -> Iterator[Where]:
    """The fewest words that fit these runs and no others of those there are."""
    left = set(runs)
    candidates: list[tuple[int, Where]] = []
    for run in sorted(runs):
        parts = run.to_json()
        for size in range(1, len(parts) + 1):
            for keys in itertools.combinations(parts, size):
                candidate = Where(**{key: parts[key] for key in keys})
                if all(other in runs for other in all_runs if candidate.holds(other)):
                    candidates.append((size, candidate))
    for _, candidate in sorted(set(candidates)):
        mine = {run for run in left if candidate.holds(run)}
        if mine:
            left -= mine
            yield candidate


def _lists(items: Mapping[Subject, Iterable[Item]]) -> Lists:
    def of(subject: Subject) -> tuple[Item, ...]:
        return tuple(sorted(items[subject], key=lambda item: (key_of(subject, item), _canonical(item))))

    return Lists(tools=of("tool"), prompts=of("prompt"), resources=of("resource"))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# --- the file -------------------------------------------------------------------------------------


def contract_to_json(contract: Contract) -> bytes:
    """The bytes of the file."""
    out: dict[str, Any] = {"schema": SCHEMA, "server": contract.server}
    if not contract.words:
        out["words"] = False
    if contract.accepted:
        out["accepted"] = [
            {
                "date": item.date,
                item.subject: item.name,
                "class": list(item.classes),
                "reason": item.reason,
                **({"changes": list(item.changes)} if item.changes else {}),
            }
            for item in contract.accepted
        ]
    out.update(_lists_to_json(contract.shared, empty=True))
    if contract.variants:
        out["axes"] = {axis: list(values) for axis, values in sorted(contract.axes.items())}
        out["differences"] = [
            {"where": variant.where.to_json(), **_lists_to_json(variant.lists, empty=False)}
            for variant in contract.variants
        ]
    text = json.dumps(out, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"  # a lone surrogate becomes the escape that JSON has for it


def _lists_to_json(lists: Lists, *, empty: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for subject in SUBJECTS:
        items = lists.of(subject)
        if items or (empty and subject == "tool"):
            out[f"{subject}s"] = [_item_to_json(subject, item) for item in items]
    return out


def _item_to_json(subject: Subject, item: Item) -> dict[str, Any]:
    """An item with its name first and all other keys sorted, at every depth."""
    first = "uri" if subject == "resource" else "name"
    ordered = _sorted(item)
    return {**({first: ordered[first]} if first in ordered else {}), **ordered}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def contract_from_json(
    data: Mapping[str, Any], *, place: Place | None = None, lines: Mapping[tuple[str, str], int] | None = None
) -> Contract:
    """The contract in a file that has been found well formed."""
    accepted = []
    for item in data.get("accepted", ()):
        subject: Subject = next(subject for subject in SUBJECTS if subject in item)
        accepted.append(
            AcceptedSpec(
                date=item["date"],
                subject=subject,
                name=item[subject],
                classes=tuple(item["class"]),
                reason=item["reason"],
                changes=tuple(item.get("changes", ())),
            )
        )
    return Contract(
        server=data["server"],
        shared=_lists_from_json(data),
        variants=tuple(
            Variant(where=Where(**item["where"]), lists=_lists_from_json(item)) for item in data.get("differences", ())
        ),
        axes={axis: tuple(values) for axis, values in data.get("axes", {}).items()},
        accepted=tuple(accepted),
        place=place,
        lines=lines or {},
        words=data.get("words", True),
    )


def _lists_from_json(data: Mapping[str, Any]) -> Lists:
    return Lists(
        tools=tuple(data.get("tools", ())),
        prompts=tuple(data.get("prompts", ())),
        resources=tuple(data.get("resources", ())),
    )


# --- JSON -----------------------------------------------------------------------------------------


def equal(one: Any, two: Any) -> bool:
    """Whether two JSON values are the same, at any depth: 1 is 1.0 and not true, the order of keys says nothing."""
    stack = [(one, two)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if a.keys() != b.keys():
                return False
            stack.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            return False
        elif isinstance(a, int | float) and isinstance(b, int | float):
            if a != b:
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True


def same_words(one: Any, two: Any) -> bool:
    """Whether two values are the same but for the spaces and line ends in a text."""
    if isinstance(one, str) and isinstance(two, str):
        return one.split() == two.split()
    return equal(one, two)
