"""`exemptions prune`, `propose` and `list`, as a user runs them: on evidence of real runs, on files in a repository."""

import datetime as dt
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib

import jsonschema
import pytest

from harness.report.exemption_list import published_list_schema

TODAY = ("--today", "2026-12-01")
EXEMPTIONS = """\
# What cannot be exercised.
schema = 1

[good.exercised]
# why it fails
fail = "it fails on purpose, whatever it is given"
# why echo
echo = "nobody could ever call this one"  # behind echo
# --- gone ---

# this was removed
gone = "this tool was removed long ago"
todo = "todo"

[good."process/orphan"]
"*" = "its helper outlives it by a moment"

[god.exercised]
x = "there is no server of such a name"
"""
PRUNED = """\
# What cannot be exercised.
schema = 1

[good.exercised]
# why it fails
fail = "it fails on purpose, whatever it is given"
# --- gone ---

todo = "todo"
"""


@pytest.fixture
def repository(recorded, project):
    """A copy of it, with exemptions of every kind."""
    shutil.copytree(recorded.root, project.root, dirs_exist_ok=True)
    return project.write({"exemptions.toml": EXEMPTIONS})


def text_of(project, name="exemptions.toml"):
    return (project.root / name).read_bytes().decode()


def git(project, *arguments, when="2026-01-10T12:00:00Z"):
    env = project.environment(
        GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null"
    )
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=project.root, env=env, check=True, capture_output=True, text=True).stdout


# --- prune ----------------------------------------------------------------------------------------


def test_prune_removes_false_and_stale_entries_and_nothing_else(repository):
    """U044: false, stale by tool and by server, false by process; malformed ones are for a person."""
    done = repository.run("exemptions", "prune", *TODAY)
    assert done.code == 0, done.stderr
    assert text_of(repository) == PRUNED
    lines = done.stdout.splitlines()
    assert [line.split(" — ")[0] for line in lines] == [
        "removed exemptions.toml:8 good exercised echo",
        "removed exemptions.toml:12 good exercised gone",
        "removed exemptions.toml:16 good process/orphan *",
        "removed exemptions.toml:19 god exercised x",
    ]
    assert "false: echo was exercised after all (all/echoes)" in lines[0]
    assert "left exemptions.toml:13 good exercised todo — malformed" in done.stderr
    assert done.stderr.splitlines()[-1] == "removed 4 of 6 exemptions; left alone: 1 malformed"


def test_what_is_left_is_judged_as_before(repository):
    assert repository.run("exemptions", *TODAY).code == 1
    repository.run("exemptions", "prune", *TODAY)
    done = repository.run("judge", *TODAY)
    assert {finding["check"] for finding in done.report["findings"]} == {"exemption/malformed"}


def test_git_shows_removed_lines_only(repository):
    git(repository, "init", "-q")
    git(repository, "add", "exemptions.toml")
    repository.run("exemptions", "prune", *TODAY)
    changed = [line for line in git(repository, "diff", "-U0").splitlines() if line[:1] in "+-"]
    assert not [line for line in changed if line.startswith("+") and not line.startswith("+++")]
    assert len([line for line in changed if line.startswith("-") and not line.startswith("---")]) == 10


def test_a_second_prune_finds_nothing_and_leaves_the_file_untouched(repository):
    """U047: its time of change, too."""
    repository.run("exemptions", "prune", *TODAY)
    path = repository.root / "exemptions.toml"
    os.utime(path, (1_000_000, 1_000_000))
    inode = path.stat().st_ino
    done = repository.run("exemptions", "prune", *TODAY)
    assert (done.code, done.stdout) == (0, "")
    assert "removed 0 of 2" in done.stderr
    assert (path.stat().st_mtime, path.stat().st_ino) == (1_000_000, inode)


def test_a_dry_run_shows_a_diff_that_git_can_apply(repository):
    done = repository.run("exemptions", "prune", "--dry-run", *TODAY)
    assert done.code == 0
    assert text_of(repository) == EXEMPTIONS
    assert "would remove 4 of 6" in done.stderr
    (repository.root / "the.diff").write_text(done.stdout, encoding="utf-8")
    git(repository, "apply", "the.diff")
    assert text_of(repository) == PRUNED


@pytest.mark.parametrize("selection", [("run", "--era", "modern"), ("run", "-k", "adds")], ids=["era", "cases"])
def test_what_partial_evidence_cannot_say_stays(repository, selection):
    """W34: what was seen is false all the same; what rests on absence is not judged."""
    shutil.rmtree(repository.root / ".rollcall/evidence")
    assert repository.run(*selection).code == 0
    done = repository.run("exemptions", "prune", *TODAY)
    assert done.code == 0
    left = text_of(repository)
    assert "gone =" in left
    assert "process/orphan" in left
    assert "not judged" in done.stderr
    assert ("echo =" in left) == ("adds" in selection)


def test_without_evidence_nothing_is_pruned_or_proposed(repository):
    shutil.rmtree(repository.root / ".rollcall")
    for word in ("prune", "propose"):
        done = repository.run("exemptions", word)
        assert done.code == 3
        assert "no evidence" in done.stderr
    assert text_of(repository) == EXEMPTIONS


def test_expired_entries_go_only_when_that_is_asked_for(repository):
    """U076: the named day is the last good one, in UTC or by --today."""
    entry = '[good.exercised.fail]\nreason = "it fails on purpose, whatever it is given"\nexpires = 2026-12-01\n'
    repository.write({"exemptions.toml": f"schema = 1\n{entry}"})
    done = repository.run("exemptions", "prune", "--expired", "--today", "2026-12-01")
    assert "removed 0 of 1" in done.stderr
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        done = repository.run("exemptions", "prune", "--today", "2026-12-02", env={"TZ": zone})
        assert "removed 0 of 1 exemption; left alone: 1 expired" in done.stderr
    done = repository.run("exemptions", "prune", "--expired", "--today", "2026-12-02")
    assert "removed 1 of 1" in done.stderr
    assert text_of(repository) == "schema = 1\n"


TWICE = """\
[good."process/late-exit"]
"*" = "it always needs a signal to stop"
again = "it never stops by itself alone"
"""


def test_of_two_entries_that_say_the_same_a_person_chooses(repository):
    edit = EXEMPTIONS.partition('\n[good."process')[0] + f"\n{TWICE}"
    repository.write({"exemptions.toml": edit, "harness.toml": harness_toml(repository, "ignores_stdin_close.py")})
    repository.write({"suites/all.toml": SUITE.format(call="x", more="unlisted = true\nexpect = { is_error = true }")})
    shutil.rmtree(repository.root / ".rollcall/evidence")
    repository.run("run")
    done = repository.run("exemptions", "prune", *TODAY)
    assert done.code == 0
    assert "again — duplicate" in done.stderr
    assert text_of(repository).endswith(TWICE)


def test_both_of_two_false_entries_go_at_once(repository):
    repository.write({"exemptions.toml": f"schema = 1\n{TWICE}"})
    done = repository.run("exemptions", "prune", *TODAY)
    assert "removed 2 of 2" in done.stderr
    assert text_of(repository) == "schema = 1\n"


SUITE = 'schema = 2\nid = "all"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "{call}"\n{more}\n'


def harness_toml(project, server="good.py"):
    return (project.root / "harness.toml").read_text(encoding="utf-8").replace("good.py", server)


@pytest.mark.parametrize("end", ["", "\r\n"], ids=["open", "closed"])
def test_crlf_a_byte_order_mark_and_the_end_of_the_file_stay(repository, end):
    """U047."""
    kept = '\ufeffschema = 1\r\n[good.exercised]\r\nfail = "it fails on purpose, whatever it is given"'
    text = f"{kept}\r\n# why\r\necho = 'nobody could ever call this one'{end}"
    (repository.root / "exemptions.toml").write_bytes(text.encode())
    assert repository.run("exemptions", "prune", *TODAY).code == 0
    assert text_of(repository) == kept + end


def test_a_lone_carriage_return_is_refused_with_its_line(repository):
    (repository.root / "exemptions.toml").write_bytes(EXEMPTIONS.replace("why echo", "why\recho").encode())
    done = repository.run("exemptions", "prune")
    assert done.code == 2
    assert "exemptions.toml:7" in done.stderr


def test_the_mode_stays_and_a_link_is_followed(repository):
    real = repository.root / "shared" / "real.toml"
    real.parent.mkdir()
    (repository.root / "exemptions.toml").rename(real)
    (repository.root / "exemptions.toml").symlink_to("shared/real.toml")
    real.chmod(0o640)
    assert repository.run("exemptions", "prune", *TODAY).code == 0
    assert (repository.root / "exemptions.toml").is_symlink()
    assert text_of(repository, "shared/real.toml") == PRUNED
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [path.name for path in real.parent.iterdir()] == ["real.toml"]


def test_a_file_that_cannot_be_written_is_said_and_stays_whole(repository):
    script = f"ulimit -f 0; exec {shlex.quote(sys.executable)} -P -m harness exemptions prune {' '.join(TODAY)}"
    before = sorted(path.name for path in repository.root.iterdir())
    done = subprocess.run(["bash", "-c", script], cwd=repository.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "exemptions.toml cannot be written: File too large" in done.stderr
    assert text_of(repository) == EXEMPTIONS
    assert sorted(path.name for path in repository.root.iterdir()) == before


def test_entries_of_a_project_that_was_not_named_stay(repository):
    """A file for many repositories, pruned from one of them."""
    one = repository.root / "one"
    one.mkdir()
    for name in ("harness.toml", "suites", "servers", ".rollcall"):
        (repository.root / name).rename(one / name)
    toml = (one / "harness.toml").read_text(encoding="utf-8")
    (one / "harness.toml").write_text('exemptions = "../exemptions.toml"\n' + toml, encoding="utf-8")
    repository.write({"two/harness.toml": toml.replace('"good"', '"god"')})
    assert repository.run("exemptions", "prune", *TODAY, "--project", "one").code == 0
    assert "[god.exercised]" in text_of(repository)
    assert "echo =" not in text_of(repository)
    (repository.root / "exemptions.toml").write_text(EXEMPTIONS, encoding="utf-8")
    shutil.rmtree(repository.root / "two")
    repository.write({"rollout.toml": '[[repository]]\ngit = "https://example.org/x.git"\nref = "main"\n'})
    done = repository.run("exemptions", "prune", *TODAY, "--project", "one")
    assert "[god.exercised]" in text_of(repository)
    assert "rollout.toml lists repositories that are not here" in done.stderr


def test_other_words_behind_prune_are_servers(repository):
    assert repository.run("exemptions", "prune", "nobody").code == 2
    assert repository.run("exemptions", "prune", "good", "--dry-run", *TODAY).code == 0


def test_a_word_that_comes_too_late_is_told(repository):
    done = repository.run("exemptions", "--strict", "prune")
    assert done.code == 2
    assert "write it first" in done.stderr
    assert text_of(repository) == EXEMPTIONS


def test_check_is_what_exemptions_does_without_a_word(repository):
    plain, check = repository.run("exemptions", *TODAY), repository.run("exemptions", "check", *TODAY)
    assert (plain.code, plain.stdout) == (check.code, check.stdout)
    assert plain.code == 1


# --- propose --------------------------------------------------------------------------------------


def test_propose_writes_what_is_missing_and_once_only(repository):
    (repository.root / "exemptions.toml").unlink()
    edit = (repository.root / "suites/all.toml").read_text(encoding="utf-8")
    edit = edit.replace(
        'call = "slow"\narguments = { seconds = 0 }\nexpect = { text_contains = "at last" }', 'call = "nix"'
    )
    edit = edit.replace(
        'call = "echo"', 'call = "nix"\nunlisted = true\nexpect = { is_error = true }\n[[case.step]]\ncall = "add"'
    )
    repository.write({"suites/all.toml": edit})
    shutil.rmtree(repository.root / ".rollcall/evidence")
    assert repository.run("run").code == 0
    done = repository.run("exemptions", "propose")
    assert done.code == 0, done.stderr
    said = dict(line.removeprefix("proposed ").split(" — ") for line in done.stdout.splitlines())
    assert said == {
        "exemptions.toml:4 good exercised echo": "missing",
        "exemptions.toml:5 good exercised fail": "refused-only",
        "exemptions.toml:6 good exercised guarded": "missing",
        "exemptions.toml:7 good exercised slow": "missing",
    }
    text = text_of(repository)
    assert text == 'schema = 1\n\n[good.exercised]\necho = ""\nfail = ""\nguarded = ""\nslow = ""\n'
    assert "proposed 4 exemptions; they are malformed" in done.stderr
    judged = repository.run("judge")
    assert judged.code == 1
    checks = [finding["check"] for finding in judged.report["findings"] if finding["check"].startswith("ex")]
    assert checks.count("exemption/malformed") == 4
    assert "exercised/missing" in checks
    os.utime(repository.root / "exemptions.toml", (1_000_000, 1_000_000))
    again = repository.run("exemptions", "propose")
    assert (again.code, again.stdout) == (0, "")
    assert "its entry is malformed: the reason is empty" in again.stderr
    assert text_of(repository) == text
    assert (repository.root / "exemptions.toml").stat().st_mtime == 1_000_000


def test_a_proposed_entry_with_a_reason_makes_the_build_green(repository):
    repository.write({"exemptions.toml": "schema = 1\n"})
    done = repository.run("exemptions", "propose", "--dry-run")
    assert done.stdout.splitlines()[-3:] == ["+", "+[good.exercised]", '+fail = ""']
    assert text_of(repository) == "schema = 1\n"
    repository.run("exemptions", "propose")
    reason = "it fails on purpose, whatever it is given"
    repository.write({"exemptions.toml": text_of(repository).replace('""', f'"{reason}"')})
    assert repository.run("judge").code == 0


def test_nothing_is_proposed_by_partial_evidence(repository):
    (repository.root / "exemptions.toml").unlink()
    shutil.rmtree(repository.root / ".rollcall/evidence")
    repository.run("run", "--era", "modern")
    done = repository.run("exemptions", "propose")
    assert done.code == 0
    assert "proposed 0" in done.stderr
    assert "not judged: good none handshake" in done.stderr
    assert not (repository.root / "exemptions.toml").exists()


def test_a_failed_only_tool_is_proposed_too(repository):
    suite = (repository.root / "suites/all.toml").read_text(encoding="utf-8")
    repository.write(
        {
            "exemptions.toml": "schema = 1\n",
            "suites/all.toml": suite.replace('text_equals = "Grüße ★"', 'text_equals = "?"'),
        }
    )
    shutil.rmtree(repository.root / ".rollcall/evidence")
    repository.run("run")
    done = repository.run("exemptions", "propose")
    assert "good exercised echo — failed-only" in done.stdout


LACKING_SERVER = """\
import sys
from raw import serve, text, tool
both = tool("join", a="string", b="string")
both["inputSchema"]["required"] = ["a"]
bare = tool("bare")
del bare["outputSchema"]
serve(lambda name, arguments, message: text("done"), tools=[both, bare])
sys.exit(3)
"""
LACKING_TOML = """\
schema = 1
[server]
name = "lacking"
command = ["python3", "${repo}/servers/lacking.py"]
eras = ["handshake"]
[suites]
files = ["s.toml"]
[checks]
parameters = "require"
client = "off"
"""
LACKING_SUITE = """\
schema = 2
id = "s"
[[case]]
id = "c"
[[case.step]]
call = "join"
arguments = { a = "x" }
"""


@pytest.fixture
def lacking(project):
    """A server with a fault for every check that takes an exemption; its exit code is a warning."""
    files = {"harness.toml": LACKING_TOML, "s.toml": LACKING_SUITE, "servers/lacking.py": LACKING_SERVER}
    done = project.with_servers().write(files).run("run")
    assert done.code == 0, done.stderr
    return project


def test_every_check_that_takes_an_exemption_is_proposed(lacking):
    done = lacking.run("exemptions", "propose")
    assert done.code == 0, done.stderr
    assert tomllib.loads(text_of(lacking))["lacking"] == {
        "exercised": {"bare": ""},
        "output-schema": {"bare": ""},
        "parameters": {"join.b": ""},
    }
    said = [line.split(" lacking ")[1] for line in done.stdout.splitlines()]
    assert said == [
        "exercised bare — missing",
        "parameters join.b — parameters/missing",
        "output-schema bare — output-schema/missing",
    ]
    written = text_of(lacking).replace('""', '"this server is wrong on purpose"')
    lacking.write({"exemptions.toml": written})
    judged = lacking.run("judge")
    assert judged.code == 0, judged.stdout
    again = lacking.run("exemptions", "propose")
    assert (again.stdout, again.stderr.splitlines()[-1]) == ("", "proposed 0 exemptions")


def test_a_warning_gets_an_entry_only_where_its_check_is_named(lacking):
    """It fails no run, and an entry without a reason would."""
    assert "left lacking process/bad-exit * — process/bad-exit is a warning" in (
        lacking.run("exemptions", "propose", "--dry-run").stderr
    )
    done = lacking.run("exemptions", "propose", "--check", "process/bad-exit")
    assert done.stdout == "proposed exemptions.toml:4 lacking process/bad-exit * — process/bad-exit\n"
    assert done.stderr == "proposed 1 exemption; it is malformed, and fails, until somebody writes its reason\n"
    assert text_of(lacking) == 'schema = 1\n\n[lacking."process/bad-exit"]\n"*" = ""\n'
    again = lacking.run("exemptions", "propose", "--check", "process/bad-exit")
    assert "its entry is malformed: the reason is empty" in again.stderr
    assert again.stdout == ""


def test_a_check_that_takes_no_exemption_is_not_proposed(lacking):
    done = lacking.run("exemptions", "propose", "--check", "output-schem")
    assert done.code == 2
    assert "--check: 'output-schem' is no check that takes an exemption" in done.stderr
    assert "did you mean 'output-schema'?" in done.stderr
    assert not (lacking.root / "exemptions.toml").exists()


BACKEND = """\
schema = 1
name = "NAME"
[outputs]
url = "NAME"
[process]
command = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "${port.http}"]
ports = ["http"]
ready = { http = "http" }
"""
HALF = """\
import os, runpy, sys
here = os.path.dirname(__file__)
sys.path.insert(0, here)
import raw
whole = raw.text
def text(said, **more):
    return whole(said, **more, **({"isError": True} if said == "at last" and os.environ["WHICH"] == "two" else {}))
raw.text = text
runpy.run_path(os.path.join(here, "good.py"), run_name="__main__")
"""
HALF_TOML = """\
schema = 1
[server]
name = "half"
command = ["python3", "${repo}/servers/half.py"]
env = { WHICH = "${backend.b.url}" }
[backends.b]
use = ["one", "two"]
[suites]
files = ["s.toml"]
[checks]
client = "off"
"""


@pytest.fixture
def two_cells(project):
    """A server whose tool `slow` answers in one of two cells only."""
    add = '[[case]]\nid = "d"\n[[case.step]]\ncall = "add"\narguments = { a = 1, b = 2 }\n'
    files = {"servers/half.py": HALF, "harness.toml": HALF_TOML}
    files["s.toml"] = SUITE.format(call="slow", more="arguments = { seconds = 0 }") + add
    files |= {f"backends/{name}/backend.toml": BACKEND.replace("NAME", name) for name in ("one", "two")}
    done = project.with_servers().write(files).run("run", "--runtime", "process")
    assert done.code == 0, done.stderr
    return project


def test_backends_are_written_where_only_some_cells_need_an_entry(two_cells):
    done = two_cells.run("exemptions", "propose", "half")
    assert done.code == 0, done.stderr
    table = tomllib.loads(text_of(two_cells))["half"]["exercised"]
    assert table.pop("slow") == {"backend": ["two@embedded"], "reason": ""}
    assert table == dict.fromkeys(("ask", "echo", "fail", "guarded"), "")
    assert "slow — failed-only with two@embedded" in done.stdout


def test_an_entry_that_is_false_in_some_cells_only_is_narrowed_by_a_person(two_cells):
    slow, add = 'slow = "the second backend has no clock"', 'add = "nobody could ever call this one"'
    two_cells.write({"exemptions.toml": f"schema = 1\n[half.exercised]\n{slow}\n{add}\n"})
    done = two_cells.run("exemptions", "prune")
    assert done.code == 0
    assert "add" not in text_of(two_cells)
    assert slow in text_of(two_cells)
    assert 'write `backend = ["two@embedded"]`' in done.stderr


def test_a_cell_without_evidence_keeps_what_may_hold_there(two_cells):
    two_cells.write({"exemptions.toml": 'schema = 1\n[half.exercised]\nadd = "nobody could ever call this one"\n'})
    shutil.rmtree(two_cells.root / ".rollcall/evidence/half/two@embedded")
    done = two_cells.run("exemptions", "prune")
    assert "removed 0" in done.stderr
    done = two_cells.run("exemptions", "propose")
    assert '{ backend = ["one@embedded"], reason = "" }' in text_of(two_cells)


# --- list -----------------------------------------------------------------------------------------

LISTED = """\
schema = 1
[good.exercised]
fail = { reason = "it fails on purpose, whatever it is given", owner = "ci-team", expires = 2026-12-20 }
echo = { reason = "nobody could ever call this one", backend = ["a", "b@1"], issue = "https://example.org/1" }

[good.exercised.slow]
reason = "it is far too slow for anybody"
expires = 2026-11-30
owner = "ci-team"

[other."process/orphan"]
"*" = "todo"
"""


@pytest.fixture
def in_git(repository):
    git(repository, "init", "-q")
    repository.write({"exemptions.toml": LISTED.partition("\n[good.exercised.slow]")[0]})
    git(repository, "add", "exemptions.toml")
    git(repository, "commit", "-qm", "one", when="2026-03-01T23:30:00-02:00")
    repository.write({"exemptions.toml": LISTED.partition("\n[other")[0]})
    git(repository, "commit", "-qam", "two", when="2025-06-01T12:00:00Z")
    repository.write({"exemptions.toml": LISTED})
    return repository


def listed(project, *arguments):
    done = project.run("exemptions", "list", "--format", "json", *TODAY, *arguments)
    assert done.code == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, published_list_schema())
    return document


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("age", ["slow", "fail", "echo", "*"]),
        ("owner", ["slow", "fail", "echo", "*"]),
        ("expiry", ["slow", "fail", "echo", "*"]),
        ("check", ["slow", "fail", "echo", "*"]),
    ],
)
def test_the_list_has_ages_by_git_and_an_order(in_git, by, order):
    document = listed(in_git, "--by", by)
    assert [item["subject"] for item in document["entries"]] == order
    facts = {item["subject"]: item for item in document["entries"]}
    assert facts["slow"]["since"] == "2025-06-01"
    assert facts["fail"]["since"] == "2026-03-02"  # the UTC day
    assert facts["fail"]["age_days"] == (dt.date(2026, 12, 1) - dt.date(2026, 3, 2)).days
    assert (facts["*"]["since"], facts["*"]["age_days"]) == ("2026-12-01", 0)  # not committed yet
    assert facts["slow"]["expired"]
    assert not facts["slow"]["expires_soon"]
    assert facts["fail"]["expires_soon"]
    assert facts["fail"]["expires_in_days"] == 19
    assert facts["*"]["problems"]


def test_the_text_marks_what_expires_and_groups_by_owner(in_git):
    done = in_git.run("exemptions", "list", *TODAY)
    assert done.code == 0
    assert done.stdout.splitlines()[0] == (
        "4 exemptions in 1 file, by owner, on 2026-12-01; 2 expired, or will within 30 days"
    )
    assert done.stdout.index("ci-team: 2") < done.stdout.index("nobody: 2")
    marked = [line for line in done.stdout.splitlines() if line.startswith("!")]
    assert [line.split("  ")[0] for line in marked] == ["! exemptions.toml:6", "! exemptions.toml:3"]
    assert "expires 2026-11-30 (1 day ago)" in marked[0]
    fewer = in_git.run("exemptions", "list", "--within", "7", *TODAY).stdout
    assert len([line for line in fewer.splitlines() if line.startswith("!")]) == 1
    assert "it is far too slow for anybody" in fewer
    assert "malformed: the reason is a note" in fewer


def test_without_git_the_ages_are_unknown_and_the_rest_is_listed(repository):
    repository.write({"exemptions.toml": LISTED})
    document = listed(repository, "--by", "age")
    assert {item["since"] for item in document["entries"]} == {None}
    assert "ages are not known" in document["notes"][0]
    assert "age unknown" in repository.run("exemptions", "list").stdout


def test_a_shallow_clone_does_not_make_everything_young(in_git, tmp_path_factory, project):
    git(in_git, "commit", "-qam", "three", when="2026-11-20T12:00:00Z")
    copy = tmp_path_factory.mktemp("shallow") / "copy"
    git(in_git, "clone", "-q", "--depth", "1", f"file://{in_git.root}", str(copy))
    shutil.copy(in_git.root / "harness.toml", copy)
    shutil.copytree(in_git.root / "suites", copy / "suites")
    document = listed(type(project)(copy))
    assert {item["since"] for item in document["entries"]} == {None}
    assert "shallow" in document["notes"][0]


def test_the_list_needs_no_evidence_and_knows_its_servers(repository):
    shutil.rmtree(repository.root / ".rollcall")
    repository.write({"exemptions.toml": LISTED})
    assert [item["server"] for item in listed(repository, "other")["entries"]] == ["other"]
    done = repository.run("exemptions", "list", "goood")
    assert done.code == 2
    assert "did you mean 'good'?" in done.stderr


# --- nox ------------------------------------------------------------------------------------------


def test_the_nox_session_passes_the_word_and_its_arguments_on(repository):
    noxfile = "from harness.sessions import register\n\nregister(default=['good'])\n"
    repository.write({"noxfile.py": noxfile})

    def nox(*arguments):
        command = [sys.executable, "-m", "nox", "-s", "exemptions", "--", *arguments]
        return subprocess.run(
            command, cwd=repository.root, env=repository.environment(), capture_output=True, text=True, timeout=120
        )

    assert nox().returncode == 1  # it judges
    done = nox("list", "--by", "age")
    assert done.returncode == 0
    assert "by age" in done.stdout
    done = nox("prune", "--dry-run", *TODAY)
    assert done.returncode == 0
    assert text_of(repository) == EXEMPTIONS
    assert nox("prune", "--all", *TODAY).returncode == 0
    assert text_of(repository) == PRUNED
    assert nox("propose", "good").returncode == 0
