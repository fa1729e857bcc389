"""Ours: whatever a file holds, reading it gives a value or problems in words, and soon."""

from __future__ import annotations

import copy
import random
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.config.load import load
from harness.config.problems import ConfigProblems, Problem
from harness.config.toml import MAX_FILE_BYTES, Document, parse
from harness.config.validate import SCHEMAS, check, schema_of
from harness.errors import NothingSelected

TARGETS = {
    "harness": "harness.toml",
    "suite": "suites/things.toml",
    "backend": "backends/thing/backend.toml",
    "exemptions": "exemptions.toml",
}
SOON_S = 15.0  # of the largest file, on a slow and busy machine
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def outcome(root: Path) -> None:
    """Loads, and lets nothing through but the two ways of failing."""
    problems: tuple[Problem, ...] = ()
    try:
        load([root], base=root, catalogue=[])
    except NothingSelected:
        return
    except ConfigProblems as error:
        problems = error.problems
        text = str(error)
    for problem in problems:
        assert problem.message
        assert str(problem) in text
        assert all(char.isprintable() or char == "\n" for char in str(problem)), repr(str(problem))


def vocabulary() -> list[str]:
    words: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            words.update(value.get("properties", {}) if isinstance(value.get("properties"), dict) else {})
            for child in value.values():
                walk(child)
        elif isinstance(value, list):
            for child in value:
                walk(child)

    for name in SCHEMAS:
        walk(schema_of(name))
    return sorted(words)


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["${captured.x}", "${backend.store.url}", "${", "(", "/a", "x" * 200, "\u202e", "\x1b[0m", "a\nb"]),
    st.dates(),
    st.datetimes(),
    st.times(),
)
KEYS = st.one_of(st.sampled_from(vocabulary()), st.text(max_size=5))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
CONTROLS = {0x7F: " "}  # tomli_w writes it as it is, which TOML forbids


@pytest.mark.parametrize("kind", TARGETS)
@given(data=st.binary(max_size=200))
@SETTINGS
def test_any_bytes(kind: str, data: bytes, good, write) -> None:
    outcome(write({**good, TARGETS[kind]: data}))


@pytest.mark.parametrize("kind", TARGETS)
@given(data=st.dictionaries(KEYS, VALUES, max_size=5))
@SETTINGS
def test_any_toml(kind: str, data: dict[str, Any], good, write) -> None:
    version = 2 if kind == "suite" else 1
    text = tomli_w.dumps({**data, "schema": version}).translate(CONTROLS)
    outcome(write({**good, TARGETS[kind]: text}))


@pytest.mark.parametrize("kind", TARGETS)
@given(value=VALUES, rnd=st.randoms(use_true_random=False))
@SETTINGS
def test_a_good_file_with_one_thing_changed(kind: str, value: Any, rnd: random.Random, good, write) -> None:
    data = copy.deepcopy(tomllib.loads(good[TARGETS[kind]]))
    places: list[tuple[Any, Any]] = []
    stack: list[Any] = [data]
    while stack:
        item = stack.pop()
        children = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, child in children:
            places.append((item, key))
            stack.append(child)
    container, key = rnd.choice(places)
    container[key] = value
    text = tomli_w.dumps(data).translate(CONTROLS)
    outcome(write({**good, TARGETS[kind]: text}))


@pytest.mark.parametrize("kind", TARGETS)
@given(rnd=st.randoms(use_true_random=False))
@SETTINGS
def test_a_good_file_with_some_characters_changed(kind: str, rnd: random.Random, good, write) -> None:
    text = list(good[TARGETS[kind]])
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.randrange(len(text))
        text[at : at + rnd.randrange(3)] = rnd.choice(
            ["", "[", "]", '"', "=", "\n", "#", ".", "{", "é", "\r", "1", " "]
        )
    outcome(write({**good, TARGETS[kind]: "".join(text)}))


M = MAX_FILE_BYTES - 2000
HOSTILE = {
    "a dotted key": b"a." * (M // 2) + b"a = 1",
    "many dotted keys": b"".join(b"a." * 60 + b"a%d = 1\n" % i for i in range(M // 130)),
    "many dotted headers": b"".join(b"[" + b"a." * 60 + b"b%d]\n" % i for i in range(M // 130)),
    "one word": b"a" * M,
    "brackets": b"a = " + b"[" * M,
    "quotes": b"'\"" * (M // 2),
    "triple quotes": b'a = """' + b'""a' * (M // 3 - 5) + b'"""',
    "backslashes": b'a = "' + b"\\\\" * (M // 2 - 3) + b'"',
    "a list": b"case = [" + b"1," * (M // 2 - 9) + b"]",
    "a list of tables": b"case = [" + b"{}," * (M // 3 - 9) + b"]",
    "equal items": b"profiles = [" + b"'a'," * (M // 4 - 9) + b"]",
    "unknown keys": b"".join(b"a%d = 1\n" % i for i in range(M // 12)),
    "steps": b"[[case]]\nid='a'\n" + b"[[case.step]]\ncall=1\n" * (M // 22),
    "a digit": b"a = " + b"1" * M,
    "spaces": b" " * M,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_large_file_costs_seconds_at_most(what: str) -> None:
    document = parse(HOSTILE[what], file="x.toml", path=Path("x.toml"))
    if isinstance(document, Document):
        for name in ("suite", "harness"):
            assert check(document, name)


def test_a_file_that_no_person_wrote_is_not_read_to_its_end(good, write) -> None:
    root = write({**good, "harness.toml": b"# " + b"x" * MAX_FILE_BYTES})
    with pytest.raises(ConfigProblems, match="larger than 1000 kB"):
        load([root], base=root, catalogue=[])


def test_dates_and_times_of_toml_are_those_that_the_problems_name() -> None:
    document = parse(b"schema = 2\nid = 1979-05-27\n", file="s.toml", path=Path("s.toml"))
    assert isinstance(document, Document)
    assert document.data["id"] == date(1979, 5, 27)
    assert [str(problem.place) for problem in check(document, "suite")] == ["s.toml:2"]
