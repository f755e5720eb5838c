"""Text of tasks and features in prompts, by who wrote it. Pure.

A person's words are shown unchanged between two tags that do not occur in them. What an agent or another program wrote
is data, as recalled text is: neutralized and attributed. A text that is too long is not cut: the parts that matter for
the task are shown, with a table of contents and the command to read the others.
"""

from __future__ import annotations

import re

from ralph.core.hashing import sha256_hex
from ralph.core.records import OmittedItem, record
from ralph.core.text import CHARACTERS_PER_TOKEN
from ralph.loop.outline import choose_parts, contents, shown_runs, split_parts
from ralph.memory.recall.render import escape_inline, escape_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Feature, Task
    from ralph.loop.outline import TextPart

SPEC_TOKENS = 2_000
"""Token budget of the spec and of the plan, each; longer ones are shown in part."""
PARENTS_TOKENS = 2_000
"""Token budget of the descriptions of all tasks that a task is part of."""
MIN_PARENT_CHARACTERS = 600
"""Room below which the description of a task above is only named, in characters."""
_AUTHORS = {"agent": "an agent", "import": "another program"}


@record
class ShownText:
    """Text of a task or feature as a prompt shows it."""

    text: str
    left_out: tuple[OmittedItem, ...] = ()


def authored_text(name: str, text: str, written_by: str) -> str:
    """Return a text for a prompt; a person's words unchanged between tags with a name."""
    if written_by == "person":
        return delimit(name, text)
    return f"{_attribution(written_by)}\n\n{escape_untrusted(text)}"


def authored_line(text: str, written_by: str) -> str:
    """Return a title or name for a prompt, on one line."""
    return " ".join(text.split()) if written_by == "person" else escape_inline(text)


def delimit(name: str, text: str, label: str = "") -> str:
    """Return a text unchanged between two tags that do not occur in it; the first one has a label."""
    tag = name
    while re.search(rf"<\s*/?\s*{tag}", text, re.IGNORECASE):
        tag = f"{name}-{sha256_hex(f'{tag} {text}'.encode())[:8]}"
    return f"<{tag}{label}>\n{text}\n</{tag}>"


def render_feature(feature: Feature, query: str) -> ShownText:
    """Return the name, the spec and the plan of a feature; of long ones, the parts that matter for a query."""
    sections = [f"## Feature: {authored_line(feature.name, feature.written_by)}"]
    left_out: list[OmittedItem] = []
    number = 1
    for name, text in (("Spec", feature.spec), ("Plan", feature.plan)):
        if text:
            command = f"ralph feature show {feature.id} --part"
            shown, number = _document(name.lower(), text, feature.written_by, query, SPEC_TOKENS, command, number)
            sections.append(f"### {name}\n\n{shown.text}")
            left_out += shown.left_out
    return ShownText(text="\n\n".join(sections), left_out=tuple(left_out))


def render_parents(parents: Iterable[Task], query: str) -> list[str]:
    """Return the tasks that a task is part of, nearest first, with what their descriptions say about it."""
    room = PARENTS_TOKENS * CHARACTERS_PER_TOKEN
    lines = []
    for parent in parents:
        text = f"Part of {parent.id}: {authored_line(parent.title, parent.written_by)}"
        if parent.body and room >= MIN_PARENT_CHARACTERS:
            command = f"ralph task show {parent.id}"
            shown, _ = _document(
                "description", parent.body, parent.written_by, query, room // CHARACTERS_PER_TOKEN, command
            )
            text += f"\n\n{shown.text}"
            room -= len(shown.text)
        elif parent.body:
            text += f" (its description: ralph task show {parent.id})"
        lines.append(text)
    return lines


def is_all_replaced(*changes: tuple[str, str | None]) -> bool:
    """Return whether others wrote all of a task or feature, given each text before and after; None leaves it.

    Forms send all of their fields: a text that is the same is still that of its author.
    """
    return all(not old or new not in (None, old) for old, new in changes)


def size_warnings(spec: str, plan: str) -> list[str]:
    """Return a sentence for each text that is too long to stand in a prompt as a whole."""
    limit = SPEC_TOKENS * CHARACTERS_PER_TOKEN
    return [
        f"The {name} has {len(text):,} characters, more than the {limit:,} that a prompt shows. Agents get its"
        " contents, the parts that matter for their task, and the command to read the others."
        for name, text in (("spec", spec), ("plan", plan))
        if len(text) > limit
    ]


def _document(
    name: str, text: str, written_by: str, query: str, cap_tokens: int, command: str, first: int = 1
) -> tuple[ShownText, int]:
    """Return a text as a whole or in parts, numbered from `first`, and the number of the next part."""
    parts = split_parts(text, first)
    following = first + len(parts)
    limit = cap_tokens * CHARACTERS_PER_TOKEN
    if len(text) <= limit:
        return ShownText(text=authored_text(name, text, written_by)), following
    overview = len("\n".join(contents(parts, range(first, following))))
    shown = choose_parts(parts, query, max(limit // 4, limit - overview))
    is_person = written_by == "person"
    lines = "\n".join(contents(parts, shown))
    number = " NUMBER" if command.endswith("--part") else ""
    blocks = [
        f"It has {len(text):,} characters in {len(parts)} parts. Those that matter most for this task are below. Read"
        f" others that concern it: `{command}{number}`",
        delimit("contents", lines) if is_person else escape_untrusted(lines),
    ]
    if not is_person:
        blocks.insert(0, _attribution(written_by))
    for run in shown_runs(parts, shown):
        said = "".join(part.text for part in run).strip("\n")
        blocks.append(delimit(name, said, f' part="{_numbers(run)}"') if is_person else escape_untrusted(said))
    what = f"{len(parts) - len(shown)} of {len(parts)} parts of the {name}"
    omitted = OmittedItem(what=what, why=f"longer than {cap_tokens} tokens")
    return ShownText(text="\n\n".join(blocks), left_out=(omitted,)), following


def _numbers(run: Sequence[TextPart]) -> str:
    first, last = run[0].number, run[-1].number
    return f"{first}" if first == last else f"{first}-{last}"


def _attribution(written_by: str) -> str:
    return f"_Written by {_AUTHORS.get(written_by, _AUTHORS['agent'])}, not by a person:_"
