"""Test commands of somebody's own: what they are told, how they end, and what is kept of them."""

import json
import os
import sys

import anyio
import pytest

from harness.engine.commands import OUTPUT_TAIL_BYTES
from harness.engine.mask import Masker
from harness.engine.stack import Stack
from harness.model.plan import CommandSpec, Place
from harness.model.session import session_from_json

pytestmark = pytest.mark.anyio
PLACE = Place(file="harness.toml", line=1)


def python(code, **more):
    return CommandSpec(**{"id": "cmd", "kind": "command", "argv": (sys.executable, "-c", code), "place": PLACE, **more})


async def test_a_command_is_told_what_stands_and_passes(play, tmp_path):
    stack = Stack(
        values={"backend.main-db.url": "redis://:s3cret-of-ours@127.0.0.1:7"},
        versions={},
        addresses=(("127.0.0.1", 7),),
    )
    code = """
import json, os, stat
path = os.environ["ROLLCALL_SESSION"]
assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
print(open(path).read())
print(json.dumps({k: v for k, v in os.environ.items() if k.startswith("ROLLCALL_") or k in ("CI", "HOME", "TMPDIR")}))
"""
    kept = tmp_path / "kept"
    command = python(
        f"import sys; sys.stdout = open({str(kept)!r}, 'w')\n{code}", env={"CI": "${backend.main-db.url}/0"}
    )
    noisy = python("import os; print(os.environ['ROLLCALL_BACKEND_MAIN_DB_URL'])", id="noisy")
    played = await play("good", stack=stack, commands=[command, noisy], masker=Masker(["s3cret-of-ours"]))
    record, masked = played.record.commands
    assert (record.outcome, record.exit, record.transcripts) == ("passed", 0, 0), record.output
    assert masked.output == "redis://:**************@127.0.0.1:7\n"
    text, _, variables = kept.read_text().strip().rpartition("\n")
    session, env = session_from_json(text), json.loads(variables)
    assert session.run == played.run.key
    assert session.evidence == str(played.folder)
    assert session.secrets == ("s3cret-of-ours",)
    assert session.command == (sys.executable, "good.py")
    assert session.allowed == ("127.0.0.1:7",)
    assert session.env["HOME"] != env["HOME"]
    assert env["ROLLCALL_BACKEND_MAIN_DB_URL"] == "redis://:s3cret-of-ours@127.0.0.1:7"
    assert env["CI"] == "redis://:s3cret-of-ours@127.0.0.1:7/0"
    assert (env["ROLLCALL_SERVER"], env["ROLLCALL_ERA"], env["ROLLCALL_PROFILE"]) == ("good", "handshake", "plain")
    assert json.loads(env["ROLLCALL_SERVER_COMMAND_JSON"])[-2:] == ["--session", env["ROLLCALL_SESSION"]]
    assert not os.path.exists(env["ROLLCALL_SESSION"]), "it names secrets, and goes with the command"


async def test_every_command_runs_whatever_becomes_of_the_others(play):
    commands = [
        python("print('it broke'); raise SystemExit(3)", id="fails"),
        python("import os; os.kill(os.getpid(), 9)", id="killed"),
        CommandSpec(id="gone", kind="command", argv=("there-is-no-such-program",), place=PLACE),
        python("pass", id="nowhere", cwd="no-such-folder"),
        python("print('fine')", id="fine"),
    ]
    played = await play("good", commands=commands)
    found = {item.id: item for item in played.record.commands}
    assert {name: (item.outcome, item.exit) for name, item in found.items()} == {
        "fails": ("failed", 3),
        "killed": ("failed", -9),
        "gone": ("not-started", None),
        "nowhere": ("not-started", None),
        "fine": ("passed", 0),
    }
    assert found["fails"].output == "it broke\n"
    assert "no such program" in found["gone"].output
    assert "no-such-folder does not exist" in found["nowhere"].output
    assert played.record.outcome == "finished"


async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(play):
    code = """
import subprocess, sys, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("begun", flush=True)
signal.pause()
"""
    played = await play("good", commands=[python(code, timeout_s=0.3)])
    (record,) = played.record.commands
    assert (record.outcome, record.exit) == ("timed-out", None)


async def test_what_a_command_leaves_running_is_ended_and_named(play):
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""
    played = await play("good", commands=[python(code)])
    (record,) = played.record.commands
    assert record.outcome == "passed"
    assert "left running, and killed" in record.output
    assert "time.sleep(600)" in record.output


async def test_a_flood_is_read_and_its_end_is_kept(play):
    code = "import sys\nfor n in range(300): print('x' * 9999)\nprint('the end', flush=True)"
    played = await play("good", commands=[python(code)])
    (record,) = played.record.commands
    assert record.output.endswith("the end\n")
    assert len(record.output) == OUTPUT_TAIL_BYTES


async def test_a_command_that_ran_in_the_other_era_is_named_and_not_run_again(play):
    commands = [python("raise SystemExit(1)"), python("print(1)", id="second")]
    played = await play("good", commands=commands, elsewhere={"cmd"})
    assert [(item.id, item.outcome) for item in played.record.commands] == [("cmd", "other-era"), ("second", "passed")]


async def test_an_interrupt_ends_the_command_and_keeps_those_before_it(play, tmp_path):
    flag = tmp_path / "begun"
    code = f"import pathlib, time; pathlib.Path({str(flag)!r}).touch(); time.sleep(600)"
    commands = [python("print(1)", id="first"), python(code, id="second")]
    with anyio.CancelScope() as cancelled:
        async with anyio.create_task_group() as tasks:

            async def watch():
                while not flag.exists():
                    await anyio.sleep(0.02)
                cancelled.cancel()

            tasks.start_soon(watch)
            await play("good", commands=commands)
    assert cancelled.cancelled_caught
    (written,) = (tmp_path / "evidence").rglob("run.json")
    record = json.loads(written.read_text())
    assert [item["id"] for item in record["commands"]] == ["first"]
    assert record["outcome"] == "interrupted"


async def test_pytest_runs_by_our_own_interpreter_where_the_project_has_none(play, tmp_path):
    tests = tmp_path / "test_it.py"
    tests.write_text("import os\ndef test_it():\n    assert os.environ['ROLLCALL_SERVER'] == 'good'\n")
    path = os.path.relpath(tests, os.path.dirname(os.path.dirname(__file__)) + "/servers")
    command = CommandSpec(id="pytest", kind="pytest", argv=(path, "-pno:cacheprovider"), place=PLACE)
    (record,) = (await play("good", commands=[command])).record.commands
    assert record.outcome == "passed", record.output
    assert "1 passed" in record.output
