"""The list of repositories that one pass goes over: what rollout.toml says, and what a pass learnt of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.model.plan import Place

__all__ = ["REPOSITORY_TIMEOUT_S", "RepositorySpec", "RolloutSpec"]

REPOSITORY_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySpec:
    """One entry of the list: a folder, or a git repository at one of its states.

    Attributes:
        name: How the report and `--only` call it; no two have one.
        path: The folder, absolute; None where it is checked out from `git`.
        git: A URL, or an absolute path; "" where it is a folder.
        ref: Branch, tag or commit; "" is what the remote's HEAD is.
        subdir: Where in it the server is.
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
