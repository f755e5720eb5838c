"""Planning: the configured agent splits a spec into tasks in a read-only session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.config import apply_flags
from ralph.core.errors import UsageError
from ralph.core.records import record, replace
from ralph.core.text import sanitize
from ralph.formats.json_answer import AnswerError
from ralph.loop.ask import ask_read_only, cost_of, open_asked_agent, session_problem
from ralph.loop.plan import MAX_SPEC_LENGTH, build_plan_prompt, read_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.loop.plan import FeaturePlan
    from ralph.store import Store


@record
class PlanOptions:
    """What is planned, with which agent, and what it may cost."""

    spec: str
    agent: str = ""
    program: tuple[str, ...] = ()
    """Command line of the agent, instead of the configured one."""
    model: str = ""
    max_cost_usd: float = 0.0
    """What the session may cost; 0 for no limit."""
    dry_run: bool = False


@record
class PlanResult:
    """What an agent proposes."""

    agent: str
    spec: str
    plan: FeaturePlan | None = None
    """None if nothing of the answer counts, or no session was started."""
    problem: str = ""
    """Why nothing of the answer counts."""
    cost_usd: float | None = None
    """None if it is unknown, or no session was started."""
    prompt: str = ""
    """The prompt, if no session was started."""


def propose_plan(
    store: Store,
    config: Config,
    directory: Path,
    options: PlanOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    is_only_run: bool = True,
) -> PlanResult:
    """Let the configured agent plan a spec; nothing is stored. Files are not reverted unless `is_only_run`."""
    spec = sanitize(options.spec)
    if not spec.strip():
        raise UsageError("The spec is empty. Name a file, or say --from TEXT.", code="empty-spec")
    if len(spec) > MAX_SPEC_LENGTH:
        raise UsageError(
            f"The spec is longer than {MAX_SPEC_LENGTH:,} characters. Plan a part of it.", code="spec-too-long"
        )
    config, agent = open_asked_agent(
        apply_flags(config, program=options.program), directory, options.agent, options.model
    )
    prompt = build_plan_prompt(spec)
    result = PlanResult(agent=agent.name, spec=spec)
    if options.dry_run:
        return replace(result, prompt=prompt)
    agent.check()
    reply, changed = ask_read_only(
        store,
        config,
        directory,
        agent,
        prompt,
        max_cost_usd=options.max_cost_usd,
        should_stop=should_stop,
        is_only_run=is_only_run,
    )
    result = replace(result, cost_usd=cost_of(config, agent, reply))
    if problem := session_problem(reply, changed):
        return replace(result, problem=problem)
    try:
        return replace(result, plan=read_plan(reply.text))
    except AnswerError as error:
        return replace(result, problem=str(error))
