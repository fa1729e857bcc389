"""The Python API with servers over Streamable HTTP: the same calls, ends and records. Ours."""

import pytest

from harness.engine.evidence import read_transcript
from harness.errors import ConfigError, NoAnswer, ServerDied
from harness.model.transcript import HttpRequest, Sent
from harness.testing import start_server

URL = "http://127.0.0.1:${port}/mcp"


@pytest.fixture
def over_http(command):
    def start(*twists, **more):
        return start_server([*command("over_http"), "${port}", *twists], url=URL, call_timeout_s=20, **more)

    return start


@pytest.mark.parametrize("era", ["handshake", "modern", None])
def test_a_server_over_http_is_called_like_any_other(over_http, era):
    with over_http(era=era, elicit="accept") as server, over_http(era=era) as other:
        assert server.call("echo", {"text": "hé"}).text == "hé"
        assert other.call("echo", {"text": "two at a time"}).text == "two at a time"
        assert server.call("ask").text == "accept {'confirm': True}"
    assert server.ended is not None
    assert server.ended.ended_by == "term"


def test_what_becomes_of_a_call_is_told(over_http):
    with over_http("no-answer", era="handshake") as server:
        with pytest.raises((NoAnswer, ServerDied), match="ended without the answer"):
            server.call("echo", {"text": "x"})
    with over_http(era="handshake") as server:
        with pytest.raises(ServerDied) as caught:
            server.call("die")
        assert caught.value.exit_code == 3
        assert "no more" in caught.value.stderr


def test_a_call_of_the_modern_era_is_cancelled_by_closing_its_stream(over_http):
    with over_http(era="modern") as server:
        with pytest.raises(NoAnswer):
            server.call("hang", timeout_s=0.3)
        assert server.call("echo", {"text": "next"}).text == "next"
        events = read_transcript(server.transcript).events
    assert "notifications/cancelled" not in [event.label for event in events if isinstance(event, Sent)]
    assert {event.method for event in events if isinstance(event, HttpRequest)} == {"POST"}


def test_an_address_without_the_port_is_refused(command):
    with pytest.raises(ConfigError, match="begins with"):
        start_server(command("over_http"), url="http://127.0.0.1:8000/mcp")
