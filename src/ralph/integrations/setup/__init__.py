"""Connecting agents to the memory, and disconnecting them.

`plan_setup` and `plan_removal` compute the changes, which can be shown first; `apply_plan` makes them. Edits by a person
are never lost: only our own entries change, files are replaced atomically, and their original content is kept.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ralph.core.errors import RalphError, UsageError
from ralph.core.files import is_inside, replace_if_unchanged, sync_folder
from ralph.core.records import record, replace
from ralph.integrations.setup.agents import SetupOptions, all_file_edits, file_edits, ralph_command
from ralph.integrations.setup.backups import OriginalFile, OriginalFiles, content_digest
from ralph.integrations.setup.edits import SERVER_NAME, FileEdit, FileHistory, JsonEdit, LinesEdit, TomlEdit
from ralph.integrations.setup.jsontext import is_encodable
from ralph.integrations.setup.reading import read_settings_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ralph.core.files import FileStamp
    from ralph.integrations.setup.edits import Edit

ORIGINALS_DIRECTORY = ".ralph/setup"
"""Directory of the original files, relative to the project."""
REMOVE_ENTRIES = "remove what setup added"
"""Description of a change that removes our entries."""


@record
class FileChange:
    """A planned change of one file."""

    path: Path
    """Location of the file, with symbolic links resolved."""
    display_path: str
    """Path as shown to the user."""
    before: bytes | None
    """Current content, or None if there is no file."""
    after: bytes | None
    """New content, or None to delete the file."""
    seen_size: FileStamp | None
    description: str
    created_directories: tuple[Path, ...] = ()
    """Directories to remove if they become empty."""
    is_prose: bool = False
    """Whether the file is prose for agents, of which only the length is shown."""


@record
class SetupPlan:
    """The changes that connect or disconnect an agent, in order."""

    agent: str
    changes: tuple[FileChange, ...]
    notes: tuple[str, ...]
    """Notes for the user."""
    originals: Mapping[str, OriginalFile]
    """Original files to keep for uninstalling."""
    originals_store: OriginalFiles


def plugin_directory() -> Path:
    """Return the directory of the bundled Claude Code plugin."""
    return Path(__file__).parent.parent.parent / "plugin"


def setup_options(
    root: Path | None,
    *,
    with_hooks: bool = True,
    with_server: bool = True,
    environment: Mapping[str, str] = os.environ,
    words: tuple[str, ...] = (),
) -> SetupOptions:
    """Return the setup options. `root` is the project, or None for all projects; `words` is the command for ralph."""
    return SetupOptions(
        root=root.absolute() if root else None,
        home=Path(environment.get("HOME") or _account_home()),
        environment=environment,
        program=words or ralph_command(),
        with_hooks=with_hooks,
        with_server=with_server,
    )


def _account_home() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _check_paths(wish: SetupOptions) -> None:
    if wish.root is None and not os.path.isabs(wish.environment.get("HOME", "")):  # noqa: PTH117
        raise UsageError("HOME is not an absolute path. Set it, or omit --user.")
    if not all(map(is_encodable, wish.program)):
        raise UsageError(
            "Ralph is installed in a directory whose name is not valid UTF-8. Install it in another directory."
        )


def plan_setup(agent: str, wish: SetupOptions, *, force: bool = False) -> SetupPlan:
    """Return the changes that connect an agent; none if it is already connected."""
    _check_paths(wish)
    kept = originals_for(agent, wish)
    known, doubt_notes = _load_originals(kept, wish)
    edits = file_edits(agent, wish)
    others = [] if force else [edit for edit in edits if _is_written_by_person(edit, known, wish)]
    if others:
        edits = [_without_permissions(edit) for edit in edits]
    excluded, notes = _plan_exclude(agent, wish, [edit for edit in edits if edit not in others])
    notes += doubt_notes
    if wish.root and originals_for(agent, replace(wish, root=None)).read():
        notes.append(f"{agent} is also connected for all your projects, so hooks run twice. Uninstall one of the two.")
    originals, changes = dict(known), []
    for edit in [*edits, *excluded]:
        name = _display_name(edit.path, wish)
        path, before, _ = current = _read(edit.path)
        was = known.get(name)
        was_written = was is not None and content_digest(before) == was.written_digest
        past = _history_of(edit, was, before)
        if edit.is_wanted:
            after: bytes | None = edit.with_entries(before, force=force, was_written=was_written, past=past)
        else:
            after = before if before is None else edit.without_entries(before, past.original, is_known=past.is_known)
        if isinstance(edit, (JsonEdit, TomlEdit)) and before is not None and not force:
            found = edit.foreign_entries(before, past, was_written=was_written)
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
            folders = was.created_directories if was else _missing_folders(path, wish) if before is None else ()
            originals[name] = OriginalFile(
                content=original, written_digest=content_digest(after), created_directories=folders
            )
        if after != before:
            created = _created_folders(was, wish) if after is None else ()
            says = edit.description if edit.is_wanted else REMOVE_ENTRIES
            changes.append(_change(edit, current, name, after, says, created))
    return SetupPlan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals=originals,
        originals_store=kept,
    )


def _load_originals(kept: OriginalFiles, wish: SetupOptions) -> tuple[dict[str, OriginalFile], list[str]]:
    """Return the kept originals, and notes on why they cannot be used."""
    from ralph.core.git import query_git

    if wish.root and query_git(wish.root, "ls-files", "--", ORIGINALS_DIRECTORY):
        return {}, [f"{ORIGINALS_DIRECTORY} is tracked by git and therefore not trusted. Remove it from git."]
    damage = kept.damage_message
    return ({}, [damage]) if damage else (kept.read(), [])


def _is_written_by_person(edit: Edit, known: Mapping[str, OriginalFile], wish: SetupOptions) -> bool:
    """Return whether a person wrote all the entries of a file that setup would write."""
    if not isinstance(edit, TomlEdit) and not (isinstance(edit, JsonEdit) and edit.servers_key and not edit.hooks):
        return False
    before, was = _read(edit.path)[1], known.get(_display_name(edit.path, wish))
    if before is None:
        return False
    was_written = was is not None and content_digest(before) == was.written_digest
    return any(edit.foreign_entries(before, _history_of(edit, was, before), was_written=was_written))


def _without_permissions(edit: Edit) -> Edit:
    """Return the edit without tool permissions: the entry of a person may start another program."""
    if isinstance(edit, JsonEdit) and edit.list_items:
        return replace(edit, with_list_items=False, description=edit.description_without_items)
    return edit


def _content_without_us(
    edit: Edit, was: OriginalFile | None, before: bytes | None, *, was_written: bool
) -> bytes | None:
    """Return the content of a file without our entries: the original, or the file as people have edited it since."""
    if before is None:
        return None
    if was and was_written:
        return was.content
    past = _history_of(edit, was, before)
    return edit.without_entries(before, past.original, is_known=past.is_known)


def _history_of(edit: Edit, was: OriginalFile | None, now: bytes | None) -> FileHistory:
    """Return what is known about a file before setup. If nothing is, assume it existed without our entries."""
    if was:
        return FileHistory(original=was.content, is_known=True)
    return FileHistory(original=now if isinstance(edit, FileEdit) else b"{}", is_known=False)


def _link_notes(path: Path, wish: SetupOptions) -> Iterator[str]:
    """Yield a note for each symbolic link on the way to a project file: links may lead out of the project."""
    if not wish.root or not path.is_relative_to(wish.root):
        return
    below = [wish.root / Path(*parts) for parts in _prefixes(path.relative_to(wish.root).parts)]
    for place in below:
        if place.is_symlink():
            yield f"{_display_name(place, wish)} is a symbolic link to {place.resolve()}."


def _prefixes(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[:length] for length in range(1, len(parts) + 1)]


def plan_removal(agent: str, wish: SetupOptions) -> SetupPlan:
    """Return the changes that disconnect an agent: restored files, or files without our entries."""
    _check_paths(replace(wish, program=()))
    kept = originals_for(agent, wish)
    known, notes = _load_originals(kept, wish)
    changes = []
    # Only known paths are touched, whatever the record lists: it is inside the project, which may be a clone.
    for edit in [*all_file_edits(agent, wish), *_exclude_file(agent, wish, ())]:
        name = _display_name(edit.path, wish)
        _, before, _ = current = _read(edit.path)
        was = known.get(name)
        if before is None or (was is None and SERVER_NAME.encode() not in before):
            continue
        if was and content_digest(before) == was.written_digest:
            after = was.content
        else:
            past = _history_of(edit, was, before)
            after = edit.without_entries(before, past.original, is_known=past.is_known)
            if isinstance(edit, (JsonEdit, TomlEdit)):
                found = edit.foreign_entries(before, past, was_written=False)
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
                says = "restore the original" if was and after == was.content else REMOVE_ENTRIES
            folders = _created_folders(was, wish) if after is None else ()
            changes.append(_change(edit, current, name, after, says, folders))
    return SetupPlan(
        agent=agent,
        changes=tuple(changes),
        notes=tuple(notes),
        originals={},
        originals_store=kept,
    )


def check_inside_project(plan: SetupPlan, wish: SetupOptions) -> None:
    """Reject an unconfirmed plan that changes files outside the project: a clone may contain symbolic links."""
    if outside := [
        change.display_path for change in plan.changes if wish.root and not is_inside(change.path, wish.root)
    ]:
        raise UsageError(
            f"{outside[0]} is behind a symbolic link out of the project. Check it, then run this without --yes."
        )


def apply_plan(plan: SetupPlan) -> None:
    """Apply a plan. Raise RalphError if a file was changed since the plan was made.

    The originals are saved before the first change and, when uninstalling, deleted after the last one.
    """
    if plan.originals:
        plan.originals_store.write(plan.originals)
    for change in plan.changes:
        if change.after is not None:
            if not _write(change, change.after):
                raise RalphError(f"{change.display_path} was changed in the meantime. Check it, and run this again.")
        else:
            if _read(change.path)[1:] != (change.before, change.seen_size):
                raise RalphError(f"{change.display_path} was changed in the meantime. Check it, and run this again.")
            change.path.unlink()
            sync_folder(change.path.parent)
            _remove_folders(change)
    if not plan.originals:
        plan.originals_store.write({})


def _change(
    edit: Edit,
    current: tuple[Path, bytes | None, FileStamp | None],
    name: str,
    after: bytes | None,
    says: str,
    folders: tuple[Path, ...],
) -> FileChange:
    path, before, seen = current
    is_prose = isinstance(edit, FileEdit) and edit.is_prose
    return FileChange(
        path=path,
        display_path=name,
        before=before,
        after=after,
        seen_size=seen,
        description=says,
        created_directories=folders,
        is_prose=is_prose,
    )


def _write(change: FileChange, content: bytes) -> bool:
    """Write a file. Return False if it was changed since the plan was made.

    A file with several hard links is written in place, so that all of them see the new content.
    """
    import time

    try:
        has_hard_links = change.path.stat().st_nlink > 1
    except OSError:
        has_hard_links = False
    if not has_hard_links:
        return replace_if_unchanged(change.path, content, change.seen_size, modified_ns=time.time_ns())
    if _read(change.path)[1:] != (change.before, change.seen_size):
        return False
    with change.path.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return True


def _remove_folders(change: FileChange) -> None:
    for folder in change.created_directories:
        if not is_inside(change.path, folder):
            return
        try:
            folder.rmdir()
        except OSError:  # not empty
            return


def originals_for(agent: str, wish: SetupOptions) -> OriginalFiles:
    """Return the store of an agent's original files."""
    if wish.root:
        if not is_inside(wish.root / ORIGINALS_DIRECTORY, wish.root):
            raise UsageError(
                f"{ORIGINALS_DIRECTORY} in {wish.root} is behind a symbolic link out of the project. Remove the link."
            )
        return OriginalFiles(wish.root / ORIGINALS_DIRECTORY, agent)
    state = wish.environment.get("XDG_STATE_HOME") or wish.home / ".local" / "state"
    return OriginalFiles(Path(state) / "ralph" / "setup", agent)


def _display_name(path: Path, wish: SetupOptions) -> str:
    return str(path.relative_to(wish.root)) if wish.root and path.is_relative_to(wish.root) else str(path)


def _read(path: Path) -> tuple[Path, bytes | None, FileStamp | None]:
    """Return the resolved path of a file, its content, and its size and modification time."""
    try:
        resolved = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"Cannot read {path}: its symbolic links form a loop. Nothing was changed.") from error
    found = read_settings_file(path)
    return (resolved, *found) if found else (resolved, None, None)


def _missing_folders(path: Path, wish: SetupOptions) -> tuple[str, ...]:
    return tuple(_display_name(folder, wish) for folder in path.parents if not folder.exists())


def _created_folders(was: OriginalFile | None, wish: SetupOptions) -> tuple[Path, ...]:
    return tuple((wish.root or wish.home) / folder for folder in was.created_directories) if was else ()


# --- git: files with paths of this machine must not be committed -------------------


def _plan_exclude(agent: str, wish: SetupOptions, edits: list[Edit]) -> tuple[list[LinesEdit], list[str]]:
    """Return the edit of git's exclude file for files with local paths, and notes on those already tracked."""
    from ralph.core.git import query_git

    if wish.root is None or query_git(wish.root, "rev-parse", "--is-inside-work-tree") is None:
        return [], []
    private = [edit.path for edit in edits if edit.is_private and edit.is_wanted]
    names = [_display_name(path, wish) for path in private]
    tracked = (query_git(wish.root, "ls-files", "-z", "--", *names) or "").split("\0") if names else []
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
    from ralph.core.git import query_git

    # The decoded output of git may be wrong for names that are not UTF-8, so only its depth is used.
    depth = (query_git(root, "rev-parse", "--show-prefix") or "").count("/")
    return "".join(f"{part}/" for part in root.resolve().parts[-depth:]) if depth else ""


def _pattern(path: str) -> str:
    """Return a gitignore pattern that matches only this path, which starts with a slash."""
    return re.sub(r"([\\*?\[])", r"\\\1", path).replace("\n", "?").replace("\r", "?")


def _exclude_file(agent: str, wish: SetupOptions, lines: tuple[str, ...]) -> list[LinesEdit]:
    from ralph.core.git import query_git

    answer = query_git(wish.root, "rev-parse", "--git-path", "info/exclude") if wish.root else None
    if not answer or not wish.root or "\ufffd" in answer:  # the path is not valid UTF-8
        return []
    inside = _path_in_repository(wish.root)
    about = "these name programs of this machine"
    names = [_display_name(edit.path, wish) for edit in all_file_edits(agent, wish) if edit.is_private]
    return [
        LinesEdit(
            path=wish.root / answer.removesuffix("\n"),
            heading=f"# ralph setup {agent} in {_pattern(f'/{inside}')}: {about}",
            lines=lines,
            old_heading=f"# ralph setup {agent}: {about}",
            old_lines=tuple(f"/{inside}{name}" for name in names),
            description="exclude files with paths of this machine from git",
        )
    ]
