"""Stands up the backends of one choice, hands out their addresses and values, and leaves nothing behind.

One network per backend; everything in it bears the invocation's labels and the stack's. What is to be removed is found
by label, so a creation that was cut off half way is found too.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TypeVar

import anyio

from harness.engine.docker import (
    ContainerState,
    Engine,
    EngineLost,
    EngineRefused,
    base_images,
    credential_trouble,
    image_fingerprint,
    open_engine,
)
from harness.engine.embedded import Embedded
from harness.engine.mask import Masker, is_secret_name
from harness.engine.provision import Standing, expanded, make_outputs, make_secrets, provision
from harness.engine.ready import EVERY_S, Observation, Probe, command_probe, network_probe, wait_ready
from harness.engine.reset import Resetting, former
from harness.engine.scope import LABEL, STACK_FOLDER, Scope
from harness.errors import StackError, iterate_errors
from harness.model.placeholders import UnknownPlaceholder
from harness.model.plan import BackendSpec, ProvisionSpec, RoleChoice, Runtime, ServiceSpec, VersionSpec
from harness.model.progress import Progress, stage

__all__ = ["LOG_TAIL_LINES", "TEARDOWN_S", "Backends", "Stack", "open_stack", "prepare_images"]

TEARDOWN_S = 60.0
BINDING_S = 5.0  # how long a running container may be without its published ports
TELL_EVERY_S = 0.5
ALONE_S = 1800.0  # for the build of an image by another process
LOG_TAIL_LINES = 40
LOG_CHARS = 256 * 1024  # of the log of one error
LOG_READ_LINES = 400  # masked before they are cut to so few
REPOSITORY = "mcp-rollcall"

_T = TypeVar("_T")


async def _no_logs() -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Backends that stand.

    Attributes:
        values: `backend.<role>.<output>` -> text.
        addresses: Every (host, port) that was handed out.
        names: Of services, as they know each other inside the stack.
        versions: Label of each choice -> the version that the backend reports itself, "" if it does not.
        logs: Their logs at this moment, masked: name -> bytes.
        use: Which run it serves: 1 on a fresh one, more after resets.
        note: Why it is a fresh one though it should have been one that was reset; masked.
    """

    values: Mapping[str, str]
    addresses: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()
    versions: Mapping[str, str]
    logs: Callable[[], Awaitable[Mapping[str, bytes]]] = _no_logs
    use: int = 1
    note: str = ""


@asynccontextmanager
async def open_stack(
    roles: Sequence[RoleChoice],
    backends: Mapping[str, BackendSpec],
    *,
    runtime: Runtime | None,
    scope: Scope,
    masker: Masker,
    progress: Progress,
    subject: str,
    state: Path,
) -> AsyncIterator[Stack]:
    """Stands up every role's backend, all at once, and takes them down at the end, however it ends.

    Args:
        roles: What to stand up; none gives an empty stack.
        backends: By name.
        runtime: "docker" or "process".
        masker: Learns every secret before it is used.
        subject: What progress is reported about.
        state: The project's folder for what is kept (.rollcall).
    Raises:
        StackError: One could not be stood up, or what was stood up could not be removed. Masked.
    """
    if not roles:
        yield Stack(values={}, versions={})
        return
    standing = Backends(
        roles, backends, runtime=runtime, scope=scope, masker=masker, progress=progress, subject=subject, state=state
    )
    failed = True
    try:
        await standing.open()
        yield standing.stack(roles, masker)
        failed = False
    finally:
        left = await standing.close()
        if left and failed:
            progress.note(subject, f"not removed: {left}")
        elif left:
            raise StackError(f"could not be removed: {left}", hint="mcp-rollcall reap")


class Backends:
    """The backends of one choice, from nothing to gone; some can be made as good as new in between.

    Args:
        masker: Learns every secret before it is used.
    """

    def __init__(
        self,
        roles: Sequence[RoleChoice],
        backends: Mapping[str, BackendSpec],
        *,
        runtime: Runtime | None,
        scope: Scope,
        masker: Masker,
        progress: Progress,
        subject: str,
        state: Path,
    ) -> None:
        self.masker = masker
        self._roles = tuple(roles)
        self._backends = backends
        self._runtime = runtime
        self._scope = scope
        self._progress = progress
        self._subject = subject
        self._state = state
        self._parts: list[_DockerBackend | Embedded] = []
        self._standing: list[Standing] = []

    async def open(self) -> None:
        """Stands all of them up, at once.

        Raises:
            StackError: One does not stand; masked. `close` is still to be called.
        """
        with _told(self.masker):
            self._parts = await self._make()
            self._standing = await _all([part.open for part in self._parts])

    async def _make(self) -> list[_DockerBackend | Embedded]:
        if self._runtime == "process":
            return [
                Embedded(
                    role,
                    self._backends[role.backend],
                    scope=self._scope,
                    masker=self.masker,
                    progress=self._progress,
                    subject=self._subject,
                    state=self._state,
                )
                for role in self._roles
            ]
        builder = _Images(await anyio.to_thread.run_sync(open_engine), self._progress, self._subject)
        return [
            _DockerBackend(
                role,
                self._backends[role.backend],
                images=builder,
                scope=self._scope,
                masker=self.masker,
                progress=self._progress,
                subject=self._subject,
            )
            for role in self._roles
        ]

    async def remember(self) -> None:
        """While they are fresh: what a reset goes back to, and what they must look like then.

        Raises:
            StackError: One cannot be told by its words, or a step failed; masked. They are no longer fresh then.
        """
        with _told(self.masker):
            await _all([part.remember for part in self._parts])

    async def reset(self) -> None:
        """Makes all of them as good as new, with other secrets.

        Raises:
            StackError: One is not; masked. They are of no more use then.
        """
        with _told(self.masker), stage(self._progress, self._subject, f"reset {self._label}"):
            self._standing = await _all([part.reset for part in self._parts])

    @property
    def _label(self) -> str:
        return ", ".join(role.label for role in self._roles)

    def stack(self, roles: Sequence[RoleChoice], masker: Masker, *, use: int = 1, note: str = "") -> Stack:
        """What they hand out to a run, by the names that the run has for them, in the order of ours.

        Args:
            masker: Of the run; it learns their secrets.
        """
        masker.add(*self.masker.secrets)
        return replace(_stack(roles, self._standing, masker), use=use, note=note)

    async def close(self) -> str:
        """Takes everything down, whatever comes, and says what could not be; "" if nothing is left."""
        if not self._parts:
            return ""
        with (
            anyio.CancelScope(shield=True),
            stage(self._progress, self._subject, f"stop {self._label}"),
        ):
            left = await _close_all(self._parts)
        return self.masker.text("; ".join(left))


@contextmanager
def _told(masker: Masker) -> Iterator[None]:
    """Masked StackErrors, one or a group of several; anything else passes. An engine goes away once."""
    try:
        yield
    except StackError as error:
        raise _masked(error, masker) from error.__cause__
    except BaseExceptionGroup as group:
        leaves = list(iterate_errors(group))
        errors = [leaf for leaf in leaves if isinstance(leaf, StackError)]
        if not errors or len(errors) < len(leaves):
            raise
        lost = [error for error in errors if isinstance(error, EngineLost)]
        errors = [error for error in errors if error not in lost[1:]]
        if len(errors) == 1:
            raise _masked(errors[0], masker) from errors[0].__cause__
        raise ExceptionGroup("several backends failed", [_masked(error, masker) for error in errors]) from None


def _masked(error: StackError, masker: Masker) -> StackError:
    log = masker.text(error.log)[-LOG_CHARS:]  # cut here and not where it came from: half a secret cannot be found
    return StackError(masker.text(error.message), hint=masker.text(error.hint), log=log, server=error.server)


async def _all(works: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T]:
    """Does all of it at once."""
    done: dict[int, _T] = {}

    async def one(index: int) -> None:
        done[index] = await works[index]()

    async with anyio.create_task_group() as tasks:
        for index in range(len(works)):
            tasks.start_soon(one, index)
    return [done[index] for index in range(len(works))]


async def _close_all(parts: Sequence[_DockerBackend | Embedded]) -> list[str]:
    """Takes everything down within TEARDOWN_S and says what could not be."""
    left: list[str] = []
    done = 0

    async def one(part: _DockerBackend | Embedded) -> None:
        nonlocal done
        left.extend(await part.close())
        done += 1

    with anyio.move_on_after(TEARDOWN_S):
        async with anyio.create_task_group() as tasks:
            for part in parts:
                tasks.start_soon(one, part)
    if done < len(parts):
        left.append(f"{len(parts) - done} of {len(parts)} backends within {TEARDOWN_S:g} s")
    return left


def _stack(roles: Sequence[RoleChoice], standing: Sequence[Standing], masker: Masker) -> Stack:
    async def logs() -> Mapping[str, bytes]:
        out: dict[str, bytes] = {}
        for role, part in zip(roles, standing, strict=True):
            for name, data in (await part.logs()).items():
                out[f"{role.role}.{name}"] = masker.bytes(data)
        return out

    return Stack(
        values={
            f"backend.{role.role}.{name}": value
            for role, part in zip(roles, standing, strict=True)
            for name, value in part.outputs.items()
        },
        addresses=tuple(address for part in standing for address in part.addresses),
        names=tuple(sorted({name for part in standing for name in part.names})),
        versions={role.label: part.version for role, part in zip(roles, standing, strict=True)},
        logs=logs,
    )


# --- images -------------------------------------------------------------------------------------


async def prepare_images(
    roles: Sequence[RoleChoice], backends: Mapping[str, BackendSpec], *, progress: Progress, subject: str
) -> None:
    """Builds or pulls every image that a choice needs and that is not here.

    Raises:
        StackError: One cannot be had.
    """
    images = _Images(await anyio.to_thread.run_sync(open_engine), progress, subject)
    for role in roles:
        spec = backends[role.backend]
        for service in spec.services:
            await images.get(spec, service, _version(spec, role))


def _version(spec: BackendSpec, role: RoleChoice) -> VersionSpec:
    version = spec.versions.get(role.version)
    if version is None:
        if not spec.services:
            raise StackError(
                f"backend {spec.name} has no form for Docker, only the embedded one",
                hint="use --runtime process for it",
            )
        raise StackError(
            f"backend {spec.name} has no version {role.version!r}", hint=f"it has: {', '.join(spec.versions)}"
        )
    return version


class _Images:
    """Gets images, each once."""

    def __init__(self, engine: Engine, progress: Progress, subject: str) -> None:
        self.engine = engine
        self._progress = progress
        self._subject = subject
        self._lock = anyio.Lock()  # one after the other: a machine has few cores, and two roles may need the same
        self._warned = False

    async def get(self, spec: BackendSpec, service: ServiceSpec, version: VersionSpec) -> str:
        """The name of the image of a service, which is here then."""
        image = version.images.get(service.name) or service.image
        if image is not None:
            where = f"{spec.place}: image of service {service.name!r}"
            image = expanded(image, {"version": version.name}, where=where)
        async with self._lock:
            if service.dockerfile is None or service.name in version.images:
                if image is None:
                    raise StackError(f"{spec.place}: service {service.name!r} has neither dockerfile nor image")
                await self._fetch(image)
                return image
            return await self._build(spec, service, service.dockerfile, version)

    async def _fetch(self, image: str) -> None:
        if await self.engine.image_id(image) is None:
            with stage(self._progress, self._subject, f"pull {image}"):
                await self.engine.pull(image)

    async def _build(self, spec: BackendSpec, service: ServiceSpec, dockerfile: str, version: VersionSpec) -> str:
        folder = spec.folder / service.context
        try:
            text = (folder / dockerfile).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise StackError(f"{spec.place}: {folder / dockerfile} cannot be read: {error}") from None
        where = f"{spec.place}: build arguments of service {service.name!r}"
        args = {
            key: expanded(value, {"version": version.name}, where=where)
            for key, value in {**service.build_args, **version.build_args}.items()
        }
        bases = base_images(text, args)
        ids = [await self.engine.image_id(base) or "" for base in bases]
        mark = await anyio.to_thread.run_sync(partial(image_fingerprint, folder, dockerfile, args, ids))
        tag = f"{REPOSITORY}/{spec.name}-{service.name}:{version.name}-{mark}".lower()
        if await self.engine.image_id(tag) is not None:
            return tag
        async with _alone(tag, self._progress, self._subject):
            if await self.engine.image_id(tag) is None:  # else another process built it meanwhile
                await self._build_as(tag, spec, version, folder, dockerfile, args, bases)
        if await self.engine.image_id(tag) is None:
            raise StackError(f"the image of {folder / dockerfile} was built, and is not there")
        return tag

    async def _build_as(
        self,
        tag: str,
        spec: BackendSpec,
        version: VersionSpec,
        folder: Path,
        dockerfile: str,
        args: Mapping[str, str],
        bases: Sequence[str],
    ) -> None:
        trouble = None if self._warned else credential_trouble()
        if trouble is not None:
            self._warned = True
            self._progress.note(self._subject, f"warning: {trouble}; local images are built without")
        for base in bases:
            await self._fetch(base)
        what = f"build image {spec.name}@{version.name}"
        latest = [""]

        async def tell() -> None:
            while True:
                await anyio.sleep(TELL_EVERY_S)
                self._progress.waiting(self._subject, what, latest[0])

        with stage(self._progress, self._subject, what):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tell)
                await self.engine.build(
                    folder,
                    dockerfile,
                    tag=tag,
                    args=args,
                    labels={f"{LABEL}backend": spec.name},
                    seen=partial(latest.__setitem__, 0),
                )
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def _alone(tag: str, progress: Progress, subject: str) -> AsyncIterator[None]:
    """Of several processes that need one image, one builds it, and the others wait.

    The lock is a name that one process can bind (Linux, `unix(7)`): it goes with its process and leaves no file. Where
    there is no such name, or whoever has it takes too long, the image may be built twice, which is only slow.
    """
    name = f"\0rollcall-image-{os.getuid()}-{hashlib.sha256(tag.encode()).hexdigest()[:32]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        with anyio.move_on_after(ALONE_S):
            while sys.platform == "linux":
                try:
                    lock.bind(name)
                    break
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        break
                    progress.waiting(subject, "image", f"another process builds {tag}")
                    await anyio.sleep(TELL_EVERY_S)
        yield


def _script_target(number: int, step: ProvisionSpec) -> str:
    """Where the script of a provisioning step is in its container."""
    return f"/rollcall/{number}/{PurePosixPath(step.script or '').name}"


# --- one backend in Docker ----------------------------------------------------------------------


class _DockerBackend:
    """One backend in containers, from nothing to gone."""

    def __init__(
        self,
        role: RoleChoice,
        spec: BackendSpec,
        *,
        images: _Images,
        scope: Scope,
        masker: Masker,
        progress: Progress,
        subject: str,
    ) -> None:
        self._role = role
        self._spec = spec
        self._images = images
        self._engine = images.engine
        self._scope = scope
        self._masker = masker
        self._progress = progress
        self._subject = subject
        self._id = token_hex(6)
        self._network = f"rollcall-{self._id}"
        self._folder = scope.tmp / f"{STACK_FOLDER}{self._id}"
        self._labels = {**scope.labels, f"{LABEL}stack": self._id, f"{LABEL}role": role.role}
        self._values: dict[str, str] = {"version": role.version, "$": "$"}  # a compose file may hold "$${HOME}"
        self._containers: dict[str, str] = {}  # service -> container
        self._addresses: dict[str, tuple[str, int]] = {}  # port name -> address
        self._done: dict[str, anyio.Event] = {}
        self._images_of: dict[str, str] = {}
        self._began = False
        self._resetting: Resetting | None = None
        self._reset_at: float | None = None  # since then the variables of the containers are not those they began with

    async def open(self) -> Standing:
        """Stands it up.

        Raises:
            StackError: It does not stand; `close` is still to be called.
        """
        spec = self._spec
        version = _version(spec, self._role)
        if not spec.services:
            raise StackError(f"{spec.place}: backend {spec.name} has no services to run in Docker")
        for service in spec.services:
            self._images_of[service.name] = await self._images.get(spec, service, version)
        self._values |= make_secrets(spec, self._masker)
        self._values |= {f"service.{service.name}": service.name for service in spec.services}
        self._done = {service.name: anyio.Event() for service in spec.services}
        with stage(self._progress, self._subject, f"start {self._role.label}"):
            self._began = True  # from here on there may be something to remove
            with anyio.CancelScope(shield=True):  # a request that left must have its answer before we clean up
                await self._engine.create_network(self._network, self._labels)
            async with anyio.create_task_group() as tasks:
                for service in spec.services:
                    tasks.start_soon(self._bring_up, service, self._images_of[service.name])
            await self._provision()
        return self._standing()

    def _standing(self) -> Standing:
        return Standing(
            outputs=make_outputs(self._spec, self._values, self._masker),
            addresses=tuple(self._addresses.values()),
            names=tuple(service.name for service in self._spec.services),
            version="",
            logs=self._logs,
        )

    async def remember(self) -> None:
        """See `Backends.remember`."""
        reset = self._spec.reset
        if reset is None:
            raise StackError(f"{self._spec.place}: it has no [reset]")
        self._resetting = Resetting(
            name=self._spec.name,
            spec=reset,
            masker=self._masker,
            execute=self._execute,
            addresses=tuple(self._addresses.values()),
        )
        await self._resetting.remember(self._values)

    async def reset(self) -> Standing:
        """See `Backends.reset`."""
        resetting = self._resetting
        if resetting is None:
            raise StackError(f"{self._spec.name}: it was not made ready to be reset")
        await self._all_run("stopped while a run used it")
        before = former(self._spec, self._values)
        self._values |= make_secrets(self._spec, self._masker)
        self._reset_at = time.time()
        await resetting.renew({**self._values, **before})
        for service in self._spec.services:
            if not service.init:
                await self._wait(service, self._images_of[service.name])
        await self._provision()
        await resetting.prove(self._values)
        self._reset_at = time.time()
        return self._standing()

    async def _execute(self, service: str | None, argv: Sequence[str]) -> tuple[int | None, bytes, bytes]:
        name = service or self._spec.services[0].name
        done = await self._engine.execute(self._containers[name], argv, env=self._present(name))
        return done.code, done.out, done.err

    def _present(self, name: str) -> dict[str, str]:
        """After a reset, the variables of a service by the present secrets: its container has the first ones."""
        if self._reset_at is None:
            return {}
        service = next(item for item in self._spec.services if item.name == name)
        where = f"{self._spec.name}: service {name!r}"
        env = {key: expanded(value, self._values, where=f"{where} env {key}") for key, value in service.env.items()}
        self._masker.add(*(value for key, value in env.items() if is_secret_name(key)))
        return env

    async def _all_run(self, how: str) -> None:
        for service in self._spec.services:
            if not service.init and (state := await self._state(service)).ended:
                raise await self._failure(service, how, state)

    async def _provision(self) -> None:

        async def run_script(
            number: int, step: ProvisionSpec, env: Mapping[str, str]
        ) -> tuple[int | None, bytes, bytes]:
            container = self._containers[self._service_of(step)]
            try:
                own = {**self._present(self._service_of(step)), **env}
                done = await self._engine.execute(container, [_script_target(number, step)], env=own)
            except EngineRefused as error:
                raise StackError(
                    f"{self._spec.name}: provisioning step {number}: {step.script} cannot be run in service "
                    f"{self._service_of(step)!r}: {error.said}",
                    hint="is what its first line names in the image?",
                ) from None
            return done.code, done.out, done.err

        try:
            self._values |= await provision(
                self._spec,
                self._values,
                allowed=self._addresses.values(),
                masker=self._masker,
                execute=self._execute,
                run_script=run_script,
            )
        except StackError as error:
            raise await self._with_states(error) from error.__cause__
        await self._all_run("stopped again after it was ready")

    def _service_of(self, step: ProvisionSpec) -> str:
        return step.service or self._spec.services[0].name

    async def _with_states(self, error: StackError) -> StackError:
        """The error of a provisioning step, with what became of the containers and the last lines of their logs."""
        log = [error.log] if error.log else []
        for service in self._spec.services:
            state = await self._state(service)
            tail = await self._tail(service)
            log.append(f"--- service {service.name} ({state})\n{tail}")
        return StackError(error.message, hint=error.hint, log="\n".join(log))

    async def _bring_up(self, service: ServiceSpec, image: str) -> None:
        for need in service.needs:
            await self._done[need].wait()
        where = f"{self._spec.name}: service {service.name!r}"
        env = {key: expanded(value, self._values, where=f"{where} env {key}") for key, value in service.env.items()}
        self._masker.add(*(value for key, value in env.items() if is_secret_name(key)))
        command = None
        if service.command is not None:
            command = [expanded(part, self._values, where=f"{where} command") for part in service.command]
        entrypoint = None
        if service.entrypoint is not None:
            entrypoint = [expanded(part, self._values, where=f"{where} entrypoint") for part in service.entrypoint]
        mounts = await anyio.to_thread.run_sync(self._copy_mounts, service)
        with anyio.CancelScope(shield=True):
            container = await self._engine.create_container(
                f"{self._network}-{service.name}",
                image,
                alias=service.name,
                network=self._network,
                labels={**self._labels, f"{LABEL}service": service.name},
                env=env,
                command=command,
                ports=tuple(service.ports.values()),
                mounts=mounts,
                tmpfs=service.tmpfs,
                volumes=[(volume.name and f"{self._network}-{volume.name}", volume) for volume in service.volumes],
                entrypoint=entrypoint,
                user=service.user,
                working_dir=service.working_dir,
            )
        self._containers[service.name] = container
        try:
            with anyio.CancelScope(shield=True):
                await self._engine.start(container, service.name)
        except EngineRefused as error:
            raise await self._failure(
                service, f"could not be started: {error.said}", await self._state(service)
            ) from error
        if service.init:
            await self._finish(service)
        else:
            await self._publish(service)
            await self._wait(service, image)
        self._done[service.name].set()

    def _copy_mounts(self, service: ServiceSpec) -> dict[str, Path]:
        """Copies that any user in a container can read, whatever this user's umask is."""
        out: dict[str, Path] = {}
        scripts = {
            _script_target(number, step): step.script
            for number, step in enumerate(self._spec.provision, start=1)
            if step.script is not None and self._service_of(step) == service.name
        }
        for index, (target, name) in enumerate([*service.mounts.items(), *scripts.items()]):
            source, copy = self._spec.folder / name, self._folder / service.name / str(index)
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                if source.is_dir():
                    shutil.copytree(source, copy)
                else:
                    shutil.copyfile(source, copy)
                    copy.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
            except OSError as error:
                raise StackError(f"{self._spec.place}: {source} cannot be mounted: {error}") from None
            for path in [copy, *copy.rglob("*")]:
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            if target in scripts:  # a wheel knows no bit for it
                copy.chmod(0o755)
            out[target] = copy
        return out

    async def _publish(self, service: ServiceSpec) -> None:
        """Takes down where the ports are published; nowhere but on 127.0.0.1."""
        began = time.monotonic()
        while True:
            state = await self._state(service)
            if state.ended:
                raise await self._failure(service, "ended", state)
            public = [
                f"{binding.host}:{binding.port}"
                for bindings in state.ports.values()
                for binding in bindings
                if binding.host != "127.0.0.1"
            ]
            if public:
                raise StackError(
                    f"{self._spec.name}: service {service.name!r} was published on {', '.join(public)}; "
                    "only 127.0.0.1 was asked for, so it is removed",
                    hint="is this engine configured to publish ports elsewhere?",
                )
            if all(state.ports.get(port) for port in service.ports.values()):
                break
            if time.monotonic() - began > BINDING_S:
                raise await self._failure(service, f"had no published ports after {BINDING_S:g} s", state)
            await anyio.sleep(0.05)
        for name, port in service.ports.items():
            address = ("127.0.0.1", state.ports[port][0].port)
            self._addresses[name] = address
            self._values[f"address.{name}"] = f"{address[0]}:{address[1]}"
            self._values[f"port.{name}"] = str(address[1])

    async def _wait(self, service: ServiceSpec, image: str) -> None:
        probe = await self._probe(service, image)
        what = f"start {self._role.label}"

        async def watch() -> str | None:
            state = await self._state(service)
            return str(state) if state.ended else None

        waited = await wait_ready(
            probe,
            watch,
            timeout_s=service.ready_timeout_s,
            seen=lambda text: self._progress.waiting(self._subject, what, self._masker.text(f"{service.name}: {text}")),
        )
        if waited.ready:
            return
        state = await self._state(service)
        if waited.ended is not None:
            how = f"ended after {waited.seconds:.1f} s while we waited until it is ready"
        else:
            how = f"was not ready within {service.ready_timeout_s:g} s"
        raise await self._failure(service, how, state, observation=waited.observation)

    async def _probe(self, service: ServiceSpec, image: str) -> Probe:
        ready = service.ready
        where = f"{self._spec.name}: service {service.name!r} ready"
        container = self._containers[service.name]

        async def run(argv: Sequence[str]) -> tuple[int | None, str]:
            try:
                done = await self._engine.execute(container, argv, env=self._present(service.name))
            except EngineRefused as error:
                return None, error.said
            return done.code, (done.out + done.err).decode("utf-8", "backslashreplace")

        if ready is not None and ready.exec is not None:
            argv = [expanded(part, self._values, where=where) for part in ready.exec]
            return command_probe(argv, run, self._masker)
        if ready is not None and not ready.image:
            try:
                return network_probe(ready, self._addresses, self._values, self._masker)
            except UnknownPlaceholder as error:
                raise StackError(f"{where}: ${{{error.args[0]}}} has no value") from None
            except KeyError as error:
                raise StackError(f"{where}: there is no port {error.args[0]!r}") from None
        own = await self._engine.image_check(image)
        if own is not None:
            return command_probe(own, run, self._masker)
        if ready is not None:
            raise StackError(f"{where}: image {image} has no HEALTHCHECK", hint="give `ready` another check")
        if service.ports:
            raise StackError(f"{where}: nothing says when it is ready", hint="an open port is not enough; add `ready`")

        async def runs() -> Observation:
            state = await self._state(service)
            return Observation(state.status == "running", str(state))

        return runs

    async def _finish(self, service: ServiceSpec) -> None:
        """Waits for a one-shot service; it must exit 0."""
        with anyio.move_on_after(service.ready_timeout_s):
            while not (state := await self._state(service)).ended:
                await anyio.sleep(EVERY_S / 2)
            if state.exit_code != 0:
                raise await self._failure(service, "(a one-shot service) failed", state)
            return
        raise await self._failure(
            service,
            f"(a one-shot service) had not ended after {service.ready_timeout_s:g} s",
            await self._state(service),
        )

    async def _state(self, service: ServiceSpec) -> ContainerState:
        removed = f"{self._spec.name}: the container of service {service.name!r} was removed by somebody else"
        try:
            state = await self._engine.state(self._containers[service.name])
        except EngineRefused as error:
            if error.status == 404:
                raise StackError(removed) from None
            raise
        if state.removed:
            raise StackError(removed)
        return state

    async def _tail(self, service: ServiceSpec) -> str:
        data = self._masker.bytes(await self._engine.logs(self._containers[service.name], lines=LOG_READ_LINES))
        return "".join(data.decode("utf-8", "backslashreplace").splitlines(keepends=True)[-LOG_TAIL_LINES:])

    async def _failure(
        self, service: ServiceSpec, how: str, state: ContainerState, *, observation: str = ""
    ) -> StackError:
        message = f"{self._role.label}: service {service.name!r} {how}."
        if observation:
            message += f" Last seen: {observation}."
        return StackError(f"{message} Its container is {state}.", log=await self._tail(service))

    async def _logs(self) -> Mapping[str, bytes]:
        return {
            name: await self._engine.logs(container, since=self._reset_at)
            for name, container in self._containers.items()
        }

    async def close(self) -> list[str]:
        """Removes everything that bears our label, and says what could not be."""
        left: list[str] = []
        if self._began:
            label = f"{LABEL}stack={self._id}"
            for attempt in range(3):
                left = []
                try:
                    things = await self._engine.things(label)
                    for kind in ("container", "network", "volume"):
                        async with anyio.create_task_group() as tasks:
                            for thing in things:
                                if thing.kind == kind:
                                    tasks.start_soon(self._engine.remove, thing)
                    things = await self._engine.things(label)
                    left = [f"{thing.kind} {thing.name}" for thing in things]
                except* StackError as group:
                    left = [str(error) for error in iterate_errors(group)]
                if not left:
                    break
                await anyio.sleep(0.3 * (attempt + 1))
        await anyio.to_thread.run_sync(partial(shutil.rmtree, self._folder, ignore_errors=True))
        return left
