"""The list of repositories that one pass goes over: what rollout.toml says, and what a pass learnt of each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast, get_args

from harness.model.plan import Era, Place, RunKey

__all__ = [
    "REPOSITORY_TIMEOUT_S",
    "RepositoryRecord",
    "RepositorySpec",
    "RolloutSpec",
    "key_of",
    "repository_from_json",
    "repository_to_json",
    "words_of",
]

REPOSITORY_TIMEOUT_S = 1800.0

_COMMIT = re.compile(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySpec:
    """One entry of the list: a folder, or a git repository at one of its states.

    Attributes:
        name: How the report and `--only` call it; no two have one.
        path: The folder, absolute; None where it is checked out from `git`.
        git: A URL, or an absolute path; "" where it is a folder.
        ref: Branch, tag or commit; "" is what the remote's HEAD is.
        subdir: Where in it the server is.
        submodules: Whether those of a git repository are checked out too.
        harness: The harness file that is kept beside the list, absolute; None where the repository carries one.
        tags: Words that `--only` takes besides the name.
        timeout_s: How long all of it may take, without the checkout.
        source: It as the list writes it, for people: `path`, or `git` with `@ref`, with the subdir.
    """

    name: str
    place: Place
    path: Path | None = None
    git: str = ""
    ref: str = ""
    subdir: str = "."
    submodules: bool = True
    harness: Path | None = None
    tags: tuple[str, ...] = ()
    timeout_s: float = REPOSITORY_TIMEOUT_S
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec:
    """A rollout.toml.

    Attributes:
        base: Its folder, absolute: what names in messages and reports are relative to.
        repositories: In the order of the file.
        exemptions: The central exemptions file, None where there is none.
        jobs: How many repositories run side by side; None leaves it to the machine.
    """

    base: Path
    place: Place
    repositories: tuple[RepositorySpec, ...]
    exemptions: Path | None = None
    jobs: int | None = None

    def by_name(self) -> Mapping[str, RepositorySpec]:
        """The repositories by their names."""
        return {item.name: item for item in self.repositories}


State = Literal["done", "not-checked-out", "files", "timed-out", "ended", "interrupted", "not-begun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryRecord:
    """What a pass learnt of one repository that is no evidence of a run; kept beside the evidence.

    Attributes:
        state: "done" (its child told all), "not-checked-out", "files" (they cannot be used; judging says why),
            "timed-out", "ended" (its child was gone without a word), "interrupted" or "not-begun".
        why: What is to be said of it besides: what interrupted it, the stage that it was in.
        commit: That was checked out, "" for a folder.
        sources: Fingerprint of what was built and run, for `--resume`.
        harness: Version of mcp-rollcall that did it.
        server: Name of its server, "" where that is not known.
        errors: {"kind", "server", "message", "hint", "log"} each.
        not_run: Planned runs that gave no evidence, and why.
        attempts: Run -> folder of its attempt, relative to the evidence.
        notes: For the first line of the report.
    """

    name: str
    state: State
    why: str = ""
    commit: str = ""
    sources: str = ""
    harness: str = ""
    server: str = ""
    errors: tuple[Mapping[str, str], ...] = ()
    not_run: Mapping[RunKey, str] = field(default_factory=dict)
    attempts: Mapping[RunKey, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def repository_to_json(record: RepositoryRecord) -> dict[str, Any]:
    """As JSON; durations and places on this machine are not in it."""
    return {
        "schema": 1,
        "name": record.name,
        "state": record.state,
        "why": record.why,
        "commit": record.commit,
        "sources": record.sources,
        "harness": record.harness,
        "server": record.server,
        "errors": [dict(item) for item in record.errors],
        "not_run": [{"run": words_of(key), "why": why} for key, why in record.not_run.items()],
        "attempts": [{"run": words_of(key), "folder": folder} for key, folder in record.attempts.items()],
        "notes": list(record.notes),
    }


def repository_from_json(data: Any) -> RepositoryRecord:
    """The record that `repository_to_json` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        if data["schema"] != 1 or data["state"] not in get_args(State):
            raise ValueError(f"a record of schema {data['schema']!r} and state {data['state']!r}")
        if not _COMMIT.match(str(data["commit"])):
            raise ValueError(f"no commit: {data['commit']!r}")
        texts = {key: str(data[key]) for key in ("name", "why", "commit", "sources", "harness", "server")}
        return RepositoryRecord(
            state=data["state"],
            errors=tuple({str(key): str(value) for key, value in item.items()} for item in data["errors"]),
            not_run={key_of(item["run"]): str(item["why"]) for item in data["not_run"]},
            attempts={key_of(item["run"]): _folder(item["folder"]) for item in data["attempts"]},
            notes=tuple(map(str, data["notes"])),
            **texts,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of a repository: {error}") from None


def key_of(words: Any) -> RunKey:
    """The run that its four words name.

    Raises:
        ValueError: They name none.
    """
    match words:
        case [str() as server, str() as backend, "modern" | "handshake" as era, str() as profile]:
            return RunKey(server=server, backend=backend, era=cast("Era", era), profile=profile)
        case _:
            raise ValueError(f"no run: {words!r}")


def _folder(text: Any) -> str:
    """A folder below the evidence: another's record never leads out of it.

    Raises:
        ValueError: It does.
    """
    parts = PurePosixPath(str(text)).parts
    if not parts or ".." in parts or parts[0].startswith("/"):
        raise ValueError(f"no folder in the evidence: {text!r}")
    return str(text)


def words_of(key: RunKey) -> list[str]:
    """The four words that name a run, as `key_of` takes them."""
    return [key.server, key.backend, key.era, key.profile]
