"""Checkouts of real repositories on this disk, by the real git."""

import os
import subprocess
from pathlib import Path

import anyio
import pytest

from harness.engine.git import cached, check_out, git_environment
from harness.errors import BuildError, NothingSelected

WHO = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *arguments], cwd=folder, env=git_environment(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "file.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path) -> Path:
    """A repository of three commits: the tag `v1` on the first, the branch `-odd` on the second, main on the third."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "one")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    commit(folder, "two")
    git(folder, "update-ref", "refs/heads/-odd", "HEAD")
    commit(folder, "three")
    return folder


def checked_out(origin: Path, ref: str, cache: Path):
    return anyio.run(lambda: check_out(f"file://{origin}", ref, cache=cache))


@pytest.mark.parametrize(
    ("ref", "text"),
    [("", "three"), ("main", "three"), ("v1", "one"), ("-odd", "two"), ("refs/tags/v1", "one")],
    ids=["head", "branch", "tag", "branch-that-begins-with-a-dash", "full-name"],
)
def test_a_ref_is_checked_out_without_its_history(origin, tmp_path, ref, text):
    found = checked_out(origin, ref, tmp_path / "cache")
    assert (found.folder / "file.txt").read_text() == text
    assert git(found.folder, "rev-parse", "--is-shallow-repository") == "true"
    assert cached(f"file://{origin}", ref, cache=tmp_path / "cache") == found


def test_a_commit_is_checked_out_by_its_whole_and_its_short_number(origin, tmp_path):
    number = git(origin, "rev-parse", "main~1")
    for ref in (number, number[:9]):
        found = checked_out(origin, ref, tmp_path / ref)
        assert found.commit == number
        assert (found.folder / "file.txt").read_text() == "two"


def test_what_is_there_is_not_fetched_again_and_a_moved_branch_is(origin, tmp_path):
    cache = tmp_path / "cache"
    first = checked_out(origin, "main", cache)
    (first.folder / "built.txt").write_text("of a build")
    again = checked_out(origin, "main", cache)
    assert again == first
    assert (again.folder / "built.txt").exists()
    commit(origin, "four")
    moved = checked_out(origin, "main", cache)
    assert moved.commit != first.commit
    assert (moved.folder / "file.txt").read_text() == "four"
    assert (first.folder / "file.txt").read_text() == "three"


def test_a_commit_that_is_there_needs_no_remote(origin, tmp_path):
    cache = tmp_path / "cache"
    first = checked_out(origin, "main", cache)
    origin.rename(tmp_path / "gone")
    assert checked_out(origin, first.commit, cache) == first
    with pytest.raises(BuildError, match="cannot be checked out"):
        checked_out(origin, "main", cache)


def test_what_a_run_changed_of_the_files_is_taken_back(origin, tmp_path):
    first = checked_out(origin, "main", tmp_path / "cache")
    (first.folder / "file.txt").write_text("changed by a server")
    checked_out(origin, "main", tmp_path / "cache")
    assert (first.folder / "file.txt").read_text() == "three"


def test_a_ref_that_is_not_there_is_said_with_the_nearest(origin, tmp_path):
    with pytest.raises(BuildError, match="has no branch, tag or commit 'mian'") as caught:
        checked_out(origin, "mian", tmp_path / "cache")
    assert caught.value.hint == "did you mean 'main'?"
    with pytest.raises(BuildError, match="has no branch, tag or commit 'abcdef123'"):
        checked_out(origin, "abcdef123", tmp_path / "cache")


def test_a_branch_and_a_tag_of_one_name_are_told_apart_by_the_user(origin, tmp_path):
    git(origin, "update-ref", "refs/heads/v1", "main")
    with pytest.raises(BuildError, match="both a branch and a tag") as caught:
        checked_out(origin, "v1", tmp_path / "cache")
    assert 'ref = "refs/heads/v1"' in caught.value.hint
    assert (checked_out(origin, "refs/heads/v1", tmp_path / "cache").folder / "file.txt").read_text() == "three"


def test_a_repository_without_a_commit_is_nothing_to_run(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    git(folder, "init", "-q")
    with pytest.raises(NothingSelected, match="has no commit"):
        checked_out(folder, "", tmp_path / "cache")


def test_what_cannot_be_fetched_is_said_without_user_and_password(tmp_path):
    with pytest.raises(BuildError) as caught:
        anyio.run(lambda: check_out(f"file://user:secret@{tmp_path}/nowhere", "main", cache=tmp_path / "cache"))
    assert "secret" not in caught.value.message + caught.value.log + caught.value.hint
    assert not list((tmp_path / "cache").rglob(".new-*"))


def test_the_repository_that_the_caller_stands_in_is_not_meant(origin, tmp_path, monkeypatch):
    """In a git hook GIT_DIR and kin are set."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    before = commit(other, "not meant")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    found = checked_out(origin, "main", tmp_path / "cache")
    assert (found.folder / "file.txt").read_text() == "three"
    assert (other / "file.txt").read_text() == "not meant"
    assert git(other, "rev-parse", "HEAD") == before
