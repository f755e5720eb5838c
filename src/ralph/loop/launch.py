"""Starting a run from the dashboard: what can be chosen, and a detached `ralph run` with the choice.

A request names values that trusted settings offer; it never contains a command or an option of a command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from ralph.core.agents import AGENTS
from ralph.core.config import STRATEGIES, load_config
from ralph.core.errors import ConflictError, NotTrustedError, RalphError, UsageError
from ralph.core.files import state_path
from ralph.core.records import Task, record
from ralph.core.text import sanitize
from ralph.core.trust_record import TRUST_VARIABLE, read_trust, untrusted_text
from ralph.loop.options import MAX_WORKERS, stored_worker
from ralph.loop.workers import is_run_active, is_worker_alive, worker_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.core.records import Run
    from ralph.loop.options import RunOptions
    from ralph.store import Store

MAX_TASK_CHOICES = 100
"""Maximum number of ready tasks offered."""
RECENT_RUNS = 20
"""Number of latest runs among which a run is looked for."""
START_SECONDS, POLL_SECONDS = 60.0, 0.05
"""Time a run has to record that it has started, and interval at which that is looked for, in seconds."""
MAX_ERROR_CHARACTERS = 600
"""Maximum length of what a run that did not start says."""
_OPTIONS = {
    "agent": "--agent",
    "model": "--model",
    "strategy": "--strategy",
    "only": "--task",
    "parallel": "--parallel",
    "iterations": "--max-iterations",
    "minutes": "--max-minutes",
    "cost_usd": "--max-cost",
    "tokens": "--max-tokens",
}
"""Options of `ralph run` by the field that they set."""
_launching = threading.Lock()


@record
class RunChoices:
    """What a run can be started with: the values that trusted settings offer."""

    problem: str
    """Why no run can be started, and what to do; empty if one can."""
    code: str
    """Stable name of the problem."""
    agents: tuple[str, ...] = ()
    """The configured agent, then those that take over from it."""
    models: tuple[str, ...] = ()
    """Models for the configured agent; none if it uses its own."""
    strategies: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    is_reviewed: bool = False
    """Whether a review is configured, which cannot be left out."""
    max_workers: int = MAX_WORKERS
    tasks: tuple[Task, ...] = ()
    """Tasks that can start now, by priority; possibly only the first ones."""
    ready_count: int = 0


def run_choices(root: str, store: Store) -> RunChoices:
    """Return what a run can be started with."""
    config = _trusted_config(root)
    try:
        _require_startable(root, store, config)
    except RalphError as error:
        return RunChoices(problem=str(error), code=error.code)
    return RunChoices(
        problem="",
        code="",
        agents=_agents(config),
        models=_models(config),
        strategies=STRATEGIES if _models(config) else (),
        gates=_gates(config),
        is_reviewed=config.execution.review,
        tasks=tuple(store.tasks.progress.ready(MAX_TASK_CHOICES)),
        ready_count=store.tasks.progress.count_ready(),
    )


def launch_run(root: str, store: Store, options: RunOptions) -> Run:
    """Start a run in a process of its own, which outlives this one, and return it once it is recorded."""
    with _launching, _locked(root):  # two requests at a time must not start two runs, nor two servers
        config = _trusted_config(root)
        _require_startable(root, store, config)
        _require_offered(config, store, options)
        return _start(root, store, _arguments(config, options))


@contextmanager
def _locked(root: str) -> Iterator[None]:
    """Let other servers of the same directory wait until a run that is being started is recorded."""
    import fcntl

    path = _log_path(root).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- what is allowed ------------------------------------------------------------------


def _trusted_config(root: str) -> Config:
    """Return the settings that a person has accepted; a variable that trusts all directories does not count."""
    return load_config(root, _environment())


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != TRUST_VARIABLE}


def _require_startable(root: str, store: Store, config: Config) -> None:
    """Raise unless the directory and its settings are trusted, an agent is configured, and no run is active."""
    known = read_trust(root)
    if config.untrusted or not known or not known.files:
        why = untrusted_text(root, config.untrusted) if config.untrusted else "this directory is not trusted"
        raise NotTrustedError(f"No run can be started from here: {why}. Review it in a terminal with: ralph trust")
    if not _agents(config):
        raise ConflictError(
            "No agent is configured. Set `name` or `command` in the section [agent] of .ralph.toml, and review it in a"
            " terminal with: ralph trust",
            code="no-agent-configured",
        )
    unended = [run for run in store.runs.latest(RECENT_RUNS) if run.ended_at is None]
    is_active = any(is_worker_alive(stored_worker(run.options)) for run in unended)
    if is_active or is_run_active(_path(root)):
        raise ConflictError("A run is active in this directory. Stop it, or wait for its end.", code="run-active")


def _require_offered(config: Config, store: Store, options: RunOptions) -> None:
    """Raise unless every value is one that the settings offer."""
    if options.program:
        raise UsageError("A program cannot be chosen here.", code="unknown-choice")
    _require_one_of("agent", options.agent, _agents(config), "unknown-agent")
    _require_one_of("model", options.model or "", _models(config), "unknown-model")
    _require_one_of("strategy", options.strategy, STRATEGIES if _models(config) else (), "unknown-choice")
    if unknown := set(options.gates) - set(_gates(config)):
        raise UsageError(f"The settings have no such gate: {min(unknown)}.", code="unknown-gate")
    if options.model and options.agent not in ("", config.agent.name):
        raise UsageError("A model can only be chosen for the configured agent.", code="conflicting-options")
    if options.only:
        store.tasks.get(options.only)
        if options.parallel > 1:
            raise UsageError("One task has one worker: choose all tasks, or one worker.", code="conflicting-options")
    if not options.verify and (options.gates or options.review):
        raise UsageError("Choose gates or a review, or no verification at all.", code="conflicting-options")


def _require_one_of(what: str, value: str, offered: Collection[str], code: str) -> None:
    if value and value not in offered:
        known = ", ".join(offered) or "none"
        raise UsageError(f"The settings offer no such {what}. Offered: {known}.", code=code)


def _agents(config: Config) -> tuple[str, ...]:
    agent = config.agent
    if agent.command:
        return (agent.name,)  # its command would be taken for that of any other agent
    if agent.name in ("command", "acp"):
        return ()
    return tuple(dict.fromkeys((agent.name, *agent.fallback)))


def _models(config: Config) -> tuple[str, ...]:
    agent, models = config.agent, config.models
    takes_ladder = models.is_customized or AGENTS[agent.name].knows_default_models
    return tuple(dict.fromkeys(filter(None, (agent.model, *(models.ladder if takes_ladder else ())))))


def _gates(config: Config) -> tuple[str, ...]:
    return tuple(dict.fromkeys(config.execution.gates)) if config.execution.verify else ()


# --- the process ----------------------------------------------------------------------


def _arguments(config: Config, options: RunOptions) -> list[str]:
    """Return the options of `ralph run`; each is one argument with its value, so that a value is never an option."""
    chosen = {name: getattr(options, name) for name in _OPTIONS}
    if chosen["agent"] == config.agent.name:
        chosen["agent"] = ""
    return [
        *(f"{_OPTIONS[name]}={value}" for name, value in chosen.items() if value),
        *(f"--gate={gate}" for gate in options.gates),
        *(["--review"] if options.review else ()),
        *(["--wait"] if options.stays else ()),
        *([] if options.verify else ["--no-verify"]),
    ]


def _start(root: str, store: Store, arguments: list[str]) -> Run:
    log = _log_path(root)
    log.unlink(missing_ok=True)  # an earlier run may still write into the old file
    with log.open("xb") as file:
        process = subprocess.Popen(
            # Without -P, Python would run a ralph.py from the project.
            [sys.executable, "-P", "-m", "ralph", "-C", root, "run", "--format=json", *arguments],
            cwd=root,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,  # neither Ctrl+C nor the end of the terminal reaches it
        )
    worker = worker_name(pid=process.pid)
    threading.Thread(target=process.wait, name="launched-run", daemon=True).start()  # leaves no zombie
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        has_ended = process.returncode is not None
        for run in store.runs.latest(RECENT_RUNS):
            if stored_worker(run.options) == worker:
                return run
        if has_ended:
            raise ConflictError(f"The run did not start: {_last_words(log)}", code="run-not-started")
        time.sleep(POLL_SECONDS)
    raise ConflictError("The run has not started yet. It appears in the list of runs once it has.", code="run-slow")


def _last_words(log: Path) -> str:
    try:
        text = sanitize(log.read_text("utf-8", "replace")).strip()
    except OSError:
        text = ""
    return text[-MAX_ERROR_CHARACTERS:].removeprefix("error: ") or "it ended without a message."


def _log_path(root: str) -> Path:
    return _path(state_path(root, "launched"))


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)
