"""Ready: twice in a row, over a protocol, and never longer than it was given."""

import time

import anyio
import pytest

from harness.engine.mask import Masker
from harness.engine.ready import Observation, command_probe, network_probe, wait_ready
from harness.model.plan import ReadySpec

pytestmark = pytest.mark.anyio


async def alive():
    return None


def looks(*results):
    left = list(results)

    async def probe():
        return Observation(left[0], f"look {len(results) - len(left) + 1}") if len(left) == 1 else _take(left, results)

    return probe


def _take(left, results):
    return Observation(left.pop(0), f"look {len(results) - len(left)}")


async def test_one_pass_is_not_enough():
    seen = []
    waited = await wait_ready(looks(True, False, True, True), alive, timeout_s=5, seen=seen.append)
    assert waited.ready
    assert len(seen) == 4


async def test_the_end_of_the_service_ends_the_wait_at_once():
    async def watch():
        return "exited with exit code 3"

    waited = await wait_ready(looks(False), watch, timeout_s=60)
    assert not waited.ready
    assert waited.ended == "exited with exit code 3"
    assert waited.seconds < 1


async def test_a_check_that_hangs_does_not_hide_the_services_end():
    async def watch():
        return "dead" if time.monotonic() > until else None

    until = time.monotonic() + 0.5
    waited = await wait_ready(anyio.sleep_forever, watch, timeout_s=60)
    assert waited.ended == "dead"
    assert waited.seconds < 2


async def test_a_wait_is_never_longer_than_it_was_given():
    waited = await wait_ready(looks(False), alive, timeout_s=0.5)
    assert not waited.ready
    assert waited.ended is None
    assert 0.4 < waited.seconds < 1.5
    assert waited.observation.startswith("look ")


async def test_a_port_that_only_accepts_is_no_answer(tcp_server):
    with tcp_server(lambda sock: sock.close()) as port:
        spec = ReadySpec(tcp="p", send="PING\r\n", expect="+PONG")
        seen = await network_probe(spec, {"p": ("127.0.0.1", port)}, {})()
        assert seen == Observation(False, f"127.0.0.1:{port}: port open, no answer")
        seen = await network_probe(ReadySpec(http="p"), {"p": ("127.0.0.1", port)}, {})()
        assert seen == Observation(False, f"GET http://127.0.0.1:{port}/: port open, no answer")


async def test_tcp_expects_bytes_that_may_come_in_pieces(tcp_server):
    def talk(sock):
        assert sock.recv(99) == b"AUTH pw\r\n"
        sock.sendall(b"+O")
        sock.sendall(b"K\r\n")

    with tcp_server(talk) as port:
        spec = ReadySpec(tcp="p", send="AUTH ${secret.x}\r\n", expect="+OK\r\n")
        assert (await network_probe(spec, {"p": ("127.0.0.1", port)}, {"secret.x": "pw"})()).ok
        spec = ReadySpec(tcp="p", send="AUTH pw\r\n", expect="+PONG")
        seen = await network_probe(spec, {"p": ("127.0.0.1", port)}, {})()
        assert seen.text == f"127.0.0.1:{port}: answered '+OK\\r\\n', expected '+PONG'"


async def test_nothing_there_is_connection_refused(tcp_server):
    with tcp_server(lambda sock: None) as port:
        pass
    for spec in (ReadySpec(tcp="p", expect="x"), ReadySpec(http="p")):
        assert "connection refused" in (await network_probe(spec, {"p": ("127.0.0.1", port)}, {})()).text


async def test_http_is_judged_by_status_and_body(web_server):
    def answer(method, path, headers, body):
        assert headers["Authorization"] == "Basic YXBwOnB3"
        return {"/ok": 200, "/moved": 302}.get(path, 503), {"Location": "/ok"}, b"all is well"

    with web_server(answer) as port:
        at = {"p": ("127.0.0.1", port)}

        async def look(**more):
            return await network_probe(ReadySpec(http="p", user="app", password="${secret.x}", **more), at, values)()

        values = {"secret.x": "pw"}
        assert (await look(path="/ok", body="well")).ok
        assert (await look(path="/bad", method="PROPFIND", status=(207, 503))).ok
        assert "'bad' is not in the answer 'all is well'" in (await look(path="/ok", body="bad")).text
        assert "status 503, expected 200: 'all is well'" in (await look(path="/bad")).text
        assert "status 302" in (await look(path="/moved")).text  # no redirect is followed


async def test_no_proxy_stands_between(monkeypatch, web_server):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with web_server(lambda *_: (200, {}, b"")) as port:
        assert (await network_probe(ReadySpec(http="p"), {"p": ("127.0.0.1", port)}, {})()).ok


async def test_what_is_not_http_is_said(tcp_server):
    with tcp_server(lambda sock: (sock.recv(999), sock.sendall(b"220 mail\r\n"))) as port:
        assert "no HTTP answer" in (await network_probe(ReadySpec(http="p"), {"p": ("127.0.0.1", port)}, {})()).text


async def test_a_command_is_judged_by_its_exit_code():
    async def run(argv):
        return (0, "") if argv == ["true"] else (7, "not yet\n")

    assert (await command_probe(["true"], run)()).ok
    assert (await command_probe(["false"], run)()).text == "the check's exit code is 7: 'not yet'"


async def test_what_a_check_printed_is_masked_before_it_is_cut():
    """Half a secret could not be found afterwards."""

    async def run(_argv):
        return 1, "x" * 295 + "t9-secret-of-the-stack"

    observation = await command_probe(["check"], run, Masker(["t9-secret-of-the-stack"]))()
    assert observation.text.endswith("x*****…'")
