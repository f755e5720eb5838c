"""Editing text in the user's editor."""

from __future__ import annotations

import os
import sys

from ralph.core.errors import RalphError, UsageError


def is_interactive() -> bool:
    """Return whether a person at a terminal can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def edit_text(text: str) -> str:
    """Open a text in the user's editor and return the edited text."""
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise UsageError(f"Cannot start the editor {editor!r}: {error}. Set EDITOR to another one.") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.md"
        path.write_text(text + "\n", encoding="utf-8")
        try:
            process = subprocess.run([*command, str(path)], check=False)
        except OSError as error:
            raise RalphError(
                f"Cannot start the editor {editor!r}: {error.strerror}. Set EDITOR to another one. Nothing was changed."
            ) from error
        if process.returncode:
            raise RalphError(f"The editor {editor!r} exited with status {process.returncode}. Nothing was changed.")
        return path.read_bytes().decode("utf-8", "replace").strip()
