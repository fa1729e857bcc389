"""Coverage: every listed tool is exactly one of succeeded, refused-only, failed-only, excused, missing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def run(t, tape, **more):
    return t.judged(t.evidence(t.key(), tape), **more)


def fates(judgement):
    return {fate.tool: fate.fate for coverage in judgement.coverage for fate in coverage.fates}


def test_a_listed_tool_that_no_call_reached_is_missing(t):
    judgement = run(t, t.Tape().start(("echo", "other")).case("one").step("echo").done().stop())
    assert t.checks(judgement) == ["exercised/missing"]
    assert judgement.findings[0].message == "other is listed and no call reached it"
    assert fates(judgement) == {"echo": "succeeded", "other": "missing"}


def test_refused_only_names_the_case_that_did_not_come_that_far(t):
    """The fault is where that case broke off, not in the tool."""
    tape = t.Tape().start(("echo", "get")).case("one").step("echo", t.failure("no")).done("stopped")
    tape = tape.case("no").step("get", t.failure("no such key"), expect=EXPECT_NO).done().stop()
    ran = t.evidence(t.key(), tape)
    plan = t.plan_for([ran], extra=[t.plain_case("two", "echo", "get")])
    judgement = t.judged(t.evidence(t.key(), tape, cases=("s/one", "s/two", "s/no")), plan=plan)
    message = t.one(judgement, "exercised/refused-only").message
    assert "(s/two step 2 would have called it too, but it did not come to that); let it succeed" in message


def test_missing_names_the_case_that_did_not_come_that_far(t):
    tape = t.Tape().start(("echo", "other")).case("one").step("echo", t.failure("no")).done("stopped").stop()
    ran = t.evidence(t.key(), tape)
    plan = t.plan_for([ran], extra=[t.plain_case("two", "echo", "other")])
    judgement = t.judged(t.evidence(t.key(), tape, cases=("s/one", "s/two")), plan=plan)
    assert "s/two step 2 would have, but it did not come to that" in t.one(judgement, "exercised/missing").message


def test_the_denominator_is_all_pages_from_the_raw_frames(t):
    """T01"""
    tape = t.Tape().start(pages=[("echo",), ("b",), ("c",)]).case("one").step("echo").done().stop()
    judgement = run(t, tape)
    assert judgement.coverage[0].tools == 3
    assert t.checks(judgement) == ["exercised/missing"] * 2


def test_coverage_is_the_union_over_eras_and_profiles_of_a_cell(t):
    one = t.evidence(t.key(), t.Tape().start(("a", "b")).case("one").step("a").done().stop())
    two = t.evidence(t.key(era="modern"), t.Tape().start(("a", "c")).case("two").step("c").done().stop())
    three = t.evidence(t.key(profile="asking"), t.Tape().start(("a", "b")).case("three").step("b").done().stop())
    cases = ("s/one", "s/two", "s/three")
    found = [t.evidence(item.record.key, *item.transcripts, cases=cases) for item in (one, two, three)]
    judgement = t.judged(*found)
    assert judgement.findings == ()
    assert (judgement.coverage[0].tools, judgement.coverage[0].succeeded) == (3, 3)


def test_every_cell_is_covered_on_its_own(t):
    one = t.evidence(t.key(backend="redis@7"), t.Tape().start(("a", "b")).case("one").step("a").step("b").done().stop())
    tape = t.Tape().start(("a", "b")).case("one").step("a").step("b", t.failure("unknown command")).done("stopped")
    two = t.evidence(t.key(backend="redis@8"), tape.stop())
    judgement = t.judged(one, two, checks=[("suite", "off")])
    found = t.one(judgement, "exercised/failed-only")
    assert "with redis@8" in found.message
    assert [coverage.succeeded for coverage in judgement.coverage] == [2, 1]


def test_a_tool_of_a_case_for_one_backend_is_missing_with_the_other(t):
    one = t.evidence(t.key(backend="redis@7"), t.Tape().start(("a", "b")).case("one").step("a").step("b").done().stop())
    two = t.evidence(t.key(backend="redis@8"), t.Tape().start(("a", "b")).case("two").step("a").done().stop())
    plan = t.plan_for([one, two])
    bound = {"s/one": ("redis@7",), "s/two": ("redis@8",)}

    def only(run):
        cases = tuple(
            (suite, replace(case, backends=bound[f"{suite}/{case.id}"]))
            for suite, case in run.cases
            if run.key.backend in bound[f"{suite}/{case.id}"]
        )
        return replace(run, cases=cases, selected=tuple(f"{suite}/{case.id}" for suite, case in cases))

    plan = replace(plan, cells=tuple(replace(cell, runs=tuple(only(run) for run in cell.runs)) for cell in plan.cells))
    judgement = t.judged(one, two, plan=plan)
    found = t.one(judgement, "exercised/missing")
    assert t.checks(judgement) == ["exercised/missing"]
    assert found.message == (
        "b is listed and no call reached it with redis@8; s/one step 2 calls it, and runs with redis@7 only"
    )
    assert [(item.backend, item.missing, item.judged) for item in judgement.coverage] == [
        ("redis@7", 0, True),
        ("redis@8", 1, True),
    ]


EXPECT_NO = {"is_error": True, "text_contains": ["no such"]}


@pytest.mark.parametrize(
    ("level", "result", "error", "expect", "fate", "check"),
    [
        ("succeeded", "no such key", None, EXPECT_NO, "refused-only", "exercised/refused-only"),
        ("succeeded", None, -32602, {"code": -32602}, "refused-only", "exercised/refused-only"),
        ("succeeded", "no such key", None, {"is_error": True}, "failed-only", "exercised/failed-only"),
        ("answered", "no such key", None, {"is_error": True}, "succeeded", None),
        ("answered", None, -32602, {"code": -32602}, "refused-only", "exercised/refused-only"),
        ("attempted", None, -32602, {"is_error": True}, "succeeded", None),
    ],
)
def test_what_a_refusal_earns_depends_on_the_level(t, level, result, error, expect, fate, check):
    tape = t.Tape().start().case("one")
    answer = t.failure(result) if result else None
    tape.step("echo", answer, error={"code": error, "message": "bad"} if error else None, expect=expect)
    judgement = run(t, tape.done().stop(), level=level)
    assert fates(judgement) == {"echo": fate}
    assert t.checks(judgement) == ([check] if check else [])
    assert judgement.cases[0].status == "passed"


def test_an_answer_that_reads_like_a_failure_is_a_warning_and_earns_nothing(t):
    """R06"""
    judgement = run(t, t.Tape().start().case("one").step("echo", t.text("Error: 401 Unauthorized")).done().stop())
    assert [(item.check, item.severity) for item in judgement.findings] == [
        ("exercised/failed-only", "error"),
        ("exercised/looks-failed", "warning"),
    ]
    assert "1 × an answer that reads like a failure" in judgement.findings[0].message


def test_a_text_that_the_step_asks_for_may_read_like_a_failure(t):
    expect = {"text_contains": ["401"]}
    tape = t.Tape().start().case("one").step("echo", t.text("Error: 401 Unauthorized"), expect=expect).done().stop()
    judgement = run(t, tape)
    assert judgement.findings == ()
    assert judgement.coverage[0].succeeded == 1


def test_a_tool_that_is_called_and_not_listed_is_one_finding_with_the_nearest_name(t):
    tape = t.Tape().start(("get_item", "echo")).case("one").step("echo")
    tape.step("get_items", t.failure("Unknown tool: get_items")).done("stopped").case("two").step("get_item").done()
    judgement = run(t, tape.stop())
    assert t.checks(judgement) == ["exercised/not-listed"]
    found = judgement.findings[0]
    assert "did you mean 'get_item'?" in found.message
    assert (found.tool, found.file, found.line) == ("get_items", "suites/s.toml", 20)
    assert [case.status for case in judgement.cases] == ["failed", "passed"]


def test_an_unlisted_step_never_counts_and_is_no_finding(t):
    """R09"""
    expect = {"is_error": True, "text_contains": ["Unknown tool"]}
    tape = t.Tape().start().case("one").step("echo")
    tape.step("nope", t.failure("Unknown tool: nope"), expect=expect, unlisted=True).done().stop()
    judgement = run(t, tape)
    assert judgement.findings == ()
    assert judgement.coverage[0].tools == 1


def test_tools_declared_and_none_listed_is_an_error(t):
    """R11"""
    judgement = run(t, t.Tape().start(()).stop())
    assert t.checks(judgement) == ["exercised/no-tools"]


def test_a_server_without_the_tools_capability_may_list_none(t):
    assert run(t, t.Tape().start((), capabilities={"prompts": {}}).stop()).findings == ()


@pytest.mark.parametrize("what", ["error", "no-object", "no-array", "no-name", "cursor"])
def test_a_listing_that_fails_is_one_finding(t, what):
    tape = t.Tape()
    tape.reply(tape.send("initialize", {}), t.hello())
    asked = tape.send("tools/list", {})
    if what == "error":
        tape.reply(asked, error={"code": -32603, "message": "cannot make a schema"})
    elif what == "cursor":
        tape.reply(asked, {"tools": [], "nextCursor": "x"})
        tape.reply(tape.send("tools/list", {"cursor": "x"}), {"tools": [], "nextCursor": "x"})
    else:
        tape.reply(
            asked, {"no-object": [], "no-array": {}, "no-name": {"tools": [{"nam": "x", "inputSchema": {}}]}}[what]
        )
    judgement = run(t, tape.stop())
    assert t.checks(judgement) == ["exercised/list-failed"]
    words = {"error": "-32603: 'cannot make a schema'", "cursor": "pages without end"}
    assert words.get(what, "tools/list") in judgement.findings[0].message


def test_calls_outside_of_steps_are_judged_by_the_plain_rule(t):
    tape = t.Tape().start(("a", "b", "c", "d"))
    for tool, result in (("a", t.OK), ("b", t.failure("no")), ("c", t.text("Error: no"))):
        tape.reply(tape.send("tools/call", {"name": tool, "arguments": {}}), result)
    judgement = run(t, tape.stop())
    assert fates(judgement) == {"a": "succeeded", "b": "failed-only", "c": "failed-only", "d": "missing"}
    assert t.checks(judgement) == [
        "exercised/failed-only", "exercised/failed-only", "exercised/looks-failed", "exercised/missing",
    ]  # fmt: skip


def test_a_tool_that_is_named_like_something_inherited_is_a_tool_like_any_other(t):
    """A36"""
    names = ("constructor", "__class__", "toString", "")
    judgement = run(t, t.Tape().start(names).stop())
    missing = [finding.tool for finding in judgement.findings if finding.check == "exercised/missing"]
    assert sorted(missing) == sorted(names)


OUTCOMES = st.sampled_from(["ok", "refused", "error", "looks", "malformed", "timeout", "none"])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_listed_tool_has_one_fate_and_the_sums_add_up(t, data):
    """Property: five numbers, one sum; each unexcused tool without success is named by an error or in a failed case."""
    tools = data.draw(st.lists(st.text("abcß.-_/", min_size=1, max_size=5), unique=True, max_size=5))
    outcomes = {tool: data.draw(OUTCOMES) for tool in tools}
    excused = data.draw(st.sets(st.sampled_from(tools))) if tools else set()
    tape = t.Tape().start(tools)
    for number, tool in enumerate(tools):
        if outcomes[tool] == "none":
            continue
        tape.case(f"c{number}")
        match outcomes[tool]:
            case "ok":
                tape.step(tool).done()
            case "refused":
                tape.step(tool, t.failure("no such"), expect=EXPECT_NO).done()
            case "error":
                tape.step(tool, t.failure("no")).done("stopped")
            case "looks":
                tape.step(tool, t.text("Error: x")).done()
            case "malformed":
                tape.step(tool, {"content": 5}).done("stopped")
            case "timeout":
                ref = tape.begin(tool)
                tape.time_out(ref, tape.call(ref, tool), f"tools/call {tool}").done("stopped")
    exemptions = [t.exempt(tool, line=index + 1) for index, tool in enumerate(sorted(excused))]
    judgement = run(t, tape.stop(), exemptions=exemptions)
    sums = judgement.coverage[0]
    assert sums.tools == len(tools) == len(sums.fates)
    assert sums.tools == sums.succeeded + sums.refused_only + sums.failed_only + sums.excused + sums.missing
    wanted = {"ok": "succeeded", "refused": "refused-only", "none": "missing"}
    for tool, fate in fates(judgement).items():
        want = wanted.get(outcomes[tool], "failed-only")
        assert fate == ("excused" if tool in excused and want != "succeeded" else want)
        if fate not in ("succeeded", "excused"):
            assert any(item.tool == tool and item.severity == "error" for item in judgement.findings)
