from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.config import HATS, HatsConfig
from ralph.core.records import HandoverSigil, Sigils
from ralph.formats.sigils import MAX_NOTES_CHARACTERS, parse_sigils
from ralph.loop.hats import (
    DEFAULT_ORDER,
    MAX_INSTRUCTIONS_LENGTH,
    MAX_PROSE_LENGTH,
    HatMove,
    MoveKind,
    changes_files,
    handover_text,
    hat_instructions,
    hat_order,
    next_hat,
    resolve_move,
)
from ralph.memory.capture.handover import MAX_TEXT_LENGTH, extract_at_handover

ORDER = ("planner", "creator", "critic", "editor")
PLAIN_CONFIG = HatsConfig()


def handed(to: str, text: str = "words", journal: str = "") -> Sigils:
    return Sigils(hand_over=HandoverSigil(to=to, text=text), journal=journal)


# --- the order ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "strategy", "order"),
    [
        (("creator",), "", ("creator",)),
        (("creator",), "escalate", ("creator",)),
        (("creator",), "plan-then-execute", ("planner", "creator")),
        (("explorer", "creator", "critic"), "plan-then-execute", ("explorer", "planner", "creator", "critic")),
        (("creator", "planner"), "plan-then-execute", ("creator", "planner")),
        (("critic", "editor"), "plan-then-execute", ("critic", "planner", "editor")),
        (("explorer", "critic"), "plan-then-execute", ("explorer", "critic")),
        (HATS, "plan-then-execute", HATS),
    ],
)
def test_the_order_is_as_configured_and_a_planner_comes_before_the_work_if_the_strategy_wants_one(
    configured: tuple[str, ...], strategy: str, order: tuple[str, ...]
) -> None:
    assert hat_order(HatsConfig(order=configured), strategy) == order


def test_a_task_passes_through_its_hats_one_after_the_other() -> None:
    assert [next_hat(hat, ORDER) for hat in ORDER] == ["creator", "critic", "editor", None]


def test_a_hat_that_is_no_longer_in_the_order_comes_before_all_others() -> None:
    assert next_hat("explorer", ORDER) == "planner"


def test_only_the_creator_and_the_editor_change_files() -> None:
    assert [hat for hat in HATS if changes_files(hat)] == ["creator", "editor"]


# --- what a hat is told ------------------------------------------------------------


def test_a_project_without_hats_has_no_section_for_them() -> None:
    assert hat_instructions("creator", DEFAULT_ORDER, PLAIN_CONFIG) == ""


@pytest.mark.parametrize("hat", HATS)
def test_every_hat_is_told_its_part_and_how_it_ends(hat: str) -> None:
    text = hat_instructions(hat, HATS, PLAIN_CONFIG)

    following = next_hat(hat, HATS)
    assert text.startswith(f"## Your Hat: {hat.capitalize()}\n\n- ")
    assert "explorer → planner → creator → critic → editor" in text
    assert (f'<hand-over to="{following}">' in text) == (following is not None)
    assert ("You are the last" in text) == (hat == "editor")
    assert ("only the editor ends with task-done" in text) == (hat != "editor")
    assert max(len(line) for line in text.splitlines()) <= 120
    assert 2 <= sum(1 for line in text.splitlines() if line.startswith("- ")) <= 6


@pytest.mark.parametrize(
    ("hat", "order", "back"),
    [
        ("critic", ("creator", "critic"), "creator"),
        ("editor", HATS, "creator"),
        ("critic", ("editor", "critic"), "editor"),
        ("critic", ("critic", "creator"), None),
        ("creator", ORDER, None),
    ],
)
def test_work_is_handed_back_to_the_one_who_did_it(hat: str, order: tuple[str, ...], back: str | None) -> None:
    text = hat_instructions(hat, order, PLAIN_CONFIG)

    assert ("hand it back" in text) == (back is not None)
    assert (f'<hand-over to="{back}">each finding' in text) == (back is not None)


def test_only_the_planner_is_told_to_split_a_task() -> None:
    assert [hat for hat in HATS if "<subtask" in hat_instructions(hat, HATS, PLAIN_CONFIG)] == ["planner"]


def test_a_hat_alone_is_told_its_part_and_nothing_of_handing_over() -> None:
    text = hat_instructions("editor", ("editor",), PLAIN_CONFIG)

    assert "Polish" in text
    assert "hand-over" not in text
    assert "task-done" not in text


def test_own_words_take_the_place_of_the_part_but_not_of_how_it_ends() -> None:
    config = HatsConfig(instructions={"editor": " Shorten.\n", "critic": "x" * 2 * MAX_INSTRUCTIONS_LENGTH})

    editor, critic = (hat_instructions(hat, ORDER, config) for hat in ("editor", "critic"))

    assert editor.startswith("## Your Hat: Editor\n\nShorten.\n- You do one part")
    assert "Polish" not in editor
    assert len(critic) < MAX_INSTRUCTIONS_LENGTH + 1_000


def test_own_words_for_the_only_hat_are_told() -> None:
    config = HatsConfig(instructions={"creator": "Be brief."})

    assert hat_instructions("creator", DEFAULT_ORDER, config) == "## Your Hat: Creator\n\nBe brief.\n"


@pytest.mark.parametrize("hat", HATS)
def test_a_hat_that_repeats_what_it_was_told_hands_nothing_over(hat: str) -> None:
    prompt = hat_instructions(hat, HATS, PLAIN_CONFIG)

    sigils = parse_sigils(f"I was told:\n{prompt}\nI begin.", prompt)

    assert sigils.hand_over is None
    assert sigils.subtasks == ()


# --- what becomes of an answer -----------------------------------------------------


@pytest.mark.parametrize(
    ("hat", "sigils", "claims_done", "move"),
    [
        ("editor", Sigils(journal="n"), True, HatMove(kind=MoveKind.DONE, to="")),
        ("creator", Sigils(journal="n"), True, HatMove(kind=MoveKind.ONWARD, to="critic", text="n")),
        ("creator", Sigils(journal="n"), False, HatMove(kind=MoveKind.STAY, to="creator")),
        ("editor", Sigils(), False, HatMove(kind=MoveKind.STAY, to="editor")),
        ("creator", handed("", journal="n"), False, HatMove(kind=MoveKind.ONWARD, to="critic", text="words")),
        ("creator", handed("", "", "n"), False, HatMove(kind=MoveKind.ONWARD, to="critic", text="n")),
        ("creator", handed("editor"), False, HatMove(kind=MoveKind.ONWARD, to="editor", text="words")),
        ("creator", handed("editor"), True, HatMove(kind=MoveKind.ONWARD, to="editor", text="words")),
        ("critic", handed("creator"), False, HatMove(kind=MoveKind.BACK, to="creator", text="words")),
        ("editor", handed(""), True, HatMove(kind=MoveKind.DONE, to="")),
    ],
)
def test_an_answer_moves_its_task(hat: str, sigils: Sigils, claims_done: bool, move: HatMove) -> None:
    assert resolve_move(hat, sigils, claims_done, ORDER) == move


@pytest.mark.parametrize(
    ("hat", "sigils", "claims_done", "kind", "to", "problem"),
    [
        (
            "editor",
            handed(""),
            False,
            MoveKind.STAY,
            "editor",
            "no hat comes after the editor: it must end with task-done",
        ),
        ("critic", handed("critic"), False, MoveKind.STAY, "critic", "the critic handed over to itself"),
        ("critic", handed("critic"), True, MoveKind.ONWARD, "editor", "the critic handed over to itself"),
        ("editor", handed("editor"), True, MoveKind.DONE, "", "the editor handed over to itself"),
        (
            "critic",
            handed("creator"),
            True,
            MoveKind.BACK,
            "creator",
            "the critic said task-done, but handed back to the",
        ),
        (
            "editor",
            handed("creator"),
            True,
            MoveKind.BACK,
            "creator",
            "the editor said task-done, but handed back to the",
        ),
        (
            "creator",
            handed("explorer"),
            False,
            MoveKind.ONWARD,
            "critic",
            "hand-over to the explorer, but the order of hats is",
        ),
        (
            "editor",
            handed("explorer"),
            False,
            MoveKind.STAY,
            "editor",
            "hand-over to the explorer, but the order of hats is",
        ),
    ],
)
def test_a_hand_over_that_makes_no_sense_is_named_and_the_order_decides(
    hat: str, sigils: Sigils, claims_done: bool, kind: MoveKind, to: str, problem: str
) -> None:
    move = resolve_move(hat, sigils, claims_done, ORDER)

    assert (move.kind, move.to) == (kind, to)
    assert move.problem.startswith(problem)


def test_without_hats_a_hand_over_changes_nothing() -> None:
    done = resolve_move("creator", handed("critic"), True, DEFAULT_ORDER)
    silent = resolve_move("creator", handed("critic"), False, DEFAULT_ORDER)

    assert (done.kind, done.to) == (MoveKind.DONE, "")
    assert (silent.kind, silent.to) == (MoveKind.STAY, "creator")
    assert done.problem == silent.problem == "hand-over to the critic, but the order of hats is creator"


@given(
    hat=st.sampled_from(HATS),
    to=st.sampled_from(("", *HATS, None)),
    claims_done=st.booleans(),
    order=st.lists(st.sampled_from(HATS), min_size=1, unique=True).map(tuple),
)
def test_a_task_is_always_with_a_hat_or_done_by_the_last(
    hat: str, to: str | None, claims_done: bool, order: tuple[str, ...]
) -> None:
    move = resolve_move(hat, Sigils() if to is None else handed(to), claims_done, order)

    assert move.to in order or (move.to == hat and move.kind is MoveKind.STAY) or move.kind is MoveKind.DONE
    assert (move.to == hat) == (move.kind is MoveKind.STAY)
    if move.kind is MoveKind.DONE:
        assert claims_done
        assert hat == order[-1]


# --- what a hand-over teaches --------------------------------------------------------

AT = "2026-03-01T00:00:00.000Z"
ANSWER = """\
I looked around.

Sessions are stored in `src/session/store.py`, one file for each user.

<knowledge tags="a" title="b">Kept on its own: routers live in `src/router/`.</knowledge>

## Next steps

- Plan the change.

<journal>Migrations depend on `alembic` 1.13, pinned in `pyproject.toml`.

## To do
Nothing.</journal>
<hand-over to="planner">Handlers live in `src/api/` and go through `Manager`.

## Open questions
None.</hand-over>
"""


def test_a_hand_over_teaches_from_its_words_the_notes_and_the_answer() -> None:
    sigils = parse_sigils(ANSWER)

    found = extract_at_handover("explorer", "planner", handover_text(sigils, ANSWER), AT)

    assert [(memory.kind, memory.content) for memory in found] == [
        ("architecture", "Handlers live in `src/api/` and go through `Manager`."),
        ("dependency", "Migrations depend on `alembic` 1.13, pinned in `pyproject.toml`."),
        ("architecture", "Sessions are stored in `src/session/store.py`, one file for each user."),
    ]


def test_what_a_hand_over_teaches_from_is_bounded_by_the_end_of_the_answer() -> None:
    answer = (
        f"<hand-over>{'a ' * MAX_NOTES_CHARACTERS}</hand-over><journal>{'b ' * MAX_NOTES_CHARACTERS}</journal>"
        + "c " * 100_000
        + "end"
    )

    text = handover_text(parse_sigils(answer), answer)

    assert len(text) < 2 * MAX_NOTES_CHARACTERS + MAX_PROSE_LENGTH + 100 < MAX_TEXT_LENGTH
    assert text.endswith("c end")


def test_nothing_said_is_nothing_to_learn_from() -> None:
    assert handover_text(Sigils(), "") == ""
    assert handover_text(parse_sigils("<hand-over/>"), "<hand-over/>") == ""


@pytest.mark.parametrize(
    "sigil",
    [
        '<hand-over to="planner"/>',
        "<verify-pass />",
        "<handover>\nx\n</hand-over>",
        "<Sub-Task title='a'>\nx\n</subtask>",
    ],
)
def test_no_sigil_hides_the_words_after_it_from_extraction(sigil: str) -> None:
    text = f"{sigil}\nHandlers live in `src/api/` and go through `Manager`."

    assert [memory.kind for memory in extract_at_handover("explorer", "planner", text, AT)] == ["architecture"]
