"""Servers over Streamable HTTP: both eras, what the transport asks of a client, and how it goes wrong."""

import pytest

from harness.model.transcript import Stdout

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:${port}/mcp"


@pytest.fixture
def drive(play, make):
    async def run_it(*twists, cases=None, **more):
        cases = cases or [(make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}),)]
        more = {"call_timeout_s": 5.0, "start_timeout_s": 15.0, **more}
        return await play("over_http", cases, args=("${port}", *twists), url=URL, **more)

    return run_it


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_healthy_server_is_driven_to_the_end_in_both_eras(drive, make, era):
    cases = [
        (make.call("echo", {"text": "hé ★"}, expect={"text_equals": "hé ★"}),),
        (make.call("ask", expect={"text_equals": "accept {'confirm': True}"}),),
        (make.call("region", {"place": "Koeln"}, expect={"text_equals": "Koeln"}),),
        (make.call("talk", expect={"text_equals": "done"}),),
        (make.call("close", expect={"text_equals": "resumed" if era == "handshake" else ""}),),
    ]
    played = await drive(cases=cases, era=era, elicit="accept")
    assert played.record.errors == ()
    assert played.record.outcome == "finished"
    assert set(played.cases.values()) == {"completed"}
    assert played.record.transport == "http"
    assert played.exits[0].ended_by == "term"
    assert played.of(Stdout)[0].body.text == "a banner on stdout is nobody's business\n"
