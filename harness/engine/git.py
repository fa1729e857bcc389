"""Checkouts of other people's repositories by the user's own git, shallow, one folder for each commit.

`<cache>/<name>-<hash of the URL>/<commit>/` is a working tree that is there as a whole, with its submodules, or not at
all; what a ref meant when it was last asked for is beside it in refs.json. Whoever needs the same repository at the
same time, in this process or another, waits and takes what is there then. Variables of the caller that say which
repository is meant (GIT_DIR and kin) are dropped; what says how to reach one (credentials, proxies, the user's
settings) is kept.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex

import anyio

from harness.errors import BuildError, NothingSelected
from harness.model.regular import read_json
from harness.model.whole import write_whole

__all__ = ["FETCH_TIMEOUT_S", "Checkout", "cached", "check_out", "git_environment"]

FETCH_TIMEOUT_S = 600.0
STALL_S = 60  # without a byte from an HTTP server; ssh gives up as soon
LOG_LINES = 20
REFS_FILE = "refs.json"
LOCK_FILE = ".lock"
LOOK_EVERY_S = 0.2
ALL_OF_IT = 2**31 - 1  # depth that git takes for "no end"
# what `git rev-parse --local-env-vars` lists, but for GIT_CONFIG_*: these may hold how to log in
LOCAL = frozenset(
    f"GIT_{name}"
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES",
        "CEILING_DIRECTORIES",
        "COMMON_DIR",
        "DIR",
        "DISCOVERY_ACROSS_FILESYSTEM",
        "GRAFT_FILE",
        "IMPLICIT_WORK_TREE",
        "INDEX_FILE",
        "INDEX_VERSION",
        "INTERNAL_SUPER_PREFIX",
        "NAMESPACE",
        "NO_REPLACE_OBJECTS",
        "OBJECT_DIRECTORY",
        "PREFIX",
        "QUARANTINE_PATH",
        "REPLACE_REF_BASE",
        "SHALLOW_FILE",
        "TEMPLATE_DIR",
        "WORK_TREE",
    )
)

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_SHORT = re.compile(r"[0-9a-f]{4,64}\Z")
_USER = re.compile(r"(://)[^/@\s]+@")
_ELSEWHERE = re.compile(r"(?!file://)[A-Za-z][A-Za-z0-9+.-]*://|[^/]+:(?!//)")  # a URL, or host:path as ssh has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A working tree, and the commit that is in it."""

    folder: Path
    commit: str


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment for git on another repository: nobody is asked, no dead host waited for; in English."""
    patience = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": str(STALL_S)}
    if "GIT_SSH" not in env:
        alive = f"-oConnectTimeout={STALL_S} -oServerAliveInterval={STALL_S // 4}"
        patience["GIT_SSH_COMMAND"] = f"ssh -oBatchMode=yes {alive}"
    kept = {name: value for name, value in env.items() if name not in LOCAL}
    return {**patience, **kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ADVICE": "0", "GIT_PAGER": "cat"}


def cached(url: str, ref: str, *, cache: Path, commit: str = "") -> Checkout | None:
    """The checkout that is there already, of a commit or of what a ref last was; nothing is asked of anybody."""
    home = _home(cache, url)
    wanted = commit or (ref if _COMMIT.match(ref) else _refs(home).get(ref, ""))
    if not _COMMIT.match(wanted) or not (home / wanted).is_dir():
        return None
    return Checkout(folder=home / wanted, commit=wanted)


async def check_out(url: str, ref: str, *, cache: Path, submodules: bool = True) -> Checkout:
    """The working tree of what a ref is now; fetched only where its commit is not there yet.

    Args:
        url: As git takes it.
        ref: Branch, tag, full name of a ref, or commit; "" is the remote's HEAD.
        submodules: Whether its submodules come too, and theirs.
    Raises:
        BuildError: git is not there, cannot fetch it in FETCH_TIMEOUT_S, or there is no such ref.
        NothingSelected: The repository has no commit.
    """
    home = _home(cache, url)
    if _COMMIT.match(ref) and (found := cached(url, ref, cache=cache)) is not None:
        async with _alone(home):
            await _restore(found, url, submodules=submodules)
        return found
    home.mkdir(parents=True, exist_ok=True)
    name, commit = await _resolved(url, ref, home)
    async with _alone(home):
        if commit and (home / commit).is_dir():
            found = Checkout(folder=home / commit, commit=commit)
            await _restore(found, url, submodules=submodules)
        else:
            found = await _fetched(url, ref, name or commit, home, submodules=submodules)
        with suppress(OSError):
            write_whole(home / REFS_FILE, json.dumps({**_refs(home), ref: found.commit}, indent=1).encode())
    return found


@asynccontextmanager
async def _alone(home: Path) -> AsyncIterator[None]:
    """One at a time at the checkouts of one repository; each thing that is done there is bounded."""
    with (home / LOCK_FILE).open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(LOOK_EVERY_S)
        yield


def _home(cache: Path, url: str) -> Path:
    stem = re.split(r"[/:\\]", url.rstrip("/\\"))[-1].removesuffix(".git")
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", stem)[:60] or "repository"
    return cache / f"{stem}-{hashlib.sha256(url.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def _refs(home: Path) -> dict[str, str]:
    try:
        data = read_json(home / REFS_FILE)
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in data.items()} if isinstance(data, dict) else {}


async def _resolved(url: str, ref: str, home: Path) -> tuple[str, str]:
    """The full name of a ref of the remote and its commit; "" and what was asked for where it is no name of one."""
    names = [ref] if ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"] if ref else ["HEAD"]
    patterns = [*names, *(f"{name}^{{}}" for name in names)]
    listed = _listed(await _ask(url, home, "ls-remote", "--", url, *patterns))
    found = {name: listed.get(f"{name}^{{}}") or listed[name] for name in names if name in listed}
    if len(set(found.values())) > 1:
        raise BuildError(
            f"{_shown(url)}: both a branch and a tag are named {ref!r}",
            hint=f'write ref = "refs/heads/{ref}" or "refs/tags/{ref}"',
        )
    if found:
        name = next(iter(found))
        return name, found[name]
    if _SHORT.match(ref):
        return "", ref
    listed = _listed(await _ask(url, home, "ls-remote", "--", url))
    if not listed:
        raise NothingSelected(f"nothing to run: {_shown(url)} has no commit", hint="push one, or take it off the list")
    known = sorted({re.sub(r"^refs/(heads|tags)/", "", name).removesuffix("^{}") for name in listed} - {"HEAD"})
    near = difflib.get_close_matches(ref, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:10])}"
    raise BuildError(f"{_shown(url)} has no branch, tag or commit {ref or 'HEAD'!r}", hint=hint)


def _listed(text: bytes) -> dict[str, str]:
    rows = (row.partition("\t") for row in text.decode("utf-8", "replace").splitlines())
    return {name: commit for commit, tab, name in rows if tab}


async def _fetched(url: str, ref: str, what: str, home: Path, *, submodules: bool) -> Checkout:
    """A new working tree: in a folder of its own first, so that nobody ever sees half of one."""
    fresh = home / f".new-{token_hex(6)}"
    try:
        await _ask(url, home, "init", "-q", "--template=", str(fresh))
        full = what.startswith("refs/") or what == "HEAD" or _COMMIT.match(what)
        shallow = ("fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url)
        got = full and await _try(url, fresh, *shallow, what)
        if got:
            commit = (await _ask(url, fresh, "rev-parse", "FETCH_HEAD^{commit}")).decode().strip()
        elif what.startswith("refs/") or what == "HEAD":
            raise await _failed(url, fresh, *shallow, what)
        else:  # an abbreviated commit, or a server that gives none by its number: all of it then
            everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
            await _ask(url, fresh, "fetch", "-q", "--no-recurse-submodules", "--", url, *everything)
            found, out, _ = await _git(fresh, "rev-parse", "--verify", "-q", "--end-of-options", f"{what}^{{commit}}")
            if found != 0:
                raise BuildError(f"{_shown(url)} has no branch, tag or commit {ref!r}", hint="push it, or name another")
            commit = out.decode().strip()
        target = home / commit
        if target.is_dir():  # an abbreviated commit, or a branch that moved back
            there = Checkout(folder=target, commit=commit)
            await _restore(there, url, submodules=submodules)
            return there
        await _ask(url, fresh, "checkout", "-q", "--force", "--detach", commit)
        if submodules:
            await _submodules(url, fresh)
        fresh.rename(target)
        return Checkout(folder=target, commit=commit)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


async def _restore(found: Checkout, url: str, *, submodules: bool) -> None:
    """What a run may have changed of the committed files is taken back; submodules that are not there are fetched."""
    changed, _, _ = await _git(found.folder, "diff", "--quiet", "HEAD", "--")
    if changed:
        await _ask(url, found.folder, "checkout", "-q", "--force", "--detach", found.commit)
    if submodules:
        await _submodules(url, found.folder, *(["--force"] if changed else []))


async def _submodules(url: str, folder: Path, *more: str) -> None:
    """The commits that a working tree names of other repositories, without their history where the server allows it."""
    if not (folder / ".gitmodules").is_file():
        return
    # ../other is relative to this, and git allows submodules from this disk only where the repository itself is
    await _ask(url, folder, "config", "remote.origin.url", url)
    local = () if _ELSEWHERE.match(url) else ("-c", "protocol.file.allow=always")
    words = ("submodule", "update", "-q", "--init", "--recursive", *more)
    code, _, error = await _git(folder, *local, *words, "--depth=1")
    if code:  # a server that gives no commit by its number
        code, _, _ = await _git(folder, *local, *words, f"--depth={ALL_OF_IT}")
    if code:
        raise _error(url, "submodule", error.replace(bytes(folder), b"."), SUBMODULE_HINT)


# --- git --------------------------------------------------------------------------------------------


async def _try(url: str, folder: Path, *arguments: str) -> bool:
    del url
    return (await _git(folder, *arguments))[0] == 0


async def _ask(url: str, folder: Path, *arguments: str) -> bytes:
    code, out, error = await _git(folder, *arguments)
    if code != 0:
        raise _error(url, arguments[0], error)
    return out


async def _failed(url: str, folder: Path, *arguments: str) -> BuildError:
    _, _, error = await _git(folder, *arguments)
    return _error(url, arguments[0], error)


FETCH_HINT = "git must be able to fetch it without asking anybody: look at the URL, the network and the credentials"
SUBMODULE_HINT = f"{FETCH_HINT}; or write submodules = false in its entry, if the server needs none of them"


def _error(url: str, what: str, stderr: bytes, hint: str = FETCH_HINT) -> BuildError:
    lines = _shown(stderr.decode("utf-8", "replace")).strip().splitlines()
    said = next((line.partition(": ")[2] for line in lines if line.startswith(("fatal:", "error:"))), "")
    return BuildError(
        f"{_shown(url)} cannot be checked out: git {what} failed{': ' + said if said else ''}",
        hint=hint,
        log="\n".join(lines[-LOG_LINES:]),
    )


def _shown(text: str) -> str:
    """Without user and password of URLs."""
    return _USER.sub(r"\1…@", text)


def _environment() -> dict[str, str]:
    env = git_environment(os.environ)
    if "GIT_SSH_COMMAND" not in os.environ and _has_own_ssh():
        del env["GIT_SSH_COMMAND"]  # it would win over the user's settings
    return env


@cache
def _has_own_ssh() -> bool:
    asked = subprocess.run(["git", "config", "--get", "core.sshCommand"], env=git_environment(os.environ), stdout=-3)
    return asked.returncode == 0


async def _git(folder: Path, *arguments: str) -> tuple[int, bytes, bytes]:
    """One command of git's: exit code, stdout and stderr. It is ended with its whole group when it takes too long."""
    try:
        process = await anyio.open_process(
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *arguments],
            cwd=folder,
            env=_environment(),
            stdin=-3,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise BuildError("there is no git on PATH, and the list names git repositories", hint="install git") from None
    out: dict[str, bytes] = {"out": b"", "err": b""}

    async def drain(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
        parts = [chunk async for chunk in stream]
        out[name] = b"".join(parts)

    try:
        with anyio.fail_after(FETCH_TIMEOUT_S):
            async with process, anyio.create_task_group() as tasks:
                assert process.stdout is not None
                assert process.stderr is not None
                tasks.start_soon(drain, "out", process.stdout)
                tasks.start_soon(drain, "err", process.stderr)
                await process.wait()
    except TimeoutError:
        raise BuildError(
            f"git {arguments[0]} took over {FETCH_TIMEOUT_S:g} s, and was ended", hint=FETCH_HINT
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await process.wait()
    return process.returncode or 0, out["out"], out["err"]
