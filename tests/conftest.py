"""What all tests share: the anyio backend, an engine that can be cut off, and the one place where tests for Docker are
left out, loudly, or fail.
"""

import functools
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

# Under nohup, or in a background job, signals are ignored, by what a test starts too: told to end, none of it would.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def _is_script(program: Path) -> bool:
    with suppress(OSError), program.open("rb") as file:
        return file.read(2) == b"#!"
    return False


def _without_shims(path: str, real: Path) -> str:
    """The folders of PATH with the interpreter's own before the first whose `python3` is a script.

    That of a version manager takes longer than the servers of these tests take to start. It need not be the first on
    PATH: a server gets that without our environment's folder.
    """
    folders = path.split(os.pathsep)
    shims = (index for index, folder in enumerate(folders) if _is_script(Path(folder) / "python3"))
    if (at := next(shims, None)) is not None and (real / "python3").exists():
        folders.insert(at, str(real))
    return os.pathsep.join(folders)


os.environ["PATH"] = _without_shims(os.environ["PATH"], Path(sys.base_prefix) / "bin")


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


class Relay:
    """Between us and the real engine: can change what we say, and can be cut."""

    def __init__(self, path, change=lambda data: data):
        self.path, self.change = path, change
        self._socks = set()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(path)
        self._server.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect("/var/run/docker.sock")
            self._socks |= {near, far}
            for pair in ((near, far, self.change), (far, near, lambda data: data)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source, target, change):
        try:
            while data := source.recv(65536):
                target.sendall(change(data))
        except OSError:
            pass
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """The engine is stopped."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
        for sock in self._socks:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for sock in self._socks:
            sock.close()


@pytest.fixture
def relay(tmp_path, monkeypatch):
    """`relay(change)`: from now on the engine is reached through a relay."""
    made = []

    def make(change=lambda data: data):
        made.append(Relay(str(tmp_path / "relay.sock"), change))
        monkeypatch.setenv("DOCKER_HOST", f"unix://{made[-1].path}")
        return made[-1]

    yield make
    for item in made:
        item.cut()
