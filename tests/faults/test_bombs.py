"""Input that unfolds to something huge, or holds what nobody means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.cli import main
from ralph.cli.output import read_input_text
from ralph.core.errors import UsageError
from ralph.formats.sources import MAX_LINE_CHARS, SourceFile
from ralph.project import Project
from tests.faults import bombs
from tests.faults.links import make_clone

pytestmark = pytest.mark.sqlite


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_clone(tmp_path / "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def test_no_bomb_harms_any_reader(tmp_path: Path) -> None:
    shown = bombs.run(tmp_path, 24, 2)

    assert shown.lost == 0
    assert shown.tried == 24


def test_every_reader_gets_every_bomb() -> None:
    found = bombs.cases()

    assert len(found) > 500
    assert {case.reader for case in found} == set(bombs.READERS)
    assert {case.bomb for case in found} >= {*bombs.WHOLES, *bombs.VALUES}


def test_a_reader_that_takes_too_much_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bombs, "_ask", lambda words, path, clone: len(bytearray(300 * 1024 * 1024)) * 0)
    make_clone(tmp_path / "pattern")

    wrong, _, megabytes = bombs.tried(bombs.cases()[0], tmp_path)

    assert megabytes > 200
    assert wrong == [f"{megabytes:.0f} MB"]


@pytest.mark.parametrize("bomb", ["headings", "a line of 50 MB"])
def test_a_file_of_memories_that_is_a_bomb_takes_neither_time_nor_memory(tmp_path: Path, bomb: str) -> None:
    make_clone(tmp_path / "pattern")

    wrong, _, _ = bombs.tried(bombs.Case(reader="memories.md", bomb=bomb, is_whole=True), tmp_path)

    assert wrong == []


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(words)
    told = capsys.readouterr()
    return code, told.out + told.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"---\ntitle: t\ntags: [x]\n{bombs.LAUGHS}---\n\nText.\n", "an alias (&name or *name), which is not allowed"),
        (f"---\ntitle: t\ntags: {'[' * 2000}\n---\n\nText.\n", "its front matter has more than 1,000 brackets"),
        ("---\ntitle: !!python/object/apply:os.system ['touch pwned']\ntags: [x]\n---\n\nText.\n", "is not valid YAML"),
    ],
    ids=["aliases", "brackets", "tags"],
)
def test_front_matter_that_is_a_bomb_is_named_and_left_alone(project: Project, text: str, why: str) -> None:
    path = project.root / ".ralph" / "knowledge" / "bomb.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)

    project.files.sync()

    assert len(project.files.problems) == 1
    assert project.files.problems[0].startswith("Skipped .ralph/knowledge/bomb.md: ")
    assert why in project.files.problems[0]
    assert list(project.store.memories.all()) == []
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("ralph.yml", "memories: " + "[" * 5000, "recursion"),
        (".ralph.toml", "[memories]\nbudget = " + "9" * 50_000 + "\n", "Exceeds the limit"),
        (".ralph.toml", "[memories]\nbudget = " + "[" * 50_000 + "\n", "nested too deeply"),
        (".ralph.toml", "a." * 10_000 + "b = 1\n", "line 1 has more than 300 dots"),
        ("ralph.yml", f"memories: {bombs.VALUES['many small things']}\n", "at most 64 KB"),
    ],
    ids=["brackets", "digits", "lists", "dots", "many"],
)
def test_settings_that_are_a_bomb_are_refused_by_name(
    clone: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, why: str
) -> None:
    (clone / name).write_text(text)

    code, told = said(capsys, "status")

    assert code == 2
    assert told.startswith(f"Error: Cannot read {name}: ")
    assert why in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("codex", ".codex/config.toml", "a." * 10_000 + "b = 1\n"),
        ("codex", ".codex/config.toml", f"x = {bombs.VALUES['many small things']}\n"),
        ("codex", ".codex/config.toml", f"[mcp_servers{'.s' * 150}]\n"),
        ("codex", ".codex/config.toml", f"x = {'[' * 150}{']' * 150}\n"),
        ("claude", ".mcp.json", f'{{"mcpServers": {{}}, "x": {bombs.VALUES["many small things"]}}}'),
    ],
    ids=["dots", "many", "tables", "lists", "many-json"],
)
def test_settings_of_an_agent_that_are_a_bomb_are_left_alone(
    clone: Path, capsys: pytest.CaptureFixture[str], agent: str, name: str, text: str
) -> None:
    (clone / name).parent.mkdir(exist_ok=True)
    (clone / name).write_text(text)

    code, told = said(capsys, "setup", agent)

    assert code == 2
    assert told.startswith("Error: ")
    assert name in told
    assert told.endswith("Nothing was changed.\n")
    assert told.count("\n") == 1
    assert (clone / name).read_text() == text


def test_a_file_that_is_too_large_to_import_is_refused_before_it_is_read(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("memories.json", "tasks.jsonl"):
        with (clone / name).open("wb") as file:
            file.truncate(bombs.SPARSE)

    for words in (("memory", "import", "memories.json"), ("task", "import", "tasks.jsonl")):
        code, told = said(capsys, *words)
        assert code == 2
        assert told.startswith(f"Error: {words[-1]} is larger than 64 MB.")


def test_what_never_ends_is_refused_too() -> None:
    with pytest.raises(UsageError, match="/dev/zero is larger than 64 MB"):
        read_input_text("/dev/zero")
    with pytest.raises(UsageError, match="zero is larger than 64 MB"):
        SourceFile(name="zero", path=Path("/dev/zero")).text()


def test_text_is_read_with_the_line_ends_of_here(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\rc\n")

    assert read_input_text(os.fspath(tmp_path / "file")) == "a\nb\nc\n"


def test_a_line_of_a_bundle_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bundle.jsonl"
    path.write_bytes(b"first\n" + b"x" * MAX_LINE_CHARS + b"x\n")

    lines = SourceFile(name="bundle.jsonl", path=path).lines()

    assert next(lines) == "first\n"
    with pytest.raises(UsageError, match=r"bundle\.jsonl has a line with more than 16,777,216 characters"):
        next(lines)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "9" * 100_000])
def test_a_number_that_is_none_brings_no_memory_in_part(
    clone: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    (clone / "memories.json").write_text(bombs.READERS["JSON"].right.replace(bombs.PLACE, value))

    code, told = said(capsys, "memory", "import", "memories.json")

    with Project.open(clone) as project:
        found = {one.content: one.confidence for one in project.store.memories.all()}
    assert "memories.json" in told
    assert code in (0, 1, 2)
    assert all(0 <= confidence <= 1 for confidence in found.values())
