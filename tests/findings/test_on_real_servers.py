"""Every hostile server for real: started, driven, recorded and judged. It raises its own finding and no other."""

import asyncio
import sys
from datetime import date
from pathlib import Path

import anyio
import pytest

from harness.engine.build import Built
from harness.engine.evidence import read_evidence
from harness.engine.mask import Masker
from harness.engine.run import run_one
from harness.engine.scope import open_scope
from harness.engine.stack import Stack
from harness.findings.judge import judge
from harness.model.plan import (
    CaseSpec,
    Cell,
    ExpectSpec,
    Place,
    Plan,
    ProfileSpec,
    ProjectSpec,
    Run,
    RunKey,
    ServerSpec,
    StepSpec,
)
from harness.model.progress import Silent

SERVERS = Path(__file__).parent.parent / "servers"
LIMIT_S = 60.0


def step(tool, arguments=None, *, timeout_s=None, **expect):
    place = Place(file="suites/s.toml", line=3)
    more = {"timeout_s": timeout_s, "expect": ExpectSpec(**expect)}
    return StepSpec(action="call", target=tool, arguments=arguments or {}, place=place, **more)


def case(name, *steps):
    return ("s", CaseSpec(id=name, steps=steps, place=Place(file="suites/s.toml", line=1)))


ECHO = case("echo", step("echo", {"text": "a"}, text_equals="a"))
ANY = case("echo", step("echo", {"text": "a"}))


def one(tool, **more):
    return case(tool, step(tool, **more))


GOOD = (
    ECHO,
    case("add", step("add", {"a": 1, "b": 2}, pointer={"/structuredContent/sum": 3})),
    case("ask", step("ask", is_error=True, text_contains=("cannot ask",))),
    case("fail", step("fail", is_error=True, text_contains=("on purpose",))),
    case("guarded", step("guarded", {"key": "k"}, is_error=True, text_contains=("Call again",))),
    case("slow", step("slow", {"seconds": 0})),
)
REFUSED = ["exercised/refused-only"] * 3

# server -> cases, the ids of all findings
TABLE = {
    "good": (GOOD, REFUSED),
    "floods_stderr": ([ECHO], []),
    "shows_environment": ([one("names"), one("cwd"), case("v", step("value", {"text": "PATH"}))], []),
    "eventually": ([ECHO, one("count"), one("token")], []),
    "dies_at_start": ([ECHO], []),
    "banner": ([ECHO], ["wire/stdout-not-json"]),
    "noise": ([ECHO], ["wire/stdout-not-json"]),
    "blank_lines": ([ECHO], ["wire/stdout-not-json"]),
    "nan": ([ANY], ["wire/stdout-not-json"]),
    "content_length": ([ECHO], ["wire/framing"]),
    "not_utf8": ([ECHO], ["wire/not-utf8"]),
    "not_jsonrpc": ([ECHO], ["wire/not-jsonrpc"]),
    "batch": ([ECHO], ["wire/not-jsonrpc"]),
    "duplicate_key": ([ANY], ["wire/duplicate-key"]),
    "crlf": ([ECHO], ["wire/carriage-return"]),
    "tail_not_flushed": ([ANY], ["wire/partial-line"]),
    "partial_at_exit": ([ECHO], ["wire/partial-line"]),
    "endless_line": ([ECHO], ["wire/line-too-long"]),
    "string_id_as_number": ([ECHO], ["wire/id-mismatch"]),
    "unknown_id": ([ECHO], ["wire/unknown-id"]),
    "answers_twice": ([ECHO], ["wire/duplicate-reply"]),
    "error_with_old_id": ([ECHO], ["wire/duplicate-reply"]),
    "answers_late": ([one("late"), ECHO], ["suite/timed-out"]),
    "malformed_result": ([case("m", step("echo", {"text": "content"}))], ["wire/malformed-result"]),
    "elicits_undeclared": ([ANY], ["wire/undeclared-request"] * 3),
    "dies_in_call": ([ECHO, one("die")], ["process/crashed"]),
    "dies_on_non_ascii": ([ANY], ["process/crashed"]),
    "stdout_held_by_child": ([ECHO, one("leave")], ["process/crashed", "process/orphan"]),
    "ignores_stdin_close": ([ECHO], ["process/late-exit"]),
    "ignores_term": ([ECHO], ["process/late-exit"]),
    "launcher": ([ECHO], ["process/orphan"]),
    "daemon_child": ([ECHO], ["process/orphan"]),
    "never_answers_call": ([ECHO, one("hang")], ["suite/timed-out"]),
    "stops_reading": ([ECHO], ["wire/no-reply"]),
    "child_takes_stdin": ([ANY], ["suite/timed-out"]),
    "deep": ([ECHO, one("deep")], ["suite/step-failed"]),
    "locale_stdin": ([case("echo", step("echo", {"text": "Gerät"}, text_equals="Gerät"))], ["suite/step-failed"]),
    "looks_failed": ([ANY], ["exercised/failed-only", "exercised/looks-failed"]),
    "list_fails": ([ECHO], ["exercised/list-failed"]),
    "endless_cursor": ([ECHO], ["exercised/list-failed"]),
    "no_tools": ([], ["exercised/no-tools"]),
    "paged": ([one(f"tool_{number:02}") for number in range(53)], ["exercised/missing"]),
    "silent": ([ECHO], []),
    "array_output": ([ECHO, one("list")], ["client/refused"]),
}
# the same, in the modern era
MODERN = {
    "bad_header": ([ECHO, case("scale", step("scale", {"factor": 2}))], ["client/tool-lost"]),
    "discover_broken": ([ECHO], ["client/era-downgraded"]),
    "discover_broken only": ([ECHO], ["client/hidden-request"]),
    "wants_our_name": ([ECHO], ["client/refused"]),
}


def drive(name, cases, folder, *, era="handshake", profile=None, arguments=()):
    """The judgement of one real run of a fixture server."""
    profile = profile or ProfileSpec(name="plain")
    key = RunKey(server=name, backend="none", era=era, profile=profile.name)
    names = tuple(f"{suite}/{item.id}" for suite, item in cases)
    run = Run(
        key=key,
        roles=(),
        runtime=None,
        profile=profile,
        eras_probed=False,
        cases=tuple(cases),
        selected=names,
        fingerprint="f",
        client=True,
    )
    server = ServerSpec(
        name=name,
        command=(sys.executable, str(SERVERS / f"{name}.py"), *arguments),
        eras=(era,),
        call_timeout_s=1.0,
        start_timeout_s=3.0,
    )
    place = Place(file="harness.toml")
    project = ProjectSpec(root=folder, place=place, server=server, profiles=(profile,))
    cells = (Cell(server=name, backend="none", roles=(), runs=(run,)),)
    plan = Plan(projects=(project,), cells=cells, exemptions=(), servers=(name,))

    async def go():
        with anyio.fail_after(LIMIT_S), open_scope(folder) as scope:
            await run_one(
                run,
                project,
                built=Built(fingerprint=""),
                stack=Stack(values={}, versions={}),
                scope=scope,
                masker=Masker(),
                evidence=folder / "evidence",
                progress=Silent(),
            )

    asyncio.run(go())
    found = read_evidence(folder / "evidence", plan)
    assert found.missing == ()
    judgement = judge(plan, found.found, missing=(), today=date(2026, 12, 1), rerun=lambda run_key, name: "again")
    again = judge(plan, found.found, missing=(), today=date(2026, 12, 1), rerun=lambda run_key, name: "again")
    assert judgement == again
    return judgement


def show(judgement):
    return [(item.check, item.message) for item in judgement.findings], judgement.errors, judgement.not_judged


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_server_raises_its_own_finding_and_no_other(t, name, tmp_path):
    cases, expected = TABLE[name]
    judgement = drive(name, cases, tmp_path)
    assert sorted(item.check for item in judgement.findings) == expected, show(judgement)
    broken = name in ("dies_at_start", "silent", "content_length")
    assert [item.code for item in judgement.errors] == ([6] if broken else []), show(judgement)
    assert (judgement.not_judged != ()) is broken, show(judgement)


def test_every_fixture_server_is_driven():
    known = {path.stem for path in SERVERS.glob("*.py")} - {"raw"}
    driven = {*TABLE, *(name.partition(" ")[0] for name in MODERN)}
    assert known - driven <= {"input_loop", "malformed_unanswered"}


@pytest.mark.parametrize("name", sorted(MODERN))
def test_a_modern_server_raises_its_own_finding_and_no_other(t, name, tmp_path):
    cases, expected = MODERN[name]
    file, *arguments = name.split()
    judgement = drive(file, cases, tmp_path, era="modern", arguments=arguments)
    assert sorted(item.check for item in judgement.findings) == expected, show(judgement)
    assert (judgement.errors, judgement.not_judged) == ((), ()), show(judgement)


def test_the_good_server_is_silent_in_the_modern_era_too(t, tmp_path):
    cases = [*GOOD[:2], *GOOD[3:], case("ask", step("ask", text_contains=("accept",)))]
    profile = ProfileSpec(name="asking", elicit="accept")
    judgement = drive("good", cases, tmp_path, era="modern", profile=profile)
    assert [item.check for item in judgement.findings] == ["exercised/refused-only"] * 2, show(judgement)
    assert judgement.ran[0].protocol == "2026-07-28"


def test_a_server_that_asks_for_ever_fails_its_step(t, tmp_path):
    judgement = drive("input_loop", [ANY], tmp_path, era="modern", profile=ProfileSpec(name="asking", elicit="accept"))
    assert [item.check for item in judgement.findings] == ["suite/step-failed"], show(judgement)
    other = tmp_path / "plain"
    other.mkdir()
    judgement = drive("input_loop", [ANY], other, era="modern")
    assert [item.check for item in judgement.findings] == ["wire/undeclared-request"], show(judgement)


def test_a_cursor_that_is_new_each_time_ends_too(t, tmp_path):
    judgement = drive("endless_cursor", [ECHO], tmp_path, arguments=("new",))
    assert [item.check for item in judgement.findings] == ["exercised/list-failed"], show(judgement)
    assert "500 pages" in judgement.findings[0].message
