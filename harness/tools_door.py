"""`mcp-rollcall tools`: what servers say of themselves, judged without a call. Arguments -> rooms -> a report.

Nothing is imported here that is not needed to read a command line; nothing here prints.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.findings.remark import Remark
    from harness.model.finding import Finding, Report
    from harness.tools_sources import Read

__all__ = ["Asked", "add_sources", "add_tools_commands", "asked_of", "check_tools", "sources_of"]

FORMATS = ("text", "json", "junit", "markdown")
LEVELS = ("error", "warning", "off")
EXAMPLES = """\
examples:
  mcp-rollcall tools check tools.json             a saved tools/list result, response, or array of tools
  mcp-rollcall tools check lists/ --strict        every *.json of a folder; warnings fail too
  mcp-rollcall tools check .                      the newest evidence of the project in this folder
  mcp-rollcall tools check https://example.org/mcp --header "Authorization=Bearer $TOKEN"
  mcp-rollcall tools check -- python -m my_server --stdio
  mcp-rollcall tools check tools.json --checks portability=warning,strict=error --format sarif

exit codes:
  0 clean   1 findings   2 a source or an option that cannot be used   3 there is no tool
  6 the server could not be started or reached   130 interrupted
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command line of `tools check`, understood.

    Attributes:
        sources: Files, folders, URLs and `-`, as given; a command is a tuple of its words.
        only: Families and checks that alone count; empty: all of them.
        levels: Family or check -> its level.
        protocol: The protocol version to judge by where a source does not tell.
    """

    base: Path
    sources: tuple[str | tuple[str, ...], ...]
    only: frozenset[str] = frozenset()
    levels: Mapping[str, str] = field(default_factory=dict)
    protocol: str = ""
    strict: bool = False
    today: date
    stdin: Callable[[], bytes] | None = None


# --- arguments ------------------------------------------------------------------------------------


def add_tools_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], run: Callable[[argparse.Namespace], int]
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Adds `tools` and its commands to the parser of the command line.

    Args:
        run: What `tools check` does with its arguments.
    Returns:
        Where more commands of `tools` are added.
    """
    text = "what a server says of itself, judged without a call"
    tools = commands.add_parser("tools", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    words = tools.add_subparsers(dest="tools_command", metavar="COMMAND", title="commands", required=True)
    check = words.add_parser(
        "check",
        help="judge a list of tools: of a file, a folder, a URL or a command",
        description="Judges the tools that a server lists, exactly as they go over the wire: is each schema valid, "
        "and can every client use it? No tool is ever called.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.set_defaults(run=run)
    add_sources(check)
    group = check.add_argument_group("judging")
    group.add_argument(
        "--checks",
        action="append",
        default=[],
        metavar="NAME[=LEVEL],…",
        help="families or checks: NAME alone judges only those that are named; =error, =warning or =off says how "
        "they count, as [checks] in harness.toml does",
    )
    group.add_argument(
        "--protocol", default="", metavar="VERSION", help="the protocol version to judge by where a source tells none"
    )
    group.add_argument("--format", choices=FORMATS, default="text", help="what goes to stdout (default: text)")
    group.add_argument("--strict", action="store_true", help="warnings fail too")
    check.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")
    return words


def add_sources(sub: argparse.ArgumentParser) -> None:
    """The arguments that say where tool lists come from; `sources_of` reads them."""
    group = sub.add_argument_group("sources")
    group.add_argument(
        "sources",
        nargs="*",
        metavar="FILE|DIR|URL|-",
        help="a tools/list result, a JSON-RPC response, an array of tools or a transcript (.jsonl); a project, "
        "evidence, or a folder of *.json; a Streamable HTTP server; standard input. After -- stands the command of "
        "a server to start",
    )


def sources_of(parsed: argparse.Namespace) -> tuple[str | tuple[str, ...], ...]:
    """The sources of a command line, the server's command last.

    Raises:
        ConfigError: There is none.
    """
    command = tuple(getattr(parsed, "server_command", ()))
    sources = (*parsed.sources, *((command,) if command else ()))
    if not sources:
        raise ConfigError(
            "there is no source: name a file, a folder, a URL, -, or a server's command after --",
            hint="mcp-rollcall tools check --help shows examples",
        )
    return sources


def asked_of(parsed: argparse.Namespace, *, base: Path, stdin: Callable[[], bytes]) -> Asked:
    """What a command line of `tools check` asks for.

    Raises:
        ConfigError: It cannot be understood.
    """
    only, levels = levels_of(parsed.checks)
    return Asked(
        base=base,
        sources=sources_of(parsed),
        only=only,
        levels=levels,
        protocol=parsed.protocol,
        strict=parsed.strict,
        today=datetime.now(UTC).date(),
        stdin=stdin,
    )


def levels_of(texts: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
    """`--checks`: the names that alone count, and the levels.

    Raises:
        ConfigError: A name or a level that there is not.
    """
    from harness.model.checks import CHECKS, FAMILIES

    only: set[str] = set()
    levels: dict[str, str] = {}
    known = (*FAMILIES, *CHECKS)
    for part in (part.strip() for text in texts for part in text.split(",")):
        if not part:
            continue
        name, equals, level = (item.strip() for item in part.partition("="))
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"families: {', '.join(FAMILIES)}"
            raise ConfigError(f"--checks: there is no family or check {name!r}", hint=hint)
        if equals and level not in LEVELS:
            raise ConfigError(f"--checks: {level!r} is no level of {name}", hint=f"levels: {', '.join(LEVELS)}")
        if equals:
            levels[name] = level
        else:
            only.add(name)
    return frozenset(only), levels


# --- judging --------------------------------------------------------------------------------------


def check_tools(asked: Asked) -> Report:
    """Reads every source, judges what it lists, and reports; a source that fails is an error of the report."""
    from harness.failures import failure_of
    from harness.findings.catalogue import remarks_of
    from harness.findings.toolfile import era_of
    from harness.model.finding import HarnessFailure, Judgement, Listed
    from harness.report.build import make_report
    from harness.tools_sources import How, read_catalogues

    how = How(base=asked.base, stdin=asked.stdin)
    errors: list[HarnessFailure] = []
    found: list[tuple[Read, Remark]] = []
    listed: list[Listed] = []
    for source in asked.sources:
        try:
            reads = read_catalogues(source, how)
        except Exception as error:
            errors.append(failure_of(error))
            continue
        for read in reads:
            catalogue = read.catalogue
            if asked.protocol and not catalogue.protocol:
                catalogue = dataclasses.replace(catalogue, protocol=asked.protocol, era=era_of(asked.protocol))
            listed.append(
                Listed(
                    server=catalogue.server,
                    source=catalogue.source,
                    era=catalogue.era,
                    protocol=catalogue.protocol,
                    tools=len(catalogue.tools),
                    prompts=len(catalogue.prompts),
                    resources=len(catalogue.resources),
                    whole=catalogue.whole,
                )
            )
            found += [(read, remark) for remark in (*read.remarks, *remarks_of(catalogue))]
    findings = tuple(_levelled(_findings(found), asked))
    return make_report(
        Judgement(findings=findings, listed=tuple(listed)),
        today=asked.today.isoformat(),
        errors=errors,
        strict=asked.strict,
    )


def _findings(found: Iterable[tuple[Read, Remark]]) -> Iterator[Finding]:
    """One finding for one place of one server, in how many lists it may stand."""
    from harness.model.checks import CHECKS
    from harness.model.finding import Finding

    groups: dict[tuple[Any, ...], list[tuple[Read, Remark]]] = {}
    for read, remark in found:
        key = (read.catalogue.server, read.file, remark.check, remark.tool, remark.where, remark.pointer, remark.kind)
        groups.setdefault(key, []).append((read, remark))
    for items in groups.values():
        read, remark = items[0]
        sources = list(dict.fromkeys(read.catalogue.source for read, _ in items))
        yield Finding(
            check=remark.check,
            severity=remark.severity or CHECKS[remark.check].severity,
            server=read.catalogue.server,
            tool=remark.tool,
            pointer=remark.pointer,
            file=read.file,
            line=_line(read, remark),
            message=remark.message,
            evidence={**remark.details(), "sources": sources},
            source=CHECKS[remark.check].source,
        )


def _line(read: Read, remark: Remark) -> int | None:
    indexes: Sequence[int] = [tool.index for tool in read.catalogue.tools if tool.name == remark.tool]
    return read.lines.get(indexes[0]) if indexes and remark.tool is not None else None


def _levelled(findings: Iterable[Finding], asked: Asked) -> Iterator[Finding]:
    from harness.model.checks import OFF_BY_DEFAULT, family_of

    for finding in findings:
        family = family_of(finding.check)
        named = {finding.check, family}
        if asked.only and not named & asked.only:
            continue
        level: str | None = asked.levels.get(finding.check) or asked.levels.get(family)
        if level is None and family in OFF_BY_DEFAULT and not named & asked.only:
            continue
        if level == "off":
            continue
        if level == "warning" or (level == "error" and finding.check in asked.levels):
            finding = dataclasses.replace(finding, severity="warning" if level == "warning" else "error")
        yield finding
