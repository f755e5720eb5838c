"""Secrets in encodings and close to telling words, and how long hostile texts take."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from ralph.core.redaction import REDACTED, redact
from ralph.core.redaction.gitleaks_rules import RULES
from ralph.core.redaction.randomness import is_mixed

pytestmark = pytest.mark.storeless

RANDOM = "aB3dE6gH9jK2" + "mN5pQ8sT1uV4wX7y"
"""28 characters without a format."""
TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5p" * 2 + "aB3d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Mistral key is {}, it expires.", "The Mistral key is {}, it expires."),
        ("| Cohere | `{}` | old |", "| Cohere | `{}` | old |"),
        ("{} <- Voyage, do not lose it", "{} <- Voyage, do not lose it"),
        ("GET /v1/search?q=tea&key={}&page=2", "GET /v1/search?q=tea&key={}&page=2"),
        ('{{"name": "API_KEY", "value": "{}"}}', '{{"name": "API_KEY", "value": "{}"}}'),
        ("machine a.example.com\n  login bot\n  password {}\n", "machine a.example.com\n  login bot\n  password {}\n"),
    ],
)
def test_only_a_random_value_is_replaced(text: str, expected: str) -> None:
    assert redact(text.format(RANDOM)) == expected.format(REDACTED)


def test_a_random_value_without_telling_words_stays() -> None:
    assert redact(f"version {RANDOM} of the object") == f"version {RANDOM} of the object"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_token_behind_escaped_line_breaks_is_known(depth: int) -> None:
    text = f"before\n{TOKEN}\nafter"
    for _ in range(depth):
        text = json.dumps({"text": text})

    assert "dE6gH9" not in redact(text)
    assert redact(text).count(REDACTED) == 1


def test_a_file_in_base64_is_decoded_even_in_lines() -> None:
    encoded = base64.encodebytes(f"PORT=80\nDEBUG=0\nNODE_ENV=production\nAPI_KEY={RANDOM}\n".encode()).decode()

    assert redact(f"echo {encoded.strip()} | base64 -d") == f"echo {REDACTED} | base64 -d"
    assert redact("echo aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0Cg==") == "echo aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0Cg=="


def test_the_rest_of_a_percent_encoded_value_stays() -> None:
    assert redact(f"body=a%20b%3BAPI_KEY%3D{RANDOM}%0A") == f"body=a%20b%3BAPI_KEY={REDACTED}%0A"


def test_names_in_code_do_not_look_random() -> None:
    for name in ("OAuth2PasswordBearerToken", "TokenFilterV2Configuration"):
        assert not is_mixed(name)


HOSTILE = [
    "%25",
    "%2525",
    "aB3",
    f"{RANDOM} ",
    f"key {RANDOM} ",
    "\\n",
    "[0m",
    "machine a.b login c password ",
    "password value=",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY3ODk",
    "?key=%3D",
    "secret 0123456789abcdef0123456789abcdef ",
    *(f"{keywords[0]}: {RANDOM} " for keywords, *_ in RULES[::12]),
    *(f"{keywords[0]}a1b2c3d4" for keywords, *_ in RULES[::12]),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_texts_take_linear_time(unit: str) -> None:
    redact(unit * 20)

    small, large = (_cpu_seconds((unit * 40_000)[:size]) for size in (16_384, 131_072))

    assert large < 20 * small + 0.2  # eight times the text; quadratic would be 64 times


def _cpu_seconds(text: str) -> float:
    begin = time.process_time()
    redact(text)
    return time.process_time() - begin


def test_the_rules_of_gitleaks_carry_their_license() -> None:
    import ralph.core.redaction as package

    text = (Path(package.__file__).parent / "LICENSE.gitleaks").read_text()

    assert "MIT License" in text
    assert len(RULES) > 150
