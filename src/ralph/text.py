"""The one way in for foreign text: clean it, take secrets out, measure it.

Everything an agent, a file or a person hands us passes `clean` before it is
stored or printed; nothing further down has to think of NUL bytes, terminal
escapes or invisible characters again.
"""

from __future__ import annotations

import re
from functools import cache

CHARACTERS_PER_TOKEN = 4
REDACTED = "[redacted]"
TRACE_CHARACTERS = 500
"""So much of a stack trace is kept."""

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links and other strings to the terminal
    r"|\x1b[ -/]*[0-~]?"
)
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, but for tab and newline
    "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"  # zero width, bidi, BOM
    "\U000e0000-\U000e007f"  # tags
    "\ud800-\udfff"  # lone surrogates, which no database takes
    "]"
)

_SECRETS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?=[Aeghnprsx])(?:"  # only so may a token begin: saves trying them all at every character
    r"sk-ant-[\w-]{16,}|sk-(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{20,}"  # Anthropic, OpenAI, OpenRouter
    r"|(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"  # GitHub, GitLab
    r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|xox[abprs]-[\w-]{10,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{40,}|hf_[A-Za-z0-9]{24,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|(?<!-)eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{10,})"  # JSON web tokens; never from the middle, or time is squared
    r"|(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}(?=@)"  # user:password in an address
    r"|(?i:(?<=authorization: token )|(?<=authorization: basic )|(?<=x-api-key: )|(?<=\bbearer ))[^\s'\"]{8,}"
)
_ASSIGNMENT = (
    r"(?i)((?:(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key)[\w.-]{0,20}"
    r"|(?:passphrase|pwd|_pass|token))"
    r"[\"']?\s{0,3}(?:=|:)\s{0,3})(?:\"([^\"\n]{6,200})\"|'([^'\n]{6,200})'|([^\s\"',;]{6,}))"
)


def clean(text: str) -> str:
    """Give the text without terminal escapes, control and invisible characters; newlines become `\\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # What can be printed needs no cleaning; Python knows at once, the patterns take a while.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _INVISIBLE.sub("", text)


def redact(text: str) -> str:
    """Give the text with keys, tokens and passwords replaced by `[redacted]`."""
    secrets, assigned_secret = _secret_patterns()
    return assigned_secret.sub(_redact_assigned, secrets.sub(REDACTED, text))


@cache
def _secret_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Give the patterns; compiling them takes milliseconds that a command which only reads need not spend."""
    return re.compile(_SECRETS, re.DOTALL), re.compile(_ASSIGNMENT)


def _redact_assigned(found: re.Match[str]) -> str:
    value = found[2] or found[3] or found[4]
    # Code, references and prose are no secrets: password=os.environ["X"], secret: str, ${TOKEN}, <your key>.
    is_prose = value.isalpha() and not found[1].endswith("=")
    is_prose |= " " in value and not any(character.isdigit() for character in value)
    if is_prose or re.search(r"[()\[\]{}<>]|^\$", value) or value == REDACTED:
        return found[0]
    return found[1] + found[0][len(found[1]) :].replace(value, REDACTED)


def accept(text: str) -> str:
    """Give foreign text the way it may be stored: clean, without secrets, trimmed."""
    return redact(clean(text)).strip()


def one_line(text: str, width: int = 200) -> str:
    """Give the text on one line of at most `width` characters, for messages and tables."""
    line = " ".join(text[: width * 8].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, four characters each."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cut(text: str, length: int, mark: str = " [cut]") -> str:
    """Give at most `length` characters of the text, and say so when some are missing."""
    return text if len(text) <= length else text[: max(0, length - len(mark))].rstrip() + mark


def cut_words(text: str, words: int, mark: str = "[truncated]") -> str:
    """Give the first `words` words with their line breaks, marked when some are missing."""
    end = 0
    for count, found in enumerate(re.finditer(r"\S+", text), start=1):
        if count > words:
            return f"{text[:end]} {mark}"
        end = found.end()
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
    "verify-pass",
    "verify-fail",
)
_SIGIL_TAG = re.compile(rf"<(?=\s*+/?+\s*+(?:{'|'.join(SIGIL_NAMES)})\b)", re.IGNORECASE)
_SIGNAL = re.compile(r"\b(MEMORY\s*+):(?=\s*+\w++\s*+:)", re.IGNORECASE)


def neutralise(text: str) -> str:
    """Give text from outside in a form that says nothing to us when an agent repeats it.

    Sigil tags lose their angle bracket and `MEMORY:` lines their colon, so what was
    shown as data can never come back as an instruction. It is cleaned first, or an
    invisible character inside a tag would hide it here and be gone when it is read.
    """
    if "<" not in text and ":" not in text:
        return clean(text)
    return _SIGNAL.sub(r"\1 -", _SIGIL_TAG.sub("‹", clean(text)))


def title_of(text: str, length: int = 100) -> str:
    """Give the first sentence or line of a text, at most `length` characters and then `...`."""
    line = text.strip().split("\n", 1)[0]
    sentence = re.split(r"(?:(?<=\w\w)|(?<=[)\]\"'`]))[.!?](?=\s|$)", line, maxsplit=1)[0].strip() or line
    return sentence if len(sentence) <= length else sentence[:length].rstrip() + "..."


_PATH = re.compile(r"(?<![\w/.:-])(?:[\w.-]{1,80}/){0,12}[\w-][\w.-]{0,80}\.[A-Za-z]\w{0,5}(?![\w/-])")
_NOT_FILES = ("e.g", "i.e")


def paths_in(text: str, most: int = 20) -> tuple[str, ...]:
    """Give the file paths a text mentions, in order: `src/app.py`, `Makefile.am`; not `session.Get()`."""
    found = dict.fromkeys(
        match[0]
        for match in _PATH.finditer(text[:50_000])
        if match[0].lower() not in _NOT_FILES
        and ("/" in match[0] or match[0].rsplit(".", 1)[1].islower())
        and not text.startswith("(", match.end())
    )
    return tuple(found)[:most]
