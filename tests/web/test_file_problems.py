"""What is wrong with the memory files is told over HTTP too, as long as it is wrong."""

from __future__ import annotations

from pathlib import Path

from tests.web.asking import Served

BROKEN = "# Memories\n\n## Patterns\n\n### mem-1700000000-0001\n<!-- tags: no-text -->\n"


def warnings(served: Served) -> list[str]:
    status, told = served.get("/api/status")
    assert status == 200, told
    found: list[str] = told["warnings"]
    return found


def write(served: Served, path: str, text: str) -> None:
    file = Path(served.project.directory) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_broken_entry_is_told_until_it_is_mended_whichever_thread_is_asked(served: Served) -> None:
    assert warnings(served) == []
    write(served, ".agent/memories.md", BROKEN)
    served.project.files.sync()  # somebody else has brought the files in step before anybody asks here

    told = [warnings(served) for _ in range(20)]

    assert all(len(one) == 1 for one in told), told
    assert told[0][0].startswith(".agent/memories.md, line 5")
    assert ".agent/memories.md, line 5" in served.get("/")[1]
    write(served, ".agent/memories.md", "# Memories\n\n## Patterns\n")
    assert [warnings(served) for _ in range(20)] == [[]] * 20


def test_a_knowledge_file_that_is_none_is_told(served: Served) -> None:
    write(served, ".ralph/knowledge/notes.md", "Just some words.\n")

    assert any("skipped .ralph/knowledge/notes.md: " in one for one in warnings(served))


def test_a_file_that_cannot_be_written_is_told(served: Served) -> None:
    (Path(served.project.directory) / ".agent").write_text("in the way")

    status, _ = served.post("/api/projects/-/memories", {"content": "Start docker first."})

    assert status == 201
    assert any("cannot write .agent/memories.md: " in one for one in warnings(served))
    (Path(served.project.directory) / ".agent").unlink()
    assert warnings(served) == []
