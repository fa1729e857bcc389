"""Judges where a server is pointed, before it starts: at the stack of its run, or nowhere.

The rule is an allow-list: a host and port that were handed out, in the very spelling, or the server's own port, or the
name of a service in the stack. What cannot be read beyond doubt is refused; no name is ever resolved. Most of this
module finds what is a target at all, in values and arguments that are mostly something else:

- Whatever holds `://` is a URL, up to the next blank. Its hosts must be allowed, and so must be what its parameters say
  (`?host=`, `hostaddr=`, `port=`; `unix_socket=`, `service=` and `options=-h` are refused). A scheme is without a host
  only if it is one of `HOSTLESS` and nothing follows its `//`; then it names a file in `${tmp}` or `${repo}`.
- `host:port` is a target if the host is an address, `localhost` or a name with a dot (`main.py:10`, a file and a low
  number, is not), or if the variable's name ends in HOST, URL, URI, ADDR, ENDPOINT, DSN, SERVER, BROKER or their
  plurals. A bare `word:number` elsewhere is one only if the number is one of `COMMON_PORTS`, or if it is at least 1024
  and the word or the variable speaks of a service (`redis-2:16379`). Images, models, tags and measures (`node:22`,
  `timeout:25`) are not.
- The value of a variable, flag, JSON key or `key=value` with such a name is a target in itself, `<P>_HOST` together
  with `<P>_PORT`. A `<P>_PORT` alone means a default host: it must be a port that was handed out, unless its name says
  that it is the server's own (`PORT`, `METRICS_PORT`).
- IP addresses are targets wherever they stand, but for networks and versions.
- JSON is judged by what it says, escapes and all, and `sh -c` by its words.

Messages name the variable and the kind of fault, and never quote a value: it may be a secret, or a part of one.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

__all__ = [
    "COMMON_PORTS",
    "check_headers",
    "check_roots",
    "check_targets",
    "faulty_variables",
    "is_loopback",
    "numeric_host",
]

HOSTLESS = {"duckdb", "file", "mem", "memory", "sqlite", "sqlite3"}  # schemes that name a file, or nothing
HOSTLESS_DRIVERS = {"", "aiosqlite", "pysqlcipher", "pysqlite"}
SOCKET_SCHEMES = {"http+unix", "https+unix", "ldapi", "npipe", "redis+socket", "rediss+socket", "unix", "unixgram"}
COMMON_PORTS = frozenset(
    # ssh, telnet, mail, DNS, web, Kerberos, directories, files, logs
    {22, 23, 25, 53, 80, 81, 88, 110, 111, 143, 389, 443, 445, 465, 514, 548, 587, 636, 873, 989, 990, 993, 995}
    # SQL and other databases, caches, graphs, search
    | {1433, 1434, 1521, 2379, 2380, 3050, 3268, 3269, 3306, 5432, 5433, 5984, 6333, 6334, 6379, 6380, 6432}
    | {7000, 7001, 7474, 7687, 8086, 8123, 8529, 9000, 9001, 9042, 9160, 9200, 9300, 11211, 19530, 26257, 26379}
    | {27017, 27018, 27019, 28015, 33060, 50000}
    # messages, coordination, metrics, services of the web
    | {1883, 2181, 3100, 4222, 4317, 4318, 5044, 5222, 5601, 5671, 5672, 6650, 8000, 8025, 8080, 8081, 8088, 8200}
    | {8300, 8443, 8500, 8883, 8888, 9090, 9091, 9092, 9093, 9094, 9100, 9411, 9418, 9876, 11434, 15672, 16686, 61616}
)
MAX_VALUE_CHARS = 256 * 1024  # a longer value is refused: Linux takes no longer one anyway
MAX_TARGETS = 500  # in one value
_MAX_DEPTH = 8  # of JSON in JSON, of a shell in a shell

_HOST_NAMES = ("HOSTNAME", "HOST", "ADDRESS", "ADDR")
_URL_NAMES = ("URL", "URI", "ENDPOINT", "DSN")
_LIST_NAMES = ("HOSTNAMES", "HOSTS", "ADDRESSES", "ADDRS", "URLS", "URIS", "ENDPOINTS", "DSNS")
_WHOLE_NAMES = {"SERVERS": "hosts", "BROKERS": "hosts", "NODES": "hosts", "SERVER": "soft", "BROKER": "soft"}
_KEYWORDS = {"data source": "host", "datasource": "host", "network address": "host", "server": "host"}
_NO_TARGETS = {"ALLOWED_HOSTS", "NO_PROXY", "TRUSTED_HOSTS", "GHOST", "CURL", "LIBCURL", "VHOST"}
_NO_TARGET_ENDS = ("_CURL", "_VHOST", "VIRTUAL_HOST", "EMAIL_ADDRESS", "MAIL_ADDRESS", "MAC_ADDRESS", "MACADDR")
_TAGGED = ("IMAGE", "IMAGES", "MODEL", "MODELS", "TAG", "TAGS", "VERSION")  # word:number is a name and a tag
_SWITCHES = {
    *("ALLOW", "CHECK", "DISABLE", "ENABLE", "EXPOSE", "HIDE", "LOCALHOST", "PREFER", "SHOW", "TRUST", "USE", "VERIFY"),
    *("VERIFYHOST", "VALIDATE", "IGNORE"),
}
_MAIL_WORDS = {"BCC", "CC", "CONTACT", "EMAIL", "FROM", "MAIL", "RECIPIENT", "REPLY", "SENDER", "SUPPORT", "TO"}
_CHAIN_WORDS = {"ACCOUNT", "CONTRACT", "ETH", "TOKEN", "WALLET"}
_SERVICES = {
    *("AMQP", "BROKER", "CACHE", "CASSANDRA", "CLICKHOUSE", "CONSUL", "COUCHDB", "DATABASE", "DB", "ELASTIC", "ES"),
    *(
        "ELASTICSEARCH",
        "ETCD",
        "IMAP",
        "INFLUX",
        "INFLUXDB",
        "KAFKA",
        "LDAP",
        "LOKI",
        "MARIADB",
        "MEMCACHE",
        "MEMCACHED",
    ),
    *("MILVUS", "MINIO", "MONGO", "MONGODB", "MQTT", "MSSQL", "MYSQL", "NATS", "NEO", "OLLAMA", "OPENSEARCH", "ORACLE"),
    *("PG", "POSTGRES", "POSTGRESQL", "PROMETHEUS", "QDRANT", "QUEUE", "RABBIT", "RABBITMQ", "REDIS", "SEARCH"),
    *("SENTINEL", "SMTP", "SOLR", "SQL", "SQLSERVER", "SSH", "VALKEY", "VAULT", "WEAVIATE", "ZOOKEEPER"),
}
_OWN_PORTS = {  # words of a port on which the server itself listens
    *("ADMIN", "APP", "BIND", "CALLBACK", "DEBUG", "DEBUGGER", "DEV", "FASTMCP", "GRPC", "HEALTH", "HTTP", "HTTPS"),
    *("INSPECT", "INSPECTOR", "LISTEN", "LISTENER", "LOCAL", "MCP", "METRICS", "MONITORING", "OAUTH", "PROBE"),
    *("PROFILER", "REDIRECT", "SERVER", "SSE", "STREAMABLE", "UI", "UVICORN", "WEB", "WEBHOOK", "WEBSOCKET", "WS"),
}
_WORDS = {"", "true", "false", "yes", "no", "on", "off", "none", "null"}
_SETTINGS = re.compile(  # words before a colon and a number that is a measure, not a port
    r"(?:\w+_)?(?:age|batch|bytes|chars|code|columns?|count|days?|delay|depth|error|exit|gid|height|hours?|interval|len|"
    r"length|level|limit|lines?|minutes|ms|offset|pages?|pid|ports?|priority|rate|retries|retry|rows?|seconds|sec|size|"
    r"sleep|step|threads|timeout|tokens|top|total|ttl|uid|version|weight|width|window|workers|year)",
    re.IGNORECASE,
)
_FILE_ENDINGS = re.compile(
    r"\.(?:c|cfg|conf|cpp|go|h|html|ini|java|js|json|log|lua|md|mjs|pl|py|rb|rs|sh|sql|toml|ts|tsx|txt|xml|ya?ml)$"
)
_SCHEME = re.compile(r"[\w+.\-]*\Z", re.ASCII)
_AUTHORITY = re.compile(r"[A-Za-z0-9._~!$&()*+,;=:%@\[\]\-]*")
_HOST_PART = re.compile(r"[A-Za-z0-9._\-:\[\],%]*")
_CLOSERS = {'"': '"', "'": "'", "`": "`", "<": ">", "(": ")"}
_PARAMETER = re.compile(r"(?:^|[?#&;])([^=&;?#]+)=([^&;#]*)")
_SLASHLESS = re.compile(r"(?<![\w.+\-])(https?|wss?|ftp|libsql):(?!//)[/\\]*([\w.\[]+)", re.IGNORECASE)
_BACKSLASHES = re.compile(r"(?<![\w+.\-])[A-Za-z][\w+.\-]+:\\\\[\w.\[]|^\s*\\\\[\w.\-]+\\[\w$]")
_RELATIVE = re.compile(r"(?:^|(?<=[\s=,\"'(@]))//((?:[\w.\-@]+|\[[^\]]*\])(?::\d+)?)(?=[/?#\s\"')]|$)")
_HOSTLESS_VALUE = re.compile(
    r"(?:^|(?<=[\s=,\"']))(?:jdbc:)?(sqlite3?|duckdb|file|unix)(?:\+\w+)?:(?!//)([^\s\"',;]*)", re.IGNORECASE
)
_PAIR = re.compile(r"(?<![\w.\-%\]])(\[[^\]\s]*\]|[^\W_](?:[\w.\-]*\w)?\.?):(\d+)(?!\d)")
_JUNK = re.compile(r"[.\-]\w|[\w%@]")  # after a port: it is none
_TIME = re.compile(r"\d{4}-\d\d-\d\dt\d\d")
_QUAD = re.compile(r"(?<![\w.:/\-])((?:0[xX][0-9a-fA-F]+|\d+)(?:\.(?:0[xX][0-9a-fA-F]+|\d+)){3})(?![\w.\-]|:\d)")
_SIX = re.compile(  # in brackets, or with a digit in it: a::b is not meant for one
    r"(?<![\w.:/])(\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\]\s]*)?\](?!:\d)"
    r"|(?=[0-9A-Fa-f:.]*\d)[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%\w+)?)(?![\w.:])"
)
_EUI = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){7}")
_SIX_IN_USE = tuple(
    ipaddress.IPv6Network(net) for net in ("::/16", "64:ff9b::/32", "2000::/3", "fc00::/7", "fe80::/9", "ff00::/8")
)
_NEXT_URL = re.compile(r"[,;|][A-Za-z][A-Za-z0-9+.\-]*://")
_ASSIGNED = re.compile(
    r"(?:^|(?<=[\s;,&{(\"'?|\[]))-{0,2}((?:data source|network address)|[A-Za-z_][\w.\-]*)\s*=\s*"
    r"(\"[^\"]*\"|'[^']*'|[^\s;,&)}\]]*)(?:,(\d+))?",
    re.IGNORECASE,
)
_LINE = re.compile(  # of YAML
    r"""^[ \t]*(?:-[ \t]+)?["']?([A-Za-z_][\w.\-]*)["']?[ \t]*:[ \t]+["']?([^\s"'#,]+)["']?,?[ \t]*(?:\#.*)?$""",
    re.MULTILINE,
)
_SOCKET_PATH = re.compile(r"(?:^|(?<=[\s=,:;\"'(]))/[^\s,;:\"')=]+")
_TRICKS = (
    re.compile(r"://[^\s/?#]*(?:[\x00-\x20]+[^\s/?#]*@|[?#][^/]*@)"),
    re.compile(r"\A\s*[\w+.\-]+://[^\s/?#]*\s[^/?#]*@"),
    re.compile(r"\A\s*[\w+.\-]+://[^\s/?#]*[\t\r\n]+(?![\w+.\-]+://)\S"),
)
_NAME = re.compile(r"\A[A-Za-z_][\w.\-]*\Z")
_FLAG = re.compile(r"--?[A-Za-z][\w.\-]{0,60}")
_SHELL_FLAG = re.compile(r"-[a-zA-Z]*c|/[cC]|-Command", re.IGNORECASE)
_CIDR = re.compile(r"/\d{1,3}(?![\w.])")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(/))")

UNREADABLE = "programs do not agree on which host this means; write a plain URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What is allowed."""

    allowed: frozenset[tuple[str, int]]
    names: frozenset[str]
    folders: tuple[Path, ...]

    def problem(self, host: str, port: str | None) -> str:
        """Why a target is refused, "" if it is not."""
        if host in self.names:
            return ""
        number = int(port) if port is not None and port.isascii() and port.isdigit() and len(port) < 6 else None
        if number is not None and str(number) == port and (host, number) in self.allowed and is_loopback(host):
            return ""
        if not host:
            return "it names no host, and so means a default one"
        if not port:
            if is_loopback(host):
                return "it names no port, and so means a default one"
            return "its host is not of this run's stack"
        if number is None:
            return "what should be its port is no port"
        return self._advice(host, number)

    def _advice(self, host: str, number: int) -> str:
        spellings = sorted(known for known, open_port in self.allowed if open_port == number)
        plain = unicodedata.normalize("NFKC", host).replace("。", ".").rstrip(".").lower()
        local = _is_local_name(plain) or is_loopback(plain)
        if spellings and (local or plain in spellings or numeric_host(plain) == 0):
            return f"this address was handed out as {spellings[0]}:{number}; write it so"
        if local:
            return "that port of this machine is not of this run's stack"
        return "its host is not of this run's stack"


_Found = Iterator[tuple[str, str]]  # (what kind of target, why it is refused or ""), of everything that is a target


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

    No sentence holds a value, or a part of one.

    Args:
        env: The declared variables, expanded.
        argv: The command, expanded.
        allowed: Every (host, port) that the stack handed out.
        own_port: The port that the server itself is to listen on, on 127.0.0.1.
        names: Of services inside the stack; they are good with any port. One that means this machine is passed over.
        folders: Where files may lie that are named by schemes without a host.
    """
    rules = _rules(allowed, own_port, names, folders)
    out = [
        f"variable {name}: {what} is refused: {problem}"
        for name, faults in _variables(rules, env).items()
        for what, problem in faults
    ]
    for where, name, value, port in _arguments(argv, env):
        out += [f"{where}: {what} is refused: {problem}" for what, problem in _problems(rules, name, value, port)]
    flags: dict[str, str] = {}
    for _, name, value, _ in _arguments(argv, env):
        if name:
            flags.setdefault(name, value)
    for name, problem in _lone_ports(rules, flags, {**env, **flags}):
        out.append(f"argument {name.lower()}: the port is refused: {problem}")
    return tuple(dict.fromkeys(out))


def check_headers(
    headers: Mapping[str, str],
    *,
    allowed: Iterable[tuple[str, int]],
    own_port: int | None,
    names: Iterable[str],
    folders: Iterable[Path],
) -> tuple[str, ...]:
    """Everything in headers for a server that points outside of its run's stack, as `header NAME: …`.

    A server may follow what a header says (a callback, an upstream) as it follows a variable.
    """
    found = check_targets(headers, (), allowed=allowed, own_port=own_port, names=names, folders=folders)
    return tuple(sentence.replace("variable ", "header ", 1) for sentence in found)


def check_roots(uris: Sequence[str], *, folders: Iterable[Path]) -> tuple[str, ...]:
    """Every root of a client that is no folder inside the given ones, a sentence each, as `root N: …` from 1."""
    rules = _rules((), None, (), folders)
    out = []
    for number, uri in enumerate(uris, 1):
        path = unquote(re.split(r"[?#]", uri, maxsplit=1)[0].removeprefix("file://"))
        if not uri.startswith("file:///"):
            out.append(f"root {number}: what follows file:// would be a host; write file:///…")
        elif not _is_in(rules, path):
            out.append(f"root {number}: it is a path outside of ${{tmp}} and ${{repo}}")
    return tuple(out)


def faulty_variables(
    env: Mapping[str, str], *, allowed: Iterable[tuple[str, int]], folders: Iterable[Path]
) -> Mapping[str, str]:
    """Those variables that point outside of the stack, and why."""
    return {
        name: faults[0][1] for name, faults in _variables(_rules(allowed, None, (), folders), env).items() if faults
    }


def _rules(
    allowed: Iterable[tuple[str, int]], own_port: int | None, names: Iterable[str], folders: Iterable[Path]
) -> _Rules:
    handed = set(allowed)
    if own_port is not None:
        handed.add(("127.0.0.1", own_port))
    return _Rules(
        allowed=frozenset(handed),
        names=frozenset(name for name in names if _is_plain_name(name)),
        folders=tuple(Path(os.path.realpath(folder)) for folder in folders),
    )


def _variables(rules: _Rules, env: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    plain = {_plain(name): value for name, value in env.items()}
    out = {name: list(_problems(rules, name, value, _port_of(name, plain))) for name, value in env.items()}
    for name, problem in _lone_ports(rules, env, env):
        out[name].append(("the port", problem))
    return out


# --- names ----------------------------------------------------------------------------------------


def _is_local_name(name: str) -> bool:
    bare = name.rstrip(".").lower()
    return bare in ("localhost", "ip6-localhost", "ip6-loopback") or bare.endswith((".localhost", ".localdomain"))


def _is_plain_name(name: str) -> bool:
    """Whether a service's name is one, and not this machine or an address in disguise."""
    return (
        re.fullmatch(r"[A-Za-z0-9](?:[\w.\-]*\w)?", name, re.ASCII) is not None
        and not _is_local_name(name)
        and numeric_host(name) is None
        and not _is_six(name)
    )


def _plain(name: str) -> str:
    """`redisHost`, `redis.host`, `--redis-host` as REDIS_HOST."""
    bare = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-"))
    return re.sub(r"[.\- ]", "_", bare).upper()


def _words_of(name: str) -> set[str]:
    words = set(re.findall(r"[A-Z]+", _plain(name)))
    return words | {word.removesuffix(end) for word in words for end in ("PORT", "HOST", "URL", "ADDR", "SERVER")}


def _is_service(name: str) -> bool:
    return not _SERVICES.isdisjoint(_words_of(name))


def _kind(name: str) -> str:
    """`host`, `hosts`, `url` or `soft` (perhaps a host) where a name says that its value is a target, else ""."""
    plain = re.sub(r"_?\d+$", "", _plain(name))
    if plain in _NO_TARGETS or plain.endswith(_NO_TARGET_ENDS):
        return ""
    if plain.endswith(_HOST_NAMES):
        return "host"
    if plain.endswith(_URL_NAMES):
        return "url"
    if plain.endswith(_LIST_NAMES):
        return "hosts"
    return _WHOLE_NAMES.get(plain.rpartition("_")[2], "") or _KEYWORDS.get(name.lower(), "")


def _port_of(name: str, values: Mapping[str, str]) -> str | None:
    """The value that stands beside `<P>_HOST` as `<P>_PORT`; the names of `values` are plain ones."""
    plain, digits = re.fullmatch(r"(.*?)(_?\d*)", _plain(name), re.DOTALL).groups()  # type: ignore[union-attr]
    for ending in (*_HOST_NAMES, "SERVER", "DATA_SOURCE"):
        if plain.endswith(ending):
            before = plain[: -len(ending)]
            return values.get(f"{before}PORT{digits}", values.get(f"{before}PORT"))
    return None


def _lone_ports(rules: _Rules, names: Iterable[str], values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, why it is refused) for every `<P>_PORT` that has no host beside it, and so means a default one."""
    known = {_plain(key) for key in values}
    ports = {str(port) for _, port in rules.allowed}
    for name in names:
        plain, value = _plain(name), values[name].strip()
        before = plain.removesuffix("PORT")
        if before in (plain, "") or not (before.endswith("_") or _is_service(before)):
            continue
        if not (value.isascii() and value.isdigit() and len(value) < 6 and 0 < int(value) < 65536) or value in ports:
            continue
        if any(f"{before}{ending}" in known for ending in (*_HOST_NAMES, "SERVER")):
            continue  # judged as a pair
        if _is_service(before) or _OWN_PORTS.isdisjoint(_words_of(before)):
            yield name, "no host stands beside it, and it is no port of this run's stack"


# --- arguments ------------------------------------------------------------------------------------


def _arguments(
    argv: Sequence[str], env: Mapping[str, str], *, place: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str, str | None]]:
    """Arguments as (where, name, value, port of the pair): `--redis-host X`, `--url=X`, `-hX`, `NAME=X`, or plain."""
    named: dict[str, str] = {}
    found: list[tuple[str, str, str]] = []
    last_plain = -1  # of `found`, if the argument before was a plain one
    previous, flag = "", ""
    for index, argument in enumerate(argv):
        where = place or (f"argument {index}" if index else "the command")
        left, equals, right = argument.partition("=")
        if depth < _MAX_DEPTH and _SHELL_FLAG.fullmatch(flag) and re.search(r"[\s=]", argument):
            yield from _arguments(_shell_words(argument), env, place=where, depth=depth + 1)
        shown = _FLAG.fullmatch(left) if equals else None
        if shown and not place:
            where += f" ({left})"
        elif previous and argument[:1] != "-" and not place and _FLAG.fullmatch(flag):
            where += f" ({flag})"
        begun, plain_before, before = len(found), last_plain, previous
        previous, flag, last_plain = "", argument, -1
        if equals and shown:
            found.append((where, _plain(left), right))
            if re.match(r"-[A-Za-z]", left):
                found.append((where, "", f"{left[2:]}={right}"))
        elif equals and _NAME.match(left) and (left.isupper() or _kind(left)):
            found.append((where, _plain(left), right))
        elif len(argument) > 1 and argument[0] == "-" and not argument[1].isdigit():
            found += [(where, *item) for item in _flag_values(argument)]
            if _FLAG.fullmatch(argument):
                previous = {"h": "HOST", "p": "PORT"}.get(argument[1:], _plain(argument))
        else:
            found.append((where, before, argument))
            if not before:
                last_plain = len(found) - 1
                if index and argument.isdigit() and plain_before >= 0:
                    named.setdefault(f"#{plain_before}", argument)
        for _, name, value in found[begun:]:
            named.setdefault(name, value)
    plain = {_plain(name): value for name, value in {**env, **named}.items()}
    for position, (where, name, value) in enumerate(found):
        yield where, name, value, _port_of(name, plain) or named.get(f"#{position}")


def _flag_values(argument: str) -> Iterator[tuple[str, str]]:
    """(name, value) for what a flag without `=` may hold: `-h10.1.2.3`, `--db:redis://…`."""
    yield "", argument.lstrip("-")
    if "://" in argument:
        return
    head, colon, rest = argument.partition(":")
    if colon and _FLAG.fullmatch(head) and rest:
        yield _plain(head), rest
    if re.match(r"-[hH][^-]", argument) and (
        re.search(r"[.:\d]", argument) or argument[2:].lower().startswith("localhost")
    ):
        yield "HOST", argument[2:]
    elif re.match(r"-[A-Za-z].", argument):
        yield "", argument[2:]


def _shell_words(script: str) -> list[str]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        words = script.split()
    return ["sh", *words]


# --- values ---------------------------------------------------------------------------------------


def _problems(rules: _Rules, name: str, value: str, port: str | None) -> _Found:
    """(what it is, why it is refused) for all that is refused in a value."""
    if len(value) > MAX_VALUE_CHARS:
        yield "the value", "it is too long to be judged"
        return
    readable = unicodedata.normalize("NFKC", value).replace("。", ".")
    if readable != value and any(True for _ in _found(rules, name, readable, port)):
        yield "the value", "it is written with characters that programs read in different ways"
        return
    for text in dict.fromkeys((value, *_unescaped(value))):
        yield from ((what, problem) for what, problem in _found(rules, name, text, port) if problem)


def _unescaped(value: str) -> Iterator[str]:
    if "\\" in value:
        yield _ESCAPED.sub(lambda match: match[3] or chr(int(match[1] or match[2], 16)), value)
    if "%" in value and "://" not in value:
        yield unquote(value)


def _found(rules: _Rules, name: str, value: str, port: str | None, depth: int = 0) -> _Found:
    """Every target in a value, with "" for the allowed ones."""
    if value.lstrip()[:1] in ("{", "[", '"') and depth < _MAX_DEPTH:
        try:
            data = json.loads(value, object_pairs_hook=_Pairs)
        except ValueError:
            pass
        except RecursionError:
            yield "the JSON", "it is too deep to be judged"
            return
        else:
            yield from _in_json(rules, name, data, port, depth + 1)
            return
    yield from _in_text(rules, name, value, port)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every key that it holds, even twice."""


def _in_json(rules: _Rules, name: str, data: Any, port: str | None, depth: int) -> _Found:
    waiting: list[tuple[str, Any, str | None]] = [(name, data, port)]
    while waiting:
        name, item, port = waiting.pop()
        if isinstance(item, _Pairs):
            scalars = {key: _scalar(value) for key, value in item if isinstance(value, str | int)}
            plain = {_plain(key): value for key, value in scalars.items()}
            for key, value in item:
                yield from _found(rules, "", key, None, depth)
                waiting.append((key, value, _port_of(key, plain)))
            for _, problem in _lone_ports(rules, scalars, scalars):
                yield "a port in JSON", problem
        elif isinstance(item, list):
            waiting += [(name, value, port) for value in item]
        elif isinstance(item, str):
            yield from _found(rules, name, item, port, depth)
        elif isinstance(item, int) and not isinstance(item, bool) and _kind(name) == "host":
            yield from _found(rules, name, _scalar(item), port, depth)


def _scalar(value: str | int) -> str:
    if isinstance(value, str):
        return value
    return str(value) if abs(value) < 10**20 else "?"


def _in_text(rules: _Rules, name: str, value: str, port: str | None) -> _Found:
    spans: list[tuple[int, int]] = []
    if any(trick.search(value) for trick in _TRICKS) or _BACKSLASHES.search(value):
        yield "the value", UNREADABLE
        return
    if re.sub(r"[\t\r\n]", "", value).count("://") > value.count("://"):
        yield "the value", UNREADABLE
        return
    yield from _urls(rules, value, spans)
    for pattern in (_SLASHLESS, _RELATIVE):
        for match in pattern.finditer(value):
            comment = pattern is _RELATIVE and not re.search(r"[.:@\[]", match[1])
            if not comment and not _inside(match.start(), spans):
                spans.append(match.span())
                yield "a URL", UNREADABLE
    for match in _HOSTLESS_VALUE.finditer(value):
        if not _inside(match.start(), spans):
            spans.append(match.span())
            yield "a file", _file_problem(rules, match[1].lower(), match[2])
    yield from _sockets(name, value, spans)
    exempt = _plain(name) in _NO_TARGETS
    if not exempt:
        yield from _pairs(rules, name, value, spans)
        yield from _assignments(rules, value, spans)
        yield from _literals(rules, name, value, port, spans)
        if not spans or _kind(name) in ("host", "hosts"):
            yield from _by_name(rules, name, value, port, spans)


def _inside(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= position < end for begin, end in spans)


def _urls(rules: _Rules, value: str, spans: list[tuple[int, int]]) -> _Found:
    for match in re.finditer("://", value):
        scheme = _SCHEME.search(value[max(0, match.start() - 64) : match.start()])[0]  # type: ignore[index]
        begin = match.start() - len(scheme)
        rest = re.compile(r"\S*").match(value, match.end())[0]  # type: ignore[index]
        closer = _CLOSERS.get(value[begin - 1 : begin])
        if closer and (end := re.search(rf"{re.escape(closer)}(?=$|[\s,;)}}\]:>&|\"'`])", rest)):
            rest = rest[: end.start()]
        rest = _NEXT_URL.split(rest, maxsplit=1)[0].rstrip(",;)")
        if not rest and not scheme:
            continue
        if len(spans) >= MAX_TARGETS:
            yield "the value", "it holds too many addresses to be judged"
            return
        spans.append((begin, match.end() + len(rest)))
        jdbc = "jdbc:" in value[max(0, begin - 12) : begin].lower()
        yield "a URL", _url_problem(rules, scheme.lstrip("-+._").lower(), rest, jdbc=jdbc)


def _url_problem(rules: _Rules, scheme: str, rest: str, *, jdbc: bool) -> str:
    base, _, driver = scheme.partition("+")
    if scheme in SOCKET_SCHEMES or base == "unix":
        return "it is a unix socket"
    if base in HOSTLESS and driver in HOSTLESS_DRIVERS:
        return _file_problem(rules, base, f"//{rest}")
    if "srv" in driver:
        return "its hosts are looked up by name"
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    tail = rest[len(authority) :]
    if jdbc and ";" in authority and "@" not in authority:
        authority, _, more = authority.partition(";")
        tail = f";{more}{tail}"
    user, _, hosts = authority.rpartition("@")
    if not _AUTHORITY.fullmatch(authority) or not _HOST_PART.fullmatch(hosts):
        return UNREADABLE
    if "@" in user:
        return "there is more than one @ in it; write it as %40 in user and password"
    targets = [_split(part) for part in hosts.split(",")]
    for host, port in targets:
        if "%" in host:
            return "its host is written with % escapes or a zone"
        if problem := rules.problem(host, port):
            return problem
    return _parameter_problem(rules, targets[0], tail, http=scheme in ("http", "https", "ws", "wss"))


def _parameter_problem(rules: _Rules, target: tuple[str, str | None], tail: str, *, http: bool) -> str:
    """Why what stands behind the path is refused: many drivers take a host from there before the URL's own."""
    found = [(unquote(key).strip().lower(), unquote(text).strip()) for key, text in _PARAMETER.findall(tail)]
    ports = [part for key, text in found if key in ("port", "portnumber") for part in text.split(",")]
    hosts: list[tuple[str, str]] = []
    for key, text in found:
        plain = _plain(key)
        if "://" in text and any(problem for _, problem in _in_text(rules, "", text, None)):
            return "one of its parameters holds a URL that is not of this run's stack"
        if "SOCKET" in plain and text.lower() not in _WORDS | {"0"}:
            return "one of its parameters names a unix socket"
        if not http and key in ("service", "servicefile") and text:
            return "one of its parameters names a service, which may be anywhere"
        if not http and key == "options" and re.search(r"(?:^|\s|=)-+[hp]|host", text):
            return "its parameter `options` holds a host or a port"
        if "://" not in text and (
            _kind(key) in ("host", "hosts", "soft") or plain in ("SERVERNAME", "FAILOVERPARTNER")
        ):
            hosts += [(key, part) for part in text.split(",") if part.lower() not in _WORDS - {""}]
    for _, part in hosts:
        host, port = _split(part)
        for number in (port,) if port is not None else ports or (target[1],):
            if rules.problem(host, number):
                return "one of its parameters names a host that is not of this run's stack"
    if not hosts and any(rules.problem(target[0], number) for number in ports):
        return "its parameter `port` names a port that is not of this run's stack"
    return ""


def _split(part: str) -> tuple[str, str | None]:
    if part.startswith("["):
        host, bracket, rest = part.partition("]")
        if rest and not rest.startswith(":"):
            return part, rest
        return host + bracket, rest[1:] if rest else None
    host, colon, port = part.partition(":")
    return host, port if colon else None


def _sockets(name: str, value: str, spans: list[tuple[int, int]]) -> _Found:
    if value.startswith("@") and not {"SOCK", "SOCKET"}.isdisjoint(_words_of(name)):
        yield "the value", "it is a unix socket"
    for match in _SOCKET_PATH.finditer(value):
        if not _inside(match.start(), spans) and _is_socket(match[0]):
            spans.append(match.span())
            yield "a path", "it is a unix socket"


def _pairs(rules: _Rules, name: str, value: str, spans: list[tuple[int, int]]) -> _Found:
    for match in _PAIR.finditer(value):
        before = value[max(0, match.start() - 2) : match.start()]
        after = value[match.end() : match.end() + 2]
        if _inside(match.start(), spans) or not _is_target(name, match[1], match[2], before, after):
            continue
        if len(spans) >= MAX_TARGETS:
            yield "the value", "it holds too many addresses to be judged"
            return
        spans.append(match.span())
        yield "host:port", UNREADABLE if _JUNK.match(after) else rules.problem(match[1], match[2])


def _is_target(name: str, host: str, digits: str, before: str, after: str) -> bool:
    """Whether `host:port` in some text is one: not a time, an image's tag, a line of a file, a setting."""
    if host.startswith("["):
        return True
    port = int(digits) if len(digits) < 6 else 65536
    lower = host.rstrip(".").lower()
    loose = before[-1:] in (":", "/", "\\") or _JUNK.match(after) is not None or after[:1] == ":"
    if host.isascii() and host.isdigit():
        # 12:30, 1000:1000; as an address such a number means 0.x.y.z, where nothing is but 0 itself
        number = int(host) if len(host) < 20 else 0
        return not loose and (number >= 1 << 24 or (not host.strip("0") and not (len(digits) == 2 and port < 60)))
    if _is_local_name(lower) or _QUAD.fullmatch(lower):
        return True
    if numeric_host(lower) is not None:
        return not loose and ("x" in lower or port >= 1024 or port in COMMON_PORTS)
    if _TIME.fullmatch(lower):
        return False
    if _kind(name) and after[:1] != "@":
        return True
    if not 0 < port < 65536:
        return False
    if "." in lower:
        return _is_dotted_target(lower, port, before, loose=loose)
    if _plain(name).endswith(_TAGGED) or (_SETTINGS.fullmatch(lower) and before[-1:] != "/"):
        return False
    if loose:
        return port in COMMON_PORTS and port >= 1024 and after[:1] != "@"
    return port in COMMON_PORTS or (port >= 1024 and (_is_service(host) or _is_service(name)))


def _is_dotted_target(host: str, port: int, before: str, *, loose: bool) -> bool:
    if host.rpartition(".")[2][:1].isdigit():  # llama3.2:70; no domain ends so
        return port in COMMON_PORTS and port >= 1024 and not loose
    if host.count(".") == 1 and _FILE_ENDINGS.search(host):
        in_a_folder = len(before) == 2 and before[1] in "/\\" and (before[0].isalnum() or before[0] in "_-.")
        return port in COMMON_PORTS or (port >= 1024 and not in_a_folder)
    return True


def _assignments(rules: _Rules, value: str, spans: list[tuple[int, int]]) -> _Found:
    """`host=… port=…`, as PostgreSQL and ODBC write it, `export REDIS_HOST=…`, and lines of YAML."""
    found = [(match, match[3]) for match in _ASSIGNED.finditer(value)]
    found += [(match, None) for match in _LINE.finditer(value)]
    values = {_plain(match[1]): match[2].strip("\"'") for match, _ in found}
    for match, comma in found:
        key = match[1]
        if not (_kind(key) or key.lower() in _KEYWORDS) or any(_inside(begin, [match.span(2)]) for begin, _ in spans):
            continue
        if _inside(match.start(2), spans) or _inside(match.start(1), spans):
            continue
        spans.append(match.span())
        yield from _by_name(rules, key, match[2].strip("\"'"), comma or _port_of(key, values), [])


def _literals(rules: _Rules, name: str, value: str, port: str | None, spans: list[tuple[int, int]]) -> _Found:
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
            if pattern is _SIX and not _kind(name) and host[0] != "[" and not _is_six_in_use(inner):
                continue
            spans.append(match.span())
            yield "an IP address", rules.problem(host, port if host == value.strip() else None)


def _by_name(rules: _Rules, name: str, value: str, port: str | None, spans: Sequence[tuple[int, int]]) -> _Found:
    """A value that nothing but its name shows to be a target."""
    kind, text = _kind(name), value.strip()
    if not kind or (text.lower() in _WORDS and not (kind == "host" and port)):
        return
    if _is_no_host(name, kind, text):
        return
    if text.startswith("//"):
        yield "the value", UNREADABLE
        return
    if text.startswith(("/", "./", "../")):
        if kind != "url":
            yield "the value", "it is a folder of unix sockets"
        elif not _is_in(rules, text) and os.path.lexists(text):
            yield "the value", "it is a path outside of ${tmp} and ${repo}"
        return
    items = list(re.finditer(r"[^\s,;]+", value))
    for match in items:
        item = match[0]
        if spans and ("=" in item or any(begin < match.end() and match.start() < end for begin, end in spans)):
            continue
        if kind == "hosts" and re.fullmatch(r"[1-9]\d{0,6}", item):
            continue  # how many
        if kind == "soft" and not _is_service(name) and ("." not in item or _FILE_ENDINGS.search(item.lower())):
            continue
        host, own = _split(item.partition("/")[0].rpartition("@")[2])
        yield "the value", rules.problem(host, own if own is not None else port)
    if not items:
        yield "the value", rules.problem("", port)


def _is_no_host(name: str, kind: str, text: str) -> bool:
    """Whether a value has nothing to do with hosts, whatever its name says."""
    words = _words_of(name)
    if text in ("0", "1", "2"):
        return kind != "host" or text != "0" or not _SWITCHES.isdisjoint(words)
    if kind == "url" and (text in ("/", ".") or re.match(r"(?:about|data|mailto|urn):", text, re.IGNORECASE)):
        return True
    if re.fullmatch(r"0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})", text):
        return True
    if not _CHAIN_WORDS.isdisjoint(words) and re.fullmatch(r"[A-Za-z0-9]{5,100}", text) and kind == "host":
        return _plain(name).endswith(("ADDRESS", "ADDR"))
    mail = re.fullmatch(r"[^@\s/:]+@[\w.\-]+", text)
    return mail is not None and not _MAIL_WORDS.isdisjoint(words) and _plain(name).endswith(("ADDRESS", "ADDR"))


# --- files ----------------------------------------------------------------------------------------


def _file_problem(rules: _Rules, scheme: str, rest: str) -> str:
    """Why a scheme without a host is refused, "" if it names a file in the given folders, or nothing."""
    if scheme == "unix":
        return "it is a unix socket"
    path = rest
    if rest.startswith("//"):
        authority = re.split(r"[/?#]", rest[2:], maxsplit=1)[0]
        if authority not in ("", ":memory:"):
            return f"what follows {scheme}:// would be a host; write {scheme}:///…"
        path = rest[2:]
    path = unquote(re.split(r"[?#;]", path, maxsplit=1)[0])
    if path.lstrip("/") in ("", ":memory:") or path.startswith("mem:") or path.lstrip("/").startswith(":memory:"):
        return ""
    if re.match(r"[A-Za-z][\w+.\-]+:", path):
        return "it names no file"
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
    return "it is a path outside of ${tmp} and ${repo}"


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


def _is_six_in_use(host: str) -> bool:
    address = ipaddress.IPv6Address(host)
    return not _EUI.fullmatch(host) and any(address in net for net in _SIX_IN_USE)


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
