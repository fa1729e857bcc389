"""`exemptions list`: the published document, and text that shows foreign words as they are."""

import json
from datetime import date

import jsonschema
import pytest

from harness.model.plan import ExemptionSpec, Place
from harness.report.exemption_list import ORDERS, Listed, list_to_json, list_to_text, published_list_schema

TODAY = date(2026, 12, 1)


def item(subject, *, since=None, line=1, **more):
    more = {"reason": "it has a reason of its own", "server": "s", "check": "exercised", **more}
    return Listed(entry=ExemptionSpec(subject=subject, place=Place(file="e.toml", line=line), **more), since=since)


ITEMS = [
    item("a", line=3, owner="me", expires="2026-12-31"),
    item("b", line=2, since=date(2026, 11, 30)),
    item("c", line=1, since=date(2026, 5, 1), owner="me", expires="2026-12-01", check="process/orphan"),
    item("d", line=4, since=date(2026, 6, 1), backends=("redis@7",), issue="#1", owner="all"),
]


def as_text(items=ITEMS, *, by="owner", within=30, width=0):
    return list_to_text(items, by=by, today=TODAY, within=within, color=False, width=width)


@pytest.mark.parametrize(("by", "order"), [("owner", "dcab"), ("check", "dbac"), ("age", "cdba"), ("expiry", "cabd")])
def test_each_order_has_what_is_unknown_last(by, order):
    document = json.loads(list_to_json(ITEMS, by=by, today=TODAY, within=30))
    assert "".join(entry["subject"] for entry in document["entries"]) == order


@pytest.mark.parametrize("by", ORDERS)
def test_the_document_is_as_published(by):
    schema = published_list_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(
        list_to_json([*ITEMS, item("\ud800", problems=("x",))], by=by, today=TODAY, within=0, notes=["n"])
    )
    jsonschema.validate(document, schema)
    assert schema["properties"]["by"]["enum"] == list(ORDERS)


def test_the_last_good_day_is_marked_and_one_further_away_than_asked_is_not():
    lines = as_text(within=29).splitlines()
    assert [line[:12] for line in lines if line.startswith("!")] == ["! e.toml:1  "]
    assert "today is its last day" in next(line for line in lines if line.startswith("!"))
    assert len([line for line in as_text(within=30).splitlines() if line.startswith("!")]) == 2


def test_foreign_words_are_shown_as_they_are_and_cannot_act_on_a_terminal():
    """U052."""
    shown = as_text([item("[red]x[/]", reason="list[str] :warning: \x1b[31m \u202e", owner="\x9b2J")])
    assert "[red]x[/]" in shown
    assert "list[str] :warning: \\x1b[31m \\u202e" in shown
    assert "\x9b" not in shown


def test_no_entries_are_said_in_words():
    assert as_text([]) == "0 exemptions in 0 files, by owner, on 2026-12-01\n"
