"""Provisioning: steps in order, captures, secrets that are masked as soon as they are known."""

import pytest

from harness.engine.mask import Masker
from harness.engine.provision import make_outputs, make_secrets, provision, random_secret
from harness.errors import StackError
from harness.model.plan import BackendSpec, OutputSpec, Place, ProvisionSpec

pytestmark = pytest.mark.anyio


def backend(tmp_path, *steps, **more):
    return BackendSpec(name="b", folder=tmp_path, place=Place(file="b"), provision=steps, **more)


async def no_script(number, step, env):
    raise AssertionError(f"step {number} is no script")


async def run(spec, port=1, values=None, masker=None, execute=None, run_script=no_script):
    return await provision(
        spec,
        values or {},
        allowed=[("127.0.0.1", port)],
        masker=masker or Masker(),
        execute=execute,
        run_script=run_script,
    )


def test_secrets_are_long_mixed_and_new_each_time(tmp_path):
    masker = Masker()
    spec = backend(tmp_path, secrets={"password": 24, "key": 16})
    first, second = make_secrets(spec, masker), make_secrets(spec, masker)
    assert len(first["secret.password"]) == 24
    assert len(first["secret.key"]) == 16
    assert first["secret.password"] != second["secret.password"]
    assert masker.text(f"<{first['secret.key']}>") == f"<{'*' * 16}>"
    word = random_secret(16)
    assert word.isalnum()
    assert not word.islower()
    assert not word.isupper()
    assert not word.isalpha()


async def test_http_steps_capture_for_the_steps_after(tmp_path, web_server):
    asked = []

    def answer(method, path, headers, body):
        asked.append((method, path, headers.get("Authorization"), headers.get("X-Of"), body))
        return 201, {}, b'{"data": {"token": "tok-12345678", "n": 5}}'

    with web_server(answer) as port:
        url = f"http://127.0.0.1:{port}"
        spec = backend(
            tmp_path,
            ProvisionSpec(
                url=f"{url}/login",
                method="POST",
                user="app",
                password="${secret.pw}",
                body='{"a": 1}',
                status=(200, 201),
                capture={"token": "/data/token", "n": "/data/n", "all": ""},
            ),
            ProvisionSpec(
                url=f"{url}/made/${{provisioned.n}}",
                method="MKCALENDAR",
                headers={"X-Of": "${provisioned.token}"},
                status=(201,),
            ),
            outputs=(OutputSpec(name="token", value="Bearer ${provisioned.token}", secret=True),),
        )
        masker = Masker()
        got = await run(spec, port, {"secret.pw": "pw"}, masker)
    assert got["provisioned.token"] == "tok-12345678"
    assert got["provisioned.n"] == "5"
    assert got["provisioned.all"].startswith('{"data"')
    assert asked[0] == ("POST", "/login", "Basic YXBwOnB3", None, b'{"a": 1}')
    assert asked[1][:2] == ("MKCALENDAR", "/made/5")
    assert asked[1][3] == "tok-12345678"
    assert masker.text("tok-12345678") == "*" * 12
    assert make_outputs(spec, got, masker) == {"token": "Bearer tok-12345678"}


async def test_exec_steps_capture_what_was_printed(tmp_path):
    async def execute(service, argv):
        return 0, b'{"a~b": {"/": ["x", true]}}\n' if service == "json" else b"made it\n", b"noise"

    spec = backend(
        tmp_path,
        ProvisionSpec(exec=("tool", "${version}"), service="json", capture={"x": "/a~0b/~1/0", "t": "/a~0b/~1/1"}),
        ProvisionSpec(exec=("tool",), capture={"whole": ""}),
    )
    got = await run(spec, values={"version": "8"}, execute=execute)
    assert got == {"provisioned.x": "x", "provisioned.t": "true", "provisioned.whole": "made it"}


async def test_script_steps_get_their_variables_and_capture_as_exec_steps_do(tmp_path):
    seen = []

    async def run_script(number, step, env):
        seen.append((number, step.script, env))
        return (0, b'{"id": "id-of-it"}', b"noise") if number == 1 else (3, b"out", b"err")

    masker = Masker()
    spec = backend(
        tmp_path,
        ProvisionSpec(script="a.sh", env={"API_TOKEN": "${secret.pw}-and-more"}, capture={"id": "/id"}),
        ProvisionSpec(script="b.py", env={"ID": "${provisioned.id}"}),
    )
    with pytest.raises(StackError, match=r"step 2: b\.py ended with exit code 3") as caught:
        await run(spec, values={"secret.pw": "pass-1234"}, masker=masker, run_script=run_script)
    assert caught.value.log == "out\nerr"
    assert seen == [(1, "a.sh", {"API_TOKEN": "pass-1234-and-more"}), (2, "b.py", {"ID": "id-of-it"})]
    assert masker.text("pass-1234-and-more") == "*" * 18


async def test_a_step_that_fails_says_which_and_how(tmp_path, web_server):
    with web_server(lambda *_: (409, {}, b"already there")) as port:
        step = ProvisionSpec(url=f"http://127.0.0.1:{port}/x", status=(200, 201))
        with pytest.raises(StackError) as caught:
            await run(backend(tmp_path, step), port)
    assert caught.value.message.startswith("b: provisioning step 1: GET http://127.0.0.1:")
    assert caught.value.message.endswith("was answered with status 409, expected 200 or 201")
    assert caught.value.log == "already there"

    async def execute(service, argv):
        return 2, b"out", b"err"

    with pytest.raises(StackError, match="step 1: tool x ended with exit code 2") as caught:
        await run(backend(tmp_path, ProvisionSpec(exec=("tool", "x"))), execute=execute)
    assert caught.value.log == "out\nerr"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (ProvisionSpec(url="http://127.0.0.1:2/"), "not http:// to an address of this stack"),
        (ProvisionSpec(url="http://localhost:1/"), "not http:// to an address of this stack"),
        (ProvisionSpec(url="https://127.0.0.1:1/"), "not http:// to an address of this stack"),
        (ProvisionSpec(url="http://127.0.0.1:1@example.org/"), "not http:// to an address of this stack"),
        (ProvisionSpec(url="http://127.0.0.1:1/"), "connection refused"),
        (ProvisionSpec(url="http://127.0.0.1:1/a b"), "cannot be sent"),
        (ProvisionSpec(url="http://${address.http}/"), r"\$\{address.http\} has no value"),
        (ProvisionSpec(exec=("true",)), "process form does not have"),
    ],
)
async def test_steps_that_cannot_be_taken(tmp_path, step, said):
    with pytest.raises(StackError, match=said):
        await run(backend(tmp_path, step))


async def test_captures_that_are_not_there(tmp_path, web_server):
    with web_server(lambda *_: (200, {}, b'{"a": 1}')) as port:
        step = ProvisionSpec(url=f"http://127.0.0.1:{port}/", capture={"x": "/b"})
        with pytest.raises(StackError, match="capture x: there is nothing at /b") as caught:
            await run(backend(tmp_path, step), port)
    assert caught.value.log == '{"a": 1}'
    with web_server(lambda *_: (200, {}, b"<html>")) as port:
        step = ProvisionSpec(url=f"http://127.0.0.1:{port}/", capture={"x": "/b"})
        with pytest.raises(StackError, match="capture x: the answer is not JSON"):
            await run(backend(tmp_path, step), port)


async def test_a_redirect_is_an_answer_and_not_an_order(tmp_path, web_server):
    with web_server(lambda *_: (302, {"Location": "http://192.0.2.1/"}, b"")) as port:
        with pytest.raises(StackError, match="status 302, expected 200"):
            await run(backend(tmp_path, ProvisionSpec(url=f"http://127.0.0.1:{port}/")), port)


async def test_a_step_is_bounded(tmp_path, tcp_server):
    import time

    with tcp_server(lambda sock: time.sleep(1)) as port:
        step = ProvisionSpec(url=f"http://127.0.0.1:{port}/", timeout_s=0.3)
        with pytest.raises(StackError, match=r"0\.3 s"):
            await run(backend(tmp_path, step), port)
