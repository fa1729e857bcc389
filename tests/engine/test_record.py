"""What the recorder writes can be read back, and holds no secret. Ours."""

import errno
import json
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.mask import Masker
from harness.engine.record import Recorder
from harness.model.transcript import (
    INLINE_LIMIT_BYTES,
    Body,
    Diagnostic,
    Exited,
    Orphan,
    Received,
    Sent,
    Spawned,
    Stderr,
    StepEnded,
    StepRef,
    StepStarted,
    parse_lines,
)

STEP = StepRef(suite="s", case="c", phase="step", index=0)


@pytest.fixture
def record(tmp_path):
    recorder = Recorder(
        tmp_path / "t.jsonl", bodies=tmp_path / "bodies", masker=Masker(["hunter2-x"]), began=time.monotonic()
    )
    yield recorder
    recorder.close()


def events(recorder, bodies=None):
    lines = recorder.path.read_bytes().decode("utf-8").split("\n")
    return parse_lines("t", [line for line in lines if line], bodies=bodies).events


def test_every_kind_of_event_comes_back_as_it_was(record):
    record.add(Spawned, argv=("a", "b"), cwd="/x", env=("PATH",), pid=7)
    record.sent(b'{"id":0}', "tools/call x", STEP, 2)
    record.received(b"one", 0, "lf", ("a", "b"))
    record.received(b"\xff\xfe", 4, "none", (), "a")
    record.add(StepStarted, step=STEP, action="call", target="t", arguments={"a": [1, None]}, timeout_s=1.5)
    record.add(Diagnostic, what="timeout", detail="x", step=STEP)
    record.add(Stderr, body=Body(b"tail"), size=9)
    record.add(Exited, code=-9, asked=True, ended_by="kill", orphans=(Orphan(3, "sleep"),))
    spawned, sent, first, second, started, note, stderr, exited = events(record)
    assert [event.n for event in events(record)] == list(range(1, 9))
    assert (spawned.argv, spawned.env, spawned.pid) == (("a", "b"), ("PATH",), 7)
    assert isinstance(sent, Sent)
    assert (sent.body, sent.label, sent.step, sent.round) == (Body(b'{"id":0}'), "tools/call x", STEP, 2)
    assert isinstance(first, Received)
    assert (first.at, first.in_flight, first.after) == (0, ("a", "b"), None)
    assert (second.body, second.end, second.after) == (Body(b"\xff\xfe"), "none", "a")
    assert started.arguments == {"a": [1, None]}
    assert note.step == STEP
    assert (stderr.body, stderr.size) == (Body(b"tail"), 9)
    assert exited.orphans == (Orphan(3, "sleep"),)


def test_secrets_are_masked_in_bodies_labels_and_fields(record):
    record.add(Spawned, argv=("--token=hunter2-x",), cwd="/", env=(), pid=1)
    record.sent(b"x hunter2-x", "tools/call hunter2-x", StepRef(suite="hunter2-x", case="c", phase="step", index=0))
    record.received(b"hunter2-x\xff", 0)
    record.add(Diagnostic, what="timeout", detail="hunter2-x")
    text = record.path.read_text()
    assert "hunter2" not in text
    assert text.count("*********") >= 5
    assert events(record)[2].body.data == b"*********\xff"


def test_a_secret_that_is_added_later_is_masked_from_then_on(tmp_path):
    masker = Masker()
    recorder = Recorder(tmp_path / "t.jsonl", bodies=tmp_path / "b", masker=masker, began=time.monotonic())
    recorder.sent(b"", "call late-secret-7q2")
    masker.add("late-secret-7q2")
    recorder.sent(b"", "call late-secret-7q2")
    recorder.close()
    assert [event.label for event in events(recorder)] == [
        "call late-secret-7q2",
        "call " + "*" * len("late-secret-7q2"),
    ]


def test_a_large_body_lies_beside_once(record, tmp_path):
    body = b"hunter2-x" + b"y" * INLINE_LIMIT_BYTES
    record.received(body, 0)
    record.received(body, 1)
    (side,) = (tmp_path / "bodies").iterdir()
    assert side.read_bytes() == b"*********" + b"y" * INLINE_LIMIT_BYTES
    line = json.loads(record.path.read_text().splitlines()[0])
    assert (line["sha256"], line["size"]) == (side.name, len(body))


@given(st.binary(max_size=80), st.text(max_size=20), st.text(max_size=20))
def test_any_bytes_and_any_text_come_back(tmp_path_factory, body, label, detail):
    folder = tmp_path_factory.mktemp("any")
    recorder = Recorder(folder / "t.jsonl", bodies=folder, masker=Masker(), began=time.monotonic())
    recorder.received(body, 0, "lf", (label,))
    recorder.add(Diagnostic, what="x", detail=detail)
    recorder.close()
    first, second = events(recorder)
    assert (first.body.data, first.in_flight, second.detail) == (body, (label,), detail)


def test_lone_surrogates_do_not_spoil_the_file(record):
    record.add(Diagnostic, what="x", detail="\ud800")
    record.sent(b"", "\udfff")
    assert events(record)[0].detail == "\ud800"
    assert events(record)[1].label == "\udfff"


def test_where_space_ends_what_was_written_stays_whole_and_the_rest_is_told_once(tmp_path):
    recorder = Recorder(tmp_path / "server-1.jsonl", bodies=tmp_path / "bodies", masker=Masker(), began=0.0)
    told = []
    recorder.on_failed = lambda: told.append(recorder.failed)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        for number in range(100):
            recorder.received(b"x" * 300, number * 301)
        recorder.received(b"y" * 300_000, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    recorder.received(b"later", 0)
    recorder.close()
    assert [error.errno for error in told] == [errno.EFBIG]
    lines = (tmp_path / "server-1.jsonl").read_text().splitlines()
    assert len(parse_lines("server-1.jsonl", lines).events) == len(lines) == recorder.count > 10
    assert not (tmp_path / "bodies").exists()


def test_a_large_body_without_space_leaves_no_half_of_it(tmp_path):
    """Half a side file would be taken for what the server said."""
    recorder = Recorder(tmp_path / "server-1.jsonl", bodies=tmp_path / "bodies", masker=Masker(), began=0.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        recorder.received(b"y" * 300_000, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    recorder.close()
    assert recorder.failed is not None
    assert list((tmp_path / "bodies").iterdir()) == []
    assert (tmp_path / "server-1.jsonl").read_bytes() == b""


def test_steps_are_written_quickly_and_as_any_event_is(tmp_path):
    """The short ways write what the long way writes, byte for byte but for number and time."""
    masker = Masker(["a-long-secret-word-1"])
    step = StepRef(suite="s", case="c é \ud800", phase="step", index=3, attempt=2)
    arguments = {"a": ["a-long-secret-word-1", 1.5, None], "ü": {"b": True}}
    expect = {"is_error": True, "text_contains": ["a-long-secret-word-1"]}
    for number, free in enumerate((False, True)):
        recorder = Recorder(tmp_path / f"{number}.jsonl", bodies=tmp_path / "bodies", masker=masker, began=0.0)
        about = {
            "action": "call",
            "target": "t a-long-secret-word-1",
            "arguments": arguments,
            "expect": expect,
            "confirm": True,
            "unlisted": False,
            "timeout_s": 30.0,
        }
        recorder.step_started(step, **about, free=free)
        recorder.add(StepStarted, step=step, **about, open=True if free else None)
        for detail in ("", 'a "quoted" a-long-secret-word-1'):
            recorder.step_ended(step, "answered", detail)
            recorder.add(StepEnded, step=step, how="answered", detail=detail)
        recorder.close()
        lines = [json.loads(line) for line in (tmp_path / f"{number}.jsonl").read_bytes().splitlines()]
        for line in lines:
            del line["n"], line["t"]
        assert [list(item.items()) for item in lines[::2]] == [list(item.items()) for item in lines[1::2]]
