"""Files are there as a whole or not at all, and what a killed writer left goes with the next write."""

import fcntl
import os
import subprocess
import sys

import pytest

from harness.model.whole import write_whole

DIES = """
import os, sys
from pathlib import Path
Path.replace = lambda *_: os._exit(9)
from harness.model.whole import write_whole
write_whole(Path(sys.argv[1]), b"half")
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def killed(path):
    assert subprocess.run([sys.executable, "-c", DIES, str(path)], check=False).returncode == 9


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "a.json"
    write_whole(path, b"1")
    write_whole(path, b"2")
    assert path.read_bytes() == b"2"
    assert names(tmp_path) == ["a.json"]


def test_what_a_killed_writer_left_goes_with_the_next_write_of_that_file_only(tmp_path):
    path, other = tmp_path / "a[1].json", tmp_path / "b.json"
    for one in (path, path, other):
        killed(one)
    person = tmp_path / ".a[1].json.backup"
    person.write_text("mine", encoding="utf-8")
    assert len(names(tmp_path)) == 3  # the second of `path` has removed the first's
    write_whole(path, b"1")
    assert [name for name in names(tmp_path) if not name.startswith(".b.json.")] == [person.name, path.name]
    assert len(names(tmp_path)) == 3


def test_what_a_living_writer_has_under_way_stays(tmp_path):
    path, theirs = tmp_path / "a.json", tmp_path / ".a.json.0123abcd"
    with theirs.open("xb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        write_whole(path, b"1")
        assert theirs.exists()
    write_whole(path, b"2")
    assert names(tmp_path) == ["a.json"]


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".a.json.0123abcd")
    (tmp_path / ".a.json.aaaaaaaa").symlink_to(tmp_path / "elsewhere")
    write_whole(tmp_path / "a.json", b"1")
    assert (tmp_path / "a.json").read_bytes() == b"1"


def test_one_that_is_removed_before_it_has_its_lock_is_written_again(tmp_path, monkeypatch):
    path, lock, removed = tmp_path / "a.json", fcntl.flock, []

    def meddle(stream, how):
        if not removed:
            removed.append(os.unlink(stream.name))
        lock(stream, how)

    monkeypatch.setattr(fcntl, "flock", meddle)
    write_whole(path, b"1")
    assert removed
    assert names(tmp_path) == ["a.json"]


def test_where_there_are_no_locks_it_is_written_and_nothing_removed(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    (tmp_path / ".a.json.0123abcd").touch()
    write_whole(tmp_path / "a.json", b"1")
    assert names(tmp_path) == [".a.json.0123abcd", "a.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_one_that_cannot_be_written_or_is_interrupted_leaves_the_one_before(tmp_path, monkeypatch, error):
    path = tmp_path / "a.json"
    write_whole(path, b"1")

    def fails(*_):
        raise error

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(type(error)):
        write_whole(path, b"2", keep_mode=True)
    assert path.read_bytes() == b"1"
    assert names(tmp_path) == ["a.json"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "a.json", b"1")


def test_a_file_of_a_persons_keeps_its_mode(tmp_path):
    path = tmp_path / "exemptions.toml"
    path.touch(0o600)
    write_whole(path, b"1", keep_mode=True)
    assert path.stat().st_mode & 0o7777 == 0o600
