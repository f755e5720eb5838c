"""Questions to a person at a terminal, and editing text in their editor."""

from __future__ import annotations

import os
import sys

from ralph.core.errors import RalphError, UsageError


def is_interactive() -> bool:
    """Return whether a person at a terminal can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, alternative: str) -> bool:
    """Ask whether to proceed; anything but yes is a no. `alternative` says what to do without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"Confirmation needs a terminal. {alternative}", code="no-terminal")
    if ask(f"{question} [y/N] ").lower() in ("y", "yes"):
        return True
    print("Nothing was changed.")
    return False


def ask(question: str, at_end: str = "") -> str:
    """Return the answer to a question, or `at_end` at the end of the input."""
    try:
        return input(question).strip()
    except EOFError:
        print()
        return at_end


def edit_text(text: str) -> str:
    """Open a text in the user's editor and return the edited text."""
    import shlex
    import subprocess  # takes milliseconds to load, which most commands that can ask a question do not need
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
