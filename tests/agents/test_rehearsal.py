"""The rehearsal agent plays its playbook, and knows only what its prompt says."""

import threading
import time
from pathlib import Path

import pytest

from ralph.agents import Agent, Limits, open_agent
from ralph.agents.rehearsal import PLAYBOOK, Playbook, PlaybookEdit, PlaybookIdea, PlaybookTask, RehearsalAgent
from ralph.core.config import AgentConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import SessionEnding, Sigils, Task
from ralph.core.text import count_tokens
from ralph.formats.sigils import parse_sigils
from ralph.loop.review import build_review_prompt
from tests.make import a_session

pytestmark = pytest.mark.storeless


def a_prompt(task: str = "Fix the parser", attempt: int = 1, memory: str = "", prerequisite: str = "None") -> str:
    return f"""\
# How to work here

<task-done>TASK_ID</task-done>

## Task

**t-000001**: {task}

### Completed Prerequisites

- t-000000 {prerequisite}

## Project Knowledge

{memory}

### Loop Status

- Attempt {attempt} at this task
"""


def an_agent(*ideas: PlaybookIdea, about: str = "the parser") -> RehearsalAgent:
    return RehearsalAgent(Playbook(tasks=(PlaybookTask(about=about, ideas=ideas),)))


def a_write(file: str = "parser.py", text: str = "new\n") -> PlaybookEdit:
    return PlaybookEdit(file=file, replace=None, text=text)


# --- which idea --------------------------------------------------------------------


THREE = (
    PlaybookIdea(says="spaces"),
    PlaybookIdea(says="tabs", knows=("wants tabs",)),
    PlaybookIdea(says="both", knows=("Tabs", "too slow")),
)


@pytest.mark.parametrize(
    ("attempt", "memory", "says"),
    [
        (1, "", "spaces"),
        (2, "", "tabs"),
        (3, "", "both"),
        (9, "", "both"),
        (1, "The parser\nWANTS  tabs.", "tabs"),
        (1, "It is too slow.", "spaces"),
        (1, "The parser wants tabs and is too slow.", "both"),
        (3, "The parser wants tabs.", "both"),
    ],
)
def test_each_attempt_brings_the_next_idea_and_memory_brings_a_later_one_at_once(
    tmp_path: Path, attempt: int, memory: str, says: str
) -> None:
    reply = an_agent(*THREE).work(a_prompt(attempt=attempt, memory=memory), a_session(tmp_path))

    assert reply.text == says


def test_the_same_prompt_gives_the_same_answer_whatever_was_asked_before(tmp_path: Path) -> None:
    agent = an_agent(*THREE)

    answers = [agent.work(a_prompt(attempt=attempt), a_session(tmp_path)).text for attempt in (2, 1, 2)]

    assert answers == ["tabs", "spaces", "tabs"]


def test_a_part_is_chosen_by_the_task_and_not_by_what_else_the_prompt_says(tmp_path: Path) -> None:
    agent = an_agent(PlaybookIdea(says="done"))
    prompt = a_prompt(task="Fix the lexer", memory="THE PARSER is slow.", prerequisite="Write the parser")

    sigils = parse_sigils(agent.work(prompt, a_session(tmp_path)).text, prompt)

    assert agent.work(a_prompt(task="Fix THE  Parser"), a_session(tmp_path)).text == "done"
    assert (sigils.done_ids, sigils.failed_ids) == ((), ("t-000001",))
    assert sigils.report
    assert sigils.report.why == "The playbook has no such task."


MIXED = (
    PlaybookIdea(says="plan", hats=("planner",)),
    PlaybookIdea(says="too hard", models=("haiku",)),
    PlaybookIdea(says="wrong", models=("sonnet", "opus"), hats=("creator",)),
    PlaybookIdea(says="right", models=("sonnet", "opus"), hats=("creator",)),
    PlaybookIdea(says="told", models=("opus",), hats=("creator",), knows=("wants tabs",)),
)


@pytest.mark.parametrize(
    ("model", "hat", "attempt", "memory", "says"),
    [
        ("haiku", "planner", 1, "", "plan"),
        ("haiku", "creator", 1, "", "too hard"),
        ("haiku", "creator", 5, "wants tabs", "too hard"),
        ("sonnet", "creator", 1, "wants tabs", "wrong"),
        ("sonnet", "creator", 2, "", "right"),
        ("opus", "creator", 1, "", "wrong"),
        ("opus", "creator", 1, "wants tabs", "told"),
    ],
)
def test_an_idea_comes_only_to_its_models_and_under_its_hats(
    tmp_path: Path, model: str, hat: str, attempt: int, memory: str, says: str
) -> None:
    session = a_session(tmp_path, model=model, environment={"RALPH_HAT": hat})

    reply = an_agent(*MIXED).work(a_prompt(attempt=attempt, memory=memory), session)

    assert reply.text == says


@pytest.mark.parametrize(
    ("model", "hat", "who"),
    [
        ("sonnet", "critic", "the model sonnet and the hat critic"),
        (None, "creator", "the hat creator"),
        (None, "", "an agent without a model"),
    ],
)
def test_without_an_idea_for_its_model_and_hat_it_says_that_it_cannot(
    tmp_path: Path, model: str | None, hat: str, who: str
) -> None:
    session = a_session(tmp_path, model=model, environment={"RALPH_HAT": hat} if hat else {})

    sigils = parse_sigils(an_agent(*MIXED).work(a_prompt(), session).text)

    assert sigils.failed_ids == ("t-000001",)
    assert sigils.report
    assert sigils.report.why == f"The playbook has no idea for {who}."


def test_an_attempt_that_only_handed_over_does_not_bring_the_next_idea(tmp_path: Path) -> None:
    handed = "### Handed Over\n\n#### From the planner, attempt 1\nUse tabs.\n"

    reply = an_agent(*THREE).work(a_prompt(attempt=2, memory=handed), a_session(tmp_path))

    assert reply.text == "spaces"


def test_it_takes_a_model_when_an_idea_tells_models_apart(tmp_path: Path) -> None:
    path = a_playbook(tmp_path, GOOD.replace("seconds = 0", 'models = ["opus"]'))

    assert an_agent(*MIXED).accepts_model
    assert RehearsalAgent(path).accepts_model
    assert not an_agent(*THREE).accepts_model
    assert not RehearsalAgent(a_playbook(tmp_path, GOOD)).accepts_model
    assert not RehearsalAgent(a_playbook(tmp_path, "[[")).accepts_model
    assert not RehearsalAgent(tmp_path / "none.toml").accepts_model


def test_thought_costs_tokens_besides_those_of_the_answer(tmp_path: Path) -> None:
    reply = an_agent(PlaybookIdea(says="Done.", tokens=12_000)).work(a_prompt(), a_session(tmp_path))

    assert reply.tokens_out == 12_000 + count_tokens("Done.")


# --- verification ------------------------------------------------------------------


def a_judged_task(directory: Path, part: PlaybookTask, *, title: str = "Fix the parser") -> Sigils:
    task = Task(id="t-000001", title=title, created_at="", updated_at="")
    prompt = build_review_prompt(task, None, ("the lexer.py",), "Mended the lexer.")
    agent = RehearsalAgent(Playbook(tasks=(PlaybookTask(about="the lexer", ideas=THREE, review="Wrong task."), part)))

    reply = agent.work(prompt, a_session(directory, read_only=True))

    assert reply.files == ()
    return parse_sigils(reply.text)


def test_a_session_that_only_looks_passes_the_work_and_changes_nothing(tmp_path: Path) -> None:
    sigils = a_judged_task(
        tmp_path, PlaybookTask(about="the parser", ideas=(PlaybookIdea(says="done", edits=(a_write(),)),))
    )

    assert sigils.verify_passed is True
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_only_looks_says_what_is_wrong_until_a_file_holds_what_it_should(tmp_path: Path) -> None:
    part = PlaybookTask(
        about="the parser",
        ideas=THREE,
        review="Tabs are not read.",
        review_file="parser.py",
        review_holds="tab",
    )
    always = PlaybookTask(about="the parser", ideas=THREE, review="Tabs are not read.")

    missing = a_judged_task(tmp_path, part)
    (tmp_path / "parser.py").write_text("def tab(): ...\n")
    mended = a_judged_task(tmp_path, part)

    assert (missing.verify_passed, missing.verify_reason) == (False, "Tabs are not read.")
    assert mended.verify_passed is True
    assert a_judged_task(tmp_path, always).verify_passed is False


def test_a_session_that_only_looks_does_not_pass_a_task_that_the_playbook_lacks(tmp_path: Path) -> None:
    sigils = a_judged_task(tmp_path, PlaybookTask(about="the parser", ideas=THREE), title="Fix the printer")

    assert (sigils.verify_passed, sigils.verify_reason) == (False, "The playbook has no such task.")


# --- what it does ------------------------------------------------------------------


def test_its_edits_are_made_and_it_says_which_files_really_changed(tmp_path: Path) -> None:
    (tmp_path / "parser.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "same.py").write_text("new\n")
    heard: list[str] = []
    agent: Agent = an_agent(
        PlaybookIdea(
            says="It is {done}.\n<task-done>{task_id}</task-done>",
            edits=(
                PlaybookEdit(file="parser.py", replace="1", text="2"),
                PlaybookEdit(file="parser.py", replace="b = 1", text="b = 3"),
                a_write("same.py"),
                a_write("tests/test_parser.py", "x\n"),
            ),
        )
    )
    prompt = a_prompt()

    reply = agent.work(prompt, a_session(tmp_path, on_output=heard.append))

    assert (tmp_path / "parser.py").read_text() == "a = 2\nb = 3\n"
    assert (tmp_path / "tests/test_parser.py").read_text() == "x\n"
    assert reply.files == ("parser.py", "tests/test_parser.py")
    assert agent.reports_files
    assert reply.text == "It is {done}.\n<task-done>t-000001</task-done>"
    assert heard == [reply.text]
    assert (reply.tokens_in, reply.tokens_out) == (count_tokens(prompt), count_tokens(reply.text))
    assert (reply.ending, reply.cost_usd) == (SessionEnding.FINISHED, 0.0)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (
            PlaybookEdit(file="parser.py", replace="gone", text=""),
            "parser.py does not contain the text to replace: gone.",
        ),
        (a_write("../outside.py"), "../outside.py is outside the project."),
        (a_write("/tmp/outside.py"), "/tmp/outside.py is outside the project."),
        (a_write("link/outside.py"), "link/outside.py is outside the project."),
    ],
)
def test_an_edit_that_cannot_be_made_is_a_failure_report_and_changes_nothing(
    tmp_path: Path, edit: PlaybookEdit, why: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "parser.py").write_text("old\n")
    (project / "link").symlink_to(tmp_path)
    agent = an_agent(PlaybookIdea(says="<task-done>{task_id}</task-done>", edits=(a_write(), edit)))

    reply = agent.work(a_prompt(), a_session(project))

    sigils = parse_sigils(reply.text)
    assert (sigils.done_ids, sigils.failed_ids) == ((), ("t-000001",))
    assert sigils.report
    assert sigils.report.why == why
    assert reply.files == ()
    assert (project / "parser.py").read_text() == "old\n"
    assert not (tmp_path / "outside.py").exists()


def test_a_missing_file_and_a_directory_in_the_way_are_failure_reports(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for edit in (PlaybookEdit(file="none.py", replace="a", text="b"), a_write("folder")):
        reply = an_agent(PlaybookIdea(says="done", edits=(a_write("one.py"), edit))).work(
            a_prompt(), a_session(tmp_path)
        )

        assert parse_sigils(reply.text).failed_ids == ("t-000001",)
    assert reply.files == ("one.py",)


def test_thinking_takes_its_time_and_is_cut_short_when_asked(tmp_path: Path) -> None:
    agent = an_agent(PlaybookIdea(says="done", seconds=0.2, edits=(a_write(),)))
    slow = an_agent(PlaybookIdea(says="done", seconds=60, edits=(a_write("slow.py"),)))
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()

    reply = agent.work(a_prompt(), a_session(tmp_path))
    stopped = slow.work(a_prompt(), a_session(tmp_path, should_stop=stop.is_set))
    late = slow.work(a_prompt(), a_session(tmp_path, limits=Limits(seconds=0.1)))

    assert 0.2 <= reply.seconds < 2
    assert (stopped.ending, stopped.detail, stopped.text) == (SessionEnding.STOPPED, "The rehearsal was stopped.", "")
    assert (late.ending, late.detail) == (SessionEnding.TIMED_OUT, "The rehearsal took longer than 0.1 seconds.")
    assert (stopped.files, late.files) == ((), ())
    assert not (tmp_path / "slow.py").exists()
    assert time.monotonic() - began < 10


# --- the playbook ------------------------------------------------------------------


def a_playbook(directory: Path, text: str) -> Path:
    path = directory / PLAYBOOK
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


GOOD = '''
[[task]]
about = "the parser"

[[task.idea]]
says = "First."
edit = [{file = "parser.py", write = ""}]

[[task.idea]]
says = "Second."
knows = ["tabs"]
seconds = 0

[[task.idea.edit]]
file = "parser.py"
replace = "a"
with = """b"""
'''


TOGETHER = "review_file and review_holds need each other and a review other than pass"


def test_the_playbook_is_read_from_the_project(tmp_path: Path) -> None:
    a_playbook(tmp_path, GOOD)
    (tmp_path / "parser.py").write_text("a")

    agent = open_agent(AgentConfig(name="rehearsal"), tmp_path)
    agent.check()

    assert agent.work(a_prompt(memory="Tabs!"), a_session(tmp_path)).text == "Second."
    assert (tmp_path / "parser.py").read_text() == "b"


def test_a_playbook_that_changes_is_read_again(tmp_path: Path) -> None:
    agent = RehearsalAgent(a_playbook(tmp_path, GOOD))
    first = agent.work(a_prompt(), a_session(tmp_path)).text

    a_playbook(tmp_path, GOOD.replace("First.", "Changed."))

    assert (first, agent.work(a_prompt(), a_session(tmp_path)).text) == ("First.", "Changed.")


def test_without_a_playbook_check_says_where_to_write_one(tmp_path: Path) -> None:
    agent = RehearsalAgent(tmp_path / PLAYBOOK)

    with pytest.raises(AgentUnavailableError) as missing:
        agent.check()

    path = tmp_path / ".ralph/rehearsal.toml"
    assert str(missing.value) == f"The rehearsal agent needs a playbook. Create {path} or choose another agent."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is invalid: the file has no [[task]]."),
        ("task = 3", "is invalid: the file has no [[task]]."),
        ("[[task]]\nabout = 'x'", "is invalid: task 1 has no [[idea]]."),
        ("[[task]]\nabout = ' '\n[[task.idea]]\nsays = 'x'", "is invalid: task 1: about must be a string, not ' '."),
        (GOOD + "[[task]]\nidea = [{}]", "is invalid: task 2, idea 1: says must be a string."),
        (
            GOOD.replace("knows", "know"),
            "task 1, idea 2: unknown key 'know', use one of says, edit, knows, models, hats, seconds, tokens.",
        ),
        (GOOD.replace('["tabs"]', '"tabs"'), "task 1, idea 2: knows must be a list of phrases, not 'tabs'."),
        (GOOD.replace("seconds = 0", "seconds = -1"), "idea 2: seconds must be a number from 0 to 3600, not -1."),
        (GOOD.replace("seconds = 0", "tokens = true"), "idea 2: tokens must be a number from 0 to 10000000, not True."),
        (GOOD.replace("seconds = 0", "models = 'opus'"), "idea 2: models must be a list of models, not 'opus'."),
        (GOOD.replace("seconds = 0", "hats = ['']"), "idea 2: hats must be a list of hats, not ['']."),
        (
            GOOD.replace("seconds = 0", "hats = ['boss']"),
            "idea 2: unknown hat 'boss', choose one of explorer, planner, creator, critic, editor.",
        ),
        (f"[[task]]\nreview = ''{GOOD[9:]}", "is invalid: task 1: review must be a string, not ''."),
        (f"[[task]]\nreview_file = 'a.py'{GOOD[9:]}", f"is invalid: task 1: {TOGETHER}."),
        (f"[[task]]\nreview_file = 'a.py'\nreview_holds = 'a'{GOOD[9:]}", f"is invalid: task 1: {TOGETHER}."),
        (
            GOOD.replace("with = ", "write = "),
            "idea 2, edit 1: an edit needs file and write, or file, replace and with.",
        ),
        ("[[task]\n", "cannot be read: Expected ']]' at the end of an array declaration (at line 1, column 7)."),
    ],
)
def test_check_says_what_is_wrong_with_a_playbook_and_where(tmp_path: Path, text: str, why: str) -> None:
    path = a_playbook(tmp_path, text)

    with pytest.raises(AgentUnavailableError) as wrong:
        RehearsalAgent(tmp_path / PLAYBOOK).check()

    assert str(wrong.value).startswith(f"The playbook {path} ")
    assert str(wrong.value).endswith(why)


def test_a_playbook_that_is_no_text_is_told_of(tmp_path: Path) -> None:
    a_playbook(tmp_path, "").write_bytes(b"\xff\xfe")

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "unreadable-playbook"):
        RehearsalAgent(tmp_path / PLAYBOOK).check()
