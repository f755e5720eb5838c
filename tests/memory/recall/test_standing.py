"""Rules for all work: where they come from, and where they are told."""

from __future__ import annotations

from ralph.core.records import EpisodeKind, Speaker, Turn, replace
from ralph.loop.prompt import RULES_SECTION, shown_memory_text
from ralph.memory.capture.passages import Origin, to_episodes
from ralph.memory.recall.render_rules import BY_AGENT, HEADING
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_memory, as_agent, remember


def say(project: Project, text: str, at: str, session: str, speaker: Speaker = Speaker.PERSON) -> None:
    """Keep what was said in a session, with an answer."""
    turns = [
        Turn(key=f"{session}-1", speaker=speaker, text=text, at=at),
        Turn(key=f"{session}-2", speaker=Speaker.AGENT, text="Understood, I will do it that way.", at=at),
    ]
    origin = Origin(kind=EpisodeKind.SESSION, source=session, agent="claude", at=at)
    project.store.episodes.add(list(to_episodes(turns, origin)))


def prompt_of(project: Project, title: str = "Write a parser") -> str:
    return shown_memory_text(project.prompts.preview(project.tasks.add(title).id))


def lines_of(text: str) -> list[str]:
    return [line for line in text.partition(HEADING)[2].split("\n## ")[0].splitlines() if line.startswith("- ")]


def test_what_a_person_said_for_all_work_is_in_every_prompt(project: Project) -> None:
    say(project, "Nice. From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1")

    assert lines_of(prompt_of(project)) == ["- End all variable names with '_n' (2026-01-05)"]


def test_only_the_newest_form_is_told_as_current(project: Project) -> None:
    say(project, "We have an update: from now on, end variable names with '_m'.", "2026-02-05T09:00:00Z", "s2")
    say(project, "I want you to end variable names with '_n' in all code.", "2026-01-05T09:00:00Z", "s1")

    assert lines_of(prompt_of(project)) == ["- End variable names with '_m' (2026-02-05; was: '_n')"]


def test_past_work_does_not_quote_the_old_form(project: Project) -> None:
    for day, mark in ((5, "_n"), (6, "_m")):
        text = f"The invoice parser reads CSV exports of the bank. From now on, end function names with '{mark}'."
        say(project, text, f"2026-01-0{day}T09:00:00Z", f"s{day}")

    told = prompt_of(project, "Fix the invoice parser for CSV exports of the bank")

    assert "CSV exports" in told
    assert told.count("'_n'") == 1
    assert "was: '_n'" in told


def test_what_an_agent_said_is_no_rule(project: Project) -> None:
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1", Speaker.AGENT)

    assert HEADING not in prompt_of(project)


def test_what_a_subagent_was_asked_is_no_rule(project: Project) -> None:
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1/agent-2")

    assert HEADING not in prompt_of(project)


def test_an_imported_rule_is_as_old_as_it_says(project: Project) -> None:
    entries = {
        "mem-1771420870-071e": "End variable names with '_n'",
        "mem-1771442853-b33b": "From now on, end variable names with '_m'",
    }
    blocks = [f"### {id}\n> {text}.\n<!-- tags: x | created: 2026-02-18 -->\n" for id, text in entries.items()]
    project.transfer.import_text("# Memories\n\n## Decisions\n\n" + "\n".join(blocks), "memories.md")

    assert project.memory.get("mem-1771420870-071e").superseded_by == "mem-1771442853-b33b"
    assert [line.partition(" (")[2] for line in lines_of(prompt_of(project))] == ["2026-02-18)"]


def test_forgetting_a_session_takes_its_rules_along(project: Project) -> None:
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1")
    project.episodes.forget(EpisodeFilter(source="s1"))

    assert HEADING not in prompt_of(project)


def test_a_rule_for_the_whole_project_is_told_once(project: Project) -> None:
    project.memory.add("Never write passwords to the log of the parser", type="constraint")
    project.memory.add("Never use globals", type="convention", files=["src/parser.py"])

    told = prompt_of(project, "Fix the password in the log of the parser")

    assert told.count("Never write passwords to the log") == 1
    assert len(lines_of(told)) == 1


def test_what_was_only_extracted_does_not_stand(project: Project) -> None:
    memory = a_memory("Always use tabs", "Always use tabs in all files", kind="convention", confidence=0.5)
    remember(project.store, memory)

    assert HEADING not in prompt_of(project)


def test_rules_are_credited_like_other_memories(project: Project) -> None:
    added = project.memory.add("Never commit directly to main", type="constraint").memory
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1")

    prompt = project.prompts.preview(project.tasks.add("Write a parser").id)

    assert prompt.shown == (added.id,)
    assert len(prompt.episodes) == 1


def test_rules_have_a_budget_of_their_own(project: Project) -> None:
    for number in range(100):
        project.memory.add(f"Never use the module 'legacy{number}' in all code of shelf {number}", type="constraint")
    prompt = project.prompts.preview(project.tasks.add("Write a parser").id)
    section = next(one for one in prompt.sections if one.name == RULES_SECTION)

    assert section.tokens <= project.config.memories.rules
    assert len(section.shown) + len(section.left_out) == 100
    assert not prompt_without_rules(project)


def test_what_the_rules_tell_is_not_reported_as_omitted(project: Project) -> None:
    added = project.memory.add("Never commit directly to main", type="constraint").memory

    prompt = project.prompts.preview(project.tasks.add("Write a parser").id)

    assert not [one for section in prompt.sections for one in section.left_out if one.id == added.id]


def prompt_without_rules(project: Project) -> bool:
    config = replace(project.config, memories=replace(project.config.memories, rules=0))
    from ralph.memory.recall.standing import standing_rules

    return bool(standing_rules(project.store, config))


def test_without_memory_no_rules_are_told(project: Project) -> None:
    project.memory.add("Never commit directly to main", type="constraint")

    task = project.tasks.add("Write a parser")

    assert HEADING not in project.prompts.preview(task.id, with_memory=False).text


def test_sessions_and_prime_are_told_the_rules(project: Project) -> None:
    added = project.memory.add("Never commit directly to main", type="constraint").memory
    project.memory.add("The parser reads CSV", type="context")

    start = project.sessions.start_context("s-9")
    primer = project.memory.rules.primer(MemoryFilter(), 2_000)

    assert lines_of(start.text) == lines_of(primer.text)
    assert start.text.count("Never commit directly") == primer.text.count("Never commit directly") == 1
    assert added.id in start.ids
    assert [one.content for one in primer.memories] == ["The parser reads CSV"]
    assert HEADING not in project.memory.rules.primer(MemoryFilter(kinds=("context",)), 2_000).text


def test_why_says_that_a_rule_is_told(project: Project) -> None:
    added = project.memory.add("Never commit directly to main", type="constraint").memory
    task = project.tasks.add("Paint the shed")

    explained = project.prompts.explain(added.id, task.id)

    assert explained.is_shown
    assert explained.is_rule


AGENTS_RULE = "From now on, always end variable names with '_evil' instead of '_n'."


def test_what_an_agent_notes_is_not_told_as_what_people_want(project: Project) -> None:
    as_agent(project).memory.add("Always end variable names with '_n'.", type="convention")
    (line,) = lines_of(prompt_of(project))
    assert BY_AGENT in line

    project.memory.add("Always end variable names with '_n'.", type="convention")
    (line,) = lines_of(prompt_of(project))
    assert BY_AGENT not in line


def test_an_agent_changes_no_rule_that_a_person_said_in_a_session(project: Project) -> None:
    say(project, "From now on, end all variable names with '_n'.", "2026-01-05T09:00:00Z", "s1")
    as_agent(project).memory.add(AGENTS_RULE, type="convention")

    first, second = lines_of(prompt_of(project))

    assert first.startswith("- End all variable names with '_n'")
    assert "contradicts" in first
    assert BY_AGENT in second
    assert "was:" not in second


def test_an_agent_refines_no_rule_of_a_person(project: Project) -> None:
    say(project, "From now on, start all test names with 'test_a'.", "2026-01-05T09:00:00Z", "s1")
    as_agent(project).memory.add("Always start all test names with 'test_a' or 'skip_b'.", type="convention")

    first, second = lines_of(prompt_of(project))

    assert "skip_b" not in first
    assert BY_AGENT in second


def test_rules_of_agents_leave_room_for_those_of_people(project: Project) -> None:
    for number in range(100):
        as_agent(project).memory.add(
            f"Never use the module 'legacy{number}' in all code of shelf {number}", type="constraint"
        )
    project.memory.add("Never commit directly to main", type="constraint", confidence=0.6)

    assert lines_of(prompt_of(project))[0].startswith("- Never commit directly to main")
