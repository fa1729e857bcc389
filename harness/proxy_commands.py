"""The arguments of `proxy`, `evidence show` and `evidence to-suite`; light to import, and nothing prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["WORDS", "add_proxy_commands"]

WORDS = ("show", "to-suite")  # of `evidence`

PROXY = """\
examples:
  mcp-rollcall proxy -- node dist/index.js       in a client's configuration, in place of the server's own command
  mcp-rollcall proxy --evidence /tmp/recorded -- uvx some-mcp-server --stdio
  mcp-rollcall proxy --http http://127.0.0.1:8000/mcp    for a server over Streamable HTTP that stands already

Everything passes as it comes: bytes, end of input, signals, exit code, standard error. Show what was recorded with
mcp-rollcall evidence show. Under [suites] commands the proxy is put before the server by itself.

exit codes:
  the server's; 2 usage   6 the guard refused the server   126 it is no program   127 there is none
"""
SHOW = """\
examples:
  mcp-rollcall evidence show                     what is below .rollcall/evidence
  mcp-rollcall evidence show .rollcall/evidence/unknown --format json
"""
SUITE = """\
examples:
  mcp-rollcall evidence to-suite .rollcall/evidence/unknown --out suites/recorded.toml
"""


def add_proxy_commands(
    commands: Any,
    *,
    proxy: Callable[[argparse.Namespace], int],
    show: Callable[[argparse.Namespace], int],
    to_suite: Callable[[argparse.Namespace], int],
) -> None:
    """Adds the three commands.

    Args:
        proxy: What `proxy` does with its arguments; so for the others.
    """
    sub = _add(commands, "proxy", "record a server that any client drives, and change nothing", PROXY, proxy)
    sub.usage = (
        "mcp-rollcall proxy [--evidence DIR] -- COMMAND …\n"
        "       mcp-rollcall proxy [--evidence DIR] [--port-file FILE] --http URL"
    )
    sub.add_argument(
        "--evidence",
        metavar="DIR",
        help="where it is recorded (default: .rollcall/evidence beside the nearest harness.toml, else of this folder)",
    )
    sub.add_argument(
        "--http", metavar="URL", help="stand before a server over HTTP, on a free port of this machine, until SIGTERM"
    )
    sub.add_argument("--port-file", metavar="FILE", help="where the port is written; the URL is printed on stdout")
    sub.add_argument("--session", metavar="FILE", help="the run that stands; mcp-rollcall gives it by itself")
    sub = _add(commands, "evidence show", "what was recorded: calls, arguments, durations, stray bytes", SHOW, show)
    _places(sub)
    sub.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout (default: text)")
    sub = _add(commands, "evidence to-suite", "make a first suite of recorded calls", SUITE, to_suite)
    _places(sub)
    sub.add_argument("--id", default="recorded", metavar="NAME", help="the suite's id (default: recorded)")
    sub.add_argument("--out", metavar="FILE", help="where it goes (default: stdout); a file that is there is kept")
    for name in ("evidence show", "evidence to-suite"):
        commands.choices[name].add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")


def _places(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "places", nargs="*", metavar="DIR|FILE", help="transcripts, or folders of them (default: .rollcall/evidence)"
    )


def _add(
    commands: Any,
    name: str,
    text: str,
    examples: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.set_defaults(run=run)
    return sub
