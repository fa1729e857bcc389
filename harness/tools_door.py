"""`mcp-rollcall tools`: what servers say of themselves, judged without a call. Arguments -> rooms -> a report.

Nothing is imported here that is not needed to read a command line; nothing here prints.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.findings.remark import Remark
    from harness.model.finding import Excused, Finding, Lowered, NotJudged, Report
    from harness.model.plan import ExemptionSpec, Place
    from harness.tools_sources import How, Read

__all__ = ["Asked", "add_sources", "add_tools_commands", "asked_of", "check_tools", "how_of", "sources_of"]

FORMATS = ("text", "json", "junit", "markdown", "sarif")
TIMEOUT_S = 30.0
LONGEST_S = 3600.0
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
        how: How they are read.
        only: Families and checks that alone count; empty: all of them.
        levels: Family or check -> its level.
        protocol: The protocol version to judge by where a source does not tell.
    """

    sources: tuple[str | tuple[str, ...], ...]
    how: How
    only: frozenset[str] = frozenset()
    levels: Mapping[str, str] = field(default_factory=dict)
    protocol: str = ""
    strict: bool = False
    traceback: bool = False
    today: date


# --- arguments ------------------------------------------------------------------------------------


def add_tools_commands(
    commands: argparse._SubParsersAction[Any], run: Callable[[argparse.Namespace], int]
) -> argparse._SubParsersAction[Any]:
    """Adds `tools` and its commands to the parser of the command line.

    Args:
        run: What `tools check` does with its arguments.
    Returns:
        Where more commands of `tools` are added.
    """
    text = "what a server says of itself, judged without a call"
    tools = commands.add_parser("tools", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    words: argparse._SubParsersAction[Any] = tools.add_subparsers(
        dest="tools_command", metavar="COMMAND", title="commands", required=True
    )
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
    group.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="DIR|FILE",
        help="FILE.json, .xml, .md, .sarif or .txt: write this report too; a folder: all of them; may be repeated",
    )
    group.add_argument("--strict", action="store_true", help="warnings fail too")
    group.add_argument(
        "--today",
        type=_day,
        metavar="YYYY-MM-DD",
        help="the date that `expires` is compared with (default: today, UTC)",
    )
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
    group.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="send this header to every URL; its value is never shown",
    )
    group.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable of the command's environment, which is made from nothing; NAME alone hands over your own",
    )
    group.add_argument("--cwd", default=".", metavar="DIR", help="where the command runs (default: .)")
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long one answer of a URL or a command may take (default: {TIMEOUT_S:g})",
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
    if parsed.protocol and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", parsed.protocol):
        raise ConfigError(f"--protocol: {parsed.protocol!r} is no protocol version", hint="one is 2025-11-25")
    return Asked(
        sources=sources_of(parsed),
        how=how_of(parsed, base=base, stdin=stdin),
        only=only,
        levels=levels,
        protocol=parsed.protocol,
        strict=parsed.strict,
        traceback=parsed.traceback,
        today=parsed.today or datetime.now(UTC).date(),
    )


def how_of(parsed: argparse.Namespace, *, base: Path, stdin: Callable[[], bytes]) -> How:
    """How the sources of a command line are read.

    Raises:
        ConfigError: A header or a variable that is none.
    """
    from harness.tools_sources import How

    headers: dict[str, str] = {}
    for text in parsed.header:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not _can_be_sent(value):
            raise ConfigError("--header: write NAME=VALUE, on one line and in Latin letters; the value is not shown")
        headers[name] = value
    env: dict[str, str | None] = {}
    for text in parsed.env:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise ConfigError("--env: write NAME=VALUE, or NAME to hand over your own; the value is not shown")
        env[name] = value if equals else None
    return How(base=base, stdin=stdin, headers=headers, env=env, cwd=parsed.cwd, timeout_s=parsed.timeout)


def _can_be_sent(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date (YYYY-MM-DD)") from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to {LONGEST_S:g}")
    return value


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


def check_tools(asked: Asked) -> tuple[Report, dict[str, Place]]:
    """Reads every source, judges what it lists, and reports; a source that fails is an error of the report.

    Returns:
        The report, and where the `[server]` of each list stands that is in no file.
    """
    from harness.errors import Interrupted, NothingSelected, iterate_errors
    from harness.failures import failure_of
    from harness.findings.catalogue import remarks_of
    from harness.findings.toolfile import era_of
    from harness.model.finding import HarnessFailure, Judgement, Listed
    from harness.report.build import make_report
    from harness.tools_sources import each_source, read_catalogues

    errors: list[HarnessFailure] = []
    found: list[tuple[Read, Remark]] = []
    reads: list[Read] = []
    reruns: dict[str, str] = {}  # what a list is called -> the command that judges it again
    for source in each_source(asked.sources, asked.how):
        try:
            read_here = read_catalogues(source, asked.how)
        except Exception as error:
            leaves = list(iterate_errors(error))
            errors += [failure_of(leaf, traceback=asked.traceback) for leaf in leaves]
            if any(isinstance(leaf, Interrupted) for leaf in leaves):
                break
            continue
        if not any(read.catalogue.tools for read in read_here):
            names = ", ".join(dict.fromkeys(read.catalogue.source for read in read_here))
            errors.append(failure_of(NothingSelected(f"there is no tool in {names}: nothing was judged")))
        rerun = _rerun(source, asked)
        for read in read_here:
            catalogue = read.catalogue
            if asked.protocol and not catalogue.protocol:
                catalogue = dataclasses.replace(catalogue, protocol=asked.protocol, era=era_of(asked.protocol))
                read = dataclasses.replace(read, catalogue=catalogue)
            reads.append(read)
            reruns[read.catalogue.source] = rerun
            found += [(read, remark) for remark in (*read.remarks, *remarks_of(catalogue))]
    listed = tuple(
        Listed(
            server=item.server,
            source=item.source,
            era=item.era,
            protocol=item.protocol,
            tools=len(item.tools),
            prompts=len(item.prompts),
            resources=len(item.resources),
            whole=item.whole,
        )
        for item in (read.catalogue for read in reads)
    )
    findings, lowered = _levelled(_findings(found, reruns), asked)
    findings, excused = _excused(findings, asked.today)
    report = make_report(
        Judgement(
            findings=tuple(finding for finding, _ in findings),
            listed=listed,
            lowered=tuple(lowered),
            excused=tuple(excused),
            not_judged=tuple(_not_judged(reads)),
        ),
        today=asked.today.isoformat(),
        errors=errors,
        strict=asked.strict,
        notes=tuple(dict.fromkeys(read.note for read in reads if read.note)),
        folders={} if str(asked.how.base) == "/" else {str(asked.how.base): "."},
    )
    places = {read.catalogue.server: place for read in reads if (place := _home(read, asked.how.base)) is not None}
    return report, places


def _home(read: Read, base: Path) -> Place | None:
    """Where the `[server]` of a list stands: in its project, or in the folder where the command was started."""
    from harness.model.plan import Place

    if read.project is not None:
        return Place(file=read.project.place.file, line=read.project.server_line)
    if read.file is not None:
        return None
    try:
        lines = (base / "harness.toml").read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return None
    found = (number for number, line in enumerate(lines, start=1) if line.replace(" ", "").startswith("[server]"))
    return Place(file="harness.toml", line=next(found, None))


def _rerun(source: str | tuple[str, ...], asked: Asked) -> str:
    """The command that judges one source again, "" for standard input; values of headers and variables stay out."""
    from harness.tools_sources import STDIN

    if source == STDIN:
        return ""
    how = asked.how
    words = ["mcp-rollcall", "tools", "check"]
    checks = [*sorted(asked.only), *(f"{name}={level}" for name, level in sorted(asked.levels.items()))]
    words += ["--checks", ",".join(checks)] if checks else []
    words += ["--protocol", asked.protocol] if asked.protocol else []
    if not isinstance(source, str):
        words += ["--cwd", how.cwd] if how.cwd != "." else []
        words += [word for name in how.env for word in ("--env", name)]
        words += ["--", *source]
    elif source.lower().startswith(("http://", "https://")):
        from harness.engine.http_list import shown_url

        words += [word for name in how.headers for word in ("--header", f"{name}=…")]
        words.append(shown_url(source))
    else:
        words.append(source)
    return shlex.join(words)


def _findings(found: Iterable[tuple[Read, Remark]], reruns: Mapping[str, str]) -> Iterator[tuple[Finding, Read]]:
    """One finding for one place of one server, in how many of its lists it may stand.

    Args:
        reruns: What a list is called -> the command that judges it again.
    """
    from harness.model.checks import CHECKS
    from harness.model.finding import Finding

    groups: dict[tuple[Any, ...], list[tuple[Read, Remark]]] = {}
    for read, remark in found:
        key = (read.catalogue.server, read.file, remark.check, remark.tool, remark.where, remark.pointer, remark.kind)
        groups.setdefault(key, []).append((read, remark))
    for items in groups.values():
        read, remark = items[0]
        sources = list(dict.fromkeys(read.catalogue.source for read, _ in items))
        usual = CHECKS[remark.check].severity
        worst = "error" if any((item.severity or usual) == "error" for _, item in items) else "warning"
        finding = Finding(
            check=remark.check,
            severity="error" if worst == "error" else "warning",
            server=read.catalogue.server,
            tool=remark.tool,
            pointer=remark.pointer,
            file=read.file,
            line=_line(read, remark),
            message=remark.message,
            evidence={**remark.details(), **({"sources": sources} if len(sources) > 1 else {})},
            source=CHECKS[remark.check].source,
            rerun=reruns[read.catalogue.source],
        )
        yield finding, read


def _line(read: Read, remark: Remark) -> int | None:
    if remark.tool is None or not read.lines:
        return None
    index = next((tool.index for tool in read.catalogue.tools if tool.name == remark.tool), None)
    return None if index is None else read.lines.get(index)


def _levelled(
    findings: Iterable[tuple[Finding, Read]], asked: Asked
) -> tuple[list[tuple[Finding, Read]], list[Lowered]]:
    """The findings that count, with their severity; and what was lowered, by the command line or by a project."""
    from harness.model.checks import OFF_BY_DEFAULT, family_of
    from harness.model.finding import Lowered

    out: list[tuple[Finding, Read]] = []
    counts: dict[tuple[str, str, str, Place], int] = {}
    for finding, read in findings:
        family = family_of(finding.check)
        named = bool({finding.check, family} & asked.only)
        if asked.only and not named:
            continue
        name, level, place = _level(finding.check, asked, read)
        if level is None:
            if named or family not in OFF_BY_DEFAULT:
                out.append((finding, read))
            continue
        if level == "off" or (level == "warning" and finding.severity == "error"):
            key = (name, finding.server, level, place)
            counts[key] = counts.get(key, 0) + 1
        if level == "off":
            continue
        if level == "warning" or "/" in name:
            finding = dataclasses.replace(finding, severity="warning" if level == "warning" else "error")
        out.append((finding, read))
    lowered = [
        Lowered(family=name, server=server, to=to, file=place.file, line=place.line, findings=count)
        for (name, server, to, place), count in counts.items()
    ]
    return out, lowered


def _level(check: str, asked: Asked, read: Read) -> tuple[str, str | None, Place]:
    """What sets the level of a check, and to what: the command line before the project, a check before a family."""
    from harness.model.checks import family_of
    from harness.model.plan import Place

    names = (check, family_of(check))
    for name in names:
        if name in asked.levels:
            return name, asked.levels[name], Place(file="--checks")
    for name in names:
        for item in read.project.checks.lowered if read.project is not None else ():
            if item.family == name:
                return name, item.to, item.place
    return check, None, Place(file="")


def _excused(findings: Iterable[tuple[Finding, Read]], today: date) -> tuple[list[tuple[Finding, Read]], list[Excused]]:
    """Findings that no entry of a project's exemption file excuses, and the entries that do; `judge` judges those."""
    from harness.model.checks import exemptable
    from harness.model.finding import Excused

    ids = exemptable()
    out: list[tuple[Finding, Read]] = []
    used: list[Excused] = []
    for finding, read in findings:
        entry = next((item for item in read.exemptions if _excuses(item, finding, ids, today)), None)
        if entry is None:
            out.append((finding, read))
            continue
        used.append(
            Excused(
                check=finding.check,
                server=finding.server,
                subject=entry.subject,
                reason=entry.reason,
                file=entry.place.file,
                line=entry.place.line,
            )
        )
    return out, used


def _excuses(entry: ExemptionSpec, finding: Finding, ids: Mapping[str, tuple[str, ...]], today: date) -> bool:
    return (
        not entry.problems
        and entry.server == finding.server
        and finding.check in ids.get(entry.check, ())
        and entry.subject in (finding.tool, "*")
        and (entry.expires is None or entry.expires >= today.isoformat())
    )


def _not_judged(reads: Iterable[Read]) -> Iterator[NotJudged]:
    """Lists of which pages are missing: what is there was judged."""
    from harness.model.finding import NotJudged

    for read in reads:
        item = read.catalogue
        if not item.whole and item.tools:
            why = f"pages are missing from the list in {item.source}: the tools on them were not judged"
            yield NotJudged(check="tools", server=item.server, why=why)
