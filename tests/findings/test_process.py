"""How the server process ends."""

import dataclasses

import pytest

from harness.model.transcript import Diagnostic


def run(t, *tapes, **more):
    return t.judged(t.evidence(t.key(), *tapes), **more)


def crash(t, **more):
    tape = t.Tape().start(("echo", "boom")).case("one").step("echo").done().case("two")
    ref = tape.begin("boom")
    tape.call(ref, "boom")
    return tape.finish(ref, "died").done("died").stop(code=3, asked=False, stderr="Traceback\nValueError: x\n", **more)


def test_a_crash_in_a_call_is_one_finding_with_exit_code_and_stderr(t):
    again = t.Tape("server-2.jsonl").start(("echo", "boom")).case("three").step("echo").done().stop()
    judgement = run(t, crash(t), again)
    assert t.checks(judgement) == ["process/crashed"]
    found = judgement.findings[0]
    assert found.message == (
        "the server ended by itself in tools/call boom: exit code 3; last on stderr: ValueError: x"
    )
    assert (found.tool, found.evidence["exit_code"], found.evidence["restarted"]) == ("boom", 3, True)
    assert found.rerun.endswith("-k s/two")
    assert [(case.case, case.status) for case in judgement.cases] == [
        ("one", "passed"), ("two", "failed"), ("three", "passed"),
    ]  # fmt: skip
    assert judgement.coverage[0].failed_only == 1


def test_a_request_that_was_not_read_is_not_to_blame(t):
    tape = t.Tape().start(("echo", "boom")).case("one").step("echo").done().case("two")
    ref = tape.begin("boom")
    tape.call(ref, "boom")
    tape.add(t.Diagnostic, what="not-read", detail="tools/call boom", step=ref)
    tape.finish(ref, "retried").stop(code=3, asked=False)
    again = t.Tape("server-2.jsonl")
    again.start(("echo", "boom")).case_id, again.index = "two", {"step": 0, "cleanup": 0}
    again.step("boom", attempt=2).done().stop()
    judgement = run(t, tape, again)
    found = t.one(judgement, "process/crashed")
    assert found.message == "the server ended by itself after tools/call echo: exit code 3; stderr is empty"
    assert (found.tool, found.evidence["not_read"]) == (None, ["tools/call boom"])
    assert t.checks(judgement) == ["process/crashed"]
    assert {case.status for case in judgement.cases} == {"passed"}


def test_containers_are_counted_apart_and_one_with_another_name_is_the_same(t):
    def left(name, number):
        tape = t.Tape(f"server-{number}.jsonl").start().case(f"c{number}").step("echo").done().stop()
        orphan = t.Orphan(pid=0, command=f"container {name} (image python:3)")
        events = [*tape.events[:-1], dataclasses.replace(tape.events[-1], orphans=(orphan,))]
        return t.Transcript(name=tape.name, events=tuple(events))

    found = t.one(run(t, left("kind_euler", 1), left("odd_turing", 2)), "process/orphan")
    assert found.message == (
        "a container was still alive after the server was gone: container kind_euler (image python:3)"
    )


def test_a_signal_has_its_name_and_an_empty_stderr_is_said(t):
    tape = t.Tape().start().case("one").step("echo").done().stop(code=-11, asked=False)
    found = t.one(run(t, tape), "process/crashed")
    assert found.message == "the server ended by itself after tools/call echo: signal 11 (SIGSEGV); stderr is empty"


def test_a_server_that_never_answered_is_an_error_and_no_finding(t):
    """P08"""
    tape = t.Tape()
    tape.add(t.Spawned, argv=("server",), cwd=".", env=(), pid=1)
    tape.send("initialize", {})
    tape.stop(code=1, asked=False, stderr="HOME is not set")
    error = {"kind": "server", "message": "it exited with code 1 before its first answer", "hint": "", "log": ""}
    judgement = t.judged(t.evidence(t.key(), tape, outcome="failed", errors=(error,)))
    assert judgement.findings == ()
    assert [(item.kind, item.code) for item in judgement.errors] == [("server", 6)]


@pytest.mark.parametrize(
    ("ended_by", "waited", "severity", "words"),
    [
        ("stdin-close", 0.5, None, ""),
        ("term", 5.03, "warning", "did not exit when its stdin closed; SIGTERM ended it after over 5 s"),
        ("kill", 10.4, "error", "did not exit when its stdin closed, nor at SIGTERM; SIGKILL ended it after over 10 s"),
    ],
)
def test_a_late_exit_is_a_warning_at_term_and_an_error_at_kill(t, ended_by, waited, severity, words):
    """P01"""
    tape = t.Tape().start().case("one").step("echo").done().stop(ended_by=ended_by, waited_s=waited)
    judgement = run(t, tape)
    assert [item.severity for item in judgement.findings] == ([severity] if severity else [])
    assert all(words in item.message for item in judgement.findings)


@pytest.mark.parametrize(("code", "severity", "said"), [(1, "warning", "exit code 1"), (-11, "error", "SIGSEGV")])
def test_a_bad_end_after_stdin_closed_is_a_finding_with_code_and_stderr(t, code, severity, said):
    tape = t.Tape().start().case("one").step("echo").done().stop(code=code, stderr="Traceback\nValueError: x\n")
    found = t.one(run(t, tape), "process/bad-exit")
    assert (found.severity, found.tool) == (severity, None)
    assert said in found.message
    assert found.message.endswith("; last on stderr: ValueError: x")


@pytest.mark.parametrize(("code", "more"), [(5, []), (6, ["process/bad-exit"])])
def test_an_end_as_the_crash_before_it_is_no_second_fault(t, code, more):
    """It ends by itself after each call; the last time we close its stdin before it has got so far."""
    first = t.Tape().start().case("one").step("echo").done().stop(code=5, asked=False, ended_by="itself")
    last = t.Tape("server-2.jsonl").start().case("two").step("echo").done().stop(code=code)
    assert t.checks(run(t, first, last)) == [*more, "process/crashed"]


@pytest.mark.parametrize("code", [0, -2, -15, 130, 143])
def test_an_end_that_was_asked_for_is_a_good_end(t, code):
    assert run(t, t.Tape().start().case("one").step("echo").done().stop(code=code)).findings == ()


def test_the_exit_code_of_a_server_that_was_disturbed_says_nothing(t):
    """It was stopped in a call, or its stdin was closed in mid-line."""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    tape.time_out(ref, tape.call(ref, "echo"), "tools/call echo")
    assert t.checks(run(t, tape.done("timed-out").stop(code=1))) == ["suite/timed-out"]
    tape = t.Tape().start().case("one").step("echo").done()
    tape.add(Diagnostic, what="cut-short", detail="9 bytes")
    assert run(t, tape.stop(code=1)).findings == ()


def test_orphans_are_named_by_their_commands_without_pids_and_folders_of_the_run(t):
    """P03"""
    tape = t.Tape().start().case("one").step("echo").done()
    tape.stop(orphans=("sleep 1000", "node /tmp/rollcall-0123456789ab-x/home/a.js"))
    found = t.one(run(t, tape), "process/orphan")
    assert found.message == (
        "2 processes were still alive after the server was gone: node ${tmp}/home/a.js; sleep 1000"
    )
    assert found.severity == "error"


def test_a_server_that_hangs_in_a_call_is_not_blamed_for_a_late_exit_too(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.time_out(ref, identity, "tools/call echo").done("stopped").stop(ended_by="term", waited_s=5.0)
    assert t.checks(run(t, tape)) == ["suite/timed-out"]


def test_a_tail_of_stderr_says_how_much_of_it_that_is_and_where_the_rest_is(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    tape.call(ref, "echo")
    kept = b"".join(b"line %d\n" % number for number in range(1000))
    tape.add(t.Stderr, body=t.Body(kept), size=60_000_000)
    tape.add(t.Exited, code=1, asked=False, ended_by="itself", in_flight=("tools/call echo",))
    tape.ended = True
    tape.finish(ref, "died").done("died")
    found = t.evidence(t.key(), tape, folder="/x/evidence/fixture/none/handshake/plain/1")
    stderr = t.one(t.judged(found), "process/crashed").evidence["stderr"]
    assert stderr.splitlines()[0] == (
        f"(the last 179 of 60,000,000 bytes; {len(kept):,} of them in the evidence: "
        "fixture/none/handshake/plain/1/server-1.jsonl)"
    )
    assert stderr.splitlines()[-1] == "line 999"
