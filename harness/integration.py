"""The door behind `build`, `run`, `integration`, `judge` and `exemptions`: it joins the rooms and prints nothing.

What runs a plan is in `harness.execution`; what only judges does not load it.

Everything that is selected runs, whatever fails; every failure is in the report.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from harness.config.load import Loaded, load, load_healthy
from harness.config.plan import Selection, make_plan
from harness.engine.evidence import (
    Attempt,
    EvidenceLost,
    read_elsewhere,
    read_evidence,
    recordings,
    runtime_seen,
)
from harness.errors import ConfigError, StackError, code_of_kind, iterate_errors
from harness.failures import failure_of
from harness.findings.judge import NotRun, judge
from harness.model.finding import HarnessFailure, Judgement, Report, Uncounted
from harness.model.plan import Plan, ProjectSpec, Run, RunKey, Runtime
from harness.model.transcript import Evidence, RunRecord
from harness.report.build import make_report

__all__ = ["Options", "Outcome", "Timings", "catalogue", "judge_evidence", "load_plan", "rerun_line"]

FILE = "harness.toml"
LOST = "its evidence could not be written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A command line, understood. Paths are as the user gave them, relative to `base`."""

    base: Path
    projects: tuple[Path, ...] = (Path(),)
    central: Path | None = None  # an exemptions file that speaks of all projects, besides their own
    checkouts: Path | None = None  # below it are checkouts, where files are not to be changed
    homes: Mapping[Path, Path] | None = None  # for a list: harness file -> its repository
    absent: tuple[str, ...] = ()  # servers of the list that are not among the projects, "" where the name is not known
    repository: Path | None = None  # the folder that the one project speaks of, where its file is kept elsewhere
    servers: tuple[str, ...] = ()
    default_servers: tuple[str, ...] = ()
    everything: bool = False
    backends: tuple[str, ...] = ()
    eras: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    cases: str = ""
    runtime: str = "auto"  # docker | process | auto
    evidence: Path | None = None
    also: tuple[Path, ...] = ()  # further folders of evidence, recorded elsewhere
    out: Path | None = None
    out_files: tuple[Path, ...] = ()  # single reports besides, by their endings
    state: Path | None = None
    strict: bool = False
    require_complete: bool = False
    rebuild: bool = False
    reuse_stacks: bool = False  # a stack may serve several runs, one after the other, where it can be reset
    kept: Mapping[RunKey, Path] = field(default_factory=dict)  # runs that are not repeated -> their attempts
    stacks: str = ""  # where to ask for such ones: another invocation has them, whose child we are
    today: date | None = None
    idle: bool = False  # somebody else makes the calls: suites are not needed
    through_nox: bool = False  # commands are shown as nox sessions, which name the projects by themselves


def expanded(base: Path, projects: Sequence[str]) -> tuple[Path, ...]:
    """What `--project` means: files, folders with a harness.toml, and folders or patterns of such folders.

    What means nothing is left as it is, for the reader of the files to complain of.
    """
    found: list[Path] = []
    for text in projects:
        path = base / text
        below: list[Path] = []
        if path.is_dir() and not (path / FILE).exists():
            below = [Path(text, name).parent for name in sorted(glob.glob(f"*/{FILE}", root_dir=path))]
        elif glob.has_magic(text) and not path.exists():
            below = [Path(name) for name in sorted(glob.glob(text, root_dir=base)) if (base / name / FILE).exists()]
        found += below or [Path(text)]
    return tuple(found)


@dataclass(slots=True)
class Timings:
    """Seconds per stage, for timings.json; never in report.json."""

    began: float = field(default_factory=time.monotonic)
    stages: list[dict[str, object]] = field(default_factory=list)

    def add(self, subject: str, what: str, seconds: float) -> None:
        """One stage that ended."""
        self.stages.append({"subject": subject, "stage": what, "seconds": round(seconds, 3)})

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """A stage that is nobody's in particular, and that progress does not tell."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add("", what, time.monotonic() - began)

    def to_json(self) -> str:
        """The whole, with the wall time so far."""
        wall = round(time.monotonic() - self.began, 3)
        return json.dumps({"schema": 1, "wall_s": wall, "stages": self.stages}, indent=1, ensure_ascii=False) + "\n"


@dataclass(slots=True)
class Outcome:
    """What a command has come to so far; kept up to date, so that an interruption still has it."""

    plan: Plan | None = None
    errors: list[HarnessFailure] = field(default_factory=list)
    recorded_errors: list[HarnessFailure] = field(default_factory=list)  # which the evidence holds too
    notes: list[str] = field(default_factory=list)
    not_run: dict[RunKey, str] = field(default_factory=dict)
    attempts: dict[RunKey, Path] = field(default_factory=dict)  # what this invocation recorded, and nobody else
    traceback: bool = False

    @property
    def recorded(self) -> int:
        """How many runs gave evidence."""
        return len(self.attempts)

    def add(self, error: BaseException, server: str = "") -> None:
        """Notes every error inside an error, each once."""
        for leaf in iterate_errors(error):
            failure = failure_of(leaf, server, traceback=self.traceback)
            if failure not in self.errors:
                self.errors.append(failure)

    def take(self, record: RunRecord, attempt: Attempt) -> None:
        """Notes a run that gave evidence, with the errors in it."""
        self.not_run.pop(record.key, None)
        self.attempts[record.key] = attempt.folder
        for item in record.errors:
            kind = item.get("kind", "internal")
            failure = HarnessFailure(
                kind=kind,
                code=code_of_kind(kind),
                server=record.key.server,
                message=item.get("message", ""),
                hint=item.get("hint", ""),
                log=item.get("log", ""),
            )
            if failure not in self.recorded_errors:
                self.recorded_errors.append(failure)

    def lose(self, key: RunKey, error: EvidenceLost) -> None:
        """Notes a run whose evidence could not be written to its end."""
        self.not_run[key] = LOST
        self.add(error, key.server)

    def take_what_there_is(self, key: RunKey, attempt: Attempt) -> None:
        """Notes a run that was interrupted: what it recorded until then is evidence."""
        self.not_run.pop(key, None)
        self.attempts[key] = attempt.folder

    def give_up(self, runs: Sequence[Run], error: BaseException, *, evidence: Path, why: str) -> None:
        """Notes an error and the runs that it prevents, also in the evidence, for whoever judges elsewhere."""
        before = len(self.errors)
        for run in runs:
            self.not_run[run.key] = why
        self.add(error, runs[0].key.server)
        errors = tuple(
            {"kind": item.kind, "message": item.message, "hint": item.hint, "log": item.log}
            for item in self.errors[before:]
        )
        for run in runs:
            with suppress(OSError, EvidenceLost):
                record = RunRecord(
                    key=run.key, plan=run.fingerprint, runtime=run.runtime, outcome="failed", errors=errors
                )
                Attempt.create(evidence, run.key).finish(record)


def catalogue() -> tuple[Path, ...]:
    """The folders that hold the shipped backends: in the wheel, or beside the package in a checkout."""
    here = Path(__file__).parent
    return tuple(folder for folder in (here / "backends", here.parent / "backends") if folder.is_dir())


def load_plan(
    options: Options, outcome: Outcome | None = None, *, runtimes: Mapping[str, Runtime] | None = None
) -> tuple[Loaded, Plan]:
    """The files and the plan that follows from them and the selection.

    Args:
        outcome: Takes the problems of broken projects, so that the healthy ones among several run; without it they
            are raised.
        runtimes: As `make_plan` takes them; decided here, by asking the engine, without it.
    Raises:
        ConfigError: Any problem of any file, or of the selection; all at once.
        NothingSelected: No run is planned.
        StackError: Docker was asked for and is not there.
    """
    loaded = _load(options, outcome)
    notes: tuple[str, ...] = ()
    if runtimes is None:
        runtimes, notes = choose_runtimes(options, loaded)
    selection = selection_of(options, loaded)
    return loaded, make_plan(loaded, selection=selection, runtimes=runtimes, notes=notes, idle=options.idle)


def _load(options: Options, outcome: Outcome | None) -> Loaded:
    loaded = _read(options, outcome)
    if options.homes is not None:  # the list itself says who is not here
        names = tuple(sorted(name for name in options.absent if name))
        loaded = dataclasses.replace(loaded, neighbours=names, nameless="" in options.absent)
    return loaded


def _read(options: Options, outcome: Outcome | None) -> Loaded:
    paths = [options.base / path for path in options.projects]
    if outcome is None:
        return load(
            paths,
            base=options.base,
            catalogue=catalogue(),
            exemptions_beside=options.base,
            repository=options.repository,
            central=options.central,
            homes=options.homes,
            neighbours=options.homes is None,
        )
    loaded, problems = load_healthy(
        paths,
        base=options.base,
        catalogue=catalogue(),
        exemptions_beside=options.base,
        repository=options.repository,
        central=options.central,
        homes=options.homes,
        neighbours=options.homes is None,
    )
    if problems is not None:
        if options.servers and set(options.servers) <= set(loaded.broken):
            raise problems
        outcome.add(problems)
    return loaded


def selection_of(options: Options, loaded: Loaded) -> Selection:
    """What the options choose of the files."""
    servers = tuple(name for name in options.servers if name not in loaded.broken)
    if not servers and not options.everything:
        known = {project.server.name for project in loaded.projects}
        servers = tuple(name for name in options.default_servers if name in known)
    return Selection(
        servers=servers,
        backends=options.backends,
        eras=options.eras,
        profiles=options.profiles,
        cases=options.cases,
    )


def choose_runtimes(options: Options, loaded: Loaded) -> tuple[dict[str, Runtime], tuple[str, ...]]:
    """Docker or embedded for each server that has backends, with the cause where it is not what one would expect.

    Raises:
        StackError: Docker was asked for, by --runtime or by a backend's version, and is not there.
    """
    with_roles = [project for project in loaded.projects if project.roles]
    if not with_roles:
        return {}, ()
    asked = [label for label in options.backends if "@" in label]
    embedded = [label for label in asked if label.endswith("@embedded")]
    wanted = options.runtime
    if wanted == "auto" and asked:
        if len(embedded) == len(asked):
            wanted = "process"
        elif not embedded:
            wanted = "docker"
    if wanted == "process":
        return {project.server.name: "process" for project in with_roles}, ()
    chosen: dict[str, Runtime] = {}
    if options.runtime == "auto":
        chosen = {project.server.name: "process" for project in with_roles if _has_no_images(project)}
    rest = [project for project in with_roles if project.server.name not in chosen]
    if not rest:
        return chosen, ()
    more, notes = _by_engine(wanted, rest, others=len(rest) < len(loaded.projects))
    return {**chosen, **more}, notes


def _has_no_images(project: ProjectSpec) -> bool:
    """Whether its backends are there in the embedded form only: no engine is needed for them."""
    backends = [project.backends[name] for role in project.roles for name in role.use]
    return all(backend.process is not None and not backend.services for backend in backends)


def _by_engine(
    wanted: str, with_roles: Sequence[ProjectSpec], *, others: bool
) -> tuple[dict[str, Runtime], tuple[str, ...]]:
    """The runtimes of servers whose backends may need an engine, by whether there is one.

    Args:
        others: Whether there are servers that do without.
    """
    from harness.engine.docker import probe

    found = probe()
    if found.available:
        return {project.server.name: "docker" for project in with_roles}, ()
    if wanted == "docker" and others:  # the others run; these fail, each with the cause
        return {project.server.name: "docker" for project in with_roles}, ()
    if wanted == "docker":
        raise StackError(
            f"Docker was asked for and cannot be used: {found.cause}",
            hint=f"{found.hint or 'start the engine'}; or use --runtime process for backends with an embedded form",
        )
    note = f"embedded backends, because Docker cannot be used: {found.cause}"
    return {project.server.name: "process" for project in with_roles}, (note,)


# --- running --------------------------------------------------------------------------------------


def evidence_root(options: Options, project: ProjectSpec) -> Path:
    if options.evidence is not None:
        return options.base / options.evidence
    return (options.state or project.root / ".rollcall") / "evidence"


# --- judging --------------------------------------------------------------------------------------


def judge_evidence(
    options: Options,
    plan: Plan,
    outcome: Outcome,
    *,
    today: date,
    rerun: Callable[[RunKey, str | None], str] | None = None,
) -> Judgement:
    """Judges what the evidence folders hold for the plan; what a run failed to give is not judged, with the cause.

    Args:
        rerun: The command that shows a run again, or one case of it; `rerun_line` without it.
    """
    found = []
    missing: list[NotRun] = []
    for root in sorted({evidence_root(options, project) for project in plan.projects}):
        names = {project.server.name for project in plan.projects if evidence_root(options, project) == root}
        part = read_evidence(root, _plan_of(plan, names), chosen=outcome.attempts)
        found += [item for item in part.found if item.record.key not in outcome.not_run]
        seen = {item.record.key for item in part.found}
        for key in (*part.missing, *part.outdated):
            if key in seen:
                continue
            why = "the evidence is of another plan" if key in part.outdated else "there is no evidence of it"
            missing.append(NotRun(key=key, why=outcome.not_run.get(key, why), own=False))
    outcome.notes += [note for note in _stack_notes(plan, found) if note not in outcome.notes]
    uncounted = _recorded_alone(options, plan)
    for other in options.also:
        uncounted += _admit(options.base / other, plan, found, missing)
    listed = {item.key for item in missing}
    missing += [NotRun(key=key, why=why, own=False) for key, why in outcome.not_run.items() if key not in listed]
    judgement = judge(
        plan,
        found,
        missing=missing,
        today=today,
        rerun=rerun or (lambda key, case: rerun_line(options, plan, key, case)),
    )
    return dataclasses.replace(judgement, uncounted=tuple(uncounted))


def _stack_notes(plan: Plan, found: Sequence[Evidence]) -> Iterator[str]:
    """What the evidence says of stacks that served several runs: in the first line, for it is no run's own doing."""
    for project in plan.projects:
        server = project.server.name
        records = [item.record for item in found if item.record.key.server == server]
        spoken = [record for record in records if record.outcome != "not-spoken"]
        again = sum(record.stack_use > 1 for record in spoken)
        if again:
            yield f"{server}: {again} of {len(spoken)} runs had a stack that was reset after another run"
        yield from (f"{record.key}: {record.stack_note}" for record in records if record.stack_note)


def _recorded_alone(options: Options, plan: Plan) -> list[Uncounted]:
    """Recordings of the proxy beside the evidence, which count for nothing."""
    roots = sorted({evidence_root(options, project) for project in plan.projects})
    return [
        Uncounted(
            server=server,
            place=place,
            why=f"{number} {'recording' if number == 1 else 'recordings'} without a plan: nobody says of which build "
            "and backend; under [suites] commands they would count",
        )
        for root in roots
        for server, place, number in recordings(root)
    ]


def _admit(root: Path, plan: Plan, found: list[Evidence], missing: list[NotRun]) -> list[Uncounted]:
    """Takes what another folder holds of the same servers and builds into the evidence; what it does not, is told."""
    if not root.is_dir():
        raise ConfigError(f"there is no folder {root}", hint="--also takes a folder of evidence")
    builds = {item.record.key.server: item.record.build for item in found}
    fingerprints = {run.key: run.fingerprint for run in selected_runs(plan)}
    out = []
    other = read_elsewhere(root, plan, builds)
    at = {item.record.key: index for index, item in enumerate(found)}
    for item in other.admitted:
        key = item.record.key
        if key not in at and item.record.plan == fingerprints[key]:
            found.append(item)
            missing[:] = [gap for gap in missing if gap.key != key]
            continue
        if key not in at:
            place = os.path.relpath(item.folder, root)
            why = "it is of another state of the suites, and there is no evidence of this run that it could add to"
            out.append(Uncounted(server=key.server, place=place, why=why))
            continue
        known = found[at[key]]
        names = {transcript.name for transcript in known.transcripts}
        more = tuple(one for one in item.transcripts if one.is_outside and one.name not in names)
        found[at[key]] = dataclasses.replace(known, transcripts=(*known.transcripts, *more))
    return [*out, *(Uncounted(server=server, place=place, why=why) for server, place, why in other.left_out)]


def _plan_of(plan: Plan, names: set[str]) -> Plan:
    return dataclasses.replace(plan, cells=tuple(cell for cell in plan.cells if cell.server in names))


def runtimes_of_evidence(options: Options, loaded: Loaded) -> dict[str, Runtime]:
    """For judging without an engine: the runtime of each server's newest evidence; where there is none, Docker, or what
    its backends have.
    """
    if options.runtime in ("docker", "process"):
        wanted: Runtime = "docker" if options.runtime == "docker" else "process"
        return {project.server.name: wanted for project in loaded.projects if project.roles}
    return {
        project.server.name: runtime_seen(evidence_root(options, project), project.server.name)
        or ("process" if _has_no_images(project) else "docker")
        for project in loaded.projects
        if project.roles
    }


def load_plan_for_judging(options: Options, outcome: Outcome | None = None) -> tuple[Loaded, Plan]:
    """As `load_plan`, but the evidence says which runtime is judged; no engine is asked."""
    loaded = _load(options, outcome)
    return loaded, plan_for_judging(options, loaded, runtimes_of_evidence(options, loaded))


def plan_for_judging(options: Options, loaded: Loaded, runtimes: Mapping[str, Runtime]) -> Plan:
    """The plan of the selection, with the backends of each server in a runtime that is given."""
    return make_plan(loaded, selection=selection_of(options, loaded), runtimes=runtimes)


def rerun_line(options: Options, plan: Plan, key: RunKey, case: str | None) -> str:
    """The command, quoted for a shell, that does a cell again, or one case of one run of it."""
    project = plan.project_of(key.server)
    where = os.path.relpath(project.root, options.base)
    parts = ["nox", "-s", "integration", "--"] if options.through_nox else ["mcp-rollcall", "integration"]
    if where != "." and not options.through_nox:
        parts += ["--project", where]
    parts += ["--server", key.server]
    if key.backend != "none":
        parts += ["--backend", key.backend]
    if case is not None:
        parts += ["--era", key.era, "--profile", key.profile, "-k", case]
    return shlex.join(parts)


def report_of(
    options: Options, outcome: Outcome, judgement: Judgement, *, today: date, interrupted: str = ""
) -> Report:
    """The report over a judgement and the errors that no evidence holds."""
    plan = outcome.plan
    errors = list(outcome.errors)
    if interrupted:
        message = f"interrupted by {interrupted}; everything was cleaned up"
        errors.append(HarnessFailure(kind="interrupted", code=130, server="", message=message))
    return make_report(
        judgement,
        today=today.isoformat(),
        errors=errors,
        notes=[*outcome.notes, *(plan.notes if plan else ())],
        partial=bool(plan and plan.partial),
        strict=options.strict,
        require_complete=options.require_complete,
        interrupted=bool(interrupted),
        folders=_folders(options, plan),
    )


def _folders(options: Options, plan: Plan | None) -> dict[str, str]:
    """What stands for absolute folders in a report: it must read the same on every machine."""
    found = {str(options.base): "."}
    for project in plan.projects if plan else ():
        found.setdefault(str(project.root), os.path.relpath(project.root, options.base))
    return {folder: name for folder, name in found.items() if folder != "/"}


def report_folder(options: Options) -> Path:
    """Where the reports go: known from the command line alone, so that an old one never stands for a failed run."""
    chosen = options.out or options.state
    if chosen is not None:
        return chosen
    if len(options.projects) != 1 or not (options.base / options.projects[0]).exists():
        return options.base / ".rollcall"
    project = options.base / options.projects[0]
    return (project.parent if project.name.endswith(".toml") else project) / ".rollcall"


@contextmanager
def collecting(outcome: Outcome) -> Iterator[None]:
    """Errors raised inside become errors of the outcome."""
    try:
        yield
    except Exception as error:
        outcome.add(error)


def selected_runs(plan: Plan) -> list[Run]:
    """All planned runs, in order."""
    return [run for cell in plan.cells for run in cell.runs]
