from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, MemoryState
from ralph.memory.capture.extract import classify_error, complexity, extract_learnings
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration
from ralph.memory.lifecycle.staging import needs_more_data, rejection_reason

AT = "2026-03-01T00:00:00.000Z"


def done(number: int = 1, *learnings: str, seconds: float = 10.0, files: tuple[str, ...] = ()) -> LoopIteration:
    return LoopIteration(
        number=number, succeeded=True, failed=False, seconds=seconds, learnings=tuple(learnings), files=files
    )


def failed(error: str, number: int = 1) -> LoopIteration:
    return LoopIteration(number=number, succeeded=False, failed=True, error=error)


def learned(*iterations: LoopIteration, objective: str = "Fix failing tests", kind: str = "") -> list[Memory]:
    history = LoopHistory(loop_id="loop-1", objective=objective, iterations=iterations, is_complete=True)
    return [memory for memory in extract_learnings(history, AT) if not kind or memory.kind == kind]


def contents(memories: list[Memory]) -> list[dict[str, object]]:
    return [json.loads(memory.structured_content) for memory in memories]


def patterns(*files: str) -> dict[str, float]:
    found = learned(done(files=files), kind="convention")
    return {json.loads(memory.structured_content)["pattern"]: memory.confidence for memory in found}


def test_an_empty_loop_teaches_nothing() -> None:
    assert learned() == []


def test_what_is_extracted_is_staged_with_its_origin() -> None:
    (memory,) = learned(done(1, "Wrote tests first"), kind="strategy")

    assert (memory.state, memory.source, memory.origin_loops) == (
        MemoryState.STAGED,
        MemorySource.AUTOMATIC,
        ("loop-1",),
    )
    assert (memory.task_type, memory.created_at, memory.updated_at) == ("test-fix", AT, AT)
    assert (
        memory.structured_content
        == '{"description":"Test-driven development approach","effectiveness":1,"iterations":1}'
    )
    assert memory.title == "Test-driven development approach"
    assert rejection_reason(memory) == ""


# --- strategies ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("learning", "strategy"),
    [
        ("Write tests first before implementation", "Test-driven development approach"),
        ("A failing test before the fix helped", "Test-driven development approach"),
        ("Implemented incrementally, one function at a time", "Incremental implementation"),
        ("Made minimal changes to fix the bug", "Minimal changes approach"),
        ("Refactored after tests passed", "Implement first, refactor after"),
        ("Reproduced the crash first, then fixed it", "Reproduce the problem before fixing it"),
        ("Read the whole parser before touching it", "Read the existing code before changing it"),
        ("Followed the existing handler pattern", "Follow the patterns already in the code"),
        ("Ran the tests after every edit", "Run the checks after every change"),
        ("Found the commit with git bisect", "Narrow the cause down before changing code"),
        ("Split the migration into smaller parts", "Split the work into smaller parts"),
        ("Writing tests first did not help here.", "Writing tests first did not help here"),
        ("The parser wants tabs. It always did.", "The parser wants tabs"),
    ],
)
def test_a_learning_counts_as_a_strategy_or_as_its_own_first_sentence(learning: str, strategy: str) -> None:
    assert [one["description"] for one in contents(learned(done(1, learning), kind="strategy"))] == [strategy]


def test_a_strategy_was_used_in_more_than_half_of_the_successful_iterations() -> None:
    found = learned(
        done(1, "Tests first", "Small steps"),
        done(2, "test-driven again", "test-driven twice in one iteration"),
        done(3, "Tests first"),
        done(4, "small commits", "small steps"),
        LoopIteration(number=5, succeeded=False, failed=True, learnings=("small steps",)),
        kind="strategy",
    )

    assert [(one["description"], one["effectiveness"], one["iterations"]) for one in contents(found)] == [
        ("Test-driven development approach", 0.75, 3)
    ]
    assert (found[0].confidence, found[0].success_rate) == (0.75, 0.75)


def test_what_always_worked_is_still_not_certain() -> None:
    (memory,) = learned(done(1, "tests first"), done(2, "tests first"), kind="strategy")

    assert (memory.confidence, memory.success_rate) == (0.9, 1.0)


def test_the_same_sentence_in_other_words_is_counted_once() -> None:
    found = learned(done(1, "The parser wants tabs."), done(2, "Parser wants tabs"), kind="strategy")

    assert [one["iterations"] for one in contents(found)] == [2]


# --- antipatterns --------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("SyntaxError: invalid syntax", "syntax"),
        ("TypeError: Cannot read properties of undefined (reading 'x')", "null"),
        ("AttributeError: 'NoneType' object has no attribute 'x'", "null"),
        ("panic: runtime error: nil pointer dereference", "null"),
        ("Command timed out after 30 s", "timeout"),
        ("TimeoutError", "timeout"),
        ("EACCES: permission denied, open 'x'", "permission"),
        ("Error: Cannot find module 'left-pad'", "missing-module"),
        ("ModuleNotFoundError: No module named 'x'", "missing-module"),
        ("connect ECONNREFUSED 127.0.0.1:5432", "network"),
        ("CONFLICT (content): Merge conflict in a.py", "merge-conflict"),
        ("FATAL ERROR: JavaScript heap out of memory", "out-of-memory"),
        ("error TS2322: Type 'a' is not assignable to type 'b'", "types"),
        ("AssertionError: assert 1 == 2", "tests"),
        ("3 failed, 10 passed", "tests"),
        ("NameError: name 'x' is not defined", "unknown-name"),
        ("undefined reference to `main'", "unknown-name"),
        ("cat: x: No such file or directory", "missing-file"),
        ("the moon was in the wrong phase", ""),
        ("", ""),
    ],
)
def test_errors_have_a_name(error: str, name: str) -> None:
    assert classify_error(error)[0] == name


def test_a_traceback_is_named_by_its_error_not_by_its_code() -> None:
    error = (
        "Traceback (most recent call last):\n"
        '  File "/src/timeout.py", line 3, in run\n'
        "    raise ValueError(parse(null, timeout=3))\n"
        "ValueError: the moon was in the wrong phase\n"
    )

    assert classify_error(error) == ("", "")


def test_two_kinds_of_trouble_seen_twice_are_two_antipatterns() -> None:
    found = learned(
        failed("TypeError: x is null"),
        failed("Request timed out"),
        failed("Cannot read undefined"),
        failed("operation timeout"),
        kind="antipattern",
    )

    assert [(memory.tags, memory.confidence, memory.success_rate) for memory in found] == [
        (("null",), 0.6, 0.0),
        (("timeout",), 0.6, 0.0),
    ]
    assert [(one["occurrences"], one["impact"]) for one in contents(found)] == [(2, "medium"), (2, "medium")]
    assert all(str(one["description"]).startswith("Avoid: ") for one in contents(found))
    assert all(rejection_reason(memory) == "" for memory in found)


def test_one_failure_is_no_pattern() -> None:
    assert learned(failed("TypeError: x is null"), failed("timeout"), kind="antipattern") == []


def test_the_same_unknown_error_at_another_line_is_the_same() -> None:
    found = learned(
        failed("Moon error at /a/b.py:12: phase 'new'"),
        failed("Moon error at /c/d.py:77: phase 'full'"),
        failed("Sun error"),
        kind="antipattern",
    )

    assert [one["description"] for one in contents(found)] == ["Avoid: Moon error at /a/b.py:12: phase 'new'"]


def test_many_failures_weigh_more_up_to_a_limit() -> None:
    (memory,) = learned(*(failed("timeout", number) for number in range(9)), kind="antipattern")

    assert (memory.confidence, json.loads(memory.structured_content)["impact"]) == (0.8, "high")


# --- estimates -----------------------------------------------------------------


def test_an_estimate_says_how_long_and_how_well_it_went() -> None:
    (memory,) = learned(
        done(1, seconds=40.0, files=("a.py", "b.py", "c.py")), done(2, seconds=47.001), failed("no"), kind="estimate"
    )

    assert json.loads(memory.structured_content) == {
        "avgIterationTime": 43500.5,
        "totalIterations": 3,
        "complexity": "medium",
        "successRate": 2 / 3,
    }
    assert (memory.confidence, memory.success_rate, memory.task_type) == (0.4, 2 / 3, "test-fix")


def test_whole_numbers_are_written_as_such() -> None:
    (memory,) = learned(done(1, seconds=1.0), kind="estimate")

    assert (
        memory.structured_content == '{"avgIterationTime":1000,"totalIterations":1,"complexity":"low","successRate":1}'
    )


def test_one_completed_iteration_is_little_to_go_by() -> None:
    (memory,) = learned(done(1), kind="estimate")

    assert memory.confidence == 0.2
    assert needs_more_data(memory)


def test_the_surest_estimate_has_five_iterations() -> None:
    (memory,) = learned(*(done(number) for number in range(5)), kind="estimate")

    assert memory.confidence == 0.9


def test_nothing_completed_is_nothing_to_estimate_by() -> None:
    assert learned(failed("no"), kind="estimate") == []


def test_times_that_cannot_be_are_left_out() -> None:
    found = learned(done(1, seconds=math.nan), done(2, seconds=math.inf), done(3, seconds=2.0), kind="estimate")

    assert contents(found)[0]["avgIterationTime"] == 2000


@pytest.mark.parametrize(
    ("iterations", "files", "expected"),
    [(2, 2, "low"), (3, 2, "medium"), (2, 3, "medium"), (5, 5, "medium"), (6, 1, "high"), (1, 6, "high")],
)
def test_complexity_goes_by_iterations_and_files(iterations: int, files: int, expected: str) -> None:
    assert complexity(iterations, files) == expected


# --- conventions ---------------------------------------------------------------


def test_a_python_project() -> None:
    found = patterns(
        "src/shop/__init__.py", "src/shop/cart.py", "src/shop/api/__init__.py", "tests/test_cart.py", "README.md"
    )

    assert found == {
        "Tests are in tests/ as test_*.py": 0.7,
        "Modules are Python (.py)": 0.8,
        "Python packages have an __init__.py": 0.8,
        "Source is in src/shop/": 0.6,
    }


def test_a_rust_project() -> None:
    found = patterns("src/main.rs", "src/dag/mod.rs", "src/ui/mod.rs", "tests/smoke.rs", "tests/common/mod.rs")

    assert found == {
        "Tests are in tests/ as *.rs": 0.7,
        "Modules are Rust (.rs)": 0.8,
        "Rust submodules are directories with a mod.rs": 0.8,
        "Source is in src/": 0.6,
    }


def test_a_go_project() -> None:
    found = patterns(
        "cmd/app/main.go", "cmd/tool/main.go", "internal/db/db.go", "internal/db/db_test.go", "internal/api/api.go"
    )

    assert found == {
        "Tests are next to the source as *_test.go": 0.7,
        "Modules are Go (.go)": 0.8,
        "Source is in cmd/": 0.6,
        "Source is in internal/": 0.6,
    }


def test_a_java_project() -> None:
    found = patterns("src/main/java/shop/Cart.java", "src/main/java/shop/Item.java", "src/test/java/shop/CartTest.java")

    assert found == {
        "Tests are in src/test/java/ as *Test.java": 0.7,
        "Modules are Java (.java)": 0.8,
        "Source is in src/main/java/": 0.6,
    }


def test_a_project_of_scripts() -> None:
    found = patterns("src/a.ts", "src/b.ts", "lib/c.mjs", "lib/d.mjs", "src/a.test.ts", "src/types.d.ts")

    assert found == {
        "Tests are next to the source as *.test.ts": 0.7,
        "Modules are TypeScript (.ts)": 0.8,
        "Modules are ES modules (.mjs)": 0.8,
        "Source is in src/": 0.6,
        "Source is in lib/": 0.6,
    }


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("pkg/thing_test.py", "Tests are next to the source as *_test.py"),
        ("test_app.py", "Tests are named test_*.py"),
        ("app/users/tests/test_models.py", "Tests are in tests/ directories as test_*.py"),
        ("test/login.spec.mjs", "Tests are in test/ as *.spec.mjs"),
        ("src/__tests__/login.js", "Tests are in __tests__/ directories as *.js"),
        ("core/src/test/kotlin/CartTest.kt", "Tests are in src/test/kotlin/ as *Test.kt"),
    ],
)
def test_one_test_shows_where_tests_are(path: str, pattern: str) -> None:
    assert patterns(path) == {pattern: 0.7}


def test_one_file_is_no_layout_and_other_peoples_files_are_none() -> None:
    assert patterns("src/app.py", "node_modules/x/a.js", "node_modules/x/b.js", "README.md", "Makefile", "") == {}


def test_members_of_a_workspace_are_one_place() -> None:
    assert "Source is in packages/*/src/" in patterns("packages/a/src/x.ts", "packages/b/src/y.ts")


def test_tests_in_many_places_are_no_convention() -> None:
    found = patterns("a/test_x.py", "tests/test_y.py", "b/tests/test_z.py")

    assert not [pattern for pattern in found if pattern.startswith("Tests")]


def test_a_convention_has_a_few_examples_and_holds_for_all_tasks() -> None:
    (memory, *_) = learned(done(files=tuple(f"tests/test_{n}.py" for n in range(9))), kind="convention")

    assert json.loads(memory.structured_content)["examples"] == [f"tests/test_{n}.py" for n in range(5)]
    assert (memory.task_type, memory.success_rate, memory.files) == ("general", 1.0, ("tests/*test_*.py",))


# --- hostile input -------------------------------------------------------------


@given(st.lists(st.text(max_size=80), max_size=5), st.text(max_size=200))
def test_whatever_a_loop_says_is_never_refused_for_its_fields(texts: list[str], error: str) -> None:
    iterations = [done(1, *texts, files=tuple(texts)), failed(error, 2), failed(error, 3)]

    for memory in learned(*iterations):
        assert memory.title
        assert rejection_reason(memory) in ("", "Confidence too low (< 0.3)")


def test_a_huge_text_takes_no_time() -> None:
    huge = "a reproduced b before " * 50_000
    started = time.process_time()

    learned(done(1, huge, files=(huge,)), failed(huge), failed("error " + huge))

    assert time.process_time() - started < 2
