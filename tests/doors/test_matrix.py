"""`plan`: the planned runs as commands and as the matrices of CI services. Ours; what a matrix holds, the services'."""

import json
import shlex

import pytest

from harness.errors import ConfigError
from harness.matrix import MOST_JOBS, Job, render


def rows(done):
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)["include"]


def test_the_commands_together_record_what_judging_wants(good):
    done = good.run("plan", "--by", "run")
    commands = [shlex.split(line) for line in done.stdout.splitlines()]
    assert len(commands) == 4
    for program, *arguments in commands:
        assert program == "mcp-rollcall"
        assert good.run(*arguments).code == 0
    assert good.run("judge", "--require-complete").code == 0


def test_a_cell_is_one_job_and_a_run_is_one_with_by_run(good):
    (row,) = rows(good.run("plan", "--format", "github"))
    assert row == {"name": "good none", "server": "good", "backend": "none"}
    by_run = rows(good.run("plan", "--format", "github", "--by", "run"))
    assert {(row["era"], row["profile"]) for row in by_run} == {
        (era, profile) for era in ("modern", "handshake") for profile in ("plain", "asking")
    }


def test_the_matrix_of_github_is_one_line(good):
    """A value of $GITHUB_OUTPUT ends with the line."""
    assert len(good.run("plan", "--format", "github").stdout.splitlines()) == 1


def test_the_selection_is_the_one_of_every_command_and_is_passed_on(good):
    (row,) = rows(good.run("plan", "--format", "json", "--era", "modern", "--profile", "asking", "-k", "asks"))
    assert row["arguments"] == ["--server=good", "--backend=none", "--era=modern", "--profile=asking", "-k", "asks"]
    (row,) = rows(good.run("plan", "--format", "json", "--project", "../" + good.root.name))
    assert row["arguments"][0] == "--server=good"


def test_a_project_elsewhere_is_named(good):
    done = good.run("plan", "--project", "..", cwd="servers")
    assert done.stdout == "mcp-rollcall run --project=.. --server=good --backend=none\n"


def test_nothing_to_plan_is_exit_3_and_an_unknown_name_exit_2(good):
    assert good.run("plan", "-k", "no-such-case").code == 3
    done = good.run("plan", "--server", "god", "--format", "github")
    assert (done.code, done.stdout) == (2, "")
    assert "did you mean" in done.stderr


@pytest.mark.parametrize("form", sorted(MOST_JOBS))
def test_more_jobs_than_a_service_takes_are_an_error_and_not_a_matrix_cut_short(form):
    jobs = [Job(server="s", backend=str(number), arguments=()) for number in range(MOST_JOBS[form] + 1)]
    render(jobs[:-1], form)
    with pytest.raises(ConfigError, match=str(len(jobs))):
        render(jobs, form)


def test_a_dollar_in_a_name_stays_one_for_gitlab():
    rows = json.loads(render([Job(server="a$b", backend="none", arguments=())], "gitlab"))["run"]["parallel"]["matrix"]
    assert rows == [{"ROLLCALL_SERVER": "a$$b", "ROLLCALL_BACKEND": "none"}]
