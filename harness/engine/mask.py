"""Secrets never reach disk or screen: they are replaced by as many `*` as they have bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

__all__ = ["MIN_SECRET_CHARS", "SECRET_NAME_PARTS", "Masker", "is_secret_name"]

MIN_SECRET_CHARS = 4  # shorter values would blank out half of a transcript
SECRET_NAME_PARTS = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY", "API_KEY", "PRIVATE_KEY", "CREDENTIAL")


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    upper = name.upper()
    return any(part in upper for part in SECRET_NAME_PARTS) or upper.endswith(("_KEY", "_PAT", "_PWD"))


class Masker:
    """Masks a growing set of secrets, in their plain, JSON-escaped, percent-encoded and base64 spellings."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._spellings: tuple[bytes, ...] = ()
        self.add(*secrets)

    @property
    def count(self) -> int:
        """How many spellings are masked; it only grows."""
        return len(self._spellings)

    def add(self, *secrets: str) -> None:
        """From now on these are masked too; values under MIN_SECRET_CHARS are not."""
        found = set(self._spellings)
        for secret in secrets:
            if len(secret) >= MIN_SECRET_CHARS:
                found |= _spellings(secret)
        self._spellings = tuple(sorted(found, key=lambda item: (-len(item), item)))

    def bytes(self, data: bytes) -> bytes:
        """The data with every secret replaced by `*`, byte for byte as long."""
        for secret in self._spellings:
            if secret in data:
                data = data.replace(secret, b"*" * len(secret))
        return data

    def text(self, text: str) -> str:
        """The same for text (its UTF-8 length is kept)."""
        return self.bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def json(self, value: Any) -> Any:
        """The same for every string in a JSON-like value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return value


def _spellings(secret: str) -> set[bytes]:
    raw = secret.encode()
    out = {raw, json.dumps(secret)[1:-1].encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode()}
    out.add(quote(secret, safe="").encode())
    for shift in range(3):  # inside a longer text, such as base64 of user:password, at each of three alignments
        encoded = base64.b64encode(b"\0" * shift + raw)
        inner = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        out |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return {item for item in out if len(item) >= MIN_SECRET_CHARS}
