"""The right memory and no other, wherever a person, an agent or a program asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from ralph.core.actor import AGENT
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from tests.cli.ran import Ran, run
from tests.integrations.mcp.asking import called
from tests.integrations.test_hooks import Hooks
from tests.web.asking import Served

OTHERS = (
    "Zod validates every request body",
    "Nginx terminates TLS in staging",
    "Start docker before the integration tests",
    "Retries use exponential backoff with jitter",
    "The exporter writes UTF-8 with a byte order mark",
    "Images are resized by a worker queue",
)
LOGIN = "Login tests need TZ=UTC"
NONSENSE = "xyzzy plugh"
LONG_TASK = (
    "The billing team wants refunds to be visible in the ledger. Extend the schema with the new columns. Write the"
    " migrations. Adapt the serializers and the admin pages as well, and describe the new columns for the people in"
    " finance."
)
LEARNINGS = {
    "version": "1.0.0",
    "learnings": [
        {
            "id": f"learn-00{n}",
            "type": type,
            "taskType": "test-fix",
            "content": content,
            "confidence": 0.85,
            "sourceLoops": ["ralph-auth-001"],
            "successRate": rate,
            "useCount": 5,
            "createdAt": "2026-11-01T10:00:00.000Z",
            "updatedAt": "2026-11-01T10:00:00.000Z",
        }
        for n, (type, rate, content) in enumerate(
            (
                ("strategy", 0.9, {"description": "Test-driven development", "effectiveness": 0.85}),
                ("antipattern", 0.0, {"description": "Module not found - verify dependencies", "occurrences": 2}),
                ("estimate", 0.8, {"totalIterations": 3, "avgIterationTime": 45000, "complexity": "low"}),
            )
        )
    ],
}

Ralph = Callable[..., Ran]


@pytest.fixture
def ralph(project: Project, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one command in a project with memories that were all added in the same minute."""

    def command(*words: str) -> Ran:
        return run(capsys, Path(project.directory), *words)

    for text in (*OTHERS[:3], LOGIN, *OTHERS[3:]):
        assert command("memory", "add", text).code == 0
    return command


def prompt_of(ralph: Ralph, title: str, *more: str) -> str:
    task = ralph("task", "add", title, *more, "--format", "quiet").out.strip()
    return ralph("prompt", task, "--raw").out


def test_a_search_finds_what_is_about_it_and_not_what_was_added_in_the_same_minute(ralph: Ralph) -> None:
    found = ralph("memory", "search", "docker", "--format", "json").json

    assert [one["title"] for one in found] == ["Start docker before the integration tests"]


@pytest.mark.parametrize("title", ["Fix the login tests", "Fix the login tests again 7"])
def test_a_prompt_shows_what_is_about_the_task_however_it_is_put(ralph: Ralph, title: str) -> None:
    text = prompt_of(ralph, title)

    assert LOGIN in text
    assert not [other for other in OTHERS if other in text]


def test_knowledge_is_shown_for_a_long_task_that_names_its_tag(ralph: Ralph) -> None:
    ralph("memory", "add", "Every revision has a downgrade.", "--tags", "migrations,alembic")

    assert len(LONG_TASK.split()) == 40
    assert "Every revision has a downgrade." in prompt_of(ralph, "Show refunds in the ledger", "--body", LONG_TASK)
    assert "shares the word migrations" in why(ralph, "Every revision has a downgrade.", "Show refunds", LONG_TASK)


def why(ralph: Ralph, text: str, title: str, body: str = "") -> str:
    """Return what `ralph memory why` says about a memory and a new task."""
    task = ralph("task", "add", title, "--body", body, "--format", "quiet").out.strip()
    (id,) = [one["id"] for one in ralph("memory", "list", "--format", "json").json if text in one["content"]]
    return " ".join(ralph("memory", "why", id, "--task", task).out.split())


@pytest.mark.parametrize(
    ("text", "title", "reason"),
    [
        (LOGIN, "Fix the login tests", "shares the word login"),
        (LOGIN, "Fix the login tests again 7", "shares the word login"),
        (OTHERS[2], "Fix the login tests again 7", "only everyday words in common with the task"),
        (OTHERS[1], "yes, go on", "no distinctive word in common with the task"),
        (OTHERS[1], NONSENSE, "no distinctive word in common with the task"),
        (OTHERS[2], "Start docker", "shares the word docker"),
    ],
)
def test_why_says_in_words_what_brings_a_memory_or_keeps_it_out(
    ralph: Ralph, text: str, title: str, reason: str
) -> None:
    told = why(ralph, text, title)

    assert reason in told
    assert (" In the next prompt" in told) == reason.startswith("shares")


def test_what_loops_taught_fills_its_section(ralph: Ralph, tmp_path: Path) -> None:
    file = tmp_path / "ralph-learnings.json"
    file.write_text(json.dumps(LEARNINGS))
    assert ralph("memory", "import", "--force", str(file)).code == 0

    text = prompt_of(ralph, "Fix failing authentication tests")

    section = text.partition("## Knowledge Base (from previous loops)")[2]
    assert "Test-driven development (effectiveness: 85%)" in section
    assert "Avoid: Module not found - verify dependencies" in section
    assert "## Time/Iteration Estimates" in section
    task, other = (
        ralph("task", "add", title, "--format", "quiet").out.strip()
        for title in ("Fix failing authentication tests", "Document the command line")
    )
    for id in ("learn-000", "learn-001", "learn-002"):
        assert "learned from tasks of the same type." in ralph("memory", "why", id, "--task", task).out
        assert "was learned from test-fix tasks" in ralph("memory", "why", id, "--task", other).out


def test_a_feature_name_brings_what_is_tagged_with_it(ralph: Ralph) -> None:
    ralph("memory", "add", "Ask finance before the schema changes.", "--tags", "refunds")
    feature = ralph("feature", "add", "Refunds", "--format", "quiet").out.strip()

    assert "Ask finance" in prompt_of(ralph, "Paint the button", "--feature", feature)
    assert "Ask finance" not in prompt_of(ralph, "Paint another button")


def test_nonsense_matches_nothing_anywhere(ralph: Ralph, project: Project) -> None:
    assert ralph("memory", "search", NONSENSE, "--format", "json").json == []
    assert "No memory matches" in ralph("memory", "search", NONSENSE).out
    assert ralph("memory", "prime", "--for", NONSENSE).out == ""
    handle = ProjectHandle(project.directory, AGENT)
    assert "No memory matches" in called(handle, "search_memories", query=NONSENSE)
    handle.close()
    served = Served(Path(project.directory), project)
    try:
        assert served.get(f"/api/projects/-/memories/search?q={quote(NONSENSE)}")[1]["items"] == []
        assert "Nothing matches" in str(served.get(f"/memories?q={quote(NONSENSE)}")[1])
    finally:
        served.close()


def test_a_session_gets_what_is_about_its_prompt_and_small_talk_brings_nothing(ralph: Ralph, project: Project) -> None:
    hooks = Hooks(Path(project.directory))

    assert LOGIN in hooks("user-prompt-submit", prompt="Fix the login tests again 7").told
    for prompt in ("continue", "yes, go on", "run the tests", "thanks, commit it", NONSENSE):
        assert hooks("user-prompt-submit", prompt=prompt, session_id="s-2").told == ""


def test_the_first_line_above_a_log_is_no_title(ralph: Ralph, project: Project) -> None:
    ralph("memory", "add", "The standup script mails the team on Mondays", "--tags", "standup")
    ralph("memory", "add", "The queue of images is named resize-v2; older names raise QueueMissing")
    prompt = "my standup script worked last week, now:\n\nQueueMissing: images\n  at resize (queue.js:4)"

    told = Hooks(Path(project.directory))("user-prompt-submit", prompt=prompt).told

    assert "QueueMissing" in told
    assert "Mondays" not in told


def test_what_a_session_is_told_with_a_prompt_is_explained(ralph: Ralph) -> None:
    id = ralph("memory", "search", "login", "--format", "json").json[0]["id"]
    passage = "ep-0123456789abcdef"

    told = ralph("memory", "why", id, "--prompt", "Fix the login tests", "--format", "json").json
    small_talk = ralph("memory", "why", id, "--prompt", "thanks, go on").out

    assert told["is_shown"]
    assert told["task_id"] == ""
    assert told["evidence"] == "shares the word login"
    assert "Not told with this prompt: it has " in " ".join(small_talk.split())
    assert ralph("memory", "why", passage, "--prompt", "login").code
    assert ralph("memory", "why", id, "--prompt", "login", "--task", "t-1").code


def test_explanations_say_in_words_what_an_estimate_rests_on(ralph: Ralph, project: Project) -> None:
    id = ralph("memory", "search", "login", "--format", "json").json[0]["id"]
    task = ralph("task", "add", "Fix the login tests again 7", "--format", "quiet").out.strip()

    assert "shares the word login" in ralph("memory", "search", "login", "--explain").out
    assert "shares the word login" in ralph("memory", "why", id, "--task", task).out
    assert ralph("memory", "why", id, "--task", task, "--format", "json").json["evidence"] == "shares the word login"
    assert project.prompts.explain(id, task).relevance == pytest.approx(
        project.memory.search("login tests again 7")[0].relevance, rel=0.2
    )


def test_an_edit_says_what_it_takes_the_place_of(ralph: Ralph) -> None:
    texts = ("Uploads time out after 10 minutes", "The moon is far away")
    earlier, edited = (ralph("memory", "add", text, "--format", "quiet").out.strip() for text in texts)

    out = ralph("memory", "edit", edited, "--content", "Uploads time out after 5 minutes").out

    assert f"It takes the place of {earlier}." in out
    assert ralph("memory", "show", earlier, "--format", "json").json["superseded_by"] == edited
