"""The tests that docs/how-to/tests-in-code.md shows are run, beside a server of ours. Ours."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "tests-in-code.md"
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


def run(folder, *names):
    for name in ("good.py", "raw.py"):
        shutil.copy(ROOT / "tests" / "servers" / name, folder / name)
    (folder / "good.py").rename(folder / "server.py")
    for name in names:
        (folder / name).write_text(FILES[name], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *names]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_is_shown_passes(tmp_path):
    names = sorted(FILES.keys() - {"test_redis.py"})
    assert len(names) == 4
    assert "5 of 6 tools exercised, 1 excused" in run(tmp_path, *names)


@pytest.mark.docker
def test_what_is_shown_of_a_backend_passes(tmp_path):
    run(tmp_path, "test_redis.py")
