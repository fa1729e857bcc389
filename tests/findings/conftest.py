# ruff: noqa: A002, F401
"""Transcripts written by hand, one call a line; plans that fit them; and `judged`, which judges them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.findings.judge import NotRun, judge
from harness.model.outcome import expect_from_json
from harness.model.plan import (
    CaseSpec,
    Cell,
    CheckSettings,
    CommandSpec,
    ExemptionSpec,
    LoweredSpec,
    Place,
    Plan,
    ProfileSpec,
    ProjectSpec,
    RoleChoice,
    RoleSpec,
    Run,
    RunKey,
    ServerSpec,
    StepSpec,
    SuiteSpec,
)
from harness.model.transcript import (
    Body,
    CaseEnded,
    CaseStarted,
    CommandRecord,
    Diagnostic,
    Evidence,
    Exited,
    HttpEnded,
    HttpRequest,
    HttpResponse,
    Orphan,
    Received,
    RunRecord,
    Sent,
    Spawned,
    Stderr,
    StepEnded,
    StepRef,
    StepStarted,
    Transcript,
    Truncated,
    parse_lines,
    record_from_json,
)

TODAY = date(2026, 12, 1)
NOWHERE = "nowhere.toml"
QUIET = (
    "annotation",
    "output-schema",
    "portability",
)  # off unless a test names them: what Tape.start lists has a name and no more
OK = {"content": [{"type": "text", "text": "fine"}]}


def text(value, **more):
    """A tool result with one text."""
    return {"content": [{"type": "text", "text": value}], **more}


def failure(value):
    """A tool result with isError."""
    return text(value, isError=True)


def hello(**more):
    """A good answer to initialize."""
    info = {"name": "fixture", "version": "1.0"}
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info, **more}


class Tape:
    """Writes one transcript, as the engine would."""

    def __init__(self, name="server-1.jsonl", *, suite="s"):
        self.name, self.suite, self.events, self.offset, self.ids = name, suite, [], 0, 0
        self.pending, self.last, self.case_id, self.index, self.ended = {}, None, None, {}, False

    def add(self, kind, **values):
        self.events.append(kind(n=len(self.events) + 1, t=len(self.events) / 100, **values))
        return self.events[-1]

    def send(self, method, params=None, *, label=None, step=None, round=1, id=...):
        self.ids += 1
        identity = self.ids if id is ... else id
        message = {"jsonrpc": "2.0", "id": identity, "method": method}
        if params is not None:
            message["params"] = params
        label = label or (f"tools/call {params['name']}" if method == "tools/call" else method)
        self.add(Sent, body=Body(json.dumps(message).encode()), label=label, step=step, round=round)
        self.pending[repr(identity)] = self.last = label
        return identity

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.add(Sent, body=Body(json.dumps(message).encode()), label=method)

    def raw(self, data, *, end="lf"):
        data = data.encode() if isinstance(data, str) else data
        flying = tuple(self.pending.values())
        after = None if flying else self.last
        self.add(Received, at=self.offset, body=Body(data), end=end, in_flight=flying, after=after)
        self.offset += len(data) + (end == "lf")

    def message(self, value):
        self.raw(json.dumps(value))

    def reply(self, identity, result=None, *, error=None, as_id=...):
        message = {"jsonrpc": "2.0", "id": identity if as_id is ... else as_id}
        message.update({"error": error} if error is not None else {"result": result})
        self.message(message)
        self.pending.pop(repr(identity), None)

    def start(self, tools=("echo",), *, capabilities=None, pages=None, version="2025-11-25", prompts=(), resources=()):
        self.add(Spawned, argv=("server",), cwd=".", env=("PATH",), pid=1)
        capabilities = {"tools": {}} if capabilities is None else capabilities
        info = {"name": "fixture", "version": "1.0"}
        one = self.send("initialize", {"protocolVersion": version})
        self.reply(one, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        self.notify("notifications/initialized")
        pages = [tools] if pages is None else pages
        for number, names in enumerate(pages):
            two = self.send("tools/list", {"cursor": f"p{number}"} if number else {})
            listed = [
                name if isinstance(name, dict) else {"name": name, "inputSchema": {"type": "object"}} for name in names
            ]
            more = {"nextCursor": f"p{number + 1}"} if number + 1 < len(pages) else {}
            self.reply(two, {"tools": listed, **more})
        if prompts:
            self.reply(self.send("prompts/list", {}), {"prompts": [{"name": name} for name in prompts]})
        if resources:
            self.reply(self.send("resources/list", {}), {"resources": [{"uri": uri, "name": uri} for uri in resources]})
        return self

    def case(self, name):
        self.add(CaseStarted, suite=self.suite, case=name)
        self.case_id, self.index = name, {"step": 0, "cleanup": 0}
        return self

    def done(self, how="completed"):
        self.add(CaseEnded, suite=self.suite, case=self.case_id, how=how)
        return self

    def begin(self, target, arguments=None, *, action="call", expect=None, phase="step", attempt=1, **more):
        ref = StepRef(suite=self.suite, case=self.case_id, phase=phase, index=self.index[phase], attempt=attempt)
        self.add(
            StepStarted,
            step=ref,
            action=action,
            target=target,
            arguments=arguments or {},
            expect=expect or {},
            timeout_s=more.pop("timeout_s", 30.0),
            **more,
        )
        return ref

    def finish(self, ref, how="answered", detail=""):
        self.add(StepEnded, step=ref, how=how, detail=detail)
        if how != "retried":
            self.index[ref.phase] += 1
        return self

    def call(self, ref, tool, arguments=None, *, round=1, id=...):
        params = {"name": tool, "arguments": arguments or {}}
        return self.send("tools/call", params, step=ref, round=round, id=id)

    def step(self, tool, result=OK, *, error=None, arguments=None, how="answered", **more):
        ref = self.begin(tool, arguments, **more)
        identity = self.call(ref, tool, arguments)
        self.reply(identity, result, error=error)
        return self.finish(ref, how)

    def time_out(self, ref, identity, label):
        self.add(Diagnostic, what="timeout", detail=label, step=ref)
        self.notify("notifications/cancelled", {"requestId": identity})
        self.pending.pop(repr(identity), None)
        return self.finish(ref, "timed-out")

    def stop(self, *, code=0, asked=True, ended_by="stdin-close", waited_s=0.1, stderr="", orphans=()):
        flying = tuple(self.pending.values())
        self.add(Stderr, body=Body(stderr.encode()), size=len(stderr))
        self.add(
            Exited,
            code=code,
            asked=asked,
            ended_by=ended_by if asked else "itself",
            waited_s=waited_s if asked else 0.0,
            in_flight=flying,
            orphans=tuple(Orphan(pid=7, command=command) for command in orphans),
        )
        self.ended = True
        return self

    def transcript(self):
        return Transcript(name=self.name, events=tuple(self.events), complete=self.ended)


def cases_of(transcripts, *, extra=()):
    """The cases that transcripts show, as a plan would have them; a step's line is 10 × (its index + 1)."""
    steps, names = {}, {}
    for transcript in transcripts:
        for event in () if transcript.is_outside else transcript.events:
            if isinstance(event, CaseStarted):
                names.setdefault((event.suite, event.case))
            if isinstance(event, StepStarted):
                ref = event.step
                names.setdefault((ref.suite, ref.case))
                steps[ref.suite, ref.case, ref.phase, ref.index] = StepSpec(
                    action=event.action,
                    target=event.target,
                    place=Place(file=f"suites/{ref.suite}.toml", line=10 * (ref.index + 1)),
                    arguments=event.arguments,
                    expect=expect_from_json(event.expect),
                    unlisted=event.unlisted,
                    confirm=event.confirm,
                    timeout_s=event.timeout_s,
                )
    out = [(suite, _case(suite, case, steps)) for suite, case in names]
    return (*out, *extra)


def _case(suite, case, steps):
    def of(phase):
        found = {index: step for (s, c, p, index), step in steps.items() if (s, c, p) == (suite, case, phase)}
        return tuple(step for _, step in sorted(found.items()))

    return CaseSpec(id=case, steps=of("step"), cleanup=of("cleanup"), place=Place(file=f"suites/{suite}.toml", line=1))


def plain_case(name, *tools):
    """A planned case with a call of each tool."""
    place = Place(file="suites/s.toml", line=5)
    return (
        "s",
        CaseSpec(id=name, steps=tuple(StepSpec(action="call", target=t, place=place) for t in tools), place=place),
    )


def key(server="fixture", backend="none", era="handshake", profile="plain"):
    return RunKey(server=server, backend=backend, era=era, profile=profile)


def evidence(run_key, *tapes, outcome="finished", cases=None, folder=None, **more):
    """Evidence of one run."""
    transcripts = tuple(tape.transcript() if isinstance(tape, Tape) else tape for tape in tapes)
    if cases is None:
        cases = tuple(f"{suite}/{case.id}" for suite, case in cases_of(transcripts))
    values = {"server_info": {"name": "fixture", "version": "1.0"}, "protocol": "2025-11-25", **more}
    record = RunRecord(key=run_key, plan="f", runtime=None, outcome=outcome, cases=tuple(cases), **values)
    return Evidence(record=record, transcripts=transcripts, folder=folder or str(run_key))


def exempt(subject, reason="needs a second account that is not here", *, check="exercised", line=7, **more):
    values = {"server": "fixture", "place": Place(file="exemptions.toml", line=line), **more}
    return ExemptionSpec(check=check, subject=subject, reason=reason, **values)


def plan_for(
    found,
    *,
    exemptions=(),
    checks=(),
    level="succeeded",
    servers=(),
    extra=(),
    selected=None,
    partial=False,
    probed=True,
    roles=(),
    backends=None,
    also=(),
    eras=("handshake",),
    versions=(),
    parameters="report",
    tokens=None,
    contract=None,
    commands=(),
):
    """A plan that has exactly the runs of the evidence, and those of `also`."""
    by_cell = {}
    union = {}
    for item in found:
        for suite, case in cases_of(item.transcripts):
            union.setdefault((suite, case.id), (suite, case))
            known = union[suite, case.id][1]
            if len(case.steps) + len(case.cleanup) > len(known.steps) + len(known.cleanup):
                union[suite, case.id] = (suite, case)
    cases = (*union.values(), *extra)
    names = tuple(f"{suite}/{case.id}" for suite, case in cases)
    for run_key in dict.fromkeys([*(item.record.key for item in found), *also]):
        by_cell.setdefault((run_key.server, run_key.backend), []).append(run_key)
    cells = []
    for (server, backend), keys in by_cell.items():
        choices = () if backend == "none" else tuple(_choice(part) for part in backend.split("+"))
        runs = tuple(
            Run(
                key=run_key,
                roles=choices,
                runtime=None,
                profile=ProfileSpec(name=run_key.profile),
                eras_probed=probed,
                cases=cases,
                selected=names if selected is None else selected,
                fingerprint="f",
                commands=commands,
            )
            for run_key in keys
        )
        cells.append(Cell(server=server, backend=backend, roles=choices, runs=runs))
    named = {family.partition("/")[0] for family, _ in checks}
    lowered = tuple(
        LoweredSpec(family=family, to=to, place=Place(file="harness.toml", line=12)) for family, to in checks
    )
    lowered += tuple(
        LoweredSpec(family=family, to="off", place=Place(file=NOWHERE)) for family in QUIET if family not in named
    )
    projects = tuple(
        ProjectSpec(
            root=Path("/nowhere"),
            place=Place(file="harness.toml"),
            server=ServerSpec(name=server, command=("server",), eras=None if probed and eras is None else eras),
            checks=CheckSettings(
                exercised=level,
                lowered=lowered,
                parameters=parameters,
                tokens=tokens,
                places={key: Place(file="harness.toml", line=13) for key in ("parameters", "tokens")},
            ),
            suites=(SuiteSpec(id="s", cases=tuple(case for _, case in cases), place=Place(file="suites/s.toml")),),
            profiles=tuple(
                ProfileSpec(name=name) for name in dict.fromkeys(r.key.profile for c in cells for r in c.runs)
            ),
            roles=_roles(cells, roles, versions),
            backends=backends or {},
            contract=contract,
        )
        for server in dict.fromkeys(cell.server for cell in cells)
    )
    known = tuple(dict.fromkeys([*(cell.server for cell in cells), *servers]))
    return Plan(projects=projects, cells=tuple(cells), exemptions=tuple(exemptions), servers=known, partial=partial)


def _choice(label):
    name, _, version = label.partition("@")
    return RoleChoice(role=name, backend=name, version=version)


def _roles(cells, roles, versions):
    if roles:
        return roles
    found = {}
    for cell in cells:
        for choice in cell.roles:
            found.setdefault(choice.backend, dict.fromkeys(versions))[choice.version] = None
    return tuple(
        RoleSpec(role=name, use=(name,), versions=tuple(seen), place=Place(file="harness.toml", line=4))
        for name, seen in found.items()
    )


def rerun(run_key, case):
    return f"mcp-rollcall run --server {run_key.server}" + (f" -k {case}" if case else "")


def judged(*found, missing=(), today=TODAY, plan=None, **more):
    """The judgement of evidence under a plan that fits it."""
    judgement = judge(plan or plan_for(found, **more), found, missing=missing, today=today, rerun=rerun)
    return replace(judgement, lowered=tuple(item for item in judgement.lowered if item.file != NOWHERE))


def checks(judgement):
    """The ids of the findings, sorted."""
    return sorted(finding.check for finding in judgement.findings)


def one(judgement, check):
    """The only finding of a check."""
    found = [finding for finding in judgement.findings if finding.check == check]
    assert len(found) == 1, [(finding.check, finding.message) for finding in judgement.findings]
    return found[0]


def good(**more):
    """A run in which everything is as it should be."""
    return evidence(key(), Tape().start().case("one").step("echo").done().stop(), **more)


def read_folder(folder):
    """Evidence as it lies in a folder: run.json and transcripts."""
    record = record_from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))

    def read(path):
        return parse_lines(path.name, path.read_text(encoding="utf-8").splitlines())

    paths = sorted(folder.glob("*.jsonl"))
    transcripts = tuple(read(path) for path in paths if path.name != "client-1.jsonl")
    client = next((read(path) for path in paths if path.name == "client-1.jsonl"), None)
    return Evidence(record=record, transcripts=transcripts, folder=folder.name, client=client)


@pytest.fixture(scope="session")
def t():
    """Everything above, under one name."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("_")})
