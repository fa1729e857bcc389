"""The Python API for asyncio: any task may close, cancellation ends nothing half way, other loops are told. Ours."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest
import trio

from harness import testing
from harness.engine.evidence import read_transcript
from harness.errors import MisuseError
from harness.findings.frames import read_dialogue
from harness.model.transcript import Diagnostic, Sent, StepEnded
from harness.testing_async import (
    ExpectedError,
    NoAnswer,
    ServerDied,
    expect_every_tool_exercised,
    open_stack,
    start_server,
)

pytestmark = pytest.mark.anyio


async def test_calls_answer_side_by_side(command):
    async with start_server(command("good"), era="modern") as server:
        results = await asyncio.gather(*(server.call("echo", {"text": str(n)}) for n in range(50)))
        assert [result.text for result in results] == [str(n) for n in range(50)]
        assert [call.became for call in server.called] == ["succeeded"] * 50


async def test_an_unexpected_success_is_an_assertion(command):
    async with start_server(command("good"), era="modern") as server:
        with pytest.raises(ExpectedError):
            await server.call("echo", {"text": "x"}, expect_error="x")


async def test_two_are_closed_in_the_order_of_their_start_by_other_tasks(command):
    first = await start_server(command("good"), era="handshake")
    second = await start_server(command("good"), era="modern")
    await asyncio.create_task(first.close())
    assert (await second.call("echo", {"text": "x"})).text == "x"
    await asyncio.create_task(second.close())
    assert first.ended is not None
    assert second.ended is not None


async def test_a_death_reaches_every_call_that_waits(command):
    async with start_server(command("dies_in_call"), era="handshake") as server:
        done = await asyncio.gather(*(server.call("die") for _ in range(3)), return_exceptions=True)
        assert [type(item) for item in done] == [ServerDied] * 3
        assert {item.exit_code for item in done} == {1}


async def test_a_cancelled_call_leaves_a_server_that_answers(command):
    async with start_server(command("good"), era="handshake") as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.call("slow", {"seconds": 0.3}), 0.05)
        assert (await server.call("echo", {"text": "next"})).text == "next"
        assert [call.became for call in server.called] == ["cancelled", "succeeded"]
        sent = [item.label for item in read_transcript(server.transcript).events if isinstance(item, Sent)]
        assert sent[-3:] == ["tools/call slow", "notifications/cancelled", "tools/call echo"]


@pytest.mark.parametrize(
    ("server", "era"), [("cancels", "handshake"), ("over_http", "handshake"), ("over_http", "modern")]
)
async def test_one_of_two_equal_calls_is_cancelled_and_the_other_is_not_called_so(command, server, era, tmp_path):
    """Over HTTP in the modern era no frame says so: the stream of that one request is closed."""
    http = {"url": "http://127.0.0.1:${port}/mcp"} if server == "over_http" else {}
    words = [*command(server), *(["${port}", "cancels"] if http else [])]
    async with start_server(words, era=era, evidence=tmp_path, **http) as running:
        one, other = (asyncio.ensure_future(running.call("slow", timeout_s=1.0)) for _ in range(2))
        while len(running.in_flight) < 2:
            await asyncio.sleep(0.01)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        with pytest.raises(NoAnswer, match="no answer to tools/call slow within 1 s"):
            await other
        assert (await running.call("echo", {"text": "next"})).text == "next"
        assert [call.became for call in running.called] == ["cancelled", "timed-out", "succeeded"]
    calls = [item for item in read_dialogue(read_transcript(running.transcript)).exchanges if item.name == "slow"]
    way = "stream" if (server, era) == ("over_http", "modern") else "notifications/cancelled"
    assert [item.cancelled for item in calls] == [way, way], "the one that timed out was given up in the same way"
    steps = {step.index: ended.how for step, ended in _ends(running.transcript)}
    assert [steps[item.sent.step.index] for item in calls] == ["cancelled", "timed-out"]
    notes = [item for item in read_transcript(running.transcript).events if isinstance(item, Diagnostic)]
    assert [item.request for item in notes if item.what == "timeout"] == [calls[1].id]


def _ends(path):
    return [(item.step, item) for item in read_transcript(path).events if isinstance(item, StepEnded)]


async def test_a_cancelled_close_goes_on_to_its_end(command):
    server = await start_server(command("ignores_stdin_close"), era="handshake")
    closing = asyncio.create_task(server.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    await asyncio.sleep(0.05)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert server.ended is not None
    assert not Path(f"/proc/{server.pid}").exists()


async def test_a_cancelled_start_leaves_no_process(command, tmp_path):
    marker = tmp_path / "started"
    code = f"import pathlib, os, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(600)"
    starting = asyncio.ensure_future(_started([command("good")[0], "-c", code]))
    while not marker.exists() or not marker.read_text():
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not Path(f"/proc/{marker.read_text()}").exists()


async def _started(command):
    return await start_server(command, era="handshake")


async def test_no_answer_is_no_exception_group(command):
    async with start_server(command("never_answers_call"), era="handshake") as server:
        with pytest.raises(NoAnswer):
            await server.call("hang", timeout_s=0.2)


async def test_coverage_asks_for_the_lists_that_are_missing(command):
    async with start_server(command("answers_twice"), era="handshake") as server:
        await server.call("echo", {"text": "x"})
        found = await expect_every_tool_exercised(server)
        assert found.succeeded == ("echo",)


async def test_another_event_loop_is_told(command):
    async with start_server(command("good"), era="handshake") as server:
        seen = []

        def elsewhere():
            try:
                asyncio.run(server.call("echo", {"text": "x"}))
            except MisuseError as error:
                seen.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join, 30)
        assert seen == ["echo: this server was started on another event loop than the one that calls it"]


def test_without_a_loop_of_asyncio_it_is_told(command):
    starting = start_server(command("good"), era="handshake").__await__()
    with pytest.raises(MisuseError, match="no event loop of asyncio runs here"):
        next(starting)


def test_under_trio_everything_that_starts_something_is_one_error_that_says_what_to_do(command):
    """The waits for ports work there as anywhere; `mcp_harness_async` of the plugin does too, and has its own test."""
    ways = [
        lambda: start_server(command("good")),
        lambda: start_server(command("good"), era="modern"),
        lambda: start_server(project="nowhere"),
        lambda: open_stack("redis"),
    ]

    async def entered(make):
        async with make():
            raise AssertionError("it began")

    async def awaited(make):
        return await make()

    for make in ways:
        for use in (entered, awaited):
            with pytest.raises(MisuseError, match="runs on asyncio, and no event loop of asyncio runs here") as caught:
                trio.run(use, make)
            assert "under trio call it by trio.to_thread.run_sync" in caught.value.hint

    async def threaded():
        with await trio.to_thread.run_sync(partial(testing.start_server, command("good"), era="modern")) as server:
            return await trio.to_thread.run_sync(server.call, "echo", {"text": "as the hint says"})

    assert trio.run(threaded).text == "as the hint says"
