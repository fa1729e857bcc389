"""Judges where a server is pointed, before it starts: at the stack of its run, or nowhere.

The rule is an allow-list: a host and port that were handed out, in the very spelling, or the server's own port, or the
name of a service in the stack. What cannot be read beyond doubt is refused; no name is ever resolved. Most of this
module finds what is a target at all, in values and arguments that are mostly something else.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

__all__ = ["check_targets", "is_loopback", "numeric_host"]

HOSTLESS = {"duckdb", "file", "mem", "memory", "sqlite", "sqlite3"}  # schemes that name a file, or nothing
SOCKET_SCHEMES = {"http+unix", "https+unix", "npipe", "redis+socket", "rediss+socket", "unix", "unixgram"}

_HOST_NAMES = ("HOST", "HOSTNAME", "ADDR", "ADDRESS")
_URL_NAMES = ("URL", "URI", "ENDPOINT", "DSN")
_NO_TARGETS = {"ALLOWED_HOSTS", "NO_PROXY", "TRUSTED_HOSTS", "GHOST", "CURL", "LIBCURL"}
_WORDS = {"", "true", "false", "yes", "no", "on", "off", "none", "null"}
_PORTS = {21, 22, 23, 25, 53, 80, 81, 88, 110, 143, 389, 443, 465, 587, 636, 873, 990, 993, 995}
_SETTINGS = re.compile(  # words before a colon and a number that is a measure, not a port
    r"(?:^|[-_.])(?:age|batch|buffer|bytes|cache|chars|code|count|days?|debug|delay|depth|error|exit|gid|height|hours?|"
    r"id|index|interval|key|len|length|level|limit|lines?|max|memory|min|minutes|ms|offset|pages?|pid|poll|port|"
    r"priority|rate|retries|retry|rows|seconds|sec|size|sleep|step|threads|timeout|tokens|top|total|ttl|uid|user|"
    r"version|weight|width|window|workers|year)$",
    re.IGNORECASE,
)
_FILE_ENDINGS = re.compile(
    r"\.(?:c|cfg|conf|cpp|go|h|html|ini|java|js|json|log|lua|md|mjs|py|rb|rs|sh|sql|toml|ts|tsx|txt|xml|ya?ml)$"
)
_URL = re.compile(r"(?<![A-Za-z0-9+.\-])([A-Za-z][A-Za-z0-9+.\-]*)://([^\s\"'<>`|]*)")
_SLASHLESS = re.compile(r"(?<![\w.+\-])(https?|wss?|ftp):(?!//)[/\\]*([\w.\[]+)", re.IGNORECASE)
_RELATIVE = re.compile(r"(?:^|(?<=[\s=,\"'(]))//((?:[\w.\-@]+|\[[^\]]*\])(?::\d+)?)(?=[/?#\s\"')]|$)")
_HOSTLESS_VALUE = re.compile(
    r"(?:^|(?<=[\s=,\"']))(?:jdbc:)?(sqlite3?|duckdb|file|unix)(?:\+\w+)?:(?!//)([^\s\"',;]*)", re.IGNORECASE
)
_PAIR = re.compile(r"(?<![\w.:/\\\-%\]])(\[[^\]\s]*\]|[^\W_](?:[\w.\-]*\w)?\.?|\d+):(\d{1,5})(?![\w.:@%\-])")
_QUAD = re.compile(r"(?<![\w.:/\-])((?:0[xX][0-9a-fA-F]+|\d+)(?:\.(?:0[xX][0-9a-fA-F]+|\d+)){3})(?![\w.\-]|:\d)")
_SIX = re.compile(  # in brackets, or with a digit in it: a::b is not meant for one
    r"(?<![\w.:/])(\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\]\s]*)?\](?!:\d)"
    r"|(?=[0-9A-Fa-f:.]*\d)[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%\w+)?)(?![\w.:])"
)
_NEXT_URL = re.compile(r"[,;|][A-Za-z][A-Za-z0-9+.\-]*://")
_USERINFO = re.compile(r"(?<=://)[^@/\s]*(?=@)")
_KEYWORD = re.compile(r"(?:^|(?<=[\s;]))(host|hostaddr|server|data source|addr|address)\s*=\s*([^\s;]*)", re.IGNORECASE)
_KEYWORD_PORT = re.compile(r"(?:^|[\s;])port\s*=\s*(\d+)", re.IGNORECASE)
_TRICK = re.compile(r"://[^\s/?#]*(?:[\t\r\n\x00-\x1f]+[^\s]*@|[?#][^/]*@)")
_NAME = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")
_CIDR = re.compile(r"/\d{1,3}(?![\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What is allowed."""

    allowed: frozenset[tuple[str, int]]
    names: frozenset[str]
    folders: tuple[Path, ...]

    def problem(self, host: str, port: str | None) -> str:
        """Why a target is refused, "" if it is not."""
        if host in self.names and numeric_host(host) is None:
            return ""
        number = int(port) if port is not None and port.isascii() and port.isdigit() else None
        if number is not None and str(number) == port and (host, number) in self.allowed and is_loopback(host):
            return ""
        if not host:
            return "it names no host, and so means a default one"
        if not port:
            if is_loopback(host):
                return "it names no port, and so means a default one"
            return f"{_cut(host)} is not of this run's stack"
        if number is None:
            return f"{_cut(port)} is no port"
        return self._advice(host, port, number)

    def _advice(self, host: str, port: str, number: int) -> str:
        spellings = sorted(known for known, open_port in self.allowed if open_port == number)
        plain = unicodedata.normalize("NFKC", host).replace("。", ".").rstrip(".").lower()
        local = plain == "localhost" or plain.endswith(".localhost") or is_loopback(plain)
        if spellings and (local or plain in spellings or numeric_host(plain) == 0):
            return f"this address was handed out as {spellings[0]}:{number}; write it so"
        if local:
            return f"port {port} of this machine is not of this run's stack"
        return f"{_cut(host)}:{port} is not of this run's stack"


def check_targets(
    env: Mapping[str, str],
    argv: Sequence[str],
    *,
    allowed: Iterable[tuple[str, int]],
    own_port: int | None,
    names: Iterable[str],
    folders: Iterable[Path],
) -> tuple[str, ...]:
    """Everything in a server's variables and arguments that points outside of its run's stack, a sentence each.

    Args:
        env: The declared variables, expanded.
        argv: The command, expanded.
        allowed: Every (host, port) that the stack handed out.
        own_port: The port that the server itself is to listen on, on 127.0.0.1.
        names: Of services inside the stack; they are good with any port.
        folders: Where files may lie that are named by schemes without a host.
    """
    handed = set(allowed)
    if own_port is not None:
        handed.add(("127.0.0.1", own_port))
    rules = _Rules(
        allowed=frozenset(handed),
        names=frozenset(names),
        folders=tuple(Path(os.path.realpath(folder)) for folder in folders),
    )
    out: list[str] = []
    for name, value in env.items():
        out += _judge(rules, f"variable {name}", name, value, _port_of(name, env))
    for where, name, value, port in _arguments(argv, env):
        out += _judge(rules, where, name, value, port)
    return tuple(dict.fromkeys(out))


def _arguments(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[str, str, str, str | None]]:
    """Arguments as (where, name, value, port of the pair): `--redis-host X`, `--url=X`, `NAME=X`, or plain."""
    named: dict[str, str] = {}
    found: list[tuple[str, str, str]] = []
    previous = ""
    for index, argument in enumerate(argv):
        where = f"argument {index} ({_cut(argument)})" if index else f"the command ({_cut(argument)})"
        left, equals, right = argument.partition("=")
        if equals and _is_flag(left):
            name, value = _flag_name(left), right
        elif equals and _NAME.match(left) and (left.isupper() or _kind(left.upper())):
            name, value = left.upper(), right
        elif _is_flag(argument):
            previous = {"h": "HOST", "p": "PORT"}.get(argument[1:], _flag_name(argument))
            continue
        else:
            name, value = previous, argument
            if index and not name and argument.isdigit() and found and found[-1][1] == "":
                named.setdefault(f"#{len(found) - 1}", argument)
        previous = ""
        named.setdefault(name, value)
        found.append((where, name, value))
    for position, (where, name, value) in enumerate(found):
        yield where, name, value, _port_of(name, {**env, **named}) or named.get(f"#{position}")


def _is_flag(text: str) -> bool:
    return len(text) > 1 and text[0] == "-" and not text[1:2].isdigit()


def _flag_name(text: str) -> str:
    bare = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text.lstrip("-"))
    return bare.replace("-", "_").replace(".", "_").upper()


def _kind(name: str) -> str:
    """`host` or `url` where a name says that its value is a target, else ""."""
    upper = name.upper()
    if upper in _NO_TARGETS or upper.endswith(("_CURL", "EMAIL_ADDRESS", "MAIL_ADDRESS", "MAC_ADDRESS")):
        return ""
    if upper.endswith(_HOST_NAMES):
        return "host"
    return "url" if upper.endswith(_URL_NAMES) else ""


def _port_of(name: str, values: Mapping[str, str]) -> str | None:
    """The value that stands beside `<P>_HOST` as `<P>_PORT`."""
    upper = name.upper()
    by_name = {key.upper(): value for key, value in values.items()}
    for ending in sorted(_HOST_NAMES, key=len, reverse=True):
        if upper.endswith(ending):
            return by_name.get(f"{upper[: -len(ending)]}PORT")
    return None


def _judge(rules: _Rules, where: str, name: str, value: str, port: str | None) -> Iterator[str]:
    for target, problem in _problems(rules, name, value, port):
        yield f"{where}: {target} is refused: {problem}"


def _problems(rules: _Rules, name: str, value: str, port: str | None) -> Iterator[tuple[str, str]]:
    """(target, why it is refused) for all that is one in a value."""
    if name.upper() in _NO_TARGETS:
        return
    readable = unicodedata.normalize("NFKC", value).replace("。", ".")
    if readable != value and any(True for _ in _found(rules, name, readable, port, strict=True)):
        yield _cut(value), "it is written with characters that programs read in different ways"
        return
    yield from _found(rules, name, value, port, strict=False)


def _found(rules: _Rules, name: str, value: str, port: str | None, *, strict: bool) -> Iterator[tuple[str, str]]:
    """As `_problems`; `strict` yields every target, allowed or not."""
    spans: list[tuple[int, int]] = []
    if _TRICK.search(value):
        yield _cut(value), "programs do not agree on which host this URL names"
        return
    at = 0
    while match := _URL.search(value, at):
        at = match.end(1) + 3  # there may be another inside of it
        spans.append(match.span())
        problem = _url_problem(rules, match[1].lower(), _NEXT_URL.split(match[2], maxsplit=1)[0])
        if problem or strict:
            yield _cut(match[0]), problem
    for pattern in (_SLASHLESS, _RELATIVE):
        for match in pattern.finditer(value):
            known = pattern is _RELATIVE and not re.search(r"[.:@\[]", match[1])
            if not known and not _inside(match.start(), spans):
                spans.append(match.span())
                yield _cut(match[0]), "programs do not agree on which host this means; write a whole URL"
    for match in _HOSTLESS_VALUE.finditer(value):
        if not _inside(match.start(), spans):
            spans.append(match.span())
            problem = _file_problem(rules, match[1].lower(), match[2])
            if problem or strict:
                yield _cut(match[0]), problem
    yield from _pairs(rules, name, value, spans, strict=strict)
    yield from _keywords(rules, value, spans, strict=strict)
    yield from _literals(rules, name, value, port, spans, strict=strict)
    if not spans:
        yield from _by_name(rules, name, value, port, strict=strict)


def _inside(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= position < end for begin, end in spans)


def _pairs(
    rules: _Rules, name: str, value: str, spans: list[tuple[int, int]], *, strict: bool
) -> Iterator[tuple[str, str]]:
    for match in _PAIR.finditer(value):
        host, port = match[1], match[2]
        if _inside(match.start(), spans) or not (_is_target(host, int(port), port) or _kind(name)):
            continue
        spans.append(match.span())
        problem = rules.problem(host, port)
        if problem or strict:
            yield _cut(match[0]), problem


def _is_target(host: str, port: int, digits: str) -> bool:
    """Whether `host:port` in some text is one: not a time, an image's tag, a line of a file, a setting."""
    if port > 65535 or host.startswith("["):
        return host.startswith("[")
    lower = host.rstrip(".").lower()
    if host.isascii() and host.isdigit():
        # 12:30, 1000:1000; as an address such a number means 0.x.y.z, where nothing is but 0 itself
        return int(host) >= 1 << 24 or (int(host) == 0 and not (len(digits) == 2 and port < 60))
    if lower == "localhost" or lower.endswith(".localhost") or _QUAD.fullmatch(lower):
        return True
    if numeric_host(lower) is not None:
        return "x" in lower or port >= 1024 or port in _PORTS
    if _FILE_ENDINGS.search(lower) and port < 10_000:
        return False
    if "." in lower:
        return True
    return (port >= 1024 or port in _PORTS) and not _SETTINGS.search(lower)


def _literals(
    rules: _Rules, name: str, value: str, port: str | None, spans: list[tuple[int, int]], *, strict: bool
) -> Iterator[tuple[str, str]]:
    if name.upper().endswith("VERSION"):
        return
    for pattern in (_QUAD, _SIX):
        for match in pattern.finditer(value):
            host = match[1]
            inner = host.strip("[]").partition("%")[0]
            if _inside(match.start(), spans) or (numeric_host(inner) is None and not _is_six(inner)):
                continue
            if _CIDR.match(value, match.end()) and not _kind(name):
                continue  # a network is no target
            spans.append(match.span())
            problem = rules.problem(host, port if host == value.strip() else None)
            if problem or strict:
                yield _cut(host if port is None else f"{host} with port {port}"), problem


def _keywords(rules: _Rules, value: str, spans: list[tuple[int, int]], *, strict: bool) -> Iterator[tuple[str, str]]:
    """`host=… port=…`, as PostgreSQL and ODBC write it."""
    many = value.count("=") > 1
    for match in _KEYWORD.finditer(value):
        if _inside(match.start(2), spans) or not many:
            continue
        spans.append(match.span())
        beside = _KEYWORD_PORT.search(value)
        problem = rules.problem(match[2].strip("'\""), beside[1] if beside else None)
        if problem or strict:
            yield _cut(match[0]), problem


def _by_name(rules: _Rules, name: str, value: str, port: str | None, *, strict: bool) -> Iterator[tuple[str, str]]:
    """A value that nothing but its name shows to be a target."""
    text = value.strip()
    if _is_socket(text):
        yield _cut(text), "it is a unix socket"
        return
    kind = _kind(name)
    if not kind or text.lower() in _WORDS:
        return
    if text.startswith("//"):
        yield _cut(text), "programs do not agree on which host this means; write a whole URL"
        return
    if text.startswith(("/", "./", "../")):
        if kind == "host":
            yield _cut(text), "it is a folder of unix sockets"
        elif not _is_in(rules, text) and os.path.lexists(text):
            yield _cut(text), "it is a path outside of ${tmp} and ${repo}"
        return
    if kind == "url" and text in ("0", "1"):
        return
    for part in re.split(r"[\s,;]+", text):
        host = part.partition("/")[0].rpartition("@")[2]
        problem = rules.problem(host, port)
        if problem or strict:
            yield _cut(part if port is None else f"{part} with port {port}"), problem


def _url_problem(rules: _Rules, scheme: str, rest: str) -> str:
    base = scheme.partition("+")[0]
    if scheme in SOCKET_SCHEMES or base == "unix":
        return "it is a unix socket"
    if base in HOSTLESS:
        return _file_problem(rules, base, f"//{rest}")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "\\" in authority or not authority.isascii() or not authority.isprintable():
        return "programs do not agree on which host this URL names"
    if authority.count("@") > 1:
        return "there is more than one @ in it; write it as %40 in user and password"
    for part in authority.rpartition("@")[2].split(","):
        host, port = _split(part)
        if "%" in host:
            return "its host is written with % escapes or a zone"
        problem = rules.problem(host, port)
        if problem:
            return problem
    return ""


def _split(part: str) -> tuple[str, str | None]:
    if part.startswith("["):
        host, bracket, rest = part.partition("]")
        return host + bracket, rest[1:] if rest.startswith(":") else None
    host, colon, port = part.partition(":")
    return host, port if colon else None


def _file_problem(rules: _Rules, scheme: str, rest: str) -> str:
    """Why a scheme without a host is refused, "" if it names a file in the given folders, or nothing."""
    if scheme == "unix":
        return "it is a unix socket"
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if authority and authority != ":memory:":
            host = authority.partition("?")[0]
            if host and (scheme == "file" or slash):
                return f"{scheme} URLs name no host; write {scheme}:///…"
            path, slash = authority, ""
        path = slash + path
    else:
        path = rest
    path = unquote(re.split(r"[?#;]", path, maxsplit=1)[0])
    if path.lstrip("/") in ("", ":memory:") or path.startswith("mem:") or path.lstrip("/").startswith(":memory:"):
        return ""
    if path.startswith("//"):  # sqlite:////abs/olute
        path = path[1:]
    if _is_in(rules, path):
        return ""
    relative = path.lstrip("/")
    if ".." not in Path(relative).parts and not os.path.lexists(path) and not path.startswith("/"):
        return ""
    if rest.startswith("///") and not rest.startswith("////") and scheme != "file":
        # sqlite:///a.db is relative for some programs and absolute for others: good if the absolute one is not there
        if (
            ".." not in Path(relative).parts
            and not os.path.lexists(path)
            and not os.path.lexists(os.path.dirname(path))
        ):
            return ""
        if "/" not in relative and not os.path.lexists(path):
            return ""
    return f"{_cut(path)} is a path outside of ${{tmp}} and ${{repo}}"


def _is_in(rules: _Rules, path: str) -> bool:
    if "\0" in path or not os.path.isabs(path):
        return False
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in rules.folders)


def _is_socket(text: str) -> bool:
    if not text.startswith("/") or "\0" in text or len(text) > 4096:
        return False
    try:
        return stat.S_ISSOCK(os.stat(text).st_mode)
    except OSError:
        return text.endswith((".sock", ".socket"))


def numeric_host(host: str) -> int | None:
    """The IPv4 address that a C library reads from text as a number, None if it reads none.

    All spellings: four parts or fewer, decimal, octal (leading 0) or hexadecimal (0x).
    """
    parts = host.split(".")
    if not 1 <= len(parts) <= 4 or not host.isascii():
        return None
    numbers = []
    for part in parts:
        try:
            if part[:2].lower() == "0x":
                numbers.append(int(part[2:] or "0", 16))
            elif part.isdigit():
                numbers.append(int(part, 8) if len(part) > 1 and part[0] == "0" else int(part))
            else:
                return None
        except ValueError:
            return None
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 1 << (8 * (4 - len(heads))):
        return None
    value = last
    for index, head in enumerate(heads):
        value |= head << (8 * (3 - index))
    return value


def _is_six(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own by its number: 127.0.0.0/8, ::1, or that mapped into IPv6.

    Names are not, whatever they resolve to.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    four = numeric_host(bare)
    if four is not None:
        return four >> 24 == 127
    try:
        six = int(ipaddress.IPv6Address(bare))
    except ValueError:
        return False
    return six == 1 or (six >> 32 == 0xFFFF and (six >> 24) & 0xFF == 127)


def _cut(text: str, limit: int = 80) -> str:
    text = _USERINFO.sub("…", text)  # it may hold a password
    return repr(text if len(text) <= limit else f"{text[:limit]}…")
