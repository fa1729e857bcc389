"""How two JSON Schemas differ, not in their spelling but in the values that they let through.

Both are taken apart, level by level, into alternatives of one type each (`anyOf`, `oneOf`, type lists, `const`, `enum`,
`allOf` and local `$ref`s all come to that), which are matched and compared; so two spellings of one thing are no
difference. What cannot be told in bounded time, or needs more than this comparison knows, is a difference whose effect
is "unknown", never none.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.findings.schema_shapes import (
    MAX_ALTERNATIVES,
    MAX_STEPS,
    WORDS,
    Node,
    Opaque,
    Part,
    Place,
    Shape,
    Side,
    Spend,
    TooMuch,
    is_of,
    item_at,
    join,
    loaded,
    marks,
    never,
    plain,
    tighter,
    without_words,
)
from harness.model.bounded import BudgetExceeded, validate
from harness.model.contract import ABSENT, equal, same_words

__all__ = ["Difference", "Direction", "Effect", "differences", "is_alike", "similar"]

Direction = Literal["input", "output"]
Effect = Literal["narrowed", "widened", "changed", "unknown", "maybe-narrowed", "maybe-widened", "words"]
MAX_LEVELS = 60  # of the schema; beyond, equal spelling is all that is known
ALIKE = 0.6  # of a name, so that a removed and an added one may be one that was renamed


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
        comparison.compare((Part(before, ""),), (Part(after, ""),), 0)
    except TooMuch as error:
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


class _Comparison:
    """Collects the differences of two schemas."""

    def __init__(self, before: Any, after: Any, direction: Direction) -> None:
        self._spend = Spend(MAX_STEPS)
        self._before, self._after = Side(before, self._spend), Side(after, self._spend)
        self._input = direction == "input"
        self._done: set[tuple[str, ...]] = set()
        self.found: list[Difference] = []

    def compare(self, old: Place, new: Place, level: int, *, needed: bool = False) -> None:
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
        except Opaque as error:
            if not self._spelled_alike(old, new):
                pointer = _pointer(new, old)
                self._add(pointer, "a schema that cannot be compared", "unknown", before, after, str(error))
            return
        pointer = _pointer(new, old)
        self._words(a.words, b.words, pointer)
        self._default(a.default, b.default, pointer, needed)
        self._alternatives(a, b, pointer, before, after, level)

    def _spelled_alike(self, old: Place, new: Place) -> bool:
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

    def _probe(self, old: Shape, new: Shape, level: int) -> list[Difference]:
        """The differences of two alternatives, without telling them."""
        found, done = self.found, self._done
        self.found, self._done = [], set(done)
        try:
            self._shape(old, new, level)
            return self.found
        finally:
            self.found, self._done = found, done

    def _words(self, old: Mapping[str, Any], new: Mapping[str, Any], pointer: str) -> None:
        for key in WORDS:
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

    def _alternatives(self, a: Node, b: Node, pointer: str, before: Any, after: Any, level: int) -> None:
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
        self, olds: Sequence[Shape], news: Sequence[Shape], level: int
    ) -> tuple[list[tuple[Shape, Shape]], list[Shape], list[Shape]]:
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
        self, old: Shape, new: Shape, olds: Sequence[Shape], news: Sequence[Shape], level: int
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

    def _held(self, shape: Shape, others: Iterable[Shape], level: int, *, inside: bool) -> bool:
        """Whether an alternative without a partner is part of one on the other side."""
        for other in others:
            if other.type == shape.type or (shape.type, other.type) == ("integer", "number"):
                old, new = (shape, other) if inside else (other, shape)
                wanted = "widened" if inside else "narrowed"
                if all(item.effect in (wanted, "words") for item in self._probe(old, new, level)):
                    return True
        return False

    def _apart(self, olds: Sequence[Shape], news: Sequence[Shape]) -> bool:
        numbers = {"integer", "number"}
        return not any(a.type == b.type or {a.type, b.type} == numbers for a in olds for b in news)

    def _shape(self, a: Shape, b: Shape, level: int) -> None:
        self._spend(1)
        pointer = b.pointer
        if a.type != b.type and (a.enum is None or b.enum is None):
            effect: Effect = "widened" if (a.type, b.type) == ("integer", "number") else "narrowed"
            self._add(join(pointer, "type"), f"{a.type} became {b.type}", effect, a.type, b.type)
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

    def _enum(self, a: Shape, b: Shape, pointer: str) -> None:
        old, new = a.enum, b.enum
        at = join(pointer, "enum")
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

    def _bounds(self, a: Shape, b: Shape, pointer: str) -> None:
        for is_low, old, new in ((True, a.low, b.low), (False, a.high, b.high)):
            if old == new:
                continue
            name = ("exclusiveM" if (new or old or (0, False))[1] else "m") + ("inimum" if is_low else "aximum")
            tight = new is not None and (old is None or tighter(old, new, is_low=is_low) == new)
            self._bound(join(pointer, name), name, None if old is None else old[0], None if new is None else new[0],
                        tight)  # fmt: skip
        for key in sorted({*a.bounds, *b.bounds}):
            low, high = a.bounds.get(key), b.bounds.get(key)
            if low != high:
                tight = low is None or (high is not None and (high > low) == key.startswith("min"))
                self._bound(join(pointer, key), key, low, high, tight)
        if a.unique != b.unique:
            self._bound(join(pointer, "uniqueItems"), "uniqueItems", a.unique or None, b.unique or None, b.unique)

    def _bound(self, pointer: str, name: str, old: Any, new: Any, tight: bool) -> None:
        verb = "added" if old is None else "removed" if new is None else "tightened" if tight else "relaxed"
        effect: Effect = "narrowed" if tight else "widened"
        before, after = (ABSENT if item is None else item for item in (old, new))
        self._add(pointer, f"{name} {verb}", effect, before, after)

    def _set(self, key: str, old: frozenset[str], new: frozenset[str], pointer: str) -> None:
        if old == new:
            return
        before, after = (loaded(items) for items in (old, new))
        effect: Effect = "narrowed" if old < new else "widened" if old > new else "unknown"
        if key == "multipleOf" and len(old) == len(new) == 1:
            effect = _multiples(before, after)
        verb = "added" if not old else "removed" if not new else "changed"
        self._add(join(pointer, key), f"{key} {verb}", effect, before, after)

    def _hint(self, key: str, old: str | None, new: str | None, pointer: str) -> None:
        if old == new:
            return
        before, after = (ABSENT if item is None else json.loads(item) for item in (old, new))
        verb = "added" if old is None else "removed" if new is None else "changed"
        effects: Mapping[str, Effect] = {"added": "maybe-narrowed", "removed": "maybe-widened", "changed": "unknown"}
        self._add(join(pointer, key), f"{key} {verb}", effects[verb], before, after)

    def _keyword(self, key: str, old: str | None, new: str | None, pointer: str) -> None:
        if old == new:
            return
        name = key.partition(" ")[0]
        before, after = (ABSENT if item is None else plain(json.loads(item), name) for item in (old, new))
        verb = "added" if old is None else "removed" if new is None else "changed"
        effects: Mapping[str, Effect] = {"added": "narrowed", "removed": "widened", "changed": "unknown"}
        effect = "unknown" if name == "$ref" else effects[verb]
        self._add(join(pointer, name), f"{name} {verb}", effect, before, after)

    def _array(self, a: Shape, b: Shape, level: int) -> None:
        for index in range(max(len(a.prefix), len(b.prefix))):
            self._item(item_at(a, index), item_at(b, index), b, level)
        self._item(a.rest, b.rest, b, level)

    def _item(self, old: Place, new: Place, shape: Shape, level: int) -> None:
        if not old and not new:
            return
        if never(old) != never(new):
            kind, effect = ("fewer items", "narrowed") if never(new) else ("more items", "widened")
            self._add(_pointer(new, old), kind, effect, _shown(old), _shown(new))  # type: ignore[arg-type]
            return
        self.compare(
            old or (Part(True, f"{shape.pointer}/items"),), new or (Part(True, f"{shape.pointer}/items"),), level + 1
        )

    # objects

    def _object(self, a: Shape, b: Shape, level: int) -> None:
        gone = [name for name in a.properties if name not in b.properties and not never(a.properties[name])]
        come = [name for name in b.properties if never(a.properties.get(name, ())) or name not in a.properties]
        come = [name for name in come if not never(b.properties[name])]
        renamed = self._renamed(a, b, gone, come)
        noun = "parameter" if self._input else "field"
        for name in a.properties:
            if name in b.properties:
                old, new = a.properties[name], b.properties[name]
                needed = name in a.required and name in b.required
                self._required(name, a, b, _pointer(new, old), noun)
                if never(new) and not never(old):
                    self._add(_pointer(old, ()), f"a {noun} is gone", "changed", _shown(old), False, name)
                elif not never(old):
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
            self._required(name, a, b, join(b.pointer, "required"), noun)
        self._extra(a, b, level)
        for key in dict.fromkeys([*a.patterns, *b.patterns]):
            if key in a.patterns and key in b.patterns:
                self.compare(a.patterns[key], b.patterns[key], level + 1)
            else:
                verb = "added" if key in b.patterns else "removed"
                old, new = a.patterns.get(key, ()), b.patterns.get(key, ())
                before, after = (_shown(item) if item else ABSENT for item in (old, new))
                self._add(_pointer(new, old), f"patternProperties {verb}", "unknown", before, after)

    def _refused(self, name: str, a: Shape, b: Shape, noun: str) -> None:
        """A property that is `false` on one side and not named on the other, where all others may be sent."""
        if name not in b.properties and never(a.properties[name]) and not b.closed:
            self._add(_pointer(a.properties[name], ()), f"a {noun} is refused no more", "widened", False, ABSENT, name)
        if name not in a.properties and never(b.properties[name]) and not a.closed:
            self._add(_pointer(b.properties[name], ()), f"a {noun} is refused", "narrowed", ABSENT, False, name)

    def _come(self, name: str, a: Shape, b: Shape, level: int) -> None:
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

    def _required(self, name: str, a: Shape, b: Shape, pointer: str, noun: str) -> None:
        was, is_ = name in a.required, name in b.required
        if was != is_:
            kind = f"a {noun} became required" if is_ else f"a {noun} became optional"
            words = ("required", "optional") if was else ("optional", "required")
            self._add(pointer, kind, "narrowed" if is_ else "widened", *words, name)

    def _extra(self, a: Shape, b: Shape, level: int) -> None:
        if a.extra == b.extra == ():
            return
        if a.closed and b.closed:
            return
        if a.closed or b.closed:
            kind, effect = ("the object was closed", "narrowed") if b.closed else ("the object was opened", "widened")
            pointer = join(b.pointer, "additionalProperties")
            before, after = (_shown(item) if item else True for item in (a.extra, b.extra))
            self._add(pointer, kind, effect, before, after)  # type: ignore[arg-type]
            return
        at = join(b.pointer, "additionalProperties")
        self.compare(a.extra or (Part(True, at),), b.extra or (Part(True, at),), level + 1)

    def _renamed(self, a: Shape, b: Shape, gone: Sequence[str], come: Sequence[str]) -> dict[str, str]:
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
                if like and equal(without_words(old), without_words(new)):
                    out[name] = other
                    break
        return out


def _score(old: Shape, new: Shape, *, alone: bool) -> float:
    """How much speaks for two alternatives being the same; 0 if nothing can, and there is another (not `alone`)."""
    if old.type != new.type:
        return 1.0 if {old.type, new.type} == {"integer", "number"} else 0.0
    score = 2.0
    if old.pointer == new.pointer:
        score += 0.5
    if isinstance(old.words.get("title"), str) and old.words.get("title") == new.words.get("title"):
        score += 20
    if old.type == "object":
        mine, theirs = marks(old), marks(new)
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


def _within(inner: Sequence[Shape], outer: Sequence[Shape]) -> bool:
    return all(any((a.type, b.type) == ("integer", "number") for b in outer) for a in inner)


def _admits(shape: Shape, value: Any) -> bool:
    """Whether an alternative without an `enum` lets a scalar through; what cannot be told is no."""
    if shape.opaque or shape.hints or not is_of(value, shape.type) or isinstance(value, Mapping | list):
        return shape.free and is_of(value, shape.type)
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


def _shown(place: Place) -> Any:
    """The JSON of a place, for people."""
    if not place:
        return True
    return place[0].schema if len(place) == 1 else {"allOf": [schema for schema, _ in place]}


def _pointer(first: Place, second: Place) -> str:
    return (first or second or (Part(True, ""),))[0].pointer


def _names(shapes: Iterable[Shape]) -> str:
    return " or ".join(dict.fromkeys(_name(shape) for shape in shapes))


def _name(shape: Shape) -> str:
    """What people call an alternative: an object by its title, by what tells it apart, or by its properties."""
    if shape.type != "object" or shape.free:
        return shape.type
    title = shape.words.get("title")
    if isinstance(title, str) and title:
        return title
    told = ", ".join(f"{name} = {_cut(text)}" for name, text in sorted(marks(shape).items()))
    return f"the object with {told or ', '.join(sorted(shape.properties)[:8]) or 'other properties'}"


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(_cut(json.dumps(value, ensure_ascii=False)) for value in values[:8])
    return shown + (f" and {len(values) - 8} more" if len(values) > 8 else "")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "…"
