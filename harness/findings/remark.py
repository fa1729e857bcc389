"""A remark: what one check says of a catalogue, before it is known in which run or file that catalogue was seen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.findings.seen import Seen
from harness.model.finding import Severity
from harness.model.plan import RunKey

__all__ = ["Remark", "table_of"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def table_of(server: str, check: str) -> str:
    """The header of a table of exemptions.toml, with names quoted where TOML takes them in quotes only."""
    keys = (name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in (server, check))
    return f"[{'.'.join(keys)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One fault at one place of a catalogue.

    Attributes:
        check: Full id.
        tool: The tool's name, None where it is about the whole list.
        where: The key of the definition that `pointer` starts from, "" for the definition itself.
        pointer: JSON pointer below `where`, such as "/properties/z"; "" is the root of it.
        kind: What all remarks of one kind have in common, in a few words ("an array without items"); reports show one
            headline for each check and kind, and list the places.
        message: One paragraph: what stands there, which clients do what with it, what to write instead.
        severity: Where it is not the check's usual one.
        spelling: The offending JSON, compact and cut.
        evidence: More that is worth quoting, such as `clients` (a list of names) and `instead`.
    """

    check: str
    message: str
    tool: str | None = None
    where: Literal["", "inputSchema", "outputSchema"] = ""
    pointer: str | None = None
    kind: str = ""
    severity: Severity | None = None
    spelling: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def seen_in(self, run: RunKey) -> Seen:
        """The sighting of this remark in a run; the same place in several runs is one finding."""
        return Seen(
            check=self.check,
            run=run,
            key=(self.tool, self.where, self.pointer, self.kind),
            message=self.message,
            tool=self.tool,
            severity=self.severity,
            pointer=self.pointer,
            evidence=self.details(),
        )

    def details(self) -> dict[str, Any]:
        """What the finding's `evidence` holds of it."""
        out: dict[str, Any] = {}
        if self.where:
            out["schema"] = self.where
        if self.kind:
            out["kind"] = self.kind
        if self.spelling:
            out["spelling"] = self.spelling
        return {**out, **self.evidence}
