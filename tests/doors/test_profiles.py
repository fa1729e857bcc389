"""Profiles as a user has them: processes of their own, one union of coverage, and contradictions in the open."""

import json

import pytest

HARNESS = """schema = 1
[server]
name = "notes"
command = ["python3", "servers/reads_env.py"]
eras = ["handshake"]
[profiles.plain]
[profiles.asking]
elicit = "accept"
[profiles.read-only]
env = { MODE = "read-only" }
[profiles.second-account]
env = { ACCOUNT = "second" }
[suites]
files = ["suite.toml"]
[checks]
client = "off"
"""
SUITE = """schema = 2
id = "notes"
[[case]]
id = "writes"
profiles = ["plain"]
step = [{ call = "write", arguments = { note = "a" } }, { call = "notes", expect = { text_equals = "first: a" } }]
[[case]]
id = "cannot-write"
profiles = ["read-only"]
[[case.step]]
call = "write"
arguments = { note = "a" }
unlisted = true
expect = { code = -32602, text_contains = "Unknown" }
[[case]]
id = "shares"
profiles = ["second-account"]
step = [{ call = "share" }, { call = "notes", expect = { text_equals = "" } }]
"""
WHO = """[[case]]
id = "who"
profiles = ["plain", "asking", "second-account"]
step = [{ call = "whoami", expect = { text_equals = "first read-write" } }]
"""


@pytest.fixture
def notes(project):
    return project.with_servers().write({"harness.toml": HARNESS, "suite.toml": SUITE})


def test_tools_that_only_some_profiles_list_or_call_count_together(notes):
    done = notes.run("integration")
    (cell,) = done.report["coverage"]
    assert {item["tool"]: item["fate"] for item in cell["fates"]} == {
        "notes": "succeeded",
        "share": "succeeded",
        "whoami": "missing",
        "write": "succeeded",
    }
    assert [item["check"] for item in done.report["findings"]] == ["exercised/missing"]
    assert [item["profile"] for item in done.report["ran"]] == ["asking", "plain", "read-only", "second-account"]


def test_a_case_that_holds_with_one_profile_and_not_with_another_says_so(notes):
    done = notes.write({"suite.toml": SUITE + WHO}).run("integration")
    (found,) = done.report["findings"]
    assert found["check"] == "suite/step-failed"
    assert found["message"].endswith("; with the profiles plain, asking the same case holds")
    assert found["evidence"]["holds_with"] == ["plain", "asking"]
    assert "got 'second read-write'" in found["message"]
    assert found["evidence"]["runs"] == ["notes none handshake second-account"]


def test_a_run_of_some_profiles_is_judged_in_part(notes):
    done = notes.run("integration", "--profile", "read-only")
    assert (done.report["verdict"], done.code) == ("partial", 0)
    assert done.report["findings"] == []


ASKING = """schema = 1
[server]
name = "asks"
command = ["python3", "servers/asks.py"]
eras = ["modern"]
[profiles.asking]
[[profiles.asking.answers]]
tool = "confirm"
content = { confirm = true }
[suites]
files = ["suite.toml"]
[checks]
client = "off"
exercised = "attempted"
"""
CONFIRMS = """schema = 2
id = "asks"
[[case]]
id = "confirms"
step = [{ call = "confirm", expect = { prompts = ["Sure?"] } }]
"""


def test_what_was_asked_and_answered_is_shown_with_its_call(project):
    project.with_servers().write({"harness.toml": ASKING, "suite.toml": CONFIRMS})
    assert [case["status"] for case in project.run("integration").report["cases"]] == ["passed"]
    shown = project.run("evidence", "show").stdout
    assert "tools/call confirm asks for elicitation/create form 'Sure?' → " in shown
    assert "(by answers[0])" in shown
    (found,) = json.loads(project.run("evidence", "show", "--format", "json").stdout)["transcripts"]
    (prompt,) = found["prompts"]
    assert (prompt["case"], prompt["message"], prompt["by"]) == ("asks/confirms", "Sure?", "answers[0]")
    assert prompt["answer"] == {"result": {"action": "accept", "content": {"confirm": True}}}
