"""Which of several statements about the same thing holds: the newest one, as far as they can be ordered.

Two rules are about the same if they name the same things of all code and share most of their other words. Of two that
are, the later one changes the earlier one if it has another value ("start names with 'x_'", "… 'y_'") or says the
opposite. Prompts are built with this, so nothing here is slow to load; `rules` reads sentences.
"""

from __future__ import annotations

import json

from ralph.core.records import MemorySource, Rule, StandingRule, StatedRule, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.core.records import Memory

MIN_COMMON_SUBJECT = 2
"""Number of subject words from which on another value changes a rule, even if nothing says so."""
MIN_COMMON_WORDS = 0.5
"""Share of the words of the shorter subject that two rules about the same thing have in common."""
ELEMENT = "+"
"""Mark of a thing that all code has, among the words of a subject."""
AFFIX = f"{ELEMENT}affix"
"""Subject of rules about what names start or end with: they have one such mark, wherever it is."""

SAME, REFINEMENT, CHANGE, UNRELATED = "same", "refinement", "change", "unrelated"
"""What a later rule is to an earlier one."""

RULE_KINDS = ("convention", "constraint", "decision", "pattern", "context")
"""Kinds of memories that may state a rule."""
KINDS_OF_RULES = ("convention", "constraint")
"""Kinds of memories that are rules by what they are."""
MAX_RULE_MEMORY_CHARACTERS = 400
"""Length above which a memory is more than a rule, in characters."""
MAX_RULE_LIST_CHARACTERS = 4_000
"""Length above which a list is not searched for rules, in characters."""
_LIST_MARKS = ("- ", "* ", "+ ", "• ", "1. ", "1) ")

_AFFIX_WORDS = frozenset(
    "start begin prefix prepend end suffix append finish conclud name identifi mark follow letter underscor code new"
    " use write ensur make give includ should python variabl".split()
)
"""Stems of words about marks of names that do not tell which names are meant."""
_GENERAL_CUES = (
    *("always", "never", "must", "every", "each", "all ", "any ", "from now", "forward", "future", "henceforth"),
    *("convention", "standard", "guideline", "practice", "style", "rule", "habit", "names", "your ", "our "),
    *("whenever", "start", "stop", "even if", "prefix", "suffix", "consistent", "only", "no ", "not ", "n't", "avoid"),
)
"""Parts of words without which nothing is meant in general."""


def may_state_rules(text: str) -> bool:
    """Return whether a text may state rules; reading them takes long to load."""
    lowered = text.lower()
    return any(cue in lowered for cue in _GENERAL_CUES)


def rule_of_memory(memory: Memory) -> str:
    """Return the rules that a memory states, as JSON; empty if it states none.

    It is one rule if that has the place 0, else one for each item or sentence with a place from 1 on.
    """
    text = memory.content
    if memory.structured_content or memory.kind not in RULE_KINDS or not may_state_rules(f"{memory.title}\n{text}"):
        return ""
    may_be_list = any(f"\n{mark}" in f"\n{text}" for mark in _LIST_MARKS)
    if len(text) > (MAX_RULE_LIST_CHARACTERS if may_be_list else MAX_RULE_MEMORY_CHARACTERS):
        return ""
    from ralph.memory.lifecycle.rule_lists import find_memory_rules

    return encode_rules(find_memory_rules(memory.title, text, memory.kind))


def encode_rules(rules: Sequence[Rule]) -> str:
    """Return rules as JSON; empty if there are none."""
    rows = [
        [one.text, one.subject, one.values, one.replaced, int(one.is_negative), int(one.is_change), one.place]
        for one in rules
    ]
    return json.dumps(rows, ensure_ascii=False) if rows else ""


def decode_rules(stored: str) -> list[Rule]:
    """Return rules from JSON; none if it is damaged."""
    try:
        return [
            Rule(
                text=str(text),
                subject=tuple(subject),
                values=tuple(values),
                replaced=tuple(replaced),
                is_negative=bool(is_negative),
                is_change=bool(is_change),
                place=int(place),
            )
            for text, subject, values, replaced, is_negative, is_change, place in json.loads(stored or "[]")
        ]
    except (ValueError, TypeError):
        return []


def states_any(sentence: str, rules: Sequence[Rule]) -> bool:
    """Return whether a sentence states one of the rules that were found in its text, or repeats it."""
    lowered = sentence.lower()
    return any(
        all(value in sentence for value in rule.values)
        if rule.values
        else rule.text.rpartition(": ")[2].lower() in lowered
        for rule in rules
    )


def compare_rules(earlier: Rule, later: Rule) -> str:
    """Return what a rule is to one that was stated before it."""
    relation = _compare_values(earlier, later)
    return UNRELATED if relation == CHANGE and not later.replaced and _is_apart(earlier, later) else relation


def _compare_values(earlier: Rule, later: Rule) -> str:
    ours, theirs = set(earlier.values), set(later.values)
    if ours & set(later.replaced) and not theirs & ours:
        return CHANGE
    if not _have_same_subject(earlier, later):
        from ralph.memory.lifecycle.frames import is_change

        return CHANGE if is_change(later.text, earlier.text) else UNRELATED  # "use tabs", "use spaces"
    if earlier.is_negative != later.is_negative:
        return CHANGE if ours & theirs or not (ours and theirs) else UNRELATED
    if ours == theirs:
        return SAME
    if ours <= theirs or theirs <= ours:
        return REFINEMENT
    if later.is_negative:
        return UNRELATED  # what must not be done adds up
    # "Use pytest in tests" and "use factories in tests" both hold, unless the later one says otherwise.
    is_telling = AFFIX in later.subject or len(set(earlier.subject) & set(later.subject)) >= MIN_COMMON_SUBJECT
    is_telling |= _are_figures(earlier, later) and set(earlier.subject) == set(later.subject)
    return CHANGE if is_telling or later.is_change else UNRELATED


def _is_apart(earlier: Rule, later: Rule) -> bool:
    """Return whether the words of two rules show that both hold: one is an exception, or about something else."""
    from ralph.memory.lifecycle.frames import are_apart

    if AFFIX in earlier.subject and AFFIX in later.subject:
        ours, theirs = _qualifiers(earlier), _qualifiers(later)
        return bool(ours and theirs) and not (ours <= theirs or theirs <= ours)
    return are_apart(later.text, earlier.text)


def _qualifiers(rule: Rule) -> set[str]:
    """Return the words that tell for which names a rule about a mark of names holds."""
    from ralph.memory.lifecycle.frames import subject_words

    text = rule.text
    for value in (*rule.values, *rule.replaced):
        text = text.replace(value, " ")
    return subject_words(text) - _AFFIX_WORDS


def _have_same_subject(one: Rule, other: Rule) -> bool:
    if not one.subject or _elements(one) != _elements(other):
        return False
    if AFFIX in one.subject:
        return True
    ours, theirs = _words(one), _words(other)
    fewer = min(len(ours), len(theirs))
    if not fewer:
        return ours == theirs or bool(one.values and other.values)
    return len(ours & theirs) >= MIN_COMMON_WORDS * fewer


def _elements(rule: Rule) -> tuple[str, ...]:
    return tuple(word for word in rule.subject if word.startswith(ELEMENT))


def _words(rule: Rule) -> set[str]:
    return {word for word in rule.subject if not word.startswith(ELEMENT)}


def is_certain_change(earlier: Rule, later: Rule) -> bool:
    """Return whether a rule that changes another one cannot stand beside it, as "import 'x'" and "import 'y'" could."""
    is_opposite = earlier.is_negative != later.is_negative
    is_different = is_opposite or _are_figures(earlier, later)
    return AFFIX in later.subject or later.is_change or bool(later.replaced) or is_different


def _are_figures(one: Rule, other: Rule) -> bool:
    return all(value[:1].isdigit() for value in (*one.values, *other.values))


def changes_rule(earlier: tuple[Memory, str], later: tuple[Memory, str], *, is_certain: bool = False) -> bool:
    """Return whether a memory with a rule changes another one; both are given with their rules as JSON.

    With `is_certain`, they cannot stand beside each other.
    """
    (one, ours), (other, theirs) = earlier, later
    if one.id == other.id or one.feature != other.feature:
        return False
    own, others = files_of_rules(one, ours), files_of_rules(other, theirs)
    if (own or others) and not set(own) & set(others):
        return False
    return any(True for _ in rule_changes(ours, theirs, is_certain=is_certain))


def rule_changes(earlier: str, later: str, *, is_certain: bool = False) -> Iterator[tuple[Rule, Rule]]:
    """Yield the rules of two memories, given as JSON, of which the later one changes the earlier one.

    With `is_certain`, nothing of an earlier memory with several rules: the others still hold.
    """
    ours, theirs = decode_rules(earlier), decode_rules(later)
    if is_certain and len(ours) > 1:
        return
    for one in ours:
        for other in theirs:
            if compare_rules(one, other) == CHANGE and (not is_certain or is_certain_change(one, other)):
                yield one, other


def files_of_rules(memory: Memory, stored: str) -> tuple[str, ...]:
    """Return the files that the rules of a memory are about; none if items of a list only mention them."""
    files = tuple(memory.files)
    is_list = bool(files) and any(rule.place for rule in decode_rules(stored))
    return () if is_list and all(name in memory.content for name in files) else files


def stated_at(memory: Memory) -> str:
    """Return when a memory was stated, or confirmed since; an import says nothing about when."""
    if memory.source == MemorySource.IMPORTED:
        return max(memory.created_at, memory.updated_at)
    return memory.verified_at or memory.created_at


def concern_same_files(one: Memory, other: Memory) -> bool:
    """Return whether two memories have a file in common, or neither names any."""
    return bool(set(one.files) & set(other.files)) or not (one.files or other.files)


def current_rules(stated: Iterable[StatedRule]) -> list[StandingRule]:
    """Return rules in their newest form, first those of people, then those that are confirmed and trusted most."""
    groups: dict[tuple[str, ...], list[StandingRule]] = {}
    for one in sorted(stated, key=_time):
        group = _elements(one.rule)
        groups[group] = _with_later(groups.get(group, []), one)
    return sorted((rule for rules in groups.values() for rule in rules), key=_order)


def _with_later(rules: Sequence[StandingRule], one: StatedRule) -> list[StandingRule]:
    """Return rules as they are after another one is stated."""
    later = StandingRule(stated=one, sources=(_origin(one),))
    kept: list[StandingRule] = []
    for rule in rules:
        is_other_item = one.is_memory and rule.stated.id == one.id  # rules of one memory all hold
        relation = UNRELATED if is_other_item else compare_rules(rule.stated.rule, one.rule)
        is_bold = one.is_by_agent and not rule.stated.is_by_agent  # an agent changes nothing that a person said
        is_apart = _said_together(rule.stated, one) if relation == CHANGE else is_bold and relation == REFINEMENT
        if relation == UNRELATED or is_apart:
            kept.append(rule)
        elif relation == CHANGE and ((rule.stated.is_memory and one.is_memory) or is_bold):
            # What is still active although they differ is for a person to decide.
            kept.append(replace(rule, conflicts=(*rule.conflicts, one)))
            later = replace(later, conflicts=(*later.conflicts, rule.stated))
        elif relation == CHANGE:
            held, past = (rule, later) if rule.stated.is_pinned else (later, rule)
            held = replace(held, superseded=(past.stated, *past.superseded, *held.superseded))
            if held is not later and rule.stated.is_pinned:
                return [*(other for other in rules if other is not rule), held]
            later = held
        else:
            later = _merged(rule, later)
    return [*kept, later]


def _merged(earlier: StandingRule, later: StandingRule) -> StandingRule:
    """Return what two statements of the same rule amount to; a memory stands for it, or else the later statement."""
    first, second = earlier.stated, later.stated
    stated = first if _weight(first) > _weight(second) else second
    return replace(
        later,
        stated=replace(stated, at=second.at, trust=max(first.trust, second.trust)),
        sources=tuple(dict.fromkeys((*later.sources, *earlier.sources))),
        superseded=(*later.superseded, *earlier.superseded),
        conflicts=(*later.conflicts, *earlier.conflicts),
    )


def _weight(stated: StatedRule) -> tuple[bool, bool, bool]:
    return not stated.is_by_agent, stated.is_memory, stated.is_pinned


def _said_together(one: StatedRule, other: StatedRule) -> bool:
    """Return whether two rules were stated in the same breath, so that both hold."""
    return one.id == other.id and (one.rule.place == other.rule.place or not other.rule.is_change)


def _origin(stated: StatedRule) -> str:
    return stated.source or stated.id


def _time(stated: StatedRule) -> tuple[str, int, int]:
    return stated.at, stated.position, stated.rule.place


def _order(rule: StandingRule) -> tuple[bool, bool, int, float, str, str, int]:
    stated, place = rule.stated, rule.stated.rule.place
    listed = (stated.id, place) if stated.is_memory and place else ("", 0)  # in the order of their list
    return not stated.is_pinned, stated.is_by_agent, -len(rule.sources), -stated.trust, stated.at, *listed
