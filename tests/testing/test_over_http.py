"""The Python API over Streamable HTTP, in both eras: the same calls, and what goes wrong there only. Ours."""

import sys
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.testing import NoAnswer, ServerDied, ServerError, expect_every_tool_exercised, start_server

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
        with pytest.raises((ServerDied, NoAnswer)):
            server.call("die")
        with pytest.raises(ServerDied):
            server.call("echo", {"text": "x"})


def test_one_that_never_answers_is_told():
    with start_server(SERVER, url=URL, era="handshake") as server, pytest.raises(NoAnswer, match="within 0"):
        server.call("hang", timeout_s=0.3)


def test_one_that_does_not_listen_is_told(command):
    with pytest.raises(ServerError):
        start_server([*command("silent"), "${port}"], url=URL, start_timeout_s=1)


def test_its_url_is_on_a_port_that_is_chosen():
    with pytest.raises(ConfigError, match=r"such as http://127\.0\.0\.1:\$\{port\}/mcp"):
        start_server(SERVER, url="http://127.0.0.1:8080/mcp")


def test_coverage_is_judged_over_http_too():
    with start_server([*SERVER, "only=echo"], url=URL, era="modern") as server:
        server.call("echo", {"text": "x"})
        assert expect_every_tool_exercised(server).succeeded == ("echo",)
