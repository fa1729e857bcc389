"""Servers over Streamable HTTP: both eras, what the transport asks of a client, and how it goes wrong."""

import os
import socket
import sys
from datetime import date
from pathlib import Path

import pytest
from mcp.shared.inbound import decode_header_value

from harness.engine.http_pipe import encode_header, open_http
from harness.engine.http_record import header_lines
from harness.engine.listeners import listeners
from harness.engine.mask import Masker
from harness.engine.record import Recorder
from harness.engine.start import free_port
from harness.errors import ServerError
from harness.findings.judge import judge
from harness.model.transcript import Evidence, HttpRequest, HttpResponse, Stdout

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


async def test_what_kept_a_request_from_its_answer_is_told_and_the_next_case_gets_a_fresh_server(drive, make):
    echo = (make.call("echo", {"text": "a"}),)
    played = await drive("drops-session", cases=[echo, echo, echo], call_timeout_s=20.0)
    assert list(played.cases.values()) == ["completed", "lost", "completed"]
    assert [word for word in played.words if word in ("session-lost", "lost", "restarted")] == [
        "session-lost",
        "lost",
        "restarted",
    ]
    assert [event.method for event in played.of(HttpRequest, 0)].count("DELETE") == 0, "there is no session to end"
    assert [event.method for event in played.of(HttpRequest, 1)].count("DELETE") == 1


async def test_a_server_that_dies_in_mid_stream_is_named_with_its_exit_code_and_stderr(drive, make):
    played = await drive(cases=[(make.call("die"),), (make.call("echo", {"text": "a"}),)], call_timeout_s=20.0)
    assert list(played.cases.values()) == ["died", "completed"]
    assert (played.exits[0].code, played.exits[0].asked, played.exits[0].ended_by) == (3, False, "itself")
    assert played.stderr[0].body.text == "no more\n"
    assert "soon" in played.lines[2], "what came before is on record"


async def test_a_server_of_the_transport_before_this_one_is_named(drive):
    played = await drive("legacy")
    (error,) = played.record.errors
    assert "HTTP+SSE, the transport of protocol version 2024-11-05" in error["message"]
    assert "Streamable HTTP" in error["hint"]


async def test_a_server_that_asks_for_authorization_is_named_with_what_it_asks_for(drive):
    played = await drive("auth", probed=True)
    (error,) = played.record.errors
    assert "asks for authorization: HTTP 401, WWW-Authenticate: 'Bearer" in error["message"]
    assert "well-known" in [event.probe for event in played.of(HttpRequest)]


async def test_a_process_that_ends_before_it_listens_ends_the_wait_at_once(drive):
    played = await drive("dies-at-start", start_timeout_s=600.0)
    (error,) = played.record.errors
    assert "ended with exit code 1 before its first answer" in error["message"]
    assert "no configuration" in error["log"]


async def test_a_port_that_somebody_else_holds_is_told_with_who_that_is(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        assert [item.address for item in listeners(port)] == [f"127.0.0.1:{port}"]
        assert os.getpid() in listeners(port)[0].pids
        recorder = Recorder(tmp_path / "t.jsonl", bodies=tmp_path, masker=Masker(), began=0.0)
        with pytest.raises(ServerError, match=f"the port {port}.* has been taken by process {os.getpid()} "):
            await open_http(
                ["true"], url=f"http://127.0.0.1:{port}/mcp", cwd=tmp_path, env={}, marker="m", recorder=recorder
            )
        recorder.close()


def test_a_free_port_is_free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))


def test_headers_that_hold_credentials_are_kept_without_them():
    sent = [(b"Authorization", b"Bearer abc"), (b"Cookie", b"a=b"), (b"X-Api-Key", b"k"), (b"Accept", b"text/html")]
    assert header_lines(sent) == ("Authorization: Bearer ***", "Cookie: ***", "X-Api-Key: *", "Accept: text/html")
    more = [
        (b"authorization", b"bare"),
        (b"Private-Token", b"t"),
        (b"Location", b"http://u:p@h/?code=12&page=3#token=4"),
    ]
    masked = ("authorization: ****", "Private-Token: *", "Location: http://***@h/?code=**&page=3#token=*")
    assert header_lines(more) == masked
    own = [(b"Mcp-Session-Id", b"abc"), (b"Mcp-Param-Token", b"t"), (b"Mcp-Name", b"key")]
    assert header_lines(own) == ("Mcp-Session-Id: abc", "Mcp-Param-Token: t", "Mcp-Name: key")
    assert header_lines(own, sessions=True) == ("Mcp-Session-Id: ***", "Mcp-Param-Token: t", "Mcp-Name: key")


@pytest.mark.parametrize("value", ["plain", "with blank", " edge", "grün", "=?base64?eA==?=", "", "new\nline"])
def test_a_header_carries_any_value_as_the_sdk_reads_it(value):
    encoded = encode_header(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert decode_header_value(encoded) == value
