"""SARIF: valid by the format and by what code scanning takes; places relative to the root; stable fingerprints."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.checks import CHECKS
from harness.model.finding import Listed
from harness.model.plan import Place
from harness.report.sarif import MAX_RESULTS, ROOT, to_sarif


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((Path(__file__).parent / "sarif.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def sarif(validator, make, report_of):
    def of(*findings, base="", places=None, **more):
        more.setdefault("listed", [Listed(server="redis-mcp", source="tools.json", tools=1)])
        log = json.loads(to_sarif(report_of(findings=list(findings), **more), base=base, places=places))
        validator.validate(log)
        return log["runs"][0]

    return of


def uri(result):
    return result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


@pytest.mark.parametrize("name", ["clean", "findings", "failed"])
def test_samples_are_valid(samples, validator, name):
    validator.validate(json.loads(to_sarif(samples[name])))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_report_is_valid_and_encodable(any_report, validator, data):
    report = data.draw(any_report)
    text = to_sarif(report, base="sub/folder", places={"a": Place(file="harness.toml", line=2)})
    log = json.loads(text.encode("utf-8"))
    validator.validate(log)
    run = log["runs"][0]
    assert len(run["results"]) == len(report.judgement.findings)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_every_check_makes_a_valid_rule(sarif, make):
    run = sarif(*(make.finding(check=check, severity=spec.severity) for check, spec in CHECKS.items()))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(CHECKS)
    for rule in rules:
        assert rule["defaultConfiguration"]["level"] == CHECKS[rule["id"]].severity
        assert ("helpUri" in rule) == CHECKS[rule["id"]].source.startswith("MCP "), rule["id"]


def test_a_finding_with_a_file_stands_at_its_line(sarif, make):
    run = sarif(make.finding(file="exemptions.toml", line=7))
    physical = run["results"][0]["locations"][0]["physicalLocation"]
    assert physical == {
        "artifactLocation": {"uri": "exemptions.toml", "uriBaseId": ROOT},
        "region": {"startLine": 7},
    }
    assert "uri" not in run["originalUriBaseIds"][ROOT]  # it would be absolute


def test_a_finding_without_a_file_stands_at_the_server(sarif, make):
    places = {"redis-mcp": Place(file="examples/redis/harness.toml", line=3)}
    result = sarif(make.finding(tool="set", pointer="/properties/x"), places=places)["results"][0]
    assert uri(result) == "examples/redis/harness.toml"
    assert result["locations"][0]["logicalLocations"] == [
        {"name": "set", "fullyQualifiedName": "redis-mcp/set/properties/x"}
    ]


@pytest.mark.parametrize("line", [None, 0, -1])
def test_no_line_is_no_region(sarif, make, line):
    result = sarif(make.finding(file="exemptions.toml", line=line))["results"][0]
    assert "region" not in result["locations"][0]["physicalLocation"]


@pytest.mark.parametrize(
    ("base", "file", "expected"),
    [
        ("", "suites/a b#1%.toml", "suites/a%20b%231%25.toml"),
        ("my project/ünï", "harness.toml", "my%20project/%C3%BCn%C3%AF/harness.toml"),
        ("sub", "../exemptions.toml", "exemptions.toml"),
        ("sub", "./x/../y.toml", "sub/y.toml"),
        ("", "a\\b.toml", "a/b.toml"),
    ],
)
def test_a_place_is_relative_to_the_root_and_encoded(sarif, make, base, file, expected):
    result = sarif(make.finding(file=file, line=1), base=base)["results"][0]
    assert uri(result) == expected
    assert "\\" not in unquote(uri(result))


@pytest.mark.parametrize("file", ["/etc/passwd", "../outside.toml", "C:\\x.toml", "--checks", "."])
def test_what_is_outside_of_the_repository_has_no_place(sarif, make, file):
    assert "locations" not in sarif(make.finding(file=file, line=1))["results"][0]


def test_a_fingerprint_outlives_lines_words_and_other_findings(sarif, make):
    def prints(*findings):
        return {
            result["properties"]["tool"]: result["partialFingerprints"]["primaryLocationLineHash"]
            for result in sarif(*findings)["results"]
        }

    first = make.finding(tool="get", file="tools.json", line=3, evidence={"kind": "no type"})
    moved = replace(first, line=90, message="Said in other words.")
    other = make.finding(tool="set", file="tools.json", line=3, evidence={"kind": "no type"})
    assert prints(first)["get"] == prints(moved, other)["get"]
    assert prints(first)["get"] != prints(other)["set"]


def test_errors_stand_before_warnings(sarif, make):
    run = sarif(make.finding(tool="a", severity="warning"), make.finding(tool="b"))
    assert [result["level"] for result in run["results"]] == ["error", "warning"]


def test_what_kept_the_harness_from_its_job_is_a_notification(sarif, make):
    run = sarif(errors=[make.failure(kind="stack", code=5, message="no engine\nat all", hint="start it")])
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["exitCode"] == 5
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error"
    assert "start it" in notification["message"]["text"]


def test_nothing_run_is_a_notification_too(validator, report_of):
    run = json.loads(to_sarif(report_of()))["runs"][0]
    assert run["invocations"][0]["toolExecutionNotifications"]
    assert run["invocations"][0]["exitCode"] == 3


def test_30_000_findings_are_grouped_and_small(sarif, make):
    findings = [
        make.finding(
            check="output-schema/missing",
            severity="error" if number % 2 else "warning",
            tool=f"tool-{tool}",
            pointer=f"/properties/p{number}",
            message=f"tool-{tool} has a parameter p{number} without a type",
            evidence={"kind": f"kind {number}", "schema": "inputSchema"},
        )
        for tool in range(2_000)
        for number in range(15)
    ]
    run = sarif(*findings)
    assert len(run["results"]) == 15
    assert sum(result["properties"]["count"] for result in run["results"]) == 30_000
    assert "2,000 parameters of 2,000 tools" in run["results"][0]["message"]["text"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"].startswith("30,000 findings are more than 5,000 results")
    assert len(gzip.compress(json.dumps(run).encode())) < 10_000_000


def test_more_than_fits_is_counted(sarif, make):
    run = sarif(*(make.finding(tool=f"t{n}", message=f"number {n} of its own") for n in range(MAX_RESULTS + 7)))
    assert len(run["results"]) == MAX_RESULTS
    assert "7 more findings" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_a_long_message_is_cut_and_control_characters_are_shown(sarif, make):
    text = sarif(make.finding(message="\x1b[31m" + "ü" * 100_000))["results"][0]["message"]["text"]
    assert "\x1b" not in text
    assert len(text.encode()) < 2_200
