"""Chat histories of aider, made by hand after those of aider 0.86.2."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ralph.formats.transcripts.aider import FILE, MAX_TURN_BYTES
from tests.formats.transcripts.make import find, read, write

pytestmark = pytest.mark.storeless

CHAT = """
# aider chat started at 2026-11-17 06:30:59

> aider --message /ask Why?
Second line.  
> Aider v0.86.2  
> Git repo: .git with 2 files  

#### /add src/a.py  
> Added src/a.py to the chat  

#### Fix the parser.  
#### > It wants tabs.  

Tabs are the reason:

- spaces break it

src/a.py
```python
<<<<<<< SEARCH
a
=======
b
>>>>>>> REPLACE
```

> Tokens: 2.3k sent, 20 received.  
> Applied edit to src/a.py  
> Commit 1234567 fix: Use tabs

> more of its message  

#### /ask Why tabs?  

#### Why tabs?  

Because:

> it says so

#### /run make  
> FAILED  

# aider chat started at 2026-11-18 06:30:59

#### Fix the parser.  
"""  # noqa: W291

SAID = [
    ("person", "Fix the parser.\n> It wants tabs."),
    ("agent", "Tabs are the reason:\n\n- spaces break it"),
    ("person", "Why tabs?"),
    ("agent", "Because:\n\n> it says so"),
    ("person", "Fix the parser."),
]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_what_people_and_the_model_said_is_kept(tmp_path: Path) -> None:
    write(tmp_path / FILE, CHAT)

    result = find("aider", Path("/nowhere"), [tmp_path])

    assert (result.said, result.problems) == (SAID, ())
    assert [turn.files for turn in result.turns] == [(), ("src/a.py",), (), (), ()]
    assert result.turns[0].at == "2026-11-17T06:30:59.000Z"
    assert result.turns[-1].at == "2026-11-18T06:30:59.000Z"
    assert len({turn.key for turn in result.turns}) == 5


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = write(tmp_path / FILE, CHAT)
    whole = find("aider", tmp_path, [tmp_path])
    [transcript] = whole.transcripts
    content = CHAT.encode()

    for turn in whole.turns:
        path.write_bytes(content[: turn.offset])
        first = read(transcript)
        path.write_bytes(content)
        second = read(transcript, first.turns[-1].offset)
        assert (*first.turns, *second.turns) == whole.turns

    path.write_bytes(content + b"A half-writ")
    assert read(transcript).turns == whole.turns
    assert read(transcript, 10**9).turns == whole.turns


def test_only_the_file_of_the_directory_itself_is_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project / "sub" / FILE, CHAT)
    secret = write(tmp_path / "elsewhere.md", CHAT)
    (project / FILE).symlink_to(secret)

    result = find("aider", tmp_path, [project])

    assert (result.transcripts, result.reasons) == ((), [(FILE, 0)])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 10_000,
        bytes(range(256)) * 100,
        b"#### " + b"x" * 3 * MAX_TURN_BYTES + b"\n",
        b"#### x\n" + b"x\n" * MAX_TURN_BYTES,
        b"```\n<<<<<<< SEARCH\n" * 20_000,
        b"# aider chat started at the end of days\n#### x\n",
        b"# aider chat started at 9999-12-31 23:59:59\n#### x\n",
    ],
)
def test_anything_breaks_nothing(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / FILE, content)
    start = time.process_time()

    result = find("aider", tmp_path, [tmp_path])

    assert time.process_time() - start < 5
    assert bool(result.problems) == (len(content) > MAX_TURN_BYTES)
    for turn in result.turns:
        assert len(turn.text.encode()) <= 3 * MAX_TURN_BYTES
