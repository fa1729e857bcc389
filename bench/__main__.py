"""`python -m bench`: everything, as Markdown on standard output and in .rollcall/bench.md."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.driver import ROOT

PARTS = ("calls", "command", "lines", "proxy", "ready", "recorded")
EXTRA = ("cycles", "api-cycles", "plugin-cycles", "fleet", "reset")  # only when asked for: they take long
ROUNDS = 7
OUT = ROOT / ".rollcall" / "bench.md"
QUICK_ROUNDS = 1


def main() -> int:
    """Runs the parts that were asked for, one after the other; 1 where one of them found a leak."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of small sizes, only to see that it works")
    parser.add_argument("--only", action="append", choices=[*PARTS, *EXTRA], help="one part; may be repeated")
    parser.add_argument(
        "--rounds", type=int, help=f"how many rounds are measured ({ROUNDS}; {QUICK_ROUNDS} with --quick)"
    )
    parser.add_argument(
        "--cycles",
        type=int,
        help="how many starts and stops the parts cycles, api-cycles and plugin-cycles make (100; 5 with --quick)",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="where the tables go too (.rollcall/bench.md)")
    options = parser.parse_args()
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    text = _about(quick=options.quick)
    print(text, end="", flush=True)
    failed = 0
    for name in options.only or PARTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        began = time.monotonic()
        part = importlib.import_module(f"bench.{name.replace('-', '_')}")
        more = {"cycles": options.cycles} if name.endswith("cycles") else {}
        for table in part.run(rounds=rounds, quick=options.quick, **more):
            text += "\n" + table.markdown()
            print("\n" + table.markdown(), end="", flush=True)
            failed |= table.failed
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if options.out == OUT:
        OUT.parent.mkdir(exist_ok=True)
        (OUT.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    options.out.write_text(text, encoding="utf-8")
    return int(failed)


def _about(*, quick: bool) -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    facts = [
        f"{when} UTC",
        f"commit {done.stdout.strip() or 'unknown'}",
        f"Python {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        f"{cores} cores",
        f"load {load:.1f} at the beginning",
    ]
    return f"# Bench\n\n{', '.join(facts)}{'; quick: the figures mean nothing' if quick else ''}.\n"


if __name__ == "__main__":
    raise SystemExit(main())
