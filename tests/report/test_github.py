"""Annotations: one physical line each, escaped as workflow commands want it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.github import to_annotations
from harness.report.groups import groups_of

SHAPE = re.compile(r"::(error|warning) (file=[^,:]*,)?(line=\d+,)?title=[^,:]*::.*")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_annotation_is_one_line(any_report, data):
    report = data.draw(any_report)
    text = to_annotations(report)
    text.encode("utf-8")
    lines = text.splitlines()
    expected = len(groups_of(report.judgement.findings))
    expected += len(report.judgement.errors) + (report.verdict == "partial")
    assert len(lines) == expected
    assert all(SHAPE.fullmatch(line) for line in lines)


def test_newline_percent_comma_and_colon_are_escaped(make, report_of):
    found = make.finding("a,b:c", file="suites/x,y:z%.toml", line=3, message="a\nb 50%0A::x\r", server="s")
    (line,) = to_annotations(report_of(ran=[make.ran()], findings=[found])).splitlines()
    assert line == "::error file=suites/x%2Cy%3Az%25.toml,line=3,title=a%2Cb%3Ac::s: a%0Ab 50%250A::x%0D"


def test_tools_of_which_the_same_is_said_are_one_annotation(make, report_of):
    found = [
        make.finding("exercised/missing", tool=tool, message=f"{tool} is listed and no call reached it", server="s")
        for tool in ("get", "put")
    ]
    (line,) = to_annotations(report_of(ran=[make.ran()], findings=found)).splitlines()
    assert line == "::error title=exercised/missing::s: get, put: each is listed and no call reached it"


def test_a_kind_is_told_once(make, report_of):
    more = {"message": "an open object: {} at a", "server": "s", "evidence": {"kind": "an open object"}}
    found = [make.finding("strict/x", tool=tool, **more) for tool in ("get", "put")]
    (line,) = to_annotations(report_of(ran=[make.ran()], findings=found)).splitlines()
    assert line.count("an open object") == 1
    assert "s: 2 tools: an open object: {} at a%0Aget%0Aput" in line


@pytest.mark.parametrize("file", ["/abs/x.toml", "../x.toml", "C:\\x.toml", "\\\\host\\x"])
def test_a_file_that_is_not_inside_is_named_in_the_message(make, report_of, file):
    (line,) = to_annotations(report_of(ran=[make.ran()], findings=[make.finding(file=file, line=2)])).splitlines()
    assert "file=" not in line
    assert f"{file}:2" in line


def test_a_clean_report_annotates_nothing_and_nothing_run_does(clean, report_of):
    assert to_annotations(clean) == ""
    assert to_annotations(report_of()).startswith("::error title=mcp-rollcall nothing-run error::")
