"""What servers ask of clients, from hand-written frames: each fault with its place, and nothing of what is good."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.frames import read_dialogue
from harness.findings.steps import view_run
from harness.model.transcript import Diagnostic, Prompted

BASE = "/params/requestedSchema"
LOG_IN = {"message": "m", "mode": "url", "url": "https://a.example/", "elicitationId": "1"}


def form(schema, **more):
    return {"message": "Sure?", "requestedSchema": schema, **more}


def flat(**properties):
    return {"type": "object", "properties": properties}


def asked(t, params, method="elicitation/create", declared=None):
    """The judgement of a call in whose course the server asked for something."""
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo")
    identity = tape.call(ref, "echo")
    tape.message({"jsonrpc": "2.0", "id": "a", "method": method, "params": params})
    tape.reply(identity, t.OK)
    tape.finish(ref).done().stop()
    declared = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}} if declared is None else declared
    return t.judged(t.evidence(t.key(), tape, client_capabilities=declared))


GOOD = {
    "a": {"type": "string", "title": "A", "minLength": 1, "maxLength": 9, "pattern": "^a", "format": "uri"},
    "b": {"type": "integer", "minimum": 1, "default": 2.0},
    "c": {"type": "number", "default": 1},
    "d": {"type": "boolean", "default": True},
    "e": {"type": "string", "enum": ["x"], "enumNames": ["X"], "default": "x"},
    "f": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
    "g": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "default": ["x"]},
    "h": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "minItems": 1},
    "password_reset": {"type": "boolean"},
    "secret": {"type": "string", "enum": ["first", "second"]},
    "token": {"type": "string"},
    "passwords": {"type": "integer"},
}


def test_every_kind_of_field_that_there_is_is_fine(t):
    schema = {
        **flat(**GOOD),
        "required": ["a"],
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "T",
    }
    assert asked(t, form(schema)).findings == ()
    assert asked(t, form(schema, mode="form")).findings == ()
    url = {"mode": "url", "message": "Go", "url": "https://example.org/?a=b", "elicitationId": "1"}
    assert asked(t, url).findings == ()


@pytest.mark.parametrize(
    ("schema", "pointer", "said"),
    [
        ({"properties": {"a": {"type": "string"}}}, BASE, "the root's type is null, not object"),
        ({"type": "object"}, f"{BASE}/properties", "properties is no object"),
        (
            {**flat(a={"type": "string"}), "required": ["b"]},
            f"{BASE}/required",
            'required names what is no field: ["b"]',
        ),
        ({**flat(a={"type": "string"}), "allOf": []}, f"{BASE}/allOf", "allOf at the root"),
        (flat(a=True), f"{BASE}/properties/a", "a: a field is a schema, not true"),
        (flat(a={}), f"{BASE}/properties/a", "a: its type is null"),
        (flat(a={"type": ["string", "null"]}), f"{BASE}/properties/a", 'a: its type is ["string", "null"]'),
        (flat(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), f"{BASE}/properties/a", "a: anyOf"),
        (flat(a={"$ref": "#/$defs/a"}), f"{BASE}/properties/a", "a: $ref"),
        (flat(a={"type": "object"}), f"{BASE}/properties/a", "a: a nested object"),
        (flat(**{"a/b~": {"type": "null"}}), f"{BASE}/properties/a~1b~0", 'a/b~: its type is "null"'),
        (
            flat(a={"type": "array", "items": {"type": "string"}}),
            f"{BASE}/properties/a",
            "a: an array that is no choice",
        ),
        (flat(a={"type": "string", "format": "uuid"}), f"{BASE}/properties/a", 'a: the format "uuid"'),
        (flat(a={"type": "string", "enum": [1]}), f"{BASE}/properties/a", "a: an enum that is no list of texts"),
        (flat(a={"type": "string", "oneOf": [{"const": "x"}]}), f"{BASE}/properties/a", "a: oneOf that is no list"),
        (flat(a={"type": "integer", "enum": [1, 2]}), f"{BASE}/properties/a", "a: an enum of what is no text"),
        (flat(a={"type": "string", "default": None}), f"{BASE}/properties/a", "a: the default null is no string"),
        (flat(a={"type": "integer", "default": True}), f"{BASE}/properties/a", "a: the default true is no integer"),
        (flat(a={"type": "boolean", "default": 1}), f"{BASE}/properties/a", "a: the default 1 is no boolean"),
    ],
)
def test_a_form_that_is_not_flat_and_simple_is_told_with_its_place(t, schema, pointer, said):
    found = t.one(asked(t, form(schema)), "wire/elicit-schema")
    assert (found.tool, found.pointer) == ("echo", pointer)
    assert f"of the server's: {said}" in found.message


@pytest.mark.parametrize(
    "name",
    ["password", "newPassword", "api_key", "API-KEY", "apikey", "clientSecret", "card_number", "access_token", "cvv"],
)
def test_a_form_that_asks_for_a_secret_is_told(t, name):
    found = t.one(asked(t, form(flat(**{name: {"type": "string"}}))), "wire/elicit-secret")
    assert found.pointer == f"{BASE}/properties/{name}"


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("elicitation/create", {}, "message is no text"),
        ("elicitation/create", {"message": 1, "requestedSchema": flat(a={"type": "string"})}, "message is no text"),
        ("elicitation/create", {"message": "m", "mode": None}, "mode is null"),
        ("elicitation/create", {"message": "m", "mode": ["form"]}, 'mode is ["form"]'),
        ("elicitation/create", {**LOG_IN, "url": "/a"}, 'url is no URL: "/a"'),
        ("elicitation/create", {**LOG_IN, "url": "https://a b"}, "url is no URL"),
        ("elicitation/create", {**LOG_IN, "elicitationId": None}, "elicitationId is no text"),
        ("sampling/createMessage", {"messages": [{}], "maxTokens": 1}, "messages is no list"),
        ("sampling/createMessage", {"messages": [], "maxTokens": True}, "maxTokens is no number"),
    ],
)  # fmt: skip
def test_a_request_that_nobody_can_answer_is_told_and_nothing_else_of_it(t, method, params, said):
    judgement = asked(t, params, method)
    assert {item.check for item in judgement.findings} == {"wire/malformed-request"}
    assert any(said in item.message for item in judgement.findings)


@pytest.mark.parametrize(
    ("declared", "method", "params", "missing"),
    [
        ({}, "elicitation/create", form({}), "elicitation"),
        ({"elicitation": {}}, "elicitation/create", form(flat()), None),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url"}, "elicitation of mode 'url'"),
        ({"elicitation": {"url": {}}}, "elicitation/create", form({}), "elicitation of mode 'form'"),
        ({"sampling": {}}, "sampling/createMessage", {"tools": []}, "sampling with tools"),
        ({"sampling": {"tools": {}}}, "roots/list", {}, "roots"),
    ],
)
def test_what_was_not_declared_is_one_finding_whatever_else_is_wrong(t, declared, method, params, missing):
    judgement = asked(t, params, method, declared)
    if missing is None:
        assert [item.check for item in judgement.findings] == ["wire/elicit-empty"]
        return
    (found,) = judgement.findings
    assert found.check == "wire/undeclared-request"
    assert f"did not declare {missing};" in found.message


def test_a_failed_step_shows_what_the_client_was_asked_and_answered(t):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", expect={"prompts": ["Really?"], "text_equals": "x"})
    identity = tape.call(ref, "echo")
    answer = {"result": {"action": "decline"}}
    tape.add(
        Prompted, method="elicitation/create", target="tools/call echo", message="Sure?", mode="form", answer=answer,
        by="answers[1]", step=ref,
    )  # fmt: skip
    tape.reply(identity, t.OK)
    found = t.one(t.judged(t.evidence(t.key(), tape.finish(ref).done("stopped").stop())), "suite/step-failed")
    assert found.evidence["mismatches"][-1] == "expected prompt 1 containing 'Really?', got 'Sure?'"
    assert found.evidence["prompts"] == [
        {
            "method": "elicitation/create", "mode": "form", "message": "'Sure?'",
            "answer": json.dumps(answer), "by": "answers[1]",
        }
    ]  # fmt: skip


WAYS = ["notifications/cancelled", "stream"]


def cancel(tape, identity, how):
    """A call is cancelled: by a frame or, over HTTP in the modern era, by the end of its stream, which is noted."""
    if how == "stream":
        tape.add(Diagnostic, what="cancelled", detail="tools/call echo", request=identity)
    else:
        tape.notify("notifications/cancelled", {"requestId": identity, "reason": "the test cancels it"})


@pytest.mark.parametrize("how", WAYS)
@given(
    fates=st.lists(
        st.sampled_from(["answered", "cancelled", "cancelled, answered", "timed out"]), min_size=1, max_size=5
    ),
    order=st.randoms(use_true_random=False),
)
def test_of_calls_under_one_label_those_that_were_cancelled_are_excused_and_no_other(t, how, fates, order):
    """Ours: both ways of cancelling are one rule, whatever else is open under the same label, in whatever order."""
    tape = t.Tape().start()
    sent = {tape.send("tools/call", {"name": "echo", "arguments": {}}): fate for fate in fates}
    ends = list(sent)
    order.shuffle(ends)
    for identity in ends:
        fate = sent[identity]
        if fate.startswith("cancelled"):
            cancel(tape, identity, how)
        if fate == "timed out":
            tape.add(Diagnostic, what="timeout", detail="tools/call echo", request=identity)
        elif fate.endswith("answered"):
            tape.reply(identity, t.OK)
    dialogue = read_dialogue(tape.stop().transcript())
    seen = {item.id: item for item in dialogue.exchanges if item.method == "tools/call"}
    assert {key: item.cancelled for key, item in seen.items()} == {
        key: how if fate.startswith("cancelled") else "" for key, fate in sent.items()
    }
    assert {key for key, item in seen.items() if item.in_time} == {k for k, fate in sent.items() if fate == "answered"}
    assert {key for key, item in seen.items() if item.given_up} == {k for k, fate in sent.items() if fate != "answered"}
    assert dialogue.left_open == ()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("recorded", "fault"), [(True, ""), (False, "suite/step-failed")])
def test_a_step_is_excused_by_a_cancellation_that_is_on_record_and_by_no_word_alone(t, how, recorded, fault):
    tape = t.Tape().start().case("one")
    ref = tape.begin("echo", cancel_after_s=0.1)
    identity = tape.call(ref, "echo")
    if recorded:
        cancel(tape, identity, how)
    tape.reply(tape.send("tools/list", {}, step=ref, round=2), {"tools": []})
    tape.finish(ref, "cancelled").done()
    view = view_run(t.plan_for([t.evidence(t.key(), tape)]).cells[0].runs[0], t.evidence(t.key(), tape.stop()))
    (use,) = view.uses
    assert (use.fault, use.why) == (fault, "a call that was cancelled" if recorded else "no answer")
