"""Connecting agents to the memory, and disconnecting them.

`plan_setup` and `plan_removal` compute the changes, which can be shown first; `carry_out` makes them. Edits by a person
are never lost: only our own entries change, files are replaced atomically, and their original content is kept.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ralph.core.errors import RalphError, UsageError
from ralph.core.files import is_inside, replace_seen, sync_folder
from ralph.core.records import record, replace
from ralph.integrations.setup.agents import Wish, edits_for, places_for, program
from ralph.integrations.setup.backups import Kept, Original, digest
from ralph.integrations.setup.edits import NAME, FileEdit, JsonEdit, LinesEdit, Past, TomlEdit
from ralph.integrations.setup.jsontext import is_text
from ralph.integrations.setup.reading import settings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ralph.core.files import Size
    from ralph.integrations.setup.edits import Edit

FOLDER = ".ralph/setup"
"""Directory of the original files, relative to the project."""
WITHOUT = "remove what setup added"
"""Description of a change that removes our entries."""


@record
class Change:
    """A planned change of one file."""

    path: Path
    """Location of the file, with symbolic links resolved."""
    name: str
    """Path as shown to the user."""
    before: bytes | None
    """Current content, or None if there is no file."""
    after: bytes | None
    """New content, or None to delete the file."""
    seen: Size | None
    says: str
    folders: tuple[Path, ...] = ()
    """Directories to remove if they become empty."""
    is_prose: bool = False
    """Whether the file is prose for agents, of which only the length is shown."""


@record
class Plan:
    """The changes that connect or disconnect an agent, in order."""

    agent: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    """Notes for the user."""
    originals: Mapping[str, Original]
    """Original files to keep for uninstalling."""
    kept: Kept


def plugin_folder() -> Path:
    """Return the directory of the bundled Claude Code plugin."""
    return Path(__file__).parent.parent.parent / "plugin"


def wish_for(
    root: Path | None,
    *,
    with_hooks: bool = True,
    with_server: bool = True,
    environment: Mapping[str, str] = os.environ,
    words: tuple[str, ...] = (),
) -> Wish:
    """Return the setup options. `root` is the project, or None for all projects; `words` is the command for ralph."""
    return Wish(
        root=root.absolute() if root else None,
        home=Path(environment.get("HOME") or _account_home()),
        environment=environment,
        program=words or program(),
        with_hooks=with_hooks,
        with_server=with_server,
    )


def _account_home() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _check_paths(wish: Wish) -> None:
    if wish.root is None and not os.path.isabs(wish.environment.get("HOME", "")):  # noqa: PTH117
        raise UsageError("HOME is not an absolute path. Set it, or omit --user.")
    if not all(map(is_text, wish.program)):
        raise UsageError(
            "Ralph is installed in a directory whose name is not valid UTF-8. Install it in another directory."
        )


def plan_setup(agent: str, wish: Wish, *, force: bool = False) -> Plan:
    """Return the changes that connect an agent; none if it is already connected."""
    _check_paths(wish)
    kept = kept_for(agent, wish)
    known, doubt_notes = _load_originals(kept, wish)
    edits = edits_for(agent, wish)
    others = [] if force else [edit for edit in edits if _is_written_by_person(edit, known, wish)]
    if others:
        edits = [_without_permissions(edit) for edit in edits]
    excluded, notes = _plan_exclude(agent, wish, [edit for edit in edits if edit not in others])
    notes += doubt_notes
    if wish.root and kept_for(agent, replace(wish, root=None)).read():
        notes.append(f"{agent} is also connected for all your projects, so hooks run twice. Uninstall one of the two.")
    originals, changes = dict(known), []
    for edit in [*edits, *excluded]:
        name = _display_name(edit.path, wish)
        path, before, _ = current = _read(edit.path)
        was = known.get(name)
        was_written = was is not None and digest(before) == was.written
        past = _history_of(edit, was, before)
        if edit.is_wanted:
            after: bytes | None = edit.merged(before, force=force, was_written=was_written, past=past)
        else:
            after = before if before is None else edit.stripped(before, past.original, is_known=past.is_known)
        if isinstance(edit, (JsonEdit, TomlEdit)) and before is not None and not force:
            found = edit.says_of_others(before, past, was_written=was_written)
            notes += [
                f"{name} has {what} that setup did not write, which is left unchanged. {how}" for what, how in found
            ]
        if isinstance(edit, FileEdit) and edit.is_wanted and after != edit.content:
            notes.append(f"{name} was edited and is left unchanged; --force overwrites it.")
        notes += [note for note in _link_notes(edit.path, wish) if note not in notes]
        original = _content_without_us(edit, was, before, was_written=was_written)
        if after is None or (original is not None and after == original):
            originals.pop(name, None)
        elif after != before or was is None or was_written:
            folders = was.folders if was else _missing_folders(path, wish) if before is None else ()
            originals[name] = Original(content=original, written=digest(after), folders=folders)
        if after != before:
            created = _created_folders(was, wish) if after is None else ()
            says = edit.says if edit.is_wanted else WITHOUT
            changes.append(_change(edit, current, name, after, says, created))
    return Plan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals=originals,
        kept=kept,
    )


def _load_originals(kept: Kept, wish: Wish) -> tuple[dict[str, Original], list[str]]:
    """Return the kept originals, and notes on why they cannot be used."""
    from ralph.core.git import ask_git

    if wish.root and ask_git(wish.root, "ls-files", "--", FOLDER):
        return {}, [f"{FOLDER} is tracked by git and therefore not trusted. Remove it from git."]
    damage = kept.damage
    return ({}, [damage]) if damage else (kept.read(), [])


def _is_written_by_person(edit: Edit, known: Mapping[str, Original], wish: Wish) -> bool:
    """Return whether a person wrote all the entries of a file that setup would write."""
    if not isinstance(edit, TomlEdit) and not (isinstance(edit, JsonEdit) and edit.servers and not edit.hooks):
        return False
    before, was = _read(edit.path)[1], known.get(_display_name(edit.path, wish))
    if before is None:
        return False
    was_written = was is not None and digest(before) == was.written
    return any(edit.says_of_others(before, _history_of(edit, was, before), was_written=was_written))


def _without_permissions(edit: Edit) -> Edit:
    """Return the edit without tool permissions: the entry of a person may start another program."""
    if isinstance(edit, JsonEdit) and edit.words:
        return replace(edit, with_words=False, says=edit.says_without_words)
    return edit


def _content_without_us(edit: Edit, was: Original | None, before: bytes | None, *, was_written: bool) -> bytes | None:
    """Return the content of a file without our entries: the original, or the file as people have edited it since."""
    if before is None:
        return None
    if was and was_written:
        return was.content
    past = _history_of(edit, was, before)
    return edit.stripped(before, past.original, is_known=past.is_known)


def _history_of(edit: Edit, was: Original | None, now: bytes | None) -> Past:
    """Return what is known about a file before setup. If nothing is, assume it existed without our entries."""
    if was:
        return Past(original=was.content, is_known=True)
    return Past(original=now if isinstance(edit, FileEdit) else b"{}", is_known=False)


def _link_notes(path: Path, wish: Wish) -> Iterator[str]:
    """Yield a note for each symbolic link on the way to a project file: links may lead out of the project."""
    if not wish.root or not path.is_relative_to(wish.root):
        return
    below = [wish.root / Path(*parts) for parts in _prefixes(path.relative_to(wish.root).parts)]
    for place in below:
        if place.is_symlink():
            yield f"{_display_name(place, wish)} is a symbolic link to {place.resolve()}."


def _prefixes(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[:length] for length in range(1, len(parts) + 1)]


def plan_removal(agent: str, wish: Wish) -> Plan:
    """Return the changes that disconnect an agent: restored files, or files without our entries."""
    _check_paths(replace(wish, program=()))
    kept = kept_for(agent, wish)
    known, notes = _load_originals(kept, wish)
    changes = []
    # Only known paths are touched, whatever the record lists: it is inside the project, which may be a clone.
    for edit in [*places_for(agent, wish), *_exclude_file(agent, wish, ())]:
        name = _display_name(edit.path, wish)
        _, before, _ = current = _read(edit.path)
        was = known.get(name)
        if before is None or (was is None and NAME.encode() not in before):
            continue
        if was and digest(before) == was.written:
            after = was.content
        else:
            past = _history_of(edit, was, before)
            after = edit.stripped(before, past.original, is_known=past.is_known)
            if isinstance(edit, (JsonEdit, TomlEdit)):
                found = edit.says_of_others(before, past, was_written=False)
                notes += [f"{name} has {what} that setup did not write, which is left unchanged." for what, _ in found]
            if isinstance(edit, FileEdit) and not was and edit.is_private and before == edit.content:
                after = None  # the record is lost, but only setup writes this file
        if was and after == before and isinstance(edit, FileEdit):
            notes.append(f"{name} was edited and is kept. Remove it yourself if you do not need it.")
        if after != before:
            notes += [note for note in _link_notes(edit.path, wish) if note not in notes]
            if after is None:
                says = "it did not exist before setup"
            else:
                says = "restore the original" if was and after == was.content else WITHOUT
            folders = _created_folders(was, wish) if after is None else ()
            changes.append(_change(edit, current, name, after, says, folders))
    return Plan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals={},
        kept=kept,
    )


def refuse_to_leave(plan: Plan, wish: Wish) -> None:
    """Reject an unconfirmed plan that changes files outside the project: a clone may contain symbolic links."""
    if outside := [change.name for change in plan.changes if wish.root and not is_inside(change.path, wish.root)]:
        raise UsageError(
            f"{outside[0]} is behind a symbolic link out of the project. Check it, then run this without --yes."
        )


def carry_out(plan: Plan) -> None:
    """Apply a plan. Raise RalphError if a file was changed since the plan was made.

    The originals are saved before the first change and, when uninstalling, deleted after the last one.
    """
    if plan.originals:
        plan.kept.write(plan.originals)
    for change in plan.changes:
        if change.after is not None:
            if not _write(change, change.after):
                raise RalphError(f"{change.name} was changed in the meantime. Check it, and run this again.")
        else:
            if _read(change.path)[1:] != (change.before, change.seen):
                raise RalphError(f"{change.name} was changed in the meantime. Check it, and run this again.")
            change.path.unlink()
            sync_folder(change.path.parent)
            _remove_folders(change)
    if not plan.originals:
        plan.kept.write({})


def _change(
    edit: Edit,
    current: tuple[Path, bytes | None, Size | None],
    name: str,
    after: bytes | None,
    says: str,
    folders: tuple[Path, ...],
) -> Change:
    path, before, seen = current
    is_prose = isinstance(edit, FileEdit) and edit.is_prose
    return Change(
        path=path, name=name, before=before, after=after, seen=seen, says=says, folders=folders, is_prose=is_prose
    )


def _write(change: Change, content: bytes) -> bool:
    """Write a file. Return False if it was changed since the plan was made.

    A file with several hard links is written in place, so that all of them see the new content.
    """
    import time

    try:
        has_hard_links = change.path.stat().st_nlink > 1
    except OSError:
        has_hard_links = False
    if not has_hard_links:
        return replace_seen(change.path, content, change.seen, changed_ns=time.time_ns())
    if _read(change.path)[1:] != (change.before, change.seen):
        return False
    with change.path.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return True


def _remove_folders(change: Change) -> None:
    for folder in change.folders:
        if not is_inside(change.path, folder):
            return
        try:
            folder.rmdir()
        except OSError:  # not empty
            return


def kept_for(agent: str, wish: Wish) -> Kept:
    """Return the store of an agent's original files."""
    if wish.root:
        if not is_inside(wish.root / FOLDER, wish.root):
            raise UsageError(f"{FOLDER} in {wish.root} is behind a symbolic link out of the project. Remove the link.")
        return Kept(wish.root / FOLDER, agent)
    state = wish.environment.get("XDG_STATE_HOME") or wish.home / ".local" / "state"
    return Kept(Path(state) / "ralph" / "setup", agent)


def _display_name(path: Path, wish: Wish) -> str:
    return str(path.relative_to(wish.root)) if wish.root and path.is_relative_to(wish.root) else str(path)


def _read(path: Path) -> tuple[Path, bytes | None, Size | None]:
    """Return the resolved path of a file, its content, and its size and modification time."""
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"Cannot read {path}: its symbolic links form a loop. Nothing was changed.") from error
    found = settings_in(path)
    return (resolved, *found) if found else (resolved, None, None)


def _missing_folders(path: Path, wish: Wish) -> tuple[str, ...]:
    return tuple(_display_name(folder, wish) for folder in path.parents if not folder.exists())


def _created_folders(was: Original | None, wish: Wish) -> tuple[Path, ...]:
    return tuple((wish.root or wish.home) / folder for folder in was.folders) if was else ()


# --- git: files with paths of this machine must not be committed -------------------


def _plan_exclude(agent: str, wish: Wish, edits: list[Edit]) -> tuple[list[LinesEdit], list[str]]:
    """Return the edit of git's exclude file for files with local paths, and notes on those already tracked."""
    from ralph.core.git import ask_git

    if wish.root is None or ask_git(wish.root, "rev-parse", "--is-inside-work-tree") is None:
        return [], []
    private = [edit.path for edit in edits if edit.is_private and edit.is_wanted]
    names = [_display_name(path, wish) for path in private]
    tracked = (ask_git(wish.root, "ls-files", "-z", "--", *names) or "").split("\0") if names else []
    notes = [
        f"{name} is tracked by git and now contains a path of this machine. Do not commit it, or use --user."
        for name in names
        if name in tracked
    ]
    inside = _path_in_repository(wish.root)
    lines = tuple(_pattern(f"/{inside}{name}") for name in names if name not in tracked)
    return _exclude_file(agent, wish, lines), notes


def _path_in_repository(root: Path) -> str:
    """Return the path of a project in its repository with a trailing slash, or an empty string at the top level."""
    from ralph.core.git import ask_git

    # The decoded output of git may be wrong for names that are not UTF-8, so only its depth is used.
    depth = (ask_git(root, "rev-parse", "--show-prefix") or "").count("/")
    return "".join(f"{part}/" for part in root.resolve().parts[-depth:]) if depth else ""


def _pattern(path: str) -> str:
    """Return a gitignore pattern that matches only this path, which starts with a slash."""
    return re.sub(r"([\\*?\[])", r"\\\1", path).replace("\n", "?").replace("\r", "?")


def _exclude_file(agent: str, wish: Wish, lines: tuple[str, ...]) -> list[LinesEdit]:
    from ralph.core.git import ask_git

    answer = ask_git(wish.root, "rev-parse", "--git-path", "info/exclude") if wish.root else None
    if not answer or not wish.root or "\ufffd" in answer:  # the path is not valid UTF-8
        return []
    inside = _path_in_repository(wish.root)
    about = "these name programs of this machine"
    names = [_display_name(edit.path, wish) for edit in places_for(agent, wish) if edit.is_private]
    return [
        LinesEdit(
            path=wish.root / answer.removesuffix("\n"),
            heading=f"# ralph setup {agent} in {_pattern(f'/{inside}')}: {about}",
            lines=lines,
            old_heading=f"# ralph setup {agent}: {about}",
            old_lines=tuple(f"/{inside}{name}" for name in names),
            says="exclude files with paths of this machine from git",
        )
    ]
