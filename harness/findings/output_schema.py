"""`output-schema`: every tool declares what it gives, and gives what it declares.

Declarations are judged by a catalogue alone. Every result that was recorded in our own pass is held against the schema
as it was listed in that run, whatever the server's or a client's SDK made of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.findings.frames import Exchange, is_input_required
from harness.findings.ledger import CellLedger
from harness.findings.remark import Remark, table_of
from harness.findings.seen import Seen
from harness.findings.steps import RunView, Use, place_of_use
from harness.model.bounded import BudgetExceeded, InvalidSchema, Prepared, prepared
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.outcome import answer_of, cut_json
from harness.model.plan import RunKey

__all__ = [
    "ANY_JSON_REVISION",
    "FIRST_REVISION",
    "Results",
    "check_output_schemas",
    "declares",
    "has_output_schemas",
    "judge_results",
    "lacking_message",
    "texts_disagree",
]

FIRST_REVISION = "2025-06-18"  # the first that has output schemas
ANY_JSON_REVISION = "2026-07-28"  # the first in which the root need not be an object
MAX_SHOWN = 3  # violations in a message; the evidence has more
MAX_LISTED = 50  # violations in the evidence of one finding
_NAMES_SHOWN = 12
_INDEX = re.compile(r"/\d+(?=/|\Z)")
_ABSENT = object()
_CHECK = "output-schema"  # as exemptions call it
_CLOSE = 1e-9  # relative; one more digit is no other number
_ROOT_HINT = (
    "Give the root `type: object` and put the value below a property of it; official clients refuse the whole list of "
    "tools otherwise"
)
_NO_HINT = "Leave the key out, or write a schema"
_Violation = tuple[str, str]  # JSON pointer, message


# --- declarations -------------------------------------------------------------------------------


def has_output_schemas(protocol: str) -> bool:
    """Whether a revision has output schemas at all; one that is not known is taken for a present one."""
    return not protocol or protocol >= FIRST_REVISION


def declares(tool: ToolDef) -> bool:
    """Whether a tool declares an output schema; null is a declaration, of nothing that is a schema."""
    return "outputSchema" in tool.definition


def lacking_message(tools: Sequence[str], total: int, server: str) -> str:
    """What is said of a server none of whose tools declares an output schema."""
    named = ", ".join(tools[:_NAMES_SHOWN]) + (f", … ({len(tools)} in all)" if len(tools) > _NAMES_SHOWN else "")
    some = "" if len(tools) == total else f" ({total - len(tools)} excused one by one)"
    lead = f"none of {total} tools declares an output schema{some}: {named}; without one no client can check or type "
    if total == 1:
        lead = f"the only tool declares no output schema: {named}; without one no client can check or type "
    return f'{lead}what is given. Declare it, or excuse the server: {table_of(server, _CHECK)} "*" = "why it has none"'


def check_output_schemas(catalogue: Catalogue) -> Iterator[Remark]:
    """What the declarations of a catalogue show: none, one whose root is no object, one that is no schema."""
    if not has_output_schemas(catalogue.protocol):
        return
    lacking = [tool for tool in catalogue.tools if not declares(tool)]
    if lacking and len(lacking) == len(catalogue.tools):
        names = sorted({tool.name for tool in lacking})
        yield Remark(
            check="output-schema/missing",
            kind="no tool declares an output schema",
            message=lacking_message(names, len(names), catalogue.server),
            evidence={"tools": names},
        )
    else:
        for tool in lacking:
            yield Remark(
                check="output-schema/missing",
                tool=tool.name,
                kind="a tool without an output schema",
                message=f"{tool.name} declares no output schema, while other tools of the server do; declare one, or "
                f"say in {table_of(catalogue.server, _CHECK)} why it has none",
            )
    for tool in catalogue.tools:
        if declares(tool):
            yield from _declared(catalogue, tool)


def _declared(catalogue: Catalogue, tool: ToolDef) -> Iterator[Remark]:
    schema = tool.definition["outputSchema"]
    root = _root_problem(schema, catalogue.protocol)
    if root:
        hint = _ROOT_HINT if isinstance(schema, Mapping) else _NO_HINT
        known = f"{catalogue.protocol} is in force" if catalogue.protocol else "which revision is in force is not known"
        yield Remark(
            check="output-schema/root",
            tool=tool.name,
            where="outputSchema",
            pointer=_root_pointer(schema),
            kind="an output schema whose root is no object",
            message=f"{tool.name}: {root} ({known}). {hint}",
            spelling=cut_json(schema, 200),
        )
    if not isinstance(schema, Mapping):
        return
    try:
        prepared(schema)
    except InvalidSchema as error:
        yield Remark(
            check="output-schema/invalid",
            tool=tool.name,
            where="outputSchema",
            pointer=error.pointer,
            kind="an output schema that is no valid JSON Schema",
            message=f"{tool.name}: the output schema is broken, so that nothing can be validated by it: "
            f"{str(error).removeprefix('the schema is not valid: ')}"
            + (f" (at {error.pointer})" if error.pointer else ""),
            spelling=cut_json(_at(schema, error.pointer), 200),
        )
    except BudgetExceeded:
        pass  # too large or too deep to be looked at: `not_validated` says so where it would have mattered


def _root_problem(schema: Any, protocol: str) -> str:
    """What is wrong with the root of a declared schema, "" if nothing is."""
    if not isinstance(schema, Mapping):
        return f"outputSchema is {cut_json(schema, 60)}, and must be a JSON object"
    if protocol >= ANY_JSON_REVISION or schema.get("type") == "object":
        return ""
    if "type" in schema:
        found = f"has type {cut_json(schema['type'], 60)}"
    else:
        found = f"has no type, only {', '.join(sorted(map(str, schema))[:5])}" if schema else "is empty"
    return f'the root of outputSchema {found}; up to revision 2025-11-25 its type must be exactly "object"'


def _root_pointer(schema: Any) -> str:
    """What of the root is to be changed: its type, or the reference in its place; "" where there is neither."""
    if isinstance(schema, Mapping):
        return next((f"/{keyword}" for keyword in ("type", "$ref") if keyword in schema), "")
    return ""


def _at(schema: Any, pointer: str) -> Any:
    for part in (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]):
        if isinstance(schema, list) and part.isdigit() and int(part) < len(schema):
            schema = schema[int(part)]
        elif isinstance(schema, Mapping) and part in schema:
            schema = schema[part]
        else:
            break
    return schema


# --- results ------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the results of one tool show, over all runs of a server; `places` are distinct, in order."""

    runs: dict[RunKey, tuple[int, Use | None]] = field(default_factory=dict)
    places: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: int = 0

    def add(self, result: _Result, key: str, detail: dict[str, Any]) -> None:
        self.runs.setdefault(result.view.run.key, (result.exchange.sent.n, result.use))
        known = self.places.get(key)
        if known is not None:
            known["results"] += 1
        else:
            case = {"case": result.use.case} if result.use is not None and result.use.case else {}
            self.places[key] = {**detail, **case, "results": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """One final result of a tool that is no error."""

    view: RunView
    exchange: Exchange
    use: Use | None
    body: Mapping[str, Any]
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What the results of one server's tools show. `undecided`: (tool, why) for what could not be told in bounds."""

    seen: tuple[Seen, ...]
    undecided: tuple[tuple[str, str], ...]


def judge_results(ledgers: Sequence[CellLedger], catalogues: Mapping[RunKey, Catalogue]) -> Results:
    """The results of one server's tools beside the output schemas as they were listed in each run.

    Args:
        catalogues: Of each run.
    """
    wrong: dict[str, _Found] = {}
    formats: dict[str, _Found] = {}
    no_object: dict[str, _Found] = {}
    bare: dict[str, _Found] = {}
    differ: dict[str, _Found] = {}
    totals: dict[str, int] = {}
    undecided: dict[tuple[str, str], None] = {}
    schemas = _Schemas()
    for _view, tool, result in _results(ledgers, catalogues):
        name, protocol, schema = tool.name, result.protocol, tool.output_schema
        old = protocol < ANY_JSON_REVISION
        content = result.body.get("structuredContent", _ABSENT)
        if content is None and old:
            content = _ABSENT  # null is no object, and no content either
        totals[name] = totals.get(name, 0) + 1
        if content is _ABSENT:
            if isinstance(schema, Mapping):
                bare.setdefault(name, _Found()).add(result, "", {"result_has": sorted(map(str, result.body))})
            continue
        if not isinstance(content, Mapping) and old:
            if not declares(tool) or not _root_problem(schema, protocol):  # else the root explains it
                said = f"{_kind(content)}; up to revision 2025-11-25 it must be an object ({protocol} is in force)"
                detail = {"pointer": "", "says": f"structuredContent is {said}", "value": cut_json(content, 200)}
                (wrong if declares(tool) else no_object).setdefault(name, _Found()).add(result, "", detail)
            continue
        if isinstance(schema, Mapping):
            broken, loose, why = schemas.violations(schema, content)
            if why:
                undecided[name, f"a result of {name} could not be held against its output schema: {why}"] = None
            for table, found in ((wrong, broken), (formats, loose)):
                for pointer, message in found:
                    value = cut_json(_at(content, pointer), 200)
                    detail = {"pointer": pointer, "says": message, "value": value}
                    place = f"{_INDEX.sub('/*', pointer)} {_shape(message)}"
                    table.setdefault(name, _Found()).add(result, place, detail)
        if contradiction := texts_disagree(result.body.get("content"), content):
            pointer, says = contradiction
            differ.setdefault(name, _Found()).add(result, _INDEX.sub("/*", pointer), {"pointer": pointer, "says": says})
    seen = [
        item
        for check, table, lead, severity in (
            ("mismatch", wrong, "gave structured content that is not as its output schema says", None),
            ("mismatch", no_object, "gave structured content that no client of this revision takes", None),
            ("mismatch", formats, "gave texts that are not in the format that its output schema says", "warning"),
            ("no-structured", bare, "declares an output schema and gave a result without structuredContent", None),
            ("text-disagrees", differ, "gave a text that says otherwise than its structured content", None),
        )
        for name, found in sorted(table.items())
        for item in _seen(f"output-schema/{check}", name, found, lead, severity, totals[name])
    ]
    return Results(seen=tuple(seen), undecided=tuple(undecided))


def _seen(check: str, name: str, found: _Found, lead: str, severity: Any, total: int) -> Iterator[Seen]:
    places = list(found.places.values())
    said = [f"{item['pointer'] or 'the root'}: {item['says']}" for item in places if "says" in item]
    more = f"; and {len(said) - MAX_SHOWN} more" if len(said) > MAX_SHOWN else ""
    times = max(item["results"] for item in places)
    count = f" ({times} of {total} results)" if "says" not in places[0] else ""
    tail = f": {'; '.join(said[:MAX_SHOWN])}{more}" if said else ""
    evidence: dict[str, Any] = {"violations" if said else "results": places[:MAX_LISTED]}
    for run, (order, use) in found.runs.items():
        yield Seen(
            check=check,
            run=run,
            order=(0, order),
            key=(name, severity or "", lead),
            message=f"{name} {lead}{count}{tail}",
            tool=name,
            severity=severity,
            pointer=places[0].get("pointer") if len(places) == 1 else None,
            place=None if use is None else place_of_use(use),
            case=None if use is None else use.case,
            evidence=evidence,
        )


def _results(
    ledgers: Iterable[CellLedger], catalogues: Mapping[RunKey, Catalogue]
) -> Iterator[tuple[RunView, ToolDef, _Result]]:
    """Every final result that is no error, of a tool that its run lists, in the order in which they came."""
    for ledger in ledgers:
        for view in ledger.views:
            tools = {tool.name: tool for tool in reversed(catalogues[view.run.key].tools)}
            uses = {id(use.exchange): use for use in view.uses if use.exchange is not None}
            for dialogue in view.dialogues:
                if not has_output_schemas(dialogue.protocol):
                    continue
                for exchange in dialogue.exchanges:
                    body = exchange.result
                    if exchange.method != "tools/call" or exchange.name not in tools or not isinstance(body, Mapping):
                        continue
                    if is_input_required(body) or body.get("isError") is True:
                        continue
                    if exchange.reply is None or answer_of("call", exchange.reply.message).problem:
                        continue  # wire/malformed-result
                    use = uses.get(id(exchange))
                    yield (
                        view,
                        tools[exchange.name],
                        _Result(view=view, exchange=exchange, use=use, body=body, protocol=dialogue.protocol),
                    )


class _Schemas:
    """Output schemas that were looked at once, and what came of each instance."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Mapping[str, Any], Prepared | BudgetExceeded]] = {}
        self.by_text: dict[str, Prepared | BudgetExceeded] = {}

    def _prepared(self, schema: Mapping[str, Any]) -> Prepared | BudgetExceeded:
        if id(schema) not in self.known:
            try:
                text = json.dumps(schema, sort_keys=True)
            except RecursionError:
                text = f"at {id(schema)}"
            if text not in self.by_text:
                try:
                    self.by_text[text] = prepared(schema)
                except BudgetExceeded as error:
                    self.by_text[text] = error
            self.known[id(schema)] = (schema, self.by_text[text])  # the schema is kept, so that its id stays its own
        return self.known[id(schema)][1]

    def violations(self, schema: Mapping[str, Any], content: Any) -> tuple[list[_Violation], list[_Violation], str]:
        """Violations, those of `format` alone, and why neither could be told, "" if they could.

        A schema that is broken has a finding of its own that says so.
        """
        prepared = self._prepared(schema)
        if isinstance(prepared, BudgetExceeded):
            return [], [], "" if isinstance(prepared, InvalidSchema) else str(prepared)
        try:
            plain = prepared.violations(content)
            strict = prepared.violations(content, formats=True) if _has_formats(schema) else plain
        except BudgetExceeded as error:
            return [], [], str(error)
        places = {pointer for pointer, _ in plain}
        return plain, [item for item in strict if item[0] not in places], ""


def _has_formats(schema: Any) -> bool:
    stack = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("format"), str):
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def _shape(message: str) -> str:
    """A message without the values in it, so that the same fault of many items is one place."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", message)[-80:]


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"


# --- text and structured content ----------------------------------------------------------------


def texts_disagree(blocks: Any, content: Any) -> tuple[str, str] | None:
    """(pointer, what) where the JSON in the text blocks contradicts the structured content, None where it does not.

    A text that is no JSON object or array says nothing here. One that says less, in another order, with other
    spaces, in one block or one for each item, or wrapped in one key as some SDKs do, agrees.
    """
    texts = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    parsed = [_json(text) for text in texts]
    said = [item for item in parsed if isinstance(item, Mapping | list)]
    if not said:
        return None
    mine = [content, *(content.values() if isinstance(content, Mapping) and len(content) == 1 else ())]
    theirs: list[Any] = list(said)
    for item in said:
        theirs += item.values() if isinstance(item, Mapping) and len(item) == 1 else ()
    if len(texts) > 1:
        theirs.append([text if item is _ABSENT else item for item, text in zip(parsed, texts, strict=True)])
        theirs.append(said)
    first: tuple[str, str] | None = None
    if any(isinstance(own, str) and own in (*texts, "\n".join(texts)) for own in mine):
        return None  # the structured content holds the text itself
    for their in theirs:
        for own in mine:
            found = _conflict(own, their)
            if found is None:
                return None
            first = first or found
    return first


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _ABSENT


def _conflict(content: Any, text: Any) -> tuple[str, str] | None:
    """Where a JSON value in a text says otherwise than one in the structured content, None if nowhere."""
    stack: list[tuple[str, Any, Any]] = [("", content, text)]
    while stack:
        where, own, their = stack.pop()
        if isinstance(own, Mapping) and isinstance(their, Mapping):
            shared = own.keys() & their.keys()
            if not shared and own and their:
                return where, f"the text has {_keys(their)}, the structured content {_keys(own)}"
            stack += [(f"{where}/{key}", own[key], their[key]) for key in sorted(shared, reverse=True)]
        elif isinstance(own, list) and isinstance(their, list):
            if len(own) != len(their):
                return where, f"the text has {len(their)} items, the structured content {len(own)}"
            stack += [(f"{where}/{index}", *pair) for index, pair in enumerate(zip(own, their, strict=True))][::-1]
        elif not _same_scalar(own, their):
            return where, f"the text has {cut_json(their, 80)}, the structured content {cut_json(own, 80)}"
    return None


def _same_scalar(own: Any, their: Any) -> bool:
    if isinstance(own, bool) or isinstance(their, bool):
        return own is their
    if isinstance(own, int | float) and isinstance(their, int | float):
        try:
            return own == their or math.isclose(own, their, rel_tol=_CLOSE)
        except OverflowError:  # an integer that no float can hold
            return False
    return type(own) is type(their) and bool(own == their)


def _keys(value: Mapping[str, Any]) -> str:
    return f"the keys {', '.join(sorted(map(str, value))[:5])}"
