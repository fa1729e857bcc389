"""Repositories made for a test, and the command line run on them as a user does: as a process."""

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVERS = Path(__file__).parent.parent / "servers"
OUR_VARIABLES = ("GITHUB_", "NOX_", "PYTEST_", "ROLLCALL_")


@dataclass
class Done:
    """A command that ended. `report` is report.json, None if there is none."""

    code: int
    stdout: str
    stderr: str
    report: dict | None


@dataclass
class Project:
    """A folder with files in it."""

    root: Path

    def write(self, files: dict[str, str]) -> "Project":
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self

    def with_servers(self) -> "Project":
        """Copies tests/servers to `servers/`."""
        shutil.copytree(SERVERS, self.root / "servers", dirs_exist_ok=True)
        return self

    def environment(self, **more: str | None) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("ROLLCALL_", "GITHUB_", "NOX_"))}
        for key, value in more.items():
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value
        return env

    def run(
        self,
        *arguments: str,
        cwd: str = ".",
        env: dict | None = None,
        timeout: float = 120,
        limits: dict[int, int] | None = None,
        out: str = ".rollcall",
        before: tuple[str, ...] = (),
    ) -> Done:
        """Runs the command line.

        Args:
            limits: Resource limits of the process and all that it starts.
            out: Folder of its report.json.
            before: Words to run it with, such as `setpriv …`.
        """
        report = self.root / out / "report.json"
        with suppress(OSError):
            report.unlink()

        def limit() -> None:
            for which, value in (limits or {}).items():
                resource.setrlimit(which, (value, value))

        done = subprocess.run(
            [*before, sys.executable, "-P", "-m", "harness", *arguments],
            cwd=self.root / cwd,
            env=self.environment(**(env or {})),
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            preexec_fn=limit if limits else None,
        )
        read = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
        return Done(done.returncode, done.stdout, done.stderr, read)


@pytest.fixture(scope="session")
def project_in() -> type[Project]:
    """For fixtures of a wider scope: a folder -> the project in it."""
    return Project


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


HARNESS_TOML = """\
schema = 1
[server]
name = "good"
command = ["python3", "${repo}/servers/good.py"]
[profiles.plain]
[profiles.asking]
elicit = "accept"
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""  # the official client takes as long to load as all the rest; what it sees is tested where it is judged

GOOD_SUITE = """\
schema = 2
id = "all"

[[case]]
id = "echoes"
[[case.step]]
call = "echo"
arguments = { text = "Grüße ★" }
expect = { text_equals = "Grüße ★" }

[[case]]
id = "adds"
[[case.step]]
call = "add"
arguments = { a = 1, b = 2 }
expect = { pointer = { "/structuredContent/sum" = 3 } }
capture = { sum = "/structuredContent/sum" }
[[case.step]]
call = "add"
arguments = { a = "${captured.sum}", b = 1 }
expect = { text_equals = "4" }

[[case]]
id = "refuses"
[[case.step]]
call = "fail"
expect = { is_error = true, text_contains = "on purpose" }
[[case.step]]
call = "nobody"
unlisted = true
expect = { code = -32602, text_matches = "Unknown" }

[[case]]
id = "waits-and-confirms"
[[case.step]]
call = "slow"
arguments = { seconds = 0 }
expect = { text_contains = "at last" }
[[case.step]]
call = "guarded"
arguments = { key = "k" }
confirm = true
expect = { text_equals = "deleted k" }

[[case]]
id = "asks"
profiles = ["asking"]
[[case.step]]
call = "ask"
expect = { text_contains = "accept" }
"""

EXEMPTIONS = """\
schema = 1
[good.exercised]
fail = "it fails on purpose, whatever it is given"
"""


FILES = {"harness.toml": HARNESS_TOML, "suites/all.toml": GOOD_SUITE, "exemptions.toml": EXEMPTIONS}


@pytest.fixture
def good(project) -> Project:
    """A repository whose server, suite and exemptions are as they should be."""
    return project.with_servers().write(FILES)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Project:
    """The same with the evidence of all its runs, for tests that copy it."""
    project = Project(tmp_path_factory.mktemp("recorded")).with_servers().write(FILES)
    done = project.run("run")
    assert done.code == 0, done.stderr
    return project


# --- the pytest plugin ----------------------------------------------------------------------------

INNER_TOML = """\
schema = 1
[server]
name = "{name}"
command = ["python3", "{server}"]
eras = {eras}
call_timeout_s = 20
{more}
"""


class Inner:
    """A folder with a project and tests, and pytest run in it."""

    def __init__(self, pytester, monkeypatch):
        for name in list(os.environ):
            if name.startswith(OUR_VARIABLES):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        self.pytester = pytester
        self.root = pytester.path
        pytester.makeini("[pytest]\nfilterwarnings = error\n")

    def project(self, server="good", eras='["modern"]', more="", name=""):
        text = INNER_TOML.format(name=name or server, server=SERVERS / f"{server}.py", eras=eras, more=more)
        (self.root / "harness.toml").write_text(text, encoding="utf-8")
        return self

    def write(self, **files):
        for name, text in files.items():
            (self.root / f"test_{name}.py").write_text(text, encoding="utf-8")
        return self

    def run(self, *arguments, plugins=("mcp_rollcall",)):
        loaded = [word for name in plugins for word in ("-p", name)]
        return self.pytester.runpytest_subprocess(*loaded, *arguments, timeout=120)

    def transcripts(self):
        """The events of every transcript, oldest first, of the runs in the order of their folders."""
        files = sorted((self.root / ".rollcall" / "evidence").glob("*/*/*/*/*/outside-pytest-*.jsonl"))
        return [[json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files]

    @staticmethod
    def section(result):
        """The section of ours in the terminal's summary, "" without one."""
        return result.stdout.str().partition("= mcp-rollcall =")[2]


@pytest.fixture
def inner(pytester, monkeypatch):
    return Inner(pytester, monkeypatch)
