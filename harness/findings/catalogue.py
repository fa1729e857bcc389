"""Catalogues out of recorded frames, and the checks that look at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.findings.ledger import LISTS, Listing, listing_of
from harness.findings.names import check_names
from harness.findings.output_schema import check_output_schemas
from harness.findings.remark import Remark
from harness.findings.schemas import check_schemas
from harness.findings.seen import Seen
from harness.findings.steps import RunView
from harness.findings.validity import see_unread_list
from harness.model.catalogue import Catalogue, ToolDef

__all__ = ["CHECKERS", "catalogue_of", "remarks_of", "see_catalogue"]

CHECKERS: tuple[Callable[[Catalogue], Iterator[Remark]], ...] = (  # each: what one subject says of a catalogue
    check_output_schemas,
    check_schemas,
    check_names,
)


def remarks_of(catalogue: Catalogue) -> Iterator[Remark]:
    """Everything that the checks of declarations say of one catalogue."""
    for check in CHECKERS:
        yield from check(catalogue)


def see_catalogue(view: RunView) -> Iterator[Seen]:
    """What one run's lists show."""
    failed = bool(listing_of(view, "tools/list").problem)
    for remark in remarks_of(catalogue_of(view)):
        if failed and remark.check in ("names/empty", "names/duplicate"):
            continue  # that is why the listing failed: an item without a name, the same pages again
        yield remark.seen_in(view.run.key)
    yield from see_unread_list(view)


def catalogue_of(view: RunView) -> Catalogue:
    """The lists of one run, from its raw frames."""
    tools = listing_of(view, "tools/list")
    return Catalogue(
        server=view.run.key.server,
        source=str(view.run.key),
        era=view.run.key.era,
        protocol=view.record.protocol,
        tools=tuple(_tools(tools)),
        prompts=tuple(_items(listing_of(view, "prompts/list"), "prompts/list")),
        resources=tuple(_items(listing_of(view, "resources/list"), "resources/list")),
        whole=tools.whole,
        run=view.run.key,
    )


def _tools(listing: Listing) -> Iterator[ToolDef]:
    for index, item in enumerate(_items(listing, "tools/list")):
        name = item.get("name")
        yield ToolDef(name=name if isinstance(name, str) else "", index=index, definition=item)


def _items(listing: Listing, method: str) -> Iterator[Mapping[str, Any]]:
    for page in listing.walk:
        reply = page.exchange.reply
        result = reply.message.get("result") if reply is not None else None
        items = result.get(LISTS[method][0]) if isinstance(result, Mapping) else None
        yield from (item for item in items or () if isinstance(item, Mapping))
