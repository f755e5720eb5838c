from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, MemoryState
from ralph.memory.capture.handover import (
    MAX_FINDINGS,
    extract_at_completion,
    extract_at_handover,
    extract_gate_fix,
    gate_name,
    program_of,
)
from ralph.memory.capture.worth_keeping import MAX_LENGTH, MIN_LENGTH
from ralph.memory.lifecycle.gate_fixes import fix_text
from ralph.memory.recall.render import title_without_body

AT = "2026-03-01T00:00:00.000Z"

EXPLORER_GO = """I'll start by exploring the repository to understand how sessions are handled.

Let me look at the session package first.

## Findings

- HTTP handlers live in `internal/api/`, one file per resource, and are registered in `internal/api/router.go`.
- The session manager (`internal/session/manager.go`) owns all worktrees; handlers only go through `Manager.Start`.
- Tests use testify v1.9 for assertions instead of the standard library.
- The code base is quite large and well organised.
- There are a lot of files here.

Now I will check how the database is opened. It seems that SQLite might be used somewhere.
SQLite access depends on `modernc.org/sqlite`, pinned in go.mod, so no C compiler is needed.

What happens when the session is empty?

### Next steps
1. The planner should look at `internal/session/manager.go`.
2. Migrations are stored in `internal/db/schema/` and need a new file.

<journal>
Handlers are in `internal/api/`; everything is stored in `internal/db/`.
</journal>
MEMORY:architecture:The router is in internal/api/router.go
"""
EXPLORER_PY = """# Exploration

The command line lives in `src/shop/cli/`, one module per noun, and every command goes through `Project` in
`src/shop/project.py`. I read about forty files.

It turns out that prices are stored as integer cents in the `orders` table; `Money` in src/shop/money.py wraps them.

```python
# Everything is in src/shop/fake.py and depends on nothing
```

The project requires Python 3.11 or newer and uses Pydantic v2 for validation.

Running the tests took 42 seconds. All 118 tests pass.

| file | lines |
|---|---|
| src/shop/app.py | handlers are registered in app.py |

Overall the architecture is clean. Let me hand over to the planner now.
"""
EXPLORER_NOISE = """Sure! Let me explore the code.

I opened README.md and package.json. Next I'm going to read src/index.ts.
First, let me check the tests. Reading src/app.ts now.
Everything is here. The structure is fine and easy to follow.
Should we look at the build as well?
TODO: find out where the router lives in src/.
- [ ] find the handlers in src/api/
I think the services might be in src/services/.
"""
PLANNER = """## Plan

1. Add a `version` column to the `tasks` table.
2. Write tests for the migration in tests/test_migrate.py.

## Decisions

- We chose SQLite over PostgreSQL for the local store because a single file needs no server.
- Keep the public `Store` protocol unchanged since three plugins implement it.
- Decided against an ORM: importing SQLAlchemy costs about 300 ms at start.

## Constraints

- The migration must stay backward compatible with databases written by version 1.2.
- Request bodies are limited to 64 KB by the gateway.
- It must be fast.
- The creator must run all tests before finishing.

Let me know if something is unclear. I will now hand over to the creator.
"""
PLANNER_CHAT = """I'll plan the work now. First we need to understand what `parse_config` does.

The approach: add a flag, then wire it through `cli.py`. After that, update the docs.

I decided to parse TOML with `tomllib` instead of adding a dependency, because Python 3.11 ships it.
Step 2 must not be started before step 1.
We should consider caching later on.
Only files below 1 MB can be parsed, since `read_limited` refuses larger ones; larger ones are not supported.
Is a cache needed here?
"""
CRITIC = """Thanks for the change, looks good overall!

Findings:

1. `session.Get()` returns nil instead of an error when the session does not exist, so `Start` panics in handlers.
2. The cursor in `src/store/rows.py` is never closed when `fetch_all` raises.
3. **SQL injection**: `search()` puts the term into the query unescaped, which breaks for names with a quote such
   as "O'Neil".
4. Please add a test for the empty list.
5. Fix the typo in the README.
6. `parse_date` silently ignores the time zone, so moments in winter are off by 1 hour.
7. Nice naming of the helpers.
8. The retry loop in `client.py` hangs when the server answers 204 without a body.
9. `cache.get` mutates the shared `DEFAULTS` dict, so the wrong value is returned for the next tenant.

What about Windows? I think there might be a race in `Worker`, not sure.

## What works
- Error messages are never swallowed in `api.py`.
"""
CRITIC_REPEATS = """- The lock in `Worker.stop` is never released when `join()` times out.
- The lock in `Worker.stop` is never released if `join()` times out.
- I found that `load_all` loses the last row when the file has no trailing newline.
- All tests pass now and the diff is fine.
- Will be handled in a follow-up: `load_all` leaks a file handle when it fails.
"""
NOTES = """Added the export command and fixed the flaky test. Tests pass.
Commands are thin here: every command parses its options, calls `Project` once and prints.
Error messages start with a capital letter and end with a period; `tests/test_errors.py` checks it.
When adding a new format, register it in `formats/__init__.py` and add a golden file under tests/golden/.
I had to run the suite twice. Next iteration should look at the import command.
Renamed `Exporter` to `Writer`.
It was a hard task.
"""
NOTES_NOISE = """Implemented the feature as described and ran the tests. 12 passed.
Updated README.md with the new usage. Nothing else to report.
Everything works. See the commit message for details.
Wrote `export.py`, then tested it with three files.
"""


def said(memories: list[Memory]) -> list[tuple[str, str]]:
    return [(memory.kind, memory.content) for memory in memories]


# --- what roles hand over ------------------------------------------------------


def test_an_explorer_leaves_how_it_is_built_and_what_it_needs() -> None:
    assert said(extract_at_handover("explorer", "planner", EXPLORER_GO, AT)) == [
        (
            "architecture",
            "HTTP handlers live in `internal/api/`, one file per resource, and are registered in"
            " `internal/api/router.go`.",
        ),
        (
            "architecture",
            "The session manager (`internal/session/manager.go`) owns all worktrees; handlers only go through"
            " `Manager.Start`.",
        ),
        ("dependency", "Tests use testify v1.9 for assertions instead of the standard library."),
        (
            "dependency",
            "SQLite access depends on `modernc.org/sqlite`, pinned in go.mod, so no C compiler is needed.",
        ),
    ]


def test_sentences_are_found_across_lines_and_without_what_leads_up_to_them() -> None:
    assert said(extract_at_handover("explorer", "planner", EXPLORER_PY, AT)) == [
        (
            "architecture",
            "The command line lives in `src/shop/cli/`, one module per noun, and every command goes through"
            " `Project` in `src/shop/project.py`.",
        ),
        (
            "architecture",
            "Prices are stored as integer cents in the `orders` table; `Money` in src/shop/money.py wraps them.",
        ),
        ("dependency", "The project requires Python 3.11 or newer and uses Pydantic v2 for validation."),
    ]


def test_a_planner_leaves_decisions_and_constraints_but_not_its_plan() -> None:
    assert said(extract_at_handover("planner", "creator", PLANNER, AT)) == [
        ("decision", "We chose SQLite over PostgreSQL for the local store because a single file needs no server."),
        ("decision", "Keep the public `Store` protocol unchanged since three plugins implement it."),
        ("decision", "Decided against an ORM: importing SQLAlchemy costs about 300 ms at start."),
        ("constraint", "The migration must stay backward compatible with databases written by version 1.2."),
        ("constraint", "Request bodies are limited to 64 KB by the gateway."),
    ]


def test_a_decision_may_be_told_in_the_first_person() -> None:
    assert said(extract_at_handover("planner", "creator", PLANNER_CHAT, AT)) == [
        (
            "decision",
            "I decided to parse TOML with `tomllib` instead of adding a dependency, because Python 3.11 ships it.",
        ),
        (
            "constraint",
            "Only files below 1 MB can be parsed, since `read_limited` refuses larger ones; larger ones are not"
            " supported.",
        ),
    ]


def test_a_critic_leaves_pitfalls() -> None:
    found = extract_at_handover("critic", "creator", CRITIC, AT)

    assert said(found) == [
        (
            "pitfall",
            "`session.Get()` returns nil instead of an error when the session does not exist, so `Start` panics in"
            " handlers.",
        ),
        ("pitfall", "The cursor in `src/store/rows.py` is never closed when `fetch_all` raises."),
        (
            "pitfall",
            "SQL injection: `search()` puts the term into the query unescaped, which breaks for names with a quote"
            ' such as "O\'Neil".',
        ),
        ("pitfall", "`parse_date` silently ignores the time zone, so moments in winter are off by 1 hour."),
        ("pitfall", "The retry loop in `client.py` hangs when the server answers 204 without a body."),
        (
            "pitfall",
            "`cache.get` mutates the shared `DEFAULTS` dict, so the wrong value is returned for the next tenant.",
        ),
    ]
    assert {memory.confidence for memory in found} == {0.6}
    assert {memory.tags for memory in found} == {("review", "critic-finding")}
    assert [memory.files for memory in found] == [(), ("src/store/rows.py",), (), (), ("client.py",), ()]


def test_what_a_critic_says_twice_is_kept_once() -> None:
    assert said(extract_at_handover("critic", "creator", CRITIC_REPEATS, AT)) == [
        ("pitfall", "The lock in `Worker.stop` is never released when `join()` times out."),
        ("pitfall", "`load_all` loses the last row when the file has no trailing newline."),
    ]


def test_talk_about_the_session_leaves_nothing() -> None:
    assert extract_at_handover("explorer", "planner", EXPLORER_NOISE, AT) == []


@pytest.mark.parametrize(
    ("from_hat", "to_hat"), [("creator", "critic"), ("planner", "explorer"), ("creator", "editor"), ("", "")]
)
def test_other_handovers_leave_nothing(from_hat: str, to_hat: str) -> None:
    assert extract_at_handover(from_hat, to_hat, EXPLORER_GO, AT) == []


def test_what_is_found_is_active_and_says_where_it_comes_from() -> None:
    memory = extract_at_handover("explorer", "planner", EXPLORER_PY, AT)[0]

    assert (memory.state, memory.source, memory.confidence) == (MemoryState.ACTIVE, MemorySource.AUTOMATIC, 0.5)
    assert (memory.hat, memory.created_at, memory.files) == ("explorer", AT, ("src/shop/project.py",))


SENTENCE = "Handlers live in `internal/api/` and go through `Manager`"


@pytest.mark.parametrize(
    "text",
    [
        f"## {SENTENCE}",
        f"{SENTENCE}?",
        f"| {SENTENCE} |",
        f"- [ ] {SENTENCE}",
        f"```\n{SENTENCE}\n```",
        f"```\n{SENTENCE}",
        f"<learning>\n{SENTENCE}\n</learning>",
        f"<journal>{SENTENCE}",
        f"MEMORY:architecture:{SENTENCE}",
        f"I will see whether {SENTENCE}.",
        f"Let me note: {SENTENCE}.",
        f"Next, {SENTENCE}.",
        f"Now {SENTENCE}.",
        f"{SENTENCE}, I think.",
        f"{SENTENCE}, but that is unclear to me.",
        f"# Next steps\n{SENTENCE}",
        "Handlers live in a package and go through a manager",
        SENTENCE + " and so on" * 40,
        "It is in `a/`.",
    ],
)
def test_a_sentence_is_left_alone_that_is_no_finding(text: str) -> None:
    assert extract_at_handover("explorer", "planner", SENTENCE, AT) != []
    assert extract_at_handover("explorer", "planner", text, AT) == []


def test_a_sigil_that_ends_lets_the_text_go_on() -> None:
    text = f"<knowledge>\nRouters live in `x/y.py`.\n</knowledge>\n{SENTENCE}."

    assert said(extract_at_handover("explorer", "planner", text, AT)) == [("architecture", f"{SENTENCE}.")]


# --- a task that is done -------------------------------------------------------


def test_notes_of_a_done_task_leave_patterns_and_conventions() -> None:
    changed = ["src/app/formats/__init__.py", "tests/test_errors.py"]

    found = extract_at_completion(NOTES, changed, AT)

    assert said(found) == [
        ("pattern", "Commands are thin here: every command parses its options, calls `Project` once and prints."),
        (
            "convention",
            "Error messages start with a capital letter and end with a period; `tests/test_errors.py` checks it.",
        ),
        (
            "pattern",
            "When adding a new format, register it in `formats/__init__.py` and add a golden file under tests/golden/.",
        ),
    ]
    assert [memory.files for memory in found] == [(), ("tests/test_errors.py",), ("src/app/formats/__init__.py",)]


def test_a_file_that_is_only_named_is_the_changed_one_of_that_name() -> None:
    notes = "Commands use `open_project` from output.py instead of opening the store themselves."

    (memory,) = extract_at_completion(notes, ["src/ralph/cli/output.py"], AT)

    assert memory.files == ("src/ralph/cli/output.py",)


def test_a_report_of_deeds_leaves_nothing() -> None:
    assert extract_at_completion(NOTES_NOISE, ["export.py"], AT) == []


# --- a gate that passes again --------------------------------------------------


def test_a_gate_that_passes_again_leaves_the_problem_and_the_fix() -> None:
    memory = extract_gate_fix("uv run pytest -q", "test_tabs failed", "Accept tabs.", ["src/parser.py"], AT)

    assert (memory.kind, memory.title) == ("fix", "pytest failed (test_tabs failed): Accept tabs")
    assert memory.content == "**Problem:** test_tabs failed (pytest)\n\n**Fix:** Accept tabs."
    assert (memory.tags, memory.confidence) == (("pytest", "quality-gate"), 0.7)
    assert (memory.files, memory.source, memory.created_at) == (("src/parser.py",), MemorySource.AUTOMATIC, AT)


@pytest.mark.parametrize(
    ("problem", "title"),
    [
        ("AssertionError: Decimal('2.67') != Decimal('2.68') : money is rounded half up", "Money is rounded half up"),
        ("AssertionError: the export has no byte order mark", "The export has no byte order mark"),
        ("error[E0382]: borrow of moved value: `x`", "Borrow of moved value: `x`"),
        ("RuntimeError: Working outside of application context.", "Working outside of application context"),
        ("ModuleNotFoundError: No module named 'redis'", "No module named 'redis'"),
        ("'money.ts' is not under 'rootDir'", "'money.ts' is not under 'rootDir'"),
        ("parse_date() takes no time zone", "parse_date() takes no time zone"),
        ("exited with 1", "make test failed: Accept tabs"),
        ("", "make test failed: Accept tabs"),
    ],
)
def test_the_title_of_a_fix_says_what_was_wrong(problem: str, title: str) -> None:
    assert extract_gate_fix("make test", problem, "Accept tabs.", [], AT).title == title


@pytest.mark.parametrize(
    ("problem", "values"),
    [
        ("AssertionError: 127 != 128", "127 != 128"),
        ("AssertionError: True is not false", "True is not false"),
        ("AssertionError: count 127 != 128", "count 127 != 128"),
        ("assert Decimal('2.67') == Decimal('2.68')", "assert Decimal('2.67') == Decimal('2.68')"),
        ("Expected values to be strictly equal: 3 !== 4", "Expected values to be strictly equal: 3 !== 4"),
        ("assertion `left == right` failed", "assertion `left == right` failed"),
        ("FAILED tests/test_a.py::test_b - assert 3 == 4", "FAILED tests/test_a.py::test_b - assert 3 == 4"),
    ],
)
def test_values_that_differ_are_no_title_without_what_failed_and_what_was_done(problem: str, values: str) -> None:
    memory = extract_gate_fix("make test", problem, "Round half up.", ["pricing.py"], AT)

    assert memory.title == f"make test failed ({values}): Round half up"
    # A prompt says it once.
    assert title_without_body(memory.title, fix_text(memory)) == f"make test failed ({values})"


@pytest.mark.parametrize(
    ("gate", "name"),
    [
        ("make test", "make test"),
        ("npm run lint", "npm lint"),
        ("cargo test --all", "cargo test"),
        ("uv run pytest -q tests", "pytest"),
        ("./ci/check.sh fast", "check.sh"),
    ],
)
def test_a_gate_is_named_by_its_program_and_what_it_is_asked_for(gate: str, name: str) -> None:
    assert gate_name(gate) == name


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        (
            "RuntimeError: Working outside of application context.",
            "Jobs run outside of a request: wrap them in `with_app_context`.",
        ),
        (
            "no such table: customers",
            "Run `flask db upgrade` before the tests, otherwise the `customers` table is missing.",
        ),
        ("the export has no byte order mark", "CSV files must be written with a BOM because Excel needs it."),
    ],
)
def test_of_notes_about_the_whole_task_a_fix_has_what_is_about_the_problem(problem: str, fix: str) -> None:
    notes = f"Fixed a typo. {fix} Every query on `customers` needs `deleted_at IS NULL` since rows are never removed."

    assert extract_gate_fix("pytest", problem, notes, [], AT).content.endswith(f"**Fix:** {fix}")


def test_without_a_word_on_the_change_the_files_have_to_do() -> None:
    assert extract_gate_fix("make", "", "", ["a.py", "b.py"], AT).content.endswith("**Fix:** Changed a.py, b.py.")
    assert (
        extract_gate_fix("make", "It broke", "", [], AT).content
        == "**Problem:** It broke (make)\n\n**Fix:** Not recorded."
    )


def test_secrets_and_floods_do_not_get_into_a_fix() -> None:
    memory = extract_gate_fix("make", "x" * 5000 + " token", "export API_KEY=abcdef123456789", [], AT)

    assert len(memory.content) < 1500
    assert "abcdef" not in memory.content


@pytest.mark.parametrize(
    ("gate", "program"),
    [
        ("pytest -q", "pytest"),
        (".venv/bin/ruff check .", "ruff"),
        ("python3 -m pytest tests", "pytest"),
        ("CI=1 npx vitest run", "vitest"),
        ("make check", "make"),
        ("timeout 60 go test ./...", "go"),
        ("bash -c 'cargo test'", "cargo"),
        ("python", "python"),
        ("", "gate"),
    ],
)
def test_a_gate_is_named_after_its_program(gate: str, program: str) -> None:
    assert program_of(gate) == program


# --- any text ------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "`a.py`",
        "lives in",
        "must not",
        "fails when",
        "<journal>",
        "</journal>",
        "```",
        "\n",
        "- ",
        ". ",
        "#",
        "x" * 30,
        "chose",
    ]
)


@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_whatever_the_text_only_short_plain_sentences_come_out(text: str) -> None:
    found = extract_at_handover("critic", "creator", text, AT) + extract_at_handover("explorer", "planner", text, AT)

    assert len(found) <= 2 * MAX_FINDINGS
    for memory in found:
        assert MIN_LENGTH <= len(memory.content) <= MAX_LENGTH
        assert "\n" not in memory.content
        assert "journal" not in memory.content


@pytest.mark.parametrize(
    "piece", ["a. ", "e.g. A ", "`", "<journal>", "<!--", "- ", "x: ", " ", "**", "The cache is never closed. "]
)
def test_a_megabyte_takes_no_time(piece: str) -> None:
    started = time.process_time()

    extract_at_handover("critic", "creator", piece * (1_000_000 // len(piece)), AT)

    assert time.process_time() - started < 5
