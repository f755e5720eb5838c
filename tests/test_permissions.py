"""Everything that changes something is an operation of the table of permissions, whichever door it is reached by."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from ralph import maintenance, trust, workspace
from ralph.cli import COMMANDS, build_parser
from ralph.core.actor import Actor
from ralph.core.errors import UsageError
from ralph.core.permissions import OPERATIONS
from ralph.integrations import setup
from ralph.integrations.mcp.tools import TOOLS
from ralph.loop.backlog import BacklogService
from ralph.loop.features import FeatureService
from ralph.loop.journal import JournalService
from ralph.loop.notify import sending
from ralph.loop.outside import OutsideWorkService
from ralph.loop.overview import OverviewService
from ralph.loop.prompts import PromptService
from ralph.loop.questions import QuestionService
from ralph.loop.runs import RunService
from ralph.loop.stats import Stats
from ralph.loop.tasks import TaskService
from ralph.memory.episodes import EpisodeService
from ralph.memory.files import MemoryFiles
from ralph.memory.guide_service import GuideService
from ralph.memory.import_export import ImportExport
from ralph.memory.learning_service import LearningService
from ralph.memory.maintenance import MemoryMaintenance
from ralph.memory.rule_service import RuleService
from ralph.memory.service import MemoryService
from ralph.memory.sessions import SessionService
from ralph.memory.sharing import SharingService
from ralph.memory.watch import MemoryEvents
from ralph.project import Project, SyncedProject
from ralph.projects import ProjectService
from ralph.web.api import ENDPOINTS
from ralph.web.server import WebServer

SERVICES: tuple[type | ModuleType, ...] = (
    *(Project, SyncedProject, TaskService, FeatureService, MemoryService, MemoryMaintenance, SharingService),
    *(MemoryEvents, LearningService, ImportExport, SessionService, RunService, PromptService, JournalService, Stats),
    *(EpisodeService, RuleService, GuideService, QuestionService, BacklogService, OutsideWorkService),
    *(OverviewService, ProjectService, MemoryFiles, WebServer, maintenance, trust, workspace, setup, sending),
)
READS = {
    "Project": "attention close open overview synced",
    "TaskService": "count_ready counts get graph list read_log tree",
    "FeatureService": "counts list read_parts show",
    "MemoryService": "confidence_over_time facets get guided history list most_trusted prime recall recall_within"
    " search show stats",
    "MemoryMaintenance": "verify",
    "RuleService": "conflicts is_told primer section standing",
    "GuideService": "outdated topics",
    "SharingService": "is_shared list",
    "MemoryEvents": "follow last since",
    "LearningService": "counts list proposals",
    "ImportExport": "bundle export together with_history",
    "SessionService": "get latest list prompt_context search start_context started_at task_context",
    "RunService": "choices events get last_event list memories missed_until report takes_model",
    "PromptService": "explain explain_all explain_episodes explain_typed plan preview ranking",
    "EpisodeService": "available counts get search shown_to timeline transcript",
    "JournalService": "attempts diff failure_counts failure_groups failures failures_of get list search task_diff",
    "Stats": "decisions estimate estimates failures lift memory memory_growth models of runs",
    "ProjectService": "close list open show",
    "WebServer": "run stop",
    "ralph.maintenance": "check_project copy_folders count_backups find_project is_on_server list_backups"
    " preview_restore show_store verify_backups",
    "ralph.trust": "review_trust",
    "ralph.workspace": "actor_at actor_for_file agent_at find_root find_worktree is_project main_worktree"
    " open_own_store open_project_store own_file refuse_tracked shared_project store_url"
    " untrusted_store with_known_password",
    "ralph.integrations.setup": "check_inside_project is_connected originals_for plan_removal plan_setup"
    " plugin_directory setup_options",
}
"""What changes nothing."""
FOR_ALL = {
    "SessionService": "record_compaction record_end record_prompt record_start",
    "MemoryFiles": "check held sync",
    "EpisodeService": "trim",
    "ImportExport": "save",
    "ralph.loop.notify.sending": "send_notification",
}
"""What hooks report of a session, files kept in step, and an export written where its reader wants it."""
BELOW = {
    "SessionService": "learn_from_talk store_message store_statements",  # MemoryService.learn
    "ProjectService": "remove",  # ProjectService.check_removal
    "ralph.trust": "record_init",  # init_project
    "ralph.workspace": "change_settings save_location",  # init_project, ProjectService.rename
}
"""What is checked by the methods that it calls, or that alone call it."""

COMMAND_OPERATIONS = {
    "init": "init init.store",
    "run": "run.start",
    "stop": "run.steer",
    "pause": "run.steer",
    "resume": "run.steer",
    "task add": "task.add task.allow",
    "task update": "task.update task.allow",
    "task move": "task.update",
    "task split": "task.update",
    "task deps": "task.needs",
    "task done": "task.done",
    "task fail": "task.fail",
    "task block": "task.block",
    "task reset": "task.reset",
    "notify test": "notify.test",
    "task approve": "task.approve",
    "task answer": "task.answer",
    "task delete": "task.delete",
    "task log": "task.log",
    "task import": "task.import",
    "feature add": "feature.add",
    "feature update": "feature.update",
    "feature delete": "feature.delete",
    "import": "episodes.import memory.import",
    "forget": "episodes.forget",
    "memory add": "memory.add",
    "memory edit": "memory.edit memory.change-a-persons",
    "memory confirm": "memory.confirm",
    "memory delete": "memory.delete memory.change-a-persons",
    "memory init": "memory.init",
    "memory files": "memory.files",
    "trust": "trust",
    "memory pin": "memory.pin",
    "memory unpin": "memory.unpin",
    "memory conflicts": "memory.keep",
    "memory undo": "memory.undo",
    "memory clear": "memory.clear",
    "memory cleanup": "memory.cleanup",
    "memory consolidate": "memory.consolidate",
    "memory embed": "memory.embed",
    "memory import": "memory.import",
    "memory merge": "memory.merge",
    "memory share": "memory.share",
    "memory unshare": "memory.unshare",
    "learn extract": "learn.extract learn.import learn.handover",
    "learn validate": "learn.validate",
    "learn review": "learn.accept learn.reject learn.edit",
    "learn promote": "learn.promote",
    "learn reflect": "learn.reflect",
    "plan": "feature.plan",
    "learn proposals": "learn.apply",
    "learn compile": "learn.compile",
    "learn clear": "learn.clear",
    "project rename": "project.rename",
    "project remove": "project.remove",
    "backup": "backup.create",
    "restore": "backup.restore",
    "store copy": "store.copy",
    "doctor": "store.reindex",
    "mcp": "serve",
    "serve": "serve",
    "setup": "setup",
}
"""Operations of the commands that change something."""
READING_COMMANDS = {
    *("status", "watch", "report", "prompt", "stats", "hook", "demo", "completion"),
    *("task list", "task show", "task diff", "task tree", "feature list", "feature show"),
    *("memory search", "memory list", "memory show", "memory prime", "memory why", "memory history", "memory verify"),
    *(
        "memory stats",
        "memory rules",
        "memory export",
        "memory watch",
        "learn list",
        "project list",
        "project show",
        "store show",
    ),
    *("journal list", "journal search", "journal show", "failures list", "failures show", "failures stats"),
}
"""Commands that change nothing, but for `hook`, which reports a session, and `demo`, which works in its own project."""


def public_functions(owner: type | ModuleType) -> dict[str, FunctionType]:
    """Return the public functions of a class or module, without those it imports."""
    found = {}
    for name, member in inspect.getmembers(owner):
        function = getattr(member, "__func__", member)
        if (
            inspect.isfunction(function)
            and not name.startswith("_")
            and (inspect.isclass(owner) or function.__module__ == owner.__name__)
        ):
            found[name] = function
    return found


def operations_of(function: Callable[..., Any]) -> set[str]:
    """Return the operations that a function asks for."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return {
        str(call.args[0].value)
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in ("require", "_require")
        and isinstance(call.args[0], ast.Constant)
    }


def called_names(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def name_of(owner: type | ModuleType) -> str:
    return owner.__name__


def checked_methods() -> set[str]:
    below = {name for names in BELOW.values() for name in names.split()}
    return below | {
        name for owner in SERVICES for name, function in public_functions(owner).items() if operations_of(function)
    }


@pytest.mark.parametrize("owner", SERVICES, ids=name_of)
def test_what_a_service_changes_is_an_operation(owner: type | ModuleType) -> None:
    name = name_of(owner)
    excepted = {word for table in (READS, FOR_ALL, BELOW) for word in table.get(name, "").split()}
    if owner is SyncedProject:
        excepted |= set(READS["Project"].split())

    unchecked = {method for method, function in public_functions(owner).items() if not operations_of(function)}

    assert unchecked == excepted & set(public_functions(owner))
    assert excepted <= set(public_functions(owner)), "the table names what is gone"


def test_each_operation_is_asked_for_and_in_the_table() -> None:
    functions = [
        function
        for owner in SERVICES
        for _, function in inspect.getmembers(owner, inspect.isfunction)
        if function.__module__.startswith("ralph.")
    ]
    asked = set().union(*map(operations_of, functions))

    assert asked == set(OPERATIONS)


def test_what_a_command_changes_is_an_operation() -> None:
    commands = {leaf for command in COMMANDS for leaf in _leaves(command, _choices(build_parser(command))[command])}

    assert commands == READING_COMMANDS | set(COMMAND_OPERATIONS)
    assert {name for names in COMMAND_OPERATIONS.values() for name in names.split()} <= set(OPERATIONS)


def _leaves(name: str, parser: Any) -> set[str]:
    actions = _choices(parser)
    return {leaf for action, one in actions.items() for leaf in _leaves(f"{name} {action}", one)} or {name}


def _choices(parser: Any) -> dict[str, Any]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(groups[0].choices) if groups else {}


@pytest.mark.parametrize(
    "handler", [one.handler for one in ENDPOINTS if one.method != "GET"], ids=lambda one: str(one.__name__)
)
def test_what_a_request_changes_is_an_operation(handler: Callable[..., Any]) -> None:
    assert called_names(handler) & checked_methods()


@pytest.mark.parametrize("tool", [one for one in TOOLS.values() if not one.is_read_only], ids=lambda one: str(one.name))
def test_what_a_tool_changes_is_an_operation(tool: Any) -> None:
    assert called_names(tool.handler) & checked_methods()


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda one: str(one.name))
def test_people_may_do_all_and_agents_what_the_table_says(operation: Any) -> None:
    actors = {
        Actor(): True,
        Actor(kind="agent", session="s-1"): operation.in_session,
        Actor(kind="agent"): operation.outside,
        Actor(kind="something new", session="s-1"): operation.in_session,
    }

    for actor, is_allowed in actors.items():
        if is_allowed:
            actor.require(operation.name)
        else:
            with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
                actor.require(operation.name)
