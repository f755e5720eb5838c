from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory, MemorySource, MemoryState, replace
from ralph.memory.capture.extract import extract_learnings, is_known_strategy
from ralph.memory.lifecycle.error_category import classify_error
from ralph.memory.lifecycle.estimates import complexity
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
    assert json.loads(memory.structured_content) == {
        "description": "Test-driven development approach",
        "effectiveness": 1,
        "iterations": 1,
        "uses": 1,
    }
    assert memory.title == "Test-driven development approach"


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
    assert (round(found[0].confidence, 2), found[0].success_rate) == (0.44, 0.75)


def test_confidence_is_a_lower_bound_that_grows_with_the_evidence_up_to_a_limit() -> None:
    def confidence(times: int) -> float:
        return learned(*(done(n, "tests first") for n in range(times)), kind="strategy")[0].confidence

    # One success of one was 0.9 before.
    assert [round(confidence(times), 2) for times in (1, 2, 5, 10, 100)] == [0.21, 0.34, 0.57, 0.72, 0.9]


def test_uses_that_failed_count_against_a_strategy() -> None:
    failing = LoopIteration(number=3, succeeded=False, failed=True, learnings=("tests first",), error="no")

    (memory,) = learned(done(1, "tests first"), done(2, "tests first"), failing, kind="strategy")

    assert memory.confidence < learned(done(1, "tests first"), done(2, "tests first"), kind="strategy")[0].confidence


def test_one_task_is_no_strategy_yet_unless_it_turned_the_outcome() -> None:
    (foreign,) = learned(done(1, "Tests first"), kind="strategy")
    worked = replace(done(2, "Tests first"), task="t-1")
    other = replace(done(3, "Tests first"), task="t-2")
    (once,) = learned(worked, kind="strategy")
    (turned,) = learned(replace(failed("no", 1), task="t-1"), worked, kind="strategy")
    (supported,) = learned(worked, other, kind="strategy")

    assert [needs_more_data(one) for one in (foreign, once, turned, supported)] == [True, True, False, False]
    assert rejection_reason(supported) == ""


@pytest.mark.parametrize("notes", ["ok", "done", "All good", ""])
def test_a_word_is_no_strategy(notes: str) -> None:
    assert learned(done(1, notes), done(2, notes), kind="strategy") == []
    assert not is_known_strategy(notes)


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
        ("FileNotFoundError: [Errno 2] no config", "missing-file"),
        ("java.lang.ClassNotFoundException: shop.Cart", "missing-module"),
        ("getaddrinfo ENOTFOUND packages.example.com", "network"),
        ("java.lang.OutOfMemoryError: Java heap space", "out-of-memory"),
        ("error: the runtime output was empty", ""),
        ("error: syntax highlighting is off", ""),
        ("error: the annulled order was shipped", ""),
        ("httpx.ReadTimeout", "timeout"),
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

    assert [(memory.tags, round(memory.confidence, 2), memory.success_rate) for memory in found] == [
        (("null",), 0.34, 0.0),
        (("timeout",), 0.34, 0.0),
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
    (memory,) = learned(*(failed("timeout", number) for number in range(40)), kind="antipattern")

    assert (memory.confidence, json.loads(memory.structured_content)["impact"]) == (0.8, "high")


@pytest.mark.parametrize(
    "error",
    [
        "claude exited with 1: Not logged in · Please run /login",
        "API Error: 401 Invalid authentication credentials",
        "Credit balance is too low",
        "You've hit your 5-hour limit · resets 9:31am (Europe/Berlin)",
        "the agent printed nothing for 300 s and was terminated",
    ],
)
def test_what_the_service_of_a_model_says_teaches_nothing(error: str) -> None:
    assert learned(failed(error, 1), failed(error, 2), failed(error, 3), kind="antipattern") == []


def test_of_our_own_attempts_the_error_itself_is_the_lesson() -> None:
    error = "ModuleNotFoundError: No module named 'yaml'"
    own = [replace(failed(error, n), task=f"t-{n}") for n in (1, 2)]
    others = [replace(failed("ModuleNotFoundError: No module named 'toml'", 3), task="t-3")]

    (memory,) = learned(*own, *others, kind="antipattern")

    assert memory.title == f"Avoid: {error}"
    assert "see that every dependency is installed" in memory.content
    assert "Seen 2 times in 2 tasks" in memory.content
    assert not needs_more_data(memory)


def test_failing_tests_of_one_task_are_no_antipattern_even_if_they_pass_later() -> None:
    def attempts(error: str) -> list[LoopIteration]:
        failing = [replace(failed(error, n), task="t-1") for n in (1, 2)]
        return [*failing, replace(done(3), task="t-1")]

    (tests,) = learned(*attempts("FAILED tests/test_cart.py::test_total - assert 3 == 4"), kind="antipattern")
    (tool,) = learned(*attempts("ModuleNotFoundError: No module named 'yaml'"), kind="antipattern")

    assert (needs_more_data(tests), needs_more_data(tool)) == (True, False)


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
    modules = ("src/shop/__init__.py", "src/shop/cart.py", "src/shop/api/__init__.py")
    found = patterns(*modules, "tests/test_cart.py", "tests/test_api.py", "tests/test_shop.py", "README.md")

    assert found == {"Tests are in tests/ as test_*.py": 0.7, "Source is in src/shop/": 0.6}


def test_a_rust_project() -> None:
    modules = ("src/main.rs", "src/dag/mod.rs", "src/ui/mod.rs", "src/db/mod.rs")
    found = patterns(*modules, "tests/smoke.rs", "tests/cli.rs", "tests/config.rs", "tests/common/mod.rs")

    assert found == {"Tests are in tests/ as *.rs": 0.7, "Rust submodules are directories with a mod.rs": 0.8}


def test_a_go_project() -> None:
    sources = ("cmd/app/main.go", "internal/db/db.go", "internal/api/api.go", "internal/api/auth.go")
    found = patterns(*sources, *(path.replace(".go", "_test.go") for path in sources[1:]))

    assert found == {"Tests are next to the source as *_test.go": 0.7}


def test_a_java_project() -> None:
    names = ("Cart", "Item", "Order")
    found = patterns(
        *(f"src/main/java/shop/{name}.java" for name in names),
        *(f"src/test/java/shop/{name}Test.java" for name in names),
    )

    assert found == {"Tests are in src/test/java/ as *Test.java": 0.7}


def test_a_project_of_scripts() -> None:
    modules = ("lib/c.mjs", "lib/d.mjs", "lib/e.mjs", "src/a.ts", "src/b.ts", "src/c.ts", "src/types.d.ts")
    found = patterns(*modules, "src/a.test.ts", "src/b.test.ts", "src/c.test.ts")

    assert found == {"Tests are next to the source as *.test.ts": 0.7, "Modules are ES modules (.mjs)": 0.8}


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("app/users/tests/test_*.py", "Tests are in tests/ directories as test_*.py"),
        ("test/*.spec.mjs", "Tests are in test/ as *.spec.mjs"),
        ("src/__tests__/*.js", "Tests are in __tests__/ directories as *.js"),
        ("core/src/test/kotlin/*Test.kt", "Tests are in src/test/kotlin/ as *Test.kt"),
        ("e2e/*.spec.ts", "Tests are in e2e/ as *.spec.ts"),
    ],
)
def test_three_tests_show_where_tests_are_and_two_do_not(path: str, pattern: str) -> None:
    files = [path.replace("*", name) for name in ("Login", "Cart", "Order")]

    assert patterns(*files) == {pattern: 0.7}
    assert patterns(*files[:2]) == {}


def test_tests_next_to_nothing_are_not_next_to_the_source() -> None:
    assert patterns("browser/a.spec.ts", "browser/b.spec.ts", "browser/c.spec.ts") == {}


def test_one_exception_is_enough() -> None:
    modules = [f"packages/{name}/src/{name}.ts" for name in "abc"]

    assert patterns(*modules, "tools/release.ts") == {}
    assert not patterns("src/dag/mod.rs", "src/ui/mod.rs", "src/db/mod.rs", "src/ui.rs")


def test_what_any_reader_sees_at_once_and_other_peoples_files_are_not_kept() -> None:
    assert patterns("src/a.js", "src/b.js", "src/c.js", "app/x.py", "app/y.py", "app/z.py") == {}
    assert patterns(*(f"node_modules/x/{name}.mjs" for name in "abc"), "README.md", "Makefile", "") == {}


def test_members_of_a_workspace_are_one_place() -> None:
    assert "Source is in packages/*/" in patterns(*(f"packages/{name}/parts/x.ts" for name in "abc"))


def test_where_members_of_a_workspace_have_their_source_is_obvious() -> None:
    assert patterns(*(f"packages/{name}/src/x.ts" for name in "abc")) == {}


def test_tests_in_many_places_are_no_convention() -> None:
    found = patterns("a/test_x.py", "tests/test_y.py", "b/tests/test_z.py")

    assert not [pattern for pattern in found if pattern.startswith("Tests")]


def test_a_convention_has_a_few_examples_and_holds_for_all_tasks() -> None:
    (memory, *_) = learned(done(files=tuple(f"tests/test_{n}.py" for n in range(9))), kind="convention")

    assert json.loads(memory.structured_content)["examples"] == [f"tests/test_{n}.py" for n in range(5)]
    assert "9 files, no exception" in memory.content
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
