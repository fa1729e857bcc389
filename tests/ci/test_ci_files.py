"""The CI files that users copy (docs/ci): valid, pinned, quoted whole in the page, and executed. Ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "docs/ci").glob("*.yml"))
PAGE = ROOT / "docs/how-to/run-in-ci.md"
LOCAL = {".gitlab/rollcall.yml": "gitlab-matrix-jobs.yml"}
CELLS = ("first@embedded", "second@embedded")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_each_file_is_valid_by_the_schema_of_its_service(file):
    schema = "vendor.github-workflows" if file.name.startswith("github") else "vendor.gitlab-ci"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_page_has_each_file_to_copy_as_it_is_tested(file):
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert file.read_text(encoding="utf-8") in blocks


def test_the_page_has_no_other_file_to_copy():
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == len(FILES)


def test_actions_are_pinned_by_commit_with_the_version_beside_it():
    lines = [line for file in FILES for line in file.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("name", ["github-one-job.yml", "github-matrix.yml"])
def test_a_workflow_may_read_the_repository_and_nothing_else(name):
    assert YAML(typ="safe").load(ROOT / "docs/ci" / name)["permissions"] == {"contents": "read"}


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


def test_gitlab_in_one_job_is_clean_and_its_second_run_reuses_the_build(gitlab):
    job = gitlab.run("gitlab-one-job.yml")["integration"]
    assert job.ok, job.output
    assert gitlab.report("integration")["verdict"] == "clean"
    again = gitlab.run("gitlab-one-job.yml")["integration"]
    assert "build: nothing has changed, reused" in again.output


def test_gitlab_with_a_matrix_judges_what_all_jobs_recorded(gitlab):
    done = gitlab.run("gitlab-matrix.yml", local=LOCAL)
    assert list(done) == ["plan", *(f"run: [sample, {cell}]" for cell in CELLS), "judge"]
    assert all(job.ok for job in done.values()), "".join(job.output for job in done.values())
    report = gitlab.report("judge")
    assert report["verdict"] == "clean"
    assert {row["backend"] for row in report["coverage"]} == set(CELLS)


def test_gitlab_fails_for_a_broken_server_with_the_report_kept(gitlab):
    gitlab.sample.edit("src/good.py", 'return text("at last")', 'return text("Error: it broke", isError=True)')
    gitlab.sample.commit()
    assert not gitlab.run("gitlab-one-job.yml")["integration"].ok
    assert gitlab.report("integration")["exit"] == 1
    done = gitlab.run("gitlab-matrix.yml", local=LOCAL)
    assert not done["judge"].ok
    assert "suite/step-failed" in {item["check"] for item in gitlab.report("judge")["findings"]}
