"""The sentences of what an agent or a person wrote in Markdown."""

from __future__ import annotations

import re

from ralph.core.text import SIGIL_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"<!--[^<>]{0,500}-->")
_HEADING = re.compile(r"#{1,6}\s|[=-]{3,}$|\|")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s+")
_CHECKBOX = re.compile(r"\[[ xX-]\]\s")
_IGNORED_SECTION = re.compile(
    r"\b(?:next steps?|steps|to-?do|tasks?|questions?|what works|strengths|positives?|praise|done|changes made"
    r"|summary of changes|checklist|verification|hand-?over|commands? run)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(`*]?[A-Za-z0-9`_/])")
"""Where a sentence may end; the next one can begin with a name in lower case: "pnpm 9 is required"."""
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "incl.", "no.")
_OUTPUT = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|File \"[^\"]+\", line \d|at \S.*:\d+\)?$|--> \S+:\d|\d* *\| |E {2,}\S"
    r"|thread '[^']+' (?:\(\d+\) )?panicked|goroutine \d+ \[|panic: |caused by: |[$%] \S|>>> |//"
    r"|[\w.]*[a-z](?:Error|Exception): |error(?:\[\w+\]| \w+\d+)?: |\S+:\d+(?::\d+)?: |\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d)"
)
"""Lines that a program printed, or of code: stack traces, errors, logs, prompts of a shell, comments."""
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
_SIGIL = re.compile(rf"<\s*+(/?+)\s*+({'|'.join(SIGIL_NAMES)})\b(?>(?:[^<>]*+(?<=/)(>))?)", re.IGNORECASE)
_INTRODUCTION = re.compile(
    r"(?:(?:i|we) (?:also )?(?:found|noticed|learned|discovered|confirmed|see|saw)(?: out)?(?: that)?:?"
    r"|one (?:more )?(?:thing|note|caveat|detail)(?: (?:to|worth) (?:know|note|remember|noting|knowing))?:"
    r"|it turns out(?: that)?|turns out(?: that)?|(?:please )?note(?: that)?:?|important:|findings?:|fyi:?|remember:"
    r"|(?:lessons?|learnings?|gotchas?|patterns|conventions)(?: learned| discovered| encountered| found)?:"
    r"|as (?:\w+ ){0,3}(?:noted|stated|mentioned|recorded|remembered|described|known)(?: \w+){0,4}[:,]"
    r"|(?:as )?(?:per|according to|following) (?:\w+ ){0,2}(?:memor(?:y|ies)|knowledge|notes?|rules?)(?: \w+){0,3}[:,]"
    r"|(?:\w+ ){0,2}(?:memory|knowledge|notes?) (?:also )?(?:says?|states?|said)(?: that)?[:,]?"
    r"|also,|however,)\s+",
    re.IGNORECASE,
)
"""Introductions that precede a finding."""


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of paragraphs and bullets, skipping headings, tables, code and sigils."""
    for block in _blocks(text):
        start = 0
        for end in _SENTENCE_END.finditer(block):
            if not block[max(start, end.start() - 10) : end.start()].lower().endswith(_ABBREVIATIONS):
                yield block[start : end.start()].strip()
                start = end.end()
        yield block[start:].strip()


def _blocks(text: str) -> Iterator[str]:
    """Yield each paragraph and bullet as one line."""
    lines: list[str] = []
    is_relevant = True
    for line in _prose(text):
        bare = line.strip()
        heading = _is_heading(bare)
        bullet = _BULLET.match(bare)
        if lines and (not bare or heading or bullet):
            yield " ".join(lines)
            lines = []
        if heading:
            is_relevant = not _IGNORED_SECTION.search(bare)
        elif bare and is_relevant:
            content = bare[bullet.end() :] if bullet else bare.lstrip("> ")
            if not _CHECKBOX.match(content):
                lines.append(content.replace("**", ""))
    if lines:
        yield " ".join(lines)


def _is_heading(line: str) -> bool:
    is_bold = line.startswith("**") and line.rstrip(":").endswith("**") and line.count("**") == 2
    return bool(_HEADING.match(line)) or is_bold or (line.endswith(":") and len(line) < 60 and not _BULLET.match(line))


def _prose(text: str) -> Iterator[str]:
    """Yield the lines outside code blocks, output and sigils; others are replaced by an empty line."""
    fence, sigil, is_output = "", "", False
    for line in _COMMENT.sub("", text).splitlines():
        bare = line.lstrip()
        if bare.startswith(("```", "~~~")):
            fence = "" if fence and bare.startswith(fence) else fence or bare[:3]
            yield ""
            continue
        tags = _SIGIL.findall(line)
        was_inside = bool(sigil)
        for closing, spelled, closes_itself in tags:
            name = spelled.lower().replace("-", "")
            if closing and name == sigil:
                sigil = ""
            elif not closing and not sigil and not closes_itself:
                sigil = name
        # Lines that are indented below output belong to it: the code of a stack trace, what an error quotes.
        is_output = bool(_OUTPUT.match(line) or (is_output and _INDENTED.match(line)))
        yield "" if fence or was_inside or tags or is_output else line


def without_introduction(sentence: str) -> str:
    """Return a sentence without its introductory phrase."""
    introduction = _INTRODUCTION.match(sentence)
    text = sentence[introduction.end() :] if introduction else sentence
    return text[:1].upper() + text[1:] if introduction and text[1:2].islower() else text
