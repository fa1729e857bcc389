"""The options of the command line, in groups that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

__all__ = [
    "Parser",
    "also",
    "diffs",
    "dry",
    "judged_on",
    "judging",
    "listing",
    "matrix",
    "proposing",
    "pruning",
    "rebuild",
    "reuse",
    "runtime",
    "selects",
    "selects_servers",
    "state",
]

FORMATS = ("text", "json", "junit", "markdown", "sarif")
WITHIN_DAYS = 30


class Parser(argparse.ArgumentParser):
    """Says which known word is nearest to one that is not known."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            sub = next((sub for name, sub in self.commands() if name == parsed.command), self)
            options = [name for action in sub._actions for name in action.option_strings]
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            hint = _near(word.partition("=")[0], options) or f"{sub.prog} --help lists what there is"
            sub.error(f"unrecognized arguments: {' '.join(unknown)}\n  hint: {hint}")
        return parsed

    def commands(self) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        """The commands and their parsers."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.items()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        what = "command" if action.dest == "command" else "choice"
        near = _near(str(value), known)
        listed = f"{', '.join(known)}"
        raise argparse.ArgumentError(
            action if what == "choice" else None,
            f"there is no {what} {str(value)!r}\n  hint: {f'{near} ' if near else ''}known: {listed}",
        )


def _near(word: str, known: Iterable[str]) -> str:
    """ "did you mean …?", "" where nothing is near."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {found[0]!r}?" if found else ""


def selects_servers(sub: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = sub.add_argument_group("selection")
    group.add_argument("names", nargs="*", metavar="SERVER", help="only these servers (the same as --server)")
    group.add_argument(
        "--project",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder with a harness.toml, or the file; a folder of such folders, or a pattern (default: .)",
    )
    group.add_argument("--server", action="append", default=[], metavar="NAME", help="only this server")
    group.add_argument(
        "--default-server", action="append", default=[], metavar="NAME", help="the servers to take if none is named"
    )
    group.add_argument("--all", action="store_true", help="all servers, whatever --default-server says")
    return group


def over_all(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--rollout",
        nargs="?",
        const="rollout.toml",
        metavar="LIST",
        help="all repositories of a list (default: rollout.toml) that are here, by the evidence of the last rollout",
    )


def selects(sub: argparse.ArgumentParser) -> None:
    group = selects_servers(sub)
    group.add_argument(
        "--backend", action="append", default=[], metavar="NAME[@VERSION]", help="only cells with this backend"
    )
    group.add_argument("--era", action="append", default=[], choices=("handshake", "modern"), help="only this era")
    group.add_argument("--profile", action="append", default=[], metavar="NAME", help="only this profile")
    group.add_argument(
        "-k", dest="cases", default="", metavar="EXPR", help="only cases whose server/suite/case matches, as in pytest"
    )


def runtime(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--runtime",
        choices=("auto", "docker", "process"),
        default=os.environ.get("ROLLCALL_RUNTIME") or "auto",
        help="where backends run: in Docker, as embedded processes, or what is there (default: auto)",
    )


def matrix(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--by",
        choices=("cell", "run"),
        default="cell",
        help="a job for each server and choice of backends, or for each era and profile of these (default: cell)",
    )
    sub.add_argument(
        "--format",
        choices=("text", "json", "github", "gitlab"),
        default="text",
        help="commands; JSON; the matrix for `fromJSON` of GitHub; a file for `include` of GitLab (default: text)",
    )


def state(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--evidence", metavar="DIR", help="where evidence is kept (default: .rollcall/evidence of each project)"
    )
    sub.add_argument(
        "--state", metavar="DIR", help="where builds and all else are kept (default: .rollcall of each project)"
    )


def rebuild(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--rebuild", action="store_true", help="build even if nothing has changed")


def reuse(sub: argparse.ArgumentParser) -> None:
    """Adds the wish for stacks that serve several runs."""
    sub.add_argument(
        "--reuse-stacks",
        action="store_true",
        help="reset a stack after a run and give it to the next, where its backends say how; else each run has its own",
    )


def also(sub: argparse.ArgumentParser) -> None:
    """Adds further folders of evidence."""
    sub.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="DIR",
        help="further evidence, recorded elsewhere: it counts where server and build agree, else it is listed",
    )


def judging(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("judging")
    group.add_argument("--format", choices=FORMATS, default="text", help="what goes to stdout (default: text)")
    _out(
        group,
        "a folder where all reports are written (default: .rollcall), or FILE.json, .xml, .md, .sarif or .txt: one "
        "report more; may be repeated",
    )
    group.add_argument("--strict", action="store_true", help="warnings fail the run too")
    group.add_argument("--require-complete", action="store_true", help="exit 3 if anything was deselected")
    judged_on(group)


def _out(group: argparse._ActionsContainer, text: str) -> None:
    group.add_argument("--out", action="append", default=[], metavar="DIR|FILE", help=text)


def judged_on(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--today",
        type=_day,
        metavar="YYYY-MM-DD",
        help="the date that `expires` is compared with (default: today, UTC)",
    )


def pruning(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--expired", action="store_true", help="remove entries whose `expires` day is over, too")


def proposing(sub: argparse.ArgumentParser) -> None:
    """What `exemptions propose` may be asked for."""
    sub.add_argument(
        "--check",
        action="append",
        default=[],
        metavar="NAME",
        help="only for this check, by its name in exemption files, and for its warnings too; may be repeated",
    )


def diffs(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dry-run", action="store_true", help="only show the changes, as a diff")


def listing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--by", choices=("owner", "check", "age", "expiry"), default="owner", help="the order (default: owner)"
    )
    sub.add_argument(
        "--within",
        type=_days,
        default=WITHIN_DAYS,
        metavar="DAYS",
        help=f"mark entries that expire within so many days (default: {WITHIN_DAYS})",
    )
    sub.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout (default: text)")


def dry(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date (YYYY-MM-DD)") from None


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days")
    return int(text)
