"""Answer the hooks of agents: at the start of a session what it should know, at its end what it learned.

An agent waits for its hooks and takes what they print for granted. So there is always one JSON object on stdout and
exit code 0, in time, whatever happens; what went wrong is noted for `ralph doctor`, and what could not be stored waits
for the next hook. Little is loaded: this runs before every prompt.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

from ralph import mishaps
from ralph.config import CONNECTABLE
from ralph.errors import ProjectNotFoundError, RalphError
from ralph.records import record
from ralph.text import accept, clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.attending import Told
    from ralph.project import Project

EVENTS = (
    *("session-start", "user-prompt-submit", "pre-compact", "post-compact"),
    *("stop", "subagent-stop", "session-end"),
)
OTHER_NAMES = {
    "before-agent": "user-prompt-submit",
    "before-submit-prompt": "user-prompt-submit",
    "after-agent": "stop",
    "after-agent-response": "stop",
    "pre-compress": "pre-compact",
}
"""What Gemini and Cursor call them."""
SECONDS = {"session-end": 2.5}
"""Codex ends such a hook after 3."""
LONGEST_SECONDS = 4.0
"""An agent waits no longer than this, whatever the disk, the database or the network do."""
LAST_SECONDS = 1.5
"""So long it may take after that to note what went wrong; agents end a hook after 10 s."""
LARGEST_INPUT = 32 * 1024 * 1024
LARGEST_ANSWER = 4 * 1024 * 1024
"""So much of the end of an answer is read."""
LONGEST_ID = 200
LONGEST_PROBLEM = 400
TOO_LATE = "It took longer than"
STOPPED = "It was told to stop before it was done."
LOST = "What the session asked to have remembered is lost, for it could not be put by either."
LAST_WORDS = ("last_assistant_message", "prompt_response", "text")
"""Where Claude Code and Codex, Gemini, and Cursor put what the agent said last."""


@record
class Event:
    """One call of a hook, whatever agent makes it."""

    name: str
    """One of `EVENTS`."""
    given_name: str
    """What the agent calls it."""
    agent: str
    session: str
    directories: tuple[str, ...]
    """Where it may be at work: an agent goes elsewhere, and is still in the project that it was started in."""
    fields: dict[str, Any]

    def text(self, *names: str) -> str:
        """Give the first of these fields that has text in it."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value
        return ""


def main(words: Sequence[str]) -> int:
    """Answer one hook, `ralph hook EVENT [--agent NAME]`, and give its exit code, which is always 0."""
    _open_all()
    answer = _Answer()
    event: Event | None = None
    try:
        name, agent = _arguments(words)
        if agent == "cursor" and name == "user-prompt-submit":
            answer.envelope = {"continue": True}
        answer.in_time(SECONDS.get(name, LONGEST_SECONDS), lambda why: _note(event, name, why, answer))
        event = _event(name, agent, _stdin())
        _attend(event, answer)
    except ProjectNotFoundError:
        pass  # The hooks of a person are called in every directory.
    except Exception as error:  # noqa: BLE001 -- nothing may reach the agent but the envelope
        with suppress(Exception):
            _complain(event, words, error, answer)
    answer.send()
    answer.leave()
    return 0


def _open_all() -> None:
    """Open what the agent has closed: or what we open next takes its place, and gets what is meant for the agent."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _Answer:
    """What goes to stdout, once, whoever sends it first: we, or the clock."""

    def __init__(self) -> None:
        import _thread  # threading takes milliseconds to load

        self.envelope: dict[str, Any] = {}
        self.is_kept = False
        """Whether what the event brought is stored."""
        self.said: str | None = None
        """What the session said, once that is read."""
        self._start = _thread.start_new_thread
        self._sending = _thread.allocate_lock()
        self._before: dict[int, Any] = {}
        """What signals did before."""

    def in_time(self, seconds: float, note: Callable[[str], None]) -> None:
        """Send what there is after so many seconds, or when we are told to stop, and end the process.

        The signals wake the thread that waits, for the main thread may be deep in a database that is locked.
        """
        import _signal  # type: ignore[import-not-found]  # signal takes milliseconds to load
        import select

        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        _signal.set_wakeup_fd(wakes)
        for number in (_signal.SIGINT, _signal.SIGTERM):
            self._before[number] = _signal.signal(number, lambda *_: None)

        def end() -> None:
            is_stopped = bool(select.select([woken], [], [], seconds)[0])
            if not self.send():
                return  # All is done, and the process is just ending.
            self._start(_end_after, (LAST_SECONDS,))
            try:
                note(STOPPED if is_stopped else f"{TOO_LATE} {seconds:g} s, and the agent was not kept waiting.")
            finally:
                os._exit(0)

        self._start(end, ())

    def leave(self) -> None:
        """Let signals do again what they did before: whoever called us may go on."""
        import _signal

        for number, before in self._before.items():
            _signal.signal(number, before)
        if self._before:
            _signal.set_wakeup_fd(-1)

    def send(self) -> bool:
        """Print the envelope, and say whether it was not printed before."""
        is_first = self._sending.acquire(blocking=False)
        if is_first:
            _write(1, json.dumps(self.envelope) + "\n")
        return is_first


def _end_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(0)


def _write(number: int, text: str) -> None:
    rest = text.encode("utf-8", "replace")
    try:
        while rest:
            rest = rest[os.write(number, rest) :]
    except OSError:
        pass  # Nobody listens any more.


# --- reading -----------------------------------------------------------------------


def _arguments(words: Sequence[str]) -> tuple[str, str]:
    """Give the event and the agent that the command line names."""
    left: list[str] = []
    agent = "claude"
    coming = iter(words)
    for word in coming:
        if word == "--agent":
            agent = next(coming, "")
        elif word.startswith("--agent="):
            agent = word.partition("=")[2]
        else:
            left.append(word)
    if agent not in CONNECTABLE:
        raise RalphError(f"There is no agent {one_line(clean(agent), 80)!r}: it is one of {', '.join(CONNECTABLE)}.")
    if len(left) != 1:
        raise RalphError(f"Say which event it is: ralph hook EVENT, one of {', '.join(EVENTS)}.")
    return _event_name(left[0]), agent


def _event_name(word: str) -> str:
    """Give our name of an event, which agents write as SessionStart, sessionStart or session-start."""
    parts = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in word)
    name = parts.strip("-").replace("_", "-")
    name = OTHER_NAMES.get(name, name)
    if name not in EVENTS:
        raise RalphError(f"There is no hook event {one_line(clean(word), 80)!r}: it is one of {', '.join(EVENTS)}.")
    return name


def _stdin() -> dict[str, Any]:
    """Give what the agent says about the event; nothing is fine, anything but an object is not."""
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    pieces = []
    size = 0
    while size <= LARGEST_INPUT and (piece := os.read(0, 1024 * 1024)):
        pieces.append(piece)
        size += len(piece)
    return _fields_in(b"".join(pieces))


def _fields_in(said: bytes) -> dict[str, Any]:
    text = said.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return {}
    if len(said) > LARGEST_INPUT:
        raise RalphError(f"The agent said more than {LARGEST_INPUT:,} bytes about the event.")
    begins = one_line(accept(text[: 8 * LONGEST_ID]), 80)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RalphError(f"What the agent said about the event is no JSON: {begins!r}.") from error
    if not isinstance(fields, dict):
        raise RalphError(f"What the agent said about the event is no JSON object: {begins!r}.")
    return fields


def _event(name: str, agent: str, fields: dict[str, Any]) -> Event:
    event = Event(name=name, given_name="", agent=agent, session="", directories=(), fields=fields)
    roots = fields.get("workspace_roots")
    first = next((one for one in roots if isinstance(one, str)), "") if isinstance(roots, list) else ""
    places = (event.text("cwd"), first, os.environ.get("CLAUDE_PROJECT_DIR", ""), ".")
    return Event(
        name=name,
        given_name=_given_name(event.text("hook_event_name"), name, agent),
        agent=agent,
        session=one_line(accept(event.text("session_id", "conversation_id")[: 8 * LONGEST_ID]), LONGEST_ID),
        directories=tuple(filter(None, places)),
        fields=fields,
    )


def _given_name(given: str, name: str, agent: str) -> str:
    """Give what the agent calls the event, to call it the same in the answer."""
    if given and given.isalnum() and len(given) < 50:
        return given
    if agent == "gemini" and name == "user-prompt-submit":
        return "BeforeAgent"
    return "".join(part.title() for part in name.split("-"))


# --- answering ---------------------------------------------------------------------


def _attend(event: Event, answer: _Answer) -> None:
    """Do what the event asks for; what is to be told stands in the answer before anything is written."""
    from ralph.project import Project

    with Project.open(_root(event.directories), unasked=True) as project:
        if os.environ.get("RALPH_SESSION"):
            _remind(project, event, answer)
            return
        _ACTIONS[event.name](project, event, answer)
        answer.is_kept = True
        _catch_up(project)
        mishaps.all_well(project.directory)


def _root(directories: Sequence[str]) -> str:
    """Give the project that the first of some directories belongs to that is in one."""
    from ralph.location import find_root

    trouble: Exception | None = None
    for directory in directories:
        try:
            return find_root(directory)
        except ProjectNotFoundError:
            continue
        except (RalphError, ValueError) as error:  # A name with a NUL in it is none; nor is one that cannot be read.
            trouble = trouble or error
    if isinstance(trouble, RalphError):
        raise trouble
    raise ProjectNotFoundError(directories[0])


def _remind(project: Project, event: Event, answer: _Answer) -> None:
    """Tell a session of our own loop again what its compaction has lost."""
    task = os.environ.get("RALPH_TASK_ID")
    if task and event.name == "session-start" and event.fields.get("source") == "compact":
        _tell(event, answer, project.sessions.for_task(task))


def _start(project: Project, event: Event, answer: _Answer) -> None:
    goes_on = event.fields.get("source") == "resume"
    is_compacted = event.fields.get("source") == "compact"
    told = project.sessions.on_start(event.session, goes_on=goes_on, is_compacted=is_compacted)
    _tell(event, answer, told)
    if event.session:
        project.sessions.note_start(event.session, event.agent, told, goes_on=goes_on)


def _prompt(project: Project, event: Event, answer: _Answer) -> None:
    from ralph.attending import Told

    prompt = _without_ours(event.text("prompt"))
    told = Told() if event.agent == "cursor" else project.sessions.on_prompt(event.session, prompt)
    _tell(event, answer, told)
    if event.session and prompt:
        project.sessions.note_prompt(event.session, event.agent, prompt, told)


def _said(project: Project, event: Event, answer: _Answer) -> None:
    answer.said = _last_words(event)
    if answer.said:
        project.sessions.keep(event.session, event.agent, answer.said, is_last=event.name == "stop")


def _before_compaction(project: Project, event: Event, answer: _Answer) -> None:
    answer.said = _transcript(event, project.sessions.began(event.session))
    if answer.said:
        project.sessions.keep(event.session, event.agent, answer.said, is_last=False)


def _after_compaction(project: Project, event: Event, _: _Answer) -> None:
    if event.session:
        project.sessions.note_compaction(event.session, event.agent, event.text("compact_summary"))


def _end(project: Project, event: Event, answer: _Answer) -> None:
    _before_compaction(project, event, answer)
    if event.session:
        project.sessions.note_end(event.session, event.agent, event.text("reason"))


_ACTIONS: dict[str, Callable[[Project, Event, _Answer], None]] = {
    "session-start": _start,
    "user-prompt-submit": _prompt,
    "pre-compact": _before_compaction,
    "post-compact": _after_compaction,
    "stop": _said,
    "subagent-stop": _said,
    "session-end": _end,
}


def _tell(event: Event, answer: _Answer, told: Told) -> None:
    if not told.text:
        return
    if event.agent == "cursor":
        answer.envelope = {"additional_context": told.text}
    else:
        answer.envelope = {"hookSpecificOutput": {"hookEventName": event.given_name, "additionalContext": told.text}}


def _without_ours(prompt: str) -> str:
    """Give a prompt without what a hook has told with it: Gemini puts that in front."""
    if not prompt.startswith("<hook_context>"):
        return prompt
    ours, mark, rest = prompt.partition("</hook_context>")
    return rest.strip() if mark else ours


def _last_words(event: Event) -> str:
    """Give what the agent said last.

    Gemini says the last piece of it twice, but not in its transcript.
    """
    told = event.text(*LAST_WORDS)[-LARGEST_ANSWER:]
    if event.agent != "gemini":
        return told
    from ralph.formats.transcripts import said_in

    written = (said_in(event.text("transcript_path")) or [""])[-1]
    return written if written and told.startswith(written) else told


def _transcript(event: Event, since: str = "") -> str:
    """Give what the agent itself wrote into its transcript since a moment.

    The last message of a turn that was cut off, or that a compaction comes before, reaches no other hook.
    """
    from ralph.formats.transcripts import said_in

    return "\n\n".join(said_in(event.text("transcript_path"), since))


# --- when it goes wrong ------------------------------------------------------------


def _catch_up(project: Project) -> None:
    """Store what earlier hooks could not."""
    if not mishaps.are_waiting(project.directory):
        return
    from ralph.loop.capture import statement

    for waiting, taken in mishaps.take(project.directory):
        try:
            for one in waiting:
                stated = [statement(said.kind, said.title, said.body, said.tags, one.at) for said in one.said]
                project.sessions.keep_stated(one.session, one.agent, stated)
        except BaseException:
            mishaps.put_back(taken)
            raise
        mishaps.done(taken)


def _complain(event: Event | None, words: Sequence[str], error: Exception, answer: _Answer) -> None:
    """Note what went wrong, and say it to a person who looks."""
    said = str(error) if isinstance(error, RalphError) else f"{type(error).__name__}: {error}"
    problem = one_line(accept(clean(said[: 8 * LONGEST_PROBLEM])), LONGEST_PROBLEM)
    _note(event, event.name if event else one_line(accept(" ".join(words)), 60), problem, answer)
    _write(2, f"ralph hook: {problem}\n")


def _note(event: Event | None, name: str, problem: str, answer: _Answer) -> None:
    """Note what went wrong for `ralph doctor`, and put by what the session said, if it is not stored."""
    directories = event.directories if event else (".",)
    try:
        root = _root(directories)
    except ProjectNotFoundError:
        return
    except RalphError:
        root = _folder_of_ours(directories)  # Its settings cannot be read.
    if not root:
        return
    said = _unkept(event, answer) if event and not answer.is_kept else []
    if event and said and not mishaps.put_by(root, event.agent, event.session, said):
        problem = f"{problem} {LOST}"
    mishaps.note(root, name, event.agent if event else "", problem)


def _folder_of_ours(directories: Sequence[str]) -> str:
    """Give the nearest directory with a folder of ours in it, or nothing."""
    from ralph.location import FOLDER

    for directory in directories:
        if "\0" in directory:
            continue
        place, below = os.path.realpath(directory), ""
        while place != below:
            if os.path.isdir(f"{place}/{FOLDER}"):  # noqa: PTH112
                return place
            place, below = os.path.dirname(place), place  # noqa: PTH120
    return ""


def _unkept(event: Event, answer: _Answer) -> list[mishaps.Statement]:
    """Give what a session asked to have remembered and is not stored."""
    from ralph.attending import stated_in

    if os.environ.get("RALPH_SESSION"):
        return []  # The loop reads what its own sessions say.
    if answer.said is not None:
        text = answer.said
    elif event.name in ("stop", "subagent-stop"):
        text = _last_words(event)
    elif event.name in ("pre-compact", "session-end"):
        text = _transcript(event)
    else:
        return []
    said = stated_in(text)
    return [mishaps.Statement(kind=one.kind, title=one.title, body=one.body, tags=one.tags) for one in said]
