"""Starts and stops of a real server with its stack, every fifth killed in the middle, and what is left of them.

Four of five run in one process, one after the other, so that a descriptor or a thread that is forgotten can be seen.
The others are commands of their own that get SIGKILL, or SIGTERM, at a random moment; after a SIGKILL comes `reap`.
What bears our mark is counted before, after each killed one, and at the end: it must be what it was.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.driver import ROOT, server_command
from bench.table import Table
from harness.engine.docker import open_engine, probe
from harness.engine.scope import LABEL

__all__ = ["CYCLES", "EVERY", "QUICK_CYCLES", "census_of", "ended_hard", "grown", "held", "left_table", "run"]

CYCLES = 100
QUICK_CYCLES = 5
EVERY = 5  # of so many, one is killed
TERM_EVERY = 4  # of so many that are killed, one is asked to end
EXAMPLE = "redis-mcp-server"
BUILD_S = 900.0
CYCLE_S = 180.0
SETTLE_S = 5.0  # for what is on its way out
GROWTH = 1.2  # how much more memory the last cycle may hold than the one in the middle

QUICK_PROJECT = """\
schema = 1
[server]
name    = "bench"
command = {command}
eras    = ["handshake"]
[suites]
files   = ["one.toml"]
"""
QUICK_BACKEND = """\
[backends.redis]
use      = "redis"
versions = ["8"]
"""
QUICK_SUITE = """\
schema = 2
id = "one"
[[case]]
id = "echo"
[[case.step]]
call      = "echo"
arguments = { text = "hello" }
"""


def run(*, rounds: int, quick: bool, cycles: int | None = None) -> list[Table]:  # noqa: ARG001 - as the others
    """All cycles, then the tables; with an embedded backend where there is no engine."""
    number = cycles or (QUICK_CYCLES if quick else CYCLES)
    engine = probe()
    with tempfile.TemporaryDirectory(prefix="bench-cycles-") as name:
        root = Path(name).resolve()
        arguments = _project(root, quick=quick, docker=engine.available)
        return _Cycles(root, arguments, number, docker=engine.available, cause=engine.cause).all()


def _project(root: Path, *, quick: bool, docker: bool) -> list[str]:
    """A copy of the example, built; the arguments of `run` for one run of it."""
    (root / "tmp").mkdir()
    folder = root / "examples" / EXAMPLE
    if quick:
        folder.mkdir(parents=True)
        text = QUICK_PROJECT.format(command=json.dumps(server_command("fast"))) + (QUICK_BACKEND if docker else "")
        (folder / "harness.toml").write_text(text, encoding="utf-8")
        (folder / "one.toml").write_text(QUICK_SUITE, encoding="utf-8")
        return ["--project", str(folder)]
    shutil.copytree(ROOT / "examples" / EXAMPLE, folder, ignore=shutil.ignore_patterns(".rollcall"))
    shutil.copy(ROOT / "exemptions.toml", root)
    runtime = ["--backend", "redis@8"] if docker else ["--runtime", "process"]
    return ["--project", str(folder), *runtime, "--era", "handshake", "--profile", "plain"]


class _Cycles:
    def __init__(self, root: Path, arguments: list[str], number: int, *, docker: bool, cause: str) -> None:
        self.root, self.arguments, self.number = root, arguments, number
        self.docker, self.cause = docker, cause
        self.pids: set[str] = set()
        self.killed = max(1, number // EVERY)
        self.chance = random.Random(number)
        self.stages: Counter[str] = Counter()
        self.reaped: Counter[str] = Counter()

    def all(self) -> list[Table]:
        """Builds, counts, runs, counts again."""
        self._command("build", timeout_s=BUILD_S)
        began = time.monotonic()
        self._command("run", timeout_s=CYCLE_S)
        typical = time.monotonic() - began
        before = self._census()
        most = Counter(before)
        for done in range(self.killed):
            self._kill(self.chance.random() * typical, term=done % TERM_EVERY == TERM_EVERY - 1)
            most |= Counter(self._settled(before))
            print(f"  killed {done + 1} of {self.killed}", file=sys.stderr, flush=True)
        inside = self._inside(self.number - self.killed)
        after = self._settled(before)
        return [self._left(before, most, after, typical), self._memory(inside), self._ends()]

    # --- the cycles -------------------------------------------------------------------------------

    def _env(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.root / "tmp"), "PYTHONPATH": str(ROOT)}

    def _start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", command, *self.arguments],
            cwd=self.root,
            env=self._env(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pids.add(str(process.pid))
        return process

    def _command(self, command: str, *, timeout_s: float) -> None:
        with self._start(command) as process:
            _, said = process.communicate(timeout=timeout_s)
        if process.returncode != 0:
            raise RuntimeError(f"{command} ended with {process.returncode}:\n{said}")

    def _kill(self, seconds: float, *, term: bool) -> None:
        """One command, killed after so many seconds; then the clean-up that its user would do."""
        with self._start("run") as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGTERM if term else signal.SIGKILL)
            with ended_hard(process):  # what it left may hold stderr open: it is not read to its end
                process.wait(CYCLE_S)
        if process.returncode == 0:
            self.stages["had ended before"] += 1
        elif term:
            self.stages[f"SIGTERM, exit {process.returncode}"] += 1
        else:
            self.stages["SIGKILL"] += 1
        if not term:
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

    def _inside(self, number: int) -> list[dict[str, int]]:
        """So many runs in one process, and what it held after each."""
        command = [sys.executable, "-m", "bench.cycles", str(number), "run", *self.arguments]
        with subprocess.Popen(command, cwd=self.root, env=self._env(), stdout=subprocess.PIPE, text=True) as process:
            self.pids.add(str(process.pid))
            out, _ = process.communicate(timeout=number * CYCLE_S)
        if process.returncode != 0:
            raise RuntimeError(f"the cycles in one process ended with {process.returncode}")
        found: list[dict[str, int]] = json.loads(out)
        return found

    # --- what is left -----------------------------------------------------------------------------

    def _settled(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """The census, as soon as it is what is wanted, or after a while."""
        until = time.monotonic() + SETTLE_S
        while (found := self._census()) != dict(wanted) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def _census(self) -> dict[str, int]:
        found = census_of(self.root)
        if self.docker:
            things = Counter(
                thing.kind
                for thing in open_engine().things_now(f"{LABEL}run")
                if thing.labels.get(f"{LABEL}pid") in self.pids
            )
            found |= {f"{kind}s": things[kind] for kind in ("container", "network", "volume")}
            found["volumes of nobody's"] = len(_anonymous())
        found["temporary files in .rollcall"] = sum(1 for path in self._state() if path.name.startswith(".r"))
        return found

    def _state(self) -> list[Path]:
        return [path for path in (self.root / "examples" / EXAMPLE / ".rollcall").rglob(".*") if path.is_file()]

    # --- tables -----------------------------------------------------------------------------------

    def _left(self, before: Mapping[str, int], most: Mapping[str, int], after: Mapping[str, int], s: float) -> Table:
        where = "in Docker" if self.docker else f"embedded, because Docker cannot be used: {self.cause}"
        about = (
            f"{self.number} starts and stops of a server and its stack ({where}), {s:.1f} s each; {self.killed} of "
            "them were killed in the middle. What was there before, the most that there was after a killed one and its "
            "clean-up, and what there is at the end."
        )
        return left_table("cycles", "What is left", about, before, most, after)

    def _memory(self, inside: list[dict[str, int]]) -> Table:
        return grown("cycles", "One process", inside)

    def _ends(self) -> Table:
        rows = [("ended by", key, str(count)) for key, count in sorted(self.stages.items())]
        rows += [("removed by reap", key, str(count)) for key, count in sorted(self.reaped.items())]
        about = "How the killed ones ended, and what `mcp-rollcall reap` then removed."
        return Table(name="cycles", title="Kills", about=about, head=("", "what", "times"), rows=tuple(rows))


def left_table(
    name: str, title: str, about: str, before: Mapping[str, int], most: Mapping[str, int], after: Mapping[str, int]
) -> Table:
    """What there was before, in between, and at the end; it fails where that is more."""
    return Table(
        name=name,
        title=title,
        about=about,
        head=("what", "before", "most after a kill", "after"),
        rows=tuple((key, str(before[key]), str(most[key]), str(after[key])) for key in before),
        failed=any(after[key] > before[key] for key in before),
    )


def grown(name: str, title: str, inside: Sequence[Mapping[str, int]]) -> Table:
    """What one process held after each of its cycles; it fails where that grows."""
    middle, last = inside[len(inside) // 2], inside[-1]
    marks = {"after the first": inside[0], "in the middle": middle, "after the last": last}
    worse = any(last[key] > max(inside[0][key], middle[key]) for key in ("descriptors", "threads"))
    memory = "resident memory, KiB"
    return Table(
        name=name,
        title=title,
        about=f"What the process that made {len(inside)} of the cycles held between them.",
        head=("what", *marks),
        rows=tuple((key, *(str(found[key]) for found in marks.values())) for key in inside[0]),
        failed=worse or last[memory] > GROWTH * middle[memory],
    )


def census_of(root: Path) -> dict[str, int]:
    """All processes that have the folder in their environment or their command line, and its temporary folders."""
    mark, processes = os.fsencode(str(root)), 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            processes += mark in said and int(entry.name) != os.getpid()
    return {"processes": processes, "temporary folders": len(os.listdir(root / "tmp"))}


@contextlib.contextmanager
def ended_hard(process: subprocess.Popen[str]) -> Iterator[None]:
    """At the end the process is dead, and nothing of it is read any more."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
        if process.stderr is not None:
            process.stderr.close()


def _anonymous() -> set[str]:
    """Volumes that no label tells apart: everybody's on this engine, so a quiet engine is wanted."""
    import docker

    client = docker.from_env()
    try:
        return {
            volume.id for volume in client.volumes.list() if not (volume.attrs.get("Labels") or {}).get(f"{LABEL}run")
        }
    finally:
        client.close()


def held() -> dict[str, int]:
    """What this process holds at this moment."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "threads": threading.active_count(),
        "children": len(children),
        "resident memory, KiB": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }


def _inside(number: int, arguments: list[str]) -> list[dict[str, int]]:
    from harness.cli import main

    found = []
    for done in range(number):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(arguments)
        if code != 0:
            raise RuntimeError(f"cycle {done + 1} ended with {code}:\n{said.getvalue()}")
        found.append(held())
        print(f"  {done + 1} of {number}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.cycles")
    parser.add_argument("number", type=int)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    print(json.dumps(_inside(options.number, options.arguments)))
