"""Secret detection with the detect-secrets library.

Loading the library takes longer than most commands, so this module is imported only after `may_contain_secret` has
returned true. Its detectors are used for positions, not values: some return only the first letters of a token.
"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detect_secrets.plugins.base import RegexBasedDetector

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

_GAP = re.compile(r" {12,}")
"""Boundary that no secret crosses; the library's patterns also take quadratic time on spaces."""
_TOKEN = re.compile(r"[^\s\"'=:][^\s\"']*+")
_REST = re.compile(r"[\w-]*+(?:\.[\w-]++)*+=*+", re.ASCII)
_PLACEHOLDER = re.compile(r"[<>{}]")

_EXAMPLE = re.compile(r"(?i)pass(?:word|wd)?|secret|token|xxx+|\*+")

_DIGIT_AND_CAPITAL = re.compile(r"(?=\D*+\d)[^A-Z]*+[A-Z]")
_DIGIT_AND_BOTH_CASES = re.compile(r"(?=\D*+\d)(?=[^a-z]*+[a-z])[^A-Z]*+[A-Z]")
_LIKELY = {
    "ArtifactoryDetector": _DIGIT_AND_BOTH_CASES,
    "AWSKeyDetector": _DIGIT_AND_CAPITAL,
    "DiscordBotTokenDetector": _DIGIT_AND_BOTH_CASES,
    "IbmCloudIamDetector": _DIGIT_AND_BOTH_CASES,
    "TelegramBotTokenDetector": re.compile(r"\d+:AA"),
}
"""Additional patterns for detectors that also match words, such as a class APDUCommandHandler."""
_PREFIX_GROUP_DETECTORS = ("GitHubTokenDetector", "GitLabTokenDetector")


def find_secret_spans(text: str, may_hold_secret: Callable[[str], bool] = bool) -> list[tuple[int, int]]:
    """Return the start and end of each secret in a text, in order, without overlaps.

    Only windows that may hold a secret are searched.

    """
    spans: list[tuple[int, int]] = []
    for start, end in sorted(_spans(text, may_hold_secret)):
        if spans and start <= spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return spans


def _spans(text: str, may_hold_secret: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    for start, own_end, end in _windows(text):
        if not may_hold_secret(text[start:end]):
            continue
        for detector in _detectors():
            for pattern in detector.denylist:
                for match in pattern.finditer(text, start, end):
                    if match.start() < own_end and (span := _span(detector, match)):
                        yield span


def _windows(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield search windows: start, end of the starts to report, and end of the text to match against."""
    gaps = [gap.span() for gap in _GAP.finditer(text)]
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
    token = _TOKEN.search(text, *match.span(group))
    if token is None or _PLACEHOLDER.search(token[0]) or text.startswith("@sha256:", token.end()):
        return None
    if name in _LIKELY and not _LIKELY[name].match(token[0]):
        return None
    if name == "BasicAuthDetector" and _EXAMPLE.fullmatch(token[0]):
        return None
    if name == "JwtTokenDetector" and not _is_jwt(detector, token[0]):
        return None
    rest = _REST.match(text, token.end(), token.end() + MAX_TOKEN_REST_CHARACTERS)
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
