"""Building: real commands, real virtual environments. Ours, with U032, U064 and U066."""

import dataclasses
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from harness.engine.build import build, fingerprint, state_folder
from harness.engine.python import find_interpreter, interpreters
from harness.engine.scope import open_scope
from harness.errors import BuildError, ConfigError
from harness.model.plan import Place, ProjectSpec, ServerSpec, SuiteSpec
from harness.model.progress import Silent

pytestmark = pytest.mark.anyio


class Noted(Silent):
    def __init__(self):
        self.notes = []

    def note(self, subject, text):
        self.notes.append(text)


def project(root: Path, *commands, **server) -> ProjectSpec:
    spec = ServerSpec(**{"name": "s", "command": ("python3", "server.py"), "build": commands, **server})
    return ProjectSpec(root=root, place=Place(file="harness.toml"), server=spec)


async def built(spec: ProjectSpec, progress=None, **options):
    with open_scope() as scope:
        return await build(spec, state=state_folder(spec.root), scope=scope, progress=progress or Silent(), **options)


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


async def test_a_build_is_reused_until_a_source_changes(tmp_path):
    (tmp_path / "server.py").write_text("1")
    spec = project(tmp_path, sh("echo x >> ../count"), command=("python3", "server.py"))
    count = tmp_path.parent / "count"
    count.unlink(missing_ok=True)
    progress = Noted()
    first = await built(spec)
    again = await built(spec, progress)
    assert first.fingerprint == again.fingerprint
    assert count.read_text() == "x\n"
    assert any("reused" in note for note in progress.notes)
    (tmp_path / "server.py").write_text("2")
    await built(spec)
    assert count.read_text() == "x\nx\n"
    await built(spec, force=True)
    assert count.read_text() == "x\nx\nx\n"


async def test_going_back_to_an_old_state_builds_again_because_the_tree_holds_the_new_one(tmp_path):
    source = tmp_path / "server.py"
    spec = project(tmp_path, sh("mkdir -p dist; cp server.py dist/out"), command=("python3", "dist/out"))
    for text in ("a", "b", "a"):
        source.write_text(text)
        await built(spec)
        assert (tmp_path / "dist/out").read_text() == text


async def test_a_removed_artefact_is_built_again(tmp_path):
    spec = project(tmp_path, sh("mkdir -p dist; echo 1 > dist/out"), command=("python3", "dist/out"))
    await built(spec)
    shutil.rmtree(tmp_path / "dist")
    await built(spec)
    assert (tmp_path / "dist/out").exists()


@pytest.fixture
def checkouts(tmp_path):
    """A repository whose build makes `dist/` and counts itself; clones of it, as CI has them."""
    source, count = tmp_path / "source", tmp_path / "count"
    source.mkdir()
    (source / ".gitignore").write_text("dist/\n.rollcall/\n")
    (source / "server.py").write_text("1")
    git = ["git", "-C", str(source), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)

    def clone(name: str, *, restored: tuple[Path, ...] = ()) -> ProjectSpec:
        root = tmp_path / name
        subprocess.run(["git", "clone", "-q", str(source), str(root)], check=True)
        for path in restored:
            shutil.copytree(path, root / path.name, symlinks=True)
        return project(root, sh(f"echo x >> {count}; mkdir -p dist; cp server.py dist/out"))

    def made() -> int:
        return len(count.read_text().split())

    return clone, made


async def test_a_build_that_a_cache_restored_is_reused_in_a_fresh_checkout_at_the_same_place(checkouts, tmp_path):
    clone, made = checkouts
    await built(with_venv(clone("work")))
    kept = (tmp_path / "work").rename(tmp_path / "cache")
    progress = Noted()
    fresh = with_venv(clone("work", restored=(kept / ".rollcall", kept / "dist")))
    again = await built(fresh, progress)
    assert made() == 1
    assert any("reused" in note for note in progress.notes)
    subprocess.run([again.bin / "python", "-c", "pass"], check=True)


async def test_a_restored_build_without_what_it_left_in_the_tree_is_made_again(checkouts, tmp_path):
    """The command does not name `dist/`, so only git can tell that it is missing."""
    clone, made = checkouts
    await built(clone("work"))
    kept = (tmp_path / "work").rename(tmp_path / "cache")
    progress = Noted()
    await built(clone("work", restored=(kept / ".rollcall",)), progress)
    assert made() == 2
    assert any("dist/" in note for note in progress.notes)


async def test_a_build_that_was_moved_is_made_again_and_the_progress_says_why(checkouts, tmp_path):
    """The programs of a virtual environment hold its path."""
    clone, made = checkouts
    await built(with_venv(clone("work")))
    progress = Noted()
    moved = with_venv(clone("elsewhere", restored=(tmp_path / "work/.rollcall", tmp_path / "work/dist")))
    await built(moved, progress)
    assert made() == 2
    assert any("cannot be moved" in note for note in progress.notes)


def with_venv(spec: ProjectSpec) -> ProjectSpec:
    return dataclasses.replace(spec, server=dataclasses.replace(spec.server, venv=True))


async def test_the_lock_file_is_part_of_the_fingerprint(tmp_path):
    spec = project(tmp_path, ("npm", "ci"))
    before = fingerprint(spec)
    (tmp_path / "package-lock.json").write_text("{}")
    assert fingerprint(spec) != before


async def test_ignored_files_are_no_sources_where_there_is_git(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("out/\n")
    spec = project(tmp_path, sh("true"))
    before = fingerprint(spec)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").write_text("1")
    assert fingerprint(spec) == before
    (tmp_path / "new.py").write_text("1")
    assert fingerprint(spec) != before


async def test_a_pipe_among_the_sources_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    first = fingerprint(project(tmp_path, sh("true")))
    (tmp_path / "pipe").unlink()
    assert fingerprint(project(tmp_path, sh("true"))) != first


async def test_what_interpreters_write_is_no_source_unless_it_is_committed(tmp_path):
    """Loading a noxfile writes `__pycache__` beside it, and not every repository ignores that."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    spec = project(tmp_path, sh("true"))
    before = fingerprint(spec)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/noxfile.cpython-311.pyc").write_bytes(b"1")
    assert fingerprint(spec) == before
    subprocess.run(["git", "-C", str(tmp_path), "add", "-f", "."], check=True)
    assert fingerprint(spec) != before


async def test_a_failing_command_is_named_with_its_exit_code_and_last_lines(tmp_path):
    spec = project(tmp_path, sh("for i in $(seq 100); do echo line $i; done; echo the reason >&2; exit 7"))
    with pytest.raises(BuildError) as caught:
        await built(spec)
    assert "exit code 7" in caught.value.message
    assert "sh -c" in caught.value.message
    assert caught.value.log.splitlines()[-1] == "the reason"
    assert "line 1\n" not in caught.value.log
    assert str(tmp_path) in caught.value.hint


async def test_a_failed_build_is_not_reused(tmp_path):
    spec = project(tmp_path, sh("test -e ../flag"), command=("python3", "-V"))
    (tmp_path.parent / "flag").unlink(missing_ok=True)
    with pytest.raises(BuildError):
        await built(spec)
    (tmp_path.parent / "flag").touch()
    await built(spec)


async def test_a_command_that_is_not_there_is_said_plainly(tmp_path):
    with pytest.raises(BuildError, match="could not be started"):
        await built(project(tmp_path, ("no-such-builder",)))


async def test_a_server_command_that_the_build_did_not_bring_is_a_build_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_TARGET", "/nowhere")
    with pytest.raises(BuildError, match="no-such-server") as caught:
        await built(project(tmp_path, sh("true"), command=("no-such-server",)))
    assert "PIP_TARGET" in caught.value.hint


async def test_installer_variables_do_not_move_the_installation(tmp_path, monkeypatch):
    """U032: where *to* is dropped, where *from* is kept."""
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        textwrap.dedent("""
        [build-system]
        requires = []
        build-backend = "backend"
        backend-path = ["."]
        [project]
        name = "tiny"
        version = "1"
        """)
    )
    (package / "backend.py").write_text(
        textwrap.dedent("""
        import zipfile
        def build_wheel(folder, config=None, metadata=None):
            name = "tiny-1-py3-none-any.whl"
            with zipfile.ZipFile(folder + "/" + name, "w") as z:
                z.writestr("tiny.py", "def main(): print('tiny')")
                z.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
                wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
                z.writestr("tiny-1.dist-info/WHEEL", wheel)
                z.writestr("tiny-1.dist-info/entry_points.txt", "[console_scripts]\\ntiny-server = tiny:main\\n")
                z.writestr("tiny-1.dist-info/RECORD", "")
            return name
        """)
    )
    for name, value in {
        "PIP_TARGET": str(tmp_path / "t"),
        "PIP_USER": "1",
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/y",
        "VIRTUALENV_SYSTEM_SITE_PACKAGES": "1",
    }.items():
        monkeypatch.setenv(name, value)
    install = ("pip", "install", "--no-index", "--no-build-isolation", "./pkg")
    spec = project(tmp_path, install, command=("tiny-server",), venv=True)
    result = await built(spec)
    assert result.bin is not None
    assert (result.bin / "tiny-server").exists()
    assert not (tmp_path / "t").exists()
    assert "include-system-site-packages = false" in (result.bin.parent / "pyvenv.cfg").read_text()
    said = subprocess.run([result.bin / "tiny-server"], capture_output=True, text=True, check=True)
    assert said.stdout == "tiny\n"


async def test_a_cancelled_build_leaves_no_process(tmp_path):
    spec = project(tmp_path, sh("sleep 1234.5 & echo $! > ../pid; wait"))
    pid_file = tmp_path.parent / "pid"
    pid_file.unlink(missing_ok=True)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(built, spec)
            while not pid_file.exists() or not pid_file.read_text().strip():
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_two_builds_at_once_in_one_repository_build_once(tmp_path):
    spec = project(tmp_path, sh("echo x >> ../twice; sleep 0.3"), command=("python3", "-V"))
    (tmp_path.parent / "twice").unlink(missing_ok=True)
    async with anyio.create_task_group() as group:
        group.start_soon(built, spec)
        group.start_soon(built, spec)
    assert (tmp_path.parent / "twice").read_text() == "x\n"


def test_state_that_cannot_be_written_is_said_with_the_option_that_moves_it(tmp_path):
    (tmp_path / ".rollcall").write_text("a file is in the way")
    with pytest.raises(ConfigError) as caught:
        state_folder(tmp_path)
    assert "--state" in caught.value.hint


def test_an_interpreter_counts_only_if_it_ran(tmp_path, monkeypatch):
    shim = tmp_path / "python3.15"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert all(item.path != str(shim) for item in interpreters())
    assert find_interpreter(">=3.11").version >= "3.11"
    with pytest.raises(BuildError, match=r"no Python >=4 that runs"):
        find_interpreter(">=4")


def test_ours_is_preferred_where_it_satisfies():
    ours = ".".join(map(str, sys.version_info[:3]))
    assert find_interpreter(None).version == ours


@pytest.mark.network
async def test_uv_makes_the_environment_where_it_is_installed(tmp_path, monkeypatch):
    """And `pip` still works in it, since that is what the build commands say."""
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", tools], check=True)
    subprocess.run([tools / "bin/pip", "install", "-q", "uv"], check=True)
    monkeypatch.setenv("PATH", f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}")
    root = tmp_path / "repository"
    root.mkdir()
    result = await built(project(root, ("pip", "--version"), command=("python",), venv=True))
    assert result.bin is not None
    assert "uv = " in (result.bin.parent / "pyvenv.cfg").read_text()


async def test_the_reason_is_kept_where_it_stands_above_the_tail(tmp_path):
    """U064: npm prints the reason first and pages of usage after it."""
    spec = project(tmp_path, sh("echo 'npm error can only install with a lock'; seq 200; exit 1"))
    with pytest.raises(BuildError) as caught:
        await built(spec)
    assert caught.value.log.splitlines()[0] == "npm error can only install with a lock"
    assert caught.value.log.splitlines()[-1] == "200"


async def test_npm_ci_without_a_lock_file_has_a_remedy(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    with pytest.raises(BuildError) as caught:
        await built(project(tmp_path, ("npm", "ci")))
    assert "commit" in caught.value.hint
    assert "package-lock.json" in caught.value.log


async def test_warnings_of_a_build_are_at_hand(tmp_path):
    spec = project(tmp_path, sh("echo fine; echo 'npm warn EBADENGINE Unsupported engine'"), command=("python3", "-V"))
    assert (await built(spec)).warnings() == "npm warn EBADENGINE Unsupported engine"


async def test_secrets_of_the_caller_do_not_stay_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "tweet-tweet-1")
    monkeypatch.setenv("PLAIN", "chirp-chirp-2")
    spec = project(tmp_path, sh("echo $MY_TOKEN $PLAIN ${env.PLAIN}; false"))
    with pytest.raises(BuildError) as caught:
        await built(spec)
    (log,) = (tmp_path / ".rollcall/builds").glob("*/build.log")
    for text in (log.read_text(), caught.value.message, caught.value.log, caught.value.hint):
        assert "tweet-tweet-1" not in text
        assert "chirp-chirp-2" not in text


async def test_a_changed_suite_is_no_reason_to_build_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text("a")
    suite = SuiteSpec(id="s", cases=(), place=Place(file="s.toml"))
    spec = dataclasses.replace(project(tmp_path, sh("true")), suites=(suite,))
    before = fingerprint(spec)
    (tmp_path / "s.toml").write_text("b")
    (tmp_path / "harness.toml").write_text("c")
    assert fingerprint(spec) == before
