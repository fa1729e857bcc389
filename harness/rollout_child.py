"""The child's side of a rollout: `run` tells its stages over a pipe, and leaves what it learnt that is no evidence.

The options are between us and ourselves, and in no help.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.integration import Outcome
    from harness.model.plan import RunKey
    from harness.model.progress import Progress

__all__ = ["Told", "inner", "kept_runs", "leave_record", "listener"]


def inner(sub: argparse.ArgumentParser) -> None:
    """The options of `run` that only a rollout gives."""
    sub.add_argument("--repository", metavar="DIR", help=argparse.SUPPRESS)
    sub.add_argument("--progress-fd", type=int, metavar="FD", help=argparse.SUPPRESS)
    sub.add_argument("--stacks", metavar="ADDRESS", help=argparse.SUPPRESS)
    sub.add_argument("--record", metavar="FILE", help=argparse.SUPPRESS)
    sub.add_argument("--kept", metavar="FILE", help=argparse.SUPPRESS)


class Told:
    """Passes everything on, and writes it to a pipe, one JSON object a line; who reads it may be gone."""

    def __init__(self, inner: Progress, fd: int) -> None:
        self._inner, self._fd = inner, fd

    def begin(self, subject: str, what: str) -> None:
        self._inner.begin(subject, what)
        self._tell({"event": "begin", "subject": subject, "what": what})

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        self._inner.end(subject, what, ok=ok, seconds=seconds, detail=detail)
        self._tell({"event": "end", "subject": subject, "what": what, "ok": ok, "seconds": round(seconds, 3)})

    def waiting(self, subject: str, what: str, detail: str) -> None:
        self._inner.waiting(subject, what, detail)

    def note(self, subject: str, text: str) -> None:
        self._inner.note(subject, text)
        self._tell({"event": "note", "subject": subject, "what": text})

    def _tell(self, event: dict[str, object]) -> None:
        if self._fd < 0:
            return
        try:
            os.write(self._fd, json.dumps(event).encode() + b"\n")
        except OSError:
            self._fd = -1


def listener(parsed: argparse.Namespace, progress: Progress) -> Progress:
    """The progress that a parent hears too, where there is one that listens."""
    fd = getattr(parsed, "progress_fd", None)
    if fd is None:
        return progress
    os.set_inheritable(fd, False)  # nothing that we start may hold it open
    return Told(progress, fd)


def kept_runs(parsed: argparse.Namespace) -> dict[RunKey, Path]:
    """The runs that are not repeated, with the folders of their attempts; whatever cannot be read is repeated."""
    if not getattr(parsed, "kept", None):
        return {}
    from harness.model.regular import read_json
    from harness.model.rollout import key_of

    try:
        return {key_of(item["run"]): Path(item["folder"]) for item in read_json(Path(parsed.kept))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def leave_record(parsed: argparse.Namespace, outcome: Outcome, *, interrupted: str) -> None:
    """Writes what this run learnt to the file that the parent named."""
    if not getattr(parsed, "record", None):
        return
    from harness.model.rollout import words_of

    errors = [
        {"kind": item.kind, "server": item.server, "message": item.message, "hint": item.hint, "log": item.log}
        for item in outcome.errors
    ]

    data = {
        "errors": errors,
        "not_run": [{"run": words_of(key), "why": why} for key, why in outcome.not_run.items()],
        "attempts": [{"run": words_of(key), "folder": str(folder)} for key, folder in outcome.attempts.items()],
        "notes": list(outcome.plan.notes) if outcome.plan is not None else [],
        "interrupted": interrupted,
    }
    with suppress(OSError):  # the parent knows what it means that there is none
        from harness.model.whole import write_whole

        write_whole(Path(parsed.record), json.dumps(data, indent=1).encode())
