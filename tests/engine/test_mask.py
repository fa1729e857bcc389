"""Masking keeps lengths and finds the spellings that secrets take on a wire. Ours."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.mask import Masker, is_secret_name

SECRET = "s3cr3t Pässwörd/+?"


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_the_length_stays_and_the_secret_goes(before, after):
    data = before + SECRET.encode() + after
    masked = Masker([SECRET]).bytes(data)
    assert len(masked) == len(data)
    assert SECRET.encode() not in masked


@pytest.mark.parametrize(
    "spell", [json.dumps, lambda s: json.dumps(s, ensure_ascii=False), lambda s: quote(s, safe="")]
)
def test_escaped_spellings_are_found(spell):
    assert "Pä" not in Masker([SECRET]).text(spell(SECRET))
    assert "%C3" not in Masker([SECRET]).text(spell(SECRET))
    assert "\\u00e4" not in Masker([SECRET]).text(spell(SECRET))


@pytest.mark.parametrize("user", ["a", "ab", "abc", "app", ""])
def test_basic_authentication_does_not_carry_it_out(user):
    password = "k7Yt2Qw9ZxLm4Rb1"
    header = base64.b64encode(f"{user}:{password}".encode()).decode()
    masked = Masker([password]).text(f"Authorization: Basic {header}")
    leaked = masked.removeprefix("Authorization: Basic ").replace("*", "A")
    assert password[1:-1] not in base64.b64decode(leaked).decode("latin-1")
    assert len(masked) == len(f"Authorization: Basic {header}")


def test_values_too_short_to_be_secrets_are_left():
    assert Masker(["abc"]).text("abc abc") == "abc abc"


def test_structures_are_masked_in_keys_and_values():
    assert Masker(["hunter22"]).json({"hunter22": ["x hunter22", 7]}) == {"********": ["x ********", 7]}


@pytest.mark.parametrize("name", ["API_TOKEN", "DB_PASSWORD", "secret", "GITHUB_PAT", "SIGNING_KEY"])
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["PATH", "HOST", "MONKEY", "KEYBOARD", "URL"])
def test_names_that_only_sound_like_it_are_not(name):
    assert not is_secret_name(name)
