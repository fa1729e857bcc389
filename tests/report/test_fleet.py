"""The matrix of a rollout, and its board of stages. Ours."""

import io
import re

from harness.model.finding import Coverage, Finding, HarnessFailure, Judgement, Ran, Report, Repository
from harness.report.board import Board
from harness.report.fleet import MAX_ROWS, fleet_rows, fleet_summary
from harness.report.markdown import to_markdown
from harness.report.text import to_text


def repository(name, verdict="clean", state="done", server=None):
    exits = {"clean": 0, "findings": 1, "error": 4}
    server = name if server is None else server
    return Repository(name=name, server=server, source=name, state=state, verdict=verdict, exit=exits[verdict])


def ran(server):
    return Ran(server=server, backend="none", runtime=None, era="handshake", profile="plain")


def coverage(server, backend="none", tools=3, succeeded=2, excused=1):
    rest = {"refused_only": 0, "failed_only": 0, "missing": tools - succeeded - excused}
    return Coverage(server=server, backend=backend, tools=tools, succeeded=succeeded, excused=excused, **rest)


def finding(server, check="wire/noise", severity="error"):
    return Finding(check=check, severity=severity, server=server, message="m")


JUDGEMENT = Judgement(
    ran=(ran("a"), ran("b")),
    coverage=(coverage("a"), coverage("a", "redis@8"), coverage("b")),
    findings=(finding("b"), finding("b", severity="warning"), finding("b", "names/long", "warning")),
    errors=(HarnessFailure(kind="build", code=4, server="c|`x`", message="no"),),
    repositories=(
        repository("a"),
        repository("b", "findings"),
        repository("c|`x`", "error", "not-checked-out", server=""),
    ),
)


def test_every_repository_is_a_row_with_the_worst_first():
    head, rows, rest = fleet_rows(JUDGEMENT)
    assert head == ["repository", "verdict", "tools", "excused", "names", "wire", "errors", "not judged"]
    assert rows == [
        ["c|`x`", "error", "?", "?", "?", "?", "not checked out", "·"],
        ["b", "findings", "2/3", "1", "1!", "1 1!", "·", "·"],
        ["a", "clean", "4/6", "2", "·", "·", "·", "·"],
    ]
    assert rest == 0
    assert fleet_summary(JUDGEMENT.repositories) == "1 clean, 1 findings, 1 error"


def test_text_and_markdown_show_the_same_table():
    report = Report(verdict="error", exit=4, today="2026-12-01", judgement=JUDGEMENT)
    text = to_text(report)
    assert "3 repositories: 1 clean, 1 findings, 1 error" in text
    assert re.search(r"^  b +findings +2/3 +1 +1! +1 1! +· +·$", text, re.MULTILINE)
    markdown = to_markdown(report)
    assert "### Repositories: 3, 1 clean, 1 findings, 1 error" in markdown
    row = next(line for line in markdown.splitlines() if line.startswith("| ``") or "not checked out" in line)
    assert row.replace("\\|", "").count("|") == 9  # a name cannot add a cell


def test_of_very_many_the_rest_is_counted():
    many = tuple(repository(f"r{number:04}") for number in range(MAX_ROWS + 7))
    _, rows, rest = fleet_rows(Judgement(repositories=many))
    assert (len(rows), rest) == (MAX_ROWS, 7)
    report = Report(verdict="clean", exit=0, today="2026-12-01", judgement=Judgement(repositories=many))
    assert "and 7 more, in report.json" in to_text(report)


def test_the_board_shows_the_stage_of_every_repository_and_a_log_shows_them_in_one_line():
    now = [100.0]
    stream = io.StringIO()
    with Board(stream, total=5, tty=True, color=False, columns=60, clock=lambda: now[0]) as board:
        board.begin("one", "run")
        board.begin("two", "run")
        board.waiting("two", "run", "redis@8 12 cases")
        now[0] = 107.0
        board.settled("three")
        board.end("one", "run", ok=True, seconds=7.0)
    shown = stream.getvalue()
    assert "… 0 of 5 done" in shown
    assert "  one: run, 0 s\n  two: redis@8 12 cases, 0 s" in shown
    assert "✓ one: run, 7.0 s\n… 2 of 5 done\n  two: redis@8 12 cases, 7 s" in shown
    assert shown.endswith("\x1b[K")  # nothing of the block is left

    log = io.StringIO()
    with Board(log, total=5, tty=False, color=False, wait_every_s=5, clock=lambda: now[0]) as board:
        board.begin("one", "run")
        board.begin("two", "run")
        now[0] = 120.0
        board.waiting("two", "run", "build")
    assert "still" not in log.getvalue()
    assert "0 of 5 done; one: run, 13 s; two: build, 13 s\n" in log.getvalue()
