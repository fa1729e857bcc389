"""rollout.toml, read; and the list in parts. Ours."""

import dataclasses
from typing import Any

import pytest

from harness.config.rollout import default_name, read_rollout
from harness.errors import ConfigError
from harness.model.rollout import RepositoryRecord, key_of, repository_from_json, repository_to_json
from harness.rollout import shards


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"path": "examples/one"}, "one"),
        ({"path": "../one/"}, "one"),
        ({"path": "."}, "."),
        ({"path": "mono", "subdir": "servers/a/"}, "mono/servers/a"),
        ({"git": "https://example.org/team/two.git"}, "two"),
        ({"git": "git@example.org:team/three.git", "subdir": "."}, "three"),
        ({"git": "host:four"}, "four"),
        ({"path": "with blank, and comma"}, "with-blank--and-comma"),
    ],
)
def test_an_entry_without_a_name_has_that_of_its_folder(entry, name):
    assert default_name(entry) == name


def test_what_the_defaults_say_holds_where_an_entry_says_nothing(tmp_path):
    (tmp_path / "kept.toml").write_text("")
    (tmp_path / "other.toml").write_text("")
    (tmp_path / "rollout.toml").write_text(
        'schema = 1\njobs = 3\n[defaults]\nref = "main"\ntags = ["all"]\ntimeout_s = 60\nharness = "kept.toml"\n'
        '[[repository]]\npath = "one"\n'
        '[[repository]]\ngit = "../two"\nref = "v1"\ntags = ["all", "two"]\ntimeout_s = 5\nharness = "other.toml"\n'
        '[[repository]]\ngit = "https://example.org/three.git"\nsubdir = "a"\n'
    )
    spec = read_rollout(tmp_path)
    one, two, three = spec.repositories
    assert (spec.jobs, spec.exemptions) == (3, None)
    assert (one.path, one.ref, one.tags, one.timeout_s) == (tmp_path / "one", "", ("all",), 60)
    assert (two.git, two.ref, two.tags, two.timeout_s) == (str(tmp_path / ".." / "two"), "v1", ("all", "two"), 5)
    assert (one.harness, two.harness) == (tmp_path / "kept.toml", tmp_path / "other.toml")
    assert (three.git, three.ref, three.name) == ("https://example.org/three.git", "main", "three/a")
    assert three.source == "https://example.org/three.git@main a"
    (tmp_path / "exemptions.toml").write_text("schema = 1\n")
    assert read_rollout(tmp_path / "rollout.toml").exemptions == tmp_path / "exemptions.toml"


def test_no_password_of_a_url_comes_into_a_report(tmp_path):
    (tmp_path / "rollout.toml").write_text('schema = 1\n[[repository]]\ngit = "https://me:secret@example.org/a.git"\n')
    (item,) = read_rollout(tmp_path).repositories
    assert item.git == "https://me:secret@example.org/a.git"
    assert item.source == "https://…@example.org/a.git"


def test_a_list_that_is_not_there_is_said_with_the_option_that_names_one(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read_rollout(tmp_path)
    assert "--list" in caught.value.hint


def test_parts_take_equally_long_and_hold_everything_once(tmp_path):
    entries = "".join(f'[[repository]]\npath = "r{number}"\n' for number in range(7))
    (tmp_path / "rollout.toml").write_text(f"schema = 1\n{entries}")
    items = read_rollout(tmp_path).repositories
    known = {"r0": 100.0, "r1": 10.0, "r2": 10.0, "r3": 40.0}
    parts = shards(items, 3, known)
    assert sorted(item.name for part in parts for item in part) == [item.name for item in items]
    assert [item.name for item in parts[0]] == ["r0"]  # what has never run counts as 40, the mean
    assert sorted(map(len, shards(items, 3, {}))) == [2, 2, 3]
    assert [len(part) for part in shards(items[:1], 3, {})] == [1, 0, 0]


def test_a_record_is_read_back_as_it_was_written_and_what_is_none_is_refused():
    key = key_of(["s", "redis@8", "modern", "plain"])
    record = RepositoryRecord(
        name="r",
        state="timed-out",
        why="it took long",
        commit="a" * 40,
        server="s",
        errors=({"kind": "stack", "message": "m"},),
        not_run={key: "why"},
        attempts={dataclasses.replace(key, era="handshake"): "s/redis@8/handshake/plain/1"},
        notes=("n",),
    )
    assert repository_from_json(repository_to_json(record)) == record
    good = repository_to_json(record)
    odd: list[dict[str, Any]] = [{"state": "odd"}, {"errors": 5}, {"notes": None}, {"not_run": [{}]}]
    odd += [{"commit": "main"}, {"commit": "--upload-pack=x"}]
    run = good["attempts"][0]["run"]
    odd += [
        {"attempts": [{"run": run, "folder": folder}]} for folder in ("", "/etc", "a/../../b", "..", "//x", 5 * "../")
    ]
    for bad in (None, [], {}, {"schema": 2}, *({**good, **item} for item in odd)):
        with pytest.raises(ValueError):
            repository_from_json(bad)
    with pytest.raises(ValueError, match="no run"):
        key_of(["s", "b", "ancient", "p"])
