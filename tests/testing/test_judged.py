"""Coverage, schemas and the wire of a test's own servers: one error with everything, by the one judge. Ours."""

from pathlib import Path

import pytest

from harness.testing import (
    CoverageError,
    MisuseError,
    ToolError,
    expect_clean_wire,
    expect_every_tool_declares_output_schema,
    expect_every_tool_exercised,
    expect_portable_tool_schemas,
    start_server,
    tool_coverage,
)

TRUE_REASON = "it is there to fail, and does nothing else"


@pytest.fixture
def both(command):
    """A client that can be asked, and one that cannot; some calls of each."""
    with (
        start_server(command("good"), era="handshake") as plain,
        start_server(command("good"), era="handshake", elicit="accept") as asking,
    ):
        plain.call("echo", {"text": "a"})
        plain.confirmed("guarded", {"key": "k"})
        asking.call("ask")
        asking.call("fail", expect_error="on purpose")
        yield plain, asking


def test_coverage_is_the_union_of_all_servers(both):
    found = tool_coverage(*both)
    assert found.succeeded == ("ask", "echo", "guarded")
    assert found.refused_only == ("fail",)
    assert found.missing == ("add", "slow")
    assert found.headline == "3 of 6 tools exercised, 0 excused"


def test_one_error_has_what_is_missing_and_every_fault_of_the_exemptions(both):
    exempt = {"fail": TRUE_REASON, "echo": "no call of it is possible", "gone": "it was taken out", "add": "todo"}
    with pytest.raises(CoverageError) as caught:
        expect_every_tool_exercised(*both, exempt=exempt)
    told = {(item.check, item.tool) for item in caught.value.findings}
    assert told == {
        ("exercised/missing", "add"),
        ("exercised/missing", "slow"),
        ("exemption/false", "echo"),
        ("exemption/stale", "gone"),
        ("exemption/malformed", "add"),
    }
    assert str(caught.value).startswith("3 of 6 tools exercised, 1 excused; 5 findings:\n")
    assert all(f"  {check}: " in str(caught.value) for check, _ in told)


def test_nothing_happens_where_all_is_called_or_excused(both):
    plain, _ = both
    plain.call("add", {"a": 1, "b": 2})
    plain.call("slow", {"seconds": 0})
    assert expect_every_tool_exercised(*both, exempt={"fail": TRUE_REASON}).excused == ("fail",)


def test_a_call_in_a_raw_step_counts_by_its_answer(command):
    with start_server(command("good"), era="modern") as server:
        server.raw("echo", {"text": "x"})
        server.raw("fail")
        found = tool_coverage(server)
    assert found.succeeded == ("echo",)
    assert found.failed_only == ("fail",)


def test_exemptions_may_stand_in_the_committed_file(both, tmp_path):
    file = tmp_path / "exemptions.toml"
    file.write_text(
        f'schema = 1\n[good.exercised]\nfail = "{TRUE_REASON}"\nadd = "the numbers are secret here"\n'
        'slow = "it takes a whole minute"\n[other.exercised]\nx = "of another server, somewhere else"\n'
        '[good.output-schema]\ny = "of another check, and judged by that"\n'
    )
    assert expect_every_tool_exercised(*both, exempt=file, name="good").excused == ("add", "fail", "slow")


def test_a_call_of_a_tool_that_is_not_listed_covers_nothing(command):
    with start_server(command("good"), era="handshake") as server:
        server.call("ech", {"text": "x"}, expect_error="Unknown tool", unlisted=True)
        assert "echo" in tool_coverage(server).missing
        assert "ech" not in tool_coverage(server).listed


def test_schemas_that_clients_read_differently_are_listed_all(command):
    with start_server(command("unportable"), era="handshake") as server:
        with pytest.raises(CoverageError) as caught:
            expect_portable_tool_schemas(server)
        tools = {item.tool for item in caught.value.findings}
        assert {"array-items", "boolean-schema", "remote-ref"} <= tools
        with pytest.raises(CoverageError) as caught:
            expect_portable_tool_schemas(server, warnings=True)
        assert tools < {item.tool for item in caught.value.findings}
    with start_server(command("good"), era="handshake") as server:
        expect_portable_tool_schemas(server)


def test_output_schemas_are_asked_for_and_held_against_results(command):
    with start_server(command("good"), era="handshake") as server:
        server.call("add", {"a": 1, "b": 2})
        expect_every_tool_declares_output_schema(server)
    with start_server(command("output_of_every_kind"), era="handshake") as server:
        server.tools()
        with pytest.raises(CoverageError, match="output-schema/"):
            expect_every_tool_declares_output_schema(server)


def test_noise_on_stdout_is_found_on_the_wire(command):
    with start_server(command("noise"), era="handshake") as server:
        server.call("echo", {"text": "x"})
        with pytest.raises(CoverageError, match=r"the wire is not clean; 1 finding:\n  wire/stdout-not-json"):
            expect_clean_wire(server)


def test_how_a_server_ended_is_judged_from_its_evidence(command, tmp_path):
    with start_server(command("daemon_child"), era="handshake", evidence=tmp_path) as server:
        server.call("echo", {"text": "x"})
        expect_clean_wire(server)
    with pytest.raises(CoverageError, match="process/orphan"):
        expect_clean_wire(tmp_path)


def test_a_server_that_is_closed_is_judged_from_its_evidence_or_not_at_all(command, tmp_path):
    with start_server(command("good"), era="handshake", evidence=tmp_path) as server:
        server.tools()
        server.call("echo", {"text": "x"})
    assert tool_coverage(tmp_path).succeeded == ("echo",)
    assert tool_coverage(server).succeeded == ("echo",)
    with start_server(command("good"), era="handshake") as other:
        other.tools()
    with pytest.raises(MisuseError, match="is closed, and what it recorded went with it"):
        tool_coverage(other)
    with pytest.raises(MisuseError, match="nothing was recorded"):
        tool_coverage()
    with pytest.raises(MisuseError, match="there is no transcript in"):
        tool_coverage(Path(__file__).parent)


def test_what_was_never_listed_is_not_taken_for_covered(command, tmp_path):
    with start_server(command("good"), era="handshake", evidence=tmp_path) as server:
        server.call("echo", {"text": "x"})
    with pytest.raises(MisuseError, match="was asked for its list of tools"):
        expect_every_tool_exercised(tmp_path)


def test_calls_before_an_exception_that_a_test_is_after_count(command, tmp_path):
    def calls():
        with start_server(command("good"), era="modern", evidence=tmp_path) as server:
            server.tools()
            server.call("echo", {"text": "x"})
            server.call("fail")

    with pytest.raises(ToolError):
        calls()
    assert tool_coverage(tmp_path).succeeded == ("echo",)
