"""Stacks for tests in code: backends stood up by name, or as a project asks for, and what they hand out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from harness.engine.live import to_the_end
from harness.engine.mask import Masker
from harness.engine.scope import open_scope
from harness.engine.stack import Stack as Standing
from harness.engine.stack import open_stack as stand_up
from harness.engine.stack import prepare_images
from harness.errors import ConfigError, StackError
from harness.model.choices import EMBEDDED
from harness.model.plan import BackendSpec, RoleChoice, Runtime
from harness.model.progress import Progress, Silent

__all__ = ["AsyncStack", "RuntimeChoice", "StackStarting", "start_stack"]

RuntimeChoice = Literal["auto", "docker", "process"]
_OUTPUT = "backend."


class AsyncStack(Mapping[str, str]):
    """Backends that stand, as a mapping of their outputs: `stack["redis.url"]`; made by `open_stack`.

    Attributes:
        addresses: Every (host, port) that was handed out: a server may be pointed at these and no others.
        names: Of services inside the stack.
        versions: "redis@8" -> the version that it reports itself, "" if it does not.
        runtime: "docker" or "process".
    """

    def __init__(self, standing: Standing, masker: Masker, runtime: Runtime, resources: AsyncExitStack) -> None:
        self._outputs = {
            name.removeprefix(_OUTPUT): value for name, value in standing.values.items() if name.startswith(_OUTPUT)
        }
        self._standing = standing
        self._masker = masker
        self._resources = resources
        self._closing: asyncio.Future[None] | None = None
        self.addresses = standing.addresses
        self.names = standing.names
        self.versions = standing.versions
        self.runtime = runtime

    def __getitem__(self, name: str) -> str:
        if name not in self._outputs:
            raise KeyError(f"{name!r} is no output of this stack; there are {', '.join(sorted(self._outputs))}")
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is masked in everything that is recorded of a server with `stack=`."""
        return self._masker.secrets

    async def logs(self) -> Mapping[str, str]:
        """The logs of its services at this moment, masked, by name."""
        found = await self._standing.logs()
        return {name: data.decode("utf-8", "backslashreplace") for name, data in found.items()}

    async def close(self) -> None:
        """Takes it down, whatever comes; a second call does nothing more.

        Raises:
            StackError: Something could not be removed.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._resources.aclose())
        await to_the_end(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Stack {', '.join(self.versions) or 'empty'}: {', '.join(sorted(self._outputs))}>"


class StackStarting(Awaitable[AsyncStack]):
    """A stack that is about to be stood up: `await` it, or enter it with `async with`."""

    def __init__(self, start: Callable[[], Awaitable[AsyncStack]]) -> None:
        self._start = start
        self._stack: AsyncStack | None = None

    def __await__(self) -> Generator[Any, Any, AsyncStack]:
        return self._start().__await__()

    async def __aenter__(self) -> AsyncStack:
        self._stack = await self._start()
        return self._stack

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        await self._stack.close()


async def start_stack(
    backends: Sequence[str],
    *,
    project: str | os.PathLike[str] | None,
    versions: Mapping[str, str] | None,
    runtime: RuntimeChoice,
    progress: Progress | None = None,
) -> AsyncStack:
    """See `open_stack`."""
    progress = progress or Silent()
    if runtime not in ("auto", "docker", "process"):
        raise ConfigError(f"runtime is {runtime!r}; it can be 'auto', 'docker' or 'process'")
    if project is not None:
        roles, specs, kind, state = await _of_project(Path(project), backends, versions or {}, runtime, progress)
    else:
        roles, specs, kind, state = await _by_name(backends, versions or {}, runtime, progress)
    async with AsyncExitStack() as undo:
        scope = undo.enter_context(open_scope())
        masker = Masker()
        standing = await undo.enter_async_context(
            stand_up(
                roles,
                specs,
                runtime=kind,
                scope=scope,
                masker=masker,
                progress=progress,
                subject=", ".join(role.label for role in roles),
                state=state,
            )
        )
        return AsyncStack(standing, masker, kind or "process", undo.pop_all())
    raise AssertionError("unreachable")


_Choice = tuple[Sequence[RoleChoice], Mapping[str, BackendSpec], Runtime | None, Path]


async def _by_name(
    names: Sequence[str], versions: Mapping[str, str], runtime: RuntimeChoice, progress: Progress
) -> _Choice:
    from harness.backends_door import choose, find_backend
    from harness.engine.build import state_folder

    if not names:
        raise ConfigError("open_stack was given neither the name of a backend nor a project")
    here = Path.cwd()
    roles: list[RoleChoice] = []
    specs: dict[str, BackendSpec] = {}
    kinds: dict[str, tuple[Runtime, bool]] = {}
    for text in names:
        name, _, version = text.partition("@")
        spec = find_backend(here, [here], name)
        choice, kind, settled = choose(spec, version or versions.get(name), runtime, progress)
        roles.append(replace(choice, role=name))
        specs[name] = spec
        kinds[name] = (kind, settled)
    if len(specs) < len(names):
        raise ConfigError("open_stack was given one backend twice", hint="stand up two stacks")
    unknown = sorted(versions.keys() - specs.keys())
    if unknown:
        raise ConfigError(f"versions names {', '.join(map(repr, unknown))}, which is not stood up")
    kind = _one_kind(kinds)
    if kind == "docker":
        try:
            await prepare_images(roles, specs, progress=progress, subject=", ".join(names))
        except StackError:
            if any(settled for _, settled in kinds.values()):
                raise
            kind, roles = "process", [replace(role, version=EMBEDDED) for role in roles]
    return roles, specs, kind, state_folder(here)


def _one_kind(kinds: Mapping[str, tuple[Runtime, bool]]) -> Runtime:
    found = sorted({kind for kind, _ in kinds.values()})
    if len(found) > 1:
        said = ", ".join(f"{name} as {kind}" for name, (kind, _) in kinds.items())
        raise ConfigError(f"one stack is stood up in one way, and these would be in two: {said}", hint="give runtime=")
    return found[0]


async def _of_project(
    path: Path, names: Sequence[str], versions: Mapping[str, str], runtime: RuntimeChoice, progress: Progress
) -> _Choice:
    from harness.engine.build import state_folder
    from harness.execution import settle
    from harness.integration import Options, load_plan

    wanted = (*names, *(f"{name}@{version}" for name, version in versions.items()))
    options = Options(base=Path.cwd(), projects=(path,), backends=wanted, runtime=runtime)
    loaded, plan = await asyncio.to_thread(load_plan, options)
    plan = await settle(options, loaded, plan, progress=progress)
    cells = plan.cells
    if len(cells) > 1:
        labels = [cell.backend for cell in cells]
        raise ConfigError(
            f"{path} can be run with {len(cells)} choices of backends: {', '.join(labels)}", hint="name one of them"
        )
    found = plan.project_of(cells[0].server)
    return cells[0].roles, found.backends, cells[0].runs[0].runtime, state_folder(found.root)
