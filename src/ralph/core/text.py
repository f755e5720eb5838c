"""Sanitizing of untrusted text: cleaning, redacting secrets, neutralizing markup and measuring length.

All text from agents, files and people passes `clean` before it is stored or printed, so that no other code has to
handle NUL bytes, terminal escapes or invisible characters.

"""

from __future__ import annotations

import re
from functools import cache

CHARACTERS_PER_TOKEN = 4
REDACTED = "[redacted]"
MAX_DETECTION_PASSES = 20
"""Maximum number of times a text is searched again after a match."""
MIN_ENVIRONMENT_SECRET_CHARACTERS = 8
"""Minimum length of a secret from the environment, in characters; shorter values may be ordinary words."""
MAX_DECIMALS = 8
"""Maximum number of decimals of an amount of money."""
MAX_STACK_TRACE_CHARACTERS = 500
"""Maximum length of a stored stack trace, in characters."""

_ESCAPES = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors and cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links and other terminal strings
    r"|\x1b[ -/]*[0-~]?"
)
_INVISIBLE = (
    "["
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters except tab and newline
    "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"  # zero width, bidi, BOM
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and music format controls
    "\U000e0000-\U000e007f"  # tags
    "\ud800-\udfff"  # lone surrogates, which databases reject
    "]"
)

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
    ("private-lines: ", r"Private-Lines: \d{1,4}\s{1,9}(?:[A-Za-z0-9+/=]{64}\s{1,9})*[A-Za-z0-9+/=]{0,64}"),  # PuTTY
    (
        "://",
        r"(?<=://)[^\s/:@]{0,100}:(?![$<{]|(?:pass(?:word|wd)?|secret|token|xxx+|\*+)@)[^\s/@]{1,200}(?=@)(?!@sha256:)",
    ),  # user:password in a URL
    ("bearer ", r"(?i)(?<=\bbearer )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
    ("authorization: token ", r"(?i)(?<=authorization: token )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
)
"""Lowercase substring that must be in a text before the pattern is tried, and the pattern."""
_NAME_MARKERS = r"key|pass|pw|secret|token|slack|softlayer|xox"
"""Lowercase substrings, one of which is in every text with a secret that is found by its name."""
_PASSWORD_MARKERS = (
    *("key", "pass", "pw", "secret", "token", "cred", "session", "sessid", "sid=", "auth", "sig=", "signature"),
    *(
        "csrf",
        "basic ",
        "cookie:",
        'cookie"',
        "base64",
        "login",
        "user",
        "account",
        "admin:",
        "root:",
        "deploy:",
        "postgres:",
        "mysql",
        ":5432:",
        ":*:",
    ),
    *("curl ", "://", "$1$", "$2", "$5$", "$6$", "$y$", "$argon", "ls0tls1crudjti", "kennwort", "contrase", "senha"),
    *("wachtwoord", "hasło", "парол", "パスワード", "密码", "密碼", "비밀번호"),
)
"""Lowercase substrings, one of which is in every text that `passwords` can find something in."""
_KEY_LINE = r"(?m)^[ \t\"'+>|]{0,12}[A-Za-z0-9+/]{64}"
_WRAPPED = r"[\w.+/=-]{0,200}\\?\n[ \t]{0,8}(?=[\w-]{0,200}(?:\d|[a-z][A-Z]))[\w.+/=-]{5,200}(?![\w ])"
"""Remainder of a token that was broken at the end of a line."""

# Superset of what the library's detectors match. Each alternative starts with a rare character, which makes the
# search fast.
_SUSPECT_BY_SHAPE = (
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


def clean(text: str) -> str:
    """Return the text without terminal escapes, control and invisible characters; newlines become `\\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Fast path: printable text needs no cleaning, and checking that is much faster than the patterns.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    if "\x1b" in text:
        text = compiled_pattern(_ESCAPES).sub("", text)
    return compiled_pattern(_INVISIBLE).sub("", text)


def redact(text: str) -> str:
    """Return the text with keys, tokens and passwords replaced by `[redacted]`."""
    folded = text.casefold()
    for marker, pattern in _MARKED_SECRETS:
        if marker in folded:
            text = compiled_pattern(pattern).sub(REDACTED, text)
    if "private key" in folded or compiled_pattern(_KEY_LINE).search(text):
        text = _redact_partial_keys(text)
    if compiled_pattern(_TOKEN_PREFIX).search(text):
        text = compiled_pattern(_TOKEN).sub(REDACTED, _rejoin_tokens(text) if "\n" in text else text)
    text = _redact_passwords(_redact_own_secrets(text), folded)
    for _ in range(MAX_DETECTION_PASSES):
        # Some patterns of the library match only the last of several secrets on a line.
        if not may_contain_secret(text) or (redacted := _redact_detected(text)) == text:
            break
        text = redacted
    return text


def _redact_partial_keys(text: str) -> str:
    from ralph.core.passwords import redact_key_endings, redact_key_fragments

    return redact_key_fragments(redact_key_endings(text))


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
    import os

    secret_name = compiled_pattern(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|pass|pwd|credentials?)$")
    values = {value for name, value in os.environ.items() if "_" in name and secret_name.search(name)}
    values = {
        value
        for value in values
        if len(value) >= MIN_ENVIRONMENT_SECRET_CHARACTERS and not (value.isalpha() or value[0] in "/~.")
    }
    return tuple(sorted(values, key=len, reverse=True))


def _redact_passwords(text: str, folded: str) -> str:
    if not any(marker in folded for marker in _PASSWORD_MARKERS):
        return text
    from ralph.core.passwords import redact_passwords

    return redact_passwords(text)


def may_contain_secret(text: str) -> bool:
    """Return whether the detection library has to search the text; if not, it would find nothing.

    Loading the library takes longer than most commands, so this filter has to rule out nearly every text.

    """
    if compiled_pattern(_SUSPECT_BY_SHAPE).search(text):
        return True
    return _has_secret_name(text) and bool(compiled_pattern(_SUSPECT_BY_NAME).search(text))


def _has_secret_name(text: str) -> bool:
    return bool(compiled_pattern(_NAME_MARKERS).search(text.casefold()))


def _redact_detected(text: str) -> str:
    from ralph.core.redaction import find_secret_spans

    parts = []
    end = 0
    for start, next_end in find_secret_spans(text, may_contain_secret):
        parts.append(text[end:start])
        end = next_end
    return REDACTED.join([*parts, text[end:]])


@cache
def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, cached; compilation takes milliseconds that most commands can save."""
    return re.compile(pattern)


def sanitize(text: str) -> str:
    """Return untrusted text as it may be stored: clean, without secrets, stripped."""
    return redact(clean(text)).strip()


def one_line(text: str, width: int = 200) -> str:
    """Return the text on one line of at most `width` characters, for messages and tables."""
    line = " ".join(text[: width * 8].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def count_tokens(text: str) -> int:
    """Estimate the number of tokens in a text, at four characters each."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def truncate(text: str, length: int, suffix: str = " [cut]") -> str:
    """Return at most `length` characters of the text, with a mark if it was truncated."""
    return text if len(text) <= length else text[: max(0, length - len(suffix))].rstrip() + suffix


def truncate_words(text: str, words: int, suffix: str = "[truncated]") -> str:
    """Return the first `words` words with their line breaks, with a mark if it was truncated."""
    end = 0
    for count, match in enumerate(re.finditer(r"\S+", text), start=1):
        if count > words:
            return f"{text[:end]} {suffix}"
        end = match.end()
    return text


SIGIL_NAMES = (
    "task-done",
    "task-failed",
    "failure-report",
    "learning",
    "difficulty-estimate",
    "retry-suggestion",
    "journal",
    "knowledge",
    "next-model",
    "hand-over",
    "handover",
    "subtask",
    "sub-task",
    "verify-pass",
    "verify-fail",
)
_SIGIL_TAG = rf"(?i)<(?=\s*+/?+\s*+(?:{'|'.join(SIGIL_NAMES)})\b)"
_SPEAKER_TAG = (
    r"(?i)<(?=<?+\s*+/?+\s*+(?:[|?]|!--|!\[cdata\[|(?:system|sys|user|assistant|human|developer|instructions?|tool_results?"
    r"|tool_use|function_calls?|function_results?|antml|h[1-6])\b))"
)
"""Tags by which other programs mark a speaker, hidden text or a heading."""
_MEMORY_LINE = r"(?i)\b(MEMORY\s*+):(?=\s*+\w++\s*+:)"


def neutralize(text: str) -> str:
    """Return untrusted text in a form that has no effect when an agent repeats it.

    Sigil tags lose their angle bracket and `MEMORY:` lines their colon, so that data shown in a prompt never comes back
    as an instruction. The same applies to tags that mark a speaker and to comments, which would hide what follows. The
    text is cleaned first: an invisible character inside a tag would otherwise hide it here.

    """
    text = clean(text)
    if "<" in text:
        text = compiled_pattern(_SIGIL_TAG).sub("‹", text)
        text = compiled_pattern(_SPEAKER_TAG).sub("‹", text)
    if ":" in text:
        text = compiled_pattern(_MEMORY_LINE).sub(r"\1 -", text)
    return text


def slugify(title: str, length: int = 80) -> str:
    """Return a file name for a title: lowercase letters and digits, single hyphens, at most `length` characters."""
    return re.sub(r"[\W_]+", "-", title.lower())[: length + 1].strip("-")[:length].rstrip("-")


def extract_title(text: str, length: int = 100) -> str:
    """Return the first sentence or line of a text, at most `length` characters, then `...`."""
    line = text.strip().split("\n", 1)[0]
    sentence = re.split(r"(?:(?<=\w\w)|(?<=[)\]\"'`]))[.!?](?=\s|$)", line, maxsplit=1)[0].strip() or line
    return sentence if len(sentence) <= length else sentence[:length].rstrip() + "..."


_PATH = r"(?<![\w/.:-])(?:[\w.-]{1,80}/){0,12}[\w-][\w.-]{0,80}\.[A-Za-z]\w{0,5}(?![\w/-])"
# In prose, `cache.get` is more often a call than a file: without a folder, the suffix must be one of these.
_FILE_SUFFIXES = frozenset(
    "am asm bash bat c cc cfg cjs clj conf cpp cs css csv cxx dart db diff env erl ex exs go gradle graphql h hpp hs"
    " htm html ini ipynb java jl js json jsonl jsx kt kts less lock log lua md mdx mjs mk ml mod nix patch php pl plist"
    " pm proto ps1 py pyi r rb rs rst scala scss service sh sql sqlite sum svelte svg swift tf tmpl toml ts tsv tsx txt"
    " vue wasm xml yaml yml zig zsh".split()
)


def find_paths(text: str, limit: int = 20) -> tuple[str, ...]:
    """Return the file paths mentioned in a text, in order: `src/app.py`, `Makefile.am`; not `session.Get()`."""
    paths = dict.fromkeys(
        match[0]
        for match in compiled_pattern(_PATH).finditer(text[:50_000])
        if ("/" in match[0] or match[0].rsplit(".", 1)[1] in _FILE_SUFFIXES) and not text.startswith("(", match.end())
    )
    return tuple(paths)[:limit]


def format_usd(usd: float) -> str:
    """Format an amount with enough decimals to be meaningful: `$12.50`, `$0.0028`."""
    digits = 2
    while digits < MAX_DECIMALS and 0 < usd < 10 ** (1 - digits):
        digits += 2
    return f"${usd:,.{digits}f}"
