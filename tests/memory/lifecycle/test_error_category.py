"""When two errors are the same: whatever the time and the place, and about the same thing."""

from __future__ import annotations

import time

import pytest

from ralph.memory.lifecycle.error_category import normalized_error


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "ModuleNotFoundError: No module named 'yaml'",
            "ModuleNotFoundError: No module named 'yaml' at /srv/b/y.py:99",
        ),
        (
            "ModuleNotFoundError: No module named 'yaml' at /home/a/x.py:12 2026-01-01T10:00:00Z",
            "ModuleNotFoundError: No module named 'yaml' (src/y.py:7) 2026-02-03 11:12:13.456",
        ),
        ("cannot open '/home/a/shop/rates.csv'", "cannot open '/srv/ci/4711/shop/rates.csv'"),
        ("connection to db:5432 timed out (3.2s)", "connection to db:5432 timed out (took 45 s)"),
        ("TypeError: x is null in app.ts:3:14", "TypeError: x is null in src/app.ts:120:1"),
    ],
)
def test_the_same_error_at_another_time_and_place(one: str, other: str) -> None:
    assert normalized_error(one, with_names=True) == normalized_error(other, with_names=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("No such file or directory: 'data/a.csv'", "No such file or directory: 'data/b.csv'"),
        ("No such file or directory: '/home/a/data/a.csv'", "No such file or directory: '/home/a/data/b.csv'"),
        ("No module named 'yaml'", "No module named 'toml'"),
        ("cannot find name `Order` in app.ts:3", "cannot find name `Price` in app.ts:3"),
    ],
)
def test_an_error_about_something_else(one: str, other: str) -> None:
    assert normalized_error(one, with_names=True) != normalized_error(other, with_names=True)


def test_any_line_is_normalized_in_no_time() -> None:
    started = time.process_time()

    for text in ("/a" * 5_000, "a." * 5_000, "1 " * 5_000, "in " * 4_000, "'" * 10_000):
        normalized_error(text)

    assert time.process_time() - started < 2
