"""`ralph hook`, run as agents run it: what it tells, what it keeps, and that the agent never gets anything but JSON."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest

from ralph.core.records import Memory, TaskStatus, now
from ralph.integrations import hook_errors
from ralph.integrations.hooks import STATEMENTS_LOST_MESSAGE
from ralph.memory.recall import embeddings
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.workspace import init_project
from tests.integrations.mcp.asking import Served
from tests.make import set_up_project
from tests.memory.test_sessions import many
from tests.waiting import wait_until

EVENTS = ("session-start", "user-prompt-submit", "pre-compact", "post-compact", "stop", "subagent-stop", "session-end")
IN_TIME = 60.0
"""More than any hook may take, on the slowest machine."""
LESSON = "MEMORY:fix:Port 5433 is taken by the test database."
LEARNED = "Port 5433 is taken by the test database."


class Answer:
    """What a hook printed and how it ended."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.out, self.err = code, out, err.decode(errors="replace")

    @property
    def envelope(self) -> dict[str, Any]:
        """The one JSON object that it has to print, with exit code 0."""
        assert self.code == 0, self.err
        assert self.out.endswith(b"\n")
        said = json.loads(self.out)
        assert isinstance(said, dict)
        return said

    @property
    def told(self) -> str:
        return str(self.envelope.get("hookSpecificOutput", {}).get("additionalContext", ""))


class Hooks:
    """The hooks of one project, called by an agent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("RALPH_", "CLAUDE"))
        }
        if store := os.environ.get("RALPH_STORE"):
            self.environment["RALPH_STORE"] = store

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "ralph", "hook", *words]

    def raw(
        self, *words: str, given: bytes = b"{}", at: Path | None = None, inside: dict[str, str] | None = None
    ) -> Answer:
        """Call a hook with any bytes on stdin."""
        ran = subprocess.run(
            self.command(*words),
            cwd=at or self.directory,
            env={**self.environment, **(inside or {})},
            input=given,
            capture_output=True,
            timeout=IN_TIME,
        )
        return Answer(ran.returncode, ran.stdout, ran.stderr)

    def __call__(self, event: str, *words: str, **fields: object) -> Answer:
        """Call a hook as an agent does, from session s-1 unless another is said."""
        said = {"session_id": "s-1", "cwd": str(self.directory), **fields}
        return self.raw(event, *words, given=json.dumps(said).encode())

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*words),
            **{
                "cwd": self.directory,
                "env": self.environment,
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )

    def doctor(self) -> dict[str, Any]:
        """Return what the doctor says of the hooks."""
        words = [sys.executable, "-m", "ralph", "doctor", "--format", "json"]
        ran = subprocess.run(words, cwd=self.directory, env=self.environment, capture_output=True, timeout=IN_TIME)
        found = [one for one in json.loads(ran.stdout) if one["about"] == "hooks"]
        return dict(found[0]) if found else {}

    def memories(self) -> list[Memory]:
        with Project.open(self.directory) as project:
            return list(project.memory.list(MemoryFilter()))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the state of the person who runs these hooks apart from that of who runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def short_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep the state in a folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ralph-") as directory:
        monkeypatch.setenv("XDG_STATE_HOME", directory)
        yield Path(directory)


@pytest.fixture
def hooks(tmp_path: Path, state: Path) -> Hooks:
    directory = tmp_path / "project"
    directory.mkdir()
    set_up_project(directory)
    return Hooks(directory)


def remember(hooks: Hooks, *bodies: str, **fields: Any) -> list[str]:
    with Project.open(hooks.directory) as project, project.synced():
        return [project.memory.add(body, **{"type": "fix", **fields}).memory.id for body in bodies]


def transcript(path: Path, *entries: object) -> str:
    """Write a transcript as Claude Code does; a text is an answer of the main thread, bytes are taken as they are."""
    lines = []
    for entry in entries:
        if isinstance(entry, str):
            entry = answered(entry)
        lines.append(entry if isinstance(entry, bytes) else json.dumps(entry).encode())
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def answered(text: str, at: str = "") -> dict[str, Any]:
    """Return an answer of the main thread as Claude Code writes it down."""
    said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "isSidechain": False, "message": said, **({"timestamp": at} if at else {})}


# --- what sessions are told ----------------------------------------------------------


def test_a_session_is_told_what_is_remembered_and_how_to_add_to_it(hooks: Hooks) -> None:
    remember(hooks, "Run make lint before make test.")

    answer = hooks("session-start", source="startup")

    assert answer.envelope.keys() == {"hookSpecificOutput"}
    assert answer.envelope["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "> Run make lint before make test." in answer.told
    assert "MEMORY:type:content" in answer.told
    assert answer.err == ""


def test_what_one_session_says_the_next_is_told(hooks: Hooks) -> None:
    hooks("stop", last_assistant_message=f"Done.\n{LESSON}\n")

    assert LEARNED in hooks("session-start", session_id="s-2").told


def test_a_prompt_brings_what_has_to_do_with_it_once_and_nothing_else(hooks: Hooks) -> None:
    hooks("session-start")
    remember(hooks, "The parser wants tabs, not spaces.", "Invoices are rounded to cents.")

    first = hooks("user-prompt-submit", prompt="The parser chokes on spaces, please fix the parser.")
    again = hooks("user-prompt-submit", prompt="The parser chokes on spaces, please fix the parser.")
    other = hooks("user-prompt-submit", prompt="Good morning!")

    assert "The parser wants tabs" in first.told
    assert first.envelope["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "Invoices" not in first.told
    assert again.envelope == {}
    assert other.envelope == {}


@pytest.mark.skipif(not embeddings.is_installed(), reason="no embedding model installed")
def test_beside_the_mcp_server_a_prompt_brings_what_means_the_same(short_state: Path, hooks: Hooks) -> None:
    remember(
        hooks,
        "The login form drops the session when cookies are blocked.",
        "Photos are scaled down to 1600 pixels before they are sent.",
        "Deploys start when a tag is pushed to main.",
        "Mails leave by a queue, never from a request.",
    )
    subprocess.run(
        [sys.executable, "-m", "ralph", "memory", "embed"], cwd=hooks.directory, env=hooks.environment, check=True
    )
    prompt = "pictures from the phone take ages to upload, resize them first"
    assert hooks("user-prompt-submit", prompt=prompt).envelope == {}

    with Served(hooks.directory) as server:
        # The server loads the model a while after it has started, and may be too busy to answer in time.
        wait_until(lambda: list(short_state.glob("ralph/vectors/*.sock")))
        wait_until(
            lambda: "Photos are scaled down" in hooks("user-prompt-submit", session_id="s-2", prompt=prompt).told
        )
        small_talk = hooks("user-prompt-submit", session_id="s-3", prompt="yes please, go on with that")
        server.end()

    assert small_talk.envelope == {}
    assert not list(short_state.glob("ralph/vectors/*.sock"))


def test_after_a_compaction_it_is_told_again_and_first_what_it_works_on(hooks: Hooks) -> None:
    parser = remember(hooks, "The parser wants tabs, not spaces.")[0]
    with Project.open(hooks.directory) as project:
        many(project, 150, confidence=0.95)
    first = hooks("session-start")
    hooks("user-prompt-submit", prompt="Make the parser accept spaces.")

    hooks("post-compact", compact_summary="Worked on the parser, which wants tabs.")
    again = hooks("session-start", source="compact")

    assert parser not in first.told
    assert parser in again.told
    assert len(again.told) > 7_000


def test_one_that_goes_on_is_told_only_what_it_does_not_know(hooks: Hooks) -> None:
    remember(hooks, "Run make lint before make test.")
    hooks("session-start")
    remember(hooks, "Port 5433 is taken.")

    resumed = hooks("session-start", source="resume")

    assert "Port 5433" in resumed.told
    assert "make lint" not in resumed.told
    assert hooks("session-start", source="resume").envelope == {}


def test_inside_the_loop_the_hooks_are_silent_but_for_a_compaction(hooks: Hooks) -> None:
    remember(hooks, "The parser wants tabs.")
    with Project.open(hooks.directory) as project:
        task = project.tasks.add("Fix the parser", "The parser chokes on spaces.")
    inside = {"RALPH_SESSION": "run/1", "RALPH_TASK_ID": task.id}
    said = {"session_id": "s-1", "prompt": "Fix the parser", "last_assistant_message": LESSON}

    for event in EVENTS:
        assert hooks.raw(event, given=json.dumps(said).encode(), inside=inside).envelope == {}, event
    compacted = hooks.raw("session-start", given=json.dumps({"source": "compact"}).encode(), inside=inside)

    assert "The parser wants tabs." in compacted.told
    assert [one.content for one in hooks.memories()] == ["The parser wants tabs."]
    with Project.open(hooks.directory) as project:
        assert project.sessions.latest(5) == []


@pytest.mark.parametrize("setting", ['inject = "manual"', 'inject = "none"', "enabled = false"])
def test_nothing_is_told_when_the_settings_say_so(hooks: Hooks, setting: str) -> None:
    remember(hooks, "The parser wants tabs.")
    settings = hooks.directory / ".ralph.toml"
    settings.write_text(settings.read_text().replace("# [memories]\n", f"[memories]\n{setting}\n"))

    assert hooks("session-start").envelope == {}
    assert hooks("user-prompt-submit", prompt="Fix the parser: tabs").envelope == {}
    assert hooks("session-start", source="compact").envelope == {}


# --- what is kept --------------------------------------------------------------------


@pytest.mark.parametrize("event", ["stop", "subagent-stop"])
def test_what_a_session_says_is_worth_knowing_is_kept_once(hooks: Hooks, event: str) -> None:
    said = f'{LESSON}\n<knowledge tags="db" title="Ports">The database has a port of its own.</knowledge>'

    for _ in range(3):
        assert hooks(event, last_assistant_message=said, stop_hook_active=True).envelope == {}

    kept = {one.kind: one for one in hooks.memories()}
    assert sorted(kept) == ["fix", "knowledge"]
    assert (kept["fix"].content, kept["fix"].source, kept["fix"].origin_session) == (LEARNED, "explicit", "s-1")
    with Project.open(hooks.directory) as project:
        events = project.memory.history(kept["fix"].id)
    assert [(one.what, one.who) for one in events] == [("added", "agent")]


def test_a_session_outside_the_loop_finishes_no_task(hooks: Hooks) -> None:
    with Project.open(hooks.directory) as project:
        task = project.tasks.add("Fix the parser")

    hooks("stop", last_assistant_message=f"<task-done>{task.id}</task-done>")

    with Project.open(hooks.directory) as project:
        assert project.store.tasks.get(task.id).status is TaskStatus.PENDING


def test_secrets_in_what_is_said_are_kept_nowhere(hooks: Hooks) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5

    hooks("user-prompt-submit", prompt=f"Use {secret}")
    hooks("stop", last_assistant_message=f"I used {secret}.\nMEMORY:fix:The token {secret} opens the door.")
    hooks("session-end", reason=secret)

    with Project.open(hooks.directory) as project:
        session = project.sessions.get("s-1")
    assert "[redacted]" in hooks.memories()[0].content
    assert "[redacted]" in session.title
    assert secret not in f"{session}{hooks.memories()}"


@pytest.mark.parametrize("event", ["pre-compact", "session-end"])
def test_a_transcript_is_read_for_what_no_other_hook_saw(hooks: Hooks, tmp_path: Path, event: str) -> None:
    beside = {"role": "assistant", "content": [{"type": "text", "text": "MEMORY:fix:Said by a subagent."}]}
    path = transcript(
        tmp_path / "t.jsonl",
        {"type": "user", "message": {"role": "user", "content": "MEMORY:fix:Said by a person."}},
        b'{"type": "assistant", "message": {"role": "assist',
        b"\xff\xfe\x00 noise",
        b'{"role": "assistant", "message": ' + b"[" * 100_000,
        {"type": "assistant", "isSidechain": True, "message": beside},
        {"type": "assistant", "message": {"role": "assistant", "content": "assistant"}},
        [1, "assistant"],
        f"Found it.\n{LESSON}",
    )

    hooks(event, transcript_path=path)
    hooks("stop", last_assistant_message=LESSON)
    hooks(event, transcript_path=path)

    assert [one.content for one in hooks.memories()] == [LEARNED]
    assert hooks.memories()[0].support == 1


@pytest.mark.parametrize("name", ["none.jsonl", "folder.jsonl", "pipe.jsonl", "nul\0.jsonl", "plain.json"])
def test_a_transcript_that_cannot_be_read_is_left_out(hooks: Hooks, tmp_path: Path, name: str) -> None:
    if name == "folder.jsonl":
        (tmp_path / name).mkdir()
    elif name == "pipe.jsonl":
        os.mkfifo(tmp_path / name)
    elif name == "plain.json":
        transcript(tmp_path / name, LESSON)

    hooks("user-prompt-submit", prompt="Hello")
    answer = hooks("session-end", transcript_path=f"{tmp_path}/{name}", reason="exit")

    assert answer.envelope == {}
    assert answer.err == ""
    assert hooks.memories() == []
    with Project.open(hooks.directory) as project:
        assert project.sessions.get("s-1").ending == "exit"


def test_one_made_of_another_does_not_bring_back_what_a_person_changed_meanwhile(hooks: Hooks, tmp_path: Path) -> None:
    before = answered(LESSON, now())
    hooks("stop", last_assistant_message=LESSON)
    with Project.open(hooks.directory) as project:
        project.memory.edit(hooks.memories()[0].id, content="Port 5544 is taken by the printer.")
    hooks("session-start", session_id="s-2", source="fork")
    path = transcript(tmp_path / "t.jsonl", before, answered("MEMORY:fix:The parser wants tabs.", now()))

    for event in ("pre-compact", "session-end"):
        hooks(event, session_id="s-2", transcript_path=path)

    assert sorted(one.content for one in hooks.memories()) == [
        "Port 5544 is taken by the printer.",
        "The parser wants tabs.",
    ]


def test_a_session_in_which_nothing_was_asked_and_nothing_said_leaves_no_trace(hooks: Hooks) -> None:
    hooks("session-start")
    hooks("session-end", reason="exit")

    with Project.open(hooks.directory) as project:
        assert project.store.sessions.find("s-1") is None


def test_what_a_person_deleted_or_changed_meanwhile_is_not_learned_again(hooks: Hooks) -> None:
    deleted, changed = remember(hooks, "Use tabs in the parser.", "Invoices are rounded to cents.")
    hooks("session-start")
    with Project.open(hooks.directory) as project:
        project.memory.delete(deleted)
        project.memory.edit(changed, content="Invoices are rounded to whole euros.")

    hooks(
        "stop", last_assistant_message="MEMORY:fix:Use tabs in the parser.\nMEMORY:fix:Invoices are rounded to cents."
    )

    assert [one.content for one in hooks.memories()] == ["Invoices are rounded to whole euros."]


def test_eight_hooks_of_one_session_at_once_lose_nothing(hooks: Hooks) -> None:
    hooks("session-start")

    started = [hooks.start("stop") for _ in range(8)]
    for number, one in enumerate(started):
        said = {"session_id": "s-1", "last_assistant_message": f"MEMORY:fix:Port 54{number}0 is taken by job {number}."}
        assert one.stdin
        one.stdin.write(json.dumps(said).encode())
        one.stdin.close()
    ended = [(one.wait(IN_TIME), one.stdout.read() if one.stdout else b"") for one in started]

    assert ended == [(0, b"{}\n")] * 8
    was_slow = hook_errors.has_queued(str(hooks.directory))  # what misses its time on a busy machine is queued
    while hook_errors.has_queued(str(hooks.directory)):
        hooks("stop")
    with Project.open(hooks.directory) as project:
        assert len(project.sessions.get("s-1").learned) == 8
    assert len(hooks.memories()) == 8
    assert was_slow or hooks.doctor()["is_fine"]


def test_git_sees_nothing_of_what_went_wrong(hooks: Hooks) -> None:
    def git(*words: str) -> str:
        mine = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
        ran = subprocess.run(["git", *mine, *words], cwd=hooks.directory, check=True, capture_output=True, text=True)
        return ran.stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "Begin")

    hooks.raw("nonsense")
    hooks("session-start")
    hooks("user-prompt-submit", prompt="Hello")
    hooks("post-compact", compact_summary="Hello")
    hooks("session-end")

    assert hook_errors.list_hook_errors(str(hooks.directory))
    assert git("status", "--porcelain", "--untracked-files=all") == ""


# --- the ways of the agents ----------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "start", "prompt", "stop"),
    [
        ("claude", "SessionStart", "UserPromptSubmit", "Stop"),
        ("codex", "SessionStart", "UserPromptSubmit", "Stop"),
        ("gemini", "SessionStart", "BeforeAgent", "AfterAgent"),
        ("opencode", "session-start", "user-prompt-submit", "stop"),
    ],
)
def test_each_agent_is_answered_in_its_own_words(hooks: Hooks, agent: str, start: str, prompt: str, stop: str) -> None:
    remember(hooks, "The parser wants tabs.")
    words = "prompt_response" if agent == "gemini" else "last_assistant_message"

    begun = hooks(start, "--agent", agent, hook_event_name=start)
    remember(hooks, "The printer wants paper.")
    asked = hooks(prompt, f"--agent={agent}", hook_event_name=prompt, prompt="The printer is out of paper.")
    said = hooks(stop, "--agent", agent, **{words: LESSON})

    assert "The parser wants tabs." in begun.told
    assert "The printer wants paper." in asked.told
    named = asked.envelope["hookSpecificOutput"]["hookEventName"]
    assert named == ("UserPromptSubmit" if agent == "opencode" else prompt)
    assert said.envelope == {}
    assert LEARNED in [one.content for one in hooks.memories()]
    with Project.open(hooks.directory) as project:
        assert project.sessions.get("s-1").agent == agent


def test_gemini_is_answered_by_its_own_names_though_it_does_not_say_them(hooks: Hooks) -> None:
    remember(hooks, "The parser wants tabs.")

    answer = hooks("before-agent", "--agent", "gemini", prompt="Fix the parser: tabs")
    compressed = hooks("PreCompress", "--agent", "gemini", trigger="auto")

    assert answer.envelope["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    assert compressed.envelope == {}


def of_codex(text: str, role: str) -> dict[str, Any]:
    parts = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
    payload = {"type": "message", "role": role, "content": parts}
    return {"timestamp": now(), "type": "response_item", "payload": payload}


def of_gemini(text: str, role: str) -> dict[str, Any]:
    return {"id": "m", "timestamp": now(), "type": "gemini" if role == "assistant" else role, "content": text}


def of_copilot(text: str, role: str) -> dict[str, Any]:
    return {"type": f"{role}.message", "data": {"content": text}, "timestamp": now()}


@pytest.mark.parametrize(("agent", "written"), [("codex", of_codex), ("gemini", of_gemini), ("copilot", of_copilot)])
def test_the_transcripts_of_other_agents_are_read_too(
    hooks: Hooks, tmp_path: Path, agent: str, written: Callable[[str, str], dict[str, Any]]
) -> None:
    hooks("session-start", "--agent", agent)
    lines = [written("MEMORY:fix:Said by a person.", "user"), written(f"Found it.\n{LESSON}", "assistant")]
    reasoning = {"type": "response_item", "payload": {"type": "reasoning", "content": "MEMORY:fix:assistant"}}
    path = transcript(tmp_path / "t.jsonl", *lines, reasoning)

    hooks("session-end", "--agent", agent, transcript_path=path)

    assert [one.content for one in hooks.memories()] == [LEARNED]


def test_what_gemini_says_twice_is_kept_as_it_was_said(hooks: Hooks, tmp_path: Path) -> None:
    said = f"Done.\n{LESSON}"
    path = transcript(tmp_path / "t.jsonl", of_gemini("Earlier.", "assistant"), of_gemini(said, "assistant"))

    hooks("AfterAgent", "--agent", "gemini", prompt_response=f"{said}{LEARNED}", transcript_path=path)
    hooks("AfterAgent", "--agent", "gemini", prompt_response="MEMORY:fix:Another answer.", transcript_path=path)

    assert sorted(one.content for one in hooks.memories()) == ["Another answer.", LEARNED]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("<hook_context>The parser wants tabs.</hook_context>\n\nRound the invoices.", "Round the invoices."),
        ("<hook_context>Round the invoices.", "<hook_context>Round the invoices."),
    ],
)
def test_what_gemini_puts_before_a_prompt_is_not_taken_for_it(hooks: Hooks, prompt: str, asked: str) -> None:
    remember(hooks, "The parser wants tabs, not spaces.")

    answer = hooks("BeforeAgent", "--agent", "gemini", prompt=prompt)

    assert answer.envelope == {}
    with Project.open(hooks.directory) as project:
        assert project.sessions.get("s-1").title == asked


def test_copilot_is_told_in_an_envelope_of_its_own_and_its_message_is_read_from_its_transcript(
    hooks: Hooks, tmp_path: Path
) -> None:
    remember(hooks, "The parser wants tabs.")
    of_subagent = {"type": "assistant.message", "data": {"content": "MEMORY:fix:No.", "parentToolCallId": "c"}}
    path = transcript(tmp_path / "t.jsonl", of_copilot(f"Done.\n{LESSON}", "assistant"), of_subagent)

    begun = hooks("SessionStart", "--agent", "copilot", source="new")
    asked = hooks("UserPromptSubmit", "--agent", "copilot", prompt="Round the invoices.")
    hooks("Stop", "--agent", "copilot", transcript_path=path, stop_reason="end_turn")

    assert begun.envelope.keys() == {"additionalContext"}
    assert "The parser wants tabs." in begun.envelope["additionalContext"]
    assert asked.envelope.keys() <= {"additionalContext"}
    assert sorted(one.content for one in hooks.memories()) == sorted([LEARNED, "The parser wants tabs."])


def test_cursor_has_an_envelope_of_its_own(hooks: Hooks, tmp_path: Path) -> None:
    remember(hooks, "The parser wants tabs.")

    def cursor(event: str, **fields: object) -> dict[str, Any]:
        said = {"conversation_id": "c-1", "workspace_roots": [str(hooks.directory)], **fields}
        return hooks.raw(event, "--agent", "cursor", given=json.dumps(said).encode(), at=tmp_path).envelope

    begun = cursor("sessionStart")
    asked = cursor("beforeSubmitPrompt", prompt="Fix the parser: tabs")
    said = cursor("afterAgentResponse", text=LESSON)
    ended = cursor("sessionEnd", reason="completed")

    assert begun.keys() == {"additional_context"}
    assert "The parser wants tabs." in begun["additional_context"]
    assert asked == {"continue": True}
    assert said == ended == {}
    with Project.open(hooks.directory) as project:
        session = project.sessions.get("c-1")
    assert (session.agent, session.prompts, len(session.learned)) == ("cursor", 1, 1)


@pytest.mark.parametrize("given", [b"", b"noise", b"{}"])
def test_cursor_may_go_on_with_its_prompt_whatever_happens(hooks: Hooks, tmp_path: Path, given: bytes) -> None:
    for place in (hooks.directory, tmp_path):
        answer = hooks.raw("beforeSubmitPrompt", "--agent", "cursor", given=given, at=place)

        assert answer.envelope == {"continue": True}


def test_an_agent_that_went_elsewhere_is_still_in_its_project(hooks: Hooks, tmp_path: Path) -> None:
    remember(hooks, "The parser wants tabs.")
    given = json.dumps({"session_id": "s-1", "cwd": str(tmp_path)}).encode()

    started_in = {"CLAUDE_PROJECT_DIR": str(hooks.directory)}
    answer = hooks.raw("session-start", given=given, at=tmp_path, inside=started_in)

    assert "The parser wants tabs." in answer.told


def too_long(tmp_path: Path) -> str:
    return str(tmp_path / ("x" * 300))


def under_a_file(tmp_path: Path) -> str:
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "folder")


def in_a_circle(tmp_path: Path) -> str:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    return str(tmp_path / "circle" / "folder")


def locked_up(tmp_path: Path) -> str:
    (tmp_path / "closed" / "folder").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    return str(tmp_path / "closed" / "folder")


def no_name(tmp_path: Path) -> str:
    return f"{tmp_path}/\0"


@pytest.mark.parametrize("place", [too_long, under_a_file, in_a_circle, locked_up, no_name])
def test_one_that_is_nowhere_is_in_the_project_it_was_started_in(
    hooks: Hooks, tmp_path: Path, place: Callable[[Path], str]
) -> None:
    remember(hooks, "The parser wants tabs.")
    given = json.dumps({"session_id": "s-1", "cwd": place(tmp_path)}).encode()

    started_in = {"CLAUDE_PROJECT_DIR": str(hooks.directory)}
    answer = hooks.raw("session-start", given=given, at=tmp_path, inside=started_in)

    assert "The parser wants tabs." in answer.told
    assert answer.err == ""


# --- a clone of what somebody else wrote ---------------------------------------------


@pytest.fixture
def clone(tmp_path: Path, hooks: Hooks) -> Hooks:
    """Return the hooks of a clone beside a project, with a folder of ours in it and no database."""
    (tmp_path / "clone" / ".ralph").mkdir(parents=True)
    return Hooks(tmp_path / "clone")


def all_linked(folder: Path, outside: Path) -> None:
    folder.symlink_to(outside)


def each_linked(folder: Path, outside: Path) -> None:
    folder.mkdir()
    for name in KEPT:
        (folder / name).symlink_to(outside / name)


def pipes(folder: Path, _: Path) -> None:
    folder.mkdir()
    for name in KEPT:
        os.mkfifo(folder / name)


KEPT = ("problems.jsonl", "waiting.jsonl", "waiting.jsonl.1.1", "worked", ".gitignore")


@pytest.mark.sqlite
@pytest.mark.parametrize("hostile", [all_linked, each_linked, pipes])
def test_what_comes_with_a_clone_decides_neither_what_is_read_nor_what_is_written(
    hooks: Hooks, tmp_path: Path, hostile: Callable[[Path, Path], None]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in KEPT:
        (outside / name).write_text('{"at": "", "event": "precious", "agent": "", "problem": "", "session": ""}\n')
    precious = {path.name: path.read_text() for path in outside.iterdir()}
    hostile(hooks.directory / ".ralph" / "hooks", outside)
    mend = with_broken_settings(hooks)

    answers = [hooks("session-start"), hooks("stop", last_assistant_message=LESSON)]
    failed = hooks.doctor()
    mend()
    answers += [hooks("user-prompt-submit", prompt="Hello")]
    worked = hooks.doctor()

    assert [one.envelope for one in answers] == [{}] * 3
    assert failed["says"].startswith("stop failed at ")
    assert failed["waits"] == "1 agent message is waiting to be stored"
    assert (worked["is_fine"], worked["waits"]) == (True, "")
    assert [one.content for one in hooks.memories()] == [LEARNED]
    assert {path.name: path.read_text() for path in outside.iterdir()} == precious


@pytest.mark.sqlite
@pytest.mark.parametrize("place", ["", "wc-1 /somewhere/else\n1\n"])
def test_no_clone_makes_a_hook_call_a_server(clone: Hooks, place: str) -> None:
    if place:
        (clone.directory / ".ralph" / "place").write_text(place)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        url = f"postgresql://t@127.0.0.1:{server.getsockname()[1]}/none"
        (clone.directory / ".ralph.toml").write_text(f'[store]\nurl = "{url}"\nproject = "project"\n')

        answers = [clone(event, prompt="Hello", last_assistant_message=LESSON) for event in EVENTS]
        server.setblocking(False)

        with pytest.raises(BlockingIOError):
            server.accept()
    assert [one.envelope for one in answers] == [{}] * len(EVENTS)
    noted = hook_errors.list_hook_errors(str(clone.directory))
    assert len(noted) == len(EVENTS)
    assert "is not trusted" in noted[-1].problem


@pytest.mark.sqlite
@pytest.mark.parametrize("url", ["../project/.ralph/ralph.db", "{}/.ralph/ralph.db", "sqlite:///{}/.ralph/ralph.db"])
def test_no_clone_is_told_what_another_project_knows_until_a_person_agrees(
    hooks: Hooks, clone: Hooks, url: str
) -> None:
    remember(hooks, "The parser wants tabs.")
    named = url.format(hooks.directory)
    (clone.directory / ".ralph.toml").write_text(f'[store]\nurl = "{named}"\nproject = "project"\n')

    before = [clone("session-start"), clone("stop", last_assistant_message=LESSON)]
    known = [one.content for one in hooks.memories()]
    init_project(clone.directory)
    after = clone("session-start")

    assert [one.envelope for one in before] == [{}, {}]
    assert known == ["The parser wants tabs."]
    assert "The parser wants tabs." in after.told
    assert sorted(one.content for one in clone.memories()) == [LEARNED, "The parser wants tabs."]


@pytest.mark.sqlite
@pytest.mark.parametrize("linked", [".ralph", ".ralph/ralph.db"])
def test_no_link_in_a_clone_leads_to_what_another_project_knows(hooks: Hooks, clone: Hooks, linked: str) -> None:
    remember(hooks, "The parser wants tabs.")
    if linked == ".ralph":
        (clone.directory / linked).rmdir()
    (clone.directory / linked).symlink_to(hooks.directory / linked)

    answers = [clone("session-start"), clone("stop", last_assistant_message=LESSON)]

    assert [one.envelope for one in answers] == [{}, {}]
    assert [one.content for one in hooks.memories()] == ["The parser wants tabs."]
    assert "points outside the project" in hook_errors.list_hook_errors(str(clone.directory))[-1].problem


@pytest.mark.postgres
def test_a_copy_of_a_project_on_a_server_is_told_nothing_until_a_person_agrees(hooks: Hooks, tmp_path: Path) -> None:
    remember(hooks, "The parser wants tabs.")
    copy = Hooks(Path(shutil.copytree(hooks.directory, tmp_path / "copy")))

    before = [copy("session-start"), copy("stop", last_assistant_message=LESSON)]
    init_project(copy.directory)
    after = copy("session-start")

    assert [one.envelope for one in before] == [{}, {}]
    assert "The parser wants tabs." in after.told
    assert sorted(one.content for one in hooks.memories()) == [LEARNED, "The parser wants tabs."]


# --- bad input -----------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS)
def test_outside_a_project_nothing_is_said_and_nothing_is_left(hooks: Hooks, tmp_path: Path, event: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    answer = hooks.raw(event, given=json.dumps({"last_assistant_message": LESSON}).encode(), at=outside)

    assert answer.envelope == {}
    assert answer.err == ""
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "state/ralph/hooks").exists()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(b"noise", id="no JSON"),
        pytest.param(b'["a", "list"]', id="a list"),
        pytest.param(b'{"session_id": "s-1"', id="cut off"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'{"a": ' + b"9" * 10_000 + b"}", id="a long number"),
        pytest.param(b"\xff\xfe{}", id="not UTF-8"),
        pytest.param(b"\0\0\0", id="NUL"),
        pytest.param(b'{"prompt": "' + b"x" * 40_000_000 + b'"}', id="40 MB"),
    ],
)
def test_input_that_makes_no_sense_gets_an_empty_envelope_and_is_told_by_the_doctor(hooks: Hooks, given: bytes) -> None:
    answer = hooks.raw("stop", given=given)

    assert answer.envelope == {}
    assert answer.err.startswith("ralph hook: ")
    said = hooks.doctor()
    assert not said["is_fine"]
    assert said["says"].startswith("stop failed at ")
    assert "the event payload" in said["says"].lower()


@pytest.mark.parametrize("given", [b"", b"  \n", b"{}", b"\xef\xbb\xbf{}", b'{"session_id": "\xff\xfe"}'])
def test_an_agent_may_say_little(hooks: Hooks, given: bytes) -> None:
    for event in ("session-start", "stop"):
        answer = hooks.raw(event, given=given)

        assert ("MEMORY:type:content" in answer.told) == (event == "session-start")
        assert answer.err == ""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("stop", "stop"),
        ("stop", "--agent", "nobody"),
        ("stop", "--agent"),
        ("stop", "--loud"),
        ("\x1b[31mred",),
        ("x" * 50_000,),
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_a_wrong_command_line_is_told_by_the_doctor_alone(hooks: Hooks, words: tuple[str, ...]) -> None:
    answer = hooks.raw(*words)

    assert answer.envelope == {}
    said = hooks.doctor()
    assert not said["is_fine"]
    assert "one of" in said["says"]
    assert "\x1b" not in said["says"]
    assert len(said["says"]) < 600


WRONG: tuple[object, ...] = (None, 7, [1, None, {}], {"a": []}, "a\0b", "\ud800", "x" * 9_000)


@pytest.mark.parametrize("event", EVENTS)
def test_fields_of_the_wrong_kind_disturb_nothing(hooks: Hooks, event: str) -> None:
    names = [*("cwd", "session_id", "transcript_path", "hook_event_name", "source", "prompt", "workspace_roots")]
    names += [*("last_assistant_message", "reason", "compact_summary")]

    for wrong in WRONG:
        answer = hooks.raw(event, given=json.dumps(dict.fromkeys(names, wrong)).encode())

        assert set(answer.envelope) <= {"hookSpecificOutput"}, wrong


def test_an_answer_of_many_megabytes_is_read_in_time(hooks: Hooks) -> None:
    long = "word " * 5_000_000

    answer = hooks("stop", last_assistant_message=f"{long}\n{LESSON}")
    prompt = hooks("user-prompt-submit", prompt=long)

    assert answer.envelope == prompt.envelope == {}
    assert answer.err == prompt.err == ""
    assert [one.content for one in hooks.memories()] == [LEARNED]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize("event", ["session-start", "nonsense"])
def test_what_the_agent_has_closed_is_missed_by_nobody(hooks: Hooks, closed: str, event: str) -> None:
    ran = subprocess.run(
        ["sh", "-c", f'"$0" -m ralph hook {event} {closed}; echo "ended $?"', sys.executable],
        cwd=hooks.directory,
        env=hooks.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=IN_TIME,
    )

    *said, ended = ran.stdout.splitlines()
    assert ended == b"ended 0"
    assert len(said) == (closed in ("<&-", "2>&-"))
    assert all(json.loads(line).keys() <= {"hookSpecificOutput"} for line in said)


@pytest.mark.slow
def test_a_stdin_that_never_closes_is_not_waited_for(hooks: Hooks) -> None:
    waiting = hooks.start("session-start")

    assert waiting.stdout
    said = waiting.stdout.readline()

    assert waiting.wait(IN_TIME) == 0
    assert json.loads(said) == {}
    assert "It took longer than 4 s" in hooks.doctor()["says"]


# --- when the store cannot be used ---------------------------------------------------


def database(hooks: Hooks) -> Path:
    return hooks.directory / ".ralph" / "ralph.db"


def in_garbage(hooks: Hooks) -> Callable[[], None]:
    whole = database(hooks).read_bytes()
    database(hooks).write_bytes(b"noise" * 2_000)
    return lambda: write(database(hooks), whole)


def cut_short(hooks: Hooks) -> Callable[[], None]:
    whole = database(hooks).read_bytes()
    database(hooks).write_bytes(whole[: len(whole) // 3])
    return lambda: write(database(hooks), whole)


def of_the_future(hooks: Hooks) -> Callable[[], None]:
    whole = database(hooks).read_bytes()
    connection = apsw.Connection(str(database(hooks)))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()
    return lambda: write(database(hooks), whole)


def with_broken_settings(hooks: Hooks) -> Callable[[], None]:
    settings = hooks.directory / ".ralph.toml"
    whole = settings.read_bytes()
    settings.write_text("[memories\n")
    return lambda: write(settings, whole)


def write(path: Path, content: bytes) -> None:
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(content)


@pytest.mark.sqlite
@pytest.mark.parametrize("broken", [in_garbage, cut_short, of_the_future, with_broken_settings])
def test_what_is_said_while_the_store_is_broken_is_stored_once_by_the_next_hook(
    hooks: Hooks, broken: Callable[[Hooks], Callable[[], None]]
) -> None:
    mend = broken(hooks)

    answers = [hooks("session-start"), hooks("user-prompt-submit", prompt="Hello"), hooks("session-end")]
    answers += [hooks("stop", last_assistant_message=f"Done.\n{LESSON}") for _ in range(2)]
    said = hooks.doctor()
    mend()
    later = [hooks("user-prompt-submit", prompt="What is new?") for _ in range(2)]

    assert [one.envelope for one in (*answers, *later)] == [{}] * 7
    assert all(one.err.startswith("ralph hook: ") for one in answers)
    assert not said["is_fine"]
    assert said["says"].startswith("stop failed at ")
    assert said["waits"] == "2 agent messages are waiting to be stored"
    memory = hooks.memories()
    assert [(one.content, one.origin_session, one.support) for one in memory] == [(LEARNED, "s-1", 1)]
    assert hooks.doctor()["is_fine"]
    assert "5 problems earlier" in hooks.doctor()["says"]
    assert hooks.doctor()["waits"] == ""


@pytest.mark.slow
@pytest.mark.sqlite
def test_a_locked_database_keeps_no_agent_waiting(hooks: Hooks) -> None:
    remember(hooks, "The parser wants tabs.")
    holder = apsw.Connection(str(database(hooks)))
    holder.execute("BEGIN EXCLUSIVE")

    stop = hooks.start("stop")
    assert stop.stdin
    stop.stdin.write(json.dumps({"session_id": "s-1", "last_assistant_message": LESSON}).encode())
    stop.stdin.close()
    start = hooks("session-start")
    code = stop.wait(IN_TIME)
    holder.execute("ROLLBACK")
    holder.close()
    said = hooks.doctor()
    hooks("user-prompt-submit", prompt="Hello")

    assert "The parser wants tabs." in start.told
    assert (code, stop.stdout.read() if stop.stdout else b"") == (0, b"{}\n")
    assert "It took longer than" in said["says"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert sorted(one.content for one in hooks.memories()) == [LEARNED, "The parser wants tabs."]


@pytest.mark.slow
@pytest.mark.sqlite
def test_what_is_in_a_long_transcript_at_the_end_of_a_session_is_put_by_in_time(hooks: Hooks, tmp_path: Path) -> None:
    told_before = answered("MEMORY:fix:Said before this session was made of another.", now())
    hooks("session-start", "--agent", "codex")
    work = [answered("if a < b: return List<int>()  # " + "word " * 200, now()) for _ in range(2_700)]
    path = transcript(tmp_path / "t.jsonl", told_before, *work, answered(LESSON, now()))
    holder = apsw.Connection(str(database(hooks)))
    holder.execute("BEGIN EXCLUSIVE")

    answer = hooks("session-end", "--agent", "codex", transcript_path=path)
    holder.close()
    said = hooks.doctor()
    hooks("user-prompt-submit", prompt="Hello")

    assert Path(path).stat().st_size > 3_000_000
    assert answer.envelope == {}
    assert "It took longer than 2.5 s" in said["says"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert [one.content for one in hooks.memories()] == [LEARNED]


@pytest.mark.sqlite
def test_what_can_neither_be_stored_nor_put_by_is_said_to_be_lost(hooks: Hooks, tmp_path: Path) -> None:
    mend = with_broken_settings(hooks)
    hooks("stop", last_assistant_message=LESSON)
    (waiting,) = (tmp_path / "state").rglob("waiting.jsonl*")
    with waiting.open("ab") as file:
        file.truncate(hook_errors.MAX_QUEUE_BYTES + 1)
    hooks.environment["TMPDIR"] = str(waiting)

    hooks("stop", last_assistant_message="MEMORY:fix:The parser wants tabs.")
    said = hooks.doctor()
    mend()
    hooks("user-prompt-submit", prompt="Hello")

    assert STATEMENTS_LOST_MESSAGE in said["says"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert [one.content for one in hooks.memories()] == [LEARNED]


def test_after_a_hundred_problems_one_hook_that_works_is_enough(hooks: Hooks) -> None:
    for number in range(100):
        hook_errors.record_hook_error(str(hooks.directory), "stop", "claude", f"Problem {number}.")
    before = hooks.doctor()

    hooks("session-start")

    after = hooks.doctor()
    assert (before["is_fine"], after["is_fine"]) == (False, True)
    assert "(99 more before)" in before["says"]
    assert "working; 100 problems earlier" in after["says"]


def test_what_waits_and_makes_no_sense_stops_no_hook(hooks: Hooks, tmp_path: Path) -> None:
    mend = with_broken_settings(hooks)
    hooks("stop", last_assistant_message=LESSON)
    mend()
    (waiting,) = (tmp_path / "state").rglob("waiting.jsonl*")
    right = {"at": "", "agent": "claude", "session": "s-2"}
    said = {"kind": "f\ud800ix", "title": "\udfff", "body": "Lone \ud800surrogates\0.", "tags": ["\ud800", 5]}
    wrong = [
        {**right, "said": [said]},
        {**right, "said": "x"},
        {**right, "said": [[], {"kind": 1}]},
        {**right, "at": 5},
    ]
    waiting.write_text("".join(f"{json.dumps(one)}\n" for one in wrong) + waiting.read_text())

    answers = [hooks("user-prompt-submit", prompt="Hello"), hooks("session-start", session_id="s-3")]

    assert [one.err for one in answers] == ["", ""]
    assert LEARNED in answers[1].told
    assert sorted(one.content for one in hooks.memories()) == ["Lone surrogates.", LEARNED]
    assert hooks.doctor()["is_fine"]
    assert hooks.doctor()["waits"] == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.sqlite
def test_one_that_is_told_to_stop_answers_and_loses_nothing(hooks: Hooks, number: signal.Signals) -> None:
    holder = apsw.Connection(str(database(hooks)))
    holder.execute("BEGIN EXCLUSIVE")
    stop = hooks.start("stop")
    assert stop.stdin
    stop.stdin.write(json.dumps({"session_id": "s-1", "last_assistant_message": LESSON}).encode())
    stop.stdin.close()
    while not any(file.path.endswith("ralph.db") for file in psutil.Process(stop.pid).open_files()):
        time.sleep(0.02)

    stop.send_signal(number)
    code = stop.wait(IN_TIME)
    holder.close()

    assert code == 0
    assert stop.stdout
    assert stop.stdout.read() == b"{}\n"
    assert "It was interrupted" in hooks.doctor()["says"]
    hooks("user-prompt-submit", prompt="Hello")
    assert [one.content for one in hooks.memories()] == [LEARNED]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "ralph", str(place)]
    try:
        mounted = subprocess.run(words, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a disk of little space can only be made where mount is allowed")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.sqlite
def test_a_full_disk_reaches_no_agent_and_loses_nothing(small_disk: Path) -> None:
    init_project(small_disk)
    hooks = Hooks(small_disk)
    filling = small_disk / "filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass

    answers = [hooks("session-start"), hooks("stop", last_assistant_message=LESSON)]
    said = hooks.doctor()
    filling.unlink()
    hooks("user-prompt-submit", prompt="Hello")

    assert [one.code for one in answers] == [0, 0]
    assert answers[1].envelope == {}
    assert not said["is_fine"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert [one.content for one in hooks.memories()] == [LEARNED]


@pytest.mark.sqlite
def test_what_is_said_where_nothing_can_be_written_waits_elsewhere(small_disk: Path) -> None:
    init_project(small_disk)
    hooks = Hooks(small_disk)
    remember(hooks, "The parser wants tabs.")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    answers = [hooks("session-start"), hooks("stop", last_assistant_message=LESSON)]
    said = hooks.doctor()
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    hooks("user-prompt-submit", prompt="Hello")

    assert [one.code for one in answers] == [0, 0]
    assert answers[1].envelope == {}
    assert not said["is_fine"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert LEARNED in [one.content for one in hooks.memories()]


@pytest.mark.slow
@pytest.mark.postgres
def test_while_the_server_is_away_agents_go_on_and_what_they_say_waits(hooks: Hooks) -> None:
    there = hooks.environment["RALPH_STORE"]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hooks.environment["RALPH_STORE"] = f"postgresql://t@127.0.0.1:{nobody.getsockname()[1]}/none"
        answers = [hooks("session-start"), hooks("stop", last_assistant_message=LESSON)]
        said = hooks.doctor()
    hooks.environment["RALPH_STORE"] = there
    hooks("user-prompt-submit", prompt="Hello")

    assert [one.envelope for one in answers] == [{}, {}]
    assert not said["is_fine"]
    assert said["waits"] == "1 agent message is waiting to be stored"
    assert [one.content for one in hooks.memories()] == [LEARNED]


@pytest.mark.slow
@pytest.mark.postgres
def test_a_server_that_never_answers_keeps_no_agent_waiting(hooks: Hooks) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        hooks.environment["RALPH_STORE"] = f"postgresql://t@127.0.0.1:{silent.getsockname()[1]}/none"
        answer = hooks("session-start")

    assert answer.envelope == {}


@pytest.mark.sqlite  # where a server is, a person has agreed to in their home
def test_without_a_home_it_works_as_well(hooks: Hooks) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "USER", "LOGNAME"):
        hooks.environment.pop(name, None)

    assert "MEMORY:type:content" in hooks("session-start").told
    assert hooks.raw("nonsense").envelope == {}


def test_answers_that_wait_are_stored_once_though_many_hooks_come_at_once(hooks: Hooks) -> None:
    for number in range(5):
        said = hook_errors.QueuedStatement(kind="fix", title="", body=f"Port 54{number}0 is taken by job {number}.")
        hook_errors.queue_statements(str(hooks.directory), "claude", f"s-{number}", [said])

    callers = [threading.Thread(target=lambda: hooks("session-start")) for _ in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()

    kept = hooks.memories()
    assert len(kept) == 5
    assert {one.support for one in kept} == {1}
    assert hook_errors.count_queued(str(hooks.directory)) == 0
    assert {one.origin_session for one in kept} == {f"s-{number}" for number in range(5)}
