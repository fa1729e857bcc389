"""Ours: the line of every key, whatever TOML allows."""

from __future__ import annotations

import random
import tomllib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.config.lines import scan

Path = tuple[str | int, ...]

SCALARS = (
    "1",
    "-0.5e3",
    "true",
    "inf",
    "1979-05-27",
    "1979-05-27 07:32:00",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    '""',
    "''",
    '"a # ] } , = [x] \\" \\\\"',
    "'# [a] = { \" \\'",
    '"""one"""',
    '"""\nk1 = 1\n[t1]\n# no comment\n"""',
    '"""two "" quotes and two at the end"""""',
    '"""a line \\\n   that goes on, \\""" still"""',
    "'''\n[[t1]]\nk2 = 'x'\n'''",
    "'''quotes '' inside and at the end'''''",
    "''''one at the beginning'''",
)
COMMENTS = ("", "# plain", "# [t1]", "# k1 = \"\"\" '''", "# { [ ]", "#")


class Writer:
    """Writes a TOML document at random, and keeps the true line of everything in it."""

    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.text = ""
        self.truth: dict[Path, int] = {}
        self.counter = 0

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def name(self, kind: str) -> str:
        self.counter += 1
        return kind + str(self.counter) + self.rnd.choice(["", "", " with space", ".dot", "é", '"', "]"])

    def key(self, name: str) -> str:
        bare = name.isascii() and all(char.isalnum() for char in name)
        quoted = '"' + name.replace('"', '\\"') + '"'
        escaped = '"' + "".join(f"\\u{ord(char):04x}" if char in 'é"k' else char for char in name) + '"'
        return self.rnd.choice([name] * 3 * bare + [quoted, escaped] + [f"'{name}'"])

    def keys(self, names: list[str]) -> str:
        return self.rnd.choice([".", ".", " . ", "\t."]).join(self.key(name) for name in names)

    def blank(self) -> None:
        for _ in range(self.rnd.randrange(3)):
            self.text += self.rnd.choice(["", "  "]) + self.rnd.choice(COMMENTS) + "\n"

    def pair(self, table: Path, depth: int) -> None:
        names = [self.name("k") for _ in range(self.rnd.choice([1, 1, 1, 2, 3]))]
        for end in range(1, len(names) + 1):
            self.truth.setdefault((*table, *names[:end]), self.line)
        self.text += self.keys(names) + self.rnd.choice([" = ", "=", "\t=\t"])
        self.value((*table, *names), depth)

    def value(self, path: Path, depth: int) -> None:
        kind = self.rnd.choice(["scalar", "scalar", "array", "table"]) if depth < 3 else "scalar"
        if kind == "scalar":
            self.text += self.rnd.choice(SCALARS)
        elif kind == "array":
            self.text += "["
            for index in range(self.rnd.randrange(4)):
                if self.rnd.random() < 0.5:
                    self.text += " " + self.rnd.choice(COMMENTS) + "\n"
                    self.blank()
                self.truth[*path, index] = self.line
                self.value((*path, index), depth + 1)
                self.text += self.rnd.choice([",", " , ", ",\n"])
            self.text += self.rnd.choice(["]", "\n]", " # end\n ]"])
        else:
            self.text += "{"
            for index in range(self.rnd.randrange(3)):
                self.text += ", " if index else " "
                self.pair(path, depth + 1)
            self.text += " }"

    def body(self, table: Path) -> None:
        for _ in range(self.rnd.randrange(3)):
            self.blank()
            self.text += self.rnd.choice(["", "  "])
            self.pair(table, 0)
            self.text += self.rnd.choice(["", " ", "  # behind ] }"]) + "\n"

    def header(self, path: Path, *, many: bool) -> None:
        """Writes `[a.b]`; `path` holds the indices of arrays of tables on the way."""
        self.blank()
        names = [part for part in path if isinstance(part, str)]
        here = path[:-1] if many else path
        for end in range(1, len(here) + 1):
            if isinstance(path[end - 1], str):
                self.truth.setdefault(path[:end], self.line)
        self.truth[path] = self.line
        left, right = ("[[", "]]") if many else ("[", "]")
        self.text += f"{left}{self.rnd.choice(['', ' '])}{self.keys(names)}{right}{self.rnd.choice(['', ' # x'])}\n"
        self.body(path)

    def events(self, path: Path, depth: int) -> list[tuple[Path, bool]]:
        """Headers below a table, in an order that TOML allows: siblings are interleaved, elements of arrays are not."""
        strands = []
        for _ in range(self.rnd.randrange(4 - depth)):
            child = (*path, self.name("t"))
            if self.rnd.random() < 0.4:
                strand = []
                for index in range(self.rnd.randrange(1, 4)):
                    strand += [((*child, index), True), *self.events((*child, index), depth + 1)]
            else:
                strand = self.events(child, depth + 1)
                at = self.rnd.choice([0, 0, len(strand), None]) if strand else 0
                if at is not None:  # a table's own header may come after its children's, or never
                    strand.insert(at, (child, False))
            strands.append(strand)
        out = []
        while strands := [strand for strand in strands if strand]:
            out.append(self.rnd.choice(strands).pop(0))
        return out

    def document(self) -> str:
        self.body(())
        for path, many in self.events((), 0):
            self.header(path, many=many)
        self.blank()
        if self.rnd.random() < 0.3:
            self.text = self.text.rstrip("\n") if not self.text.endswith('"""\n') else self.text
        return self.text.replace("\n", "\r\n") if self.rnd.random() < 0.3 else self.text


def paths_of(value: Any, path: Path = ()) -> set[Path]:
    found = {path} if path else set()
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found |= paths_of(child, (*path, key))
    return found


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_key_of_a_generated_document_has_its_true_line(rnd: random.Random) -> None:
    writer = Writer(rnd)
    text = writer.document()
    found = scan(text)
    assert found.complete
    assert found.at.keys() == paths_of(tomllib.loads(text))
    assert found.at == writer.truth
    assert not found.repeats


@given(st.text(alphabet="ab1.\"'[]{}=,\n #\\", max_size=40))
@settings(max_examples=500, deadline=None)
def test_whatever_tomllib_accepts_is_followed_to_its_end(text: str) -> None:
    found = scan(text)  # never raises
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert found.complete
    assert found.at.keys() == paths_of(data)


def test_elements_of_an_array_of_tables_keep_their_lines_between_other_tables() -> None:
    found = scan("[[a]]\nx = 1\n[b]\ny = 1\n[[a]]\nx = 2\n[a.c]\nz = 3\n")
    assert found.at["a",] == 1
    assert found.at["a", 0, "x"] == 2
    assert found.at["a", 1] == 5
    assert found.at["a", 1, "c", "z"] == 8


def test_the_line_of_a_missing_key_is_that_of_its_table() -> None:
    found = scan("a = 1\n\n[server]\nname = 'x'\n")
    assert found.line(("server", "command")) == 3
    assert found.line(("nothing",)) is None


def test_keys_that_stand_twice_are_found_before_the_error() -> None:
    found = scan("[a]\nx = 1\nx = 2\n[b]\n[a]\n= broken")
    assert found.repeats == [(("a", "x"), 3, 2), (("a",), 5, 1)]
    assert not found.complete
