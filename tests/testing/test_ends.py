"""Whatever ends a program that uses the API, nothing of it is left: no process, no thread, no folder. Ours."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.testing import MisuseError, ServerClosed, start_server

WAIT_S = 60


def run(code, tmp_path, *arguments):
    """Starts a program of somebody's, with a folder for temporary files of its own."""
    place = tmp_path / "tmp"
    place.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_line(process):
    """The next line of its stdout."""
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line.strip()


def assert_gone(pid):
    deadline = time.monotonic() + WAIT_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)


def left_in(tmp_path):
    return sorted(path.name for path in (tmp_path / "tmp").iterdir())


START = """
import sys, os, signal
from harness.testing import start_server
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a test run in the background has switched off
server = start_server(sys.argv[1:], era="handshake")
print(server.pid, flush=True)
"""


def test_ctrl_c_in_a_call_ends_it_and_leaves_nothing(command, tmp_path):
    process = run(
        START + 'print("calling", flush=True)\nserver.call("slow", {"seconds": 600})', tmp_path, *command("good")
    )
    pid = int(wait_for_line(process))
    wait_for_line(process)
    time.sleep(0.2)  # it waits now; before that it would end likewise
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=WAIT_S)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT
    assert_gone(pid)
    assert left_in(tmp_path) == []


def test_ctrl_c_while_a_server_starts_leaves_nothing(command, tmp_path):
    code = START.replace("server =", 'print("starting", flush=True); server =')
    process = run(code, tmp_path, *command("silent"))
    wait_for_line(process)
    deadline = time.monotonic() + WAIT_S
    while not (children := _children(process.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    for pid in children:
        assert_gone(pid)
    assert left_in(tmp_path) == []


def _children(pid):
    try:
        return [int(item) for path in Path(f"/proc/{pid}/task").glob("*/children") for item in path.read_text().split()]
    except OSError:
        return []


def test_ctrl_c_while_a_server_is_closed_ends_it_all_the_same(command, tmp_path):
    code = START + 'print("closing", flush=True)\nserver.close()'
    process = run(code, tmp_path, *command("ignores_stdin_close"))
    pid = int(wait_for_line(process))
    wait_for_line(process)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert_gone(pid)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("end", ["", 'raise SystemExit("enough")', "1/0"], ids=["end", "exit", "exception"])
def test_a_program_that_closes_nothing_leaves_nothing(command, tmp_path, end):
    process = run(START + end, tmp_path, *command("good"))
    pid = int(wait_for_line(process))
    process.communicate(timeout=WAIT_S)
    assert_gone(pid)
    assert left_in(tmp_path) == []


def test_an_asyncio_program_that_closes_nothing_leaves_nothing(command, tmp_path):
    code = """
import asyncio, sys
from harness.testing_async import start_server
async def main():
    server = await start_server(sys.argv[1:], era="handshake")
    print(server.pid, flush=True)
asyncio.run(main())
"""
    process = run(code, tmp_path, *command("ignores_stdin_close"))
    pid = int(wait_for_line(process))
    process.communicate(timeout=WAIT_S)
    assert_gone(pid)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("how", ["os._exit(3)", "os.kill(os.getpid(), 9)"], ids=["_exit", "sigkill"])
def test_a_program_that_is_gone_at_once_takes_a_server_along_that_heeds_its_stdin(command, tmp_path, how):
    """What does not heed it, and the folder, is what `mcp-rollcall reap` removes."""
    process = run(START + how, tmp_path, *command("good"))
    pid = int(wait_for_line(process))
    process.communicate(timeout=WAIT_S)
    assert_gone(pid)
    reap = [sys.executable, "-m", "harness", "reap"]
    subprocess.run(reap, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}, check=True, capture_output=True)
    assert left_in(tmp_path) == []


def test_servers_are_used_by_many_threads_at_once(command):
    with start_server(command("good"), era="handshake") as server, ThreadPoolExecutor(8) as threads:
        texts = [str(number) for number in range(200)]
        answers = list(threads.map(lambda text: server.call("echo", {"text": text}).text, texts))
    assert answers == texts


def test_servers_are_started_and_closed_by_threads_in_any_order(command):
    before = set(threading.enumerate())

    def one(number):
        server = start_server(command("good"), era="handshake")
        answer = server.call("echo", {"text": str(number)}).text
        return server, answer

    with ThreadPoolExecutor(4) as threads:
        started = list(threads.map(one, range(6)))
    assert [answer for _, answer in started] == [str(number) for number in range(6)]
    for server, _ in started[1::2] + started[::2]:
        server.close()
    assert set(threading.enumerate()) == before


def test_it_works_where_an_event_loop_runs_already(command):
    async def main():
        with start_server(command("good"), era="handshake") as server:
            direct = server.call("echo", {"text": "here"}).text
            aside = await asyncio.to_thread(server.call, "echo", {"text": "there"})
            return direct, aside.text

    assert asyncio.run(main()) == ("here", "there")


def test_an_answering_function_that_calls_the_server_is_told_so(command):
    def answers(_question):
        return server.call("echo", {"text": "x"})

    with (
        start_server(command("good"), era="modern", answers=answers) as server,
        pytest.raises(MisuseError, match="in the thread of its own event loop"),
    ):
        server.call("ask")


def test_a_fork_is_told_that_the_server_is_its_parents(command, tmp_path):
    code = (
        START
        + """
from harness.testing import MisuseError
def say(text):
    print(">", text, file=sys.stderr, flush=True)
child = os.fork()
if child == 0:
    try:
        server.call("echo", {"text": "x"})
    except MisuseError as error:
        say(error)
    server.close()
    with start_server(sys.argv[1:], era="handshake") as own:
        say(own.call("echo", {"text": "own"}).text)
    sys.exit()
os.waitpid(child, 0)
say(server.call("echo", {"text": "still mine"}).text)
"""
    )
    process = run(code, tmp_path, *command("good"))
    pid = int(wait_for_line(process))
    _, said = process.communicate(timeout=WAIT_S)
    assert [line for line in said.splitlines() if line.startswith("> ")] == [
        f"> this server belongs to process {process.pid}, and this is a fork of it",
        "> own",
        "> still mine",
    ], said
    assert_gone(pid)
    assert left_in(tmp_path) == []


def test_a_closed_server_says_so_in_every_thread(command):
    server = start_server(command("good"), era="handshake")
    server.close()
    with ThreadPoolExecutor(1) as threads, pytest.raises(ServerClosed):
        threads.submit(server.call, "echo", {"text": "x"}).result()
    assert server.stderr() == ""
    assert server.called == ()
