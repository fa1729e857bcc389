"""The process form: a real process on free ports of 127.0.0.1, ready, watched, and gone at the end."""

import os
import re
import socket
import sys
from pathlib import Path

import anyio
import pytest

from harness.engine.embedded import listeners
from harness.engine.environment import BASE_NAMES
from harness.engine.mask import Masker
from harness.engine.scope import open_scope
from harness.engine.stack import open_stack
from harness.errors import StackError
from harness.model.plan import EmbeddedSpec, OutputSpec, ProvisionSpec, ReadySpec, RoleChoice
from harness.model.progress import Silent

pytestmark = pytest.mark.anyio

SERVER = """
import http.server, json, os, socketserver, sys, subprocess
host, port, *more = sys.argv[1:]
print("my password is", os.environ.get("PASSWORD"), flush=True)
if "child" in more:
    subprocess.Popen([sys.executable, "-c", "import time, signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
                     start_new_session=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "file": open("conf/x").read()}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer((host, int(port)), Handler).serve_forever()
"""
READY = ReadySpec(http="http", body='"cwd"')


def program(code, *args):
    return (sys.executable, "-c", code, *args)


def backend(bench, *args, command=None, **more):
    outputs = more.pop("outputs", (OutputSpec(name="url", value="http://${address.http}/"),))
    provision = more.pop("provision", ())
    process = EmbeddedSpec(
        command=command or program(SERVER, *(args or ("127.0.0.1", "${port.http}"))),
        ports=("http",),
        env={"PASSWORD": "${secret.password}"},
        files={"conf/x": "I know ${secret.password}"},
        ready=more.pop("ready", READY),
        **more,
    )
    return bench.backend(process=process, secrets={"password": 24}, outputs=outputs, provision=provision)


def living(bench):
    """Commands of processes that have the scope's folder in their environment."""
    out = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(bench.scope.tmp) in (entry / "environ").read_bytes():
                out.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return out


async def fails(bench, spec):
    with anyio.fail_after(30), pytest.raises(StackError) as caught:
        async with bench.open(spec, runtime="process"):
            pytest.fail("it stands")
    assert living(bench) == []
    return caught.value


async def test_it_stands_and_is_gone_at_the_end(bench, monkeypatch):
    monkeypatch.setenv("CANARY", "tweet")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    spec = backend(
        bench,
        version_command=program("print('thing v1.2.3')"),
        version_matches=r"v(\d+\.\d+\.\d+)",
        outputs=(
            OutputSpec(name="url", value="http://${address.http}/"),
            OutputSpec(name="n", value="${provisioned.n}"),
        ),
        provision=(ProvisionSpec(url="http://${address.http}/", capture={"n": "/cwd"}),),
    )
    async with bench.open(spec, runtime="process") as stack:
        assert stack.versions == {"thing@embedded": "1.2.3"}
        (address,) = stack.addresses
        assert stack.values["backend.thing.url"] == f"http://127.0.0.1:{address[1]}/"
        assert Path(stack.values["backend.thing.n"]).is_relative_to(bench.scope.tmp)
        assert len(living(bench)) == 1
        assert (await stack.logs())["thing.thing"] == b"my password is " + b"*" * 24 + b"\n"
    assert living(bench) == []
    with socket.socket() as sock:
        assert sock.connect_ex(address) != 0
    assert [path.name for path in bench.scope.tmp.iterdir()] == ["owner.json"]


MAKES = """#!/no/such/python
import json, os, sys
print("noise", file=sys.stderr)
json.dump({"python": sys.executable, "word": os.environ["WORD"], "own": os.environ["PASSWORD"],
           "canary": os.environ.get("CANARY", ""), "cwd": os.getcwd(), "file": open("conf/x").read()}, sys.stdout)
"""


async def test_scripts_run_beside_the_service_and_a_python_file_in_its_python(bench, monkeypatch):
    monkeypatch.setenv("CANARY", "tweet")
    names = ("python", "word", "own", "canary", "file")
    spec = backend(
        bench,
        provision=(
            ProvisionSpec(
                script="make.py", env={"WORD": "${address.http}"}, capture={name: f"/{name}" for name in names}
            ),
            ProvisionSpec(script="make.sh", capture={"sh": ""}),
        ),
        outputs=tuple(OutputSpec(name=name, value=f"${{provisioned.{name}}}") for name in (*names, "sh")),
    )
    (spec.folder / "make.py").write_text(MAKES)
    (spec.folder / "make.sh").write_text("#!/bin/sh\necho made; (setsid sleep 600 >/dev/null 2>&1 &)\n")
    async with bench.open(spec, runtime="process") as stack:
        got = {key.rpartition(".")[2]: value for key, value in stack.values.items()}
        password = got["own"]
        assert got["python"] == sys.executable
        assert got["word"].startswith("127.0.0.1:")
        assert got["canary"] == ""
        assert got["file"] == f"I know {password}"
        assert got["sh"] == "made"
    assert living(bench) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\nexit 4\n", "exit code 4"),
        ("#!/no/such/thing\n", "cannot be run"),
        ("#!/bin/sh\nsleep 600\n", "1 s"),
    ],
)
async def test_a_script_that_fails_is_an_error_and_leaves_nothing(bench, text, said):
    spec = backend(bench, provision=(ProvisionSpec(script="make.sh", timeout_s=1),))
    (spec.folder / "make.sh").write_text(text)
    error = await fails(bench, spec)
    assert said in error.message


async def test_its_environment_is_made_from_nothing(bench, monkeypatch):
    import json
    import urllib.request

    monkeypatch.setenv("CANARY", "tweet")
    monkeypatch.setenv("NO_PROXY", "*")
    async with bench.open(backend(bench), runtime="process") as stack:
        with urllib.request.urlopen(stack.values["backend.thing.url"], timeout=5) as answer:
            seen = json.loads(answer.read())
    env = seen["env"]
    assert set(env) - {"LC_CTYPE"} == {*BASE_NAMES, "PASSWORD"}
    for name in ("HOME", "TMPDIR"):
        assert Path(env[name]).is_relative_to(bench.scope.tmp)
    assert seen["file"] == f"I know {env['PASSWORD']}"


async def test_two_at_once_have_ports_of_their_own(bench):
    from dataclasses import replace

    spec = backend(bench)
    async with bench.open(spec, replace(spec, name="second"), runtime="process") as stack:
        assert len(set(stack.addresses)) == 2


async def test_children_that_left_the_session_are_ended_too(bench):
    async with bench.open(backend(bench, "127.0.0.1", "${port.http}", "child"), runtime="process"):
        assert len(living(bench)) == 2
    assert living(bench) == []


async def test_a_process_that_dies_is_told_at_once_with_its_log(bench):
    spec = backend(bench, command=program("print('no licence'); raise SystemExit(3)"))
    error = await fails(bench, spec)
    assert error.message.startswith("thing@embedded: it ended with exit code 3 after ")
    seen = r" Last seen: (GET http://127\.0\.0\.1:.*connection refused|nothing was seen yet)\. "  # it may be gone first
    assert re.search(seen + r"Its process ended with exit code 3\.$", error.message)
    assert error.log == "no licence"


async def test_a_process_that_is_never_ready_is_given_up(bench):
    error = await fails(bench, backend(bench, command=program("import time; time.sleep(99)"), ready_timeout_s=1))
    assert "it was not ready within 1 s. Last seen: GET http://127.0.0.1:" in error.message
    assert error.message.endswith("connection refused. Its process is alive.")


async def test_a_process_that_ignores_term_is_killed(bench):
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN)\n" + SERVER
    spec = backend(bench, command=program(stubborn, "127.0.0.1", "${port.http}"))
    async with bench.open(spec, runtime="process"):
        pass
    assert living(bench) == []


async def test_a_port_that_was_taken_meanwhile_is_tried_again_with_another(bench):
    once = f"""
import os, sys
mark = {str(bench.tmp / "mark")!r}
if not os.path.exists(mark):
    open(mark, "w").close(); raise SystemExit("OSError: [Errno 98] Address already in use")
"""
    spec = backend(bench, command=program(once + SERVER, "127.0.0.1", "${port.http}"))
    async with bench.open(spec, runtime="process") as stack:
        assert len(stack.addresses) == 1
    assert any("trying other ports" in note for note in bench.steps.notes)
    spec = backend(bench, command=program("raise SystemExit('Address already in use')"))
    assert "taken by somebody else, 3 times" in (await fails(bench, spec)).message


async def test_somebody_elses_answer_on_the_port_is_not_taken_for_ours(bench):
    stranger = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], env={"PASSWORD": "x"}, start_new_session=True, stdout=2)
time.sleep(99)
"""
    spec = backend(bench, command=program(stranger, SERVER + "\n#stranger", "127.0.0.1", "${port.http}"))
    try:
        assert "taken by somebody else" in (m := (await fails(bench, spec)).message) or "is not the service" in m
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if b"\n#stranger\0" in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), 9)
            except OSError:
                continue


async def test_a_service_that_is_open_to_others_is_refused(bench):
    error = await fails(bench, backend(bench, "0.0.0.0", "${port.http}"))
    assert "it listens on 0.0.0.0 port" in error.message
    assert "bind 127.0.0.1 only" in error.hint


async def test_a_backend_without_a_process_form_says_so(bench):
    error = await fails(bench, bench.backend())
    assert error.message.startswith("backend thing has no process form")
    assert "Docker" in error.hint


async def test_what_cannot_be_started_is_an_error(bench):
    assert "no program 'no-such-thing'" in (await fails(bench, backend(bench, command=("no-such-thing",)))).message
    step = (ProvisionSpec(exec=("true",)),)
    assert "inside a container" in (await fails(bench, backend(bench, provision=step))).message
    assert "${port.x}" not in (await fails(bench, backend(bench, command=("no-such-${nothing}",)))).message


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 0.5])
async def test_cancelled_at_any_moment_nothing_is_left(bench, after_s):
    spec = backend(bench, command=program("import time; time.sleep(99)"))
    with anyio.move_on_after(after_s) as scope:
        async with bench.open(spec, runtime="process"):
            pytest.fail("it stands")
    assert scope.cancelled_caught
    assert living(bench) == []


async def test_a_talkative_service_fills_nobodys_memory(bench):
    chatter = """
import sys, threading
threading.Thread(target=lambda: [sys.stderr.write("x" * 999 + "\\n") for _ in range(20000)]).start()
"""
    spec = backend(bench, command=program(chatter + SERVER, "127.0.0.1", "${port.http}"))
    async with bench.open(spec, runtime="process") as stack:
        with anyio.fail_after(10):
            while b"left out" not in (log := (await stack.logs())["thing.thing"]):
                await anyio.sleep(0.05)
    assert len(log) < 5 * 1024 * 1024


def test_listeners_are_found_with_their_addresses():
    with socket.socket() as sock, socket.socket(socket.AF_INET6) as other:
        sock.bind(("127.0.0.1", 0))
        other.bind(("::1", 0))
        sock.listen()
        other.listen()
        found = listeners([os.getpid()])
        assert {("127.0.0.1", sock.getsockname()[1]), ("::1", other.getsockname()[1])} <= found
    assert listeners([]) == set()


# --- installing ---------------------------------------------------------------------------------


def wheel(folder, name="thingd"):
    """A package with a console script, made by hand; nothing is fetched."""
    import base64
    import hashlib
    import zipfile

    files = {
        f"{name}.py": "import sys\ndef main():\n    exec(open(sys.argv[1]).read(), {})\n",
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = ""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{member},sha256={digest},{len(text)}\n"
        archive.writestr(f"{name}-1.0.dist-info/RECORD", record + f"{name}-1.0.dist-info/RECORD,,\n")
    return path


async def test_packages_are_installed_once_and_a_half_made_venv_is_never_used(bench, tmp_path):
    spec = backend(bench, command=("thingd", "${dir}/serve.py"), install=("--no-index", str(wheel(tmp_path))))
    process = spec.process
    serve = f"import sys\nsys.argv[1:] = ['127.0.0.1', '${{port.http}}']\n{SERVER}"
    from dataclasses import replace

    spec = replace(spec, process=replace(process, files={**process.files, "serve.py": serve}))
    home = bench.state / "backends"

    async def stand(scope):
        async with open_stack(
            [RoleChoice(role="r", backend="thing", version="embedded")], {"thing": spec}, runtime="process",
            scope=scope, masker=Masker(), progress=Silent(), subject="t", state=bench.state,
        ):  # fmt: skip
            pass

    with anyio.move_on_after(0.8):  # in the middle of making it
        await stand(bench.scope)
    assert not [path for path in home.iterdir() if path.is_symlink() or ".venv-" in path.name]
    (mark,) = {path.name.partition(".")[0] for path in home.iterdir()}
    (home / f"{mark}.venv-half" / "bin").mkdir(parents=True)  # as after kill -9
    with open_scope() as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stand, bench.scope)
            tasks.start_soon(stand, other)
    (venv,) = [path for path in home.iterdir() if ".venv-" in path.name]
    assert (home / mark).resolve() == venv.resolve()
    await stand(bench.scope)
    assert [path for path in home.iterdir() if ".venv-" in path.name] == [venv]


async def test_what_pip_said_is_masked_before_it_is_cut(bench, monkeypatch):
    """Of the caller's variables that are named like secrets; the name of a package stands in for one here."""
    monkeypatch.setenv("INDEX_TOKEN", "no-such-package-of-ours-4711")
    error = await fails(bench, backend(bench, install=("--no-index", "no-such-package-of-ours-4711")))
    assert "No matching distribution" in error.log
    assert "of-ours" not in error.log


async def test_an_installation_that_fails_shows_what_pip_said(bench):
    spec = backend(bench, install=("--no-index", "no-such-package-of-ours"))
    error = await fails(bench, spec)
    assert "pip install --no-index no-such-package-of-ours` ended with exit code 1" in error.message
    assert "No matching distribution" in error.log
    assert not [path for path in (bench.state / "backends").iterdir() if ".venv-" in path.name]
    error = await fails(bench, backend(bench, install=("x",), python=">=99"))
    assert "no Python >=99 that runs was found" in error.message
