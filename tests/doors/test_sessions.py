"""nox, as a foreign repository uses it: DESIGN §6 with its traps, each with a real nox."""

import json
import os
import subprocess
import sys

import pytest

NOXFILE = """\
# /// script
# dependencies = ["nox", "mcp-rollcall"]
# ///
from harness.sessions import register

register()
"""
SUITE = """\
schema = 2
id = "s"
[[case]]
id = "c"
[[case.step]]
call = "echo"
arguments = { text = "x" }
"""


def harness_toml(name="good", **server):
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    return f'schema = 1\n[server]\nname = {json.dumps(name)}\ncommand = ["true"]\n{lines}[suites]\nfiles = ["s.toml"]\n'


@pytest.fixture
def nox(project):
    project.write({"noxfile.py": NOXFILE, "s.toml": SUITE})

    def run(*arguments, env=None):
        return subprocess.run(
            [sys.executable, "-m", "nox", *arguments],
            cwd=project.root,
            env=project.environment(**(env or {})),
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    return run


def sessions(nox, name="run"):
    done = nox("--list", "--json", "-s", name)
    assert done.returncode == 0, done.stderr
    return [item["session"] for item in json.loads(done.stdout)]


def test_importing_the_sessions_registers_nothing(project, nox):
    project.write({"noxfile.py": "import harness.sessions\n"})
    assert "integration" not in nox("-l").stdout


def test_the_list_reads_like_a_menu(project, nox):
    project.write({"harness.toml": harness_toml()})
    listed = nox("-l").stdout
    for name in ("build", "integration", "run(", "judge", "exemptions", "backends", "reap", "doctor"):
        line = next(line for line in listed.splitlines() if line.startswith(f"- {name}"))
        assert len(line.partition("->")[2]) > 20


def test_the_matrix_has_every_era_and_profile_of_every_choice(project, nox):
    project.write(
        {
            "harness.toml": harness_toml(eras=["handshake"])
            + '[backends.a]\nuse = ["one", "two"]\nversions = ["1", "2"]\n[profiles.plain]\n[profiles.asking]\n'
        }
    )
    assert len(sessions(nox)) == 4 * 2
    assert "run(good/two@2/handshake/asking)" in sessions(nox)


def test_each_session_given_back_selects_exactly_itself(project, nox):
    """U036: names that no shell takes must not come out as such."""
    project.write({"harness.toml": harness_toml('my "odd" $server\'s') + "[profiles.plain]\n[profiles.plainer]\n"})
    names = sessions(nox)
    assert len(names) == 4
    for name in names:
        assert not set(name) & set(" \"'$")
        assert sessions(nox, name) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "this is = = no toml",
        "[server]\n",
        '[server]\nname = "x"\n[backends.b]\nuse = "no-such"\n[suites]\nfiles=["s.toml"]',
        "\xff",
    ],
)
def test_a_broken_file_is_a_session_that_fails_with_the_message(project, nox, text):
    (project.root / "harness.toml").write_bytes(text.encode("latin-1"))
    assert nox("-l").returncode == 0
    failed = nox("-s", "run")
    assert failed.returncode == 1
    assert "harness.toml" in failed.stderr or "no-such" in failed.stderr


def test_no_runs_is_a_session_that_fails_and_not_one_that_is_skipped(project, nox):
    project.write({"harness.toml": 'schema = 1\n[server]\nname = "x"\ncommand = ["x"]\n'})
    failed = nox("-s", "run")
    assert failed.returncode == 1
    assert "nothing to run" in failed.stderr


def test_a_repository_without_harness_toml_says_so(nox):
    failed = nox("-s", "run")
    assert failed.returncode == 1
    assert "harness.toml" in failed.stderr


def test_folders_named_like_libraries_do_not_win(project, nox):
    """U034: a foreign `harness`, `docker`, `mcp` … in the repository."""
    bomb = "raise SystemExit('the wrong module was imported')\n"
    project.write({f"{name}/__init__.py": bomb for name in ("docker", "mcp", "rich", "anyio", "jsonschema", "tomlkit")})
    project.write({"harness/__init__.py": bomb, "types.py": bomb, "harness.toml": harness_toml()})
    # nox itself is an entry point here, not `-m`, which would put this folder first on its path
    program = os.path.join(os.path.dirname(sys.executable), "nox")
    for session in ("doctor", "reap"):
        command, env = [program, "-s", session], project.environment()
        done = subprocess.run(command, cwd=project.root, env=env, capture_output=True, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr
        assert "wrong module" not in done.stdout + done.stderr


def test_variables_that_would_mislead_a_child_are_dropped(project, nox):
    project.write(
        {
            "harness.toml": harness_toml(),
            "noxfile.py": NOXFILE + "import harness.sessions as s\nimport nox\nclass Fake:\n    posargs = []\n"
            "    def run(self, *a, env, **k): print('ENV', sorted(k for k, v in env.items() if v is None))\n"
            "@nox.session(venv_backend='none')\ndef shown(session):\n    s._run(Fake(), (), ['doctor'])\n",
        }
    )
    assert "ENV ['NOX_SCRIPT_MODE', 'VIRTUAL_ENV']" in nox("-s", "shown", env={"VIRTUAL_ENV": "/x"}).stdout


def test_arguments_after_the_dashes_reach_the_command(project, nox):
    project.write({"harness.toml": harness_toml()})
    done = nox("-s", "integration", "--", "--no-such-flag")
    assert done.returncode == 1
    assert "--no-such-flag" in done.stderr


def test_nox_folds_the_exit_code_and_the_report_has_the_true_one(project, nox):
    """A server that ends before its first answer: exit 6, which nox makes 1."""
    project.write({"harness.toml": harness_toml()})
    done = nox("-s", "integration")
    assert done.returncode == 1
    report = json.loads((project.root / ".rollcall/report.json").read_text())
    assert report["exit"] == 6
    assert report["errors"][0]["kind"] == "server"


def test_the_sessions_are_the_runs_of_the_plan():
    """Two readers of the same files, one of them with tomllib alone: they must not drift apart."""
    from pathlib import Path

    from harness.config.load import load
    from harness.config.plan import Selection, make_plan
    from harness.integration import catalogue, selected_runs
    from harness.sessions import planned_runs

    root = Path(__file__).parent.parent.parent
    projects = sorted(path.parent for path in root.glob("examples/*/harness.toml"))
    loaded = load(projects, base=root, catalogue=catalogue(), exemptions_beside=root)
    keys = [run.key for run in selected_runs(make_plan(loaded, selection=Selection(), runtimes={}))]
    ours = [(run.server, run.backend, run.era, run.profile) for run in planned_runs(projects)]
    assert sorted(ours) == sorted((key.server, key.backend, key.era, key.profile) for key in keys)
