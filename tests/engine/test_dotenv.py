"""`.env` files are judged by the guard: what two real servers were seen to read past a clean environment. Ours."""

import pytest

from harness.engine.dotenv import foreign_targets, read_dotenv

STACK = [("127.0.0.1", 6001)]


def told(root, text, declared=None, folder="a/b"):
    (root / ".env").write_text(text)
    (root / folder).mkdir(parents=True, exist_ok=True)
    return foreign_targets([root / folder], declared or {}, allowed=STACK)


@pytest.mark.parametrize(
    "text",
    ["DATABASE_URL=postgres://prod.example/db", 'export REDIS_URL = "redis://10.0.0.5:6379"',
     "DB_HOST=db.internal\nDB_PORT=5432", "A=1\nAPI_BASE_URL='https://api.example.com' # prod\n"],
)  # fmt: skip
def test_an_address_elsewhere_is_told_with_file_and_name(tmp_path, text):
    (line, *_) = told(tmp_path, text)
    assert str(tmp_path / ".env") in line
    assert "example" not in line.removeprefix(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    ["", "LOG_LEVEL=debug", "TOKEN=abc", "# DATABASE_URL=postgres://prod/db", "\x00\xff",
     "REDIS_URL=redis://127.0.0.1:6001/0", "DATA_DIR=/srv/data", "TIME=12:30", "not a dotenv file at all: postgres://x/y"],
)  # fmt: skip
def test_what_points_nowhere_is_no_matter(tmp_path, text):
    assert told(tmp_path, text) == ()


def test_what_is_declared_wins_over_the_file(tmp_path):
    assert told(tmp_path, "DATABASE_URL=postgres://prod.example/db", {"DATABASE_URL": "redis://127.0.0.1:6001"}) == ()


def test_every_folder_above_is_looked_at(tmp_path):
    assert told(tmp_path, "U_URL=http://prod.example/", folder="x/y/z")


def test_quotes_exports_and_comments_are_read(tmp_path):
    path = tmp_path / ".env"
    path.write_text("export A=1\nB = 'two words' # no\nC=\"x#y\"\nD=plain # comment\nE=\n")
    assert read_dotenv(path) == {"A": "1", "B": "two words", "C": "x#y", "D": "plain", "E": ""}
