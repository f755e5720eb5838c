from __future__ import annotations

import time

import pytest

from ralph.memory.recall.query import (
    BODY_WEIGHT,
    FILES_WEIGHT,
    HINT_WEIGHT,
    MAX_PART_LENGTH,
    MAX_QUERY_WORDS,
    TITLE_WEIGHT,
    RecallContext,
    build_query,
    path_segments,
)


def test_a_word_counts_by_where_it_stands() -> None:
    asked = build_query(
        RecallContext(title="Mend the parser", body="it eats tabs", files=("src/lexer.py",), recent=("docs/menu.md",))
    )

    assert asked.words["parser"] == TITLE_WEIGHT
    assert asked.words["tab"] == BODY_WEIGHT
    assert asked.words["lexer"] == FILES_WEIGHT
    assert asked.words["menu"] == HINT_WEIGHT
    assert "menu" in asked.hints
    assert "parser" not in asked.hints


def test_a_name_in_code_counts_more_in_search_of_a_file() -> None:
    asked = build_query(RecallContext(body="rounding goes wrong in billing.money_math and elsewhere"))

    assert asked.paths["money"] > asked.paths["wrong"]


def test_files_and_modules_that_are_spoken_of_are_noted() -> None:
    asked = build_query(
        RecallContext(body='File "/home/me/app/billing/money.py", line 3\nsee billing.vat', files=("src/main.rs",))
    )

    assert ("home", "me", "app", "billing", "money") in asked.mentions
    assert ("billing", "vat") in asked.mentions
    assert ("src", "main") in asked.mentions


def test_the_parts_of_a_path_have_no_ending() -> None:
    assert path_segments("src/Store/index.py") == ("src", "store", "index")
    assert path_segments("a\\b.ts") == ("a", "b")


@pytest.mark.parametrize("piece", ["word ", "a.", "a/", "a-", "aB", "_", "数", "<!-- ", "\0"])
def test_a_megabyte_is_asked_in_bounded_time_by_its_beginning_and_end(piece: str) -> None:
    began = time.process_time()
    asked = build_query(RecallContext(title="first", body=f"alpha {piece * (1_000_000 // len(piece))} omega", at=""))

    assert time.process_time() - began < 2
    assert {"first", "alpha", "omega"} <= asked.words.keys()
    assert len(asked.words) <= MAX_QUERY_WORDS
    assert MAX_PART_LENGTH < 1_000_000


def test_what_any_error_says_is_no_evidence() -> None:
    error = "Traceback\n  File x, line 3\nAssertionError: the ledger is closed"

    query = build_query(RecallContext(title="Open the file", errors=(error,)))

    assert {"traceback", "line", "assertionerror"} <= query.hints
    assert not {"ledger", "file"} & query.hints


def test_the_top_folder_of_a_path_is_no_evidence_unless_the_text_says_it() -> None:
    in_path = build_query(RecallContext(title="Spot late invoices", body="Write it in billing/overdue.py."))
    said = build_query(RecallContext(title="Spot late invoices of billing", body="Write it in billing/overdue.py."))

    assert "bill" in in_path.words
    assert "bill" in in_path.hints
    assert "overdu" not in in_path.hints
    assert "bill" not in said.hints
