"""Reader of the state files of other loops, from which learnings are extracted.

Only the objective and the iterations are used. Missing and invalid fields are ignored.
"""

from __future__ import annotations

from ralph.core.text import one_line, sanitize, truncate
from ralph.formats.imported import MAX_ID_CHARS
from ralph.formats.js_json import loads
from ralph.formats.planned import ReadProblem
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.detection import FileSample

    Fields = dict[str, object]

MAX_TEXT_CHARS = 2000
"""Maximum length of a text, in characters; the rest is cut."""
MAX_TEXTS = 100
"""Maximum number of learnings or errors read per iteration."""
MAX_FILES = 1000
"""Maximum number of modified files read per iteration."""
MAX_PATH_CHARS = 1000
"""Maximum length of a path, in characters."""
MAX_DURATION_MS = 10**10
"""Largest number accepted; as a duration in milliseconds, four months."""
IDENTIFYING_FIELDS = frozenset({"loopId", "objective", "currentIteration"})
"""Fields of which a loop state has at least one."""
TEXT_FIELDS = ("message", "description", "text", "content")
"""Fields that may contain the text of an object used in place of a string."""


def is_loop_state(sample: FileSample) -> bool:
    """Return whether a file is the state of a loop."""
    has_iterations = isinstance(sample.document.get("iterations"), list)
    return has_iterations and not sample.document.keys().isdisjoint(IDENTIFYING_FIELDS)


def read_loop_state(text: str) -> LoopHistory:
    """Parse a loop state; raise `ValueError` with a message for users if it is invalid."""
    try:
        state = loads(text)
    except ValueError as error:
        raise ValueError(f"The loop state is not valid JSON: {error}.") from None
    iterations = state.get("iterations") if isinstance(state, dict) else None
    if not isinstance(state, dict) or not isinstance(iterations, list):
        raise ValueError("The loop state has no `iterations` list.")
    return LoopHistory(
        loop_id=one_line(_text(state.get("loopId")), MAX_ID_CHARS),
        objective=_text(state.get("objective")),
        iterations=tuple(
            _iteration(position, fields) for position, fields in enumerate(iterations, 1) if isinstance(fields, dict)
        ),
        is_complete=_status(state) == "completed",
    )


def find_state_problems(text: str) -> tuple[ReadProblem, ...]:
    """Return a problem for every iteration of a valid loop state that cannot be read; its line is the number of it."""
    state = loads(text)
    iterations = state.get("iterations") if isinstance(state, dict) else None
    return tuple(
        ReadProblem(line=position, why=f"Iteration {position} was skipped: it is not an object.")
        for position, fields in enumerate(iterations if isinstance(iterations, list) else (), start=1)
        if not isinstance(fields, dict)
    )


def _iteration(position: int, fields: Fields) -> LoopIteration:
    found = fields.get("analysis")
    analysis: Fields = found if isinstance(found, dict) else {}
    status = _status(fields)
    number = _number(fields.get("number"))
    return LoopIteration(
        number=int(number) or position,
        succeeded=status == "completed" and analysis.get("progressMade") is not False,
        failed=status == "failed",
        seconds=_number(fields.get("duration")) / 1000,
        learnings=_texts(fields.get("learnings")),
        files=_paths(fields.get("filesModified")),
        error=_error(fields, analysis),
    )


def _error(fields: Fields, analysis: Fields) -> str:
    """Return the first error found."""
    for value in (analysis.get("error"), analysis.get("errors"), fields.get("error"), analysis.get("blockers")):
        if texts := _texts(value):
            return truncate("\n".join(texts), MAX_TEXT_CHARS)
    return ""


def _status(fields: Fields) -> str:
    return _text(fields.get("status")).lower()


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DURATION_MS:
        return 0
    return value


def _text(value: object) -> str:
    """Return a string, or the text of an object."""
    if isinstance(value, dict):
        value = next((value[name] for name in TEXT_FIELDS if isinstance(value.get(name), str)), "")
    return truncate(sanitize(value[: MAX_TEXT_CHARS * 2]), MAX_TEXT_CHARS) if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    items = value[:MAX_TEXTS] if isinstance(value, list) else [value]
    return tuple(text for item in items if (text := _text(item)))


def _paths(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    paths = dict.fromkeys(sanitize(path) for path in items[:MAX_FILES] if _is_path(path))
    return tuple(path for path in paths if path)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_PATH_CHARS and "\n" not in value
