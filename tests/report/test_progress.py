"""Progress: quiet in logs, alive on terminals, never the reason why a run fails."""

from __future__ import annotations

import io
import os
import threading
import time

import pytest

from harness.model.progress import Progress, stage
from harness.report.progress import ProgressLog


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def log(stream, *, clock=None, tty=False, color=False, **more):
    return ProgressLog(stream, tty=tty, color=color, clock=clock or Clock(), **more)


def test_a_stage_is_one_line_with_mark_subject_stage_and_seconds():
    out = io.StringIO()
    progress: Progress = log(out)
    progress.begin("redis-mcp redis@8", "start backend")
    progress.end("redis-mcp redis@8", "start backend", ok=True, seconds=2.34, detail="3 probes")
    progress.end("redis-mcp redis@8", "run", ok=False, seconds=0.01)
    progress.note("", "no Docker here")
    assert out.getvalue() == (
        "✓ redis-mcp redis@8: start backend, 2.3 s (3 probes)\n✗ redis-mcp redis@8: run, 0.0 s\n· no Docker here\n"
    )


def test_a_log_is_reminded_every_30_seconds_at_most():
    out, clock = io.StringIO(), Clock()
    progress = log(out, clock=clock)
    progress.begin("redis@8", "build image")
    progress.begin("gitea@1", "build image")
    for second in range(240):
        clock.now = 100.0 + second
        progress.waiting("redis@8", "build image", f"step {second // 60} of 4")
    progress.close()
    lines = out.getvalue().splitlines()
    assert lines[0] == "still waiting for redis@8: build image, 30 s (step 0 of 4), and for 1 more"
    assert lines[1] == "still waiting for redis@8: build image, 60 s (step 1 of 4), and for 1 more"
    assert len(lines) == 7
    assert not set(out.getvalue()) & {"\r", "\x1b"}


def test_a_stage_that_says_nothing_is_still_reminded_of():
    out = io.StringIO()
    with ProgressLog(out, tty=False, color=False, wait_every_s=0.05) as progress, stage(progress, "x", "sleep"):
        ended = time.monotonic() + 5
        while "still waiting" not in out.getvalue():
            assert time.monotonic() < ended
            time.sleep(0.01)
    assert "still waiting for x: sleep" in out.getvalue()


def test_a_terminal_has_one_status_line_that_goes_away():
    out, clock = io.StringIO(), Clock()
    progress = log(out, clock=clock, tty=True, columns=40)
    progress.begin("redis@8", "start backend")
    progress.waiting("redis@8", "start backend", "connection refused " * 5)
    clock.now += 12
    progress.waiting("redis@8", "start backend", "connection refused")
    progress.end("redis@8", "start backend", ok=True, seconds=12.0)
    progress.close()
    *states, last = out.getvalue().split("\r\x1b[K")
    assert all(len(state) <= 40 and "\n" not in state for state in states)
    assert last == "✓ redis@8: start backend, 12.0 s\n"


def test_foreign_text_is_escaped_and_kept_to_one_line():
    out = io.StringIO()
    progress = log(out)
    progress.note("a\x1b[2J", "list[str] :warning: [red]\nsecond")
    assert out.getvalue() == "· a\\x1b[2J: list[str] :warning: [red]…\n"


def test_a_reader_that_went_away_is_no_reason_to_fail():
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w", encoding="utf-8")
    progress = log(stream)
    for _ in range(3):
        progress.note("x", "y")
        progress.end("x", "y", ok=True, seconds=1)
    progress.close()
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize("stream", [None, io.TextIOWrapper(io.BytesIO())])
def test_a_closed_stream_is_no_reason_to_fail(stream):
    if stream is not None:
        stream.close()
    progress = log(stream, tty=True)
    progress.begin("x", "y")
    progress.waiting("x", "y", "z")
    progress.end("x", "y", ok=True, seconds=1)
    progress.close()


def test_an_ascii_stream_gets_plain_marks_and_escapes():
    raw = io.BytesIO()
    progress = log(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    progress.end("straße", "run", ok=True, seconds=1)
    assert raw.getvalue() == b"ok stra\\xdfe: run, 1.0 s\n"


def test_threads_never_mix_their_lines():
    out = io.StringIO()
    with ProgressLog(out, tty=False, color=False) as progress:
        threads = [
            threading.Thread(target=lambda n=n: [progress.note(f"t{n}", "x" * 50) for _ in range(50)]) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 200
    assert all(line.endswith("x" * 50) and line.startswith("· t") for line in lines)
