"""Ours: what was read back holds what its class says, or is refused."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from harness.model.plan import RunKey
from harness.model.transcript import RunRecord, record_from_json, record_to_json
from harness.model.typed import misfit


@dataclasses.dataclass(frozen=True)
class Inner:
    text: str


@dataclasses.dataclass(frozen=True)
class Outer:
    number: int = 1
    seconds: float = 1
    word: Literal["a", "b"] = "a"
    maybe: str | None = None
    inner: Inner = Inner("x")
    many: tuple[Inner, ...] = ()
    table: Mapping[str, int] = dataclasses.field(default_factory=dict)
    whatever: Any = None


def test_the_first_field_that_does_not_fit_is_named() -> None:
    assert misfit(Outer(maybe="x", many=(Inner("y"),), table={"a": 1}, whatever=[{}])) == ""
    wrong: list[tuple[str, Any]] = [("number", True), ("number", 1.0), ("seconds", "1"), ("word", "c"), ("word", ["a"])]
    wrong += [("maybe", 5), ("inner", {"text": "x"}), ("inner", Inner(5)), ("many", [Inner("x")]), ("many", (1,))]  # type: ignore[arg-type]
    wrong += [("table", {"a": "b"}), ("table", {1: 1}), ("table", [])]
    for name, value in wrong:
        assert misfit(dataclasses.replace(Outer(), **{name: value})) == name, value


def test_a_run_record_whose_fields_are_something_else_is_none() -> None:
    """One that a hand has changed, in the evidence of one shard, must not end the judging of all."""
    key = RunKey(server="s", backend="none", era="modern", profile="plain")
    good = record_to_json(RunRecord(key=key, plan="p", runtime=None, outcome="finished", cases=("a/b",)))
    assert record_from_json(good).cases == ("a/b",)
    odd: list[tuple[str, Any]] = [
        ("outcome", "clean"),
        ("outcome", {}),
        ("runtime", 5),
        ("protocol", None),
        ("plan", []),
    ]
    odd += [("server_info", "x"), ("capabilities", [5]), ("errors", [5]), ("errors", [{"kind": 5}]), ("cases", [{}])]
    odd += [
        ("command", 5),
        ("commands", [{}]),
        ("versions", {"a": 1}),
        ("stack_use", True),
        ("era", "old"),
        ("server", 5),
    ]
    for name, value in odd:
        with pytest.raises((ValueError, TypeError)):
            record_from_json({**good, name: value})
