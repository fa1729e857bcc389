"""When the lines of a file were last changed, as git knows it."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

__all__ = ["TIMEOUT_S", "Blame", "last_changes"]

TIMEOUT_S = 60.0

_LINE = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What git says of a file.

    Attributes:
        dates: Line from 1 -> the day, UTC, on which it was last changed; lines of which that is not known are left out.
        problem: Why nothing, or not all, is known; "" if all is.
    """

    dates: dict[int, date] = field(default_factory=dict)
    problem: str = ""


def last_changes(path: Path, *, today: date) -> Blame:
    """The days on which the lines of a file, as it now lies there, were last changed; never raises.

    Lines that are not committed are of `today`. In a shallow clone the lines of its oldest commit may be of any age.
    """
    path = path.resolve()
    try:
        shown = _git(path.parent, "blame", "--porcelain", "-w", "--", path.name)
        if shown.returncode != 0:
            return Blame(problem=_reason(shown.stderr))
        shallow = _git(path.parent, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    except FileNotFoundError:
        return Blame(problem="there is no git")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Blame(problem=f"git cannot be asked: {error}")
    return _read(shown.stdout.decode("utf-8", "replace"), shallow=shallow, today=today)


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _reason(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else "git blame failed"


def _read(text: str, *, shallow: bool, today: date) -> Blame:
    """The porcelain form: a head for each line, facts of a commit where it comes first, the line behind a tab."""
    lines: dict[int, str] = {}
    days: dict[str, date] = {}
    oldest: set[str] = set()
    commit = ""
    for row in text.split("\n"):
        if row.startswith("\t"):
            continue
        if (match := _LINE.match(row)) is not None:
            commit = match[1]
            lines[int(match[2])] = commit
        elif row.startswith("author-time "):
            days[commit] = datetime.fromtimestamp(int(row.split()[1]), UTC).date()
        elif row == "boundary" and shallow:
            oldest.add(commit)
    known = {line: commit for line, commit in lines.items() if commit not in oldest}
    dates = {line: days[commit] if commit.strip("0") else today for line, commit in known.items()}
    problem = "the clone is shallow, and its oldest commit need not be theirs" if len(known) < len(lines) else ""
    return Blame(dates=dates, problem=problem)
