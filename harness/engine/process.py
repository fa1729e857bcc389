"""One server process: started in a session of its own, watched, and stopped together with all that it started.

Policy, after MCP basic/lifecycle#shutdown (the timings are ours): close stdin, wait, TERM to the group, wait, KILL to
the group, wait; then always look for what is left, by process group, session, descent, environment and mark.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import anyio

from harness.engine.mark import bearing, mark_of, mark_on
from harness.errors import ServerError
from harness.model.transcript import Orphan

__all__ = [
    "HURRY_CLOSE_S",
    "KILL_S",
    "ORPHAN_GRACE_S",
    "STDIN_CLOSE_S",
    "TERM_S",
    "Child",
    "Exit",
    "ServerProcess",
    "start_process",
]

STDIN_CLOSE_S = 5.0  # how long a server may take to end once its stdin is closed
HURRY_CLOSE_S = 0.5  # the same when it is to be ended because of a fault or an interrupt
TERM_S = 3.0
KILL_S = 5.0
ORPHAN_GRACE_S = 0.5  # a child that ends a moment after its parent is no orphan
POLL_S = 0.03
QUIET_LOOKS = 3  # so often in a row nothing was there, before something that vanishes is taken for somebody else's
NEAR_LOOKS = 50  # between two looks at all processes
NEAR_PIDS = 24
MAX_ORPHANS = 50  # that are named

EndedBy = Literal["itself", "stdin-close", "term", "kill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended. `waited_s` counts from the close of stdin; `asked` is False if it ended by itself."""

    code: int
    asked: bool
    ended_by: EndedBy
    waited_s: float
    orphans: tuple[Orphan, ...]


@dataclass(frozen=True, slots=True)
class Child:
    """A living descendant of a server. `reads`: the server's stdin is its stdin too."""

    command: str
    reads: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """A process in /proc; `started` tells it from another with the same pid."""

    pid: int
    parent: int
    group: int
    session: int
    started: str


class ServerProcess:
    """A server that was started; `ended` is set when its leader is gone, reaped only after the sweep.

    The leader stays a zombie until then, so that its pid, and with it the group's id, can be nobody else's.
    """

    def __init__(self, popen: subprocess.Popen[bytes], *, marker: str) -> None:
        self.pid = popen.pid
        self.started_at = time.monotonic()
        self.ended_at = 0.0
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._popen = popen
        self._marker = marker.encode()
        self._mark = mark_of(marker)
        self._listeners: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        self._pidfd = -1
        self._watch()

    @property
    def output(self) -> IO[bytes]:
        """What it prints, of one that was started as `plain`."""
        assert self._popen.stdout is not None
        return self._popen.stdout

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """stdin, stdout, stderr."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        return self._popen.stdin, self._popen.stdout, self._popen.stderr

    def signal(self, number: int) -> None:
        """Sends a signal to the leader alone, if it has not ended."""
        if not self.ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def on_end(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when the leader has ended."""
        self._listeners.append(listener)
        if self.ended.is_set():
            listener()

    def look(self) -> bool:
        """Whether the leader has ended, asked of the system and not of what was noticed so far."""
        if not self.ended.is_set():
            with suppress(ChildProcessError):
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                    self._noticed()
        return self.ended.is_set()

    def family(self) -> Mapping[int, str]:
        """All descendants at this moment, pid -> start time; none where there is no /proc."""
        return _family(self.pid)

    def children(self, known: Mapping[int, str]) -> tuple[Child, ...]:
        """The descendants at this moment that are not among the known ones."""
        stdin = self._popen.stdin
        ours = "" if stdin is None or stdin.closed else _target(f"/proc/self/fd/{stdin.fileno()}")
        found = {
            Child(command=command, reads=bool(ours) and _target(f"/proc/{pid}/fd/0") == ours)
            for pid, started in _family(self.pid).items()
            if known.get(pid) != started and (command := _command(pid))
        }
        return tuple(sorted(found, key=lambda child: (not child.reads, child.command)))

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
                self._loop.add_reader(self._pidfd, self._noticed)
                return
        threading.Thread(target=self._wait_in_thread, name=f"wait-{self.pid}", daemon=True).start()

    def _wait_in_thread(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._noticed)

    def _noticed(self) -> None:
        self._unwatch()
        if self.ended.is_set():
            return
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        status = 0 if info is None else info.si_status
        self.code = -status if info is not None and info.si_code in (os.CLD_KILLED, os.CLD_DUMPED) else status
        self.ended_at = time.monotonic()
        self.ended.set()
        for listener in self._listeners:
            listener()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def kill_now(self) -> None:
        """Kills the leader, its group and its family at once, without an event loop; for the end of our own process."""
        family = _family(self.pid)
        for pipe in self.pipes:
            with suppress(OSError):
                pipe.close()
        self._signal_group(signal.SIGKILL)
        for seen in _processes():
            with suppress(OSError):
                if seen.pid != os.getpid() and self.is_of(seen, family):
                    _kill(seen)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=KILL_S)

    async def stop(
        self,
        close_stdin: Callable[[], None],
        *,
        hurry: bool = False,
        close_s: float | None = None,
        term_s: float = TERM_S,
        grace_s: float = ORPHAN_GRACE_S,
    ) -> Exit:
        """Ends the server and everything that it started; never hangs, and is not cut short by a cancellation.

        Args:
            close_stdin: Closes our end of its stdin.
            hurry: Do not give it the whole time to see that its stdin is closed.
            close_s: That time, where it is not the usual one.
            term_s: How long it may take after SIGTERM.
            grace_s: How long what it started may live on.
        """
        with anyio.CancelScope(shield=True):
            asked = not self.ended.is_set()
            family = _family(self.pid)
            began = time.monotonic()
            close_stdin()
            ended_by: EndedBy = "itself"
            if asked:
                usual_s = HURRY_CLOSE_S if hurry else STDIN_CLOSE_S
                ended_by = await self._end(usual_s if close_s is None else close_s, term_s)
            waited = max(0.0, self.ended_at - began) if asked and self.ended.is_set() else 0.0
            orphans = await self._sweep(family, grace_s)
            code = self._reap()
        return Exit(code=code, asked=asked, ended_by=ended_by, waited_s=round(waited, 3), orphans=orphans)

    async def _end(self, patience: float, term_s: float) -> EndedBy:
        if await self._ended_within(patience):
            return "stdin-close"
        self._signal_group(signal.SIGTERM)
        if await self._ended_within(term_s):
            return "term"
        self._signal_group(signal.SIGKILL)
        await self._ended_within(KILL_S)
        return "kill"

    async def _ended_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.ended.wait()
        return self.ended.is_set()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _sweep(self, family: Mapping[int, str], grace_s: float) -> tuple[Orphan, ...]:
        """Waits a moment for the rest of the family, kills what is still there, and says what that was.

        One that forks and ends, over and over, is never there when its turn comes: it is hunted without a pause, by its
        group, in which a fork cannot come between, and only a look at which nothing was seen to vanish is the last.
        """
        hunt = _Hunt(self, family)
        deadline = time.monotonic() + grace_s
        while (left := hunt.look()) or hunt.vanished:
            if time.monotonic() >= deadline:
                break
            await anyio.sleep(POLL_S)
        found: dict[int, Orphan] = {}
        deadline = time.monotonic() + KILL_S
        quiet = 0
        while (left or hunt.vanished) and quiet < QUIET_LOOKS and time.monotonic() < deadline:
            quiet = 0 if left else quiet + 1
            for _ in range(NEAR_LOOKS):
                for seen in left:
                    if seen.pid not in found and len(found) < MAX_ORPHANS:
                        found[seen.pid] = Orphan(pid=seen.pid, command=_command(seen.pid))
                    _kill(seen)
                left = hunt.look(near=True)
            await anyio.sleep(POLL_S)
            left = hunt.look()
        _reap_adopted(found)
        return tuple(found[pid] for pid in sorted(found))

    def is_of(self, seen: _Seen, family: Mapping[int, str]) -> bool:
        """Whether a process is the server's.

        Raises:
            ProcessLookupError: It ended before that could be told.
        """
        if self.pid in (seen.group, seen.session) or family.get(seen.pid) == seen.started:
            return True
        with suppress(OSError):
            if self._marker in Path(f"/proc/{seen.pid}/environ").read_bytes():
                return True
        ours = os.getpid()
        if seen.parent == ours and ours != 1:
            return False  # another thread started it in the moment in which we bore the mark
        if self.bears_mark(seen.pid):
            return True
        if not os.path.exists(f"/proc/{seen.pid}"):
            raise ProcessLookupError
        return False

    def bears_mark(self, pid: int) -> bool:
        """Whether a process, or what is left of it, has the mark of this server's."""
        return mark_on(pid) == self._mark

    def _reap(self) -> int:
        """The exit code; the zombie is gone afterwards. A leader that outlives SIGKILL counts as killed."""
        if not self.ended.is_set():
            self._unwatch()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=0)
            self.code = self._popen.returncode if self._popen.returncode is not None else -signal.SIGKILL
            return self.code
        self._popen.wait()
        return self.code if self.code is not None else self._popen.returncode


def start_process(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], marker: str, server: str = "", plain: bool = False
) -> ServerProcess:
    """Starts a server with three pipes, in a session of its own, with signals as a shell would give them.

    Args:
        marker: Text that stands in the environment of this server and its children, and of nobody else.
        plain: It is no server: it has nothing to read, and one pipe for all that it prints.
    Raises:
        ServerError: There is no such folder, or the command cannot be executed; the message says which.
    """
    if not cwd.is_dir():
        raise ServerError(f"the server's folder {cwd} does not exist", server=server)
    try:
        with _default_signals() as preexec, bearing(mark_of(marker)):
            popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL if plain else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if plain else subprocess.PIPE,
                cwd=cwd,
                env=dict(env),
                bufsize=0,
                close_fds=True,
                start_new_session=True,
                preexec_fn=preexec,
            )
    except (OSError, ValueError) as error:
        raise ServerError(*_start_problem(argv, env, error), server=server) from None
    return ServerProcess(popen, marker=marker)


def _start_problem(argv: Sequence[str], env: Mapping[str, str], error: OSError | ValueError) -> tuple[str]:
    what = f"the command {argv[0]!r} could not be started"
    if isinstance(error, ValueError):
        return (f"{what}: {error}",)
    match error.errno:
        case errno.ENOENT if os.sep not in argv[0]:
            return (f"{what}: no such program in {env.get('PATH', '')}",)
        case errno.ENOENT:
            return (f"{what}: no such file, or its interpreter is not there",)
        case errno.E2BIG:
            size = sum(len(name) + len(value) + 2 for name, value in env.items())
            return (f"{what}: its arguments and variables ({size:,} bytes of them) are more than the system takes",)
        case errno.EACCES:
            return (f"{what}: it is not executable",)
        case errno.ENOEXEC:
            return (f"{what}: it is no program (has it a #! line?)",)
        case _:
            return (f"{what}: {error.strerror or error}",)


@contextmanager
def _default_signals() -> Iterator[Callable[[], None] | None]:
    """A child started inside has every signal at its default and an empty mask, whatever was handed down to us.

    Signals that we handle are reset by exec anyway; ignored ones are not (nohup, a background job). In the main thread
    they get a handler that does nothing for this moment; elsewhere the child resets them itself.
    """
    ignored = [number for number in _catchable() if signal.getsignal(number) is signal.SIG_IGN]
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    main = threading.current_thread() is threading.main_thread()
    try:
        if main:
            for number in ignored:
                signal.signal(number, lambda *_: None)
        yield None if main or not ignored else lambda: _reset(ignored)
    finally:
        if main:
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _catchable() -> list[signal.Signals]:
    fixed = {signal.SIGKILL, signal.SIGSTOP}
    return [number for number in signal.Signals if number not in fixed and number != signal.SIGPIPE]  # Popen does that


def _reset(numbers: Sequence[signal.Signals]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)


class _Hunt:
    """Looks for what is left of a server; what was once seen to be another's is not looked at again.

    Attributes:
        vanished: Whether, at the last look, a process ended before it could be told whose it was.
    """

    def __init__(self, server: ServerProcess, family: Mapping[int, str]) -> None:
        self.vanished = False
        self._server = server
        self._family = family
        self._others = {os.getpid(), os.getppid(), server.pid}

    def look(self, *, near: bool = False) -> list[_Seen]:
        """The server's processes at this moment.

        Args:
            near: Only those that are just being born, in a fraction of the time.
        """
        self.vanished = False
        left: list[_Seen] = []
        for pid in _newest_pids() if near else _pids():
            if pid in self._others:
                continue
            try:
                seen = _seen(pid)
                if seen is None:  # a zombie: its child may have been born behind our back
                    self.vanished = self.vanished or self._server.bears_mark(pid)
                elif self._server.is_of(seen, self._family):
                    left.append(seen)
                    continue
            except (FileNotFoundError, ProcessLookupError):
                self.vanished = True
                continue
            except OSError:
                pass
            self._others.add(pid)
        return left


def _kill(seen: _Seen) -> None:
    """Kills a process and its group, which no fork escapes; never our own group."""
    with suppress(ProcessLookupError, PermissionError):
        if seen.group > 1 and seen.session != os.getsid(0):
            os.killpg(seen.group, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(seen.pid, signal.SIGKILL)


def _pids() -> list[int]:
    """All process ids, none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _newest_pids() -> Iterable[int]:
    """The process ids that were given last; none where the system does not say."""
    try:
        last = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[-1])
    except (OSError, ValueError, IndexError):
        return ()
    return range(last, max(1, last - NEAR_PIDS), -1)


def _seen(pid: int) -> _Seen | None:
    """A process, None for a zombie.

    Raises:
        OSError: It is gone.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        stat = file.read()
    state, parent, group, session, *more = stat.rpartition(b")")[2].split()
    if state in (b"Z", b"X"):
        return None
    return _Seen(pid, int(parent), int(group), int(session), more[15].decode("ascii"))


def _processes() -> Iterator[_Seen]:
    """Every process that is not a zombie; none where there is no /proc."""
    for pid in _pids():
        with suppress(OSError):
            seen = _seen(pid)
            if seen is not None:
                yield seen


def _family(pid: int) -> dict[int, str]:
    """All descendants of a process at this moment, pid -> start time."""
    children: dict[int, list[_Seen]] = {}
    for seen in _processes():
        children.setdefault(seen.parent, []).append(seen)
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for seen in children.get(waiting.pop(), ()):
            if seen.pid not in found:
                found[seen.pid] = seen.started
                waiting.append(seen.pid)
    return found


def _reap_adopted(pids: Iterable[int]) -> None:
    """Where we are process 1, what has lost its parent became our child, and is a zombie now."""
    for pid in pids:
        with suppress(OSError):
            os.waitpid(pid, os.WNOHANG)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
