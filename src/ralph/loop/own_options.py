"""Options of the runs started on this machine, in the user's state directory.

A database may come from somebody else or be written by other machines, so it does not say what runs here.
"""

from __future__ import annotations

import os

from ralph.core.files import state_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

MAX_RUNS = 50
"""Number of runs per project whose options are kept."""


def save_own_options(root: Path | str, run_id: str, options: str) -> None:
    """Keep the options of a run, so that it can be resumed without repeating them."""
    from pathlib import Path

    from ralph.core.files import write_atomically

    path = Path(_path(root, run_id))
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, options.encode())
        for old in sorted(folder.iterdir(), key=os.path.getmtime)[:-MAX_RUNS]:
            old.unlink()
    except OSError:
        pass  # whoever resumes the run has to repeat what it runs


def own_options(root: Path | str, run_id: str) -> str | None:
    """Return the options of a run that was started here, or None."""
    try:
        with open(_path(root, run_id), encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except (OSError, ValueError):
        return None


def _path(root: Path | str, run_id: str) -> str:
    # The id is data too: it must not lead to a file elsewhere.
    name = "".join(one if one.isalnum() else "-" for one in run_id)
    return f"{state_path(root, 'runs')}/{name}"
