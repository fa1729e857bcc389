"""The door behind `plan`: the planned runs as commands, as JSON, or as the matrix of a CI service. It runs nothing.

Each job of a matrix records the evidence of its part with `mcp-rollcall run`; `judge`, with the same selection, then
judges the evidence of all of them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.integration import Options, load_plan
from harness.model.plan import Cell, Run

__all__ = ["FORMATS", "MOST_JOBS", "Job", "jobs", "render"]

FORMATS = ("text", "json", "github", "gitlab")
# what each service takes in one matrix, as documented by it
MOST_JOBS = {"github": 256, "gitlab": 200}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a matrix. `era` and `profile` are "" where it takes all of them.

    `arguments` select its part for `mcp-rollcall run`, from the folder where `plan` was called.
    """

    server: str
    backend: str
    era: str = ""
    profile: str = ""
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """The job, for people."""
        return " ".join(part for part in (self.server, self.backend, self.era, self.profile) if part)


def jobs(options: Options, *, by: str = "cell") -> list[Job]:
    """The jobs that together record all that is selected.

    Args:
        by: "cell": one for each server and choice of backends; "run": one for each era and profile of these, too.
    Raises:
        ConfigError: Any problem of any file, or of the selection; all at once.
        NothingSelected: No run is planned.
        StackError: Docker was asked for and is not there.
    """
    loaded, plan = load_plan(options)
    several = len(loaded.projects) > 1
    out = []
    for cell in plan.cells:
        file = Path(plan.project_of(cell.server).place.file)
        place = str(file.parent if file.name == "harness.toml" else file)
        where = [] if place == "." and not several else [f"--project={place}"]
        parts = [cell.runs] if by == "cell" else [(run,) for run in cell.runs]
        out += [_job(options, cell, runs, where, by=by) for runs in parts]
    return out


def _job(options: Options, cell: Cell, runs: Sequence[Run], where: Sequence[str], *, by: str) -> Job:
    key = runs[0].key
    single = by == "run"
    eras = [key.era] if single else list(options.eras)
    profiles = [key.profile] if single else list(options.profiles)
    arguments = [*where, f"--server={cell.server}", f"--backend={cell.backend}"]
    arguments += [f"--era={era}" for era in eras] + [f"--profile={profile}" for profile in profiles]
    if options.cases:
        arguments += ["-k", options.cases]
    return Job(
        server=cell.server,
        backend=cell.backend,
        era=key.era if single else "",
        profile=key.profile if single else "",
        arguments=tuple(arguments),
    )


def render(found: Sequence[Job], form: str) -> str:
    """The jobs in one of FORMATS.

    Raises:
        ConfigError: More jobs than the service takes in one matrix.
    """
    most = MOST_JOBS.get(form)
    if most is not None and len(found) > most:
        raise ConfigError(
            f"{len(found)} jobs are planned, and a matrix of {form} takes {most}",
            hint="plan fewer with --server, --backend, --era or --profile, or one job for each cell with --by cell",
        )
    match form:
        case "github":
            return json.dumps({"include": [_entry(job) for job in found]}, ensure_ascii=True)
        case "gitlab":
            return _gitlab(found)
        case "json":
            whole = {"schema": 1, "include": [{**_entry(job), "arguments": list(job.arguments)} for job in found]}
            return json.dumps(whole, ensure_ascii=False, indent=1)
        case _:
            return "\n".join(shlex.join(["mcp-rollcall", "run", *job.arguments]) for job in found)


def _entry(job: Job) -> dict[str, str]:
    """A row: what the job is called, and its part on each axis that is divided."""
    axes = {"name": job.name, "server": job.server, "backend": job.backend}
    return {**axes, "era": job.era, "profile": job.profile} if job.era else axes


def _gitlab(found: Sequence[Job]) -> str:
    """A file to include: the matrix of a job `run` whose script stands elsewhere. JSON is YAML."""
    rows = []
    for job in found:
        entry = {key: value for key, value in _entry(job).items() if key != "name"}
        rows.append({f"ROLLCALL_{key.upper()}": _literal(value) for key, value in entry.items()})
    return json.dumps({"run": {"parallel": {"matrix": rows}}}, ensure_ascii=True, indent=1)


def _literal(text: str) -> str:
    """GitLab expands `$` in the values of variables; `$$` is one of them."""
    return text.replace("$", "$$")
