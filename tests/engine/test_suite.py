"""Cases: captures, retries, confirmation, cleanup. Ours."""

import pytest

from harness.engine.evidence import read_evidence
from harness.engine.mask import Masker
from harness.findings.steps import view_run
from harness.model.plan import CaptureSpec, EventuallySpec
from harness.model.transcript import Diagnostic, StepEnded, StepStarted

pytestmark = pytest.mark.anyio


def capture(name, pointer, matches=None):
    return (CaptureSpec(name=name, pointer=pointer, matches=matches),)


async def test_a_captured_value_keeps_its_type_and_goes_into_later_steps(play, make):
    steps = (
        make.call("token", capture=capture("key", "/structuredContent/key") + capture("n", "/structuredContent/n")),
        make.call("echo", {"text": "${captured.key}"}, expect={"text_equals": "${captured.key}"}),
        make.call("echo", {"text": "n=${captured.n}"}, expect={"text_matches": "^n=7$"}),
        make.call("token", {"number": "${captured.n}"}),
        make.call("token", capture=capture("word", "/$text", r"key is (\S+)\.")),
        make.call("echo", {"text": "${captured.word}"}, expect={"text_equals": "k-42"}),
    )
    played = await play("eventually", [steps])
    assert played.cases == {"case-0": "completed"}
    assert [event.arguments for event in played.of(StepStarted)][3] == {"number": 7}
    assert [event.expect for event in played.of(StepStarted)][1] == {"text_equals": "k-42"}


async def test_a_captured_value_stands_for_itself_in_a_pattern(play, make):
    steps = (
        make.call("echo", {"text": "a.(b"}, capture=capture("odd", "/$text")),
        make.call("echo", {"text": "<a.(b>"}, expect={"text_matches": "^<${captured.odd}>$"}),
    )
    assert (await play("eventually", [steps])).cases == {"case-0": "completed"}


async def test_a_capture_that_finds_nothing_ends_the_case(play, make):
    steps = (make.call("token", capture=capture("x", "/structuredContent/no")), make.call("echo", {"text": "never"}))
    played = await play("eventually", [steps])
    assert played.cases == {"case-0": "stopped"}
    (note,) = [event for event in played.of(Diagnostic) if event.what == "capture-missing"]
    assert note.detail == "x: /structuredContent/no"
    assert played.ends == ["answered"]


async def test_a_placeholder_without_value_sends_nothing(play, make):
    played = await play("eventually", [(make.call("echo", {"text": "${captured.nothing}"}),)])
    assert played.ends == ["unresolved"]
    assert not any('"tools/call"' in text for text in played.sent)


async def test_a_step_is_tried_again_until_its_expectation_holds(play, make):
    step = make.call("count", expect={"text_equals": "3"}, eventually=EventuallySpec(timeout_s=5, every_s=0.02))
    played = await play("eventually", [(step,)])
    assert played.ends == ["retried", "retried", "answered"]
    assert [event.step.attempt for event in played.of(StepEnded)] == [1, 2, 3]
    assert played.cases == {"case-0": "completed"}


async def test_a_step_is_not_tried_for_ever(play, make):
    step = make.call("count", expect={"text_equals": "no"}, eventually=EventuallySpec(timeout_s=0.2, every_s=0.05))
    played = await play("eventually", [(step,)])
    assert 2 <= len(played.ends) <= 5
    assert played.ends[-1] == "answered"
    assert played.cases == {"case-0": "stopped"}


async def test_the_first_step_that_fails_ends_the_case_and_cleanup_runs_whole(play, make):
    case = make.case(
        "fails",
        make.call("echo", {"text": "a"}, expect={"text_equals": "b"}),
        make.call("echo", {"text": "never"}),
        cleanup=(make.call("echo", {"text": "${captured.x}"}), make.call("echo", {"text": "cleaned"})),
    )
    played = await play("eventually", [case])
    assert played.cases == {"fails": "stopped"}
    assert [(event.step.phase, event.how) for event in played.of(StepEnded)] == [
        ("step", "answered"),
        ("cleanup", "unresolved"),
        ("cleanup", "answered"),
    ]


async def test_cleanup_that_kills_the_server_does_not_stop_the_rest(play, make):
    case = make.case(
        "a", make.call("echo", {"text": "x"}), cleanup=(make.call("die"), make.call("echo", {"text": "y"}))
    )
    played = await play("dies_in_call", [case, make.case("b", make.call("echo", {"text": "z"}))])
    assert played.cases == {"a": "completed", "b": "completed"}
    assert played.ends == ["answered", "died", "answered", "answered"]


async def test_a_confirmation_without_token_is_told(play, make):
    played = await play("eventually", [(make.call("echo", {"text": "no token"}, confirm=True),)])
    assert played.ends == ["no-token"]
    assert played.cases == {"case-0": "stopped"}


async def test_a_value_that_is_no_json_is_unresolved(play, make):
    played = await play("eventually", [(make.call("echo", {"text": float("inf")}),)])
    assert played.ends == ["unresolved"]


SECRET = "t9-secret-of-the-stack-0123456789"
KEPT = 300  # characters of a text that a mismatch quotes


async def test_a_mismatch_is_masked_before_it_is_cut(play, make):
    """Half a secret is no secret that could be found, and is one all the same."""
    long = "x" * (KEPT - 10) + SECRET + "y" * KEPT
    steps = [(make.call("echo", {"text": long}, expect=expect),) for expect in ({"text_equals": "no"}, {"code": 3})]
    played = await play("good", steps, masker=Masker([SECRET]))
    assert all("*" * 10 in event.detail for event in played.of(StepEnded))
    assert not any(SECRET[:6] in path.read_text() for path in played.folder.rglob("*") if path.is_file())


async def test_a_secret_in_a_pattern_is_masked_as_the_text_is(play, make, monkeypatch):
    """In a pattern a value is escaped, and asterisks have a meaning: the judge sees the same match as the engine."""
    monkeypatch.setenv("ROLLCALL_TEST_KEY", SECRET)
    steps = [
        (make.call("echo", {"text": f"<{secret}>"}, expect={"text_matches": "^<${env.ROLLCALL_TEST_KEY}>$"}),)
        for secret in ("${env.ROLLCALL_TEST_KEY}", "other")
    ]
    played = await play("good", steps)
    assert played.cases == {"case-0": "completed", "case-1": "stopped"}
    assert not any("secret-of" in path.read_text() for path in played.folder.rglob("*") if path.is_file())
    uses = view_run(played.run, read_evidence(played.folder.parents[4], played.plan).found[0]).uses
    assert [use.wrong == () for use in uses] == [True, False]
