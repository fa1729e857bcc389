"""`mcp-rollcall tools check`, run as a user does: files, folders, projects, commands and URLs. Ours; DESIGN §6, §7."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TOOL = {"name": "get", "description": "Gets a value.", "inputSchema": {"type": "object", "properties": {}}}
WITH_OUTPUT = {**TOOL, "outputSchema": {"type": "object", "properties": {"value": {"type": "string"}}}}
RESULT = {"tools": [WITH_OUTPUT]}
BROKEN = {"name": "bad", "description": "Bad.", "inputSchema": {"type": "object", "properties": {}}}
MISSING = "output-schema/missing"


def text_of(*tools):
    return json.dumps({"tools": list(tools)}, indent=1)


def listed(done):
    return json.loads(done.stdout)["listed"]


def findings(done):
    return json.loads(done.stdout)["findings"]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        RESULT,
        [WITH_OUTPUT],
        {"jsonrpc": "2.0", "id": 3, "result": RESULT},
        [{"jsonrpc": "2.0", "id": 3, "result": RESULT}],
    ],
    ids=["result", "bare array", "response", "batch"],
)
def test_every_shape_of_a_saved_list_is_read(project, value):
    project.write({"lists/redis.tools.json": json.dumps(value)})
    done = project.run("tools", "check", "lists/redis.tools.json", "--format", "json")
    assert done.code == 0, done.stdout + done.stderr
    (item,) = listed(done)
    assert (item["server"], item["source"], item["tools"], item["era"]) == (
        "redis",
        "lists/redis.tools.json",
        1,
        None,
    )


def test_standard_input_is_a_source(project):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "tools", "check", "-"],
        cwd=project.root,
        env=project.environment(),
        input=json.dumps(RESULT),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "standard input" in done.stdout


def test_a_finding_has_the_line_of_its_tool(project):
    project.write({"tools.json": text_of(WITH_OUTPUT, {**BROKEN, "name": "odd"})})
    done = project.run("tools", "check", "tools.json", "--format", "json")
    assert done.code == 1
    line = (project.root / "tools.json").read_text(encoding="utf-8").split("\n").index('   "name": "odd",')
    (finding,) = [item for item in findings(done) if item["check"] == MISSING]
    assert (finding["file"], finding["line"]) == ("tools.json", line)  # the brace before it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tools.json is empty"),
        ("{", "tools.json:1: not JSON"),
        ('{"tools": [\n{"name": "a",}]}', "tools.json:2: not JSON"),
        ('{"tools": [{"name": "a", "x": NaN}]}', "NaN is no JSON value"),
        ('{"name": "redis"}', "has no 'tools' (keys: 'name')"),
        ('{"tools": {}}', "'tools' is an object, not an array"),
        ('"tools"', "holds a string"),
        ("[1, 2]", "none of its items is an object"),
        ('{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}', "a JSON-RPC error"),
    ],
)
def test_what_is_no_list_of_tools_is_an_error_in_words(project, text, said):
    project.write({"tools.json": text})
    done = project.run("tools", "check", "tools.json")
    assert done.code == 2
    assert said in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr


def test_a_file_that_is_not_utf8_is_an_error_with_its_line(project):
    (project.root / "tools.json").write_bytes(b'{"tools": [\n{"name": "\xff"}]}')
    done = project.run("tools", "check", "tools.json")
    assert done.code == 2
    assert "tools.json:2: not UTF-8: byte 0xff" in done.stdout


def test_a_key_that_stands_twice_is_a_finding_with_its_place(project):
    project.write({"tools.json": '[{"name": "a", "inputSchema": {"type": "object", "type": "object"}}]'})
    done = project.run("tools", "check", "tools.json", "--format", "json")
    (finding,) = [item for item in findings(done) if item["check"] == "wire/duplicate-key"]
    assert (finding["tool"], finding["pointer"]) == ("a", "/inputSchema")
    assert '"type"' in finding["message"]


def test_nesting_of_100_000_levels_ends_in_a_finding(project):
    deep = '{"type": "object", "properties": {"x": ' * 50_000 + "{}" + "}}" * 50_000
    project.write({"tools.json": '{"tools": [{"name": "deep", "inputSchema": ' + deep + "}]}"})
    done = project.run("tools", "check", "tools.json", "--format", "json")
    assert done.code == 1, done.stderr
    assert any("nested deeper" in item["message"] and item["tool"] == "deep" for item in findings(done))
    assert "Traceback" not in done.stderr


def test_items_that_are_no_tools_are_findings(project):
    project.write({"tools.json": json.dumps({"tools": [WITH_OUTPUT, 7]})})
    done = project.run("tools", "check", "tools.json", "--format", "json")
    assert done.code == 1
    assert [item["pointer"] for item in findings(done) if item["check"] == "wire/malformed-result"] == ["/tools/1"]


def test_a_first_page_alone_is_not_taken_for_the_list(project):
    project.write({"tools.json": json.dumps({**RESULT, "nextCursor": "2"})})
    done = project.run("tools", "check", "tools.json", "--format", "json")
    assert done.code == 3
    assert "pages are missing" in json.loads(done.stdout)["not_judged"][0]["why"]


def test_a_log_of_messages_is_read_with_its_version(project):
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "logged"}}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "result": {"tools": [WITH_OUTPUT], "nextCursor": "b"}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"cursor": "b"}},
        {"jsonrpc": "2.0", "id": 3, "result": {"tools": [{**WITH_OUTPUT, "name": "set"}]}},
    ]
    project.write({"log.jsonl": "".join(json.dumps(message) + "\n" for message in messages)})
    (item,) = listed(project.run("tools", "check", "log.jsonl", "--format", "json"))
    assert (item["server"], item["tools"], item["protocol"], item["era"]) == ("logged", 2, "2025-06-18", "handshake")


# --- folders, several sources ---------------------------------------------------------------------


def test_several_sources_are_one_report_and_one_that_fails_hides_no_other(project):
    project.write({"lists/a.json": text_of(BROKEN), "lists/b.json": text_of(WITH_OUTPUT), "lists/aa.json": "nothing"})
    done = project.run("tools", "check", "lists", "gone.json", "lists/b.json", "--format", "json")
    assert done.code == 2
    report = json.loads(done.stdout)
    assert [item["source"] for item in report["listed"]] == ["lists/a.json", "lists/b.json"]
    assert len(report["errors"]) == 2
    assert report["findings"]
    assert report["verdict"] == "error"


def test_no_tool_is_no_pass(project):
    project.write({"tools.json": '{"tools": []}', "empty/x.txt": ""})
    done = project.run("tools", "check", "tools.json")
    assert done.code == 3
    assert "there is no tool in tools.json" in done.stdout
    assert project.run("tools", "check", "empty").code == 3


def test_no_source_is_a_usage_error(project):
    done = project.run("tools", "check")
    assert done.code == 2
    assert "there is no source" in done.stderr


def test_a_project_is_judged_by_its_newest_evidence(project, recorded):
    import shutil

    shutil.copytree(recorded.root, project.root, dirs_exist_ok=True)
    done = project.run("tools", "check", ".", "--format", "json")
    report = json.loads(done.stdout)
    assert {(item["server"], item["era"]) for item in report["listed"]} == {("good", "modern"), ("good", "handshake")}
    assert {item["tools"] for item in report["listed"]} == {6}
    assert len(listed(project.run("tools", "check", ".rollcall", "--format", "json"))) == len(report["listed"])
    again = project.run("tools", "check", ".rollcall/evidence/good/none/modern", "--format", "json")
    assert {item["era"] for item in listed(again)} == {"modern"}
    transcript = next((project.root / ".rollcall").rglob("handshake/plain/*/server-1.jsonl"))
    (item,) = listed(project.run("tools", "check", str(transcript), "--format", "json"))
    assert (item["tools"], item["protocol"]) == (6, "2025-11-25")


def test_a_project_without_evidence_says_how_to_make_it(good):
    done = good.run("tools", "check", ".")
    assert done.code == 3
    assert "mcp-rollcall run" in done.stdout


def test_checks_and_exemptions_of_the_project_count(project, recorded):
    import shutil

    shutil.copytree(recorded.root, project.root, dirs_exist_ok=True)
    for transcript in (project.root / ".rollcall").rglob("*.jsonl"):
        transcript.write_bytes(transcript.read_bytes().replace(b"outputSchema", b"outputSketch"))
    before = project.run("tools", "check", ".", "--format", "json")
    assert before.code == 1
    assert [item["check"] for item in findings(before)] == [MISSING]
    with (project.root / "exemptions.toml").open("a", encoding="utf-8") as file:
        file.write('[good.output-schema]\n"*" = "its answers are plain texts by design"\n')
    after = project.run("tools", "check", ".", "--format", "json")
    assert after.code == 0
    assert [(item["subject"], item["file"]) for item in json.loads(after.stdout)["excused"]] == [
        ("*", "exemptions.toml")
    ]
    (project.root / "exemptions.toml").write_text("schema = 1\n", encoding="utf-8")
    with (project.root / "harness.toml").open("a", encoding="utf-8") as file:
        file.write('output-schema = "warning"\n')  # to [checks], which is the last
    lowered = json.loads(project.run("tools", "check", ".", "--format", "json").stdout)
    assert [(item["family"], item["file"]) for item in lowered["lowered"]] == [("output-schema", "harness.toml")]
    assert [item["severity"] for item in lowered["findings"]] == ["warning"]


# --- options --------------------------------------------------------------------------------------


def test_checks_select_and_set_levels(project):
    project.write({"tools.json": text_of(BROKEN)})

    def levels(*options):
        done = project.run("tools", "check", "tools.json", "--format", "json", *options)
        return done.code, {item["check"]: item["severity"] for item in findings(done)}, json.loads(done.stdout)

    code, plain, _ = levels()
    assert code == 1
    assert MISSING in plain
    code, lowered, report = levels("--checks", "output-schema=warning")
    assert lowered[MISSING] == "warning"
    assert [(item["family"], item["to"], item["file"]) for item in report["lowered"]] == [
        ("output-schema", "warning", "--checks")
    ]
    assert levels("--checks", "output-schema=warning,wire", "--strict")[1].keys() == {
        check for check in plain if check.startswith("wire/")
    }
    assert MISSING not in levels("--checks", "output-schema=off")[1]
    assert levels("--checks", "output-schema=off,output-schema/missing=warning")[1][MISSING] == "warning"


def test_warnings_fail_with_strict(project):
    project.write({"tools.json": text_of(BROKEN)})
    options = ("tools", "check", "tools.json", "--checks", "output-schema", "--checks", "output-schema=warning")
    assert project.run(*options).code == 0
    assert project.run(*options, "--strict").code == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checks", "portabilty=off"], "there is no family or check 'portabilty'"),
        (["--checks", "wire=loud"], "'loud' is no level of wire"),
        (["--protocol", "yesterday"], "'yesterday' is no protocol version"),
        (["--header", "no-value"], "--header: write NAME=VALUE"),
        (["--env", "=x"], "--env: write NAME=VALUE"),
        (["--timeout", "-1"], "no number of seconds"),
    ],
)
def test_an_option_that_cannot_be_used_is_exit_2(project, options, said):
    project.write({"tools.json": text_of(WITH_OUTPUT)})
    done = project.run("tools", "check", "tools.json", *options)
    assert done.code == 2
    assert said in done.stderr


def test_the_protocol_to_judge_by_can_be_given(project):
    project.write({"tools.json": text_of(WITH_OUTPUT)})
    (item,) = listed(project.run("tools", "check", "tools.json", "--protocol", "2024-11-05", "--format", "json"))
    assert (item["protocol"], item["era"]) == ("2024-11-05", "handshake")


def test_a_report_that_was_asked_for_and_cannot_be_written_is_no_success(project):
    """What waits for the file would find none, or, worse, an old one."""
    project.write({"tools.json": json.dumps(RESULT), "full": "no folder"})
    done = project.run("tools", "check", "tools.json", "--out", "full/r.json")
    assert done.code == 5
    assert "the reports cannot be written to full: " in done.stderr.replace(f"{project.root}/", "")
    assert project.run("tools", "check", "tools.json", "--out", "new.json").code == 0


def test_reports_are_written_where_out_says(project):
    project.write({"tools.json": text_of(BROKEN)})
    done = project.run(
        "tools", "check", "tools.json", "--out", "r/report.sarif", "--out", "x.xml", "--out", "t.txt", "--out", "all"
    )
    assert done.code == 1
    assert json.loads((project.root / "r/report.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert (project.root / "x.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert (project.root / "t.txt").read_text(encoding="utf-8") == done.stdout
    assert {path.name for path in (project.root / "all").iterdir()} == {
        "report.json",
        "report.xml",
        "report.md",
        "report.sarif",
    }
    assert not (project.root / ".rollcall").exists()


def test_a_reader_that_has_enough_is_no_traceback(project):
    project.write({f"lists/{number}.json": text_of(BROKEN) for number in range(40)})
    command = f"{sys.executable} -P -m harness tools check lists | head -1"
    done = subprocess.run(
        command, shell=True, cwd=project.root, env=project.environment(), capture_output=True, text=True, timeout=120
    )
    assert done.stdout.startswith("mcp-rollcall: findings")
    assert "Traceback" not in done.stderr


# --- commands -------------------------------------------------------------------------------------


def test_a_command_is_listed_in_both_eras_and_never_called(good):
    done = good.run("tools", "check", "--format", "json", "--", sys.executable, "servers/good.py")
    assert {(item["era"], item["protocol"], item["tools"], item["prompts"]) for item in listed(done)} == {
        ("modern", "2026-07-28", 6, 1),
        ("handshake", "2025-11-25", 6, 1),
    }


def test_all_pages_of_a_command_are_listed(good):
    done = good.run("tools", "check", "--format", "json", "--", sys.executable, "servers/paged.py")
    assert all(item["whole"] and item["tools"] > 2 for item in listed(done)), done.stdout


ENVIRONMENT_SERVER = """\
import json, os, sys
names = sorted(name for name in os.environ if name.startswith(("CANARY", "GIVEN", "OWN")))
where = os.path.basename(os.getcwd())
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        reply["result"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "env"}}
    elif message["method"] == "tools/list":
        names = [*names, where, os.environ.get("OWN", "-")]
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        reply["result"] = {"tools": tools}
    else:
        reply["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(reply), flush=True)
"""


def test_the_environment_of_a_command_is_made_from_nothing(project):
    project.write({"env.py": ENVIRONMENT_SERVER, "there/x": ""})
    options = ["--env", "GIVEN=1", "--env", "OWN", "--cwd", "there", "--checks", "output-schema", "--format", "json"]
    done = project.run(
        "tools",
        "check",
        *options,
        "--",
        sys.executable,
        "../env.py",
        env={"CANARY": "1", "OWN": "s3cret-value-of-ours"},
    )
    report = json.loads(done.stdout)
    (item,) = report["listed"]
    assert (item["server"], item["protocol"], item["tools"]) == ("env", "2025-06-18", 4)
    assert "there" in done.stdout
    assert "CANARY" not in done.stdout
    assert "s3cret-value-of-ours" not in done.stdout + done.stderr


@pytest.mark.parametrize("server", ["dies_at_start.py", "silent.py"])
def test_a_command_that_gives_no_list_is_exit_6_with_its_words(good, server):
    done = good.run("tools", "check", "--timeout", "2", "--", sys.executable, f"servers/{server}")
    assert done.code == 6, done.stdout
    assert "first answer" in done.stdout


def test_a_command_that_is_not_there_is_exit_6(project):
    done = project.run("tools", "check", "--", "no-such-program-anywhere")
    assert done.code == 6
    assert "no-such-program-anywhere" in done.stdout


def test_an_interrupted_command_is_stopped_and_exit_130(good):
    command = [sys.executable, "-P", "-m", "harness", "tools", "check", "--", sys.executable, "servers/silent.py"]
    running = subprocess.Popen(
        command, cwd=good.root, env=good.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    mine = f"{good.root}".encode()
    while running.poll() is None and not any(
        mine in _read(f"/proc/{pid}/cwd") and b"silent.py" in _read(f"/proc/{pid}/cmdline") and pid != str(running.pid)
        for pid in filter(str.isdigit, os.listdir("/proc"))
    ):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130, stdout + stderr
    assert "interrupted by SIGINT" in stdout
    assert "Traceback" not in stderr


def test_a_place_for_code_scanning_is_found_beside_the_command(good):
    done = good.run("tools", "check", "--checks", "output-schema", "--format", "sarif", "--", sys.executable, "env.py")
    assert done.code == 6
    good.write({"env.py": ENVIRONMENT_SERVER})
    done = good.run("tools", "check", "--checks", "output-schema", "--format", "sarif", "--", sys.executable, "env.py")
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "harness.toml"
    assert physical["region"] == {"startLine": 2}


def test_a_command_is_the_server_of_the_harness_toml_where_it_runs(good):
    """Its name, not the one that the server gives itself: the entry that is asked for is the one that counts."""
    good.write({"env.py": ENVIRONMENT_SERVER})
    command = ("tools", "check", "--checks", "output-schema", "--env", "GIVEN", "--", "python3", "env.py")
    done = good.run(*command, env={"GIVEN": "a b"})
    assert done.code == 1, done.stdout
    assert '[good.output-schema] "*"' in " ".join(done.stdout.split())
    rerun = "mcp-rollcall tools check --checks output-schema --env GIVEN -- python3 env.py"
    assert f"rerun     {rerun}\n" in done.stdout
    good.write({"exemptions.toml": 'schema = 1\n[good.output-schema]\n"*" = "it gives its own environment away"\n'})
    assert good.run(*command, env={"GIVEN": "a b"}).code == 0
    good.write({"other/env.py": ENVIRONMENT_SERVER})
    elsewhere = good.run("tools", "check", "--cwd", "other", "--format", "json", *command[2:4], "--", *command[-2:])
    assert {(item["server"], item["rerun"]) for item in findings(elsewhere)} == {
        ("env", "mcp-rollcall tools check --checks output-schema --cwd other -- python3 env.py")
    }


def test_a_harness_toml_that_is_not_finished_is_said_and_keeps_nothing_from_being_judged(good):
    good.write({"env.py": ENVIRONMENT_SERVER, "harness.toml": 'schema = 1\n[server]\nname = "half-written"\n'})
    done = good.run("tools", "check", "--format", "json", "--", "python3", "env.py")
    assert {item["server"] for item in findings(done)} == {"half-written"}
    assert "harness.toml cannot be used yet" in json.loads(done.stdout)["notes"][0]


def test_the_rerun_line_shows_no_value_of_a_header_or_a_variable(project):
    project.write({"env.py": ENVIRONMENT_SERVER, "a b.json": text_of(BROKEN)})
    done = project.run(
        "tools", "check", "--env", "GIVEN=s3same-open", "--format", "json", "a b.json", "--", "python3", "env.py"
    )
    assert {item["rerun"] for item in findings(done)} == {
        "mcp-rollcall tools check --env GIVEN -- python3 env.py",
        "mcp-rollcall tools check 'a b.json'",
    }


def test_a_command_leaves_nothing_behind(good):
    good.run("tools", "check", "--", sys.executable, "servers/ignores_stdin_close.py")
    left = [
        pid
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if str(good.root).encode() in _read(f"/proc/{pid}/cwd") and b"ignores_stdin" in _read(f"/proc/{pid}/cmdline")
    ]
    assert not left


def _read(path):
    try:
        return os.readlink(path).encode() if path.endswith("cwd") else Path(path).read_bytes()
    except OSError:
        return b""


# --- URLs -----------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """A Streamable HTTP server by hand: `behave(handler, message)` gives (status, content type, body)."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        self._answer(*self.server.behave(self, json.loads(body or b"{}")))

    def do_GET(self):
        self._answer(*self.server.get(self))

    def do_DELETE(self):
        self.server.deleted.append(self.headers.get("mcp-session-id"))
        self._answer(200, "text/plain", b"")

    def _answer(self, status, kind, body, more=()):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(behave, get=lambda _: (405, "text/plain", b"")):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.behave, server.get, server.asked, server.deleted = behave, get, [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(message, **result):
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def handshake(handler, message, *, sse=False):
    """A handshake server with two pages and a session."""
    method = message["method"]
    if "id" not in message:
        return 202, "text/plain", b""
    more = []
    if method == "initialize":
        answer = reply(message, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo={"name": "hand"})
        more = [("mcp-session-id", "session-1234-5678")]
    elif method == "tools/list" and handler.headers.get("mcp-session-id") == "session-1234-5678":
        cursor = message.get("params", {}).get("cursor")
        page = [{**WITH_OUTPUT, "name": "one"}] if cursor is None else [{**WITH_OUTPUT, "name": "two"}]
        answer = reply(message, tools=page, **({"nextCursor": "next"} if cursor is None else {}))
    else:
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no {method}"}}
    text = json.dumps(answer)
    if not sse:
        return 200, "application/json", text.encode(), more
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
    half = len(text) // 2 if ", " not in text else text.index(", ") + 1
    stream = f": hello\r\n\r\nevent: message\r\ndata: {note}\r\n\r\ndata: {text[:half]}\r\ndata: {text[half:]}\r\n\r\n"
    return 200, "text/event-stream; charset=utf-8", stream.encode(), more


@pytest.mark.parametrize("sse", [False, True], ids=["json", "sse"])
def test_all_pages_of_a_url_are_listed_and_the_session_is_ended(project, sse):
    with serving(lambda handler, message: handshake(handler, message, sse=sse)) as (server, url):
        done = project.run("tools", "check", url, "--format", "json")
        assert done.code == 0, done.stdout + done.stderr
        (item,) = listed(done)
        assert (item["tools"], item["era"], item["protocol"], item["whole"]) == (2, "handshake", "2025-06-18", True)
        assert server.deleted == ["session-1234-5678"]
        assert not [body for _, _, body in server.asked if b"tools/call" in body]


def test_headers_are_sent_and_never_shown(project):
    def refuse(handler, message):
        shown = handler.headers.get("authorization", "")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": f"bad: {shown}"}}).encode()
        return 401, "application/json", body, [("www-authenticate", f'Bearer realm="{shown}"')]

    with serving(refuse) as (server, url):
        done = project.run("tools", "check", url, "--header", "Authorization=Bearer s3cr3t-t0ken-0123456789")
        assert server.asked[0][1]["authorization"] == "Bearer s3cr3t-t0ken-0123456789"
    assert done.code == 6
    assert "asks for authorization: HTTP 401" in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, "text/html", b"<html><title>Welcome</title></html>"), "HTTP 200 with an HTML page ('Welcome')"),
        ((404, "text/plain", b"nothing here"), "HTTP 404, text/plain: 'nothing here'"),
        ((403, "text/plain", b""), "asks for authorization: HTTP 403"),
        ((200, "application/json", b"{}"), "HTTP 200, application/json: '{}'"),
        ((200, "application/json", b"{broken"), "is no Streamable HTTP server of MCP"),
        ((204, "text/plain", b""), "HTTP 204, text/plain, empty"),
        ((500, "text/plain", b"oops"), "HTTP 500, text/plain: 'oops'"),
        ((307, "text/plain", b"", [("location", "http://localhost:1/mcp")]), "leads elsewhere: 307"),
        ((307, "text/plain", b"", [("location", "/mcp")]), "leads in circles"),
        ((200, "text/event-stream", b": nothing\n\n"), "(the stream ended first)"),
    ],
)
def test_a_url_that_is_no_server_is_exit_6_in_words(project, answer, said):
    with serving(lambda *_: answer) as (_, url):
        done = project.run("tools", "check", url)
    assert done.code == 6, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr


def test_the_transport_that_came_before_is_called_by_its_name(project):
    def stream(_):
        return 200, "text/event-stream", b"event: endpoint\ndata: /messages?session=1\n\n"

    with serving(lambda *_: (405, "text/plain", b""), get=stream) as (_, url):
        done = project.run("tools", "check", url)
    assert done.code == 6
    assert "HTTP+SSE" in done.stdout


def test_nobody_there_and_no_url_are_told_apart(project):
    done = project.run("tools", "check", "http://127.0.0.1:1/mcp?key=abcdef0123456789")
    assert done.code == 6
    assert "cannot be reached" in done.stdout
    assert "abcdef0123456789" not in done.stdout
    assert project.run("tools", "check", "http://:99999/mcp").code == 2


def test_loopback_is_asked_without_the_proxy_of_the_environment(project):
    with serving(handshake) as (_, url):
        done = project.run("tools", "check", url, env={"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": None})
    assert done.code == 0, done.stdout


def test_a_url_that_never_answers_is_given_up(project):
    ended = threading.Event()

    def wait(*_):
        ended.wait(30)
        return 200, "text/plain", b""

    with serving(wait) as (_, url):
        done = project.run("tools", "check", url, "--timeout", "0.5")
        ended.set()
    assert done.code == 6
    assert "gave no answer to initialize within 0.5 s" in done.stdout


SDK_SERVER = """\
import sys
from mcp.server.mcpserver import MCPServer
app = MCPServer("sdk-http")

@app.tool()
def echo(text: str) -> str:
    return text

app.run(transport="streamable-http", port=int(sys.argv[1]))
"""


def test_the_server_of_the_official_sdk_is_listed_in_both_eras(project, free_port):
    project.write({"sdk.py": SDK_SERVER})
    server = subprocess.Popen(
        [sys.executable, "sdk.py", str(free_port)], cwd=project.root, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in server.stderr:
            if "running on" in line:
                break
        done = project.run("tools", "check", f"http://127.0.0.1:{free_port}/mcp", "--format", "json")
    finally:
        server.terminate()
        server.stderr.close()
        server.wait(20)
    assert {(item["era"], item["tools"]) for item in listed(done)} == {("modern", 1), ("handshake", 1)}


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
