"""Ours: what changed between two sets of lists, and what of it is said of which run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.findings.contract import changes_between, diff
from harness.model.contract import (
    AcceptedSpec,
    Lists,
    Variant,
    Where,
    contract_from_json,
    contract_to_json,
    make_contract,
    views_of,
)
from harness.model.plan import Place

STRING = {"type": "string"}
GET = "Get one user of the directory by its number."


def tool(name="get_user", properties=None, **more):
    schema = {"type": "object", "properties": {"id": STRING} if properties is None else properties}
    return {"name": name, "description": GET, "inputSchema": schema, **more}


def found(before, after):
    """(class, kind) of each change between two lists of tools."""
    changes = changes_between(Lists(tools=tuple(before)), Lists(tools=tuple(after)))
    return [(item.cls, item.kind) for item in changes]


def test_the_order_of_tools_and_keys_is_no_change():
    one, two = tool(), tool("put_user", {"id": STRING, "name": STRING}, title="Put")
    assert found([one, two], [dict(reversed(list(two.items()))), one]) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([tool(), tool("b")], [tool()], [("breaking", "a tool is gone")]),
        ([tool()], [tool(), tool("b", {})], [("additive", "a tool was added")]),
        ([tool()], [tool(), tool()], [("unknown", "listed twice")]),
        ([tool()], [tool("fetch_user")], [("breaking", "a tool was renamed")]),
        ([tool()], [tool("user_get", description="Another text of a tool.")], [("breaking", "a tool was renamed")]),
        (
            [tool()],
            [tool("wipe", {"path": STRING}, description="Erase everything below a folder at once.")],
            [("breaking", "a tool is gone"), ("additive", "a tool was added")],
        ),
        ([tool()], [tool(description=f"{GET} Fast.")], [("routing", "description changed")]),
        ([tool()], [tool(description=f"{GET}\n")], [("cosmetic", "another spelling")]),
        (
            [tool()],
            [tool(description="Erase everything below some folder without asking.")],
            [("unknown", "a description without a word of the old one")],
        ),
        ([tool()], [tool(title="User")], [("routing", "title was added")]),
        (
            [tool(annotations={"readOnlyHint": True})],
            [tool(annotations={"readOnlyHint": False})],
            [("routing", "annotations.readOnlyHint changed")],
        ),
        ([tool()], [tool(annotations={"readOnlyHint": False})], [("cosmetic", "another spelling")]),  # the default
        ([tool()], [tool(_meta={"a": 1})], [("cosmetic", "another spelling")]),
        ([tool()], [tool(**{"x-new": 1})], [("routing", "x-new was added")]),
        ([tool(execution={"taskSupport": "forbidden"})], [tool()], [("cosmetic", "another spelling")]),
        ([tool()], [tool(execution={"taskSupport": "required"})], [("breaking", "taskSupport changed")]),
        ([tool()], [tool(execution={"taskSupport": "optional"})], [("additive", "taskSupport changed")]),
        ([tool()], [tool(outputSchema={"type": "object"})], [("additive", "an output schema was added")]),
        ([tool(outputSchema={"type": "object"})], [tool()], [("breaking", "the output schema is gone")]),
        (
            [tool()],
            [tool(description=f"[DEPRECATED: Use fetch_user] {GET}"), tool("fetch_user")],
            [("additive", "a tool was added"), ("additive", "a tool was deprecated")],
        ),
        (
            [tool()],
            [tool(description=f"[DEPRECATED: Use nothing_here] {GET}")],
            [("routing", "a tool was deprecated")],
        ),
    ],
)
def test_a_change_of_a_list_has_its_class(before, after, expected):
    assert sorted(found(before, after)) == sorted(expected)


def test_a_prefix_before_all_names_is_a_renaming_of_each():
    names = [f"{verb}_{noun}" for verb in ("get", "put", "list") for noun in ("user", "group", "key", "role")]
    before = [tool(name, description=f"What {name} does.") for name in names]
    after = [{**item, "name": f"directory_{item['name']}"} for item in before]
    changes = changes_between(Lists(tools=tuple(before)), Lists(tools=tuple(after)))
    assert {(item.name, item.after) for item in changes} == {(name, f"directory_{name}") for name in names}


def test_a_tool_with_other_parameters_and_another_description_was_repurposed():
    after = tool(properties={"path": STRING}, description="Erase everything below a folder at once.")
    assert ("breaking", "a tool was repurposed") in found([tool()], [after])
    assert ("breaking", "a tool was repurposed") not in found([tool()], [tool(properties={"user_id": STRING})])


def test_prompts_and_resources_have_their_changes_too():
    def of(before, after, key):
        return {
            (item.cls, item.kind, item.pointer)
            for item in changes_between(Lists(**{key: (before,)}), Lists(**{key: (after,)}))
        }

    ask = {"name": "ask", "arguments": [{"name": "who", "description": "Whom."}, {"name": "how"}]}
    now = {"name": "ask", "arguments": [{"name": "who", "required": True, "description": "Who."}, {"name": "why"}]}
    assert of(ask, now, "prompts") == {
        ("breaking", "an argument became required", "/arguments/0/required"),
        ("routing", "description changed", "/arguments/0/description"),
        ("breaking", "an argument is gone", "/arguments/1"),
        ("additive", "an argument was added", "/arguments/1"),
    }
    one = {"uri": "mem://one", "name": "one", "mimeType": "text/plain", "size": 1}
    two = {"uri": "mem://one", "name": "One", "mimeType": "text/html", "size": 2}
    assert of(one, two, "resources") == {
        ("breaking", "mimeType changed", "/mimeType"),
        ("routing", "name changed", "/name"),
    }
    assert of(one, {**one, "size": 5}, "resources") == {("cosmetic", "another spelling", "/size")}


def test_every_change_says_what_it_is_and_what_a_caller_sees():
    for change in changes_between(
        Lists(tools=(tool(), tool("b"))), Lists(tools=(tool(properties={"id": {"type": "integer"}}), tool("c", {})))
    ):
        assert change.message
        assert change.caller
        assert change.kind


# --- contracts --------------------------------------------------------------------------------------

RUNS = [Where(era=era, profile=profile) for era in ("handshake", "modern") for profile in ("asking", "plain")]


def test_a_file_is_the_same_bytes_whatever_the_order_of_runs_tools_and_keys():
    lists = Lists(tools=(tool("b"), tool("a")), resources=({"uri": "z"}, {"uri": "y"}))
    turned = Lists(tools=(dict(reversed(list(tool("a").items()))), tool("b")), resources=({"uri": "y"}, {"uri": "z"}))
    views = [(where, lists) for where in RUNS]
    data = contract_to_json(make_contract("s", views))
    assert contract_to_json(make_contract("s", [(where, turned) for where in reversed(RUNS)])) == data
    assert contract_to_json(contract_from_json(json.loads(data))) == data


def test_what_all_runs_list_stands_there_once_and_what_differs_with_the_shortest_words_for_where():
    def views(which):
        return [(where, Lists(tools=(tool("a"), *((tool("b", {}),) if which(where) else ())))) for where in RUNS]

    def wheres(which):
        return [variant.where for variant in make_contract("s", views(which)).variants]

    assert wheres(lambda where: True) == []
    assert wheres(lambda where: where.era == "modern") == [Where(era="modern")]
    assert wheres(lambda where: where.profile == "asking") == [Where(profile="asking")]
    assert wheres(lambda where: where == RUNS[0]) == [RUNS[0]]
    most = {Where(era="handshake"), Where(profile="asking")}
    assert set(wheres(lambda where: where != RUNS[3])) == most
    made = make_contract("s", views(lambda where: where.era == "modern"))
    again = contract_from_json(json.loads(contract_to_json(made)))
    for where, lists in views(lambda where: where.era == "modern"):
        assert {item["name"] for item in again.lists_in(where).tools} == {item["name"] for item in lists.tools}
    assert made.axes == {"era": ("handshake", "modern")}
    assert views_of(made) == [Where(era="handshake"), Where(era="modern")]


def test_one_tool_in_two_forms_is_said_for_both():
    made = make_contract(
        "s",
        [(where, Lists(tools=(tool(properties={} if where.era == "modern" else None),))) for where in RUNS],
    )
    assert [variant.where for variant in made.variants] == [Where(era="handshake"), Where(era="modern")]
    assert made.shared == Lists()


def test_two_contracts_are_compared_in_every_run_that_one_of_them_tells_apart():
    shared = make_contract("s", [(where, Lists(tools=(tool(),))) for where in RUNS])
    parted = make_contract(
        "s", [(where, Lists(tools=(tool(), *((tool("b", {}),) if where.era == "modern" else ())))) for where in RUNS]
    )
    assert diff(parted, parted) == ()
    (change,) = diff(shared, parted)
    assert (change.cls, change.name, change.runs) == ("additive", "b", ("modern",))
    (change,) = diff(parted, shared)
    assert (change.cls, change.name, change.runs) == ("breaking", "b", ("modern",))


def test_the_history_of_acceptance_is_kept():
    entry = AcceptedSpec(
        date="2026-12-01", subject="tool", name="a", classes=("breaking",), reason="it was never used", changes=("x",)
    )
    made = make_contract("s", [(Where(), Lists(tools=(tool("a"),)))], accepted=[entry])
    assert contract_from_json(json.loads(contract_to_json(made))).accepted == (entry,)


def test_a_contract_without_words_takes_no_notice_of_them():
    """A parameter that is called description or title is no word."""
    said = {**STRING, "description": "What is said."}
    properties = {"description": said, "title": {"enum": ["title"], "title": "T"}}
    hints = {"readOnlyHint": True}
    before = Lists(tools=(tool(properties=properties, title="Get", annotations={"title": "Get", **hints}),))
    made = make_contract("s", [(Where(), before)], words=False)
    (item,) = contract_from_json(json.loads(contract_to_json(made))).shared.tools
    assert item == {
        "name": "get_user",
        "inputSchema": {"type": "object", "properties": {"description": STRING, "title": {"enum": ["title"]}}},
        "annotations": {"readOnlyHint": True},
    }
    other = Lists(tools=(tool(properties=properties, description="Another text.", annotations=hints),))
    full = make_contract("s", [(Where(), other)])
    assert diff(made, full) == diff(full, made) == ()
    properties["title"] = {"enum": ["other"]}
    assert [change.cls for change in diff(made, full)] == ["breaking", "additive"]


# --- runs -------------------------------------------------------------------------------------------


def contract(*tools, variants=()):
    made = make_contract("fixture", [(Where(), Lists(tools=tools))])
    return replace(made, place=Place(file="contract.json"), variants=tuple(variants))


def run(t, *tools, key=None):
    tape = t.Tape().start(tools)
    for item in tools:
        tape.case(item["name"]).step(item["name"]).done()
    return t.evidence(key or t.key(), tape.stop())


def said(judgement):
    return [(item.check, item.tool) for item in judgement.findings if item.check.startswith("contract/")]


def test_without_a_contract_there_is_no_drift(t):
    assert said(t.judged(run(t, tool()))) == []


def test_a_change_in_all_runs_is_one_finding_and_one_in_some_is_told_as_a_difference(t):
    keys = [t.key(), t.key(profile="asking")]
    more = tool("b", {})
    both = t.judged(*(run(t, tool(), more, key=key) for key in keys), contract=contract(tool()))
    assert said(both) == [("contract/additive", "b")]
    some = t.judged(run(t, tool(), key=keys[0]), run(t, tool(), more, key=keys[1]), contract=contract(tool()))
    assert said(some) == [("contract/differs", "b")]
    assert "not so in fixture none handshake plain" in t.one(some, "contract/differs").message


def test_a_difference_that_the_file_tells_of_is_none_and_a_drift_inside_it_keeps_its_class(t):
    keys = [t.key(), t.key(profile="asking")]
    variant = Variant(where=Where(profile="asking"), lists=Lists(tools=(tool("b", {}),)))
    kept = contract(tool(), variants=[variant])
    runs = [run(t, tool(), key=keys[0]), run(t, tool(), tool("b", {}), key=keys[1])]
    assert said(t.judged(*runs, contract=kept)) == []
    runs[1] = run(t, tool(), tool("b", {"x": STRING}), key=keys[1])
    assert said(t.judged(*runs, contract=kept)) == [("contract/additive", "b")]


def test_a_list_that_is_not_whole_is_not_judged(t):
    tape = t.Tape().start(pages=[["echo"], ["b"]])
    cut = [event for event in tape.events if "p1" not in str(event)]
    tape.events = cut[:-1]
    judgement = t.judged(t.evidence(t.key(), tape.case("echo").step("echo").done().stop()), contract=contract(tool()))
    assert said(judgement) == []
    assert [item.check for item in judgement.not_judged if item.check == "contract"] == ["contract"]


def test_a_server_without_prompts_is_judged_all_the_same(t):
    judgement = t.judged(run(t, tool()), contract=contract(tool()))
    assert [item for item in judgement.not_judged if item.check == "contract"] == []


def test_ports_and_folders_of_one_run_are_no_drift(t):
    def described(port, folder):
        return tool(description=f"Asks http://127.0.0.1:{port}/x and writes to /tmp/rollcall-{folder}/out.")

    kept = contract(tool(description="Asks http://127.0.0.1:${port}/x and writes to ${tmp}/out."))
    assert said(t.judged(run(t, described(45123, "aaaaaa")), contract=kept)) == []
    assert said(t.judged(run(t, described(8080, "aaaaaa")), contract=kept)) == [("contract/routing", "get_user")]


def test_the_family_can_be_lowered(t):
    judgement = t.judged(run(t, tool(), tool("b", {})), contract=contract(tool()), checks=[("contract", "warning")])
    assert t.one(judgement, "contract/additive").severity == "warning"
    assert [item.family for item in judgement.lowered] == ["contract"]
