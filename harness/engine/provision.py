"""What a backend hands out: random secrets, values that provisioning yields, outputs made of both."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import anyio

from harness.engine import loopback
from harness.engine.mask import Masker, is_secret_name
from harness.errors import StackError
from harness.model.outcome import Missing, resolve_pointer
from harness.model.placeholders import UnknownPlaceholder, expand, names_in
from harness.model.plan import BackendSpec, OutputSpec, ProvisionSpec

__all__ = [
    "RETRY_S",
    "Execute",
    "RunScript",
    "Standing",
    "expanded",
    "make_outputs",
    "make_secrets",
    "provision",
    "random_secret",
    "take_all",
]

ALPHABET = string.ascii_letters + string.digits
RETRY_S = 0.5

# Runs argv in a container: (service or None for the only one, argv) -> exit code, stdout, stderr.
Execute = Callable[[str | None, Sequence[str]], Awaitable[tuple[int | None, bytes, bytes]]]
# Runs the script of a step: (its number from 1, the step, its variables) -> the same.
RunScript = Callable[[int, ProvisionSpec, Mapping[str, str]], Awaitable[tuple[int | None, bytes, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A backend that stands.

    Attributes:
        outputs: Output name -> text.
        addresses: Every address at which it can be reached.
        names: Of its services, as they know each other.
        version: As it reports itself; "" if it does not.
        logs: Its logs at this moment, name -> bytes, unmasked.
    """

    outputs: Mapping[str, str]
    addresses: tuple[tuple[str, int], ...]
    names: tuple[str, ...]
    version: str
    logs: Callable[[], Awaitable[Mapping[str, bytes]]]


def random_secret(length: int) -> str:
    """A random word of letters and digits, with a lower and an upper case letter and a digit in it."""
    while True:
        word = "".join(secrets.choice(ALPHABET) for _ in range(length))
        if length < 3 or all(any(kind(char) for char in word) for kind in (str.islower, str.isupper, str.isdigit)):
            return word


def make_secrets(spec: BackendSpec, masker: Masker) -> dict[str, str]:
    """The secrets of one stack, new each time, as `secret.NAME`; masked from now on."""
    out = {f"secret.{name}": random_secret(length) for name, length in spec.secrets.items()}
    masker.add(*out.values())
    return out


def expanded(text: str, values: Mapping[str, str], *, where: str) -> str:
    """The text with its placeholders replaced.

    Raises:
        StackError: One has no value, at least not here.
    """
    try:
        return expand(text, values)
    except UnknownPlaceholder as error:
        known = ", ".join(sorted(values))
        raise StackError(f"{where}: ${{{error.args[0]}}} has no value", hint=f"these have one here: {known}") from None


async def provision(
    spec: BackendSpec,
    values: Mapping[str, str],
    *,
    allowed: Iterable[tuple[str, int]],
    masker: Masker,
    execute: Execute | None,
    run_script: RunScript,
) -> dict[str, str]:
    """Takes the steps in order and gives what they captured, as `provisioned.NAME`.

    Args:
        values: For placeholders.
        allowed: The addresses to which HTTP steps may go.
        execute: For exec steps; None where there is no container to run them in.
        run_script: For script steps.
    Raises:
        StackError: A step failed; nothing after it was tried.
    """
    targets = tuple(allowed)
    hidden = _behind_secret_outputs(spec.outputs)
    got: dict[str, str] = {}
    for number, step in enumerate(spec.provision, start=1):
        where = f"{spec.name}: provisioning step {number}"
        known = {**values, **got}
        try:
            with anyio.fail_after(step.timeout_s):
                if step.script is not None:
                    env = {key: expanded(value, known, where=f"{where} env {key}") for key, value in step.env.items()}
                    masker.add(*(value for key, value in env.items() if is_secret_name(key)))
                    document = _printed(await run_script(number, step, env), where, step.script, masker)
                else:
                    document = await _take(step, known, targets, where, execute, masker)
        except TimeoutError:
            raise StackError(f"{where} had not ended after {step.timeout_s:g} s") from None
        for name, pointer in step.capture.items():
            value = _captured(document, pointer, masker, where=f"{where}: capture {name}")
            if name in hidden:
                masker.add(value)
            got[f"provisioned.{name}"] = value
    return got


async def take_all(
    steps: Sequence[ProvisionSpec],
    values: Mapping[str, str],
    *,
    what: str,
    allowed: Iterable[tuple[str, int]],
    masker: Masker,
    execute: Execute,
) -> list[str]:
    """Takes steps without scripts and captures, in order, and gives what each of them said.

    Args:
        what: Which steps they are, for people; a number from 1 is put behind it.
    Raises:
        StackError: A step failed; nothing after it was tried.
    """
    targets = tuple(allowed)
    out = []
    for number, step in enumerate(steps, start=1):
        where = f"{what} {number}"
        try:
            with anyio.fail_after(step.timeout_s):
                out.append(await _take(step, values, targets, where, execute, masker))
        except TimeoutError:
            raise StackError(f"{where} had not ended after {step.timeout_s:g} s") from None
    return out


async def _take(
    step: ProvisionSpec,
    values: Mapping[str, str],
    targets: Sequence[tuple[str, int]],
    where: str,
    execute: Execute | None,
    masker: Masker,
) -> str:
    if step.exec is not None:
        argv = [expanded(part, values, where=where) for part in step.exec]
        if execute is None:
            raise StackError(
                f"{where} runs {argv[0]!r} inside a container, which the process form does not have",
                hint="use Docker for this backend (--runtime docker)",
            )
        first, more, _ = " ".join(argv).strip().partition("\n")
        return _printed(await execute(step.service, argv), where, f"{first} …" if more else first, masker)
    assert step.url is not None
    url = expanded(step.url, values, where=where)
    headers = {name: expanded(value, values, where=where) for name, value in step.headers.items()}
    if step.user is not None:
        user = expanded(step.user, values, where=where)
        headers["Authorization"] = loopback.basic(user, expanded(step.password or "", values, where=where))
    body = expanded(step.body, values, where=where).strip().encode() if step.body is not None else None
    try:
        answer = await loopback.request(
            step.method, url, allowed=targets, headers=headers, body=body, timeout_s=step.timeout_s
        )
    except loopback.Unreachable as error:
        raise StackError(f"{where}: {step.method} {url}: {error}") from None
    except ValueError as error:
        raise StackError(f"{where}: {error}") from None
    if answer.status not in step.status:
        expected = " or ".join(map(str, step.status))
        raise StackError(
            f"{where}: {step.method} {url} was answered with status {answer.status}, expected {expected}",
            log=masker.text(answer.text)[:8000],
        )
    return answer.text


def _printed(done: tuple[int | None, bytes, bytes], where: str, what: str, masker: Masker) -> str:
    """What a command printed on its standard output, if it ended with 0."""
    code, out, err = done
    if code != 0:
        log = "\n".join(data.decode("utf-8", "backslashreplace").strip() for data in (out, err) if data.strip())
        raise StackError(f"{where}: {what} ended with exit code {code}", log=masker.text(log)[-8000:])
    return out.decode("utf-8", "backslashreplace")


def _captured(text: str, pointer: str, masker: Masker, *, where: str) -> str:
    if pointer == "":
        return text.rstrip("\r\n")
    try:
        value = resolve_pointer(json.loads(text), pointer)
    except ValueError:
        raise StackError(f"{where}: the answer is not JSON", log=masker.text(text)[:8000]) from None
    except Missing:
        raise StackError(
            f"{where}: there is nothing at {pointer} in the answer", log=masker.text(text)[:8000]
        ) from None
    return value if isinstance(value, str) else json.dumps(value)


def _behind_secret_outputs(outputs: Iterable[OutputSpec]) -> set[str]:
    """Names of captures that reach an output only as a secret's part: they are masked as soon as they are known."""
    names = {name for output in outputs if output.secret for name in names_in(output.value)}
    return {name.removeprefix("provisioned.") for name in names if name.startswith("provisioned.")}


def make_outputs(spec: BackendSpec, values: Mapping[str, str], masker: Masker) -> dict[str, str]:
    """The named values that are handed out; secret ones are masked from now on."""
    out: dict[str, str] = {}
    for output in spec.outputs:
        out[output.name] = expanded(output.value, values, where=f"{spec.name}: output {output.name!r}")
        if output.secret:
            masker.add(out[output.name])
    return out
