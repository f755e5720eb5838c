from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.storeless

SCRIPT = Path(__file__).parent / "elsewhere.py"


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_modules_import_and_memory_works_without_what_another_system_lacks(system: str, tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RALPH_")}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), system],
        cwd=tmp_path,
        env=variables | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "UTF-8" in ran.stdout
