"""Servers of projects, of runs that stand around a test, and stacks. Ours."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from harness.engine.evidence import read_transcript
from harness.model.plan import ProfileSpec, RunKey
from harness.model.session import SESSION_VARIABLE, SessionSpec, session_to_json
from harness.model.transcript import Spawned
from harness.testing import ConfigError, StackError, open_stack, start_server

SERVERS = Path(__file__).parent.parent / "servers"
PROJECT = """\
schema = 1
[server]
name = "mine"
command = ["{python}", "{server}"]
env = {{ MODE = "project" }}
[profiles.plain]
[profiles.asking]
elicit = "accept"
"""


@pytest.fixture
def project(tmp_path):
    text = PROJECT.format(python=sys.executable, server=SERVERS / "good.py")
    (tmp_path / "harness.toml").write_text(text)
    return tmp_path


def test_a_project_is_started_as_its_file_says(project):
    with start_server(project=project) as server:
        assert server.name == "mine"
        assert server.era == "modern"
        assert server.call("ask", expect_error="cannot ask this client").is_error
        assert "MODE" in next(e for e in read_transcript(server.transcript).events if isinstance(e, Spawned)).env
    with start_server(project=project / "harness.toml", profile="asking", era="handshake") as server:
        assert server.call("ask").text.startswith("accept")


def test_a_project_that_cannot_be_started_so_is_told(project):
    with pytest.raises(ConfigError, match="asked"):
        start_server(project=project, profile="asked")
    with pytest.raises(ConfigError, match="project= says command"):
        start_server("x", project=project)
    with pytest.raises(ConfigError, match="nowhere: no such file"):
        start_server(project=project / "nowhere")


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A run that stands around the test."""
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    found = SessionSpec(
        run=RunKey(server="mine", backend="none", era="handshake", profile="plain"),
        project=str(tmp_path),
        plan="p",
        build="b",
        evidence=str(attempt),
        began=time.monotonic(),
        secrets=("a-secret-of-the-run",),
        command=(sys.executable, str(SERVERS / "good.py")),
        cwd=str(tmp_path),
        env={"PATH": os.environ["PATH"], "HOME": "/elsewhere", "TMPDIR": "/elsewhere", "API": "http://127.0.0.1:4711/"},
        values={"backend.api.url": "http://127.0.0.1:4711/"},
        allowed=("127.0.0.1:4711",),
        profiles={"plain": ProfileSpec(name="plain"), "asking": ProfileSpec(name="asking", elicit="decline")},
    )
    place = tmp_path / "session.json"
    place.write_text(session_to_json(found))
    monkeypatch.setenv(SESSION_VARIABLE, str(place))
    return found


def test_inside_of_a_run_its_server_is_started_and_recorded_in_its_evidence(session):
    with start_server() as server:
        assert server.era == "handshake"
        server.call("echo", {"text": "a-secret-of-the-run"})
    with start_server(profile="asking", era="modern") as asking:
        assert asking.call("ask").text.startswith("decline")
    with start_server(answers=lambda _: {"action": "cancel"}) as scripted:
        assert scripted.call("ask").text.startswith("cancel")
    files = sorted(Path(session.evidence).glob("outside-pytest-*.jsonl"))
    assert files == sorted([server.transcript, asking.transcript, scripted.transcript])
    assert "a-secret-of-the-run" not in server.transcript.read_text()
    times = [json.loads(line)["t"] for line in server.transcript.read_text().splitlines()]
    assert times == sorted(times)


def test_inside_of_a_run_more_variables_are_judged_like_the_others(session):
    with start_server(env={"OTHER": "${backend.api.url}x"}) as server:
        server.call("echo", {"text": "x"})
    with pytest.raises(ConfigError, match="OTHER_URL"):
        start_server(env={"OTHER_URL": "http://127.0.0.1:1/"})
    with pytest.raises(ConfigError, match=r"\$\{backend\.nothing\} has no value"):
        start_server(env={"OTHER": "${backend.nothing}"})
    with pytest.raises(ConfigError, match="which is none of harness"):
        start_server(profile="other")


def test_outside_of_a_run_a_server_needs_a_command(monkeypatch, tmp_path):
    monkeypatch.delenv(SESSION_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="no command, and no run stands around it"):
        start_server()
    monkeypatch.setenv(SESSION_VARIABLE, str(tmp_path / "gone.json"))
    with pytest.raises(ConfigError, match="names a session that cannot be read"):
        start_server()


def test_an_address_that_the_test_opened_has_to_be_named(command):
    url = {"API_URL": "http://127.0.0.1:4711/"}
    with pytest.raises(ConfigError, match="API_URL"):
        start_server(command("good"), env=url)
    with start_server(command("good"), env=url, allow=["127.0.0.1:4711"], era="handshake") as server:
        server.call("echo", {"text": "x"})
    with pytest.raises(ConfigError, match="no address of this machine"):
        start_server(command("good"), allow=["example.com:80"])


@pytest.mark.parametrize(
    ("names", "more", "why"),
    [
        ((), {}, "neither the name of a backend nor a project"),
        (("redsi",), {}, "there is no backend 'redsi'"),
        (("redis@99",), {}, "redis has no version '99'"),
        (("redis", "redis@7"), {"runtime": "docker"}, "one backend twice"),
        (("redis",), {"runtime": "podman"}, "runtime is 'podman'"),
    ],
)
def test_a_stack_that_cannot_be_meant_is_refused(names, more, why):
    with pytest.raises((ConfigError, StackError), match=why):
        open_stack(*names, **more)


@pytest.mark.docker
def test_a_stack_hands_out_what_a_server_may_be_pointed_at(command):
    with open_stack("redis") as stack:
        assert stack["redis.host"] == "127.0.0.1"
        assert (stack["redis.host"], int(stack["redis.port"])) in stack.addresses
        env = {"REDIS_URL": stack["redis.url"]}
        with pytest.raises(ConfigError, match="REDIS_URL"):
            start_server(command("good"), env=env)
        with start_server(command("good"), env=env, stack=stack, era="handshake") as server:
            server.call("echo", {"text": stack["redis.password"]})
            assert stack["redis.password"] not in server.transcript.read_text()
        with pytest.raises(KeyError, match="there are redis"):
            stack["redis.uri"]
        assert stack["redis.password"] not in str(stack.logs())
    stack.close()
