"""Contents of tests before unfinished work changed them, for later runs.

They are files named by their hash, so that nothing but the right content is ever read from them.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from ralph.core.files import read_bytes_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

KEPT_DIRECTORY = ".ralph/base"
"""Directory of the contents, relative to the project."""


class KeptContents:
    """Contents of files, kept by their hash."""

    def __init__(self, root: Path) -> None:
        self._folder = root / KEPT_DIRECTORY

    def write(self, content: bytes) -> None:
        """Keep a content; a disk that is full keeps none, and a person is asked later."""
        path = self._folder / hashlib.sha256(content).hexdigest()
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_bytes(content)

    def read(self, digest: str) -> bytes | None:
        """Return the content that has a hash; None if it is not kept."""
        content = read_bytes_or_none(self._folder / os.path.basename(digest)) if digest else None  # noqa: PTH119
        is_right = content is not None and hashlib.sha256(content).hexdigest() == digest
        return content if is_right else None

    def prune(self, digests: Collection[str]) -> None:
        """Delete all other contents."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in digests:
                    path.unlink()
