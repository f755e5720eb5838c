"""What `make torture` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import torture
from tests.faults.torture import BEGIN, END, Row, read, table, tried, write
from tests.faults.trial import Shown, Trial

pytestmark = pytest.mark.storeless


def a_row(**changes: object) -> Row:
    fields = {
        **{"test": "kill -9", "load": "10 cycles", "tried": 1200, "allowed": "0 lost", "lost": 0},
        **{"seconds": 200.0, "says": "", "on": "2026-01-02"},
    }
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_trial_runs_in_a_folder_of_its_own_at_the_size_that_is_asked_for() -> None:
    seen: list[tuple[bool, int, int]] = []

    def run(folder: Path, size: int, seed: int) -> Shown:
        seen.append((folder.is_dir() and not any(folder.iterdir()), size, seed))
        return Shown(load=f"{size} cycles", tried=size, lost=0)

    row = tried(Trial(name="kill", test="kill -9", allowed="0", size=1000, run=run), 50, 7)

    assert seen == [(True, 50, 7)]
    assert (row.load, row.tried, row.lost) == ("50 cycles", 50, 0)


def test_the_table_has_a_line_for_each_trial() -> None:
    assert table([a_row(), a_row(test="power loss", lost=2, seconds=4.4)]).splitlines()[2:] == [
        "| kill -9 | 10 cycles | 1,200 | 0 lost | **0** | 3 min |  |",
        "| power loss | 10 cycles | 1,200 | 0 lost | **2** | 4 s |  |",
    ]


def test_a_page_keeps_what_stands_round_the_table_and_rows_of_other_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\n# After\n")
    made = [
        Trial(name=name, test=name, allowed="0", size=1, run=lambda *_: Shown(load="", tried=0, lost=0))
        for name in "ab"
    ]
    monkeypatch.setattr(torture, "trials", lambda: made)

    write(page, kept, {"a": a_row(on="2026-01-01")})
    write(page, kept, {**read(kept), "b": a_row(test="flips")})

    text = page.read_text()
    assert text.startswith(f"# Before\n{BEGIN}\n| test |")
    assert text.endswith(f"{END}\n# After\n")
    assert "old" not in text
    assert "| kill -9 |" in text
    assert "| flips |" in text
    assert "Run on 2026-01-01 and 2026-01-02" in text
