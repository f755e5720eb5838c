"""How an extra is installed depends on where Ralph came from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ralph.core.extras import install_hint, upgrade_command

pytestmark = pytest.mark.storeless


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the metadata of a Ralph that is found before the one that runs the tests."""
    metadata = tmp_path / "packages" / "ralph_memory-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ralph-memory\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(metadata.parent))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return metadata


def came_from(metadata: Path, url: str, **how: object) -> None:
    (metadata / "direct_url.json").write_text(json.dumps({"url": url, **how}))


def test_from_an_index_it_is_named(installed: Path) -> None:
    assert install_hint("server").endswith(" pip install 'ralph-memory[server]'")
    assert upgrade_command() == "pip install --upgrade ralph-memory"


def test_from_a_clone_or_a_wheel_its_path_is_named(installed: Path, tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    came_from(installed, clone.as_uri(), dir_info={})

    assert install_hint("server").endswith(f" pip install '{clone}[server]'")
    assert upgrade_command() == f"pip install --upgrade '{clone}'"

    came_from(installed, clone.as_uri(), dir_info={"editable": True})
    assert install_hint("server").endswith(f" pip install -e '{clone}[server]'")


def test_where_the_clone_is_gone_any_will_do(installed: Path, tmp_path: Path) -> None:
    came_from(installed, (tmp_path / "gone").as_uri(), dir_info={})

    assert install_hint("server").endswith(" in a clone of Ralph: pip install '.[server]'")


def test_a_repository_is_named_with_its_address(installed: Path) -> None:
    came_from(installed, "https://example.org/ralph.git", vcs_info={"vcs": "git", "commit_id": "0"})

    assert "'ralph-memory[acp] @ git+https://example.org/ralph.git'" in install_hint("acp")


def test_the_program_that_installed_it_is_named(installed: Path, tmp_path: Path) -> None:
    came_from(installed, tmp_path.as_uri(), dir_info={})
    (tmp_path / "uv-receipt.toml").touch()

    assert install_hint("server").endswith(f" uv tool install --force '{tmp_path}[server]'")
    assert upgrade_command() == "uv tool upgrade ralph-memory"
