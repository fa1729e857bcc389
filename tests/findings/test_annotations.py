"""What tools say of themselves, beside their names and what calls of them did."""

import pytest

from harness.findings.catalogue import remarks_of
from harness.model.catalogue import Catalogue, ToolDef

READ = {"readOnlyHint": True}
WRITE = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False}
ON = [("annotation", "error")]


def told(*tools, protocol="2025-11-25"):
    listed = tuple(
        ToolDef(name=name, index=index, definition={"name": name, **({} if hints is None else {"annotations": hints})})
        for index, (name, hints) in enumerate(tools)
    )
    catalogue = Catalogue(server="s", source="s", protocol=protocol, tools=listed)
    return [
        (item.check.partition("/")[2], item.tool, item.severity)
        for item in remarks_of(catalogue)
        if item.check.startswith("annotation/")
    ]


@pytest.mark.parametrize(
    ("name", "hints", "expected"),
    [
        ("list_notes", READ, []),
        ("create_note", WRITE, []),
        ("delete_note", {**WRITE, "destructiveHint": True}, []),
        ("get_deleted_notes", READ, []),
        ("preview_delete", READ, []),
        ("can_delete", READ, []),
        ("undelete", READ, []),
        ("settings", READ, []),
        ("address_lookup", READ, []),
        ("add", READ, []),
        ("delete_note", READ, [("contradicted", "delete_note", "error")]),
        ("notes_delete", READ, [("contradicted", "notes_delete", "error")]),
        ("deleteNote", READ, [("contradicted", "deleteNote", "error")]),
        ("create_note", READ, [("contradicted", "create_note", "warning")]),
        ("purge_notes", WRITE, [("contradicted", "purge_notes", "warning")]),
        ("x", {"readOnlyHint": True, "destructiveHint": True}, [("contradicted", "x", "warning")]),
        ("x", {"readOnlyHint": False}, [("missing", "x", None)]),
        ("x", {"title": "X"}, [("missing", "x", None)]),
        ("x", {**WRITE, "idempotentHint": 1}, [("malformed", "x", None)]),
        ("x", [], [("malformed", "x", None)]),
    ],
)
def test_hints_are_held_against_names_and_one_another(name, hints, expected):
    assert told((name, hints), ("other", READ)) == expected


def test_a_server_without_any_annotations_is_one_finding():
    assert told(("a", None), ("b", None)) == [("missing", None, None)]
    assert told(("a", None), ("b", READ)) == [("missing", "a", None)]


def test_revisions_without_annotations_are_not_asked_for_any():
    assert told(("a", None), protocol="2024-11-05") == []


def played(t, *calls, hints=READ):
    listed = ({"name": "notes", "inputSchema": {}, "annotations": READ}, {"name": "see", "annotations": hints})
    tape = t.Tape().start(tuple({"inputSchema": {"type": "object"}, **item} for item in listed)).case("one")
    for name, arguments, said in calls:
        tape.step(name, t.text(said), arguments=arguments)
    judgement = t.judged(t.evidence(t.key(), tape.done().stop()), checks=ON)
    return [item.tool for item in judgement.findings if item.check == "annotation/contradicted"]


NEW = {"text": "a new note"}


def test_a_call_that_changes_what_another_tool_answers_belies_read_only(t):
    calls = [("notes", {}, "one"), ("see", NEW, "fine"), ("notes", {}, "one, a new note")]
    assert played(t, *calls) == ["see"]
    assert played(t, *calls, hints=WRITE) == []


@pytest.mark.parametrize(
    "calls",
    [
        [("see", NEW, "x"), ("notes", {}, "one"), ("see", NEW, "x"), ("notes", {}, "one, a new note")],  # it came late
        [("notes", {}, "one"), ("see", NEW, "x"), ("notes", {"page": 2}, "a new note")],
        [("notes", {}, "a new note"), ("see", NEW, "x"), ("notes", {}, "a new note")],
        [("notes", {}, "10:01"), ("see", {"text": "10:02"}, "x"), ("notes", {}, "10:02")],  # by chance
        [("notes", {}, "10:01:59"), ("see", NEW, "x"), ("notes", {}, "10:02:00")],
        [("see", NEW, "x"), ("see", {}, "y"), ("see", NEW, "z")],
    ],
)
def test_what_may_have_changed_by_itself_is_not_judged(t, calls):
    assert played(t, *calls) == []
