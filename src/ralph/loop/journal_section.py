"""Journal section of a prompt: notes of recent attempts, the newest first to get room. Pure."""

from __future__ import annotations

from ralph.core.records import OmittedItem, replace
from ralph.core.text import CHARACTERS_PER_TOKEN, compiled_pattern
from ralph.memory.recall.render import entry_limit, escape_inline, escape_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.core.records import Attempt

HEADING = "## Run Journal\n"
MIN_REPEATED_CHARACTERS = 20
"""Length from which notes that another section tells are not repeated, in characters."""
_SENTENCE_END = r"(?<=[.!?])\s+(?=[A-Z`])"
MIN_ENTRY_CHARACTERS = 500
"""Length that an entry may have if there is room for it at all, in characters."""


def untold_entries(
    entries: Sequence[Attempt], told: Mapping[str, str], known: Mapping[str, str]
) -> tuple[list[Attempt], list[OmittedItem]]:
    """Return the entries with those of their notes that no other section tells, and why others are left out.

    `told` has the text of other sections by their name, `known` the section that tells an entry by the entry's name.
    """
    kept, left_out = [], []
    plain = {section: " ".join(text.split()) for section, text in told.items()}
    for entry in entries:
        name = entry_name(entry)
        where = known.get(name) or _section_that_tells(entry.notes, plain)
        untold = _untold_notes(entry.notes, plain)
        if untold.strip() and not where:
            kept.append(replace(entry, notes=untold))
        else:
            left_out.append(OmittedItem(what=name, why=_why_left_out(entry.notes, where)))
    return kept, left_out


def _why_left_out(notes: str, where: str) -> str:
    return f"already in {where}" if where else "already in other sections" if notes.strip() else "has no notes"


def entry_name(entry: Attempt) -> str:
    """Return the name of an entry, which `ralph journal show` accepts."""
    return f"{entry.run_id}/{entry.iteration}"


def _section_that_tells(notes: str, told: Mapping[str, str]) -> str:
    """Return the name of the section that already has notes, or each of their sentences; empty if none has."""
    sentences = [_plain(one) for one in compiled_pattern(_SENTENCE_END).split(notes)]
    if len(_plain(notes)) < MIN_REPEATED_CHARACTERS:
        return ""
    return next((name for name, text in told.items() if all(one in text for one in sentences)), "")


def _untold_notes(notes: str, told: Mapping[str, str]) -> str:
    """Return notes without the sentences that another section has."""
    sentences = compiled_pattern(_SENTENCE_END).split(notes)
    untold = [one for one in sentences if len(_plain(one)) < MIN_REPEATED_CHARACTERS or not _is_told(one, told)]
    return notes if len(untold) == len(sentences) else " ".join(untold)


def _is_told(sentence: str, told: Mapping[str, str]) -> bool:
    return any(_plain(sentence) in text for text in told.values())


def _plain(text: str) -> str:
    return " ".join(escape_untrusted(text).split())


def journal_text(
    entries: Sequence[Attempt], budget_tokens: int, run_id: str | None = None, query: str = ""
) -> tuple[str, list[Attempt]]:
    """Return the journal section and the entries it shows, in their order.

    Long notes are shown by what matters for the query, so that more entries fit. If not all do, the newest of the run
    stay, then the best of others. With `run_id`, entries of other runs name their run.
    """
    room = budget_tokens * CHARACTERS_PER_TOKEN - len(HEADING)
    own = [entry for entry in entries if run_id is None or entry.run_id == run_id]
    by_priority = [*reversed(own), *(entry for entry in entries if entry not in own)]
    lengths = [len(_block(entry, run_id)) for entry in by_priority]
    while lengths and sum(min(length, MIN_ENTRY_CHARACTERS) for length in lengths) > room:
        lengths.pop()
    limit = max(MIN_ENTRY_CHARACTERS, entry_limit(lengths, room))
    blocks: dict[Attempt, str] = {}
    for entry in by_priority[: len(lengths)]:
        block = _block(entry, run_id, limit, query)
        if len(block) <= room:
            room -= len(block)
            blocks[entry] = block
    shown = [entry for entry in entries if entry in blocks]
    return (HEADING + "".join(blocks[entry] for entry in shown), shown) if shown else ("", [])


def _block(entry: Attempt, run_id: str | None, limit: int | None = None, query: str = "") -> str:
    """Return an entry, with as much of its notes as fits into a number of characters."""
    block = f"\n{_journal_entry(entry, run_id)}\n"
    if limit is None or len(block) <= limit:
        return block
    from ralph.core.tokenize import tokenize
    from ralph.memory.recall.excerpts import shorten

    rest = f"(the rest: ralph journal show {entry_name(entry)})"
    frame = len(_journal_entry(replace(entry, notes=""), run_id)) + len(rest) + 2
    notes = shorten(entry.notes, tokenize(query), max(0, limit - frame))[: max(0, limit - frame)]
    return f"\n{_journal_entry(replace(entry, notes=notes), run_id)}\n{rest}\n"


def _journal_entry(entry: Attempt, run_id: str | None) -> str:
    cost = f" | **Cost**: ${entry.cost_usd:.4f}" if entry.cost_usd else ""
    lines = [
        f"### Iteration {entry.iteration} [{entry.outcome}]",
        f"- **Task**: {entry.task_id or 'none'}",
        f"- **Model**: {escape_inline(entry.model or (f'default of {entry.agent}' if entry.agent else 'unknown'))}",
        f"- **Duration**: {entry.seconds:.1f}s{cost}",
        f"- **Files**: {', '.join(escape_inline(path) for path in entry.files) or 'none'}",
        f"- **Notes**: {escape_untrusted(entry.notes) or 'no notes'}",
    ]
    if run_id is not None and entry.run_id != run_id:
        lines.insert(1, f"- **Run**: {entry.run_id}, {entry.started_at[:10]}")
    return "\n".join(lines)
