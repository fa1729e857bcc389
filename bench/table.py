"""Figures of several rounds as rows of a Markdown table: the median, and the range from the least to the most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Table", "ratios", "spread"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One part of the result.

    Attributes:
        name: As `--only` takes it.
        title: Heading.
        about: What was done, in a sentence or two.
        head: Of the columns.
        rows: As many cells each.
        failed: Something is wrong that is no matter of time.
    """

    name: str
    title: str
    about: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    failed: bool = False

    def markdown(self) -> str:
        """Heading, sentence and table; the columns are as wide as they must be."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        left = [max(3, width) for width in widths]
        text = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, left, strict=True)) + " |"
            for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in left) + "|")
        return "\n".join([f"## {self.title}", "", self.about, "", *text, ""])


def spread(values: Sequence[float], unit: str = "") -> str:
    """`12.3 (11.0-14.8) ms`; one value stands alone, none is a dash."""
    if not values:
        return "-"
    middle, low, high = median(values), min(values), max(values)
    if len(values) == 1:
        return f"{_short(middle)}{unit}"
    return f"{_short(middle)} ({_short(low)}–{_short(high)}){unit}"


def ratios(values: Sequence[float], base: Sequence[float]) -> str:
    """How many times the base, round by round; of a round in which either is missing there is none."""
    return spread([value / other for value, other in zip(values, base, strict=False) if other > 0], " ×")


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
