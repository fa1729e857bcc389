"""Portable and valid, or not: every known case, the rules at their edges, and what no schema may do to the checks."""

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.findings.catalogue import remarks_of
from harness.findings.portability import MAX_PLACES, quote_json
from harness.findings.portable_examples import EXAMPLES, schema_of
from harness.findings.portable_words import KINDS, library_of
from harness.findings.remark import Remark
from harness.findings.schemas import check_schemas
from harness.findings.validity import MAX_VIOLATIONS
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.checks import CHECKS
from harness.model.plan import Era

CASES = json.loads((Path(__file__).parent / "data" / "schemas.json").read_text(encoding="utf-8"))
VARIATIONS = json.loads((Path(__file__).parent / "data" / "variations.json").read_text(encoding="utf-8"))
GIVEN = [case for case in CASES if case["confidence"] != "low"]
SEVERITY = {"warn": "warning", "error": "error", "ok": None}
TEXT = {"type": "string"}
EMPTY = {"type": "object", "properties": {}}
# which rule says what of a case; the root of an output schema is `output-schema`'s
RULES = {
    "root-anyof-required-only": "portability/root-composition",
    "root-empty-schema": "portability/root-type",
    "root-no-properties": "portability/root-properties",
    "array-no-items": "portability/array-items",
    "typelist-with-array": "portability/type-union",
    "typelist-string-null": "portability/type-union",
    "tuple-draft07-undeclared": "portability/tuple-items",
    "tuple-draft07-declared": "portability/tuple-items",
    "items-on-string": "portability/keyword-mismatch",
    "properties-on-string": "portability/keyword-mismatch",
    "type-json-null": "validity/schema",
    "type-typo": "validity/schema",
    "type-string-array-notation": "validity/schema",
    "required-true-on-property": "validity/schema",
    "enum-integers": "portability/enum-values",
    "enum-empty-string": "portability/enum-values",
    "const-string": "portability/const-keyword",
    "format-uri": "portability/string-format",
    "required-ghost": "portability/required-unknown",
    "additional-empty-schema": "portability/untyped-schema",
    "untyped-property": "portability/untyped-schema",
    "bool-property-true": "portability/boolean-schema",
    "bool-property-output": "portability/boolean-schema",
    "key-dollar": "portability/property-key",
    "defs-enum-ref": "portability/local-ref",
    "ref-into-properties": "portability/ref-target",
    "recursive-defs": "portability/recursive-ref",
    "recursive-output": "portability/recursive-ref",
    "dangling-ref-input": "portability/dangling-ref",
    "dangling-ref-output": "portability/dangling-ref",
    "external-ref": "portability/remote-ref",
    "pattern-lookahead": "portability/pattern-lookaround",
    "pattern-unanchored": "portability/pattern-anchors",
    "nested-oneof": "portability/nested-composition",
    "nested-allof": "portability/nested-composition",
}


def catalogue(*tools: dict[str, Any], era: Era | None = None, protocol: str = "") -> Catalogue:
    defined = tuple(
        ToolDef(name=str(tool.get("name", f"t{index}")), index=index, definition=tool)
        for index, tool in enumerate(tools)
    )
    return Catalogue(server="s", source="a test", era=era, protocol=protocol, tools=defined)


def look(schema: Any, where: str = "inputSchema", **more: Any) -> list[Remark]:
    """What is said of one schema."""
    tool = {"name": "t", "inputSchema": EMPTY, where: schema}
    return list(check_schemas(catalogue(tool, **more)))


def of(parameter: Any, **more: Any) -> list[tuple[str, str, str | None]]:
    """(rule, severity, pointer below the parameter) of what is said of one parameter."""
    found = look({"type": "object", "properties": {"x": parameter}}, **more)
    return [
        (remark.check.partition("/")[2], remark.severity or CHECKS[remark.check].severity, below(remark.pointer))
        for remark in found
    ]


def below(pointer: str | None) -> str | None:
    return None if pointer is None else pointer.removeprefix("/properties/x")


def severities(remarks: list[Remark]) -> set[str]:
    return {remark.severity or CHECKS[remark.check].severity for remark in remarks}


# --- the known cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case["id"])
def test_a_known_schema_gets_its_verdict_its_severity_and_its_pointer(case: Any) -> None:
    where = f"{case['where']}Schema"
    tool = {"name": "t", "inputSchema": EMPTY, "outputSchema": EMPTY, where: case["schema"]}
    remarks = [
        remark
        for remark in remarks_of(catalogue(tool, era="handshake", protocol="2025-11-25"))
        if remark.where == where
    ]
    remarks = [remark for remark in remarks if not remark.check.startswith(("strict/", "annotation/"))]
    wanted = SEVERITY[case["severity"]]
    assert max(severities(remarks), key=["warning", "error"].index, default=None) == wanted, remarks
    if wanted is None:
        return
    hits = [remark for remark in remarks if remark.pointer == case["pointer"] and severities([remark]) == {wanted}]
    assert hits, [(remark.check, remark.severity, remark.pointer) for remark in remarks]
    assert RULES.get(case["id"], hits[0].check) in {remark.check for remark in hits}
    clients = {client for remark in hits for client in remark.evidence.get("clients", case["clients"])}
    assert clients & set(case["clients"]), clients


@pytest.mark.parametrize("protocol", ["", "2025-11-25"])
def test_schemas_of_the_same_kinds_get_theirs_too(protocol: str) -> None:
    """Other spellings, deeper places, other libraries' handwriting; an unknown revision is read as a present one."""
    wrong = []
    for case in VARIATIONS:
        where = f"{case['where']}Schema"
        tool = {"name": "t", "inputSchema": EMPTY, "outputSchema": EMPTY, where: case["schema"]}
        found = sorted(
            (remark.severity or CHECKS[remark.check].severity, remark.pointer, remark.check)
            for remark in remarks_of(catalogue(tool, protocol=protocol))
            if remark.where == where and not remark.check.startswith("strict/")
        )
        wanted = SEVERITY[case["severity"]]
        worst = found[0][0] if found else None  # "error" comes first
        if worst != wanted or (wanted and (wanted, case["pointer"]) not in [item[:2] for item in found]):
            wrong.append((case["id"], found))
    assert wrong == []


@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case["id"])
def test_a_legal_schema_is_never_called_a_violation(case: Any) -> None:
    for protocol in ("2025-11-25", "2026-07-28"):
        if case["legal_mcp"][protocol]:
            era: Era = "modern" if protocol == "2026-07-28" else "handshake"
            for remark in look(case["schema"], f"{case['where']}Schema", era=era, protocol=protocol):
                assert not remark.check.startswith("validity/"), remark
                assert "asks for" not in remark.message, remark


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_order_of_keys_changes_no_verdict(case: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    where = f"{case['where']}Schema"
    assert verdicts(look(case["schema"], where)) == verdicts(look(turned(case["schema"]), where))


def verdicts(remarks: list[Remark]) -> Counter[Any]:
    return Counter((remark.check, remark.where, remark.pointer, remark.kind, remark.severity) for remark in remarks)


# --- the four rules that have a table of their own -------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "d"},
        {"title": "t", "default": 1, "examples": [1], "deprecated": True},
        {"if": TEXT},
        {"x-y": 1},
    ],
)
def test_a_schema_without_a_constraint_is_untyped(schema: Any) -> None:
    assert ("untyped-schema", "warning", "") in of(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 1},
        {"minLength": 1},
        {"not": {}},
        {"if": TEXT, "then": TEXT},
        {"if": TEXT, "else": TEXT},
        {"anyOf": [TEXT]},
    ],
)
def test_a_schema_with_a_constraint_is_not_untyped(schema: Any) -> None:
    assert "untyped-schema" not in [rule for rule, _, pointer in of(schema) if pointer == ""]


def test_an_empty_schema_directly_under_not_is_not_untyped() -> None:
    assert "untyped-schema" not in [rule for rule, _, _ in of({"type": "string", "not": {}})]
    assert ("untyped-schema", "warning", "/not/anyOf/0") in of({"type": "string", "not": {"anyOf": [{}]}})


def test_a_boolean_counts_as_a_schema_everywhere_but_where_it_is_usual() -> None:
    usual = ("additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems")
    for keyword in usual:
        assert "boolean-schema" not in [rule for rule, _, _ in of({"type": "object", keyword: False})]
    for keyword in ("items", "not", "contains", "if", "propertyNames", "contentSchema"):
        assert ("boolean-schema", "error", f"/{keyword}") in of({"type": "array", keyword: True})
    assert ("boolean-schema", "error", "/anyOf/1") in of({"anyOf": [TEXT, True]})


def test_a_list_of_types_is_a_union_only_where_all_are_types() -> None:
    assert of({"type": ["string"]}) == [("type-union", "warning", "/type")]
    assert "type-union" not in [rule for rule, _, _ in of({"type": []})]
    assert "type-union" not in [rule for rule, _, _ in of({"type": ["string", "strng"]})]


def test_a_reference_to_elsewhere_is_remote_in_output_too_and_an_empty_one_is_not() -> None:
    for where in ("inputSchema", "outputSchema"):
        found = look({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, where)
        assert [remark.check for remark in found] == ["portability/remote-ref"]
    assert "remote-ref" not in [rule for rule, _, _ in of({"$ref": ""})]


# --- the other rules at their edges ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "array", "prefixItems": [TEXT]},
            {("array-items", "error", ""), ("tuple-items", "warning", "/prefixItems")},
        ),
        ({"type": "array", "items": {"type": "array"}}, {("array-items", "error", "/items")}),
        ({"anyOf": [TEXT, {"type": "array"}]}, {("array-items", "error", "/anyOf/1")}),
        ({"enum": ["a"]}, {("missing-type", "warning", "")}),
        ({"properties": {"a": TEXT}}, {("missing-type", "warning", "")}),
        ({"type": "string", "enum": ["a", None]}, {("enum-values", "error", "/enum")}),
        ({"type": "integer", "enum": ["1"]}, {("enum-values", "error", "/enum")}),
        ({"type": "string", "enum": []}, {("enum-values", "error", "/enum")}),
        ({"type": "string", "enum": ["a", "a"]}, {("enum-values", "warning", "/enum")}),
        ({"type": "boolean", "enum": [True]}, {("enum-values", "error", "/enum")}),
        ({"type": "string", "format": "date-time"}, set()),
        ({"type": "number", "format": "double"}, set()),
        ({"type": "integer", "format": "uint32"}, set()),
        ({"type": "string", "default": None}, {("default-value", "warning", "/default")}),
        ({"type": "number", "default": 1}, set()),
        ({"type": "integer", "default": 1.0}, set()),
        ({"type": "integer", "default": True}, {("default-value", "warning", "/default")}),
        ({"type": "string", "enum": ["a"], "default": "b"}, {("default-value", "warning", "/default")}),
        ({"anyOf": [TEXT, {"type": "null"}], "default": None}, set()),
        ({"anyOf": [TEXT, {"type": "null"}], "default": 1}, {("default-value", "warning", "/default")}),
        ({"type": "integer", "exclusiveMinimum": 0}, {("unsupported-keyword", "warning", "/exclusiveMinimum")}),
        ({"type": "number", "multipleOf": 5}, {("unsupported-keyword", "warning", "/multipleOf")}),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, {("unsupported-keyword", "warning", "/uniqueItems")}),
        ({"type": "array", "items": TEXT, "uniqueItems": False}, set()),
        ({"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}, set()),
        (
            {"type": "object", "patternProperties": {"^a$": TEXT}},
            {("unsupported-keyword", "warning", "/patternProperties")},
        ),
        ({"type": "object", "properties": {"": TEXT}}, {("property-key", "error", "/properties/")}),
        ({"type": "object", "properties": {"a/b": TEXT}}, {("property-key", "error", "/properties/a~1b")}),
        ({"type": "object", "properties": {"a" * 64: TEXT, "a.b-c_D9": TEXT}}, set()),
        ({"type": "string", "pattern": r"^(a)\1$"}, {("pattern-lookaround", "error", "/pattern")}),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {("pattern-syntax", "warning", "/pattern")}),
        (
            {"type": "string", "pattern": r"\Aa\Z"},
            {("pattern-syntax", "error", "/pattern"), ("pattern-anchors", "warning", "/pattern")},
        ),
        ({"type": "string", "pattern": r"^a\$"}, {("pattern-anchors", "warning", "/pattern")}),
        ({"type": "string", "pattern": "^[a-z$"}, {("pattern", "error", "/pattern")}),
        ({"type": "array", "items": TEXT, "additionalItems": False}, {("dialect", "warning", "/additionalItems")}),
        ({"type": "object", "properties": {"pattern": {"type": "string"}, "format": {"type": "string"}}}, set()),
    ],
)  # fmt: skip
def test_a_parameter_gets_what_it_deserves(schema: Any, expected: set[tuple[str, str, str]]) -> None:
    assert set(of(schema)) == expected


def test_a_branch_may_require_what_the_object_around_it_describes() -> None:
    branches = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert of({"type": "object", "properties": {"a": TEXT, "b": TEXT}, **branches}) == []
    assert of({"type": "object", "properties": {"a": TEXT}, **branches}) == [
        ("required-unknown", "error", "/anyOf/1/required/0")
    ]


def test_what_a_reference_describes_may_be_required() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/X", "required": ["a"]}},
        "$defs": {"X": {"type": "object", "properties": {"a": TEXT}}},
    }
    assert [remark.check for remark in look(schema)] == ["portability/local-ref"]


@pytest.mark.parametrize(
    "root", [{"type": ["object"]}, {"type": "array"}, {"anyOf": [EMPTY]}, {"$ref": "#/x", "x": EMPTY}]
)
def test_a_root_that_is_not_plainly_an_object_is_an_error(root: Any) -> None:
    assert "portability/root-type" in [remark.check for remark in look(root)]


def test_references_that_go_in_a_circle_are_an_error_in_output_too() -> None:
    for where in ("inputSchema", "outputSchema"):
        (found,) = look({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, where)
        assert (found.check, found.severity) == ("portability/recursive-ref", "error")
        assert "leads back" in found.message or "lead back" in found.message


def test_an_output_schema_is_not_judged_by_what_providers_take() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "const": "x"}, "b": {}, "c": {"oneOf": [TEXT]}, "$d": TEXT},
        "required": ["nowhere"],
        "$defs": {"E": {"type": "array", "pattern": "(?!x)"}},
    }
    assert look(schema, "outputSchema") == []


def test_a_declared_draft_is_taken_at_its_word() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", **EMPTY}
    parameter = {"type": "integer", "minimum": 0, "exclusiveMinimum": True}
    (found,) = look({**old, "properties": {"a": parameter}})
    assert (found.check, found.severity, found.pointer) == (
        "portability/dialect",
        "error",
        "/properties/a/exclusiveMinimum",
    )
    assert "valid in draft-04" in found.message
    seventh = {"$schema": "http://json-schema.org/draft-07/schema#", **EMPTY}
    ignored = {"$ref": "#/definitions/A", "minLength": 3}
    checks = [
        (remark.check, remark.pointer)
        for remark in look({**seventh, "properties": {"a": ignored}, "definitions": {"A": TEXT}})
    ]
    assert checks == [
        ("portability/dialect", "/properties/a/minLength"),
        ("portability/local-ref", "/properties/a/$ref"),
    ]


def test_a_dialect_that_nobody_knows_is_said_and_no_meta_schema_is_guessed() -> None:
    (found,) = look({"$schema": "https://example.com/own", "type": "object", "properties": {"a": {"type": "strng"}}})
    assert (found.check, found.severity, found.pointer) == ("portability/dialect", "warning", "/$schema")


# --- validity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"type": "int"}, "/type", '"type": "integer"'),
        ({"type": "strng"}, "/type", '"type": "string"'),
        ({"type": "str"}, "/type", '"type": "string"'),
        ({"type": "any"}, "/type", "anyOf"),
        ({"type": "number[]"}, "/type", '{"type": "array", "items": {"type": "number"}}'),
        ({"type": ["string", "nil"]}, "/type/1", '"type": "null"'),
        ({"type": None}, "/type", "a type is one of"),
        ({"type": "string", "required": True}, "/required", "a list of names"),
        ({"type": "integer", "exclusiveMinimum": True}, "/exclusiveMinimum", "draft-04"),
        ({"type": "integer", "minimum": "0"}, "/minimum", "a number"),
        ({"type": "string", "maxLength": -1}, "/maxLength", "a whole number"),
        ({"type": "string", "description": 5}, "/description", "a text"),
        ({"type": "string", "enum": "a"}, "/enum", "a list"),
        ({"type": "object", "properties": []}, "/properties", ""),
        ({"type": "object", "properties": {"a": "string"}}, "/properties/a", "an object or a boolean"),
        ({"type": "object", "required": [1]}, "/required", "names"),
        ({"anyOf": []}, "/anyOf", ""),
        ({"anyOf": TEXT}, "/anyOf", ""),
        ({"not": "x"}, "/not", "an object or a boolean"),
        ({"type": "array", "items": "string"}, "/items", "an object or a boolean"),
        ({"$ref": 5}, "/$ref", "a text"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_an_error_with_its_place_and_what_to_write(schema: Any, pointer: str, words: str) -> None:
    found = look({"type": "object", "properties": {"x": schema}}, era="handshake", protocol="2025-11-25")
    (one,) = [remark for remark in found if remark.check == "validity/schema"]
    assert (below(one.pointer), one.severity) == (pointer, "error")
    assert words in one.message
    assert "2020-12" in one.message


def test_what_draft_07_allows_is_a_warning_where_no_revision_says_which_dialect_is_meant() -> None:
    tuple_ = {"type": "array", "items": [TEXT]}
    for protocol, severity in (
        ("", "warning"),
        ("2025-06-18", "warning"),
        ("2025-11-25", "error"),
        ("2026-07-28", "error"),
    ):
        assert ("schema", severity, "/items") in of(tuple_, protocol=protocol)
    found = look({"type": "object", "properties": {"x": tuple_}})
    assert any("nothing here says which of the two is meant" in remark.message for remark in found)


def test_whole_numbers_with_a_point_are_numbers() -> None:
    assert of({"type": "string", "maxLength": 5.0}) == []


@pytest.mark.parametrize("value", [..., None, [], "object", 5, True, False])
def test_a_tool_without_an_input_schema_is_said(value: Any) -> None:
    tool = {"name": "t"} if value is ... else {"name": "t", "inputSchema": value}
    assert [remark.check for remark in check_schemas(catalogue(tool))] == ["validity/input-schema"]


# --- in words --------------------------------------------------------------------------------------


def test_a_remark_quotes_names_clients_and_says_what_to_write() -> None:
    (found,) = look({"type": "object", "properties": {"cursor": {"type": ["string", "null"], "title": "Cursor"}}})
    assert found.spelling == '"type": ["string", "null"]'
    assert found.spelling in found.message
    assert "inputSchema/properties/cursor/type" in found.message
    assert 'Write "anyOf": [{"type": "string"}, {"type": "null"}]' in found.message
    assert "In pydantic:" in found.message
    assert "not portable" in found.message
    assert found.evidence["clients"]


def test_the_schema_library_is_known_by_its_hand() -> None:
    declared = {"$schema": "http://json-schema.org/draft-07/schema#", **EMPTY}
    assert library_of(declared) == "zod"
    assert library_of({"properties": {"max_items": {"title": "Max Items", "type": "integer"}}}) == "pydantic"
    assert library_of({"properties": {"max_items": {"title": "How many", "type": "integer"}}}) == ""
    assert library_of(None) == ""


def test_every_kind_has_a_check_and_every_portability_check_a_kind() -> None:
    named = {kind.check for kind in KINDS.values()}
    assert named == {check for check in CHECKS if check.startswith("portability/")}


def test_no_kind_calls_a_legal_schema_a_violation() -> None:
    for kind in KINDS.values():
        if kind.legal:
            assert "invalid" not in kind.does
            assert "specification" not in kind.does


def test_a_quote_is_cut_and_costs_no_more_than_it_shows() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert quote_json(deep).endswith("…")
    assert quote_json("x" * 10_000_000, 10) == '"xxxxxxxxx…'
    assert quote_json({"a": "ü"}) == '{"a": "ü"}'


# --- what no schema may do ---------------------------------------------------------------------------


def test_more_places_than_are_listed_are_counted() -> None:
    found = look(
        {"type": "object", "properties": {f"a{number}": {"type": "array"} for number in range(MAX_PLACES + 7)}}
    )
    assert len(found) == MAX_PLACES + 1
    assert found[-1].evidence["more"] == 7
    invalid = look(
        {"type": "object", "properties": {f"a{number}": {"type": "x"} for number in range(MAX_VIOLATIONS + 7)}}
    )
    assert len(invalid) == MAX_VIOLATIONS + 1


def hostile(name: str) -> Any:
    nested: Any = dict(TEXT)
    match name:
        case "deep":
            for _ in range(100_000):
                nested = {"type": "object", "properties": {"a": nested}}
            return nested
        case "deep data":
            data: Any = []
            for _ in range(100_000):
                data = [data]
            same = {"type": "string", "default": data, "enum": [data, data], "const": data, "examples": [data]}
            return {"type": "object", "properties": {"a": same, "b": {"type": data, "required": data, "pattern": data}}}
        case "large":
            return {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 50_000_000}}}
        case "cycle":
            defs = {f"a{n}": {"properties": {"n": {"$ref": f"#/$defs/a{(n + 1) % 5000}"}}} for n in range(5000)}
            return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": defs}
        case _:
            defs = {
                f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(5000)
            }
            return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": {**defs, "a5000": TEXT}}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("deep", "validity/too-deep"),
        ("deep data", "validity/too-deep"),
        ("large", "validity/too-large"),
        ("cycle", "portability/recursive-ref"),
        ("doubling", "portability/ref-expansion"),
    ],
)
def test_a_hostile_schema_ends_in_a_finding(name: str, check: str) -> None:
    found = look(hostile(name))
    assert check in {remark.check for remark in found}
    assert all(len(remark.message) < 5_000 for remark in found)


WORDS = st.sampled_from(
    ["object", "array", "string", "strng", "#", "#/$defs/a", "#/properties/a", "x.json", "^a$", "(", "uri", ""]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | WORDS
KEYS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "prefixItems",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$dynamicRef",
        "$defs",
        "definitions",
        "required",
        "enum",
        "const",
        "format",
        "pattern",
        "default",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "exclusiveMinimum",
        "minimum",
        "minItems",
        "$id",
        "$anchor",
        "$schema",
        "a",
        "b",
    ]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


@settings(deadline=None)
@given(JSON, st.sampled_from(["inputSchema", "outputSchema"]), st.sampled_from(["", "2025-06-18", "2026-07-28"]))
def test_any_json_gives_remarks_and_never_an_exception(schema: Any, where: str, protocol: str) -> None:
    for remark in look(schema, where, protocol=protocol):
        assert remark.check in CHECKS
        assert remark.message
        json.dumps(remark.details())


@settings(deadline=None)
@given(st.data(), JSON)
def test_verdicts_do_not_depend_on_the_order_of_keys(data: st.DataObject, schema: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = data.draw(st.permutations(list(value)))
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    before = copy.deepcopy(schema)
    assert verdicts(look(schema)) == verdicts(look(shuffled(schema)))
    assert schema == before


@settings(deadline=None)
@given(JSON)
def test_what_is_taken_for_plainly_valid_is_valid(schema: Any) -> None:
    """The meta-schema itself agrees with what was never put to it."""
    import jsonschema

    if not isinstance(schema, dict) or "$schema" in json.dumps(schema):
        return
    found = [remark for remark in look(schema, protocol="2025-11-25") if remark.check == "validity/schema"]
    assert bool(found) is not jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA).is_valid(
        schema
    )


# --- the examples of the reference page ---------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"expansion", "recursive-output"}))
def test_what_the_page_says_to_avoid_has_its_fault_and_what_it_says_to_write_has_none(name: str) -> None:
    avoid, write = EXAMPLES[name]
    bad = look(json.loads(schema_of(avoid)), era="handshake", protocol="2025-11-25")
    assert KINDS[name].check in {remark.check for remark in bad if remark.kind == KINDS[name].words}
    assert look(json.loads(schema_of(write)), era="handshake", protocol="2025-11-25") == []


def test_one_root_cause_at_the_root_is_one_finding() -> None:
    (found,) = look({"type": "OBJECT", "properties": {}}, protocol="2025-11-25")
    assert (found.check, found.pointer) == ("validity/schema", "/type")
    assert '"type": "object"' in found.message
