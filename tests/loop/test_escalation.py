"""From a first failure to a person: models, reasons, warnings and parts, as the loop and the commands show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import AgentReply, AttemptOutcome, SessionEnding, TaskStatus, replace
from ralph.loop.choose_model import MAX_SPLIT_DEPTH
from ralph.loop.options import RunEnding, RunOptions
from ralph.loop.strategy import NO_MODEL_REASON
from tests.loop.trial import DONE, FAILED, SAYS_DONE, SAYS_FAILED, Trial
from tests.make import ScriptedAgent

AGENT = '[agent]\ncommand = ["sh", "agent.sh", "{model}"]\n'
FAILS_EACH_TIME_DIFFERENTLY = """
why=$(echo "none a syntax:a missing:a slow:a wrong" | cut -d: -f$RALPH_ATTEMPT)
echo "<failure-report>
what_tried: something
why_failed: $why thing stood in the way
</failure-report>"
"""
PART = '<subtask title="{title}" needs="{needs}">All about {title}.</subtask>\n'
STUCK = "### Stuck Loop Warning"


def failure(why: str, files: tuple[str, ...] | None = None) -> AgentReply:
    """Give an answer that fails; each reason has changed another file."""
    files = (f"src/{why[:1]}.py",) if files is None else files
    report = f"<failure-report>\nwhat_tried: things\nwhy_failed: {why}\n</failure-report>"
    return AgentReply(text=f"{report}\n{FAILED}", seconds=0.1, files=files)


def one(trial: Trial) -> str:
    """Make one attempt by command; give what it printed."""
    ran = trial.ralph("run", "--max-iterations", "1")
    assert ran.code == 0, ran.err
    return ran.out


# --- the path, as commands show it -------------------------------------------------------


def test_each_failure_in_a_row_is_one_step_on_the_way_to_a_person(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(FAILS_EACH_TIME_DIFFERENTLY + SAYS_FAILED)
    task = trial.project.tasks.add("Hard")

    shown = [(one(trial), trial.ralph("status").out) for _ in range(4)]

    assert [model for model, _ in trial.models()] == ["haiku", "haiku", "sonnet", "opus"]
    assert [reason for _, reason in trial.models()] == [
        "escalate: no failure yet",
        "escalate: 1 failure",
        "escalate: 2 failures, 1 rung up",
        "escalate: 3 failures, 2 rungs up",
    ]
    for (printed, _), (model, reason) in list(zip(shown, trial.models(), strict=True))[1:]:
        assert f"   {model}: {reason}\n" in printed
    assert f"{task.id} failed 1 time in a row (1 of 3 retries used); next: retry with the failure report" in shown[0][1]
    assert f"{task.id} failed 2 times in a row (2 of 3 retries used); next: a stronger model" in shown[1][1]
    assert "with sonnet: escalate: 2 failures, 1 rung up" in shown[1][1]
    assert "(3 of 3 retries used), stuck; next: ask the agent to split it" in shown[2][1]
    assert f"{task.id} Hard: blocked, failed 4 times, waits for a person; last: a wrong thing" in shown[3][1]


def test_every_prompt_says_how_the_loop_stands_and_why_this_model(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(FAILS_EACH_TIME_DIFFERENTLY + SAYS_FAILED)
    task = trial.project.tasks.add("Hard")

    for _ in range(4):
        one(trial)

    prompts = [trial.kept_prompt(task, number) for number in (1, 2, 3, 4)]
    for number, (prompt, (model, reason)) in enumerate(zip(prompts, trial.models(), strict=True), start=1):
        status = prompt.split("### Loop Status")[1]
        assert "- Iteration 1 of this run\n" in status
        assert f"- Attempt {number} at this task" in status
        assert f"- Model: {model} ({reason})\n" in status
        assert "(haiku, sonnet, opus): <next-model>NAME</next-model>" in status
    assert "No attempt has finished yet in this project" in prompts[0]
    assert "Last 3 attempts in this project: 0% done, 100% failed" in prompts[3]
    assert "a slow thing stood in the way" in prompts[3].split("### Previous Attempts")[1]
    assert [STUCK in prompt for prompt in prompts] == [False, False, False, True]


def test_when_a_person_resets_a_task_the_way_starts_anew(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(FAILS_EACH_TIME_DIFFERENTLY + SAYS_FAILED)
    task = trial.project.tasks.add("Hard")
    for _ in range(4):
        one(trial)

    trial.ralph("task", "reset", task.id)
    one(trial)

    assert trial.models()[-1] == ("haiku", "escalate: no failure yet")
    assert STUCK not in trial.kept_prompt(task, 5)
    assert "Attempt 5 at this task, number 1 since a person reset it\n" in trial.kept_prompt(task, 5)
    assert trial.status(task) is TaskStatus.PENDING


def test_the_same_failure_again_brings_a_stronger_model_sooner(trial: Trial) -> None:
    trial.project.tasks.add("Hard")

    trial.run(ScriptedAgent(failure("KeyError: 'name'")), RunOptions(iterations=3))

    assert trial.models()[-1] == ("opus", "escalate: 2 failures, 1 rung up, 1 more because they repeat")


def test_a_hard_task_is_tried_again_with_a_stronger_model_at_once(trial: Trial) -> None:
    trial.project.tasks.add("Hard")

    trial.run(
        ScriptedAgent(f"<difficulty-estimate>hard</difficulty-estimate>{FAILED}", DONE),
        RunOptions(iterations=2),
    )

    assert trial.models()[-1] == ("sonnet", "escalate: 1 failure, 1 up for difficulty hard")


def test_a_model_that_got_tasks_like_it_done_starts(trial: Trial) -> None:
    for n in range(2):
        trial.project.tasks.add(f"Fix the bug in parser {n}")
    answers = (failure("a"), failure("b"), failure("c"), failure("d"), DONE, DONE)
    trial.run(ScriptedAgent(*answers), models={"ladder": ("haiku", "opus")})
    trial.project.tasks.add("Fix the bug in parser 3")

    trial.run(ScriptedAgent(DONE), models={"ladder": ("haiku", "opus")})

    assert trial.models()[-1] == ("opus", "escalate: opus got 2 of 2 tasks like it done, haiku 0 of 4")


def test_a_task_that_was_done_before_starts_with_the_model_that_did_it(trial: Trial) -> None:
    task = trial.project.tasks.add("Hard")
    trial.run(ScriptedAgent(failure("a"), failure("b"), DONE))
    assert trial.models()[-1][0] == "sonnet"

    trial.project.tasks.reset(task.id)
    trial.run(ScriptedAgent(DONE))

    assert trial.models()[-1] == ("sonnet", "escalate: it got this task done before")
    assert trial.project.store.stats.metrics(task.id).suggested_model == "sonnet"


def test_an_interrupted_attempt_is_no_step_on_the_way(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    stopped = AgentReply(text="", ending=SessionEnding.STOPPED, files=())

    trial.run(ScriptedAgent(failure("a"), failure("b"), stopped, DONE))

    assert trial.outcomes()[2:] == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert trial.models()[2] == trial.models()[3]
    assert trial.status(task) is TaskStatus.DONE


@pytest.mark.parametrize(
    ("words", "model", "reason"),
    [
        (("--strategy", "fixed"), "haiku", "fixed: the first model of the ladder"),
        (("--strategy", "escalate"), "haiku", "escalate: no failure yet"),
        (("--strategy", "cost-optimized"), "haiku", "cost-optimized: haiku is expected to cost"),
        (("--strategy", "plan-then-execute"), "opus", "plan-then-execute: the planner gets the strongest"),
        (("--model", "sonnet"), "sonnet", "asked for with --model"),
        (("--strategy", "escalate", "--model", "nobody-knows-9"), "nobody-knows-9", "asked for with --model"),
    ],
)
def test_the_command_line_says_how_the_model_is_chosen(
    trial: Trial, words: tuple[str, ...], model: str, reason: str
) -> None:
    trial.settings(AGENT)
    trial.script(f'echo "$1" > .ralph/asked\n{SAYS_DONE}')
    trial.project.tasks.add("A")

    trial.ralph("run", "--max-iterations", "1", *words)

    attempt = trial.last()
    assert attempt.model == model
    assert attempt.model_reason.startswith(reason)
    assert (trial.root / ".ralph/asked").read_text() == f"{model}\n"


def test_an_agent_that_takes_no_model_gets_none_and_the_reason_says_so(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    task = trial.project.tasks.add("A")

    trial.ralph("run", "--", "sh", "agent.sh")

    assert trial.models() == [(None, NO_MODEL_REASON)]
    assert NO_MODEL_REASON in trial.kept_prompt(task, 1)
    assert "next-model" not in trial.kept_prompt(task, 1)


def test_a_ladder_of_ones_own_is_climbed(trial: Trial) -> None:
    trial.settings(AGENT + '[models]\nladder = ["small", "large"]\n')
    trial.script(FAILS_EACH_TIME_DIFFERENTLY + SAYS_FAILED)
    trial.project.tasks.add("Hard")

    trial.ralph("run")

    assert [model for model, _ in trial.models()] == ["small", "small", "large", "large"]
    assert trial.models()[-1][1] == "escalate: 3 failures, 2 rungs up; this is the top"


def test_a_model_the_program_does_not_know_ends_in_its_own_words(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script('echo "model $1 does not exist" >&2; exit 4')
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--max-iterations", "1", "--model", "nobody-knows-9")

    assert trial.last().outcome is AttemptOutcome.ERROR
    assert "model nobody-knows-9 does not exist" in trial.last().reason
    assert "model nobody-knows-9 does not exist" in ran.out


# --- what an attempt asks for ------------------------------------------------------------


def test_the_model_an_attempt_asks_for_is_given_to_the_next_one_and_logged(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(f'[ $RALPH_ATTEMPT = 1 ] && echo "<next-model>opus</next-model>"\n{SAYS_FAILED}')
    task = trial.project.tasks.add("A")

    one(trial)
    status = trial.ralph("status").out
    one(trial)
    one(trial)

    assert [model for model, _ in trial.models()] == ["haiku", "opus", "opus"]
    assert trial.models()[1] == ("opus", "asked for by attempt 1")
    assert trial.models()[2][1].startswith("escalate: ")
    assert "with opus: asked for by attempt 1" in status
    assert "- Model: opus (asked for by attempt 1)" in trial.kept_prompt(task, 2)
    assert "asks for the model opus" in trial.ralph("task", "log", task.id).out


def test_a_wish_for_a_model_that_nobody_knows_is_ignored_and_logged(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(f'echo "<next-model>gpt-99</next-model>"\n{SAYS_FAILED}')
    task = trial.project.tasks.add("A")

    printed = one(trial)
    one(trial)

    assert [model for model, _ in trial.models()] == ["haiku", "haiku"]
    assert "ignored: Unknown model gpt-99" in printed
    assert "Ignored: Unknown model gpt-99" in trial.log(task)
    assert "asks for" not in trial.log(task)
    assert trial.attempts()[0].next_model == ""


@pytest.mark.parametrize("strategy", ["fixed", "cost-optimized", "plan-then-execute"])
def test_a_wish_counts_with_every_strategy(trial: Trial, strategy: str) -> None:
    trial.project.tasks.add("A")

    trial.run(
        ScriptedAgent(f"<next-model>Sonnet</next-model>{FAILED}", DONE),
        RunOptions(iterations=2),
        models={"strategy": strategy},
    )

    assert trial.models()[1] == ("sonnet", "asked for by attempt 1")


def test_a_model_on_the_command_line_counts_more_than_a_wish(trial: Trial) -> None:
    trial.project.tasks.add("A")

    trial.run(ScriptedAgent(f"<next-model>opus</next-model>{FAILED}", DONE), RunOptions(iterations=2, model="haiku"))

    assert trial.models()[1] == ("haiku", "asked for with --model")


# --- stuck, or only slow -----------------------------------------------------------------


def test_the_warning_names_what_the_failures_have_in_common(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ScriptedAgent(failure("KeyError: 'name' in line 12", ()))

    trial.run(agent)

    warning = agent.prompts[3].split(STUCK)[1].split("\n### ")[0]
    assert "This task has failed 3 times in a row." in warning
    assert "The same error occurred 3 times in a row: reproduce it" in warning
    assert "The last two attempts changed no file: make a change" in warning
    assert "<subtask title=" in warning


def test_the_same_change_again_is_named(trial: Trial) -> None:
    trial.project.tasks.add("A")

    def change(why: str) -> Callable[[str, SessionOptions], str]:
        def work(prompt: str, session: SessionOptions) -> str:
            (trial.root / "a.py").write_text("tabs = True\n")
            return failure(why).text

        return work

    class Changing(ScriptedAgent):
        def work(self, prompt: str, session: SessionOptions) -> AgentReply:
            return replace(super().work(prompt, session), files=("a.py",))

    agent = Changing(change("one"), change("two"), change("three"), DONE)
    trial.run(agent)

    assert "The last two attempts left the same change: that change does not help." in agent.prompts[3]
    assert "1 more because they repeat" in trial.models()[2][1]


@pytest.mark.parametrize(
    "gates",
    [
        pytest.param(
            tuple(f"test $(cat n) -ge {n} || {{ echo 'Error: too few'; exit 1; }}" for n in (2, 3, 4)), id="more gates"
        ),
        pytest.param(
            ('n=$(cat n); test $n -ge 4 || { echo "$((4 - n)) failed, $n passed"; exit 1; }',), id="fewer failures"
        ),
    ],
)
def test_a_task_that_gets_further_each_time_is_not_called_stuck(trial: Trial, gates: tuple[str, ...]) -> None:
    task = trial.project.tasks.add("A")

    def further(prompt: str, session: SessionOptions) -> str:
        (trial.root / "n").write_text(session.environment["RALPH_ATTEMPT"])
        return DONE

    agent = ScriptedAgent(further)

    trial.run(agent, execution={"gates": gates})

    assert trial.outcomes() == [AttemptOutcome.RETRIED] * 3 + [AttemptOutcome.DONE]
    assert all(STUCK not in prompt for prompt in agent.prompts)
    assert all("repeat" not in reason for _, reason in trial.models())
    assert trial.status(task) is TaskStatus.DONE


def test_status_says_that_a_task_gets_further(trial: Trial) -> None:
    trial.settings(AGENT + '[execution]\ngates = ["echo $((9 - $RALPH_ATTEMPT)) failed; false"]\nmax_retries = 9\n')
    trial.script(SAYS_DONE)
    trial.project.tasks.add("A")

    trial.ralph("run", "--max-iterations", "4")
    status = trial.ralph("status").out

    assert "gets further: 6 failing checks, then 5" in status
    assert "stuck" not in status
    assert "next: a stronger model" in status


def test_a_gate_that_fails_the_same_way_three_times_is_a_stuck_task(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ScriptedAgent(DONE)

    trial.run(agent, RunOptions(iterations=4), execution={"gates": ("echo '3 failed'; false",)})

    assert [STUCK in prompt for prompt in agent.prompts] == [False, False, False, True]


def test_the_threshold_of_the_warning_can_be_set(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = ScriptedAgent(failure("a"), failure("b"), failure("c"), failure("d"), failure("e"), DONE)

    trial.run(agent, execution={"stuck_after": 5, "max_retries": 8})

    assert [STUCK in prompt for prompt in agent.prompts] == [False] * 5 + [True]


# --- parts -------------------------------------------------------------------------------


def split(*parts: tuple[str, str]) -> str:
    return "".join(PART.format(title=title, needs=needs) for title, needs in parts) + FAILED


def stuck(trial: Trial, answer: str, *more: str) -> ScriptedAgent:
    """Let a task fail three times, then answer."""
    agent = ScriptedAgent(failure("a"), failure("b"), failure("c"), answer, *more)
    trial.run(agent)
    return agent


def test_a_stuck_task_can_be_split_into_parts_that_are_done_in_order(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house", priority=4)
    trial.project.tasks.add("Something else")

    agent = stuck(trial, split(("Roof", "Walls"), ("Walls", "Ground"), ("Ground", "")), DONE)

    parts = {part.title: part for part in trial.project.tasks.get(task.id).parts}
    assert set(parts) == {"Roof", "Walls", "Ground"}
    assert parts["Roof"].needs == (parts["Walls"].id,)
    assert parts["Walls"].needs == (parts["Ground"].id,)
    assert {part.priority for part in parts.values()} == {4}
    assert parts["Roof"].body == "All about Roof."
    started = [details["title"] for details in trial.told("attempt_started")]
    assert started == [*["Build a house"] * 4, "Ground", "Walls", "Roof", "Something else"]
    assert f"Part of {task.id}: Build a house" in agent.prompts[4]
    assert "### Completed Prerequisites" in agent.prompts[5]
    assert trial.status(task) is TaskStatus.DONE


def test_the_attempt_that_split_a_task_says_so(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house")

    stuck(trial, split(("Roof", "Walls"), ("Walls", "")), FAILED)

    attempt = trial.attempts()[3]
    assert (attempt.outcome, attempt.reason) == (AttemptOutcome.FAILED, "split into 2 subtasks")
    assert "split into 2 subtasks" in trial.log(task)
    (ended,) = [details for details in trial.told("attempt_ended") if details["parts"]]
    assert ended["parts"] == ["Roof", "Walls"]
    walls = next(part for part in trial.project.tasks.get(task.id).parts if part.title == "Walls")
    assert trial.status(walls) is TaskStatus.BLOCKED
    assert trial.status(task) is not TaskStatus.DONE


def test_parts_by_command_are_shown_and_worked_on(trial: Trial) -> None:
    trial.settings(AGENT)
    parts = '<subtask title=\\"Ground\\">dig</subtask>\n<subtask title=\\"Walls\\" needs=\\"Ground\\">build</subtask>'
    trial.script(
        f'if grep -q "^Part of" ".ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT"; then {SAYS_DONE}; exit; fi\n'
        f'[ $RALPH_ATTEMPT = 4 ] && echo "{parts}"\n{SAYS_FAILED}'
    )
    task = trial.project.tasks.add("Build a house")

    ran = trial.ralph("run")

    assert ran.code == 0
    assert "new subtask: Ground" in ran.out
    assert "new subtask: Walls" in ran.out
    assert "split into subtasks" in ran.out
    assert trial.status(task) is TaskStatus.DONE


def test_parts_of_a_task_that_is_not_stuck_are_not_taken(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house")

    trial.run(ScriptedAgent(split(("Roof", ""))), RunOptions(iterations=1))

    assert trial.project.tasks.get(task.id).parts == ()
    assert trial.outcomes() == [AttemptOutcome.FAILED]
    assert "Ignored: subtasks: only a stuck or planned task can be split" in trial.log(task)


def test_parts_of_a_task_that_is_done_are_not_taken(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house")

    stuck(trial, split(("Roof", "")).replace(FAILED, DONE))

    assert trial.project.tasks.get(task.id).parts == ()
    assert trial.status(task) is TaskStatus.DONE


def test_parts_are_not_split_without_end(trial: Trial) -> None:
    trial.project.tasks.add("All of it")
    count = iter(range(1000))

    def always(prompt: str, session: SessionOptions) -> str:
        return split((f"Part {next(count)}", ""))

    summary = trial.run(ScriptedAgent(always), RunOptions(iterations=100))

    assert summary.ending is RunEnding.WAITS
    depths = {trial.project.store.tasks.graph.depth(task.id) for task in trial.project.tasks.list()}
    assert depths == set(range(MAX_SPLIT_DEPTH + 1))
