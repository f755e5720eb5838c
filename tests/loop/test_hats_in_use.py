"""Hats through whole runs: who works on a task when, what each is shown, and what is learned between them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import AgentReply, AttemptOutcome, TaskStatus
from ralph.loop.options import RunEnding, RunOptions
from tests.loop.trial import DONE, FAILED, SAYS_DONE, Trial
from tests.make import ScriptedAgent, a_memory, remember

ALL = ("explorer", "planner", "creator", "critic", "editor")


class HattedAgent(ScriptedAgent):
    """Answers by the hat it wears; of several answers one after the other."""

    def __init__(self, **answers: str | list[str] | Callable[[str, SessionOptions], str]) -> None:
        super().__init__("")
        self._by_hat = answers
        self.hats: list[str] = []

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        hat = session.environment["RALPH_HAT"]
        self.hats.append(hat)
        answer = self._by_hat.get(hat, DONE)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        self._answers = [answer]
        return super().work(prompt, session)

    def told(self, hat: str) -> str:
        """Give what a hat was told last."""
        return [prompt for worn, prompt in zip(self.hats, self.prompts, strict=True) if worn == hat][-1]


def to(hat: str, text: str = "Go on.") -> str:
    return f'<hand-over to="{hat}">{text}</hand-over>'


def hats(*order: str, **more: object) -> dict[str, object]:
    return {"order": order, **more}


# --- the order -----------------------------------------------------------------------------


def test_a_task_passes_through_all_hats_when_each_says_that_it_is_done(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent()

    summary = trial.run(agent, hats=hats(*ALL))

    assert agent.hats == list(ALL)
    assert [attempt.hat for attempt in trial.attempts()] == list(ALL)
    assert [attempt.handed_to for attempt in trial.attempts()] == [*ALL[1:], ""]
    assert trial.outcomes() == [AttemptOutcome.DONE] * 5
    assert trial.status(task) is TaskStatus.DONE
    assert (summary.ending, summary.done, summary.iterations) == (RunEnding.COMPLETE, 1, 5)


def test_each_hat_hands_over_what_the_next_one_must_know(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent(
        explorer=to("planner", "The tables are in db.py."),
        planner=to("creator", "Add a column first."),
        creator=to("critic", "The column is there."),
        critic=to("editor", "Nothing wrong."),
    )

    trial.run(agent, hats=hats(*ALL))

    assert agent.hats == list(ALL)
    assert "### Handed Over" not in agent.prompts[0]
    for number, words in enumerate(("The tables are in db.py.", "Add a column first.", "The column is there."), 1):
        assert words in agent.prompts[number].split("### Handed Over")[1]
        assert words in agent.prompts[4]
    assert "Attempt 1 done, handed over to the planner; the task is now pending." in trial.log(task)
    assert "### Previous Attempts" not in agent.prompts[4]
    assert "### Stuck Loop Warning" not in agent.prompts[4]


def test_no_hat_but_the_last_makes_a_task_done(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    for number in range(4):
        trial.run(HattedAgent(), RunOptions(iterations=1), hats=hats(*ALL))
        assert trial.status(task) is TaskStatus.PENDING, number
    trial.run(HattedAgent(), RunOptions(iterations=1), hats=hats(*ALL))

    assert trial.status(task) is TaskStatus.DONE
    assert trial.project.overview().done == 1


def test_each_hat_is_told_its_part_and_who_is_next(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent()

    trial.run(agent, hats=hats(*ALL, instructions={"editor": "Shorten everything."}))

    for hat, following in pairwise(ALL):
        assert f"## Your Hat: {hat.capitalize()}\n" in agent.told(hat)
        assert f'<hand-over to="{following}">' in agent.told(hat)
    assert "Shorten everything." in agent.told("editor")
    assert '<hand-over to="creator">' in agent.told("critic")


def test_a_project_without_hats_hears_nothing_of_them(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent()

    trial.run(agent)

    assert agent.hats == ["creator"]
    assert "Your Hat" not in agent.prompts[0]
    assert "hand-over" not in agent.prompts[0]


def test_by_command_hats_are_configured_and_seen(trial: Trial) -> None:
    trial.settings('[hats]\norder = ["planner", "creator"]\n')
    trial.script(
        "[ $RALPH_HAT = planner ] && echo '<hand-over to=\"creator\">Use tabs.</hand-over>'\n"
        f"[ $RALPH_HAT = creator ] && {SAYS_DONE}\ntrue"
    )
    task = trial.project.tasks.add("A")

    ran = trial.ralph("run", "--", "sh", "agent.sh")

    assert ran.code == 0
    assert "(attempt 1, planner)" in ran.out
    assert "handed over to the creator" in ran.out
    assert "Use tabs." in trial.kept_prompt(task, 2)
    assert trial.status(task) is TaskStatus.DONE


def test_what_a_hat_says_wrong_is_logged_and_the_task_goes_on(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent(planner=to("critic", "Look."), creator=[to("creator"), DONE])

    trial.run(agent, hats=hats("planner", "creator"))

    assert agent.hats == ["planner", "creator", "creator"]
    assert "hand-over to the critic, but the order of hats is planner → creator" in trial.log(task)
    assert "the creator handed over to itself" in trial.log(task)
    assert trial.status(task) is TaskStatus.DONE


def test_a_hat_that_fails_is_worn_again(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent(creator=[FAILED, "nothing said", DONE])

    trial.run(agent, hats=hats("planner", "creator", "critic"))

    assert agent.hats == ["planner", "creator", "creator", "creator", "critic"]
    assert trial.outcomes()[1:3] == [AttemptOutcome.FAILED, AttemptOutcome.BLOCKED]


def test_hand_overs_use_up_no_retries(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    trial.run(HattedAgent(), RunOptions(iterations=4), hats=hats(*ALL), execution={"max_retries": 0})

    assert trial.status(task) is TaskStatus.PENDING
    assert trial.project.store.stats.metrics(task.id).consecutive_failures == 0


def test_gates_are_for_hats_that_change_something_and_for_the_last(trial: Trial) -> None:
    trial.project.tasks.add("A")

    trial.run(HattedAgent(), hats=hats(*ALL), execution={"gates": ("true",)})

    checked = [event.what for event in trial.events if event.what in ("attempt_started", "gate_ended")]
    after = ["attempt_started", "gate_ended"]
    assert checked == [*["attempt_started"] * 2, *after, "attempt_started", *after]


def test_a_creator_whose_gate_fails_does_not_hand_over(trial: Trial) -> None:
    trial.project.tasks.add("A")

    def create(prompt: str, session: SessionOptions) -> str:
        if session.environment["RALPH_ATTEMPT"] == "2":
            (trial.root / "made").touch()
        return DONE

    agent = HattedAgent(creator=create)

    trial.run(agent, hats=hats("creator", "critic"), execution={"gates": ("test -e made",)})

    assert agent.hats == ["creator", "creator", "critic"]
    assert trial.outcomes() == [AttemptOutcome.RETRIED, AttemptOutcome.DONE, AttemptOutcome.DONE]
    assert trial.attempts()[0].handed_to == ""


def test_the_last_hat_is_not_believed_while_a_gate_fails(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent(creator=to("critic"))

    trial.run(agent, RunOptions(iterations=2), hats=hats("creator", "critic"), execution={"gates": ("false",)})

    assert trial.outcomes() == [AttemptOutcome.DONE, AttemptOutcome.RETRIED]
    assert trial.status(task) is TaskStatus.PENDING


# --- and back ------------------------------------------------------------------------------

FINDING = "The handler in src/upload.py silently loses the last chunk when the connection is closed early."


def test_a_critic_sends_the_work_back_with_its_findings(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent(critic=[to("creator", FINDING), DONE])

    trial.run(agent, hats=hats("creator", "critic", "editor"))

    assert agent.hats == ["creator", "critic", "creator", "critic", "editor"]
    back = trial.attempts()[1]
    assert (back.outcome, back.handed_to) == (AttemptOutcome.RETRIED, "creator")
    assert FINDING in agent.prompts[2].split("### Previous Attempts")[1]
    (report,) = trial.project.journal.failures_of(task.id)
    assert report.category == "findings"
    assert FINDING in report.why
    assert trial.status(task) is TaskStatus.DONE


def test_what_a_critic_finds_is_a_pitfall_from_then_on(trial: Trial) -> None:
    trial.project.tasks.add("A")

    trial.run(HattedAgent(critic=to("creator", FINDING)), RunOptions(iterations=2), hats=hats("creator", "critic"))

    (pitfall,) = trial.memories("pitfall")
    assert pitfall.content == FINDING
    assert (pitfall.hat, pitfall.confidence) == ("critic", 0.6)
    assert "src/upload.py" in pitfall.files


def test_findings_are_shown_on_the_screen(trial: Trial) -> None:
    trial.settings('[hats]\norder = ["creator", "critic"]\n')
    trial.script(
        f"[ $RALPH_ATTEMPT != 2 ] && {SAYS_DONE}\n"
        f"[ $RALPH_ATTEMPT = 2 ] && echo '<hand-over to=\"creator\">{FINDING}</hand-over>'\ntrue"
    )
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--", "sh", "agent.sh")

    assert "failed: handed back to the creator: The handler in src/upload.py silently loses" in ran.out


def test_a_critic_that_is_never_content_ends_at_a_person(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    agent = HattedAgent(critic=to("creator", FINDING))

    summary = trial.run(agent, hats=hats("creator", "critic"))

    assert summary.ending is RunEnding.WAITS
    assert agent.hats.count("critic") == 4
    assert trial.status(task) is TaskStatus.BLOCKED


def test_a_critic_that_hands_back_and_says_done_has_not_done_it(trial: Trial) -> None:
    task = trial.project.tasks.add("A")

    trial.run(
        HattedAgent(critic=[to("creator", FINDING) + DONE, DONE]),
        RunOptions(iterations=2),
        hats=hats("creator", "critic"),
    )

    assert trial.outcomes()[1] is AttemptOutcome.RETRIED
    assert trial.status(task) is TaskStatus.PENDING
    assert "the critic said task-done, but handed back to the creator" in trial.log(task)


def test_without_memory_the_findings_are_handed_over_all_the_same(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent(critic=[to("creator", FINDING), DONE])

    trial.run(agent, RunOptions(iterations=9, with_memory=False), hats=hats("creator", "critic"))

    assert "### Previous Attempts" not in agent.prompts[2]
    assert FINDING in agent.prompts[2].split("### Handed Over")[1]


# --- what each is shown ---------------------------------------------------------------------


def test_each_hat_is_shown_the_kinds_of_memory_it_is_configured_for(trial: Trial) -> None:
    for kind in ("pitfall", "decision", "convention"):
        remember(
            trial.project.store, a_memory(f"Parser {kind}", f"The parser has a {kind}.", kind=kind, tags=("parser",))
        )
    trial.project.tasks.add("Mend the parser")
    agent = HattedAgent()

    trial.run(
        agent,
        hats=hats(
            "planner", "creator", "critic", kinds={"planner": ("decision",), "critic": ("pitfall", "convention")}
        ),
    )

    seen = {
        hat: {kind for kind in ("pitfall", "decision", "convention") if f"The parser has a {kind}." in agent.told(hat)}
        for hat in ("planner", "creator", "critic")
    }
    assert seen == {
        "planner": {"decision"},
        "creator": {"pitfall", "decision", "convention"},
        "critic": {"pitfall", "convention"},
    }
    assert [len(attempt.shown) for attempt in trial.attempts()] == [1, 3, 2]


def test_a_hat_sees_nothing_that_the_project_does_not_inject(trial: Trial) -> None:
    for kind in ("pitfall", "decision"):
        remember(
            trial.project.store, a_memory(f"Parser {kind}", f"The parser has a {kind}.", kind=kind, tags=("parser",))
        )
    trial.project.tasks.add("Mend the parser")
    agent = HattedAgent()
    only = trial.project.config.memories.filter

    trial.run(
        agent,
        hats=hats("creator", kinds={"creator": ("pitfall",)}),
        memories={"filter": type(only)(types=("decision",))},
    )

    assert "The parser has a" not in agent.prompts[0]


def test_the_settings_file_says_what_each_hat_is_shown(trial: Trial) -> None:
    trial.settings('[hats]\norder = ["creator"]\n[hats.kinds]\ncreator = ["fix"]\n')
    trial.script(SAYS_DONE)
    trial.ralph("memory", "add", "The parser wants tabs.", "--type", "fix", "--tags", "parser")
    trial.ralph("memory", "add", "The parser was rewritten.", "--type", "decision", "--tags", "parser")
    task = trial.project.tasks.add("Mend the parser")

    trial.ralph("run", "--", "sh", "agent.sh")

    assert "The parser wants tabs." in trial.kept_prompt(task, 1)
    assert "The parser was rewritten." not in trial.kept_prompt(task, 1)


# --- what is learned between them -------------------------------------------------------------


def test_memories_are_drawn_from_the_words_at_hand_overs(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent(
        explorer=to(
            "planner",
            "All routes are registered in `app/routes.py`. The worker depends on `redis` 7.2 for its queue.",
        ),
        planner=to(
            "creator",
            "We decided on `msgpack` instead of JSON because payloads are large."
            " The public API in `api/v1.py` must not change.",
        ),
    )

    trial.run(agent, hats=hats("explorer", "planner", "creator"))

    kinds = {memory.kind: memory for memory in trial.memories() if memory.hat in ("explorer", "planner")}
    assert set(kinds) == {"architecture", "dependency", "decision", "constraint"}
    assert {memory.confidence for memory in kinds.values()} == {0.5}
    assert kinds["architecture"].hat == "explorer"
    assert kinds["constraint"].hat == "planner"
    assert kinds["decision"].origin_attempt == 2
    assert all(memory.content in agent.told("creator") for memory in (kinds["architecture"], kinds["decision"]))


# --- plan-then-execute ----------------------------------------------------------------------------


def test_plan_then_execute_lets_the_strongest_plan_and_the_cheapest_execute(trial: Trial) -> None:
    trial.project.tasks.add("A")
    agent = HattedAgent(planner=to("creator", "First the lexer."), creator=[FAILED, FAILED, DONE])

    trial.run(agent, models={"strategy": "plan-then-execute"})

    assert agent.hats == ["planner", "creator", "creator", "creator"]
    models = [model for model, _ in trial.models()]
    assert models[:3] == ["opus", "haiku", "haiku"]
    assert models[3] in ("sonnet", "opus")
    assert "First the lexer." in agent.prompts[3]


def test_what_a_planner_splits_is_not_planned_again(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house")
    parts = '<subtask title="Ground">dig</subtask>\n<subtask title="Walls" needs="Ground">build</subtask>\n'
    agent = HattedAgent(planner=parts)

    summary = trial.run(agent, models={"strategy": "plan-then-execute"})

    assert agent.hats == ["planner", "creator", "creator"]
    planned = trial.attempts()[0]
    assert (planned.outcome, planned.reason) == (AttemptOutcome.DONE, "split into 2 subtasks")
    assert [details["title"] for details in trial.told("attempt_started")] == ["Build a house", "Ground", "Walls"]
    assert (summary.ending, summary.done) == (RunEnding.COMPLETE, 2)
    assert trial.status(task) is TaskStatus.DONE
    assert trial.project.journal.failures_of(task.id) == []


def test_a_planner_may_split_a_task_and_hand_it_over(trial: Trial) -> None:
    task = trial.project.tasks.add("Build a house")
    parts = '<subtask title="Ground">dig</subtask>\n'
    agent = HattedAgent(planner=parts + to("creator", "The ground in `site/plan.md` must not be wet."))

    trial.run(agent, hats=hats("planner", "creator", "critic"))

    assert agent.hats == ["planner", "creator", "critic"]
    assert [part.title for part in trial.project.tasks.get(task.id).parts] == ["Ground"]
    assert trial.status(task) is TaskStatus.DONE
    assert [memory.kind for memory in trial.memories() if memory.hat == "planner"] == ["constraint"]
    assert "Ignored" not in trial.log(task)


# --- settings that change in the middle --------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "worn"),
    [
        (("planner", "creator"), ["creator"]),
        (("planner", "creator", "critic", "editor"), ["critic", "editor"]),
        (("explorer", "planner", "creator", "critic"), ["critic"]),
        (("editor",), ["editor"]),
        (("creator",), ["creator"]),
    ],
)
def test_a_task_goes_on_when_its_hats_are_configured_anew(
    trial: Trial, later: tuple[str, ...], worn: list[str]
) -> None:
    task = trial.project.tasks.add("A")
    trial.run(HattedAgent(), RunOptions(iterations=2), hats=hats("planner", "creator", "critic"))
    agent = HattedAgent()

    trial.run(agent, hats=hats(*later))

    assert agent.hats == worn
    assert trial.status(task) is TaskStatus.DONE
    assert "### Handed Over" in agent.prompts[0]


def test_a_task_that_is_reset_starts_with_the_first_hat(trial: Trial) -> None:
    task = trial.project.tasks.add("A")
    trial.run(HattedAgent(), RunOptions(iterations=2), hats=hats("planner", "creator", "critic"))
    agent = HattedAgent()

    trial.project.tasks.reset(task.id)
    trial.run(agent, hats=hats("planner", "creator", "critic"))

    assert agent.hats == ["planner", "creator", "critic"]
