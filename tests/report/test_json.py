"""report.json: its published schema, the way back, bytes that can always be written."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.json import from_json, published_schema, to_json


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(published_schema())


def test_the_published_schema_is_a_schema_without_a_host():
    schema = published_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == "urn:mcp-rollcall:report:1"


def test_every_object_is_closed_and_every_property_described():
    def walk(node, where):
        if isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                assert node["additionalProperties"] is False, where
                optional = {"repositories", "uncounted"} if where == "" else set()  # left out where there is none
                assert set(node["required"]) == set(node["properties"]) - optional, where
                for name, item in node["properties"].items():
                    assert item.get("description"), f"{where}/{name}"
            for name, item in node.items():
                walk(item, f"{where}/{name}")
        elif isinstance(node, list):
            for item in node:
                walk(item, where)

    walk(published_schema(), "")


@pytest.mark.parametrize("name", ["clean", "findings", "failed"])
def test_samples_are_valid(samples, validator, name):
    validator.validate(json.loads(to_json(samples[name])))


def test_the_keys_of_the_design_are_there(findings):
    data = json.loads(to_json(findings))
    assert {"schema", "verdict", "exit", "today", "ran", "coverage", "findings", "errors", "not_judged"} <= set(data)
    assert {"excused", "lowered"} <= set(data)
    assert data["findings"][0].keys() == {
        *("check", "severity", "server", "tool", "pointer", "file", "line", "message", "evidence", "source", "rerun")
    }


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_report_is_valid_encodable_and_comes_back(any_report, validator, data):
    report = data.draw(any_report)
    text = to_json(report)
    text.encode("utf-8")
    validator.validate(json.loads(text))
    assert from_json(text) == report
    assert to_json(from_json(text)) == text


def test_the_exact_value_is_kept(make, report_of):
    line = "\x1b[31mred\x1b[0m\x00\ufffe"
    report = report_of(ran=[make.ran()], findings=[make.finding(evidence={"line": line})])
    assert json.loads(to_json(report))["findings"][0]["evidence"]["line"] == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "no object"),
        ("{}", "schema None"),
        ('{"schema": 2}', "schema 2"),
        ('{"schema": 1}', "'verdict'"),
        ('{"schema": 1, "verdict": "green"}', "green"),
        ("[" * 100_000, "nested|Expecting"),
    ],
)
def test_what_is_no_report_is_a_value_error(text, message):
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_a_part_of_another_shape_is_a_value_error(clean):
    data = json.loads(to_json(clean))
    data["ran"][0]["pid"] = 7
    with pytest.raises(ValueError, match="pid"):
        from_json(json.dumps(data))
