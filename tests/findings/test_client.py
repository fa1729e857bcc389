"""The official client's view: a finding where its user is worse off than our session was, and silence elsewhere."""

import json

import pytest

from harness.model.transcript import Body, ClientSaw, Diagnostic

INVALID = "1 validation error for ListToolsResult\ntools.0.outputSchema.type\n  Input should be 'object' [type=literal]"
TOOLS = {"tools": [{"name": "echo", "inputSchema": {}}, {"name": "put", "inputSchema": {}}]}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}}
MODERN = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


class Look:
    """The transcript of a comparing pass, one line a step."""

    def __init__(self, t, *, mode="legacy"):
        self.t, self.tape = t, t.Tape("client-1.jsonl")
        self.tape.add(t.Spawned, argv=("server",), cwd=".", env=("PATH",), pid=2)
        self.note("client", f"mcp 2.3.0, mode {mode!r}")

    def note(self, what, detail=""):
        self.tape.add(Diagnostic, what=what, detail=detail)
        return self

    def ask(self, method, result=None, *, error=None, silent=False, wait=0):
        identity = self.tape.send(method, {})
        if wait:
            self.wait(wait)
        if not silent:
            self.tape.reply(identity, result, error=error)
        return self

    def wait(self, events):
        for _ in range(events):  # an event is a hundredth of a second
            self.note("waiting")
        return self

    def saw(self, action, given=None, *, error="", detail=""):
        body = b"" if given is None else json.dumps(given).encode()
        self.tape.add(ClientSaw, action=action, body=Body(body), error=error, detail=detail)
        return self

    def connected(self):
        return self.ask("initialize", HELLO).saw("connect", {"protocolVersion": "2025-11-25"})

    def end(self, *, done=True, **more):
        if done:
            self.note("client-done")
        self.tape.stop(**more)
        return self.tape.transcript()


def judged(t, look, *, tape=None, era="handshake", **more):
    tape = tape or t.Tape().start(("echo", "put")).case("one").step("echo").step("put").done().stop()
    protocol = {"handshake": "2025-11-25", "modern": "2026-07-28"}[era]
    found = t.evidence(t.key(era=era), tape, protocol=protocol)
    found = type(found)(record=found.record, transcripts=found.transcripts, folder=found.folder, client=look)
    return t.judged(found, eras=(era,), **more)


def modern_tape(t):
    tape = t.Tape()
    tape.add(t.Spawned, argv=("server",), cwd=".", env=("PATH",), pid=1)
    tape.reply(tape.send("server/discover", {}), MODERN)
    tape.reply(tape.send("tools/list", {}), TOOLS)
    return tape.case("one").step("echo").step("put").done().stop()


def test_a_client_that_gets_everything_is_no_finding(t):
    judgement = judged(t, Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", TOOLS).end())
    assert (judgement.findings, judgement.not_judged) == ((), ())


def test_evidence_without_the_pass_says_nothing(t):
    judgement = judged(t, None)
    assert (judgement.findings, judgement.not_judged) == ((), ())


def test_what_is_listed_or_said_to_the_client_covers_nothing(t):
    tape = t.Tape().start(("echo",)).case("one").step("echo").done().stop()
    judgement = judged(t, Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", TOOLS).end(), tape=tape)
    assert judgement.coverage[0].tools == 1
    assert judgement.findings == ()


def test_a_tool_that_is_left_out_is_lost_with_the_reason_that_the_client_gives(t):
    look = Look(t).connected().ask("tools/list", TOOLS).note("client-log", "dropping tool 'put': a bad header")
    finding = t.one(judged(t, look.saw("tools/list", {"tools": TOOLS["tools"][:1]}).end()), "client/tool-lost")
    assert (finding.tool, finding.pointer, finding.severity) == ("put", "/result/tools/1", "error")
    assert "never sees the tool put" in finding.message
    assert "mcp 2.3.0, mode 'legacy'" in finding.message
    assert finding.message.endswith("dropping tool 'put': a bad header")
    assert '"name": "put"' in finding.evidence["listed"]


def test_a_tool_is_looked_for_on_its_own_page(t):
    first, second = {"tools": TOOLS["tools"][:1], "nextCursor": "2"}, {"tools": TOOLS["tools"][1:]}
    look = Look(t).connected().ask("tools/list", first).saw("tools/list", first)
    judgement = judged(t, look.ask("tools/list", second).saw("tools/list", {"tools": []}).end())
    assert t.checks(judgement) == ["client/tool-lost"]


def test_a_list_that_the_client_refuses_is_one_finding_that_names_the_tool(t):
    look = Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", error="ValidationError", detail=INVALID)
    finding = t.one(judged(t, look.end()), "client/refused")
    assert finding.tool == "echo"
    assert "gets no tools: tools/list raises ValidationError: tools.0.outputSchema.type: Input should be 'object';" in (
        finding.message
    )
    assert "[type=" not in finding.message
    assert finding.evidence["exception"].startswith("ValidationError: 1 validation error")


NULL = "1 validation error for ListToolsResult\ntools.1.inputSchema\n  Input should be a dictionary [type=model_type]"
ALSO = f"2{NULL[1:]}\ntools.0.outputSchema.type\n  Input should be 'object' [type=literal]"


def nulled(t, detail, **more):
    """What is said of a server whose tool `put` has an input schema that is null."""
    tools = [dict(TOOLS["tools"][0], inputSchema={"type": "object"}), {"name": "put", "inputSchema": None}]
    tape = t.Tape().start(tools).case("one").step("echo").step("put").done().stop()
    look = Look(t).connected().ask("tools/list", {"tools": tools})
    look.saw("tools/list", error="ValidationError", detail=detail)
    return [check for check in t.checks(judged(t, look.end(), tape=tape, **more)) if check in NULL_CHECKS]


NULL_CHECKS = ("client/refused", "validity/input-schema")


def test_an_input_schema_that_is_no_object_is_told_once(t):
    assert nulled(t, NULL) == ["validity/input-schema"]


def test_where_that_finding_is_lowered_the_client_still_speaks(t):
    assert sorted(nulled(t, NULL, checks=(("validity", "warning"),))) == sorted(NULL_CHECKS)


def test_what_else_the_client_minds_is_told_beside_it(t):
    assert sorted(nulled(t, ALSO)) == sorted(NULL_CHECKS)


def test_lists_that_fail_alike_are_one_finding(t):
    detail = "1 validation error for {}\nttlMs\n  Field required [type=missing, input_value={{}}]"
    tape = t.Tape().start(("echo",), prompts=("p",)).case("one").step("echo").done().stop()
    look = Look(t).connected()
    look.ask("tools/list", TOOLS).saw("tools/list", error="ValidationError", detail=detail.format("ListToolsResult"))
    look.ask("prompts/list", {"prompts": []})
    look.saw("prompts/list", error="ValidationError", detail=detail.format("ListPromptsResult"))
    finding = t.one(judged(t, look.end(), tape=tape), "client/refused")
    assert "gets no tools and no prompts: tools/list, prompts/list raise" in finding.message


def test_a_later_page_that_is_refused_says_so(t):
    first = {"tools": TOOLS["tools"][:1], "nextCursor": "2"}
    look = Look(t).connected().ask("tools/list", first).saw("tools/list", first)
    look.ask("tools/list", error={"code": -32602, "message": "bad cursor"})
    look.saw("tools/list", error="MCPError", detail="bad cursor (code -32602)")
    finding = t.one(judged(t, look.end()), "client/refused")
    assert "gets no tools beyond page 1" in finding.message
    assert "answered tools/list with an error" in finding.message


def test_what_fails_for_us_too_has_a_finding_of_its_own(t):
    tape = t.Tape()
    tape.add(t.Spawned, argv=("server",), cwd=".", env=("PATH",), pid=1)
    tape.reply(tape.send("initialize", {"protocolVersion": "2025-11-25"}), HELLO)
    tape.reply(tape.send("tools/list", {}), error={"code": -32603, "message": "broken"})
    look = Look(t).connected().ask("tools/list", error={"code": -32603, "message": "broken"})
    look.saw("tools/list", error="MCPError", detail="broken (code -32603)")
    assert t.checks(judged(t, look.end(), tape=tape.stop())) == ["exercised/list-failed"]


def test_a_connection_that_is_refused_quotes_the_answer(t):
    look = Look(t).ask("initialize", {**HELLO, "capabilities": []})
    look.saw("connect", error="ValidationError", detail="1 validation error\ncapabilities\n  Input should be an object")
    finding = t.one(judged(t, look.end()), "client/refused")
    assert "cannot connect: ValidationError: capabilities: Input should be an object. The answer to init" in (
        finding.message
    )


def test_a_server_that_dies_under_the_client_is_a_refusal_with_exit_code_and_stderr(t):
    look = Look(t).connected().ask("tools/list", silent=True)
    look.saw("tools/list", error="MCPError", detail="Connection closed (code -32000)")
    judgement = judged(t, look.end(code=7, asked=False, ended_by="itself", stderr="oh no\n"))
    assert t.checks(judgement) == ["client/refused"]
    message = judgement.findings[0].message
    assert "tools/list in flight, exit code 7; last on stderr: oh no" in message


def test_an_answer_that_the_client_drops_is_quoted(t):
    look = Look(t).connected().ask("tools/list", TOOLS).wait(100)
    look.saw("tools/list", error="timed-out", detail="nothing came within 1 s")
    finding = t.one(judged(t, look.end()), "client/refused")
    assert "no end: nothing came within 1 s" in finding.message
    assert "The answer to tools/list: " in finding.message


def test_silence_is_a_refusal_only_where_slowness_cannot_explain_it(t):
    def look(events):
        waiting = Look(t).connected().ask("tools/list", silent=True).wait(events)
        return waiting.saw("tools/list", error="timed-out", detail="nothing came within 1 s").end()

    assert t.checks(judged(t, look(50))) == ["client/refused"]
    judgement = judged(t, look(2))
    assert judgement.findings == ()
    assert [(item.check, item.own) for item in judgement.not_judged] == [("client", False)]
    assert "mere slowness" in judgement.not_judged[0].why


def test_a_downgrade_is_a_warning_with_its_cause(t):
    look = Look(t, mode="auto").ask("server/discover", MODERN).ask("initialize", HELLO)
    look.saw("connect", {"protocolVersion": "2025-11-25"})
    look.note(
        "client-log", "server/discover: 1 validation error for DiscoverResult\nttlMs\n  Must be a number [type=x]"
    )
    look.ask("tools/list", TOOLS).saw("tools/list", TOOLS)
    finding = t.one(judged(t, look.end(), tape=modern_tape(t), era="modern"), "client/era-downgraded")
    assert finding.severity == "warning"
    assert "gets protocol version 2025-11-25, and is not told: our own session with this server has 2026-07-28" in (
        finding.message
    )
    assert "cannot use the answer to server/discover (ttlMs: Must be a number)" in finding.message


def test_a_downgrade_after_a_slow_answer_is_not_judged(t):
    look = Look(t, mode="auto").ask("server/discover", silent=True).wait(2).ask("initialize", HELLO)
    look.saw("connect", {"protocolVersion": "2025-11-25"})
    judgement = judged(t, look.end(), tape=modern_tape(t), era="modern")
    assert judgement.findings == ()
    assert "slowness" in judgement.not_judged[0].why


def test_another_version_in_the_same_era_is_a_downgrade_too(t):
    older = {**HELLO, "protocolVersion": "2024-11-05"}
    look = Look(t).ask("initialize", older).saw("connect", {"protocolVersion": "2024-11-05"})
    finding = t.one(judged(t, look.end()), "client/era-downgraded")
    assert "2024-11-05" in finding.message


def test_the_error_of_a_request_that_nobody_asked_for_is_named_as_such_and_once(t):
    look = Look(t, mode="auto").ask("server/discover", MODERN)
    look.ask("initialize", error={"code": -32601, "message": "no such method"})
    look.saw("connect", error="MCPError", detail="no such method (code -32601)")
    judgement = judged(t, look.end(), tape=modern_tape(t), era="modern")
    assert t.checks(judgement) == ["client/hidden-request"]
    message = judgement.findings[0].message
    assert "shown the error of a request that they did not ask for, initialize: MCPError: no such method" in message
    assert len(judgement.findings[0].evidence["frames"]) == 2


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (lambda t: Look(t).note("client-failed", "ServerError: it is gone").end(done=False), "it is gone"),
        (lambda t: Look(t).connected().end(done=False), "cut short"),
        (lambda t: Look(t).connected().tape.transcript(), "cut short"),
        (lambda t: Look(t).saw("connect", error="TypeError", detail="?").end(), "before any request had left"),
    ],
)
def test_a_pass_that_failed_for_no_fault_of_the_servers_is_not_judged(t, look, why):
    judgement = judged(t, look(t))
    assert judgement.findings == ()
    assert [item.check for item in judgement.not_judged] == ["client"]
    assert why in judgement.not_judged[0].why
    assert judged(t, look(t), checks=[("client", "off")]).not_judged == ()


def test_what_was_seen_before_the_pass_failed_is_judged(t):
    look = Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", {"tools": []})
    judgement = judged(t, look.note("client-failed", "TypeError: ours").end(done=False))
    assert t.checks(judgement) == ["client/tool-lost"] * 2
    assert len(judgement.not_judged) == 1


def test_the_family_can_be_lowered(t):
    look = Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", {"tools": []}).end()
    judgement = judged(t, look, checks=[("client", "warning")])
    assert {item.severity for item in judgement.findings} == {"warning"}
    judgement = judged(t, look, checks=[("client", "off")])
    assert judgement.findings == ()
    assert judgement.lowered[0].findings == 2


def test_noise_that_the_run_has_raised_is_not_counted_again_and_other_noise_is(t):
    look = Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", TOOLS)
    look.tape.raw("starting up")
    noisy = look.end()
    finding = t.one(judged(t, noisy), "wire/stdout-not-json")
    assert "with the official client, line 3" in finding.message
    tape = t.Tape().start(("echo",))
    tape.raw("starting up")
    finding = t.one(judged(t, noisy, tape=tape.case("one").step("echo").done().stop()), "wire/stdout-not-json")
    assert finding.evidence["count"] == 1


def test_the_same_loss_in_two_eras_is_one_finding(t):
    look = Look(t).connected().ask("tools/list", TOOLS).saw("tools/list", {"tools": TOOLS["tools"][:1]}).end()
    found = []
    for era, tape in (("handshake", None), ("modern", modern_tape(t))):
        tape = tape or t.Tape().start(("echo", "put")).case("one").step("echo").step("put").done().stop()
        one = t.evidence(t.key(era=era), tape, protocol="2025-11-25")
        found.append(type(one)(record=one.record, transcripts=one.transcripts, folder=one.folder, client=look))
    finding = t.one(t.judged(*found), "client/tool-lost")
    assert len(finding.evidence["runs"]) == 2
