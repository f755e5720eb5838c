"""Every reader of foreign text, each as one function of a text, with what must hold whatever the text is.

A reader may refuse, with a `RalphError` or the error that its module documents, whose words are one clear line. It
may not raise anything else, give anything that cannot be stored, or give something else the second time. Where there
is a writer, what it writes is read back the same.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ralph.agents.claude import _ClaudeDriver
from ralph.agents.codex import _CodexDriver
from ralph.agents.gemini import _GeminiDriver
from ralph.agents.headless import HeadlessDriver
from ralph.agents.opencode import _OpenCodeDriver
from ralph.agents.rehearsal import read_playbook
from ralph.agents.streams import JsonLinesParser
from ralph.agents.supervisor.process import ProcessResult
from ralph.core.config import TOML_NAME, YAML_NAMES, load_config
from ralph.core.config_file import config_template
from ralph.core.errors import AgentUnavailableError, ConfigError, RalphError
from ralph.core.records import AgentReply, Memory, SessionEnding, record, record_fields
from ralph.core.redaction import redact
from ralph.core.text import (
    clean,
    extract_title,
    find_paths,
    neutralize,
    one_line,
    sanitize,
    slugify,
    truncate_words,
)
from ralph.core.tokenize import search_terms, tokenize, tokenize_path
from ralph.formats.beads_jsonl import read_beads_jsonl
from ralph.formats.bundle import read_bundle, verify_bundle, write_bundle
from ralph.formats.checklist_md import read_checklist_md
from ralph.formats.guardrails_md import read_guardrails_md
from ralph.formats.imported import InvalidEntryError
from ralph.formats.js_json import dumps, loads
from ralph.formats.knowledge_md import format_note, parse_note, read_knowledge_md, update_note
from ralph.formats.learnings_json import read_learnings_json, write_learnings_json
from ralph.formats.loop_state import read_loop_state
from ralph.formats.memories_csv import read_memories_csv, write_memories_csv
from ralph.formats.memories_document import parse_document
from ralph.formats.memories_json import read_memories_json, write_memories_json
from ralph.formats.memories_md import edit_document, read_memories_md, write_memories_md
from ralph.formats.notes_md import read_notes_md
from ralph.formats.planned import ReadProblem
from ralph.formats.progress_txt import read_progress_txt
from ralph.formats.registry import detect_format
from ralph.formats.sigils import strip_echoes
from ralph.formats.staging_json import read_staging_json
from ralph.formats.task_files import read_tasks
from ralph.formats.tasks_jsonl import read_tasks_jsonl
from ralph.formats.transcripts import READERS, tail
from ralph.formats.transcripts.base import Transcript, TranscriptProblem
from ralph.integrations.hooks import (
    HOOK_EVENTS,
    _arguments,
    _event,
    _last_message,
    _original_name,
    _parse_payload,
    _strip_own_context,
)
from ralph.integrations.mcp import protocol
from ralph.integrations.project_handle import ProjectHandle
from ralph.integrations.setup.edits import JsonEdit, TomlEdit
from ralph.integrations.setup.entries import FileHistory
from ralph.integrations.setup.jsontext import InvalidJsonError, JsonText
from ralph.loop.review import is_passing_answer
from ralph.memory.capture.extract import extract_learnings
from ralph.memory.recall.query import RecallContext, build_query
from tests.faults import fuzz_examples as examples
from tests.faults.fuzz_examples import AT, HOOK, SERVER
from tests.make import set_up_project

LONGEST_SENTENCE = 2_500
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")
_INSIDES = re.compile(r"object at 0x|Traceback|<class '|<ralph\.|\bNoneType\b")


@record
class Target:
    """A reader, and what it is fed with."""

    name: str
    read: Callable[[str], object]
    """Gives what was read, to be compared with what is read the second time."""
    examples: tuple[str, ...]
    words: tuple[str, ...] = ()
    """What means something to it."""


class Broken(AssertionError):
    """Something that must hold does not."""


def must(holds: object, what: str, *shown: object) -> None:
    """Say what does not hold."""
    if not holds:
        raise Broken(f"{what}: {', '.join(ascii(one)[:300] for one in shown)}")


def is_sentence(words: str) -> None:
    """Refuse words that are no clear line for a person."""
    must(words.strip() and len(words) <= LONGEST_SENTENCE, "no sentence", words)
    must(not _UNFIT.search(words), "not fit to be shown", words)
    must(not _INSIDES.search(words), "shows the insides", words)


def refused(work: Callable[[], object], *kinds: type[Exception]) -> object:
    """Give what comes of it, or the sentence it was refused with."""
    try:
        return work()
    except (RalphError, *kinds) as error:  # type: ignore[misc]
        is_sentence(str(error))
        return str(error)


def can_be_stored(value: object) -> None:
    """Refuse what no database takes, or nobody should see."""
    if isinstance(value, str):
        # A tab is fine in a body, an escape nowhere.
        must(value.isprintable() or clean(value) == value, "not clean", value)
    elif isinstance(value, float):
        must(math.isfinite(value), "no number", value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            can_be_stored(name)
            can_be_stored(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            can_be_stored(inner)
    elif isinstance(value, int):
        must(abs(value) < 2**63, "no number of a database", value)


def is_reading(reading: tuple[Iterable[Any], Iterable[Any]], lines: int | None = None) -> Any:
    """Refuse what no reader should give; give it."""
    entries, problems = reading
    for one in entries:
        can_be_stored([value for value in record_fields(one).values() if value is not None])
        if isinstance(one, Memory):
            must(0 <= one.confidence <= 1 and one.title.strip(), "no memory", one)
    for problem in problems:
        is_sentence(problem.why)
        must(problem.line >= 1 and (lines is None or problem.line <= lines), "no such line", problem)
    return reading


def comes_back(memories: tuple[Memory, ...], write: Callable[[tuple[Memory, ...]], str], read: Any) -> None:
    """Refuse a writer whose text is not read back as what was written."""
    text = write(memories)
    again, problems = read(text)
    must(not problems, "cannot be read back", problems, text)
    must(write(again) == text, "comes back otherwise", text, write(again))


# --- memories ------------------------------------------------------------------------------------


def any_memories(text: str) -> object:
    """Whatever `ralph memory import` is given."""
    format = detect_format(text, "notes.md")
    detect_format(text, "progress.txt")
    if format is None or format.is_streamed or format.content != "memories":
        return format
    return is_reading(format.read(text, AT, force=True))


def bundle(text: str) -> object:
    """An export of ours."""
    lines = text.split("\n")
    if why := verify_bundle(lines):
        is_sentence(why)
    read = list(read_bundle(lines))
    memories = tuple(one for one in read if isinstance(one, Memory))
    is_reading((memories, [one for one in read if isinstance(one, ReadProblem)]))
    if memories:
        written = "".join(write_bundle([(one, ()) for one in memories], "p", AT))
        must(not verify_bundle(written.split("\n")), "our own bundle is refused", written)
        again = [one for one in read_bundle(written.split("\n")) if isinstance(one, Memory)]
        must("".join(write_bundle([(one, ()) for one in again], "p", AT)) == written, "comes back otherwise", written)
    return read


def memories_json(text: str) -> object:
    """A list of memories."""
    memories, _ = read = is_reading(read_memories_json(text, AT))
    if memories:
        comes_back(memories, lambda some: write_memories_json(some, "p", AT), lambda one: read_memories_json(one, AT))
    return read


def memories_csv(text: str) -> object:
    """A table of memories."""
    memories, _ = read = is_reading(read_memories_csv(text, AT))
    if memories:
        comes_back(memories, write_memories_csv, lambda one: read_memories_csv(one, AT))
    return read


def learnings(text: str) -> object:
    """A `ralph-learnings.json`, and a `staging.json`."""
    memories, _ = read = is_reading(read_learnings_json(text, AT))
    if memories:
        written = write_learnings_json(memories, AT)
        again, problems = read_learnings_json(written, AT)
        must(not problems, "our own file is refused", written)
        must(write_learnings_json(again, AT) == written, "comes back otherwise", written)
    return read, is_reading(read_staging_json(text, AT))


def memories_md(text: str) -> object:
    """`.agent/memories.md`, as it is read and kept in step."""
    memories, _ = read = is_reading(read_memories_md(text, AT))
    document = parse_document(text)
    must(edit_document(text) == text, "changed without a change", text)
    if memories and len({one.id for one in memories}) == len(memories):  # of two with one id, one is written
        kept = write_memories_md(memories)
        again = read_memories_md(kept, AT)
        must(write_memories_md(again[0]) == kept, "comes back otherwise", kept)
    if document.entries and not document.has_conflict:
        first = document.entries[0]
        without = parse_document(edit_document(text, remove=[first.id]))
        must(len(without.entries) >= len(document.entries) - 1, "more is gone than was removed", text)
    return read


def knowledge_md(text: str) -> object:
    """A file of `.ralph/knowledge/`, as it is read and kept in step."""

    def note() -> object:
        found = parse_note(text)
        can_be_stored(list(record_fields(found).values()))
        must(update_note(text, found) == text, "changed without a change", text)
        must(parse_note(format_note(found)) == found, "comes back otherwise", found)
        return found

    return refused(note, InvalidEntryError), is_reading(read_knowledge_md(text, AT))


def pages(text: str) -> object:
    """Notes, guardrails and progress logs."""
    return [is_reading(read(text, AT)) for read in (read_notes_md, read_guardrails_md, read_progress_txt)]


def loop_state(text: str) -> object:
    """The state of a loop elsewhere, and what is learned from it."""

    def history() -> object:
        found = read_loop_state(text)
        return found, is_reading((extract_learnings(found, AT), ()))

    return refused(history, ValueError)


def js_json(text: str) -> object:
    """JSON the way JavaScript writes it."""

    def value() -> object:
        found = loads(text)
        must(loads(dumps(found)) == _with_nulls(found), "comes back otherwise", found)
        return dumps(found)

    return refused(value, ValueError)


def _with_nulls(value: object) -> object:
    """Give a value with nothing where a number is infinite or none, which JavaScript reads as such and writes so."""
    if isinstance(value, dict):
        return {name: _with_nulls(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_nulls(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def transcript(text: str) -> object:
    """Lines of a transcript that an agent keeps."""
    lines = text.encode("utf-8", "surrogatepass").split(b"\n")
    return [tail._agent_text(line, "") for line in lines]


def sessions(text: str) -> object:
    """The transcripts of sessions, whichever agent is said to have written them; read on, nothing comes again."""
    content = text.encode("utf-8", "surrogatepass")
    names = {"claude": "s.jsonl", "codex": "c.jsonl", "gemini": "g.jsonl", "aider": "a.md"}
    return [_session(agent, _folder() / name, content) for agent, name in (*names.items(), ("gemini", "g.json"))]


def _session(agent: str, path: Path, content: bytes) -> object:
    path.write_bytes(content)
    problems: list[TranscriptProblem] = []
    one = Transcript(agent=agent, session="s", path=str(path.resolve()), directory="/p")
    turns = list(READERS[agent].turns(one, problems.append))
    for turn in turns:
        can_be_stored(list(record_fields(turn).values()))
        must(turn.text or turn.files, "says nothing", turn)
    for problem in problems:
        is_sentence(problem.reason)
    rest = list(READERS[agent].turns(one, problems.append, turns[0].offset)) if turns else []
    must(len(rest) <= len(turns), "more comes from the middle than from the start", turns, rest)
    return turns


# --- tasks ----------------------------------------------------------------------------------------


def tasks(text: str) -> object:
    """Whatever `ralph task import` is given."""
    planned, beads = read_tasks(text, "a.md"), read_beads_jsonl(text, AT)
    readings = [(one.tasks, one.problems) for one in (planned, beads)]
    return [is_reading(one) for one in (*readings, read_checklist_md(text), read_tasks_jsonl(text))]


# --- settings ------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="ralph-fuzz-")
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Folders, which go when the process ends."""


def _settings(name: str, text: str) -> object:
    path = _folder() / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    def config() -> object:
        found = load_config(_folder(), {})
        for warning in found.warnings:
            is_sentence(warning)
        return found

    try:
        return refused(config, ConfigError)
    finally:
        path.unlink()


def toml(text: str) -> object:
    """`.ralph.toml`."""
    return _settings(TOML_NAME, text)


def yaml(text: str) -> object:
    """`ralph.yml`."""
    return _settings(YAML_NAMES[0], text)


def variables(text: str) -> object:
    """Settings in the environment."""
    names = (
        "EXECUTION_MAX_RETRIES",
        "EXECUTION_GATES",
        "AGENT_COMMAND",
        "AGENT_SECONDS",
        "EXECUTION_VERIFY",
        "STORE_URL",
    )
    given = {f"RALPH_{name}": text for name in names}
    return [refused(lambda one=one: load_config(_folder(), {one: given[one]}), ConfigError) for one in given]  # type: ignore[misc]


def playbook(text: str) -> object:
    """The playbook of the rehearsal agent."""
    path = _folder() / "playbook.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return refused(lambda: read_playbook(path), AgentUnavailableError)
    finally:
        path.unlink()


def jsontext(text: str) -> object:
    """The settings of an agent in JSON, read and changed in place."""

    def changed() -> object:
        read = JsonText(text)
        must(read.text == text, "changed without a change", text)
        if isinstance(read.value, dict):
            with_one = read.with_value(("a new key",), {"b": [1]})
            must(with_one.get("a new key") == {"b": [1]}, "not there", with_one.text)
            without = with_one.without(("a new key",))
            must(
                without.value == {key: one for key, one in read.value.items() if key != "a new key"}, "otherwise", text
            )
        return read.value

    return ascii(refused(changed, InvalidJsonError))


def setup_json(text: str) -> object:
    """What `ralph setup` makes of an agent's JSON settings, and its removal."""
    edit = JsonEdit(
        path=Path("/s.json"),
        agent="claude",
        description="",
        hooks={"Stop": HOOK},
        servers_key="mcpServers",
        server=SERVER,
        list_items={("permissions", "allow"): "mcp__ralph"},
    )
    return _set_up(edit, text)


def setup_toml(text: str) -> object:
    """What `ralph setup` makes of an agent's TOML settings, and its removal."""
    return _set_up(TomlEdit(path=Path("/s.toml"), description="", server=SERVER), text)


def _set_up(edit: JsonEdit | TomlEdit, text: str) -> object:
    raw = text.encode("utf-8", "surrogatepass")
    history = FileHistory(original=raw, is_known=True)

    def there_and_back() -> object:
        merged = edit.with_entries(raw)
        edit.find_entries(raw)
        edit.without_entries(raw, history)
        must(edit.find_entries(merged).server, "not there", merged)
        must(edit.with_entries(merged) == merged, "not the same twice", merged)
        return merged, edit.without_entries(merged, history)

    return refused(there_and_back)


# --- agents ---------------------------------------------------------------------------------------

ENDED = ProcessResult(ending=SessionEnding.FINISHED, detail="", text="", stderr="", exit_code=0, seconds=1.0)


def _reply(events: HeadlessDriver, text: str, heard: list[str]) -> AgentReply:
    half = len(text) // 2
    for piece in (text[:half], text[half:]):
        events.add(piece)
    reply = events.reply("agent", ENDED)
    must(all(line == clean(line) for line in heard), "not clean", heard)
    can_be_stored([value for value in record_fields(reply).values() if value is not None])
    if reply.detail:
        is_sentence(reply.detail)
    return reply


def claude(text: str) -> object:
    """What Claude Code prints."""
    heard: list[str] = []
    return _reply(_ClaudeDriver(heard.append), text, heard)


def headless(text: str) -> object:
    """What Codex, Gemini and opencode print."""
    replies = []
    for stream in (_CodexDriver, _GeminiDriver, _OpenCodeDriver):
        heard: list[str] = []
        replies.append(_reply(stream(heard.append), text, heard))
    return replies


def json_lines(text: str) -> object:
    """Objects in lines, however they arrive."""
    whole, pieces = JsonLinesParser(), JsonLinesParser()
    found = [*whole.add(text), *whole.finish()]
    again = [one for at in range(0, len(text), 7) for one in pieces.add(text[at : at + 7])] + pieces.finish()
    must(ascii(found) == ascii(again) and whole.last_skipped == pieces.last_skipped, "depends on how it arrives", text)
    return ascii(found)


def review(text: str) -> object:
    """The answer of a session that verifies."""
    said = strip_echoes(text, "a\n<verify-pass/>\n", task_id="t-1")
    return said, is_passing_answer(said, "t-1")


# --- the doors for agents -------------------------------------------------------------------------


def hook(text: str) -> object:
    """What an agent says about an event to a hook."""
    raw = text.encode("utf-8", "surrogatepass")

    def heard() -> object:
        fields = _parse_payload(raw)
        events = [_event(name, agent, fields) for name in HOOK_EVENTS[:2] for agent in ("claude", "gemini")]
        for event in events:
            can_be_stored((event.session, event.original_name))
            json.dumps(_strip_own_context(event.text("prompt")))
            _last_message(event)
        return ascii(events)

    def named() -> object:
        return _arguments(text.split(" ")), _original_name(text, "stop", "claude")

    return refused(heard), refused(named)


@cache
def _opened() -> ProjectHandle:
    directory = _folder() / "project"
    directory.mkdir()
    set_up_project(directory)
    return ProjectHandle(str(directory))


def mcp(text: str) -> object:
    """A line to the MCP server, with a real project behind it."""
    try:
        message = protocol.parse_message(text.encode("utf-8", "surrogatepass"))
    except protocol.JsonRpcError as fault:
        is_sentence(str(fault))
        return protocol.encode_response(protocol.error_response(fault))
    answer = protocol.handle_message(message, _opened())
    if answer is not None:
        written = protocol.encode_response(answer)
        must(written.count(b"\n") == 1 and json.loads(written), "no line", written)
        for one in answer if isinstance(answer, list) else [answer]:
            if "error" in one:
                is_sentence(one["error"]["message"])
            elif isinstance(one["result"], dict) and one["result"].get("isError"):
                is_sentence(one["result"]["content"][0]["text"])
    return None  # some tools change what is there


# --- text -----------------------------------------------------------------------------------------


def foreign(text: str) -> object:
    """Text from anywhere on its way in."""
    kept = sanitize(text)
    must(clean(kept) == kept, "not clean", kept)
    must(sanitize(kept) == kept, "otherwise the second time", kept, sanitize(kept))
    must(redact(clean(text)).strip() == kept, "otherwise", text)
    said = neutralize(text)
    must(neutralize(said) == said, "otherwise the second time", said)
    must("\n" not in one_line(text), "not one line", text)
    for one in (slugify(text), extract_title(kept), truncate_words(kept, 5), *find_paths(kept)):
        can_be_stored(one)
    return kept, said


def asked(text: str) -> object:
    """What somebody looks for."""
    context = RecallContext(title=text[:100], body=text, files=(text[:300],), errors=(text,))
    found = build_query(context)
    can_be_stored((search_terms(text, 20), tokenize_path(text[:300])))
    must(all(math.isfinite(weight) for weight in found.words.values()), "no weight", text)
    return found, tokenize(text)


TARGETS: tuple[Target, ...] = (
    Target(
        name="text",
        read=foreign,
        examples=examples.TEXTS,
        words=(*examples.SECRETS, *examples.SIGILS),
    ),
    Target(
        name="search words",
        read=asked,
        examples=examples.TEXTS,
        words=("getUserName", "a.b.c", "a/b/c.py", "_", "A", "É"),
    ),
    Target(
        name="any file of memories",
        read=any_memories,
        examples=(
            examples.BUNDLE,
            examples.JSON_EXPORT,
            examples.CSV_EXPORT,
            examples.LEARNINGS,
            examples.STAGED,
            examples.MEMORIES_MD,
            examples.NOTE,
            examples.PROGRESS,
            examples.SIGNS,
            examples.NOTES,
            examples.STATE,
        ),
        words=examples.KEYS,
    ),
    Target(
        name="bundle",
        read=bundle,
        examples=(examples.BUNDLE,),
        words=(*examples.KEYS, '"event":', '"count":', '"checksum":'),
    ),
    Target(
        name="memories as JSON",
        read=memories_json,
        examples=(examples.JSON_EXPORT, f"[{examples.MEMORY}]"),
        words=examples.KEYS,
    ),
    Target(
        name="memories as CSV",
        read=memories_csv,
        examples=(examples.CSV_EXPORT, "type,content\nfix,a\n"),
        words=("=", '""'),
    ),
    Target(
        name="learnings",
        read=learnings,
        examples=(examples.LEARNINGS, examples.STAGED),
        words=examples.KEYS,
    ),
    Target(
        name="memories.md",
        read=memories_md,
        examples=(examples.MEMORIES_MD,),
        words=("### mem-1-a", "> ", "<!-- tags: ", " -->"),
    ),
    Target(
        name="knowledge notes",
        read=knowledge_md,
        examples=(examples.NOTE, examples.NOTE_LIST),
        words=("tags:", "title: ", "- ", "!!", "|"),
    ),
    Target(
        name="notes, signs, logs",
        read=pages,
        examples=(examples.PROGRESS, examples.SIGNS, examples.NOTES),
        words=("### Sign: ", "- **", "## "),
    ),
    Target(
        name="loop state",
        read=loop_state,
        examples=(examples.STATE,),
        words=examples.KEYS,
    ),
    Target(
        name="JSON as JavaScript has it",
        read=js_json,
        examples=(examples.STATE, examples.LEARNINGS, '{"10":1,"2":[1e21,-0.0]}'),
    ),
    Target(
        name="transcript",
        read=transcript,
        examples=(examples.TRANSCRIPT,),
        words=('"assistant"', '"gemini"'),
    ),
    Target(
        name="sessions",
        read=sessions,
        examples=examples.SESSIONS,
        words=examples.SESSION_WORDS,
    ),
    Target(
        name="tasks",
        read=tasks,
        examples=(examples.TASK_LINES, examples.CHECKLIST),
        words=("- [ ] ", "- [x] ", '"title":', "  "),
    ),
    Target(
        name=".ralph.toml",
        read=toml,
        examples=(examples.TOML, config_template()),
        words=("[", "[[", " = ", '"""', "memories"),
    ),
    Target(
        name="ralph.yml",
        read=yaml,
        examples=(examples.YAML,),
        words=("memories:", "filter:", "recent: ", "!!binary ", "- "),
    ),
    Target(
        name="variables",
        read=variables,
        examples=("3", "make test\nmake lint", "a 'b c'", "true", "postgresql://a/b"),
    ),
    Target(
        name="playbook",
        read=playbook,
        examples=(examples.PLAYBOOK,),
        words=("[[task]]", "[[task.idea]]", " = ", "seconds"),
    ),
    Target(
        name="JSON in place",
        read=jsontext,
        examples=(examples.SETTINGS_JSON, examples.OURS_JSON),
        words=("// a\n", "/* a */", '"a":'),
    ),
    Target(
        name="setup, JSON",
        read=setup_json,
        examples=(examples.SETTINGS_JSON, examples.OURS_JSON),
        words=('"hooks":', '"ralph":', '"Stop":'),
    ),
    Target(
        name="setup, TOML",
        read=setup_toml,
        examples=(examples.OURS_TOML,),
        words=("[mcp_servers.ralph]", "mcp_servers", " = "),
    ),
    Target(
        name="Claude Code",
        read=claude,
        examples=(examples.CLAUDE,),
        words=('"content":', '"usage":', '"type":', '"result"'),
    ),
    Target(
        name="Codex, Gemini, opencode",
        read=headless,
        examples=examples.HEADLESS,
        words=('"type":', '"message":', '"error":'),
    ),
    Target(
        name="JSON lines",
        read=json_lines,
        examples=(examples.CLAUDE, *examples.HEADLESS),
    ),
    Target(
        name="verification",
        read=review,
        examples=("Fine.\n<verify-pass/>\n", "<verify-fail>no</verify-fail>"),
    ),
    Target(
        name="hook",
        read=hook,
        examples=examples.HOOK_INPUTS,
        words=('"session_id":', '"cwd":', "--agent", "stop"),
    ),
    Target(
        name="MCP",
        read=mcp,
        examples=examples.MCP,
        words=('"id":', '"params":', '"method":', '"arguments":', "tools/call"),
    ),
)


def target(name: str) -> Target:
    """Give the target of this name."""
    return next(one for one in TARGETS if one.name == name)
