"""Bytes of a saved list -> a catalogue: any JSON, however deep; lines; pages of a conversation. Ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.findings.toolfile import MAX_DEPTH, era_of, parse_json, read_messages, read_tool_file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
TOOLS = st.lists(st.dictionaries(st.sampled_from(["name", "title", "inputSchema"]), JSON), min_size=1, max_size=5)


def beyond_the_stack(text):
    """The text inside so many arrays that the parser of the standard library gives up."""
    return "[" * 5_000 + "]" * 5_000, f"[{text}, {'[' * 5_000 + ']' * 5_000}]"


@settings(max_examples=30, deadline=None)
@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_what_is_too_deep_for_the_usual_parser_is_parsed_the_same(value, indent):
    _, text = beyond_the_stack(json.dumps(value, indent=indent))
    with pytest.raises(RecursionError):
        json.loads(text)
    assert parse_json(text)[0] == value


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet='[]{}:,"\\ \n1-e.tfn', max_size=30))
def test_what_is_no_json_is_told_likewise_at_any_depth(text):
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            parse_json(beyond_the_stack(text)[1])
    else:
        assert parse_json(beyond_the_stack(text)[1])[0] == expected


@settings(max_examples=30, deadline=None)
@given(TOOLS, st.sampled_from([None, 1, 4]), st.booleans())
def test_the_line_of_every_tool_is_where_it_begins(tools, indent, bare):
    text = json.dumps(tools if bare else {"x": {"tools": [1]}, "tools": tools, "y": 1}, indent=indent)
    found = read_tool_file(text.encode(), name="a.json")
    assert [dict(tool.definition) for tool in found.catalogue.tools] == tools
    lines = text.split("\n")
    for index in range(len(tools)):
        assert "{" in lines[found.lines[index] - 1]
    assert sorted(found.lines) == list(range(len(tools)))
    assert list(found.lines.values()) == sorted(found.lines.values())


def test_what_is_cut_is_said_with_its_place():
    deep = '{"a":' * (MAX_DEPTH + 1000) + "1" + "}" * (MAX_DEPTH + 1000)
    text = f'[{{"name": "x", "inputSchema": {deep}}}, {{"name": "y", "inputSchema": {{}}}}]'
    found = read_tool_file(text.encode(), name="a.json")
    (remark,) = found.remarks
    assert remark.tool == "x"
    assert f"{MAX_DEPTH} levels" in remark.message
    assert [tool.name for tool in found.catalogue.tools] == ["x", "y"]


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": [{"a": 1, "c": 2, "a": 3, "a": 4}]}'])
def test_a_key_is_noticed_once_however_often_it_stands(text):
    found = read_tool_file(f'[{{"name": "x", "inputSchema": {text}}}]'.encode(), name="a.json")
    assert [remark.spelling for remark in found.remarks] == ['"a"']


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"tools": [{"name": "lost"}], "tools": [{"name": "x"}]}', ""),
        ('{"id": 1, "result": {"tools": [{"name": "lost"}], "tools": [{"name": "x"}]}}', "/result"),
    ],
)
def test_two_lists_of_tools_in_one_object_are_told_since_one_is_lost(text, pointer):
    found = read_tool_file(text.encode(), name="a.json")
    assert [(remark.check, remark.pointer, remark.spelling) for remark in found.remarks] == [
        ("wire/duplicate-key", pointer, '"tools"')
    ]
    assert [tool.name for tool in found.catalogue.tools] == ["x"]


def test_a_byte_order_mark_and_a_huge_number_do_not_matter():
    text = '\ufeff[{"name": "x", "n": ' + "9" * 10_000 + "}]"
    assert read_tool_file(text.encode(), name="a.json").catalogue.tools[0].name == "x"


def test_the_first_whole_walk_over_the_pages_counts():
    def page(name, following=None):
        return {"tools": [{"name": name}], **({"nextCursor": following} if following else {})}

    def exchange(number, cursor, result):
        params = {"params": {"cursor": cursor}} if cursor else {}
        return [{"id": number, "method": "tools/list", **params}, {"id": number, "result": result}]

    messages = [
        *exchange(1, None, page("lost", "b")),
        *exchange(2, None, page("a", "b")),
        *exchange("3", "b", page("b")),
        *exchange(4, None, page("later")),
    ]
    found = read_messages(messages, name="log")
    assert [tool.name for tool in found.catalogue.tools] == ["a", "b"]
    assert found.catalogue.whole


def test_a_modern_exchange_is_known_by_its_envelope():
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    messages = [{"id": 1, "method": "tools/list", "params": meta}, {"id": 1, "result": {"tools": []}}]
    catalogue = read_messages(messages, name="log").catalogue
    assert (catalogue.era, catalogue.protocol) == ("modern", "2026-07-28")
    alone = read_tool_file(b'{"tools": [], "resultType": "complete"}', name="a.json").catalogue
    assert alone.era == "modern"


@pytest.mark.parametrize(
    ("version", "era"),
    [("2025-11-25", "handshake"), ("2026-07-28", "modern"), ("2027-01-01", "modern"), ("", None), ("draft", None)],
)
def test_the_era_of_a_version(version, era):
    assert era_of(version) == era


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_catalogue_or_an_error_in_words(data):
    try:
        read_tool_file(data, name="a.json")
    except ConfigError as error:
        assert error.message.startswith("a.json")  # noqa: PT017


def test_a_contract_is_of_the_server_that_it_names():
    data = json.dumps({"schema": 1, "server": "notes-mcp", "tools": []}).encode()
    assert read_tool_file(data, name="contract.json").catalogue.server == "notes-mcp"
    data = json.dumps({"server": "notes-mcp", "tools": []}).encode()
    assert read_tool_file(data, name="lists/other.json").catalogue.server == "other"
