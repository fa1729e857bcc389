"""What the recorder of a proxy makes of lines that nobody has promised to be messages. Ours."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.evidence import read_transcript
from harness.engine.recording import PARSED_BYTES, Labels, record
from harness.model.journal import BEGAN, ENDED, ENTRY, FROM_CLIENT, FROM_SERVER
from harness.model.transcript import Exited, Received, Sent, Truncated

PAD = b" " * PARSED_BYTES
BITS = st.sampled_from(
    [
        *(b'"id":', b'"method":', b'"name":', b'"uri":', b'"tools/call"', b"007", b"-", b"-0", b"1e5", b"9" * 20, b'"'),
        *(b'"\xff"', b'"\x01"', b"{", b"}", b"[", b"]", b",", b"null", b'"\\ud800"', b"NaN", b"\\", b"\0", b" "),
    ]
)


def written(folder, *entries):
    """What the recorder makes of a journal whose proxy is gone."""
    journal = os.open(folder / "journal", os.O_RDWR | os.O_CREAT)
    began = json.dumps({"pid": 2**22 + 1, "argv": ["server"], "cwd": "/", "env": []}).encode()
    for kind, data in ((BEGAN, began), *entries, (ENDED, b'{"code": 0, "ended_by": ""}')):
        os.write(journal, ENTRY.pack(kind, 1.0, len(data)) + data)
    ear, bell = os.pipe()
    os.close(bell)
    child = os.fork()
    if not child:
        try:
            os._exit(record(journal, ear, bytearray(2), str(folder), "outside-proxy-1.jsonl", "s", None))
        finally:
            os._exit(1)
    os.close(ear)
    os.close(journal)
    assert os.waitpid(child, 0)[1] == 0
    assert (folder / "done").exists()
    return read_transcript(folder / "outside-proxy-1.jsonl").events


@given(st.lists(BITS, max_size=12), st.booleans(), st.booleans())
def test_no_line_of_any_length_is_one_that_cannot_be_labelled(bits, long, later):
    line = b"".join(bits)
    line = (PAD + line if later else line + PAD) if long else line
    labels = Labels()
    labels.sent(line)
    labels.received(line)


@pytest.mark.parametrize("identity", [b"007", b'"\xff"', b'"\x01"', b"-01"])
def test_a_long_line_whose_id_is_no_json_is_recorded_and_all_after_it_too(tmp_path, identity):
    odd = b'{"jsonrpc":"2.0","id":' + identity + b',"method":"tools/call","params":{"name":"echo"}}'
    call = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    events = written(tmp_path, (FROM_CLIENT, odd + PAD + b"\n"), (FROM_SERVER, odd + PAD + b"\n"), (FROM_CLIENT, call))
    assert [event.label for event in events if isinstance(event, Sent)] == ["tools/call echo", "ping"]
    assert [event.body.data for event in events if isinstance(event, Received)] == [odd + PAD]
    assert isinstance(events[-1], Exited)


def test_what_the_recorder_cannot_take_ends_no_recording(tmp_path):
    """A fault of our own is said in the transcript, which has an end all the same."""
    events = written(tmp_path, (BEGAN, b"no JSON"), (FROM_CLIENT, b"x\n"))
    assert [event.reason.partition(":")[0] for event in events if isinstance(event, Truncated)] == [
        "the recorder failed"
    ]
    assert isinstance(events[-1], Exited)
