"""User code, as mypy sees it under --strict: a call gives what its user takes it for. It is checked, and never run."""

import re
from collections.abc import Mapping
from typing import Any, assert_type

from harness import testing, testing_async
from harness.testing import (
    Called,
    Ended,
    ExpectedError,
    NoAnswer,
    Notification,
    Prompt,
    Question,
    Result,
    Server,
    ServerDied,
    Stack,
    ToolCoverage,
    expect_every_tool_exercised,
    open_stack,
    start_server,
    tool_coverage,
)


def answer(question: Question) -> Mapping[str, Any] | None:
    """A function that answers."""
    return {"action": "decline"} if question.mode == "form" else None


def without_await() -> None:
    """The door without `await`."""
    with open_stack("redis@8", runtime="docker") as stack, start_server("server --flag", stack=stack) as server:
        assert_type(stack, Stack)
        assert_type(stack["redis.url"], str)
        assert_type(server, Server)
        result = server.call("echo", {"text": "x"}, timeout_s=1)
        assert_type(result, Result)
        assert_type(result.text, str)
        server.call("echo", expect_error=re.compile("x"))
        server.call("echo", expect_error="x")
        server.call("echo", expect_error=True)
        assert_type(server.raw("echo"), Mapping[str, Any])
        assert_type(server.confirmed("echo"), Result)
        assert_type(server.tools(), tuple[Mapping[str, Any], ...])
        assert_type(server.prompts, tuple[Prompt, ...])
        assert_type(server.called, tuple[Called, ...])
        assert_type(server.notifications, tuple[Notification, ...])
        assert_type(server.ended, Ended | None)
        assert_type(server.stderr(), str)
        assert_type(tool_coverage(server, exempt={"a": "for a reason"}), ToolCoverage)
        expect_every_tool_exercised(server, "evidence", exempt="exemptions.toml", level="answered")
    with start_server(
        ["server"],
        elicit="accept",
        answers=[{"action": "decline"}],
        roots=["file:///x"],
        sampling=[{"text": "x"}],
        log_level="info",
        era="modern",
    ):
        pass
    start_server(project=".", backend="redis@8", answers=answer).close()
    start_server().close()
    start_server("server --port ${port}", url="http://127.0.0.1:${port}/mcp").close()
    start_server("x", elicit="yes")  # type: ignore[arg-type]
    start_server("x", era="old")  # type: ignore[arg-type]


async def with_await() -> None:
    """The door with `await`."""
    server = await testing_async.start_server("server")
    assert_type(server, testing_async.Server)
    assert_type(await server.call("echo"), Result)
    await server.close()
    async with testing_async.open_stack("redis") as stack, testing_async.start_server("x", stack=stack) as other:
        assert_type(other, testing_async.Server)
        assert_type(await other.read_resource("x://"), Result)
        assert_type(await testing_async.tool_coverage(server, other), ToolCoverage)
        await testing_async.wait_for_tcp("127.0.0.1", 1, expect=b"x")


def errors(server: Server) -> int | None:
    """What is caught has what it says."""
    try:
        server.call("echo")
    except ServerDied as error:
        assert_type(error.orphans, tuple[str, ...])
        return error.exit_code
    except NoAnswer as error:
        assert_type(error.timeout_s, float)
    except ExpectedError as error:
        assertion: AssertionError = error
        raise assertion from None
    except testing.ToolError as error:
        assert_type(error.error_code, int | None)
    return None
