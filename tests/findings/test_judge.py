"""The whole of it: partial runs, errors, eras, lowering, order, speed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def played(t, *called, tools=("a", "b"), name="one", **more):
    tape = t.Tape().start(tools).case(name)
    for tool in called:
        tape.step(tool)
    return tape.done().stop(**more)


def test_a_good_run_is_clean_and_counted(t):
    judgement = t.judged(t.good())
    assert judgement.findings == judgement.errors == judgement.not_judged == ()
    assert [(item.server_version, item.outcome) for item in judgement.ran] == [("1.0", "finished")]
    assert [case.status for case in judgement.cases] == ["passed"]
    assert (judgement.coverage[0].tools, judgement.coverage[0].succeeded, judgement.coverage[0].judged) == (1, 1, True)


@pytest.mark.parametrize("own", [True, False])
def test_absence_is_not_judged_where_a_run_is_missing_and_what_was_seen_is(t, own):
    noisy = t.Tape()
    noisy.raw("noise")
    noisy.start(("a", "b")).case("one").step("a").done().stop()
    done = t.evidence(t.key(), noisy)
    gap = t.NotRun(key=t.key(era="modern"), why="it was not run", own=own)
    judgement = t.judged(done, plan=t.plan_for([done], also=[gap.key]), missing=[gap])
    assert t.checks(judgement) == ["wire/stdout-not-json"]
    assert [(item.check, item.own) for item in judgement.not_judged] == [("exercised", own)]
    assert "fixture none modern plain: it was not run" in judgement.not_judged[0].why
    assert (judgement.coverage[0].judged, judgement.coverage[0].missing) == (False, 1)
    assert [(case.era, case.status) for case in judgement.cases] == [("handshake", "passed"), ("modern", "not-run")]


@pytest.mark.parametrize(
    ("outcome", "kind", "code"),
    [("failed", "stack", 5), ("failed", "server", 6), ("failed", "internal", 2), ("interrupted", "interrupted", 130)],
)
def test_errors_of_the_records_keep_their_exit_code(t, outcome, kind, code):
    error = {"kind": kind, "message": "it went wrong", "hint": "look", "log": "tail"}
    judgement = t.judged(t.evidence(t.key(), outcome=outcome, errors=(error,)), extra=[t.plain_case("one", "a")])
    assert [(item.kind, item.code, item.message, item.log) for item in judgement.errors] == [
        (kind, code, "it went wrong", "tail")
    ]
    assert judgement.findings == ()
    assert not judgement.not_judged[0].own
    assert [case.status for case in judgement.cases] == ["not-run"]


def test_an_interrupted_run_without_a_recorded_error_is_an_error_all_the_same(t):
    judgement = t.judged(t.evidence(t.key(), outcome="interrupted"))
    assert [(item.kind, item.code) for item in judgement.errors] == [("interrupted", 130)]


def test_a_torn_transcript_gives_no_finding_of_what_is_not_in_it(t):
    tape = t.Tape().start(("a", "b")).case("one")
    tape.call(tape.begin("a"), "a")
    judgement = t.judged(t.evidence(t.key(), tape, outcome="interrupted"))
    assert judgement.findings == ()
    assert [(case.status, case.message) for case in judgement.cases] == [
        ("not-run", "the run ended in the middle of it")
    ]


def test_a_probed_era_that_is_not_spoken_is_no_obstacle(t):
    spoken = t.evidence(t.key(), played(t, "a"), cases=("s/one",))
    other = t.evidence(t.key(era="modern"), outcome="not-spoken")
    judgement = t.judged(spoken, other)
    assert t.checks(judgement) == ["exercised/missing"]
    assert judgement.errors == judgement.not_judged == ()
    assert len(judgement.cases) == 1


def test_a_server_that_speaks_neither_era_is_an_error(t):
    runs = [t.evidence(t.key(era=era), outcome="not-spoken") for era in ("modern", "handshake")]
    judgement = t.judged(*runs)
    assert [(item.kind, item.code) for item in judgement.errors] == [("server", 6)]
    assert judgement.findings == ()
    assert len(judgement.not_judged) == 1


def test_a_declared_era_that_is_not_spoken_is_an_error(t):
    runs = [t.evidence(t.key(), played(t, "a", "b")), t.evidence(t.key(era="modern"), outcome="not-spoken")]
    judgement = t.judged(*runs, probed=False)
    assert [(item.kind, item.code) for item in judgement.errors] == [("server", 6)]
    assert "does not speak the era 'modern'" in judgement.errors[0].message


def test_evidence_of_other_runs_is_passed_over(t):
    stranger = t.evidence(t.key(server="stranger"), played(t, "zzz"))
    good = t.good()
    assert t.judged(good, stranger, plan=t.plan_for([good])) == t.judged(good)


def test_a_selection_of_cases_leaves_absence_to_the_user(t):
    done = t.evidence(t.key(), played(t, "a"), cases=("s/one",))
    judgement = t.judged(done, extra=[t.plain_case("two", "b")], selected=("s/one",), partial=True)
    assert judgement.findings == ()
    assert {item.own for item in judgement.not_judged} == {True}


def test_evidence_of_a_selection_of_cases_is_not_the_whole(t):
    done = t.evidence(t.key(), played(t, "a"), cases=("s/one",))
    judgement = t.judged(done, extra=[t.plain_case("two", "b")])
    assert judgement.findings == ()
    assert [item.own for item in judgement.not_judged] == [False]  # this command left nothing out
    assert [case.status for case in judgement.cases] == ["passed", "not-run"]


def test_a_lowered_family_turns_into_warnings_or_vanishes_and_is_listed_either_way(t):
    tape = t.Tape()
    tape.raw("noise")
    found = t.evidence(t.key(), tape.start().case("one").step("echo").done().stop())
    lowered = t.judged(found, checks=[("wire", "warning"), ("process", "off")])
    assert [item.severity for item in lowered.findings] == ["warning"]
    assert [(item.family, item.to, item.findings, item.line) for item in lowered.lowered] == [
        ("process", "off", 0, 12),
        ("wire", "warning", 1, 12),
    ]
    assert t.judged(found, checks=[("wire", "off")]).findings == ()


def test_a_single_check_has_a_level_of_its_own_that_goes_before_its_familys(t):
    tape = t.Tape().start().case("one").step("echo").done()
    tape.raw('{"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"a": 1, "a": 2}}')
    tape.stop(ended_by="term", waited_s=5.0)
    found = t.evidence(t.key(), tape)

    def levels(*checks):
        judgement = t.judged(found, checks=checks)
        return {item.check: item.severity for item in judgement.findings}, judgement.lowered

    usual, lowered = levels()
    assert usual == {"process/late-exit": "warning", "wire/duplicate-key": "error"}
    assert lowered == ()
    some, lowered = levels(("wire", "off"), ("wire/duplicate-key", "warning"), ("process/late-exit", "error"))
    assert some == {"process/late-exit": "error", "wire/duplicate-key": "warning"}
    assert [(item.family, item.to, item.findings) for item in lowered] == [
        ("wire", "off", 0),
        ("wire/duplicate-key", "warning", 1),
    ]


def test_the_verdict_families_cannot_be_lowered(t):
    found = t.evidence(t.key(), played(t, "a"))
    judgement = t.judged(found, checks=[("exercised", "off"), ("exemption", "off")], exemptions=[t.exempt("a")])
    assert t.checks(judgement) == ["exemption/false", "exercised/missing"]
    assert judgement.lowered == ()


def test_every_finding_says_how_to_run_it_again(t):
    tape = t.Tape().start(("a", "b")).case("one").step("a", t.failure("no")).done("stopped").stop()
    judgement = t.judged(t.evidence(t.key(), tape), exemptions=[t.exempt("zzz")])
    assert all(item.rerun.startswith("mcp-rollcall run --server fixture") for item in judgement.findings)
    assert t.one(judgement, "suite/step-failed").rerun.endswith("-k s/one")


def test_transcripts_are_taken_in_the_order_of_their_numbers(t):
    tapes = []
    for number in range(1, 12):
        tape = t.Tape(f"server-{number}.jsonl")
        tape.raw(f"noise {number}")
        tapes.append(tape.start().case(f"c{number}").step("echo").done().stop())
    found = t.one(t.judged(t.evidence(t.key(), *reversed(tapes))), "wire/stdout-not-json")
    assert [item["bytes"] for item in found.evidence["first"]] == ["'noise 1'", "'noise 2'", "'noise 3'"]


def pool(t):
    """Evidence with something of everything."""
    noisy = t.Tape()
    noisy.raw("noise one")
    noisy.start(("a", "b", "c")).case("one").step("a").step("b", t.failure("no 42")).done("stopped")
    noisy.stop(ended_by="term", waited_s=5.0, orphans=("sleep 1",))
    crashed = t.Tape().start(("a", "b", "c")).case("one").step("a")
    crashed.call(crashed.begin("b"), "b")
    crashed.done("died").stop(code=1, asked=False, stderr="boom")
    odd = t.Tape()
    odd.raw("noise two")
    odd.start(("a", "d")).case("two").step("d", t.text("Error: no")).step("x", t.failure("no")).done("stopped")
    odd.reply(1, {})
    runs = [
        t.evidence(t.key(backend="redis@7"), noisy),
        t.evidence(t.key(backend="redis@8"), crashed),
        t.evidence(t.key(backend="redis@7", era="modern"), odd.stop()),
        t.evidence(t.key(backend="redis@8", era="modern"), outcome="not-spoken"),
        t.evidence(t.key(server="other"), played(t, "a")),
    ]
    cases = tuple(dict.fromkeys(name for item in runs for name in item.record.cases))
    return [t.evidence(i.record.key, *i.transcripts, cases=cases, outcome=i.record.outcome) for i in runs]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_order_of_the_evidence_never_matters(t, data):
    """Property: any order of evidence, transcripts, gaps and entries gives the very same judgement."""
    found = pool(t)
    gone = data.draw(st.sets(st.integers(0, len(found) - 1), max_size=2))
    kept = [item for index, item in enumerate(found) if index not in gone]
    missing = [t.NotRun(key=found[index].record.key, why="gone", own=index % 2 == 0) for index in sorted(gone)]
    entries = [t.exempt("a", line=1), t.exempt("c", line=2, backends=("redis@8",)), t.exempt("zz", line=3)]
    plan = t.plan_for(found, exemptions=entries)
    first = t.judged(*kept, plan=plan, missing=missing)
    shuffled = data.draw(st.permutations(kept))
    turned = t.plan_for(found, exemptions=data.draw(st.permutations(entries)))
    again = t.judged(*shuffled, plan=turned, missing=data.draw(st.permutations(missing)))
    assert again == first


def test_a_hundred_transcripts_of_a_thousand_frames_are_judged(t):
    """As many as a fleet has; were it quadratic, the suite would not come to its end."""
    tools = [f"tool-{number}" for number in range(40)]

    def run(era, profile, calls):
        tape = t.Tape().start(tools)
        for number in range(calls // 10):
            tape.case(f"c{number}")
            for step in range(10):
                tape.step(tools[(number * 10 + step) % 40], t.text("x" * 100))
            tape.done()
        return t.evidence(t.key(era=era, profile=profile), tape.stop())

    base = run("handshake", "p", 200)
    found = [t.evidence(t.key(profile=f"p{number}"), *base.transcripts, folder=str(number)) for number in range(100)]
    plan = t.plan_for(found)
    judgement = t.judged(*found, plan=plan)
    assert judgement.findings == ()
