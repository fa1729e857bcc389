"""`exercised`: every listed tool answered, and every called tool is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from harness.findings.ledger import CellLedger, Listing
from harness.findings.seen import Seen, quote_text
from harness.findings.steps import RunView, Use, answer_of_use, place_of_use
from harness.model.checks import CHECKS, family_of
from harness.model.outcome import cut, cut_json
from harness.model.plan import CaseSpec, Cell, CheckSettings, Run, RunKey

__all__ = [
    "answered_unknown",
    "nearest",
    "not_listed",
    "see_absence",
    "see_listing",
    "see_looks",
    "see_not_listed",
    "see_unknown",
]


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def not_listed(ledger: CellLedger, use: Use) -> bool:
    """Whether a use calls a tool that its server does not list, without saying so.

    Somebody else's test cannot say so; that it is answered with an error is what such a test is after.
    """
    if use.dialogue.outside and (use.answer is None or use.answer.is_error):
        return False
    return not use.unlisted and _is_unknown(ledger, use)


def answered_unknown(ledger: CellLedger, use: Use) -> bool:
    """Whether a deliberate call of a tool that there is not was answered with a success."""
    answer = use.answer
    good = answer is not None and not answer.problem and not answer.is_error
    return use.unlisted and good and _is_unknown(ledger, use)


def _is_unknown(ledger: CellLedger, use: Use) -> bool:
    if not use.is_call or not use.calls or use.target in ledger.listed:
        return False
    listing = _listing_of(ledger, use)
    return listing is not None and listing.whole


def _listing_of(ledger: CellLedger, use: Use) -> Listing | None:
    position = next((i for i, view in enumerate(ledger.views) if view.run.key == use.run.key), None)
    return None if position is None else ledger.listings[position]


def _lists_none(view: RunView, listing: Listing) -> bool:
    """Whether a server declares tools and lists none: then no call says anything of its own."""
    return listing.whole and not listing.names and "tools" in view.capabilities


def see_not_listed(ledger: CellLedger) -> Iterator[Seen]:
    """Tools that were called and are not listed; nothing of runs in which no tool is, for that is the fault there."""
    empty = {
        view.run.key for view, listing in zip(ledger.views, ledger.listings, strict=True) if _lists_none(view, listing)
    }
    for tool, uses in ledger.uses.items():
        for use in uses:
            if use.run.key in empty or not not_listed(ledger, use):
                continue
            step = f" ({use.case})" if use.case else ""
            hint = nearest(tool, ledger.listed)
            yield Seen(
                check="exercised/not-listed",
                run=use.run.key,
                order=_order(use),
                key=tool,
                message=f"{tool} was called{step} and is not in tools/list{hint}; a deliberate call of an unknown tool "
                "is a step with `unlisted = true`",
                tool=tool,
                place=place_of_use(use),
                case=use.case,
                evidence={"calls": use.calls, "answer": answer_of_use(use, 300) or None},
            )


def see_unknown(ledger: CellLedger) -> Iterator[Seen]:
    """How deliberate calls of unknown tools were answered: a success is a fault, and so is `isError` for the strict."""
    for view in ledger.views:
        for use in view.uses:
            if not use.unlisted or use.answer is None or use.answer.problem or not _is_unknown(ledger, use):
                continue
            shown = cut(use.answer.text)
            if not use.answer.is_error:
                check, key = "exercised/unknown-succeeded", use.target
                message = f"{use.target} is not in tools/list, and its call succeeded{_in(use)}: {shown}"
            elif use.answer.error is None:
                check, key = "strict/unknown-tool-is-error", ""
                message = (
                    f"the unknown tool {use.target} was answered{_in(use)} with a result that has isError: {shown}; "
                    "the specification's answer is a JSON-RPC error, code -32602"
                )
            else:
                continue
            yield Seen(
                check=check,
                run=use.run.key,
                order=_order(use),
                key=key,
                message=message,
                tool=use.target,
                place=place_of_use(use),
                case=use.case,
                evidence={"result": cut_json(use.answer.result, 500)},
            )


def _in(use: Use) -> str:
    return f" in {use.case}" if use.case else ""


def _order(use: Use) -> tuple[int, int]:
    return (0, use.exchange.sent.n if use.exchange is not None else 0)


def see_listing(ledger: CellLedger, settings: CheckSettings) -> Iterator[Seen]:
    """Listings that failed, and those that are empty though the server declares tools.

    One without an answer is passed over where an error of its own says so.
    """
    for view, listing in zip(ledger.views, ledger.listings, strict=True):
        own = family_of(listing.blamed) == "exercised"
        if listing.blamed and not listing.problem and not own and settings.level_of(listing.blamed) != "error":
            yield Seen(
                check="exercised/list-failed",
                run=view.run.key,
                key=listing.blamed,
                message=f"tools/list had no answer that can be read ({listing.blamed}); "
                "what is not listed cannot be covered",
            )
        if listing.problem:
            page = listing.failed_at
            evidence: dict[str, Any] = {"pages": len(listing.pages)}
            order = (0, 0)
            if page is not None and page.exchange.reply is not None:
                event = page.exchange.reply.line.event
                where = next(item for item in view.dialogues if page.exchange in item.exchanges).where(event.body)
                evidence |= {"bytes": quote_text(event.body.text, 300, where), "offset": event.at}
                order = (0, event.n)
            yield Seen(
                check="exercised/list-failed",
                run=view.run.key,
                order=order,
                key=listing.problem,
                message=f"{listing.problem}; what is not listed cannot be covered",
                evidence=evidence,
            )
        elif _lists_none(view, listing):
            yield Seen(
                check="exercised/no-tools",
                run=view.run.key,
                message="the server declares the tools capability and lists no tool",
                evidence={"capabilities": sorted(view.capabilities)},
            )


def see_looks(ledger: CellLedger) -> Iterator[Seen]:
    """Successes that read like failures."""
    for tool, uses in ledger.uses.items():
        for use in uses:
            if not use.looks_failed or use.answer is None:
                continue
            yield Seen(
                check="exercised/looks-failed",
                run=use.run.key,
                order=_order(use),
                key=tool,
                message=f"{tool} answered{_in(use)} with isError false and a text that reads like a failure: "
                f"{cut(use.answer.text)}; expect that text, or let the server set isError",
                tool=tool,
                place=place_of_use(use),
                case=use.case,
                evidence={"text": answer_of_use(use)},
            )


def see_absence(
    ledgers: Sequence[CellLedger], excused: Mapping[tuple[str, str], frozenset[str]], settings: CheckSettings
) -> Iterator[Seen]:
    """Tools of one server that no call reached, or no call with the success that is asked for, per judged cell.

    A failed-only tool is passed over where every one of its calls has an error of its own that names its cause, and
    any tool with a call that could not be judged: that call may be the good one, and says so itself.

    Args:
        excused: (server, cell) -> excused tools.
    """
    several = len(ledgers) > 1
    for ledger in ledgers:
        if not ledger.judged:
            continue
        taken = excused.get((ledger.cell.server, ledger.cell.backend), frozenset())
        where = f" with {ledger.cell.backend}" if several else ""
        others = [other.cell for other in ledgers if other is not ledger and other.cell.server == ledger.cell.server]
        for tool in sorted(ledger.listed - taken):
            fate, uses = ledger.fates[tool], ledger.uses.get(tool, ())
            if fate == "succeeded" or (fate == "failed-only" and _told(ledger, uses, settings)):
                continue
            if any(use.undecided for use in uses):
                continue
            first = uses[0] if uses else None
            message = {
                "missing": f"{tool} is listed and no call reached it{where}{_intended(ledger, tool, others)}",
                "failed-only": f"{tool} was called {_times(uses)}{where} and never as asked "
                f"(exercised = {settings.exercised!r}): {_reasons(uses)}",
                "refused-only": f"{tool} was called {_times(uses)}{where}, and the only good answers are refusals that "
                f"the suite expects{_intended_success(ledger, tool, uses)}; let it succeed once, or excuse it",
            }[fate]
            yield Seen(
                check=f"exercised/{fate}",
                run=first.run.key if first is not None else _listed_by(ledger, tool),
                key=(tool, ledger.cell.backend),
                message=message,
                tool=tool,
                place=place_of_use(first) if first is not None else None,
                case=first.case if first is not None else None,
                evidence={"backend": ledger.cell.backend, "calls": sum(use.calls for use in uses)},
            )


def _told(ledger: CellLedger, uses: Sequence[Use], settings: CheckSettings) -> bool:
    """Whether an error of its own says of each of these calls why it failed."""
    for use in uses:
        cause = "exercised/not-listed" if not_listed(ledger, use) else use.cause(settings)
        if not cause or (use.cleanup and family_of(cause) == "suite"):
            return False
        if CHECKS[cause].severity != "error" or settings.level_of(cause) != "error":
            return False
    return bool(uses)


def _listed_by(ledger: CellLedger, tool: str) -> RunKey:
    for view, listing in zip(ledger.views, ledger.listings, strict=True):
        if tool in listing.names:
            return view.run.key
    return ledger.cell.runs[0].key


def _times(uses: Sequence[Use]) -> str:
    calls = sum(use.calls for use in uses)
    return "once" if calls == 1 else f"{calls} times"


def _reasons(uses: Sequence[Use]) -> str:
    counted = Counter(use.why for use in uses if use.why)
    return ", ".join(f"{number} × {why}" for why, number in sorted(counted.items())) or "no answer that counts"


def _intended(ledger: CellLedger, tool: str, others: Sequence[Cell]) -> str:
    """Which case would have called it, had it come that far or run here; or why what was called does not count."""
    if any(use.unlisted and use.calls and use.target == tool for view in ledger.views for use in view.uses):
        return "; its calls with `unlisted = true` do not count"
    if planned := _caller([view.run for view in ledger.views], tool):
        return f"; {planned[1]} would have, but it did not come to that"
    for cell in others:
        elsewhere = _caller(cell.runs, tool)
        if elsewhere and elsewhere[0].backends is not None:  # its own, else its suite's
            return f"; {elsewhere[1]} calls it, and runs with {' and '.join(elsewhere[0].backends)} only"
    return ""


def _intended_success(ledger: CellLedger, tool: str, uses: Sequence[Use]) -> str:
    """Which case would have called it for a success, had it come that far."""
    came = {use.case for use in uses if use.case}
    planned = _caller([view.run for view in ledger.views], tool, without=came)
    return f" ({planned[1]} would have called it too, but it did not come to that)" if planned else ""


def _caller(runs: Iterable[Run], tool: str, *, without: Collection[str] = ()) -> tuple[CaseSpec, str] | None:
    """The first case that is to call a tool, and how its step is called.

    Args:
        without: Cases, as `suite/case`, that are passed over.
    """
    for run in runs:
        for suite, case in run.cases:
            if f"{suite}/{case.id}" in without:
                continue
            for phase, steps in (("step", case.steps), ("cleanup step", case.cleanup)):
                for index, step in enumerate(steps):
                    if step.action == "call" and step.target == tool and not step.unlisted:
                        return case, f"{suite}/{case.id} {phase} {index + 1}"
    return None
