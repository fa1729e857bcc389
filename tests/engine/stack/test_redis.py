"""The shipped Redis, in Docker in every version, and embedded."""

import re
import socket

import pytest

from harness.engine.docker import open_engine
from harness.model.plan import BackendSpec

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis(backends) -> BackendSpec:
    from harness.config.load import load_backend

    return load_backend(backends / "redis", base=backends.parent)


def talk(url, *lines):
    """What Redis answers to a login with the URL's password and some commands."""
    password, host, port = re.fullmatch(r"redis://:(\w{24})@(127\.0\.0\.1):(\d+)/0", url).groups()
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        sock.sendall("".join(f"{line}\r\n" for line in (f"AUTH {password}", *lines, "QUIT")).encode())
        with sock.makefile("rb") as answers:
            return answers.read().decode()


@pytest.mark.docker
@pytest.mark.parametrize(("version", "base"), [("8", "debian:trixie-slim"), ("7", "debian:bookworm-slim")])
async def test_redis_in_docker(bench, redis, version, base):
    if await open_engine().image_id(base) is None:
        pytest.skip(f"{base} is not here")
    async with bench.open(redis, version=version) as stack:
        answer = talk(stack.values["backend.redis.url"], "SET a 1", "GET a", "INFO server")
        assert answer.startswith("+OK\r\n+OK\r\n$1\r\n1\r\n")
        assert f"redis_version:{version}." in answer
        assert stack.values["backend.redis.password"] not in str((await stack.logs())["redis.redis"])
    assert bench.left() == []


@pytest.mark.network
async def test_redis_embedded(bench, redis):
    async with bench.open(redis, runtime="process") as stack:
        answer = talk(stack.values["backend.redis.url"], "SET a 1", "GET a", "INFO server")
        assert answer.startswith("+OK\r\n+OK\r\n$1\r\n1\r\n")
        assert f"redis_version:{stack.versions['redis@embedded']}" in answer
