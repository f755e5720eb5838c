"""Hook events of coding agents: context at the start of a session, learnings at its end.

An agent waits for its hooks and trusts what they print. So the output is always one JSON object with exit code 0, in
time, whatever happens; errors are recorded for `ralph doctor`, and what could not be stored is queued for the next
hook. This runs before every prompt, so imports are kept to a minimum.

"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal and threading take milliseconds to load
import _thread
import json
import os
import select
import sys
import time
from contextlib import suppress

from ralph.core.actor import AGENT, current_actor
from ralph.core.agents import CONNECTABLE_AGENTS
from ralph.core.errors import ProjectNotFoundError, RalphError
from ralph.core.records import record
from ralph.core.text import clean, one_line, sanitize
from ralph.integrations import hook_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.memory.sessions import SessionContext
    from ralph.project import Project

HOOK_EVENTS = (
    *("session-start", "user-prompt-submit", "pre-compact", "post-compact"),
    *("stop", "subagent-stop", "session-end"),
)
EVENT_ALIASES = {
    "before-agent": "user-prompt-submit",
    "before-submit-prompt": "user-prompt-submit",
    "after-agent": "stop",
    "after-agent-response": "stop",
    "pre-compress": "pre-compact",
}
"""Event names of Gemini and Cursor."""
CAPTURING_EVENTS = ("stop", "pre-compact", "session-end")
"""Events at which what was said since the last one is kept."""
TIMEOUT_SECONDS_BY_EVENT = {"session-end": 2.5}
"""Timeout by event, in seconds; Codex kills this hook after 3."""
HOOK_TIMEOUT_SECONDS = 4.0
"""Default timeout, in seconds, whatever the disk, the database or the network do."""
ERROR_REPORT_SECONDS = 1.5
"""Time to record an error after the timeout, in seconds; agents kill a hook after 10."""
MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
"""Maximum size of an event payload, in bytes."""
MAX_MESSAGE_CHARACTERS = 4 * 1024 * 1024
"""Maximum length of an agent's message that is read, in characters from its end."""
MAX_SESSION_ID_CHARACTERS = 200
MAX_PROBLEM_CHARACTERS = 400
TIMEOUT_MESSAGE = "It took longer than"
INTERRUPTED_MESSAGE = "It was interrupted."
STATEMENTS_LOST_MESSAGE = "The memories stated in this session are lost: they could not be queued either."
LAST_MESSAGE_FIELDS = ("last_assistant_message", "prompt_response", "text")
"""Fields with the last message: of Claude Code and Codex, of Gemini, of Cursor."""


_CONTEXT_KEYS = {"cursor": "additional_context", "copilot": "additionalContext"}
"""Key of the context in the response, for agents that do not expect that of Claude Code."""


@record
class HookEvent:
    """One hook call of any agent."""

    name: str
    """One of `HOOK_EVENTS`."""
    original_name: str
    """The agent's own name of the event."""
    agent: str
    session: str
    directories: tuple[str, ...]
    """Possible working directories; an agent may change its own and still be in the same project."""
    fields: dict[str, Any]

    def text(self, *names: str) -> str:
        """Return the first of these fields that contains text."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value
        return ""


def main(argv: Sequence[str]) -> int:
    """Answer one hook, `ralph hook EVENT [--agent NAME]`, and return the exit code, which is always 0."""
    _open_standard_streams()
    response = _Response()
    event: HookEvent | None = None
    try:
        name, agent = _arguments(argv)
        if agent == "cursor" and name == "user-prompt-submit":
            response.envelope = {"continue": True}
        response.start_timer(
            TIMEOUT_SECONDS_BY_EVENT.get(name, HOOK_TIMEOUT_SECONDS),
            lambda problem: _record_error(event, name, problem, response),
        )
        event = _event(name, agent, _read_payload())
        _handle(event, response)
    except ProjectNotFoundError:
        pass  # User-level hooks are called in every directory.
    except Exception as error:  # noqa: BLE001 -- only the envelope may reach the agent
        with suppress(Exception):
            _report_error(event, argv, error, response)
    response.send()
    response.restore_signals()
    return 0


def _open_standard_streams() -> None:
    """Open closed standard streams, so that no file opened later takes their place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _Response:
    """Response on stdout, sent once, by the main thread or by the timer."""

    def __init__(self) -> None:
        self.envelope: dict[str, Any] = {}
        self.is_stored = False
        """Whether the content of the event is stored."""
        self.message: str | None = None
        """The agent's message, once it is read."""
        self._start_thread = _thread.start_new_thread
        self._send_lock = _thread.allocate_lock()
        self._previous_handlers: dict[int, Any] = {}
        """Previous handlers by signal number."""

    def start_timer(self, seconds: float, note: Callable[[str], None]) -> None:
        """Send the response after a timeout or on a signal, and end the process.

        Signals wake the waiting thread, because the main thread may be blocked in a locked database.

        """
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        _signal.set_wakeup_fd(write_end)
        for number in (_signal.SIGINT, _signal.SIGTERM):
            self._previous_handlers[number] = _signal.signal(number, lambda *_: None)

        def wait() -> None:
            is_stopped = bool(select.select([read_end], [], [], seconds)[0])
            if not self.send():
                return  # The main thread is done, and the process is exiting.
            self._start_thread(_exit_after, (ERROR_REPORT_SECONDS,))
            try:
                note(INTERRUPTED_MESSAGE if is_stopped else f"{TIMEOUT_MESSAGE} {seconds:g} s and was canceled.")
            finally:
                os._exit(0)

        self._start_thread(wait, ())

    def restore_signals(self) -> None:
        """Restore the previous signal handlers, in case the caller continues."""
        for number, before in self._previous_handlers.items():
            _signal.signal(number, before)
        if self._previous_handlers:
            _signal.set_wakeup_fd(-1)

    def send(self) -> bool:
        """Print the envelope and return whether this was the first call."""
        is_first = self._send_lock.acquire(blocking=False)
        if is_first:
            _write(1, json.dumps(self.envelope) + "\n")
        return is_first


def _exit_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(0)


def _write(number: int, text: str) -> None:
    rest = text.encode("utf-8", "replace")
    try:
        while rest:
            rest = rest[os.write(number, rest) :]
    except OSError:
        pass  # The reader is gone.


# --- input -------------------------------------------------------------------------


def _arguments(words: Sequence[str]) -> tuple[str, str]:
    """Return the event and the agent named on the command line."""
    positional: list[str] = []
    agent = "claude"
    remaining = iter(words)
    for word in remaining:
        if word == "--agent":
            agent = next(remaining, "")
        elif word.startswith("--agent="):
            agent = word.partition("=")[2]
        else:
            positional.append(word)
    if agent not in CONNECTABLE_AGENTS:
        raise RalphError(
            f"Unknown agent: {one_line(clean(agent), 80)!r}. Choose one of: {', '.join(CONNECTABLE_AGENTS)}."
        )
    if len(positional) != 1:
        raise RalphError(f"Expected one event: ralph hook EVENT. Choose one of: {', '.join(HOOK_EVENTS)}.")
    return _event_name(positional[0]), agent


def _event_name(word: str) -> str:
    """Return the canonical name of an event written as SessionStart, sessionStart or session-start."""
    parts = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in word)
    name = parts.strip("-").replace("_", "-")
    name = EVENT_ALIASES.get(name, name)
    if name not in HOOK_EVENTS:
        raise RalphError(f"Unknown hook event: {one_line(clean(word), 80)!r}. Choose one of: {', '.join(HOOK_EVENTS)}.")
    return name


def _read_payload() -> dict[str, Any]:
    """Return the event payload: empty without input, an error for anything but an object."""
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    chunks = []
    size = 0
    while size <= MAX_PAYLOAD_BYTES and (chunk := os.read(0, 1024 * 1024)):
        chunks.append(chunk)
        size += len(chunk)
    return _parse_payload(b"".join(chunks))


def _parse_payload(payload: bytes) -> dict[str, Any]:
    text = payload.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return {}
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RalphError(f"The event payload is larger than {MAX_PAYLOAD_BYTES:,} bytes.")
    excerpt = one_line(sanitize(text[: 8 * MAX_SESSION_ID_CHARACTERS]), 80)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RalphError(f"The event payload is not JSON: {excerpt!r}.") from error
    if not isinstance(fields, dict):
        raise RalphError(f"The event payload is not a JSON object: {excerpt!r}.")
    return fields


def _event(name: str, agent: str, fields: dict[str, Any]) -> HookEvent:
    event = HookEvent(name=name, original_name="", agent=agent, session="", directories=(), fields=fields)
    roots = fields.get("workspace_roots")
    first_root = next((one for one in roots if isinstance(one, str)), "") if isinstance(roots, list) else ""
    directories = (event.text("cwd"), first_root, os.environ.get("CLAUDE_PROJECT_DIR", ""), ".")
    return HookEvent(
        name=name,
        original_name=_original_name(event.text("hook_event_name"), name, agent),
        agent=agent,
        session=one_line(
            sanitize(event.text("session_id", "conversation_id")[: 8 * MAX_SESSION_ID_CHARACTERS]),
            MAX_SESSION_ID_CHARACTERS,
        ),
        directories=tuple(filter(None, directories)),
        fields=fields,
    )


def _original_name(original: str, name: str, agent: str) -> str:
    """Return the agent's own name of the event, to use it in the response."""
    if original and original.isalnum() and len(original) < 50:
        return original
    if agent == "gemini" and name == "user-prompt-submit":
        return "BeforeAgent"
    return "".join(part.title() for part in name.split("-"))


# --- actions -----------------------------------------------------------------------


def _handle(event: HookEvent, response: _Response) -> None:
    """Handle the event; the response is complete before anything is written."""
    from ralph.project import Project

    with Project.open(_find_worktree(event.directories)[1], actor=AGENT) as project:
        if project.actor.is_loop_session:
            _restore_context(project, event, response)
            return
        with project.synced():
            _ACTIONS[event.name](project, event, response)
            response.is_stored = True
        _store_queued(project)
        if event.name in CAPTURING_EVENTS:
            project.episodes.capture_session(event.agent, event.session, event.text("transcript_path"))
        if event.name == "session-end":
            project.sessions.learn_from_talk(event.session, event.agent)
            project.episodes.trim()
        hook_errors.record_hook_success(project.directory)


def _find_worktree(directories: Sequence[str]) -> tuple[str, str]:
    """Return the project of the first of these directories that is in one, and its directory in that worktree."""
    from ralph.workspace import find_worktree

    first_error: Exception | None = None
    for directory in directories:
        try:
            return find_worktree(directory)
        except ProjectNotFoundError:
            continue
        except (RalphError, ValueError) as error:  # The path contains a NUL or cannot be read.
            first_error = first_error or error
    if isinstance(first_error, RalphError):
        raise first_error
    raise ProjectNotFoundError(directories[0])


def _restore_context(project: Project, event: HookEvent, response: _Response) -> None:
    """Restore the context of a session of the loop after a compaction."""
    task = os.environ.get("RALPH_TASK_ID")
    if task and event.name == "session-start" and event.fields.get("source") == "compact":
        _add_context(event, response, project.sessions.task_context(task, event.agent))


def _on_session_start(project: Project, event: HookEvent, response: _Response) -> None:
    is_resumed = event.fields.get("source") == "resume"
    is_compacted = event.fields.get("source") == "compact"
    context = project.sessions.start_context(
        event.session, agent=event.agent, is_resumed=is_resumed, is_compacted=is_compacted
    )
    _add_context(event, response, context)
    if event.session:
        project.sessions.record_start(event.session, event.agent, context, is_resumed=is_resumed)


def _on_prompt(project: Project, event: HookEvent, response: _Response) -> None:
    from ralph.memory.sessions import SessionContext

    prompt = _strip_own_context(event.text("prompt"))
    context = (
        SessionContext()
        if event.agent == "cursor"
        else project.sessions.prompt_context(event.session, prompt, event.agent)
    )
    _add_context(event, response, context)
    if event.session and prompt:
        project.sessions.record_prompt(event.session, event.agent, prompt, context)


def _on_message(project: Project, event: HookEvent, response: _Response) -> None:
    response.message = _last_message(event)
    if response.message:
        project.sessions.store_message(event.session, event.agent, response.message, is_last=event.name == "stop")


def _on_pre_compact(project: Project, event: HookEvent, response: _Response) -> None:
    response.message = _transcript(event, project.sessions.started_at(event.session))
    if response.message:
        project.sessions.store_message(event.session, event.agent, response.message, is_last=False)


def _on_post_compact(project: Project, event: HookEvent, _: _Response) -> None:
    if event.session:
        project.sessions.record_compaction(event.session, event.agent, event.text("compact_summary"))


def _on_session_end(project: Project, event: HookEvent, response: _Response) -> None:
    _on_pre_compact(project, event, response)
    if event.session:
        project.sessions.record_end(event.session, event.agent, event.text("reason"))


_ACTIONS: dict[str, Callable[[Project, HookEvent, _Response], None]] = {
    "session-start": _on_session_start,
    "user-prompt-submit": _on_prompt,
    "pre-compact": _on_pre_compact,
    "post-compact": _on_post_compact,
    "stop": _on_message,
    "subagent-stop": _on_message,
    "session-end": _on_session_end,
}


def _add_context(event: HookEvent, response: _Response, context: SessionContext) -> None:
    if not context.text:
        return
    if event.agent in _CONTEXT_KEYS:
        response.envelope = {_CONTEXT_KEYS[event.agent]: context.text}
    else:
        output = {"hookEventName": event.original_name, "additionalContext": context.text}
        response.envelope = {"hookSpecificOutput": output}


def _strip_own_context(prompt: str) -> str:
    """Return a prompt without the context our own hook added, which Gemini puts in front."""
    if not prompt.startswith("<hook_context>"):
        return prompt
    context, separator, rest = prompt.partition("</hook_context>")
    return rest.strip() if separator else context


def _last_message(event: HookEvent) -> str:
    """Return the agent's last message.

    Gemini repeats the end of it in the payload, but not in its transcript. Copilot CLI has it only there.

    """
    message = event.text(*LAST_MESSAGE_FIELDS)[-MAX_MESSAGE_CHARACTERS:]
    if event.agent not in ("gemini", "copilot"):
        return message
    from ralph.formats.transcripts.tail import read_agent_messages

    transcribed = (read_agent_messages(event.text("transcript_path")) or [""])[-1]
    return transcribed if transcribed and (not message or message.startswith(transcribed)) else message


def _transcript(event: HookEvent, since: str = "") -> str:
    """Return the agent's messages in its transcript since a point in time.

    The last message of an interrupted turn, or of one before a compaction, reaches no other hook.

    """
    from ralph.formats.transcripts.tail import read_agent_messages

    return "\n\n".join(read_agent_messages(event.text("transcript_path"), since))


# --- errors ----------------------------------------------------------------------


def _store_queued(project: Project) -> None:
    """Store what earlier hooks queued."""
    if not hook_errors.has_queued(project.directory):
        return
    from ralph.memory.capture.statements import statement

    for entry in hook_errors.claim_queued(project.directory):
        memories = [statement(item.kind, item.title, item.body, item.tags, entry.at) for item in entry.statements]
        project.sessions.store_statements(entry.session, entry.agent, memories)


def _report_error(event: HookEvent | None, words: Sequence[str], error: Exception, response: _Response) -> None:
    """Record an error and print it to stderr."""
    message = str(error) if isinstance(error, RalphError) else f"{type(error).__name__}: {error}"
    problem = one_line(sanitize(clean(message[: 8 * MAX_PROBLEM_CHARACTERS])), MAX_PROBLEM_CHARACTERS)
    _record_error(event, event.name if event else one_line(sanitize(" ".join(words)), 60), problem, response)
    _write(2, f"ralph hook: {problem}\n")


def _record_error(event: HookEvent | None, name: str, problem: str, response: _Response) -> None:
    """Record an error for `ralph doctor`, and queue the session's statements if they are not stored."""
    directories = event.directories if event else (".",)
    try:
        root = _find_worktree(directories)[0]
    except ProjectNotFoundError:
        return
    except RalphError:
        root = hook_errors.find_ralph_folder(directories)  # Its configuration cannot be read.
    if not root:
        return
    statements = _unstored_statements(event, response) if event and not response.is_stored else []
    if event and statements and not hook_errors.queue_statements(root, event.agent, event.session, statements):
        problem = f"{problem} {STATEMENTS_LOST_MESSAGE}"
    hook_errors.record_hook_error(root, name, event.agent if event else "", problem)


def _unstored_statements(event: HookEvent, response: _Response) -> list[hook_errors.QueuedStatement]:
    """Return the statements of a session that are not stored yet."""
    from ralph.memory.sessions import parse_statements

    if current_actor().is_loop_session:
        return []  # The loop reads the output of its own sessions.
    if response.message is not None:
        text = response.message
    elif event.name in ("stop", "subagent-stop"):
        text = _last_message(event)
    elif event.name in ("pre-compact", "session-end"):
        text = _transcript(event)
    else:
        return []
    statements = parse_statements(text)
    return [
        hook_errors.QueuedStatement(kind=one.kind, title=one.title, body=one.content, tags=one.tags)
        for one in statements
    ]
