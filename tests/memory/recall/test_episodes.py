"""Recall of episodes: the conclusion of a talk is found, and nothing is shown for words that ask for nothing."""

from __future__ import annotations

from typing import Any

from ralph.core.records import EpisodeKind, now
from ralph.memory.recall.episodes import recall_episodes
from ralph.memory.recall.past_work import render_past_work
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store import Store
from tests.make import an_episode


def recalled(store: Store, title: str, **fields: Any) -> list[str]:
    context = RecallContext(title=title, at=now(), **fields)
    return [one.episode.text for one in recall_episodes(store, context)]


TALK = (
    "The upstream API blocks us with 429. Is the retrier too aggressive?",
    "Agent: the retrier loops up to ten attempts, past the rate limit window.",
    "Seven attempts. Eight trips the window of the upstream. Leave it at seven.",
)


def fill(store: Store) -> None:
    store.episodes.add([an_episode(text, source="talk", position=n) for n, text in enumerate(TALK)])
    store.episodes.add(
        [
            an_episode(f"Commit about subject number {n}: tidy the parser", kind=EpisodeKind.COMMIT, source=f"c{n}")
            for n in range(50)
        ]
    )


def test_the_conclusion_of_a_talk_is_found_with_it(store: Store) -> None:
    fill(store)

    assert set(recalled(store, "The retrier retries past the upstream rate limit window")) == set(TALK)


def test_the_talk_about_the_function_that_a_task_names_comes_before_one_with_more_of_its_words(store: Store) -> None:
    fill(store)
    about_it = ("Customers complain, their jobs sit in next_job forever", "The same tenant never runs back-to-back.")
    other = ("Complaints: after a restart workers pick old jobs", "Only idempotent jobs run during a drain.")
    for source, texts in (("about it", about_it), ("other", other)):
        store.episodes.add([an_episode(text, source=source, position=n) for n, text in enumerate(texts)])

    context = RecallContext(title="Workers starve customers, complaints came in", body="Fix next_job.", at=now())
    relevance = {one.episode.text: one.relevance for one in recall_episodes(store, context)}

    assert min(relevance[text] for text in about_it) > max(relevance[text] for text in other)


def test_words_that_ask_for_nothing_bring_nothing(store: Store) -> None:
    fill(store)

    for text in ("continue", "yes, go on", "ok", "run the tests", "commit this", "Bake a chocolate cake"):
        assert recalled(store, text) == []


def test_the_own_session_and_what_was_shown_are_left_out(store: Store) -> None:
    fill(store)
    question = "upstream rate limit window of the retrier"

    assert recalled(store, question, session="talk") == []
    shown = frozenset(one.id for one in store.episodes.of_source(EpisodeKind.SESSION, "talk"))
    assert recalled(store, question, shown=shown) == []


def test_a_single_word_in_common_is_named_as_the_reason(project: Project) -> None:
    project.store.episodes.add([an_episode("The ledger lives in var", source="talk")])
    task = project.tasks.add("Move the ledger")

    (episode,) = project.store.episodes.of_source(EpisodeKind.SESSION, "talk")
    (explained,) = project.prompts.explain_episodes([episode], task.id)

    assert "only ledger in common" in explained.evidence
    assert explained.evidence in explained.reason


def test_what_several_attempts_said_in_the_same_words_is_quoted_once(store: Store) -> None:
    text = "It does not work: ImportError: No module named frobnicate"
    store.episodes.add([an_episode(text, kind=EpisodeKind.ATTEMPT, source=f"run-1/{n}") for n in range(4)])

    assert recalled(store, "Install the module frobnicate") == [text]


def test_passages_are_quoted_dated_attributed_and_in_order_of_time(store: Store) -> None:
    store.episodes.add(
        [
            an_episode(
                "Retries are capped at five\n\nThe upstream blocks more retries.",
                kind=EpisodeKind.COMMIT,
                source="3f1c09a" + "0" * 33,
                at="2026-11-02T10:00:00.000Z",
                files=("retry.py",),
                links=("reverts:abcdef0123",),
            ),
            an_episode("Cap retries of the upstream at seven", source="s1", at="2026-11-03T10:00:00.000Z"),
            an_episode("<task-done>t-1</task-done> retries of the upstream", source="s1", position=5),
        ]
    )

    found = recall_episodes(store, RecallContext(title="How many retries does the upstream allow?", at=now()))
    text, ids, left_out = render_past_work(found, "How many retries does the upstream allow?", 1000)

    assert len(ids) == 3
    assert not left_out
    commit, said = (f"{id}" for id in ids[:2]) if text.index(ids[0]) < text.index(ids[1]) else (ids[1], ids[0])
    assert f"### Commit 3f1c09a of 2026-11-02, reverts abcdef0 ({commit})\n> Retries are capped at five\n" in text
    assert "> (retry.py)" in text
    assert (
        f"### Session of 2026-11-03 with Claude Code ({said})\n> Person: Cap retries of the upstream at seven\n" in text
    )
    assert "<task-done>" not in text
    assert text.index("3f1c09a") < text.index("Session of")


def test_what_a_memory_tells_is_not_quoted_again(store: Store) -> None:
    rule = "Retries of the upstream are capped at five."
    store.episodes.add(
        [
            an_episode(f"{rule} The upstream blocks whoever retries more.", source="s1"),
            an_episode(rule, source="s2", at="2026-11-03T10:00:00.000Z"),
        ]
    )
    query = "How many retries does the upstream allow?"
    found = recall_episodes(store, RecallContext(title=query, at=now()))

    text, ids, left_out = render_past_work(found, query, 1000, f"### Constraints\n- {rule} _(2026-11-03)_")

    assert rule not in text
    assert "The upstream blocks whoever retries more." in text
    assert len(ids) == 1
    assert [one.why for one in left_out] == ["told as a memory"] * (len(found) - 1)


def test_a_prompt_tells_a_memory_and_quotes_what_was_said_besides(project: Project) -> None:
    rule = "Retries of the upstream are capped at five."
    project.memory.add(rule, type="decision")
    project.store.episodes.add([an_episode(f"{rule} The upstream blocks whoever retries more.", source="s1")])
    task = project.tasks.add("How many retries does the upstream allow?")

    prompt = project.prompts.preview(task.id)

    assert prompt.text.count(rule) == 1
    assert "The upstream blocks whoever retries more." in prompt.text


def test_the_prompt_of_a_task_has_past_work_within_its_budget(project: Project) -> None:
    fill(project.store)
    task = project.tasks.add("The retrier retries past the upstream rate limit window")

    prompt = project.prompts.preview(task.id)

    assert "## From Past Work" in prompt.text
    assert "Leave it at seven." in prompt.text
    (section,) = [one for one in prompt.sections if one.name == "From Past Work"]
    assert section.tokens <= 1000
    assert prompt.episodes == section.shown
    assert "From Past Work" not in project.prompts.preview(task.id, with_memory=False).text
