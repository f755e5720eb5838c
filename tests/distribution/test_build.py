from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata

from ralph import __version__
from ralph.core.extras import PACKAGE, install_hint
from tests.distribution import release

pytestmark = pytest.mark.storeless

ROOT = release.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# `pip install ralph`, `uvx ralph`, `ralph[acp]`: the project `ralph` on the package index is another one. What is
# installed from a folder (`.`, a path) has no name there.
STRANGER = re.compile(
    r"(?:(?:pip3?|pipx|uv tool|uv pip) (?:install|run|upgrade)(?: -\S+)*|uvx(?: --from)?|uv add|poetry add|pdm add)"
    r" ['\"]?ralph(?![\w.-])"
    r"|(?<![\w.-])ralph\[(?:acp|all|dev|notify|plot|postgres|semantic|server|otel)\b"
)


FOR_DEVELOPERS = {"build", "dev", "docs", "fuzz"}
"""Extras for working on Ralph."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.build(ROOT, tmp_path_factory.mktemp("dist"))[1]


def test_two_builds_and_one_from_the_sdist_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    assert release.differences(tmp_path) == []


def test_the_wheel_has_both_commands_the_license_and_every_file_of_the_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        commands = re.findall(r"^([\w-]+)=", archive.read(entry_points).decode(), re.MULTILINE)

    assert sorted(commands) == ["ralph", "ralph-memory"]
    assert f"ralph_memory-{__version__}.dist-info/licenses/LICENSE" in names
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name.removeprefix("src/") for name in tracked.splitlines()} <= names
    assert {name.partition("/")[0] for name in names} == {"ralph", f"ralph_memory-{__version__}.dist-info"}


def test_the_metadata_is_valid_and_complete(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        raw = archive.read(f"ralph_memory-{__version__}.dist-info/METADATA")

    metadata = Metadata.from_email(raw, validate=True)
    assert (metadata.name, str(metadata.version)) == (PACKAGE, __version__)
    assert (metadata.license_expression, metadata.license_files) == ("MIT", ["LICENSE"])
    assert metadata.summary
    assert metadata.description_content_type == "text/markdown"
    assert metadata.keywords
    assert "Typing :: Typed" in (metadata.classifiers or [])


def test_the_sdist_has_what_its_readme_links_to_among_the_pages(tmp_path: Path) -> None:
    sdist, _ = release.build(ROOT, tmp_path)

    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "docs/releasing.md"} <= names


@pytest.mark.parametrize(
    "text",
    ["pip install ralph", "pip install 'ralph[server]'", "uvx ralph", "pipx run ralph", "the extra ralph[semantic]"],
)
def test_the_name_of_another_project_is_recognized(text: str) -> None:
    assert STRANGER.search(text)


def test_no_text_installs_the_project_that_has_the_name_ralph_on_the_index() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = []
    for name in listed.split("\0"):
        if not name or name == here or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_bytes().decode(errors="replace")
        found += [f"{name}: {match[0]}" for match in STRANGER.finditer(text)]

    assert found == []


def test_every_extra_that_users_install_is_asked_for_by_name_where_it_is_missing() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "ralph").rglob("*.py"))
    named = set(re.findall(r"install_hint\('(\w+)'\)|install_hint\(\"(\w+)\"\)", sources))
    extras = set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS

    assert {one or other for one, other in named} == extras
    assert "[acp]'" in install_hint("acp")


def test_the_table_of_dependencies_lists_those_that_are_installed() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    direct = {re.split(r"[<>=\[; ]", one)[0].lower() for one in PROJECT["dependencies"]}
    base = page.partition("## The base")[2].partition("\n## ")[0]
    extras = page.partition("## Extras")[2].partition("\n## ")[0]

    assert {name.lower() for name in re.findall(r"^\| `([\w.-]+)` \|", base, re.MULTILINE)} == direct
    listed = set(re.findall(r"^\| `(\w+)` \|", extras, re.MULTILINE))
    assert listed == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS
