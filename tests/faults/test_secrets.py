"""No secret that comes in, by whatever way, is stored or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.core.redaction import REDACTED, environment_secrets, redact
from ralph.core.text import sanitize
from ralph.loop.run_recorder import _LineRedactor
from tests.faults.abused import ANSWERED, WAYS
from tests.faults.secret_contexts import hard, ordinary
from tests.faults.secret_corpus import all_secrets, innocent_lines
from tests.faults.secrets import batches, false_alarm_rate, leaks, miss_rate, missed, spoiled

pytestmark = pytest.mark.sqlite


def test_every_kind_of_secret_is_known() -> None:
    secrets = all_secrets(7)

    assert len(secrets) > 700
    assert len({secret.kind for secret in secrets}) > 250
    assert all(
        secret.seen_in(secret.text)
        for secret in secrets
        if not set(secret.text) & set("\x1b\u200b\u00ad\x00\n\U000e0041")
    )
    assert [(secret.kind, sanitize(secret.text)) for secret in missed(7)] == []


def test_what_only_looks_like_a_secret_stays_readable() -> None:
    assert len(innocent_lines(7)) > 400
    assert spoiled(7) == []


@pytest.mark.storeless
@pytest.mark.parametrize("held_out", [False, True], ids=["development half", "held-out half"])
def test_few_secrets_are_missed(held_out: bool) -> None:
    common, rare = miss_rate(ordinary, held_out), miss_rate(hard, held_out)

    assert min(common.tried, rare.tried) > 150
    assert common.found <= 0.03 * common.tried, str(common)
    assert rare.found <= 0.10 * rare.tried, str(rare)


@pytest.mark.storeless
def test_few_harmless_lines_are_changed() -> None:
    alarms = false_alarm_rate(False, True)

    assert alarms.tried > 300
    assert alarms.found <= 0.01 * alarms.tried, str(alarms)


@pytest.mark.slow
def test_no_secret_is_seen_again_whatever_way_it_came_in(tmp_path: Path) -> None:
    (secrets,) = batches(len(WAYS) + ANSWERED, 1)

    found, searched = leaks(tmp_path / "one", secrets)

    assert found == []
    assert searched > 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my password is {}", "my password is {}"),
        ("curl -u deploy:{} https://example.org", "curl -u deploy:{} https://example.org"),
        ("machine x login me password {}", "machine x login me password {}"),
        ("Cookie: theme=dark; sessionid={}; lang=en", "Cookie: theme=dark; sessionid={}; lang=en"),
        ("deploy --token {} --yes", "deploy --token {} --yes"),
        ("MASTER_KEY={}", "MASTER_KEY={}"),
    ],
)
def test_the_words_around_a_password_stay(text: str, expected: str) -> None:
    password = "Kq7" + "vW2" + "xR9" + "zT4b"

    assert redact(text.format(password)) == expected.format(REDACTED)


def test_the_rest_of_a_key_is_held_back_until_its_end_is_seen() -> None:
    lines = [("aB3d" + str(number)) * 16 for number in range(10, 14)]
    lines = [line[:64] for line in lines]
    hushed = _LineRedactor()

    said = "".join(hushed.add(f"{line}\n") for line in lines)
    said += hushed.add("-----END RSA PRIVATE" + " KEY-----\nfine\n") + hushed.finish()

    assert said == f"{REDACTED}\nfine\n"


LINES_OF_KEY = [f"{letter}b1/C2+d{'Ef3gH' * 11}x" for letter in "abcdef"]


@pytest.mark.storeless
@pytest.mark.parametrize(
    "text",
    [
        "<retry-suggestion>JWT_SECRET={}</retry-suggestion>".format("8f27b0ea4af05c6f3ef56e0ecd3b33234a312cb1"),
        "Over HTTP " + "\n".join(LINES_OF_KEY) + "\n-----END PRIVATE KEY-----",
    ],
    ids=["before a tag", "behind other words"],
)
def test_a_secret_is_known_though_something_stands_close_to_it(text: str) -> None:
    redacted = sanitize(text)

    assert "8f27b0ea" not in redacted
    assert all(line[:20] not in redacted for line in LINES_OF_KEY[:-1])
    assert redacted.startswith(text[:9])


@pytest.mark.storeless
def test_a_type_in_angle_brackets_is_no_secret() -> None:
    assert sanitize("fn f(token: Optional<Foo>, secret: Secret<String>) {}") == (
        "fn f(token: Optional<Foo>, secret: Secret<String>) {}"
    )


@pytest.mark.storeless
@pytest.mark.parametrize(
    "text",
    [
        "--- PASS: TestParseV2Header (0.00s)",
        "All tests pass: TestLogin2FA",
        "Pass Uint8Array to the decoder",
        "pass --maxWorkers=2 to jest",
        'cache_key: "UserProfile2"',
        "partition_key is TenantId2",
        "PASSWORD_ITERATIONS=600000",
        "PASSWORD_RESET_TIMEOUT = 259200",
    ],
)
def test_what_tests_print_and_settings_count_stays_readable(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.storeless
def test_what_our_own_environment_calls_secret_is_taken_out_whatever_it_looks_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-fake")
    monkeypatch.setenv("MY_KEY", "short-1")
    monkeypatch.setenv("DEPLOY_KEY", "/home/me/.ssh/deploy-key-2")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "not-a-secret")
    environment_secrets.cache_clear()
    try:
        said = sanitize("It printed sk-ant-fake, short-1, /home/me/.ssh/deploy-key-2 and not-a-secret.")
    finally:
        environment_secrets.cache_clear()

    assert said == f"It printed {REDACTED}, short-1, /home/me/.ssh/deploy-key-2 and not-a-secret."
