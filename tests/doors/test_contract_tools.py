"""`tools snapshot`, `diff` and `accept`, and drift in an integration run, as a user meets them."""

import json
import shutil
import sys

import jsonschema
import pytest

from harness.report.contract import published_diff_schema

TODAY = ("--today", "2026-12-01")
REASON = "two numbers are no longer enough for anybody"
DRIFTED = """\
schema = 1
contract = "contract.json"
[server]
name = "drifted"
command = ["python3", "${{repo}}/servers/drifted.py", "{how}"]
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""
SUITE = """\
schema = 2
id = "all"
[[case]]
id = "all"
[[case.step]]
call = "echo"
arguments = { text = "a" }
[[case.step]]
call = "search"
arguments = { query = "a" }
"""


@pytest.fixture
def repository(recorded, project):
    """A repository with the evidence of its runs."""
    shutil.copytree(recorded.root, project.root, dirs_exist_ok=True)
    return project


def contract_of(project):
    return json.loads((project.root / "contract.json").read_text(encoding="utf-8"))


def name_it(project):
    path = project.root / "harness.toml"
    path.write_text(path.read_text().replace("schema = 1\n", 'schema = 1\ncontract = "contract.json"\n', 1))


def change(project, edit):
    data = contract_of(project)
    edit({item["name"]: item for item in data["tools"]}, data)
    (project.root / "contract.json").write_text(json.dumps(data), encoding="utf-8")


def test_a_snapshot_of_the_evidence_is_kept_and_the_next_judging_is_clean(repository):
    done = repository.run("tools", "snapshot")
    assert done.code == 0, done.stderr
    assert "wrote contract.json: 6 tools, 1 prompt, 1 resource of good, from 4 runs, the same in all" in done.stdout
    assert 'write contract = "contract.json"' in done.stderr
    data = contract_of(repository)
    assert [item["name"] for item in data["tools"]] == ["add", "ask", "echo", "fail", "guarded", "slow"]
    assert next(iter(data["tools"][0])) == "name"
    first = (repository.root / "contract.json").read_bytes()
    name_it(repository)
    again = repository.run("tools", "snapshot")
    assert again.code == 2
    assert "contract.json is there already" in again.stderr
    assert "tools accept" in again.stderr
    assert repository.run("tools", "snapshot", "--force").code == 0
    assert (repository.root / "contract.json").read_bytes() == first
    judged = repository.run("judge", *TODAY)
    assert (judged.code, judged.report["findings"]) == (0, []), judged.stdout


def test_drift_fails_until_it_is_accepted_with_a_reason(repository):
    assert repository.run("tools", "snapshot").code == 0
    name_it(repository)

    def edit(tools, data):
        tools["add"]["inputSchema"]["required"] = ["a"]
        data["tools"] = [tool for tool in data["tools"] if tool["name"] != "slow"]

    change(repository, edit)
    judged = repository.run("judge", *TODAY)
    assert judged.code == 1
    found = {(item["check"], item["tool"]): item for item in judged.report["findings"]}
    assert set(found) == {("contract/breaking", "add"), ("contract/additive", "slow")}
    one = found["contract/breaking", "add"]
    assert (one["pointer"], one["file"]) == ("/properties/b", "contract.json")
    assert len(one["evidence"]["runs"]) == 4

    for reason, said in (("", "a reason is missing"), ("todo", "a note to do something"), ("add", "only repeats")):
        refused = repository.run("tools", "accept", "--reason", reason, "--tool", "add")
        assert (refused.code, said in refused.stderr) == (2, True), refused.stderr
    unknown = repository.run("tools", "accept", "--reason", REASON, "--tool", "slw")
    assert (unknown.code, "did you mean 'slow'?" in unknown.stderr) == (2, True)

    before = (repository.root / "contract.json").read_bytes()
    dry = repository.run("tools", "accept", "--reason", REASON, "--dry-run")
    assert (dry.code, dry.stdout.count("would accept")) == (0, 2)
    assert (repository.root / "contract.json").read_bytes() == before

    part = repository.run("tools", "accept", "--reason", REASON, "--tool", "add", *TODAY)
    assert (part.code, part.stdout.count("accepted breaking")) == (0, 1), part.stderr
    judged = repository.run("judge", *TODAY)
    assert [item["check"] for item in judged.report["findings"]] == ["contract/additive"]
    rest = repository.run("tools", "accept", "--reason", "waiting is worth a tool of its own", *TODAY)
    assert rest.code == 0, rest.stderr
    assert repository.run("judge", *TODAY).code == 0
    history = contract_of(repository)["accepted"]
    assert [(item["date"], item["tool"], item["class"]) for item in history] == [
        ("2026-12-01", "add", ["breaking"]),
        ("2026-12-01", "slow", ["additive"]),
    ]
    assert history[0]["reason"] == REASON
    nothing = repository.run("tools", "accept", "--reason", REASON)
    assert (nothing.code, "nothing to accept" in nothing.stdout) == (0, True)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_a_diff_shows_each_change_and_fails_on_what_breaks(repository, form):
    assert repository.run("tools", "snapshot").code == 0
    shutil.copy(repository.root / "contract.json", repository.root / "old.json")
    change(repository, lambda tools, _: tools["add"]["inputSchema"]["properties"].pop("b"))
    done = repository.run("tools", "diff", "old.json", "contract.json", "--format", form)
    assert (done.code, done.stderr) == (1, "")
    assert "a parameter is gone" in done.stdout
    if form == "json":
        document = json.loads(done.stdout)
        jsonschema.validate(document, published_diff_schema())
        assert document["counts"]["breaking"] == 1
        assert (document["changes"][0]["name"], document["changes"][0]["pointer"]) == ("add", "/properties/b")
    same = repository.run("tools", "diff", "old.json", ".", "--format", form)
    assert same.code == 0, same.stdout


def test_what_fails_a_diff_can_be_chosen(project):
    one = {"name": "a", "description": "One thing.", "inputSchema": {"type": "object"}}
    two = {**one, "description": "Another thing."}
    project.write({"one.json": json.dumps([one]), "two.json": json.dumps({"tools": [two]})})
    codes = {
        name: project.run("tools", "diff", "one.json", "two.json", "--fail-on", name).code
        for name in ("breaking", "additive", "routing", "cosmetic", "never")
    }
    assert codes == {"breaking": 0, "additive": 0, "routing": 1, "cosmetic": 1, "never": 0}
    assert project.run("tools", "diff", "one.json").code == 2


def test_a_broken_contract_is_told_with_its_place(repository):
    repository.write({"contract.json": '{"schema": 1,\n<<<<<<< ours\n'})
    name_it(repository)
    for command in (["judge"], ["tools", "diff", "contract.json", "."], ["tools", "accept", "--reason", REASON]):
        done = repository.run(*command)
        assert done.code == 2
        assert "contract.json:2: not JSON at column 1" in done.stdout + done.stderr
    assert repository.run("tools", "snapshot", "--force").code == 0
    assert repository.run("judge", *TODAY).code == 0


def test_a_real_run_of_a_server_that_drifted_fails_and_one_that_kept_its_contract_does_not(project):
    project.with_servers().write({"harness.toml": DRIFTED.format(how="kept"), "suites/all.toml": SUITE})
    command = (sys.executable, "servers/drifted.py", "kept")
    done = project.run("tools", "snapshot", "--server", "drifted", "--", *command)
    assert done.code == 0, done.stderr
    assert "2 tools" in done.stdout
    assert project.run("integration", *TODAY).code == 0
    project.write({"harness.toml": DRIFTED.format(how="breaking")})
    done = project.run("integration", *TODAY)
    assert done.code == 1
    assert [item["check"] for item in done.report["findings"]] == ["contract/breaking"], done.stdout
    diff = project.run("tools", "diff", "contract.json", "--", sys.executable, "servers/drifted.py", "breaking")
    assert (diff.code, "order" in diff.stdout) == (1, True), diff.stderr


def test_lists_that_differ_by_era_are_a_finding_until_the_file_says_so(project):
    project.with_servers().write({"harness.toml": DRIFTED.format(how="kept"), "suites/all.toml": SUITE})
    command = (sys.executable, "servers/drifted.py", "kept")
    assert project.run("tools", "snapshot", "--server", "drifted", "--", *command).code == 0
    exemptions = 'schema = 1\n[drifted.exercised]\ncount = "it is there to show a difference only"\n'
    project.write({"harness.toml": DRIFTED.format(how="modern"), "exemptions.toml": exemptions})
    done = project.run("integration", *TODAY)
    assert [(item["check"], item["tool"]) for item in done.report["findings"]] == [("contract/differs", "count")]
    accepted = project.run("tools", "accept", "--reason", "only the modern era can count", *TODAY)
    assert accepted.code == 0, accepted.stderr
    (difference,) = contract_of(project)["differences"]
    assert (difference["where"], difference["tools"][0]["name"]) == ({"era": "modern"}, "count")
    judged = project.run("judge", *TODAY)
    assert judged.report["findings"] == [], judged.stdout
