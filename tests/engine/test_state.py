"""How a requestState is changed: what can be read in it is changed where it stands, and the rest stays as it was."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.state import Twist, change_character, change_value, must_not_be_repeated

DATA = {"path": "a", "size": 3, "done": False, "tags": ["x"]}
PLAIN = json.dumps(DATA)
TIGHT = json.dumps(DATA, separators=(",", ":"))
URL = base64.urlsafe_b64encode(PLAIN.encode()).decode()


def read(state):
    return json.loads(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))


@pytest.mark.parametrize(
    ("index", "was", "new", "where"),
    [(0, "a", "a-rollcall", "path"), (1, 3, 7000006, "size"), (2, "x", "x-rollcall", "tags")],
)
def test_one_value_of_a_state_that_can_be_read_is_changed(index, was, new, where):
    wanted = {**DATA, where: [new] if where == "tags" else new}
    assert change_value(PLAIN, index) == (json.dumps(wanted), was, new)
    assert change_value(TIGHT, index)[0] == json.dumps(wanted, separators=(",", ":"))
    for state in (URL, URL.rstrip("=")):
        changed = change_value(state, index)[0]
        assert read(changed) == wanted
        assert changed.endswith("=") or len(changed) % 4 == 0 or not state.endswith("=")
    token = change_value(f"v1.{URL.rstrip('=')}.c2lnbmVk", index)[0].split(".")
    assert (token[0], read(token[1]), token[2]) == ("v1", wanted, "c2lnbmVk")


@pytest.mark.parametrize("state", ["", "opaque", "12", '"text"', "v1.UaNjX9McKQoSpZkL", "[]", PLAIN.replace("}", "")])
def test_a_state_that_cannot_be_read_is_left_alone(state):
    assert change_value(state, 0) is None


def test_a_state_has_only_so_many_values():
    assert change_value(PLAIN, 3) is None


@given(st.text(max_size=40))
def test_a_changed_state_differs_in_one_character(state):
    changed = change_character(state)
    if changed is None:
        assert not any(char.isascii() and char.isalnum() for char in state)
        return
    assert len(changed) == len(state)
    assert sum(one != other for one, other in zip(state, changed, strict=True)) == 1


@given(st.text(max_size=200))
def test_whatever_a_state_is_it_can_be_twisted(state):
    for kind in ("without", "replaced", "changed", "value", "replayed"):
        found = Twist(kind=kind).of(state)
        assert found is None or found[0] != state or state == "rollcall"


def test_a_twist_is_done_once_and_a_replay_changes_nothing():
    twist = Twist(kind="without")
    assert twist.of("s") == (None, {"kind": "without"})
    twist.used = True
    assert twist.of("s") is None
    assert Twist(kind="changed").of({"no": "text"}) is None
    replay = Twist(kind="replayed")
    assert (replay.of("s"), replay.is_for_replay) == (None, True)


@pytest.mark.parametrize(
    ("annotations", "holds"),
    [
        ({"destructiveHint": True, "idempotentHint": False}, True),
        ({"destructiveHint": True, "idempotentHint": False, "readOnlyHint": False}, True),
        ({"destructiveHint": True, "idempotentHint": False, "readOnlyHint": True}, False),
        ({"destructiveHint": True}, False),
        ({"idempotentHint": False}, False),
        (None, False),
        ("none", False),
    ],
)
def test_only_a_tool_that_says_so_must_not_be_repeated(annotations, holds):
    assert must_not_be_repeated(annotations) is holds
