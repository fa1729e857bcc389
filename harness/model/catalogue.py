"""What a server says of itself: its tools, prompts and resources exactly as they went over the wire.

The engine (from a file, a command or a URL) and the findings room (from recorded frames) make catalogues; every check
that needs nothing but declarations is a pure function over one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.plan import Era, RunKey

__all__ = ["Catalogue", "ToolDef"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDef:
    """One item of a tools/list result, never re-serialised by a model.

    Attributes:
        name: Its `name`; "" where it has none that is a string.
        index: Position over all pages, from 0.
        definition: The item as it was parsed, whatever it holds; keys in the order of the wire.
    """

    name: str
    index: int
    definition: Mapping[str, Any]

    @property
    def input_schema(self) -> Any:
        """`inputSchema` as it came; None where it is absent or null."""
        return self.definition.get("inputSchema")

    @property
    def output_schema(self) -> Any:
        """`outputSchema` as it came; None where it is absent or null."""
        return self.definition.get("outputSchema")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The lists of one server in one era and profile.

    Attributes:
        server: Its name, or what stands for one (a file's name).
        source: Where it comes from, for people: a run's key, a file, a command, a URL.
        era: None where it is not known, as with a bare array in a file.
        protocol: Protocol version in force, "" where it is not known.
        whole: Whether every page is there; what rests on absence is not judged otherwise.
        run: The run that it is of, None for everything but evidence.
    """

    server: str
    source: str
    era: Era | None = None
    protocol: str = ""
    tools: tuple[ToolDef, ...] = ()
    prompts: tuple[Mapping[str, Any], ...] = ()
    resources: tuple[Mapping[str, Any], ...] = ()
    whole: bool = True
    run: RunKey | None = None
