"""`strict`: input schemas that leave nothing to guess, a finding for each rule and tool, off unless `[checks]` asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.findings.fields import Field, Fields, fields_of, kinds_of
from harness.findings.remark import Remark
from harness.findings.schema_walk import Node
from harness.model.catalogue import Catalogue, ToolDef

__all__ = ["check_strict"]

MAX_NAMED = 12  # parameters in a message; the evidence has all

_NUMBERS = frozenset({"integer", "number"})
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_LIST_VERBS = frozenset({"list", "search", "find", "scan", "browse"})
_LIMITS = frozenset(
    {"limit", "max", "top", "size", "pagesize", "perpage", "pagelimit", "maxresults", "maxitems", "maxcount",
     "maxkeys", "maxrows", "maxrecords", "numresults", "resultcount", "count", "first", "topk", "topn", "take", "rows"}
)  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_QUOTED = r"""["'`‘“][\w.+/ -]{1,40}["'`’”]"""
_CHOICE = re.compile(
    rf"""(?:\b(?:one\ of|either|valid\ (?:values|options)(?:\ are)?|allowed(?:\ values)?(?:\ are)?|options(?:\ are)?
      |choices(?:\ are)?|possible\ values(?:\ are)?|must\ be|can\ be|may\ be)\b\s*[:=(\[]?\s*
      {_QUOTED}(?:\s*(?:,|/|\||\bor\b|\band\b|,\s*or\b)\s*{_QUOTED})+
    | \A\s*\(?\s*{_QUOTED}(?:\s*(?:,|/|\||\bor\b|,\s*or\b)\s*{_QUOTED})+ )""",
    re.IGNORECASE | re.VERBOSE,
)


def check_strict(catalogue: Catalogue) -> Iterator[Remark]:
    """What the input schemas of a catalogue leave open."""
    for tool in catalogue.tools:
        if not isinstance(tool.input_schema, Mapping):
            continue  # validity says so
        fields = fields_of(tool.input_schema)
        yield from _open_objects(tool, fields)
        for check, kind, holds, hint in _RULES:
            found = [item for item in fields.all if not holds(item)]
            if found:
                yield _remark(tool, check, kind, [(item.name, item.first) for item in found], hint)
        yield from _descriptions(tool, fields)
        yield from _page_limit(tool, fields)


def _remark(tool: ToolDef, check: str, kind: str, found: Sequence[tuple[str, Node]], hint: str) -> Remark:
    names = [name for name, _ in found]
    shown = ", ".join(names[:MAX_NAMED]) + (f", … ({len(names)} in all)" if len(names) > MAX_NAMED else "")
    return Remark(
        check=f"strict/{check}",
        tool=tool.name,
        where="inputSchema",
        pointer=found[0][1].pointer if len(found) == 1 else None,
        kind=kind,
        message=f"{tool.name} has {kind}: {shown}; {hint}",
        evidence={"parameters": names, "pointers": [node.pointer for _, node in found]},
    )


# --- one rule for each parameter ----------------------------------------------------------------


def _has(item: Field, *keywords: str) -> bool:
    return any(node.is_object and keyword in node.schema for node in item.nodes for keyword in keywords)


def _kinds(item: Field) -> frozenset[str]:
    return frozenset(kind for node in item.nodes for kind in kinds_of(node))


def _listed(item: Field) -> bool:
    return _has(item, "enum", "const")


def _string_is_bounded(item: Field) -> bool:
    return "string" not in _kinds(item) or _listed(item) or _has(item, "maxLength", "format", "pattern")


def _number_is_bounded(item: Field) -> bool:
    return not (_kinds(item) & _NUMBERS) or _listed(item) or (_has(item, *_LOWER) and _has(item, *_UPPER))


def _array_is_bounded(item: Field) -> bool:
    return "array" not in _kinds(item) or _listed(item) or _has(item, "maxItems")


def _is_decided(item: Field) -> bool:
    """Whether it is clear what an absent one means: it must be there, or has a default, or may be null."""
    return not item.is_property or item.required or _has(item, "default") or "null" in _kinds(item)


def _choices_are_listed(item: Field) -> bool:
    if _listed(item) or "string" not in _kinds(item):
        return True
    texts = [node.get("description") for node in item.nodes]
    return not any(isinstance(text, str) and _CHOICE.search(text[:2_000]) for text in texts)


_RULES: tuple[tuple[str, str, Callable[[Field], bool], str], ...] = (
    ("required", "parameters of which nobody can tell what it means to leave them out", _is_decided,
     "list them in `required`, or give them a default"),
    ("bounded-strings", "strings without a bound", _string_is_bounded,
     "write maxLength, or enum, pattern or format"),
    ("bounded-numbers", "numbers without a bound", _number_is_bounded, "write minimum and maximum, or enum"),
    ("bounded-arrays", "arrays without a bound", _array_is_bounded, "write maxItems"),
    ("enum-in-prose", "strings whose few values only the description names", _choices_are_listed,
     "list them as enum: models and forms read that, and prose binds nobody"),
)  # fmt: skip


# --- objects, descriptions, pages ---------------------------------------------------------------


def _open_objects(tool: ToolDef, fields: Fields) -> Iterator[Remark]:
    """Objects with named parameters that take any others beside them."""
    found: list[tuple[str, Node]] = []
    groups: list[tuple[str, tuple[Node, ...]]] = [("the arguments", fields.root)]
    groups += [(item.name, item.nodes) for item in fields.all]
    for name, nodes in groups:
        if any(_closes(node) for node in nodes):
            continue
        named = [node for node in nodes if isinstance(node.get("properties"), Mapping)]
        if nodes is fields.root or named:
            found.append((name, (named or list(nodes))[0]))
    if found:
        hint = "write `additionalProperties: false`, so that a misspelt name is refused and not passed over"
        yield _remark(tool, "additional-properties", "objects that take unknown parameters", found, hint)


def _closes(node: Node) -> bool:
    if not node.is_object:
        return node.schema is False
    return node.schema.get("additionalProperties") is False or node.schema.get("unevaluatedProperties") is False


def _descriptions(tool: ToolDef, fields: Fields) -> Iterator[Remark]:
    if not _is_text(tool.definition.get("description")):
        yield Remark(
            check="strict/descriptions",
            tool=tool.name,
            kind="no description",
            message=f"{tool.name} has no description; a model knows nothing else of it than its name",
        )
    found = [
        (item.name, item.first)
        for item in fields.all
        if item.is_property and not any(_is_text(node.get("description")) for node in item.nodes)
    ]
    if found:
        yield _remark(tool, "descriptions", "parameters without a description", found, "say what they mean")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _page_limit(tool: ToolDef, fields: Fields) -> Iterator[Remark]:
    """Tools that list things, and how many at most they give at once."""
    words = [word.lower() for word in _WORDS.findall(tool.name)]
    limits = [
        item
        for item in fields.all
        if len(item.path) == 1 and "".join(_WORDS.findall(item.name)).lower() in _LIMITS and _kinds(item) & _NUMBERS
    ]
    verbs = words[:2] if words[:1] and words[0] not in _LIST_VERBS else words[:1]
    if not _LIST_VERBS & set(verbs):
        return
    open_ones = [item for item in limits if not (_listed(item) or _has(item, *_UPPER))]
    if limits and not open_ones:
        return
    if open_ones:
        hint = "write its `maximum`, or one call can bring all there is"
        found = [(item.name, item.first) for item in open_ones]
        yield _remark(tool, "page-limit", "a page limit without a maximum", found, hint)
    else:
        yield Remark(
            check="strict/page-limit",
            tool=tool.name,
            where="inputSchema",
            kind="no page limit",
            message=f"{tool.name} lists things and has no parameter that says how many; give it a limit with a maximum",
        )
