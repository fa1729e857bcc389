"""Foreign text made safe to show: visible escapes for control characters, stated cuts, wrapping that loses nothing.

Foreign is whatever a server, a backend or a file said. It is shown character by character; only what would act on a
terminal, break a line or be illegal in XML becomes an escape that people can read (`\\x1b`, `\\u202e`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

__all__ = [
    "byte_length",
    "cut_bytes",
    "cut_line",
    "display_width",
    "encodable",
    "label",
    "lines_of",
    "prefix",
    "visible",
    "wrap",
]

# C0, DEL, C1; marks that reorder or break lines unseen; what XML 1.0 forbids; lone surrogates
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str, *, keep: str = "") -> str:
    """The text with every unsafe character as a visible escape, but for those in `keep`."""

    def escape(match: re.Match[str]) -> str:
        char = match[0]
        if char in keep:
            return char
        code = ord(char)
        return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")

    return _UNSAFE.sub(escape, text)


def lines_of(text: str) -> list[str]:
    """The lines of a text, each safe to print; only a line feed (or CR LF) ends a line."""
    return [visible(line.removesuffix("\r")) for line in text.split("\n")]


def byte_length(text: str) -> int:
    """How many bytes the text has in UTF-8; a lone surrogate counts as three."""
    return len(text.encode("utf-8", "surrogatepass"))


def cut_bytes(text: str, limit: int, *, rest_in: str = "report.json") -> str:
    """The text, or its first `limit` bytes and a remark that says how many there are and where all of them are."""
    if len(text) * 4 <= limit:
        return text
    size = byte_length(text)
    if size <= limit:
        return text
    kept = prefix(text, limit)
    return f"{kept}… ({byte_length(kept):,} of {size:,} bytes; all of it in {rest_in})"


def prefix(text: str, limit: int) -> str:
    """The longest beginning of at most `limit` bytes that ends between two characters."""
    raw = text[: max(limit, 0)].encode("utf-8", "surrogatepass")[: max(limit, 0)]
    while raw:
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raw = raw[: error.start]
    return ""


def cut_line(text: str, limit: int) -> str:
    """The first line that says something, safe, at most `limit` bytes long, with an ellipsis where more follows."""
    first, newline, _ = text.strip("\r\n\t ").partition("\n")
    line = visible(prefix(first.removesuffix("\r"), limit + 4))
    return line if not newline and byte_length(line) <= limit else prefix(line, limit - 3) + "…"


def label(text: str, limit: int) -> str:
    """A name on one line, at most `limit` bytes long; what was cut is told apart by a hash of the whole."""
    line = visible(prefix(text, limit + 4))
    if byte_length(line) <= limit:
        return line
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{prefix(line, limit - 12)}…{digest}"


def encodable(text: str, encoding: str | None) -> str:
    """The text with what `encoding` cannot express as visible escapes; None is UTF-8."""
    name = encoding or "utf-8"
    try:
        return text.encode(name, "backslashreplace").decode(name)
    except (LookupError, UnicodeError):
        return text.encode("ascii", "backslashreplace").decode("ascii")


def display_width(text: str) -> int:
    """How many columns a terminal gives the text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns where blanks allow it; nothing but the blank at a break is lost.

    Args:
        width: Columns; 0 never breaks.
        first: What stands before the first line.
        rest: What stands before every other line.
    """
    out: list[str] = []
    lead = first
    for line in lines_of(text):
        current = lead
        empty = True
        for word in line.split(" "):
            longer = current + word if empty else f"{current} {word}"
            if width and not empty and word and display_width(longer) > width:
                out.append(current)
                longer = rest + word
            current, empty = longer, False
        out.append(current)
        lead = rest
    return out
