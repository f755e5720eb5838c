"""Whether the right memory is shown: examples that were withheld, or shown for nothing."""

from __future__ import annotations

import json

import pytest

from ralph.core.records import AttemptOutcome, Memory, replace
from ralph.memory.recall.candidates import recall_memories
from ralph.memory.recall.common_words import COMMON_STEMS
from ralph.memory.recall.estimate import COEFFICIENTS, estimate_relevance
from ralph.memory.recall.excerpts import shorten
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.scored import WEIGHTS
from ralph.memory.recall.select import SESSION_CUT
from ralph.memory.sessions import session_query
from ralph.project import Project
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, begin, finish, remember

OTHERS = (
    "The exporter writes UTF-8 with a byte order mark",
    "Retries use exponential backoff with jitter",
    "Feature flags live in config/flags.toml",
    "The nightly job needs eight gigabytes",
    "Images are resized by a worker queue",
    "Zod validates every request body",
    "Nginx terminates TLS in staging",
)


def fill(store: Store, *memories: Memory) -> None:
    for n, text in enumerate(OTHERS):
        remember(store, a_memory(text, text, tags=(f"tag{n}",)))
    for memory in memories:
        remember(store, memory)


def shown_for_session(store: Store, prompt: str) -> list[str]:
    return [one.memory.title for one in recall_memories(store, session_query(prompt), limit=3, cut=SESSION_CUT).shown]


def shown_for_task(project: Project, title: str, body: str = "", **more: str) -> list[str]:
    task = project.tasks.add(title, body, **more)  # type: ignore[arg-type]
    shown = project.prompts.preview(task.id).shown
    return [project.memory.get(id).title for id in shown]


def test_a_tag_brings_knowledge_into_a_long_task(project: Project) -> None:
    fill(
        project.store,
        a_memory("Revisions need a downgrade", "Every revision has a downgrade.", tags=("migrations", "alembic")),
    )
    body = (
        "The billing team wants refunds to be visible in the ledger. Extend the schema with the new columns, write the"
        " migrations, adapt the serializers and the admin pages, and describe the columns for the people in finance."
    )

    assert "Revisions need a downgrade" in shown_for_task(project, "Show refunds in the ledger", body)


@pytest.mark.parametrize(
    "prompt", ["Fix the login tests", "Fix the login tests again 7", "please fix the login tests!"]
)
def test_words_that_match_nothing_take_nothing_away(store: Store, prompt: str) -> None:
    fill(store, a_memory("Login tests need TZ=UTC", "Login tests need TZ=UTC"))

    assert shown_for_session(store, prompt) == ["Login tests need TZ=UTC"]


def test_relevance_does_not_depend_on_how_much_else_is_said(store: Store) -> None:
    fill(store, a_memory("Login tests need TZ=UTC", "Login tests need TZ=UTC"))
    filler = " ".join(f"other{n}thing" for n in range(60))

    short, long = (
        recall_memories(store, RecallContext(title="Fix the login tests", body=body)).shown[0].relevance or 0.0
        for body in ("", filler)
    )

    assert short == pytest.approx(long, rel=0.2)


@pytest.mark.parametrize(
    "prompt",
    [
        "continue",
        "yes, go on",
        "looks good, commit it",
        "thanks!",
        "what did you change?",
        "use the second option",
        "can you explain that in simpler terms?",
        "ok, but keep it short",
        "try again",
        "run the tests",
        "mach bitte weiter",
    ],
)
def test_small_talk_brings_nothing(store: Store, prompt: str) -> None:
    fill(
        store,
        a_memory("Continue", "Compare continues after the first error; run the tests again with the second option."),
        a_memory("Commit", "Commit messages explain why, in simple words, and keep the first line short."),
    )

    assert shown_for_session(store, prompt) == []


@pytest.mark.parametrize(
    "prompt", ["can you give that variable a nicer name", "that is a lot of text, leave out the rest"]
)
def test_words_of_any_request_are_no_subject(store: Store, prompt: str) -> None:
    fill(store, a_memory("Field names", "The name of the field is cityAlId."), a_memory("Quotes", "Escape the text."))

    assert shown_for_session(store, prompt) == []


def test_a_test_that_was_meant_to_fail_is_not_told(store: Store) -> None:
    failed = "failure: cmd=npx vitest run scripts/new-fits.sync.test.mjs, exit=1, error=missing sync.mjs"
    fill(
        store,
        a_memory("Red", f"{failed} (expected red gate), next=implement the sync of new fits", kind="fix"),
        a_memory("Blocked", "Runs of new-fits that only have a blocked sync exit non-zero.", kind="pattern"),
    )
    prompt = "new-fits: synced=1 blocked=2 and exits non-zero. Why is the sync blocked?"

    assert shown_for_session(store, prompt) == ["Blocked"]
    left_out = {one.what: one for one in recall_memories(store, session_query(prompt), cut=SESSION_CUT).left_out}
    assert dict(left_out["Red"].because)["meant to fail"] < 0


def test_a_failure_that_nobody_expected_is_told(store: Store) -> None:
    failed = "failure: cmd=npx vitest run scripts/new-fits.sync.test.mjs, exit=1, error=sync.mjs reads a stale cache"
    fill(store, a_memory("Cache", f"{failed}, next=delete the cache before the sync of new fits", kind="fix"))

    assert shown_for_session(store, "the sync of new-fits reads a stale cache again") == ["Cache"]


def test_what_was_added_in_the_same_minute_is_no_result_of_a_search(project: Project) -> None:
    fill(project.store, a_memory("Docker first", "Start docker before the integration tests"))

    assert [one.memory.title for one in project.memory.search("docker")] == ["Docker first"]
    assert project.memory.search("xyzzy plugh") == []


def test_a_file_that_the_task_names_is_certain(project: Project) -> None:
    fill(project.store, a_memory("Keep it pure", "No clock in here.", tags=("x",), files=("src/billing/total.py",)))

    assert "Keep it pure" in shown_for_task(
        project, "Speed it up", "The slow part is src/billing/total.py, see the log."
    )


def test_memories_of_the_same_feature_count_without_a_word_in_common(project: Project) -> None:
    feature = project.features.add("Refunds", spec="Money back.")
    fill(project.store, a_memory("Ask finance first", "They sign off.", tags=("x",), feature="Refunds"))

    assert "Ask finance first" in shown_for_task(project, "Paint the button", feature=feature.id)
    assert "Ask finance first" not in shown_for_task(project, "Paint another button")


def test_files_do_not_push_out_what_is_about_the_task(store: Store) -> None:
    for n in range(12):
        remember(store, a_memory(f"Commit {n}", f"Tidy parser module {n}", files=("src/parser.py",), tags=("x",)))
    remember(store, a_memory("Decision", "The parser keeps comments: tools rely on comments.", tags=("x",)))

    shown = recall_memories(store, RecallContext(title="Keep comments in the parser")).shown

    assert shown[0].memory.title == "Decision"


def learning(kind: str, title: str, content: dict[str, object], task_type: str) -> Memory:
    return a_memory(
        title, title, kind=kind, structured_content=json.dumps(content), task_type=task_type, confidence=0.8, tags=()
    )


def test_what_loops_taught_is_shown_by_task_type_error_and_files(project: Project) -> None:
    for one in (
        learning(
            "strategy", "Test-driven", {"description": "Test-driven development", "effectiveness": 0.85}, "test-fix"
        ),
        learning(
            "strategy", "Sketch first", {"description": "Sketch the design", "effectiveness": 0.9}, "architecture"
        ),
        learning("antipattern", "Modules", {"description": "Module not found - verify dependencies"}, "test-fix"),
        learning(
            "estimate", "Time", {"totalIterations": 3, "avgIterationTime": 45000, "complexity": "low"}, "test-fix"
        ),
        learning("convention", "Specs", {"pattern": "Tests beside the source", "examples": ["a/b.spec.ts"]}, "feature"),
    ):
        remember(project.store, one)
    task = project.tasks.add("Fix failing authentication tests", "See login.spec.ts.")

    text = project.prompts.preview(task.id).text

    assert "## Knowledge Base (from previous loops)" in text
    assert "Test-driven development (effectiveness: 85%)" in text
    assert "- Avoid: Module not found - verify dependencies" in text
    assert "Tests beside the source" in text
    assert "Sketch the design" not in text
    assert "- Tasks like this took 3 attempts, 2 min (imported, 1 loop)" in text


def test_path_words_count_outside_of_a_run_too(project: Project) -> None:
    fill(project.store, a_memory("Ledger is append-only", "Never update a row.", tags=("ledger",)))
    project.store.tasks.add(TaskDraft(title="Rows"))
    run = project.store.runs.start("test")
    finish(project.store, *begin(project.store, run.id), AttemptOutcome.DONE, files=("src/ledger/rows.py",))

    task = project.tasks.add("Add another row")
    ranked = project.memory.search("", task_id=task.id)

    assert "Ledger is append-only" in [one.memory.title for one in ranked]


def test_the_estimate_is_a_probability_over_known_evidence() -> None:
    assert 0 < estimate_relevance({}) < 0.01
    assert estimate_relevance({"words": 1.0, "information": 2.5, "covered": 1.0, "title": 1.0}) > 0.5
    assert {"information", "identifier", "tagged", "covered", "cosine"} == COEFFICIENTS.keys() - WEIGHTS.keys()


def test_common_words_are_stems_and_name_no_subject() -> None:
    from ralph.core.tokenize import tokenize

    assert all(tokenize(word) in ([word], []) or len(word) > 3 for word in COMMON_STEMS)
    assert COMMON_STEMS.isdisjoint({*tokenize("login session docker version state order queue parser import agent")})


LONG = "\n".join(
    ["The ledger keeps money.", *(f"Step {n} of the tour describes a room with a view." for n in range(60))]
)
TELLING = "Refunds are posted by the nightly job, never by a request."


def test_a_long_memory_is_shown_by_its_best_sentences(project: Project) -> None:
    memory = remember(project.store, a_memory("Ledger", f"{LONG}\n{TELLING}", tags=("ledger",)))
    task = project.tasks.add("Post refunds to the ledger")

    text = project.prompts.preview(task.id).text
    told = project.sessions.prompt_context("s-1", "how are refunds posted to the ledger?").text

    for shown in (text, told):
        assert TELLING in shown
        assert f"ralph memory show {memory.id}" in shown
        assert "Step 59" not in shown


def test_the_items_of_a_list_stay_whole() -> None:
    items = [
        "- Maariv answers 308. The client follows redirects.",
        "- Districts have a shelter time. It is in seconds.",
    ]

    shown = shorten("\n".join([*items, *(f"- Item {n} is about something else." for n in range(9))]), ["shelter"], 150)

    assert items[1] in shown.splitlines()
    assert all(line == "[…]" or line.startswith("- ") for line in shown.splitlines())


REPORT = (
    "Problem: please read the contributing guidelines before you submit, and describe what you expected to happen. The"
    " validation of app labels is missing in the command {0}. Fix in management/{0}.py: validate the label first."
)


@pytest.mark.parametrize(
    ("subjects", "files", "count"),
    [(("show", "migrate"), ("show.py", "migrate.py"), 2), (("show", "show"), ("show.py", "show.py"), 1)],
)
def test_reports_of_one_template_about_other_files_are_no_duplicates(
    store: Store, subjects: tuple[str, str], files: tuple[str, str], count: int
) -> None:
    for number, (subject, file) in enumerate(zip(subjects, files, strict=True)):
        memory = a_memory(f"Labels {number}", REPORT.format(subject), kind="fix", files=(f"management/{file}",))
        store.memories.insert_all_unchecked([replace(memory, id=f"mem-1-{number}")], ChangeInfo(who="t", why="t"))

    assert len(recall_memories(store, RecallContext(title="Validation of app labels in commands")).shown) == count


PADDING = (
    "Please take care to keep the existing behaviour and look at how other places in this project do it before you"
    " change anything, write a short summary when you are done, and ask when something is unclear"
)


@pytest.mark.parametrize("title", ["Upgrade postgres to 16", "Upgrade the certificates"])
def test_ordinary_words_around_a_title_change_nothing(store: Store, title: str) -> None:
    fill(
        store,
        a_memory("ECONNREFUSED on 5432 means that docker is not running: make up", tags=("docker", "postgres")),
        a_memory("The mobile app pins the TLS certificate; rotate it with two weeks notice", tags=("tls",)),
    )

    plain = recall_memories(store, session_query(title), cut=SESSION_CUT).shown
    padded = recall_memories(store, session_query(f"{title}. {PADDING}"), cut=SESSION_CUT).shown

    assert len(plain) == 1
    assert [one.memory.id for one in padded] == [one.memory.id for one in plain]


def test_a_short_prompt_may_name_its_subject_with_everyday_words(store: Store) -> None:
    fill(
        store,
        a_memory("Money is stored as integer cents, never as float", tags=("money",)),
        a_memory("The rate limiter counts per API key", files=("src/api/limits.py",)),
    )

    assert shown_for_session(store, "Fix money rounding") == ["Money is stored as integer cents, never as float"]
    assert shown_for_session(store, "Update `limits.py`") == ["The rate limiter counts per API key"]
    assert shown_for_session(store, "Good money for half an hour of work, thank you") == []


def test_the_name_of_the_project_tells_nothing_in_it(project: Project) -> None:
    project.store.projects.rename(project.store.project_id, "tonic")
    fill(project.store, a_memory("Tonic validates manifests before a run", tags=("manifest",)))

    assert shown_for_session(project.store, "Teach tonic to reuse the compile cache") == []
