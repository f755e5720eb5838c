"""Detection of random values by the words around them.

Keys of many providers have no format (Mistral, Cohere, Datadog), and agents name them in many ways: before the value,
behind it, in a table. A value that looks random is a secret if a word for secrets or a provider is close to it.
"""

from __future__ import annotations

from ralph.core.redaction.randomness import entropy, is_mixed, is_placeholder, is_single_case
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

BEFORE_CHARACTERS, AFTER_CHARACTERS = 90, 40
"""Distance of a telling word from a value, in characters."""
MIN_MIXED_CHARACTERS, MIN_SINGLE_CASE_CHARACTERS, MIN_PREFIXED_CHARACTERS = 20, 30, 30
MIN_ENTROPY = 3.0

_RUN = r"(?a)(?<![A-Za-z0-9])[A-Za-z0-9_~+-]{20,300}+(?![A-Za-z0-9])"
_FORTY = r"(?a)(?<![\w+/=.:@$#-])[A-Za-z0-9+/]{40}(?![\w+/=@-]|\.\w)"
"""Format of an AWS secret."""
_BASE64 = r"(?a)(?<![\w+/=.-])[A-Za-z0-9+/]{24,100}+={0,2}(?![\w+/])"
_HEX_OR_UUID = r"(?a)(?<![\w-])(?:[0-9a-f]{32,64}|[0-9A-F]{32,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w-])"

# All patterns below are matched against lowercase text.
_PROVIDERS = frozenset(
    """
    1password adyen airtable akamai alchemy algolia alibaba amazon amplitude anthropic apify artifactory asana
    assemblyai atlas atlassian auth0 aws axiom azure betterstack binance bitbucket box braintree brave brevo
    buildkite cerebras chroma circleci clerk clickup cloudflare codecov cohere coinbase confluent contentful
    crates.io datadog deepgram deepinfra deepseek digitalocean discord docker dockerhub doppler drone dropbox
    e2b eleven elevenlabs exa facebook fastly figma firebase firecrawl fireworks fly fly.io gcp gemini github
    gitlab google grafana grok groq helicone heroku hetzner honeycomb hubspot hugging huggingface hyperbolic ibm
    infura instagram intercom jenkins jfrog jina jira kraken lambda langfuse langsmith launchdarkly linear
    linode logtail mailchimp mailgun mapbox milvus mistral mixpanel modal monday mongodb neon netlify newrelic
    relic ngrok notion novita npm nuget nvidia okta openai openrouter opsgenie optimizely oracle ovh pagerduty
    paypal perplexity pinecone plaid planetscale plivo portkey posthog postmark pulumi pypi qdrant railway
    reddit redis render replicate resend rollbar rubygems runpod runway salesforce sambanova sanity scaleway
    segment sendgrid sentry serper shopify slack snyk sonar sonarcloud sonarqube split spotify square stability
    stripe supabase tailscale tavily telegram telnyx tencent terraform tiktok together travis trello twilio
    twitch twitter unity upstash vault vercel vonage voyage vultr weaviate workos xai yandex youtube zapier
    zendesk
    """.split()
)
"""Services whose names are close to their keys; most of those keys have no format."""
_NAMES = r"(?a)[a-z0-9]+(?:\.io)?"
_PROVIDER = rf"(?a)(?<![a-z])(?:{'|'.join(sorted(_PROVIDERS))})(?:[ _](?:labs|face|relic))?(?![a-z])"
_WORD = (
    r"(?a)(?<![a-z])keys?(?![a-z])|[a-z_]key\b|tokens?(?![a-z])|secrets?(?![a-z])|credentials?|\bcreds?\b"
    r"|passw(?:or)?d|passphrase|schlüssel|passwort|contraseña|mot de passe|\bclave\b|\bsenha\b|\bpat\b"
    r"|bearer|authoriz|webhook"
)
_QUOTES = r":?[\\\"'`*_)\]]{0,9}"
_OPERATOR = r"\s{0,6}(?:is|was|ist|es|est|=>?|:|\||→|->)\s{0,8}"
_OPENING = r"[\\\"'`*(]{0,9}"
_VALUE_KEY = r"[\\\"']{0,5},?\s{1,9}(?:- )?[\\\"']{0,5}(?:value|val|v|default|data)[\\\"']{0,5}\s?[:=]\s?"
"""Between a name and its value in lists of pairs: `{"name": "API_KEY", "value": "…"}`."""
_ASSIGNMENT = (
    rf"{_QUOTES}(?:{_OPERATOR}|:\s?[&']{{0,2}}[a-z]{{3,10}}\s?=\s?|{_VALUE_KEY}|,|:\s?(?:[>|][+-]?)?\s{{1,12}}|:\s?!!str\s"
    rf"|\s(?:provided|supplied|used|given|found|value|from|to|with)?:?\s?|>){_OPENING}$"
)
"""Between the name of a secret and its value, which ends where the value begins."""
_NAME = (
    r"(?:(?:api|access|secret|private|auth|admin|app|service|account|signing|master|encryption|deploy)[ _-]?keys?"
    r"|apikey|tokens?|secrets?|passw(?:or)?d|passphrase|credentials?|[ _]pat|bearer|api-schlüssel)"
)
_ASSIGNED_WORD = rf"(?a){_NAME}{_ASSIGNMENT}"
_PROVIDER_KEY = (
    rf"{_PROVIDER}(?:[ _-](?:api|access|auth|app|devops|ai|cloud|sdk))?"
    r"(?:[ _-](?:key|token|secret|credential|password)s?)?"
)
_ASSIGNED_PROVIDER = (
    rf"{_PROVIDER_KEY}(?<!github)(?<!gitlab)(?<!bitbucket)(?<!docker)(?<!npm)(?<!pypi)"
    rf"{_QUOTES}(?:{_OPERATOR}|{_VALUE_KEY}|(?<=key)\s|(?<=token)\s|(?<=secret)\s){_OPENING}$"
)
"""Name of a provider before its key; what follows a version control system or a registry may be a hash."""
_PROVIDER_AFTER = rf"\s*(?:<-|←|#|//|\()\s*{_PROVIDER_KEY.replace('(?a)', '')}"
_HARMLESS_NAME = (
    r"(?a)(?:\bids?|[a-z_-]id|hash|digest|checksum|fingerprint|etag|nonce|commit|revision|version|public[ _-]?key"
    r"|integrity|uuid|boundary|verification|signature|sha\d{0,3}|md5|cursor|page[_-]?token|next[_-]?token|websocket-key)"
    r"[\\\"'`]{0,4}\s{0,2}[=:]?\s{0,2}[\\\"'`]{0,4}$"
)
_HARMLESS_PREFIX = r"(?a)(?:sha-?\d{1,3}|md5|h1|ssh-\w{2,8}|nonce|base64)[-:, ]$|[/@#]$"
_HARMLESS_LINE = (
    r"(?a)public key|ssh-(?:rsa|ed25519)|fingerprint|begin certificate"
    r"|(?:sha\d{1,3}|md5|hash|checksum|digest) (?:of|for)"
)
_HARMLESS_BEFORE = (_HARMLESS_PREFIX, _HARMLESS_NAME, _HARMLESS_LINE)
_HARMLESS_AFTER = r"(?a)/|\.[a-z]{2,4}\b|::|\("

# Patterns for values.
_PUBLIC_ID = (
    r"sha\d{1,3}-|md5-|(?:msg|toolu|srvtoolu|call|req|chatcmpl|cmpl|resp|rs|fc|item|thread|asst|run|file|batch|vs|step|cus"
    r"|sub|price|prod|evt|we|ch|pi|pm|in|si|acct|txn|tok|card|src|seti|cs|dpl|prj|team|user|org|usr|proj|pk|pk_live"
    r"|pk_test|phc|sess|conv|session)[_-]"
)
"""Prefixes of identifiers that are no secrets, such as those of messages and tool calls in transcripts."""
_PREFIXED = rf"(?a)([A-Za-z][A-Za-z0-9]{{1,11}}(?:[_-][a-z0-9]{{1,8}})?)[_-]([\w-]{{{MIN_PREFIXED_CHARACTERS},}})"
_HARMLESS_TOKEN_PREFIX = r"(?i)sha\d|md5|nonce|blake|h1|v\d|ssh|ripemd|crc|index|chunk|main|app|static|ami|mem|run|task"  # noqa: S105


def nearby_spans(text: str, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each random value in the runs with a telling word close to it."""
    for start, end in runs:
        for pattern, is_secret in _PATTERNS:
            for match in compiled_pattern(pattern).finditer(text, start, end):
                if is_secret(match):
                    yield match.span()


def _is_named(match: re.Match[str]) -> bool:
    value = match[0]
    mixed = len(value) >= MIN_MIXED_CHARACTERS and is_mixed(value)
    if not mixed and not (len(value) >= MIN_SINGLE_CASE_CHARACTERS and is_single_case(value)):
        return False
    before, after = _around(match)
    if _is_harmless(value, before, after):
        return False
    if mixed and _is_prefixed(value):
        return True
    if mixed:
        return any(compiled_pattern(_WORD).search(part) or _names_provider(part) for part in (before, after))
    return _is_assigned(match)


def _names_provider(text: str) -> bool:
    return not _PROVIDERS.isdisjoint(compiled_pattern(_NAMES).findall(text))


def _is_prefixed(value: str) -> bool:
    """Return whether a value has the format of most tokens: a short name, then random characters."""
    prefixed = compiled_pattern(_PREFIXED).fullmatch(value)
    return bool(prefixed and is_mixed(prefixed[2]) and not compiled_pattern(_HARMLESS_TOKEN_PREFIX).match(prefixed[1]))


def _is_named_hash(match: re.Match[str]) -> bool:
    """Return whether a value that may be a hash or an id is assigned to a secret."""
    before, after = _around(match)
    if not _is_assigned(match) and not (_names_provider(after) and compiled_pattern(_PROVIDER_AFTER).match(after)):
        return False
    is_random = entropy(match[0]) >= MIN_ENTROPY and not is_placeholder(match[0]) and not match[0].isdigit()
    return is_random and not _is_harmless(match[0], before, after)


def _is_assigned(match: re.Match[str]) -> bool:
    """Return whether the name of a secret or a provider stands directly before a value, on its line or the last."""
    before = match.string[max(0, match.start() - BEFORE_CHARACTERS) : match.start()].lower()
    if compiled_pattern(_ASSIGNED_WORD).search(before):
        return True
    return _names_provider(before) and bool(compiled_pattern(_ASSIGNED_PROVIDER).search(before))


def _is_assigned_base64(match: re.Match[str]) -> bool:
    return is_mixed(match[0]) and _is_assigned(match) and not _is_harmless(match[0], *_around(match))


def _is_aws_secret(match: re.Match[str]) -> bool:
    """Return whether 40 characters are an AWS secret, which has no other mark, and no part of encoded data."""
    lines = match.string[max(0, match.start() - 90) : match.start()].split("\n")
    inside_block = len(lines) > 1 and compiled_pattern(r"(?a)[\s>+]*[A-Za-z0-9+/]{60,76}").fullmatch(lines[-2])
    before, after = _around(match)
    return is_mixed(match[0]) and not inside_block and not _is_harmless(match[0], before, after)


_PATTERNS: tuple[tuple[str, Callable[[re.Match[str]], bool]], ...] = (
    (_RUN, _is_named),
    (_HEX_OR_UUID, _is_named_hash),
    (_FORTY, _is_aws_secret),
    (_BASE64, _is_assigned_base64),
)


def _is_harmless(value: str, before: str, after: str) -> bool:
    return bool(
        compiled_pattern(_PUBLIC_ID).match(value)
        or any(compiled_pattern(pattern).search(before) for pattern in _HARMLESS_BEFORE)
        or compiled_pattern(_HARMLESS_AFTER).match(after)
    )


def _around(match: re.Match[str]) -> tuple[str, str]:
    """Return the text of the line before and after a value, in lowercase."""
    text, (start, end) = match.string, match.span()
    before = text[max(0, start - BEFORE_CHARACTERS) : start].rpartition("\n")[2]
    after = text[end : end + AFTER_CHARACTERS].partition("\n")[0]
    return before.lower(), after.lower()
