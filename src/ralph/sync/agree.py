"""The three-way rule that keeps an entry of a file and its memory in step. Pure.

Each side is the entry's text, or None when it is not there. A person's edit in the
file wins; a deletion never wins over a change.

Where several working copies share a store, a file speaks only for what was written in it since it was last in step: git
takes entries away and brings old ones back, and must not forget for a whole team, or remind it.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.memory.lifecycle import too_many


class Step(StrEnum):
    """What to do about one entry."""

    NOTHING = "nothing"
    TAKE = "take the file's text into the store"
    WRITE = "write the store's text into the file"
    REMOVE = "remove it from the file"
    DELETE = "delete it in the store"


def is_too_much(gone: int, known: int) -> bool:
    """Say whether so many entries are gone from a file at once that it was rather damaged, or another branch."""
    return too_many(gone, known) or (gone > 1 and gone == known)


def decide(
    base: str | None, file: str | None, store: str | None, *, is_shared: bool = False, is_out_of_use: bool = False
) -> tuple[Step, bool]:
    """Give the step that brings file and store in step again, and whether both had changed.

    `base` is what they last agreed on. `is_shared` says that other working copies use the store too, `is_out_of_use`
    that the store knows the entry, and that it was taken out of use.
    """
    if file == store:
        return Step.NOTHING, False
    if is_shared and base is None and store is not None:
        return Step.WRITE, False
    if is_shared and base is None and is_out_of_use:
        return Step.REMOVE, False
    if file is None:
        # Not in the file: taken out there, unless it is new or has changed here since.
        if base is None or is_shared:
            return Step.WRITE, False
        return (Step.DELETE, False) if store == base else (Step.WRITE, True)
    if store is None:
        # Not in the store, or no longer shown: taken out here, unless a person wrote it or changed it since.
        if base is None:
            return Step.TAKE, False
        return (Step.REMOVE, False) if file == base else (Step.TAKE, True)
    if file == base:
        return Step.WRITE, False
    return Step.TAKE, base != store
