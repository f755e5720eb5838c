"""What the files held before setup, kept so that they can be put back byte for byte.

It is private: settings of agents may hold keys. With each original goes the digest of what setup wrote, which tells
whether somebody has changed the file since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os

from ralph.errors import UsageError
from ralph.files import sync_folder
from ralph.records import record
from ralph.setup.reading import settings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

IGNORE = ".gitignore"


@record
class Original:
    """What a file held before setup, and what tells whether it is still as setup left it."""

    content: bytes | None
    """None: there was no file."""
    written: str
    """The digest of what setup wrote."""
    folders: tuple[str, ...] = ()
    """Folders that were made for it, the innermost first."""


class Kept:
    """The originals of one agent's files, in a folder of their own."""

    def __init__(self, folder: Path, agent: str) -> None:
        self._folder = folder
        self._file = folder / f"{agent}.json"

    def read(self) -> dict[str, Original]:
        """Give the originals by path; none when there are none, or none that can be understood."""
        return self._read() or {}

    @property
    def damage(self) -> str:
        """Say what is wrong with what was kept; nothing when it is whole or there is none."""
        if self._read() is not None:
            return ""
        return f"{self._file} is damaged and not used: our entries can be taken out, but files not put back."

    def _read(self) -> dict[str, Original] | None:
        """Give what is kept; None when it is damaged."""
        try:
            found = settings_in(self._file)
            if found is None:
                return {}
            return {
                path: Original(
                    content=None if one["original"] is None else base64.b64decode(one["original"], validate=True),
                    written=str(one["written"]),
                    folders=tuple(map(str, one["folders"])),
                )
                for path, one in json.loads(found[0]).items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UsageError):
            return None

    def write(self, originals: Mapping[str, Original]) -> None:
        """Keep these originals, or nothing more when there are none."""
        if not originals:
            self._remove()
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        ignore = self._folder / IGNORE
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        text = {
            path: {
                "original": None if one.content is None else base64.b64encode(one.content).decode(),
                "written": one.written,
                "folders": list(one.folders),
            }
            for path, one in originals.items()
        }
        self._write_whole(json.dumps(text, indent=1).encode())

    def _write_whole(self, content: bytes) -> None:
        """Put a private file in place of the one that is there: whoever looks sees all of one or all of the other."""
        new = self._file.with_name(f".{self._file.name}.{os.getpid()}.{os.urandom(3).hex()}.new")
        try:
            with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:  # noqa: PTH123
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        sync_folder(self._folder)

    def _remove(self) -> None:
        self._file.unlink(missing_ok=True)
        if self._folder.is_dir():
            for left in self._folder.glob(f".{self._file.name}.*.new"):  # by one that was killed
                left.unlink(missing_ok=True)
        if self._folder.is_dir() and [one.name for one in self._folder.iterdir()] in ([], [IGNORE]):
            (self._folder / IGNORE).unlink(missing_ok=True)
            self._folder.rmdir()


def digest(content: bytes | None) -> str:
    """Give what tells one content from another."""
    return hashlib.sha256(content).hexdigest() if content is not None else ""
