"""Test commands in every form of the report."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from harness.model.finding import CommandResult
from harness.report.json import from_json, to_json
from harness.report.junit import to_junit
from harness.report.markdown import to_markdown
from harness.report.text import to_text


def command(name, outcome="passed", **more):
    axes = {"server": "redis-mcp", "backend": "redis@8", "era": "modern", "profile": "plain"}
    return CommandResult(**{**axes, "command": name, "outcome": outcome, "file": "harness.toml", "line": 9, **more})


def test_each_command_is_a_line_with_its_exit_code_and_what_it_recorded(make, report_of):
    report = report_of(
        ran=[make.ran(era="modern")],
        commands=[command("vitest", exit=0, transcripts=1), command("go test", "timed-out", transcripts=3)],
    )
    text = to_text(report)
    assert "Commands: 2\n" in text
    assert "  go test (redis-mcp redis@8 modern plain) — timed-out, 3 servers recorded\n" in text
    assert "  vitest (redis-mcp redis@8 modern plain) — passed, exit code 0, 1 server recorded\n" in text
    assert "| `vitest` | `redis-mcp` | `redis@8` | modern | `plain` | passed | 0 | 1 |" in to_markdown(report)


def test_a_command_is_one_test_of_the_junit_file_with_its_output(make, report_of):
    failed = make.finding(
        check="suite/command-failed", message="the command 'npm test' ended", evidence={"command": "npm test"}
    )
    report = report_of(
        ran=[make.ran(era="modern")],
        findings=[failed],
        commands=[command("vitest", exit=0, output="2 passed"), command("npm test", "failed", exit=1, output="boom")],
    )
    suites = ET.fromstring(to_junit(report))
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    assert cases["vitest"].get("classname") == "redis-mcp/redis@8/modern/plain/commands"
    assert "2 passed" in cases["vitest"].findtext("system-out", "")
    assert "boom" in cases["npm test"].findtext("failure", "")
    assert json.loads(to_json(report))["counts"]["tests"] == 2


def test_a_command_that_passed_and_proved_nothing_is_a_failure(make, report_of):
    idle = make.finding(check="suite/command-recorded-nothing", evidence={"command": "vitest"})
    report = report_of(ran=[make.ran()], findings=[idle], commands=[command("vitest", exit=0)])
    assert ET.fromstring(to_junit(report)).get("failures") == "1"


def test_reports_of_earlier_versions_have_no_commands(make, report_of):
    data = json.loads(to_json(report_of(ran=[make.ran()])))
    del data["commands"]
    assert from_json(json.dumps(data)).judgement.commands == ()
