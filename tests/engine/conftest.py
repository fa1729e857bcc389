"""Real runs of the fixture servers: `play(server, [[step, …], …])` gives the record and the transcripts."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.engine.build import Built
from harness.engine.evidence import read_evidence, run_folder
from harness.engine.mask import Masker
from harness.engine.run import run_one
from harness.engine.scope import open_scope
from harness.engine.stack import Stack
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
from harness.model.transcript import (
    CaseEnded,
    Diagnostic,
    Exited,
    Received,
    RunRecord,
    Sent,
    Stderr,
    StepEnded,
    Transcript,
    Truncated,
)

SERVERS = Path(__file__).parent.parent / "servers"
PLACE = Place(file="harness.toml", line=1)


class Make:
    """Short ways to say steps and cases."""

    @staticmethod
    def call(tool, arguments=None, *, expect=None, **more):
        expect = ExpectSpec(**(expect or {}))
        return StepSpec(action="call", target=tool, arguments=arguments or {}, place=PLACE, expect=expect, **more)

    @staticmethod
    def step(action, target, arguments=None, **more):
        return StepSpec(action=action, target=target, arguments=arguments or {}, place=PLACE, **more)

    @staticmethod
    def case(name, *steps, **more):
        return CaseSpec(id=name, steps=steps, place=PLACE, **more)


ECHO = Make.call("echo", {"text": "hé ★ тест"})


@pytest.fixture
def make():
    return Make


@dataclass(frozen=True)
class Played:
    """What a run left behind."""

    record: RunRecord
    transcripts: tuple[Transcript, ...]
    folder: Path
    run: Run
    project: ProjectSpec
    client: Transcript | None = None

    @property
    def plan(self) -> Plan:
        cell = Cell(server=self.run.key.server, backend="none", roles=(), runs=(self.run,))
        return Plan(projects=(self.project,), cells=(cell,), exemptions=(), servers=(self.run.key.server,))

    def of(self, kind, transcript=None):
        events = self.transcripts[transcript].events if transcript is not None else self.events
        return [event for event in events if isinstance(event, kind)]

    @property
    def events(self):
        return [event for transcript in self.transcripts for event in transcript.events]

    @property
    def lines(self):
        return [event.body.text for event in self.of(Received)]

    @property
    def sent(self):
        return [event.body.text for event in self.of(Sent)]

    @property
    def ends(self):
        return [event.how for event in self.of(StepEnded)]

    @property
    def cases(self):
        return {event.case: event.how for event in self.of(CaseEnded)}

    @property
    def words(self):
        return [event.what for event in self.of(Diagnostic)]

    @property
    def exits(self):
        return self.of(Exited)

    @property
    def cut(self):
        return self.of(Truncated)

    @property
    def stderr(self):
        return self.of(Stderr)


@pytest.fixture
def scope(tmp_path):
    with open_scope(tmp_path) as opened:
        yield opened


@pytest.fixture
def play(tmp_path, scope):
    """Runs a fixture server to the end of its evidence; checks that no process of it is left."""

    async def run_it(
        server,
        cases=((ECHO,),),
        *,
        args=(),
        command=None,
        era="handshake",
        probed=False,
        elicit=None,
        profile=None,
        env=None,
        start_timeout_s=5.0,
        call_timeout_s=2.0,
        stack=None,
        masker=None,
        built=None,
        probe=False,
        client=False,
        commands=(),
        elsewhere=(),
        url="",
    ):
        profile = profile or ProfileSpec(name="plain", elicit=elicit)
        project = ProjectSpec(
            root=SERVERS,
            place=PLACE,
            server=ServerSpec(
                name=server,
                command=command or (sys.executable, f"{server}.py", *args),
                env=env or {},
                start_timeout_s=start_timeout_s,
                call_timeout_s=call_timeout_s,
                transport="http" if url else "stdio",
                url=url,
            ),
            profiles=(profile,),
        )
        made = tuple(
            (
                "suite",
                item if isinstance(item, CaseSpec) else CaseSpec(id=f"case-{index}", steps=tuple(item), place=PLACE),
            )
            for index, item in enumerate(cases)
        )
        run = Run(
            key=RunKey(server=server, backend="none", era=era, profile="plain"),
            roles=(),
            runtime=None,
            profile=profile,
            eras_probed=probed,
            cases=made,
            selected=tuple(f"suite/{case.id}" for _, case in made),
            fingerprint="f" * 16,
            client=client,
            commands=tuple(commands),
        )
        record = await run_one(
            run,
            project,
            built=built or Built(fingerprint=""),
            stack=stack or Stack(values={}, versions={}),
            scope=scope,
            masker=masker or Masker(),
            evidence=tmp_path / "evidence",
            progress=Silent(),
            probe=probe,
            elsewhere=elsewhere,
        )
        played = Played(record, (), run_folder(tmp_path / "evidence", run.key), run, project)
        found = read_evidence(tmp_path / "evidence", played.plan).found
        assert [item.record for item in found] == [record]
        assert all(item.complete for item in found[0].transcripts if not item.is_outside)
        assert left_of(scope) == []
        return Played(record, found[0].transcripts, Path(found[0].folder), run, project, found[0].client)

    return run_it


def left_of(scope):
    """Processes that have this scope's folder in their environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and f"{scope.tmp}/".encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found
