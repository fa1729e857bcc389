"""The examples, each as its own repository: built, stood up, driven and judged as a user would; no false alarm."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# those that are quick; redis-mcp-server is what `nox -s integration` runs, and `-- --all` runs every one
EXAMPLES = ["caldav-mcp", "mcp-server-git", "server-memory"]
TIMEOUT_S = 400
# what these servers of others say of themselves, and some client makes little of; anything else is a false alarm
WARNINGS = {
    "redis-mcp-server": {"annotation/missing", "names/too-many", "portability/string-format"},
    "caldav-mcp": {"annotation/missing", "portability/unsupported-keyword"},
}


def integration(tmp_path, *arguments):
    env = {key: value for key, value in os.environ.items() if not key.startswith("ROLLCALL_")}
    command = [sys.executable, "-P", "-m", "harness", "integration", "--out", str(tmp_path), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))


def said_of(report):
    assert report["verdict"] == "clean"
    assert {finding["severity"] for finding in report["findings"]} <= {"warning"}
    return {finding["check"] for finding in report["findings"]}


@pytest.mark.network
def test_the_quick_start_needs_no_docker(tmp_path):
    """Python alone: the server from PyPI, its Redis from a wheel."""
    report = integration(tmp_path, "--project", "examples/redis-mcp-server", "--runtime", "process")
    assert said_of(report) == WARNINGS["redis-mcp-server"]
    (cell,) = report["coverage"]
    assert (cell["backend"], cell["tools"]) == ("redis@embedded", 53)
    (command,) = report["commands"]
    assert (command["command"], command["outcome"], command["transcripts"]) == ("pytest", "passed", 1)
    assert cell["succeeded"] >= 43


@pytest.mark.network
@pytest.mark.docker
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_clean_in_docker(tmp_path, name):
    report = integration(tmp_path, "--project", f"examples/{name}", "--runtime", "docker")
    assert said_of(report) == WARNINGS.get(name, set())
    assert all(cell["missing"] == 0 for cell in report["coverage"])
    assert {run["runtime"] for run in report["ran"]} <= {"docker", None}


def test_every_example_is_on_the_rollout_list_and_plans_its_runs():
    """Those that are too slow for every merge are at least well formed."""
    entries = tomllib.loads((ROOT / "rollout.toml").read_text())["repository"]
    made = {f".rollcall/origins/{name}": f"examples/{name}" for name in ("prometheus-mcp-server", "server-memory")}
    listed = {entry["path"] if "path" in entry else made[entry["git"]] for entry in entries}
    folders = {f"examples/{path.parent.name}" for path in ROOT.glob("examples/*/harness.toml")}
    assert listed == folders
    projects = [argument for folder in sorted(folders) for argument in ("--project", folder)]
    command = [sys.executable, "-P", "-m", "harness", "check", *projects]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr


UNRUN = ("prometheus-mcp-server-http", "memory-in-three-languages")  # by any test; `nox -s integration -- NAME` does


def test_the_examples_that_no_test_runs_are_planned_in_both_eras():
    """That their files are valid is held by the test before this one."""
    projects = [argument for name in UNRUN for argument in ("--project", f"examples/{name}")]
    command = [sys.executable, "-P", "-m", "harness", "plan", "--by", "run", "--format", "json", *projects]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert [run["name"] for run in json.loads(done.stdout)["include"]] == [
        f"{name} {backend} {era} plain"
        for name, backend in zip(UNRUN, ("prometheus@2", "none"), strict=True)
        for era in ("modern", "handshake")
    ]


def test_the_example_over_http_is_the_one_of_its_page_and_the_same_server_as_over_stdio():
    here, stdio = ROOT / "examples" / "prometheus-mcp-server-http", ROOT / "examples" / "prometheus-mcp-server"
    page = (ROOT / "docs/how-to/servers-over-http.md").read_text(encoding="utf-8")
    shown = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])["server"]
    server = tomllib.loads((here / "harness.toml").read_text(encoding="utf-8"))["server"]
    assert shown.pop("env").items() <= server["env"].items()
    assert shown == {key: server[key] for key in shown}
    for file in ("requirements.in", "requirements.lock", "suites/discovery.toml", "suites/queries.toml"):
        there = (stdio / file).read_text(encoding="utf-8").replace('= "stdio"', '= "http"')
        assert (here / file).read_text(encoding="utf-8") == there, file


def test_the_example_in_three_languages_has_all_that_its_commands_name_and_what_its_page_shows():
    folder = ROOT / "examples" / "memory-in-three-languages"
    page = (ROOT / "docs/how-to/record-any-client.md").read_text(encoding="utf-8")
    toml = tomllib.loads((folder / "harness.toml").read_text(encoding="utf-8"))
    commands = [item if isinstance(item, dict) else {"run": item} for item in toml["suites"]["commands"]]
    shown = set(re.findall(r"^  (.+) \(memory-in-three-languages none handshake plain\) — passed", page, re.MULTILINE))
    assert shown == {item.get("id", item["run"]) for item in commands}
    words = [word for item in commands for word in item["run"].split()]
    assert {word for word in words if word.startswith("tests/")} == {"tests/python_client.py", "tests/inspector.sh"}
    assert all((folder / word).is_file() for word in words if word.startswith("tests/"))
    compile((folder / "tests/python_client.py").read_text(encoding="utf-8"), "python_client.py", "exec")
    subprocess.run(["sh", "-n", "tests/inspector.sh"], cwd=folder, check=True)

    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    assert package["scripts"] == {"test:integration": "vitest run"}
    assert 'from "vitest"' in (folder / "tests/graph.test.js").read_text(encoding="utf-8")
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    pinned = {**package["dependencies"], **package["devDependencies"]}
    assert {name: locked[f"node_modules/{name}"]["version"] for name in pinned} == pinned
    assert toml["server"]["command"][1].removeprefix("node_modules/").startswith("@modelcontextprotocol/server-memory/")


@pytest.mark.network
def test_the_wheel_has_the_backends_and_the_schemas(tmp_path):
    """A repository that has neither uses the shipped ones, from the wheel alone."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, timeout=TIMEOUT_S)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in ROOT.glob("backends/**/*") if path.is_file()]
    shipped = {f"harness/backends/{path.relative_to(ROOT / 'backends')}" for path in files}
    assert shipped <= names
    assert {"harness/py.typed", "harness/report/schema/report.schema.json"} <= names
    assert "harness/report/schema/contract-diff.schema.json" in names
    kept = {f"harness/config/schema/{path.name}" for path in (ROOT / "harness/config/schema").iterdir()}
    assert {name for name in names if name.startswith("harness/config/schema/")} == kept
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "harness.toml").write_text(
        'schema = 1\n[server]\nname = "s"\ncommand = ["x"]\nenv = { U = "${backend.r.url}" }\n'
        '[backends.r]\nuse = "redis"\n[suites]\nfiles = ["s.toml"]\n'
    )
    (repository / "s.toml").write_text('schema = 2\nid = "s"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "t"\n')
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from harness.cli import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", program, str(site), "check"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert "redis@8" in done.stdout
