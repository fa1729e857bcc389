"""The ledger of one cell: what its servers list, and what became of every tool, prompt and resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.findings.frames import TOO_DEEP, Dialogue, Exchange
from harness.findings.steps import RunView, Use, why_unanswered
from harness.model.finding import Coverage, ToolFate
from harness.model.outcome import cut
from harness.model.plan import Cell, Level

__all__ = ["LISTS", "CellLedger", "Listing", "Page", "fate_of", "listing_of", "make_ledger"]

Fate = Literal["succeeded", "refused-only", "failed-only", "missing"]
LISTS = {"tools/list": ("tools", "name"), "prompts/list": ("prompts", "name"), "resources/list": ("resources", "uri")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer to a listing request; `problem` says why it is none."""

    exchange: Exchange
    names: tuple[str, ...] = ()
    cursor: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All pages of one listing method in one run.

    Attributes:
        names: The union of all pages.
        pages: Answered pages of every walk, in order; `walk` are those of the one walk that the rest is told of.
        problem: Why the listing is not whole, "" if it is; `blamed` is another check that says it already, and `left`
            says that somebody else's client did not ask for all of it.
        asked: Whether it was asked for at all.
    """

    names: frozenset[str]
    pages: tuple[Page, ...]
    walk: tuple[Page, ...] = ()
    problem: str = ""
    blamed: str = ""
    left: bool = False
    asked: bool = False
    failed_at: Page | None = None

    @property
    def whole(self) -> bool:
        """Whether every page is there."""
        return self.asked and not self.problem and not self.blamed and not self.left


@dataclass(slots=True, kw_only=True)
class CellLedger:
    """What one cell showed; filled by `make_ledger`, then left alone.

    Attributes:
        views: The runs of the cell that gave evidence, in the order of the plan.
        obstacles: Why absence cannot be judged here: (reason, whether by the user's own selection).
        listings: tools/list of each run, by position in `views`.
        uses: The uses of each tool that count, listed or not.
        fates: Of every listed tool, before exemptions.
    """

    cell: Cell
    views: tuple[RunView, ...]
    obstacles: tuple[tuple[str, bool], ...]
    listings: tuple[Listing, ...] = ()
    listed: frozenset[str] = frozenset()
    uses: dict[str, list[Use]] = field(default_factory=dict)
    fates: dict[str, Fate] = field(default_factory=dict)
    prompts: frozenset[str] = frozenset()
    prompts_used: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    resources_used: frozenset[str] = frozenset()

    @property
    def judged(self) -> bool:
        """Whether absence can be judged: every planned run finished and nothing was left out."""
        return not self.obstacles

    @property
    def lists_whole(self) -> bool:
        """Whether every run that gave evidence showed its whole list of tools."""
        return all(listing.whole for listing in self.listings)

    def coverage(self, excused: frozenset[str]) -> Coverage:
        """The sums; `excused` are the tools whose fate an exemption takes over."""
        fates = []
        for tool in sorted(self.listed):
            fate: Any = self.fates[tool]
            if tool in excused and fate != "succeeded":
                fate = "excused"
            fates.append(ToolFate(tool=tool, fate=fate, calls=sum(use.calls for use in self.uses.get(tool, ()))))
        count = [fate.fate for fate in fates].count
        return Coverage(
            server=self.cell.server,
            backend=self.cell.backend,
            tools=len(fates),
            succeeded=count("succeeded"),
            refused_only=count("refused-only"),
            failed_only=count("failed-only"),
            excused=count("excused"),
            missing=count("missing"),
            judged=self.judged,
            fates=tuple(fates),
            prompts=len(self.prompts),
            prompts_used=len(self.prompts_used),
            resources=len(self.resources),
            resources_used=len(self.resources_used),
        )


def listing_of(view: RunView, method: str) -> Listing:
    """All pages of a listing method that one run shows; the first walk with all answers says whether they are whole."""
    pages: list[Page] = []
    first: tuple[Dialogue, list[Exchange], list[Page]] | None = None
    for dialogue in view.dialogues:
        for walk in _walks(exchange for exchange in dialogue.exchanges if exchange.method == method):
            walked = [_page(exchange, method) for exchange in walk if exchange.in_time]
            pages.extend(walked)
            found = (dialogue, walk, walked)
            if first is None or (_is_poor(first) and not _is_poor(found)):  # it was asked for again
                first = found
    names = frozenset(name for page in pages for name in page.names)
    if first is None:
        return Listing(names=names, pages=())
    dialogue, walk, walked = first
    problem, failed_at = next(((page.problem, page) for page in walked if page.problem), ("", None))
    lost = next((exchange for exchange in walk if not exchange.in_time), None)
    blamed = "" if lost is None else why_unanswered(dialogue, lost) or _unread(lost) or "wire/no-reply"
    left = dialogue.outside and not problem and bool(walked) and walked[-1].cursor is not None
    unfinished = "" if left else _unfinished(walked, walk, dialogue)
    if unfinished and not problem:
        problem, failed_at = unfinished, walked[-1]
    return Listing(
        names=names,
        pages=tuple(pages),
        walk=tuple(walked),
        problem=problem,
        blamed=blamed,
        left=left,
        asked=True,
        failed_at=failed_at,
    )


def _is_poor(found: tuple[Dialogue, list[Exchange], list[Page]]) -> bool:
    """Whether another walk would be better: an answer is missing, or somebody else's client went another way."""
    dialogue, walk, walked = found
    if dialogue.outside and (not walked or walked[-1].cursor is not None or any(page.problem for page in walked)):
        return True
    return _is_lost(walk)


def _is_lost(walk: Iterable[Exchange]) -> bool:
    return any(not exchange.in_time for exchange in walk)


def _unread(exchange: Exchange) -> str:
    return TOO_DEEP if exchange.spoilt is not None and exchange.spoilt.problem == TOO_DEEP else ""


def _walks(exchanges: Iterable[Exchange]) -> list[list[Exchange]]:
    """Listing requests as walks over pages: one without a cursor begins the next."""
    walks: list[list[Exchange]] = []
    for exchange in exchanges:
        if not walks or exchange.params.get("cursor") is None:
            walks.append([])
        walks[-1].append(exchange)
    return walks


def _page(exchange: Exchange, method: str) -> Page:
    assert exchange.reply is not None
    key, name_key = LISTS[method]
    message = exchange.reply.message
    if "error" in message:
        error = message["error"]
        code, text = (error.get("code"), error.get("message")) if isinstance(error, Mapping) else (None, error)
        return Page(exchange=exchange, problem=f"{method} gave error {code}: {cut(str(text))}")
    result = message.get("result")
    if not isinstance(result, Mapping):
        return Page(exchange=exchange, problem=f"the result of {method} is no object")
    items = result.get(key)
    if not isinstance(items, list):
        return Page(exchange=exchange, problem=f"the result of {method} has no array {key!r}")
    names = []
    problem = ""
    for index, item in enumerate(items):
        name = item.get(name_key) if isinstance(item, Mapping) else None
        if isinstance(name, str):
            names.append(name)
        elif not problem:
            problem = f"{key}[{index}] in the result of {method} has no {name_key}"
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        problem = problem or f"nextCursor in the result of {method} is no string"
        cursor = None
    cursor = cursor or None  # an empty one is taken for none
    return Page(exchange=exchange, names=tuple(names), cursor=cursor, problem=problem)


def _unfinished(walk: Sequence[Page], exchanges: Sequence[Exchange], dialogue: Dialogue) -> str:
    """Why a walk over pages has no end, "" if it has one, or if the last request was never answered."""
    if not walk or walk[-1].cursor is None or walk[-1].exchange is not exchanges[-1]:
        return ""
    exited = dialogue.exited
    if not dialogue.transcript.complete or (exited is not None and not exited.asked):
        return ""
    method, cursor = walk[-1].exchange.method, walk[-1].cursor
    earlier = [page.cursor for page in walk[:-1]]
    if cursor in earlier:
        return f"{method} repeats the cursor {cut(cursor, 60)} on page {len(walk)}: pages without end"
    return f"{method} gave {len(walk)} pages and still a cursor {cut(cursor, 60)}: pages without end"


def make_ledger(
    cell: Cell, views: Sequence[RunView], *, level: Level, obstacles: Iterable[tuple[str, bool]]
) -> CellLedger:
    """The ledger of one cell over all of its runs."""
    spoken = tuple(view for view in views if view.spoken)
    listings = tuple(listing_of(view, "tools/list") for view in spoken)
    found = CellLedger(cell=cell, views=spoken, obstacles=tuple(obstacles), listings=listings)
    found.listed = frozenset().union(*(listing.names for listing in listings))
    prompts = [listing_of(view, "prompts/list").names for view in spoken]
    resources = [listing_of(view, "resources/list").names for view in spoken]
    found.prompts, found.resources = frozenset().union(*prompts), frozenset().union(*resources)
    used: dict[str, set[str]] = {"prompts/get": set(), "resources/read": set()}
    for view in spoken:
        for use in view.uses:
            if use.is_call:
                if not use.unlisted and use.calls:
                    found.uses.setdefault(use.target, []).append(use)
            elif use.verdict == "succeeded" and use.method in used:
                used[use.method].add(use.target)
    found.prompts_used = found.prompts & used["prompts/get"]
    found.resources_used = found.resources & used["resources/read"]
    for tool in found.listed:
        found.fates[tool] = fate_of(found.uses.get(tool, ()), level)
    return found


def fate_of(uses: Sequence[Use], level: Level) -> Fate:
    """What became of one tool, by the level that `[checks] exercised` asks for."""
    if not uses:
        return "missing"
    if any(_meets(use, level) for use in uses):
        return "succeeded"
    return "refused-only" if any(use.verdict == "refused" for use in uses) else "failed-only"


def _meets(use: Use, level: Level) -> bool:
    match level:
        case "attempted":
            return use.calls > 0
        case "answered":
            return use.answered
        case "succeeded":
            return use.verdict == "succeeded"
