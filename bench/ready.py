"""How long after a service has begun to answer we go on, against the interval of the probes."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import time

from bench.driver import HERE
from bench.table import Table, ratios, spread
from harness.engine.ready import EVERY_S, PASSES, network_probe, wait_ready
from harness.model.plan import ReadySpec

__all__ = ["run"]

TIMEOUT_S = 30.0
KINDS = {
    "tcp": ReadySpec(tcp="main", send="PING\r\n", expect="PONG"),
    "http": ReadySpec(http="main", path="/"),
}


def run(*, rounds: int, quick: bool) -> list[Table]:
    """Each round begins at another instant of the interval."""
    rounds = 2 if quick else 4 * rounds
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    chance = random.Random(rounds)
    for _ in range(rounds):
        for kind in KINDS:
            found[kind].append(_late(kind, 0.3 + chance.random() * EVERY_S))
    interval = [1000 * EVERY_S] * rounds
    rows = tuple((kind, spread(times), ratios(times, interval)) for kind, times in found.items())
    about = (
        f"From the instant at which a service begins to answer to the instant at which we go on, {rounds} times. We "
        f"look every {1000 * EVERY_S:g} ms and want {PASSES} passes in a row, so between {PASSES - 1} and {PASSES} "
        "intervals are the price of the rule."
    )
    return [Table(name="ready", title="Ready", about=about, head=("check", "ms", "intervals"), rows=rows)]


def _late(kind: str, seconds: float) -> float:
    """Milliseconds from its first answer on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, str(HERE / "servers" / "late.py"), kind, str(port), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            now = asyncio.run(_wait(kind, port, process))
            assert process.stdout is not None
            return 1000 * (now - float(process.stdout.readline()))
        finally:
            process.kill()


async def _wait(kind: str, port: int, process: subprocess.Popen[bytes]) -> float:
    """The instant at which we go on."""

    async def watch() -> str | None:
        return None if process.poll() is None else f"the service ended with {process.returncode}"

    probe = network_probe(KINDS[kind], {"main": ("127.0.0.1", port)}, {})
    waited = await wait_ready(probe, watch, timeout_s=TIMEOUT_S)
    if not waited.ready:
        raise RuntimeError(f"the service of the bench was not ready: {waited.observation} {waited.ended or ''}")
    return time.monotonic()
