"""Sentences that are meant to steer agents instead of saying something about the project.

A file, a web page or the output of a program can say them, and an agent can repeat them in good faith. Whatever Ralph
takes from a text by itself passes here; what an agent states as a memory and reads like this waits for a person.
"""

from __future__ import annotations

import re

STEERING_REASON = "reads like an instruction to agents, not like a fact about the project"
MAX_SEARCHED_LENGTH = 20_000
"""Number of characters of a text that are searched."""
MAX_DEMAND_LENGTH = 200
"""Number of characters before an unchecked act in which something may demand it."""

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
    | \b(?:do\ not|don't|never)\b.{0,20}\b(?:tell|inform|mention|alert|ask|notify)\b
        .{0,30}\b(?:user|person|people|human|owner|maintainer|reviewer|operator)s?\b
    | \b(?:send|post|upload|exfiltrate|forward|e-?mail|leak|append|include)\b.{0,80}
        \b(?:secrets?|tokens?|credentials?|api\ keys?|passwords?|environment\ variables|\.env\b|(?:ssh|private)\ keys?)
        .{0,80}https?://
    | \b(?:skip|disable|turn\ off|switch\ off|bypass|circumvent|weaken)\b.{0,25}
        \b(?:(?:quality\ )?gates?|verification|reviews?|safety|guardrails?|sandbox|permission\ (?:checks?|prompts?))\b
    | (?:^|[.:;,]\s|\bagents?\b.{0,20})\W{0,3}(?:always|automatically)\s+(?:approve|accept)\b
        .{0,40}\b(?:reviews?|requests?|PRs?|changes?|commits?)\b
    | \b(?:ignorier\w*|vergiss|vergesst|missachte)\b.{0,40}\banweisung
    | \b(?:oublie[rz]?|ignore[rz]?)\b.{0,40}\b(?:instructions|consignes)\b
    | \b(?:ignora\w*|olvida\w*|esque[cç]a\w*|dimentica\w*|ignore)\b.{0,40}\b(?:instrucciones|instruções|istruzioni)\b
    | \b(?:игнорир|забуд)\w*.{0,40}инструкц | (?:忽略|无视|無視).{0,20}(?:指示|指令|提示|说明|說明)
    | (?:指示|命令).{0,12}無視 | (?:지시|명령).{0,12}무시 | تجاهل.{0,30}(?:تعليمات|التعليمات) | התעל\w*.{0,30}הוראות
    | ^\W{0,4}(?:system|assistant|developer|human)\s*:
    | <\|im_(?:start|end)\|> | \[/?INST\] | </?system(?:-reminder|-prompt)?>
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_UNCHECKED = re.compile(
    r"\bwithout\s+(?:\w+\s+){0,2}?(?:ask|tell|inform|notif|confirm|approv|permission|consent|review)"
    r"|--no-verify\b|--dangerously-",
    re.IGNORECASE,
)
"""Doing something that nobody is asked about, or without the checks that are meant for it."""
_ORDER = re.compile(
    r"(?:^\W*(?:please\s+)?|\b(?:must|always|should|(?:has|have)\s+to|agents?|sessions?)\b.{0,60}?\b)"
    r"(?:push(?:ed)?|merged?|deploy(?:ed)?|publish(?:ed)?|deleted?|commit(?:ted)?|approved?|run|executed?|install(?:ed)?"
    r"|sen[dt]|upload(?:ed)?|forced?|used?)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_PROHIBITION = re.compile(r"\b(?:never|not|no|nobody|nothing|cannot|\w+n't|avoid|forbidden)\b", re.IGNORECASE)


def is_steering(text: str) -> bool:
    """Return whether a text reads like an instruction that was planted for agents."""
    head = text[:MAX_SEARCHED_LENGTH]
    return bool(_STEERING.search(head)) or any(_is_ordered(head, one.start()) for one in _UNCHECKED.finditer(head))


def _is_ordered(text: str, end: int) -> bool:
    """Return whether the sentence up to a place demands what follows: "never deploy without asking" does not."""
    before = _SENTENCE_END.split(text[max(0, end - MAX_DEMAND_LENGTH) : end])[-1]
    return bool(_ORDER.search(before)) and not _PROHIBITION.search(before)
