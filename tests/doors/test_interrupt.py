"""Ctrl-C, SIGTERM and kill -9 at every stage, through nox and without: nothing is left, or nothing after `reap`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WAIT_S = 40
NOXFILE = "from harness.sessions import register\n\nregister()\n"
SLOW_CASE = """\
schema = 2
id = "all"
[[case]]
id = "slow"
[[case.step]]
call = "slow"
arguments = { seconds = 30 }
"""
NEVER_READY = """\
schema = 1
name = "never"
[process]
command = ["python3", "-c", "import time; time.sleep(600)"]
ports = ["p"]
ready = { tcp = "p", send = "hello", expect = "hello" }
ready_timeout_s = 60
[outputs]
url = "http://${address.p}/"
"""


def stages(project, stage):
    """Changes the good repository so that it stays in one stage."""
    toml = project.root / "harness.toml"
    text = toml.read_text()
    match stage:
        case "build":
            text = text.replace("[profiles.plain]", 'build = [["sh", "-c", "sleep 600"]]\n[profiles.plain]')
        case "stack":
            text += '[backends.b]\nuse = "never"\n'
            project.write({"backends/never/backend.toml": NEVER_READY})
        case "call":
            project.write({"suites/all.toml": SLOW_CASE})
        case "teardown":
            text = text.replace("good.py", "ignores_term.py")
            suite = (
                'schema = 2\nid = "all"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "echo"\narguments = { text = "x" }\n'
            )
            project.write({"suites/all.toml": suite})
    toml.write_text(text)


MARK = {"build": "sleep\x00600", "stack": "time.sleep(600)", "call": "good.py", "teardown": "ignores_term.py"}


class Harness:
    """A harness that runs, with a temporary folder of its own, by which everything that it starts is known."""

    def __init__(self, project, through_nox):
        self.root = project.root
        self.tmp = project.root / "tmp"
        self.tmp.mkdir()
        env = project.environment(TMPDIR=str(self.tmp), ROLLCALL_RUNTIME="process")
        program = str(Path(sys.executable).parent / "nox")
        command = (
            [program, "-s", "integration"] if through_nox else [sys.executable, "-P", "-m", "harness", "integration"]
        )
        project.write({"noxfile.py": NOXFILE})
        self.env = env
        self.process = subprocess.Popen(
            command,
            cwd=self.root,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def children(self):
        """Processes that have our folder in their environment: (pid, command line)."""
        mark = f"{self.tmp}/rollcall-".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes():
                        found.append((int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")))
                except OSError:
                    continue
        return found

    def wait_for(self, mark, *, also=lambda: True):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if any(mark in command for _, command in self.children()) and also():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(f"never came to {mark}: {self.process.communicate()[0].decode()}")

    def harness_pid(self):
        """The process that is `-m harness`, below nox or itself."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"harness" in words and str(self.root).encode() == os.fsencode((entry / "cwd").readlink()):
                        return int(entry.name)
                except OSError:
                    continue
        raise AssertionError("no harness runs")

    def end(self):
        out = self.process.communicate(timeout=WAIT_S)[0].decode()
        return self.process.returncode, out


@pytest.fixture
def start(good):
    started = []

    def start(stage, *, through_nox=False):
        stages(good, stage)
        harness = Harness(good, through_nox)
        started.append(harness)
        reached = (lambda: _sent_close(good)) if stage == "teardown" else (lambda: True)
        if stage == "call":
            reached = lambda: _called(good)  # noqa: E731
        harness.wait_for(MARK[stage], also=reached)
        return harness

    yield start
    for harness in started:
        if harness.process.poll() is None:
            harness.process.kill()
            harness.process.wait()
        harness.process.stdout.close()
        for pid, _ in harness.children():
            os.kill(pid, signal.SIGKILL)


def _transcripts(project):
    return "".join(path.read_text() for path in (project.root / ".rollcall/evidence").rglob("server-*.jsonl"))


def _called(project):
    return '"tools/call' in _transcripts(project)


def _sent_close(project):
    return "case-ended" in _transcripts(project)


@pytest.mark.parametrize("stage", ["build", "stack", "call", "teardown"])
@pytest.mark.parametrize(
    ("number", "through_nox"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGHUP, False), (signal.SIGINT, True)],
    ids=["ctrl-c", "sigterm", "hangup", "ctrl-c-nox"],
)
def test_a_signal_ends_it_with_nothing_left_and_the_report_written(good, start, stage, number, through_nox):
    harness = start(stage, through_nox=through_nox)
    if number == signal.SIGINT:
        os.killpg(harness.process.pid, number)  # as a terminal does
    else:
        harness.process.send_signal(number)
    code, out = harness.end()
    assert harness.children() == []
    assert list(harness.tmp.glob("rollcall-*")) == []
    report = json.loads((good.root / ".rollcall/report.json").read_text())
    assert report["exit"] == 130, out
    assert report["verdict"] in ("error", "partial")
    assert code == 130 or through_nox
    assert [item["kind"] for item in report["errors"]] == ["interrupted"]
    if stage == "call":  # what was seen until then is shown
        assert [(cell["tools"], cell["judged"]) for cell in report["coverage"]] == [(6, False)]
        assert "no tools listed" not in out


@pytest.mark.parametrize("victim", [signal.SIGKILL, signal.SIGTERM], ids=["kill-9", "sigterm"])
def test_the_death_of_nox_ends_the_run_and_leaves_nothing(good, start, victim):
    """Also where nox runs under nohup: what ignores a hangup still does not outlive it."""
    if victim == signal.SIGKILL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        harness = start("call", through_nox=True)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    pid = harness.harness_pid()
    harness.process.send_signal(victim)
    harness.process.wait(timeout=WAIT_S)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and (Path(f"/proc/{pid}").exists() or harness.children()):
        time.sleep(0.05)
    assert harness.children() == []
    assert list(harness.tmp.glob("rollcall-*")) == []
    assert json.loads((good.root / ".rollcall/report.json").read_text())["exit"] == 130


@pytest.mark.parametrize("stage", ["build", "stack", "call", "teardown"])
def test_after_kill_9_nothing_is_left_once_reap_ran(good, start, stage):
    harness = start(stage)
    harness.process.kill()
    harness.process.communicate()
    done = good.run("reap", env={"TMPDIR": str(harness.tmp)})
    assert done.code == 0, done.stderr
    assert harness.children() == []
    assert list(harness.tmp.glob("rollcall-*")) == []


def test_reap_leaves_the_living_alone(good, start):
    harness = start("call")
    done = good.run("reap", env={"TMPDIR": str(harness.tmp)})
    assert done.code == 0
    assert harness.process.poll() is None
    assert harness.children()
    harness.process.send_signal(signal.SIGTERM)
    harness.end()


def test_what_a_killed_run_recorded_stays_readable_and_is_not_counted(good, start):
    harness = start("call")
    harness.process.kill()
    harness.process.communicate()
    assert "slow" in _transcripts(good)
    judged = good.run("judge")
    assert judged.code == 3
    assert judged.report["verdict"] == "nothing-run"


def test_an_ignored_hangup_stays_ignored_as_under_nohup(good):
    stages(good, "call")
    tmp = good.root / "tmp"
    tmp.mkdir()
    script = f"trap '' HUP; exec {sys.executable} -P -m harness integration"
    env = good.environment(TMPDIR=str(tmp))
    process = subprocess.Popen(
        ["sh", "-c", script], cwd=good.root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and not _called(good):
            time.sleep(0.05)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WAIT_S) == 130
