"""A JSON Schema taken apart, level by level, into alternatives of one type each, for `contract_schema` to compare.

`anyOf`, `oneOf`, type lists, `const`, `enum`, `allOf` and local `$ref`s all come to that. What is not understood here
is opaque, and says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.model.contract import ABSENT

__all__ = [
    "MAX_ALTERNATIVES",
    "MAX_STEPS",
    "WORDS",
    "Node",
    "Opaque",
    "Part",
    "Place",
    "Shape",
    "Side",
    "Spend",
    "TooMuch",
    "is_of",
    "item_at",
    "join",
    "loaded",
    "marks",
    "never",
    "plain",
    "tighter",
    "without_words",
]

MAX_STEPS = 200_000
MAX_ALTERNATIVES = 64
MAX_NESTED = 40  # combinations (`$ref`, `allOf`, `anyOf`) around one level
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ALL_TYPES = ("null", "boolean", "number", "string", "array", "object")
WORDS = ("title", "description", "examples", "deprecated", "readOnly", "writeOnly")
# Keywords that only take away, whatever stands beside them; those of one entry are read together.
_TAKES_AWAY = {
    "array": (("contains", "minContains", "maxContains"), ("unevaluatedItems",)),
    "object": (("dependentRequired",), ("dependentSchemas",), ("dependencies",), ("propertyNames",),
               ("unevaluatedProperties",)),
    "": (("not",), ("if", "then", "else")),
}  # fmt: skip
_HINTS = ("format", "contentEncoding", "contentMediaType")  # which one validator asserts and the next does not
_NAMES_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_EVALUATES = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies")
_BOUNDS = {
    "string": (("minLength", "maxLength"),),
    "array": (("minItems", "maxItems"),),
    "object": (("minProperties", "maxProperties"),),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A schema, known by where it stands: comparing two of them never looks into them."""

    schema: Any = field(compare=False)
    pointer: str

    def __iter__(self) -> Iterator[Any]:
        yield self.schema
        yield self.pointer


Place = tuple[Part, ...]  # schemas that hold at once


class TooMuch(Exception):
    """The comparison would take too long."""


class Opaque(Exception):
    """What stands here is beyond this comparison; the message says why."""


@dataclass(slots=True, kw_only=True)
class Shape:
    """One alternative: a type and what is asked of its values. Children are places, looked at when it is their turn."""

    type: str
    pointer: str
    words: dict[str, Any] = field(default_factory=dict)
    enum: dict[str, Any] | None = None
    low: tuple[float, bool] | None = None  # of numbers: bound and whether it is left out itself
    high: tuple[float, bool] | None = None
    bounds: dict[str, float] = field(default_factory=dict)
    sets: dict[str, frozenset[str]] = field(default_factory=dict)  # pattern, multipleOf: all of these hold
    hints: dict[str, str] = field(default_factory=dict)
    unique: bool = False
    opaque: dict[str, str] = field(default_factory=dict)
    prefix: tuple[Place, ...] = ()
    rest: Place = ()  # (): anything
    properties: dict[str, Place] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    extra: Place = ()
    patterns: dict[str, Place] = field(default_factory=dict)

    @property
    def free(self) -> bool:
        """Whether every value of the type passes."""
        return self == Shape(type=self.type, pointer=self.pointer, words=self.words)

    @property
    def only_enum(self) -> bool:
        """Whether nothing but an `enum` or `const` is asked."""
        return self.enum is not None and self == Shape(
            type=self.type, pointer=self.pointer, words=self.words, enum=self.enum
        )

    @property
    def closed(self) -> bool:
        """Whether properties that are not named are refused."""
        return never(self.extra)


def never(place: Place) -> bool:
    return any(schema is False for schema, _ in place)


def _anything(place: Place) -> bool:
    return all(schema is True or schema == {} for schema, _ in place)


@dataclass(slots=True, kw_only=True)
class Node:
    """A place, taken apart."""

    shapes: list[Shape]
    words: dict[str, Any]
    default: Any


class Side:
    """One of the two schemas."""

    def __init__(self, root: Any, spend: Spend) -> None:
        self._root, self._spend = root, spend
        self._anchors: dict[str, tuple[Any, str]] | None = None
        self._known: dict[tuple[str, ...], Node] = {}
        self._targets: dict[str, list[Shape]] = {}

    def node(self, place: Place) -> Node:
        """What a place lets through.

        Raises:
            Opaque: It is none of what is understood here.
        """
        key = tuple(pointer if not isinstance(schema, bool) else f"{pointer} {schema}" for schema, pointer in place)
        if key not in self._known:
            self._known[key] = self._node(place)
        return self._known[key]

    def _node(self, place: Place) -> Node:
        shapes: list[Shape] | None = None
        words: dict[str, Any] = {}
        default: Any = ABSENT
        for schema, pointer in place:
            mine = self._shapes(schema, pointer, (), 0)
            shapes = mine if shapes is None else self._both(shapes, mine)
            for source in self._sources(schema):
                for key in WORDS:
                    if key in source:
                        words.setdefault(key, source[key])
                if default is ABSENT and "default" in source:
                    default = source["default"]
        shapes = self._simple(shapes or [])
        real = [shape for shape in shapes if shape.type != "null"]
        if len(real) == 1:
            words = {**real[0].words, **words}
        return Node(shapes=shapes, words=words, default=default)

    def _sources(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        """The objects whose words are those of a schema: itself, then what it refers to."""
        for _ in range(MAX_NESTED):
            if not isinstance(schema, Mapping):
                return
            yield schema
            combined = schema.get("allOf")
            if "$ref" in schema:
                found = self.target(schema["$ref"])
                if found is None:
                    return
                schema = found[0]
            elif isinstance(combined, list) and len(combined) == 1:
                schema = combined[0]
            else:
                return

    def _shapes(self, schema: Any, pointer: str, path: tuple[str, ...], depth: int) -> list[Shape]:
        self._spend(1)
        if schema is False:
            return []
        if schema is True:
            return [Shape(type=name, pointer=pointer) for name in _ALL_TYPES]
        if not isinstance(schema, Mapping):
            raise Opaque("this is no schema")
        if depth > MAX_NESTED:
            raise Opaque(f"more than {MAX_NESTED} combinations in each other")
        out = self._own(schema, pointer)
        if "$ref" in schema or "$dynamicRef" in schema:
            reference = schema.get("$ref", schema.get("$dynamicRef"))
            found = self.target(reference)
            if found is None:
                for shape in out:
                    shape.opaque["$ref"] = _text(reference)
            elif found[1] in path:
                raise Opaque("the reference leads back to itself")
            else:
                out = self._both(out, self._referred(*found, path, depth))
        for index, part in enumerate(_list(schema.get("allOf"))):
            out = self._both(out, self._shapes(part, f"{pointer}/allOf/{index}", path, depth + 1))
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                branches: list[list[Shape]] = []
                for index, part in enumerate(schema[key]):
                    branches.append(self._shapes(part, f"{pointer}/{key}/{index}", path, depth + 1))
                    if sum(map(len, branches)) > MAX_ALTERNATIVES:
                        branches = [self._simple([shape for branch in branches for shape in branch])]
                        if key == "oneOf":
                            raise Opaque(f"more than {MAX_ALTERNATIVES} alternatives of which one alone may fit")
                if key == "oneOf":
                    branches = self._exclusive(branches, schema[key])
                either = self._simple([shape for branch in branches for shape in branch])
                out = self._both(out, either)
        return out

    def _exclusive(self, branches: list[list[Shape]], parts: Sequence[Any]) -> list[list[Shape]]:
        """The alternatives of a `oneOf`: those that share values are marked, since what fits two of them is refused."""
        shared: set[int] = set()
        for index, one in enumerate(branches):
            for two in branches[index + 1 :]:
                for a in one:
                    for b in two:
                        self._spend(1)
                        if _may_share(a, b):
                            shared |= {id(a), id(b)}
        if not shared:
            return branches
        text = self._asked({"oneOf": sorted(_text(_bare(part)) for part in parts)}, parts)
        return [
            [
                replace(shape, opaque={**shape.opaque, "oneOf": text}) if id(shape) in shared else shape
                for shape in branch
            ]
            for branch in branches
        ]

    def _asked(self, asked: Mapping[str, Any], within: Any) -> str:
        """A text of keywords that are compared by their spelling, and of all that their references lead to."""
        ends: dict[str, Any] = {}
        stack: list[Any] = [within]
        while stack:
            value = stack.pop()
            self._spend(1)
            if isinstance(value, Mapping):
                for key in ("$ref", "$dynamicRef"):
                    reference = value.get(key)
                    if isinstance(reference, str) and reference not in ends and (end := self.target(reference)):
                        ends[reference] = end[0]
                        stack.append(end[0])
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)
        return _text({**asked, "$defs": _bare(ends)} if ends else asked)

    def _referred(self, schema: Any, pointer: str, path: tuple[str, ...], depth: int) -> list[Shape]:
        """What a reference leads to, worked out once, however often it is referred to."""
        if pointer not in self._targets:
            self._targets[pointer] = self._shapes(schema, pointer, (*path, pointer), depth + 1)
        return list(self._targets[pointer])

    def _own(self, schema: Mapping[str, Any], pointer: str) -> list[Shape]:
        """The alternatives that a schema's own keywords make, without its combinations."""
        named = schema.get("type")
        if named is None:
            types: list[Any] = list(_ALL_TYPES)
        else:
            types = [named] if isinstance(named, str) else _list(named)
        if any(not isinstance(name, str) or name not in _TYPES for name in types):
            raise Opaque("its type is none of JSON Schema's")
        types = list(dict.fromkeys(types))
        if "number" in types:
            types = [name for name in types if name != "integer"]
        values: list[Any] | None = None
        if isinstance(schema.get("enum"), list):
            values = schema["enum"]
        if "const" in schema:
            fits = values is None or _text(schema["const"]) in {_text(value) for value in values}
            values = [schema["const"]] if fits else []
        out = []
        for name in types:
            shape = Shape(type=name, pointer=pointer, words={key: schema[key] for key in WORDS if key in schema})
            self._fill(shape, schema, pointer)
            if values is not None:
                mine = {_text(value): value for value in values if is_of(value, name)}
                if not mine:
                    continue
                whole = name == "null" or (name == "boolean" and len(mine) == 2)
                shape.enum = None if whole else mine
                if name == "number" and all(is_of(value, "integer") for value in mine.values()):
                    shape.type = "integer"  # so that {enum: [1]} and {type: integer, enum: [1]} are one
            out.append(shape)
        return out

    def _fill(self, shape: Shape, schema: Mapping[str, Any], pointer: str) -> None:
        schema = _evaluated(schema)
        for keys in (*_TAKES_AWAY[""], *_TAKES_AWAY.get(shape.type, ())):
            if keys[0] in schema:
                asked = {key: schema[key] for key in keys if key in schema}
                if keys[0].startswith("unevaluated"):  # what that takes away depends on all that stands beside it
                    asked = {keys[0]: _bare(schema)}
                shape.opaque[keys[0]] = self._asked(asked, asked)
        if shape.type == "string":
            shape.hints = {key: _text(schema[key]) for key in _HINTS if key in schema}
            if "pattern" in schema:
                shape.sets["pattern"] = frozenset({_text(schema["pattern"])})
        if shape.type in ("integer", "number"):
            _fill_number(shape, schema)
        for low, high in _BOUNDS.get(shape.type, ()):
            if is_of(schema.get(low), "number") and schema[low] > 0:
                shape.bounds[low] = schema[low]
            if is_of(schema.get(high), "number"):
                shape.bounds[high] = schema[high]
        if shape.type == "array":
            _fill_array(shape, schema, pointer)
        if shape.type == "object":
            _fill_object(shape, schema, pointer)

    def _both(self, one: list[Shape], two: list[Shape]) -> list[Shape]:
        """What passes both."""
        for free, other in ((one, two), (two, one)):
            if {shape.type for shape in free} >= set(_ALL_TYPES) and all(shape.free for shape in free):
                return other
        if len(one) * len(two) > MAX_ALTERNATIVES**2:
            raise Opaque("too many alternatives")
        out = []
        for a in one:
            for b in two:
                self._spend(1)
                if (merged := _merged(a, b)) is not None:
                    out.append(merged)
        return self._simple(out)

    def _simple(self, shapes: list[Shape]) -> list[Shape]:
        """The same, with alternatives that others hold left out and values of one type put together."""
        self._spend(len(shapes))
        free = {shape.type for shape in shapes if shape.free}
        out: list[Shape] = []
        values: dict[str, Shape] = {}
        for shape in shapes:
            wider = shape.type == "integer" and "number" in free
            if wider or (shape.type in free and not shape.free and shape.type not in ("object", "array")):
                continue  # what an object or array says of itself is told apart all the same
            same = (at for at, other in enumerate(out) if shape.free and other.free and other.type == shape.type)
            twin = next(same, None)
            if twin is not None:
                if out[twin].words != shape.words:
                    out[twin] = replace(out[twin], words={})
                continue
            if shape.only_enum and shape.enum is not None:
                known = values.get(shape.type)
                if known is None:
                    values[shape.type] = shape = replace(shape, enum=dict(shape.enum))
                elif known.enum is not None and shape.enum is not None:
                    known.enum.update(shape.enum)
                    known.words = {}
                    continue
            if shape not in out:
                out.append(shape)
        for shape in out:
            if shape.type == "boolean" and shape.enum is not None and len(shape.enum) == 2:
                shape.enum = None
        if len(out) > MAX_ALTERNATIVES:
            raise Opaque(f"more than {MAX_ALTERNATIVES} alternatives")
        return out

    def target(self, reference: Any) -> tuple[Any, str] | None:
        """What a local reference leads to, with its pointer; None for all others."""
        if not isinstance(reference, str):
            return None
        own = self._root.get("$id", self._root.get("id")) if isinstance(self._root, Mapping) else None
        if isinstance(own, str) and own and reference.startswith(own.rstrip("#") + "#"):
            reference = reference[len(own.rstrip("#")) :]
        if not reference.startswith("#"):
            return None
        pointer = _unquoted(reference[1:])
        if pointer and not pointer.startswith("/"):
            return self._by_anchor(pointer)
        found = self._root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isascii() and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found, pointer

    def _by_anchor(self, name: str) -> tuple[Any, str] | None:
        if self._anchors is None:
            self._anchors = {}
            stack: list[tuple[Any, str]] = [(self._root, "")]
            while stack:
                value, pointer = stack.pop()
                self._spend(1)
                if isinstance(value, Mapping):
                    for key in ("$anchor", "$dynamicAnchor"):
                        if isinstance(value.get(key), str):
                            self._anchors.setdefault(value[key], (value, pointer))
                    stack.extend((item, f"{pointer}/{_escaped(key)}") for key, item in value.items())
                elif isinstance(value, list):
                    stack.extend((item, f"{pointer}/{index}") for index, item in enumerate(value))
        return self._anchors.get(name)


def _evaluated(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with the plain keyword for an `unevaluated…` beside which there is nothing else that evaluates."""
    out = dict(schema)
    for key, plain, others in (
        ("unevaluatedProperties", "additionalProperties", _EVALUATES),
        ("unevaluatedItems", "items", (*_EVALUATES, "contains")),
    ):
        if key in out and not any(other in out for other in others):
            value = out.pop(key)
            out.setdefault("additionalItems" if isinstance(out.get(plain), list) else plain, value)
    return out


def _fill_number(shape: Shape, schema: Mapping[str, Any]) -> None:
    whole = shape.type == "integer"
    for bound, exclusive, is_low in (("minimum", "exclusiveMinimum", True), ("maximum", "exclusiveMaximum", False)):
        candidates: list[tuple[float, bool]] = []
        if is_of(schema.get(bound), "number"):
            candidates.append((schema[bound], schema.get(exclusive) is True))  # true: as in draft 4
        if is_of(schema.get(exclusive), "number"):
            candidates.append((schema[exclusive], True))
        if whole:
            candidates = [_whole(value, left_out, is_low) for value, left_out in candidates]
        for candidate in candidates:
            if is_low:
                shape.low = tighter(shape.low, candidate, is_low=True)
            else:
                shape.high = tighter(shape.high, candidate, is_low=False)
    if is_of(schema.get("multipleOf"), "number") and not (whole and schema["multipleOf"] == 1):
        shape.sets["multipleOf"] = frozenset({_text(schema["multipleOf"])})


def _whole(value: float, left_out: bool, is_low: bool) -> tuple[float, bool]:
    """A bound of whole numbers, as the first one that it lets through."""
    try:
        floor = int(value // 1)
    except (OverflowError, ValueError):
        return value, left_out
    if is_low:
        return (floor + 1 if left_out or floor != value else floor), False
    return (floor - 1 if left_out and floor == value else floor), False


def tighter(one: tuple[float, bool] | None, two: tuple[float, bool] | None, *, is_low: bool) -> Any:
    if one is None or two is None:
        return one if two is None else two
    sign = 1 if is_low else -1
    return max(one, two, key=lambda bound: (sign * bound[0], bound[1]))


def _fill_array(shape: Shape, schema: Mapping[str, Any], pointer: str) -> None:
    items = schema.get("items", True)
    prefix, rest, key = schema.get("prefixItems"), items, "items"
    where = "prefixItems"
    if isinstance(items, list):
        prefix, rest, key, where = items, schema.get("additionalItems", True), "additionalItems", "items"
    shape.prefix = tuple((Part(item, f"{pointer}/{where}/{index}"),) for index, item in enumerate(_list(prefix)))
    shape.rest = () if rest is True or rest == {} else (Part(rest, f"{pointer}/{key}"),)
    shape.unique = schema.get("uniqueItems") is True


def _fill_object(shape: Shape, schema: Mapping[str, Any], pointer: str) -> None:
    named = schema.get("properties")
    if isinstance(named, Mapping):
        shape.properties = {
            str(key): (Part(value, f"{pointer}/properties/{_escaped(str(key))}"),) for key, value in named.items()
        }
    shape.required = frozenset(item for item in _list(schema.get("required")) if isinstance(item, str))
    extra = schema.get("additionalProperties", True)
    shape.extra = () if extra is True or extra == {} else (Part(extra, f"{pointer}/additionalProperties"),)
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        shape.patterns = {
            str(key): (Part(value, f"{pointer}/patternProperties/{_escaped(str(key))}"),)
            for key, value in patterns.items()
        }


def _merged(a: Shape, b: Shape) -> Shape | None:
    """What passes both alternatives; None if nothing does."""
    if a.type != b.type and {a.type, b.type} != {"integer", "number"}:
        return None
    if a.free and a.type == b.type:
        return replace(b, words={**b.words, **a.words})
    if b.free and a.type == b.type:
        return replace(a, words={**b.words, **a.words})
    enum = a.enum if b.enum is None else b.enum
    if a.enum is not None and b.enum is not None:
        enum = {key: value for key, value in a.enum.items() if key in b.enum}
    if enum is not None and not enum:
        return None
    bounds = dict(a.bounds)
    for key, value in b.bounds.items():
        if key in bounds:
            value = max(value, bounds[key]) if key.startswith("min") else min(value, bounds[key])
        bounds[key] = value
    opaque = dict(a.opaque)
    for key, text in b.opaque.items():
        opaque[key if opaque.get(key, text) == text else f"{key} {text}"] = text
    size = max(len(a.prefix), len(b.prefix))
    names = dict.fromkeys([*a.properties, *b.properties])
    return Shape(
        type="integer" if "integer" in (a.type, b.type) else a.type,
        pointer=a.pointer if not a.free else b.pointer,
        words={**b.words, **a.words},
        enum=enum,
        low=tighter(a.low, b.low, is_low=True),
        high=tighter(a.high, b.high, is_low=False),
        bounds=bounds,
        sets={key: a.sets.get(key, frozenset()) | b.sets.get(key, frozenset()) for key in {**a.sets, **b.sets}},
        hints={**b.hints, **a.hints},
        unique=a.unique or b.unique,
        opaque=opaque,
        prefix=tuple(_joined(item_at(a, index), item_at(b, index)) for index in range(size)),
        rest=_joined(a.rest, b.rest),
        properties={name: _joined(a.properties.get(name, a.extra), b.properties.get(name, b.extra)) for name in names},
        required=a.required | b.required,
        extra=_joined(a.extra, b.extra),
        patterns={
            key: _joined(a.patterns.get(key, ()), b.patterns.get(key, ())) for key in {**a.patterns, **b.patterns}
        },
    )


def _joined(one: Place, two: Place) -> Place:
    return tuple({part.pointer: part for part in (*one, *two)}.values())


def item_at(shape: Shape, index: int) -> Place:
    """What is asked of one item of an array."""
    return shape.prefix[index] if index < len(shape.prefix) else shape.rest


class Spend:
    """Counts steps, and ends what takes too many."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuch(f"the comparison takes more than {MAX_STEPS:,} steps")


def marks(shape: Shape) -> dict[str, str]:
    """The properties that can have one value only: what tells alternatives apart."""
    out = {}
    for name, place in shape.properties.items():
        for schema, _ in place:
            if isinstance(schema, Mapping):
                values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
                if len(values) == 1:
                    out[name] = _text(values[0])
    return out


def _may_share(a: Shape, b: Shape) -> bool:
    """Whether one value may pass two alternatives; objects that a property tells apart are held to have it."""
    if a.type != b.type and {a.type, b.type} != {"integer", "number"}:
        return False
    if a.enum is not None and b.enum is not None:
        return bool(a.enum.keys() & b.enum.keys())
    for one, two in ((a, b), (b, a)):
        if one.low is not None and two.high is not None and one.low[0] > two.high[0]:
            return False
        if one.closed and not one.patterns and two.required - one.properties.keys():
            return False
    mine, theirs = marks(a), marks(b)
    return all(theirs.get(name, value) == value for name, value in mine.items())


def _bare(value: Any) -> Any:
    """A schema without what is only told to people."""
    try:
        return _without_all_words(value, named=False)
    except RecursionError:
        raise Opaque("nested too deeply") from None


def _without_all_words(value: Any, *, named: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_all_words(item, named=not named and key in _NAMES_SCHEMAS)
            for key, item in value.items()
            if named or key not in WORDS
        }
    return [_without_all_words(item, named=False) for item in value] if isinstance(value, list) else value


def is_of(value: Any, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, Mapping)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


def _text(value: Any) -> str:
    """A text that is the same for equal JSON, and for nothing else."""
    if value is ABSENT:
        return ""
    try:
        return json.dumps(_numbers(value), sort_keys=True)
    except RecursionError:
        raise Opaque("nested too deeply") from None


def loaded(texts: frozenset[str]) -> Any:
    values = [json.loads(text) for text in sorted(texts)]
    return ABSENT if not values else values[0] if len(values) == 1 else values


def plain(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) and list(value) == [name] else value


def join(pointer: str, key: str) -> str:
    return f"{pointer}/{key}"


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unquoted(fragment: str) -> str:
    from urllib.parse import unquote

    return unquote(fragment)


def without_words(value: Any) -> Any:
    return {key: item for key, item in value.items() if key not in WORDS} if isinstance(value, Mapping) else value
