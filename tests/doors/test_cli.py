"""The command line, end to end, as a user runs it: real processes, real servers. DESIGN §4, §6, §7."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


def edit(project, name, old, new):
    path = project.root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def checks(report):
    return [finding["check"] for finding in report["findings"]]


def test_a_good_server_is_clean_in_both_eras(good):
    done = good.run("integration")
    assert done.code == 0, done.stdout + done.stderr
    assert done.report["verdict"] == "clean"
    assert {(run["era"], run["profile"]) for run in done.report["ran"]} == {
        (era, profile) for era in ("modern", "handshake") for profile in ("plain", "asking")
    }
    (cell,) = done.report["coverage"]
    counts = [cell[key] for key in ("tools", "succeeded", "refused_only", "failed_only", "excused", "missing")]
    assert counts == [6, 5, 0, 0, 1, 0]
    assert "5 of 6" in done.stdout
    assert "1 excused" in done.stdout
    assert done.report["excused"][0]["subject"] == "fail"


def test_judging_again_gives_the_same_bytes_without_the_server(good):
    first = good.run("integration", "--today", "2026-12-01")
    written = (good.root / ".rollcall/report.json").read_bytes()
    (good.root / "servers/good.py").unlink()
    again = good.run("judge", "--today", "2026-12-01")
    assert again.code == 0
    assert (good.root / ".rollcall/report.json").read_bytes() == written
    assert first.stdout == again.stdout


def test_sarif_is_a_report_of_every_command_that_judges(good):
    """A finding of the exemption file stands at its line, one of the server at [server]; paths are the repository's."""
    (good.root / ".git").mkdir()
    (good.root / "sub").mkdir()
    edit(good, "exemptions.toml", "[good.exercised]", '[good.exercised]\ngone = "this tool was removed long ago"')
    edit(good, "suites/all.toml", 'call = "echo"', 'call = "add"')
    done = good.run("integration", "--project", "..", "--format", "sarif", "--out", "one.sarif", cwd="sub")
    assert done.code == 1, done.stdout + done.stderr
    log = json.loads(done.stdout)
    assert json.loads((good.root / ".rollcall/report.sarif").read_text(encoding="utf-8")) == log
    assert json.loads((good.root / "sub/one.sarif").read_text(encoding="utf-8")) == log
    places = {}
    for result in log["runs"][0]["results"]:
        physical = result["locations"][0]["physicalLocation"]
        places[result["ruleId"]] = physical["artifactLocation"]["uri"], physical["region"]["startLine"]
    assert places["exemption/stale"] == ("exemptions.toml", 3)
    assert places["exercised/missing"] == ("harness.toml", 2)
    assert str(good.root) not in done.stdout
    again = good.run("exemptions", "--format", "sarif", "--out", "e.sarif")
    assert json.loads((good.root / "e.sarif").read_text(encoding="utf-8")) == json.loads(again.stdout)
    assert {result["ruleId"] for result in json.loads(again.stdout)["runs"][0]["results"]} == {"exemption/stale"}


def test_the_report_knows_no_absolute_path_pid_or_duration(good):
    good.run("integration")
    text = (good.root / ".rollcall/report.json").read_text(encoding="utf-8")
    assert str(good.root) not in text
    assert '"pid"' not in text


def test_a_tool_that_no_call_reached_is_missing(good):
    edit(good, "suites/all.toml", 'call = "echo"', 'call = "add"')
    done = good.run("integration")
    assert done.code == 1
    assert "exercised/missing" in checks(done.report)
    assert {finding["tool"] for finding in done.report["findings"]} >= {"echo"}


def test_an_exemption_for_a_tool_that_answered_is_false(good):
    edit(good, "exemptions.toml", "[good.exercised]", '[good.exercised]\necho = "nobody could ever call this one"')
    done = good.run("integration")
    assert done.code == 1
    (finding,) = [item for item in done.report["findings"] if item["check"] == "exemption/false"]
    assert (finding["file"], finding["line"]) == ("exemptions.toml", 3)


def test_stale_malformed_and_false_are_reported_together(good):
    more = 'gone = "this tool was removed long ago"\nfail2 = "todo"\necho = "nobody could ever call this one"'
    edit(good, "exemptions.toml", "[good.exercised]", f"[good.exercised]\n{more}")
    report = good.run("integration").report
    assert {"exemption/stale", "exemption/malformed", "exemption/false"} <= set(checks(report))


def test_only_exemptions_changed_means_only_judging_again(good):
    good.run("integration")
    edit(good, "exemptions.toml", "fail =", "# fail =")
    done = good.run("judge")
    assert done.code == 1
    assert checks(done.report) == ["exercised/refused-only"]


def test_recording_and_judging_apart_is_the_same_as_both_at_once(good):
    whole = good.run("integration", "--today", "2026-12-01")
    written = (good.root / ".rollcall/report.json").read_bytes()
    for era in ("modern", "handshake"):
        for profile in ("plain", "asking"):
            done = good.run("run", "--era", era, "--profile", profile, "--evidence", "elsewhere")
            assert done.code == 0, done.stderr
    judged = good.run("judge", "--today", "2026-12-01", "--evidence", "elsewhere")
    assert judged.code == whole.code == 0
    assert (good.root / ".rollcall/report.json").read_bytes() == written


def test_a_lost_run_is_not_judged_and_not_green(good):
    good.run("run", "--era", "modern")
    done = good.run("judge")
    assert done.report["verdict"] != "clean"
    assert any("handshake" in item["why"] for item in done.report["not_judged"])


def test_deselection_is_partial_and_complete_can_be_required(good):
    done = good.run("integration", "-k", "adds")
    assert done.code == 0
    assert done.report["verdict"] == "partial"
    assert done.stdout.splitlines()[0].startswith("mcp-rollcall: partial")
    assert not checks(done.report)
    assert good.run("judge", "-k", "adds", "--require-complete").code == 3


def test_nothing_selected_is_exit_3(good):
    assert good.run("integration", "-k", "no-such-case").code == 3


def test_nothing_recorded_is_not_green(good):
    done = good.run("judge")
    assert done.code == 3
    assert done.report["verdict"] == "nothing-run"


def test_a_repository_without_suites_is_exit_3(good):
    edit(good, "harness.toml", '[suites]\nfiles = ["suites/*.toml"]', "")
    done = good.run("integration")
    assert done.code == 3
    assert "nothing to run" in done.stdout + done.stderr


def test_a_broken_file_is_exit_2_with_file_and_line(good):
    edit(good, "harness.toml", "command", "comand")
    done = good.run("integration")
    assert done.code == 2
    assert "harness.toml:4" in done.stdout + done.stderr
    assert "did you mean 'command'?" in done.stdout + done.stderr
    assert done.report["errors"][0]["kind"] == "config"


def test_a_server_that_cannot_start_is_exit_6_with_its_last_words(good):
    edit(good, "harness.toml", "good.py", "dies_at_start.py")
    done = good.run("integration")
    assert done.code == 6
    assert done.report["verdict"] == "error"
    error = done.report["errors"][0]
    assert error["kind"] == "server"
    assert error["log"]


def test_a_build_that_fails_is_exit_4_and_in_every_report(good):
    edit(
        good, "harness.toml", "[profiles.plain]", 'build = [["sh", "-c", "echo the reason; exit 9"]]\n[profiles.plain]'
    )
    done = good.run("integration")
    assert done.code == 4
    assert "the reason" in done.stdout
    for name in ("report.xml", "report.md"):
        assert "exit code 9" in (good.root / ".rollcall" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["text", "json", "junit", "markdown", "sarif"])
def test_stdout_is_one_document_and_nothing_else(good, name):
    done = good.run("integration", "--format", name)
    assert done.code == 0
    assert "\x1b" not in done.stdout
    if name == "json":
        assert json.loads(done.stdout)["verdict"] == "clean"
    if name == "junit":
        assert done.stdout.startswith("<?xml")


def test_the_caller_s_environment_does_not_reach_the_server(good):
    edit(good, "harness.toml", "good.py", "shows_environment.py")
    suite = 'schema = 2\nid = "env"\n[[case]]\nid = "c"\n'
    for call in ("names", "cwd"):
        suite += f'[[case.step]]\ncall = "{call}"\nexpect = {{ text_matches = "PATH|/" }}\n'
    (good.root / "suites/all.toml").write_text(suite)
    edit(good, "exemptions.toml", EXEMPTION, "")
    done = good.run("integration", env={"MCPTEST_CANARY_SECRET": "tweet"})
    evidence = b"".join(path.read_bytes() for path in (good.root / ".rollcall/evidence").rglob("*.jsonl"))
    assert b"PATH" in evidence, done.stdout
    assert b"MCPTEST_CANARY_SECRET" not in evidence


EXEMPTION = '[good.exercised]\nfail = "it fails on purpose, whatever it is given"\n'


def test_a_database_that_this_run_did_not_start_is_refused(good):
    """The guard: an error, never a skip, and nothing is started."""
    edit(
        good,
        "harness.toml",
        "[profiles.plain]",
        'env = { DATABASE_URL = "postgres://127.0.0.1:5432/prod" }\n[profiles.plain]',
    )
    done = good.run("integration")
    assert done.code == 2
    assert "harness.toml:5 [server.env] DATABASE_URL: " in done.stdout
    assert not list((good.root / ".rollcall/evidence").rglob("server-*.jsonl"))


def test_the_rerun_line_of_a_finding_works_when_pasted(good):
    edit(good, "suites/all.toml", 'text_equals = "4"', 'text_equals = "5"')
    report = good.run("integration").report
    (line,) = {item["rerun"] for item in report["findings"] if item["check"] == "suite/step-failed"}
    words = shlex.split(line)
    assert words[0] == "mcp-rollcall"
    again = good.run(*words[1:])
    assert again.code == 1
    assert "suite/step-failed" in checks(again.report)


def test_a_pipe_that_closes_early_is_no_traceback(good):
    """U056."""
    script = f"{shlex.quote(sys.executable)} -P -m harness integration | head -1; echo ${{PIPESTATUS[0]}}"
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(["bash", "-c", script], cwd=good.root, env=env, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == "0"
    assert (good.root / ".rollcall/report.json").exists()


def test_help_names_every_exit_code():
    done = subprocess.run([sys.executable, "-m", "harness", "--help"], capture_output=True, text=True, check=True)
    for code in ("0 clean", "1 findings", "2 configuration", "3 nothing", "4 build", "5 stack", "6 server", "130"):
        assert code in done.stdout


def test_a_lowered_family_is_listed_in_the_report(good):
    edit(good, "harness.toml", "[checks]", '[checks]\nprocess = "warning"')
    report = good.run("integration").report
    assert [(item["family"], item["to"]) for item in report["lowered"]] == [("client", "off"), ("process", "warning")]


def test_secrets_of_the_caller_that_are_passed_on_are_masked_everywhere(good):
    edit(good, "harness.toml", "[profiles.plain]", 'env = { API_TOKEN = "${env.CANARY}" }\n[profiles.plain]')
    edit(good, "harness.toml", "good.py", "shows_environment.py")
    done = good.run("integration", env={"CANARY": "tweet-tweet-tweet"})
    written = b"".join(path.read_bytes() for path in (good.root / ".rollcall").rglob("*") if path.is_file())
    assert b"tweet-tweet-tweet" not in written + done.stdout.encode() + done.stderr.encode()


def test_an_old_report_never_stands_for_a_run_that_failed(good):
    """A green report.json left from yesterday would be read as today's."""
    assert good.run("integration").code == 0
    elsewhere = good.root / "elsewhere"
    elsewhere.mkdir()
    edit(good, "harness.toml", "command", "comand")
    (good.root / ".rollcall/kept").touch()
    command = [sys.executable, "-P", "-m", "harness", "integration", "--project", str(good.root)]
    done = subprocess.run(command, cwd=elsewhere, env=good.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert json.loads((good.root / ".rollcall/report.json").read_text())["exit"] == 2
    assert (good.root / ".rollcall/kept").exists()


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_closed_and_full_outputs_do_not_change_the_verdict(good, redirect):
    """U056."""
    script = f"{shlex.quote(sys.executable)} -P -m harness integration {redirect}; echo $? > code"
    env = {**good.environment(), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(["bash", "-c", script], cwd=good.root, env=env, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert (good.root / "code").read_text().strip() == "0"
    assert json.loads((good.root / ".rollcall/report.json").read_text())["verdict"] == "clean"


def test_an_error_of_a_run_stands_in_the_report_once(good):
    edit(good, "harness.toml", "good.py", "dies_at_start.py")
    edit(good, "harness.toml", "[profiles.plain]", 'eras = ["handshake"]\n[profiles.plain]')
    assert len(good.run("integration").report["errors"]) == 1


def test_state_that_cannot_be_written_is_said_before_anything_starts(good):
    """U074."""
    (good.root / ".rollcall").write_text("in the way")
    done = good.run("integration", "--out", "reports")
    assert done.code == 2
    assert "--state" in done.stdout
    assert good.run("integration", "--state", "elsewhere", "--out", "reports").code == 0


def test_the_warning_of_a_build_explains_the_server_that_does_not_start(good):
    """U066."""
    edit(good, "harness.toml", "good.py", "dies_at_start.py")
    build = 'build = [["sh", "-c", "echo npm warn EBADENGINE Unsupported engine"]]'
    edit(good, "harness.toml", "[profiles.plain]", f"{build}\n[profiles.plain]")
    done = good.run("integration")
    assert done.code == 6
    assert any("EBADENGINE" in error["log"] for error in done.report["errors"])
    (good.root / "package.json").write_text('{"engines": {"node": ">=99"}}')
    assert "too old" in good.run("doctor").stdout


def test_a_selection_after_a_red_run_does_not_make_it_green(good):
    """The whole attempt counts for `judge`, and a command judges what it recorded itself."""
    edit(good, "suites/all.toml", 'text_equals = "4"', 'text_equals = "5"')
    assert good.run("integration").code == 1
    assert good.run("integration", "-k", "echoes").code == 0
    assert good.run("judge").code == 1


def test_only_part_of_the_evidence_is_never_green_for_the_whole(good):
    assert good.run("integration", "-k", "echoes").code == 0
    done = good.run("judge")
    assert done.code == 3
    assert done.report["verdict"] == "partial"


def test_the_official_client_is_asked_once_for_each_era(good):
    edit(good, "harness.toml", 'client = "off"', "")
    done = good.run("integration", "--strict")
    assert done.code == 0, done.stdout + done.stderr
    assert done.stderr.count("official client") == 2
    found = (good.root / ".rollcall").glob("evidence/*/*/*/*/*/client-1.jsonl")
    assert sorted(path.parts[-4] for path in found) == ["handshake", "modern"]


def test_a_family_that_is_off_costs_nothing(good):
    done = good.run("integration", "--strict", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.code == 0, done.stdout
    assert "harness.engine.run" in done.stderr
    assert "mcp.client" not in done.stderr
    assert "official client" not in done.stderr
    assert not list((good.root / ".rollcall").glob("evidence/*/*/*/*/*/client-1.jsonl"))


def test_a_tool_that_the_official_client_leaves_out_fails_the_run(good):
    edit(good, "harness.toml", 'client = "off"', "")
    edit(good, "harness.toml", "good.py", "bad_header.py")
    for name in good.root.glob("suites/*.toml"):
        name.unlink()
    good.write(
        {
            "suites/one.toml": 'schema = 2\nid = "one"\n[[case]]\nid = "all"\n'
            '[[case.step]]\ncall = "echo"\narguments = { text = "a" }\n'
            '[[case.step]]\ncall = "scale"\narguments = { factor = 2 }\n',
            "exemptions.toml": "schema = 1\n",
        }
    )
    done = good.run("integration", "--era", "modern")
    assert (done.code, checks(done.report)) == (1, ["client/tool-lost"]), done.stdout
    assert done.report["findings"][0]["tool"] == "scale"
    assert good.run("judge", "--era", "modern").report == done.report


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["integraton"], "integration"),
        (["integration", "--projcet", "x"], "--project"),
        (["check", "--sever=x"], "--server"),
        (["run", "--era", "modren"], "modern"),
        (["--verison"], "--version"),
    ],
)
def test_a_word_that_is_not_known_is_exit_2_with_the_one_that_was_meant(project, arguments, meant):
    done = project.run(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert f"did you mean {meant!r}?" in done.stderr
    assert arguments[-1].partition("=")[0] in done.stderr or arguments[-2] in done.stderr


@pytest.mark.parametrize(
    ("where", "count"),
    [("all", "2 servers, 10 cases"), ("./all/*/", "2 servers, 10 cases"), ("all/t*", "1 server, 5 cases")],
)
def test_a_folder_of_projects_is_named_once(good, where, count):
    """Nine `--project` options are one folder; each of them alone still is one."""
    read = {name: (good.root / name).read_text(encoding="utf-8") for name in ("harness.toml", "suites/all.toml")}
    for name in ("one", "two"):
        good.write({f"all/{name}/suites/all.toml": read["suites/all.toml"]})
        good.write({f"all/{name}/harness.toml": read["harness.toml"].replace('"good"', f'"{name}"')})
    (good.root / "all/notes").mkdir()
    (good.root / "exemptions.toml").unlink()
    done = good.run("check", "--project", where)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith(count)


def test_a_pattern_that_means_nothing_is_an_error_and_leaves_no_folder(good):
    before = sorted(good.root.iterdir())
    assert good.run("integration", "--project", "no-such-*").code == 2
    assert {path.name for path in set(good.root.iterdir()) - set(before)} <= {".rollcall"}


def test_one_of_a_thing_is_not_called_as_if_it_were_several(good):
    suite = (good.root / "suites/all.toml").read_text(encoding="utf-8")
    good.write({"suites/all.toml": "[[case]]".join(suite.split("[[case]]")[:2])})
    assert good.run("check", "--era", "modern", "--profile", "plain").stdout.startswith(
        "1 server, 1 case, 1 exemption: the files are well formed; 1 run planned"
    )
    recorded = good.run("run", "--era", "modern", "--profile", "plain")
    assert ": 1 case, " in recorded.stderr
    assert "1 run recorded" in recorded.stderr


def test_an_era_that_is_not_spoken_is_said_in_a_few_words(good):
    """What the server answered to the question is in the evidence."""
    toml = good.root / "harness.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace("servers/good.py", "servers/naive.py"), encoding="utf-8")
    line = next(line for line in good.run("run", "--era", "modern").stderr.splitlines() if "start server" in line)
    assert line.endswith("(it does not speak this era)")


def test_check_finds_what_integration_would_refuse_with_its_line(good):
    edit(
        good,
        "harness.toml",
        "[profiles.plain]",
        'env = { DATABASE_URL = "postgres://db.example.org/prod", LOG_LEVEL = "debug" }\n[profiles.plain]',
    )
    edit(good, "harness.toml", 'elicit = "accept"', 'elicit = "accept"\nenv = { CACHE_HOST = "cache.example.org" }')
    done = good.run("check")
    assert done.code == 2
    assert "harness.toml:5 [server.env] DATABASE_URL: " in done.stderr
    assert "harness.toml:9 [profiles.asking.env] CACHE_HOST: " in done.stderr
    assert "LOG_LEVEL" not in done.stderr
    assert "example.org" not in done.stderr


def test_check_says_which_variables_a_run_will_miss(good):
    """Only said: they may be set where it runs."""
    edit(good, "harness.toml", "[profiles.plain]", 'env = { TOKEN = "${env.NOT_SET_HERE}" }\n[profiles.plain]')
    done = good.run("check")
    assert done.code == 0
    assert (
        done.stderr == "note: harness.toml:5 [server.env] TOKEN: ${env.NOT_SET_HERE} is not set here; a run needs it\n"
    )
    assert good.run("check", env={"NOT_SET_HERE": "x"}).stderr == ""


def test_headers_are_judged_as_variables_are_by_check_and_by_a_run(good):
    edit(
        good,
        "harness.toml",
        "[profiles.plain]",
        """env = { PORT = "${port}" }
transport = "http"
url = "http://127.0.0.1:${port}/mcp"
[server.headers]
Authorization = "Bearer ${env.NOT_SET_HERE}"
X-Upstream-Url = "https://api.example.org/v1"
Origin = "http://127.0.0.1:${port}"
[profiles.plain]""",
    )
    done = good.run("check")
    assert done.code == 2
    assert "harness.toml:10 [server.headers] X-Upstream-Url: " in done.stderr
    assert "note: harness.toml:9 [server.headers] Authorization: ${env.NOT_SET_HERE} is not set here" in done.stderr
    assert "Origin: " not in done.stderr
    assert "example.org" not in done.stderr
    ran = good.run("run", "--era", "modern", "--profile", "plain", env={"NOT_SET_HERE": "two\nlines"})
    assert ran.code == 2
    assert "harness.toml:10 [server.headers] X-Upstream-Url: " in ran.stderr
    assert (
        "harness.toml:9 [server.headers] Authorization: its value is empty, or holds what no header can" in ran.stderr
    )
    assert "lines" not in ran.stderr


def test_check_says_that_eras_are_tried(good):
    both = good.run("check").stdout.splitlines()[0]
    assert both.endswith("planned, of which those in an era that a server does not speak are passed over")
    edit(good, "harness.toml", 'name = "good"', 'name = "good"\neras = ["modern", "handshake"]')
    assert good.run("check").stdout.splitlines()[0].endswith("planned")


def test_check_finds_entries_for_checks_that_there_are_not(good):
    edit(good, "exemptions.toml", "[good.exercised]", "[good.exercise]")
    done = good.run("check")
    assert done.code == 1
    assert "1 exemption: the files can be read, but 1 exemption will not do; " in done.stdout
    assert (
        "[good.exercise] fail: there is no check 'exercise' in this version (did you mean 'exercised'?)" in done.stderr
    )


def test_check_finds_entries_for_servers_that_are_not_there(good):
    edit(good, "exemptions.toml", "[good.exercised]", "[god.exercised]")
    done = good.run("check")
    assert done.code == 1
    assert "exemptions.toml:3 [god.exercised] fail: there is no server 'god'; did you mean 'good'?" in done.stderr


def test_check_passes_what_the_stack_will_hand_out(good):
    """All shipped backends, by their outputs; values that only a run has are left to it."""
    (good.root / "exemptions.toml").unlink()
    done = good.run("check", "--project", str(Path(__file__).parent.parent.parent / "examples"))
    assert done.code == 0, done.stderr
