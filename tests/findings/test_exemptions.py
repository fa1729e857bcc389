"""The verdict on every entry of exemptions.toml, all together, each with its place."""

from datetime import date

import pytest

REASON = "needs a second account that is not here"


def tape(t, *called, tools=("a", "b"), **more):
    """A run that calls some of its tools."""
    out = t.Tape().start(tools).case("one")
    for tool in called:
        out.step(tool)
    return out.done().stop(**more)


def run(t, *called, exemptions, tools=("a", "b"), **more):
    return t.judged(t.evidence(t.key(), tape(t, *called, tools=tools)), exemptions=exemptions, **more)


def cell(t, backend, *called, tools=("a", "b"), **more):
    return t.evidence(t.key(backend=backend), tape(t, *called, tools=tools, **more), cases=("s/one",))


def test_an_entry_that_excuses_a_missing_tool_is_used(t):
    judgement = run(t, "a", exemptions=[t.exempt("b")])
    assert judgement.findings == ()
    assert [(item.subject, item.reason, item.file, item.line) for item in judgement.excused] == [
        ("b", REASON, "exemptions.toml", 7)
    ]
    assert judgement.coverage[0].excused == 1


@pytest.mark.parametrize("expect", [{"is_error": True, "text_contains": ["no"]}, {"is_error": True}])
def test_it_excuses_refused_only_and_failed_only_too(t, expect):
    played = t.Tape().start(("a",)).case("one").step("a", t.failure("no"), expect=expect).done().stop()
    judgement = t.judged(t.evidence(t.key(), played), exemptions=[t.exempt("a")])
    assert judgement.findings == ()
    assert judgement.coverage[0].excused == 1


def test_an_entry_whose_tool_was_exercised_is_false_and_says_where(t):
    judgement = run(t, "a", "b", exemptions=[t.exempt("b")])
    found = t.one(judgement, "exemption/false")
    assert found.message == "b was exercised after all (s/one); remove the entry"
    assert (found.file, found.line, found.tool) == ("exemptions.toml", 7, "b")
    assert judgement.excused == ()


def test_false_in_some_cells_gives_the_backends_to_write(t):
    found = [cell(t, "redis@7", "a", "b"), cell(t, "redis@8", "a")]
    plan = t.plan_for(found, exemptions=[t.exempt("b")])
    plan_cells = t.judged(*found, plan=plan)
    found = t.one(plan_cells, "exemption/false")
    message = found.message
    assert found.evidence["still_needed"] == ["redis@8"]
    assert "with redis@7" in message
    assert 'write `backend = ["redis@8"]`' in message


def test_a_backend_that_is_gone_beside_one_that_is_there_is_stale_and_the_rest_holds(t):
    judgement = backend_run(t, t.exempt("b", backends=("redis@8", "redis@6")))
    found = t.one(judgement, "exemption/stale")
    assert "no backend 'redis@6'" in found.message
    assert found.evidence["still_needed"] == ["redis@8"]
    assert [item.subject for item in judgement.excused] == ["b"]


def backend_run(t, *exemptions, seven=("a", "b"), eight=("a",), **more):
    """redis@7 calls both tools, redis@8 only one; the plan has the cases of each."""
    found = [cell(t, "redis@7", *seven), cell(t, "redis@8", *eight)]
    return t.judged(*found, exemptions=exemptions, checks=[("suite", "off")], **more)


def test_an_entry_for_one_backend_is_used_there_only(t):
    judgement = backend_run(t, t.exempt("b", backends=("redis@8",)))
    assert judgement.findings == ()
    assert [item.backend for item in judgement.excused] == ["redis@8"]


def test_an_entry_for_another_backend_excuses_nothing_here(t):
    judgement = backend_run(t, t.exempt("b", backends=("redis@7",)), seven=("a",))
    assert t.checks(judgement) == ["exercised/missing"]
    assert "with redis@8" in judgement.findings[0].message


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"subject": "b", "server": "fixtur"}, "there is no server 'fixtur' (did you mean 'fixture'?)"),
        ({"subject": "list_item"}, "fixture lists no tool 'list_item' (did you mean 'list_items'?)"),
        (
            {"subject": "b", "check": "exercized"},
            "there is no check 'exercized' in this version (did you mean 'exercised'?)",
        ),
        ({"subject": "b", "check": "input-schema"}, "there is no check 'input-schema' in this version"),
        ({"subject": "b", "backends": ("postgres",)}, "fixture has no backend 'postgres'"),
    ],
)
def test_an_entry_whose_subject_is_gone_is_stale_with_the_nearest_name(t, entry, words):
    judgement = run(
        t, "b", "list_items", tools=("b", "list_items"), exemptions=[t.exempt(entry.pop("subject"), **entry)]
    )
    assert t.checks(judgement) == ["exemption/stale"]
    assert words in judgement.findings[0].message
    assert (judgement.findings[0].file, judgement.findings[0].line) == ("exemptions.toml", 7)


def test_a_backend_that_the_project_could_run_is_not_stale_but_not_judged(t):
    judgement = t.judged(
        cell(t, "redis@8", "a", "b"),
        exemptions=[t.exempt("b", backends=("redis@7",))],
        versions=("7", "8"),
        partial=True,
    )
    assert judgement.findings == ()
    assert {item.own for item in judgement.not_judged} == {True}


def test_the_label_of_a_cell_with_several_roles_names_that_cell_alone(t):
    one, two = (cell(t, f"redis@8+db@{version}", *called) for version, called in (("1", ("a", "b")), ("2", ("a",))))
    entry = t.exempt("b", backends=("redis@8+db@2",))
    judgement = t.judged(one, two, exemptions=[entry], checks=[("suite", "off")])
    assert judgement.findings == ()
    assert [item.backend for item in judgement.excused] == ["redis@8+db@2"]
    gone = t.exempt("b", backends=("redis@8+db@2", "redis@8+db@3"))
    judgement = t.judged(one, two, exemptions=[gone], checks=[("suite", "off")])
    assert "no backend 'redis@8+db@3'" in t.one(judgement, "exemption/stale").message
    judgement = t.judged(one, exemptions=[entry], versions=("8", "1", "2"), partial=True)
    assert judgement.findings == ()
    assert {item.own for item in judgement.not_judged} == {True}


def test_the_advice_of_a_false_entry_names_cells_by_their_labels(t):
    one, two = (cell(t, f"redis@8+db@{version}", *called) for version, called in (("1", ("a", "b")), ("2", ("a",))))
    judgement = t.judged(one, two, exemptions=[t.exempt("b")], checks=[("suite", "off")])
    message = t.one(judgement, "exemption/false").message
    advice = message.partition("write `")[2].partition("`")[0]
    assert advice == 'backend = ["redis@8+db@2"]'


def test_a_malformed_entry_excuses_nothing_and_the_rest_is_judged(t):
    bad = t.exempt("b", "todo", line=3, problems=("the reason is a placeholder: 'todo'",))
    judgement = run(t, exemptions=[bad, t.exempt("a", line=5)])
    assert t.checks(judgement) == ["exemption/malformed", "exercised/missing"]
    assert "the reason is a placeholder" in t.one(judgement, "exemption/malformed").message
    assert [item.subject for item in judgement.excused] == ["a"]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("wire", "wire takes no exemption; the family wire can be lowered under [checks]"),
        ("wire/stdout-not-json", "takes no exemption"),
        ("exercised/missing", "the check is written 'exercised'"),
        ("suite/step-failed", "takes no exemption"),
    ],
)
def test_a_check_that_takes_no_exemption_is_malformed(t, check, words):
    judgement = run(t, "a", "b", exemptions=[t.exempt("b", check=check)])
    assert t.checks(judgement) == ["exemption/malformed"]
    assert words in judgement.findings[0].message


def test_two_entries_for_one_thing_are_duplicate_and_both_places_are_named(t):
    judgement = run(t, "a", exemptions=[t.exempt("b", line=9), t.exempt("b", line=4)])
    assert t.checks(judgement) == ["exemption/duplicate"]
    assert (judgement.findings[0].file, judgement.findings[0].line) == ("exemptions.toml", 9)
    assert "exemptions.toml:4 already" in judgement.findings[0].message
    assert [item.line for item in judgement.excused] == [4]


@pytest.mark.parametrize(
    ("one", "other", "duplicate"),
    [
        ((), ("redis@8",), True),
        (("redis",), ("redis@8",), True),
        (("redis@7",), ("redis@8",), False),
        (("redis@7", "redis@8"), ("redis@8",), True),
        (("redis@8+db@1",), ("redis@8",), True),
        (("redis@8+db@1",), ("redis",), True),
        (("redis@8+db@1",), ("x=redis@8",), True),
        (("redis@8+db@1",), ("redis@8+db@2",), False),
    ],
)
def test_entries_are_duplicate_where_their_backends_overlap(t, one, other, duplicate):
    entries = [t.exempt("b", line=1, backends=one), t.exempt("b", line=2, backends=other)]
    judgement = backend_run(t, *entries, seven=("a",))
    assert ("exemption/duplicate" in t.checks(judgement)) is duplicate


@pytest.mark.parametrize(
    ("today", "expired"), [(date(2026, 11, 30), False), (date(2026, 12, 1), False), (date(2026, 12, 2), True)]
)
def test_the_named_day_is_the_last_good_one(t, today, expired):
    """U076"""
    judgement = run(t, "a", exemptions=[t.exempt("b", expires="2026-12-01")], today=today)
    assert t.checks(judgement) == (["exemption/expired", "exercised/missing"] if expired else [])


def test_an_expired_entry_does_not_stand_for_one_in_force(t):
    entries = [t.exempt("b", line=1, expires="2020-01-01"), t.exempt("b", line=2)]
    judgement = run(t, "a", exemptions=entries)
    assert [(item.check, item.line) for item in judgement.findings] == [("exemption/duplicate", 1)]
    assert [item.line for item in judgement.excused] == [2]


def test_expired_and_false_are_both_reported(t):
    judgement = run(t, "a", "b", exemptions=[t.exempt("b", expires="2020-01-01")])
    assert t.checks(judgement) == ["exemption/expired", "exemption/false"]


def test_all_verdicts_come_together(t):
    """A40"""
    entries = [
        t.exempt("a", line=1),
        t.exempt("b", line=2),
        t.exempt("gone", line=3),
        t.exempt("b", line=4),
        t.exempt("c", "x", line=5, problems=("the reason has fewer than three words",)),
        t.exempt("d", line=6, expires="2020-01-01"),
    ]
    judgement = run(t, "a", tools=("a", "b", "c", "d"), exemptions=entries)
    assert [(item.check, item.line) for item in judgement.findings] == [
        ("exemption/duplicate", 4),
        ("exemption/expired", 6),
        ("exemption/false", 1),
        ("exemption/malformed", 5),
        ("exemption/stale", 3),
        ("exercised/missing", None),
        ("exercised/missing", None),
    ]
    assert [item.line for item in judgement.excused] == [2]


def test_a_server_that_is_known_and_not_selected_is_not_judged_by_the_users_choice(t):
    judgement = run(t, "a", "b", exemptions=[t.exempt("x", server="other")], servers=("other",))
    assert judgement.findings == ()
    assert [(item.server, item.subject, item.own, item.file, item.line) for item in judgement.not_judged] == [
        ("other", "x", True, "exemptions.toml", 7)
    ]


def test_false_is_judged_in_a_partial_run_and_stale_is_not(t):
    """W34"""
    done = t.evidence(t.key(), tape(t, "a"), cases=("s/one",))
    gap = t.NotRun(key=t.key(era="modern"), why="the stack failed", own=False)
    plan = t.plan_for([done], also=[gap.key], exemptions=[t.exempt("a", line=1), t.exempt("gone", line=2)])
    judgement = t.judged(done, plan=plan, missing=[gap])
    assert t.checks(judgement) == ["exemption/false"]
    assert {(item.subject, item.own) for item in judgement.not_judged} == {(None, False), ("gone", False)}


@pytest.mark.parametrize(
    ("backends", "advice"),
    [
        ((), "judge all backends before changing the entry"),
        (("db",), "judge all backends before changing the entry"),
        (("db@1",), "remove the entry"),
    ],
)
def test_no_entry_is_to_be_removed_that_a_deselected_backend_may_need(t, backends, advice):
    """`--backend db@1` where harness.toml has db 1 and 2."""
    done = t.evidence(t.key(backend="db@1"), tape(t, "a", "b"), cases=("s/one",))
    plan = t.plan_for([done], exemptions=[t.exempt("a", backends=backends)], partial=True, versions=("1", "2"))
    judgement = t.judged(done, plan=plan)
    assert t.checks(judgement) == ["exemption/false"]
    assert advice in judgement.findings[0].message
    assert ("remove" in judgement.findings[0].message) == (advice == "remove the entry")


def test_what_did_not_happen_with_some_backends_is_not_judged_for_the_others(t):
    done = t.evidence(t.key(backend="db@1"), tape(t, "a", "b"), cases=("s/one",))
    entry = t.exempt("server", check="process/late-exit")
    plan = t.plan_for([done], exemptions=[entry], partial=True, versions=("1", "2"))
    judgement = t.judged(done, plan=plan)
    assert judgement.findings == ()
    assert ("process/late-exit", True) in {(item.check, item.own) for item in judgement.not_judged}


def test_a_late_exit_can_be_excused(t):
    late = t.evidence(t.key(), tape(t, "a", "b", ended_by="term", waited_s=5.0))
    entry = t.exempt("server", check="process/late-exit")
    judgement = t.judged(late, exemptions=[entry])
    assert judgement.findings == ()
    assert [item.check for item in judgement.excused] == ["process/late-exit"]


def test_an_excused_late_exit_that_did_not_happen_is_false(t):
    judgement = run(t, "a", "b", exemptions=[t.exempt("server", check="process/late-exit")])
    assert t.checks(judgement) == ["exemption/false"]
    assert "process/late-exit did not happen in one run" in judgement.findings[0].message


@pytest.mark.parametrize(
    ("check", "heard", "verdict"),
    [
        ("http/foreign-origin", "origin", "exemption/false"),
        ("http/foreign-origin", "host", "not judged"),
        ("http/foreign-host", "host", "exemption/false"),
        ("http/foreign-host", None, "not judged"),
        ("http/bind-all", None, "exemption/false"),
    ],
)
def test_what_only_a_probe_shows_did_not_happen_only_where_the_probe_was_answered(t, check, heard, verdict):
    """A slow start once kept the process that is probed from ever being asked, and true entries were called false."""
    probe = t.Tape("probe-1.jsonl")
    for number, word in enumerate(("origin", "host"), 1):
        probe.add(t.HttpRequest, exchange=number, method="POST", url="http://127.0.0.1:1/mcp", probe=word)
        if word == heard:
            probe.add(t.HttpResponse, exchange=number, status=403)
        probe.add(t.HttpEnded, exchange=number, how="complete" if word == heard else "refused")
    found = t.evidence(t.key(), tape(t, "a", "b"), probe.stop())
    judgement = t.judged(found, exemptions=[t.exempt("*", check=check)])
    assert t.checks(judgement) == (["exemption/false"] if verdict == "exemption/false" else [])
    assert [(item.check, item.own) for item in judgement.not_judged] == (
        [] if verdict == "exemption/false" else [(check, False)]
    )


def test_a_list_that_is_not_whole_makes_no_entry_stale(t):
    broken = t.Tape()
    broken.reply(broken.send("initialize", {}), t.hello())
    broken.reply(broken.send("tools/list", {}), error={"code": -32603, "message": "no"})
    judgement = t.judged(t.evidence(t.key(), broken.stop()), exemptions=[t.exempt("b")])
    assert t.checks(judgement) == ["exercised/list-failed"]
    assert [item.subject for item in judgement.not_judged] == ["b"]
