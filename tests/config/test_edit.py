"""Entries taken out of exemptions.toml and put in: ours, U044, U047 and U048 of the cases on TOML that we write."""

from __future__ import annotations

import json
import random
import tomllib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.config.edit import NEW_FILE, Skeleton, add_entries, remove_entries, rows_of_entries
from harness.config.problems import ConfigProblems
from harness.errors import ConfigError

REASON = "needs a second account, which the store does not have"
SLOW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def remove(text: str, *gone: str) -> str:
    """`gone` as server/check/subject; the check may hold a slash of its own."""
    paths = []
    for item in gone:
        server, _, rest = item.partition("/")
        check, _, subject = rest.rpartition("/")
        paths.append((server, check, subject))
    return remove_entries(text.encode(), paths, file="e.toml").decode()


def add(text: str, *new: Skeleton) -> str:
    return add_entries(text.encode(), new, file="e.toml").decode()


def skeleton(subject: str, *backends: str, server: str = "a", check: str = "exercised") -> Skeleton:
    return Skeleton(server=server, check=check, subject=subject, backends=backends)


# --- taking out -----------------------------------------------------------------------------------


def test_the_comments_directly_above_and_behind_an_entry_go_with_it() -> None:
    """U044."""
    text = "schema = 1\n[a.exercised]\n# why x\n# and more\nx = '…'  # behind x\n# why y\ny = '…'\n"
    assert remove(text, "a/exercised/x") == "schema = 1\n[a.exercised]\n# why y\ny = '…'\n"


def test_a_comment_with_a_blank_row_below_is_of_the_section_and_stays() -> None:
    """U044."""
    text = "schema = 1\n\n[a.exercised]\n# all of these need RediSearch\n\n# why x\nx = '…'\n\ny = '…'\n"
    left = "schema = 1\n\n[a.exercised]\n# all of these need RediSearch\n\ny = '…'\n"
    assert remove(text, "a/exercised/x") == left


def test_the_header_of_an_emptied_table_goes_with_the_comment_above_it() -> None:
    text = "schema = 1\n\n# part one\n\n# why a\n[a.exercised]  # here\nx = '…'\n\n[b.exercised]\ny = '…'\n"
    assert remove(text, "a/exercised/x") == "schema = 1\n\n# part one\n\n[b.exercised]\ny = '…'\n"


@pytest.mark.parametrize(
    "body",
    ["# all of it\n\nx = '…'\n", "x = '…'\n# y = 'not yet'\n", "# z = 'no'\n\nx = '…'\n"],
    ids=["section", "commented-out-below", "commented-out-above"],
)
def test_a_table_that_still_has_a_comment_of_its_own_keeps_its_header(body: str) -> None:
    text = f"schema = 1\n\n[a.exercised]\n{body}\n[b.exercised]\ny = '…'\n"
    left = remove(text, "a/exercised/x")
    assert "[a.exercised]" in left
    assert left.count("#") == text.count("#")


def test_the_heading_of_the_next_section_does_not_keep_an_emptied_header() -> None:
    text = "schema = 1\n\n[a.exercised]\nx = '…'\n\n# --- b ---\n\n[b.exercised]\ny = '…'\n"
    assert remove(text, "a/exercised/x") == "schema = 1\n\n# --- b ---\n\n[b.exercised]\ny = '…'\n"


def test_a_header_that_was_empty_before_is_none_of_our_business() -> None:
    text = "schema = 1\n[a.exercised]\n[b.exercised]\ny = '…'\nz = '…'\n"
    assert remove(text, "b/exercised/y") == "schema = 1\n[a.exercised]\n[b.exercised]\nz = '…'\n"


def test_a_header_over_a_long_form_stays_while_that_does() -> None:
    text = f"schema = 1\n[a.exercised]\nx = '…'\n[a.exercised.y]\nreason = '{REASON}'\n"
    left = remove(text, "a/exercised/x")
    assert left == f"schema = 1\n[a.exercised]\n[a.exercised.y]\nreason = '{REASON}'\n"
    assert remove(left, "a/exercised/y") == "schema = 1\n"


def test_the_long_form_goes_whole_and_what_stands_below_stays() -> None:
    text = (
        "schema = 1\n\n# why x\n[a.exercised.x]  # here\n# reason:\nreason = '''\n[b.exercised]\n# no comment\n'''\n"
        "\n# until then\nexpires = 2027-01-01\n\n# --- b ---\n\n[b.exercised]\ny = '…'\n"
    )
    assert remove(text, "a/exercised/x") == "schema = 1\n\n# --- b ---\n\n[b.exercised]\ny = '…'\n"


def test_interleaved_tables_keep_their_order() -> None:
    """U048: tomlkit would render `[[a]] [b] [[a]]` and its like in another order."""
    a, b = "[a.exercised]\nx = '…'\n", "[b.exercised]\ny = '…'\n"
    orphan, long = "[a.'process/orphan']\n'*' = '…'\n", "[b.exercised.z]\nreason = '…'\n"
    text = f"schema = 1\n{a}{b}{orphan}{long}"
    assert remove(text, "b/exercised/y") == f"schema = 1\n{a}[b.exercised]\n{orphan}{long}"
    assert remove(text, "a/process/orphan/*") == f"schema = 1\n{a}{b}{long}"


def test_keys_with_dots_and_quotes() -> None:
    text = (
        "schema = 1\na.exercised.x = '…'\n# why y\na.exercised.'y.z'.reason = '…'\n\n# where\n"
        'a."exercised" . "y\\u002ez".backend = "b"\n[b]\nexercised."q r" = "…"\n'
    )
    assert remove(text, "a/exercised/y.z") == 'schema = 1\na.exercised.x = \'…\'\n\n[b]\nexercised."q r" = "…"\n'
    assert remove(text, "a/exercised/y.z", "a/exercised/x", "b/exercised/q r") == "schema = 1\n"


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        (["x"], "{ y = '…' , \"z\" = { reason = '…, }', backend = ['b'] } }"),
        (["y"], "{ x = '…', \"z\" = { reason = '…, }', backend = ['b'] } }"),
        (["z"], "{ x = '…', y = '…' }"),
        (["y", "z"], "{ x = '…' }"),
        (["x", "z"], "{ y = '…' }"),
        (["x", "y"], "{ \"z\" = { reason = '…, }', backend = ['b'] } }"),
    ],
)
def test_an_entry_that_shares_an_inline_table_is_cut_out_of_its_row(gone: list[str], left: str) -> None:
    """U048: the one case in which a row changes; its rest is as it was."""
    full = "{ x = '…', y = '…' , \"z\" = { reason = '…, }', backend = ['b'] } }"
    text = f"schema = 1\n[a] # s\nexercised = {full} # behind\n"
    assert remove(text, *(f"a/exercised/{name}" for name in gone)) == text.replace(full, left)


def test_an_inline_table_that_is_emptied_goes_and_its_header_too() -> None:
    text = "schema = 1\nb = { exercised = { x = '…' }, 'process/orphan' = { y = '…' } }\n[a]\nexercised = { x = '…' }\n"
    left = "schema = 1\nb = { 'process/orphan' = { y = '…' } }\n"
    assert remove(text, "a/exercised/x", "b/exercised/x") == left


def test_an_entry_as_an_inline_table_of_its_own_is_a_row_like_any_other() -> None:
    text = "schema = 1\n[a.exercised]\nx = { reason = '…', owner = '…' }\ny = '…'\n"
    assert remove(text, "a/exercised/x") == "schema = 1\n[a.exercised]\ny = '…'\n"


@pytest.mark.parametrize("bom", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["open", "closed"])
@pytest.mark.parametrize("gone", ["x", "y"])
def test_line_ends_the_final_newline_and_the_byte_order_mark_stay(bom: str, eol: str, end: str, gone: str) -> None:
    """U047; also when the last row is what goes."""
    text = bom + f"schema = 1\n[a.exercised]\nx = '…'\ny = '…'{end}".replace("\n", eol)
    kept = "y" if gone == "x" else "x"
    assert remove(text, f"a/exercised/{gone}") == bom + f"schema = 1\n[a.exercised]\n{kept} = '…'{end}".replace(
        "\n", eol
    )


def test_a_lone_carriage_return_is_refused_with_its_line() -> None:
    """U047."""
    with pytest.raises(ConfigProblems, match=r"e\.toml:3: a carriage return without a line feed"):
        remove("schema = 1\n[a.exercised]\n# a\rb\nx = '…'\n", "a/exercised/x")


def test_nothing_to_take_out_gives_the_same_bytes() -> None:
    text = "schema = 1   \r\n\n\n\n[a.exercised]\nx='…'\n\n\n".encode()
    assert remove_entries(text, [("a", "exercised", "y"), ("b", "exercised", "x")], file="e") is text


def test_an_entry_has_its_rows() -> None:
    text = (
        "schema = 1\n[a.exercised]\n# why\nx = '''\n…'''\n[a.exercised.y]\n\n# c\nreason = '…'\n"
        "[b]\nexercised = { x = '…', y = '…' }\n"
    )
    assert rows_of_entries(text.encode(), file="e") == {
        ("a", "exercised", "x"): (4, 5),
        ("a", "exercised", "y"): (6, 9),
        ("b", "exercised", "x"): (11,),
        ("b", "exercised", "y"): (11,),
    }


# --- any file -------------------------------------------------------------------------------------

Entry = tuple[str, str, str]


class Writer:
    """Writes exemption files at random; knows whose every comment is."""

    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.rows: list[str] = []
        self.comments: dict[str, Entry | None] = {}
        self.entries: list[Entry] = []
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}" + self.rnd.choice(
            ["", "", "", ".dot", "/slash", " é", '"', "]", "#", "'", "}", ","]
        )

    def key(self, *names: str) -> str:
        out = []
        for name in names:
            bare = name.isascii() and all(char.isalnum() for char in name)
            quoted = [json.dumps(name, ensure_ascii=False), json.dumps(name)] + [f"'{name}'"] * ("'" not in name)
            out.append(self.rnd.choice([name] * 4 * bare + quoted))
        return self.rnd.choice([".", ".", " . "]).join(out)

    def comment(self, entry: Entry | None) -> str:
        self.count += 1
        text = f"# {self.count} " + self.rnd.choice(["", "x = 1", "[a.b]", "'''", '"""', "} ] ,"])
        self.comments[f"# {self.count} "] = entry
        return text

    def blank(self) -> None:
        self.rows += [""] * self.rnd.choice([0, 0, 0, 1, 1, 2])

    def section_comment(self) -> None:
        """With a blank row above and below, so that there is no doubt whose it is."""
        if self.rnd.random() < 0.3:
            self.rows += ["", *(self.comment(None) for _ in range(self.rnd.choice([1, 2]))), ""]

    def own(self, entry: Entry) -> None:
        if self.rnd.random() < 0.4:
            self.rows += [self.rnd.choice(["", "  "]) + self.comment(entry) for _ in range(self.rnd.choice([1, 2]))]

    def row(self, entry: Entry, text: str) -> None:
        self.own(entry)
        behind = "  " + self.comment(entry) if self.rnd.random() < 0.3 else ""
        self.rows += (self.rnd.choice(["", "", " "]) + text + behind).split("\n")

    def reason(self, *, inline: bool = False) -> str:
        forms = [f'"{REASON}"', f"'{REASON} # }} ,'", '"a \\" ]"', "'[a.b]'"]
        if not inline:
            forms += [f'"""\n# {REASON}\n[x.y]\n"""', f"'''\n\n{REASON}'''"]
        return self.rnd.choice(forms)

    def settings(self) -> list[str]:
        more = ["owner = 'me'", 'backend = ["b@1", "c"]', "expires = 2027-01-01", "issue = '#1, }'"]
        return ["reason = " + self.reason(inline=True), *self.rnd.sample(more, self.rnd.randrange(3))]

    def value(self) -> str:
        return self.rnd.choice([self.reason(inline=True), "{ " + ", ".join(self.settings()) + " }"])

    def pairs(self, entry: Entry, *before: str) -> None:
        """An entry as pairs below `before`."""
        self.entries.append(entry)
        keys = (*entry[len(before) :],)
        if self.rnd.random() < 0.3:
            for setting in self.settings():
                self.row(entry, f"{self.key(*keys)}.{setting}")
                self.blank()
        else:
            value = self.rnd.choice([self.reason(), self.value()])
            self.row(entry, f"{self.key(*keys)} = {value}")

    def names(self) -> dict[tuple[str, str], list[str]]:
        server = self.name("s")
        return {
            (server, self.name("c")): [self.name("t") for _ in range(self.rnd.randrange(1, 4))]
            for _ in range(self.rnd.randrange(1, 3))
        }

    def inline(self, entries: list[Entry], depth: int) -> str:
        """An inline table of entries; the first `depth` keys are outside of it."""
        out = []
        self.entries += entries
        groups: dict[str, list[Entry]] = {}
        for entry in entries:
            groups.setdefault(entry[depth], []).append(entry)
        for name, group in groups.items():
            if depth == 2:
                out.append(f"{self.key(name)} = {self.value()}")
            elif self.rnd.random() < 0.5:
                out += [f"{self.key(*entry[depth:])} = {self.value()}" for entry in group]
            else:
                self.entries = [entry for entry in self.entries if entry not in group]
                out.append(f"{self.key(name)} = {self.inline(group, depth + 1)}")
        return "{" + self.rnd.choice(["", " "]) + self.rnd.choice([", ", ",", " , "]).join(out) + " }"

    def document(self) -> str:
        self.rows.append("schema = 1")
        servers = [self.names() for _ in range(self.rnd.randrange(1, 4))]
        tables: list[list[tuple[str, ...]]] = []  # strands of headers
        listed: dict[tuple[str, ...], list[Entry]] = {}
        for names in servers:
            entries = [(server, check, tool) for (server, check), tools in names.items() for tool in tools]
            server = entries[0][0]
            style = self.rnd.choice(["tables", "tables", "tables", "dotted", "inline", "root", "root-inline"])
            if style == "root":
                for entry in entries:
                    self.section_comment()
                    self.pairs(entry)
            elif style == "root-inline":
                self.rows.append(f"{self.key(server)} = {self.inline(entries, 1)}")
            elif style in ("dotted", "inline"):
                tables.append([(server, style)])
                listed[server, style] = entries
            else:
                for table, tools in names.items():
                    long = [(*table, tool) for tool in tools if self.rnd.random() < 0.4]
                    listed[table] = [(*table, tool) for tool in tools if (*table, tool) not in long]
                    headers: list[tuple[str, ...]] = [*long]
                    if listed[table] or self.rnd.random() < 0.5:
                        headers.insert(self.rnd.randrange(len(headers) + 1), table)
                    tables += [[header] for header in headers]
        self.rnd.shuffle(tables)
        for (header,) in tables:
            self.table(header, listed)
            self.section_comment()
        text = "\n".join(self.rows) + self.rnd.choice(["\n", "\n", "", "\n\n", "\n "])
        text = text.replace("\n", "\r\n") if self.rnd.random() < 0.3 else text
        return self.rnd.choice(["", "", "\ufeff"]) + text

    def table(self, header: tuple[str, ...], listed: dict[tuple[str, ...], list[Entry]]) -> None:
        self.blank()
        if len(header) == 3:
            entry = (header[0], header[1], header[2])
            self.entries.append(entry)
            self.row(entry, f"[{self.key(*header)}]")
            for setting in self.settings():
                self.blank()
                self.row(entry, setting)
            return
        style = header[1]
        if style in ("dotted", "inline"):
            self.rows.append(f"[ {self.key(header[0])} ]")
        else:
            self.rows.append(f"[{self.key(*header)}]")
        self.section_comment()
        for entry in listed[header] if style != "inline" else []:
            self.pairs(entry, *(header[:1] if style == "dotted" else header))
            self.section_comment()
            self.blank()
        if style == "inline":
            checks: dict[str, list[Entry]] = {}
            for entry in listed[header]:
                checks.setdefault(entry[1], []).append(entry)
            for check, entries in checks.items():
                self.rows.append(f"{self.key(check)} = {self.inline(entries, 2)}")


def entries_of(text: str) -> dict[Entry, Any]:
    data = tomllib.loads(text.removeprefix("\ufeff"))
    assert data.pop("schema") == 1
    return {
        (server, check, tool): value
        for server, checks in data.items()
        for check, tools in checks.items()
        for tool, value in tools.items()
    }


def is_subsequence(new: list[str], old: list[str]) -> bool:
    rest = iter(old)
    return all(row in rest for row in new)


@given(st.randoms(use_true_random=False), st.floats(0, 1))
@SLOW
def test_any_entries_of_any_file_can_be_taken_out(rnd: random.Random, share: float) -> None:
    writer = Writer(rnd)
    text = writer.document()
    before = entries_of(text)
    assert set(before) == set(writer.entries)
    gone = {entry for entry in before if rnd.random() < share}
    after = remove_entries(text.encode(), gone, file="e").decode()
    if not gone:
        assert after == text
    assert entries_of(after) == {entry: value for entry, value in before.items() if entry not in gone}
    assert after.startswith("\ufeff") == text.startswith("\ufeff")
    assert after.endswith("\n") == text.endswith("\n") or after.endswith(" ")
    assert ("\r\n" in after) == ("\r\n" in text) or "\n" not in after
    rows, old = after.removeprefix("\ufeff").splitlines(), text.removeprefix("\ufeff").splitlines()
    shared = [row for row in old if row.count(" = ") > 1 and "{" in row]
    whole = [row for row in rows if row in old]
    assert is_subsequence(whole, old)
    assert len(rows) - len(whole) <= len(shared)  # rows of inline tables with several entries alone may change
    for comment, entry in writer.comments.items():
        assert (comment in after) == (entry not in gone), comment
    for one, two in pairwise(rows):  # nothing gets a comment above it that was another's
        if one.lstrip().startswith("#") and two in old and two.strip() and one in old:
            assert (one, two) in set(pairwise(old))
    assert remove_entries(after.encode(), gone, file="e").decode() == after


# --- putting in -----------------------------------------------------------------------------------


def test_an_entry_goes_to_the_end_of_its_table() -> None:
    text = "schema = 1\n\n[a.exercised]\nx = '…'  # behind\n\n# --- b ---\n\n[b.exercised]\ny = '…'\n"
    assert add(text, skeleton("z"), skeleton("q r", "redis@7", "b")) == (
        "schema = 1\n\n[a.exercised]\nx = '…'  # behind\nz = \"\"\n"
        '"q r" = { backend = ["redis@7", "b"], reason = "" }\n\n# --- b ---\n\n[b.exercised]\ny = \'…\'\n'
    )


def test_a_new_table_goes_behind_the_servers_last_one_or_to_the_end() -> None:
    text = "schema = 1\n\n[a.'process/orphan']\n'*' = '…'\n\n[b.exercised]\ny = '…'\n"
    assert add(text, skeleton("z"), skeleton("w", server="c.d")) == (
        "schema = 1\n\n[a.'process/orphan']\n'*' = '…'\n\n[a.exercised]\nz = \"\"\n\n[b.exercised]\ny = '…'\n"
        '\n["c.d".exercised]\nw = ""\n'
    )


def test_a_new_file_gets_its_first_table() -> None:
    assert add_entries(NEW_FILE, [skeleton("z")], file="e") == b'schema = 1\n\n[a.exercised]\nz = ""\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[a.exercised.x]\nreason = '…'\n", "[a.exercised.x]\nreason = '…'\n\n[a.exercised]\nz = \"\"\n"),
        ("[a]\nexercised.x = '…'\n[b]\n", "[a]\nexercised.x = '…'\nexercised.z = \"\"\n[b]\n"),
        ("a.exercised.x = '…'\n[b]\n", "a.exercised.x = '…'\na.exercised.z = \"\"\n[b]\n"),
        ("[a]\nexercised = { x = '…' } # c\n", "[a]\nexercised = { x = '…', z = \"\" } # c\n"),
        ("[a]\nexercised = {}\n", '[a]\nexercised = { z = "" }\n'),
        (
            "a = { 'process/orphan' = { '*' = '…' } }\n",
            "a = { 'process/orphan' = { '*' = '…' }, exercised.z = \"\" }\n",
        ),
        ("a = { exercised = { x = '…' } }\n", "a = { exercised = { x = '…', z = \"\" } }\n"),
        ("a.'process/orphan'.'*' = '…'\n", "a.'process/orphan'.'*' = '…'\n\n[a.exercised]\nz = \"\"\n"),
    ],
)
def test_an_entry_is_put_in_the_way_its_neighbours_are_written(old: str, new: str) -> None:
    assert add("schema = 1\n" + old, skeleton("z")) == "schema = 1\n" + new


@pytest.mark.parametrize("bom", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["open", "closed"])
def test_added_rows_have_the_line_ends_of_the_file(bom: str, eol: str, end: str) -> None:
    """U047."""
    text = bom + f"schema = 1\n[a.exercised]\nx = '…'{end}".replace("\n", eol)
    wanted = f'schema = 1\n[a.exercised]\nx = \'…\'\nz = ""\n\n[b.exercised]\nw = ""{end}'
    assert add(text, skeleton("z"), skeleton("w", server="b")) == bom + wanted.replace("\n", eol)


def test_what_is_there_is_not_added_again() -> None:
    text = b"schema = 1\n[a.exercised]\nx = ''\n"
    assert add_entries(text, [skeleton("x")], file="e") is text


def test_a_name_that_toml_cannot_hold_is_passed_over() -> None:
    assert add_entries(NEW_FILE, [skeleton("\ud800"), skeleton("z")], file="e").count(b'= ""') == 1


def test_a_name_that_is_taken_by_a_value_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no place"):
        add("schema = 1\na = 'x'\n", skeleton("z"))


@given(
    st.randoms(use_true_random=False), st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3, unique=True)
)
@example(random.Random(0), ["\x7f", "\n", "é"])
@SLOW
def test_entries_can_be_put_into_any_file(rnd: random.Random, subjects: list[str]) -> None:
    writer = Writer(rnd)
    text = writer.document()
    before = entries_of(text)
    tables = [*{entry[:2] for entry in before}, (writer.name("s"), writer.name("c")), (writer.entries[0][0], "c")]
    new = [
        Skeleton(server=server, check=check, subject=subject, backends=rnd.choice([(), ("b@1", "c")]))
        for server, check in sorted(tables)
        for subject in subjects
        if rnd.random() < 0.6 and (server, check, subject) not in before
    ]
    after = add_entries(text.encode(), new, file="e").decode()
    wanted = {
        (item.server, item.check, item.subject): {"backend": ["b@1", "c"], "reason": ""} if item.backends else ""
        for item in new
    }
    assert entries_of(after) == before | wanted
    assert after.endswith("\n") == text.endswith("\n") or not new
    assert ("\r\n" in after) == ("\r\n" in text)
    assert add_entries(after.encode(), new, file="e").decode() == after
    rows, old = after.splitlines(), text.splitlines()
    changed = [row for row in old if row not in rows]
    assert all(row.rstrip().endswith("}") or row == old[-1] for row in changed)
    back = remove_entries(after.encode(), set(wanted), file="e").decode()
    assert entries_of(back) == before
