"""The pytest plugin, in an inner pytest that is a process of its own, over servers that are real: ours."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

ALL = """
def test_all(mcp_harness):
    mcp_harness.call("echo", {"text": "hi"})
    mcp_harness.call("add", {"a": 1, "b": 2})
    mcp_harness.call("slow", {"seconds": 0})
    mcp_harness.call("fail", expect_error="on purpose")
    mcp_harness.confirmed("guarded", {"key": "k"})
    mcp_harness.call("ask", expect_error="cannot ask")
"""
EXEMPTIONS = """\
schema = 1
[good.exercised]
ask = "it needs a client that can be asked, and none of these tests has one"
fail = "it fails on purpose, whatever it is given"
"""
ECHO = """
def test_echo(mcp_harness):
    assert mcp_harness.call("echo", {"text": "hi"}).text == "hi"
"""


# --- where it is not used -------------------------------------------------------------------------


def test_where_it_is_not_used_it_imports_nothing_and_says_nothing(inner):
    """Ours: installed beside somebody's tests it costs its own import, and no more."""
    inner.write(plain="def test_plain():\n    assert True\n")
    command = [sys.executable, "-X", "importtime", "-m", "pytest", "-p", "mcp_rollcall", "-v"]
    done = subprocess.run(command, cwd=inner.root, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    ours = {name for name in imported if name.startswith("harness.")}
    assert ours <= {"harness.errors", "harness.pytest_plugin", "harness.pytest_state"}
    assert not imported & {"mcp", "docker", "anyio", "jsonschema", "tomlkit", "httpx2", "asyncio"}
    assert "rollcall" not in done.stdout.lower().replace("plugins: mcp-rollcall", "")
    assert not (inner.root / ".rollcall").exists()


def test_our_fixtures_and_options_are_documented_by_pytest_itself(inner):
    result = inner.run("--fixtures")
    for name in ("mcp_harness", "mcp_stack", "mcp_profile", "mcp_server_env", "mcp_answers", "mcp_start_server"):
        assert re.search(rf"^{name}\b.*\n +\S", result.stdout.str(), re.MULTILINE), name
    result = inner.run("--help")
    for name in ("project", "backend", "era", "profile", "scope", "stack", "gate", "strict", "runtime"):
        result.stdout.fnmatch_lines([f"*--mcp-{name}*"])
    result = inner.run("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.mcp(*"])


def test_without_a_project_the_test_says_what_to_write(inner):
    result = inner.write(echo=ECHO).run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no harness.toml at or above *", "hint: write one beside the server, or*"])
    assert "Traceback" not in result.stdout.str()


def test_a_broken_project_is_said_with_all_its_problems_and_their_lines(inner):
    inner.project(more='comand = "x"').write(echo=ECHO)
    result = inner.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*harness.toml:7 *comand: unknown key*"])


def test_an_ini_value_that_means_nothing_is_refused_at_once(inner):
    inner.pytester.makeini("[pytest]\nmcp_rollcall_gate = maybe\n")
    result = inner.write(plain="def test_plain(): pass\n").run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: mcp_rollcall_gate is 'maybe'; it can be auto, full, off"])


# --- the gate -------------------------------------------------------------------------------------


def test_the_gate_is_a_failed_test_with_the_whole_list(inner):
    result = inner.project().write(echo=ECHO).run("--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = inner.section(result)
    assert "1 of 6 tools exercised" in text
    assert "add, ask, fail, guarded, slow: exercised/missing" in text
    result.stdout.fnmatch_lines(["FAILED mcp-rollcall::gate - 1 of 6 tools exercised*"])
    case = next(item for item in ET.parse(inner.root / "junit.xml").iter("testcase") if item.get("name") == "gate")
    failure = case.find("failure")
    assert failure.get("message").startswith("1 of 6 tools exercised")
    assert "add, ask, fail, guarded, slow: exercised/missing" in failure.text


def test_a_whole_session_that_covers_all_is_clean_and_says_so(inner):
    inner.project().write(all=ALL)
    (inner.root / "exemptions.toml").write_text(EXEMPTIONS, encoding="utf-8")
    result = inner.run()
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert "clean — 4 of 6 tools exercised, 2 excused" in inner.section(result)


def test_an_exemption_that_is_not_true_fails_the_session(inner):
    inner.project().write(all=ALL)
    text = EXEMPTIONS + 'echo = "nobody knows how to call it in a test"\n'
    (inner.root / "exemptions.toml").write_text(text, encoding="utf-8")
    result = inner.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "exemption/false" in inner.section(result)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-k", "echo"], "1 test was deselected"),
        (["test_two.py::test_echo"], "only some of the tests were asked for"),
        (["--deselect", "test_two.py::test_add"], "1 test was deselected"),
        (["-m", "wanted"], "1 test was deselected"),
        (["-x", "test_two.py", "test_bad.py"], "the session was stopped early"),
        (["--ignore=nothing", "."], ""),
    ],
    ids=["k", "node-id", "deselect", "m", "x", "all"],
)
def test_what_is_absent_is_judged_only_where_all_tests_ran(inner, arguments, said):
    """DESIGN: absence is judged only where every planned run finished; the session says why it was not."""
    inner.project().write(
        two="""
import pytest
@pytest.mark.wanted
def test_echo(mcp_harness):
    mcp_harness.call("echo", {"text": "hi"})
def test_add(mcp_harness):
    mcp_harness.call("add", {"a": 1, "b": 2})
""",
    )
    if "-x" in arguments:
        inner.write(bad="def test_bad():\n    assert False\n")
    inner.pytester.makeini("[pytest]\nfilterwarnings = error\nmarkers = wanted\n")
    result = inner.run(*arguments)
    text = inner.section(result)
    assert ("exercised/missing" in text) == (not said)
    assert f"what is absent was not judged: {said}" in text or not said
    assert (result.ret == 0) == (bool(said) and "-x" not in arguments)


def test_what_was_seen_is_judged_in_a_filtered_session_too(inner):
    inner.project("noise", eras='["handshake"]').write(
        noise=ECHO.replace("test_echo", "test_one") + ECHO.replace("test_echo", "test_two"),
    )
    result = inner.run("-k", "one")
    result.assert_outcomes(passed=1, failed=1, deselected=1)
    assert "wire/stdout-not-json" in inner.section(result)
    assert "exercised/missing" not in inner.section(result)


def test_last_failed_is_a_selection_and_never_keeps_the_gate(inner):
    inner.project().write(
        two="""
def test_echo(mcp_harness):
    assert mcp_harness.call("echo", {"text": "hi"}).text == "HI"
def test_add(mcp_harness):
    mcp_harness.call("add", {"a": 1, "b": 2})
"""
    )
    result = inner.run()
    result.assert_outcomes(passed=1, failed=2)
    result = inner.run("--lf")
    result.assert_outcomes(failed=1)
    assert "what is absent was not judged: only tests that had failed were run" in inner.section(result)
    cache = json.loads((inner.root / ".pytest_cache/v/cache/lastfailed").read_text(encoding="utf-8"))
    assert list(cache) == ["test_two.py::test_echo"]


def test_a_file_that_cannot_be_collected_leaves_what_is_absent_unjudged(inner):
    inner.project().write(echo=ECHO, broken="import nothing_of_that_name\n")
    result = inner.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    assert "what is absent was not judged: 1 file could not be collected" in inner.section(result)


def test_the_gate_can_be_off_and_can_be_asked_for_in_full(inner):
    inner.project().write(echo=ECHO, plain="def test_plain():\n    pass\n")
    result = inner.run("--mcp-gate=off")
    result.assert_outcomes(passed=2)
    assert inner.section(result) == ""
    result = inner.run("--mcp-gate=full", "-k", "echo")
    result.assert_outcomes(passed=1, failed=1, deselected=1)
    assert "exercised/missing" in inner.section(result)
    result = inner.run("--mcp-gate=full", "-k", "plain")
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "nothing was run: that is not green"


def test_only_collecting_starts_and_judges_nothing(inner):
    result = inner.project(eras='["modern", "handshake"]').write(echo=ECHO).run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_echo.py::test_echo[[]modern[]]", "test_echo.py::test_echo[[]handshake[]]"])
    assert inner.section(result) == ""
    assert not (inner.root / ".rollcall" / "evidence").exists()


def test_suites_of_the_project_that_were_not_run_leave_what_is_absent_unjudged(inner):
    suite = 'schema = 2\nid = "s"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "add"\narguments = { a = 1, b = 2 }\n'
    (inner.root / "suite.toml").write_text(suite, encoding="utf-8")
    result = inner.project(more='[suites]\nfiles = ["suite.toml"]\n').write(echo=ECHO).run()
    result.assert_outcomes(passed=1)
    assert "the suites and commands of harness.toml were not run" in inner.section(result)


# --- runs -----------------------------------------------------------------------------------------


def test_a_test_runs_once_in_every_planned_run(inner):
    inner.project(eras='["modern", "handshake"]', more='[profiles.plain]\n[profiles.asking]\nelicit = "accept"')
    inner.write(
        runs="""
import pytest
def test_era(mcp_harness, mcp_era, mcp_profile, mcp_backend):
    assert mcp_harness.era == mcp_era
    assert mcp_backend == "none"
@pytest.mark.mcp(profiles=["asking"])
def test_asked(mcp_harness):
    assert "accept" in mcp_harness.call("ask").text
    assert [prompt.message for prompt in mcp_harness.prompts] == ["Really?"]
@pytest.mark.mcp(profiles="plain", eras="modern")
def test_not_asked(mcp_harness):
    mcp_harness.call("ask", expect_error="cannot ask this client")
"""
    )
    result = inner.run("-v")
    result.assert_outcomes(passed=7, failed=1)
    names = re.findall(r"::(\S+) PASSED", result.stdout.str())
    assert sorted(names) == [
        "test_asked[handshake-asking]",
        "test_asked[modern-asking]",
        "test_era[handshake-asking]",
        "test_era[handshake-plain]",
        "test_era[modern-asking]",
        "test_era[modern-plain]",
        "test_not_asked[modern-plain]",
    ]
    result = inner.run("-v", "--mcp-era=handshake", "--mcp-profile=plain")
    result.assert_outcomes(passed=1, skipped=2)
    assert "::test_era[handshake-plain] PASSED" in result.stdout.str(), "names do not depend on the selection"
    assert "exercised/missing" not in inner.section(result)


def test_a_selection_or_mark_of_something_that_is_not_there_is_an_error_with_what_is(inner):
    inner.project().write(echo=ECHO)
    result = inner.run("--mcp-profile=palin")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no profile 'palin'*", "*did you mean 'plain'*"])
    inner.write(echo="import pytest\n@pytest.mark.mcp(profiles=['palin'])" + ECHO)
    result = inner.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no 'palin'; known: plain*"])


def test_an_era_that_the_server_does_not_speak_is_skipped_with_its_words_and_is_no_finding(inner):
    text = inner.root / "harness.toml"
    inner.project("naive", name="old")
    text.write_text(text.read_text(encoding="utf-8").replace('eras = ["modern"]\n', ""), encoding="utf-8")
    inner.write(
        tools="def test_tools(mcp_harness):\n    for tool in mcp_harness.tools():\n        assert tool['name']\n"
    )
    result = inner.run("-rs")
    assert result.parseoutcomes().get("skipped") == 1
    result.stdout.fnmatch_lines(["SKIPPED*old does not speak the modern era*"])
    assert "exercised/missing" in inner.section(result)
    assert "not-spoken" not in inner.section(result)


# --- evidence -------------------------------------------------------------------------------------


def test_a_whole_session_is_evidence_for_judge_and_a_filtered_one_never_takes_its_place(inner):
    inner.project(more='[suites]\npytest = ["test_all.py"]').write(all=ALL)
    (inner.root / "exemptions.toml").write_text(EXEMPTIONS, encoding="utf-8")
    assert inner.run().ret == 0
    folder = inner.root / ".rollcall/evidence/good/none/modern/plain"
    (whole,) = folder.iterdir()
    for _ in range(2):
        assert inner.run("test_all.py::test_all").ret == 0
    assert len(list(folder.iterdir())) == 3
    plans = [json.loads((path / "run.json").read_text(encoding="utf-8"))["plan"] for path in sorted(folder.iterdir())]
    assert plans[0]
    assert plans[1:] == ["", ""]
    command = [sys.executable, "-P", "-m", "harness", "judge", "--format=json", "--runtime=process"]
    done = subprocess.run(command, cwd=inner.root, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (0, "clean"), done.stdout + done.stderr
    assert whole.is_dir()
