"""Files for a container engine and a public host, checked as far as they can be without either."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.distribution.release import ROOT

pytestmark = pytest.mark.storeless

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_runs_ralph_as_a_user_without_privileges() -> None:
    last = dict(instructions())

    assert last["USER"] not in ("root", "0")
    assert f"useradd --create-home --uid 1000 {last['USER']}" in " ".join(rest for _, rest in instructions())
    assert json.loads(last["ENTRYPOINT"]) == ["ralph"]
    names = [name for name, _ in instructions()]
    assert "RUN" not in names[names.index("USER") :]


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        source
        for name, rest in instructions()
        if name == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]

    assert ignored[0] == "*"
    assert copied
    assert [source for source in copied if not (ROOT / source).exists() or f"!{source}" not in ignored] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist_with_few_permissions(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    made = [
        word for step in steps for words in re.findall(r"^make (.+)$", step.get("run", "")) for word in words.split()
    ]

    assert workflow["permissions"] == {"contents": "read"}
    assert all(("run" in step) != ("uses" in step) for step in steps)
    assert set(made) <= targets


def test_templates_of_issues_have_what_a_host_asks_for() -> None:
    for name in ("bug", "idea"):
        form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        assert all(field["type"] in ("input", "textarea", "markdown") for field in form["body"])
