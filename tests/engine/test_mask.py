"""Masking keeps lengths and finds the spellings that secrets take on a wire. Ours."""

import base64
import html
import json
import re
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


@pytest.mark.parametrize(
    "spell",
    [
        lambda s: quote(s),
        lambda s: re.sub("%..", lambda match: match[0].lower(), quote(s, safe="")),
        lambda s: json.dumps(s).replace("/", "\\/"),
        lambda s: json.dumps(json.dumps(s)),
        lambda s: json.dumps(json.dumps(json.dumps({"x": s}, ensure_ascii=False))),
        html.escape,
        lambda s: s.replace(" ", "+"),
        re.escape,
        lambda s: json.dumps(re.escape(s)),
    ],
    ids=["path", "lower-case", "slash", "json-in-json", "thrice", "html", "form", "pattern", "pattern-in-json"],
)
@pytest.mark.parametrize(
    "secret",
    ["Abc/defGHI+jkl012==", 'qu"ote\\back<slash>&', SECRET, "line\nbreak\ttab", "gh-p_ab.cd~ef-gh", "日本語のひみつ"],
)
def test_spellings_of_spellings_are_found(spell, secret):
    """X01: what a server does to a value before it prints it is not ours to choose."""
    spelt = spell(secret)
    masked = Masker([secret]).text(f"before {spelt} after")
    assert len(masked.encode()) == len(f"before {spelt} after".encode())
    left = masked.removeprefix("before ").removesuffix(" after")
    assert set(left) <= set('*"\\{}: x')


def test_json_stays_json_when_it_is_masked():
    """Else a masked frame would be judged as a stray line."""
    cases = [("nimda-secret", {"t": "line\nimda-secret"}), ("u12345678", {"t": "\x01\u1234u12345678"})]
    cases += [("12345678901", {"n": 12345678901, "t": "12345678901"}), ("back\\slash", {"t": "back\\slash"})]
    for secret, value in cases:
        masked = Masker([secret]).bytes(json.dumps(value).encode())
        assert json.loads(masked).keys() == value.keys()


@given(st.text(min_size=4, max_size=12), st.text(max_size=8), st.text(max_size=8))
def test_any_secret_in_any_string_leaves_json_as_json(secret, before, after):
    line = json.dumps({"k": before + secret + after}).encode()
    masked = Masker([secret]).bytes(line)
    assert len(masked) == len(line)
    json.loads(masked)


@pytest.mark.parametrize(
    "value",
    [
        "true",
        "FALSE",
        "null",
        "4096",
        "0.5",
        "1e6",
        "abc",
        "",
        "tools",
        "result",
        "postgres",
        "inputSchema",
        "tools/list",
        "2.0",
        "admin1",
    ],
)
def test_common_values_are_no_secrets_whatever_their_variable_is_called(value):
    """MAX_TOKENS=4096 must not blank out every 4096, nor APP_SECRET=tools the list of tools."""
    assert Masker([value]).text(f'{{"x": {value or 1}}}') == f'{{"x": {value or 1}}}'


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
    assert Masker(["hunter2222"]).json({"hunter2222": ["x hunter2222", 7]}) == {"**********": ["x **********", 7]}


@pytest.mark.parametrize(
    "name",
    ["API_TOKEN", "DB_PASSWORD", "secret", "GITHUB_PAT", "SIGNING_KEY", "apiKey", "PGPASSWORD", "X_KEY", "accessToken"],
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PATH", "HOST", "MONKEY", "KEYBOARD", "URL", "MAX_TOKENS", "PRIMARY_KEY", "KEY", "COMPASS", "PATTERN"]
)
def test_names_that_only_sound_like_it_are_not(name):
    assert not is_secret_name(name)
