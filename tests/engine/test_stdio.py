"""Lines from chunks, and pipes that hold whatever a server does. Ours; problems S11, S12, S13."""

import asyncio
import json
import sys
import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.mask import Masker
from harness.engine.pipe import PipeClosed
from harness.engine.record import Recorder
from harness.engine.stdio import STILL_S, LineSplitter, open_stdio
from harness.model.transcript import parse_lines


def split(data, sizes, limit=1 << 20):
    splitter, lines, at = LineSplitter(limit), [], 0
    for size in sizes:
        lines += splitter.feed(data[at : at + size])
        at += size
    lines += splitter.feed(data[at:])
    return lines, splitter.rest(), splitter.cut, splitter.at


@given(st.binary(max_size=300), st.lists(st.integers(0, 40), max_size=30), st.integers(1, 60))
def test_the_lines_are_the_same_however_the_bytes_are_cut(data, sizes, limit):
    whole = split(data, (), limit)
    pieces = split(data, sizes, limit)
    assert pieces[0] == whole[0]
    assert pieces[2:] == whole[2:]
    if not whole[2]:
        assert pieces[1] == whole[1]


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=20))
def test_lines_come_out_as_they_went_in_with_their_offsets(lines):
    data = b"".join(line + b"\n" for line in lines)
    found, rest, cut, _ = split(data, ())
    assert [line for _, line in found] == lines
    assert all(data[at : at + len(line)] == line for at, line in found)
    assert (rest, cut) == (b"", False)


@pytest.mark.parametrize("size", [1, 4096, 5 << 20])
def test_five_mebibytes_with_a_character_cut_in_two_are_one_line(size):
    data = "★".encode() * ((5 << 20) // 3) + b"\n"
    step = size if size > 1 else 1021  # single bytes only at the end: a million calls prove no more
    sizes = [step] * (len(data) // step - 2) + [1] * 40
    found, rest, _, _ = split(data, sizes, limit=6 << 20)
    assert [len(line) for _, line in found] == [len(data) - 1]
    assert rest == b""


def test_a_long_line_takes_linear_time():
    """A reader that joins again with every chunk takes a minute for this."""
    splitter, chunk = LineSplitter(1 << 28), b"x" * 4096
    for _ in range((1 << 26) // len(chunk)):
        splitter.feed(chunk)
    assert len(splitter.feed(b"\n")) == 1


def test_a_line_over_the_limit_is_cut_whether_its_end_has_come_or_not():
    assert split(b"a\n" + b"x" * 20 + b"\nb\n", (), limit=10)[2]
    assert split(b"a\n" + b"x" * 20, (), limit=10)[2]
    assert not split(b"a\n" + b"x" * 10 + b"\n", (), limit=10)[2]


# --- with processes -------------------------------------------------------------------------------

PIECES = """
import sys
for line in sys.stdin:
    sys.stdout.write({"piece": "xxxx", "end": "\\n"}[line.strip()])
    sys.stdout.flush()
"""


@pytest.fixture
def start(tmp_path):
    async def begin(code, **more):
        recorder = Recorder(
            tmp_path / "t.jsonl", bodies=tmp_path / "bodies", masker=Masker(["a-secret-1"]), began=time.monotonic()
        )
        return await open_stdio(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "MARK": f"{tmp_path}/", "PYTHONUNBUFFERED": "1"},
            marker=f"{tmp_path}/",
            recorder=recorder,
            **more,
        )

    return begin


@pytest.fixture
def events(tmp_path):
    return lambda: [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]


@pytest.mark.anyio
async def test_a_line_is_on_record_before_anybody_is_told(start, events):
    stdio = await start("print('one'); import sys; sys.stdin.read()")
    told = asyncio.get_running_loop().create_future()
    stdio.on_line = lambda line: told.set_result([event.get("text") for event in events()][-1])
    with anyio.fail_after(30):
        assert await told == "one"
    await stdio.stop()


@pytest.mark.anyio
async def test_an_endless_line_costs_no_memory_and_stops_the_server(start, events):
    stdio = await start("import os\nwhile True: os.write(1, b'a-secret-1')", limit=100_000)
    dead = asyncio.Event()
    stdio.on_dead = lambda why: dead.set()
    with anyio.fail_after(20):
        await dead.wait()
    assert len(stdio.unfinished) == 0
    assert (await stdio.stop()).asked
    kinds = [event["e"] for event in events()]
    assert kinds == ["spawned", "received", "truncated", "stderr", "exited"]
    assert set(events()[1]["text"]) == {"*"}, "masked before it was cut"
    assert len(events()[1]["text"]) == 64 * 1024


@pytest.mark.anyio
async def test_what_is_sent_to_a_closed_stdin_is_refused_at_once(start, events):
    stdio = await start("import os, time; os.close(0); print('closed', flush=True); time.sleep(60)")
    told = asyncio.Event()
    stdio.on_line = lambda line: told.set()
    with anyio.fail_after(30):
        await told.wait()
    with anyio.fail_after(30):
        while not any(event["e"] == "diagnostic" for event in events()):
            await asyncio.sleep(0)
    with pytest.raises(PipeClosed):
        stdio.send(b"x")
    await stdio.stop(hurry=True)
    assert [event["what"] for event in events() if event["e"] == "diagnostic"] == ["stdin-closed"]


@pytest.mark.anyio
async def test_a_server_that_closes_its_stdout_and_lives_on_counts_as_dead(start):
    stdio = await start("import os, time; os.close(1); time.sleep(60)")
    dead = asyncio.get_running_loop().create_future()
    stdio.on_dead = dead.set_result
    with anyio.fail_after(30):
        assert await dead == "the server closed its stdout"
    assert (await stdio.stop(hurry=True)).ended_by == "term"


@pytest.mark.anyio
async def test_stopping_twice_gives_the_same_answer_and_one_record(start, events):
    stdio = await start("import sys; sys.stdin.read(); sys.exit(7)")
    first = await stdio.stop()
    assert await stdio.stop() is first
    assert first.code == 7
    assert [event["e"] for event in events()].count("exited") == 1
    assert parse_lines("t", map(json.dumps, events())).complete


@pytest.mark.anyio
async def test_a_line_that_trickles_is_coming_for_as_long_as_it_paused_before(start):
    """What a slow server is still saying is no broken line; the pauses here are ours, a piece for each line sent."""
    stdio = await start(PIECES)

    async def piece(word="piece"):
        before = len(stdio.unfinished), stdio.line_count
        stdio.send(word.encode())
        with anyio.fail_after(60):
            while (len(stdio.unfinished), stdio.line_count) == before:
                await anyio.sleep(0.005)

    try:
        await piece()
        await anyio.sleep(STILL_S + 0.1)
        assert not stdio.coming  # nothing says that it is slow, and not at its end
        await anyio.sleep(1.2)
        await piece()
        await anyio.sleep(STILL_S + 0.1)
        assert stdio.coming
        await piece("end")
        await piece()
        await anyio.sleep(STILL_S + 0.1)
        assert not stdio.coming  # another line
    finally:
        await stdio.stop()
