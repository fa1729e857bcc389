"""The CI files that users copy (docs/ci): valid, pinned, and quoted whole in the page. Ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "docs/ci").glob("*.yml"))
PAGE = ROOT / "docs/how-to/run-in-ci.md"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_each_file_is_valid_by_the_schema_of_its_service(file):
    schema = "vendor.github-workflows" if file.name.startswith("github") else "vendor.gitlab-ci"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_page_has_each_file_to_copy_as_it_is_tested(file):
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert file.read_text(encoding="utf-8") in blocks


def test_the_page_has_no_other_file_to_copy():
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == len(FILES)


def test_actions_are_pinned_by_commit_with_the_version_beside_it():
    lines = [line for file in FILES for line in file.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("name", ["github-one-job.yml", "github-matrix.yml", "github-rollout.yml"])
def test_a_workflow_may_read_the_repository_and_nothing_else(name):
    assert YAML(typ="safe").load(ROOT / "docs/ci" / name)["permissions"] == {"contents": "read"}
