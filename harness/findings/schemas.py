"""The schemas of a catalogue's tools, each walked once for all rules that look at one schema alone."""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings.portability import check_portability
from harness.findings.remark import Remark
from harness.findings.schema_walk import walk
from harness.findings.validity import Where, check_validity, is_strict, no_schema
from harness.model.catalogue import Catalogue

__all__ = ["check_schemas"]

_PLACES: tuple[Where, ...] = ("inputSchema", "outputSchema")


def check_schemas(catalogue: Catalogue) -> Iterator[Remark]:
    """What is not valid, and what is not portable, of every schema that a tool declares."""
    strict = is_strict(catalogue)
    for tool in catalogue.tools:
        if "inputSchema" not in tool.definition:
            yield no_schema(tool)
        for where in _PLACES:
            if where in tool.definition:
                seen = walk(tool.definition[where])
                yield from check_validity(tool, where, seen, strict=strict)
                yield from check_portability(tool, where, seen)
