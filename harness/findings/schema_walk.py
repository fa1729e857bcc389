"""One walk over a JSON Schema as it came: every subschema with its place, and where each reference leads.

The walk has no recursion, visits each subschema once, knows which keys are keywords (a parameter that is *named*
`properties` or `$ref` is not one) and stops at stated bounds, saying so. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urldefrag, urljoin

__all__ = [
    "DIALECTS",
    "LISTS",
    "MAPS",
    "MAX_CHARACTERS",
    "MAX_LEVELS",
    "MAX_NESTING",
    "MAX_NODES",
    "REFERENCES",
    "SINGLES",
    "Node",
    "Ref",
    "Walk",
    "dialect_of",
    "escape",
    "walk",
]

MAX_LEVELS = 128  # subschemas inside one another
MAX_NODES = 50_000  # subschemas of one schema
MAX_CHARACTERS = 1_000_000  # of one schema as JSON, about
MAX_NESTING = 2 * MAX_LEVELS  # JSON values inside one another: a schema in a keyword is two

DIALECTS: Mapping[str, str] = {
    "json-schema.org/draft-03/schema": "draft-03",
    "json-schema.org/draft-04/schema": "draft-04",
    "json-schema.org/draft-06/schema": "draft-06",
    "json-schema.org/draft-07/schema": "draft-07",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}
_NEWEST = "json-schema.org/schema"  # whatever is the newest: as good as none
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})  # and `items` where it is a list
SINGLES = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_POSITIONS = MAPS | LISTS | SINGLES
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
_STORES = frozenset({"$defs", "definitions"})  # hold schemas that apply nowhere by themselves
_OLD_ANCHORS = frozenset({"draft-03", "draft-04", "draft-06", "draft-07"})


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """One subschema.

    Attributes:
        schema: What stands there: an object, a boolean, or what is no schema at all.
        keyword: The keyword that led here: "" for the root, "$ref" for what only a reference leads to.
        key: The name or index below that keyword, None where it has none.
        parent: The schema that holds that keyword; None for the root.
        depth: How many schemas it is in.
        number: Its position in `Walk.nodes`.
        start: The pointer of a node that no chain of parents gives one.
    """

    schema: Any
    keyword: str = ""
    key: str | int | None = None
    parent: Node | None = None
    depth: int = 0
    number: int = 0
    start: str = ""
    resource: Node | None = None  # the nearest schema around it with an identifier of its own; None: the root

    @property
    def pointer(self) -> str:
        """JSON pointer from the root of the schema; "" is the root."""
        parts: list[str] = []
        node: Node = self
        while node.parent is not None and node.keyword not in REFERENCES:
            if node.key is not None:
                parts.append(escape(str(node.key)))
            parts.append(escape(node.keyword))
            node = node.parent
        return node.start + "".join(f"/{part}" for part in reversed(parts))

    @property
    def is_object(self) -> bool:
        """Whether it is a schema with keywords."""
        return isinstance(self.schema, Mapping)

    def get(self, keyword: str) -> Any:
        """The value of a keyword; None where it is absent, null, or the schema is no object."""
        return self.schema.get(keyword) if isinstance(self.schema, Mapping) else None


@dataclass(eq=False, slots=True, kw_only=True)
class Ref:
    """One reference.

    Attributes:
        node: The schema that holds it.
        keyword: `$ref`, `$dynamicRef` or `$recursiveRef`.
        value: What it says.
        status: Where it leads: to a schema of this document, to nothing in it, to another document, or it is no text.
        target: The schema that it leads to.
        recursive: The target holds this very reference, directly or through others.
        endless: It comes back to itself without having gone one level down in the data, so nobody can follow it.
    """

    node: Node
    keyword: str
    value: Any
    status: Literal["local", "dangling", "remote", "malformed"]
    target: Node | None = None
    recursive: bool = False
    endless: bool = False

    @property
    def pointer(self) -> str:
        """JSON pointer of the reference itself."""
        return f"{self.node.pointer}/{self.keyword}"


@dataclass(eq=False, slots=True, kw_only=True)
class Walk:
    """What a walk saw.

    Attributes:
        dialect: Name of the dialect that `$schema` declares, "" without one, "unknown" for another one.
        nodes: Every subschema that was reached, once each, parents first, in the order of the document.
        refs: Every reference in them.
        too_deep: Pointer of the first schema that lies deeper than `MAX_LEVELS`; what is in it was not visited.
        too_large: What there is too much of ("more than 50,000 schemas"), "" where it is not; only the root is in
            `nodes` then, as which others were visited would hang on the order of keys.
        nesting: JSON values inside one another, schemas or not; less where it is too large.
    """

    dialect: str
    nodes: list[Node]
    refs: list[Ref]
    too_deep: str | None = None
    too_large: str = ""
    nesting: int = 0
    _targets: dict[int, Ref] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The schema itself."""
        return self.nodes[0]

    def ref_of(self, node: Node) -> Ref | None:
        """The `$ref` (or its kin) that a schema holds."""
        return self._targets.get(node.number)

    def follow(self, node: Node) -> Node:
        """The schema at the end of a chain of local references; the node itself where it has none."""
        seen: set[int] = set()
        while (ref := self._targets.get(node.number)) is not None and ref.target is not None:
            if node.number in seen:
                break
            seen.add(node.number)
            node = ref.target
        return node

    def inlined_sizes(self, cap: int) -> list[int]:
        """For each node, how many schemas it becomes where every reference is replaced by its target, up to `cap`.

        A reference that leads back into itself counts as one.
        """
        sizes = [1] * len(self.nodes)
        edges = _edges(self, in_place=False)
        components = _components(len(self.nodes), edges)
        for number in components.order:  # targets and children come first
            total = 1
            for other in edges[number]:
                if components.of[other] != components.of[number]:
                    total += sizes[other]
            sizes[number] = min(cap, total)
        return sizes


def escape(part: str) -> str:
    """One part of a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def dialect_of(schema: Any) -> str:
    """The dialect that a schema declares: a name such as "draft-07", "" where it declares none, else "unknown"."""
    declared = schema.get("$schema") if isinstance(schema, Mapping) else None
    if not isinstance(declared, str):
        return ""
    name = declared.rstrip("#").partition("://")[2]
    return "" if name == _NEWEST else DIALECTS.get(name, "unknown")


def walk(schema: Any, *, max_levels: int = MAX_LEVELS, max_nodes: int = MAX_NODES) -> Walk:
    """Visits every subschema of one schema, and says where every reference in it leads.

    Args:
        schema: JSON as parsed; anything at all.
        max_levels: Schemas inside one another that are visited.
        max_nodes: Schemas that are visited.
    """
    out = Walk(dialect=dialect_of(schema), nodes=[], refs=[])
    known: dict[int, Node] = {}
    names = _Names()
    size, out.nesting = _measure(schema)
    if size > MAX_CHARACTERS:
        out.too_large = f"more than {MAX_CHARACTERS:,} characters"
    else:
        _visit(out, Node(schema=schema), known, names, max_levels, max_nodes)
    if out.too_large:
        out.nodes = [Node(schema=schema)]
        return out
    begun = 0
    while begun < len(out.nodes):
        # what only a reference leads to is visited too; containers first, so that the order of keys changes nothing
        fresh = list(_references(out.nodes[begun:]))
        begun = len(out.nodes)
        pending: list[tuple[int, str, Any, Ref]] = []
        for ref in fresh:
            out.refs.append(ref)
            if ref.keyword == "$ref" or ref.node.number not in out._targets:
                out._targets[ref.node.number] = ref
            found = _resolve(ref, out.root, names) if ref.status != "malformed" else None
            if found is None:
                continue
            pointer, value = found
            ref.status = "local"
            if isinstance(value, bool):
                ref.target = Node(schema=value, keyword=ref.keyword, parent=ref.node, start=pointer, number=-1)
            elif id(value) in known:
                ref.target = known[id(value)]
            else:
                pending.append((pointer.count("/"), pointer, value, ref))
        for _, pointer, value, ref in sorted(pending, key=lambda item: item[:2]):
            if id(value) not in known:
                node = Node(
                    schema=value, keyword=ref.keyword, parent=ref.node, start=pointer, resource=ref.node.resource
                )
                _visit(out, node, known, names, max_levels, max_nodes)
                if out.too_large:
                    return Walk(
                        dialect=out.dialect,
                        nodes=[Node(schema=schema)],
                        refs=[],
                        too_large=out.too_large,
                        nesting=out.nesting,
                    )
            ref.target = known.get(id(value))
    if out.refs:
        _find_cycles(out)
    return out


def _measure(schema: Any) -> tuple[int, int]:
    """About how many characters a JSON value takes, and how deeply it is nested; stops where it is too large."""
    deepest = size = 0
    stack: list[tuple[Any, int]] = [(schema, 0)]
    while stack and size <= MAX_CHARACTERS:
        value, depth = stack.pop()
        if isinstance(value, str):
            size += len(value) + 4
        elif isinstance(value, Mapping):
            deepest = max(deepest, depth)
            size += sum(map(len, value)) + 4 * len(value)
            if size > MAX_CHARACTERS:
                break
            stack.extend([(item, depth + 1) for item in value.values()])
        elif isinstance(value, list):
            deepest = max(deepest, depth)
            size += 2 * len(value)
            if size > MAX_CHARACTERS:
                break
            stack.extend([(item, depth + 1) for item in value])
        else:
            size += 4
    return size, deepest


class _Names:
    """Schemas that references can name: by an anchor, or by an identifier."""

    def __init__(self) -> None:
        self.anchors: dict[tuple[int, str], Node] = {}  # (number of the resource's root, anchor)
        self.resources: dict[str, Node] = {}
        self.uris: dict[int, str] = {}

    def read(self, node: Node, dialect: str) -> None:
        """Takes in what a schema calls itself, and makes it a resource of its own where it says so."""
        identifier = node.schema.get("$id", node.schema.get("id") if dialect in {"draft-03", "draft-04"} else None)
        around = node.resource.number if node.resource is not None else 0
        if isinstance(identifier, str) and identifier:
            if identifier.startswith("#"):
                if dialect in _OLD_ANCHORS:
                    self.anchors.setdefault((around, identifier[1:]), node)
            else:
                uri = _join(self.uris.get(around, ""), identifier.rstrip("#"))
                self.uris[node.number] = uri
                self.resources.setdefault(uri, node)
                if node.parent is not None:
                    node.resource, around = node, node.number
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.schema.get(keyword)
            if isinstance(anchor, str):
                self.anchors.setdefault((around, anchor), node)


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # brackets that are no address
        return reference


def _visit(out: Walk, root: Node, known: dict[int, Node], names: _Names, max_levels: int, max_nodes: int) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        schema = node.schema
        if isinstance(schema, Mapping | list):
            earlier = known.get(id(schema))
            if earlier is not None and (node is root or earlier.keyword in REFERENCES):
                continue
            if node.depth > max_levels:
                out.too_deep = out.too_deep if out.too_deep is not None else node.pointer
                continue
        if len(out.nodes) + len(stack) >= max_nodes:
            out.too_large = f"more than {max_nodes:,} schemas"
            return
        node.number = len(out.nodes)
        out.nodes.append(node)
        if not isinstance(schema, Mapping):
            continue
        known.setdefault(id(schema), node)
        names.read(node, out.dialect)
        if not schema.keys().isdisjoint(_POSITIONS):
            stack.extend(reversed(list(_children(node, schema))))


def _children(node: Node, schema: Mapping[str, Any]) -> Iterator[Node]:
    for keyword, value in schema.items():
        if keyword not in _POSITIONS:
            continue
        held: Sequence[tuple[str | int | None, Any]]
        if keyword in MAPS:
            if not isinstance(value, Mapping):
                continue
            held = [(key, item) for key, item in value.items() if keyword != "dependencies" or not _names_only(item)]
        elif isinstance(value, list):
            if keyword in SINGLES and keyword != "items":
                continue
            held = list(enumerate(value))
        elif keyword in SINGLES:
            held = [(None, value)]
        else:
            continue
        for key, item in held:
            yield Node(schema=item, keyword=keyword, key=key, parent=node, depth=node.depth + 1, resource=node.resource)


def _names_only(value: Any) -> bool:
    return isinstance(value, list | str)


def _references(nodes: Sequence[Node]) -> Iterator[Ref]:
    for node in nodes:
        if not isinstance(node.schema, Mapping):
            continue
        for keyword in REFERENCES:
            if keyword not in node.schema:
                continue
            value = node.schema[keyword]
            if not isinstance(value, str):
                yield Ref(node=node, keyword=keyword, value=value, status="malformed")
            else:
                local = value.startswith("#") or not value
                yield Ref(node=node, keyword=keyword, value=value, status="dangling" if local else "remote")


def _resolve(ref: Ref, root: Node, names: _Names) -> tuple[str, Any] | None:
    """(pointer, schema) of what a reference leads to in this document, None where that is nothing."""
    base = ref.node.resource or root
    document, fragment = _split(ref.value)
    if document:
        found = names.resources.get(_join(names.uris.get(base.number, ""), document))
        if found is None:
            return None
        base = found
    if fragment and not fragment.startswith("/"):
        anchored = names.anchors.get((base.number, fragment))
        return (anchored.pointer, anchored.schema) if anchored is not None else None
    value = base.schema
    parts = [part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:]] if fragment else []
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    if not isinstance(value, Mapping | bool):
        return None
    return base.pointer + "".join(f"/{escape(part)}" for part in parts), value


def _split(value: str) -> tuple[str, str]:
    if value.startswith("#"):
        return "", unquote(value[1:])
    try:
        document, fragment = urldefrag(value)
    except ValueError:
        document, _, fragment = value.partition("#")
    return document, unquote(fragment)


@dataclass(eq=False, slots=True, kw_only=True)
class _Components:
    """Strongly connected parts of a graph: the part of each node, and an order in which what is reached comes first."""

    of: list[int]
    order: list[int]


def _edges(out: Walk, *, in_place: bool) -> list[list[int]]:
    """What each schema leads to: its subschemas and the targets of its references.

    Args:
        in_place: Only what applies to the same part of the data.
    """
    edges: list[list[int]] = [[] for _ in out.nodes]
    for node in out.nodes:
        if node.parent is None or node.keyword in REFERENCES or node.keyword in _STORES:
            continue
        if not in_place or node.keyword in _IN_PLACE:
            edges[node.parent.number].append(node.number)
    for ref in out.refs:
        if ref.target is not None and ref.target.number >= 0:
            edges[ref.node.number].append(ref.target.number)
    return edges


def _find_cycles(out: Walk) -> None:
    parts = _components(len(out.nodes), _edges(out, in_place=False)).of
    tight = _components(len(out.nodes), _edges(out, in_place=True)).of
    for ref in out.refs:
        if ref.target is not None and ref.target.number >= 0:
            ref.recursive = parts[ref.node.number] == parts[ref.target.number]
            ref.endless = tight[ref.node.number] == tight[ref.target.number]


def _components(count: int, edges: Sequence[Sequence[int]]) -> _Components:
    """Tarjan's algorithm, with a stack of its own instead of the interpreter's."""
    index, low, part = [-1] * count, [0] * count, [-1] * count
    waiting: list[int] = []
    order: list[int] = []
    tick = parts = 0
    for start in range(count):
        if index[start] >= 0:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = tick
        tick += 1
        waiting.append(start)
        while work:
            number, rest = work[-1]
            for other in rest:
                if index[other] < 0:
                    index[other] = low[other] = tick
                    tick += 1
                    waiting.append(other)
                    work.append((other, iter(edges[other])))
                    break
                if part[other] < 0:
                    low[number] = min(low[number], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    while part[number] < 0:
                        member = waiting.pop()
                        part[member] = parts
                        order.append(member)
                    parts += 1
    return _Components(of=part, order=order)
