"""The arguments of `rollout` and its words, and what is done with them; heavy modules are imported where they work."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.arguments import judging, rebuild, reuse, runtime
from harness.errors import ConfigError, Interrupted
from harness.output import (
    ENDINGS,
    for_stderr,
    formatted,
    progress_board,
    progress_log,
    remove_old_reports,
    say,
    show,
    tell_ci,
    write_reports,
)

if TYPE_CHECKING:
    from harness.integration import Options
    from harness.model.finding import Report
    from harness.model.plan import Place
    from harness.model.rollout import RepositoryRecord
    from harness.rollout import Pass
    from harness.rollout_pass import Times

__all__ = ["COMMANDS", "WORDS", "judged_over_all", "over_all"]

WORDS = ("judge", "plan", "merge")


# --- arguments ----------------------------------------------------------------------------------------


def _which(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("selection")
    group.add_argument(
        "--list", default="", metavar="FILE", help="the list, or the folder that has it (default: rollout.toml)"
    )
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME|TAG",
        help="only these repositories; may be repeated, or name several with commas between them",
    )


def _shard(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--shard",
        type=_shard_of,
        metavar="I/N",
        help="only part I of N, as `rollout plan --shards N` divides the list; the parts' evidence is joined by "
        "`rollout merge`",
    )


def _kept(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--evidence", metavar="DIR", help="where the evidence of all is kept (default: .rollcall/evidence by the list)"
    )
    sub.add_argument(
        "--state",
        metavar="DIR",
        help="where checkouts, builds and all else are kept (default: .rollcall by the list, and of each repository "
        "in the repository)",
    )


def _running(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help="how many repositories run side by side (default: what the list says, else one for each core, two at "
        "least, and no more than one for each GiB of free memory, here and in Docker)",
    )
    sub.add_argument(
        "--resume", action="store_true", help="run only what has no evidence yet, or has changed since it had"
    )


def _planning(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--shards", type=_count, default=1, metavar="N", help="how many jobs to divide the list into")
    sub.add_argument(
        "--format",
        choices=("text", "json", "github", "gitlab"),
        default="text",
        help="commands; JSON; the matrix for `fromJSON` of GitHub; a file for `include` of GitLab (default: text)",
    )


def _merging(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "folders", nargs="+", metavar="DIR", help="the evidence of a shard, or the .rollcall folder that holds it"
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 256):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 256")
    return int(text)


def _shard_of(text: str) -> tuple[int, int]:
    first, slash, second = text.partition("/")
    if not slash or not 1 <= _count(first) <= _count(second):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1/3")
    return int(first), int(second)


# --- commands -----------------------------------------------------------------------------------------


def _pass(parsed: argparse.Namespace) -> Pass:
    from harness.config.rollout import read_rollout
    from harness.integration import Options
    from harness.rollout import Pass, Shard

    here = Path.cwd()
    spec = read_rollout(here / (getattr(parsed, "list", "") or getattr(parsed, "rollout", "") or "rollout.toml"))
    value: Callable[[str], object] = lambda name: getattr(parsed, name, None)  # noqa: E731
    only = tuple(word for item in getattr(parsed, "only", ()) for word in item.split(",") if word)
    if getattr(parsed, "only", ()) and not only:  # all of them would be the contrary of what was meant
        raise ConfigError("--only names nothing", hint="it takes names and tags; is a variable of the CI job empty?")

    def path(name: str, default: Path) -> Path:
        text = value(name)
        return here / str(text) if text else default

    state = path("state", spec.base / ".rollcall")
    out = list(getattr(parsed, "out", ()))
    files = [here / item for item in out if Path(item).suffix.lower() in ENDINGS and not (here / item).is_dir()]
    folders = [here / item for item in out if here / item not in files]
    today = value("today")
    shard = getattr(parsed, "shard", None)
    return Pass(
        spec=spec,
        options=Options(
            base=spec.base,
            projects=(),
            runtime=getattr(parsed, "runtime", "auto"),
            evidence=path("evidence", state / "evidence"),
            state=state,
            out=folders[-1] if folders else None,
            out_files=tuple(files),
            strict=bool(value("strict")),
            require_complete=bool(value("require_complete")),
            rebuild=bool(value("rebuild")),
            reuse_stacks=bool(value("reuse_stacks")),
            today=today if isinstance(today, date) else None,
            through_nox=os.environ.get("ROLLCALL_NOX") == "1",
        ),
        own_state=bool(value("state")),
        only=only,
        shard=Shard(*shard) if shard else None,
        jobs=_jobs(value("jobs"), spec.jobs),
        resume=bool(value("resume")),
    )


def over_all(parsed: argparse.Namespace) -> Options:
    """The options of `exemptions … --rollout`: all repositories of the list that are here.

    Raises:
        ConfigError: The list cannot be used, or projects are named besides it.
        NothingSelected: None of them is here.
    """
    import dataclasses

    from harness.rollout import options_over_all

    if parsed.project:
        raise ConfigError("--rollout names all projects; --project goes without it")
    options, notes = options_over_all(_pass(parsed))
    for note in notes:
        say(for_stderr(f"note: {note}"))
    names = (*parsed.names, *parsed.server)
    return dataclasses.replace(options, servers=names, everything=not names)


def judged_over_all(parsed: argparse.Namespace, options: Options, *, today: date) -> tuple[Report, Mapping[str, Place]]:
    """The report of `rollout judge` on the whole list, whatever servers are named; and their places.

    Raises:
        ConfigError: A server is named that no repository has.
    """
    from harness.config.problems import did_you_mean, quoted
    from harness.rollout_report import judge_pass

    this = _pass(parsed)
    report, projects = judge_pass(this, _records(this), today=today)
    known = {item.server.name for item in projects}
    for name in options.servers:
        if name not in known:
            raise ConfigError(f"no server is named {quoted(name)}", hint=did_you_mean(name, known))
    return report, {item.server.name: _place(item.place.file, item.server_line) for item in projects}


def _jobs(asked: object, listed: int | None) -> int:
    if isinstance(asked, int):
        return asked
    return listed or 0


def _rollout(parsed: argparse.Namespace) -> int:
    import dataclasses

    from harness.engine.interrupt import run_interruptible
    from harness.engine.machine import jobs_here
    from harness.integration import Outcome, collecting
    from harness.report.groups import amount
    from harness.rollout_pass import Times, keep_the_rest, run_pass

    this = _pass(parsed)
    this.selected()  # what is wrong with the selection is said before anything else
    bound = ""
    if not this.jobs:
        jobs, bound = jobs_here()
        this = dataclasses.replace(this, jobs=jobs)
    remove_old_reports(this.options)
    times, outcome = Times(), Outcome(traceback=parsed.traceback)
    records: dict[str, RepositoryRecord] = {}
    cause = ""
    with progress_board(len(this.selected())) as log, collecting(outcome):
        side = f"{this.jobs} side by side" + (f", bounded by {bound}" if bound else "")
        log.note("rollout", f"{len(this.selected())} of {amount(len(this.spec.repositories), 'repository')}, {side}")

        async def work() -> None:
            await run_pass(this, progress=log, times=times, records=records, settled=log.settled)

        cause = run_interruptible(work, on_interrupt=lambda what: log.note("interrupted", what)).cause
    if cause:
        keep_the_rest(this, records)
    with _signals_wait():
        for error in outcome.errors:
            say(f"{error.kind} error: {error.message}")
        code = _judged(parsed, this, records, times)
        _last_words(times, len(records))
    return max(code, Interrupted.code if cause else 0, *(error.code for error in outcome.errors), 0)


def _judge(parsed: argparse.Namespace) -> int:
    this = _pass(parsed)
    remove_old_reports(this.options)
    return _judged(parsed, this, _records(this), None)


def _records(this: Pass) -> dict[str, RepositoryRecord]:
    found = ((item.name, this.record_of(item.name)) for item in this.selected())
    return {name: record for name, record in found if record is not None}


def _judged(
    parsed: argparse.Namespace, this: Pass, records: Mapping[str, RepositoryRecord], times: Times | None
) -> int:
    from harness.integration import report_folder
    from harness.rollout_report import judge_pass

    today = this.options.today or datetime.now(UTC).date()
    report, projects = judge_pass(this, records, today=today)
    places = {item.server.name: _place(item.place.file, item.server_line) for item in projects}
    return max(
        report.exit,
        _told(parsed, this, report, times, places, folder=report_folder(this.options)),
    )


def _place(file: str, line: int | None) -> Place:
    from harness.model.plan import Place

    return Place(file=file, line=line)


def _told(
    parsed: argparse.Namespace,
    this: Pass,
    report: Report,
    times: Times | None,
    places: Mapping[str, Place],
    *,
    folder: Path,
) -> int:
    named = this.options.out is not None
    lost = write_reports(report, times, places, folder=folder, files=this.options.out_files, named=named)
    tell_ci(os.environ, report)
    show(formatted(report, parsed.format, places))
    return lost


def _last_words(times: Times, repositories: int) -> None:
    """What it took, what it would have taken one after the other, and what the end waited for."""
    import time

    from harness.report.groups import amount

    wall, alone = time.monotonic() - times.began, sum(times.seconds.values())
    ran = len(times.seconds)
    line = f"{ran} of {amount(repositories, 'repository')} in {_span(wall)}"
    if ran > 1:
        line += f"; alone {_span(alone)}"
    if times.reused:
        line += f"; {len(times.reused)} kept from before"
    if times.last and ran > 1:
        line += f"; waiting for: {times.last} ({_span(times.seconds[times.last])})"
    say(line)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Only the report is missing: the first signal waits for it, the second does not."""
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


def _plan(parsed: argparse.Namespace) -> int:
    from harness.rollout_shards import render

    show(render(_pass(parsed), parsed.shards, parsed.format))
    return 0


def _merge(parsed: argparse.Namespace) -> int:
    from harness.rollout_shards import join

    this = _pass(parsed)
    remove_old_reports(this.options)
    with progress_log() as log:
        join(this, [Path.cwd() / item for item in parsed.folders], progress=log)
    return _judged(parsed, this, _records(this), None)


COMMANDS: tuple[tuple[str, Callable[[argparse.Namespace], int], str, tuple[Callable[..., object], ...]], ...] = (
    (
        "rollout",
        _rollout,
        "many repositories in one pass: check out, build, drive every tool, one report",
        (_which, _shard, runtime, _kept, rebuild, reuse, _running, judging),
    ),
    (
        "rollout judge",
        _judge,
        "judge the recorded evidence of all repositories again, without network, Docker or servers",
        (_which, runtime, _kept, judging),
    ),
    (
        "rollout plan",
        _plan,
        "divide the list into jobs for CI that take equally long, by the durations of earlier passes",
        (_which, _kept, _planning),
    ),
    (
        "rollout merge",
        _merge,
        "join the evidence of shards, and judge it: the report that one machine would have given",
        (_merging, _which, runtime, _kept, judging),
    ),
)
