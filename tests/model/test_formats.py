"""The formats that are known, leniently."""

from datetime import UTC, date, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.bounded import BudgetExceeded, InvalidSchema, Prepared
from harness.model.formats import FORMATS, format_holds


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2024-02-29", "20240229"),
        ("date-time", "2026-12-01T10:00:00Z", "2026-12-01T10:00:00"),
        ("date-time", "2026-12-01t10:00:00.123456789+01:00", "2026-12-01"),
        ("date-time", "2026-12-01 23:59:60Z", "2026-12-01T24:00:00Z"),
        ("time", "10:00:00Z", "10:00:00"),
        ("duration", "P1DT2H", "P"),
        ("duration", "P3W", "1 day"),
        ("email", "a@b.example", "a at b"),
        ("hostname", "a-b.example.", "a_b!"),
        ("ipv4", "127.0.0.1", "127.0.0.01"),
        ("ipv6", "::1", "1.2.3.4"),
        ("json-pointer", "/a~1b/0", "a/b"),
        ("uri", "https://a.example/b?c#d", "/b"),
        ("uri", "urn:a:b", ""),
        ("uri-reference", "../b", "a b"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", "0000"),
    ],
)
def test_a_text_is_of_a_format_or_not(name, good, bad):
    assert format_holds(name, good)
    assert not format_holds(name, bad)


def test_a_format_that_is_not_known_is_not_judged():
    assert format_holds("color", "no color at all")


@given(st.datetimes(timezones=st.just(UTC)), st.uuids(), st.ip_addresses())
def test_what_python_writes_is_of_the_format(moment: datetime, uuid: UUID, address):
    assert format_holds("date-time", moment.isoformat())
    assert format_holds("date", date.isoformat(moment.date()))
    assert format_holds("uuid", str(uuid))
    assert format_holds(f"ipv{address.version}", str(address))


@given(st.text(max_size=40), st.sampled_from(sorted(FORMATS)))
def test_no_text_makes_a_format_fail(text, name):
    assert format_holds(name, text) in (True, False)


def test_a_prepared_schema_judges_many_and_formats_only_where_asked():
    schema = Prepared({"type": "object", "properties": {"at": {"type": "string", "format": "date"}}})
    assert schema.violations({"at": "soon"}) == []
    assert schema.violations({"at": "soon"}, formats=True) == [("/at", "'soon' is no date")]
    assert schema.violations({"at": 1}, formats=True) == [("/at", "1 is not of type 'string'")]


def test_a_schema_that_is_none_is_told_from_one_that_costs_too_much():
    with pytest.raises(InvalidSchema) as caught:
        Prepared({"properties": {"a": {"type": "text"}}})
    assert caught.value.pointer == "/properties/a/type"
    with pytest.raises(BudgetExceeded) as other:
        Prepared({"allOf": [{"$schema": "https://json-schema.org/draft/2019-09/schema"}]})
    assert not isinstance(other.value, InvalidSchema)
