"""Rules in a memory that is a list of them, such as a section "Development practices" of imported notes.

Under a title that names the practices or conventions of a project, an instruction is a rule without "always": "when
adding an endpoint: add a test". Under the title of a part ("API conventions"), an item has to say that it is general.
"""

from __future__ import annotations

import re

from ralph.core.text import one_line
from ralph.memory.lifecycle import rule_patterns as patterns
from ralph.memory.lifecycle.rules import (
    MAX_RULES,
    MAX_SENTENCE_CHARACTERS,
    MIN_RULE_WORDS,
    find_rules,
    find_rules_of_memory,
    is_excluded,
    is_report,
    states_policy,
    to_rule,
)
from ralph.memory.lifecycle.supersession import KINDS_OF_RULES, MAX_RULE_MEMORY_CHARACTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.core.records import Rule

MAX_ITEM_CHARACTERS = 240
"""Length of an item as a rule, in characters; sentences that do not fit are left out."""
MIN_ITEMS = 2
"""Number of items that make a list."""
MIN_SHARE = 0.5
"""Share of items that state rules, in a convention or constraint whose title does not name practices.

In other memories, all do.
"""

ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•]|\d{1,2}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?P<text>\S.*)")
PRACTICES = re.compile(
    r"\b(?:practices?|conventions?|guidelines?|standards?|rules?|policy|policies|style ?guides?|(?:code|coding) styles?"
    r"|working agreements?)\b",
    re.IGNORECASE,
)
"""Words of a title that names rules."""
GENERAL_TITLE = frozenset(
    "agent agents agreed ai all always and architectural architecture assistant basic best branch branching clean code"
    " codebase coding collaboration commit commits common contributing contribution contributor core critical dev"
    " developer development documentation docs engineering error errors for general git github golden good ground"
    " handling hard house important in key logging main mandatory must my naming non-negotiable of on our personal pr"
    " preferred programming project projects prs pull quality repo repository request requests review reviews security"
    " software source strict style team technical test testing tests the this to tdd version control work workflow"
    " working workspace writing c c++ dart flutter go java javascript js kotlin php python ruby rust swift typescript"
    " ts".split()
)
"""Words beside those that leave a title about all work, and not about a part of the program."""
_TITLE_WORD = re.compile(r"[a-z][a-z+'-]*", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__")
LABEL = re.compile(r"[\w`'’/&(). -]{1,50}?(?:\s+[–—-]\s+|:\s+)")
"""What an item may begin with: "Commits: use the imperative"."""
CONDITION = re.compile(
    r"(?:when(?:ever)?|before|after|if|for|while|on|in|once|during)\b[^,:;.]{3,80}(?:[,:]|\s[–—-])\s+", re.IGNORECASE
)
"""When an item holds: "when adding an endpoint: add a test"."""
INSTRUCTION = re.compile(
    rf"(?:{patterns.IMPERATIVE.pattern}"
    r"|(?:always|never|do not|don't|please)\s+\w+"
    r"|(?:batch|bump|capture|catch|centralize|colocate|co-locate|compose|configure|consider|cover|deploy|derive|design|disable"
    r"|discuss|eliminate|emit|enable|ensure|exclude|fail|favor|favour|focus|gate|guard|hide|initialize|inject|inline|introduce|isolate|lint"
    r"|measure|minimize|model|normalize|obey|pair|parse|plan|preserve|protect|propagate|prune|quote|record|reduce|reject|remember"
    r"|replace|report|request|reserve|respect|restart|reuse|revalidate|sanitize|scope|ship|squash|submit|surface|sync|target"
    r"|trace|throw|work)\s+(?!is\b|are\b|was\b|will\b|has\b|on\b)[\w`\"'(])",
    re.IGNORECASE,
)
"""How an instruction begins where only instructions are expected."""
DEMAND = re.compile(
    r"\b(?:must|should|shall|always|never|cannot|may not|have to|has to|needs? to|mandatory|forbidden|prohibited"
    r"|preferred|non-negotiable|(?:is|are) required|(?:not|never) (?:be )?(?:allowed|acceptable|accepted|permitted))\b"
    r"|\b(?:for|in|on) (?:all|every|each|any|new)\b|^(?:all|every|each) (?:new )?(?:work|code|changes?|features?)\b"
    r"|^no (?:\w+ )?[\"'`]?[\w-]+\b(?! (?:is|are|was|were|found|yet)\b)|\bonly\W*$",
    re.IGNORECASE,
)
"""How an item demands something where rules are expected."""
_FILE = re.compile(
    r"(?<![\w*./-])(?=\w*[a-z])[A-Za-z][\w/-]*\.(?:py|[jt]sx?|go|rs|java|rb|dart|swift|kt|toml|json|ya?ml)\b"
)
"""One file of a program."""


def find_memory_rules(title: str, text: str, kind: str) -> list[Rule]:
    """Return the rules that a memory states: those of its items if it is a list, else the one that it is."""
    items = list_items(text)
    if len(items) >= MIN_ITEMS:
        return _rules_of_items(title, items, kind)
    return find_rules_of_memory(text, kind) if len(text) <= MAX_RULE_MEMORY_CHARACTERS else []


def _rules_of_items(title: str, items: Sequence[str], kind: str) -> list[Rule]:
    names_rules = bool(PRACTICES.search(title))
    is_general = names_rules and _is_general(title)
    is_by_kind = kind in KINDS_OF_RULES and not names_rules
    rules = [
        to_rule(text, place)
        for place, item in enumerate(items, 1)
        if (text := _shortened(item)) and _states_rule(text, kind if is_by_kind else "", is_general=is_general)
    ]
    least = 0 if names_rules else MIN_SHARE if is_by_kind else 1
    return rules[:MAX_RULES] if len(rules) >= least * len(items) else []


def _states_rule(text: str, kind: str, *, is_general: bool) -> bool:
    """Return whether an item states a rule; with `is_general`, instructions do."""
    first = next(_sentences(text), "")
    if len(text.split()) < MIN_RULE_WORDS or is_report(first):
        return False
    if find_rules(first) or (kind and not is_excluded(first) and states_policy(first, kind)):
        return True
    if not is_general or patterns.ONCE.search(first) or first.endswith("?") or _FILE.search(text):
        return False
    starts = (first, *(first[found.end() :] for pattern in (CONDITION, LABEL) if (found := pattern.match(first))))
    return bool(DEMAND.search(first)) or any(map(_instructs, starts))


def _instructs(text: str) -> bool:
    is_description = patterns.DESCRIBED.match(text) or patterns.NOUN_LABEL.match(text)
    return bool(INSTRUCTION.match(text)) and not is_description


def _is_general(title: str) -> bool:
    """Return whether a title names rules for all work, and not for a part of the program."""
    words = _TITLE_WORD.findall(re.sub(r"\([^)]*\)", " ", PRACTICES.sub(" ", title)).lower())
    return words != ["best"] and all(word in GENERAL_TITLE for word in words)


def _shortened(item: str) -> str:
    """Return as many sentences of an item as fit; empty if the first does not."""
    kept = ""
    for sentence in _sentences(_EMPHASIS.sub("", item)):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > MAX_ITEM_CHARACTERS:
            break
        kept = longer
    return kept


def _sentences(text: str) -> Iterator[str]:
    return (one for one in patterns.SENTENCE.split(text) if one)


def list_items(text: str) -> list[str]:
    """Return the items of a text that is a list, each with what is indented below it; none if it is more than a list.

    One paragraph may introduce it.
    """
    items: list[list[str]] = []
    indent = 0
    for line in text.split("\n"):
        found = ITEM.match(line)
        if found and not items:
            indent = len(found["indent"])
        if found and len(found["indent"]) <= indent:
            items.append([found["text"]])
        elif items and line.strip() and not line[0].isspace():
            return []
        elif items and line.strip():
            items[-1].append(found["text"] if found else line.strip())
    return [one_line(_joined(lines), 2 * MAX_SENTENCE_CHARACTERS) for lines in items]


def _joined(lines: Sequence[str]) -> str:
    """Return an item in one line; what it enumerates is separated by semicolons."""
    head, *rest = lines
    if head.endswith(":"):
        return f"{head} {'; '.join(line.rstrip(' .;') for line in rest)}".strip()
    return " ".join(lines)
