"""Ours: what counts as a reason. An excuse that says nothing excuses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.reasons import placeholder

PLACEHOLDERS = [
    "",
    " ",
    "-",
    "--",
    "???",
    "...",
    "…",
    "1",
    "1 2 3",
    "todo",
    "TODO",
    "ToDo.",
    "todo: write a case for it later on",
    "TODO - needs a second account in the store",
    "fixme",
    "FIXME: crashes with long names",
    "tbd",
    "T.B.D",
    "xxx",
    "XXX later on we will",
    "skip",
    "skipped",
    "skip for now",
    "n/a",
    "N/A",
    "na",
    "n.a.",
    "none",
    "known bug",
    "Known bug!",
    "known issue",
    "known bug, see issue",
    "not tested",
    "not tested yet",
    "to be done later",
    "no reason",
    "no reason given",
    "because",
    "flaky",
    "needs account",
    "x x x",
    "no no no no",
    "bla bla bla",
    "test test test test",
    "https://example.org/issues/12",
    "see https://example.org/issues/12",
    "create_event",
    "create event",
    "the tool create_event",
    "Create-Event",
    "create event tool",
    "未実装",
    "テスト未実装",
    "後で",
    "ยังไม่ทำ",
    "ああああああああああ",
    "lorem ipsum dolor",
]
REASONS = [
    "same as approve_pipeline",
    "needs a second account",
    "forwards a child server's result; the shape is the child's",
    "no call can bring a pipeline into the state 'blocked'; needs a forked pull request",
    "create_event needs a calendar with write access",
    "the backend has no such endpoint before 4.2",
    "known bug in the backend: https://example.org/issues/12",
    "bezahlpflichtige Funktion des Dienstes",
    "外部サービスの有料契約が必要なため呼び出せない",
    "需要付费帐户才能调用这个接口",
    "ต้องใช้บัญชีที่มีค่าใช้จ่ายรายเดือน",
    "유료 계정이 있어야 호출할 수 있다",
    "нужен второй пользователь",
]


@pytest.mark.parametrize("reason", PLACEHOLDERS)
def test_a_placeholder_is_no_reason(reason: str) -> None:
    assert placeholder(reason, "create_event")


@pytest.mark.parametrize("reason", REASONS)
def test_a_sentence_is_a_reason(reason: str) -> None:
    assert placeholder(reason, "create_event") == ""


@given(st.text(max_size=60), st.text(max_size=10))
def test_any_text_gets_an_answer(reason: str, subject: str) -> None:
    assert isinstance(placeholder(reason, subject), str)


@given(st.sampled_from(REASONS), st.sampled_from(["", "\n", "  ", "!", " — "]))
def test_what_stands_around_a_reason_does_not_matter(reason: str, around: str) -> None:
    assert placeholder(around + reason + around, "create_event") == ""
