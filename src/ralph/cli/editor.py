"""Let a person change a text in their editor."""

from __future__ import annotations

import os
import sys

from ralph.errors import RalphError, UsageError


def is_attended() -> bool:
    """Say whether there is a person at a terminal, to ask or to hand a text to."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def edited(text: str) -> str:
    """Give the text as it is after a person has had it in their editor."""
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(editor)
    except ValueError as error:
        raise UsageError(f"The editor {editor!r} cannot be started: {error}.") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.md"
        path.write_text(text + "\n", encoding="utf-8")
        try:
            ended = subprocess.run([*words, str(path)], check=False)
        except OSError as error:
            raise RalphError(
                f"The editor {editor!r} cannot be started: {error.strerror}. Name one in EDITOR; nothing was changed."
            ) from error
        if ended.returncode:
            raise RalphError(f"The editor {editor!r} ended with {ended.returncode}; nothing was changed.")
        return path.read_bytes().decode("utf-8", "replace").strip()
