"""What the HTTP door can do, the command line can: the same failures, one change taken back, one rule of search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ralph.core.records import AttemptOutcome
from ralph.project import Project
from ralph.workspace import init_project
from tests.cli.ran import Ralph, run
from tests.make import a_report, begin, finish


@pytest.fixture
def here(tmp_path: Path) -> Path:
    init_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def fail(here: Path, *fingerprints: str) -> None:
    with Project.open(here) as project:
        project.tasks.add("Try and try")
        run_id = project.store.runs.start("test").id
        for number, fingerprint in enumerate(fingerprints):
            task, attempt = begin(project.store, run_id)
            report = a_report(attempt, f"It broke, {number}.", fingerprint=fingerprint, category="test_failure")
            finish(
                project.store, task, attempt, AttemptOutcome.FAILED, report=report, notes=f"Looked at part {number}."
            )


def test_failures_that_are_the_same_are_counted_and_listed(here: Path, ralph: Ralph) -> None:
    fail(here, "aaaa", "bbbb", "aaaa")

    counted = ralph("failures", "stats", "--by", "fingerprint").out
    told = json.loads(ralph("failures", "stats", "--by", "fingerprint", "--format", "json").out)
    listed = ralph("failures", "list", "--fingerprint", "aaaa").out

    assert [line.split()[:3] for line in counted.splitlines()[1:]] == [["aaaa", "2", "1"], ["bbbb", "1", "1"]]
    assert [(one["fingerprint"], one["failures"]) for one in told] == [("aaaa", 2), ("bbbb", 1)]
    assert "It broke, 2." in listed
    assert "It broke, 1." not in listed
    assert ralph("failures", "list", "--fingerprint", "cccc", "--format", "json").json == []
    assert "test_failure" in ralph("failures", "stats").out


def test_without_a_failure_there_is_nothing_the_same(ralph: Ralph) -> None:
    assert "No failures recorded." in ralph("failures", "stats", "--by", "fingerprint").out


def test_exactly_one_event_is_taken_back_by_command(here: Path, ralph: Ralph) -> None:
    id = ralph("memory", "add", "Use tabs.", "--format", "quiet").out.strip()
    ralph("memory", "edit", id, "--content", "Use spaces.")
    ralph("memory", "edit", id, "--tags", "style")
    with Project.open(here) as project:
        first, second = (event.seq for event in project.memory.history(id)[1:])

    refused = ralph("memory", "undo", id, "--only", str(first))
    assert (refused.code, "changed again" in refused.err) == (1, True)
    assert ralph("memory", "undo", id, "--only", str(second)).code == 0
    assert ralph("memory", "undo", id, "--only", str(first)).code == 0
    assert "Use tabs" in ralph("memory", "show", id).out
    assert ralph("memory", "undo", id, "--only", "1", "--to", "1").code == 2


def test_a_search_of_the_journal_finds_what_the_server_finds(here: Path, ralph: Ralph) -> None:
    fail(here, "aaaa", "bbbb")

    found = json.loads(ralph("journal", "search", "part", "--last", "1", "--format", "json").out)
    with Project.open(here) as project:
        expected = project.journal.search("part", 1)

    assert [(one["run_id"], one["iteration"]) for one in found] == [
        (one.attempt.run_id, one.attempt.iteration) for one in expected if one.attempt
    ]
    listed = json.loads(ralph("journal", "list", "--format", "json").out)
    assert [one["iteration"] for one in listed] == [1, 2]


def test_the_status_counts_what_it_does_not_list(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        tasks = [project.tasks.add(f"Task {number}") for number in range(14)]
        for task in tasks[7:]:
            project.tasks.block(task.id, "a person must look")

    said = ralph("status").out

    assert said.count("and 2 more") == 2
    assert "Next      " in said
    assert len(json.loads(ralph("status", "--format", "json").out)["ready"]) == 7
