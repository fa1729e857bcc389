"""The shipped Redis, in Docker in every version, and embedded."""

import pytest

from harness.engine.docker import open_engine
from harness.model.plan import BackendSpec

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis(backends) -> BackendSpec:
    from harness.config.load import load_backend

    return load_backend(backends / "redis", base=backends.parent)


@pytest.mark.docker
@pytest.mark.parametrize(("version", "base"), [("8", "debian:trixie-slim"), ("7", "debian:bookworm-slim")])
async def test_redis_in_docker(bench, redis, redis_says, version, base):
    if await open_engine().image_id(base) is None:
        pytest.skip(f"{base} is not here")
    async with bench.open(redis, version=version) as stack:
        answer = redis_says(stack.values["backend.redis.url"], "SET a 1", "GET a", "INFO server")
        assert answer.startswith("+OK\r\n+OK\r\n$1\r\n1\r\n")
        assert f"redis_version:{version}." in answer
        assert stack.values["backend.redis.password"] not in str((await stack.logs())["redis.redis"])
    assert bench.left() == []


@pytest.mark.network
async def test_redis_embedded(bench, redis, installed, redis_says):
    bench.state = installed
    async with bench.open(redis, runtime="process") as stack:
        answer = redis_says(stack.values["backend.redis.url"], "SET a 1", "GET a", "INFO server")
        assert answer.startswith("+OK\r\n+OK\r\n$1\r\n1\r\n")
        assert f"redis_version:{stack.versions['redis@embedded']}" in answer
