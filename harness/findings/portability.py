"""Spellings that are legal, or nearly, and that still get a tool refused or stripped by some client.

Rules about providers look at inputSchema alone: an output schema is validated, never sent to a model. Of an output
schema only that is said which loses tools: booleans, and references that nobody can follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.findings.patterns import scan
from harness.findings.portable_words import KINDS, Library, library_of
from harness.findings.remark import Remark
from harness.findings.schema_walk import REFERENCES, Node, Ref, Walk
from harness.model.catalogue import ToolDef
from harness.model.finding import Severity

__all__ = ["MAX_INLINED", "MAX_PLACES", "TYPES", "check_portability", "quote_json"]

MAX_PLACES = 50  # of one kind in one schema; the rest is counted
MAX_INLINED = 10_000  # schemas that a schema becomes where its references are written out
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_QUOTED = 120  # characters of a spelling

_TYPE_SET = frozenset(TYPES)
_CONSTRAINING = frozenset(
    {
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "format",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxContains",
        "minContains",
        "items",
        "prefixItems",
        "contains",
        "additionalItems",
        "unevaluatedItems",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "dependentSchemas",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
    }
)
_BOOLEAN_PLACES = frozenset({"additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems"})
_COMPOSITIONS = ("oneOf", "anyOf", "allOf", "not", "enum")
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas"})
_VALUE_PLACES = frozenset(
    {"properties", "items", "additionalProperties", "prefixItems", "patternProperties", "$defs", "definitions"}
)
_UNSUPPORTED = (
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "uniqueItems",
    "multipleOf",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
)
_EXCLUSIVE = ("exclusiveMinimum", "exclusiveMaximum")
_PORTABLE_FORMATS = frozenset({"date-time", "enum", "int32", "int64", "float", "double"})
_KEY_CHARACTERS = re.compile(r"[a-zA-Z0-9_.-]+")
_MAX_KEY = 64
_DEFINITIONS = ("#/$defs/", "#/definitions/")
_OLD = frozenset({"draft-03", "draft-04", "draft-06", "draft-07"})
# keywords that a dialect does not have, though it looks as if
_SINCE_2019 = frozenset(
    {"dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "minContains", "maxContains"}
)
_SINCE_06 = frozenset({"const", "contains", "propertyNames"})
_STRANGERS: Mapping[str, frozenset[str]] = {
    "draft-03": _SINCE_2019 | _SINCE_06 | {"if", "prefixItems", "allOf", "anyOf", "oneOf", "not"},
    "draft-04": _SINCE_2019 | _SINCE_06 | {"if", "prefixItems"},
    "draft-06": _SINCE_2019 | {"if", "prefixItems"},
    "draft-07": _SINCE_2019 | {"prefixItems"},
    "2019-09": frozenset({"prefixItems", "$dynamicRef", "divisibleBy", "extends", "disallow"}),
    "2020-12": frozenset({"additionalItems", "dependencies", "$recursiveRef", "divisibleBy", "extends", "disallow"}),
    "unknown": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One fault before it is put into words.

    Attributes:
        kind: Key of `KINDS`.
        node: The schema that holds it.
        keyword: Below it, what the pointer ends in; parts that are already escaped, "" for the schema itself.
        value: What is quoted.
        note: More about this one, a sentence.
        instead: A spelling for this one, instead of the kind's.
        severity: Where it is not the kind's.
    """

    kind: str
    node: Node
    keyword: str = ""
    value: Any = None
    note: str = ""
    instead: str = ""
    severity: Severity | None = None

    @property
    def pointer(self) -> str:
        """JSON pointer of the fault."""
        return self.node.pointer + (f"/{self.keyword}" if self.keyword else "")


def check_portability(tool: ToolDef, where: Literal["inputSchema", "outputSchema"], seen: Walk) -> Iterator[Remark]:
    """What some clients refuse or strip of one schema."""
    if seen.too_large:
        return  # not judged, which is said elsewhere
    hits = _of_arguments(seen) if where == "inputSchema" else _of_output(seen)
    yield from _in_words(hits, tool, where, library_of(seen.root.schema))


def _in_words(
    hits: Iterable[Hit], tool: ToolDef, where: Literal["inputSchema", "outputSchema"], library: Library
) -> Iterator[Remark]:
    groups: dict[tuple[str, Severity], list[Hit]] = {}
    for hit in hits:
        groups.setdefault((hit.kind, hit.severity or KINDS[hit.kind].severity), []).append(hit)
    for (name, severity), group in groups.items():
        kind = KINDS[name]
        shown = group
        if len(group) > MAX_PLACES:
            shown = sorted(group, key=lambda hit: hit.pointer)[:MAX_PLACES]
        for hit in shown:
            spelling = quote_json(hit.value)
            if hit.keyword and not hit.keyword.startswith(("enum/", "required/")):
                spelling = f'"{hit.keyword.rpartition("/")[2]}": {spelling}'
            pointer = hit.pointer
            legal = "Legal JSON Schema and legal MCP, but not portable. " if kind.legal else ""
            parts = (
                f"{kind.words}: {spelling} at {where}{pointer}. {legal}{kind.does}.",
                f"{hit.note}." if hit.note else "",
                f"{hit.instead or kind.instead}.",
                kind.hint(library),
            )
            yield Remark(
                check=kind.check,
                tool=tool.name or None,
                where=where,
                pointer=pointer,
                kind=kind.words,
                severity=severity,
                spelling=spelling,
                message=" ".join(part for part in parts if part),
                evidence={"clients": list(kind.clients), "instead": hit.instead or kind.instead},
            )
        if len(group) > len(shown):
            rest = len(group) - len(shown)
            yield Remark(
                check=kind.check,
                tool=tool.name or None,
                where=where,
                kind=f"{kind.words}, more of them",
                severity=severity,
                message=f"{kind.words}: {rest:,} more places of {where}, besides the {len(shown)} that are listed.",
                evidence={"clients": list(kind.clients), "more": rest},
            )


# --- what is looked at ---------------------------------------------------------------------------


def _of_output(seen: Walk) -> Iterator[Hit]:
    yield from _dialect(seen, output=True)
    for node in seen.nodes:
        yield from _boolean(node)
    yield from _references(seen, output=True)


def _of_arguments(seen: Walk) -> Iterator[Hit]:
    yield from _dialect(seen, output=False)
    yield from _root(seen)
    dialect = seen.dialect or "2020-12"
    strangers = _STRANGERS.get(dialect, frozenset())
    for node in seen.nodes:
        schema = node.schema
        if not isinstance(schema, Mapping):
            if node is not seen.root:  # of a root that is no object validity/input-schema speaks
                yield from _boolean(node)
            continue
        yield from _types(node, schema)
        keys = schema.keys()
        if not keys.isdisjoint(_WITH_RULES):
            yield from _values(node, schema)
            yield from _keywords(node, schema)
            yield from _names(seen, node, schema)
        if not keys.isdisjoint(strangers):
            yield from _ignored(node, schema, dialect, strangers, declared=bool(seen.dialect))
        if dialect in _OLD and "$ref" in schema and len(schema) > 1:
            yield from _beside_ref(node, schema, dialect)
    yield from _references(seen, output=False)


_WITH_RULES = frozenset(
    {
        "enum",
        "const",
        "format",
        "pattern",
        "default",
        "oneOf",
        "allOf",
        "properties",
        "required",
        *_UNSUPPORTED,
        *_EXCLUSIVE,
    }
)


def _root(seen: Walk) -> Iterator[Hit]:
    root, schema = seen.root, seen.root.schema
    if not isinstance(schema, Mapping):
        return  # a boolean; that is said
    stated = schema.get("type")
    if "type" in schema and not _are_types(stated):
        pass  # no schema at all, and said as such
    elif stated != "object":
        if "$ref" in schema and "type" not in schema:
            yield Hit(kind="root-ref", node=root, keyword="$ref", value=schema["$ref"])
        elif "type" in schema:
            yield Hit(kind="root-type", node=root, keyword="type", value=stated)
        else:
            yield Hit(kind="root-type", node=root, value=schema)
    elif "properties" not in schema:
        yield Hit(kind="root-properties", node=root, value=schema)
    for keyword in _COMPOSITIONS:
        if keyword in schema:
            yield Hit(kind="root-composition", node=root, keyword=keyword, value=schema[keyword])


def _are_types(stated: Any) -> bool:
    names = stated if isinstance(stated, list) else [stated]
    return bool(names) and all(isinstance(name, str) and name in _TYPE_SET for name in names)


def _boolean(node: Node) -> Iterator[Hit]:
    if isinstance(node.schema, bool) and node.keyword not in _BOOLEAN_PLACES:
        instead = ""
        if node.schema is False and node.keyword == "properties":
            instead = "Leave the property out, and say in the description what took its place"
        elif node.keyword == "items":
            instead = 'Say what is in the array: "items": {"type": "string"}, or whatever it holds'
        yield Hit(kind="boolean", node=node, value=node.schema, instead=instead)


def _types(node: Node, schema: Mapping[str, Any]) -> Iterator[Hit]:
    stated = schema.get("type")
    if isinstance(stated, list):
        if _are_types(stated):
            yield _union(node, schema, stated)
        wanted: frozenset[str] | None = frozenset(item for item in stated if isinstance(item, str))
        if not wanted or not wanted <= _TYPE_SET:
            wanted = None
    elif isinstance(stated, str):
        wanted = frozenset({stated}) if stated in _TYPE_SET else None
        if stated == "array" and "items" not in schema:
            kind = "prefix-items-alone" if "prefixItems" in schema else "array-items"
            yield Hit(kind=kind, node=node, value=schema)
    else:
        wanted = None
        if "type" not in schema:
            yield from _untyped(node, schema)
    if "items" in schema and isinstance(schema["items"], list):
        yield Hit(
            kind="tuple-items", node=node, keyword="items", value=schema["items"], instead=_one_schema(schema["items"])
        )
    if "prefixItems" in schema:
        yield Hit(kind="prefix-items", node=node, keyword="prefixItems", value=schema["prefixItems"])
    if wanted is None:
        return
    if "items" in schema and "array" not in wanted:
        yield Hit(kind="items-elsewhere", node=node, keyword="items", value=schema["items"])
    if "object" not in wanted:
        if isinstance(schema.get("properties"), Mapping):
            yield Hit(kind="properties-elsewhere", node=node, keyword="properties", value=schema["properties"])
        elif isinstance(schema.get("required"), list) and schema["required"]:
            yield Hit(kind="properties-elsewhere", node=node, keyword="required", value=schema["required"])


def _union(node: Node, schema: Mapping[str, Any], stated: list[str]) -> Hit:
    if "array" in stated and "items" not in schema:
        return Hit(kind="type-union-array", node=node, keyword="type", value=stated, severity="error")
    branches = []
    for item in dict.fromkeys(stated):
        more = {"items": schema["items"]} if item == "array" else {}
        branches.append({"type": item, **more})
    if len(branches) == 1:
        instead = f'Write "type": {quote_json(stated[0])}'
    else:
        instead = f'Write "anyOf": {quote_json(branches)}'
    return Hit(kind="type-union", node=node, keyword="type", value=stated, instead=instead)


def _one_schema(items: list[Any]) -> str:
    """The portable spelling of a tuple whose places are all alike, "" where they are not."""
    if (
        items
        and isinstance(items[0], Mapping)
        and set(items[0]) == {"type"}
        and all(item == items[0] for item in items)
    ):
        spelled = {"items": items[0], "minItems": len(items), "maxItems": len(items)}
        return f"Write one schema for all places: {quote_json(spelled)}"
    return ""


def _untyped(node: Node, schema: Mapping[str, Any]) -> Iterator[Hit]:
    constrained = not schema.keys().isdisjoint(_CONSTRAINING)
    if not constrained and not ("if" in schema and ("then" in schema or "else" in schema)):
        if node.keyword != "not":
            kind = "untyped-additional" if node.keyword == "additionalProperties" and not schema else "untyped"
            yield Hit(kind=kind, node=node, value=schema)
        return
    if any(keyword in schema for keyword in ("$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "allOf")):
        return
    branch = node.keyword in ("anyOf", "oneOf") and node.parent is not None and "type" not in node.parent.schema
    if node.keyword in _VALUE_PLACES or branch:
        yield Hit(kind="missing-type", node=node, value=schema, instead=_typed(schema))


def _typed(schema: Mapping[str, Any]) -> str:
    for type_, keywords in _TELLS:
        if not schema.keys().isdisjoint(keywords):
            return f'Write "type": "{type_}" beside the other keywords'
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(item, str) for item in values):
        return 'Write "type": "string" beside the other keywords'
    return ""


_TELLS = (
    (
        "object",
        frozenset(
            {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}
        ),
    ),
    ("array", frozenset({"items", "minItems", "maxItems", "uniqueItems", "prefixItems", "contains"})),
    ("string", frozenset({"minLength", "maxLength", "pattern", "format"})),
    ("number", frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})),
)


def _values(node: Node, schema: Mapping[str, Any]) -> Iterator[Hit]:
    stated = schema.get("type")
    values = schema.get("enum")
    if isinstance(values, list) and "enum" in schema:
        yield from _enum(node, stated, values)
    if "const" in schema:
        value = schema["const"]
        yield Hit(kind="const", node=node, keyword="const", value=value, instead=_instead_of_const(value))
    form = schema.get("format")
    of_strings = stated is None or stated == "string" or (isinstance(stated, list) and "string" in stated)
    if of_strings and isinstance(form, str) and form not in _PORTABLE_FORMATS:
        yield Hit(kind="format", node=node, keyword="format", value=form)
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        yield from _pattern(node, pattern)
    if "default" in schema:
        yield from _default(node, schema, stated)


def _enum(node: Node, stated: Any, values: list[Any]) -> Iterator[Hit]:
    if not values:
        yield Hit(kind="enum-empty", node=node, keyword="enum", value=values)
        return
    others = [value for value in values if not isinstance(value, str)]
    if others and all(value is None for value in others) and len(others) < len(values):
        yield Hit(kind="enum-null", node=node, keyword="enum", value=values)
    elif others:
        yield Hit(kind="enum-not-strings", node=node, keyword="enum", value=values, instead=_instead_of_numbers(values))
    elif isinstance(stated, str) and stated in _TYPE_SET and stated != "string":
        yield Hit(kind="enum-type", node=node, keyword="enum", value=values)
    seen: set[tuple[str, Any]] = set()
    twice = False
    for index, value in enumerate(values):
        if value == "" and isinstance(value, str):
            yield Hit(kind="enum-empty-string", node=node, keyword=f"enum/{index}", value="")
        if isinstance(value, str | int | float | None):
            identity = ("b" if isinstance(value, bool) else "s" if isinstance(value, str) else "n", value)
            twice = twice or identity in seen
            seen.add(identity)
    if twice:
        yield Hit(kind="enum-twice", node=node, keyword="enum", value=values)


def _instead_of_numbers(values: list[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return 'Write {"type": "boolean"}, and say in the description which value is meant'
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values) and all(isinstance(value, int) for value in numbers):
        low, high = min(numbers), max(numbers)
        strings = quote_json([str(value) for value in values])
        if len(set(numbers)) == high - low + 1:
            return f'Write "minimum": {low}, "maximum": {high}'
        as_strings = f'{{"type": "string", "enum": {strings}}}'
        return f'Write "minimum": {low}, "maximum": {high}, or {as_strings} that the tool converts'
    return ""


def _instead_of_const(value: Any) -> str:
    if isinstance(value, str):
        return f'Write {{"type": "string", "enum": [{quote_json(value)}]}}'
    if value is None:
        return 'Write {"type": "null"}'
    if isinstance(value, bool):
        return 'Write {"type": "boolean"}, and say in the description which value is meant'
    if isinstance(value, int | float):
        return f'Write "minimum": {quote_json(value)}, "maximum": {quote_json(value)}'
    return "Say it in the description and check in the tool"


def _pattern(node: Node, pattern: str) -> Iterator[Hit]:
    facts = scan(pattern)
    if facts.broken and not facts.foreign:
        return  # that is said as an invalid schema
    if facts.looking:
        note = f"Here: {facts.looking}, {facts.looking_is}"
        yield Hit(kind="pattern-looking", node=node, keyword="pattern", value=pattern, note=note)
    if facts.back:
        yield Hit(kind="pattern-back", node=node, keyword="pattern", value=pattern, note=f"Here: {facts.back}")
    if facts.foreign:
        note = f"Here: {facts.foreign}, {facts.foreign_is}"
        yield Hit(kind="pattern-foreign", node=node, keyword="pattern", value=pattern, note=note)
    elif facts.loose:
        note = f"Here: {facts.loose}, {facts.loose_is}"
        yield Hit(kind="pattern-loose", node=node, keyword="pattern", value=pattern, note=note)
    if facts.unicode:
        yield Hit(kind="pattern-unicode", node=node, keyword="pattern", value=pattern, note=f"Here: {facts.unicode}")
    if not facts.anchored:
        yield Hit(kind="pattern-anchors", node=node, keyword="pattern", value=pattern)


def _default(node: Node, schema: Mapping[str, Any], stated: Any) -> Iterator[Hit]:
    value = schema["default"]
    if isinstance(stated, str):
        allowed = [stated]
    elif isinstance(stated, list):
        allowed = [item for item in stated if isinstance(item, str)]
    else:
        branches = schema.get("anyOf")
        if not isinstance(branches, list) or not branches:
            return
        allowed = []
        for branch in branches:
            one = branch.get("type") if isinstance(branch, Mapping) else None
            if not isinstance(one, str):
                return
            allowed.append(one)
    if not allowed or not _TYPE_SET.issuperset(allowed):
        return
    values = schema.get("enum")
    wrong = not any(_is(value, one) for one in allowed)
    if not wrong and isinstance(values, list) and isinstance(value, str):
        wrong = value not in [item for item in values if isinstance(item, str)]
    if wrong:
        yield Hit(kind="default-type", node=node, keyword="default", value=value)


def _is(value: Any, type_: str) -> bool:
    """Whether a JSON value is of a type of JSON Schema's."""
    match type_:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
        case "integer":
            whole = isinstance(value, float) and value.is_integer()
            return (isinstance(value, int) and not isinstance(value, bool)) or whole
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _keywords(node: Node, schema: Mapping[str, Any]) -> Iterator[Hit]:
    below = node.parent is not None
    if below and "oneOf" in schema:
        yield Hit(kind="one-of", node=node, keyword="oneOf", value=schema["oneOf"])
    if below and "allOf" in schema:
        yield Hit(kind="all-of", node=node, keyword="allOf", value=schema["allOf"])
    for keyword in _UNSUPPORTED:
        if keyword in schema and (below or keyword != "not") and not (keyword in ("then", "else") and "if" in schema):
            if keyword == "uniqueItems" and schema[keyword] is False:
                continue
            yield Hit(
                kind="keyword", node=node, keyword=keyword, value=schema[keyword], instead=_INSTEAD.get(keyword, "")
            )
    for keyword in _EXCLUSIVE:
        value = schema.get(keyword)
        if isinstance(value, int | float) and not isinstance(value, bool):
            bound = "minimum" if keyword == "exclusiveMinimum" else "maximum"
            instead = ""
            if schema.get("type") == "integer" and isinstance(value, int):
                instead = f'Write "{bound}": {value + 1 if bound == "minimum" else value - 1}'
            yield Hit(kind="exclusive-bound", node=node, keyword=keyword, value=value, instead=instead)


_INSTEAD = {
    "patternProperties": 'Write "additionalProperties" with the schema of the values, and say in the description '
    "what the names are like",
    "propertyNames": "Say in the description what the names are like, and check in the tool",
    "not": "Say what is allowed instead of what is not, or check in the tool",
    "if": "Say in the description what hangs on what, and check in the tool",
    "multipleOf": 'Write "type": "integer" for whole numbers, else say it in the description',
    "unevaluatedProperties": 'Write "additionalProperties": false',
}


def _names(seen: Walk, node: Node, schema: Mapping[str, Any]) -> Iterator[Hit]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for key, value in properties.items():
            if len(key) <= _MAX_KEY and _KEY_CHARACTERS.fullmatch(key):
                continue
            kind = "key-empty" if not key else "key-characters" if not _KEY_CHARACTERS.fullmatch(key) else "key-length"
            note = ""
            if kind == "key-characters":
                odd = next(char for char in key if not _KEY_CHARACTERS.fullmatch(char))
                note = f"The first other character is {odd!r}"
            elif kind == "key-length":
                note = f"It has {len(key)}"
            pointer = f"properties/{key.replace('~', '~0').replace('/', '~1')}"
            yield Hit(kind=kind, node=node, keyword=pointer, value=value, note=note)
    required = schema.get("required")
    if isinstance(required, list) and required and node.keyword not in ("not", "if"):
        stated = schema.get("type")
        if stated is None or stated == "object" or (isinstance(stated, list) and "object" in stated):
            known: set[str] | None = None
            for index, name in enumerate(required):
                if not isinstance(name, str) or (isinstance(properties, Mapping) and name in properties):
                    continue
                known = _known_properties(seen, node) if known is None else known
                if name not in known:
                    yield Hit(kind="required-unknown", node=node, keyword=f"required/{index}", value=name)


def _known_properties(seen: Walk, node: Node) -> set[str]:
    """The names that are described where a schema applies: around it, in its branches, behind its reference."""
    known: set[str] = set()
    around: Node | None = node
    while around is not None:
        for other in (around, seen.follow(around)):
            schema = other.schema
            if not isinstance(schema, Mapping):
                continue
            known.update(_keys(schema.get("properties")))
            for keyword in ("allOf", "anyOf", "oneOf"):
                branches = schema.get(keyword)
                for branch in branches if isinstance(branches, list) else ():
                    known.update(_keys(branch.get("properties") if isinstance(branch, Mapping) else None))
        around = around.parent if around.keyword in _IN_PLACE else None
    return known


def _keys(value: Any) -> Iterable[str]:
    return value.keys() if isinstance(value, Mapping) else ()


# --- references and dialects ---------------------------------------------------------------------


def _references(seen: Walk, *, output: bool) -> Iterator[Hit]:
    if not seen.refs:
        return
    for ref in seen.refs:
        hit = _reference(seen, ref, output=output)
        if hit is not None:
            yield hit
        if ref.keyword == "$ref" and isinstance(ref.value, str) and ref.value and not ref.value.startswith("#"):
            note = (
                ""
                if ref.target is None
                else "This document holds a schema of that identifier, which few clients look for"
            )
            yield Hit(kind="remote", node=ref.node, keyword=ref.keyword, value=ref.value, note=note)
    if not output:
        size = seen.inlined_sizes(100 * MAX_INLINED)[0]
        if size > MAX_INLINED:
            many = "more than " if size >= 100 * MAX_INLINED else ""
            note = f"Here {len(seen.nodes):,} schemas become {many}{size:,}"
            yield Hit(kind="expansion", node=seen.root, value=seen.root.schema, note=note)


def _reference(seen: Walk, ref: Ref, *, output: bool) -> Hit | None:
    def hit(kind: str, note: str = "", instead: str = "") -> Hit:
        return Hit(kind=kind, node=ref.node, keyword=ref.keyword, value=ref.value, note=note, instead=instead)

    if ref.status == "dangling":
        return hit("dangling", f"There is nothing at {ref.value[:200]}")
    if ref.status != "local" or ref.target is None:
        return None
    if ref.endless:
        return hit("endless")
    if ref.recursive:
        return hit("recursive-output" if output else "recursive", f"Its target, {ref.value[:200]}, leads back to it")
    bare_root = ref.node.parent is None and "type" not in ref.node.schema  # that is said of the root
    if output or bare_root or not ref.value.startswith("#"):
        return None
    if ref.value.startswith(_DEFINITIONS):
        target = seen.follow(ref.node)
        small = isinstance(target.schema, Mapping) and len(target.schema) <= 3
        spelled = quote_json(target.schema) if small else ""
        return hit("local-ref", instead=f"Write {spelled} in its place" if spelled and "…" not in spelled else "")
    return hit("ref-elsewhere")


def _dialect(seen: Walk, *, output: bool) -> Iterator[Hit]:
    if seen.dialect == "unknown":
        yield Hit(
            kind="dialect-unknown",
            node=seen.root,
            keyword="$schema",
            value=seen.root.get("$schema"),
            severity="error" if output else "warning",
        )


def _ignored(
    node: Node, schema: Mapping[str, Any], dialect: str, strangers: frozenset[str], *, declared: bool
) -> Iterator[Hit]:
    for keyword in sorted(strangers & schema.keys()):
        if keyword == "additionalItems" and isinstance(schema.get("items"), list):
            continue  # a tuple of draft-07: that is said
        note = f"The schema is read as {dialect}" + ("" if declared else ", as it declares no other")
        instead = _MODERN.get(keyword, "") if dialect == "2020-12" else ""
        yield Hit(kind="dialect-ignored", node=node, keyword=keyword, value=schema[keyword], note=note, instead=instead)


_MODERN = {
    "additionalItems": 'Write "items"',
    "dependencies": 'Write "dependentRequired" or "dependentSchemas"; better, check in the tool',
    "$recursiveRef": 'Write "$ref"',
    "divisibleBy": 'Write "multipleOf"',
    "extends": "Write what it extends in its place",
    "disallow": "Say what is allowed instead",
}


def _beside_ref(node: Node, schema: Mapping[str, Any], dialect: str) -> Iterator[Hit]:
    beside = sorted(key for key in schema if key in _CONSTRAINING and key not in REFERENCES)
    if beside and isinstance(schema["$ref"], str):
        note = f"In {dialect} everything beside $ref is ignored, here {', '.join(beside[:5])}"
        instead = "Write what the reference leads to in its place, together with the other keywords"
        yield Hit(
            kind="dialect-ignored", node=node, keyword=beside[0], value=schema[beside[0]], note=note, instead=instead
        )


# --- quoting --------------------------------------------------------------------------------------


def quote_json(value: Any, limit: int = _QUOTED) -> str:
    """Compact JSON, cut after so many characters; costs no more than what is shown."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "), check_circular=False)
    if isinstance(value, str):
        text = encoder.encode(value[: limit + 1])
    else:
        parts: list[str] = []
        length = 0
        for part in encoder.iterencode(value):
            parts.append(part[: limit + 1])
            length += len(part)
            if length > limit:
                break
        text = "".join(parts)
    return text if len(text) <= limit else text[:limit] + "…"
