"""Sentences that are meant to steer agents instead of saying something about the project.

A file, a web page or the output of a program can say them, and an agent can repeat them in good faith. Whatever Ralph
takes from a text by itself passes here; what an agent states as a memory and reads like this waits for a person.
"""

from __future__ import annotations

import re

STEERING_REASON = "reads like an instruction to agents, not like a fact about the project"
MAX_SEARCHED_LENGTH = 20_000
"""Number of characters of a text that are searched."""

_STEERING = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override|bypass)\b.{0,40}
        \b(?:instructions?|prompts?|guidelines|guardrails?|safety\ (?:rules?|checks?)|system\ message)\b
    | \b(?:ignore|disregard|forget)\b.{0,20}\b(?:all|any|everything|your|previous|prior|earlier)\b.{0,20}
        \b(?:rules?|memor(?:y|ies)|constraints|above|before)\b
    | \byou\ are\ (?:now\ |no\ longer\ ).{0,40}\b(?:assistant|ai|agent|model|mode|admin\w*|root|bound|restricted)\b
    | \b(?:reveal|print|repeat|show|leak|output|send)\b.{0,40}\b(?:system\ prompt|your\ (?:instructions|prompt|rules))\b
    | \b(?:new|real|actual|updated)\ (?:system\ )?(?:instructions?|prompt)\s*:
    | \b(?:curl|wget|iwr|invoke-webrequest)\b[^\n]{0,200}\|\s*(?:sudo\s+)?(?:sh|bash|zsh|python\d?|perl|node|iex)\b
    | \b(?:sh|bash|eval|source)\b\s{0,3}(?:-c\s)?["'(<$]{1,4}\s?(?:curl|wget)\b
    | \bbase64\s(?:-d|-D|--decode)\b[^\n]{0,80}\|\s*(?:sh|bash|zsh|python\d?)\b
    | \b(?:do\ not|don't|never|without)\b.{0,20}\b(?:tell|telling|inform\w*|mention\w*|alert\w*|ask(?:ing)?|notify\w*)\b
        .{0,30}\b(?:user|person|people|human|owner|maintainer|reviewer|operator)s?\b
    | \b(?:send|post|upload|exfiltrate|forward|e-?mail|leak|append|include)\b.{0,80}
        \b(?:secrets?|tokens?|credentials?|api\ keys?|passwords?|environment\ variables|\.env\b|(?:ssh|private)\ keys?)
        .{0,80}https?://
    | \b(?:skip|disable|turn\ off|switch\ off|bypass|circumvent|weaken)\b.{0,25}
        \b(?:(?:quality\ )?gates?|verification|reviews?|safety|guardrails?|sandbox|permission\ (?:checks?|prompts?))\b
    | ^\W{0,4}(?:system|assistant|developer|human)\s*:
    | <\|im_(?:start|end)\|> | \[/?INST\] | </?system(?:-reminder|-prompt)?>
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)


def is_steering(text: str) -> bool:
    """Return whether a text reads like an instruction that was planted for agents."""
    return bool(_STEERING.search(text[:MAX_SEARCHED_LENGTH]))
