"""Hats: their order, their instructions and the hand-over between them.

A hat is the role an agent has in one session. The order of hats comes from `hat_order`;
a hat that is not (or no longer) in it is treated as coming before the first.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records import record
from ralph.core.text import truncate
from ralph.loop.instructions import SessionRole
from ralph.loop.strategy import PLAN_THEN_EXECUTE
from ralph.loop.stuck import WRITING_HATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.config import HatsConfig
    from ralph.core.records import HandoverSigil, Sigils

DEFAULT_ORDER = ("creator",)
"""Order of hats in a project that does not use them."""
MAX_INSTRUCTIONS_LENGTH = 4_000
"""Maximum length of configured instructions for a hat, in characters."""
MAX_PROSE_LENGTH = 40_000
"""Number of characters at the end of an answer that are searched for memories."""

_INSTRUCTIONS = {
    "explorer": """\
- Explore what this task is about without changing anything: read the code, run it, look at the history.
- Describe what is where (paths and names), how it fits together, what it depends on and how it is tested. Separate
  what you observed from what you assume.
""",
    "planner": """\
- Decide how to do this task without changing product code. Write down the steps in order, the alternatives you ruled
  out and why, and the constraints: what must not change, and what the work has to respect.
""",
    "creator": """\
- Do the task. If the notes handed over to you turn out wrong, trust what you see and say so.
""",
    "critic": """\
- Look for problems in the work so far: read the diff, run it, try cases its author did not think of.
- Change nothing. A finding states where it is, what happens and what should happen; matters of taste are not findings.
""",
    "editor": """\
- Polish what is there: names, documentation, comments, and tests that prove what they claim.
- Do not add or remove behavior; the checks that passed must pass again.
""",
}

_SPLIT = """\
- Too much for one session? Split it into subtasks that can each be finished and verified; `needs` lists prerequisites:
  <subtask title="title of a subtask" needs="title of another; and of a third">what to do in it</subtask>
"""


class MoveKind(StrEnum):
    """Direction in which an answer moves its task."""

    DONE = "done"
    ONWARD = "onward"
    BACK = "back"
    STAY = "stay"


@record
class HatMove:
    """Move of a task to the next hat after an answer."""

    kind: MoveKind
    to: str
    """Next hat: the same one when the task stays, empty when it is done."""
    text: str = ""
    """Message for the next hat."""
    problem: str = ""
    """Problem with the agent's hand-over, for the log."""


def hat_order(config: HatsConfig, strategy: str) -> tuple[str, ...]:
    """Return the hats a task passes through: as configured, with a planner added if the strategy needs one."""
    order = config.order or DEFAULT_ORDER
    writers = [index for index, hat in enumerate(order) if changes_files(hat)]
    if strategy != PLAN_THEN_EXECUTE or "planner" in order or not writers:
        return order
    return (*order[: writers[0]], "planner", *order[writers[0] :])


def next_hat(hat: str, order: tuple[str, ...]) -> str | None:
    """Return the hat after this one, or None after the last."""
    index = _index(hat, order) + 1
    return order[index] if index < len(order) else None


def changes_files(hat: str) -> bool:
    """Return whether this hat is expected to change files."""
    return hat in WRITING_HATS


def _index(hat: str, order: tuple[str, ...]) -> int:
    return order.index(hat) if hat in order else -1


# --- instructions ------------------------------------------------------------------


def session_role(hat: str, order: tuple[str, ...]) -> SessionRole:
    """Return what a session with a hat is to do for its task."""
    return SessionRole(
        is_part=len(order) > 1,
        changes_files=changes_files(hat),
        ends_task=next_hat(hat, order) is None,
        plans=hat == "planner",
    )


def hat_instructions(hat: str, order: tuple[str, ...], config: HatsConfig, *, can_split: bool = True) -> str:
    """Return the prompt section for a hat; empty in a project without hats. `can_split` if it may split the task."""
    own = config.instructions.get(hat, "").strip()
    if order == DEFAULT_ORDER and not own:
        return ""
    text = truncate(own, MAX_INSTRUCTIONS_LENGTH) + "\n" if own else _INSTRUCTIONS.get(hat, "")
    if hat == "planner" and can_split and not own:
        text += _SPLIT
    return f"## Your Hat: {hat.capitalize()}\n\n{text}{_how_to_finish(hat, order)}"


def _how_to_finish(hat: str, order: tuple[str, ...]) -> str:
    """Return how this hat ends its session: with a hand-over or with task-done."""
    if len(order) == 1:
        return ""
    successor, back = next_hat(hat, order), _previous_writer(hat, order)
    text = f"- You do one part of this task; the hats take turns: {' → '.join(order)}.\n"
    if successor:
        text += f"  Hand over when your part is done; only the {order[-1]} ends with task-done:\n"
        text += f'  <hand-over to="{successor}">what the {successor} needs to know</hand-over>\n'
    else:
        text += "  You are the last: when nothing is left to do, end with task-done.\n"
    if back:
        text += f"- If the {back} has to rework it, hand it back and do not end with task-done:\n"
        text += f'  <hand-over to="{back}">each finding, and where it is</hand-over>\n'
    return text


def _previous_writer(hat: str, order: tuple[str, ...]) -> str | None:
    """Return the last hat before this one that changes files, if any."""
    earlier = [one for one in order[: max(0, _index(hat, order))] if changes_files(one)]
    return earlier[-1] if earlier else None


# --- moves -------------------------------------------------------------------------


def resolve_move(hat: str, sigils: Sigils, claims_done: bool, order: tuple[str, ...]) -> HatMove:
    """Return how an answer moves its task; the gates decide whether a claimed done is true.

    A hand-over outweighs a task-done: with findings for an earlier hat, the task is not done.
    """
    hand_over, successor = sigils.hand_over, next_hat(hat, order)
    target = hand_over.to if hand_over else ""
    if target in order and target != hat:
        turn, to = MoveKind.ONWARD if _index(target, order) > _index(hat, order) else MoveKind.BACK, target
    elif claims_done and not successor:
        turn, to = MoveKind.DONE, ""
    elif successor and (claims_done or (hand_over and target != hat)):
        turn, to = MoveKind.ONWARD, successor
    else:
        turn, to = MoveKind.STAY, hat
    text = (hand_over.text if hand_over else "") or sigils.journal
    return HatMove(
        kind=turn,
        to=to,
        text=text if turn in (MoveKind.ONWARD, MoveKind.BACK) else "",
        problem=_problem(hat, hand_over, turn, claims_done, order),
    )


def _problem(
    hat: str, hand_over: HandoverSigil | None, turn: MoveKind, claims_done: bool, order: tuple[str, ...]
) -> str:
    """Return what is wrong with a hand-over, or an empty string."""
    if not hand_over:
        return ""
    if hand_over.to == hat:
        return f"the {hat} handed over to itself"
    if hand_over.to and hand_over.to not in order:
        return f"hand-over to the {hand_over.to}, but the order of hats is {' → '.join(order)}"
    if turn is MoveKind.BACK and claims_done:
        return f"the {hat} said task-done, but handed back to the {hand_over.to}"
    return f"no hat comes after the {hat}: it must end with task-done" if turn is MoveKind.STAY else ""


def handover_text(sigils: Sigils, answer: str) -> str:
    """Return the text of a hand-over: the message to the next hat, the notes and the end of the answer.

    Each part has a heading, so that an ignored section at the end of one does not hide the next.
    """
    from ralph.formats.sigils import strip_sigils

    message = sigils.hand_over.text if sigils.hand_over else ""
    prose = strip_sigils(answer)[-MAX_PROSE_LENGTH:]
    parts = (("Message", message), ("Notes", sigils.journal), ("Answer", prose))
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts if text)
