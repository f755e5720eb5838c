"""Ask a maintained library where the secrets of a text stand.

Loading the library takes longer than most commands, so nothing imports this
module before `text.may_hold_secret` has said yes. Its detectors are asked for
places, not values: some of them give only the first letters of a token.
"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detect_secrets.plugins.base import RegexBasedDetector

WINDOW = 500
"""So many characters are searched at a time: some of the library's patterns take time squared."""
OVERLAP = 200
"""More than any secret needs to be known by; the rest of a longer one is taken with it."""
REST = 1_000
"""So much more of a token is taken when only its beginning was known."""

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
"""The library's detectors of tokens.

Not those for high entropy, keywords and addresses of computers, which find harmless text,
nor the one for private keys, which finds their headings only: `text` takes those out whole.
"""

_GAP = re.compile(r" {12,}")
"""No secret is known across one; the library's patterns take time squared in spaces, too."""
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
"""These find words too: a class APDUCommandHandler, a genome, 1700000000:name-of-a-branch. Random text has it all."""
_NAMES_ONLY_THE_PREFIX = ("GitHubTokenDetector", "GitLabTokenDetector")


def secrets_in(text: str) -> list[str]:
    """Give the secrets of the text, in order."""
    return [text[start:end] for start, end in spans_in(text)]


def spans_in(text: str, may_hold_secret: Callable[[str], bool] = bool) -> list[tuple[int, int]]:
    """Give where the secrets of the text begin and end, in order and apart.

    Only pieces that may hold one are searched.
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
                for found in pattern.finditer(text, start, end):
                    if found.start() < own_end and (span := _span(detector, found)):
                        yield span


def _windows(text: str) -> Iterator[tuple[int, int, int]]:
    """Give where to search: from, to, and how far on to look for the end of what begins in between."""
    ends_of_stretches = [gap.span() for gap in _GAP.finditer(text)]
    begin = 0
    for end, next_begin in [*ends_of_stretches, (len(text), 0)]:
        for start in range(begin, max(begin + 1, end - OVERLAP), WINDOW - OVERLAP):
            if start + WINDOW < end:
                yield start, start + WINDOW - OVERLAP, start + WINDOW
            else:
                yield start, end, end
        begin = next_begin


def _span(detector: RegexBasedDetector, found: re.Match[str]) -> tuple[int, int] | None:
    """Give the place of the secret in what was found, or None if it is none."""
    name = type(detector).__name__
    text = found.string
    group = 1 if found.re.groups and name not in _NAMES_ONLY_THE_PREFIX else 0
    token = _TOKEN.search(text, *found.span(group))
    if token is None or _PLACEHOLDER.search(token[0]) or text.startswith("@sha256:", token.end()):
        return None
    if name in _LIKELY and not _LIKELY[name].match(token[0]):
        return None
    if name == "BasicAuthDetector" and _EXAMPLE.fullmatch(token[0]):
        return None
    if name == "JwtTokenDetector" and not _is_web_token(detector, token[0]):
        return None
    rest = _REST.match(text, token.end(), token.end() + REST)
    assert rest  # of no characters, perhaps
    return token.start(), rest.end()


def _is_web_token(detector: RegexBasedDetector, token: str) -> bool:
    try:
        return any(detector.analyze_string(token))
    except RecursionError:  # it is JSON inside, as deep as it likes
        return False


@cache
def _detectors() -> tuple[RegexBasedDetector, ...]:
    from importlib import import_module

    named = (name.split(".") for name in _DETECTORS)
    return tuple(getattr(import_module(f"detect_secrets.plugins.{module}"), kind)() for module, kind in named)
