"""Build the sdist and the wheel reproducibly, and check what a release needs.

`python -m tests.distribution.release build FOLDER` builds; `… check` says what is missing for a release, if anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from email.parser import BytesParser
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "docs", "src")
"""Files and folders that the sdist is made of."""

_BUILD = """
import sys
from flit_core.buildapi import build_sdist, build_wheel
print(build_sdist(sys.argv[1]), build_wheel(sys.argv[1]))
"""


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist and the wheel of a source folder, with the time of its last change; return their paths."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or last_change()}
    command = [sys.executable, "-c", _BUILD, str(folder)]
    names = subprocess.run(command, cwd=source, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
    sdist, wheel = names.split()
    return folder / sdist, folder / wheel


def last_change() -> str:
    """Return the time of the last commit in seconds since 1970, or a fixed one without git."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "1767225600"  # 2026-01-01


def copy_sources(folder: Path) -> Path:
    """Copy what is built to another folder, with times of its own."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, copy_function=shutil.copyfile, ignore=ignored)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def differences(folder: Path) -> list[str]:
    """Return which files differ among a build here, one of a copy, and a wheel built from the sdist."""
    first = build(ROOT, folder / "first")
    second = build(copy_sources(folder / "elsewhere" / "ralph"), folder / "second")
    with tarfile.open(first[0]) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    third = build(unpacked, folder / "third")
    pairs = [(first[0], second[0]), (first[1], second[1]), (first[1], third[1])]
    return [f"{one} and {two} differ" for one, two in pairs if one.read_bytes() != two.read_bytes()]


def metadata(wheel: Path) -> dict[str, list[str]]:
    """Return the fields of a wheel's metadata, each with its values."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = BytesParser().parsebytes(archive.read(name))
    return {key: [str(value) for value in message.get_all(key, [])] for key in message}


def missing() -> list[str]:
    """Return what a release still needs, beside builds that do not differ."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = _find(r'^__version__ = "([^"]+)"', "src/ralph/__init__.py")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = changes.partition("## [Unreleased]")[2].partition("\n## [")[0].strip()
    status = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain"], capture_output=True, text=True).stdout
    checks = {
        "[project.urls] in pyproject.toml: at least Source and Changelog, once the repository is public": bool(
            project.get("urls")
        ),
        f"a section [{version}] with a date in CHANGELOG.md": f"## [{version}] - " in changes,
        "an empty section [Unreleased] in CHANGELOG.md": not unreleased,
        f"version {version} in CITATION.cff": _find(r"^version: (\S+)", "CITATION.cff") == version,
        "a clean working tree": not status,
    }
    return [name for name, is_met in checks.items() if not is_met]


def _find(pattern: str, path: str) -> str:
    found = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{pattern} was not found in {path}"
    return found[1]


def main() -> int:
    """Build into the folder that is given, or check; return the exit status."""
    if sys.argv[1] == "build":
        for path in build(ROOT, Path(sys.argv[2])):
            print(f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(Path.cwd())}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        problems = [*differences(Path(folder)), *(f"missing: {one}" for one in missing())]
    print("\n".join(problems) or "Two builds are identical, and nothing is missing.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
