"""The arguments of `tools snapshot`, `tools diff` and `tools accept`; light to import, and nothing prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date

from harness.tools_door import add_sources

__all__ = ["add_contract_commands"]

FAIL_ON = ("breaking", "unknown", "additive", "routing", "cosmetic", "never")
DEFAULT_FAIL_ON = "unknown"

SNAPSHOT = """\
examples:
  mcp-rollcall tools snapshot                     of the newest evidence of the project in this folder
  mcp-rollcall tools snapshot -- python -m my_server --stdio
  mcp-rollcall tools snapshot tools.json --out contract.json
"""
DIFF = """\
examples:
  mcp-rollcall tools diff contract.json .         the contract against the newest evidence of the project here
  git show main:contract.json | mcp-rollcall tools diff - contract.json --format markdown
  mcp-rollcall tools diff contract.json https://example.org/mcp --fail-on routing

exit codes:
  0 no change of a class that fails   1 there is one   2 a source or an option that cannot be used
"""
ACCEPT = """\
examples:
  mcp-rollcall tools accept --reason "search_all replaces search, see issue 41"
  mcp-rollcall tools accept --tool search --reason "the page size was never honoured, so it went"
"""


def add_contract_commands(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
    *,
    snapshot: Callable[[argparse.Namespace], int],
    diff: Callable[[argparse.Namespace], int],
    accept: Callable[[argparse.Namespace], int],
) -> None:
    """Adds the three commands to those of `tools`.

    Args:
        snapshot: What `tools snapshot` does with its arguments; so for the others.
    """
    sub = _add(words, "snapshot", "write contract.json: what the server lists, to be committed", SNAPSHOT, snapshot)
    sub.add_argument("--server", default="", metavar="NAME", help="the server's name in the file (default: as found)")
    sub.add_argument(
        "--out", metavar="FILE", help="where it goes (default: what harness.toml names as contract, else contract.json)"
    )
    sub.add_argument("--force", action="store_true", help="write over a file that is there, and lose its history")
    sub.add_argument(
        "--without-words",
        action="store_true",
        help="leave titles and descriptions out: then they may change as they like, in this and every later comparison",
    )
    sub = _add(words, "diff", "what changed between two sources, as a caller sees it", DIFF, diff)
    sub.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="what goes to stdout (default: text)"
    )
    sub.add_argument(
        "--fail-on",
        choices=FAIL_ON,
        default=DEFAULT_FAIL_ON,
        help="the least grave class that gives exit 1; those before it fail too (default: unknown, which is breaking "
        "as far as could be told)",
    )
    sub = _add(words, "accept", "rewrite contract.json with what is listed now, and say why", ACCEPT, accept)
    sub.add_argument("--reason", default="", metavar="TEXT", help="why the change is right; it is kept in the file")
    sub.add_argument(
        "--tool", action="append", default=[], metavar="NAME", help="only this tool (or prompt, or resource's URI)"
    )
    sub.add_argument("--contract", metavar="FILE", help="the file (default: as for tools snapshot)")
    sub.add_argument(
        "--today",
        type=_day,
        metavar="YYYY-MM-DD",
        help="the date that is written beside the reason (default: today, UTC)",
    )
    sub.add_argument("--dry-run", action="store_true", help="only show what would be accepted")


def _add(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    examples: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    sub = words.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.set_defaults(run=run)
    add_sources(sub)
    sub.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")
    return sub


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date (YYYY-MM-DD)") from None
