"""What the raw lines show: one finding for one cause, with bytes, offset and the tool in flight."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.transcript import Diagnostic, Truncated

FORM = {
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def run(t, tape, **more):
    return t.judged(t.evidence(t.key(), tape), **more)


def echo_between(t, *lines):
    """A good server that prints these lines while `echo` is in flight."""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    for line in lines:
        tape.raw(line)
    tape.reply(identity, t.OK)
    return tape.finish(ref).done().stop()


def test_the_good_server_is_silent(t):
    assert t.judged(t.good()).findings == ()


def test_a_banner_before_the_first_request_is_quoted_with_line_and_offset(t):
    """S01"""
    tape = t.Tape()
    tape.raw("Server running on stdio")
    tape.start().case("one").step("echo").done().stop()
    found = t.one(run(t, tape), "wire/stdout-not-json")
    assert "line 1 at offset 0, before the first request: 'Server running on stdio'" in found.message
    assert found.tool is None
    assert found.severity == "error"


def test_noise_is_one_finding_with_its_count_the_first_three_and_the_tool(t):
    """S03"""
    judgement = run(t, echo_between(t, *(f"log line {i}" for i in range(40))))
    found = t.one(judgement, "wire/stdout-not-json")
    assert t.checks(judgement) == ["wire/stdout-not-json"]
    assert found.message.startswith("40 lines on stdout are no JSON: the first 3: ")
    assert found.tool == "echo"
    assert [item["bytes"] for item in found.evidence["first"]] == ["'log line 0'", "'log line 1'", "'log line 2'"]
    assert found.evidence["first"][1]["line"] == 4
    assert found.rerun.endswith("-k s/one")


def test_noise_of_several_runs_is_one_finding(t):
    runs = [t.evidence(t.key(era=era), echo_between(t, "noise")) for era in ("handshake", "modern")]
    found = t.one(t.judged(*runs), "wire/stdout-not-json")
    assert found.evidence["runs"] == ["fixture none handshake plain", "fixture none modern plain"]
    assert found.evidence["count"] == 2


def test_a_long_line_is_cut(t):
    found = t.one(run(t, echo_between(t, "x" * 5000)), "wire/stdout-not-json")
    assert f"'{'x' * 80}'… (5000 bytes)" in found.message


@pytest.mark.parametrize(
    ("line", "check", "word"),
    [
        ("", "wire/stdout-not-json", "a blank line"),
        ("   ", "wire/stdout-not-json", "a blank line"),
        ('{"jsonrpc": "2.0", "method": "a", "params": {"x": NaN}}', "wire/stdout-not-json", "NaN is no JSON value"),
        ("\ufeff{}", "wire/stdout-not-json", "a byte order mark"),
        (b'{"jsonrpc": "2.0", "method": "\xff"}', "wire/not-utf8", "byte 0xff"),
        ("[]", "wire/not-jsonrpc", "an empty array"),
        ('[{"jsonrpc": "2.0", "method": "a"}]', "wire/not-jsonrpc", "a batch"),
        ("{}", "wire/not-jsonrpc", "no jsonrpc member"),
        ('{"jsonrpc": "1.0", "method": "a"}', "wire/not-jsonrpc", "jsonrpc is '1.0'"),
        ('{"jsonrpc": "2.0"}', "wire/not-jsonrpc", "neither method nor result nor error"),
        ('{"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}', "wire/not-jsonrpc", "both result and error"),
        ('{"jsonrpc": "2.0", "id": true, "result": {}}', "wire/not-jsonrpc", "neither string nor integer"),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', "wire/not-jsonrpc", "neither string nor integer"),
        ('{"jsonrpc": "2.0", "method": "a", "params": [1]}', "wire/not-jsonrpc", "params is no object"),
        ('"text"', "wire/not-jsonrpc", "no object"),
        ('{"jsonrpc": "2.0", "method": "a", "method": "a"}', "wire/duplicate-key", "key 'method'"),
        ('{"jsonrpc": "2.0", "method": "a"}\r', "wire/carriage-return", "line 3"),
        ('{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "?"}}', "wire/unknown-id", "id null"),
        ('{"jsonrpc": "2.0", "id": 999, "result": {}}', "wire/unknown-id", "id 999 (number), which no request had"),
        ('{"jsonrpc": "2.0", "id": 1, "result": {}}', "wire/duplicate-reply", "a second reply to initialize"),
    ],
)
def test_every_bad_line_has_its_one_finding(t, line, check, word):
    judgement = run(t, echo_between(t, line))
    assert t.checks(judgement) == [check]
    assert word in t.one(judgement, check).message


@pytest.mark.parametrize("digits", ["1" * 5000, "1e400", "-0", "1.0"])
def test_odd_numbers_are_json(t, digits):
    line = f'{{"jsonrpc": "2.0", "method": "notifications/unknown", "params": {{"n": {digits}}}}}'
    assert run(t, echo_between(t, line)).findings == ()


def test_a_reply_whose_id_is_the_same_number_in_another_spelling_is_no_finding(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw(json.dumps({"jsonrpc": "2.0", "id": float(identity), "result": t.OK}))
    tape.pending.clear()
    tape.finish(ref).done().stop()
    assert run(t, tape).findings == ()


def test_batches_belong_to_their_revision(t):
    tape = t.Tape().start(version="2025-03-26").case("one").step("echo").done()
    tape.raw('[{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "method": "b"}]')
    assert run(t, tape.stop()).findings == ()


def test_content_length_framing_is_one_finding_and_nothing_else(t):
    """S05"""
    tape = t.Tape()
    tape.send("initialize", {})
    tape.raw("Content-Length: 52\r")
    tape.raw("\r")
    tape.raw('{"jsonrpc": "2.0", "id": 1, "result": {}}', end="none")
    error = {"kind": "server", "message": "no answer to initialize in 60 s", "hint": "", "log": ""}
    judgement = t.judged(t.evidence(t.key(), tape.stop(), outcome="failed", errors=(error,)))
    assert t.checks(judgement) == ["wire/framing"]
    assert "one JSON message a line" in judgement.findings[0].message
    assert [(item.code, "wire/framing" in item.hint) for item in judgement.errors] == [(6, True)]
    assert [item.own for item in judgement.not_judged] == [False]


@pytest.mark.parametrize("timed_out", [False, True])
def test_a_string_id_that_comes_back_as_a_number_is_a_mismatch_only(t, timed_out):
    """S18"""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo", id="7")
    tape.reply(identity, t.OK, as_id=7)
    if timed_out:
        tape.time_out(ref, identity, "tools/call echo").done("stopped").stop()
    else:
        tape.finish(ref).done().stop()
    judgement = run(t, tape)
    assert t.checks(judgement) == ["wire/id-mismatch"]
    assert 'sent "7" (string), got 7 (number)' in t.one(judgement, "wire/id-mismatch").message
    assert [case.status for case in judgement.cases] == ["failed" if timed_out else "passed"]


def test_an_error_with_the_previous_id_is_a_second_reply(t):
    """S21"""
    tape = t.Tape().start().case("one").step("echo").done()
    tape.reply(3, error={"code": -32700, "message": "Parse error"})
    found = t.one(run(t, tape.stop()), "wire/duplicate-reply")
    assert "a second reply to tools/call echo" in found.message


def test_a_late_answer_to_a_cancelled_request_is_legal_but_two_are_not(t):
    tape = t.Tape().start(("echo", "slow")).case("one").step("echo").done().case("two")
    ref = tape.begin("slow")
    identity = tape.call(ref, "slow")
    tape.time_out(ref, identity, "tools/call slow").done("stopped")
    tape.reply(identity, t.OK)
    assert t.checks(run(t, tape.stop())) == ["suite/timed-out"]
    tape.events.pop()
    tape.reply(identity, t.OK)
    assert t.checks(run(t, tape.stop())) == ["suite/timed-out", "wire/duplicate-reply"]


def test_a_tail_that_was_never_flushed_is_a_partial_line_and_no_timeout(t):
    """S09"""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.time_out(ref, identity, "tools/call echo").done("stopped")
    tape.raw('{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"' + "x" * 16000, end="none")
    judgement = run(t, tape.stop())
    assert t.checks(judgement) == ["wire/partial-line"]
    found = t.one(judgement, "wire/partial-line")
    assert "16068 bytes came without a newline, and no more while tools/call echo waited" in found.message
    assert found.evidence["last"] == repr("x" * 60)
    assert (found.tool, found.evidence["case"]) == ("echo", "s/one")


def test_a_message_that_broke_off_before_the_next_is_a_partial_line(t):
    tape = t.Tape().start(("echo", "big")).case("one")
    ref = tape.begin("big")
    identity = tape.call(ref, "big")
    tape.time_out(ref, identity, "tools/call big").done("stopped").case("two")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw('{"jsonrpc":"2.0","id":3,"result":{"content":[{"jsonrpc":"2.0","id":4,"result":{}}')
    tape.time_out(ref, identity, "tools/call echo").done("stopped")
    judgement = run(t, tape.stop())
    assert set(t.checks(judgement)) == {"wire/partial-line"}


def test_bytes_without_newline_at_the_end_are_a_partial_line(t):
    tape = t.Tape().start().case("one").step("echo").done()
    tape.raw("bye", end="none")
    found = t.one(run(t, tape.stop()), "wire/partial-line")
    assert "stdout ended with 3 bytes without a newline, after tools/call echo: 'bye'" in found.message


def test_an_endless_line_is_one_finding(t):
    """S12"""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    tape.call(ref, "echo")
    tape.raw("x" * 100, end="cut")
    tape.add(t.Truncated, reason="a line over 67108864 bytes")
    tape.finish(ref, "died").done("died").stop(ended_by="kill", code=-9)
    judgement = run(t, tape)
    assert t.checks(judgement) == ["wire/line-too-long"]
    assert judgement.findings[0].tool == "echo"


def test_nan_in_the_reply_explains_the_timeout(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw('{"jsonrpc":"2.0","id":3,"result":{"content":[],"n":NaN}}')
    tape.time_out(ref, identity, "tools/call echo").done("stopped")
    assert t.checks(run(t, tape.stop())) == ["wire/stdout-not-json"]


@pytest.mark.parametrize("line", ['{"level": "error", "msg": "x"}', "{not json}", "INFO"])
def test_a_log_line_does_not_explain_a_timeout(t, line):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw(line)
    tape.time_out(ref, identity, "tools/call echo").done("stopped")
    assert "suite/timed-out" in t.checks(run(t, tape.stop()))


def test_a_listing_that_is_never_answered_is_no_reply(t):
    tape = t.Tape().start().case("one").step("echo").done()
    tape.send("prompts/list", {})
    tape.add(t.Diagnostic, what="timeout", detail="prompts/list")
    tape.pending.clear()
    found = t.one(run(t, tape.stop()), "wire/no-reply")
    assert "prompts/list (id 4) was never answered" in found.message


def test_a_request_that_was_passed_over_is_no_reply(t):
    """S19"""
    tape = t.Tape().start()
    tape.send("tools/list", {"cursor": 5})
    tape.case("one").step("echo").done()
    assert t.checks(run(t, tape.stop())) == ["wire/no-reply"]


def test_a_malformed_result_is_one_finding_and_the_case_failed(t):
    tape = t.Tape().start().case("one").step("echo", {"content": "fine"}).done()
    judgement = run(t, tape.stop())
    assert t.checks(judgement) == ["wire/malformed-result"]
    assert [case.status for case in judgement.cases] == ["failed"]
    assert judgement.coverage[0].failed_only == 1


@pytest.mark.parametrize(
    ("method", "declared", "fires"),
    [
        ("elicitation/create", {}, True),
        ("elicitation/create", {"elicitation": {}}, False),
        ("sampling/createMessage", {"elicitation": {}}, True),
        ("roots/list", {"roots": {}}, False),
        ("ping", {}, False),
    ],
)
def test_a_request_for_what_the_client_has_not_declared(t, method, declared, fires):
    line = json.dumps({"jsonrpc": "2.0", "id": 50, "method": method, "params": FORM if "elicit" in method else {}})
    found = t.evidence(t.key(), echo_between(t, line), client_capabilities=declared)
    judgement = t.judged(found)
    assert t.checks(judgement) == (["wire/undeclared-request"] if fires else [])
    assert all(item.tool == "echo" for item in judgement.findings)


@pytest.mark.parametrize("declared", [False, True])
def test_an_input_required_round_asks_for_what_was_declared(t, declared):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    asked = {"name": {"method": "elicitation/create", "params": FORM}}
    tape.reply(tape.call(ref, "echo"), {"resultType": "input_required", "inputRequests": asked})
    tape.reply(tape.call(ref, "echo", round=2), t.OK)
    tape.finish(ref).done().stop()
    capabilities = {"elicitation": {"form": {}}} if declared else {}
    judgement = t.judged(t.evidence(t.key(era="modern"), tape, client_capabilities=capabilities))
    assert t.checks(judgement) == ([] if declared else ["wire/undeclared-request"])
    assert judgement.coverage[0].succeeded == 1
    assert judgement.coverage[0].fates[0].calls == 2


def test_a_lowered_wire_family_does_not_hide_a_failed_case(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo", id="7")
    tape.reply(identity, t.OK, as_id=7)
    tape.time_out(ref, identity, "tools/call echo").done("stopped").stop()
    judgement = run(t, tape, checks=[("wire", "off")])
    assert t.checks(judgement) == ["suite/timed-out"]
    assert [(item.family, item.findings) for item in judgement.lowered] == [("wire", 1)]


def test_a_line_too_deep_to_read_is_said_to_be_so(t):
    line = '{"jsonrpc": "2.0", "method": "a", "params": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    tape = t.Tape().start().case("one").step("echo").done()
    tape.raw(line)
    judgement = run(t, tape.stop())
    assert judgement.findings == ()
    assert "nested too deeply" in judgement.not_judged[0].why


def test_an_error_with_id_null_is_the_right_answer_to_a_line_that_is_no_json(t):
    """JSON-RPC 2.0 section 5; the engine sends one such line at the end of a run."""
    null = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    tape = t.Tape().start().case("one").step("echo").done()
    tape.add(t.Sent, body=t.Body(b'{"jsonrpc": "2.0", "id": '), label="probe/broken-json")
    tape.message(null)
    assert run(t, tape).findings == ()
    tape.message(null)
    assert t.checks(run(t, tape.stop())) == ["wire/unknown-id"]


def probed(t, *lines, end="died"):
    tape = t.Tape("probe-1.jsonl")
    tape.add(t.Spawned, argv=("server",), cwd=".", env=(), pid=1)
    tape.reply(tape.send("initialize", {}), t.hello())
    tape.reply(tape.send("ping", id=0), {})
    tape.add(t.Sent, body=t.Body(b"#no JSON#"), label="probe/broken-json")
    for line in lines:
        tape.raw(line)
    good = t.Tape().start().case("one").step("echo").done().stop()
    ends = {"died": {"asked": False, "code": 1}, "killed": {"ended_by": "kill", "waited_s": 9.0}}
    return t.judged(t.evidence(t.key(), good, tape.stop(orphans=("sleep 1",), **ends[end])))


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ('{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}', ""),
        ('{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}', ""),
        ('{"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"level": "error", "data": "x"}}', ""),
        ('{"jsonrpc": "2.0", "id": 0, "error": {"code": -32700, "message": "x"}}', "wire/duplicate-reply"),
        ('{"jsonrpc": "2.0", "id": 1, "result": {}}', "wire/duplicate-reply"),
        ('{"jsonrpc": "2.0", "id": -1, "error": {"code": -32700, "message": "x"}}', "wire/unknown-id"),
        ("SyntaxError: Unexpected token #", "wire/stdout-not-json"),
    ],
)
def test_only_what_a_probed_server_wrote_back_is_judged(t, line, check):
    judgement = probed(t, line)
    assert t.checks(judgement) == ([check] if check else [])
    assert all("after probe/broken-json" in item.message for item in judgement.findings)


@pytest.mark.parametrize("end", ["died", "killed"])
def test_how_a_probed_server_ends_is_its_own_affair_and_it_counts_for_nothing(t, end):
    judgement = probed(t, end=end)
    assert judgement.findings == ()
    assert judgement.not_judged == ()
    assert [(item.case, item.status) for item in judgement.cases] == [("one", "passed")]


@pytest.mark.parametrize(
    ("reply", "said"),
    [('{"jsonrpc": "2.0", "id": null, "result": {"content": []}}', "got null"),
     ('{"jsonrpc": "2.0", "error": {"code": -32600, "message": "x"}}', "got no id")],
)  # fmt: skip
def test_a_reply_without_id_while_only_the_id_0_is_open_is_its_reply(t, reply, said):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", expect={"is_error": "error" in reply})
    tape.call(ref, "echo", id=0)
    tape.raw(reply)
    tape.pending.clear()
    tape.finish(ref).done().stop()
    assert f"sent 0 (number), {said}" in t.one(run(t, tape), "wire/id-mismatch").message


def test_a_reply_with_id_null_while_the_id_0_is_not_alone_answers_nothing(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo", id="0")
    tape.raw('{"jsonrpc": "2.0", "id": null, "result": {}}')
    tape.reply(identity, t.OK)
    assert t.checks(run(t, tape.finish(ref).done().stop())) == ["wire/unknown-id"]


def test_an_interrupted_answer_is_no_partial_line(t):
    tape = t.Tape().start().case("one")
    tape.call(tape.begin("echo"), "echo")
    tape.raw('{"jsonrpc": "2.0", "id": 3, "res', end="none")
    tape.done("interrupted").stop()
    assert t.judged(t.evidence(t.key(), tape, outcome="interrupted")).findings == ()


def test_a_listing_without_a_readable_answer_is_red_also_with_the_wire_lowered(t):
    """Nothing listed must never read as everything covered."""
    tape = t.Tape()
    tape.reply(tape.send("initialize", {}), t.hello())
    tape.send("tools/list", {})
    tape.raw('{"id": 2, "result": {"tools": []}}')
    found = t.evidence(t.key(), tape.stop())
    assert t.checks(t.judged(found)) == ["wire/not-jsonrpc"]
    assert "exercised/list-failed" in t.checks(t.judged(found, checks=[("wire", "warning")]))


KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "content", "tools"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.just("2.0") | st.text(max_size=5)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
LINES = st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode())


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINES, max_size=6), sent=st.lists(LINES, max_size=3), end=st.sampled_from(["lf", "none", "cut"]))
def test_no_bytes_can_break_the_judging(t, lines, sent, end):
    """Property: whatever either side writes, there is a judgement, and the stray byte at the end is in it."""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    for line in sent:
        tape.add(t.Sent, body=t.Body(line), label="odd")
    for line in lines:
        tape.raw(line.replace(b"\n", b""))
    tape.reply(identity, t.OK)
    tape.finish(ref).done()
    tape.raw(b"x", end=end)
    judgement = run(t, tape.stop())
    assert judgement.findings
    assert all(finding.message for finding in judgement.findings)


def glued(t, text, *, identity=..., how="timed-out"):
    """One call whose reply stands in one line behind a text."""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    own = tape.call(ref, "echo")
    reply = {"jsonrpc": "2.0", "id": own if identity is ... else identity, "result": t.OK}
    tape.raw(text + json.dumps(reply))
    return tape.time_out(ref, own, "tools/call echo").done("stopped").stop()


@pytest.mark.parametrize("text", ["Listening...", "{now} ", "\x1b[32mready\x1b[0m ", "[1/2] "])
def test_text_that_is_glued_to_a_reply_explains_the_timeout(t, text):
    judgement = run(t, glued(t, text))
    assert "other text stands before a reply" in t.one(judgement, "wire/stdout-not-json").message
    assert t.checks(judgement) == ["wire/stdout-not-json"]
    assert [item.status for item in judgement.cases] == ["failed"]


def test_text_that_is_glued_to_the_reply_of_another_request_explains_nothing(t):
    assert t.checks(run(t, glued(t, "DEBUG sent ", identity=1))) == ["suite/timed-out", "wire/stdout-not-json"]


def test_a_lowered_wire_family_does_not_hide_the_case_that_a_glued_text_has_failed(t):
    judgement = run(t, glued(t, "Listening..."), checks=[("wire", "off")])
    assert t.checks(judgement) == ["suite/timed-out"]


def test_a_reply_that_a_client_uses_all_the_same_is_no_longer_waited_for(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw(json.dumps({"id": identity, "result": t.OK}))
    tape.pending.clear()
    tape.finish(ref).done("completed").case("two")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.raw("noise")
    tape.reply(identity, t.OK)
    judgement = run(t, tape.finish(ref).done().stop())
    assert t.checks(judgement) == ["wire/not-jsonrpc", "wire/stdout-not-json"]
    assert t.one(judgement, "wire/stdout-not-json").message.endswith("in tools/call echo: 'noise'")
    assert [item.status for item in judgement.cases] == ["failed", "passed"]


def test_a_byte_order_mark_before_the_first_reply_is_one_finding(t):
    tape = t.Tape()
    one = tape.send("initialize", {})
    tape.raw("\ufeff" + json.dumps({"jsonrpc": "2.0", "id": one, "result": {"capabilities": {"tools": {}}}}))
    tape.pending.clear()
    tape.reply(tape.send("tools/list", {}), {"tools": [{"name": "echo", "inputSchema": {}}]})
    judgement = run(t, tape.case("one").step("echo").done().stop())
    assert t.checks(judgement) == ["wire/stdout-not-json"]


def test_a_list_that_is_nested_too_deeply_to_be_read_is_one_finding_and_nothing_else_is_judged(t):
    tape = t.Tape()
    tape.reply(tape.send("initialize", {}), t.hello())
    two = tape.send("tools/list", {})
    tape.raw(f'{{"jsonrpc": "2.0", "id": {two}, "result": {"[" * 100_000}{"]" * 100_000}}}')
    tape.pending.clear()
    judgement = run(t, tape.case("one").step("echo").done().stop())
    assert t.checks(judgement) == ["validity/too-deep"]
    assert {item.check for item in judgement.not_judged} == {"exercised", "wire/not-jsonrpc"}
    assert not any(item.own for item in judgement.not_judged)


@pytest.mark.parametrize("method", ["tools/list", "prompts/list"])
def test_an_empty_cursor_is_a_warning_and_the_end(t, method):
    tape = t.Tape().start()
    tape.reply(tape.send(method, {}), {"tools": [{"name": "echo"}], "prompts": [], "nextCursor": ""})
    judgement = run(t, tape.case("one").step("echo").done().stop())
    assert [(item.check, item.severity) for item in judgement.findings] == [("wire/empty-cursor", "warning")]
    assert method in judgement.findings[0].message


@pytest.mark.parametrize("identity", [None, 4711])
def test_a_reply_with_the_id_of_no_request_explains_the_timeout(t, identity):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    own = tape.call(ref, "echo")
    tape.reply(own, t.OK, as_id=identity)
    judgement = run(t, tape.time_out(ref, own, "tools/call echo").done("stopped").stop())
    assert t.checks(judgement) == ["wire/unknown-id"]
    assert "see wire/unknown-id" in judgement.cases[0].message


def test_the_line_at_which_we_stopped_recording_is_not_called_partial(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.add(Truncated, reason="over 500000 lines or 2147483648 bytes came on stdout")
    tape.pending.pop(repr(identity))
    tape.finish(ref, "died").done("died").raw('{"jsonrpc": "2.0", "id"', end="none")
    assert t.checks(run(t, tape.stop(ended_by="kill"))) == ["wire/line-too-long"]


def test_an_error_without_id_after_a_line_of_ours_that_was_cut_is_right(t):
    tape = t.Tape().start().case("one").step("echo").done()
    tape.add(Diagnostic, what="cut-short", detail="9 bytes of what was sent had not been read")
    tape.message({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
    assert run(t, tape.stop()).findings == ()
