"""Makes a backend that a run has used as good as new, or says that it cannot: its own words are the proof.

What `verify` says on the fresh stack is kept; after a reset it must say the same, but for secrets. So a reset that
forgot something is found where `verify` sees it, and the stack is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from harness.engine.mask import Masker
from harness.engine.provision import Execute, take_all
from harness.errors import StackError
from harness.model.plan import BackendSpec, ResetSpec

__all__ = ["SAID_CHARS", "Resetting", "former"]

SAID_CHARS = 200  # of a line that differs
RANDOM_CHARS = 16  # a secret has as many, and what is shorter may be a word or a number


def former(spec: BackendSpec, values: Mapping[str, str]) -> dict[str, str]:
    """The secrets in force as `former.NAME`, for the steps that need them to set others."""
    return {f"former.{name}": values[f"secret.{name}"] for name in spec.secrets}


@dataclass(slots=True)
class Resetting:
    """The reset of one backend that stands.

    Attributes:
        name: Of the backend, for people.
        fresh: What `verify` said on the fresh stack, without secrets.
    """

    name: str
    spec: ResetSpec
    masker: Masker
    execute: Execute
    addresses: tuple[tuple[str, int], ...]
    fresh: tuple[str, ...] = ()

    async def remember(self, values: Mapping[str, str]) -> None:
        """On the fresh stack: what is prepared for the way back, and what it looks like.

        Raises:
            StackError: A step failed, or `verify` said nothing, by which nothing can be told.
        """
        await self._take("prepare", values)
        said = await self._take("verify", values)
        for number, text in enumerate(said, start=1):
            if not text.strip():
                raise StackError(f"{self.name}: [reset] verify {number} said nothing, so nothing can be told by it")
        self.fresh = tuple(_without_secrets(text, values) for text in said)

    async def renew(self, values: Mapping[str, str]) -> None:
        """Takes the steps that make it new.

        Raises:
            StackError: One failed.
        """
        await self._take("steps", values)

    async def prove(self, values: Mapping[str, str]) -> None:
        """Nothing happens if it looks as it did when it was fresh.

        Raises:
            StackError: It does not, or cannot be asked.
        """
        said = await self._take("verify", values)
        for number, (before, text) in enumerate(zip(self.fresh, said, strict=True), start=1):
            now = _without_secrets(text, values)
            if now != before:
                first = next(pair for pair in zip_longest(before.split("\n"), now.split("\n")) if pair[0] != pair[1])
                raise StackError(
                    f"{self.name}: [reset] verify {number} says {self._shown(first[1])} after the reset, "
                    f"and said {self._shown(first[0])} when it was fresh"
                )

    def _shown(self, line: str | None) -> str:
        return "nothing more" if line is None else repr(self.masker.text(line))[:SAID_CHARS]

    async def _take(self, part: str, values: Mapping[str, str]) -> list[str]:
        steps = {"prepare": self.spec.prepare, "steps": self.spec.steps, "verify": self.spec.verify}[part]
        what = f"{self.name}: [reset] {part}"
        return await take_all(
            steps, values, what=what, allowed=self.addresses, masker=self.masker, execute=self.execute
        )


def _without_secrets(text: str, values: Mapping[str, str]) -> str:
    """The text with the names of secrets, and of what provisioning yielded, in their places: the longest first."""
    for name, value in sorted(_changing(values), key=lambda item: -len(item[1])):
        text = text.replace(value, f"${{{name}}}")
    return text


def _changing(values: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What is new after a reset; a short value stays, for two texts could become one by it."""
    for name, value in values.items():
        if name.startswith(("secret.", "provisioned.")) and len(value) >= RANDOM_CHARS:
            yield name, value
