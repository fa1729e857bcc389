"""What crosses between the processes of one test session: a worker of pytest-xdist asks, the controller answers.

Stacks, builds and evidence belong to the controller alone, so that a worker which is killed takes nothing with it. A
question is one line of JSON on a Unix socket in a folder that only its owner may enter, and so is the answer.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.engine.scope import open_scope
from harness.errors import HarnessError, error_from_json, error_to_json
from harness.model.plan import RunKey

__all__ = ["Answerer", "Choice", "LinkLost", "ask", "choice_from_json", "choice_of", "choice_to_json"]

MAX_PATH_BYTES = 60  # of the folder for temporary ones: with what we add it must fit into the address of a socket
Answer = Callable[[str, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A planned run, as tests select it.

    Attributes:
        number: Its place in the plan.
        id: What tells it from the project's others, for the names of tests; "" where there is no other.
        chosen: Whether the selection of the command line leaves it.
        names: What a test may call its backends: the cell's label, each part of it, each backend's name.
        probed: Whether the server is only tried in this era: that it does not speak it is no error.
    """

    number: int
    id: str
    chosen: bool
    key: RunKey
    names: tuple[str, ...]
    probed: bool


def choice_of(key: RunKey, *, number: int = 0, id: str = "", chosen: bool = True, probed: bool = False) -> Choice:  # noqa: A002
    """The choice of a run; its names are read from the cell's label."""
    names = [key.backend]
    for part in key.backend.split("+"):
        label = part.rpartition("=")[2]
        names += [part, label, label.partition("@")[0]]
    return Choice(number=number, id=id, chosen=chosen, key=key, names=tuple(dict.fromkeys(names)), probed=probed)


def choice_to_json(choice: Choice) -> dict[str, Any]:
    """For another process."""
    return asdict(choice)


def choice_from_json(data: Mapping[str, Any]) -> Choice:
    """What `choice_to_json` made."""
    return Choice(**{**data, "key": RunKey(**data["key"]), "names": tuple(data["names"])})


class LinkLost(HarnessError):
    """The controller of the test session is gone, or cannot be reached; exit 2."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    answer: Answer


class _Question(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """One question and its answer."""
        with suppress(OSError, ValueError):  # whoever asked is gone
            asked = json.loads(self.rfile.readline())
            reply: dict[str, Any]
            try:
                reply = {"value": self.server.answer(asked["what"], asked["about"])}
            except Exception as error:
                reply = {"error": error_to_json(error)}
            self.wfile.write(json.dumps(reply).encode() + b"\n")


class Answerer:
    """Answers the workers' questions in threads of its own until it is closed.

    Args:
        answer: (what, about) -> a JSON value; an error of ours that it raises is raised where was asked.
    Attributes:
        address: For `ask`.
    """

    def __init__(self, answer: Answer) -> None:
        self._undo = ExitStack()
        short = len(os.fsencode(tempfile.gettempdir())) < MAX_PATH_BYTES
        scope = self._undo.enter_context(open_scope(None if short else Path("/tmp")))
        self.address = str(scope.tmp / "link")
        self._server = _Server(self.address, _Question)
        self._server.answer = answer
        self._thread = threading.Thread(target=self._server.serve_forever, name="rollcall-link", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more answers; closing twice is harmless."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._undo.close()


def ask(address: str, what: str, **about: Any) -> Any:
    """The controller's answer to one question; it may take as long as a build and a stack take, which are bounded.

    Raises:
        HarnessError: What the controller could not do.
        LinkLost: There is no controller any more.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(address)
            with link.makefile("rwb") as file:
                file.write(json.dumps({"what": what, "about": about}).encode() + b"\n")
                file.flush()
                line = file.readline()
        reply = json.loads(line)
    except (OSError, ValueError):
        raise LinkLost("the process that leads this test session does not answer") from None
    if "error" in reply:
        raise error_from_json(reply["error"])
    return reply["value"]
