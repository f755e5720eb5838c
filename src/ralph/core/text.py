"""Sanitizing of untrusted text: cleaning, neutralizing markup and measuring length; secrets are in `redaction`.

All text from agents, files and people passes `clean` before it is stored or printed, so that no other code has to
handle NUL bytes, terminal escapes or invisible characters.

"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_PER_TOKEN = 4
MAX_WORD_LENGTH = 1_000
"""Length up to which a word is not cut, in characters; some languages have no spaces."""
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
MAX_DECIMALS = 8
"""Maximum number of decimals of an amount of money."""


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


def escape_invisible(text: str) -> str:
    """Return the text exactly, with control and invisible characters except tab and newline as backslash escapes."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return compiled_pattern(f"\r|\u2028|\u2029|{_INVISIBLE}").sub(lambda found: ascii(found[0])[1:-1], text)


@cache
def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, cached; compilation takes milliseconds that most commands can save."""
    return re.compile(pattern)


def sanitize(text: str) -> str:
    """Return untrusted text as it may be stored: clean, without secrets, stripped."""
    if not text:  # as most columns of a CSV file are
        return ""
    from ralph.core.redaction import redact  # commands that only read do not need it

    return redact(clean(text)).strip()


def sanitize_all(texts: Sequence[str]) -> list[str]:
    """Return untrusted texts as they may be stored; this is faster than one by one."""
    from ralph.core.redaction import redact_all

    return [text.strip() for text in redact_all([clean(text) for text in texts])]


def one_line(text: str, width: int = 200) -> str:
    """Return the text on one line of at most `width` characters, for messages and tables."""
    line = " ".join(text[: width * 8].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


_ABSOLUTE_DIRECTORY = r"(?<![^\s'\"=:])/(?:[^\s/'\"]+/)+"
_GATE_FAILURE = r"^the gate `[^`]*` failed: "


_RULED = r"^\s*([=_~*-])\1{2,}\s*(.*?)\s*\1{3,}\s*$"
_PROGRESS = r"^[.FEsxX]+\s+\[\s*\d+%\]$"


def compact_output(text: str) -> str:
    """Return what a program printed without rulers, progress, blank lines and repeated lines.

    A test runner puts headings between rulers: the name of a test stays, "FAILURES" says nothing.
    """
    ruled, progress = compiled_pattern(_RULED), compiled_pattern(_PROGRESS)
    lines: dict[str, str] = {}
    for line in text.splitlines():
        plain = line.strip()
        if heading := ruled.match(plain):
            line = plain = heading[2] if "_" in heading[2] or any(map(str.isdigit, heading[2])) else ""
        if any(char.isalnum() for char in plain) and not progress.match(plain):
            lines.setdefault(plain, line.rstrip())
    return "\n".join(lines.values())


def gate_failure_prefix(command: str) -> str:
    """Return the beginning of the reason of an attempt whose gate failed, without directories of absolute paths."""
    return f"the gate `{one_line(compiled_pattern(_ABSOLUTE_DIRECTORY).sub('', command), 80)}` failed: "


def without_gate_prefix(reason: str) -> str:
    """Return what a gate reported, from the reason of an attempt: the command says nothing about the error."""
    return compiled_pattern(_GATE_FAILURE).sub("", reason)


def count_tokens(text: str) -> int:
    """Estimate the number of tokens in a text, at four characters each."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def truncate(text: str, length: int, suffix: str = " [cut]") -> str:
    """Return at most `length` characters of the text, with a mark if it was truncated."""
    return text if len(text) <= length else text[: max(0, length - len(suffix))].rstrip() + suffix


def cut_at_space(text: str, length: int) -> str:
    """Return at most `length` characters, cut between words: half of a secret is not known as one."""
    if len(text) <= length:
        return text
    start = max(0, length - MAX_WORD_LENGTH)
    end = max(text.rfind(space, start, length + 1) for space in (" ", "\n"))
    return text[: end if end >= 0 else length]


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
    "question",
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


# In code, an exclamation or question mark belongs to a name: `save!`, `empty?`. It ends a sentence only if the next one
# begins after it, and not after a macro of Rust.
_SENTENCE_END = r"(?:(?<=\w\w)|(?<=[)\]\"'`!]))(?:\.(?=\s|$)|[!?](?=\s+[^\sa-z]|\s*$))"
_MACROS = (
    *("println", "eprintln", "print", "eprint", "panic", "format", "vec", "assert", "assert_eq", "assert_ne", "todo"),
    *("dbg", "write", "writeln", "matches", "unreachable", "unimplemented", "macro_rules", "include_str"),
)


def extract_title(text: str, length: int = 100) -> str:
    """Return the first sentence or line of a text, at most `length` characters, then `...`."""
    line = text.strip().split("\n", 1)[0]
    ends = (found for found in re.finditer(_SENTENCE_END, line) if not _ends_with_macro(line[: found.end()]))
    end = next(ends, None)
    sentence = (line[: end.start()].strip() if end else line) or line
    return sentence if len(sentence) <= length else sentence[:length].rstrip() + "..."


def _ends_with_macro(text: str) -> bool:
    return text.endswith("!") and text[:-1].rsplit(None, 1)[-1].lstrip("(`'\"") in _MACROS


# Routers give brackets and parentheses a meaning: `app/(auth)/[id]/route.ts`, `[...slug].astro`, `@modal/+page.svelte`.
_FOLDER = r"(?:\[{1,2}[\w.-]{1,60}\]{1,2}|\([\w.-]{1,60}\)|[@\w.-][\w.-]{0,79})/"
_PATH = rf"(?<![\w/.:-])(?:{_FOLDER}){{0,12}}(?:\[[\w.-]{{1,60}}\]|[\w+-])[\w.-]{{0,80}}\.[A-Za-z]\w{{0,5}}(?![\w/-])"
# In prose, `cache.get` is more often a call than a file: without a folder, the suffix must be one of these.
_FILE_SUFFIXES = frozenset(
    "am asm bash bat c cc cfg cjs clj conf cpp cs css csv cxx dart db diff env erl ex exs go gradle graphql h hpp hs"
    " htm html ini ipynb java jl js json jsonl jsx kt kts less lock log lua md mdx mjs mk ml mod nix patch php pl plist"
    " pm proto ps1 py pyi r rb rs rst scala scss service sh sql sqlite sum svelte svg swift tf tmpl toml ts tsv tsx txt"
    " vue wasm xml yaml yml zig zsh".split()
)
_NOT_FILES = frozenset(
    "alpine.js angular.js chart.js d3.js discord.js electron.js ember.js ethers.js express.js fabric.js moment.js"
    " nest.js next.js node.js nuxt.js p5.js phaser.js react.js solid.js three.js transformers.js video.js vue.js"
    " web3.js".split()
)
"""Names of programs that look like files."""


def find_paths(text: str, limit: int = 20) -> tuple[str, ...]:
    """Return the file paths mentioned in a text, in order: `src/app.py`, `Makefile.am`; not `session.Get()`."""
    paths = dict.fromkeys(
        match[0]
        for match in compiled_pattern(_PATH).finditer(text[:50_000])
        if ("/" in match[0] or match[0].rsplit(".", 1)[1] in _FILE_SUFFIXES)
        and not text.startswith("(", match.end())
        and match[0].lower() not in _NOT_FILES
    )
    return tuple(paths)[:limit]


def format_usd(usd: float) -> str:
    """Format an amount with enough decimals to be meaningful: `$12.50`, `$0.0028`."""
    digits = 2
    while digits < MAX_DECIMALS and 0 < usd < 10 ** (1 - digits):
        digits += 2
    return f"${usd:,.{digits}f}"


def format_duration(seconds: float) -> str:
    """Format a duration: `3.2s`, `4m 10s`, `2h 05m`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 task`, `2 tasks`, `2 memories`."""
    if count == 1:
        return f"{count:,} {noun}"
    plural_noun = noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeou" else noun + "s"
    return f"{count:,} {plural_noun}"
