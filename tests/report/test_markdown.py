"""The CI summary: nothing foreign is live, tables keep their cells, and it fits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.markdown import cell, code, fit_summary, to_markdown

RUN = re.compile("`+")
LIMIT = 1_048_576


def without_code(text):
    """The Markdown with fences and code spans taken out, as CommonMark reads them; fences must be closed."""
    out, closing = [], ""
    for line in text.split("\n"):
        run = re.match("^(`{3,})[^`]*$", line)
        if closing:
            closing = "" if line == closing else closing
        elif run:
            closing = run[1]
        else:
            out.append(without_spans(line))
    assert closing == "", "a fence is open"
    return "\n".join(out)


def without_spans(line):
    out, at = "", 0
    while run := RUN.search(line, at):
        out += line[at : run.start()]
        end = next((other for other in RUN.finditer(line, run.end()) if other[0] == run[0]), None)
        assert end is not None, f"a code span is open: {line!r}"
        at = end.end()
    return out + line[at:]


def rows_of(text):
    """Every table as a list of rows as lists of cells."""
    tables, rows = [], []
    for line in text.split("\n"):
        if line.startswith("| "):
            rows.append(re.split(r"(?<!\\)\|", line)[1:-1])
        elif rows:
            tables.append(rows)
            rows = []
    return tables


HOSTILE = ["a|b", "line\nbreak", "x ``` y", "<img src=x onerror=1>", "@all", "#1", "https://example.org", "`", "a\\|b"]


def test_the_first_line_is_the_verdict(samples):
    for report in samples.values():
        assert to_markdown(report).startswith(f"**mcp-rollcall: {report.verdict}** — ")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_nothing_foreign_is_live_and_rows_keep_their_cells(any_report, data):
    text = to_markdown(data.draw(any_report))
    text.encode("utf-8")
    assert not re.search(r"[<@]|#\d|https?:|www\.", without_code(text))
    for rows in rows_of(text):
        assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize("foreign", HOSTILE)
def test_hostile_names_reasons_and_messages_are_tamed(make, report_of, foreign):
    report = report_of(
        ran=[make.ran(server=foreign)],
        coverage=[make.coverage(server=foreign, succeeded=[foreign])],
        findings=[make.finding(tool=foreign, message=foreign, evidence={foreign: foreign}, rerun=foreign)],
        notes=[foreign],
    )
    text = to_markdown(report)
    assert not re.search(r"[<@]|#\d|https?:", without_code(text))
    assert [len(row) for rows in rows_of(text) for row in rows] == [9, 9, 9]


@given(st.text(alphabet=st.sampled_from("a`| \\"), max_size=12))
def test_a_code_span_is_whole_whatever_backticks_it_holds(text):
    assert without_spans(code(text)) in ("", "–")
    assert len(re.split(r"(?<!\\)\|", f"| {cell(text)} |")) == 3


def test_a_line_that_begins_with_a_code_span_of_backticks_opens_no_fence(make, report_of):
    findings = [make.finding(server="``` x", message="y" * 500) for _ in range(2)]
    text = to_markdown(report_of(ran=[make.ran()], findings=[*findings, make.finding(server="z")]))
    without_code(text)
    assert fit_summary(0, text, limit=len(text.encode()) - 1).endswith("1 more in report.json\n")


def test_a_summary_that_fits_is_left_as_it_is(findings):
    text = to_markdown(findings)
    assert fit_summary(0, text) == text
    assert fit_summary(LIMIT - len(text.encode()), text) == text


def test_a_long_summary_is_cut_between_findings(make, report_of):
    findings = [make.finding(tool=f"tool-{n}", message="``` <b> " * 100) for n in range(2_500)]
    text = to_markdown(report_of(ran=[make.ran()], findings=findings))
    assert len(text.encode()) > 2_000_000
    fitted = fit_summary(900_000, text)
    assert 140_000 < len(fitted.encode()) <= LIMIT - 900_000
    more = int(fitted.splitlines()[-1].removesuffix(" more in report.json"))
    shown = fitted.count("#### ")
    assert shown + more == 2_500
    assert text.startswith(fitted.rpartition("\n\n")[0])
    without_code(fitted)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 3000))
def test_any_room_is_kept_to(any_report, data, room):
    text = to_markdown(data.draw(any_report))
    fitted = fit_summary(LIMIT - room, text)
    assert len(fitted.encode()) <= room
    without_code(fitted)
    if fitted != text and fitted:
        assert re.search(r"(?:^|\n)\d+ more in report\.json\n$", fitted)


def test_a_table_that_is_cut_keeps_its_head(make, report_of, clean):
    text = to_markdown(clean)
    fitted = fit_summary(0, text, limit=len(text.encode()) - 1)
    assert fitted.endswith("\n\n1 more in report.json\n")
    assert {len(row) for rows in rows_of(fitted) for row in rows} == {6, 9}


def test_no_room_is_nothing(findings):
    assert fit_summary(LIMIT, to_markdown(findings)) == ""
    assert fit_summary(LIMIT + 5, to_markdown(findings)) == ""
