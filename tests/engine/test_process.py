"""The life of one process: signals, groups, orphans. Ours; MCP basic/lifecycle#shutdown for the order."""

import json
import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from harness.engine.process import start_process
from harness.errors import ServerError


@pytest.fixture
def start(tmp_path):
    def begin(*argv, **env):
        return start_process(
            argv, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "MARK": f"{tmp_path}/", **env}, marker=f"{tmp_path}/"
        )

    return begin


async def ended(process):
    stdin, stdout, stderr = process.pipes
    try:
        return await process.stop(stdin.close, hurry=True)
    finally:
        stdout.close()
        stderr.close()


@pytest.mark.anyio
async def test_the_exit_code_and_the_signal_are_told_apart(start):
    quick = start("sh", "-c", "exit 3")
    await quick.ended.wait()
    assert (await ended(quick)).code == 3
    killed = start("sh", "-c", "kill -9 $$")
    await killed.ended.wait()
    how = await ended(killed)
    assert (how.code, how.asked, how.ended_by) == (-9, False, "itself")


@pytest.mark.anyio
async def test_an_exit_is_noticed_at_once(start):
    process = start("true")
    await process.ended.wait()
    await ended(process)


@pytest.mark.anyio
async def test_a_child_that_ends_a_moment_later_is_no_orphan(start):
    process = start("sh", "-c", "sleep 0.2 >/dev/null & exit 0")
    await process.ended.wait()
    assert (await ended(process)).orphans == ()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "leave",
    [
        "sleep 300",  # in the group
        "setsid sleep 300",  # in a session of its own, with the environment
        "exec env -i setsid sh -c 'exec sleep 300'",  # found by descent alone
    ],
)
async def test_what_is_left_is_found_by_group_environment_and_descent(start, leave):
    process = start("sh", "-c", f"({leave}) >/dev/null 2>&1 & echo; read line; exit 0")
    os.read(process.pipes[1].fileno(), 1)
    with anyio.fail_after(30):
        while not _running("sleep 300", process.pid):
            await anyio.sleep(0.01)
    how = await ended(process)
    assert [orphan.command for orphan in how.orphans if "sleep 300" in orphan.command]
    assert all(not os.path.exists(f"/proc/{orphan.pid}/cmdline") or _dead(orphan.pid) for orphan in how.orphans)


@pytest.mark.anyio
async def test_a_daemon_that_shed_everything_is_told_from_the_daemon_of_another_server(tmp_path):
    """P03e: two servers at once; each one's daemon has no parent, group, session or environment of it."""
    shed = "(setsid env -i sh -c 'sleep $0 & exit' {} >/dev/null 2>&1 &) ; sleep 0.3; echo; read line; exit 0"
    both = []
    for name, seconds in (("a", "311"), ("b", "312")):
        env = {"PATH": "/usr/bin:/bin", "MARK": f"{tmp_path}/{name}/"}
        argv = ("sh", "-c", shed.format(seconds))
        both.append(start_process(argv, cwd=tmp_path, env=env, marker=f"{tmp_path}/{name}/"))
    with anyio.fail_after(30):
        for process in both:
            while not select.select([process.pipes[1]], [], [], 0)[0]:
                await anyio.sleep(0.01)
    first = await ended(both[0])
    assert [orphan.command for orphan in first.orphans] == ["sleep 311"]
    assert _running("sleep 312", 0)
    second = await ended(both[1])
    assert [orphan.command for orphan in second.orphans] == ["sleep 312"]
    with subprocess.Popen(["cat", "/proc/self/limits"], stdout=subprocess.PIPE) as plain:
        assert b"Max file locks            unlimited" in plain.stdout.read(), "nobody else bears a mark"


FORKS = """\
import os, time
until = time.monotonic() + 20
beat = os.open("beat", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if os.fork():
    os.read(0, 1)
    os._exit(0)
for stream in (0, 1, 2):
    os.dup2(os.open("/dev/null", os.O_RDWR), stream)
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    {new_session}
    os.write(beat, b".")
    time.sleep(0.005)
"""


@pytest.mark.anyio
@pytest.mark.parametrize("new_session", ["os.setsid()", "pass"])
async def test_a_child_that_forks_again_and_again_does_not_escape(start, tmp_path, new_session):
    """It is another process every few milliseconds, each time without parent, and in a session of its own."""
    process, beat = start(sys.executable, "-c", FORKS.format(new_session=new_session)), tmp_path / "beat"
    try:
        with anyio.fail_after(30):
            while not beat.exists() or beat.stat().st_size < 5:
                await anyio.sleep(0.01)
    finally:
        how = await ended(process)
    assert how.orphans
    size = beat.stat().st_size
    await anyio.sleep(0.3)
    assert beat.stat().st_size == size, "it is still alive"


@pytest.mark.anyio
async def test_stopping_is_not_cut_short_by_a_cancellation(start):
    process = start("sleep", "300")
    with anyio.move_on_after(0.01):
        how = await ended(process)
    assert how.ended_by == "term"
    assert _dead(process.pid)


@pytest.mark.anyio
async def test_only_the_servers_own_group_is_touched(start):
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as bystander:
        try:
            await ended(start("sleep", "300"))
            assert bystander.poll() is None
        finally:
            bystander.kill()


@pytest.mark.anyio
async def test_no_descriptor_of_ours_reaches_the_server(start, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        process = start("sh", "-c", "ls -l /proc/$$/fd; exit 0")
        await process.ended.wait()
        seen = process.pipes[1].read()
        await ended(process)
    assert b"secret" not in seen


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("argv", "said"), [(("no-such",), "no such program"), (("./no",), "no such file"), (("./text",), "not executable")]
)
async def test_what_cannot_be_started_is_said(start, tmp_path, argv, said):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ServerError, match=said):
        start(*argv)


def test_a_server_has_default_signals_whatever_was_handed_down_to_us():
    """U029: a background job ignores SIGINT, nohup SIGHUP; a server must not inherit that, nor a blocked signal."""
    program = textwrap.dedent("""
        import asyncio, json, signal, sys
        from pathlib import Path
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        from harness.engine.process import start_process
        async def main():
            argv = ["cat", "/proc/self/status"]
            process = start_process(argv, cwd=Path("/"), env={"PATH": "/bin"}, marker="-none-")
            await process.ended.wait()
            stdin, stdout, stderr = process.pipes
            text = stdout.read().decode()
            await process.stop(stdin.close)
            stdout.close(), stderr.close()
            still = [signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)]
            print(json.dumps([dict(line.split(":\\t") for line in text.splitlines() if line.startswith("Sig")), still]))
        asyncio.run(main())
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    status, still = json.loads(done.stdout)
    assert int(status["SigIgn"], 16) == 0
    assert int(status["SigBlk"], 16) == 0
    assert still == [True, True, True], "ours are as they were"


def _running(command, group):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().replace(b"\0", b" ").strip() == command.encode():
                return True
        except OSError:
            continue
    return False


def _dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
