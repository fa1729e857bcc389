"""The workflows that users copy (docs/ci), executed on a sample repository. Ours."""

import re

CELLS = ("first@embedded", "second@embedded")


def test_github_in_one_job_is_clean_and_its_second_run_reuses_the_build(github):
    job = github.run("github-one-job.yml")["integration"]
    assert job.ok, job.output
    assert github.report("rollcall")["verdict"] == "clean"
    assert "**mcp-rollcall: clean**" in job.summary
    assert "::error" not in job.output
    assert "build: nothing has changed, reused" not in job.output
    assert next(github.artifacts["rollcall"].rglob("report.xml"))
    github.sample.edit("suites/all.toml", "a = 1, b = 2", "a = 2, b = 1")
    github.sample.commit()
    again = github.run("github-one-job.yml")["integration"]
    assert again.ok, again.output
    assert "build: nothing has changed, reused" in again.output


def test_github_with_a_matrix_gives_the_report_of_one_job(github):
    done = github.run("github-matrix.yml")
    assert list(done) == ["plan", *(f"run sample {cell}" for cell in CELLS), "judge"]
    assert all(job.ok for job in done.values()), "".join(job.output for job in done.values())
    assert all("build: nothing has changed, reused" in done[f"run sample {cell}"].output for cell in CELLS)
    assert sorted(github.artifacts) == ["evidence-0", "evidence-1", "report"]
    assert "**mcp-rollcall: clean**" in done["judge"].summary
    whole = github.report("report")
    assert {row["backend"] for row in whole["coverage"]} == set(CELLS)
    github.run("github-one-job.yml")
    assert github.report("rollcall") == whole


def test_github_with_a_matrix_fails_in_the_last_job_for_what_only_all_of_them_show(github):
    """A tool that no cell calls, and an entry that is false in one."""
    github.sample.edit("suites/all.toml", 'call = "slow"\narguments = { seconds = 0 }', 'call = "echo"')
    github.sample.edit(
        "suites/all.toml", 'call = "echo"\n[[case.step]]', 'call = "echo"\narguments = { text = "y" }\n[[case.step]]'
    )
    github.sample.edit("exemptions.toml", "fail =", 'echo = "it cannot be called without a telephone"\nfail =')
    github.sample.commit()
    done = github.run("github-matrix.yml")
    assert [job.ok for job in done.values()] == [True, True, True, False], done["judge"].output
    found = {(item["check"], item["tool"]) for item in github.report("report")["findings"]}
    assert {("exercised/missing", "slow"), ("exemption/false", "echo")} <= found
    judge = done["judge"]
    assert re.search(r"^::error file=exemptions.toml,line=3,title=exemption/false::", judge.output, re.MULTILINE)
    assert re.search(r"^::error title=exercised/missing::sample: slow", judge.output, re.MULTILINE)
    assert "**mcp-rollcall: findings**" in judge.summary
    assert "exemption/false" in judge.summary


def test_github_with_a_matrix_is_not_green_where_a_job_failed_and_judges_the_rest(github):
    github.sample.edit("backends/second/backend.toml", '"${port.tcp}"]', '"no number"]')
    github.sample.commit()
    done = github.run("github-matrix.yml")
    assert [job.ok for job in done.values()] == [True, True, False, False], done["judge"].output
    report = github.report("report")
    assert report["exit"] == 5
    assert {row["backend"] for row in report["coverage"] if row["judged"]} == {CELLS[0]}
    assert re.search(r"^::error title=mcp-rollcall stack error::sample: ", done["judge"].output, re.MULTILINE)


def test_github_reports_a_build_that_fails_in_the_report_too(github):
    github.sample.edit("harness.toml", "mkdir -p", "exit 3; mkdir -p")
    github.sample.commit()
    done = github.run("github-matrix.yml")
    assert not done["judge"].ok
    assert github.report("report")["exit"] == 4


def test_github_with_a_list_joins_the_parts_of_its_jobs(github, with_a_list):
    with_a_list(github.sample)
    done = github.run("github-rollout.yml")
    assert list(done) == ["plan", "run 1/3", "run 2/3", "merge"]
    assert not done["merge"].ok
    report = github.report("report")
    assert [(item["name"], item["state"], item["verdict"]) for item in report["repositories"]] == [
        ("here", "done", "clean"),
        ("kept", "done", "findings"),
    ]
    assert {(item["server"], item["tool"]) for item in report["findings"] if item["severity"] == "error"} == {
        ("kept", "slow"),
        ("kept", "fail"),
    }
    assert "| `kept` | findings |" in done["merge"].summary
    assert "::error" in done["merge"].output
    assert github.run("github-rollout.yml", until="plan")["plan"].ok
    known = (github.workspace / ".rollcall/evidence/.rollout").iterdir()
    assert {file.name for file in known} == {"here.times.json", "kept.times.json"}
