from __future__ import annotations

import importlib
import json
import re
import runpy
from functools import reduce
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))

MAX_CAPTURE_BYTES = 300_000
"""Maximum size of the image of a terminal, which the first page shows."""
MAX_CAPTURE_SECONDS, MAX_SECONDS_TO_RECALL = 35, 20
"""Maximum length of the capture, and of the time until an attempt is shown what an earlier one has learned."""
PACKAGES = "core|store|formats|agents|memory|loop|integrations|web|cli"


def test_what_is_derived_from_the_program_is_current() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))

    outdated = [
        path for path, text in generate["generated_files"]().items() if path.read_text(encoding="utf-8") != text
    ]
    assert outdated == [], "run: make docs"


def test_the_map_for_agents_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("page", ["reliability.md", "security.md"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_step_of_the_architecture_names_a_function_that_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"\| `(ralph[\w.]*)` \| `([\w.]+)` \|", page)

    assert len(steps) > 30
    missing = [f"{module}: {name}" for module, name in steps if not _exists(module, name)]
    assert missing == []


def _exists(module: str, name: str) -> bool:
    try:
        return callable(reduce(getattr, name.split("."), importlib.import_module(module)))
    except (ImportError, AttributeError):
        return False


def test_pages_that_are_not_references_stay_short() -> None:
    lengths = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in (ROOT / "docs").glob("*.md")}

    assert {name for name, length in lengths.items() if length > 300} <= {"cli.md", "http.md"}


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8"))

    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_source_files_that_pages_name_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|bench|docs)/[\w./-]+)`", text)
    named += [f"src/ralph/{path}" for path in re.findall(rf"`((?:{PACKAGES})/[\w./-]*)`", text)]

    assert sorted({path for path in named if not (ROOT / path).exists()}) == []


def test_the_capture_of_a_terminal_can_be_played() -> None:
    cast, svg = ((ROOT / f"docs/images/first-minute.{name}").read_text(encoding="utf-8") for name in ("cast", "svg"))

    head, *events = [json.loads(line) for line in cast.splitlines()]
    times = [at for at, kind, _ in events if kind == "o"]
    assert (head["version"], len(times), times) == (2, len(events), sorted(times))
    recalled = next(at for at, _, text in events if "recalled: Round money" in text)
    duration = float(re.search(r"animation:play ([\d.]+)s", svg)[1])  # type: ignore[index]
    assert recalled < MAX_SECONDS_TO_RECALL, "what memory is for comes early"
    assert duration < MAX_CAPTURE_SECONDS
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert len(svg.encode()) < MAX_CAPTURE_BYTES
