"""Where evidence lies, and how it is read back: one folder per attempt of a run, whole or not there.

`<root>/<server>/<backend>/<era>/<profile>/<attempt>/` holds run.json, server-N.jsonl, probe-1.jsonl, client-1.jsonl (of
the comparing pass, where one was made), outside-<driver>-<time>-<token>.jsonl (of servers that somebody else started:
a pytest worker, a proxy), bodies/, logs/ and done. Names are percent-encoded so that two that differ only
in case or Unicode form stay two on every file system. An attempt counts once `done` is there, which is written last;
several harnesses may write into one root at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

from harness.engine.scope import boot_id, is_dead, start_time
from harness.errors import StackError
from harness.model.plan import Plan, Run, RunKey, Runtime
from harness.model.regular import read_json, read_regular
from harness.model.transcript import (
    BODIES_DIR,
    DONE_FILE,
    OUTSIDE,
    PROBE,
    RUN_FILE,
    Evidence,
    RunRecord,
    Transcript,
    parse_lines,
    record_from_json,
    record_to_json,
)
from harness.model.whole import write_whole

__all__ = [
    "KEPT_ATTEMPTS",
    "UNFINISHED_KEPT_S",
    "Attempt",
    "Elsewhere",
    "EvidenceLost",
    "EvidenceSet",
    "encode_name",
    "is_whole",
    "newest_attempts",
    "read_attempt",
    "read_elsewhere",
    "read_evidence",
    "read_transcript",
    "recordings",
    "run_folder",
    "runtime_seen",
]

LOGS_DIR = "logs"
CLIENT_FILE = "client-1.jsonl"
RESERVE_FILE = ".reserve"
RESERVE_BYTES = 64 * 1024
OWNER_BYTES = 512  # of them, at its beginning: who makes the attempt
EVIDENCE_HINT = "make room there, or choose another place with --evidence DIR (and --out DIR, --state DIR for the rest)"
KEPT_ATTEMPTS = 5  # finished ones of a run; older ones are removed
UNFINISHED_KEPT_S = 24 * 3600.0  # an unfinished one of another host's; no run that lives is silent for so long
MAX_NAME_CHARS = 150
_STAMP = "%Y%m%dT%H%M%S.%f"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.@+=")


def encode_name(name: str) -> str:
    """A name as a file name: lower-case ASCII, different for different names, never hidden, never `..`."""
    parts = []
    for index, char in enumerate(name):
        if char in _PLAIN and not (char == "." and index in (0, len(name) - 1)):
            parts.append(char)
        else:
            parts += [f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass")]
    text = "".join(parts) or "%"
    if len(text) <= MAX_NAME_CHARS:
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_NAME_CHARS].rpartition('%')[0] or text[:MAX_NAME_CHARS]}~{digest[:16]}"


def run_folder(root: Path, key: RunKey) -> Path:
    """Where the attempts of a run lie."""
    return root.joinpath(*map(encode_name, (key.server, key.backend, key.era, key.profile)))


def _owner() -> bytes:
    """Who makes an attempt: if it is killed, what it left is known as nobody's."""
    pid = os.getpid()
    return json.dumps({"boot": boot_id(), "pid": str(pid), "started": start_time(pid) or ""}).encode()


def _stamp(parent: Path) -> str:
    """The time, or just after the last attempt's: a clock that was set back makes no new attempt an old one."""
    now = datetime.now(UTC)
    for name in sorted(os.listdir(parent), reverse=True):
        try:
            last = datetime.strptime(name.partition("-")[0], _STAMP).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(now, last + timedelta(microseconds=1)).strftime(_STAMP)
    return now.strftime(_STAMP)


class EvidenceLost(StackError):
    """What a run saw cannot be written: the disk is full, or the folder may not be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"the evidence in {folder} cannot be written: {error.strerror or error}", hint=EVIDENCE_HINT)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A new attempt of a run, while it is made.

    It holds back a little space, so that an attempt for whose transcript there is none left can still be finished.
    """

    folder: Path

    @classmethod
    def create(cls, root: Path, key: RunKey) -> Attempt:
        """Makes its folder, whose name sorts by time and is nobody else's.

        Raises:
            EvidenceLost: It cannot be made.
        """
        parent = run_folder(root, key)
        folder = parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder = parent / f"{_stamp(parent)}-{token_hex(4)}"
            folder.mkdir()
            (folder / RESERVE_FILE).write_bytes(_owner().ljust(RESERVE_BYTES, b"\n"))
        except OSError as error:
            if folder != parent:
                shutil.rmtree(folder, ignore_errors=True)
            raise EvidenceLost(root, error) from error
        return cls(folder)

    def transcript(self, number: int) -> Path:
        """The file for the transcript of the n-th server process, from 1."""
        return self.folder / f"server-{number}.jsonl"

    @property
    def probe(self) -> Path:
        """The file for the transcript of the process that is sent a line that is no JSON."""
        return self.folder / f"{PROBE}-1.jsonl"

    @property
    def state_probe(self) -> Path:
        """The file for the transcript of the process that is sent a requestState that was changed."""
        return self.folder / f"{PROBE}-2.jsonl"

    @property
    def client(self) -> Path:
        """The file for the transcript of the comparing pass with the official client."""
        return self.folder / CLIENT_FILE

    @property
    def bodies(self) -> Path:
        """The folder of side files."""
        return self.folder / BODIES_DIR

    def write_logs(self, logs: Mapping[str, bytes]) -> None:
        """Keeps logs of backends, masked by whoever took them."""
        for name, data in logs.items():
            (self.folder / LOGS_DIR).mkdir(exist_ok=True)
            write_whole(self.folder / LOGS_DIR / f"{encode_name(name)}.log", data)

    def finish(self, record: RunRecord) -> None:
        """Writes run.json, then `done`: from now on the attempt counts.

        Raises:
            EvidenceLost: It cannot be written, and never will count.
        """
        text = json.dumps(record_to_json(record), ensure_ascii=False, indent=1, sort_keys=True)
        try:
            reserve = self.folder / RESERVE_FILE
            if reserve.exists():
                os.truncate(reserve, OWNER_BYTES)
            write_whole(self.folder / RUN_FILE, text.encode("utf-8", "backslashreplace") + b"\n")
            write_whole(self.folder / DONE_FILE, b"")
            reserve.unlink(missing_ok=True)
        except OSError as error:
            raise EvidenceLost(self.folder.parent, error) from error
        # what counts for no plan never takes the place of what does
        alike = [item for item in _attempts(self.folder.parent) if _is_planned(item) == bool(record.plan)]
        for folder in (*alike[KEPT_ATTEMPTS:], *_given_up(self.folder.parent)):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSet:
    """What there is for a plan: `outdated` runs have evidence of another state of their files only."""

    found: tuple[Evidence, ...] = ()
    missing: tuple[RunKey, ...] = ()
    outdated: tuple[RunKey, ...] = ()


class _Bodies(Mapping[str, bytes]):
    """Side files, read when asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> bytes:
        if len(name) != 64 or not name.isalnum():
            raise KeyError(name)
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(os.listdir(self._folder)) if self._folder.is_dir() else ())

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(slots=True)
class _Sorted:
    found: list[Evidence] = field(default_factory=list)
    missing: list[RunKey] = field(default_factory=list)
    outdated: list[RunKey] = field(default_factory=list)


def read_evidence(root: Path, plan: Plan, *, chosen: Mapping[RunKey, Path] | None = None) -> EvidenceSet:
    """The finished attempt that counts for every planned run, of those that belong to the plan's present state.

    It is the newest that tried every selected case; an attempt of fewer cases never stands before a whole one. Attempts
    without `done`, and such as cannot be read, count as not there.

    Args:
        chosen: Folders of the attempts to take instead, whatever else there is: those that were just recorded.
    """
    out = _Sorted()
    for cell in plan.cells:
        for run in cell.runs:
            if chosen is not None and run.key in chosen:
                _take([chosen[run.key]], run, out)
            else:
                _take(_attempts(run_folder(root, run.key)), run, out)
    return EvidenceSet(found=tuple(out.found), missing=tuple(out.missing), outdated=tuple(out.outdated))


def _take(folders: Iterable[Path], run: Run, out: _Sorted) -> None:
    other = False
    partial: tuple[Path, RunRecord] | None = None
    for folder in folders:
        record = _record(folder)
        if record is None or record.key != run.key or not (folder / DONE_FILE).is_file():
            continue
        if record.plan != run.fingerprint:
            other = True
            continue
        if record.outcome != "finished" or is_whole(run, record):  # a failure is never passed over
            partial = folder, record
            break
        partial = partial or (folder, record)
    if partial is None:
        (out.outdated if other else out.missing).append(run.key)
        return
    folder, record = partial
    out.found.append(_evidence(record, folder))


def is_whole(run: Run, record: RunRecord) -> bool:
    """Whether a record is of all cases and commands that the run has."""
    tried = {item.id for item in record.commands}
    return set(run.selected) <= set(record.cases) and {item.id for item in run.commands} <= tried


def _given_up(folder: Path) -> Iterator[Path]:
    """Attempts without `done` whose maker is gone, or that nobody has written to for so long that it must be."""
    for path in folder.iterdir():
        try:
            if (path / DONE_FILE).is_file():
                continue
            written = max(item.stat().st_mtime for item in (path, *path.iterdir()))
            if time.time() - written > UNFINISHED_KEPT_S or _is_orphan(path):
                yield path
        except OSError:  # it is no folder, or gone
            continue


def _is_orphan(folder: Path) -> bool:
    """Whether an attempt was begun by a process of this host that is no more."""
    try:
        owner = json.loads(read_regular(folder / RESERVE_FILE, RESERVE_BYTES))
        return is_dead({key: str(owner[key]) for key in ("boot", "pid", "started")})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _attempts(folder: Path) -> list[Path]:
    """Finished attempts, newest first."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return []
    return [folder / name for name in names if (folder / name / DONE_FILE).is_file()]


def _record(folder: Path) -> RunRecord | None:
    try:
        return record_from_json(read_json(folder / RUN_FILE))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_planned(folder: Path) -> bool:
    record = _record(folder)
    return record is None or bool(record.plan)


def _evidence(record: RunRecord, folder: Path) -> Evidence:
    bodies = _Bodies(folder / BODIES_DIR)
    paths = [path for name in ("server", PROBE) for path in sorted(folder.glob(f"{name}-*.jsonl"), key=_by_number)]
    paths += sorted(folder.glob(f"{OUTSIDE}-*.jsonl"))
    client = folder / CLIENT_FILE
    return Evidence(
        record=record,
        transcripts=tuple(_transcript(path, bodies) for path in paths),
        folder=str(folder),
        client=_transcript(client, bodies) if client.is_file() else None,
    )


def _transcript(path: Path, bodies: Mapping[str, bytes]) -> Transcript:
    lines = path.read_bytes().split(b"\n")  # not splitlines: U+2028 is no line end here
    return parse_lines(path.name, [line.decode("utf-8", "replace") for line in lines if line], bodies=bodies)


def _by_number(path: Path) -> tuple[int, str]:
    return (len(path.name), path.name)


def read_attempt(folder: Path) -> Evidence | None:
    """The evidence in the folder of one finished attempt, None if there is none."""
    record = _record(folder)
    return None if record is None or not (folder / DONE_FILE).is_file() else _evidence(record, folder)


def read_transcript(path: Path) -> Transcript:
    """One transcript file, with the side files in the folder beside it."""
    return _transcript(path, _Bodies(path.parent / BODIES_DIR))


def newest_attempts(root: Path) -> list[Path]:
    """The folder of the newest finished attempt of every run below a folder, whatever plan it is of; sorted."""
    newest: dict[RunKey, Path] = {}
    found: list[Path] = []
    for folder, names, files in os.walk(root):  # which passes over what goes meanwhile, or may not be read
        names.sort()
        if DONE_FILE in files:
            found.append(Path(folder, DONE_FILE))
    for done in sorted(found, key=lambda path: (path.parent.name, str(path))):
        record = _record(done.parent)
        if record is not None:
            newest[record.key] = done.parent
    return sorted(newest.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Evidence that is not of this plan: what is admitted, and (server, place below the root, why) of the rest."""

    admitted: tuple[Evidence, ...] = ()
    left_out: tuple[tuple[str, str, str], ...] = ()


def read_elsewhere(root: Path, plan: Plan, builds: Mapping[str, str]) -> Elsewhere:
    """What another folder of evidence holds for a plan: admitted where server, cell and build are the plan's.

    Where there is no evidence of a server yet, the first that is of the plan's present state says which build it is.

    Args:
        builds: Server -> fingerprint of the build whose evidence is judged.
    """
    builds = dict(builds)
    runs = {run.key: run for cell in plan.cells for run in cell.runs}
    cells = {(cell.server, cell.backend) for cell in plan.cells}
    servers = {cell.server for cell in plan.cells}
    admitted: list[Evidence] = []
    left_out: list[tuple[str, str, str]] = []
    for folder in newest_attempts(root):
        record = _record(folder)
        if record is None:
            continue
        key = record.key
        if key.server not in builds and key in runs and record.plan == runs[key].fingerprint:
            builds[key.server] = record.build
        build = builds.get(key.server, "")
        why = ""
        if not record.plan:
            why = "it was recorded without a plan: nobody says with which build and backend"
        elif key.server not in servers:
            why = f"it is of the server {key.server}, which is not judged"
        elif (key.server, key.backend) not in cells or key not in runs:
            why = f"no run {key} is planned"
        elif not build or record.build != build:
            why = f"it is of the build {record.build or 'unknown'}, and {build or 'none'} is judged"
        if why:
            left_out.append((key.server, os.path.relpath(folder, root), why))
        else:
            admitted.append(_evidence(record, folder))
    return Elsewhere(admitted=tuple(admitted), left_out=tuple(left_out))


def recordings(root: Path) -> list[tuple[str, str, int]]:
    """The recordings in a folder of evidence that stand alone: server, where they lie below it, how many there are."""
    out = []
    for folder in sorted(root.glob("*/recorded")):
        attempts = sorted(path for path in folder.iterdir() if (path / RUN_FILE).is_file())
        records = [record for path in attempts if (record := _record(path)) is not None]
        if records:
            out.append((records[-1].key.server, os.path.relpath(folder, root), len(records)))
    return out


def runtime_seen(root: Path, server: str) -> Runtime | None:
    """The runtime of the newest finished attempt of any run of a server, None without one."""
    newest: tuple[str, Runtime | None] = ("", None)
    for folder in (root / encode_name(server)).glob("*/*/*/*"):
        if folder.name > newest[0] and (folder / DONE_FILE).is_file():
            record = _record(folder)
            if record is not None and record.runtime is not None:
                newest = (folder.name, record.runtime)
    return newest[1]
