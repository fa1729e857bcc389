"""What a recording proxy noted, written down as a transcript by a process of its own, which outlives the proxy.

It reads the proxy's journal at its own pace: however much comes, memory holds one line, and the rest waits in a file.
Where the proxy is gone without having said how the server ended, it was killed: the server is ended too, and the
transcript has no end.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.engine.lines import CUT_KEEP_BYTES, LINES_LIMIT, STDERR_TAIL_BYTES, STDOUT_LIMIT_BYTES, LineSplitter
from harness.engine.mask import Masker, is_secret_name
from harness.engine.record import Recorder
from harness.model.journal import BEGAN, CLIENT_CLOSED, ENDED, ENTRY, FROM_CLIENT, STDERR
from harness.model.session import SessionSpec
from harness.model.transcript import (
    BODIES_DIR,
    Diagnostic,
    Exited,
    Spawned,
    Truncated,
)

__all__ = ["Labels", "record", "record_refusal", "write_run"]

READ_BYTES = 1024 * 1024
GATHER_S = 0.02  # so long more is waited for, once something came: one wake for many lines
PARSED_BYTES = 64 * 1024  # a longer line is not parsed for its label
NEAR_BYTES = 4096  # in which its method and id are looked for
FREED_BYTES = 64 * 1024 * 1024
MAX_OPEN = 10_000  # requests whose labels are kept

_METHOD = re.compile(rb'"method"\s*:\s*"([^"\\]{1,200})"')
_NAME = re.compile(rb'"(?:name|uri)"\s*:\s*"([^"\\]{1,200})"')
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,20}|"[^"\\]{0,200}")')
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def record(
    journal: int,
    ear: int,
    asleep: Any,
    folder: str,
    name: str,
    server: str,
    session: SessionSpec | None,
) -> int:
    """Writes the transcript until the proxy is gone and all that it noted is written.

    Args:
        journal: The file; `ear` is a pipe whose other end the proxy holds, and rings when the first byte of `asleep`
            is 1. The second is 1 where the proxy could not note more.
        folder: Of the attempt; `name` is the transcript's.
        server: Its name, for the run.json of a recording that stands alone.
    Returns:
        The exit code of this process.
    """
    tape = _Tape(Path(folder), name, server, session)
    position, alive = 0, True
    while alive:
        asleep[0] = 1
        if os.fstat(journal).st_size <= position:
            alive = bool(os.read(ear, 4096))
        asleep[0] = 0
        if alive and select.select([ear], [], [], GATHER_S)[0]:
            alive = bool(os.read(ear, 4096))
        position = _read(journal, position, tape)
    position = _read(journal, position, tape)
    tape.close(broke_off=bool(asleep[1]))
    return 0


def _read(journal: int, position: int, tape: _Tape) -> int:
    """Hands on all whole entries from a position on; gives the new one."""
    freed = position
    while True:
        data = os.pread(journal, READ_BYTES, position)
        taken = 0
        while len(data) - taken >= ENTRY.size:
            kind, when, size = ENTRY.unpack_from(data, taken)
            if len(data) - taken - ENTRY.size < size:
                break
            begin = taken + ENTRY.size
            try:
                tape.take(kind, when, data[begin : begin + size])
            except Exception as error:  # the server is watched all the same, and the record says it
                tape.stumble(error)
            taken = begin + size
        if not taken:
            return position
        position += taken
        if position - freed > FREED_BYTES:
            _free(journal, freed, position - freed)
            freed = position


def _free(file: int, begin: int, size: int) -> None:
    """Gives the pages of what was read back to the disk, where the system can do that."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        punch_and_keep_size = 0x02 | 0x01
        libc.fallocate(file, punch_and_keep_size, ctypes.c_long(begin), ctypes.c_long(size))
    except (OSError, AttributeError, ImportError):
        return


class Labels:
    """What the lines of a dialogue are for, as our own session would say: worked out from the frames alone.

    Attributes:
        last: Label of the last request.
        hello: The result of initialize or server/discover, and the era that it is of.
    """

    def __init__(self) -> None:
        self.last: str | None = None
        self.hello: tuple[str, dict[str, Any]] | None = None
        self._open: dict[str, str] = {}
        self._asked: dict[str, str] = {}

    @property
    def in_flight(self) -> tuple[str, ...]:
        """Labels of the requests that are open."""
        return tuple(self._open.values())

    def sent(self, line: bytes) -> str:
        """The label of a line of the client's."""
        for message in _messages(line):
            method, identity = message.get("method"), message.get("id")
            if not isinstance(method, str):
                return f"answer to {self._asked.pop(_key(identity), '?')}"
            name = message.get("name", "")
            label = f"{method} {name}" if name else method
            if identity is not None:
                self._open[_key(identity)] = self.last = label
                if len(self._open) > MAX_OPEN:
                    del self._open[next(iter(self._open))]
            elif method == "notifications/cancelled":
                self._open.pop(_key(message.get("cancels")), None)
            return label
        return "?"

    def lost(self, identity: int | str) -> None:
        """Nobody waits any more for the answer to the request with this id."""
        self._open.pop(_key(identity), None)

    def received(self, line: bytes) -> None:
        """Notes what a line of the server's answers or asks."""
        for message in _messages(line):
            method, identity = message.get("method"), message.get("id")
            if isinstance(method, str):
                if identity is not None and len(self._asked) < MAX_OPEN:
                    self._asked[_key(identity)] = method
                continue
            label = self._open.pop(_key(identity), "")
            result = message.get("result")
            if label in ("initialize", "server/discover") and isinstance(result, dict):
                self.hello = ("handshake" if label == "initialize" else "modern", result)


def _key(identity: Any) -> str:
    return json.dumps(identity) if isinstance(identity, str | int | float) else "?"


def _messages(line: bytes) -> Iterator[dict[str, Any]]:
    """What a line says of itself: method, id, result, the name of what it is about, what it cancels."""
    if len(line) > PARSED_BYTES:
        yield from _glimpse(line)
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return
    for message in value if isinstance(value, list) else [value]:
        if not isinstance(message, dict):
            continue
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        method = message.get("method")
        name = params.get(_NAMED.get(method, "")) if isinstance(method, str) else None
        yield {**message, "name": name if isinstance(name, str) else "", "cancels": params.get("requestId")}


def _glimpse(line: bytes) -> Iterator[dict[str, Any]]:
    """The same of a long line, from its beginning and its end: nobody needs it exactly."""
    near = line[:NEAR_BYTES] + b"\n" + line[-NEAR_BYTES:]
    method, identity = _METHOD.search(near), _ID.search(near)
    if identity is None:
        return
    try:
        found: dict[str, Any] = {"id": json.loads(identity[1])}
    except ValueError:  # 007, or a text that is not UTF-8: its spelling names it as well
        found = {"id": identity[1].decode("utf-8", "backslashreplace")}
    if method is not None:
        found["method"] = method[1].decode("utf-8", "replace")
        name = _NAME.search(near) if found["method"] in _NAMED else None
        found["name"] = name[1].decode("utf-8", "replace") if name is not None else ""
    yield found


class _Tape:
    """One server process as the journal tells of it."""

    def __init__(self, folder: Path, name: str, server: str, session: SessionSpec | None) -> None:
        self.folder, self.server, self.session = folder, server, session
        self.labels = Labels()
        self.now = 0.0
        secrets = () if session is not None else (v for k, v in os.environ.items() if is_secret_name(k))
        self.masker = Masker(session.secrets if session is not None else secrets)
        self.recorder: Recorder | None = None
        self.ended: dict[str, Any] | None = None
        self.spawned: dict[str, Any] = {}
        self._path = folder / name
        self._watched = -1  # a descriptor of the server's process
        self._silent = not folder.is_dir()  # nothing can be written; the server is watched all the same
        self._to, self._from = LineSplitter(), LineSplitter()
        self._stderr = bytearray()
        self._stderr_size = 0
        self._lines = self._bytes = 0
        self._full = False
        self._closed_at: float | None = None

    def take(self, kind: int, when: float, data: bytes) -> None:
        """One entry of the journal."""
        self.now = when
        if kind == BEGAN:
            self._began(json.loads(data))
        elif kind == ENDED:
            self.ended = json.loads(data)
        elif kind == CLIENT_CLOSED:
            self._closed_at = when
        elif kind == STDERR:
            self._stderr_size += len(data)
            self._stderr += data
            if len(self._stderr) > 4 * STDERR_TAIL_BYTES:
                del self._stderr[: -2 * STDERR_TAIL_BYTES]
        elif self.recorder is not None and not self._full:
            self._bytes += len(data)
            (self._sent if kind == FROM_CLIENT else self._received)(data)
            if self._lines > LINES_LIMIT or self._bytes > STDOUT_LIMIT_BYTES:
                self._cut(f"over {LINES_LIMIT} lines or {STDOUT_LIMIT_BYTES} bytes came")

    def _began(self, facts: dict[str, Any]) -> None:
        self.spawned = facts
        with suppress(OSError, AttributeError):
            self._watched = os.pidfd_open(facts["pid"])
        if self._silent:
            return
        began = self.session.began if self.session is not None else self.now
        with suppress(OSError):
            self.recorder = Recorder(
                self._path,
                bodies=self.folder / BODIES_DIR,
                masker=self.masker,
                began=began,
                clock=lambda: self.now,
            )
            argv, env = tuple(facts["argv"]), tuple(facts["env"])
            self.recorder.add(Spawned, argv=argv, cwd=facts["cwd"], env=env, pid=facts["pid"])

    def _sent(self, data: bytes) -> None:
        assert self.recorder is not None
        for _, line in self._to.feed(data):
            self._lines += 1
            self.recorder.sent(line, self.labels.sent(line))
        if self._to.cut:
            self._cut("a line of the client's is longer than the limit")

    def _received(self, data: bytes) -> None:
        for at, line in self._from.feed(data):
            self._lines += 1
            self._line(line, at, "lf")
            self.labels.received(line)
        if self._from.cut:
            self._line(self.masker.bytes(self._from.rest(2 * CUT_KEEP_BYTES))[:CUT_KEEP_BYTES], self._from.at, "cut")
            self._cut("a line on stdout is longer than the limit")

    def _line(self, line: bytes, at: int, end: str) -> None:
        assert self.recorder is not None
        flying = self.labels.in_flight
        self.recorder.received(line, at, end, flying, None if flying else self.labels.last)

    def _cut(self, reason: str) -> None:
        """No more is recorded; all of it is handed on as before."""
        assert self.recorder is not None
        self._full = True
        self.recorder.add(Truncated, reason=f"{reason}; the rest was not recorded")

    def stumble(self, error: Exception) -> None:
        """The recorder has a fault of its own: no more is recorded but the server's end, and that is said."""
        if self.recorder is not None and not self._full:
            self._cut(f"the recorder failed: {type(error).__name__}: {error}")

    def close(self, *, broke_off: bool) -> None:
        """The end of the transcript, if the server's is known; else the server is ended."""
        if self.ended is None and self._watched >= 0:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._watched, signal.SIGKILL)
                os.killpg(self.spawned["pid"], signal.SIGKILL)
        if self.recorder is None:
            return
        if self.ended is not None:
            self._write_end(self.ended)
        elif broke_off and not self._full:
            self._cut("there was no room for more")
        self.recorder.close()
        if self.session is None:
            self._finish()

    def _write_end(self, ended: dict[str, Any]) -> None:
        assert self.recorder is not None
        if not self._full:
            if self._to.size:
                self.recorder.sent(self._to.rest(), self.labels.sent(self._to.rest()))
            if self._from.size:
                self._line(self._from.rest(), self._from.at, "none")
        self.recorder.stderr(bytes(self._stderr), self._stderr_size, limit=STDERR_TAIL_BYTES)
        asked = bool(ended["ended_by"])
        waited = self.now - self._closed_at if self._closed_at is not None and asked else 0.0
        self.recorder.add(
            Exited,
            code=ended["code"],
            asked=asked,
            ended_by=ended["ended_by"] or "itself",
            waited_s=round(max(0.0, waited), 3),
            in_flight=self.labels.in_flight,
        )

    def _finish(self) -> None:
        outcome = "finished" if self.ended is not None else "interrupted"
        command = self.spawned.get("argv", ())
        write_run(self.folder, self.server, self.labels, self.masker, command=command, outcome=outcome)


def write_run(
    folder: Path, server: str, labels: Labels, masker: Masker, *, command: Sequence[str], outcome: str
) -> None:
    """run.json of a recording that stands alone: it has no plan, and counts for none."""
    from harness.model.plan import Era, RunKey
    from harness.model.transcript import DONE_FILE, RUN_FILE, RunRecord, record_to_json
    from harness.model.whole import write_whole

    era, hello = labels.hello or ("handshake", {})
    info, capabilities = hello.get("serverInfo"), hello.get("capabilities")
    if era == "modern" and not isinstance(info, dict):
        meta = hello.get("_meta")
        info = meta.get("io.modelcontextprotocol/serverInfo") if isinstance(meta, dict) else None
    protocol = hello.get("protocolVersion", "2026-07-28" if era == "modern" else "")
    spoken: Era = "modern" if era == "modern" else "handshake"
    record = RunRecord(
        key=RunKey(server=server, backend="unknown", era=spoken, profile="unknown"),
        plan="",
        runtime=None,
        server_info=masker.json(info) if isinstance(info, dict) else {},
        protocol=masker.text(protocol) if isinstance(protocol, str) else "",
        capabilities=masker.json(capabilities) if isinstance(capabilities, dict) else {},
        outcome="finished" if outcome == "finished" else "interrupted",
        command=tuple(map(masker.text, command)),
    )
    text = json.dumps(record_to_json(record), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    with suppress(OSError):
        write_whole(folder / RUN_FILE, text.encode("utf-8", "backslashreplace"))
        write_whole(folder / DONE_FILE, b"")


def record_refusal(folder: str, name: str, session: SessionSpec, refused: Sequence[str]) -> None:
    """A transcript that says why a server was not started."""
    masker = Masker(session.secrets)
    path = Path(folder)
    with suppress(OSError):
        recorder = Recorder(path / name, bodies=path / BODIES_DIR, masker=masker, began=session.began)
        recorder.add(Diagnostic, what="refused", detail="\n".join(refused))
        recorder.close()
