"""The public Python API: what `import ralph` offers, and that docs/python.md is true."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import subprocess
import sys
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import ralph
from ralph.core.ancestry import SESSION_VARIABLE
from ralph.project import Project
from tests.golden import assert_golden
from tests.make import set_up_project

PAGE = Path(__file__).parent.parent / "docs" / "python.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEMORIES = ".agent/memories.md"

AGENT = """
cat > /dev/null
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a scripted agent, as the current directory."""
    project = tmp_path / "project"
    project.mkdir()
    set_up_project(project)
    (project / "agent.sh").write_text(AGENT, encoding="utf-8")
    (project / ".ralph.toml").write_text('[agent]\ncommand = ["sh", "agent.sh"]\n', encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.delenv(SESSION_VARIABLE, raising=False)
    return project


# --- the documentation -----------------------------------------------------------------


def test_examples_in_the_documentation_print_what_it_shows(directory: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown: list[tuple[str, str]] = []
    for kind, text in blocks:
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(PAGE), "exec"), names)
            shown.append((output.getvalue(), ""))
        else:
            shown[-1] = (shown[-1][0], text)

    assert len(shown) > 5
    assert [printed for printed, _ in shown] == [expected for _, expected in shown]


# --- opening ---------------------------------------------------------------------------


def test_open_imports_edits_of_the_memory_files_and_writes_changes_back(directory: Path) -> None:
    with ralph.open() as project:
        project.memory.add("Money is in cents", type="convention")
        project.memory.add("Retry on 503", type="fix")
    text = (directory / MEMORIES).read_text(encoding="utf-8")
    assert "Retry on 503" in text
    (directory / MEMORIES).write_text(text.replace("Retry on 503", "Retry on 502"), encoding="utf-8")

    with ralph.open(directory) as project:
        titles = {memory.title for memory in project.memory.list()}

    assert titles == {"Money is in cents", "Retry on 502"}


@pytest.mark.sqlite
def test_open_leaves_the_files_alone_and_closes_the_project_after_an_exception(directory: Path) -> None:
    with ralph.open() as project:
        project.memory.add("First", type="fix")
    before = (directory / MEMORIES).read_text(encoding="utf-8")

    with pytest.raises(ZeroDivisionError), ralph.open() as project:
        project.memory.add("Second", type="fix")
        raise ZeroDivisionError

    assert (directory / MEMORIES).read_text(encoding="utf-8") == before
    with pytest.raises(Exception, match="closed"):
        project.memory.list()


def test_open_works_without_a_with_block(directory: Path) -> None:
    project = ralph.open(str(directory))
    added = project.memory.add("First")
    project.close()

    with ralph.open() as project:
        assert project.memory.get(added.memory.id) == added.memory


@pytest.mark.once
def test_open_acts_for_whoever_the_process_was_started_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ralph.open() as project:
        assert not project.actor.is_agent
    with ralph.open(actor=ralph.Actor(kind="agent")) as project:
        assert project.actor.is_agent

    monkeypatch.setenv(SESSION_VARIABLE, "s-1")
    with ralph.open() as project:
        assert project.actor.is_loop_session
    with ralph.open(actor=ralph.Actor()) as project:
        assert project.actor.is_loop_session
    monkeypatch.delenv(SESSION_VARIABLE)
    with ralph.open(actor=ralph.Actor()) as project:
        assert not project.actor.is_agent


def test_open_raises_outside_of_a_project(tmp_path: Path) -> None:
    with pytest.raises(ralph.ProjectNotFoundError, check=lambda error: error.code == "no-project"):
        ralph.open(tmp_path)


def test_a_run_without_options_uses_the_settings(directory: Path) -> None:
    with ralph.open() as project:
        project.tasks.add("Write a parser")
        summary = project.runs.start()

    assert (summary.ending, summary.done) == (ralph.RunEnding.COMPLETE, 1)


# --- the names -------------------------------------------------------------------------


@pytest.mark.storeless
def test_every_public_name_exists_and_nothing_else_is_offered() -> None:
    assert all(getattr(ralph, name) is not None for name in ralph.__all__)
    assert dir(ralph) == sorted(ralph.__all__)
    assert set(ralph.__all__) - {name for names in ralph._MODULES.values() for name in names} == {"open", "__version__"}
    with pytest.raises(AttributeError):
        ralph.nothing  # noqa: B018


@pytest.mark.storeless
def test_importing_the_package_loads_no_other_module() -> None:
    code = "import sys; known = set(sys.modules); import ralph; print(*sorted(set(sys.modules) - known))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert set(loaded) <= {"__future__", "ralph"}


@pytest.mark.once
def test_public_signatures_are_frozen(project: Project) -> None:
    """A change here changes what scripts of users may rely on: say so in CHANGELOG.md."""
    lines = [line for name in sorted(ralph.__all__) for line in _describe(name, getattr(ralph, name))]
    lines += [line for name, service in _services(project) for line in ("", *_methods(name, type(service)))]

    assert_golden("api.txt", "\n".join(lines) + "\n")


class _Text(str):
    """Text that is its own repr, so that a signature shows annotations without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=_text(one.annotation), default=_default(one.default))
        for one in signature.parameters.values()
        if one.name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=_text(signature.return_annotation)))


def _text(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def _default(value: Any) -> Any:
    if hasattr(value, "_layout"):
        return _Text(f"{type(value).__name__}(...)")
    return _Text("...") if " at 0x" in repr(value) else value


def _describe(name: str, value: Any) -> list[str]:
    if name == "__version__":
        return []
    if not isinstance(value, type):
        return [f"ralph.{name}{_signature(value)}"]
    if issubclass(value, Enum):
        return [f"ralph.{name}: {', '.join(value.__members__)}"]
    if issubclass(value, ralph.RalphError):
        return [f"ralph.{name}({value.__bases__[0].__name__}): code {value.code}, exit status {value.exit_code}"]
    if hasattr(value, "_layout"):
        return [f"ralph.{name}", *(f"    {field}" for field in _fields(value))]
    return [f"ralph.{name}"]


def _fields(record: Any) -> list[str]:
    defaults = record._layout[1]
    return [
        f"{name}: {annotation}" + (f" = {defaults[name]!r}" if name in defaults else "")
        for name, annotation in record.__annotations__.items()
    ]


def _services(project: Project) -> list[tuple[str, Any]]:
    """Return the project and its services by name, those of a service after it."""
    found: list[tuple[str, Any]] = [("project", project)]
    for name, owner in found:
        for attribute, value in sorted(inspect.getmembers_static(type(owner))):
            if isinstance(value, property | cached_property) and not attribute.startswith("_"):
                service = getattr(owner, attribute)
                if type(service).__module__.startswith("ralph.") and not hasattr(service, "_layout"):
                    found.append((f"{name}.{attribute}", service))
    return found


def _methods(name: str, service: type) -> list[str]:
    methods = [
        (attribute, getattr(service, attribute))
        for attribute, value in sorted(inspect.getmembers_static(service))
        if not attribute.startswith("_") and (callable(value) or isinstance(value, classmethod | staticmethod))
    ]
    return [f"{name}.{attribute}{_signature(value)}" for attribute, value in methods]
