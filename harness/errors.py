"""Every way in which the harness can fail to do its job: one tree, one exit code per class.

A finding (exit 1) is no error: it is what a run is for. Errors are the harness's own, or the world's.
Doors alone catch these; see `harness.cli`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

__all__ = [
    "EXIT_CLEAN",
    "EXIT_FINDINGS",
    "BuildError",
    "ConfigError",
    "HarnessError",
    "Interrupted",
    "NothingSelected",
    "ServerError",
    "StackError",
    "code_of_kind",
    "iterate_errors",
    "world_error",
]

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
_UNWRITABLE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))
_FORBIDDEN = frozenset((errno.EACCES, errno.EPERM))


class HarnessError(Exception):
    """The harness could not do its job.

    Args:
        message: What happened, in one paragraph, with the evidence in it.
        hint: What to do about it, if anything is known to help.
        log: The last lines of what the failing thing printed, if it printed.
        server: Name of the server under test that this concerns, if it is only one.

    Attributes:
        code: The exit code of this class of error.
        kind: The word for it in `report.json` (`errors[].kind`).
    """

    code = 2
    kind = "internal"

    def __init__(self, message: str, *, hint: str = "", log: str = "", server: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log
        self.server = server


class ConfigError(HarnessError):
    """A file that people write, or a command line, cannot be used as it stands; exit 2."""

    code = 2
    kind = "config"


class NothingSelected(HarnessError):
    """There was nothing to run, or the selection left nothing; exit 3."""

    code = 3
    kind = "nothing-run"


class BuildError(HarnessError):
    """A build command failed; exit 4."""

    code = 4
    kind = "build"


class StackError(HarnessError):
    """A backend could not be stood up, or Docker was asked for and is not there; exit 5."""

    code = 5
    kind = "stack"


class ServerError(HarnessError):
    """The server under test gave no first answer; later failures of it are findings; exit 6."""

    code = 6
    kind = "server"


class Interrupted(HarnessError):
    """Ctrl-C, SIGTERM, SIGHUP or the parent's death, after clean-up; exit 130."""

    code = 130
    kind = "interrupted"


def code_of_kind(kind: str) -> int:
    """The exit code for `errors[].kind` of a report; that of "internal" for a word that is none of ours."""
    classes = (ConfigError, NothingSelected, BuildError, StackError, ServerError, Interrupted)
    return next((item.code for item in classes if item.kind == kind), HarnessError.code)


def iterate_errors(error: BaseException) -> Iterator[BaseException]:
    """The leaves of an exception and of every exception group inside it, in order."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from iterate_errors(inner)
    else:
        yield error


def world_error(error: BaseException) -> BaseException:
    """The error, or, for a full disk or a file that we may not touch, the StackError that says so: no fault of ours."""
    if not isinstance(error, OSError) or error.errno not in _UNWRITABLE | _FORBIDDEN:
        return error
    what = f"{error.filename or 'a file'} cannot be {'written' if error.errno in _UNWRITABLE else 'used'}"
    hint = "make room, or choose other places with --evidence, --state and --out, and TMPDIR for temporary files"
    return StackError(f"{what}: {error.strerror}", hint=hint)
