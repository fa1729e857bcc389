"""The Python clients that are compared: `python -m bench.clients NAME -- SERVER…`.

Each starts its server, opens a session, says `{"ready": true}`, and then does what a line of its stdin says:
`{"tool": …, "arguments": {…}, "calls": 1000, "at_once": 32}` -> `{"seconds": …, "cpu": …}`.
With `--once` it makes one call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

Call = Callable[[str, Mapping[str, Any]], Awaitable[object]]

TIMEOUT_S = 300.0
SECRET = "correct-horse-battery-staple"  # runs with backends have one at least, and masking it is a part of the cost


@asynccontextmanager
async def wire(argv: list[str]) -> AsyncIterator[Call]:
    """Ours: `WireSession`, with all that a run records."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with wire_in(Path(folder), argv) as call:
            yield call


@asynccontextmanager
async def wire_in(folder: Path, argv: list[str]) -> AsyncIterator[Call]:
    """The same, recorded in a folder of the caller's."""
    from harness.engine.mask import Masker
    from harness.engine.record import Recorder
    from harness.engine.stdio import open_stdio
    from harness.engine.wire import WireSession
    from harness.model.transcript import StepRef

    recorder = Recorder(
        folder / "server-1.jsonl", bodies=folder / "bodies", masker=Masker([SECRET]), began=time.monotonic()
    )
    stdio = await open_stdio(argv, cwd=folder, env=dict(os.environ), marker=f"{folder}/", recorder=recorder)
    step = StepRef(suite="bench", case="calls", phase="step", index=0)
    try:
        session = WireSession(stdio, era="handshake")
        await session.open(timeout_s=TIMEOUT_S)
        await session.list_all("tools/list", "tools", timeout_s=TIMEOUT_S)

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            deadline = time.monotonic() + TIMEOUT_S
            return (await session.perform("call", tool, arguments, deadline=deadline, step=step)).message["result"]

        yield call
    finally:
        await stdio.stop()


@asynccontextmanager
async def bare(argv: list[str]) -> AsyncIterator[Call]:
    """The least that works: asyncio, JSON lines, a future for each id. Records nothing, checks nothing."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 27,
        start_new_session=True,  # as ours and the SDK's: a session is a group of its own for the scheduler, too
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    waiting: dict[int, asyncio.Future[Any]] = {}
    last = 0

    async def read() -> None:
        while line := await stdout.readline():
            message = json.loads(line)
            waiting.pop(message["id"]).set_result(message)

    async def request(method: str, params: Mapping[str, Any]) -> Any:
        nonlocal last
        last += 1
        future = waiting[last] = asyncio.get_running_loop().create_future()
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": last, "method": method, "params": params}).encode() + b"\n")
        return (await future)["result"]

    async def call(tool: str, arguments: Mapping[str, Any]) -> object:
        return await request("tools/call", {"name": tool, "arguments": arguments})

    reader = asyncio.create_task(read())
    try:
        client = {"name": "bare", "version": "1"}
        await request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await request("tools/list", {})
        yield call
    finally:
        stdin.close()
        await process.wait()
        await reader


@asynccontextmanager
async def sdk(argv: list[str]) -> AsyncIterator[Call]:
    """The official Python SDK's client, over its own stdio transport."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ))
    async with Client(server, mode="legacy", cache=None, read_timeout_seconds=TIMEOUT_S) as client:
        await client.list_tools()

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            return await client.call_tool(tool, dict(arguments))

        yield call


@asynccontextmanager
async def api_async(argv: list[str]) -> AsyncIterator[Call]:
    """The Python API for asyncio, which records as the plugin does."""
    from harness.testing_async import start_server

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with start_server(argv, era="handshake", evidence=folder, call_timeout_s=TIMEOUT_S) as server:
            await server.tools()
            yield server.call


@asynccontextmanager
async def api(argv: list[str]) -> AsyncIterator[Call]:
    """The Python API without `await`: a call blocks its thread."""
    from harness.testing import start_server

    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        start_server(argv, era="handshake", evidence=folder, call_timeout_s=TIMEOUT_S) as server,
    ):
        server.tools()

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            return server.call(tool, arguments)

        call.blocking = server.call  # type: ignore[attr-defined]
        yield call


CLIENTS = {"api": api, "api-async": api_async, "bare": bare, "sdk": sdk, "wire": wire}


async def measure(call: Call, tool: str, arguments: Mapping[str, Any], calls: int, at_once: int) -> float:
    """Seconds that so many calls take, with so many under way at a time."""
    left = iter(range(calls))
    blocking = getattr(call, "blocking", None)
    if blocking is not None and at_once > 1:
        with ThreadPoolExecutor(at_once) as threads:
            began = time.perf_counter()
            for _ in threads.map(lambda _: blocking(tool, arguments), left):
                pass
            return time.perf_counter() - began

    async def worker() -> None:
        for _ in left:
            await call(tool, arguments)

    began = time.perf_counter()
    if at_once == 1:
        await worker()
    else:
        await asyncio.gather(*(worker() for _ in range(at_once)))
    return time.perf_counter() - began


async def main(name: str, argv: list[str], *, once: bool) -> None:
    """One call and the end, or what stdin says."""
    from bench.http_clients import HTTP_CLIENTS

    async with AsyncExitStack() as stack:
        call = await stack.enter_async_context({**CLIENTS, **HTTP_CLIENTS}[name](argv))
        if once:
            await call("echo", {"text": "hello"})
            return
        print(json.dumps({"ready": True}), flush=True)
        for line in iter(sys.stdin.readline, ""):  # nothing else is to happen meanwhile
            before = time.process_time()
            seconds = await measure(call, **json.loads(line))
            print(json.dumps({"seconds": seconds, "cpu": time.process_time() - before}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.clients")
    parser.add_argument("name")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("server", nargs="+")
    options = parser.parse_args()
    asyncio.run(main(options.name, options.server, once=options.once))
