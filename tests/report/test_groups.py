"""Findings of a kind are told once, with their places, in every format that people read; JSON keeps each. Ours."""

from __future__ import annotations

import json

import pytest

from harness.model.finding import Listed
from harness.report.github import to_annotations
from harness.report.groups import POINTERS, TOOLS, groups_of
from harness.report.json import to_json
from harness.report.junit import to_junit
from harness.report.markdown import to_markdown
from harness.report.text import MAX_GROUPS, to_text


@pytest.fixture
def untyped(make):
    """A finding about one parameter of one tool."""

    def of(tool, name, kind="a parameter without a type", **more):
        more = {"file": "tools.json", "line": 3, **more}
        return make.finding(
            check="output-schema/missing",
            tool=tool,
            pointer=f"/properties/{name}",
            message=f"the parameter {name} has no type; write one",
            evidence={"kind": kind, "schema": "inputSchema", "spelling": f'{{"title": "{name}"}}', "clients": ["all"]},
            source="ours",
            **more,
        )

    return of


@pytest.fixture
def report_of_lists(report_of):
    def of(*findings):
        return report_of(findings=findings, listed=[Listed(server="redis-mcp", source="tools.json", tools=3)])

    return of


def test_twelve_parameters_of_seven_tools_are_one_headline(untyped, report_of_lists):
    findings = [untyped(f"tool{n % 7}", f"p{n}", line=10 + n % 7) for n in range(12)]
    text = to_text(report_of_lists(*findings))
    assert "output-schema/missing: 12 parameters of 7 tools: a parameter without a type (tools.json)" in text
    assert "tool0 (line 10)  /properties/p0, /properties/p7" in text
    assert text.count("write one") == 1
    assert text.count("clients: all") == 1
    assert "kind:" not in text
    assert "12 findings" in text
    assert len(json.loads(to_json(report_of_lists(*findings)))["findings"]) == 12


def test_kinds_severities_and_servers_stand_apart(untyped, report_of_lists):
    findings = [
        untyped("a", "x"),
        untyped("a", "y"),
        untyped("a", "x", kind="another"),
        untyped("a", "x", severity="warning"),
        untyped("a", "x", server="other"),
    ]
    groups = groups_of(report_of_lists(*findings).judgement.findings)
    assert sorted(len(group.findings) for group in groups) == [1, 1, 1, 2]


def test_places_are_bounded_and_counted(untyped, report_of_lists):
    findings = [untyped(f"tool{n:03}", f"p{m}") for n in range(TOOLS + 5) for m in range(POINTERS + 2)]
    text = to_text(report_of_lists(*findings), width=0)
    assert f"{len(findings)} parameters of {TOOLS + 5} tools" in text
    assert "and 2 more" in text
    assert f"… and 5 more tools with {5 * (POINTERS + 2)} places, in report.json" in text


def test_whole_tools_are_counted_as_tools(make, report_of_lists):
    findings = [
        make.finding(tool=f"t{n}", message=f"t{n} has no description", evidence={"kind": "no description"})
        for n in range(3)
    ]
    text = to_text(report_of_lists(*findings))
    assert "3 tools: no description" in text
    assert "each has no description" in text


def test_one_finding_reads_as_before(untyped, report_of_lists):
    text = to_text(report_of_lists(untyped("set", "value")))
    assert "set /properties/value: output-schema/missing (tools.json:3)" in text


def test_messages_that_differ_are_shown_by_an_example(untyped, report_of_lists):
    text = to_text(report_of_lists(untyped("a", "x"), untyped("b", "y")))
    assert "such as a /properties/x: the parameter x has no type" in text


def test_markdown_and_annotations_tell_a_kind_once(untyped, report_of_lists):
    report = report_of_lists(*(untyped(f"tool{n}", "x") for n in range(9)))
    assert to_markdown(report).count("#### ") == 1
    assert "9 parameters of 9 tools" in to_markdown(report)
    assert to_annotations(report).count("::error") == 1


def test_junit_has_a_case_for_each_check_and_tool(untyped, report_of_lists):
    xml = to_junit(report_of_lists(untyped("a", "x"), untyped("a", "y"), untyped("b", "x"))).decode()
    assert xml.count("<testcase") == 2
    assert "2 parameters of 1 tool" in xml


def test_a_report_of_10_000_findings_stays_short(untyped, report_of_lists):
    report = report_of_lists(*(untyped(f"tool{n // 5}", f"p{n}", kind=f"kind {n % 10}") for n in range(10_000)))
    text = to_text(report)
    assert len(text.splitlines()) < 300
    assert len(json.loads(to_json(report))["findings"]) == 10_000


def test_findings_without_a_kind_are_bounded_too(make, report_of):
    findings = [make.finding(tool=f"t{n}", message=f"number {n} of its own") for n in range(MAX_GROUPS + 50)]
    text = to_text(report_of(ran=[make.ran()], findings=findings))
    assert "… and 50 more findings, in report.json" in text
