"""Convert the rules of gitleaks into `ralph.core.redaction.gitleaks_rules`: `make gitleaks CONFIG=gitleaks.toml`.

gitleaks matches with RE2 and its own ideas of what surrounds a value; Python's `re` differs in flags and classes, and
transcripts surround values in more ways. So the converter keeps what the rules know (names of providers, formats of
values, keywords, entropy) and leaves the surroundings to `ralph.core.redaction.gitleaks`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/ralph/core/redaction/gitleaks_rules.py"
MAX_REPETITIONS = 400
"""Upper bound of open-ended repetitions; `gitleaks` extends a match to the end of its token."""

_NAMED = re.compile(
    r"^(?:\(\?i\))?\[\\w\.-]\{0,50}\?(?:\(\?i:\[\\w\.-]\{0,50}\?)?(?P<name>.*?)\(\?:\[ \\t\\w\.-]\{0,20}\)"
)
_OPERATOR = r"""(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
_END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""

COVERED = {
    "generic-api-key": "our own context rules tell code and prose from values",
    "private-key": "ours takes the whole block, also when it was cut",
    "jwt": "ours is linear",
    "jwt-base64": "base64 is decoded",
    "curl-auth-header": "ours is linear",
    "curl-auth-user": "ours is linear",
    "kubernetes-secret-yaml": "bound to paths",
    "twilio-api-key": "detect-secrets",
    "sourcegraph-access-token": "takes every 40 hexadecimal digits for a token",
    "vault-service-token": "`s.` is in every text",
    "facebook-access-token": "takes what follows a number and a percent sign",
    "sidekiq-sensitive-url": "ours finds passwords in URLs",
    "gitlab-session-cookie": "ours finds cookies",
    "aws-access-token": "ours",
    "huggingface-access-token": "ours",
    "azure-ad-client-secret": "ours; `Q~` may follow anything",
    "perplexity-api-key": "ours",
    "sentry-org-token": "ours",
    "confluent-access-token": "16 characters after a common word",
    "dropbox-api-token": "15 characters after a common word",
}
"""Rules that are left out, and why; also left out are rules for paths and public identifiers."""
_PUBLIC = re.compile(r"-(?:client-id|access-id|api-id|pub-key|public-key|pub-api-key)$")


def convert(rule: dict[str, object]) -> tuple[tuple[str, ...], str, str, float] | None:
    """Return keywords, name, value and entropy of a rule, or None if it is left out."""
    regex = str(rule.get("regex", ""))
    if rule["id"] in COVERED or "path" in rule or not regex or _PUBLIC.search(str(rule["id"])):
        return None
    name = ""
    ignore_case = regex.startswith("(?i)")
    if _OPERATOR in regex:
        named = _NAMED.match(regex)
        assert named, regex
        name = named["name"]
        regex = regex.split(_OPERATOR, 1)[1].split(_END)[0]
    regex = regex.removeprefix("(?i)").removesuffix(_END).removesuffix("(?:[^\\w-]|\\z)").removesuffix(r"\b")
    regex = regex.replace(_END, "").removeprefix(r"\b")
    value = _bounded(_scoped(regex.replace("[:alnum:]", "A-Za-z0-9").replace("\\z", "\\Z")))
    value = f"(?i:{value})" if ignore_case else value
    name, value = (re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern) for pattern in (name, value))
    for pattern in (name, value):
        re.compile(pattern)
    keywords = rule["keywords"]
    assert isinstance(keywords, list)
    return tuple(keywords), name, value, float(str(rule.get("entropy", 0)))


def _scoped(regex: str) -> str:
    """Return the pattern with a flag that is set within a group applied to the rest of that group."""
    while (at := regex.find("(?i)")) >= 0:
        depth, end = 0, at + 4
        while end < len(regex) and depth >= 0:
            if regex[end] == "\\":
                end += 1
            elif regex[end] in "()":
                depth += 1 if regex[end] == "(" else -1
            end += 1
        end -= depth < 0
        regex = f"{regex[:at]}(?i:{regex[at + 4 : end]}){regex[end:]}"
    return regex


def _bounded(regex: str) -> str:
    """Return the pattern with an upper bound for every repetition."""
    regex = re.sub(r"\{(\d+),\}", lambda match: f"{{{match[1]},{max(MAX_REPETITIONS, int(match[1]))}}}", regex)
    regex = re.sub(r"(\[[^]]*]|\\d)\+", rf"\1{{1,{MAX_REPETITIONS}}}", regex)
    return re.sub(r"(\[[^]]*]|\\d)\*", rf"\1{{0,{MAX_REPETITIONS}}}", regex)


def main(config: str) -> None:
    """Write the rules of a configuration file."""
    with Path(config).open("rb") as file:
        rules = tomllib.load(file)["rules"]
    lines = [f"    {converted!r},  # {rule['id']}" for rule in rules if (converted := convert(rule))]
    TARGET.write_text(HEAD + "\n".join(lines) + "\n)\n")
    print(f"{len(lines)} of {len(rules)} rules")


HEAD = '''# ruff: noqa: E501
# fmt: off
"""Rules of gitleaks, converted by `requirements/gitleaks.py`; do not edit.

Copyright (c) 2019 Zachary Rice, MIT license: see LICENSE.gitleaks in this directory.
"""

RULES: tuple[tuple[tuple[str, ...], str, str, float], ...] = (
'''

if __name__ == "__main__":
    main(sys.argv[1])
