"""The plugin's part in a session in which something of ours is used: which test runs, what it left behind, the gate."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.engine.cases import begin_case, end_case
from harness.errors import CallError, HarnessError, MisuseError, error_to_json
from harness.pytest_state import State, as_failures

if TYPE_CHECKING:
    from harness import testing
    from harness.model.finding import Report
    from harness.model.session import SessionSpec
    from harness.pytest_link import Choice
    from harness.pytest_servers import Harness, Knobs, Opened

__all__ = ["GATE", "Active"]

GATE = "mcp-rollcall::gate"  # the node id of the gate where it fails
SECTION = "mcp-rollcall"
SUITE = "pytest"
_HERE = str(Path(__file__).parent) + os.sep


class Active:
    """The hooks of a session in which something of ours is used."""

    def __init__(self, state: State) -> None:
        self.knobs: Knobs | None = None
        self._state = state
        self._opened: Opened | None = None
        self._begun: set[int] = set()  # runs whose first server has started in this process
        self._case = ""
        self._failed = False
        self._running = False
        self._text = ""
        self._line = ""

    # --- servers ------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened:
        """The servers of this process."""
        if self._opened is None:
            from harness.pytest_servers import Opened

            self._opened = Opened()
        return self._opened

    def opened_close(self) -> None:
        """Ends them."""
        if self._opened is not None:
            self._opened.close()

    def harness(self, choice: Choice, session: SessionSpec) -> Harness:
        """What mcp_harness hands out."""
        from harness.pytest_servers import Harness

        def knobs() -> Knobs:
            if self.knobs is None:
                raise MisuseError("mcp_harness was used outside of a test")
            return self.knobs

        return Harness(partial(self.start, choice, session), knobs, self.opened)

    def start(self, choice: Choice, session: SessionSpec, knobs: Knobs) -> testing.Server:
        """A server of a run; where it does not speak the era, which was only tried, the test is skipped."""
        from harness.pytest_servers import Unspoken, start_in_session

        with as_failures():
            try:
                server = start_in_session(session, knobs, tried=choice.probed and self._state.role != "inside")
            except Unspoken as error:
                self._state.tell(choice, unspoken=str(error))
                pytest.skip(f"{choice.key.server} does not speak the {choice.key.era} era ({error})")
            except HarnessError as error:
                self._state.tell(choice, error=error_to_json(error))
                raise
        if choice.number not in self._begun and self._state.role != "inside":
            self._begun.add(choice.number)
            facts = {
                "server_info": dict(server.server_info),
                "protocol": server.protocol,
                "capabilities": dict(server.capabilities),
                "client_capabilities": dict(server._live._session.client_capabilities),
            }
            self._state.tell(choice, facts=facts)
            with suppress(CallError):  # what it lists is what there is to cover
                server.tools()
        return server

    # --- which test runs ----------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """From here on what is called belongs to the test; once more where it is run again."""
        again = getattr(item, "execution_count", 1)
        self._case = item.nodeid if again == 1 else f"{item.nodeid} (run {again})"
        self._failed, self._running = False, True
        begin_case(SUITE, self._case)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """What is called in the set-up of a wider fixture belongs to no one test."""
        if fixturedef.scope == "function":
            return (yield)
        begin_case(SUITE, f"{fixturedef.scope} set-up")
        try:
            return (yield)
        finally:
            begin_case(SUITE, self._case)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """The test is over; servers that it has killed are replaced."""
        end_case("failed" if self._failed else "completed")
        self._running = False
        begin_case(SUITE, f"{self._case} tear-down")
        try:
            return (yield)
        finally:
            end_case()
            if self._opened is not None:
                self._opened.between_tests()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A failed test shows what its servers said, and no lines of ours."""
        if call.excinfo is not None and not self._state.config.getoption("fulltrace", False):
            _leave_out_our_lines(call.excinfo.value)
        report = yield
        broken = report.failed or (hasattr(report, "wasxfail") and call.excinfo is not None)
        if broken and report.when in ("setup", "call"):
            self._failed = True
        if report.failed and self._opened is not None:
            from harness.pytest_servers import sections_of

            for server in self._opened.servers():
                report.sections += sections_of(server, self._case)
        return report

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """A comparison with a whole result says what is in it."""
        from harness.model.live import Result

        if not isinstance(left, Result) and not isinstance(right, Result):
            return None
        lines = [f"{left!r} {op} {right!r}"]
        for name, side in (("left", left), ("right", right)):
            if isinstance(side, Result):
                lines += [f"{name}.text: {side.text!r}", f"{name}.structured: {side.structured!r}"]
        other = right if isinstance(left, Result) else left
        if isinstance(other, str):
            lines.append("a result is no text; compare its .text")
        elif isinstance(other, dict | list):
            lines.append("a result is no JSON value; compare its .structured, or .json()")
        return lines

    # --- the end ------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """Takes everything down; the leading process then judges what there was."""
        state, config = self._state, session.config
        if self._running:
            end_case("interrupted")
        try:
            session._setupstate.teardown_exact(None)  # fixtures still stand where it was stopped early, and need theirs
        finally:
            self.opened_close()
        if state.role == "worker":
            config.workeroutput["mcp_rollcall"] = state.left_out  # type: ignore[attr-defined]
            return
        if state.role == "inside":
            return
        nodes = getattr(config.pluginmanager.getplugin("dsession"), "nodemanager", None)
        if nodes is not None:
            nodes.teardown_nodes()  # as pytest-xdist does a moment later: no worker may write any more
        gate = state.setting("gate", "auto")
        if state._runs is None and gate != "full":
            return
        try:
            runs = state.runs()
            runs.close(swept=bool(state.crashed) or exitstatus not in (0, 1, 5))
            idle = config.option.collectonly or not (runs.used or gate == "full")
            if gate == "off" or idle:
                return
            finished = exitstatus in (0, 1, 5)
            left_out = [] if gate == "full" and finished else list(self._left_out(session, exitstatus))
            report = runs.judge(left_out=left_out, finished=finished, exit=int(exitstatus))
        except HarnessError as error:
            self._fail(session, f"the gate could not judge: {error.message}", error.message)
            return
        self._show(session, report, left_out)

    def _left_out(self, session: pytest.Session, exitstatus: int) -> Iterator[str]:
        """Why this session says nothing of what is absent."""
        state, config = self._state, session.config
        if exitstatus not in (0, 1, 5) or session.shouldstop or session.shouldfail:
            yield "the session was stopped early"
        if state.crashed:
            yield f"{', '.join(state.crashed)} crashed"
        if number := state.left_out["uncollected"]:
            yield f"{_amount(number, 'file')} could not be collected"
        if number := state.left_out["deselected"]:
            yield f"{_amount(number, 'test')} {'was' if number == 1 else 'were'} deselected"
        if state.left_out["files"]:
            yield "only tests that had failed were run"
        if getattr(config.option, "setuponly", False) or getattr(config.option, "setupplan", False):
            yield "tests were only set up"
        if _narrowed(config, state.runs().tests()):
            yield "only some of the tests were asked for"

    def _show(self, session: pytest.Session, report: Report, left_out: Sequence[str]) -> None:
        from harness.report.text import headline, to_text

        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        color = reporter is not None and reporter.hasmarkup
        width = reporter._tw.fullwidth if reporter is not None else 100
        whole = to_text(report, color=color, width=width)
        self._text = whole
        if left_out:
            self._line = f"what is absent was not judged: {'; '.join(left_out)}"
        if report.exit:
            self._fail(session, headline(report), to_text(report, width=100))

    def _fail(self, session: pytest.Session, headline: str, text: str) -> None:
        """A failed test of our own, for everybody who counts them, and exit status 1."""
        self._text = self._text or text
        session.testscollected += 1
        hook = session.config.hook
        location = ("mcp-rollcall", None, "gate")
        failed: Any = _Failure(headline, text)
        hook.pytest_runtest_logstart(nodeid=GATE, location=location)
        for when, outcome, longrepr in (
            ("setup", "passed", None),
            ("call", "failed", failed),
            ("teardown", "passed", None),
        ):
            report = pytest.TestReport(
                nodeid=GATE,
                location=location,
                keywords={},
                outcome=outcome,  # type: ignore[arg-type]
                longrepr=longrepr,
                when=when,  # type: ignore[arg-type]
            )
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=GATE, location=location)
        last_failed = getattr(session.config.pluginmanager.getplugin("lfplugin"), "lastfailed", {})
        for name in [name for name in last_failed if str(name) == GATE]:
            del last_failed[name]  # it is no test that could be run again alone
        session.testsfailed += 1
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The report, after the failures."""
        if not self._text:
            return
        terminalreporter.section(SECTION)
        terminalreporter.write(self._text if self._text.endswith("\n") else f"{self._text}\n")
        if self._line:
            terminalreporter.write_line(self._line)


def _leave_out_our_lines(error: BaseException) -> None:
    """Cuts the traceback of an error of ours where our own code begins; the test's line is the last one then."""
    at = error.__traceback__
    while isinstance(error, CallError | HarnessError) and at is not None and at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename.startswith(_HERE):
            at.tb_next = None
            return
        at = at.tb_next


class _Failure:
    """What the gate's failure shows: a line among the failures, for the report stands in a section of its own."""

    def __init__(self, headline: str, text: str) -> None:
        from _pytest._code.code import ReprFileLocation

        self._headline, self._text = headline, text
        self.reprcrash = ReprFileLocation("mcp-rollcall", 0, headline)

    def toterminal(self, writer: Any) -> None:
        """Writes it."""
        writer.line(self._headline)
        writer.line(f"the whole report is in the section {SECTION!r}")

    def __str__(self) -> str:
        return self._text


def _amount(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _narrowed(config: pytest.Config, tests: Sequence[Path]) -> bool:
    """Whether the command line names less than all tests.

    Args:
        tests: What `[suites] pytest` names, absolute; where it names nothing, any folder is taken for all of them.
    """
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return False
    base = config.invocation_params.dir
    asked = [(base / argument.partition("::")[0]).resolve() for argument in config.args if "::" not in argument]
    if any("::" in argument for argument in config.args) and not tests:
        return True
    if not tests:
        return not all(path.is_dir() for path in asked)
    return not all(any(test == path or path in test.parents for path in asked) for test in tests)
