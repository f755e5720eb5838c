"""Text output of memories, their history and their scores."""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from math import floor

from ralph.cli.output import (
    MIN_LAST_COLUMN,
    bold,
    color_by_status,
    pluralize,
    print_table,
    printable,
    symbol,
    terminal_width,
    truncate,
    wrap_line,
)
from ralph.core.records import MemorySource, now, outcome_word
from ralph.core.text import clean, one_line
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.recall.labels import FIELD_LABELS, HIDDEN_FIELDS, SCORE_DESCRIPTIONS
from ralph.memory.recall.prime import HEADING
from ralph.memory.recall.render import kind_heading, title_without_body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ralph.core.records import Memory, MemoryEvent, RecalledEpisode, RecalledMemory
    from ralph.loop.prompts import EpisodeExplanation, Explanation
    from ralph.memory.lifecycle.timeline import ConfidenceAt
    from ralph.memory.queries import MemorySummary, MemoryView
    from ralph.store.database import Row

    ScoredItem = RecalledMemory | RecalledEpisode | Explanation | EpisodeExplanation

MAX_TAGS_LENGTH = 30
"""Maximum length of the tags in a table, in characters."""
MAX_MEMORY_LENGTH = 200
"""Maximum length of a memory in a table, in characters."""
MAX_CHANGE_LENGTH = 40
"""Maximum length of a changed value in `memory watch`, in characters."""
MAX_HISTORY_CHANGE_LENGTH = 300
"""Maximum length of a changed value in `memory history`, in characters."""
EVENT_COLUMNS_WIDTH = 54
"""Width of the event, when, who and what columns of a history, in characters."""
MAX_LOOPS_SHOWN = 3
"""Number of source loops that are listed."""
MAX_EVENTS_SHOWN = 5
"""Number of events shown by `memory why`."""
LIKELY_LEGEND = "LIKELY      how likely it is relevant, whatever else there is; decides what is shown"
SCORE_LEGEND = "SCORE       sum of the shares below, relative to the best match; decides the order"
FIX_MARKER = "**Fix:**"
"""Marker before the solution in the body of a fix. The part before it repeats the title."""
_PREDICATES = ("is ", "was ", "has ", "had ", "comes ", "did ", "says ")
"""How reasons begin that are about the memory."""
TOLD_AS_RULE = "In every prompt, because it is a standing rule."
BAR_LENGTH = 10
"""Length of a full bar, in characters."""
SCORE_COMPONENT_WIDTH = 15
"""Width of one component of a score, in characters."""
DEFAULT_HAT = "creator"
"""Role of all work where there are no others, which is therefore not named."""
_SOURCES = {
    MemorySource.AUTOMATIC: "learned from a run",
    MemorySource.EXPLICIT: "stated by a person or an agent",
    MemorySource.IMPORTED: "imported",
}
"""What people read for where a memory comes from."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")


def summary_line(memory: Memory) -> str:
    """Return a memory as one line: its title, and its body if that says more."""
    start = memory.title.removesuffix("...")
    _, is_fix, fix = memory.content.partition(FIX_MARKER)
    if is_fix:
        text = f"{title_without_body(memory.title, fix.strip())}: {fix.strip()}"
    else:
        text = memory.content if memory.content.startswith(start) else f"{memory.title}: {memory.content}"
    return one_line(clean(text), MAX_MEMORY_LENGTH)


def print_memories(memories: Iterable[Memory], *, with_state: bool = False, with_staleness: bool = False) -> None:
    """Print memories as a table, optionally with their states or with the reasons why they may be stale."""
    listed = list(memories)
    text = summary_line if with_staleness else _marked
    rows = [
        (
            memory.id,
            memory.kind,
            *[memory.state] * with_state,
            _confidence_now(memory),
            memory.created_at[:10],
            _tags(memory),
            text(memory),
        )
        for memory in listed
    ]
    below = [[f"stale: {memory.stale}"] if with_staleness else [] for memory in listed]
    headings = ("ID", "TYPE", *["STATE"] * with_state, "CONF", "CREATED", "TAGS", "MEMORY")
    print_table(headings, rows, below, droppable=("CREATED", "TAGS"))


def _marked(memory: Memory) -> str:
    """Return a memory as one line, marked if it is pinned or stale."""
    return f"{'(pinned) ' * bool(memory.pinned_at)}{'(stale) ' * bool(memory.stale)}{summary_line(memory)}"


def print_scored_memories(hits: Sequence[RecalledMemory], explanations: Sequence[Explanation] = ()) -> None:
    """Print memories with the components of their scores; see `print_scored_hits`."""
    labels = [(hit.memory.id, summary_line(hit.memory)) for hit in hits]
    print_scored_hits("MEMORY", labels, hits, explanations)


def print_scored_hits(
    heading: str,
    labels: Sequence[tuple[str, str]],
    hits: Sequence[RecalledMemory | RecalledEpisode],
    explanations: Sequence[Explanation | EpisodeExplanation] = (),
) -> None:
    """Print search results with the components of their scores, and a legend of the components.

    Each has a label of its id and text. With `explanations`, also print why a prompt would omit them.
    """
    rank_width, id_width = len(str(len(hits))), max(len(printable(id)) for id, _ in labels)
    width, indent = terminal_width(), " " * (rank_width + 2)
    print(bold(f"{'#':>{rank_width}}  {'SCORE':>5}  {'LIKELY':>6}  {'ID':{id_width}}  {heading}"))
    for rank, (hit, (id, text)) in enumerate(zip(hits, labels, strict=True), 1):
        likely = "" if hit.relevance is None else f"{hit.relevance:.0%}"
        start = f"{rank:>{rank_width}}  {hit.score:5.2f}  {likely:>6}  {printable(id):{id_width}}  "
        print(bold(start) + truncate(printable(text), max(MIN_LAST_COLUMN, width - len(start))))
        cells = [f"{printable(name)} {share}".ljust(SCORE_COMPONENT_WIDTH) for name, share in score_components(hit)]
        per_line = max(1, (width - len(indent) + 2) // (SCORE_COMPONENT_WIDTH + 2))
        for start_index in range(0, len(cells), per_line):
            print((indent + "  ".join(cells[start_index : start_index + per_line])).rstrip())
        if hit.relevance is not None:
            print(wrap_line(f"{likely} likely: {printable(hit.evidence)}", indent, indent + "  "))
        if explanations and not explanations[rank - 1].is_shown:
            why = explanations[rank - 1]
            print(wrap_line(f"not in the prompt of {why.task_id}: {printable(why.reason)}", indent, indent + "  "))
    used = {name for hit in hits for name, _ in score_components(hit)}
    print()
    print(truncate(LIKELY_LEGEND, width))
    print(truncate(SCORE_LEGEND, width))
    for name, meaning in SCORE_DESCRIPTIONS.items():
        if name in used:
            print(truncate(f"{name:10}  {meaning}", width))


def score_components(scored: ScoredItem) -> list[tuple[str, str]]:
    """Return the components of a score with two decimals, so that they add up to the rounded score.

    All are rounded down, and the remainder goes to those that lost most. Components of zero are omitted.
    """
    exact = [(name, 100 * share) for name, share in scored.because]
    rounded = {name: floor(share) for name, share in exact}
    remainder = round(100 * (scored.score or 0.0)) - sum(rounded.values())
    for name, _ in sorted(exact, key=lambda share: floor(share[1]) - share[1])[: max(0, remainder)]:
        rounded[name] += 1
    return [(name, f"{share / 100:.2f}") for name, share in rounded.items() if share] or [
        (name, "0.00") for name, _ in scored.because[:1]
    ]


def score_fields(
    hits: Sequence[RecalledMemory | RecalledEpisode], explanations: Sequence[Explanation | EpisodeExplanation]
) -> Iterator[dict[str, object]]:
    """Return the scores of search results for JSON output. `shown` and `reason` are only known for a task."""
    for rank, hit in enumerate(hits, 1):
        why = explanations[rank - 1] if explanations else None
        yield {
            "score": hit.score,
            "rank": rank,
            "because": dict(hit.because),
            "relevance": hit.relevance,
            "evidence": hit.evidence,
            "shown": why.is_shown if why else None,
            "reason": why.reason if why else None,
        }


def _confidence_now(memory: Memory) -> str:
    return f"{current_confidence(memory, now()):.2f}"


def _tags(memory: Memory) -> str:
    return one_line(", ".join(memory.tags), MAX_TAGS_LENGTH) or "-"


# --- one memory ------------------------------------------------------------------------


def print_memory(view: MemoryView) -> None:
    """Print a memory in full."""
    memory = view.memory
    print_heading(memory)
    print_facts(
        {
            "State": memory.state_reason and f"{memory.state}: {memory.state_reason}",
            "Replaced by": memory.superseded_by,
            "Replaces": ", ".join(f"{other.id} (was: {one_line(other.content, 60)})" for other in view.supersedes),
            "Pinned": memory.pinned_at and f"to every prompt, since {format_datetime(memory.pinned_at)}",
            "Confidence": _confidence(memory, view.confidence),
            "Tags": ", ".join(memory.tags),
            "Files": ", ".join(memory.files),
            "Stale": memory.stale,
            "Feature": memory.feature,
            "Task type": memory.task_type,
            **_facts_of_origin(memory),
            "Used": _uses(memory),
            "Links to": ", ".join(f"{title} ({id or 'no memory has this title'})" for title, id in view.links),
            "Linked from": ", ".join(f"{other.title} ({other.id})" for other in view.linked_from),
        }
    )
    print_body(memory)
    print_attempts(view.shown_to)


def print_markdown_entry(memory: Memory) -> None:
    """Print a memory as an entry of the Markdown file, with its body unchanged."""
    title = f"**{memory.title}**\n" if memory.kind == "knowledge" else ""
    text = clean(title + (memory.content or memory.title))
    tags = f"tags: {printable(', '.join(memory.tags))} | " if memory.tags else ""
    print(f"{HEADING}\n## {kind_heading(memory.kind)}\n\n### {printable(memory.id)}")
    print("\n".join(f"> {line}".rstrip() for line in text.split("\n")))
    print(f"<!-- {tags}created: {memory.created_at[:10]} -->")


def print_heading(memory: Memory, place: str = "") -> None:
    """Print the heading of a memory, after its position in a list if there is one."""
    id, kind = printable(memory.id), printable(memory.kind)
    start = f"{place}{id}  {kind}  {memory.state}  "
    lines = wrap_line(printable(memory.title), start, "  ")
    print(f"{place}{bold(id)}  {kind}  {color_by_status(memory.state, memory.state)}  {lines.removeprefix(start)}")


def print_facts(facts: Mapping[str, object]) -> None:
    """Print the non-empty facts, one per line."""
    for name, value in facts.items():
        if value:
            print(wrap_line(f"{name}: {printable(str(value))}", "  ", "    "))


def print_body(memory: Memory) -> None:
    """Print the body of a memory, indented, unless it only repeats the title."""
    if memory.content.rstrip(".!?") != memory.title:
        print()
        for line in clean(memory.content).split("\n"):
            indented = f"  {line.expandtabs(4)}".rstrip()
            text = indented.lstrip()
            indent = indented[: len(indented) - len(text)]
            print(wrap_line(text, indent, indent))


def print_attempts(attempts: Sequence[Row]) -> None:
    """Print the attempts whose prompt included a memory, and their outcomes."""
    if attempts:
        rows = [
            (
                f"{row['run_id']}/{row['iteration']}",
                format_datetime(row["started_at"]),
                row["task_id"],
                outcome_word(row["outcome"]),
            )
            for row in attempts
        ]
        print()
        print_table(("SHOWN TO", "WHEN", "TASK", "OUTCOME"), rows)


def describe_origin(memory: Memory) -> str:
    """Describe where a memory comes from."""
    loops = ", ".join(memory.origin_loops[:MAX_LOOPS_SHOWN])
    more = len(memory.origin_loops) - MAX_LOOPS_SHOWN
    parts = (
        _SOURCES[memory.source],
        memory.hat and memory.hat != DEFAULT_HAT and f"{memory.hat} role",
        memory.origin_task and f"task {memory.origin_task}",
        memory.origin_run and f"{memory.origin_run}",
        memory.origin_attempt and f"attempt {memory.origin_attempt}",
        memory.origin_session and f"session {memory.origin_session}",
        loops and f"loops {loops}" + (f" and {more} more" if more > 0 else ""),
    )
    return ", ".join(str(part) for part in parts if part)


def _facts_of_origin(memory: Memory) -> dict[str, object]:
    repeated = f", {memory.support} times so far" if memory.support > 1 else ""
    return {
        "From": describe_origin(memory),
        "Learned": format_datetime(memory.created_at) + repeated,
        "Updated": memory.updated_at != memory.created_at and format_datetime(memory.updated_at),
    }


def _confidence(memory: Memory, now: float) -> str:
    if round(now, 2) == round(memory.confidence, 2):
        return f"{now:.2f}"
    return f"{now:.2f}, down from {memory.confidence:.2f} because it was not used for a while"


def _uses(memory: Memory) -> str:
    if not memory.uses:
        return "never"
    rate = "" if memory.success_rate is None else f", {memory.success_rate:.0%} of them in successful attempts"
    last = f", last {format_datetime(memory.used_at)}" if memory.used_at else ""
    return pluralize(memory.uses, "time") + last + rate


def format_datetime(timestamp: str) -> str:
    """Format a timestamp as local date and time."""
    try:
        seconds = timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError):  # an imported timestamp may be out of range
        return timestamp[:16].replace("T", " ")


# --- history -----------------------------------------------------------------------------


def print_history(events: Sequence[MemoryEvent]) -> None:
    """Print the history of a memory, oldest event first, with the changed fields below each event."""
    room = terminal_width() - EVENT_COLUMNS_WIDTH
    rows, below = [], []
    for event in events:
        why = _why(event)
        fits = len(printable(why)) <= room
        rows.append((event.seq, format_datetime(event.at), _who(event), event.what, (fits and why) or "-"))
        below.append([*format_changes(event, MAX_HISTORY_CHANGE_LENGTH), *[f"why: {why}"] * (not fits)])
    print_table(("EVENT", "WHEN", "WHO", "WHAT", "WHY"), rows, below)


def print_confidence_history(points: Sequence[ConfidenceAt]) -> None:
    """Print the confidence of a memory over time, oldest first."""
    rows = [
        (
            format_datetime(point.at),
            f"{point.confidence:.2f}",
            symbol("█" * (round(BAR_LENGTH * point.confidence) or 1)),
            printable(point.what),
        )
        for point in points
    ]
    print_table(("WHEN", "CONF", "", "WHAT"), rows)


def summarize_event(event: MemoryEvent) -> str:
    """Summarize on one line what an event changed and why. Title changes that follow from the content are omitted."""
    changes = format_changes(event, MAX_CHANGE_LENGTH)
    if any(change.startswith("content: ") for change in changes):
        changes = [change for change in changes if not change.startswith("title: ")]
    return "; ".join(filter(None, [*changes, _why(event)])) or "-"


def _who(event: MemoryEvent) -> str:
    """Return who made a change; an agent that is just a command has no name of its own."""
    return "agent" if event.who == "command" else event.who


def _why(event: MemoryEvent) -> str:
    undone = f"undoes event {event.undoes}" if event.undoes else ""
    return "; ".join(filter(None, [undone, event.why]))


def format_changes(event: MemoryEvent, width: int) -> list[str]:
    """Return the changes of an event, a line per field, without internal fields and a repeated reason."""
    changes = changed_fields(event)
    if changes.get("state_reason", (None, None))[1] == event.why:
        changes.pop("state_reason", None)
    if _follows(changes.get("title"), changes.get("body")):
        del changes["title"]
    arrow = symbol("→", "to")
    return [
        f"{FIELD_LABELS.get(name, name)}: {_abbreviate(was, became, width)} {arrow} {_abbreviate(became, was, width)}"
        for name, (was, became) in changes.items()
        if name not in HIDDEN_FIELDS
    ]


def _follows(title: tuple[object, object] | None, body: tuple[object, object] | None) -> bool:
    """Return whether a change of a title only repeats that of the text it is the beginning of."""
    pairs = zip(title, body, strict=True) if title and body else ()
    return bool(title and body) and all(str(text).startswith(str(one).removesuffix("...")) for one, text in pairs)


def changed_fields(event: MemoryEvent) -> dict[str, tuple[object, object]]:
    """Return the fields an event changed, each with its old and new value."""
    was, became = json.loads(event.was or "{}"), json.loads(event.became or "{}")
    return {name: (_parse_stored(was.get(name)), _parse_stored(became[name])) for name in became}


def _parse_stored(stored: object) -> object:
    """Return a list that is stored as JSON as comma-separated text; other values unchanged."""
    if isinstance(stored, str) and stored.startswith("["):
        try:
            return ", ".join(map(str, json.loads(stored)))
        except ValueError:
            pass
    return stored


def _abbreviate(value: object, other: object, width: int) -> str:
    """Return a value as short text. Long text starts where it begins to differ from the other value."""
    if value is None or value == "":
        return "none"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        return format_datetime(value)
    text, other_text = str(value), str(other)
    common = 0
    if len(text) > width:
        while common < min(len(text), len(other_text)) and text[common] == other_text[common]:
            common += 1
    start = max(0, common - width // 4)
    return one_line(clean(("…" if start else "") + text[start : start + width * 2]), width)


# --- why and stats ---------------------------------------------------------------------------


def print_why(why: Explanation, *, with_score: bool) -> None:
    """Print whether the prompt of a task includes a memory, and why; optionally with its score and rank."""
    print_heading(why.memory)
    print_rank(why, because="it is pinned" * bool(why.memory.pinned_at), with_score=with_score)


def print_rank(why: Explanation | EpisodeExplanation, *, because: str = "", with_score: bool) -> None:
    """Print whether the prompt of a task includes something, the estimate, and optionally the score and rank."""
    subject = why.task_id or "this prompt"
    place = f"in the next prompt of {why.task_id}" if why.task_id else "told with this prompt"
    reason = printable(why.reason)
    if why.is_rule:
        answer = f"In every prompt, because {because or 'it is a standing rule'}."
    elif why.is_shown:
        answer = f"{place[0].upper()}{place[1:]}."
    else:
        answer = f"Not {place}: {'it ' * reason.startswith(_PREDICATES)}{reason}."
    print(wrap_line(answer, "  ", "    "))
    if why.evidence:  # no estimate: a learning of previous loops, which is found by what it is for
        estimate = "Relevant" if why.relevance is None else f"{why.relevance:.0%} likely to be relevant"
        print(wrap_line(f"{estimate} to {subject}: {printable(why.evidence)}.", "  ", "    "))
    if with_score and why.score is not None:
        rank = f", rank {why.rank:,} of {why.ranked:,}" if why.rank else ""
        print(f"  Score for {subject}: {why.score:.2f}{rank}")
        components = score_components(why)
        largest = max((abs(float(share)) for _, share in components), default=0.0) or 1.0
        for name, share in components:
            bar = symbol(f"{'█' * (round(BAR_LENGTH * abs(float(share)) / largest) or 1):{BAR_LENGTH}}  ")
            line = f"    {name:10}  {share:>5}  {bar}{SCORE_DESCRIPTIONS.get(name, '')}"
            print(truncate(line.rstrip(), terminal_width()))


def print_origin(view: MemoryView, events: Sequence[MemoryEvent], *, is_rule: bool = False) -> None:
    """Print the origin and recent history of a memory, and the attempts that used it."""
    memory = view.memory
    print_heading(memory)
    if is_rule:
        print(f"  {TOLD_AS_RULE}")
    print_facts({**_facts_of_origin(memory), "Confidence": _confidence(memory, view.confidence), "Used": _uses(memory)})
    print()
    print_history(events[-MAX_EVENTS_SHOWN:])
    if len(events) > MAX_EVENTS_SHOWN:
        print(
            f"{pluralize(len(events) - MAX_EVENTS_SHOWN, 'earlier event')}: ralph memory history {printable(memory.id)}"
        )
    print_attempts(view.shown_to)
    if not view.shown_to and not is_rule:
        print("\nNo prompt of a task has included it yet.")


def print_stats(stats: MemorySummary) -> None:
    """Print statistics about the memories."""
    rate = "" if stats.average_success_rate is None else f"{stats.average_success_rate:.0%}"
    print(f"{pluralize(stats.total, 'memory')}, used {pluralize(stats.uses, 'time')}")
    print_facts(
        {
            "By state": _counts(stats.by_state),
            "By type": _counts(stats.by_kind),
            "By task type": _counts({name or "any": count for name, count in stats.by_task_type.items()}),
            "By source": _counts(stats.by_source),
            "Average confidence": stats.total and f"{stats.average_confidence:.2f}",
            "Average success rate": rate,
            "Most used": stats.most_used and f"{stats.most_used.title} ({stats.most_used.id})",
            "Last updated": stats.last_updated and format_datetime(stats.last_updated),
        }
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
