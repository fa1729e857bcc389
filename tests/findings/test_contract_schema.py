"""Ours: schemas are compared by the values that they let through, from the side of a caller, and that has an end."""

from __future__ import annotations

import copy
import functools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.findings.contract import changes_between
from harness.findings.contract_schema import differences
from harness.model.bounded import BudgetExceeded, validate
from harness.model.contract import Lists

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def one(schema):
    return obj(a=schema)


def classes(before, after, key="inputSchema"):
    """The classes of all changes, but for the cosmetic ones."""
    old, new = ({"name": "t", "inputSchema": {"type": "object"}, key: item} for item in (before, after))
    return sorted({item.cls for item in changes_between(Lists(tools=(old,)), Lists(tools=(new,)))} - {"cosmetic"})


DEFS = {"$defs": {"A": {"type": "string", "enum": ["x", "y"], "title": "A"}}}
SAME = {
    "null in a union or in a list of types": (
        one({"anyOf": [STRING, NULL], "description": "d"}),
        one({"type": ["null", "string"], "description": "d"}),
    ),
    "oneOf and anyOf": (one({"oneOf": [STRING, NULL]}), one({"anyOf": [NULL, STRING]})),
    "const and a single enum": (one({"const": "x"}), one({"type": "string", "enum": ["x"]})),
    "a number that is whole": (one({"const": 1}), one({"type": "integer", "enum": [1.0]})),
    "consts in a union and an enum": (one({"anyOf": [{"const": "x"}, {"const": "y"}]}), one({"enum": ["y", "x"]})),
    "the name of a definition": (
        {**one({"$ref": "#/$defs/A"}), **DEFS},
        {**one({"$ref": "#/definitions/B"}), "definitions": {"B": DEFS["$defs"]["A"]}},
    ),
    "a reference and what it leads to": ({**one({"$ref": "#/$defs/A"}), **DEFS}, one(DEFS["$defs"]["A"])),
    "an anchor": ({**one({"$ref": "#a"}), "$defs": {"A": {"$anchor": "a", **STRING}}}, one(STRING)),
    "allOf of one": (one({"allOf": [{"type": "string", "minLength": 1}]}), one({"type": "string", "minLength": 1})),
    "allOf of parts": (one({"allOf": [STRING, {"minLength": 1}]}), one({"type": "string", "minLength": 1})),
    "bounds of whole numbers": (
        one({"type": "integer", "exclusiveMinimum": 0}),
        one({"type": "integer", "minimum": 1}),
    ),
    "both booleans": (one({"enum": [True, False]}), one({"type": "boolean"})),
    "additional and unevaluated properties": (
        {**one(STRING), "additionalProperties": False},
        {**one(STRING), "unevaluatedProperties": False},
    ),
    "keywords that ask nothing": (
        one({"type": "object", "properties": {}, "required": [], "additionalProperties": True, "minProperties": 0}),
        one({"type": "object"}),
    ),
    "items that ask nothing": (one({"type": "array", "items": {}, "uniqueItems": False}), one({"type": "array"})),
    "true and an empty schema": (one(True), one({})),
    "a tuple of draft 7 and of today": (
        one({"type": "array", "items": [STRING, INTEGER], "additionalItems": False}),
        one({"type": "array", "prefixItems": [STRING, INTEGER], "items": False}),
    ),
    "the order of required": (obj(("a", "b"), a=STRING, b=STRING), obj(("b", "a"), b=STRING, a=STRING)),
    "the dialect": ({**one(STRING), "$schema": "http://json-schema.org/draft-07/schema#"}, one(STRING)),
    "a null default": (one({**STRING, "default": None}), one(STRING)),
    "an integer beside a number": (one({"type": ["integer", "number"]}), one({"type": "number"})),
    "keywords of other types": (one({"type": "string", "minimum": 3, "maxItems": 1}), one(STRING)),
    "spaces in a description": (one({**STRING, "description": "a\n  b"}), one({**STRING, "description": "a b"})),
    "recursion under another name": (
        {**one({"$ref": "#/$defs/N"}), "$defs": {"N": obj(c={"type": "array", "items": {"$ref": "#/$defs/N"}})}},
        {**one({"$ref": "#/$defs/M"}), "$defs": {"M": obj(c={"type": "array", "items": {"$ref": "#/$defs/M"}})}},
    ),
}


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("name", SAME)
def test_two_spellings_of_one_thing_are_no_change(name, key):
    before, after = SAME[name]
    assert classes(before, after, key) == []
    assert classes(after, before, key) == []


TWO = [obj(k={"const": "a"}, x={"enum": ["1", "2"]}), obj(k={"const": "b"}, y=STRING)]
# (before, after): the narrower comes second; so for an input that is breaking, and for an output additive
NARROWER = {
    "an enum value is gone": (one({"enum": ["x", "y"]}), one({"enum": ["x"]})),
    "an enum came": (one(STRING), one({"type": "string", "enum": ["x"]})),
    "number to integer": (one({"type": "number"}), one(INTEGER)),
    "no null any more": (one({"type": ["string", "null"]}), one(STRING)),
    "anything to a string": (one({}), one(STRING)),
    "a shorter text": (one({**STRING, "maxLength": 5}), one({**STRING, "maxLength": 3})),
    "a minimum": (one(INTEGER), one({**INTEGER, "minimum": 0})),
    "a pattern came": (one(STRING), one({**STRING, "pattern": "a"})),
    "a coarser step": (one({**INTEGER, "multipleOf": 2}), one({**INTEGER, "multipleOf": 4})),
    "unique items": (one({"type": "array"}), one({"type": "array", "uniqueItems": True})),
    "items of a type": (one({"type": "array"}), one({"type": "array", "items": STRING})),
    "a branch of a union is gone": (one({"oneOf": TWO}), one({"oneOf": TWO[:1]})),
    "a value in a branch is gone": (
        one({"oneOf": TWO}),
        one({"oneOf": [TWO[1], obj(k={"const": "a"}, x={"enum": ["1"]})]}),
    ),
    "required now": (one(STRING), obj("a", a=STRING)),
    "closed now": (one(STRING), {**one(STRING), "additionalProperties": False}),
    "nested, behind a reference": (
        {**one({"$ref": "#/$defs/N"}), "$defs": {"N": obj(c={"type": "array", "items": {"$ref": "#/$defs/N"}}, v={})}},
        {
            **one({"$ref": "#/$defs/N"}),
            "$defs": {"N": obj(c={"type": "array", "items": {"$ref": "#/$defs/N"}}, v=NULL)},
        },
    ),
    "a not": (one(STRING), one({**STRING, "not": {"const": "x"}})),
    "a property is refused": (one(STRING), obj(a=STRING, b=False)),
    "values of a map": (
        one({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
        one({"type": "object", "additionalProperties": STRING}),
    ),
}


@pytest.mark.parametrize("name", NARROWER)
def test_what_may_be_sent_must_not_shrink_and_what_may_come_must_not_grow(name):
    wide, narrow = NARROWER[name]
    assert classes(wide, narrow) == ["breaking"]
    assert classes(narrow, wide) == ["additive"]
    assert classes(wide, narrow, "outputSchema") == ["additive"]
    assert classes(narrow, wide, "outputSchema") == ["breaking"]


def test_an_alternative_that_overlaps_with_another_of_a_oneof_takes_values_away():
    """What fits two alternatives of a `oneOf` is refused."""
    plain, both = one({"oneOf": [STRING]}), one({"oneOf": [STRING, {"type": "string", "minLength": 1}]})
    assert "breaking" in classes(plain, both)
    assert "breaking" in classes(both, plain, "outputSchema")
    told = one({"oneOf": [{"type": "string", "minLength": 1, "description": "d"}, STRING]})
    assert classes(both, told) == ["routing"]  # the order and the words of alternatives are no matter


def test_a_property_that_was_false_and_takes_values_now_is_a_new_one():
    assert classes(obj(b=False), obj(b=STRING), "outputSchema") == ["breaking"]
    assert classes(obj(b=False), obj(b=STRING)) == ["additive"]
    assert classes(obj(b=False), obj(), "outputSchema") == ["breaking"]
    assert classes(obj(b=False), obj()) == ["additive"]


def test_a_property_that_had_the_type_of_those_without_a_name_is_compared_with_it():
    def mapped(**named):
        return {**obj(**named), "additionalProperties": STRING}

    assert classes(mapped(), mapped(n=INTEGER)) == ["additive", "breaking"]
    assert classes(mapped(), mapped(n={**STRING, "maxLength": 3})) == ["additive", "breaking"]
    assert classes(mapped(), mapped(n=STRING)) == ["additive"]


def test_a_const_beside_an_enum_without_it_lets_nothing_through():
    assert classes(one({"const": 1}), one({"const": 1, "enum": [2]})) != []


BREAKS_BOTH = {
    "another type": (one(STRING), one(INTEGER)),
    "a property is gone": (obj(a=STRING, b=STRING), obj(a=STRING)),
    "a property was renamed": (obj(user_name=STRING), obj(username=STRING)),
    "other values": (one({"enum": ["x"]}), one({"enum": ["y"]})),
    "values that the new bounds refuse": (one({"enum": ["xxxx"]}), one({**STRING, "maxLength": 2})),
    "the one value of a lone object": (obj(k={"const": "a"}, x=STRING), obj(k={"const": "b"}, x=STRING)),
    "a branch was replaced": (one({"oneOf": TWO}), one({"oneOf": [TWO[0], obj(k={"const": "c"}, z=STRING)]})),
}


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("name", BREAKS_BOTH)
def test_what_is_neither_narrower_nor_wider_breaks(name, key):
    before, after = BREAKS_BOTH[name]
    assert "breaking" in classes(before, after, key)


UNKNOWN = {
    "another pattern": (one({**STRING, "pattern": "a"}), one({**STRING, "pattern": "b"})),
    "another format": (one({**STRING, "format": "uri"}), one({**STRING, "format": "email"})),
    "another condition": (one({"not": {"const": 1}}), one({"not": {"const": 2}})),
    "another remote reference": (one({"$ref": "https://x.example/a"}), one({"$ref": "https://x.example/b"})),
    "a reference to itself": (one({"$ref": "#/properties/a"}), one({"$ref": "#/properties/a", "description": "d"})),
    "a condition that refers to something else now": tuple(
        {**one({**STRING, "not": {"$ref": "#/$defs/N"}}), "$defs": {"N": {"enum": values}}} for values in (["x"], ["y"])
    ),
    "alternatives that share values, of which one alone may fit": (
        one({"oneOf": [STRING, {"type": "string", "maxLength": 2}]}),
        one({"oneOf": [STRING, {"type": "string", "maxLength": 3}]}),
    ),
    "unevaluated beside a reference": tuple(
        {**one({"$ref": "#/$defs/N", "unevaluatedProperties": False, "properties": named}), "$defs": {"N": obj(x={})}}
        for named in ({"b": {}}, {"c": {}})
    ),
    "no schema": (one(5), one(6)),
}


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_told_is_said_and_never_passed(name, key):
    before, after = UNKNOWN[name]
    assert "unknown" in classes(before, after, key)


def test_a_default_that_goes_or_changes_breaks_who_left_it_out_and_one_that_comes_does_not():
    with_, other = ({**STRING, "default": value} for value in ("x", "y"))
    assert classes(one(with_), one(STRING)) == ["breaking"]
    assert classes(one(with_), one(other)) == ["breaking"]
    assert classes(one(STRING), one(with_)) == ["additive"]
    assert classes(obj("a", a=with_), obj("a", a=other)) == ["routing"]  # nobody leaves it out
    assert classes(one(with_), one(other), "outputSchema") == ["routing"]


def test_a_new_field_breaks_clients_that_hold_a_closed_list_and_nobody_else():
    """A client validates results by the list that it read before; a closed object refuses the field there."""
    assert classes(obj(a=STRING), obj(a=STRING, b=STRING), "outputSchema") == ["additive"]
    closed = [{**item, "additionalProperties": False} for item in (obj(a=STRING), obj(a=STRING, b=STRING))]
    assert classes(*closed, "outputSchema") == ["breaking"]
    assert classes(*closed) == ["additive"]


def test_the_pointer_leads_to_the_change_behind_references_and_unions():
    before = {**one({"anyOf": [{"$ref": "#/$defs/A"}, NULL]}), **DEFS}
    after = copy.deepcopy(before)
    after["$defs"]["A"]["enum"] = ["x"]
    (found,) = differences(before, after, "input")
    assert (found.pointer, found.kind, found.detail) == ("/$defs/A/enum", "an enum value is gone", '"y"')


def test_a_change_behind_a_reference_that_is_spelled_the_same_is_seen_at_any_depth():
    """The place that is too deep to be compared is the same text; what it refers to is not."""

    def nested(leaf):
        inner = functools.reduce(lambda schema, _: obj(a=schema), range(80), {"$ref": "#/$defs/L"})
        return {**obj(a=inner), "$defs": {"L": leaf}}

    assert [item.effect for item in differences(nested(STRING), nested(INTEGER), "input")] == ["unknown"]
    assert differences(nested(STRING), {**nested(STRING), "$comment": "c"}, "input") == ()


def chain(key, size, leaf):
    refs = {f"a{i}": {key: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(size)}
    return {**one({"$ref": "#/$defs/a0"}), "$defs": {**refs, f"a{size}": leaf}}


def deep(levels, leaf):
    return functools.reduce(lambda schema, _: obj(a=schema), range(levels), leaf)


def patterns(count):
    return {"allOf": [{"anyOf": [{"type": "string", "pattern": f"{j} {i}"} for i in range(8)]} for j in range(count)]}


HOSTILE = {
    "deep": [deep(20_000, leaf) for leaf in (STRING, INTEGER)],
    "unions in each other": [
        functools.reduce(lambda schema, _: {"anyOf": [schema, NULL]}, range(20_000), leaf) for leaf in (STRING, INTEGER)
    ],
    "exponential allOf": [chain("allOf", 60, leaf) for leaf in (STRING, INTEGER)],
    "exponential anyOf": [chain("anyOf", 60, leaf) for leaf in (STRING, INTEGER)],
    "exponential but short": [chain("allOf", 12, leaf) for leaf in (STRING, INTEGER)],
    "a product of unions": [patterns(12), patterns(13)],
    "references in a circle": [
        {**one({"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}, "c": leaf}}
        for leaf in (STRING, INTEGER)
    ],
    "objects in a circle": [
        {"$ref": "#/$defs/a", "$defs": {"a": obj(b={"$ref": "#/$defs/b"}), "b": obj(a={"$ref": "#/$defs/a"}, v=leaf)}}
        for leaf in (STRING, INTEGER)
    ],
    "ten thousand properties": [obj(**{f"p{i}": leaf for i in range(10_000)}) for leaf in (STRING, INTEGER)],
    "a hundred thousand values": [one({"enum": list(range(start, start + 100_000))}) for start in (0, 1)],
}


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_ends_and_its_change_is_seen(name, key):
    before, after = HOSTILE[name]
    found = classes(before, after, key)
    if name == "references in a circle":  # what is behind it can never be reached
        assert found == []
    else:
        assert set(found) & {"breaking", "unknown"}
    assert classes(before, before, key) == []


# --- properties -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c/d", "~", "$ref", "type", "properties"])
SCALARS = st.one_of(
    st.just({}),
    st.just(True),
    st.just(STRING),
    st.just(NULL),
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-3, 3)),
    st.builds(lambda high: {"type": "number", "maximum": high}, st.integers(-3, 3)),
    st.builds(lambda size: {"type": "string", "maxLength": size}, st.integers(0, 3)),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(["x", "y", 1, 2.5, None, True]), min_size=1)),
    st.builds(lambda value: {"const": value}, st.sampled_from(["x", 1, False])),
    st.just({"$ref": "#/$defs/D"}),
    st.builds(lambda names: {"type": names}, st.lists(st.sampled_from(["string", "null", "boolean"]), min_size=1)),
)


def _compound(inner):
    objects = st.builds(
        lambda properties, required, closed, words: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **({"additionalProperties": False} if closed else {}),
            **words,
        },
        st.dictionaries(NAMES, inner, max_size=3),
        st.sets(NAMES),
        st.booleans(),
        st.sampled_from([{}, {"title": "T"}, {"description": "Some words."}]),
    )
    return st.one_of(
        objects,
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
    )


SCHEMAS = st.recursive(SCALARS, _compound, max_leaves=8)
ROOTS = st.builds(
    lambda properties, target: {"type": "object", "properties": properties, "$defs": {"D": target}},
    st.dictionaries(NAMES, SCHEMAS, max_size=3),
    SCHEMAS.filter(lambda schema: "#/$defs/D" not in str(schema)),  # one that is part of itself can be unknown
)
WHERE = st.sampled_from(["inputSchema", "outputSchema"])
often = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(list(value))}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@often
@given(ROOTS, WHERE)
def test_a_schema_does_not_differ_from_itself_whatever_the_order_of_keys(schema, key):
    assert classes(schema, copy.deepcopy(schema), key) == []
    assert classes(schema, reordered(schema), key) == []
    assert classes(schema, {**schema, "$comment": "c"}, key) == []


def respelled(value):
    """The same schema in other words."""
    if isinstance(value, list):
        return [respelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key in ("properties", "$defs"):
            out[key] = {name: respelled(inner) for name, inner in item.items()}
        elif key == "enum" or key == "required":
            out[key] = list(reversed(item))
        elif key == "const":
            out["enum"] = [item]
        elif key == "type" and isinstance(item, list):
            out["anyOf"] = [{"type": name} for name in dict.fromkeys(item)]
        elif key == "anyOf":
            out[key] = [respelled(inner) for inner in reversed(item)]
        elif key in ("allOf", "items"):
            out[key] = respelled(item)
        else:
            out[key] = item
    return out


@often
@given(ROOTS, WHERE)
def test_a_schema_in_other_words_is_no_change(schema, key):
    assert classes(schema, respelled(schema), key) == []
    assert classes(respelled(schema), schema, key) == []


TITLED = {"type": "string", "title": "T"}


@pytest.mark.parametrize("wrap", [
    lambda inner: {"type": "array", "items": inner},
    lambda inner: {"type": "object", "properties": {"x": inner}},
    lambda inner: {"allOf": [{"type": "array", "items": part} for part in (STRING, {"anyOf": [inner, inner]})]},
])  # fmt: skip
def test_alternatives_that_differ_in_words_alone_may_change_places(wrap):
    def schema(*inner):
        return {"type": "object", "properties": {"a": {"anyOf": [wrap(item) for item in inner]}}}

    assert classes(schema(STRING, TITLED), schema(TITLED, STRING)) == []
    assert classes(schema(STRING, TITLED), schema(STRING, {**TITLED, "title": "U"})) == ["routing"]


@often
@given(ROOTS, SCHEMAS, WHERE)
def test_an_additive_change_is_never_breaking(schema, extra, key):
    """A new optional parameter of an input; a new field of an open output."""
    wider = {**schema, "properties": {**schema["properties"], "new": extra}}
    assert set(classes(schema, wider, key)) <= {"additive"}


@often
@given(ROOTS, NAMES, SCHEMAS)
def test_a_parameter_that_takes_more_is_never_breaking(schema, name, more):
    now = schema["properties"].get(name, STRING)
    before = {**schema, "properties": {**schema["properties"], name: now}}
    after = {**schema, "properties": {**schema["properties"], name: {"anyOf": [now, more]}}}
    assert "breaking" not in classes(before, after)


INSTANCES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2.5, -3, "", "x", "y", "xyz"]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=5,
)


@often
@given(SCHEMAS, SCHEMAS, st.lists(INSTANCES, min_size=5, max_size=20))
def test_a_value_that_only_the_earlier_schema_takes_is_never_passed_over(before, after, values):
    """What another validator says is the judge: no value may be lost to a change that is called additive."""
    roots = [{**obj(("v",), v=schema), "$defs": {"D": INTEGER}} for schema in (before, after)]
    if set(classes(*roots)) & {"breaking", "unknown"}:
        return
    for value in values:
        try:
            taken = [not validate(root, {"v": value}) for root in roots]
        except BudgetExceeded:
            continue
        assert taken != [True, False], value
