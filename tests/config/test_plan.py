"""Ours: cells, runs, selections and fingerprints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config.load import Loaded, load
from harness.config.plan import Selection, make_plan, matcher
from harness.errors import ConfigError, NothingSelected
from harness.model.plan import Plan

BACKEND = """\
schema = 1
name = "{name}"
default = "1"
[versions.1]
[versions.2]
[services.{name}]
image = "{name}"
ports = {{ http = 80 }}
ready = {{ http = "http" }}
[outputs]
url = "http://${{address.http}}"
[process]
command = ["x"]
ready = {{ http = "http" }}
"""
SUITE = """\
schema = 2
id = "keys"
[[case]]
id = "get"
[[case.step]]
call = "get"
[[case]]
id = "asks"
profiles = ["asking"]
[[case.step]]
call = "ask"
"""


@pytest.fixture
def project(write) -> Callable[..., Loaded]:
    """Loads a project with backends `a` and `b`; `backends` is what harness.toml says of its roles."""

    def run(backends: str = "", *, server: str = "", more: str = "", suite: str = SUITE, **extra: str) -> Loaded:
        root = write(
            {
                "harness.toml": f"""\
schema = 1
[server]
name = "srv"
command = ["x"]
{server}
{backends}
[profiles.plain]
[profiles.asking]
elicit = "accept"
[suites]
files = ["suites/*.toml"]
{more}
""",
                "suites/keys.toml": suite,
                "backends/a/backend.toml": BACKEND.format(name="a"),
                "backends/b/backend.toml": BACKEND.format(name="b"),
                **extra,
            }
        )
        return load([root], base=root, catalogue=[])

    return run


def planned(loaded: Loaded, runtime: str = "docker", **selection) -> Plan:
    return make_plan(loaded, selection=Selection(**selection), runtimes={"srv": runtime})  # type: ignore[dict-item]


def labels(plan: Plan) -> list[str]:
    return [cell.backend for cell in plan.cells]


def keys(plan: Plan) -> list[str]:
    return [str(run.key) for cell in plan.cells for run in cell.runs]


def test_a_server_without_backend_has_one_cell(project) -> None:
    plan = planned(project())
    assert keys(plan) == [
        "srv none modern plain",
        "srv none modern asking",
        "srv none handshake plain",
        "srv none handshake asking",
    ]
    run = plan.cells[0].runs[0]
    assert (run.runtime, run.roles, run.eras_probed) == (None, (), True)
    assert not plan.partial
    assert plan.servers == ("srv",)


def test_declared_eras_are_not_probed(project) -> None:
    plan = planned(project(server='eras = ["handshake"]'))
    assert {run.key.era for run in plan.cells[0].runs} == {"handshake"}
    assert not plan.cells[0].runs[0].eras_probed


def test_a_cell_for_each_choice_of_each_role(project) -> None:
    roles = '[backends.x]\nuse = "a"\nversions = ["2", "1"]\n[backends.y]\nuse = ["b", "a"]\n'
    assert labels(planned(project(roles))) == ["a@2+b@1", "x=a@2+y=a@1", "a@1+b@1", "x=a@1+y=a@1"]


def test_each_version_goes_to_the_alternatives_that_have_it(project) -> None:
    other = BACKEND.format(name="b").replace("[versions.2]", "[versions.3]")
    roles = '[backends.x]\nuse = ["a", "b"]\nversions = ["2", "3"]\n'
    assert labels(planned(project(roles, **{"backends/b/backend.toml": other}))) == ["a@2", "b@3"]


def test_without_docker_there_is_one_cell_for_each_alternative(project) -> None:
    plan = planned(project('[backends.x]\nuse = ["a", "b"]\nversions = ["1", "2"]\n'), "process")
    assert labels(plan) == ["a@embedded", "b@embedded"]
    assert plan.cells[0].runs[0].runtime == "process"


def test_cases_that_name_no_profile_run_in_the_first(project) -> None:
    plan = planned(project())
    assert [run.selected for run in plan.cells[0].runs[:2]] == [("keys/get",), ("keys/asks",)]
    suite = SUITE.replace('id = "keys"', 'id = "keys"\nprofiles = ["plain", "asking"]')
    plan = planned(project(suite=suite))
    assert [run.selected for run in plan.cells[0].runs[:2]] == [("keys/get",), ("keys/get", "keys/asks")]


def bound_to(*names: str) -> str:
    return (
        SUITE
        + f"""\
[[case]]
id = "bound"
backend = {list(names)!r}
[[case.step]]
call = "bound"
"""
    )


def where_bound_runs(plan: Plan) -> list[str]:
    return [cell.backend for cell in plan.cells if any("keys/bound" in run.selected for run in cell.runs)]


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        (["a"], ["a@1", "a@2"]),
        (["b@2"], ["b@2"]),
        (["a@1", "b"], ["a@1", "b@1", "b@2"]),
        (["a@embedded"], []),
    ],
)
def test_a_case_runs_with_the_backends_that_it_names(project, names: list[str], cells: list[str]) -> None:
    loaded = project('[backends.x]\nuse = ["a", "b"]\nversions = ["1", "2"]\n', suite=bound_to(*names))
    plan = planned(loaded)
    assert where_bound_runs(plan) == cells
    assert labels(plan) == ["a@1", "a@2", "b@1", "b@2"]
    assert all("keys/get" in cell.runs[0].selected for cell in plan.cells)
    assert not plan.partial


def test_a_case_may_name_a_form_or_a_cell_of_several_roles(project) -> None:
    roles = '[backends.x]\nuse = "a"\nversions = ["1", "2"]\n[backends.y]\nuse = ["a", "b"]\n'
    loaded = project(roles, suite=bound_to("a@2+b@1", "y=a@embedded"))
    assert where_bound_runs(planned(loaded)) == ["a@2+b@1"]
    assert where_bound_runs(planned(loaded, "process")) == ["x=a@embedded+y=a@embedded"]


def test_a_case_goes_by_the_backend_of_its_suite_unless_it_has_its_own(project) -> None:
    suite = bound_to("a").replace('id = "keys"', 'id = "keys"\nbackend = "b"')
    plan = planned(project('[backends.x]\nuse = ["a", "b"]\n', suite=suite))
    assert [cell.runs[0].selected for cell in plan.cells] == [("keys/bound",), ("keys/get",)]


def test_a_cell_for_which_no_case_is_left_is_planned_all_the_same(project) -> None:
    suite = SUITE.replace('id = "keys"', 'id = "keys"\nbackend = "b"')
    plan = planned(project('[backends.x]\nuse = ["a", "b"]\n', suite=suite))
    assert labels(plan) == ["a@1", "b@1"]
    assert not any(run.cases for run in plan.cells[0].runs)


def test_a_case_bound_to_a_backend_may_use_an_output_that_the_other_has_not(project) -> None:
    rich = BACKEND.format(name="b").replace("[process]", 'zone = "z"\n[process]')
    suite = bound_to("b") + 'arguments = { zone = "${backend.x.zone}" }\n'
    plan = planned(project('[backends.x]\nuse = ["a", "b"]\n', suite=suite, **{"backends/b/backend.toml": rich}))
    assert where_bound_runs(plan) == ["b@1"]
    unbound = suite.replace("backend = ['b']", "")
    with pytest.raises(ConfigError, match="a, which may fill the role too, has no such output"):
        project('[backends.x]\nuse = ["a", "b"]\n', suite=unbound, **{"backends/b/backend.toml": rich})


def test_a_selection_leaves_what_all_of_its_axes_mean(project) -> None:
    loaded = project('[backends.x]\nuse = ["a", "b"]\nversions = ["1", "2"]\n')
    assert labels(planned(loaded, backends=("a",))) == ["a@1", "a@2"]
    assert labels(planned(loaded, backends=("a@2", "b@1"))) == ["a@2", "b@1"]
    plan = planned(loaded, backends=("b@2",), eras=("modern",), profiles=("asking",), servers=("srv",))
    assert keys(plan) == ["srv b@2 modern asking"]
    assert plan.partial
    plan = planned(loaded, cases="keys/g")
    assert {run.key.profile for cell in plan.cells for run in cell.runs} == {"plain"}
    assert plan.partial
    assert not planned(loaded, servers=("srv",), eras=("modern", "handshake")).partial


def test_one_run_of_each_server_and_era_is_the_first(project) -> None:
    plan = planned(project('[backends.x]\nuse = ["a", "b"]\n'))
    runs = [run.key for cell in plan.cells for run in cell.runs]
    first = [str(key) for key in runs if plan.is_first(key)]
    assert first == [f"srv {runs[0].backend} {era} plain" for era in ("modern", "handshake")]
    assert len(runs) > len(first)


def test_a_deselected_case_stays_among_the_cases_of_its_run(project) -> None:
    suite = SUITE + '[[case]]\nid = "put"\n[[case.step]]\ncall = "put"\n'
    plan = planned(project(suite=suite), cases="put", profiles=("plain",), eras=("modern",))
    (run,) = plan.cells[0].runs
    assert run.selected == ("keys/put",)
    assert [f"{suite}/{case.id}" for suite, case in run.cases] == ["keys/get", "keys/put"]
    assert run.fingerprint == planned(project(suite=suite)).cells[0].runs[0].fingerprint


def test_cells_of_two_roles_are_meant_by_any_of_their_names(project) -> None:
    loaded = project('[backends.x]\nuse = "a"\n[backends.y]\nuse = ["b", "a"]\n')
    for name in ("x=a@1+y=a@1", "x=a@1", "y=a@1"):
        assert labels(planned(loaded, backends=(name,))) == ["x=a@1+y=a@1"]
    assert labels(planned(loaded, backends=("a",))) == ["a@1+b@1", "x=a@1+y=a@1"]


@pytest.mark.parametrize(
    ("selection", "said", "hint"),
    [
        ({"servers": ("srw",)}, "there is no server 'srw'", "did you mean 'srv'? known: srv"),
        ({"backends": ("a@3",)}, "there is no backend 'a@3'", "did you mean 'a@1'? known: a, a@1"),
        ({"eras": ("modernn",)}, "there is no era 'modernn'", "did you mean 'modern'? known: handshake, modern"),
        ({"profiles": ("askin",)}, "there is no profile 'askin'", "did you mean 'asking'? known: asking, plain"),
    ],
)
def test_a_name_that_is_not_there_gets_the_nearest_one(project, selection, said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(project('[backends.x]\nuse = "a"\n'), **selection)
    assert (caught.value.message, caught.value.hint) == (said, hint)


@pytest.mark.parametrize(
    "selection", [{"cases": "nothing-like-this"}, {"eras": ("modern",)}, {"profiles": ("asking",), "cases": "get"}]
)
def test_a_selection_that_leaves_nothing_is_said(project, selection) -> None:
    with pytest.raises(NothingSelected, match="the selection leaves"):
        planned(project(server='eras = ["handshake"]'), **selection)


def test_no_suites_and_no_cases_are_nothing_to_run(write) -> None:
    text = 'schema = 1\n[server]\nname = "srv"\ncommand = ["x"]\n'
    root = write({"harness.toml": text})
    with pytest.raises(NothingSelected, match=r"^nothing to run: there are no suites in harness.toml"):
        planned(load([root], base=root, catalogue=[]))
    root = write({"harness.toml": text + '[suites]\nfiles = ["s.toml"]\n', "s.toml": 'schema = 2\nid = "s"\n'})
    with pytest.raises(NothingSelected, match=r"^nothing to run: there is no"):
        planned(load([root], base=root, catalogue=[]))


def test_only_selected_projects_are_planned_but_all_servers_are_known(good, write) -> None:
    files = {f"{name}/{file}": text for name in "ab" for file, text in good.items()}
    files["b/harness.toml"] = good["harness.toml"].replace('"things"', '"more"')
    root = write(files)
    loaded = load([root / "a", root / "b"], base=root, catalogue=[])
    plan = make_plan(loaded, selection=Selection(servers=("more",)), runtimes={"more": "docker"}, notes=["why"])
    assert [project.server.name for project in plan.projects] == ["more"]
    assert (plan.servers, plan.notes, plan.partial) == (("things", "more"), ("why",), False)
    assert plan.project_of("more").server.name == "more"


# --- expressions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ("", True),
        ("  ", True),
        ("redis", True),
        ("REDIS", True),
        ("keys/get", True),
        ("list", False),
        ("not list", True),
        ("not not list", False),
        ("list or get", True),
        ("get and list", False),
        ("list and get or keys", True),
        ("list and (get or keys)", False),
        ("not (list or hash) and get", True),
        ("(((get)))", True),
        ("nothing", False),
        ("android", False),
        ("get-all", True),
    ],
)
def test_an_expression_means_what_it_says(expression: str, meant: bool) -> None:
    assert matcher(expression)("redis-mcp/keys/get-all") is meant


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("and", "-k 'and': expected a word, got 'and'"),
        ("get and", "-k 'get and': a word is missing after 'and'"),
        ("not", "-k 'not': a word is missing after 'not'"),
        ("get list", "-k 'get list': expected 'and' or 'or' between 'get' and 'list'"),
        ("get not list", "-k 'get not list': expected 'and' or 'or' between 'get' and 'not'"),
        ("(get", "-k '(get': '(' without ')'"),
        ("get)", "-k 'get)': ')' without '('"),
        ("(get list)", "-k '(get list)': expected 'and', 'or' or ')' between 'get' and 'list'"),
        ("()", "-k '()': expected a word, got ')'"),
        ("get or or list", "-k 'get or or list': expected a word, got 'or'"),
    ],
)
def test_an_expression_that_cannot_be_read_is_said_in_words(expression: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        matcher(expression)
    assert caught.value.message == said


def test_parentheses_without_end_do_not_end_us() -> None:
    with pytest.raises(ConfigError, match="parentheses"):
        matcher("(" * 100_000)
    assert matcher("not " * 100_000 + "x")("x")


# --- fingerprints -------------------------------------------------------------------------------

ROLE = '[backends.x]\nuse = "a"\n'


def fingerprint(loaded: Loaded, runtime: str = "docker", at: int = 0) -> str:
    return planned(loaded, runtime).cells[0].runs[at].fingerprint


def test_a_fingerprint_is_sixteen_characters_and_stable(project) -> None:
    first = fingerprint(project(ROLE))
    assert len(first) == 16
    assert int(first, 16) >= 0
    assert fingerprint(project(ROLE)) == first


def test_a_fingerprint_does_not_know_checks_exemptions_places_and_folders(project, write, tmp_path: Path) -> None:
    first = fingerprint(project(ROLE))
    assert fingerprint(project(ROLE, more='[checks]\nexercised = "answered"\nwire = "off"\n')) == first
    assert fingerprint(project(ROLE, **{"exemptions.toml": "schema = 1\n"})) == first
    assert fingerprint(project(ROLE, suite="# a comment\n\n" + SUITE)) == first
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("harness.toml", "suites", "backends"):
        (tmp_path / name).rename(moved / name)
    assert fingerprint(load([moved], base=moved.parent, catalogue=[])) == first


def test_a_fingerprint_knows_what_evidence_depends_on(project) -> None:
    backend = BACKEND.format(name="a")
    seen = [
        fingerprint(project(ROLE)),
        fingerprint(project(ROLE), "process"),
        fingerprint(project(ROLE), at=1),
        fingerprint(project(ROLE), at=2),
        fingerprint(project('[backends.x]\nuse = "a"\nversions = ["2"]\n')),
        fingerprint(project('[backends.y]\nuse = "a"\n')),
        fingerprint(project(ROLE, server='env = { A = "1" }')),
        fingerprint(project(ROLE, server="call_timeout_s = 1")),
        fingerprint(project(ROLE, suite=SUITE.replace('call = "get"', 'call = "got"'))),
        fingerprint(project(ROLE, suite=SUITE.replace('id = "keys"', 'id = "kees"'))),
        fingerprint(project(ROLE, **{"backends/a/backend.toml": backend.replace('image = "a"', 'image = "c"')})),
        fingerprint(project(ROLE, **{"backends/a/start.sh": "echo 1"})),
        fingerprint(project(ROLE, **{"backends/a/start.sh": "echo 2"})),
    ]
    assert len(set(seen)) == len(seen)
    assert fingerprint(project(ROLE, **{"backends/b/start.sh": "echo 1", "backends/a/start.sh": "echo 2"})) == seen[-1]


def looked_at(plan: Plan) -> list[tuple[str, str, str]]:
    return [(run.key.backend, run.key.era, run.key.profile) for cell in plan.cells for run in cell.runs if run.client]


TWO = '[backends.r]\nuse = ["a", "b"]\n'
USED = 'env = { U = "${backend.r.url}" }'


def test_the_official_client_is_tried_after_the_first_run_of_each_era(project) -> None:
    both = [("a@1", "modern", "plain"), ("a@1", "handshake", "plain")]
    assert looked_at(planned(project(TWO, server=USED))) == both
    assert looked_at(planned(project())) == [("none", "modern", "plain"), ("none", "handshake", "plain")]


def test_the_first_run_is_the_first_of_those_that_are_selected(project) -> None:
    loaded = project(TWO, server=USED)
    assert looked_at(planned(loaded, backends=("b",), eras=("modern",))) == [("b@1", "modern", "plain")]
    assert looked_at(planned(loaded, profiles=("asking",), eras=("modern",))) == [("a@1", "modern", "asking")]


def test_who_asks_for_single_cases_is_spared_the_official_client(project) -> None:
    assert looked_at(planned(project(suite=SUITE + SUITE_MORE), cases="get")) == []


SUITE_MORE = '[[case]]\nid = "put"\n[[case.step]]\ncall = "put"\n'


def test_the_official_client_is_left_out_where_its_family_is_off(project) -> None:
    assert looked_at(planned(project(more='[checks]\nclient = "off"'))) == []
    assert len(looked_at(planned(project(more='[checks]\nclient = "warning"')))) == 2


def test_whether_the_official_client_is_tried_is_not_in_the_fingerprint(project) -> None:
    with_it, without = planned(project()), planned(project(more='[checks]\nclient = "off"'))
    assert [run.fingerprint for run in with_it.cells[0].runs] == [run.fingerprint for run in without.cells[0].runs]
