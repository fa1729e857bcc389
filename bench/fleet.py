"""What a list of very many repositories costs to plan and to judge, and how both grow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.driver import ROOT
from bench.table import Table

__all__ = ["run"]

SIZES = (100, 300, 1_000)
QUICK_SIZES = (3, 10)
TOOLS = 50
TIMEOUT_S = 1800.0
HARNESS = """\
schema = 1
[server]
name = "{name}"
command = ["{python}", "{server}"]
eras = ["handshake"]
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""


def run(*, rounds: int, quick: bool) -> list[Table]:  # noqa: ARG001 - one round takes long enough
    """Each size in processes of its own."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        for size in QUICK_SIZES if quick else SIZES:
            base = Path(name) / str(size)
            _make(base, size)
            cells = [f"{size:,}".replace(",", " ")]
            for words in (("plan", "--shards", "10", "--format", "json"), ("judge", "--out", "all.json")):
                wall, seconds, peak = _command(base, *words)
                cells += [f"{wall:.1f} s", f"{seconds:.1f} s", f"{1000 * seconds / size:.1f} ms"]
                cells.append(f"{peak / 2**20:.0f} MiB")
            report = json.loads((base / "all.json").read_bytes())
            cells.append(f"{report['verdict']}, {sum(cell['succeeded'] for cell in report['coverage'])} tools")
            rows.append(tuple(cells))
            shutil.rmtree(base)
    about = (
        f"Repositories of {TOOLS} tools each, with the evidence of one run each: `rollout plan` divides the list, "
        "`rollout judge` reads every file and all evidence and writes all reports. Wall time, processor time "
        "(with that for each repository), and the peak of resident memory. Their evidence is one, copied."
    )
    head = ("repositories", "plan", "CPU", "each", "memory", "judge", "CPU", "each", "memory", "report")
    return [Table(name="fleet", title="Many repositories", about=about, head=head, rows=tuple(rows))]


def _make(base: Path, size: int) -> None:
    """A list of so many repositories, and evidence of all of them."""
    from harness.config.load import load
    from harness.config.plan import Selection, make_plan

    names = [f"server-{number:04}" for number in range(size)]
    cases = "".join(
        f'[[case]]\nid = "case-{number:02}"\n[[case.step]]\ncall = "tool_{number:02}"\n'
        f'arguments = {{ key = "k{number}", count = 1, mode = "fast" }}\n'
        f'expect = {{ pointer = {{ "/structuredContent/done" = "tool_{number:02} of k{number}" }} }}\n'
        for number in range(TOOLS)
    )
    for name in names:
        (base / name / "suites").mkdir(parents=True)
        text = HARNESS.format(name=name, python=sys.executable, server=ROOT / "bench" / "servers" / "many.py")
        (base / name / "harness.toml").write_text(text)
        (base / name / "suites" / "all.toml").write_text(f'schema = 2\nid = "all"\n{cases}')
    (base / "rollout.toml").write_text("schema = 1\n" + "".join(f'[[repository]]\npath = "{name}"\n' for name in names))
    first = names[0]
    _command(base, "--only", first)
    evidence = base / ".rollcall" / "evidence"
    (attempt,) = (path.parent for path in (evidence / first).rglob("done"))
    record = json.loads((evidence / ".rollout" / f"{first}.json").read_bytes())
    there = attempt.relative_to(evidence / first)
    told = json.loads((attempt / "run.json").read_bytes())
    for name in names[1:]:
        folder = evidence / name / there
        shutil.copytree(attempt, folder)
        plan = make_plan(load([base / name], base=base, catalogue=[]), selection=Selection(), runtimes={})
        text = json.dumps(told).replace(f'"{first}"', f'"{name}"')
        text = text.replace(told["plan"], plan.cells[0].runs[0].fingerprint)
        (folder / "run.json").write_text(text)
        (evidence / ".rollout" / f"{name}.json").write_text(json.dumps(record).replace(first, name))


def _command(base: Path, *words: str) -> tuple[float, float, int]:
    """Seconds of a command of rollout, those of the processor, and its peak of memory."""
    script = (
        "import sys, pathlib; from harness.cli import main; code = main(['rollout', *sys.argv[1:]]);"
        "status = pathlib.Path('/proc/self/status').read_text();"
        "import time; print(time.process_time(), file=sys.stderr);"
        "print(next(line.split()[1] for line in status.splitlines() if line.startswith('VmHWM:')), file=sys.stderr);"
        "sys.exit(code)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=base,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"rollout {' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    *_, cpu, peak = done.stderr.split()
    return seconds, float(cpu), int(peak) * 1024
