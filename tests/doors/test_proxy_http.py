"""The recording proxy over HTTP: what passes is what it was, event streams as they come, and the calls are recorded."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import harness
from harness.engine.evidence import read_transcript
from harness.findings.frames import read_dialogue
from harness.model.transcript import HttpEnded, Received, Sent

SERVERS = Path(__file__).parent.parent / "servers"
PROXY = [sys.executable, str(Path(harness.__file__).parent / "proxy.py")]
GUARD_S = 60.0
META = "io.modelcontextprotocol/"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@contextmanager
def proxied(folder, url, *more):
    """A proxy before a URL; gives its own URL, and is ended by SIGTERM."""
    command = [
        *PROXY,
        "--evidence",
        str(folder / "evidence"),
        "--port-file",
        str(folder / "port"),
        "--http",
        url,
        *more,
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child:
        try:
            yield child.stdout.readline().strip()
        finally:
            child.send_signal(signal.SIGTERM)
            assert child.wait(GUARD_S) == 0, child.stderr.read()


@pytest.fixture
def server(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen([sys.executable, "over_http.py", str(port)], cwd=SERVERS, stderr=subprocess.DEVNULL)
    with child:
        until = time.monotonic() + GUARD_S
        while not takes(port):
            assert time.monotonic() < until
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            child.kill()


def takes(port):
    with socket.socket() as one:
        return not one.connect_ex(("127.0.0.1", port))


def post(url, message, **headers):
    parts = url.removeprefix("http://").partition("/")
    with closing(http.client.HTTPConnection(parts[0], timeout=GUARD_S)) as connection:
        connection.request("POST", f"/{parts[2]}", json.dumps(message), {**ACCEPT, **headers})
        with connection.getresponse() as response:
            return response.status, dict(response.getheaders()), response.read()


def hello():
    client = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def transcript(folder):
    (path,) = (folder / "evidence").glob("*/recorded/*/*.jsonl")
    return read_transcript(path)


def test_a_dialogue_of_the_handshake_era_passes_and_is_recorded(server, tmp_path):
    with proxied(tmp_path, server) as url:
        assert url.endswith("/mcp")
        assert url.split(":")[2].startswith((tmp_path / "port").read_text().strip())
        status, headers, _ = post(url, hello(), Origin=url.removesuffix("/mcp"))
        assert status == 200
        session = {name.lower(): value for name, value in headers.items()}["mcp-session-id"]
        more = {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        assert post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **more)[0] == 202
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "hé"}},
        }
        status, _, body = post(url, call, **more)
        assert status == 200
        assert "hé" in json.dumps(json.loads(body.decode().rpartition("data: ")[2].strip() or body), ensure_ascii=False)
    found = transcript(tmp_path)
    dialogue = read_dialogue(found)
    assert (dialogue.era, dialogue.protocol) == ("handshake", "2025-11-25")
    labels = [event.label for event in found.events if isinstance(event, Sent)]
    assert labels == ["initialize", "notifications/initialized", "tools/call echo"]
    assert [exchange.method for exchange in dialogue.exchanges if exchange.reply is not None] == [
        "initialize",
        "tools/call",
    ]
    assert {event.how for event in found.events if isinstance(event, HttpEnded)} == {"complete"}


def test_the_modern_era_passes_too(server, tmp_path):
    meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientInfo": {"name": "t", "version": "1"}}
    meta[f"{META}clientCapabilities"] = {}
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    headers = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    plain = post(server, message, **headers)
    with proxied(tmp_path, server) as url:
        through = post(url, message, **headers)
    assert (through[0], through[2]) == (plain[0], plain[2])
    assert plain[0] == 200
    assert read_dialogue(transcript(tmp_path)).era == "modern"


@contextmanager
def scripted(answer):
    """A server that reads one head and then does what it is told with the connection."""
    ready, loop_box = threading.Event(), {}

    async def main():
        async def handle(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            await answer(head, reader, writer)
            writer.close()

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        loop_box.update(
            loop=asyncio.get_running_loop(), port=listening.sockets[0].getsockname()[1], end=asyncio.Event()
        )
        ready.set()
        await loop_box["end"].wait()
        listening.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(GUARD_S)
    try:
        yield f"http://127.0.0.1:{loop_box['port']}/mcp"
    finally:
        loop_box["loop"].call_soon_threadsafe(loop_box["end"].set)
        thread.join(GUARD_S)


def test_each_event_of_a_stream_is_there_before_the_next_is_sent(tmp_path):
    """The server sends the second only when the client says that it has the first."""
    seen = threading.Event()

    async def answer(_head, _reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in (1, 2):
            data = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}\n\n' % number
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
            if number == 1:
                await asyncio.to_thread(seen.wait, GUARD_S)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    with scripted(answer) as url, proxied(tmp_path, url) as through:
        connection = http.client.HTTPConnection(through.split("/")[2], timeout=GUARD_S)
        connection.request("GET", "/mcp", headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        assert b'"n":1' in response.readline()
        seen.set()
        assert b'"n":2' in response.read()
        connection.close()
    came = [event.body.text for event in transcript(tmp_path).events if isinstance(event, Received)]
    assert ['"n":1' in came[0], '"n":2' in came[1]] == [True, True]


def test_a_server_that_is_not_there_and_one_that_breaks_off(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    (tmp_path / "a").mkdir()
    with proxied(tmp_path / "a", nobody) as url:
        assert post(url, hello())[0] == 502
    assert [event.how for event in transcript(tmp_path / "a").events if isinstance(event, HttpEnded)] == ["refused"]

    async def breaks(_head, _reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()

    (tmp_path / "b").mkdir()
    with scripted(breaks) as url, proxied(tmp_path / "b", url) as through:
        with pytest.raises(http.client.IncompleteRead):
            post(through, hello())
    assert [event.how for event in transcript(tmp_path / "b").events if isinstance(event, HttpEnded)] == ["broken"]


def test_what_is_no_url_is_refused(tmp_path):
    for words, said in (
        (["--http", "ftp://x/y"], "no http or https URL"),
        (["--http", "http://x", "--", "cat"], "no command"),
    ):
        done = subprocess.run(
            [*PROXY, "--evidence", str(tmp_path), *words], capture_output=True, text=True, timeout=GUARD_S
        )
        assert done.returncode == 2
        assert said in done.stderr
