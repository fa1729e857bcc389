"""Schema validation that cannot hang, fetch or die (U050): ours."""

import pytest

from harness.model.bounded import BudgetExceeded, depth_of, validate


def test_all_violations_come_with_their_pointers():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b~/": {"type": "string"}}, "required": ["c"]}
    found = validate(schema, {"a": "x", "b~/": 1})
    assert [pointer for pointer, _ in found] == ["", "/a", "/b~0~1"]


def test_a_valid_value_has_none():
    assert validate({"type": "array", "items": {"type": "number"}, "uniqueItems": True}, [1, 2, 3]) == []


def test_branches_that_multiply_end_in_a_stated_bound():
    node = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    schema = {
        **node,
        "$defs": {
            "a": {"type": "object", "properties": {"n": node}, "required": ["x"]},
            "b": {"type": "object", "properties": {"n": node}, "required": ["y"]},
        },
    }
    value: dict = {}
    for _ in range(24):
        value = {"n": value}
    with pytest.raises(BudgetExceeded, match="steps"):
        validate(schema, value)


def test_thousands_of_unique_objects_are_no_matter():
    items = [{"n": number} for number in range(4000)]
    assert validate({"uniqueItems": True}, items) == []
    assert validate({"uniqueItems": True}, [*items, {"n": 7.0}])


def test_a_catastrophic_pattern_is_stopped_and_a_unicode_class_is_read():
    assert validate({"pattern": r"^\p{L}+$"}, "Größe") == []
    with pytest.raises(BudgetExceeded, match="pattern"):
        validate({"pattern": r"^(\w|\w\w|\w+x?)+$"}, "a" * 5000 + "!")


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/x.json", "file:///etc/hostname", "#/$defs/absent", "other.json"]
)
def test_no_reference_is_fetched(reference):
    with pytest.raises(BudgetExceeded, match="reference"):
        validate({"$ref": reference}, {})


def test_deep_data_and_deep_schemas_are_refused_not_recursed_into():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    assert depth_of(deep) == 5000
    with pytest.raises(BudgetExceeded, match="deeper"):
        validate({}, deep)


def test_an_endless_reference_is_told():
    with pytest.raises(BudgetExceeded):
        validate({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {})


def test_a_schema_that_is_none_is_told():
    with pytest.raises(BudgetExceeded, match="not valid"):
        validate({"type": "strng"}, 1)


DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_names_its_dialect_is_bounded_too(dialect):
    branch = {"type": "object", "properties": {"n": {"$ref": "#"}}}
    schema = {"$schema": dialect, "anyOf": [{**branch, "required": ["x"]}, {**branch, "required": ["y"]}]}
    value: dict = {}
    for _ in range(24):
        value = {"n": value}
    with pytest.raises(BudgetExceeded, match="steps"):
        validate(schema, value)
    assert validate({"$schema": dialect, "type": "string"}, 1)
    with pytest.raises(BudgetExceeded, match="dialect of its own"):
        validate({"properties": {"a": {"$schema": dialect, "pattern": "^(a|a)*$"}}}, {"a": "a"})


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False, "patternProperties": {"^(a|a)*$": {}}},
        {"unevaluatedProperties": False, "patternProperties": {"^(a|a)*$": {}}},
        {"propertyNames": {"pattern": "^(a|a)*$"}},
    ],
)
def test_no_keyword_matches_a_pattern_without_a_bound(schema):
    with pytest.raises(BudgetExceeded, match=r"took over 1 s|without a bound"):
        validate(schema, {"a" * 40 + "!": 1})


def test_additional_properties_are_those_that_nothing_else_names():
    schema = {"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": {"type": "integer"}}
    assert validate(schema, {"a": "", "x1": "", "b": 1}) == []
    assert [pointer for pointer, _ in validate(schema, {"b": "no"})] == ["/b"]
    assert validate({**schema, "additionalProperties": False}, {"x": 1, "c": 1, "b": 1}) == [
        ("/b", "additional property 'b' is not allowed"),
        ("/c", "additional property 'c' is not allowed"),
    ]


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": ["string", "boolean"]}, None, "null is not of type 'string' or 'boolean'"),
        ({"type": "integer"}, {"a": True}, "{\"a\": true} is not of type 'integer'"),
        ({"enum": ["a", None]}, False, 'false is not one of ["a", null]'),
        ({"const": True}, None, "null is not true, the only value that is allowed"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [None], "[null] fits none of the 2 schemas of anyOf"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1, "1 fits more than one of the schemas of oneOf"),
    ],
)
def test_values_are_said_as_json_spells_them(schema, value, says):
    assert validate(schema, value) == [("", says)]


def test_enum_and_const_compare_json_values():
    assert validate({"enum": [1, "a", None, {"k": [1.0]}]}, 1.0) == []
    assert validate({"enum": [{"k": [1.0, 2]}]}, {"k": [1, 2.0]}) == []
    assert validate({"enum": [1, 0]}, True) != []
    assert validate({"const": 100.0}, 1e2) == []
    assert validate({"const": "1.0"}, "1") != []


def test_a_long_enum_for_many_items_is_no_matter():
    assert validate({"items": {"enum": list(range(5_000))}}, [4_999] * 25_000) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.1}, float("inf")),
        ({"$id": "http://[", "$ref": "x"}, 1),
        ({"$schema": 7}, 1),
        (None, 1),
        ([], 1),
    ],
)
def test_what_breaks_the_validator_is_told(schema, value):
    with pytest.raises(BudgetExceeded):
        validate(schema, value)


def test_a_schema_that_takes_long_to_check_is_refused():
    with pytest.raises(BudgetExceeded, match="more than 5000 objects"):
        validate({"properties": {f"p{number}": {} for number in range(6_000)}}, {})
