"""Memories that projects of one database share because a person chose them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ralph.core.actor import PERSON
from ralph.core.errors import ConflictError, NotFoundError, RalphError, UsageError
from ralph.core.records import AttemptOutcome, Memory, MemoryState, TaskStatus, replace
from ralph.memory.sharing import SharingService, import_shared
from ralph.project import Project
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.projects import SHARED_ID
from ralph.store.sync_state import RESTORED_MARK
from ralph.workspace import init_project
from tests.make import as_agent, begin, finish

Open = Callable[[str], Project]


@pytest.fixture
def open_named(tmp_path: Path, store_url: str) -> Iterator[Open]:
    """Return a way to open projects of one database, each in a directory of its own."""
    opened: list[Project] = []

    def open_one(name: str) -> Project:
        directory = tmp_path / name
        if not directory.is_dir():
            directory.mkdir()
            init_project(directory, url=store_url, name=name)
        opened.append(Project.open(directory))
        return opened[-1]

    yield open_one
    for project in opened:
        project.close()


@pytest.fixture
def ours(open_named: Open) -> Project:
    return open_named("ours")


@pytest.fixture
def theirs(open_named: Open) -> Project:
    return open_named("theirs")


def add(project: Project, text: str, **fields: object) -> Memory:
    return project.memory.add(text, type="convention", **fields).memory  # type: ignore[arg-type]


def received(project: Project) -> list[Memory]:
    """Return the memories of a project after it has imported what others shared."""
    with project.synced():
        return project.memory.list(MemoryFilter())


def listed(project: Project) -> list[str]:
    return [memory.content for memory in received(project)]


def whats(project: Project, id: str) -> list[tuple[str, str, str]]:
    return [(event.who, event.what, event.why) for event in project.store.memories.history.of(id)]


def queries(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list into which all that is asked of a project's database goes."""
    said: list[str] = []
    query = project.store.database.query

    def listened(sql: str, **values: object) -> list[dict[str, Any]]:
        said.append(sql)
        return query(sql, **values)

    monkeypatch.setattr(project.store.database, "query", listened)
    return said


# --- taking in ------------------------------------------------------------------------------


def test_what_is_shared_reaches_the_other_project_with_its_source(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.", tags=("python",), files=("pyproject.toml",))

    (kept,) = ours.memory.sharing.share(memory.id)

    assert (kept.what, kept.memory.content) == ("added", memory.content)
    (copy,) = received(theirs)
    assert (copy.content, copy.kind, copy.tags, copy.files) == (
        memory.content,
        "convention",
        ("python",),
        ("pyproject.toml",),
    )
    assert whats(theirs, copy.id) == [("ralph", "added", "shared from ours")]


def test_what_was_shared_is_written_to_the_files_too(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(ours.memory.add("Use uv instead of pip.", type="pattern").memory.id)

    theirs.files.sync()

    assert "Use uv instead of pip." in (theirs.root / ".agent" / "memories.md").read_text(encoding="utf-8")


def test_search_and_prime_find_what_was_shared(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    theirs.files.sync()

    assert [one.memory.content for one in theirs.memory.search("uv", MemoryFilter(), 5)] == ["Use uv instead of pip."]
    assert [one.content for one in theirs.memory.prime(MemoryFilter(), text="install with uv or pip")] == [
        "Use uv instead of pip."
    ]


def test_what_is_not_shared_stays_where_it_is(ours: Project, theirs: Project) -> None:
    add(ours, "A secret of ours.")
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)

    assert listed(theirs) == ["Use uv instead of pip."]


def test_what_belongs_to_the_tasks_of_a_project_does_not_go_along(ours: Project, theirs: Project) -> None:
    task = ours.tasks.add("Learn")
    own = ours.store.memories
    memory = add(ours, "Use uv instead of pip.")
    by = ChangeInfo(who="agent", why="")
    own.update(
        memory.id, "edited", by, origin_task=task.id, origin_run="run-1", origin_attempt=1, feature="Ours", uses=7
    )

    ours.memory.sharing.share(memory.id)

    (copy,) = received(theirs)
    assert (copy.origin_task, copy.origin_run, copy.origin_attempt, copy.feature, copy.uses) == (None,) * 4 + (0,)


def test_a_project_made_later_gets_all_that_is_shared(ours: Project, open_named: Open) -> None:
    ours.memory.sharing.share(*(add(ours, f"Rule {n}: keep {n} of them.").id for n in range(3)))

    assert len(listed(open_named("later"))) == 3


def test_sharing_changes_nothing_where_it_came_from(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    before = ours.store.memories.history.last_event_seq()

    ours.memory.sharing.share(memory.id)
    listed(theirs)

    assert listed(ours) == [memory.content]
    assert ours.store.memories.history.last_event_seq() == before


def test_taking_in_again_changes_nothing(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)

    assert (import_shared(theirs.store), import_shared(theirs.store), import_shared(ours.store)) == (1, 0, 0)


def test_what_both_know_already_is_not_kept_twice(ours: Project, theirs: Project) -> None:
    mine = add(theirs, "Use uv instead of pip.")

    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)

    assert [one.id for one in received(theirs)] == [mine.id]


def test_two_projects_that_share_the_same_share_one_thing(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    (copy,) = received(theirs)

    (kept,) = theirs.memory.sharing.share(copy.id)

    assert kept.what == "known"
    assert len(theirs.memory.sharing.list(MemoryFilter())) == 1


def test_an_id_that_means_something_else_here_is_not_written_over(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    other = replace(memory, title="Other", content="Zebras have stripes, mostly.")
    theirs.store.memories.insert_unchecked(other, ChangeInfo(who="person", why="test"))

    ours.memory.sharing.share(memory.id)

    assert sorted(listed(theirs)) == ["Use uv instead of pip.", "Zebras have stripes, mostly."]


def test_it_can_be_switched_off(ours: Project, theirs: Project) -> None:
    (theirs.root / "ralph.yml").write_text("memories:\n  shared: false\n")
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)

    with Project.open(theirs.root) as closed:
        assert listed(closed) == []


def test_a_look_for_news_is_one_question(ours: Project, theirs: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    said = queries(theirs, monkeypatch)
    import_shared(theirs.store)
    nothing_shared = len(said)
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    import_shared(theirs.store)
    said.clear()
    import_shared(theirs.store)

    assert (nothing_shared, len(said)) == (1, 1)


def test_the_next_prompt_shows_what_was_shared(ours: Project, theirs: Project) -> None:
    task = theirs.tasks.add("Install with uv or pip")
    ours.memory.sharing.share(add(ours, "Use uv instead of pip to install.").id)

    import_shared(theirs.store)

    assert "Use uv instead of pip to install." in theirs.prompts.preview(task.id).text


def test_who_looks_at_the_same_time_takes_nothing_in_twice(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(*(add(ours, f"Rule {n}: keep {n} of them.").id for n in range(20)))
    taken: list[int] = []

    def take() -> None:
        store = theirs.store.reopen()
        taken.append(import_shared(store))
        store.close()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == [0, 0, 0, 20]
    assert len(listed(theirs)) == 20


def test_what_is_shared_while_others_look_reaches_them_all(ours: Project, theirs: Project, open_named: Open) -> None:
    third = open_named("third")
    memories = {one: [add(one, f"{one.root.name} rule {n}: keep {n}.").id for n in range(10)] for one in (ours, third)}
    stores = {one: one.store.reopen for one in memories}

    def share_all(project: Project) -> None:
        store = stores[project]()
        for id in memories[project]:
            SharingService(store, PERSON).share(id)
        store.close()

    threads = [threading.Thread(target=share_all, args=(project,)) for project in memories]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        import_shared(theirs.store)
    import_shared(theirs.store)

    assert len(listed(theirs)) == 20


# --- what is done here ----------------------------------------------------------------------


def test_what_a_person_deleted_here_stays_deleted(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    (copy,) = received(theirs)
    theirs.memory.delete(copy.id)

    ours.memory.edit(memory.id, content="Use uv instead of pip, always.")
    ours.memory.sharing.share(memory.id)
    after_a_change = listed(theirs)
    ours.memory.sharing.unshare(memory.id)
    ours.memory.sharing.share(memory.id)

    assert (after_a_change, listed(theirs)) == ([], [])


def test_what_a_person_deleted_here_before_it_was_shared_stays_deleted(ours: Project, theirs: Project) -> None:
    theirs.memory.delete(add(theirs, "Use uv instead of pip.").id)

    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)

    assert listed(theirs) == []


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_what_was_taken_out_of_a_file_here_stays_out(ours: Project, theirs: Project) -> None:
    pattern = ours.memory.add("Use uv instead of pip.", type="pattern").memory
    ours.memory.sharing.share(pattern.id)
    theirs.files.create(force=True)
    theirs.files.sync()
    theirs.memory.add("Pin versions.", type="pattern")  # whoever sees this one has seen the other
    theirs.files.sync()
    path = theirs.root / ".agent" / "memories.md"
    text = path.read_text(encoding="utf-8")
    start = text.index(f"### {pattern.id}")
    end = min(one for one in (text.find("\n## ", start), text.find("\n### ", start)) if one > 0)
    path.write_text(text[:start] + text[end + 1 :], encoding="utf-8")

    assert listed(theirs) == ["Pin versions."]
    ours.memory.edit(pattern.id, content="Use uv instead of pip, always.")
    ours.memory.sharing.share(pattern.id)
    assert listed(theirs) == ["Pin versions."]


def test_a_cleared_memory_does_not_fill_again(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)
    with theirs.store.transaction():
        copy = theirs.store.memories.get(memory.id)
        theirs.store.memories.update_unmodified(
            [(copy, replace(copy, state=MemoryState.PRUNED))], "cleared", ChangeInfo(who="person", why="cleared")
        )

    ours.memory.edit(memory.id, content="Use uv instead of pip, always.")
    ours.memory.sharing.share(memory.id)

    assert listed(theirs) == []


def test_what_was_edited_here_stays_as_it_was_edited(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)
    theirs.memory.edit(memory.id, content="Use uv instead of pip, but not on the old server.")

    ours.memory.edit(memory.id, content="Use uv instead of pip, always.")
    ours.memory.sharing.share(memory.id)

    assert listed(theirs) == ["Use uv instead of pip, but not on the old server."]
    assert listed(ours) == ["Use uv instead of pip, always."]


# --- changes ---------------------------------------------------------------------------------


def test_a_change_reaches_the_others_when_it_is_shared_again(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)
    ours.memory.edit(memory.id, content="Never use pip; uv is quicker.", tags=("speed",))
    before = listed(theirs)

    (kept,) = ours.memory.sharing.share(memory.id)

    assert kept.what == "edited"
    (copy,) = received(theirs)
    assert (before, copy.content, copy.tags) == (
        ["Use uv instead of pip."],
        "Never use pip; uv is quicker.",
        ("speed",),
    )
    assert whats(theirs, copy.id)[-1] == ("ralph", "edited", "shared from ours")
    assert len(ours.memory.sharing.list(MemoryFilter())) == 1


def test_who_got_it_can_share_it_better(ours: Project, theirs: Project, open_named: Open) -> None:
    memory = add(ours, "Use uv instead of pip.")
    with ours.synced():
        ours.memory.sharing.share(memory.id)
    listed(theirs)
    theirs.memory.edit(memory.id, content="Never use pip; uv is quicker.")

    theirs.memory.sharing.share(memory.id)

    assert listed(ours) == ["Never use pip; uv is quicker."]
    assert listed(open_named("third")) == ["Never use pip; uv is quicker."]
    assert [one.project for one in ours.memory.sharing.list(MemoryFilter())] == ["theirs"]


def test_changes_go_on_reaching_where_it_came_from(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    for content in ("Use uv rather than pip.", "Use uv, not pip, to install."):
        with ours.synced():
            ours.memory.edit(memory.id, content=content)
            ours.memory.sharing.share(memory.id)
    listed(theirs)

    theirs.memory.edit(memory.id, content="Never use pip; uv is quicker.")
    theirs.memory.sharing.share(memory.id)

    assert listed(ours) == ["Never use pip; uv is quicker."]


# --- unsharing -------------------------------------------------------------------------------


def test_what_is_no_longer_shared_goes_with_the_reason_and_stays_where_it_came_from(
    ours: Project, theirs: Project
) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)

    ours.memory.sharing.unshare(memory.id)

    assert (listed(ours), listed(theirs)) == ([memory.content], [])
    assert theirs.store.memories.get(memory.id).state_reason == "no longer shared (ours)"
    assert whats(theirs, memory.id)[-1] == ("ralph", "unshared", "no longer shared (ours)")
    assert ours.memory.sharing.list(MemoryFilter()) == []


def test_what_is_shared_once_more_comes_back(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)
    ours.memory.sharing.unshare(memory.id)
    listed(theirs)
    ours.memory.edit(memory.id, content="Never use pip; uv is quicker.")

    (kept,) = ours.memory.sharing.share(memory.id)

    assert kept.what == "revived"
    assert listed(theirs) == ["Never use pip; uv is quicker."]


def test_who_got_it_can_end_it(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    (copy,) = received(theirs)

    theirs.memory.sharing.unshare(copy.id)

    assert (listed(ours), listed(theirs)) == (["Use uv instead of pip."], [])


def test_what_was_edited_here_stays_when_it_is_unshared(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)
    theirs.memory.edit(memory.id, tags=("python",))

    ours.memory.sharing.unshare(memory.id)

    assert listed(theirs) == [memory.content]


def attempt_with(store: Store, shown: str, outcome: AttemptOutcome, status: TaskStatus) -> None:
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(store, task, attempt, outcome, status, shown=(shown,))


def test_what_helped_here_stays_when_it_is_unshared(ours: Project, theirs: Project) -> None:
    helped, shown = add(ours, "Use uv instead of pip."), add(ours, "Name tests as sentences.")
    ours.memory.sharing.share(helped.id, shown.id)
    theirs.tasks.add("Install")
    theirs.tasks.add("Test")
    listed(theirs)
    attempt_with(theirs.store, helped.id, AttemptOutcome.DONE, TaskStatus.DONE)
    attempt_with(theirs.store, shown.id, AttemptOutcome.FAILED, TaskStatus.BLOCKED)

    ours.memory.sharing.unshare(helped.id, shown.id)

    assert listed(theirs) == [helped.content]


def test_what_was_known_here_before_stays_when_it_is_unshared(ours: Project, theirs: Project) -> None:
    add(theirs, "Use uv instead of pip.")
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    listed(theirs)

    ours.memory.sharing.unshare(memory.id)

    assert listed(theirs) == ["Use uv instead of pip."]


def test_what_was_shared_and_unshared_in_between_never_arrives(ours: Project, theirs: Project) -> None:
    memory = add(ours, "Use uv instead of pip.")
    ours.memory.sharing.share(memory.id)
    ours.memory.sharing.unshare(memory.id)

    assert listed(theirs) == []
    assert theirs.store.memories.find_by_id(memory.id) is None


# --- who may, and what is refused --------------------------------------------------------------


def test_an_agent_shares_nothing(ours: Project, theirs: Project) -> None:
    memory, known = add(ours, "Use uv instead of pip."), add(ours, "Name tests as sentences.")
    ours.memory.sharing.share(known.id)
    agent = as_agent(ours, session="s-1")

    for refused in (lambda: agent.memory.sharing.share(memory.id), lambda: agent.memory.sharing.unshare(known.id)):
        with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
            refused()

    assert listed(theirs) == [known.content]


def test_several_are_shared_or_none(ours: Project, theirs: Project) -> None:
    memory, deleted = add(ours, "Use uv instead of pip."), add(ours, "Name tests as sentences.")
    ours.memory.delete(deleted.id)

    with pytest.raises(NotFoundError):
        ours.memory.sharing.share(memory.id, "mem-1-ffff")
    with pytest.raises(ConflictError, match="is pruned"):
        ours.memory.sharing.share(memory.id, deleted.id)

    assert ours.memory.sharing.list(MemoryFilter()) == []
    assert listed(theirs) == []


def test_what_is_not_shared_cannot_be_unshared(ours: Project) -> None:
    memory, shared = add(ours, "Use uv instead of pip."), add(ours, "Name tests as sentences.")

    with pytest.raises(RalphError, match="is not shared"):
        ours.memory.sharing.unshare(memory.id)
    ours.memory.sharing.share(shared.id)
    with pytest.raises(RalphError, match="is not shared"):
        ours.memory.sharing.unshare(shared.id, memory.id)

    assert [one.memory.content for one in ours.memory.sharing.list(MemoryFilter())] == [shared.content]


# --- the shared project ------------------------------------------------------------------------


def test_the_shared_are_listed_with_where_they_came_from(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    theirs.memory.sharing.share(theirs.memory.add("Name tests as sentences.", type="pattern").memory.id)

    found = ours.memory.sharing.list(MemoryFilter())

    assert sorted((one.project, one.memory.content) for one in found) == [
        ("ours", "Use uv instead of pip."),
        ("theirs", "Name tests as sentences."),
    ]
    assert [one.memory.kind for one in ours.memory.sharing.list(MemoryFilter(kinds=("pattern",)))] == ["pattern"]
    assert len(ours.memory.sharing.list(MemoryFilter(), 1)) == 1


def test_there_is_no_shared_project_before_something_is_shared(ours: Project, theirs: Project) -> None:
    add(ours, "Use uv instead of pip.")
    listed(theirs)

    assert ours.store.projects.find_shared() is None
    assert ours.memory.sharing.list(MemoryFilter()) == []


def test_nobody_can_work_in_the_shared_project(ours: Project, tmp_path: Path, store_url: str) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    (tmp_path / "worker").mkdir()

    with pytest.raises(RalphError, match="reserved for shared memories"):
        init_project(tmp_path / "worker", url=store_url, name="shared")


def test_what_was_agreed_on_can_be_lost_without_harm(ours: Project, theirs: Project) -> None:
    memory, deleted = add(ours, "Use uv instead of pip."), add(ours, "Name tests as sentences.")
    ours.memory.sharing.share(memory.id, deleted.id)
    listed(theirs)
    theirs.memory.delete(deleted.id)
    scope = theirs.store.scope
    scope.execute("DELETE FROM synced_entries WHERE project_id = :project_id")
    scope.execute("UPDATE synced_places SET files_mark = :mark WHERE project_id = :project_id", mark=RESTORED_MARK)

    assert listed(theirs) == [memory.content]
    ours.memory.edit(memory.id, content="Never use pip; uv is quicker.")
    ours.memory.sharing.share(memory.id)
    assert listed(theirs) == ["Never use pip; uv is quicker."]
    ours.memory.sharing.unshare(memory.id, deleted.id)
    assert listed(theirs) == []
    assert sorted(listed(ours)) == ["Name tests as sentences.", "Never use pip; uv is quicker."]


def test_a_removed_project_leaves_what_it_shared(ours: Project, theirs: Project) -> None:
    ours.memory.sharing.share(add(ours, "Use uv instead of pip.").id)
    listed(theirs)

    theirs.store.projects.remove(ours.store.project_id)

    assert listed(theirs) == ["Use uv instead of pip."]
    assert [one.project for one in theirs.memory.sharing.list(MemoryFilter())] == ["ours"]
    assert theirs.store.projects.find_shared() is not None
    assert theirs.store.projects.find(SHARED_ID) is not None
