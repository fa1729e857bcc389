"""What the recording proxy costs: a call, a start, and memory under a flood, with and without it in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.driver import ROOT, Driver, server_command
from bench.table import Table, ratios, spread

__all__ = ["run"]

SERVERS = {"fast": "fast server", "real": "SDK server"}
CALLS = {"fast": 2000, "real": 400}
STARTS = 5  # in each round
FLOOD_BYTES = 400_000_000
QUICK_FLOOD_BYTES = 20_000_000
SAMPLE_S = 0.01
RECORDERS_S = 120.0
HOW = {False: "without", True: "with"}
PROXY = [sys.executable, "-I", "-S", str(ROOT / "harness" / "proxy.py")]
FLOODS = """
import os, sys
left = int(sys.argv[1])
line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}\\n' % (b"x" * 1000)
data = line * 60
while left > 0:
    left -= os.write(1, data)
"""


def run(*, rounds: int, quick: bool) -> list[Table]:
    """One table of times, one of memory."""
    with TemporaryDirectory(prefix="bench-") as folder:
        rows = [row for server in SERVERS for row in _calls(server, folder, rounds=rounds, quick=quick)]
        starts = _starts(folder, rounds=rounds, quick=quick)
        flood = _flood(folder, QUICK_FLOOD_BYTES if quick else FLOOD_BYTES)
        _recorders_ended(folder)
    about = (
        f"Calls of a small tool, one at a time, by the bare client loop; median and range of {rounds} rounds in which "
        "the two take turns, each with a server process of its own. The ratio is to the same round without the proxy. "
        "A start is from the start of the process to the end of an empty input, of a server that does nothing."
    )
    return [
        Table(
            name="proxy",
            title="Recording proxy",
            about=about,
            head=("server", "proxy", "µs a call", "ratio"),
            rows=(*rows, *starts),
        ),
        Table(
            name="proxy",
            title="Recording proxy, memory under a flood",
            about="A server that writes without a pause; the most that each process held, and how fast all of it came.",
            head=("bytes", "proxy, MB", "recorder, MB", "MB a second"),
            rows=(flood,),
        ),
    ]


def _through(folder: str, command: list[str]) -> list[str]:
    return [*PROXY, "--evidence", folder, "--", *command]


def _calls(server: str, folder: str, *, rounds: int, quick: bool) -> list[tuple[str, ...]]:
    plain = server_command(server)
    drivers = {False: Driver("bare", plain), True: Driver("bare", _through(folder, plain))}
    times: dict[bool, list[float]] = defaultdict(list)
    try:
        for driver in drivers.values():
            driver.ready()
        for number in range(rounds + 1):
            calls = CALLS[server] // (10 if quick or number == 0 else 1)
            for through, driver in drivers.items():
                seconds = driver.measure("echo", {"text": "hello"}, calls=calls, at_once=1)
                if number:  # the first round warms up
                    times[through].append(1e6 * seconds / calls)
    finally:
        for driver in drivers.values():
            driver.end()
    return [
        (SERVERS[server], HOW[through], spread(times[through]), ratios(times[through], times[False]))
        for through in (False, True)
    ]


def _starts(folder: str, *, rounds: int, quick: bool) -> list[tuple[str, ...]]:
    times: dict[bool, list[float]] = defaultdict(list)
    for _ in range(rounds * (1 if quick else STARTS)):
        for through in (False, True):
            command = _through(folder, ["/bin/cat"]) if through else ["/bin/cat"]
            began = time.perf_counter()
            subprocess.run(command, input=b"", capture_output=True, check=True)
            times[through].append(1e6 * (time.perf_counter() - began))
    return [
        ("a start and its end", HOW[through], spread(times[through]), ratios(times[through], times[False]))
        for through in (False, True)
    ]


def _flood(folder: str, size: int) -> tuple[str, ...]:
    began = time.perf_counter()
    child = subprocess.Popen(
        _through(folder, [sys.executable, "-c", FLOODS, str(size)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    peaks: dict[int, int] = {}
    got, sampled = 0, 0.0
    while data := os.read(child.stdout.fileno(), 1 << 16):
        got += len(data)
        if time.perf_counter() - sampled > SAMPLE_S:
            sampled = time.perf_counter()
            for pid in (child.pid, *_children(child.pid)):
                peaks[pid] = max(peaks.get(pid, 0), _peak(pid))
    seconds = time.perf_counter() - began
    ours = peaks.pop(child.pid, 0)
    child.wait()
    recorder = max(peaks.values(), default=0)
    return (f"{got:,}", f"{ours / 1e6:.0f}", f"{recorder / 1e6:.0f}", f"{got / 1e6 / seconds:.0f}")


def _recorders_ended(folder: str) -> None:
    """Waits for the recorders: each outlives its proxy, and writes down what is left."""
    end = time.monotonic() + RECORDERS_S
    while any(folder.encode() in line for line in _command_lines()):
        if time.monotonic() > end:
            raise TimeoutError(f"a recorder has not ended within {RECORDERS_S:.0f} s")
        time.sleep(SAMPLE_S)


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def _children(parent: int) -> list[int]:
    """The recorder: a copy of the proxy, and none of the server's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            words = path.read_text().rpartition(")")[2].split()
            if int(words[1]) == parent and b"proxy.py" in (path.parent / "cmdline").read_bytes():
                found.append(int(path.parent.name))
    return found


def _peak(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return 0
