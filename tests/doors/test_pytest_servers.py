"""The servers behind the plugin's fixtures: which test gets which process, and what it is told when one fails."""

import os
import re

NOTE = """
import os
def note(name, server):
    with open("pids", "a") as file:
        file.write(f"{name} {server.pid}\\n")
"""


def pids(inner):
    """Name of each test -> the process that it had, as the tests noted it."""
    return dict(line.split() for line in (inner.root / "pids").read_text(encoding="utf-8").splitlines())


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def cases(events):
    """How each case of a transcript ended."""
    return {event["case"]: event["how"] for event in events if event["e"] == "case-ended"}


def test_tests_share_a_server_and_get_others_where_they_ask_for_it(inner):
    """Ours: the default is quick; `fresh`, an overridden fixture and a narrower scope give processes of their own."""
    inner.project(more='[profiles.plain]\n[profiles.asking]\nelicit = "accept"').write(
        one=NOTE
        + """
import pytest
def test_a(mcp_harness): note("a", mcp_harness)
class TestClass:
    @pytest.mark.parametrize("word", ["x", "y"])
    def test_b(self, mcp_harness, word):
        note("b" + word, mcp_harness)
        assert mcp_harness.call("echo", {"text": word}).text == word
@pytest.mark.mcp(fresh=True)
def test_c(mcp_harness): note("c", mcp_harness)
def test_d(mcp_harness): note("d", mcp_harness)
""",
        two=NOTE
        + """
import pytest
@pytest.fixture(scope="session")
def mcp_profile(): return "asking"
@pytest.fixture(scope="session")
def mcp_server_env(): return {"WORD": "hello"}
def test_e(mcp_harness):
    note("e", mcp_harness)
    assert "accept" in mcp_harness.call("ask").text
@pytest.fixture(scope="module")
def filled(mcp_harness):
    return mcp_harness.call("echo", {"text": "module"}).text
def test_f(filled, mcp_start_server):
    with mcp_start_server(answers="decline") as first, mcp_start_server(profile="plain") as second:
        first.close()
        note("f1", first); note("f2", second)
        assert second.call("echo", {"text": filled}).text == "module"
""",
    )
    result = inner.run("--mcp-profile=plain", "--mcp-gate=off")
    result.assert_outcomes(passed=7)
    found = pids(inner)
    assert found["a"] == found["bx"] == found["by"] == found["d"]
    assert len({found[name] for name in ("a", "c", "e", "f1", "f2")}) == 5
    assert all(map(gone, found.values()))
    events = [event for transcript in inner.transcripts() for event in transcript]
    assert {event["case"] for event in events if event["e"] == "case-started"} == {
        "test_one.py::TestClass::test_b[plain-x]",
        "test_one.py::TestClass::test_b[plain-y]",
        "test_two.py::test_e[plain]",
        "module set-up",
        "test_two.py::test_f[plain]",
    }
    (inner.root / "pids").unlink()
    inner.run("--mcp-profile=plain", "--mcp-gate=off", "--mcp-scope=function", "test_one.py").assert_outcomes(passed=5)
    assert len(set(pids(inner).values())) == 5


def test_a_test_whose_server_dies_is_told_all_and_the_next_one_gets_another(inner):
    inner.project("dies_in_call", eras='["handshake"]').write(
        dies=NOTE
        + """
def test_dies(mcp_harness):
    note("dies", mcp_harness)
    mcp_harness.call("echo", {"text": "before"})
    mcp_harness.call("die")
def test_next(mcp_harness):
    note("next", mcp_harness)
    assert mcp_harness.call("echo", {"text": "after"}).text == "after"
"""
    )
    result = inner.run()
    result.assert_outcomes(passed=1, failed=2)  # the gate, too: a server that dies is a finding
    found = pids(inner)
    text = result.stdout.str()
    assert found["dies"] != found["next"]
    assert re.search(r"ServerDied: .*tools/call die", text)
    assert "exit code 1" in text
    assert re.search(r"-+ mcp frames \(\S+, pid \d+, ended with exit code 1\) -+", text)
    assert '"name":"die"' in text.partition("mcp frames")[2]
    assert "harness/" not in re.sub(r"rootdir.*", "", text).replace("tests/", ""), "no line of ours in a traceback"
    assert cases(inner.transcripts()[0])["test_dies.py::test_dies"] in ("died", "failed")


def test_a_server_that_hangs_fails_its_test_in_time_and_the_next_one_gets_another(inner):
    inner.project("never_answers_call", eras='["handshake"]').write(
        hangs=NOTE
        + """
import pytest
@pytest.fixture(scope="session")
def mcp_call_timeout(): return 0.5
def test_hangs(mcp_harness):
    note("hangs", mcp_harness)
    mcp_harness.call("hang")
def test_next(mcp_harness):
    note("next", mcp_harness)
    assert mcp_harness.call("echo", {"text": "after"}).text == "after"
"""
    )
    result = inner.run("--mcp-gate=off")
    result.assert_outcomes(passed=1, failed=1)
    found = pids(inner)
    assert found["hangs"] != found["next"]
    assert all(map(gone, found.values()))
    result.stdout.fnmatch_lines(["*NoAnswer: no answer to tools/call hang within 0*", "*mcp frames (*"])


def test_a_failed_test_shows_what_its_server_said_with_secrets_masked_and_covers_nothing(inner):
    inner.project("shows_environment", eras='["handshake"]', more='env = { API_TOKEN = "s3cr3t-of-somebody" }').write(
        fails="""
def test_fails(mcp_harness):
    said = mcp_harness.call("value", {"text": "API_TOKEN"}).text
    assert len(said) == 0, "it says something"
"""
    )
    result = inner.run()
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    shown = text.partition("mcp frames")[2].partition("short test summary")[0]  # where CI is set, that quotes the test
    assert "tools/call" in shown
    assert "s3cr3t-of-somebody" not in shown
    assert cases(inner.transcripts()[0])["test_fails.py::test_fails"] == "failed"
    assert "0 of" in inner.section(result), "the call of a failed test covers nothing"


def test_a_server_that_does_not_start_is_an_error_of_the_set_up_with_its_last_words(inner):
    result = (
        inner.project("dies_at_start")
        .write(
            start="""
def test_one(mcp_harness): pass
def test_two(mcp_harness): pass
"""
        )
        .run()
    )
    assert result.parseoutcomes()["errors"] == 2
    result.stdout.fnmatch_lines(["*the server ended with exit code * before its first answer*"])
    assert "During handling" not in result.stdout.str()
    assert "error" in inner.section(result).splitlines()[1], "nothing was run: that is not clean"


def test_a_server_over_http_is_started_on_a_port_of_its_own_each_time(inner):
    toml = inner.root / "harness.toml"
    inner.project("over_http", eras='["modern", "handshake"]')
    text = toml.read_text(encoding="utf-8").replace('over_http.py"]', 'over_http.py", "${port}", "auth"]')
    where = '[server]\ntransport = "http"\nurl = "http://127.0.0.1:${port}/mcp"\n'
    where += 'headers = { Authorization = "Bearer sesame-0penTheD00r-42" }\n'
    toml.write_text(text.replace("[server]\n", where), encoding="utf-8")
    result = inner.write(
        http=NOTE
        + """
import pytest
def test_two(mcp_harness, mcp_start_server):
    note("one", mcp_harness)
    with mcp_start_server() as other:
        note("other", other)
        assert other.call("echo", {"text": "there"}).text == "there"
        assert mcp_harness.call("echo", {"text": "here"}).text == "here"
    with pytest.raises(pytest.fail.Exception, match="asks for authorization: HTTP 401"):
        mcp_start_server(headers={})
def test_loses(mcp_harness):
    note("loses", mcp_harness)
    mcp_harness.call("echo", {"text": "html-page"})
def test_other(mcp_harness):
    note("after", mcp_harness)
    assert mcp_harness.call("echo", {"text": "fresh"}).text == "fresh"
def test_dies(mcp_harness):
    note("dies", mcp_harness)
    mcp_harness.call("die")
def test_next(mcp_harness):
    note("next", mcp_harness)
    assert mcp_harness.call("echo", {"text": "on"}).text == "on"
"""
    ).run("--mcp-gate=full")
    result.assert_outcomes(passed=6, failed=5)
    result.stdout.fnmatch_lines(["*ServerDied: *"])
    result.stdout.fnmatch_lines(
        ["*AnswerLost: echo can get no answer: HTTP 200 with an HTML page ('Log in'); the server*"]
    )
    found = pids(inner)
    assert found["one"] == found["loses"], "one that has answered everything is kept"
    assert found["after"] == found["dies"], "and one that owes an answer is another in the next test"
    assert len(set(found.values())) == 4
    assert all(map(gone, found.values()))
    assert "1 of 7 tools exercised" in inner.section(result)
    assert "over HTTP" in inner.section(result)


def test_async_tests_await_the_same_server_side_by_side(inner):
    inner.pytester.makeini("[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n")
    inner.project().write(
        awaits="""
import asyncio
import anyio
import pytest
from harness.testing import NoAnswer, ToolError

pids = set()

@pytest.mark.asyncio
async def test_asyncio(mcp_harness_async):
    pids.add(mcp_harness_async.pid)
    texts = [f"t{number}" for number in range(20)]
    found = await asyncio.gather(*(mcp_harness_async.call("echo", {"text": text}) for text in texts))
    assert [item.text for item in found] == texts

@pytest.mark.anyio
async def test_anyio(mcp_harness_async):
    pids.add(mcp_harness_async.pid)
    with pytest.raises(ToolError, match="on purpose"):
        await mcp_harness_async.call("fail")
    assert len(await mcp_harness_async.tools()) == 6
    with anyio.move_on_after(0.1) as scope:
        await mcp_harness_async.call("slow", {"seconds": 0.3})
    assert scope.cancelled_caught
    assert (await mcp_harness_async.call("echo", {"text": "on"})).text == "on"

@pytest.mark.asyncio
async def test_cancelled(mcp_harness_async):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await mcp_harness_async.call("slow", {"seconds": 1})
    assert (await mcp_harness_async.call("echo", {"text": "on"})).text == "on"

def test_sync(mcp_harness):
    assert pids == {mcp_harness.pid}

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request): return request.param
"""
    )
    result = inner.run("--mcp-gate=off", plugins=("mcp_rollcall", "anyio", "pytest_asyncio.plugin"))
    result.assert_outcomes(passed=5)


def test_a_test_that_is_run_again_is_a_case_of_its_own_and_only_the_good_one_covers(inner):
    inner.project().write(
        flaky="""
count = 0
def test_flaky(mcp_harness):
    global count
    count += 1
    mcp_harness.call("echo" if count == 1 else "add", {"text": "x"} if count == 1 else {"a": 1, "b": 2})
    assert count == 2
"""
    )
    result = inner.run("--reruns=1", plugins=("mcp_rollcall", "rerunfailures"))
    assert result.parseoutcomes() == {"failed": 1, "passed": 1, "rerun": 1}
    assert cases(inner.transcripts()[0]) == {
        "test_flaky.py::test_flaky": "failed",
        "test_flaky.py::test_flaky (run 2)": "completed",
    }
    text = inner.section(result)
    assert "1 of 6 tools exercised" in text
    assert "✗ echo: exercised/" in text


def test_a_comparison_with_a_result_says_what_is_in_it(inner):
    inner.project().write(
        compares="""
def test_text(mcp_harness):
    assert mcp_harness.call("echo", {"text": "hi"}) == "hi"
def test_json(mcp_harness):
    assert mcp_harness.call("add", {"a": 1, "b": 2}) == {"sum": 3}
"""
    )
    result = inner.run("--mcp-gate=off")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E *left.text: 'hi'", "E *a result is no text; compare its .text"])
    result.stdout.fnmatch_lines(["E *left.structured: {'sum': 3}", "E *a result is no JSON value; *"])
