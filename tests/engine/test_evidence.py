"""Evidence is written whole, under names that stay apart everywhere, and read back as the plan asks for it. Ours."""

import json
import os
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.evidence import (
    UNFINISHED_KEPT_S,
    Attempt,
    EvidenceLost,
    encode_name,
    newest_attempts,
    read_evidence,
    run_folder,
    runtime_seen,
)
from harness.model.plan import Cell, Plan, ProfileSpec, Run, RunKey
from harness.model.transcript import RunRecord

KEY = RunKey(server="redis-mcp", backend="redis@8", era="modern", profile="plain")


def run(key=KEY, fingerprint="now"):
    return Run(
        key=key,
        roles=(),
        runtime="docker",
        profile=ProfileSpec(name=key.profile),
        eras_probed=False,
        cases=(),
        selected=(),
        fingerprint=fingerprint,
    )


def plan(*runs):
    cell = Cell(server="redis-mcp", backend="redis@8", roles=(), runs=runs)
    return Plan(projects=(), cells=(cell,), exemptions=(), servers=("redis-mcp",))


def record(key=KEY, plan="now", **more):
    return RunRecord(key=key, plan=plan, runtime=more.pop("runtime", "docker"), outcome="finished", **more)


@given(st.text(max_size=40), st.text(max_size=40))
def test_two_names_stay_two_after_casefold_and_normalisation(one, other):
    def stored(name):
        return unicodedata.normalize("NFC", encode_name(name)).casefold()

    assert stored(one) == encode_name(one), "nothing is left to fold or to compose"
    assert (stored(one) == stored(other)) == (one == other)
    assert not any(char in encode_name(one) for char in '/\\:*?"<>|\0 ')
    assert encode_name(one) not in ("", ".", "..")


@pytest.mark.parametrize(
    ("one", "other"), [("Get", "get"), ("straße", "STRASSE"), ("\u00e9", "e\u0301"), ("x" * 300, "x" * 301)]
)
def test_pairs_that_file_systems_confuse_stay_apart(one, other):
    assert encode_name(one) != encode_name(other)
    assert max(len(encode_name(one)), len(encode_name(other))) < 200


def test_plain_names_stay_readable():
    assert encode_name("redis@8+minio@2024.1") == "redis@8+minio@2024.1"
    assert str(run_folder(__import__("pathlib").Path("e"), KEY)) == "e/redis-mcp/redis@8/modern/plain"


def test_a_finished_attempt_is_found_and_comes_back(tmp_path):
    attempt = Attempt.create(tmp_path, KEY)
    attempt.transcript(1).write_text('{"e":"exited","n":1,"t":0.1,"code":0,"asked":true,"ended_by":"stdin-close"}\n')
    attempt.transcript(10).write_text("")
    attempt.transcript(2).write_text('{"e":"received","n":1,"t":0.1,"at":0,"text":"a\u2028b"}\n{"e":"rec')
    attempt.finish(record(cases=("s/c",), errors=({"kind": "server", "message": "m", "hint": "", "log": ""},)))
    (found,) = read_evidence(tmp_path, plan(run())).found
    assert found.record == json_round_trip(record(cases=("s/c",), errors=found.record.errors))
    assert [transcript.name for transcript in found.transcripts] == [
        "server-1.jsonl",
        "server-2.jsonl",
        "server-10.jsonl",
    ]
    assert [transcript.complete for transcript in found.transcripts] == [True, False, False]
    assert found.transcripts[1].events[0].body.text == "a\u2028b"
    assert found.folder == str(attempt.folder)


def json_round_trip(value):
    from harness.model.transcript import record_from_json, record_to_json

    return record_from_json(json.loads(json.dumps(record_to_json(value))))


def test_the_newest_finished_attempt_of_the_present_plan_counts(tmp_path):
    for fingerprint, build in (("now", "1"), ("now", "2"), ("before", "3")):
        Attempt.create(tmp_path, KEY).finish(record(plan=fingerprint, build=build))
    Attempt.create(tmp_path, KEY)  # still running, or killed
    assert [item.record.build for item in read_evidence(tmp_path, plan(run())).found] == ["2"]


def test_what_is_missing_and_what_is_outdated_are_told_apart(tmp_path):
    other = RunKey(server="redis-mcp", backend="redis@8", era="handshake", profile="plain")
    Attempt.create(tmp_path, KEY).finish(record(plan="before"))
    seen = read_evidence(tmp_path, plan(run(), run(other)))
    assert (seen.found, seen.missing, seen.outdated) == ((), (other,), (KEY,))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', "not json"])
def test_a_record_that_cannot_be_read_counts_as_not_there(tmp_path, text):
    attempt = Attempt.create(tmp_path, KEY)
    attempt.finish(record())
    (attempt.folder / "run.json").write_text(text)
    assert read_evidence(tmp_path, plan(run())).missing == (KEY,)


def test_attempts_are_nobody_elses_and_nothing_half_written_stays(tmp_path):
    attempts = [Attempt.create(tmp_path, KEY) for _ in range(20)]
    assert len({attempt.folder for attempt in attempts}) == 20
    attempts[0].finish(record())
    assert sorted(path.name for path in attempts[0].folder.iterdir()) == ["done", "run.json"]


def test_logs_lie_beside_under_safe_names(tmp_path):
    attempt = Attempt.create(tmp_path, KEY)
    attempt.write_logs({"../x": b"1", "redis@8": b"2"})
    assert {path.name: path.read_bytes() for path in (attempt.folder / "logs").iterdir()} == {
        "%2e.%2fx.log": b"1",
        "redis@8.log": b"2",
    }


CHURN = """
import os, shutil, sys
while os.path.isdir(sys.argv[1]):
    for number in range(20):
        os.makedirs(f"{sys.argv[1]}/others/{number}/x/y", exist_ok=True)
    shutil.rmtree(sys.argv[1] + "/others")
"""


def test_folders_that_go_while_evidence_is_looked_for_are_passed_over(tmp_path):
    """Another run may be clearing up in the same folder."""
    with subprocess.Popen([sys.executable, "-c", CHURN, str(tmp_path)]) as other:
        try:
            while not (tmp_path / "others").exists():
                assert other.poll() is None
            assert [newest_attempts(tmp_path) for _ in range(1000)] == [[]] * 1000
        finally:
            other.kill()


def test_the_runtime_of_the_newest_attempt_is_told(tmp_path):
    assert runtime_seen(tmp_path, "redis-mcp") is None
    Attempt.create(tmp_path, KEY).finish(record(runtime="docker"))
    Attempt.create(tmp_path, KEY).finish(record(runtime="process"))
    assert runtime_seen(tmp_path, "redis-mcp") == "process"
    assert runtime_seen(tmp_path, "other") is None


def test_old_attempts_are_removed_and_unfinished_ones_are_left(tmp_path):
    """Evidence of every run for ever would fill the disk."""
    from harness.engine.evidence import KEPT_ATTEMPTS, Attempt, run_folder
    from harness.model.plan import RunKey
    from harness.model.transcript import RunRecord

    key = RunKey(server="s", backend="none", era="modern", profile="plain")
    unfinished = Attempt.create(tmp_path, key)
    for _ in range(KEPT_ATTEMPTS + 3):
        Attempt.create(tmp_path, key).finish(RunRecord(key=key, plan="f", runtime=None, outcome="finished"))
    left = sorted(path.name for path in run_folder(tmp_path, key).iterdir())
    assert len(left) == KEPT_ATTEMPTS + 1
    assert unfinished.folder.name in left


def test_an_attempt_of_fewer_cases_never_stands_before_a_whole_one(tmp_path):
    """Else `integration -k one` after a red run would make `judge` green."""
    from harness.engine.evidence import Attempt, read_evidence
    from harness.model.plan import CaseSpec, Cell, Place, Plan, ProfileSpec, Run, RunKey
    from harness.model.transcript import RunRecord

    key = RunKey(server="s", backend="none", era="modern", profile="plain")
    place = Place(file="s.toml")
    cases = tuple(("s", CaseSpec(id=name, steps=(), place=place)) for name in ("one", "two"))
    run = Run(
        key=key, roles=(), runtime=None, profile=ProfileSpec(name="plain"), eras_probed=False, cases=cases,
        selected=("s/one", "s/two"), fingerprint="f",
    )  # fmt: skip
    plan = Plan(
        projects=(), cells=(Cell(server="s", backend="none", roles=(), runs=(run,)),), exemptions=(), servers=("s",)
    )
    whole = Attempt.create(tmp_path, key)
    whole.finish(RunRecord(key=key, plan="f", runtime=None, outcome="finished", cases=("s/one", "s/two")))
    part = Attempt.create(tmp_path, key)
    part.finish(RunRecord(key=key, plan="f", runtime=None, outcome="finished", cases=("s/one",)))
    assert read_evidence(tmp_path, plan).found[0].folder == str(whole.folder)
    assert read_evidence(tmp_path, plan, chosen={key: part.folder}).found[0].folder == str(part.folder)


def test_a_failed_attempt_is_not_passed_over_for_an_older_good_one(tmp_path):
    """`judge` after a failed build must not say clean."""
    from harness.engine.evidence import Attempt, read_evidence
    from harness.model.plan import CaseSpec, Cell, Place, Plan, ProfileSpec, Run, RunKey
    from harness.model.transcript import RunRecord

    key = RunKey(server="s", backend="none", era="modern", profile="plain")
    cases = (("s", CaseSpec(id="one", steps=(), place=Place(file="s.toml"))),)
    run = Run(
        key=key, roles=(), runtime=None, profile=ProfileSpec(name="plain"), eras_probed=False, cases=cases,
        selected=("s/one",), fingerprint="f",
    )  # fmt: skip
    plan = Plan(
        projects=(), cells=(Cell(server="s", backend="none", roles=(), runs=(run,)),), exemptions=(), servers=("s",)
    )
    Attempt.create(tmp_path, key).finish(
        RunRecord(key=key, plan="f", runtime=None, outcome="finished", cases=("s/one",))
    )
    failed = Attempt.create(tmp_path, key)
    failed.finish(RunRecord(key=key, plan="f", runtime=None, outcome="failed"))
    assert read_evidence(tmp_path, plan).found[0].folder == str(failed.folder)


def test_what_a_killed_run_has_left_is_kept_for_a_day(tmp_path):
    old, fresh = (Attempt.create(tmp_path, KEY) for _ in range(2))
    for attempt in (old, fresh):
        attempt.transcript(1).write_bytes(b"{}")
    before = time.time() - UNFINISHED_KEPT_S - 60
    os.utime(old.transcript(1), (before, before))
    for item in (*old.folder.iterdir(), old.folder):
        os.utime(item, (before, before))
    done = Attempt.create(tmp_path, KEY)
    done.finish(record())
    assert set(run_folder(tmp_path, KEY).iterdir()) == {fresh.folder, done.folder}


def test_what_a_process_of_this_host_left_that_is_gone_is_removed_by_the_next_run(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from harness.engine.evidence import Attempt; "
        "from harness.model.plan import RunKey; server, backend, era, profile = sys.argv[2:]; "
        "key = RunKey(server=server, backend=backend, era=era, profile=profile); "
        "attempt = Attempt.create(Path(sys.argv[1]), key); "
        "attempt.transcript(1).write_bytes(b'{}'); os.kill(os.getpid(), 9)"
    )
    key = (KEY.server, KEY.backend, KEY.era, KEY.profile)
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path), *key], check=False).returncode == -9
    living, done = Attempt.create(tmp_path, KEY), Attempt.create(tmp_path, KEY)
    assert len(list(run_folder(tmp_path, KEY).iterdir())) == 3
    done.finish(record())
    assert set(run_folder(tmp_path, KEY).iterdir()) == {living.folder, done.folder}
    assert {path.name for path in done.folder.iterdir()} == {"run.json", "done"}


def test_a_clock_that_was_set_back_makes_no_new_attempt_an_old_one(tmp_path):
    ahead = run_folder(tmp_path, KEY) / "29990101T000000.000000-aaaaaaaa"
    ahead.mkdir(parents=True)
    first, second = Attempt.create(tmp_path, KEY), Attempt.create(tmp_path, KEY)
    assert ahead.name < first.folder.name < second.folder.name


def test_an_attempt_that_cannot_be_made_is_an_error_with_folder_cause_and_remedy(tmp_path):
    run_folder(tmp_path, KEY).parents[2].touch()
    with pytest.raises(EvidenceLost, match="cannot be written: Not a directory") as caught:
        Attempt.create(tmp_path, KEY)
    assert "--evidence" in caught.value.hint
