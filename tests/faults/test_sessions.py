"""An agent in a session of a real run cannot do what only a person may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults import sessions

pytestmark = pytest.mark.sqlite

OPERATIONS = ("task done", "task delete", "memory clear", "run", "store copy", "forget", "import sessions")
NEEDS_NAMESPACES = ("in other namespaces", "in another mount namespace")


def can_unshare() -> bool:
    """Return whether this machine lets processes make namespaces."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--mount-proc", "--fork", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "way",
    ["without any variable", "as a daemon", "as an orphan", "through the Python API", *NEEDS_NAMESPACES],
)
def test_an_agent_stays_an_agent(tmp_path: Path, way: str) -> None:
    if way in NEEDS_NAMESPACES and not can_unshare():
        pytest.skip("this machine does not let processes make namespaces")

    assert sessions.attack(tmp_path / "case", way, OPERATIONS) == []
