"""What an estimate rests on, in the words of the query."""

from __future__ import annotations

from ralph.memory.recall.evidence import words_as_written
from ralph.memory.recall.query import RecallContext


def test_words_are_named_as_they_are_written_and_not_by_their_stems() -> None:
    context = RecallContext(title="Archive AlertsHistory.json in localStorage", body="The categories are numbers.")

    written = words_as_written(context)

    assert [written[stem] for stem in ("histori", "storag", "categori")] == ["history", "storage", "categories"]
