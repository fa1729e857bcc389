"""The terminal report: three samples pinned whole, and what holds for any report."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.text import to_text

SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize("name", ["clean", "findings", "failed"])
def test_samples_read_as_pinned(samples, name):
    assert to_text(samples[name], width=100) == (SAMPLES / f"{name}.txt").read_text("utf-8")


def test_the_first_line_tells_the_verdict_the_counts_and_why_the_runtime(clean):
    first = to_text(clean).splitlines()[0]
    assert first.startswith("mcp-rollcall: clean — 49 of 53 tools exercised, 4 excused (1 server, 1 run, 0 findings)")
    assert first.endswith("no Docker engine at /var/run/docker.sock")


def test_foreign_text_is_printed_character_by_character(make, report_of):
    words = "list[str] [/sys/x] [red] :warning: \\[ C:\\temp\\new {x} %s"
    report = report_of(
        ran=[make.ran()],
        findings=[make.finding(tool=words, message=words, evidence={words: words}, source=words, rerun=words)],
    )
    text = to_text(report, color=True, width=0)
    assert text.count(words) == 6


def test_rerun_lines_are_never_broken(make, report_of):
    rerun = "mcp-rollcall run -k '" + "word " * 60 + "'"
    report = report_of(ran=[make.ran()], findings=[make.finding(rerun=rerun, message="word " * 60)])
    lines = to_text(report, width=60).splitlines()
    assert any(rerun in line for line in lines)
    assert max(len(line) for line in lines[1:] if rerun not in line) <= 60


def test_what_is_said_of_many_tools_is_said_once(make, report_of):
    findings = [
        make.finding(
            tool=f"tool-{n:02}",
            message=f"tool-{n:02} is listed and no call reached it",
            rerun=f"mcp-rollcall run -k {n:02}",
        )
        for n in range(40)
    ]
    text = to_text(report_of(ran=[make.ran()], findings=findings), width=80)
    assert text.count("each is listed and no call reached it") == 1
    assert all(text.count(f"tool-{n:02}") == 1 for n in range(40))
    assert "(and 37 more, in report.json)" in text
    assert "40 findings" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_long_evidence_is_cut_with_its_size(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding(evidence={"line": "ä" * 3_000_000})])
    text = to_text(report)
    assert "(2,000 of 6,000,000 bytes; all of it in report.json)" in text
    assert len(text) < 10_000


def test_examples_stand_one_to_a_line(make, report_of):
    first = [{"bytes": "'hello'", "offset": 0}, {"bytes": "''", "offset": 6}]
    text = to_text(report_of(ran=[make.ran()], findings=[make.finding(evidence={"first": first})]))
    assert """first:\n              | {"bytes": "'hello'", "offset": 0}\n              | {""" in text


def test_colour_changes_nothing_but_colour(samples):
    for report in samples.values():
        coloured = to_text(report, color=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[\d+m", "", coloured) == to_text(report)


def test_tools_are_counted_over_cells_and_entries_as_entries(make, report_of, clean):
    """One entry excuses a tool in both cells: 2 and 1 are both true, and each has its unit."""
    cells = [make.coverage(backend=name, succeeded=("x", "y"), excused=("z",)) for name in ("a@1", "a@2")]
    text = to_text(report_of(ran=[make.ran()], coverage=cells, excused=clean.judgement.excused[:1]))
    assert "4 of 6 tools exercised over 2 cells, 2 excused by 1 entry (1 server, " in text.splitlines()[0]
    assert "Excused in writing: 1 entry\n" in text


def test_a_partial_verdict_says_whose_doing_it_is(make, report_of):
    first = to_text(report_of(ran=[make.ran()], partial=True)).splitlines()[0]
    assert first.startswith("mcp-rollcall: partial — ")
    assert "your own selection left something out" in first


def test_nothing_run_is_said_in_the_first_line(report_of):
    first = to_text(report_of()).splitlines()[0]
    assert first.startswith("mcp-rollcall: nothing-run — 0 of 0 tools exercised")
    assert "exit 3" in first


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 120))
def test_no_control_character_reaches_the_terminal(any_report, data, width):
    text = to_text(data.draw(any_report), width=width)
    assert text.endswith("\n")
    assert not [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert text.encode("utf-8")
    assert text.startswith("mcp-rollcall: ")
