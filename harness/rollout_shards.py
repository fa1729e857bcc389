"""The door behind `rollout plan` and `rollout merge`: the list in parts for several machines, and the parts joined."""

from __future__ import annotations

import json
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import anyio

from harness.engine.git import cached, check_out
from harness.errors import ConfigError, HarnessError, StackError, iterate_errors
from harness.matrix import MOST_JOBS
from harness.model.progress import Progress, stage
from harness.model.regular import read_regular
from harness.model.rollout import RepositoryRecord, RepositorySpec
from harness.model.transcript import DONE_FILE
from harness.model.whole import write_whole
from harness.report.groups import amount
from harness.rollout import RECORDS, Pass, record_in, seconds_in, shards

__all__ = ["join", "render"]

MAX_LOG_BYTES = 64_000_000


def render(this: Pass, number: int, form: str) -> str:
    """The parts in one of the formats of `plan`; empty ones are left out.

    Raises:
        ConfigError: More parts than the service takes in one matrix.
    """
    chosen = this.selected()
    durations = this.durations()
    parts = [(index + 1, part) for index, part in enumerate(shards(chosen, number, durations)) if part]
    if form == "github" and len(parts) > MOST_JOBS[form]:
        raise ConfigError(f"{len(parts)} jobs are planned, and a matrix of {form} takes {MOST_JOBS[form]}")
    rows = [
        {
            "shard": f"{index}/{number}",
            "only": ",".join(item.name for item in part),
            "repositories": len(part),
            "seconds": round(sum(durations.get(item.name, 0.0) for item in part)),
        }
        for index, part in parts
    ]
    match form:
        case "github":
            return json.dumps({"include": [{"shard": row["shard"], "only": row["only"]} for row in rows]})
        case "gitlab":
            # jobs of their own: a matrix would have the repositories in the name of the job, which GitLab ends at 255
            # characters by making no pipeline at all
            jobs = {
                f"rollout {row['shard']}": {
                    "extends": ".rollout",
                    "variables": {
                        "ROLLCALL_SHARD": row["shard"],
                        "ROLLCALL_ONLY": str(row["only"]).replace("$", "$$"),
                    },
                }
                for row in rows
            }
            return json.dumps(jobs, indent=1)
        case "json":
            return json.dumps({"schema": 1, "include": rows}, ensure_ascii=False, indent=1)
        case _:
            return "\n".join(
                shlex.join(["mcp-rollcall", "rollout", f"--only={row['only']}"])
                + f"  # {row['shard']}, {amount(len(part), 'repository')}"
                + (f", {row['seconds']} s the last time" if row["seconds"] else "")
                for row, (_, part) in zip(rows, parts, strict=True)
            )


# --- joining ------------------------------------------------------------------------------------------


def join(this: Pass, folders: Sequence[Path], *, progress: Progress) -> None:
    """Brings the evidence of shards into that of this pass, and checks out what its judging needs.

    An attempt that is here already is left as it is. Of two records of one repository, the one of a pass that came to
    it counts, and of two such the one whose attempts are younger.

    What was here before counts too, so that parts can be joined one after the other; that is said of each.

    Raises:
        ConfigError: A folder holds no evidence of a rollout.
        StackError: The evidence cannot be written.
    """
    roots = [_root_of(folder) for folder in folders]
    brought = {path.name for root in roots for path in (root / RECORDS).glob("*.json")}
    for spec in this.selected():
        if this.record_of(spec.name) is not None and this.file_of(spec.name, ".json").name not in brought:
            progress.note(spec.name, "it is in none of these folders; what was recorded or joined here before counts")
    for folder, root in zip(folders, roots, strict=True):
        try:
            _copy(root, this.evidence)
            for path in sorted((root / RECORDS).glob("*.json")):
                try:
                    _take(this, root, path)
                except ValueError as error:
                    progress.note(path.name, f"left out, it is no record of a pass: {error}")
        except OSError as error:
            raise StackError(f"{folder} cannot be joined: {error.strerror or error}") from error
    anyio.run(_check_out, this, progress)


def _root_of(folder: Path) -> Path:
    for candidate in (folder, folder / "evidence", folder / ".rollcall" / "evidence"):
        if (candidate / RECORDS).is_dir():
            return candidate
    raise ConfigError(
        f"{folder} holds no evidence of a rollout",
        hint="name the folder that --evidence named, or .rollcall; uploads leave out what begins with a dot, unless "
        "they are told to take hidden files",
    )


def _copy(source: Path, target: Path) -> None:
    """Every finished attempt, each whole or not at all. Links are left out: they would bring what is no evidence."""
    here = source.resolve()
    for done in sorted(source.glob(f"*/*/*/*/*/{DONE_FILE}")):
        attempt = done.parent
        if attempt.resolve() != here / attempt.relative_to(source):
            continue
        there = target / attempt.relative_to(source)
        if there.exists():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        fresh = there.with_name(f".{there.name}.{token_hex(4)}")
        try:
            shutil.copytree(attempt, fresh, ignore=_no_files)
            fresh.rename(there)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if not there.exists():
                raise


def _no_files(folder: str, names: list[str]) -> list[str]:
    """What is neither a file nor a folder: links, pipes."""
    return [name for name in names if not _is_plain(Path(folder, name))]


def _is_plain(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _take(this: Pass, root: Path, path: Path) -> None:
    """Takes a file beside the evidence.

    Raises:
        ValueError: It is not what its name says.
    """
    if not _is_plain(path):
        raise ValueError("no regular file")
    if path.name.endswith(".times.json"):
        text = json.dumps({"seconds": seconds_in(path)})
        _write(this.evidence / RECORDS / path.name, text.encode())
        return
    record = record_in(path)
    here = this.record_of(record.name)
    if here is not None and _rank(here) >= _rank(record):
        return
    this.keep(record)
    log = this.file_of(record.name, ".log")
    with suppress(OSError):
        if _is_plain(root / RECORDS / log.name):
            _write(log, read_regular(root / RECORDS / log.name, MAX_LOG_BYTES))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def _rank(record: RepositoryRecord) -> tuple[bool, str]:
    return record.state not in ("not-begun", "not-checked-out"), max(
        (Path(folder).name for folder in record.attempts.values()), default=""
    )


async def _check_out(this: Pass, progress: Progress) -> None:
    """The commits that the shards took; what cannot be had is said by the report."""

    async def one(spec: RepositorySpec, commit: str) -> None:
        if cached(spec.git, spec.ref, cache=this.cache, commit=commit) is not None:
            return
        try:
            with stage(progress, spec.name, "check out"):
                await check_out(spec.git, commit or spec.ref, cache=this.cache, submodules=spec.submodules)
        except Exception as error:
            for leaf in iterate_errors(error):
                if not isinstance(leaf, HarnessError):
                    raise
                progress.note(spec.name, leaf.message)

    async with anyio.create_task_group() as tasks:
        for spec, commit in _wanted(this):
            tasks.start_soon(one, spec, commit)


def _wanted(this: Pass) -> Iterator[tuple[RepositorySpec, str]]:
    for spec in this.selected():
        record = this.record_of(spec.name)
        if spec.git and (record is None or record.state != "not-checked-out"):
            yield spec, record.commit if record is not None else ""
