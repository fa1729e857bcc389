"""Starts and stops of servers through the Python API, every fifth program ended in the middle, and what is left.

Four of five run in one process, with and without `await` by turns, each two servers at once that are closed in the
order of their start. The others are programs of their own that get SIGKILL, SIGTERM or SIGINT at a random moment; after
the first two comes `reap`. What bears our mark is counted before, after each, and at the end: it must be what it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.cycles import CYCLES, EVERY, QUICK_CYCLES, census_of, ended_hard, grown, held, left_table
from bench.driver import ROOT, server_command
from bench.table import Table

__all__ = ["CYCLE_S", "Cycles", "run"]

CALLS = 50
CYCLE_S = 180.0
SETTLE_S = 5.0


def run(*, rounds: int, quick: bool, cycles: int | None = None) -> list[Table]:  # noqa: ARG001 - as the others
    """All cycles, then the tables."""
    number = cycles or (QUICK_CYCLES if quick else CYCLES)
    with tempfile.TemporaryDirectory(prefix="bench-api-cycles-") as name:
        return Cycles(Path(name).resolve(), number).all()


class Cycles:
    """The cycles of one way to use the API."""

    name = "api-cycles"
    ends = (
        "How the programs were ended, and what `mcp-rollcall reap` then removed: a program that gets SIGKILL, or "
        "SIGTERM without a handler, cleans up nothing itself. After SIGINT nothing was reaped."
    )
    signals = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
    reaped_after = (signal.SIGKILL, signal.SIGTERM)  # the others must leave nothing by themselves

    def __init__(self, root: Path, number: int) -> None:
        self.root, self.number = root, number
        self.killed = max(1, number // EVERY)
        self.chance = random.Random(number)
        self.counts: Counter[str] = Counter()
        self.reaped: Counter[str] = Counter()
        (root / "tmp").mkdir()

    def all(self) -> list[Table]:
        """Counts, runs, counts again."""
        before = self._census()
        began = time.monotonic()
        with self._start("one") as process:
            _, said = process.communicate(timeout=CYCLE_S)
        if process.returncode != 0:
            raise RuntimeError(f"a cycle ended with {process.returncode}:\n{said}")
        typical = time.monotonic() - began
        most = Counter(before)
        for done in range(self.killed):
            self._kill(self.chance.random() * typical, self.signals[done % len(self.signals)])
            most |= Counter(self._settled(before))
            print(f"  ended {done + 1} of {self.killed}", file=sys.stderr, flush=True)
        with self._start("many", str(self.number - self.killed)) as process:
            out, said = process.communicate(timeout=self.number * CYCLE_S)
        if process.returncode != 0:
            raise RuntimeError(f"the cycles in one process ended with {process.returncode}:\n{said}")
        inside = json.loads(out)
        after = self._settled(before)
        about = (
            f"{self.number} starts and stops through the Python API, {typical:.1f} s for a program with two servers; "
            f"{self.killed} of the programs were ended in the middle. What was there before, the most that there was "
            "after one of these and its clean-up, and what there is at the end."
        )
        return [
            left_table("api-cycles", "What the API leaves", about, before, most, after),
            grown("api-cycles", "One process with the API", inside),
            self._ends(),
        ]

    def _env(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.root / "tmp"), "PYTHONPATH": str(ROOT)}

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bench.api_cycles", *arguments],
            cwd=self.root,
            env=self._env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _kill(self, seconds: float, number: signal.Signals) -> None:
        with self._start("one") as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(number)
            with ended_hard(process):
                process.wait(CYCLE_S)
        self.counts["had ended before" if process.returncode == 0 else number.name] += 1
        if number not in self.reaped_after:
            return
        done = subprocess.run(
            [sys.executable, "-m", "harness", "reap"],
            cwd=self.root,
            env=self._env(),
            capture_output=True,
            text=True,
            timeout=CYCLE_S,
            check=True,
        )
        for line in done.stdout.splitlines():
            if line.startswith("removed "):
                self.reaped[line.split()[1]] += 1

    def _settled(self, wanted: Mapping[str, int]) -> dict[str, int]:
        until = time.monotonic() + SETTLE_S
        while (found := self._census()) != dict(wanted) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def _census(self) -> dict[str, int]:
        return census_of(self.root)

    def _ends(self) -> Table:
        rows = [("ended by", key, str(count)) for key, count in sorted(self.counts.items())]
        rows += [("removed by reap", key, str(count)) for key, count in sorted(self.reaped.items())]
        head = ("", "what", "times")
        return Table(name=self.name, title="Ends of programs", about=self.ends, head=head, rows=tuple(rows))


# --- the programs ---------------------------------------------------------------------------------


def _without_await() -> None:
    from harness.testing import start_server

    first = start_server(server_command("fast"), era="handshake")
    second = start_server(server_command("fast"), era="handshake")
    for server in (first, second):
        for number in range(CALLS):
            assert server.call("echo", {"text": str(number)}).text == str(number)
    first.close()
    second.close()


async def _with_await() -> None:
    from harness.testing_async import start_server

    first = await start_server(server_command("fast"), era="handshake")
    second = await start_server(server_command("fast"), era="handshake")
    await asyncio.gather(*(server.call("echo", {"text": "x"}) for server in (first, second) for _ in range(CALLS)))
    await first.close()
    await second.close()


def _many(number: int) -> list[dict[str, int]]:
    found = []
    for done in range(number):
        if done % 2:
            asyncio.run(_with_await())
        else:
            _without_await()
        found.append(held())
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.api_cycles")
    parser.add_argument("what", choices=["one", "many"])
    parser.add_argument("number", type=int, nargs="?", default=1)
    options = parser.parse_args()
    if options.what == "one":
        _without_await()
    else:
        print(json.dumps(_many(options.number)))
