"""`${…}`: ours."""

import pytest

from harness.model.placeholders import UnknownPlaceholder, expand, expand_all, names_in


def test_names_are_found_in_keys_and_values_at_any_depth():
    assert sorted(names_in({"${a}": ["x${b}y", {"k": "${c}"}]})) == ["a", "b", "c"]


def test_a_whole_placeholder_keeps_the_type_of_its_value():
    assert expand_all({"n": "${captured.n}", "t": "n=${captured.n}"}, {"captured.n": 7}) == {"n": 7, "t": "n=7"}


def test_true_and_null_inside_a_text_are_spelt_as_json():
    assert expand("${a} ${b}", {"a": True, "b": None}) == "true null"


def test_an_unknown_name_is_an_error_with_the_name():
    with pytest.raises(UnknownPlaceholder) as caught:
        expand_all(["${nope}"], {})
    assert caught.value.args[0] == "nope"


def test_a_value_is_never_expanded_again():
    assert expand("${a}", {"a": "${b}", "b": "x"}) == "${b}"
