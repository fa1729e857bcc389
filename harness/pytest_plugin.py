"""The pytest plugin `mcp_rollcall`: servers and stacks as fixtures, and the gate at the end of the session.

Where it is installed and not used it costs the import of this file and changes nothing. With the first test that asks
for one of its fixtures it takes part in the session (`_Active`): it tells the recorder which test runs, shows what the
server said where one fails, and judges at the end what all of them left uncovered, as `mcp-rollcall integration` does.

There are three kinds of process. One leads: it owns builds, stacks and evidence, and judges. A worker of pytest-xdist
asks the leading one. Inside of a run of `mcp-rollcall integration` (`[suites] pytest`) everything stands already, and
that run judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from harness.errors import ConfigError, HarnessError
from harness.pytest_state import CHOICES, FIXTURES, KEY, State, as_failures

if TYPE_CHECKING:
    from harness import testing, testing_async
    from harness.pytest_link import Choice
    from harness.pytest_servers import Knobs, McpStack

__all__ = [
    "mcp_answers",
    "mcp_backend",
    "mcp_call_timeout",
    "mcp_era",
    "mcp_harness",
    "mcp_harness_async",
    "mcp_profile",
    "mcp_project",
    "mcp_server_env",
    "mcp_server_headers",
    "mcp_stack",
    "mcp_start_server",
]

AXES = ("backends", "eras", "profiles")


# --- options --------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, each with an ini value where it says something of the project and not of one session."""
    group = parser.getgroup("mcp-rollcall", "tests of MCP servers (mcp-rollcall)")

    def add(name: str, text: str, ini: Literal["", "bool", "string"] = "", **how: Any) -> None:
        group.addoption(f"--mcp-{name}", help=text, **how)
        if ini:
            parser.addini(f"mcp_rollcall_{name}", f"as --mcp-{name}", type=ini, default=None)

    add("project", "harness.toml, or its folder (default: the nearest one above the tests)", "string", metavar="PATH")
    add("backend", "run with this choice of backends only, name or name@version", action="append", metavar="NAME")
    add("era", "run in this era only: modern or handshake", action="append", metavar="ERA")
    add("profile", "run in this profile only", action="append", metavar="NAME")
    add("runtime", "how backends are stood up (default: auto)", "string", choices=CHOICES["runtime"])
    add("scope", "how long mcp_harness keeps a server (default: session)", "string", choices=CHOICES["scope"])
    add("stack", "one stack for the session (default), or for each worker", "string", choices=CHOICES["stack"])
    add(
        "gate",
        "judge at the end: auto (default; what is absent only after a whole session), full (always), off",
        "string",
        choices=CHOICES["gate"],
    )
    add("strict", "warnings of the gate fail too", "bool", action="store_true", default=None)
    add("evidence", "folder for the evidence (default: .rollcall/evidence beside harness.toml)", metavar="DIR")
    add("today", "the day by which 'expires' is judged (default: today, UTC)", metavar="YYYY-MM-DD")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing but names, until something of ours is used."""
    config.addinivalue_line(
        "markers",
        "mcp(profiles=[], eras=[], backends=[], fresh=False): runs of an MCP server in which the test makes sense; "
        "fresh: with a server that no other test has used",
    )
    state = config.stash[KEY] = State(config)
    config.pluginmanager.register(state, "mcp_rollcall_state")
    config.add_cleanup(state.close)
    said = {name: state.setting(name, values[0]) for name, values in CHOICES.items()}  # a wrong one is told at once
    if state.role == "inside" or said["gate"] == "full":
        state.activate()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker where to ask; only where there is a project to ask about."""
    state = node.config.stash[KEY]
    node.workerinput["mcp_rollcall"] = state.address()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker is gone; what it left out of the tests is known now."""
    node.config.stash[KEY].worker_gone(node, error)


# --- selection ------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with our fixtures runs once in every planned run that it is made for."""
    if FIXTURES.isdisjoint(metafunc.fixturenames):
        return
    state = metafunc.config.stash[KEY]
    state.activate()
    if state.role == "inside":
        return
    try:
        choices = state.choices()
    except HarnessError:
        return  # the fixture says why
    marks = tuple(metafunc.definition.iter_markers("mcp"))
    problem = _problem(marks, choices)
    fitting = [choice for choice in choices if _fits(marks, choice)]
    if problem or len(choices) == 1:
        if problem or not fitting:
            only = _Refused(problem or "no planned run is one that the test is made for")
            metafunc.parametrize("mcp_run", [only], ids=["none"], indirect=True, scope="session")
        return
    chosen: list[Any] = [pytest.param(choice.number, id=choice.id) for choice in fitting if choice.chosen]
    if not chosen:
        reason = "no selected run is one that the test is made for"
        chosen = [pytest.param(-1, id="none", marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize("mcp_run", chosen, indirect=True, scope="session")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Two fixtures that no test names: one that knows what this test asks for, and one that has the server stand."""
    names = getattr(item, "fixturenames", None)
    if isinstance(names, list) and not FIXTURES.isdisjoint(names) and "_mcp_knobs" not in names:
        names.insert(0, "_mcp_knobs")
        names.append("_mcp_ready")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Inside of a run the tests that are made for other runs are left out; they run in those."""
    state = config.stash[KEY]
    if state.role != "inside":
        return
    choice = state.choices()[0]
    kept: list[pytest.Item] = []
    other: list[pytest.Item] = []
    for item in items:
        used = not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        (kept if not used or _fits(tuple(item.iter_markers("mcp")), choice) else other).append(item)
    if other:
        items[:] = kept
        config.hook.pytest_deselected(items=other)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Tests that a selection left out; they cannot cover anything."""
    ours = [item for item in items if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))]
    if ours:
        ours[0].config.stash[KEY].left_out["deselected"] += len(ours)


def _values(mark: pytest.Mark, axis: str) -> tuple[str, ...]:
    value = mark.kwargs.get(axis, ())
    return (value,) if isinstance(value, str) else tuple(value)


def _fits(marks: Iterable[pytest.Mark], choice: Choice) -> bool:
    """Whether a run is one that a test is made for: in every mark, on every axis that the mark speaks of."""
    has: Mapping[str, tuple[str, ...]] = {
        "backends": choice.names,
        "eras": (choice.key.era,),
        "profiles": (choice.key.profile,),
    }
    return all(
        not (wanted := _values(mark, axis)) or not set(wanted).isdisjoint(has[axis]) for mark in marks for axis in AXES
    )


def _problem(marks: Iterable[pytest.Mark], choices: Sequence[Choice]) -> str:
    """What is wrong with the marks of a test, "" if nothing."""
    known: Mapping[str, set[str]] = {
        "backends": {name for choice in choices for name in choice.names},
        "eras": {"handshake", "modern"},
        "profiles": {choice.key.profile for choice in choices},
    }
    for mark in marks:
        for name in mark.kwargs:
            if name not in (*AXES, "fresh"):
                return f"@pytest.mark.mcp has no argument {name!r}; it has {', '.join(AXES)} and fresh"
        if mark.args:
            return f"@pytest.mark.mcp takes named arguments only: {', '.join(AXES)} and fresh"
        for axis in AXES:
            for value in _values(mark, axis):
                if value not in known[axis]:
                    return f"@pytest.mark.mcp({axis}=…): there is no {value!r}; known: {', '.join(sorted(known[axis]))}"
    return ""


class _Refused:
    """Stands in the place of a run where there is none."""

    def __init__(self, why: str) -> None:
        self.why = why


# --- fixtures -------------------------------------------------------------------------------------


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ARG001 - pytest gives both by name
    return config.stash[KEY].scope


@pytest.fixture(scope="session")
def mcp_run(request: pytest.FixtureRequest) -> Choice:
    """The run at hand; a test that asks for a fixture of ours runs once in each planned one."""
    state = request.config.stash[KEY]
    state.activate()
    with as_failures():
        choices = state.choices()
        wanted = getattr(request, "param", None)
        if isinstance(wanted, _Refused):
            raise ConfigError(wanted.why)
        if wanted is not None:
            return choices[int(wanted)]
        chosen = [choice for choice in choices if choice.chosen]
        if len(chosen) != 1:
            raise ConfigError(
                f"{len(chosen)} runs are planned, and nothing says in which of them this is to be",
                hint="name mcp_harness or mcp_stack among the arguments of the test, so that it runs once in each",
            )
        return chosen[0]


@pytest.fixture(scope="session")
def mcp_project(mcp_stack: McpStack) -> Path:
    """The folder of harness.toml."""
    return Path(mcp_stack.session.project)


@pytest.fixture(scope="session")
def mcp_backend(mcp_run: Choice) -> str:
    """The choice of backends of this run, such as "redis@8"; "none" without one."""
    return mcp_run.key.backend


@pytest.fixture(scope="session")
def mcp_era(mcp_run: Choice) -> str:
    """The era of this run: "modern" or "handshake"."""
    return mcp_run.key.era


@pytest.fixture(scope="session")
def mcp_profile(mcp_run: Choice) -> str:
    """The profile in which servers start: that of this run. To be overridden."""
    return mcp_run.key.profile


@pytest.fixture(scope="session")
def mcp_server_env() -> Mapping[str, str]:
    """Variables of servers on top of those in harness.toml: none. To be overridden."""
    return {}


@pytest.fixture(scope="session")
def mcp_server_headers() -> Mapping[str, str] | None:
    """Headers of requests to servers over HTTP: those in harness.toml. To be overridden; `{}` sends none."""
    return None


@pytest.fixture(scope="session")
def mcp_answers() -> Any:
    """How elicitations are answered: as the profile says. To be overridden with what `start_server(elicit=…)` takes."""
    return None


@pytest.fixture(scope="session")
def mcp_call_timeout() -> float | None:
    """Seconds that a call may take: as harness.toml says. To be overridden."""
    return None


@pytest.fixture(scope="session")
def mcp_stack(request: pytest.FixtureRequest, mcp_run: Choice) -> Iterator[McpStack]:
    """The backends of this run, standing: a mapping of their outputs by `role.output`, and the `session` of the run."""
    from harness.pytest_servers import McpStack

    state = request.config.stash[KEY]
    with as_failures():
        session = state.open(mcp_run)
    try:
        yield McpStack(session)
    finally:
        state.release(mcp_run)


@pytest.fixture(scope=_scope)
def mcp_harness(request: pytest.FixtureRequest, mcp_run: Choice, mcp_stack: McpStack) -> Iterator[testing.Server]:
    """A server of this run, with the methods of `harness.testing.Server`.

    One that has died, or that left a request without an answer, is another one in the next test.
    It is kept for a session, or for what `--mcp-scope` and `mcp_rollcall_scope` say.
    """
    active = request.config.stash[KEY].activate()
    if not active.knobs:
        active.knobs = _knobs(request)
    harness = active.harness(mcp_run, mcp_stack.session)
    try:
        yield harness
    finally:
        harness.end()


@pytest.fixture(scope=_scope)
def mcp_harness_async(mcp_harness: testing.Server) -> testing_async.Server:
    """The same server for `await`, under asyncio or trio, with the methods of `harness.testing_async.Server`."""
    from harness.pytest_servers import AsyncHarness, Harness

    assert isinstance(mcp_harness, Harness)
    return AsyncHarness(mcp_harness)


@pytest.fixture
def mcp_start_server(
    request: pytest.FixtureRequest, mcp_run: Choice, mcp_stack: McpStack
) -> Iterator[Callable[..., testing.Server]]:
    """Starts further servers of this run: `mcp_start_server(profile=…, env=…, headers=…, answers=…, …)`.

    Each is a process of its own, which ends with the test at the latest.
    """
    active = request.config.stash[KEY].activate()
    started: list[testing.Server] = []

    def start(**more: Any) -> testing.Server:
        import dataclasses

        server = active.start(mcp_run, mcp_stack.session, dataclasses.replace(_knobs(request), **more))
        started.append(server)
        active.opened.others.append(server)
        return server

    try:
        yield start
    finally:
        for server in started:
            server.close()
            active.opened.others.remove(server)


@pytest.fixture
def _mcp_knobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes what this test asks of its servers, before any other fixture of it begins."""
    active = request.config.stash[KEY].activate()
    active.knobs = _knobs(request)
    yield
    active.knobs = None


@pytest.fixture
def _mcp_ready(request: pytest.FixtureRequest) -> None:
    """A server that does not start is an error of the set-up, not a failure of the test."""
    if not {"mcp_harness", "mcp_harness_async"}.isdisjoint(request.fixturenames):
        harness = request.getfixturevalue("mcp_harness")
        harness.current  # noqa: B018 - it starts


def _knobs(request: pytest.FixtureRequest) -> Knobs:
    """What is asked of servers here: what the fixtures say that may be overridden."""
    from harness.pytest_servers import Knobs

    fresh = [mark for mark in request.node.iter_markers("mcp") if mark.kwargs.get("fresh")]
    return Knobs(
        profile=request.getfixturevalue("mcp_profile"),
        env=dict(request.getfixturevalue("mcp_server_env")),
        headers=request.getfixturevalue("mcp_server_headers"),
        answers=request.getfixturevalue("mcp_answers"),
        call_timeout_s=request.getfixturevalue("mcp_call_timeout"),
        own=request.node.nodeid if fresh else "",
    )
