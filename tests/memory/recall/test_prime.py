"""What an agent is shown first, when there is little room."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import Memory
from ralph.core.text import count_tokens
from ralph.memory.recall.prime import fit_to_budget, render_primer
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"


def a_fact(kind: str, confidence: float = 0.5, body: str = "Restart it.", **fields: object) -> Memory:
    return a_memory("A fact", body, **{"kind": kind, "confidence": confidence, "created_at": AT} | fields)


def tokens_of(*memories: Memory) -> int:
    return count_tokens(render_primer(memories))


def test_when_there_is_room_for_one_it_is_the_surest() -> None:
    estimate, fix, pattern = a_fact("estimate", 0.4), a_fact("fix", 0.9), a_fact("pattern", 0.6)

    assert fit_to_budget([estimate, fix, pattern], tokens_of(estimate), AT) == [fix]


def test_the_surest_one_that_fits_comes_before_a_surer_kind() -> None:
    long = a_fact("fix", 0.9, body="Restart it. " * 50)
    less_sure = a_fact("fix", 0.3)
    estimate = a_fact("estimate", 0.4)

    assert fit_to_budget([long, less_sure, estimate], tokens_of(estimate), AT) == [estimate]


def test_one_that_does_not_fit_costs_its_kind_no_turn() -> None:
    long, short, estimate = a_fact("fix", 0.9, body="Restart it. " * 50), a_fact("fix", 0.85), a_fact("estimate", 0.4)

    assert fit_to_budget([estimate, short, long], tokens_of(short), AT) == [short]
    assert fit_to_budget([estimate, short, long], tokens_of(short, estimate), AT) == [short, estimate]


def test_kinds_take_turns_and_the_surest_goes_first_in_each_round() -> None:
    memories = [a_fact("fix", 0.9), a_fact("fix", 0.8), a_fact("fix", 0.7), a_fact("pattern", 0.6), a_fact("pitfall")]

    shown = [fit_to_budget(memories, tokens_of(*some), AT) for some in (memories[2:4], memories[2:], memories[1:])]

    assert [[(one.kind, one.confidence) for one in some] for some in shown] == [
        [("fix", 0.9), ("pattern", 0.6)],
        [("fix", 0.9), ("pattern", 0.6), ("pitfall", 0.5)],
        [("fix", 0.9), ("fix", 0.8), ("pattern", 0.6), ("pitfall", 0.5)],
    ]


def test_of_equally_sure_ones_the_newest_goes_first() -> None:
    old = a_fact("fix", created_at="2026-04-30T00:00:00.000Z")
    new = a_fact("fix", created_at="2026-05-01T00:00:00.000Z")

    assert fit_to_budget([new, old], tokens_of(new), AT) == fit_to_budget([old, new], tokens_of(new), AT) == [new]


def test_what_was_sure_long_ago_comes_after_what_is_sure_now() -> None:
    old = a_fact("fix", 0.9, created_at="2025-05-01T00:00:00.000Z")
    new = a_fact("pattern", 0.6)

    assert fit_to_budget([old, new], tokens_of(new), AT) == [new]


def test_no_kind_is_left_out_when_there_is_room() -> None:
    memories = [a_fact("pattern", 0.9) for _ in range(21)] + [a_fact("fix", 0.5) for _ in range(77)]

    shown = fit_to_budget(memories, tokens_of(*memories[:10]), AT)

    assert 4 <= sum(memory.kind == "fix" for memory in shown) <= 5
    assert 4 <= sum(memory.kind == "pattern" for memory in shown) <= 5


def test_what_was_noted_again_and_again_does_not_push_out_the_rest() -> None:
    failures = [
        a_fact(
            "fix", 0.7, f"failure: cmd=cargo fmt --check, exit=1, error=diff in part{n}.rs", created_at=f"{AT[:-2]}{n}Z"
        )
        for n in range(5)
    ]
    other = a_fact("fix", 0.5, "Run cargo within nix develop.")

    assert fit_to_budget([*failures, other], tokens_of(failures[4], other), AT) == [failures[4], other]
    assert fit_to_budget([*failures, other], 1_000, AT) == [failures[4], other, *failures[3::-1]]


FACTS = st.builds(
    a_fact,
    kind=st.sampled_from(["fix", "pattern", "estimate", "tool_usage", "own thing"]),
    confidence=st.sampled_from([0.1, 0.4, 0.5, 0.9]),
    body=st.sampled_from(["Restart it.", "Restart it, then wait until it is up.\n\nThen try again.", "x" * 300]),
)


@given(st.lists(FACTS, max_size=20), st.integers(0, 600))
def test_what_is_shown_fits_and_has_the_surest_that_does(memories: list[Memory], budget_tokens: int) -> None:
    shown = fit_to_budget(memories, budget_tokens, AT)

    assert tokens_of(*shown) <= budget_tokens
    fitting = [memory.confidence for memory in memories if tokens_of(memory) <= budget_tokens]
    assert max((memory.confidence for memory in shown), default=None) == max(fitting, default=None)


def test_thousands_of_kinds_take_turns_in_no_time() -> None:
    memories = [a_fact(f"kind {number}") for number in range(5000)]
    started = time.process_time()

    assert len(fit_to_budget(memories, 10**7, AT)) == 5000
    assert time.process_time() - started < 2
