"""The door behind `check`: what can be said of the files before anything runs, beside that they are well formed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.config.problems import did_you_mean
from harness.engine.guard import check_headers, check_roots, check_targets
from harness.engine.run import placed
from harness.findings.exemptions import unknown_check
from harness.model.placeholders import expand, names_in
from harness.model.plan import Cell, ExemptionSpec, Plan, ProfileSpec, ProjectSpec

__all__ = ["foreign_targets", "unknown_names", "unset_variables"]

# They stand for what a stack would hand out; the judgement is about everything else.
_PORT = 49151
_OWN_PORT = 49150
_SECRET = "x" * 16
_KNOWN = re.compile(r"address\.|port\.|secret\.|service\.|version$|dir$")


def unknown_names(plan: Plan, entries: Sequence[ExemptionSpec]) -> list[str]:
    """A sentence for every entry about a server that no file knows, or a check that there is not."""
    out = []
    for entry in entries:
        head = f"{entry.place} [{entry.server}.{entry.check}] {entry.subject}: "
        if entry.problems:
            continue
        if entry.server not in plan.servers:
            out.append(f"{head}there is no server {entry.server!r}; {did_you_mean(entry.server, plan.servers)}")
        elif (said := unknown_check(entry)) is not None:
            out.append(head + said[1])
    return out


def unset_variables(plan: Plan) -> list[str]:
    """A sentence for every variable of the caller's that a server is to get and that is not set here."""
    found: dict[str, None] = {}
    for cell in plan.cells:
        project = plan.project_of(cell.server)
        for run in cell.runs:
            tables = (
                (("server", "env"), project.server.env),
                (("server", "headers"), project.server.headers),
                (("profiles", run.profile.name, "env"), run.profile.env),
            )
            for table, declared in tables:
                for name, text in declared.items():
                    place = project.places.get((*table, name), project.place)
                    for used in names_in(text):
                        if used.startswith("env.") and used.removeprefix("env.") not in os.environ:
                            found[f"{place} [{'.'.join(table)}] {name}: ${{{used}}} is not set here"] = None
    return list(found)


def foreign_targets(plan: Plan) -> list[str]:
    """A sentence for everything that is declared for a server and points outside of its stack, whatever that will be.

    What depends on values that only a run has (provisioned ones, variables that are not set) is left to the run.
    """
    found: dict[str, None] = {}
    for cell in plan.cells:
        project = plan.project_of(cell.server)
        for run in cell.runs:
            found |= dict.fromkeys(_of_run(project, cell, run.profile))
    return list(found)


def _of_run(project: ProjectSpec, cell: Cell, profile: ProfileSpec) -> Iterator[str]:
    values = _values(project, cell)
    declared = {**project.server.env, **profile.env}
    open_names = {name for name, text in declared.items() if not set(names_in(text)) <= values.keys()}
    open_command = not set(names_in(project.server.command)) <= values.keys()
    if open_names:  # a pair of host and port may be completed by them
        stems = {re.sub(r"_?[A-Za-z]+\d*$", "", name) for name in open_names}
        open_names |= {name for name in declared if any(stem and name.startswith(stem) for stem in stems)}
    command = () if open_command else tuple(expand(part, values) for part in project.server.command)
    for sentence in check_targets(
        {name: expand(text, values) for name, text in declared.items() if name not in open_names},
        command,
        allowed=[("127.0.0.1", _PORT)],
        own_port=_OWN_PORT,
        names=[service.name for choice in cell.roles for service in project.backends[choice.backend].services],
        folders=(project.root, Path(str(values["tmp"]))),
    ):
        yield placed(project, profile, sentence)
    headers = {name: text for name, text in project.server.headers.items() if set(names_in(text)) <= values.keys()}
    for sentence in check_headers(
        {name: expand(text, values) for name, text in headers.items()},
        allowed=[("127.0.0.1", _PORT)],
        own_port=_OWN_PORT,
        names=[service.name for choice in cell.roles for service in project.backends[choice.backend].services],
        folders=(project.root, Path(str(values["tmp"]))),
    ):
        yield placed(project, profile, sentence)
    roots = [item.uri for item in profile.roots or ()]
    if set(names_in(roots)) <= values.keys():
        folders = (project.root, Path(str(values["tmp"])))
        for sentence in check_roots([expand(uri, values) for uri in roots], folders=folders):
            yield placed(project, profile, sentence)


def _values(project: ProjectSpec, cell: Cell) -> Mapping[str, str]:
    values = {"repo": str(project.root), "tmp": "/tmp/rollcall", "port": str(_OWN_PORT)}
    values |= {f"env.{name}": text for name, text in os.environ.items()}
    for choice in cell.roles:
        for output in project.backends[choice.backend].outputs:
            names = set(names_in(output.value))
            if all(_KNOWN.match(name) for name in names):
                inner = {name: _stand_in(name) for name in names}
                values[f"backend.{choice.role}.{output.name}"] = expand(output.value, inner)
    return values


def _stand_in(name: str) -> str:
    kind = name.partition(".")[0]
    return {"address": f"127.0.0.1:{_PORT}", "port": str(_PORT), "service": name.partition(".")[2]}.get(kind, _SECRET)
