"""The engine: found or not, and what one request does when it is cut off."""

import time

import anyio
import pytest

from harness.engine.docker import (
    Engine,
    base_images,
    credential_trouble,
    image_fingerprint,
    open_engine,
    probe,
)
from harness.errors import StackError

VERSION = {"Version": "99.0", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}


@pytest.mark.docker
def test_the_engine_of_this_host_is_found(monkeypatch):
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    found = probe()
    assert found.available
    assert found.cause == ""
    assert found.endpoint.startswith("unix:///")
    assert found.server_version
    assert found.rootless in (True, False)


def test_no_engine_is_said_at_once(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    found = probe()
    assert not found.available
    assert found.cause == "no Docker engine: /nonexistent/docker.sock does not exist"
    assert found.endpoint == "unix:///nonexistent/docker.sock (from DOCKER_HOST)"


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:2375", "tcp://127.0.0.1:2375", "ssh://me@host", "nonsense"])
def test_a_remote_engine_is_refused(monkeypatch, url):
    monkeypatch.setenv("DOCKER_HOST", url)
    found = probe()
    assert not found.available
    assert url in found.cause
    assert "refused" in found.cause
    with pytest.raises(StackError, match="remote engine is refused"):
        open_engine()


def test_the_context_in_force_says_where_the_engine_is(monkeypatch, tmp_path, fake_engine, json_answer):
    import hashlib
    import json

    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    assert "context 'mine'" in probe().cause
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    with fake_engine(lambda sock: (sock.recv(999), sock.sendall(json_answer(VERSION)))) as path:
        meta.write_text(json.dumps({"Endpoints": {"docker": {"Host": f"unix://{path}"}}}))
        found = probe()
    assert found.available
    assert found.endpoint == f"unix://{path} (context 'mine' from {tmp_path}/config.json)"


@pytest.mark.parametrize(
    ("oldest", "newest", "hint"), [("1.90", "1.99", "upgrade mcp-rollcall"), ("1.12", "1.30", "upgrade the engine")]
)
def test_apis_that_do_not_meet_are_told_with_both_ranges(monkeypatch, fake_engine, json_answer, oldest, newest, hint):
    answer = json_answer({"Version": "99.0", "ApiVersion": newest, "MinAPIVersion": oldest})
    with fake_engine(lambda sock: (sock.recv(999), sock.sendall(answer))) as path:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        found = probe()
    assert found.cause == f"Docker engine 99.0 speaks API {oldest} to {newest}, we speak 1.40 to 1.51"
    assert found.hint == hint
    assert found.server_version == "99.0"


def test_a_newer_engine_is_asked_in_the_newest_api_that_we_know(monkeypatch, fake_engine, json_answer):
    answer = json_answer({"Version": "99.0", "ApiVersion": "1.99", "MinAPIVersion": "1.44"})
    with fake_engine(lambda sock: (sock.recv(999), sock.sendall(answer))) as path:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        assert probe().api == "1.51"


@pytest.mark.parametrize("noise", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n[]"])
def test_what_is_no_engine_is_no_engine(monkeypatch, fake_engine, noise):
    with fake_engine(lambda sock: (sock.recv(999), sock.sendall(noise))) as path:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        found = probe()
    assert not found.available
    assert path in found.cause


def test_a_frozen_engine_is_given_up(monkeypatch, fake_engine):
    with fake_engine(lambda sock: time.sleep(4)) as path:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        assert "did not answer within 2 s" in probe().cause
        with pytest.raises(StackError, match="gave no answer for 1 s when asked to nod"):
            Engine(path, "1.41").call_now("nod", lambda client: client.ping(), timeout_s=1)


@pytest.mark.anyio
async def test_an_engine_that_goes_away_is_an_error(fake_engine):
    with fake_engine(lambda sock: sock.close()) as path:
        with anyio.fail_after(5), pytest.raises(StackError, match="went away when asked to nod"):
            await Engine(path, "1.41").call("nod", lambda client: client.ping())


@pytest.mark.docker
@pytest.mark.anyio
async def test_a_cancelled_build_ends_at_once_and_leaves_no_container(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:trixie-slim\nRUN echo started-$((1+1)) && sleep 987\n")
    engine = open_engine()
    seen = anyio.Event()

    async def build():
        from anyio.from_thread import run_sync

        def note(line):
            if line == "started-2":
                run_sync(seen.set)

        await engine.build(tmp_path, "Dockerfile", tag="mcp-rollcall/never:1", args={}, labels={}, seen=note)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(build)
            await seen.wait()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(10):
        while await engine.call(
            "list", lambda client: [c for c in client.containers(all=True) if "987" in c["Command"]]
        ):
            await anyio.sleep(0.1)
    assert await engine.image_id("mcp-rollcall/never:1") is None


@pytest.mark.docker
@pytest.mark.anyio
async def test_a_build_that_fails_names_the_step_and_shows_its_output(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian:trixie-slim\nRUN echo one\nRUN echo so it goes && exit 3\n")
    with pytest.raises(StackError) as caught:
        await open_engine().build(tmp_path, "Dockerfile", tag="mcp-rollcall/never:1", args={}, labels={})
    assert "at 'Step 3/3 : RUN echo so it goes && exit 3'" in caught.value.message
    assert "returned a non-zero code: 3" in caught.value.message
    assert "so it goes" in caught.value.log.splitlines()


@pytest.mark.docker
@pytest.mark.anyio
async def test_a_dockerfile_that_cannot_be_parsed_is_a_build_error(tmp_path):
    (tmp_path / "Dockerfile").write_text("FRUM x\n")
    with pytest.raises(StackError, match=r"could not be built: .*FRUM"):
        await open_engine().build(tmp_path, "Dockerfile", tag="mcp-rollcall/never:1", args={}, labels={})


def test_base_images_are_read_with_their_arguments():
    text = """
ARG SUITE=trixie
ARG "IGNORED"
ARG IMAGE=debian:${SUITE}
FROM debian:${SUITE}-slim AS build
FROM --platform=linux/amd64 alpine:$SUITE
ARG SUITE=other
FROM build
FROM scratch
from debian:${MISSING:-sid}-slim as Last
FROM LAST
FROM \\
  redis:7
"""
    assert base_images(text, {}) == ("debian:trixie-slim", "alpine:trixie", "debian:sid-slim", "redis:7")
    assert base_images(text, {"SUITE": "bookworm"})[0] == "debian:bookworm-slim"


def test_an_images_fingerprint_is_of_what_goes_into_it(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    (tmp_path / "start.sh").write_text("true\n")

    def mark(args=None, bases=("sha256:1",)):
        return image_fingerprint(tmp_path, "Dockerfile", args or {}, bases)

    first = mark()
    assert first == mark()
    assert len(first) == 12
    (tmp_path / "backend.toml").write_text("name = 'x'\n")
    assert mark() == first
    others = {mark(args={"A": "1"}), mark(bases=("sha256:2",))}
    (tmp_path / "start.sh").chmod(0o755)
    others.add(mark())
    (tmp_path / "start.sh").write_text("false\n")
    others.add(mark())
    assert first not in others
    assert len(others) == 4
    (tmp_path / ".dockerignore").write_text("# mine\n*.log\n")
    ignoring = mark()
    (tmp_path / "x.log").write_text("")
    assert mark() == ignoring


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ('{"auths": {}}', None),
        ('{"credsStore": "nowhere"}', "docker-credential-nowhere, which is not installed"),
        ('{"credHelpers": {"example.org": "nowhere"}}', "docker-credential-nowhere, which is not installed"),
        ("{not json", "cannot be read"),
        ("[]", "holds no JSON object"),
    ],
)
def test_trouble_with_credentials_is_seen_before_it_hurts(monkeypatch, tmp_path, text, trouble):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert credential_trouble() is None
    (tmp_path / "config.json").write_text(text)
    found = credential_trouble()
    assert found is None if trouble is None else trouble in (found or "") and str(tmp_path) in (found or "")


@pytest.mark.docker
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("program", "said"), [(None, "is not installed"), ("#!/bin/sh\necho no keys; exit 1\n", "failed with exit code 1")]
)
async def test_a_pull_with_a_broken_helper_says_what_to_do(monkeypatch, tmp_path, program, said):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"credsStore": "broken"}')
    if program is not None:
        (tmp_path / "docker-credential-broken").write_text(program)
        (tmp_path / "docker-credential-broken").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(StackError) as caught:
        await open_engine().pull("example.invalid/thing:1")
    assert said in caught.value.message
    assert f"{tmp_path}/config.json" in caught.value.message
    assert "docker-credential-broken" in caught.value.message
    assert "install docker-credential-broken, or remove it" in caught.value.hint


@pytest.mark.docker
@pytest.mark.anyio
async def test_an_image_that_cannot_be_pulled_is_named():
    with anyio.fail_after(60), pytest.raises(StackError, match=r"example\.invalid/thing:1 is not here and cannot"):
        await open_engine().pull("example.invalid/thing:1")
