"""Reader of the progress log of a loop: `progress.txt`, `progress.md`.

A log starts with patterns, one bullet each. Then every iteration has an entry. Its record of the work and the changed
files is ignored; only its learnings become memories.
"""

from __future__ import annotations

import re

from ralph.core.markdown import NESTING_COLUMNS
from ralph.core.text import sanitize
from ralph.formats.guardrails_md import add_signs, sign_name
from ralph.formats.markdown_sections import item_text, parse_items, parse_sections
from ralph.formats.notes_md import MemoryCollector, find_date, heading_tags, is_placeholder, kind_from_headings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading
    from ralph.formats.markdown_sections import NotesItem, NotesSection

MAX_LABEL_CHARS = 80
"""Maximum length of a label, in characters."""
MIN_PARAGRAPH_CHARS = 20
"""Minimum length of a paragraph among the patterns, in characters; shorter ones introduce or separate them."""

_TOPIC = re.compile(
    r"\b(?:patterns?|gotchas?|pitfalls?|caveats?|conventions?|decisions?|learnings?|lessons?|architecture|stack"
    r"|constraints?|known issues?)\b",
    re.IGNORECASE,
)
"""Words in headings of sections, outside entries, whose bullets are worth remembering."""
_NUMBERED = re.compile(r"(?:iteration|session|story|task|loop|run|sprint)\b[ \t#:.-]*\d", re.IGNORECASE)
_DATED = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ][\d:.]+)?(?:Z|[ \t]?[+-]\d\d:?\d\d)?")
_STORY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,14}-\d{1,6}[a-z]?(?![\w-])")
_ZONE = re.compile(r"[A-Z]{2,5}(?=[ \t]+[-–—|])")
_LEARNED = re.compile(
    r"(?:(?:key|main|new|important)[ \t]+)?(?:learnings?|lessons?|gotchas?|insights?|patterns?|useful context"
    r"|what .{0,20}next (?:iteration|session|agent)|(?:notes|context|tips) for .{0,20}(?:next|future))"
    r"(?:[ \t]+(?:learned|discovered|encountered|established|found|noted|for|from|and|should)\b.{0,60})?",
    re.IGNORECASE,
)
_JOURNAL_LABEL = re.compile(r"(?:files|what was|verification|commit|next|status)\b[^:]{0,40}:", re.IGNORECASE)
_TEMPLATE_LABEL = re.compile(
    r"(?:patterns? (?:discovered|established|found)|gotchas? (?:encountered|found)|useful context|patterns|gotchas"
    r"|learnings)[ \t]*(?:\(e\.g\.|:|$)",
    re.IGNORECASE,
)
"""Labels from the usual prompt for such logs, which agents copy in front of their answers."""


def is_progress_txt(sample: FileSample) -> bool:
    """Return whether a file is the progress log of a loop: patterns, and an entry for each iteration."""
    with_heading = sample.sections[1:]
    title = with_heading[0].heading.lower() if with_heading and with_heading[0].level == 1 else ""
    has_patterns = any("codebase pattern" in section.heading.lower() for section in with_heading)
    entry: NotesSection | None = None
    has_entries = has_learned = False
    for section in with_heading[1:] if title else with_heading:
        if is_iteration_heading(section.heading):
            entry = section
        elif entry and section.level <= entry.level:
            entry = None
        has_entries |= entry is not None
        has_learned |= entry is not None and announces_learnings(section)
    is_named = "progress" in title + sample.name.lower()
    if "progress log" in title or (is_named and (has_entries or has_patterns)):
        return True
    return (has_entries and (has_patterns or has_learned)) or (has_patterns and len(with_heading) == 1)


def read_progress_txt(text: str, at: str) -> Reading:
    """Return the patterns and learnings of a progress log, and the problems."""
    text = sanitize(text)
    collector = MemoryCollector(at)
    topic: NotesSection | None = None
    entry: NotesSection | None = None
    entry_date = ""
    sections = parse_sections(text)
    work: list[NotesSection] = []
    """Sections of entries."""
    for section in sections:
        if topic and section.level <= topic.level:
            topic = None
        if entry and section.level <= entry.level:
            entry = None
        # A dated heading inside a topic is a group of its bullets, unless it announces learnings.
        if (
            is_iteration_heading(section.heading)
            and section.level != 1
            and (topic is None or announces_learnings(section))
        ):
            topic, entry = None, section
            entry_date = find_date(section.heading) or _find_date(section)
        elif entry is None and topic is None and _is_topic(section):
            topic = section
        if topic and sign_name(section.heading) is None:
            for line, learned in _bullets(parse_items(section.rows), collector):
                collector.add(
                    line,
                    kind="pattern" if "pattern" in topic.heading.lower() else kind_from_headings([topic.heading]),
                    content=learned,
                    tags=heading_tags([section.heading]) if section is not topic else (),
                    created_at=find_date(section.heading),
                )
        if topic:
            continue
        if entry:
            work.append(section)
        items = parse_items(section.rows)
        is_learned = entry is not None and section is not entry and _announces_learnings(section.heading)
        for line, learned in _bullets(items, collector) if is_learned else _learnings(items, collector):
            tags = (story.lower(),) if entry and (story := story_id(entry.heading)) else ()
            collector.add(line, kind="context", content=learned, tags=tags, created_at=entry_date if entry else "")
    add_signs(text, collector)
    _pass_over_work(work, collector)
    introductions = 2 if len(sections) > 1 and sections[1].level == 1 else 1
    collector.skip_rest(sections[introductions:], "it has neither patterns nor learnings")
    return collector.result("Nothing to import: no pattern or learning found.")


def _pass_over_work(sections: list[NotesSection], collector: MemoryCollector) -> None:
    """Name the record of the work once for the whole log: it says what was done, not what was learned."""
    if entries := [section for section in sections if is_iteration_heading(section.heading)]:
        why = f"records of work ({len(entries):,} in this file) are not imported, only what was learned"
        collector.skip(entries[0].line, entries[0].heading, why, is_remark=True)
    collector.pass_over(section.line for section in sections)


def is_iteration_heading(heading: str) -> bool:
    """Return whether a heading starts like that of an iteration: with a date, a number or a story id."""
    words = heading.lstrip("[( ")
    return bool(_DATED.match(words) or _NUMBERED.match(words) or _STORY.match(words))


def story_id(heading: str) -> str:
    """Return the story id in the heading of an entry, or an empty string."""
    words = _DATED.sub("", heading.lstrip("[( "), count=1)
    if numbered := _NUMBERED.match(words):
        words = words[numbered.end() :].lstrip("0123456789")
    words = words.lstrip(" \t-–—:|[]().")
    if zone := _ZONE.match(words):
        words = words[zone.end() :].lstrip(" \t-–—:|[]().")
    found = _STORY.match(words)
    return found[0] if found else ""


def announces_learnings(section: NotesSection) -> bool:
    """Return whether a section of an entry announces learnings."""
    if section.level > 2 and _announces_learnings(section.heading):
        return True
    return any(not item.is_rule and _split_label(item.text()) is not None for item in parse_items(section.rows))


def _is_topic(section: NotesSection) -> bool:
    # A first-level heading is the title of the document, which may mention learnings, too.
    is_named = section.level > 1 or "codebase pattern" in section.heading.lower()
    return is_named and bool(_TOPIC.search(section.heading))


def _announces_learnings(label: str) -> bool:
    return bool(_LEARNED.fullmatch(label.strip("*_: \t")))


def _find_date(entry: NotesSection) -> str:
    """Return the date on a separate line of an entry: `**Date**: 2026-01-27`, `*2026-01-27T10:00:00Z (94s)*`."""
    for _, row, _ in entry.rows[:10]:
        words = row.strip().lstrip("*_-> \t")
        if words[:4].lower() == "date" or _DATED.match(words):
            return find_date(words)
    return ""


def _learnings(items: Iterable[NotesItem], collector: MemoryCollector) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of what follows a label that announces learnings."""
    label: NotesItem | None = None
    found: list[NotesItem] = []
    for item in items:
        split = None if item.is_rule else _split_label(item.text())
        is_below = label is not None and item.indent > label.indent and not item.is_rule
        if label and not is_below:
            # Some logs do not indent the bullets below a label.
            is_beside = (
                not item.is_rule
                and split is None
                and not _starts_other_part(item)
                and (item.is_bullet or not label.is_bullet)
            )
            is_below = is_beside and not (found and found[0].indent > label.indent)
        if label and is_below:
            found.append(item)
            continue
        yield from _bullets(found, collector)
        label, found = None, []
        if split is not None:
            label = item
            if not is_placeholder(split):
                yield item.line, split
    yield from _bullets(found, collector)


def _split_label(text: str) -> str | None:
    """Return the text after a label that announces learnings, or None if there is no such label."""
    first, _, more = text.partition("\n")
    label, colon, rest = first[: MAX_LABEL_CHARS * 2].partition(":")
    if not colon or len(label) > MAX_LABEL_CHARS or not _announces_learnings(label):
        return None
    rest = rest if len(first) <= MAX_LABEL_CHARS * 2 else first.partition(":")[2]
    return f"{rest.strip().removeprefix('**').removeprefix('__').strip()}\n{more}".strip()


def _starts_other_part(item: NotesItem) -> bool:
    """Return whether an item starts another part of an entry: `**Files changed:**`, `Files changed: …`."""
    first = item.text().partition("\n")[0][: MAX_LABEL_CHARS * 2]
    is_bold = first.startswith("**") and (":**" in first or first.endswith("**:"))
    return is_bold or bool(_JOURNAL_LABEL.match(first)) or (not item.is_bullet and first.endswith(":"))


def _bullets(items: Iterable[NotesItem], collector: MemoryCollector) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of every top-level bullet, and of paragraphs that are sentences; name the rest."""
    for group in _groups(items):
        head = group[0].text()
        is_template = bool(_TEMPLATE_LABEL.match(head.lstrip("*_")))
        if is_template and len(group) > 1 and not head.partition(":")[2].strip("*_ \t"):
            for nested in _groups(group[1:]):
                if not is_placeholder(learned := item_text(nested)):
                    yield nested[0].line, learned
            continue
        learned = item_text(group)
        if is_template:
            learned = learned.partition(":")[2].removeprefix("**").strip() if "(e.g." not in head[:40] else ""
        if is_placeholder(learned) or (not group[0].is_bullet and learned.endswith(":")):
            collector.pass_over([group[0].line])
        elif not group[0].is_bullet and len(learned) < MIN_PARAGRAPH_CHARS:
            collector.skip(group[0].line, head, "it is too short to be a sentence")
        else:
            yield group[0].line, learned


def _groups(items: Iterable[NotesItem]) -> Iterator[list[NotesItem]]:
    """Yield every item with the bullets nested in it."""
    group: list[NotesItem] = []
    for item in items:
        if item.is_rule:
            continue
        if group and not (item.is_bullet and item.indent >= group[0].indent + NESTING_COLUMNS):
            yield group
            group = []
        group.append(item)
    if group:
        yield group
