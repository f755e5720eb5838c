"""Say which hat goes on with a task, and what each hat is told.

A hat is the part an agent plays for one session. An order of hats always comes from
`order_for`; a hat that is not in it (any more) stands before its first.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.loop.strategy import PLAN
from ralph.loop.stuck import WRITING_HATS
from ralph.records import record
from ralph.text import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.config import HatsConfig
    from ralph.records import HandOver, Sigils

PLAIN = ("creator",)
"""The order of a project that does not use hats."""
LONGEST_INSTRUCTIONS = 4_000
LONGEST_PROSE = 40_000
"""Characters of an answer's end that are searched for what is worth keeping."""

_PARTS = {
    "explorer": """\
- Find out what this task is about, and change nothing: read, run, look at the history.
- Say what is where (paths and names), how it hangs together, what it depends on and how it is tested. Keep what you
  saw apart from what you suppose.
""",
    "planner": """\
- Decide how this task is to be done, and change no product code. Write down the steps in order, what was ruled out and
  why, and the constraints: what must stay as it is, and what the work has to keep to.
- Too much for one session? Split it into parts that can each be finished and checked; `needs` is what comes first:
  <subtask title="title of a part" needs="title of another; and of a third">what is to be done in it</subtask>
""",
    "creator": """\
- Do the task. Where what was handed over to you turns out wrong, go by what you see and say so.
- Check your work the way the project does before you give it away.
""",
    "critic": """\
- Look for what is wrong with the work so far: read the diff, run it, try what its author did not think of.
- Change nothing. A finding says where it is, what happens and what should happen; a matter of taste is none.
""",
    "editor": """\
- Polish what is there: names, documentation, comments, tests that prove what they say.
- Add no behaviour and take none away; the checks that passed must pass again.
""",
}


class Turn(StrEnum):
    """What becomes of a task after an answer."""

    DONE = "done"
    ONWARD = "onward"
    BACK = "back"
    STAY = "stay"


@record
class Move:
    """Which way an answer moves its task."""

    kind: Turn
    to: str
    """The hat that goes on; the same one when it stays, none when the task is done."""
    text: str = ""
    """What the next hat has to know."""
    problem: str = ""
    """What was wrong with how the agent said it; for the log."""


def order_for(config: HatsConfig, strategy: str) -> tuple[str, ...]:
    """Give the hats a task passes through: as configured, with a planner before the work if the strategy wants one."""
    order = config.order or PLAIN
    workers = [place for place, hat in enumerate(order) if changes_files(hat)]
    if strategy != PLAN or "planner" in order or not workers:
        return order
    return (*order[: workers[0]], "planner", *order[workers[0] :])


def next_of(hat: str, order: tuple[str, ...]) -> str | None:
    """Give the hat after this one; None after the last."""
    place = _place(hat, order) + 1
    return order[place] if place < len(order) else None


def changes_files(hat: str) -> bool:
    """Say whether it is this hat's part to change the project."""
    return hat in WRITING_HATS


def _place(hat: str, order: tuple[str, ...]) -> int:
    return order.index(hat) if hat in order else -1


# --- what a hat is told ------------------------------------------------------------


def instructions(hat: str, order: tuple[str, ...], config: HatsConfig) -> str:
    """Give the section of the prompt that says what this hat does; nothing in a project without hats."""
    own = config.instructions.get(hat, "").strip()
    if order == PLAIN and not own:
        return ""
    part = cut(own, LONGEST_INSTRUCTIONS) + "\n" if own else _PARTS.get(hat, "")
    return f"## Your Hat: {hat.capitalize()}\n\n{part}{_ending(hat, order)}"


def _ending(hat: str, order: tuple[str, ...]) -> str:
    """Say how this hat's session ends: whom it hands over to, and who says that the task is done."""
    if len(order) == 1:
        return ""
    following, back = next_of(hat, order), _worker_before(hat, order)
    text = f"- This is one part of the task; others play theirs: {' → '.join(order)}.\n"
    if following:
        text += f"  Hand over when yours is done; only the {order[-1]} ends with task-done:\n"
        text += f'  <hand-over to="{following}">what the {following} must know</hand-over>\n'
    else:
        text += "  You are the last: when nothing is left to do, end with task-done.\n"
    if back:
        text += f"- If the {back} has to go over it again, hand it back, and do not say that it is done:\n"
        text += f'  <hand-over to="{back}">each finding, and where it is</hand-over>\n'
    return text


def _worker_before(hat: str, order: tuple[str, ...]) -> str | None:
    """Give the hat before this one whose work can be sent back."""
    earlier = [one for one in order[: max(0, _place(hat, order))] if changes_files(one)]
    return earlier[-1] if earlier else None


# --- what becomes of an answer -----------------------------------------------------


def resolve(hat: str, sigils: Sigils, claims_done: bool, order: tuple[str, ...]) -> Move:
    """Give which way an answer moves its task; whether a done is true is for the gates to say.

    A hand-over says more than a task-done: with findings for an earlier hat, nothing is done.
    """
    said, following = sigils.hand_over, next_of(hat, order)
    wanted = said.to if said else ""
    if wanted in order and wanted != hat:
        turn, to = Turn.ONWARD if _place(wanted, order) > _place(hat, order) else Turn.BACK, wanted
    elif claims_done and not following:
        turn, to = Turn.DONE, ""
    elif following and (claims_done or (said and wanted != hat)):
        turn, to = Turn.ONWARD, following
    else:
        turn, to = Turn.STAY, hat
    text = (said.text if said else "") or sigils.journal
    return Move(
        kind=turn,
        to=to,
        text=text if turn in (Turn.ONWARD, Turn.BACK) else "",
        problem=_problem(hat, said, turn, claims_done, order),
    )


def _problem(hat: str, said: HandOver | None, turn: Turn, claims_done: bool, order: tuple[str, ...]) -> str:
    """Give what is wrong with how a hat hands over, if anything is."""
    if not said:
        return ""
    if said.to == hat:
        return f"the {hat} handed over to itself"
    if said.to and said.to not in order:
        return f"hand-over to the {said.to}, but tasks here go {' → '.join(order)}"
    if turn is Turn.BACK and claims_done:
        return f"the {hat} said task-done, but handed back to the {said.to}"
    return f"nobody comes after the {hat}: it must say task-done" if turn is Turn.STAY else ""


def handover_text(sigils: Sigils, answer: str) -> str:
    """Give the words of a hat that hands over: what it says to the next one, its notes, and the end of its answer.

    Each has a heading, so that an unwanted section at the end of one does not hide the next.
    """
    from ralph.loop.sigils import without_sigils

    said = sigils.hand_over.text if sigils.hand_over else ""
    prose = without_sigils(answer)[-LONGEST_PROSE:]
    parts = (("Message", said), ("Notes", sigils.journal), ("Answer", prose))
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts if text)
