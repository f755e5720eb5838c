"""Connecting agents to the memory, and disconnecting them.

`plan_setup` and `plan_removal` compute the changes, which can be shown first; `apply_plan` makes them. Edits by a
person are never lost: only our own entries change, files are replaced atomically, and their original content is kept.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ralph.core.errors import ConflictError, UsageError
from ralph.core.files import is_inside, remove_if_unchanged, replace_if_unchanged
from ralph.core.git import query_git
from ralph.core.records import record, replace
from ralph.integrations.setup.agents import (
    RECIPES,
    SetupOptions,
    all_file_edits,
    display_name,
    file_edits,
    ralph_command,
)
from ralph.integrations.setup.backups import OriginalFile, OriginalFiles, content_digest
from ralph.integrations.setup.edits import JsonEdit
from ralph.integrations.setup.entries import SERVER_NAME, UNKNOWN_HISTORY, FileHistory
from ralph.integrations.setup.exclude import exclude_edit, plan_exclude
from ralph.integrations.setup.reading import read_settings_file
from ralph.integrations.setup.text_edits import FileEdit
from ralph.workspace import actor_for_file, main_worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.core.files import FileStamp
    from ralph.integrations.setup.text_edits import Edit

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
    stamp: FileStamp | None
    """Size and modification time of the current file."""
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


@record
class _SettingsFile:
    """A settings file as it is now, and what is known about it before setup."""

    edit: Edit
    name: str
    path: Path
    content: bytes | None
    stamp: FileStamp | None
    record: OriginalFile | None

    @property
    def history(self) -> FileHistory:
        if self.record is None:
            return UNKNOWN_HISTORY
        is_unchanged = content_digest(self.content) == self.record.written_digest
        return FileHistory(original=self.record.content, is_known=True, is_unchanged=is_unchanged)

    def has_foreign_server(self) -> bool:
        return self.content is not None and self.edit.has_foreign_server(self.content, self.history)

    def with_entries(self, *, force: bool) -> bytes | None:
        if self.edit.is_wanted:
            return self.edit.with_entries(self.content, self.history, force=force)
        return None if self.content is None else self.edit.without_entries(self.content, self.history)

    def without_entries(self) -> bytes | None:
        """Return the original content, or what people have made of it since, without our entries."""
        if self.content is None:
            return None
        if self.record and self.history.is_unchanged:
            return self.record.content
        return self.edit.without_entries(self.content, self.history)

    def notes(self, options: SetupOptions, *, with_advice: bool) -> list[str]:
        found = [] if self.content is None else self.edit.foreign_entries(self.content, self.history)
        notes = [f"{self.name} {what}. {advice if with_advice else ''}".rstrip() for what, advice in found]
        if options.root and self.edit.path.is_relative_to(options.root) and not is_inside(self.path, options.root):
            notes.append(f"{self.name} is behind a symbolic link out of the project: {self.path}.")
        return notes

    def change(self, after: bytes | None, description: str, options: SetupOptions) -> FileChange:
        folders = self.record.created_directories if self.record and after is None else ()
        return FileChange(
            path=self.path,
            display_path=self.name,
            before=self.content,
            after=after,
            stamp=self.stamp,
            description=description,
            created_directories=tuple((options.root or options.home) / folder for folder in folders),
            is_prose=isinstance(self.edit, FileEdit) and self.edit.is_prose,
        )


def _inspect(edit: Edit, originals: Mapping[str, OriginalFile], options: SetupOptions) -> _SettingsFile:
    name, found = display_name(edit.path, options), read_settings_file(edit.path)
    content, stamp = found or (None, None)
    path = Path(os.path.realpath(edit.path))
    return _SettingsFile(edit=edit, name=name, path=path, content=content, stamp=stamp, record=originals.get(name))


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
        home=Path(environment.get("HOME") or Path.home()),
        environment=environment,
        program=words or ralph_command(),
        with_hooks=with_hooks,
        with_server=with_server,
    )


def plan_setup(agent: str, options: SetupOptions, *, force: bool = False) -> SetupPlan:
    """Return the changes that connect an agent; none if it is already connected."""
    store = originals_for(agent, options)
    known, notes = _load_originals(store, options)
    files = [_inspect(edit, known, options) for edit in file_edits(agent, options)]
    foreign = [] if force else [file.edit for file in files if file.has_foreign_server()]
    if foreign:
        files = [replace(file, edit=_without_permissions(file.edit)) for file in files]
    exclude, tracked_notes = plan_exclude(agent, options, [file.edit for file in files if file.edit not in foreign])
    files += [_inspect(edit, known, options) for edit in exclude]
    notes += tracked_notes
    if options.root and originals_for(agent, replace(options, root=None)).read():
        notes.append(f"{agent} is also connected for all your projects, so hooks run twice. Uninstall one of the two.")
    originals, changes = dict(known), []
    by_others = _directories_of_others(agent, options)
    for file in files:
        after = file.with_entries(force=force)
        notes += [] if force else file.notes(options, with_advice=True)
        original = file.without_entries()
        if after is None or after == original:
            originals.pop(file.name, None)
        elif after != file.content or file.record is None or file.history.is_unchanged:
            originals[file.name] = OriginalFile(
                content=original,
                written_digest=content_digest(after),
                created_directories=_created_directories(file, options, by_others),
            )
        if after != file.content:
            description = file.edit.description if file.edit.is_wanted else REMOVE_ENTRIES
            changes.append(file.change(after, description, options))
    return SetupPlan(
        agent=agent, changes=tuple(changes), notes=tuple(notes), originals=originals, originals_store=store
    )


def _load_originals(store: OriginalFiles, options: SetupOptions) -> tuple[dict[str, OriginalFile], list[str]]:
    """Return the kept originals, and notes on why they cannot be used."""
    if options.root and query_git(options.root, "ls-files", "--", ORIGINALS_DIRECTORY):
        return {}, [f"{ORIGINALS_DIRECTORY} is tracked by git and therefore not trusted. Remove it from git."]
    return ({}, [store.damage_message]) if store.damage_message else (store.read(), [])


def _without_permissions(edit: Edit) -> Edit:
    """Return the edit without tool permissions: a server that setup did not write may start another program."""
    if isinstance(edit, JsonEdit) and edit.list_items:
        return replace(edit, with_list_items=False, description=edit.description_without_items)
    return edit


def _created_directories(file: _SettingsFile, options: SetupOptions, by_others: set[str]) -> tuple[str, ...]:
    if file.record:
        return file.record.created_directories
    parents = [(folder, display_name(folder, options)) for folder in file.path.parents] if file.content is None else []
    return tuple(name for folder, name in parents if name in by_others or not folder.exists())


def _directories_of_others(agent: str, options: SetupOptions) -> set[str]:
    """Return the directories that setup created for other agents: whoever is disconnected last removes them."""
    others = [originals_for(other, options).read() for other in RECIPES if other != agent]
    return {name for files in others for one in files.values() for name in one.created_directories}


def plan_removal(agent: str, options: SetupOptions) -> SetupPlan:
    """Return the changes that disconnect an agent: restored files, or files without our entries."""
    store = originals_for(agent, options)
    known, notes = _load_originals(store, options)
    changes = []
    # Only known paths are touched, whatever the record lists: it is inside the project, which may be a clone.
    for edit in [*all_file_edits(agent, options), *exclude_edit(agent, options, ())]:
        file = _inspect(edit, known, options)
        if file.content is None or (file.record is None and SERVER_NAME.encode() not in file.content):
            continue
        after = file.without_entries()
        notes += file.notes(options, with_advice=False)
        if after is None:
            changes.append(file.change(None, "it did not exist before setup", options))
        elif after != file.content:
            is_original = file.record is not None and after == file.record.content
            changes.append(file.change(after, "restore the original" if is_original else REMOVE_ENTRIES, options))
    notes += _shared_files(agent, [change.path for change in changes], options)
    return SetupPlan(agent=agent, changes=tuple(changes), notes=tuple(notes), originals={}, originals_store=store)


def _shared_files(agent: str, paths: list[Path], options: SetupOptions) -> list[str]:
    """Return notes about files that another connected agent uses too: some have the same folder of skills."""
    notes = []
    for other, recipe in RECIPES.items():
        if other == agent or not (options.root or recipe.has_user_settings) or not originals_for(other, options).read():
            continue
        shared = [edit.path for edit in file_edits(other, options) if Path(os.path.realpath(edit.path)) in paths]
        notes += [f"{display_name(path, options)} is used by {other} too. Run: ralph setup {other}" for path in shared]
    return notes


def check_inside_project(plan: SetupPlan, options: SetupOptions) -> None:
    """Reject an unconfirmed plan that changes files outside the project: a clone may contain symbolic links."""
    main = main_worktree(options.root) if options.root else ""
    shared = f"{main}/.git/info" if main else options.root or ""  # the exclude file of all worktrees
    for change in plan.changes:
        if options.root and not (is_inside(change.path, options.root) or is_inside(change.path, shared)):
            raise UsageError(
                f"{change.display_path} is behind a symbolic link out of the project. "
                "Check it, then run this without --yes.",
                code="outside-project",
            )


def apply_plan(plan: SetupPlan) -> None:
    """Apply a plan. Raise ConflictError if a file was changed since the plan was made.

    The originals are saved before the first change and, when uninstalling, deleted after the last one.
    """
    for change in plan.changes:
        actor_for_file(change.path).require("setup")
    if plan.originals:
        plan.originals_store.write(plan.originals)
    for change in plan.changes:
        if not _apply(change):
            name = change.display_path
            raise ConflictError(f"{name} was changed meanwhile. Check it, and run this again.", code="file-changed")
    if not plan.originals:
        plan.originals_store.write({})


def _apply(change: FileChange) -> bool:
    """Make one change; return False if the file was changed since the plan was made."""
    if change.after is not None:
        return replace_if_unchanged(change.path, change.after, change.stamp, modified_ns=time.time_ns())
    if change.stamp and not remove_if_unchanged(change.path, change.stamp):
        return False
    for folder in change.created_directories:
        try:
            if is_inside(change.path, folder):
                folder.rmdir()
        except OSError:  # not empty
            break
    return True


def is_connected(agent: str, options: SetupOptions) -> bool:
    """Return whether setup has connected an agent: to a project, or without one for all of them."""
    return bool(originals_for(agent, options).read())


def originals_for(agent: str, options: SetupOptions) -> OriginalFiles:
    """Return the store of an agent's original files."""
    if options.root:
        folder = options.root / ORIGINALS_DIRECTORY
        if not is_inside(folder, options.root):
            problem = f"{folder} is behind a symbolic link out of the project. Remove the link."
            raise UsageError(problem, code="outside-project")
        return OriginalFiles(folder, agent)
    state = options.environment.get("XDG_STATE_HOME") or options.home / ".local" / "state"
    return OriginalFiles(Path(state) / "ralph" / "setup", agent)
