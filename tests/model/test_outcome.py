"""Expectations against answers: ours, with the result shapes of MCP server/tools."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.outcome import (
    Missing,
    answer_of,
    capture,
    compare,
    expect_from_json,
    expect_to_json,
    is_refusal_expected,
    looks_like_an_error,
    mismatches,
    resolve_pointer,
    same_json,
)
from harness.model.plan import CaptureSpec, ExpectSpec


def text_result(*texts, **more):
    return answer_of("call", {"result": {"content": [{"type": "text", "text": text} for text in texts], **more}})


def rpc_error(code, message):
    return answer_of("call", {"error": {"code": code, "message": message}})


def test_a_step_without_expectation_expects_a_success():
    assert not mismatches(ExpectSpec(), text_result("fine"))
    assert mismatches(ExpectSpec(), text_result("no", isError=True))
    assert mismatches(ExpectSpec(), rpc_error(-32602, "unknown tool"))


def test_an_expected_error_is_an_is_error_result_or_a_json_rpc_error():
    expect = ExpectSpec(is_error=True, text_contains=("key",))
    assert not mismatches(expect, text_result("the key is empty", isError=True))
    assert not mismatches(expect, rpc_error(-32602, "bad key"))
    assert mismatches(expect, text_result("the key is fine"))
    assert mismatches(expect, text_result("another reason", isError=True))


def test_a_code_asks_for_a_json_rpc_error():
    expect = ExpectSpec(code=-32602)
    assert not mismatches(expect, rpc_error(-32602, "x"))
    assert mismatches(expect, rpc_error(-32601, "x"))
    assert mismatches(expect, text_result("x", isError=True))


def test_every_mismatch_is_told_not_only_the_first():
    expect = ExpectSpec(
        text_contains=("a", "b"), text_matches="^c", text_equals="d", pointer={"/structuredContent/x": 1}
    )
    assert len(mismatches(expect, text_result("z"))) == 5


def test_a_bare_error_is_no_stated_refusal():
    assert not is_refusal_expected(ExpectSpec(is_error=True))
    assert is_refusal_expected(ExpectSpec(is_error=True, text_matches="x"))
    assert is_refusal_expected(ExpectSpec(code=-32602))


def test_pointers_reach_the_text_and_the_json_in_it():
    answer = text_result('{"items": [{"id": 7}]}', structuredContent={"n": 1})
    assert resolve_pointer(answer.document, "/structuredContent/n") == 1
    assert resolve_pointer(answer.document, "/$json/items/0/id") == 7
    assert resolve_pointer(answer.document, "/$text").startswith("{")
    with pytest.raises(Missing):
        resolve_pointer(answer.document, "/$json/items/1")


def test_a_capture_takes_group_one_or_the_whole_match():
    answer = text_result("made id: abc-1, done")
    assert capture(CaptureSpec(name="x", pointer="/$text", matches=r"id: ([\w-]+)"), answer) == "abc-1"
    assert capture(CaptureSpec(name="x", pointer="/$text", matches=r"abc"), answer) == "abc"
    with pytest.raises(Missing):
        capture(CaptureSpec(name="x", pointer="/$text", matches="nothing"), answer)


def test_what_takes_longer_than_its_bounds_is_undecided_and_holds_nobody_up():
    found = compare(ExpectSpec(text_matches=r"^(a|a)*$"), text_result("a" * 40 + "!"))
    assert found.wrong == ()
    assert "took over 2 s" in found.undecided[0]
    schema = {"$ref": "elsewhere.json"}
    answer = text_result("b", structuredContent={})
    found = compare(ExpectSpec(schema=schema, text_equals="a"), answer)
    assert (found.wrong, len(found.undecided)) == (("expected text equal to 'a', got 'b'",), 1)
    assert mismatches(ExpectSpec(schema=schema), answer) == found.undecided


@pytest.mark.parametrize(
    "result",
    [{}, {"content": "x"}, {"content": [1]}, {"content": [{}]}, {"content": [{"type": "text"}]}, 5, None, [],
     {"content": [], "isError": "no"}],
)  # fmt: skip
def test_a_malformed_result_is_told(result):
    assert answer_of("call", {"result": result}).problem


@pytest.mark.parametrize(
    "text",
    ["Error: 401 Unauthorized", "Error setting key 'x': refused", "❌ Error: no", "ValueError: bad", "Failed to get x",
     "An error occurred", "404 Not Found", "Traceback (most recent call last):", '{"error": "no such key"}'],
)  # fmt: skip
def test_words_of_failure_in_a_success_are_noticed(text):
    assert looks_like_an_error(text_result(text))


@pytest.mark.parametrize(
    "text",
    ["Error rates for March: 0.1 %", "errors: 0", "Failed logins: 0", "No errors found", "The error log is empty",
     "404", "400 rows", '{"error": null, "value": 1}', '{"error": "x", "rows": [1]}', "", "Errors are listed below"],
)  # fmt: skip
def test_words_that_only_sound_like_it_are_not(text):
    assert not looks_like_an_error(text_result(text))


def test_a_wrapped_error_object_is_noticed():
    assert looks_like_an_error(text_result("{}", structuredContent={"result": {"error": "no such stream"}}))
    assert looks_like_an_error(text_result("Error: x", structuredContent={"result": "Error: x"}))
    assert not looks_like_an_error(text_result("{}", structuredContent={"result": {"error": "x", "rows": []}}))


def test_text_beside_other_blocks_is_not_the_only_text():
    assert not looks_like_an_error(text_result("Error: a heading", "and what follows"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_is_the_same_after_a_round_through_json(value):
    assert same_json(value, json.loads(json.dumps(value)))


def test_true_is_not_one():
    assert not same_json(True, 1)
    assert not same_json({"a": [0]}, {"a": [False]})
    assert same_json(1, 1.0)


@given(
    st.builds(
        ExpectSpec,
        is_error=st.none() | st.booleans(),
        code=st.none() | st.integers(),
        text_contains=st.lists(st.text()).map(tuple),
        text_matches=st.none() | st.text(),
        text_equals=st.none() | st.text(),
        pointer=st.dictionaries(st.text(), JSON, max_size=2),
        schema=st.none() | st.just({"type": "object"}),
    )
)
def test_an_expectation_survives_json(expect):
    assert expect_from_json(json.loads(json.dumps(expect_to_json(expect)))) == expect


@pytest.mark.parametrize(
    ("wanted", "prompts", "wrong"),
    [
        (None, ["a"], []),
        ((), [], []),
        ((), ["Really?"], ["expected no prompts, got 1 prompt: 'Really?'"]),
        (("Really?",), [], ["expected 1 prompt, got no prompts"]),
        (("Real", "sure"), ["Really?", "Are you sure?"], []),
        (("sure", "Real"), ["Really?", "sure"], [
            "expected prompt 1 containing 'sure', got 'Really?'", "expected prompt 2 containing 'Real', got 'sure'"
        ]),
        (("a",), ["a"] * 7, ["expected 1 prompt, got 7 prompts: 'a', 'a', 'a', 'a', 'a', …"]),
    ],
)  # fmt: skip
def test_prompts_are_those_that_are_expected_in_their_order(wanted, prompts, wrong):
    answer = answer_of("call", {"result": {"content": []}})
    expect = ExpectSpec(prompts=wanted)
    assert mismatches(expect, answer, prompts) == tuple(wrong)
    assert expect_from_json(json.loads(json.dumps(expect_to_json(expect)))) == expect
