"""Whether a text is what the `format` of a JSON Schema says: the common ones, leniently, in linear time.

Validators differ on `format`, so what is said here is never more than a warning, and a format that is not known here is
not judged.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time

__all__ = ["FORMATS", "format_holds"]

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z")
_REFERENCE = re.compile(r"[^\s<>\"{}|\\^`]*\Z")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+\Z")
_DURATION = re.compile(r"P(?=[0-9T])(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z", re.ASCII)
_POINTER = re.compile(r"(/([^~/]|~[01])*)*\Z")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z")
_FRACTION = re.compile(r"\.\d+")


def format_holds(name: str, text: str) -> bool:
    """Whether a text is of a format; True for a format that is not known here."""
    known = FORMATS.get(name)
    return known is None or known(text)


def _parses(pattern: re.Pattern[str], parse: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        if not pattern.match(text):
            return False
        plain = _FRACTION.sub("", text.upper().replace(" ", "T")).replace(":60", ":59")  # a leap second
        try:
            parse(plain)
        except ValueError:
            return False
        return True

    return holds


def _address(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return holds


def _hostname(text: str) -> bool:
    return len(text) <= 253 and all(map(_LABEL.match, text.removesuffix(".").split(".")))


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.match(text) is not None


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date": _parses(_DATE, date.fromisoformat),
    "date-time": _parses(_DATE_TIME, datetime.fromisoformat),
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _hostname,
    "ipv4": _address(ipaddress.IPv4Address),
    "ipv6": _address(ipaddress.IPv6Address),
    "iri": _matches(_URI),
    "iri-reference": _matches(_REFERENCE),
    "json-pointer": _matches(_POINTER),
    "time": _parses(_TIME, time.fromisoformat),
    "uri": _matches(_URI),
    "uri-reference": _matches(_REFERENCE),
    "uuid": _matches(_UUID),
}
