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
