"""Parser for the sigils in an agent's answer.

Parsing is tolerant: text that is not a sigil is ignored, and a malformed sigil is
skipped with a line in `problems`, because an answer must never crash the loop.
It is strict about quotations only: a quoted sigil is ignored, since a false "done"
costs more than a missed one and the prompt asks for sigils on their own lines.

Every step runs in linear time. New regular expressions must not backtrack: use
possessive quantifiers and atomic groups, and no lazy ones.
"""

from __future__ import annotations

import re

from ralph.core.config import HATS
from ralph.core.memory_types import SIGNAL_TYPES
from ralph.core.records import (
    Difficulty,
    FailureReportSigil,
    HandoverSigil,
    KnowledgeSigil,
    LearningSigil,
    MemorySignal,
    Sigils,
    SubtaskSigil,
    replace,
)
from ralph.core.text import (
    MAX_STACK_TRACE_CHARACTERS,
    SIGIL_NAMES,
    clean,
    extract_title,
    one_line,
    sanitize,
    truncate,
    truncate_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

KNOWLEDGE_WORDS = 500
"""Maximum length of a knowledge entry, in words."""
MAX_NOTES_CHARACTERS = 20_000
"""Maximum length of a journal, a retry suggestion, a hand-over or a reason, in characters."""
MAX_KNOWLEDGE_CHARACTERS = 8_000
"""Maximum length of a knowledge entry, in characters."""
MAX_FIELD_CHARACTERS = 4_000
"""Maximum length of a learning, a MEMORY line, a subtask or a field of a failure report, in characters."""
MAX_TITLE = 200
MAX_ID = 64
MAX_TAG = 64
MAX_TAGS = 20
MAX_FILES = 50
MAX_PATH = 300
MAX_ITEMS = 100
"""Maximum number of learnings, knowledge entries, reports, MEMORY lines and task ids, each."""
MAX_SUBTASKS = 12
"""Maximum number of subtasks of one task."""
MAX_PROBLEMS = 50
MAX_MARKS = 50_000
"""Maximum number of sigils, code fences and MEMORY lines read from one answer."""
MAX_SEARCHED_MARKS = 50
"""Number of sigils up to which each is searched for in the prompt."""
MAX_TAG_CHARACTERS = 2_000
"""Maximum length of a tag's attributes, in characters."""
MAX_OPEN_TAGS = 1_000
"""Maximum number of open tags with the same name."""
MAX_NESTING = 8
"""Maximum nesting depth of sigils with the same name."""
MAX_FENCE_LENGTH = 9
"""Maximum length of a code fence, in characters; longer ones count as this long."""
LINE_LOOKAHEAD = 200
"""Number of characters inspected to classify a line."""
SECRET_LOOKAHEAD = 1_000
"""Number of characters read past a cut, so that a secret at the edge is redacted whole."""

_LIMITS = {"problems": MAX_PROBLEMS, "sub-tasks": MAX_SUBTASKS}
_DECIDING = ("task-done", "task-failed", "verify-pass", "verify-fail", "hand-over", "subtask")
"""Sigils that decide what happens to a task."""
_LONG = (
    *("failure-report", "learning", "retry-suggestion", "journal", "knowledge", "verify-fail"),
    *("hand-over", "subtask"),
)
"""Sigils whose text may quote another sigil."""
_SPELLINGS = {"handover": "hand-over", "sub-task": "subtask"}
_FENCES = ("```", "~~~")
_SIGNAL = "MEMORY"

_NAME = f"(?ai:{'|'.join(SIGIL_NAMES)})"
_TAG = rf"<\s*+/?+\s*+{_NAME}[\s/>]"
_MARK = re.compile(
    rf"<\s*+(?P<slash>/?+)\s*+(?P<name>{_NAME})(?=[\s/>])"
    r"|(?P<fence>```++|~~~++)"
    rf"|{_SIGNAL}[ \t]*+:[ \t]*+(?P<kind>[A-Za-z]{{1,20}}+)[ \t]*+:"
)
# No attribute extends past the next tag: an unclosed quote must not swallow it.
_QUOTED = "|".join(
    rf"[{opening}](?>(?:[^<{closing}]++|(?!{_TAG})<)*)[{closing}]"
    for opening, closing in (('"', '"'), ("'", "'"), ("“”„", "“”"), ("‘’", "‘’"))
)
# Atomic groups (?>...), because before Python 3.11.5 a possessive group with alternatives can miss a match.
_HEAD = re.compile(rf"(?>(?:[^<>=]++|=\s*+(?:{_QUOTED})|=)*)>")
_ATTRIBUTE = re.compile(
    r"(?<![\w-])([A-Za-z][\w-]*+) ?= ?"
    r"(?:\"([^\"]*+)\"|'([^']*+)'|[“”„]([^“”]*+)[“”]|[‘’]([^‘’]*+)[‘’]|((?>(?:(?! [A-Za-z][\w-]*+ ?=).)*)))"
)
_BULLET = re.compile(r"[ \t]*+(?>(?:(?:[-*+•]|\d{1,3}+[.)])[ \t]++){0,3})(?>(?:\*\*|`)?)")
_QUOTATION = re.compile(
    r"\s*+(?:>"  # blockquote
    r"|\+|-\Z"  # diff
    r"|\d++(?:\t|[→│]|\ *+\||:\s*+\Z)"  # numbered listing
    r"|(?=[^\s:]*[/.])[^\s:]++:\d++[:-])"  # grep
)
_AROUND = " \t\n*`'\""
_EMPTY_WORDS = ("none", "n/a", "na", "-", "unknown")
"""Words that agents write for an empty list."""
_ID = re.compile(rf"[^\s<>]{{1,{MAX_ID}}}+")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}+")

_KIND_OF = {
    form: kind for kind in SIGNAL_TYPES for form in (kind, kind + "s", kind + "es", kind.removesuffix("y") + "ies")
}


def parse_sigils(text: str, prompt: str = "") -> Sigils:
    """Parse the sigils and MEMORY lines of an answer. Never raises, whatever the text.

    - Of a sigil that is allowed once, the first non-empty one counts; one `<verify-fail>`
      outweighs any `<verify-pass/>`.
    - An end tag closes the nearest open tag of its name: `<journal>a<journal>b</journal>` yields
      "b". Sigils inside a sigil or a MEMORY line are part of its text.
    - A tag that is never closed is ignored and hides nothing that follows.
    - In a closed code block a sigil is a quotation, unless the block holds only sigils; in a
      blockquote, a diff or a listing it always is.
    - A sigil that decides what happens to a task (done, failed, pass, fail, hand-over, subtask)
      counts in backticks, or after an unclosed long sigil, only on a line of its own: it may be
      a plan or a partial quotation.
    - A sigil or MEMORY line that occurs word for word in the prompt is an echo and is ignored.
    """
    text, prompt = clean(text), clean(prompt)
    findings = _SigilCollector(text)
    marks = list(_unquoted_marks(text, findings))
    # Searching the prompt for each is fast for a few; for many, compare whole sigils only.
    echoes: str | set[str] = _fold(prompt) if len(marks) <= MAX_SEARCHED_MARKS else _echoes(prompt)
    for mark in marks:
        raw = text[mark.start : mark.end]
        if _fold(raw) in echoes:
            findings.problem("repeated from the prompt", raw)
        elif mark.height > MAX_NESTING:
            findings.problem("nested too deep", raw)
        else:
            findings.take(mark)
    return findings.sigils()


def strip_sigils(text: str) -> str:
    """Remove all sigils and MEMORY lines from an answer, quoted ones included. Never raises."""
    text = clean(text)
    parts: list[str] = []
    at = 0
    for mark in _outermost(text, _SigilCollector(text)):
        if mark.name not in _FENCES:
            parts.append(text[at : mark.start])
            at = max(at, mark.end)
    return " ".join([*parts, text[at:]]).strip()


# --- scanning ------------------------------------------------------------------


class _SigilMark:
    """Sigil, MEMORY line or code fence found in a text."""

    __slots__ = ("attributes", "body", "body_end", "end", "height", "is_closed", "name", "start")

    def __init__(self, name: str, start: int, attributes: int, body: int) -> None:
        self.name = name
        self.start = start
        self.attributes = attributes
        """Offset of the attributes."""
        self.body = body
        self.body_end = body
        self.end = body
        self.height = 0
        """Nesting depth of a sigil, or length of a fence."""
        self.is_closed = False
        """Whether the end tag of a sigil was found, or whether a fence can close a block."""

    def close(self, body_end: int, end: int) -> None:
        """Set the end of the body and of the whole mark."""
        self.body_end = body_end
        self.end = end
        self.height += 1
        self.is_closed = True


def _scan(text: str, open_tags: dict[str, list[_SigilMark]]) -> Iterator[_SigilMark]:
    """Yield marks ordered by their end, inner sigils first; unclosed tags stay in `open_tags`."""
    line_end = 0
    for found in _MARK.finditer(text):
        start, end = found.span()
        if found.lastgroup == "name":
            name = found["name"].lower()
            name = _SPELLINGS.get(name, name)
            mark = _tag(text, found, name, open_tags.setdefault(name, []))
            if mark:
                yield mark
        elif start < line_end:
            continue
        elif found.lastgroup == "kind":
            line_end = _line_end(text, end)
            mark = _SigilMark(_SIGNAL, start, start, end)
            mark.close(line_end, line_end)
            yield mark
        elif _starts_line(text, start):
            line_end = _line_end(text, end)
            rest = text[end:line_end].strip()
            if "`" not in rest:
                mark = _SigilMark(found["fence"][:3], start, end, end)
                mark.end = line_end
                mark.height = min(end - start, MAX_FENCE_LENGTH)
                mark.is_closed = not rest
                yield mark


def _tag(text: str, found: re.Match[str], name: str, open_tags: list[_SigilMark]) -> _SigilMark | None:
    """Return the sigil that a tag completes, or None after noting an open tag."""
    start, end = found.span()
    head = _HEAD.match(text, end, end + MAX_TAG_CHARACTERS)
    if head is None:
        return None
    head_end = head.end()
    if found["slash"]:
        if not open_tags:
            return None
        mark = open_tags.pop()
        mark.close(start, head_end)
        if open_tags:
            open_tags[-1].height = max(open_tags[-1].height, mark.height)
        return mark
    mark = _SigilMark(name, start, end, head_end)
    if text[head_end - 2] == "/":
        mark.close(head_end, head_end)
        return mark
    open_tags.append(mark)
    if len(open_tags) > MAX_OPEN_TAGS:
        del open_tags[1 : MAX_OPEN_TAGS // 2]
    return None


def _echoes(prompt: str) -> set[str]:
    """Return all sigils and MEMORY lines in the prompt, with whitespace and case folded."""
    marks = (mark for mark in _scan(prompt, {}) if mark.name not in _FENCES and mark.height <= MAX_NESTING)
    return {_fold(prompt[mark.start : mark.end]) for mark in marks}


def _outermost(text: str, findings: _SigilCollector) -> list[_SigilMark]:
    """Return the marks that are not inside another one, and unclosed tags, in order."""
    open_tags: dict[str, list[_SigilMark]] = {}
    marks: list[_SigilMark] = []
    for mark in _scan(text, open_tags):
        while marks and marks[-1].start > mark.start:
            marks.pop()
        marks.append(mark)
        if len(marks) >= MAX_MARKS:
            findings.problem(f"more than {MAX_MARKS} sigils; the rest was not read")
            break
    for unclosed in open_tags.values():
        marks.extend(unclosed)
    return sorted(marks, key=lambda mark: mark.start)


def _unquoted_marks(text: str, findings: _SigilCollector) -> Iterator[_SigilMark]:
    """Yield the sigils and MEMORY lines that are not quotations."""
    marks = _outermost(text, findings)
    blocks = _Blocks(text, marks)
    line = _Line(text)
    skip_until = block_end = 0
    is_after_unclosed = False
    for index, mark in enumerate(marks):
        if mark.start < skip_until:
            if mark.start < block_end and mark.name in _DECIDING:
                findings.problem("quoted in a code block", text[mark.start : mark.end])
            continue
        line.go_to(mark.start)
        if mark.name in _FENCES:
            skip_until = block_end = blocks.quoted_until(index)
        elif mark.name == _SIGNAL:
            if _BULLET.fullmatch(text, line.start, mark.start):
                skip_until = mark.end
                yield mark
        elif not mark.is_closed:
            findings.problem("never closed", f"<{mark.name}>")
            is_after_unclosed |= mark.name in _LONG and not line.is_quotation and not line.is_in_code
        else:
            skip_until = mark.end
            is_doubtful = mark.name in _DECIDING and (line.is_in_code or is_after_unclosed)
            if line.is_quotation:
                findings.problem("quoted", text[mark.start : mark.end])
            elif is_doubtful and not line.holds_only(mark):
                findings.problem("not on a line of its own", text[mark.start : mark.end])
            else:
                yield mark
        line.skip_to(skip_until)


class _Line:
    """Line up to an offset in the text; offsets only increase."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._backticks = 0
        self.start = 0

    def go_to(self, at: int) -> None:
        """Advance to an offset."""
        since = self._at
        self.skip_to(at)
        self._backticks += self._text.count("`", max(since, self.start), at)

    def skip_to(self, at: int) -> None:
        """Advance to an offset without counting backticks."""
        newline = self._text.rfind("\n", self._at, at)
        if newline >= 0:
            self.start = newline + 1
            self._backticks = 0
        self._at = max(self._at, at)

    @property
    def is_in_code(self) -> bool:
        """Whether the offset is inside inline code."""
        return self._backticks % 2 == 1

    @property
    def is_quotation(self) -> bool:
        """Whether the line is a blockquote, a diff or a listing."""
        return _QUOTATION.match(self._text, self.start, min(self._at, self.start + LINE_LOOKAHEAD)) is not None

    def holds_only(self, mark: _SigilMark) -> bool:
        """Return whether nothing but sigils is on the line or lines of a sigil."""
        if mark.start > self.start + LINE_LOOKAHEAD:
            return False
        before = self._text[self.start : mark.start].strip(_AROUND + "-")
        after = self._text[mark.end : mark.end + LINE_LOOKAHEAD].split("\n", 1)[0].strip(_AROUND + ".")
        return not before and (not after or after.startswith("<"))


class _Blocks:
    """Code blocks of a text."""

    def __init__(self, text: str, marks: list[_SigilMark]) -> None:
        self._text = text
        self._marks = marks
        self._last_end = -1
        """Index of the fence that closed the last block of sigils."""
        self._never_closed: dict[str, int] = {}
        """Fence length from which no closing fence follows, by kind; avoids repeated searches."""

    def quoted_until(self, index: int) -> int:
        """Return the end of the block that this fence opens, or 0 if there is none or it holds only sigils."""
        fence = self._marks[index]
        if index == self._last_end or fence.height >= self._never_closed.get(fence.name, MAX_FENCE_LENGTH + 1):
            return 0
        end = self._end_after_sigils(index)
        if end is not None:
            self._last_end = end
            return 0
        for other in range(index + 1, len(self._marks)):
            if _closes(fence, self._marks[other]):
                return self._marks[other].end
        self._never_closed[fence.name] = fence.height
        return 0

    def _end_after_sigils(self, index: int) -> int | None:
        fence = self._marks[index]
        at = fence.end
        for other in range(index + 1, len(self._marks)):
            mark = self._marks[other]
            if self._text[at : mark.start].strip(_AROUND + "-"):
                return None
            if _closes(fence, mark):
                return other
            if mark.name in _FENCES or not mark.is_closed:
                return None
            at = max(at, mark.end)
        return None


def _closes(fence: _SigilMark, mark: _SigilMark) -> bool:
    return mark.name == fence.name and mark.is_closed and mark.height >= fence.height


def _starts_line(text: str, at: int) -> bool:
    """Return whether only whitespace precedes an offset on its line."""
    newline = text.rfind("\n", max(0, at - LINE_LOOKAHEAD), at)
    return (newline >= 0 or at <= LINE_LOOKAHEAD) and not text[newline + 1 : at].strip()


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


# --- interpretation ------------------------------------------------------------


class _SigilCollector:
    """Accumulated content of the sigils."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._done: dict[str, None] = {}
        self._failed: dict[str, None] = {}
        self._learnings: dict[LearningSigil, None] = {}
        self._knowledge: dict[KnowledgeSigil, None] = {}
        self._signals: dict[MemorySignal, None] = {}
        self._report: FailureReportSigil | None = None
        self._journal = ""
        self._retry_suggestion = ""
        self._difficulty: Difficulty | None = None
        self._next_model: str | None = None
        self._hand_over: HandoverSigil | None = None
        self._subtasks: dict[str, SubtaskSigil] = {}
        """Subtasks by normalized title, with `needs` as the agent wrote them."""
        self._verify_passed: bool | None = None
        self._verify_reason = ""
        self._problems: dict[tuple[str, str], None] = {}
        self._counts: dict[str, int] = {}

    def problem(self, what: str, raw: str = "") -> None:
        """Record once what was skipped and why."""
        line = (what, raw[:MAX_TITLE])
        if line not in self._problems and self._has_room("problems"):
            self._problems[line] = None

    def sigils(self) -> Sigils:
        """Return the result as one record."""
        subtasks = tuple(self._ordered_subtasks())
        return Sigils(
            done_ids=tuple(self._done),
            failed_ids=tuple(self._failed),
            report=self._report,
            learnings=tuple(self._learnings),
            knowledge=tuple(self._knowledge),
            signals=tuple(self._signals),
            journal=self._journal,
            difficulty=self._difficulty,
            retry_suggestion=self._retry_suggestion,
            next_model=self._next_model,
            hand_over=self._hand_over,
            subtasks=subtasks,
            verify_passed=self._verify_passed,
            verify_reason=self._verify_reason,
            problems=tuple(self._problem_lines()),
        )

    def _problem_lines(self) -> Iterator[str]:
        for what, raw in self._problems:
            yield f"{what}: {one_line(sanitize(raw), 80)}" if raw else what
        for what, count in self._counts.items():
            limit = _LIMITS.get(what, MAX_ITEMS)
            if count > limit:
                yield f"{count - limit} more {what} left out"

    def take(self, mark: _SigilMark) -> None:
        """Interpret one sigil or MEMORY line."""
        body = self._text[mark.body : mark.body_end]
        match mark.name:
            case "task-done":
                self._add_id(self._done, mark, body)
            case "task-failed":
                self._add_id(self._failed, mark, body)
            case "learning":
                self._add_learning(mark, body)
            case "knowledge":
                self._add_knowledge(mark, body)
            case "failure-report":
                self._set_report(body)
            case "journal":
                self._journal = self._journal or _clean_text(body, MAX_NOTES_CHARACTERS)
            case "retry-suggestion":
                self._retry_suggestion = self._retry_suggestion or _clean_text(body, MAX_NOTES_CHARACTERS)
            case "difficulty-estimate":
                self._set_difficulty(body)
            case "next-model":
                self._set_model(body)
            case "hand-over":
                self._set_hand_over(mark, body)
            case "subtask":
                self._add_subtask(mark, body)
            case "verify-pass" | "verify-fail":
                self._set_verdict(mark, body)
            case _:
                self._add_signal(mark, body)

    def _has_room(self, what: str) -> bool:
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what] <= _LIMITS.get(what, MAX_ITEMS)

    def _add_id(self, ids: dict[str, None], mark: _SigilMark, body: str) -> None:
        task_id = body.strip(_AROUND)
        if not _ID.fullmatch(task_id):
            self.problem(f"{mark.name} without a task id", body)
        elif task_id not in ids and self._has_room("task ids"):
            ids[sanitize(task_id)] = None

    def _add_learning(self, mark: _SigilMark, body: str) -> None:
        if not self._has_room("learnings"):
            return
        attributes = self._attributes(mark)
        content = _clean_text(body, MAX_FIELD_CHARACTERS)
        if not content:
            self.problem("learning without text")
            return
        category = _label(attributes.get("category", "")) or "other"
        learning = LearningSigil(category=category, content=content, tags=_tags(attributes.get("tags", "")))
        self._learnings[learning] = None

    def _add_knowledge(self, mark: _SigilMark, body: str) -> None:
        if not self._has_room("knowledge sigils"):
            return
        attributes = self._attributes(mark)
        title = one_line(sanitize(attributes.get("title", "")), MAX_TITLE)
        tags = _tags(attributes.get("tags", ""))
        content = truncate_words(_clean_text(body, MAX_KNOWLEDGE_CHARACTERS, mark=" [truncated]"), KNOWLEDGE_WORDS)
        missing = [what for what, value in (("title", title), ("tags", tags), ("body", content)) if not value]
        if missing:
            self.problem(f"knowledge without {' and '.join(missing)}", title or body)
        else:
            self._knowledge[KnowledgeSigil(title=title, tags=tags, body=content)] = None

    def _add_signal(self, mark: _SigilMark, body: str) -> None:
        found = _MARK.match(self._text, mark.start)
        kind = _KIND_OF.get(found["kind"].lower()) if found else None
        wrap = next((wrap for wrap in ("**", "`") if self._text.endswith(wrap, 0, mark.start)), "")
        content = body.strip().removesuffix(wrap).strip()
        if kind is None:
            self.problem("MEMORY line of an unknown type", self._text[mark.start : mark.end])
        elif not content:
            self.problem("MEMORY line without text", kind)
        elif self._has_room("MEMORY lines"):
            content = _clean_text(content, MAX_FIELD_CHARACTERS)
            self._signals[MemorySignal(kind=kind, title=extract_title(content), content=content)] = None

    def _set_report(self, body: str) -> None:
        if self._report or not self._has_room("failure reports"):
            return
        fields = _report_fields(body[:MAX_NOTES_CHARACTERS])
        missing = [name for name in ("what_tried", "why_failed") if not fields.get(name)]
        if missing:
            self.problem(f"failure-report without {' and '.join(missing)}", body)
            return
        self._report = FailureReportSigil(
            tried=_clean_text(fields["what_tried"], MAX_FIELD_CHARACTERS),
            why=_clean_text(fields["why_failed"], MAX_FIELD_CHARACTERS),
            category=_label(fields.get("error_category", "")) or "unknown",
            files=_files(fields.get("relevant_files", "")),
            trace=sanitize(fields.get("stack_trace", ""))[:MAX_STACK_TRACE_CHARACTERS].rstrip(),
        )

    def _set_difficulty(self, body: str) -> None:
        word = body.strip()[:MAX_TAG].strip(_AROUND + ".!").lower()
        try:
            self._difficulty = self._difficulty or Difficulty(word)
        except ValueError:
            self.problem("not a difficulty", body)

    def _set_model(self, body: str) -> None:
        model = body.strip(_AROUND)
        if _MODEL.fullmatch(model):
            self._next_model = self._next_model or sanitize(model)
        else:
            self.problem("not a model name", body)

    def _set_hand_over(self, mark: _SigilMark, body: str) -> None:
        if self._hand_over:
            return
        attributes = self._attributes(mark)
        target = attributes.get("to") or attributes.get("hat", "")
        hats = {word for word in re.findall(r"\w+", target.lower()) if word in HATS}
        if target and len(hats) != 1:
            self.problem("hand-over to an unknown hat", target)
        self._hand_over = HandoverSigil(
            to=hats.pop() if len(hats) == 1 else "", text=_clean_text(body, MAX_NOTES_CHARACTERS)
        )

    def _add_subtask(self, mark: _SigilMark, body: str) -> None:
        attributes = self._attributes(mark)
        title, text = one_line(sanitize(attributes.get("title", "")), MAX_TITLE), body
        if not _title_key(title):
            title, text = _split_title(body)
        key = _title_key(title)
        if not key:
            self.problem("subtask without a title")
        elif key not in self._subtasks and self._has_room("sub-tasks"):
            needs = attributes.get("needs", "")
            self._subtasks[key] = SubtaskSigil(
                title=title, body=_clean_text(text, MAX_FIELD_CHARACTERS), needs=(needs,)
            )

    def _ordered_subtasks(self) -> Iterator[SubtaskSigil]:
        """Yield the subtasks with only those needs that name another one and form no cycle."""
        needs: dict[str, dict[str, None]] = {key: {} for key in self._subtasks}
        for key, part in self._subtasks.items():
            for name in _needed_titles(part.needs[0], self._subtasks):
                if name not in needs:
                    self.problem("subtask needs an unknown subtask", name)
                elif key in _with_needs(name, needs):
                    self.problem("subtasks depend on each other", f"{part.title} needs {name}")
                else:
                    needs[key][name] = None
        for key, part in self._subtasks.items():
            yield replace(part, needs=tuple(self._subtasks[name].title for name in needs[key]))

    def _set_verdict(self, mark: _SigilMark, body: str) -> None:
        if mark.name == "verify-fail":
            self._verify_passed = False
            self._verify_reason = self._verify_reason or _clean_text(body, MAX_NOTES_CHARACTERS)
        elif re.search(_TAG, body):
            self.problem("verify-pass around other sigils")
        elif self._verify_passed is None:
            self._verify_passed = True

    def _attributes(self, mark: _SigilMark) -> dict[str, str]:
        found: dict[str, str] = {}
        head = " ".join(self._text[mark.attributes : mark.body - 1].removesuffix("/").split())
        for attribute in _ATTRIBUTE.finditer(head):
            name, *values = attribute.groups("")
            found.setdefault(name.lower(), "".join(values))
        return found


def _clean_text(text: str, length: int, mark: str = " [cut]") -> str:
    """Return untrusted text cleaned for storage, cut to `length` characters."""
    return truncate(sanitize(text.strip()[: length + SECRET_LOOKAHEAD]), length, mark)


def _label(text: str) -> str:
    return "_".join(sanitize(text[:SECRET_LOOKAHEAD]).strip(_AROUND).lower().split())[:MAX_TAG].rstrip("_")


def _tags(text: str) -> tuple[str, ...]:
    pieces = re.split(r"[,;\n]", sanitize(text))
    tags = (" ".join(piece.split()).strip("[]#“”‘’" + _AROUND).lower()[:MAX_TAG].rstrip() for piece in pieces)
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:MAX_TAGS]


# --- subtasks ------------------------------------------------------------------


def _split_title(body: str) -> tuple[str, str]:
    """Split a text into its first line as the title and the rest; keep the whole text if the title was cut."""
    first, _, rest = body.strip()[: MAX_FIELD_CHARACTERS + SECRET_LOOKAHEAD].partition("\n")
    line = sanitize(first.strip().lstrip("#")).removeprefix("- ").removeprefix("**").removesuffix("**")
    title = one_line(line, MAX_TITLE)
    return title, body if title.endswith("…") else rest


def _title_key(title: str) -> str:
    """Normalize a title for comparison, because agents do not repeat titles exactly."""
    return _fold(title.casefold()).strip("[]“”‘’." + _AROUND)


def _needed_titles(needs: str, known: Container[str]) -> list[str]:
    """Split a list of titles at semicolons, or at commas where that yields known titles."""
    if _need_key(needs) in known:
        return [_need_key(needs)]
    found: list[str] = []
    for key in map(_need_key, needs.split(";")):
        pieces = [_title_key(piece) for piece in key.split(",")]
        has_commas = key not in known and any(piece in known for piece in pieces)
        found += pieces if has_commas else [key]
    return [key for key in found if key and key not in _EMPTY_WORDS]


def _need_key(need: str) -> str:
    return _title_key(one_line(sanitize(need), MAX_TITLE))


def _with_needs(name: str, needs: dict[str, dict[str, None]]) -> set[str]:
    """Return a subtask and all its transitive needs."""
    found: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending += needs[current]
    return found


# --- failure reports -----------------------------------------------------------

_REPORT_KEYS = {
    alias: key
    for key, aliases in {
        "what_tried": "what_tried what_was_tried what_i_tried tried",
        "why_failed": "why_failed why_it_failed why_this_failed why",
        "error_category": "error_category category",
        "relevant_files": "relevant_files relevant_file files",
        "stack_trace": "stack_trace stack_trace_snippet stacktrace trace",
    }.items()
    for alias in aliases.split()
}
_REPORT_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z_-]{1,30}+)>")
_REPORT_LINE = re.compile(
    r"(\s*+)(?>(?:(?:[-*+•]|\d{1,2}+[.)]|\#{1,6}+)\s++)?)[*_`\"']{0,3}+"
    r"([A-Za-z][A-Za-z_-]*+(?>(?:\ [A-Za-z]++){0,3}))[*_`\"']{0,3}+\s{0,3}+:(?=\s|[*_`]|\Z)[*_`]{0,2}+(.*)"
)
_UNKNOWN_KEY = re.compile(r"[a-z][a-z0-9]*+(?:[_-][a-z0-9]++)*+")
_BLOCK_SCALARS = ("|", ">", "|-", ">-", "|+", ">+")


def _report_fields(body: str) -> dict[str, str]:
    """Return the text of each known key; lines without a key belong to the one above."""
    texts: dict[str, list[str]] = {}
    key: str | None = None
    for line in _REPORT_TAG.sub(_tag_to_line, body).split("\n"):
        found = _REPORT_LINE.fullmatch(line)
        name = _normalize_key(found[2]) if found else ""
        if found and name in _REPORT_KEYS:
            key = _REPORT_KEYS[name]
            texts.setdefault(key, []).append(_unquoted(found[3].strip()))
        elif found and key != "stack_trace" and not found[1] and _UNKNOWN_KEY.fullmatch(found[2]):
            key = None
        elif key:
            texts[key].append(line.rstrip() if key == "stack_trace" else line.strip())
    return {name: "\n".join(lines).strip("\n").rstrip() for name, lines in texts.items()}


def _tag_to_line(tag: re.Match[str]) -> str:
    """Turn `<what_tried>` into `what_tried:` on a new line, its end tag into a line break."""
    name = _normalize_key(tag[2])
    if name not in _REPORT_KEYS:
        return tag[0]
    return "\n" if tag[1] else f"\n{name}: "


def _normalize_key(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_").strip("_")


def _unquoted(value: str) -> str:
    if value in _BLOCK_SCALARS:
        return ""
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
        return value[1:-1]
    return value


def _files(text: str) -> tuple[str, ...]:
    pieces = re.split(r"[,;\n]", sanitize(text[:MAX_NOTES_CHARACTERS]))
    paths = (piece.strip().removeprefix("- ").split(" (", 1)[0].strip("[]" + _AROUND) for piece in pieces)
    files = dict.fromkeys(path[:MAX_PATH] for path in paths if path and path.lower() not in _EMPTY_WORDS)
    return tuple(files)[:MAX_FILES]
