"""What anything should beat: the best passages of plain full text, until the prompt is full."""

from __future__ import annotations

from bench.recall.floor import PorterWords
from bench.recall.measures import CHARACTERS_PER_TOKEN


class PlainFullText:
    """Every word of the question, any may match, BM25 over Porter stems."""

    def __init__(self, passages: list[str]) -> None:
        self._passages = passages
        self._index = PorterWords()
        empty = {"title": "", "file_refs": [], "tags": []}
        self._index.add([{"id": str(place), "content": text, **empty} for place, text in enumerate(passages)])

    def recall(self, ask: str, budget_tokens: int) -> str:
        """Return the best passages that fit; one too long for what is left is passed over."""
        room, text = budget_tokens * CHARACTERS_PER_TOKEN, ""
        query = {"title": "", "description": ask, "errors": [], "files": []}
        for id in self._index.search(query, budget_tokens):
            passage = self._passages[int(id)]
            if len(text) + len(passage) < room:
                text += f"{passage}\n\n"
        return text

    def close(self) -> None:
        """Drop the index."""
        self._index.close()
