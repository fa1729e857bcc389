"""`mcp-rollcall`: the command line, from the arguments to the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness import __version__, backends_door, proxy_commands, rollout_commands
from harness.arguments import (
    Parser,
    also,
    diffs,
    dry,
    judged_on,
    judging,
    listing,
    matrix,
    over_all,
    proposing,
    pruning,
    rebuild,
    reuse,
    runtime,
    selects,
    selects_servers,
    state,
)
from harness.contract_commands import add_contract_commands
from harness.errors import ConfigError, HarnessError, Interrupted, StackError, iterate_errors
from harness.output import (
    ENDINGS,
    Timed,
    flush,
    for_stderr,
    formatted,
    is_tty,
    progress_log,
    remove_old_reports,
    say,
    show,
    silence_stdout,
    tell_ci,
    terminal_width,
    write_reports,
)
from harness.rollout_child import inner, kept_runs, leave_record, listener
from harness.tools_door import add_tools_commands

if TYPE_CHECKING:
    from harness.contract_tools import Said
    from harness.exemption_tools import Changes
    from harness.integration import Options, Outcome, Timings
    from harness.model.finding import Judgement, Report
    from harness.model.plan import Place
    from harness.tools_sources import How

__all__ = ["main"]

TOOLS = ("prune", "propose", "list")  # of exemptions; `check` is what it does without a word
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
        say("interrupted")
        return Interrupted.code
    except BrokenPipeError:
        silence_stdout()
        return 141
    except SystemExit as error:
        flush()
        return error.code if isinstance(error.code, int) else 2
    except BaseException as error:
        if "--traceback" in arguments:
            raise
        return _fail(error)


def _joined(arguments: list[str]) -> list[str]:
    """`exemptions prune` and the like as the one word that the parser knows it by; `exemptions check` is `exemptions`.

    `backends` alone is `backends list`.
    """
    match arguments:
        case ["exemptions", "check", *rest]:
            return ["exemptions", *rest]
        case ["exemptions", word, *rest] if word in TOOLS:
            return [f"exemptions {word}", *rest]
        case ["rollout", word, *rest] if word in rollout_commands.WORDS:
            return [f"rollout {word}", *rest]
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
            say(f"mcp-rollcall: {leaf.message}")
            if leaf.log:
                say("  | " + leaf.log.replace("\n", "\n  | "))
            if leaf.hint:
                say(f"  hint: {leaf.hint}")
            code = max(code, leaf.code)
        else:
            say(f"mcp-rollcall: {type(leaf).__name__}: {leaf}")
            say("  hint: this is a fault of mcp-rollcall's; run again with --traceback and report it")
            code = max(code, 2)
    return code


def _parser() -> Parser:
    parser = Parser(
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

    add("check", _check, "check the files that people write, and list the planned runs", selects, runtime)
    add("plan", _plan, "print the planned runs as commands, or as a matrix for CI", selects, runtime, matrix)
    add("build", _build, "build the servers under test (reused while nothing has changed)", selects, runtime, state)
    add(
        "run",
        _record,
        "record the evidence of the selected runs, without judging",
        selects,
        runtime,
        state,
        rebuild,
        reuse,
        inner,
    )
    add(
        "integration",
        _integration,
        "build, stand up the backends, drive every tool, judge",
        selects,
        runtime,
        state,
        rebuild,
        reuse,
        judging,
    )
    add(
        "judge",
        _judge,
        "judge the recorded evidence again, without Docker or server",
        selects,
        runtime,
        state,
        also,
        judging,
    )
    add(
        "exemptions",
        _exemptions,
        "the verdict on every entry of the exemption files, by the recorded evidence",
        selects,
        over_all,
        runtime,
        state,
        judging,
    )
    add(
        "exemptions prune",
        _prune,
        "remove entries that are false or stale, by the recorded evidence",
        selects_servers,
        over_all,
        runtime,
        state,
        judged_on,
        pruning,
        diffs,
    )
    add(
        "exemptions propose",
        _propose,
        "write entries without reasons for what fails and may be excused",
        selects_servers,
        over_all,
        runtime,
        state,
        judged_on,
        proposing,
        diffs,
    )
    add(
        "exemptions list",
        _list,
        "show all entries, by owner, check, age or expiry",
        selects_servers,
        over_all,
        judged_on,
        listing,
    )
    words = add_tools_commands(commands, _check_tools)
    add_contract_commands(words, snapshot=_snapshot, diff=_contract_diff, accept=_accept)
    for name, text, group in backends_door.COMMANDS:
        add(name, _backends, text, group)
    for name, run, text, groups in rollout_commands.COMMANDS:
        add(name, run, text, *groups)
    proxy_commands.add_proxy_commands(commands, proxy=_proxy, show=_show, to_suite=_to_suite)
    add("reap", _reap, "remove what dead runs left behind", dry)
    add("doctor", _doctor, "what is here, and what would run how", selects, runtime)
    return parser


def _options(parsed: argparse.Namespace) -> Options:
    from harness.integration import Options, expanded

    if getattr(parsed, "rollout", None) is not None:
        return rollout_commands.over_all(parsed)
    base = Path.cwd()
    value: Callable[[str], object] = lambda name: getattr(parsed, name, None)  # noqa: E731

    def path(name: str) -> Path | None:
        text = value(name)
        return base / str(text) if text else None

    today = value("today")
    return Options(
        base=base,
        projects=expanded(base, parsed.project) or (Path(),),
        repository=path("repository"),
        servers=(*parsed.names, *parsed.server),
        default_servers=tuple(parsed.default_server),
        everything=parsed.all,
        backends=tuple(getattr(parsed, "backend", ())),
        eras=tuple(getattr(parsed, "era", ())),
        profiles=tuple(getattr(parsed, "profile", ())),
        cases=getattr(parsed, "cases", ""),
        runtime=getattr(parsed, "runtime", "auto"),
        evidence=path("evidence"),
        also=tuple(map(Path, getattr(parsed, "also", ()))),
        state=path("state"),
        out=next((base / item for item in reversed(getattr(parsed, "out", ())) if not _is_file(base / item)), None),
        out_files=tuple(base / item for item in getattr(parsed, "out", ()) if _is_file(base / item)),
        strict=bool(value("strict")),
        require_complete=bool(value("require_complete")),
        rebuild=bool(value("rebuild")),
        reuse_stacks=bool(value("reuse_stacks")),
        kept=kept_runs(parsed),
        stacks=str(value("stacks") or ""),
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
    from harness import execution, integration
    from harness.engine.interrupt import run_interruptible

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    outcome, timings = integration.Outcome(traceback=parsed.traceback), integration.Timings()
    if judged:
        remove_old_reports(options)
    interrupted = ""
    with progress_log() as log, integration.collecting(outcome):
        progress = listener(parsed, Timed(log, timings))
        with timings.of("read the files"):
            loaded, outcome.plan = integration.load_plan(options, outcome)
        for note in outcome.plan.notes:
            progress.note("mcp-rollcall", note)

        async def work() -> None:
            assert outcome.plan is not None
            if record:
                outcome.plan = await execution.settle(options, loaded, outcome.plan, progress=progress)
            await execution.execute(options, outcome.plan, outcome, progress=progress, only_build=not record)

        interrupted = run_interruptible(work, on_interrupt=lambda cause: progress.note("interrupted", cause)).cause
    if judged:
        with _signals_wait():
            return _judged(parsed, options, outcome, timings, today=today, interrupted=interrupted)
    leave_record(parsed, outcome, interrupted=interrupted)
    errors = [*outcome.errors, *outcome.recorded_errors]
    for error in errors:
        say(f"{error.kind} error: {error.server + ': ' if error.server else ''}{error.message}")
        if error.log:
            say("  | " + error.log.replace("\n", "\n  | "))
        if error.hint:
            say(f"  hint: {error.hint}")
    code = max((error.code for error in errors), default=0)
    if interrupted:
        return Interrupted.code
    if record:
        from harness.report.groups import amount

        say(f"{amount(outcome.recorded, 'run')} recorded, {len(outcome.not_run)} not")
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
        say("the report is being written; once more ends it")

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
    remove_old_reports(options)
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
    places: Mapping[str, Place]
    if parsed.rollout is not None:
        whole, places = rollout_commands.judged_over_all(parsed, options, today=today)
        report = only_exemptions(whole, options.servers)
    else:
        with integration.collecting(outcome):
            _, outcome.plan = integration.load_plan_for_judging(options, outcome)
        report, places = only_exemptions(_report(options, outcome, today=today)), _places(outcome)
    lost = write_reports(report, None, places, folder=options.out, files=options.out_files, named=True)
    show(formatted(report, parsed.format, places))
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
    changes = propose(options, today=today, dry_run=parsed.dry_run, checks=tuple(parsed.check))
    return _changed(parsed, changes)


def _changed(parsed: argparse.Namespace, changes: Changes) -> int:
    """What was done on stdout, or the diff of what would be; what was left alone, and the counts, on stderr."""
    shown = changes.diff if parsed.dry_run else "\n".join(changes.done)
    if shown:
        show(shown)
    for line in (*changes.left, changes.summary):
        say(for_stderr(line))
    return 0


def _list(parsed: argparse.Namespace) -> int:
    from harness.exemption_tools import listed
    from harness.report.exemption_list import list_to_json, list_to_text
    from harness.report.progress import wants_color

    options = _options(parsed)
    today = options.today or datetime.now(UTC).date()
    items, notes = listed(options, today=today)
    if parsed.format == "json":
        show(list_to_json(items, by=parsed.by, today=today, within=parsed.within, notes=notes))
        return 0
    tty = is_tty(sys.stdout)
    color, width = wants_color(os.environ, tty), terminal_width() if tty else 100
    show(list_to_text(items, by=parsed.by, today=today, within=parsed.within, color=color, width=width))
    for note in notes:
        say(for_stderr(f"note: {note}"))
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
    lost = write_reports(report, timings, places, folder=report_folder(options), files=options.out_files, named=named)
    tell_ci(os.environ, report)
    show(formatted(report, parsed.format, places))
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
    from harness.checking import foreign_targets, unknown_names, unset_variables
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
    found = [
        f"{entry.place} [{entry.server}.{entry.check}] {entry.subject}: {'; '.join(entry.problems)}"
        for entry in loaded.exemptions
        if entry.problems
    ]
    found += unknown_names(plan, loaded.exemptions)
    foreign = foreign_targets(plan)
    wrong = [amount(len(items), word) for items, word in ((found, "exemption"), (foreign, "target")) if items]
    state = f"the files can be read, but {' and '.join(wrong)} will not do" if wrong else "the files are well formed"
    probed = {(run.key.server, run.key.era) for run in runs if run.eras_probed}
    both = len({server for server, _ in probed}) < len(probed)
    show(
        f"{', '.join(counts)}: {state}; {amount(len(runs), 'run')} planned"
        + (", of which those in an era that a server does not speak are passed over\n" if both else "\n")
        + "".join(f"  {run.key}\n" for run in runs)
    )
    for line in (*found, *foreign, *(f"note: {line}; a run needs it" for line in unset_variables(plan))):
        say(for_stderr(line))
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
    lost = write_reports(report, None, places, folder=folders[-1] if folders else None, files=files, named=True)
    tell_ci(os.environ, report)
    show(formatted(report, parsed.format, places))
    return max(report.exit, lost)


def _snapshot(parsed: argparse.Namespace) -> int:
    from harness.contract_tools import snapshot

    sources, how = _sources(parsed)
    words = not parsed.without_words
    return _tell(snapshot(sources, how, server=parsed.server, out=parsed.out, force=parsed.force, words=words))


def _contract_diff(parsed: argparse.Namespace) -> int:
    from harness.contract_tools import diff_of

    sources, how = _sources(parsed)
    width = terminal_width() if is_tty(sys.stdout) else 100
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
        show(said.text)
    for note in said.notes:
        say(for_stderr(note))
    return said.code


def _stdin() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin is not None else b""


def _backends(parsed: argparse.Namespace) -> int:
    from harness.report.progress import wants_color

    tty = is_tty(sys.stdout)
    color, width = wants_color(os.environ, tty), terminal_width() if tty else 100
    with progress_log() as log:
        return backends_door.run(parsed, show=show, progress=log, color=color, width=width)


def _proxy(_parsed: argparse.Namespace) -> int:
    from harness.proxy import main as proxy

    return proxy(sys.argv[2:])


def _recorded(parsed: argparse.Namespace) -> list[Path]:
    return [Path(place) for place in parsed.places] or [Path(".rollcall", "evidence")]


def _show(parsed: argparse.Namespace) -> int:
    from harness.evidence_tools import dialogues_in, show_json, show_text

    found = dialogues_in(_recorded(parsed))
    show(show_json(found) if parsed.format == "json" else show_text(found, base=Path.cwd()))
    return 0


def _to_suite(parsed: argparse.Namespace) -> int:
    from harness.evidence_tools import dialogues_in, to_suite

    suite = to_suite(dialogues_in(_recorded(parsed)), name=parsed.id)
    if parsed.out is None:
        show(suite.text)
    else:
        try:
            with open(parsed.out, "x", encoding="utf-8") as file:
                file.write(suite.text)
        except FileExistsError:
            raise ConfigError(f"{parsed.out} is there already", hint="choose another name, or remove it") from None
        except OSError as error:
            raise ConfigError(f"{parsed.out} cannot be written: {error.strerror}") from error
    for line in suite.left_out:
        say(for_stderr(f"left out: {line}"))
    return 0


def _plan(parsed: argparse.Namespace) -> int:
    from harness.matrix import jobs, render

    show(render(jobs(_options(parsed), by=parsed.by), parsed.format))
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
    show("\n".join(lines) if lines else "nothing was left by dead runs")
    for note in found.notes:
        say(f"note: {note}")
    return StackError.code if found.failed else 0


def _doctor(parsed: argparse.Namespace) -> int:
    from harness.doctor import examine

    text, code = examine(_options(parsed))
    show(text)
    return code
