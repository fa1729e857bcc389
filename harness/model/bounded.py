"""JSON Schema validation that cannot hang, fetch, or die: a budget of steps, a bound on depth, no network.

`jsonschema` fetches remote references by default, can take exponential time, and recurses with the data. Here every
keyword that is evaluated costs one step of a budget, so the bound is the same on every machine; patterns run in a
regex engine with a time-out; `uniqueItems` is linear; no reference is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

__all__ = ["MAX_DEPTH", "MAX_STEPS", "PATTERN_TIMEOUT_S", "BudgetExceeded", "depth_of", "validate"]

MAX_DEPTH = 128
MAX_STEPS = 200_000
PATTERN_TIMEOUT_S = 1.0
MAX_VIOLATIONS = 50


class BudgetExceeded(Exception):
    """The validation would cost too much, or needs what is not here; the message says what."""


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
        steps: How many keywords may be evaluated.
    Raises:
        BudgetExceeded: Too deep, too many steps, a pattern that takes too long or that no engine reads,
            a reference that cannot be resolved here, or a schema that is none.
    """
    import jsonschema
    from jsonschema.validators import extend, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if depth_of(instance) > MAX_DEPTH or depth_of(schema) > MAX_DEPTH:
        raise BudgetExceeded(f"nested deeper than {MAX_DEPTH} levels")
    base: Any = validator_for(schema, default=jsonschema.Draft202012Validator)
    left = [steps]

    def counted(keyword: str, check: Any) -> Any:
        replacement = _LINEAR.get(keyword, check)

        def run(validator: Any, value: Any, item: Any, around: Any) -> Iterator[Any]:
            left[0] -= 1
            if left[0] < 0:
                raise BudgetExceeded(f"more than {steps} validation steps")
            yield from replacement(validator, value, item, around) or ()

        return run

    cls: Any = extend(base, {name: counted(name, check) for name, check in base.VALIDATORS.items()})
    try:
        # no formats: "regex" would be judged by another engine than the one that matches here
        base.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
        found = []
        for error in cls(schema, registry=Registry()).iter_errors(instance):
            pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
            message = error.message if len(error.message) <= 300 else error.message[:300] + "…"
            found.append((pointer, message))
            if len(found) >= MAX_VIOLATIONS:
                break
    except jsonschema.SchemaError as error:
        raise BudgetExceeded(f"the schema is not valid: {error.message[:200]}") from None
    except Unresolvable as error:
        raise BudgetExceeded(f"a reference that is not in the schema: {error}") from None
    except RecursionError:
        raise BudgetExceeded("it recurses too deeply") from None
    return sorted(found)


def _pattern(_validator: Any, pattern: str, item: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(item, str) and not _search(pattern, item):
        yield ValidationError(f"{item[:200]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], item: Any, _schema: Any) -> Iterator[Any]:
    if not isinstance(item, Mapping):
        return
    for pattern, sub in patterns.items():
        for key, value in item.items():
            if _search(pattern, key):
                yield from validator.descend(value, sub, path=key, schema_path=pattern)


def _search(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=PATTERN_TIMEOUT_S) is not None
    except TimeoutError:
        raise BudgetExceeded(f"pattern {pattern!r} took over {PATTERN_TIMEOUT_S:g} s") from None
    except regex.error as error:
        raise BudgetExceeded(f"pattern {pattern!r} cannot be read: {error}") from None


def _unique(_validator: Any, wanted: Any, items: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and isinstance(items, list):
        seen = {json.dumps(_numbers(item), sort_keys=True) for item in items}
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
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique,
}
