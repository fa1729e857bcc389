"""Content for elicitation forms. Specification for the schema's subset; ours for what is filled in."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.forms import MAX_FORM_CHARS, MAX_FORM_VALUES, TOO_LARGE, fill_form, form_content

CASES = [
    ({"confirm": {"type": "boolean", "default": False}}, (), {"confirm": True}),
    ({"a": {"type": "string", "default": "d"}, "b": {"type": "string"}}, (), {"a": "d"}),
    ({"a": {"type": "string", "enum": ["x", "y"]}}, (), {"a": "x"}),
    ({"a": {"type": "string", "oneOf": [{"const": "p", "title": "P"}]}}, (), {"a": "p"}),
    ({"a": {"type": "string", "minLength": 4, "maxLength": 5}}, ("a",), {"a": "xxxx"}),
    ({"a": {"type": "string", "format": "email"}}, ("a",), {"a": "someone@example.org"}),
    ({"a": {"type": "string", "pattern": "^[A-Z]{3}$", "minLength": 3}}, ("a",), {"a": "XXX"}),
    ({"a": {"type": "string", "pattern": "^\\d{4}$", "minLength": 4}}, ("a",), {"a": "1111"}),
    ({"a": {"type": "string", "pattern": "^\\d+\\.\\d+\\.\\d+$"}}, ("a",), {"a": "1.0.0"}),
    ({"a": {"type": "integer", "minimum": 10}}, ("a",), {"a": 10}),
    ({"a": {"type": "integer", "maximum": -3}}, ("a",), {"a": -3}),
    ({"a": {"type": "number", "exclusiveMinimum": 1}}, ("a",), {"a": 1.5}),
    ({"a": {"type": "integer", "minimum": 3, "multipleOf": 5}}, ("a",), {"a": 5}),
    (
        {"a": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 2}},
        ("a",),
        {"a": ["x", "y"]},
    ),
    (
        {"a": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}}, "b": {"type": "string"}},
        ("a",),
        {"a": ["x"]},
    ),
    ({"a": {"type": "string", "enum": ["x"], "enumNames": ["X"], "default": "x"}}, (), {"a": "x"}),
]


@pytest.mark.parametrize(("properties", "required", "content"), CASES)
def test_a_form_is_filled_within_its_bounds(properties, required, content):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    assert form_content(schema) == content
    jsonschema.validate(form_content(schema), schema)


KEYS = ["type", "enum", "minimum", "maximum", "multipleOf", "exclusiveMaximum", "minItems", "minLength", "maxLength",
        "items", "properties", "required", "const", "oneOf", "default", "format", "pattern", "x"]  # fmt: skip
NUMBERS = st.sampled_from([5e-324, 1e308, -1e308, 1e400, float("nan"), 10**400, 0, -1, 0.1, 1e15, 2**63, 10**9])
WORDS = st.sampled_from(["object", "array", "string", "integer", "number", "null", "boolean", "x", "\ud800", "(a+)+$"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(json_values, st.dictionaries(st.text(max_size=3), json_values, max_size=3), json_values)
def test_whatever_is_asked_there_is_an_answer(schema, properties, required):
    for asked in (schema, {"properties": properties, "required": required},
                  {"properties": properties, "required": list(properties)}):  # fmt: skip
        content, _ = fill_form(asked)
        assert len(json.dumps(content, allow_nan=False)) < 10 * MAX_FORM_CHARS


odd_fields = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", "string", "array"])},
    optional=dict.fromkeys(
        [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
        ],
        NUMBERS | st.floats() | st.integers(),
    ),
)


@given(odd_fields)
def test_no_bound_is_too_odd(field):
    content = form_content({"properties": {"a": field, "b": {"type": "string"}}, "required": ["a", "b"]})
    assert content["b"] == "x"
    json.dumps(content, allow_nan=False)


def nested(kind, levels, **more):
    inner = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "array", "items": inner, **more} if kind == "array" else {
            "type": "object", "properties": {"a": inner}, "required": ["a"]}  # fmt: skip
    return inner


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "field",
    [nested("array", 4, minItems=10_000), nested("array", 2, minItems=3000), nested("array", 470),
     nested("object", 470),
     {"type": "string", "minLength": 10**9}, {"type": "string", "minLength": 1e300},
     {"type": "array", "minItems": 1e300},
     {"type": "array", "minItems": 9000, "items": {"type": "string", "minLength": 9000}},
     {"type": "array", "minItems": 200, "items": {"enum": [["x" * 100] * 100]}},
     {"default": deep(100_000)}, {"enum": [deep(100_000)]}, {"const": 10**5000},
     {"default": "x" * (MAX_FORM_CHARS + 1)}],
    ids=range(13),
)  # fmt: skip
def test_a_field_too_large_is_left_out_in_no_time_and_that_is_said(field):
    schema = {"properties": {"a": field, "b": {"type": "string"}}, "required": ["a", "b"]}
    assert fill_form(schema) == ({"b": "x"}, TOO_LARGE)


def test_the_bound_is_one_of_all_fields_together():
    field = {"type": "array", "minItems": MAX_FORM_VALUES // 3, "items": {"type": "null"}}
    content, note = fill_form({"properties": {str(n): field for n in range(9)}, "required": [str(n) for n in range(9)]})
    assert note == TOO_LARGE
    assert sum(map(len, content.values())) < MAX_FORM_VALUES


def test_what_is_no_json_is_not_sent():
    assert form_content({"properties": {"a": {"default": float("nan")}, "b": {"enum": [float("inf"), 2]}}}) == {"b": 2}
