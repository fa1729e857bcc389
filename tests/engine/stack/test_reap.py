"""What a killed harness left is found and removed; what belongs to the living is not touched."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness.engine.docker import open_engine
from harness.engine.mark import bearing, mark_of
from harness.engine.reap import reap
from harness.engine.scope import LABEL, OWNER_FILE, PREFIX, boot_id, open_scope

HARNESS = """
import sys, anyio
from pathlib import Path
from harness.engine.mask import Masker
from harness.engine.scope import open_scope
from harness.engine.stack import open_stack
from harness.model.plan import *
from harness.model.progress import Silent
runtime = sys.argv[1]
code = "import socket,time; s=socket.socket(); s.bind(('127.0.0.1', int('${port.p}'))); s.listen(); time.sleep(999)"
ready = ReadySpec(exec=("true",))
spec = BackendSpec(
    name="b", folder=Path("/"), place=Place(file="b"), versions={"1": VersionSpec(name="1")},
    services=(ServiceSpec(name="s", image="debian:trixie-slim", command=("sleep", "999"), ready=ready),),
    process=EmbeddedSpec(command=(sys.executable, "-c", code), ports=("p",), ready=ready),
)
async def main():
    with open_scope() as scope:
        roles = [RoleChoice(role="r", backend="b", version="1")]
        async with open_stack(roles, {"b": spec}, runtime=runtime, scope=scope, masker=Masker(), progress=Silent(),
                              subject="t", state=scope.tmp):
            print(scope.run, scope.tmp, flush=True)
            await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.fixture
def tmpdir_of_ours(tmp_path, monkeypatch):
    """A place for temporary files in which nobody else's scopes are."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def start(runtime):
    child = subprocess.Popen([sys.executable, "-c", HARNESS, runtime], stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    if not line:
        end(child)
        pytest.fail("the harness did not stand up its stack")
    run, tmp = line.split()
    return child, run, Path(tmp)


def end(child):
    child.kill()
    child.wait()
    child.stdout.close()


def mine(items, run):
    return sorted(item.kind for item in items if item.run == run)


@pytest.mark.docker
def test_a_stack_of_a_killed_harness_is_removed(tmpdir_of_ours):
    child, run, tmp = start("docker")
    try:
        label = f"{LABEL}run={run}"
        assert mine(reap().removed, run) == []  # it lives
        assert len(open_engine().things_now(label)) == 2
        end(child)
        assert mine(reap(dry_run=True).removed, run) == ["container", "folder", "network"]
        assert len(open_engine().things_now(label)) == 2
        assert mine(reap().removed, run) == ["container", "folder", "network"]
        assert open_engine().things_now(label) == ()
        assert not tmp.exists()
        assert mine(reap().removed, run) == []
    finally:
        if child.poll() is None:
            end(child)


def test_a_process_of_a_killed_harness_is_ended(tmpdir_of_ours, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    child, run, tmp = start("process")
    end(child)
    assert mine(reap(dry_run=True).removed, run) == ["folder", "process"]
    report = reap()
    assert mine(report.removed, run) == ["folder", "process"]
    assert not tmp.exists()
    assert report.notes == ("Docker was not looked at: no Docker engine: /nonexistent.sock does not exist",)
    assert reap().removed == ()


def test_a_daemon_of_a_killed_harness_that_cleared_its_environment_is_ended(tmpdir_of_ours):
    """P03e, and the harness was killed: its mark is all that tells whose it is."""
    program = """
import asyncio, sys
from pathlib import Path
from harness.engine.process import start_process
from harness.engine.scope import open_scope
async def main():
    with open_scope() as scope:
        home = scope.tmp / "server-1"
        home.mkdir()
        argv = ["sh", "-c", "(setsid env -i sleep 321 >/dev/null 2>&1 &); sleep 0.3; echo; sleep 1"]
        process = start_process(argv, cwd=Path("/"), env={"PATH": "/usr/bin:/bin"}, marker=f"{home}/")
        process.pipes[1].readline()
        print(scope.run, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    run = child.stdout.readline().strip()
    end(child)
    found = [item.name for item in reap().removed if item.run == run and item.kind == "process"]
    assert [name for name in found if name.endswith("sleep 321")], found


def test_a_zombie_is_dead(tmpdir_of_ours, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    child, run, _ = start("process")
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # over, and not yet waited for
    assert mine(reap().removed, run) == ["folder", "process"]
    end(child)


def test_the_living_are_not_touched(tmpdir_of_ours, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    with open_scope() as scope:
        helper = subprocess.Popen(["sleep", "99"], env={"HOME": str(scope.tmp / "home")})
        report = reap()
        assert (report.removed, report.failed) == ((), ())
        assert mine(report.kept, scope.run) == []
        assert helper.poll() is None
        helper.kill()
        helper.wait()


def test_what_is_not_provably_dead_is_listed_with_a_command(tmpdir_of_ours, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    other, torn = tmpdir_of_ours / f"{PREFIX}aaa", tmpdir_of_ours / f"{PREFIX}bbb"
    for folder in (other, torn):
        folder.mkdir()
    (other / OWNER_FILE).write_text(json.dumps({"run": "a", "boot": "another", "pid": 1, "started": "1"}))
    (tmpdir_of_ours / f"{PREFIX}link").symlink_to("/etc")
    report = reap()
    assert report.removed == ()
    kept = [item for item in report.kept if item.name.startswith(str(tmpdir_of_ours))]  # this machine may have others
    assert [(item.name, item.why, item.command) for item in kept] == [
        (str(other), "it is from another boot or another host", f"rm -rf {other}"),
        (str(torn), "it does not say whose it is", f"rm -rf {torn}"),
    ]
    assert other.exists()
    assert torn.exists()


SECRET = "k9f-v4x-q2m-77-zz"


@pytest.mark.parametrize("cleared", [False, True], ids=["by its environment", "by its mark"])
def test_a_process_whose_folder_is_gone_is_listed_and_stays(tmpdir_of_ours, monkeypatch, cleared):
    """Nothing says any more that its invocation is over. Of its command nothing is shown that it calls a secret."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    folder = tmpdir_of_ours / f"{PREFIX}abcdefabcdef-x1"
    home = str(folder / "server-1" / "home")
    argv = ["sh", "-c", f"sleep 99; : {'.' * 180} {SECRET} redis://a:{SECRET[::-1]}@127.0.0.1"]
    with bearing(mark_of(f"{folder}/server-1/")):
        env = {} if cleared else {"HOME": home, "API_TOKEN": SECRET}
        child = subprocess.Popen(argv, env=env | {"PATH": os.environ["PATH"]}, start_new_session=True)
    try:
        (item,) = [item for item in reap().kept if item.name.startswith(f"{child.pid} ")]
        assert (item.kind, item.command) == ("process", f"kill {child.pid}")
        assert item.why == "it is of an invocation whose folder is gone"
        assert item.run == ("" if cleared else "abcdefabcdef")
        assert len(item.name) < 220
        if not cleared:
            assert SECRET[:4] not in item.name
        assert child.poll() is None
        (folder / "server-1").mkdir(parents=True)  # of a run that lives, for all that can be told
        (folder / OWNER_FILE).write_text(json.dumps({"run": "a", "boot": "another", "pid": 1, "started": "1"}))
        assert not [item for item in reap().kept if item.name.startswith(f"{child.pid} ")]
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


AS_NOBODY = """
import ctypes, os
from harness.engine.reap import reap
from harness.engine.scope import boot_id
reap(dry_run=True), boot_id()  # what they import may be for root's eyes only
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: its own files in /proc are its own again
report = reap()
print([(item.kind, item.why, item.command) for item in report.failed], len(report.removed))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a process that another user may not end")
def test_a_folder_stays_as_long_as_a_process_in_it_lives(monkeypatch):
    parent = Path(tempfile.mkdtemp(prefix="reap-"))
    folder = parent / f"{PREFIX}abcdefabcdef-x1"
    over = subprocess.Popen(["true"])
    over.wait()
    (folder / "server-1").mkdir(parents=True)
    owner = {"run": "abcdefabcdef", "boot": boot_id(), "pid": over.pid, "started": "1"}
    (folder / OWNER_FILE).write_text(json.dumps(owner))
    for path in (parent, folder, folder / "server-1", folder / OWNER_FILE):
        os.chown(path, 65534, 65534)
    with bearing(mark_of(f"{folder}/server-1/")):
        child = subprocess.Popen(["sleep", "99"])
    env = os.environ | {"TMPDIR": str(parent), "DOCKER_HOST": "unix:///nonexistent.sock"}
    try:
        done = subprocess.run([sys.executable, "-c", AS_NOBODY], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        process = ("process", "it did not end", f"kill -9 {child.pid}")
        kept = ("folder", f"it stays, or nothing would tell whose process {child.pid} is", "")
        assert done.stdout == f"{[process, kept]} 0\n"
        assert folder.exists()
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(parent)


@pytest.mark.docker
def test_containers_of_another_boot_are_listed_and_stay(tmpdir_of_ours):
    engine = open_engine()
    labels = {f"{LABEL}run": "feedfeedfeed", f"{LABEL}boot": "x", f"{LABEL}pid": "1", f"{LABEL}started": "1"}
    name = f"rollcall-test-{time.time_ns()}"
    made = engine.call_now("make", lambda client: client.create_network(name, labels=labels)["Id"])
    try:
        (item,) = [item for item in reap().kept if item.name == name]
        assert item.command == f"docker network rm {made}"
        assert shutil.which("docker") is None or subprocess.run(item.command.split(), check=True, capture_output=True)
    finally:
        for thing in engine.things_now(f"{LABEL}run=feedfeedfeed"):
            engine.remove_now(thing)


def test_boots_and_namespaces_are_told_apart():
    assert "." in boot_id()
