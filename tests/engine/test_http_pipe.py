"""Servers over Streamable HTTP: both eras, what the transport asks of a client, and how it goes wrong."""

import sys
from datetime import date
from pathlib import Path

import pytest

from harness.findings.judge import judge
from harness.model.transcript import Evidence, HttpResponse, Stdout

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:${port}/mcp"


@pytest.fixture
def drive(play, make):
    async def run_it(*twists, cases=None, **more):
        cases = cases or [(make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}),)]
        more = {"call_timeout_s": 5.0, "start_timeout_s": 15.0, **more}
        return await play("over_http", cases, args=("${port}", *twists), url=URL, **more)

    return run_it


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_healthy_server_is_driven_to_the_end_in_both_eras(drive, make, era):
    cases = [
        (make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}),),
        (make.call("ask", expect={"text_equals": "accept {'confirm': True}"}),),
        (make.call("region", {"place": "Koeln"}, expect={"text_equals": "Koeln"}),),
        (make.call("talk", expect={"text_equals": "done"}),),
        (make.call("close", expect={"text_equals": "resumed" if era == "handshake" else ""}),),
    ]
    played = await drive(cases=cases, era=era, elicit="accept")
    assert played.record.errors == ()
    assert played.record.outcome == "finished"
    assert set(played.cases.values()) == {"completed"}
    assert played.record.transport == "http"
    assert played.exits[0].ended_by == "term"
    assert played.of(Stdout)[0].body.text == "a banner on stdout is nobody's business\n"


SDK = Path(__file__).parent / "sdk_server.py"
FORMS = [(), ("json",), ("stateless",), ("stateless", "json")]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form) or "stateful-sse")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_servers_of_the_official_sdk_are_driven_to_the_end(play, make, era, form):
    cases = [
        (make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}),),
        (make.step("read_resource", "mem://one"), make.step("get_prompt", "greet", {"who": "me"})),
    ]
    asks = era == "modern" or not form
    if asks:
        cases.append((make.call("ask", expect={"text_equals": "confirm=True"}),))
    command = (sys.executable, str(SDK), "${port}", *form)
    played = await play(
        "sdk_server",
        cases,
        command=command,
        url=URL,
        era=era,
        elicit="accept",
        start_timeout_s=60.0,
        call_timeout_s=20.0,
        probe=True,
        client=form in ((), ("stateless", "json")),
    )
    assert played.record.errors == ()
    assert set(played.cases.values()) == {"completed"}
    judged = judge(
        played.plan,
        [
            Evidence(
                record=played.record, transcripts=played.transcripts, folder=str(played.folder), client=played.client
            )
        ],
        missing=(),
        today=date(2026, 12, 1),
        rerun=lambda run, name: "again",
    )
    found = [item for item in judged.findings if item.check.partition("/")[0] in ("http", "wire", "process", "client")]
    assert found == []
    own = next(index for index, item in enumerate(played.transcripts) if not item.is_probe)
    headers = [line.lower() for event in played.of(HttpResponse, own) for line in event.headers]
    session = any(line.startswith("mcp-session-id:") for line in headers)
    assert session is (era == "handshake" and "stateless" not in form)
