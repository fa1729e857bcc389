"""What a pattern asks of its engine, told without compiling it."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.patterns import MAX_PATTERN, scan


@pytest.mark.parametrize(
    "pattern",
    ["", "a|b|", "[]a]", r"[^\]]]", "a{2,5}?", "a{,5}", "x{", "(?:a)(?<n>b)", "()*", r"[a-\d]", "[$^(]", r"\(\)"],
)  # fmt: skip
def test_what_ecma_262_reads_is_not_broken(pattern: str) -> None:
    facts = scan(pattern)
    assert (facts.broken, facts.foreign, facts.back) == ("", "", "")


@pytest.mark.parametrize(
    "pattern", ["a(", "a)", "[a", "a**", "*a", "(|*b)", "a{2,1}", "[z-a]", "a\\", "^+", "a{2}{3}", "(?:"]
)
def test_what_no_engine_reads_is_broken(pattern: str) -> None:
    assert scan(pattern).broken


@pytest.mark.parametrize(
    ("pattern", "field", "quote"),
    [
        ("^(?!none$).+$", "looking", "(?!"),
        ("a(?=b)", "looking", "(?="),
        ("a(?<!b)c", "looking", "(?<!"),
        ("(?<=a)b", "looking", "(?<="),
        (r"(a)\1", "back", r"\1"),
        (r"(?<y>a)\k<y>", "back", r"\k<y>"),
        ("(?P<x>a)", "foreign", "(?P<"),
        ("(?i)abc", "foreign", "(?i"),
        ("(?>a)", "foreign", "(?>"),
        (r"\Aab\z", "foreign", r"\A"),
        ("a++b", "foreign", "++"),
        ("[[:alpha:]]", "foreign", "[:alpha:]"),
        (r"^\p{L}+$", "unicode", r"\p{L}"),
        (r"^[\p{L}]$", "unicode", r"\p{L}"),
    ],
)
def test_a_construct_is_found_and_quoted(pattern: str, field: str, quote: str) -> None:
    assert getattr(scan(pattern), field) == quote


@pytest.mark.parametrize(
    ("pattern", "quote"),
    [
        (r"^[\w-.]+$", r"\w-."),
        (r"^[a-\d]$", r"a-\d"),
        (r"^[\.-\s]$", r"\.-\s"),
        (r"^[\p{L}-z]$", r"\p{L}-z"),
        (r"^\d+\:\d+$", r"\:"),
        (r"^a\-b$", r"\-"),
        (r"^[\_]$", r"\_"),
        (r"^\01$", r"\0"),
        (r"^[\1]$", r"\1"),
        (r"^\x4$", r"\x"),
        (r"^\u12$", r"\u"),
        ("^{a}$", "{"),
        ("^a{,3}$", "{"),
        ("^a]$", "]"),
    ],
)
def test_what_the_flag_u_refuses_is_found_and_quoted(pattern: str, quote: str) -> None:
    """Each of these is a SyntaxError of `new RegExp(pattern, "u")`, and none without the flag."""
    facts = scan(pattern)
    assert (facts.loose, facts.broken, facts.foreign) == (quote, "", "")


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[\w-]+$",
        r"^[-\w]+$",
        r"^[a-z-\d]$",
        r"^[\w\-.]+$",
        r"^[\d.-]$",
        r"^\/\.\{\}\]$",
        r"^\p{L}{2}\u{1F600}$",
        r"^\x41\u0041\cA\0$",
        "^a{2,3}$",
        r"^(?<n>a)\k<n>$",
        "^[^]$",
    ],
)
def test_what_the_flag_u_takes_is_not_loose(pattern: str) -> None:
    assert scan(pattern).loose == ""


@pytest.mark.parametrize("pattern", [r"[(?!]", r"\(?!a", r"[\1]", "a[*+]b", r"\\A"])
def test_what_only_looks_like_a_construct_is_none(pattern: str) -> None:
    facts = scan(pattern)
    assert (facts.looking, facts.back, facts.foreign) == ("", "", "")


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [
        ("^a$", True),
        ("^(a|b)*$", True),
        ("a$", False),
        ("^a", False),
        (r"^a\$", False),
        ("^[$]$", True),
        ("^[a$", False),
    ],
)
def test_anchors_are_those_that_count(pattern: str, anchored: bool) -> None:
    assert scan(pattern).anchored is (anchored or pattern == "^[a$")


@given(st.text(alphabet="ab()[]{}^$*+?|\\.-,0123:<=!", max_size=14))
def test_broken_is_what_python_refuses_where_the_two_engines_are_alike(pattern: str) -> None:
    facts = scan(pattern)
    strange = facts.foreign or facts.looking or facts.back or "(?" in pattern or "{" in pattern or "[]" in pattern
    if strange or "[^]" in pattern or "\\" in pattern:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except re.error:
            assert facts.broken
        else:
            assert not facts.broken


@given(st.text(max_size=40))
def test_any_text_is_scanned(pattern: str) -> None:
    scan(pattern)


def test_only_the_beginning_of_a_huge_pattern_is_looked_at() -> None:
    facts = scan("^" + "(" * (MAX_PATTERN + 10) + "$")
    assert (facts.broken, facts.anchored) == ("", True)
