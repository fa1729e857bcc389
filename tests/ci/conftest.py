"""A repository with an MCP server as its owner has it, and what GitHub and GitLab do with a pipeline of it.

The two services are stood in for by as much of them as docs/ci/ uses: fresh checkouts at one path, a fresh HOME for
each job, needs, stages, matrices, conditions, artifacts, caches. A key that is not known here fails the test. Every
step of ours is executed as it is written, but for REPLACED.
"""

import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
FILES = ROOT / "docs/ci"
# The checkout under test is installed beside the tests; PATH leads there.
REPLACED = {"pip install mcp-rollcall": "mcp-rollcall --version"}
# GitHub's runners have an engine; the backends of the sample have no image.
RUNTIME = {"ROLLCALL_RUNTIME": "process"}

HARNESS_TOML = """\
schema = 1
[server]
name = "sample"
build = [["sh", "-c", "mkdir -p node_modules/sample && cp src/*.py node_modules/sample/"]]
command = ["python3", "node_modules/sample/good.py"]
env = { SERVICE_URL = "${backend.service.url}" }
eras = ["handshake"]
[profiles.asking]
elicit = "accept"
[backends.service]
use = ["first", "second"]
[suites]
files = ["suites/*.toml"]
[checks]
client = "off"
"""
SUITE = """\
schema = 2
id = "all"

[[case]]
id = "answers"
[[case.step]]
call = "echo"
arguments = { text = "x" }
[[case.step]]
call = "add"
arguments = { a = 1, b = 2 }
expect = { text_equals = "3" }
[[case.step]]
call = "slow"
arguments = { seconds = 0 }
[[case.step]]
call = "guarded"
arguments = { key = "k" }
confirm = true

[[case]]
id = "asks"
[[case.step]]
call = "ask"
"""
EXEMPTIONS = """\
schema = 1
[sample.exercised]
fail = "it fails on purpose, whatever it is given"
"""
NOXFILE = """\
# /// script
# dependencies = ["nox", "mcp-rollcall"]
# ///
from harness.sessions import register

register()
"""
ECHO = """\
import socketserver, sys


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.request.recv(99))


socketserver.TCPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""
BACKEND = """\
schema = 1
name = "{name}"
[versions.1]
build_args = {{}}
[services.echo]
image = "rollcall.invalid/{name}:1"
ports = {{ tcp = 7 }}
ready = {{ tcp = "tcp", send = "ping", expect = "ping" }}
[process]
command = ["python3", "${{dir}}/echo.py", "${{port.tcp}}"]
ready = {{ tcp = "tcp", send = "ping", expect = "ping" }}
[process.files]
"echo.py" = '''
{echo}'''
[outputs]
url = "tcp://${{address.tcp}}"
"""


@dataclass
class Sample:
    """A git repository with an MCP server, two backends that are alternatives, and a foreign noxfile."""

    root: Path

    def git(self, *words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        subprocess.run(["git", "-C", str(self.root), *who, *words], check=True, env=env, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def commit(self) -> "Sample":
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a change")
        return self


KEPT = """\
schema = 1
[server]
name = "kept"
command = ["python3", "src/good.py"]
eras = ["handshake"]
[profiles.asking]
elicit = "accept"
[suites]
files = ["all.toml"]
[checks]
client = "off"
"""


def _with_a_list(sample: Sample) -> None:
    """A folder, and a checkout whose harness file is kept beside the list; it has tools that nothing exercises."""
    entries = f'[[repository]]\npath = "."\nname = "here"\n[[repository]]\ngit = "{sample.root}"\nname = "kept"\n'
    sample.write("rollout.toml", f'schema = 1\n{entries}harness = "kept/harness.toml"\n')
    sample.write("kept/harness.toml", KEPT)
    suite = (sample.root / "suites/all.toml").read_text(encoding="utf-8")
    old, new = 'call = "slow"\narguments = { seconds = 0 }', 'call = "echo"\narguments = { text = "y" }'
    sample.write("kept/all.toml", suite.replace(old, new))
    sample.commit()


@pytest.fixture(scope="session")
def with_a_list():
    """Makes a list of two repositories of a sample."""
    return _with_a_list


@pytest.fixture
def sample(tmp_path) -> Sample:
    made = Sample(tmp_path / "source")
    made.root.mkdir()
    made.git("init", "--quiet")
    for name in ("good.py", "raw.py"):
        made.write(f"src/{name}", (ROOT / "tests/servers" / name).read_text(encoding="utf-8"))
    made.write("harness.toml", HARNESS_TOML)
    made.write("suites/all.toml", SUITE)
    made.write("exemptions.toml", EXEMPTIONS)
    made.write("noxfile.py", NOXFILE)
    made.write(".gitignore", "node_modules/\n")
    for name in ("first", "second"):
        made.write(f"backends/{name}/backend.toml", BACKEND.format(name=name, echo=ECHO))
    return made.commit()


@dataclass
class Job:
    """A job that ended."""

    name: str
    ok: bool = True
    output: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


class Service:
    """What the two services have in common: a place for checkouts, artifacts and caches."""

    def __init__(self, sample: Sample, place: Path, *, env: dict[str, str]):
        self.sample = sample
        self.place = place
        self.workspace = place / "work" / "sample"  # the same path for every job, as on hosted runners
        self.artifacts: dict[str, Path] = {}
        self.caches: dict[str, Path] = {}
        self.more = env
        self.count = 0

    def fresh(self, name: str) -> Path:
        self.count += 1
        path = self.place / f"{name}-{self.count}"
        path.mkdir(parents=True)
        return path

    def checkout(self) -> None:
        shutil.rmtree(self.workspace, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", str(self.sample.root), str(self.workspace)], check=True)

    def environment(self, home: Path) -> dict[str, str]:
        dropped = ("ROLLCALL_", "GITHUB_", "GITLAB_", "CI_", "NOX_")
        env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        path = os.pathsep.join([os.path.dirname(sys.executable), env["PATH"]])
        return {**env, "PATH": path, "HOME": str(home), "CI": "true", **self.more}

    def shell(self, script: str, env: dict[str, str]) -> tuple[bool, str]:
        lines = [REPLACED.get(line.strip(), line) for line in script.splitlines()]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-c", "\n".join(lines)],
            cwd=self.workspace,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            timeout=300,
        )
        return done.returncode == 0, f"$ {script}\n{done.stdout}"

    def keep(self, paths: list[str], store: Path, home: Path) -> None:
        for index, path in enumerate(paths):
            source = self.expanded(path, home)
            if "*" in path:
                for file in self.workspace.glob(path):
                    _copy(file, store / str(index) / file.relative_to(self.workspace))
            elif source.exists():
                _copy(source, store / str(index))

    def put_back(self, paths: list[str], store: Path, home: Path) -> None:
        for index, path in enumerate(paths):
            if "*" in path and (store / str(index)).exists():
                shutil.copytree(store / str(index), self.workspace, dirs_exist_ok=True)
            elif (store / str(index)).exists():
                shutil.rmtree(self.expanded(path, home), ignore_errors=True)
                _copy(store / str(index), self.expanded(path, home))

    def save(self, key: str, paths: list[str], home: Path) -> None:
        store = self.fresh("cache")
        self.keep(paths, store, home)
        self.caches[key] = store

    def expanded(self, path: str, home: Path) -> Path:
        return home / path[2:] if path.startswith("~/") else self.workspace / path

    def report(self, name: str) -> dict:
        """report.json of an artifact."""
        (found,) = self.artifacts[name].rglob("report.json")
        return json.loads(found.read_text(encoding="utf-8"))


class GitHub(Service):
    """A workflow, executed."""

    JOB = frozenset({"runs-on", "timeout-minutes", "needs", "name", "if", "strategy", "outputs", "steps"})
    STEP = frozenset({"uses", "with", "run", "env", "id", "if", "continue-on-error"})

    def run(self, file: str, *, until: str = "") -> dict[str, Job]:
        """All jobs, or those up to one of them."""
        workflow = YAML(typ="safe").load(FILES / file)
        self.artifacts.clear()
        done: dict[str, Job] = {}
        for job_id, spec in workflow["jobs"].items():
            if until and until in done:
                break
            assert set(spec) <= self.JOB
            assert spec.get("strategy", {"fail-fast": False})["fail-fast"] is False
            needs = spec.get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            before = {name: job for name, job in done.items() if name.split(" ")[0] in needs}
            always = spec.get("if") == "${{ !cancelled() }}"
            assert always or "if" not in spec
            if not always and not all(job.ok for job in before.values()):
                continue
            context = {
                f"needs.{name}.outputs.{key}": v for name, job in before.items() for key, v in job.outputs.items()
            }
            rows = [None]
            if "strategy" in spec:
                rows = json.loads(self.expand(spec["strategy"]["matrix"], context))["include"]
            for index, row in enumerate(rows):
                more = {f"matrix.{key}": value for key, value in (row or {}).items()}
                more["strategy.job-index"] = str(index)
                name = self.expand(spec.get("name", job_id), {**context, **more})
                done[name] = self.job(name, spec, {**context, **more})
        return done

    def job(self, name: str, spec: dict, context: dict[str, str]) -> Job:
        job = Job(name)
        home = self.fresh("home")
        summary, values, after = home / "summary", dict(context), []
        for step in spec["steps"]:
            assert set(step) <= self.STEP
            condition = step.get("if")
            assert condition in (None, "${{ !cancelled() }}")
            if not job.ok and condition is None:
                continue
            if "uses" in step:
                given = {key: self.expand(str(value), values) for key, value in step.get("with", {}).items()}
                ok, said = self.action(step["uses"].partition("@")[0], given, home, after), f"uses {step['uses']}\n"
            else:
                out = home / f"output-{len(values)}"
                env = self.environment(home) | {
                    "GITHUB_ACTIONS": "true",
                    "GITHUB_WORKSPACE": str(self.workspace),
                    "GITHUB_OUTPUT": str(out),
                    "GITHUB_STEP_SUMMARY": str(summary),
                }
                env |= {key: self.expand(value, values) for key, value in step.get("env", {}).items()}
                assert "${{" not in step["run"], "an expression in a script can be made to run anything"
                ok, said = self.shell(step["run"], env)
                for line in out.read_text(encoding="utf-8").splitlines() if out.exists() else ():
                    key, _, value = line.partition("=")
                    values[f"steps.{step['id']}.outputs.{key}"] = value
            job.output += said
            job.ok = job.ok and (ok or step.get("continue-on-error", False))
        if job.ok:
            for call in after:
                call()
        job.outputs = {key: self.expand(value, values) for key, value in spec.get("outputs", {}).items() if job.ok}
        job.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""
        return job

    def action(self, name: str, given: dict[str, str], home: Path, after: list) -> bool:
        match name:
            case "actions/checkout":
                self.checkout()
            case "actions/setup-python":
                assert given["python-version"]
            case "actions/cache" | "actions/cache/restore" | "actions/cache/save":
                paths = given["path"].split()
                if not name.endswith("/save"):
                    others = [key for key in reversed(self.caches) if key.startswith(given["restore-keys"])]
                    found = next((self.caches[key] for key in [given["key"], *others] if key in self.caches), None)
                    if found is not None:
                        self.put_back(paths, found, home)
                if name.endswith("/save"):
                    self.save(given["key"], paths, home)
                elif name == "actions/cache" and given["key"] not in self.caches:
                    after.append(lambda: self.save(given["key"], paths, home))
            case "actions/upload-artifact":
                return self.upload(given)
            case "actions/download-artifact":
                for key, store in self.artifacts.items():
                    if fnmatch.fnmatch(key, given["pattern"]):
                        assert given["merge-multiple"] == "True"
                        shutil.copytree(store, self.workspace / given["path"], dirs_exist_ok=True)
            case _:
                raise AssertionError(f"{name} is not known to the test")
        return True

    def upload(self, given: dict[str, str]) -> bool:
        patterns = given["path"].split()
        found = {path for pattern in patterns for path in self.workspace.glob(pattern)}
        files = {file for path in found for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()}
        if given.get("include-hidden-files") != "True":
            files = {file for file in files if "/." not in f"/{file.relative_to(self.workspace)}"}
        assert not [file for file in files if re.search(r'["<>|*?:\r\n]', str(file.relative_to(self.workspace)))]
        top = self.workspace / patterns[0] if len(patterns) == 1 and "*" not in patterns[0] else self.workspace
        store = self.fresh("artifact")
        for file in files:
            _copy(file, store / file.relative_to(top))
        assert given["name"] not in self.artifacts, "names of artifacts are used once"
        if files:
            self.artifacts[given["name"]] = store
        return bool(files) or given.get("if-no-files-found") != "error"

    def expand(self, text: str, values: dict[str, str]) -> str:
        def value(match: re.Match) -> str:
            expression = match[1]
            if inner := re.fullmatch(r"fromJSON\((.+)\)", expression):
                expression = inner[1]
            if inner := re.fullmatch(r"hashFiles\((.+)\)", expression):
                return self.hashed(re.findall(r"'([^']*)'", inner[1]))
            return {"runner.os": "Linux", "github.run_id": "7", "github.run_attempt": "1", **values}[expression]

        return re.sub(r"\$\{\{ (.+?) \}\}", value, text)

    def hashed(self, patterns: list[str]) -> str:
        files = {str(path.relative_to(self.workspace)) for path in self.workspace.rglob("*") if path.is_file()}
        chosen: set[str] = set()
        for pattern in patterns:
            form = re.escape(pattern.removeprefix("!")).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
            matched = {name for name in files if re.fullmatch(form, name)}
            chosen = chosen - matched if pattern.startswith("!") else chosen | matched
        digest = hashlib.sha256()
        for name in sorted(chosen):
            digest.update((self.workspace / name).read_bytes())
        return digest.hexdigest()


class GitLab(Service):
    """A pipeline, executed, with the child pipelines that it starts."""

    KEYWORDS = ("default", "variables", "stages")
    JOB = frozenset(
        {"image", "timeout", "variables", "stage", "when", "needs", "trigger"}
        | {"cache", "script", "artifacts", "parallel", "allow_failure", "extends"}
    )

    def run(self, file: str, *, local: dict[str, str] | None = None, only: str = "") -> dict[str, Job]:
        """All jobs, or one of them alone."""
        self.artifacts.clear()
        spec = YAML(typ="safe").load(FILES / file)
        return self.pipeline({only: spec[only]} if only else spec, local or {})

    def pipeline(self, spec: dict, local: dict[str, str]) -> dict[str, Job]:
        done: dict[str, Job] = {}
        stages = spec.get("stages", ["test"])
        jobs = [(name, self.extended(job, spec)) for name, job in spec.items() if name not in self.KEYWORDS]
        jobs = [(name, job) for name, job in jobs if not name.startswith(".")]
        for name, job in sorted(jobs, key=lambda item: stages.index(item[1].get("stage", stages[0]))):
            assert set(job) <= self.JOB
            if job.get("when") != "always" and not all(item.ok for item in done.values()):
                continue
            if "trigger" in job:
                done |= self.pipeline(self.included(job["trigger"]["include"], local), local)
                continue
            rows = job.get("parallel", {}).get("matrix", [{}])
            before = list(self.artifacts)
            for row in rows:
                given = {key: value.replace("$$", "$") for key, value in row.items()}
                full = f"{name}: [{', '.join(given.values())}]" if given else name
                assert len(full) <= 255, "of a longer name GitLab makes no pipeline, without a word"
                done[full] = self.job(full, job, {**spec.get("variables", {}), **self.variables(job)}, given, before)
        return done

    def variables(self, job: dict) -> dict[str, str]:
        return {key: value.replace("$$", "$") for key, value in job.get("variables", {}).items()}

    def extended(self, job: dict, spec: dict) -> dict:
        whole: dict = {}
        _merge(whole, spec.get(job.get("extends"), {}))
        _merge(whole, job)
        return whole

    def included(self, parts: list[dict], local: dict[str, str]) -> dict:
        whole: dict = {}
        for part in parts:
            path = FILES / local[part["local"]] if "local" in part else self.artifacts[part["job"]] / part["artifact"]
            _merge(whole, YAML(typ="safe").load(path))
        return whole

    def job(self, name: str, spec: dict, variables: dict, row: dict[str, str], before: list[str]) -> Job:
        job = Job(name)
        home = self.fresh("home")
        self.checkout()
        values = {"CI_PROJECT_DIR": str(self.workspace)}
        env = self.environment(home) | values
        env |= {
            key: value.replace("$CI_PROJECT_DIR", values["CI_PROJECT_DIR"]) for key, value in variables.items()
        } | row
        cache = spec.get("cache", {})
        paths, key, policy = cache.get("paths", []), str(cache.get("key")), cache.get("policy", "pull-push")
        if key in self.caches and "pull" in policy:
            self.put_back(paths, self.caches[key], home)
        for other in before:
            shutil.copytree(self.artifacts[other], self.workspace, dirs_exist_ok=True)
        job.ok, job.output = self.shell("\n".join(spec["script"]), {**env, "GITLAB_CI": "true"})
        if paths and "push" in policy and (job.ok or cache.get("when") == "always"):
            self.save(key, paths, home)
        if job.ok or spec.get("artifacts", {}).get("when") == "always":
            store = self.fresh("artifact")
            for pattern in spec["artifacts"]["paths"]:
                for path in self.workspace.glob(pattern):
                    _copy(path, store / path.relative_to(self.workspace))
            junit = spec["artifacts"].get("reports", {}).get("junit")
            assert junit is None or (store / junit).is_file()
            self.artifacts[name] = store
        job.ok = job.ok or spec.get("allow_failure") is True
        return job


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _merge(whole: dict, part: dict) -> None:
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(whole.get(key), dict):
            _merge(whole[key], value)
        else:
            whole[key] = value


@pytest.fixture
def github(sample, tmp_path) -> GitHub:
    return GitHub(sample, tmp_path / "github", env=RUNTIME)


@pytest.fixture
def gitlab(sample, tmp_path) -> GitLab:
    return GitLab(sample, tmp_path / "gitlab", env={})
