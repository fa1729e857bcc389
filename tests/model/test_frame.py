"""What a client makes of a line: as much as it can, in linear time, and never an exception."""

import json

import pytest

from harness.model.frame import buried_replies, message_in

REPLY = b'{"jsonrpc":"2.0","id":3,"result":{"a":{"id":4,"result":{}}}}'


@pytest.mark.parametrize("line", [b"", b"[]", b"5", b"\xff", b"{", b"null", b'"x"', b"[" * 100_000])
def test_what_is_no_message_is_none(line):
    assert message_in(line) is None or message_in(line) == {}


def test_a_deep_message_keeps_its_id():
    deep = b'{"x":{"id":1},"jsonrpc":"2.0","result":' + b'{"id":[' * 50_000 + b"]}" * 50_000 + b',"id":"7\\"","n":12}'
    assert message_in(deep) == {"x": None, "jsonrpc": "2.0", "result": None, "id": '7"', "n": 12}


def test_a_number_of_five_thousand_digits_is_json():
    line = b'{"jsonrpc":"2.0","id":3,"result":{"n":' + b"1" * 5000 + b"}}"
    assert message_in(line)["id"] == 3


def test_reading_a_line_is_linear():
    line = json.dumps({"id": 1, "result": [{"a": "x" * 50}] * 200_000}).encode()
    json.loads(line)
    message_in(line)


@pytest.mark.parametrize(
    "line",
    [
        b"\xef\xbb\xbf" + REPLY,
        REPLY + b"\r",
        REPLY.replace(b"{}", b"NaN"),
        REPLY.replace(b'"jsonrpc":"2.0",', b""),
        REPLY.replace(b"{}", b'"\xed\xa0\x80"'),
    ],
    ids=["byte order mark", "carriage return", "NaN", "no jsonrpc", "half of a pair"],
)
def test_what_breaks_a_rule_is_used_all_the_same(line):
    assert message_in(line)["id"] == 3


@pytest.mark.parametrize("line", [b"\xef\xbb\xbf\xef\xbb\xbf" + REPLY, REPLY.decode().encode("utf-16"), REPLY + b"x"])
def test_what_no_client_reads_is_not_used(line):
    assert message_in(line) is None


def test_replies_behind_other_text_are_found():
    assert [item["id"] for item in buried_replies(b"Listening {now}..." + REPLY)] == [3]
    assert [item["id"] for item in buried_replies(REPLY + REPLY.replace(b":3", b":5") + b" done")] == [3, 5]
    assert [item["id"] for item in buried_replies(b'{"jsonrpc":"2.0","id":"1","res' + REPLY)] == [3]
    assert [item["id"] for item in buried_replies(b"G\xe4r" + REPLY)] == [3]


@pytest.mark.parametrize("line", [b"", b"{", b"starting {x}", b'got {"jsonrpc":"2.0","id":1,"method":"ping"}', b"\xff"])
def test_no_reply_is_found_where_none_is(line):
    assert buried_replies(line) == ()


def test_looking_for_buried_replies_is_linear():
    line = b'x{"id":' * 200_000
    assert buried_replies(line) == ()
