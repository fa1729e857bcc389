"""What the Python API makes of its arguments, for both of its doors."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from harness.engine.answers import Hook
from harness.engine.guard import is_loopback
from harness.engine.live_spec import LiveSpec
from harness.errors import ConfigError, MisuseError
from harness.model.headers import header_problem
from harness.model.placeholders import UnknownPlaceholder, expand
from harness.model.plan import (
    CALL_TIMEOUT_S,
    LOG_LEVELS,
    START_TIMEOUT_S,
    AnswerSpec,
    Elicit,
    ElicitMode,
    Era,
    ExpectSpec,
    LogLevel,
    ProfileSpec,
    RootSpec,
    SampleSpec,
)
from harness.model.session import SESSION_VARIABLE, SessionSpec, session_from_json

__all__ = [
    "AnswersArgument",
    "ExpectError",
    "address_of",
    "client_of",
    "expected",
    "given",
    "make_spec",
    "session_around",
    "session_spec",
]

ExpectError = bool | str | re.Pattern[str] | None
AnswersArgument = Hook | Sequence[AnswerSpec | Mapping[str, Any]] | None
T = TypeVar("T")
_URL = re.compile(r"http://127\.0\.0\.1:\$\{port\}(?:/[^\s\\]*)?")


def make_spec(
    command: str | Sequence[str | os.PathLike[str]] | None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    era: Era | None = None,
    client: tuple[ProfileSpec, Hook | None],
    allow: Sequence[str] = (),
    reads_dotenv: bool = True,
    call_timeout_s: float | None = None,
    start_timeout_s: float | None = None,
    evidence: str | os.PathLike[str] | None = None,
    began: float | None = None,
    name: str = "",
    url: str = "",
    headers: Mapping[str, str] | None = None,
    stack: Any = None,
    profile: str | None = None,
) -> LiveSpec:
    """The start that the arguments of `start_server` ask for.

    Raises:
        ConfigError: They cannot be used.
    """
    if era not in (None, "handshake", "modern"):
        raise ConfigError(f"era is {era!r}; it can be 'handshake', 'modern', or None for whatever the server speaks")
    shape, hook = client
    if command is None:
        session = session_around()
        if session is None:
            raise ConfigError(
                "start_server was given no command, and no run stands around it",
                hint="give a command, or project=; without either it is for tests that [suites] pytest runs",
            )
        return session_spec(
            session,
            profile=profile,
            era=era,
            env=env,
            headers=headers,
            client=given(client),
            call_timeout_s=call_timeout_s,
            start_timeout_s=start_timeout_s,
        )
    if profile is not None:
        raise ConfigError(f"profile={profile!r} names a profile of harness.toml, and a command has none")
    if url and not _URL.fullmatch(url):
        raise ConfigError(f"url={url!r}: write where the server listens, such as http://127.0.0.1:${{port}}/mcp")
    if headers and not url:
        raise ConfigError("headers= are for a server over HTTP: give url=, too")
    argv = tuple(shlex.split(command)) if isinstance(command, str) else tuple(os.fspath(part) for part in command)
    if not argv or not argv[0]:
        raise ConfigError("start_server was given an empty command")
    return LiveSpec(
        argv=argv,
        name=name,
        cwd=Path(cwd or ".").resolve(),
        env=dict(env or {}),
        era=era,
        profile=shape,
        hook=hook,
        allowed=(*(address_of(text) for text in allow), *(() if stack is None else stack.addresses)),
        names=() if stack is None else stack.names,
        secrets=() if stack is None else stack.secrets,
        reads_dotenv=reads_dotenv,
        url=url,
        headers=checked_headers(headers or {}),
        call_timeout_s=CALL_TIMEOUT_S if call_timeout_s is None else call_timeout_s,
        start_timeout_s=START_TIMEOUT_S if start_timeout_s is None else start_timeout_s,
        evidence=None if evidence is None else Path(evidence).resolve(),
        began=began,
    )


def session_around() -> SessionSpec | None:
    """The run that stands around this process, None where none does.

    Raises:
        ConfigError: It is named, and cannot be read.
    """
    place = os.environ.get(SESSION_VARIABLE)
    if not place:
        return None
    try:
        return session_from_json(Path(place).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{SESSION_VARIABLE} names a session that cannot be read: {error}") from None


def session_spec(
    session: SessionSpec,
    *,
    profile: str | None = None,
    era: Era | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    client: tuple[ProfileSpec, Hook | None] | None = None,
    call_timeout_s: float | None = None,
    start_timeout_s: float | None = None,
) -> LiveSpec:
    """The start of the server of a run that stands; its transcript goes into the evidence of that run.

    Args:
        profile: Another one than the run's.
        env: On top of what it gets in the run; placeholders are expanded.
        headers: Instead of the run's, with placeholders; None: the run's.
        client: What the client declares and answers, instead of the profile's.
    Raises:
        ConfigError: There is no such profile, or a placeholder has no value.
    """
    chosen = session.run.profile if profile is None else profile
    if chosen not in session.profiles:
        known = ", ".join(session.profiles)
        raise ConfigError(f"profile is {chosen!r}, which is none of harness.toml; there are {known}")
    told = session.profiles[chosen]
    own = {} if chosen == session.run.profile else dict(told.env)
    try:
        declared = {key: expand(text, session.values) for key, text in {**own, **(env or {})}.items()}
        told_headers = {key: expand(text, session.values) for key, text in (headers or {}).items()}
    except UnknownPlaceholder as error:
        raise ConfigError(f"${{{error.args[0]}}} has no value in this run", server=session.run.server) from None
    shape, hook = client or (told, None)
    return LiveSpec(
        argv=session.command,
        name=session.run.server,
        cwd=Path(session.cwd),
        env=declared,
        ready_env=session.env,
        era=era or session.run.era,
        profile=shape,
        hook=hook,
        evidence=Path(session.evidence),
        began=session.began,
        url=session.url,
        headers=session.headers if headers is None else checked_headers(told_headers),
        own_port=_port_of(session.url),
        allowed=tuple(address_of(text) for text in session.allowed),
        names=session.names,
        folders=tuple(Path(folder) for folder in session.folders),
        secrets=session.secrets,
        call_timeout_s=session.call_timeout_s if call_timeout_s is None else call_timeout_s,
        start_timeout_s=session.start_timeout_s if start_timeout_s is None else start_timeout_s,
    )


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Headers that can be sent.

    Raises:
        ConfigError: One cannot.
    """
    for name, value in headers.items():
        if said := header_problem(name, value):
            raise ConfigError(f"headers: {name!r} cannot be sent: {said}")
    return dict(headers)


def _port_of(url: str) -> int | None:
    return urlsplit(url).port if url else None


# --- the client -----------------------------------------------------------------------------------


def client_of(
    *,
    elicit: Elicit | None = None,
    answers: AnswersArgument = None,
    elicit_modes: Sequence[ElicitMode] = ("form",),
    sampling: Sequence[SampleSpec | Mapping[str, Any]] = (),
    roots: Sequence[RootSpec | Mapping[str, Any] | str] | None = None,
    log_level: LogLevel | None = None,
    progress: bool = False,
) -> tuple[ProfileSpec, Hook | None]:
    """What the client declares and answers, and the function that is asked first.

    Raises:
        ConfigError: It cannot be used.
    """
    if elicit not in (None, "accept", "decline", "cancel"):
        raise ConfigError(f"elicit is {elicit!r}; it can be 'accept', 'decline', 'cancel', or None for no elicitation")
    if log_level is not None and log_level not in LOG_LEVELS:
        raise ConfigError(f"log_level is {log_level!r}; it can be {', '.join(LOG_LEVELS)}")
    hook = answers if callable(answers) else None
    script = () if answers is None or callable(answers) else tuple(answers)
    profile = ProfileSpec(
        name="test",
        elicit=elicit,
        elicit_modes=tuple(elicit_modes),
        answers=tuple(_made(AnswerSpec, item, "answers") for item in script),
        sampling=tuple(_made(SampleSpec, item, "sampling") for item in sampling),
        roots=None
        if roots is None
        else tuple(RootSpec(uri=item) if isinstance(item, str) else _made(RootSpec, item, "roots") for item in roots),
        log_level=log_level,
        progress=progress,
    )
    return profile, hook


def given(client: tuple[ProfileSpec, Hook | None]) -> tuple[ProfileSpec, Hook | None] | None:
    """The client, or None where nothing at all was said of it."""
    profile, hook = client
    return None if hook is None and profile == ProfileSpec(name=profile.name) else client


def _made(kind: type[T], item: T | Mapping[str, Any], what: str) -> T:
    if isinstance(item, kind):
        return item
    assert is_dataclass(kind)
    known = {part.name for part in fields(kind)}
    if not isinstance(item, Mapping) or not item.keys() <= known:
        wrong = sorted(set(item) - known) if isinstance(item, Mapping) else [type(item).__name__]
        raise ConfigError(f"{what}: {', '.join(map(repr, wrong))} is not known; known: {', '.join(sorted(known))}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
    return kind(**values)


# --- expectations ---------------------------------------------------------------------------------


def expected(expect_error: ExpectError) -> ExpectSpec:
    """The expectation of a step that `expect_error` means.

    Raises:
        MisuseError: It means none.
    """
    match expect_error:
        case None | False:
            return ExpectSpec(is_error=False)
        case True:
            return ExpectSpec(is_error=True)
        case str():
            if not expect_error:
                raise MisuseError("expect_error is an empty text, which every error holds; write True, or what it says")
            return ExpectSpec(is_error=True, text_contains=(expect_error,))
        case re.Pattern():
            return ExpectSpec(is_error=True, text_matches=_inline(expect_error))
    raise MisuseError(f"expect_error is {expect_error!r}; it can be True, a text, or a compiled pattern of text")


def _inline(pattern: re.Pattern[str]) -> str:
    """The pattern with its flags written into it, as suites have them."""
    if not isinstance(pattern.pattern, str):
        raise MisuseError("expect_error is a pattern of bytes; answers are text")
    flags = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
    letters = "".join(letter for letter, flag in flags.items() if pattern.flags & flag)
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern


def address_of(text: str) -> tuple[str, int]:
    """The address in "127.0.0.1:8080".

    Raises:
        ConfigError: It is none of this machine.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not is_loopback(host) or not port.isascii() or not port.isdigit():
        raise ConfigError(f"{text!r} is no address of this machine; write one such as 127.0.0.1:8080")
    return host, int(port)
