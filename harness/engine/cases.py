"""Which case the calls of the Python API belong to: one at a time in a process, as a test runner runs its tests."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["NO_TEST", "SUITE", "CaseHow", "LiveCase", "begin_case", "current_case", "end_case", "on_end"]

SUITE = "pytest"
NO_TEST = "outside of any test"
CaseHow = Literal["completed", "stopped", "timed-out", "died", "interrupted", "failed"]


@dataclass(slots=True, eq=False)
class LiveCase:
    """A case while it runs; `how` is set when it has ended, `steps` numbers its steps over all servers."""

    suite: str
    case: str
    steps: itertools.count[int]
    how: CaseHow | None = None

    def __str__(self) -> str:
        return f"{self.suite}/{self.case}"


_lock = threading.Lock()
_numbers: dict[tuple[str, str], itertools.count[int]] = {}
_listeners: set[Callable[[LiveCase], None]] = set()


def _case(suite: str, case: str) -> LiveCase:
    return LiveCase(suite, case, _numbers.setdefault((suite, case), itertools.count()))


_current = _case(SUITE, NO_TEST)


def current_case() -> LiveCase:
    """The case to which a call belongs that is made now."""
    return _current


def begin_case(suite: str, case: str) -> None:
    """From now on calls belong to this case; one that is still open is ended as completed."""
    _end("completed", _case(suite, case))


def end_case(how: CaseHow = "completed") -> None:
    """The present case has ended; calls that are made now belong to none."""
    _end(how, _case(SUITE, NO_TEST))


def _end(how: CaseHow, following: LiveCase) -> None:
    global _current
    with _lock:
        ended, _current = _current, following
        ended.how = how
        listeners = tuple(_listeners)
    for listener in listeners:
        listener(ended)


def on_end(listener: Callable[[LiveCase], None]) -> Callable[[], None]:
    """Tells `listener` of every case that ends, in the thread that ends it; gives what takes it off again."""
    with _lock:
        _listeners.add(listener)

    def remove() -> None:
        with _lock:
            _listeners.discard(listener)

    return remove
