"""Ours: what a child is told about the run that stands survives its file."""

from __future__ import annotations

import json

import pytest

from harness.model.plan import AnswerSpec, ProfileSpec, RootSpec, RunKey, SampleSpec
from harness.model.session import SessionSpec, session_from_json, session_to_json

SESSION = SessionSpec(
    run=RunKey(server="srv", backend="redis@8", era="modern", profile="plain"),
    project="/repo",
    plan="p",
    build="b",
    evidence="/repo/.rollcall/evidence/x",
    began=12.5,
    secrets=("s3cret\nwith lines", "päss"),
    command=("srv", "--url", "redis://127.0.0.1:1"),
    cwd="/repo",
    env={"PATH": "/bin"},
    values={"backend.redis.url": "redis://127.0.0.1:1"},
    allowed=("127.0.0.1:1",),
    profiles={
        "plain": ProfileSpec(name="plain"),
        "asking": ProfileSpec(
            name="asking",
            elicit="accept",
            env={"A": "b"},
            elicit_modes=("form", "url"),
            answers=(AnswerSpec(action="decline", message="sure", fields=("confirm",), schema={"type": "object"}),),
            sampling=(SampleSpec(content=({"type": "text", "text": "hm"},)),),
            roots=(RootSpec(uri="file:///tmp", name="tmp"),),
        ),
    },
)


def test_a_session_is_read_back_as_it_was_written() -> None:
    assert session_from_json(session_to_json(SESSION)) == SESSION


def test_keys_of_a_later_version_are_passed_over() -> None:
    assert session_from_json(json.dumps({**json.loads(session_to_json(SESSION)), "later": [1]})) == SESSION


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "run": {"server": 1, "x": 2}}'],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"session|Expecting"):
        session_from_json(text)
