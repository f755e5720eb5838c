"""Readers of the transcripts that coding agents keep of their sessions.

A reader finds the transcripts of one project and yields what was said in them, without tool output, file contents and
text that programs wrote in a person's name. Readers are loaded on first use: hooks need none, or one.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.formats.transcripts.base import TranscriptReader


class _Readers(Mapping[str, "TranscriptReader"]):
    """The readers by the name of their agent. To add one, add a module with a `READER` and its name."""

    names = ("claude", "codex", "gemini", "opencode", "aider")

    def __getitem__(self, name: str) -> TranscriptReader:
        if name not in self.names:
            raise KeyError(name)
        from importlib import import_module

        reader: TranscriptReader = import_module(f"{__name__}.{name}").READER
        return reader

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


READERS: Mapping[str, TranscriptReader] = _Readers()
