"""What many recorded calls cost in memory and on disk, and how both grow; reading them back included."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.clients import measure, wire_in
from bench.driver import ROOT, server_command
from bench.table import Table

__all__ = ["run"]

CALLS = (1_000, 10_000, 100_000)
QUICK_CALLS = (100, 1_000)
AT_ONCE = 8
TIMEOUT_S = 600.0


def run(*, rounds: int, quick: bool) -> list[Table]:  # noqa: ARG001 - memory and disk are the same every time
    """Each number of calls in a process of its own, and read back in another."""
    rows = []
    before: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for calls in QUICK_CALLS if quick else CALLS:
            folder = Path(name) / str(calls)
            folder.mkdir()
            wrote = _child("record", folder, calls)
            disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            read = _child("read", folder, calls)
            now = {"memory": wrote["rss"], "disk": disk, "read": read["rss"]}
            grown = tuple(f"{(now[key] - before[key]) / before[key]:+.0%}" if before else "-" for key in now)
            rows.append(
                (
                    f"{calls:,}".replace(",", " "),
                    f"{wrote['seconds']:.1f} s",
                    f"{wrote['rss'] / 2**20:.1f} MiB",
                    grown[0],
                    f"{disk / 2**20:.1f} MiB ({disk / calls:.0f} B a call)",
                    grown[1],
                    f"{read['seconds']:.1f} s",
                    f"{read['rss'] / 2**20:.1f} MiB ({read['kept'] / calls:.0f} B a call)",
                    grown[2],
                )
            )
            before = now
    about = (
        f"Calls of a small tool, {AT_ONCE} at once, recorded in one transcript: the peak of resident memory of the "
        "process that records, the size of its evidence, and the same of a process that reads the transcript back "
        "whole, as `judge` does. The growth is to the row above."
    )
    head = ("calls", "recorded in", "memory", "growth", "disk", "growth", "read in", "memory", "growth")
    return [Table(name="recorded", title="Recorded calls", about=about, head=head, rows=tuple(rows))]


def _child(what: str, folder: Path, calls: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.recorded", what, str(folder), str(calls)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def _record(folder: Path, calls: int) -> float:
    async with wire_in(folder, server_command("fast")) as call:
        return await measure(call, "echo", {"text": "hello"}, calls, AT_ONCE)


def _read(folder: Path) -> tuple[float, int]:
    """Seconds, and how much more memory there is while the transcript is held."""
    from harness.model.transcript import parse_lines

    before = _resident()
    began = time.perf_counter()
    with (folder / "server-1.jsonl").open(encoding="utf-8") as file:
        transcript = parse_lines("server-1.jsonl", file)
    seconds = time.perf_counter() - began
    if not transcript.complete:
        raise RuntimeError("the transcript of the bench is not whole")
    gc.collect()
    return seconds, _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    """Of this program alone: `ru_maxrss` would count what its parent held when it was forked."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) * 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.recorded")
    parser.add_argument("what", choices=["record", "read"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("calls", type=int)
    options = parser.parse_args()
    if options.what == "record":
        took, kept = asyncio.run(_record(options.folder, options.calls)), 0
    else:
        took, kept = _read(options.folder)
    print(json.dumps({"seconds": took, "rss": _peak(), "kept": kept}))
