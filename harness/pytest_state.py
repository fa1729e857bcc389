"""What a process knows of a test session: its part in it, what the user asked for, and whom to ask for a run.

It is made for every session of pytest, also where nothing of ours is used, and then it is all that there is.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import pytest

from harness.errors import ConfigError, HarnessError

if TYPE_CHECKING:
    from datetime import date

    from harness.model.session import SessionSpec
    from harness.pytest_active import Active
    from harness.pytest_link import Answerer, Choice
    from harness.pytest_runs import Runs

__all__ = ["CHOICES", "FIXTURES", "KEY", "State", "as_failures"]

FIXTURES = frozenset(("mcp_harness", "mcp_harness_async", "mcp_run", "mcp_stack", "mcp_start_server"))
CHOICES = {
    "gate": ("auto", "full", "off"),
    "runtime": ("auto", "docker", "process"),
    "scope": ("session", "package", "module", "class", "function"),
    "stack": ("session", "worker"),
}
SESSION_VARIABLE = "ROLLCALL_SESSION"
FILE = "harness.toml"
NO_FILE_HINT = "write one beside the server, or name it: --mcp-project PATH, or mcp_rollcall_project in the ini file"


@contextmanager
def as_failures() -> Iterator[None]:
    """Errors of ours fail the test with their text alone: whose code raised them helps nobody."""
    try:
        yield
    except HarnessError as error:
        log = "" if error.log in error.message else error.log
        text = "\n".join(part for part in (error.message, f"hint: {error.hint}" if error.hint else "", log) if part)
        raise pytest.fail.Exception(text, pytrace=False) from None


class State:
    """What this process knows of the session; made for every session, filled where something of ours is used."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.role: Literal["lead", "worker", "inside"] = "lead"
        if hasattr(config, "workerinput"):
            self.role = "worker"
        if os.environ.get(SESSION_VARIABLE):
            self.role = "inside"
        self.active: Active | None = None
        self.left_out = {"deselected": 0, "files": 0, "uncollected": 0}  # tests, files passed over, files not collected
        self.crashed: list[str] = []
        self._runs: Runs | None = None
        self._answerer: Answerer | None = None
        self._choices: tuple[Choice, ...] | None = None
        self._lock = threading.Lock()
        self._before: Any = None  # the handler of SIGTERM

    def setting(self, name: str, default: Any) -> Any:
        """An option, else its ini value, else the default.

        Raises:
            UsageError: The ini value is none that it can have; an option was refused by pytest then.
        """
        value = self.config.getoption(f"mcp_{name}", None)
        if value is None:
            with suppress(KeyError, ValueError):
                value = self.config.getini(f"mcp_rollcall_{name}")
        value = default if value in (None, "", []) else value
        if name in CHOICES and value not in CHOICES[name]:
            raise pytest.UsageError(f"mcp_rollcall_{name} is {value!r}; it can be {', '.join(CHOICES[name])}")
        return value

    @property
    def scope(self) -> Any:
        """How long mcp_harness keeps a server."""
        return self.setting("scope", "session")

    def activate(self) -> Active:
        """From now on the plugin takes part in the session."""
        if self.active is None:
            from harness.pytest_active import Active

            self.active = Active(self)
            self.config.pluginmanager.register(self.active, "mcp_rollcall_active")
            self._obey_sigterm()
        return self.active

    def _obey_sigterm(self) -> None:
        """SIGTERM ends the session as Ctrl-C does: what stands is taken down."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def handle(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # everything that follows is bounded
            raise KeyboardInterrupt("SIGTERM")

        self._before = signal.signal(signal.SIGTERM, handle)

    def close(self) -> None:
        """Everything that is still there goes, however the session ended."""
        if self.active is not None:
            self.active.opened_close()
        if self._answerer is not None:
            self._answerer.close()
        if self._runs is not None:
            self._runs.close(swept=True)
        if self._before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    # --- runs ---------------------------------------------------------------------------------------

    def choices(self) -> tuple[Choice, ...]:
        """The planned runs.

        Raises:
            HarnessError: A problem of a file or of the selection.
        """
        if self._choices is None:
            from harness.pytest_link import ask, choice_from_json, choice_of

            match self.role:
                case "inside":
                    self._choices = (choice_of(self.session().run),)
                case "worker":
                    found = ask(self.asked(), "planned")
                    self._choices = tuple(choice_from_json(item) for item in found)
                case "lead":
                    self._choices = self.runs().planned()
        return self._choices

    def open(self, choice: Choice) -> SessionSpec:
        """The session of a run whose stack stands.

        Raises:
            HarnessError: It could not be built or stood up.
        """
        match self.role:
            case "inside":
                return self.session()
            case "worker":
                from harness.model.session import session_from_json
                from harness.pytest_link import ask

                return session_from_json(ask(self.asked(), "open", number=choice.number, worker=self.worker))
            case "lead":
                return self.runs().open(choice.number)

    def release(self, choice: Choice) -> None:
        """The stack is not needed here any more."""
        match self.role:
            case "inside":
                return
            case "worker":
                from harness.pytest_link import LinkLost, ask

                with suppress(LinkLost):
                    ask(self.asked(), "release", number=choice.number, worker=self.worker)
            case "lead":
                self.runs().release(choice.number)

    def tell(self, choice: Choice, **what: Any) -> None:
        """What became of the start of a server; see `Runs.tell`."""
        match self.role:
            case "inside":
                return
            case "worker":
                from harness.pytest_link import ask

                ask(self.asked(), "tell", number=choice.number, told=what)
            case "lead":
                self.runs().tell(choice.number, **what)

    def session(self) -> SessionSpec:
        """The run of `mcp-rollcall integration` in which we are.

        Raises:
            ConfigError: The file that says so cannot be used.
        """
        from harness.model.session import session_from_json

        path = os.environ[SESSION_VARIABLE]
        try:
            return session_from_json(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            hint = "it is there only while a run stands; unset the variable to run the tests alone"
            raise ConfigError(f"{SESSION_VARIABLE} names {path}, which cannot be used: {error}", hint=hint) from None

    def runs(self) -> Runs:
        """The planned runs of the project; made by the leading process when first asked for.

        Raises:
            ConfigError: There is no harness.toml, or an option cannot be used.
        """
        with self._lock:
            if self._runs is None:
                self._runs = self._make_runs()
            return self._runs

    def _make_runs(self) -> Runs:
        from harness.integration import Options
        from harness.model.progress import Silent
        from harness.pytest_runs import Runs

        file = self.project()
        if file is None:
            raise ConfigError(
                f"there is no {FILE} at or above {self._start()}",
                hint=NO_FILE_HINT,
            )

        def several(name: str) -> tuple[str, ...]:
            return tuple(self.config.getoption(f"mcp_{name}") or ())

        evidence = self.config.getoption("mcp_evidence")
        options = Options(
            base=self.config.invocation_params.dir,
            projects=(file,),
            everything=True,
            backends=several("backend"),
            eras=several("era"),
            profiles=several("profile"),
            runtime=self.setting("runtime", "auto"),
            evidence=None if evidence is None else Path(evidence),
            strict=bool(self.setting("strict", False)),
            today=_day(self.config.getoption("mcp_today")),
        )
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        told = _Told(reporter) if reporter is not None and self.config.get_verbosity() > 0 else Silent()
        return Runs(options, per_worker=self.setting("stack", "session") == "worker", progress=told)

    def project(self) -> Path | None:
        """Where harness.toml is, None without one."""
        said = self.config.getoption("mcp_project") or ""
        base = self.config.invocation_params.dir
        if not said:
            said = self.config.getini("mcp_rollcall_project") or ""
            base = self.config.inipath.parent if self.config.inipath is not None else self.config.rootpath
        if said:
            path = base / said
            return path / FILE if path.is_dir() else path
        for folder in (start := self._start(), *start.parents):
            if (folder / FILE).is_file():
                return folder / FILE
            if (folder / ".git").exists():
                break
        return None

    def _start(self) -> Path:
        """The folder that holds all tests that were asked for."""
        folders = []
        for argument in self.config.args:
            path = (self.config.invocation_params.dir / argument.partition("::")[0]).resolve()
            folders.append(str(path if path.is_dir() else path.parent))
        with suppress(ValueError):
            return Path(os.path.commonpath(folders))
        return self.config.rootpath

    # --- xdist --------------------------------------------------------------------------------------

    @property
    def worker(self) -> str:
        """The name of this worker, "" where there are none."""
        return str(getattr(self.config, "workerinput", {}).get("workerid", ""))

    def asked(self) -> str:
        """Where a worker asks.

        Raises:
            ConfigError: Nobody is there, because there is no project.
        """
        address = str(getattr(self.config, "workerinput", {}).get("mcp_rollcall") or "")
        if not address:
            hint = (
                "write one beside the server, or name it: --mcp-project PATH, or mcp_rollcall_project in the ini file"
            )
            raise ConfigError(f"there is no {FILE} at or above {self._start()}", hint=hint)
        return address

    def address(self) -> str:
        """Where workers ask this process, "" where there is nothing to ask about."""
        if self.role == "inside" or self.project() is None:
            return ""
        if self._answerer is None:
            from harness.pytest_link import Answerer

            self.activate()
            self._answerer = Answerer(self._answer)
        return self._answerer.address

    def _answer(self, what: str, about: Mapping[str, Any]) -> Any:
        from harness.model.session import session_to_json
        from harness.pytest_link import choice_to_json

        match what:
            case "planned":
                return [choice_to_json(choice) for choice in self.choices()]
            case "open":
                return session_to_json(self.runs().open(about["number"], about["worker"]))
            case "release":
                return self.runs().release(about["number"], about["worker"])
            case "tell":
                return self.runs().tell(about["number"], **about["told"])
            case _:
                raise ValueError(what)

    def worker_gone(self, node: Any, error: object) -> None:
        """What a worker knew of the tests that were left out, or that it crashed."""
        told = getattr(node, "workeroutput", {}).get("mcp_rollcall", {})
        for name, number in told.items():  # all workers collect the same
            self.left_out[name] = max(self.left_out[name], number)
        if error:
            self.crashed.append(str(node.gateway.id))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tests that could not be collected cannot cover anything."""
        self.left_out["uncollected"] += report.failed

    def pytest_collection_finish(self) -> None:
        """Nor can those that `--lf` passes over before they are tests."""
        plugin = self.config.pluginmanager.getplugin("lfplugin")
        if self.config.getoption("lf", False) and getattr(plugin, "_previously_failed_count", 0):
            self.left_out["files"] = max(1, getattr(plugin, "_skipped_files", 0))


KEY = pytest.StashKey[State]()


class _Told:
    """What the rooms say of builds and stacks, as lines of the terminal."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def begin(self, subject: str, what: str) -> None:
        """Told at its end."""

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        """A line."""
        said = f"{subject}: {what}, {seconds:.1f} s{'' if ok else ': failed'}{f' ({detail})' if detail else ''}"
        self._reporter.write_line(f"mcp-rollcall: {said}")

    def waiting(self, subject: str, what: str, detail: str) -> None:
        """Ignored."""

    def note(self, subject: str, text: str) -> None:
        """A line."""
        self._reporter.write_line(f"mcp-rollcall: {subject}: {text}")


def _day(text: str | None) -> date | None:
    if not text:
        return None
    from datetime import date

    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--mcp-today {text!r} is no date", hint="write it as 2026-12-01") from None
