"""Ours: commands and tests for pytest under [suites], where they run, and what a change of them changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.load import Loaded, load
from harness.config.plan import Selection, make_plan
from harness.errors import NothingSelected
from harness.model.plan import CommandSpec, Place, Plan

HARNESS = """\
schema = 1
[server]
name = "srv"
command = ["x"]
[profiles.plain]
[profiles.asking]
[suites]
pytest = ["tests/it"]
commands = [
    "npm  run 'test it'",
    { run = ["npx", "vitest"], id = "vitest", cwd = "sdk", profiles = ["asking"], timeout_s = 5, env = { CI = "1" } },
]
"""


@pytest.fixture
def project(write):
    def run(harness: str = HARNESS, **more: str) -> Loaded:
        files = {"harness.toml": harness, "tests/it/test_x.py": "pass\n", "sdk/package.json": "{}", **more}
        root = write(files)
        return load([root], base=root, catalogue=[])

    return run


def planned(loaded: Loaded, cases: str = "", **selection: tuple[str, ...]) -> Plan:
    return make_plan(loaded, selection=Selection(cases=cases, **selection), runtimes={})


def test_commands_are_read_in_each_of_their_forms(project) -> None:
    first, second, third = project().projects[0].commands
    assert first == CommandSpec(
        id="pytest", kind="pytest", argv=("tests/it",), place=Place(file="harness.toml", line=8)
    )
    assert second == CommandSpec(
        id="npm run test it", kind="command", argv=("npm", "run", "test it"), place=Place(file="harness.toml", line=10)
    )
    assert third == CommandSpec(
        id="vitest",
        kind="command",
        argv=("npx", "vitest"),
        place=Place(file="harness.toml", line=11),
        cwd="sdk",
        profiles=("asking",),
        timeout_s=5,
        env={"CI": "1"},
    )


def test_pytest_runs_in_every_run_and_a_command_in_its_profiles(project) -> None:
    plan = planned(project())
    assert {str(run.key): [item.id for item in run.commands] for run in plan.cells[0].runs} == {
        "srv none modern plain": ["pytest", "npm run test it"],
        "srv none modern asking": ["pytest", "vitest"],
        "srv none handshake plain": ["pytest", "npm run test it"],
        "srv none handshake asking": ["pytest", "vitest"],
    }
    assert not plan.partial


def test_an_expression_selects_commands_by_their_ids_and_what_it_leaves_out_makes_the_plan_partial(project) -> None:
    plan = planned(project(), "vitest")
    assert [[item.id for item in run.commands] for run in plan.cells[0].runs] == [["vitest"], ["vitest"]]
    assert plan.partial
    assert not planned(project(), "srv").partial
    with pytest.raises(NothingSelected, match="nothing to run"):
        planned(project(), "jest")


def test_a_changed_test_or_command_is_another_run(project) -> None:
    def marks(*args: str, **more: str) -> dict[str, str]:
        return {str(run.key): run.fingerprint for run in planned(project(*args, **more)).cells[0].runs}

    first = marks()
    assert marks() == first
    other_test = marks(**{"tests/it/test_x.py": "pass  # changed\n"})
    assert all(other_test[key] != mark for key, mark in first.items())
    other = marks(HARNESS.replace('CI = "1"', 'CI = "2"'))
    assert {key for key, mark in first.items() if other[key] != mark} == {
        "srv none modern asking",
        "srv none handshake asking",
    }


def test_a_suite_called_pytest_stands_in_the_way_of_tests_for_pytest(project, write) -> None:
    suite = 'schema = 2\nid = "pytest"\n[[case]]\nid = "a"\n[[case.step]]\ncall = "a"\n'
    with pytest.raises(Exception, match=r"suites/p\.toml:2 id: 'pytest' is the suite of the tests under"):
        project(HARNESS + 'files = ["suites/*.toml"]\n', **{"suites/p.toml": suite})


def test_a_project_may_have_tests_for_pytest_alone(write) -> None:
    text = HARNESS.partition("commands")[0].replace("tests/it", "tests/it/test_x.py::test_one")
    root = write({"harness.toml": text, "tests/it/test_x.py": "def test_one(): pass\n"})
    plan = planned(load([Path(root)], base=root, catalogue=[]))
    assert [item.argv for run in plan.cells[0].runs for item in run.commands] == [("tests/it/test_x.py::test_one",)] * 4
