"""Endpoints for standing rules: pin, unpin, list, and decide on what contradicts each other."""

from __future__ import annotations

from msgspec import Struct

from ralph.core.records import StatedRule
from ralph.project import Project
from ralph.web.api.filters import ProjectQuery, Reason, selected_project
from ralph.web.endpoints import EndpointGroup, Listing, RequestBody
from ralph.web.schemas import ChangedMemory, PublicMemory, changed_memory, public_memory

calls = EndpointGroup("memories")


class Pinning(RequestBody):
    """Reason for pinning or unpinning a memory, or for keeping it."""

    why: Reason = ""


@calls.post("/api/memories/{id}/pin")
def pin_memory(project: Project, id: str, query: ProjectQuery, body: Pinning) -> Listing[ChangedMemory]:
    """Pin a memory to every prompt; rules that a person stated in a passage (`ep-…`) become pinned memories."""
    pinned = selected_project(project, query.project).memory.rules.pin(id, body.why)
    return Listing([changed_memory(one) for one in pinned])


@calls.post("/api/memories/{id}/unpin")
def unpin_memory(project: Project, id: str, query: ProjectQuery, body: Pinning) -> ChangedMemory:
    """Unpin a memory."""
    return changed_memory(selected_project(project, query.project).memory.rules.unpin(id, body.why))


class KeptMemory(Struct):
    """Memory that took the place of those that contradicted it."""

    memory: PublicMemory
    superseded: list[PublicMemory]
    change_id: str
    """Id of the change, for undo."""


@calls.post("/api/memories/{id}/keep")
def keep_memory(project: Project, id: str, query: ProjectQuery, body: Pinning) -> KeptMemory:
    """Let a memory, or what a person stated in a passage, take the place of memories that contradict it."""
    kept, superseded, change = selected_project(project, query.project).memory.rules.keep(id, body.why)
    return KeptMemory(public_memory(kept), [public_memory(one) for one in superseded], change)


class RuleStatement(Struct):
    """Rule as it was stated once."""

    id: str
    """Memory or passage that states it."""
    text: str
    at: str


class RuleForAllWork(RuleStatement):
    """Rule that every prompt tells, in its newest form."""

    is_pinned: bool
    stated_in: list[str]
    """Sessions and memories that state it."""
    superseded: list[RuleStatement]
    """Earlier forms, newest first."""
    conflicts: list[RuleStatement]


class RuleConflict(Struct):
    """Rules that contradict each other although both are in use."""

    earlier: RuleStatement
    later: RuleStatement


@calls.get("/api/projects/{project}/rules")
def list_rules(project: Project, name: str) -> Listing[RuleForAllWork]:
    """List the rules for all work, in the order in which prompts tell them."""
    rules = selected_project(project, name).memory.rules.standing()
    return Listing(
        [
            RuleForAllWork(
                id=rule.stated.id,
                text=rule.stated.rule.text,
                at=rule.stated.at,
                is_pinned=rule.stated.is_pinned,
                stated_in=list(rule.sources),
                superseded=[_statement(one) for one in rule.superseded],
                conflicts=[_statement(one) for one in rule.conflicts],
            )
            for rule in rules
        ]
    )


@calls.get("/api/projects/{project}/conflicts")
def list_conflicts(project: Project, name: str) -> Listing[RuleConflict]:
    """List rules that contradict each other, for a person to decide."""
    found = selected_project(project, name).memory.rules.conflicts()
    return Listing([RuleConflict(_statement(one.earlier), _statement(one.later)) for one in found])


def _statement(stated: StatedRule) -> RuleStatement:
    return RuleStatement(id=stated.id, text=stated.rule.text, at=stated.at)
