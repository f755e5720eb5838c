"""Parser for the sigils in an agent's answer.

Parsing is tolerant: text that is not a sigil is ignored, and a malformed sigil is
skipped with a line in `problems`, because an answer must never crash the loop.
It is strict about quotations only: a quoted sigil is ignored, since a false "done"
costs more than a missed one and the prompt asks for sigils on their own lines.
"""

from __future__ import annotations

import json
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
    clean,
    extract_title,
    find_paths,
    one_line,
    sanitize,
    truncate,
    truncate_words,
)
from ralph.formats.echoes import EchoFinder, fold
from ralph.formats.failure_reports import parse_report_fields
from ralph.formats.sigil_scanner import FENCES, MARK, MARKUP, TAG, outermost_marks, unquoted_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ralph.formats.echoes import FindTexts
    from ralph.formats.sigil_scanner import SigilMark

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
MAX_QUESTIONS = 5
"""Maximum number of questions to a person in one answer."""
REASON_PARAGRAPHS = 2
"""Number of paragraphs before a reported failure that are taken as its reason if there is no report."""
MAX_MARKUP = 20
"""Maximum number of characters of markup around a sigil on a line of its own."""
MAX_PROBLEMS = 50
SECRET_LOOKAHEAD = 1_000
"""Number of characters read past a cut, so that a secret at the edge is redacted whole."""

_LIMITS = {"problems": MAX_PROBLEMS, "sub-tasks": MAX_SUBTASKS, "questions": MAX_QUESTIONS}

_ATTRIBUTE = re.compile(
    r"(?<![\w-])([A-Za-z][\w-]*+) ?= ?"
    r"(?:\"([^\"]*+)\"|'([^']*+)'|[“”„]([^“”]*+)[“”]|[‘’]([^‘’]*+)[‘’]|((?>(?:(?! [A-Za-z][\w-]*+ ?=).)*)))"
)
_EMPTY_WORDS = ("none", "n/a", "na", "-", "unknown")
"""Words that agents write for an empty list."""
_ID = re.compile(rf"[^\s<>]{{1,{MAX_ID}}}+")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,99}+")

_TAG_NAMES = ("tags", "relevance_tags", "relevance-tags", "relevance")
"""Attributes that models give the tags of a learning in."""
_DIFFICULTIES = {
    Difficulty.BLOCKED: r"^(?:blocked|impossible|stuck)\b",
    Difficulty.TRIVIAL: r"^(?:trivial|very (?:easy|simple|low))\b",
    Difficulty.EASY: r"^(?:easy|simple|straightforward|low)\b",
    Difficulty.MODERATE: r"^(?:moderate|medium|normal|average|intermediate|moderately)\b",
    Difficulty.HARD: r"^(?:(?:very|extremely|really|quite) )?(?:hard|difficult|complex|challenging|high)\b",
}
"""Words that models use for each difficulty."""
_KIND_OF = {
    form: kind for kind in SIGNAL_TYPES for form in (kind, kind + "s", kind + "es", kind.removesuffix("y") + "ies")
}


def parse_sigils(text: str, prompt: str = "", *, find_texts: FindTexts | None = None, task_id: str = "") -> Sigils:
    """Parse the sigils and MEMORY lines of an answer. Never raises, whatever the text.

    - Of a sigil that is allowed once, the first non-empty one counts; one `<verify-fail>`
      outweighs any `<verify-pass/>`.
    - An end tag closes the nearest open tag of its name: `<journal>a<journal>b</journal>` yields
      "b". Sigils inside a sigil or a MEMORY line are part of its text.
    - A tag that is never closed is ignored and hides nothing that follows.
    - In a closed code block a sigil is a quotation, unless the block holds only sigils; in a
      blockquote, a diff or a listing it always is.
    - A sigil that decides what happens to a task (done, failed, pass, fail, hand-over, subtask,
      question) counts in backticks, or after an unclosed long sigil, only on a line of its own: it may be
      a plan or a partial quotation.
    - A sigil or MEMORY line that occurs word for word in the prompt, or in a stored text that `find_texts` returns, is
      an echo and is ignored; what settles the task `task_id` only if text next to it is repeated too.
    """
    text, prompt = clean(text), clean(prompt)
    findings = _SigilCollector(text)
    marks = list(unquoted_marks(text, findings.problem))
    echoes = EchoFinder(text, prompt, find_texts, task_id).sources(marks)
    for mark in marks:
        if mark in echoes:
            findings.problem(f"repeated from {echoes[mark]}", text[mark.start : mark.end])
        else:
            findings.take(mark)
    return findings.sigils()


def strip_echoes(text: str, prompt: str, *, find_texts: FindTexts | None = None, task_id: str = "") -> str:
    """Remove the sigils, quoted ones included, that an answer repeats from its prompt or from stored text."""
    text = clean(text)
    marks = [mark for mark in outermost_marks(text, lambda *_: None) if mark.name not in FENCES]
    echoes = EchoFinder(text, clean(prompt), find_texts, task_id).sources(marks)
    parts: list[str] = []
    at = 0
    for mark in sorted(echoes, key=lambda mark: mark.start):
        parts.append(text[at : mark.start])
        at = max(at, mark.end)
    return "".join([*parts, text[at:]])


def strip_sigils(text: str) -> str:
    """Remove all sigils and MEMORY lines from an answer, quoted ones included. Never raises."""
    text = clean(text)
    parts: list[str] = []
    at = 0
    for mark in outermost_marks(text, lambda *_: None):
        if mark.name not in FENCES:
            parts.append(text[at : mark.start])
            at = max(at, mark.end)
    return " ".join([*parts, text[at:]]).strip()


# --- interpretation ------------------------------------------------------------


class _SigilCollector:
    """Accumulated content of the sigils."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._done: dict[str, tuple[bool, int]] = {}
        """Weight of the sigil by task id: whether it is on a line of its own, and its position."""
        self._failed: dict[str, tuple[bool, int]] = {}
        self._failed_at: int | None = None
        """Position of the first reported failure."""
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
        self._questions: dict[str, None] = {}
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
        # Of both for one task, the one on a line of its own counts, because the other is a mention; else the last.
        outweighed = {id for id in self._done if id in self._failed and self._failed[id] > self._done[id]}
        return Sigils(
            done_ids=tuple(id for id in self._done if id not in outweighed),
            failed_ids=tuple(id for id in self._failed if id not in self._done or id in outweighed),
            report=self._report or self._reason_before_failure(),
            learnings=tuple(self._learnings),
            knowledge=tuple(self._knowledge),
            signals=tuple(self._signals),
            journal=self._journal,
            difficulty=self._difficulty,
            retry_suggestion=self._retry_suggestion,
            next_model=self._next_model,
            hand_over=self._hand_over,
            subtasks=subtasks,
            question="\n\n".join(self._questions),
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

    def take(self, mark: SigilMark) -> None:
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
            case "question":
                self._add_question(body)
            case "verify-pass" | "verify-fail":
                self._set_verdict(mark, body)
            case _:
                self._add_signal(mark, body)

    def _has_room(self, what: str) -> bool:
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what] <= _LIMITS.get(what, MAX_ITEMS)

    def _add_id(self, ids: dict[str, tuple[bool, int]], mark: SigilMark, body: str) -> None:
        task_id = sanitize(body.strip(MARKUP))
        if not _ID.fullmatch(task_id):
            self.problem(f"{mark.name} without a task id", body)
            return
        if task_id in ids or self._has_room("task ids"):
            ids[task_id] = max(ids.get(task_id, (False, 0)), (self._is_alone(mark), mark.start))
        if ids is self._failed and self._failed_at is None:
            self._failed_at = mark.start

    def _is_alone(self, mark: SigilMark) -> bool:
        """Return whether a sigil is on a line of its own, but for markup."""
        before = self._text[max(0, mark.start - MAX_MARKUP) : mark.start].rpartition("\n")
        after = self._text[mark.end : mark.end + MAX_MARKUP].partition("\n")
        is_start, is_end = before[1] or mark.start < MAX_MARKUP, after[1] or mark.end + MAX_MARKUP >= len(self._text)
        return bool(is_start and is_end) and not (before[2] + after[0]).strip(MARKUP + "-+•")

    def _reason_before_failure(self) -> FailureReportSigil | None:
        """Return the last paragraphs before a failure without a report, which usually say why."""
        if self._failed_at is None:
            return None
        said = strip_sigils(self._text[max(0, self._failed_at - MAX_NOTES_CHARACTERS) : self._failed_at])
        paragraphs = [one for one in re.split(r"\n\s*\n", said) if any(char.isalnum() for char in one)]
        why = _clean_text("\n\n".join(paragraphs[-REASON_PARAGRAPHS:]), MAX_FIELD_CHARACTERS)
        return FailureReportSigil(tried="", why=why, files=find_paths(why)) if why else None

    def _add_learning(self, mark: SigilMark, body: str) -> None:
        if not self._has_room("learnings"):
            return
        attributes = self._attributes(mark)
        attributes |= _json_fields(body)
        content = _clean_text(attributes.get("content", body), MAX_FIELD_CHARACTERS)
        if not content:
            self.problem("learning without text")
            return
        category = _label(attributes.get("category", "")) or "other"
        named = next((attributes[name] for name in _TAG_NAMES if attributes.get(name)), "")
        learning = LearningSigil(category=category, content=content, tags=_tags(named))
        self._learnings[learning] = None

    def _add_knowledge(self, mark: SigilMark, body: str) -> None:
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

    def _add_signal(self, mark: SigilMark, body: str) -> None:
        found = MARK.match(self._text, mark.start)
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
        fields = parse_report_fields(body[:MAX_NOTES_CHARACTERS])
        if not fields.get("why_failed"):
            self.problem("failure-report without why_failed", body)
            return
        self._report = FailureReportSigil(
            tried=_clean_text(fields.get("what_tried", ""), MAX_FIELD_CHARACTERS),
            why=_clean_text(fields["why_failed"], MAX_FIELD_CHARACTERS),
            category=_label(fields.get("error_category", "")) or "unknown",
            files=_files(fields["relevant_files"]) if "relevant_files" in fields else find_paths(fields["why_failed"]),
            trace=sanitize(fields.get("stack_trace", ""))[:MAX_STACK_TRACE_CHARACTERS].rstrip(),
        )

    def _set_difficulty(self, body: str) -> None:
        word = body.strip()[:MAX_TAG].strip(MARKUP + ".!").lower()
        found = next((one for one, words in _DIFFICULTIES.items() if re.search(words, word)), None)
        if found is None:
            self.problem("not a difficulty", body)
        self._difficulty = self._difficulty or found

    def _set_model(self, body: str) -> None:
        model = body.strip(MARKUP)
        if _MODEL.fullmatch(model):
            self._next_model = self._next_model or sanitize(model)
        else:
            self.problem("not a model name", body)

    def _set_hand_over(self, mark: SigilMark, body: str) -> None:
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

    def _add_subtask(self, mark: SigilMark, body: str) -> None:
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

    def _add_question(self, body: str) -> None:
        question = _clean_text(body, MAX_FIELD_CHARACTERS)
        if not question:
            self.problem("question without text")
        elif self._has_room("questions"):
            self._questions[question] = None

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

    def _set_verdict(self, mark: SigilMark, body: str) -> None:
        if mark.name == "verify-fail":
            self._verify_passed = False
            self._verify_reason = self._verify_reason or _clean_text(body, MAX_NOTES_CHARACTERS)
        elif re.search(TAG, body):
            self.problem("verify-pass around other sigils")
        elif self._verify_passed is None:
            self._verify_passed = True

    def _attributes(self, mark: SigilMark) -> dict[str, str]:
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
    return "_".join(sanitize(text[:SECRET_LOOKAHEAD]).strip(MARKUP).lower().split())[:MAX_TAG].rstrip("_")


def _tags(text: str) -> tuple[str, ...]:
    pieces = re.split(r"[,;\n]", sanitize(text))
    tags = (" ".join(piece.split()).strip("[]#“”‘’" + MARKUP).lower()[:MAX_TAG].rstrip() for piece in pieces)
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
    return fold(title.casefold()).strip("[]“”‘’." + MARKUP)


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


def _files(text: str) -> tuple[str, ...]:
    pieces = re.split(r"[,;\n]", sanitize(text[:MAX_NOTES_CHARACTERS]))
    paths = (piece.strip().removeprefix("- ").split(" (", 1)[0].strip("[]" + MARKUP) for piece in pieces)
    files = dict.fromkeys(path[:MAX_PATH] for path in paths if path and path.lower() not in _EMPTY_WORDS)
    return tuple(files)[:MAX_FILES]


def _json_fields(body: str) -> dict[str, str]:
    """Return the fields of a sigil whose text is a JSON object, lists as comma-separated text."""
    text = body.strip()
    if not text.startswith("{"):
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {
        str(name).lower(): ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in values.items()
    }
