"""How rooms tell the doors what they are doing: a listener, never a print."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "Silent", "stage"]


class Progress(Protocol):
    """A listener. `subject` is what it is about ("redis-mcp redis@8"), `what` the stage ("start backend")."""

    def begin(self, subject: str, what: str) -> None:
        """A stage began."""

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        """A stage ended; `detail` is for people."""

    def waiting(self, subject: str, what: str, detail: str) -> None:
        """A stage is still waiting, and for what; may be called often."""

    def note(self, subject: str, text: str) -> None:
        """Something worth a line that is no stage."""


class Silent:
    """Nobody listens."""

    def begin(self, subject: str, what: str) -> None:
        """Ignored."""

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        """Ignored."""

    def waiting(self, subject: str, what: str, detail: str) -> None:
        """Ignored."""

    def note(self, subject: str, text: str) -> None:
        """Ignored."""


@contextmanager
def stage(
    progress: Progress, subject: str, what: str, *, benign: type[Exception] | None = None, told: str = ""
) -> Iterator[None]:
    """Announces a stage, and its end with the seconds it took, also when it fails.

    Args:
        benign: An exception that ends the stage and is no failure of it.
        told: What is then said of it; the text of the exception without this.
    """
    began = time.monotonic()
    progress.begin(subject, what)
    ok, detail = False, ""
    try:
        yield
        ok = True
    except Exception as error:
        if benign is not None and isinstance(error, benign):
            ok, detail = True, told or str(error)
        raise
    finally:
        progress.end(subject, what, ok=ok, seconds=time.monotonic() - began, detail=detail)
