"""What servers ask of clients, from hand-written frames: each fault with its place, and nothing of what is good."""

import json

import pytest

from harness.model.transcript import Prompted

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
