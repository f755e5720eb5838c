from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import MAX_DIFF_LINES, assert_golden

pytestmark = pytest.mark.storeless


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    path = tmp_path / "golden.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.mark.parametrize(("text", "change"), [("one\n2\n", "-two\n+2\n"), ("one\ntwo", " two\n-\n")])
def test_a_mismatch_shows_the_diff_and_how_to_update(golden: Path, text: str, change: str) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        assert_golden(str(golden), text)

    assert change in str(failure.value)
    assert str(failure.value).endswith("run with UPDATE_GOLDEN=1 and read the diff")


def test_a_long_diff_is_truncated(golden: Path) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        assert_golden(str(golden), "three\n" * 1000)

    assert len(str(failure.value).splitlines()) == MAX_DIFF_LINES + 1


def test_golden_files_are_updated_on_request(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPDATE_GOLDEN", "1")

    assert_golden(str(golden), "three\n")

    assert golden.read_text() == "three\n"
