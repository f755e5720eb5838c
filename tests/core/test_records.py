from __future__ import annotations

from importlib import import_module

import pytest

from ralph.core import records
from ralph.core.records import Task, replace


@pytest.mark.parametrize(
    "module", ["attempts", "base", "memories", "prompts", "results", "sessions", "sigils", "tasks"]
)
def test_the_package_exports_every_name_of_its_modules(module: str) -> None:
    loaded = import_module(f"ralph.core.records.{module}")
    defined = {
        name: value
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == loaded.__name__
    }

    assert defined
    assert {name: getattr(records, name) for name in defined} == defined


def test_a_record_is_frozen_and_copied_with_changes() -> None:
    task = Task(id="t-000001", title="One", created_at="", updated_at="")

    with pytest.raises(AttributeError, match="frozen"):
        task.title = "Two"  # type: ignore[misc]
    assert replace(task, title="Two") == Task(id="t-000001", title="Two", created_at="", updated_at="")


def test_a_record_names_the_fields_it_misses_or_does_not_have() -> None:
    with pytest.raises(TypeError, match="missing created_at, updated_at"):
        Task(id="t-000001", title="One")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected size"):
        Task(id="t-000001", title="One", created_at="", updated_at="", size=1)  # type: ignore[call-arg]
