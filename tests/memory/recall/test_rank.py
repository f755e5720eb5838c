"""The ranking over rows as the index gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ralph.core.tokenize import tokenize, tokenize_path
from ralph.memory.recall.query import RecallContext, build_query
from ralph.memory.recall.rank import Ranking
from ralph.memory.recall.scored import FILE_COMPONENTS, WEIGHTS, ScoredMemory

NOW = "2026-06-01T12:00:00.000Z"


def row(seq: int, title: str, body: str = "", files: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return a row of the index."""
    return {
        "seq": seq,
        "id": f"mem-{seq}",
        "kind": "fix",
        "source": "explicit",
        "title": title,
        "body": body,
        "files": json.dumps(files),
        "tags": "[]",
        "confidence": 0.5,
        "success_rate": None,
        "wins": 0,
        "losses": 0,
        "stale": "",
        "hat": None,
        "task_type": None,
        "feature": None,
        "origin_session": None,
        "origin_run": None,
        "origin_task": None,
        "origin_attempt": None,
        "used_at": None,
        "verified_at": None,
        "created_at": "2026-05-31T12:00:00.000Z",
        "updated_at": more.get("created_at", "2026-05-31T12:00:00.000Z"),
        "title_words": " ".join(tokenize(title)),
        "body_words": " ".join(tokenize(body)),
        "path_words": " ".join(word for path in files for word in tokenize_path(path)),
        "tag_words": "",
        **more,
    }


def ranked(
    context: RecallContext, *rows: dict[str, Any], links: tuple[tuple[int, int], ...] = ()
) -> list[ScoredMemory]:
    """Rank rows the way a recall does."""
    asked = build_query(context)
    held = {
        word: sum(word in f"{one['title_words']} {one['body_words']} {one['path_words']}".split() for one in rows)
        for word in asked.words
    }
    ranking = Ranking(context, asked, held, len(rows))
    ranking.add(rows)
    ranking.score_shared_files()
    ranking.score_metadata()
    ranking.score_links(links)
    ranking.score_neighbors([(seq, seq + 1) for seq in ranking.hits])
    return ranking.top(len(rows))


def titles(found: list[ScoredMemory]) -> list[str]:
    return [one.row["title"] for one in found]


def test_a_score_is_the_sum_of_its_shares_and_all_are_named() -> None:
    found = ranked(
        RecallContext(title="Mend the parser", files=("src/parser.py",), at=NOW, hat="creator", feature="core"),
        row(1, "Parser wants tabs", "in the parser", ("src/parser.py",), hat="creator", feature="core"),
        row(2, "Fences", "paint", ("src/parser.py",), success_rate=0.9),
    )

    for one in found:
        assert one.score == pytest.approx(sum(one.components.values()), abs=1e-12)
        assert one.components.keys() <= WEIGHTS.keys()
    assert titles(found) == ["Parser wants tabs", "Fences"]
    assert {"hat", "feature", "named", "paths", "files"} <= found[0].components.keys()


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [row(n, f"Test {n}", "the parser test") for n in range(3, 12)]
    found = ranked(RecallContext(title="parser xylophone", at=NOW), row(1, "Xylophone"), row(2, "Parser"), *common)

    assert titles(found)[0] == "Xylophone"


def test_a_word_in_the_title_counts_more_than_one_in_the_text() -> None:
    found = ranked(
        RecallContext(title="cache", at=NOW),
        row(1, "Other things", "the cache is here"),
        row(2, "Cache", "other things"),
    )

    assert titles(found) == ["Cache", "Other things"]


def test_what_touches_the_files_of_the_best_is_raised() -> None:
    found = ranked(
        RecallContext(title="rounding of invoices goes wrong", at=NOW),
        row(1, "Rounding of invoices", "half up", ("billing/money.py",)),
        row(2, "Cents", "a float loses in rounding", ("billing/money.py",)),
        row(3, "Sense", "a flute gains by rounding", ("music/wind.py",)),
    )

    assert titles(found) == ["Rounding of invoices", "Cents", "Sense"]
    assert found[1].components["files"] > 0


def test_what_touches_more_of_the_probable_files_goes_first() -> None:
    found = ranked(
        RecallContext(title="rounding of invoices goes wrong", at=NOW),
        row(1, "Rounding of invoices", "half up", ("billing/money.py", "billing/tax.py")),
        row(2, "Cents", "a float loses in rounding", ("billing/money.py",)),
        row(3, "Cents", "a float loses in rounding", ("billing/money.py", "billing/tax.py")),
    )

    assert [one.row["seq"] for one in found] == [1, 3, 2]
    assert found[0].components["files"] <= WEIGHTS["files"]


def test_what_is_nearest_in_meaning_votes_for_its_files_too() -> None:
    rows = (
        row(1, "Rounding of invoices", "half up", ("billing/money.py",)),
        row(2, "Rounding of bills", "the rest of a cent", ("billing/cents.py",)),
        row(3, "Rounding", "a float", ("billing/cents.py",)),
        row(4, "Rounding", "a float", ("billing/other.py",)),
    )
    context = RecallContext(title="rounding of invoices goes wrong", at=NOW)

    def files_of_third(similarities: dict[int, tuple[float, float]]) -> float:
        ranking = Ranking(context, build_query(context), {}, len(rows))
        ranking.add(rows)
        ranking.score_similarity(similarities)
        ranking.score_shared_files()
        return ranking.hits[3].components["files"]

    assert files_of_third({2: (1.0, 0.6)}) > files_of_third({4: (1.0, 0.6)})


def test_a_file_in_a_tree_that_was_moved_is_the_same_file() -> None:
    found = ranked(
        RecallContext(title="rounding of invoices goes wrong", at=NOW),
        row(1, "Rounding of invoices", "half up", ("src/main/java/shop/billing/Money.java",)),
        row(2, "Cents", "a float loses in rounding", ("src/java/shop/billing/Money.java",)),
        row(3, "Sense", "a flute gains by rounding", ("src/java/shop/music/Wind.java",)),
    )

    assert titles(found) == ["Rounding of invoices", "Cents", "Sense"]
    assert found[1].components["files"] > 0


def test_files_raise_only_what_matches_by_its_content() -> None:
    found = ranked(
        RecallContext(title="rounding of invoices goes wrong", at=NOW),
        row(1, "Rounding of invoices", "half up", ("billing/money.py",)),
        row(2, "Invoices", "rounding them is hard", ("billing/money.py",)),
        row(3, "Cents", "a float loses half", ("billing/money.py",)),
    )

    assert titles(found)[-1] == "Cents"
    assert not {"files", "folders"} & found[-1].components.keys()


def test_files_do_not_push_out_the_one_that_the_words_single_out() -> None:
    rivals = [
        row(n, f"Money of billing {n}", "rounding", ("billing/money.py", "billing/rounding.py")) for n in range(2, 9)
    ]
    found = ranked(
        RecallContext(title="rounding of invoices with Swedish discounts, cents and Danish taxes", at=NOW),
        row(1, "Swedish discounts", "cents, invoices and Danish taxes need rounding", ()),
        *rivals,
    )

    assert titles(found)[0] == "Swedish discounts"
    assert all(sum(one.components.get(name, 0.0) for name in FILE_COMPONENTS) < 0.3 for one in found)


def test_what_has_every_word_of_a_search_comes_before_what_has_one() -> None:
    two_words = row(9, "Note", "other things of it for invoices", ("ledger/money.py",))
    in_path = [row(n, f"Note {n}", "other things of it", ("ledger/money.py",)) for n in range(2, 8)]
    in_title = [row(n, f"Danish {n}", "cheese", ()) for n in range(10, 16)]
    unrelated = [row(n, f"Other {n}", "cheese", ()) for n in range(20, 60)]
    found = ranked(
        RecallContext(title="ledger invoices danish", at=NOW),
        row(1, "Month end", "the ledger of danish invoices is sent at the end", ("jobs/end.py",)),
        two_words,
        *in_path,
        *in_title,
        *unrelated,
    )

    assert "Month end" in titles(found)[:2]


def test_what_names_no_files_is_not_behind_for_that() -> None:
    found = ranked(
        RecallContext(title="rounding of invoices", at=NOW),
        row(1, "Rounding of invoices", "half up, as the tax office wants it", ()),
        row(2, "Rounding of invoices", "half up, as the bank wants it", ("billing/money.py",)),
        row(3, "Rounding", "of some invoices", ("billing/money.py",)),
    )

    first, second = (next(one for one in found if one.row["seq"] == seq) for seq in (1, 3))
    assert first.score > second.score
    assert first.components["no files"] > 0


def test_a_file_that_the_task_names_counts() -> None:
    found = ranked(
        RecallContext(title="It fails", body="see django.db.models.query for more", at=NOW),
        row(1, "One", "more", ("django/forms/models.py",)),
        row(2, "Two", "more", ("django/db/models/query.py",)),
    )

    assert titles(found) == ["Two", "One"]
    assert found[0].components["named"] == pytest.approx(WEIGHTS["named"])


@pytest.mark.parametrize(
    ("text", "is_named"),
    [("shop.Order has no total", False), ("shop/order.py fails", False), ("shop/__init__.py fails", True)],
)
def test_what_is_in_a_package_does_not_name_the_package(text: str, is_named: bool) -> None:
    (found,) = ranked(RecallContext(title="It fails", body=text, at=NOW), row(1, "Order", "", ("shop/__init__.py",)))

    assert ("named" in found.components) is is_named


def test_what_was_learned_right_after_shares_in_the_score() -> None:
    found = ranked(
        RecallContext(title="When was the charity race", at=NOW),
        row(1, "Ann asked", "How was the charity race?", created_at="2026-01-01T10:00:00.000Z"),
        row(2, "Bob said", "Great, last Sunday!", created_at="2026-01-01T10:00:01.000Z"),
        row(3, "Bob wrote", "Great, last Monday!", created_at="2026-03-01T10:00:01.000Z"),
    )

    assert titles(found) == ["Ann asked", "Bob said", "Bob wrote"]
    assert found[1].components["together"] > 0
    assert "together" not in found[2].components


def test_what_came_in_at_the_same_moment_does_not_share_unless_one_attempt_learned_it() -> None:
    context = RecallContext(title="charity race", at=NOW)
    bulk = ranked(context, row(1, "Charity race"), row(2, "Other"))
    origin: dict[str, Any] = {"origin_run": "run-1", "origin_task": "t-1", "origin_attempt": 1}
    learned = ranked(context, row(1, "Charity race", **origin), row(2, "Other", **origin))

    assert "together" not in bulk[1].components
    assert learned[1].components["together"] > 0


def test_links_share() -> None:
    found = ranked(
        RecallContext(title="deploy", at=NOW), row(1, "Deploy", "by hand"), row(9, "Keys", "ring"), links=((1, 9),)
    )

    assert found[1].components["links"] > 0


def test_younger_and_surer_ones_go_first_when_all_else_is_the_same() -> None:
    context = RecallContext(title="cache", at=NOW)
    young = ranked(context, row(1, "Cache", created_at="2024-05-31T12:00:00.000Z"), row(5, "Cache"))
    sure = ranked(context, row(1, "Cache", confidence=0.9), row(5, "Cache", confidence=0.3))
    proven = ranked(context, row(1, "Cache", success_rate=0.9), row(5, "Cache", success_rate=0.1))

    assert [young[0].row["seq"], sure[0].row["seq"], proven[0].row["seq"]] == [5, 1, 1]


def test_a_tag_counts_when_its_word_stands_nowhere_else() -> None:
    found = ranked(
        RecallContext(title="parser", at=NOW), row(1, "Tabs break it", tag_words="parser"), row(2, "Spaces do not")
    )

    assert titles(found)[0] == "Tabs break it"
    assert found[0].relevance > found[1].relevance == 0


def test_relevance_tells_an_answer_from_a_chance_match() -> None:
    others = [row(n, f"About {word}", f"all of {word}") for n, word in enumerate("ships trees music paint".split(), 10)]
    answer = row(1, "The ledger export loses umlauts", "encode it")
    long_task = RecallContext(
        title="Export the ledger", body="one line for each of the ships, in the order in which they came", at=NOW
    )

    found = ranked(long_task, answer, *others)

    assert found[0].row["seq"] == 1
    assert found[0].relevance > 2 * max(one.relevance for one in found[1:])
