"""JSON Schema validation that cannot hang, fetch, or die: a budget of steps, a bound on depth, no network.

`jsonschema` fetches remote references by default, can take exponential time, and recurses with the data. Here every
keyword that is evaluated costs steps of a budget, so the bound is the same on every machine, and about a second on a
slow one; patterns run in a regex engine with a time-out; `enum`, `const` and `uniqueItems` are linear; no reference is
ever fetched. How large a schema may be is bounded too.
"""

from __future__ import annotations

import functools
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any

import regex

from harness.model.formats import format_holds

__all__ = [
    "MAX_DEPTH",
    "MAX_STEPS",
    "PATTERN_TIMEOUT_S",
    "BudgetExceeded",
    "InvalidSchema",
    "Prepared",
    "depth_of",
    "prepared",
    "validate",
]

MAX_DEPTH = 128
MAX_STEPS = 200_000
MAX_SCHEMA_OBJECTS = 5_000
PATTERN_TIMEOUT_S = 1.0
MAX_VIOLATIONS = 50
MAX_PREPARED = 2_000  # schemas that are kept
_CHARACTERS_A_STEP = 64
_BRANCH_STEPS = 5  # what a keyword costs that begins a validation of its own, compared with one that looks at a value
_BRANCHES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"})
_WHOLE_FLOAT = re.compile(r"\.0(?![0-9])|[0-9]e\+?[0-9]")


class BudgetExceeded(Exception):
    """The validation would cost too much, or needs what is not here; the message says what."""


class InvalidSchema(BudgetExceeded):
    """The schema itself is not valid by the meta-schema of its dialect; `pointer` says where."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


def depth_of(value: Any) -> int:
    """How deeply a JSON value is nested; a scalar is 0."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(item, Mapping):
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list | tuple):
            stack.extend((child, depth + 1) for child in item)
    return deepest


def validate(schema: Any, instance: Any, *, steps: int = MAX_STEPS) -> list[tuple[str, str]]:
    """All violations as (JSON pointer, message), sorted; empty when the instance is valid.

    Args:
        schema: A JSON Schema; its `$schema` decides the dialect, 2020-12 without one.
        steps: How many may be taken; most keywords cost one.
    Raises:
        BudgetExceeded: Too deep, too many steps, a pattern that takes too long or that no engine reads,
            a reference that cannot be resolved here, a schema that is none, or one that no bound holds for.
    """
    return Prepared(schema).violations(instance, steps=steps)


class Prepared:
    """A schema that was looked at once, for many instances.

    Raises:
        InvalidSchema: It is no JSON Schema.
        BudgetExceeded: No bound holds for it.
    """

    def __init__(self, schema: Any) -> None:
        import jsonschema
        from jsonschema.validators import validator_for

        if depth_of(schema) > MAX_DEPTH:
            raise BudgetExceeded(f"nested deeper than {MAX_DEPTH} levels")
        if not isinstance(schema, Mapping | bool):
            raise InvalidSchema("the schema is not valid: it is neither an object nor a boolean")
        base: Any = jsonschema.Draft202012Validator
        if isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str):
            base = validator_for(schema, default=base)
            # a schema that names its dialect would be read by the library's own class wherever a reference leads to it
            schema = {key: value for key, value in schema.items() if key != "$schema"}
        _refuse_unbounded(schema)
        try:
            # no formats: "regex" would be judged by another engine than the one that matches here
            base.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
        except jsonschema.SchemaError as error:
            where = _pointer(error.absolute_path)
            raise InvalidSchema(f"the schema is not valid: {error.message[:200]}", where) from None
        except RecursionError:
            raise BudgetExceeded("it recurses too deeply") from None
        except _GAVE_UP as error:
            raise _gave_up(error) from None
        self._base, self._schema = base, schema

    def violations(self, instance: Any, *, steps: int = MAX_STEPS, formats: bool = False) -> list[tuple[str, str]]:
        """All violations as (JSON pointer, message), sorted; empty when the instance is valid.

        Args:
            steps: How many may be taken; most keywords cost one.
            formats: Whether `format` is looked at; else it is an annotation, as in the specification.
        Raises:
            BudgetExceeded: As for `validate`.
        """
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        if depth_of(instance) > MAX_DEPTH:
            raise BudgetExceeded(f"nested deeper than {MAX_DEPTH} levels")
        budget: Token[_Budget] | None = None
        try:
            found = []
            validator = _bounded(self._base, formats)(self._schema, registry=Registry())
            budget = _BUDGET.set(_Budget(steps))
            for error in validator.iter_errors(instance):
                message = _words(error)
                message = message if len(message) <= 300 else message[:300] + "…"
                found.append((_pointer(error.absolute_path), message))
                if len(found) >= MAX_VIOLATIONS:
                    break
        except Unresolvable as error:
            raise BudgetExceeded(f"a reference that is not in the schema: {error}") from None
        except RecursionError:
            raise BudgetExceeded("it recurses too deeply") from None
        except _GAVE_UP as error:
            raise _gave_up(error) from None
        finally:
            if budget is not None:
                _BUDGET.reset(budget)
        return sorted(found)


_PREPARED: OrderedDict[str, Prepared | BudgetExceeded] = OrderedDict()


def prepared(schema: Any) -> Prepared:
    """As `Prepared`, but an equal schema is looked at once: a server lists the same ones in every run.

    Raises:
        InvalidSchema: It is no JSON Schema.
        BudgetExceeded: No bound holds for it.
    """
    try:
        text = json.dumps(schema)
    except (RecursionError, TypeError, ValueError):
        return Prepared(schema)
    if text not in _PREPARED:
        try:
            _PREPARED[text] = Prepared(schema)
        except BudgetExceeded as error:
            _PREPARED[text] = error
        if len(_PREPARED) > MAX_PREPARED:
            _PREPARED.popitem(last=False)
    found = _PREPARED[text]
    if isinstance(found, BudgetExceeded):
        raise found.with_traceback(None)
    return found


def _pointer(path: Iterable[Any]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _words(error: Any) -> str:
    """What a violation says, with values as JSON spells them."""
    wanted = error.validator_value
    if error.validator == "type":
        names = [wanted] if isinstance(wanted, str) else wanted
        if all(isinstance(name, str) for name in names):
            return f"{_as_json(error.instance)} is not of type {' or '.join(map(repr, names))}"
    elif error.validator == "enum":
        return f"{_as_json(error.instance)} is not one of {_as_json(wanted)}"
    elif error.validator == "const":
        return f"{_as_json(error.instance)} is not {_as_json(wanted)}, the only value that is allowed"
    elif error.validator in ("anyOf", "oneOf"):
        if error.context:
            return f"{_as_json(error.instance)} fits none of the {len(wanted)} schemas of {error.validator}"
        return f"{_as_json(error.instance)} fits more than one of the schemas of {error.validator}"
    return str(error.message)


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= 200 else text[:200] + "…"


_GAVE_UP = (ArithmeticError, ValueError, TypeError, AttributeError, LookupError)


def _gave_up(error: Exception) -> BudgetExceeded:
    return BudgetExceeded(f"the validator gave up on it: {type(error).__name__}: {str(error)[:200]}")


class _Budget:
    """The steps that are left, and what was worked out of the schema already."""

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps
        self.texts: dict[int, frozenset[str]] = {}

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"more than {self.steps} validation steps")

    def canonical(self, value: Any) -> str:
        """A text that is the same for equal JSON values, and for no others."""
        text = json.dumps(value, sort_keys=True)
        self.spend(len(text) // _CHARACTERS_A_STEP)
        return json.dumps(_numbers(value), sort_keys=True) if _WHOLE_FLOAT.search(text) else text

    def all_of(self, values: list[Any]) -> frozenset[str]:
        """The same of every value of a list in the schema, worked out once."""
        if id(values) not in self.texts:
            self.texts[id(values)] = frozenset(map(self.canonical, values))
        return self.texts[id(values)]


_BUDGET: ContextVar[_Budget] = ContextVar("budget")


@functools.cache  # a class takes longer to make than most values to validate
def _bounded(base: Any, formats: bool) -> Any:
    """A validator class that stops when the budget in force is spent."""
    from jsonschema.validators import extend

    def counted(keyword: str, check: Any) -> Any:
        replacement = _LINEAR.get(keyword)
        cost = _BRANCH_STEPS if keyword in _BRANCHES else 1

        def run(validator: Any, value: Any, item: Any, around: Any) -> Iterator[Any]:
            budget = _BUDGET.get()
            budget.spend(cost)
            if replacement is not None:
                yield from replacement(budget, validator, value, item, around)
            else:
                yield from check(validator, value, item, around) or ()

        return run

    checks = {name: counted(name, check) for name, check in base.VALIDATORS.items()}
    return extend(base, {**checks, "format": _format} if formats else checks)


def _refuse_unbounded(schema: Any) -> None:
    """Refuses what the library would take out of our hands, and a schema that takes it long to check."""
    stack, keys, objects = [schema], set(), 0
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            objects += 1
            keys |= item.keys() & {"patternProperties", "unevaluatedProperties"}
            if isinstance(item.get("$schema"), str):
                raise BudgetExceeded("a schema inside the schema names a dialect of its own")
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    if objects > MAX_SCHEMA_OBJECTS:
        raise BudgetExceeded(f"the schema holds more than {MAX_SCHEMA_OBJECTS} objects")
    if len(keys) == 2:
        raise BudgetExceeded("patternProperties beside unevaluatedProperties is matched by an engine without a bound")


def _pattern(_budget: _Budget, _validator: Any, pattern: str, item: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(item, str) and not _search(pattern, item):
        yield ValidationError(f"{item[:200]!r} does not match {pattern!r}")


def _pattern_properties(
    budget: _Budget, validator: Any, patterns: Mapping[str, Any], item: Any, _schema: Any
) -> Iterator[Any]:
    if not isinstance(item, Mapping):
        return
    for pattern, sub in patterns.items():
        for key, value in item.items():
            budget.spend(1)
            if _search(pattern, key):
                yield from validator.descend(value, sub, path=key, schema_path=pattern)


def _additional(budget: _Budget, validator: Any, extra: Any, item: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(item, Mapping):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    budget.spend(len(item) * len(patterns))
    more = [key for key in item if key not in known and not any(_search(pattern, key) for pattern in patterns)]
    if isinstance(extra, Mapping):
        for key in more:
            yield from validator.descend(item[key], extra, path=key)
    elif not extra and more:
        for key in sorted(more):
            yield ValidationError(f"additional property {key!r} is not allowed", path=[key])


def _search(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=PATTERN_TIMEOUT_S) is not None
    except TimeoutError:
        raise BudgetExceeded(f"pattern {pattern!r} took over {PATTERN_TIMEOUT_S:g} s") from None
    except regex.error as error:
        raise BudgetExceeded(f"pattern {pattern!r} cannot be read: {error}") from None


def _format(_validator: Any, name: Any, item: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(name, str) and isinstance(item, str) and not format_holds(name, item):
        yield ValidationError(f"{item[:200]!r} is no {name}")


def _enum(budget: _Budget, _validator: Any, values: Any, item: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if budget.canonical(item) not in budget.all_of(values):
        yield ValidationError("not one of the values")


def _const(budget: _Budget, _validator: Any, value: Any, item: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if budget.canonical(value) != budget.canonical(item):
        yield ValidationError("not the value")


def _unique(budget: _Budget, _validator: Any, wanted: Any, items: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and isinstance(items, list):
        budget.spend(len(items))
        seen = {budget.canonical(item) for item in items}
        if len(seen) < len(items):
            yield ValidationError(f"{len(items)} items are not all different")


def _numbers(value: Any) -> Any:
    """1.0 and 1 are one JSON number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


_LINEAR: Mapping[str, Callable[..., Iterator[Any]]] = {
    "additionalProperties": _additional,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique,
}
