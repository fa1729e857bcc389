"""Which backends may fill the roles of a project, and by which names files and selections speak of a choice of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from harness.model.plan import BackendSpec, RoleChoice, RoleSpec, Runtime

__all__ = ["EMBEDDED", "NO_BACKEND", "cell_label", "cell_names", "choices_of", "known_choices", "known_names"]

NO_BACKEND = "none"
EMBEDDED = "embedded"  # the version of every backend in its process form


def choices_of(
    roles: Sequence[RoleSpec], backends: Mapping[str, BackendSpec], runtime: Runtime
) -> list[tuple[RoleChoice, ...]]:
    """Every choice of backends for a project's roles, in the order of its harness.toml: its cells."""
    return list(itertools.product(*(tuple(_of_role(role, backends, runtime)) for role in roles)))


def _of_role(role: RoleSpec, backends: Mapping[str, BackendSpec], runtime: Runtime) -> Iterator[RoleChoice]:
    for name in role.use:
        backend = backends.get(name)
        if runtime == "process":
            versions: Sequence[str] = (EMBEDDED,)
        elif role.versions:
            versions = [version for version in role.versions if backend is None or version in backend.versions]
        else:
            versions = ((backend.default if backend is not None else "") or EMBEDDED,)
        for version in versions:
            yield RoleChoice(role=role.role, backend=name, version=version)


def cell_label(roles: Sequence[RoleChoice]) -> str:
    """How reports and exemptions call a choice of backends."""
    return "+".join(_part(choice, roles) for choice in roles) or NO_BACKEND


def _part(choice: RoleChoice, roles: Sequence[RoleChoice]) -> str:
    shared = sum(other.backend == choice.backend for other in roles) > 1
    return f"{choice.role}={choice.label}" if shared else choice.label


def cell_names(roles: Sequence[RoleChoice]) -> Iterator[str]:
    """Every name that means a choice of backends: its label, and of each part the name, with the version or without."""
    yield cell_label(roles)
    for choice in roles:
        yield from (choice.label, choice.backend, _part(choice, roles))


def known_choices(roles: Sequence[RoleSpec], backends: Mapping[str, BackendSpec]) -> list[tuple[RoleChoice, ...]]:
    """Every choice of backends that a project may be run with, however they are stood up."""
    embedded = [
        choices
        for choices in choices_of(roles, backends, "process")
        if all(item.backend not in backends or backends[item.backend].process is not None for item in choices)
    ]
    return list(dict.fromkeys((*choices_of(roles, backends, "docker"), *embedded)))


def known_names(roles: Sequence[RoleSpec], backends: Mapping[str, BackendSpec]) -> frozenset[str]:
    """Every name that means one of them."""
    return frozenset(name for choices in known_choices(roles, backends) if choices for name in cell_names(choices))
