"""`mcp-rollcall proxy -- COMMAND…`: sits between any client and a server, changes nothing, and has all of it recorded.

Its start is part of every test that goes through it, so this module imports next to nothing: three threads hand on
bytes, and note each piece in a journal, a file without a name that a process of its own reads, as slowly as it likes
(`harness.engine.recording`). That process outlives this one: where the proxy is killed, it ends the server and writes
down what there is.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # as a script, without `site`: a third of the time that `-m harness proxy` takes to start
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import select
import signal
import threading
import time

from harness.model.journal import BEGAN, CLIENT_CLOSED, ENDED, ENTRY, FROM_CLIENT, FROM_SERVER, STDERR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from harness.model.session import SessionSpec

__all__ = ["main"]

CHUNK_BYTES = 64 * 1024
POLL_S = 0.05
RECORDER_GONE = "who records it was ended"
UNKNOWN = "unknown"  # the server's name, where no harness.toml says it
RECORDER_NICE = 10
HELD_S = 0.5  # after the server's end, while somebody else holds its pipes open and says nothing
FORWARDED = (
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGCONT",
    "SIGTSTP",
    "SIGWINCH",
    "SIGALRM",
)
SI_KERNEL = 0x80  # sent by a terminal, to the whole group
USAGE = """\
usage: mcp-rollcall proxy [--evidence DIR] -- COMMAND …
       mcp-rollcall proxy [--evidence DIR] [--port-file FILE] --http URL
  see mcp-rollcall proxy --help
"""


class _Usage(Exception):
    """The command line is none of ours."""


def main(argv: Sequence[str]) -> int:
    """Runs a proxy to its end.

    Args:
        argv: The arguments behind `proxy`.
    Returns:
        The server's exit code; 2 for a command line that is none, 6 for a target that the guard refuses, 126 and 127 as
        a shell has it. Where the server was ended by a signal, this process is ended by the same.
    """
    try:
        options, command = _parsed(argv)
    except _Usage as error:
        _say(f"{error}\n{USAGE}")
        return 2
    session = None
    if "session" in options:
        try:
            session = _session(options["session"])
        except (OSError, ValueError) as error:
            _say(f"the session in {options['session']} cannot be read: {error}")
            return 2
    elif not command and "http" not in options:
        _say(f"there is no command to start\n{USAGE}")
        return 2
    if "http" in options:
        from harness.proxy_http import serve

        place = _Place(options, session)
        if not place.open():
            _say(f"nothing is recorded: {place.problem}")
        return serve(options["http"], place, port_file=options.get("port-file", ""), say=_say)
    if session is not None and session.transport == "stdio" and not command:
        os.chdir(session.cwd)
    words = command or list(session.command if session is not None else ())
    env = dict(os.environ)
    if session is not None:
        from harness.proxy_session import read_command_env, server_env

        env, refused = server_env(session, words, env, read_command_env(options["session"]))
        if refused:
            _say("the server was not started:\n  " + "\n  ".join(refused))
            _refused(options, session, refused)
            return 6
    return _Proxy(words, env, _Place(options, session)).run()


def _parsed(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options, and the command: what stands behind `--`, or from the first word on that is no option."""
    words = list(argv)
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            if not words:
                raise _Usage("there is no command behind --")
            break
        name, equals, value = word.partition("=")
        if name not in ("--evidence", "--http", "--port-file", "--session"):
            raise _Usage(f"unrecognized argument: {word}; the server's command stands behind --")
        if not equals:
            if not words:
                raise _Usage(f"{name} takes a value")
            value = words.pop(0)
        options[name[2:]] = value
    if "http" in options and words:
        raise _Usage("--http takes no command: the server stands already")
    return options, words


def _session(path: str) -> SessionSpec:
    from harness.model.session import session_from_json

    with open(path, "rb") as file:
        return session_from_json(file.read())


def _say(text: str, voice: int = 2) -> None:
    try:
        os.write(voice, f"mcp-rollcall proxy: {text.rstrip()}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def _refused(options: dict[str, str], session: SessionSpec, refused: Sequence[str]) -> None:
    """What the guard said, for the report."""
    place = _Place(options, session)
    if place.open():
        from harness.engine.recording import record_refusal

        record_refusal(place.folder, place.name, session, refused)


# --- where it is recorded -------------------------------------------------------------------------


class _Place:
    """The folder of the evidence, and the name of the transcript in it.

    Attributes:
        problem: Why nothing can be recorded, "" while it can.
    """

    def __init__(self, options: dict[str, str], session: SessionSpec | None) -> None:
        self.session = session
        self.folder = session.evidence if session is not None else ""
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}"
        self.stamp = f"{stamp}-{os.urandom(4).hex()}"
        self.name = f"outside-proxy-{self.stamp}.jsonl"
        self.server = UNKNOWN
        self.problem = ""
        self._chosen = options.get("evidence", "")

    def open(self) -> bool:
        """Makes the folder; whether that could be done."""
        try:
            if self.session is None:
                root, self.server = _root(self._chosen)
                self.folder = os.path.join(root, _as_folder(self.server), "recorded", self.stamp)
                os.makedirs(self.folder, exist_ok=True)
            elif not os.path.isdir(self.folder):
                raise FileNotFoundError(2, "the run has ended")
        except OSError as error:
            self.problem = f"{error.strerror or error}"
        return not self.problem


def _root(chosen: str) -> tuple[str, str]:
    """The root of the evidence, and the server's name: those of the nearest harness.toml, if nothing else is said."""
    here = os.getcwd()
    server, found = UNKNOWN, ""
    while True:
        path = os.path.join(here, "harness.toml")
        if os.path.isfile(path):
            found, server = here, _server_in(path)
            break
        if os.path.dirname(here) == here:
            break
        here = os.path.dirname(here)
    root = os.path.abspath(chosen) if chosen else os.path.join(found or os.getcwd(), ".rollcall", "evidence")
    if not chosen:
        state = os.path.dirname(root)
        os.makedirs(state, exist_ok=True)
        ignore = os.path.join(state, ".gitignore")
        if not os.path.exists(ignore):
            with open(ignore, "w", encoding="ascii") as file:
                file.write("*\n")
    return root, server


def _server_in(path: str) -> str:
    import tomllib

    try:
        with open(path, "rb") as file:
            name = tomllib.load(file)["server"]["name"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return UNKNOWN
    return name if isinstance(name, str) and name else UNKNOWN


def _as_folder(name: str) -> str:
    if name == UNKNOWN:
        return name
    from harness.engine.evidence import encode_name

    return encode_name(name)


# --- the journal ----------------------------------------------------------------------------------


class _Journal:
    """Where the pumps note what they hand on, before they do: one write to a file's pages, and no more.

    The reader says in a shared byte that it sleeps; only then is it woken. A second one says that the notes broke off.

    Attributes:
        problem: Why they broke off, "" while they go on.
    """

    def __init__(self, folder: str) -> None:
        import mmap

        self.bell = -1
        self.asleep = mmap.mmap(-1, 2)
        self.problem = ""
        self._quiet = not folder  # then only that the server began and ended is noted: it is watched all the same
        self.file = _nameless(folder) if folder else os.memfd_create("journal", os.MFD_CLOEXEC)
        if not folder:
            import fcntl

            fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def add(self, kind: int, data: bytes) -> None:
        """Notes a piece; where that cannot be done nothing more is noted, and nothing is delayed."""
        if self.problem or (self._quiet and kind not in (BEGAN, ENDED)):
            return
        try:
            done = os.writev(self.file, (ENTRY.pack(kind, time.monotonic(), len(data)), data))
            if done < ENTRY.size + len(data):
                self.stop("there is no room for more")
                return
            if self.asleep[0]:
                self.asleep[0] = 0
                os.write(self.bell, b"!")
        except BrokenPipeError:
            self.stop(RECORDER_GONE)
        except OSError as error:
            self.stop(error.strerror or str(error))

    def stop(self, problem: str) -> None:
        """Nothing more is noted."""
        self.problem = self.problem or problem
        self.asleep[1] = 1


def _nameless(folder: str) -> int:
    """A file that goes with the last process that has it open, to which every write is an append."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(folder, flags | os.O_TMPFILE, 0o600)
    except OSError:
        path = os.path.join(folder, f".journal-{os.getpid()}-{os.urandom(4).hex()}")
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
        return file


# --- the pumps ------------------------------------------------------------------------------------


class _Pump(threading.Thread):
    """Hands on what comes at one end to the other, byte for byte, until either of them is closed.

    Both are watched: where nobody reads at the far end any more, the near one is closed, as it would be without us.

    Attributes:
        idle: Since when it waits for bytes, 0 while it has some in hand.
        ended: Nothing more came from the source: whoever writes there has closed it.
    """

    def __init__(self, source: int, target: int, kind: int, journal: _Journal) -> None:
        super().__init__(name=f"pump-{kind}", daemon=True)
        self.source, self.target, self.kind, self.journal = source, target, kind, journal
        self.idle = time.monotonic()
        self.ended = False

    def run(self) -> None:
        """Until there is nothing more to hand on; both ends are closed then."""
        try:
            self._pump()
        finally:
            for end in (self.target, self.source):
                _let_go(end)

    def _pump(self) -> None:
        both = select.poll()
        both.register(self.source, select.POLLIN)
        both.register(self.target, 0)  # errors are told unasked
        while True:
            self.idle = time.monotonic()
            for end, event in both.poll():
                if end == self.target and event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    return
            try:
                data = os.read(self.source, CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                self.ended = True
                if self.kind == FROM_CLIENT:
                    self.journal.add(CLIENT_CLOSED, b"")
                return
            self.idle = 0.0
            self.journal.add(self.kind, data)
            if not self._hand_on(data):
                return

    def _hand_on(self, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.target, view) :]
            except BlockingIOError:  # whoever started us made it so
                ready = select.poll()
                ready.register(self.target, select.POLLOUT)
                ready.poll()
            except OSError:
                return False
        return True


def _let_go(end: int) -> None:
    """Closes a descriptor; one of the first three keeps its number, so that no file is opened in its place."""
    try:
        if end > 2:
            os.close(end)
        else:
            os.dup2(_null(), end)
    except OSError:
        return


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _handed_down() -> list[int]:
    """What else the client gave us, which is the server's; the first three are open afterwards, whatever they were."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = _null()
            if null != number:
                os.dup2(null, number)
                os.close(null)
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    out = []
    for number in found:
        try:
            if number > 2 and os.get_inheritable(number):
                out.append(number)
        except OSError:
            continue
    return out


def _close_all_but(*kept: int) -> None:
    """Closes what this process has of the client's and the server's."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = list(range(3, 256))
    for number in found:
        if number > 2 and number not in kept:
            try:  # noqa: SIM105 - contextlib is an import more
                os.close(number)
            except OSError:
                pass


# --- the whole ------------------------------------------------------------------------------------


class _Proxy:
    """One server behind its proxy."""

    def __init__(self, argv: list[str], env: dict[str, str], place: _Place) -> None:
        self.argv, self.env, self.place = argv, env, place
        self.asked = ""
        self.recorder = 0  # its process, 0 once that has ended

    def run(self) -> int:
        """To the server's end, and that as its own."""
        place = self.place
        handed_down = _handed_down()
        voice = os.dup(2) if place.session is None else 2
        if not place.open():
            _say(f"nothing is recorded: {place.problem}")
        program = _which(self.argv[0], self.env.get("PATH", ""))
        signals = {getattr(signal, name) for name in FORWARDED}
        signals = {number for number in signals if signal.getsignal(number) is not signal.SIG_IGN}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*signals, signal.SIGCHLD})
        try:
            try:
                journal = _Journal("" if place.problem else place.folder)
            except OSError as error:
                place.problem = error.strerror or str(error)
                _say(f"nothing is recorded: {place.problem}")
                journal = _Journal("")
            self._recorder(journal)
            (stdin, to_server), (from_server, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        except OSError as error:  # no descriptor is left, or no process
            _say(f"nothing is recorded: {error.strerror}")
            return _become(program, self.argv, self.env, before)
        try:
            pid = os.posix_spawn(
                program,
                self.argv,
                self.env,
                file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate((stdin, stdout, stderr))],
                setpgroup=0,
                setsigmask=before,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            _say(f"{self.argv[0]}: {error.strerror}")
            journal.add(ENDED, b"{}")
            return 127 if isinstance(error, FileNotFoundError) else 126
        journal.add(BEGAN, _json({"pid": pid, "argv": self.argv, "cwd": os.getcwd(), "env": sorted(self.env)}))
        for end in (stdin, stdout, stderr, *handed_down):
            os.close(end)
        pumps = [
            _Pump(0, to_server, FROM_CLIENT, journal),
            _Pump(from_server, 1, FROM_SERVER, journal),
            _Pump(errors, 2, STDERR, journal),
        ]
        for pump in pumps:
            pump.start()
        code = self._wait(pid, {*signals, signal.SIGCHLD}, journal)
        asked = self.asked or ("stdin-close" if pumps[0].ended else "")
        self._drain(pumps[1:])
        journal.add(ENDED, _json({"code": code, "ended_by": asked}))
        if journal.problem and not place.problem:
            _say(f"the recording in {place.folder} broke off: {journal.problem}", voice)
        elif place.session is None and not place.problem:
            _say(f"recorded in {place.folder}", voice)
        if code < 0:
            _die_of(-code, before)
        return code

    def _recorder(self, journal: _Journal) -> None:
        """Starts the process that reads the journal, and ends the server if this one is killed.

        It is a copy of this one that keeps no end of any pipe of the client's or the server's, and has a session of its
        own: what ends this process does not end it.
        """
        ear, journal.bell = os.pipe()
        pid = os.fork()
        if pid:
            os.close(ear)
            os.set_blocking(journal.bell, False)
            self.recorder = pid
            return
        code = 1
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            _close_all_but(journal.file, ear)  # before anything that takes time: the client may wait for their end
            os.nice(RECORDER_NICE)
            from harness.engine.recording import record

            place = self.place
            code = record(journal.file, ear, journal.asleep, place.folder, place.name, place.server, place.session)
        finally:
            os._exit(code)

    def _wait(self, pid: int, signals: set[signal.Signals], journal: _Journal) -> int:
        """The server's exit code, negative for a signal; what signals come meanwhile are handed on to it."""
        while True:
            found = signal.sigwaitinfo(signals)
            if found.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                if self.recorder and os.waitpid(self.recorder, os.WNOHANG)[0]:
                    self.recorder = 0
                    journal.stop(RECORDER_GONE)
                continue
            if found.si_signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                self.asked = "term"
            try:  # noqa: SIM105 - contextlib is an import more
                # a terminal means the whole group; the server has one of its own, so that nothing reaches it twice
                (os.killpg if found.si_code == SI_KERNEL else os.kill)(pid, found.si_signo)
            except ProcessLookupError:
                pass
            if found.si_signo == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _drain(self, pumps: list[_Pump]) -> None:
        """The last words of a server that has ended; one that it left behind may hold its pipes open for ever."""
        for pump in pumps:
            while pump.is_alive() and not (pump.idle and time.monotonic() - pump.idle > HELD_S):
                pump.join(POLL_S)


def _json(value: object) -> bytes:
    import json

    return json.dumps(value).encode("utf-8", "surrogateescape")


def _which(program: str, path: str) -> str:
    """A program as its own environment's PATH finds it; itself where it is none there."""
    if os.sep in program:
        return program
    for folder in path.split(os.pathsep):
        found = os.path.join(folder or os.curdir, program)
        if os.access(found, os.X_OK) and not os.path.isdir(found):
            return found
    return program


def _become(program: str, argv: list[str], env: dict[str, str], mask: set[int | signal.Signals]) -> int:
    """Is the server, which nobody records then; comes back only where it cannot be started."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execve(program, argv, env)
    except OSError as error:
        _say(f"{argv[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _die_of(number: int, mask: set[int | signal.Signals]) -> NoReturn:
    """Ends this process by a signal, without a core of its own."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, {item for item in mask if item != number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
