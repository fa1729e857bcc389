"""What recorded dialogues hold, shown; and a suite made of them that passes against the same server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest

HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
]
HARNESS = """\
schema = 1
[server]
name = "good"
command = ["python3", "${repo}/servers/good.py"]
eras = ["handshake"]
[suites]
files = ["suites/*.toml"]
[checks]
exercised = "attempted"
client = "off"
"""


def call(tool, **arguments):
    return {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class Session:
    """A client by hand, through the proxy."""

    def __init__(self, project, server="good", **env):
        command = [sys.executable, "-P", "-m", "harness", "proxy", "--", "python3", f"servers/{server}.py"]
        self.child = subprocess.Popen(
            command,
            cwd=project.root,
            env=project.environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.n = 1
        for line in HELLO:
            self.ask(line)

    def ask(self, message):
        if "id" not in message and message["method"] == "tools/call":
            self.n += 1
            message = {**message, "id": self.n}
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()
        while "id" in message:
            try:
                answer = json.loads(self.child.stdout.readline())
            except ValueError:
                continue
            if answer.get("id") == message["id"]:
                return answer
        return None

    def close(self):
        _, errors = self.child.communicate(timeout=60)
        assert self.child.returncode == 0, errors
        return errors.decode()


@pytest.fixture
def repository(project):
    return project.with_servers().write({"harness.toml": HARNESS, "suites/one.toml": "schema = 2\nid = 'one'\n"})


def test_what_was_recorded_by_hand_is_shown(repository):
    session = Session(repository, "noise", MY_TOKEN="s3cret-0123456789")
    session.ask(call("echo", text="s3cret-0123456789"))
    said = session.close()
    assert ".rollcall/evidence/good/recorded/" in said
    done = repository.run("evidence", "show")
    assert done.code == 0, done.stderr
    assert "tools/call echo" in done.stdout
    assert "*****************" in done.stdout
    assert " → ok, " in done.stdout
    assert "stray    line " in done.stdout
    assert "end      exit code 0 (asked to: stdin-close)" in done.stdout
    assert "echo  1 of 1 answered without an error" in done.stdout
    found = json.loads(repository.run("evidence", "show", ".rollcall", "--format", "json").stdout)
    (transcript,) = found["transcripts"]
    assert (transcript["era"], transcript["protocol"], transcript["complete"]) == ("handshake", "2025-11-25", True)
    calls = {item["name"]: item for item in transcript["calls"]}
    assert calls["echo"]["outcome"] == "ok"
    assert calls["echo"]["seconds"] >= 0
    assert "s3cret" not in done.stdout + json.dumps(found)


def test_recorded_calls_become_a_suite_that_passes_against_the_same_server(repository):
    session = Session(repository, MY_TOKEN="s3cret-0123456789")
    session.ask(call("add", a=1, b=2.5))
    session.ask(call("echo", text='a "quoted" ★\nline'))
    session.ask(call("fail"))
    session.ask(call("nobody", x={"y": [1, True]}))
    first = session.ask(call("guarded", key="k"))
    token = first["result"]["content"][0]["text"].split('"')[1]
    assert "deleted" in str(session.ask(call("guarded", key="k", confirm_token=token)))
    session.ask(call("echo", text="s3cret-0123456789"))
    session.ask(call("echo", text="${captured.x}"))
    session.ask(call("guarded", key=None))
    session.close()
    done = repository.run("evidence", "to-suite", "--id", "by-hand", "--out", "suites/by-hand.toml")
    assert done.code == 0, done.stderr
    left = [line for line in done.stderr.splitlines() if "left out" in line]
    assert [line.partition(": it was given ")[2][:8] for line in left] == ["a secret", "a text w", "null, wh"]
    suite = tomllib.loads((repository.root / "suites/by-hand.toml").read_text())
    (case,) = suite["case"]
    assert [step["call"] for step in case["step"]] == ["add", "echo", "fail", "nobody", "guarded", "guarded"]
    assert case["step"][0]["expect"] == {"is_error": False, "schema": {"type": "object", "required": ["sum"]}}
    assert case["step"][2]["expect"] == {"is_error": True, "text_contains": "it failed on purpose"}
    assert case["step"][3]["unlisted"] is True
    assert case["step"][5]["arguments"]["confirm_token"] == "${captured.value_1}", "what the server made up"
    os.unlink(repository.root / "suites/one.toml")
    assert repository.run("check").code == 0
    ran = repository.run("integration", "-k", "by-hand")
    assert ran.report["cases"], ran.stderr
    assert [item["status"] for item in ran.report["cases"]] == ["passed"], ran.stdout
    again = repository.run("evidence", "to-suite", "--out", "suites/by-hand.toml")
    assert again.code == 2
    assert "is there already" in again.stderr


def test_where_there_is_nothing_it_says_so(repository):
    empty = repository.run("evidence", "show", ".")
    assert empty.code == 3
    assert "mcp-rollcall proxy -- COMMAND" in empty.stderr
    gone = repository.run("evidence", "show", "nowhere")
    assert (gone.code, "there is no file or folder nowhere" in gone.stderr) == (2, True)
    for words in (["evidence"], ["proxy", "--help"], ["evidence", "show", "--help"]):
        assert repository.run(*words).code == (2 if words == ["evidence"] else 0)
