"""One call from the start of a process to its exit: what a whole command costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.driver import CLIENTS, ROOT, Missing, client_command, server_command
from bench.table import Table, ratios, spread

__all__ = ["run"]

SUITE = """\
schema = 2
id = "one"

[[case]]
id = "echo"
[[case.step]]
call      = "echo"
arguments = { text = "hello" }
expect    = { text_contains = "hello" }
"""
RUNS = {
    "run": "`mcp-rollcall run`",
    "run-alone": "`mcp-rollcall run`, checks.client off",
    "integration": "`mcp-rollcall integration`",
}
TIMEOUT_S = 120.0
SERVERS = {"fast": "fast server", "real": "SDK server"}


def run(*, rounds: int, quick: bool) -> list[Table]:
    """Every command once a round."""
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for server, title in list(SERVERS.items())[: 1 if quick else None]:
            rows += _server(Path(folder), server, title, rounds=rounds, warm=not quick)
    about = (
        "The whole process, from start to exit: start the server, open the session, list the tools, call one, end the "
        "server. Ours reads its files, records, sends a broken line to a second server process, looks for orphans and "
        "writes the evidence; unless `checks.client` is off, a third one is compared with by the SDK's client; "
        "`integration` judges and writes the reports as well."
    )
    head = ("server", "what", "s", "to the bare loop")
    return [Table(name="command", title="A whole command", about=about, head=head, rows=tuple(rows))]


def _server(folder: Path, server: str, title: str, *, rounds: int, warm: bool) -> list[tuple[str, ...]]:
    commands: dict[str, list[str] | Missing] = {}
    for what in RUNS:
        commands[what] = _ours(folder / f"{server}-{what}", what, server)
    for name in CLIENTS:
        try:
            commands[name] = client_command(name, server_command(server), once=True)
        except Missing as missing:
            commands[name] = missing
    del commands["wire"]  # it is what `run` is measured for
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(0 if warm else 1, rounds + 1):
        for name, command in commands.items():
            if isinstance(command, list):
                seconds = _seconds(command)
                if number:  # the first one compiles and fills caches
                    times[name].append(seconds)
    rows = []
    for name, command in commands.items():
        label = RUNS.get(name) or CLIENTS[name]
        if isinstance(command, Missing):
            rows.append((title, label, str(command), "-"))
        else:
            rows.append((title, label, spread(times[name]), ratios(times[name], times["bare"])))
    return rows


def _ours(folder: Path, what: str, server: str) -> list[str]:
    folder.mkdir()
    quoted = json.dumps(server_command(server))
    checks = '[checks]\noutput-schema = "off"\n' + ('client = "off"\n' if what == "run-alone" else "")
    text = f'schema = 1\n[server]\nname = "bench"\neras = ["handshake"]\ncommand = {quoted}\n'
    (folder / "harness.toml").write_text(f'{text}[suites]\nfiles = ["one.toml"]\n{checks}', encoding="utf-8")
    (folder / "one.toml").write_text(SUITE, encoding="utf-8")
    exemptions = '[bench.exercised]\nstring = "costs time and is measured elsewhere"\n'
    exemptions += 'objects = "costs time and is measured elsewhere"\n'
    text = f"schema = 1\n{exemptions if server == 'fast' else ''}"
    (folder / "exemptions.toml").write_text(text, encoding="utf-8")
    return [sys.executable, "-P", "-m", "harness", what.partition("-")[0], "--project", str(folder)]


def _seconds(command: list[str]) -> float:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds
