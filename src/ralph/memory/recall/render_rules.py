"""Rendering of standing rules: one line each, with its date and what it was before."""

from __future__ import annotations

from ralph.core.records import EPISODE_PREFIX, OmittedItem, record
from ralph.core.text import CHARACTERS_PER_TOKEN, one_line
from ralph.memory.recall.render import escape_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import StandingRule

HEADING = "## Standing Rules"
PREFACE = "What people of this project want in all work, in its newest form. The task itself comes first."
BY_AGENT = "noted by an agent; no person has said so"
MAX_ENTRY_CHARACTERS = 240
"""Length of a rule as it is shown, in characters."""
MAX_PAST_VALUES = 3
"""Number of values named that a rule had before."""


@record
class StandingSection:
    """Rules for a prompt: their text, what they are from, and why others are not there."""

    text: str = ""
    memories: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()
    left_out: tuple[OmittedItem, ...] = ()


def render_standing(rules: Sequence[StandingRule], budget_tokens: int) -> StandingSection:
    """Return the rules that fit, one line each."""
    room = budget_tokens * CHARACTERS_PER_TOKEN - len(HEADING) - len(PREFACE) - 4
    lines: list[str] = []
    shown: list[str] = []
    left_out: list[OmittedItem] = []
    for rule in rules:
        line = _line(rule)
        if len(line) + 1 > room:
            why = f"no room left in {budget_tokens} tokens of standing rules"
            left_out.append(OmittedItem(what=rule.stated.rule.text, why=why, id=rule.stated.id))
            continue
        room -= len(line) + 1
        lines.append(line)
        shown.append(rule.stated.id)
    if not lines:
        return StandingSection(left_out=tuple(left_out))
    return StandingSection(
        text="\n".join([HEADING, "", PREFACE, "", *lines]) + "\n",
        memories=tuple(id for id in dict.fromkeys(shown) if not _is_episode(id)),
        episodes=tuple(id for id in dict.fromkeys(shown) if _is_episode(id)),
        left_out=tuple(left_out),
    )


def _is_episode(id: str) -> bool:
    return id.startswith(EPISODE_PREFIX)


def _line(rule: StandingRule) -> str:
    text = one_line(escape_inline(rule.stated.rule.text), MAX_ENTRY_CHARACTERS)
    notes = [rule.stated.at[:10], *([BY_AGENT] if rule.stated.is_by_agent else [])]
    if past := _past_values(rule):
        notes.append(f"was: {', '.join(past)}")
    if rule.conflicts:
        notes.append(f"contradicts {', '.join(f'{one.id} of {one.at[:10]}' for one in rule.conflicts)}")
    return f"- {text} ({'; '.join(notes)})"


def _past_values(rule: StandingRule) -> list[str]:
    values = dict.fromkeys(value for one in rule.superseded for value in one.rule.values)
    past = [value for value in values if value not in rule.stated.rule.values]
    return [f"'{escape_inline(value)}'" for value in past[:MAX_PAST_VALUES]]
