"""Lends the stacks of one process to others: in a rollout to the children, each of which runs one repository.

Whoever leads the pass stands stacks up, resets them and takes them down, so that one may serve several repositories.
A child asks for each of its runs, over a Unix socket in a folder that only its owner may enter: one connection is one
stack that is lent. It says how its run ended before it gives the stack back; a connection that breaks says nothing of
that, so the stack is thrown away. A line of JSON is a message, `id` tells which question an answer is to.
"""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from harness.engine.lend import Kind, Lender, Lent, Stacks, can_be_reset, kind_of
from harness.engine.mask import Masker
from harness.engine.scope import Scope, open_scope
from harness.engine.stack import Stack
from harness.errors import StackError, error_from_json, error_to_json, iterate_errors, world_error
from harness.model.plan import BackendSpec, RoleChoice, Runtime
from harness.model.progress import Progress

__all__ = ["Borrowed", "Order", "lending"]

MAX_PATH_BYTES = 60  # of the folder for temporary ones: with what we add it must fit into the address of a socket
BACKLOG = 64  # a rollout has far fewer children at a time
CONNECT_S = 10.0
AGAIN_S = 0.05
CHUNK_BYTES = 256 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024  # the logs of all services of a stack, in base64

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody who asks may have a stack of.

    Attributes:
        backends: As the lender knows them.
        wanted: Whether anybody else may want the same, by its kind.
    """

    backends: Mapping[str, BackendSpec]
    wanted: Callable[[Kind], bool]


# --- the side that has the stacks -------------------------------------------------------------------


@asynccontextmanager
async def lending(stacks: Stacks, scope: Scope, *, orders: Callable[[str], Order | None]) -> AsyncIterator[str]:
    """Lends stacks until it is left; gives the address to ask at.

    A cancellation does not end it: those who have stacks come to their own end first, and are waited for by whoever
    started them. What is still lent when it is left is thrown away.

    Args:
        scope: Of the stacks.
        orders: What the one with this name may have; None: nothing.
    """
    with ExitStack() as undo:
        short = len(os.fsencode(scope.tmp)) < MAX_PATH_BYTES
        folder = scope.tmp if short else undo.enter_context(open_scope(Path("/tmp"))).tmp
        address = str(folder / f"lend-{token_hex(4)}")
        listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
        async with anyio.create_task_group() as tasks:
            shield = anyio.CancelScope(shield=True)

            async def serve() -> None:
                with shield:
                    await _Counter(stacks, orders).serve(listener)

            tasks.start_soon(serve)
            try:
                yield address
            finally:
                shield.cancel()


@dataclass(slots=True)
class _Counter:
    stacks: Stacks
    orders: Callable[[str], Order | None]

    async def serve(self, listener: socket.socket) -> None:
        """Takes connections until it is cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(listener)
                try:
                    tasks.start_soon(self._serve_one, listener.accept()[0])
                except OSError:  # whoever knocked is gone, or there is no room at present
                    await anyio.sleep(AGAIN_S)

    async def _serve_one(self, link: socket.socket) -> None:
        """One connection: one stack. What comes of it was told, as far as anybody was there to hear it."""
        with link, suppress(Exception):
            wire = _Wire(link)
            async with anyio.create_task_group() as tasks:
                say, said = anyio.create_memory_object_stream[Json](float("inf"))
                heard, hear = anyio.create_memory_object_stream[Json](16)
                drained = anyio.Event()
                tasks.start_soon(_read, wire, heard, tasks)
                tasks.start_soon(_write, wire, said, drained)
                with say, hear:
                    await self._lend(hear, say)
                await drained.wait()
                tasks.cancel_scope.cancel()

    async def _lend(self, hear: MemoryObjectReceiveStream[Json], say: MemoryObjectSendStream[Json]) -> None:
        asked = await hear.receive()
        latest = asked["id"]
        try:
            roles = [RoleChoice(**item) for item in asked["roles"]]
            runtime: Runtime | None = asked["runtime"]
            order = self.orders(str(asked["for"]))
            kind = _kind(roles, order, runtime)
            if order is None or list(kind) != asked["kind"]:
                say.send_nowait({"id": latest, "none": True})
                return
            masker = Masker()
            wanted = False
            async with self.stacks.lend(
                roles,
                order.backends,
                runtime=runtime,
                masker=masker,
                subject=str(asked["subject"]),
                state=Path(asked["state"]),
                wanted=lambda: wanted or order.wanted(kind),
                once=bool(asked["once"]),
                progress=_Distant(say),
            ) as lent:
                say.send_nowait({"id": latest, "stack": _shown(lent.stack), "secrets": masker.secrets})
                async for message in hear:
                    latest = message["id"]
                    if "back" in message:
                        wanted = bool(message["wanted"])
                        lent.in_peace = bool(message["back"])
                        break
                    logs = {name: base64.b64encode(data).decode() for name, data in (await lent.stack.logs()).items()}
                    say.send_nowait({"id": latest, "logs": logs})
        except Exception as error:
            leaves = [error_to_json(world_error(leaf)) for leaf in iterate_errors(error)]
            say.send_nowait({"id": latest, "errors": leaves})
        else:
            say.send_nowait({"id": latest, "done": True})


def _kind(roles: Sequence[RoleChoice], order: Order | None, runtime: Runtime | None) -> Kind:
    if order is None or not all(role.backend in order.backends for role in roles):
        return ()
    return kind_of(roles, order.backends, runtime)


class _Distant:
    """Progress for the one at the other end, as long as there is one."""

    def __init__(self, say: MemoryObjectSendStream[Json]) -> None:
        self._say = say

    def begin(self, _subject: str, what: str) -> None:
        self._tell("begin", what=what)

    def end(self, _subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        self._tell("end", what=what, ok=ok, seconds=seconds, detail=detail)

    def waiting(self, _subject: str, what: str, detail: str) -> None:
        self._tell("waiting", what=what, detail=detail)

    def note(self, _subject: str, text: str) -> None:
        self._tell("note", text=text)

    def _tell(self, event: str, **words: Any) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._say.send_nowait({"event": event, "words": words})


async def _write(wire: _Wire, said: MemoryObjectReceiveStream[Json], drained: anyio.Event) -> None:
    with said, suppress(OSError):
        async for message in said:
            await wire.send(message)
    drained.set()


async def _read(wire: _Wire, heard: MemoryObjectSendStream[Json], tasks: TaskGroup) -> None:
    with heard, suppress(OSError):
        while True:
            await heard.send(await wire.receive())
    tasks.cancel_scope.cancel()  # who asked is gone


def _shown(stack: Stack) -> dict[str, Any]:
    return {
        "values": dict(stack.values),
        "addresses": [list(address) for address in stack.addresses],
        "names": list(stack.names),
        "versions": dict(stack.versions),
        "use": stack.use,
        "note": stack.note,
    }


class _Wire:
    """Messages over a socket, which whoever made it closes."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._rest = bytearray()

    async def send(self, message: Json) -> None:
        """Sends one.

        Raises:
            OSError: Nobody is at the other end.
        """
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            try:
                data = data[self._link.send(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._link)

    async def receive(self) -> Json:
        """The next one.

        Raises:
            OSError: There will be none.
            ValueError: What came is none.
        """
        seen = 0
        while (end := self._rest.find(b"\n", seen)) < 0:
            seen = len(self._rest)
            if seen > MAX_LINE_BYTES:
                raise ValueError("a message is too long")
            await anyio.wait_readable(self._link)
            with suppress(BlockingIOError):
                data = self._link.recv(CHUNK_BYTES)
                if not data:
                    raise ConnectionResetError("the other end is closed")
                self._rest += data
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        message = json.loads(line)
        return message if isinstance(message, dict) else {}


# --- the side that has the runs ---------------------------------------------------------------------


class Borrowed:
    """Stacks of somebody else, for runs of ours; our own where a backend cannot be reset, or none is to be had there.

    Args:
        address: Where to ask.
        name: Who asks.
        own: Our own stacks.
    """

    def __init__(self, address: str, name: str, *, own: Lender, progress: Progress) -> None:
        self._address = address
        self._name = name
        self._own = own
        self._progress = progress

    @asynccontextmanager
    async def lend(
        self,
        roles: Sequence[RoleChoice],
        backends: Mapping[str, BackendSpec],
        *,
        runtime: Runtime | None,
        masker: Masker,
        subject: str,
        state: Path,
        wanted: Callable[[], bool],
        once: bool = False,
    ) -> AsyncIterator[Lent]:
        """A stack for one run; see `harness.engine.lend.Stacks.lend`."""
        link = self._link(subject) if can_be_reset(roles, backends, runtime) else None
        if link is not None:
            with link:
                answer = await link.ask(
                    {
                        "for": self._name,
                        "roles": [asdict(role) for role in roles],
                        "kind": kind_of(roles, backends, runtime),
                        "runtime": runtime,
                        "subject": subject,
                        "state": str(state),
                        "once": once,
                    }
                )
                if "stack" in answer:
                    masker.add(*answer["secrets"])
                    lent = Lent(_stack(answer["stack"], link, masker))
                    yield lent
                    await link.ask({"back": lent.in_peace, "wanted": wanted()})  # an error before this breaks the link
                    return
            self._progress.note(
                subject, "its backends are not those that the pass has read: it gets a stack of its own"
            )
        async with self._own.lend(
            roles,
            backends,
            runtime=runtime,
            masker=masker,
            subject=subject,
            state=state,
            wanted=wanted,
            once=once,
        ) as lent:
            yield lent

    def _link(self, subject: str) -> _Link | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(CONNECT_S)
            link.connect(self._address)
        except OSError as error:
            link.close()
            self._progress.note(subject, f"no stack can be borrowed: {error}")
            return None
        return _Link(link, self._progress, subject)


class _Link:
    """A connection to whoever has the stacks."""

    def __init__(self, link: socket.socket, progress: Progress, subject: str) -> None:
        self._link = link
        self._wire = _Wire(link)
        self._progress = progress
        self._subject = subject
        self._count = 0

    def __enter__(self) -> Self:
        """The link itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Breaks the connection, if there is one."""
        self._link.close()

    async def ask(self, question: Json) -> Json:
        """The answer; what is told in the meantime is handed on.

        Raises:
            StackError: Nobody is there to answer.
            HarnessError: What the other side could not do; several in a group.
        """
        self._count += 1
        try:
            await self._wire.send({"id": self._count, **question})
            while True:
                said = await self._wire.receive()
                if "event" in said:
                    getattr(self._progress, said["event"])(self._subject, **said["words"])
                elif said.get("id") == self._count:  # else nobody waits for it any more
                    break
        except OSError:
            raise StackError("whoever lent this stack is gone") from None
        if errors := [error_from_json(item) for item in said.get("errors", ())]:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("a stack", errors)
        return said


def _stack(shown: Json, link: _Link, masker: Masker) -> Stack:
    async def logs() -> Mapping[str, bytes]:
        answer = await link.ask({"logs": True})
        return {name: masker.bytes(base64.b64decode(data)) for name, data in answer["logs"].items()}

    return Stack(
        values=shown["values"],
        addresses=tuple((str(host), int(port)) for host, port in shown["addresses"]),
        names=tuple(shown["names"]),
        versions=shown["versions"],
        logs=logs,
        use=shown["use"],
        note=shown["note"],
    )
