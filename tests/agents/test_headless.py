"""Codex, the Gemini CLI and opencode: how they are asked, and what is made of what they print.

The events are of the shapes that the real programs print; the program that prints them is a few lines of shell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.agents import Agent, Limits, agent_accepts_model, open_agent
from ralph.agents.codex import _CodexDriver
from ralph.agents.gemini import _GeminiDriver
from ralph.agents.headless import HeadlessDriver
from ralph.agents.opencode import _OpenCodeDriver
from ralph.core.agents import AGENTS
from ralph.core.config import AgentConfig, ModelsConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply, SessionEnding
from tests.make import a_session

pytestmark = pytest.mark.storeless

NAMES = ("codex", "gemini", "opencode")
STREAMS: dict[str, type[HeadlessDriver]] = {"codex": _CodexDriver, "gemini": _GeminiDriver, "opencode": _OpenCodeDriver}

PROGRAM = """\
#!/bin/sh
cd "$(dirname "$0")"
if [ "$1" = --version ]; then cat version; exit "$(cat version-code)"; fi
printf '%s\\n' "$@" > arguments
printenv > variables
cat > prompt
cat events
tail -n 1 said-to-stderr >&2
exit "$(cat code)"
"""


class Fake:
    """A program that goes by an agent's name, and prints what it is told to."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory / name
        self.directory.mkdir()
        program = self.directory / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for file, text in {"version": "1.2.3\n", "version-code": "0", "code": "0", "said-to-stderr": ""}.items():
            (self.directory / file).write_text(text)
        self.agent = self.configured()

    def configured(self, **config: Any) -> Agent:
        given = {"name": self.name, "command": (str(self.directory / self.name),), **config}
        return open_agent(AgentConfig(**given), self.directory)

    def prints(self, *events: object, code: int = 0, stderr: str = "") -> None:
        lines = (event if isinstance(event, str) else json.dumps(event) for event in events)
        (self.directory / "events").write_text("".join(f"{line}\n" for line in lines))
        (self.directory / "code").write_text(str(code))
        (self.directory / "said-to-stderr").write_text(stderr)

    def reply(self, *events: object, code: int = 0, stderr: str = "") -> AgentReply:
        """Give what comes of a session with these events."""
        self.prints(*events, code=code, stderr=stderr)
        return self.agent.work("Fix it.", a_session(self.directory))

    @property
    def arguments(self) -> list[str]:
        return (self.directory / "arguments").read_text().split()

    @property
    def variables(self) -> list[str]:
        return (self.directory / "variables").read_text().splitlines()


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Fake]:
    return lambda name: Fake(name, tmp_path)


# --- codex -------------------------------------------------------------------------------

CODEX_BEGIN = (
    {"type": "thread.started", "thread_id": "01a1-7113"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "Model metadata not found."}},
    {"type": "turn.started"},
)
CODEX_RUN = {"id": "item_2", "type": "command_execution", "command": "/bin/bash -c 'make'", "status": "in_progress"}


def codex_says(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}}


def codex_fails(words: str) -> tuple[dict[str, Any], ...]:
    return {"type": "error", "message": words}, {"type": "turn.failed", "error": {"message": words}}


def test_codex_tells_what_it_said_and_used(fake: Callable[[str], Fake]) -> None:
    codex, heard = fake("codex"), list[str]()
    usage = {"input_tokens": 200, "cached_input_tokens": 150, "output_tokens": 40, "reasoning_output_tokens": 30}
    codex.prints(
        *CODEX_BEGIN,
        codex_says("I look."),
        {"type": "item.started", "item": CODEX_RUN},
        {"type": "item.completed", "item": {**CODEX_RUN, "status": "completed"}},
        codex_says("<task-done>t-000001</task-done>"),
        {"type": "turn.completed", "usage": usage},
    )

    reply = codex.agent.work("Fix it.", a_session(codex.directory, on_output=heard.append))

    assert (reply.ending, reply.detail, reply.exit_code) == (SessionEnding.FINISHED, "", 0)
    assert reply.text == "I look.\n\n<task-done>t-000001</task-done>"
    assert (reply.tokens_in, reply.tokens_out, reply.cost_usd, reply.files) == (200, 40, 0.0, None)
    assert reply.session == "01a1-7113"
    assert "".join(heard) == (
        "> Model metadata not found.\nI look.\n> runs /bin/bash -c 'make'\n<task-done>t-000001</task-done>\n"
    )


@pytest.mark.parametrize(
    ("words", "ending", "told"),
    [
        ('{"error": {"type": "x", "message": "Bad thing."}}', SessionEnding.MODEL_FAILED, "Bad thing."),
        ("unexpected status 401 Unauthorized: No key.", SessionEnding.MODEL_FAILED, "401 Unauthorized"),
        ("exceeded retry limit, last status: 429 Too Many Requests", SessionEnding.MODEL_FAILED, "429"),
        (
            "request timed out",
            SessionEnding.MODEL_FAILED,
            "could not use its model, which timed out: request timed out",
        ),
        ("connect ETIMEDOUT", SessionEnding.MODEL_FAILED, "which timed out: connect ETIMEDOUT"),
        (
            "Missing environment variable: `TOKEN`.",
            SessionEnding.MODEL_FAILED,
            "Missing environment variable",
        ),
        ("Incomplete response returned, reason: max_output_tokens", SessionEnding.OUT_OF_TURNS, "max_output_tokens"),
        ("Codex ran out of room in the model's context window.", SessionEnding.OUT_OF_TURNS, "context window"),
        ("Incomplete response returned, reason: content_filter", SessionEnding.REFUSED, "content_filter"),
    ],
)
def test_a_turn_of_codex_that_failed_is_told_by_its_words(
    fake: Callable[[str], Fake], words: str, ending: SessionEnding, told: str
) -> None:
    reply = fake("codex").reply(*CODEX_BEGIN, codex_says("Half."), *codex_fails(words), code=1)

    assert (reply.ending, reply.text, reply.exit_code) == (ending, "Half.", 1)
    assert told in reply.detail
    assert reply.detail.startswith("codex ")
    assert "{" not in reply.detail


def test_what_codex_recovers_from_is_no_failure(fake: Callable[[str], Fake]) -> None:
    again = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected before completion)"}

    reply = fake("codex").reply(*CODEX_BEGIN, again, codex_says("Done."), {"type": "turn.completed"})

    assert (reply.ending, reply.detail, reply.text) == (SessionEnding.FINISHED, "", "Done.")
    assert (reply.tokens_in, reply.tokens_out) == (None, None)


def test_codex_may_do_as_much_as_its_sandbox_lets_it(fake: Callable[[str], Fake]) -> None:
    codex = fake("codex")
    codex.prints({"type": "turn.completed"})
    usual = ["exec", "--json", "--skip-git-repo-check", "--sandbox"]

    for permissions, is_read_only, sandbox in (
        ("all", False, "danger-full-access"),
        ("edit", False, "workspace-write"),
        ("read", False, "read-only"),
        ("all", True, "read-only"),
    ):
        agent = codex.configured(permissions=permissions)
        agent.work("Fix it.", a_session(codex.directory, read_only=is_read_only, model="big"))

        assert codex.arguments == [*usual, sandbox, "--model", "big", "-"]

    codex.agent.work("Fix it.", a_session(codex.directory))
    assert codex.arguments == [*usual, "danger-full-access", "-"]


# --- gemini ------------------------------------------------------------------------------

GEMINI_BEGIN = (
    {"type": "init", "session_id": "3213-769c", "model": "auto"},
    {"type": "message", "role": "user", "content": "Fix it. <task-done>t-000009</task-done>"},
)
GEMINI_USE = {"type": "tool_use", "tool_name": "write_file", "tool_id": "w", "parameters": {"file_path": "a.txt"}}
GEMINI_STATS = {"total_tokens": 290, "input_tokens": 200, "output_tokens": 40, "cached": 0}


def gemini_says(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "assistant", "content": piece, "delta": True} for piece in pieces]


def gemini_fails(words: str) -> dict[str, Any]:
    return {"type": "result", "status": "error", "error": {"type": "unknown", "message": words}, "stats": {}}


def test_gemini_tells_what_it_said_and_used(fake: Callable[[str], Fake]) -> None:
    gemini, heard = fake("gemini"), list[str]()
    gemini.prints(
        *GEMINI_BEGIN,
        *gemini_says("I wr", "ite."),
        GEMINI_USE,
        {"type": "tool_result", "tool_id": "w", "status": "success"},
        *gemini_says("<task-", "done>t-000001", "</task-done>"),
        {"type": "result", "status": "success", "stats": GEMINI_STATS},
    )

    reply = gemini.agent.work("Fix it.", a_session(gemini.directory, on_output=heard.append))

    assert (reply.ending, reply.detail, reply.exit_code) == (SessionEnding.FINISHED, "", 0)
    assert reply.text == "I write.\n\n<task-done>t-000001</task-done>"
    assert (reply.tokens_in, reply.tokens_out, reply.session) == (200, 90, "3213-769c")
    assert "".join(heard) == "I write.\n> write_file a.txt\n<task-done>t-000001</task-done>\n"


@pytest.mark.parametrize(
    ("words", "ending", "told"),
    [
        ('[API Error: {"error":{"code":400,"message":"Bad thing."}}]', SessionEnding.MODEL_FAILED, "Bad thing."),
        ("[API Error: Slow down.]\nPlease wait and try again later.", SessionEnding.MODEL_FAILED, "Slow down."),
        ("[API Error: terminated]", SessionEnding.MODEL_FAILED, "terminated"),
        ("Reached max session turns for this session.", SessionEnding.OUT_OF_TURNS, "session turns"),
    ],
)
def test_a_result_of_gemini_that_is_an_error_is_told_by_its_words(
    fake: Callable[[str], Fake], words: str, ending: SessionEnding, told: str
) -> None:
    reply = fake("gemini").reply(*GEMINI_BEGIN, *gemini_says("Half."), gemini_fails(words), code=144)

    assert (reply.ending, reply.text) == (ending, "Half.")
    assert told in reply.detail
    assert "{" not in reply.detail


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("The model response was blocked due to safety settings.", SessionEnding.REFUSED),
        ("Model response was truncated because it exceeded the token limit.", SessionEnding.OUT_OF_TURNS),
        ("Model stream ended without a finish reason.", SessionEnding.MODEL_FAILED),
    ],
)
def test_gemini_exits_with_0_for_a_block_that_is_none_the_less_one(
    fake: Callable[[str], Fake], words: str, ending: SessionEnding
) -> None:
    error = {"type": "error", "severity": "error", "message": words}

    reply = fake("gemini").reply(*GEMINI_BEGIN, error, {"type": "result", "status": "error", "stats": {}})

    assert (reply.ending, reply.exit_code) == (ending, 0)
    assert words in reply.detail


def test_a_limit_that_gemini_calls_a_success_is_a_limit(fake: Callable[[str], Fake]) -> None:
    warning = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}

    reply = fake("gemini").reply(*GEMINI_BEGIN, warning, {"type": "result", "status": "success"})

    assert (reply.ending, reply.detail) == (
        SessionEnding.OUT_OF_TURNS,
        "gemini reached a limit: Loop detected, stopping execution",
    )


def test_gemini_without_a_key_could_not_use_its_model(fake: Callable[[str], Fake]) -> None:
    reply = fake("gemini").reply(code=41, stderr="Set GEMINI_API_KEY.\n")

    assert (reply.ending, reply.detail) == (SessionEnding.MODEL_FAILED, "gemini exited with 41: Set GEMINI_API_KEY.")


def test_gemini_reads_no_files_for_what_stands_behind_an_at_sign(fake: Callable[[str], Fake]) -> None:
    gemini = fake("gemini")
    gemini.prints({"type": "result", "status": "success"})

    gemini.agent.work("See @README.md, me@example.com and \\@src.", a_session(gemini.directory))

    assert (gemini.directory / "prompt").read_text() == "See \\@README.md, me\\@example.com and \\@src."


def test_gemini_is_told_what_it_may_do_and_that_the_directory_is_trusted(
    fake: Callable[[str], Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    gemini = fake("gemini")
    gemini.prints({"type": "result", "status": "success"})
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE", raising=False)

    for permissions, is_read_only, mode in (
        ("all", False, "yolo"),
        ("edit", False, "auto_edit"),
        ("read", False, "default"),
        ("edit", True, "default"),
    ):
        agent = gemini.configured(permissions=permissions)
        agent.work("Fix it.", a_session(gemini.directory, read_only=is_read_only, model="big"))

        assert gemini.arguments == ["--output-format", "stream-json", "--approval-mode", mode, "--model", "big"]
    assert "GEMINI_CLI_TRUST_WORKSPACE=true" in gemini.variables

    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "false")
    gemini.agent.work("Fix it.", a_session(gemini.directory))
    assert "GEMINI_CLI_TRUST_WORKSPACE=false" in gemini.variables


# --- opencode ----------------------------------------------------------------------------


def opencode_event(kind: str, **part: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1, "sessionID": "ses_e1bb", "part": {"sessionID": "ses_e1bb", **part}}


def opencode_step(reason: str) -> dict[str, Any]:
    tokens = {"total": 120, "input": 70, "output": 15, "reasoning": 5, "cache": {"write": 10, "read": 20}}
    return opencode_event("step_finish", reason=reason, tokens=tokens, cost=0.0006)


def opencode_error(name: str, words: str) -> dict[str, Any]:
    return {"type": "error", "sessionID": "ses_e1bb", "error": {"name": name, "data": {"message": words}}}


def test_opencode_tells_what_it_said_used_and_cost(fake: Callable[[str], Fake]) -> None:
    opencode, heard = fake("opencode"), list[str]()
    use = {"tool": "write", "state": {"status": "completed", "input": {"filePath": "a.txt", "content": "x"}}}
    opencode.prints(
        opencode_event("step_start"),
        opencode_event("text", text="I write."),
        opencode_event("tool_use", **use),
        opencode_step("tool-calls"),
        opencode_event("step_start"),
        opencode_event("text", text="<task-done>t-000001</task-done>"),
        opencode_step("stop"),
    )

    reply = opencode.agent.work("Fix it.", a_session(opencode.directory, on_output=heard.append))

    assert (reply.ending, reply.detail, reply.exit_code) == (SessionEnding.FINISHED, "", 0)
    assert reply.text == "I write.\n\n<task-done>t-000001</task-done>"
    assert (reply.tokens_in, reply.tokens_out, reply.turns) == (200, 40, 2)
    assert reply.cost_usd == pytest.approx(0.0012)
    assert reply.session == "ses_e1bb"
    assert "".join(heard) == "I write.\n> write a.txt\n<task-done>t-000001</task-done>\n"


@pytest.mark.parametrize(
    ("events", "code", "ending", "told"),
    [
        ([opencode_step("length")], 0, SessionEnding.OUT_OF_TURNS, "reached a limit."),
        (
            [opencode_step("content-filter"), opencode_error("ContentFilterError", "No.")],
            1,
            SessionEnding.REFUSED,
            "No.",
        ),
        ([opencode_error("APIError", "No key.")], 1, SessionEnding.MODEL_FAILED, "No key."),
        ([opencode_error("MessageOutputLengthError", "")], 1, SessionEnding.OUT_OF_TURNS, "MessageOutputLengthError"),
        ([opencode_step("tool-calls")], 0, SessionEnding.CRASHED, "stopped early."),
        ([opencode_event("step_start")], 0, SessionEnding.CRASHED, "it reported no ending"),
    ],
)
def test_opencode_is_judged_by_its_last_step_or_error(
    fake: Callable[[str], Fake], events: list[object], code: int, ending: SessionEnding, told: str
) -> None:
    reply = fake("opencode").reply(opencode_event("text", text="Half."), *events, code=code)

    assert (reply.ending, reply.text) == (ending, "Half.")
    assert told in reply.detail


def test_opencode_is_told_what_it_may_do(fake: Callable[[str], Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    opencode = fake("opencode")
    opencode.prints(opencode_step("stop"))
    monkeypatch.setenv("OPENCODE_PERMISSION", "as the person has it")

    def told(permissions: str, **session: Any) -> str:
        opencode.configured(permissions=permissions).work("Fix it.", a_session(opencode.directory, **session))
        found = next(line for line in opencode.variables if line.startswith("OPENCODE_PERMISSION="))
        return found.partition("=")[2]

    assert told("all") == "as the person has it"
    assert opencode.arguments == ["run", "--format", "json", "--auto"]
    assert json.loads(told("edit", model="local/big")) == {"bash": "deny"}
    assert opencode.arguments == ["run", "--format", "json", "--auto", "--model", "local/big"]
    for may_read in (told("read"), told("all", read_only=True)):
        rules = json.loads(may_read)
        assert (rules["*"], rules["read"]) == ("deny", "allow")
        assert not {"edit", "bash"} & rules.keys()


# --- all of them -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_large_prompt_arrives_whole(fake: Callable[[str], Fake], name: str) -> None:
    program = fake(name)
    program.prints()
    prompt = "Fix the parser. " * 15_000

    program.agent.work(prompt, a_session(program.directory))

    assert (program.directory / "prompt").read_text() == prompt


@pytest.mark.parametrize("name", NAMES)
def test_who_says_nothing_of_its_end_has_not_finished(fake: Callable[[str], Fake], name: str) -> None:
    program = fake(name)

    silent = program.reply()
    crashed = program.reply("usage: no such option --json", '{"type": "', code=2, stderr="Cannot find module\n")

    assert (silent.ending, silent.text, silent.exit_code) == (SessionEnding.CRASHED, "", 0)
    assert silent.detail == f"{name} stopped early: it reported no ending."
    assert (crashed.ending, crashed.exit_code) == (SessionEnding.CRASHED, 2)
    assert crashed.detail == f'{name} exited with 2: Cannot find module; its last output was: {{"type": "'


@pytest.mark.parametrize("name", NAMES)
def test_a_session_that_waits_too_long_timed_out_and_says_what_it_waited_for(
    fake: Callable[[str], Fake], name: str
) -> None:
    program = fake(name)
    wrong = opencode_error("APIError", "No network.") | {"message": "No network."}
    program.prints(wrong)
    (program.directory / name).write_text(PROGRAM.replace("tail -n 1", "sleep 60; tail -n 1"))

    reply = program.agent.work("Fix it.", a_session(program.directory, limits=Limits(seconds=1.0)))

    assert reply.ending is SessionEnding.TIMED_OUT
    assert reply.detail == f"{name} was still running after 1 s and was terminated; its last output was: No network."


@pytest.mark.parametrize("name", NAMES)
def test_check_says_what_to_install(fake: Callable[[str], Fake], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake(name)
    program.agent.check()
    (program.directory / "version-code").write_text("1")
    monkeypatch.setenv("PATH", "/nonesuch")

    with pytest.raises(AgentUnavailableError) as missing:
        open_agent(AgentConfig(name=name), program.directory / "elsewhere").check()
    monkeypatch.undo()
    with pytest.raises(AgentUnavailableError) as broken:
        program.configured().check()
    (program.directory / "version-code").write_text("0")
    (program.directory / "version").write_text("hello\n")
    with pytest.raises(AgentUnavailableError) as another:
        program.configured().check()

    package = {"codex": "@openai/codex", "gemini": "@google/gemini-cli", "opencode": "opencode-ai"}[name]
    for error in (missing, broken, another):
        assert str(error.value).endswith(f"npm install -g {package}")
    assert f"{name} was not found in the PATH." in str(missing.value)
    assert f"{name} does not run: {name} exited with 1." in str(broken.value)
    assert f"{name} does not run: hello." in str(another.value)


def test_only_opencode_says_what_it_cost(fake: Callable[[str], Fake]) -> None:
    agents = {name: fake(name).agent for name in NAMES}

    assert [name for name, agent in agents.items() if agent.reports_cost] == ["opencode"]
    assert all(agent.reports_tokens and not agent.reports_files for agent in agents.values())


KINDS = (
    *("thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed", "error"),
    *("init", "message", "tool_use", "result", "text", "step_start", "step_finish"),
)
KEYS = (
    *("role", "content", "delta", "item", "type", "text", "message", "usage", "input_tokens", "error", "data", "part"),
    *("tokens", "cache", "read", "cost", "reason", "state", "input", "stats", "status", "parameters", "sessionID"),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(("assistant",)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=6))),
    name=st.sampled_from(NAMES),
)
def test_events_of_any_shape_are_taken_in(events: list[tuple[str, dict[str, Any]]], name: str) -> None:
    heard: list[str] = []
    stream = STREAMS[name](heard.append)

    for kind, rest in events:
        stream.add(json.dumps({**rest, "type": kind}) + "\n")
    stream.finish()

    assert isinstance(stream.messages.text(), str)
    assert stream.tokens_in is None or stream.tokens_in >= 0
    assert stream.cost_usd >= 0


def test_they_are_told_a_model_only_when_a_person_has_named_one_since_the_usual_ones_mean_nothing_to_them(
    tmp_path: Path,
) -> None:
    others = [name for name, one in AGENTS.items() if one.module in (*NAMES, "acp") and not one.knows_default_models]
    assert {*NAMES, "acp", "gemini-acp"} <= set(others)
    for name in others:
        usual, own = ModelsConfig(), ModelsConfig(ladder=("small", "large"))
        bare, named = AgentConfig(name=name), AgentConfig(name=name, model="small")
        cases = ((bare, usual), (bare, own), (named, usual))

        told = [open_agent(agent, tmp_path, models).accepts_model for agent, models in cases]

        assert told == [False, True, True]
        assert told == [agent_accepts_model(agent, tmp_path, models) for agent, models in cases]


@pytest.mark.parametrize("name", [name for name, one in AGENTS.items() if one.knows_default_models])
def test_the_persons_own_model_is_used_unless_a_strategy_is_configured(tmp_path: Path, name: str) -> None:
    bare, escalating = AgentConfig(name=name), ModelsConfig(strategy="escalate")

    assert not open_agent(bare, tmp_path, ModelsConfig()).accepts_model
    assert not agent_accepts_model(bare, tmp_path, ModelsConfig())
    assert open_agent(bare, tmp_path, escalating).accepts_model
    assert agent_accepts_model(bare, tmp_path, escalating)


@pytest.mark.parametrize("name", NAMES)
def test_a_half_installed_program_is_to_be_installed_again(fake: Callable[[str], Fake], name: str) -> None:
    program = fake(name)
    (program.directory / name).write_text("The download failed.\n")

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "agent-does-not-run"):
        program.configured().check()
