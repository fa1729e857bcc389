"""The bench in its quick form: every row is there. What the figures are is nobody's assertion."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def bench(*arguments, **env):
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(text, title):
    """The rows of a table by their first two cells."""
    part = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    return {tuple(line[:2]): line[2:] for line in lines[2:]}


@pytest.fixture
def no_npm(tmp_path):
    """A PATH on which Python is, and npm is not."""
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "git").symlink_to(shutil.which("git") or "/bin/false")
    return str(tmp_path)


def test_every_part_gives_all_its_rows_and_a_client_that_cannot_be_had_says_so(no_npm, tmp_path):
    text = bench("--out", str(tmp_path / "bench.md"), PATH=no_npm)
    assert (tmp_path / "bench.md").read_text(encoding="utf-8") == text
    clients = {"ours, `wire`", "bare asyncio loop", "Python SDK", "TypeScript SDK"}
    servers = ("fast server", "SDK server")
    doors = {"ours, `harness.testing`", "ours, `harness.testing_async`"}
    over_http = {("over HTTP", client) for client in (doors | clients) - {"ours, `wire`", "TypeScript SDK"}}
    assert (
        set(rows(text, "Calls")) == {(server, client) for server in servers for client in clients | doors} | over_http
    )
    whole = {what for _, what in rows(text, "A whole command")}
    assert whole > {"`mcp-rollcall run`", "`mcp-rollcall integration`", "bare asyncio loop", "Python SDK"}
    large = {what for _, what in rows(text, "Large lines")}
    assert large == clients | {"`json.loads` alone", "`json.loads`, SHA-256, one file"}
    assert {kind for kind, _ in rows(text, "Ready")} == {"tcp", "http"}
    proxied = rows(text, "Recording proxy")
    assert {what for what, _ in proxied} == {*servers, "a start and its end"}
    assert {how for _, how in proxied} == {"with", "without"}
    assert {calls for calls, _ in rows(text, "Recorded calls")} == {"100", "1 000"}
    said = rows(text, "Calls")[("fast server", "TypeScript SDK")]
    assert said[0] == "not measured: there is no node on PATH"
    measured = [cells for key, cells in rows(text, "Calls").items() if key[1] != "TypeScript SDK"]
    assert all("not measured" not in cell and cell != "-" for cells in measured for cell in cells)


@pytest.mark.docker
def test_cycles_leave_nothing_and_say_what_was_killed(tmp_path):
    text = bench("--only", "cycles", "--cycles", "3", "--only", "reset", "--out", str(tmp_path / "cycles.md"))
    assert [key[0] for key in rows(text, "Stacks that are reset")] == ["redis@8"]  # the quickest of them
    left = rows(text, "What is left")
    assert {"processes", "containers", "networks", "volumes", "temporary folders"} <= {key[0] for key in left}
    assert {key[0] for key in rows(text, "One process")} >= {"descriptors", "threads", "children"}
    assert {key[0] for key in rows(text, "Kills")} >= {"ended by"}


def test_cycles_through_the_api_leave_nothing(tmp_path):
    text = bench("--only", "api-cycles", "--cycles", "3", "--out", str(tmp_path / "cycles.md"))
    assert set(rows(text, "What the API leaves")) == {("processes", "0"), ("temporary folders", "0")}
    assert {key[0] for key in rows(text, "One process with the API")} >= {"descriptors", "threads", "children"}
    assert {key[0] for key in rows(text, "Ends of programs")} >= {"ended by"}


def test_a_leak_makes_the_bench_fail():
    sys.path.insert(0, str(ROOT))
    try:
        cycles = importlib.import_module("bench.cycles")
    finally:
        sys.path.remove(str(ROOT))
    clean = {"processes": 0, "temporary folders": 0}
    assert not cycles.left_table("n", "t", "a", clean, clean, clean).failed
    assert cycles.left_table("n", "t", "a", clean, clean, {**clean, "processes": 1}).failed
    held = {"descriptors": 3, "threads": 1, "children": 0, "resident memory, KiB": 1000}
    assert not cycles.grown("n", "t", [held] * 3).failed
    assert cycles.grown("n", "t", [held, held, {**held, "descriptors": 4}]).failed
