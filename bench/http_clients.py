"""The clients over Streamable HTTP that are compared; see `bench.clients`. `${port}` in a command is a free port."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from bench.clients import TIMEOUT_S, Call

__all__ = ["HTTP_CLIENTS"]

PORT = "${port}"
URL = f"http://127.0.0.1:{PORT}/mcp"
LISTEN_S = 30.0
REVISION = "2025-11-25"


@asynccontextmanager
async def api_async(argv: list[str]) -> AsyncIterator[Call]:
    """The Python API for asyncio."""
    from harness.testing_async import start_server

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with start_server(argv, url=URL, era="handshake", evidence=folder, call_timeout_s=TIMEOUT_S) as server:
            await server.tools()
            yield server.call


@asynccontextmanager
async def api(argv: list[str]) -> AsyncIterator[Call]:
    """The Python API without `await`."""
    from harness.testing import start_server

    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        start_server(argv, url=URL, era="handshake", evidence=folder, call_timeout_s=TIMEOUT_S) as server,
    ):
        server.tools()

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            return server.call(tool, arguments)

        call.blocking = server.call  # type: ignore[attr-defined]
        yield call


@asynccontextmanager
async def bare(argv: list[str]) -> AsyncIterator[Call]:
    """A bare asyncio client: POST, a JSON body back, connections kept open; records nothing, checks nothing."""
    async with _listening(argv) as port:
        free: list[tuple[StreamReader, StreamWriter]] = []
        about = {"Mcp-Protocol-Version": REVISION}
        number = 0

        async def post(body: Mapping[str, Any]) -> Any:
            pair = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
            reader, writer = pair
            data = json.dumps(body).encode()
            head = [
                "POST /mcp HTTP/1.1",
                f"Host: 127.0.0.1:{port}",
                "Content-Type: application/json",
                "Accept: application/json, text/event-stream",
                f"Content-Length: {len(data)}",
                *(f"{name}: {value}" for name, value in about.items()),
            ]
            writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + data)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            said = await reader.readexactly(int(headers.get("content-length", 0)))
            if "mcp-session-id" in headers:
                about["Mcp-Session-Id"] = headers["mcp-session-id"]
            free.append(pair)
            return json.loads(said) if said else None

        async def request(method: str, params: Mapping[str, Any]) -> Any:
            nonlocal number
            number += 1
            return await post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            return await request("tools/call", {"name": tool, "arguments": arguments})

        client = {"name": "bare", "version": "1"}
        await request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client})
        await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await request("tools/list", {})
        yield call
        for _, writer in free:
            writer.close()


@asynccontextmanager
async def sdk(argv: list[str]) -> AsyncIterator[Call]:
    """The official Python SDK's client."""
    from mcp import Client

    async with (
        _listening(argv) as port,
        Client(URL.replace(PORT, str(port)), mode="legacy", cache=None, read_timeout_seconds=TIMEOUT_S) as client,
    ):
        await client.list_tools()

        async def call(tool: str, arguments: Mapping[str, Any]) -> object:
            return await client.call_tool(tool, dict(arguments))

        yield call


@asynccontextmanager
async def _listening(argv: list[str]) -> AsyncIterator[int]:
    """The port of a server that listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [part.replace(PORT, str(port)) for part in argv]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(LISTEN_S):
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


HTTP_CLIENTS = {"http-api": api, "http-api-async": api_async, "http-bare": bare, "http-sdk": sdk}
