"""What lists and answers cost the context of a model."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.costs import BYTES_A_TOKEN, bytes_of_tool, tokens_of
from harness.model.catalogue import ToolDef

TOOL = {"name": "naive", "description": "ï" * 40, "inputSchema": {"type": "object"}}


def tape(t, *tools, result=None):
    played = t.Tape().start(tools).case("one")
    for item in tools:
        played.step(item["name"], result or t.OK)
    return played.done().stop()


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_a_token_is_begun_every_four_bytes(size, tokens):
    assert BYTES_A_TOKEN == 4
    assert tokens_of(size) == tokens


def test_only_what_a_model_gets_of_a_tool_counts():
    plain = ToolDef(name="naive", index=0, definition=TOOL)
    more = {"title": "T" * 90, "annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object"}}
    full = ToolDef(name="naive", index=0, definition={**TOOL, **more})
    assert bytes_of_tool(plain) == bytes_of_tool(full)
    assert bytes_of_tool(plain) == len(json.dumps(TOOL, ensure_ascii=False, separators=(",", ":")).encode())


def test_every_report_says_what_each_tool_and_the_list_cost_and_the_largest_answers(t):
    tools = (TOOL, {**TOOL, "name": "b", "description": "d" * 400})
    judgement = t.judged(t.evidence(t.key(), tape(t, *tools, result=t.text("x" * 1000))))
    (cell,) = judgement.coverage
    big, small = cell.by_tool
    assert (big.tool, small.tool) == ("b", "naive")
    assert cell.list_bytes == big.bytes + small.bytes
    assert cell.list_tokens == tokens_of(cell.list_bytes)
    assert big.bytes > small.bytes > 40
    assert 1000 < big.answer_bytes < 1100
    assert judgement.findings == ()


def test_the_larger_list_of_several_runs_counts(t):
    small = t.evidence(t.key(), tape(t, TOOL))
    large = t.evidence(t.key(era="modern"), tape(t, {**TOOL, "description": "d" * 400}))
    (cell,) = t.judged(small, large).coverage
    (alone,) = t.judged(large).coverage
    assert cell.list_bytes == alone.list_bytes


def test_a_budget_makes_a_larger_list_one_finding_for_all_runs_at_its_line(t):
    runs = [t.evidence(t.key(era=era), tape(t, TOOL)) for era in ("handshake", "modern")]
    found = t.one(t.judged(*runs, tokens=10), "tokens/over-budget")
    assert (found.file, found.line, len(found.evidence["runs"])) == ("harness.toml", 13, 2)
    assert "and [checks] tokens allows 10; the most: naive " in found.message
    assert t.judged(*runs, tokens=found.evidence["tokens"]).findings == ()
    assert t.judged(*runs, tokens=found.evidence["tokens"] - 1).findings != ()


def test_a_definition_that_is_nested_very_deeply_has_its_size():
    deep = {"type": "string"}
    for _ in range(100_000):
        deep = {"a": deep}
    assert bytes_of_tool(ToolDef(name="a", index=0, definition={"inputSchema": deep})) == 600_000 + len(
        b'{"inputSchema":{"type":"string"}}'
    )


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_longer_description_never_costs_less(one, other):
    def size(text):
        return bytes_of_tool(ToolDef(name="a", index=0, definition={**TOOL, "description": text}))

    assert size(one) <= size(one + other)
