"""Ours: entries of exemptions.toml, as DESIGN section 4 writes them."""

from __future__ import annotations

import pytest

from harness.config.exemptions import read_exemptions
from harness.config.problems import ConfigProblems

REASON = "needs a second account, which the store does not have"


def test_the_short_and_the_long_form(write) -> None:
    root = write(
        {
            "exemptions.toml": f"""\
schema = 1

[woodpecker-ci.exercised]
approve_pipeline = "{REASON}"

[woodpecker-ci.exercised.decline_pipeline]
reason  = "same as approve_pipeline"
backend = "woodpecker@3"
expires = 2027-03-01
owner   = "ci-team"
issue   = "https://example.org/issues/12"

[hub.output-schema]
call_tool = "forwards a child server's result; the shape is the child's"
"""
        }
    )
    short, long, other = read_exemptions(root / "exemptions.toml", base=root)
    assert (short.server, short.check, short.subject, short.reason) == (
        "woodpecker-ci",
        "exercised",
        "approve_pipeline",
        REASON,
    )
    assert str(short.place) == "exemptions.toml:4"
    assert (short.backends, short.expires, short.owner, short.issue) == ((), None, None, None)
    assert str(long.place) == "exemptions.toml:6"
    assert (long.backends, long.expires, long.owner) == (("woodpecker@3",), "2027-03-01", "ci-team")
    assert long.issue == "https://example.org/issues/12"
    assert (other.server, other.check, other.subject) == ("hub", "output-schema", "call_tool")
    assert [entry.problems for entry in (short, long, other)] == [(), (), ()]


def test_tables_in_any_order_and_inline_tables_keep_their_lines(write) -> None:
    text = f"""\
schema = 1
[a.exercised]
x = "{REASON}"
[b.exercised]
y = {{ reason = "{REASON}", backend = ["b", "b@2"] }}
[a."process/late-exit"]
"*" = "{REASON}"
[a.exercised.z]
reason = '''
{REASON}'''
"""
    for name, eol in (("lf.toml", "\n"), ("crlf.toml", "\r\n")):
        root = write({name: ("\ufeff" + text).replace("\n", eol)})
        entries = read_exemptions(root / name, base=root)
        assert [(entry.server, entry.check, entry.subject, entry.place.line) for entry in entries] == [
            ("a", "exercised", "x", 3),
            ("b", "exercised", "y", 5),
            ("a", "process/late-exit", "*", 7),
            ("a", "exercised", "z", 8),
        ]
        assert not [entry.problems for entry in entries if entry.problems]
        assert entries[1].backends == ("b", "b@2")


def test_a_check_that_nobody_knows_is_no_malformed_entry(write) -> None:
    """It is stale, or of a later version; that is judged later."""
    root = write({"e.toml": f'schema = 1\n[a."gate/later"]\nx = "{REASON}"\n[a.soon]\ny = "{REASON}"\n'})
    assert [entry.problems for entry in read_exemptions(root / "e.toml", base=root)] == [(), ()]


def test_a_malformed_entry_keeps_what_can_be_known_of_it(write) -> None:
    root = write({"e.toml": "schema = 1\n[a.exercised.x]\nreason = 'skip'\nbackend = 'b'\nexpires = '2027-01-01'\n"})
    (entry,) = read_exemptions(root / "e.toml", base=root)
    assert (entry.subject, entry.reason, entry.backends, entry.expires) == ("x", "skip", ("b",), None)
    assert len(entry.problems) == 2


@pytest.mark.parametrize("text", ["schema = 2", "", "x = 1", "schema = 1\n[a.exercised]\nx = 'a'\nx = 'b'", b"\xff"])
def test_a_file_that_cannot_be_used_is_an_error(write, text) -> None:
    root = write({"e.toml": text})
    with pytest.raises(ConfigProblems) as caught:
        read_exemptions(root / "e.toml", base=root)
    assert caught.value.code == 2
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("redis", True),
        ("redis@8", True),
        ("redis@8+postgres@17", True),
        ("cache=redis@8+queue=redis@7", True),
        ("cache=redis", True),
        ("redis@8+", False),
        ("+redis@8", False),
        ("=redis", False),
        ("cache=queue=redis", False),
        ("redis @8", False),
    ],
)
def test_an_entry_names_backends_as_reports_do(write, name: str, good: bool) -> None:
    reason = "needs a second account, which the store does not have"
    root = write({"e.toml": f'schema = 1\n[a.exercised.x]\nreason = "{reason}"\nbackend = "{name}"\n'})
    (entry,) = read_exemptions(root / "e.toml", base=root)
    assert (not entry.problems) is good
