"""The Python API over Streamable HTTP, in both eras: the same calls, and what goes wrong there only. Ours."""

import json
import sys
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.testing import (
    AnswerLost,
    NoAnswer,
    ServerDied,
    ServerError,
    expect_every_tool_exercised,
    start_server,
)

SERVER = [sys.executable, str(Path(__file__).parent.parent / "servers" / "over_http.py"), "${port}"]
URL = "http://127.0.0.1:${port}/mcp"


@pytest.fixture(scope="module", params=["modern", "handshake"])
def server(request):
    with start_server(SERVER, url=URL, era=request.param, elicit="accept") as found:
        yield found


def test_calls_answers_and_prompts_are_those_of_any_server(server):
    assert server.call("echo", {"text": "Grüße"}).text == "Grüße"
    assert server.call("ask").text
    assert server.prompts[-1].message == "Really?"
    assert "echo" in [tool["name"] for tool in server.tools()]


def test_its_era_is_found_out():
    with start_server(SERVER, url=URL) as server:
        assert server.era == "modern"
        assert server.call("echo", {"text": "x"}).text == "x"


def test_two_have_ports_of_their_own_and_are_closed_in_any_order():
    one, other = start_server(SERVER, url=URL, era="modern"), start_server(SERVER, url=URL, era="modern")
    one.close()
    assert other.call("echo", {"text": "x"}).text == "x"
    other.close()


def test_one_that_dies_in_a_call_is_told():
    with start_server(SERVER, url=URL, era="handshake") as server:
        with pytest.raises(ServerDied) as caught:
            server.call("die")
        assert caught.value.exit_code == 3
        with pytest.raises(ServerDied):
            server.call("echo", {"text": "x"})


LOST = {  # the text of the call -> what came instead of its answer: status, content type, how the body began, words
    "error-status": (500, "text/plain", "Internal Server Error", "HTTP 500, text/plain: 'Internal Server Error'"),
    "html-page": (200, "text/html", "<!doctype html>", "HTTP 200 with an HTML page ('Log in')"),
    "empty": (202, "", "", "HTTP 202, no content type, empty"),
    "no-answer": (200, "text/event-stream", "", "the event stream (HTTP 200, text/event-stream) ended without"),
    "breaks-off": (200, "text/event-stream", "data: {", "the response broke off"),
}


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_an_answer_that_is_lost_is_told_with_what_came_instead_and_the_server_lives_on(era, tmp_path):
    with start_server(SERVER, url=URL, era=era, evidence=tmp_path) as server:
        for text, (status, kind, body, words) in LOST.items():
            with pytest.raises(AnswerLost) as caught:
                server.call("echo", {"text": text})
            lost = caught.value
            assert (lost.status, lost.content_type) == (status, kind)
            assert lost.body.startswith(body) if body else lost.body == ""
            assert words in str(lost)
            assert "the server lives" in str(lost)
            assert isinstance(lost, NoAnswer), "who takes any call without an answer takes this one too"
            assert not isinstance(lost, ServerDied)
            assert server.call("echo", {"text": "on"}).text == "on"
        assert [call.became for call in server.called] == ["lost", "succeeded"] * len(LOST)
        assert server.ended is None
        assert not server.healthy, "a request that it owes an answer makes it one that is better replaced"
        with pytest.raises(AnswerLost, match="HTTP 404"):
            server.request("tools/list", {"cursor": "lost"})
    (transcript,) = tmp_path.glob("*.jsonl")
    events = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    assert [event["how"] for event in events if event["e"] == "step-ended"] == ["lost", "answered"] * len(LOST)
    assert [event["ended_by"] for event in events if event["e"] == "exited"] == ["term"], "it lived to its close"


def test_a_session_that_was_dropped_is_told_by_every_call_until_the_server_is_another():
    with start_server([*SERVER, "drops-session"], url=URL, era="handshake") as server:
        server.call("echo", {"text": "a"})
        for status, words in ((404, "no longer knows the session"), (400, "Missing session")):
            with pytest.raises(AnswerLost, match=words) as caught:
                server.call("echo", {"text": "b"})
            assert caught.value.status == status


def test_one_that_never_answers_is_told():
    with start_server(SERVER, url=URL, era="handshake") as server, pytest.raises(NoAnswer, match="within 0"):
        server.call("hang", timeout_s=0.3)


def test_one_that_does_not_listen_is_told(command):
    with pytest.raises(ServerError):
        start_server([*command("silent"), "${port}"], url=URL, start_timeout_s=1)


def test_a_token_lets_in_and_one_that_is_missing_is_told_with_what_to_do(tmp_path):
    token = "sesame-0penTheD00r-42"
    bearer = {"Authorization": f"Bearer {token}"}
    for era in ("modern", "handshake"):
        with start_server([*SERVER, "auth"], url=URL, era=era, headers=bearer, evidence=tmp_path) as server:
            assert server.call("echo", {"text": "x"}).text == "x"
            assert "let in with ****" in server.stderr()
    assert all(token not in path.read_text(encoding="utf-8") for path in tmp_path.glob("*.jsonl"))
    with pytest.raises(ServerError, match="asks for authorization: HTTP 401") as caught:
        start_server([*SERVER, "auth"], url=URL)
    assert "headers= in start_server" in caught.value.hint


@pytest.mark.parametrize(
    ("headers", "url", "words"),
    [
        ({"Authorization": "Bearer x"}, "", "headers= are for a server over HTTP: give url=, too"),
        ({"Mcp-Session-Id": "x"}, URL, "'Mcp-Session-Id' cannot be sent: the transport sets it itself"),
        ({"Authorization": "Bearer x\ny"}, URL, "'Authorization' cannot be sent: its value is empty, or holds"),
        ({"X-Callback-Url": "http://example.org/x"}, URL, "header X-Callback-Url: .* is refused"),
    ],
)
def test_headers_that_cannot_be_sent_or_lead_elsewhere_start_nothing(headers, url, words):
    with pytest.raises(ConfigError, match=words):
        start_server(SERVER, url=url, headers=headers)


def test_its_url_is_on_a_port_that_is_chosen():
    with pytest.raises(ConfigError, match=r"such as http://127\.0\.0\.1:\$\{port\}/mcp"):
        start_server(SERVER, url="http://127.0.0.1:8080/mcp")


def test_coverage_is_judged_over_http_too():
    with start_server([*SERVER, "only=echo"], url=URL, era="modern") as server:
        server.call("echo", {"text": "x"})
        assert expect_every_tool_exercised(server).succeeded == ("echo",)
