"""Test commands in a whole run: what their servers say is in the same ledger, whichever way these were started."""

from __future__ import annotations

import json

CLIENT = '''
"""A client of stdio servers in a few lines: starts one, calls tools, closes."""
import json, os, subprocess, sys

class Client:
    def __init__(self, argv, **more):
        self.server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.n = 0
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})

    def ask(self, method, **params):
        self.n += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        self.server.stdin.write(line + "\\n")
        self.server.stdin.flush()
        while "id" not in (answer := json.loads(self.server.stdout.readline())):
            pass
        return answer

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)

    def close(self):
        self.server.stdin.close()
        return self.server.wait(30)
'''
HARNESS = """\
schema = 1
[server]
name = "good"
command = ["python3", "${repo}/servers/good.py"]
env = { MARK = "declared" }
eras = ["handshake"]
[suites]
files = ["suites/*.toml"]
commands = [%s]
"""
SUITE = """\
schema = 2
id = "all"
[[case]]
id = "adds"
[[case.step]]
call = "add"
arguments = { a = 1, b = 2 }
"""
OFF = '[checks]\nannotation = "off"\noutput-schema = "off"\nstrict = "off"\nportability = "off"\nclient = "off"\n'


def with_tests(project, *commands, **files):
    listed = ", ".join(item if isinstance(item, str) else json.dumps(item) for item in commands)
    more = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    return project.with_servers().write(
        {"harness.toml": HARNESS % listed + OFF, "suites/all.toml": SUITE, "tests/client.py": CLIENT, **more}
    )


def fates(report):
    return {fate["tool"]: fate["fate"] for fate in report["coverage"][0]["fates"]}


def test_servers_that_commands_start_in_any_way_count_with_the_suites(project):
    given = """
import json, os
from client import Client
client = Client(json.loads(os.environ["ROLLCALL_SERVER_COMMAND_JSON"]))
assert client.call("echo", text="x")["result"]["content"][0]["text"] == "x"
raise SystemExit(client.close())
"""
    by_itself = """
import os
from client import Client
client = Client(["python3", "servers/good.py"], env={"PATH": os.environ["PATH"], "EXTRA": "of the suite"})
answer = client.call("guarded", key="k")
token = answer["result"]["content"][0]["text"].split('"')[1]
assert "deleted" in str(client.call("guarded", key="k", confirm_token=token))
raise SystemExit(client.close())
"""
    with_tests(
        project, ["python3", "tests/given.py"], ["python3", "tests/own.py"], tests__given=given, tests__own=by_itself
    )
    done = project.run("integration")
    assert [(item["command"], item["exit"], item["transcripts"]) for item in done.report["commands"]] == [
        ("python3 tests/given.py", 0, 1),
        ("python3 tests/own.py", 0, 1),
    ], done.stdout + done.stderr
    found = fates(done.report)
    assert (found["add"], found["echo"], found["guarded"]) == ("succeeded", "succeeded", "succeeded")
    assert "python3 tests/own.py (good none handshake plain) — passed, exit code 0, 1 server recorded" in done.stdout
    again = project.run("judge")
    assert again.report == done.report


def test_a_server_gets_the_environment_of_its_run_and_what_the_suite_sets(project):
    shows = """
import json, os
from client import Client
client = Client(["python3", "servers/shows_environment.py"], env={**os.environ, "OWN": "set"})
seen = client.call("names")["result"]["content"][0]["text"].split()
of = lambda name: client.call("value", text=name)["result"]["content"][0]["text"]
assert of("MARK") == "declared", seen
assert of("OWN") == "set"
client.close()
assert "CANARY" not in seen
assert "ROLLCALL_SESSION" not in seen
assert not any(name.startswith("npm_") for name in seen)
"""
    with_tests(project, ["python3", "tests/shows.py"], tests__shows=shows)
    path = project.root / "harness.toml"
    path.write_text(path.read_text().replace("good.py", "shows_environment.py"))
    (project.root / "suites/all.toml").write_text(SUITE.replace('call = "add"', 'call = "names"'))
    done = project.run("integration", env={"CANARY": "of the caller", "npm_config_registry": "https://example.org"})
    assert done.report["commands"][0]["outcome"] == "passed", done.stdout + done.stderr


def test_a_server_that_a_suite_points_elsewhere_is_refused_on_stderr_and_in_the_report(project):
    foreign = """
import os
from client import Client
try:
    Client(["python3", "servers/good.py"], env={**os.environ, "DATABASE_URL": "postgres://db.example.org/x"})
except Exception:
    raise SystemExit(5)
"""
    with_tests(project, ["python3", "tests/foreign.py"], tests__foreign=foreign)
    done = project.run("integration")
    (command,) = done.report["commands"]
    assert (command["outcome"], command["exit"]) == ("failed", 5)
    assert "the server was not started" in command["output"]
    assert "DATABASE_URL" in command["output"]
    assert done.code == 2
    (error,) = done.report["errors"]
    assert "DATABASE_URL" in error["message"]
    assert "example.org" not in error["message"]


def test_a_command_that_starts_no_server_or_fails_is_a_finding_that_names_its_line(project):
    with_tests(project, ["true"], """{ run = "sh -c 'echo sorry\\nexit 7'", id = "sorry" }""")
    done = project.run("integration")
    found = {item["check"]: item for item in done.report["findings"] if item["check"].startswith("suite/command")}
    assert found["suite/command-recorded-nothing"]["line"] == 9
    assert "sorry" in found["suite/command-failed"]["evidence"]["output"]
    assert done.code == 1


def test_commands_are_selected_by_their_ids(project):
    with_tests(project, ["true"], '{ run = ["false"], id = "no" }')
    done = project.run("integration", "-k", "good/true")
    assert [item["command"] for item in done.report["commands"]] == ["true"]
    assert "exercised/missing" not in {item["check"] for item in done.report["findings"]}


def test_evidence_from_elsewhere_counts_where_server_and_build_agree(project):
    given = """
import json, os
from client import Client
client = Client(json.loads(os.environ["ROLLCALL_SERVER_COMMAND_JSON"]))
client.call("echo", text="x")
raise SystemExit(client.close())
"""
    with_tests(project, ["python3", "tests/given.py"], tests__given=given)
    path = project.root / "harness.toml"
    with_command = path.read_text()
    elsewhere = project.run("run", "--evidence", "elsewhere")
    assert elsewhere.code == 0, elsewhere.stderr
    path.write_text(with_command.replace('commands = [["python3", "tests/given.py"]]\n', ""))
    here = project.run("integration")
    assert fates(here.report)["echo"] == "missing"
    assert "uncounted" not in here.report
    both = project.run("judge", "--also", "elsewhere")
    assert fates(both.report)["echo"] == "succeeded", both.stdout
    assert "uncounted" not in both.report
    for file in (project.root / "elsewhere").rglob("run.json"):
        file.write_text(file.read_text().replace('"build": "', '"build": "other'))
    other = project.run("judge", "--also", "elsewhere")
    assert fates(other.report)["echo"] == "missing"
    (left,) = other.report["uncounted"]
    assert left["server"] == "good"
    assert "it is of the build other" in left["why"]
    assert "Evidence that is not counted: 1" in other.stdout
    assert project.run("judge", "--also", "nowhere").code == 2


def test_a_recording_without_a_plan_is_listed_and_changes_nothing(project):
    with_tests(project)
    path = project.root / "harness.toml"
    path.write_text(path.read_text().replace("commands = []\n", ""))
    first = project.run("integration")
    project.run("proxy", "--", "true")
    second = project.run("judge")
    assert (second.code, second.report["verdict"]) == (first.code, first.report["verdict"])
    (left,) = second.report["uncounted"]
    assert (left["server"], left["place"]) == ("good", "good/recorded")
    assert left["why"].startswith("1 recording without a plan")


def test_commands_reach_a_server_over_http_by_its_url_and_their_calls_count(project):
    calls = """
import json, os, urllib.request
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
meta["io.modelcontextprotocol/clientInfo"] = {"name": "t", "version": "1"}
params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
headers |= {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
headers |= json.loads(os.environ["ROLLCALL_SERVER_HEADERS"])
request = urllib.request.Request(os.environ["ROLLCALL_SERVER_URL"], body, headers)
assert b'"x"' in urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).read()
"""
    with_tests(project, ["python3", "tests/calls.py"], tests__calls=calls)
    path = project.root / "harness.toml"
    text = path.read_text().replace(
        '"${repo}/servers/good.py"]', '"${repo}/servers/over_http.py", "${port}", "only=echo", "auth"]'
    )
    text = text.replace('env = { MARK = "declared" }\n', "").replace(
        'eras = ["handshake"]',
        'eras = ["modern"]\ntransport = "http"\nurl = "http://127.0.0.1:${port}/mcp"\n'
        'headers = { Authorization = "Bearer ${env.SESAME}" }\nenv = { TOKEN = "${env.SESAME}" }',
    )
    path.write_text(text.replace('files = ["suites/*.toml"]\n', "") + 'http = "off"\n')
    done = project.run("integration", env={"SESAME": "0pen-the-door-17"})
    (command,) = done.report["commands"]
    assert (command["outcome"], command["transcripts"]) == ("passed", 1), done.stdout + done.stderr
    assert fates(done.report) == {"echo": "succeeded"}, done.stdout
    written = [file for file in (project.root / ".rollcall").rglob("*") if file.is_file()]
    assert [file.name for file in written if b"0pen-the-door" in file.read_bytes()] == []
