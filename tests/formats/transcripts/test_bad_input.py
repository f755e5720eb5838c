"""Transcripts that are broken, huge, strange or elsewhere: the rest is read, and what is skipped is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.formats.transcripts.base import Transcript, TranscriptProblem
from ralph.formats.transcripts.claude import READER, _slug_prefix
from ralph.formats.transcripts.lines import MAX_LINE_BYTES, MAX_REPORTED_LINES
from tests.formats.transcripts.make import Claude, Codex, Gemini, find, json_lines, read, write

pytestmark = pytest.mark.storeless


def path_of(home: Path, name: str = "s1.jsonl") -> Path:
    return home / ".claude" / "projects" / _slug_prefix(str(home.resolve())) / name


def transcript(path: Path) -> Transcript:
    return Transcript(agent="claude", session="s", path=str(path.resolve()), directory=str(path.parent))


def test_broken_lines_are_reported_and_the_others_read(tmp_path: Path) -> None:
    claude = Claude(tmp_path)
    first, last = json_lines(claude.user("First.")), json_lines(claude.user("Last."))
    broken = '{"type":"user","message":{"content":"Cut of}\n'
    binary = bytes(range(256)).replace(b"\n", b"") + b"\n"

    result = read(transcript(write(tmp_path / "s.jsonl", first, broken, "noise\n", "\n", binary, "[1]\n", last)))

    assert result.texts == ["First.", "Last."]
    starts = [len(first)]
    for skipped in (broken, "noise\n\n", binary):
        starts.append(starts[-1] + len(skipped))
    assert [problem.offset for problem in result.problems] == starts
    assert all("\n" not in problem.reason for problem in result.problems)


def test_text_that_is_not_utf8_is_kept_as_far_as_it_is(tmp_path: Path) -> None:
    line = json_lines(Claude(tmp_path).user("Gr\u00fc\u00dfe PLACE")).encode().replace(b"PLACE", b"\xff\x00\x01 here")

    result = read(transcript(write(tmp_path / "s.jsonl", line)))

    assert result.texts == ["Grüße \ufffd here"]


def test_many_broken_lines_are_counted(tmp_path: Path) -> None:
    result = read(transcript(write(tmp_path / "s.jsonl", "noise\n" * 1_000, Claude(tmp_path).user("Last."))))

    assert result.texts == ["Last."]
    assert len(result.problems) == MAX_REPORTED_LINES + 1
    assert str(1_000 - MAX_REPORTED_LINES) in result.problems[-1].reason


def test_clocks_out_of_order_change_nothing(tmp_path: Path) -> None:
    claude = Claude(tmp_path)
    times = ("2026-11-17T06:00:00.000Z", "2020-01-01T00:00:00.000Z", "tomorrow", None, "0000-01-01T00:00:00Z")

    result = read(transcript(write(tmp_path / "s.jsonl", *(claude.user(str(at), timestamp=at) for at in times))))

    assert result.texts == [str(at) for at in times]
    assert [turn.at for turn in result.turns] == [*times[:2], "", "", ""]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_any_value_anywhere_breaks_nothing(tmp_path: Path, agent: str) -> None:
    claude, codex, gemini = Claude(tmp_path), Codex(tmp_path), Gemini()
    entries = {
        "claude": [claude.user("x"), claude.calls("Edit", file_path="a"), claude.result("x", is_error=True)],
        "gemini": [gemini.header(), gemini.user("x"), gemini.says("x", gemini.ran("x", "1")), {"$rewindTo": "m"}],
        "codex": [codex.meta(), codex.message("user", "x"), codex.runs("x"), codex.output(1, "x")],
    }[agent]
    strange: list[object] = [
        None,
        5,
        "x",
        [],
        {},
        [[None]],
        [{"type": []}],
        {"content": [5]},
        "\ud800",
        "a\x00b",
        1e308,
    ]
    slug = write(tmp_path / ".gemini" / "tmp" / "p" / ".project_root", str(tmp_path)).parent
    places = {
        "gemini": slug / "chats" / "session-1.jsonl",
        "claude": path_of(tmp_path),
        "codex": tmp_path / ".codex/sessions/2026/11/17/r.jsonl",
    }
    changed = [
        variant
        for entry in entries
        for key in entry
        for value in strange
        for variant in ({**entry, key: value}, {**entry, "message": {key: value}}, {**entry, "payload": {key: value}})
    ]
    for entry in entries[1:]:
        name = next((one for one in ("payload", "message") if one in entry), "")
        inner = entry.get(name, {})
        assert isinstance(inner, dict)
        changed += [{**entry, name: {**inner, key: value}} for key in inner for value in strange]

    import json

    write(places[agent], entries[0], "".join(json.dumps(entry) + "\n" for entry in changed))
    result = find(agent, tmp_path, [tmp_path])

    assert result.transcripts
    for turn in result.turns:
        (turn.key + turn.text + turn.branch + turn.at + "".join(turn.files)).encode()
        assert "\0" not in turn.text + turn.key


# --- size -----------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    claude = Claude(tmp_path)
    long, many = claude.user("x" * MAX_LINE_BYTES), claude.user("x", values=[1] * 600_000)

    result = read(transcript(write(tmp_path / "s.jsonl", claude.user("First."), long, many, claude.user("Last."))))

    assert result.texts == ["First.", "Last."]
    assert len(result.problems) == 2


def test_a_sparse_file_of_two_gigabytes_is_skipped(tmp_path: Path) -> None:
    path = write(path_of(tmp_path), Claude(tmp_path).user("First."))
    os.truncate(path, 2 * 1024**3)

    result = find("claude", tmp_path, [tmp_path])

    assert result.texts == ["First."]
    assert len(result.problems) == 1


_MEASURE = """
import sys
from pathlib import Path
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import Transcript, TranscriptProblem
transcript = Transcript(agent="claude", session="s", path=sys.argv[1], directory="/p")
count = sum(1 for turn in READERS["claude"].turns(transcript, print))
# The most memory that this program had; what getrusage says begins with that of the process which started it.
[peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
print(count, int(peak.split()[1]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured where Linux tells it")
def test_200_megabytes_are_read_in_150_megabytes_of_memory(tmp_path: Path) -> None:
    claude, path = Claude(tmp_path), tmp_path / "s.jsonl"
    many = claude.user("Many values.", values=[{}] * 400_000)
    with path.open("w") as file:
        lines = [
            claude.says("Word " * 20_000),
            claude.result("x" * 400_000, is_error=True),
            claude.calls("Bash", command="x" * 100_000),
        ]
        text = json_lines(*lines, many, claude.user("é" * 1_000_000))
        repeats = 200 * 1024**2 // len(text.encode()) + 1
        for _ in range(repeats):
            file.write(text)
    assert path.stat().st_size >= 200 * 1024**2

    done = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)

    count, megabytes = map(int, done.stdout.split())
    assert count == 4 * repeats
    assert megabytes < 150, megabytes


# --- places ---------------------------------------------------------------------------


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    secret = write(elsewhere / "s.jsonl", Claude(home).user("Nobody agreed to this."))
    folder = path_of(home).parent
    folder.mkdir(parents=True)
    (folder / "file.jsonl").symlink_to(secret)
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder.parent / f"{folder.name}-sub").symlink_to(elsewhere)
    write(folder / "own.jsonl", Claude(home).user("Here."))
    (folder / "again.jsonl").symlink_to("own.jsonl")

    result = find("claude", home, [home])

    assert set(result.texts) == {"Here."}
    assert {name for name, _ in result.reasons} == {"file.jsonl", "loop.jsonl", f"{folder.name}-sub"}


def test_a_folder_that_is_a_link_itself_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(path_of(home), Claude(home).user("Here."))
    (home / ".claude").rename(tmp_path / "dotfiles")
    (home / ".claude").symlink_to(tmp_path / "dotfiles")

    assert find("claude", home, [home]).texts == ["Here."]

    (tmp_path / "dotfiles" / "projects").rename(tmp_path / "projects")
    (tmp_path / "dotfiles" / "projects").symlink_to(tmp_path / "projects")
    result = find("claude", home, [home])
    assert (result.texts, [name for name, _ in result.reasons]) == ([], ["projects"])


def test_what_is_no_regular_file_is_left_alone(tmp_path: Path) -> None:
    folder = path_of(tmp_path).parent
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()

    assert find("claude", tmp_path, [tmp_path]).transcripts == ()
    assert len(read(transcript(folder / "pipe.jsonl")).problems) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    path = write(path_of(tmp_path), Claude(tmp_path).user("x"))
    path.chmod(0)

    result = find("claude", tmp_path, [tmp_path])

    assert (result.transcripts, result.reasons) == ((), [("s1.jsonl", 0)])


@pytest.mark.parametrize("directory", ["/root/other", "/home/another/project", "relative", "", "a\x00b", "/"])
def test_sessions_of_other_directories_are_not_read(tmp_path: Path, directory: str) -> None:
    write(path_of(tmp_path), Claude(directory).user("Theirs."))

    result = find("claude", tmp_path, [tmp_path])

    assert (result.transcripts, result.problems) == ((), ())


def test_a_home_without_transcripts_has_none(tmp_path: Path) -> None:
    for home in (tmp_path, tmp_path / "none", write(tmp_path / ".claude", "x").parent):
        result = find("claude", home, [tmp_path])
        assert (result.transcripts, result.problems) == ((), ())


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    claude = Claude(tmp_path)
    path = write(tmp_path / "s.jsonl", claude.user("First."))
    problems: list[TranscriptProblem] = []
    turns = READER.turns(transcript(path), problems.append)

    texts = [next(turns).text]
    with path.open("a") as file:
        file.write(json_lines(claude.user("Second.")) + '{"type":"user","mess')
    texts += [turn.text for turn in turns]

    assert (texts, problems) == (["First.", "Second."], [])
