"""Messages between the server and somebody else: what a suite cannot say, because it takes a client of its own."""

import socket
import time
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.mcp(profiles="plain")
WAIT_S = 30


@contextmanager
def redis_client(stack):
    """A connection to the Redis of this run, beside the server's."""
    address = (stack["redis.host"], int(stack["redis.port"]))
    with socket.create_connection(address, timeout=WAIT_S) as connection, connection.makefile("rwb", 0) as stream:

        def say(*words):
            parts = [f"*{len(words)}", *(part for word in words for part in (f"${len(word)}", word))]
            stream.write("\r\n".join([*parts, ""]).encode())

        def hear():
            line = stream.readline().decode().rstrip("\r\n")
            if line[0] == "*":
                return [hear() for _ in range(int(line[1:]))]
            return stream.readline().decode().rstrip("\r\n") if line[0] == "$" else line[1:]

        say("AUTH", stack["redis.password"])
        assert hear() == "OK"
        yield say, hear


def test_what_the_server_publishes_reaches_another_client(mcp_harness, mcp_stack):
    with redis_client(mcp_stack) as (say, hear):
        say("SUBSCRIBE", "code:news")
        assert hear() == ["subscribe", "code:news", "1"]
        mcp_harness.call("publish", {"channel": "code:news", "message": "one"})
        assert hear() == ["message", "code:news", "one"]


def test_a_pattern_hears_what_another_client_publishes(mcp_harness, mcp_stack):
    subscribed = mcp_harness.call("psubscribe", {"pattern": "code:sport.*"}).structured["result"]
    assert (subscribed["mode"], subscribed["targets"]) == ("pattern", ["code:sport.*"])
    wanted = {"subscription_id": subscribed["subscription_id"]}
    with redis_client(mcp_stack) as (say, hear):
        until = time.monotonic() + WAIT_S
        listeners = "0"
        while listeners == "0":  # Redis has not heard of the subscription yet
            assert time.monotonic() < until
            say("PUBLISH", "code:weather", "rain")
            assert hear() == "0"
            say("PUBLISH", "code:sport.chess", "mate")
            listeners = hear()
    found = []
    while not found:  # the first read after subscribing always comes back empty
        assert time.monotonic() < until
        found = mcp_harness.call("read_messages", {**wanted, "timeout_ms": 200, "max_messages": 1}).structured[
            "result"
        ]["messages"]
    assert [(message["channel"], message["data"]) for message in found] == [("code:sport.chess", "mate")]
    mcp_harness.call("unsubscribe", wanted)
