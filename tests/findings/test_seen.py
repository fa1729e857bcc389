"""What is taken out of texts so that they are the same in every run. Ours."""

from harness.findings.seen import scrub


def test_the_paths_of_a_folder_of_ours_are_taken_out_wherever_they_stand():
    own = "/tmp/rollcall-0123456789ab-x1/home"
    assert scrub(f"in {own}/a.txt") == "in ${tmp}/home/a.txt"
    assert scrub(f"A={own} '{own}' file:{own}") == "A=${tmp}/home '${tmp}/home' file:${tmp}/home"
    assert scrub("/tmp/rollcall-0123456789ab=/var/rollcall-ba9876543210/x") == "${tmp}=${tmp}/x"
    assert scrub("/srv/my-rollcall-app/x") == "/srv/my-rollcall-app/x"


def test_a_word_of_any_length_costs_no_more_than_its_letters():
    """A command that prints a megabyte without a blank; tried from every letter it would take half an hour."""
    long = "y" * 1_000_000
    assert scrub(f"{long} {long}/rollcall-0123456789ab-x/y") == f"{long} ${{tmp}}/y"
