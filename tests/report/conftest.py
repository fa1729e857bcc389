"""Reports to render: a green one, a red one, one in which the harness failed; and strategies for any report at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from harness.model.finding import (
    CaseResult,
    CommandResult,
    Coverage,
    Excused,
    Finding,
    HarnessFailure,
    Judgement,
    Listed,
    Lowered,
    NotJudged,
    Ran,
    Report,
    ToolFate,
    Uncounted,
)
from harness.report.build import make_report

TODAY = "2026-12-01"
RERUN = "mcp-rollcall run --project examples/redis-mcp --server redis-mcp --backend redis@8"


def ran(server="redis-mcp", backend="redis@8", era="handshake", profile="plain", **more):
    """A run that gave evidence, in Docker."""
    return Ran(**{"server": server, "backend": backend, "runtime": "docker", "era": era, "profile": profile, **more})


def coverage(server="redis-mcp", backend="redis@8", succeeded=(), excused=(), missing=(), refused=(), **more):
    """A cell's ledger from the names of its tools."""
    fates = [
        *(ToolFate(tool=tool, fate="succeeded", calls=2) for tool in succeeded),
        *(ToolFate(tool=tool, fate="excused") for tool in excused),
        *(ToolFate(tool=tool, fate="missing") for tool in missing),
        *(ToolFate(tool=tool, fate="refused-only", calls=1) for tool in refused),
    ]
    return Coverage(
        server=server,
        backend=backend,
        tools=len(fates),
        succeeded=len(succeeded),
        refused_only=len(refused),
        failed_only=0,
        excused=len(excused),
        missing=len(missing),
        fates=tuple(fates),
        **more,
    )


def case(name="set-and-get", status="passed", server="redis-mcp", backend="redis@8", era="handshake", **more):
    """A case's result in the plain profile."""
    more = {"suite": "keys", "profile": "plain", **more}
    return CaseResult(server=server, backend=backend, era=era, case=name, status=status, **more)


def finding(check="exercised/missing", severity="error", server="redis-mcp", message="No call reached it.", **more):
    """A finding."""
    return Finding(check=check, severity=severity, server=server, message=message, **more)


def failure(kind="stack", code=5, server="redis-mcp", message="It did not stand up.", **more):
    """An error of the harness."""
    return HarnessFailure(kind=kind, code=code, server=server, message=message, **more)


TOOLS = tuple(f"tool_{number:02}" for number in range(49))
EXCUSED = tuple(
    Excused(
        check="exercised/missing", server="redis-mcp", subject=tool, reason=reason, file="exemptions.toml", line=line
    )
    for line, tool, reason in (
        (7, "client_list", "lists the harness's own connections; no expectation about it can be stable"),
        (8, "info", "its answer is the server's uptime and memory, different in every run"),
        (9, "create_vector_index_hash", "needs the search module, which the plain image does not have"),
        (10, "vector_search_hash", "needs the search module, which the plain image does not have"),
    )
)


@pytest.fixture
def clean():
    """Everything answered or excused, on an embedded backend."""
    versions = {"redis@embedded": "6.2.14"}
    judgement = Judgement(
        ran=(
            ran(backend="redis@embedded", runtime="process", protocol="2025-11-25", versions=versions),
            ran(backend="redis@embedded", runtime="process", era="modern", outcome="not-spoken", versions=versions),
        ),
        coverage=(coverage(backend="redis@embedded", succeeded=TOOLS, excused=[item.subject for item in EXCUSED]),),
        cases=tuple(case(f"case-{number:02}", backend="redis@embedded") for number in range(31)),
        excused=EXCUSED,
    )
    return make_report(judgement, today=TODAY, notes=["runtime process: no Docker engine at /var/run/docker.sock"])


@pytest.fixture
def findings():
    """Two servers, all kinds of findings, something lowered, something not selected."""
    both = ["redis@8 handshake/plain", "redis@8 modern/asking"]
    judgement = Judgement(
        ran=(
            ran(protocol="2025-11-25", versions={"redis@8": "8.0.2"}),
            ran(era="modern", profile="asking", protocol="2026-07-28", versions={"redis@8": "8.0.2"}),
            ran(server="server-memory", backend="none", runtime=None, protocol="2025-11-25"),
        ),
        coverage=(
            coverage(
                succeeded=TOOLS[:46],
                excused=[item.subject for item in EXCUSED],
                missing=["hget", "hset"],
                refused=["del"],
            ),
            coverage(server="server-memory", backend="none", succeeded=TOOLS[:9], prompts=2, prompts_used=1),
        ),
        cases=(
            case(),
            case("set-and-get", era="modern", profile="asking"),
            case("expire", "failed", message="keys/expire, step 2, call get: expected text containing '1', got 'OK'",
                 file="examples/redis-mcp/suites/keys.toml", line=44),
            case("after-expire", "not-run"),
            case("relations", server="server-memory", backend="none", suite="graph"),
        ),
        findings=(
            *(
                finding(
                    tool=tool,
                    message=f"{tool} is listed and no call reached it",
                    evidence={"backend": "redis@8", "calls": 0, "runs": both},
                    source="ours",
                    rerun=RERUN,
                )
                for tool in ("hget", "hset")
            ),
            finding(
                "exercised/refused-only",
                tool="del",
                message="del was called 2 times, and the only good answers are refusals that the suite expects; let it "
                "succeed once, or excuse it",
                evidence={"backend": "redis@8", "calls": 2, "case": "keys/refuses-an-empty-key", "runs": both},
                source="ours",
                rerun=f"{RERUN} -k del",
            ),
            finding(
                "suite/step-failed",
                tool="get",
                message="keys/expire, step 2, call get: expected text containing '1', got 'OK'",
                file="examples/redis-mcp/suites/keys.toml",
                line=44,
                evidence={"case": "keys/expire", "runs": both[:1], "answer": {"content": [{"text": "OK"}]}},
                source="ours",
                rerun=f"{RERUN} --era handshake --profile plain -k 'expire and not after'",
            ),
            finding(
                "wire/stdout-not-json",
                message="A line on stdout is no JSON. It came while a call was waiting.",
                evidence={
                    "line": "\x1b[33mWARNING\x1b[0m [config] list[str] is deprecated :warning:",
                    "offset": 4711,
                    "in_flight": ["tools/call get"],
                    "stderr": "Traceback (most recent call last):\n  File 'redis_mcp/main.py', line 7\n    x[0]\n",
                },
                source="MCP basic/transports#stdio",
                rerun=f"{RERUN} -k get",
            ),
            finding(
                "process/late-exit",
                "warning",
                server="server-memory",
                message="The process was still there 2 s after its stdin had been closed; SIGTERM ended it.",
                evidence={"exit code": -15, "waited": "2 s"},
                source="MCP basic/lifecycle#shutdown",
                rerun="mcp-rollcall run --project examples/server-memory",
            ),
            finding(
                "exemption/stale",
                server="redis-mcp",
                tool="zunion",
                file="exemptions.toml",
                line=12,
                message="the server has no tool 'zunion'. Did you mean 'zunionstore'?",
                source="ours",
                rerun="mcp-rollcall exemptions",
            ),
        ),
        excused=EXCUSED,
        not_judged=(
            NotJudged(check="exercised", server="redis-mcp", why="the cell redis@7 was not selected", own=True),
            NotJudged(check="exemption", server="redis-mcp", subject="lolwut", why="the cell redis@7 was not selected",
                      own=True, file="exemptions.toml", line=11),
        ),
        lowered=(
            Lowered(family="process", server="server-memory", to="warning", file="examples/server-memory/harness.toml",
                    line=31, findings=1),
        ),
    )  # fmt: skip
    return make_report(judgement, today=TODAY, partial=True)


@pytest.fixture
def failed():
    """A backend that never became ready, beside a server that ran."""
    log = "".join(f"1:M {number:02} Dec 2026 00:00:{number:02} * Loading module {number}\n" for number in range(40))
    judgement = Judgement(
        ran=(ran(server="server-memory", backend="none", runtime=None, protocol="2025-11-25"),),
        coverage=(coverage(server="server-memory", backend="none", succeeded=TOOLS[:9]),),
        cases=(case("relations", server="server-memory", backend="none", suite="graph"),),
        errors=(
            HarnessFailure(
                kind="stack",
                code=5,
                server="redis-mcp",
                message="redis@8: service redis did not become ready within 60 s; the last probe (tcp, 'PING') got "
                "'-LOADING Redis is loading the dataset in memory'; the container is running.",
                hint="give it more time with ready_timeout_s in backends/redis/backend.toml",
                log=log,
            ),
        ),
        not_judged=(NotJudged(check="exercised", server="redis-mcp", why="the stack redis@8 did not stand up"),),
    )
    return make_report(judgement, today=TODAY)


ANY_TEXT = st.text(alphabet=st.characters(categories=None), max_size=20) | st.sampled_from(
    [
        "a|b",
        "```",
        "x\r\ny",
        "\x1b[31mred",
        "<img src=x onerror=1>",
        "@all #1",
        "\ud800",
        "a\\|b",
        "`",
        "]]>",
        "%0A::x,",
    ]
)
NAMES = st.sampled_from(["a", "b", "a/b", "a%2Fb", "straße", "é", "e\u0301"]) | ANY_TEXT
ERAS = st.sampled_from(["handshake", "modern"])
MAYBE = st.none() | NAMES
LINES = st.none() | st.integers(1, 9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
COUNT = st.integers(0, 9)
FATES = st.builds(ToolFate, tool=NAMES, calls=COUNT, fate=st.sampled_from(["succeeded", "missing", "excused"]))
PARTS = {
    "ran": st.builds(
        Ran, server=NAMES, backend=NAMES, runtime=st.sampled_from(["docker", "process", None]), era=ERAS, profile=NAMES,
        outcome=st.sampled_from(["finished", "not-spoken", "failed", "interrupted"]), versions=st.just({"r": "1"}),
    ),
    "coverage": st.builds(
        Coverage, server=NAMES, backend=NAMES, tools=COUNT, succeeded=COUNT, refused_only=COUNT, failed_only=COUNT,
        excused=COUNT, missing=COUNT, judged=st.booleans(), fates=st.lists(FATES, max_size=2).map(tuple),
    ),
    "cases": st.builds(
        CaseResult, server=NAMES, backend=NAMES, era=ERAS, profile=NAMES, suite=NAMES, case=NAMES, message=ANY_TEXT,
        status=st.sampled_from(["passed", "failed", "not-run", "not-judged"]), file=MAYBE, line=LINES,
    ),
    "commands": st.builds(
        CommandResult, server=NAMES, backend=NAMES, era=ERAS, profile=NAMES, command=NAMES, output=ANY_TEXT,
        outcome=st.sampled_from(["passed", "failed", "timed-out", "not-started"]), exit=st.none() | st.integers(-9, 9),
        transcripts=COUNT, file=MAYBE, line=LINES,
    ),
    "uncounted": st.builds(Uncounted, server=NAMES, place=NAMES, why=ANY_TEXT),
    "findings": st.builds(
        Finding, check=st.sampled_from(["exercised/missing", "suite/step-failed"]) | NAMES, server=NAMES,
        severity=st.sampled_from(["error", "warning"]), tool=MAYBE, pointer=MAYBE, file=MAYBE, line=LINES,
        message=ANY_TEXT, source=ANY_TEXT, rerun=ANY_TEXT,
        evidence=st.dictionaries(ANY_TEXT, JSON, max_size=3)
        | st.fixed_dictionaries({"kind": st.sampled_from(["one", "two"]), "schema": st.just("inputSchema")}),
    ),
    "errors": st.builds(
        HarnessFailure, kind=st.sampled_from(["stack", "build", "server", "nothing-run"]), code=st.integers(2, 6),
        server=NAMES, message=ANY_TEXT, hint=ANY_TEXT, log=ANY_TEXT,
    ),
    "not_judged": st.builds(NotJudged, check=NAMES, server=NAMES, why=ANY_TEXT, subject=MAYBE, own=st.booleans()),
    "excused": st.builds(
        Excused, check=NAMES, server=NAMES, subject=NAMES, reason=ANY_TEXT, file=NAMES, line=LINES, backend=MAYBE,
    ),
    "lowered": st.builds(
        Lowered, family=NAMES, server=NAMES, to=st.sampled_from(["warning", "off"]), file=NAMES, line=LINES,
        findings=COUNT,
    ),
    "listed": st.builds(
        Listed, server=NAMES, source=NAMES, era=st.none() | ERAS, protocol=ANY_TEXT, tools=COUNT, prompts=COUNT,
        resources=COUNT, whole=st.booleans(),
    ),
}  # fmt: skip
REPORTS = st.builds(
    make_report,
    st.fixed_dictionaries({name: st.lists(part, max_size=3).map(tuple) for name, part in PARTS.items()}).map(
        lambda parts: Judgement(**parts)
    ),
    today=st.sampled_from(["2026-12-01", "2026-12-02"]),
    notes=st.lists(ANY_TEXT, max_size=2),
    partial=st.booleans(),
    strict=st.booleans(),
    require_complete=st.booleans(),
    interrupted=st.booleans(),
)


@pytest.fixture
def samples(clean, findings, failed) -> dict[str, Report]:
    """The three by name."""
    return {"clean": clean, "findings": findings, "failed": failed}


@pytest.fixture
def make():
    """The makers of parts of a report, for tests that need another one."""
    return SimpleNamespace(ran=ran, coverage=coverage, case=case, finding=finding, failure=failure)


@pytest.fixture
def report_of():
    """A report of the parts given by keyword."""

    def of(*, strict=False, partial=False, require_complete=False, interrupted=False, notes=(), folders=None, **parts):
        return make_report(
            Judgement(**{name: tuple(items) for name, items in parts.items()}),
            today=TODAY,
            strict=strict,
            partial=partial,
            require_complete=require_complete,
            interrupted=interrupted,
            notes=notes,
            folders=folders,
        )

    return of


@pytest.fixture(scope="session")
def any_report() -> st.SearchStrategy[Report]:
    """Any report at all; tests draw from it with `st.data()`."""
    return REPORTS
