"""Writes the transcript of one server process, event by event, as it happens; masked, numbered, never interpreted.

Each event reaches the file before anybody acts on it, so that a harness which is killed leaves all that it saw. Where
the file cannot be written (a full disk) nothing is raised in the middle of a pipe's callback: what was written stays
whole, nothing more is written, `failed` says why, and whoever listens at `on_failed` ends the server.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.engine.mask import Masker
from harness.model.transcript import (
    INLINE_LIMIT_BYTES,
    SECRET_TOLD,
    Body,
    Diagnostic,
    Event,
    Received,
    Sent,
    Stderr,
    StepEnded,
    StepRef,
    StepStarted,
    event_to_json,
)

__all__ = ["Recorder"]

MAX_LABELS = 1000
_TIME_DIGITS = 6
_BOOL = {True: "true", False: "false"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Recorder:
    """One transcript file.

    Args:
        path: The file; it is made at once.
        bodies: The folder of side files for large bodies.
        began: The run's beginning by `time.monotonic()`.
        clock: What gives the time of an event; of one that is written later, the time at which it happened.
    Attributes:
        failed: Why no more can be written, None while it can.
        on_failed: Called once when that has happened.
    Raises:
        OSError: The file cannot be made.
    """

    def __init__(
        self,
        path: Path,
        *,
        bodies: Path,
        masker: Masker,
        began: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._bodies = bodies
        self._masker = masker
        self._began = began
        self._clock = clock
        self._n = 0
        self.failed: OSError | None = None
        self.on_failed: Callable[[], None] = lambda: None
        self._file = path.open("ab", buffering=0)
        self._whole = 0  # bytes of whole events in the file
        self._step: tuple[StepRef | None, str] = (None, "")
        self._labels: dict[str, str] = {}
        self._secrets = masker.count
        self._given: frozenset[str] = frozenset()  # secrets that the client has told the server itself
        self._hid: bytes | None = None  # the last body, if something in it was masked

    @property
    def count(self) -> int:
        """How many events were written."""
        return self._n

    def close(self) -> None:
        """No more events; closing twice is harmless."""
        self._file.close()

    def add(self, kind: type[Event], **fields: Any) -> None:
        """Writes one event; strings in it are masked, `n` and `t` are set here."""
        body: Body | None = fields.get("body")
        if body is not None:
            fields["body"] = Body(b"")
        out = event_to_json(kind(n=0, t=0.0, **fields))
        parts = [] if body is None else [self._body(body.data)]
        hidden = ("e", "n", "t") if body is None else ("e", "n", "t", "text")
        parts += [f"{_encode(key)}:{_encode(self._masker.json(out[key]))}" for key in out if key not in hidden]
        self._write(kind.e, parts)

    def sent(self, body: bytes, label: str, step: StepRef | None = None, number: int = 1) -> None:
        """A line that goes to the server, without its newline; `number` is its round."""
        parts = [self._body(body), f'"label":{self._text(label)},"round":{number}']
        if step is not None:
            parts.append(self._step_part(step))
        self._write(Sent.e, parts)
        if self._hid is not None:
            self._given |= self._masker.found(self._hid)

    def step_started(
        self,
        step: StepRef,
        *,
        action: str,
        target: str,
        arguments: Mapping[str, Any],
        expect: Mapping[str, Any],
        confirm: bool,
        unlisted: bool,
        free: bool,
        timeout_s: float,
    ) -> None:
        """As `add(StepStarted, …)`, in a fraction of the time; `free` is its `open`."""
        masked = self._masker.json
        parts = [
            self._step_part(step),
            f'"action":"{action}","target":{self._text(target)},"arguments":{_encode(masked(arguments))}',
            f'"expect":{_encode(masked(expect))},"confirm":{_BOOL[confirm]},"unlisted":{_BOOL[unlisted]}',
        ]
        if free:
            parts.append('"open":true')
        parts.append(f'"timeout_s":{timeout_s}')
        self._write(StepStarted.e, parts)

    def step_ended(self, step: StepRef, how: str, detail: str = "") -> None:
        """As `add(StepEnded, …)`, in a fraction of the time."""
        told = _encode(self._masker.text(detail)) if detail else '""'
        self._write(StepEnded.e, [self._step_part(step), f'"how":"{how}"', f'"detail":{told}'])

    def _step_part(self, step: StepRef) -> str:
        if self._step[0] != step:
            self._step = (step, f'"step":{_encode(self._masker.json(dataclasses.asdict(step)))}')
        return self._step[1]

    def received(
        self,
        body: bytes,
        at: int,
        end: str = "lf",
        in_flight: tuple[str, ...] = (),
        after: str | None = None,
        exchange: int | None = None,
    ) -> None:
        """A message that came from the server; `body` is without its newline and is masked here."""
        labels = ",".join(self._texts(in_flight))
        parts = [f'"at":{at},"end":"{end}","in_flight":[{labels}]', self._body(body)]
        if after is not None:
            parts.append(f'"after":{self._text(after)}')
        if exchange is not None:
            parts.append(f'"exchange":{exchange}')
        self._write(Received.e, parts)
        self._told()

    def _told(self) -> None:
        """Notes that what was just written held a secret which the server has from its environment alone."""
        hid, self._hid = self._hid, None
        if hid is not None and self._masker.found(hid) - self._given:
            self.add(Diagnostic, what=SECRET_TOLD, detail="")

    def stderr(self, kept: bytes, size: int, *, limit: int) -> None:
        """The end of stderr, masked before it is cut to `limit` bytes; `size` is how many came in all."""
        self.add(Stderr, body=Body(self._masker.bytes(kept)[-limit:]), size=size)
        self._hid = kept
        self._told()

    def masked(self, data: bytes) -> bytes:
        """The bytes as they may be kept."""
        return self._masker.bytes(data)

    def masked_json(self, value: Any) -> Any:
        """A JSON-like value, or a text, as it may be kept. Whatever is cut is cut after this, never before."""
        return self._masker.json(value)

    def _texts(self, labels: tuple[str, ...]) -> list[str]:
        """As many labels as there are calls under way, for every line that comes."""
        if self._masker.count == self._secrets:
            with suppress(KeyError):
                return [self._labels[label] for label in labels]
        return [self._text(label) for label in labels]

    def _text(self, label: str) -> str:
        """A label, masked and encoded; the same few come again and again."""
        if self._masker.count != self._secrets or len(self._labels) > MAX_LABELS:
            self._labels.clear()
            self._secrets = self._masker.count
        known = self._labels.get(label)
        if known is None:
            known = self._labels[label] = _encode(self._masker.text(label))
        return known

    def _body(self, body: bytes) -> str:
        data = self._masker.bytes(body)
        self._hid = body if data != body else None
        if len(data) > INLINE_LIMIT_BYTES:
            name = hashlib.sha256(data).hexdigest()
            self._keep(self._bodies / name, data)
            return f'"sha256":"{name}","size":{len(data)}'
        try:
            return f'"text":{_encode(data.decode("utf-8"))}'
        except UnicodeDecodeError:
            return f'"b64":"{base64.b64encode(data).decode("ascii")}"'

    def _keep(self, side: Path, data: bytes) -> None:
        """A side file, as a whole or not at all."""
        if self.failed is not None or side.exists():
            return
        fresh = side.with_name(f".{side.name}.{os.getpid()}")
        try:
            self._bodies.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(data)
            fresh.replace(side)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink()
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failed = error
        self.on_failed()

    def _write(self, kind: str, parts: list[str]) -> None:
        if self.failed is not None:
            return
        elapsed = round(self._clock() - self._began, _TIME_DIGITS)
        line = ",".join([f'{{"e":"{kind}","n":{self._n + 1},"t":{elapsed}', *parts])
        # a lone surrogate becomes \udXXX, which is how JSON writes it
        data = line.encode("utf-8", "backslashreplace") + b"}\n"
        try:
            done = self._file.write(data)
            while done < len(data):  # where space ends, part of it is taken without a word
                done += self._file.write(data[done:])
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._whole)
            self._fail(error)
            return
        self._n += 1
        self._whole += len(data)
