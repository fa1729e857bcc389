"""Lends stacks to runs: each its own, or one after the other the same where its backends can be reset and prove it.

A stack is with one run or on the shelf, never with two. It goes to the shelf only if the run before ended in peace and
a later run wants it; it comes from there only through a reset whose check passed. Else it is thrown away.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import anyio

from harness.engine.mask import Masker
from harness.engine.scope import Scope
from harness.engine.stack import Backends, Stack, open_stack
from harness.errors import StackError, iterate_errors
from harness.model.plan import BackendSpec, Place, RoleChoice, Runtime
from harness.model.progress import Progress

__all__ = ["MAX_KEPT", "Kind", "Lender", "Lent", "Stacks", "can_be_reset", "kind_of", "may_have", "open_stacks"]

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


class Lender(Protocol):
    """What runs get their stacks from; see `Stacks`."""

    def lend(
        self,
        roles: Sequence[RoleChoice],
        backends: Mapping[str, BackendSpec],
        *,
        runtime: Runtime | None,
        masker: Masker,
        subject: str,
        state: Path,
        wanted: Callable[[], bool],
        once: bool = False,
    ) -> AbstractAsyncContextManager[Lent]:
        """A stack for one run."""


class _Teller:
    """Tells whoever has the stack at present, under the name of what it has it for."""

    def __init__(self, progress: Progress, subject: str) -> None:
        self.progress, self.subject = progress, subject

    def begin(self, _subject: str, what: str) -> None:
        self.progress.begin(self.subject, what)

    def end(self, _subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        self.progress.end(self.subject, what, ok=ok, seconds=seconds, detail=detail)

    def waiting(self, _subject: str, what: str, detail: str) -> None:
        self.progress.waiting(self.subject, what, detail)

    def note(self, _subject: str, text: str) -> None:
        self.progress.note(self.subject, text)


@dataclass(slots=True, eq=False)
class _Kept:
    kind: Kind
    backends: Backends
    teller: _Teller
    uses: int = 1
    fit: bool = False  # whether it can be reset


def can_be_reset(roles: Sequence[RoleChoice], backends: Mapping[str, BackendSpec], runtime: Runtime | None) -> bool:
    """Whether each backend of a choice says how it is reset in this form."""
    specs = [backends[role.backend] for role in roles]
    if runtime == "process":
        return bool(specs) and all(spec.process is not None and spec.process.reset is not None for spec in specs)
    return bool(specs) and all(spec.reset is not None for spec in specs)


def kind_of(roles: Sequence[RoleChoice], backends: Mapping[str, BackendSpec], runtime: Runtime | None) -> Kind:
    """What two choices have in common where one can have the stack of the other; roles may bear other names."""
    return (str(runtime), *(_sort_of(backends[role.backend], role.version) for role in roles))


def may_have(backends: Mapping[str, BackendSpec], kind: Kind) -> bool:
    """Whether a choice among these backends may be of a kind, as far as folders tell."""
    folders = [f"{spec.folder.resolve()}@" for spec in backends.values()]
    return all(any(part.startswith(folder) for folder in folders) for part in kind[1:])


def _sort_of(spec: BackendSpec, version: str) -> str:
    """The folder of a backend, the version, and a mark of what its file says, wherever that is read from."""
    said = repr(replace(spec, folder=Path(), place=Place(file=""), summary=""))
    return f"{spec.folder.resolve()}@{version} {hashlib.sha256(said.encode()).hexdigest()[:16]}"


class Stacks:
    """The stacks of one invocation; see `open_stacks`."""

    def __init__(self, *, again: bool, scope: Scope, progress: Progress) -> None:
        self._again = again
        self._scope = scope
        self._progress = progress
        self._shelf: list[_Kept] = []  # the one that has waited longest first
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
        once: bool = False,
        progress: Progress | None = None,
    ) -> AsyncIterator[Lent]:
        """A stack for one run; see `harness.engine.stack.open_stack` for the arguments.

        Args:
            wanted: Asked at the end: whether a later run could have the same.
            once: Whether nobody can have it after this run, however that ends.
            progress: Is told what becomes of the stack while it is lent; ours without it.
        Raises:
            StackError: As `open_stack`. A reset that fails is none: a fresh stack comes, whose `note` says it.
        """
        teller = _Teller(progress or self._progress, subject)
        kind = kind_of(roles, backends, runtime)
        if not self._again or kind in self._unfit or not can_be_reset(roles, backends, runtime):
            async with open_stack(
                roles,
                backends,
                runtime=runtime,
                scope=self._scope,
                masker=masker,
                progress=teller,
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
                progress=teller,
                subject=subject,
                state=state,
            )

        kept, note = await self._from_the_shelf(kind, teller)
        if kept is None:
            kept, trouble = await self._fresh(kind, fresh, teller, once=once)
            note = note or trouble
        failed = True
        try:
            lent = Lent(kept.backends.stack(roles, masker, use=kept.uses, note=masker.text(note)))
            yield lent
            failed = False
        finally:
            keep = not failed and lent.in_peace and kept.fit and wanted()
            if keep or failed:
                kept.teller.progress = self._progress  # whom it told may be gone
            if keep:
                self._shelf.append(kept)
                await self._make_room()
            else:
                await _close(kept, failed=failed)

    async def _from_the_shelf(self, kind: Kind, teller: _Teller) -> tuple[_Kept | None, str]:
        """One that was reset, or none, and why there is none though one stood."""
        kept = next((item for item in reversed(self._shelf) if item.kind == kind), None)
        if kept is None:
            return None, ""
        self._shelf.remove(kept)
        kept.teller.progress, kept.teller.subject = teller.progress, teller.subject
        said = await self._tried(kept, kept.backends.reset)
        if said:
            teller.note("", f"its stack could not be reset, and a fresh one takes its place: {said}")
            return None, f"its stack could not be reset, and a fresh one took its place: {said}"
        kept.uses += 1
        return kept, ""

    async def _fresh(
        self, kind: Kind, make: Callable[[], Backends], teller: _Teller, *, once: bool
    ) -> tuple[_Kept, str]:
        """One that was just stood up, and why it will serve no other run, if it should and will not."""
        kept = await self._opened(kind, make, teller)
        if once:
            return kept, ""
        said = await self._tried(kept, kept.backends.remember)
        if not said:
            kept.fit = True
            return kept, ""
        note = f"its stack will not be reset: {said}"
        teller.note("", note)
        self._unfit.add(kind)
        return await self._opened(kind, make, teller), note  # the other one was changed by what was begun

    async def _opened(self, kind: Kind, make: Callable[[], Backends], teller: _Teller) -> _Kept:
        kept = _Kept(kind, make(), teller)
        good = False
        try:
            await kept.backends.open()
            good = True
        finally:
            if not good:
                await _close(kept, failed=True)
        return kept

    async def _tried(self, kept: _Kept, work: Callable[[], Awaitable[None]]) -> str:
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
                await _close(kept, failed=True)
        return ""

    async def _make_room(self) -> None:
        """Of too many, the one that has waited longest goes."""
        while len(self._shelf) > MAX_KEPT:
            await _close(self._shelf.pop(0), failed=False)

    async def close(self, *, failed: bool) -> None:
        """Takes down what is on the shelf.

        Raises:
            StackError: Something could not be removed; only where nothing else `failed`.
        """
        kept, self._shelf = self._shelf, []
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


async def _close(kept: _Kept, *, failed: bool) -> None:
    _tell(await kept.backends.close(), kept.teller, "", failed=failed)


def _tell(left: str, progress: Progress, subject: str, *, failed: bool) -> None:
    if left and failed:
        progress.note(subject, f"not removed: {left}")
    elif left:
        raise StackError(f"could not be removed: {left}", hint="mcp-rollcall reap")


def _said(error: StackError) -> str:
    """What went wrong in one line, with the last that was printed."""
    last = [line.strip() for line in error.log.splitlines() if line.strip()][-1:]
    return ": ".join([error.message.splitlines()[0], *last])
