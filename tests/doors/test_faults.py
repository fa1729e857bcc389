"""Faults of the world, each real: the verdict says what happened and where, nothing is lost and nothing is left."""

import resource
import subprocess

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
