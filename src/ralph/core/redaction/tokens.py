"""Detection of tokens by their prefix, and of other secrets by a marker."""

from __future__ import annotations

from ralph.core.redaction.context import REDACTED
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

MARKED_SECRETS = (
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
    ("q~", r"(?a)(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}"),  # Azure
    ("asana", r"\b[12]/\d{10,20}/\d{10,20}:[0-9a-f]{32}"),
    ("bearer ", r"(?i)(?<=\bbearer )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
    ("authorization: token ", r"(?i)(?<=authorization: token )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
)
"""Lowercase substring that must be in a text before the pattern is tried, and the pattern."""
_MIXED = r"(?=[A-Za-z_-]{0,60}\d)(?=[a-z0-9_-]{0,60}[A-Z])"
"""Lookahead for short prefixes: what follows has a digit and a capital."""
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
    ("cio", r"[A-Za-z0-9]{32}\b"),  # crates.io
    ("bedrock-api-key-", r"[\w+/=-]{40,}"),
    ("key-", r"[0-9a-f]{32}\b"),  # Mailgun
    ("AT(?:BB|TA)", r"[A-Za-z0-9_-]{24,}"),  # Bitbucket, Trello
    ("ATCTT3", r"[\w=-]{20,}"),
    ("nfp_", r"[A-Za-z0-9]{30,}"),  # Netlify
    ("pa-", rf"{_MIXED}[\w-]{{40,}}"),  # Voyage
    ("jina_", r"[A-Za-z0-9]{40,}"),
    ("CF(?:PAT|LOK)-", r"[\w-]{40,}"),  # Contentful
    ("re_", rf"{_MIXED}[A-Za-z0-9]{{6,10}}_[A-Za-z0-9]{{20,}}"),  # Resend
    ("tskey-", r"[a-z]{2,8}-[\w-]{20,}"),  # Tailscale
    ("ph[xs]_", r"[A-Za-z0-9]{40,}"),  # PostHog
    ("napi_", r"[a-z0-9]{40,}"),  # Neon
    ("rnd_", r"[A-Za-z0-9]{28,}"),  # Render
    ("CCI(?:PAT|PRJ)_", r"\w{40,}"),  # CircleCI
    ("bk(?:ua|ct|at|aj)_", r"[0-9A-Za-z]{32,}"),  # Buildkite
    ("sq[apu]_", r"[0-9a-f]{40}"),  # SonarQube
    (r"sk\.eyJ", r"[\w-]{40,}\.[\w-]{20,}"),  # Mapbox
    (r"sl\.", rf"(?:u\.)?{_MIXED}[\w-]{{100,}}"),  # Dropbox
    ("sk_", r"[0-9a-f]{48}\b"),  # ElevenLabs
    ("rpa_", r"[A-Z0-9]{36,}"),  # RunPod
    ("e2b_", r"[0-9a-f]{40}"),
    ("hca[a-z]{2}_", r"[a-z0-9]{50,}"),  # Honeycomb
    ("a[ks]-", rf"{_MIXED}[A-Za-z0-9]{{22}}\b"),  # Modal
    ("xa[ap]t-", r"[0-9a-f]{8}-[0-9a-f-]{27}"),  # Axiom
    ("sdk-", r"[0-9a-f]{8}-[0-9a-f-]{27}"),  # LaunchDarkly
    (r"EA[A-Z]{2}", rf"{_MIXED}[\w-]{{56,}}"),  # Square, Facebook
    (r"https://(?:\w{2,8}\.)?discord(?:app)?\.com/api/webhooks/", r"\d{15,20}/[\w-]{50,}"),
    ("(?<!-)eyJ", r"[\w-]{10,}+\.eyJ[\w-]{10,}+(?:\.[\w-]+)?"),  # JWT; the lookbehind avoids quadratic time
)
"""Prefix and remainder of each token format."""
_EXAMPLE = r"EXAMPLE$|[xX]{8}|\*{4}"
"""Tokens in documentation."""
TOKEN_PREFIX = rf"(?a)\b(?:{'|'.join(begin for begin, _ in _TOKENS)})"
_TOKEN = rf"(?a)\b(?:{'|'.join(begin + rest for begin, rest in _TOKENS)})"
_WRAPPED = r"[\w.+/=-]{0,200}\\?\n[ \t]{0,8}(?=[\w-]{0,200}(?:\d|[a-z][A-Z]))[\w.+/=-]{5,200}(?![\w ])"
"""Remainder of a token that was broken at the end of a line."""
COLOR = r"\[[\d;]{1,8}m"
"""Color of a terminal, without its escape character."""


def redact_marked(text: str) -> str:
    """Return the text without private keys, passwords in URLs and other secrets that a marker announces."""
    folded = text.casefold()
    for marker, pattern in MARKED_SECRETS:
        if marker in folded:
            text = compiled_pattern(pattern).sub(REDACTED, text)
    return text


def redact_tokens(text: str) -> str:
    """Return the text without tokens, also those that were broken at the end of a line."""
    view = unescaped(text)
    parts = []
    position = 0
    for prefix in compiled_pattern(TOKEN_PREFIX).finditer(view):
        start = prefix.start()
        if start < position:
            continue
        token, end, rest = _wrapped_token(text, prefix) or _token(view, start)
        if token and not compiled_pattern(_EXAMPLE).search(token):
            parts += [text[position:start], REDACTED, rest]
            position = end
    return "".join([*parts, text[position:]]) if parts else text


def _token(text: str, start: int) -> tuple[str, int, str]:
    """Return a token and its end, and nothing that follows."""
    match = compiled_pattern(_TOKEN).match(text, start)
    return (match[0], match.end(), "") if match else ("", 0, "")


def _wrapped_token(text: str, prefix: re.Match[str]) -> tuple[str, int, str] | None:
    """Return a token that was broken at the end of a line, the end of its line and what follows it there."""
    wrapped = compiled_pattern(_WRAPPED).match(text, prefix.end())
    if not wrapped:
        return None
    joined = prefix[0] + compiled_pattern(r"\\?\n[ \t]*").sub("", wrapped[0])
    match = compiled_pattern(_TOKEN).match(joined)
    return (match[0], wrapped.end(), joined[match.end() :]) if match else None


def unescaped(text: str) -> str:
    """Return the text with the same length, but line breaks and spaces for the escapes of JSON and terminals.

    A token after the two characters of an escaped line break would otherwise seem to continue a word.
    """
    if "\\" in text:
        text = text.replace("\\n", "\\\n").replace("\\t", "\\\t").replace("\\r", "\\\n")
        if "\\u00" in text:
            text = compiled_pattern(r"\\u00([2-7][0-9a-fA-F])").sub(
                lambda match: f"     {chr(int(match[1], 16))}", text
            )
    if "[0m" in text:
        text = compiled_pattern(COLOR).sub(lambda match: " " * len(match[0]), text)
    return text


def replace_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with each span replaced by a marker; spans may overlap."""
    parts = []
    position = 0
    for start, end in sorted(spans):
        if start >= position:
            parts += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join([*parts, text[position:]]) if parts else text
