from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import MemorySource, replace
from ralph.memory.lifecycle.duplicates import find_paraphrases, merge_duplicates
from ralph.memory.lifecycle.same_fact import ONE_FACT, Relation, is_better_wording, relate
from tests.make import a_memory

AT = "2026-03-01T00:00:00.000Z"
MIGRATIONS = (
    "Run migrations before the integration tests.",
    "Before running integration tests, run the database migrations.",
    "Integration tests need the migrations to be run first.",
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MIGRATIONS[0], MIGRATIONS[1]),
        (MIGRATIONS[0], MIGRATIONS[2]),
        (MIGRATIONS[1], MIGRATIONS[2]),
        ("Never call os.Exit in library code.", "Library code must not call os.Exit."),
        ("Set `ENABLE_METRICS=true` to expose metrics.", "Metrics are exposed when `ENABLE_METRICS=true`."),
        ("The client retries three times.", "The client retries 3 times."),
    ],
)
def test_the_same_in_other_words(one: str, other: str) -> None:
    assert relate(one, other) is Relation.SAME
    assert relate(other, one) is Relation.SAME


BOOLEANS = """
Required groups do not work with booleans. class Command(BaseCommand): def add_arguments(self, parser): group =
parser.add_mutually_exclusive_group(required=True); group.add_argument("--shop-id", type=int);
group.add_argument("--all", action="store_true"). When I run call_command with all, the parser raises an error: one of
the arguments is needed. Flags take no value, so the command line is built with a text that argparse does not know.
"""
LISTS = """
Lists in required groups: class Command(BaseCommand): def add_arguments(self, parser): group =
parser.add_mutually_exclusive_group(required=True); group.add_argument("--shop-id", type=int);
group.add_argument("--shops", nargs="+", type=int). Support for several values is missing where options become words of
a command line, for which they are joined: a list is shown as Python writes it, with brackets and commas.
"""


def test_reports_about_one_subject_are_two_facts() -> None:
    assert relate(BOOLEANS, LISTS) is Relation.DIFFERENT
    assert relate(BOOLEANS, BOOLEANS.replace("I run", "we run")) in ONE_FACT


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Request bodies are limited to 64 KB.", "Request bodies are limited to 256 KB."),
        ("The dev server port in vite.config.js is 5173.", "The dev server port in vite.config.js is 5175."),
        ("Feature flags are evaluated on the server.", "Feature flags are evaluated on the client."),
        ("Library code must not call os.Exit.", "Library code must call os.Exit."),
        ("We chose SQLite over PostgreSQL.", "We chose PostgreSQL over SQLite."),
        ("Run the linter after the tests.", "Run the linter before the tests."),
        ("Validate request bodies with zod instead of joi.", "Validate request bodies with joi."),
        ("Releases are tagged by the pipeline, not by hand.", "Releases are tagged by hand."),
    ],
)
def test_something_else_about_the_same_is_a_change(one: str, other: str) -> None:
    assert relate(one, other) is Relation.CHANGE
    assert relate(other, one) is Relation.CHANGE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Commit messages start with the ticket number.", "The worker retries a message three times."),
        (
            "Set `UV_CACHE_DIR` in this sandbox to avoid cache errors.",
            "Set `NPM_CACHE` in this sandbox to avoid cache errors.",
        ),
        ("Webhooks are verified in hooks/receive.ts.", "Webhooks are sent by hooks/send.ts."),
        ("The importer skips a broken line three times.", "The importer stops at files older than three days."),
        ("The pool of the web server has 20 connections.", "The pool of the report worker has 5 connections."),
    ],
)
def test_another_fact(one: str, other: str) -> None:
    assert relate(one, other) is Relation.DIFFERENT


def test_what_says_more_refines() -> None:
    short = "Use `with_app_context` for tests that touch `current_user`."
    long = "Use `with_app_context` for tests that touch `current_user`, a plain client raises a RuntimeError."

    assert relate(long, short) is Relation.REFINEMENT
    assert relate(short, long) is not Relation.REFINEMENT
    assert is_better_wording(long, short)


def test_meaning_finds_what_words_do_not_and_never_overrides_a_conflict() -> None:
    one, other = "ACP does not report API cost.", "There is no cost information from ACP agents."

    assert relate(one, other) is Relation.DIFFERENT
    assert relate(one, other, similarity=0.92) is Relation.SAME
    assert relate("The limit is 64 KB.", "The limit is 256 KB.", similarity=0.99) is Relation.CHANGE


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_can_be_compared(one: str, other: str) -> None:
    assert relate(one, one) is Relation.SAME
    assert isinstance(relate(one, other), Relation)


def test_three_wordings_become_one_memory() -> None:
    memories = [a_memory(text, text, id=f"mem-{number}", kind="pattern") for number, text in enumerate(MIGRATIONS)]

    found = find_paraphrases(memories, AT)

    ((survivor, others),) = found.clusters
    assert {survivor.id, *(one.id for one in others)} == {"mem-0", "mem-1", "mem-2"}
    assert merge_duplicates(survivor, others, AT).support == sum(one.support for one in memories)


def test_a_conflict_is_reported_and_left() -> None:
    texts = ("Request bodies are limited to 64 KB.", "Request bodies are limited to 256 KB.")
    memories = [a_memory(text, text, id=f"mem-{number}", kind="pattern") for number, text in enumerate(texts)]

    found = find_paraphrases(memories, AT)

    assert found.clusters == ()
    assert [{one.id, other.id} for one, other in found.conflicts] == [{"mem-0", "mem-1"}]


def test_a_refinement_gives_its_words_to_what_ralph_worded_itself() -> None:
    short = a_memory("Line length is 100.", "Line length is 100.", id="mem-0", kind="convention")
    long = a_memory("Longer", "Line length is 100 and ruff's E501 is an error in CI.", id="mem-1")

    automatic = replace(short, source=MemorySource.AUTOMATIC)
    assert merge_duplicates(automatic, [long], AT).content == long.content
    assert merge_duplicates(replace(short, source=MemorySource.EXPLICIT), [long], AT).content == short.content


@pytest.mark.parametrize("text", ["x" * 500_000, "a/" * 200_000, "a_" * 200_000, "-" * 500_000])
def test_a_long_text_is_compared_in_no_time_and_only_with_itself(text: str) -> None:
    started = time.process_time()

    assert relate(text, text) is Relation.SAME
    assert relate(text, f"{text} more") is Relation.DIFFERENT
    assert time.process_time() - started < 2


def test_a_number_that_is_spelled_out_is_another_figure() -> None:
    assert relate("Columns count from one, tabs count as eight columns.", "Tabs count as 5 columns.") not in ONE_FACT


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("CSV exports are separated by commas", "CSV exports are actually separated by semicolons"),
        ("The reports module uses Celery for exports", "The payments module no longer uses Celery for exports"),
        ("Always use type hints in function signatures", "Do not use type hints in test functions"),
        ("User ids are UUIDs", "Order ids are now integers instead of UUIDs"),
        ("Invoices and credit notes are numbered per year", "Invoices are now numbered per month"),
        ("Prefix private functions with '_'", "Prefix test functions with 'test_'"),
    ],
)
def test_a_correction_is_never_one_fact_with_what_it_corrects(known: str, new: str) -> None:
    assert relate(new, known) not in ONE_FACT
    assert relate(known, new) not in ONE_FACT


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("Never skip a test.", "Tests must never be skipped."),
        ("Sessions are stored in Redis", "Sessions are now stored in Redis"),
        ("Use double quotes", "From now on use double quotes"),
    ],
)
def test_the_same_in_other_words_stays_one_fact(known: str, new: str) -> None:
    assert relate(new, known) in ONE_FACT
