"""The recording proxy over HTTP: what passes is what it was, event streams as they come, and the calls are recorded."""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import signal
import socket
import struct
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
from harness.model.transcript import Diagnostic, HttpEnded, HttpRequest, Received, Sent

SERVERS = Path(__file__).parent.parent / "servers"
PROXY = [sys.executable, str(Path(harness.__file__).parent / "proxy.py")]
GUARD_S = 60.0
PIDS = []  # of the proxies, the last one last
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
            PIDS.append(child.pid)
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


POST = "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
ASK = '{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"slow"}}'
STAGES = {
    "head": "POST /head HTTP/1.1\r\nHost: x",
    "body": POST % ("body", 100) + "{",
    "chunk": "POST /chunk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "answer": POST % ("answer", len(ASK % "answer")) + ASK % "answer",
    "more": (POST % ("more", len(ASK % "more")) + ASK % "more") * 2,
    "stream": "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
    "flood": "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("rudely", [False, True], ids=["closes", "resets"])
def test_a_client_that_leaves_is_noticed_at_any_time_and_nothing_is_left_of_it(tmp_path, rudely):
    """What is under way upstream ends with it, the record says it, and no descriptor stays."""
    came, gone = queue.Queue(), queue.Queue()

    async def answer(head, reader, writer):
        stage = head.split()[1].decode().strip("/")
        came.put(stage)
        if stage in ("stream", "flood"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n")
        try:
            if stage == "flood":
                while not reader.at_eof():
                    writer.write(b": " + b"x" * 50_000 + b"\n")
                    await writer.drain()
            while await reader.read(65536):
                pass
        except OSError:
            pass
        gone.put(stage)

    def descriptors():
        return len(list(Path(f"/proc/{PIDS[-1]}/fd").iterdir()))

    with scripted(answer) as url, proxied(tmp_path, url) as through:
        host, port = through.split("/")[2].split(":")
        before = descriptors()
        for stage, said in STAGES.items():
            client = socket.create_connection((host, int(port)), GUARD_S)
            client.sendall(said.encode())
            if stage in ("answer", "more", "stream", "flood"):
                assert came.get(timeout=GUARD_S) == stage
            if stage in ("stream", "flood"):
                assert client.recv(100)
            if rudely:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            if stage in ("answer", "more", "stream", "flood"):
                assert gone.get(timeout=GUARD_S) == stage
        with socket.create_connection((host, int(port)), GUARD_S) as client:  # it asks and does not wait
            client.sendall((POST % ("forgets", len(ASK % "forgets")) + ASK % "forgets").encode())
        assert came.get(timeout=GUARD_S) == gone.get(timeout=GUARD_S) == "forgets"
        until = time.monotonic() + GUARD_S
        while descriptors() > before:
            assert time.monotonic() < until, "a connection is left"
            time.sleep(0.01)
    events = transcript(tmp_path).events
    asked = {item.exchange: item.url.rpartition("/")[2] for item in events if isinstance(item, HttpRequest)}
    ended = {asked[item.exchange]: item for item in events if isinstance(item, HttpEnded)}
    assert {how.how for how in ended.values()} == {"closed"}
    assert sorted(ended) == ["answer", "body", "chunk", "flood", "forgets", "more", "stream"]
    assert ended["body"].detail == "the client left in the middle of its request"
    assert ended["answer"].detail == "the client left while it waited for an answer"
    assert ended["stream"].detail == "the client left in the middle of the answer"
    (note,) = [item for item in events if isinstance(item, Diagnostic)]
    assert (note.what, note.detail) == ("client-left", "in the middle of a request's head, after 28 bytes")


def test_what_is_no_request_is_answered_and_recorded_as_that(tmp_path):
    async def never(head, _reader, _writer):
        raise AssertionError(f"it was handed on: {head!r}")

    with scripted(never) as url, proxied(tmp_path, url) as through:
        host, port = through.split("/")[2].split(":")
        for said, status in (
            (b"GET /\r\n\r\n", b"400"),
            (b"POST /x HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
            (b"POST /x HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
            (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 1_100_000, b"431"),
        ):
            with socket.create_connection((host, int(port)), GUARD_S) as client:
                client.sendall(said)
                assert client.recv(100).split()[1] == status
    ended = [item for item in transcript(tmp_path).events if isinstance(item, HttpEnded)]
    assert [item.how for item in ended] == ["refused"] * 3


def test_a_connection_that_the_server_has_closed_is_closed_to_the_client_too(tmp_path):
    """As it is without us: who keeps it for the next request would send that into nothing."""

    async def answer(_head, _reader, writer):
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    with scripted(answer) as url, proxied(tmp_path, url) as through:
        host, port = through.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), GUARD_S) as client:
            client.sendall(b"DELETE /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 202")
            assert client.recv(1000) == b""


def test_what_lets_a_client_in_is_in_no_record(tmp_path):
    """Wherever it is: in the head, in the URL, in what the server says of it, in what it is exchanged for."""
    basic = "dXNlcjpwYXNzd29yZC0wMDAx"  # user:password-0001
    secrets = [f"{word}-{number:04}-secret" for number, word in enumerate(["bearer", "cookie", "apikey", "query"])]
    secrets += ["session-9999-of-mine", "private-1234-secret", "cs-5678-secret", "at-8765-secret", "code-4321-secret"]
    bearer, cookie, key, query, session, private, client_secret, access, code = secrets

    async def answer(head, reader, writer):
        if head.startswith(b"POST /token"):
            kind, body = b"application/json", json.dumps({"access_token": access, "token_type": "bearer"}).encode()
        else:
            lines = b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"you": head.decode()}}).encode()
            kind, body = b"text/event-stream", b"event: endpoint\ndata: /m?session_id=%s\n\n" % session.encode() + lines
        more = b"Mcp-Session-Id: %s\r\nSet-Cookie: sid=%s; Path=/" % (session.encode(), cookie.encode())
        length = len(body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\nContent-Length: %d\r\n\r\n" % (kind, more, length))
        writer.write(body)
        await writer.drain()

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}}
    with scripted(answer) as url, proxied(tmp_path, url) as through:
        base = through.removesuffix("/mcp")
        post(f"{base}/token?code={code}", {"client_secret": client_secret}, **{"Content-Type": "application/json"})
        head = {"Authorization": f"Bearer {bearer}", "Cookie": f"theme=dark; sid={cookie}", "X-Api-Key": key}
        head |= {"Private-Token": private, "Mcp-Session-Id": session}
        _, _, body = post(f"{base}/mcp?api_key={query}&page=2", call, **head)
        assert all(secret in body.decode() for secret in (bearer, cookie, key, query, private)), (
            "what passes is not masked"
        )
        post(f"{base}/mcp", call, Authorization=f"Basic {basic}")
    (path,) = (tmp_path / "evidence").glob("*/recorded/*/*.jsonl")
    written = path.read_text()
    assert "page=2" in written
    assert written.count(session) == 1, "in what the server says of it; in heads and addresses it is masked"
    assert [secret for secret in [*secrets, basic, "password-0001"] if secret in written] == [session]


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
