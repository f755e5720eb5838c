"""Connect an agent to the memory, and disconnect it again.

First a plan is made, which changes nothing and can be shown; then it is carried out. What a person wrote into a file
is never lost: files are changed in place, replaced whole, and what they held before is kept.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ralph.errors import RalphError, UsageError
from ralph.files import is_inside, replace_seen, sync_folder
from ralph.records import record, replace
from ralph.setup.agents import Wish, edits_for, places_for, program
from ralph.setup.edits import NAME, FileEdit, JsonEdit, LinesEdit, Past, TomlEdit
from ralph.setup.jsontext import is_text
from ralph.setup.kept import Kept, Original, digest
from ralph.setup.reading import settings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ralph.files import Size
    from ralph.setup.edits import Edit

FOLDER = ".ralph/setup"
WITHOUT = "without what setup wrote"


@record
class Change:
    """What becomes of one file."""

    path: Path
    """Where it really is, links followed."""
    name: str
    """What a person calls it."""
    before: bytes | None
    """None: there is none."""
    after: bytes | None
    """None: it goes."""
    seen: Size | None
    says: str
    folders: tuple[Path, ...] = ()
    """Folders to take away when nothing else is in them."""
    is_prose: bool = False
    """It is for agents to read: its length says enough."""


@record
class Plan:
    """All that is to be done, in order."""

    agent: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    """What a person should know."""
    originals: Mapping[str, Original]
    """What is to be kept for the way back."""
    kept: Kept


def plugin_folder() -> Path:
    """Give the Claude Code plugin that comes with this program."""
    return Path(__file__).parent.parent / "plugin"


def wish_for(
    root: Path | None,
    *,
    with_hooks: bool = True,
    with_server: bool = True,
    environment: Mapping[str, str] = os.environ,
    words: tuple[str, ...] = (),
) -> Wish:
    """Give what a person wants; `root` is the project, None for all projects, `words` start ralph."""
    return Wish(
        root=root.absolute() if root else None,
        home=Path(environment.get("HOME") or _home_of_the_account()),
        environment=environment,
        program=words or program(),
        with_hooks=with_hooks,
        with_server=with_server,
    )


def _home_of_the_account() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _refuse_what_cannot_be_written(wish: Wish) -> None:
    if wish.root is None and not os.path.isabs(wish.environment.get("HOME", "")):  # noqa: PTH117
        raise UsageError("HOME does not say where your home is: set it to a whole path, or leave out --user.")
    if not all(map(is_text, wish.program)):
        raise UsageError(
            "Ralph is in a folder whose name is not UTF-8, which settings cannot hold: install it elsewhere."
        )


def plan_setup(agent: str, wish: Wish, *, force: bool = False) -> Plan:
    """Give what has to be done to connect an agent; nothing when all is as it should be."""
    _refuse_what_cannot_be_written(wish)
    kept = kept_for(agent, wish)
    known, doubts = _known(kept, wish)
    edits = edits_for(agent, wish)
    others = [] if force else [edit for edit in edits if _is_a_persons(edit, known, wish)]
    if others:
        edits = [_without_leave(edit) for edit in edits]
    excluded, notes = _excluded(agent, wish, [edit for edit in edits if edit not in others])
    notes += doubts
    if wish.root and kept_for(agent, replace(wish, root=None)).read():
        notes.append(f"{agent} is connected for all your projects too, and hooks run twice: uninstall one of the two.")
    originals, changes = dict(known), []
    for edit in [*edits, *excluded]:
        name = _name(edit.path, wish)
        path, before, _ = looked = _look(edit.path)
        was = known.get(name)
        was_written = was is not None and digest(before) == was.written
        past = _past(edit, was, before)
        if edit.is_wanted:
            after: bytes | None = edit.merged(before, force=force, was_written=was_written, past=past)
        else:
            after = before if before is None else edit.stripped(before, past.original, is_known=past.is_known)
        if isinstance(edit, (JsonEdit, TomlEdit)) and before is not None and not force:
            found = edit.says_of_others(before, past, was_written=was_written)
            notes += [f"{name} has {what} that setup did not write: left as it is. {how}" for what, how in found]
        if isinstance(edit, FileEdit) and edit.is_wanted and after != edit.content:
            notes.append(f"{name} stays as somebody changed it; --force writes it anew.")
        notes += [note for note in _links(edit.path, wish) if note not in notes]
        original = _original(edit, was, before, was_written=was_written)
        if after is None or (original is not None and after == original):
            originals.pop(name, None)
        elif after != before or was is None or was_written:
            folders = was.folders if was else _missing_folders(path, wish) if before is None else ()
            originals[name] = Original(content=original, written=digest(after), folders=folders)
        if after != before:
            gone = _folders(was, wish) if after is None else ()
            says = edit.says if edit.is_wanted else WITHOUT
            changes.append(_change(edit, looked, name, after, says, gone))
    return Plan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals=originals,
        kept=kept,
    )


def _known(kept: Kept, wish: Wish) -> tuple[dict[str, Original], list[str]]:
    """Give what was kept, and what there is to say of it when it cannot be used."""
    from ralph.git import ask_git

    if wish.root and ask_git(wish.root, "ls-files", "--", FOLDER):
        return {}, [f"{FOLDER} is in git, so anybody may have written it, and it is not used: take it out of git."]
    damage = kept.damage
    return ({}, [damage]) if damage else (kept.read(), [])


def _is_a_persons(edit: Edit, known: Mapping[str, Original], wish: Wish) -> bool:
    """Say whether all that we would write into a file is there by the hand of somebody else."""
    if not isinstance(edit, TomlEdit) and not (isinstance(edit, JsonEdit) and edit.servers and not edit.hooks):
        return False
    before, was = _look(edit.path)[1], known.get(_name(edit.path, wish))
    if before is None:
        return False
    was_written = was is not None and digest(before) == was.written
    return any(edit.says_of_others(before, _past(edit, was, before), was_written=was_written))


def _without_leave(edit: Edit) -> Edit:
    """Give an edit that allows nothing unasked: what somebody else's entry starts need not be this program."""
    if isinstance(edit, JsonEdit) and edit.words:
        return replace(edit, with_words=False, says=edit.says_without_words)
    return edit


def _original(edit: Edit, was: Original | None, before: bytes | None, *, was_written: bool) -> bytes | None:
    """Give what a file would hold without us: as it was, or what people have made of it since."""
    if before is None:
        return None
    if was and was_written:
        return was.content
    past = _past(edit, was, before)
    return edit.stripped(before, past.original, is_known=past.is_known)


def _past(edit: Edit, was: Original | None, now: bytes | None) -> Past:
    """Give what is known of a file before us: if nothing, that there was one without anything of ours."""
    if was:
        return Past(original=was.content, is_known=True)
    return Past(original=now if isinstance(edit, FileEdit) else b"{}", is_known=False)


def _links(path: Path, wish: Wish) -> Iterator[str]:
    """Say which links a file of the project is behind: they may lead out of it."""
    if not wish.root or not path.is_relative_to(wish.root):
        return
    below = [wish.root / Path(*parts) for parts in _beginnings(path.relative_to(wish.root).parts)]
    for place in below:
        if place.is_symlink():
            yield f"{_name(place, wish)} is a link to {place.resolve()}."


def _beginnings(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[:length] for length in range(1, len(parts) + 1)]


def plan_removal(agent: str, wish: Wish) -> Plan:
    """Give what has to be done to disconnect an agent: files as they were, or without what is ours."""
    _refuse_what_cannot_be_written(replace(wish, program=()))
    kept = kept_for(agent, wish)
    known, notes = _known(kept, wish)
    changes = []
    # Only these files, whatever the record names: it is in the project's folder, and that may come from anybody.
    for edit in [*places_for(agent, wish), *_exclude_file(agent, wish, ())]:
        name = _name(edit.path, wish)
        _, before, _ = looked = _look(edit.path)
        was = known.get(name)
        if before is None or (was is None and NAME.encode() not in before):
            continue
        if was and digest(before) == was.written:
            after = was.content
        else:
            past = _past(edit, was, before)
            after = edit.stripped(before, past.original, is_known=past.is_known)
            if isinstance(edit, (JsonEdit, TomlEdit)):
                found = edit.says_of_others(before, past, was_written=False)
                notes += [f"{name} has {what} that setup did not write: left as it is." for what, _ in found]
            if isinstance(edit, FileEdit) and not was and edit.is_private and before == edit.content:
                after = None  # what was kept is lost, but nobody else writes such a file
        if was and after == before and isinstance(edit, FileEdit):
            notes.append(f"{name} stays: somebody changed it. Remove it yourself if you do not need it.")
        if after != before:
            notes += [note for note in _links(edit.path, wish) if note not in notes]
            is_as_before = after is not None and was and after == was.content
            says = "it was not there before" if after is None else "as it was before" if is_as_before else WITHOUT
            folders = _folders(was, wish) if after is None else ()
            changes.append(_change(edit, looked, name, after, says, folders))
    return Plan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals={},
        kept=kept,
    )


def refuse_to_leave(plan: Plan, wish: Wish) -> None:
    """Refuse a plan that nobody is asked about and that changes something outside: links come with a clone."""
    if out := [one.name for one in plan.changes if wish.root and not is_inside(one.path, wish.root)]:
        raise UsageError(
            f"{out[0]} is behind a link that leads out of the project. Look at it, and say it without --yes."
        )


def carry_out(plan: Plan) -> None:
    """Do what was planned; a file that somebody has saved meanwhile stops it.

    What is needed for the way back is kept before anything is changed, and let go of last.
    """
    if plan.originals:
        plan.kept.write(plan.originals)
    for change in plan.changes:
        if change.after is not None:
            if not _put(change, change.after):
                raise RalphError(f"{change.name} was changed just now: look at it, and run this again.")
        else:
            if _look(change.path)[1:] != (change.before, change.seen):
                raise RalphError(f"{change.name} was changed just now: look at it, and run this again.")
            change.path.unlink()
            sync_folder(change.path.parent)
            _take_away(change)
    if not plan.originals:
        plan.kept.write({})


def _change(
    edit: Edit,
    looked: tuple[Path, bytes | None, Size | None],
    name: str,
    after: bytes | None,
    says: str,
    folders: tuple[Path, ...],
) -> Change:
    path, before, seen = looked
    is_prose = isinstance(edit, FileEdit) and edit.is_prose
    return Change(
        path=path, name=name, before=before, after=after, seen=seen, says=says, folders=folders, is_prose=is_prose
    )


def _put(change: Change, content: bytes) -> bool:
    """Write a file; False when somebody has saved another one since.

    One that has other names too is written where it is: else those would go on to lead to the old one.
    """
    import time

    try:
        has_other_names = change.path.stat().st_nlink > 1
    except OSError:
        has_other_names = False
    if not has_other_names:
        return replace_seen(change.path, content, change.seen, changed_ns=time.time_ns())
    if _look(change.path)[1:] != (change.before, change.seen):
        return False
    with change.path.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return True


def _take_away(change: Change) -> None:
    for folder in change.folders:
        if not is_inside(change.path, folder):
            return
        try:
            folder.rmdir()
        except OSError:  # somebody uses it
            return


def kept_for(agent: str, wish: Wish) -> Kept:
    """Give where the originals of an agent's files are kept."""
    if wish.root:
        if not is_inside(wish.root / FOLDER, wish.root):
            raise UsageError(f"{FOLDER} in {wish.root} is behind a link that leads out of the project. Remove it.")
        return Kept(wish.root / FOLDER, agent)
    state = wish.environment.get("XDG_STATE_HOME") or wish.home / ".local" / "state"
    return Kept(Path(state) / "ralph" / "setup", agent)


def _name(path: Path, wish: Wish) -> str:
    return str(path.relative_to(wish.root)) if wish.root and path.is_relative_to(wish.root) else str(path)


def _look(path: Path) -> tuple[Path, bytes | None, Size | None]:
    """Give where a file really is, what it holds, and its size and date."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be read: its links lead in a circle. Nothing was changed.") from error
    found = settings_in(path)
    return (real, *found) if found else (real, None, None)


def _missing_folders(path: Path, wish: Wish) -> tuple[str, ...]:
    return tuple(_name(folder, wish) for folder in path.parents if not folder.exists())


def _folders(was: Original | None, wish: Wish) -> tuple[Path, ...]:
    return tuple((wish.root or wish.home) / folder for folder in was.folders) if was else ()


# --- git: what names a program of this machine is nothing for others ---------------


def _excluded(agent: str, wish: Wish, edits: list[Edit]) -> tuple[list[LinesEdit], list[str]]:
    """Give the edit that keeps files with paths of this machine out of git, and notes on those git has already."""
    from ralph.git import ask_git

    if wish.root is None or ask_git(wish.root, "rev-parse", "--is-inside-work-tree") is None:
        return [], []
    private = [edit.path for edit in edits if edit.is_private and edit.is_wanted]
    names = [_name(path, wish) for path in private]
    tracked = (ask_git(wish.root, "ls-files", "-z", "--", *names) or "").split("\0") if names else []
    notes = [
        f"{name} is in git, and now names a program of this machine: do not commit that, or use --user."
        for name in names
        if name in tracked
    ]
    inside = _inside(wish.root)
    lines = tuple(_pattern(f"/{inside}{name}") for name in names if name not in tracked)
    return _exclude_file(agent, wish, lines), notes


def _inside(root: Path) -> str:
    """Give where a project is in its repository, with a slash at the end; nothing when it is all of it."""
    from ralph.git import ask_git

    # What git answers is decoded, and a name need not be text: only how deep it is is taken from it.
    depth = (ask_git(root, "rev-parse", "--show-prefix") or "").count("/")
    return "".join(f"{part}/" for part in root.resolve().parts[-depth:]) if depth else ""


def _pattern(path: str) -> str:
    """Give the pattern that means this path alone; it begins with a slash, so no other mark counts at its start."""
    return re.sub(r"([\\*?\[])", r"\\\1", path).replace("\n", "?").replace("\r", "?")


def _exclude_file(agent: str, wish: Wish, lines: tuple[str, ...]) -> list[LinesEdit]:
    from ralph.git import ask_git

    answer = ask_git(wish.root, "rev-parse", "--git-path", "info/exclude") if wish.root else None
    if not answer or not wish.root or "\ufffd" in answer:  # a name that is not text cannot be known from its answer
        return []
    inside = _inside(wish.root)
    about = "these name programs of this machine"
    names = [_name(edit.path, wish) for edit in places_for(agent, wish) if edit.is_private]
    return [
        LinesEdit(
            path=wish.root / answer.removesuffix("\n"),
            heading=f"# ralph setup {agent} in {_pattern(f'/{inside}')}: {about}",
            lines=lines,
            old_heading=f"# ralph setup {agent}: {about}",
            old_lines=tuple(f"/{inside}{name}" for name in names),
            says="so that git leaves out the files with paths of this machine",
        )
    ]
