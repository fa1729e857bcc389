"""Lends stacks to runs: each its own, or one after the other the same where its backends can be reset and prove it.

A stack is with one run or on the shelf, never with two. It goes to the shelf only if the run before ended in peace and
a later run wants it; it comes from there only through a reset whose check passed. Else it is thrown away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from harness.engine.mask import Masker
from harness.engine.scope import Scope
from harness.engine.stack import Backends, Stack, open_stack
from harness.errors import StackError, iterate_errors
from harness.model.plan import BackendSpec, RoleChoice, Runtime
from harness.model.progress import Progress

__all__ = ["MAX_KEPT", "Kind", "Lent", "Stacks", "kind_of", "open_stacks"]

MAX_KEPT = 2  # stacks that stand and wait for a run: they take memory

Kind = tuple[str, ...]  # which stacks are alike


@dataclass(slots=True)
class Lent:
    """A stack, and whether another run may have it after a reset.

    Attributes:
        in_peace: To be set once the run has ended so that nothing of it can come any more: every process of its
            servers is gone, and no call was left without its end.
    """

    stack: Stack
    in_peace: bool = False


@dataclass(slots=True)
class _Kept:
    backends: Backends
    uses: int


def _can_be_reset(roles: Sequence[RoleChoice], backends: Mapping[str, BackendSpec], runtime: Runtime | None) -> bool:
    """Whether each backend of a choice says how it is reset in this form."""
    specs = [backends[role.backend] for role in roles]
    if runtime == "process":
        return bool(specs) and all(spec.process is not None and spec.process.reset is not None for spec in specs)
    return bool(specs) and all(spec.reset is not None for spec in specs)


def kind_of(roles: Sequence[RoleChoice], backends: Mapping[str, BackendSpec], runtime: Runtime | None) -> Kind:
    """What two choices have in common where one can have the stack of the other; roles may bear other names."""
    return (str(runtime), *(f"{backends[role.backend].folder.resolve()}@{role.version}" for role in roles))


class Stacks:
    """The stacks of one invocation; see `open_stacks`."""

    def __init__(self, *, again: bool, scope: Scope, progress: Progress) -> None:
        self._again = again
        self._scope = scope
        self._progress = progress
        self._kept: dict[Kind, list[_Kept]] = {}
        self._unfit: set[Kind] = set()  # which could not be made ready to be reset

    @asynccontextmanager
    async def lend(
        self,
        roles: Sequence[RoleChoice],
        backends: Mapping[str, BackendSpec],
        *,
        runtime: Runtime | None,
        masker: Masker,
        subject: str,
        state: Path,
        wanted: Callable[[], bool],
    ) -> AsyncIterator[Lent]:
        """A stack for one run; see `harness.engine.stack.open_stack` for the arguments.

        Args:
            wanted: Asked at the end: whether a later run could have the same.
        Raises:
            StackError: As `open_stack`. A reset that fails is none: a fresh stack comes, whose `note` says it.
        """
        kind = kind_of(roles, backends, runtime)
        if not self._again or kind in self._unfit or not _can_be_reset(roles, backends, runtime):
            async with open_stack(
                roles,
                backends,
                runtime=runtime,
                scope=self._scope,
                masker=masker,
                progress=self._progress,
                subject=subject,
                state=state,
            ) as stack:
                yield Lent(stack)
            return

        def fresh() -> Backends:
            return Backends(
                roles,
                backends,
                runtime=runtime,
                scope=self._scope,
                masker=Masker(),
                progress=self._progress,
                subject=subject,
                state=state,
            )

        kept, note = await self._from_the_shelf(kind, subject)
        if kept is None:
            kept, trouble = await self._fresh(kind, fresh, subject)
            note = note or trouble
        lent = Lent(kept.backends.stack(roles, masker, use=kept.uses, note=masker.text(note)))
        failed = True
        try:
            yield lent
            failed = False
        finally:
            if not failed and lent.in_peace and kind not in self._unfit and wanted():
                self._kept.setdefault(kind, []).append(kept)
                await self._make_room(subject)
            else:
                await _close(kept.backends, self._progress, subject, failed=failed)

    async def _from_the_shelf(self, kind: Kind, subject: str) -> tuple[_Kept | None, str]:
        """One that was reset, or none, and why there is none though one stood."""
        waiting = self._kept.get(kind, [])
        if not waiting:
            return None, ""
        kept = waiting.pop()
        said = await self._tried(kept.backends, kept.backends.reset, subject)
        if said:
            self._progress.note(subject, f"its stack could not be reset, and a fresh one takes its place: {said}")
            return None, f"its stack could not be reset, and a fresh one took its place: {said}"
        kept.uses += 1
        return kept, ""

    async def _fresh(self, kind: Kind, make: Callable[[], Backends], subject: str) -> tuple[_Kept, str]:
        """One that was just stood up, and why it will serve no other run, if it will not."""
        backends = await self._opened(make, subject)
        said = await self._tried(backends, backends.remember, subject)
        if not said:
            return _Kept(backends, 1), ""
        note = f"its stack will not be reset: {said}"
        self._progress.note(subject, note)
        self._unfit.add(kind)
        return _Kept(await self._opened(make, subject), 1), note  # the other one was changed by what was begun

    async def _opened(self, make: Callable[[], Backends], subject: str) -> Backends:
        backends = make()
        good = False
        try:
            await backends.open()
            good = True
        finally:
            if not good:
                await _close(backends, self._progress, subject, failed=True)
        return backends

    async def _tried(self, backends: Backends, work: Callable[[], Awaitable[None]], subject: str) -> str:
        """Why something could not be done with a stack, which is gone then; "" where it was done."""
        good = False
        try:
            await work()
            good = True
        except (StackError, ExceptionGroup) as error:
            leaves = list(iterate_errors(error))
            if not all(isinstance(leaf, StackError) for leaf in leaves):
                raise
            return "; ".join(dict.fromkeys(_said(leaf) for leaf in leaves if isinstance(leaf, StackError)))
        finally:
            if not good:
                await _close(backends, self._progress, subject, failed=True)
        return ""

    async def _make_room(self, subject: str) -> None:
        """Of too many, the one that has waited longest goes."""
        while sum(map(len, self._kept.values())) > MAX_KEPT:
            kind = next(kind for kind, kept in self._kept.items() if kept)
            await _close(self._kept[kind].pop(0).backends, self._progress, subject, failed=False)

    async def close(self, *, failed: bool) -> None:
        """Takes down what is on the shelf.

        Raises:
            StackError: Something could not be removed; only where nothing else `failed`.
        """
        kept = [item for items in self._kept.values() for item in items]
        self._kept.clear()
        left: list[str] = []

        async def one(item: _Kept) -> None:
            left.append(await item.backends.close())

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for item in kept:
                    tasks.start_soon(one, item)
        _tell("; ".join(filter(None, left)), self._progress, "stacks", failed=failed)


@asynccontextmanager
async def open_stacks(*, again: bool, scope: Scope, progress: Progress) -> AsyncIterator[Stacks]:
    """The stacks of one invocation; what stands idle at the end is taken down, however it ends.

    Args:
        again: Whether a stack may serve several runs, one after the other.
    Raises:
        StackError: Something could not be removed.
    """
    stacks = Stacks(again=again, scope=scope, progress=progress)
    failed = True
    try:
        yield stacks
        failed = False
    finally:
        await stacks.close(failed=failed)


async def _close(backends: Backends, progress: Progress, subject: str, *, failed: bool) -> None:
    _tell(await backends.close(), progress, subject, failed=failed)


def _tell(left: str, progress: Progress, subject: str, *, failed: bool) -> None:
    if left and failed:
        progress.note(subject, f"not removed: {left}")
    elif left:
        raise StackError(f"could not be removed: {left}", hint="mcp-rollcall reap")


def _said(error: StackError) -> str:
    """What went wrong in one line, with the last that was printed."""
    last = [line.strip() for line in error.log.splitlines() if line.strip()][-1:]
    return ": ".join([error.message.splitlines()[0], *last])
