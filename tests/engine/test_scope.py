"""The identity of an invocation and its folder."""

import ast
from pathlib import Path

import pytest

import harness
from harness.engine.scope import open_scope
from harness.errors import StackError

HARNESS = Path(harness.__file__).parent
CLOCKS = ("time.time", "time.time_ns", "datetime.now", "date.today", "datetime.today", "datetime.utcnow")
DATED = {
    "engine/build.py": "how old a build on the disk is, beside its time of change",
    "cli.py": "the day of `expires`",
    "tools_door.py": "the same",
    "engine/stack.py": "from when on the log of a container is of this run, which the engine tells by this clock",
    "engine/evidence.py": "names of attempts, which sort by time",
    "engine/live_start.py": "names of transcripts, which sort by time",
    "proxy.py": "the same",
    "pytest_runs.py": "the day of `expires`",
    "rollout_commands.py": "the same",
    "testing_judge.py": "the same",
}


def test_the_folder_is_gone_afterwards(tmp_path):
    with open_scope(tmp_path) as scope:
        assert scope.tmp.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_temporary_files_is_an_error_with_the_variable_to_set(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "nowhere"):
        with pytest.raises(StackError, match="there is no place for temporary files") as caught, open_scope(place):
            pytest.fail("it was opened")
        assert "TMPDIR" in caught.value.hint


def test_clocks_that_may_jump_measure_nothing():
    """Durations and deadlines are by the monotonic clock; the wall clock gives dates and names only."""
    for path in sorted(HARNESS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
                if name in CLOCKS:
                    assert path.relative_to(HARNESS).as_posix() in DATED, (path, node.lineno)
