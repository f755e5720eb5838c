"""Guides and skills compiled from confirmed memories: AGENTS.md, CLAUDE.md and `.claude/skills/NAME/SKILL.md`."""

from __future__ import annotations

import stat
from pathlib import Path

from ralph.core.errors import ConflictError, RalphError, UsageError
from ralph.core.files import write_atomically
from ralph.core.guides import BEGIN, COMMENT_END, END, GUIDES, SKILL, SOURCES, find_sections, fingerprint_line
from ralph.core.records import MemoryState, now, record
from ralph.core.text import one_line, sanitize, slugify
from ralph.memory.guide_groups import about_topic, group_memories, is_confirmed
from ralph.memory.recall.guided import guide_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.core.actor import Actor
    from ralph.core.guides import GuideSection
    from ralph.core.records import Memory
    from ralph.memory.service import MemoryService
    from ralph.store import Store

RULES_SECTION, TOPIC_PREFIX = "rules", "topic "
"""Name of the section with the rules for all work, and how the names of the others begin."""
SKILLS_FOLDER = ".claude/skills"
MIN_LINES, MAX_LINES = 2, 40
"""Number of memories that make a section, and that fit into one."""
MAX_LINE_CHARACTERS = 600
"""Length of a memory above which it is not a line of a guide."""
MAX_TOPIC_CHARACTERS = 60
NO_MEMORIES = frozenset(("estimate",))
"""Types that are figures."""


@record
class OutdatedLine:
    """A line of a guide whose memory no longer says it."""

    path: str
    memory_id: str
    why: str
    command: str
    """Command that corrects it."""


@record
class GuideProposal:
    """A file as compiling would write it."""

    path: str
    """Relative to the project."""
    before: bytes | None
    after: bytes
    memories: tuple[str, ...] = ()
    """Ids of the memories that it says."""
    outdated: tuple[OutdatedLine, ...] = ()
    """Lines that it corrects or removes."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Memories that are confirmed but not in it, each with the reason."""
    has_section: bool = True
    """Whether it has a section about what was asked for."""


class GuideService:
    """Guides and skills of one opened project."""

    def __init__(self, store: Store, memory: MemoryService, directory: str, actor: Actor, *, has_files: bool) -> None:
        """`has_files`: the files of the project are in `directory`."""
        self._store = store
        self._memory = memory
        self._root = Path(directory)
        self._actor = actor
        self._has_files = has_files

    def topics(self) -> dict[str, int]:
        """Return what several confirmed memories have in common, with their number."""
        rules = {one.id for one in self._rules()}
        confirmed = [one for one in self._confirmed(self._stale()) if one.id not in rules and not _unfit(one)]
        return {name: len(group) for name, group in group_memories(confirmed).items()}

    def propose(self, target: str = "", topic: str = "", *, dry_run: bool = False) -> GuideProposal | None:
        """Return a guide or a skill with what is confirmed, and its other sections renewed; None if nothing is.

        Without a topic, it is about the rules for all work.
        """
        if not dry_run:
            self._actor.require("learn.compile")
        if not self._has_files:
            raise UsageError("Guides are compiled in the directory of their project only.", code="other-project")
        topic = _clean_topic(topic)
        if target == SKILL and not topic:
            raise UsageError("A skill needs a topic: ralph learn compile --to SKILL --topic WORDS", code="no-topic")
        path = self._skill_path(topic) if target == SKILL else target or self._default_guide()
        before = self._read(path)
        if target == SKILL and before is not None and BEGIN.encode() not in before:
            raise UsageError(f"{path} was not compiled by Ralph. Use another --topic.", code="file-exists")
        return self._compile(path, before, f"{TOPIC_PREFIX}{topic}" if topic else RULES_SECTION)

    def write(self, proposal: GuideProposal) -> None:
        """Write a proposal, unless the file has changed since."""
        self._actor.require("learn.compile")
        if self._read(proposal.path) != proposal.before:
            raise ConflictError(f"{proposal.path} has changed meanwhile. Run the command again.")
        path = self._root / proposal.path
        try:
            if proposal.before is not None and not path.stat().st_mode & stat.S_IWUSR:
                raise _not_writable(f"{proposal.path} is read-only; make it writable first: chmod u+w {proposal.path}")
            write_atomically(path, proposal.after)
        except OSError as error:
            raise _not_writable(f"Cannot write {proposal.path}: {error.strerror}.") from error

    def outdated(self) -> list[OutdatedLine]:
        """Return the lines of all guides and skills whose memory no longer says them."""
        texts = {path: self._text_or_none(path) for path in self._files()}
        found = {path: find_sections(text)[0] for path, text in texts.items() if text}
        if not any(found.values()):
            return []
        stale = self._stale()
        return [line for path, sections in found.items() for line in self._outdated_in(path, sections, stale)]

    # --- memories ----------------------------------------------------------------------

    def _stale(self) -> dict[str, str]:
        from ralph.memory.freshness import current_staleness

        return current_staleness(self._store, self._root)

    def _confirmed(self, stale: dict[str, str]) -> list[Memory]:
        from ralph.store.superseded_rules import is_persons

        at, memories = now(), self._store.memories
        return [
            one
            for one in memories.all()
            if one.kind not in NO_MEMORIES
            and one.id not in stale
            and (is_confirmed(one, at) or is_persons(memories, one))
        ]

    def _rules(self) -> list[Memory]:
        """Return the memories that state rules for all work and contradict no other, the most trusted first."""
        ids = [one.stated.id for one in self._memory.rules.standing() if one.stated.is_memory and not one.conflicts]
        places = {id: place for place, id in enumerate(ids)}
        return sorted(self._store.memories.find_by_ids(ids), key=lambda one: places[one.id])

    def _overruled(self) -> dict[str, str]:
        """Return why memories no longer hold of which a later rule says otherwise, by id."""
        found: dict[str, str] = {}
        for rule in self._memory.rules.standing():
            found |= {one.id: f"{rule.stated.id} says otherwise since {rule.stated.at[:10]}" for one in rule.superseded}
            if rule.conflicts:
                found[rule.stated.id] = f"contradicts {rule.conflicts[0].id}; see: ralph memory conflicts"
        return found

    def _outdated_in(
        self, path: str, sections: Iterable[GuideSection], stale: dict[str, str]
    ) -> Iterator[OutdatedLine]:
        overruled = self._overruled()
        for section in sections:
            known = {one.id: one for one in self._store.memories.find_by_ids(section.sources)}
            for id, mark in section.sources.items():
                reasons = (_why_outdated(known.get(id), mark), overruled.get(id), stale.get(id))
                if why := next(filter(None, reasons), ""):
                    yield OutdatedLine(path=path, memory_id=id, why=why, command=_command(path, section.name))

    # --- compiling ---------------------------------------------------------------------

    def _compile(self, path: str, before: bytes | None, name: str) -> GuideProposal | None:
        text = (before or b"").decode("utf-8", "surrogateescape")
        sections, unclosed = find_sections(text.replace("\r\n", "\n"))
        names = [one.name for one in sections]
        if unclosed is not None or len(set(names)) < len(names):
            where = f"line {unclosed + 1} of {path} has no {END}" if unclosed is not None else f"{path} has one twice"
            raise RalphError(f"The markers are damaged: {where}. Repair or remove the section.", code="guide-markers")
        name = next((one for one in names if one.casefold() == name.casefold()), name)
        stale = self._stale()
        outdated = tuple(self._outdated_in(path, sections, stale))
        confirmed = self._confirmed(stale)
        taken: set[str] = set()
        left_out: dict[str, str] = {}
        written: dict[str, list[Memory]] = {}
        for one in dict.fromkeys((*names, name)):
            known = next((section for section in sections if section.name == one), None)
            wanted = [memory for memory in self._members(one, known, confirmed, outdated) if memory.id not in taken]
            left_out |= {memory.id: why for memory in wanted if (why := _unfit(memory))}
            fit = [memory for memory in wanted if memory.id not in left_out]
            left_out |= {memory.id: f"a section has at most {MAX_LINES} lines" for memory in fit[MAX_LINES:]}
            written[one] = fit[:MAX_LINES] if known or len(fit) >= MIN_LINES else []
            taken |= {memory.id for memory in written[one]}
        if not taken and not sections:
            return None
        new = _with_sections(text, sections, written, head=_skill_head(path, name, written[name]))
        return GuideProposal(
            path=path,
            before=before,
            after=new.encode("utf-8", "surrogateescape"),
            memories=tuple(memory.id for group in written.values() for memory in group),
            outdated=outdated,
            left_out=tuple(left_out.items()),
            has_section=bool(written[name]),
        )

    def _members(
        self, name: str, known: GuideSection | None, confirmed: Sequence[Memory], outdated: Sequence[OutdatedLine]
    ) -> list[Memory]:
        """Return the memories of a section: what it says and still holds, in its order, then what is new.

        What it says stays although it is no longer confirmed by use, because prompts do not show it.
        """
        ids = {one.id for one in confirmed}
        rules = [one for one in self._rules() if one.id in ids]
        wanted = rules if name == RULES_SECTION else about_topic(confirmed, name.removeprefix(TOPIC_PREFIX))
        gone = {one.memory_id for one in outdated}
        kept = self._store.memories.find_by_ids(known.sources) if known else []
        places = {id: place for place, id in enumerate(known.sources)} if known else {}
        kept = sorted((one for one in kept if one.id not in gone or one.id in ids), key=lambda one: places[one.id])
        overruled = self._overruled()
        return [one for one in {one.id: one for one in (*kept, *wanted)}.values() if one.id not in overruled]

    # --- files -------------------------------------------------------------------------

    def _default_guide(self) -> str:
        """Return the guide that the project has; AGENTS.md if it has none, or both."""
        return next((name for name in GUIDES if (self._root / name).exists()), GUIDES[0])

    def _skill_path(self, topic: str) -> str:
        name = slugify(topic.encode("ascii", "ignore").decode(), MAX_TOPIC_CHARACTERS)
        if not name:
            raise UsageError(f"Cannot name a skill after {topic!r}. Use Latin letters or digits.", code="no-topic")
        return f"{SKILLS_FOLDER}/{name}/SKILL.md"

    def _files(self) -> list[str]:
        skills = sorted(self._root.glob(f"{SKILLS_FOLDER}/*/SKILL.md"))
        return [*GUIDES, *(str(path.relative_to(self._root)) for path in skills)]

    def _text_or_none(self, path: str) -> str | None:
        try:
            content = None if (self._root / path).is_symlink() else self._read(path)
        except RalphError:
            return None
        return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n") if content else None

    def _read(self, path: str) -> bytes | None:
        """Return the content of a file, None if there is none; raise if it is not a plain file of this directory."""
        place = self._root
        for part in path.split("/"):
            place /= part
            if place.is_symlink():
                name = place.relative_to(self._root)
                raise _not_writable(f"{name} is a symlink, and guides are not written through symlinks.")
        try:
            if place.exists() and not place.is_file():
                raise _not_writable(f"{path} is not a file.")
            return place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _not_writable(f"Cannot read {path}: {error.strerror}.") from error


def _not_writable(message: str) -> RalphError:
    return RalphError(message, code="guide-not-writable")


def _command(path: str, name: str) -> str:
    """Return the command that compiles a section."""
    import shlex

    to = path if path in GUIDES else f"{SKILL} --topic {shlex.quote(name.removeprefix(TOPIC_PREFIX))}"
    return f"ralph learn compile --to {to}"


def _why_outdated(memory: Memory | None, mark: str) -> str:
    """Return why a memory no longer says a line; empty if it does."""
    if memory is None:
        return "was deleted"
    if memory.state is MemoryState.SUPERSEDED and memory.superseded_by:
        return f"was superseded by {memory.superseded_by}"
    if memory.state is not MemoryState.ACTIVE:
        return f"is {memory.state}: {memory.state_reason}".rstrip(": ")
    return "was edited" if fingerprint_line(guide_line(memory)) != mark else ""


def _unfit(memory: Memory) -> str:
    """Return why a memory cannot be a line of a guide."""
    if len(memory.content) > MAX_LINE_CHARACTERS or "```" in memory.content:
        return f"is longer than {MAX_LINE_CHARACTERS} characters or has a code block"
    if memory.id.split() != [memory.id] or COMMENT_END in memory.id:
        return "has an id that cannot be in a comment"
    if sanitize(memory.content) != memory.content.strip():
        return "may hold a secret"
    return ""


def _with_sections(
    text: str, sections: Sequence[GuideSection], written: dict[str, list[Memory]], head: Sequence[str]
) -> str:
    """Return a text with its sections replaced, and new ones at its end; all else stays as it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = text.split("\n")
    for section in reversed(sections):
        new = _section_rows(section.name, written[section.name])
        last = section.last + (not new and rows[section.last + 1 : section.last + 2] == [""])
        ending = "\r" if newline == "\r\n" else ""
        final = "" if last == len(rows) - 1 else ending  # no line ending after the last row of the file
        endings = [*([ending] * (len(new) - 1)), final]
        rows[section.first : last + 1] = [row + end for row, end in zip(new, endings, strict=False)]
    text = "\n".join(rows)
    known = {section.name for section in sections}
    for name, memories in written.items():
        if name not in known and memories:
            gap = "" if not text else newline if text.endswith("\n") else 2 * newline
            before = [] if text else head
            text += gap + "".join(row + newline for row in (*before, *_section_rows(name, memories)))
    return text


def _section_rows(name: str, memories: Sequence[Memory]) -> list[str]:
    if not memories:
        return []
    lines = {one.id: guide_line(one) for one in memories}
    return [
        f"{BEGIN}{name} {COMMENT_END}",
        f"## {_title(name)}",
        "",
        "Compiled from the project's memory with `ralph learn compile`; change the memories, then compile again.",
        "",
        *lines.values(),
        "",
        SOURCES,
        *(f"{id} {fingerprint_line(line)}" for id, line in lines.items()),
        COMMENT_END,
        END,
    ]


def _title(name: str) -> str:
    return "Project Rules" if name == RULES_SECTION else f"What Is Known about {name.removeprefix(TOPIC_PREFIX)}"


def _clean_topic(topic: str) -> str:
    """Return a topic as it may be in a heading and in a marker."""
    from ralph.memory.recall.render import escape_inline

    text = escape_inline(sanitize(topic)).translate(dict.fromkeys(map(ord, "<>`@#\\"), " "))
    return one_line("-".join(filter(None, text.split("-"))), MAX_TOPIC_CHARACTERS)


def _skill_head(path: str, topic: str, memories: Sequence[Memory]) -> list[str]:
    """Return the front matter of a new skill; nothing for a guide."""
    if not path.startswith(SKILLS_FOLDER):
        return []
    import json

    from ralph.memory.recall.render import escape_inline

    examples = "; ".join(one_line(escape_inline(one.title), 80) for one in memories[:3])
    topic = topic.removeprefix(TOPIC_PREFIX)
    text = f"What this project has learned about {topic}: {examples}. Use it for work on {topic}."
    text = text.translate(dict.fromkeys(map(ord, "<>")))
    # A JSON string is a YAML string too, so that no title can end the field.
    return ["---", f"name: {path.split('/')[-2]}", f"description: {json.dumps(text, ensure_ascii=False)}", "---", ""]
