"""The wire session: frames that a server of the official SDK takes in both eras, and whatever raw servers do."""

import json
import sys
import time
from pathlib import Path

import anyio
import pytest

from harness.engine.answers import Answers
from harness.engine.mask import Masker
from harness.engine.record import Recorder
from harness.engine.stdio import open_stdio
from harness.engine.wire import Cancelled, Died, NotSpoken, Refused, TimedOut, WireSession
from harness.model.plan import ProfileSpec

SERVERS = Path(__file__).parent.parent / "servers"
SDK_SERVER = Path(__file__).parent / "sdk_server"

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(tmp_path):
    """Opens sessions; stops their servers at the end."""
    started = []

    async def begin(server, *, era="handshake", elicit=None, args=(), opened=True, profile=None, hook=None):
        recorder = Recorder(
            tmp_path / f"{len(started)}.jsonl", bodies=tmp_path / "bodies", masker=Masker(), began=time.monotonic()
        )
        stdio = await open_stdio(
            [sys.executable, f"{server}.py", *args],
            cwd=SERVERS,
            env={"PATH": "/usr/bin:/bin", "MARK": f"{tmp_path}/"},
            marker=f"{tmp_path}/",
            recorder=recorder,
        )
        started.append(stdio)
        capabilities = None if hook is None else {"elicitation": {"form": {}}}
        profile = profile or ProfileSpec(name="p", elicit=elicit)
        answers = Answers(profile, hook=hook, capabilities=capabilities)
        made = WireSession(stdio, era=era, answers=answers)
        if opened:
            await made.open(timeout_s=20)
        return made

    yield begin
    for stdio in started:
        await stdio.stop(hurry=True)


def sent_lines(transcript):
    """What was sent."""
    events = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    return [event["text"] for event in events if event["e"] == "sent"]


def soon(seconds=5.0):
    return time.monotonic() + seconds


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_server_of_the_official_sdk_is_spoken_to_in_both_eras(session, era):
    wire = await session(SDK_SERVER, era=era, elicit="accept")
    assert wire.server_info["name"] == "sdk"
    assert wire.protocol == {"handshake": "2025-11-25", "modern": "2026-07-28"}[era]
    tools = await wire.list_all("tools/list", "tools", timeout_s=5)
    assert ([tool["name"] for tool in tools.items], tools.problem) == (["echo", "ask"], "")
    for method, key in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
        assert (await wire.list_all(method, key, timeout_s=5)).problem == ""
    echoed = await wire.perform("call", "echo", {"text": "★"}, deadline=soon())
    assert echoed.message["result"]["structuredContent"] == {"result": "★"}
    asked = await wire.perform("call", "ask", {}, deadline=soon())
    assert asked.message["result"]["content"][0]["text"] == "confirm=True"
    assert asked.round == (2 if era == "modern" else 1)
    read = await wire.perform("read_resource", "mem://one", {}, deadline=soon())
    assert read.message["result"]["contents"][0]["text"] == "one"
    prompt = await wire.perform("get_prompt", "greet", {"who": "me"}, deadline=soon())
    assert prompt.message["result"]["messages"][0]["content"]["text"] == "Hello me"


async def test_an_sdk_server_takes_our_cancellation_and_lives_on(session):
    wire = await session(SDK_SERVER)
    wire.notify("notifications/cancelled", {"requestId": 4711, "reason": "a test"})
    assert "result" in await wire.request("ping", label="ping", timeout_s=5)


async def test_requests_in_parallel_get_their_own_answers(session):
    wire = await session("good")
    answers = {}

    async def one(number):
        final = await wire.perform("call", "echo", {"text": str(number)}, deadline=soon())
        answers[number] = final.message["result"]["content"][0]["text"]

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert answers == {number: str(number) for number in range(50)}


async def test_a_late_answer_of_a_cancelled_request_goes_to_nobody(session):
    wire = await session("answers_late")
    with pytest.raises(TimedOut):
        await wire.perform("call", "late", {}, deadline=soon(0.2))
    final = await wire.perform("call", "echo", {"text": "now"}, deadline=soon())
    assert final.message["result"]["content"][0]["text"] == "now"


async def test_a_request_to_a_dead_server_says_how_it_died(session):
    wire = await session("dies_in_call")
    with pytest.raises(Died, match="exit code 1"):
        await wire.perform("call", "die", {}, deadline=soon())
    with pytest.raises(Died, match="exit code 1"):
        await wire.request("ping", label="ping", timeout_s=5)


async def test_a_value_that_is_no_json_is_not_sent(session):
    wire = await session("good")
    with pytest.raises(ValueError, match="JSON"):
        await wire.perform("call", "echo", {"text": float("nan")}, deadline=soon())
    assert "result" in await wire.request("ping", label="ping", timeout_s=5)


async def test_what_no_time_is_left_for_is_not_sent(session):
    """A server cannot be blamed for not answering within less than nothing."""
    wire = await session("good")
    with pytest.raises(TimedOut, match="tools/call echo was not sent"):
        await wire.perform("call", "echo", {"text": "a"}, deadline=time.monotonic())
    assert "result" in await wire.request("ping", label="ping", timeout_s=5)


async def test_lone_surrogates_are_sent_escaped(session):
    wire = await session("good")
    final = await wire.perform("call", "echo", {"text": "a\ud800"}, deadline=soon(1))
    assert "result" in final.message or "error" in final.message


@pytest.mark.parametrize(("args", "problem"), [((), "a second time"), (("new",), "after 500 pages")])
async def test_a_list_without_end_ends_and_says_so(session, args, problem):
    wire = await session("endless_cursor", args=args)
    listing = await wire.list_all("tools/list", "tools", timeout_s=5)
    assert problem in listing.problem


async def test_a_list_that_fails_says_so(session):
    listing = await (await session("list_fails")).list_all("tools/list", "tools", timeout_s=5)
    assert (listing.items, "cannot make a schema" in listing.problem) == ([], True)


async def test_an_era_that_is_not_spoken_is_told_from_a_refusal(session):
    with pytest.raises(NotSpoken, match="-32601"):
        await (await session("banner", era="modern", opened=False)).open(timeout_s=5)
    with pytest.raises(Refused, match="Content-Length"):
        await (await session("content_length", opened=False)).open(timeout_s=5)


async def test_progress_gives_a_call_its_time_again_and_no_more_than_ten_times(session):
    told = ProfileSpec(name="told", progress=True)
    wire = await session("progresses", profile=told, args=("50", "0.1"))
    final = await wire.perform("call", "work", {}, deadline=soon(4.0), limit=soon(120))
    assert final.message["result"]["content"][0]["text"] == "done"
    assert [item.params["progress"] for item in wire.notices] == list(range(50))
    assert {item.target for item in wire.notices} == {"tools/call work"}
    wire = await session("progresses", profile=told, args=("for-ever", "0.05"))
    with pytest.raises(TimedOut):
        await wire.perform("call", "work", {}, deadline=soon(0.4), limit=soon(1.5))
    wire = await session("progresses", profile=told, args=("stands", "0.05"))
    with pytest.raises(TimedOut):
        await wire.perform("call", "work", {}, deadline=soon(0.4), limit=soon(600))
    wire = await session("progresses", args=("1", "0"))
    await wire.perform("call", "work", {}, deadline=soon(30))
    assert list(wire.notices) == []


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_an_answer_may_be_thought_about_while_the_session_goes_on(session, era):
    thinking = anyio.Event()

    async def hook(question):
        await thinking.wait()
        return {"action": "accept"} if question.subject == "ask" else None

    wire = await session("good", era=era, hook=hook)
    async with anyio.create_task_group() as tasks:
        finals = []

        async def ask():
            finals.append(await wire.perform("call", "ask", {}, deadline=soon(30)))

        tasks.start_soon(ask)
        while not wire.prompts and not thinking.is_set():
            await anyio.sleep(0)
            thinking.set()
    assert finals[0].message["result"]["content"][0]["text"] == "accept {'confirm': True}"
    assert [(item.message, item.question.subject, item.reply.by) for item in wire.prompts] == [
        ("Really?", "ask", "the test")
    ]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_cancelled_call_is_told_to_the_server_and_not_waited_for(session, era):
    wire = await session("cancels", era=era)
    with pytest.raises(Cancelled):
        await wire.perform("call", "slow", {}, deadline=soon(30), cancel_after_s=0.05)
    assert "result" in await wire.request("tools/list", label="tools/list", timeout_s=30)


@pytest.mark.parametrize(
    ("profile", "declared"),
    [
        (ProfileSpec(name="plain"), {}),
        (ProfileSpec(name="told", log_level="debug", progress=True), {}),
        (ProfileSpec(name="asking", elicit="cancel"), {"elicitation": {"form": {}}}),
    ],
)
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_first_request_declares_what_the_profile_answers_and_nothing_else(
    session, tmp_path, era, profile, declared
):
    await session("good", era=era, profile=profile)
    sent = [json.loads(line) for line in sent_lines(tmp_path / "0.jsonl")]
    params = sent[0]["params"]
    meta = "io.modelcontextprotocol/clientCapabilities"
    assert (params["capabilities"] if era == "handshake" else params["_meta"][meta]) == declared
    assert ("io.modelcontextprotocol/logLevel" in params.get("_meta", {})) is (
        era == "modern" and profile.log_level is not None
    )
    assert "logging/setLevel" not in [item.get("method") for item in sent]  # the server has not declared logging
