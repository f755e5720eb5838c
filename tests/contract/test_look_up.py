"""What is found by words, on every database: all that holds them, the best first, and nothing that is not ours."""

from __future__ import annotations

import pytest

from ralph.core.records import AttemptOutcome, Memory, MemoryState, TaskStatus, replace
from ralph.core.tokenize import TOKENIZER_VERSION, tokenize
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, finish, remember
from tests.store.make import asked, failures_found_by, found_by, notes_found_by

T = ChangeInfo(who="t", why="t")


def keep_all(store: Store, memories: list[Memory]) -> None:
    store.memories.insert_all_unchecked([replace(memory, id=f"mem-{n}-0000") for n, memory in enumerate(memories)], T)


def an_attempt(store: Store, title: str, notes: str, why: str = "", files: tuple[str, ...] = ()) -> str:
    """Add a task with one failed attempt at it; give the id of the task."""
    store.tasks.add(TaskDraft(title=title))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    report = a_report(attempt, why) if why else None
    finish(store, task, attempt, AttemptOutcome.FAILED, TaskStatus.BLOCKED, report=report, notes=notes, files=files)
    return task.id


# --- what is asked -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        "", " ", '"', '""', "'", "*", "AND", "NEAR(", "a OR", "a OR b", "col:x", "title : x", "-x", "^", "(((", "{a}",
        "\x00", "x\x00y", "日本語", "שלום", "e\u0301", "%_", "\ud800", "\U0001f600", "--", ".", "_", "x" * 100_000,
    ],
)  # fmt: skip
def test_any_words_are_safe_to_look_up(store: Store, word: str) -> None:
    remember(store, a_memory("Parser", "The parser wants tabs."))

    assert store.memories.index.search_words({word: 1.0}, 5).rows == []
    assert [row["title"] for row in store.memories.index.search_words({word: 1.0, "parser": 1.0}, 5).rows] == ["Parser"]


def test_no_words_find_nothing(store: Store) -> None:
    assert store.memories.index.search_words({"parser": 1.0}, 5).rows == []
    remember(store, a_memory("Parser", "The parser wants tabs."))

    found = store.memories.index.search_words({}, 5)

    assert (found.rows, found.word_counts, found.total) == ([], {}, 0)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Parsers", "parser"),
        ("Parsing TABS", "Tab"),
        ("Call getUserName first.", "user names"),
        ("Call get_user_name first.", "get_user_name"),
        ("Set parser.strict_mode", "strict"),
        ("Ω-Straße und CAFÉ", "cafe"),
        ("日本語のテスト", "日本"),
        ("Тесты падают", "тест"),
    ],
)
def test_case_endings_and_ways_of_naming_make_no_difference(store: Store, text: str, query: str) -> None:
    remember(store, a_memory("Something", text))

    assert found_by(store, query) == ["Something"]


def test_a_memory_is_found_by_its_title_its_text_its_tags_and_its_files(store: Store) -> None:
    remember(store, a_memory("Zebra", "Giraffe.", tags=("hippo",), files=("src/export/camel.py",)))
    remember(store, a_memory("Else", "Something else."))

    assert [found_by(store, text) for text in ("zebra", "giraffe", "hippo", "camel", "exports", "camel.py")] == [
        ["Zebra"]
    ] * 6
    assert store.memories.index.seqs_naming_files(["src/export/camel.py"], 5) == store.memories.index.seqs_naming_files(
        ["src/export/camel.py"], 1
    )
    assert len(store.memories.index.seqs_naming_files(["src/export/camel.py"], 5)) == 1
    assert store.memories.index.seqs_naming_files(["export/camel.py"], 5) == []


def test_what_holds_more_of_the_weight_goes_first_and_no_more_than_asked_for(store: Store) -> None:
    for body in ("tabs", "tabs parser", "parser", "tabs parser lexer"):
        remember(store, a_memory(body, body))

    heavy = store.memories.index.search_words({"parser": 5.0, "tab": 1.0, "lexer": 1.0}, 3)

    assert [row["title"] for row in heavy.rows] == ["tabs parser lexer", "tabs parser", "parser"]
    assert heavy.word_counts == {"parser": 3, "tab": 3, "lexer": 1}
    assert heavy.total == 4


def test_a_row_comes_with_the_words_it_is_found_by(store: Store) -> None:
    kept = remember(store, a_memory("The Parser", "It wants tabs.", tags=("lexing",), files=("src/parse.py",)))

    (row,) = store.memories.index.search_words({"parser": 1.0}, 5).rows

    assert row["id"] == kept.id
    assert (row["title_words"], row["body_words"]) == (" ".join(tokenize(kept.title)), " ".join(tokenize(kept.content)))
    assert (row["tag_words"], row["path_words"].split()[-1]) == ("lex", "parse.py")
    assert store.memories.index.rows_with_words([row["seq"], 9_999]) == [row]
    assert store.memories.index.rows_with_words([]) == []


# --- what is ruled out ---------------------------------------------------------------------


def test_another_projects_rows_are_out_of_reach(store: Store) -> None:
    remember(store, a_memory("Mine", "parser", files=("src/parse.py",)))
    an_attempt(store, "Task", "the parser wants tabs", "the parser broke")
    store.database.execute("INSERT INTO projects (id, name, created_at) VALUES ('p-other', 'other', 'x')")
    other = Store(store.database, "p-other")

    for one, expected in ((store, 1), (other, 0)):
        assert len(found_by(one, "parser")) == expected
        assert len(notes_found_by(one, "parser")) == expected
        assert len(failures_found_by(one, "parser")) == expected
        assert len(one.memories.index.seqs_naming_files(["src/parse.py"], 5)) == expected
    assert other.memories.index.rows_with_words([1]) == []


def test_many_rows_of_another_project_do_not_hide_ours(store: Store) -> None:
    remember(store, a_memory("Mine", "parser tabs"))
    store.database.execute("INSERT INTO projects (id, name, created_at) VALUES ('p-other', 'other', 'x')")
    keep_all(Store(store.database, "p-other"), [a_memory("Theirs", "parser tabs lexer")] * 500)

    assert found_by(store, "parser tabs lexer", 5) == ["Mine"]


def test_rows_that_are_ruled_out_do_not_hide_older_ones(store: Store) -> None:
    old = [a_memory(f"Old {n}", "parser tabs") for n in range(3)]
    pruned = [a_memory("Pruned", "parser tabs lexer", state=MemoryState.PRUNED)] * 400
    keep_all(store, [*old, *pruned])

    assert found_by(store, "parser lexer", 5) == ["Old 2", "Old 1", "Old 0"]
    assert found_by(store, "parser lexer", 5, MemoryFilter(states=(MemoryState.PRUNED,))) == ["Pruned"] * 5
    assert found_by(store, "parser", 5, MemoryFilter(kinds=("fix",))) == []


def test_what_is_wanted_narrows_what_is_found(store: Store) -> None:
    remember(store, a_memory("Fix", "parser tabs", kind="fix", confidence=0.9, created_at="2026-01-01T00:00:00.000Z"))
    remember(store, a_memory("Pattern", "parser spaces", kind="pattern", confidence=0.2))

    def found(**wanted: object) -> list[str]:
        return found_by(store, "parser", wanted=replace(MemoryFilter(), **wanted))

    assert found() == ["Pattern", "Fix"]
    assert found(kinds=("fix",)) == ["Fix"]
    assert found(min_confidence=0.5) == ["Fix"]
    assert found(before="2026-02-01T00:00:00.000Z") == ["Fix"]


def test_entries_of_one_run_and_reports_of_one_task_stay_out(store: Store) -> None:
    task = an_attempt(store, "One", "the parser wants tabs", "the parser broke")
    an_attempt(store, "Other", "the parser wants spaces", "the parser stopped")
    runs = [attempt.run_id for attempt in store.attempts.latest(5)]

    assert notes_found_by(store, "parser", not_run=runs[0]) == ["the parser wants tabs"]
    found = store.failures.search(asked("parser"), 5, exclude_task=task)
    assert [row["why"] for row in found.rows] == ["the parser stopped"]


# --- how rare a word is ---------------------------------------------------------------------


def test_common_words_do_not_hide_a_rare_one(store: Store) -> None:
    rare = a_memory("Rare", "common words and one xylophone")
    keep_all(store, [rare] + [a_memory("Common", "common words everywhere and nothing else")] * 2_000)

    found = store.memories.index.search_words(asked("common words everywhere, xylophone"), 3)

    assert found.rows[0]["title"] == "Rare"
    assert found.word_counts["xylophon"] == 1
    assert found.word_counts["common"] == 2_001
    assert found.total == 2_001


# --- following the text -----------------------------------------------------------------------


def test_the_index_follows_every_change_of_a_memory(store: Store) -> None:
    def found() -> list[bool]:
        return [bool(found_by(store, text)) for text in ("tabs", "spaces", "makefile", "editorconfig", "lint")]

    kept = remember(store, a_memory("Style", "Use tabs.", files=("Makefile",), tags=("lint",)))
    added = found()
    store.memories.update(kept.id, "edited", T, content="Use spaces.", files=(".editorconfig",), tags=())
    edited = found()
    store.memories.undo(kept.id, T)
    undone = found()
    store.memories.update(kept.id, "deleted", T, state=MemoryState.PRUNED)
    deleted = found()
    store.memories.undo(kept.id, T)

    assert added == undone == [True, False, True, False, True]
    assert edited == [False, True, False, True, False]
    assert deleted == [False] * 5
    assert found() == added
    assert len(store.memories.index.seqs_naming_files(["Makefile"], 5)) == 1
    assert store.memories.index.seqs_naming_files([".editorconfig"], 5) == []


@pytest.mark.parametrize(
    "change",
    [{"title": "Zebra"}, {"content": "A zebra."}, {"tags": ("zebra",)}, {"files": ("src/zebra.py",)}],
    ids=["title", "text", "tags", "files"],
)
def test_the_index_follows_a_change_of_one_part_alone(store: Store, change: dict[str, object]) -> None:
    kept = remember(store, a_memory("Style", "Use tabs."))

    store.memories.update(kept.id, "edited", T, **change)

    assert len(found_by(store, "zebra")) == 1
    assert len(store.memories.index.seqs_naming_files(["src/zebra.py"], 5)) == ("files" in change)


def test_what_stands_for_others_is_found_by_its_new_words_and_they_are_not(store: Store) -> None:
    kept = remember(store, a_memory("Tabs", "Use tabs."))
    other = remember(store, a_memory("Indent", "Indent with a zebra."))
    merged = replace(kept, content="Use tabs to indent, says the zebra.")

    store.memories.consolidate(kept, merged, [other], T)

    assert found_by(store, "zebra") == ["Tabs"]
    assert found_by(store, "zebra", wanted=MemoryFilter(states=(MemoryState.SUPERSEDED,))) == ["Indent"]


def test_what_is_learned_again_and_what_is_brought_is_found_at_once(store: Store) -> None:
    remember(store, a_memory("Use tabs", "old words", tags=("a",)))
    remember(store, a_memory("USE TABS", "giraffe", tags=("b",)))
    store.memories.import_memories(
        [(a_memory(f"Brought {n}", f"zebra {n}", id=f"mem-{n}-0000"), ()) for n in range(600)], T
    )

    assert found_by(store, "giraffe") == ["Use tabs"]
    assert found_by(store, "old words") == []
    assert len(found_by(store, "zebra", 1_000)) == 600


def test_journal_and_reports_are_found_and_go_with_their_task(store: Store) -> None:
    task = an_attempt(store, "Mend the exporter", "The zebra escaped.", "The giraffe broke it.", ("src/camel.py",))
    before = [notes_found_by(store, text) for text in ("zebra", "exporter", "camel", "giraffe")]
    reports = [failures_found_by(store, text) for text in ("giraffes", "zebra")]

    store.tasks.delete(task)

    assert before == [["The zebra escaped."]] * 3 + [[]]
    assert reports == [["The giraffe broke it."], []]
    assert notes_found_by(store, "zebra exporter camel") == failures_found_by(store, "giraffe") == []


def test_the_index_follows_the_title_of_a_task(store: Store) -> None:
    task = an_attempt(store, "Mend the exporter", "It is slow.")

    store.tasks.update(task, title="Mend the importer")

    assert notes_found_by(store, "exporter") == []
    assert notes_found_by(store, "importer") == ["It is slow."]


def test_what_was_not_kept_is_not_found(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction():
        remember(store, a_memory("Zebra", "zebra", files=("src/zebra.py",)))
        raise ZeroDivisionError

    assert found_by(store, "zebra") == []
    assert store.memories.index.seqs_naming_files(["src/zebra.py"], 5) == []


# --- other rules ------------------------------------------------------------------------------


def by_other_rules(store: Store, version: int) -> None:
    store.database.execute("UPDATE memory_words SET version = :version, body = 'tabz'", version=version)


@pytest.mark.parametrize("version", [TOKENIZER_VERSION - 1, TOKENIZER_VERSION + 1])
def test_rows_indexed_by_other_rules_are_found_by_those_until_they_are_renewed(store: Store, version: int) -> None:
    from ralph.store.index import reindex_outdated

    keep_all(store, [a_memory(f"Memory {n}", "Use tabs.") for n in range(30)])
    by_other_rules(store, version)
    before = [len(found_by(store, text, 100)) for text in ("memory", "tabz", "tabs")]

    first = reindex_outdated(store.scope, 20)
    then = [len(found_by(store, text, 100)) for text in ("memory", "tabz", "tabs")]
    second = reindex_outdated(store.scope, 20)

    assert (before, first) == ([30, 30, 0], 20)
    assert (then, second) == ([30, 10, 20], 10)
    assert [len(found_by(store, text, 100)) for text in ("memory", "tabz", "tabs")] == [30, 0, 30]
    assert reindex_outdated(store.scope, 20) == 0


def test_the_end_of_a_run_renews_what_is_indexed_by_other_rules(store: Store) -> None:
    remember(store, a_memory("Style", "Use tabs."))
    by_other_rules(store, TOKENIZER_VERSION + 1)
    run = store.runs.start("test")

    store.runs.end(run.id, "done")

    assert found_by(store, "tabs") == ["Style"]
