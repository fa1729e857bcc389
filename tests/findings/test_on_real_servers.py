"""Every hostile server for real: started, driven, recorded and judged. It raises its own finding and no other."""

import asyncio
import json
import re
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
from harness.model.checks import CHECKS
from harness.model.contract import contract_from_json
from harness.model.plan import (
    AnswerSpec,
    CaseSpec,
    Cell,
    CheckSettings,
    ExpectSpec,
    LoweredSpec,
    Place,
    Plan,
    ProfileSpec,
    ProjectSpec,
    RootSpec,
    Run,
    RunKey,
    SampleSpec,
    ServerSpec,
    StepSpec,
)
from harness.model.progress import Silent
from harness.report.build import make_report

SERVERS = Path(__file__).parent.parent / "servers"
LIMIT_S = 60.0


def step(tool, arguments=None, *, timeout_s=None, unlisted=False, cancel_after_s=None, **expect):
    place = Place(file="suites/s.toml", line=3)
    more = {"timeout_s": timeout_s, "unlisted": unlisted, "expect": ExpectSpec(**expect)}
    more["cancel_after_s"] = cancel_after_s
    return StepSpec(action="call", target=tool, arguments=arguments or {}, place=place, **more)


def case(name, *steps):
    return ("s", CaseSpec(id=name, steps=steps, place=Place(file="suites/s.toml", line=1)))


ECHO = case("echo", step("echo", {"text": "a"}, text_equals="a"))
ANY = case("echo", step("echo", {"text": "a"}))


def one(tool, **more):
    return case(tool, step(tool, **more))


OUTPUTS = (
    *("undeclared", "no_type", "null", "broken", "wrong", "odd_texts", "list_content", "bare", "contradicts"),
    *("pretty", "wrapped", "blocks", "prose", "less"),
)
UNKNOWN = ("s", CaseSpec(id="unknown", steps=(step("nope", unlisted=True, is_error=True),), place=Place(file="s.toml")))

GOOD = (
    ECHO,
    case("add", step("add", {"a": 1, "b": 2}, pointer={"/structuredContent/sum": 3})),
    case("ask", step("ask", is_error=True, text_contains=("cannot ask",))),
    case("fail", step("fail", is_error=True, text_contains=("on purpose",))),
    case("guarded", step("guarded", {"key": "k"}, is_error=True, text_contains=("Call again",))),
    case("slow", step("slow", {"seconds": 0})),
)
REFUSED = ["exercised/refused-only"] * 3
ODD_NAMES = ("Image layer report", "GET:/items", "items.list", "2fast", "x" * 65, "y" * 55, "Echo", "twice", "")
UNPORTABLE = sorted(check.partition("/")[2] for check in CHECKS if check.startswith("portability/"))
DOUBLED = 27  # references to definitions in the tool whose references multiply

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
    "dies_on_non_ascii": ([ANY], ["process/crashed", "wire/locale"]),
    "stdout_held_by_child": ([ECHO, one("leave")], ["process/crashed", "process/orphan"]),
    "ignores_stdin_close": ([ECHO], ["process/late-exit"]),
    "ignores_term": ([ECHO], ["process/late-exit"]),
    "launcher": ([ECHO], ["process/orphan"]),
    "daemon_child": ([ECHO], ["process/orphan"]),
    "never_answers_call": ([ECHO, one("hang")], ["suite/timed-out"]),
    "stops_reading": ([ECHO, case("again", step("echo", {"text": "b"}))], ["suite/timed-out"]),
    "child_takes_stdin": ([ANY], ["suite/timed-out"]),
    "deep": ([ECHO, one("deep")], []),
    "locale_stdin": (
        [case("echo", step("echo", {"text": "Gerät"}, text_equals="Gerät"))],
        ["suite/step-failed", "wire/locale"],
    ),
    "looks_failed": ([ANY], ["exercised/failed-only", "exercised/looks-failed"]),
    "list_fails": ([ECHO], ["exercised/list-failed"]),
    "endless_cursor": ([ECHO], ["exercised/list-failed"]),
    "no_tools": ([ECHO, one("add")], ["exercised/no-tools"]),
    "glued": ([ECHO], ["wire/stdout-not-json"]),
    "byte_order_mark": ([ECHO], ["wire/stdout-not-json"]),
    "unknown_tool": ([ECHO, UNKNOWN], []),
    "empty_cursor": ([ECHO], ["wire/empty-cursor"]),
    "costly_to_validate": ([ECHO], ["exercised/missing"] * 3),
    "answers_as_another": ([ECHO], ["wire/unknown-id"]),
    "paged": ([one(f"tool_{number:02}") for number in range(53)], ["exercised/missing", "names/too-many"]),
    "silent": ([ECHO], []),
    "future_version": ([ECHO], []),
    "naive": ([ECHO], []),
    "streaming": ([ECHO], []),
    "stray_on_bad_line": ([ECHO], ["wire/stdout-not-json"]),
    "takes_zero_for_none": ([ECHO], ["wire/no-reply"]),
    "ends_after_answer": ([ECHO, case("again", step("echo", {"text": "b"}, text_equals="b"))], ["process/crashed"]),
    "daemon_cleared": ([ECHO], ["process/orphan"]),
    "child_reads_to_the_end": ([ANY], ["suite/timed-out"]),
    "drifted": ([ECHO, one("search")], []),
    "unportable": (
        [ECHO, *map(one, UNPORTABLE)],
        sorted(
            [
                "client/refused",
                *(f"portability/{rule}" for rule in UNPORTABLE),
                *["portability/local-ref"] * (1 + DOUBLED),
            ]
        ),
    ),
    "invalid_schemas": (
        [ECHO, *map(one, ("bare", "typo", "draft_03", "draft_04", "no_pattern", "deep"))],
        [
            "client/refused",
            "validity/input-schema",
            "validity/pattern",
            "validity/schema",
            "validity/schema",
            "validity/schema",
            "validity/too-deep",
        ],
    ),
    "odd_names": (
        [ECHO, *map(one, (*ODD_NAMES, *(f"tool_{number:02}" for number in range(32))))],
        [
            "names/characters",
            "names/characters",
            "names/characters",
            "names/characters",
            "names/duplicate",
            "names/empty",
            "names/length",
            "names/look-alike",
            "names/prefixed-length",
            "names/too-many",
        ],
    ),
    "array_output": ([ECHO, one("list")], ["client/refused", "output-schema/root"]),
    "output_of_every_kind": (
        [*map(one, OUTPUTS), case("error", step("error", is_error=True, text_contains=("late",)))],
        [
            "client/refused",
            "exercised/refused-only",
            "output-schema/invalid",
            *["output-schema/mismatch"] * 3,
            "output-schema/missing",
            "output-schema/no-structured",
            "output-schema/root",
            "output-schema/root",
            "output-schema/text-disagrees",
        ],
    ),
    "ends_badly": ([ECHO], ["process/bad-exit"]),
    "ends_badly signal": ([ECHO], ["process/bad-exit"]),
    "bad_handshake capabilities": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake tools": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake info": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake name": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake version": ([ECHO], ["wire/malformed-result"]),
    "trickles": ([ANY], ["suite/timed-out"]),
    "malformed_unanswered": ([ECHO], ["wire/no-reply"] * 3),
    "malformed_unanswered params": ([ECHO], ["wire/no-reply"]),
    "malformed_unanswered schema": ([ECHO], []),
    "malformed_unanswered tool": ([ECHO], ["wire/no-reply"]),
    "malformed_unanswered ends": ([ECHO], ["wire/dead-after-odd-request"]),
    "capabilities_untrue": ([ECHO], ["wire/capability-lie"] * 4),
    "capabilities_untrue fails": ([ECHO], ["wire/capability-lie", "wire/malformed-result"]),
    "order_by_hash": ([ECHO], ["exercised/missing"] * 11 + ["wire/list-order"]),
    "reads_slowly": ([case("long", step("echo", {"text": "x" * 3_000_000}))], ["suite/timed-out"]),
}
# the same, in the modern era
MODERN = {
    "bad_handshake capabilities": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake versions": ([ECHO], ["wire/malformed-result"]),
    "bad_handshake kind": ([ECHO], ["wire/malformed-result"]),
    "bad_header": ([ECHO, case("scale", step("scale", {"factor": 2}))], ["client/tool-lost"]),
    "discover_broken": ([ECHO], ["client/era-downgraded"]),
    "discover_broken only": ([ECHO], ["client/hidden-request"]),
    "wants_our_name": ([ECHO], ["client/refused"]),
}


# what a client can be asked for, and what it answers
WHOLE = ProfileSpec(
    name="asking",
    elicit="accept",
    elicit_modes=("form", "url"),
    answers=(AnswerSpec(message="^Sure", tool="confirm", fields=("confirm",), content={"confirm": True}),),
    sampling=(SampleSpec(message="capital", text="Paris"),),
    roots=(RootSpec(uri="file://${tmp}"),),
)
FORMS = ProfileSpec(name="forms", elicit="accept")
TOLD = ProfileSpec(name="told", log_level="info", progress=True)
PLAIN = ProfileSpec(name="plain")
PROFILES = {item.name: item for item in (WHOLE, FORMS, TOLD, PLAIN)}
FILLED = ('"ratio": 1', '"tags": ["a", "b"]', '"count": 4', '"color": "red"', '"size": "l"', '"sizes": ["s"]')
ASKS = [
    ECHO,
    case("form", step("form", text_contains=FILLED, prompts=("Tell me all",))),
    case("url", step("url", text_equals='{"action": "accept"}', prompts=("Log in",))),
    case("sample", step("sample", text_contains=("Paris", "scripted"), prompts=())),
    case("roots", step("roots", text_contains=("file:///",))),
    case("confirm", step("confirm", text_contains=('{"confirm": true}',), prompts=("Sure?",))),
]
CANNOT = [
    ECHO,
    *(
        case(f"no-{tool}", step(tool, is_error=True, text_contains=("cannot",), prompts=()))
        for tool in ("url", "sample")
    ),
    *map(one, ("form", "confirm")),
    case("no-roots", step("roots", is_error=True, text_contains=("cannot",))),
]
WRONG = {
    "default": "elicit-schema",
    "empty": "elicit-empty",
    "format": "elicit-schema",
    "list": "elicit-schema",
    "mode": "malformed-request",
    "nested": "elicit-schema",
    "no_message": "malformed-request",
    "no_schema": "malformed-request",
    "no_tokens": "malformed-request",
    "no_url": "malformed-request",
    "ref": "elicit-schema",
    "secret": "elicit-secret",
}
UNASKED = [ECHO, *map(one, ("form", "url", "sample", "roots", "confirm"))]
WORK = [ECHO, one("work")]
DELETE = [ECHO, case("delete", step("delete", {"path": "a"}, text_contains=("deleted",), prompts=("Delete it?",)))]
SLOW = [case("slow", step("slow", cancel_after_s=0.1)), case("then", step("echo", {"text": "a"}, text_equals="a"))]
# server and arguments, profile -> cases, what is found; in both eras
ASKING = {
    ("asks", "asking"): (ASKS, []),
    ("asks", "forms"): (CANNOT, ["exercised/refused-only"] * 3),
    ("asks broken", "asking"): ([ECHO, *map(one, WRONG)], sorted(f"wire/{check}" for check in WRONG.values())),
    ("asks undeclared", "forms"): (UNASKED, ["wire/undeclared-request"] * 3),
    ("notifies", "told"): (WORK, []),
    ("notifies", "plain"): (WORK, []),
    ("notifies early_token", "plain"): (WORK, ["wire/progress-token"]),
    ("notifies early_token", "told"): (WORK, ["wire/progress-token"]),
    ("notifies late", "told"): (WORK, ["wire/late-progress"]),
    ("notifies falls", "told"): (WORK, ["wire/progress-order"]),
    ("notifies no_number", "told"): (WORK, ["wire/malformed-notification"]),
    ("notifies no_data", "told"): (WORK, ["wire/malformed-notification"]),
    ("notifies level", "told"): (WORK, ["wire/malformed-notification"]),
    ("notifies always", "plain"): (WORK, ["wire/undeclared-log"]),
    ("minds_notifications", "plain"): ([ECHO], ["wire/notification-not-ignored"]),
    ("minds_notifications ends", "plain"): ([ECHO], ["wire/notification-not-ignored"]),
    ("cancels", "plain"): (SLOW, ["exercised/failed-only"]),
    ("cancels answers", "plain"): (SLOW, ["exercised/failed-only"]),
    ("cancels twice", "plain"): (SLOW, ["exercised/failed-only", "wire/duplicate-reply"]),
    ("cancels dies", "plain"): (SLOW, ["process/crashed"]),
    ("cancels deaf", "plain"): (SLOW, ["wire/dead-after-cancel"]),
}
# the same, in the modern era only
STATES = {
    "keeps_state": [],
    "keeps_state reusable": [("wire/request-state-replayed", "warning")],
    "keeps_state plain": [],
    "keeps_state trusting": [("wire/request-state-changed", "error")],
    "keeps_state parsing": [("wire/request-state-changed", "warning")],
    "keeps_state unread": [],
    "keeps_state ignored": [],
    "asks pushed": [("wire/pushed-request", "error")] * 5,
    "asks mute": [("wire/malformed-request", "error")],
}


def drive(
    name,
    cases,
    folder,
    *,
    era="handshake",
    profile=None,
    arguments=(),
    checks=(),
    contract=None,
    url="",
    headers=(),
    call_timeout_s=None,
    start_timeout_s=None,
    closer=True,
    env=None,
    **settings,
):
    """The judgement of one real run of a fixture server, over HTTP where there is a URL."""
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
        client=closer,
    )
    server = ServerSpec(
        name=name,
        command=(sys.executable, str(SERVERS / f"{name}.py"), *arguments),
        eras=(era,),
        env=env or {},
        call_timeout_s=call_timeout_s or (10.0 if url else 1.0),
        start_timeout_s=start_timeout_s or (20.0 if url else 3.0),
        transport="http" if url else "stdio",
        url=url,
        headers=dict(headers),
    )
    place = Place(file="harness.toml")
    lowered = tuple(LoweredSpec(family=family, to=to, place=place) for family, to in checks)
    project = ProjectSpec(
        root=folder,
        place=place,
        server=server,
        profiles=(profile,),
        checks=CheckSettings(lowered=lowered, **settings),
        contract=contract,
    )
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
                probe=closer and plan.is_first(key),
                states=plan.is_first(key, of_profile=True),
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
    file, *arguments = name.split()
    judgement = drive(file, cases, tmp_path, arguments=arguments)
    assert sorted(item.check for item in judgement.findings) == expected, show(judgement)
    broken = name in ("dies_at_start", "silent", "content_length", "future_version", "bad_handshake version")
    assert [item.code for item in judgement.errors] == ([6] if broken else []), show(judgement)
    assert (judgement.not_judged != ()) is (broken or name == "deep"), show(judgement)


def test_every_fixture_server_is_driven():
    known = {path.stem for path in SERVERS.glob("*.py")} - {
        "raw",
        "bytes",
        "open_inputs",
        "over_http",
        "progresses",
        "untrue_hints",
        "sdk_asks",
        "reads_env",
    }
    asked = (*(name for name, _ in ASKING), *STATES)
    driven = {name.partition(" ")[0] for name in (*TABLE, *MODERN, *asked)}
    assert known - driven <= {"input_loop"}


@pytest.mark.parametrize("name", sorted(MODERN))
def test_a_modern_server_raises_its_own_finding_and_no_other(t, name, tmp_path):
    cases, expected = MODERN[name]
    file, *arguments = name.split()
    judgement = drive(file, cases, tmp_path, era="modern", arguments=arguments)
    assert sorted(item.check for item in judgement.findings) == expected, show(judgement)
    assert (judgement.errors, judgement.not_judged) == ((), ()), show(judgement)


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize(("name", "profile"), ASKING)
def test_a_server_that_asks_or_tells_raises_its_own_finding_and_no_other(t, name, profile, era, tmp_path):
    cases, expected = ASKING[name, profile]
    file, *arguments = name.split()
    judgement = drive(file, cases, tmp_path, era=era, profile=PROFILES[profile], arguments=arguments)
    assert sorted(item.check for item in judgement.findings) == expected, show(judgement)
    assert (judgement.errors, judgement.not_judged) == ((), ()), show(judgement)
    failed = {item.case for item in judgement.cases if item.status != "passed"}
    assert failed <= {"slow", "mode", "no_tokens", "no_url"} | (
        {"url", "sample", "roots"} if "undeclared" in name else set()
    )


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_server_of_the_official_sdk_asks_in_both_eras_and_is_silent(t, era, tmp_path):
    asked = {"prompts": ("What will it be?",), "text_contains": ("1 small for xx",)}
    pushed = {"prompts": ("And now?",), "text_contains": ("accept small",)}
    refused = {"is_error": True, "text_contains": ("no back-channel",), "prompts": ()}
    cases = [
        case("buy", step("buy", **asked)),
        case("push", step("push", **(pushed if era == "handshake" else refused))),
        one("work"),
    ]
    profile = ProfileSpec(name="asking", elicit="accept", log_level="info", progress=True)
    judgement = drive("sdk_asks", cases, tmp_path, era=era, profile=profile, start_timeout_s=60.0, call_timeout_s=30.0)
    found = [(item.check, item.tool) for item in judgement.findings]
    assert found == ([] if era == "handshake" else [("exercised/refused-only", "push")]), show(judgement)
    (attempt,) = tmp_path.glob("evidence/sdk_asks/none/*/asking/*/")
    assert (attempt / "probe-2.jsonl").exists() is (era == "modern")


@pytest.mark.parametrize("name", STATES)
def test_a_request_state_that_is_believed_is_found_and_no_other(t, name, tmp_path):
    file, *arguments = name.split()
    cases = {"keeps_state": DELETE, "asks mute": [ECHO, one("no_reason")]}.get(file if file != "asks" else name, ASKS)
    judgement = drive(file, cases, tmp_path, era="modern", profile=WHOLE, arguments=arguments)
    assert sorted((item.check, item.severity) for item in judgement.findings) == STATES[name], show(judgement)
    assert (judgement.errors, judgement.not_judged) == ((), ()), show(judgement)


def test_output_schemas_and_results_that_disagree_are_told_with_pointers(t, tmp_path):
    judgement = drive("output_of_every_kind", TABLE["output_of_every_kind"][0], tmp_path)
    said = {(item.check, item.tool): item for item in judgement.findings}

    def found(rule, tool):
        item = said[f"output-schema/{rule}", tool]
        return item.severity, item.pointer, item.message.partition(": ")[2]

    assert found("invalid", "broken")[:2] == ("error", "/required")
    assert found("root", "no_type")[2].startswith("the root of outputSchema has no type, only anyOf; up to revision")
    assert found("root", "null")[2].startswith("outputSchema is null, and must be a JSON object")
    pointer = "/items/0/id"
    assert found("mismatch", "wrong") == ("error", pointer, "/items/0/id: \"7\" is not of type 'integer'")
    assert said["output-schema/mismatch", "wrong"].evidence["violations"] == [
        {"case": "s/wrong", "pointer": pointer, "says": "\"7\" is not of type 'integer'", "value": '"7"', "results": 2}
    ]
    assert found("mismatch", "odd_texts")[::2] == ("warning", "/items/0/at: '2026-12-01 10:00' is no date-time")
    assert "(2025-11-25 is in force)" in found("mismatch", "list_content")[2]
    assert found("text-disagrees", "contradicts")[2] == "/b: the text has 2, the structured content 3"
    assert "(1 of 1 results)" in said["output-schema/no-structured", "bare"].message


def test_the_good_server_is_silent_in_the_modern_era_too(t, tmp_path):
    cases = [*GOOD[:2], *GOOD[3:], case("ask", step("ask", text_contains=("accept",)))]
    profile = ProfileSpec(name="asking", elicit="accept")
    judgement = drive("good", cases, tmp_path, era="modern", profile=profile)
    assert [item.check for item in judgement.findings] == ["exercised/refused-only"] * 2, show(judgement)
    assert judgement.ran[0].protocol == "2026-07-28"


def test_what_input_schemas_leave_open_is_told_only_where_it_is_asked_for(t, tmp_path):
    tools = [one(name) for name in ("undescribed", "loose", "fine", "list_all", "search_some")]
    judgement = drive("open_inputs", tools, tmp_path)
    assert judgement.findings == (), show(judgement)
    (tmp_path / "all").mkdir()
    judgement = drive("open_inputs", tools, tmp_path / "all", checks=[("strict", "error")])
    assert {(item.check.removeprefix("strict/"), item.tool): item.severity for item in judgement.findings} == {
        ("additional-properties", "loose"): "error",
        ("bounded-arrays", "loose"): "warning",
        ("bounded-numbers", "loose"): "warning",
        ("bounded-numbers", "search_some"): "warning",
        ("bounded-strings", "loose"): "warning",
        ("descriptions", "undescribed"): "error",
        ("descriptions", "loose"): "error",
        ("enum-in-prose", "loose"): "warning",
        ("page-limit", "list_all"): "warning",
        ("page-limit", "search_some"): "warning",
        ("required", "loose"): "warning",
    }
    (tmp_path / "one").mkdir()
    judgement = drive("open_inputs", tools, tmp_path / "one", checks=[("strict/page-limit", "error")])
    assert {item.severity for item in judgement.findings} == {"error"}
    assert {item.check for item in judgement.findings} == {"strict/page-limit"}


def test_parameters_that_no_call_used_are_a_finding_where_they_must_be_used(t, tmp_path):
    cases = [ECHO, *GOOD[1:]]
    judgement = drive("good", cases, tmp_path)
    (cell,) = judgement.coverage
    assert (cell.parameters_used, cell.parameters) == (5, 6)
    assert {item.tool: item.unused for item in cell.by_tool if item.unused} == {"guarded": ("confirm_token",)}
    (tmp_path / "all").mkdir()
    judgement = drive("good", cases, tmp_path / "all", parameters="require")
    (found,) = [item for item in judgement.findings if item.check == "parameters/missing"]
    assert (found.tool, found.evidence["unused"]) == ("guarded", ["confirm_token"])
    (tmp_path / "guarded").mkdir()
    confirmed = ("s", CaseSpec(id="c", steps=(step("guarded", {"key": "k", "confirm_token": "x"}, is_error=True,
                 text_contains=("again",)),), place=Place(file="s.toml")))  # fmt: skip
    judgement = drive("good", [*cases, confirmed], tmp_path / "guarded", parameters="require")
    assert sorted(item.check for item in judgement.findings) == REFUSED, show(judgement)


def test_hints_that_are_missing_or_none_or_belied_are_told(t, tmp_path):
    saw = case(
        "saw", step("notes"), step("look_at", {"text": "a new note"}), step("notes", text_contains=("new note",))
    )
    cases = [saw, *map(one, ("delete_all", "half", "text_hint", "remove_some", "destroy_copy", "get_deleted", "both"))]
    judgement = drive("untrue_hints", cases, tmp_path)
    assert {
        (item.check.partition("/")[2], item.tool): item.severity
        for item in judgement.findings
        if item.check.startswith("annotation/")
    } == {
        ("contradicted", "look_at"): "error",
        ("contradicted", "delete_all"): "error",
        ("contradicted", "remove_some"): "warning",
        ("contradicted", "destroy_copy"): "warning",
        ("contradicted", "both"): "warning",
        ("missing", "half"): "warning",
        ("malformed", "text_hint"): "error",
    }, show(judgement)
    (shown,) = [item for item in judgement.findings if item.tool == "look_at"]
    assert "a call of it changed what notes answers: 'a new note' stands in it now" in shown.message


@pytest.mark.parametrize(("tokens", "told"), [(1, True), (100_000, False)])
def test_a_list_of_tools_over_its_budget_is_a_finding(t, tmp_path, tokens, told):
    judgement = drive("good", GOOD, tmp_path, tokens=tokens)
    assert ("tokens/over-budget" in [item.check for item in judgement.findings]) is told


def test_the_good_server_leaves_nothing_open(t, tmp_path):
    judgement = drive("good", GOOD, tmp_path, checks=[("strict", "error")])
    assert sorted(item.check for item in judgement.findings) == REFUSED, show(judgement)


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


def only(judgement, check):
    assert [item.check for item in judgement.findings] == [check], show(judgement)
    return judgement.findings[0]


def test_odd_requests_and_text_that_is_not_ascii_are_told_with_what_was_sent(t, tmp_path):
    for name, arguments, profile in (("odd", (), PLAIN), ("schema", ("schema",), PLAIN), ("dies", (), PLAIN)):
        (tmp_path / name).mkdir()
        server = "dies_on_non_ascii" if name == "dies" else "malformed_unanswered"
        strict = [("strict/no-request-unanswered", "error")] if name == "schema" else []
        judgement = drive(server, [ANY], tmp_path / name, arguments=arguments, profile=profile, checks=strict)
        said = {item.message.partition(" (id")[0]: item for item in judgement.findings}
        if name == "dies":
            (found,) = [item for item in judgement.findings if item.check == "wire/locale"]
            assert "ends the server where the locale is not UTF-8 (LC_ALL=C PYTHONUTF8=0)" in found.message
            assert "UnicodeEncodeError" in found.message
            continue
        what = ["a request whose method is an empty list", "a request whose params are the number 5"]
        assert sorted(said) == [*what, *(["a tools/call whose arguments are a text"] if name == "odd" else [])]
        assert '"params": 5' in said[what[1]].evidence["sent"]
        assert {item.check for item in judgement.findings} == {
            "wire/no-reply" if name == "odd" else "strict/no-request-unanswered"
        }


def test_a_secret_of_the_environment_in_an_answer_is_told_and_what_a_call_brought_is_not(t, tmp_path):
    secret = "tell-nobody-4711"
    cases = [one("names"), one("cwd"), case("v", step("value", {"text": "API_TOKEN"}))]
    judgement = drive("shows_environment", cases, tmp_path, env={"API_TOKEN": secret})
    found = only(judgement, "process/secret-told")
    assert (found.tool, secret in str(found), "*" * len(secret) in found.message) == ("value", False, True)
    (tmp_path / "given").mkdir()
    given = case("g", step("echo", {"text": secret}))
    judgement = drive("good", [*GOOD, given], tmp_path / "given", env={"API_TOKEN": secret})
    assert sorted(item.check for item in judgement.findings) == REFUSED, show(judgement)


def test_the_judged_server_is_never_sent_a_line_that_is_no_json(t, tmp_path):
    """P01c: it would die of it, and its late exit would not be seen."""
    found = only(drive("naive", [ECHO], tmp_path, arguments=("thread",)), "process/late-exit")
    assert found.evidence["ended_by"] == "term"
    (probe,) = tmp_path.rglob("probe-1.jsonl")
    assert "no JSON" in probe.read_text()
    (judged,) = tmp_path.rglob("server-1.jsonl")
    assert "no JSON" not in judged.read_text()


def test_a_wrong_reply_to_a_line_that_is_no_json_names_the_request_whose_id_it_bears(t, tmp_path):
    found = only(drive("error_with_old_id", [ECHO], tmp_path), "wire/duplicate-reply")
    assert "a second reply to ping (the answer to a line that is no JSON has the id null)" in found.message


@pytest.mark.parametrize(
    ("how", "check", "said"),
    [
        (
            "silent",
            "wire/no-reply",
            "tools/list (id 0) was never answered, though the server lived on; it was sent with",
        ),
        ("null", "wire/id-mismatch", "sent 0 (number), got null"),
        ("omit", "wire/not-jsonrpc", "a result without id, sent 0 (number)"),
    ],
)
def test_a_server_that_takes_zero_for_no_id_is_told_so_and_tested_all_the_same(t, how, check, said, tmp_path):
    judgement = drive("takes_zero_for_none", [ECHO], tmp_path, arguments=(how,))
    assert said in only(judgement, check).message
    assert [item.status for item in judgement.cases] == ["passed"]
    assert judgement.errors == ()


def test_the_end_of_a_server_after_an_answer_is_not_blamed_on_the_next_call(t, tmp_path):
    cases = [case(f"c{number}", step("echo", {"text": "a"}, text_equals="a")) for number in range(20)]
    judgement = drive("ends_after_answer", cases, tmp_path)
    found = only(judgement, "process/crashed")
    assert found.message == "the server ended by itself after tools/call echo: exit code 5; stderr is empty"
    assert {item.status for item in judgement.cases} == {"passed"}


def test_children_that_hold_the_servers_stdin_are_named_when_the_time_is_over(t, tmp_path):
    found = only(drive("child_reads_to_the_end", [ANY], tmp_path), "suite/timed-out")
    assert "running under the server, with the server's stdin as theirs: 'cat' (" in found.message
    assert "stdin=DEVNULL" in found.message
    both = "; the answer came as soon as notifications/cancelled had been sent and the server's stdin closed"
    assert found.message.endswith(both)
    assert found.evidence["told"].startswith("notifications/cancelled was sent")
    (tmp_path / "line").mkdir()
    found = only(drive("child_takes_stdin", [ANY], tmp_path / "line"), "suite/timed-out")
    assert found.message.endswith((both, "; the answer came as soon as notifications/cancelled was sent"))


def test_what_we_cut_is_not_blamed_on_the_server(t, tmp_path):
    """An answer that was coming when its time was over, and the end of a request that was never read."""
    for name, text, words in (
        ("trickles", "a", "an answer was still coming"),
        ("reads_slowly", "x" * 3_000_000, "the server was still reading the request"),
    ):
        (tmp_path / name).mkdir()
        found = only(drive(name, [case("c", step("echo", {"text": text}))], tmp_path / name), "suite/timed-out")
        assert found.message == f"s/c, step 1, call echo: no answer within 1 s; {words}"


def test_a_hanging_call_without_children_is_told_nothing_of_children(t, tmp_path):
    found = only(drive("never_answers_call", [ECHO, one("hang")], tmp_path), "suite/timed-out")
    assert found.message == "s/hang, step 1, call hang: no answer within 1 s"
    assert found.evidence["told"].startswith("notifications/cancelled was sent")


def test_an_unknown_protocol_version_says_what_we_speak_and_that_nothing_was_tested(t, tmp_path):
    (error,) = drive("future_version", [ECHO], tmp_path).errors
    assert "'2031-01-01'" in error.message
    assert "2025-11-25, 2025-06-18" in error.message
    assert "was not tested" in error.message


def test_text_glued_to_a_reply_is_one_finding_and_explains_the_failed_case(t, tmp_path):
    judgement = drive("glued", [ECHO], tmp_path)
    found = only(judgement, "wire/stdout-not-json")
    assert "other text stands before a reply" in found.message
    assert "Listening on stdio...{" in found.message
    (result,) = judgement.cases
    assert (result.status, "see wire/stdout-not-json" in result.message) == ("failed", True)


def test_text_glued_to_the_first_reply_explains_why_there_was_none(t, tmp_path):
    judgement = drive("glued", [ECHO], tmp_path, arguments=("initialize",))
    only(judgement, "wire/stdout-not-json")
    (error,) = judgement.errors
    assert "wire/stdout-not-json" in error.hint


def test_text_glued_to_the_list_is_one_finding(t, tmp_path):
    only(drive("glued", [ECHO], tmp_path, arguments=("tools/list",)), "wire/stdout-not-json")


def test_a_byte_order_mark_is_one_finding_and_the_rest_is_tested(t, tmp_path):
    judgement = drive("byte_order_mark", [ECHO], tmp_path)
    assert "a byte order mark" in only(judgement, "wire/stdout-not-json").message
    assert [(item.status, judgement.coverage[0].succeeded) for item in judgement.cases] == [("passed", 1)]


def test_calls_of_a_server_without_tools_say_nothing_of_their_own(t, tmp_path):
    judgement = drive("no_tools", [ECHO, one("add")], tmp_path)
    only(judgement, "exercised/no-tools")
    assert [item.status for item in judgement.cases] == ["failed", "failed"]


@pytest.mark.parametrize(("level", "severity"), [("warning", "warning"), ("error", "error")])
def test_an_unknown_tool_that_is_an_is_error_result_is_told_to_those_who_ask(t, level, severity, tmp_path):
    judgement = drive("unknown_tool", [ECHO, UNKNOWN], tmp_path, checks=[("strict", level)])
    found = only(judgement, "strict/unknown-tool-is-error")
    assert (found.severity, found.tool, judgement.lowered) == (severity, "nope", ())
    assert "'Unknown tool: nope'" in found.message
    assert "-32602" in found.message
    assert {item.status for item in judgement.cases} == {"passed"}


def test_an_unknown_tool_that_is_a_json_rpc_error_is_right(t, tmp_path):
    judgement = drive("unknown_tool", [ECHO, UNKNOWN], tmp_path, arguments=("error",), checks=[("strict", "error")])
    assert judgement.findings == ()


@pytest.mark.parametrize("expect", [{}, {"is_error": True}])
def test_an_unknown_tool_that_succeeds_is_one_finding_whatever_the_step_expects(t, expect, tmp_path):
    unknown = case("unknown", step("nope", unlisted=True, **expect))
    judgement = drive("unknown_tool", [ECHO, unknown], tmp_path, arguments=("success",))
    found = only(judgement, "exercised/unknown-succeeded")
    assert (found.severity, found.tool) == ("error", "nope")
    assert [item.status for item in judgement.cases] == ["passed", "failed"]


def test_an_expectation_over_its_bounds_is_not_judged_and_never_green(t, tmp_path):
    node = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    branch = {"type": "object", "properties": {"n": node}}
    schema = {**node, "$defs": {"a": {**branch, "required": ["x"]}, "b": {**branch, "required": ["y"]}}}
    pattern = {"properties": {"s": {"pattern": "^(a|a)*$"}}}
    cases = [
        ECHO,
        case("branches", step("branches", schema=schema), step("echo", {"text": "a"})),
        case("pattern", step("pattern", schema=pattern)),
        one("deep"),
    ]
    judgement = drive("costly_to_validate", cases, tmp_path)
    assert judgement.findings == (), show(judgement)
    assert [item.status for item in judgement.cases] == ["passed", "not-judged", "not-judged", "not-judged"]
    assert [item.own for item in judgement.not_judged] == [False] * 3
    for item, words in zip(
        judgement.not_judged, ("validation steps", "took over 1 s", "nested too deeply"), strict=True
    ):
        assert words in item.why
    report = make_report(judgement, today="2026-12-01")
    assert (report.verdict, report.exit) == ("partial", 3)


@pytest.mark.parametrize(
    ("how", "check"), [("null", "wire/unknown-id"), ("far", "wire/unknown-id"), ("true", "wire/not-jsonrpc")]
)
def test_a_reply_with_a_wrong_id_is_one_finding_and_explains_the_failed_case(t, how, check, tmp_path):
    judgement = drive("answers_as_another", [ECHO], tmp_path, arguments=(how,))
    only(judgement, check)
    assert [item.status for item in judgement.cases] == ["failed"]


def test_an_id_that_is_the_same_number_is_the_same_id(t, tmp_path):
    judgement = drive("answers_as_another", [ECHO], tmp_path, arguments=("float",))
    only(judgement, "client/refused")  # no rule of the wire's is broken; the official client takes it for no reply
    assert [item.status for item in judgement.cases] == ["passed"]
    (tmp_path / "string").mkdir()
    only(drive("answers_as_another", [ECHO], tmp_path / "string", arguments=("string",)), "wire/id-mismatch")


def kept():
    """The contract that tests/servers/drifted.py keeps if it is told nothing."""
    path = SERVERS / "drifted.contract.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    return contract_from_json(data, place=Place(file="contract.json"), lines={("tool", "search"): 30})


@pytest.mark.parametrize("how", ["kept", "cosmetic"])
def test_a_server_that_keeps_its_contract_is_told_nothing(t, how, tmp_path):
    judgement = drive("drifted", [ECHO, one("search")], tmp_path, arguments=(how,), contract=kept())
    assert [item for item in judgement.findings if item.check.startswith("contract/")] == [], show(judgement)
    assert judgement.not_judged == ()


@pytest.mark.parametrize(
    ("how", "check", "said"),
    [
        ("breaking", "contract/breaking", "order: a parameter became required"),
        ("unknown", "contract/unknown", "query: format added"),
        ("additive", "contract/additive", "a parameter was added: limit"),
        ("routing", "contract/routing", "description of the tool search changed"),
        ("renamed", "contract/breaking", "the tool search is now called search_notes"),
        ("gone", "contract/breaking", "the tool search is in the contract and is not listed"),
        ("more", "contract/additive", "the tool count is listed and is not in the contract"),
    ],
)
def test_a_server_that_drifts_from_its_contract_is_told_how(t, how, check, said, tmp_path):
    judgement = drive("drifted", [ECHO], tmp_path, arguments=(how,), contract=kept())
    (found,) = [item for item in judgement.findings if item.check.startswith("contract/")]
    assert (found.check, found.severity, found.file) == (check, "error", "contract.json")
    assert said in found.message
    assert f"mcp-rollcall tools accept --tool {found.tool} --reason" in found.message


def test_what_is_cut_says_where_all_of_it_is(t, tmp_path):
    judgement = drive("good", [case("echo", step("echo", {"text": "x" * 400_000}, text_equals="y"))], tmp_path)
    found = next(item for item in judgement.findings if item.check == "suite/step-failed")
    said = re.search(r"… \(1,000 of 400,000 bytes; all of it in the evidence: (\S+)\)$", found.evidence["answer"])
    assert said
    assert (tmp_path / "evidence" / said[1]).read_bytes().count(b"x") >= 400_000
    assert str(tmp_path) not in str(found)


# --- over HTTP ---------------------------------------------------------------------------------

URL = "http://127.0.0.1:${port}/mcp"
AGAIN = case("again", step("echo", {"text": "b"}, text_equals="b"))
TALK = case("talk", step("talk", text_equals="done"))
CLOSE = case("close", step("close", text_equals="resumed"))
HANG = case("hang", step("hang", timeout_s=0.3))

# twists -> cases, the ids of all findings but those of tools that were not called
OVER_HTTP = {
    "": ([ECHO, AGAIN, TALK, CLOSE], []),
    "stateless": ([ECHO], []),
    "no-delete": ([ECHO], []),
    "no-stream": ([ECHO], []),
    "slow-to-listen": ([ECHO], []),
    "html": ([ECHO], ["http/content-type"]),
    "text-plain": ([ECHO], ["http/content-type"]),
    "no-type": ([ECHO], ["http/content-type"]),
    "not-json": ([ANY], ["http/not-json"]),
    "empty": ([ANY], ["http/status"]),
    "error-status": ([ANY], ["http/status"]),
    "result-500": ([ECHO], ["http/status"]),
    "wrong-id": ([ANY], ["wire/unknown-id"]),
    "twice": ([ECHO], ["wire/duplicate-reply"]),
    "no-answer": ([ANY], ["http/no-answer"]),
    "mid-event": ([ANY], ["http/no-answer"]),
    "no-resume": ([CLOSE], ["http/no-answer"]),
    "breaks-off": ([ANY], ["http/broken"]),
    "wrong-stream": ([ECHO], ["http/wrong-stream"]),
    "endless": ([ANY], ["wire/line-too-long"]),
    "buffered": ([TALK], ["http/buffered"]),
    "redirect": ([ECHO], ["http/redirect"]),
    "redirect-away": ([ECHO], ["http/redirect"]),
    "get": ([ECHO], ["http/get"]),
    "notification": ([ECHO], ["http/notification"]),
    "notification-204": ([ECHO], ["http/notification"]),
    "session-id": ([ECHO], ["http/session-id"]),
    "unknown-session": ([ECHO], ["http/unknown-session"]),
    "drops-session": ([ECHO, AGAIN, case("third", step("echo", {"text": "c"}))], ["http/session-lost"]),
    "version-header": ([ECHO], ["http/version-header"]),
    "foreign-origin": ([ECHO], ["http/foreign-origin"]),
    "foreign-host": ([ECHO], ["http/foreign-host"]),
    "bind-all": ([ECHO], ["http/bind-all"]),
    "auth": ([ECHO], []),
    "auth-bare": ([ECHO], ["http/challenge"]),
    "well-known": ([ECHO], ["http/well-known"]),
    "legacy": ([ECHO], []),
    "never-listens": ([ECHO], []),
    "other-port": ([ECHO], []),
    "dies-at-start": ([ECHO], []),
    "dies-in-mid-stream": ([ECHO, case("die", step("die")), AGAIN], ["process/crashed"]),
    "hangs": ([ECHO, HANG, AGAIN], ["suite/timed-out"]),
    "ignores-term": ([ECHO], ["process/late-exit"]),
}
MODERN_OVER_HTTP = {
    "": ([ECHO, AGAIN, TALK, case("region", step("region", {"place": "Koeln"}))], []),
    "modern-only get": ([ECHO], ["http/get"]),
    "modern-only": ([ECHO], []),
    "status": ([ECHO], ["http/status"]),
    "version-header": ([ECHO], ["http/version-header"]),
    "foreign-origin": ([ECHO], ["http/foreign-origin"]),
    "no-answer": ([ANY], ["http/no-answer"]),
    "hangs": ([ECHO, HANG, AGAIN], ["suite/timed-out"]),
}
CODES = {
    **dict.fromkeys(("auth", "auth-bare", "well-known", "legacy", "never-listens", "other-port", "dies-at-start"), 6),
    **dict.fromkeys(("html", "redirect-away"), 6),
}


# those that the official client, or what only the probes send, has to meet
CLOSER = (
    *("", "stateless", "get", "unknown-session", "version-header", "foreign-origin", "foreign-host"),
    *("modern-only", "modern-only get", "status", "forbidden"),
)


def over_http(twists, cases, folder, **more):
    if twists in ("never-listens", "other-port"):
        more["start_timeout_s"] = 1.0
    more["closer"] = twists in CLOSER or bool(more.get("headers"))
    return drive("over_http", cases, folder, arguments=("${port}", *twists.split()), url=URL, **more)


def judged(judgement):
    return sorted(item.check for item in judgement.findings if item.check != "exercised/missing")


@pytest.mark.parametrize("twists", sorted(OVER_HTTP))
def test_a_server_over_http_raises_its_own_finding_and_no_other(t, twists, tmp_path):
    cases, expected = OVER_HTTP[twists]
    judgement = over_http(twists, cases, tmp_path)
    assert judged(judgement) == expected, show(judgement)
    assert [item.code for item in judgement.errors] == ([CODES[twists]] if twists in CODES else []), show(judgement)


CANCELLED = {  # twists, era -> what is found of a server over HTTP whose call is cancelled, and that is then asked more
    ("cancels", "handshake"): ["exercised/failed-only"],
    ("cancels", "modern"): ["exercised/failed-only"],
    ("cancels cancel-waits", "handshake"): ["exercised/failed-only"],
    ("cancels cancel-dies", "handshake"): ["process/crashed"],
    ("cancels cancel-dies", "modern"): ["process/crashed"],
    ("cancels cancel-deaf", "handshake"): ["wire/dead-after-cancel"],
    ("cancels cancel-deaf", "modern"): ["wire/dead-after-cancel"],
}


@pytest.mark.parametrize(("twists", "era"), sorted(CANCELLED))
def test_a_call_that_is_cancelled_over_http_is_no_fault_and_what_follows_may_be(t, twists, era, tmp_path):
    judgement = over_http(twists, SLOW, tmp_path, era=era, call_timeout_s=1.0)
    assert judged(judgement) == CANCELLED[twists, era], show(judgement)
    assert judgement.errors == (), show(judgement)


STATES_OVER_HTTP = {  # twists -> check and severity of all findings
    "states": [],
    "states reusable": [("wire/request-state-replayed", "warning")],
    "states trusting": [("wire/request-state-changed", "error")],
}


@pytest.mark.parametrize("twists", sorted(STATES_OVER_HTTP))
def test_a_request_state_over_http_is_believed_or_not(t, twists, tmp_path):
    delete = case("delete", step("delete", {"path": "a"}, text_equals="deleted a", prompts=("Really?",)))
    judgement = over_http(twists, [ECHO, delete], tmp_path, era="modern", profile=FORMS)
    found = [(item.check, item.severity) for item in judgement.findings if item.check != "exercised/missing"]
    assert found == STATES_OVER_HTTP[twists], show(judgement)
    assert (judgement.errors, judgement.not_judged) == ((), ()), show(judgement)
    assert [path.name for path in (tmp_path / "evidence").rglob("probe-2.jsonl")] == ["probe-2.jsonl"]


TOKEN = "sesame-0penTheD00r-42"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LET_IN = {  # twists, era -> headers, what is found beside that it logs the token
    ("auth", "handshake"): (BEARER, []),
    ("auth forbidden", "modern"): ({**BEARER, "X-Api-Key": TOKEN, "Origin": "http://127.0.0.1:${port}"}, []),
    ("auth-bare well-known", "modern"): (BEARER, ["http/challenge", "http/well-known"]),
}


@pytest.mark.parametrize(("twists", "era"), sorted(LET_IN))
def test_a_server_behind_a_token_is_tested_with_it_and_the_token_is_nowhere(t, twists, era, tmp_path):
    headers, expected = LET_IN[twists, era]
    judgement = over_http(twists, [ECHO], tmp_path, era=era, headers=headers)
    assert judged(judgement) == [*expected, "process/secret-told"], show(judgement)
    assert judgement.errors == (), show(judgement)
    files = [path for path in (tmp_path / "evidence").rglob("*") if path.is_file()]
    assert {"server-1.jsonl", "probe-1.jsonl", "run.json"} <= {path.name for path in files}
    assert [path.name for path in files if TOKEN in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("twists", "headers", "message", "hint"),
    [
        ("auth", {}, "asks for authorization: HTTP 401, WWW-Authenticate: 'Bearer", "headers = { Authorization ="),
        ("auth", {"Authorization": "Bearer of-bad-news-0001"}, "it was sent Authorization", "was started with?"),
        ("forbidden", {}, 'does not let us in: HTTP 403, application/json: \'{"error"', "headers = { Authorization ="),
    ],
)
def test_a_server_that_lets_nobody_in_is_called_that_with_what_to_do(t, twists, headers, message, hint, tmp_path):
    judgement = over_http(twists, [ECHO], tmp_path, era="modern", headers=headers)
    (error,) = judgement.errors
    assert message in error.message
    assert hint in error.hint
    assert judged(judgement) == []
    assert "of-bad-news" not in error.message + error.log


@pytest.mark.parametrize("twists", sorted(MODERN_OVER_HTTP))
def test_a_modern_server_over_http_raises_its_own_finding_and_no_other(t, twists, tmp_path):
    cases, expected = MODERN_OVER_HTTP[twists]
    judgement = over_http(twists, cases, tmp_path, era="modern")
    assert judged(judgement) == expected, show(judgement)
    assert judgement.errors == (), show(judgement)
