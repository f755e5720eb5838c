"""Prompt injection and poisoned memories: what came from outside stands in a prompt as data, or not at all.

Each text is put into every field of all that a prompt is made from. The prompt must have the shape it has with innocent
text: as many headings, sigils, turns and comments, all of ours outside of code blocks, nothing invisible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ralph.core.records import (
    AttemptOutcome,
    Episode,
    EpisodeKind,
    PromptContext,
    Question,
    RecalledEpisode,
    RecalledMemory,
    Speaker,
    record,
    replace,
)
from ralph.core.text import SIGIL_NAMES
from ralph.loop.review import build_review_prompt
from ralph.memory.recall.past_work import render_past_work
from ralph.memory.recall.prime import render_primer
from ralph.memory.recall.render import escape_untrusted
from tests.faults.injection_corpus import MARK, texts
from tests.faults.trial import Shown, Trial
from tests.loop.test_prompt import a_failure, a_task, an_entry, build, everything
from tests.make import a_memory, an_episode

INNOCENT = f"{MARK} An innocent sentence about tabs."
LONG = 1_000
AT = "2026-11-15T10:00:00.000Z"


@record
class Shape:
    """What of a prompt only we may write."""

    headings: int
    lines_under_titles: int
    sigils: int
    signals: int
    turns: int
    swallowed: tuple[str, ...]
    """Our own headings that stand in a code block."""
    hidden: str
    """Characters that cannot be seen."""


OURS = re.compile(
    r"^(?:# How to work here|## (?:Memory|From Past Work|Task|Project Knowledge|Run Journal|Feature: .*|Changed Files"
    r"|What the Session Said)"
    r"|### (?:End-of-Task Journal|Knowledge|Learnings|Spec|Plan|Loop Status|Previous Attempts|Stuck Loop Warning"
    r"|Failures of Other Tasks|Handed Over|Completed Prerequisites))$",
    re.M,
)
_SIGIL = re.compile(rf"(?i)<\s*/?\s*(?:{'|'.join(SIGIL_NAMES)})\b")
_TURN = re.compile(
    r"(?i)<\s*/?\s*(?:\||!--|!\[CDATA|\?|(?:system|user|assistant|instructions|tool_result|function_results|h2)\b)|<<SYS"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def shape(prompt: str) -> Shape:
    """Give the shape of a prompt."""
    visible = outside_of_code(prompt)
    return Shape(
        headings=len(re.findall(r"(?m)^ {0,3}#{1,6}(?:[ \t\xa0]|$)", prompt)),
        lines_under_titles=len(re.findall(r"(?m)^ {0,3}(?:={2,}|-{2,})[ \t]*$", prompt)),
        sigils=len(_SIGIL.findall(prompt)),
        signals=len(re.findall(r"(?i)\bMEMORY\s*:\s*\w+\s*:", prompt)),
        turns=len(_TURN.findall(prompt)),
        swallowed=tuple((Counter(OURS.findall(prompt)) - Counter(OURS.findall(visible))).elements()),
        hidden="".join(sorted(set(_HIDDEN.findall(prompt)))),
    )


def outside_of_code(text: str) -> str:
    """Give the lines that stand in no code block, as a renderer of markdown sees them."""
    kept = []
    fence = ""
    for line in text.split("\n"):
        found = re.match(r"[ >\-*\d.]{0,12}?(`{3,}|~{3,})([^`]*)$", line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found:
            fence = found[1]
        else:
            kept.append(line)
    return "\n".join(kept)


def _memory(**fields: object) -> Callable[[PromptContext, str], PromptContext]:
    def put(known: PromptContext, text: str) -> PromptContext:
        filled = {name: text if value is str else (text,) for name, value in fields.items() if isinstance(value, type)}
        given = {name: value for name, value in fields.items() if not isinstance(value, type)}
        memory = a_memory("Tabs", "They count as eight.", id="mem-1-000f", created_at=AT, updated_at=AT)
        return replace(known, memories=(RecalledMemory(memory=replace(memory, **given, **filled), score=1.0),))

    return put


def _entry(**fields: type) -> Callable[[PromptContext, str], PromptContext]:
    return lambda known, text: replace(known, journal=(an_entry(1, **_filled(fields, text)),))


def _report(**fields: type) -> Callable[[PromptContext, str], PromptContext]:
    return lambda known, text: replace(known, reports=(a_failure(3, **_filled(fields, text)),))


def _past_work(episode: Episode) -> str:
    """Give the section with a passage, between two of our own."""
    section, _, _ = render_past_work([RecalledEpisode(episode=episode, score=1.0)], "", 60_000)
    return f"{section}\n## Task\n"


def _filled(fields: dict[str, type], text: str) -> dict[str, Any]:
    return {name: text if kind is str else (text,) for name, kind in fields.items()}


def _question(text: str, answer: str = "", who: str = "") -> Question:
    at = AT if answer else None
    return Question(task_id="t-00000a", text=text, asked_at=AT, answer=answer, answered_by=who, answered_at=at)


FIELDS: dict[str, Callable[[PromptContext, str], PromptContext]] = {
    "knowledge": _memory(content=str),
    "knowledge tags": _memory(tags=tuple),
    "knowledge origin": _memory(origin_task=str),
    "pattern": _memory(kind="pattern", content=str),
    "learning": _memory(kind="testing_strategy", content=str),
    "doubt": _memory(stale=str),
    "journal notes": _entry(notes=str),
    "journal model": _entry(model=str),
    "journal files": _entry(files=tuple),
    "report tried": _report(tried=str),
    "report why": _report(why=str),
    "report trace": _report(trace=str),
    "report suggestion": _report(retry_suggestion=str),
    "report files": _report(files=tuple),
    "task body": lambda known, text: replace(known, task=replace(known.task, body=text, written_by="agent")),
    "task title": lambda known, text: replace(known, task=replace(known.task, title=text, written_by="import")),
    "prerequisite": lambda known, text: replace(known, prerequisites=((a_task(id="t-00000b"), text),)),
    "spec": lambda known, text: replace(known, feature=replace(known.feature, spec=text, written_by="agent")),
    "plan": lambda known, text: replace(known, feature=replace(known.feature, plan=text, written_by="import")),
    "interruption": lambda known, text: replace(
        known, attempts=(an_entry(2, number=2, notes=text, outcome=AttemptOutcome.INTERRUPTED, reason=text),)
    ),
    "question": lambda known, text: replace(known, questions=(_question(text),)),
    "passed on answer": lambda known, text: replace(known, questions=(_question("Which?", text, "agent"),)),
    "handed over": lambda known, text: replace(known, handovers=(an_entry(2, number=2, notes=text, hat="planner"),)),
    "elsewhere": lambda known, text: replace(known, similar_reports=(a_failure(1, why=text, retry_suggestion=text),)),
}
"""By name: where text from outside stands in what a prompt is made from."""
SHOWN: dict[str, Callable[[str], str]] = {
    "prime": lambda text: render_primer([a_memory("Tabs", text, kind="pattern", created_at=AT, updated_at=AT)]),
    "prime of knowledge": lambda text: render_primer(
        [a_memory("Tabs", text, tags=(text,), created_at=AT, updated_at=AT)]
    ),
    "review": lambda text: build_review_prompt(
        a_task(body=text, written_by="agent"), everything().feature, ("a.py", text), text
    ),
    "past session": lambda text: _past_work(an_episode(text, speaker=Speaker.TOOL, agent=text, branch=text)),
    "past commit": lambda text: _past_work(
        an_episode(text, kind=EpisodeKind.COMMIT, agent=text, files=(text, "a.py"), links=(f"reverts:{text}",))
    ),
    "tool": escape_untrusted,
}
"""By name: what else agents are told."""
OF_A_PERSON: dict[str, Callable[[str], str]] = {
    "a person's task": lambda text: build(replace(everything(), task=a_task(body=text)), 60_000).text,
    "a person's spec": lambda text: (
        build(replace(everything(), feature=replace(everything().feature, spec=text)), 60_000).text
    ),
    "a person's answer": lambda text: (
        build(replace(everything(), questions=(_question("Which?", text, "person"),)), 60_000).text
    ),
    "review of a person's task": lambda text: build_review_prompt(a_task(body=text), None, ("a.py",), ""),
}
"""By name: where a person's words stand, unchanged between tags."""
WITH_ATTRIBUTION = {"knowledge": r"_Learned 2026-11-15", "pattern": r"_\(2026-11-15", "learning": r"_\(2026-11-15"}


def failures(text: str) -> list[str]:
    """Give the places where a text is more than data, each with the reason."""
    found = []
    for name, put in FIELDS.items():
        given = _prompt(put, text)
        if MARK not in given:
            continue  # there was no room for it
        why = differences(_usual(name), shape(given), is_long=len(text) > LONG)
        if why:
            found.append(f"{name}: {why}")
        elif name in WITH_ATTRIBUTION and not re.search(WITH_ATTRIBUTION[name], given[given.find(MARK) :]):
            found.append(f"{name}: not attributed")
    for name, tell in SHOWN.items():
        if why := differences(_usual(name), shape(tell(text))):
            found.append(f"{name}: {why}")
    words = text[:LONG]
    return [*found, *(name for name, tell in OF_A_PERSON.items() if not _is_contained(words, tell(words)))]


def _is_contained(words: str, prompt: str) -> bool:
    """Say whether words stand unchanged between two tags that they do not hold, and change nothing around them."""
    for tag in re.findall(r"(?m)^<((?:description|spec|answer)(?:-\w+)?)>$", prompt):
        before, _, rest = prompt.partition(f"<{tag}>\n")
        inside, _, after = rest.partition(f"\n</{tag}>\n")
        if inside == words:
            return tag not in words and INNOCENT not in before + after and MARK not in before + after
    return False


@cache
def _usual(name: str) -> Shape:
    """Give the shape with innocent text in a place."""
    return shape(SHOWN[name](INNOCENT) if name in SHOWN else _prompt(FIELDS[name], INNOCENT))


def _prompt(put: Callable[[PromptContext, str], PromptContext], text: str) -> str:
    return build(put(everything(), text), 60_000).text


def differences(usual: Shape, given: Shape, is_long: bool = False) -> str:
    """Say in what two shapes differ; nothing when they do not. A long text may leave no room for other entries."""
    if is_long and given.headings < usual.headings:
        given = replace(given, headings=usual.headings)
    names = ("headings", "lines_under_titles", "sigils", "signals", "turns", "swallowed", "hidden")
    told = [f"{name} {getattr(usual, name)} -> {getattr(given, name)}" for name in names]
    return "; ".join(one for one, name in zip(told, names, strict=True) if getattr(usual, name) != getattr(given, name))


def run(folder: Path, size: int, seed: int) -> Shown:
    """Put so many texts into every field, and count the places where one is more than data."""
    lost = sum(len(failures(text)) for text in texts(size, seed))
    places = len(FIELDS) + len(SHOWN) + len(OF_A_PERSON)
    return Shown(
        load=f"{size:,} texts in {places} places of prompts and answers",
        tried=size * places,
        lost=lost,
    )


TRIALS = (
    Trial(
        name="injection", test="prompt injection, poisoned memories", allowed="0 taken for ours", size=1_000, run=run
    ),
)
