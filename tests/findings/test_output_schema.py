"""What tools give, beside what they say that they give."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.catalogue import remarks_of
from harness.findings.output_schema import lacking_message, texts_disagree
from harness.model.catalogue import Catalogue, ToolDef

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ON = [("output-schema", "error")]
REASON = "its answers have no shape that a schema could tell"


def tool(name, schema=...):
    made = {"name": name, "inputSchema": {"type": "object"}}
    return made if schema is ... else {**made, "outputSchema": schema}


def run(t, *tools, results=None, protocol="2025-11-25", key=None, **more):
    tape = t.Tape().start(tools, version=protocol).case("one")
    for item in tools:
        tape.step(item["name"], (results or {}).get(item["name"], t.text("x", structuredContent={"name": "x"})))
    found = t.evidence(key or t.key(), tape.done().stop(), protocol=protocol)
    return t.judged(found, checks=ON, **more) if key is None else found


def entry(t, subject, **more):
    return t.exempt(subject, REASON, check="output-schema", **more)


def test_a_server_without_any_output_schema_is_one_finding_with_the_list(t):
    found = t.one(run(t, tool("b"), tool("a")), "output-schema/missing")
    assert (found.tool, found.evidence["tools"]) == (None, ["a", "b"])
    assert found.message.startswith("none of 2 tools declares an output schema: a, b; ")


def test_the_advice_can_be_pasted_where_the_server_calls_itself_by_a_path():
    message = lacking_message(["a"], 1, "mcp-servers/every.thing")
    assert message.startswith("the only tool declares no output schema: a; ")
    assert tomllib.loads(message.rpartition("the server: ")[2].replace("] ", "]\n")) == {
        "mcp-servers/every.thing": {"output-schema": {"*": "why it has none"}}
    }


def test_one_entry_excuses_a_server_without_any_and_is_listed(t):
    judgement = run(t, tool("a"), tool("b"), exemptions=[entry(t, "*")])
    assert judgement.findings == ()
    assert [(item.check, item.subject) for item in judgement.excused] == [("output-schema", "*")]


def test_tools_of_such_a_server_can_be_excused_one_by_one(t):
    some = run(t, tool("a"), tool("b"), exemptions=[entry(t, "a")])
    assert t.one(some, "output-schema/missing").evidence["tools"] == ["b"]
    assert "(1 excused one by one): b;" in t.one(some, "output-schema/missing").message
    assert run(t, tool("a"), tool("b"), exemptions=[entry(t, "a"), entry(t, "b", line=8)]).findings == ()


def test_a_tool_that_declares_one_after_all_makes_its_entry_false(t):
    judgement = run(t, tool("a", NAMED), tool("b"), exemptions=[entry(t, "a"), entry(t, "b", line=8)])
    assert t.one(judgement, "exemption/false").message == "a declares an output schema after all; remove the entry"
    assert [item.subject for item in judgement.excused] == ["b"]


def test_the_entry_for_all_is_false_where_one_declares_and_excuses_nothing(t):
    judgement = run(t, tool("a", NAMED), tool("b"), exemptions=[entry(t, "*")])
    assert t.checks(judgement) == ["exemption/false", "output-schema/missing"]
    said = "a declares an output schema after all; name the tools that have none: b"
    assert judgement.findings[0].message == said


def test_an_entry_for_a_tool_that_is_gone_is_stale(t):
    assert t.checks(run(t, tool("a", NAMED), exemptions=[entry(t, "gone")])) == ["exemption/stale"]


def test_an_entry_is_false_for_the_backends_with_which_the_tool_declares_one(t):
    with_one = run(t, tool("a", NAMED), key=t.key(backend="x"))
    without = run(t, tool("a"), key=t.key(backend="y"))
    judgement = t.judged(with_one, without, checks=ON, exemptions=[entry(t, "a")])
    found = t.one(judgement, "exemption/false")
    assert found.message == 'a declares an output schema after all with x; write `backend = ["y"]`'
    assert found.evidence["still_needed"] == ["y"]
    assert t.judged(with_one, without, checks=ON, exemptions=[entry(t, "a", backends=("y",))]).findings == ()


def test_whether_a_tool_lacks_one_in_an_era_that_was_not_run_is_not_judged(t):
    found = run(t, tool("a", NAMED), key=t.key(era="modern"))
    judgement = t.judged(found, checks=ON, also=[t.key()], exemptions=[entry(t, "a")])
    assert judgement.findings == ()
    assert [item.subject for item in judgement.not_judged if item.check == "output-schema"] == ["a"]


def test_an_expired_entry_excuses_no_missing_schema(t):
    judgement = run(t, tool("a"), exemptions=[entry(t, "*", expires="2026-11-30")])
    assert t.checks(judgement) == ["exemption/expired", "output-schema/missing"]


def test_revisions_without_output_schemas_are_not_asked_for_any(t):
    assert run(t, tool("a"), results={"a": t.OK}, protocol="2025-03-26").findings == ()
    judgement = run(t, tool("a"), protocol="2025-03-26", exemptions=[entry(t, "*")])
    assert t.one(judgement, "exemption/false").message.startswith("the revision in force has no output schemas")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (None, "outputSchema is null"),
        ([], "outputSchema is []"),
        ({}, "the root of outputSchema is empty"),
        ({"$ref": "#/$defs/a", "$defs": {"a": NAMED}}, "has no type, only $defs, $ref"),
        ({"anyOf": [NAMED]}, "has no type, only anyOf"),
        ({"type": ["object", "null"]}, 'has type ["object", "null"]'),
        ({"type": "array"}, 'has type "array"'),
    ],
)
def test_a_root_that_is_no_object_is_told_whatever_is_excused(t, schema, words):
    found = t.one(run(t, tool("a", schema), exemptions=[entry(t, "*")]), "output-schema/root")
    assert words in found.message
    assert "2025-11-25 is in force" in found.message


def test_from_2026_07_28_on_any_root_and_any_content_will_do(t):
    listed = tool("a", {"type": "array", "items": {"type": "integer"}})
    good = run(t, listed, results={"a": t.text("[1]", structuredContent=[1])}, protocol="2026-07-28")
    assert good.findings == ()
    wrong = run(t, listed, results={"a": t.text("x", structuredContent=None)}, protocol="2026-07-28")
    assert "null is not of type 'array'" in t.one(wrong, "output-schema/mismatch").message
    assert t.checks(run(t, tool("a", None), protocol="2026-07-28")) == ["output-schema/root"]


def test_a_list_of_an_unknown_revision_is_judged_as_the_official_clients_of_today_do():
    catalogue = Catalogue(
        server="x.json", source="x.json", tools=(ToolDef(name="a", index=0, definition=tool("a", {"type": "array"})),)
    )
    (root,) = [item for item in remarks_of(catalogue) if item.check.startswith("output-schema")]
    assert (root.check, root.severity) == ("output-schema/root", None)  # an error, as the check's own severity is
    assert "which revision is in force is not known" in root.message


def test_every_violation_is_told_with_its_pointer_once_for_all_items_of_a_list(t):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "l": {"items": {"type": "integer"}}}}
    content = {"n": "x", "l": ["a", 1, "b"]}
    found = t.one(
        run(t, tool("a", schema), results={"a": t.text("x", structuredContent=content)}), "output-schema/mismatch"
    )
    assert [(item["pointer"], item["results"]) for item in found.evidence["violations"]] == [("/l/0", 2), ("/n", 1)]


def test_a_field_too_much_in_a_closed_schema_is_told(t):
    """R02"""
    closed = {**NAMED, "additionalProperties": False}
    content = {"name": "x", "new": 1}
    found = t.one(
        run(t, tool("a", closed), results={"a": t.text("x", structuredContent=content)}), "output-schema/mismatch"
    )
    assert found.pointer == "/new"
    assert "/new: additional property 'new' is not allowed" in found.message


def test_odd_dates_are_a_warning_and_nulls_an_error(t):
    """R04"""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "at": {"format": "date-time"}, "url": {"format": "uri"}},
    }
    content = {"n": None, "at": "2026-12-01T10:00:00", "url": ""}
    judgement = run(t, tool("a", schema), results={"a": t.text("x", structuredContent=content)})
    assert {
        item.severity: [violation["pointer"] for violation in item.evidence["violations"]]
        for item in judgement.findings
    } == {"error": ["/n"], "warning": ["/at", "/url"]}


def test_errors_and_questions_need_no_structured_content(t):
    """R01"""
    tools = (tool("a", NAMED), tool("b", NAMED))
    asked = {"resultType": "input_required", "inputRequests": {}}
    judgement = run(t, *tools, results={"a": t.failure("no"), "b": asked})
    assert not [item for item in judgement.findings if item.check.startswith("output-schema")]
    judgement = run(t, *tools, results={"a": t.OK, "b": t.text("x", structuredContent=None)})
    assert [item.tool for item in judgement.findings if item.check == "output-schema/no-structured"] == ["a", "b"]


def test_structured_content_without_a_schema_is_fine_unless_it_is_no_object(t):
    """R05, R13"""
    listed = (tool("a"), tool("b", NAMED))
    assert t.checks(run(t, *listed)) == ["output-schema/missing"]
    judgement = run(t, *listed, results={"a": t.text("x", structuredContent=["x"])})
    assert t.checks(judgement) == ["output-schema/mismatch", "output-schema/missing"]
    (mismatch,) = [item for item in judgement.findings if item.check == "output-schema/mismatch"]
    assert "as its output schema says" not in mismatch.message  # there is none


def test_what_would_cost_too_much_is_not_judged(t):
    node = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    branch = {"type": "object", "properties": {"n": node}}
    schema = {
        **node,
        "type": "object",
        "$defs": {"a": {**branch, "required": ["x"]}, "b": {**branch, "required": ["y"]}},
    }
    value = {}
    for _ in range(20):
        value = {"n": value}
    judgement = run(t, tool("a", schema), results={"a": t.text("x", structuredContent=value)})
    assert judgement.findings == ()
    assert [(item.check, item.subject) for item in judgement.not_judged] == [("output-schema/mismatch", "a")]
    assert "validation steps" in judgement.not_judged[0].why


def test_calls_of_unlisted_tools_have_no_schema_to_be_held_against(t):
    tape = t.Tape().start((tool("a", NAMED),)).case("one")
    tape.step("a", t.text("x", structuredContent={"name": "x"})).step("nope", error={"code": -32602, "message": "no"})
    judgement = t.judged(t.evidence(t.key(), tape.done().stop()), checks=ON)
    assert not [item for item in judgement.findings if item.check.startswith("output-schema")]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_the_content_itself_as_text_never_disagrees(value, indent, wrapped):
    text = {"type": "text", "text": json.dumps(value, indent=indent, sort_keys=True)}
    content = {"result": value} if wrapped else value
    assert texts_disagree([text], content) is None
    assert texts_disagree([{"type": "text", "text": "Here it is:"}, text], content) is None


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"a": 1}', {"a": 2}),
        ('{"a": [1, 2]}', {"a": [1]}),
        ('{"a": true}', {"a": 1}),
        ('{"ok": true}', {"error": "no"}),
        ("[1]", {"result": [2]}),
    ],
)
def test_a_text_that_contradicts_disagrees(text, content):
    assert texts_disagree([{"type": "text", "text": text}], content) is not None
