"""The Python API without `await`, on real servers: calls, expectations, faults, the end. Ours."""

import json
import re
import sys
import threading
from pathlib import Path

import pytest

from harness.errors import ConfigError, MisuseError, ServerError
from harness.model.transcript import CaseEnded, CaseStarted, StepEnded, StepStarted
from harness.testing import (
    ExpectedError,
    NoAnswer,
    NoToken,
    ServerClosed,
    ServerDied,
    ToolError,
    begin_case,
    end_case,
    start_server,
)

SERVERS = Path(__file__).parent / "servers"


def command(name):
    return [sys.executable, str(SERVERS / f"{name}.py")]


@pytest.fixture(scope="module", params=["modern", "handshake"])
def good(request):
    with start_server(command("good"), era=request.param) as server:
        yield server


def events(server):
    from harness.engine.evidence import read_transcript

    return read_transcript(server.transcript).events


def test_a_call_gives_text_and_structured_content(good):
    result = good.call("add", {"a": 1, "b": 2})
    assert (result.text, result.structured, result.is_error) == ("3", {"sum": 3}, False)
    assert result.at("/structuredContent/sum") == 3
    assert result.json() == 3


def test_an_error_that_nobody_expects_is_raised_with_tool_arguments_and_text(good):
    with pytest.raises(ToolError, match=r"fail\(\{\}\) failed with isError: 'it failed on purpose'") as caught:
        good.call("fail")
    assert caught.value.text == "it failed on purpose"
    assert caught.value.target == "fail"


@pytest.mark.parametrize("expected", [True, "on purpose", re.compile(r"ON  purpose", re.IGNORECASE | re.VERBOSE)])
def test_an_expected_error_is_an_answer(good, expected):
    if isinstance(expected, re.Pattern):
        expected = re.compile(r"ON\ purpose", expected.flags)
    assert good.call("fail", expect_error=expected).is_error
    assert good.called[-1].became == "refused"


def test_an_expected_error_that_does_not_come_is_an_assertion_that_failed(good):
    with pytest.raises(AssertionError, match="was expected to fail and did not: 'hi'"):
        good.call("echo", {"text": "hi"}, expect_error=True)


def test_an_error_for_another_reason_is_told_with_both(good):
    with pytest.raises(ExpectedError, match=r"not for the stated reason.*'no such key'.*'it failed on purpose'"):
        good.call("fail", expect_error="no such key")


@pytest.mark.parametrize("wrong", ["", 3, re.compile(b"x")])
def test_an_expectation_that_cannot_be_meant_is_refused_before_anything_is_sent(good, wrong):
    before = len(good.called)
    with pytest.raises(MisuseError):
        good.call("fail", expect_error=wrong)
    assert len(good.called) == before


def test_raw_gives_what_came_and_raises_for_no_error(good):
    assert good.raw("fail")["isError"] is True
    assert good.raw("no-such-tool", unlisted=True)["code"] == -32602


def test_a_confirmed_call_is_made_twice_with_the_token_of_the_first_answer(good):
    assert good.confirmed("guarded", {"key": "k"}).text == "deleted k"


def test_a_call_that_gives_no_token_is_not_confirmed(good):
    with pytest.raises(NoToken, match="holds no confirm_token"):
        good.confirmed("echo", {"text": "x"})


def test_lists_resources_and_prompts_are_read(good):
    assert "echo" in [tool["name"] for tool in good.tools()]
    assert good.get_prompt("greet", {"who": "Ada"}).text == "Hello Ada"
    assert good.read_resource(good.list_resources()[0]["uri"]).text


def test_what_is_called_is_recorded_as_steps_of_the_case(tmp_path):
    with start_server(command("good"), era="modern", evidence=tmp_path) as server:
        server.call("echo", {"text": "outside"})
        begin_case("pytest", "tests/test_a.py::test_b")
        server.call("fail", expect_error="purpose")
        server.raw("fail")
        end_case("failed")
        server.call("echo", {"text": "after"})
    found = events(server)
    cases = [(item.case, getattr(item, "how", None)) for item in found if isinstance(item, CaseStarted | CaseEnded)]
    assert cases == [
        ("outside of any test", None),
        ("outside of any test", "completed"),
        ("tests/test_a.py::test_b", None),
        ("tests/test_a.py::test_b", "failed"),
        ("outside of any test", None),
        ("outside of any test", "completed"),
    ]
    steps = [item for item in found if isinstance(item, StepStarted)]
    assert [(step.target, step.expect, step.open) for step in steps] == [
        ("echo", {"is_error": False}, None),
        ("fail", {"is_error": True, "text_contains": ["purpose"]}, None),
        ("fail", {}, True),
        ("echo", {"is_error": False}, None),
    ]
    assert [item.how for item in found if isinstance(item, StepEnded)] == ["answered"] * 4
    assert server.transcript.parent == tmp_path
    assert re.fullmatch(r"outside-pytest-\d{8}T\d{6}\.\d{6}-[0-9a-f]{8}\.jsonl", server.transcript.name)
    json.dumps(found[0].argv)


def test_a_server_that_dies_in_a_call_is_told_with_its_exit_code_and_stderr():
    with start_server(command("dies_in_call"), era="handshake") as server:
        with pytest.raises(ServerDied) as caught:
            server.call("die")
        assert (caught.value.exit_code, caught.value.signal) == (1, None)
        assert caught.value.in_flight == ("tools/call die",)
        assert not server.healthy
        with pytest.raises(ServerDied):
            server.call("die")


def test_a_server_that_stays_silent_is_told_and_lives():
    with start_server(command("never_answers_call"), era="handshake") as server:
        with pytest.raises(NoAnswer, match="no answer to tools/call"):
            server.call("hang", timeout_s=0.2)
        assert not server.healthy
        assert server.ended is None
    assert server.ended is not None


def test_a_server_that_gives_no_first_answer_is_told_with_its_command():
    with pytest.raises(ServerError, match=r"exit code .* before its first answer[\s\S]*command: .*dies_at_start"):
        start_server(command("dies_at_start"), era="modern")


def test_a_server_may_not_be_pointed_at_what_is_not_its_stack():
    with pytest.raises(ConfigError, match="API_URL"):
        start_server(command("good"), env={"API_URL": "https://api.example.org"})


def test_two_servers_are_closed_in_the_order_of_their_start():
    before = set(threading.enumerate())
    first, second = start_server(command("good"), era="modern"), start_server(command("good"), era="handshake")
    first.close()
    assert second.call("echo", {"text": "still here"}).text == "still here"
    second.close()
    with pytest.raises(ServerClosed):
        second.call("echo", {"text": "no more"})
    assert set(threading.enumerate()) == before


def test_what_is_shown_of_a_result_hides_secrets_and_the_result_does_not():
    secret = "correct-horse-battery-staple"
    with start_server(command("good"), era="modern", env={"API_TOKEN": secret}) as server:
        result = server.call("echo", {"text": f"<{secret}>"})
    assert result.text == f"<{secret}>"
    assert secret not in repr(result)
    assert repr(result).startswith("Result(text='<****")
