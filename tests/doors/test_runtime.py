"""Docker, embedded, or whichever is there: `--runtime`, and what is said of it. DESIGN §6."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.load import load
from harness.integration import Options, catalogue, choose_runtimes, runtimes_of_evidence

ROOT = Path(__file__).parent.parent.parent
NO_ENGINE = "unix:///nonexistent/docker.sock"
# an echo service from the standard library: it answers what it is sent
SERVICE = (
    "import socketserver, sys\\n"
    "class H(socketserver.BaseRequestHandler):\\n"
    "    def handle(self): self.request.sendall(self.request.recv(99))\\n"
    "socketserver.TCPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
)
BACKEND = f"""\
schema = 1
name = "mirror"
[versions.1]
build_args = {{}}
[services.mirror]
dockerfile = "Dockerfile"
ports = {{ tcp = 7 }}
ready = {{ tcp = "tcp", send = "ping", expect = "ping" }}
[process]
command = ["python3", "-c", "{SERVICE}", "${{port.tcp}}"]
ready = {{ tcp = "tcp", send = "ping", expect = "ping" }}
[outputs]
url = "tcp://${{address.tcp}}"
"""


@pytest.fixture
def wrapped(good):
    """The good repository, as if its server wrapped a service."""
    toml = good.root / "harness.toml"
    text = toml.read_text(encoding="utf-8")
    toml.write_text(
        text.replace("[profiles.plain]", 'env = { SERVICE_URL = "${backend.b.url}" }\n[profiles.plain]', 1)
        + '[backends.b]\nuse = "mirror"\n',
        encoding="utf-8",
    )
    # no base image of that name can be had, so whoever needs the image fails
    return good.write(
        {"backends/mirror/backend.toml": BACKEND, "backends/mirror/Dockerfile": "FROM rollcall.invalid/none:0\n"}
    )


def test_without_an_engine_auto_is_embedded_and_the_first_line_says_why(wrapped):
    done = wrapped.run("integration", env={"DOCKER_HOST": NO_ENGINE})
    assert done.code == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert "embedded" in first
    assert "docker.sock" in first
    assert {run["backend"] for run in done.report["ran"]} == {"mirror@embedded"}


def test_docker_that_was_asked_for_and_is_not_there_is_exit_5_with_the_cause(wrapped):
    done = wrapped.run("integration", "--runtime", "docker", env={"DOCKER_HOST": NO_ENGINE})
    assert done.code == 5
    assert done.report["errors"][0]["kind"] == "stack"
    assert "docker.sock" in done.report["errors"][0]["message"]


def test_a_version_that_only_docker_has_asks_for_docker(wrapped):
    assert wrapped.run("integration", "--backend", "mirror@1", env={"DOCKER_HOST": NO_ENGINE}).code == 5


def test_a_remote_engine_is_refused(wrapped):
    done = wrapped.run("integration", "--runtime", "docker", env={"DOCKER_HOST": "tcp://192.0.2.1:2375"})
    assert done.code == 5
    assert "192.0.2.1" in done.stdout


@pytest.mark.docker
def test_images_that_cannot_be_had_make_auto_embedded(wrapped):
    done = wrapped.run("integration")
    assert done.code == 0, done.stdout + done.stderr
    assert "images cannot be had" in done.stdout.splitlines()[0]


@pytest.mark.docker
def test_images_that_cannot_be_had_are_an_error_where_docker_was_asked_for(wrapped):
    done = wrapped.run("integration", "--runtime", "docker")
    assert done.code == 5
    assert "rollcall.invalid/none:0" in done.stdout


def test_a_stack_that_fails_is_in_the_evidence_for_whoever_judges_elsewhere(wrapped):
    backend = wrapped.root / "backends/mirror/backend.toml"
    backend.write_text(backend.read_text().replace('"${port.tcp}"]', '"no number"]'))
    recorded = wrapped.run("run", "--runtime", "process")
    assert recorded.code == 5, recorded.stderr
    judged = wrapped.run("judge", "--runtime", "process")
    assert judged.code == 5
    assert judged.report["verdict"] == "error"


def test_one_repository_that_fails_hides_nothing_of_another(wrapped):
    """Everything at once: the exit code is the highest, the other is judged in full."""
    other = wrapped.root / "other"
    other.mkdir()
    (other / "harness.toml").write_text(
        'schema = 1\n[server]\nname = "broken"\nbuild = [["false"]]\ncommand = ["x"]\n[suites]\nfiles = ["s.toml"]\n'
    )
    (other / "s.toml").write_text('schema = 2\nid = "s"\n[[case]]\nid = "c"\n[[case.step]]\ncall = "t"\n')
    done = wrapped.run("integration", "--runtime", "process", "--project", "other", "--project", ".")
    assert done.code == 4
    (cell,) = done.report["coverage"]
    assert (cell["server"], cell["succeeded"], cell["judged"]) == ("good", 5, True)


def test_tests_for_docker_are_counted_where_they_did_not_run_and_fail_where_they_must(tmp_path):
    """`nox -s tests` on a machine without an engine, and in CI."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/doors/test_runtime.py"]
    command += ["-k", "images_that_cannot_be_had"]
    env = {**os.environ, "DOCKER_HOST": NO_ENGINE}
    env.pop("ROLLCALL_REQUIRE_DOCKER", None)
    without = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert "2 tests did not run for want of Docker" in without.stdout
    env["ROLLCALL_REQUIRE_DOCKER"] = "1"
    required = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert required.returncode == 1
    assert "2 failed" in required.stdout or "2 errors" in required.stdout


def test_an_era_that_a_server_does_not_speak_is_tried_once_and_not_with_every_backend(wrapped):
    """Ours: each backend would start the server once more to be told the same."""
    toml = wrapped.root / "harness.toml"
    text = toml.read_text(encoding="utf-8").replace('use = "mirror"', 'use = ["mirror", "glass"]')
    text = text.replace("servers/good.py", "servers/daemon_child.py").replace("[suites]", "[profiles.other]\n[suites]")
    toml.write_text(text, encoding="utf-8")
    one = 'schema = 2\nid = "one"\n[[case]]\nid = "echo"\n[[case.step]]\ncall = "echo"\narguments = { text = "a" }\n'
    for suite in (wrapped.root / "suites").iterdir():
        suite.unlink()
    backend = wrapped.root / "backends" / "mirror" / "backend.toml"
    wrapped.write(
        {
            "suites/one.toml": one,
            "backends/glass/backend.toml": backend.read_text().replace('"mirror"', '"glass"'),
            "backends/glass/Dockerfile": "FROM rollcall.invalid/none:0\n",
        }
    )
    done = wrapped.run("integration", "--runtime", "process")
    ran = {(run["backend"], run["era"], run["profile"]): run["outcome"] for run in done.report["ran"]}
    silent = [key for key in ran if ran[key] == "not-spoken"]
    assert {(backend, era) for backend, era, _ in silent} == {
        ("mirror@embedded", "modern"),
        ("glass@embedded", "modern"),
    }
    assert {key[0] for key in ran if ran[key] == "finished"} == {"mirror@embedded", "glass@embedded"}
    tried = list(wrapped.root.glob(".rollcall/evidence/*/*/modern/*/*/*.jsonl"))
    assert len(tried) == 1


def test_backends_that_have_only_the_embedded_form_get_it_though_there_is_docker(wrapped):
    """Also where nothing was recorded yet, as for a lost shard; a backend with images beside keeps the choice."""
    head, _, rest = BACKEND.partition("[versions.1]")
    only = f'{head}[process]\nports = ["tcp"]{rest.partition("[process]")[2]}'
    wrapped.write({"backends/mirror/backend.toml": only})
    options = Options(base=wrapped.root, projects=(Path(),))
    loaded = load([wrapped.root], base=wrapped.root, catalogue=catalogue())
    assert choose_runtimes(options, loaded) == ({"good": "process"}, ())
    assert runtimes_of_evidence(options, loaded) == {"good": "process"}
    assert runtimes_of_evidence(replace(options, runtime="docker"), loaded) == {"good": "docker"}
    wrapped.write({"backends/mirror/backend.toml": BACKEND})
    loaded = load([wrapped.root], base=wrapped.root, catalogue=catalogue())
    assert runtimes_of_evidence(options, loaded) == {"good": "docker"}


@pytest.mark.docker
def test_docker_where_there_is_only_the_embedded_form_is_an_error_with_its_remedy(wrapped):
    head, _, rest = BACKEND.partition("[versions.1]")
    only = f'{head}[process]\nports = ["tcp"]{rest.partition("[process]")[2]}'
    wrapped.write({"backends/mirror/backend.toml": only})
    done = wrapped.run("integration", "--runtime", "docker")
    assert done.code == 5
    assert "backend mirror has no form for Docker, only the embedded one" in done.stdout
    assert "use --runtime process for it" in done.stdout
