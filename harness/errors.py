"""Every way in which the harness can fail to do its job: one tree, one exit code per class.

A finding (exit 1) is no error: it is what a run is for. Errors are the harness's own, or the world's.
Doors alone catch these; see `harness.cli`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping

__all__ = [
    "EXIT_CLEAN",
    "EXIT_FINDINGS",
    "BuildError",
    "CallError",
    "ConfigError",
    "CoverageError",
    "ExpectedError",
    "HarnessError",
    "Interrupted",
    "ListError",
    "MisuseError",
    "NoAnswer",
    "NoToken",
    "NotLoopback",
    "NothingSelected",
    "ServerClosed",
    "ServerDied",
    "ServerError",
    "StackError",
    "ToolError",
    "code_of_kind",
    "error_from_json",
    "error_to_json",
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


class MisuseError(HarnessError):
    """The Python API was used in a way that cannot work, such as from another event loop; exit 2."""

    code = 2
    kind = "usage"


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


class CallError(Exception):
    """A call through the Python API did not come to what was asked of it; never an exception group.

    Args:
        message: What happened, with the evidence in it; secrets are masked.
        target: The tool, the prompt, the URI or the method.
        arguments: What it was called with.
        stderr: The tail of the server's stderr at that moment.
    """

    def __init__(
        self, message: str, *, target: str = "", arguments: Mapping[str, object] | None = None, stderr: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.target = target
        self.arguments = {} if arguments is None else dict(arguments)
        self.stderr = stderr


class ToolError(CallError):
    """A result with `isError`, or a JSON-RPC error, that nobody expected.

    Attributes:
        text: The text of the answer, or the message of the JSON-RPC error.
        error_code: Of the JSON-RPC error, None for an `isError` result.
    """

    text = ""
    error_code: int | None = None


class ExpectedError(CallError, AssertionError):
    """An error was expected and a success came, or an error for another reason than the stated one."""


class NoToken(CallError, AssertionError):
    """A call that should be confirmed was answered without a confirm_token."""


class ListError(CallError):
    """A listing was answered with an error, or with something that is no whole list."""


class NoAnswer(CallError):
    """No answer in time; the server lives, and may be asked again.

    Attributes:
        timeout_s: How long was waited.
        in_flight: Labels of all requests that were open then.
    """

    timeout_s = 0.0
    in_flight: tuple[str, ...] = ()


class AnswerLost(NoAnswer):
    """Over HTTP: what was to bring the answer ended without it; the server lives, and may be asked again.

    Attributes:
        status: Of the HTTP response that came instead, 0 where none came.
        content_type: Its media type, "" without one.
        body: How its body began, masked; "" where that was empty, or messages and no more.
    """

    status = 0
    content_type = ""
    body = ""


class ServerDied(CallError):
    """The server ended, or had to be ended, before it answered.

    Attributes:
        exit_code: Its exit code, None where a signal ended it.
        signal: The number of that signal, None where it ended by itself.
        in_flight: Labels of the requests that it left unanswered.
        orphans: Commands of the processes that outlived it; they were killed.
    """

    exit_code: int | None = None
    signal: int | None = None
    in_flight: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()


class NotLoopback(AssertionError):
    """An address or a URL that is not this machine's own, or that programs may read differently."""


class CoverageError(AssertionError):
    """What recorded calls and lists of tools do not show; one error with all of it.

    Attributes:
        findings: Each thing that is wrong, as reports have it.
    """

    def __init__(self, message: str, findings: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings


class ServerClosed(CallError):
    """The server was closed by its user, before the call or while it waited."""


def code_of_kind(kind: str) -> int:
    """The exit code for `errors[].kind` of a report; that of "internal" for a word that is none of ours."""
    return _class_of_kind(kind).code


def _class_of_kind(kind: str) -> type[HarnessError]:
    classes = (ConfigError, MisuseError, NothingSelected, BuildError, StackError, ServerError, Interrupted)
    return next((item for item in classes if item.kind == kind), HarnessError)


def error_to_json(error: BaseException) -> dict[str, str]:
    """An error as it crosses to another process of ours."""
    if not isinstance(error, HarnessError):
        return {"kind": HarnessError.kind, "message": f"{type(error).__name__}: {error}"}
    return {name: str(getattr(error, name)) for name in ("kind", "message", "hint", "log", "server")}


def error_from_json(data: Mapping[str, str]) -> HarnessError:
    """The error that `error_to_json` took apart, of the same kind."""
    kind = data.get("kind", HarnessError.kind)
    error = _class_of_kind(kind)(
        data.get("message", ""), hint=data.get("hint", ""), log=data.get("log", ""), server=data.get("server", "")
    )
    error.kind = kind
    return error


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
