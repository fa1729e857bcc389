"""Ours: contract.json is read with the place of everything that is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harness.config.contract import is_contract, parse_contract
from harness.config.validate import schema_of
from harness.model.contract import Contract

ENTRY = {"date": "2026-12-01", "tool": "a", "class": ["breaking"], "reason": "the tool was never used"}
GOOD: dict[str, Any] = {
    "schema": 1,
    "server": "things",
    "accepted": [ENTRY],
    "tools": [{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b"}],
    "prompts": [{"name": "p"}],
    "resources": [{"uri": "mem://one"}],
    "axes": {"era": ["handshake", "modern"]},
    "differences": [{"where": {"era": "modern"}, "tools": [{"name": "c"}]}],
}


def said(data: Any) -> list[str]:
    """The problems of a file, each as people see it."""
    raw = data if isinstance(data, bytes) else json.dumps(data, indent=2).encode()
    found = parse_contract(raw, file="contract.json")
    return [] if isinstance(found, Contract) else [str(problem) for problem in found]


def test_a_good_file_is_read_with_the_lines_of_its_items() -> None:
    found = parse_contract(json.dumps(GOOD, indent=2).encode(), file="contract.json")
    assert isinstance(found, Contract)
    assert [item["name"] for item in found.shared.tools] == ["a", "b"]
    lines = json.dumps(GOOD, indent=2).splitlines()
    assert '"name": "b"' in lines[found.lines["tool", "b"]]  # the line after its brace
    assert found.lines["tool", "c"]
    assert is_contract(GOOD)
    assert not is_contract({"tools": []})


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "contract.json: expected an object, got an empty list"),
    "another version": ({**GOOD, "schema": 2}, "contract.json:2 schema: expected 1, got an integer (2)"),
    "no version": ({"server": "x", "tools": []}, "contract.json schema: expected 1, got none"),
    "unknown key": ({**GOOD, "tool": []}, "did you mean 'tools'?"),
    "no server": ({**GOOD, "server": ""}, "contract.json:3 server: the name of the server is missing"),
    "no tools": ({key: GOOD[key] for key in GOOD if key != "tools"}, "the list of tools is missing"),
    "tools no list": ({**GOOD, "tools": {}}, "tools: expected a list"),
    "a tool no object": ({**GOOD, "tools": [1]}, "tools[0]: expected an object, got an integer (1)"),
    "a tool without name": ({**GOOD, "tools": [{"title": "x"}]}, "tools[0]: a tool without name"),
    "a resource without uri": ({**GOOD, "resources": [{"name": "x"}]}, "resources[0]: a resource without uri"),
    "unknown era": ({**GOOD, "differences": [{"where": {"era": "moderm"}}]}, "did you mean 'modern'?"),
    "unknown axis": ({**GOOD, "differences": [{"where": {"eras": "modern"}}]}, "where.eras: unknown key"),
    "nowhere": ({**GOOD, "differences": [{"where": {}}]}, "differences[0].where: expected an object such as"),
    "axes no object": ({**GOOD, "axes": []}, "axes: expected an object of lists"),
    "words no boolean": ({**GOOD, "words": "no"}, "words: expected true or false, got a string"),
    "no date": ({**GOOD, "accepted": [{**ENTRY, "date": "soon"}]}, "accepted[0].date: expected the day"),
    "no reason": ({**GOOD, "accepted": [{**ENTRY, "reason": 1}]}, "accepted[0].reason: the reason is missing"),
    "a placeholder": ({**GOOD, "accepted": [{**ENTRY, "reason": "todo"}]}, "the reason is a note to do something"),
    "of nothing": ({**GOOD, "accepted": [{k: ENTRY[k] for k in ENTRY if k != "tool"}]}, "expected one tool, prompt"),
    "unknown class": ({**GOOD, "accepted": [{**ENTRY, "class": ["bad"]}]}, "accepted[0].class: expected a list of"),
    "not UTF-8": (b'{"schema": 1,\n "server": "\xff"}', "contract.json:2: not UTF-8: byte 0xff"),
    "marks of a merge": (b'{"schema": 1,\n<<<<<<< ours\n}', "contract.json:2: not JSON at column 1"),
    "cut": (b'{"schema": 1,\n "tools": [{"name": "a"}', "contract.json:2: not JSON"),
    "more behind": (b'{"schema": 1} x', "contract.json:1: not JSON at column 15: something stands behind the end"),
    "a comma too many": (b'{"schema": 1,\n}', "contract.json:2: not JSON at column 1"),
    "a comma too many in a list": (b'{"tools": [{},\n]}', "contract.json:2: not JSON at column 1"),
    "empty": (b"", "contract.json:1: not JSON at column 1"),
    "a key twice": (b'{"schema": 1, "server": "x",\n"tools": [{"name": "a",\n"name": "b"}]}', "stands twice"),
    "a key twice at the top": (b'{"schema": 1, "server": "x",\n"tools": [],\n"tools": []}', "contract.json:3 tools:"),
    "too deep": (b'{"schema": 1, "server": "x", "tools": [' + b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_with_its_place(name: str) -> None:
    data, expected = BAD[name]
    told = said(data)
    assert told
    assert expected in "\n".join(told)


@pytest.mark.parametrize("name", [name for name in BAD if not isinstance(BAD[name][0], bytes)])
def test_what_is_refused_is_refused_by_the_published_schema_too(name: str) -> None:
    validator = Draft202012Validator(schema_of("contract"), format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert validator.is_valid(GOOD)
    if name != "a placeholder":  # JSON Schema cannot tell
        assert not validator.is_valid(BAD[name][0])


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "a", "modern", "2026-12-01"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*GOOD, "where", "era", "name", "uri", "tool", "reason"]), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(list(GOOD)), JSON))
def test_any_json_gives_a_contract_or_problems_and_nothing_else(data: dict[str, Any]) -> None:
    found = parse_contract(json.dumps({**data, "schema": 1}).encode(), file="c")
    assert isinstance(found, Contract) or found


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_is_no_contract_whatever_our_parser_takes(word: str) -> None:
    text = json.dumps(GOOD).replace('"mem://one"', word)
    assert said(text.encode()) == [f"contract.json: cannot be read: {word} is no JSON value"]


@given(st.binary(max_size=40))
def test_any_bytes_give_problems(data: bytes) -> None:
    assert not isinstance(parse_contract(data, file="c"), Contract)


# --- in a project -----------------------------------------------------------------------------------


def test_a_project_reads_the_contract_that_it_names(good, loaded) -> None:
    named = good["harness.toml"].replace("schema = 1\n", 'schema = 1\ncontract = "contract.json"\n', 1)
    (project,) = loaded(harness=named, contract=json.dumps(GOOD)).projects
    assert project.contract is not None
    assert project.contract.server == "things"
    assert project.contract_file == project.root / "contract.json"


def test_a_contract_that_nobody_names_is_not_read(loaded) -> None:
    (project,) = loaded(contract="no JSON").projects
    assert project.contract is None
