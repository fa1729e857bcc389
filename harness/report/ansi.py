"""Whether to use colour, and the few colours there are; only our own words are ever coloured."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Paint", "wants_color", "wants_status_line"]

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def wants_color(env: Mapping[str, str], isatty: bool) -> bool:
    """Whether a stream gets colour.

    A non-empty NO_COLOR wins over everything. Then FORCE_COLOR, unless it is empty or "0", means yes. Else colour is
    for terminals that are not dumb, outside of CI.

    Source:
        https://no-color.org and https://force-color.org; CI is ours.
    """
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return wants_status_line(env, isatty)


def wants_status_line(env: Mapping[str, str], isatty: bool) -> bool:
    """Whether a line may be rewritten in place: a terminal, not a dumb one, and no CI log."""
    return isatty and env.get("TERM", "") != "dumb" and env.get("CI", "").lower() in ("", "0", "false")


class Paint:
    """Colours words if asked to; `Paint(False)` gives them back as they are."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        """The text in one style of `bold`, `dim`, `red`, `green`, `yellow`, `cyan`."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.on and text else text
