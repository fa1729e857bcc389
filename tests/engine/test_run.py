"""Whole runs of the fixture servers, judged by their transcripts alone."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from harness.engine.evidence import read_evidence
from harness.engine.mask import Masker
from harness.engine.run import MAX_RESTARTS
from harness.engine.stack import Stack
from harness.findings.steps import view_run
from harness.model.plan import AnswerSpec, ProfileSpec, RootSpec
from harness.model.transcript import (
    Diagnostic,
    Exited,
    Prompted,
    Received,
    Sent,
    Spawned,
    Stderr,
    StepEnded,
    StepStarted,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_good_server_is_driven_to_the_end_in_both_eras(play, make, era):
    cases = [
        (make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}), make.call("add", {"a": 1, "b": 2})),
        (make.call("fail", expect={"is_error": True, "text_contains": ("on purpose",)}),),
        (make.call("guarded", {"key": "k"}, confirm=True, expect={"text_equals": "deleted k"}),),
        (make.call("ask", expect={"text_equals": "accept {'confirm': True}"}),),
        (make.step("read_resource", "mem://one"), make.step("get_prompt", "greet", {"who": "me"})),
    ]
    played = await play("good", cases, era=era, elicit="accept")
    assert played.record.outcome == "finished"
    assert played.record.errors == ()
    assert set(played.cases.values()) == {"completed"}
    assert set(played.ends) == {"answered"}
    assert played.record.server_info["name"] == "fixture"
    assert played.record.protocol == {"handshake": "2025-11-25", "modern": "2026-07-28"}[era]
    assert played.exits[0].ended_by == "stdin-close"
    assert played.exits[0].orphans == ()
    labels = [event.label for event in played.of(Sent)]
    assert {"tools/list", "prompts/list", "resources/list", "resources/templates/list"} <= set(labels)
    ids = [
        message["id"] for text in played.sent if (message := _json(text)) and "method" in message and "id" in message
    ]
    assert ids[:3] == [1, 0, "2"], "what takes 0 for no id can begin"
    assert {type(item) for item in ids} == {int, str}
    assert any("hé ★" in text for text in played.sent), "raw UTF-8 is sent"
    assert [event.n for event in played.events] == list(range(1, len(played.events) + 1))
    assert [event.at for event in played.of(Received)][:2] == [0, len(played.of(Received)[0].body.data) + 1]


@pytest.mark.parametrize(
    ("elicit", "said"),
    [
        ("accept", "accept {'confirm': True}"),
        ("decline", "decline None"),
        ("cancel", "cancel None"),
        (None, "cannot ask"),
    ],
)
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_elicitation_is_answered_as_the_profile_says(play, make, era, elicit, said):
    expect = {"text_contains": (said,), "is_error": elicit is None}
    played = await play("good", [(make.call("ask", expect=expect),)], era=era, elicit=elicit)
    assert played.cases == {"case-0": "completed"}
    assert played.words == []
    prompts = [
        (item.method, item.target, item.message, item.mode, item.answer["result"], item.by, str(item.step))
        for item in played.of(Prompted)
    ]
    answer = {"action": elicit, **({"content": {"confirm": True}} if elicit == "accept" else {})}
    asked = ("elicitation/create", "tools/call ask", "Really?", "form", answer, "elicit", "suite/case-0 step 1")
    assert prompts == ([] if elicit is None else [asked])


async def test_the_expected_order_of_events_in_one_step(play, make):
    played = await play("good")
    kinds = [type(event) for event in played.events if isinstance(event, StepStarted | Sent | Received | StepEnded)]
    begin = kinds.index(StepStarted)
    assert kinds[begin : begin + 4] == [StepStarted, Sent, Received, StepEnded]
    received = played.of(Received)[-1]
    assert received.in_flight == ("tools/call echo",)


# --- what servers do to stdout --------------------------------------------------------------------


async def test_a_banner_is_recorded_and_the_run_goes_on(play):
    played = await play("banner")
    first = played.of(Received)[0]
    assert (first.body.text, first.at) == ("Server running on stdio", 0)
    assert first.in_flight in ((), ("initialize",))  # it may come before we have said anything
    assert played.record.outcome == "finished"
    assert played.record.errors == ()


async def test_noise_between_replies_does_not_stop_the_calls(play):
    played = await play("noise")
    assert sum("INFO" in line for line in played.lines) >= 36
    assert played.cases == {"case-0": "completed"}
    noise = [event for event in played.of(Received) if "INFO" in event.body.text]
    assert ("tools/call echo",) in {event.in_flight for event in noise}


async def test_lsp_framing_ends_the_start_soon_and_with_its_name(play):
    played = await play("content_length", start_timeout_s=30)
    (error,) = played.record.errors
    assert error["kind"] == "server"
    assert "Content-Length" in error["message"]
    assert played.lines[0].startswith("Content-Length:")


async def test_blank_lines_batches_crlf_and_bytes_that_are_not_utf8_are_kept_as_they_came(play):
    assert {"", "  "} <= set((await play("blank_lines")).lines)
    assert any(line.startswith("[") for line in (await play("batch")).lines)
    crlf = await play("crlf")
    assert crlf.cases == {"case-0": "completed"}
    assert all(event.body.data.endswith(b"\r") for event in crlf.of(Received))
    latin = await play("not_utf8")
    assert "Gerät".encode("latin-1") in [event.body.data for event in latin.of(Received)]
    assert latin.cases == {"case-0": "completed"}


@pytest.mark.parametrize("server", ["nan", "duplicate_key", "not_jsonrpc", "answers_twice", "unknown_id"])
async def test_odd_messages_neither_stop_nor_hang_the_run(play, server):
    played = await play(server)
    assert played.record.outcome == "finished"
    assert played.ends == ["answered"]


async def test_a_second_answer_and_a_strangers_answer_are_in_the_transcript(play):
    twice = await play("answers_twice")
    answers = [_json(line)["id"] for line in twice.lines if "hé" in line]
    assert len(answers) == 2
    assert answers[0] == answers[1]
    assert any(_json(line).get("id") == 987654 for line in (await play("unknown_id")).lines)


async def test_an_id_of_another_type_still_ends_the_call(play):
    played = await play("string_id_as_number", [(_echo(),), (_echo(),), (_echo(),)])
    assert played.ends == ["answered"] * 3
    sent = [_json(text)["id"] for text in played.sent if '"tools/call"' in text]
    got = [_json(line)["id"] for line in played.lines if "hé" in line]
    assert [str(item) for item in sent] == [str(item) for item in got]
    assert sent != got


async def test_a_broken_line_is_tried_at_the_end_and_its_answer_is_on_record(play):
    played = await play("error_with_old_id", probe=True)
    (probe,) = [event for event in played.of(Sent) if event.label == "probe/broken-json"]
    after = [event for event in played.of(Received) if event.n > probe.n]
    errors = [_json(event.body.text) for event in after if "error" in event.body.text]
    pings = [_json(text)["id"] for text in played.sent if '"ping"' in text and '"2.0"' in text]
    assert [error["id"] for error in errors] == pings[-1:]
    assert played.record.outcome == "finished"
    assert [transcript.name for transcript in played.transcripts] == ["server-1.jsonl", "probe-1.jsonl"]
    assert not any(event.label == "probe/broken-json" for event in played.of(Sent, 0))


@pytest.mark.parametrize("server", ["naive", "streaming", "crlf"])
async def test_the_process_that_is_probed_costs_little_whatever_it_does(play, server):
    played = await play(server, probe=True)
    assert played.cases == {"case-0": "completed"}
    assert [gone.ended_by for gone in played.of(Exited, 0)] == ["stdin-close"]


async def test_a_reply_whose_tail_is_missing_times_out_with_what_came(play):
    played = await play("tail_not_flushed", call_timeout_s=1.0)
    assert played.cases == {"case-0": "timed-out"}
    note = next(event for event in played.of(Diagnostic) if event.what == "partial-line")
    assert note.detail.startswith("16384 bytes came without a newline")
    tail = next(event for event in played.of(Received) if event.end == "none")
    assert len(tail.body.data) == 16384
    assert tail.in_flight == ("tools/call echo",)


async def test_bytes_without_newline_at_the_end_are_kept(play):
    played = await play("partial_at_exit")
    last = played.of(Received)[-1]
    assert (last.end, last.body.text, last.in_flight) == ("none", "bye", ())


async def test_an_endless_line_is_cut_and_the_server_replaced(play, make):
    played = await play("endless_line", [(_echo(),), ()], call_timeout_s=30)
    cut = next(event for event in played.of(Received) if event.end == "cut")
    assert set(cut.body.text) == {"x"}
    assert cut.in_flight == ("tools/call echo",)
    assert len(played.cut) == 1
    assert played.cases["case-0"] == "died"
    assert len(played.transcripts) == 2
    assert played.exits[0].waited_s < 4


async def test_three_hundred_kilobytes_of_stderr_before_each_reply_pass(play):
    played = await play("floods_stderr")
    assert played.cases == {"case-0": "completed"}
    (tail,) = played.stderr
    assert tail.size >= 300_000 * 3
    assert len(tail.body.data) == 64 * 1024
    assert tail.body.text.endswith("line of a log\n")


async def test_a_deeply_nested_answer_ends_its_call(play, make):
    played = await play("deep", [(make.call("deep"),), (_echo(),)])
    assert played.ends == ["answered", "answered"]
    assert played.cases["case-1"] == "completed"
    assert len(played.transcripts) == 1


@pytest.mark.parametrize("shape", ["null", "number", "empty", "content", "block"])
async def test_malformed_results_are_answers(play, make, shape):
    played = await play("malformed_result", [(make.call("echo", {"text": shape}),)])
    assert played.ends == ["answered"]


# --- the life of the process ----------------------------------------------------------------------


async def test_a_server_that_dies_at_start_is_noticed_at_once(play):
    played = await play("dies_at_start", start_timeout_s=30)
    assert played.record.outcome == "failed"
    (error,) = played.record.errors
    assert error["kind"] == "server"
    assert "exit code 1" in error["message"]
    assert "dies_at_start.py" in error["message"]
    assert "PATH" in error["message"]
    assert "API_TOKEN is missing" in error["log"]
    assert " ms " in error["log"]


async def test_a_silent_server_fails_after_the_start_timeout(play):
    played = await play("silent", start_timeout_s=0.5)
    (error,) = played.record.errors
    assert "no answer to initialize within 0.5 s" in error["message"]
    assert not any("cancelled" in text for text in played.sent)


@pytest.mark.parametrize(
    ("command", "said"),
    [(("no-such-program",), "no such program"), (("./good.py",), "not executable"), (("./missing",), "no such file")],
)
async def test_a_command_that_cannot_start_is_an_error_that_says_why(play, command, said):
    played = await play("good", command=command)
    assert played.record.outcome == "failed"
    assert said in played.record.errors[0]["message"]


async def test_a_server_that_dies_in_a_call_is_replaced_and_the_rest_goes_on(play, make):
    cleanup = (_echo(),)
    cases = [make.case("kills", make.call("die"), _echo(), cleanup=cleanup), make.case("next", _echo())]
    played = await play("dies_in_call", cases)
    assert played.cases == {"kills": "died", "next": "completed"}
    first, second = played.transcripts
    (gone,) = [event for event in first.events if isinstance(event, Exited)]
    assert (gone.code, gone.asked, gone.ended_by, gone.in_flight) == (1, False, "itself", ("tools/call die",))
    assert [event.body.data for event in first.events if isinstance(event, Stderr)] == [b""]
    cleaned = [event.step.phase for event in second.events if isinstance(event, StepEnded)]
    assert cleaned == ["cleanup", "step"]
    assert any(isinstance(event, Diagnostic) and event.what == "restarted" for event in second.events)


async def test_a_non_ascii_answer_that_kills_the_server_leaves_its_last_words(play):
    played = await play("dies_on_non_ascii")
    assert played.exits[0].code == 1
    assert played.exits[0].in_flight == ("tools/call echo",)
    assert "UnicodeEncodeError" in played.stderr[0].body.text


async def test_a_call_without_answer_is_cancelled_and_the_rest_goes_on(play, make):
    played = await play("never_answers_call", [(make.call("hang", timeout_s=0.3),), (_echo(),)])
    assert played.ends == ["timed-out", "answered"]
    cancelled = [_json(text) for text in played.sent if "notifications/cancelled" in text]
    hung = next(_json(text) for text in played.sent if '"hang"' in text)
    assert [message["params"]["requestId"] for message in cancelled] == [hung["id"]]
    assert "timeout" in played.words
    assert played.cases == {"case-0": "timed-out", "case-1": "completed"}


@pytest.mark.parametrize(
    ("server", "children", "reading"), [("child_reads_to_the_end", "'cat'", True), ("good", "", 0)]
)
async def test_what_runs_under_a_server_that_hangs_is_noted(play, make, server, children, reading):
    step = make.call("slow" if server == "good" else "echo", {"seconds": 60, "text": ""}, timeout_s=0.5)
    played = await play(server, [(step,)])
    notes = {event.what: event.detail for event in played.of(Diagnostic)}
    assert notes.get("children", "") == children
    assert ("shares-stdin" in notes) is bool(reading)
    assert notes["closing"] == "its stdin was closed"


async def test_the_launcher_of_a_server_is_none_of_its_children(play, make):
    """The server itself runs under it, and has its stdin by right."""
    command = ("sh", "-c", f"{sys.executable} good.py; exit 0")
    played = await play("launched", [(make.call("slow", {"seconds": 60}, timeout_s=0.5),)], command=command)
    assert not {"children", "shares-stdin"} & set(played.words)


async def test_a_server_that_ends_after_its_answer_is_replaced_before_the_next_case(play):
    played = await play("ends_after_answer", [(_echo(),)] * 5)
    assert set(played.cases.values()) == {"completed"}
    assert len(played.transcripts) == 5
    open_ones = [gone.in_flight for gone in played.exits]
    assert [list(labels) for labels in open_ones if labels] == [["tools/call echo"]] * played.words.count("not-read")


async def test_a_case_does_not_begin_again_in_its_middle(play):
    played = await play("ends_after_answer", [(_echo(), _echo()), (_echo(),)])
    assert played.cases == {"case-0": "died", "case-1": "completed"}
    assert played.ends.count("retried") == 0


async def test_only_the_first_server_of_a_run_is_asked_with_the_id_0(play, make):
    played = await play("takes_zero_for_none", [(_echo(),), (_echo(),)], call_timeout_s=0.5)
    assert played.ends == ["answered", "answered"]
    ids = [[_json(event.body.text).get("id") for event in played.of(Sent, index)] for index in range(2)]
    assert 0 in ids[0]
    assert 0 not in ids[1]


async def test_a_case_has_a_time_of_its_own(play, make):
    step = make.call("slow", {"seconds": 0.4})
    played = await play("good", [make.case("slow", step, step, step, timeout_s=0.6), make.case("next", _echo())])
    assert played.cases == {"slow": "timed-out", "next": "completed"}
    over = next(event for event in played.of(StepEnded) if event.how == "timed-out")
    assert over.detail == "no answer to tools/call slow before the 0.6 s of the case were over"


async def test_a_server_that_ignores_the_close_of_stdin_is_terminated(play):
    played = await play("ignores_stdin_close")
    (gone,) = played.exits
    assert (gone.ended_by, gone.asked, gone.code) == ("term", True, -15)
    assert 5 <= gone.waited_s < 8


async def test_a_server_that_ignores_sigterm_too_is_killed(play):
    (gone,) = (await play("ignores_term")).exits
    assert (gone.ended_by, gone.code) == ("kill", -9)


@pytest.mark.parametrize(
    ("server", "left"),
    [("launcher", "time.sleep(300)"), ("daemon_child", "time.sleep(300)"), ("daemon_cleared", "sleep 403")],
)
async def test_what_a_server_leaves_behind_is_found_named_and_killed(play, server, left):
    (gone,) = (await play(server)).exits
    assert gone.ended_by == "stdin-close"
    (orphan,) = gone.orphans
    assert left in orphan.command
    assert not os.path.exists(f"/proc/{orphan.pid}") or _zombie(orphan.pid)


async def test_a_launcher_hands_everything_through(play, tmp_path):
    script = f"{sys.executable} banner.py; echo ended >&2"
    played = await play("launched", command=("sh", "-c", script))
    assert played.cases == {"case-0": "completed"}
    assert played.exits[0].orphans == ()
    assert played.stderr[0].body.text == "ended\n"


async def test_a_child_that_holds_stdout_does_not_hide_the_exit(play, make):
    played = await play("stdout_held_by_child", [(make.call("leave"),), (_echo(),)], call_timeout_s=30)
    assert played.ends == ["died", "answered"]
    assert played.exits[0].code == 3
    assert len(played.exits[0].orphans) == 1


async def test_a_server_that_stops_reading_cannot_block_us(play, make):
    steps = _echo(), make.call("echo", {"text": "x" * 2_000_000}), _echo()
    played = await play("stops_reading", [steps, (_echo(),)], call_timeout_s=0.5)
    assert played.ends == ["answered", "timed-out", "answered"]
    assert "write-blocked" in played.words


async def test_a_server_that_dies_of_every_call_is_not_restarted_for_ever(play, make):
    played = await play("dies_in_call", [(make.call("die"),) for _ in range(MAX_RESTARTS + 5)])
    assert played.record.outcome == "failed"
    (error,) = played.record.errors
    assert (error["kind"], f"restarted {MAX_RESTARTS} times" in error["message"]) == ("server", True)
    assert len(played.transcripts) == MAX_RESTARTS + 1


async def test_a_server_that_cannot_be_restarted_fails_the_run(play, make, tmp_path):
    flag = tmp_path / "died"
    script = f"import os, runpy; os.path.exists({str(flag)!r}) and os._exit(4); open({str(flag)!r}, 'w').close(); "
    script += "runpy.run_path('dies_in_call.py')"
    command = (sys.executable, "-c", "import sys; sys.path.insert(0, '.'); " + script)
    played = await play("good", [(make.call("die"),), (_echo(),)], command=command)
    assert played.record.outcome == "failed"
    assert "failed 3 times in a row" in played.record.errors[0]["message"]
    assert len(played.transcripts) == 4


async def test_a_cancelled_run_writes_its_evidence(play, make, tmp_path, scope):
    with anyio.move_on_after(1) as cancelled:
        await play("good", [(make.call("slow", {"seconds": 60}),)], call_timeout_s=60)
    assert cancelled.cancelled_caught
    (run_file,) = (tmp_path / "evidence").rglob("run.json")
    assert json.loads(run_file.read_text())["outcome"] == "interrupted"
    assert (run_file.parent / "done").exists()
    lines = (run_file.parent / "server-1.jsonl").read_text().splitlines()
    assert [json.loads(line)["e"] for line in lines][-4:] == ["case-ended", "diagnostic", "stderr", "exited"]


# --- eras -----------------------------------------------------------------------------------------


async def test_a_probed_era_that_is_not_spoken_is_no_error(play):
    played = await play("banner", era="modern", probed=True)
    assert played.record.outcome == "not-spoken"
    assert played.record.errors == ()
    assert played.words == ["not-spoken"]


async def test_a_probed_server_that_dies_of_discover_does_not_speak_modern(play):
    assert (await play("dies_at_start", era="modern", probed=True)).record.outcome == "not-spoken"


async def test_a_declared_era_that_is_not_spoken_is_an_error(play):
    played = await play("banner", era="modern")
    assert played.record.outcome == "failed"
    assert "does not speak the modern era" in played.record.errors[0]["message"]


async def test_input_that_is_required_for_ever_ends(play):
    played = await play("input_loop", era="modern", elicit="accept")
    assert sum('"tools/call"' in text for text in played.sent) == 11
    assert "input-required" in played.words
    assert played.cases == {"case-0": "stopped"}


async def test_undeclared_wishes_of_the_server_are_refused_and_a_ping_is_answered(play):
    played = await play("elicits_undeclared")
    text = next(line for line in played.lines if "sampling/createMessage: " in line)
    for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
        assert f"{method}: -32601" in text
    assert "ping: {}" in text


# --- listing --------------------------------------------------------------------------------------


async def test_all_pages_are_listed(play):
    played = await play("paged", [])
    names = [tool["name"] for line in played.lines for tool in (_json(line).get("result") or {}).get("tools", ())]
    assert len(names) == 54


@pytest.mark.parametrize(("args", "pages"), [((), 2), (("new",), 500)])
async def test_a_cursor_without_end_has_an_end(play, args, pages):
    played = await play("endless_cursor", [], args=args)
    assert sum(event.label == "tools/list" for event in played.of(Sent)) == pages
    assert played.record.outcome == "finished"


async def test_a_list_that_fails_does_not_stop_the_cases(play):
    assert (await play("list_fails")).cases == {"case-0": "completed"}


# --- environment, guard, secrets ------------------------------------------------------------------


async def test_a_server_sees_the_base_list_and_what_was_declared_and_nothing_else(play, make, monkeypatch):
    monkeypatch.setenv("ROLLCALL_TEST_CANARY", "leaked")
    played = await play("shows_environment", [(make.call("names"),)], env={"DECLARED": "x"})
    names = next(_json(line) for line in played.lines if "DECLARED" in line)["result"]["content"][0]["text"].split("\n")
    base = {"HOME", "LANG", "LC_ALL", "PATH", "PYTHONUNBUFFERED", "TMPDIR", "XDG_RUNTIME_DIR"}
    xdg = {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}
    assert set(names) - {"LC_CTYPE"} == base | xdg | {"DECLARED"}
    assert set(played.of(Spawned)[0].env) == base | xdg | {"DECLARED"}
    bare = await play("shows_environment", [(make.call("names"),)])
    assert not any("CANARY" in line for line in bare.lines)


async def test_a_server_that_points_elsewhere_is_not_started(play):
    played = await play("good", env={"REDIS_URL": "redis://localhost:6379"})
    assert played.record.outcome == "failed"
    assert played.record.errors[0]["kind"] == "config"
    assert "REDIS_URL" in played.record.errors[0]["message"]
    assert played.transcripts == ()


async def test_placeholders_reach_command_environment_and_arguments(play, make):
    stack = Stack(values={"backend.db.url": "redis://127.0.0.1:6379"}, addresses=(("127.0.0.1", 6379),), versions={})
    step = make.call("value", {"text": "DB"}, expect={"text_equals": "${backend.db.url}"})
    played = await play("shows_environment", [(step,)], env={"DB": "${backend.db.url}"}, stack=stack)
    assert played.cases == {"case-0": "completed"}
    lost = await play("good", env={"A": "${env.NO_SUCH_VARIABLE}"})
    assert "NO_SUCH_VARIABLE" in lost.record.errors[0]["message"]


async def test_secrets_reach_no_file(play, make, monkeypatch):
    monkeypatch.setenv("ROLLCALL_TEST_SECRET", "from-the-caller-9")
    masker = Masker(["made-by-the-stack-7"])
    secrets = ("from-the-caller-9", "declared-token-5", "made-by-the-stack-7")
    env = {"A": "${env.ROLLCALL_TEST_SECRET}", "API_TOKEN": "declared-token-5"}
    steps = [make.call("echo", {"text": secret}, expect={"text_equals": secret}) for secret in secrets]
    played = await play("good", [steps], env=env, masker=masker)
    assert played.cases == {"case-0": "completed"}
    for path in played.folder.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_text() for secret in secrets), path
    assert any("*" * len("declared-token-5") in line for line in played.lines)


async def test_logs_of_the_stack_are_kept(play):
    async def logs():
        return {"redis@8/Server": b"ready"}

    played = await play("good", stack=Stack(values={}, versions={}, logs=logs))
    assert [path.read_bytes() for path in (played.folder / "logs").iterdir()] == [b"ready"]


def _zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _json(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _echo():
    from harness.model.plan import Place, StepSpec

    place = Place(file="suite.toml", line=1)
    return StepSpec(action="call", target="echo", arguments={"text": "hé ★ тест"}, place=place)


@pytest.mark.parametrize("uri", ["file:///etc", "file://${tmp}/../../../etc"])
async def test_a_server_is_not_told_of_a_folder_outside_of_its_run(play, uri):
    played = await play("good", profile=ProfileSpec(name="plain", roots=(RootSpec(uri=uri),)))
    assert (played.record.outcome, played.transcripts) == ("failed", ())
    said = "[profiles.plain] roots#1: it is a path outside of ${tmp} and ${repo}"
    assert said in played.record.errors[0]["message"]


async def test_what_a_profile_answers_may_hold_placeholders_and_secrets_in_it_are_masked(play, make, monkeypatch):
    monkeypatch.setenv("ROLLCALL_TEST_SECRET", "correct-horse-battery-9")
    answer = AnswerSpec(content={"confirm": "${env.ROLLCALL_TEST_SECRET}"})
    profile = ProfileSpec(name="plain", answers=(answer,), elicit="cancel")
    expect = {"text_contains": ("accept",), "prompts": ("Really",)}
    played = await play("good", [(make.call("ask", expect=expect),)], profile=profile)
    assert played.cases == {"case-0": "completed"}
    (prompted,) = played.of(Prompted)
    assert prompted.answer["result"] == {"action": "accept", "content": {"confirm": "*" * 23}}
    assert "correct-horse" not in "".join(path.read_text() for path in played.folder.rglob("*.jsonl"))


async def test_an_expected_prompt_that_does_not_come_ends_the_case(play, make, tmp_path):
    steps = (make.call("ask", expect={"prompts": ("Sure?",)}), make.call("echo", {"text": "a"}))
    played = await play("good", [steps], elicit="accept", era="modern")
    assert (played.cases, played.ends) == ({"case-0": "stopped"}, ["answered"])
    (found,) = read_evidence(tmp_path / "evidence", played.plan).found
    (use,) = [use for use in view_run(played.run, found).uses if use.ref is not None]
    assert use.wrong == ("expected prompt 1 containing 'Sure?', got 'Really?'",)
