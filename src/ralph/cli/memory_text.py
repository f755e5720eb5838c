"""How memories, their history and their scores look in a terminal."""

from __future__ import annotations

from ralph.cli.output import LEAST_LAST, bold, colour, cut_to, plural, print_table, safe, terminal_width, wrapped
from ralph.memory.meanings import FIELDS, MEANINGS, UNTOLD
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.memory.timeline import Point
    from ralph.records import Memory, MemoryEvent, Recalled
    from ralph.remembering import MemoryView, Stats, Why
    from ralph.store.database import Row

WIDEST_TAGS = 30
WIDEST_TEXT = 200
WIDEST_CHANGE = 40
WIDEST_CHANGE_IN_HISTORY = 300
WIDEST_EVENT = 54
"""Columns that the number, time, doer and name of an event take up."""
SHOWN_LOOPS = 3
HISTORY_IN_BRIEF = 5
FIX = "**Fix:**"
"""What stands before the solution in the text of a fix; what stands before this is in the title."""
NARROW = 100
"""In a terminal with fewer columns a search shows the memories themselves instead of their dates and tags."""
BAR = 10
WIDEST_SHARE = 15


def in_words(memory: Memory) -> str:
    """Give a memory on one line: its title, and what it says beyond that."""
    start = memory.title.removesuffix("...")
    _, is_fix, fix = memory.body.partition(FIX)
    if is_fix:
        text = f"{memory.title}: {fix.strip()}"
    else:
        text = memory.body if memory.body.startswith(start) else f"{memory.title}: {memory.body}"
    return one_line(clean(text), WIDEST_TEXT)


def print_memories(memories: Iterable[Memory], *, with_state: bool = False, with_doubts: bool = False) -> None:
    """Print memories as a table, with the state of each, or what makes it doubtful, if wanted."""
    found = list(memories)
    text = in_words if with_doubts else _marked
    rows = [
        (one.id, one.kind, *[one.state] * with_state, _sure(one), one.created_at[:10], _tags(one), text(one))
        for one in found
    ]
    below = [[f"check first: {one.stale}"] if with_doubts else [] for one in found]
    print_table(("ID", "TYPE", *["STATE"] * with_state, "SURE", "CREATED", "TAGS", "MEMORY"), rows, below)


def _marked(memory: Memory) -> str:
    """Give a memory on one line, with a mark if its files are no longer as they were."""
    return f"(stale) {in_words(memory)}" if memory.stale else in_words(memory)


def print_found(found: Sequence[Recalled]) -> None:
    """Print what a search found as a table: in a narrow terminal what each says, rather than more about it."""
    if terminal_width() >= NARROW:
        print_memories(one.memory for one in found)
    else:
        rows = [(one.memory.id, one.memory.kind, _sure(one.memory), _marked(one.memory)) for one in found]
        print_table(("ID", "TYPE", "SURE", "MEMORY"), rows)


def print_explained(found: Sequence[Recalled], whys: Sequence[Why] = ()) -> None:
    """Print what a search found, best first, each with what its score is made of, and then what that means.

    With `whys`, also why a prompt would not show it.
    """
    numbers, ids = len(str(len(found))), max(len(safe(one.memory.id)) for one in found)
    width, indent = terminal_width(), " " * (numbers + 2)
    print(bold(f"{'#':>{numbers}}  {'SCORE':>5}  {'ID':{ids}}  MEMORY"))
    for place, one in enumerate(found, 1):
        start = f"{place:>{numbers}}  {one.score:5.2f}  {safe(one.memory.id):{ids}}  "
        print(bold(start) + cut_to(safe(in_words(one.memory)), max(LEAST_LAST, width - len(start))))
        cells = [f"{safe(name)} {share}".ljust(WIDEST_SHARE) for name, share in shares(one)]
        a_row = max(1, (width - len(indent) + 2) // (WIDEST_SHARE + 2))
        for at in range(0, len(cells), a_row):
            print((indent + "  ".join(cells[at : at + a_row])).rstrip())
        if whys and not whys[place - 1].is_shown:
            why = whys[place - 1]
            print(wrapped(f"not shown to {why.task_id}: {safe(why.reason)}", indent, indent + "  "))
    used = {name for one in found for name, _ in shares(one)}
    print()
    for name, meaning in MEANINGS.items():
        if name in used:
            print(cut_to(f"{name:10}  {meaning}", width))


def shares(one: Recalled | Why) -> list[tuple[str, str]]:
    """Give what a score is made of, each with two decimals, so that they add up to the score with two decimals.

    What is left after all are rounded down goes to those that lost most. What is then nothing is not there.
    """
    from math import floor

    exact = [(name, 100 * share) for name, share in one.because]
    rounded = {name: floor(share) for name, share in exact}
    missing = round(100 * (one.score or 0.0)) - sum(rounded.values())
    for name, _ in sorted(exact, key=lambda share: floor(share[1]) - share[1])[: max(0, missing)]:
        rounded[name] += 1
    return [(name, f"{share / 100:.2f}") for name, share in rounded.items() if share] or [
        (name, "0.00") for name, _ in one.because[:1]
    ]


def _sure(memory: Memory) -> str:
    from ralph.memory.lifecycle import faded
    from ralph.records import now

    return f"{faded(memory, now()):.2f}"


def _tags(memory: Memory) -> str:
    return one_line(", ".join(memory.tags), WIDEST_TAGS) or "-"


# --- one memory ------------------------------------------------------------------------


def print_view(view: MemoryView) -> None:
    """Print all about a memory."""
    memory = view.memory
    print_heading(memory)
    print_facts(
        {
            "State": memory.state_reason and f"{memory.state}: {memory.state_reason}",
            "Replaced by": memory.superseded_by,
            "Confidence": _confidence(memory, view.confidence),
            "Tags": ", ".join(memory.tags),
            "Files": ", ".join(memory.files),
            "Check first": memory.stale,
            "Feature": memory.feature,
            "Task type": memory.task_type,
            **_facts_of_origin(memory),
            "Used": _uses(memory),
            "Links to": ", ".join(f"{title} ({id or 'no memory has this title'})" for title, id in view.links),
            "Linked from": ", ".join(f"{other.title} ({other.id})" for other in view.linked_from),
        }
    )
    print_body(memory)
    print_shown_to(view.shown_to)


def print_entry(memory: Memory) -> None:
    """Print a memory as an entry of a markdown file, its text as it is."""
    from ralph.memory.prime import HEADING
    from ralph.memory.render import group_of

    title = f"**{memory.title}**\n" if memory.kind == "knowledge" else ""
    text = clean(title + (memory.body or memory.title))
    tags = f"tags: {safe(', '.join(memory.tags))} | " if memory.tags else ""
    print(f"{HEADING}\n## {group_of(memory.kind)}\n\n### {safe(memory.id)}")
    print("\n".join(f"> {line}".rstrip() for line in text.split("\n")))
    print(f"<!-- {tags}created: {memory.created_at[:10]} -->")


def print_heading(memory: Memory, place: str = "") -> None:
    """Print the line that names a memory, after its place among several."""
    id, kind = safe(memory.id), safe(memory.kind)
    start = f"{place}{id}  {kind}  {memory.state}  "
    lines = wrapped(safe(memory.title), start, "  ")
    print(f"{place}{bold(id)}  {kind}  {colour(memory.state, memory.state)}  {lines.removeprefix(start)}")


def print_facts(facts: Mapping[str, object]) -> None:
    """Print those of the facts that say something, a line each."""
    for name, value in facts.items():
        if value:
            print(wrapped(f"{name}: {safe(str(value))}", "  ", "    "))


def print_body(memory: Memory) -> None:
    """Print the text of a memory as it is laid out, indented; one that only repeats the title is not said twice."""
    if memory.body.rstrip(".!?") != memory.title:
        print()
        for line in clean(memory.body).split("\n"):
            laid_out = f"  {line.expandtabs(4)}".rstrip()
            text = laid_out.lstrip()
            indent = laid_out[: len(laid_out) - len(text)]
            print(wrapped(text, indent, indent))


def print_shown_to(attempts: Sequence[Row]) -> None:
    """Print the attempts a memory was shown to, and how they went."""
    if attempts:
        rows = [
            (
                f"{row['run_id']}/{row['iteration']}",
                when(row["started_at"]),
                row["task_id"],
                row["outcome"] or "running",
            )
            for row in attempts
        ]
        print()
        print_table(("SHOWN TO", "WHEN", "TASK", "OUTCOME"), rows)


def origin(memory: Memory) -> str:
    """Say where a memory comes from."""
    loops = ", ".join(memory.origin_loops[:SHOWN_LOOPS])
    more = len(memory.origin_loops) - SHOWN_LOOPS
    parts = (
        memory.source,
        memory.hat and f"{memory.hat} role",
        memory.origin_task and f"task {memory.origin_task}",
        memory.origin_run and f"{memory.origin_run}",
        memory.origin_attempt and f"attempt {memory.origin_attempt}",
        memory.origin_session and f"session {memory.origin_session}",
        loops and f"loops {loops}" + (f" and {more} more" if more > 0 else ""),
    )
    return ", ".join(str(part) for part in parts if part)


def _facts_of_origin(memory: Memory) -> dict[str, object]:
    often = f", {memory.support} times by now" if memory.support > 1 else ""
    return {
        "From": origin(memory),
        "Learned": when(memory.created_at) + often,
        "Changed": memory.updated_at != memory.created_at and when(memory.updated_at),
    }


def _confidence(memory: Memory, now: float) -> str:
    if round(now, 2) == round(memory.confidence, 2):
        return f"{now:.2f}"
    return f"{now:.2f}, down from {memory.confidence:.2f}: nothing has spoken for it for a while"


def _uses(memory: Memory) -> str:
    if not memory.uses:
        return "never"
    rate = "" if memory.success_rate is None else f", {memory.success_rate:.0%} of them in attempts that went well"
    last = f", last {when(memory.used_at)}" if memory.used_at else ""
    return plural(memory.uses, "time") + last + rate


def when(timestamp: str) -> str:
    """Give a timestamp for people: the local day, with its year, and time of day."""
    import time
    from calendar import timegm

    try:
        seconds = timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError):  # an imported one may be before any clock's time
        return timestamp[:16].replace("T", " ")


# --- history -----------------------------------------------------------------------------


def print_history(events: Sequence[MemoryEvent]) -> None:
    """Print what happened to a memory, oldest first, what changed on lines of its own."""
    room = terminal_width() - WIDEST_EVENT
    rows, below = [], []
    for event in events:
        why = _why(event)
        fits = len(safe(why)) <= room
        rows.append((event.seq, when(event.at), event.who, event.what, (fits and why) or "-"))
        below.append([*changes_of(event, WIDEST_CHANGE_IN_HISTORY), *[f"why: {why}"] * (not fits)])
    print_table(("EVENT", "WHEN", "WHO", "WHAT", "WHY"), rows, below)


def print_confidence(points: Sequence[Point]) -> None:
    """Print how sure a memory was over time, oldest first."""
    rows = [
        (when(one.at), f"{one.confidence:.2f}", "█" * (round(BAR * one.confidence) or 1), safe(one.what))
        for one in points
    ]
    print_table(("WHEN", "SURE", "", "WHAT"), rows)


def change_of(event: MemoryEvent) -> str:
    """Say on one line what an event changed, from what to what, and why; a title mostly follows from the text."""
    changes = changes_of(event, WIDEST_CHANGE)
    if any(change.startswith("content: ") for change in changes):
        changes = [change for change in changes if not change.startswith("title: ")]
    return "; ".join(filter(None, [*changes, _why(event)])) or "-"


def _why(event: MemoryEvent) -> str:
    undone = f"takes back event {event.undoes}" if event.undoes else ""
    return "; ".join(filter(None, [undone, event.why]))


def changes_of(event: MemoryEvent, width: int) -> list[str]:
    """Give what an event changed, a line for each field; moments and marks say little, and the reason is said once."""
    changes = changed_fields(event)
    if changes.get("state_reason", (None, None))[1] == event.why:
        changes.pop("state_reason", None)
    return [
        f"{FIELDS.get(name, name)}: {_short(was, became, width)} → {_short(became, was, width)}"
        for name, (was, became) in changes.items()
        if name not in UNTOLD
    ]


def changed_fields(event: MemoryEvent) -> dict[str, tuple[object, object]]:
    """Give the fields an event changed, each as it was and as it became."""
    import json

    was, became = json.loads(event.was or "{}"), json.loads(event.became or "{}")
    return {name: (_plain(was.get(name)), _plain(became[name])) for name in became}


def _plain(stored: object) -> object:
    """Give a list that is stored as text as words with commas."""
    import json

    if isinstance(stored, str) and stored.startswith("["):
        try:
            return ", ".join(map(str, json.loads(stored)))
        except ValueError:
            pass
    return stored


def _short(value: object, other: object, width: int) -> str:
    """Give a value in a few words: of a long text, where it begins to differ from the other."""
    if value is None or value == "":
        return "none"
    if isinstance(value, float):
        return f"{value:.2f}"
    text, beside = str(value), str(other)
    same = 0
    if len(text) > width:
        while same < min(len(text), len(beside)) and text[same] == beside[same]:
            same += 1
    start = max(0, same - width // 4)
    return one_line(clean(("…" if start else "") + text[start : start + width * 2]), width)


# --- why, and what it all adds up to ---------------------------------------------------------


def print_why(why: Why) -> None:
    """Print what a memory's score for a task is made of, its place, and whether a prompt shows it."""
    print_heading(why.memory)
    if why.score is not None:
        print(f"  Score for {why.task_id}: {why.score:.2f}, place {why.rank:,} of {why.ranked:,}")
        found = shares(why)
        most = max((abs(float(share)) for _, share in found), default=0.0) or 1.0
        for name, share in found:
            bar = "█" * (round(BAR * abs(float(share)) / most) or 1)
            line = f"    {name:10}  {share:>5}  {bar:{BAR}}  {MEANINGS.get(name, '')}"
            print(cut_to(line.rstrip(), terminal_width()))
    if why.is_shown:
        print(f"  Shown to the next attempt at {why.task_id}.")
    else:
        print(wrapped(f"Not shown to the next attempt at {why.task_id}: {safe(why.reason)}.", "  ", "    "))


def print_in_brief(view: MemoryView, events: Sequence[MemoryEvent]) -> None:
    """Print where a memory comes from, what happened to it, and how it went where it was shown."""
    memory = view.memory
    print_heading(memory)
    print_facts({**_facts_of_origin(memory), "Confidence": _confidence(memory, view.confidence), "Used": _uses(memory)})
    print()
    print_history(events[-HISTORY_IN_BRIEF:])
    if len(events) > HISTORY_IN_BRIEF:
        print(f"{plural(len(events) - HISTORY_IN_BRIEF, 'earlier event')}: ralph memory history {safe(memory.id)}")
    print_shown_to(view.shown_to)
    if not view.shown_to:
        print("\nIt was not shown to any attempt yet.")


def print_stats(stats: Stats) -> None:
    """Print what the memories add up to."""
    rate = "" if stats.average_success_rate is None else f"{stats.average_success_rate:.0%}"
    print(f"{plural(stats.total, 'memory')}, used {plural(stats.uses, 'time')}")
    print_facts(
        {
            "By state": _counts(stats.by_state),
            "By type": _counts(stats.by_kind),
            "By task type": _counts({name or "any": count for name, count in stats.by_task_type.items()}),
            "By source": _counts(stats.by_source),
            "Average confidence": stats.total and f"{stats.average_confidence:.2f}",
            "Average success rate": rate,
            "Most used": stats.most_used and f"{stats.most_used.title} ({stats.most_used.id})",
            "Last changed": stats.last_updated and when(stats.last_updated),
        }
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
