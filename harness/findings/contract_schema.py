"""How two JSON Schemas differ, not in their spelling but in the values that they let through.

Both are taken apart, level by level, into alternatives of one type each (`anyOf`, `oneOf`, type lists, `const`, `enum`,
`allOf` and local `$ref`s all come to that), which are matched and compared; so two spellings of one thing are no
difference. What cannot be told in bounded time, or needs more than this comparison knows, is a difference whose effect
is "unknown", never none.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.model.bounded import BudgetExceeded, validate
from harness.model.contract import ABSENT, equal, same_words

__all__ = ["Difference", "Direction", "Effect", "differences", "is_alike", "similar"]

Direction = Literal["input", "output"]
Effect = Literal["narrowed", "widened", "changed", "unknown", "maybe-narrowed", "maybe-widened", "words"]

MAX_STEPS = 200_000
MAX_LEVELS = 60  # of the schema; beyond, equal spelling is all that is known
MAX_ALTERNATIVES = 64
MAX_NESTED = 40  # combinations (`$ref`, `allOf`, `anyOf`) around one level
ALIKE = 0.6  # of a name, so that a removed and an added one may be one that was renamed

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ALL_TYPES = ("null", "boolean", "number", "string", "array", "object")
_WORDS = ("title", "description", "examples", "deprecated", "readOnly", "writeOnly")
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
class _Part:
    """A schema, known by where it stands: comparing two of them never looks into them."""

    schema: Any = field(compare=False)
    pointer: str

    def __iter__(self) -> Iterator[Any]:
        yield self.schema
        yield self.pointer


_Place = tuple[_Part, ...]  # schemas that hold at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        pointer: Into the later schema, or into the earlier one where the thing is gone.
        kind: What it is, in a few words ("an enum value is gone").
        effect: What it does to the set of values; the "maybe" ones depend on who validates.
        before: The JSON there; ABSENT for nothing.
        detail: What a sentence needs beyond it.
    """

    pointer: str
    kind: str
    effect: Effect
    before: Any = ABSENT
    after: Any = ABSENT
    detail: str = ""


def differences(before: Any, after: Any, direction: Direction) -> tuple[Difference, ...]:
    """Everything in which the later schema differs, in the order of its pointers; () for two spellings of one thing."""
    if equal(before, after):
        return ()
    comparison = _Comparison(before, after, direction)
    try:
        comparison.compare((_Part(before, ""),), (_Part(after, ""),), 0)
    except _TooMuch as error:
        comparison.found.append(Difference(pointer="", kind="too much to compare", effect="unknown", detail=str(error)))
    return tuple(sorted(comparison.found, key=lambda item: (item.pointer, item.kind)))


def is_alike(before: Any, after: Any, direction: Direction) -> bool:
    """Whether two schemas let the same values through."""
    return all(item.effect == "words" for item in differences(before, after, direction))


def similar(one: str, two: str) -> float:
    """How alike two names or texts are, from 0 to 1; the order of the words in a name does not matter."""
    if not one or not two:
        return 0.0
    one, two = one[:500].casefold(), two[:500].casefold()
    straight = difflib.SequenceMatcher(None, one, two, autojunk=False).ratio()
    return max(straight, _shared_words(one, two))


def _shared_words(one: str, two: str) -> float:
    words = [{part for part in text.replace("-", "_").replace(" ", "_").split("_") if part} for text in (one, two)]
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))


class _TooMuch(Exception):
    """The comparison would take too long."""


class _Opaque(Exception):
    """What stands here is beyond this comparison; the message says why."""


# --- taking a schema apart ------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Shape:
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
    prefix: tuple[_Place, ...] = ()
    rest: _Place = ()  # (): anything
    properties: dict[str, _Place] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    extra: _Place = ()
    patterns: dict[str, _Place] = field(default_factory=dict)

    @property
    def free(self) -> bool:
        """Whether every value of the type passes."""
        return self == _Shape(type=self.type, pointer=self.pointer, words=self.words)

    @property
    def only_enum(self) -> bool:
        """Whether nothing but an `enum` or `const` is asked."""
        return self.enum is not None and self == _Shape(
            type=self.type, pointer=self.pointer, words=self.words, enum=self.enum
        )

    @property
    def closed(self) -> bool:
        """Whether properties that are not named are refused."""
        return _never(self.extra)


def _never(place: _Place) -> bool:
    return any(schema is False for schema, _ in place)


def _anything(place: _Place) -> bool:
    return all(schema is True or schema == {} for schema, _ in place)


@dataclass(slots=True, kw_only=True)
class _Node:
    """A place, taken apart."""

    shapes: list[_Shape]
    words: dict[str, Any]
    default: Any


class _Side:
    """One of the two schemas."""

    def __init__(self, root: Any, spend: _Spend) -> None:
        self._root, self._spend = root, spend
        self._anchors: dict[str, tuple[Any, str]] | None = None
        self._known: dict[tuple[str, ...], _Node] = {}
        self._targets: dict[str, list[_Shape]] = {}

    def node(self, place: _Place) -> _Node:
        """What a place lets through.

        Raises:
            _Opaque: It is none of what is understood here.
        """
        key = tuple(pointer if not isinstance(schema, bool) else f"{pointer} {schema}" for schema, pointer in place)
        if key not in self._known:
            self._known[key] = self._node(place)
        return self._known[key]

    def _node(self, place: _Place) -> _Node:
        shapes: list[_Shape] | None = None
        words: dict[str, Any] = {}
        default: Any = ABSENT
        for schema, pointer in place:
            mine = self._shapes(schema, pointer, (), 0)
            shapes = mine if shapes is None else self._both(shapes, mine)
            for source in self._sources(schema):
                for key in _WORDS:
                    if key in source:
                        words.setdefault(key, source[key])
                if default is ABSENT and "default" in source:
                    default = source["default"]
        shapes = self._simple(shapes or [])
        real = [shape for shape in shapes if shape.type != "null"]
        if len(real) == 1:
            words = {**real[0].words, **words}
        return _Node(shapes=shapes, words=words, default=default)

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

    def _shapes(self, schema: Any, pointer: str, path: tuple[str, ...], depth: int) -> list[_Shape]:
        self._spend(1)
        if schema is False:
            return []
        if schema is True:
            return [_Shape(type=name, pointer=pointer) for name in _ALL_TYPES]
        if not isinstance(schema, Mapping):
            raise _Opaque("this is no schema")
        if depth > MAX_NESTED:
            raise _Opaque(f"more than {MAX_NESTED} combinations in each other")
        out = self._own(schema, pointer)
        if "$ref" in schema or "$dynamicRef" in schema:
            reference = schema.get("$ref", schema.get("$dynamicRef"))
            found = self.target(reference)
            if found is None:
                for shape in out:
                    shape.opaque["$ref"] = _text(reference)
            elif found[1] in path:
                raise _Opaque("the reference leads back to itself")
            else:
                out = self._both(out, self._referred(*found, path, depth))
        for index, part in enumerate(_list(schema.get("allOf"))):
            out = self._both(out, self._shapes(part, f"{pointer}/allOf/{index}", path, depth + 1))
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                branches: list[list[_Shape]] = []
                for index, part in enumerate(schema[key]):
                    branches.append(self._shapes(part, f"{pointer}/{key}/{index}", path, depth + 1))
                    if sum(map(len, branches)) > MAX_ALTERNATIVES:
                        branches = [self._simple([shape for branch in branches for shape in branch])]
                        if key == "oneOf":
                            raise _Opaque(f"more than {MAX_ALTERNATIVES} alternatives of which one alone may fit")
                if key == "oneOf":
                    branches = self._exclusive(branches, schema[key])
                either = self._simple([shape for branch in branches for shape in branch])
                out = self._both(out, either)
        return out

    def _exclusive(self, branches: list[list[_Shape]], parts: Sequence[Any]) -> list[list[_Shape]]:
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

    def _referred(self, schema: Any, pointer: str, path: tuple[str, ...], depth: int) -> list[_Shape]:
        """What a reference leads to, worked out once, however often it is referred to."""
        if pointer not in self._targets:
            self._targets[pointer] = self._shapes(schema, pointer, (*path, pointer), depth + 1)
        return list(self._targets[pointer])

    def _own(self, schema: Mapping[str, Any], pointer: str) -> list[_Shape]:
        """The alternatives that a schema's own keywords make, without its combinations."""
        named = schema.get("type")
        if named is None:
            types: list[Any] = list(_ALL_TYPES)
        else:
            types = [named] if isinstance(named, str) else _list(named)
        if any(not isinstance(name, str) or name not in _TYPES for name in types):
            raise _Opaque("its type is none of JSON Schema's")
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
            shape = _Shape(type=name, pointer=pointer, words={key: schema[key] for key in _WORDS if key in schema})
            self._fill(shape, schema, pointer)
            if values is not None:
                mine = {_text(value): value for value in values if _is(value, name)}
                if not mine:
                    continue
                whole = name == "null" or (name == "boolean" and len(mine) == 2)
                shape.enum = None if whole else mine
                if name == "number" and all(_is(value, "integer") for value in mine.values()):
                    shape.type = "integer"  # so that {enum: [1]} and {type: integer, enum: [1]} are one
            out.append(shape)
        return out

    def _fill(self, shape: _Shape, schema: Mapping[str, Any], pointer: str) -> None:
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
            if _is(schema.get(low), "number") and schema[low] > 0:
                shape.bounds[low] = schema[low]
            if _is(schema.get(high), "number"):
                shape.bounds[high] = schema[high]
        if shape.type == "array":
            _fill_array(shape, schema, pointer)
        if shape.type == "object":
            _fill_object(shape, schema, pointer)

    def _both(self, one: list[_Shape], two: list[_Shape]) -> list[_Shape]:
        """What passes both."""
        for free, other in ((one, two), (two, one)):
            if {shape.type for shape in free} >= set(_ALL_TYPES) and all(shape.free for shape in free):
                return other
        if len(one) * len(two) > MAX_ALTERNATIVES**2:
            raise _Opaque("too many alternatives")
        out = []
        for a in one:
            for b in two:
                self._spend(1)
                if (merged := _merged(a, b)) is not None:
                    out.append(merged)
        return self._simple(out)

    def _simple(self, shapes: list[_Shape]) -> list[_Shape]:
        """The same, with alternatives that others hold left out and values of one type put together."""
        self._spend(len(shapes))
        free = {shape.type for shape in shapes if shape.free}
        out: list[_Shape] = []
        values: dict[str, _Shape] = {}
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
            raise _Opaque(f"more than {MAX_ALTERNATIVES} alternatives")
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


def _fill_number(shape: _Shape, schema: Mapping[str, Any]) -> None:
    whole = shape.type == "integer"
    for bound, exclusive, is_low in (("minimum", "exclusiveMinimum", True), ("maximum", "exclusiveMaximum", False)):
        candidates: list[tuple[float, bool]] = []
        if _is(schema.get(bound), "number"):
            candidates.append((schema[bound], schema.get(exclusive) is True))  # true: as in draft 4
        if _is(schema.get(exclusive), "number"):
            candidates.append((schema[exclusive], True))
        if whole:
            candidates = [_whole(value, left_out, is_low) for value, left_out in candidates]
        for candidate in candidates:
            if is_low:
                shape.low = _tighter(shape.low, candidate, is_low=True)
            else:
                shape.high = _tighter(shape.high, candidate, is_low=False)
    if _is(schema.get("multipleOf"), "number") and not (whole and schema["multipleOf"] == 1):
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


def _tighter(one: tuple[float, bool] | None, two: tuple[float, bool] | None, *, is_low: bool) -> Any:
    if one is None or two is None:
        return one if two is None else two
    sign = 1 if is_low else -1
    return max(one, two, key=lambda bound: (sign * bound[0], bound[1]))


def _fill_array(shape: _Shape, schema: Mapping[str, Any], pointer: str) -> None:
    items = schema.get("items", True)
    prefix, rest, key = schema.get("prefixItems"), items, "items"
    where = "prefixItems"
    if isinstance(items, list):
        prefix, rest, key, where = items, schema.get("additionalItems", True), "additionalItems", "items"
    shape.prefix = tuple((_Part(item, f"{pointer}/{where}/{index}"),) for index, item in enumerate(_list(prefix)))
    shape.rest = () if rest is True or rest == {} else (_Part(rest, f"{pointer}/{key}"),)
    shape.unique = schema.get("uniqueItems") is True


def _fill_object(shape: _Shape, schema: Mapping[str, Any], pointer: str) -> None:
    named = schema.get("properties")
    if isinstance(named, Mapping):
        shape.properties = {
            str(key): (_Part(value, f"{pointer}/properties/{_escaped(str(key))}"),) for key, value in named.items()
        }
    shape.required = frozenset(item for item in _list(schema.get("required")) if isinstance(item, str))
    extra = schema.get("additionalProperties", True)
    shape.extra = () if extra is True or extra == {} else (_Part(extra, f"{pointer}/additionalProperties"),)
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        shape.patterns = {
            str(key): (_Part(value, f"{pointer}/patternProperties/{_escaped(str(key))}"),)
            for key, value in patterns.items()
        }


def _merged(a: _Shape, b: _Shape) -> _Shape | None:
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
    return _Shape(
        type="integer" if "integer" in (a.type, b.type) else a.type,
        pointer=a.pointer if not a.free else b.pointer,
        words={**b.words, **a.words},
        enum=enum,
        low=_tighter(a.low, b.low, is_low=True),
        high=_tighter(a.high, b.high, is_low=False),
        bounds=bounds,
        sets={key: a.sets.get(key, frozenset()) | b.sets.get(key, frozenset()) for key in {**a.sets, **b.sets}},
        hints={**b.hints, **a.hints},
        unique=a.unique or b.unique,
        opaque=opaque,
        prefix=tuple(_joined(_at(a, index), _at(b, index)) for index in range(size)),
        rest=_joined(a.rest, b.rest),
        properties={name: _joined(a.properties.get(name, a.extra), b.properties.get(name, b.extra)) for name in names},
        required=a.required | b.required,
        extra=_joined(a.extra, b.extra),
        patterns={
            key: _joined(a.patterns.get(key, ()), b.patterns.get(key, ())) for key in {**a.patterns, **b.patterns}
        },
    )


def _joined(one: _Place, two: _Place) -> _Place:
    return tuple({part.pointer: part for part in (*one, *two)}.values())


def _at(shape: _Shape, index: int) -> _Place:
    """What is asked of one item of an array."""
    return shape.prefix[index] if index < len(shape.prefix) else shape.rest


# --- comparing ------------------------------------------------------------------------------------


class _Spend:
    """Counts steps, and ends what takes too many."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch(f"the comparison takes more than {MAX_STEPS:,} steps")


class _Comparison:
    """Collects the differences of two schemas."""

    def __init__(self, before: Any, after: Any, direction: Direction) -> None:
        self._spend = _Spend(MAX_STEPS)
        self._before, self._after = _Side(before, self._spend), _Side(after, self._spend)
        self._input = direction == "input"
        self._done: set[tuple[str, ...]] = set()
        self.found: list[Difference] = []

    def compare(self, old: _Place, new: _Place, level: int, *, needed: bool = False) -> None:
        """Everything below two places; what two places have been compared for is not said again."""
        key = (*(f"{pointer}{schema if isinstance(schema, bool) else ''}" for schema, pointer in old), "\0",
               *(f"{pointer}{schema if isinstance(schema, bool) else ''}" for schema, pointer in new))  # fmt: skip
        if key in self._done:
            return
        self._done.add(key)
        self._spend(1)
        before, after = _shown(old), _shown(new)
        if level > MAX_LEVELS:
            if not self._spelled_alike(old, new):
                self._add(_pointer(new, old), "nested too deeply", "unknown", before, after)
            return
        try:
            a, b = self._before.node(old), self._after.node(new)
        except _Opaque as error:
            if not self._spelled_alike(old, new):
                pointer = _pointer(new, old)
                self._add(pointer, "a schema that cannot be compared", "unknown", before, after, str(error))
            return
        pointer = _pointer(new, old)
        self._words(a.words, b.words, pointer)
        self._default(a.default, b.default, pointer, needed)
        self._alternatives(a, b, pointer, before, after, level)

    def _spelled_alike(self, old: _Place, new: _Place) -> bool:
        """Whether two places hold the same JSON, and so do all that their references lead to."""
        stack: list[tuple[Any, Any]] = [([part.schema for part in old], [part.schema for part in new])]
        seen: set[str] = set()
        while stack:
            a, b = stack.pop()
            self._spend(1)
            if isinstance(a, Mapping) and isinstance(b, Mapping):
                if a.keys() != b.keys():
                    return False
                stack.extend((a[key], b[key]) for key in a)
                for key in ("$ref", "$dynamicRef"):
                    if isinstance(a.get(key), str) and a[key] not in seen:
                        seen.add(a[key])
                        ends = [side.target(a[key]) for side in (self._before, self._after)]
                        stack.append(tuple(None if end is None else end[0] for end in ends))  # type: ignore[arg-type]
            elif isinstance(a, list) and isinstance(b, list):
                if len(a) != len(b):
                    return False
                stack.extend(zip(a, b, strict=True))
            elif not equal(a, b):
                return False
        return True

    def _add(
        self, pointer: str, kind: str, effect: Effect, before: Any = ABSENT, after: Any = ABSENT, detail: str = ""
    ) -> None:
        self.found.append(
            Difference(pointer=pointer, kind=kind, effect=effect, before=before, after=after, detail=detail)
        )

    def _probe(self, old: _Shape, new: _Shape, level: int) -> list[Difference]:
        """The differences of two alternatives, without telling them."""
        found, done = self.found, self._done
        self.found, self._done = [], set(done)
        try:
            self._shape(old, new, level)
            return self.found
        finally:
            self.found, self._done = found, done

    def _words(self, old: Mapping[str, Any], new: Mapping[str, Any], pointer: str) -> None:
        for key in _WORDS:
            before, after = old.get(key, ABSENT), new.get(key, ABSENT)
            if same_words(before, after) or (key in ("deprecated", "readOnly", "writeOnly") and not (
                (before is True) ^ (after is True)
            )):  # fmt: skip
                continue
            verb = "added" if before is ABSENT else "removed" if after is ABSENT else "changed"
            self._add(f"{pointer}/{key}", f"{key} {verb}", "words", before, after)

    def _default(self, old: Any, new: Any, pointer: str, needed: bool) -> None:
        nothing = (ABSENT, None)
        if equal(old, new) or (any(old is item for item in nothing) and any(new is item for item in nothing)):
            return
        if old is ABSENT:
            verb, effect = "added", "widened"
        elif new is ABSENT:
            verb, effect = "removed", "changed"
        else:
            verb, effect = "changed", "changed"
        if needed or not self._input:
            effect = "words"
        self._add(f"{pointer}/default", f"default {verb}", effect, old, new)  # type: ignore[arg-type]

    # alternatives

    def _alternatives(self, a: _Node, b: _Node, pointer: str, before: Any, after: Any, level: int) -> None:
        pairs, olds, news = self._matched(a.shapes, b.shapes, level)
        for old, new in pairs:
            if len(a.shapes) > 1 and len(b.shapes) > 1 and not (old.pointer == new.pointer == pointer):
                self._words(old.words if old.pointer != pointer else {}, new.words if new.pointer != pointer else {},
                            new.pointer)  # fmt: skip
            self._shape(old, new, level)
        olds = [old for old in olds if not self._held(old, b.shapes, level, inside=True)]
        news = [new for new in news if not self._held(new, a.shapes, level, inside=False)]
        if not olds and not news:
            return
        gone, come = _names(olds), _names(news)
        if olds and news and not pairs:
            kind, effect = "the type changed", "changed"
            if not self._apart(olds, news):
                effect = "narrowed" if _within(news, olds) else "changed"
            self._add(pointer, kind, effect, before, after, f"{gone} to {come}")  # type: ignore[arg-type]
            return
        same_type = {shape.type for shape in olds} & {shape.type for shape in b.shapes}
        if len(olds) > 3 and b.shapes:
            self._add(pointer, "fewer types", "narrowed", before, after, f"only {_names(b.shapes)}")
        elif olds:
            noun = "an alternative" if same_type or "object" in {shape.type for shape in olds} else "a type"
            self._add(pointer, f"{noun} is gone", "narrowed", before, after, gone)
        if len(news) > 3 and a.shapes:
            self._add(pointer, "more types", "widened", before, after, f"not only {_names(a.shapes)}")
        elif news:
            noun = "an alternative" if {shape.type for shape in news} & {shape.type for shape in a.shapes} else "a type"
            self._add(pointer, f"{noun} was added", "widened", before, after, come)

    def _matched(
        self, olds: Sequence[_Shape], news: Sequence[_Shape], level: int
    ) -> tuple[list[tuple[_Shape, _Shape]], list[_Shape], list[_Shape]]:
        """Alternatives that are meant to be the same, and those that have no partner, on either side."""
        free, left = list(range(len(news))), list(range(len(olds)))
        ranks = []
        for i, old in enumerate(olds):
            for j, new in enumerate(news):
                alone = all(sum(shape.type == old.type for shape in side) == 1 for side in (olds, news))
                if (score := _score(old, new, alone=alone)) > 0:
                    ranks.append((self._rank(old, new, olds, news, level), -score, i, j))
        pairs = []
        for _, _, i, j in sorted(ranks):
            if i in left and j in free:
                left.remove(i)
                free.remove(j)
                pairs.append((olds[i], news[j]))
        pairs.sort(key=lambda pair: pair[1].pointer)
        return pairs, [olds[i] for i in left], [news[j] for j in free]

    def _rank(
        self, old: _Shape, new: _Shape, olds: Sequence[_Shape], news: Sequence[_Shape], level: int
    ) -> tuple[int, int, int]:
        """Where there is a choice of partners: the same first, then those that break nobody, then the nearest.

        Of those that are equally near the one that is described in the same words.
        """
        kin = ("integer", "number") if old.type in ("integer", "number") else (old.type,)
        if all(sum(shape.type in kin for shape in side) == 1 for side in (olds, news)):
            return 0, 0, 0
        probed = self._probe(old, new, level)
        found = [item.effect for item in probed if item.effect != "words"]
        said = len(probed) - len(found)
        if not found:
            return 0, 0, said
        kind = "widened" if self._input else "narrowed"
        return (1 if all(effect == kind for effect in found) else 2 if len(set(found)) == 1 else 3), len(found), said

    def _held(self, shape: _Shape, others: Iterable[_Shape], level: int, *, inside: bool) -> bool:
        """Whether an alternative without a partner is part of one on the other side."""
        for other in others:
            if other.type == shape.type or (shape.type, other.type) == ("integer", "number"):
                old, new = (shape, other) if inside else (other, shape)
                wanted = "widened" if inside else "narrowed"
                if all(item.effect in (wanted, "words") for item in self._probe(old, new, level)):
                    return True
        return False

    def _apart(self, olds: Sequence[_Shape], news: Sequence[_Shape]) -> bool:
        numbers = {"integer", "number"}
        return not any(a.type == b.type or {a.type, b.type} == numbers for a in olds for b in news)

    def _shape(self, a: _Shape, b: _Shape, level: int) -> None:
        self._spend(1)
        pointer = b.pointer
        if a.type != b.type and (a.enum is None or b.enum is None):
            effect: Effect = "widened" if (a.type, b.type) == ("integer", "number") else "narrowed"
            self._add(_join(pointer, "type"), f"{a.type} became {b.type}", effect, a.type, b.type)
        if a.enum is not None or b.enum is not None:
            self._enum(a, b, pointer)
            if a.enum is None or b.enum is None:
                return
        self._bounds(a, b, pointer)
        for key in dict.fromkeys([*a.sets, *b.sets]):
            self._set(key, a.sets.get(key, frozenset()), b.sets.get(key, frozenset()), pointer)
        for key in dict.fromkeys([*a.hints, *b.hints]):
            self._hint(key, a.hints.get(key), b.hints.get(key), pointer)
        for key in dict.fromkeys([*a.opaque, *b.opaque]):
            self._keyword(key, a.opaque.get(key), b.opaque.get(key), pointer)
        if a.type == "array":
            self._array(a, b, level)
        if a.type == "object":
            self._object(a, b, level)

    def _enum(self, a: _Shape, b: _Shape, pointer: str) -> None:
        old, new = a.enum, b.enum
        at = _join(pointer, "enum")
        if old is not None and new is not None:
            gone = [value for key, value in old.items() if key not in new]
            come = [value for key, value in new.items() if key not in old]
            if gone:
                noun = "an enum value is gone" if len(gone) == 1 else "enum values are gone"
                self._add(at, noun, "narrowed", list(old.values()), list(new.values()), _listed(gone))
            if come:
                noun = "an enum value was added" if len(come) == 1 else "enum values were added"
                self._add(at, noun, "widened", list(old.values()), list(new.values()), _listed(come))
        elif old is not None:
            refused = [value for value in old.values() if not _admits(b, value)]
            effect: Effect = "changed" if refused else "widened"
            said = _listed(refused)
            self._add(at, "the enum is gone", effect, list(old.values()), ABSENT, said)
        elif new is not None:
            alien = [value for value in new.values() if not _admits(a, value)]
            effect = "changed" if alien else "narrowed"
            self._add(at, "an enum was added", effect, ABSENT, list(new.values()), _listed(list(new.values())))

    def _bounds(self, a: _Shape, b: _Shape, pointer: str) -> None:
        for is_low, old, new in ((True, a.low, b.low), (False, a.high, b.high)):
            if old == new:
                continue
            name = ("exclusiveM" if (new or old or (0, False))[1] else "m") + ("inimum" if is_low else "aximum")
            tight = new is not None and (old is None or _tighter(old, new, is_low=is_low) == new)
            self._bound(_join(pointer, name), name, None if old is None else old[0], None if new is None else new[0],
                        tight)  # fmt: skip
        for key in sorted({*a.bounds, *b.bounds}):
            low, high = a.bounds.get(key), b.bounds.get(key)
            if low != high:
                tight = low is None or (high is not None and (high > low) == key.startswith("min"))
                self._bound(_join(pointer, key), key, low, high, tight)
        if a.unique != b.unique:
            self._bound(_join(pointer, "uniqueItems"), "uniqueItems", a.unique or None, b.unique or None, b.unique)

    def _bound(self, pointer: str, name: str, old: Any, new: Any, tight: bool) -> None:
        verb = "added" if old is None else "removed" if new is None else "tightened" if tight else "relaxed"
        effect: Effect = "narrowed" if tight else "widened"
        before, after = (ABSENT if item is None else item for item in (old, new))
        self._add(pointer, f"{name} {verb}", effect, before, after)

    def _set(self, key: str, old: frozenset[str], new: frozenset[str], pointer: str) -> None:
        if old == new:
            return
        before, after = (_loaded(items) for items in (old, new))
        effect: Effect = "narrowed" if old < new else "widened" if old > new else "unknown"
        if key == "multipleOf" and len(old) == len(new) == 1:
            effect = _multiples(before, after)
        verb = "added" if not old else "removed" if not new else "changed"
        self._add(_join(pointer, key), f"{key} {verb}", effect, before, after)

    def _hint(self, key: str, old: str | None, new: str | None, pointer: str) -> None:
        if old == new:
            return
        before, after = (ABSENT if item is None else json.loads(item) for item in (old, new))
        verb = "added" if old is None else "removed" if new is None else "changed"
        effects: Mapping[str, Effect] = {"added": "maybe-narrowed", "removed": "maybe-widened", "changed": "unknown"}
        self._add(_join(pointer, key), f"{key} {verb}", effects[verb], before, after)

    def _keyword(self, key: str, old: str | None, new: str | None, pointer: str) -> None:
        if old == new:
            return
        name = key.partition(" ")[0]
        before, after = (ABSENT if item is None else _plain(json.loads(item), name) for item in (old, new))
        verb = "added" if old is None else "removed" if new is None else "changed"
        effects: Mapping[str, Effect] = {"added": "narrowed", "removed": "widened", "changed": "unknown"}
        effect = "unknown" if name == "$ref" else effects[verb]
        self._add(_join(pointer, name), f"{name} {verb}", effect, before, after)

    def _array(self, a: _Shape, b: _Shape, level: int) -> None:
        for index in range(max(len(a.prefix), len(b.prefix))):
            self._item(_at(a, index), _at(b, index), b, level)
        self._item(a.rest, b.rest, b, level)

    def _item(self, old: _Place, new: _Place, shape: _Shape, level: int) -> None:
        if not old and not new:
            return
        if _never(old) != _never(new):
            kind, effect = ("fewer items", "narrowed") if _never(new) else ("more items", "widened")
            self._add(_pointer(new, old), kind, effect, _shown(old), _shown(new))  # type: ignore[arg-type]
            return
        self.compare(
            old or (_Part(True, f"{shape.pointer}/items"),), new or (_Part(True, f"{shape.pointer}/items"),), level + 1
        )

    # objects

    def _object(self, a: _Shape, b: _Shape, level: int) -> None:
        gone = [name for name in a.properties if name not in b.properties and not _never(a.properties[name])]
        come = [name for name in b.properties if _never(a.properties.get(name, ())) or name not in a.properties]
        come = [name for name in come if not _never(b.properties[name])]
        renamed = self._renamed(a, b, gone, come)
        noun = "parameter" if self._input else "field"
        for name in a.properties:
            if name in b.properties:
                old, new = a.properties[name], b.properties[name]
                needed = name in a.required and name in b.required
                self._required(name, a, b, _pointer(new, old), noun)
                if _never(new) and not _never(old):
                    self._add(_pointer(old, ()), f"a {noun} is gone", "changed", _shown(old), False, name)
                elif not _never(old):
                    self.compare(old, new, level + 1, needed=needed)
        for name, other in renamed.items():
            old, new = a.properties[name], b.properties[other]
            self._add(_pointer(new, old), f"a {noun} was renamed", "changed", name, other, f"{name} to {other}")
        for name in gone:
            if name not in renamed:
                effect: Effect = "changed"
                open_ = "" if b.closed else "open"
                self._add(_pointer(a.properties[name], ()), f"a {noun} is gone", effect, _shown(a.properties[name]),
                          ABSENT, f"{name}\0{open_}")  # fmt: skip
        for name in come:
            if name not in renamed.values():
                self._come(name, a, b, level)
        for name in sorted({*a.properties, *b.properties}):
            self._refused(name, a, b, noun)
        named = {*a.properties, *b.properties}
        for name in sorted((a.required | b.required) - named):
            self._required(name, a, b, _join(b.pointer, "required"), noun)
        self._extra(a, b, level)
        for key in dict.fromkeys([*a.patterns, *b.patterns]):
            if key in a.patterns and key in b.patterns:
                self.compare(a.patterns[key], b.patterns[key], level + 1)
            else:
                verb = "added" if key in b.patterns else "removed"
                old, new = a.patterns.get(key, ()), b.patterns.get(key, ())
                before, after = (_shown(item) if item else ABSENT for item in (old, new))
                self._add(_pointer(new, old), f"patternProperties {verb}", "unknown", before, after)

    def _refused(self, name: str, a: _Shape, b: _Shape, noun: str) -> None:
        """A property that is `false` on one side and not named on the other, where all others may be sent."""
        if name not in b.properties and _never(a.properties[name]) and not b.closed:
            self._add(_pointer(a.properties[name], ()), f"a {noun} is refused no more", "widened", False, ABSENT, name)
        if name not in a.properties and _never(b.properties[name]) and not a.closed:
            self._add(_pointer(b.properties[name], ()), f"a {noun} is refused", "narrowed", ABSENT, False, name)

    def _come(self, name: str, a: _Shape, b: _Shape, level: int) -> None:
        place = b.properties[name]
        if a.extra and not a.closed and name not in a.properties:  # it could be sent, as one of those without a name
            self.compare(a.extra, place, level + 1)
        if self._input:
            if name in b.required:
                self._add(
                    _pointer(place, ()), "a required parameter was added", "narrowed", ABSENT, _shown(place), name
                )
            else:
                self._add(_pointer(place, ()), "a parameter was added", "widened", ABSENT, _shown(place), name)
            return
        closed = a.closed or name in a.properties  # as `false`
        effect: Effect = "widened" if closed else "narrowed"
        kind = "a field was added to a closed object" if closed else "a field was added"
        self._add(_pointer(place, ()), kind, effect, ABSENT, _shown(place), name)

    def _required(self, name: str, a: _Shape, b: _Shape, pointer: str, noun: str) -> None:
        was, is_ = name in a.required, name in b.required
        if was != is_:
            kind = f"a {noun} became required" if is_ else f"a {noun} became optional"
            words = ("required", "optional") if was else ("optional", "required")
            self._add(pointer, kind, "narrowed" if is_ else "widened", *words, name)

    def _extra(self, a: _Shape, b: _Shape, level: int) -> None:
        if a.extra == b.extra == ():
            return
        if a.closed and b.closed:
            return
        if a.closed or b.closed:
            kind, effect = ("the object was closed", "narrowed") if b.closed else ("the object was opened", "widened")
            pointer = _join(b.pointer, "additionalProperties")
            before, after = (_shown(item) if item else True for item in (a.extra, b.extra))
            self._add(pointer, kind, effect, before, after)  # type: ignore[arg-type]
            return
        at = _join(b.pointer, "additionalProperties")
        self.compare(a.extra or (_Part(True, at),), b.extra or (_Part(True, at),), level + 1)

    def _renamed(self, a: _Shape, b: _Shape, gone: Sequence[str], come: Sequence[str]) -> dict[str, str]:
        """Properties that went with one that came, of the same values and with a like name or the same description."""
        out: dict[str, str] = {}
        if len(gone) * len(come) > MAX_ALTERNATIVES:
            return out
        for name in gone:
            for other in come:
                if other in out.values() or (name in a.required) != (other in b.required):
                    continue
                old, new = _shown(a.properties[name]), _shown(b.properties[other])
                said = [item.get("description") if isinstance(item, Mapping) else None for item in (old, new)]
                like = similar(name, other) >= ALIKE or (isinstance(said[0], str) and said[0] == said[1])
                if like and equal(_without_words(old), _without_words(new)):
                    out[name] = other
                    break
        return out


def _score(old: _Shape, new: _Shape, *, alone: bool) -> float:
    """How much speaks for two alternatives being the same; 0 if nothing can, and there is another (not `alone`)."""
    if old.type != new.type:
        return 1.0 if {old.type, new.type} == {"integer", "number"} else 0.0
    score = 2.0
    if old.pointer == new.pointer:
        score += 0.5
    if isinstance(old.words.get("title"), str) and old.words.get("title") == new.words.get("title"):
        score += 20
    if old.type == "object":
        mine, theirs = _marks(old), _marks(new)
        for name, value in mine.items():
            if name in theirs:
                if theirs[name] != value and not alone:
                    return 0.0
                score += 50
        both = {*old.properties, *new.properties}
        score += 10 * len(old.properties.keys() & new.properties.keys()) / max(1, len(both))
        if both and not old.properties.keys() & new.properties.keys() and old.properties and new.properties:
            return 0.5 if score < 20 else score
    elif old.enum is not None and new.enum is not None:
        score += 10 * len(old.enum.keys() & new.enum.keys()) / len({**old.enum, **new.enum})
    elif (old.enum is None) == (new.enum is None):
        score += 5 * ((old.sets, old.hints, old.bounds) == (new.sets, new.hints, new.bounds))
        score += 3 * (old.hints == new.hints)
    return score


def _marks(shape: _Shape) -> dict[str, str]:
    """The properties that can have one value only: what tells alternatives apart."""
    out = {}
    for name, place in shape.properties.items():
        for schema, _ in place:
            if isinstance(schema, Mapping):
                values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
                if len(values) == 1:
                    out[name] = _text(values[0])
    return out


def _may_share(a: _Shape, b: _Shape) -> bool:
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
    mine, theirs = _marks(a), _marks(b)
    return all(theirs.get(name, value) == value for name, value in mine.items())


def _bare(value: Any) -> Any:
    """A schema without what is only told to people."""
    try:
        return _without_all_words(value, named=False)
    except RecursionError:
        raise _Opaque("nested too deeply") from None


def _without_all_words(value: Any, *, named: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_all_words(item, named=not named and key in _NAMES_SCHEMAS)
            for key, item in value.items()
            if named or key not in _WORDS
        }
    return [_without_all_words(item, named=False) for item in value] if isinstance(value, list) else value


def _within(inner: Sequence[_Shape], outer: Sequence[_Shape]) -> bool:
    return all(any((a.type, b.type) == ("integer", "number") for b in outer) for a in inner)


def _admits(shape: _Shape, value: Any) -> bool:
    """Whether an alternative without an `enum` lets a scalar through; what cannot be told is no."""
    if shape.opaque or shape.hints or not _is(value, shape.type) or isinstance(value, Mapping | list):
        return shape.free and _is(value, shape.type)
    schema: dict[str, Any] = {"type": shape.type, **shape.bounds}
    for bound, name in ((shape.low, "inimum"), (shape.high, "aximum")):
        if bound is not None:
            schema[f"exclusiveM{name}" if bound[1] else f"m{name}"] = bound[0]
    schema["allOf"] = [{key: json.loads(text)} for key, texts in shape.sets.items() for text in sorted(texts)]
    if not schema["allOf"]:
        del schema["allOf"]
    try:
        return not validate(schema, value)
    except BudgetExceeded:
        return False


def _multiples(old: Any, new: Any) -> Effect:
    try:
        if new % old == 0:
            return "narrowed"
        return "widened" if old % new == 0 else "changed"
    except (TypeError, ZeroDivisionError, OverflowError):
        return "unknown"


# --- small things ---------------------------------------------------------------------------------


def _is(value: Any, name: str) -> bool:
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
        raise _Opaque("nested too deeply") from None


def _loaded(texts: frozenset[str]) -> Any:
    values = [json.loads(text) for text in sorted(texts)]
    return ABSENT if not values else values[0] if len(values) == 1 else values


def _plain(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) and list(value) == [name] else value


def _shown(place: _Place) -> Any:
    """The JSON of a place, for people."""
    if not place:
        return True
    return place[0].schema if len(place) == 1 else {"allOf": [schema for schema, _ in place]}


def _pointer(first: _Place, second: _Place) -> str:
    return (first or second or (_Part(True, ""),))[0].pointer


def _join(pointer: str, key: str) -> str:
    return f"{pointer}/{key}"


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unquoted(fragment: str) -> str:
    from urllib.parse import unquote

    return unquote(fragment)


def _names(shapes: Iterable[_Shape]) -> str:
    return " or ".join(dict.fromkeys(_name(shape) for shape in shapes))


def _name(shape: _Shape) -> str:
    """What people call an alternative: an object by its title, by what tells it apart, or by its properties."""
    if shape.type != "object" or shape.free:
        return shape.type
    title = shape.words.get("title")
    if isinstance(title, str) and title:
        return title
    marks = ", ".join(f"{name} = {_cut(text)}" for name, text in sorted(_marks(shape).items()))
    return f"the object with {marks or ', '.join(sorted(shape.properties)[:8]) or 'other properties'}"


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(_cut(json.dumps(value, ensure_ascii=False)) for value in values[:8])
    return shown + (f" and {len(values) - 8} more" if len(values) > 8 else "")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "…"


def _without_words(value: Any) -> Any:
    return {key: item for key, item in value.items() if key not in _WORDS} if isinstance(value, Mapping) else value
