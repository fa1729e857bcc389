"""A document against its published JSON Schema, with every violation in our words.

One schema serves editors and us. What it says reaches people only through the words here: what was expected, what
was found, which keys there are.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from harness.config.problems import Path, Problem, did_you_mean, kind_of, table_of, where_of
from harness.config.toml import Document, faults

__all__ = ["MAX_PROBLEMS", "SCHEMAS", "check", "other_version", "schema_of", "violations"]

MAX_PROBLEMS = 200  # of one file; whoever has more has the wrong file
SCHEMAS = ("backend", "contract", "exemptions", "harness", "rollout", "suite")

_KINDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "a table",
    "string": "a string",
}
_FIRST = {"type": 0, "const": 1, "enum": 1}  # where one value violates several keywords, the first of these is told


@functools.cache
def schema_of(name: str) -> dict[str, Any]:
    """The published JSON Schema of one kind of file."""
    text = (FilePath(__file__).with_name("schema") / f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def other_version(document: Document, name: str) -> Problem | None:
    """The problem of a document that says another `schema` than ours; a missing one is not meant here."""
    wanted = schema_of(name)["properties"]["schema"]["const"]
    found = document.data.get("schema", wanted)
    if type(found) is int and found == wanted:
        return None
    hint = f"write schema = {wanted}"
    if type(found) is int:
        hint = f"this version of mcp-rollcall reads this file with schema = {wanted}"
    return document.problem(("schema",), f"expected {wanted}, got {kind_of(found)}", hint)


def check(document: Document, name: str) -> list[Problem]:
    """Everything in which a document violates its schema.

    A document of another version of the format has that one problem: what else holds for it is not known here.
    """
    other = other_version(document, name)
    if other is not None:
        return [other]
    schema = schema_of(name)
    odd = list(itertools.islice(faults(document, dates=functools.partial(_may_be_date, name)), MAX_PROBLEMS))
    out = [document.problem(path, message, hint) for path, message, hint in odd]
    done = {path for path, _, _ in odd}
    out.extend(
        document.problem(path, message, hint, table=table)
        for path, table, message, hint in itertools.islice(violations(schema, document.data), MAX_PROBLEMS)
        if table or path not in done
    )
    return out[:MAX_PROBLEMS]


def _may_be_date(name: str, path: Path) -> bool:
    """Whether a date is judged by the schema alone; elsewhere it would be sent as JSON, which has none."""
    scripted = name == "harness" and path[:1] == ("profiles",) and path[2:3] in (("answers",), ("sampling",))
    return name != "suite" and not scripted


def violations(schema: Mapping[str, Any], data: Any) -> Iterator[tuple[Path, bool, str, str]]:
    """Path, whether it means the table as a whole, message and hint of every violation; one per path and kind."""
    found = itertools.islice(_validator()(schema).iter_errors(data), MAX_PROBLEMS)
    errors = sorted(found, key=lambda error: _FIRST.get(error.validator, 2))
    told: set[Path] = set()
    for error in errors:
        path: Path = tuple(error.absolute_path)
        if error.validator == "additionalProperties":
            yield from _unknown_keys(error, path, schema)
        elif "propertyNames" in error.absolute_schema_path:
            key = (*path, error.instance)
            if key not in told:
                told.add(key)
                yield key, False, f"expected {_expected(error)}", ""
        elif error.validator in ("required", "oneOf", "anyOf", "dependentRequired"):
            if path not in told and isinstance(error.instance, dict):
                yield from _missing_keys(error, path, schema)
        elif path not in told:
            told.add(path)
            yield path, False, *_value(error, path)


def _unknown_keys(error: Any, path: Path, root: Mapping[str, Any]) -> Iterator[tuple[Path, bool, str, str]]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    for key, value in error.instance.items():
        if key in known or any(re.search(pattern, key) for pattern in patterns):
            continue
        hint = did_you_mean(key, known)
        elsewhere = _tables_with(key, root)
        if not hint.startswith("did you mean") and elsewhere:
            if path and not elsewhere[0]:
                hint = f"{key} is a key of the file as a whole: write it above the first [table]; {hint}"
            else:
                hint = f"{key} is a key of {' or '.join(elsewhere[:2])}; {hint}"
        special = _SPECIAL_KEYS.get((*(part for part in path if isinstance(part, str)), key))
        if path[:1] == ("versions",) and len(path) == 2 and isinstance(value, dict) and key[:1].isdigit():
            special = f'quote the version: [versions."{path[1]}.{key}"]'
        yield (*path, key), False, "unknown key", special or hint


_SPECIAL_KEYS = {
    ("server", "backend"): "backends stand in tables of their own: [backends.<role>]",
}


def _tables_with(key: str, root: Mapping[str, Any]) -> list[str]:
    """The tables in which a key is known, the file as a whole as "", as far as they have fixed names."""
    out = [""] if key in root.get("properties", {}) else []

    def walk(schema: Mapping[str, Any], where: str) -> None:
        for name, sub in schema.get("properties", {}).items():
            here = f"{where}.{name}" if where else name
            if sub.get("type") == "object" and key in sub.get("properties", {}):
                out.append(f"[{here}]")
            items, rest = sub.get("items"), sub.get("additionalProperties")
            if isinstance(rest, dict) and key in rest.get("properties", {}) and rest.get("type") == "object":
                out.append(f"[{here}.<name>]")
            if isinstance(items, dict):
                items = root["$defs"][items["$ref"].rpartition("/")[2]] if "$ref" in items else items
                if items.get("type") == "object" and key in items.get("properties", {}):
                    out.append(f"[[{here}]]")
                walk(items, here)

    walk(root, "")
    return out


def _missing_keys(error: Any, path: Path, root: Mapping[str, Any]) -> Iterator[tuple[Path, bool, str, str]]:
    known = error.schema.get("properties", {})

    def hint(key: str) -> str:
        words = known.get(key, {})
        return _words_of(key, root["$defs"][words["$ref"].rpartition("/")[2]] if "$ref" in words else words)

    match error.validator:
        case "required":
            for key in error.validator_value:
                if not error.message.startswith(f"{key!r} "):
                    continue  # jsonschema yields one error for each
                wanted = (
                    f"write schema = {known[key]['const']} at the top" if key == "schema" and not path else hint(key)
                )
                yield path, True, f"the key {key} is missing", wanted
        case "oneOf" | "anyOf":
            names = [sub["required"][0] for sub in error.validator_value]
            present = [name for name in names if name in error.instance]
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            count = "exactly one" if error.validator == "oneOf" else "at least one"
            got = f"got {' and '.join(present)}" if present else "got none"
            yield path, True, f"{count} of {listed} is needed, {got}", hint(names[0]) if not present else ""
        case _:
            for key, needs in error.validator_value.items():
                for needed in needs:
                    if error.message == f"{needed!r} is a dependency of {key!r}":
                        if (key, needed) == ("tcp", "expect"):
                            text = "a port that accepts connections is not ready yet: say what must come back"
                        else:
                            text = hint(needed)
                        yield (*path, key), False, f"this goes with {needed}, which is missing", text


def _words_of(key: str, schema: Mapping[str, Any]) -> str:
    said = schema.get("description", "").partition(". ")[0].removesuffix(".")
    return f"{key}: {said}" if said else ""


def _value(error: Any, path: Path) -> tuple[str, str]:
    value, schema = error.instance, error.schema
    got = kind_of(value)
    match error.validator:
        case "type":
            if "enum" in schema and not isinstance(value, str):
                return f"{_one_of(schema['enum'])}, got {got}", ""
            types = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
            return f"expected {' or '.join(_KINDS[name] for name in types)}, got {got}", _type_hint(
                types, schema.get("items", {}), value, path
            )
        case "enum":
            choices = error.validator_value
            hint = did_you_mean(value, choices) if isinstance(value, str) else ""
            return f"{_one_of(choices)}, got {got}", hint if hint.startswith("did") else ""
        case "const":
            return f"expected {json.dumps(error.validator_value)}, got {got}", ""
        case "minItems" | "minLength" | "minProperties":
            return "must not be empty", schema.get("description", "").partition(". ")[0].removesuffix(".")
        case "minimum":
            return f"expected {error.validator_value} or more, got {got}", ""
        case "exclusiveMinimum":
            return f"expected a number above {error.validator_value}, got {got}", ""
        case "maximum":
            return f"expected {error.validator_value} or less, got {got}", ""
        case "uniqueItems":
            return "an item stands twice", ""
        case _:
            return f"expected {_expected(error)}, got {got}", ""


def _one_of(choices: Sequence[str]) -> str:
    listed = ", ".join(f'"{item}"' for item in choices)
    return f"expected {listed}" if len(choices) == 1 else f"expected one of {listed}"


def _expected(error: Any) -> str:
    match error.validator:
        case "maxLength":
            return f"at most {error.validator_value} characters"
        case "minLength":
            return "a name that is not empty"
        case _:
            said: str = error.schema.get("x-expected", "something else")
            return said


def _type_hint(types: list[str], items: Mapping[str, Any], value: Any, path: Path) -> str:
    key = where_of(path).rpartition(" ")[2]
    if "string" in types and path and not isinstance(value, dict | list):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        text = f">={text}" if path[-1] == "python" else text
        return f'quote it: "{text}"' if len(text) <= 40 else "quote it"
    if types == ["array"] and isinstance(value, str):
        import shlex

        try:
            words = shlex.split(value) if path[-1] in ("command", "exec") else [value]
        except ValueError:
            words = [value]
        shown = json.dumps(words or [""], ensure_ascii=False)
        return f"write a list: {key} = {shown}" if len(shown) <= 100 and shown.isprintable() else "write a list"
    if types == ["array"] and isinstance(value, dict) and ("$ref" in items or items.get("type") == "object"):
        return f"write [[{table_of(path)}]], with two brackets"
    if types == ["object"] and isinstance(value, list) and value and isinstance(value[0], dict):
        return f"write [{table_of(path)}], with one bracket on each side"
    if types == ["boolean"] and isinstance(value, str) and value.lower() in ("true", "false"):
        return f"write it without quotes: {value.lower()}"
    if types in (["integer"], ["number"]) and isinstance(value, str) and value.strip().replace(".", "", 1).isdigit():
        return f"write it without quotes: {value.strip()}"
    if "object" in types and "string" not in types and not isinstance(value, dict):
        header = "" if any(isinstance(part, int) for part in path) else f", or [{table_of(path)}]"
        return f"write a table: {key} = {{ … }}{header}" if path and isinstance(path[-1], str) else "write a table"
    return ""


@functools.cache
def _validator() -> Any:
    """Draft 2020-12, but integers are integers, and `$` is the end and not the last line's end."""
    import re

    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    @functools.cache
    def compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)

    def pattern(_validator: Any, wanted: str, value: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and compiled(wanted).search(value) is None:
            yield ValidationError("pattern")

    def unique(_validator: Any, _wanted: bool, items: Any, _schema: Any) -> Iterator[Any]:
        texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
        if len(set(texts)) < len(texts):
            yield ValidationError("unique")

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _checker, value: type(value) is int)
    return extend(Draft202012Validator, {"pattern": pattern, "uniqueItems": unique}, type_checker=checker)
