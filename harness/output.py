"""Where everything is printed: the report on stdout, all else on stderr; and where reports are written to files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from harness.errors import StackError
from harness.model.whole import write_whole

if TYPE_CHECKING:
    from harness.integration import Options, Timings
    from harness.model.finding import Report
    from harness.model.plan import Place
    from harness.model.progress import Progress
    from harness.report.board import Board
    from harness.report.progress import ProgressLog

__all__ = [
    "ENDINGS",
    "Timed",
    "flush",
    "for_stderr",
    "formatted",
    "is_tty",
    "progress_log",
    "remove_old_reports",
    "say",
    "show",
    "silence_stdout",
    "tell_ci",
    "terminal_width",
    "write_reports",
]

TIMINGS = "timings.json"
REPORTS = ("report.json", "report.xml", "report.md", "report.sarif", TIMINGS)
ENDINGS = {".json": "json", ".xml": "junit", ".md": "markdown", ".sarif": "sarif", ".txt": "text"}  # of --out


def formatted(report: Report, name: str, places: Mapping[str, Place] | None = None, *, plain: bool = False) -> str:
    """The report in one format.

    Args:
        places: Where each server's `[server]` stands, for SARIF.
        plain: For a file, where text is neither coloured nor fitted to a terminal.
    """
    if name == "sarif":
        from harness.report.sarif import to_sarif

        return to_sarif(report, base=_below_root(Path.cwd()), places=places)
    if name == "json":
        from harness.report.json import to_json

        return to_json(report)
    if name == "junit":
        from harness.report.junit import to_junit

        return to_junit(report).decode("utf-8")
    if name == "markdown":
        from harness.report.markdown import to_markdown

        return to_markdown(report)
    from harness.report.progress import wants_color
    from harness.report.text import to_text

    tty = is_tty(sys.stdout) and not plain
    return to_text(report, color=wants_color(os.environ, tty) and not plain, width=terminal_width() if tty else 100)


def _below_root(folder: Path) -> str:
    """A folder as seen from the root of its repository, "" where it is that, or in none."""
    root = next((item for item in (folder, *folder.parents) if (item / ".git").exists()), folder)
    return "" if root == folder else folder.relative_to(root).as_posix()


class ToJson(Protocol):
    """What timings.json is made of."""

    def to_json(self) -> str:
        """The whole file."""


def write_reports(
    report: Report,
    timings: ToJson | None,
    places: Mapping[str, Place],
    *,
    folder: Path | None,
    files: Sequence[Path],
    named: bool,
) -> int:
    """All reports into a folder, and single ones to files; each whole or not at all, and none from before stays.

    Args:
        named: The folder was asked for; one that was not may be read-only, which is said and not fatal.
    Returns:
        The exit code of a place that was asked for and cannot be written, else 0.
    """
    lost = 0
    wanted: dict[Path, str] = {}
    if folder is not None:
        wanted = {folder / name: ENDINGS[Path(name).suffix] for name in REPORTS if name != TIMINGS}
    wanted |= {file: ENDINGS[file.suffix.lower()] for file in files}
    if folder is not None and timings is not None:
        wanted[folder / TIMINGS] = TIMINGS
    made: dict[str, bytes] = {}
    told: set[Path] = set()
    for path, kind in wanted.items():
        if kind not in made:
            text = timings.to_json() if kind == TIMINGS and timings else formatted(report, kind, places, plain=True)
            made[kind] = text.encode("utf-8", "backslashreplace")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.name == ".rollcall" and not (path.parent / ".gitignore").exists():
                (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            try:
                write_whole(path, made[kind])
            except OSError:
                with suppress(OSError):  # an old report must not be taken for this one
                    path.unlink()
                raise
        except OSError as error:
            if path.parent not in told:
                say(
                    f"the reports cannot be written to {path.parent}: {error.strerror}; choose another place with --out"
                )
            told.add(path.parent)
            if named or path in files:
                lost = StackError.code
    return lost


def remove_old_reports(options: Options) -> None:
    """An old verdict must not be taken for that of a run which was killed before it had one."""
    from harness.integration import report_folder

    for name in REPORTS:
        with suppress(OSError):
            (report_folder(options) / name).unlink()


def tell_ci(env: Mapping[str, str], report: Report) -> None:
    if env.get("GITHUB_ACTIONS") == "true":
        from harness.report.github import to_annotations

        if text := to_annotations(report).rstrip("\n"):
            say(text)
    place = env.get("GITHUB_STEP_SUMMARY")
    if place:
        from harness.report.markdown import fit_summary, to_markdown

        try:
            path = Path(place)
            size = path.stat().st_size if path.exists() else 0
            with path.open("a", encoding="utf-8") as file:
                file.write(fit_summary(size, to_markdown(report)))
        except OSError as error:
            say(f"the step summary cannot be written to {place}: {error.strerror}")


def progress_log() -> ProgressLog:
    from harness.report.progress import ProgressLog, wants_color, wants_status_line

    tty = is_tty(sys.stderr)
    return ProgressLog(
        sys.stderr,
        tty=wants_status_line(os.environ, tty),
        color=wants_color(os.environ, tty),
        columns=terminal_width(),
    )


def progress_board(total: int) -> Board:
    """The progress of a pass over so many repositories, on stderr."""
    from harness.report.board import Board
    from harness.report.progress import wants_color, wants_status_line

    tty = is_tty(sys.stderr)
    return Board(
        sys.stderr,
        tty=wants_status_line(os.environ, tty),
        color=wants_color(os.environ, tty),
        columns=terminal_width(),
        total=total,
    )


class Timed:
    """Passes everything on, and keeps the seconds."""

    def __init__(self, inner: Progress, timings: Timings) -> None:
        self._inner, self._timings = inner, timings

    def begin(self, subject: str, what: str) -> None:
        self._inner.begin(subject, what)

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        self._timings.add(subject, what, seconds)
        self._inner.end(subject, what, ok=ok, seconds=seconds, detail=detail)

    def waiting(self, subject: str, what: str, detail: str) -> None:
        self._inner.waiting(subject, what, detail)

    def note(self, subject: str, text: str) -> None:
        self._inner.note(subject, text)


def show(text: str) -> None:
    from harness.report.escape import encodable

    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.write(encodable(text if text.endswith("\n") else text + "\n", sys.stdout.encoding or "ascii"))
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()  # `| head` has what it wanted; the exit code is still the verdict's
    except OSError as error:
        silence_stdout()
        say(f"the report cannot be written to standard output: {error.strerror}")


def for_stderr(text: str) -> str:
    from harness.report.escape import encodable, visible

    return encodable(visible(text), sys.stderr.encoding or "ascii")


def say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError, UnicodeEncodeError):
        return  # stderr is closed, and there is nobody left to tell


def flush() -> None:
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        silence_stdout()


def silence_stdout() -> None:
    """Python flushes stdout at exit; it must find a place that takes the rest."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return


def is_tty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (ValueError, AttributeError):
        return False


def terminal_width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 140))
