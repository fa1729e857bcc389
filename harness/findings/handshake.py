"""The first answer of a server, and the kind of every later one: do they have the shape that the revision demands?

The engine takes what it can use and goes on; official clients raise. Only what every revision of an era demands is
judged, and in the modern era only an answer that claims the modern revision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.findings.frames import Exchange
from harness.findings.seen import Seen, quote_bytes
from harness.findings.steps import RunView

__all__ = ["is_malformed", "see_handshake"]

MODERN_VERSION = "2026-07-28"
_KINDS = ("complete", "input_required")  # others belong to extensions, which we do not declare
_QUOTED_BYTES = 200


def see_handshake(view: RunView) -> Iterator[Seen]:
    """What the first answers of one run's processes lack, and results of a kind that nobody knows."""
    for index, dialogue in enumerate(view.dialogues):
        for exchange in dialogue.exchanges:
            if exchange.reply is None:
                continue
            for problem in (*_shape_problems(exchange), *_kind_problems(dialogue.era, exchange)):
                line = exchange.reply.line
                tool = exchange.name or None if exchange.method == "tools/call" else None
                yield Seen(
                    check="wire/malformed-result",
                    run=view.run.key,
                    order=(index, line.event.n),
                    key=(exchange.method, exchange.name, problem),
                    message=f"{exchange.sent.label}: {problem}: {quote_bytes(line.event.body.data, _QUOTED_BYTES)}",
                    tool=tool,
                    evidence={"line": line.number, "offset": line.event.at},
                )


def is_malformed(view: RunView, method: str) -> bool:
    """Whether the run's own session was given a malformed answer to initialize or server/discover."""
    exchanges = (exchange for dialogue in view.own for exchange in dialogue.exchanges)
    return any(_shape_problems(exchange) for exchange in exchanges if exchange.method == method)


def _shape_problems(exchange: Exchange) -> tuple[str, ...]:
    """What is wrong with an answer to initialize or server/discover, a sentence each; none for any other exchange."""
    reply = exchange.reply
    if reply is None or "result" not in reply.message:
        return ()
    result = exchange.result
    if exchange.method == "initialize":
        if not isinstance(result, Mapping):
            return (f"the result is {_name(result)}, not an object",)
        return tuple(_initialize(result))
    if exchange.method == "server/discover" and isinstance(result, Mapping):
        versions = result.get("supportedVersions")
        if isinstance(versions, list) and MODERN_VERSION in versions:
            return tuple(_discover(versions, result))
    return ()


def _initialize(result: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(result.get("protocolVersion"), str):
        yield _wrong(result, "protocolVersion", "a string")
    yield from _capabilities(result)
    info = result.get("serverInfo")
    if not isinstance(info, Mapping):
        yield _wrong(result, "serverInfo", "an object")
        return
    for key in ("name", "version"):
        if not isinstance(info.get(key), str):
            yield _wrong(info, key, "a string", within="result.serverInfo")


def _discover(versions: list[Any], result: Mapping[str, Any]) -> Iterator[str]:
    if any(not isinstance(item, str) for item in versions):
        yield "result.supportedVersions holds something that is no string"
    yield from _capabilities(result)


def _capabilities(result: Mapping[str, Any]) -> Iterator[str]:
    declared = result.get("capabilities")
    if not isinstance(declared, Mapping):
        yield _wrong(result, "capabilities", "an object")
        return
    for name in ("completions", "logging", "prompts", "resources", "tools"):
        if name in declared and not isinstance(declared[name], Mapping):
            yield _wrong(declared, name, "an object", within="result.capabilities")


def _kind_problems(era: str, exchange: Exchange) -> Iterator[str]:
    """A result of the modern era says of what kind it is; left out, it is complete."""
    result = exchange.result
    if era != "modern" or not isinstance(result, Mapping) or "resultType" not in result:
        return
    kind = result["resultType"]
    if kind not in _KINDS:
        said = repr(kind) if isinstance(kind, str) else _name(kind)
        yield f"result.resultType is {said[:60]}, not {' or '.join(map(repr, _KINDS))}"


def _wrong(parent: Mapping[str, Any], key: str, wanted: str, within: str = "result") -> str:
    return f"{within}.{key} is {_name(parent[key]) if key in parent else 'absent'}, not {wanted}"


def _name(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
