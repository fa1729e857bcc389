"""Runs one coroutine so that Ctrl-C, SIGTERM, SIGHUP and the parent's death end it with its clean-up done.

A signal that was ignored when we started (SIGHUP under nohup, SIGINT in a background job) stays ignored.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

__all__ = ["PARENT_POLL_S", "Outcome", "run_interruptible"]

PARENT_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: `cause` is "" or what interrupted it, e.g. "SIGTERM"."""

    cause: str = ""


def run_interruptible(main: Callable[[], Awaitable[None]], *, on_interrupt: Callable[[str], None]) -> Outcome:
    """Runs `main` to its end, or cancels it at the first signal and waits for its clean-up.

    Args:
        main: What to run; it is cancelled at most once.
        on_interrupt: Told the cause at once, and again ("…, still cleaning up") at every further signal.
    """
    handled = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN
    ]
    named = os.environ.get("ROLLCALL_PARENT")  # nox, or a rollout: one that we do not outlive, under nohup neither
    watch_parent = bool(named) or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    parent = int(named or os.getppid())
    cause = ""

    def interrupt(what: str, scope: anyio.CancelScope) -> None:
        nonlocal cause
        if cause:
            on_interrupt(f"{what}, still cleaning up")
            return
        cause = what
        on_interrupt(what)
        scope.cancel()

    async def signals(scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*handled) as received:
            task_status.started()
            async for number in received:
                interrupt(signal.Signals(number).name, scope)

    async def parent_death(scope: anyio.CancelScope) -> None:
        while os.getppid() == parent:
            await anyio.sleep(PARENT_POLL_S)
        interrupt("the parent's death", scope)

    async def everything() -> None:
        async with anyio.create_task_group() as watchers:
            work = anyio.CancelScope()
            await watchers.start(signals, work)
            if watch_parent:
                watchers.start_soon(parent_death, work)
            with work:
                await main()
            watchers.cancel_scope.cancel()

    anyio.run(everything)
    return Outcome(cause)
