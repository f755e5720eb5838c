"""`ralph learn compile`: show what would be written, and write it when a person agrees."""

from __future__ import annotations

import difflib
import shlex

from ralph.cli.interactive import confirm
from ralph.cli.output import pluralize, printable, wrap_line
from ralph.core.agents import AGENTS
from ralph.core.guides import SKILL
from ralph.core.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.memory.guide_service import GuideProposal
    from ralph.project import Project

SHOWN_TOPICS = 5


def compile_memories(project: Project, args: argparse.Namespace) -> int:
    """Show the changes to a guide or a skill, and write them."""
    if args.to == SKILL and not args.topic and _print_topics(project):
        return 0
    proposal = project.guides.propose(args.to or "", args.topic, dry_run=args.dry_run)
    if proposal is None or not proposal.has_section:
        print(f"Fewer than two confirmed memories {'are about that' if args.topic else 'are rules for all work'}.")
        _print_topics(project)
    if proposal is None:
        return 0
    for line in proposal.outdated:
        print(wrap_line(printable(f"{line.memory_id} {line.why}"), "  outdated: ", "            "))
    for id, why in proposal.left_out:
        print(wrap_line(printable(f"{id} {why}"), "  left out: ", "            "))
    if proposal.after == (proposal.before or b""):
        print(f"{proposal.path} is up to date ({pluralize(len(proposal.memories), 'memory')}).")
        return 0
    _print_diff(proposal)
    if args.dry_run:
        print("Nothing was written.")
        return 0
    if not args.yes and not confirm(f"Write {proposal.path}?", "Use --yes to write it, or --dry-run to only see it."):
        return 1
    project.guides.write(proposal)
    print(f"{proposal.path} is written ({pluralize(len(proposal.memories), 'memory')}).{_effect(proposal)}")
    return 0


def _print_diff(proposal: GuideProposal) -> None:
    before, after = (
        (part or b"").decode("utf-8", "replace").splitlines() for part in (proposal.before, proposal.after)
    )
    old = proposal.path if proposal.before is not None else "/dev/null"
    for line in difflib.unified_diff(before, after, old, proposal.path, lineterm=""):
        print(clean(line))


def _effect(proposal: GuideProposal) -> str:
    readers = [spec.description for spec in AGENTS.values() if spec.is_connectable and proposal.path in spec.guides]
    return f" Prompts of {', '.join(readers)} no longer repeat them." if readers else ""


def _print_topics(project: Project) -> bool:
    """Print what confirmed memories have in common; return whether there is anything."""
    topics = list(project.guides.topics().items())[:SHOWN_TOPICS]
    if topics:
        print(f"Topics of several confirmed memories: {printable(', '.join(f'{name} ({n})' for name, n in topics))}")
        print(f"To compile one: ralph learn compile --to SKILL --topic {printable(shlex.quote(topics[0][0]))}")
    return bool(topics)
