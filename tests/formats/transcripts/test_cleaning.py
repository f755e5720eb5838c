"""What people said is kept as they said it, and nothing that Ralph itself put into their sessions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ralph.formats.transcripts.cleaning import (
    MAX_ERROR_CHARACTERS,
    failed_command,
    patched_files,
    person_text,
    relative_files,
    utc_timestamp,
)
from ralph.loop.instructions import TASK_INSTRUCTIONS
from ralph.loop.review import REVIEW_INSTRUCTIONS
from ralph.memory.recall.prime import HEADING as PRIMER_HEADING
from ralph.memory.recall.render import HEADING, PREFACE
from ralph.memory.sessions import PROMPT_HEADING, START_HEADING

pytestmark = pytest.mark.storeless


@pytest.mark.parametrize(
    "context",
    [
        f"{START_HEADING}\n{PRIMER_HEADING}\n## Fixes\n> Tabs.\n",
        f"{PROMPT_HEADING}\n> Tabs.\n",
        f"{HEADING}\n\n{PREFACE}\n\n- Tabs.",
        f"{PRIMER_HEADING}\n## Fixes\n> Tabs.",
        f"{TASK_INSTRUCTIONS}\n## Task\n\nTabs.",
        f"{REVIEW_INSTRUCTIONS}\n## Task\n\nTabs.",
    ],
)
def test_what_ralph_adds_never_comes_back(context: str) -> None:
    assert person_text(context) == ""
    assert person_text(f"<hook_context>{context}</hook_context>\n\nFix it.") == "Fix it."
    if not context.startswith(PRIMER_HEADING):
        assert person_text(f"Fix it.\n\n{context}") == "Fix it."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Context from my IDE setup:\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix it.\n", "Fix it."),
        ("<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>", ""),
        ("Fix <Button> and <div>", "Fix <Button> and <div>"),
        ("<Button>\n  is broken\n</Button>", "<Button>\n  is broken\n</Button>"),
        ("a\r\nb\x1b[31m\x00", "a\nb"),
        ("\ud800", ""),
    ],
)
def test_the_rest_is_what_a_person_said(text: str, said: str) -> None:
    assert person_text(text) == said


@pytest.mark.parametrize("part", ["<system-reminder>", "</system-reminder>", "\n<skill>a</skill>", "\n <skill", " "])
def test_much_of_the_same_takes_no_time(part: str) -> None:
    start = time.process_time()
    person_text("x\n" + part * 200_000)
    failed_command("make", part * 200_000)
    assert time.process_time() - start < 5


def test_an_error_is_shown_within_its_limit() -> None:
    for output in ("", "x" * 10**6, "error\n" * 10**5, "\n".join(map(str, range(10**5)))):
        for command in ("", "make", "x" * 10**6):
            assert len(failed_command(command, output)) <= MAX_ERROR_CHARACTERS


def test_files_are_relative_to_the_project() -> None:
    paths = ["a.py", "/p/b.py", "../c.py", "../../d.py", "/etc/passwd", "", 5, "x\ny", "z" * 1_000, "a\x00b.py"]
    assert relative_files(paths, "/p/sub", "/p") == ("sub/a.py", "b.py", "c.py", "sub/ab.py")
    assert relative_files(["/pp/a.py", "a.py"], "/p", "") == ("a.py",)


def test_the_files_of_a_patch_are_found() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-x\n+y\n*** Add File: c d.md\n+z\n"
    assert patched_files(patch) == ["src/a.py", "src/b.py", "c d.md"]
    assert patched_files(None) == []


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("2026-11-17T06:30:59.919Z", "2026-11-17T06:30:59.919Z"),
        ("2026-11-17T06:30:59+02:00", "2026-11-17T04:30:59.000Z"),
        (1_794_929_901_635, "2026-11-17T15:38:21.635Z"),
        ("0001-01-01T00:00:00Z", ""),
        ("10000-01-01T00:00:00Z", ""),
        ("0001-01-01T00:00:00+23:00", ""),
        ("yesterday", ""),
        (10**30, ""),
        (float("nan"), ""),
        (float("inf"), ""),
        (-1, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_times_are_written_in_one_way(value: object, at: str) -> None:
    assert utc_timestamp(value) == at


def test_the_readers_are_loaded_when_they_are_used(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, ralph.formats.transcripts.tail; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    assert "ralph.formats.transcripts.tail" in loaded
    assert "ralph.formats.transcripts.base" not in loaded


def test_no_line_of_a_key_that_a_failed_command_printed_is_kept() -> None:
    lines = [f"MIIEow{number:02}{'x7Qz' * 14}" for number in range(40)]
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])

    kept = failed_command("cat id_rsa && false", f"Exit code 1\n{key}\n" + "error: refused\n" * 20)

    assert "x7Qz" not in kept
    assert "error: refused" in kept
