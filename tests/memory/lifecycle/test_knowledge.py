"""How knowledge entries are told apart and linked."""

from __future__ import annotations

import time

import pytest

from ralph.memory.lifecycle.knowledge import is_update, links_in
from tests.make import a_memory


@pytest.mark.parametrize(
    ("known", "new", "is_same"),
    [
        (("Use tabs", ("a",)), ("USE  tabs", ("z",)), True),
        (("Cargo bench", ("a", "b", "c")), ("Cargo bench needs nightly", ("a", "b")), True),
        (("Cargo bench", ("a", "b")), ("Cargo bench needs nightly", ("a", "c")), False),
        (("Cargo bench", ("a",)), ("Cargo doc", ("a",)), False),
        (("Cargo bench", ()), ("Cargo bench needs nightly", ()), False),
        (("OAuth", ("a",)), ("Auth", ("a",)), False),
        (("OAuth and auth", ("a",)), ("Auth", ("a",)), True),
        (("認証フロー", ("a",)), ("認証", ("a",)), True),
    ],
)
def test_an_entry_is_updated_by_its_title_or_by_tags_and_a_title_inside_the_other(
    known: tuple[str, tuple[str, ...]], new: tuple[str, tuple[str, ...]], is_same: bool
) -> None:
    assert is_update(a_memory(known[0], tags=known[1]), a_memory(new[0], tags=new[1])) is is_same


@pytest.mark.parametrize(
    ("body", "titles"),
    [
        ("See [[Run Loop]] and [[ Error: handling ]].", ("Run Loop", "Error: handling")),
        ("[[A]] [[b]] [[a]]", ("A", "b")),
        ("[[]] [[ ]] [[a\nb]] [[a[b]]] [a] [[a] ]", ()),
        ("[[" + "x" * 200 + "]] [[" + "y" * 201 + "]]", ("x" * 200,)),
        ("`[[a]]` [[b]] ``x ` [[c]]`` [[d]]", ("b", "d")),
        ("a ` alone [[b]]\n\nand ` here [[c]]", ("b", "c")),
        ("`code\nover lines [[a]]` [[b]]", ("b",)),
        ("[[a `b` c]]", ()),
        ("```toml\n[[bin]]\n```\n[[b]]", ("b",)),
        ("- x\n    ~~~\n    [[a]]\n    ~~~\n[[b]]", ("b",)),
        ("[[a]]\n```toml\n[[bin]]\n[truncated]", ("a",)),
        ("> ```\n> [[bin]]\n> ```\n[[b]]", ("b",)),
        ("a\r\n```\r\n[[bin]]\r\n```\r\n[[b]]", ("b",)),
        ("", ()),
    ],
)
def test_links_are_titles_in_double_brackets_that_are_no_code(body: str, titles: tuple[str, ...]) -> None:
    assert links_in(body) == titles


@pytest.mark.parametrize(
    "body", ["[[" * 500_000, "`" * 1_000_000, "` ``" * 200_000, "```\n" * 200_000, "[[a" * 300_000]
)
def test_links_are_found_in_one_pass(body: str) -> None:
    started = time.process_time()

    links_in(body)

    assert time.process_time() - started < 3
