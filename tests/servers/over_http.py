"""A Streamable HTTP server on asyncio alone, both eras: `over_http.py PORT [TWIST …]`; a twist is one way of being wrong.

Without a twist it is healthy: it checks Origin, Host and the version header, knows its sessions, answers notifications with
202, unknown sessions with 404, offers a listening stream, and streams what it has to say before a result.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import sys

from raw import META, tool

PORT, TWISTS = int(sys.argv[1]), set(sys.argv[2:])
MODERN, VERSIONS = "2026-07-28", ("2025-11-25", "2025-06-18", "2025-03-26")
TOKEN = os.environ.get("TOKEN", "sesame-0penTheD00r-42")
SCHEMA = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
FORM = {"mode": "form", "message": "Really?", "requestedSchema": SCHEMA}
TOOLS = [
    tool("ask"),
    tool("close"),
    tool("die"),
    tool("echo", text="string"),
    tool("hang"),
    tool("region", place="string"),
    tool("talk"),
]
TOOLS[5]["inputSchema"]["properties"]["place"]["x-mcp-header"] = "Place"
ONLY = {twist.partition("=")[2] for twist in TWISTS if twist.startswith("only=")}
TOOLS = [item for item in TOOLS if not ONLY or item["name"] in ONLY]


def is_(twist):
    return twist in TWISTS


if is_("cancels"):
    TOOLS.append(tool("slow"))
if is_("states"):
    TOOLS.append(tool("delete", path="string"))  # which says that it must not be repeated
sessions, waiting, listeners, kept = {}, {}, {}, {}
slow, used, KEY = {}, set(), secrets.token_bytes(16)
calls = 0
deaf = False


def result(message, value, modern):
    done = {"resultType": "complete", "_meta": {META + "serverInfo": INFO}} if modern else {}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {**done, **value}}


def error(identity, code, text, **more):
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": text, **more}}


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], "structuredContent": {"result": value}, **more}


INFO = {"name": "fixture", "version": "1"}


def seal(body):
    return hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()


def cancelled():
    """What becomes of the server when a call is cancelled."""
    global deaf
    if is_("cancel-dies"):
        os._exit(3)
    deaf = is_("cancel-deaf")


class Http:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.streaming = False

    async def serve(self):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while (head := await self.reader.readuntil(b"\r\n\r\n")) and await self.one(head):
                pass
        self.writer.close()

    async def one(self, head):
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        self.body = await self.reader.readexactly(int(self.headers.get("content-length", 0)))
        self.streaming = False
        await self.route()
        return not self.streaming or not self.writer.is_closing()

    def reply(self, status, body=b"", kind="application/json", **headers):
        if isinstance(body, dict | list) or body is None:
            body = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        if body and kind:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def begin(self, **headers):
        self.streaming = True
        lines = [
            "HTTP/1.1 200 OK",
            "Content-Type: text/event-stream",
            "Transfer-Encoding: chunked",
            "Cache-Control: no-store",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    def chunk(self, data):
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, message, *fields):
        head = "".join(f"{field}\n" for field in fields)
        self.chunk(f"{head}data: {json.dumps(message, ensure_ascii=False)}\n\n".encode())

    async def end(self):
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    # --- what is asked -------------------------------------------------------------------------------

    async def route(self):
        if self.path.startswith("/.well-known/"):
            return self.reply(401 if is_("well-known") else 404)
        if is_("forbidden") and self.headers.get("x-api-key") != TOKEN:
            return self.reply(403, {"error": "no such key"})
        protected = is_("auth") or is_("auth-bare") or is_("well-known")
        if protected and self.headers.get("authorization") == f"Bearer {TOKEN}":
            print(f"let in with {TOKEN}", file=sys.stderr, flush=True)  # as loggers do
        elif protected:
            challenge = (
                {} if is_("auth-bare") else {"WWW_Authenticate": 'Bearer resource_metadata="http://127.0.0.1/x"'}
            )
            return self.reply(401, {"error": "invalid_token"}, **challenge)
        if is_("redirect") and self.path == "/mcp":
            return self.reply(307, Location=f"http://127.0.0.1:{PORT}/mcp/")
        if is_("redirect-away"):
            return self.reply(307, Location=f"http://localhost:{PORT}/mcp")
        if is_("legacy"):
            return await self.legacy()
        if is_("html"):
            return self.reply(200, b"<!doctype html><html><title>Welcome</title></html>", "text/html; charset=utf-8")
        origin, host = self.headers.get("origin"), self.headers.get("host")
        if not is_("foreign-origin") and origin and origin != f"http://127.0.0.1:{PORT}":
            return self.reply(403)
        if not is_("foreign-host") and host != f"127.0.0.1:{PORT}":
            return self.reply(421)
        if self.method == "GET":
            return await self.get()
        if self.method == "DELETE":
            known = sessions.pop(self.headers.get("mcp-session-id"), None)
            return self.reply(405 if known is None or is_("no-delete") else 204)
        if self.method != "POST":
            return self.reply(405, Allow="GET, POST, DELETE")
        return await self.post()

    async def legacy(self):
        if self.method != "GET":
            return self.reply(405, Allow="GET")
        self.begin()
        self.chunk(b"event: endpoint\ndata: /messages?session=1\n\n")
        await asyncio.sleep(3600)

    async def get(self):
        if is_("get"):
            return self.reply(200, {"status": "ok"})
        session = sessions.get(self.headers.get("mcp-session-id"))
        if is_("modern-only") or (session is None and "mcp-session-id" not in self.headers) or is_("no-stream"):
            return self.reply(405, Allow="POST")
        if session is None:
            return self.reply(404)
        if "last-event-id" in self.headers:
            if is_("no-resume"):
                return self.reply(405)
            self.begin()
            self.event(*kept.pop(self.headers["last-event-id"]))
            return await self.end()
        self.begin()
        listeners[self.headers["mcp-session-id"]] = self
        self.chunk(b": hello\n\n")
        await self.writer.drain()
        await self.reader.read()

    async def post(self):
        try:
            message = json.loads(self.body)
        except ValueError:
            return self.reply(400, error(None, -32700, "Parse error"))
        if not isinstance(message, dict):
            return self.reply(400, error(None, -32600, "Invalid request"))
        params = message.get("params") or {}
        modern = (
            META + "protocolVersion" in (params.get("_meta") or {})
            or self.headers.get("mcp-protocol-version") == MODERN
        )
        if modern and not is_("handshake-only"):
            return await self.modern(message, params)
        if is_("modern-only"):
            return self.reply(404, error(message.get("id"), -32601, "Method not found"))
        return await self.handshake(message, params)

    async def modern(self, message, params):
        identity, method = message.get("id"), message.get("method")
        if deaf:
            return await asyncio.sleep(3600)
        if self.headers.get("mcp-protocol-version") != MODERN and not is_("version-header"):
            return self.reply(400, error(identity, -32022, "Unsupported", data={"supported": [MODERN]}))
        name = params.get("name") or params.get("uri")
        wrong = self.headers.get("mcp-method") != method or self.headers.get("mcp-name") != name
        if method == "tools/call" and name == "region" and self.headers.get("mcp-param-place") != "Koeln":
            wrong = True
        if wrong:
            return self.reply(400, error(identity, -32020, "Header mismatch"))
        if identity is None:
            return self.accepted()
        if method == "server/discover":
            found = {
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
            return self.reply(200, result(message, found, True))
        if method == "tools/list" and params.get("cursor") == "lost":
            return self.reply(404)
        if method == "tools/list":
            more = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
            return self.reply(200, result(message, more, True))
        if method == "tools/call":
            return await self.call(message, params, True)
        return self.reply(200 if is_("status") else 404, error(identity, -32601, "Method not found"))

    def accepted(self):
        if is_("notification"):
            return self.reply(200, None)
        if is_("notification-204"):
            return self.reply(204)
        return self.reply(202)

    async def handshake(self, message, params):
        identity, method = message.get("id"), message.get("method")
        if method == "initialize":
            session = "has a space" if is_("session-id") else secrets.token_hex(16)
            sessions[session] = {"capabilities": params.get("capabilities", {})}
            version = params["protocolVersion"] if params["protocolVersion"] in VERSIONS else VERSIONS[0]
            found = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
            return self.reply(
                200, result(message, found, False), **({} if is_("stateless") else {"Mcp_Session_Id": session})
            )
        session = self.headers.get("mcp-session-id")
        if not is_("stateless"):
            if session is None:
                return self.reply(400, error(None, -32600, "Missing session"))
            if session not in sessions:
                return self.reply(400 if is_("unknown-session") else 404, error(None, -32600, "Session not found"))
        if not is_("version-header") and self.headers.get("mcp-protocol-version", VERSIONS[0]) not in VERSIONS:
            return self.reply(400, error(None, -32600, "Unsupported version"))
        if method is None:
            if identity in waiting:
                waiting.pop(identity).set_result(message["result"])
            return self.accepted()
        if method == "notifications/cancelled" and (known := slow.pop(params["requestId"], None)):
            cancelled()
            if not is_("cancel-waits"):
                known.set()
        if identity is None:
            return self.accepted()
        if deaf:
            return await asyncio.sleep(3600)
        if method == "ping":
            return self.reply(200, result(message, {}, False))
        if method == "tools/list" and params.get("cursor") == "lost":
            return self.reply(404)
        if method == "tools/list":
            return self.reply(200, result(message, {"tools": TOOLS}, False))
        if method == "tools/call":
            return await self.call(message, params, False)
        return self.reply(200, error(identity, -32601, "Method not found"))

    # --- tools ---------------------------------------------------------------------------------------

    async def call(self, message, params, modern):
        global calls
        calls += 1
        name, arguments = params.get("name"), params.get("arguments") or {}
        if is_("drops-session") and calls == 2:
            sessions.clear()
            return self.reply(404, error(None, -32600, "Session not found"))
        if name == "die":
            self.begin()
            self.event({"jsonrpc": "2.0", "method": "notifications/said", "params": {"level": "info", "data": "soon"}})
            await self.writer.drain()
            print("no more", file=sys.stderr, flush=True)
            os._exit(3)
        if name == "hang":
            return await asyncio.sleep(3600)
        if name == "slow":
            return await self.slow(message, modern)
        if name == "delete":
            return self.delete(message, params)
        if name == "ask":
            return await self.ask(message, params, modern)
        if name == "talk":
            return await self.talk(message, modern)
        if name == "close" and not modern:
            return await self.close(message)
        return await self.echo(message, arguments, modern)

    async def echo(self, message, arguments, modern):
        """What a twist spoils, for all calls or for one whose text is its name."""

        def wrong(twist):
            return is_(twist) or arguments.get("text") == twist

        answer = result(message, text(arguments.get("text") or arguments.get("place") or ""), modern)
        if wrong("text-plain"):
            return self.reply(200, answer, "text/plain")
        if wrong("no-type"):
            return self.reply(200, answer, "")
        if wrong("not-json"):
            return self.reply(200, b'{"jsonrpc": "2.0", "id": ', "application/json")
        if wrong("empty"):
            return self.reply(202)
        if wrong("error-status"):
            return self.reply(500, b"Internal Server Error", "text/plain")
        if wrong("html-page"):
            page = b"<!doctype html><html><title>Log in</title></html>"
            return self.reply(200, page, "text/html; charset=utf-8")
        if wrong("result-500"):
            return self.reply(500, answer)
        if wrong("wrong-id"):
            self.begin()
            self.event({**answer, "id": 9999})
            return await self.end()
        if wrong("twice"):
            self.begin()
            self.event(answer)
            self.event(answer)
            return await self.end()
        if wrong("no-answer"):
            self.begin()
            self.event({"jsonrpc": "2.0", "method": "notifications/said", "params": {"level": "info", "data": "x"}})
            return await self.end()
        if wrong("mid-event"):
            self.begin()
            self.chunk(f"data: {json.dumps(answer)}\n".encode())
            return await self.end()
        if wrong("breaks-off"):
            self.begin()
            self.chunk(b"data: {")
            await self.writer.drain()
            return self.writer.transport.abort()
        if wrong("endless"):
            self.begin()
            while not self.writer.is_closing():
                self.chunk(b"data: " + b"x" * 1_000_000 if calls else b"")
                await self.writer.drain()
            return None
        if wrong("wrong-stream"):
            self.begin()
            while self.headers["mcp-session-id"] not in listeners:
                await asyncio.sleep(0.02)
            listeners[self.headers["mcp-session-id"]].event(answer)
            await asyncio.sleep(0.1)
            return await self.end()
        return self.reply(200, answer)

    async def talk(self, message, modern):
        """Two words on the way, then the result."""
        said = [
            {"jsonrpc": "2.0", "method": "notifications/said", "params": {"level": "info", "data": f"{number} of 2"}}
            for number in (1, 2)
        ]
        last = result(message, text("done"), modern)
        self.begin()
        await self.writer.drain()
        if is_("buffered"):
            await asyncio.sleep(2.2)
            self.chunk("".join(f"data: {json.dumps(item)}\n\n" for item in (*said, last)).encode())
        else:
            for item in (*said, last):
                self.event(item)
                await self.writer.drain()
                await asyncio.sleep(0.02)
        await self.end()

    async def close(self, message):
        """The stream is closed early; what is missing can be had by its id."""
        self.begin()
        self.chunk(b"id: one\nretry: 10\ndata:\n\n")
        kept["one"] = (result(message, text("resumed"), False), "id: two")
        await self.end()

    async def slow(self, message, modern):
        """Waits to be cancelled: by the end of its stream, or by a notification, after which the stream ends."""
        self.begin()
        await self.writer.drain()
        if modern:
            await self.reader.read()
            return cancelled()
        slow[message["id"]] = asyncio.Event()
        await slow[message["id"]].wait()
        return await self.end()

    def delete(self, message, params):
        """Asks first, and gives the client a state to carry; see keeps_state.py, whose words the twists are."""
        state = params.get("requestState")
        if state is None:
            data = json.dumps({"path": params["arguments"]["path"], "nonce": secrets.token_hex(4)})
            body = base64.b64encode(data.encode()).decode()
            asked = {"q": {"method": "elicitation/create", "params": FORM}}
            sealed = body if is_("trusting") else f"{body}.{seal(body)}"
            more = {"resultType": "input_required", "inputRequests": asked, "requestState": sealed}
            return self.reply(200, result(message, more, True))
        body, _, mark = state.partition(".")
        if (not is_("trusting") and mark != seal(body)) or (state in used and not is_("reusable")):
            return self.reply(200, error(message["id"], -32602, "Invalid requestState"))
        used.add(state)
        try:
            path = json.loads(base64.b64decode(body))["path"]
        except ValueError:
            return self.reply(200, error(message["id"], -32602, "Invalid requestState"))
        return self.reply(200, result(message, text(f"deleted {path}"), True))

    async def ask(self, message, params, modern):
        meta = params.get("_meta") or {}
        can = (
            meta.get(META + "clientCapabilities", {})
            if modern
            else sessions.get(self.headers.get("mcp-session-id"), {}).get("capabilities", {})
        )
        if "elicitation" not in can:
            return self.reply(200, result(message, text("cannot ask this client", isError=True), modern))
        if modern:
            if params.get("requestState") == "s1":
                said = params["inputResponses"]["q"]
                return self.reply(200, result(message, text(f"{said['action']} {said.get('content')}"), True))
            asked = {"q": {"method": "elicitation/create", "params": FORM}}
            more = {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"}
            return self.reply(200, result(message, more, True))
        waiting["ask-1"] = asyncio.get_running_loop().create_future()
        self.begin()
        self.event({"jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create", "params": FORM})
        await self.writer.drain()
        said = await waiting["ask-1"]
        self.event(result(message, text(f"{said['action']} {said.get('content')}"), False))
        await self.end()


async def main():
    print("a banner on stdout is nobody's business", flush=True)
    if is_("dies-at-start"):
        sys.exit("no configuration")
    if is_("never-listens"):
        await asyncio.sleep(3600)
    if is_("slow-to-listen"):
        await asyncio.sleep(1.0)
    port = PORT + 1 if is_("other-port") else PORT
    host = "0.0.0.0" if is_("bind-all") else "127.0.0.1"  # noqa: S104 - that is what is to be noticed
    server = await asyncio.start_server(lambda reader, writer: Http(reader, writer).serve(), host, port, limit=2**26)
    if is_("ignores-term"):
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    await server.serve_forever()


asyncio.run(main())
