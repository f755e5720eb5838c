"""Excerpts of what programs print."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ralph.core.excerpt import excerpt, looks_like_error


def test_first_lines_last_lines_and_errors_are_kept() -> None:
    lines = ["$ make test", *(f"compiled {n}" for n in range(300)), "kit.py:7: in cut"]
    lines += [
        "E   ValueError: QUOTA-7731",
        "kit.py:7: ValueError",
        *(f"src/m{n}.py 20 0 100%" for n in range(400)),
        "1 failed",
    ]

    kept = excerpt("\n".join(lines), 1_500).splitlines()

    assert kept[0] == "$ make test"
    assert kept[-1] == "1 failed"
    assert "E   ValueError: QUOTA-7731" in kept
    assert "kit.py:7: in cut" in kept
    assert any("lines left out" in line for line in kept)


def test_what_looks_like_an_error() -> None:
    for line in (
        *(
            "TypeError: x",
            "error: no such flag",
            "error[E0425]: cannot find value",
            "npm ERR! code 1",
            "FAILED tests/a.py",
        ),
        *(
            "src/a.ts(3,1): error TS2304: Cannot find name",
            "--- FAIL: TestA (0.00s)",
            "panic: index",
            "  ✕ adds (3 ms)",
        ),
        *(
            "fatal: bad object",
            "thread 'main' panicked at src/lib.rs:3",
            "not ok 3 - adds",
            "bash: foo: command not found",
        ),
    ):
        assert looks_like_error(line), line
    for line in (
        "src/errors.py   20   0   100%",
        "0 errors, 3 warnings",
        "Found 0 errors.",
        "collected 12 items",
        "ok 3 - adds",
    ):
        assert not looks_like_error(line), line


@given(st.text(alphabet="aE\n rror:1", max_size=3_000), st.integers(1, 500))
def test_an_excerpt_is_never_longer_than_asked(text: str, length: int) -> None:
    assert len(excerpt(text, length)) <= max(length, 0) or len(text) <= length
