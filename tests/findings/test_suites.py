"""Cases and steps: what failed, where it is written, and no second finding of one cause."""

import pytest


def run(t, tape, **more):
    return t.judged(t.evidence(t.key(), tape), **more)


def test_a_step_that_fails_names_suite_step_tool_place_and_mismatch(t):
    tape = t.Tape().start().case("one").step("echo").step("echo", t.failure("no such key"), arguments={"a": 1})
    judgement = run(t, tape.done("stopped").stop())
    assert t.checks(judgement) == ["suite/step-failed"]
    found = judgement.findings[0]
    assert found.message == "s/one, step 2, call echo: expected a success, got isError: 'no such key'"
    assert (found.tool, found.file, found.line) == ("echo", "suites/s.toml", 20)
    assert found.evidence["arguments"] == '{"a": 1}'
    assert found.evidence["case"] == "s/one"
    case = judgement.cases[0]
    assert (case.status, case.message, case.line) == ("failed", found.message, 20)


def test_a_tool_whose_only_call_failed_its_step_gets_no_second_finding(t):
    judgement = run(t, t.Tape().start().case("one").step("echo", t.failure("no")).done("stopped").stop())
    assert t.checks(judgement) == ["suite/step-failed"]
    assert judgement.coverage[0].failed_only == 1


def test_with_the_suite_family_lowered_the_tool_is_failed_only(t):
    tape = t.Tape().start().case("one").step("echo", t.failure("no")).done("stopped").stop()
    judgement = run(t, tape, checks=[("suite", "off")])
    assert t.checks(judgement) == ["exercised/failed-only"]
    assert "1 × an error" in judgement.findings[0].message


def test_equal_failures_of_several_runs_are_one_finding_whatever_the_numbers_in_it(t):
    def tape(port):
        return t.Tape().start().case("one").step("echo", t.failure(f"no route to port {port}")).done("stopped").stop()

    runs = [t.evidence(t.key(era="handshake"), tape(4711)), t.evidence(t.key(era="modern"), tape(4812))]
    found = t.one(t.judged(*runs), "suite/step-failed")
    assert "4711" in found.message
    assert len(found.evidence["runs"]) == 2


def test_a_call_without_an_answer_is_timed_out(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", timeout_s=2.5)
    tape.time_out(ref, tape.call(ref, "echo"), "tools/call echo").done("stopped").stop(stderr="waiting")
    judgement = run(t, tape)
    assert t.checks(judgement) == ["suite/timed-out"]
    assert judgement.findings[0].message == "s/one, step 1, call echo: no answer within 2.5 s"
    assert judgement.findings[0].evidence["stderr"] == "waiting"


def test_a_case_that_times_out_between_its_steps_is_one_finding(t):
    tape = t.Tape().start().case("one").step("echo").done("timed-out").stop()
    judgement = run(t, tape)
    assert t.checks(judgement) == ["suite/timed-out"]
    assert "it stood at step 1 of 1" in judgement.findings[0].message


def test_only_the_last_attempt_of_a_step_is_judged(t):
    tape = t.Tape().start().case("one")
    for attempt in (1, 2, 3):
        ref = tape.begin("echo", attempt=attempt, expect={"text_contains": ["ready"]})
        tape.reply(tape.call(ref, "echo"), t.text("ready" if attempt == 3 else "wait"))
        tape.finish(ref, "answered" if attempt == 3 else "retried")
    judgement = run(t, tape.done().stop())
    assert judgement.findings == ()
    assert judgement.coverage[0].fates[0].calls == 3


def test_a_step_that_never_came_true_says_how_often_it_was_tried(t):
    tape = t.Tape().start().case("one")
    for attempt in (1, 2):
        ref = tape.begin("echo", attempt=attempt, expect={"text_contains": ["ready"]})
        tape.reply(tape.call(ref, "echo"), t.text("wait"))
        tape.finish(ref, "answered" if attempt == 2 else "retried")
    found = t.one(run(t, tape.done("stopped").stop()), "suite/step-failed")
    assert found.message.endswith("expected text containing 'ready', got 'wait' (after 2 attempts)")


def test_a_confirmation_is_judged_by_its_second_answer(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", confirm=True)
    tape.reply(tape.call(ref, "echo"), t.failure('call again with confirm_token="abc"'))
    tape.reply(tape.call(ref, "echo", {"confirm_token": "abc"}, round=2), t.OK)
    judgement = run(t, tape.finish(ref).done().stop())
    assert judgement.findings == ()
    assert judgement.coverage[0].succeeded == 1


def test_a_confirmation_without_a_token_fails(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", confirm=True)
    tape.reply(tape.call(ref, "echo"), t.text("deleted at once"))
    judgement = run(t, tape.finish(ref, "no-token").done("stopped").stop())
    assert t.checks(judgement) == ["suite/step-failed"]
    assert "the first answer holds no confirm_token: 'deleted at once'" in judgement.findings[0].message
    assert judgement.coverage[0].succeeded == 0


def test_a_placeholder_without_a_value_is_unresolved(t):
    tape = t.Tape().start().case("one").step("echo")
    ref = tape.begin("echo")
    tape.finish(ref, "unresolved", "captured.id has no value").done("stopped").stop()
    judgement = run(t, tape)
    assert t.checks(judgement) == ["suite/unresolved"]
    assert "captured.id has no value" in judgement.findings[0].message


def test_a_capture_that_finds_nothing_is_unresolved(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    tape.reply(tape.call(ref, "echo"), t.OK)
    tape.add(t.Diagnostic, what="capture-missing", detail="id /structuredContent/id", step=ref)
    judgement = run(t, tape.finish(ref).done("stopped").stop())
    assert t.checks(judgement) == ["suite/unresolved"]
    assert "id /structuredContent/id" in judgement.findings[0].message


def test_a_cleanup_that_fails_is_a_warning_and_the_case_passes(t):
    tape = t.Tape().start().case("one").step("echo").step("echo", t.failure("gone"), phase="cleanup").done().stop()
    judgement = run(t, tape)
    assert [(item.check, item.severity) for item in judgement.findings] == [("suite/cleanup-failed", "warning")]
    assert judgement.cases[0].status == "passed"


def test_a_cleanup_that_lacks_a_value_of_a_failed_case_is_no_finding(t):
    tape = t.Tape().start().case("one").step("echo", t.failure("no"))
    ref = tape.begin("echo", phase="cleanup")
    judgement = run(t, tape.finish(ref, "unresolved", "captured.id").done("stopped").stop())
    assert t.checks(judgement) == ["suite/step-failed"]


def test_a_cleanup_step_counts_for_coverage(t):
    tape = t.Tape().start(("echo", "rm")).case("one").step("echo").step("rm", phase="cleanup").done().stop()
    assert run(t, tape).coverage[0].succeeded == 2


def test_a_completed_case_without_evidence_of_a_step_is_not_green(t):
    tape = t.Tape().start().case("one").step("echo").step("echo").done().stop()
    whole = t.evidence(t.key(), tape)
    plan = t.plan_for([whole])
    torn = t.Tape().start().case("one").step("echo").done().stop()
    judgement = t.judged(t.evidence(t.key(), torn), plan=plan)
    assert t.checks(judgement) == ["suite/step-failed"]
    assert "step 2 left no evidence" in judgement.findings[0].message


@pytest.mark.parametrize("how", ["timed-out", "died"])
def test_cases_after_a_bad_one_still_count(t, how):
    tape = t.Tape().start(("echo", "bad")).case("one")
    ref = tape.begin("bad")
    identity = tape.call(ref, "bad")
    if how == "timed-out":
        tape.time_out(ref, identity, "tools/call bad").done("stopped").stop()
    else:
        tape.finish(ref, "died").done("died").stop(code=1, asked=False)
    again = t.Tape("server-2.jsonl").start(("echo", "bad")).case("two").step("echo").done().stop()
    judgement = t.judged(t.evidence(t.key(), tape, again))
    assert [case.status for case in judgement.cases] == ["failed", "passed"]
    assert judgement.coverage[0].succeeded == 1


def test_resources_and_prompts_are_counted_and_not_gated(t):
    tape = t.Tape().start(prompts=("hello", "bye"), resources=("x://a",)).case("one").step("echo")
    ref = tape.begin("x://a", action="read_resource")
    contents = {"contents": [{"uri": "x://a", "text": "data"}]}
    tape.reply(tape.send("resources/read", {"uri": "x://a"}, step=ref), contents)
    tape.finish(ref)
    ref = tape.begin("hello", action="get_prompt")
    tape.reply(tape.send("prompts/get", {"name": "hello"}, step=ref), {"messages": []})
    judgement = run(t, tape.finish(ref).done().stop())
    assert judgement.findings == ()
    sums = judgement.coverage[0]
    assert (sums.prompts, sums.prompts_used, sums.resources, sums.resources_used) == (2, 1, 1, 1)


def test_a_deselected_case_has_no_result(t):
    tape = t.Tape().start().case("one").step("echo").done().stop()
    judgement = run(t, tape, extra=[t.plain_case("other", "echo")], selected=("s/one",), partial=True)
    assert [case.case for case in judgement.cases] == ["one"]
    assert [item.own for item in judgement.not_judged] == [True]
