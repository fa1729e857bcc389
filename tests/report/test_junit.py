"""report.xml as its readers want it."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.finding import HarnessFailure
from harness.report.json import to_json
from harness.report.junit import MESSAGE_BYTES, to_junit


def parsed(report):
    """The root, after checking what every file has to hold."""
    data = to_junit(report)
    root = ET.fromstring(data)  # expat takes nothing that XML 1.0 forbids
    cases = list(root.iter("testcase"))
    names = [(case.get("classname"), case.get("name")) for case in cases]
    assert len(set(names)) == len(names)
    counts = json.loads(to_json(report))["counts"]
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(attribute)) == len(list(root.iter(tag))) == counts[attribute]
        for suite in root.iter("testsuite"):
            assert int(suite.get(attribute)) == len(list(suite.iter(tag)))
    assert int(root.get("tests")) == len(cases) == counts["tests"]
    for suite in root.iter("testsuite"):
        assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
    assert not [element for element in root.iter() if "time" in element.attrib]
    for element in root.iter():
        message = element.get("message", "")
        assert len(message.splitlines()) <= 1
        assert len(message.encode()) <= MESSAGE_BYTES
    return root


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_report_parses_with_unique_names_and_true_counts(any_report, data):
    parsed(data.draw(any_report))


def test_samples_count(samples):
    root = parsed(samples["findings"])
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("11", "6", "1")


def test_a_failed_case_shows_its_finding_and_is_not_counted_twice(findings):
    root = parsed(findings)
    (case,) = root.findall(".//testcase[@name='expire']")
    failure = case.find("failure")
    assert failure.get("type") == "suite/step-failed"
    assert "rerun" in failure.text
    assert not root.findall(".//testcase[@name='suite/step-failed: get']")


def test_illegal_characters_become_visible(make, report_of):
    report = report_of(
        ran=[make.ran()],
        findings=[make.finding(message="\x1b[31mred\x1b[0m\x00\ufffe]]>", evidence={"stderr": "\x1b[31m\r\nx"})],
    )
    failure = next(parsed(report).iter("failure"))
    assert failure.get("message") == "\\x1b[31mred\\x1b[0m\\x00\\ufffe]]>"
    assert "\\x1b[31m" in failure.text


def test_warnings_are_output_and_no_failure(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding("process/late-exit", "warning")])
    root = parsed(report)
    assert root.get("failures") == "0"
    assert "process/late-exit" in root.find(".//system-out").text


def test_with_strict_warnings_fail_here_too(make, report_of):
    report = report_of(ran=[make.ran()], findings=[make.finding(severity="warning")], strict=True)
    assert parsed(report).get("failures") == "1"


@pytest.mark.parametrize("kind", ["build", "stack", "server"])
def test_a_failed_set_up_is_an_error_and_never_an_empty_file(report_of, kind):
    error = HarnessFailure(kind=kind, code=4, server="redis-mcp", message="did not work", log="last words")
    root = parsed(report_of(errors=[error]))
    assert (root.get("errors"), root.get("tests")) == ("1", "1")
    assert "last words" in next(root.iter("error")).text


def test_the_name_of_an_error_is_its_first_line_and_the_body_has_all_of_it(report_of):
    message = "\n\nthe image did not build\n#5 ERROR: exit code 1\n" + "x" * 5_000
    error = HarnessFailure(kind="stack", code=5, server="redis-mcp", message=message)
    root = parsed(report_of(errors=[error, HarnessFailure(kind="build", code=4, server="", message="y" * 5_000)]))
    names = [case.get("name") for case in root.iter("testcase")]
    assert "stack: the image did not build" in names
    assert max(map(len, names)) <= 256
    assert {"\n" in name for name in names} == {False}
    assert any(message.strip() in item.text for item in root.iter("error"))


def test_a_case_that_could_not_be_judged_is_an_error_not_a_pass(make, report_of):
    case = make.case(status="not-judged", message="keys/set-and-get, step 1: not judged: more than 200000 steps")
    root = parsed(report_of(ran=[make.ran()], cases=[case]))
    assert (root.get("errors"), root.get("failures"), root.get("skipped")) == ("1", "0", "0")
    assert root.find(".//error").get("type") == "not-judged"


def test_nothing_run_is_an_error(report_of):
    assert parsed(report_of()).get("errors") == "1"


def test_names_are_told_apart_on_every_axis(make, report_of):
    cases = [
        make.case(backend=backend, era=era, profile=profile, suite=suite)
        for backend in ("redis@7", "redis@8")
        for era in ("handshake", "modern")
        for profile in ("plain", "asking")
        for suite in ("keys", "hash")
    ]
    cases += [make.case("a/b", suite="c"), make.case("b", suite="c/a"), make.case("b", suite="c%2Fa")]
    three = [make.finding(tool="get", message=f"number {number}") for number in range(3)]
    root = parsed(report_of(ran=[make.ran()], cases=cases, findings=three))
    assert root.get("tests") == "20"


def test_two_shards_of_one_run_never_share_a_name(make, report_of):
    names = []
    for backend in ("redis@7", "redis@8"):
        report = report_of(
            ran=[make.ran(backend=backend)], cases=[make.case(backend=backend)], findings=[make.finding(tool="get")]
        )
        names += [(case.get("classname"), case.get("name")) for case in parsed(report).iter("testcase")]
    assert len(set(names)) == len(names) == 4


def test_the_file_stays_small_however_much_fails(make, report_of):
    huge = "ä\x1b<" * 1_000_000
    cases = [make.case(f"case-{number}", "failed", message=f"<{number}" * 4_000) for number in range(3_000)]
    cases.append(make.case("huge", "failed", message=huge))
    findings = [make.finding(tool="get", message="x", evidence={"stderr": huge, "n": n}) for n in range(3)]
    report = report_of(ran=[make.ran()], cases=cases, findings=findings)
    assert len(to_junit(report)) < 30_000_000
    failure = parsed(report).find(".//testcase[@name='huge']/failure")
    assert "of 4,000,000 bytes; all of it in report.json" in failure.text


def test_very_many_groups_of_findings_are_gathered_by_check(make, report_of):
    findings = [make.finding(tool=f"tool-{number}") for number in range(6_000)]
    report = report_of(ran=[make.ran()], findings=findings)
    root = parsed(report)
    assert root.get("tests") == "1"
    assert "(and 5999 more)" in next(root.iter("failure")).get("message")


def test_the_same_report_gives_the_same_bytes(findings):
    assert to_junit(findings) == to_junit(dataclasses.replace(findings))
