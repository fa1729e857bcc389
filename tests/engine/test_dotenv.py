"""`.env` files are judged by the guard: what two real servers were seen to read past a clean environment. Ours."""

import pytest

from harness.engine.dotenv import DOTENV_LIMIT_VALUES, foreign_targets, named_dotenv_files, read_dotenv

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


def test_a_file_that_overrides_what_is_declared_is_refused_too(tmp_path):
    """`load_dotenv(override=True)` lets the file win."""
    (line,) = told(tmp_path, "DATABASE_URL=postgres://prod.example/db", {"DATABASE_URL": "redis://127.0.0.1:6001"})
    assert "reads_dotenv = false" in line


def test_the_guards_own_verdict_on_what_is_declared_is_not_given_again(tmp_path):
    assert told(tmp_path, "LOG=1", {"OWN_URL": "http://127.0.0.1:9999/"}) == ()


def test_half_a_pair_is_judged_with_the_half_that_is_declared(tmp_path):
    declared = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": "6001"}
    assert told(tmp_path, "REDIS_HOST=127.0.0.1", declared) == ()
    assert told(tmp_path, "REDIS_PORT=6379", declared) != ()


@pytest.mark.parametrize(
    "name", [".env", ".env.local", ".env.production", ".env.development.local"]
)  # fmt: skip
def test_kin_of_the_file_are_judged(tmp_path, name):
    (tmp_path / name).write_text("U_URL=http://prod.example/")
    assert foreign_targets([tmp_path], {}, allowed=STACK) != ()


@pytest.mark.parametrize("name", [".env.example", ".env.sample", ".env.local.template", ".envrc"])
def test_templates_that_nobody_loads_are_not(tmp_path, name):
    (tmp_path / name).write_text("U_URL=http://prod.example/")
    assert foreign_targets([tmp_path], {}, allowed=STACK) == ()


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbfREDIS_URL=redis://prod", b"REDIS_URL: redis://prod:6379", b"'REDIS_URL'=redis://prod:6379",
     b"REDIS_HOST=`prod`", "REDIS_URL=redis://prod:6379".encode("utf-16"), b'X="\nREDIS_URL=redis://prod:6379\n',
     b"X='\nY=\"\nREDIS_URL=redis://prod\nZ=\"\n", b'X="a\nREDIS_URL=redis://prod\n"', b"REDIS_PORT=6379"],
)  # fmt: skip
def test_every_way_to_write_it_is_read(tmp_path, data):
    (tmp_path / ".env").write_bytes(data)
    assert any("REDIS_" in line for line in foreign_targets([tmp_path], {}, allowed=STACK))


@pytest.mark.parametrize("text", ["X=1\n" * 300_000, "".join(f"V{n}=1\n" for n in range(DOTENV_LIMIT_VALUES + 1))])
def test_a_file_too_large_to_judge_is_refused_in_words(tmp_path, text):
    (line,) = told(tmp_path, text)
    assert "reads_dotenv = false" in line


@pytest.mark.parametrize("argv", [("--env-file=x/p.env",), ("node", "--env-file", "x/p.env", "a.js")])
def test_a_file_named_by_an_argument_is_judged(tmp_path, argv):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "p.env").write_text("U_URL=http://prod.example/")
    named = named_dotenv_files(argv, tmp_path)
    assert named == (tmp_path / "x" / "p.env",)
    assert foreign_targets([], {}, allowed=STACK, named=named) != ()
    assert named_dotenv_files(("--env-file",), tmp_path) == named_dotenv_files(("--env-file=no",), tmp_path) == ()


def test_every_folder_above_is_looked_at(tmp_path):
    assert told(tmp_path, "U_URL=http://prod.example/", folder="x/y/z")


def test_quotes_exports_and_comments_are_read(tmp_path):
    path = tmp_path / ".env"
    path.write_text("export A=1\nB = 'two words' # no\nC=\"x#y\"\nD=plain # comment\nE=\n")
    assert read_dotenv(path) == {"A": "1", "B": "two words", "C": "x#y", "D": "plain", "E": ""}
