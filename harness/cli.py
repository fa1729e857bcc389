"""`mcp-rollcall`: the command line. The only module that prints: the report on stdout, everything else on stderr."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness import __version__, backends_door, proxy_commands
from harness.contract_commands import add_contract_commands
from harness.errors import ConfigError, HarnessError, Interrupted, StackError, iterate_errors
from harness.tools_door import add_tools_commands

if TYPE_CHECKING:
    from harness.contract_tools import Said
    from harness.exemption_tools import Changes
    from harness.integration import Options, Outcome, Timings
    from harness.model.finding import Judgement, Report
    from harness.model.plan import Place
    from harness.model.progress import Progress
    from harness.report.progress import ProgressLog
    from harness.tools_sources import How

__all__ = ["main"]

FORMATS = ("text", "json", "junit", "markdown", "sarif")
TIMINGS = "timings.json"
REPORTS = ("report.json", "report.xml", "report.md", "report.sarif", TIMINGS)
ENDINGS = {".json": "json", ".xml": "junit", ".md": "markdown", ".sarif": "sarif", ".txt": "text"}  # of --out
TOOLS = ("prune", "propose", "list")  # of exemptions; `check` is what it does without a word
WITHIN_DAYS = 30
EXITS = """\
exit codes:
  0 clean   1 findings   2 configuration or usage   3 nothing was run or selected
  4 build failed   5 stack failed   6 server could not be started   130 interrupted (after clean-up)
  The highest wins; everything still runs.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit code, as `--help` lists them.
    """
    arguments, server_command = _split(_joined(sys.argv[1:] if argv is None else list(argv)))
    parser = _parser()
    try:
        parsed = parser.parse_args(arguments, argparse.Namespace(server_command=server_command))
        if parsed.command is None:
            parser.print_help(sys.stdout)
            return 2
        return int(parsed.run(parsed))
    except KeyboardInterrupt:
        _say("interrupted")
        return Interrupted.code
    except BrokenPipeError:
        _silence_stdout()
        return 141
    except SystemExit as error:
        _flush()
        return error.code if isinstance(error.code, int) else 2
    except BaseException as error:
        if "--traceback" in arguments:
            raise
        return _fail(error)


def _joined(arguments: list[str]) -> list[str]:
    """`exemptions prune` as the one word that the parser knows it by; `exemptions check` is `exemptions`.

    `backends` alone is `backends list`.
    """
    match arguments:
        case ["exemptions", "check", *rest]:
            return ["exemptions", *rest]
        case ["exemptions", word, *rest] if word in TOOLS:
            return [f"exemptions {word}", *rest]
        case ["evidence", word, *rest] if word in proxy_commands.WORDS:
            return [f"evidence {word}", *rest]
        case ["backends", word, *rest] if not word.startswith("-"):
            return [f"backends {word}", *rest]
        case ["backends", *rest]:
            return ["backends list", *rest]
        case _:
            return arguments


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of a `tools` command, and the words behind `--`: the command of a server."""
    if arguments[:1] != ["tools"] or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _fail(error: BaseException) -> int:
    code = 0
    for leaf in iterate_errors(error):
        if isinstance(leaf, HarnessError):
            _say(f"mcp-rollcall: {leaf.message}")
            if leaf.log:
                _say("  | " + leaf.log.replace("\n", "\n  | "))
            if leaf.hint:
                _say(f"  hint: {leaf.hint}")
            code = max(code, leaf.code)
        else:
            _say(f"mcp-rollcall: {type(leaf).__name__}: {leaf}")
            _say("  hint: this is a fault of mcp-rollcall's; run again with --traceback and report it")
            code = max(code, 2)
    return code


# --- arguments ------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
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


def _parser() -> _Parser:
    parser = _Parser(
        prog="mcp-rollcall",
        description="Fails the build unless every tool of an MCP server answered against its real backend, "
        "or is excused in writing.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mcp-rollcall {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, *groups: Callable[..., object]) -> None:
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=EXITS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        sub.set_defaults(run=run)
        for group in groups:
            group(sub)
        sub.add_argument("--traceback", action="store_true", help="show Python tracebacks of errors")

    add("check", _check, "check the files that people write, and list the planned runs", _selects, _runtime)
    add("plan", _plan, "print the planned runs as commands, or as a matrix for CI", _selects, _runtime, _matrix)
    add("build", _build, "build the servers under test (reused while nothing has changed)", _selects, _runtime, _state)
    add(
        "run",
        _record,
        "record the evidence of the selected runs, without judging",
        _selects,
        _runtime,
        _state,
        _rebuild,
    )
    add(
        "integration",
        _integration,
        "build, stand up the backends, drive every tool, judge",
        _selects,
        _runtime,
        _state,
        _rebuild,
        _judging,
    )
    add(
        "judge",
        _judge,
        "judge the recorded evidence again, without Docker or server",
        _selects,
        _runtime,
        _state,
        _judging,
    )
    add(
        "exemptions",
        _exemptions,
        "the verdict on every entry of the exemption files, by the recorded evidence",
        _selects,
        _runtime,
        _state,
        _judging,
    )
    add(
        "exemptions prune",
        _prune,
        "remove entries that are false or stale, by the recorded evidence",
        _selects_servers,
        _runtime,
        _state,
        _today,
        _pruning,
        _diffs,
    )
    add(
        "exemptions propose",
        _propose,
        "write entries without reasons for tools that were not exercised",
        _selects_servers,
        _runtime,
        _state,
        _today,
        _diffs,
    )
    add(
        "exemptions list",
        _list,
        "show all entries, by owner, check, age or expiry",
        _selects_servers,
        _today,
        _listing,
    )
    words = add_tools_commands(commands, _check_tools)
    add_contract_commands(words, snapshot=_snapshot, diff=_contract_diff, accept=_accept)
    for name, text, group in backends_door.COMMANDS:
        add(name, _backends, text, group)
    proxy_commands.add_proxy_commands(commands, proxy=_proxy, show=_show, to_suite=_to_suite)
    add("reap", _reap, "remove what dead runs left behind", _dry)
    add("doctor", _doctor, "what is here, and what would run how", _selects, _runtime)
    return parser


def _selects_servers(sub: argparse.ArgumentParser) -> argparse._ArgumentGroup:
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


def _selects(sub: argparse.ArgumentParser) -> None:
    group = _selects_servers(sub)
    group.add_argument(
        "--backend", action="append", default=[], metavar="NAME[@VERSION]", help="only cells with this backend"
    )
    group.add_argument("--era", action="append", default=[], choices=("handshake", "modern"), help="only this era")
    group.add_argument("--profile", action="append", default=[], metavar="NAME", help="only this profile")
    group.add_argument(
        "-k", dest="cases", default="", metavar="EXPR", help="only cases whose server/suite/case matches, as in pytest"
    )


def _runtime(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--runtime",
        choices=("auto", "docker", "process"),
        default=os.environ.get("ROLLCALL_RUNTIME") or "auto",
        help="where backends run: in Docker, as embedded processes, or what is there (default: auto)",
    )


def _matrix(sub: argparse.ArgumentParser) -> None:
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


def _state(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--evidence", metavar="DIR", help="where evidence is kept (default: .rollcall/evidence of each project)"
    )
    sub.add_argument(
        "--state", metavar="DIR", help="where builds and all else are kept (default: .rollcall of each project)"
    )


def _rebuild(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--rebuild", action="store_true", help="build even if nothing has changed")


def _judging(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("judging")
    group.add_argument("--format", choices=FORMATS, default="text", help="what goes to stdout (default: text)")
    _out(
        group,
        "a folder where all reports are written (default: .rollcall), or FILE.json, .xml, .md, .sarif or .txt: one "
        "report more; may be repeated",
    )
    group.add_argument("--strict", action="store_true", help="warnings fail the run too")
    group.add_argument("--require-complete", action="store_true", help="exit 3 if anything was deselected")
    _today(group)


def _out(group: argparse._ActionsContainer, text: str) -> None:
    group.add_argument("--out", action="append", default=[], metavar="DIR|FILE", help=text)


def _today(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--today",
        type=_day,
        metavar="YYYY-MM-DD",
        help="the date that `expires` is compared with (default: today, UTC)",
    )


def _pruning(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--expired", action="store_true", help="remove entries whose `expires` day is over, too")


def _diffs(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dry-run", action="store_true", help="only show the changes, as a diff")


def _listing(sub: argparse.ArgumentParser) -> None:
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


def _dry(sub: argparse.ArgumentParser) -> None:
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


def _options(parsed: argparse.Namespace) -> Options:
    from harness.integration import Options, expanded

    base = Path.cwd()
    value: Callable[[str], object] = lambda name: getattr(parsed, name, None)  # noqa: E731

    def path(name: str) -> Path | None:
        text = value(name)
        return base / str(text) if text else None

    today = value("today")
    return Options(
        base=base,
        projects=expanded(base, parsed.project) or (Path(),),
        servers=(*parsed.names, *parsed.server),
        default_servers=tuple(parsed.default_server),
        everything=parsed.all,
        backends=tuple(getattr(parsed, "backend", ())),
        eras=tuple(getattr(parsed, "era", ())),
        profiles=tuple(getattr(parsed, "profile", ())),
        cases=getattr(parsed, "cases", ""),
        runtime=getattr(parsed, "runtime", "auto"),
        evidence=path("evidence"),
        state=path("state"),
        out=next((base / item for item in reversed(getattr(parsed, "out", ())) if not _is_file(base / item)), None),
        out_files=tuple(base / item for item in getattr(parsed, "out", ()) if _is_file(base / item)),
        strict=bool(value("strict")),
        require_complete=bool(value("require_complete")),
        rebuild=bool(value("rebuild")),
        today=today if isinstance(today, date) else None,
        through_nox=os.environ.get("ROLLCALL_NOX") == "1",
    )


def _is_file(path: Path) -> bool:
    """Whether --out names a file: by its ending, unless a folder has that name."""
    return path.suffix.lower() in ENDINGS and not path.is_dir()


# --- commands -------------------------------------------------------------------------------------


def _integration(parsed: argparse.Namespace) -> int:
    return _work(parsed, record=True, judged=True)


def _record(parsed: argparse.Namespace) -> int:
    return _work(parsed, record=True, judged=False)


def _build(parsed: argparse.Namespace) -> int:
    return _work(parsed, record=False, judged=False)


def _work(parsed: argparse.Namespace, *, record: bool, judged: bool) -> int:
    """`build`, `run` and `integration`: they differ in how far they go."""
    from harness import integration
    from harness.engine.interrupt import run_interruptible

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    outcome, timings = integration.Outcome(traceback=parsed.traceback), integration.Timings()
    if judged:
        _remove_old_reports(options)
    interrupted = ""
    with _progress() as log, integration.collecting(outcome):
        progress = _Timed(log, timings)
        with timings.of("read the files"):
            loaded, outcome.plan = integration.load_plan(options, outcome)
        for note in outcome.plan.notes:
            progress.note("mcp-rollcall", note)

        async def work() -> None:
            assert outcome.plan is not None
            if record:
                outcome.plan = await integration.settle(options, loaded, outcome.plan, progress=progress)
            await integration.execute(options, outcome.plan, outcome, progress=progress, only_build=not record)

        interrupted = run_interruptible(work, on_interrupt=lambda cause: progress.note("interrupted", cause)).cause
    if judged:
        with _signals_wait():
            return _judged(parsed, options, outcome, timings, today=today, interrupted=interrupted)
    errors = [*outcome.errors, *outcome.recorded_errors]
    for error in errors:
        _say(f"{error.kind} error: {error.server + ': ' if error.server else ''}{error.message}")
        if error.log:
            _say("  | " + error.log.replace("\n", "\n  | "))
        if error.hint:
            _say(f"  hint: {error.hint}")
    code = max((error.code for error in errors), default=0)
    if interrupted:
        return Interrupted.code
    if record:
        from harness.report.groups import amount

        _say(f"{amount(outcome.recorded, 'run')} recorded, {len(outcome.not_run)} not")
    return code


@contextmanager
def _signals_wait() -> Iterator[None]:
    """The evidence is there and only the report is missing: the first signal waits for it, the second does not."""
    import signal

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    came: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        _say("the report is being written; once more ends it")

    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _judge(parsed: argparse.Namespace) -> int:
    from harness import integration

    options = _options(parsed)
    outcome = integration.Outcome(traceback=parsed.traceback)
    _remove_old_reports(options)
    with integration.collecting(outcome):
        _, outcome.plan = integration.load_plan_for_judging(options, outcome)
    return _judged(parsed, options, outcome, None, today=options.today or datetime.now(UTC).date())


def _exemptions(parsed: argparse.Namespace) -> int:
    from harness import integration
    from harness.report.exemptions import only_exemptions

    if misplaced := [name for name in parsed.names if name in (*TOOLS, "check")]:
        raise ConfigError(
            f"{misplaced[0]!r} is read as the name of a server here",
            hint=f"write it first, mcp-rollcall exemptions {misplaced[0]} …; for a server, --server {misplaced[0]}",
        )
    options = _options(parsed)
    outcome = integration.Outcome()
    today = options.today or datetime.now(UTC).date()
    with integration.collecting(outcome):
        _, outcome.plan = integration.load_plan_for_judging(options, outcome)
    report = only_exemptions(_report(options, outcome, today=today))
    places = _places(outcome)
    lost = _write_reports(report, None, places, folder=options.out, files=options.out_files, named=True)
    _print(_formatted(report, parsed.format, places))
    return max(report.exit, lost)


def _prune(parsed: argparse.Namespace) -> int:
    from harness.exemption_tools import prune

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    return _changed(parsed, prune(options, today=today, expired=parsed.expired, dry_run=parsed.dry_run))


def _propose(parsed: argparse.Namespace) -> int:
    from harness.exemption_tools import propose

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    return _changed(parsed, propose(options, today=today, dry_run=parsed.dry_run))


def _changed(parsed: argparse.Namespace, changes: Changes) -> int:
    """What was done on stdout, or the diff of what would be; what was left alone, and the counts, on stderr."""
    shown = changes.diff if parsed.dry_run else "\n".join(changes.done)
    if shown:
        _print(shown)
    for line in (*changes.left, changes.summary):
        _say(_for_stderr(line))
    return 0


def _list(parsed: argparse.Namespace) -> int:
    from harness.exemption_tools import listed
    from harness.report.exemption_list import list_to_json, list_to_text
    from harness.report.progress import wants_color

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    items, notes = listed(options, today=today)
    if parsed.format == "json":
        _print(list_to_json(items, by=parsed.by, today=today, within=parsed.within, notes=notes))
        return 0
    tty = _is_tty(sys.stdout)
    color, width = wants_color(os.environ, tty), _width() if tty else 100
    _print(list_to_text(items, by=parsed.by, today=today, within=parsed.within, color=color, width=width))
    for note in notes:
        _say(_for_stderr(f"note: {note}"))
    return 0


def _judged(
    parsed: argparse.Namespace,
    options: Options,
    outcome: Outcome,
    timings: Timings | None,
    *,
    today: date,
    interrupted: str = "",
) -> int:
    from harness.integration import report_folder

    with timings.of("judge") if timings is not None else nullcontext():
        report = _report(options, outcome, today=today, interrupted=interrupted)
    places = _places(outcome)
    named = options.out is not None
    lost = _write_reports(report, timings, places, folder=report_folder(options), files=options.out_files, named=named)
    _tell_ci(os.environ, report)
    _print(_formatted(report, parsed.format, places))
    return max(report.exit, lost)


def _places(outcome: Outcome) -> dict[str, Place]:
    """Where each server's `[server]` stands."""
    from harness.model.plan import Place

    projects = outcome.plan.projects if outcome.plan else ()
    return {item.server.name: Place(file=item.place.file, line=item.server_line) for item in projects}


def _report(options: Options, outcome: Outcome, *, today: date, interrupted: str = "") -> Report:
    from harness import integration
    from harness.model.finding import Judgement

    judgement: Judgement = Judgement()
    if outcome.plan is not None:
        judgement = integration.judge_evidence(options, outcome.plan, outcome, today=today)
    return integration.report_of(options, outcome, judgement, today=today, interrupted=interrupted)


def _check(parsed: argparse.Namespace) -> int:
    from harness import integration
    from harness.checking import foreign_targets, stale_servers
    from harness.report.groups import amount

    options = _options(parsed)
    loaded, plan = integration.load_plan_for_judging(options)
    cases = sum(len(suite.cases) for project in loaded.projects for suite in project.suites)
    runs = integration.selected_runs(plan)
    counts = [
        amount(len(loaded.projects), "server"),
        amount(cases, "case"),
        amount(len(loaded.exemptions), "exemption"),
    ]
    _print(
        f"{', '.join(counts)}: the files are well formed; {amount(len(runs), 'run')} planned\n"
        + "".join(f"  {run.key}\n" for run in runs)
    )
    found = [
        f"{entry.place} [{entry.server}.{entry.check}] {entry.subject}: {'; '.join(entry.problems)}"
        for entry in loaded.exemptions
        if entry.problems
    ]
    found += stale_servers(plan, loaded.exemptions)
    foreign = foreign_targets(plan)
    for line in (*found, *foreign):
        _say(_for_stderr(line))
    if foreign:
        raise ConfigError(
            f"{amount(len(foreign), 'target')} would be refused, and the server not started",
            hint="a server may only be pointed at the stack of its run: write ${backend.<role>.<output>}",
        )
    return 1 if found else 0


def _check_tools(parsed: argparse.Namespace) -> int:
    from harness.tools_door import asked_of, check_tools

    base = Path.cwd()
    report, places = check_tools(asked_of(parsed, base=base, stdin=_stdin))
    folders = [base / item for item in parsed.out if not _is_file(base / item)]
    files = [base / item for item in parsed.out if _is_file(base / item)]
    lost = _write_reports(report, None, places, folder=folders[-1] if folders else None, files=files, named=True)
    _tell_ci(os.environ, report)
    _print(_formatted(report, parsed.format, places))
    return max(report.exit, lost)


def _snapshot(parsed: argparse.Namespace) -> int:
    from harness.contract_tools import snapshot

    sources, how = _sources(parsed)
    words = not parsed.without_words
    return _tell(snapshot(sources, how, server=parsed.server, out=parsed.out, force=parsed.force, words=words))


def _contract_diff(parsed: argparse.Namespace) -> int:
    from harness.contract_tools import diff_of

    sources, how = _sources(parsed)
    width = _width() if _is_tty(sys.stdout) else 100
    return _tell(diff_of(sources, how, form=parsed.format, fail_on=parsed.fail_on, width=width))


def _accept(parsed: argparse.Namespace) -> int:
    from harness.contract_tools import accept

    sources, how = _sources(parsed)
    return _tell(
        accept(
            sources,
            how,
            reason=parsed.reason,
            names=parsed.tool,
            today=parsed.today or datetime.now(UTC).date(),
            file=parsed.contract,
            dry_run=parsed.dry_run,
        )
    )


def _sources(parsed: argparse.Namespace) -> tuple[tuple[str | tuple[str, ...], ...], How]:
    import functools

    from harness.tools_door import how_of

    command = tuple(parsed.server_command)
    how = how_of(parsed, base=Path.cwd(), stdin=functools.cache(_stdin))  # it is looked at before it is read
    return (*parsed.sources, *((command,) if command else ())), how


def _tell(said: Said) -> int:
    if said.text:
        _print(said.text)
    for note in said.notes:
        _say(_for_stderr(note))
    return said.code


def _stdin() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin is not None else b""


def _backends(parsed: argparse.Namespace) -> int:
    from harness.report.progress import wants_color

    tty = _is_tty(sys.stdout)
    color, width = wants_color(os.environ, tty), _width() if tty else 100
    with _progress() as log:
        return backends_door.run(parsed, show=_print, progress=log, color=color, width=width)


def _proxy(_parsed: argparse.Namespace) -> int:
    from harness.proxy import main as proxy

    return proxy(sys.argv[2:])


def _recorded(parsed: argparse.Namespace) -> list[Path]:
    return [Path(place) for place in parsed.places] or [Path(".rollcall", "evidence")]


def _show(parsed: argparse.Namespace) -> int:
    from harness.evidence_tools import dialogues_in, show_json, show_text

    found = dialogues_in(_recorded(parsed))
    _print(show_json(found) if parsed.format == "json" else show_text(found, base=Path.cwd()))
    return 0


def _to_suite(parsed: argparse.Namespace) -> int:
    from harness.evidence_tools import dialogues_in, to_suite

    suite = to_suite(dialogues_in(_recorded(parsed)), name=parsed.id)
    if parsed.out is None:
        _print(suite.text)
    else:
        try:
            with open(parsed.out, "x", encoding="utf-8") as file:
                file.write(suite.text)
        except FileExistsError:
            raise ConfigError(f"{parsed.out} is there already", hint="choose another name, or remove it") from None
        except OSError as error:
            raise ConfigError(f"{parsed.out} cannot be written: {error.strerror}") from error
    for line in suite.left_out:
        _say(_for_stderr(f"left out: {line}"))
    return 0


def _plan(parsed: argparse.Namespace) -> int:
    from harness.matrix import jobs, render

    _print(render(jobs(_options(parsed), by=parsed.by), parsed.format))
    return 0


def _reap(parsed: argparse.Namespace) -> int:
    from harness.engine.reap import reap

    found = reap(dry_run=parsed.dry_run)
    lines = [f"{'would remove' if parsed.dry_run else 'removed'} {item.kind} {item.name}" for item in found.removed]
    for item in (*found.kept, *found.failed):
        verb = "could not remove" if item in found.failed else "left alone"
        lines.append(
            f"{verb} {item.kind} {item.name}: {item.why}" + (f"\n  by hand: {item.command}" if item.command else "")
        )
    _print("\n".join(lines) if lines else "nothing was left by dead runs")
    for note in found.notes:
        _say(f"note: {note}")
    return StackError.code if found.failed else 0


def _doctor(parsed: argparse.Namespace) -> int:
    from harness.doctor import examine

    text, code = examine(_options(parsed))
    _print(text)
    return code


# --- output ---------------------------------------------------------------------------------------


def _formatted(report: Report, name: str, places: Mapping[str, Place] | None = None, *, plain: bool = False) -> str:
    """The report in one format.

    Args:
        places: Where each server's `[server]` stands, for SARIF.
        plain: For a file, where text is neither coloured nor fitted to a terminal.
    """
    if name == "sarif":
        from harness.report.sarif import to_sarif

        return to_sarif(report, base=_below_root(Path.cwd()), places=places)
    if name == "json":
        from harness.report.json import to_json

        return to_json(report)
    if name == "junit":
        from harness.report.junit import to_junit

        return to_junit(report).decode("utf-8")
    if name == "markdown":
        from harness.report.markdown import to_markdown

        return to_markdown(report)
    from harness.report.progress import wants_color
    from harness.report.text import to_text

    tty = _is_tty(sys.stdout) and not plain
    return to_text(report, color=wants_color(os.environ, tty) and not plain, width=_width() if tty else 100)


def _below_root(folder: Path) -> str:
    """A folder as seen from the root of its repository, "" where it is that, or in none."""
    root = next((item for item in (folder, *folder.parents) if (item / ".git").exists()), folder)
    return "" if root == folder else folder.relative_to(root).as_posix()


def _write_reports(
    report: Report,
    timings: Timings | None,
    places: Mapping[str, Place],
    *,
    folder: Path | None,
    files: Sequence[Path],
    named: bool,
) -> int:
    """All reports into a folder, and single ones to files; each whole or not at all, and none from before stays.

    Args:
        named: The folder was asked for; one that was not may be read-only, which is said and not fatal.
    Returns:
        The exit code of a place that was asked for and cannot be written, else 0.
    """
    lost = 0
    wanted: dict[Path, str] = {}
    if folder is not None:
        wanted = {folder / name: ENDINGS[Path(name).suffix] for name in REPORTS if name != TIMINGS}
    wanted |= {file: ENDINGS[file.suffix.lower()] for file in files}
    if folder is not None and timings is not None:
        wanted[folder / TIMINGS] = TIMINGS
    made: dict[str, bytes] = {}
    told: set[Path] = set()
    for path, kind in wanted.items():
        if kind not in made:
            text = timings.to_json() if kind == TIMINGS and timings else _formatted(report, kind, places, plain=True)
            made[kind] = text.encode("utf-8", "backslashreplace")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.name == ".rollcall" and not (path.parent / ".gitignore").exists():
                (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            fresh = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                fresh.write_bytes(made[kind])
                fresh.replace(path)
            except OSError:
                for left in (fresh, path):  # an old report must not be taken for this one
                    with suppress(OSError):
                        left.unlink()
                raise
        except OSError as error:
            if path.parent not in told:
                _say(
                    f"the reports cannot be written to {path.parent}: {error.strerror}; choose another place with --out"
                )
            told.add(path.parent)
            if named or path in files:
                lost = StackError.code
    return lost


def _remove_old_reports(options: Options) -> None:
    """An old verdict must not be taken for that of a run which was killed before it had one."""
    from harness.integration import report_folder

    for name in REPORTS:
        with suppress(OSError):
            (report_folder(options) / name).unlink()


def _tell_ci(env: Mapping[str, str], report: Report) -> None:
    if env.get("GITHUB_ACTIONS") == "true":
        from harness.report.github import to_annotations

        _say(to_annotations(report).rstrip("\n"))
    place = env.get("GITHUB_STEP_SUMMARY")
    if place:
        from harness.report.markdown import fit_summary, to_markdown

        try:
            path = Path(place)
            size = path.stat().st_size if path.exists() else 0
            with path.open("a", encoding="utf-8") as file:
                file.write(fit_summary(size, to_markdown(report)))
        except OSError as error:
            _say(f"the step summary cannot be written to {place}: {error.strerror}")


def _progress() -> ProgressLog:
    from harness.report.progress import ProgressLog, wants_color, wants_status_line

    tty = _is_tty(sys.stderr)
    return ProgressLog(
        sys.stderr,
        tty=wants_status_line(os.environ, tty),
        color=wants_color(os.environ, tty),
        columns=_width(),
    )


class _Timed:
    """Passes everything on, and keeps the seconds."""

    def __init__(self, inner: Progress, timings: Timings) -> None:
        self._inner, self._timings = inner, timings

    def begin(self, subject: str, what: str) -> None:
        self._inner.begin(subject, what)

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        self._timings.add(subject, what, seconds)
        self._inner.end(subject, what, ok=ok, seconds=seconds, detail=detail)

    def waiting(self, subject: str, what: str, detail: str) -> None:
        self._inner.waiting(subject, what, detail)

    def note(self, subject: str, text: str) -> None:
        self._inner.note(subject, text)


def _print(text: str) -> None:
    from harness.report.escape import encodable

    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.write(encodable(text if text.endswith("\n") else text + "\n", sys.stdout.encoding or "ascii"))
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()  # `| head` has what it wanted; the exit code is still the verdict's
    except OSError as error:
        _silence_stdout()
        _say(f"the report cannot be written to standard output: {error.strerror}")


def _for_stderr(text: str) -> str:
    from harness.report.escape import encodable, visible

    return encodable(visible(text), sys.stderr.encoding or "ascii")


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError, UnicodeEncodeError):
        return  # stderr is closed, and there is nobody left to tell


def _flush() -> None:
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        _silence_stdout()


def _silence_stdout() -> None:
    """Python flushes stdout at exit; it must find a place that takes the rest."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return


def _is_tty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (ValueError, AttributeError):
        return False


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 140))
