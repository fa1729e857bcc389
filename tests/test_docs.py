"""The reference pages say what the code says, and the pages link to pages that exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness import testing

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_generated_reference_is_true():
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_python_api_has_every_public_name():
    page = (ROOT / "docs/reference/python-api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^### `(\w+)`", page, re.MULTILINE))
    inside = {"ExpectError", "start_live"}  # a type of an argument, and the door of the plugin
    assert shown == set(testing.__all__) - inside


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_index_leads_to_every_page_with_a_sentence():
    index = ROOT / "docs/index.md"
    items = re.findall(
        r"^- \[[^\]]+\]\(([^)]+)\)(.+?)(?=^- |^\*\*|\Z)", index.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert {index.parent / target for target, _ in items} == {page for page in PAGES[1:] if page != index}
    assert all(len(words.split()) >= 5 and words.strip().endswith(".") for _, words in items)


def test_the_architecture_names_every_door():
    text = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    doors = {path.name for path in (ROOT / "harness").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert {name for name in doors if f"{name}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_toml_that_is_shown_can_be_read(page):
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        tomllib.loads(block)
