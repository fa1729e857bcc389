"""Whole sessions of the pytest plugin: workers, stacks, ends of every kind, and inside of a run of our own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GUARD_S = 60
# an echo service from the standard library, and how often it was started
SERVICE = (
    "import os, socketserver, sys\\n"
    "open(sys.argv[2], 'a').write('.')\\n"
    "class H(socketserver.BaseRequestHandler):\\n"
    "    def handle(self): self.request.sendall(self.request.recv(99))\\n"
    "socketserver.TCPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
)
BACKEND = """\
schema = 1
name = "mirror"
[secrets]
password = 20
[process]
command = ["python3", "-c", "{service}", "${{port.tcp}}", "{count}"]
ports = ["tcp"]
ready = {{ tcp = "tcp", send = "ping", expect = "ping" }}
[outputs]
url = "tcp://${{address.tcp}}"
password = {{ value = "${{secret.password}}", secret = true }}
"""
WITH_MIRROR = """\
[backends.b]
use = "mirror"
[suites]
pytest = ["."]
"""
TESTS = """
import os, pytest
@pytest.mark.parametrize("number", range(6))
def test_echo(mcp_harness, mcp_stack, number):
    with open(f"on-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{mcp_stack['b.url'][6:]}", "w"): pass
    assert mcp_harness.call("echo", {"text": mcp_stack["b.password"]}).text == mcp_stack["b.password"]
def test_add(mcp_harness):
    mcp_harness.call("add", {"a": 1, "b": 2})
"""


def mirror(inner):
    """The project with a backend, in its process form."""
    folder = inner.root / "backends" / "mirror"
    folder.mkdir(parents=True)
    text = BACKEND.format(service=SERVICE, count=inner.root / "started")
    (folder / "backend.toml").write_text(text, encoding="utf-8")
    return inner.project(more=WITH_MIRROR)


def started(inner):
    return len((inner.root / "started").read_text(encoding="utf-8"))


def noted(inner):
    """(worker, stack) for each pair that met."""
    return {tuple(path.name.split("-")[1:]) for path in inner.root.glob("on-*")}


def living(folder):
    """Processes that have a folder in their environment, but for ourselves."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(str(folder)) in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("per", ["session", "worker"])
def test_the_ledgers_of_all_workers_are_one_and_stacks_are_as_many_as_asked_for(inner, per):
    mirror(inner).write(all=TESTS)
    result = inner.run("-n2", f"--mcp-stack={per}", "--mcp-runtime=process", plugins=("mcp_rollcall", "xdist"))
    assert result.parseoutcomes() == {"passed": 7, "failed": 1}
    assert "2 of 6 tools exercised" in inner.section(result)
    assert {worker for worker, _ in noted(inner)} == {"gw0", "gw1"}
    stacks = {stack for _, stack in noted(inner)}
    if per == "worker":
        assert len(stacks) == started(inner) >= 2
        assert len(noted(inner)) == len(stacks)
    else:
        assert len(stacks) == started(inner) >= 1
    (attempt,) = (inner.root / ".rollcall/evidence/good/mirror@embedded/modern/plain").iterdir()
    assert (attempt / "done").exists()
    assert len(list(attempt.glob("outside-pytest-*.jsonl"))) >= 2
    record = json.loads((attempt / "run.json").read_text(encoding="utf-8"))
    assert record["outcome"] == "finished"
    written = b"".join(path.read_bytes() for path in attempt.rglob("*") if path.is_file())
    assert b"*" * 20 in written, "the password is masked"


def test_a_worker_that_is_killed_leaves_nothing_and_what_is_absent_is_not_judged(inner, monkeypatch):
    mirror(inner).write(
        kill="""
import os, signal
def test_kill(mcp_harness):
    mcp_harness.call("echo", {"text": "x"})
    os.kill(mcp_harness.pid, signal.SIGSTOP)  # it would not notice that its stdin is closed
    os.kill(os.getpid(), signal.SIGKILL)
def test_other(mcp_harness):
    mcp_harness.call("add", {"a": 1, "b": 2})
"""
    )
    tmp = inner.root / "tmp"
    tmp.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp))
    result = inner.run("-n1", "--mcp-runtime=process", plugins=("mcp_rollcall", "xdist"))
    assert result.parseoutcomes()["failed"] >= 1
    text = inner.section(result)
    assert "what is absent was not judged: gw0 crashed" in text
    assert "exercised/missing" not in text
    assert living(tmp) == []
    assert list(tmp.glob("rollcall-*")) == []
    assert any(event.get("label") == "tools/call echo" for lines in inner.transcripts() for event in lines)


@pytest.mark.parametrize("workers", [0, 1], ids=["alone", "xdist"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["sigint", "sigterm"])
def test_an_interrupted_session_leaves_nothing_behind(inner, number, workers):
    """Ours: what was recorded is kept, and everything that stood is gone."""
    mirror(inner).write(
        hangs="""
def test_first(mcp_harness):
    mcp_harness.call("echo", {"text": "x"})
def test_hangs(mcp_harness):
    open("hanging", "w").close()
    mcp_harness.call("slow", {"seconds": 600}, timeout_s=600)
"""
    )
    tmp = inner.root / "tmp"
    tmp.mkdir()
    plugins = ["-p", "mcp_rollcall", *(["-p", "xdist", f"-n{workers}"] if workers else [])]
    command = [sys.executable, "-m", "pytest", *plugins, "--mcp-runtime=process"]
    with subprocess.Popen(
        command,
        cwd=inner.root,
        env={**os.environ, "TMPDIR": str(tmp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until = time.monotonic() + GUARD_S
            while not (inner.root / "hanging").exists():
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < until
                time.sleep(0.05)
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            said = process.communicate(timeout=GUARD_S)[0]
        finally:
            process.kill()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, said
    assert living(tmp) == []
    assert list(tmp.glob("rollcall-*")) == [], said
    assert "the session was stopped early" in said
    (attempt,) = (inner.root / ".rollcall/evidence/good/mirror@embedded/modern/plain").iterdir()
    assert json.loads((attempt / "run.json").read_text(encoding="utf-8"))["outcome"] == "interrupted"
    ends = [event for lines in inner.transcripts() for event in lines if event["e"] == "case-ended"]
    assert [(event["case"], event["how"]) for event in ends] == [
        ("test_hangs.py::test_first", "completed"),
        ("test_hangs.py::test_hangs", "interrupted"),
    ]
    assert "gate" not in said, "nothing that was seen was wrong"


def test_a_stack_that_cannot_be_stood_up_is_an_error_of_each_test_and_of_the_gate(inner):
    mirror(inner).write(all=TESTS)
    path = inner.root / "backends" / "mirror" / "backend.toml"
    text = path.read_text(encoding="utf-8").replace("serve_forever()", "server_close()")
    path.write_text(text, encoding="utf-8")
    result = inner.run("--mcp-runtime=process", "-k", "add")
    assert result.parseoutcomes() == {"errors": 1, "failed": 1, "deselected": 6}
    assert "stack" in inner.section(result)
    assert list((inner.root / ".rollcall/evidence").rglob("run.json"))


# --- inside of a run ------------------------------------------------------------------------------

SUITE = """\
schema = 2
id = "suite"
[[case]]
id = "adds"
[[case.step]]
call = "add"
arguments = { a = 1, b = 2 }
"""
INSIDE = """
import pytest
def test_all(mcp_harness):
    mcp_harness.call("echo", {"text": "hi"})
    mcp_harness.call("slow", {"seconds": 0})
    mcp_harness.confirmed("guarded", {"key": "k"})
@pytest.mark.mcp(profiles="asking")
def test_ask(mcp_harness, mcp_profile, mcp_backend):
    assert (mcp_profile, mcp_backend) == ("asking", "none")
    assert "accept" in mcp_harness.call("ask").text
"""


def test_inside_of_a_run_the_tests_count_into_its_ledger_and_it_alone_judges(good):
    """`[suites] pytest`: one ledger of both suites, one verdict."""
    toml = good.root / "harness.toml"
    text = toml.read_text(encoding="utf-8").replace('"suites/*.toml"]', '"suites/*.toml"]\npytest = ["tests"]')
    toml.write_text(text, encoding="utf-8")
    good.write({"suites/all.toml": SUITE, "tests/test_more.py": INSIDE})
    done = good.run("integration")
    assert done.code == 0, done.stdout + done.stderr
    coverage = done.report["coverage"][0]
    assert (coverage["tools"], coverage["succeeded"], coverage["excused"]) == (6, 5, 1)
    good.write({"tests/test_more.py": INSIDE + "def test_bad(mcp_harness):\n    assert False\n"})
    done = good.run("integration", "--profile=plain", "--era=modern")
    assert done.code == 1
    (finding,) = done.report["findings"]
    assert finding["check"] == "suite/command-failed"
    assert "test_bad" in json.dumps(finding)
    assert "mcp-rollcall::gate" not in done.stdout
