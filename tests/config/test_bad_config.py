"""Ours: what people are told about files that cannot be used, to the byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.config.load import load
from harness.config.problems import table_of
from harness.config.rollout import read_rollout
from harness.errors import HarnessError

HERE = Path(__file__).parents[1] / "bad_config"
TARGETS = {
    "harness": "harness.toml",
    "suite": "suites/things.toml",
    "backend": "backends/thing/backend.toml",
    "exemptions": "exemptions.toml",
    "rollout": "rollout.toml",
}
BAD = sorted(path for path in HERE.iterdir() if path.suffix == ".toml" or path.is_dir())


def said(root: Path) -> str:
    """What loading a project (or all projects in a folder) tells people."""
    if (root / "rollout.toml").exists():
        try:
            read_rollout(root)
        except HarnessError as error:
            return f"exit {error.code}\n{error}\n"
    paths = [root] if (root / "harness.toml").exists() else sorted(path for path in root.iterdir() if path.is_dir())
    try:
        found = load(paths, base=root, catalogue=[root / "catalogue"], exemptions_beside=root)
    except HarnessError as error:
        return f"exit {error.code}\n{error}\n" + (f"  hint: {error.hint}\n" if error.hint else "")
    lines = [
        f"{entry.place} [{table_of((entry.server, entry.check))}] {table_of((entry.subject,))}: {problem}"
        for entry in found.exemptions
        for problem in entry.problems
    ]
    return "malformed\n" + "".join(f"{line}\n" for line in lines) if lines else "nothing is wrong\n"


@pytest.mark.parametrize("bad", BAD, ids=lambda path: path.name)
def test_a_bad_file_gets_its_message(bad: Path, good, write, tmp_path: Path) -> None:
    if bad.is_dir():
        root = tmp_path / "work"
        shutil.copytree(bad, root)
    else:
        kind = bad.name.partition("-")[0]
        root = write({**good, TARGETS[kind]: bad.read_bytes()}, "work")
    text = said(root)
    pinned = bad.with_suffix(".txt") if bad.suffix == ".toml" else bad.with_name(f"{bad.name}.txt")
    if os.environ.get("ROLLCALL_PIN"):
        pinned.write_text(text, encoding="utf-8", newline="")
    assert text == pinned.read_bytes().decode()
    assert str(tmp_path) not in text
    assert "nothing is wrong" not in text or bad.name.endswith("-accepted.toml")


def test_every_bad_file_has_a_text_and_every_text_a_file() -> None:
    names = {path.name.removesuffix(".toml") for path in BAD}
    assert names == {path.name.removesuffix(".txt") for path in HERE.glob("*.txt")}
    assert len(names) >= 40


def test_no_text_speaks_in_the_words_of_json_schema() -> None:
    words = ("is not of type", "is a required property", "Additional properties", "is not valid under", "instance")
    for path in HERE.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in words if word in text], path.name


def test_the_good_project_around_the_bad_files_is_good(loaded) -> None:
    assert [project.server.name for project in loaded().projects] == ["things"]
