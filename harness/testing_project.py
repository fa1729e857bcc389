"""The server of a project, for tests in code: built, and started as harness.toml says on a stack of its own."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from harness.engine.answers import Hook
from harness.engine.build import build, state_folder
from harness.engine.evidence import Attempt
from harness.engine.live import LiveServer
from harness.engine.live_start import open_live
from harness.engine.mask import Masker
from harness.engine.run import session_of
from harness.engine.scope import open_scope
from harness.engine.stack import open_stack
from harness.errors import ConfigError
from harness.execution import settle
from harness.integration import Options, load_plan
from harness.model.plan import Cell, Era, Plan, ProfileSpec, Run
from harness.model.progress import Silent
from harness.testing_spec import session_spec
from harness.testing_stack import RuntimeChoice

__all__ = ["open_project"]


async def open_project(
    path: str | os.PathLike[str],
    *,
    base: Path,
    backend: str | None,
    runtime: RuntimeChoice,
    profile: str | None,
    era: Era | None,
    env: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    client: tuple[ProfileSpec, Hook | None] | None,
    call_timeout_s: float | None,
    start_timeout_s: float | None,
    evidence: Path | None,
    began: float | None,
) -> LiveServer:
    """The server of a project on a stack of its own; both go with the server.

    Args:
        base: What paths are relative to.
    Raises:
        ConfigError: A problem of its files, or of what is asked for.
        BuildError, StackError, ServerError: It could not be built, stood up or started.
    """
    progress = Silent()
    options = Options(
        base=base,
        projects=(Path(path),),
        backends=() if backend is None else (backend,),
        profiles=() if profile is None else (profile,),
        eras=() if era is None else (era,),
        runtime=runtime,
        idle=True,
    )
    loaded, plan = await asyncio.to_thread(load_plan, options)
    plan = await settle(options, loaded, plan, progress=progress)
    run = _run_of(plan, path)
    project = plan.project_of(run.key.server)
    async with AsyncExitStack() as undo:
        scope = undo.enter_context(open_scope())
        masker = Masker()
        state = state_folder(project.root)
        built = await build(project, state=state, scope=scope, progress=progress)
        stack = await undo.enter_async_context(
            open_stack(
                run.roles,
                project.backends,
                runtime=run.runtime,
                scope=scope,
                masker=masker,
                progress=progress,
                subject=f"{run.key.server} {run.key.backend}",
                state=state,
            )
        )
        folder = scope.tmp / "evidence" if evidence is None else evidence
        session = session_of(
            run,
            project,
            built=built,
            stack=stack,
            scope=scope,
            masker=masker,
            attempt=Attempt(folder),
            began=time.monotonic() if began is None else began,
        )
        spec = session_spec(
            session,
            profile=run.key.profile,
            env=env,
            headers=headers,
            client=client,
            call_timeout_s=call_timeout_s,
            start_timeout_s=start_timeout_s,
        )
        if era is None and run.eras_probed:
            spec = replace(spec, era=None)
        live = await open_live(spec)
        live.afterwards = undo.pop_all().aclose
        return live
    raise AssertionError("unreachable")


def _run_of(plan: Plan, path: str | os.PathLike[str]) -> Run:
    """The first run of the only cell.

    Raises:
        ConfigError: There are several cells.
    """
    if len(plan.cells) > 1:
        names = ", ".join(_name(cell, plan) for cell in plan.cells)
        raise ConfigError(f"{os.fspath(path)} can be run in {len(plan.cells)} ways: {names}", hint="name one: backend=")
    return plan.cells[0].runs[0]


def _name(cell: Cell, plan: Plan) -> str:
    return cell.backend if len(plan.projects) == 1 else f"{cell.server} with {cell.backend}"
