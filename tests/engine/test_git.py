"""Checkouts of real repositories on this disk, by the real git."""

import os
import socket
import subprocess
import sys
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


# --- submodules, and remotes that say nothing ------------------------------------------------------------


@pytest.fixture
def nested(tmp_path) -> tuple[Path, str]:
    """A repository with a submodule that has one; both are relative, the outer is behind its branch. Their parent."""
    for name in ("inner", "middle", "outer"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
        commit(tmp_path / name, f"{name} first")
    allowed = ("-c", "protocol.file.allow=always")
    for name, sub in (("middle", "inner"), ("outer", "middle")):
        git(tmp_path / name, *allowed, "submodule", "add", "-q", str(tmp_path / sub), "deps/sub")
        git(tmp_path / name, "config", "-f", ".gitmodules", "submodule.deps/sub.url", f"../{sub}")
        git(tmp_path / name, "commit", "-q", "-a", "-m", "a submodule")
    commit(tmp_path / "middle", "middle later")
    return tmp_path


@pytest.mark.parametrize("version", ["2", "0"], ids=["by number", "a server that gives no commit by its number"])
def test_submodules_come_too_and_theirs_at_the_commits_that_are_named(nested, version, monkeypatch):
    for name, value in (("COUNT", "1"), ("KEY_0", "protocol.version"), ("VALUE_0", version)):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    cache = nested / "cache"
    found = checked_out(nested / "outer", "main", cache)
    assert (found.folder / "deps/sub/file.txt").read_text() == "middle first"
    deepest = found.folder / "deps/sub/deps/sub/file.txt"
    assert deepest.read_text() == "inner first"
    assert git(found.folder, "status", "--porcelain") == ""
    deepest.write_text("changed by a server")
    for name in ("inner", "middle", "outer"):
        (nested / name).rename(nested / f"gone-{name}")
    assert checked_out(nested / "outer", found.commit, cache) == found
    assert deepest.read_text() == "inner first"


def test_submodules_that_are_not_wanted_stay_away_until_they_are(nested):
    cache = nested / "cache"
    url = f"file://{nested / 'outer'}"
    first = anyio.run(lambda: check_out(url, "main", cache=cache, submodules=False))
    assert list((first.folder / "deps/sub").iterdir()) == []
    (nested / "inner").rename(nested / "gone")
    with pytest.raises(BuildError, match=r"git submodule failed: .*inner") as caught:
        checked_out(nested / "outer", "main", cache)
    assert "submodules = false" in caught.value.hint
    with pytest.raises(BuildError, match="git submodule failed"):
        checked_out(nested / "outer", "main", nested / "fresh")
    assert cached(url, "main", cache=nested / "fresh") is None  # half of it is nothing
    (nested / "gone").rename(nested / "inner")
    assert checked_out(nested / "outer", "main", cache) == first
    assert (first.folder / "deps/sub/deps/sub/file.txt").exists()


def test_many_at_once_fetch_one_repository_once(origin, tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))

    async def all_of_them():
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(lambda: check_out(f"file://{origin}", "main", cache=tmp_path / "cache"))

    anyio.run(all_of_them)
    assert trace.read_text().count("built-in: git fetch ") == 1


def test_a_remote_that_takes_the_connection_and_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_HTTP_LOW_SPEED_TIME", "1")
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.git"
        with pytest.raises(BuildError, match=r"git ls-remote failed: unable to access .*Operation too slow"):
            anyio.run(lambda: check_out(url, "main", cache=tmp_path))


def test_no_fetch_waits_for_a_dead_host_unless_the_caller_says_how_long():
    ours = git_environment({})
    assert (ours["GIT_HTTP_LOW_SPEED_LIMIT"], ours["GIT_HTTP_LOW_SPEED_TIME"]) == ("1", "60")
    assert "-oBatchMode=yes -oConnectTimeout=60" in ours["GIT_SSH_COMMAND"]
    assert git_environment({"GIT_SSH_COMMAND": "mine"})["GIT_SSH_COMMAND"] == "mine"
    assert "GIT_SSH_COMMAND" not in git_environment({"GIT_SSH": "mine"})


@pytest.mark.parametrize("own", [False, True])
def test_the_users_own_ssh_command_is_the_one_that_is_taken(tmp_path, own):
    """An environment of ours must not win over the user's settings."""
    for name in ("configured", "ssh"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho fatal: {name} was called >&2\nexit 255\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f'[core]\nsshCommand = "{tmp_path}/configured"\n' if own else "")
    code = (
        "import anyio, sys; from pathlib import Path; from harness.engine.git import check_out\n"
        "anyio.run(lambda: check_out('git@127.0.0.1:x.git', 'main', cache=Path(sys.argv[1])))"
    )
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for name in ("GIT_SSH", "GIT_SSH_COMMAND", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        env.pop(name, None)
    done = subprocess.run([sys.executable, "-c", code, tmp_path], env=env, capture_output=True, text=True)
    assert f"git ls-remote failed: {'configured' if own else 'ssh'} was called" in done.stderr
