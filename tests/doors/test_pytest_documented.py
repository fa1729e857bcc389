"""The pages on tests in pytest: every snippet runs, and the reference names all that there is. Ours."""

import re
from pathlib import Path

from harness import pytest_plugin
from harness.pytest_state import FIXTURES

DOCS = Path(__file__).parent.parent.parent / "docs"
REFERENCE = (DOCS / "reference/pytest.md").read_text(encoding="utf-8")


def test_every_snippet_of_the_how_to_runs(inner):
    inner.project(eras='["modern", "handshake"]', more='[profiles.plain]\n[profiles.asking]\nelicit = "accept"')
    text = 'schema = 1\n[good.exercised]\nfail = "it fails on purpose, whatever it is given"\n'
    (inner.root / "exemptions.toml").write_text(text, encoding="utf-8")
    inner.pytester.makeini("[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n")
    page = (DOCS / "how-to/tests-in-pytest.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == page.count("```python") == 5
    for name, text in blocks:
        path = inner.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    result = inner.run("tests/integration", plugins=("mcp_rollcall", "pytest_asyncio.plugin"))
    result.assert_outcomes(passed=4 * 5 + 2 * 2)
    assert result.ret == 0
    assert "clean — 5 of 6 tools exercised, 1 excused" in inner.section(result)


def test_the_reference_names_every_fixture_option_and_ini_value(inner):
    table = REFERENCE.partition("## Fixtures")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == {*pytest_plugin.__all__, *FIXTURES}
    said = inner.run("--help").stdout.str()
    options, values = (
        set(re.findall(r"^ +--mcp-(\w+)", said, re.MULTILINE)),
        set(re.findall(r"mcp_rollcall_(\w+) \(", said)),
    )
    table = REFERENCE.partition("## Options and ini values")[2].partition("\n## ")[0]
    assert set(re.findall(r"`--mcp-(\w+)", table)) == options
    assert set(re.findall(r"`mcp_rollcall_(\w+)`", table)) == values
