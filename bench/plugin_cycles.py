"""Starts and stops of servers by the pytest plugin, every fifth session ended in the middle, and what is left.

Four of five are tests of one session, each with a server of its own. The others are sessions of their own that get
SIGKILL, SIGTERM or SIGINT at a random moment; after the first comes `reap`, the other two must leave nothing.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.api_cycles import CYCLE_S, Cycles
from bench.cycles import CYCLES, QUICK_CYCLES, grown, left_table
from bench.driver import server_command
from bench.table import Table

__all__ = ["run"]

PROJECT = """\
schema = 1
[server]
name    = "bench"
command = {command}
eras    = ["handshake"]
"""
TESTS = """\
import json
import os
import pytest
from bench.cycles import held

@pytest.mark.parametrize("number", range(int(os.environ["BENCH_NUMBER"])))
def test_one(mcp_harness, number):
    for count in range(20):
        assert mcp_harness.call("echo", {"text": str(count)}).text == str(count)
    with open("held.jsonl", "a") as file:
        file.write(json.dumps(held()) + "\\n")
"""


def run(*, rounds: int, quick: bool, cycles: int | None = None) -> list[Table]:  # noqa: ARG001 - as the others
    """All cycles, then the tables."""
    number = cycles or (QUICK_CYCLES if quick else CYCLES)
    with tempfile.TemporaryDirectory(prefix="bench-plugin-cycles-") as name:
        return _Cycles(Path(name).resolve(), number).all()


class _Cycles(Cycles):
    name = "plugin-cycles"
    ends = (
        "How the sessions were ended, and what `mcp-rollcall reap` then removed, which was called after SIGKILL only."
    )
    reaped_after = (signal.SIGKILL,)

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root, number)
        (root / "harness.toml").write_text(PROJECT.format(command=json.dumps(server_command("fast"))), encoding="utf-8")
        (root / "test_cycles.py").write_text(TESTS, encoding="utf-8")
        (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def all(self) -> list[Table]:
        """Counts, runs, counts again."""
        before = self._census()
        began = time.monotonic()
        self._session(1)
        typical = time.monotonic() - began
        most = Counter(before)
        for done in range(self.killed):
            self._kill(self.chance.random() * typical, self.signals[done % len(self.signals)])
            most |= Counter(self._settled(before))
            print(f"  ended {done + 1} of {self.killed}", file=sys.stderr, flush=True)
        (self.root / "held.jsonl").unlink(missing_ok=True)
        self._session(self.number - self.killed)
        lines = (self.root / "held.jsonl").read_text(encoding="utf-8").splitlines()
        after = self._settled(before)
        about = (
            f"{self.number} starts and stops by the pytest plugin, {typical:.1f} s for a session of one test; "
            f"{self.killed} of the sessions were ended in the middle. What was there before, the most that there was "
            "after one of these and its clean-up, and what there is at the end."
        )
        return [
            left_table(self.name, "What the plugin leaves", about, before, most, after),
            grown(self.name, "One session with the plugin", [json.loads(line) for line in lines]),
            self._ends(),
        ]

    def _session(self, number: int) -> None:
        with self._start(str(number)) as process:
            said, _ = process.communicate(timeout=number * CYCLE_S)
        if process.returncode != 0:
            raise RuntimeError(f"a session ended with {process.returncode}:\n{said}")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        number = arguments[0] if arguments[0].isdigit() else "1"
        options = ("-p", "mcp_rollcall", "-q", "--mcp-scope=function", "--mcp-gate=off")
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *options],
            cwd=self.root,
            env={**self._env(), "BENCH_NUMBER": number, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
