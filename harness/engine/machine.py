"""What this machine can carry: how many repositories side by side."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["JOB_BYTES", "LEAST_JOBS", "MOST_JOBS", "jobs_here"]

JOB_BYTES = 1024**3  # a server, its backend and we: what one repository may need of memory
LEAST_JOBS = 2  # most of a run is waiting for something to start
MOST_JOBS = 16


def jobs_here() -> tuple[int, str]:
    """How many repositories may run side by side here, and what bounds it, for people.

    One for each core (LEAST_JOBS at least), but no more than one for each JOB_BYTES of memory that is free now, and
    where Docker is there, for each core and JOB_BYTES that it has; MOST_JOBS at most.
    """
    bounds = {"cores": max(LEAST_JOBS, len(os.sched_getaffinity(0))), "our limit": MOST_JOBS}
    free = _free_bytes()
    if free is not None:
        bounds["free memory"] = free // JOB_BYTES
    from harness.engine.docker import capacity

    with suppress(Exception):  # without an engine there is nothing to be bounded by
        cores, memory = capacity()
        if cores:
            bounds["cores of Docker"] = max(LEAST_JOBS, cores)
        if memory:
            bounds["memory of Docker"] = memory // JOB_BYTES
    why = min(bounds, key=lambda name: bounds[name])
    return max(1, bounds[why]), why


def _free_bytes() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
