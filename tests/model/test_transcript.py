"""The transcript's format, frozen: what is written is what is read."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.model.plan import RunKey
from harness.model.transcript import (
    INLINE_LIMIT_BYTES,
    Body,
    CaseEnded,
    ClientSaw,
    Diagnostic,
    Exited,
    Orphan,
    Received,
    RunRecord,
    Sent,
    Spawned,
    Stderr,
    StepEnded,
    StepRef,
    StepStarted,
    event_from_json,
    event_to_json,
    parse_lines,
    record_from_json,
    record_to_json,
)

STEP = StepRef(suite="s", case="c", phase="step", index=0)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
BODIES = st.binary(max_size=64).map(Body) | TEXT.map(lambda text: Body(text.encode()))
TEXTS = st.lists(TEXT).map(tuple)
BASE = {"n": st.integers(1, 10**6), "t": st.floats(0, 10**6)}
EVENTS = st.one_of(
    st.builds(Spawned, **BASE, argv=TEXTS, cwd=TEXT, env=TEXTS, pid=st.integers(1)),
    st.builds(Sent, **BASE, body=BODIES, label=TEXT, step=st.none() | st.just(STEP), round=st.integers(1, 9)),
    st.builds(Received, **BASE, at=st.integers(0), body=BODIES, in_flight=TEXTS, after=st.none() | TEXT),
    st.builds(Stderr, **BASE, body=BODIES, size=st.integers(0)),
    st.builds(StepStarted, **BASE, step=st.just(STEP), action=st.just("call"), target=TEXT, timeout_s=st.floats(0, 9)),
    st.builds(StepEnded, **BASE, step=st.just(STEP), how=st.just("answered"), detail=TEXT),
    st.builds(CaseEnded, **BASE, suite=TEXT, case=TEXT, how=st.just("completed")),
    st.builds(ClientSaw, **BASE, action=TEXT, body=BODIES, error=TEXT, detail=TEXT),
    st.builds(Diagnostic, **BASE, what=TEXT, detail=TEXT, step=st.none() | st.just(STEP)),
    st.builds(
        Exited, **BASE, code=st.integers(-64, 255), asked=st.booleans(), ended_by=st.just("term"),
        orphans=st.lists(st.builds(Orphan, st.integers(1), TEXT)).map(tuple),
    ),
)  # fmt: skip


@given(EVENTS)
def test_an_event_is_read_as_it_was_written(event):
    line = json.dumps(event_to_json(event), ensure_ascii=False)
    assert "\n" not in line
    assert event_from_json(json.loads(line)) == event


def test_a_large_body_goes_to_a_side_file():
    data = b"x" * (INLINE_LIMIT_BYTES + 1)
    event = Received(n=1, t=0.0, at=0, body=Body(data))
    written = event_to_json(event, side={data: "abc"})
    assert written["sha256"] == "abc"
    assert written["size"] == len(data)
    assert event_from_json(written, bodies={"abc": data}) == event


def test_a_lost_side_file_is_a_torn_transcript_and_not_an_empty_line():
    line = json.dumps({"e": "received", "n": 1, "t": 0, "at": 0, "sha256": "abc", "size": 3})
    transcript = parse_lines("server-1.jsonl", [line], bodies={})
    assert transcript.events == ()
    assert not transcript.complete


def test_a_torn_last_line_leaves_the_rest():
    """A harness that was killed in mid-write."""
    good = json.dumps(event_to_json(Diagnostic(n=1, t=0.0, what="restarted")))
    transcript = parse_lines("server-1.jsonl", [good, good[:20]])
    assert [event.n for event in transcript.events] == [1]
    assert not transcript.complete


def test_a_record_is_read_as_it_was_written():
    record = RunRecord(
        key=RunKey(server="s", backend="b@1", era="modern", profile="plain"),
        plan="f00",
        runtime="docker",
        outcome="failed",
        cases=("s/c",),
        errors=({"kind": "server", "message": "m", "hint": "", "log": ""},),
        versions={"b@1": "1.2"},
    )
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record
