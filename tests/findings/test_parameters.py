"""Which parameters the answered calls of a cell used."""

import pytest

from harness.findings.parameters import covers

REASON = "needs a second server that is not here"
SCHEMA = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "order": {"enum": ["asc", "desc", None], "default": "asc"},
        "when": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "filter": {"$ref": "#/$defs/filter"},
    },
    "$defs": {
        "filter": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"enum": ["a", "b"]}}, "deep": {"type": "boolean"}},
        }
    },
}
ALL = [
    "filter",
    "filter.deep",
    "filter.tags",
    "filter.tags[]=a",
    "filter.tags[]=b",
    "key",
    "order",
    "order=asc",
    "order=desc",
    "when",
    "when|integer",
    "when|string",
]


OTHERS = [(family, "off") for family in ("names", "portability", "validity")]  # what they say of such schemas


def judged(t, *found, **more):
    return t.judged(*found, checks=OTHERS, **more)


def found(t, *calls, key=None, result=None, schema=SCHEMA, **more):
    tape = t.Tape().start(({"name": "a.b", "inputSchema": schema},)).case("one")
    for arguments in calls:
        tape.step("a.b", result or t.OK, arguments=arguments)
    return t.evidence(key or t.key(), tape.done().stop(), **more)


def run(t, *calls, **more):
    return judged(t, found(t, *calls), parameters="require", **more)


def unused(judgement):
    return [item.unused for cell in judgement.coverage for item in cell.by_tool]


def entry(t, subject, **more):
    return t.exempt(subject, REASON, check="parameters", **more)


@pytest.mark.parametrize(
    ("arguments", "used"),
    [
        ({}, {"order=asc"}),
        ({"key": "x", "order": "desc"}, {"key", "order", "order=desc"}),
        ({"order": None}, {"order"}),
        ({"when": "now"}, {"when", "when|string", "order=asc"}),
        ({"when": 7}, {"when", "when|integer", "order=asc"}),
        ({"when": None}, {"when", "order=asc"}),
        ({"filter": {"tags": ["b"]}}, {"filter", "filter.tags", "filter.tags[]=b", "order=asc"}),
        ({"filter": {"tags": []}, "other": 1}, {"filter", "filter.tags", "order=asc"}),
        ({"filter": "no object"}, {"filter", "order=asc"}),
    ],
)
def test_what_a_call_used(t, arguments, used):
    assert unused(judged(t, found(t, arguments))) == [tuple(name for name in ALL if name not in used)]


def test_it_is_counted_always_and_a_finding_only_where_it_must_be_used(t):
    judgement = judged(t, found(t, {"key": "x"}))
    assert judgement.findings == ()
    (cell,) = judgement.coverage
    assert (cell.parameters, cell.parameters_used, cell.parameters_excused) == (12, 2, 0)
    item = t.one(run(t, {"key": "x"}), "parameters/missing")
    assert (item.tool, item.severity, len(item.evidence["unused"])) == ("a.b", "error", 10)
    assert item.message.startswith("a.b: 2 of 12 parameters, values and forms were used by answered calls; not used: ")


def test_refusals_use_parameters_and_calls_without_an_answer_do_not(t):
    assert "key" not in unused(judged(t, found(t, {"key": "x"}, result=t.failure("no"))))[0]
    tape = t.Tape().start(({"name": "a.b", "inputSchema": SCHEMA},)).case("one")
    tape.step("a.b", error={"code": -32602, "message": "no"}, arguments={"key": "x"})
    assert "key" in unused(judged(t, t.evidence(t.key(), tape.done().stop())))[0]


def test_a_tool_that_never_answered_has_its_own_finding_alone(t):
    tape = t.Tape().start(({"name": "a.b", "inputSchema": SCHEMA},)).stop()
    judgement = judged(t, t.evidence(t.key(), tape), parameters="require")
    assert t.checks(judgement) == ["exercised/missing"]


def test_runs_of_a_cell_count_together_and_cells_apart(t):
    runs = [found(t, {"key": "x"}), found(t, {"when": 7}, key=t.key(era="modern"))]
    judgement = judged(t, *runs, parameters="require")
    assert {"key", "when", "when|integer"} & set(t.one(judgement, "parameters/missing").evidence["unused"]) == set()
    cells = [found(t, {"key": "x"}, key=t.key(backend=name)) for name in ("x", "y")]
    judgement = judged(t, *cells, parameters="require")
    assert [item.evidence["backend"] for item in judgement.findings] == ["x", "y"]


def test_absence_is_not_judged_where_a_run_is_missing(t):
    judgement = judged(t, found(t, {"key": "x"}), parameters="require", also=[t.key(era="modern")])
    assert judgement.findings == ()


REST = ["order", "when", "filter"]


def test_entries_excuse_a_parameter_with_its_parts_values_and_forms(t):
    entries = [entry(t, f"a.b.{name}", line=number) for number, name in enumerate(REST)]
    judgement = run(t, {"key": "x"}, exemptions=entries)
    assert judgement.findings == ()
    assert [item.subject for item in judgement.excused] == ["a.b.order", "a.b.when", "a.b.filter"]
    assert (judgement.coverage[0].parameters_excused, unused(judgement)) == (10, [()])
    some = run(t, {"key": "x"}, exemptions=[entry(t, "a.b.order=desc")])
    assert "order=desc" not in t.one(some, "parameters/missing").evidence["unused"]


@pytest.mark.parametrize(
    ("subject", "check", "words"),
    [
        ("a.b.key", "exemption/false", "a.b.key was used by an answered call after all; remove the entry"),
        ("a.b.kay", "exemption/stale", "a.b has no parameter 'kay' (did you mean 'key'?)"),
        ("c.key", "exemption/stale", "fixture lists no tool that 'c.key' begins with; write \"tool.parameter\""),
    ],
)
def test_entries_that_excuse_nothing_are_told(t, subject, check, words):
    judgement = judged(t, found(t, {"key": "x"}), exemptions=[entry(t, subject)])
    assert t.one(judgement, check).message == words


def test_an_entry_is_false_for_the_backends_with_which_the_parameter_was_used(t):
    cells = [found(t, {"key": "x"}, key=t.key(backend="x")), found(t, {"when": 7}, key=t.key(backend="y"))]
    judgement = judged(t, *cells, exemptions=[entry(t, "a.b.key")])
    said = t.one(judgement, "exemption/false").message
    assert said == 'a.b.key was used by an answered call after all with x; write `backend = ["y"]`'


def test_an_entry_for_what_a_missing_run_may_use_is_not_judged(t):
    judgement = judged(t, found(t, {"key": "x"}), also=[t.key(era="modern")], exemptions=[entry(t, "a.b.when")])
    assert judgement.findings == ()
    assert [item.subject for item in judgement.not_judged if item.check == "parameters"] == ["a.b.when"]


@pytest.mark.parametrize(
    ("subject", "name", "whether"),
    [("a", "a", True), ("a", "a.b", True), ("a", "a[]=x", True), ("a", "a|x", True), ("a", "ab", False)],
)
def test_an_entry_covers_what_is_below_it(subject, name, whether):
    assert covers(subject, name) is whether
