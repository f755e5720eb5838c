"""Secret detection with the detect-secrets library.

Loading the library takes longer than most commands, so it is loaded only after `may_contain_secret` has returned true.
Its detectors are used for positions, not values: some return only the first letters of a token.
"""

from __future__ import annotations

import re
from functools import cache

from ralph.core.redaction.context import REDACTED
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from detect_secrets.plugins.base import RegexBasedDetector

MAX_DETECTION_PASSES = 20
"""Maximum number of times a text is searched again after a match."""
WINDOW_CHARACTERS = 500
"""Size of a search window, in characters; some patterns of the library take quadratic time."""
OVERLAP_CHARACTERS = 200
"""Overlap of windows, in characters: more than is needed to recognize any secret."""
MAX_TOKEN_REST_CHARACTERS = 1_000
"""Maximum number of characters added to a token of which only the beginning was matched."""

_DETECTORS = (
    "artifactory.ArtifactoryDetector",
    "aws.AWSKeyDetector",
    "azure_storage_key.AzureStorageKeyDetector",
    "basic_auth.BasicAuthDetector",
    "cloudant.CloudantDetector",
    "discord.DiscordBotTokenDetector",
    "github_token.GitHubTokenDetector",
    "gitlab_token.GitLabTokenDetector",
    "ibm_cloud_iam.IbmCloudIamDetector",
    "ibm_cos_hmac.IbmCosHmacDetector",
    "jwt.JwtTokenDetector",
    "mailchimp.MailchimpDetector",
    "npm.NpmDetector",
    "openai.OpenAIDetector",
    "pypi_token.PypiTokenDetector",
    "sendgrid.SendGridDetector",
    "slack.SlackDetector",
    "softlayer.SoftlayerDetector",
    "square_oauth.SquareOAuthDetector",
    "stripe.StripeDetector",
    "telegram_token.TelegramBotTokenDetector",
    "twilio.TwilioKeyDetector",
)
"""Token detectors of the library.

Not those for high entropy, keywords and IP addresses, which match harmless text, nor the one for private keys, which
matches only their headings.
"""

# Superset of what the library's detectors match. Each alternative starts with a rare character, which makes the
# search fast.
SUSPECT_BY_SHAPE = (
    r"A(?:(?:3T[A-Z0-9]|BIA|CCA|KIA|SIA)[0-9A-Z]{16}|C[a-z0-9]{32}|(?<!\wA)(?:KC|P[\dA-F])[A-Za-z0-9]{8}|ccountKey=)"
    r"|SK[a-z0-9]{32}|SG\.[\w-]{22}\.|GR1348941|T3BlbkFJ|yJ(?<=eyJ)|0csp-"
    r"|_(?:authToken=|live_|(?<=gh[oprsu]_)\w{36})|gl(?:pat|dt|ft|rt|soat|cbt|ptt|imt|agent|oas)-[\w-]{20}"
    r"|-(?:AgE|us[0-9](?<=[0-9a-z]{32}-us[0-9]))|\.(?<=[\w-]{24}\.)[\w-]{6}\.[\w-]{27}"
    r"|:(?://[^\s/:@]+:[^\s/:@]+@|(?<=\d{8}:)[\w-]{35})"
)
_SUSPECT_BY_NAME = (
    r"(?i)xox[abopsr]-\d|hooks\.slack\.com/|softlayer.com/soap"
    r"|aws.{0,20}(?:key|pw|pass|token).{0,24}['\"][0-9a-z/+]{40}"
    r"|cl(?:ou(?:dant)?)?[_-]?(?:api)?(?:key|pw|pass|token)"
    r"|(?:key|pwd?|pass(?:word)?|token)['\"]?\]?[ =:>]+['\"]?[\w-]{44}"
)
DETECTOR_MARKERS = ("xox", "slack", "softlayer")
SUSPECT_NAME = r"cl(?:ou(?:dant)?)?[_-]?(?:api)?(?:key|pw|pass|token)"
SUSPECT_VALUE = r"['\"][0-9a-z/+]{40}|[\w-]{44}"
"""Markers and patterns for lowercase words, one of which is in every text that is suspect by a name."""

_GAP = r" {12,}"
"""Boundary that no secret crosses; the library's patterns also take quadratic time on spaces."""
_VALUE = r"[^\s\"'=:][^\s\"']*+"
_REST = r"(?a)[\w-]*+(?:\.[\w-]++)*+=*+"
_PLACEHOLDER = r"[<>{}]"

_EXAMPLE = r"(?i)pass(?:word|wd)?|secret|token|xxx+|\*+"

_DIGIT_AND_CAPITAL = r"(?=\D*+\d)[^A-Z]*+[A-Z]"
_DIGIT_AND_BOTH_CASES = r"(?=\D*+\d)(?=[^a-z]*+[a-z])[^A-Z]*+[A-Z]"
_LIKELY = {
    "ArtifactoryDetector": _DIGIT_AND_BOTH_CASES,
    "AWSKeyDetector": _DIGIT_AND_CAPITAL,
    "DiscordBotTokenDetector": _DIGIT_AND_BOTH_CASES,
    "IbmCloudIamDetector": _DIGIT_AND_BOTH_CASES,
    "TelegramBotTokenDetector": r"\d+:AA",
}
"""Additional patterns for detectors that also match words, such as a class APDUCommandHandler."""
_PREFIX_GROUP_DETECTORS = ("GitHubTokenDetector", "GitLabTokenDetector")


def redact_detected(text: str) -> str:
    """Return the text without the secrets that the library finds."""
    for _ in range(MAX_DETECTION_PASSES):
        # Some patterns of the library match only the last of several secrets on a line.
        if not may_contain_secret(text) or not (spans := find_secret_spans(text)):
            break
        starts, ends = zip(*spans, strict=True)
        text = REDACTED.join(text[end:start] for end, start in zip((0, *ends), (*starts, None), strict=True))
    return text


def may_contain_secret(text: str) -> bool:
    """Return whether the library has to search the text; if not, it would find nothing."""
    if compiled_pattern(SUSPECT_BY_SHAPE).search(text):
        return True
    has_name = compiled_pattern(r"key|pass|pw|secret|token|slack|softlayer|xox").search(text.casefold())
    return bool(has_name and compiled_pattern(_SUSPECT_BY_NAME).search(text))


def find_secret_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each secret in a text, in order, without overlaps."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(_spans(text)):
        if spans and start <= spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return spans


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for start, own_end, end in _windows(text):
        if not may_contain_secret(text[start:end]):
            continue
        for detector in _detectors():
            for pattern in detector.denylist:
                for match in pattern.finditer(text, start, end):
                    if match.start() < own_end and (span := _span(detector, match)):
                        yield span


def _windows(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield search windows: start, end of the starts to report, and end of the text to match against."""
    gaps = [gap.span() for gap in compiled_pattern(_GAP).finditer(text)]
    begin = 0
    for end, next_begin in [*gaps, (len(text), 0)]:
        for start in range(begin, max(begin + 1, end - OVERLAP_CHARACTERS), WINDOW_CHARACTERS - OVERLAP_CHARACTERS):
            if start + WINDOW_CHARACTERS < end:
                yield start, start + WINDOW_CHARACTERS - OVERLAP_CHARACTERS, start + WINDOW_CHARACTERS
            else:
                yield start, end, end
        begin = next_begin


def _span(detector: RegexBasedDetector, match: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the secret in a match, or None for a false positive."""
    name = type(detector).__name__
    text = match.string
    group = 1 if match.re.groups and name not in _PREFIX_GROUP_DETECTORS else 0
    token = compiled_pattern(_VALUE).search(text, *match.span(group))
    if token is None or compiled_pattern(_PLACEHOLDER).search(token[0]) or text.startswith("@sha256:", token.end()):
        return None
    if compiled_pattern(r"EXAMPLE$|[xX]{8}").search(token[0]):
        return None
    if name in _LIKELY and not compiled_pattern(_LIKELY[name]).match(token[0]):
        return None
    if name == "BasicAuthDetector" and compiled_pattern(_EXAMPLE).fullmatch(token[0]):
        return None
    if name == "JwtTokenDetector" and not _is_jwt(detector, token[0]):
        return None
    rest = compiled_pattern(_REST).match(text, token.end(), token.end() + MAX_TOKEN_REST_CHARACTERS)
    assert rest  # the pattern also matches an empty string
    return token.start(), rest.end()


def _is_jwt(detector: RegexBasedDetector, token: str) -> bool:
    try:
        return any(detector.analyze_string(token))
    except RecursionError:  # its JSON payload can be nested arbitrarily deeply
        return False


@cache
def _detectors() -> tuple[RegexBasedDetector, ...]:
    from importlib import import_module

    named = (name.split(".") for name in _DETECTORS)
    return tuple(getattr(import_module(f"detect_secrets.plugins.{module}"), kind)() for module, kind in named)
