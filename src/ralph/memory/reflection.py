"""Reflection on past work: what an agent is shown, what it may cost per day, and what became of its proposals.

What is added waits in the staging area, quarantined like what agents import, so that only a person brings it into use.
Merges, corrections and removals wait beside the amount spent today, until a person applies or discards them.
"""

from __future__ import annotations

import json
import time

from ralph.core.errors import NotFoundError, RalphError, UsageError
from ralph.core.records import Memory, MemorySource, MemoryState, now, record, record_fields, replace, timestamp
from ralph.core.text import extract_title, find_paths, format_usd
from ralph.memory.capture.reflection import Evidence, Proposal, ReflectionMaterial, content_mark, fit_material
from ralph.memory.lifecycle.duplicates import merge_duplicates
from ralph.store.episodes import EpisodeFilter
from ralph.store.import_cursors import REFLECTION
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter
from ralph.store.paraphrases import find_paraphrase
from ralph.store.superseded_rules import is_persons

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.memory.capture.reflection import ReflectionAnswer
    from ralph.store import Store

DAY_SECONDS = 86_400.0
CONFIDENCE = 0.5
"""Confidence of what a reflection adds."""
MAX_PASSAGES, MAX_FAILURES, MAX_MEMORIES = 100, 40, 200
"""Numbers of the newest passages, failures and memories among which the material is chosen."""
MAX_WAITING = 50
"""Number of proposals that wait for a person; the oldest are dropped beyond it."""


@record
class ReflectionState:
    """What is kept between reflections."""

    day: str = ""
    """Date of the amount, in UTC."""
    spent_usd: float = 0.0
    """What reflections of that day cost, or may cost while they run."""
    at: str = ""
    """Until when past work was looked at."""
    proposals: tuple[Proposal, ...] = ()
    """Merges, corrections and removals that wait for a person."""


@record
class AppliedProposals:
    """What became of proposals that a person applied."""

    applied: tuple[Proposal, ...]
    skipped: tuple[Proposal, ...]
    """Those about memories that have changed since."""
    change_id: str = ""
    """Id of the change to undo; empty when nothing was changed."""


# --- what is shown ---------------------------------------------------------------------------


def gather_material(store: Store, since: str, length: int) -> ReflectionMaterial:
    """Return past work since a time, newest first, and the memories that are staged, were learned or used since."""
    episodes = store.episodes.newest(EpisodeFilter(after=since), MAX_PASSAGES)
    said = [(one.at, f"{one.kind}, {one.speaker}, {one.at[:16]}", one.text, one.id) for one in episodes]
    said += _notes(store, since, {one.source for one in episodes})
    said.sort(key=lambda one: one[0], reverse=True)
    passages = [
        Evidence(id=f"E{number}", label=label, text=text, source=source)
        for number, (_, label, text, source) in enumerate(said, start=1)
    ]
    reports = [one for one in store.failures.latest(MAX_FAILURES) if one.created_at >= since]
    failures = [
        Evidence(
            id=f"F{number}",
            label=f"{one.category}, {one.task_id} attempt {one.attempt_number}, {one.created_at[:16]}",
            text="\n".join(filter(None, (one.tried, one.why, one.trace, one.retry_suggestion))),
            source=f"{one.run_id}/{one.iteration}",
        )
        for number, one in enumerate(reports, start=1)
    ]
    staged = store.memories.find(MemoryFilter(states=(MemoryState.STAGED,)))
    active = [one for one in store.memories.find(MemoryFilter()) if max(one.used_at or "", one.updated_at) >= since]
    active.sort(key=lambda one: max(one.used_at or "", one.updated_at), reverse=True)
    memories = [*active, *staged][:MAX_MEMORIES]
    material = ReflectionMaterial(passages=tuple(passages), failures=tuple(failures), memories=tuple(memories))
    fitting = fit_material(material, length)
    personal = (one.id for one in fitting.memories if is_persons(store.memories, one))
    return replace(fitting, personal=frozenset(personal))


def _notes(store: Store, since: str, told: set[str]) -> list[tuple[str, str, str, str]]:
    """Return when, what, text and name of attempts that said nothing but sigils: what they noted and stated.

    `told` has the names of attempts with passages of their own.
    """
    found = []
    for one in store.attempts.latest(MAX_PASSAGES):
        name, at = f"{one.run_id}/{one.iteration}", one.ended_at or ""
        if at < since or not one.task_id or name in told:
            continue
        stated = store.memories.listing.learned_in_attempt(one.run_id, one.task_id, one.number or 0)
        said = [one.notes, *(memory.content for memory in stated if memory.content not in one.notes)]
        if any(said):
            text = "\n".join(filter(None, (f"{store.tasks.get(one.task_id).title}: {one.outcome}", *said)))
            found.append((at, f"notes of an attempt, {one.task_id} attempt {one.number}, {at[:16]}", text, name))
    return found


def default_since(state: ReflectionState, *, only_new: bool) -> str:
    """Return since when past work is looked at: a day, or with `only_new` what the last reflection has not seen."""
    day = timestamp(time.time() - DAY_SECONDS)
    return max(day, state.at) if only_new else day


# --- what it may cost ------------------------------------------------------------------------


def read_state(store: Store) -> ReflectionState:
    """Return what is kept between reflections; on another day, nothing is spent yet."""
    mark, today = store.episodes.cursors.get(REFLECTION).mark, now()[:10]
    try:
        fields = json.loads(mark or "{}")
        state = ReflectionState(
            day=today,
            spent_usd=float(fields["spent_usd"]) if fields.get("day") == today else 0.0,
            at=str(fields.get("at", "")),
            proposals=tuple(_read_proposal(one) for one in fields.get("proposals", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ReflectionState(day=today)  # not written by Ralph
    return state


def _read_proposal(fields: dict[str, Any]) -> Proposal:
    return Proposal(
        action=str(fields["action"]),
        ids=tuple(map(str, fields["ids"])),
        kind=str(fields["kind"]),
        content=str(fields["content"]),
        reason=str(fields["reason"]),
        quotes=tuple((str(id), str(quote)) for id, quote in fields["quotes"]),
        marks=tuple(map(str, fields["marks"])),
    )


def save_state(store: Store, state: ReflectionState) -> None:
    """Store what is kept between reflections."""
    fields = record_fields(state) | {"proposals": [record_fields(one) for one in state.proposals]}
    store.episodes.cursors.save(REFLECTION, 0, json.dumps(fields, ensure_ascii=False))


def reserve(store: Store, amount: float, limit: float | None) -> float:
    """Count an amount as spent today before a session starts, and return what was spent before.

    Raises `RalphError` if that is more than the limit of the day.
    """
    with store.transaction():
        state = read_state(store)
        if limit is not None and (state.spent_usd >= limit or state.spent_usd + amount > limit):
            spent = f"{format_usd(state.spent_usd)} of {format_usd(limit)} are spent today"
            about = f", and a reflection costs about {format_usd(amount)}" if amount else ""
            raise RalphError(
                f"Nothing was reflected on: {spent}{about}. Raise reflect_cents under [learning] in .ralph.toml,"
                " or use: ralph learn reflect --max-cost USD",
                code="reflection-budget",
            )
        save_state(store, replace(state, spent_usd=round(state.spent_usd + amount, 6)))
        return state.spent_usd


def settle(store: Store, reserved: float, cost: float, seen_until: str = "") -> ReflectionState:
    """Replace a reserved amount by the cost, and record until when past work was looked at."""
    with store.transaction():
        state = read_state(store)
        spent = round(max(0.0, state.spent_usd - reserved) + cost, 6)
        state = replace(state, spent_usd=spent, at=seen_until or state.at)
        save_state(store, state)
        return state


# --- what becomes of it ----------------------------------------------------------------------


def stage_answer(store: Store, answer: ReflectionAnswer, agent: str) -> tuple[list[Memory], list[Proposal], list[str]]:
    """Stage additions and keep other proposals for a person; return both, and why further ones do not count."""
    added: list[Memory] = []
    known: list[str] = []
    with store.transaction():
        for proposal in answer.proposals:
            if proposal.action == "add":
                memory, says_so = _stage(store, proposal, agent)
                (known.append(says_so) if says_so else added.append(memory))
        state = read_state(store)
        proposed = [one for one in answer.proposals if one.action != "add"]
        again = {id for one in proposed for id in one.ids}
        waiting = [one for one in state.proposals if not again & set(one.ids)]  # the latest word on a memory counts
        save_state(store, replace(state, proposals=tuple([*waiting, *proposed][-MAX_WAITING:])))
    return added, proposed, known


def _stage(store: Store, proposal: Proposal, agent: str) -> tuple[Memory, str]:
    """Stage an addition, or return the memory that says it already and a sentence about that."""
    at = now()
    memory = Memory(
        id="",
        kind=proposal.kind,
        title=extract_title(proposal.content),
        content=proposal.content,
        files=find_paths(proposal.content),
        source=MemorySource.AUTOMATIC,
        # Only a person brings it into use: validation would accept whatever the agent was made to say.
        state=MemoryState.QUARANTINED,
        state_reason=f"proposed by {agent} when it reflected; evidence: {proposal.evidence}",
        confidence=CONFIDENCE,
        created_at=at,
        updated_at=at,
    )
    if found := find_paraphrase(store.memories, memory):
        return found.known, f"{found.known.id} says already: {proposal.content}"
    change = ChangeInfo(who="agent", why=f"reflection; evidence: {proposal.evidence}")
    (result,) = store.memories.import_memories([(memory, ())], change)
    said = (
        "" if result.what == "added" else f"{result.memory.id} ({result.memory.state}) says already: {proposal.content}"
    )
    return result.memory, said


def take(store: Store, numbers: Sequence[int]) -> list[Proposal]:
    """Remove proposals from those that wait, by number from 1 or all, and return them."""
    state = read_state(store)
    for number in numbers:
        if not 1 <= number <= len(state.proposals):
            raise NotFoundError("Proposal", f"{number} ({len(state.proposals)} wait; see: ralph learn proposals)")
    chosen = set(numbers) or set(range(1, len(state.proposals) + 1))
    if not chosen:
        raise UsageError("No proposals are waiting. To get some: ralph learn reflect", code="no-proposals")
    left = [one for number, one in enumerate(state.proposals, start=1) if number not in chosen]
    save_state(store, replace(state, proposals=tuple(left)))
    return [state.proposals[number - 1] for number in sorted(chosen)]


def apply_proposals(store: Store, numbers: Sequence[int], who: str) -> AppliedProposals:
    """Apply proposals that wait, all or those with a number, as one change that can be undone."""
    change = ChangeInfo(who=who, why="", id=change_id())
    applied: list[Proposal] = []
    skipped: list[Proposal] = []
    with store.transaction():
        for proposal in take(store, numbers):
            why = f"proposed by a reflection; {proposal.reason or proposal.evidence or 'says the same'}"
            (applied if _apply(store, proposal, replace(change, why=why)) else skipped).append(proposal)
    return AppliedProposals(applied=tuple(applied), skipped=tuple(skipped), change_id=change.id if applied else "")


def _apply(store: Store, proposal: Proposal, change: ChangeInfo) -> bool:
    """Apply a proposal; return False if a memory has changed since, or a person has stated or pinned it."""
    by_id = {one.id: one for one in store.memories.find_by_ids(proposal.ids)}
    memories = [by_id[id] for id in proposal.ids if id in by_id]
    in_use = (MemoryState.ACTIVE, MemoryState.STAGED)
    if tuple(map(content_mark, memories)) != proposal.marks or any(one.state not in in_use for one in memories):
        return False
    if any(is_persons(store.memories, one) for one in memories):
        return False
    at, first = now(), memories[0]
    words: dict[str, object] = {}
    if proposal.content:
        words = {"title": extract_title(proposal.content), "content": proposal.content}
    if proposal.action == "merge":
        merged = replace(merge_duplicates(first, memories[1:], at), **words)
        return store.memories.consolidate(first, merged, memories[1:], change)
    if proposal.action == "correct":
        paths = find_paths(proposal.content)
        store.memories.update(first.id, "edited", change, **words, files=paths, updated_at=at)
    else:
        is_staged = first.state is MemoryState.STAGED
        state, what = (MemoryState.REJECTED, "rejected") if is_staged else (MemoryState.PRUNED, "deleted")
        store.memories.update(first.id, what, change, state=state, state_reason=change.why, updated_at=at)
    return True
