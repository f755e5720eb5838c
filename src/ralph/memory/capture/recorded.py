"""Import of what another program recorded of sessions: each record becomes episodes of its own.

Such programs go on recording, so a record never shares an episode with the next one, which may not be there yet.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby

from ralph.core.records import EpisodeKind, replace
from ralph.core.text import one_line, sanitize
from ralph.core.worktrees import linked_worktrees
from ralph.formats.planned import PassageImport
from ralph.formats.transcripts.cleaning import relative_files
from ralph.memory.capture.passages import Origin, to_episodes
from ralph.memory.capture.session_import import OWN_PROMPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.core.records import Episode, Turn
    from ralph.formats.planned import PlannedPassage
    from ralph.store import Store

MAX_NAMES = 10
"""Number of other projects that are named."""


def import_recorded(store: Store, root: str, passages: Sequence[PlannedPassage]) -> PassageImport:
    """Import the passages of the project in a directory, whose name tells which these are.

    A passage that an episode of its session contains, as the transcript may be imported too, is known.
    """
    directories = [os.path.realpath(root), *linked_worktrees(root)]
    names = _project_names(directories)
    own = sorted((one for one in passages if one.project in names), key=lambda one: one.session)
    left_out: Counter[str] = Counter()
    read = added = 0
    for session, group in groupby(own, key=lambda one: one.session):
        texts = [one.text for one in store.episodes.of_source(EpisodeKind.SESSION, session)]
        position = store.episodes.next_position(EpisodeKind.SESSION, session)
        episodes = list(_episodes(group, position, directories, left_out))
        read += len(episodes)
        added += store.episodes.add([one for one in episodes if not any(one.text in text for text in texts)])
    others = Counter(one.project for one in passages if one.project not in names)
    return PassageImport(added=added, known=read - added, note=_note(left_out, others))


def _project_names(directories: Sequence[str]) -> set[str]:
    """Return what other programs call a project: its directory, or `main/linked` in a linked worktree."""
    names = [os.path.basename(directory) for directory in directories]  # noqa: PTH119
    return {*names, *(f"{names[0]}/{name}" for name in names[1:])} - {""}


def _episodes(
    passages: Iterable[PlannedPassage], position: int, directories: Sequence[str], left_out: Counter[str]
) -> Iterator[Episode]:
    for passage in passages:
        if passage.turn.text.startswith(OWN_PROMPT):
            left_out["prompts of the loop"] += 1
            continue
        origin = Origin(kind=EpisodeKind.SESSION, source=passage.session, agent=passage.agent, at=passage.turn.at)
        before = position
        for episode in to_episodes([_with_own_files(passage.turn, directories)], origin, position):
            position += 1
            yield episode
        left_out["too short"] += position == before


def _with_own_files(turn: Turn, directories: Sequence[str]) -> Turn:
    files = (path for directory in directories for path in relative_files(turn.files, directory, directory))
    return replace(turn, files=tuple(dict.fromkeys(files)))


def _note(left_out: Counter[str], others: Counter[str]) -> str:
    parts = [f"{count:,} {reason}" for reason, count in left_out.most_common() if count]
    if others:
        named = [f"{one_line(sanitize(name), 60)} {count:,}" for name, count in others.most_common(MAX_NAMES)]
        named += ["…"] if len(others) > MAX_NAMES else []
        parts.insert(0, f"{others.total():,} of other projects ({', '.join(named)})")
    return f"left out: {', '.join(parts)}" if parts else ""
