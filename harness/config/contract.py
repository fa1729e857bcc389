"""contract.json -> Contract, or what is wrong with it: a file that `tools snapshot` writes and people review."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path as FilePath
from typing import Any

from harness.config.problems import Problem, did_you_mean, kind_of, quoted
from harness.config.reasons import placeholder
from harness.config.toml import Files
from harness.config.validate import schema_of
from harness.model.bounded import depth_of
from harness.model.contract import (
    CLASSES,
    MAX_ITEM_DEPTH,
    SCHEMA,
    SUBJECTS,
    Contract,
    contract_from_json,
    key_of,
)
from harness.model.plan import ERAS, Place
from harness.model.regular import read_regular

__all__ = ["FILE", "MAX_CONTRACT_BYTES", "contract_problems", "is_contract", "parse_contract", "read_contract"]

FILE = "contract.json"
MAX_CONTRACT_BYTES = 64_000_000

_LISTS = tuple(f"{subject}s" for subject in SUBJECTS)
_SPACE = re.compile(r"[ \t\r\n]*")


def read_contract(files: Files, path: FilePath, *, server: str | None = None) -> Contract | None:
    """The contract in a file; None where its problems have been added to `files`.

    Args:
        server: The name that the file must bear.
    """
    name = files.name(path)
    try:
        data = read_regular(path, MAX_CONTRACT_BYTES + 1)
    except (OSError, ValueError) as error:
        files.add(Problem(Place(file=name), "", f"cannot be read: {getattr(error, 'strerror', None) or error}"))
        return None
    found = parse_contract(data, file=name)
    if not isinstance(found, Contract):
        files.add(*found)
        return None
    if server is not None and found.server != server:
        hint = f"write a new one, mcp-rollcall tools snapshot --force, or name the file of {quoted(server)}"
        said = f"this is the contract of the server {quoted(found.server)}, not of {quoted(server)}"
        files.add(Problem(Place(file=name), "server", said, hint))
        return None
    return found


def is_contract(data: Any) -> bool:
    """Whether a JSON value looks like a contract, well formed or not; a list of tools does not."""
    return isinstance(data, Mapping) and "schema" in data and "server" in data


def parse_contract(data: bytes, *, file: str) -> Contract | list[Problem]:
    """The contract, or every problem that it has."""
    place = Place(file=file)
    if len(data) > MAX_CONTRACT_BYTES:
        return [Problem(place, "", f"larger than {MAX_CONTRACT_BYTES // 1_000_000} MB")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = Place(file=file, line=data.count(b"\n", 0, error.start) + 1)
        return [Problem(line, "", f"not UTF-8: byte 0x{data[error.start]:02x}", "save the file as UTF-8")]
    try:
        scanned = _scan(text)
    except json.JSONDecodeError as error:
        line = Place(file=file, line=error.lineno)
        hint = "a merge may have left its marks; write the file anew with mcp-rollcall tools snapshot --force"
        return [Problem(line, "", f"not JSON at column {error.colno}: {error.msg}", hint)]
    except (RecursionError, ValueError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return [Problem(place, "", f"cannot be read: {said}")]
    problems = list(contract_problems(scanned.data, file=file, lines=scanned.lines, repeats=scanned.repeats))
    if problems:
        return problems
    return contract_from_json(scanned.data, place=place, lines=scanned.items)


# --- where things stand -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Scanned:
    """A file's JSON. `lines`: of top-level keys and of the elements of their lists; `items`: of listed things."""

    data: Any = None
    lines: dict[tuple[str, int | None], int] = field(default_factory=dict)
    items: dict[tuple[str, str], int] = field(default_factory=dict)
    repeats: list[tuple[str, int]] = field(default_factory=list)


def _scan(text: str) -> _Scanned:
    """The JSON with the lines of its first two levels: the standard parser does the rest, element by element."""
    out = _Scanned()
    repeated: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):
            seen: set[str] = set()
            repeated.append(next(name for name, _ in found if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
        return made

    def no_value(word: str) -> Any:
        raise ValueError(f"{word} is no JSON value")

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=no_value)
    newlines = [match.start() for match in re.finditer("\n", text)]

    def line_of(at: int) -> int:
        import bisect

        return bisect.bisect_left(newlines, at) + 1

    def value_at(at: int) -> tuple[Any, int]:
        found, end = decoder.raw_decode(text, at)
        out.repeats.extend((name, line_of(at)) for name in repeated)
        repeated.clear()
        return found, _after_space(text, end)

    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        out.data, at = value_at(at)
    else:
        out.data, at = {}, _after_space(text, at + 1)
        while text[at : at + 1] != "}":
            began = at
            key, at = value_at(at)
            if not isinstance(key, str):
                raise json.JSONDecodeError("a key must be a string", text, began)
            at = _after_space(text, _expect(text, at, ":"))
            if key in out.data:
                out.repeats.append((key, line_of(began)))
            out.lines[key, None] = line_of(began)
            if text[at : at + 1] == "[":
                out.data[key], at = _elements(text, at, key, out, value_at, line_of)
            else:
                out.data[key], at = value_at(at)
            if text[at : at + 1] == ",":
                at = _after_space(text, at + 1)
                if text[at : at + 1] == "}":
                    raise json.JSONDecodeError("a comma before the end of an object", text, at)
            elif text[at : at + 1] != "}":
                raise json.JSONDecodeError("a comma or the end of the object is missing", text, at)
        at = _after_space(text, at + 1)
    if at != len(text):
        raise json.JSONDecodeError("something stands behind the end", text, at)
    return out


def _elements(text: str, at: int, key: str, out: _Scanned, value_at: Any, line_of: Any) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _after_space(text, at + 1)
    while text[at : at + 1] != "]":
        line = line_of(at)
        item, at = value_at(at)
        out.lines[key, len(found)] = line
        _note_items(key, item, line, out)
        found.append(item)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
            if text[at : at + 1] == "]":
                raise json.JSONDecodeError("a comma before the end of a list", text, at)
        elif text[at : at + 1] != "]":
            raise json.JSONDecodeError("a comma or the end of the list is missing", text, at)
    return found, _after_space(text, at + 1)


def _note_items(key: str, item: Any, line: int, out: _Scanned) -> None:
    if not isinstance(item, Mapping):
        return
    if key in _LISTS:
        subject = SUBJECTS[_LISTS.index(key)]
        out.items.setdefault((subject, key_of(subject, item)), line)
    elif key == "differences":
        for name in _LISTS:
            inner = item.get(name)
            for one in inner if isinstance(inner, list) else ():
                _note_items(name, one, line, out)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, char: str) -> int:
    if text[at : at + 1] != char:
        raise json.JSONDecodeError(f"{char!r} is missing", text, at)
    return at + 1


# --- whether it is one ------------------------------------------------------------------------------


def contract_problems(
    data: Any,
    *,
    file: str,
    lines: Mapping[tuple[str, int | None], int] | None = None,
    repeats: list[tuple[str, int]] | None = None,
) -> Iterator[Problem]:
    """Everything that keeps a JSON value from being a contract."""
    known = lines or {}

    def problem(key: str, index: int | None, where: str, message: str, hint: str = "") -> Problem:
        return Problem(Place(file=file, line=known.get((key, index), known.get((key, None)))), where, message, hint)

    if not isinstance(data, Mapping):
        yield problem(
            "", None, "", f"expected an object, got {_kind(data)}", "mcp-rollcall tools snapshot writes this file"
        )
        return
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        got = _kind(data["schema"]) if "schema" in data else "none"
        yield problem(
            "schema", None, "schema", f"expected {SCHEMA}, got {got}", "mcp-rollcall tools snapshot writes it"
        )
        return
    for name, line in repeats or ():
        yield Problem(Place(file=file, line=line), name, "this key stands twice in one object", "remove one of them")
    names = schema_of("contract")["properties"]
    for key in data:
        if key not in names:
            yield problem(key, None, key, "unknown key", did_you_mean(key, names))
    if not isinstance(data.get("server"), str) or not data["server"]:
        yield problem("server", None, "server", "the name of the server is missing")
    if not isinstance(data.get("words", True), bool):
        yield problem("words", None, "words", f"expected true or false, got {_kind(data['words'])}")
    if "tools" not in data:
        yield problem("tools", None, "tools", "the list of tools is missing")
    yield from _lists_problems(data, "", lambda key, index: (key, index), problem)
    yield from _list_of_objects(data, "differences", problem)
    for index, item in enumerate(_objects(data.get("differences"))):
        yield from _difference_problems(item, index, problem)
    axes = data.get("axes", {})
    good = isinstance(axes, Mapping) and all(
        key in _AXES and isinstance(value, list) and all(isinstance(one, str) for one in value)
        for key, value in axes.items()
    )
    if not good:
        yield problem("axes", None, "axes", "expected an object of lists of names, by era, profile or backend")
    yield from _list_of_objects(data, "accepted", problem)
    for index, item in enumerate(_objects(data.get("accepted"))):
        for where, message, hint in _accepted_problems(item):
            yield problem("accepted", index, f"accepted[{index}]{where}", message, hint)


_AXES = ("era", "profile", "backend")


def _objects(value: Any) -> list[Any]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _list_of_objects(data: Mapping[str, Any], key: str, problem: Any) -> Iterator[Problem]:
    value = data.get(key, [])
    if not isinstance(value, list):
        yield problem(key, None, key, f"expected a list, got {_kind(value)}")
        return
    for index, item in enumerate(value):
        if not isinstance(item, Mapping):
            yield problem(key, index, f"{key}[{index}]", f"expected an object, got {_kind(item)}")


def _lists_problems(data: Mapping[str, Any], prefix: str, at: Any, problem: Any) -> Iterator[Problem]:
    for subject, key in zip(SUBJECTS, _LISTS, strict=True):
        value = data.get(key, [])
        if not isinstance(value, list):
            yield problem(*at(key, None), f"{prefix}{key}", f"expected a list, got {_kind(value)}")
            continue
        for index, item in enumerate(value):
            where = f"{prefix}{key}[{index}]"
            if not isinstance(item, Mapping):
                yield problem(*at(key, index), where, f"expected an object, got {_kind(item)}")
                continue
            name = "uri" if subject == "resource" else "name"
            if not isinstance(item.get(name), str):
                yield problem(*at(key, index), where, f"a {subject} without {name}")
            if depth_of(item) > MAX_ITEM_DEPTH:
                yield problem(*at(key, index), where, f"nested deeper than {MAX_ITEM_DEPTH} levels")


def _difference_problems(item: Mapping[str, Any], index: int, problem: Any) -> Iterator[Problem]:
    where = f"differences[{index}]"
    for key in item:
        if key not in ("where", *_LISTS):
            hint = did_you_mean(key, ("where", *_LISTS))
            yield problem("differences", index, f"{where}.{key}", "unknown key", hint)
    said = item.get("where")
    if not isinstance(said, Mapping) or not said or not all(isinstance(one, str) and one for one in said.values()):
        yield problem("differences", index, f"{where}.where", 'expected an object such as {"era": "modern"}')
    else:
        for key, value in said.items():
            if key not in _AXES:
                hint = did_you_mean(key, _AXES)
                yield problem("differences", index, f"{where}.where.{key}", "unknown key", hint)
            elif key == "era" and value not in ERAS:
                yield problem(
                    "differences",
                    index,
                    f"{where}.where.era",
                    f"there is no era {quoted(value)}",
                    did_you_mean(value, ERAS),
                )
    yield from _lists_problems(item, f"{where}.", lambda _key, _index: ("differences", index), problem)


def _accepted_problems(item: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    known = ("date", *SUBJECTS, "class", "reason", "changes")
    for key in item:
        if key not in known:
            yield f".{key}", "unknown key", did_you_mean(key, known)
    named = [item[subject] for subject in SUBJECTS if subject in item]
    name = named[0] if len(named) == 1 and isinstance(named[0], str) else None
    if name is None:
        yield "", "expected one tool, prompt or resource", ""
    try:
        date.fromisoformat(item["date"])
    except (KeyError, TypeError, ValueError):
        yield ".date", "expected the day of the acceptance, YYYY-MM-DD", ""
    classes = item.get("class")
    if not isinstance(classes, list) or not classes or not all(one in CLASSES for one in classes):
        yield ".class", f"expected a list of {', '.join(CLASSES)}", ""
    changes = item.get("changes", [])
    if not isinstance(changes, list) or not all(isinstance(one, str) for one in changes):
        yield ".changes", "expected a list of sentences", ""
    reason = item.get("reason")
    if not isinstance(reason, str):
        yield ".reason", "the reason is missing", "write why the change is right, in a sentence"
    elif said := placeholder(reason, name or ""):
        yield ".reason", f"{said}: {quoted(reason)}", "write why the change is right, in a sentence"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object"}.get(type(value)) or kind_of(value)
