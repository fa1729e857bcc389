"""Transcripts that somebody else's process wrote: their calls count, and their client's faults are not the server's."""

import json
from dataclasses import replace

import pytest

from harness.model.finding import CommandResult

PROXY = "outside-proxy-20261201T000000.000000-aaaaaaaa.jsonl"
PYTEST = "outside-pytest-20261201T000001.000000-bbbbbbbb.jsonl"
LISTED = ("echo", "other", "third")


def own(t):
    return t.Tape().start(LISTED).stop()


def call(tape, t, tool, result=None, **more):
    identity = tape.send("tools/call", {"name": tool, "arguments": {}})
    tape.reply(identity, t.OK if result is None else result, **more)
    return tape


def fates(judgement):
    return {fate.tool: fate.fate for fate in judgement.coverage[0].fates}


def test_calls_through_a_proxy_count_by_their_answers_alone(t):
    tape = t.Tape(PROXY).start(LISTED)
    call(tape, t, "echo")
    call(tape, t, "other", t.failure("no such key"))
    call(tape, t, "third", error={"code": -32000, "message": "no"})
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop()))
    assert fates(judgement) == {"echo": "succeeded", "other": "failed-only", "third": "failed-only"}
    assert t.checks(judgement) == ["exercised/failed-only"] * 2, "an error that nobody expected is nobody's fault"


def test_a_text_that_reads_like_a_failure_earns_nothing(t):
    tape = call(t.Tape(PROXY).start(LISTED), t, "echo", t.text("Error: connection refused"))
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop()))
    assert fates(judgement)["echo"] == "failed-only"
    assert "exercised/looks-failed" in t.checks(judgement)


def test_a_call_of_an_unknown_tool_is_a_fault_only_where_it_succeeds(t):
    tape = t.Tape(PROXY).start(LISTED)
    for tool in LISTED:
        call(tape, t, tool)
    call(tape, t, "nope", error={"code": -32602, "message": "unknown tool"})
    call(tape, t, "nay", t.failure("unknown tool"))
    found = t.evidence(t.key(), own(t), tape.stop())
    assert t.checks(t.judged(found)) == []
    worse = t.evidence(t.key(), own(t), call(t.Tape(PROXY).start(LISTED), t, "nope").stop())
    assert "exercised/not-listed" in t.checks(t.judged(worse))


def test_what_breaks_the_rules_of_stdout_is_a_finding_whoever_was_the_client(t):
    tape = t.Tape(PROXY).start(LISTED)
    tape.raw("listening on stdio")
    found = t.one(t.judged(t.evidence(t.key(), own(t), tape.stop())), "wire/stdout-not-json")
    assert "listening on stdio" in found.message


def test_a_transcript_is_judged_by_the_era_and_the_capabilities_of_its_own_frames(t):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    tape = t.Tape(PROXY)
    identity = tape.send("tools/call", {"name": "echo", "arguments": {}, "_meta": meta})
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    asks = {"q": {"method": "elicitation/create", "params": form}}
    tape.reply(identity, {"resultType": "input_required", "inputRequests": asks})
    again = tape.send("tools/call", {"name": "echo", "arguments": {}, "_meta": meta})
    tape.reply(again, {**t.OK, "resultType": "odd"})
    judgement = t.judged(t.evidence(t.key(era="handshake"), own(t), tape.stop()))
    checks = [item for item in t.checks(judgement) if item.startswith("wire/")]
    assert checks == ["wire/malformed-result"], "resultType is judged in a modern dialogue; elicitation was declared"
    plain = t.Tape(PROXY).start(LISTED)
    plain.message({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": form})
    declared = t.evidence(t.key(), own(t), plain.stop(), client_capabilities={"elicitation": {}})
    assert "wire/undeclared-request" in t.checks(t.judged(declared)), "the run's own client is not this one"


def test_what_a_killed_process_left_counts_as_far_as_it_goes(t):
    tape = call(t.Tape(PROXY).start(LISTED), t, "echo")
    tape.send("tools/call", {"name": "other", "arguments": {}})
    assert not tape.transcript().complete
    judgement = t.judged(t.evidence(t.key(), own(t), tape))
    assert fates(judgement) == {"echo": "succeeded", "other": "failed-only", "third": "missing"}
    assert {item.partition("/")[0] for item in t.checks(judgement)} == {"exercised"}


def _raw_line(tape, t, line):
    tape.add(t.Sent, body=t.Body(line.encode()), label="?")


@pytest.mark.parametrize("line", ["no json", "[]", '"text"', '{"jsonrpc": "2.0", "id": null, "method": "ping"}'])
def test_a_server_that_ends_at_what_is_no_message_is_not_at_fault(t, line):
    tape = t.Tape(PROXY).start(LISTED)
    _raw_line(tape, t, line)
    tape.message({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})
    tape.message({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop(asked=False, code=1)))
    assert {item.partition("/")[0] for item in t.checks(judgement)} == {"exercised"}


def test_two_requests_of_one_id_are_the_clients_fault(t):
    tape = t.Tape(PROXY).start(LISTED)
    tape.send("tools/call", {"name": "echo", "arguments": {}}, id=7)
    tape.send("tools/call", {"name": "echo", "arguments": {}}, id=7)
    tape.reply(7, t.OK)
    tape.reply(7, t.OK)
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop()))
    assert [item for item in t.checks(judgement) if item.startswith("wire/")] == []


def test_the_calls_of_a_batch_count(t):
    tape = t.Tape(PROXY).start(LISTED, version="2025-03-26")
    batch = [
        {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        for name in LISTED
    ]
    _raw_line(tape, t, json.dumps(batch))
    tape.message([{"jsonrpc": "2.0", "id": name, "result": t.OK} for name in LISTED])
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop()))
    assert set(fates(judgement).values()) == {"succeeded"}
    assert t.checks(judgement) == []


def test_what_a_client_gives_up_or_leaves_open_is_its_own_affair(t):
    tape = t.Tape(PROXY).start(LISTED)
    one = tape.send("tools/call", {"name": "echo", "arguments": {}})
    tape.notify("notifications/cancelled", {"requestId": one})
    tape.send("tools/call", {"name": "other", "arguments": {}})
    call(tape, t, "third")
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop(code=1)))
    assert t.checks(judgement) == ["exercised/failed-only"] * 2


def test_a_server_that_was_started_for_its_help_has_not_crashed(t):
    tape = t.Tape(PROXY)
    tape.raw("usage: server [--help]")
    judgement = t.judged(t.evidence(t.key(), own(t), tape.stop(asked=False)))
    assert "process/crashed" not in t.checks(judgement)
    silent = t.judged(t.evidence(t.key(), own(t), t.Tape(PROXY).stop(asked=False)))
    assert set(t.checks(silent)) == {"exercised/missing"}


def test_a_server_that_ends_in_a_call_has_crashed_whoever_called(t):
    tape = t.Tape(PROXY).start(LISTED)
    tape.send("tools/call", {"name": "echo", "arguments": {}})
    found = t.one(t.judged(t.evidence(t.key(), own(t), tape.stop(asked=False, code=-11))), "process/crashed")
    assert found.tool == "echo"
    assert found.evidence["restarted"] is False


def test_a_client_that_reads_one_page_of_a_list_is_no_fault_and_no_whole_list(t):
    tape = t.Tape(PROXY).start(pages=[("echo",), ("other",)])
    one = tape.send("tools/list", {})
    tape.reply(one, {"tools": [], "nextCursor": "p1"})
    alone = t.Tape(PYTEST).start(pages=[("echo",), ("other",)])
    assert "exercised/list-failed" not in t.checks(t.judged(t.evidence(t.key(), tape.stop(), alone.stop())))
    first = t.Tape(PROXY)
    first.reply(first.send("initialize", {"protocolVersion": "2025-11-25"}), t.hello())
    first.reply(first.send("tools/list", {}), {"tools": [{"name": "echo"}], "nextCursor": "p1"})
    judgement = t.judged(t.evidence(t.key(), first.stop()))
    assert "exercised/list-failed" not in t.checks(judgement)
    assert any("not read to its end" in item.why for item in judgement.not_judged)


def test_calls_in_a_test_that_failed_earn_nothing_and_no_step_of_it_is_a_finding(t):
    good = t.Tape(PYTEST, suite="pytest").start(LISTED).case("test_a.py::one").step("echo").done()
    good.case("test_a.py::two").step("other").done("failed")
    good.case("test_a.py::three").step("third", t.failure("no")).done()
    judgement = t.judged(t.evidence(t.key(), own(t), good.stop()))
    assert fates(judgement) == {"echo": "succeeded", "other": "failed-only", "third": "failed-only"}
    assert t.checks(judgement) == ["exercised/failed-only"] * 2
    assert "its test failed" in judgement.findings[0].message


def test_a_test_that_failed_and_was_run_again_with_success_counts(t):
    name = "test_a.py::one"
    first = t.Tape(PYTEST, suite="pytest").start(("echo",)).case(name).step("echo").done("failed").stop()
    second = t.Tape(PYTEST.replace("bbbb", "cccc"), suite="pytest").start(("echo",)).case(name).step("echo").done()
    judgement = t.judged(t.evidence(t.key(), t.Tape().start(("echo",)).stop(), first, second.stop()))
    assert fates(judgement) == {"echo": "succeeded"}
    assert t.checks(judgement) == []


# --- commands -----------------------------------------------------------------------------------


def spec(t, name, **more):
    return t.CommandSpec(
        **{"id": name, "kind": "command", "argv": (name,), "place": t.Place(file="harness.toml", line=9), **more}
    )


def test_commands_are_in_the_judgement_with_their_place(t):
    records = (
        t.CommandRecord(id="good", exit=0, outcome="passed", output="ok\n", transcripts=2),
        t.CommandRecord(id="bad", exit=2, outcome="failed", output="x\n1 failed\n", transcripts=1),
        t.CommandRecord(id="slow", outcome="timed-out", output="…", transcripts=1),
        t.CommandRecord(id="gone", outcome="not-started", output="no such program"),
        t.CommandRecord(id="idle", exit=0, outcome="passed"),
        t.CommandRecord(id="elsewhere", outcome="other-era"),
    )
    commands = tuple(spec(t, item.id, timeout_s=5) for item in records)
    judgement = t.judged(replace(t.good(), record=replace(t.good().record, commands=records)), commands=commands)
    said = {item.message: (item.check, item.file, item.line) for item in judgement.findings}
    failed = ("suite/command-failed", "harness.toml", 9)
    assert {message: where for message, where in said.items() if where == failed} == {
        "the command 'bad' ended with exit code 2": failed,
        "the command 'slow' did not end within 5 s": failed,
        "the command 'gone' was not started: no such program": failed,
    }
    assert "1 failed" in next(item for item in judgement.findings if "'bad'" in item.message).evidence["output"]
    idle = t.one(judgement, "suite/command-recorded-nothing")
    assert "ROLLCALL_SERVER_COMMAND" in idle.message
    assert [item.command for item in judgement.commands] == ["good", "bad", "slow", "gone", "idle"]
    assert judgement.commands[0] == CommandResult(
        server="fixture",
        backend="none",
        era="handshake",
        profile="plain",
        command="good",
        outcome="passed",
        exit=0,
        transcripts=2,
        output="ok\n",
        file="harness.toml",
        line=9,
    )
    assert any("'elsewhere' ran in the other era" in item.why for item in judgement.not_judged)


def test_absence_is_not_judged_where_a_command_was_left_out(t):
    judgement = t.judged(t.evidence(t.key(), own(t)), commands=(spec(t, "vitest"),))
    assert t.checks(judgement) == []
    assert any("a selection" in item.why for item in judgement.not_judged)


def test_a_command_counts_where_it_ran_in_one_era(t):
    ran = t.CommandRecord(id="vitest", exit=0, outcome="passed", transcripts=1)
    there = t.CommandRecord(id="vitest", outcome="other-era")
    tape = call(t.Tape(PROXY).start(("echo",)), t, "echo")
    modern = t.evidence(t.key(era="modern"), t.Tape().start(("echo",)).stop(), tape.stop(), commands=(ran,))
    handshake = t.evidence(t.key(), t.Tape().start(("echo",)).stop(), commands=(there,))
    judgement = t.judged(modern, handshake, commands=(spec(t, "vitest"),), eras=("modern", "handshake"))
    assert t.checks(judgement) == []
    assert not judgement.not_judged
    assert fates(judgement) == {"echo": "succeeded"}


def test_tests_that_are_made_for_other_runs_are_no_finding_unless_no_run_has_any(t):
    ran = t.CommandRecord(id="pytest", exit=0, outcome="passed", transcripts=1)
    none = t.CommandRecord(id="pytest", exit=5, outcome="other-runs")
    commands = (spec(t, "pytest", kind="pytest"),)
    eras = ("modern", "handshake")

    def judged(first, second):
        tape = call(t.Tape(PROXY).start(("echo",)), t, "echo")
        modern = t.evidence(t.key(era="modern"), t.Tape().start(("echo",)).stop(), tape.stop(), commands=(first,))
        handshake = t.evidence(t.key(), t.Tape().start(("echo",)).stop(), commands=(second,))
        return t.judged(modern, handshake, commands=commands, eras=eras)

    assert t.checks(judged(ran, none)) == []
    assert [item.outcome for item in judged(ran, none).commands] == ["passed"]
    idle = t.one(judged(none, none), "suite/command-recorded-nothing")
    assert idle.message.startswith("the command 'pytest' has no test for any of these runs")
