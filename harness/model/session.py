"""What a child of a run is told about the run that stands: `session.json`, whose path is in ROLLCALL_SESSION.

The engine writes it while commands run; a test suite's plugin and the recording proxy read it. It names secrets, so
only its owner may read it, and it goes with the run's temporary folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.model.plan import CALL_TIMEOUT_S, START_TIMEOUT_S, AnswerSpec, ProfileSpec, RootSpec, RunKey, SampleSpec

__all__ = [
    "ENVIRONMENT_FILE",
    "SCHEMA",
    "SESSION_FILE",
    "SESSION_VARIABLE",
    "SessionSpec",
    "session_from_json",
    "session_to_json",
]

SCHEMA = 1
SESSION_VARIABLE = "ROLLCALL_SESSION"
SESSION_FILE = "session.json"
ENVIRONMENT_FILE = "environment.json"  # beside it: all variables that the engine gave the command


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """The run that stands.

    Attributes:
        run: Which one it is.
        project: The folder of harness.toml, absolute.
        plan: Fingerprint of the run.
        build: Fingerprint of the build.
        evidence: The folder of the attempt, absolute: transcripts are written there.
        began: The run's beginning by `time.monotonic()`; all processes of one host agree on it.
        secrets: What is masked in everything that is written.
        command: How the server is started, all placeholders expanded; `cwd` where, `env` with which variables: all that
            it gets. A child that starts one gives it a HOME and a TMPDIR of its own.
        url: Where the server is to listen, for `transport` "http"; else "". One of it can stand there at a time.
        headers: What every request to it bears.
        values: Placeholder -> value: `backend.<role>.<output>`, `repo` and their kin.
        allowed: "host:port" of everything that a server may be pointed at; `names` are the names that go for hosts, and
            `folders` the folders in which files may lie that it is pointed at.
        profiles: Of the project, by name; `env` of one has its placeholders still.
    """

    run: RunKey
    project: str
    plan: str
    build: str
    evidence: str
    began: float
    secrets: tuple[str, ...] = ()
    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    transport: Literal["stdio", "http"] = "stdio"
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    call_timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S
    profiles: Mapping[str, ProfileSpec] = field(default_factory=dict)


def session_to_json(session: SessionSpec) -> str:
    """The text of session.json."""
    return json.dumps({"schema": SCHEMA, **dataclasses.asdict(session)}, ensure_ascii=False, indent=1) + "\n"


def session_from_json(text: str | bytes) -> SessionSpec:
    """What `session_to_json` wrote; keys that are not known are passed over.

    Raises:
        ValueError: It is something else.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"session.json has schema {found!r}, expected {SCHEMA}")
    values: dict[str, Any] = {
        item.name: tuple(data[item.name]) if isinstance(data[item.name], list) else data[item.name]
        for item in dataclasses.fields(SessionSpec)
        if item.name in data
    }
    try:
        values["run"] = RunKey(**data["run"])
        values["profiles"] = {name: _profile({"name": name, **item}) for name, item in data.get("profiles", {}).items()}
        return SessionSpec(**values)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"session.json cannot be read: {error}") from None


def _profile(data: Mapping[str, Any]) -> ProfileSpec:
    values = _known(ProfileSpec, data)
    for key, kind in (("answers", AnswerSpec), ("sampling", SampleSpec), ("roots", RootSpec)):
        if values.get(key) is not None:
            values[key] = tuple(kind(**_known(kind, item)) for item in values[key])
    return ProfileSpec(**values)


def _known(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a dataclass has; lists are tuples in it."""
    names = {item.name for item in dataclasses.fields(kind)}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in names}
