"""A server that fails is told for what it did, with its exit code and stderr, and leaves nothing behind. Ours."""

import os
import re
import threading
import time
from pathlib import Path

import pytest

from harness.testing import (
    CoverageError,
    NoAnswer,
    ServerClosed,
    ServerDied,
    ServerError,
    ToolError,
    expect_clean_wire,
    start_server,
)


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_a_server_that_dies_in_a_call_is_told_with_exit_code_and_what_was_in_flight(command):
    with start_server(command("dies_in_call"), era="handshake") as server:
        with pytest.raises(ServerDied, match="ended with exit code 1 while tools/call die waited") as caught:
            server.call("die")
        assert (caught.value.exit_code, caught.value.signal) == (1, None)
        assert caught.value.in_flight == ("tools/call die",)
        assert server.called[-1].became == "died"
        assert not server.healthy
        assert gone(server.pid)
        with pytest.raises(ServerDied, match="echo was not sent: the server ended with exit code 1"):
            server.call("echo", {"text": "too late"})


def test_a_server_that_is_killed_is_told_with_the_signal(command):
    with start_server(command("good"), era="handshake") as server:
        os.kill(server.pid, 9)
        with pytest.raises(ServerDied) as caught:
            server.call("slow", {"seconds": 60})
        assert (caught.value.exit_code, caught.value.signal) == (None, 9)


def test_the_error_of_a_server_that_dies_has_its_stderr(command, tmp_path):
    script = tmp_path / "server.py"
    good = Path(command("good")[1])
    text = f"import sys; sys.path.insert(0, {str(good.parent)!r})\n" + good.read_text(encoding="utf-8")
    script.write_text(text.replace('return text("it failed on purpose", isError=True)', 'sys.exit("no database")'))
    with start_server([command("good")[0], str(script)], era="handshake") as server:
        with pytest.raises(ServerDied, match=r"exit code 1[\s\S]*stderr: no database") as caught:
            server.call("fail")
        assert caught.value.stderr == "no database\n"
        assert server.stderr() == "no database\n"


def test_a_server_that_does_not_answer_is_told_with_what_came_instead(command):
    with start_server(command("answers_as_another"), era="handshake") as server:
        with pytest.raises(
            NoAnswer, match=r"no answer to tools/call echo within 0\.3 s\n[\s\S]*\"id\": null"
        ) as caught:
            server.call("echo", {"text": "hi"}, timeout_s=0.3)
        assert caught.value.timeout_s == 0.3
        assert (server.called[-1].became, server.called[-1].detail) == (
            "timed-out",
            "no answer to tools/call echo within 0.3 s",
        )
        assert not server.healthy
        assert server.ended is None
        said = re.findall(r"within [^ ]* s", server.transcript.read_text(encoding="utf-8"))
        assert set(said) == {"within 0.3 s"}, "the limit that was asked for, not what was left of it"


def test_an_answer_that_comes_late_is_nobody_elses(command):
    with start_server(command("answers_late"), era="handshake") as server:
        with pytest.raises(NoAnswer):
            server.call("late", timeout_s=0.2)
        assert server.call("echo", {"text": "mine"}).text == "mine"


def test_a_second_answer_is_nobody_elses_and_is_found_on_the_wire(command):
    with start_server(command("answers_twice"), era="handshake") as server:
        assert [server.call("echo", {"text": text}).text for text in "abc"] == ["a", "b", "c"]
        with pytest.raises(CoverageError, match="wire/duplicate-reply"):
            expect_clean_wire(server)


def test_a_line_that_breaks_off_is_quoted(command):
    with start_server(command("glued"), era="handshake") as server:
        with pytest.raises(NoAnswer, match=r"Listening on stdio\.\.\.\{"):
            server.call("echo", {"text": "x"}, timeout_s=0.3)


def test_a_server_whose_stdin_a_child_has_taken_is_told_with_the_child(command):
    with (
        start_server(command("child_takes_stdin"), era="handshake") as server,
        pytest.raises(NoAnswer, match=r"it has started, and they run: .*readline[\s\S]*share its stdin"),
    ):
        server.call("echo", {"text": "x"}, timeout_s=4)


def test_a_flood_on_stderr_is_drained_and_kept_as_a_tail(command):
    with start_server(command("floods_stderr"), era="handshake") as server:
        assert server.call("echo", {"text": "hi"}).text == "hi"
        assert 0 < len(server.stderr()) <= 64 * 1024


def test_what_a_server_leaves_behind_is_killed_and_told(command):
    with start_server(command("stdout_held_by_child"), era="handshake") as server:
        with pytest.raises(
            ServerDied, match=r"exit code 3[\s\S]*it left behind, and we killed: .*time\.sleep"
        ) as caught:
            server.call("leave")
        assert len(caught.value.orphans) == 1
    with start_server(command("daemon_child"), era="handshake") as server:
        server.call("echo", {"text": "x"})
    assert server.ended is not None
    assert len(server.ended.orphans) == 1


def test_one_that_gives_no_first_answer_is_told_at_once_with_command_and_variables(command):
    with pytest.raises(
        ServerError, match=r"before its first answer[\s\S]*command: .*dies_at_start[\s\S]*variables: HOME"
    ):
        start_server(command("dies_at_start"))


def test_one_that_stays_silent_at_the_start_is_given_up(command):
    with pytest.raises(ServerError, match=r"no answer to initialize within 0\.3 s"):
        start_server(command("silent"), era="handshake", start_timeout_s=0.3)


def test_a_command_that_is_not_there_is_told():
    with pytest.raises(ServerError, match="no such program"):
        start_server("no-such-program-anywhere --flag")


@pytest.mark.parametrize("shape", ["null", "number", "empty", "content", "block"])
def test_a_malformed_result_is_no_success(command, shape):
    with (
        start_server(command("malformed_result"), era="handshake") as server,
        pytest.raises(ToolError, match="was not answered as it should be: result"),
    ):
        server.call("echo", {"text": shape})


def test_a_call_after_the_close_and_one_that_waits_for_it_are_told_apart_from_a_crash(command):
    server = start_server(command("good"), era="handshake")
    seen = []

    def slow():
        try:
            server.call("slow", {"seconds": 60})
        except ServerClosed as error:
            seen.append(str(error))

    thread = threading.Thread(target=slow)
    thread.start()
    while not server.in_flight:
        time.sleep(0.01)
    server.close()
    thread.join(30)
    assert seen == ["the server was closed while slow waited"]
    with pytest.raises(ServerClosed):
        server.call("echo", {"text": "x"})
    server.close()
