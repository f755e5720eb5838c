"""What attempts were told and how their work was checked, kept beside the live logs of runs.

One compressed file per attempt holds its prompt with a record of what was shown and left out, and the results of its
checks. Like a live log it is for display, not a record: it is redacted and bounded, stays on the machine of the run,
and a run continues without it. Agents work in the same directory and can write to it, so readers trust nothing in it.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from contextlib import suppress

from ralph.core.records import OmittedItem, Prompt, PromptSection, record, record_fields
from ralph.core.redaction import redact, redact_all
from ralph.core.text import clean, truncate
from ralph.loop.run_log import is_portable, log_folder, open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from ralph.core.records import Attempt, VerificationResult
    from ralph.store.episodes import EpisodeFilter

FOLDER = "attempts"
"""Name of the folder, beside the live logs."""
MAX_KEPT = 2_000
"""Number of attempts of which details are kept; then the oldest tenth is dropped."""
MAX_FILE_BYTES = 1_000_000
"""Maximum size of a file that is read, in bytes."""
MAX_TEXT_BYTES = 8_000_000
"""Maximum size of its text, in bytes."""
MAX_LEFT_OUT = 50
"""Maximum number of omitted items kept of a section."""
MAX_OUTPUT_CHARACTERS = 20_000
"""Maximum length of the output of a check, in characters."""
CLEANUP_INTERVAL = 100
"""Number of iterations of a run between two looks at how many files there are."""
FAST_COMPRESSION = 1
_NAME = re.compile(r"([A-Za-z0-9][\w-]{0,63})\.([0-9]{1,9})\.z", re.ASCII)


@record
class AttemptCheck:
    """Result of one check of the work of an attempt."""

    kind: str
    """`gate`, `integrity` or `review`."""
    name: str
    """Command of a gate."""
    passed: bool
    seconds: float = 0.0
    detail: str = ""
    """Why it did not pass."""
    output: str = ""


@record
class AttemptDetails:
    """What an attempt was told, and how its work was checked."""

    run_id: str
    iteration: int
    prompt: Prompt | None = None
    """None if no session was started."""
    checks: tuple[AttemptCheck, ...] = ()


# --- writing -----------------------------------------------------------------------------


class DetailsFile:
    """File of one attempt, written when its session starts, and again once its work was checked."""

    def __init__(self, root: Path | str, attempt: Attempt, prompt: Prompt) -> None:
        self._root, self._run_id, self._iteration = root, attempt.run_id, attempt.iteration
        self._packer = zlib.compressobj(FAST_COMPRESSION)
        fields = json.dumps(_prompt_fields(prompt))
        self._start = self._packer.compress(f'{{"prompt": {fields}, "checks": '.encode())

    def save(self, verdict: VerificationResult | None = None) -> None:
        """Keep the prompt and, with a verdict, the results of the checks; do nothing if that is not possible."""
        packer = self._packer.copy()
        checks = json.dumps(_safe(_checks(verdict)) if verdict else [])
        content = self._start + packer.compress(f"{checks}}}".encode()) + packer.flush()
        with suppress(OSError):
            path = _path(self._root, self._run_id, self._iteration)
            folder = os.path.dirname(path)  # noqa: PTH120
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            if self._iteration % CLEANUP_INTERVAL == 1:
                _remove_old(folder)
            new = f"{path}.new"
            with suppress(FileNotFoundError):
                os.unlink(new)  # noqa: PTH108
            handle = open_regular(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(new, path)  # noqa: PTH105


def _prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """Return what is kept of a prompt, with all text from outside cleaned and redacted."""
    sections = [
        _safe(record_fields(section) | {"left_out": ()})
        | {"left_out": _omitted_fields(section.left_out[:MAX_LEFT_OUT])}
        for section in prompt.sections
    ]
    return {"tokens": prompt.tokens, "sections": sections, "shown": prompt.shown, "episodes": prompt.episodes}


def _omitted_fields(items: Sequence[OmittedItem]) -> list[dict[str, Any]]:
    safe = iter(redact_all([clean(text) for one in items for text in (one.what, one.why, one.id, one.evidence)]))
    return [
        record_fields(one) | {"what": next(safe), "why": next(safe), "id": next(safe), "evidence": next(safe)}
        for one in items
    ]


def _checks(verdict: VerificationResult) -> list[dict[str, Any]]:
    checks = [
        AttemptCheck(
            kind="gate",
            name=one.command,
            passed=one.passed,
            seconds=one.seconds,
            detail=one.detail,
            output=truncate(one.output, MAX_OUTPUT_CHARACTERS),
        )
        for one in verdict.gates
    ]
    if verdict.integrity:
        found = verdict.integrity
        notes = "\n".join((*found.notes, *found.files))
        checks.append(AttemptCheck(kind="integrity", name="", passed=found.passed, detail=found.reason, output=notes))
    if verdict.review:
        review = verdict.review
        checks.append(
            AttemptCheck(
                kind="review", name="", passed=review.passed, seconds=review.reply.seconds, detail=review.reason
            )
        )
    return [record_fields(one) for one in checks]


def _safe(value: Any) -> Any:
    """Return a value with all of its strings cleaned and redacted."""
    if isinstance(value, str):
        return redact(clean(value))
    if isinstance(value, dict):
        return {name: _safe(one) for name, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list | tuple) else value


def _remove_old(folder: str) -> None:
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if _NAME.fullmatch(entry.name)]
    if len(found) < MAX_KEPT:
        return
    oldest = sorted(found, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
    for entry in oldest[: MAX_KEPT // 10]:
        with suppress(OSError):
            os.unlink(entry.path)  # noqa: PTH108


# --- reading -----------------------------------------------------------------------------


def read_details(root: Path | str, run_id: str, iteration: int) -> AttemptDetails | None:
    """Return what is kept of an attempt on this machine; None if nothing is, or nothing that Ralph wrote."""
    try:
        fields = _read(_path(root, run_id, iteration))
        prompt = fields["prompt"]
        return AttemptDetails(
            run_id=run_id,
            iteration=iteration,
            prompt=_prompt(prompt) if prompt else None,
            checks=tuple(map(_check, fields["checks"])),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return None


def latest_details(root: Path | str, limit: int) -> Iterator[AttemptDetails]:
    """Yield what is kept of the latest attempts, newest first."""
    try:
        with os.scandir(_folder(root)) as entries:
            found = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, match)
                for entry in entries
                if (match := _NAME.fullmatch(entry.name))
            ]
    except OSError:
        return
    for _, match in sorted(found, key=lambda one: -one[0])[:limit]:
        if details := read_details(root, match[1], int(match[2])):
            yield details


def _read(path: str) -> dict[str, Any]:
    handle = open_regular(path, os.O_RDONLY)
    with os.fdopen(handle, "rb") as file:
        content = file.read(MAX_FILE_BYTES)
    unpacked = zlib.decompressobj().decompress(content, MAX_TEXT_BYTES)
    fields = json.loads(unpacked)
    if not (isinstance(fields, dict) and is_portable(fields)):
        raise ValueError(path)
    return fields


def _prompt(fields: dict[str, Any]) -> Prompt:
    sections = tuple(map(_section, fields["sections"]))
    return Prompt(
        text="\n".join(one.text for one in sections if one.text),
        tokens=_number(fields["tokens"]),
        sections=sections,
        shown=_strings(fields["shown"]),
        episodes=_strings(fields["episodes"]),
    )


def _section(fields: dict[str, Any]) -> PromptSection:
    cap = fields["cap_tokens"]
    return PromptSection(
        name=_string(fields["name"]),
        text=_string(fields["text"]),
        tokens=_number(fields["tokens"]),
        cap_tokens=None if cap is None else _number(cap),
        shown=_strings(fields["shown"]),
        left_out=tuple(map(_omitted, fields["left_out"])),
    )


def _check(fields: dict[str, Any]) -> AttemptCheck:
    return AttemptCheck(
        kind=_string(fields["kind"]),
        name=_string(fields["name"]),
        passed=bool(fields["passed"]),
        seconds=float(fields["seconds"]),
        detail=_string(fields["detail"]),
        output=_string(fields["output"]),
    )


def _omitted(fields: dict[str, Any]) -> OmittedItem:
    place, score, relevance = fields["place"], fields["score"], fields["relevance"]
    return OmittedItem(
        what=_string(fields["what"]),
        why=_string(fields["why"]),
        id=_string(fields["id"]),
        place=None if place is None else _number(place),
        score=None if score is None else float(score),
        because=tuple((_string(name), float(share)) for name, share in fields["because"]),
        relevance=None if relevance is None else float(relevance),
        evidence=_string(fields["evidence"]),
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _strings(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(values)
    return tuple(map(_string, values))


# --- erasing -----------------------------------------------------------------------------


def erase_details(root: Path | str, filter: EpisodeFilter, *, dry_run: bool = False) -> set[str]:
    """Delete what is kept of attempts if it may hold what a filter of episodes matches; return their runs."""
    run_id, _, iteration = filter.within.partition("/")
    erased = set()
    for details in latest_details(root, MAX_KEPT):
        if run_id not in ("", details.run_id) or iteration not in ("", str(details.iteration)):
            continue
        path = _path(root, details.run_id, details.iteration)
        if _may_hold(path, details, filter):
            erased.add(details.run_id)
            if not dry_run:
                with suppress(OSError):
                    os.unlink(path)  # noqa: PTH108
    return erased


def _may_hold(path: str, details: AttemptDetails, filter: EpisodeFilter) -> bool:
    if filter.before:
        from ralph.core.records import timestamp

        try:
            if timestamp(os.stat(path, follow_symlinks=False).st_mtime) >= filter.before:  # noqa: PTH116
                return False
        except OSError:
            return False
    text = details.prompt.text if details.prompt else ""
    text += "".join(f"{one.detail}{one.output}" for one in details.checks)
    return filter.matching.lower() in text.lower()


def _folder(root: Path | str) -> str:
    return os.path.join(log_folder(root), FOLDER)  # noqa: PTH118


def _path(root: Path | str, run_id: str, iteration: int) -> str:
    name = f"{run_id}.{iteration}.z"
    folder = _folder(root)
    if not _NAME.fullmatch(name) or os.path.islink(folder):  # noqa: PTH114
        raise OSError(name)
    return os.path.join(folder, name)  # noqa: PTH118
