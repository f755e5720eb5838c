"""Original contents of the files changed by setup, kept to restore them byte for byte.

They are private, because settings of agents may contain keys. Each is stored with the digest of what setup wrote, to
detect later edits.
"""

from __future__ import annotations

import base64
import hashlib
import json

from ralph.core.errors import UsageError
from ralph.core.files import write_atomically
from ralph.core.records import record
from ralph.integrations.setup.reading import read_settings_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GITIGNORE_NAME = ".gitignore"


@record
class OriginalFile:
    """The content of a file before setup, and the digest of what setup wrote."""

    content: bytes | None
    """Content, or None if there was no file."""
    written_digest: str
    """Digest of what setup wrote."""
    created_directories: tuple[str, ...] = ()
    """Directories created for the file, innermost first."""


class OriginalFiles:
    """Store of the original files of one agent."""

    def __init__(self, folder: Path, agent: str) -> None:
        self._folder = folder
        self._file = folder / f"{agent}.json"

    def read(self) -> dict[str, OriginalFile]:
        """Return the originals by path; empty if there are none or the record is damaged."""
        return self._read() or {}

    @property
    def damage_message(self) -> str:
        """Describe the damage of the record; empty if it is valid or does not exist."""
        if self._read() is not None:
            return ""
        return f"{self._file} is damaged: setup can remove its entries, but cannot restore the original files."

    def _read(self) -> dict[str, OriginalFile] | None:
        """Return the originals, or None if the record is damaged."""
        try:
            found = read_settings_file(self._file)
            if found is None:
                return {}
            return {
                path: OriginalFile(
                    content=None if entry["original"] is None else base64.b64decode(entry["original"], validate=True),
                    written_digest=str(entry["written"]),
                    created_directories=tuple(map(str, entry["folders"])),
                )
                for path, entry in json.loads(found[0]).items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UsageError):
            return None

    def write(self, originals: Mapping[str, OriginalFile]) -> None:
        """Store these originals, or delete the record if there are none."""
        if not originals:
            self._remove()
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        ignore = self._folder / GITIGNORE_NAME
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        text = {
            path: {
                "original": None if original.content is None else base64.b64encode(original.content).decode(),
                "written": original.written_digest,
                "folders": list(original.created_directories),
            }
            for path, original in originals.items()
        }
        write_atomically(self._file, json.dumps(text, indent=1).encode())
        self._file.chmod(0o600)

    def _remove(self) -> None:
        self._file.unlink(missing_ok=True)
        if self._folder.is_dir() and [entry.name for entry in self._folder.iterdir()] in ([], [GITIGNORE_NAME]):
            (self._folder / GITIGNORE_NAME).unlink(missing_ok=True)
            self._folder.rmdir()


def content_digest(content: bytes | None) -> str:
    """Return the SHA-256 digest of a content, or an empty string for None."""
    return hashlib.sha256(content).hexdigest() if content is not None else ""
