"""Stacks in real containers: they stand, they are reachable on 127.0.0.1 only, and nothing is left of them."""

import json
import re
import socket
import time
import urllib.request
from dataclasses import replace

import anyio
import pytest

from harness.engine.docker import open_engine
from harness.engine.scope import LABEL, open_scope
from harness.engine.stack import prepare_images
from harness.errors import StackError
from harness.model.plan import OutputSpec, ProvisionSpec, ReadySpec, RoleChoice, VersionSpec

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

SLEEP = ("sleep", "1000")
RUNS = ReadySpec(exec=("true",))


def ask(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        return json.loads(answer.read())


async def fails(bench, *specs, **more):
    """The error of a stack that does not stand, after which nothing is left."""
    with anyio.fail_after(60):
        with pytest.raises(StackError) as caught:
            async with bench.open(*specs, **more):
                pytest.fail("it stands")
    assert bench.left() == []
    return caught.value


# --- standing -----------------------------------------------------------------------------------


async def test_no_roles_is_an_empty_stack(bench):
    async with bench.open() as stack:
        assert (stack.values, stack.addresses, stack.names, await stack.logs()) == ({}, (), (), {})


async def test_a_backend_is_reachable_on_the_address_that_is_handed_out_and_on_no_other(bench):
    spec = bench.backend(
        bench.web(),
        outputs=(
            OutputSpec(name="url", value="http://${address.http}/"),
            OutputSpec(name="port", value="${port.http}"),
        ),
    )
    async with bench.open(spec) as stack:
        port = int(stack.values["backend.thing.port"])
        assert stack.values["backend.thing.url"] == f"http://127.0.0.1:{port}/"
        assert stack.addresses == (("127.0.0.1", port),)
        assert stack.names == ("main",)
        assert stack.versions == {"thing@1": ""}
        assert ask(stack.values["backend.thing.url"] + "x")["path"] == "/x"
        assert (await stack.logs())["thing.main"].startswith(b"listening")
        (container,) = bench.inspect()
        assert container["NetworkSettings"]["Ports"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
        (network,) = container["NetworkSettings"]["Networks"].values()
        elsewhere = network["Gateway"]  # an address of this host
        for host, family in ((elsewhere, socket.AF_INET), ("127.0.0.2", socket.AF_INET), ("::1", socket.AF_INET6)):
            with socket.socket(family) as sock:
                sock.settimeout(1)
                assert sock.connect_ex((host, port)) != 0
    assert bench.left() == []
    assert list(bench.scope.tmp.iterdir()) == [bench.scope.tmp / "owner.json"]


async def test_a_container_is_ours_by_its_labels_and_has_no_more_than_it_needs(bench, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("DOCKER_CONFIG", str(bench.tmp))
    (bench.tmp / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://127.0.0.1:9"}}}')
    async with bench.open(bench.backend(bench.web(env={"A": "${version}"}, tmpfs=("/scratch",)))):
        (container,) = bench.inspect()
        labels = container["Config"]["Labels"]
        assert {key: labels[key] for key in bench.scope.labels} == bench.scope.labels
        assert {f"{LABEL}stack", f"{LABEL}role", f"{LABEL}service"} <= set(labels)
        assert "A=1" in container["Config"]["Env"]
        assert not [e for e in container["Config"]["Env"] if "proxy" in e.lower()]
        assert container["Config"]["Healthcheck"] == {"Test": ["NONE"]}
        host = container["HostConfig"]
        assert host["Init"] is True
        assert host["RestartPolicy"]["Name"] in ("", "no")
        assert list(host["Tmpfs"]) == ["/scratch"]


async def test_services_find_each_other_by_name_and_start_when_what_they_need_is_ready(bench):
    connect = (
        "use IO::Socket::INET; $s = IO::Socket::INET->new('${service.web}:80') or die;"
        "print $s qq(GET /from-init X\\n\\n); print <$s>"
    )
    spec = bench.backend(
        bench.service("perl", "-e", connect, name="init", init=True, needs=("web",)),
        bench.web(name="web"),
        bench.service(*SLEEP, name="last", needs=("init",), ready=RUNS),
        bench.service(*SLEEP, name="free", ready=RUNS),
    )
    async with bench.open(spec) as stack:
        assert b'"path":"/from-init"' in (await stack.logs())["thing.init"]
        created = {c["Config"]["Labels"][f"{LABEL}service"]: c["Created"] for c in bench.inspect()}
        assert created["web"] < created["init"] < created["last"]
        assert created["free"] < created["init"]
        assert stack.names == ("free", "init", "last", "web")
    assert bench.left() == []


async def test_files_are_mounted_read_only_whatever_the_umask_is(bench):
    spec = bench.backend(
        bench.service(
            "sh", "-c", "cat /etc/one.conf /conf/sub/two; touch /etc/one.conf /conf/x; sleep 1000",
            mounts={"/etc/one.conf": "one.conf", "/conf": "conf"},
            ready=ReadySpec(exec=("su", "nobody", "-s", "/bin/sh", "-c", "cat /etc/one.conf /conf/sub/two")),
        )
    )  # fmt: skip
    (spec.folder / "conf" / "sub").mkdir(parents=True)
    for name in ("one.conf", "conf/sub/two"):
        (spec.folder / name).write_text(f"this is {name}\n")
        (spec.folder / name).chmod(0o600)
    async with bench.open(spec) as stack:
        log = (await stack.logs())["thing.main"]
    assert b"this is one.conf\nthis is conf/sub/two\n" in log
    assert log.count(b"Read-only file system") == 2
    assert not (spec.folder / "conf" / "x").exists()


async def test_provisioning_by_exec_and_by_http_feeds_the_outputs(bench):
    spec = bench.backend(
        bench.web(),
        secrets={"password": 24},
        provision=(
            ProvisionSpec(exec=("sh", "-c", "printf '[\"%s\"]' $(hostname)"), service="main", capture={"host": "/0"}),
            ProvisionSpec(
                url="http://${address.http}/made", method="PUT", user="app", password="${secret.password}",
                body="${provisioned.host}", status=(201,), capture={"token": "/deep/token", "got": "/deep/body"},
            ),
        ),
        outputs=(
            OutputSpec(name="token", value="${provisioned.token}", secret=True),
            OutputSpec(name="got", value="${provisioned.got}"),
        ),
    )  # fmt: skip
    async with bench.open(spec) as stack:
        assert stack.values["backend.thing.got"] == "main"
        token = stack.values["backend.thing.token"]
        assert token.startswith("tok-")
        assert bench.masker.text(token) == "*" * len(token)


async def test_a_script_runs_inside_its_service_from_a_read_only_copy(bench):
    script = '#!/bin/sh\nprintf \'{"host": "%s", "word": "%s", "own": "%s"}\' "$(hostname)" "$WORD" "$OWN"\n'
    spec = bench.backend(
        bench.web(name="web"),
        bench.service(*SLEEP, name="other", ready=RUNS, env={"OWN": "of the service"}),
        secrets={"password": 24},
        provision=(
            ProvisionSpec(
                script="bin/make.sh", service="other", env={"WORD": "${secret.password}"},
                capture={"host": "/host", "word": "/word", "own": "/own"},
            ),
            ProvisionSpec(exec=("sh", "-c", "ls -l /rollcall/1/; echo x >> /rollcall/1/make.sh"), service="other"),
        ),
    )  # fmt: skip
    (spec.folder / "bin").mkdir()
    (spec.folder / "bin" / "make.sh").write_text(script)
    (spec.folder / "bin" / "make.sh").chmod(0o600)
    error = await fails(bench, spec)
    assert "provisioning step 2" in error.message
    assert "Read-only file system" in error.log
    assert "-rwxr-xr-x" in error.log
    spec = replace(
        spec,
        provision=spec.provision[:1],
        outputs=tuple(
            OutputSpec(name=name, value=f"${{provisioned.{name}}}", secret=name == "word")
            for name in ("host", "own", "word")
        ),
    )
    async with bench.open(spec) as stack:
        assert stack.values["backend.thing.host"] == "other"
        assert stack.values["backend.thing.own"] == "of the service"
        assert bench.masker.text(stack.values["backend.thing.word"]) == "*" * 24
    assert (spec.folder / "bin" / "make.sh").read_text() == script


@pytest.mark.parametrize(
    ("text", "said", "log"),
    [
        ("#!/bin/sh\necho half done; echo why >&2; exit 3\n", "make.sh ended with exit code 3", "half done\nwhy"),
        ("#!/usr/bin/no-such-thing\n", "make.sh", ""),
        ("#!/bin/sh\nsleep 600\n", "had not ended after 1 s", ""),
    ],
)
async def test_a_script_that_fails_is_told_with_what_it_printed(bench, text, said, log):
    step = ProvisionSpec(script="make.sh", service="main", timeout_s=1 if "sleep" in text else 30)
    spec = bench.backend(bench.service(*SLEEP, ready=RUNS), provision=(step,))
    (spec.folder / "make.sh").write_text(text)
    error = await fails(bench, spec)
    assert error.message.startswith("thing: provisioning step 1")
    assert said in error.message
    assert log in error.log


async def test_two_stacks_at_once_do_not_touch_each_other(bench):
    spec = bench.backend(bench.web(), outputs=(OutputSpec(name="url", value="http://${address.http}/"),))
    with open_scope() as other:
        async with bench.open(spec, replace(spec, name="second")) as stack:
            assert len(set(stack.addresses)) == 2
            async with bench.open(spec, scope=other) as inner:
                assert set(inner.addresses).isdisjoint(stack.addresses)
            assert bench.left(other) == []
            assert len(bench.left()) == 4
            assert ask(stack.values["backend.second.url"])["id"] == 7
    assert bench.left() == []


async def test_volumes_of_an_image_go_with_its_container(bench):
    spec = bench.backend(bench.service(*SLEEP, image=None, dockerfile="Dockerfile", ready=RUNS), name="vol")
    (spec.folder / "Dockerfile").write_text("FROM debian:trixie-slim\nVOLUME /var/data\n")
    async with bench.open(spec):
        (container,) = bench.inspect()
        (volume,) = [mount["Name"] for mount in container["Mounts"]]
    with pytest.raises(StackError, match="no such volume"):
        open_engine().call_now("look", lambda client: client.inspect_volume(volume))


async def test_the_images_own_check_is_run_by_us(bench):
    spec = bench.backend(
        bench.service("sh", "-c", "sleep 0.5; touch /tmp/up; sleep 1000", image=None, dockerfile="Dockerfile",
                      ready=ReadySpec(image=True)),
        name="checked",
    )  # fmt: skip
    (spec.folder / "Dockerfile").write_text("FROM debian:trixie-slim\nHEALTHCHECK --interval=1h CMD test -e /tmp/up\n")
    async with bench.open(spec):
        assert bench.inspect()[0]["State"].get("Health") is None
    assert any("exit code is 1" in text for text in bench.steps.waits)
    error = await fails(bench, bench.backend(bench.service(*SLEEP, ready=ReadySpec(image=True))))
    assert "has no HEALTHCHECK" in error.message


# --- not standing -------------------------------------------------------------------------------


async def test_a_service_that_is_never_ready_is_given_up_in_time(bench):
    service = bench.service(
        "sh", "-c", "echo I am ${secret.password}; sleep 1000",
        ports={"http": 80}, ready=ReadySpec(tcp="http", send="hi", expect="yo"), ready_timeout_s=1.5,
    )  # fmt: skip
    error = await fails(bench, bench.backend(service, secrets={"password": 20}))
    assert error.message.startswith("thing@1: service 'main' was not ready within 1.5 s. Last seen: 127.0.0.1:")
    assert error.message.endswith(": port open, no answer. Its container is running.")
    assert error.log == f"I am {'*' * 20}\n"


async def test_a_service_that_exits_ends_the_wait_at_once(bench):
    service = bench.service(
        "sh", "-c", "echo bad news >&2; exit 7", ports={"p": 80}, ready=ReadySpec(http="p"), ready_timeout_s=60
    )
    error = await fails(bench, bench.backend(service))
    assert "Its container is exited with exit code 7" in error.message
    assert error.log == "bad news\n"


async def test_a_service_that_exits_while_we_wait_is_told_with_what_was_seen_last(bench):
    service = bench.service("sh", "-c", "sleep 1; exit 9", ports={"p": 80}, ready=ReadySpec(http="p"))
    error = await fails(bench, bench.backend(service))
    assert "while we waited until it is ready. Last seen: GET http://127.0.0.1:" in error.message
    assert error.message.endswith("Its container is exited with exit code 9.")


async def test_an_init_service_that_fails_keeps_others_from_starting(bench):
    spec = bench.backend(
        bench.service("sh", "-c", "echo no schema; exit 4", name="init", init=True),
        bench.service(*SLEEP, ready=RUNS, needs=("init",)),
    )
    error = await fails(bench, spec)
    assert error.message == (
        "thing@1: service 'init' (a one-shot service) failed. Its container is exited with exit code 4."
    )
    assert error.log == "no schema\n"


async def test_an_init_service_that_does_not_end_is_given_up(bench):
    error = await fails(bench, bench.backend(bench.service(*SLEEP, init=True, ready_timeout_s=1)))
    assert "(a one-shot service) had not ended after 1 s. Its container is running." in error.message


async def test_a_program_that_is_not_in_the_image_is_an_error(bench):
    error = await fails(bench, bench.backend(bench.service("no-such-program", ready=RUNS)))
    assert "service 'main'" in error.message
    assert "exit code 127" in error.message
    assert "no-such-program" in error.log


async def test_a_service_that_dies_during_provisioning_is_shown_with_its_log(bench):
    step = ProvisionSpec(exec=("sh", "-c", "echo trying; kill -9 -1; exit 5"))
    error = await fails(
        bench, bench.backend(bench.service("sh", "-c", "echo here; sleep 1000", ready=RUNS), provision=(step,))
    )
    assert error.message.startswith("thing: provisioning step 1: ") or "stopped again" in error.message
    assert "here" in error.log


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
async def test_one_failing_role_takes_the_others_down(bench, names):
    good = [bench.backend(bench.web(), name=name) for name in names]
    bad = bench.backend(bench.service("false", ready=RUNS), name="bad")
    error = await fails(bench, *good, bad)
    assert error.message.startswith("bad@1: service 'main'")


async def test_a_port_alone_is_no_readiness(bench):
    error = await fails(bench, bench.backend(bench.service(*SLEEP, ports={"p": 80})))
    assert "nothing says when it is ready" in error.message


async def test_an_unknown_version_and_an_unknown_placeholder_are_told(bench):
    error = await fails(bench, bench.backend(bench.web()), version="9")
    assert "has no version '9'" in error.message
    assert error.hint == "it has: 1"
    error = await fails(bench, bench.backend(bench.web(env={"A": "${address.http}"})))
    assert "env A: ${address.http} has no value" in error.message
    assert "service.main" in error.hint


async def test_a_container_that_somebody_removes_is_told(bench):
    spec = bench.backend(bench.service(*SLEEP, ready=ReadySpec(exec=("false",))))

    async def meddle():
        engine = open_engine()
        while True:  # one that is just being started may outlive its removal
            for thing in await engine.things(f"{LABEL}run={bench.scope.run}"):
                if thing.kind == "container":
                    await engine.remove(thing)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(meddle)
        error = await fails(bench, spec)
        tasks.cancel_scope.cancel()
    assert re.search("removed by somebody else|No such container|container is removing", error.message)


# --- the engine ---------------------------------------------------------------------------------


async def test_a_remote_engine_is_refused(bench, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(StackError, match="remote engine is refused") as caught:
        async with bench.open(bench.backend(bench.web())):
            pytest.fail("it stands")
    assert "DOCKER_HOST" in caught.value.hint


async def test_an_engine_that_publishes_elsewhere_is_caught(bench, relay):
    wide = relay(lambda data: data.replace(b'"HostIp": "127.0.0.1"', b'"HostIp": "0.0.0.0"  '))
    with pytest.raises(StackError, match=r"was published on 0\.0\.0\.0:\d+.*; only 127.0.0.1 was asked for"):
        async with bench.open(bench.backend(bench.web())):
            pytest.fail("it stands")
    assert wide
    assert bench.left() == []


async def test_an_engine_that_stops_in_the_middle_is_one_error_and_no_hang(bench, relay, monkeypatch):
    """Whatever number of questions it leaves unanswered."""
    line = relay()
    never = ReadySpec(exec=("false",))
    spec = bench.backend(*(bench.service(*SLEEP, name=name, ready=never) for name in ("one", "two", "three")))

    async def stop():
        while len(bench.steps.waits) < 3:
            await anyio.sleep(0.05)
        line.cut()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            with pytest.raises(StackError, match="went away when asked to"):
                async with bench.open(spec):
                    pytest.fail("it stands")
    assert any("not removed" in note for note in bench.steps.notes)
    monkeypatch.delenv("DOCKER_HOST")
    engine = open_engine()
    for thing in engine.things_now(f"{LABEL}run={bench.scope.run}"):
        engine.remove_now(thing)
    assert bench.left() == []


async def test_what_cannot_be_removed_is_an_error(bench, relay, monkeypatch):
    line = relay()
    with pytest.raises(StackError, match="could not be removed: ") as caught:
        async with bench.open(bench.backend(bench.service(*SLEEP, ready=RUNS))):
            line.cut()
    assert caught.value.hint == "mcp-rollcall reap"
    monkeypatch.delenv("DOCKER_HOST")
    engine = open_engine()
    for thing in engine.things_now(f"{LABEL}run={bench.scope.run}"):
        engine.remove_now(thing)


async def test_a_missing_credential_helper_breaks_no_local_build(bench, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(bench.tmp))
    (bench.tmp / "config.json").write_text('{"credsStore": "nowhere"}')
    spec = bench.backend(
        bench.service(*SLEEP, name="a", image=None, dockerfile="Dockerfile", ready=RUNS),
        bench.service(*SLEEP, name="b", image=None, dockerfile="Dockerfile", ready=RUNS),
        name="creds",
    )
    (spec.folder / "Dockerfile").write_text(f"FROM debian:trixie-slim\nLABEL now={time.time_ns()}\n")
    async with bench.open(spec):
        pass
    assert len([note for note in bench.steps.notes if "docker-credential-nowhere" in note]) == 1
    (spec.folder / "Dockerfile").write_text("FROM example.invalid/no/such:1\n")
    error = await fails(bench, spec)
    assert "docker-credential-nowhere, which is not installed" in error.message
    assert "config.json" in error.message


async def test_images_are_built_once_and_again_when_what_goes_in_changes(bench):
    spec = bench.backend(
        bench.service(*SLEEP, image=None, dockerfile="Dockerfile", ready=RUNS),
        name="built",
        versions={"1": VersionSpec(name="1", build_args={"SUITE": "trixie", "WHICH": "one"})},
    )
    (spec.folder / "Dockerfile").write_text(
        f"ARG SUITE=none\nFROM debian:$SUITE-slim\nARG WHICH=none\nLABEL which=$WHICH now={time.time_ns()}\n"
    )
    role = [RoleChoice(role="r", backend="built", version="1")]
    for _ in range(2):
        await prepare_images(role, {"built": spec}, progress=bench.steps, subject="t")
    assert bench.steps.begun == ["build image built@1"]
    (spec.folder / "file").write_text("new")
    await prepare_images(role, {"built": spec}, progress=bench.steps, subject="t")
    assert len(bench.steps.begun) == 2
    engine = open_engine()
    names = await engine.call("list", lambda c: [i["RepoTags"] for i in c.images(filters={"label": "which=one"})])
    tags = [tag for group in names for tag in group or () if tag.startswith("mcp-rollcall/built-main:1-")]
    assert len(tags) >= 2


# --- cancelled ----------------------------------------------------------------------------------


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.06, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6])
async def test_cancelled_at_any_moment_nothing_is_left(bench, after_s):
    spec = bench.backend(
        bench.web(name="web"),
        bench.service(*SLEEP, name="never", ready=ReadySpec(exec=("sleep", "100")), ready_timeout_s=60),
    )
    with anyio.move_on_after(after_s) as scope:
        async with bench.open(spec):
            pytest.fail("it stands")
    assert scope.cancelled_caught
    assert bench.left() == []


async def test_cancelled_during_provisioning_nothing_is_left(bench):
    spec = bench.backend(
        bench.service(*SLEEP, ready=RUNS), provision=(ProvisionSpec(exec=("sh", "-c", "touch /here; sleep 100")),)
    )
    engine = open_engine()
    async with anyio.create_task_group() as tasks:

        async def stand():
            async with bench.open(spec):
                pytest.fail("it stands")

        tasks.start_soon(stand)
        with anyio.fail_after(20):
            while True:
                things = [t for t in await engine.things(f"{LABEL}run={bench.scope.run}") if t.kind == "container"]
                try:
                    if things and (await engine.execute(things[0].id, ["test", "-e", "/here"])).code == 0:
                        break
                except StackError:
                    pass
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert bench.left() == []


async def test_cancelled_while_the_image_is_built_nothing_is_left(bench):
    spec = bench.backend(bench.service(*SLEEP, image=None, dockerfile="Dockerfile", ready=RUNS), name="slow")
    (spec.folder / "Dockerfile").write_text(f"FROM debian:trixie-slim\nRUN echo {time.time_ns()}; sleep 876\n")
    with anyio.move_on_after(2):
        async with bench.open(spec):
            pytest.fail("it stands")
    assert ("build image slow@1", False) in bench.steps.ended
    engine = open_engine()
    with anyio.fail_after(10):
        while await engine.call("list", lambda c: [i for i in c.containers(all=True) if "876" in i["Command"]]):
            await anyio.sleep(0.1)
    assert bench.left() == []


async def test_an_error_inside_the_stack_passes_through_and_takes_it_down(bench):
    with pytest.raises(ZeroDivisionError):
        async with bench.open(bench.backend(bench.service(*SLEEP, ready=RUNS))):
            _ = 1 / 0
    assert bench.left() == []
