"""Ours: what the files say arrives in the specs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.config.load import load, load_backend, name_in
from harness.config.problems import ConfigProblems
from harness.errors import NothingSelected
from harness.model.plan import (
    AnswerSpec,
    CaptureSpec,
    CheckSettings,
    EventuallySpec,
    ExpectSpec,
    LoweredSpec,
    OutputSpec,
    Place,
    ProfileSpec,
    ProvisionSpec,
    ReadySpec,
    ResetSpec,
    RootSpec,
    SampleSpec,
    VersionSpec,
)

ROOT = Path(__file__).parents[2]


def test_a_whole_harness_file(loaded) -> None:
    found = loaded(
        harness="""\
schema = 1

[server]
name    = "things"
python  = ">=3.11"
build   = ["pip install 'things-mcp[all]==1.0'", ["npm", "ci"]]
command = ["things-mcp", "${backend.store.url}", "${port}"]
cwd     = "sub/folder"
env     = { LOG = "${tmp}/log", TOKEN = "${env.TOKEN}" }
transport = "stdio"
eras    = ["handshake", "modern"]
call_timeout_s  = 5
start_timeout_s = 2.5

[backends.store]
use      = "thing"
versions = ["1"]

[profiles.plain]
[profiles.asking]
elicit = "decline"
env    = { ASK = "1" }

[suites]
files = ["suites/*.toml", "suites/th*.toml"]

[checks]
exercised   = "answered"
portability = "error"
wire        = "warning"
"""
    )
    (project,) = found.projects
    server = project.server
    assert (server.name, server.python, server.venv, server.cwd) == ("things", ">=3.11", True, "sub/folder")
    assert server.build == (("pip", "install", "things-mcp[all]==1.0"), ("npm", "ci"))
    assert server.command == ("things-mcp", "${backend.store.url}", "${port}")
    assert server.env == {"LOG": "${tmp}/log", "TOKEN": "${env.TOKEN}"}
    assert server.eras == ("modern", "handshake")
    assert (server.call_timeout_s, server.start_timeout_s) == (5.0, 2.5)
    assert [(role.role, role.use, role.versions, str(role.place)) for role in project.roles] == [
        ("store", ("thing",), ("1",), "harness.toml:15")
    ]
    assert set(project.backends) == {"thing"}
    assert project.profiles == (
        ProfileSpec(name="plain"),
        ProfileSpec(name="asking", elicit="decline", env={"ASK": "1"}),
    )
    assert [suite.id for suite in project.suites] == ["things"]
    lowered = LoweredSpec(family="wire", to="warning", place=Place(file="harness.toml", line=30))
    assert project.checks == CheckSettings(exercised="answered", lowered=(lowered,))


def test_single_checks_have_levels_that_go_before_those_of_their_families(loaded) -> None:
    text = (
        'schema = 1\n[server]\nname = "n"\ncommand = ["c"]\n[suites]\nfiles = ["suites/*"]\n[checks]\n'
        'parameters = "require"\ntokens = 9000\nwire = "off"\n"wire/not-utf8" = "warning"\n'
        '"strict/unknown-tool-is-error" = "error"\n'
    )
    checks = loaded(harness=text).projects[0].checks
    assert (checks.parameters, checks.tokens, checks.exercised) == ("require", 9000, "succeeded")
    assert {key: place.line for key, place in checks.places.items()} == {"parameters": 8, "tokens": 9}
    levels = {name: checks.level_of(name) for name in ("wire", "wire/framing", "wire/not-utf8", "process/orphan")}
    assert levels == {"wire": "off", "wire/framing": "off", "wire/not-utf8": "warning", "process/orphan": "error"}
    assert (checks.level_of("strict"), checks.level_of("strict/unknown-tool-is-error")) == ("off", "error")


def test_what_is_left_out_has_defaults(loaded) -> None:
    (project,) = loaded(
        harness='schema = 1\n[server]\nname = "n"\ncommand = ["c"]\nbuild = ["make"]\n[suites]\nfiles = ["suites/*"]\n'
    ).projects
    assert (project.server.venv, project.server.eras, project.server.cwd) == (False, None, ".")
    assert project.profiles == (ProfileSpec(name="plain"),)
    assert project.checks.exercised == "succeeded"
    assert project.roles == ()


@pytest.mark.parametrize("build", ["pip3 install x", "python -m build", "/opt/bin/python3 x.py", "uv pip install x"])
def test_a_build_with_python_gets_a_venv(loaded, build: str) -> None:
    text = f'schema = 1\n[server]\nname = "n"\ncommand = ["c"]\nbuild = ["npm ci", "{build}"]\n'
    assert loaded(harness=text).projects[0].server.venv


def test_a_whole_suite(loaded) -> None:
    (project,) = loaded(
        suite="""\
schema = 2
id = "keys"
profiles = ["plain"]

[[case]]
id = "set-and-get"
timeout_s = 20
[[case.step]]
call      = "set"
arguments = { key = "a", value = "1", n = [1, 2.5, true, { x = {} }] }
expect    = { is_error = false }
capture   = { value = "/structuredContent/value", id = { pointer = "/$text", matches = 'id=(\\d+)' }, all = "" }
confirm   = true
[[case.step]]
call      = "get"
arguments = { key = "${captured.value}" }
expect    = { text_contains = "1", text_matches = "1", text_equals = "1", pointer = { "/structuredContent/value" = 1 } }
eventually = true
timeout_s = 3
[[case.step]]
read_resource = "x://${captured.id}"
eventually = { timeout_s = 1 }
[[case.step]]
get_prompt = "p"
expect = { code = -32602, text_contains = ["a", "b"], schema = { type = "object" } }
[[case.cleanup]]
call      = "delete"
arguments = { key = "a" }
unlisted  = true
eventually = false

[[case]]
id = "other"
profiles = ["plain"]
step = [{ call = "x" }]
"""
    ).projects
    (suite,) = project.suites
    assert (suite.id, suite.profiles, str(suite.place)) == ("keys", ("plain",), "suites/things.toml")
    case, other = suite.cases
    assert (case.id, case.timeout_s, case.profiles) == ("set-and-get", 20.0, None)
    assert str(case.place) == "suites/things.toml:5"
    first, second, third, fourth = case.steps
    assert (first.action, first.target, first.confirm, first.unlisted) == ("call", "set", True, False)
    assert first.arguments == {"key": "a", "value": "1", "n": [1, 2.5, True, {"x": {}}]}
    assert first.expect == ExpectSpec(is_error=False)
    assert first.capture == (
        CaptureSpec(name="value", pointer="/structuredContent/value"),
        CaptureSpec(name="id", pointer="/$text", matches=r"id=(\d+)"),
        CaptureSpec(name="all", pointer=""),
    )
    assert second.expect == ExpectSpec(
        text_contains=("1",), text_matches="1", text_equals="1", pointer={"/structuredContent/value": 1}
    )
    assert (second.eventually, second.timeout_s) == (EventuallySpec(), 3.0)
    assert (third.action, third.target) == ("read_resource", "x://${captured.id}")
    assert third.eventually == EventuallySpec(timeout_s=1.0)
    assert fourth.expect == ExpectSpec(code=-32602, text_contains=("a", "b"), schema={"type": "object"})
    (cleanup,) = case.cleanup
    assert (cleanup.target, cleanup.unlisted, cleanup.eventually) == ("delete", True, None)
    assert (other.profiles, other.steps[0].target) == (("plain",), "x")


def test_a_whole_backend(write) -> None:
    root = write(
        {
            "thing/backend.toml": """\
schema  = 1
name    = "thing"
summary = "A thing"
default = "2"

[versions.1]
build_args = { SUITE = "bookworm" }
images = { web = "web:1" }
[versions.2]

[secrets]
password = 24

[services.web]
dockerfile = "Dockerfile"
ports      = { http = 5232 }
env        = { P = "${secret.password}", DB = "${service.setup}" }
command    = ["serve", "${version}"]
needs      = ["setup"]
mounts     = { "/fixtures" = "fixtures" }
tmpfs      = ["/tmp"]
ready_timeout_s = 30
[services.web.ready]
http     = "http"
path     = "/app/"
method   = "PROPFIND"
user     = "app"
password = "${secret.password}"
status   = [207, 200]
body     = "ok"

[services.setup]
image = "setup"
init  = true

[services.db]
image = "db"
ports = { db = 1 }
ready = { tcp = "db", send = "PING", expect = "PONG" }

[services.own]
image = "own"
ready = { image = true }

[[provision]]
http = { method = "POST", url = "http://${address.http}/", user = "app", headers = { A = "b" }, body = "x" }
capture = { token = "/token" }
timeout_s = 5
[[provision]]
exec = ["sh", "-c", "echo ${provisioned.token}"]
service = "web"
capture = { text = "" }

[outputs]
url = "http://${address.http}/"
token = { value = "${provisioned.token}", secret = true }

[process]
install = ["thing==3.5.0"]
python = ">=3.11"
env = { A = "b" }
files = { "thing.ini" = "${secret.password} ${port.http} ${dir}" }
command = ["thing", "--config", "${dir}/thing.ini"]
version = { command = ["thing", "--version"], matches = "([0-9.]+)" }
ready = { tcp = "http", expect = "220" }

[[reset.steps]]
exec = ["renew", "${former.password}", "${secret.password}", "${provisioned.token}"]
service = "db"
timeout_s = 5
[[reset.verify]]
http = { url = "http://${address.http}/all" }

[[process.reset.prepare]]
exec = ["keep", "${dir}"]
[[process.reset.steps]]
exec = ["renew", "${former.password}"]
[[process.reset.verify]]
exec = ["look", "${secret.password}"]
""",
            "thing/Dockerfile": "FROM scratch\n",
            "thing/fixtures/a": "",
        }
    )
    backend = load_backend(root / "thing", base=root)
    assert (backend.name, backend.default, backend.folder, str(backend.place)) == (
        "thing",
        "2",
        root / "thing",
        "thing/backend.toml",
    )
    assert backend.versions == {
        "1": VersionSpec(name="1", build_args={"SUITE": "bookworm"}, images={"web": "web:1"}),
        "2": VersionSpec(name="2"),
    }
    assert backend.secrets == {"password": 24}
    web, setup, db, own = backend.services
    assert (web.dockerfile, web.image, web.ports, web.needs) == ("Dockerfile", None, {"http": 5232}, ("setup",))
    assert (web.command, web.tmpfs, web.mounts) == (("serve", "${version}"), ("/tmp",), {"/fixtures": "fixtures"})
    assert web.ready == ReadySpec(
        http="http",
        path="/app/",
        method="PROPFIND",
        user="app",
        password="${secret.password}",
        status=(207, 200),
        body="ok",
    )
    assert web.ready_timeout_s == 30.0
    assert (setup.init, setup.ready, setup.command) == (True, None, None)
    assert db.ready == ReadySpec(tcp="db", send="PING", expect="PONG")
    assert own.ready == ReadySpec(image=True)
    first, second = backend.provision
    assert (first.url, first.method, first.user, first.status) == ("http://${address.http}/", "POST", "app", (200,))
    assert (first.headers, first.body, first.capture, first.timeout_s) == ({"A": "b"}, "x", {"token": "/token"}, 5.0)
    assert (second.service, second.exec) == ("web", ("sh", "-c", "echo ${provisioned.token}"))
    assert backend.outputs == (
        OutputSpec(name="url", value="http://${address.http}/"),
        OutputSpec(name="token", value="${provisioned.token}", secret=True),
    )
    process = backend.process
    assert process is not None
    assert process.ports == ("http", "db")
    assert (process.version_command, process.version_matches) == (("thing", "--version"), "([0-9.]+)")
    assert process.ready == ReadySpec(tcp="http", expect="220")
    assert process.ready_timeout_s == 60.0
    renew = ("renew", "${former.password}", "${secret.password}", "${provisioned.token}")
    assert backend.reset == ResetSpec(
        steps=(ProvisionSpec(service="db", exec=renew, timeout_s=5.0),),
        verify=(ProvisionSpec(url="http://${address.http}/all"),),
    )
    assert process.reset == ResetSpec(
        prepare=(ProvisionSpec(exec=("keep", "${dir}")),),
        steps=(ProvisionSpec(exec=("renew", "${former.password}")),),
        verify=(ProvisionSpec(exec=("look", "${secret.password}")),),
    )


def test_a_backend_without_docker_needs_no_version(write) -> None:
    text = 'schema = 1\nname = "b"\n[process]\ncommand = ["b", "${port.x}"]\nports = ["x"]\nready = { http = "x" }\n'
    backend = load_backend(write({"b/backend.toml": text}) / "b", base=Path("/"))
    assert (backend.versions, backend.default, backend.services) == ({}, "", ())


def test_a_folder_without_backend_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems, match=r"^backend.toml: no such file$"):
        load_backend(tmp_path, base=tmp_path)


def test_a_projects_own_backend_goes_before_a_shipped_one(good, write) -> None:
    shipped = good["backends/thing/backend.toml"].replace("[versions.1]", "[versions.9]")
    root = write({**good, "shipped/thing/backend.toml": shipped, "shipped/other/backend.toml": "broken"})
    (project,) = load([root], base=root, catalogue=[root / "shipped"]).projects
    assert list(project.backends["thing"].versions) == ["1"]
    (root / "backends/thing/backend.toml").unlink()
    (project,) = load([root], base=root, catalogue=[root / "shipped"]).projects
    assert list(project.backends["thing"].versions) == ["9"]


def test_a_shipped_backend_outside_the_base_is_named_from_its_catalogue(good, write, tmp_path: Path) -> None:
    root = write({"harness.toml": good["harness.toml"], "suites/a.toml": good["suites/things.toml"]}, "project")
    write({"site-packages/backends/thing/backend.toml": "schema = 1\n"})
    with pytest.raises(ConfigProblems) as caught:
        load([root], base=root, catalogue=[tmp_path / "site-packages" / "backends"])
    assert {problem.place.file for problem in caught.value.problems} == {"backends/thing/backend.toml"}
    assert str(tmp_path) not in str(caught.value)


def test_exemptions_are_found_by_key_then_beside_then_beside_the_noxfile(good, write) -> None:
    files = {f"a/{name}": text for name, text in good.items()}
    other = good["exemptions.toml"].replace("forget", "other")
    root = write({**files, "exemptions.toml": other, "a/excuses/mine.toml": good["exemptions.toml"]})
    found = load([root / "a"], base=root, catalogue=[], exemptions_beside=root)
    assert found.exemption_files == ("a/exemptions.toml",)
    (root / "a/exemptions.toml").unlink()
    found = load([root / "a"], base=root, catalogue=[], exemptions_beside=root)
    assert (found.exemption_files, found.exemptions[0].subject) == (("exemptions.toml",), "other")
    assert found.projects[0].exemptions_file == root / "exemptions.toml"
    assert load([root / "a"], base=root, catalogue=[]).exemption_files == ()
    harness = good["harness.toml"].replace("schema = 1", 'schema = 1\nexemptions = "excuses/mine.toml"')
    (root / "a/harness.toml").write_text(harness)
    found = load([root / "a"], base=root, catalogue=[], exemptions_beside=root)
    assert found.exemption_files == ("a/excuses/mine.toml",)


def test_projects_share_an_exemptions_file_that_is_read_once(good, write) -> None:
    files = {f"a/{name}": text for name, text in good.items() if name != "exemptions.toml"}
    files |= {name.replace("a/", "b/", 1): text.replace('"things"', '"more"') for name, text in files.items()}
    root = write({**files, "exemptions.toml": good["exemptions.toml"]})
    found = load([root / "a", root / "b/harness.toml", root / "a"], base=root, catalogue=[], exemptions_beside=root)
    assert [project.server.name for project in found.projects] == ["things", "more"]
    assert len(found.exemptions) == 1


def test_a_repository_without_server_or_without_any_file_has_nothing_to_run(write) -> None:
    root = write({"harness.toml": "schema = 1\n"})
    with pytest.raises(NothingSelected, match=r"^nothing to run: there is no \[server\] in harness.toml$"):
        load([root], base=root, catalogue=[])
    with pytest.raises(NothingSelected, match=r"^nothing to run"):
        load([], base=root, catalogue=[])


def test_every_problem_of_every_file_comes_at_once_in_the_order_of_files_and_lines(good, write) -> None:
    files = {f"{name}/{file}": text for name in "ab" for file, text in good.items()}
    files["a/harness.toml"] = good["harness.toml"].replace("command", "comand")
    files["a/suites/things.toml"] = good["suites/things.toml"].replace("call", "cal")
    files["b/backends/thing/backend.toml"] = good["backends/thing/backend.toml"].replace("[outputs]", "[output]")
    files["b/exemptions.toml"] = "schema ="
    root = write(files)
    with pytest.raises(ConfigProblems) as caught:
        load([root / "b", root / "a"], base=root, catalogue=[])
    places = [(problem.place.file, problem.place.line) for problem in caught.value.problems]
    assert places == sorted(places)
    assert {file for file, _ in places} >= {
        "a/harness.toml",
        "a/suites/things.toml",
        "b/backends/thing/backend.toml",
        "b/exemptions.toml",
    }


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/harness.toml")), ids=lambda path: path.parent.name)
def test_the_examples_of_this_repository_load(path: Path) -> None:
    found = load([path], base=ROOT, catalogue=[ROOT / "backends"], exemptions_beside=ROOT)
    assert found.projects[0].suites
    assert not [(str(entry.place), entry.problems) for entry in found.exemptions if entry.problems]


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in ROOT.glob("backends/*/backend.toml")), ids=lambda p: p.name
)
def test_the_backends_of_this_repository_load(folder: Path) -> None:
    assert load_backend(folder, base=ROOT).name == folder.name


def test_reading_files_imports_nothing_heavy() -> None:
    code = (
        "import sys; from harness.config import load, plan;"
        "print(sorted({'mcp', 'docker', 'anyio', 'rich', 'jsonschema', 'tomlkit', 'nox'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_rollout_list_beside_the_exemptions_says_which_other_servers_the_file_speaks_of(tmp_path):
    """A file that a hundred repositories share must not be stale in ninety-nine of them."""
    from harness.config.load import load
    from harness.config.plan import Selection, make_plan

    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "harness.toml").write_text(
            f'schema = 1\nexemptions = "../exemptions.toml"\n[server]\nname = "{name}"\ncommand = ["x"]\n'
            '[suites]\nfiles = ["s.toml"]\n'
        )
        (folder / "s.toml").write_text('schema = 2\nid = "s"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "t"\n')
    (tmp_path / "rollout.toml").write_text('schema = 1\n[[repository]]\npath = "one"\n[[repository]]\npath = "two"\n')
    (tmp_path / "exemptions.toml").write_text(
        "schema = 1\n"
        + "".join(f'[{name}.exercised]\nt = "a reason of five words"\n' for name in ("one", "two", "six"))
    )
    loaded = load([tmp_path / "one"], base=tmp_path, catalogue=[])
    assert loaded.neighbours == ("two",)
    plan = make_plan(loaded, selection=Selection(), runtimes={})
    assert sorted(entry.server for entry in plan.exemptions) == ["one", "six"]
    assert not plan.partial


def test_a_profile_says_what_the_client_declares_and_answers(loaded) -> None:
    text = (
        'schema = 1\n[server]\nname = "n"\ncommand = ["c"]\n[suites]\nfiles = ["suites/*"]\n[profiles.asking]\n'
        'elicit = "cancel"\nelicit_modes = ["url", "form"]\nroots = ["file://${tmp}", '
        '{ uri = "file:///r", name = "R" }]\n'
        'log_level = "info"\nprogress = true\nsampling_tools = true\n'
        '[[profiles.asking.answers]]\nmessage = "sure"\ntool = "t"\nfields = ["a"]\nschema = { required = ["a"] }\n'
        'content = { a = "${tmp}" }\ntimes = 2\n'
        '[[profiles.asking.answers]]\nmode = "url"\naction = "decline"\n'
        '[[profiles.asking.sampling]]\ntext = "yes"\nmodel = "m"\nstop_reason = "maxTokens"\n'
        '[[profiles.asking.sampling]]\ncontent = [{ type = "tool_use", id = "1", name = "n", input = {} }]\n'
        "[[profiles.asking.sampling]]\nreject = true\n"
    )
    (profile,) = loaded(harness=text).projects[0].profiles
    block = {"type": "tool_use", "id": "1", "name": "n", "input": {}}
    assert profile == ProfileSpec(
        name="asking",
        elicit="cancel",
        elicit_modes=("form", "url"),
        answers=(
            AnswerSpec(
                message="sure", tool="t", fields=("a",), schema={"required": ["a"]}, content={"a": "${tmp}"}, times=2
            ),
            AnswerSpec(mode="url", action="decline"),
        ),
        sampling=(
            SampleSpec(text="yes", model="m", stop_reason="maxTokens"),
            SampleSpec(content=(block,)),
            SampleSpec(),
        ),
        sampling_tools=True,
        roots=(RootSpec(uri="file://${tmp}"), RootSpec(uri="file:///r", name="R")),
        log_level="info",
        progress=True,
    )
    assert profile.sampling[2].rejects


@pytest.mark.parametrize("name", ["harness.toml", "contract.json", "suites/all.toml", "exemptions.toml"])
def test_a_pipe_where_a_file_should_be_is_a_problem_and_not_waited_for(tmp_path: Path, name: str) -> None:
    """In a thread, as a rollout reads, nothing would end that wait."""
    good = '[server]\nname = "a"\ncommand = ["x"]\n[suites]\nfiles = ["suites/all.toml"]\n'
    (tmp_path / "harness.toml").write_text(f'schema = 1\ncontract = "contract.json"\n{good}')
    (tmp_path / "suites").mkdir()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert name_in(tmp_path) == (None if name == "harness.toml" else "a")
    with pytest.raises((ConfigProblems, NothingSelected)) as caught:
        load([tmp_path], base=tmp_path, catalogue=[])
    assert name in str(caught.value)


def test_a_list_beside_the_exemptions_that_is_none_names_nobody(tmp_path: Path) -> None:
    good = 'schema = 1\n[server]\nname = "a"\ncommand = ["x"]\n[suites]\nfiles = ["all.toml"]\n'
    (tmp_path / "harness.toml").write_text(good)
    (tmp_path / "all.toml").write_text('schema = 2\nid = "s"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "t"\n')
    (tmp_path / "exemptions.toml").write_text("schema = 1\n")
    for text in ("repository = 5", "repository = [5]", f"x = {'[' * 50_000}", "\0", f"{'a.' * 9_000}b = 1"):
        (tmp_path / "rollout.toml").write_text(text)
        assert load([tmp_path], base=tmp_path, catalogue=[]).neighbours == ()
        (tmp_path / "other.toml").write_text(f'{text}\n[server]\nname = "b"\n')
        assert name_in(tmp_path / "other.toml") == ("b" if text.startswith("repository") else None)
