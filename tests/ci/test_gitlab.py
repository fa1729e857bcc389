"""The pipelines that users copy (docs/ci), executed on a sample repository. Ours."""

CELLS = ("first@embedded", "second@embedded")
LOCAL = {".gitlab/rollcall.yml": "gitlab-matrix-jobs.yml"}


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


def test_gitlab_with_a_list_joins_the_parts_of_its_jobs(gitlab, with_a_list):
    with_a_list(gitlab.sample)
    done = gitlab.run("gitlab-rollout.yml", local={".gitlab/rollout.yml": "gitlab-rollout-jobs.yml"})
    assert list(done) == ["plan", "rollout 1/3", "rollout 2/3", "merge"]
    assert [job.ok for job in done.values()] == [True, True, True, False], done["merge"].output
    report = gitlab.report("merge")
    assert [(item["name"], item["verdict"]) for item in report["repositories"]] == [
        ("here", "clean"),
        ("kept", "findings"),
    ]
    again = gitlab.run("gitlab-rollout.yml", only="plan")
    assert again["plan"].ok
    known = (gitlab.workspace / ".rollcall/evidence/.rollout").iterdir()
    assert {file.name for file in known} == {"here.times.json", "kept.times.json"}
