"""Commands in README and docs do what the pages say: each is run here, or has a reason why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ralph.core.records import replace
from ralph.formats.memories_json import write_memories_json
from tests.docs.pages import (
    ANOTHER_PROJECT,
    ID,
    NOT_RUN,
    ROOT,
    Ended,
    blocks,
    matches,
    reader,
    reason_not_to_run,
    run_page,
    with_output,
)
from tests.docs.samples import AT, a_shop, put_foreign_files, turns
from tests.make import a_memory

pytestmark = [pytest.mark.storeless, pytest.mark.sqlite]

GENERATED = ("docs/cli.md", "docs/http.md")
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
TRANSCRIPTS = ("README.md", "docs/first-memory.md", "docs/first-night.md", "docs/own-agent.md", "docs/migrating.md")
"""Pages whose output is compared as well; they start in an empty directory, or in one with what they need."""

AGENT = {"RALPH_AGENT_NAME": "claude"}


def commands(page: str) -> list[str]:
    """Return the commands of a page that are run."""
    return [
        command
        for block in blocks((ROOT / page).read_text(encoding="utf-8"))
        for command in block.commands
        if not reason_not_to_run(block, command)
    ]


RUN = [page for page in PAGES if page not in (*GENERATED, "CHANGELOG.md") and commands(page)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reader")
    return reader(folder / "home", folder / "bin")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """A project in which things have happened, and what ids in pages stand for there."""
    directory = tmp_path_factory.mktemp("prepared") / "shop"
    a_shop(directory, test="assertEqual(pricing.total([(250, 2)]), 500)")
    memories = [
        replace(
            a_memory("Login sessions end after an hour", "Renew them in auth.py.", kind="pitfall", tags=("login",)),
            id="mem-1794784021-3f1c",
        ),
        replace(
            a_memory("Release on Fridays", "Release notes come first.", kind="convention"), id="mem-1794784021-aa01"
        ),
    ]
    (directory.parent / "memories.json").write_text(write_memories_json(memories, "shop", AT), encoding="utf-8")
    session = json.dumps({"session_id": "0193f2aa", "cwd": str(directory), "source": "startup"})
    prompt = json.dumps({"session_id": "0193f2aa", "cwd": str(directory), "prompt": "Why does the parser drop a tab?"})
    transcript = directory.parent / "0193f2aa.jsonl"
    transcript.write_text("".join(f"{json.dumps(one)}\n" for one in turns(directory)), encoding="utf-8")
    said = json.dumps(
        {"session_id": "0193f2aa", "cwd": str(directory), "last_assistant_message": "The rate limit window is an hour."}
    )
    script = f"""
        set -e
        ralph init && ralph memory import ../memories.json && ralph import git && ralph import ../0193f2aa.jsonl
        echo '{session}' | ralph hook session-start
        echo '{prompt}' | ralph hook user-prompt-submit
        echo '{said}' | ralph hook stop
        ralph task add "Rewrite the login session" --id t-3f9a01
        ralph task add "Round prices" --id t-4f0c2b
        ralph task add "Speed up the checkout" --id t-4f2a1c
        ralph run --task t-4f0c2b || true
        ralph run --task t-4f2a1c --gate "make test" || true
        ralph memory search --episodes orders --format json
        ralph backup
    """
    done = subprocess.run(
        ["bash", "-c", script], cwd=directory, env=environment | AGENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [one for one in ID.findall(done.stdout) if one.startswith("run-")]
    episodes = [one for one in ID.findall(done.stdout) if one.startswith("ep-")]
    return directory, {"run-5a0f21c4": found[-1], "ep-3f1c09a2b7d41e55": episodes[0]}


@pytest.mark.parametrize(
    "page", [pytest.param(one, marks=[] if one == "README.md" else pytest.mark.slow) for one in RUN]
)
def test_commands_of_a_page_work(
    page: str,
    tmp_path: Path,
    environment: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    ids: dict[str, str] = {}
    ended: list[Ended] = []
    for number, part in enumerate(text.split(ANOTHER_PROJECT)):
        directory = tmp_path / str(number) / "shop"
        if page not in TRANSCRIPTS:
            environment = environment | AGENT
            source, ids = request.getfixturevalue("prepared")
            shutil.copytree(source, directory, symlinks=True)
        else:
            start_with(page, directory, Path(environment["HOME"]))
        ended += run_page(part, directory, environment, ids)

    assert [f"{one.command}: exits with {one.code}: {one.output}" for one in ended if not is_fine(one)] == []
    if page in TRANSCRIPTS:
        compare(page, text, ended)


def start_with(page: str, directory: Path, home: Path) -> None:
    """Make the directory that a page begins in."""
    directory.mkdir(parents=True)
    shutil.rmtree(home / "shop", ignore_errors=True)
    if page == "README.md":
        a_shop(directory)
    if page == "docs/migrating.md":
        put_foreign_files(directory, home)


def is_fine(one: Ended) -> bool:
    """Return whether a command worked; a run that leaves tasks for a person has."""
    return one.code == 0 or (
        one.code == 1 and one.command.startswith("ralph run") and "wait for a person" in one.output
    )


def compare(page: str, text: str, ended: list[Ended]) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        (ROOT / page).write_text(with_output(text, ended), encoding="utf-8")
        return
    different = [f"$ {one.command}\n{one.output}" for one in ended if not matches(one.shown, one.output)]
    assert different == [], "run with UPDATE_GOLDEN=1 and read the diff"


def test_reasons_not_to_run_name_tests_that_exist() -> None:
    shown = [block.reason for page in PAGES for block in blocks((ROOT / page).read_text(encoding="utf-8"))]
    named = re.findall(r"tests/[\w/.]+\w", " ".join([*NOT_RUN.values(), *shown]))

    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_commands_are_found_in_all_kinds_of_blocks() -> None:
    page = "```console\n$ ralph a\nsaid\n$ ralph b \\\n> c\n```\n\n    ralph d\n    text\n\n```sh\nralph e\n```\n"

    assert [command for block in blocks(page) for command in block.commands] == [
        "ralph a",
        "ralph b \\\nc",
        "ralph d",
        "ralph e",
    ]
