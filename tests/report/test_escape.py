"""Foreign text: what becomes an escape, what is cut, what wrapping keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.escape import byte_length, cut_bytes, cut_line, encodable, label, prefix, visible, wrap

ANY = st.text(alphabet=st.characters(categories=None), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\x85\u2028\u202e", "\\x85\\u2028\\u202e"),
        ("\ud800", "\\ud800"),
        ("\ufffe", "\\ufffe"),
        ("C:\\temp [red] :x:", "C:\\temp [red] :x:"),
        ("é e\u0301 straße 😀 👩‍💻", "é e\u0301 straße 😀 👩‍💻"),
    ],
)
def test_only_what_acts_becomes_an_escape(text, shown):
    assert visible(text) == shown


@given(ANY, st.integers(0, 80))
def test_a_beginning_never_ends_inside_a_character(text, limit):
    kept = prefix(text, limit)
    assert text.startswith(kept)
    assert byte_length(kept) <= limit
    assert len(kept) == len(text) or byte_length(text[: len(kept) + 1]) > limit


@given(ANY, st.integers(20, 60))
def test_lines_and_labels_keep_to_their_limit(text, limit):
    for shown in (cut_line(text, limit), label(text, limit)):
        assert byte_length(shown) <= limit
        assert len(shown.splitlines()) <= 1


def test_a_cut_says_how_much_there_is():
    assert cut_bytes("abc" * 10, 9) == "abcabcabc… (9 of 30 bytes; all of it in report.json)"


def test_long_names_with_the_same_beginning_stay_apart():
    assert label("x" * 300, 100) != label("x" * 301, 100)


@given(st.text(alphabet="ab \n", max_size=60), st.integers(5, 30))
def test_wrapping_loses_nothing_but_the_blank_at_a_break(text, width):
    wrapped = "\n".join(wrap(text, width))
    assert wrapped.replace("\n", " ") == text.replace("\n", " ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "no-such-codec", None])
def test_any_text_can_be_written_in_any_encoding(encoding):
    encodable("✓ \ud800 é", encoding).encode(encoding if encoding in ("ascii", "latin-1") else "utf-8")
