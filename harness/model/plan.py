"""What the files say, and the plan that follows from it: `config` writes these, everybody reads them.

Declared data ends in `Spec`; nothing here is alive. Placeholders (`${…}`) are still in the strings;
`harness.model.placeholders` expands them when the values are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from harness.model.checks import OFF_BY_DEFAULT, family_of

if TYPE_CHECKING:
    from harness.model.contract import Contract

__all__ = [
    "CALL_TIMEOUT_S",
    "COMMAND_TIMEOUT_S",
    "ELICIT_MODES",
    "ERAS",
    "LOG_LEVELS",
    "START_TIMEOUT_S",
    "AnswerSpec",
    "BackendSpec",
    "CaptureSpec",
    "CaseSpec",
    "Cell",
    "CheckSettings",
    "CommandSpec",
    "EmbeddedSpec",
    "Era",
    "EventuallySpec",
    "ExemptionSpec",
    "ExpectSpec",
    "LoweredSpec",
    "OutputSpec",
    "Place",
    "Plan",
    "ProfileSpec",
    "ProjectSpec",
    "ProvisionSpec",
    "ReadySpec",
    "RoleChoice",
    "RoleSpec",
    "RootSpec",
    "Run",
    "RunKey",
    "SampleSpec",
    "ServerSpec",
    "ServiceSpec",
    "StepSpec",
    "SuiteSpec",
    "Transport",
    "VersionSpec",
    "VolumeSpec",
]

Era = Literal["handshake", "modern"]
ERAS: tuple[Era, ...] = ("modern", "handshake")
Elicit = Literal["accept", "decline", "cancel"]
ElicitMode = Literal["form", "url"]
ELICIT_MODES: tuple[ElicitMode, ...] = ("form", "url")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)  # from the lowest
Action = Literal["call", "read_resource", "get_prompt"]
Level = Literal["attempted", "answered", "succeeded"]
FamilyLevel = Literal["error", "warning", "off"]
ParameterLevel = Literal["report", "require"]
Runtime = Literal["docker", "process"]
Transport = Literal["stdio", "http"]

CALL_TIMEOUT_S = 30.0
START_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something was written: a file (as the user knows it, relative where it can be) and a line from 1."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


# --- harness.toml -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """The server under test: how it is built and started. `command`, `build` and `env` may hold placeholders."""

    name: str
    command: tuple[str, ...]
    build: tuple[tuple[str, ...], ...] = ()
    python: str | None = None  # a version specifier such as ">=3.11"; a venv is made for it
    venv: bool = False  # `python` was given, or a build command is pip, uv or python
    cwd: str = "."  # relative to the repository
    env: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = "stdio"
    url: str = ""  # of a server over HTTP; its port is `${port}`
    headers: Mapping[str, str] = field(default_factory=dict)  # sent with every request to it; may hold placeholders
    eras: tuple[Era, ...] | None = None  # None: whatever it speaks
    call_timeout_s: float = CALL_TIMEOUT_S
    start_timeout_s: float = START_TIMEOUT_S
    reads_dotenv: bool = True  # whether it may load `.env` files by itself; the guard then judges these too


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """A role, the backends that may fill it (alternatives) and the versions of each that are asked for."""

    role: str
    use: tuple[str, ...]
    versions: tuple[str, ...] = ()  # empty: the backend's default
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSpec:
    """A scripted answer to an elicitation: the first of a profile's that meets the prompt in all that it names.

    Attributes:
        content: Of the form, sent as it is. None: made from the requested schema.
        message: Regular expression that must be found in the prompt's message.
        tool: Name of the tool (or of the prompt, or the URI) in whose call the prompt came.
        fields: Names that the form must have among its properties.
        schema: Fragment that the requested schema must contain: each of its keys, with that value in it.
        times: How often it may be given in one case; None: always.
    """

    action: Elicit = "accept"
    content: Mapping[str, Any] | None = None
    message: str | None = None
    tool: str | None = None
    mode: ElicitMode | None = None
    fields: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpec:
    """A scripted answer to a sampling request, in the place of a model; chosen like an `AnswerSpec`.

    Attributes:
        text: What the model says; or `content`: blocks as the specification writes them (images, tool calls); or
            neither: the request is rejected, as a person may.
        message: Regular expression that must be found in the system prompt or the text of a message.
    """

    text: str | None = None
    content: tuple[Mapping[str, Any], ...] = ()
    model: str = "scripted"
    stop_reason: str = "endTurn"
    message: str | None = None
    tool: str | None = None
    times: int | None = None

    @property
    def rejects(self) -> bool:
        """Whether the request is refused."""
        return self.text is None and not self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSpec:
    """A folder that the client says the server may work in; a `file://` URI."""

    uri: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """How the client behaves. What is left out is not declared: no capability at all for a plain profile.

    Attributes:
        elicit: The answer to an elicitation that no scripted one meets; None: with `answers` "decline", and without
            these the client has no elicitation.
        elicit_modes: Which modes are declared.
        answers: Scripted answers, the first that fits is given.
        sampling: Scripted answers of a model; without any the client has no sampling.
        sampling_tools: Whether the client says that its model can use tools.
        roots: What roots/list gives; None: the client has no roots.
        log_level: From which level on log notifications are asked for; None: not at all.
        progress: Whether calls ask for progress notifications; each then gives its call its whole time again.
    """

    name: str
    elicit: Elicit | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    elicit_modes: tuple[ElicitMode, ...] = ("form",)
    answers: tuple[AnswerSpec, ...] = ()
    sampling: tuple[SampleSpec, ...] = ()
    sampling_tools: bool = False
    roots: tuple[RootSpec, ...] | None = None
    log_level: LogLevel | None = None
    progress: bool = False

    @property
    def elicits(self) -> bool:
        """Whether the client can be asked for input."""
        return self.elicit is not None or bool(self.answers)

    @property
    def can_be_asked(self) -> bool:
        """Whether the server may ask the client for anything."""
        return self.elicits or bool(self.sampling) or self.roots is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredSpec:
    """What `[checks]` says of a family of checks, where that is not its usual level, or of one check.

    Attributes:
        family: The family, or the full id of the check.
    """

    family: str
    to: FamilyLevel
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """The `[checks]` table: what `exercised` and the like ask for, and the levels of families and of single checks.

    Attributes:
        parameters: Whether a parameter that no answered call used is a finding.
        tokens: What the list of tools may cost, None without a budget.
        places: Key -> where it stands, for those of `parameters` and `tokens` that are there.
    """

    exercised: Level = "succeeded"
    lowered: tuple[LoweredSpec, ...] = ()
    parameters: ParameterLevel = "report"
    tokens: int | None = None
    places: Mapping[str, Place] = field(default_factory=dict)

    def spec_of(self, check: str) -> LoweredSpec | None:
        """What `[checks]` says of a check (its own id goes before its family) or of a family, None if nothing."""
        names = (check, family_of(check))
        return next((item for name in names for item in self.lowered if item.family == name), None)

    def level_of(self, check: str) -> FamilyLevel:
        """The level of one check or family.

        What `[checks]` says; else `error` (each check with its usual severity), or `off` for what is off by default.
        """
        usual: FamilyLevel = "off" if family_of(check) in OFF_BY_DEFAULT else "error"
        found = self.spec_of(check)
        return usual if found is None else found.to


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec:
    """One repository: everything that its harness.toml says, with the backends it names and its suites.

    `places` has the place of what an address may stand in: `("server", "command")`, `("server", "env", name)`,
    `("profiles", profile, "env", name)`, `("profiles", profile, "roots", index as text)`.
    """

    root: Path  # absolute; the folder of harness.toml
    place: Place  # of harness.toml
    server: ServerSpec
    roles: tuple[RoleSpec, ...] = ()
    backends: Mapping[str, BackendSpec] = field(default_factory=dict)  # by name
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(name="plain"),)
    suites: tuple[SuiteSpec, ...] = ()
    checks: CheckSettings = CheckSettings()
    exemptions_file: Path | None = None
    places: Mapping[tuple[str, ...], Place] = field(default_factory=dict)
    contract_file: Path | None = None
    contract: Contract | None = None  # what is in it
    server_line: int | None = None  # of [server] in harness.toml
    commands: tuple[CommandSpec, ...] = ()


# --- backend.toml -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadySpec:
    """When a service is ready: one probe, run by us, that must pass twice in a row.

    Exactly one of `http`, `tcp`, `exec` and `image` is set. `http` and `tcp` name a port of the service.
    """

    http: str | None = None
    path: str = "/"
    method: str = "GET"
    user: str | None = None
    password: str | None = None
    status: tuple[int, ...] = (200,)
    body: str | None = None  # the answer must contain this
    tcp: str | None = None
    send: str | None = None
    expect: str | None = None  # the bytes that come back must contain this
    exec: tuple[str, ...] | None = None
    image: bool = False  # the image's own HEALTHCHECK, executed by us


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """A volume that is new for every stack; `name` is empty where no other service mounts it."""

    target: str
    name: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One container of a backend. `init` services run once and must exit 0 before those that need them start."""

    name: str
    dockerfile: str | None = None  # relative to the context; else `image`
    image: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)  # port name -> container port
    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()
    init: bool = False
    mounts: Mapping[str, str] = field(default_factory=dict)  # container path -> path in the folder; read-only
    tmpfs: tuple[str, ...] = ()
    ready: ReadySpec | None = None
    ready_timeout_s: float = 60.0
    # of compose files only
    context: str = "."  # of the Dockerfile, relative to the backend's folder
    build_args: Mapping[str, str] = field(default_factory=dict)  # those of the version come on top
    entrypoint: tuple[str, ...] | None = None
    user: str | None = None
    working_dir: str | None = None
    volumes: tuple[VolumeSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionSpec:
    """One provisioning step: `exec` or `script` in a container, or an HTTP request.

    `capture` gives `${provisioned.NAME}`: JSON pointers into the answer of an HTTP call or into the JSON on a command's
    standard output; the pointer "" takes the whole of it as text. In the process form a script is a process beside the
    service.
    """

    service: str | None = None
    exec: tuple[str, ...] | None = None
    script: str | None = None  # a file of the backend's folder that begins with "#!"
    env: Mapping[str, str] = field(default_factory=dict)  # of the script
    url: str | None = None
    method: str = "GET"
    user: str | None = None
    password: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    status: tuple[int, ...] = (200,)
    capture: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSpec:
    """How a stack that one run has used becomes as good as new for the next; steps are `exec` or HTTP requests.

    `verify` is asked on the fresh stack and again after each reset: what is said must be the same, or the stack is
    thrown away.
    """

    steps: tuple[ProvisionSpec, ...]
    verify: tuple[ProvisionSpec, ...]
    prepare: tuple[ProvisionSpec, ...] = ()  # once, while the stack is fresh: a snapshot to go back to


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """A named value that the stack hands out; a template over secrets, addresses and provisioned values."""

    name: str
    value: str
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSpec:
    """The `process` form of a backend: the same service without Docker, from PyPI packages."""

    command: tuple[str, ...]
    install: tuple[str, ...] = ()
    python: str | None = None
    ports: tuple[str, ...] = ()  # names of the free ports it gets, as `${port.NAME}`
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # name in ${dir} -> text
    version_command: tuple[str, ...] = ()
    version_matches: str | None = None
    ready: ReadySpec | None = None
    ready_timeout_s: float = 60.0
    reset: ResetSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSpec:
    """One version of a backend: build arguments for its Dockerfiles, or another image per service."""

    name: str
    build_args: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)  # service -> image


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """A service that servers wrap: backend.toml and the folder around it."""

    name: str
    folder: Path  # absolute
    place: Place
    summary: str = ""
    default: str = ""
    versions: Mapping[str, VersionSpec] = field(default_factory=dict)
    secrets: Mapping[str, int] = field(default_factory=dict)  # name -> number of characters
    services: tuple[ServiceSpec, ...] = ()
    provision: tuple[ProvisionSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    process: EmbeddedSpec | None = None
    reset: ResetSpec | None = None  # of its containers


# --- suites -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectSpec:
    """What a step expects. Texts are matched against all text blocks joined by a newline, or an error's message.

    `is_error` is None when the file does not say: False is then expected unless `code` is given.
    """

    is_error: bool | None = None
    code: int | None = None  # a JSON-RPC error with this code
    text_contains: tuple[str, ...] = ()
    text_matches: str | None = None  # search
    text_equals: str | None = None
    pointer: Mapping[str, Any] = field(default_factory=dict)  # JSON pointer -> value; see harness.model.outcome
    schema: Mapping[str, Any] | None = None  # JSON Schema 2020-12 for structuredContent
    prompts: tuple[str, ...] | None = None  # what the messages of the step's elicitations contain, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSpec:
    """A value taken out of a result: a JSON pointer, then optionally group 1 (else 0) of a search in its text."""

    name: str
    pointer: str
    matches: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventuallySpec:
    """Bounded retry of one step until its expectations hold."""

    timeout_s: float = 10.0
    every_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One action of a case. `target` is the tool, the resource's URI or the prompt's name."""

    action: Action
    target: str
    place: Place
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expect: ExpectSpec = ExpectSpec()
    capture: tuple[CaptureSpec, ...] = ()
    confirm: bool = False
    eventually: EventuallySpec | None = None
    timeout_s: float | None = None
    unlisted: bool = False
    cancel_after_s: float | None = None  # the call is cancelled then; the server must live on


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSpec:
    """Steps in order; the first whose expectation fails ends the case; cleanup steps run in any event."""

    id: str
    steps: tuple[StepSpec, ...]
    place: Place
    cleanup: tuple[StepSpec, ...] = ()
    profiles: tuple[str, ...] | None = None
    backends: tuple[str, ...] | None = None  # names, as exemptions write them; None: with each
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """One suite file."""

    id: str
    cases: tuple[CaseSpec, ...]
    place: Place
    profiles: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A test command of somebody's own, run with the stack up; what its servers say counts like a suite's calls.

    `argv` of `kind` "pytest" are the paths that pytest is given; else the whole command. `argv` and `env` may hold
    placeholders. One of kind "pytest" runs in every run, another once for each cell and profile: it picks its own era.
    """

    id: str
    kind: Literal["pytest", "command"]
    argv: tuple[str, ...]
    place: Place
    cwd: str = "."  # relative to the repository
    profiles: tuple[str, ...] | None = None  # None: the first one for a command, each for pytest
    timeout_s: float = COMMAND_TIMEOUT_S
    env: Mapping[str, str] = field(default_factory=dict)


# --- exemptions.toml ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExemptionSpec:
    """One entry of exemptions.toml, well formed or not.

    `problems` is empty for a well-formed entry; else each says what is malformed, and the entry suppresses nothing.
    """

    server: str
    check: str  # "exercised", "output-schema" or a full check id
    subject: str
    reason: str
    place: Place
    backends: tuple[str, ...] = ()  # "name", "name@version" or a cell's label; empty: every cell
    expires: str | None = None  # ISO date; the named day is the last good one
    owner: str | None = None
    issue: str | None = None
    problems: tuple[str, ...] = ()


# --- the plan -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChoice:
    """One role filled with one version of one backend. `version` is "embedded" in the process form."""

    role: str
    backend: str
    version: str

    @property
    def label(self) -> str:
        """`name@version`, as exemptions and reports write it."""
        return f"{self.backend}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """Which run: the four axes as words. `backend` is the cell's label, "none" for a server without one."""

    server: str
    backend: str
    era: Era
    profile: str

    def __str__(self) -> str:
        return f"{self.server} {self.backend} {self.era} {self.profile}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One planned run: a cell in one era with one profile.

    `eras_probed` is True where the era was not declared: a server that does not speak it is then no error.
    `cases` are the cases that apply to the profile, as (suite id, case); `selected` the names ("suite/case")
    of those that a selection left, equal to all of them when nothing was deselected. `commands` are the selected
    commands; those that pick their own era are in the runs of all eras, and run in the first that is spoken. `client`
    is True for the one run of its server and era after which the official client is tried too.
    """

    key: RunKey
    roles: tuple[RoleChoice, ...]
    runtime: Runtime | None  # None: no backend
    profile: ProfileSpec
    eras_probed: bool
    cases: tuple[tuple[str, CaseSpec], ...]
    selected: tuple[str, ...]
    fingerprint: str  # of what the run depends on, but for the built files
    client: bool = False
    commands: tuple[CommandSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A server with one choice of backends; the unit in which coverage is judged."""

    server: str
    backend: str
    roles: tuple[RoleChoice, ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything selected, in order, over one or several projects.

    `servers` holds every server name that the files know, selected or not (an exemption for another one is stale);
    `left_out` says why what is absent cannot be judged, where that is not to be seen in the plan itself;
    `unselected` says which cells or runs the user's selection left out ("" when nothing).
    """

    projects: tuple[ProjectSpec, ...]
    cells: tuple[Cell, ...]
    exemptions: tuple[ExemptionSpec, ...]
    servers: tuple[str, ...]
    partial: bool = False  # the user's own selection left something out
    notes: Sequence[str] = ()  # e.g. why the runtime is what it is; first line of the report
    left_out: str = ""

    def project_of(self, server: str) -> ProjectSpec:
        """The project whose server has this name."""
        return next(project for project in self.projects if project.server.name == server)

    def is_first(self, key: RunKey, *, of_profile: bool = False) -> bool:
        """Whether a run is the first of its server in its era; what is done once for both is done in it.

        Args:
            of_profile: The first of those with its profile.
        """
        for run in (run.key for cell in self.cells for run in cell.runs):
            if (run.server, run.era) == (key.server, key.era) and (not of_profile or run.profile == key.profile):
                return key == run
        return False
