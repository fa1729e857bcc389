"""NO_COLOR, FORCE_COLOR, TERM and CI."""

from __future__ import annotations

import pytest

from harness.report.ansi import Paint, wants_color, wants_status_line


@pytest.mark.parametrize(
    ("env", "isatty", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "0"}, True, True),
        ({"FORCE_COLOR": ""}, False, False),
        ({"NO_COLOR": "", "FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
        ({"CI": "true"}, True, False),
        ({"CI": "false"}, True, True),
        ({"CI": "true", "FORCE_COLOR": "1"}, False, True),
    ],
)
def test_who_gets_colour(env, isatty, wanted):
    assert wants_color(env, isatty) is wanted


def test_a_status_line_is_for_terminals_only():
    assert wants_status_line({"TERM": "xterm"}, True)
    assert not wants_status_line({"FORCE_COLOR": "1"}, False)
    assert not wants_status_line({"TERM": "dumb"}, True)


def test_paint_that_is_off_adds_no_byte():
    assert Paint(False)("red", "x") == "x"
    assert Paint(True)("red", "x") == "\x1b[31mx\x1b[0m"
