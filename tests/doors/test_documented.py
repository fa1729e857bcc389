"""Every command that README and docs show is one that a user can run: it is run. Ours."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [path for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if path.name != "commands.md"]
# nox passes them on as they are: tests/doors/test_sessions.py
SESSION = re.compile(r"nox -s (\S+)(?: --)?(.*)")
# sessions of this checkout, which .ci/run runs
OURS = {"tests", "lint", "types", "bench"}
# `try` stands a backend up and has tests of its own, as have passes and the reader's servers; `wiki` is the reader's
ELSEWHERE = re.compile(r"backends (?:try|show wiki)|reap|rollout(?! plan)|tools check(?:$| --? | https:)")
LIST = '{"tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {}}}]}'


def shown():
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        consoles = "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
        commands = re.findall(r"^\$ ((?:mcp-rollcall|nox) .*?)(?: +#.*)?$", consoles, re.MULTILINE)
        commands += re.findall(r"`((?:mcp-rollcall|nox) [^`\n]+)`", text)
        found |= {command: page for command in commands if "…" not in command}
    return found


def words_of(command):
    """The arguments of mcp-rollcall; None for a session that is not one of its commands."""
    if match := SESSION.fullmatch(command):
        return None if match[1] in OURS or "(" in match[1] else [match[1], *shlex.split(match[2])]
    return shlex.split(command.partition(" | ")[0])[1:] if command.startswith("mcp-rollcall ") else None


COMMANDS = sorted({tuple(words) for command in shown() if (words := words_of(command))})


def test_the_pages_show_commands():
    assert {words[0] for words in COMMANDS} >= {"integration", "check", "doctor", "exemptions", "plan"}


def test_every_session_that_is_shown_is_there():
    names = {match[1] for command in shown() if (match := SESSION.fullmatch(command))}
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert all(f"def {name}(" in text for name in names & OURS)


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if not ELSEWHERE.match(" ".join(words))], ids=lambda words: " ".join(words)
)
def test_a_command_that_is_shown_runs(recorded, project, words):
    """Where the evidence of a good server is: whatever it finds, it is no error of usage or configuration."""
    shutil.copytree(recorded.root, project.root, dirs_exist_ok=True)
    (project.root / "lists").mkdir(exist_ok=True)
    for name in ("tools.json", "other.json", "lists/one.json"):
        (project.root / name).write_text(LIST, encoding="utf-8")
    project.write({"rollout.toml": 'schema = 1\n[[repository]]\npath = "."\n'})
    named = "good" if "--server" in words else "redis"
    if "--rollout" in words:  # it speaks of what a pass over the list has come to
        assert project.run("rollout", out="none").code in (0, 1)
    done = project.run(*(named if word == "NAME" else word for word in words))
    if "docker" in words:  # the server has no backend, so there is nothing to be had from an engine
        assert done.code in (0, 1, 5)
        return
    assert done.code in (0, 1), done.stderr
