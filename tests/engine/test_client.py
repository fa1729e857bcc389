"""The comparing pass: the official client over our pipes, recorded, bounded, and no danger to the run before it."""

import json
import logging
import os
import stat
import sys
import time

import anyio
import pytest

from harness.engine import client as client_module
from harness.engine.mask import Masker
from harness.model.transcript import ClientSaw, Diagnostic, Exited, Received, Sent, parse_lines

pytestmark = pytest.mark.anyio

PRELUDE = "import os, sys; sys.path.insert(0, '.'); from raw import *\n"
# a hook that sees the requests of any client but ours; the modern era says who asks in each of them
OTHERS = """
seen = []
def is_other(message):
    params = message.get('params') or {}
    if message.get('method') == 'initialize':
        seen.append(params['clientInfo']['name'])
    return seen[-1:] == ['mcp']
"""


def raw(program):
    """The command of a server that is written here."""
    return (sys.executable, "-c", PRELUDE + OTHERS + program)


def of(played, kind):
    return [event for event in played.client.events if isinstance(event, kind)]


def saw(played):
    return [(event.action, event.error) for event in of(played, ClientSaw)]


def words(played):
    return [event.what for event in of(played, Diagnostic)]


@pytest.mark.parametrize(("era", "version"), [("handshake", "2025-11-25"), ("modern", "2026-07-28")])
async def test_it_lists_all_that_a_good_server_has_and_covers_nothing(play, era, version):
    played = await play("good", era=era, client=True)
    assert [item.name for item in played.transcripts] == ["server-1.jsonl"]
    assert played.client.name == "client-1.jsonl"
    assert played.client.complete
    lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
    assert saw(played) == [("connect", ""), *((name, "") for name in lists)]
    assert words(played) == ["client", "client-done"]
    given = [json.loads(event.body.data) for event in of(played, ClientSaw)]
    assert given[0]["protocolVersion"] == version
    assert [tool["name"] for tool in given[1]["tools"]] == ["add", "ask", "echo", "fail", "guarded", "slow"]
    assert given[1]["tools"][0]["outputSchema"]["required"] == ["sum"], "schemas as they are handed out"
    assert "tools/call" not in {event.label for event in of(played, Sent)}
    assert [event.n for event in played.client.events] == list(range(1, len(played.client.events) + 1))


async def test_it_walks_all_pages(play, make):
    played = await play("paged", [(make.call("tool_00"),)], client=True)
    assert len([action for action, _ in saw(played) if action == "tools/list"]) == 2
    names = [tool["name"] for event in of(played, ClientSaw)[1:] for tool in json.loads(event.body.data)["tools"]]
    assert len(names) == 54


async def test_pages_without_end_have_one(play):
    played = await play("endless_cursor", client=True)
    assert words(played)[-1] == "client-done"
    assert 2 <= len(saw(played)) <= 4


async def test_it_is_left_out_where_the_run_does_not_ask_for_it(play):
    played = await play("good")
    assert played.client is None
    assert not (played.folder / "client-1.jsonl").exists()


async def test_it_is_left_out_where_the_era_is_not_spoken_or_the_run_failed(play):
    played = await play("array_output", era="modern", probed=True, client=True)
    assert (played.record.outcome, played.client) == ("not-spoken", None)
    played = await play("dies_at_start", client=True)
    assert (played.record.outcome, played.client) == ("failed", None)


async def test_secrets_are_masked_in_what_the_client_hands_out(play):
    masker = Masker()
    masker.add("Tool echo.")
    played = await play("good", client=True, masker=masker)
    text = (played.folder / "client-1.jsonl").read_text(encoding="utf-8")
    assert "Tool echo." not in text
    assert "Tool add." in text


async def test_a_tool_that_is_left_out_and_why_is_on_the_record_and_not_on_stderr(play, make, capfd):
    cases = [(make.call("echo", {"text": "a"}),)]
    before = [(logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in ("client", "mcp")]
    played = await play("bad_header", cases, era="modern", client=True)
    (line,) = [event.detail for event in of(played, Diagnostic) if event.what == "client-log"]
    assert line.startswith("dropping tool 'scale'")
    assert [tool["name"] for tool in json.loads(of(played, ClientSaw)[1].body.data)["tools"]] == ["echo"]
    assert capfd.readouterr().err == ""
    after = [(logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in ("client", "mcp")]
    assert after == before


async def test_its_exceptions_are_recorded_with_their_text(play, make):
    played = await play("array_output", [(make.call("echo", {"text": "a"}),)], client=True)
    assert saw(played) == [("connect", ""), ("tools/list", "ValidationError")]
    detail = of(played, ClientSaw)[1].detail
    assert "tools.1.outputSchema.type" in detail
    assert "http" not in detail


async def test_a_server_that_does_not_answer_it_ends_in_the_time_that_is_given(play):
    hang = "serve(on=lambda m: is_other(m) and m.get('method') == 'tools/list')"
    began = time.monotonic()
    played = await play("x", command=raw(hang), client=True, call_timeout_s=0.5)
    assert time.monotonic() - began < 10
    assert played.record.outcome == "finished"
    assert saw(played) == [("connect", ""), ("tools/list", "timed-out")]
    assert "notifications/cancelled" in [event.label for event in of(played, Sent)]


async def test_a_server_that_does_not_answer_its_first_request_ends_likewise(play):
    hang = "serve(on=lambda m: is_other(m))"
    played = await play("x", command=raw(hang), client=True, start_timeout_s=1.0)
    assert played.record.outcome == "finished"
    assert saw(played) == [("connect", "timed-out")]
    assert words(played)[-2:] == ["client-done", "closing"]


async def test_a_server_that_dies_under_it_is_on_the_record(play):
    die = "serve(on=lambda m: is_other(m) and m.get('method') == 'tools/list' and os._exit(7))"
    played = await play("x", command=raw(die), client=True)
    assert saw(played) == [("connect", ""), ("tools/list", "MCPError")]
    (exited,) = of(played, Exited)
    assert (exited.code, exited.asked, exited.in_flight) == (7, False, ("tools/list",))


async def test_noise_and_unasked_requests_do_not_stop_it(play):
    noisy = (
        "def on(m):\n"
        '    write(b\'hello\\n\\xff\\n[]\\n{"jsonrpc": "2.0", "id": 9, "method": "roots/list"}\\n\')\n'
        "serve(on=on)"
    )
    played = await play("x", command=raw(noisy), client=True)
    assert saw(played) == [("connect", ""), ("tools/list", "")]
    assert "answer to the server" in [event.label for event in of(played, Sent)]
    assert b"\xff" in [event.body.data for event in of(played, Received)]


async def test_a_server_that_cannot_be_started_again_is_noted_as_not_looked_at(play, tmp_path):
    script = tmp_path / "once"
    body = f"import os\nos.unlink({str(script)!r})\n{PRELUDE}serve()"
    script.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    played = await play("x", command=(str(script),), client=True)
    assert (played.record.outcome, played.record.errors) == ("finished", ())
    assert (saw(played), words(played)) == ([], ["client-failed"])
    assert "could not be started" in of(played, Diagnostic)[0].detail


async def test_an_interruption_ends_its_server_and_keeps_the_run(play, tmp_path):
    hang = "serve(on=lambda m: is_other(m) and m.get('method') == 'tools/list')"

    def asked():
        return [path for path in tmp_path.rglob("client-1.jsonl") if '"tools/list"' in path.read_text()]

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: play("x", command=raw(hang), client=True, call_timeout_s=60.0))
        with anyio.fail_after(20):
            while not asked():
                await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    (path,) = asked()
    transcript = parse_lines(path.name, path.read_text(encoding="utf-8").splitlines())
    assert transcript.complete
    assert "client-done" not in [event.what for event in transcript.events if isinstance(event, Diagnostic)]
    assert json.loads((path.parent / "run.json").read_text(encoding="utf-8"))["outcome"] == "finished"
    with pytest.raises(ProcessLookupError):
        os.kill(transcript.events[0].pid, 0)


async def test_large_lists_go_through_side_files(play):
    large = "serve(tools=[{**ECHO, 'description': 'x' * 400_000}])"
    played = await play("x", command=raw(large), client=True)
    assert saw(played) == [("connect", ""), ("tools/list", "")]
    assert len(of(played, ClientSaw)[1].body.data) > 400_000
    assert (played.folder / "client-1.jsonl").stat().st_size < 100_000


async def test_no_descriptor_is_left_open(play):
    await play("good", client=True)
    before = len(os.listdir("/proc/self/fd"))
    await play("good", client=True)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_an_exception_of_ours_is_told_from_one_of_the_clients():
    sdk = client_module._import_sdk()
    with pytest.raises(ValueError, match="JSON") as ours:
        sdk.parse(b"{")
    assert client_module._is_ours(ours.value), "we called pydantic here"
    with pytest.raises(RuntimeError, match="within an async context") as theirs:
        await sdk.client("http://127.0.0.1:1/").list_tools()
    assert not client_module._is_ours(theirs.value)
