"""A server that is a container: its labels, and what is left when the client is gone."""

import subprocess
import sys

import pytest

from harness.engine.container import container_run
from harness.engine.scope import LABEL

IMAGE = "debian:trixie-slim"
SERVER = r"""
$| = 1; $SIG{TERM} = 'IGNORE';
sub reply { print qq({"jsonrpc":"2.0","id":$_[0],"result":$_[1]}\n) }
while (<STDIN>) {
  next unless /"id":("[^"]*"|\d+)/; my $id = $1;
  if (/"initialize"/) { reply($id, '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{}}') }
  elsif (/"tools\/list"/) { reply($id, '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}') }
  elsif (/"hang"/) { sleep 1000 }
  else { reply($id, '{"content":[{"type":"text","text":"fine"}]}') }
}
"""


@pytest.mark.parametrize(
    ("command", "client"),
    [
        (["docker", "run", "-i", "x"], ["docker"]),
        (["/usr/bin/docker", "--context", "c", "-D", "run", "x"], ["/usr/bin/docker", "--context", "c", "-D"]),
        (["docker", "-H=unix:///s", "container", "run", "x"], ["docker", "-H=unix:///s"]),
        (["podman", "run", "x", "run"], ["podman"]),
        (["/usr/bin/env", "-u", "A", "B=c", "docker", "run", "x"], ["/usr/bin/env", "-u", "A", "B=c", "docker"]),
    ],
)
def test_a_command_that_runs_a_container_gets_labels_right_behind_run(scope, command, client):
    found = container_run(command, scope=scope, server="server-1")
    at = command.index("run") + 1
    labels = [*(f"{name}={value}" for name, value in scope.labels.items()), f"{LABEL}server=server-1"]
    assert list(found.argv) == [*command[:at], *(word for text in labels for word in ("--label", text)), *command[at:]]
    assert list(found.client) == client
    assert found.label == labels[-1]


@pytest.mark.parametrize(
    "command",
    [
        ["docker"],
        ["docker", "exec", "-i", "x", "run"],
        ["node", "docker", "run"],
        ["env", "A=b"],
        ["./docker.sh", "run"],
    ],
)
def test_any_other_command_is_left_as_it_is(scope, command):
    assert container_run(command, scope=scope, server="server-1") is None


@pytest.mark.docker
@pytest.mark.anyio
async def test_a_container_that_outlives_its_client_is_removed_and_named(play, make, scope):
    command = ("docker", "run", "--rm", "-i", IMAGE, "perl", "-e", SERVER)
    cases = [(make.call("hang", timeout_s=0.5),), (make.call("echo", expect={"text_equals": "fine"}),)]
    played = await play("contained", cases, command=command, start_timeout_s=30, call_timeout_s=10, probe=True)
    assert played.record.errors == ()
    assert played.cases == {"case-0": "timed-out", "case-1": "completed"}
    hung, fine = (exited.orphans for exited in played.exits[:2])
    (container,) = [orphan.command for orphan in hung if not orphan.pid]
    assert container.startswith("container ")
    assert container.endswith(f" (image {IMAGE})")
    assert fine == ()
    assert f"{LABEL}run={scope.run}" in played.record.command
    listed = ["docker", "ps", "-aq", "--filter", f"label={LABEL}run={scope.run}"]
    assert subprocess.run(listed, capture_output=True, check=True).stdout == b""


@pytest.mark.anyio
async def test_every_process_of_a_container_has_its_labels_the_official_clients_too(play, make, tmp_path):
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\ntest "$1" = run || exit 1\nexec {sys.executable} good.py\n', encoding="utf-8")
    docker.chmod(0o755)
    cases = [(make.call("echo", {"text": "a"}),)]
    played = await play("good", cases, command=(str(docker), "run", "-i", "image"), client=True, probe=True)
    assert [item.name for item in played.transcripts] == ["server-1.jsonl", "probe-1.jsonl"]
    spawned = [item.events[0] for item in (*played.transcripts, played.client)]
    assert len({item.pid for item in spawned}) == 3
    assert len({(item.argv, frozenset(item.env) - {"PYTHONUTF8"}) for item in spawned}) == 1
    assert f"{LABEL}server=" in " ".join(spawned[0].argv)
