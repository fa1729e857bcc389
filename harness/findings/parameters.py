"""Which parameters of each tool, which listed values and which forms of theirs the answered calls of a cell used.

`tool.filter.tags` is a property, `tool.order=asc` one of the values that its enum lists, `tool.when|integer` one of the
forms that its union allows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.findings.fields import ITEM, VALUE, Field, Fields, fields_of, fits
from harness.findings.frames import Exchange, is_input_required
from harness.findings.ledger import CellLedger
from harness.findings.remark import table_of
from harness.findings.seen import Seen
from harness.model.catalogue import Catalogue
from harness.model.finding import ToolDetails
from harness.model.outcome import answer_of, same_json
from harness.model.plan import RunKey

__all__ = ["CellParameters", "Excuses", "covers", "parameters_of", "see_unused"]

MAX_NAMED = 12  # in a message; the evidence has all
Excuses = Mapping[tuple[str, str], Collection[tuple[str, str]]]  # (server, cell) -> (tool, parameter)


@dataclass(slots=True, kw_only=True)
class CellParameters:
    """Filled by `parameters_of`, then left alone.

    Attributes:
        known: Tool -> parameter, value or form -> whether an answered call used it.
        answered: Tools that answered at all.
        cut: Tools with more parameters than the bounds of `fields` allow.
    """

    known: dict[str, dict[str, bool]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)

    def coverage(self, excused: Collection[tuple[str, str]]) -> tuple[ToolDetails, ...]:
        """The sums of each tool; what is used is not excused."""
        out = []
        for tool, items in sorted(self.known.items()):
            unused = sorted(name for name, used in items.items() if not used)
            mine = tuple(name for name in unused if (tool, name) in excused)
            rest = tuple(name for name in unused if (tool, name) not in excused)
            used = len(items) - len(unused)
            out.append(ToolDetails(tool=tool, parameters=len(items), used=used, unused=rest, excused=mine))
        return tuple(out)


def covers(subject: str, name: str) -> bool:
    """Whether an entry for one parameter speaks of another too: of its own parts, values and forms."""
    return name == subject or (name.startswith(subject) and name[len(subject)] in ".[=|")


def parameters_of(ledger: CellLedger, catalogues: Mapping[RunKey, Catalogue]) -> CellParameters:
    """The parameters of one cell's tools over all of its runs, each by the schema as it was listed in that run."""
    out = CellParameters()
    read: dict[str, Fields] = {}
    for view in ledger.views:
        fields: dict[str, Fields] = {}
        for tool in catalogues[view.run.key].tools:
            if tool.name in fields:
                continue
            schema = tool.input_schema
            text = _key(schema)
            if text not in read:
                read[text] = fields_of(schema if isinstance(schema, Mapping) else {})
            fields[tool.name] = read[text]
            items = out.known.setdefault(tool.name, {})
            for name in _items(fields[tool.name]):
                items.setdefault(name, False)
            if fields[tool.name].cut:
                out.cut.add(tool.name)
        for dialogue in view.dialogues:
            for exchange in dialogue.exchanges:
                if exchange.method == "tools/call" and exchange.name in fields and _is_answered(exchange):
                    out.answered.add(exchange.name)
                    items = out.known[exchange.name]
                    for name in _used(fields[exchange.name], exchange.params.get("arguments")):
                        items[name] = True
    return out


def _key(schema: Any) -> str:
    """The same for the same schema of another run, so that it is read once; of a very deep one only for itself."""
    try:
        return json.dumps(schema, sort_keys=True)
    except RecursionError:
        return f"at {id(schema)}"


def _is_answered(exchange: Exchange) -> bool:
    """Whether it had a well-formed final result, `isError` or not."""
    if exchange.reply is None or not exchange.in_time or "error" in exchange.reply.message:
        return False
    return not is_input_required(exchange.result) and not answer_of("call", exchange.reply.message).problem


def _items(fields: Fields) -> Iterator[str]:
    for item in fields.all:
        if item.is_property:
            yield item.name
        yield from (_value(item, value) for value in item.values)
        yield from (f"{item.name}|{branch.label}" for branch in item.branches)


def _value(item: Field, value: Any) -> str:
    return f"{item.name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _used(fields: Fields, arguments: Any) -> Iterator[str]:
    """What one call used; a default that is left out is used as a value, and not as a parameter."""
    by_path: dict[tuple[str, ...], Field] = {item.path: item for item in fields.all}
    below: dict[tuple[str, ...], list[Field]] = {}
    for item in fields.all:
        below.setdefault(item.path[:-1], []).append(item)
    stack: list[tuple[tuple[str, ...], Any]] = [((), arguments if arguments is not None else {})]
    while stack:
        path, value = stack.pop()
        here = by_path.get(path)
        if here is not None:
            if here.is_property:
                yield here.name
            yield from (_value(here, known) for known in here.values if same_json(known, value))
            yield from (f"{here.name}|{branch.label}" for branch in here.branches if fits(branch, value))
        elif path:
            continue
        if isinstance(value, Mapping):
            for key, inner in value.items():
                stack.append(((*path, key) if (*path, key) in by_path else (*path, VALUE), inner))
            for absent in below.get(path, ()):
                if absent.is_property and absent.path[-1] not in value:
                    yield from _by_default(absent)
        elif isinstance(value, list):
            stack += [((*path, ITEM), inner) for inner in value]


def _by_default(item: Field) -> Iterator[str]:
    for node in item.nodes:
        if node.is_object and "default" in node.schema:
            default = node.schema["default"]
            yield from (_value(item, known) for known in item.values if same_json(known, default))


def see_unused(
    ledgers: Sequence[CellLedger], parameters: Mapping[tuple[str, str], CellParameters], excused: Excuses
) -> Iterator[Seen]:
    """What no answered call of one server used, for each judged cell and tool that answered at all.

    Args:
        parameters: Of each (server, cell).
        excused: What exemptions excuse.
    """
    several = len(ledgers) > 1
    for ledger in ledgers:
        if not ledger.judged:
            continue
        key = (ledger.cell.server, ledger.cell.backend)
        mine = parameters[key]
        for item in mine.coverage(excused.get(key, ())):
            if not item.unused or item.tool not in mine.answered:
                continue  # what is said of a tool that never answered is said of its parameters too
            where = f" with {ledger.cell.backend}" if several else ""
            yield Seen(
                check="parameters/missing",
                run=_listed_by(ledger, item.tool),
                key=(item.tool, ledger.cell.backend),
                message=f"{item.tool}: {item.used} of {item.parameters} parameters, values and forms were used by "
                f"answered calls{where}; not used: {_named(item.unused)}. Call it with them, or say in "
                f"{table_of(ledger.cell.server, 'parameters')} why not",
                tool=item.tool,
                evidence={"backend": ledger.cell.backend, "unused": list(item.unused)},
            )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown}, … ({len(names)} in all)"


def _listed_by(ledger: CellLedger, tool: str) -> RunKey:
    listed: Iterable[RunKey] = (
        view.run.key for view, listing in zip(ledger.views, ledger.listings, strict=True) if tool in listing.names
    )
    return next(iter(listed), ledger.cell.runs[0].key)
