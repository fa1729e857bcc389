"""The parameters of an input schema, flat: every property with its path, through references, unions and lists.

`filter.tags[]` is an item of the list `tags` in the object `filter`; `labels.*` is any value of a free map. What
applies in place (`$ref`, `allOf`, `anyOf`, `oneOf`, `then`, `else`) is looked through. A schema that holds itself is
followed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.findings.schema_walk import Node, Walk, walk
from harness.model.outcome import cut_json, same_json

__all__ = ["ITEM", "MAX_DEPTH", "MAX_FIELDS", "VALUE", "Branch", "Field", "Fields", "fields_of", "fits", "kinds_of"]

MAX_FIELDS = 2_000  # of one schema
MAX_DEPTH = 12  # properties and items inside one another
MAX_WORK = 300_000  # schemas looked at, each again for every parameter that it applies to
_Within = dict[Node, frozenset[int]]  # schemas of one value -> the numbers of those that led to each, itself too
ITEM = "[]"
VALUE = "*"
_IN_PLACE = ("allOf", "anyOf", "oneOf", "then", "else")
_UNIONS = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One way in which a value may be formed: a branch of a union, or one type of several."""

    label: str
    nodes: tuple[Node, ...] = ()
    type: str = ""


@dataclass(slots=True, kw_only=True)
class Field:
    """One parameter.

    Attributes:
        path: Names of properties, `[]` for an item, `*` for a value of a free map.
        nodes: Every schema that applies to it, in the order of the document; `first` is where it is declared.
        required: Whether it must be there whenever the object around it is.
        branches: Ways in which its value may be formed, null left out; none where there is only one.
        values: Values that it may have, null left out; none where they are not listed.
    """

    path: tuple[str, ...]
    nodes: tuple[Node, ...]
    required: bool
    branches: tuple[Branch, ...] = ()
    values: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """`filter.tags[]`"""
        out = ""
        for part in self.path:
            out += part if part == ITEM else f".{part}" if out else part
        return out

    @property
    def first(self) -> Node:
        """The schema where it is declared."""
        return self.nodes[0]

    @property
    def is_property(self) -> bool:
        """Whether it has a name of its own: no item of a list, and no value of a free map."""
        return self.path[-1] not in (ITEM, VALUE)


@dataclass(slots=True, kw_only=True)
class Fields:
    """All parameters of one schema, sorted by path.

    Attributes:
        root: The schemas that apply to the arguments as a whole.
        cut: There are more than the bounds allow; the others are left out.
    """

    walk: Walk
    root: tuple[Node, ...]
    all: list[Field] = field(default_factory=list)
    cut: bool = False


def fields_of(schema: Any) -> Fields:
    """The parameters of one input schema, whatever it holds."""
    seen = walk(schema)
    children: dict[int, list[Node]] = {}
    for node in seen.nodes:
        if node.parent is not None:
            children.setdefault(node.parent.number, []).append(node)
    reader = _Reader(seen, children)
    root = reader.applying({seen.root: frozenset()})
    out = Fields(walk=seen, root=tuple(root), cut=bool(seen.too_large) or seen.too_deep is not None)
    stack: list[tuple[tuple[str, ...], _Within]] = [((), root)]
    while stack:
        path, around = stack.pop()
        if len(path) > MAX_DEPTH or len(out.all) >= MAX_FIELDS or reader.work > MAX_WORK:
            out.cut = True
            continue
        for name, held, required in reader.below(around):
            inner = reader.applying(held)
            made = Field(
                path=(*path, name),
                nodes=tuple(inner),
                required=required,
                branches=tuple(reader.branches(inner)),
                values=tuple(_values(inner)),
            )
            out.all.append(made)
            stack.append((made.path, inner))
    out.all.sort(key=lambda item: item.path)
    return out


class _Reader:
    """What applies where, in one walked schema."""

    def __init__(self, seen: Walk, children: Mapping[int, list[Node]]) -> None:
        self.seen, self.children, self.work = seen, children, 0

    def applying(self, nodes: _Within) -> _Within:
        """The nodes and all that applies to the same value, each once, but for what they are in themselves."""
        out: _Within = {}
        stack = list(nodes.items())[::-1]
        while stack:
            node, above = stack.pop()
            if node in out or node.number in above:
                continue
            out[node] = within = above | {node.number}
            self.work += 1
            ref = self.seen.ref_of(node)
            if ref is not None and ref.target is not None:
                stack.append((ref.target, within))
            inner = [child for child in self.children.get(node.number, ()) if child.keyword in _IN_PLACE]
            stack += [(child, within) for child in reversed(inner)]
        return out

    def below(self, nodes: _Within) -> Iterator[tuple[str, _Within, bool]]:
        """(name, schemas, whether required) of everything one level down."""
        held: dict[str, _Within] = {}
        required: set[str] = set()
        for node, within in nodes.items():
            listed = node.get("required")
            if isinstance(listed, list):
                required |= {name for name in listed if isinstance(name, str)}
            for child in self.children.get(node.number, ()):
                if child.keyword == "properties":
                    held.setdefault(str(child.key), {})[child] = within
                elif child.keyword in ("items", "prefixItems"):
                    held.setdefault(ITEM, {})[child] = within
                elif child.keyword in ("additionalProperties", "patternProperties") and child.is_object:
                    held.setdefault(VALUE, {})[child] = within
        for name in sorted(held):
            yield name, held[name], name in required

    def branches(self, nodes: Iterable[Node]) -> Iterator[Branch]:
        found: list[Branch] = []
        for node in nodes:
            kinds = [kind for kind in kinds_of(node) if kind != "null"]
            if len(kinds) > 1:
                found += [Branch(label=kind, nodes=(node,), type=kind) for kind in kinds]
            for child in self.children.get(node.number, ()):
                if child.keyword in _UNIONS:
                    inner = tuple(self.applying({child: frozenset()}))
                    if not all(_is_null(item) for item in inner):
                        found.append(Branch(label=self._label(child, inner), nodes=inner))
        if len(found) > 1:
            counts: dict[str, int] = {}
            for branch in found:
                counts[branch.label] = counts.get(branch.label, 0) + 1
                number = counts[branch.label]
                label = branch.label if number == 1 else f"{branch.label} {number}"
                yield Branch(label=label, nodes=branch.nodes, type=branch.type)

    def _label(self, child: Node, inner: Iterable[Node]) -> str:
        for node in inner:
            title = node.get("title")
            if isinstance(title, str) and title:
                return title
        ref = self.seen.ref_of(child)
        if ref is not None and isinstance(ref.value, str):
            return ref.value.rpartition("/")[2]
        for node in inner:
            if kinds := kinds_of(node):
                return " or ".join(kinds)
            if "const" in (node.schema if node.is_object else ()):
                return cut_json(node.schema["const"], 40)
        return f"{child.keyword} {child.key}"


def kinds_of(node: Node) -> tuple[str, ...]:
    """The types that a schema itself names."""
    found = node.get("type")
    if isinstance(found, str):
        return (found,)
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def _is_null(node: Node) -> bool:
    if not node.is_object:
        return False
    return kinds_of(node) == ("null",) or ("const" in node.schema and node.schema["const"] is None)


def _values(nodes: Iterable[Node]) -> Iterator[Any]:
    """The values of all enums and consts, null left out; none where there is only one."""
    found: list[Any] = []
    for node in nodes:
        listed = node.get("enum")
        own = list(listed) if isinstance(listed, list) else []
        if node.is_object and "const" in node.schema:
            own.append(node.schema["const"])
        found += [item for item in own if item is not None and not any(same_json(item, other) for other in found)]
    return iter(found if len(found) > 1 else ())


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "number": (int, float),
    "object": Mapping,
    "string": str,
}


def _is_of(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    if kind == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    known = _TYPES.get(kind)
    return known is None or (isinstance(value, known) and (kind == "boolean" or not isinstance(value, bool)))


def fits(branch: Branch, value: Any) -> bool:
    """Whether a value may have been formed in this way, as far as its type, its listed values and its keys show."""
    if branch.type:
        return _is_of(value, branch.type)
    return all(_fits(node, value) for node in branch.nodes if node.keyword not in _UNIONS or node is branch.nodes[0])


def _fits(node: Node, value: Any) -> bool:
    schema = node.schema
    if not isinstance(schema, Mapping):
        return schema is not False
    kinds = kinds_of(node)
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        return False
    if "const" in schema and not same_json(schema["const"], value):
        return False
    if isinstance(schema.get("enum"), list) and not any(same_json(item, value) for item in schema["enum"]):
        return False
    if isinstance(value, Mapping):
        required = schema.get("required")
        if isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required):
            return False
        properties = schema.get("properties")
        for name, sub in properties.items() if isinstance(properties, Mapping) else ():
            fixed = sub.get("const", ...) if isinstance(sub, Mapping) else ...
            if fixed is not ... and name in value and not same_json(fixed, value[name]):
                return False
    return True
