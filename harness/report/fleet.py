"""The repositories of a rollout as a table: one row each, and a column for every family of checks that found something.

`tools` is how many were exercised of how many there are, over all cells. The cell of a family counts findings that fail
(`3`), warnings (`2!`) or both (`3 2!`); `·` is none, and `?` stands where the repository gave no evidence to judge by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.model.checks import FAMILIES, family_of
from harness.model.finding import Judgement, Repository, Verdict

__all__ = ["MAX_ROWS", "fleet_rows", "fleet_summary"]

MAX_ROWS = 300  # of those that are not clean, then of the others; the rest is counted
STATES = {
    "done": "",
    "not-checked-out": "not checked out",
    "files": "files cannot be used",
    "timed-out": "timed out",
    "ended": "died",
    "interrupted": "interrupted",
    "not-begun": "not begun",
    "no-record": "not run yet",
}
_ORDER: dict[Verdict, int] = {"error": 0, "nothing-run": 1, "findings": 2, "partial": 3, "clean": 4}


def fleet_summary(repositories: Sequence[Repository]) -> str:
    """How many repositories there are, and of which verdicts."""
    counts = Counter(item.verdict for item in repositories)
    parts = [f"{counts[verdict]} {verdict}" for verdict in sorted(counts, key=_ORDER.__getitem__, reverse=True)]
    return ", ".join(parts)


def fleet_rows(judgement: Judgement) -> tuple[list[str], list[list[str]], int]:
    """The head, the rows, and how many repositories are not among these. The worst come first, else by name."""
    ordered = sorted(judgement.repositories, key=lambda item: (_ORDER[item.verdict], item.name))
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for finding in judgement.findings:
        counts.setdefault(finding.server, Counter())[family_of(finding.check), finding.severity] += 1
    families = _families(found for (found, _) in (key for counter in counts.values() for key in counter))
    errors = Counter(failure.server for failure in judgement.errors)
    open_ones = Counter(item.server for item in judgement.not_judged)
    tools: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    for cell in judgement.coverage:
        tools[cell.server] += cell.tools
        succeeded[cell.server] += cell.succeeded
        excused[cell.server] += cell.excused
    seen = {run.server for run in judgement.ran}
    rows = []
    for item in ordered[:MAX_ROWS]:
        server = item.server or item.name
        ran = item.server in seen
        mine = counts.get(server, Counter())
        rows.append(
            [
                item.name,
                item.verdict,
                f"{succeeded[server]}/{tools[server]}" if ran else "?",
                str(excused[server]) if ran else "?",
                *(_cell(mine[family, "error"], mine[family, "warning"], ran) for family in families),
                STATES.get(item.state, item.state) or str(errors[server] or "·"),
                str(open_ones[server] or "·"),
            ]
        )
    head = ["repository", "verdict", "tools", "excused", *families, "errors", "not judged"]
    return head, rows, len(ordered) - len(rows)


def _families(found: Iterable[str]) -> list[str]:
    """Those that found something, in the order of the checks."""
    there = set(found)
    return [*(family for family in FAMILIES if family in there), *sorted(there - set(FAMILIES))]


def _cell(errors: int, warnings: int, ran: bool) -> str:
    parts = [str(errors)] if errors else []
    parts += [f"{warnings}!"] if warnings else []
    return " ".join(parts) or ("·" if ran else "?")
