"""Reviewing and trusting what a directory brings: settings that decide what runs, and memory files.

`ralph.core.trust_record` keeps the decision; every load of the configuration and every sync of the files obeys it.
"""

from __future__ import annotations

import os

from ralph.core import trust_record
from ralph.core.config import load_config
from ralph.core.errors import RalphError
from ralph.core.records import record
from ralph.core.trust_record import as_recorded, deciding_actor, read_trust, save_trust, trusts_everything

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from ralph.core.config import Config


@record
class SettingChange:
    """A setting that needs trust: the value a person accepted, and the one the files have now."""

    name: str
    before: Any
    """None if it was not accepted."""
    after: Any
    """None if the files no longer set it."""

    @property
    def is_new(self) -> bool:
        """Whether the value is not accepted, or an accepted one is gone."""
        return bool(self.after != self.before)


@record
class TrustReview:
    """What a directory brings, compared with what a person trusts it with."""

    directory: str
    settings: tuple[SettingChange, ...]
    memories: int
    """Number of entries in its memory files."""
    are_files_trusted: bool | None
    """None if nobody has decided."""
    was_trusted: bool
    """Whether a person has trusted this directory before, as it was then."""

    @property
    def new_settings(self) -> tuple[SettingChange, ...]:
        """Settings that nobody has accepted."""
        return tuple(one for one in self.settings if one.is_new)

    @property
    def is_trusted(self) -> bool:
        """Whether everything it brings counts."""
        return not self.new_settings and self.are_files_trusted is True

    @property
    def waits(self) -> str:
        """What does not count yet, in a few words; empty if there is nothing."""
        parts = [one.name for one in self.new_settings]
        if self.memories and not self.are_files_trusted:
            parts.append(f"{self.memories:,} {'memory' if self.memories == 1 else 'memories'} in its files")
        return ", ".join(parts)


def review_trust(root: Path | str, environment: Mapping[str, str] = os.environ) -> TrustReview:
    """Return what a directory brings and what of it a person has accepted."""
    from ralph.formats.sync.problems import count_file_memories

    config = load_config(root, environment)
    known = read_trust(root)
    before, after = dict(known.settings) if known else {}, as_recorded(config.brought)
    if known is None or not any(name.startswith("store.") for name in before):
        # What 0.1.0 recorded about the store is not in our record.
        before |= {name: value for name, value in after.items() if _is_accepted_store(name, config)}
    return TrustReview(
        directory=os.fspath(root),
        settings=tuple(
            SettingChange(name=name, before=before.get(name), after=after.get(name))
            for name in sorted({*after, *config.untrusted})
        ),
        memories=count_file_memories(root) if config.memories.files else 0,
        are_files_trusted=known.files if known else None,
        was_trusted=bool(known and known.files),
    )


def _is_accepted_store(name: str, config: Config) -> bool:
    return name.startswith("store.") and name not in config.untrusted


def accept_review(review: TrustReview) -> None:
    """Record that a person accepts what they were shown."""
    deciding_actor(review.directory).require("trust")
    settings = {one.name: one.after for one in review.settings if one.after is not None}
    save_trust(review.directory, settings, files=True)


def revoke_trust(root: Path | str) -> None:
    """Record that a person does not trust a directory any more."""
    deciding_actor(root).require("trust")
    trust_record.revoke_trust(root)


def record_init(root: Path, environment: Mapping[str, str], *, is_new: bool) -> list[str]:
    """Record what a person accepts by setting up a project: its store, and all else if that brings nothing.

    An agent that sets up a project accepts nothing. Returns a note if something needs to be reviewed.
    """
    if deciding_actor(root).is_agent:
        return []
    review, config, known = review_trust(root, environment), load_config(root, environment), read_trust(root)
    others = {name: value for name, value in known.settings.items() if not name.startswith("store.")} if known else {}
    accepted, files = {**others, **_store_settings(config)}, review.are_files_trusted
    if trusts_everything(root, environment):
        accepted, files = config.brought, True
    elif files is None and not config.untrusted and not review.memories:
        files = True
    elif files is None and is_new:
        files = False  # an older project goes on as before: only what is new in its files has to be reviewed
    try:
        save_trust(root, accepted, files)
    except RalphError:
        return []  # the project counts as one that nobody has decided about
    waits = review_trust(root, environment).waits
    return [f"note: not used until you trust this directory: {waits}. Review it with: ralph trust"] if waits else []


def _store_settings(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.brought.items() if name.startswith("store.")}
