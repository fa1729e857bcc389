"""Ours: the published JSON Schemas are valid, describe everything, and accept what the examples write."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.config.validate import SCHEMAS, schema_of, violations
from harness.model.checks import FAMILIES

ROOT = Path(__file__).parents[2]
FILES = {
    "harness": ("examples/*/harness.toml", "tests/**/good/**/harness.toml"),
    "suite": ("examples/*/suites/*.toml",),
    "backend": ("backends/*/backend.toml",),
    "exemptions": ("exemptions.toml", "examples/*/exemptions.toml"),
    "rollout": ("rollout.toml",),
}
GOOD = [(kind, path) for kind, globs in FILES.items() for glob in globs for path in sorted(ROOT.glob(glob))]


def properties(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, sub in schema.get("properties", {}).items():
            yield f"{where}.{name}", sub
            yield from properties(sub, f"{where}.{name}")
        for key in ("items", "additionalProperties"):
            yield from properties(schema.get(key), f"{where}.*")
        for name, sub in schema.get("$defs", {}).items():
            yield f"{where}.$defs.{name}", sub
            yield from properties(sub, f"{where}.$defs.{name}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_names_itself(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:mcp-rollcall:{name}:{schema['properties']['schema']['const']}"
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_property_is_described_in_sentences(name: str) -> None:
    root = schema_of(name)
    for where, sub in properties(root, name):
        described = root["$defs"][sub["$ref"].rpartition("/")[2]] if "$ref" in sub else sub
        assert described.get("description", "").endswith("."), where


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_pattern_says_in_words_what_it_wants(name: str) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            assert not isinstance(value.get("pattern"), str) or value.get("x-expected"), value
            for child in value.values():
                walk(child)

    walk(schema_of(name))


def test_there_are_examples_to_judge() -> None:
    assert {kind for kind, _ in GOOD} >= {"harness", "suite", "backend"}


@pytest.mark.parametrize(("kind", "path"), GOOD, ids=lambda item: item if isinstance(item, str) else item.name)
def test_the_files_of_the_repository_are_accepted(kind: str, path: Path) -> None:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if kind == "exemptions":  # editors see a TOML date as a string
        data = json.loads(json.dumps(data, default=str))
    assert list(violations(schema_of(kind), data)) == []


def test_every_family_of_checks_can_be_lowered_but_the_one_with_a_level_of_its_own() -> None:
    known = set(schema_of("harness")["properties"]["checks"]["properties"])
    assert set(FAMILIES) <= known
    assert "enum" in schema_of("harness")["properties"]["checks"]["properties"]["exercised"]


def test_an_editor_that_knows_only_json_schema_sees_the_same_faults() -> None:
    validator = Draft202012Validator(schema_of("suite"))
    step = {"call": "a", "get_prompt": "b"}
    bad = {"schema": 2, "id": "x", "case": [{"id": "y", "step": [step]}], "extra": 1}
    assert {error.validator for error in validator.iter_errors(bad)} == {"oneOf", "additionalProperties"}
