"""What input schemas leave open, and the flat list of parameters on which that rests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.fields import MAX_FIELDS, fields_of, fits
from harness.findings.strict import check_strict
from harness.model.catalogue import Catalogue, ToolDef

TEXT = {"type": "string", "maxLength": 9, "description": "A text."}


def rules(schema, *, name="a", description="Does a thing."):
    definition = {"name": name, "description": description, "inputSchema": schema}
    catalogue = Catalogue(server="s", source="s", tools=(ToolDef(name=name, index=0, definition=definition),))
    return {item.check.removeprefix("strict/"): item.evidence.get("parameters") for item in check_strict(catalogue)}


def closed(properties, required=None):
    required = sorted(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"enum": ["a", "b"], "description": "Either 'a' or 'b'."},
        {"const": "a", "description": "An a."},
        {"type": "string", "format": "uuid", "description": "An id."},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 10, "description": "A number."},
        {"type": "boolean", "description": "Whether."},
        {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3, "description": "Some."},
        {"type": "object", "additionalProperties": {"type": "boolean"}, "description": "A free map."},
        {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "description": "Maybe."},
    ],
)
def test_what_is_bounded_and_described_is_silent(schema):
    assert rules(closed({"x": schema})) == {}


def test_one_finding_names_all_parameters_of_a_kind_with_their_paths():
    inner = closed({"t": {"type": "string"}, "u": TEXT})
    schema = closed({"x": {"type": "string"}, "l": {"type": "array", "items": inner}})
    found = rules(schema)
    assert found["bounded-strings"] == ["l[].t", "x"]
    assert found["bounded-arrays"] == ["l"]
    assert found["descriptions"] == ["l", "l[].t", "x"]


def test_an_object_is_closed_where_its_parameters_are_and_through_references():
    assert rules({**closed({"x": {"$ref": "#/$defs/x"}}), "$defs": {"x": closed({"t": TEXT})}}) == {
        "descriptions": ["x"]
    }
    opened = {"type": "object", "properties": {"t": TEXT}, "required": ["t"], "description": "An object."}
    assert rules(closed({"x": opened})) == {"additional-properties": ["x"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Either 'a' or 'b'.", True),
        ("Sort order: one of `asc`, `desc`", True),
        ('"asc" or "desc"', True),
        ("Valid values are 'x', 'y', 'z'", True),
        ("A name, such as 'a' or 'b'.", False),
        ("Must be 'a'.", False),
        ("The key", False),
    ],
)
def test_values_that_only_the_description_names_belong_in_an_enum(text, told):
    assert ("enum-in-prose" in rules(closed({"x": {**TEXT, "description": text}}))) is told


@pytest.mark.parametrize(
    ("name", "schema", "told"),
    [
        ("list_things", closed({}), True),
        ("searchThings", closed({}), True),
        ("git_list_things", closed({}), True),
        ("get_thing", closed({}), False),
        ("blacklist_thing", closed({}), False),
        ("execute_query", closed({}), False),
        (
            "list_things",
            closed({"perPage": {"type": "integer", "minimum": 1, "maximum": 9, "description": "n"}}),
            False,
        ),
        ("list_things", closed({"page_size": {"type": "integer", "minimum": 1, "description": "n"}}), True),
    ],
)
def test_what_lists_things_has_a_hard_limit(name, schema, told):
    assert ("page-limit" in rules(schema, name=name)) is told


def test_parameters_are_named_through_references_unions_lists_and_maps():
    schema = {
        "properties": {
            "f": {"anyOf": [{"$ref": "#/$defs/one"}, {"type": "array", "items": {"$ref": "#/$defs/one"}}]},
            "m": {"additionalProperties": {"type": "string"}},
        },
        "$defs": {"one": {"title": "One", "properties": {"p.q": {"enum": ["x", "y", None]}}}},
    }
    found = fields_of(schema)
    assert [item.name for item in found.all] == ["f", "f[]", "f[].p.q", "f.p.q", "m", "m.*"]
    assert [branch.label for branch in found.all[0].branches] == ["One", "array"]
    assert found.all[2].values == ("x", "y")
    assert [fits(branch, [{}]) for branch in found.all[0].branches] == [True, True]  # One names no type
    assert not found.cut


def test_a_schema_that_holds_itself_ends_and_one_that_explodes_is_cut():
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"l": {"$ref": "#/$defs/t"}, "v": {"type": "null"}}}}}
    assert [item.name for item in fields_of(tree).all] == ["l", "v"]
    defs = {f"d{n}": {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "abcd"}} for n in range(20)}
    wide = fields_of({"$ref": "#/$defs/d0", "$defs": {**defs, "d20": {"type": "string"}}})
    assert wide.cut
    assert len(wide.all) <= MAX_FIELDS + 4


def test_hostile_schemas_end():
    deep = {"type": "string"}
    for _ in range(5_000):
        deep = {"type": "object", "properties": {"a": deep}}
    assert fields_of(deep).cut
    shared = {f"d{n}": {"properties": {f"p{n}": {"$ref": "#/$defs/all"}}} for n in range(300)}
    mixed = {"allOf": [{"$ref": f"#/$defs/d{n}"} for n in range(300)]}
    found = fields_of({"$ref": "#/$defs/all", "$defs": {**shared, "all": mixed}})
    assert len(found.all) == 300
    wide = {"anyOf": [{"type": "object", "properties": {f"p{n}": {"$ref": "#"}}} for n in range(3_000)]}
    assert len(fields_of(wide).all) <= MAX_FIELDS + 3_000


SCHEMAS = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"type": "integer"}, {"enum": [1, 2]}, {"$ref": "#"}, None, 7]),
    lambda inner: st.builds(
        lambda names, keyword: {keyword: names if keyword == "properties" else list(names.values())},
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.sampled_from(["properties", "anyOf", "allOf", "items"]),
    ),
    max_leaves=12,
)


@given(SCHEMAS)
def test_the_order_of_keys_changes_nothing_and_nothing_makes_it_fail(schema):
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    one, other = rules(schema), rules(turned(schema))
    assert {key: sorted(value or []) for key, value in one.items()} == {
        key: sorted(value or []) for key, value in other.items()
    }
    assert json.loads(json.dumps(one)) == one
