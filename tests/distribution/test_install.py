"""Install the wheel in empty environments: pip, pipx and uv, on every Python that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ralph import __version__
from tests.distribution import release
from tests.docs import pages
from tests.docs.samples import a_shop

pytestmark = [pytest.mark.slow, pytest.mark.storeless, pytest.mark.timeout(300)]

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = "RALPH_INSTALLERS"
"""Environment variable: folder of the programs pipx and uv, if they are not in PATH. `make test-install` sets it."""


@cache
def python(version: str) -> str | None:
    """Return a Python of a version that can make environments, or None."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [sys.executable] if own == version else [shutil.which(f"python{version}"), *map(str, pyenv)]
    for candidate in filter(None, candidates):
        code = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
        ran = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return candidate
    return None


@cache
def reaches_packages() -> bool:
    probe = [sys.executable, "-m", "pip", "--quiet", "install", "--dry-run", "--ignore-installed", "--no-deps", "mdurl"]
    return subprocess.run(probe, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not reaches_packages():
        pytest.skip("no packages can be installed from here")
    return release.build(release.ROOT, tmp_path_factory.mktemp("dist"))[1]


@pytest.fixture(params=VERSIONS)
def interpreter(request: pytest.FixtureRequest) -> str:
    found = python(request.param)
    if found is None:
        pytest.skip(f"Python {request.param} was not found")
    return found


def program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get(TOOLS, ""), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} was not found; make test-install installs it")
    return found


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of this one is found, but for package indexes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RALPH_", "PYTHON", "VIRTUAL"))}
    places = {
        "PIPX_HOME": "pipx",
        "PIPX_BIN_DIR": "bin",
        "PIPX_MAN_DIR": "man",
        "UV_TOOL_DIR": "uv",
        "UV_TOOL_BIN_DIR": "bin",
        "HOME": "home",
    }
    (home / "home").mkdir(exist_ok=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    kept |= {name: str(home / place) for name, place in places.items()}
    return kept | {"UV_PYTHON_DOWNLOADS": "never", "XDG_CACHE_HOME": cache}


def run(command: list[str], home: Path, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory or home, env=environment(home), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def install(command: list[str], home: Path) -> None:
    ran = run(command, home)
    assert ran.returncode == 0, ran.stderr


def check_works(bin: Path, home: Path, hint: str, wheel: Path) -> None:
    """Use the installed commands for the first time, and ask for an extra that is missing."""
    directory = home / "project"
    directory.mkdir()
    for command in ("ralph", "ralph-memory"):
        assert __version__ in run([str(bin / command), "--version"], home).stdout
    for arguments in (["init"], ["memory", "add", "Tests need UTF-8"], ["memory", "search", "UTF-8"], ["status"]):
        ran = run([str(bin / "ralph"), *arguments], home, directory)
        assert ran.returncode == 0, ran.stderr
    ran = run([str(bin / "ralph"), "serve"], home, directory)
    assert ran.returncode == 1
    assert f"{hint} '{wheel}[server]'" in ran.stderr


def test_pip(wheel: Path, interpreter: str, tmp_path: Path) -> None:
    install([interpreter, "-m", "venv", "env"], tmp_path)
    install(["env/bin/python", "-m", "pip", "--quiet", "install", str(wheel)], tmp_path)

    check_works(tmp_path / "env" / "bin", tmp_path, "pip install", wheel)
    install(["env/bin/python", "-m", "pip", "--quiet", "install", f"{wheel}[server]"], tmp_path)
    code = "import jinja2, msgspec, starlette, uvicorn; import ralph.web.app"
    assert run(["env/bin/python", "-c", code], tmp_path).returncode == 0


def test_the_quick_starts_of_the_readme_work_as_printed(wheel: Path, tmp_path: Path) -> None:
    install([sys.executable, "-m", "venv", "env"], tmp_path)
    install(["env/bin/python", "-m", "pip", "--quiet", "install", str(wheel)], tmp_path)
    reader = pages.reader(tmp_path / "empty-home", tmp_path / "programs", tmp_path / "env" / "bin")
    text = (release.ROOT / "README.md").read_text(encoding="utf-8")

    for number, part in enumerate(text.split(pages.ANOTHER_PROJECT)):
        a_shop(tmp_path / str(number) / "shop")
        ended = pages.run_page(part, tmp_path / str(number) / "shop", reader, {})
        assert len(ended) == 3
        assert [(one.command, one.code) for one in ended if one.code] == []
        assert [one.output for one in ended if not pages.matches(one.shown, one.output)] == []


def test_pipx(wheel: Path, interpreter: str, tmp_path: Path) -> None:
    install([program("pipx"), "install", "--quiet", "--python", interpreter, str(wheel)], tmp_path)

    check_works(tmp_path / "bin", tmp_path, "pipx install --force", wheel)


def test_uv(wheel: Path, interpreter: str, tmp_path: Path) -> None:
    install([program("uv"), "tool", "install", "--quiet", "--python", interpreter, str(wheel)], tmp_path)

    check_works(tmp_path / "bin", tmp_path, "uv tool install --force", wheel)


def test_the_name_of_the_package_is_a_command_for_uvx_and_pipx_run(wheel: Path, tmp_path: Path) -> None:
    with_uv = [program("uv"), "tool", "run", "--python", sys.executable, "--from", str(wheel), "ralph-memory"]
    with_pipx = [program("pipx"), "run", "--python", sys.executable, "--spec", str(wheel), "ralph-memory"]

    for command in (with_uv, with_pipx):
        ran = run([*command, "--version"], tmp_path)
        assert __version__ in ran.stdout, ran.stderr
