"""Faults of the world, each real: the verdict says what happened and where, nothing is lost and nothing is left."""

import resource
import shlex
import subprocess
import sys

import pytest

MANY = "".join(
    f"""
[[case]]
id = "long-{number}"
[[case.step]]
call = "echo"
arguments = {{ text = "{"x" * 50_000}" }}
"""
    for number in range(10)
)
LONG_SUITE = f"""\
schema = 2
id = "long"
{MANY}
"""


def harness_toml(name, server="good", more=""):
    return f"""\
schema = 1
[server]
name = "{name}"
eras = ["handshake"]
command = ["python3", "${{repo}}/../servers/{server}.py"]
{more}
[suites]
files = ["suite.toml"]
[checks]
exercised = "attempted"
client = "off"
"""


ECHO_SUITE = """\
schema = 2
id = "short"
[[case]]
id = "echoes"
[[case.step]]
call = "echo"
arguments = { text = "a" }
expect = { text_equals = "a" }
"""
EXEMPT = "".join(
    f"[{name}.exercised]\n" + "".join(f'{tool} = "is not what this test is about"\n' for tool in tools)
    for name, tools in ((name, ("add", "ask", "fail", "guarded", "slow")) for name in ("first", "second", "third"))
)


@pytest.fixture
def two(project):
    """Two healthy projects, `first` and `second`; the evidence of `first` is about a megabyte."""
    project.with_servers()
    project.write(
        {
            "first/harness.toml": harness_toml("first"),
            "first/suite.toml": LONG_SUITE,
            "second/harness.toml": harness_toml("second"),
            "second/suite.toml": ECHO_SUITE,
            "exemptions.toml": "schema = 1\n" + EXEMPT.partition("[third")[0],
        }
    )
    return project


BOTH = ("--project", "first", "--project", "second")


def statuses(done):
    return {case["case"]: case["status"] for case in done.report["cases"]}


def in_namespace(script):
    """Words that run a command after a script, in a mount namespace of its own; skips where that is forbidden."""
    words = ("unshare", "--map-root-user", "--mount", "sh", "-ec")
    if subprocess.run([*words, "mount -t tmpfs none /mnt"], capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not to be had here")
    return (*words, script, "sh")


def test_a_disk_that_is_full_in_mid_run_is_an_error_with_folder_and_cause_and_the_rest_goes_on(two):
    """The limit on the size of a file stands for it: only the first project's transcript reaches it."""
    limited = two.run("integration", *BOTH, limits={resource.RLIMIT_FSIZE: 600_000})
    assert limited.code == 5, limited.stderr
    (error,) = limited.report["errors"]
    assert (error["kind"], error["server"]) == ("stack", "first")
    assert (
        "the evidence in first/.rollcall/evidence/first/none/handshake/plain cannot be written: File too large"
        in error["message"]
    )
    assert "--evidence" in error["hint"]
    assert [item["check"] for item in limited.report["findings"]] == []
    ran = statuses(limited)
    assert (ran["long-0"], ran["long-9"], ran["echoes"]) == ("passed", "not-run", "passed")
    again = two.run("judge", *BOTH)
    assert (again.code, again.report) == (5, limited.report)
    assert not list(two.root.rglob(".reserve"))


def test_a_disk_without_space_keeps_what_was_recorded_and_the_record_of_it(two):
    """`done` and run.json have space of their own, held back for them."""
    (two.root / "small").mkdir()
    script = 'mount -t tmpfs -o size=700k none small; "$@" || code=$?; cp -r small kept; exit $code'
    full = two.run("integration", *BOTH, "--evidence", "small", before=in_namespace(script))
    assert full.code == 5, full.stderr
    assert {item["kind"] for item in full.report["errors"]} == {"stack"}
    assert "No space left on device" in full.report["errors"][0]["message"]
    assert (statuses(full)["long-0"], statuses(full)["long-9"]) == ("passed", "not-run")
    assert full.report["findings"] == []
    again = two.run("judge", *BOTH, "--evidence", "kept")
    assert (again.code, statuses(again)) == (5, statuses(full))


BROKEN = {
    "a syntax error": "[server\n",
    "an unknown key": harness_toml("third").replace("eras =", "ears ="),
    "no suites": harness_toml("third").replace('"suite.toml"', '"nowhere.toml"'),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_project_whose_files_are_broken_does_not_stop_the_others(two, how):
    two.write(
        {
            "third/harness.toml": BROKEN[how],
            "third/suite.toml": ECHO_SUITE,
            "fourth/harness.toml": "schema = 1\nsrever = 1\n",
            "first/suite.toml": ECHO_SUITE,
            "exemptions.toml": "schema = 1\n" + EXEMPT,
        }
    )
    all_four = ("--project", "third", *BOTH, "--project", "fourth")
    done = two.run("integration", *all_four)
    assert (done.code, done.report["verdict"]) == (2, "error"), done.stderr
    (error,) = done.report["errors"]
    assert error["kind"] == "config"
    assert "third/harness.toml" in error["message"]  # all problems of all files, at once
    assert "fourth/harness.toml" in error["message"]
    assert [(case["server"], case["status"]) for case in done.report["cases"]] == [
        ("first", "passed"),
        ("second", "passed"),
    ]
    assert done.report["findings"] == []  # the entries of the broken server are not stale
    again = two.run("judge", *all_four)
    assert (again.code, again.report) == (2, done.report)
    chosen = two.run("integration", *all_four, "--server", "second")
    assert (chosen.code, len(chosen.report["ran"])) == (2, 1)


def test_a_broken_project_that_is_the_only_one_selected_is_its_problems_and_nothing_else(two):
    two.write({"third/harness.toml": BROKEN["an unknown key"], "third/suite.toml": ECHO_SUITE})
    done = two.run("integration", *BOTH, "--project", "third", "--server", "third")
    assert (done.code, done.report["ran"]) == (2, [])
    assert len(done.report["errors"]) == 1


@pytest.fixture
def one(two):
    """`second` alone."""
    toml = harness_toml("second")
    entries = EXEMPT.partition("[second")
    text = "schema = 1\n" + "".join(entries[1:]).partition("[third")[0]
    return two.write({"second/harness.toml": toml, "exemptions.toml": text})


ONE = ("--project", "second")


def test_two_runs_at_once_in_one_repository_both_finish_with_evidence_of_their_own(one):
    words = [sys.executable, "-P", "-m", "harness", "integration", *ONE, "--out"]
    both = [
        subprocess.Popen([*words, f"out-{number}"], cwd=one.root, env=one.environment(), stdin=subprocess.DEVNULL)
        for number in (1, 2)
    ]
    assert [process.wait(120) for process in both] == [0, 0]
    reports = [(one.root / f"out-{number}/report.json").read_bytes() for number in (1, 2)]
    assert reports[0] == reports[1]
    attempts = list((one.root / "second/.rollcall/evidence").glob("*/*/*/*/*/done"))
    assert len(attempts) == 2
    assert one.run("judge", *ONE, out="second/.rollcall").code == 0


READ_ONLY = 'mount --bind "$PWD" "$PWD" && mount -o remount,ro,bind "$PWD" && cd "$PWD" && exec "$@"'


def test_a_read_only_checkout_is_an_error_that_names_the_options_and_works_with_them(one, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    before = in_namespace(READ_ONLY)
    refused = one.run("integration", *ONE, before=before)
    assert refused.code == 2, refused.stderr
    said = refused.stdout + refused.stderr
    assert "Read-only file system" in said
    assert "--state" in said
    assert "--out" in said
    assert "Traceback" not in said
    places = ("--state", str(elsewhere / "state"), "--out", str(elsewhere / "out"))
    done = one.run("integration", *ONE, *places, before=before)
    assert (done.code, (elsewhere / "out/report.json").is_file()) == (0, True), done.stderr
    assert one.run("judge", *ONE, *places, before=before).code == 0


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": None},
        {"HOME": "/nowhere"},
        {"TMPDIR": "/nowhere"},
        {f"FILLER_{number}": "x" * 120_000 for number in range(8)},
        {"PATH": "/usr/bin:/bin"},
    ],
    ids=["no HOME", "HOME that is not there", "TMPDIR that is not there", "a megabyte of variables", "a bare PATH"],
)
def test_a_strange_environment_is_no_obstacle(one, env):
    done = one.run("integration", *ONE, env=env, out="second/.rollcall")
    assert (done.code, done.report["verdict"]) == (0, "clean"), done.stdout + done.stderr


def test_a_closed_stdin_is_no_obstacle(one):
    script = f"exec {shlex.quote(sys.executable)} -P -m harness integration --project second <&-"
    done = subprocess.run(["bash", "-c", script], cwd=one.root, env=one.environment(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_command_that_is_too_long_for_the_system_is_told_in_words(two):
    long = "x" * 200_000
    two.write(
        {
            "first/harness.toml": harness_toml("first", more=f'env = {{ BIG = "{long}" }}'),
            "second/harness.toml": harness_toml("second", more=f'build = [["true", "{long}"]]'),
        }
    )
    done = two.run("integration", *BOTH)
    assert done.code == 6, done.stderr
    errors = {error["server"]: error for error in done.report["errors"]}
    assert errors["first"]["kind"] == "server"
    assert "are more than the system takes" in errors["first"]["message"]
    assert errors["second"]["kind"] == "build"
    assert "Argument list too long" in errors["second"]["message"]
    assert "bytes in" in errors["second"]["hint"]
    assert len(errors["second"]["message"]) < 1000
