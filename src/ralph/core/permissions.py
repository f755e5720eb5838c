"""Which operations agents may do: one table for the command line, HTTP, MCP, hooks and the Python API.

Every public method that changes something calls `Actor.require` with the name of an operation. People may do all of
them. docs/security.md shows the table.
"""

from __future__ import annotations

from ralph.core.errors import UsageError
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.actor import Actor

ASK_A_PERSON = "; ask a person to run this."


@record
class Operation:
    """Something that changes a project, and whether agents may do it."""

    name: str
    action: str
    """Completes "Agents cannot …"."""
    in_session: bool = False
    """Whether agents in a session of the loop may: those that `ralph run` started, their gates and reviews."""
    outside: bool = False
    """Whether agents outside the loop may, which use hooks and MCP."""
    instead: str = ASK_A_PERSON
    """Ends the message for agents that may not."""
    condition: str = ""
    """Limit for agents that may."""


def _for_people(name: str, action: str, instead: str = ASK_A_PERSON) -> Operation:
    return Operation(name=name, action=action, instead=instead)


def _for_all(name: str, action: str, condition: str = "") -> Operation:
    return Operation(name=name, action=action, in_session=True, outside=True, condition=condition)


_NOT_A_PERSONS = "only memories that no person has added or changed; a person can undo it"
_NO_PARTS = "during a run, none below a task that a person wrote; the loop splits those"

OPERATIONS = {
    operation.name: operation
    for operation in (
        _for_all("task.add", "add tasks", _NO_PARTS),
        _for_all("task.import", "import tasks", f"all as pending; {_NO_PARTS}"),
        _for_all("task.log", "write into the log of a task"),
        Operation(
            name="task.report-failure",
            action="report a failure by command",
            outside=True,
            instead=": write a <failure-report> in the answer.",
        ),
        Operation(
            name="task.claim",
            action="claim tasks",
            outside=True,
            instead=": the loop gives every session its task.",
            condition="only while no run is active",
        ),
        Operation(
            name="task.done",
            action="mark tasks as done",
            outside=True,
            instead=": the loop does, once the gates pass. End the session with the task-done sigil.",
            condition="only while no run is active, and through the gates",
        ),
        _for_people("task.fail", "mark tasks as failed", ": end the session with the task-failed sigil."),
        _for_people("task.update", "change tasks"),
        _for_people("task.needs", "change what a task depends on"),
        _for_people("task.block", "block tasks"),
        _for_people("task.reset", "reset tasks"),
        _for_people("task.approve", "approve work that waits for a person"),
        Operation(
            name="task.answer",
            action="answer questions to a person",
            outside=True,
            condition="only while no run is active; recorded as passed on by an agent",
        ),
        _for_people("task.allow", "decide which protected files a task may change"),
        _for_people("task.delete", "delete tasks"),
        _for_all("feature.add", "add features"),
        _for_people("feature.update", "change features"),
        _for_people("feature.plan", "let an agent plan a feature, or accept its plan"),
        _for_people("feature.delete", "delete features"),
        _for_all("memory.add", "add memories"),
        _for_all("memory.edit", "edit memories", _NOT_A_PERSONS),
        _for_all("memory.confirm", "confirm that memories still hold"),
        _for_all("memory.delete", "delete memories", _NOT_A_PERSONS),
        _for_people("memory.change-a-persons", "change memories that a person has added or changed"),
        _for_all("memory.import", "import memories", "they are quarantined until a person reviews them"),
        _for_people("memory.merge", "import the memories of another project"),
        _for_all("memory.embed", "compute embeddings"),
        _for_all("memory.check-staleness", "check memories for staleness"),
        _for_people("memory.pin", "pin memories to every prompt"),
        _for_people("memory.unpin", "unpin memories"),
        _for_people("memory.keep", "decide which of contradicting memories holds"),
        _for_people("memory.undo", "undo changes"),
        _for_people("memory.cleanup", "clean up the memory"),
        _for_people("memory.clear", "clear the memory"),
        _for_people("memory.consolidate", "consolidate memories"),
        _for_people("memory.share", "share memories with other projects"),
        _for_people("memory.unshare", "stop sharing memories with other projects"),
        _for_people("memory.init", "replace the memory file"),
        _for_people("memory.files", "decide on memory files that went back to an older version"),
        _for_people("episodes.import", "import past sessions and commits"),
        _for_people("episodes.forget", "erase past work"),
        _for_all("episodes.capture", "keep what is said in a session"),
        _for_all("learn.extract", "extract learnings from a run", "they are staged"),
        _for_all("learn.handover", "extract memories from a hand-over"),
        _for_all("learn.validate", "validate staged learnings by the rules"),
        _for_people("learn.import", "import the state of another loop"),
        _for_people("learn.edit", "edit staged learnings"),
        _for_people("learn.promote", "promote learnings"),
        _for_people("learn.accept", "accept learnings"),
        _for_people("learn.reject", "reject learnings"),
        _for_people("learn.reflect", "let an agent reflect on past work"),
        _for_people("learn.apply", "apply or discard what a reflection proposed"),
        _for_people("learn.compile", "write guides and skills from memories"),
        _for_people("learn.clear", "clear the staging area"),
        _for_people("run.start", "start or resume runs"),
        _for_people("run.steer", "stop, pause or continue runs"),
        _for_people("notify.test", "send notifications"),
        _for_people("project.use-other", "work on another project"),
        _for_people("project.rename", "rename projects"),
        _for_people("project.remove", "remove projects"),
        _for_people("backup.create", "make backups, which replace the oldest ones"),
        _for_people("backup.restore", "restore a backup"),
        _for_people("store.copy", "copy projects between databases"),
        _for_all("store.reindex", "rebuild the search indexes"),
        _for_all("init", "set up a project in a database file of its own"),
        _for_people("init.store", "choose the database of a project"),
        _for_people("trust", "trust a directory"),
        _for_people("setup", "connect or disconnect an agent"),
        _for_people("serve", "start the dashboard or see its token"),
    )
}
"""All operations by name."""


def check_agent(actor: Actor, name: str) -> None:
    """Raise `UsageError` unless an agent may do an operation."""
    operation = OPERATIONS[name]
    if not (operation.in_session if actor.is_loop_session else operation.outside):
        message = f"Agents cannot {operation.action}{operation.instead}{actor.doubt}"
        raise UsageError(message, code="person-required")
