"""Redaction of keys, tokens and passwords.

A secret is recognized by its format (`_TOKENS`, and the detect-secrets library in `detectors`) or by its context: a
name, a command or a sentence (`context`).
"""

from __future__ import annotations

import os
from functools import cache

from ralph.core.redaction.context import CONTEXT_MARKERS, REDACTED, redact_in_context
from ralph.core.redaction.detectors import redact_detected
from ralph.core.text import compiled_pattern

__all__ = ["REDACTED", "environment_secrets", "redact"]

MIN_ENVIRONMENT_SECRET_CHARACTERS = 8
"""Minimum length of a secret from the environment, in characters; shorter values may be ordinary words."""

_TOKENS = (
    ("sk-ant-", r"[\w-]{16,}"),  # Anthropic
    ("sk-", r"(?=[A-Za-z_-]{0,60}\d)[\w-]{20,}"),  # OpenAI, OpenRouter, DeepSeek; not sk-learn-contrib
    ("gh[oprsu]_", r"[A-Za-z0-9]{20,}"),
    ("github_pat_", r"\w{20,}"),
    ("gl(?:pat|dt|ft|rt|soat|cbt|ptt|imt|agent|oas)-", r"[\w-]{16,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,})?"),  # GitLab
    ("AIza", r"[\w-]{30,}"),  # Google
    (r"ya29\.", r"[\w-]{20,}(?:\.[\w-]+)*"),
    ("GOCSPX-", r"[\w-]{20,}"),
    ("A[KS]IA", r"[A-Z0-9]{16}\b"),  # Amazon
    ("ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("gsk_", r"[A-Za-z0-9]{40,}"),  # Groq
    ("xai-", r"[A-Za-z0-9]{60,}"),
    ("r8_", r"[A-Za-z0-9]{30,}"),  # Replicate
    ("pplx-", r"[A-Za-z0-9]{40,}"),  # Perplexity
    ("fw_", r"(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{22,}"),  # Fireworks
    ("tgp_v1_", r"[\w-]{40,}"),  # Together
    ("csk-", r"[a-z0-9]{40,}"),  # Cerebras
    ("nvapi-", r"[\w-]{40,}"),  # NVIDIA
    ("hf_", r"[A-Za-z0-9]{24,}"),  # Hugging Face
    ("key_", r"[0-9a-f]{64}"),  # Cursor
    ("crsr_", r"[A-Za-z0-9]{32,}"),
    ("sgp_", r"[0-9a-f_]{40,}"),  # Sourcegraph
    ("pcsk_", r"\w{40,}"),  # Pinecone
    ("lsv2_(?:pt|sk)_", r"[0-9a-f_]{40,}"),  # LangSmith
    ("tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{28,}"),  # Tavily
    ("fc-", r"[0-9a-f]{32}\b"),  # Firecrawl
    ("shp(?:at|ca|pa|ss)_", r"[0-9a-fA-F]{32}"),  # Shopify
    ("NRAK-", r"[A-Z0-9]{20,}"),  # New Relic
    ("glsa_", r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),  # Grafana
    (r"atlasv1\.", r"[\w-]{40,}"),  # Terraform
    ("glc_", r"[A-Za-z0-9+/]{40,}={0,2}"),
    ("rubygems_", r"[0-9a-f]{40,}"),
    ("pul-", r"[0-9a-f]{40}"),  # Pulumi
    ("figd_", r"[\w-]{30,}"),  # Figma
    ("HRKU-AA", r"[\w-]{40,}"),  # Heroku
    ("fm[12][ar]?_", r"[A-Za-z0-9+/]{60,}={0,2}"),  # Fly
    (r"pat[A-Za-z0-9]{14}\.", r"[0-9a-f]{64}"),  # Airtable
    ("xox[abeoprs]-", r"[\w-]{10,}"),  # Slack
    (r"xapp-\d-", r"[\w-]{20,}"),
    ("npm_", r"[A-Za-z0-9]{30,}"),
    ("pypi-AgE", r"[\w-]{40,}"),
    ("dckr_pat_", r"[\w-]{20,}"),  # Docker
    ("[rs]k_(?:live|test)_", r"[A-Za-z0-9]{16,}"),  # Stripe
    ("whsec_", r"[A-Za-z0-9+/]{24,}"),
    ("sbp_", r"[0-9a-f]{40}"),  # Supabase
    ("sb_secret_", r"[\w-]{20,}"),
    ("vc[aikpr]_", r"(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{24,}"),  # Vercel
    ("cf(?:k|at|ut)_", r"[A-Za-z0-9]{40,}"),  # Cloudflare
    ("lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,}"),  # Linear
    ("secret_", r"[A-Za-z0-9]{43}\b"),  # Notion
    ("ntn_", r"[A-Za-z0-9]{40,}"),
    ("sntry[su]_", r"[\w+/=-]{40,}"),  # Sentry
    ("dapi", r"[0-9a-f]{32}"),  # Databricks
    ("do[opr]_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
    (r"dp\.[a-z]{2,5}\.", r"(?:[\w-]{2,40}\.)?[A-Za-z0-9]{40,}"),  # Doppler
    (r"hv[bs]\.", r"[\w-]{24,}"),  # Vault
    ("ATATT3", r"[\w=-]{20,}"),  # Atlassian
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}"),  # age
    (r"\d{8,10}:AA", r"[\w-]{33}"),  # Telegram
    ("(?<!-)eyJ", r"[\w-]{10,}+\.eyJ[\w-]{10,}+(?:\.[\w-]+)?"),  # JWT; the lookbehind avoids quadratic time
)
"""Prefix and remainder of each token format."""
_TOKEN_PREFIX = rf"(?a)\b(?:{'|'.join(begin for begin, _ in _TOKENS)})"
_TOKEN = rf"(?a)\b(?:{'|'.join(begin + rest for begin, rest in _TOKENS)})"
_MARKED_SECRETS = (
    (
        "private key",
        r"(?s)-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}.*?"
        r"(?:-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}|\Z)",
    ),
    (
        "private key",  # the rest of a key whose beginning was cut off
        r"(?:[A-Za-z0-9+/=]{16,80}(?:\\[nr]|[\s\"'+>|]){1,12}){1,100}"
        r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}",
    ),
    ("private-lines: ", r"Private-Lines: \d{1,4}\s{1,9}(?:[A-Za-z0-9+/=]{64}\s{1,9})*[A-Za-z0-9+/=]{0,64}"),  # PuTTY
    (
        "://",
        r"(?<=://)[^\s/:@]{0,100}:(?![$<{]|(?:pass(?:word|wd)?|secret|token|xxx+|\*+)@)[^\s/@]{1,200}(?=@)(?!@sha256:)",
    ),  # user:password in a URL
    ("bearer ", r"(?i)(?<=\bbearer )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
    ("authorization: token ", r"(?i)(?<=authorization: token )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
)
"""Lowercase substring that must be in a text before the pattern is tried, and the pattern."""
_WRAPPED = r"[\w.+/=-]{0,200}\\?\n[ \t]{0,8}(?=[\w-]{0,200}(?:\d|[a-z][A-Z]))[\w.+/=-]{5,200}(?![\w ])"
"""Remainder of a token that was broken at the end of a line."""


def redact(text: str) -> str:
    """Return the text with keys, tokens and passwords replaced by `[redacted]`."""
    folded = text.casefold()
    for marker, pattern in _MARKED_SECRETS:
        if marker in folded:
            text = compiled_pattern(pattern).sub(REDACTED, text)
    if compiled_pattern(_TOKEN_PREFIX).search(text):
        text = compiled_pattern(_TOKEN).sub(REDACTED, _rejoin_tokens(text) if "\n" in text else text)
    text = _redact_own_secrets(text)
    if any(marker in folded for marker in CONTEXT_MARKERS):
        text = redact_in_context(text)
    return redact_detected(text)


def _rejoin_tokens(text: str) -> str:
    """Return the text with tokens rejoined that were broken at the end of a line."""
    parts = []
    position = 0
    for prefix in compiled_pattern(_TOKEN_PREFIX).finditer(text):
        match = compiled_pattern(_WRAPPED).match(text, prefix.end())
        if match and prefix.start() >= position:
            rest = compiled_pattern(r"\\?\n[ \t]*").sub("", match[0])
            if compiled_pattern(_TOKEN).match(text[prefix.start() : prefix.end()] + rest):
                parts += [text[position : prefix.end()], rest]
                position = match.end()
    return "".join([*parts, text[position:]])


def _redact_own_secrets(text: str) -> str:
    """Return the text without secrets from our own environment, some of which agents inherit."""
    for secret in environment_secrets():
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


@cache
def environment_secrets() -> tuple[str, ...]:
    """Return the values of environment variables whose names mark them as secret, longest first."""
    secret_name = compiled_pattern(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|pass|pwd|credentials?)$")
    values = {value for name, value in os.environ.items() if "_" in name and secret_name.search(name)}
    values = {
        value
        for value in values
        if len(value) >= MIN_ENVIRONMENT_SECRET_CHARACTERS and not (value.isalpha() or value[0] in "/~.")
    }
    return tuple(sorted(values, key=len, reverse=True))
