"""Find secrets by what stands around them: a name, a heading, a command, a sentence.

What has a shape of its own is found by `text` and `secrets`. A name proves little (`token = next_token`), so the value
has a say too: the weaker the name, the more random it must look. Nothing imports this module before `text` has seen a
word that it is for, and all of it takes time in proportion to the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REDACTED = "[redacted]"
KEY_LINES = 3
"""So many lines of base64 below each other are a key whose heading was cut off."""
KEY_SIGHT = 20_000
"""So far back the beginning of such a key is looked for."""
TAIL_SIGHT = 200
"""So far before its end a line is looked at that the first line of a key may stand at the end of."""
LONGEST_LINE = 4_000
"""Longer lines are looked at in pieces of this length."""

# --- what a value looks like ---------------------------------------------------------------

_REFERENCE = (
    r"(?i)[()\[\]{}<>]|^[$!%&*]|^[a-z_]+(?:\.[a-z_]+)+\.?$"
    r"|^[:@]?[a-z_.]*(?:passwd|password|passphrase|pwd|_pass|secret|token|key)(?:_?id)?\.?$"
)
"""Code and references are no secrets: os.environ["X"], ${TOKEN}, self.next_token, !vault."""
_PLACE = r"(?i)^(?:[.~]{0,2}/|[a-z]:\\|[a-z+]{2,12}://)"
_PLACEHOLDER = (
    r"(?i)^(?:change-?me|your[-_].*|x{3,}|\*{3,}|\.{3,}|pass(?:word|wd)?|secret|token|user"
    r"|(?:example|dummy|placeholder).*)$"
)
_SPEAKS_OF = (
    r"(?i)(?:file|path|url|uri|name|header|ref|dir|days|length|type|id|field|policy|iterations|timeout|ttl|count|age"
    r"|version|rotation|history|limit|size)[\"']?\\{0,3}[\"']?\s{0,3}[=:]"
)
"""A name that ends like this names no secret: password_file, api_key_header, secretName."""
_TECHNICAL = (
    r"(?i)^(?:1?pass(?:word)?\d?$|base\d|sha-?\d|md\d|[hrep]s\d{3}|argon2|bcrypt|scrypt|pbkdf2|oauth|utf-?\d|aes|rsa|ed\d{5}"
    r"|x509|http|v?\d[\d.:/-]*[a-z]{0,3}$|\d{4}-\d\d|[\w-]+\.[a-z]{1,5}$)"
)
_UUID = r"(?i)[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}"
_HEX = r"[\da-f]{24,}|[\dA-F]{24,}"
_DIGIT, _SMALL, _CAPITAL = r"\d", r"[a-z]", r"[A-Z]"
_SYMBOL = r"[!@#$%^&*+~?]"


def _is_reference(value: str) -> bool:
    return bool(
        _compiled(_REFERENCE).search(value) or _compiled(_PLACE).match(value) or _compiled(_PLACEHOLDER).match(value)
    )


def _is_random(value: str) -> bool:
    """Say whether it has what random text has: digits, small letters and capitals, or many digits of base 16."""
    if _is_reference(value) or _compiled(_UUID).search(value):
        return False
    if _compiled(_HEX).fullmatch(value):
        return not value.isdigit()
    return len(value) >= 12 and _has(value, _DIGIT, _SMALL, _CAPITAL) and not _compiled(_TECHNICAL).match(value)


def _is_strong(value: str) -> bool:
    """Say whether it is what people call a strong password."""
    if len(value) < 8 or _is_reference(value) or _compiled(_TECHNICAL).match(value) or "/" in value:
        return False
    if not _has(value, _DIGIT, r"[A-Za-z]"):
        return False
    return _has(value, _SMALL, _CAPITAL) or _has(value, _SYMBOL)


def _is_weak(value: str) -> bool:
    """Say whether it is what people call a weak password: letters and a digit."""
    is_one = len(value) >= 6 and _has(value, _DIGIT, _SMALL)
    return is_one and not _is_reference(value) and not _compiled(_TECHNICAL).match(value)


def _has(value: str, *patterns: str) -> bool:
    return all(_compiled(pattern).search(value) for pattern in patterns)


# --- where it stands -----------------------------------------------------------------------

# All patterns are tried on small letters. The last group that took part is the value.
_ASSIGNS = r"\\{0,3}[\"']?\s{0,3}(?:=>|:=|=(?!=)|:(?!:))\s{0,3}"
_SURE_NAME = (
    r"((?:(?:password|passwd|secret|(?:api|access|account|private)[_-]?key)[\w.-]{0,20}|passphrase|pwd|_pass|token)"
    rf"{_ASSIGNS})"
    r"(?:\\{1,3}\"([^\"\\\n]{6,200})|\"([^\"\n]{6,200})\"|'([^'\n]{6,200})'|((?:(?!</)[^\s\"',;]){6,}))"
)
_WEAK_NAME = (
    r"(?:[a-z\d][_.-]?key(?:[_-]data)?|credentials?|[a-z]pass|_?auth|\bsig|signature|session(?:[_-]?id)?|sessid|\bsid"
    rf"|csrf\w{{0,10}}){_ASSIGNS}\\{{0,3}}[\"'`]?([^\s\"'`,;\\&<>]{{12,}})"
)
_KNOWN_TO_ALL = r"(?:public|primary|foreign|sort|partition|cache|idempotency|host|dedup\w{0,10})[_.-]?k?$"
_OF_TESTS = r"(?:[-=]{3}|tests?|checks?)\s{1,2}$"
_SAID = (
    r"(?:(pass(?:word|phrase|code|wd)s?|passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|hasło|парол[ья]"
    r"|パスワード|密码|密碼|비밀번호|pwd?|pass)|api[ _-]?key|secret|token|[_-]key|credentials)"
    r"(?=[\s\"'`=:：—–は是는은])[\"'`]?(?:\s(?:for|of|on|in|at|für|de|para|du|von|voor|dla|для)\s[\w.-]{1,40})?"
    r"\s{0,2}((?:(?:is|was|ist|war|lautet|est|es|é|è|to|from)\b|[=:：—–は是는은])?)\s{0,2}[\"'`“‘«]?"
    r"([^\s\"'`”’»<>,;]{6,100})"
)
_PAIR = (
    r"\b(?:(?:login|credentials?|creds|user(?:name)?|account)[\"']?\s{0,2}(?:is|:|=)\s{0,2}[\w.@-]{1,40}\s{0,2}[:/]"
    r"|(?:admin|root|deploy|administrator|postgres):)\s{0,2}[\"'`]?([^\s\"'`<>,;/]{8,100})"
)
_COOKIE = r"=([^;\s\"'\\]{12,})"
_BASIC = r"authorization\\{0,3}[\"']?\s?[:=]\s?\\{0,3}[\"']?basic ([^\s'\"$<{\\][^\s'\"\\]{7,})"
_ALONE_IN_ADDRESS = r"://([\w-]{20,200})(?=@)"
_COMMAND = (
    r"(?:sshpass\s-p\s?['\"]?|\bmysql\w{0,10}\b[^\n]{0,80}?\s-p['\"]?"
    r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[\s=]['\"]?[^\s:'\"]{1,60}:)([^\s'\"]{6,200})"
)
_HASHED = (
    r"\$(?:2[abxy]\$\d\d|[156y](?:\$[^\s$]{1,40}){1,2}|argon2\w{1,2}(?:\$[^\s$]{1,60}){1,3})\$([./a-z0-9+]{20,200})"
)
_KEY_IN_BASE64 = r"ls0tls1crudjti((?!bdrvju|bqvujm)[a-z0-9+/=]{20,})"
_PGPASS = r"^\s{0,8}[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w.*-]{1,60}:(\S{6,200})\s*$"
_BASE64 = r"(?<![\w+/])([a-z0-9+/]{14,400}={0,2})(?![\w+/])"
_USER_AND_PASSWORD = rb"[\w.@-]{2,60}:[!-~]{6,200}"


def _is_assigned(value: str, found: re.Match[str]) -> bool:
    is_prose = value.isalpha() and not found[1].endswith("=")
    is_prose |= " " in value and not any(character.isdigit() for character in value)
    return not (is_prose or _is_reference(value) or _compiled(_SPEAKS_OF).search(found[1]))


def _is_weakly_named(value: str, found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 16) : found.start() + 3]
    return not _compiled(_KNOWN_TO_ALL).search(before) and _is_random(value)


def _is_said(value: str, found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 16) : found.start() + 2]
    if _compiled(_KNOWN_TO_ALL).search(before):
        return False
    is_word = not _compiled(r"[\w-]$").search(before[:-2])
    if found[1] == "pass" and ((is_word and not found[2]) or _compiled(_OF_TESTS).search(before[:-2])):
        return False  # to pass something, and what tests do
    may_be_weak = found[1] and found[2] and found[2] not in ("to", "from")
    return _is_strong(value) or (bool(may_be_weak) and _is_weak(value))


def _is_basic(value: str, _: re.Match[str]) -> bool:
    return bool(re.search(r"[\d=]|[a-z][A-Z]", value))


def _is_login(value: str, _: re.Match[str]) -> bool:
    """Say whether it is a user and a password in base64."""
    import base64

    try:
        return bool(re.fullmatch(_USER_AND_PASSWORD, base64.b64decode(value + "=" * (-len(value) % 4), validate=True)))
    except ValueError:
        return False


_RULES: tuple[tuple[tuple[str, ...], str, Callable[[str, re.Match[str]], bool]], ...] = (
    (("basic ",), _BASIC, _is_basic),
    (("://",), _ALONE_IN_ADDRESS, lambda value, _: _is_random(value)),
    (("mysql", "sshpass", "curl "), _COMMAND, lambda value, _: _is_strong(value) or _is_weak(value)),
    (("$1$", "$2", "$5$", "$6$", "$y$", "$argon"), _HASHED, lambda *_: True),
    (("ls0tls1crudjti",), _KEY_IN_BASE64, lambda *_: True),
    (("cookie:", 'cookie"'), _COOKIE, lambda value, _: _is_random(value)),
    (
        ("login", "cred", "user", "account", "admin:", "root:", "deploy:", "postgres:"),
        _PAIR,
        lambda value, _: _is_strong(value),
    ),
    (("basic ", "auth", "base64", "login", "cred"), _BASE64, _is_login),
    (
        ("key", "cred", "pass", "auth", "sig=", "signature", "session", "sessid", "sid=", "csrf"),
        _WEAK_NAME,
        _is_weakly_named,
    ),
    (
        (
            *("key", "pass", "pw", "secret", "token", "cred", "kennwort", "contrase", "senha", "wachtwoord", "hasło"),
            *("парол", "パスワード", "密码", "密碼", "비밀번호"),
        ),
        _SAID,
        _is_said,
    ),
    ((":5432:", ":*:"), _PGPASS, lambda value, _: _is_strong(value)),
)
"""What stands in a line, in small letters, when it is worth trying the pattern, and what the value must be then."""
MARKS = frozenset(mark for marks, _, _ in _RULES for mark in marks)


def without_passwords(text: str) -> str:
    """Give the text without what names, sentences, commands and headers tell to be secret."""
    text = _without(text, _SURE_NAME, _is_assigned)
    small = in_small_letters(text)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for marks, pattern, is_secret in _RULES:
        for number in {number for mark in marks for number in _lines_with(mark, small, starts)}:
            line = lines[number]
            pieces = (line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE))
            lines[number] = "".join(_without(piece, pattern, is_secret) for piece in pieces)
    return "\n".join(lines)


def in_small_letters(text: str) -> str:
    """Give the text in small letters, each in the place where it was."""
    return text.replace("İ", "I").lower()  # the only letter that becomes two


def _lines_with(mark: str, text: str, starts: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines in which a mark stands."""
    at = text.find(mark)
    while at >= 0:
        number = bisect_right(starts, at) - 1
        yield number
        at = text.find(mark, starts[number + 1])


def _without(text: str, pattern: str, is_secret: Callable[[str, re.Match[str]], bool]) -> str:
    kept = []
    at = 0
    for found in _compiled(pattern).finditer(in_small_letters(text)):
        start, end = found.span(found.lastindex or 0)
        value = text[start:end].rstrip(".,;:)!。、")
        if REDACTED not in value and is_secret(value, found):
            kept += [text[at:start], REDACTED]
            at = start + len(value)
    return "".join([*kept, text[at:]]) if kept else text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# --- keys without a beginning --------------------------------------------------------------

_KEY_END = r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_LINE_END = r"(?:\\r)?\\n|\n"
_ROUND_A_LINE = " \t\"'+>|"
_KEY_LINE = r"(?:\d{1,5}[\t:|]\s*)?[A-Za-z0-9+/]{16,80}={0,2}"
_KEY_TAIL = r"[A-Za-z0-9+/]{60,}={0,2}\s*\Z"
_WHOLE_LINE = r"[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76}"
_OPEN_TO_ALL = r"BEGIN (?:[A-Z0-9 ]{0,40}(?:CERTIFICATE|PUBLIC|MESSAGE|SIGNATURE|REQUEST|PARAMETERS))"


def without_ends_of_keys(text: str) -> str:
    """Give the text without the rest of private keys whose beginning was cut off."""
    kept: list[str] = []
    at = 0
    for found in _compiled(_KEY_END).finditer(text):
        begin = _begin_of_key(text, max(at, found.start() - KEY_SIGHT), found.start())
        kept += [text[at:begin], REDACTED]
        at = found.end()
    return "".join([*kept, text[at:]])


def _begin_of_key(text: str, first: int, end: int) -> int:
    """Give where the lines of base64 begin that lead up to the end of a key."""
    ends = [first, *(found.end() for found in _compiled(_LINE_END).finditer(text, first, end)), end]
    begin = end
    for start, stop in zip(reversed(ends[:-1]), reversed(ends[1:]), strict=True):
        line = _compiled(_LINE_END).sub("", text[start:stop]).strip(_ROUND_A_LINE)
        if line and not _compiled(_KEY_LINE).fullmatch(line) and not (stop == end and line.isalnum()):
            # Its first line may stand behind other words.
            tail = _compiled(_KEY_TAIL).search(text, max(start, begin - TAIL_SIGHT), begin)
            return tail.start() if tail else begin
        begin = start
    return begin


def without_middles_of_keys(text: str) -> str:
    """Give the text without blocks of base64 that may come from the middle of a key."""
    lines = text.split("\n")
    are_whole = [
        len(line) >= 64 and bool(_compiled(_WHOLE_LINE).fullmatch(line.strip(_ROUND_A_LINE))) for line in lines
    ]
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and are_whole[end]:
            end += 1
        if end - at >= KEY_LINES and _has(lines[at], _DIGIT, _SMALL, _CAPITAL) and not _is_open_to_all(lines, at):
            if kept and (tail := _compiled(_KEY_TAIL).search(kept[-1], max(0, len(kept[-1]) - TAIL_SIGHT))):
                kept[-1] = kept[-1][: tail.start()]
            kept.append(REDACTED)
            at = end
        else:
            kept += lines[at : max(end, at + 1)]
            at = max(end, at + 1)
    return "\n".join(kept)


def _is_open_to_all(lines: list[str], at: int) -> bool:
    """Say whether a heading above calls it a certificate, a public key or the like."""
    return any(_compiled(_OPEN_TO_ALL).search(line) for line in lines[max(0, at - 5) : at])
