"""What all tests share: the anyio backend, and the one place where tests for Docker are left out, loudly, or fail."""

import functools
import os
import signal

import pytest

# Under nohup, or in a background job, signals are ignored, by what a test starts too: told to end, none of it would.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@functools.cache
def engine_problem() -> str:
    """Why Docker cannot be used, "" if it can."""
    from harness.engine.docker import probe

    found = probe()
    return "" if found.available else found.cause


@pytest.fixture(autouse=True)
def _docker_or_say_so(request):
    if request.node.get_closest_marker("docker") is None or not engine_problem():
        return
    if os.environ.get("ROLLCALL_REQUIRE_DOCKER") == "1":
        pytest.fail(f"ROLLCALL_REQUIRE_DOCKER=1 and no Docker: {engine_problem()}", pytrace=False)
    pytest.skip("needs Docker")


# files that take longest as a whole
SLOW = ("test_examples.py", "test_interrupt.py", "test_rollout.py", "test_on_real_servers.py")


def pytest_collection_modifyitems(items):
    """The longest files first: side by side with the others, they are not what the end waits for."""
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))


def pytest_terminal_summary(terminalreporter):
    """A test that did not run must not look like one that passed."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if "needs Docker" in str(report.longrepr)]
    if skipped:
        line = f"{len(skipped)} tests did not run for want of Docker: {engine_problem()}"
        terminalreporter.write_line(line, yellow=True)
