from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.redaction import redact
from ralph.core.text import (
    clean,
    count_tokens,
    extract_title,
    find_paths,
    one_line,
    sanitize,
    truncate,
    truncate_words,
)


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("plain", "plain"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a \x1b]never ended\n<task-done>x</task-done>", "a \n<task-done>x</task-done>"),
        ("nul\x00 bell\x07 del\x7f c1\x9b", "nul bell del c1"),
        ("zero\u200bwidth \u202ebidi \ufeffbom \U000e0041tag \u2066iso", "zerowidth bidi bom tag iso"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ("note\U0001d173s short\U0001bca0hand", "notes shorthand"),
        ("tabs\tand\nlines stay", "tabs\tand\nlines stay"),
        ("ümlaut 日本語 \U0001f600", "ümlaut 日本語 \U0001f600"),
    ],
)
def test_clean_leaves_text_and_takes_the_rest(dirty: str, cleaned: str) -> None:
    assert clean(dirty) == cleaned


@given(st.text())
def test_clean_text_can_be_encoded_printed_and_is_clean_already(text: str) -> None:
    cleaned = clean(text)

    assert clean(cleaned) == cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert "\x1b" not in cleaned
    assert "\x00" not in cleaned


SECRETS = [
    "-".join(["sk", "ant", "api03", "abcdefghijklmnop" * 2]),
    "-".join(["sk", "proj", "Abcdefghijklmnop0123"]),
    "ghp" + "_" + "a1B2" * 9,
    "github" + "_pat_" + "a1B2" * 6,
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "AIza" + "a1B2-" * 7,
    "xoxb" + "-1234567890-abcdef",
    "npm" + "_" + "a1B2" * 9,
    "eyJ" + "hbGciOiJIUzI1" + ".eyJ" + "zdWIiOiIxMjM0" + "." + "SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_taken_out_wherever_they_stand(secret: str) -> None:
    for text in (secret, f"before {secret} after", f'key="{secret}"', f"({secret})"):
        assert secret not in redact(text)
        assert "[redacted]" in redact(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password=hunter2hunter2", "password="),
        ("DB_PASSWORD: 'correct horse1'", "DB_PASSWORD: "),
        ('{"api_key": "0123456789abcdef"}', '{"api_key": '),
        ("postgresql://me:s3cretpw@db/x", "@db/x"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer "),
    ],
)
def test_a_value_after_a_telling_name_is_taken_out(text: str, kept: str) -> None:
    redacted = redact(text)

    assert kept in redacted
    assert "[redacted]" in redacted


@pytest.mark.parametrize(
    "harmless",
    [
        "password = os.environ['DB_PASSWORD']",
        "secret: str",
        "api_key=${API_KEY}",
        "The password field is required.",
        "https://example.org/a:b",
        "tokens_in: 1000",
        "skip-this-test-because-it-is-slow",
        "commit 8d969eef6ecad3c29a3a629280e686cf0c3f5d5a",
    ],
)
def test_code_and_prose_stay_as_they_are(harmless: str) -> None:
    assert redact(harmless) == harmless


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["eyJ-", "password", "sk-", "a.b.", "://a:", "-----BEGIN PRIVATE KEY-----", "_key="])
def test_redacting_takes_time_in_proportion(piece: str) -> None:
    def seconds(times: int) -> float:
        text = piece * times
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    assert min(seconds(8_000) for _ in range(3)) <= 24 * min(seconds(1_000) for _ in range(3)) + 0.05


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use tabs. Not spaces.", "Use tabs"),
        ("session.Get() returns nil", "session.Get() returns nil"),
        ("Use session.Get(). Then check.", "Use session.Get()"),
        ("Needs v1.2 of it", "Needs v1.2 of it"),
        ("e.g. tabs are fine. Really", "e.g. tabs are fine"),
        ("first line\nsecond", "first line"),
        ("x" * 150, "x" * 100 + "..."),
        ("Done!", "Done"),
        ("Watch out! The cache is global.", "Watch out"),
        ("Use println! for the output of tests. It is captured.", "Use println! for the output of tests"),
        ("Library code must not call println!", "Library code must not call println!"),
        ("Call `user.save!` before `commit`. Always.", "Call `user.save!` before `commit`"),
        ("Prefer list.empty? over a count. It is faster.", "Prefer list.empty? over a count"),
    ],
)
def test_a_title_is_the_first_sentence_or_line(text: str, expected: str) -> None:
    assert extract_title(text) == expected


def test_paths_are_found_and_calls_are_not() -> None:
    text = "See src/app.py, ./lib/x-y.rs and Cargo.toml; call session.Get() or e.g. os.path.join(a). http://a.b/c.html"

    assert find_paths(text) == ("src/app.py", "./lib/x-y.rs", "Cargo.toml")


@pytest.mark.parametrize(
    "path",
    [
        "src/app/(auth)/layout.tsx",
        "app/orders/[reservationId]/route.ts",
        "apps/www/src/pages/people/[slug]/index.astro",
        "pages/[...slug].astro",
        "app/[[...rest]]/page.tsx",
        "app/@modal/page.tsx",
        "src/routes/+page.svelte",
    ],
)
def test_paths_of_routes_are_files(path: str) -> None:
    assert find_paths(f"Look at {path}, then go on.") == (path,)
    assert find_paths(f"(see {path})") == (path,)


def test_programs_are_no_files() -> None:
    assert find_paths("Next.js 15 on Node.js, see [the guide](docs/a.md) and App.js") == ("docs/a.md", "App.js")


def test_measures() -> None:
    assert count_tokens("") == 0
    assert count_tokens("abcde") == 2
    assert truncate("abcdefghij", 8) == "ab [cut]"
    assert truncate("abc", 8) == "abc"
    assert truncate_words("one two\nthree four", 3) == "one two\nthree [truncated]"
    assert truncate_words("one two", 3) == "one two"
    assert one_line("a\n b\t c") == "a b c"
    assert len(one_line("word " * 100, 50)) <= 50
    assert sanitize("  x\x00y \n") == "xy"
