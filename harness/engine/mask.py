"""Secrets never reach disk or screen: they are replaced by as many `*` as they have bytes."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "MIN_SECRET_CHARS",
    "SECRET_WORDS",
    "Masker",
    "header_secrets",
    "is_credential_header",
    "is_secret_name",
    "is_secret_value",
]

MIN_SECRET_CHARS = 4  # shorter values would blank out half of a transcript
MIN_FOUND_CHARS = 8  # what is shorter may stand in the base64 of anything
MIN_NUMBER_CHARS = 8  # a shorter number is a port, a size or a limit
MIN_WORD_CHARS = 16  # a shorter word ("tools", "postgres", "result") may be a key, a method or a tool's name
SECRET_WORDS = ("APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATEKEY", "SECRET", "TOKEN")
_ENDS = ("KEY", "PASS", "PAT", "PWD")  # of a name of several words
_OTHER_KEYS = ("FOREIGN", "PARTITION", "PRIMARY", "PUBLIC", "SORT")
_CREDENTIALS = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|x-auth|x-api-key|apikey|(?:x-)?signature", re.IGNORECASE
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PLAIN = re.compile(r"[A-Za-z0-9_]+")  # what no way of writing a text spells in another way
_WORDLIKE = re.compile(r"[A-Za-z]+(?:[ _.,:/-][A-Za-z]+)*|[A-Za-z]+\d{1,2}")


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret: `DB_PASSWORD`, `apiKey`, `SIGNING_KEY`."""
    words = [word.upper() for word in _WORDS.findall(name)]
    if any(word.endswith(SECRET_WORDS) for word in words):  # PGPASSWORD, but not MAX_TOKENS
        return True
    return len(words) > 1 and words[-1] in _ENDS and words[-2] not in _OTHER_KEYS


def is_secret_value(value: str) -> bool:
    """Whether a value can be masked without spoiling what has nothing to do with it.

    Evidence is judged as it is recorded. A secret that is a plain word may be a key, a method or the name of a tool,
    and a short number may be any number: masking it would change what is judged. Such values are left as they are.
    """
    if len(value) < MIN_SECRET_CHARS:
        return False
    if re.fullmatch(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", value):
        return len(value) >= MIN_NUMBER_CHARS
    return len(value) >= MIN_WORD_CHARS or _WORDLIKE.fullmatch(value) is None


def is_credential_header(name: str) -> bool:
    """Whether a header's name says that its value is a secret: `Authorization`, `Cookie`, `X-Api-Key`.

    Those of the modern era that mirror arguments (`Mcp-Param-…`) are judged as they are.
    """
    return _CREDENTIALS.fullmatch(name) is not None or (is_secret_name(name) and not name.lower().startswith("mcp-"))


def header_secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be masked of headers: each value that is a credential, and without its scheme ("Bearer …")."""
    found = [value for name, value in headers.items() if is_credential_header(name)]
    return tuple(part for value in found for part in (value, value.partition(" ")[2]) if part)


class Masker:
    """Masks a growing set of secrets, in their plain, escaped (JSON, URL, HTML) and base64 spellings."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._literals: tuple[bytes, ...] = ()
        self._patterns: tuple[tuple[bytes, re.Pattern[bytes]], ...] = ()
        self.add(*secrets)

    @property
    def count(self) -> int:
        """How many spellings are masked; it only grows."""
        return len(self._literals) + len(self._patterns)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is masked, sorted."""
        return tuple(sorted(self._secrets))

    def add(self, *secrets: str) -> None:
        """From now on these are masked too, but for values that `is_secret_value` does not take."""
        fresh = {secret for secret in secrets if is_secret_value(secret)} - self._secrets
        if not fresh:
            return
        self._secrets |= fresh
        literals: set[bytes] = set()
        patterns: list[tuple[bytes, re.Pattern[bytes]]] = []
        for secret in self._secrets:
            literals |= _base64(secret)
            if _PLAIN.fullmatch(secret):
                literals.add(secret.encode())
            else:
                core = max(_PLAIN.findall(secret), key=len, default="").encode()
                patterns.append((core, re.compile(_pattern(secret))))
        self._literals = tuple(sorted(literals, key=lambda item: (-len(item), item)))
        self._patterns = tuple(sorted(patterns, key=lambda item: (-len(item[1].pattern), item[1].pattern)))

    def found(self, data: bytes) -> frozenset[str]:
        """The secrets that stand in the data, in any of their spellings; only those long enough to be no accident."""
        long = (secret for secret in self._secrets if len(secret) >= MIN_FOUND_CHARS)
        return frozenset(secret for secret in long if _stands_in(secret, data))

    def bytes(self, data: bytes) -> bytes:
        """The data with every secret replaced by `*`, byte for byte as long.

        JSON stays JSON: what is no part of a string is not touched in a way that breaks it.
        """
        for core, pattern in self._patterns:
            if core not in data:  # no spelling changes letters and digits, and this is quick
                continue
            data = pattern.sub(lambda match: _stars(match[0], match.string, match.start()), data)
        for secret in self._literals:
            if secret in data:
                data = _replace(data, secret)
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


def _stands_in(secret: str, data: bytes) -> bool:
    return Masker((secret,)).bytes(data) != data


def _replace(data: bytes, secret: bytes) -> bytes:
    if b"\\" not in data and not secret.isdigit():
        return data.replace(secret, b"*" * len(secret))
    parts: list[bytes] = []
    here = 0
    while (found := data.find(secret, here)) >= 0:
        parts += [data[here:found], _stars(secret, data, found)]
        here = found + len(secret)
    return b"".join([*parts, data[here:]])


def _stars(secret: bytes, data: bytes, at: int) -> bytes:
    """As many `*` as the secret has bytes, but for what would break JSON around it.

    A secret whose first letters belong to an escape (the n of `\\n`) is masked behind it; a number may stand bare,
    where only digits can.
    """
    if secret.isdigit():
        return b"9" * len(secret)
    slashes = 0
    while slashes < at and data[at - slashes - 1] == 0x5C:
        slashes += 1
    kept = 0
    if slashes % 2 and secret[:1] in b'"\\/bfnrtu':
        kept = 5 if secret[:1] == b"u" else 1
    return secret[:kept] + b"*" * (len(secret) - kept)


def _base64(secret: str) -> set[bytes]:
    """Its part in the base64 of any longer text, such as `user:password`, at each of three alignments."""
    raw = secret.encode("utf-8", "surrogatepass")
    out: set[bytes] = set()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        inner = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        out |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return {item for item in out if len(item) >= MIN_SECRET_CHARS}


def _pattern(secret: str) -> bytes:
    r"""A pattern in which every character may be spelt as itself, `\u…` or `\x`, `%XX`, or an HTML entity.

    JSON in JSON doubles the backslashes, so any number of them may stand before an escaped character.
    """
    return b"".join(_character(char) for char in secret)


def _character(char: str) -> bytes:
    raw = char.encode("utf-8", "surrogatepass")
    if _PLAIN.fullmatch(char):
        return re.escape(raw)
    units = char.encode("utf-16-be", "surrogatepass")
    codes = [f"{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    spelt: list[bytes] = []  # the longer spellings first: the plain character begins some of them
    entity = html.escape(char)
    if entity != char:
        spelt += [re.escape(entity.encode()), b"&#0*%d;" % ord(char), b"(?i:&#x0*%x;)" % ord(char)]
    spelt.append(b"".join(rb"\\+u(?i:%s)" % code.encode() for code in codes))
    spelt.append(b"".join(b"%%(?i:%02x)" % byte for byte in raw))
    letter = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}.get(char)
    if letter is not None:
        spelt.append(rb"\\+" + letter.encode())
    spelt.append(rb"\\*" + re.escape(raw))
    if char == " ":
        spelt.append(re.escape(b"+"))
    return b"(?:" + b"|".join(spelt) + b")"
