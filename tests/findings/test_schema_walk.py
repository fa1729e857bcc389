"""The walk over one schema: what is a schema in it, where each stands, and where references lead."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.schema_walk import MAX_CHARACTERS, MAX_LEVELS, dialect_of, walk

TEXT = {"type": "string"}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
KEYS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "allOf", "$ref", "$defs", "not", "required", "$id", "$anchor", "a", "b"]
)
JSON = st.recursive(
    SCALARS | st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#a", "object", "array"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def pointers(schema: Any) -> list[str]:
    return [node.pointer for node in walk(schema).nodes]


def refs(schema: Any) -> dict[str, tuple[str, str | None, bool, bool]]:
    return {
        ref.pointer: (ref.status, ref.target.pointer if ref.target else None, ref.recursive, ref.endless)
        for ref in walk(schema).refs
    }


def deep(levels: int, keyword: str = "properties") -> Any:
    schema: Any = dict(TEXT)
    for _ in range(levels):
        schema = {"properties": {"a": schema}} if keyword == "properties" else {keyword: [schema]}
    return schema


def test_every_position_of_a_schema_is_visited_with_its_pointer() -> None:
    names = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
    lists = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
    singles = {"contains", "not", "propertyNames", "if", "then", "else", "additionalProperties", "contentSchema"}
    singles |= {"unevaluatedProperties", "additionalItems", "unevaluatedItems"}
    schema = {
        **{keyword: {"k": {}} for keyword in names},
        **{keyword: [{}, {}] for keyword in lists},
        **{keyword: {} for keyword in singles},
    }
    expected = {""}
    expected |= {f"/{keyword}/k" for keyword in names}
    expected |= {f"/{keyword}/{index}" for keyword in lists for index in (0, 1)}
    expected |= {f"/{keyword}" for keyword in singles}
    assert set(pointers(schema)) == expected
    assert len(walk(schema).nodes) == len(expected)


def test_parameters_that_are_named_like_keywords_are_none() -> None:
    named = {key: {"type": "string"} for key in ("properties", "required", "$ref", "type", "items", "anyOf", "$defs")}
    schema = {"type": "object", "properties": named}
    assert pointers(schema) == ["", *(f"/properties/{key}" for key in named)]
    assert walk(schema).refs == []


def test_what_looks_like_a_schema_in_data_is_none() -> None:
    data = {"properties": {"a": {"$ref": "#/nowhere"}}, "items": []}
    schema = {"default": data, "const": data, "enum": [data], "examples": [data], "x-more": data}
    assert (pointers(schema), walk(schema).refs) == ([""], [])


def test_names_with_slashes_and_tildes_are_escaped() -> None:
    assert pointers({"properties": {"a/b~c": TEXT}}) == ["", "/properties/a~1b~0c"]


def test_the_array_of_names_of_old_dependencies_is_no_schema() -> None:
    assert pointers({"dependencies": {"a": ["b"], "c": {}}}) == ["", "/dependencies/c"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": TEXT}}, ("local", "/$defs/x", False, False)),
        (
            {"properties": {"a": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": TEXT}},
            ("local", "/$defs/a b", False, False),
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": TEXT}},
            ("local", "/$defs/a~1b", False, False),
        ),
        ({"properties": {"a": {"$ref": "#x"}}, "$defs": {"x": {"$anchor": "x"}}}, ("local", "/$defs/x", False, False)),
        ({"properties": {"a": {"$ref": "#/any/where"}}, "any": {"where": TEXT}}, ("local", "/any/where", False, False)),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": True}}, ("local", "/$defs/x", False, False)),
        ({"properties": {"a": {"$ref": "#"}}}, ("local", "", True, False)),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, ("local", "/properties/a", True, True)),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, ("dangling", None, False, False)),
        ({"properties": {"a": {"$ref": "#/$defs/x/0"}}, "$defs": {"x": "text"}}, ("dangling", None, False, False)),
        ({"properties": {"a": {"$ref": "#/required"}}, "required": []}, ("dangling", None, False, False)),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, ("remote", None, False, False)),
        ({"properties": {"a": {"$ref": "http://[x"}}}, ("remote", None, False, False)),
        ({"properties": {"a": {"$ref": 7}}}, ("malformed", None, False, False)),
        (
            {"$id": "https://e.org/a", "properties": {"a": {"$ref": "b"}}, "$defs": {"b": {"$id": "b"}}},
            ("local", "/$defs/b", False, False),
        ),
    ],
)
def test_a_reference_leads_where_it_says(schema: Any, expected: tuple[str, str | None, bool, bool]) -> None:
    assert refs(schema)["/properties/a/$ref"] == expected


def test_a_reference_inside_an_embedded_document_counts_from_its_root() -> None:
    inner = {"$id": "b", "properties": {"k": {"$ref": "#/properties/m"}, "m": TEXT}}
    assert refs({"$defs": {"b": inner}}) == {
        "/$defs/b/properties/k/$ref": ("local", "/$defs/b/properties/m", False, False)
    }


def test_only_what_leads_back_is_recursive() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/b"}}}
    back = {"type": "array", "items": {"$ref": "#/$defs/a"}}
    found = refs({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": node, "b": back}})
    assert {pointer: recursive for pointer, (_, _, recursive, _) in found.items()} == {
        "/properties/x/$ref": False,
        "/$defs/a/properties/next/$ref": True,
        "/$defs/b/items/$ref": True,
    }


def test_a_chain_of_references_is_followed_to_its_end_and_a_loop_is_left() -> None:
    seen = walk(
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": TEXT, "l": {"$ref": "#/$defs/l"}}}
    )
    by_pointer = {node.pointer: node for node in seen.nodes}
    assert seen.follow(by_pointer["/$defs/a"]).pointer == "/$defs/c"
    assert seen.follow(by_pointer["/$defs/l"]).pointer == "/$defs/l"


def test_levels_beyond_the_bound_are_said_and_not_visited() -> None:
    assert walk(deep(MAX_LEVELS)).too_deep is None
    seen = walk(deep(10_000))
    assert seen.too_deep == "/properties/a" * (MAX_LEVELS + 1)
    assert len(seen.nodes) == MAX_LEVELS + 1


def test_more_schemas_or_characters_than_the_bound_are_said() -> None:
    many = walk({"properties": {f"a{number}": {} for number in range(11)}}, max_nodes=10)
    long = walk({"description": "x" * (MAX_CHARACTERS + 1)})
    assert (many.too_large, len(many.nodes)) == ("more than 10 schemas", 1)
    assert (long.too_large, len(long.nodes)) == ("more than 1,000,000 characters", 1)


def test_references_that_multiply_are_counted_without_being_written_out() -> None:
    defs = {
        f"a{number}": {"allOf": [{"$ref": f"#/$defs/a{number + 1}"}, {"$ref": f"#/$defs/a{number + 1}"}]}
        for number in range(5_000)
    }
    seen = walk({"$ref": "#/$defs/a0", "$defs": {**defs, "a5000": TEXT}})
    assert seen.inlined_sizes(10**6)[0] == 10**6


def test_dialects_are_known_by_their_names() -> None:
    assert dialect_of({}) == ""
    assert dialect_of({"$schema": "http://json-schema.org/draft-07/schema#"}) == "draft-07"
    assert dialect_of({"$schema": "https://json-schema.org/draft/2020-12/schema"}) == "2020-12"
    assert dialect_of({"$schema": "https://example.com/own"}) == "unknown"
    assert dialect_of({"$schema": "http://json-schema.org/schema#"}) == ""  # the newest, by its old name


@given(JSON)
def test_any_json_is_walked_and_each_schema_is_visited_once(schema: Any) -> None:
    seen = walk(schema)
    places = [node.pointer for node in seen.nodes]
    assert len(places) == len(set(places))
    assert [node.number for node in seen.nodes] == list(range(len(places)))
    for ref in seen.refs:
        assert (ref.target is not None) == (ref.status == "local")
