"""Exceptions as the errors of a report; every door that has one uses this."""

from __future__ import annotations

from traceback import format_exception

from harness.errors import HarnessError, world_error
from harness.model.finding import HarnessFailure

__all__ = ["failure_of"]


def failure_of(error: BaseException, server: str = "", *, traceback: bool = False) -> HarnessFailure:
    """An error as the report has it; one that is none of ours is our own fault, and says so."""
    error = world_error(error)
    if isinstance(error, HarnessError):
        return HarnessFailure(
            kind=error.kind,
            code=error.code,
            server=error.server or server,
            message=error.message,
            hint=error.hint,
            log=error.log,
        )
    return HarnessFailure(
        kind="internal",
        code=2,
        server=server,
        message=f"{type(error).__name__}: {error}",
        hint="this is a fault of mcp-rollcall's; run again with --traceback and report it",
        log="".join(format_exception(error)) if traceback else "",
    )
