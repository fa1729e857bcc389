"""What a stack costs a run: one of its own, stood up and taken down, against one that is reset; in Docker."""

from __future__ import annotations

import time
from pathlib import Path

import anyio

from bench.driver import ROOT
from bench.table import Table, ratios, spread
from harness.config.load import load_backend
from harness.engine.lend import Stacks, open_stacks
from harness.engine.mask import Masker
from harness.engine.scope import open_scope
from harness.model.plan import BackendSpec, RoleChoice
from harness.model.progress import Silent

__all__ = ["run"]


def run(*, rounds: int, quick: bool) -> list[Table]:
    """Every shipped backend that can be reset; the image is there before anything is measured."""
    specs = [load_backend(file.parent, base=ROOT) for file in sorted((ROOT / "backends").glob("*/backend.toml"))]
    able = [spec for spec in specs if spec.reset is not None]
    rows = []
    for spec in able[-1:] if quick else able:
        own, again = anyio.run(_measure, spec, rounds)
        rows.append((f"{spec.name}@{spec.default}", spread(own), spread(again), ratios(again, own)))
    about = (
        f"From the wish for a stack to the moment at which it is gone, or free for the next run, {rounds} times, side "
        "by side: one that is stood up, and one that was used, is reset and checked. The run itself takes no time here."
    )
    head = ("backend", "of its own, s", "reset, s", "reset against its own")
    return [Table(name="reset", title="Stacks that are reset", about=about, head=head, rows=tuple(rows))]


async def _measure(spec: BackendSpec, rounds: int) -> tuple[list[float], list[float]]:
    own: list[float] = []
    again: list[float] = []
    with open_scope() as scope:
        async with (
            open_stacks(again=False, scope=scope, progress=Silent()) as fresh,
            open_stacks(again=True, scope=scope, progress=Silent()) as shelf,
        ):
            await _once(shelf, spec, scope.tmp)
            for _ in range(rounds):
                own.append(await _once(fresh, spec, scope.tmp))
                again.append(await _once(shelf, spec, scope.tmp, use=len(again) + 2))
    return own, again


async def _once(stacks: Stacks, spec: BackendSpec, state: Path, *, use: int = 1) -> float:
    """Seconds of a run that does nothing."""
    began = time.monotonic()
    async with stacks.lend(
        [RoleChoice(role="backend", backend=spec.name, version=spec.default)],
        {spec.name: spec},
        runtime="docker",
        masker=Masker(),
        subject="bench",
        state=state,
        wanted=lambda: True,
    ) as lent:
        lent.in_peace = True
        if lent.stack.use != use:
            raise RuntimeError(f"run {use} of its stack was {lent.stack.use}: {lent.stack.note}")
    return time.monotonic() - began
