"""Extraction of memories from handover notes, fixed gates and completion notes.

No model judges the sentences, so they must qualify by themselves: a sentence has to name something concrete, use the
wording typical of its kind, and be neither a plan, a question nor a report about the session. A missed finding can
still be stated in a sigil; junk cannot be taken back.
"""

from __future__ import annotations

import re
from functools import cache

from ralph.core.records import Memory, MemorySource, record, replace
from ralph.core.text import SIGIL_NAMES, extract_title, find_paths, one_line, sanitize, truncate
from ralph.memory.lifecycle.confidence import CRITIC_CONFIDENCE, GATE_FIX_CONFIDENCE, INITIAL_CONFIDENCE
from ralph.memory.lifecycle.fingerprint import normalized_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HANDOVER_KINDS = {
    ("explorer", "planner"): ("architecture", "dependency"),
    ("planner", "creator"): ("decision", "constraint"),
    ("critic", "creator"): ("pitfall",),
}
"""Memory kinds extracted from the output of one role when it hands over to another."""
COMPLETION_KINDS = ("pattern", "convention")
"""Memory kinds extracted from completion notes."""
MAX_FINDINGS = 3
"""Maximum number of findings per handover."""
MAX_CRITIC_FINDINGS = 5
"""Maximum number of findings per review."""
MIN_FINDING_LENGTH, MAX_FINDING_LENGTH = 20, 300
"""Minimum and maximum length of a finding, in characters."""
MIN_CUE_WEIGHT = 2
"""Minimum weight of a finding: one strong cue or two weak ones."""
MAX_WORD_OVERLAP = 0.8
"""Share of common words above which the weaker of two findings is dropped."""
MAX_TEXT_LENGTH = 100_000
"""Number of characters examined, from the end of the text."""
MAX_EXCERPT_LENGTH = 600
"""Maximum length of the problem and of the fix in a gate memory, in characters."""
MAX_TITLE_LENGTH = 100
"""Maximum length of a gate memory title, in characters."""
MAX_FILES = 20
"""Maximum number of files per memory."""

# Strong and weak cues in the wording of each kind of finding; a weak cue needs a second one.
_CUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "architecture": (
        (
            r"\b(?:lives?|sits?|resides?|(?:is|are) (?:all )?(?:located|defined|declared|kept|stored|implemented"
            r"|registered|wired|loaded|created|built)) (?:\w+ ){0,3}?(?:in|under|at|by|from|through)\b",
            r"\b(?:is|are) (?:all )?(?:in|under|inside) `?[\w.-]+/",
            r"\bentry ?points? (?:is|are|in|of)\b",
            r"\b(?:go|goes|flows?|pass|passes) (?:only )?through\b|\b(?:delegates?|dispatch(?:es)?) to\b",
            r"\b(?:one|each|every) (?:file|module|class|table|package|handler) (?:per|for (?:each|every)|has)\b",
            r"\b(?:organi[sz]ed|structured|split|divided|grouped) (?:by|into|as)\b",
        ),
        (
            r"\b(?:wraps?|implements?|inherits?|extends?|exposes?|owns?|holds?|separates?|calls)\b",
            r"\b(?:layers?|modules?|packages?|handlers?|routers?|services?|registry|middleware|pipeline|schema)\b",
        ),
    ),
    "dependency": (
        (
            r"\b(?:depends?|relies|rely|builds?|built|based) on\b",
            r"\b(?:requires?|needs?) (?:[\w.+-]+ ){0,3}(?:>= ?\d|v?\d|or newer|or later|to be installed|to be running)",
            r"\b(?:pinned|locked) (?:to|in|at)\b|\bvendored\b|\bbundled with\b|\bthird[- ]party\b",
            r"\w`? ?(?:>=|==|~=) ?v?\d",
            r"\buses? `?[\w.+-]+`? for \S.{2,80}(?:\bnot\b|\binstead of\b|\brather than\b)",
        ),
        (
            r"\buses? `?[\w.+-]+`? (?:\S+ )?(?:for|to|as|instead|via|with)\b",
            r"\b[A-Za-z][\w.-]*`? v?\d+(?:\.\d+)+\b|\bv\d+\b",
            r"\b(?:library|libraries|framework|sdk|driver|toolchain|runtime|plugin)\b",
            r"\b(?:pip|npm|pnpm|yarn|cargo|poetry|maven|gradle|go\.mod|pyproject|package\.json|requirements)\b",
        ),
    ),
    "decision": (
        (
            r"^decisions?:|\b(?:chose|chosen|decided|picked|opted for|settled on|went with|agreed on|ruled out)\b",
            r"\b(?:instead of|rather than|in favou?r of|over)\b.{3,160}\b(?:because|since|so that|as it)\b",
            r"\b(?:because|since)\b.{3,160}\b(?:instead of|rather than)\b",
            r"\b(?:prefer|keep|stay with|use|store|reuse)\b.{3,160}\b(?:because|since|so that)\b",
        ),
        (
            r"\b(?:instead of|rather than|in favou?r of)\b",
            r"\b(?:trade-?offs?|rejected|rationale|considered|alternatives?)\b",
        ),
    ),
    "constraint": (
        (
            r"^constraints?:|\bmust (?:not|never|only|stay|remain|be|support|work|fit|have|accept|return|keep|run)\b",
            r"\b(?:cannot|can't|mustn't|can only|may only)\b|\b(?:not|never) (?:allowed|supported|permitted)\b",
            r"\b(?:has|have) to (?:stay|remain|be|work|support|fit|run|keep)\b",
            r"\b(?:at most|at least|no more than|no longer than|up to) \S|\b(?:limited|capped|restricted) (?:to|at)\b",
            r"\bonly (?:works?|supports?|runs?|accepts?)\b",
            r"\bno (?:new |other |extra |external )?(?:dependenc|generics|network|threads|globals?|breaking)",
        ),
        (
            r"\bshould (?:not|never|only|be)\b",
            r"\b(?:limits?|maximum|minimum|budget|required|requirement|mandatory)\b|\bbackwards?[- ]compatib",
        ),
    ),
    "pitfall": (
        (
            r"\breturns? (?:an? )?`?(?:none|nil|null|undefined|empty|false|-1)\b",
            r"\b(?:silently|quietly|swallows|ignores|loses|discards|overwrites|clobbers|mutates)\b",
            r"\brace conditions?\b|\bdata race|\bdeadlocks?\b|\bleaks?\b|\boverflows?\b|\boff[- ]by[- ]one\b",
            r"\b(?:sql|shell|command|code|header|html|script) injection\b|\b(?:path traversal|quadratic|n\+1)\b",
            r"\b(?:crash(?:es)?|breaks?|fails?|raises?|throws?|panics?|hangs?|loops? forever|times? out)"
            r" (?:when|if|on|for|with|because|unless|every|in|as soon as|`\w+|\w+Error|\w+Exception)\b",
            r"\b(?:not|never|isn't|aren't|without being) (?:closed|checked|handled|escaped|validated|released|awaited"
            r"|reset|sanitized|quoted|locked|flushed|rolled back|thread[- ]safe)\b",
            r"\b(?:unhandled|unescaped|unbounded|unclosed|uncaught|unsafe|vulnerable)\b",
        ),
        (
            r"\b(?:wrong|incorrect|bug|missing|stale|flaky|forgets|leaves|shadows|hard-?coded)\b",
            r"\b(?:does not|doesn't|cannot|never|without)\b.{2,80}\b(?:when|if|unless|because|so)\b",
        ),
    ),
    "pattern": (
        (
            r"^patterns?:|\b(?:tests?|handlers?|commands?|models?|modules?|classes|functions|queries|migrations|errors"
            r"|components|routes?) (?:all |always |must )?(?:use|go through|follow|take|return|share|extend|wrap)\b",
            r"\b(?:each|every) (?:new )?[\w`.-]+ \w+s\b|\balways (?:use|wrap|go|pass|call|run|set|return|start)\b",
            r"\b(?:when(?:ever)?|to) add(?:ing)? (?:a|an|new|another)\b",
            r"\b(?:table-driven|parametri[sz]ed)\b|\bpattern (?:is|for|of|here)\b",
            r"\b(?:use|prefer|set|wrap|keep|avoid|reuse|pass|override|run|call)\b.{5,200}"
            r"\b(?:to avoid|so that|instead of|otherwise|or else)\b",
        ),
        (
            r"\b(?:fixtures?|helpers?|factory|factories|decorators?|builders?|mixins?|hooks?)\b",
            r"\b(?:use|wrap|reuse|register)\b.{2,120}\b(?:for|when|before|after|instead|around|with|in|through)\b",
        ),
    ),
    "convention": (
        (
            r"\b(?:live|lives|go|goes|belong|belongs|are kept|is kept|are put|is put) (?:in|under|next to) `?[\w.-]+/",
            r"^conventions?:|\bby convention\b|\bconvention is\b|\bnaming (?:is|convention|scheme)\b|\bline length\b",
            r"\b(?:is|are|in|uses?|stay) (?:always |all )?`?(?:lower|upper|snake|camel|kebab|pascal)[-_ ]?case",
            r"\b(?:is|are) (?:always |all )?(?:named|prefixed|suffixed|formatted|sorted|ordered|spelled|indented)\b",
            r"\b(?:error|commit|log) messages? (?:lower|upper)case\b",
            r"\b(?:docstrings?|comments?|imports|(?:commit|error) messages?|changelog entries|file names?|branches)"
            r" (?:are|is|starts?|ends?|begins?|use|must|have|go|come)\b",
        ),
        (
            r"(?<![-\w])(?:prefix(?:es)?|suffix(?:es)?|style|trailing|punctuation|alphabetical\w*)\b",
            r"\b(?:must|always|never|start|end|use)\b",
        ),
    ),
}
# Introductions that precede a finding.
_INTRODUCTION = re.compile(
    r"(?:(?:i|we) (?:also )?(?:found|noticed|learned|discovered|confirmed|see|saw)(?: out)?(?: that)?:?"
    r"|it turns out(?: that)?|turns out(?: that)?|(?:please )?note(?: that)?:?|important:|findings?:|fyi:?|remember:"
    r"|(?:lessons?|learnings?|gotchas?|patterns|conventions)(?: learned| discovered| encountered| found)?:"
    r"|also,|however,)\s+",
    re.IGNORECASE,
)
# Starts of sentences that describe the session, give an instruction, or report completed work.
_NARRATIVE = re.compile(
    r"(?:i|i'm|i'll|i've|i'd|let me|let's|we'll|we're|we (?:are|will|should|need|can|could|must first)|you|please"
    r"|next|now|first(?:ly)?|second(?:ly)?|third(?:ly)?|then|finally|lastly|afterwards|after (?:that|this)"
    r"|once (?:that|this)|going to|will|here(?:'s| is| are)|looking|reading|checking|running|starting|based on"
    r"|as (?:requested|discussed|you)|ran|read|checked|looked|opened|explored|reviewed|started|tried|done|ok(?:ay)?"
    r"|great|good|nice|sure|perfect|thanks|todo|to do|step|phase|task|plan|overall|in (?:summary|short|this)|maybe"
    r"|perhaps|possibly|hand(?:ing)? over|see also|used by|everything|all tests"
    r"|the (?:creator|planner|critic|editor|explorer|user|next (?:step|task|iteration|attempt)))\b",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"(?:add|create|implement|write|update|refactor|move|rename|remove|delete|fix|run|make|extract|change|replace"
    r"|introduce|wire|ensure|build|set up|define|extend|test|verify|check|review|consider|investigate|look|decide|start"
    r"|finish|open|edit|adjust|convert|migrate|install|commit|push|merge|document|clean|handle|return|raise|close"
    r"|validate)\b",
    re.IGNORECASE,
)
_ACCOMPLISHMENT = re.compile(
    r"(?:added|created|implemented|wrote|updated|refactored|moved|renamed|removed|deleted|fixed|made|extracted|changed"
    r"|replaced|introduced|wired|ensured|built|extended|tested|verified|validated|adjusted|converted|migrated|installed"
    r"|committed|pushed|merged|documented|cleaned|handled|finished|completed|switched|improved|tests? pass)\b",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"(?:[\w-]+ ){0,3}(?:implemented|changed|changes|verification|verified|commands?|files|run|status|results?|summary"
    r"|failure|title|tags|created|done|follow-?up)(?: \([^()]{0,40}\))?:",
    re.IGNORECASE,
)
# Starts of sentences that refer to a previous one.
_BACK_REFERENCE = re.compile(
    r"(?:it|its|they|these|those|that|both|otherwise|in (?:practice|that case)|without (?:it|this|that)"
    r"|all (?:live|are)|[a-z]+s (?:to|the|an?)"
    r"|this(?! (?:project|repo|repository|codebase|code base)\b))\b",
    re.IGNORECASE,
)
# Phrases for temporary states and guesses.
_TEMPORARY = re.compile(
    r"\b(?:now|i'll|i will|i am|i'm|let me|we will|we'll|will (?:add|need|be|have|then)|later on|currently"
    r"|at the moment|this (?:session|task|pr|pull request|change|diff|attempt|iteration|commit|review|plan)"
    r"|tests? pass(?:es|ed)?|as (?:mentioned|described|noted)|(?:see|the|listed|shown) (?:above|below)|previous attempt"
    r"|looks? (?:good|fine|ok)|lgtm|no (?:issues|problems)|not sure|i think|might|seems?|probably|unclear|todo)\b",
    re.IGNORECASE,
)
# Phrases for one-time events.
_EPISODE = re.compile(
    r"\b(?:took|tried|failed|fails|could(?:n't| not)|attempts?|today|yesterday|tomorrow|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|was|were|had|did|approv\w+|finish\w*|\d{4}-\d\d-\d\d"
    r"|after \d+ ?(?:s|ms|min|h)|times? out)\b",
    re.IGNORECASE,
)
_OWN_DECISION = re.compile(
    r"(?:i|we) (?:chose|decided|picked|opted|went|prefer|keep|kept|settled|ruled)\b", re.IGNORECASE
)
_CONCRETE = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{2,60}\"|“[^”\n]{2,60}”"
    r"|\w\(\)|\w::\w|\w_\w|\b[a-z]+[A-Z]\w|\b[A-Z]\w*[a-z][A-Z]|\b[A-Z][A-Z0-9]+\b|(?<![\w-])--?[a-z][\w-]+\b"
    r"|\d|\b[\w-]+/[\w./-]+|(?<=[a-z,;:)] )[A-Z][a-z]\w+|\b[Uu]ses? [a-z][\w.+-]+ for\b"
    r"|\b[a-z_]\w*\.[A-Za-z_]\w+|\b(?:lower|upper|snake|camel|kebab|pascal)[-_ ]?case"
)
_COMMENT = re.compile(r"<!--[^<>]{0,500}-->")
_HEADING = re.compile(r"#{1,6}\s|[=-]{3,}$|\|")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s+")
_CHECKBOX = re.compile(r"\[[ xX-]\]\s")
_IGNORED_SECTION = re.compile(
    r"\b(?:next steps?|steps|plan|to-?do|tasks?|questions?|what works|strengths|positives?|praise|done|changes made"
    r"|summary of changes|checklist|verification|hand-?over|commands? run)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+(?=[\"'(`*]?[A-Z0-9`_/])")
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "incl.", "no.")
_SIGIL = re.compile(rf"<\s*+(/?+)\s*+({'|'.join(SIGIL_NAMES)})\b(?>(?:[^<>]*+(?<=/)(>))?)", re.IGNORECASE)
_SIGNAL = re.compile(r"\bMEMORY\s*+:\s*+\w++\s*+:", re.IGNORECASE)


@record
class _Finding:
    kind: str
    text: str
    strength: int
    place: int


def extract_at_handover(from_hat: str, to_hat: str, text: str, at: str) -> list[Memory]:
    """Return the memories in the output of one role when it hands over to another."""
    kinds = HANDOVER_KINDS.get((from_hat, to_hat), ())
    if from_hat == "critic":
        tags = ("review", "critic-finding")
        findings = _findings(text, kinds, MAX_CRITIC_FINDINGS)
        return [_memory(finding, at, hat=from_hat, confidence=CRITIC_CONFIDENCE, tags=tags) for finding in findings]
    return [_memory(finding, at, hat=from_hat) for finding in _findings(text, kinds, MAX_FINDINGS)]


def extract_at_completion(notes: str, files: Sequence[str], at: str) -> list[Memory]:
    """Return the patterns and conventions in the notes of a completed task.

    A file named without its directory is resolved to the changed file of that name in `files`, if there is one.
    """
    memories = [_memory(finding, at) for finding in _findings(notes, COMPLETION_KINDS, MAX_FINDINGS, strict=True)]
    return [replace(memory, files=tuple(_resolve_path(path, files) for path in memory.files)) for memory in memories]


def _resolve_path(named: str, files: Sequence[str]) -> str:
    return next((path for path in files if path == named or path.endswith(f"/{named}")), named)


def extract_gate_fix(gate: str, problem: str, change: str, files: Sequence[str], at: str) -> Memory:
    """Return a memory of what fixed a failing gate: the problem and the change."""
    changed = ", ".join(one_line(path, 120) for path in files[:MAX_FILES])
    fix = _excerpt(change) or (f"Changed {changed}." if changed else "Not recorded.")
    program = program_of(gate)
    body = f"**Problem:** {_excerpt(problem) or 'It failed without output.'} ({program})\n\n**Fix:** {fix}"
    return Memory(
        id="",
        kind="fix",
        title=_fix_title(program, problem, fix),
        content=body,
        tags=(program, "quality-gate"),
        files=tuple(files[:MAX_FILES]) or find_paths(body, MAX_FILES),
        source=MemorySource.AUTOMATIC,
        confidence=GATE_FIX_CONFIDENCE,
        created_at=at,
        updated_at=at,
    )


_ERROR_CLASS = re.compile(r"^(?:[\w.]*(?:Error|Exception|Failure|Warning)|error(?:\[\w+\])?)\s*:\s*")
_NO_MESSAGE = re.compile(r"(?:it )?(?:failed|exited with \d+|ended by signal \d+)\b.{0,20}", re.IGNORECASE)


def _fix_title(program: str, problem: str, fix: str) -> str:
    """Return what was wrong in the words of the error, or else what was done."""
    message = _ERROR_CLASS.sub("", one_line(_excerpt(problem)))
    message = message.rpartition(" : ")[2] or message  # unittest puts the words of the test after the values
    if not message or _NO_MESSAGE.fullmatch(message):
        message = f"{program} failed: {fix}"
    return one_line(message, MAX_TITLE_LENGTH)


def _excerpt(text: str) -> str:
    return truncate(sanitize(text[:MAX_TEXT_LENGTH]), MAX_EXCERPT_LENGTH)


_LAUNCHERS = frozenset(
    "env sudo nice time timeout exec command sh bash zsh python python3 py node uv uvx pipx poetry pdm hatch rye npx"
    " pnpx bunx tox run".split()
)


def program_of(gate: str) -> str:
    """Return the name of the program a gate runs, without launchers: `pytest` for `uv run pytest -q`."""
    names = []
    for word in sanitize(gate[:1000]).split():
        name = word.strip("\"'()").rsplit("/", 1)[-1].lower()
        if name and not word.startswith("-") and "=" not in word and not name.isdigit():
            names.append(name)
    plain = [name for name in names if name not in _LAUNCHERS]
    return one_line((plain or names or ["gate"])[0], 40)


def _memory(
    finding: _Finding, at: str, *, hat: str | None = None, confidence: float | None = None, tags: tuple[str, ...] = ()
) -> Memory:
    return Memory(
        id="",
        kind=finding.kind,
        title=extract_title(finding.text),
        content=finding.text,
        tags=tags,
        files=find_paths(finding.text, MAX_FILES),
        hat=hat,
        source=MemorySource.AUTOMATIC,
        confidence=INITIAL_CONFIDENCE[MemorySource.AUTOMATIC] if confidence is None else confidence,
        created_at=at,
        updated_at=at,
    )


# --- findings ----------------------------------------------------------------------


def _findings(text: str, kinds: Sequence[str], most: int, *, strict: bool = False) -> list[_Finding]:
    """Return the most significant sentences of these kinds, in text order.

    With `strict`, sentences that may describe the session are dropped: completion notes are mostly about that.
    """
    if not kinds:
        return []
    sentences = [
        sentence
        for sentence in _sentences(sanitize(text[-MAX_TEXT_LENGTH:]))
        if not (strict and _EPISODE.search(sentence))
    ]
    candidates = (_finding(sentence, kinds, index, strict) for index, sentence in enumerate(sentences))
    findings: list[_Finding] = []
    words: list[set[str]] = []
    for finding in sorted(filter(None, candidates), key=lambda finding: (-finding.strength, finding.place)):
        own_words = set(normalized_words(finding.text).split())
        if len(findings) < most and not any(
            len(own_words & other) > MAX_WORD_OVERLAP * min(len(own_words), len(other)) for other in words
        ):
            findings.append(finding)
            words.append(own_words)
    return sorted(findings, key=lambda finding: finding.place)


def _finding(sentence: str, kinds: Sequence[str], place: int, strict: bool) -> _Finding | None:
    text = _without_introduction(sentence)
    if (
        not MIN_FINDING_LENGTH <= len(text) <= MAX_FINDING_LENGTH
        or text.endswith(("?", ":", ","))
        or not _is_lasting(text, kinds)
    ):
        return None
    concrete = len(set(_CONCRETE.findall(text)))
    cues, kind = max(((_cue_weight(text, kind, strict), kind) for kind in kinds), key=lambda item: item[0])
    if cues < MIN_CUE_WEIGHT or not concrete:
        return None
    return _Finding(kind=kind, text=text, strength=cues + min(concrete, 3), place=place)


def _cue_weight(text: str, kind: str, strict: bool) -> int:
    """Return the weight of the cues that a sentence is of this kind."""
    strong, weak = _patterns(kind)
    if strict and not any(cue.search(text) for cue in strong):
        return 0
    return MIN_CUE_WEIGHT * sum(1 for cue in strong if cue.search(text)) + sum(1 for cue in weak if cue.search(text))


@cache
def _patterns(kind: str) -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
    strong, weak = _CUES[kind]
    return [re.compile(cue, re.IGNORECASE) for cue in strong], [re.compile(cue, re.IGNORECASE) for cue in weak]


def _without_introduction(sentence: str) -> str:
    """Return a sentence without its introductory phrase."""
    introduction = _INTRODUCTION.match(sentence)
    text = sentence[introduction.end() :] if introduction else sentence
    return text[:1].upper() + text[1:] if introduction and text[1:2].islower() else text


def _is_lasting(text: str, kinds: Sequence[str]) -> bool:
    """Return whether a sentence is about the project rather than about the session or a temporary state."""
    if any(pattern.search(text) for pattern in (_SIGNAL, _SIGIL, _TEMPORARY)):
        return False
    if "decision" in kinds and _OWN_DECISION.match(text):
        return True
    return not any(
        pattern.match(text) for pattern in (_NARRATIVE, _INSTRUCTION, _ACCOMPLISHMENT, _REPORT, _BACK_REFERENCE)
    )


# --- sentences ---------------------------------------------------------------------


def _sentences(text: str) -> Iterator[str]:
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
    """Yield the lines outside code blocks and sigils; others are replaced by an empty line."""
    fence, sigil = "", ""
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
        yield "" if fence or was_inside or tags else line
