"""A bench on which stacks are stood up: specs in code, a scope, and a look at what is left in the engine."""

import http.server
import json
import os
import re
import socket
import socketserver
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from harness.engine.docker import open_engine
from harness.engine.mask import Masker
from harness.engine.scope import LABEL, open_scope
from harness.engine.stack import open_stack
from harness.errors import StackError
from harness.model.plan import BackendSpec, Place, ReadySpec, RoleChoice, ServiceSpec, VersionSpec

IMAGE = "debian:trixie-slim"
BACKENDS = Path(__file__).parents[3] / "backends"

# A web server in the Perl that every Debian image has: answers with method, path, headers and body as JSON.
ECHO = r"""
use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 80, Listen => 9, ReuseAddr => 1) or die $!;
print "listening\n";
while (my $c = $s->accept) {
  my $r = <$c> // next; my ($len, $auth) = (0, "");
  while (defined(my $h = <$c>)) { last if $h =~ /^\r?\n$/;
    $len = $1 if $h =~ /^content-length: *(\d+)/i; $auth = $1 if $h =~ /^authorization: *(\S.*?)\r?$/i; }
  my $b = ""; read $c, $b, $len if $len; my ($m, $p) = split " ", $r;
  my $code = $p =~ m{^/made} ? 201 : 200;
  print $c "HTTP/1.1 $code X\r\nConnection: close\r\n\r\n";
  print $c qq({"method":"$m","path":"$p","auth":"$auth","id":7,"deep":{"token":"tok-$$-abcdef","body":"$b"}});
  close $c;
}
"""


class Steps:
    """A listener that keeps what it is told."""

    def __init__(self):
        self.begun, self.ended, self.waits, self.notes = [], [], [], []

    def begin(self, subject, what):
        self.begun.append(what)

    def end(self, subject, what, *, ok, seconds, detail=""):
        self.ended.append((what, ok))

    def waiting(self, subject, what, detail):
        self.waits.append(detail)

    def note(self, subject, text):
        self.notes.append(text)


class Bench:
    def __init__(self, tmp_path, scope):
        self.tmp = tmp_path
        self.scope = scope
        self.state = tmp_path / "state"
        self.masker = Masker()
        self.steps = Steps()
        self.made_up = set()

    def backend(self, *services, name="thing", **more):
        if any(service.dockerfile for service in services):
            self.made_up.add(name)
        folder = self.tmp / f"backend-{name}"
        folder.mkdir(exist_ok=True)
        return BackendSpec(
            name=name,
            folder=more.pop("folder", folder),
            place=Place(file=f"backends/{name}/backend.toml"),
            versions=more.pop("versions", {"1": VersionSpec(name="1")}),
            services=services,
            **more,
        )

    def service(self, *command, name="main", **more):
        return ServiceSpec(name=name, image=more.pop("image", IMAGE), command=command or None, **more)

    def web(self, **more):
        """A service that answers over HTTP on port `http`."""
        ready = more.pop("ready", ReadySpec(http="http", path="/", body='"method":"GET"'))
        return self.service("perl", "-e", ECHO, ports={"http": 80}, ready=ready, **more)

    @asynccontextmanager
    async def open(self, *specs, runtime="docker", version=None, scope=None):
        version = version or ("1" if runtime == "docker" else "embedded")
        roles = [RoleChoice(role=spec.name, backend=spec.name, version=version) for spec in specs]
        async with open_stack(
            roles,
            {spec.name: spec for spec in specs},
            runtime=runtime,
            scope=scope or self.scope,
            masker=self.masker,
            progress=self.steps,
            subject="test",
            state=self.state,
        ) as stack:
            yield stack

    def left(self, scope=None):
        """What bears our labels in the engine."""
        things = open_engine().things_now(f"{LABEL}run={(scope or self.scope).run}")
        return [f"{thing.kind} {thing.name}" for thing in things]

    def forget_images(self):
        """Removes the images of the backends that were made up here."""
        if not self.made_up:
            return
        engine = open_engine()
        for name in self.made_up:
            filters = {"label": f"{LABEL}backend={name}"}
            for image in engine.call_now("list", lambda client, f=filters: client.images(filters=f)):
                with suppress(StackError):
                    engine.call_now("tidy", lambda client, one=image["Id"]: client.remove_image(one, force=True))

    def inspect(self, kind="container"):
        """The engine's own words about the containers of this bench."""
        engine = open_engine()
        things = engine.things_now(f"{LABEL}run={self.scope.run}")
        ids = [thing.id for thing in things if thing.kind == kind]
        return [engine.call_now("look", lambda client, one=one: client.inspect_container(one)) for one in ids]


@pytest.fixture
def bench(tmp_path):
    with open_scope() as scope:
        bench = Bench(tmp_path, scope)
        yield bench
    bench.forget_images()


@pytest.fixture
def backends():
    return BACKENDS


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Where packages of embedded backends are installed once for all tests, of every worker."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed-backends"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def redis_says():
    """`redis_says(url, *lines)`: what Redis answers to a login with the URL's password and some commands."""

    def talk(url, *lines):
        password, host, port = re.fullmatch(r"redis://:(\w{24})@(127\.0\.0\.1):(\d+)/0", url).groups()
        with socket.create_connection((host, int(port)), timeout=5) as sock:
            sock.sendall("".join(f"{line}\r\n" for line in (f"AUTH {password}", *lines, "QUIT")).encode())
            with sock.makefile("rb") as answers:
                return answers.read().decode()

    return talk


# --- things that answer on a Unix socket or on 127.0.0.1 ------------------------------------------


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def tcp_server():
    """`with tcp_server(talk) as port`: talk(socket) is called for each connection."""

    @contextmanager
    def make(talk):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                talk(self.request)

        with serving(_Tcp(("127.0.0.1", 0), Handler)) as server:
            yield server.server_address[1]

    return make


@pytest.fixture
def web_server():
    """`with web_server(answer) as port`: answer(method, path, headers, body) -> status, headers, body."""

    @contextmanager
    def make(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def __getattr__(self, name):
                if name.startswith("do_"):
                    return self._any
                raise AttributeError(name)

            def _any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, out = answer(self.command, self.path, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def log_message(self, *args):
                pass

        with serving(_Tcp(("127.0.0.1", 0), Handler)) as server:
            yield server.server_address[1]

    return make


@pytest.fixture
def fake_engine(tmp_path):
    """`with fake_engine(talk) as path`: something else than an engine at a Unix socket."""

    @contextmanager
    def make(talk):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                talk(self.request)

        path = str(tmp_path / "engine.sock")
        with serving(_Unix(path, Handler)):
            yield path

    return make


def http_json(data, status=200):
    body = json.dumps(data).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


@pytest.fixture
def json_answer():
    return http_json
