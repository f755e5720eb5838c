"""Git's exclude file: files with paths of this machine must not be committed."""

from __future__ import annotations

import re

from ralph.core.git import query_git
from ralph.core.text import clean, one_line
from ralph.integrations.setup.agents import display_name
from ralph.integrations.setup.text_edits import LinesEdit
from ralph.workspace import main_worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.integrations.setup.agents import SetupOptions
    from ralph.integrations.setup.text_edits import Edit


def plan_exclude(agent: str, options: SetupOptions, edits: list[Edit]) -> tuple[list[LinesEdit], list[str]]:
    """Return the edit of git's exclude file for files with local paths, and notes on those already tracked."""
    if options.root is None or query_git(options.root, "rev-parse", "--is-inside-work-tree") is None:
        return [], []
    names = [display_name(edit.path, options) for edit in edits if edit.is_private and edit.is_wanted]
    tracked = (query_git(options.root, "ls-files", "-z", "--", *names) or "").split("\0") if names else []
    notes = [
        f"{name} is tracked by git and now contains a path of this machine. Do not commit it, or use --user."
        for name in names
        if name in tracked
    ]
    inside = _path_in_repository(options.root)
    lines = tuple(_pattern(f"/{inside}{name}") for name in names if name not in tracked)
    return exclude_edit(agent, options, lines), notes


def exclude_edit(agent: str, options: SetupOptions, lines: tuple[str, ...]) -> list[LinesEdit]:
    """Return the edit that puts these lines into git's exclude file; none outside a repository."""
    answer = query_git(options.root, "rev-parse", "--git-path", "info/exclude") if options.root else None
    if not answer or not options.root:
        return []
    project = _pattern(f"/{_path_in_repository(options.root)}")
    if main_worktree(options.root) is not None:  # all worktrees share the file
        project += f" of {one_line(clean(str(options.root)))}"
    return [
        LinesEdit(
            path=options.root / answer.removesuffix("\n"),
            heading=f"# ralph setup {agent} in {project}: these name programs of this machine",
            lines=lines,
            description="exclude files with paths of this machine from git",
        )
    ]


def _path_in_repository(root: Path) -> str:
    """Return the path of a project in its repository with a trailing slash, or an empty string at the top level."""
    return (query_git(root, "rev-parse", "--show-prefix") or "").removesuffix("\n")


def _pattern(path: str) -> str:
    """Return a gitignore pattern that matches only this path, which starts with a slash."""
    return re.sub(r"([\\*?\[])", r"\\\1", path).replace("\n", "?")
