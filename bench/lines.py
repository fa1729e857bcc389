"""Answers of 30 MB in one line, beside `json.loads` of the same text."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.driver import CLIENTS, Driver, Missing, drivers, server_command
from bench.servers.fast import large
from bench.table import Table, ratios, spread

__all__ = ["run"]

SIZE_BYTES = 30_000_000
QUICK_BYTES = 3_000_000
KINDS = {"string": "one string", "objects": "many objects"}
SLOW = {"sdk", "typescript"}  # one round will do: the Python SDK reads a line in quadratic time


def run(*, rounds: int, quick: bool) -> list[Table]:
    """From the request to the parsed answer, the making of the answer not counted."""
    size = QUICK_BYTES if quick else SIZE_BYTES
    rows: list[tuple[str, ...]] = []
    for kind, title in KINDS.items():
        rows += _kind(kind, title, rounds=rounds, size=size)
    about = (
        f"One answer of {size // 1_000_000} MB in one line, from the request to the parsed result; the server has it "
        f"ready. Median and range of {rounds} rounds; the SDKs' clients, which take long, have one. The ratios are to "
        "`json.loads` of the same text in the same round, and to the bare loop, which reads the pipe and parses, and "
        "keeps nothing. Evidence cannot cost less than parsing, hashing and writing the bytes: that is the second row."
    )
    head = ("answer", "what", "ms", "to json.loads", "to the bare loop")
    return [Table(name="lines", title="Large lines", about=about, head=head, rows=tuple(rows))]


def _kind(kind: str, title: str, *, rounds: int, size: int) -> list[tuple[str, ...]]:
    line = large(kind, size)
    text = line.decode()
    times: dict[str, list[float]] = defaultdict(list)
    with TemporaryDirectory(prefix="bench-") as folder, drivers(server_command("fast"), list(CLIENTS)) as clients:
        for number in range(rounds + 1):
            times["loads"].append(_milliseconds(partial(json.loads, text)))
            times["kept"].append(_milliseconds(partial(_keep, line, Path(folder) / str(number))))
            for name, client in list(clients.items()):
                if not isinstance(client, Driver) or (number > 1 and name in SLOW):
                    continue
                try:
                    if number == 0 and name in SLOW:
                        client.measure(kind, {"bytes": 1000})
                    # the first call makes the answer
                    times[name].append(1000 * client.measure(kind, {"bytes": size}))
                except Missing as missing:
                    clients[name] = missing
                    client.end()
    loads, base = times["loads"][1:], times["bare"][1:]
    kept = times["kept"][1:]
    rows = [
        (title, "`json.loads` alone", spread(loads), "1", ratios(loads, base)),
        (title, "`json.loads`, SHA-256, one file", spread(kept), ratios(kept, loads), ratios(kept, base)),
    ]
    for name, label in CLIENTS.items():
        client = clients[name]
        if isinstance(client, Missing):
            rows.append((title, label, str(client), "-", "-"))
            continue
        found = times[name][1:]
        rows.append((title, label, spread(found), ratios(found, loads), ratios(found, base)))
    return rows


def _keep(line: bytes, path: Path) -> object:
    path.with_name(f"{path.name}-{hashlib.sha256(line).hexdigest()}").write_bytes(line)
    return json.loads(line.decode())


def _milliseconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return 1000 * (time.perf_counter() - began)
