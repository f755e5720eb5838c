"""Recognition of standing rules: what a person wants to hold for all work from now on.

A rule is an instruction ("use …", "I'd like you to …", "we never …") that is meant in general: it says so ("from now
on", "going forward"), or it speaks of all things of a kind ("always", "every", "conventions") that any code has, such
as names, functions, tests or commits. What is asked for once, what is said about a single part of a program and what
only sounds alike ("it always fails", "never mind") is none.

Only what adds rules uses this: the patterns take longer to compile than a hook may take.
"""

from __future__ import annotations

from ralph.core.markdown import blank_code_blocks
from ralph.core.records import Rule, replace
from ralph.core.text import one_line
from ralph.memory.lifecycle import rule_patterns as patterns
from ralph.memory.lifecycle.supersession import ELEMENT, KINDS_OF_RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

MAX_TEXT_CHARACTERS = 8_000
"""Length above which a text is not searched; longer ones are pasted."""
MAX_SENTENCE_CHARACTERS = 400
MAX_RULE_CHARACTERS = 160
"""Length of a rule as it is shown, in characters; what follows is left out."""
MIN_RULE_WORDS = 3
MAX_RULES = 12
"""Maximum number of rules taken from one text."""
CONTEXT_SENTENCES = 6
"""Number of sentences for which a word such as "conventions" says that rules follow."""
DECISION = "decision"
_NOT_TARGETS = frozenset(("name", "code", "identifier"))
"""Things of all code that do not tell one rule from another."""


def find_rules(text: str) -> list[Rule]:
    """Return the standing rules that a person states in a text, in order."""
    if len(text) > MAX_TEXT_CHARACTERS:
        return []
    rules: list[Rule] = []
    context = 0
    topic = ""
    for place, sentence in enumerate(_sentences(text)):
        is_talk = bool(patterns.STANDING.search(sentence) or patterns.CONVENTION.search(sentence))
        context = CONTEXT_SENTENCES if is_talk else max(0, context - 1)
        if not is_excluded(sentence) and not is_report(sentence):
            is_explicit = _is_explicit(sentence, has_topic=bool(topic))
            if is_explicit or _is_general(sentence, is_context=context > 0):
                clauses = _clauses(sentence, is_explicit=is_explicit, is_context=context > 0)
                rules += (_to_rule(clause, sentence, topic, place) for clause in clauses)
        topic = _targets(sentence) or topic
    return rules[:MAX_RULES]


def find_rules_of_memory(text: str, kind: str) -> list[Rule]:
    """Return the rule that a memory states, if it states one and little else, or one for each of its sentences.

    A convention or a constraint is a rule if it is meant in general, whatever its form; a decision if it says what
    should never or always be. What only describes things is none, unless it is such a kind by what it is.
    """
    sentences = list(_sentences(text))
    if not sentences:
        return []
    found = find_rules(text)
    if kind not in (*KINDS_OF_RULES, DECISION) and not _demands(sentences[0]):
        return []
    if {one.place for one in found} == set(range(len(sentences))) and len(sentences) > 1:
        return [to_rule(one, place) for place, one in enumerate(sentences, 1)]
    if not found and len(sentences[0]) <= MAX_RULE_CHARACTERS and states_policy(sentences[0], kind):
        return [_to_rule(sentences[0].rstrip(" .!"), text, "", 0)]
    return found[:1] if {one.place for one in found} == {0} else []


def states_policy(sentence: str, kind: str) -> bool:
    """Return whether a sentence of a memory of a kind holds in general, whatever its form."""
    if is_report(sentence):
        return False
    if kind in KINDS_OF_RULES:
        return bool(patterns.GENERAL.search(sentence))
    return kind == DECISION and bool(patterns.POLICY.match(sentence)) and not is_excluded(sentence)


def _demands(sentence: str) -> bool:
    """Return whether a sentence demands something, and does not only describe all things of a kind."""
    start = patterns.CONNECTIVE.sub("", sentence)
    is_demand = patterns.OBLIGATION.search(sentence) or patterns.STANDING.search(sentence)
    return bool(is_demand or patterns.WISH.search(sentence) or patterns.IMPERATIVE.match(start))


def to_rule(text: str, place: int) -> Rule:
    """Return one of several rules of a memory; `place` counts from 1."""
    return replace(_to_rule(text.rstrip(" .!"), text, "", place), text=text[:1].upper() + text[1:])


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text, without code and quotations."""
    lines, _ = blank_code_blocks(text.split("\n"))
    prose = "\n".join(line for line in lines if not line.lstrip().startswith((">", "|", "$ ")))
    for part in patterns.SENTENCE.split(prose):
        if sentence := " ".join(part.split()).strip('"“”*-• '):
            yield sentence[:MAX_SENTENCE_CHARACTERS]


# --- what a rule is --------------------------------------------------------------------


def is_excluded(sentence: str) -> bool:
    """Return whether a sentence asks something, or speaks of one case."""
    return bool(sentence.endswith("?") or patterns.ONCE.search(sentence) or patterns.SPECIFIC.search(sentence))


def is_report(sentence: str) -> bool:
    """Return whether a sentence tells what is the case, without a word that demands it."""
    if patterns.OBLIGATION.search(sentence) or patterns.STANDING.search(sentence):
        return False
    bare = patterns.CONNECTIVE.sub("", patterns.VALUE.sub(" ", sentence))
    if patterns.DESCRIBED.match(bare):
        return True
    is_instruction = patterns.IMPERATIVE.match(bare) and bare.split()[0].lower() not in patterns.NOUNS
    return not is_instruction and not patterns.WISH.search(sentence) and bool(patterns.REPORT.search(bare))


def _is_explicit(sentence: str, *, has_topic: bool) -> bool:
    """Return whether a sentence says that it holds from now on, or always."""
    if patterns.STANDING.search(sentence):
        return True
    if patterns.ALWAYS_FIRST.match(patterns.CONNECTIVE.sub("", sentence)):
        return True
    if not patterns.HABIT.search(sentence) and not patterns.ALWAYS.search(sentence):
        return False
    return bool(patterns.ELEMENT.search(sentence)) or (has_topic and bool(patterns.PRONOUN.search(sentence)))


def _is_general(sentence: str, *, is_context: bool) -> bool:
    """Return whether a sentence speaks of all things of a kind."""
    is_general = is_context or bool(patterns.UNIVERSAL.search(sentence)) or _wishes_for_all(sentence)
    return is_general and any(
        patterns.PLURAL.search(found[0]) or patterns.EVERY.search(sentence[: found.start()])
        for found in patterns.ELEMENT.finditer(sentence)
    )


def _wishes_for_all(sentence: str) -> bool:
    """Return whether a sentence wishes something for "your functions", "all names" or the like."""
    return any(patterns.FOR_ALL.match(sentence[found.end() :]) for found in patterns.WISH.finditer(sentence))


# --- instructions in a sentence ----------------------------------------------------------


def _clauses(sentence: str, *, is_explicit: bool, is_context: bool) -> list[str]:
    """Return the instructions in a sentence, each without what precedes it.

    Those that are mostly given once need a word that says otherwise.
    """
    is_lasting = is_explicit or is_context or bool(patterns.AGAIN.search(sentence))
    found = patterns.TOPIC.search(sentence)
    topic = found["topic"] if found and patterns.ELEMENT.search(found["topic"]) else ""
    clauses: list[str] = []
    for part in _instructions(sentence, found[0] if found and topic else ""):
        bare = _trimmed(part)
        if len(bare.split()) < MIN_RULE_WORDS or not _says_something(bare, topic, is_explicit=is_explicit):
            continue
        if is_lasting or bare.split()[0].lower() not in patterns.ONE_OFF:
            clauses += _split(bare)
    if len(clauses) == 1 and patterns.PRONOUN.search(clauses[0]) and not _values(clauses[0]) and _values(sentence):
        clauses = [_trimmed(sentence)]  # "if you do not need the module 'x', import it"
    return [one_line(clause, MAX_RULE_CHARACTERS) for clause in _with_topics(clauses, topic)]


def _says_something(clause: str, topic: str, *, is_explicit: bool) -> bool:
    """Return whether an instruction says what to do, and not only to write good code or to follow some rules."""
    if _values(clause) or _used(clause):
        return True
    if patterns.VAGUE.search(clause):
        return False
    if _elements(clause) - {"code"} or topic:
        return True
    return is_explicit and not patterns.PRONOUN.search(clause)


def _instructions(sentence: str, topic: str) -> Iterator[str]:
    """Yield the parts of a sentence that instruct: what it begins with, and what follows each wish."""
    marks = list(patterns.WISH.finditer(sentence))
    starts = [found.start() for found in marks]
    before = patterns.CONNECTIVE.sub("", sentence[: starts[0]] if starts else sentence)
    before = patterns.CONNECTIVE.sub("", before.replace(topic, "", 1).strip(" ,:"))
    pieces = [patterns.CONNECTIVE.sub("", piece.strip()) for piece in patterns.PIECE.split(before)]
    first = 1 if patterns.NOUN_LABEL.match(before) else 0
    for place, piece in enumerate(pieces[first:], first):
        if patterns.IMPERATIVE.match(piece) or patterns.ALL_MUST.match(piece):
            yield ", ".join(pieces[place:])
            break
    for mark, end in zip(marks, [*starts[1:], len(sentence)], strict=False):
        part = sentence[mark.end() : end]
        if not patterns.FOR_ALL_FIRST.match(part) or patterns.ALL_MUST.match(part):
            yield part


def _with_topics(clauses: Sequence[str], topic: str) -> Iterator[str]:
    """Yield clauses, each with what it is about; "and end them with …" is about what the clause before it is."""
    named = _elements(topic) - _NOT_TARGETS
    for clause in clauses:
        if _has_target(clause) and named <= _elements(clause):
            topic, named = _targets(clause), set()
            yield clause
        else:
            yield f"{topic}: {clause}" if topic else clause


def _trimmed(part: str) -> str:
    """Return an instruction without the words before it, the reasons for it and courtesies."""
    part = patterns.CONNECTIVE.sub("", part.strip(" ,").removeprefix("is "))
    part = patterns.REASON.sub("", part).rstrip(" .!,;:")
    return patterns.AND_END.sub("", patterns.TRAILING.sub("", part).rstrip(" .!,;:"))


def _split(clause: str) -> list[str]:
    """Return the parts of a clause that each state a rule of their own."""
    parts: list[str] = []
    for part in patterns.AND.split(clause):
        has_own_value = bool(_values(part) and parts and _values(parts[-1]))
        has_own_verb = bool(patterns.IMPERATIVE.match(part)) and _has_target(part)
        if parts and not has_own_value and not has_own_verb:
            parts[-1] = f"{parts[-1]} and {part}"
        elif parts and not patterns.VERB_FORM.match(part) and (verb := patterns.VERB_FORM.match(parts[-1])):
            parts.append(f"{verb[0]} {part}")
        else:
            parts.append(part)
    return parts


# --- subject and values ------------------------------------------------------------------


def _to_rule(clause: str, sentence: str, topic: str, place: int) -> Rule:
    if topic and not _has_target(clause) and (patterns.PRONOUN.search(clause) or _values(clause)):
        clause = f"{topic}: {clause}"
    replaced = tuple(dict.fromkeys(found["value"] for found in patterns.REPLACED.finditer(clause)))
    return Rule(
        text=clause[:1].upper() + clause[1:],
        subject=_subject(clause, replaced),
        values=tuple(value for value in _values(clause) or _used(clause) if value not in replaced),
        replaced=replaced,
        is_negative=bool(patterns.NEGATIVE.search(patterns.CONDITION.sub("", patterns.REPLACED.sub("", clause)))),
        is_change=bool(patterns.CHANGE.search(sentence)),
        place=place,
    )


def _values(clause: str) -> tuple[str, ...]:
    """Return names, figures and quoted words in a clause."""
    found = (one["quoted"] or one["plain"] for one in patterns.VALUE.finditer(clause))
    return tuple(dict.fromkeys(value.strip(",.") for value in found if value))


def _used(clause: str) -> tuple[str, ...]:
    """Return what a clause wants to be used, if that is not a thing of all code."""
    return tuple(found["value"] for found in patterns.USED.finditer(clause) if not _elements(found["value"]))


def _subject(clause: str, replaced: Sequence[str]) -> tuple[str, ...]:
    """Return what a rule is about: the things of all code that it names, and its other words."""
    bare = patterns.VALUE.sub(" ", patterns.CONDITION.sub("", clause))
    elements = _elements(bare)
    if patterns.AFFIX.search(bare) and ("name" in elements or _values(clause)):
        return tuple(sorted((f"{ELEMENT}affix", f"{ELEMENT}{_named(bare)}")))
    words = patterns.WORD.findall(patterns.ELEMENT.sub(" ", bare).lower())
    not_subject = {*patterns.NOT_SUBJECT, *(value.lower() for value in (*_used(clause), *replaced))}
    stems = {_stem(word) for word in words if word not in not_subject}
    return (*sorted(f"{ELEMENT}{element}" for element in elements), *sorted(stems))


def _named(clause: str) -> str:
    """Return the thing whose names a clause is about."""
    found = [one for one in patterns.ELEMENT.finditer(clause) if _element(one) not in _NOT_TARGETS]
    kinds = [_element(one) for one in found]
    named = [_element(one) for one in found if patterns.BEFORE_NAMES.match(clause, one.end())]
    return "argument" if "argument" in kinds else (named or kinds or ["name"])[0]


def _targets(text: str) -> str:
    """Return the things that a text states rules for, as it calls them."""
    return " ".join(found[0] for found in patterns.ELEMENT.finditer(text)) if _has_target(text) else ""


def _has_target(text: str) -> bool:
    return not _elements(text) <= _NOT_TARGETS


def _elements(text: str) -> set[str]:
    return {_element(found) for found in patterns.ELEMENT.finditer(text)}


def _element(found: re.Match[str]) -> str:
    return patterns.ELEMENT_NAMES[int(str(found.lastgroup)[1:])]


def _stem(word: str) -> str:
    for suffix in ("ing", "ed", "es", "s"):
        if len(word) > len(suffix) + 3 and word.endswith(suffix):
            return word[: -len(suffix)]
    return word
