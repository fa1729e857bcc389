"""Saved tool lists: the bytes of a file, or of a reply -> a catalogue, with the line of every tool and what was odd.

Taken are a tools/list result, a whole JSON-RPC response, a bare array of tools, and a log with one JSON-RPC message a
line. Nothing is re-serialised by a model; a key that stands twice is noticed; nesting without end costs linear time.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import ConfigError
from harness.findings.remark import Remark
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.plan import Era

__all__ = ["MAX_DEPTH", "ToolFile", "era_of", "parse_json", "read_messages", "read_tool_file", "read_tool_log"]

MAX_DEPTH = 500  # levels of nesting; what lies below is left out, and that is said
MODERN_SINCE = "2026-07-28"  # the first protocol version of the modern era
SHOWN_KEYS = 5
QUOTED_CHARS = 60

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_STRING = json.JSONDecoder().raw_decode  # at a quotation mark
_LISTS = ("tools", "prompts", "resources")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFile:
    """What one file, or one reply, holds.

    Attributes:
        remarks: What reading it showed: keys that stand twice, items that are no tools, nesting that was cut.
        lines: Line of each tool by its index, from 1; those of a reply or a log are not known.
    """

    catalogue: Catalogue
    remarks: tuple[Remark, ...] = ()
    lines: Mapping[int, int] = field(default_factory=dict)


class _Twice(dict[str, Any]):
    """An object in which keys stand twice; the last of them counts, as everywhere in Python."""

    repeated: tuple[str, ...] = ()


class _Cut(dict[str, Any]):
    """Stands for what lies deeper than `MAX_DEPTH`."""


def era_of(protocol: str) -> Era | None:
    """The era of a protocol version, None for "" and what is no date."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", protocol):
        return None
    return "modern" if protocol >= MODERN_SINCE else "handshake"


def parse_json(text: str) -> Any:
    """The value of a JSON text, however deep; objects with a repeated key and what was cut can be told from others.

    Raises:
        ValueError: It is no JSON; `json.JSONDecodeError` where the place is known.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer)
    except RecursionError:
        return _parse_deep(text)


def read_tool_file(data: bytes, *, name: str, server: str = "", source: str = "") -> ToolFile:
    """The catalogue in a file.

    Args:
        name: How messages call the file.
        server: Name of the catalogue's server; the file's without it.
    Raises:
        ConfigError: Not UTF-8, not JSON, or no list of tools.
    """
    text = _decoded(data, name)
    try:
        value = parse_json(text)
    except ValueError as error:
        log = _log_of(text)
        if log is not None:
            return read_messages(log, name=name, server=server, source=source)
        raise _not_json(error, text, name) from None
    found = _result_in(value, name)
    lines = _Lines(text)
    starts = dict(enumerate(map(lines.at, _starts(text, value))))
    made = _made([found], server=server or _server_of(value) or _stem(name), source=source or name, lines=starts)
    around = [("", value)] if value is found else [("", value), ("/result", found)]
    twice = [
        _twice(None, pointer, key) for pointer, item in around if isinstance(item, _Twice) for key in item.repeated
    ]
    return replace(made, remarks=(*twice, *made.remarks)) if twice else made


def read_tool_log(data: bytes, *, name: str, server: str = "", source: str = "") -> ToolFile:
    """The catalogue in a log: one JSON-RPC message a line, of either side; other lines are passed over.

    Raises:
        ConfigError: Not UTF-8, or no answer to tools/list in it.
    """
    log = _log_of(_decoded(data, name))
    if log is None:
        raise ConfigError(f"{name} has no line that is a JSON object", hint=_HINT)
    return read_messages(log, name=name, server=server, source=source)


def read_messages(messages: Sequence[Mapping[str, Any]], *, name: str, server: str = "", source: str = "") -> ToolFile:
    """The catalogue that an exchange of messages shows, with the protocol version where they tell it.

    The pages of one walk over tools/list count: of the first that is whole, else of the longest.

    Raises:
        ConfigError: No answer to tools/list is among them.
    """
    walks: dict[str, list[list[Mapping[str, Any]]]] = {kind: [] for kind in _LISTS}
    asked: dict[Any, Mapping[str, Any]] = {}
    protocol, called = "", ""
    for message in messages:
        key = message.get("id")
        if "method" in message:
            if isinstance(key, str | int | float):
                asked[key] = message
            continue
        result = message.get("result")
        if not isinstance(result, Mapping):
            continue
        request = asked.get(key, {}) if isinstance(key, str | int | float) else {}
        protocol = _protocol_in(request, result) or protocol
        called = _name_in(result) or called
        for kind in _LISTS:
            if isinstance(result.get(kind), list):
                params = request.get("params")
                first = request and not (isinstance(params, Mapping) and params.get("cursor"))
                if first or not walks[kind] or not _goes_on(walks[kind][-1][-1]):
                    walks[kind].append([])
                walks[kind][-1].append(result)
    pages = _best(walks["tools"])
    if not pages:
        raise ConfigError(f"{name} holds no answer to tools/list", hint=_HINT)
    more = [page for kind in ("prompts", "resources") for page in _best(walks[kind])]
    return _made(pages, server=server or called or _stem(name), source=source or name, protocol=protocol, more=more)


_HINT = (
    'a source is a tools/list result ({"tools": [...]}), a JSON-RPC response with one, an array of tools, or a log '
    "with one message a line"
)


# --- text -> values -------------------------------------------------------------------------------


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}:{line}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}",
            hint="save the file as UTF-8",
        ) from None


def _not_json(error: ValueError, text: str, name: str) -> ConfigError:
    if not text.strip():
        return ConfigError(f"{name} is empty", hint=_HINT)
    if isinstance(error, json.JSONDecodeError):
        near = text[error.pos : error.pos + QUOTED_CHARS].partition("\n")[0]
        what = f"near {near!r}" if near else "at its end"
        return ConfigError(f"{name}:{error.lineno}: not JSON: {error.msg} (column {error.colno}), {what}", hint=_HINT)
    return ConfigError(f"{name}: not JSON: {error}", hint=_HINT)


def _log_of(text: str) -> list[Mapping[str, Any]] | None:
    """The objects of a text with one on each line, None if its first line that says anything is none."""
    found: list[Mapping[str, Any]] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError:
            value = None
        if isinstance(value, Mapping):
            found.append(value)
        elif not found:
            return None
    return found or None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    twice = _Twice(found)
    twice.repeated = tuple(dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return twice


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 4000 else float("inf")


def _parse_deep(text: str) -> Any:
    """The same value without recursion; what is nested deeper than `MAX_DEPTH` is replaced by one mark."""
    opened: list[tuple[str, list[Any], str | None]] = []  # bracket, what is collected, the key that waits for a value
    at = 0
    value: Any = None
    expects = "value"
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        char = text[at : at + 1]
        if expects in ("key", "key-or-end"):
            if char == "}" and expects == "key-or-end":
                value, expects, at = _closed(opened), "after", at + 1
                continue
            if char != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            key, at = _STRING(text, at)
            colon = _BLANK.match(text, at)
            at = colon.end() if colon else at
            if text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
            bracket, items, _ = opened[-1]
            opened[-1] = (bracket, items, key)
            at, expects = at + 1, "value"
        elif expects in ("value", "value-or-end"):
            if char in ("{", "["):
                opened.append((char, [], None))
                at, expects = at + 1, "key-or-end" if char == "{" else "value-or-end"
            elif char == "]" and expects == "value-or-end":
                value, expects, at = _closed(opened), "after", at + 1
            elif char == '"':
                value, at = _STRING(text, at)
                expects = "after"
            else:
                value, at = _scalar(text, at)
                expects = "after"
        else:
            if not opened:
                if char:
                    raise json.JSONDecodeError("Extra data", text, at)
                return value
            bracket, items, waiting = opened[-1]
            items.append((waiting, value) if bracket == "{" else value)
            if char == ",":
                at, expects = at + 1, "key" if bracket == "{" else "value"
            elif char == ("}" if bracket == "{" else "]"):
                value, at = _closed(opened), at + 1
            else:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)


def _closed(opened: list[tuple[str, list[Any], str | None]]) -> Any:
    bracket, items, _ = opened.pop()
    if len(opened) >= MAX_DEPTH:
        return _Cut()
    return _object(items) if bracket == "{" else items


def _scalar(text: str, at: int) -> tuple[Any, int]:
    for word, value in _WORDS.items():
        if text.startswith(word, at):
            return value, at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        raise json.JSONDecodeError("Expecting value", text, at)
    digits = number[0]
    return (_integer(digits) if digits.lstrip("-").isdigit() else float(digits)), number.end()


# --- values -> catalogue --------------------------------------------------------------------------


def _result_in(value: Any, name: str) -> Mapping[str, Any]:
    """The tools/list result that a document is, or holds.

    Raises:
        ConfigError: There is none.
    """
    if isinstance(value, list):
        if any(isinstance(item, Mapping) and "jsonrpc" in item for item in value):
            for item in value:
                if isinstance(item, Mapping) and isinstance(item.get("result"), Mapping) and "tools" in item["result"]:
                    return _result_in(item, name)
            raise ConfigError(f"{name} is an array of JSON-RPC messages without an answer to tools/list", hint=_HINT)
        if value and not any(isinstance(item, Mapping) for item in value):
            raise ConfigError(f"{name} is an array, but none of its items is an object", hint=_HINT)
        return {"tools": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} holds {_kind(value)}, which is no list of tools", hint=_HINT)
    if "error" in value and "result" not in value:
        raise ConfigError(f"{name} is a JSON-RPC error, not a list of tools: {_quoted(value['error'])}", hint=_HINT)
    result = value.get("result", value)
    if not isinstance(result, Mapping) or "tools" not in result:
        keys = ", ".join(repr(key) for key in list(value)[:SHOWN_KEYS]) or "none"
        where = "the result in it" if "result" in value else "it"
        raise ConfigError(f"{name} is no list of tools: {where} has no 'tools' (keys: {keys})", hint=_HINT)
    if not isinstance(result["tools"], list):
        raise ConfigError(f"{name} is no list of tools: 'tools' is {_kind(result['tools'])}, not an array", hint=_HINT)
    return result


def _made(
    pages: Sequence[Mapping[str, Any]],
    *,
    server: str,
    source: str,
    protocol: str = "",
    more: Sequence[Mapping[str, Any]] = (),
    lines: Mapping[int, int] | None = None,
) -> ToolFile:
    tools: list[ToolDef] = []
    remarks: list[Remark] = []
    where: dict[int, int] = {}
    for number, item in enumerate(item for page in pages for item in page["tools"]):
        if not isinstance(item, Mapping):
            remarks.append(
                Remark(
                    check="wire/malformed-result",
                    pointer=f"/tools/{number}",
                    kind="an item of tools that is no object",
                    message=f"item {number} of tools is {_kind(item)}, not an object: no client can use it",
                    spelling=_quoted(item),
                )
            )
            continue
        name = item.get("name")
        tool = ToolDef(name=name if isinstance(name, str) else "", index=len(tools), definition=item)
        if lines and number in lines:
            where[tool.index] = lines[number]
        tools.append(tool)
        remarks.extend(_oddities(tool))
    modern = any("resultType" in page for page in pages)
    return ToolFile(
        catalogue=Catalogue(
            server=server,
            source=source,
            era=era_of(protocol) or ("modern" if modern else None),
            protocol=protocol or (MODERN_SINCE if modern else ""),
            tools=tuple(tools),
            prompts=tuple(_items(more or pages, "prompts")),
            resources=tuple(_items(more or pages, "resources")),
            whole=not _goes_on(pages[-1]),
        ),
        remarks=tuple(remarks),
        lines=where,
    )


def _server_of(value: Any) -> str:
    """Whose contract a file is, "" if it is none."""
    named = isinstance(value, Mapping) and isinstance(value.get("schema"), int)
    server = value.get("server") if named else None
    return server if isinstance(server, str) else ""


def _stem(name: str) -> str:
    """What stands for a server's name: the file's, without its folder and endings."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"(?:\.tools|\.tools-list)?\.jsonl?$", "", last) or name


def _items(pages: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for page in pages:
        items = page.get(kind)
        yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, Mapping))


def _oddities(tool: ToolDef) -> Iterator[Remark]:
    """What reading one tool showed: keys that stand twice, and what was cut."""
    stack: list[tuple[str, Any]] = [("", tool.definition)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, _Twice):
            for key in value.repeated:
                yield _twice(tool, pointer, key)
        if isinstance(value, _Cut):
            yield _too_deep(tool, pointer)
        elif isinstance(value, Mapping):
            stack += [(f"{pointer}/{_escaped(key)}", item) for key, item in value.items() if _holds(item)]
        elif isinstance(value, list):
            stack += [(f"{pointer}/{index}", item) for index, item in enumerate(value) if _holds(item)]


def _twice(tool: ToolDef | None, pointer: str, key: str) -> Remark:
    return Remark(
        check="wire/duplicate-key",
        tool=(tool.name or None) if tool else None,
        pointer=pointer,
        kind="the same key twice in one object",
        message=f"the key {_quoted(key)} stands twice in one object: one parser takes the first, another the last, a "
        "strict one refuses the message; here the last one counts",
        spelling=_quoted(key),
    )


def _too_deep(tool: ToolDef, pointer: str) -> Remark:
    return Remark(
        check="wire/malformed-result",
        tool=tool.name or None,
        pointer=pointer[:QUOTED_CHARS] + "…",
        kind="nested too deeply",
        message=f"the definition is nested deeper than {MAX_DEPTH} levels; parsers refuse that, or run out of stack. "
        "What lies below is left out here and not judged",
    )


def _holds(value: Any) -> bool:
    return isinstance(value, Mapping | list) and (bool(value) or isinstance(value, _Cut))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def _quoted(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply)"
    return text if len(text) <= QUOTED_CHARS * 3 else f"{text[: QUOTED_CHARS * 3]}…"


# --- messages -------------------------------------------------------------------------------------


def _goes_on(page: Mapping[str, Any]) -> bool:
    cursor = page.get("nextCursor")
    return isinstance(cursor, str) and cursor != ""


def _best(walks: Sequence[list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    whole = [walk for walk in walks if not _goes_on(walk[-1])]
    return whole[0] if whole else max(walks, key=len, default=[])


def _protocol_in(request: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    version = result.get("protocolVersion")
    if isinstance(version, str):
        return version
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    version = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, Mapping) else None
    return version if isinstance(version, str) else ""


def _name_in(result: Mapping[str, Any]) -> str:
    info = result.get("serverInfo")
    name = info.get("name") if isinstance(info, Mapping) else None
    return name if isinstance(name, str) else ""


# --- lines ----------------------------------------------------------------------------------------


class _Lines:
    """Offsets in a text -> line numbers."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def at(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect_right(self._ends, offset - 1) + 1


def _starts(text: str, value: Any) -> list[int]:
    """Where each item of the list of tools begins in a text that is JSON; [] where it cannot be told."""
    decoder = json.JSONDecoder(parse_int=_integer)
    try:
        at = _skip(text, 0)
        path = [] if isinstance(value, list) else ["result", "tools"] if "result" in value else ["tools"]
        for key in path:
            at = _member(decoder, text, at, key)
        return list(_elements(decoder, text, at))
    except (ValueError, RecursionError, IndexError):
        return []


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _member(decoder: json.JSONDecoder, text: str, at: int, wanted: str) -> int:
    """Where the value of the last member of that name begins, in the object at `at`."""
    found = -1
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _STRING(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key == wanted:
            found = at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    if found < 0:
        raise ValueError(wanted)
    return found


def _elements(decoder: json.JSONDecoder, text: str, at: int) -> Iterator[int]:
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
