"""Where tool lists come from: a file, a folder, a URL or a command -> catalogues, all pages, from raw frames.

The door behind the `tools` commands; nothing here sends `tools/call`, and nothing here prints.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.errors import ConfigError, Interrupted, NothingSelected
from harness.model.catalogue import Catalogue
from harness.model.plan import CALL_TIMEOUT_S, Era, ExemptionSpec, ProjectSpec

if TYPE_CHECKING:
    from harness.engine.http_list import HttpListing
    from harness.findings.remark import Remark
    from harness.findings.steps import RunView
    from harness.findings.toolfile import ToolFile
    from harness.model.transcript import Evidence, Transcript

__all__ = ["FILE_LIMIT_BYTES", "STDIN", "How", "Read", "each_source", "read_catalogues"]

FILE_LIMIT_BYTES = 256 * 1024 * 1024
STDIN = "-"
PROJECT_FILE = "harness.toml"
RUN_FILE = "run.json"
STATE = ".rollcall"


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How sources are read.

    Attributes:
        base: The folder that sources are relative to, and that their names in messages are.
        stdin: Reads standard input, for `-`.
        headers: Sent with every request to a URL.
        env: What a command's environment holds besides the base list; None as a value: the caller's own.
        cwd: Where a command runs, relative to `base`.
        timeout_s: For each answer of a URL or a command, and for its start.
    """

    base: Path
    stdin: Callable[[], bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    cwd: str = "."
    timeout_s: float = CALL_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One catalogue that was read, and where.

    Attributes:
        remarks: What reading itself showed, such as a key that stands twice.
        file: The file that holds the tools, as messages call it; None where it is not one that people write.
        lines: Line of each tool in it by the tool's index.
        project: The project that it is of; its `[checks]` and exemptions count.
        exemptions: All entries of the project's exemption file.
        note: What the report's first line must tell of it besides.
    """

    catalogue: Catalogue
    remarks: tuple[Remark, ...] = ()
    file: str | None = None
    lines: Mapping[int, int] = field(default_factory=dict)
    project: ProjectSpec | None = None
    exemptions: tuple[ExemptionSpec, ...] = ()
    note: str = ""


def each_source(sources: Iterable[str | tuple[str, ...]], how: How) -> Iterator[str | tuple[str, ...]]:
    """The sources, each once, with every file of a folder of tool lists as one of its own: a bad one hides no other."""
    seen: set[str | tuple[str, ...]] = set()
    for source in sources:
        files = _lists_in(how.base / source) if isinstance(source, str) and (how.base / source).is_dir() else []
        for item in (*map(str, files),) or (source,):
            if item not in seen:
                seen.add(item)
                yield item


def read_catalogues(source: str | Sequence[str], how: How) -> list[Read]:
    """Every catalogue of one source.

    Args:
        source: A file, a folder, `-` or a URL; or, as a list of words, the command of a server.
    Raises:
        ConfigError: It is not there, or no list of tools.
        NothingSelected: A folder in which there is none.
        ServerError: A server that could not be started or reached, or gave no list.
        Interrupted: Ctrl-C or a signal, after clean-up.
    """
    if not isinstance(source, str):
        return _command(tuple(source), how)
    if source == STDIN:
        data = how.stdin() if how.stdin is not None else b""
        return [_of_file(_parsed(data, "standard input", log=False), None)]
    if source.lower().startswith(("http://", "https://")):
        return _url(source, how)
    path = how.base / source
    name = _shown(path, how.base)
    if path.is_dir():
        return _folder(path, name, how)
    if path.name == PROJECT_FILE:
        return _project(path.parent, how)
    return [_file(path, name)]


# --- files and folders ----------------------------------------------------------------------------


def _file(path: Path, name: str) -> Read:
    data = _bytes_of(path, name)
    if _is_transcript(data):
        return _transcript(path, name)
    return _of_file(_parsed(data, name, log=path.suffix == ".jsonl"), name)


def _folder(path: Path, name: str, how: How) -> list[Read]:
    """A project, evidence (at any level), or a folder with tool lists; the first that it is."""
    if (path / PROJECT_FILE).is_file():
        return _project(path, how)
    files = _lists_in(path)
    if not files:
        found = _evidence(path / "evidence" if path.name == STATE else path)
        if found:
            return found
        raise NothingSelected(
            f"{name} holds no {PROJECT_FILE}, no evidence of a finished run and no *.json with a list of tools",
            hint="name a file, a project, an evidence folder, a URL, or a server's command after --",
        )
    return [_file(file, _shown(file, how.base)) for file in files]


def _lists_in(folder: Path) -> list[Path]:
    """The files of a folder that is none of ours."""
    if folder.name == STATE or (folder / PROJECT_FILE).is_file():
        return []
    return sorted(file for file in folder.glob("*.json") if file.name != RUN_FILE)


def _project(root: Path, how: How) -> list[Read]:
    """The newest evidence of a project's server, whatever state of its files it is of."""
    from harness.config.load import load
    from harness.integration import catalogue as backends

    loaded = load([root], base=how.base, catalogue=backends(), exemptions_beside=how.base)
    project = loaded.projects[0]
    found = _evidence(root / STATE / "evidence", server=project.server.name)
    if not found:
        where = _shown(root, how.base)
        option = "" if where == "." else f" --project {shlex.quote(where)}"
        raise NothingSelected(
            f"{where} has no evidence of {project.server.name} yet",
            hint=f"make it with: mcp-rollcall run{option}; or name the server's command after --",
        )
    return [replace(read, project=project, exemptions=loaded.exemptions) for read in found]


def _evidence(root: Path, *, server: str | None = None) -> list[Read]:
    from harness.engine.evidence import newest_attempts, read_attempt
    from harness.findings.catalogue import catalogue_of

    out = []
    for folder in newest_attempts(root):
        evidence = read_attempt(folder)
        if evidence is None or evidence.record.outcome == "not-spoken":
            continue
        if server is not None and evidence.record.key.server != server:
            continue
        out.append(Read(catalogue=catalogue_of(_view(evidence))))
    return out


def _view(evidence: Evidence) -> RunView:
    """Evidence taken apart without its plan, which lists do not depend on."""
    from harness.findings.steps import view_run
    from harness.model.plan import ProfileSpec, Run

    record = evidence.record
    run = Run(
        key=record.key,
        roles=(),
        runtime=record.runtime,
        profile=ProfileSpec(name=record.key.profile),
        eras_probed=True,
        cases=(),
        selected=(),
        fingerprint=record.plan,
    )
    return view_run(run, evidence)


def _is_transcript(data: bytes) -> bool:
    """Whether a file is a transcript of ours: its first line is an event, as the recorder writes it."""
    return data[:64].lstrip().startswith(b'{"e":"')


def _transcript(path: Path, name: str) -> Read:
    from harness.engine.evidence import read_transcript
    from harness.findings.toolfile import read_messages

    return _of_file(read_messages(list(_messages(read_transcript(path))), name=name), None)


def _messages(transcript: Transcript) -> Iterator[Mapping[str, Any]]:
    """The JSON objects among the lines that went either way."""
    from harness.findings.toolfile import parse_json
    from harness.model.transcript import Received, Sent

    for event in transcript.events:
        if isinstance(event, Sent | Received):
            with suppress(ValueError):
                value = parse_json(event.body.data.decode("utf-8", "replace").removeprefix("\ufeff"))
                if isinstance(value, dict):
                    yield value


def _parsed(data: bytes, name: str, *, log: bool) -> ToolFile:
    from harness.findings.toolfile import read_tool_file, read_tool_log

    return read_tool_log(data, name=name) if log else read_tool_file(data, name=name)


def _of_file(found: ToolFile, name: str | None) -> Read:
    return Read(catalogue=found.catalogue, remarks=found.remarks, file=name, lines=found.lines)


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > FILE_LIMIT_BYTES:
            raise ConfigError(f"{name} has {size:,} bytes; more than {FILE_LIMIT_BYTES:,} are not read")
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}",
            hint="a source is a file, a folder, a URL, - for standard input, or a command after --",
        ) from None
    if len(data) > FILE_LIMIT_BYTES:
        raise ConfigError(f"{name} has no end: more than {FILE_LIMIT_BYTES:,} bytes are not read")
    return data


def _shown(path: Path, base: Path) -> str:
    """A path as messages call it: relative to where the command was started, with slashes."""
    try:
        return Path(os.path.relpath(path, base)).as_posix()
    except ValueError:  # another drive
        return path.name


# --- live servers ---------------------------------------------------------------------------------


def _url(url: str, how: How) -> list[Read]:
    from harness.engine.http_list import list_url, shown_url
    from harness.engine.mask import Masker
    from harness.findings.toolfile import parse_json

    parts = urlsplit(url)
    masker = Masker([part for value in how.headers.values() for part in (value, value.partition(" ")[2]) if part])
    masker.add(*(part for part in (parts.password, parts.query) if part))
    listings: list[HttpListing] = []

    async def work() -> None:
        listings.extend(await list_url(url, headers=how.headers, masker=masker, call_s=how.timeout_s))

    _run(work)
    name = shown_url(url)
    out = []
    for listing in listings:
        replies = [parse_json(reply.decode("utf-8", "replace").removeprefix("\ufeff")) for reply in listing.replies]
        out.append(_listed(replies, name, f"{name} ({listing.era})", listing.era, listing.protocol))
    return out


def _listed(messages: Sequence[Mapping[str, Any]], server: str, source: str, era: Era, protocol: str) -> Read:
    """What the frames of one conversation show; a server without tools has an empty list."""
    from harness.findings.toolfile import ToolFile, read_messages

    try:
        found = read_messages(messages, name=source, server=server, source=source)
    except ConfigError:  # no list of tools, from a server that has said that it has none
        found = ToolFile(catalogue=Catalogue(server=server, source=source))
    return Read(catalogue=replace(found.catalogue, era=era, protocol=protocol), remarks=found.remarks)


def _command(argv: tuple[str, ...], how: How) -> list[Read]:
    from harness.engine.list_command import Command, list_command
    from harness.engine.mask import Masker, is_secret_name
    from harness.engine.scope import open_scope

    cwd = how.base / how.cwd
    if not cwd.is_dir():
        raise ConfigError(f"--cwd {how.cwd}: there is no such folder")
    missing = [name for name, value in how.env.items() if value is None and name not in os.environ]
    if missing:
        raise ConfigError(
            f"--env {missing[0]}: the variable is not set", hint=f"set it, or write --env {missing[0]}=VALUE"
        )
    env = {name: os.environ[name] if value is None else value for name, value in how.env.items()}
    secret = [value for name, value in env.items() if is_secret_name(name) or how.env[name] is None]
    command = Command(argv=argv, cwd=cwd, env=env, masker=Masker(secret))
    owner = _owner(cwd, how)
    out: list[Read] = []

    async def work() -> None:
        with open_scope() as scope:
            for evidence in await list_command(command, scope=scope, start_s=how.timeout_s, call_s=how.timeout_s):
                record = evidence.record
                said = record.server_info.get("name")
                server = owner.server or (said if isinstance(said, str) and said else command.name)
                source = f"{command.name} ({record.key.era})"
                messages = [item for transcript in evidence.transcripts for item in _messages(transcript)]
                read = _listed(messages, server, source, record.key.era, record.protocol)
                out.append(replace(read, project=owner.project, exemptions=owner.exemptions, note=owner.note))

    _run(work)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """Whose server a command starts: that of the harness.toml in the folder where it runs; all empty without one."""

    server: str = ""
    project: ProjectSpec | None = None
    exemptions: tuple[ExemptionSpec, ...] = ()
    note: str = ""


def _owner(folder: Path, how: How) -> _Owner:
    from harness.config.load import load
    from harness.integration import catalogue as backends

    path = folder / PROJECT_FILE
    if not path.is_file():
        return _Owner()
    try:
        loaded = load([folder], base=how.base, catalogue=backends(), exemptions_beside=how.base)
    except ConfigError:  # it may be half written; what the server says can be judged all the same
        name = _shown(path, how.base)
        note = f"{name} cannot be used yet, so that its [checks] and exemptions do not count: see mcp-rollcall check"
        return _Owner(server=_server_in(path), note=note)
    project = loaded.projects[0]
    return _Owner(server=project.server.name, project=project, exemptions=loaded.exemptions)


def _server_in(path: Path) -> str:
    """What a harness.toml that cannot be used calls its server, "" if nothing."""
    from harness.config.load import name_in

    return name_in(path) or ""


def _run(work: Callable[[], Awaitable[None]]) -> None:
    from harness.engine.interrupt import run_interruptible

    if cause := run_interruptible(work, on_interrupt=lambda _: None).cause:
        raise Interrupted(f"interrupted by {cause}; everything was cleaned up")
