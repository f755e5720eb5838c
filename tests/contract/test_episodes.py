"""Episodes: added once, found by their words, deleted with all that is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ralph.core.errors import NotFoundError
from ralph.core.records import Episode, EpisodeKind, Speaker
from ralph.store import Store
from ralph.store.episodes import EpisodeFilter
from ralph.store.maintenance.check import check_store
from tests.make import an_episode


def test_an_episode_is_added_once_and_read_back_whole(store: Store) -> None:
    one = an_episode("Clock skew must be 30 s", files=("src/jwt.py",), links=("fixes:abc",), branch="main")

    assert store.episodes.add([one, one]) == 1
    assert store.episodes.add([one]) == 0
    assert store.episodes.get(one.id) == one
    with pytest.raises(NotFoundError):
        store.episodes.get("ep-none")


def test_episodes_are_found_by_words_paths_and_filter(store: Store) -> None:
    talk = an_episode("We moved the login to JWT", source="s1", at="2026-11-01T10:00:00.000Z")
    commit = an_episode("Round money down", kind=EpisodeKind.COMMIT, files=("billing/money.py",), source="c0ffee")
    store.episodes.add([talk, commit])

    def found(*words: str, **fields: Any) -> list[str]:
        filter = EpisodeFilter(**fields)
        return [row["id"] for row in store.episodes.search(dict.fromkeys(words, 1.0), 10, filter).rows]

    assert found("jwt") == [talk.id]
    assert found("money.py") == [commit.id]
    assert found("jwt", "round", kinds=("commit",)) == [commit.id]
    assert found("jwt", before="2026-10-01") == []
    assert found("jwt", matching="MOVED THE") == [talk.id]


def test_the_passages_of_a_session_come_in_order_and_the_last_ones_first_if_few_are_asked_for(store: Store) -> None:
    passages = [an_episode(f"Part {n}", source="s1", position=n) for n in range(3)]
    store.episodes.add([passages[2], passages[0], passages[1]])

    assert store.episodes.of_source(EpisodeKind.SESSION, "s1") == passages
    assert store.episodes.of_source(EpisodeKind.SESSION, "s1", limit=1) == passages[2:]
    assert store.episodes.next_position(EpisodeKind.SESSION, "s1") == 3
    assert store.episodes.next_position(EpisodeKind.SESSION, "s2") == 0


def test_the_last_session_is_that_of_the_branch(store: Store) -> None:
    store.episodes.add(
        [
            an_episode("Old", source="s1", branch="main", at="2026-11-01T10:00:00.000Z"),
            an_episode("New", source="s2", branch="main", at="2026-11-02T10:00:00.000Z"),
            an_episode("Other", source="s3", branch="topic", at="2026-11-03T10:00:00.000Z"),
        ]
    )

    assert store.episodes.last_session("main") == "s2"
    assert store.episodes.last_session("main", exclude="s2") == "s1"
    assert store.episodes.last_session("none") == ""


def test_deleted_episodes_are_gone_from_the_index(store: Store) -> None:
    keep, go = an_episode("Keep the zebra", source="s1"), an_episode("Forget the zebra", source="s2")
    store.episodes.add([keep, go])

    assert store.episodes.count(EpisodeFilter(source="s2")) == 1
    assert store.episodes.forget(EpisodeFilter(source="s2")) == 1

    assert [row["id"] for row in store.episodes.search({"zebra": 1.0}, 10).rows] == [keep.id]
    assert check_store(store, deep=True).problems == ()


def test_a_size_limit_keeps_what_was_useful_and_what_is_new(store: Store) -> None:
    episodes = [an_episode("x" * 100, source=f"s{n}", at=f"2026-11-0{n}T10:00:00.000Z") for n in range(1, 6)]
    store.episodes.add(episodes)
    store.episodes.credit_outcome([episodes[0].id], won=True)
    store.episodes.credit_outcome([episodes[1].id], won=False)

    assert store.episodes.trim(1000) == 0
    assert store.episodes.trim(250) == 3

    assert [one.source for one in store.episodes.newest(EpisodeFilter(), 10)] == ["s2", "s1"]
    assert check_store(store, deep=True).problems == ()


def test_a_cursor_is_known_again(store: Store, open_again: Callable[[], Store]) -> None:
    assert store.episodes.cursors.get("git").position == 0
    store.episodes.cursors.save("git", 5, "abc")
    store.episodes.cursors.save("git", 7, "def")

    other = open_again()
    assert (other.episodes.cursors.get("git").position, other.episodes.cursors.get("git").mark) == (7, "def")
    assert list(other.episodes.cursors.all()) == ["git"]
    other.close()


def test_many_episodes_are_counted_by_kind(store: Store) -> None:
    commits = [an_episode(f"Commit {n}", kind=EpisodeKind.COMMIT, source=str(n)) for n in range(1200)]
    assert store.episodes.add(commits) == 1200

    (count,) = store.episodes.counts()
    assert (count.kind, count.episodes, count.sources) == ("commit", 1200, 1200)
    assert isinstance(store.episodes.newest(EpisodeFilter(), 1)[0], Episode)
    assert store.episodes.newest(EpisodeFilter(), 1)[0].speaker is Speaker.PERSON
