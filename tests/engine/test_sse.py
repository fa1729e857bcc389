"""Event streams: the same events whatever the chunks; what is no event, and what has no end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.engine.sse import SseParser

LIMIT = 1000
LINES = st.sampled_from(
    ["data: a", "data:b", "data", "data:  two", ": a comment", "id: 7", "id", "event: message", "retry: 20", "odd", ""]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def read(*chunks, limit=LIMIT):
    parser = SseParser(limit)
    return [item for chunk in chunks for item in parser.feed(chunk)], parser


def told(items):
    return [(item.at, item.event, item.id, item.retry, item.data, item.comment) for item in items]


def test_an_event_is_taken_apart():
    (item,), parser = read(b": hi\nevent: message\nid: 7\nretry: 250\ndata: one\ndata: two\n\n")
    assert (item.at, item.size, item.event, item.id, item.retry) == (0, 58, "message", "7", 250)
    assert (item.data, item.comment, parser.at) == (b"one\ntwo", b"hi", 58)


def test_a_block_without_data_is_no_event_and_empty_data_is_one():
    items, _ = read(b": only a comment\n\nid: 1\ndata:\n\n")
    assert told(items) == [(0, "", None, None, None, b"only a comment"), (18, "", "1", None, b"", b"")]


def test_a_byte_order_mark_at_the_beginning_is_skipped():
    (item,), _ = read(b"\xef\xbb\xbfdata: x\n\n")
    assert item.data == b"x"


def test_what_the_end_of_the_stream_leaves_is_told_apart():
    items, parser = read(b"data: x\n")
    assert (items, parser.rest()) == ([], b"data: x\n")
    last = parser.finish()
    assert last is not None
    assert last.data == b"x"
    assert read(b"data: x\n\n")[1].finish() is None


def test_an_event_without_end_is_cut_at_the_limit_and_nothing_comes_after_it():
    items, parser = read(b"data: 1\n\n", b"data: " + b"x" * 600, b"x" * 600, b"\n\ndata: 2\n\n")
    assert ([item.data for item in items], parser.cut, parser.at) == ([b"1"], True, 9)
    assert len(parser.rest(50)) == 50


def test_an_event_of_many_lines_is_cut_too():
    _, parser = read(*[b"data: abcdef\n"] * 100)
    assert parser.cut


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 400), max_size=12))
def test_the_events_are_the_same_whatever_the_chunks(lines, cuts):
    data = "".join(line + end for line, end in lines).encode()
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole, _ = read(data, limit=10_000)
    parts, _ = read(*(data[begin:end] for begin, end in pairwise(at)), limit=10_000)
    single, _ = read(*(data[index : index + 1] for index in range(len(data))), limit=10_000)
    assert told(whole) == told(parts) == told(single)
