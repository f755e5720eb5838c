"""Detection of secrets by context: a name, a command or a sentence.

A name proves little (`token = next_token`), so the value counts too: the weaker the name, the more random it must look.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REDACTED = "[redacted]"
MAX_LINE_CHARACTERS = 4_000
"""Size of the pieces in which longer lines are searched, in characters."""

# --- values ---------------------------------------------------------------------------------

_REFERENCE = (
    r"(?i)[()\[\]{}<>]|^[$!%&*]|^[a-z_]+(?:\.[a-z_]+)+\.?$"
    r"|^[:@]?[a-z_.]*(?:passwd|password|passphrase|pwd|_pass|secret|token|key)(?:_?id)?\.?$"
)
"""Code and references, which are no secrets: os.environ["X"], ${TOKEN}, self.next_token, !vault."""
_PATH_OR_URL = r"(?i)^(?:[.~]{0,2}/|[a-z]:\\|[a-z+]{2,12}://)"
_PLACEHOLDER = (
    r"(?i)^(?:change[-_]?me\d{0,4}|replace[-_]?me|todo|your[-_].*|x{3,}|\*{3,}|\.{3,}|pass(?:word|wd)?|secret|token|user"
    r"|(?:example|dummy|placeholder).*|true|false|none|null|undefined|.*(?-i:EXAMPLE(?:KEY)?)|.*x{8}.*|(?:[a-z]{2,6}[-_]){1,2})$"
)
_HARMLESS_NAME = (
    r"(?i)(?:file|path|url|uri|name|header|ref|dir|days|length|type|id|field|policy|iterations|timeout|ttl|count|age"
    r"|version|rotation|history|limit|size)[\"']?\\{0,3}[\"']?\s{0,3}[=:]"
)
"""Endings of names that hold no secret: password_file, api_key_header, secretName."""
_ARN = r"arn:[\w-]{1,20}:[\w:/-]{0,40}$"
"""Beginning of an identifier of AWS, which names secrets."""
_TECHNICAL = (
    r"(?i)^(?:1?pass(?:word)?\d?$|base\d|sha-?\d|md\d|[hrep]s\d{3}|argon2|bcrypt|scrypt|pbkdf2|oauth|utf-?\d|aes|rsa|ed\d{5}"
    r"|x509|http|v?\d[\d.:/-]*[a-z]{0,3}$|\d{4}-\d\d|[\w-]+\.[a-z]{1,5}$)"
)
_UUID = r"(?i)[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}"
_HEX = r"[\da-f]{24,}|[\dA-F]{24,}"
_DIGIT, _LOWERCASE, _UPPERCASE = r"\d", r"[a-z]", r"[A-Z]"
_DIGIT_OR_HEX = r"\d|[a-fA-F]{8}"
"""What is in every value that looks random or like a password."""
_SYMBOL = r"[!@#$%^&*+~?]"


def _is_reference(value: str) -> bool:
    return bool(
        compiled_pattern(_REFERENCE).search(value)
        or compiled_pattern(_PATH_OR_URL).match(value)
        or compiled_pattern(_PLACEHOLDER).match(value)
    )


def _is_random(value: str) -> bool:
    """Return whether a value looks random: digits, lowercase and uppercase letters, or a long hex string."""
    if _is_reference(value) or compiled_pattern(_UUID).search(value):
        return False
    if compiled_pattern(_HEX).fullmatch(value):
        return not value.isdigit()
    return (
        len(value) >= 12
        and _has(value, _DIGIT, _LOWERCASE, _UPPERCASE)
        and not compiled_pattern(_TECHNICAL).match(value)
    )


def _is_strong(value: str) -> bool:
    """Return whether a value looks like a strong password."""
    if len(value) < 8 or _is_reference(value) or compiled_pattern(_TECHNICAL).match(value) or "/" in value:
        return False
    if not _has(value, _DIGIT, r"[A-Za-z]"):
        return False
    return _has(value, _LOWERCASE, _UPPERCASE) or _has(value, _SYMBOL)


def _is_weak(value: str) -> bool:
    """Return whether a value looks like a weak password: letters and a digit."""
    is_password = len(value) >= 6 and _has(value, _DIGIT, _LOWERCASE)
    return is_password and not _is_reference(value) and not compiled_pattern(_TECHNICAL).match(value)


def _has(value: str, *patterns: str) -> bool:
    return all(compiled_pattern(pattern).search(value) for pattern in patterns)


# --- context -------------------------------------------------------------------------------

# All patterns are matched against lowercase text. The last matching group is the value.
_ASSIGNMENT = r"\\{0,7}[\"']?(?:\[0m)?\s{0,3}(?:=>|:=|=(?!=)|:(?!:))\s{0,3}(?:\[[\d;]{1,5}m)?"
_SURE_NAME = (
    r"((?:(?:password|passwd|secret|(?:api|access|account|private)[_-]?key)[\w.-]{0,20}|passphrase|pwd|_pass|token)"
    rf"{_ASSIGNMENT})"
    r"(?:\\{1,3}\"([^\"\\\n]{6,200})|\"([^\"\n]{6,200})\"|'([^'\n]{6,200})'|((?:(?!</|\[\d\d?m|\[\d;)[^\s\"',;]){6,}))"
)
_WEAK_NAME = (
    r"(?:[a-z\d][_.-]?key(?:[_-]data)?|credentials?|[a-z]pass|_?auth|\bsig|signature|session(?:[_-]?id)?|sessid|\bsid"
    rf"|csrf\w{{0,10}}){_ASSIGNMENT}\\{{0,3}}[\"'`]?([^\s\"'`,;\\&<>]{{12,}})"
)
_PUBLIC_NAME = r"(?:public|primary|foreign|websocket|sort|partition|cache|idempotency|host|dedup\w{0,10})[_.-]?k?$"
_TEST_OUTPUT = r"(?:[-=]{3}|tests?|checks?)\s{1,2}$"
_PROSE = (
    r"(?:(pass(?:word|phrase|code|wd)s?|pwd?|pass)|api[ _-]?key|secret|token|[_-]key|credentials)"
    r"(?=[\s\"'`=:—–])[\"'`]?(?:\s(?:for|of|on|in|at)\s[\w.-]{1,40})?"
    r"\s{0,2}((?:(?:is|was|to|from)\b|[=:—–])?)\s{0,2}[\"'`“‘]?([^\s\"'`”’<>,;]{6,100})"
)
_ANCHORS = {
    _WEAK_NAME: (("key", "cred", "pass", "auth", "sig", "sess", "sid", "csrf"), len("a_")),
    _PROSE: (("key", "cred", "pass", "pw", "secret", "token"), len("api_")),
}
"""What the names of a pattern contain, and the length of what may precede it: trying the pattern everywhere is slow."""
_PAIR = (
    r"\b(?:(?:login|credentials?|creds|user(?:name)?|account)[\"']?\s{0,2}(?:is|:|=)\s{0,2}[\w.@-]{1,40}\s{0,2}[:/]"
    r"|(?:log ?in|sign in|logged in) (?:with|as|using) [\w.@-]{1,40}\s{0,2}[:/]"
    r"|(?:admin|root|deploy|administrator|postgres):)\s{0,2}[\"'`]?([^\s\"'`<>,;/]{8,100})"
)
_COOKIE = r"=([^;\s\"'\\]{12,})"
_BASIC = r"authorization\\{0,3}[\"']?\s?[:=]\s?\\{0,3}[\"']?basic ([^\s'\"$<{\\][^\s'\"\\]{7,})"
_URL_USER = r"://([\w.+~-]{20,500})(?=@)"
_PASSWORD_COMMANDS = tuple("mysql sshpass curl redis-cli zip 7z sqlcmd openssl mongo ldap htpasswd".split())
_COMMAND = (
    r"(?:sshpass\s-p\s?['\"]?|\b(?:redis-cli|zip|unzip|7z|sqlcmd|openssl|mongo\w{0,6}|ldap\w{3,9})\b"
    r"[^\n]{0,80}?\s(?:-a|-k|-p|-w|-pass pass:|-passin pass:)\s?['\"]?"
    r"|\bhtpasswd\s-\w{0,4}b\w?\s\S{1,80}\s\S{1,60}\s"
    r"|\bmysql\w{0,10}\b[^\n]{0,80}?\s-p['\"]?"
    r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[\s=]['\"]?[^\s:'\"]{1,60}:)([^\s'\"]{6,200})"
)
_CRYPT_HASH = (
    r"\$(?:2[abxy]\$\d\d|[156y](?:\$[^\s$]{1,40}){1,2}|argon2\w{1,2}(?:\$[^\s$]{1,60}){1,3})\$([./a-z0-9+]{20,200})"
)
_KEY_IN_BASE64 = r"ls0tls1crudjti((?!bdrvju|bqvujm)[a-z0-9+/=]{20,})"
_PGPASS = r"(?:^|(?<=\\n)|(?<=[\s\"'+>-]))[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w.*-]{1,60}:([^\s\"'\\]{6,200})"
_NETRC = (
    r"\b(?:machine\s{1,3}[\w.-]{1,100}|default)(?:\s|\\{1,7}[nt]){1,12}login(?:\s|\\{1,7}[nt]){1,12}[^\s\\]{1,100}"
    r"(?:\s|\\{1,7}[nt]){1,12}password(?:\s|\\{1,7}[nt]){1,12}([^\s\"'\\]{6,300})"
)
_QUERY = (
    r"(?:[?&;]|%3f|%26|\\u0026)(?:api[_-]?|access[_-]?|auth[_-]?|client[_-]?|app[_-]?|private[_-]?|refresh[_-]?|id[_-]?"
    r"|x-amz-)?(?:key|token|secret|signature|security-token|sig|code|password|passwd|pwd|pass|auth|credential)(?:=|%3d)"
    r"([^\s\"'`&;#\\<>]{8,500})"
)
_NAMED_VALUE = (
    r"(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|_pass|pwd)[\w.-]{0,20}(?:[\\\"']{0,5},?\s{1,12}\\{0,5}[\"']?(?:value|val|v)"
    r"[\\\"']{0,5}\s?[:=]\s?|[\\\"']{1,4}\s?\{\s{0,12}(?:\w{1,20}\s?=\s?\w{1,20}\s{1,12})?default\s{0,8}=\s?"
    r"|>)[\\\"']{0,5}([^\s\"'\\<>,;]{6,200})"
)
"""Pairs of a name and a value: `{"name": "DB_PASSWORD", "value": "…"}`, `<password>…</password>`."""
_KEY_ID = rf"private_?key_?id{_ASSIGNMENT}\\{{0,7}}[\"']?([\da-f]{{40}})"
_BASE64 = r"(?<![\w+/])([a-z0-9+/]{14,400}={0,2})(?![\w+/])"
_USER_AND_PASSWORD = rb"[\w.@-]{2,60}:[!-~]{6,200}"


def _is_assigned_secret(value: str, match: re.Match[str]) -> bool:
    is_prose = value.isalpha() and not match[1].endswith("=")
    is_prose |= " " in value and not any(character.isdigit() for character in value)
    is_prose |= bool(compiled_pattern(_ARN).search(match.string, max(0, match.start() - 60), match.start()))
    return not (is_prose or _is_reference(value) or compiled_pattern(_HARMLESS_NAME).search(match[1]))


def _is_weakly_named(value: str, match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 16) : match.start() + 3]
    return not compiled_pattern(_PUBLIC_NAME).search(before) and _is_random(value)


def _is_prose_secret(value: str, match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 16) : match.start() + 2]
    if compiled_pattern(_PUBLIC_NAME).search(before):
        return False
    is_word = not compiled_pattern(r"[\w-]$").search(before[:-2])
    if match[1] == "pass" and ((is_word and not match[2]) or compiled_pattern(_TEST_OUTPUT).search(before[:-2])):
        return False  # the verb, or a test result
    may_be_weak = match[1] and match[2] and match[2] not in ("to", "from")
    return _is_strong(value) or (bool(may_be_weak) and _is_weak(value))


def _is_random_or_single_case(value: str) -> bool:
    """Return whether a value in a URL looks random, also in one case or as a UUID."""
    if _is_random(value) or compiled_pattern(_UUID).fullmatch(value):
        return True
    return len(value) >= 20 and len(re.findall(r"\d+", value)) * 8 >= len(value) and value.isalnum()


def _is_netrc_password(value: str, _: re.Match[str]) -> bool:
    return bool(re.search(r"\d|[a-z][A-Z]|[!@#$%^&*+~?]", value)) and not _is_reference(value)


def _is_basic(value: str, _: re.Match[str]) -> bool:
    return bool(re.search(r"[\d=]|[a-z][A-Z]", value))


def _is_login(value: str, _: re.Match[str]) -> bool:
    """Return whether a value is a user name and password in base64."""
    import base64

    try:
        return bool(re.fullmatch(_USER_AND_PASSWORD, base64.b64decode(value + "=" * (-len(value) % 4), validate=True)))
    except ValueError:
        return False


def _is_any(*_: object) -> bool:
    return True


_WITHOUT_DIGITS = (_is_basic, _is_login, _is_any)
"""Checks of values that may have no digit; for all others, see `_DIGIT_OR_HEX`."""

_RULES: tuple[tuple[tuple[str, ...], str, Callable[[str, re.Match[str]], bool]], ...] = (
    (("basic ",), _BASIC, _is_basic),
    (("://",), _URL_USER, lambda value, _: _is_random(value)),
    (_PASSWORD_COMMANDS, _COMMAND, lambda value, _: _is_strong(value) or _is_weak(value)),
    (("$1$", "$2", "$5$", "$6$", "$y$", "$argon"), _CRYPT_HASH, _is_any),
    (("ls0tls1crudjti",), _KEY_IN_BASE64, _is_any),
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
    (("key", "pass", "pw", "secret", "token", "cred"), _PROSE, _is_prose_secret),
    (
        ("key=", "token=", "secret=", "sig=", "signature=", "code=", "pass=", "password=", "pwd=", "auth="),
        _QUERY,
        lambda value, _: _is_random_or_single_case(value),
    ),
    (("private_key_id", "privatekeyid"), _KEY_ID, _is_any),
    ((":5432:", ":6432:", ":*:"), _PGPASS, lambda value, _: _is_strong(value)),
)
"""Lowercase markers that must be in a line before the pattern is tried, the pattern, and a check of the value."""
RULE_MARKERS = tuple(markers for markers, *_ in _RULES)
SURE_MARKERS = (
    *("password", "passwd", "secret", "passphrase", "pwd", "_pass", "token"),
    *(f"{kind}{between}key" for kind in ("api", "access", "account", "private") for between in ("", "_", "-")),
)
"""Lowercase substrings, one of which is in every name for which the rules for names are tried."""


def redact_in_context(text: str, has_sure_name: int, may_match: Sequence[bool]) -> str:
    """Return the text without secrets identified by names, sentences, commands and headers.

    `has_sure_name` is whether a name of `SURE_MARKERS` is in it, and `may_match` whether a marker of each rule is.
    """
    if has_sure_name:
        text = _redact_named(text)
    has_digit = compiled_pattern(_DIGIT_OR_HEX).search
    has_any = has_digit(text) is not None
    rules = [
        rule for rule, may in zip(_RULES, may_match, strict=True) if may and (has_any or rule[2] in _WITHOUT_DIGITS)
    ]
    if not rules:
        return text
    lowered = lower(text)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for markers, pattern, is_secret in rules:
        needs_digit = is_secret not in _WITHOUT_DIGITS and pattern not in _ANCHORS  # those are faster without looking
        for number in {number for marker in markers for number in _lines_with(marker, lowered, starts)}:
            line = lines[number]
            if not needs_digit or has_digit(line):
                pieces = (line[at : at + MAX_LINE_CHARACTERS] for at in range(0, len(line), MAX_LINE_CHARACTERS))
                lines[number] = "".join(_redact_matches(piece, pattern, is_secret) for piece in pieces)
    return "\n".join(lines)


def _redact_named(text: str) -> str:
    text = _redact_matches(text, _SURE_NAME, _is_assigned_secret)
    lowered = lower(text)
    if "value" in lowered or "default" in lowered or ">" in text:
        text = _redact_matches(text, _NAMED_VALUE, lambda value, _: _is_strong(value) or _is_weak(value))
    if "login" in lowered and ("machine" in lowered or "default" in lowered):
        text = _redact_matches(text, _NETRC, _is_netrc_password)
    return text


def lower(text: str) -> str:
    """Return the text in lowercase with unchanged positions."""
    return text.replace("İ", "I").lower()  # the only letter that becomes two in lowercase


def _lines_with(marker: str, text: str, starts: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines that contain a marker."""
    position = text.find(marker)
    while position >= 0:
        number = bisect_right(starts, position) - 1
        yield number
        position = text.find(marker, starts[number + 1])


def _redact_matches(text: str, pattern: str, is_secret: Callable[[str, re.Match[str]], bool]) -> str:
    parts = []
    position = 0
    lowered = lower(text)
    anchors = _ANCHORS.get(pattern)
    found = _matches_at(lowered, pattern, *anchors) if anchors else compiled_pattern(pattern).finditer(lowered)
    for match in found:
        start, end = match.span(match.lastindex or 0)
        value = text[start:end].rstrip(".,;:)!")
        if REDACTED not in value and is_secret(value, match):
            parts += [text[position:start], REDACTED]
            position = start + len(value)
    return "".join([*parts, text[position:]]) if parts else text


def _matches_at(text: str, pattern: str, anchors: Sequence[str], before: int) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern, each of which starts up to `before` characters before an anchor."""
    match_at = compiled_pattern(pattern).match
    end = 0
    for position in sorted(position for anchor in anchors for position in _positions(text, anchor)):
        for start in range(max(end, position - before), position + 1):
            if match := match_at(text, start):
                yield match
                end = match.end()
                break


def _positions(text: str, part: str) -> Iterator[int]:
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + 1)
