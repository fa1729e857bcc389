"""Ready means: the declared check passed twice in a row, run by us every 0.2 s, while the service was alive."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from harness.engine import loopback
from harness.engine.mask import Masker
from harness.model.placeholders import expand
from harness.model.plan import ReadySpec

__all__ = [
    "EVERY_S",
    "PASSES",
    "PROBE_TIMEOUT_S",
    "Observation",
    "Probe",
    "Waited",
    "Watch",
    "command_probe",
    "network_probe",
    "wait_ready",
]

EVERY_S = 0.2
PASSES = 2
PROBE_TIMEOUT_S = 5.0
_NO_SECRETS = Masker()


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a service showed; `text` is for people."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """How a wait ended. `ended` says how the service died, None while it lives; `observation` is the last one."""

    ready: bool
    observation: str
    ended: str | None
    seconds: float


Probe = Callable[[], Awaitable[Observation]]
Watch = Callable[[], Awaitable[str | None]]  # how the service ended, None while it has not


async def wait_ready(
    probe: Probe, watch: Watch, *, timeout_s: float, seen: Callable[[str], None] = lambda _text: None
) -> Waited:
    """Waits until a service is ready, has died, or the time is over; never longer.

    Args:
        probe: One look; may hang, and is then cut off after PROBE_TIMEOUT_S.
        watch: Asked every EVERY_S, whatever the probe does.
        seen: Told each observation.
    """
    began = time.monotonic()
    last = "nothing was seen yet"
    ended: str | None = None
    ready = False

    async def look() -> None:
        nonlocal last, ready
        passed = 0
        while True:
            observation = Observation(False, f"the check had not ended after {PROBE_TIMEOUT_S:g} s")
            with anyio.move_on_after(PROBE_TIMEOUT_S):
                observation = await probe()
            last = observation.text
            seen(last)
            passed = passed + 1 if observation.ok else 0
            if passed >= PASSES:
                ready = True
                tasks.cancel_scope.cancel()
            await anyio.sleep(EVERY_S)

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            while True:
                ended = await watch()
                if ended is not None:
                    tasks.cancel_scope.cancel()
                await anyio.sleep(EVERY_S)
    return Waited(ready=ready and ended is None, observation=last, ended=ended, seconds=time.monotonic() - began)


def network_probe(
    spec: ReadySpec,
    addresses: Mapping[str, tuple[str, int]],
    values: Mapping[str, str],
    masker: Masker = _NO_SECRETS,
) -> Probe:
    """The probe of an `http` or `tcp` check.

    Args:
        addresses: Port name -> address.
        values: For the placeholders in the check.
        masker: What is quoted is masked before it is cut.
    Raises:
        UnknownPlaceholder: One of them has no value.
        LookupError: It names no port that there is.
    """
    if spec.http is not None:
        return _http_probe(spec, addresses[spec.http], values, masker)
    assert spec.tcp is not None
    host, port = addresses[spec.tcp]
    send = expand(spec.send or "", values).encode()
    expect = expand(spec.expect or "", values).encode()

    async def probe() -> Observation:
        try:
            got = await loopback.exchange(
                host, port, send=send, expect=expect, timeout_s=PROBE_TIMEOUT_S - 1, mask=masker.bytes
            )
        except loopback.Unreachable as error:
            return Observation(False, f"{host}:{port}: {error}")
        return Observation(True, f"{host}:{port} answered ({len(got)} bytes)")

    return probe


def _http_probe(spec: ReadySpec, address: tuple[str, int], values: Mapping[str, str], masker: Masker) -> Probe:
    url = f"http://{address[0]}:{address[1]}{expand(spec.path, values)}"
    headers = {}
    if spec.user is not None:
        headers["Authorization"] = loopback.basic(expand(spec.user, values), expand(spec.password or "", values))
    wanted = expand(spec.body, values) if spec.body is not None else None

    async def probe() -> Observation:
        where = f"{spec.method} {url}"
        try:
            answer = await loopback.request(
                spec.method, url, allowed=[address], headers=headers, timeout_s=PROBE_TIMEOUT_S - 1
            )
        except loopback.Unreachable as error:
            return Observation(False, f"{where}: {error}")
        if answer.status not in spec.status:
            expected = " or ".join(map(str, spec.status))
            said = _cut(masker.text(answer.text))
            return Observation(False, f"{where}: status {answer.status}, expected {expected}: {said}")
        if wanted is not None and wanted not in answer.text:
            return Observation(False, f"{where}: {wanted!r} is not in the answer {_cut(masker.text(answer.text))}")
        return Observation(True, f"{where}: status {answer.status}")

    return probe


def command_probe(
    argv: Sequence[str],
    run: Callable[[Sequence[str]], Awaitable[tuple[int | None, str]]],
    masker: Masker = _NO_SECRETS,
) -> Probe:
    """The probe that runs a command, by `run`, which gives its exit code and what it printed."""

    async def probe() -> Observation:
        code, output = await run(argv)
        if code == 0:
            return Observation(True, "the check's exit code is 0")
        said = f": {_cut(masker.text(output))}" if output.strip() else ""
        return Observation(False, f"the check's exit code is {code}{said}")

    return probe


def _cut(text: str, limit: int = 300) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= limit else text[:limit] + "…")
