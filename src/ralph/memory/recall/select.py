"""Selection of the few ranked memories to show.

A few relevant memories help; a long list distracts. What is hardly relevant by the estimate of `estimate` is dropped,
even if nothing else is left, and so is what is far less relevant than the best. Near-duplicates of a better memory are
dropped, and kinds not shown yet are preferred among equals.
"""

from __future__ import annotations

from ralph.core.records import MemorySource, record, session_key
from ralph.core.tokenize import parse_string_list
from ralph.memory.recall.evidence import describe_evidence, words_as_written
from ralph.memory.recall.relations import FIX, file_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory

MAX_SHOWN = 8
"""Number of memories shown by default."""
HIDE_BELOW_CONFIDENCE = 0.35
"""Confidence at or below which a memory that did not help is no longer shown."""
MIN_NET_LOSSES = 4
"""Minimum surplus of losses over wins before a memory is hidden for not helping."""
DUPLICATE_SIMILARITY = 0.4
"""Share of common vocabulary from which two memories are compared: they may say the same."""
MAX_COMPARED = 20
"""Number of best candidates among which outdated ones are looked for."""
MIN_COMMON_WORDS = 2
"""Number of words that a memory shares with one that is newer and says something else about the same."""
RESTATED_SHARE = 0.5
"""Share of the words of a title that a statement of the same attempt needs to say the same."""
SAME_KIND_FACTOR = 0.93
"""Score factor for each memory of the same kind already chosen."""
SAID_BY_GUIDE = "the guide that the agent reads already says it"
"""Reason why a memory is not shown."""


@record
class Cut:
    """Estimated relevance from which memories are shown."""

    minimum: float
    share_of_best: float
    """Share of the relevance of the best memory that the others need."""
    certain_share: float = 0.0
    """Share of the relevance of the best memory that one needs that certainly belongs to the query."""
    needs_subject: bool = False
    """Whether a query that is about nothing in particular brings nothing."""

    def minimum_for(self, ranked: Iterable[ScoredMemory]) -> float:
        """Return the relevance that one of these candidates needs."""
        return max(self.minimum, self.share_of_best * best_relevance(ranked))


PROMPT_CUT = Cut(minimum=0.05, share_of_best=0.08)
"""For the prompt of a task, which has room for several memories and is read once."""
SESSION_CUT = Cut(minimum=0.12, share_of_best=0.4, certain_share=0.1, needs_subject=True)
"""For what a person types into a session, where most prompts need no memory and three have to be enough."""


@record
class Selection:
    """Selection result for one ranked memory."""

    scored: ScoredMemory
    place: int
    """Rank, starting at 1."""
    evidence: str
    """What its estimated relevance rests on."""
    excluded_because: str = ""
    """Reason why it is not shown; empty if it is."""


def select(
    ranked: Sequence[ScoredMemory],
    context: RecallContext,
    limit: int = MAX_SHOWN,
    tags: Collection[str] = (),
    cut: Cut = PROMPT_CUT,
) -> list[Selection]:
    """Return the selection result of each ranked memory, in ranking order.

    With `tags`, only memories that have one of them are shown.
    """
    minimum = cut.minimum_for(ranked)
    certain_minimum = cut.certain_share * best_relevance(ranked)
    written = words_as_written(context)
    why_not: dict[int, str] = {}
    chosen: list[ScoredMemory] = []
    candidates: list[ScoredMemory] = []
    for hit in ranked:
        reason = _exclusion_reason(hit, context, tags) or irrelevance_reason(hit, written, minimum, certain_minimum)
        if reason:
            why_not[hit.row["seq"]] = reason
        else:
            candidates.append(hit)
    if cut.needs_subject and candidates:
        from ralph.memory.recall.subject import NO_SUBJECT, without_subject

        why_not |= {hit.row["seq"]: NO_SUBJECT for hit in without_subject(candidates, context)}
    why_not |= _restated(candidates) | _outdated(candidates)
    candidates = [hit for hit in candidates if hit.row["seq"] not in why_not]
    kinds: dict[str, int] = {}
    while candidates and len(chosen) < limit:
        best = max(candidates, key=lambda hit: hit.score * SAME_KIND_FACTOR ** kinds.get(hit.row["kind"], 0))
        candidates.remove(best)
        if duplicate := next((other for other in chosen if _is_near_duplicate(best, other)), None):
            if best.relevance > duplicate.relevance:
                chosen[chosen.index(duplicate)] = best
                best, duplicate = duplicate, best
            why_not[best.row["seq"]] = f"near-duplicate of {duplicate.row['id']}"
            continue
        chosen.append(best)
        kinds[best.row["kind"]] = kinds.get(best.row["kind"], 0) + 1
    why_not |= {hit.row["seq"]: f"not among the top {limit}" for hit in candidates}
    return [
        Selection(
            scored=hit,
            place=place,
            evidence=describe_evidence(hit, written),
            excluded_because=why_not.get(hit.row["seq"], ""),
        )
        for place, hit in enumerate(ranked, 1)
    ]


def _exclusion_reason(hit: ScoredMemory, context: RecallContext, tags: Collection[str]) -> str:
    if hit.row["id"] in context.shown:
        return "was already shown"
    if hit.row["id"] in context.guided:
        return SAID_BY_GUIDE
    if context.session and session_key(hit.row) == context.session:
        return "comes from this session"
    if tags and not set(tags) & set(parse_string_list(hit.row["tags"])):
        return "has none of the configured tags"
    if hit.row["losses"] - hit.row["wins"] >= MIN_NET_LOSSES and hit.row["confidence"] <= HIDE_BELOW_CONFIDENCE:
        attempts = hit.row["wins"] + hit.row["losses"]
        return f"did not help: only {hit.row['wins']} of {attempts} attempts that saw it completed their task"
    return ""


def best_relevance(ranked: Iterable[ScoredMemory]) -> float:
    """Return the relevance of the best candidate."""
    return max((hit.relevance for hit in ranked), default=0.0)


def irrelevance_reason(
    hit: ScoredMemory, written: Mapping[str, str], minimum: float, certain_minimum: float = 0.0
) -> str:
    """Return why a candidate is not relevant enough; empty if it is.

    What certainly belongs to the query needs `certain_minimum` only. `written` are the words of the query by stem.
    """
    minimum = min(minimum, certain_minimum) if hit.certainty else minimum
    if hit.relevance >= minimum:
        return ""
    if not (hit.is_related or hit.relevance or hit.too_few):
        return "has only everyday words in common with the task"
    return f"is hardly relevant: {describe_evidence(hit, written)} ({hit.relevance:.1%} likely, {minimum:.1%} needed)"


def _restated(candidates: Sequence[ScoredMemory]) -> dict[int, str]:
    """Return why inferred memories are left out whose subject their attempt stated itself, in better words."""
    stated = [hit for hit in candidates if hit.row["source"] == MemorySource.EXPLICIT]
    reasons: dict[int, str] = {}
    for hit in candidates if stated else ():
        subject = set(hit.row["title_words"].split())
        if hit.row["source"] != MemorySource.AUTOMATIC or not subject or not (origin := session_key(hit.row)):
            continue
        for other in stated:
            if session_key(other.row) == origin and len(subject & other.vocabulary) >= RESTATED_SHARE * len(subject):
                reasons[hit.row["seq"]] = f"says less than {other.row['id']}, which the same attempt stated"
    return reasons


def _outdated(candidates: Sequence[ScoredMemory]) -> dict[int, str]:
    """Return why memories are left out of which a later candidate says that something else holds now."""
    reasons: dict[int, str] = {}
    statements = sorted((hit for hit in candidates[:MAX_COMPARED] if hit.row["kind"] != FIX), key=_stated_at)
    for place, earlier in enumerate(statements):
        if earlier.row.get("pinned_at"):
            continue
        for later in statements[place + 1 :]:
            if not _may_outdate(later, earlier):
                continue
            from ralph.memory.lifecycle.frames import is_certain_change

            if is_certain_change(_text(later), _text(earlier)):
                reasons[earlier.row["seq"]] = f"{later.row['id']} is newer and says something else about it"
    return reasons


def _may_outdate(later: ScoredMemory, earlier: ScoredMemory) -> bool:
    """Return whether two memories may be about the same, so that the later one replaces what the earlier one says.

    What an agent states leaves what a person said; both are told.
    """
    new, old = later.row, earlier.row
    if len(earlier.vocabulary & later.vocabulary) < MIN_COMMON_WORDS or new["feature"] != old["feature"]:
        return False
    if session_key(new) and old["source"] == MemorySource.EXPLICIT and not session_key(old):
        return False
    if (later.files or earlier.files) and not set(map(file_key, later.files)) & set(map(file_key, earlier.files)):
        return False
    tags, earlier_tags = (set(parse_string_list(row["tags"])) for row in (new, old))
    return not (tags and earlier_tags) or bool(tags & earlier_tags)


def _stated_at(hit: ScoredMemory) -> tuple[str, str]:
    """Return when a memory was stated, edited or verified; an import verifies all at once, which is no order."""
    row = hit.row
    verified = "" if row["source"] == MemorySource.IMPORTED else str(row["verified_at"] or "")
    return max(verified, str(row["updated_at"])), str(row["id"])


def _text(hit: ScoredMemory) -> str:
    return str(hit.row["body"] or hit.row["title"])


def _has_similar_words(hit: ScoredMemory, other: ScoredMemory) -> bool:
    ours, theirs = hit.vocabulary, other.vocabulary
    return 2 * len(ours & theirs) >= DUPLICATE_SIMILARITY * (len(ours) + len(theirs))


def _is_near_duplicate(hit: ScoredMemory, other: ScoredMemory) -> bool:
    """Return whether two memories say the same; what says something else about the same is shown beside it."""
    kinds = {hit.row["kind"], other.row["kind"]}
    if not _has_similar_words(hit, other) or (FIX in kinds and len(kinds) > 1):
        return False  # what failed once is not what holds
    if hit.files and other.files and not set(map(file_key, hit.files)).intersection(map(file_key, other.files)):
        return False  # the same words about other places, as of two reports that follow one template
    from ralph.memory.lifecycle.same_fact import ONE_FACT, relate

    return relate(_text(hit), _text(other)) in ONE_FACT
