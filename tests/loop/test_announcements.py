"""Memories that others add during a run are announced, once."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ralph.agents import SessionOptions
from ralph.core.errors import StoreUnavailableError
from ralph.core.records import Memory
from ralph.store.memories import MemoryStore
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent, a_memory, remember


@pytest.mark.once
def test_a_memory_is_announced_although_its_lookup_had_to_be_retried(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.project.tasks.add("One")
    trial.project.tasks.add("Another")
    added: list[str] = []
    errors: list[str] = []
    find_by_ids = MemoryStore.find_by_ids

    def add_memory(prompt: str, session: SessionOptions) -> str:
        if not added:
            added.append(remember(trial.project.store, a_memory("Tabs only", "The parser wants tabs.")).id)
        return DONE

    def fail_once(self: MemoryStore, ids: Collection[str]) -> list[Memory]:
        if added and added[0] in ids and not errors:
            errors.append("unavailable")
            raise StoreUnavailableError("The database cannot be reached.")
        return find_by_ids(self, ids)

    monkeypatch.setattr(MemoryStore, "find_by_ids", fail_once)
    trial.run(ScriptedAgent(add_memory))

    assert errors
    assert [event.details["count"] for event in trial.events if event.what == "heard"] == [1]
