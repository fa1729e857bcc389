"""The menu: `nox -l` lists it. `nox -s integration` does the main job, `nox -s tests` passes the tests."""

import os
import shutil
import sys
from pathlib import Path

import nox

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # this checkout is not installed beside nox

from harness.sessions import register  # noqa: E402

nox.needs_version = ">=2026.8.10"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.error_on_missing_interpreters = True
nox.options.default_venv_backend = "virtualenv"

CHECKED_OUT = ("prometheus-mcp-server", "server-memory")  # by rollout.toml, from git repositories that are made here


def origins(session: nox.Session) -> None:
    """Local git repositories of two examples; equal files give equal commits, so that their builds are reused."""
    env: dict[str, str | None] = dict.fromkeys(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"))  # of a git hook
    env |= {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    who = ["-c", "user.name=examples", "-c", "user.email=examples@example.org", "-c", "commit.gpgsign=false"]
    for name in CHECKED_OUT:
        folder = HERE / ".rollcall" / "origins" / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "examples" / name, folder, ignore=shutil.ignore_patterns(".rollcall", "node_modules"))
        for command in (["init", "-q", "-b", "main", "."], ["add", "-A"], ["commit", "-q", "-m", "as it is here"]):
            session.run("git", "-C", str(folder), *who, *command, env=env, external=True, silent=True)


register(
    projects=["examples"],
    default=["redis-mcp-server"],
    install=["-e", ".[pytest]"],  # some examples have tests in pytest
    before_rollout=origins,
)


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Ruff, lint and format."""
    session.install(*nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(reuse_venv=True)
def types(session: nox.Session) -> None:
    """mypy --strict on harness/."""
    session.install("-e", ".[pytest]", *nox.project.dependency_groups(PROJECT, "types"))
    session.run("mypy")


@nox.session(reuse_venv=True)
def tests(session: nox.Session) -> None:
    """All tests; those for Docker only where there is an engine, unless ROLLCALL_REQUIRE_DOCKER=1."""
    session.install("-e", ".", *nox.project.dependency_groups(PROJECT, "test"))
    # the tests start it hundreds of times: with PYTHONDONTWRITEBYTECODE each would compile it anew
    session.run("python", "-m", "compileall", "-q", "harness")
    session.run(
        "pytest",
        # tests wait more than they work; those that take longest are first in the collection
        *("-n", str(max(4, os.cpu_count() or 1)), "--dist", "loadfile", "--no-loadscope-reorder"),
        *session.posargs,
        env={"NOX_SCRIPT_MODE": None},
        interrupt_timeout=120.0,
        terminate_timeout=60.0,
    )


@nox.session(reuse_venv=True)
def bench(session: nox.Session) -> None:
    """Speed and memory beside others, as a Markdown table; `-- --quick`, `-- --only lines`, `-- --only cycles`."""
    session.install("-e", ".")
    session.run(
        "python",
        "-m",
        "bench",
        *session.posargs,
        env={"NOX_SCRIPT_MODE": None},
        interrupt_timeout=60.0,
        terminate_timeout=30.0,
    )


PROJECT = nox.project.load_toml(HERE / "pyproject.toml")
