"""What is a secret and what only looks like one.

Every example is put together here, so that no text that looks like a secret stands in a file.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import time
from itertools import pairwise
from traceback import walk_stack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.redaction import REDACTED, context, detectors, redact
from ralph.core.redaction.detectors import find_secret_spans, may_contain_secret
from ralph.core.text import sanitize

HEX = "0a1b2c3d4e5f6789"
MIXED = "aB3dE6gH9jK2mN5p"
SMALL = "a1b2c3d4e5f6g7h8"
CAPITALS = "QPZRY9X8GF2TVDW0"

OUR_KEYS = {
    "Anthropic": "-".join(["sk", "ant", "api03", MIXED * 5]),
    "Anthropic login": "-".join(["sk", "ant", "oat01", MIXED * 5]),
    "OpenAI": "-".join(["sk", "proj", MIXED * 6]),
    "OpenAI, old": "sk" + "-" + MIXED * 3,
    "OpenAI service": "-".join(["sk", "svcacct", MIXED * 3]),
    "OpenRouter": "-".join(["sk", "or", "v1", HEX * 4]),
    "DeepSeek": "sk" + "-" + HEX * 2,
    "GitHub": "ghp" + "_" + MIXED * 2 + "aB3d",
    "GitHub server": "ghs" + "_" + MIXED * 2 + "aB3d",
    "GitHub, fine-grained": "_".join(["github", "pat", MIXED + "aB3dE6", MIXED * 3 + "aB3dE6gH9jK"]),
    "GitLab": "glpat" + "-" + MIXED + "aB3d",
    "GitLab runner": "glrt" + "-" + MIXED + "aB3d",
    "Google": "AI" + "za" + MIXED * 2 + "aB3",
    "Google login": "ya" + "29." + MIXED * 4,
    "Google client": "GOC" + "SPX-" + MIXED + "aB3dE6gH9jK2",
    "Amazon": "AK" + "IA" + CAPITALS,
    "Amazon, for a while": "AS" + "IA" + CAPITALS,
    "Amazon Bedrock": "AB" + "SK" + MIXED * 7,
    "Groq": "gsk" + "_" + MIXED * 3 + "aB3d",
    "xAI": "xai" + "-" + MIXED * 5,
    "Replicate": "r8" + "_" + MIXED * 2 + "aB3dE",
    "Perplexity": "pplx" + "-" + MIXED * 3,
    "Fireworks": "fw" + "_" + MIXED + "aB3dE6gH",
    "Together": "_".join(["tgp", "v1", MIXED * 2 + "aB3dE6gH9jK"]),
    "Cerebras": "csk" + "-" + SMALL * 3,
    "NVIDIA": "nvapi" + "-" + MIXED * 4,
    "Hugging Face": "hf" + "_" + "aBcDeFgH" * 4 + "aB",
    "Cursor": "key" + "_" + HEX * 4,
    "Cursor, new": "crsr" + "_" + HEX * 4,
    "Sourcegraph": "sgp" + "_" + HEX * 2 + "0a1b2c3d",
    "Pinecone": "pcsk" + "_" + MIXED * 4,
    "LangSmith": "_".join(["lsv2", "pt", HEX * 2, "0a1b2c3d4e"]),
    "Tavily": "-".join(["tvly", "dev", MIXED * 2]),
    "Firecrawl": "fc" + "-" + HEX * 2,
    "Slack": "-".join(["xoxb", "1234567890", MIXED]),
    "Slack app": "-".join(["xapp", "1", "A012345", "1234567890", HEX * 4]),
    "npm": "npm" + "_" + MIXED * 2 + "aB3d",
    "PyPI": "pypi" + "-AgE" + MIXED * 4,
    "Docker": "_".join(["dckr", "pat", MIXED + "aB3dE6gH9jK"]),
    "Stripe": "_".join(["sk", "live", MIXED * 2]),
    "Stripe, restricted": "_".join(["rk", "test", MIXED * 2]),
    "Stripe webhook": "whsec" + "_" + MIXED * 2,
    "Supabase": "sbp" + "_" + HEX * 2 + "0a1b2c3d",
    "Supabase, new": "_".join(["sb", "secret", MIXED * 2]),
    "Vercel": "vcp" + "_" + MIXED * 3,
    "Vercel gateway": "vck" + "_" + MIXED * 3,
    "Cloudflare": "cfut" + "_" + MIXED * 3,
    "Linear": "_".join(["lin", "api", MIXED * 2 + "aB3dE6gH"]),
    "Notion": "secret" + "_" + MIXED * 2 + "aB3dE6gH9jK",
    "Notion, new": "ntn" + "_" + "12345678901" + MIXED * 2,
    "Sentry": "sntrys" + "_" + MIXED * 5,
    "Databricks": "da" + "pi" + HEX * 2,
    "DigitalOcean": "_".join(["dop", "v1", HEX * 4]),
    "Doppler": ".".join(["dp", "pt", MIXED * 2 + "aB3dE6gH9jK"]),
    "Doppler service": ".".join(["dp", "st", "dev_me", MIXED * 2 + "aB3dE6gH9jK"]),
    "Vault": "hvs" + "." + MIXED * 6,
    "Atlassian": "ATA" + "TT3" + MIXED * 10,
    "Postman": "-".join(["PMAK", HEX + "0a1b2c3d", HEX * 2 + "0a"]),
    "age": "-".join(["AGE", "SECRET", "KEY", "1" + CAPITALS * 3]),
    "Telegram": "123456789" + ":AA" + MIXED * 2 + "a",
    "web token": ".".join(["ey" + "JhbGciOiJIUzI1NiJ9", "ey" + "JzdWIiOiIxMjM0In0", MIXED * 2]),
    "web token without a signature": ".".join(["ey" + "JhbGciOiJub25lIn0", "ey" + "JzdWIiOiIxMjM0In0"]),
}


@pytest.mark.parametrize("secret", OUR_KEYS.values(), ids=OUR_KEYS.keys())
def test_a_key_is_taken_out_wherever_it_stands(secret: str) -> None:
    for text in (
        secret,
        f"Use {secret} here.",
        f'key="{secret}"',
        f"({secret})",
        f"鍵{secret}。",
        f"export K={secret}\n",
    ):
        assert secret not in redact(text)
        assert REDACTED in redact(text)
        assert redact(text).count("[") == 1


def secrets_in(text: str) -> list[str]:
    return [text[start:end] for start, end in find_secret_spans(text)]


def test_nothing_around_a_key_is_taken_with_it() -> None:
    for secret in OUR_KEYS.values():
        assert redact(f"before {secret}, after") == f"before {REDACTED}, after"


def test_our_own_patterns_and_plain_text_do_not_load_the_library() -> None:
    code = (
        "import sys, ralph.cli\n"
        "from ralph.core.text import sanitize\n"
        "sanitize('plain sentence')\n"
        "for line in sys.stdin: assert '[redacted]' in sanitize(line), line\n"
        "print(*(name for name in sys.modules if 'detect_secrets' in name))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(OUR_KEYS.values()), capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, [], "")


JSON_HEAD, JSON_BODY = "ey" + "JhbGciOiJub25lIn0", "ey" + "AiYSI6IDF9"

FOUND_BY_THE_LIBRARY = {
    "artifactory.ArtifactoryDetector": ["AKC" + "p8" + MIXED, "AP" + "6" + MIXED],
    "aws.AWSKeyDetector": ["db_|AK" + "IA" + CAPITALS, "A3" + "T0" + CAPITALS, "aws key '|" + MIXED * 2 + "aB3dE6g/|'"],
    "azure_storage_key.AzureStorageKeyDetector": ["Account" + "Key=|" + MIXED * 5 + "aB3dE6=="],
    "basic_auth.BasicAuthDetector": ["amqp://" + "u" * 120 + ":|hunter2|@host/"],
    "cloudant.CloudantDetector": ["cloudant_" + "pw => '|" + HEX * 4 + "|'", "cl_" + "key  |" + "abcdefgh" * 3 + "|"],
    "discord.DiscordBotTokenDetector": [".".join(["M" + MIXED + "aB3dE6g", "GaBcDe", MIXED + "aB3dE6gH9jK"])],
    "github_token.GitHubTokenDetector": ["x_|ghp" + "_" + MIXED * 2 + "aB3d"],
    "gitlab_token.GitLabTokenDetector": [
        "x_|glpat" + "-" + MIXED + "aB3d",
        "GR" + "1348941" + MIXED + "aB3d",
        "x_|glcbt" + "-1a_" + MIXED + "aB3d",
        "x_|glimt" + "-" + MIXED + "aB3dE6gH9",
        "x_|glptt" + "-" + HEX * 2 + "0a1b2c3d",
        "x_|glagent" + "-" + MIXED * 4,
        "x_|gloas" + "-" + HEX * 4,
    ],
    "ibm_cloud_iam.IbmCloudIamDetector": ["iam key |" + MIXED * 2 + "aB3dE6gH9jK2|"],
    "ibm_cos_hmac.IbmCosHmacDetector": ["cos_hmac_" + "secret_key  |" + HEX * 3],
    "jwt.JwtTokenDetector": [f"{JSON_HEAD}.{JSON_BODY}", f"{JSON_HEAD}.{JSON_BODY}.{MIXED}"],
    "mailchimp.MailchimpDetector": [HEX * 2 + "-us" + "12"],
    "npm.NpmDetector": ["//registry.example.org/:_auth" + "Token=    |" + "-".join([HEX, HEX, "ab"])],
    "openai.OpenAIDetector": ["x_|sk" + "-" + MIXED + "aB3d" + "T3Blbk" + "FJ" + MIXED + "aB3d"],
    "pypi_token.PypiTokenDetector": [
        "x_|pypi" + "-AgEIcHlwaS5vcmc" + MIXED * 5,
        "x_|pypi" + "-AgENdGVzdC5weXBpLm9yZw" + MIXED * 5,
    ],
    "sendgrid.SendGridDetector": [".".join(["SG", MIXED + "aB3dE6", MIXED * 2 + "aB3dE6gH9jK"])],
    "slack.SlackDetector": [
        "x_|" + "-".join(["xoxb", "1234567890", MIXED]),
        "https://hooks." + "slack.com/services/" + "/".join(["T0123", "B0123", MIXED]),
    ],
    "softlayer.SoftlayerDetector": [
        "sl_" + "key  |" + HEX * 4,
        "https://api." + "softlayer.com/soap/v3/|" + HEX * 4,
    ],
    "square_oauth.SquareOAuthDetector": ["sq0" + "csp-" + MIXED * 2 + "aB3dE6gH9jK"],
    "stripe.StripeDetector": ["x_|" + "_".join(["sk", "live", MIXED + "aB3dE6gH"])],
    "telegram_token.TelegramBotTokenDetector": ["https://api.telegram.org/bot|12345678" + ":AA" + MIXED * 2 + "a|/get"],
    "twilio.TwilioKeyDetector": ["A" + "C" + HEX * 2, "S" + "K" + HEX * 2],
}
"""By detector: texts in which the secret stands between two bars, from one bar to the end, or alone."""


def test_every_detector_in_use_has_an_example() -> None:
    assert set(FOUND_BY_THE_LIBRARY) == set(detectors._DETECTORS)


@pytest.mark.parametrize(
    ("name", "marked"), [(name, text) for name, texts in FOUND_BY_THE_LIBRARY.items() for text in texts]
)
def test_what_the_library_finds_is_taken_out(name: str, marked: str) -> None:
    detector = detectors._detectors()[detectors._DETECTORS.index(name)]
    text, parts = marked.replace("|", ""), marked.split("|")
    secret = parts[1] if len(parts) > 1 else text
    around = text.replace(secret, REDACTED)

    assert any(detector.analyze_string(text))
    assert may_contain_secret(text)
    assert redact(text) == around
    assert redact(f"Then: {text}\nNext") == f"Then: {around}\nNext"
    assert secrets_in(text)[0].endswith(secret) or name == "aws.AWSKeyDetector"


PATTERNS = [pattern for detector in detectors._detectors() for pattern in detector.denylist]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:30])
def test_nothing_the_library_could_find_is_held_back_from_it(pattern: re.Pattern[str]) -> None:
    @settings(max_examples=15, deadline=None, database=None)
    @given(st.from_regex(pattern))
    def check(text: str) -> None:
        assert may_contain_secret(text)

    check()


HEADINGS = ["RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY"]


def test_private_keys_are_taken_out_whole() -> None:
    body = "\n".join([MIXED * 4] * 5)
    blocks = [f"-----BEGIN {heading}-----\n{body}\n-----END {heading}-----" for heading in HEADINGS]
    blocks.append(f"-----BEGIN PGP {HEADINGS[-1]} BLOCK-----\n\n{body}\n-----END PGP {HEADINGS[-1]} BLOCK-----")
    blocks.append(f"---- BEGIN SSH2 ENCRYPTED {HEADINGS[-1]} ----\n{body}\n---- END SSH2 ENCRYPTED {HEADINGS[-1]} ----")

    for block in blocks:
        assert redact(f"before\n{block}\nafter") == f"before\n{REDACTED}\nafter"


def test_the_private_lines_of_a_putty_key_are_taken_out() -> None:
    lines = [MIXED * 4, MIXED * 4, MIXED + "="]
    key = "\n".join(["PuTTY-User-Key-File-2: ssh-rsa", "Private-Lines: 3", *lines, "Private-MAC: 00"])

    redacted = redact(key)

    assert MIXED not in redacted
    assert redacted.startswith("PuTTY-User-Key-File-2: ssh-rsa\n")
    assert redacted.endswith("Private-MAC: 00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AccountName=me;Account" + f"Key={MIXED}==;Suffix=x", f"AccountName=me;AccountKey={REDACTED};Suffix=x"),
        ('password := "hunter2hunter2"', f'password := "{REDACTED}"'),
        ("'password' => 'hunter2hunter2'", f"'password' => '{REDACTED}'"),
        ("DB_PASSWORD=my_hunter2", f"DB_PASSWORD={REDACTED}"),
        ("Authorization: Basic " + "dXNlcjpwYXNz", f"Authorization: Basic {REDACTED}"),
        (f"curl -H 'X-Api-Key: {HEX}'", f"curl -H 'X-Api-Key: {REDACTED}'"),
        ("redis://:hunter2@localhost:6379", f"redis://{REDACTED}@localhost:6379"),
    ],
)
def test_a_value_is_taken_out_and_its_name_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


HARMLESS = f"""
sk-learn is an estimator library; see sk-learn-contrib-imbalanced-learn
npm_config_cache=/tmp/cache npm run build
key_name, key_value and key_of_the_first_entry_in_the_list
token: str
token: Token | None = None
next_token=next_token, page_token = self.page_token
password=os.environ["DB_PASSWORD"]
password = getpass.getpass()
password=password, secret=settings.SECRET_KEY
apiKey: process.env.OPENAI_API_KEY
api_key=${{API_KEY}}
api_key: <your key>
"input_token": "next_token"
The password field is required, the token is not.
Set the secret: it must be at least 32 characters long.
secretsManager::RotationSchedule
detect-secrets==1.5.0
UPDATE tasks SET claim_token = :claim_token WHERE token = @token
It says token=self.next_token. It should not.
Use Bearer authentication, not Basic authentication.
Authorization: Bearer <token>
f"Bearer {{self.token}}"
Authorization: Bearer ${{TOKEN}}
https://<user>:<password>@example.org/
https://${{USER}}:${{TOKEN}}@example.org/x.git
docker://alpine:3.19@sha256:{HEX * 4}
git+ssh://git@github.com/owner/project.git@v1.2.3
git@github.com:owner/project.git
https://example.org/a/very/long/path/with-many-parts/index.html?query=value&other=1#part-2
http://localhost:8080/@me/items
postgresql://localhost:5432/ralph
src/ralph/store/schema/0001_tasks.sql
/usr/lib/python3.11/site-packages/detect_secrets/plugins/high_entropy_strings.py
C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python311
550e8400-e29b-41d4-a716-446655440000
commit 8d969eef6ecad3c29a3a629280e686cf0c3f5d5a
"resolved": "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a"
aws-sdk keys are pinned at "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a"
    --hash=sha256:{HEX * 4} \\
"integrity": "sha512-{MIXED * 5}aB3dE6g=="
image: registry.example.org/app@sha256:{HEX * 4}
md5 d41d8cd98f00b204e9800998ecf8427e  empty.txt
1700000000:fix-the-parser-of-long-tables-with-merged-cells-2
1700000000:8d969eef6ecad3c29a3a629280e686cf0c3f5d5a
arn:aws:sns:us-east-1:123456789012:MyTopicForNotificationsAboutOurDemoProject1
mem-1700000000-ab12 replaces mem-1699999999-00ff
test_what_one_attempt_learns_the_next_one_sees_even_after_a_restart
TestBase64EncodingOfLongStrings2 and testUtf8DecodesAllOfTheSurrogates
ACCATGGTAGCATTGACGTAACCATGGTAGCATTGACGTA
APDUCommandHandler and APACHE2LICENSE
APPLICATION_CONFIGURATION_DIRECTORY
MessageDigestAlgorithmsFactory.create.returnsTheSameHashForTheSame
OrganizationMembershipService.update.notifiesEveryMemberOfTheTeam
FOREIGN KEY organization_membership_with_a_very_long_name_id
primary key the-name-of-a-very-long-column-in-a-table
cl_token_count and clkey are names
SG.method.call and SKIPPED or ACCEPTED
fw_updateAllTheThingsInTheList()
vcs_integration_is_done_by_the_plugin
hf_hub_download(repo_id="x")
dapi is the name of a device API
eyJ is how a web token begins
xoxo, yours
pypi-publish-workflow-with-trusted-publishing-enabled-for-all
tasks/task-0001-write-the-parser-for-the-new-format
risk-assessment-of-the-new-release-process-2024
glob-pattern-matching-in-the-configuration-file-2
global-configuration-settings-of-the-2nd-kind
dp.pt.x and ya29.x are beginnings
192.168.0.1 and 8.8.8.8 and 2001:db8::1
2026-01-15T10:20:30.123456+00:00
user@example.org wrote to someone.else@example.com
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
window.__INITIAL_STATE__ = JSON.parse(atob(document.body.dataset.state))
MAX_TOKENS=4096 tokens_in: 1000 tokens_out: 2000
Passwort: das steht im Tresor. Токен: пусто. パスワード：なし
El token de acceso caduca; la contraseña no se guarda.
日本語のテキストは、そのまま残ります。
grep for BEGIN RSA PRIVATE KEY in the repository
class SecretStr(str): ...
<knowledge tags="a,b" title="Tokens">Keys rotate daily.</knowledge>
"""


@pytest.mark.parametrize("line", HARMLESS.strip().splitlines())
def test_what_only_looks_like_a_secret_stays(line: str) -> None:
    assert redact(line) == line


def test_harmless_lines_stay_when_the_library_looks_at_them_too() -> None:
    lines = HARMLESS.strip().splitlines()

    assert len(lines) >= 60
    assert [line for line in lines if secrets_in(line)] == []


@given(st.integers(0, 1_600), st.integers(0, 700), st.sampled_from(["word ", "x", "- ", "\n", "a" * 30 + " "]))
@settings(deadline=None)
def test_a_secret_is_found_wherever_it_begins_in_a_long_text(before: int, after: int, piece: str) -> None:
    secret = "SG." + f"{MIXED}aB3dE6." + f"{MIXED * 2}aB3dE6gH9jK"
    start, end = (piece * before)[:before] + " ", " " + (piece * after)[:after]

    assert redact(start + secret + end) == start + REDACTED + end


def test_many_secrets_in_one_text_are_all_taken_out() -> None:
    lines = [f"line {number}: A" + f"C{number:032d} and more" for number in range(2_000)]

    redacted = redact("\n".join(lines))

    assert redacted == "\n".join(f"line {number}: {REDACTED} and more" for number in range(2_000))


PIECES = [*OUR_KEYS.values(), *(text.replace("|", "") for texts in FOUND_BY_THE_LIBRARY.values() for text in texts)]


@given(st.lists(st.sampled_from([*PIECES, *HARMLESS.splitlines(), "token:", "=", "@"]), max_size=6))
@settings(deadline=None)
def test_what_was_redacted_once_stays_as_it_is(pieces: list[str]) -> None:
    once = redact(" ".join(pieces))

    assert redact(once) == once


@given(st.text(alphabet="ab1AB-_.:/@='\" \n", max_size=1_200))
def test_places_are_in_order_and_apart(text: str) -> None:
    spans = find_secret_spans(text)

    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJ.",
        "x_sk-",
        "//",
        "key ",
        "key" + " " * 900,
        "awskey",
        "AC" + "a" * 32,
        "ghp_",
        "://a:",
        "AP0aaaaaaaa ",
    ],
)
def test_asking_the_library_takes_time_in_proportion(piece: str) -> None:
    def seconds(characters: int) -> float:
        text = (piece * characters)[:characters] + " eyJ"
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    assert min(seconds(40_000) for _ in range(2)) <= 16 * min(seconds(5_000) for _ in range(2)) + 0.1


def test_a_web_token_as_deep_as_it_likes_is_no_fault() -> None:
    inside = base64.urlsafe_b64encode(b"[" * 300).decode()
    room = sys.getrecursionlimit() - sum(1 for _ in walk_stack(None))

    def at_the_bottom(depth: int) -> str:
        return at_the_bottom(depth - 1) if depth else redact(f"{JSON_HEAD}.{inside}")

    assert at_the_bottom(room - 150) == f"{JSON_HEAD}.{inside}"


def test_text_that_is_accepted_holds_no_secret() -> None:
    for piece in PIECES:
        assert not [secret for secret in secrets_in(sanitize(f"a {piece} b")) if secret != REDACTED]


NAME_PARTS = (
    "api key cred credentials pass password pw passwd secret token auth sig signature session sid csrf_x".split()
)


@given(st.lists(st.sampled_from([*NAME_PARTS, *"_-.=:'\n ka0", " is ", " was ", " for ", MIXED, SMALL]), max_size=14))
def test_a_pattern_that_is_tried_only_at_anchors_finds_the_same(parts: list[str]) -> None:
    text = context.lower("".join(parts))
    for pattern, (anchors, before) in context._ANCHORS.items():
        everywhere = [match.span() for match in re.finditer(pattern, text)]
        assert [match.span() for match in context._matches_at(text, pattern, anchors, before)] == everywhere
