"""Many repositories in one pass: real git, real children, and every way in which one of them can fail."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from harness.config.rollout import read_rollout
from harness.engine.git import git_environment
from harness.errors import code_of_kind
from harness.report.json import published_schema
from harness.rollout import Member

SERVERS = Path(__file__).parent.parent / "servers"
GUARD_S = 180
HARNESS = """\
schema = 1
[server]
name = "{name}"
command = ["python3", "${{repo}}/servers/{server}"]
eras = ["handshake"]
{more}
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""
SUITE = """\
schema = 2
id = "all"
[[case]]
id = "works"
[[case.step]]
call = "echo"
arguments = { text = "hello" }
[[case.step]]
call = "add"
arguments = { a = 1, b = 2 }
[[case.step]]
call = "slow"
arguments = { seconds = 0 }
"""
LONG = 'schema = 2\nid = "long"\n' + "".join(
    f'''[[case]]
id = "long-{number}"
[[case.step]]
call = "echo"
arguments = {{ text = "{"x" * 50_000}" }}
'''
    for number in range(10)
)
ONE_CALL = """schema = 2
id = "one"
[[case]]
id = "calls"
[[case.step]]
call = "{tool}"
"""
EXCUSED = """\
[{name}.exercised]
fail = "it fails on purpose, whatever it is given"
ask = "nobody answers its questions in this profile"
guarded = "nobody confirms anything in this profile"
"""
FALSE = """\
schema = 1
[beta.exercised]
echo = "nobody has ever heard anything of it, it is said"
"""
OWN = """\
schema = 1
[alpha.exercised]
fail = "the same is said by the central file"
[beta.exercised]
add = "a file of one repository that speaks of another"
"""
NEVER_READY = """\
schema = 1
name = "never"
[process]
command = ["python3", "-c", "import time; time.sleep(600)"]
ports = ["p"]
ready = { tcp = "p", send = "hello", expect = "hello" }
ready_timeout_s = 1
[outputs]
url = "http://${address.p}/"
"""
READY = """\
schema = 1
name = "{name}"
[process]
command = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "${{port.p}}"]
ports = ["p"]
ready = {{ http = "p", path = "/" }}
[outputs]
url = "http://${{address.p}}/"
"""


def repository(project, folder: str, *, name: str = "", server: str = "good.py", more: str = "") -> None:
    """A repository with a server of ours, in a folder of the project."""
    for file in ("raw.py", server):
        (project.root / folder / "servers").mkdir(parents=True, exist_ok=True)
        shutil.copy(SERVERS / file, project.root / folder / "servers" / file)
    text = HARNESS.format(name=name or Path(folder).name, server=server, more=more)
    project.write({f"{folder}/harness.toml": text, f"{folder}/suites/all.toml": SUITE})


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    env = git_environment(os.environ)
    done = subprocess.run(["git", *who, *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(project, folder: str, tag: str = "", *, gitlink: str = "") -> None:
    """All that is in a folder is committed, with a tag, and with a submodule that is nowhere."""
    at = project.root / folder
    git(at, "init", "-q", "-b", "main")
    git(at, "add", "-A")
    if gitlink:
        git(at, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{gitlink}")
    git(at, "commit", "-q", "-m", "a commit")
    if tag:
        git(at, "tag", tag)


def listed(project, *entries: str, head: str = "") -> None:
    project.write({"rollout.toml": "\n".join(["schema = 1", head, *(f"[[repository]]\n{item}" for item in entries)])})


def states(report: dict) -> dict[str, tuple[str, str]]:
    return {item["name"]: (item["state"], item["verdict"]) for item in report["repositories"]}


def errors(report: dict, server: str) -> list[dict]:
    return [item for item in report["errors"] if item["server"] == server]


def in_namespace(script):
    """Words that run a command after a script, in a mount namespace of its own; skips where that is forbidden."""
    words = ("unshare", "--map-root-user", "--mount", "sh", "-ec")
    if subprocess.run([*words, "mount -t tmpfs none /mnt"], capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not to be had here")
    return (*words, script, "sh")


@pytest.fixture(scope="module")
def faults(tmp_path_factory, project_in) -> tuple:
    """One pass over repositories of which nearly every one fails in a way of its own."""
    project = project_in(tmp_path_factory.mktemp("faults"))
    silent = socket.create_server(("127.0.0.1", 0))  # takes connections, and never says a word
    repository(project, "alpha")
    repository(project, "mono/servers/beta", name="beta")
    project.write({"mono/servers/beta/exemptions.toml": FALSE})
    committed(project, "mono", "v1")
    repository(project, "bare", name="kept")
    (project.root / "bare" / "harness.toml").unlink()
    shutil.move(project.root / "bare" / "suites", project.root / "kept" / "suites")
    project.write({"kept/harness.toml": HARNESS.format(name="kept", server="good.py", more="")})
    repository(project, "broken")
    project.write({"broken/harness.toml": 'schema = 1\n[server]\nname = "broken"\ncomand = []\n'})
    repository(project, "unbuilt", more='build = [["sh", "-c", "echo no compiler; exit 7"]]')
    repository(project, "mute", server="dies_at_start.py")
    repository(project, "hangs", more='build = [["sleep", "597"]]')
    repository(project, "killed", more='build = [["sh", "-c", "kill -9 $PPID"]]')
    repository(project, "unready")
    with (project.root / "unready" / "harness.toml").open("a") as file:
        file.write('[backends.b]\nuse = "never"\n')
    project.write({"unready/backends/never/backend.toml": NEVER_READY})
    repository(project, "twin", name="alpha")
    repository(project, "suiteless")
    (project.root / "suiteless" / "suites" / "all.toml").unlink()
    (project.root / "mono" / "servers" / "out").symlink_to(project.root)
    committed(project, "mono", "v3")
    repository(project, "harnessless")
    (project.root / "harnessless" / "harness.toml").unlink()
    repository(project, "foreign")
    project.write({"foreign/harness.toml": 'schema = 99\n[server]\nname = "foreign"\n'})
    repository(project, "halves")
    project.write({"halves/.gitmodules": '[submodule "dep"]\npath = dep\nurl = ../gone\n'})
    committed(project, "halves", gitlink="dep")
    repository(project, "linked")
    project.write({"outside.toml": 'word = "nobody else sees this"\n'})
    (project.root / "linked" / "suites" / "all.toml").unlink()
    (project.root / "linked" / "suites" / "all.toml").symlink_to(project.root / "outside.toml")
    committed(project, "linked")
    repository(project, "fat")
    project.write({"fat/suites/all.toml": LONG})
    repository(project, "dies", server="dies_in_call.py")
    project.write({"dies/suites/all.toml": ONE_CALL.format(tool="die")})
    repository(project, "stuck", server="never_answers_call.py", more="call_timeout_s = 1")
    project.write({"stuck/suites/all.toml": ONE_CALL.format(tool="hang")})
    listed(
        project,
        'path = "alpha"\ntags = ["good"]',
        'git = "mono"\nref = "v1"\nsubdir = "servers/beta"\nname = "beta"\ntags = ["good"]',
        'path = "bare"\nharness = "kept/harness.toml"\nname = "kept"\ntags = ["good"]',
        'git = "nowhere"\nref = "main"',
        'git = "mono"\nref = "v2"\nname = "no-such-ref"',
        'path = "absent"',
        'path = "broken"',
        'path = "unbuilt"',
        'path = "mute"',
        'path = "hangs"\ntimeout_s = 4',
        'path = "killed"',
        'path = "unready"',
        'path = "twin"',
        'path = "suiteless"',
        'path = "alpha"\nname = "again"',
        'git = "mono"\nref = "v3"\nsubdir = "servers/out/alpha"\nname = "outward"',
        'path = "harnessless"',
        'path = "foreign"',
        'git = "halves"',
        f'git = "http://127.0.0.1:{silent.getsockname()[1]}/silent.git"',
        'git = "linked"',
        'path = "fat"',
        'path = "dies"',
        'path = "stuck"',
    )
    central = "".join(EXCUSED.format(name=name) for name in ("alpha", "beta", "kept", "unbuilt"))
    central += '[elsewhere.exercised]\ntool = "a server that no repository of the list has, perhaps"\n'
    project.write({"exemptions.toml": f"schema = 1\n{central}"})
    project.write({"alpha/exemptions.toml": OWN})
    with silent:
        done = project.run(
            "rollout",
            *("--jobs", "3", "--runtime", "process"),
            env={"GIT_HTTP_LOW_SPEED_TIME": "1", "no_proxy": "*"},
            limits={
                resource.RLIMIT_FSIZE: 600_000
            },  # the disk is full for whoever writes more: the transcript of `fat`
            timeout=GUARD_S * 2,
        )
    return project, done


def test_every_repository_is_an_entry_and_what_fails_does_not_keep_the_others(faults):
    _, done = faults
    assert states(done.report) == {
        "alpha": ("done", "findings"),
        "beta": ("done", "findings"),
        "kept": ("done", "clean"),
        "nowhere": ("not-checked-out", "error"),
        "no-such-ref": ("not-checked-out", "error"),
        "absent": ("files", "error"),
        "broken": ("files", "error"),
        "unbuilt": ("done", "error"),
        "mute": ("done", "error"),
        "hangs": ("timed-out", "error"),
        "killed": ("ended", "error"),
        "unready": ("done", "error"),
        "twin": ("files", "error"),
        "suiteless": ("files", "nothing-run"),
        "again": ("files", "error"),
        "outward": ("files", "error"),
        "harnessless": ("files", "error"),
        "foreign": ("files", "error"),
        "halves": ("not-checked-out", "error"),
        "silent": ("not-checked-out", "error"),
        "linked": ("files", "error"),
        "fat": ("done", "error"),
        "dies": ("done", "findings"),
        "stuck": ("done", "findings"),
    }
    assert done.code == done.report["exit"] == 6
    jsonschema.Draft202012Validator(published_schema()).validate(done.report)


CAUSES = [
    ("nowhere", "build", "cannot be checked out: git ls-remote failed"),
    ("no-such-ref", "build", "has no branch, tag or commit"),
    ("absent", "config", "there is no folder"),
    ("broken", "config", "unknown key"),
    ("unbuilt", "build", "build command ended with exit code"),
    ("mute", "server", "before its first answer"),
    ("hangs", "stack", "it was ended, for it took over"),
    ("killed", "stack", "was killed by signal 9"),
    ("unready", "stack", "it was not ready within"),
    ("twin", "config", "is called 'alpha' too"),
    ("suiteless", "nothing-run", "there is no suite"),
    ("outward", "config", "leads out of the repository"),
    ("harnessless", "config", "there is no harness.toml in"),
    ("foreign", "config", "schema: expected 1"),
    ("halves", "build", "git submodule failed"),
    ("silent", "build", "Operation too slow"),
    ("linked", "config", "this link leads out of its repository"),
    ("fat", "stack", "cannot be written"),
]


@pytest.mark.parametrize(("name", "kind", "words"), CAUSES)
def test_a_failure_says_its_cause(faults, name, kind, words):
    _, done = faults
    found = errors(done.report, name)
    assert {item["kind"] for item in found} == {kind}
    assert any(words in item["message"] for item in found), found


def test_the_page_says_what_is_said():
    """Each cause, with the exit code of its kind, in a row of the table."""
    page = (Path(__file__).parent.parent.parent / "docs/how-to/many-repositories.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ") and line.count(" | ") == 3]
    for _, kind, words in CAUSES:
        (row,) = [row for row in rows if words.replace("alpha", "NAME") in row[1]]
        assert row[2] == str(code_of_kind(kind)), row


def test_a_log_comes_with_what_failed_and_lies_beside_the_evidence(faults):
    project, done = faults
    assert any("no compiler" in item["log"] for item in errors(done.report, "unbuilt"))
    rows = {item["name"]: item for item in done.report["repositories"]}
    assert (project.root / ".rollcall" / "evidence" / rows["hangs"]["log"]).is_file()
    assert rows["nowhere"]["log"] == ""


def test_a_second_server_of_one_name_is_the_later_repositorys_error(faults):
    _, done = faults
    for name in ("twin", "again"):
        (found,) = errors(done.report, name)
        assert "the server of alpha is called 'alpha' too" in found["message"]
        (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith(f"  {name} ")]
        assert row[2:4] == ["?", "?"]  # the other's numbers are not its own
    assert errors(done.report, "alpha") == []


def test_the_same_entry_in_the_central_file_and_in_the_repository_is_a_duplicate_that_names_both(faults):
    _, done = faults
    found = [item for item in done.report["findings"] if item["check"] == "exemption/duplicate"]
    assert len(found) == 1
    assert (found[0]["file"], found[0]["server"]) == ("exemptions.toml", "alpha")
    assert "is excused at alpha/exemptions.toml:3 already" in found[0]["message"]


def test_what_rests_on_absent_repositories_is_not_judged(faults):
    _, done = faults
    open_ones = {(item["server"], item["subject"]) for item in done.report["not_judged"] if item["file"]}
    assert ("elsewhere", "tool") in open_ones  # it may be the server of one that could not be had
    assert ("unbuilt", "fail") in open_ones


def test_a_repositorys_own_file_speaks_of_its_own_server_and_is_named_by_the_list(faults):
    _, done = faults
    stale = [item for item in done.report["findings"] if item["check"] == "exemption/stale"]
    assert [(item["file"], item["server"], item["tool"]) for item in stale] == [
        ("alpha/exemptions.toml", "alpha", "add")  # in the row of the repository where it is mended
    ]
    assert "there is no server 'beta' in the repository of this file" in stale[0]["message"]
    false = [item for item in done.report["findings"] if item["check"] == "exemption/false"]
    assert [(item["file"], item["tool"]) for item in false] == [("beta/servers/beta/exemptions.toml", "echo")]


def test_exemptions_are_listed_pruned_and_proposed_over_the_list(faults):
    project, done = faults
    verdict = project.run("exemptions", "--rollout", "--runtime", "process", "--format", "json", out="none")
    said = json.loads(verdict.stdout)["findings"]
    assert said == [item for item in done.report["findings"] if item["check"].startswith("exemption/")]
    assert all("--project" not in item.get("rerun", "") for item in said if item["server"] in ("beta", "kept"))
    assert json.loads(verdict.stdout)["excused"] == done.report["excused"]
    one = project.run("exemptions", "beta", "--rollout", "--runtime", "process", "--format", "json", out="none")
    assert json.loads(one.stdout)["findings"] == [item for item in said if item["server"] == "beta"] != said
    listed = project.run("exemptions", "list", "--rollout", "--format", "json", out="none")
    assert listed.code == 0, listed.stderr
    assert "note: nowhere is left out" in listed.stderr
    data = json.loads(listed.stdout)
    assert data["counts"]["servers"]["alpha"] == 4
    assert data["counts"]["checks"] == {"exercised": 16}
    (fails,) = [item for item in data["same_reasons"] if item["reason"].startswith("it fails on purpose")]
    assert fails["servers"] == ["alpha", "beta", "kept", "unbuilt"]
    before = (project.root / "exemptions.toml").read_bytes()
    pruned = project.run("exemptions", "prune", "--rollout", "--runtime", "process", "--dry-run", out="none")
    assert pruned.code == 0, pruned.stderr
    assert "of a server not named" in pruned.stderr  # elsewhere
    assert "in a checkout" in pruned.stderr  # what is written there would be lost
    assert '-add = "a file of one repository that speaks of another"' in pruned.stdout
    proposed = project.run("exemptions", "propose", "--rollout", "--runtime", "process", "--dry-run", out="none")
    assert proposed.code == 0, proposed.stderr
    assert (project.root / "exemptions.toml").read_bytes() == before
    wrong = project.run("exemptions", "list", "--rollout", "--project", "alpha", out="none")
    assert wrong.code == 2


def test_nothing_is_left_running(faults):
    left = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"sleep\x00597\x00" in path.read_bytes():
                left.append(path)
        except OSError:
            continue
    assert not left


def test_judging_again_gives_the_same_bytes_without_the_remote(faults):
    project, done = faults
    folder = project.root / ".rollcall"
    first = {name: (folder / name).read_bytes() for name in ("report.json", "report.xml", "report.md", "report.sarif")}
    (project.root / "mono").rename(project.root / "moved")
    try:
        again = project.run("rollout", "judge", "--runtime", "process")
    finally:
        (project.root / "moved").rename(project.root / "mono")
    assert again.code == done.code
    assert {name: (folder / name).read_bytes() for name in first} == first
    assert again.stdout == done.stdout


def test_the_matrix_shows_every_repository_with_its_worst_first(faults):
    _, done = faults
    head = done.stdout.splitlines()[0]
    assert "24 repositories" in head
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and "/" in line[:60]]
    assert {"alpha", "beta", "kept"} <= set(rows)
    markdown = (faults[0].root / ".rollcall" / "report.md").read_text()
    assert "| `hangs` | error |" in markdown
    assert "timed out" in markdown


def test_only_names_and_tags_are_taken_and_the_rest_is_left_to_somebody_else(faults):
    project, _ = faults
    done = project.run("rollout", "judge", "--only", "good", "--runtime", "process", "--out", "good", out="good")
    assert set(states(done.report)) == {"alpha", "beta", "kept"}
    assert done.code == 1  # the duplicate
    unknown = project.run("rollout", "judge", "--only", "goood")
    assert unknown.code == 2
    assert "did you mean 'good'?" in unknown.stderr


# --- resume ---------------------------------------------------------------------------------------------


@pytest.fixture
def pair(project):
    """Two repositories whose servers are clean, one of them checked out by git."""
    repository(project, "one")
    repository(project, "two")
    committed(project, "two")
    listed(project, 'path = "one"', 'git = "two"\nref = "main"')
    text = "schema = 1\n" + EXCUSED.format(name="one") + EXCUSED.format(name="two")
    project.write({"exemptions.toml": text})
    return project


def test_resume_runs_only_what_is_missing_or_has_changed(pair):
    first = pair.run("rollout", "--jobs", "2", timeout=GUARD_S)
    assert first.code == 0, first.stdout + first.stderr
    kept = pair.run("rollout", "--resume", "--jobs", "2", timeout=GUARD_S)
    assert kept.code == 0
    assert kept.stderr.count("its evidence is kept") == 2
    assert kept.report == first.report

    exemptions = pair.root / "exemptions.toml"
    exemptions.write_text(exemptions.read_text().replace("[two.exercised]\nfail = ", "[two.exercised]\nfial = "))
    judged = pair.run("rollout", "--resume", "--jobs", "2", timeout=GUARD_S)
    assert judged.stderr.count("its evidence is kept") == 2
    assert {item["check"] for item in judged.report["findings"]} == {"exemption/stale", "exercised/failed-only"} or {
        item["check"] for item in judged.report["findings"]
    } == {"exemption/stale", "exercised/missing"}

    (pair.root / "two" / "new.txt").write_text("the branch moves")
    committed(pair, "two")
    moved = pair.run("rollout", "--resume", "--jobs", "2", timeout=GUARD_S)
    assert moved.stderr.count("its evidence is kept") == 1
    assert "✓ two: run" in moved.stderr
    before, after = ({item["name"]: item["commit"] for item in done.report["repositories"]} for done in (judged, moved))
    assert before["two"] != after["two"] == git(pair.root / "two", "rev-parse", "HEAD")

    server = pair.root / "one" / "servers" / "good.py"  # nothing is built: the sources themselves are run
    server.write_text(server.read_text() + "\n")
    changed = pair.run("rollout", "--resume", "--jobs", "2", timeout=GUARD_S)
    assert changed.stderr.count("its evidence is kept") == 1
    assert "✓ one: run" in changed.stderr


# --- shards ---------------------------------------------------------------------------------------------


def test_resume_repeats_only_the_runs_that_failed_or_have_changed(project):
    """One of two backends was never ready: when that is mended, the other's run is not repeated, but counts."""
    repository(project, "one", more='[profiles.plain]\n[profiles.other]\nelicit = "decline"')
    with (project.root / "one" / "harness.toml").open("a") as file:
        file.write('[backends.b]\nuse = ["fine", "never"]\n')
    project.write(
        {"one/backends/fine/backend.toml": READY.format(name="fine"), "one/backends/never/backend.toml": NEVER_READY}
    )
    project.write({"exemptions.toml": "schema = 1\n" + EXCUSED.format(name="one")})
    listed(project, 'path = "one"')
    first = project.run("rollout", "--runtime", "process", timeout=GUARD_S)
    assert first.code == 5, first.stdout + first.stderr

    project.write({"one/backends/never/backend.toml": READY.format(name="never")})
    assert resumed(project) == (2, 4)
    again = project.run("rollout", "--resume", "--runtime", "process", timeout=GUARD_S)
    assert again.stderr.count("its evidence is kept") == 1

    harness = project.root / "one" / "harness.toml"
    harness.write_text(harness.read_text().replace("decline", "cancel"))
    assert resumed(project) == (2, 4)
    (done, *_) = sorted(project.root.glob(".rollcall/evidence/one/never*/*/plain/*/done"), reverse=True)
    done.unlink()
    assert resumed(project) == (3, 4)

    last = json.loads((project.root / ".rollcall" / "report.json").read_text())
    full = project.run("rollout", "--runtime", "process", timeout=GUARD_S)
    assert full.report == last
    assert (
        len(list(project.root.glob(".rollcall/evidence/one/fine*/*/plain/*/done"))) == 2
    )  # the first, and the full one
    assert not list(project.root.glob(".rollcall/evidence/**/*.kept.json"))


def test_resume_gives_the_report_of_one_pass_also_of_an_era_that_is_not_spoken(project):
    """The second backend's was never tried, for the first one's had told: so it is where the first one's is kept."""
    repository(project, "one", server="daemon_child.py")
    harness = project.root / "one" / "harness.toml"
    text = harness.read_text().replace('eras = ["handshake"]\n', "")
    harness.write_text(f'{text}[backends.b]\nuse = ["fine", "other"]\n')
    for name in ("fine", "other"):
        project.write({f"one/backends/{name}/backend.toml": READY.format(name=name)})
    project.write({"one/suites/all.toml": ONE_CALL.format(tool="echo") + 'arguments = { text = "a" }\n'})
    listed(project, 'path = "one"')
    first = project.run("rollout", "--runtime", "process", timeout=GUARD_S)
    assert {run["outcome"] for run in first.report["ran"] if run["era"] == "modern"} == {"not-spoken"}
    for backend in ("other", "fine"):
        (done,) = project.root.glob(f".rollcall/evidence/one/{backend}*/modern/*/*/done")
        done.unlink()
        again = project.run("rollout", "--resume", "--runtime", "process", timeout=GUARD_S)
        assert "one: keeps 3 of its 4 runs" in again.stderr
        assert again.report == first.report


def resumed(project) -> tuple[int, int]:
    """How many of the runs of a pass were kept, of how many."""
    done = project.run("rollout", "--resume", "--runtime", "process", timeout=GUARD_S)
    assert done.code == 0, done.stdout + done.stderr
    found = re.search(r"one: keeps (\d+) of its (\d+) runs", done.stderr)
    assert found, done.stderr
    return int(found[1]), int(found[2])


def test_shards_joined_give_the_report_of_one_machine_and_a_lost_one_is_not_judged(pair):
    whole = pair.run("rollout", "--jobs", "2", "--state", "whole", "--out", "whole", out="whole", timeout=GUARD_S)
    assert whole.code == 0, whole.stderr
    planned = json.loads(pair.run("rollout", "plan", "--shards", "2", "--format", "github", "--state", "whole").stdout)
    parts = planned["include"]
    assert [part["shard"] for part in parts] == ["1/2", "2/2"]
    assert {name for part in parts for name in part["only"].split(",")} == {"one", "two"}
    for number, part in enumerate(parts, 1):
        shard = f"shard{number}"
        done = pair.run("rollout", "--only", part["only"], "--state", shard, "--out", shard, out=shard, timeout=GUARD_S)
        assert (done.code, done.report["verdict"]) == (0, "partial"), done.stderr

    lost = pair.run("rollout", "merge", "shard1", "--state", "lost", "--out", "lost", out="lost")
    assert lost.code == 3
    assert {state for state, _ in states(lost.report).values()} == {"done", "no-record"}
    assert any("no pass has come to it" in item["why"] for item in lost.report["not_judged"])

    both = ("--state", "joined", "--out", "joined")
    joined = pair.run("rollout", "merge", "shard1", "shard2", *both, out="joined")
    assert joined.code == 0, joined.stderr
    for name in ("report.json", "report.xml", "report.md", "report.sarif"):
        assert (pair.root / "joined" / name).read_bytes() == (pair.root / "whole" / name).read_bytes(), name
    later = pair.run("rollout", "merge", "shard2", "--state", "lost", "--out", "later", out="later")
    assert (later.code, later.report) == (0, joined.report), later.stderr
    assert later.stderr.count("in none of these folders; what was recorded or joined here before counts") == 1
    wrong = pair.run("rollout", "merge", "one", *both)
    assert wrong.code == 2
    assert "holds no evidence of a rollout" in wrong.stderr

    # a part that a hand has changed: what leads elsewhere is left out, and nothing is waited for
    bent = pair.root / "bent" / ".rollout"
    shutil.copytree(pair.root / "whole" / "evidence", bent.parent)
    record = json.loads((bent / "one.json").read_text())
    for item in record["attempts"]:
        item["folder"] = f"../../whole/evidence/{item['folder']}"
    (bent / "one.json").write_text(json.dumps(record))
    (bent / "three.json").write_text(json.dumps({**record, "attempts": []}))
    (bent / "one.times.json").write_text("[" * 100_000)
    (bent / "two.times.json").unlink()
    os.mkfifo(bent / "two.times.json")
    for transcript in bent.parent.rglob("server-1.jsonl"):
        transcript.unlink()
        transcript.symlink_to(next(pair.root.joinpath("whole/evidence/two").rglob("server-1.jsonl")))
    hand = pair.run("rollout", "merge", "bent", "--state", "hand", "--out", "hand", out="hand")
    assert states(hand.report)["one"] == ("no-record", "nothing-run")
    assert hand.report["verdict"] != "clean"
    assert hand.stderr.count("left out, it is no record of a pass") == 4
    assert not [path for path in (pair.root / "hand").rglob("*") if path.is_symlink()]


def test_a_shard_by_number_is_one_of_those_that_are_planned(pair):
    plain = pair.run("rollout", "plan", "--shards", "2", "--format", "json")
    rows = json.loads(plain.stdout)["include"]
    assert sorted(row["only"] for row in rows) == ["one", "two"]
    gitlab = json.loads(pair.run("rollout", "plan", "--shards", "2", "--format", "gitlab").stdout)
    assert gitlab["rollout 1/2"]["variables"] == {"ROLLCALL_SHARD": "1/2", "ROLLCALL_ONLY": rows[0]["only"]}
    assert "mcp-rollcall rollout --only=one" in pair.run("rollout", "plan", "--shards", "2").stdout
    assert pair.run("rollout", "--shard", "3/2").code == 2
    for words in (("",), (",",), ("", "--only", ",")):  # as of a variable that a job has not: not the whole list
        done = pair.run("rollout", "--only", *words)
        assert (done.code, "--only names nothing" in done.stderr) == (2, True)
    assert "there is no file" in pair.run("rollout", "--list", "other.toml").stderr


@pytest.mark.parametrize(
    ("more", "shown"), [("", "mono"), ('name = "billing"', "billing"), ('name = "b/servers/billing"', "b")]
)
def test_a_files_name_says_the_subdir_once(tmp_path, more, shown):
    path = tmp_path / "rollout.toml"
    path.write_text(f'schema = 1\n[[repository]]\ngit = "x/mono"\nsubdir = "servers/billing"\n{more}\n')
    (spec,) = read_rollout(path).repositories
    assert Member(spec=spec).shown == shown


# --- interruption, and two at once ----------------------------------------------------------------------


def spawn(project, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", "rollout", *arguments],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def running(mark: bytes) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_pass_cleans_up_and_still_reports(project, number):
    repository(project, "quick")
    repository(project, "slow", more=f'build = [["sleep", "59{number:d}.25"]]')
    repository(project, "later")
    listed(project, 'path = "quick"', 'path = "slow"', 'path = "later"')
    mark = f"sleep\x0059{number:d}.25".encode()
    process = spawn(project, "--jobs", "1")
    try:
        deadline = time.monotonic() + GUARD_S
        while not running(mark) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)
        assert running(mark), process.communicate(timeout=5)[1] if process.poll() is not None else "no build began"
        process.send_signal(number)
        process.communicate(timeout=GUARD_S)
    finally:
        process.kill()
    deadline = time.monotonic() + GUARD_S
    while running(mark) and time.monotonic() < deadline:  # a child whose parent is killed sees it by itself
        time.sleep(0.1)
    assert not running(mark)
    if number == signal.SIGKILL:
        assert project.run("reap", out="none").code == 0
        for word in (("judge",), ("merge", ".rollcall", "--state", "joined")):  # here, or of a shard that was killed
            lost = project.run("rollout", *word, "--out", "lost", out="lost")
            assert (lost.code, lost.report["verdict"]) == (3, "error"), lost.stderr
            assert {name: state for name, (state, _) in states(lost.report).items()} == {
                "quick": "done",
                "slow": "no-record",
                "later": "no-record",
            }
        return
    assert process.returncode == 130
    report = json.loads((project.root / ".rollcall" / "report.json").read_text())
    assert (report["verdict"], report["exit"]) == ("error", 130)
    assert states(report)["quick"][0] == "done"
    assert states(report)["slow"][0] == "interrupted"
    assert states(report)["later"][0] == "not-begun"
    assert {run["server"] for run in report["ran"]} == {"quick"}
    assert [item["kind"] for item in report["errors"]] == ["interrupted"]
    again = project.run("rollout", "judge")
    assert (again.code, again.report) == (130, report)


def test_two_passes_at_once_over_one_state_both_come_to_their_end(pair):
    both = [spawn(pair, "--jobs", "2") for _ in range(2)]
    for process in both:
        out, error = process.communicate(timeout=GUARD_S)
        assert process.returncode == 0, out + error


def test_a_disk_that_is_full_in_mid_pass_leaves_the_report_of_what_is_known(pair):
    pair.write({"one/suites/all.toml": LONG})
    (pair.root / "small").mkdir()
    script = 'mount -t tmpfs -o size=700k none small; "$@" || code=$?; cp -r small kept; exit $code'
    done = pair.run("rollout", "--jobs", "1", "--evidence", "small", before=in_namespace(script), timeout=GUARD_S)
    assert done.code == 5, done.stderr
    assert any("No space left on device" in item["message"] for item in errors(done.report, "one"))
    assert not done.report["findings"]
    assert set(states(done.report)) == {"one", "two"}
    assert states(done.report)["two"][1] != "clean" or "two" in {run["server"] for run in done.report["ran"]}


def test_evidence_that_cannot_be_written_is_an_error_of_each_and_the_report_is_there(pair):
    done = pair.run("rollout", "--evidence", "rollout.toml/evidence", "--jobs", "2", timeout=GUARD_S)
    assert done.code == 5
    assert {item["kind"] for item in done.report["errors"]} == {"stack"}
    assert {item["server"] for item in done.report["errors"]} == {"one", "two"}


def test_a_foreign_noxfile_and_a_foreign_package_of_our_name_are_not_imported(pair):
    bomb = "raise SystemExit('imported')\n"
    for folder in ("one", "."):
        pair.write(
            {f"{folder}/noxfile.py": bomb, f"{folder}/harness/__init__.py": bomb, f"{folder}/sitecustomize.py": bomb}
        )
    done = pair.run("rollout", "--only", "one", timeout=GUARD_S)
    assert done.code == 0, done.stderr


def test_a_list_with_problems_is_exit_2_with_all_of_them(project):
    listed(project, 'pth = "one"', 'path = "two"\nref = "main"')
    done = project.run("rollout")
    assert done.code == 2
    assert done.stderr.count("rollout.toml:") >= 3
    assert project.run("rollout", "--list", "nowhere").code == 2


# --- Docker -----------------------------------------------------------------------------------------------

IMAGELESS = """\
schema = 1
name = "imageless"
[versions.1]
[services.s]
image = "127.0.0.1:9/nothing:1"
ready = { exec = ["true"] }
"""
SLEEPS = """\
schema = 1
name = "sleeps"
[versions.1]
[services.s]
image = "debian:trixie-slim"
command = ["sleep", "593"]
ready = { exec = ["true"] }
"""


@pytest.mark.docker
def test_an_image_that_is_missing_and_an_engine_that_is_stopped_in_mid_run(project, relay, monkeypatch):
    """The engine is cut off while a server is called; what it ran is removed by `reap` once it is back."""
    line = relay()
    project.write({"backends/imageless/backend.toml": IMAGELESS, "backends/sleeps/backend.toml": SLEEPS})
    for name, backend in (("pulls", "imageless"), ("calls", "sleeps"), ("plain", ""), ("late", "sleeps")):
        repository(project, name)
        if backend:
            shutil.copytree(project.root / "backends" / backend, project.root / name / "backends" / backend)
            with (project.root / name / "harness.toml").open("a") as file:
                file.write(f'[backends.b]\nuse = "{backend}"\n')
    project.write({"calls/suites/all.toml": SUITE.replace("seconds = 0", "seconds = 5")})
    listed(project, *(f'path = "{name}"' for name in ("pulls", "calls", "plain", "late")))
    process = spawn(project, "--jobs", "1", "--runtime", "docker")
    mark = f"{project.root}/calls/servers/good.py".encode()
    try:
        deadline = time.monotonic() + GUARD_S
        while not running(mark) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)
        line.cut()
        out, error = process.communicate(timeout=GUARD_S)
    finally:
        process.kill()
    assert process.returncode == 5, out + error
    report = json.loads((project.root / ".rollcall" / "report.json").read_text())
    said = {name: " ".join(item["message"] for item in errors(report, name)) for name in states(report)}
    assert "127.0.0.1:9/nothing:1" in said["pulls"]
    assert "could not be removed" in said["calls"]
    assert said["plain"] == ""
    assert "no Docker engine" in said["late"]
    assert {run["server"] for run in report["ran"]} == {"calls", "plain"}
    monkeypatch.delenv("DOCKER_HOST")  # what is left is there for any `reap`, also one of a test beside this one
    reaped = project.run("reap", out="none")
    assert reaped.code == 0, reaped.stderr
    assert not running(b"sleep\x00593\x00")
