"""Passages of past work in `ralph memory search --episodes`, `show` and `why`, and in `ralph journal show`."""

from __future__ import annotations

import sys

from ralph.cli.journal import SESSION_PREFIX
from ralph.cli.memory import DEFAULT_SEARCH_LIMIT
from ralph.cli.memory_text import (
    TOLD_AS_RULE,
    format_datetime,
    print_attempts,
    print_facts,
    print_rank,
    print_scored_hits,
    score_fields,
)
from ralph.cli.output import bold, pluralize, print_json, print_table, printable
from ralph.core.errors import TranscriptNotFoundError, UsageError
from ralph.core.records import EpisodeKind, record_fields
from ralph.core.text import clean, one_line
from ralph.memory.capture.passages import SPEAKER_LABELS, spoken_parts
from ralph.memory.lifecycle.supersession import decode_rules
from ralph.memory.recall.past_work import attribution, excerpt, render_episodes
from ralph.store.episodes import EpisodeFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.core.records import Episode, RecalledEpisode
    from ralph.loop.prompts import EpisodeExplanation
    from ralph.project import Project

EXCERPT_LENGTH = 240
"""Maximum length of an excerpt of a passage, in characters."""
_MEMORY_OPTIONS = ("kinds", "tags", "min_confidence", "source", "ranker")
"""Destinations of options that only memories have."""
NO_EPISODES = "No past work is kept yet. Import sessions and commits with: ralph import"


# --- search ---------------------------------------------------------------------------


def search_episodes(project: Project, args: argparse.Namespace) -> None:
    """Search past work, best match first; without words, list the newest passages."""
    _check_options(args)
    limit = DEFAULT_SEARCH_LIMIT if args.format == "table" and not args.all else sys.maxsize - 1
    query = " ".join(args.query)
    hits = project.episodes.search(query, limit + 1, _filter_from(args), task_id=args.task)
    shown = hits[:limit]
    episodes = [hit.episode for hit in shown]
    needs_reasons = args.task and (args.explain or args.format == "json")
    explanations = project.prompts.explain_episodes(episodes, args.task) if needs_reasons else []
    if args.format == "json":
        scores = score_fields(shown, explanations)
        print_json([_fields(hit.episode) | scored for hit, scored in zip(shown, scores, strict=True)])
    elif args.format == "markdown":
        print(render_episodes(episodes), end="")
    elif shown:
        _print_hits(shown, explanations, query, with_scores=args.explain)
        if len(hits) > len(shown):
            print(f"Showing the {'best' if query or args.task else 'newest'} {len(shown)}. Use --all to show all.")
    else:
        print("No passage matches." if project.episodes.counts() else NO_EPISODES)


def _check_options(args: argparse.Namespace) -> None:
    if not args.episodes:
        raise UsageError("--kind is for passages of past work: add --episodes. The type of memories is --type.")
    if given := [name for name in _MEMORY_OPTIONS if getattr(args, name)]:
        option = {"kinds": "type"}.get(given[0], given[0]).replace("_", "-")
        raise UsageError(f"--{option} is for memories: leave out --{option} or --episodes.")


def _filter_from(args: argparse.Namespace) -> EpisodeFilter:
    return EpisodeFilter(kinds=(args.kind,) if args.kind else (), after=args.after or "", before=args.before or "")


def _print_hits(
    hits: Sequence[RecalledEpisode], explanations: Sequence[EpisodeExplanation], query: str, *, with_scores: bool
) -> None:
    texts = [excerpt(hit.episode, query, EXCERPT_LENGTH) for hit in hits]
    if with_scores:
        labels = [
            (hit.episode.id, f"{attribution(hit.episode)}: {text}") for hit, text in zip(hits, texts, strict=True)
        ]
        print_scored_hits("PASSAGE", labels, hits, explanations)
        return
    rows = [(hit.episode.id, attribution(hit.episode)) for hit in hits]
    print_table(("ID", "FROM"), rows, [[text] for text in texts])


def _fields(episode: Episode) -> dict[str, object]:
    rules = [rule.text for rule in decode_rules(episode.rules)]
    return record_fields(episode) | {"from": attribution(episode), "rules": rules}


# --- one passage ----------------------------------------------------------------------


def show_episode(project: Project, args: argparse.Namespace) -> None:
    """Show a passage in full."""
    episode = project.episodes.get(args.memory)
    shown_to = project.episodes.shown_to(episode.id)
    if args.format == "json":
        print_json(_fields(episode) | {"shown_to": shown_to})
    elif args.format == "markdown":
        print(render_episodes([episode]), end="")
    else:
        _print_heading(episode)
        _print_facts(episode)
        print()
        _print_spoken(episode, "  ")
        print_attempts(shown_to)


def explain_episode(project: Project, args: argparse.Namespace) -> None:
    """Explain where a passage comes from and which prompts quoted it, or how it scores for a task."""
    episode = project.episodes.get(args.memory)
    if args.prompt:
        raise UsageError("Past work is explained for a task only: use --task.", code="invalid-option")
    if not args.task:
        shown_to = project.episodes.shown_to(episode.id)
        is_rule = project.memory.rules.is_told(episode.id)
        if args.format == "json":
            print_json({"episode": _fields(episode), "is_rule": is_rule, "shown_to": shown_to})
            return
        _print_heading(episode)
        if is_rule:
            print(f"  {TOLD_AS_RULE}")
        _print_facts(episode)
        print_attempts(shown_to)
        if not shown_to and not is_rule:
            print("\nNo prompt of a task has included it yet.")
        return
    (why,) = project.prompts.explain_episodes([episode], args.task)
    if args.format == "json":
        fields = record_fields(why) | {"episode": _fields(episode), "because": dict(why.because)}
        print_json({"id": episode.id, "shown": why.is_shown} | fields)
    else:
        _print_heading(episode)
        print_rank(why, with_score=args.explain)


def _print_heading(episode: Episode) -> None:
    print(f"{bold(printable(episode.id))}  {printable(attribution(episode))}")


def _print_facts(episode: Episode) -> None:
    is_commit = episode.kind is EpisodeKind.COMMIT
    print_facts(
        {
            "Source": episode.source,
            "Author" if is_commit else "Agent": episode.agent,
            "When": format_datetime(episode.at),
            "Place": "" if is_commit else f"passage {episode.position + 1:,} of its transcript",
            "Branch": episode.branch,
            "Files": ", ".join(episode.files),
            "Links": ", ".join(episode.links),
        }
    )


# --- transcripts ----------------------------------------------------------------------


def show_transcript(project: Project, args: argparse.Namespace) -> None:
    """Print all passages of an attempt or a session, in order."""
    passages = project.episodes.transcript(*_source_of(project, args.entry))
    if args.format == "json":
        print_json(passages)
        return
    title = attribution(passages[0])
    print(bold(printable(f"{title[0].upper()}{title[1:]}, {pluralize(len(passages), 'passage')}")))
    for episode in passages:
        files = f" {printable(', '.join(episode.files))}" if episode.files else ""
        print(f"\n[{format_datetime(episode.at)}]{files}")
        _print_spoken(episode)


def show_imported_session(project: Project, id: str, args: argparse.Namespace) -> bool:
    """Print what is known of a session that was imported; return whether there is such a session."""
    try:
        passages = project.episodes.transcript(EpisodeKind.SESSION, id)
    except TranscriptNotFoundError:
        return False
    first, last = passages[0], passages[-1]
    if args.format == "json":
        times = {"started_at": first.at, "last_at": last.at}
        print_json({"id": first.source, "agent": first.agent, **times, "passages": len(passages)})
        return True
    told = f"{SESSION_PREFIX}{first.source}: {first.agent}, started {format_datetime(first.at)}, imported"
    print(printable(told))
    command = f"ralph journal show {printable(args.entry)} --transcript"
    print(f"{pluralize(len(passages), 'passage')}; to read them: {command}")
    _, text = spoken_parts(first)[0]
    print(f"\nFirst prompt:\n{printable(one_line(text))}")
    return True


def _source_of(project: Project, entry: str) -> tuple[EpisodeKind, str]:
    """Return the kind and source of a journal entry. What cannot be an attempt is the id of a session."""
    if entry.startswith(SESSION_PREFIX):
        return EpisodeKind.SESSION, entry.removeprefix(SESSION_PREFIX)
    if "/" not in entry and not entry.isdecimal():
        return EpisodeKind.SESSION, entry
    attempt = project.journal.get(entry)
    return EpisodeKind.ATTEMPT, f"{attempt.run_id}/{attempt.iteration}"


def _print_spoken(episode: Episode, indent: str = "") -> None:
    """Print the text of a passage with its speakers."""
    if episode.kind is EpisodeKind.COMMIT:
        _print_lines(episode.text, indent)
        return
    for speaker, text in spoken_parts(episode):
        print(f"{indent}{bold(SPEAKER_LABELS[speaker] + ':')}")
        _print_lines(text, indent + "  ")


def _print_lines(text: str, indent: str) -> None:
    for line in clean(text).split("\n"):
        print(f"{indent}{line.expandtabs(4)}".rstrip())
