"""Whether a schema is one: the meta-schema of the dialect in force, bounds that are said, patterns that can be read.

Which dialect is in force: what `$schema` declares; without it JSON Schema 2020-12, which MCP says since 2025-11-25.
Revisions before, and lists of which nobody knows the revision, are read leniently: what draft-07 allows is a warning
there. The meta-schemas come with `jsonschema`; nothing is fetched. A keyword whose value has a shape that every dialect
has is not put to it at all, so a list of ten thousand sound tools costs a walk and no validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from harness.findings.frames import TOO_DEEP
from harness.findings.ledger import listing_of
from harness.findings.patterns import scan
from harness.findings.portability import TYPES, quote_json
from harness.findings.remark import Remark
from harness.findings.schema_walk import (
    LISTS,
    MAPS,
    MAX_LEVELS,
    MAX_NESTING,
    REFERENCES,
    SINGLES,
    Node,
    Walk,
    escape,
)
from harness.findings.seen import Seen
from harness.findings.steps import RunView
from harness.model.catalogue import Catalogue, ToolDef

__all__ = ["DEFAULT_SINCE", "MAX_VIOLATIONS", "Where", "check_validity", "is_strict", "no_schema", "see_unread_list"]

DEFAULT_SINCE = "2025-11-25"  # the first revision that says which dialect a schema without `$schema` is
MAX_VIOLATIONS = 50  # that are listed of one schema
_MAX_SUSPECTS = 200  # schemas that are put to the meta-schema
_CLASSES = {
    "draft-03": "Draft3Validator",
    "draft-04": "Draft4Validator",
    "draft-06": "Draft6Validator",
    "draft-07": "Draft7Validator",
    "2019-09": "Draft201909Validator",
    "2020-12": "Draft202012Validator",
}
_CLIENTS = ["anthropic-api", "openai-api", "openai-compatible", "ajv", "mcp-typescript-sdk"]
_MEANT = {
    "int": "integer",
    "long": "integer",
    "uint": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "str": "string",
    "text": "string",
    "date": "string",
    "datetime": "string",
    "file": "string",
    "uuid": "string",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "hash": "object",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "none": "null",
    "nil": "null",
    "undefined": "null",
}

Where = Literal["inputSchema", "outputSchema"]
Wrong = tuple[str, Any, str]  # pointer below the schema, what stands there, what should


def is_strict(catalogue: Catalogue) -> bool:
    """Whether the revision in force says which dialect a schema without `$schema` is."""
    return catalogue.era == "modern" or catalogue.protocol >= DEFAULT_SINCE


def check_validity(tool: ToolDef, where: Where, seen: Walk, *, strict: bool) -> Iterator[Remark]:
    """What of one schema is no schema, or more than anybody can read."""
    if not isinstance(seen.root.schema, Mapping):
        if where == "inputSchema":
            yield no_schema(tool)
        return  # the root of an output schema is another check's
    if seen.nesting > MAX_NESTING:
        yield _too_deep(tool, where, f"more than {MAX_NESTING} levels of JSON")
    elif seen.too_deep is not None:
        yield _too_deep(tool, where, f"more than {MAX_LEVELS} schemas inside one another")
    if seen.too_large:
        yield _too_large(tool, where, seen.too_large)
        return
    yield from _check_patterns(tool, where, seen)
    if where == "inputSchema" and seen.dialect != "unknown":  # a broken output schema is another check's
        yield from _check_meta(tool, where, seen, strict=strict)


def no_schema(tool: ToolDef) -> Remark:
    """The remark on a tool whose input schema is absent, or no object."""
    present = "inputSchema" in tool.definition
    value = tool.definition.get("inputSchema")
    said = f"inputSchema is {quote_json(value)}" if present else "there is no inputSchema"
    return Remark(
        check="validity/input-schema",
        tool=tool.name or None,
        where="inputSchema",
        pointer="",
        kind="a tool without an input schema",
        spelling=quote_json(value) if present else "",
        message=(
            f"a tool without an input schema: {said}. Every revision of MCP asks for an object there; the "
            f"official SDKs "
            'lose the tool or the whole list. Write {"type": "object", "properties": {}} for a tool without '
            "arguments."
        ),
        evidence={"clients": ["mcp-typescript-sdk", "mcp-python-sdk"]},
    )


def _too_deep(tool: ToolDef, where: Where, how: str) -> Remark:
    return Remark(
        check="validity/too-deep",
        tool=tool.name or None,
        where=where,
        pointer="",
        kind="a schema that is nested too deeply",
        message=(
            f"a schema that is nested too deeply: {where} has {how}. What lies deeper than {MAX_LEVELS} schemas "
            f"was not "
            "looked at. No provider takes such a schema, and many parsers give up on it. Take a flat list with a "
            "parent's "
            "id in each item, or a string that holds JSON."
        ),
        evidence={"limit": MAX_LEVELS},
    )


def _too_large(tool: ToolDef, where: Where, how: str) -> Remark:
    return Remark(
        check="validity/too-large",
        tool=tool.name or None,
        where=where,
        pointer="",
        kind="a schema that is too large",
        message=(
            f"a schema that is too large: {where} has {how}, and was not judged. No model's context takes it. Describe "
            "the arguments that a model fills in, and no more."
        ),
        evidence={"limit": how},
    )


def see_unread_list(view: RunView) -> Iterator[Seen]:
    """An answer to tools/list that is nested too deeply to be read: what its tools are, nobody can tell."""
    listing = listing_of(view, "tools/list")
    if listing.blamed == TOO_DEEP:
        yield Seen(
            check="validity/too-deep",
            run=view.run.key,
            key="tools/list",
            message=(
                "the answer to tools/list is nested too deeply to be read, so that none of its tools is "
                "judged. No client "
                "takes such a list. Look for a schema that holds itself and was written out."
            ),
        )


# --- patterns -------------------------------------------------------------------------------------


def _check_patterns(tool: ToolDef, where: Where, seen: Walk) -> Iterator[Remark]:
    for node in seen.nodes:
        if not isinstance(node.schema, Mapping):
            continue
        for pointer, pattern in _patterns_of(node):
            facts = scan(pattern)
            if facts.broken and not facts.foreign:
                yield Remark(
                    check="validity/pattern",
                    tool=tool.name or None,
                    where=where,
                    pointer=node.pointer + pointer,
                    kind="a pattern that no engine reads",
                    spelling=quote_json(pattern),
                    message=(
                        f"a pattern that no engine reads: {quote_json(pattern)} at {where}{node.pointer}{pointer}: "
                        f"{facts.broken}. JSON Schema means ECMA-262 expressions; validators refuse the schema, "
                        f"or the "
                        "first value. Escape what is meant literally with a backslash."
                    ),
                    evidence={"clients": ["ajv", "mcp-typescript-sdk", "mcp-python-sdk", "openai-api"]},
                )


def _patterns_of(node: Node) -> Iterator[tuple[str, str]]:
    pattern = node.schema.get("pattern")
    if isinstance(pattern, str):
        yield "/pattern", pattern
    by_pattern = node.schema.get("patternProperties")
    if isinstance(by_pattern, Mapping):
        for key in by_pattern:
            yield f"/patternProperties/{escape(key)}", key


# --- meta-schemas ---------------------------------------------------------------------------------


def _check_meta(tool: ToolDef, where: Where, seen: Walk, *, strict: bool) -> Iterator[Remark]:
    dialect = seen.dialect or "2020-12"
    suspects = [node for node in seen.nodes if not _is_plain(node, dialect)]
    listed = 0
    for number, node in enumerate(suspects):
        if number >= _MAX_SUSPECTS or listed >= MAX_VIOLATIONS:
            yield _more(tool, where, len(suspects) - number)
            return
        for pointer, value, wanted in _violations(node, dialect):
            listed += 1
            lenient = not strict and not seen.dialect and not _breaks(node, "draft-07", pointer)
            yield _invalid(tool, where, node.pointer + pointer, value, wanted, dialect, seen.dialect, lenient=lenient)
        if seen.dialect not in ("", "2020-12") and where == "inputSchema":
            for pointer, value, wanted in _violations(node, "2020-12"):
                if pointer != "/items" and not _breaks(node, dialect, pointer):  # a tuple has a rule of its own
                    listed += 1
                    yield _old_spelling(tool, node.pointer + pointer, value, wanted, seen.dialect)


def _invalid(
    tool: ToolDef,
    where: Where,
    pointer: str,
    value: Any,
    wanted: str,
    dialect: str,
    declared: str,
    *,
    lenient: bool,
) -> Remark:
    last = pointer.rpartition("/")[2]
    spelling = quote_json(value) if last.isdigit() or not last else f'"{last}": {quote_json(value)}'
    if declared:
        by = f"JSON Schema {dialect}, which it declares"
    elif lenient:
        by = (
            f"JSON Schema 2020-12; draft-07 allows it, and nothing here says which of the two is meant (MCP says "
            f"2020-12 "
            f'since {DEFAULT_SINCE}). Where draft-07 is meant, declare it: "$schema": '
            '"http://json-schema.org/draft-07/schema#"'
        )
    else:
        by = "JSON Schema 2020-12, which is in force without `$schema`"
    return Remark(
        check="validity/schema",
        tool=tool.name or None,
        where=where,
        pointer=pointer,
        kind="not a valid schema",
        severity="warning" if lenient else "error",
        spelling=spelling,
        message=(
            f"not a valid schema: {spelling} at {where}{pointer}: {wanted}. It breaks {by}. Providers refuse the "
            f"tool, and "
            "often the whole list."
        ),
        evidence={"clients": _CLIENTS, "dialect": dialect, "instead": wanted},
    )


def _old_spelling(tool: ToolDef, pointer: str, value: Any, wanted: str, dialect: str) -> Remark:
    last = pointer.rpartition("/")[2]
    spelling = f'"{last}": {quote_json(value)}'
    return Remark(
        check="portability/dialect",
        tool=tool.name or None,
        where="inputSchema",
        pointer=pointer,
        kind="a spelling of an old draft",
        severity="error",
        spelling=spelling,
        message=(
            f"a spelling of an old draft: {spelling} at inputSchema{pointer}. It is valid in {dialect}, which "
            f"the schema "
            f"declares, but not portable: providers read 2020-12, where it is no schema, and refuse the tool. In "
            f"2020-12: "
            f"{wanted}."
        ),
        evidence={"clients": ["anthropic-api", "openai-api"], "dialect": dialect},
    )


def _more(tool: ToolDef, where: Where, rest: int) -> Remark:
    return Remark(
        check="validity/schema",
        tool=tool.name or None,
        where=where,
        kind="not a valid schema, more of them",
        message=f"not a valid schema: {rest:,} more schemas of {where} look invalid, besides those that are listed.",
        evidence={"more": rest},
    )


@cache
def _meta(dialect: str) -> Any:
    """The validator of a dialect's meta-schema, which fetches nothing."""
    import jsonschema
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    made = getattr(jsonschema, _CLASSES[dialect])
    return made(made.META_SCHEMA, registry=REGISTRY)


def _violations(node: Node, dialect: str) -> list[Wrong]:
    """What breaks the meta-schema of a dialect in one schema, its subschemas left aside; sorted, once a place."""
    schema = node.schema
    if isinstance(schema, bool):
        return [("", schema, "a schema is an object in this dialect")] if dialect in _WITHOUT_BOOLEANS else []
    if not isinstance(schema, Mapping):
        return [("", schema, "a schema is an object or a boolean")]
    shallow = _shallow(schema)
    found: dict[str, Wrong] = {}
    for error in _meta(dialect).iter_errors(shallow):
        path = list(error.absolute_path)
        keyword = path[0] if path else ""
        if keyword in SINGLES and not isinstance(schema[keyword], list):
            continue  # a subschema: it has a turn of its own
        ours = list(_faults(keyword, schema[keyword])) if keyword in schema else []
        pointer = "".join(f"/{escape(str(part))}" for part in path)
        for wrong in ours or [(pointer, _at(shallow, path), _cut(error.message))]:
            found.setdefault(wrong[0], wrong)
    return [found[key] for key in sorted(found)]


def _breaks(node: Node, dialect: str, pointer: str) -> bool:
    return any(place == pointer for place, _, _ in _violations(node, dialect))


def _at(value: Any, path: list[Any]) -> Any:
    for part in path:
        value = value[part]
    return value


def _cut(text: str) -> str:
    return text if len(text) <= 160 else text[:160] + "…"


def _faults(keyword: str, value: Any) -> Iterator[Wrong]:
    """The same in our words, and nearer to the place, for what people get wrong."""
    if keyword == "type":
        items = list(enumerate(value)) if isinstance(value, list) else [(-1, value)]
        for index, item in items:
            if not isinstance(item, str) or item not in TYPES:
                yield ("/type" if index < 0 else f"/type/{index}"), item, _instead_of_type(item)
    elif keyword == "items" and isinstance(value, list):
        yield "/items", value, "`items` is one schema; a list of them is the tuple of draft-07 (2020-12: `prefixItems`)"
    elif keyword == "required" and isinstance(value, bool):
        yield "/required", value, "`required` is a list of names, and stands in the object that has the properties"
    elif keyword in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        yield f"/{keyword}", value, f"`{keyword}` is a number, the bound itself; a boolean is how draft-04 had it"
    elif keyword in _SHAPES and not _SHAPES[keyword][0](value):
        yield f"/{keyword}", value, f"`{keyword}` has to be {_SHAPES[keyword][1]}"


def _instead_of_type(item: Any) -> str:
    if not isinstance(item, str):
        return "a type is one of " + ", ".join(TYPES)
    if item.endswith("[]") and item[:-2] in TYPES:
        return f'write {{"type": "array", "items": {{"type": "{item[:-2]}"}}}}'
    if item.lower() in ("any", "mixed", "object|string", ""):
        return 'there is no such type; write "anyOf" of the types that are taken'
    near = _MEANT.get(item.lower()) or next(iter(get_close_matches(item.lower(), TYPES, n=1, cutoff=0.6)), "")
    return f'write "type": "{near}"' if near else "a type is one of " + ", ".join(TYPES)


def _shallow(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a schema without its subschemas, which are judged by themselves, and without long data."""
    out: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword not in _KNOWN:
            continue
        if keyword == "dependencies" and isinstance(value, Mapping):
            out[keyword] = {key: _clip(item) for key, item in value.items() if not isinstance(item, Mapping | bool)}
        elif keyword in MAPS and isinstance(value, Mapping):
            out[keyword] = {}
        elif keyword in LISTS or keyword == "items":
            out[keyword] = {} if isinstance(value, Mapping) else [{}] if isinstance(value, list) and value else value
        elif keyword in SINGLES:
            out[keyword] = {} if isinstance(value, Mapping) else _clip(value)
        else:
            out[keyword] = _clip(value)
    return out


def _clip(value: Any, depth: int = 4) -> Any:
    """A JSON value with its deep and its long parts left out."""
    if isinstance(value, Mapping):
        if depth == 0:
            return {}
        return {key: _clip(item, depth - 1) for key, item in list(value.items())[:_MAX_ITEMS]}
    if isinstance(value, list):
        return [_clip(item, depth - 1) for item in value[:_MAX_ITEMS]] if depth else []
    return value


_MAX_ITEMS = 1_000


# --- shapes that every dialect has ----------------------------------------------------------------

_WITHOUT_BOOLEANS = frozenset({"draft-03", "draft-04"})


def _is_plain(node: Node, dialect: str) -> bool:
    """Whether it is plain that every dialect but the oldest takes a schema; if not, the meta-schema is asked."""
    schema = node.schema
    if dialect in _WITHOUT_BOOLEANS:
        return False
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    for keyword, value in schema.items():
        shape = _SHAPES.get(keyword)
        if shape is not None:
            if not shape[0](value):
                return False
        elif keyword in _KNOWN and not _is_plain_position(keyword, value):
            return False
    return True


def _is_plain_position(keyword: str, value: Any) -> bool:
    if keyword in SINGLES:
        return not isinstance(value, list)  # what is no schema is a node of its own, and not plain
    if keyword in LISTS:
        return isinstance(value, list) and bool(value)
    return keyword in MAPS and keyword != "dependencies" and isinstance(value, Mapping)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _values(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _type(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _names(value) and bool(value) and all(item in TYPES for item in value)


def _local(value: Any) -> bool:
    return isinstance(value, str) and "#" not in value


_COUNT = (_count, "a whole number from 0")
_TEXT = (_text, "a text")
_FLAG = (_flag, "true or false")
_NUMBER = (_number, "a number")
_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "$comment": _TEXT,
    "$id": (_local, "a URI reference without a fragment"),
    "$ref": _TEXT,
    "$schema": _TEXT,
    "contentEncoding": _TEXT,
    "contentMediaType": _TEXT,
    "deprecated": _FLAG,
    "description": _TEXT,
    "enum": (_values, "a list of different values"),
    "examples": (_list, "a list"),
    "exclusiveMaximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "format": _TEXT,
    "maxContains": _COUNT,
    "maxItems": _COUNT,
    "maxLength": _COUNT,
    "maxProperties": _COUNT,
    "maximum": _NUMBER,
    "minContains": _COUNT,
    "minItems": _COUNT,
    "minLength": _COUNT,
    "minProperties": _COUNT,
    "minimum": _NUMBER,
    "multipleOf": (_positive, "a number above 0"),
    "pattern": _TEXT,
    "readOnly": _FLAG,
    "required": (_names, "a list of different property names"),
    "title": _TEXT,
    "type": (_type, "one of " + ", ".join(TYPES) + ", or a list of different ones"),
    "uniqueItems": _FLAG,
    "writeOnly": _FLAG,
}
_KNOWN = (
    frozenset(_SHAPES)
    | MAPS
    | LISTS
    | SINGLES
    | frozenset(REFERENCES)
    | frozenset(
        {"$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "dependentRequired"}
        | {"disallow", "divisibleBy", "extends", "id"}
    )
)
