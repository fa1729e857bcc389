"""What a server costs the context of a model: the list of its tools, and the answers that were seen.

The estimate: a token for every `BYTES_A_TOKEN` bytes, begun ones counted. Of a tool its name, description and input
schema count, as compact JSON in UTF-8, for that is what clients hand to a model; of an answer its content blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.findings.ledger import CellLedger
from harness.findings.seen import Seen
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.plan import CheckSettings, RunKey

__all__ = ["BYTES_A_TOKEN", "CellCosts", "bytes_of_tool", "costs_of", "see_over_budget", "tokens_of"]

BYTES_A_TOKEN = 4
MAX_NAMED = 5
_HANDED_OVER = ("name", "description", "inputSchema")


@dataclass(slots=True, kw_only=True)
class CellCosts:
    """Filled by `costs_of`, then left alone. All of it in bytes.

    Attributes:
        tools: Tool -> its largest definition over all runs.
        answers: Tool -> its largest answer.
        runs: Run -> what its list costs.
    """

    tools: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    runs: dict[RunKey, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """What the list costs in the run in which it costs most."""
        return max(self.runs.values(), default=0)


def tokens_of(size: int) -> int:
    """The estimate for so many bytes."""
    return -(-size // BYTES_A_TOKEN)


def bytes_of_tool(tool: ToolDef) -> int:
    """What of a tool's definition is handed to a model, in bytes."""
    return _size({key: tool.definition[key] for key in _HANDED_OVER if key in tool.definition})


def costs_of(ledger: CellLedger, catalogues: Mapping[RunKey, Catalogue]) -> CellCosts:
    """What the lists and answers of one cell cost."""
    out = CellCosts()
    for view in ledger.views:
        total = 0
        for tool in catalogues[view.run.key].tools:
            size = bytes_of_tool(tool)
            total += size
            out.tools[tool.name] = max(size, out.tools.get(tool.name, 0))
        out.runs[view.run.key] = total
        for dialogue in view.dialogues:
            for exchange in dialogue.exchanges:
                result = exchange.result
                if exchange.method == "tools/call" and isinstance(result, Mapping) and "content" in result:
                    size = _size(result["content"])
                    out.answers[exchange.name] = max(size, out.answers.get(exchange.name, 0))
    return out


def _size(value: Any) -> int:
    """Bytes of a value as compact JSON, however deep it is."""
    try:
        return _encoded(value)
    except RecursionError:
        pass
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            total += 2 + sum(_encoded(key) + 1 for key in item) + max(len(item) - 1, 0)
            stack.extend(item.values())
        elif isinstance(item, list):
            total += 2 + max(len(item) - 1, 0)
            stack.extend(item)
        else:
            total += _encoded(item)
    return total


def _encoded(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def see_over_budget(
    ledgers: Sequence[CellLedger], costs: Mapping[tuple[str, str], CellCosts], settings: CheckSettings
) -> Iterator[Seen]:
    """Lists of tools of one server that cost more than `[checks] tokens` allows."""
    budget = settings.tokens
    if budget is None:
        return
    for ledger in ledgers:
        found = costs[ledger.cell.server, ledger.cell.backend]
        most = sorted(found.tools.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMED]
        for run, size in found.runs.items():
            tokens = tokens_of(size)
            if tokens > budget:
                named = ", ".join(f"{name} {tokens_of(part):,}" for name, part in most)
                yield Seen(
                    check="tokens/over-budget",
                    run=run,
                    message=f"the list of {len(found.tools)} tools costs a model about {tokens:,} tokens "
                    f"({size:,} bytes), and [checks] tokens allows {budget:,}; the most: {named}",
                    place=settings.places.get("tokens"),
                    evidence={
                        "bytes": size,
                        "tokens": tokens,
                        "budget": budget,
                        "estimate": f"a token for every {BYTES_A_TOKEN} bytes of name, description and inputSchema",
                        "most": {name: tokens_of(part) for name, part in most},
                    },
                )
