"""The recording proxy: not a byte, signal or exit code is other than without it, and all of it is recorded."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import harness
from harness.engine.evidence import read_attempt
from harness.model.transcript import Diagnostic, Exited, Received, Sent, Spawned, Stderr

SERVERS = Path(__file__).parent.parent / "servers"
PROXY = [sys.executable, "-I", "-S", str(Path(harness.__file__).parent / "proxy.py")]
GUARD_S = 60.0  # nothing here takes a tenth of it; what hangs, fails


def through(folder, command):
    return [*PROXY, "--evidence", str(folder), "--", *command]


def attempt(folder):
    """The one recording below a folder."""
    (path,) = folder.glob("*/recorded/*")
    return path


def recorded(folder):
    """Its only transcript, once it is finished."""
    path = attempt(folder)
    until = time.monotonic() + GUARD_S
    while not (path / "done").exists():
        assert time.monotonic() < until, "the recording has no end"
        time.sleep(0.01)
    found = read_attempt(path)
    (transcript,) = found.transcripts
    return found, transcript


def play(command, spec, given_chunks, *, reads=None, slowly=False):
    """Runs the server of any bytes: what the client got, what the server got, and the exit code.

    Args:
        given_chunks: What is written to it, piece by piece, while its stdout is read.
        reads: How many bytes the client reads before it closes its end, None for all.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        words = [*command, json.dumps({**spec, "report": str(report)})]
        child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        got, errors = hashlib.sha256(), bytearray()

        def write():
            try:
                for chunk in given_chunks:
                    view = memoryview(chunk)
                    while view:
                        view = view[os.write(child.stdin.fileno(), view) :]
            except BrokenPipeError:
                pass
            child.stdin.close()

        def read():
            size = 0
            while reads is None or size < reads:
                data = os.read(child.stdout.fileno(), 65536 if reads is None else min(65536, reads - size))
                if not data:
                    break
                got.update(data)
                size += len(data)
            child.stdout.close()

        def drain():
            errors.extend(child.stderr.read())

        threads = [threading.Thread(target=work, daemon=True) for work in (write, read, drain)]
        for thread in threads:
            thread.start()
        try:
            code = child.wait(GUARD_S)
            for thread in threads:
                thread.join(GUARD_S)
                assert not thread.is_alive(), "a deadlock"
        finally:
            child.kill()
            child.stderr.close()
        said = re.sub(rb"mcp-rollcall proxy: recorded in \S+\n\Z", b"", bytes(errors))
        return {"code": code, "got": got.hexdigest(), "given": report.read_text(), "errors": said}


SIZES = st.lists(st.integers(0, 200_000), max_size=6)
CASES = st.fixed_dictionaries(
    {
        "writes": SIZES,
        "seed": st.integers(0, 99),
        "errors": st.sampled_from(["", "a line\n", "é no newline", "x" * 70_000 + "\n"]),
        "reads": st.none() | st.integers(0, 100_000),
        "shuts": st.booleans(),
        "code": st.sampled_from([0, 1, 3, 255, -9, -15, -11]),
    }
)
LARGE = {"writes": [30_000_000], "seed": 1, "errors": "", "reads": None, "shuts": False, "code": 0}


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=CASES, chunks=SIZES, reads=st.none() | st.integers(1, 50_000))
@example(spec=LARGE, chunks=[30_000_000, 1], reads=None)
@example(spec={**LARGE, "reads": 10, "writes": [1] * 500}, chunks=[1] * 300 + [5_000_000], reads=None)
@example(spec={**LARGE, "code": -9, "errors": "gone"}, chunks=[], reads=7)
@example(spec={**LARGE, "writes": [], "shuts": True}, chunks=[2_000_000], reads=None)
def test_what_passes_is_the_same_with_the_proxy_and_without(spec, chunks, reads):
    source = random.Random(7)
    given_chunks = [source.randbytes(size) for size in chunks]
    server = [sys.executable, "-I", "-S", str(SERVERS / "bytes.py")]
    plain = play(server, spec, given_chunks, reads=reads)
    with tempfile.TemporaryDirectory() as folder:
        assert play(through(Path(folder), server), spec, given_chunks, reads=reads) == plain


def talk(command, *lines, cwd=None, env=None):
    """A client that writes lines and closes; what came back."""
    text = "".join(json.dumps(line) + "\n" if isinstance(line, dict) else line for line in lines)
    return subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=GUARD_S, check=False, cwd=cwd, env=env
    )


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hé"}}}


def test_a_dialogue_is_recorded_with_labels_times_and_its_end(tmp_path):
    done = talk(through(tmp_path, [sys.executable, str(SERVERS / "good.py")]), HELLO, READY, CALL)
    assert done.returncode == 0
    found, transcript = recorded(tmp_path)
    assert transcript.complete
    assert transcript.is_outside
    sent = [event for event in transcript.events if isinstance(event, Sent)]
    assert [event.label for event in sent] == ["initialize", "notifications/initialized", "tools/call echo"]
    answers = [event for event in transcript.events if isinstance(event, Received)]
    assert "\n".join(event.body.text for event in answers) + "\n" == done.stdout.decode()
    assert answers[0].at == 0
    assert answers[1].at == len(answers[0].body.data) + 1
    (spawned,) = [event for event in transcript.events if isinstance(event, Spawned)]
    assert spawned.argv == (sys.executable, str(SERVERS / "good.py"))
    end = transcript.events[-1]
    assert isinstance(end, Exited)
    assert (end.code, end.asked, end.ended_by, end.in_flight) == (0, True, "stdin-close", ())
    assert [event.t for event in transcript.events] == sorted(event.t for event in transcript.events)
    assert (found.record.plan, found.record.server_info["name"], found.record.protocol) == ("", "fixture", "2025-11-25")
    assert str(attempt(tmp_path)) in done.stderr.decode()


def test_a_server_that_ends_by_itself_and_one_that_is_not_there(tmp_path):
    done = talk(through(tmp_path / "a", [sys.executable, str(SERVERS / "dies_in_call.py")]), HELLO, READY, CALL)
    _, transcript = recorded(tmp_path / "a")
    end = transcript.events[-1]
    assert (end.code, done.returncode) == (end.code, end.code % 256 if end.code >= 0 else end.code)
    gone = talk(through(tmp_path / "b", ["there-is-no-such-program"]), HELLO)
    assert gone.returncode == 127
    assert "there-is-no-such-program: No such file" in gone.stderr.decode()
    (tmp_path / "text").write_text("no program")
    assert talk(through(tmp_path / "c", [str(tmp_path / "text")])).returncode == 126


def test_the_end_of_stderr_is_kept_and_secrets_are_masked(tmp_path):
    code = (
        "import os, sys; print('x' * 300000, file=sys.stderr); print('token', os.environ['MY_TOKEN'], file=sys.stderr)"
    )
    env = {**os.environ, "MY_TOKEN": "s3cret-0123456789"}
    done = talk(through(tmp_path, [sys.executable, "-c", code]), env=env)
    assert b"token s3cret-0123456789" in done.stderr, "what passes is not masked"
    _, transcript = recorded(tmp_path)
    (tail,) = [event for event in transcript.events if isinstance(event, Stderr)]
    assert tail.body.text.endswith("token *****************\n")
    assert len(tail.body.data) <= 64 * 1024 < tail.size
    for path in tmp_path.rglob("*.json*"):
        assert b"s3cret" not in path.read_bytes()


def ends(pid):
    """Nothing happens once a process is over, be it a zombie that nobody has asked for."""
    until = time.monotonic() + GUARD_S
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "ZX":
            return
        assert time.monotonic() < until, "the server lives on"
        time.sleep(0.01)


WAITS = """
import os, signal, sys, time
def told(number, _): os.write(1, f"{signal.Signals(number).name}\\n".encode())
for name in sys.argv[1].split(","): signal.signal(getattr(signal, name), told)
os.write(1, b"ready\\n")
while True: time.sleep(60)
"""


def test_signals_reach_the_server_once_and_its_end_by_one_is_the_proxys(tmp_path):
    command = through(tmp_path, [sys.executable, "-c", WAITS, "SIGINT,SIGHUP,SIGUSR1"])
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with child:
        assert child.stdout.readline() == b"ready\n"
        for name in ("SIGINT", "SIGHUP", "SIGUSR1"):
            child.send_signal(getattr(signal, name))
            assert child.stdout.readline() == f"{name}\n".encode()
        child.send_signal(signal.SIGTERM)
        assert child.stdout.read() == b"", "and nothing twice"
        assert child.wait(GUARD_S) == -signal.SIGTERM
    _, transcript = recorded(tmp_path)
    assert (transcript.events[-1].code, transcript.events[-1].ended_by) == (-15, "term")


def test_the_server_dies_with_a_proxy_that_is_killed_and_what_was_recorded_stays_readable(tmp_path):
    server = tmp_path / "pid"
    code = (
        f"import os, time; open({str(server)!r}, 'w').write(str(os.getpid())); os.write(1, b'up\\n'); time.sleep(600)"
    )
    child = subprocess.Popen(
        through(tmp_path, [sys.executable, "-c", code]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"up\n"
        child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        child.stdin.flush()
        until = time.monotonic() + GUARD_S
        while (
            not (journal := list(tmp_path.glob("unknown/recorded/*/*.jsonl")))
            or b'"ping"' not in journal[0].read_bytes()
        ):
            assert time.monotonic() < until
            time.sleep(0.01)
        child.kill()
    _, transcript = recorded(tmp_path)
    ends(int(server.read_text()))
    assert not transcript.complete
    assert [event.label for event in transcript.events if isinstance(event, Sent)] == ["ping"]
    assert any(isinstance(event, Received) and event.body.text == "up" for event in transcript.events)


def test_a_process_that_the_server_leaves_behind_does_not_hold_the_proxy(tmp_path):
    code = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], start_new_session=True)\n"
        "os.write(1, b'last words\\n')"
    )
    command = through(tmp_path, [sys.executable, "-c", code])
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with child:
        assert child.stdout.read() == b"last words\n"
        assert child.wait(GUARD_S) == 0
    assert recorded(tmp_path)[1].complete


def test_the_client_sees_at_once_that_a_server_has_closed_its_stdout_and_lives(tmp_path):
    code = "import os, sys; os.close(1); sys.stdin.read()"
    child = subprocess.Popen(
        through(tmp_path, [sys.executable, "-c", code]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3
    )
    with child:
        assert child.stdout.read() == b""
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(GUARD_S) == 0


def test_a_server_of_which_nothing_can_be_recorded_dies_with_its_proxy_too(tmp_path):
    (tmp_path / "file").write_text("")
    code = "import os, time; os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(600)"
    command = through(tmp_path / "file", [sys.executable, "-c", code])
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with child:
        pid = int(child.stdout.readline())
        child.kill()
    ends(pid)


def test_where_nothing_can_be_recorded_everything_passes_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    done = talk(through(tmp_path / "file", ["cat"]), "as it was\n")
    assert (done.returncode, done.stdout) == (0, b"as it was\n")
    assert b"nothing is recorded" in done.stderr


@pytest.mark.parametrize(
    ("limit", "said"), [("-n 9", "nothing is recorded: Too many open files"), ("-f 0", "broke off: File too large")]
)
def test_a_recording_that_cannot_go_on_says_so_and_everything_passes(tmp_path, limit, said):
    command = ["/bin/sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *through(tmp_path, ["cat"])]
    done = talk(command, "as it was\n" * 1000)
    assert (done.returncode, done.stdout) == (0, b"as it was\n" * 1000)
    assert said in done.stderr.decode()


def test_who_records_may_be_ended_and_everything_passes(tmp_path):
    child = subprocess.Popen(
        through(tmp_path, ["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with child:
        child.stdin.write(b"one\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"one\n"
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        (recorder,) = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text() != "cat\n"]
        os.kill(int(recorder), signal.SIGKILL)
        ends(recorder)
        child.stdin.write(b"two\n")
        child.stdin.close()
        assert child.stdout.read() == b"two\n"
        assert b"broke off: who records it was ended" in child.stderr.read()
        assert child.wait(GUARD_S) == 0


def test_a_recording_lies_beside_the_nearest_harness_toml(tmp_path):
    (tmp_path / "harness.toml").write_text('schema = 1\n[server]\nname = "My Server"\n')
    (tmp_path / "sub").mkdir()
    assert talk([*PROXY, "cat"], "x\n", cwd=tmp_path / "sub").returncode == 0
    found, _ = recorded(tmp_path / ".rollcall" / "evidence")
    assert found.record.key.server == "My Server"
    assert (tmp_path / ".rollcall" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no command to start"),
        (["--"], "there is no command behind --"),
        (["--evidnce", "x"], "unrecognized argument: --evidnce; the server's command stands behind --"),
        (["--evidence"], "--evidence takes a value"),
        (["--session=/nowhere/at.all"], "cannot be read"),
    ],
)
def test_a_command_line_that_is_none_is_exit_2(words, said):
    done = talk([*PROXY, *words])
    assert done.returncode == 2
    assert said in done.stderr.decode()


def test_its_start_imports_none_of_what_takes_long():
    code = "import sys; sys.argv[1:] = ['proxy', '--']; import harness.__main__ as m; m.main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"anyio", "argparse", "asyncio", "dataclasses", "docker", "mcp", "subprocess", "typing"})
    assert Diagnostic.e == "diagnostic"
