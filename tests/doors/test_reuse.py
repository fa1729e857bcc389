"""`--reuse-stacks`: one stack for several runs, said in the evidence and in the first line, and never in doubt."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

GUARD_S = 180
SERVERS = Path(__file__).parent.parent / "servers"

SERVICE = """\
import http.server, json, os, sys
kept, password = [], os.environ["PASSWORD"]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global password
        word, *rest = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode().split()
        if word == "wipe" and rest[0] == password:
            password = rest[1]
            kept.clear()
        elif word == "keep":
            kept.extend(rest)
        self.answer()
    def do_GET(self):
        self.answer()
    def answer(self):
        body = json.dumps({"kept": kept, "password": password}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
BACKEND = """\
schema = 1
name = "keeper"

[secrets]
password = 24

[process]
command = ["python3", "${dir}/service.py", "${port.http}"]
ports = ["http"]
env = { PASSWORD = "${secret.password}" }
ready = { http = "http", body = "${secret.password}" }

[process.files]
"service.py" = '''
SERVICE'''

[[process.reset.steps]]
http = { method = "POST", url = "http://${address.http}/", body = "WIPE" }

[[process.reset.verify]]
http = { url = "http://${address.http}/" }

[outputs]
url = "http://${address.http}/"
password = { value = "${secret.password}", secret = true }
""".replace("SERVICE", SERVICE)
WIPES = "wipe ${former.password} ${secret.password}"
# a server that keeps what it is told in its backend, and says what is there when it is told
SERVER = """\
import json, os, subprocess, sys, time, urllib.request
from raw import refuse, serve, text, tool
url, mode = os.environ["SERVICE_URL"], os.environ.get("MODE", "")
if mode == "daemon":
    command = [sys.executable, "-c", "import time; time.sleep(30)"]
    subprocess.Popen(command, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
def call(name, arguments, message):
    if name == "look" and mode == "dies":
        os._exit(9)
    if name == "keep" and mode == "kills":
        os.kill(os.getppid(), 9)
    if name == "keep" and mode == "hangs":
        open("hanging", "w").close()
        time.sleep(600)
    if name in ("look", "keep"):
        request = urllib.request.Request(url, data=b"keep this" if name == "keep" else None)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return text("kept: " + " ".join(json.loads(answer.read())["kept"]))
    refuse(message, -32602, f"Unknown tool: {name}")
serve(call, tools=[tool("look"), tool("keep")])
"""
HARNESS = """\
schema = 1
[server]
name = "NAME"
command = ["python3", "${repo}/servers/keeps.py"]
env = { SERVICE_URL = "${backend.store.url}" }
eras = ["handshake"]
[backends.store]
use = "keeper"
[profiles.one]
[profiles.two]
[profiles.three]
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""
SUITE = """\
schema = 2
id = "all"
[[case]]
id = "finds-nothing-and-leaves-something"
profiles = ["one", "two", "three"]
[[case.step]]
call = "look"
expect = { text_equals = "kept: " }
[[case.step]]
call = "keep"
expect = { text_equals = "kept: this" }
"""


def repository(project, folder: str = ".", *, wipes: str = WIPES, mode: str = "") -> None:
    """Alone it has three runs, beside others two."""
    name = "server" if folder == "." else folder
    text, suite = HARNESS.replace("NAME", name), SUITE
    if folder != ".":
        text, suite = text.replace("[profiles.three]\n", ""), suite.replace(', "three"', "")
    if mode:
        text = text.replace("[profiles.one]", f'[profiles.one]\nenv = {{ MODE = "{mode}" }}')
    project.write(
        {
            f"{folder}/harness.toml": text,
            f"{folder}/suites/all.toml": suite,
            f"{folder}/servers/keeps.py": SERVER,
            f"{folder}/servers/raw.py": (SERVERS / "raw.py").read_text(encoding="utf-8"),
            f"{folder}/backends/keeper/backend.toml": BACKEND.replace("WIPE", wipes),
        }
    )


def stacks_of(folder: Path) -> dict[str, tuple[int, str]]:
    """Profile -> which run of its stack it was, and the note."""
    records = [json.loads(file.read_text(encoding="utf-8")) for file in folder.rglob("run.json")]
    return {item["profile"]: (item.get("stack_use", 1), item.get("stack_note", "")) for item in records}


def test_runs_share_a_stack_if_they_are_asked_to_and_judging_again_says_the_same(project):
    repository(project)
    alone = project.run("integration", "--runtime", "process")
    assert alone.code == 0, alone.stdout
    assert set(stacks_of(project.root / ".rollcall").values()) == {(1, "")}
    assert alone.report["notes"] == []
    shutil.rmtree(project.root / ".rollcall" / "evidence")
    done = project.run("integration", "--runtime", "process", "--reuse-stacks")
    assert done.code == 0, done.stdout
    assert stacks_of(project.root / ".rollcall") == {"one": (1, ""), "two": (2, ""), "three": (3, "")}
    assert done.report["notes"] == ["server: 2 of 3 runs had a stack that was reset after another run"]
    assert done.report["notes"][0] in done.stdout.splitlines()[0]
    assert done.stderr.count("start keeper@embedded") == 1
    assert {**done.report, "notes": []} == alone.report
    again = project.run("judge")
    assert (again.code, again.report, again.stdout) == (0, done.report, done.stdout)


def test_a_reset_that_forgets_is_a_note_and_no_finding(project):
    repository(project, wipes="keep ${former.password} ${secret.password}")
    text = (project.root / "backends/keeper/backend.toml").read_text(encoding="utf-8")
    # it takes any password, so that only the check can see what is left
    text = text.replace('body = "${secret.password}" }', 'body = "kept" }')
    project.write({"backends/keeper/backend.toml": text})
    done = project.run("integration", "--runtime", "process", "--reuse-stacks")
    assert done.code == 0, done.stdout
    assert {use for use, _ in stacks_of(project.root / ".rollcall").values()} == {1}
    assert [note.partition(" and said")[0].partition(" says ")[0] for note in done.report["notes"]] == [
        f"server keeper@embedded handshake {profile}: its stack could not be reset, and a fresh one took its place: "
        "keeper@embedded: [reset] verify 1"
        for profile in ("three", "two")
    ]
    assert done.report["findings"] == done.report["errors"] == []
    again = project.run("judge")
    assert (again.report, again.stdout) == (done.report, done.stdout)


def test_after_a_run_that_did_not_end_in_peace_comes_a_fresh_stack(project):
    """It had a test command, one of its calls was cancelled, its server died in a call, or left a process behind."""
    modes = "\n".join(f'[profiles.{mode}]\nenv = {{ MODE = "{mode}" }}' for mode in ("dies", "daemon"))
    cancelled = """
[[case]]
id = "cancels"
profiles = ["two"]
[[case.step]]
call = "look"
cancel_after_s = 0.05
"""
    repository(project)
    text = HARNESS.replace("NAME", "server").replace("[profiles.three]", f"[profiles.three]\n{modes}\n[profiles.last]")
    suite = SUITE.replace('"three"]', '"three", "dies", "daemon", "last"]') + cancelled
    text = text.replace("[checks]", 'commands = [["python3", "-c", "pass"]]\n[checks]')
    project.write({"harness.toml": text, "suites/all.toml": suite})
    done = project.run("integration", "--runtime", "process", "--reuse-stacks")
    uses = {profile: use for profile, (use, _) in stacks_of(project.root / ".rollcall").items()}
    assert uses == {"one": 1, "two": 1, "three": 1, "dies": 2, "daemon": 1, "last": 1}, done.stderr
    assert {note for _, note in stacks_of(project.root / ".rollcall").values()} == {""}
    # nobody found what another had left: of the suite only the call that was cancelled can have failed
    failed = [item for item in done.report["findings"] if item["check"] == "suite/step-failed"]
    assert all(item["rerun"].endswith("/cancels") for item in failed), failed
    assert "exit code 9" in done.stdout


def shared(project, **modes: str) -> None:
    """Repositories with one backend between them, each with the mode of its server, and a list of them."""
    for name, mode in modes.items():
        repository(project, name, mode=mode)
        backends = project.root / name / "backends"
        if (project.root / "shared").exists():
            shutil.rmtree(backends)
        else:
            backends.rename(project.root / "shared")
        backends.symlink_to(project.root / "shared")
    entries = "\n".join(f'[[repository]]\npath = "{name}"' for name in modes)
    project.write({"rollout.toml": f"schema = 1\n{entries}\n"})


def test_repositories_of_one_invocation_share_a_backend_of_one_folder(project):
    shared(project, alpha="", beta="")
    repository(project, "gamma")  # its backend says the same, and lies in a folder of its own
    done = project.run("integration", "--project", "*", "--runtime", "process", "--reuse-stacks")
    assert done.code == 0, done.stdout
    assert done.stderr.count("start keeper@embedded") == 2
    assert stacks_of(project.root / "beta") == {"one": (3, ""), "two": (4, "")}
    assert stacks_of(project.root / "gamma") == {"one": (1, ""), "two": (2, "")}


def test_repositories_of_a_rollout_share_too(project):
    shared(project, alpha="", beta="")
    whole = project.run("rollout", "--runtime", "process", "--reuse-stacks", "--jobs", "1")
    assert whole.code == 0, whole.stdout
    assert whole.report["notes"] == [
        "alpha: 1 of 2 runs had a stack that was reset after another run",
        "beta: 2 of 2 runs had a stack that was reset after another run",
    ]
    evidence = project.root / ".rollcall" / "evidence"
    assert stacks_of(evidence / "beta") == {"one": (3, ""), "two": (4, "")}
    logs = [file.read_text() for file in sorted((evidence / ".rollout").glob("*.log"))]
    assert [log.count("start keeper@embedded") for log in logs] == [1, 0]
    assert [log.count("reset keeper@embedded") for log in logs] == [1, 2]
    assert len(list(evidence.glob("beta/**/logs/store.keeper.log"))) == 2
    judged = project.run("rollout", "judge")
    assert (judged.report, judged.stdout) == (whole.report, whole.stdout)


def test_a_child_that_is_killed_and_an_interruption_leave_no_stack_and_no_other_run_gets_it(project, tmp_path):
    shared(project, alpha="", killer="kills", beta="", hangs="hangs", later="")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", "rollout", "--runtime", "process", "--reuse-stacks", "--jobs", "1"],
        cwd=project.root,
        env={**project.environment(), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + GUARD_S
        while not (project.root / "hangs" / "hanging").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        assert len(running(tmp_path)) > 1  # its server, and the stack that it has
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=GUARD_S)[0]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert running(tmp_path) == []
    report = json.loads((project.root / ".rollcall" / "report.json").read_text())
    assert {item["name"]: item["state"] for item in report["repositories"]} == {
        "alpha": "done",
        "killer": "ended",
        "beta": "done",
        "hangs": "interrupted",
        "later": "not-begun",
    }
    evidence = project.root / ".rollcall" / "evidence"
    assert stacks_of(evidence / "alpha") == stacks_of(evidence / "beta") == {"one": (1, ""), "two": (2, "")}
    assert stacks_of(evidence / "hangs") == {"one": (3, "")}
    assert len(list(evidence.glob("hangs/**/logs/store.keeper.log"))) == 1  # its stack outlived its run
    again = project.run("rollout", "judge")
    assert (again.code, again.report) == (130, report)


def running(folder: Path) -> list[str]:
    """Processes that have a folder in their environment or their command, but for us."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{folder}/rollcall-".encode() in text:
            found.append(text.decode(errors="replace"))
    return found
