"""The verdict, the exit code, the order, and reports joined into one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.finding import HarnessFailure, NotJudged
from harness.report.build import make_report, merge
from harness.report.json import to_json


def failure(kind="stack", code=5, server="redis-mcp"):
    return HarnessFailure(kind=kind, code=code, server=server, message=f"{kind} failed")


def not_judged(own=False, server="redis-mcp"):
    return NotJudged(check="exercised", server=server, why="the run is not there", own=own)


def test_all_exercised_is_clean(make, report_of):
    report = report_of(ran=[make.ran()], coverage=[make.coverage(succeeded=["get"])])
    assert (report.verdict, report.exit) == ("clean", 0)


def test_a_finding_is_exit_1(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding()])
    assert (report.verdict, report.exit) == ("findings", 1)


def test_a_warning_fails_only_with_strict(make, report_of):
    parts = {"ran": [make.ran()], "findings": [make.finding(severity="warning")]}
    assert (report_of(**parts).verdict, report_of(**parts).exit) == ("clean", 0)
    strict = report_of(**parts, strict=True)
    assert (strict.verdict, strict.exit) == ("findings", 1)


def test_nothing_run_is_not_green(report_of):
    report = report_of()
    assert (report.verdict, report.exit) == ("nothing-run", 3)
    assert [error.kind for error in report.judgement.errors] == ["nothing-run"], "every format shows it as an error"


def test_nothing_run_with_findings_in_the_exemption_file_is_still_nothing_run(make, report_of):
    report = report_of(findings=[make.finding("exemption/malformed")])
    assert (report.verdict, report.exit) == ("nothing-run", 3)


def test_a_cell_whose_server_speaks_no_era_ran_nothing(make, report_of):
    silent = [make.ran(server="mute", era=era, outcome="not-spoken") for era in ("handshake", "modern")]
    alone = report_of(ran=silent)
    assert (alone.verdict, alone.exit) == ("nothing-run", 3)
    beside = report_of(ran=[*silent, make.ran()], coverage=[make.coverage(succeeded=["get"])])
    assert (beside.verdict, beside.exit) == ("error", 3)
    assert "mute" in {error.server for error in beside.judgement.errors}


def test_one_era_that_is_not_spoken_is_no_error(make, report_of):
    report = report_of(ran=[make.ran(), make.ran(era="modern", outcome="not-spoken")])
    assert (report.verdict, report.exit) == ("clean", 0)


@pytest.mark.parametrize(("kind", "code"), [("config", 2), ("build", 4), ("stack", 5), ("server", 6)])
def test_an_error_gives_its_code_and_outranks_findings(make, report_of, kind, code):
    report = report_of(ran=[make.ran()], findings=[make.finding()], errors=[failure(kind, code)])
    assert (report.verdict, report.exit) == ("error", code)


def test_the_highest_code_wins(make, report_of):
    report = report_of(ran=[make.ran()], errors=[failure("build", 4), failure("server", 6), failure("stack", 5)])
    assert report.exit == 6


def test_an_interrupted_run_is_130_and_keeps_its_findings(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding()], errors=[failure()], interrupted=True)
    assert (report.verdict, report.exit) == ("error", 130)
    assert len(report.judgement.findings) == 1
    assert "interrupted" in {error.kind for error in report.judgement.errors}


def test_an_interruption_is_said_once_and_not_again_of_each_run(make, report_of):
    mine = HarnessFailure(kind="interrupted", code=130, server="redis-mcp", message="redis-mcp …: it was interrupted")
    whole = HarnessFailure(kind="interrupted", code=130, server="", message="interrupted by SIGINT")
    report = report_of(ran=[make.ran()], errors=[mine, whole], interrupted=True)
    assert [item.message for item in report.judgement.errors] == ["interrupted by SIGINT"]
    assert report_of(ran=[make.ran()], errors=[mine]).judgement.errors == (mine,)


def test_the_users_own_selection_is_partial_and_leaves_the_exit_code(make, report_of):
    parts = {"ran": [make.ran()], "not_judged": [not_judged(own=True)]}
    report = report_of(**parts)
    assert (report.verdict, report.exit) == ("partial", 0)
    complete = report_of(**parts, require_complete=True)
    assert (complete.verdict, complete.exit) == ("partial", 3)


def test_findings_outrank_partial_but_the_higher_code_wins(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding()], partial=True, require_complete=True)
    assert (report.verdict, report.exit) == ("findings", 3)


def test_what_an_error_kept_from_being_judged_has_that_errors_code(make, report_of):
    report = report_of(ran=[make.ran()], not_judged=[not_judged()], errors=[failure("config", 2)])
    assert (report.verdict, report.exit) == ("error", 2)


def test_evidence_that_is_missing_without_any_error_is_never_green(make, report_of):
    report = report_of(ran=[make.ran()], not_judged=[not_judged()])
    assert (report.verdict, report.exit) == ("partial", 3)


def test_an_error_that_comes_twice_is_listed_once(make, report_of):
    report = make_report(
        report_of(ran=[make.ran()], errors=[failure()]).judgement, today="2026-12-01", errors=[failure()]
    )
    assert len(report.judgement.errors) == 1


def test_folders_of_this_machine_become_their_names(make, report_of):
    at = "/srv/my project/repo"
    found = make.finding(
        message=f"{at}/suites/a.toml and {at}2 and {at}.", evidence={at: [f"open('{at}/x')"]}, file=f"{at}/a.toml"
    )
    report = report_of(ran=[make.ran()], findings=[found], folders={at: "."})
    (cleaned,) = report.judgement.findings
    assert cleaned.message == f"./suites/a.toml and {at}2 and .."
    assert cleaned.evidence == {".": ["open('./x')"]}
    assert cleaned.file == "./a.toml"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\xffok", "\\xffok"),
        (float("nan"), "nan"),
        (10**5000, f"{10**5000:#x}"),
        ({1: ("a", None)}, {"1": ["a", None]}),
        ("\ud83d\ude00", "😀"),
    ],
    ids=["bytes", "nan", "huge", "keys", "surrogates"],
)
def test_evidence_becomes_what_json_can_say(make, report_of, value, shown):
    report = report_of(ran=[make.ran()], findings=[make.finding(evidence={"value": value})])
    assert report.judgement.findings[0].evidence == {"value": shown}
    to_json(report)


def test_evidence_of_any_depth_is_bounded(make, report_of):
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    assert "nested deeper" in to_json(report_of(ran=[make.ran()], findings=[make.finding(evidence={"deep": deep})]))


def test_the_order_of_arrival_never_changes_the_bytes(findings):
    expected = to_json(findings)
    judgement = findings.judgement
    shuffled = {}
    for name in ("ran", "coverage", "cases", "findings", "errors", "not_judged", "excused", "lowered"):
        items = list(getattr(judgement, name))
        random.Random(7).shuffle(items)
        shuffled[name] = tuple(items)
    again = make_report(type(judgement)(**shuffled), today=findings.today, partial=True)
    assert to_json(again) == expected


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_merge_is_associative_commutative_and_idempotent(any_report, data):
    a, b, c = (data.draw(any_report) for _ in range(3))
    joined = to_json(merge([a, b, c]))
    assert to_json(merge([merge([a, b]), c])) == joined
    assert to_json(merge([a, merge([b, c])])) == joined
    assert to_json(merge([c, a, b])) == joined
    assert to_json(merge([a, b, c, b])) == joined
    assert to_json(merge([a])) == to_json(a)


def test_a_part_that_ran_nothing_makes_the_whole_an_error(clean, report_of):
    whole = merge([clean, report_of()])
    assert (whole.verdict, whole.exit) == ("error", 3)


def test_merging_nothing_is_refused():
    with pytest.raises(ValueError, match="no reports"):
        merge([])
