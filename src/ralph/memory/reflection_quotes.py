"""Quotes of past work that reflections left behind: in proposals, and with additions, which wait for a person."""

from __future__ import annotations

import json
import re

from ralph.core.records import EPISODE_PREFIX, MemoryState, replace
from ralph.memory.reflection import read_state, save_state
from ralph.store.attempt_words import ERASED
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.store import Store
    from ralph.store.episodes import EpisodeFilter

_QUOTE = re.compile(r'(ep-[0-9a-f]{16}|[\w-]+/\d+): "(.*?)"(?=; (?:ep-[0-9a-f]{16}|[\w-]+/\d+): "|$)', re.DOTALL)
_REFLECTED = "when it reflected; evidence:"


class ReflectionQuotes:
    """The quotes that stem from past work which a filter matches."""

    def __init__(self, store: Store, filter: EpisodeFilter) -> None:
        self._store = store
        self._filter = filter

    def count(self) -> int:
        """Return their number, as far as it is known while the past work is still there."""
        return sum(self._is_meant(id, quote) for id, quote in self._all())

    def erase(self) -> int:
        """Erase those whose past work is meant or gone by now, also in the history, and return their number."""
        found = list(dict.fromkeys(self._all()))
        passages = [id for id, _ in found if id.startswith(EPISODE_PREFIX)]
        kept = {one.id for one in self._store.episodes.find_all(passages)}
        gone = {
            (id, quote)
            for id, quote in found
            if quote != ERASED and (self._is_meant(id, quote) or (id in passages and id not in kept))
        }
        if gone:
            self._erase_in_proposals(gone)
            for _, quote in gone:
                self._erase_in_memories(quote)
        return len(gone)

    def _all(self) -> Iterator[tuple[str, str]]:
        for proposal in read_state(self._store).proposals:
            yield from proposal.quotes
        for memory in self._store.memories.find(MemoryFilter(states=tuple(MemoryState))):
            if _REFLECTED in memory.state_reason:
                yield from _QUOTE.findall(memory.state_reason)

    def _is_meant(self, id: str, quote: str) -> bool:
        matching, within = self._filter.matching.casefold(), self._filter.within
        if matching:
            return matching in quote.casefold()
        return bool(within) and within in (id, id.partition("/")[0])

    def _erase_in_proposals(self, gone: set[tuple[str, str]]) -> None:
        state = read_state(self._store)
        proposals = tuple(
            replace(one, quotes=tuple((id, ERASED if (id, quote) in gone else quote) for id, quote in one.quotes))
            for one in state.proposals
        )
        save_state(self._store, replace(state, proposals=proposals))

    def _erase_in_memories(self, quote: str) -> None:
        scope = self._store.scope
        scope.update_where(
            "memory",
            "state_reason = REPLACE(state_reason, :quote, :erased)",
            "state_reason LIKE :reflected",
            quote=quote,
            erased=ERASED,
            reflected=f"%{_REFLECTED}%",
        )
        for words in {quote, json.dumps(quote, ensure_ascii=False)[1:-1]}:
            scope.execute(
                """
                UPDATE memory_events SET why = REPLACE(why, :words, :erased), was = REPLACE(was, :words, :erased),
                    became = REPLACE(became, :words, :erased)
                WHERE project_id = :project_id AND memory_id IN (
                    SELECT id FROM memory WHERE project_id = :project_id AND state_reason LIKE :reflected
                )
                """,
                words=words,
                erased=ERASED,
                reflected=f"%{_REFLECTED}%",
            )
