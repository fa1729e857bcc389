"""Content for elicitation forms. Specification for the schema's subset; ours for what is filled in."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.forms import form_content

CASES = [
    ({"confirm": {"type": "boolean", "default": False}}, (), {"confirm": True}),
    ({"a": {"type": "string", "default": "d"}, "b": {"type": "string"}}, (), {"a": "d"}),
    ({"a": {"type": "string", "enum": ["x", "y"]}}, (), {"a": "x"}),
    ({"a": {"type": "string", "oneOf": [{"const": "p", "title": "P"}]}}, (), {"a": "p"}),
    ({"a": {"type": "string", "minLength": 4, "maxLength": 5}}, ("a",), {"a": "xxxx"}),
    ({"a": {"type": "string", "format": "email"}}, ("a",), {"a": "someone@example.org"}),
    ({"a": {"type": "integer", "minimum": 10}}, ("a",), {"a": 10}),
    ({"a": {"type": "integer", "maximum": -3}}, ("a",), {"a": -3}),
    ({"a": {"type": "number", "exclusiveMinimum": 1}}, ("a",), {"a": 1.5}),
    ({"a": {"type": "integer", "minimum": 3, "multipleOf": 5}}, ("a",), {"a": 5}),
    (
        {"a": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 2}},
        ("a",),
        {"a": ["x", "y"]},
    ),
]


@pytest.mark.parametrize(("properties", "required", "content"), CASES)
def test_a_form_is_filled_within_its_bounds(properties, required, content):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    assert form_content(schema) == content
    jsonschema.validate(form_content(schema), schema)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "enum", "minimum", "items", "x"]), inner)
    ),
    max_leaves=8,
)


@given(json_values, st.dictionaries(st.text(max_size=3), json_values, max_size=3), json_values)
def test_whatever_is_asked_there_is_an_answer(schema, properties, required):
    assert isinstance(form_content(schema), dict)
    assert isinstance(form_content({"properties": properties, "required": required}), dict)
