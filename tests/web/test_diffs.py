"""Diffs as files, hunks and colored lines; whatever is in them is text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.web.diffs import MAX_COLORED_CHARACTERS, DiffFile, parse_diff

pytestmark = pytest.mark.storeless

HTML = "<script>alert(1)</script>"


def diff_of(folder: Path, before: dict[str, str], after: dict[str, str]) -> tuple[DiffFile, ...]:
    for side, files in (("a", before), ("b", after)):
        (folder / side).mkdir()
        for name, text in files.items():
            (folder / side / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / side / name).write_text(text)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--src-prefix=", "--dst-prefix=", "a", "b"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return parse_diff(done.stdout)


def test_files_have_their_status_numbers_and_lines(tmp_path: Path) -> None:
    files = diff_of(
        tmp_path,
        {"m.py": "one = 1\ntwo = 2\n", "gone.txt": "bye\n"},
        {"m.py": "one = 1\ntwo = 'b'\n-- three\n", "new.txt": "hi"},
    )

    assert [(one.path, one.status, one.added, one.removed) for one in files] == [
        ("gone.txt", "deleted", 0, 1),
        ("m.py", "changed", 2, 1),
        ("new.txt", "added", 1, 0),
    ]
    lines = [(line.kind, line.old, line.new) for line in files[1].hunks[0].lines]
    assert lines == [("context", 1, 1), ("removed", 2, None), ("added", None, 2), ("added", None, 3)]
    assert files[2].hunks[0].lines[-1].kind == "note"


def test_known_languages_have_colors_and_html_stays_text(tmp_path: Path) -> None:
    code = f"def add():  # {HTML}\n    return '{HTML}'\n"
    colored, plain = diff_of(tmp_path, {"a.py": "", "z.unknown": ""}, {"a.py": code, "z.unknown": code})

    assert 'class="tok-k">def</span>' in colored.hunks[0].lines[0].html
    for line in (*colored.hunks[0].lines, *plain.hunks[0].lines):
        assert "<script" not in line.html
        assert line.html.unescape().count("alert(1)") == 1


def test_large_files_and_long_lines_have_no_colors(tmp_path: Path) -> None:
    large = "x = 'a'\n" * (MAX_COLORED_CHARACTERS // 8)
    files = diff_of(tmp_path, {}, {"large.py": large, "long.py": f"x = '{'a' * 1000}'\n", "z.py": "def f(): pass\n"})

    assert ["tok-" in one.hunks[0].lines[0].html for one in files] == [False, False, False]


@given(st.text(), st.lists(st.sampled_from("+- @\\") | st.text(max_size=9)))
def test_any_text_is_read(text: str, lines: list[str]) -> None:
    parse_diff(text)
    body = "\n".join(lines)
    for file in parse_diff(f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def\n{body}"):
        assert all("<script" not in line.html for hunk in file.hunks for line in hunk.lines)
