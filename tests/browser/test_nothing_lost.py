"""Whatever is pressed twice, typed and left, or changed elsewhere: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import re
import threading

from playwright.sync_api import Page, Request, Route, expect

from ralph.core.records import MemoryState
from ralph.project import Project
from tests.browser.conftest import PHONE, Open, Watched
from tests.browser.test_memories import SAID, toast, undo
from tests.make import a_memory, remember
from tests.web.asking import ServedApart


def a_known_memory(server: ServedApart, text: str = SAID) -> str:
    with Project.open(server.root) as project:
        return project.memory.add(text).memory.id


def events(server: ServedApart, id: str) -> list[str]:
    with Project.open(server.root) as project:
        return [event.what for event in project.memory.history(id)]


def content(server: ServedApart, id: str) -> str:
    with Project.open(server.root) as project:
        return project.memory.show(id).memory.content


def save(page: Page, text: str) -> None:
    page.keyboard.press("e")
    page.locator("#edit-content").fill(text)
    page.keyboard.press("Control+Enter")


# --- taking back ------------------------------------------------------------------------------


def test_a_decision_is_taken_back_once_however_often_u_is_pressed(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/staging")
    id = page.locator("[data-review]").first.get_attribute("data-id") or ""
    page.keyboard.press("y")
    expect(page.locator("#progress-text")).to_have_text("1/5")

    for _ in range(3):
        page.keyboard.down("u")  # from the second time on, as a key that is held
    page.keyboard.up("u")
    page.keyboard.press("u")
    expect(page.locator("#progress-text")).to_have_text("0/5")
    page.wait_for_timeout(300)

    assert events(worked_on, id).count("undone") == 1
    assert page.locator("#waiting-count").inner_text() == "5"
    expect(page.locator("#toasts [data-undo]")).to_have_count(0)
    with Project.open(worked_on.root) as project:
        assert project.memory.show(id).memory.state is MemoryState.STAGED


def test_undoing_twice_does_not_take_back_that_it_was_learned(worked_on: ServedApart, open_page: Open) -> None:
    id = a_known_memory(worked_on)
    page = open_page(worked_on, f"/memories/{id}")
    save(page, f"{SAID} Twice.")
    toast(page, "Saved")

    page.keyboard.press("u")
    expect(page.locator("#memory-content")).to_have_text(SAID)
    page.keyboard.press("u")
    page.keyboard.press("u")
    page.wait_for_timeout(300)
    assert events(worked_on, id) == ["added", "edited", "undone"]

    page.locator("#history").get_by_role("button", name="Redo").click()
    expect(page.locator("#memory-content")).to_have_text(f"{SAID} Twice.")
    assert content(worked_on, id) == f"{SAID} Twice."


def test_undo_takes_back_what_was_done_here_and_nothing_else(
    worked_on: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected.append("409 (Conflict)")
    id = a_known_memory(worked_on)
    page = open_page(worked_on, f"/memories/{id}")
    save(page, f"{SAID} Twice.")
    toast(page, "Saved")
    with Project.open(worked_on.root) as project:
        project.memory.edit(id, content="Said by somebody else.")

    undo(page)
    expect(page.locator("#toasts .toast[data-status=bad]")).to_be_visible()

    assert content(worked_on, id) == "Said by somebody else."


def test_what_a_newer_action_has_overtaken_is_no_longer_offered(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = project.tasks.add("Print labels")
    page = open_page(worked_on, f"/tasks/{task.id}")

    page.get_by_role("button", name="Block").click()
    page.locator("#reason-button").click()
    expect(page.locator("#task-status")).to_have_text("blocked")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#task-status")).to_have_text("ready")

    expect(page.locator("#toasts .toast")).to_have_count(1)
    toast(page, "Reset to pending")
    expect(page.locator("#attempts [data-copy] button")).to_be_visible()


# --- forms --------------------------------------------------------------------------------------


def test_what_was_taken_back_can_be_typed_again(worked_on: ServedApart, open_page: Open) -> None:
    id = a_known_memory(worked_on)
    page = open_page(worked_on, f"/memories/{id}")
    other = f"{SAID} It takes a minute."

    save(page, other)
    toast(page, "Saved")
    undo(page)
    expect(page.locator("#memory-content")).to_have_text(SAID)
    page.keyboard.press("e")
    expect(page.locator("#edit-content")).to_have_value(SAID)
    page.locator("#edit-content").fill(other)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#memory-content")).to_have_text(other)

    assert content(worked_on, id) == other


def test_escape_and_cancel_give_a_form_back_what_is_stored(worked_on: ServedApart, open_page: Open) -> None:
    id = a_known_memory(worked_on)
    page = open_page(worked_on, f"/memories/{id}")
    page.keyboard.press("e")
    page.locator("#edit-content").fill("Not this.")
    page.keyboard.press("Escape")
    expect(page.locator("#edit-form")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator("#edit-content")).to_have_value(SAID)

    with Project.open(worked_on.root) as project:
        task = project.tasks.add("Print labels")
    page.goto(f"{worked_on.url}/tasks/{task.id}")
    page.keyboard.press("e")
    page.locator("#edit-title-field").fill("Not this.")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.locator("#edit-title-field")).to_have_value("Print labels")


def test_what_was_written_and_left_can_be_had_back(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, f"/memories/{a_known_memory(worked_on)}")
    page.keyboard.press("e")
    page.locator("#edit-content").fill("Nearly lost.")
    page.keyboard.press("Escape")
    undo(page)

    expect(page.locator("#edit-content")).to_have_value("Nearly lost.")


def test_who_edits_is_told_when_somebody_else_was_quicker(worked_on: ServedApart, open_page: Open) -> None:
    id = a_known_memory(worked_on)
    page = open_page(worked_on, f"/memories/{id}")
    page.keyboard.press("e")
    page.locator("#edit-content").fill("Mine.")
    with Project.open(worked_on.root) as project:
        project.memory.edit(id, content="Theirs.")
    expect(page.locator("#meanwhile")).to_contain_text("changed in the meantime")

    page.locator("#edit-cancel").click()
    expect(page.locator("#memory-content")).to_have_text("Theirs.")
    expect(page.locator("#edit-content")).to_have_value("Theirs.")
    page.keyboard.press("e")
    expect(page.locator("#edit-content")).to_have_value("Theirs.")


def test_only_what_was_changed_of_a_task_is_written(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        first, second = project.tasks.add("Buy paper"), project.tasks.add("Buy ink")
        task = project.tasks.add("Print labels", "One for each parcel.", needs=[first.id])
    page = open_page(worked_on, f"/tasks/{task.id}")
    page.keyboard.press("e")
    page.locator("#edit-priority").fill("7")
    with Project.open(worked_on.root) as project:
        project.tasks.update(task.id, body="Two for each parcel.")
        project.tasks.change_needs(task.id, add=[second.id])

    page.keyboard.press("Control+Enter")
    expect(page.locator("#edit-task")).to_be_hidden()
    expect(page.locator("#task-body")).to_have_text("Two for each parcel.")
    page.keyboard.press("e")
    expect(page.locator("#edit-body")).to_have_value("Two for each parcel.")
    expect(page.locator("#edit-needs-picker .tag")).to_have_count(2)

    with Project.open(worked_on.root) as project:
        now = project.tasks.get(task.id).task
    assert (now.priority, now.body, set(now.needs)) == (7, "Two for each parcel.", {first.id, second.id})


def test_tasks_are_chosen_by_words_of_their_titles(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        whole, first = project.tasks.add("Ship parcels"), project.tasks.add("Buy paper")
    page = open_page(worked_on, "/tasks#add")
    page.get_by_label("Title").fill("Print labels")
    page.locator("#new-needs").fill("buy paper")
    page.keyboard.press("Enter")
    expect(page.locator("#new-needs-picker .tag")).to_contain_text("Buy paper")
    page.locator("#new-parent").fill("no such thing")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#add-task-form [data-error]")).to_contain_text("Choose one from the list")
    page.locator("#new-parent").fill("ship par")
    page.keyboard.press("Control+Enter")
    toast(page, "Added: Print labels")

    with Project.open(worked_on.root) as project:
        task = next(one for one in project.tasks.list() if one.title == "Print labels")
    assert (task.needs, task.parent_id) == ((first.id,), whole.id)


def test_a_memory_is_explained_for_a_task_by_words_of_its_title(worked_on: ServedApart, open_page: Open) -> None:
    id = a_known_memory(worked_on)
    with Project.open(worked_on.root) as project:
        task = project.tasks.add("Print the ledger of tests")
    page = open_page(worked_on, f"/memories/{id}")

    page.get_by_label("Task", exact=True).fill("no such thing")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#why-form [data-error]")).to_contain_text("Choose one from the list")
    page.get_by_label("Task", exact=True).fill("print ledger")
    page.get_by_role("button", name="Explain").click()

    expect(page.locator("#why-answer")).to_contain_text(task.title)
    expect(page).to_have_url(re.compile(f"task={task.id}"))


def test_a_secret_that_was_taken_out_is_said(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/memories")
    before = int(page.locator("[data-facet=state] .count").first.inner_text())
    page.keyboard.press("n")
    page.locator("#add-content").fill("Log in with password = hunter2hunter2hunter2 on staging.")
    page.keyboard.press("Control+Enter")

    toast(page, "A secret was redacted")
    expect(page.locator("[data-facet=state] .count").first).to_have_text(str(before + 1))


def test_more_is_asked_for_once_however_often_it_is_pressed(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        for place in range(100):
            remember(project.store, a_memory(f"Memory {place}", f"Says {place}", kind="fix", id=f"mem-1-{place:04x}"))
    page = open_page(worked_on, "/memories")
    before = page.locator("#results [data-row]").count()

    page.get_by_role("link", name="More", exact=True).dblclick()
    page.wait_for_timeout(500)

    ids = [one.get_attribute("data-id") for one in page.locator("#results [data-row]").all()]
    assert before == 50
    assert len(ids) == len(set(ids)) == 100


# --- what others do --------------------------------------------------------------------------------


def test_a_page_keeps_up_with_a_project_that_is_never_still(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/")
    shown = page.locator("[data-live=stats] .stat", has_text="Memories").locator(".stat-value")
    first = int(shown.inner_text())
    asked: list[Request] = []
    open_ones: list[int] = []

    def begun(request: Request) -> None:
        if request.resource_type == "fetch" and request.url == f"{worked_on.url}/":
            asked.append(request)
            open_ones.append(len(asked) - len(ended))

    ended: list[Request] = []
    page.on("request", begun)
    page.on("requestfinished", lambda request: ended.append(request) if request in asked else None)

    def add() -> None:
        for place in range(12):
            worked_on.post("/api/projects/-/memories", {"content": f"Something new, number {place}: {'x' * place}"})
            threading.Event().wait(0.25)

    adding = threading.Thread(target=add)
    adding.start()
    expect(shown).not_to_have_text(str(first))
    adding.join()

    expect(shown).to_have_text(str(first + 12))
    assert 2 <= len(asked) < 12
    assert max(open_ones) == 1


def test_a_page_that_was_refused_the_events_hears_of_them_later(
    worked_on: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected.append("503 (Service Unavailable)")
    page = open_page(worked_on, "/projects")
    refused: list[str] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(status=503, body="{}")

    page.route(re.compile("/api/events"), refuse)
    page.goto(f"{worked_on.url}/")
    shown = page.locator("[data-live=stats] .stat", has_text="Memories").locator(".stat-value")
    before = int(shown.inner_text())
    a_known_memory(worked_on)
    page.wait_for_timeout(500)
    assert refused
    page.unroute(re.compile("/api/events"))

    expect(shown).to_have_text(str(before + 1))


# --- addresses -----------------------------------------------------------------------------------------


def test_an_address_that_is_no_text_harms_nothing(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/staging#%E0")
    expect(page.locator(".is-current")).to_have_count(1)

    page.goto(f"{looked_at.url}/api/docs#%E0%A4%A")
    page.get_by_role("searchbox").fill("staging approve")
    expect(page.locator(".operation:visible")).to_have_count(2)


def test_a_phone_shows_the_list_of_tasks_first_and_where_one_is(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/tasks", size=PHONE)
    expect(page.locator("#graph")).to_be_hidden()
    expect(page.locator("#view-list")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="Graph").click()
    expect(page.locator("#graph")).to_be_visible()

    page.goto(f"{looked_at.url}/failures")
    expect(page.locator(".bottom [aria-current]:visible")).to_have_text("More")
