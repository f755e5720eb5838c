"""What `ralph memory` says of its scores: what each is made of, its place, and why something is not shown."""

from __future__ import annotations

import io
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.cli.memory_text import score_components
from ralph.core.records import MemoryState, RecalledMemory, timestamp
from ralph.core.text import find_paths
from ralph.memory.recall.candidates import MAX_CANDIDATES
from ralph.memory.recall.labels import SCORE_DESCRIPTIONS
from ralph.memory.recall.scored import EPISODE_WEIGHTS, WEIGHTS
from ralph.memory.recall.select import MAX_SHOWN
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from tests.cli.ran import Ralph, Ran, run
from tests.cli.terminal import at_terminal
from tests.make import a_memory, set_up_project

TEXTS = (
    "The parser wants tabs in `src/parser.py`, never blanks",
    "The parser reads bytes: see `src/parser.py` and `src/bytes.py`",
    "Tests of the parser live in `tests/test_parser.py`",
    "Docker has to run before the integration tests",
    "Bananas are yellow when they are ripe",
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "here"
    directory.mkdir()
    set_up_project(directory)
    return directory


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    """Run one `ralph memory` command in the project, with something on standard input."""

    def memory(*words: str, given: bytes = b"") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        return run(capsys, here, "memory", *words)

    return memory


def learned(here: Path, *texts: str, **fields: object) -> list[str]:
    """Keep memories, each learned on a day of its own; give their ids."""
    with Project.open(here) as project:
        first = len(project.memory.list(MemoryFilter(states=tuple(MemoryState))))
        made = [
            a_memory(
                text.split(":")[0],
                text,
                id=f"mem-1-{n:04}",
                kind="fix",
                files=find_paths(text),
                confidence=0.6,
                created_at=timestamp(time.time() - (400 - n) * 86_400),
                **fields,
            )
            for n, text in enumerate(texts, first)
        ]
        project.store.memories.insert_all_unchecked(made, ChangeInfo(who="test", why=""))
        return [memory.id for memory in made]


@pytest.fixture
def ids(here: Path) -> list[str]:
    """Return the ids of some memories, in the order of `TEXTS`."""
    return [*learned(here, TEXTS[0], tags=("parser",)), *learned(here, *TEXTS[1:])]


def a_task(here: Path, title: str, body: str = "") -> str:
    with Project.open(here) as project:
        return project.tasks.add(title, body).id


def settings(here: Path, text: str) -> None:
    (here / ".ralph.toml").write_text(text)


def in_prompt(here: Path, task: str) -> tuple[str, ...]:
    with Project.open(here) as project:
        return project.prompts.preview(task).shown


def whys(ralph: Ralph, ids: list[str], task: str) -> list[dict[str, Any]]:
    return [ralph("why", id, "--task", task, "--format", "json").json for id in ids]


# --- what a score is made of -----------------------------------------------------------------


def test_a_search_explains_the_place_and_the_score_of_each(ralph: Ralph, ids: list[str]) -> None:
    ran = ralph("search", "parser", "tabs", "--explain")

    rows = re.findall(r"^(\d)  +(\d\.\d\d)  +\d+%  (mem-\S+)  .*\n((?: {3}\S.*\n)+)", ran.out, re.MULTILINE)
    assert [int(place) for place, *_ in rows] == list(range(1, len(rows) + 1))
    assert rows[0][2] == ids[0]
    for _, score, _, parts in rows:
        assert sum(map(float, re.findall(r"[a-z] (-?\d\.\d\d)", parts))) == pytest.approx(float(score))
    assert "\nwords       contains query words, weighted by rarity\n" in ran.out
    assert "\nfailure " not in ran.out


def test_programs_get_every_share_in_full(ralph: Ralph, ids: list[str]) -> None:
    found = ralph("search", "parser", "tabs", "--format", "json").json

    assert found[0]["id"] == ids[0]
    assert [one["rank"] for one in found] == list(range(1, len(found) + 1))
    for one in found:
        assert sum(one["because"].values()) == pytest.approx(one["score"], abs=1e-9)
        assert one["because"].keys() <= WEIGHTS.keys()
        assert (one["shown"], one["reason"]) == (None, None)


def test_the_published_formulas_are_explained_as_well(ralph: Ralph, ids: list[str]) -> None:
    ran = ralph("search", "docker", "--ranker", "weighted", "--explain")

    assert "confidence 0.24" in ran.out
    assert ran.out.count("mem-") == len(ids)


def test_what_merely_holds_the_text_has_no_score(ralph: Ralph, ids: list[str]) -> None:
    ran = ralph("search", "anana", "--explain")

    assert re.search(rf"^1   0\.00  +{ids[4]}  Bananas .*\n   text 0\.00\n", ran.out, re.MULTILINE)
    assert "contains the exact text of the query" in ran.out


def test_what_is_merely_next_to_a_match_is_not_found(here: Path, ralph: Ralph) -> None:
    _, parser, _ = learned(here, "Yellow bananas", "The parser", "Blue plums")

    assert [one["id"] for one in ralph("search", "parser", "--format", "json").json] == [parser]


def test_each_share_has_a_meaning_that_fits_beside_it() -> None:
    assert SCORE_DESCRIPTIONS.keys() == WEIGHTS.keys() | EPISODE_WEIGHTS.keys() | {"text"}
    assert max(map(len, SCORE_DESCRIPTIONS.values())) <= 45


@given(st.lists(st.floats(-1, 3).map(lambda share: share * 0.37), max_size=18))
def test_rounded_shares_add_up_to_the_rounded_score(parts: list[float]) -> None:
    because = tuple((f"s{n}", share) for n, share in enumerate(parts))
    one = RecalledMemory(memory=a_memory("m"), score=math.fsum(parts), because=because)

    rounded = score_components(one)

    assert sum(round(100 * float(share)) for _, share in rounded) == round(100 * one.score)
    for name, share in rounded:
        assert abs(float(share) - dict(because)[name]) < 0.0101


# --- why, for a task -------------------------------------------------------------------------


def test_why_tells_score_place_and_shares(here: Path, ralph: Ralph, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser: tabs")

    ran = ralph("why", ids[0], "--task", task, "--explain")
    told = ralph("why", ids[0], "--task", task, "--format", "json").json

    heading, answer, estimate, score, *rows = ran.out.splitlines()
    assert heading.startswith(f"{ids[0]}  fix  active  ")
    assert estimate == f"  {told['relevance']:.0%} likely to be relevant to {task}: {told['evidence']}."
    assert score == f"  Score for {task}: {told['score']:.2f}, rank 1 of {told['ranked']}"
    shares = [float(re.search(r" (-?\d+\.\d\d) ", row)[1]) for row in rows]  # type: ignore[index]
    assert sum(shares) == pytest.approx(round(told["score"], 2))
    assert rows[0].split(maxsplit=3) == [
        "words",
        f"{told['because']['words']:.2f}",
        "█" * 10,
        SCORE_DESCRIPTIONS["words"],
    ]
    assert answer == f"  In the next prompt of {task}."
    assert ralph("why", ids[0], "--task", task).out.splitlines() == [heading, answer, estimate]
    assert (told["id"], told["memory"]["id"], told["task_id"]) == (ids[0], ids[0], task)
    assert (told["rank"], told["shown"], told["is_shown"], told["reason"]) == (1, True, True, "")
    assert sum(told["because"].values()) == pytest.approx(told["score"], abs=1e-9)
    assert ralph("why", ids[0], "--task", "t-nobody").code == 1


def test_why_tells_what_the_prompt_does(here: Path, ralph: Ralph, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser", "Look at `src/bytes.py` first.")

    told = whys(ralph, ids, task)

    assert {one["id"] for one in told if one["shown"]} == set(in_prompt(here, task))
    assert all(one["shown"] != bool(one["reason"]) for one in told)
    ranked = sorted((one for one in told if one["rank"]), key=lambda one: one["rank"])
    assert [one["score"] for one in ranked] == sorted((one["score"] for one in ranked), reverse=True)


def test_a_place_is_the_one_in_the_whole_ranking(here: Path, ralph: Ralph) -> None:
    text = "The parser wants tabs because blanks are for people who like to count"
    alike = [text, f"{text}, they say", f"As they say: {text[0].lower()}{text[1:]}"]
    *same, other = learned(
        here, *alike, "Trailing tabs and blanks: the parser reports every one of them in a warning that CI counts"
    )
    task = a_task(here, "Parser: tabs and blanks, because people count")

    told = sorted(whys(ralph, [*same, other], task), key=lambda one: one["rank"])

    assert [one["rank"] for one in told] == [1, 2, 3, 4]
    assert [one["shown"] for one in told] == [True, False, False, True]
    assert "rank 4 of 4" in ralph("why", other, "--task", task, "--explain").out


def test_why_not_is_answered_in_every_case(here: Path, ralph: Ralph, ids: list[str]) -> None:
    twin, gone = learned(here, TEXTS[3].replace("Docker", "Our docker"), "The docker of old")
    ralph("delete", gone, "--why", "it is no more")
    task = a_task(here, "Start docker before the integration tests run")

    def why(id: str) -> str:
        return str(ralph("why", id, "--task", task, "--format", "json").json["reason"])

    original, same = sorted((ids[3], twin), key=why)
    assert why(original) == ""
    assert why(same) == f"near-duplicate of {original}"
    assert why(gone) == "is pruned: it is no more"
    assert re.fullmatch(r"has only everyday words .*|is hardly relevant: in common .* likely, .* needed\)", why(ids[2]))
    assert why(ids[0]) == "has no distinctive word in common with the task"
    assert (
        f"  Not in the next prompt of {task}: it is pruned: it is no more.\n" in ralph("why", gone, "--task", task).out
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("enabled = false", "the settings put no memories into prompts (memories.enabled = false)"),
        ('inject = "manual"', "the settings put no memories into prompts (memories.inject = manual)"),
        ('filter.types = ["decision"]', "the settings allow only some types (memories.filter.types = decision)"),
        ('filter.tags = ["money"]', "has none of the configured tags"),
        ("budget = 40", "no room left in 40 tokens"),
        ("filter.recent = 3650", ""),
    ],
)
def test_what_the_settings_leave_out_is_told(here: Path, ralph: Ralph, ids: list[str], text: str, reason: str) -> None:
    task = a_task(here, "Mend the parser: tabs")
    settings(here, f"[memories]\n{text}\n")

    told = ralph("why", ids[0], "--task", task, "--format", "json").json

    assert (told["reason"], told["shown"]) == (reason, not reason)
    assert (ids[0] in in_prompt(here, task)) is told["shown"]


def test_what_is_too_old_for_the_settings_is_told(here: Path, ralph: Ralph) -> None:
    [old] = learned(here, "The parser wants tabs")
    task = a_task(here, "Mend the parser: tabs")
    settings(here, "[memories]\nfilter.recent = 30\n")

    told = ralph("why", old, "--task", task, "--format", "json").json

    assert told["reason"] == "the settings allow only recent ones (memories.filter.recent = 30)"
    assert told["score"] is told["rank"] is None


def test_what_comes_after_the_best_is_told(here: Path, ralph: Ralph) -> None:
    made = learned(here, *[f"Word{n}x: the parser knows word{n}x and tabs" for n in range(2 * MAX_CANDIDATES)])
    task = a_task(here, "Tabs: parser")

    told = sorted(
        whys(ralph, [made[0], made[-1], made[-MAX_SHOWN - 1]], task), key=lambda one: one["rank"] or sys.maxsize
    )

    assert [one["reason"] for one in told] == [
        "",
        f"not among the top {MAX_SHOWN}",
        f"not among the {MAX_CANDIDATES} that have the most words in common with the task",
    ]


# --- a search for a task ---------------------------------------------------------------------


def test_a_search_for_a_task_says_what_its_prompt_does_not_show(here: Path, ralph: Ralph, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser: tabs")

    ran = ralph("search", "bananas", "--task", task, "--explain")
    told = {one["id"]: one for one in ralph("search", "bananas", "--task", task, "--format", "json").json}

    assert told[ids[0]]["shown"] is True
    assert told[ids[4]]["shown"] is False
    assert f"   not in the prompt of {task}: {told[ids[4]]['reason']}\n" in ran.out
    assert ran.out.count("not in the prompt of") == sum(not one["shown"] for one in told.values())


def test_a_task_is_query_enough(here: Path, ralph: Ralph, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser: tabs")

    assert ralph("search", "--task", task, "--format", "json").json[0]["id"] == ids[0]
    assert ralph("search", "--task", "t-nobody").code == 1


# --- prime for something ---------------------------------------------------------------------


def test_prime_gives_a_task_what_its_prompt_would(here: Path, ralph: Ralph, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser: tabs")

    primed = ralph("prime", "--task", task, "--format", "json").json

    assert tuple(one["id"] for one in primed) == in_prompt(here, task)
    assert ids[0] in ralph("prime", "--task", task).out
    assert ids[4] not in ralph("prime", "--task", task).out
    assert ralph("prime", "--task", "t-nobody").code == 1


def test_prime_for_a_text_goes_by_the_text(ralph: Ralph, ids: list[str]) -> None:
    said = ralph("prime", "--for", "why is the banana not yellow")
    piped = ralph("prime", "--for", "-", given=b"ripe\x00 bananas\xff\n")

    assert re.findall(r"^### (.*)", said.out, re.MULTILINE) == [ids[4]]
    assert re.findall(r"^### (.*)", piped.out, re.MULTILINE) == [ids[4]]


@pytest.mark.parametrize("text", ["zebras and giraffes", "", "the", "%", "\u200b"])
def test_prime_for_what_nobody_knows_of_is_nothing(ralph: Ralph, ids: list[str], text: str) -> None:
    assert ids
    plain, table, programs = (
        ralph("prime", "--for", text, *form) for form in ((), ("--format", "table"), ("--format", "json"))
    )

    assert (plain.code, plain.out, plain.err) == (0, "", "")
    assert table.out == "No memory is relevant enough.\n"
    assert programs.json == []


def test_prime_for_something_keeps_to_budget_types_and_tags(here: Path, ralph: Ralph, ids: list[str]) -> None:
    def primed(*options: str) -> list[str]:
        return [one["id"] for one in ralph("prime", "--for", "the parser", *options, "--format", "json").json]

    every = primed()
    budget = len(ralph("prime", "--for", "the parser").out) // 4 - 1

    assert len(every) == 3
    assert primed("--budget", str(budget)) == every[: len(primed("--budget", str(budget)))] != every
    assert len(ralph("prime", "--for", "the parser", "--budget", str(budget)).out) <= 4 * budget
    assert primed("--budget", "1") == []
    assert primed("--tags", "parser") == [ids[0]]
    assert primed("--type", "decision") == []
    settings(here, '[memories]\nfilter.tags = ["parser"]\n')
    assert primed() == [ids[0]]
    assert len(primed("--tags", "parser,none")) == 1


def test_prime_as_a_table_lists_what_it_tells(ralph: Ralph, ids: list[str]) -> None:
    ran = ralph("prime", "--for", "bananas", "--format", "table")

    assert ran.out.splitlines()[0].split()[0] == "ID"
    assert ids[4] in ran.out


# --- in a terminal of 80 columns -------------------------------------------------------------


def test_scores_fit_80_columns(here: Path, ids: list[str]) -> None:
    task = a_task(here, "Mend the parser: tabs and docker, before the integration tests")

    for words in (
        ("search", "parser", "docker", "--task", task, "--explain"),
        ("search", "parser"),
        ("why", ids[0], "--task", task),
        ("why", ids[4], "--task", task),
    ):
        code, seen = at_terminal(here, "memory", *words, environment={"NO_COLOR": "1"})
        assert code == 0, seen
        assert max(map(len, seen.splitlines())) <= 80, seen


def test_a_narrow_search_shows_the_beginning_of_memories(here: Path, ids: list[str]) -> None:
    _, seen = at_terminal(here, "memory", "search", "parser", environment={"NO_COLOR": "1"})

    assert f"\n{ids[0]}  fix   0.10  " in seen
    assert "The parser wants tabs" in seen
