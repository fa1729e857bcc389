"""`backends list`, `show` and `try`, as processes: what is printed where, the exit codes, and that nothing is left."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import jsonschema
import pytest

from harness.engine.docker import open_engine
from harness.engine.scope import LABEL
from harness.report.backend_list import published_schema

WAIT_S = 60
SHIPPED = {path.parent.name for path in (Path(__file__).parents[2] / "backends").glob("*/backend.toml")}

# Answers on the port that it is given, in the Python that runs us; `${secret.token}` is one of its outputs.
OWN = """\
schema = 1
name = "own"
summary = "A service of this repository"
[secrets]
token = 24
[process]
command = [
  "python3", "-c",
  "import http.server as h, sys; h.test(h.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind='127.0.0.1')",
  "${port.http}",
]
ports = ["http"]
ready = { http = "http" }
version = { command = ["python3", "--version"], matches = "Python ([0-9.]+)" }
[outputs]
url   = "http://${address.http}/"
login = "http://me:${secret.token}@${address.http}/"
token = { value = "${secret.token}", secret = true }
"""
NEVER = OWN.replace('name = "own"', 'name = "never"').replace("h.test(", "__import__('time').sleep(600); dict(")
DIES = OWN.replace('name = "own"', 'name = "dies"').replace("h.test(", "print('no space'); sys.exit(3); dict(")
BOTH = """\
schema = 1
name = "both"
[versions.1]
[services.web]
image = "debian:trixie-slim"
command = ["sh", "-c", "while :; do sleep 1; done"]
ready = { exec = ["true"] }
[outputs]
word = "${service.web}"
"""
BUILT = """\
schema = 1
name = "built"
[versions.1]
[services.web]
dockerfile = "Dockerfile"
ready = { exec = ["true"] }
"""


@pytest.fixture
def own(project):
    return project.write({"backends/own/backend.toml": OWN, "backends/never/backend.toml": NEVER})


def test_the_list_has_the_shipped_ones_and_those_beside_the_project(own):
    done = own.run("backends", "list")
    assert done.code == 0, done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines()[1:] if line[:1].strip() and not line.startswith("*")}
    assert names == SHIPPED | {"own", "never"}
    row = next(line for line in done.stdout.splitlines() if line.startswith("own "))
    assert row.split() == ["own", "-", "embedded", "project", "url,", "login,", "token", "(secret)"]
    assert "    A service of this repository" in done.stdout
    assert re.search(r"^redis +8\*, 7 +Docker, embedded +shipped ", done.stdout, re.MULTILINE)


def test_backends_alone_is_the_list_and_a_project_can_be_named(own, tmp_path_factory):
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    assert own.run("backends").stdout == own.run("backends", "list").stdout
    done = own.run("backends", "list", "--project", str(own.root), cwd=elsewhere)
    assert "\nown " in done.stdout
    assert "\nown " not in own.run("backends", cwd=elsewhere).stdout


def test_the_json_of_list_and_show_is_as_published(own):
    listed = json.loads(own.run("backends", "list", "--format", "json").stdout)
    shown = json.loads(own.run("backends", "show", "own", "--format", "json").stdout)
    for document in (listed, shown):
        jsonschema.validate(document, published_schema("backends"))
    (one,) = shown["backends"]
    assert one in listed["backends"]
    resets = {item["name"]: item["reset"] for item in listed["backends"]}
    assert (resets["own"], resets["redis"], resets["postgres"]) == ([], ["docker", "embedded"], ["docker"])
    assert (one["shipped"], one["forms"], one["default"], one["file"]) == (
        False,
        ["embedded"],
        None,
        "backends/own/backend.toml",
    )
    assert {item["name"]: item["secret"] for item in one["outputs"]} == {"url": False, "login": False, "token": True}


def test_a_backend_of_the_project_goes_before_the_shipped_one_of_its_name(project):
    project.write({"backends/redis/backend.toml": OWN.replace('name = "own"', 'name = "redis"')})
    (one,) = json.loads(project.run("backends", "show", "redis", "--format", "json").stdout)["backends"]
    assert (one["shipped"], one["summary"]) == (False, "A service of this repository")


def test_show_has_everything_of_a_backend(project):
    done = project.run("backends", "show", "xandikos")
    assert done.code == 0, done.stderr
    for words in (
        "version   0.4 (default): SUITE=trixie",
        "secret    password: 24 random characters",
        "service proxy",
        "built     from Dockerfile.proxy",
        "needs     xandikos",
        "port      http: 8080 inside",
        "embedded, without Docker",
        "MKCALENDAR http://${address.http}/app/calendars/work/",
        "password      ${secret.password}  (secret)",
    ):
        assert words in done.stdout
    assert "reset" not in done.stdout
    redis = project.run("backends", "show", "redis").stdout
    assert "docker    a step, proved by a check" in redis
    assert "embedded  a step, proved by a check" in redis


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "redi"], "there is no backend 'redi'\n  hint: did you mean 'redis'?"),
        (["show", "../redis"], "there is no backend '../redis'"),
        (["try", "redis@9"], "redis has no version '9'\n  hint: known: 7, 8, embedded"),
        (["try", "own@1"], "own has no version '1'\n  hint: known: embedded"),
        (["try", "own", "--runtime", "docker"], "own has no form in Docker"),
        (["try", "redis@8", "--runtime", "process"], "redis@8 runs in Docker only"),
        (["try", "redis@embedded", "--runtime", "docker"], "redis@embedded does not run in Docker"),
        (["try", "prometheus", "--runtime", "process"], "prometheus has no embedded form"),
        (["tri", "redis"], "there is no command 'backends tri'"),
        (["show"], "the following arguments are required: NAME"),
    ],
)
def test_what_there_is_not_is_said_with_exit_2(own, words, said):
    done = own.run("backends", *words)
    assert done.code == 2
    assert done.stdout == ""
    assert said in done.stderr


def test_a_broken_backend_is_told_with_its_place(own):
    own.write({"backends/broken/backend.toml": 'schema = 1\nname = "broken"\nservice = 1\n'})
    for words in (["list"], ["show", "broken"], ["try", "broken"]):
        done = own.run("backends", *words)
        assert done.code == 2
        assert "backends/broken/backend.toml:3 service: unknown key" in done.stderr
    assert own.run("backends", "show", "own").code == 0


def test_try_prints_the_outputs_on_stdout_and_the_rest_on_stderr(own):
    done = own.run("backends", "try", "own")
    assert done.code == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"own@embedded stands as a process, which says it is 3\.[0-9.]+", head)
    assert re.fullmatch(r"  url    http://127\.0\.0\.1:\d+/", lines[0])
    assert re.fullmatch(r"  login  http://me:\*{24}@127\.0\.0\.1:\d+/", lines[1])
    assert lines[2:] == ["  token  ****  (secret)", "  --show-secrets shows the secret ones"]
    assert re.search(r"own@embedded: ready after \d+\.\d s", done.stderr)
    assert left_of(own.root) == []


def test_secrets_are_shown_where_that_is_asked_for(own):
    done = own.run("backends", "try", "own", "--show-secrets", "--format", "json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, published_schema("backend-try"))
    token = document["outputs"]["token"]
    assert token["secret"]
    assert re.fullmatch(r"[A-Za-z0-9]{24}", token["value"])
    assert token["value"] in document["outputs"]["login"]["value"]
    assert (document["backend"], document["version"], document["runtime"]) == ("own", "embedded", "process")
    assert document["ready_s"] > 0
    masked = json.loads(own.run("backends", "try", "own", "--format", "json").stdout)
    jsonschema.validate(masked, published_schema("backend-try"))
    assert masked["outputs"]["token"] == {"value": None, "secret": True}


def test_a_backend_that_does_not_stand_is_exit_5_with_its_log(own):
    own.write({"backends/dies/backend.toml": DIES})
    done = own.run("backends", "try", "dies")
    assert (done.code, done.stdout) == (5, "")
    assert "  | no space" in done.stderr


def left_of(root: Path) -> list[str]:
    """Command lines of processes that have a folder of a harness in `root` in their environment."""
    mark = f"{root}/tmp/rollcall-".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return found


class Trying:
    """A `backends try` that runs."""

    def __init__(self, project, *words):
        self.project = project
        (project.root / "tmp").mkdir(exist_ok=True)
        self.err = project.root / "stderr"
        self.out = project.root / "stdout"
        with self.err.open("wb") as err, self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "harness", "backends", "try", *words],
                cwd=project.root,
                env=project.environment(TMPDIR=str(project.root / "tmp")),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait_for(self, reached):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if reached(self):
                return
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.05)
        raise AssertionError(self.err.read_text())

    def end(self, number):
        os.killpg(self.process.pid, number)
        return self.process.wait(timeout=WAIT_S)


@pytest.fixture
def trying():
    started = []

    def start(project, *words):
        started.append(Trying(project, *words))
        return started[-1]

    yield start
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
            item.process.wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 130)], ids=["ctrl-c", "sigterm"])
def test_hold_keeps_it_until_a_signal(own, trying, number, code):
    run = trying(own, "own", "--hold")
    run.wait_for(lambda run: "it is held; Ctrl-C takes it down" in run.err.read_text())
    assert "own@embedded stands" in run.out.read_text()
    assert left_of(own.root)
    assert run.end(number) == code
    assert left_of(own.root) == []
    assert list((own.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_while_it_gets_ready_is_exit_130_and_leaves_nothing(own, trying, number):
    run = trying(own, "never")
    run.wait_for(lambda run: left_of(own.root))
    assert run.end(number) == 130
    assert run.out.read_text() == ""
    assert left_of(own.root) == []
    assert list((own.root / "tmp").iterdir()) == []


@pytest.mark.docker
def test_in_docker_it_stands_and_is_gone(project):
    project.write({"backends/both/backend.toml": BOTH})
    done = project.run("backends", "try", "both")
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines() == ["both@1 stands in Docker", "  word  web"]


@pytest.mark.docker
@pytest.mark.parametrize("stage", ["build", "ready", "hold"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_in_docker_leaves_nothing_at_any_stage(project, trying, stage, number):
    mark = f"m{os.getpid()}{stage}"
    project.write(
        {
            "backends/both/backend.toml": BOTH.replace('"true"', '"false"' if stage == "ready" else '"true"'),
            "backends/built/backend.toml": BUILT,
            "backends/built/Dockerfile": f"FROM debian:trixie-slim\nRUN echo {mark}; sleep 600\n",
        }
    )
    run = trying(project, "built" if stage == "build" else "both", *(["--hold"] if stage == "hold" else []))
    reached = {
        "build": lambda run: running(mark),
        "ready": lambda run: own_things(run),
        "hold": lambda run: "it is held" in run.err.read_text(),
    }[stage]
    run.wait_for(reached)
    pid = run.process.pid
    assert run.end(number) == (0 if (stage, number) == ("hold", signal.SIGINT) else 130), run.err.read_text()
    assert not things_of(pid)
    assert list((project.root / "tmp").iterdir()) == []
    if stage == "build":
        end = time.monotonic() + WAIT_S
        while running(mark) and time.monotonic() < end:  # the engine ends the build's container itself
            time.sleep(0.1)
        assert not running(mark)


def things_of(pid):
    return open_engine().things_now(f"{LABEL}pid={pid}")


def own_things(run):
    return any(thing.kind == "container" for thing in things_of(run.process.pid))


def running(words):
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return any(words in line for line in done.stdout.splitlines())


# Two services that stay and one that runs once: it reads a fixture and asks the first; the second starts after it.
WHOLE = """\
schema = 1
name = "whole"
[versions.1]
[secrets]
password = 24

[services.store]
image = "debian:trixie-slim"
command = ["perl", "/srv/echo.pl"]
mounts = { "/srv/echo.pl" = "echo.pl" }
ports = { http = 80 }
ready = { http = "http", path = "/", body = "echo" }

[services.load]
image = "debian:trixie-slim"
command = ["sh", "-c", 'test "$(cat /fixtures/one/rows)" = rows && perl /srv/ask.pl ${service.store}']
mounts = { "/fixtures" = "fixtures", "/srv/ask.pl" = "ask.pl" }
needs = ["store"]
init = true

[services.front]
image = "debian:trixie-slim"
command = ["sleep", "600"]
needs = ["load"]
mounts = { "/fixtures" = "fixtures" }
ready = { exec = ["sh", "-c", "cat /fixtures/one/rows && ! touch /fixtures/x 2>/dev/null"] }

[[provision]]
script = "user.sh"
service = "front"
env = { PASSWORD = "${secret.password}", VERSION = "${version}" }
capture = { user = "/user", token = "/token" }

[[provision]]
exec = ["sh", "-c", "echo 'hello ${provisioned.user}'"]
service = "store"
capture = { greeting = "" }

[outputs]
greeting = "${provisioned.greeting}"
token = { value = "${provisioned.token}", secret = true }
"""
ECHO = """\
use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 80, Listen => 9, ReuseAddr => 1) or die $!;
while (my $c = $s->accept) {
  while (defined(my $h = <$c>)) { last if $h =~ /^\\r?\\n$/ }
  print $c "HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\necho"; close $c;
}
"""
ASK = """\
use IO::Socket::INET;
my $s = IO::Socket::INET->new("$ARGV[0]:80") or die "the store is not there: $!"; print $s "GET / X\\n\\n"; print <$s>;
"""
USER = """\
#!/bin/sh
printf '{"user": "anna of %s", "token": "t-%s"}' "$VERSION" "$PASSWORD"
"""


@pytest.mark.docker
def test_needs_init_mounts_and_scripts_of_a_file_in_docker(project):
    files = {"backend.toml": WHOLE, "echo.pl": ECHO, "ask.pl": ASK, "user.sh": USER, "fixtures/one/rows": "rows\n"}
    project.write({f"backends/whole/{name}": text for name, text in files.items()})
    done = project.run("backends", "try", "whole", "--show-secrets", "--format", "json")
    assert done.code == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert outputs["greeting"]["value"] == "hello anna of 1"
    assert re.fullmatch(r"t-[A-Za-z0-9]{24}", outputs["token"]["value"])
    (shown,) = json.loads(project.run("backends", "show", "whole", "--format", "json").stdout)["backends"]
    assert [(service["name"], service["needs"], service["init"]) for service in shown["services"]] == [
        ("store", [], False),
        ("load", ["store"], True),
        ("front", ["load"], False),
    ]
    assert shown["provision"][0] == {"step": "script user.sh in front", "gives": ["user", "token"]}


@pytest.mark.docker
def test_an_init_service_that_fails_is_exit_5_with_what_it_printed(project):
    files = {
        "backend.toml": WHOLE,
        "echo.pl": ECHO,
        "ask.pl": "die 'no rows'",
        "user.sh": USER,
        "fixtures/one/rows": "rows",
    }
    project.write({f"backends/whole/{name}": text for name, text in files.items()})
    done = project.run("backends", "try", "whole")
    assert (done.code, done.stdout) == (5, "")
    assert "service 'load' (a one-shot service) failed" in done.stderr
    assert "  | no rows" in done.stderr


SHOP = Path(__file__).parent / "shop"


@pytest.fixture
def shop(project, version):
    """The backend beside a project; the image that is built for it is removed at the end."""
    shutil.copytree(SHOP, project.root / "backends" / "shop")
    yield project
    engine = open_engine()
    tags = {"reference": f"mcp-rollcall/shop-web:{version}-*"}
    for image in engine.call_now("list", lambda client: client.images(filters=tags)):
        engine.call_now("tidy", lambda client, one=image["Id"]: client.remove_image(one, force=True))


@pytest.mark.docker
@pytest.mark.parametrize("version", ["trixie", "bookworm"])
def test_a_compose_file_stands_under_the_laws_of_every_backend(shop, trying, version):
    """Two services and one that runs once; a health check that needs a shared volume; its published ports are not."""
    run = trying(shop, f"shop@{version}", "--hold", "--format", "json")
    run.wait_for(lambda run: "it is held" in run.err.read_text())
    stood = json.loads(run.out.read_text())
    with urllib.request.urlopen(stood["outputs"]["url"]["value"], timeout=10) as answer:
        assert answer.read() == b"rows\n"
    engine, label = open_engine(), f"{LABEL}pid={run.process.pid}"
    things = engine.things_now(label)
    assert sorted(thing.kind for thing in things) == ["container"] * 3 + ["network", "volume"]
    seen = {}
    for thing in things:
        if thing.kind == "container":
            found = engine.call_now("look", lambda client, one=thing.id: client.inspect_container(one))
            seen[found["Config"]["Labels"][f"{LABEL}service"]] = found
    (network,) = {name for found in seen.values() for name in found["NetworkSettings"]["Networks"]}
    assert network == next(thing.name for thing in things if thing.kind == "network")
    bindings = {name: found["HostConfig"]["PortBindings"] or {} for name, found in seen.items()}
    assert {name for name, ports in bindings.items() if ports} == {"web"}
    assert [item["HostIp"] for item in bindings["web"]["8080/tcp"]] == ["127.0.0.1"]
    assert stood["addresses"] == [stood["outputs"]["url"]["value"].removeprefix("http://").rstrip("/")]
    mounts = {item["Destination"]: (item["Type"], item["RW"]) for item in seen["db"]["Mounts"]}
    assert mounts == {"/srv/line.pl": ("bind", False), "/var/lib/db": ("volume", True)}
    assert seen["web"]["HostConfig"]["Tmpfs"] == {"/run/web": "size=1m"}
    assert seen["db"]["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert seen["db"]["Config"]["Healthcheck"]["Test"] == ["NONE"]
    assert seen["db"]["Config"]["Image"] == f"debian:{version}-slim"
    assert seen["migrate"]["State"]["ExitCode"] == 0
    assert seen["db"]["State"]["StartedAt"] < seen["web"]["State"]["StartedAt"]
    assert run.end(signal.SIGINT) == 0
    assert not engine.things_now(label)


@pytest.mark.docker
def test_the_callers_environment_reaches_no_compose_file(project):
    shutil.copytree(SHOP, project.root / "backends" / "shop")
    file = project.root / "backends" / "shop" / "compose.yaml"
    file.write_text(file.read_text().replace("${DB_PASSWORD:?the password}", "${FROM_OUTSIDE}"))
    done = project.run("backends", "try", "shop", env={"FROM_OUTSIDE": "canary", "SUITE": "sid"})
    assert (done.code, done.stdout) == (2, "")
    assert (
        "backends/shop/compose.yaml:12 [services.db.environment] DB_PASSWORD: the variable FROM_OUTSIDE has no"
        in done.stderr
    )
