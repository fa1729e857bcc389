"""Tool names: what clients make of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.findings.names import check_names
from harness.findings.remark import Remark
from harness.model.catalogue import Catalogue, ToolDef
from harness.model.checks import CHECKS


def look(*names: Any, server: str = "s") -> list[Remark]:
    tools = tuple(
        ToolDef(name=name if isinstance(name, str) else "", index=index, definition={"name": name})
        for index, name in enumerate(names)
    )
    return list(check_names(Catalogue(server=server, source="a test", tools=tools)))


def said(*names: Any, server: str = "s") -> list[tuple[str, str | None, str]]:
    return [
        (remark.check, remark.tool, remark.severity or CHECKS[remark.check].severity)
        for remark in look(*names, server=server)
    ]


def test_plain_names_get_nothing() -> None:
    assert look("echo", "get_item", "get-it-all", "_x", "A1", "a" * 40) == []


@pytest.mark.parametrize(
    ("name", "char"),
    [("Image layer report", " "), ("GET:/items/names", ":"), ("user/update", "/"), ("größe", "ö"), ("x\ny", "\n")],
)
def test_other_characters_are_an_error_that_names_the_first(name: str, char: str) -> None:
    (found,) = look(name)
    assert (found.check, found.tool, found.severity) == ("names/characters", name, None)
    assert f"the first is {char!r}" in found.message


def test_a_dot_is_legal_and_a_warning() -> None:
    assert said("admin.tools.list") == [("names/characters", "admin.tools.list", "warning")]
    assert "the specification allows it" in look("admin.tools.list")[0].message


def test_a_dot_beside_a_worse_character_is_not_what_is_quoted() -> None:
    (found,) = look("a.b c")
    assert "the first is ' '" in found.message


def test_a_digit_or_a_dash_at_the_beginning_is_a_warning() -> None:
    assert said("2fast", "-x") == [("names/characters", "2fast", "warning"), ("names/characters", "-x", "warning")]


def test_the_length_counts_alone_and_with_the_servers_name() -> None:
    assert said("x" * 64, server="") == [("names/prefixed-length", "x" * 64, "warning")]
    assert said("x" * 65) == [("names/length", "x" * 65, "error")]
    assert "recommends 128" in look("x" * 129)[0].message
    assert "recommends" not in look("x" * 128)[0].message
    assert look("x" * 50, server="short") == []
    (found,) = look("x" * 50, server="a-long-name")
    assert "mcp__a-long-name__" in found.message
    assert str(len("mcp__a-long-name__") + 50) in found.message


def test_two_tools_of_one_name_are_one_finding_with_their_places() -> None:
    (found,) = look("a", "b", "a", "a")
    assert (found.check, found.tool) == ("names/duplicate", "a")
    assert "(places 1, 3, 4)" in found.message


def test_names_that_clients_fold_into_one_are_a_warning() -> None:
    assert [remark.check for remark in look("getItem", "getitem")] == ["names/look-alike"]
    (found,) = [remark for remark in look("get-item", "get_item") if remark.check == "names/look-alike"]
    assert "replace" in found.message
    assert look("get_item", "get_items") == []


@pytest.mark.parametrize("name", ["", None, 5, ["a"]])
def test_a_tool_without_a_name_is_an_error_that_says_which(name: Any) -> None:
    (found,) = look("a", name)
    assert (found.check, found.tool, found.pointer) == ("names/empty", None, "/tools/1/name")


def test_many_tools_are_a_warning_that_names_the_client() -> None:
    assert look(*(f"t{number}" for number in range(40))) == []
    (some,) = look(*(f"t{number}" for number in range(41)))
    (many,) = look(*(f"t{number}" for number in range(158)))
    assert some.evidence["clients"] == ["cursor"]
    assert "openai-api" in many.evidence["clients"]


@given(st.lists(st.text(max_size=8) | st.none(), max_size=6))
def test_any_names_give_remarks(names: list[Any]) -> None:
    for remark in look(*names):
        assert remark.check in CHECKS
        assert remark.message


@given(st.lists(st.sampled_from(["a", "A", "b", "", "c d", "x.y"]), max_size=8), st.data())
def test_the_order_of_tools_changes_no_verdict(names: list[str], data: st.DataObject) -> None:
    again = data.draw(st.permutations(names))
    assert sorted(said(*names), key=str) == sorted(said(*again), key=str)
