"""nox, as a foreign repository uses it: DESIGN §6 with its traps, each with a real nox."""

import json
import os
import shlex
import subprocess
import sys
import zipfile

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
    for name in ("build", "integration", "run(", "judge", "exemptions", "backends", "rollout", "reap", "doctor"):
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


def test_exemptions_over_a_list_go_through_a_noxfile_that_names_projects_by_itself(project, nox):
    """The session hands `--project` on; the list takes its place."""
    project.write({"one/harness.toml": harness_toml(), "one/s.toml": SUITE, "exemptions.toml": "schema = 1\n"})
    project.write({"rollout.toml": 'schema = 1\n[[repository]]\npath = "one"\n'})
    project.write({"noxfile.py": NOXFILE.replace("register()", 'register(projects=["other"], default=["other"])')})
    done = nox("-s", "exemptions", "--", "list", "--rollout")
    assert done.returncode == 0, done.stderr
    assert "0 exemptions in 0 files" in done.stdout


def test_nox_folds_the_exit_code_and_the_report_has_the_true_one(project, nox):
    """A server that ends before its first answer: exit 6, which nox makes 1."""
    project.write({"harness.toml": harness_toml()})
    done = nox("-s", "integration")
    assert done.returncode == 1
    report = json.loads((project.root / ".rollcall/report.json").read_text())
    assert report["exit"] == 6
    assert report["errors"][0]["kind"] == "server"


def test_the_rerun_line_works_where_only_nox_is_on_path(project, nox):
    """A user has nox; mcp-rollcall may be in an environment that the session made."""
    project.with_servers().write(
        {
            "one/harness.toml": harness_toml().replace('["true"]', '["python3", "${repo}/../servers/good.py"]'),
            "one/s.toml": SUITE,
            "noxfile.py": NOXFILE.replace("register()", 'register(projects=["one"])'),
        }
    )
    assert nox("-s", "integration").returncode == 1
    report = json.loads((project.root / "one/.rollcall/report.json").read_text())
    (line,) = {item["rerun"] for item in report["findings"] if item["check"] == "exercised/missing"}
    assert line == "nox -s integration -- --server good"
    program, *words = shlex.split(line)
    again = nox(*words)
    assert program == "nox"
    assert again.returncode == 1
    assert "exercised/missing" in again.stdout


def test_the_menu_shows_the_runs_of_the_default_servers_and_each_other_run_is_there_by_name(project, nox):
    for name in ("one", "two"):
        project.write({f"servers/{name}/harness.toml": harness_toml(name, eras=["modern"])})
        project.write({f"servers/{name}/s.toml": SUITE})
    project.write({"noxfile.py": NOXFILE.replace("register()", 'register(projects=["servers"], default=["one"])')})
    menu = nox("-l").stdout
    assert "run(one/none/modern/plain)" in menu
    assert "run(two/" not in menu
    assert "1 more: `nox -l -s run`" in menu
    assert sessions(nox) == ["run(one/none/modern/plain)", "run(two/none/modern/plain)"]
    assert sessions(nox, "run(two/none/modern/plain)") == ["run(two/none/modern/plain)"]


def test_the_menu_is_no_longer_for_many_runs(project, nox):
    project.write({"harness.toml": harness_toml() + "".join(f"[profiles.p{n}]\n" for n in range(9))})
    assert len([line for line in nox("-l").stdout.splitlines() if line.startswith("- run(")]) == 3
    assert len(sessions(nox)) == 18


def test_a_build_that_fails_is_shown_again_through_nox(project, nox):
    project.write({"harness.toml": harness_toml(build=[["false"]])})
    done = nox("-s", "build")
    assert "to see it again: nox -s build -- good\n" in done.stdout + done.stderr


def test_the_sessions_share_one_environment_and_leave_it_alone_while_nothing_changed(project, nox, tmp_path_factory):
    """It holds what `install` names; here a package that stands in for mcp-rollcall."""
    package = tmp_path_factory.mktemp("package")
    main = "import sys; print('IN', sys.prefix, sys.argv[1:])"
    (package / "harness").mkdir()
    (package / "harness/__init__.py").write_text("")
    (package / "harness/__main__.py").write_text(main)
    project.write(
        {
            "harness.toml": harness_toml(),
            "pyproject.toml": "[project]\nname = 'x'\n",
            # an installer that needs no registry
            "noxfile.py": NOXFILE.replace("register()", "register(install=['--no-index', '--no-deps', 'stand-in'])"),
        }
    )
    wheel(package, project.root)
    env = {"PIP_FIND_LINKS": str(project.root)}
    done = nox("-s", "doctor", "judge", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({line.split()[1] for line in done.stdout.splitlines() if line.startswith("IN")}) == 1
    assert done.stderr.count("pip install") == 1
    assert "pip install" not in nox("-s", "reap", env=env).stderr
    project.write({"pyproject.toml": "[project]\nname = 'y'\n"})
    assert "pip install" in nox("-s", "reap", env=env).stderr


def wheel(package, target):
    """A wheel of the folder `harness` in a folder, made by hand."""
    with zipfile.ZipFile(target / "stand_in-1-py3-none-any.whl", "w") as file:
        for name in ("__init__.py", "__main__.py"):
            file.write(package / "harness" / name, f"harness/{name}")
        info = "stand_in-1.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: stand-in\nVersion: 1\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


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
    ours = [(run.server, run.backend, run.era, run.profile) for run in planned_runs([root / "examples"])]
    assert sorted(ours) == sorted((key.server, key.backend, key.era, key.profile) for key in keys)


def test_the_rollout_session_makes_first_what_the_list_names_and_passes_words_and_options_on(project, nox):
    made = "from pathlib import Path\nfrom harness.sessions import register\n\n"
    made += "def first(session):\n    Path('made').mkdir(exist_ok=True)\n\nregister(before_rollout=first)\n"
    project.write(
        {
            "noxfile.py": made,
            "harness.toml": harness_toml(),
            "rollout.toml": 'schema = 1\n[[repository]]\npath = "made"\n[[repository]]\npath = "."\nname = "here"\n',
        }
    )
    done = nox("-s", "rollout", "--", "plan", "--shards", "2", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert (project.root / "made").is_dir()
    assert [row["only"] for row in json.loads(done.stdout)["include"]] == ["made", "here"]
    judged = nox("-s", "rollout", "--", "judge", "--only", "made")
    assert judged.returncode == 1
    assert "made" in judged.stdout
