"""Recall of episodes for a context, by the same words and the same ranking as memories."""

from __future__ import annotations

import re

from ralph.core.records import RecalledEpisode, now, replace
from ralph.core.text import compiled_pattern
from ralph.core.tokenize import tokenize
from ralph.memory.recall.common_words import COMMON_STEMS
from ralph.memory.recall.evidence import describe_evidence, words_as_written
from ralph.memory.recall.query import build_query
from ralph.memory.recall.rank import Ranking
from ralph.memory.recall.scored import EPISODE_WEIGHTS
from ralph.memory.recall.select import Cut, irrelevance_reason
from ralph.store.episodes import EpisodeFilter, row_to_episode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.core.records import Episode
    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory
    from ralph.store import Store

MAX_CANDIDATES = 60
"""Number of episodes fetched from the word index."""
MAX_RECALLED = 12
"""Number of episodes returned by default; a prompt has room for fewer."""
ENDED_SOURCES = 4
"""Number of best matching sessions whose last passage is a candidate, whatever its words."""
SOURCE_SHARE_OF_BEST = 0.15
"""Share of the relevance of the best source that the others need."""
MIN_SUBJECT_WORDS, MIN_SUBJECT_SHARE = 6, 0.3
"""Telling words that two sources about the same subject have in common: their number, and their share of the smaller
vocabulary."""
_CHANGE = (
    r"(?i)\b(?:supersed\w*|amend\w*|no longer|from now on|going forward|overrul\w*|revok\w*|changed (?:our|my) minds?"
    r"|(?:replaces?|replacing|instead of) the (?:old|previous|earlier|current)"
    r"|(?:old|previous|earlier) (?:rule|cap|limit|policy|decision|behaviou?r|convention)"
    r"|(?:updates?|changes?) to the \w+ (?:policy|rule|decision|convention))\b"
)
"""Words that say that something was decided otherwise before."""
MIN_TELLING = 2
"""Number of telling words that a passage has in common with a query; with thousands of them, one is by chance."""
MAX_TELLING_SHARE = 0.15
"""The same for what a person types into a session, as a share of the telling words of the query: a long prompt has
several words in common with some passage by chance."""
PASSAGE_CUT = Cut(minimum=0.02, share_of_best=0.04)
"""For the prompt of a task."""
SESSION_PASSAGE_CUT = Cut(minimum=0.3, share_of_best=0.4, needs_subject=True)
"""For what a person types into a session."""
_ASKS_ABOUT_PAST = re.compile(
    r"\b(?:decid\w+|decisions?|agreed?|discuss\w*|remember|last time|earlier|previously|back then|used to"
    r"|(?:did|do|have|had|were|are) we|why (?:do|did|is|are|was|were))\b",
    re.IGNORECASE,
)
"""Words of a question about the past, which one telling word answers."""


def recall_episodes(
    store: Store,
    context: RecallContext,
    limit: int = MAX_RECALLED,
    filter: EpisodeFilter | None = None,
    *,
    cut: Cut = PASSAGE_CUT,
    by_meaning: bool = False,
) -> list[RecalledEpisode]:
    """Return the episodes to show for a context, best first. Those of its own session are left out."""
    ranked = rank_episodes(store, context, filter, by_meaning=by_meaning, is_strict=cut.needs_subject)
    if cut.needs_subject and ranked:
        from ralph.memory.recall.subject import without_subject

        lacking = set(without_subject(ranked, context))
        ranked = [hit for hit in ranked if hit not in lacking]
    minimum = cut.minimum_for(ranked) / (2 if _asks_about_past(context) else 1)
    written = words_as_written(context)
    reasons = exclusion_reasons(ranked, context, written, minimum)
    recalled = [to_recalled(hit, written) for hit, why_not in zip(ranked, reasons, strict=True) if not why_not][:limit]
    others = [to_recalled(hit, written) for hit, why_not in zip(ranked, reasons, strict=True) if why_not]
    return _without_weak_sources(with_changes(recalled, others))


def with_changes(recalled: list[RecalledEpisode], others: Sequence[RecalledEpisode]) -> list[RecalledEpisode]:
    """Return recalled passages together with later ones, among all candidates, that change what they say.

    Whatever its words, a change is as relevant as what it changes, which is marked.
    """
    sources: dict[str, list[RecalledEpisode]] = {}
    for one in (*recalled, *others):
        sources.setdefault(one.episode.source, []).append(one)
    superseded: dict[str, str] = {}
    relevance: dict[str, float] = {}
    for earlier in dict.fromkeys(one.episode.source for one in recalled):
        for later, passages in sources.items():
            if _changes([one.episode for one in passages], [one.episode for one in sources[earlier]]):
                superseded[earlier] = max(superseded.get(earlier, ""), min(one.episode.at for one in passages)[:10])
                best = max(one.relevance for one in sources[earlier])
                relevance[later] = max(relevance.get(later, 0.0), best)
    added = [one for one in others if one.episode.source in relevance]
    return [
        replace(
            one,
            superseded_at=superseded.get(one.episode.source, ""),
            relevance=max(one.relevance, relevance.get(one.episode.source, 0.0)),
        )
        for one in (*recalled, *added)
    ]


def _without_weak_sources(recalled: list[RecalledEpisode]) -> list[RecalledEpisode]:
    """Return passages without those of sources that are far less relevant than the best one."""
    best: dict[str, float] = {}
    for one in recalled:
        best[one.episode.source] = max(best.get(one.episode.source, 0.0), one.relevance)
    minimum = SOURCE_SHARE_OF_BEST * max(best.values(), default=0.0)
    return [one for one in recalled if best[one.episode.source] >= minimum]


def _changes(later: Sequence[Episode], earlier: Sequence[Episode]) -> bool:
    """Return whether passages say that they change what earlier ones of another source say."""
    if min(one.at for one in earlier) >= min(one.at for one in later):
        return False
    if any(link == f"reverts:{earlier[0].source}" for one in later for link in one.links):
        return True
    return bool(compiled_pattern(_CHANGE).search("\n".join(one.text for one in later))) and _have_same_subject(
        earlier, later
    )


def _have_same_subject(one: Sequence[Episode], other: Sequence[Episode]) -> bool:
    ours, theirs = _subject_words(one), _subject_words(other)
    common = len(ours & theirs)
    return common >= MIN_SUBJECT_WORDS and common >= MIN_SUBJECT_SHARE * min(len(ours), len(theirs))


def _subject_words(episodes: Sequence[Episode]) -> set[str]:
    words = {word for episode in episodes for word in tokenize(episode.text)}
    return {word for word in words if word not in COMMON_STEMS and not word.isdigit()}


def rank_episodes(
    store: Store,
    context: RecallContext,
    filter: EpisodeFilter | None = None,
    *,
    by_meaning: bool = False,
    is_strict: bool = False,
) -> list[ScoredMemory]:
    """Return all episodes that have something in common with a context, best first.

    `is_strict` makes chance matches of long prompts irrelevant.
    """
    context = context if context.at else replace(context, at=now())
    query = build_query(context)
    result = store.episodes.search(query.words, MAX_CANDIDATES, filter)
    ranking = Ranking(context, query, result.word_counts, result.total, EPISODE_WEIGHTS, project=store.project_name)
    ranking.add(result.rows)
    if by_meaning:
        _add_nearest(store, context, filter, ranking)
    ends = store.episodes.last_seqs(ranking.top_sources(ENDED_SOURCES))
    ranking.add(store.episodes.rows_with_words([seq for seq in ends if seq not in ranking.hits], filter))
    ranking.require_telling(_min_telling(context, ranking, is_strict=is_strict))
    ranking.score_sources(ends)
    ranking.score_recency()
    ranking.score_success()
    return ranking.top(len(ranking.hits))


def _min_telling(context: RecallContext, ranking: Ranking, *, is_strict: bool) -> float:
    """Return the number of telling words that a passage needs in common with a query."""
    if not is_strict:
        return MIN_TELLING
    return max(1 if _asks_about_past(context) else MIN_TELLING, MAX_TELLING_SHARE * ranking.telling_words)


def _asks_about_past(context: RecallContext) -> bool:
    return bool(_ASKS_ABOUT_PAST.search(f"{context.title}\n{context.body}"))


def _add_nearest(store: Store, context: RecallContext, filter: EpisodeFilter | None, ranking: Ranking) -> None:
    from ralph.memory.recall.nearest import find_similar

    similar = find_similar(store, context, ranking.hits, "episode")
    nearest = [seq for seq in similar if seq not in ranking.hits]
    ranking.add(store.episodes.rows_with_words(nearest, filter))
    ranking.score_similarity(similar)


def exclusion_reasons(
    ranked: Sequence[ScoredMemory], context: RecallContext, written: Mapping[str, str], minimum: float
) -> list[str]:
    """Return why each ranked episode is not shown for a context; empty if it may be.

    Of episodes with the same words, such as attempts that failed alike, the best is enough.
    """
    reasons: list[str] = []
    told: dict[str, str] = {}
    for hit in ranked:
        text = " ".join(hit.row["body"].split())
        reason = _exclusion_reason(hit, context, written, minimum)
        if not reason and text in told:
            reason = f"says the same as {told[text]}"
        if not reason:
            told[text] = hit.row["id"]
        reasons.append(reason)
    return reasons


def _exclusion_reason(hit: ScoredMemory, context: RecallContext, written: Mapping[str, str], minimum: float) -> str:
    """Return why an episode by itself is not shown; `written` are the words of the context by stem."""
    if hit.row["id"] in context.shown:
        return "was already shown"
    if context.session and hit.row["source"] == context.session:
        return "comes from this session"
    return irrelevance_reason(hit, written, minimum)


def to_recalled(hit: ScoredMemory, written: Mapping[str, str]) -> RecalledEpisode:
    """Return a scored episode with the components of its score, given the words of the query by stem."""
    because = tuple(sorted(hit.components.items(), key=lambda share: -abs(share[1])))
    return RecalledEpisode(
        episode=row_to_episode(hit.row),
        score=hit.score,
        because=because,
        relevance=hit.relevance,
        evidence=describe_evidence(hit, written),
    )
